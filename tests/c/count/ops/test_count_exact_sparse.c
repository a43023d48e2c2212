/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for products with a factor that stores only some of its elements. The product is the
 * logical one; what is not stored is idle, and neither read nor written. */
#include "kit/oom.h"

#include "kit/op_build.h"

enum { INT64_BYTES = 8, MOST = 64 };

/* A matrix, or one for each of a batch, of which some elements are stored. */
typedef struct matrix {
    int64_t n, rows, columns, stored;
    bool sparse, there[MOST];
} matrix;

static matrix random_matrix(int64_t n, int64_t rows, int64_t columns, bool sparse) {
    matrix m = {.n = n, .rows = rows, .columns = columns, .sparse = sparse};
    assert_true(n * rows * columns <= MOST);
    for (int64_t i = 0; i < n * rows * columns; i++) {
        m.there[i] = !sparse || coin();
        m.stored += m.there[i];
    }
    return m;
}

/* Tells that the tensor `a` stores these elements, each with its place along every axis, and reads or writes
 * what is stored. */
static void tell_stored(lam_op_arg *a, const matrix *m, bool written) {
    int64_t places = m->sparse ? m->stored * a->ndim : 0;
    cells *values = cells_of(m->stored), *indices = cells_of(places);
    indices->item = INT64_BYTES;
    if (written) {
        wr_all(values);
        wr_all(indices);
    } else {
        rd_all(values);
        rd_all(indices);
    }
    if (!m->sparse) return;
    a->sparse = true;
    a->values = m->stored;
    a->stored = m->stored + places;
    a->stored_bytes = m->stored * lam_dtype_bits(a->dtype) / 8 + places * INT64_BYTES;
}

/* Takes two factors from position `at` on and gives their product. */
static void walk(const matrix *x, const matrix *w, const matrix *y) {
    for (int64_t b = 0; b < x->n; b++)
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t j = 0; j < w->columns; j++) {
                double acc = 0;
                for (int64_t r = 0; r < x->columns; r++) {
                    now.idle = !x->there[(b * x->rows + i) * x->columns + r] ||
                               !w->there[(b * w->rows + r) * w->columns + j] ||
                               !y->there[(b * x->rows + i) * w->columns + j];
                    acc = mac(acc, 1, 2);
                }
            }
    now.idle = false;
}

/* Which of them is sparse: the first factor, the second one, or the result alone. */
typedef enum where { FIRST, SECOND, RESULT } where;

static void product(const char *name, int64_t batch, int64_t n, int64_t k, int64_t m, where at, bool added) {
    matrix x = random_matrix(batch, n, k, at == FIRST), w = random_matrix(batch, k, m, at == SECOND),
           y = random_matrix(batch, n, m, at == RESULT);
    bool many = strcmp(name, "aten::bmm") == 0;
    op_new(name);
    if (added) {
        matrix b = random_matrix(1, n, m, at == RESULT);
        in_tensor(0, SIZES(n, m));
        tell_stored(&the.in[0], &b, false);
    }
    if (many) {
        in_tensor(0, SIZES(batch, n, k));
        in_tensor(1, SIZES(batch, k, m));
        out_tensor(0, SIZES(batch, n, m));
    } else {
        in_tensor(added, SIZES(n, k));
        in_tensor(added + 1, SIZES(k, m));
        out_tensor(0, SIZES(n, m));
    }
    tell_stored(&the.in[added], &x, false);
    tell_stored(&the.in[added + 1], &w, false);
    tell_stored(&the.out[0], &y, true);
    walk(&x, &w, &y);
    op_proves();
}

static void matrices(void **state) {
    (void)state;
    static const char *const names[] = {"aten::mm", "aten::addmm", "aten::_sparse_mm", "aten::_sparse_addmm"};
    for (int i = 0; more(i, 24000); i++) {
        reseed((uint64_t)i);
        product(names[i % 4], 1, pick(0, 4), pick(0, 4), pick(0, 4), coin() ? FIRST : SECOND, i % 2);
    }
}

static void batches(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        product("aten::bmm", pick(0, 3), pick(0, 4), pick(0, 4), pick(1, 4), coin() ? FIRST : SECOND, false);
    }
}

static void sampled(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        product(coin() ? "aten::addmm" : "aten::sparse_sampled_addmm", 1, pick(0, 4), pick(0, 4), pick(0, 4),
                RESULT, true);
    }
}

static void vectors(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 5), k = pick(0, 5);
        matrix x = random_matrix(1, n, k, true), w = random_matrix(1, k, 1, false),
               y = random_matrix(1, n, 1, false);
        op_new("aten::mv");
        in_tensor(0, SIZES(n, k));
        in_tensor(1, SIZES(k));
        out_tensor(0, SIZES(n));
        tell_stored(&the.in[0], &x, false);
        tell_stored(&the.in[1], &w, false);
        tell_stored(&the.out[0], &y, true);
        walk(&x, &w, &y);
        op_proves();
    }
}

