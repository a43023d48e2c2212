/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN and Inf: found at every place, in every type, through every stride, and nothing else taken for one. */
#include "kit/oom.h"
#include "kit/views.h"

#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static lam_nonfinite scan(const void *data, int32_t dtype, int32_t ndim, const int64_t *sizes,
                          const int64_t *strides) {
    lam_nonfinite found = {-1, -1, -1, -2};
    lam_values v = {data, dtype, ndim, sizes, strides};
    assert_int_equal(lam_values_scan(&v, &found, NULL), LAM_OK);
    return found;
}

#define ONE_AXIS(n) 1, (const int64_t[]){n}, NULL

/* Every length up to some vectors, every place in it, from every offset: exactly one is found. */
static void every_place(void **state) {
    (void)state;
    enum { MOST = 300 };
    float *x = calloc(MOST + 3, sizeof *x);
    for (int64_t n = 1; n < MOST; n = n < 70 ? n + 1 : n + 23)
        for (int64_t at = 0; at < n; at++) {
            float *from = x + at % 3;
            from[at] = at % 2 ? NAN : -INFINITY;
            lam_nonfinite found = scan(from, 6, ONE_AXIS(n));
            assert_int_equal(found.nan, at % 2);
            assert_int_equal(found.inf, 1 - at % 2);
            assert_int_equal(found.negative, 1 - at % 2);
            assert_int_equal(found.first, at);
            from[at] = 0;
            found = scan(from, 6, ONE_AXIS(n));
            assert_int_equal(found.nan + found.inf, 0);
            assert_int_equal(found.first, -1);
        }
    free(x);
}

/* Every pattern of bits of the small types, against what their value is by definition. */
static void every_pattern(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t v = (uint16_t)bits;
        bool half = (v & 0x7C00) == 0x7C00, brain = (v & 0x7F80) == 0x7F80;
        lam_nonfinite found = scan(&v, 5, ONE_AXIS(1));
        assert_int_equal(found.inf, half && (v & 0x3FF) == 0);
        assert_int_equal(found.nan, half && (v & 0x3FF) != 0);
        found = scan(&v, 15, ONE_AXIS(1));
        assert_int_equal(found.inf, brain && (v & 0x7F) == 0);
        assert_int_equal(found.nan, brain && (v & 0x7F) != 0);
    }
    const uint16_t pairs[] = {0x3F80, 0x7FC0, 0x3F80, 0xFF80}; /* bcomplex32: 1 + NaN i, 1 - Inf i */
    lam_nonfinite in_pairs = scan(pairs, 46, ONE_AXIS(2));
    assert_int_equal(in_pairs.nan, 1);
    assert_int_equal(in_pairs.inf, 1);
    assert_int_equal(in_pairs.negative, 0);
    for (uint32_t bits = 0; bits < 256; bits++) {
        uint8_t v = (uint8_t)bits;
        assert_int_equal(scan(&v, 23, ONE_AXIS(1)).inf, v == 0x7C || v == 0xFC);
        assert_int_equal(scan(&v, 23, ONE_AXIS(1)).nan, (v & 0x7F) > 0x7C);
        assert_int_equal(scan(&v, 24, ONE_AXIS(1)).nan, v == 0x7F || v == 0xFF);
        assert_int_equal(scan(&v, 25, ONE_AXIS(1)).nan, v == 0x80);
        assert_int_equal(scan(&v, 26, ONE_AXIS(1)).nan, v == 0x80);
        assert_int_equal(scan(&v, 44, ONE_AXIS(1)).nan, v == 0xFF);
        for (int32_t dtype = 24; dtype < 27; dtype++) assert_int_equal(scan(&v, dtype, ONE_AXIS(1)).inf, 0);
    }
    static const double values[] = {0, -0.0, 1e308, -1e308, 5e-324, NAN, INFINITY, -INFINITY, -NAN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        float f = (float)values[i];
        lam_nonfinite d = scan(&values[i], 7, ONE_AXIS(1)), s = scan(&f, 6, ONE_AXIS(1));
        assert_int_equal(d.nan, isnan(values[i]) != 0);
        assert_int_equal(d.inf, isinf(values[i]) != 0);
        assert_int_equal(s.nan, isnan(f) != 0);
        assert_int_equal(s.inf, isinf(f) != 0);
    }
}

