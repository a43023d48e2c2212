/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` in bytes where tensors of several types meet in one operator: the loops of the other
 * proofs give all tensors of an operator one type. */
#include "kit/oom.h"

#include "kit/op_build.h"

enum { I8 = 1, I32 = 3, I64, F16, F32, F64, BOOL = 11, BF16 = 15, QUINT4X2 };

/* Types that numbers are kept in. */
static int32_t any_type(void) {
    static const int32_t types[] = {F32, BF16, F64, F16, I8, I64};
    return types[pick(0, 5)];
}

/* Cells that stand for a tensor of a type. */
static cells *of_type(int32_t dtype, int64_t n) {
    cells *c = cells_of(n);
    c->item = lam_dtype_bits(dtype) / 8;
    return c;
}

static cells *goes_in(int32_t dtype, int32_t position, int32_t ndim, const int64_t *sizes) {
    the.dtype = dtype;
    in_tensor(position, ndim, sizes);
    return of_type(dtype, elements(ndim, sizes));
}
static cells *comes_out(int32_t dtype, int32_t position, int32_t ndim, const int64_t *sizes) {
    the.dtype = dtype;
    out_tensor(position, ndim, sizes);
    return of_type(dtype, elements(ndim, sizes));
}

/* Only the bytes are proved here. */
static void bytes_prove(void) {
    lam_count got[LAM_N_METRICS];
    op_counts(got);
    op_same(LAM_BYTES_READ, got[LAM_BYTES_READ], moved_bytes(false, 0));
    op_same(LAM_BYTES_WRITTEN, got[LAM_BYTES_WRITTEN], moved_bytes(true, 0));
    op_same(LAM_DMAS, got[LAM_DMAS], moved_elements());
    forget();
}

static void bytes_say(int64_t read, int64_t written) {
    const int64_t want[] = {read, written};
    lam_count got[LAM_N_METRICS];
    op_counts(got);
    for (int i = 0; i < 2; i++) {
        if (want[i] >= 0) op_same((lam_metric)(LAM_BYTES_READ + i), got[LAM_BYTES_READ + i], want[i]);
        if (want[i] < 0) assert_int_equal(got[LAM_BYTES_READ + i].state, LAM_UNKNOWN);
    }
    forget();
}

/* -- products ------------------------------------------------------------------------------------------ */

static void products(void **state) {
    (void)state;
    for (int i = 0; i < 4000; i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 4), k = pick(0, 4), m = pick(0, 4);
        bool whole = coin(); /* 8-bit numbers multiplied into 32-bit sums */
        op_new(whole ? "aten::_int_mm" : "aten::addmm");
        cells *b = whole ? NULL : goes_in(any_type(), 0, SIZES(m));
        cells *x = goes_in(whole ? I8 : any_type(), !whole, SIZES(n, k));
        cells *w = goes_in(whole ? I8 : any_type(), 1 + !whole, SIZES(k, m));
        cells *y = comes_out(whole ? I32 : any_type(), 0, SIZES(n, m));
        if (b) rd_all(b);
        rd_all(x);
        rd_all(w);
        wr_all(y);
        bytes_prove();
    }
}

/* A gradient reads the weight for that of the input, and the input for that of the weight. */
static void conv_gradients(void **state) {
    (void)state;
    for (int i = 0; i < 3000; i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 2), c = pick(1, 3), o = pick(1, 3), at = pick(3, 5);
        bool want[3] = {coin(), coin(), coin()};
        op_new("aten::convolution_backward");
        cells *g = goes_in(any_type(), 0, SIZES(n, o, at - 2)), *x = goes_in(any_type(), 1, SIZES(n, c, at));
        int32_t type = any_type();
        cells *w = goes_in(type, 2, SIZES(o, c, 3));
        in_bool(7, false);
        rd_all(g);
        if (want[0]) rd_all(w);
        if (want[1]) rd_all(x);
        want[0] ? wr_all(comes_out(any_type(), 0, SIZES(n, c, at))) : out_none(0);
        want[1] ? wr_all(comes_out(type, 1, SIZES(o, c, 3))) : out_none(1);
        want[2] ? wr_all(comes_out(type, 2, SIZES(o))) : out_none(2);
        bytes_prove();
    }
}

/* -- elements that move -------------------------------------------------------------------------------- */

/* Rows are read as often as they are asked for, and the indices too. */
static void lookups(void **state) {
    (void)state;
    for (int i = 0; i < 4000; i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 5), width = pick(1, 4), n = pick(0, 6);
        int32_t type = any_type(), index = coin() ? I64 : I32;
        bool table = coin();
        op_new(table ? "aten::embedding" : "aten::index");
        cells *x = goes_in(type, 0, SIZES(rows, width)), *at = goes_in(index, 1, SIZES(n));
        rd_all(at);
        rd_all(of_type(type, n * width)); /* each time anew */
        wr_all(comes_out(type, 0, SIZES(n, width)));
        assert_int_equal(x->n, rows * width);
        bytes_prove();
    }
}

static void bags(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 4), width = pick(1, 4), n = pick(0, 6), many = pick(1, 4);
        int32_t type = any_type();
        bool weighted = coin();
        op_new("aten::_embedding_bag_forward_only");
        goes_in(type, 0, SIZES(rows, width));
        rd_all(goes_in(I64, 1, SIZES(n)));
        rd_all(goes_in(coin() ? I64 : I32, 2, SIZES(many)));
        in_int(4, 0);
        if (weighted)
            rd_all(goes_in(type, 6, SIZES(n)));
        else
            in_none(6);
        in_int(8, -1);
        rd_all(of_type(type, n * width));
        wr_all(comes_out(type, 0, SIZES(many, width)));
        wr_all(comes_out(I64, 1, SIZES(many)));
        bytes_prove();
    }
}

static void puts_values(void **state) {
    (void)state;
    for (int i = 0; i < 3000; i++) {
        reseed((uint64_t)i);
        int64_t places = pick(2, 5), row = pick(1, 3);
        int32_t type = any_type();
        bool adds = coin();
        op_new("aten::index_put_");
        goes_in(type, 0, SIZES(7, row));
        rd_all(goes_in(I64, 1, SIZES(places)));
        rd_all(goes_in(type, 2, SIZES(places, row)));
        in_bool(3, adds);
        cells *y = of_type(type, places * row);
        if (adds) rd_all(y);
        wr_all(y);
        the.dtype = type;
        out_tensor(0, SIZES(7, row));
        bytes_prove();
    }
}

static void joins_and_copies(void **state) {
    (void)state;
    for (int i = 0; i < 4000; i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 4), m = pick(0, 4);
        if (i % 2) { /* what is joined becomes one type */
            op_new("aten::cat");
            rd_all(goes_in(any_type(), 0, SIZES(n, 3)));
            rd_all(goes_in(any_type(), 0, SIZES(m, 3)));
            wr_all(comes_out(any_type(), 0, SIZES(n + m, 3)));
        } else {
            int32_t type = any_type();
            op_new("aten::copy_");
            goes_in(type, 0, SIZES(n, m));
            rd_all(goes_in(any_type(), 1, SIZES(n, m)));
            wr_all(comes_out(type, 0, SIZES(n, m)));
        }
        bytes_prove();
    }
}

/* -- the rest ------------------------------------------------------------------------------------------ */

static void statistics(void **state) {
    (void)state;
    for (int i = 0; i < 3000; i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 3), c = pick(1, 4), w = pick(1, 4);
        int32_t type = any_type(), wide = coin() ? F32 : F64;
        bool training = coin(), tracked = coin();
        op_new("aten::native_batch_norm");
        rd_all(goes_in(type, 0, SIZES(n, c, w)));
        rd_all(goes_in(type, 1, SIZES(c)));
        rd_all(goes_in(type, 2, SIZES(c)));
        for (int32_t k = 3; k < 5; k++) {
            if (!tracked) {
                in_none(k);
                continue;
            }
            cells *stats = goes_in(wide, k, SIZES(c));
            rd_all(stats);
            if (training) wr_all(stats);
        }
        in_bool(5, training);
        wr_all(comes_out(type, 0, SIZES(n, c, w)));
        wr_all(comes_out(wide, 1, SIZES(training ? c : 0)));
        wr_all(comes_out(wide, 2, SIZES(training ? c : 0)));
        bytes_prove();
    }
}

static void targets(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 6), classes = pick(1, 4);
        int32_t type = any_type();
        op_new("aten::nll_loss_forward");
        goes_in(type, 0, SIZES(n, classes));
        rd_all(goes_in(I64, 1, SIZES(n)));
        in_none(2);
        in_int(3, 1);
        rd_all(of_type(type, n)); /* one value a target */
        wr_all(comes_out(type, 0, 0, NULL));
        wr_all(comes_out(type, 1, 0, NULL));
        bytes_prove();
    }
}

static void element_by_element(void **state) {
    (void)state;
    for (int i = 0; i < 4000; i++) {
        reseed((uint64_t)i);
        int64_t s[LAYER_NDIM];
        int32_t n = random_shape(0, 4, s);
        static const char *const names[] = {"aten::lt", "aten::mul", "aten::_to_copy", "aten::trace"};
        const char *name = names[i % 4];
        op_new(name);
        if (i % 4 == 3) {
            int64_t rows = pick(0, 4), columns = pick(0, 4), least = rows < columns ? rows : columns;
            int32_t type = any_type();
            goes_in(type, 0, SIZES(rows, columns));
            rd_all(of_type(type, least));
            wr_all(comes_out(I64, 0, 0, NULL));
        } else {
            rd_all(goes_in(any_type(), 0, n, s));
            if (i % 4 < 2) rd_all(goes_in(any_type(), 1, n, s));
            wr_all(comes_out(i % 4 == 0 ? BOOL : any_type(), 0, n, s));
        }
        bytes_prove();
    }
}

/* Views move nothing; a pool's indices are wider than its values; types of less than a byte are stored
 * together; a tensor that takes the result is not read. */
static void by_hand(void **state) {
    (void)state;
    op_new("aten::view");
    goes_in(F64, 0, SIZES(2, 3));
    comes_out(F64, 0, SIZES(6));
    bytes_say(0, 0);
    op_new("aten::max_pool2d_with_indices");
    goes_in(F16, 0, SIZES(1, 1, 4, 4));
    in_int(1, 2);
    comes_out(F16, 0, SIZES(1, 1, 2, 2));
    comes_out(I64, 1, SIZES(1, 1, 2, 2));
    bytes_say(32, 8 + 32);
    op_new("aten::clone"); /* two elements a byte, the last alone */
    goes_in(QUINT4X2, 0, SIZES(3, 3));
    comes_out(QUINT4X2, 0, SIZES(3, 3));
    bytes_say(5, 5);
    op_new("aten::relu_out");
    goes_in(F32, 0, SIZES(5));
    goes_in(BF16, 1, SIZES(5));
    comes_out(BF16, 0, SIZES(5));
    the.out[0].storage = the.in[1].storage;
    bytes_say(20, 10);
    op_new("aten::relu_");
    goes_in(BF16, 0, SIZES(5));
    comes_out(BF16, 0, SIZES(5));
    the.out[0].storage = the.in[0].storage;
    bytes_say(10, 10);
}

/* A type that nobody told is no type of 0 bytes. */
static void types_not_told(void **state) {
    (void)state;
    op_new("aten::mul");
    goes_in(F32, 0, SIZES(5));
    goes_in(-1, 1, SIZES(5));
    comes_out(F32, 0, SIZES(5));
    bytes_say(-1, 20);
    op_new("aten::relu");
    goes_in(F32, 0, SIZES(5));
    comes_out(-1, 0, SIZES(5));
    bytes_say(20, -1);
    op_new("aten::trace"); /* part of a packed tensor */
    goes_in(QUINT4X2, 0, SIZES(3, 3));
    comes_out(QUINT4X2, 0, 0, NULL);
    bytes_say(-1, 1);
    op_new("aten::relu"); /* more bytes than fit */
    the.dtype = F64;
    in_tensor(0, SIZES(INT64_MAX / 4));
    out_tensor(0, SIZES(INT64_MAX / 16));
    bytes_say(-1, INT64_MAX / 16 * 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),   cmocka_unit_test(conv_gradients), cmocka_unit_test(lookups),
        cmocka_unit_test(bags),       cmocka_unit_test(puts_values),    cmocka_unit_test(joins_and_copies),
        cmocka_unit_test(statistics), cmocka_unit_test(targets),        cmocka_unit_test(element_by_element),
        cmocka_unit_test(by_hand),    cmocka_unit_test(types_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
