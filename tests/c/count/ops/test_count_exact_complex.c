/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for complex numbers: what src/vocab/complex.def says, done on their real parts. */
#include "kit/oom.h"

#include "kit/op_build.h"

#include <complex.h>

enum { RUNS = 400, COMPLEX64 = 9 };

typedef double _Complex z;
#define RE(v) (creal(v))
#define IM(v) (cimag(v))
static z of(double re, double im) { return re + im * (z)I; }

static z zadd(z a, z b) { return of(add(RE(a), RE(b)), add(IM(a), IM(b))); }
static z zsub(z a, z b) { return of(sub(RE(a), RE(b)), sub(IM(a), IM(b))); }
static z zmul(z a, z b) {
    return of(sub(mul(RE(a), RE(b)), mul(IM(a), IM(b))), add(mul(RE(a), IM(b)), mul(IM(a), RE(b))));
}
static double square(z a) { return add(mul(RE(a), RE(a)), mul(IM(a), IM(a))); }
static double size(z a) { return sqrt1(square(a)); }
static z zdiv(z a, z b) {
    z up = of(add(mul(RE(a), RE(b)), mul(IM(a), IM(b))), sub(mul(IM(a), RE(b)), mul(RE(a), IM(b))));
    double down = square(b);
    return of(dvd(RE(up), down), dvd(IM(up), down));
}
static z zinv(z a) {
    double down = square(a);
    return of(dvd(RE(a), down), neg(dvd(IM(a), down)));
}
static z zexp(z a) {
    double e = exp1(RE(a));
    return of(mul(e, did(cos(IM(a)))), mul(e, did(sin(IM(a)))));
}
static z zlog(z a) { return of(log1(size(a)), did(atan2(IM(a), RE(a)))); }
static z zsqrt(z a) {
    double r = size(a), big = sqrt1(mul(add(r, RE(a)), 0.5)), small = sqrt1(mul(sub(r, RE(a)), 0.5));
    return of(big, did(copysign(small, IM(a))));
}
static z zsigmoid(z a) {
    z e = zexp(of(neg(RE(a)), neg(IM(a))));
    return zinv(of(add(1, RE(e)), IM(e)));
}

static void same(z got, z want) { assert_true(cabs(got - want) <= 1e-9 * (1 + cabs(want))); }

static bool both(bool a, bool b) { return did(a && b) != 0; }

/* One element of an operator, held against C's own. */
static void element(int which, z a, z b) {
    z three = of(0.3, 0.4);
    switch (which) {
    case 0: same(zadd(a, b), a + b); break;
    case 1: same(zsub(a, b), a - b); break;
    case 2: same(zmul(a, b), a * b); break;
    case 3: same(zdiv(a, b), a / b); break;
    case 4: same(zinv(a), 1 / a); break;
    case 5: same(zexp(a), cexp(a)); break;
    case 6: same(zlog(a), clog(a)); break;
    case 7: same(zsqrt(a), csqrt(a)); break;
    case 8: same(size(a), cabs(a)); break;
    case 9: same(zexp(zmul(b, zlog(a))), cpow(a, b)); break;
    case 10: same(zsigmoid(a), 1 / (1 + cexp(-a))); break;
    case 11: same(zadd(a, zmul(three, zsub(b, a))), a + three * (b - a)); break;
    case 12: (void)both(less(RE(a), RE(b)), less(IM(a), IM(b))); break;
    default: same(zadd(a, zmul(of(2, 0), b)), a + 2 * b); break;
    }
}

