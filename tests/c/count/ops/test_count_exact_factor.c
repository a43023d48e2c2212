/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for linear algebra by a fixed algorithm: each as the book walks it, one scalar at a time.
 * The values don't matter, only how many operations there are. */
#include "kit/oom.h"

#include "kit/op_build.h"

enum { RUNS = 500 };

static int64_t batched(int32_t *ndim, int64_t *s, int64_t high, int64_t wide) {
    int64_t mats = 1;
    *ndim = (int32_t)pick(0, 2);
    for (int32_t i = 0; i < *ndim; i++) mats *= s[i] = pick(0, 8) ? pick(1, 2) : 0;
    s[(*ndim)++] = high;
    s[(*ndim)++] = wide;
    return mats;
}

/* -- elimination ----------------------------------------------------------------------------------------- */

static void eliminate(int64_t m, int64_t n, bool pivots) {
    for (int64_t j = 0; j < m && j < n; j++) {
        double best = 0;
        for (int64_t i = j; pivots && i < m; i++) {
            double v = abs1(3);
            best = i > j ? max2(best, v) : v;
        }
        for (int64_t i = j + 1; i < m; i++) {
            (void)dvd(1, 2);
            for (int64_t c = j + 1; c < n; c++) (void)mac(1, 2, 3);
        }
    }
}

static void lu_factor(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], m = pick(0, 6), n = pick(0, 6);
        int32_t ndim;
        bool pivots = coin(), told = !pivots || coin();
        op_new("aten::linalg_lu_factor_ex");
        int64_t mats = batched(&ndim, s, m, n);
        in_whole(0, ndim, s);
        if (told) in_bool(1, pivots);
        out_whole(0, ndim, s);
        for (int64_t k = 0; k < mats; k++) eliminate(m, n, pivots);
        op_proves();
    }
}

static void cholesky(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], n = pick(0, 7);
        int32_t ndim;
        op_new(coin() ? "aten::linalg_cholesky_ex" : "aten::cholesky");
        int64_t mats = batched(&ndim, s, n, n);
        in_whole(0, ndim, s);
        out_whole(0, ndim, s);
        for (int64_t k = 0; k < mats; k++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t r = j; r < n; r++) {
                    for (int64_t c = 0; c < j; c++) (void)mac(1, 2, 3);
                    (void)(r == j ? sqrt1(4) : dvd(4, 2));
                }
        op_proves();
    }
}

/* -- reflections ----------------------------------------------------------------------------------------- */

/* The reflection that zeroes all but the first of `length` elements, and what it takes on `columns` others.
 */
static void reflect(int64_t length, int64_t columns) {
    double sigma = 0;
    for (int64_t i = 1; i < length; i++) sigma = mac(sigma, 1, 1);
    double beta = sqrt1(add(mul(2, 2), sigma));
    (void)dvd(sub(beta, 2), beta);
    double under = sub(2, beta);
    for (int64_t i = 1; i < length; i++) (void)dvd(1, under);
    for (int64_t c = 0; c < columns; c++) {
        double w = 3;
        for (int64_t i = 1; i < length; i++) w = mac(w, 1, 2);
        (void)sub(3, w = mul(w, 0.5));
        for (int64_t i = 1; i < length; i++) (void)mac(3, 1, w);
    }
}

static void triangle(int64_t m, int64_t n) {
    for (int64_t j = 0; j < n && m - j > 1; j++) reflect(m - j, n - j - 1);
}

/* From the last one: on the columns right of it, then on its own column, which was a unit vector. */
static void form(int64_t m, int64_t columns, int64_t reflectors) {
    for (int64_t j = reflectors - 1; j >= 0; j--) {
        if (m - j <= 1) continue; /* the identity */
        for (int64_t c = j + 1; c < columns; c++) {
            double w = 0;
            for (int64_t i = j + 1; i < m; i++) w = mac(w, 1, 2);
            (void)sub(3, w = mul(w, 0.5));
            for (int64_t i = j + 1; i < m; i++) (void)mac(3, 1, w);
        }
        double minus = neg(0.5);
        (void)add(1, minus);
        for (int64_t i = j + 1; i < m; i++) (void)mul(minus, 2);
    }
}

