/* SPDX-License-Identifier: Apache-2.0
 *
 * Many numbers in little memory: the count of numbers in each bin. Up to 255 each number has a separate bin;
 * above, each power of two has 64 bins, so the middle of a bin is at most 0.8 % off. Before version 7 of the
 * tables a power of two had 128, two in each of these. */
#include "store/bins.h"

#include <stdlib.h>

enum { BITS = 6, PER_POWER = 1 << BITS, EXACT_BITS = 8, EXACT = 1 << EXACT_BITS };

static uint32_t bin_of(int64_t value) {
    const uint64_t v = (uint64_t)value;
    if (v < EXACT) return (uint32_t)v;
    const int top = 63 - __builtin_clzll(v);
    return (uint32_t)(EXACT + (top - EXACT_BITS) * PER_POWER + (int)(v >> (top - BITS)) - PER_POWER);
}

static int shift_of(uint32_t at) {
    return at < EXACT ? 0 : (int)(at - EXACT) / PER_POWER + EXACT_BITS - BITS;
}

static int64_t lowest(uint32_t at) {
    return at < EXACT ? at : (int64_t)(PER_POWER + (at - EXACT) % PER_POWER) << shift_of(at);
}

/* The bin of one of before version 7. */
enum { OLD_BITS = 7, OLD_PER_POWER = 1 << OLD_BITS, OLD_BINS = 48 * OLD_PER_POWER };
static uint32_t of_old(uint32_t at) {
    const uint32_t shift = at < 2 * OLD_PER_POWER ? 0 : at / OLD_PER_POWER - 1;
    return bin_of((int64_t)(at - shift * OLD_PER_POWER) << shift);
}

static int64_t width(uint32_t at) { return INT64_C(1) << shift_of(at); }

/* == filling =========================================================================================== */

void lmi_bins_free(lmi_bins *b) {
    free(b->all);
    *b = (lmi_bins){.all = NULL};
}

static bool grow(lmi_bins *b) {
    const uint32_t cap = b->cap ? b->cap * 2 : 8;
    lmi_bin *all = realloc(b->all, cap * sizeof *all);
    if (!all) return false;
    b->all = all;
    b->cap = cap;
    return true;
}

/* The index of the first bin that is not below `at`. */
static uint32_t find(const lmi_bins *b, uint32_t at) {
    uint32_t from = 0, to = b->n;
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (b->all[middle].at < at)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool add(lmi_bins *b, uint32_t at, uint64_t n) {
    const uint32_t i = find(b, at);
    if (i < b->n && b->all[i].at == at) {
        b->all[i].n += n;
        return true;
    }
    if (b->n == b->cap && !grow(b)) return false;
    memmove(b->all + i + 1, b->all + i, (b->n - i) * sizeof *b->all);
    b->all[i] = (lmi_bin){at, n};
    b->n++;
    return true;
}

bool lmi_bins_add(lmi_bins *b, int64_t value, int64_t weight) {
    if (value < 0) return true;
    b->numbers++;
    return add(b, bin_of(value), (uint64_t)weight);
}

/* == results =========================================================================================== */

/* The value at `rank`, if the numbers of a bin are spread evenly over it. */
static int64_t at_rank(const lmi_bins *b, int64_t rank) {
    for (uint32_t i = 0; i < b->n; rank -= (int64_t)b->all[i++].n) {
        const lmi_bin *bin = &b->all[i];
        const double part = ((double)rank + 0.5) / (double)bin->n;
        if (rank < (int64_t)bin->n) return lowest(bin->at) + (int64_t)(part * (double)width(bin->at));
    }
    return 0;
}

/* How many numbers are at most `away` from `middle`, if those of a bin are spread evenly. */
static double within(const lmi_bins *b, int64_t middle, int64_t away) {
    double sum = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const int64_t wide = width(b->all[i].at);
        int64_t from = lowest(b->all[i].at), to = from + wide;
        if (from < middle - away) from = middle - away;
        if (to > middle + away + 1) to = middle + away + 1;
        if (to > from) sum += (double)b->all[i].n * ((double)(to - from) / (double)wide);
    }
    return sum;
}

