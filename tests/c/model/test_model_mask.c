/* SPDX-License-Identifier: Apache-2.0
 *
 * What masks in memory leave of scores: of every type, through every stride, against a walk over each element
 * that interprets it. */
#include "kit/oom.h"
#include "kit/views.h"

#include "model/model.h"

#include <math.h>
#include <stdlib.h>

enum { BOOL = 11, FLOAT16 = 5, BFLOAT16 = 15, FLOAT32 = 6, FLOAT64 = 7 };

static lam_mask mask_of(const void *data, int32_t dtype, int32_t ndim, const int64_t *sizes,
                        const int64_t *strides) {
    lam_mask found = {-1, -1};
    lam_values v = {data, dtype, ndim, sizes, strides};
    assert_int_equal(lam_values_mask(&v, &found, NULL), LAM_OK);
    return found;
}

/* What a pattern of 16 bits is worth, by the definition of its type. */
static double worth(uint16_t bits, bool half) {
    int e = half ? 5 : 8, m = half ? 10 : 7, bias = half ? 15 : 127;
    int raw = bits >> m & ((1 << e) - 1), part = bits & ((1 << m) - 1);
    double v = raw ? ldexp(1 + ldexp(part, -m), raw - bias) : ldexp(part, 1 - bias - m);
    if (raw == (1 << e) - 1) v = part ? (double)NAN : (double)INFINITY;
    return bits >> 15 ? -v : v;
}

/* Every pattern of bits of the small types; of the others what lies around those that mask. */
static void every_pattern(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        double half = worth(bits, true), brain = worth(bits, false);
        lam_mask h = mask_of(&bits, FLOAT16, 0, NULL, NULL), b = mask_of(&bits, BFLOAT16, 0, NULL, NULL);
        assert_int_equal(h.open, !(half <= -65504));
        assert_int_equal(b.open, !(brain <= -0x1.fep127));
        assert_int_equal(h.rows, h.open);
        assert_int_equal(b.rows, b.open);
    }
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        assert_int_equal(mask_of(&byte, BOOL, 0, NULL, NULL).open, i != 0);
    }
    const float lowest = -0x1.fffffep127f;
    const float singles[] = {-INFINITY, lowest, nextafterf(lowest, 0), INFINITY, -lowest, NAN, -NAN, 0,
                             -0.0f,     -1e9f};
    const double low = -0x1.fffffffffffffp1023;
    const double doubles[] = {-INFINITY, low, nextafter(low, 0), INFINITY, -low, NAN, -NAN, 0, -0.0, lowest};
    for (int i = 0; i < 10; i++) {
        assert_int_equal(mask_of(&singles[i], FLOAT32, 0, NULL, NULL).open, i > 1);
        assert_int_equal(mask_of(&doubles[i], FLOAT64, 0, NULL, NULL).open, i > 1);
    }
}

static const struct {
    int32_t dtype;
    size_t bytes;
    uint64_t shut[2], open[2];
} types[] = {{BOOL, 1, {0, 0}, {1, 255}},
             {FLOAT16, 2, {0xFC00, 0xFBFF}, {0, 0xFBFE}},
             {BFLOAT16, 2, {0xFF80, 0xFF7F}, {0, 0xFF81}},
             {FLOAT32, 4, {0xFF800000, 0xFF7FFFFF}, {0, 0xFF7FFFFE}},
             {FLOAT64, 8, {0xFFF0000000000000, 0xFFEFFFFFFFFFFFFF}, {0, 0xFFEFFFFFFFFFFFFE}}};
enum { N_TYPES = sizeof types / sizeof *types };

/* Cells of which `is_open` says what they are; the lowest byte of a little-endian word comes first. */
static void write_cells(char *to, size_t t, const bool *is_open, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = is_open[i] ? types[t].open[draw() % 2] : types[t].shut[draw() % 2];
        for (size_t k = 0; k < types[t].bytes; k++) to[(size_t)i * types[t].bytes + k] = (char)(v >> 8 * k);
    }
}

/* Every length up to some blocks. */
static void every_length(void **state) {
    (void)state;
    enum { MOST = 1000 };
    static bool is_open[MOST];
    char *x = malloc(MOST * 8);
    for (size_t t = 0; t < N_TYPES; t++)
        for (int64_t n = 0; n < MOST; n = n < 40 ? n + 1 : n + 37) {
            int64_t open = 0;
            uint64_t most = draw() % 4;
            for (int64_t i = 0; i < n; i++) open += is_open[i] = draw() % 3 < most;
            write_cells(x, t, is_open, n);
            lam_mask found = mask_of(x, types[t].dtype, 1, &n, NULL);
            assert_int_equal(found.open, open);
            assert_int_equal(found.rows, open > 0);
        }
    free(x);
}