static void householder(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], m = pick(0, 6), n = pick(0, 6);
        int32_t ndim;
        op_new("aten::geqrf");
        int64_t mats = batched(&ndim, s, m, n);
        in_whole(0, ndim, s);
        out_whole(0, ndim, s);
        for (int64_t k = 0; k < mats; k++) triangle(m, n);
        op_proves();
    }
}

static void reflections(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], n = pick(1, 6), m = n + pick(0, 3), tau = pick(1, n);
        int32_t ndim;
        op_new("aten::linalg_householder_product");
        int64_t mats = batched(&ndim, s, m, n);
        in_whole(0, ndim, s);
        s[ndim - 2] = tau;
        in_whole(1, ndim - 1, s);
        s[ndim - 2] = m;
        out_whole(0, ndim, s);
        for (int64_t k = 0; k < mats; k++) form(m, n, tau);
        op_proves();
    }
}

/* Reduced, complete, or the triangle alone. */
static void qr(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], m = pick(1, 6), n = pick(1, 6), few = m < n ? m : n, mode = pick(0, 2);
        int32_t ndim;
        op_new("aten::linalg_qr");
        int64_t mats = batched(&ndim, s, m, n), columns = mode == 1 ? m : few;
        in_whole(0, ndim, s);
        s[ndim - 1] = columns;
        if (mode == 2)
            out_whole(0, 1, (const int64_t[]){0});
        else
            out_whole(0, ndim, s);
        s[ndim - 2] = mode == 1 ? m : few;
        s[ndim - 1] = n;
        out_whole(1, ndim, s);
        for (int64_t k = 0; k < mats; k++) {
            triangle(m, n);
            if (mode < 2) form(m, columns, few);
        }
        op_proves();
    }
}

/* Other matrices by the same reflections, from the left or the right. */
static void reflected(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], length = pick(1, 6), columns = pick(0, 4), many = pick(1, length);
        bool left = coin();
        int32_t ndim;
        op_new("aten::ormqr");
        int64_t mats = batched(&ndim, s, length, many);
        in_whole(0, ndim, s);
        s[ndim - 2] = many;
        in_whole(1, ndim - 1, s);
        s[ndim - 2] = left ? length : columns;
        s[ndim - 1] = left ? columns : length;
        in_whole(2, ndim, s);
        if (!left || coin()) in_bool(3, left);
        out_whole(0, ndim, s);
        for (int64_t j = 0; j < many && length - j > 1; j++)
            for (int64_t c = 0; c < mats * columns; c++) {
                double w = 3;
                for (int64_t k = j + 1; k < length; k++) w = mac(w, 1, 2);
                (void)sub(3, w = mul(w, 0.5));
                for (int64_t k = j + 1; k < length; k++) (void)mac(3, 1, w);
            }
        op_proves();
    }
}

/* -- systems --------------------------------------------------------------------------------------------- */

/* One right side. */
static void substitute(int64_t n, bool unit) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++) (void)mac(1, 2, 3);
        if (!unit) (void)dvd(1, 2);
    }
}

static void systems(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t matrix, right; /* positions */
        int triangles, units;  /* and how many of them have ones on the diagonal */
    } cases[] = {{"aten::linalg_solve_triangular", 0, 1, 1, 0},
                 {"aten::triangular_solve", 1, 0, 1, 0},
                 {"aten::linalg_lu_solve", 0, 2, 2, 1},
                 {"aten::_cholesky_solve_helper", 1, 0, 2, 0}};
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], n = pick(1, 6), rights = pick(0, 4);
        int32_t ndim, which = (int32_t)pick(0, 3);
        op_new(cases[which].name);
        bool unit = cases[which].triangles == 1 && coin();
        int64_t mats = batched(&ndim, s, n, n);
        in_whole(cases[which].matrix, ndim, s);
        s[ndim - 1] = rights;
        in_whole(cases[which].right, ndim, s);
        if (unit) in_bool(4, true);
        out_whole(0, ndim, s);
        for (int64_t k = 0; k < mats * rights; k++)
            for (int t = 0; t < cases[which].triangles; t++) substitute(n, unit || t < cases[which].units);
        op_proves();
    }
}

/* -- what is iterated, or goes as values decide ---------------------------------------------------------- */

enum { DENSE = 1 << LAM_MACS | 1 << LAM_FLOPS };

