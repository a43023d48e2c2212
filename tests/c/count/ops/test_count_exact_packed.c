/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for operators whose weight is packed in an object that is no tensor: the layer that calls
 * them says what it keeps. */
#include "kit/oom.h"

#include "kit/op_build.h"

enum { QINT8 = 12, F32 = 6, MOST_PACKED = 8 };

/* What the layer keeps: shapes and types. */
typedef struct kept {
    int32_t n;
    lam_tensor_info at[MOST_PACKED];
    int64_t sizes[MOST_PACKED][LAYER_NDIM];
} kept;

static cells *keeps(kept *k, int32_t dtype, int32_t ndim, const int64_t *sizes) {
    int64_t *own = k->sizes[k->n];
    memcpy(own, sizes, (size_t)ndim * sizeof *own);
    k->at[k->n++] = (lam_tensor_info){.dtype = dtype, .ndim = ndim, .sizes = own, .bytes = -1};
    cells *c = cells_of(elements(ndim, sizes));
    c->item = lam_dtype_bits(dtype) / 8;
    rd_all(c);
    return c;
}

static int32_t new_place(lam_builder *b, int32_t parent, const char *name) {
    lam_module_info info = {"Packed", "Packed", NULL, -1, LAM_MODULE_LEAF};
    int32_t module, place;
    assert_int_equal(lam_build_module(b, &info, &module, NULL), LAM_OK);
    assert_int_equal(lam_build_place(b, parent, name, module, &place, NULL), LAM_OK);
    return module;
}

/* A layer that calls the operator and keeps its weight in a child that is not called; `inside`: it calls the
 * child. */
static lam_model *layer_with(const kept *k, bool inside) {
    lam_builder *b;
    lam_model *m = NULL;
    int32_t i, tensor, call;
    assert_int_equal(lam_builder_new(&b, 0, NULL), LAM_OK);
    int32_t top = new_place(b, -1, ""), child = new_place(b, 0, "kept");
    for (i = 0; i < k->n; i++) {
        assert_int_equal(lam_build_tensor(b, &k->at[i], &tensor, NULL), LAM_OK);
        assert_int_equal(lam_build_packed(b, tensor, NULL), LAM_OK);
        assert_int_equal(lam_build_owns(b, child, "packed", tensor, true, NULL), LAM_OK);
    }
    assert_int_equal(lam_build_packed(b, k->n, NULL), LAM_RANGE);
    lam_call_info info = {.module = top, .parent = -1};
    assert_int_equal(lam_build_call(b, &info, &call, NULL), LAM_OK);
    info = (lam_call_info){.module = child, .parent = call};
    if (inside) assert_int_equal(lam_build_call(b, &info, &i, NULL), LAM_OK);
    lam_op_info op = {.name = the.name,
                      .call = call,
                      .parent = -1,
                      .n_in = the.n_in,
                      .n_out = the.n_out,
                      .in = the.in,
                      .out = the.out};
    assert_int_equal(lam_build_ops_seen(b, NULL), LAM_OK);
    assert_int_equal(lam_build_op(b, &op, &i, NULL), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, NULL), LAM_OK);
    return m;
}

static void proves_with(const kept *k, int unknown) {
    const int64_t did_[] = {now.macs, now.flops, moved_elements(), moved_bytes(false, 4),
                            moved_bytes(true, 4)};
    lam_count got[LAM_N_METRICS];
    lam_model *m = layer_with(k, false);
    lmi_count_op(lmi_convention_named("exact", NULL), m, 0, got);
    for (int i = 0; i <= LAM_BYTES_WRITTEN; i++) {
        if (!(unknown >> i & 1)) op_same((lam_metric)i, got[i], did_[i]);
        if (unknown >> i & 1) assert_int_equal(got[i].state, LAM_UNKNOWN);
    }
    lam_model_free(m);
    proved("exact", lam_word_op_kind(lam_word_op(the.name)));
    forget();
}

static cells *takes_and_gives(const int64_t *x, int32_t nx, const int64_t *y, int32_t ny) {
    the.dtype = F32;
    in_tensor(0, nx, x);
    out_tensor(0, ny, y);
    cells *in = cells_of(elements(nx, x));
    rd_all(in);
    wr_all(cells_of(elements(ny, y)));
    return in;
}

