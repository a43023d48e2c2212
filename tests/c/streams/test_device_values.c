/* SPDX-License-Identifier: Apache-2.0
 * Values in the memory of a stand-in for a GPU: the same answers as of memory here, through a search, a copy
 * and pieces of a copy; and none after an error. LMX_PIECE is 256 here, so small arrays are cut. */
#include "kit/oom.h"

#include "fake_gpu.h"
#include "process/device_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HALF = 5, FLOAT = 6, DOUBLE = 7, COMPLEX = 9, INTEGER = 3, FP8 = 24, ILLEGAL = 700 };

static lam_values array(const void *data, int32_t dtype, int32_t ndim, const int64_t *sizes,
                        const int64_t *strides) {
    return (lam_values){data, dtype, ndim, sizes, strides};
}

static int begin(void **state) {
    (void)state;
    return (int)fake_gpu("use", 1);
}

/* No error is left that torch would meet. */
static int end(void **state) {
    (void)state;
    const int64_t errors = fake_gpu("errors", 0);
    fake_gpu("use", 0);
    return errors != 0;
}

static bool reads(const lam_values *v, lam_nonfinite *found, lam_stats *stats) {
    return lmx_device_values(fake_gpu_streams(), 0, v, found, stats);
}

static void alike(const lam_values *v) {
    lam_nonfinite here, there = {-7, -7, -7, -7};
    lam_stats s, t;
    assert_int_equal(lam_values_scan(v, &here, NULL), LAM_OK);
    assert_int_equal(lam_values_stats(v, &s, NULL), LAM_OK);
    for (int stats = 0; stats < 2; stats++) {
        assert_true(reads(v, &there, stats ? &t : NULL));
        assert_int_equal(there.nan, here.nan);
        assert_int_equal(there.inf, here.inf);
        assert_int_equal(there.negative, here.negative);
        assert_int_equal(there.first, here.first);
    }
    assert_int_equal(t.numbers, s.numbers);
    assert_int_equal(t.nan, s.nan);
    assert_int_equal(t.inf, s.inf);
    assert_int_equal(t.zeros, s.zeros);
    assert_int_equal(t.subnormal, s.subnormal);
    assert_true(isnan(s.least) ? isnan(t.least) : t.least == s.least);
    assert_true(isnan(s.greatest) ? isnan(t.greatest) : t.greatest == s.greatest);
    assert_true(isnan(s.headroom) ? isnan(t.headroom) : t.headroom == s.headroom);
    assert_true(isnan(s.mean) ? isnan(t.mean) : fabs(t.mean - s.mean) <= 1e-9 * (1 + fabs(s.mean)));
}

/* Every value is at every place once, in rows, in columns, with gaps and expanded. */
static void answers_are_those_of_memory_here(void **state) {
    enum { ROWS = 7, COLUMNS = 30, ALL = ROWS * COLUMNS };
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0, 1e-42f};
    static const int64_t sizes[][3] = {
        {ROWS, COLUMNS, 1}, {COLUMNS, ROWS, 1}, {ROWS, COLUMNS / 2, 1}, {ROWS, 3, COLUMNS}, {ALL, 1, 1}};
    static const int64_t strides[][3] = {
        {COLUMNS, 1, 1}, {1, COLUMNS, 1}, {COLUMNS, 2, 1}, {COLUMNS, 0, 1}, {1, 1, 1}};
    float x[ALL];
    (void)state;
    for (int i = 0; i < ALL; i++) x[i] = (float)(i % 17) - 8;
    for (size_t form = 0; form < 5; form++) {
        const lam_values v = array(x, FLOAT, 3, sizes[form], strides[form]);
        for (int at = 0; at < ALL; at++) {
            const float was = x[at];
            x[at] = bad[at % 5];
            alike(&v);
            x[at] = was;
        }
        const float first = x[0], last = x[ALL - 1];
        x[0] = x[ALL - 1] = NAN;
        alike(&v);
        x[0] = first;
        x[ALL - 1] = last;
    }
    for (int fill = 0; fill < 3; fill++) { /* halves without a finite number, and with the largest ones */
        for (int i = 0; i < ALL; i++) x[i] = fill == 2 ? (float)(i * 1000) : (i < ALL / 2) == fill ? NAN : 1;
        for (size_t form = 0; form < 5; form++) {
            const lam_values v = array(x, FLOAT, 3, sizes[form], strides[form]);
            alike(&v);
        }
    }
}

static void every_type(void **state) {
    uint16_t half[300] = {0};
    uint8_t fp8[300] = {0};
    double wide[90] = {0};
    float pairs[180] = {0};
    const int64_t n = 300, n_wide = 90, one = 1;
    (void)state;
    half[299] = 0x7C00;
    fp8[298] = 0xFF;
    wide[89] = -INFINITY;
    pairs[179] = NAN;
    lam_values v[] = {array(half, HALF, 1, &n, &one), array(fp8, FP8, 1, &n, &one),
                      array(wide, DOUBLE, 1, &n_wide, &one), array(pairs, COMPLEX, 1, &n_wide, &one)};
    for (size_t i = 0; i < 4; i++) alike(&v[i]);
    lam_nonfinite found;
    v[0].dtype = INTEGER;
    assert_false(reads(&v[0], &found, NULL));
}

