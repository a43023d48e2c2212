/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for sorting, searching and Fourier transforms: each as the algorithm that its convention
 * names walks, on the values that take it longest. */
#include "kit/oom.h"

#include "kit/op_build.h"

enum { RUNS = 500 };

/* Comparisons that tell `places` places apart, by halving; the longer half is always the right one. */
static void halve(int64_t places) {
    for (int64_t low = 0, high = places - 1; low < high;) {
        int64_t middle = low + (high - low) / 2;
        (void)less(1, 2);
        if (middle + 1 - low >= high - middle)
            high = middle;
        else
            low = middle + 1;
    }
}

/* Of n elements `most` are kept in order. */
static void insert(int64_t n, int64_t most) {
    for (int64_t i = 0; i < n; i++) halve((i < most ? i : most) + 1);
}

/* -- sorting --------------------------------------------------------------------------------------------- */

/* A shape, and how long its rows are along an axis that is told, or the last one. */
typedef struct along {
    int64_t s[4], n, rows;
    int32_t ndim, dim;
    bool told;
} along;

static along shape_along(void) {
    along a = {.ndim = (int32_t)pick(0, 3), .told = coin(), .n = 1, .rows = 1};
    for (int32_t i = 0; i < a.ndim; i++) a.s[i] = pick(0, 20) ? pick(1, 9) : 0;
    a.dim = a.ndim && a.told ? (int32_t)pick(-a.ndim, a.ndim - 1) : -1;
    for (int32_t i = 0; i < a.ndim; i++)
        *(i == (a.dim < 0 ? a.dim + a.ndim : a.dim) ? &a.n : &a.rows) *= a.s[i];
    return a;
}

static void sorts(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        along a = shape_along();
        bool mode = coin(), stable = !mode && coin();
        op_new(mode ? "aten::mode" : "aten::sort");
        in_whole(0, a.ndim, a.s);
        if (stable) in_bool(1, true);
        if (a.told) in_int(stable ? 2 : 1, a.dim);
        if (coin()) in_bool(3, false);
        out_whole(0, a.ndim, a.s), out_whole(1, a.ndim, a.s);
        for (int64_t r = 0; a.n && r < a.rows; r++) {
            insert(a.n, a.n);
            for (int64_t k = 1; mode && k < a.n; k++) (void)less(1, 2);
        }
        op_proves();
    }
}

static void sorts_of_all(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        along a = shape_along();
        op_new("aten::_unique2");
        int64_t n = in_whole(0, a.ndim, a.s), left = n ? pick(1, n) : 0;
        in_bool(1, true), in_bool(2, false);
        out_whole(0, 1, &left), out_whole(1, 1, (const int64_t[]){0});
        insert(n, n);
        for (int64_t k = 1; k < n; k++) (void)less(1, 2);
        op_proves();
    }
}

static int64_t nearer_end(int64_t n, int64_t k) { return k <= n + 1 - k ? k : n + 1 - k; }

/* The k first, the k-th from either end, or the middle one: of rows or of all. */
static void choices(void **state) {
    (void)state;
    enum { TOP, KTH, MIDDLE, MIDDLE_OF_ALL, N_CHOICES };
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        along a = shape_along();
        int which = (int)pick(0, N_CHOICES - 1);
        bool nan = which >= MIDDLE && coin();
        if (which == MIDDLE && !a.told) which = MIDDLE_OF_ALL;
        op_new(which == TOP   ? "aten::topk"
               : which == KTH ? "aten::kthvalue"
               : nan          ? "aten::nanmedian"
                              : "aten::median");
        int64_t all = in_whole(0, a.ndim, a.s), n = which == MIDDLE_OF_ALL ? all : a.n;
        int64_t k = which >= MIDDLE ? (n + 1) / 2 : n ? pick(1, n) : 0;
        if (which < MIDDLE) in_int(1, k);
        if (a.told && which != MIDDLE_OF_ALL) in_int(which == MIDDLE ? 1 : 2, a.dim);
        out_whole(0, 1, &a.rows);
        for (int64_t r = 0; all && r < all / n; r++) insert(n, which == TOP ? k : nearer_end(n, k));
        for (int64_t r = 0; nan && r < all; r++) (void)did(1);
        op_proves();
    }
}

static void searches(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 40), s[3];
        int32_t ndim = random_shape(0, 3, s);
        bool buckets = coin();
        op_new(buckets ? "aten::bucketize" : "aten::searchsorted");
        if (buckets) in_whole(0, ndim, s);
        in_whole(buckets, 1, &n);
        if (!buckets) in_whole(1, ndim, s);
        out_whole(0, ndim, s);
        int64_t values = 1;
        for (int32_t k = 0; k < ndim; k++) values *= s[k];
        for (int64_t v = 0; v < values; v++) halve(n + 1);
        op_proves();
    }
}

