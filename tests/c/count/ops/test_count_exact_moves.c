/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for what moves elements, for losses of classes, and for fused operators, of which some
 * numbers are known and the others must be said to be unknown. */
#include "kit/oom.h"

#include "kit/op_build.h"

enum { NO_FLOPS = 1 << LAM_FLOPS, NO_DMAS = 1 << LAM_DMAS };

/* An input and an output of shapes of their own, as cells of the machine. */
static cells *reads(int32_t position, int32_t ndim, const int64_t *sizes) {
    in_tensor(position, ndim, sizes);
    cells *c = cells_of(elements(ndim, sizes));
    rd_all(c);
    return c;
}
static cells *writes(int32_t ndim, const int64_t *sizes) {
    out_tensor(0, ndim, sizes);
    cells *c = cells_of(elements(ndim, sizes));
    wr_all(c);
    return c;
}

/* -- elements that only move --------------------------------------------------------------------------- */

static void moves(void **state) {
    (void)state;
    for (int i = 0; more(i, 50000); i++) {
        reseed((uint64_t)i);
        int64_t s[LAYER_NDIM];
        int32_t n = random_shape(0, 4, s);
        switch (i % 5) {
        case 0: /* the same memory under another shape */
            op_new("aten::view");
            in_tensor(0, n, s);
            out_tensor(0, n, s);
            break;
        case 1:
            op_new(coin() ? "aten::fill_" : "aten::zeros");
            if (coin()) in_int(1, 3);
            writes(n, s);
            break;
        case 2: /* what comes out is no tensor */
            op_new("aten::_local_scalar_dense");
            reads(0, 0, s);
            the.out[the.n_out++] = (lam_op_arg){.value = {.type = LAM_FLOAT, .f = 1}, .ndim = -1};
            break;
        case 3:
            op_new("aten::copy_");
            in_tensor(0, n, s);
            reads(1, n, s);
            writes(n, s);
            break;
        default:
            op_new(coin() ? "aten::clone" : "aten::flip");
            reads(0, n, s);
            writes(n, s);
        }
        op_proves();
    }
}

/* A tensor on the meta device has no memory: what goes there is not read, what is there already is counted by
 * its shape. */
static void goes_nowhere(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t s[LAYER_NDIM];
        int32_t n = random_shape(0, 4, s);
        bool there = coin(), copied = coin();
        op_new(copied ? "aten::copy_" : "aten::_to_copy");
        if (copied) in_tensor(0, n, s);
        in_tensor(copied, n, s);
        out_tensor(0, n, s);
        the.in[0].device = the.out[0].device = 14;
        the.in[copied].device = there ? 14 : coin() ? 0 : 1;
        for (int k = 0; there && k < 2; k++)
            k ? wr_all(cells_of(elements(n, s))) : rd_all(cells_of(elements(n, s)));
        op_proves();
    }
}

/* Of two tensors or numbers; a number becomes a tensor first. */
static void chooses(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t s[LAYER_NDIM];
        int32_t n = random_shape(0, 4, s), dtype;
        op_new("aten::where");
        dtype = the.dtype;
        the.dtype = 11; /* bool */
        reads(0, n, s)->item = 1;
        the.dtype = dtype;
        for (int32_t at = 1; at <= 2; at++) {
            if (coin()) {
                reads(at, n, s);
                continue;
            }
            if (coin())
                in_float(at, 0.5);
            else
                in_int(at, 3);
            cells *made = cells_of(1);
            wr_all(made);
            rd_all(made);
        }
        writes(n, s);
        op_proves();
    }
}

/* Of a mask alone: where it is not 0, a list of places an axis. */
static void looks_for_places(void **state) {
    (void)state;
    for (int i = 0; more(i, 2000); i++) {
        reseed((uint64_t)i);
        int64_t s[LAYER_NDIM], found = 0;
        int32_t n = random_shape(1, 3, s);
        op_new("aten::where");
        cells *x = cells_of(elements(n, s));
        in_tensor(0, n, s);
        for (int64_t k = 0; k < x->n; k++) found += sub(rd(x, k), 0) != 0;
        for (int32_t axis = 0; axis < n; axis++) {
            wr_all(cells_of(found));
            out_tensor(axis, SIZES(found));
        }
        op_proves();
    }
}

static void joins(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t parts = pick(1, 4), rows = pick(0, 3), wide = pick(1, 4), all = 0;
        bool stacked = coin();
        op_new(stacked ? "aten::stack" : "aten::cat");
        for (int64_t k = 0; k < parts; k++) {
            int64_t r = stacked ? rows : pick(0, 3);
            reads(0, SIZES(r, wide));
            all += r;
        }
        if (stacked)
            writes(SIZES(parts, rows, wide));
        else
            writes(SIZES(all, wide));
        op_proves();
    }
}