static void linears(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        reseed((uint64_t)i);
        kept k = {0};
        int64_t n = pick(0, 4), in = pick(1, 5), out = pick(1, 5);
        bool half = coin();
        op_new(half ? "quantized::linear_dynamic_fp16" : "quantized::linear_dynamic");
        takes_and_gives((const int64_t[]){n, in}, 2, (const int64_t[]){n, out}, 2);
        cells *w = keeps(&k, half ? F32 : QINT8, SIZES(out, in));
        if (half) { /* told wider than it is kept */
            k.at[0].bytes = 2 * out * in;
            w->item = 2;
        }
        if (coin()) keeps(&k, F32, SIZES(out));
        for (int64_t c = 0; c < n * out * in; c++) (void)mac(0, 1, 2);
        proves_with(&k, 0);
    }
}

static void convolutions(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        kept k = {0};
        int64_t n = pick(0, 2), groups = pick(1, 2), in = groups * pick(1, 2), out = groups * pick(1, 3);
        int64_t at = pick(3, 6), window = pick(1, 3), to = at - window + 1;
        op_new(coin() ? "quantized::conv2d_relu" : "quantized::conv2d");
        takes_and_gives((const int64_t[]){n, in, at, at}, 4, (const int64_t[]){n, out, to, to}, 4);
        keeps(&k, QINT8, SIZES(out, in / groups, window, window));
        if (coin()) keeps(&k, F32, SIZES(out));
        for (int64_t c = 0; c < n * out * to * to; c++)
            for (int64_t r = 0; r < in / groups * window * window; r++) (void)mac(0, 1, 2);
        proves_with(&k, 0);
    }
}

static void recurrences(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        kept k = {0};
        bool lstm = coin(), both = coin(), flat = coin();
        int64_t steps = pick(0, 3), n = pick(1, 3), in = pick(1, 4), hidden = pick(1, 3), layers = pick(1, 2);
        int64_t gates = lstm ? 4 : 3, dirs = both ? 2 : 1, all = flat ? steps : steps * n;
        op_new(lstm ? "aten::quantized_lstm" : "aten::quantized_gru");
        if (flat) { /* sequences of several lengths, one step after another */
            takes_and_gives((const int64_t[]){steps, in}, 2, (const int64_t[]){steps, hidden * dirs}, 2);
        } else {
            takes_and_gives((const int64_t[]){steps, n, in}, 3, (const int64_t[]){steps, n, hidden * dirs},
                            3);
        }
        for (int64_t l = 0; l < layers && l * dirs * 2 < MOST_PACKED - 1; l++)
            for (int64_t d = 0; d < dirs; d++) {
                int64_t wide = l ? hidden * dirs : in;
                keeps(&k, QINT8, SIZES(gates * hidden, wide));
                keeps(&k, QINT8, SIZES(gates * hidden, hidden));
                for (int64_t s = 0; s < all * gates * hidden * (wide + hidden); s++) (void)mac(0, 1, 2);
            }
        proves_with(&k, 1 << LAM_FLOPS);
    }
}

/* Also what is not stored is a product. Here it is not told what is. */
static void sparse(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 4), k = pick(0, 4), m = pick(0, 4);
        bool added = coin();
        op_new(added ? "aten::_sparse_addmm" : "aten::_sparse_mm");
        if (added) in_tensor(0, SIZES(n, m));
        in_tensor(added, SIZES(n, k));
        in_tensor(added + 1, SIZES(k, m));
        out_tensor(0, SIZES(n, m));
        wr_all(cells_of(n * m));
        for (int64_t c = 0; c < n * m * k; c++) (void)mac(0, 1, 2);
        op_proves_but(1 << LAM_DMAS | 1 << LAM_EFFECTIVE_MACS | 1 << LAM_EFFECTIVE_FLOPS);
    }
}

/* Whose weight it is is not told where the layer calls others, where it keeps none, or where one of them
 * could not be unpacked. */
static void not_told(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        kept k = {0};
        lam_count got[LAM_N_METRICS];
        op_new("quantized::linear_dynamic");
        takes_and_gives((const int64_t[]){2, 3}, 2, (const int64_t[]){2, 4}, 2);
        if (i < 2) keeps(&k, QINT8, SIZES(4, 3));
        if (i == 1) k.at[k.n++] = (lam_tensor_info){.dtype = -1, .ndim = -1, .bytes = -1};
        lam_model *m = layer_with(&k, i == 0);
        lmi_count_op(lmi_convention_named("exact", NULL), m, 0, got);
        op_same(LAM_MACS, got[LAM_MACS], 24);
        assert_int_equal(got[LAM_DMAS].state, LAM_UNKNOWN);
        assert_int_equal(got[LAM_BYTES_READ].state, LAM_UNKNOWN);
        lam_model_free(m);
        forget();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linears), cmocka_unit_test(convolutions), cmocka_unit_test(recurrences),
        cmocka_unit_test(sparse),  cmocka_unit_test(not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
