/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts: numbers of up to 95 bits with a state: exact, at least, unknown. */
#include "base/base.h"

static lam_count make(int64_t n, lam_state state) { return (lam_count){.n = n, .over = 0, .state = state}; }

lam_count lmi_exact(int64_t n) { return make(n, LAM_EXACT); }
lam_count lmi_unknown(void) { return make(0, LAM_UNKNOWN); }
lam_count lmi_at_least(int64_t n) { return make(n, LAM_AT_LEAST); }

lam_count lmi_of_wide(lmi_int128 n) {
    return (lam_count){(int64_t)(n & INT64_MAX), (uint32_t)(n >> 63), LAM_EXACT};
}

const char *lam_state_name(lam_state s) {
    static const char *const names[] = {"exact", "at least", "unknown"};
    return (unsigned)s < 3 ? names[s] : "?";
}

const char *lam_metric_name(lam_metric m) {
    static const char *const names[LAM_N_METRICS] = {"macs",           "flops",         "dmas",
                                                     "bytes_read",     "bytes_written", "effective_macs",
                                                     "effective_flops"};
    return (unsigned)m < LAM_N_METRICS ? names[m] : "?";
}

lmi_int128 lmi_count_wide(lam_count c) { return (lmi_int128)c.over * ((lmi_int128)1 << 63) + c.n; }

/* A sum beyond 95 bits becomes the largest value, as a lower bound; no real model reaches it. */
lam_count lam_count_add(lam_count a, lam_count b) {
    int64_t small;
    if (!(a.over | b.over) && a.n >= 0 && b.n >= 0 && !lmi_add_over(a.n, b.n, &small))
        return make(small, a.state > b.state ? a.state : b.state);
    const lmi_int128 least = INT64_MIN, most = ((lmi_int128)UINT32_MAX << 63) + INT64_MAX;
    lmi_int128 sum = lmi_count_wide(a) + lmi_count_wide(b);
    lam_state state = a.state > b.state ? a.state : b.state;
    if (sum > most || sum < least) {
        sum = sum > most ? most : least;
        if (state == LAM_EXACT) state = LAM_AT_LEAST;
    }
    if (sum < 0) return make((int64_t)sum, state);
    lam_count c = lmi_of_wide(sum);
    c.state = state;
    return c;
}

bool lmi_is_same(lam_count a, lam_count b) { return a.n == b.n && a.over == b.over && a.state == b.state; }

double lmi_count_double(lam_count c) { return (double)lmi_count_wide(c); }

lam_count lam_metric_bytes(const lam_count metric[LAM_N_METRICS]) {
    lam_count sum = lam_count_add(metric[LAM_BYTES_READ], metric[LAM_BYTES_WRITTEN]);
    if (sum.state == LAM_UNKNOWN && (sum.n > 0 || sum.over > 0)) sum.state = LAM_AT_LEAST;
    return sum;
}

double lam_metric_intensity(const lam_count metric[LAM_N_METRICS]) {
    lam_count bytes = lam_metric_bytes(metric), flops = metric[LAM_FLOPS];
    bool known = bytes.state == LAM_EXACT && flops.state == LAM_EXACT && lmi_count_wide(bytes) > 0;
    return known ? lmi_count_double(flops) / lmi_count_double(bytes) : -1;
}

int64_t lmi_plus(int64_t a, int64_t b) {
    int64_t sum;
    return a < 0 || b < 0 || lmi_add_over(a, b, &sum) ? -1 : sum;
}

int64_t lmi_times(int64_t a, int64_t b) {
    int64_t product;
    return a < 0 || b < 0 || lmi_mul_over(a, b, &product) ? -1 : product;
}

bool lmi_product(const int64_t *v, int32_t n, int64_t *out) {
    int64_t product = 1;
    bool fits = true, zero = false;
    for (int32_t i = 0; i < n; i++) {
        if (v[i] < 0) return false;
        zero = zero || v[i] == 0;
        fits = fits && !lmi_mul_over(product, v[i], &product);
    }
    /* With a size of 0 the product is 0, even if the others overflow. */
    if (zero) product = 0;
    if (zero || fits) *out = product;
    return zero || fits;
}

size_t lmi_lower_bound(const void *items, size_t n, size_t size, int32_t key) {
    size_t low = 0;
    for (size_t high = n; low < high;) {
        size_t mid = low + (high - low) / 2;
        int32_t of_mid;
        memcpy(&of_mid, (const char *)items + mid * size, sizeof of_mid);
        if (of_mid < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int64_t lmi_gcd(int64_t a, int64_t b) {
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a ? a : 1;
}