/* Long runs of each type: a few are hidden in them, and exactly those are counted. */
static void long_runs(void **state) {
    (void)state;
    static const struct {
        int32_t dtype, bytes;
        uint64_t nan, inf, plain;
    } types[] = {{7, 8, 0x7FF8000000000001u, 0xFFF0000000000000u, 0x3FF0000000000000u},
                 {6, 4, 0xFFC00000u, 0x7F800000u, 0x3F800000u},
                 {5, 2, 0x7E00u, 0xFC00u, 0x3C00u},
                 {15, 2, 0x7FC0u, 0xFF80u, 0x3F80u},
                 {23, 1, 0x7Fu, 0xFCu, 0x3Cu},
                 {24, 1, 0xFFu, 0xFFu, 0x38u}};
    enum { N = 20000 };
    char *x = malloc(N * 8);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t bytes = (size_t)types[t].bytes;
        for (size_t i = 0; i < N; i++) {
            uint64_t v = i % 4999 == 17 ? types[t].nan : i % 7001 == 30 ? types[t].inf : types[t].plain;
            memcpy(x + i * bytes, &v, bytes);
        }
        lam_nonfinite found = scan(x, types[t].dtype, ONE_AXIS(N));
        int64_t nans = 0, infs = 0;
        for (int64_t i = 0; i < N; i++) {
            nans += i % 4999 == 17;
            infs += i % 4999 != 17 && i % 7001 == 30;
        }
        bool no_inf = types[t].dtype == 24;
        assert_int_equal(found.nan, no_inf ? nans + infs : nans);
        assert_int_equal(found.inf, no_inf ? 0 : infs);
    }
    free(x);
}

/* Random views of a cube: what is counted is what a walk over every element of the view finds. */
static void strides(void **state) {
    (void)state;
    float *x = calloc(VIEW_CELLS, sizeof *x);
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < VIEW_CELLS; i++) x[i] = draw() % 300 ? 1 : draw() % 2 ? NAN : INFINITY;
        view v = view_of(1 + (int32_t)(draw() % 4));
        int64_t nan = 0, inf = 0, first = -1;
        for (int64_t k = 0; k < v.n; k++) {
            float one = x[view_at(&v, k)];
            nan += isnan(one) != 0;
            inf += isinf(one) != 0;
            if (first < 0 && !isfinite(one)) first = k;
        }
        lam_nonfinite found = scan(x, 6, v.ndim, v.sizes, v.steps);
        assert_int_equal(found.nan, nan);
        assert_int_equal(found.inf, inf);
        assert_int_equal(found.negative, 0);
        assert_int_equal(found.first, first);
    }
    free(x);
}

static void odd_ones(void **state) {
    (void)state;
    const double pair[4] = {1, NAN, INFINITY, 2};
    assert_int_equal(scan(pair, 10, ONE_AXIS(2)).nan, 1);
    assert_int_equal(scan(pair, 10, ONE_AXIS(2)).inf, 1);
    assert_int_equal(scan(pair + 2, 10, ONE_AXIS(1)).first, 0);
    assert_int_equal(scan(pair, 7, 0, NULL, NULL).nan, 0);
    assert_int_equal(scan(pair + 1, 7, 0, NULL, NULL).nan, 1);
    assert_int_equal(scan(pair, 4, ONE_AXIS(4)).nan, 0); /* whole numbers of any bits */
    assert_int_equal(scan(NULL, 6, ONE_AXIS(0)).nan, 0);
    lam_nonfinite found;
    lam_error e = {0};
    lam_values v = {NULL, 6, 1, (const int64_t[]){3}, NULL};
    assert_int_equal(lam_values_scan(&v, &found, &e), LAM_USAGE);
    v.dtype = 99;
    assert_int_equal(lam_values_scan(&v, &found, NULL), LAM_UNSUPPORTED);
    v = (lam_values){pair, 7, 1, (const int64_t[]){-1}, NULL};
    assert_int_equal(lam_values_scan(&v, &found, NULL), LAM_RANGE);
    v = (lam_values){pair, 7, 2, (const int64_t[]){INT64_MAX, 4}, NULL};
    assert_int_equal(lam_values_scan(&v, &found, NULL), LAM_RANGE);
    v = (lam_values){pair, 7, 1, (const int64_t[]){2}, (const int64_t[]){-1}};
    assert_int_equal(lam_values_scan(&v, &found, NULL), LAM_RANGE);
    v = (lam_values){pair, 7, 64, (const int64_t[]){2}, NULL};
    assert_int_equal(lam_values_scan(&v, &found, NULL), LAM_RANGE);
}