typedef struct work {
    int64_t macs, besides;
} work;

static work work_since(work before) {
    return (work){now.macs - before.macs, now.flops - 2 * now.macs - before.besides};
}
static work work_now(void) { return work_since((work){0, 0}); }

/* Counts as if so much had been done since. */
static void work_is(work before, work done) {
    now.macs = before.macs + done.macs;
    now.flops = 2 * now.macs + before.besides + done.besides;
}
static int64_t fewer(int64_t a, int64_t b) { return a < b ? a : b; }

/* Does one or the other, and counts the fewer multiply-adds and the fewer other operations. */
static void cheaper(void (*one)(int64_t, int64_t), void (*other)(int64_t, int64_t), int64_t m, int64_t n) {
    work before = work_now();
    one(m, n);
    work first = work_since(before);
    work_is(before, (work){0, 0});
    other(m, n);
    work second = work_since(before);
    work_is(before, (work){fewer(first.macs, second.macs), fewer(first.besides, second.besides)});
}

static void two_diagonals(int64_t m, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        if (m - j > 1) reflect(m - j, n - j - 1);
        if (n - j > 2) reflect(n - j - 1, m - j - 1);
    }
}
static void two_by_triangle(int64_t m, int64_t n) {
    triangle(m, n);
    two_diagonals(n, n);
}

static void singular_values(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], m = pick(0, 12), n = pick(0, 6), few = m < n ? m : n;
        int32_t ndim;
        op_new("aten::_linalg_svd");
        int64_t mats = batched(&ndim, s, m, n);
        in_whole(0, ndim, s);
        in_bool(1, false);
        s[ndim - 2] = few;
        out_whole(1, ndim - 1, s);
        for (int64_t k = 0; k < mats && few > 0; k++)
            cheaper(two_diagonals, two_by_triangle, m > n ? m : n, few);
        op_proves_least(DENSE);
    }
}

static void eigenvalues(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], n = pick(0, 9);
        int32_t ndim;
        op_new(coin() ? "aten::linalg_eig" : "aten::_linalg_eigvals");
        int64_t mats = batched(&ndim, s, n, n);
        in_whole(0, ndim, s);
        out_whole(0, ndim - 1, s);
        for (int64_t k = 0; k < mats; k++)
            for (int64_t length = n - 1; length > 1; length--) reflect(length, length + n);
        op_proves_least(DENSE);
    }
}

/* A reflection from both sides of a symmetric matrix of which the lower triangle is kept: p = beta*A*v,
 * w = p - (beta/2*v'p)*v, A - v*w' - w*v'; the vector begins with 1. */
static void reflect_both(int64_t length) {
    double dot = 3;
    reflect(length, 0);
    for (int64_t i = 0; i < length; i++) {
        double row = 1;
        for (int64_t j = 1; j < length; j++) row = mac(row, 1, 2);
        (void)mul(row, 2);
    }
    for (int64_t i = 1; i < length; i++) dot = mac(dot, 1, 2);
    (void)sub(3, dot = mul(mul(2, 0.5), dot));
    for (int64_t i = 1; i < length; i++) (void)mac(1, dot, 2);
    (void)sub(sub(1, 2), 2);
    for (int64_t i = 1; i < length; i++) {
        (void)sub(mac(1, 2, 3), 2);
        for (int64_t j = 1; j <= i; j++) (void)mac(mac(1, 2, 3), 2, 3);
    }
}

static void symmetric_eigenvalues(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], n = pick(0, 9);
        int32_t ndim;
        op_new("aten::_linalg_eigh");
        int64_t mats = batched(&ndim, s, n, n);
        in_whole(0, ndim, s);
        out_whole(0, ndim - 1, s);
        out_whole(1, ndim, s);
        for (int64_t k = 0; k < mats; k++)
            for (int64_t length = n - 1; length > 1; length--) reflect_both(length);
        op_proves_least(DENSE);
    }
}

static void triangle_turned(int64_t m, int64_t n) { triangle(n, m); }