static void elements_one_by_one(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int inputs;
    } ops[] = {
        {"aten::add", 2},     {"aten::sub", 2},  {"aten::mul", 2},  {"aten::div", 2}, {"aten::reciprocal", 1},
        {"aten::exp", 1},     {"aten::log", 1},  {"aten::sqrt", 1}, {"aten::abs", 1}, {"aten::pow", 2},
        {"aten::sigmoid", 1}, {"aten::lerp", 2}, {"aten::eq", 2},   {"aten::add", 2},
    };
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t s[3], n = 1;
        int32_t ndim = random_shape(0, 3, s), which = (int32_t)pick(0, 13);
        for (int32_t k = 0; k < ndim; k++) n *= s[k];
        op_new(ops[which].name);
        the.dtype = COMPLEX64;
        cells *x = cells_of(n), *y = ops[which].inputs > 1 ? cells_of(n) : NULL, *out = cells_of(n);
        x->item = out->item = 8;
        in_tensor(0, ndim, s);
        if (y) in_tensor(1, ndim, s), y->item = 8;
        if (which == 13) in_int(2, 2);
        if (which == 8) the.dtype = 6, out->item = 4; /* the result is real */
        if (which == 12) the.dtype = 11, out->item = 1;
        out_tensor(0, ndim, s);
        for (int64_t k = 0; k < n; k++) {
            z a = of(rd(x, k), 0.7), b = of(y ? rd(y, k) : 0, -0.6);
            element(which, a, b);
            wr(out, k, 0);
        }
        op_proves();
    }
    for (int lists = 0; lists < 2; lists++) { /* either part changes its sign */
        op_new(lists ? "aten::_foreach_neg" : "aten::neg");
        the.dtype = COMPLEX64;
        in_tensor(0, SIZES(3));
        if (lists) in_tensor(0, SIZES(2));
        out_tensor(0, SIZES(3));
        if (lists) out_tensor(0, SIZES(2));
        op_says(0, lists ? 2 * 5 : 2 * 3, lists ? 10 : 6);
    }
    op_new("aten::acosh"); /* has no line */
    the.dtype = COMPLEX64;
    in_tensor(0, SIZES(3));
    out_tensor(0, SIZES(3));
    op_says(0, -1, 6);
}

static void sums(void **state) {
    (void)state;
    static const char *const names[] = {"aten::sum", "aten::prod", "aten::mean"};
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 4), n = pick(1, 6);
        int which = (int)pick(0, 2);
        op_new(names[which]);
        the.dtype = COMPLEX64;
        in_tensor(0, SIZES(rows, n));
        out_tensor(0, SIZES(rows));
        rd_all(cells_of(rows * n)), wr_all(cells_of(rows));
        for (int64_t r = 0; r < rows; r++) {
            z sum = of(1, 2);
            for (int64_t k = 1; k < n; k++) sum = which == 1 ? zmul(sum, of(0.1, 1)) : zadd(sum, of(1, 1));
            if (which == 2) (void)dvd(RE(sum), 3), (void)dvd(IM(sum), 3);
        }
        op_proves();
    }
}

static void scans_and_norms(void **state) {
    (void)state;
    static const double norms[] = {2, 1, 0, HUGE_VAL, 3};
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 4), n = pick(1, 6);
        int which = (int)pick(0, 6);
        op_new(which == 0 ? "aten::cumsum" : which == 1 ? "aten::cumprod" : "aten::linalg_vector_norm");
        the.dtype = COMPLEX64;
        in_tensor(0, SIZES(rows, n));
        cells *x = cells_of(rows * n), *y = cells_of(which < 2 ? rows * n : rows);
        x->item = 8;
        if (which < 2) {
            in_int(1, 1);
            out_tensor(0, SIZES(rows, n));
        } else {
            in_float(1, norms[which - 2]);
            the.dtype = 6;
            out_tensor(0, SIZES(rows));
        }
        y->item = which < 2 ? 8 : 4;
        rd_all(x), wr_all(y);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t k = 1; which < 2 && k < n; k++)
                (void)(which ? zmul(of(1, 2), 2) : zadd(of(1, 2), 2));
            if (which < 2) continue;
            double p = norms[which - 2], sum = 0;
            for (int64_t k = 0; k < n; k++) {
                z a = of(k + 1, 2);
                double v = p == 2   ? square(a)
                           : p == 0 ? both(less(0, RE(a)), less(0, IM(a)))
                           : p == 3 ? pow1(size(a), 3)
                                    : size(a);
                sum = k ? add(sum, v) : v;
            }
            if (p == 2 || p == 3) (void)sqrt1(sum);
        }
        op_proves();
    }
}

