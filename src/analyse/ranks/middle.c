/* SPDX-License-Identifier: Apache-2.0
 *
 * Medians of numbers some of which are unknown, stretches of time, and the moment from which numbers are
 * higher. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

/* Puts the number that sorting would put at `k` there, none greater before it, none smaller after it. */
static void select_at(double *v, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const double pivot = v[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot) i++;
            while (v[j] > pivot) j--;
            if (i > j) break;
            const double t = v[i];
            v[i++] = v[j];
            v[j--] = t;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            return;
    }
}

double lmi_middle(double *v, size_t n) {
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i])) v[known++] = v[i];
    if (!known) return NAN;
    const size_t k = known / 2;
    select_at(v, (int64_t)known, (int64_t)k);
    if (known % 2) return v[k];
    double below = v[0];
    for (size_t i = 1; i < k; i++)
        if (v[i] > below) below = v[i];
    return (below + v[k]) / 2;
}

double lmi_spread(double *apart, size_t n) { return 1.4826 * lmi_middle(apart, n); }

lmi_stretch lmi_most_hot(const bool *hot, int32_t n) {
    lmi_stretch best = {0, -1, 0}, now = best;
    for (int32_t i = 0; i < n; i++) {
        if (!hot[i]) continue;
        now = now.n && i - now.last <= 2 ? (lmi_stretch){now.first, i, now.n + 1} : (lmi_stretch){i, i, 1};
        if (now.n > best.n) best = now;
    }
    return best;
}

/* -- a rise -------------------------------------------------------------------------------------------- */

int lmi_by_number(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle_of(const double *v, int32_t n, double *room) {
    memcpy(room, v, (size_t)n * sizeof *room);
    return lmi_middle(room, (size_t)n);
}

/* The share of pairs of a number before `at` and one from there on in which the later one is higher: Mann and
 * Whitney's. */
static double higher_later(const double *v, int32_t n, int32_t at, double *room) {
    memcpy(room, v, (size_t)n * sizeof *room);
    qsort(room, (size_t)at, sizeof *room, lmi_by_number);
    qsort(room + at, (size_t)(n - at), sizeof *room, lmi_by_number);
    double pairs = 0;
    for (int32_t i = at, below = 0; i < n; i++) {
        while (below < at && room[below] < room[i]) below++;
        pairs += below;
    }
    return pairs / ((double)at * (n - at));
}

/* Whether a rise of `by` at `at` is far outside of what the numbers vary by anyway. */
static bool is_apart(const double *v, int32_t n, int32_t at, double before, double by, double *room) {
    if (higher_later(v, n, at, room) < 0.95) return false;
    for (int32_t i = 0; i < n; i++) room[i] = fabs(v[i] - before - (i < at ? 0 : by));
    const double spread = lmi_spread(room, (size_t)n);
    const double least = spread > 0.002 * before ? spread : 0.002 * before;
    return by >= 5 * least / sqrt(at < n - at ? at : n - at);
}

lam_status lmi_rise_of(const double *v, int32_t n, lmi_rise *out, lam_error *e) {
    const int32_t least = n / 8 > 3 ? n / 8 : 3;
    *out = (lmi_rise){-1, 0, 0};
    if (n < 2 * least) return LAM_OK;
    double *room = malloc((size_t)n * sizeof *room);
    if (!room) return lmi_nomem(e);
    for (int32_t at = least; at <= n - least; at++) {
        const double before = middle_of(v, at, room), by = middle_of(v + at, n - at, room) - before;
        if (!(before > 0) || (out->at >= 0 && by <= out->by) || by <= 0) continue;
        if (is_apart(v, n, at, before, by, room)) *out = (lmi_rise){at, by / before, by};
    }
    free(room);
    return LAM_OK;
}