/* Finite values are never copied, others only the piece that they are in. */
static void little_is_copied(void **state) {
    enum { N = 1 << 14 };
    float *x = calloc(N, sizeof *x);
    const int64_t n = N, one = 1;
    lam_nonfinite found;
    (void)state;
    const lam_values v = array(x, FLOAT, 1, &n, &one);
    assert_true(reads(&v, &found, NULL));
    assert_int_equal(found.first, -1);
    assert_int_equal(fake_gpu("searches", 0), 1);
    assert_int_equal(fake_gpu("copies", 0), 0);
    x[N / 3] = NAN;
    assert_true(reads(&v, &found, NULL));
    assert_int_equal(found.first, N / 3);
    assert_int_equal(fake_gpu("copies", 0), 1);
    fake_gpu("fail_search", ILLEGAL); /* then all is copied */
    assert_true(reads(&v, &found, NULL));
    assert_int_equal(found.first, N / 3);
    assert_int_equal(fake_gpu("copies", 0), 1 + N * 4 / 256);
    free(x);
}

static void errors_are_no_answer(void **state) {
    float x[4] = {0, NAN, 0, 0};
    const int64_t n = 4, one = 1;
    const lam_values v = array(x, FLOAT, 1, &n, &one);
    lam_nonfinite found = {-7, -7, -7, -7};
    (void)state;
    static const char *const all[] = {"fail_copy", "fail_wait"};
    for (size_t i = 0; i < 2; i++) {
        fake_gpu(all[i], ILLEGAL);
        assert_false(reads(&v, &found, NULL));
        assert_int_equal(fake_gpu("errors", 0), 0);
        fake_gpu(all[i], 0);
    }
    fake_gpu("capturing", 1);
    assert_false(reads(&v, &found, NULL));
    fake_gpu("capturing", 0);
    assert_false(lmx_device_values(fake_gpu_streams(), 99, &v, &found, NULL));
    assert_int_equal(found.nan, -7);
    assert_int_equal(fake_gpu("errors", 0), 0);
    lmx_streams without = *fake_gpu_streams();
    without.wait = NULL;
    assert_false(lmx_device_values(&without, 0, &v, &found, NULL));
    assert_true(reads(&v, &found, NULL));
    assert_int_equal(found.nan, 1);
}

/* A graph that another stream records goes on, and the device that was current is so again. */
static void nothing_else_changes(void **state) {
    float x[4] = {0, NAN, 0, 0};
    const int64_t n = 4, one = 1;
    const lam_values v = array(x, FLOAT, 1, &n, &one);
    lam_nonfinite found;
    int device = -1, mode = LMX_MODE_RELAXED;
    (void)state;
    fake_gpu("stream", 1);
    fake_gpu("capturing", 1);
    fake_gpu("stream", 0);
    assert_true(lmx_device_values(fake_gpu_streams(), 1, &v, &found, NULL));
    assert_int_equal(found.nan, 1);
    assert_int_equal(fake_gpu_streams()->get_device(&device), 0);
    assert_int_equal(device, 0);
    assert_int_equal(fake_gpu_streams()->exchange_mode(&mode), 0);
    assert_int_equal(mode, 0);
}

static void in_a_child(void **state) {
    float x[4] = {0};
    const int64_t n = 4, one = 1;
    const lam_values v = array(x, FLOAT, 1, &n, &one);
    lam_nonfinite found;
    int status = -1;
    (void)state;
    assert_true(reads(&v, &found, NULL));
    pid_t child = fork();
    if (child == 0) _exit(reads(&v, &found, NULL) ? 1 : 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void run(void *self, bool *ok) {
    float x[200] = {[150] = NAN};
    const int64_t n = 200, one = 1;
    const lam_values v = array(x, FLOAT, 1, &n, &one);
    lam_nonfinite found;
    (void)self;
    *ok = reads(&v, &found, NULL) && found.first == 150;
}

static void memory_may_run_out(void **state) {
    (void)state;
    oom_sweep(run, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_are_those_of_memory_here, begin, end),
        cmocka_unit_test_setup_teardown(every_type, begin, end),
        cmocka_unit_test_setup_teardown(little_is_copied, begin, end),
        cmocka_unit_test_setup_teardown(errors_are_no_answer, begin, end),
        cmocka_unit_test_setup_teardown(nothing_else_changes, begin, end),
        cmocka_unit_test_setup_teardown(in_a_child, begin, end),
        cmocka_unit_test_setup_teardown(memory_may_run_out, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