/* A layer's input of any number of axes, with a weight of which not all is stored. */
static void linears(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t s = pick(1, 2), n = pick(0, 4), k = pick(0, 4), m = pick(0, 4);
        matrix x = random_matrix(1, s * n, k, false), w = random_matrix(1, k, m, true),
               y = random_matrix(1, s * n, m, false);
        op_new("aten::linear");
        in_tensor(0, SIZES(s, n, k));
        in_tensor(1, SIZES(m, k));
        out_tensor(0, SIZES(s, n, m));
        tell_stored(&the.in[0], &x, false);
        tell_stored(&the.in[1], &w, false);
        tell_stored(&the.out[0], &y, true);
        walk(&x, &w, &y);
        op_proves();
    }
}

/* Result and gradients of a reduction of products: sums, means, or the largest. */
typedef enum how { SUM, MEAN, LARGEST } how;

static void divisions(int64_t n) {
    for (int64_t i = 0; i < n; i++) (void)dvd(1, 2);
}

static void reduces(void **state) {
    (void)state;
    static const char *const names[] = {"sum", "mean", "amax", "amin"};
    for (int i = 0; more(i, 6000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 4), k = pick(0, 4), m = pick(0, 4), which = pick(0, 3);
        how h = which > LARGEST ? LARGEST : (how)which;
        matrix x = random_matrix(1, n, k, true), w = random_matrix(1, k, m, false),
               y = random_matrix(1, n, m, false);
        op_new("aten::_sparse_mm_reduce_impl");
        in_tensor(0, SIZES(n, k));
        in_tensor(1, SIZES(k, m));
        in_text(2, names[which]);
        out_tensor(0, SIZES(n, m));
        out_tensor(1, SIZES(h == LARGEST ? n : 0, m));
        tell_stored(&the.in[0], &x, false);
        tell_stored(&the.in[1], &w, false);
        tell_stored(&the.out[0], &y, true);
        if (h == LARGEST) tell_stored(&the.out[1], &y, true);
        if (h != LARGEST) walk(&x, &w, &y);
        for (int64_t e = 0; h == LARGEST && e < x.stored * m; e++) (void)max2(1, mul(2, 3));
        if (h == MEAN) divisions(n * m);
        op_proves();
    }
}

static void reduces_backward(void **state) {
    (void)state;
    static const char *const names[] = {"sum", "mean", "amax", "amin"};
    for (int i = 0; more(i, 6000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 4), k = pick(0, 4), m = pick(0, 4), which = pick(0, 3);
        bool first = coin(), second = !first || coin();
        how h = which > LARGEST ? LARGEST : (how)which;
        matrix x = random_matrix(1, n, k, true), w = random_matrix(1, k, m, false),
               y = random_matrix(1, n, m, false);
        op_new("aten::_sparse_mm_reduce_impl_backward");
        in_tensor(0, SIZES(n, k));
        in_tensor(1, SIZES(n, m));
        in_tensor(2, SIZES(k, m));
        in_text(3, names[which]);
        tell_stored(&the.in[0], &x, false);
        tell_stored(&the.in[1], &y, false);
        tell_stored(&the.in[2], &w, false);
        if (first) {
            out_tensor(0, SIZES(n, k));
            tell_stored(&the.out[the.n_out - 1], &x, true);
        }
        if (second) {
            out_tensor(1, SIZES(k, m));
            tell_stored(&the.out[the.n_out - 1], &w, true);
        }
        for (int side = 0; side < first + second; side++) {
            if (h != LARGEST) walk(&x, &w, &y); /* the same products, summed in another way */
            for (int64_t e = 0; h == LARGEST && e < n * m; e++) (void)add(1, mul(2, 3));
            if (h == MEAN) divisions(x.stored);
        }
        op_proves();
    }
}

/* A reduction that is not told, and one of tensors of which none is sparse. */
static void reduces_somehow(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        matrix x = random_matrix(1, 2, 3, true);
        lam_count got[LAM_N_METRICS];
        op_new("aten::_sparse_mm_reduce_impl");
        in_tensor(0, SIZES(2, 3));
        in_tensor(1, SIZES(3, 2));
        if (i == 0) in_text(2, "prod");
        if (i == 2) in_text(2, "sum");
        out_tensor(0, SIZES(2, 2));
        if (i < 2) tell_stored(&the.in[0], &x, false);
        op_counts(got);
        assert_int_equal(got[LAM_MACS].state, LAM_UNKNOWN);
        assert_int_equal(got[LAM_FLOPS].state, LAM_UNKNOWN);
        forget();
    }
}