/* n elements are put in order, and neighbours are compared. */
static void order(int64_t n) {
    insert(n, n);
    for (int64_t k = 1; k < n; k++) (void)less(1, 2);
}

static void looks_for_elements(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[3], n = 1, others = pick(0, 30);
        bool distinct = coin(), number = coin(), of_number = !number && coin();
        int32_t ndim = of_number ? 0 : random_shape(0, 3, s);
        for (int32_t k = 0; k < ndim; k++) n *= s[k];
        op_new("aten::isin");
        if (of_number)
            in_int(0, 7);
        else
            in_whole(0, ndim, s);
        if (number) others = 1;
        if (number)
            in_int(1, 7);
        else
            in_whole(1, 1, &others);
        in_bool(2, distinct);
        in_bool(3, coin());
        out_whole(0, ndim, s);
        if (n == 0 || (double)others < 10 * pow((double)n, 0.145)) {
            for (int64_t k = 0; k < n * others; k++) (void)less(1, 2);
        } else {
            if (!distinct) order(n), order(others);
            order(n + others);
        }
        op_proves();
    }
}

static void looks(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        static const char *const names[] = {"aten::nonzero", "aten::bincount", "aten::unique_consecutive",
                                            "aten::histc"};
        int64_t s[3], left = pick(0, 5);
        int which = (int)pick(0, 3);
        int32_t ndim = random_shape(1, 3, s);
        op_new(names[which]);
        int64_t n = in_whole(0, ndim, s);
        if (which == 2 && coin()) in_none(3);
        out_whole(0, 1, &left);
        for (int64_t k = which == 2; k < n; k++) {
            (void)less(1, 2);
            if (which == 3) (void)(less(1, 2) + add(mul(dvd(sub(1, 0), 2), 3), 0));
        }
        op_proves();
    }
    op_new("aten::unique_consecutive"); /* of slices, which differ somewhere */
    in_tensor(0, SIZES(3, 2));
    in_int(3, 0);
    out_tensor(0, SIZES(3, 2));
    op_says(0, -1, 12);
}

/* -- Fourier transforms ---------------------------------------------------------------------------------- */

/* A product with a root of unity, a sum and a difference; where one side is real the others' conjugates are
 * half of it. */
static void butterfly(bool real) {
    for (int i = 0; i < (real ? 5 : 10); i++) (void)did(1);
}

static void transforms(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        static const char *const names[] = {"aten::_fft_c2c", "aten::_fft_r2c", "aten::_fft_c2r"};
        int64_t s[3], half[3], axes[3], all = 1;
        int32_t ndim = (int32_t)pick(1, 3), n_axes = 0, which = (int32_t)pick(0, 2);
        for (int32_t k = 0; k < ndim; k++) {
            bool over = k == ndim - 1 || coin();
            all *= half[k] = s[k] = over ? INT64_C(1) << pick(0, 4) : pick(0, 9) ? pick(1, 3) : 0;
            if (over) axes[n_axes++] = coin() ? k : k - ndim;
        }
        half[ndim - 1] = s[ndim - 1] / 2 + 1;
        int64_t norm = pick(0, 2);
        op_new(names[which]);
        the.dtype = which == 1 ? 6 : 9; /* float32, complex64 */
        in_tensor(0, ndim, which == 2 ? half : s);
        in_ints(1, n_axes, axes);
        in_int(2, norm);
        the.dtype = which == 2 ? 6 : 9;
        out_tensor(0, ndim, which == 1 ? half : s);
        int64_t in = 1, out = 1;
        for (int32_t k = 0; k < ndim; k++)
            in *= which == 2 ? half[k] : s[k], out *= which == 1 ? half[k] : s[k];
        cells *x = cells_of(in), *y = cells_of(out);
        x->item = which == 1 ? 4 : 8, y->item = which == 2 ? 4 : 8;
        rd_all(x), wr_all(y);
        for (int32_t a = 0; a < n_axes; a++)
            for (int64_t n = s[(axes[a] + ndim) % ndim]; n > 1; n /= 2)
                for (int64_t b = 0; b < all / 2; b++) butterfly(which > 0);
        for (int64_t o = 0; norm && o < out; o++) {
            (void)dvd(1, 2);
            if (which < 2) (void)dvd(1, 2);
        }
        op_proves();
    }
}

/* What is no power of 2 is rounded once; axes that are not told leave it unknown. */
static void transforms_of_other_lengths(void **state) {
    (void)state;
    op_new("aten::_fft_c2c");
    the.dtype = 9;
    in_tensor(0, SIZES(3, 1000));
    in_ints(1, 1, (const int64_t[]){1});
    in_int(2, 0);
    out_tensor(0, SIZES(3, 1000));
    op_says(0, 5 * 29897, 6000); /* 3000 log2 1000 is 29897.35 */
    op_new("aten::_fft_r2c");
    in_tensor(0, SIZES(3, 8));
    in_int(2, 0);
    the.dtype = 9;
    out_tensor(0, SIZES(3, 5));
    op_says(0, -1, 24 + 15);
    op_new("aten::_fft_c2c");
    the.dtype = 9;
    in_tensor(0, SIZES(3, 8));
    in_ints(1, 1, (const int64_t[]){2});
    in_int(2, 0);
    out_tensor(0, SIZES(3, 8));
    op_says(0, -1, 48);
}