static int64_t deviation_at_rank(const lmi_bins *b, int64_t middle, int64_t rank) {
    int64_t from = 0, to = LMI_MOST * 2;
    while (from < to) {
        const int64_t away = from + (to - from) / 2;
        if (within(b, middle, away) < (double)rank + 0.5)
            from = away + 1;
        else
            to = away;
    }
    return from;
}

static int64_t between(int64_t low, int64_t high) { return low + (high - low) / 2; }

lam_middle lmi_bins_middle(const lmi_bins *b) {
    lam_middle m = {0, 0, b->numbers};
    int64_t weight = 0;
    for (uint32_t i = 0; i < b->n; i++) weight += (int64_t)b->all[i].n;
    if (!weight) return m;
    const int64_t low = (weight - 1) / 2, high = weight / 2;
    m.median = between(at_rank(b, low), at_rank(b, high));
    m.deviation = between(deviation_at_rank(b, m.median, low), deviation_at_rank(b, m.median, high));
    return m;
}

/* == in a file ========================================================================================= */

void lmi_put_varint(lmi_buf *b, uint64_t n) {
    for (; n >= 128; n >>= 7) lmi_putc(b, (char)(n | 128));
    lmi_putc(b, (char)n);
}

void lmi_bins_put(const lmi_bins *b, lmi_buf *to) {
    lmi_put_varint(to, (uint64_t)b->n << 1);
    for (uint32_t i = 0, before = 0; i < b->n; before = b->all[i++].at) {
        const bool several = b->all[i].n > 1;
        lmi_put_varint(to, (uint64_t)(b->all[i].at - before) << 1 | several);
        if (several) lmi_put_varint(to, b->all[i].n);
    }
}

void lmi_bins_put_same(int number, lmi_buf *to) { lmi_put_varint(to, (uint64_t)number << 1 | 1); }

static bool get_varint(const unsigned char **at, const unsigned char *end, uint32_t most, uint32_t *out) {
    uint64_t n = 0;
    for (int shift = 0; *at < end && shift < 35; shift += 7) {
        const unsigned char byte = *(*at)++;
        n |= (uint64_t)(byte & 127) << shift;
        *out = (uint32_t)n;
        if (byte < 128) return n <= most;
    }
    return false;
}

int lmi_bins_same(const unsigned char **at, const unsigned char *end) {
    uint32_t number;
    if (*at == end || !(**at & 1)) return -1;
    return get_varint(at, end, INT16_MAX, &number) ? (int)(number >> 1) : INT16_MAX;
}

/* Reads the distance of a bin from the one before, and its count. */
static bool get_bin(const unsigned char **at, const unsigned char *end, bool old, uint32_t *step,
                    uint32_t *times) {
    *times = 1;
    if (old) return get_varint(at, end, OLD_BINS, step) && get_varint(at, end, UINT32_MAX, times);
    if (!get_varint(at, end, 2 * LMI_BINS, step)) return false;
    const bool several = *step & 1;
    *step >>= 1;
    return !several || get_varint(at, end, UINT32_MAX, times);
}

lam_status lmi_bins_get(lmi_bins *b, const unsigned char **at, const unsigned char *end, int64_t most,
                        int64_t weight, bool old) {
    const uint32_t bins = old ? OLD_BINS : LMI_BINS;
    uint32_t n, step, times, bin = 0;
    if (!get_varint(at, end, old ? OLD_BINS : 2 * LMI_BINS, &n)) return LAM_RANGE;
    if (!old && n & 1) return LAM_RANGE;
    for (uint32_t i = 0; i < (old ? n : n >> 1); i++) {
        if (!get_bin(at, end, old, &step, &times)) return LAM_RANGE;
        bin += step;
        most -= times;
        if (bin >= bins || most < 0 || !times || (i && !step)) return LAM_RANGE;
        if (!add(b, old ? of_old(bin) : bin, (uint64_t)times * (uint64_t)weight)) return LAM_NOMEM;
        b->numbers += times;
    }
    return LAM_OK;
}