static void added_somewhere(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 5), n = pick(0, 6);
        op_new("aten::scatter_add");
        the.dtype = COMPLEX64;
        in_tensor(0, SIZES(rows));
        in_int(1, 0);
        in_tensor(2, SIZES(n));
        in_tensor(3, SIZES(n));
        out_tensor(0, SIZES(rows));
        rd_all(cells_of(rows)), rd_all(cells_of(n)), rd_all(cells_of(n)), wr_all(cells_of(rows));
        for (int64_t k = 0; k < n; k++) (void)zadd(1, 2);
        op_proves();
    }
}

/* -- factorisations, as in test_count_exact_factor.c -------------------------------------------------------
 */

static void zmac(void) {
    (void)mac(1, 2, 3);
    for (int i = 0; i < 6; i++) (void)did(1);
}

static void eliminate(int64_t m, int64_t n) {
    for (int64_t j = 0; j < m && j < n; j++) {
        double best = 0;
        for (int64_t i = j; i < m; i++) {
            double v = add(abs1(3), abs1(4));
            best = i > j ? max2(best, v) : v;
        }
        for (int64_t i = j + 1; i < m; i++) {
            (void)zdiv(of(1, 1), of(2, 1));
            for (int64_t c = j + 1; c < n; c++) zmac();
        }
    }
}

static void cholesky(int64_t n) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = j; r < n; r++) {
            for (int64_t c = 0; c < j; c++) zmac();
            if (r == j)
                (void)sqrt1(4);
            else
                (void)dvd(1, 2), (void)dvd(1, 2);
        }
}

static void factors(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t m = pick(1, 6), n = pick(1, 6);
        bool lu = coin();
        op_new(lu ? "aten::linalg_lu_factor_ex" : "aten::linalg_cholesky_ex");
        if (!lu) m = n;
        the.dtype = COMPLEX64;
        in_tensor(0, SIZES(m, n));
        out_tensor(0, SIZES(m, n));
        rd_all(cells_of(m * n)), wr_all(cells_of(m * n));
        if (lu)
            eliminate(m, n);
        else
            cholesky(n);
        op_proves();
    }
}

static void systems(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t matrix, right;
        int triangles, units, real;
    } cases[] = {{"aten::linalg_solve_triangular", 0, 1, 1, 0, 0},
                 {"aten::linalg_lu_solve", 0, 2, 2, 1, 0},
                 {"aten::_cholesky_solve_helper", 1, 0, 2, 0, 1}};
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 6), rights = pick(0, 4);
        int which = (int)pick(0, 2);
        op_new(cases[which].name);
        the.dtype = COMPLEX64;
        in_tensor(cases[which].matrix, SIZES(n, n));
        in_tensor(cases[which].right, SIZES(n, rights));
        out_tensor(0, SIZES(n, rights));
        rd_all(cells_of(n * n)), rd_all(cells_of(n * rights)), wr_all(cells_of(n * rights));
        for (int64_t k = 0; k < rights * cases[which].triangles; k++)
            for (int64_t r = 0; r < n; r++) {
                for (int64_t c = 0; c < r; c++) zmac();
                bool unit = cases[which].units && k % 2;
                if (!unit && cases[which].real) (void)dvd(1, 2), (void)dvd(1, 2);
                if (!unit && !cases[which].real) (void)zdiv(1, of(1, 2));
            }
        op_proves();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_one_by_one), cmocka_unit_test(sums),    cmocka_unit_test(scans_and_norms),
        cmocka_unit_test(added_somewhere),     cmocka_unit_test(factors), cmocka_unit_test(systems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