/* x[i, j, ...] = v, or += v: an index a place from each tensor of the list. */
static void puts_values(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t places = pick(2, 5), row = pick(1, 3), lists = pick(1, 2);
        bool adds = coin();
        op_new("aten::index_put_");
        in_tensor(0, SIZES(7, lists > 1 ? 5 : row, row));
        for (int64_t k = 0; k < lists; k++) reads(1, SIZES(places));
        cells *v = reads(2, SIZES(places, row)), *y = cells_of(places * row);
        in_bool(3, adds);
        for (int64_t k = 0; k < places * row; k++) {
            if (adds) (void)rd(y, k), (void)add(1, 1);
            wr(y, k, v->v[k]);
        }
        out_tensor(0, SIZES(7, lists > 1 ? 5 : row, row));
        op_proves();
    }
}

/* -- element by element, and along axes ---------------------------------------------------------------- */

static double gelu_by_tanh(double x) {
    double cube = mul(mul(x, x), x);
    return mul(mul(0.5, x), add(1, tanh1(mul(0.797884560802865, add(x, mul(0.044715, cube))))));
}
static double gelu_by_erf(double x) { return mul(mul(0.5, x), add(1, erf1(dvd(x, 1.4142135623730951)))); }

static void gelus(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t s[LAYER_NDIM];
        int32_t n = random_shape(0, 4, s);
        bool by_tanh = coin();
        op_new("aten::gelu");
        cells *x = reads(0, n, s);
        in_text(1, by_tanh ? "tanh" : "none");
        cells *y = writes(n, s);
        for (int64_t k = 0; k < x->n; k++) wr(y, k, by_tanh ? gelu_by_tanh(x->v[k]) : gelu_by_erf(x->v[k]));
        op_proves();
    }
}

/* The queries, keys and values of fused attention in one tensor: each takes its bias, queries their scale. */
static void rescales(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(1, 3), steps = pick(0, 4), embed = 2 * pick(1, 3), heads = 2;
        op_new("aten::_transform_bias_rescale_qkv");
        cells *x = reads(0, SIZES(batch, steps, 3 * embed));
        reads(1, SIZES(3 * embed));
        in_int(2, heads);
        for (int64_t k = 0; k < x->n; k++) {
            double v = add(x->v[k], 1);
            if (k % (3 * embed) < embed) (void)mul(v, 0.5);
        }
        for (int32_t p = 0; p < 3; p++) {
            out_tensor(p, SIZES(batch, heads, steps, embed / heads));
            wr_all(cells_of(batch * steps * embed));
        }
        op_proves();
    }
}

static void extremes(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 4), wide = pick(1, 5);
        op_new("aten::aminmax");
        cells *x = reads(0, SIZES(rows, wide));
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 1; k < wide; k++) {
                (void)min2(x->v[r * wide + k], x->v[r * wide]);
                (void)max2(x->v[r * wide + k], x->v[r * wide]);
            }
        for (int32_t p = 0; p < 2; p++) {
            out_tensor(p, SIZES(rows));
            wr_all(cells_of(rows));
        }
        op_proves();
    }
}

static void traces(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 30), m = pick(0, 30);
        op_new("aten::trace");
        cells *x = cells_of(n * m), *y = cells_of(1);
        double sum = 0;
        for (int64_t k = 0; k < n && k < m; k++) {
            double v = rd(x, k * m + k);
            sum = k ? add(sum, v) : v;
        }
        wr(y, 0, sum);
        in_tensor(0, SIZES(n, m));
        out_tensor(0, 0, NULL);
        op_proves();
    }
}

/* -log p of each target's class, from logarithms: one is read and negated, then they are put together. */
static void class_losses(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 12), classes = pick(1, 5), reduction = pick(0, 2);
        bool weighted = coin();
        op_new("aten::nll_loss_forward");
        cells *x = cells_of(n * classes), *t = cells_of(n),
              *w = cells_of(weighted ? n : 0); /* each target's own */
        double sum = 0, weights = (double)n;
        for (int64_t k = 0; k < n; k++) {
            double v = neg(rd(x, k * classes + (int64_t)(fabs(rd(t, k)) * 100) % classes));
            if (weighted) v = mul(v, rd(w, k));
            if (weighted && reduction == 1) weights = k ? add(weights, w->v[k]) : w->v[k];
            if (reduction) sum = k ? add(sum, v) : v;
        }
        if (reduction == 1) (void)dvd(sum, weights);
        in_tensor(0, SIZES(n, classes));
        in_tensor(1, SIZES(n));
        if (weighted)
            in_tensor(2, SIZES(classes));
        else
            in_none(2);
        in_int(3, reduction);
        out_tensor(0, reduction ? 0 : 1, &n);
        wr_all(cells_of(reduction ? 1 : n));
        op_proves();
    }
}

/* -- fused products ------------------------------------------------------------------------------------ */

static void dots(int64_t times, int64_t length) {
    for (int64_t k = 0; k < times; k++) {
        double acc = 0;
        for (int64_t r = 0; r < length; r++) acc = mac(acc, 1, 2);
    }
}