/* Random views of a cube: what is counted is what a walk over every element of the view finds. */
static void strides(void **state) {
    (void)state;
    static bool is_open[VIEW_CELLS];
    char *x = malloc(VIEW_CELLS * 8);
    for (int round = 0; round < 5000; round++) {
        size_t t = draw() % N_TYPES;
        uint64_t rare = 1 + draw() % 8;
        for (int i = 0; i < VIEW_CELLS; i++) is_open[i] = draw() % rare == 0;
        write_cells(x, t, is_open, VIEW_CELLS);
        view v = view_of((int32_t)(draw() % 5));
        int64_t open = 0, rows = 0, in_row = 0, wide = v.ndim ? v.sizes[v.ndim - 1] : 1;
        for (int64_t k = 0; k < v.n; k++) {
            bool one = is_open[view_at(&v, k)];
            if (k % wide == 0) in_row = 0;
            if (one && in_row++ == 0) rows++;
            open += one;
        }
        lam_mask found = mask_of(x, types[t].dtype, v.ndim, v.sizes, v.steps);
        assert_int_equal(found.open, open);
        assert_int_equal(found.rows, rows);
    }
    free(x);
}

static void refused(lam_values v, lam_status want) {
    lam_mask found;
    lam_error e = {0};
    assert_int_equal(lam_values_mask(&v, &found, &e), want);
    assert_int_equal(e.status, want);
}

static void what_cannot_be(void **state) {
    (void)state;
    const float pair[2] = {0, 1};
    refused((lam_values){pair, 4, 1, (const int64_t[]){1}, NULL}, LAM_UNSUPPORTED); /* int64 */
    refused((lam_values){pair, 99, 1, (const int64_t[]){1}, NULL}, LAM_UNSUPPORTED);
    refused((lam_values){NULL, FLOAT32, 1, (const int64_t[]){2}, NULL}, LAM_USAGE);
    refused((lam_values){pair, FLOAT32, 1, (const int64_t[]){-1}, NULL}, LAM_RANGE);
    refused((lam_values){pair, FLOAT32, 2, (const int64_t[]){INT64_MAX, 4}, NULL}, LAM_RANGE);
    refused((lam_values){pair, FLOAT32, 1, (const int64_t[]){2}, (const int64_t[]){-1}}, LAM_RANGE);
    refused((lam_values){pair, FLOAT32, 1, (const int64_t[]){2}, (const int64_t[]){INT64_MAX}}, LAM_RANGE);
    refused((lam_values){pair, FLOAT32, 64, (const int64_t[]){2}, NULL}, LAM_RANGE);
    refused((lam_values){pair, FLOAT32, -1, NULL, NULL}, LAM_RANGE);
    lam_mask none = mask_of(NULL, FLOAT32, 2, (const int64_t[]){3, 0}, NULL);
    assert_int_equal(none.open + none.rows, 0);
}

/* -- ends of groups ------------------------------------------------------------------------------------ */

static lam_mask ends_of(const void *data, int32_t dtype, int64_t n, int64_t step) {
    lam_mask found = {-1, -1};
    lam_values v = {data, dtype, 1, &n, &step};
    assert_int_equal(lam_values_ends(&v, &found, NULL), LAM_OK);
    return found;
}

static void ends(void **state) {
    (void)state;
    enum { INT32 = 3, INT64 = 4 };
    const int32_t few[] = {2, 2, 5, 5, 9}, falls[] = {4, 3}, below[] = {-1, -1};
    const int64_t many[] = {0, 7, 0, 8, 0, 8}, two = 2;
    lam_mask got = ends_of(few, INT32, 5, 1);
    assert_int_equal(got.open, 9);
    assert_int_equal(got.rows, 3);
    got = ends_of(many + 1, INT64, 3, 2);
    assert_int_equal(got.open, 8);
    assert_int_equal(got.rows, 2);
    assert_int_equal(ends_of(NULL, INT32, 0, 1).open, 0);
    const lam_values bad[] = {{falls, INT32, 1, &two, NULL},
                              {below, INT32, 1, &two, NULL},
                              {few, INT32, 0, NULL, NULL},
                              {few, INT32, 2, (const int64_t[]){1, 2}, NULL},
                              {few, FLOAT32, 1, &two, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lam_values_ends(&bad[i], &got, NULL), LAM_UNSUPPORTED);
        assert_int_equal(got.open + got.rows, 0);
    }
    assert_int_equal(lam_values_ends(&(lam_values){NULL, INT64, 1, &two, NULL}, &got, NULL), LAM_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends),    cmocka_unit_test(every_pattern),  cmocka_unit_test(every_length),
        cmocka_unit_test(strides), cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