/* -- losses of sequences, and bins ----------------------------------------------------------------------- */

/* A place that is reached from `from` places, by logarithms. */
static void reach(int from) {
    double best = 1, sum = 0;
    for (int i = 1; i < from; i++) best = max2(best, 2);
    for (int i = 0; from > 1 && i < from; i++) {
        double each = exp1(sub(1, best));
        sum = i ? add(sum, each) : each;
    }
    if (from > 1) (void)add(log1(sum), best);
}

/* The places of a sequence at every step but the first: a label or a gap, and a label's only other way. */
static void walk(int64_t steps, int64_t labels) {
    for (int64_t t = 1; t < steps; t++)
        for (int64_t p = 0; p < 2 * labels + 1; p++) {
            reach(p ? 2 : 1);
            (void)add(1, 2);
        }
}

typedef struct sequences {
    int64_t n, steps[4], labels[4], longest, most;
} sequences;

static sequences some_sequences(void) {
    sequences q = {.n = pick(1, 4)};
    for (int64_t b = 0; b < q.n; b++) {
        q.steps[b] = pick(1, 5);
        q.labels[b] = pick(0, 3);
        q.longest = q.steps[b] > q.longest ? q.steps[b] : q.longest;
        q.most = q.labels[b] > q.most ? q.labels[b] : q.most;
    }
    return q;
}

static void ctc_loss(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        sequences q = some_sequences();
        op_new("aten::_ctc_loss");
        (void)in_whole(0, SIZES(q.longest, q.n, pick(2, 4)));
        (void)in_whole(1, SIZES(q.n, q.most));
        in_ints(2, (int32_t)q.n, q.steps);
        in_ints(3, (int32_t)q.n, q.labels);
        out_whole(0, SIZES(q.n));
        out_whole(1, SIZES(q.n, q.longest, 2 * q.most + 1));
        for (int64_t b = 0; b < q.n; b++) {
            walk(q.steps[b], q.labels[b]);
            if (q.labels[b]) reach(2);
            (void)neg(1);
        }
        op_proves_least(1 << LAM_FLOPS);
    }
}

/* Where an infinite loss has no gradient, it is not known which sequences have one. */
static void ctc_loss_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        sequences q = some_sequences();
        int64_t classes = pick(2, 4);
        bool told = coin(), zeroed = told && coin();
        op_new("aten::_ctc_loss_backward");
        (void)in_whole(0, SIZES(q.n));
        (void)in_whole(1, SIZES(q.longest, q.n, classes));
        (void)in_whole(2, SIZES(q.n, q.most));
        in_ints(3, (int32_t)q.n, q.steps);
        in_ints(4, (int32_t)q.n, q.labels);
        (void)in_whole(5, SIZES(q.n));
        (void)in_whole(6, SIZES(q.n, q.longest, 2 * q.most + 1));
        if (told) in_bool(8, zeroed);
        out_whole(0, SIZES(q.longest, q.n, classes));
        for (int64_t b = 0; b < q.n && !zeroed; b++) {
            walk(q.steps[b], q.labels[b]);
            for (int64_t p = 0; p < q.steps[b] * (2 * q.labels[b] + 1); p++) (void)add(1, 2);
            for (int64_t e = 0; e < q.steps[b] * classes; e++)
                (void)mul(sub(exp1(1), exp1(sub(add(1, 2), 1))), 2);
        }
        op_proves_as(zeroed ? 1 << LAM_FLOPS : 0, zeroed ? 0 : 1 << LAM_FLOPS);
    }
}

/* Each element, or each point by its first coordinate, is found to lie before the first bin. */
static void histogram(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[2] = {pick(0, 6), pick(1, 4)}, bins = pick(1, 5);
        bool points = coin();
        op_new(points ? "aten::_histogramdd_from_bin_cts" : "aten::histogram");
        int64_t n = in_whole(0, 2, s);
        out_whole(0, SIZES(bins));
        for (int64_t e = 0; e < (points ? s[0] : n); e++) (void)less(1, 2);
        op_proves_least(1 << LAM_FLOPS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts),
        cmocka_unit_test(sorts_of_all),
        cmocka_unit_test(choices),
        cmocka_unit_test(searches),
        cmocka_unit_test(looks_for_elements),
        cmocka_unit_test(looks),
        cmocka_unit_test(transforms),
        cmocka_unit_test(transforms_of_other_lengths),
        cmocka_unit_test(ctc_loss),
        cmocka_unit_test(ctc_loss_backward),
        cmocka_unit_test(histogram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