/* y = x w, packed or with what follows it in the same kernel. */
static void fused_products(void **state) {
    (void)state;
    for (int i = 0; more(i, 20000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 4), k = pick(1, 5), m = pick(1, 4);
        switch (i % 4) {
        case 0: /* relu of a product */
            op_new("aten::_addmm_activation");
            reads(0, SIZES(m));
            reads(1, SIZES(n, k));
            reads(2, SIZES(k, m));
            in_int(3, 1);
            in_int(4, 1);
            in_bool(5, false);
            dots(n * m, k);
            for (int64_t e = 0; e < n * m; e++) (void)max2(1, 0);
            break;
        case 1:
            op_new("aten::linear");
            reads(0, SIZES(n, k));
            reads(1, SIZES(m, k));
            if (coin()) reads(2, SIZES(m));
            dots(n * m, k);
            break;
        case 2:
            op_new("quantized::linear");
            in_tensor(0, SIZES(n, k));
            dots(n * m, k);
            break;
        default:
            op_new("mkldnn::_linear_pointwise");
            reads(0, SIZES(n, k));
            reads(1, SIZES(m, k));
            dots(n * m, k);
        }
        writes(SIZES(n, m));
        op_proves_but(i % 4 == 2 ? NO_DMAS : i % 4 == 3 ? NO_FLOPS : 0);
    }
}

static void fused_convolutions(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(1, 2), groups = pick(1, 2), per = pick(1, 3), oc = groups * pick(1, 3),
                k = pick(1, 3), w = pick(1, 4);
        op_new("aten::cudnn_convolution_relu");
        reads(0, SIZES(batch, groups * per, w + k - 1));
        reads(1, SIZES(oc, per, k));
        if (coin()) reads(2, SIZES(oc));
        writes(SIZES(batch, oc, w));
        dots(batch * oc * w, per * k);
        op_proves_but(NO_FLOPS);
    }
}

/* Where nothing was seen inside: projections of queries, keys, values and results, scores, weighted values.
 */
static void fused_attention(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(1, 2), q = pick(1, 4), heads = pick(1, 3), embed = heads * pick(1, 3),
                k = pick(1, 4);
        op_new("aten::_native_multi_head_attention");
        reads(0, SIZES(batch, q, embed));
        reads(1, SIZES(batch, k, embed));
        reads(2, SIZES(batch, k, embed));
        in_int(3, embed);
        in_int(4, heads);
        reads(5, SIZES(3 * embed, embed));
        writes(SIZES(batch, q, embed));
        dots(batch * q * embed, embed);             /* queries */
        dots(2 * batch * k * embed, embed);         /* keys and values */
        dots(batch * heads * q * k, embed / heads); /* scores */
        dots(batch * heads * q * (embed / heads), k);
        dots(batch * q * embed, embed);
        op_proves_but(NO_FLOPS);
    }
}

static void fused_encoders(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(1, 2), q = pick(1, 4), heads = pick(1, 3), embed = heads * pick(1, 2),
                ff = pick(1, 5);
        op_new("aten::_transformer_encoder_layer_fwd");
        reads(0, SIZES(batch, q, embed));
        in_int(1, embed);
        in_int(2, heads);
        reads(3, SIZES(3 * embed, embed));
        reads(14, SIZES(ff, embed));
        writes(SIZES(batch, q, embed));
        dots(4 * batch * q * embed, embed);
        dots(batch * heads * q * q, embed / heads);
        dots(batch * heads * q * (embed / heads), q);
        dots(batch * q * ff, embed);
        dots(batch * q * embed, ff);
        op_proves_but(NO_FLOPS);
    }
}

/* Comparisons whose number the values decide, and dense work whose size the arguments do not tell. */
static void undecided(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t s[LAYER_NDIM];
        int32_t n = random_shape(1, 3, s);
        bool dense = coin();
        op_new(dense ? "aten::_compute_linear_combination" : "aten::gcd");
        reads(0, n, s);
        writes(n, s);
        out_tensor(1, n, s);
        wr_all(cells_of(elements(n, s)));
        op_proves_but(dense ? 1 << LAM_MACS | NO_FLOPS : NO_FLOPS);
    }
}

/* Only what comes in and what goes out, without an operator inside, is sure to move. */
static void power_series(void **state) {
    (void)state;
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        int64_t s[LAYER_NDIM];
        int32_t n = random_shape(1, 3, s);
        op_new(coin() ? "aten::linalg_matrix_exp" : "aten::matrix_exp");
        reads(0, n, s);
        writes(n, s);
        op_proves_as(1 << LAM_MACS | NO_FLOPS, 1 << LAM_DMAS | 1 << LAM_BYTES_READ | 1 << LAM_BYTES_WRITTEN);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves),
        cmocka_unit_test(goes_nowhere),
        cmocka_unit_test(chooses),
        cmocka_unit_test(looks_for_places),
        cmocka_unit_test(joins),
        cmocka_unit_test(puts_values),
        cmocka_unit_test(gelus),
        cmocka_unit_test(rescales),
        cmocka_unit_test(extremes),
        cmocka_unit_test(traces),
        cmocka_unit_test(class_losses),
        cmocka_unit_test(fused_products),
        cmocka_unit_test(fused_convolutions),

        cmocka_unit_test(fused_attention),
        cmocka_unit_test(fused_encoders),
        cmocka_unit_test(undecided),
        cmocka_unit_test(power_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