/* -- statistics --------------------------------------------------------------------------------------- */

/* What a pattern of bits is worth, from the definition of its type: sign, exponent, fraction. */
static double worth(uint64_t bits, int32_t dtype) {
    static const struct {
        int32_t dtype, exponent, fraction, bias;
        bool ieee, zero_is_nan;
    } types[] = {{7, 11, 52, 1023, true, false}, {6, 8, 23, 127, true, false}, {5, 5, 10, 15, true, false},
                 {15, 8, 7, 127, true, false},   {23, 5, 2, 15, true, false},  {24, 4, 3, 7, false, false},
                 {25, 5, 2, 16, false, true},    {26, 4, 3, 8, false, true}};
    if (dtype == 44) return bits == 255 ? NAN : ldexp(1, (int)bits - 127);
    size_t t = 0;
    while (types[t].dtype != dtype) t++;
    int e = types[t].exponent, m = types[t].fraction;
    uint64_t raw = bits >> m & ((UINT64_C(1) << e) - 1), part = bits & ((UINT64_C(1) << m) - 1);
    bool negative = bits >> (e + m) & 1, top = raw == (UINT64_C(1) << e) - 1;
    double v = raw ? ldexp(1 + ldexp((double)part, -m), (int)raw - types[t].bias)
                   : ldexp((double)part, 1 - types[t].bias - m);
    if (types[t].ieee && top) v = part ? NAN : INFINITY;
    if (dtype == 24 && top && part == 7) v = NAN;
    if (types[t].zero_is_nan && negative && raw == 0 && part == 0) return NAN;
    return negative ? -v : v;
}

static double smallest_normal(int32_t dtype) {
    switch (dtype) {
    case 7: return 0x1p-1022;
    case 5:
    case 23: return 0x1p-14;
    case 24: return 0x1p-6;
    case 25: return 0x1p-15;
    case 26: return 0x1p-7;
    case 44: return 0;
    default: return 0x1p-126;
    }
}

static void same(double a, double b, double within) {
    assert_true(isnan(a) ? isnan(b) : a == b || fabs(a - b) <= within * fmax(fabs(a), fabs(b)));
}

static uint64_t low_bits(int32_t bytes) { return bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1; }

/* Random bits of every type and length, with and without what is not finite, against sums of what each is
 * worth. */