/* Right sides are vectors or matrices. */
static void least_squares(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], m = pick(1, 7), n = pick(1, 7), rights = pick(0, 3);
        bool vector = coin();
        int32_t ndim;
        op_new("aten::linalg_lstsq");
        int64_t mats = batched(&ndim, s, m, n);
        in_whole(0, ndim, s);
        s[ndim - 1] = rights;
        in_whole(1, vector ? ndim - 1 : ndim, s);
        s[ndim - 2] = n;
        out_whole(0, vector ? ndim - 1 : ndim, s);
        for (int64_t k = 0; k < mats; k++) {
            cheaper(triangle, m < n ? triangle_turned : triangle, m, n);
            for (int64_t j = 0; j < n && m - j > 1 && m >= n; j++)
                for (int64_t c = 0; c < (vector ? 1 : rights); c++) {
                    double w = 3;
                    for (int64_t r = j + 1; r < m; r++) w = mac(w, 1, 2);
                    (void)sub(3, w = mul(w, 0.5));
                    for (int64_t r = j + 1; r < m; r++) (void)mac(3, 1, w);
                }
        }
        op_proves_least(DENSE);
    }
}

/* What a pivot of one row, or of two, takes of the `rest` below. */
static void pivot_of_one(int64_t rest) {
    for (int64_t i = 0; i < rest; i++) {
        (void)dvd(1, 2);
        for (int64_t j = 0; j <= i; j++) (void)mac(1, 2, 3);
    }
}
static void pivot_of_two(int64_t rest) {
    if (rest > 0) (void)dvd(sub(mul(dvd(1, 2), dvd(3, 2)), 1), 2);
    for (int64_t i = 0; i < rest; i++) {
        (void)mul(mac(1, 2, 3), 2);
        (void)mul(mac(1, 2, 3), 2);
        for (int64_t j = 0; j <= i; j++) (void)mac(mac(1, 2, 3), 2, 3);
    }
}

/* The least of all orders of pivots: of multiply-adds, and of operations as a whole. */
static void cheapest_pivots(int64_t n, int64_t *macs, int64_t *flops) {
    int64_t m[16] = {0}, f[16] = {0};
    work before = work_now();
    for (int64_t k = 2; k <= n; k++) {
        pivot_of_one(k - 1);
        work one = work_since(before);
        work_is(before, (work){0, 0});
        pivot_of_two(k - 2);
        work two = work_since(before);
        work_is(before, (work){0, 0});
        m[k] = fewer(one.macs + m[k - 1], two.macs + m[k - 2]);
        f[k] = fewer(2 * one.macs + one.besides + f[k - 1], 2 * two.macs + two.besides + f[k - 2]);
    }
    *macs = n < 0 ? 0 : m[n];
    *flops = n < 0 ? 0 : f[n];
}

static void ldl_factor(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], n = pick(0, 9), macs, flops;
        int32_t ndim;
        op_new("aten::linalg_ldl_factor_ex");
        int64_t mats = batched(&ndim, s, n, n);
        in_whole(0, ndim, s);
        out_whole(0, ndim, s);
        out_whole(1, ndim - 1, s);
        cheapest_pivots(n, &macs, &flops);
        work_is((work){0, 0}, (work){mats * macs, mats * (flops - 2 * macs)});
        op_proves_least(DENSE);
    }
}

static void ldl_solve(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[4], n = pick(1, 6), rights = pick(0, 4);
        int32_t ndim;
        op_new("aten::linalg_ldl_solve");
        int64_t mats = batched(&ndim, s, n, n);
        in_whole(0, ndim, s);
        in_whole(1, ndim - 1, s);
        s[ndim - 1] = rights;
        in_whole(2, ndim, s);
        out_whole(0, ndim, s);
        for (int64_t k = 0; k < mats * rights; k++) {
            substitute(n, true);
            for (int64_t r = 0; r < n; r++) (void)dvd(1, 2);
            substitute(n, true);
        }
        op_proves_least(DENSE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lu_factor),     cmocka_unit_test(cholesky),
        cmocka_unit_test(householder),   cmocka_unit_test(reflections),
        cmocka_unit_test(reflected),     cmocka_unit_test(qr),
        cmocka_unit_test(systems),       cmocka_unit_test(singular_values),
        cmocka_unit_test(eigenvalues),   cmocka_unit_test(symmetric_eigenvalues),
        cmocka_unit_test(least_squares), cmocka_unit_test(ldl_factor),
        cmocka_unit_test(ldl_solve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