/* A result that is dense nowhere else is scaled where it is stored. */
static void scaled(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        reseed((uint64_t)i);
        matrix c = random_matrix(1, 4, 5, true);
        lam_count got[LAM_N_METRICS];
        op_new("aten::sparse_sampled_addmm");
        in_tensor(0, SIZES(4, 5));
        in_tensor(1, SIZES(4, 3));
        in_tensor(2, SIZES(3, 5));
        in_float(3, 0.5), in_float(4, 2);
        out_tensor(0, SIZES(4, 5));
        tell_stored(&the.in[0], &c, false);
        tell_stored(&the.out[0], &c, true);
        op_counts(got);
        op_same(LAM_MACS, got[LAM_MACS], 60);
        op_same(LAM_FLOPS, got[LAM_FLOPS], 120 + 2 * 20);
        op_same(LAM_EFFECTIVE_MACS, got[LAM_EFFECTIVE_MACS], 3 * c.stored);
        op_same(LAM_EFFECTIVE_FLOPS, got[LAM_EFFECTIVE_FLOPS], 6 * c.stored + 2 * c.stored);
        forget();
    }
}

/* Which products two of them make depends on the positions; what is stored may not be told. */
static void not_told(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        lam_count got[LAM_N_METRICS];
        matrix x = random_matrix(1, 2, 3, true), w = random_matrix(1, 3, 2, true);
        op_new("aten::mm");
        in_tensor(0, SIZES(2, 3));
        in_tensor(1, SIZES(3, 2));
        out_tensor(0, SIZES(2, 2));
        tell_stored(&the.in[0], &x, false);
        if (i == 0) tell_stored(&the.in[1], &w, false);
        if (i == 1) the.in[0].values = the.in[0].stored = the.in[0].stored_bytes = -1;
        op_counts(got);
        op_same(LAM_MACS, got[LAM_MACS], 12);
        assert_int_equal(got[LAM_EFFECTIVE_MACS].state, LAM_UNKNOWN);
        assert_int_equal(got[LAM_EFFECTIVE_FLOPS].state, LAM_UNKNOWN);
        if (i == 1) assert_int_equal(got[LAM_DMAS].state, LAM_UNKNOWN);
        if (i == 1) assert_int_equal(got[LAM_BYTES_READ].state, LAM_UNKNOWN);
        forget();
    }
}

/* How a kernel goes about it is not known; what is stored goes in and out all the same. */
static void element_by_element(void **state) {
    (void)state;
    matrix x = random_matrix(1, 4, 5, true);
    lam_count got[LAM_N_METRICS];
    op_new("aten::relu");
    in_tensor(0, SIZES(4, 5));
    out_tensor(0, SIZES(4, 5));
    tell_stored(&the.in[0], &x, false);
    tell_stored(&the.out[0], &x, true);
    op_counts(got);
    assert_int_equal(got[LAM_FLOPS].state, LAM_UNKNOWN);
    op_same(LAM_MACS, got[LAM_MACS], 0);
    op_same(LAM_DMAS, got[LAM_DMAS], 2 * 3 * x.stored);
    forget();
}

/* Two that store different numbers are not one signature. */
static void signatures(void **state) {
    (void)state;
    lam_builder *b;
    lam_model *m = NULL;
    int64_t sizes[] = {4, 4};
    assert_int_equal(lam_builder_new(&b, 0, NULL), LAM_OK);
    for (int i = 0; i < 3; i++) {
        lam_op_arg a = {.is_tensor = true, .dtype = 6, .ndim = 2, .sizes = sizes, .sparse = true};
        a.values = a.stored = i / 2 + 1;
        lam_op_info info = {
            .name = "aten::relu", .call = -1, .parent = -1, .n_in = 1, .n_out = 1, .in = &a, .out = &a};
        assert_int_equal(lam_build_op(b, &info, NULL, NULL), LAM_OK);
    }
    assert_int_equal(lam_builder_finish(b, &m, NULL), LAM_OK);
    assert_int_equal(lam_model_n_op_sigs(m), 2);
    assert_int_equal(lam_model_op(m, 2)->sig->in[0].stored, 2);
    assert_true(lam_model_op(m, 1)->sig == lam_model_op(m, 0)->sig);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices),
        cmocka_unit_test(batches),
        cmocka_unit_test(sampled),
        cmocka_unit_test(vectors),
        cmocka_unit_test(linears),
        cmocka_unit_test(reduces),
        cmocka_unit_test(reduces_backward),
        cmocka_unit_test(reduces_somehow),
        cmocka_unit_test(scaled),
        cmocka_unit_test(not_told),
        cmocka_unit_test(element_by_element),
        cmocka_unit_test(signatures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