static void statistics(void **state) {
    (void)state;
    static const int32_t types[] = {7, 6, 5, 15, 23, 24, 25, 26, 44}, bytes[] = {8, 4, 2, 2, 1, 1, 1, 1, 1};
    static const double largest[] = {
        0x1.fffffffffffffp1023, 0x1.fffffep127, 65504, 0x1.fep127, 57344, 448, 57344, 240, 0x1p127};
    enum { MOST = 5000 };
    char *x = calloc(MOST, 8);
    for (int round = 0; round < 900; round++) {
        size_t t = (size_t)round % 9;
        int64_t n = (int64_t)(draw() % (round % 4 ? 70 : MOST)), step = 1 + (int64_t)(draw() % 3 == 0);
        lam_stats want = {.least = INFINITY, .greatest = -INFINITY};
        double sum = 0, size = 0;
        for (int64_t i = 0; i < MOST; i++) {
            uint64_t bits = draw() % 9 ? draw() << 31 ^ draw() : 0; /* draw() gives 31 bits */
            if (bytes[t] >= 4) bits = bytes[t] == 8 ? bits << 2 ^ draw() : bits & 0xFFFFFFFFu;
            if (round / 9 % 2 && !isfinite(worth(bits & low_bits(bytes[t]), types[t]))) bits = 0;
            memcpy(x + i * bytes[t], &bits, (size_t)bytes[t]);
        }
        if (n * step > MOST) n = MOST / step;
        for (int64_t i = 0; i < n; i++) {
            uint64_t bits = 0;
            memcpy(&bits, x + i * step * bytes[t], (size_t)bytes[t]);
            double v = worth(bits, types[t]);
            want.nan += isnan(v) != 0;
            want.inf += isinf(v) != 0;
            if (!isfinite(v)) continue;
            want.zeros += v == 0;
            want.subnormal += v != 0 && fabs(v) < smallest_normal(types[t]);
            if (v < want.least) want.least = v;
            if (v > want.greatest) want.greatest = v;
            sum += v;
            size += fabs(v);
        }
        lam_stats got;
        lam_values v = {x, types[t], 1, &n, &step};
        assert_int_equal(lam_values_stats(&v, &got, NULL), LAM_OK);
        int64_t finite = n - want.nan - want.inf;
        assert_int_equal(got.numbers, n);
        assert_int_equal(got.nan, want.nan);
        assert_int_equal(got.inf, want.inf);
        assert_int_equal(got.zeros, want.zeros);
        assert_int_equal(got.subnormal, want.subnormal);
        same(got.least, finite ? want.least : NAN, 0);
        same(got.greatest, finite ? want.greatest : NAN, 0);
        if (!finite) continue;
        if (isfinite(size))
            assert_true(fabs(got.mean * (double)finite - sum) <= (bytes[t] == 8 ? 1e-13 : 2e-6) * size);
        double most = fmax(fabs(want.least), fabs(want.greatest));
        same(got.headroom, most > 0 ? log2(largest[t]) - log2(most) : INFINITY, 1e-9);
    }
    free(x);
}

static void odd_statistics(void **state) {
    (void)state;
    const float x[] = {1, -3, 0, NAN, INFINITY, 1e-40f};
    lam_stats s;
    lam_error e = {0};
    /* Each number is seen five times through an axis that takes no step. */
    lam_values v = {x, 6, 2, (const int64_t[]){5, 6}, (const int64_t[]){0, 1}};
    assert_int_equal(lam_values_stats(&v, &s, NULL), LAM_OK);
    assert_int_equal(s.numbers, 30);
    assert_int_equal(s.zeros, 5);
    assert_int_equal(s.nan, 5);
    assert_int_equal(s.inf, 5);
    assert_int_equal(s.subnormal, 5);
    assert_true(s.least == -3 && s.greatest == 1 && fabs(s.mean + 2.0 / 4) < 1e-12);
    v = (lam_values){x, 9, 1, (const int64_t[]){2}, NULL};
    assert_int_equal(lam_values_stats(&v, &s, NULL), LAM_OK);
    assert_int_equal(s.numbers, 4);
    v = (lam_values){NULL, 6, 1, (const int64_t[]){0}, NULL};
    assert_int_equal(lam_values_stats(&v, &s, NULL), LAM_OK);
    assert_true(s.numbers == 0 && isnan(s.mean) && isnan(s.headroom));
    v.dtype = 4;
    assert_int_equal(lam_values_stats(&v, &s, &e), LAM_UNSUPPORTED);
    v = (lam_values){NULL, 6, 1, (const int64_t[]){2}, NULL};
    assert_int_equal(lam_values_stats(&v, &s, NULL), LAM_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place),    cmocka_unit_test(every_pattern), cmocka_unit_test(long_runs),
        cmocka_unit_test(strides),        cmocka_unit_test(odd_ones),      cmocka_unit_test(statistics),
        cmocka_unit_test(odd_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
