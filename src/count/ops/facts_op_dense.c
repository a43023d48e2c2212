/* SPDX-License-Identifier: Apache-2.0
 * facts_op_dense: products of matrices, convolutions and distances as operators. */
#include "count/ops/facts_op.h"

#include <math.h>

/* -- convolution ----------------------------------------------------------------------------------------- */

/* Channels are the axis directly before the spatial axes, whose number the weight determines. */
static int64_t channels(lam_shape t, lam_shape w) { return w.ndim > 2 ? lmi_axis(t, 1 - w.ndim) : -1; }

/* A weight is (out, in / groups, ...), a transposed one (in, out / groups, ...). If the flag is unknown, the
 * channels decide, unless both forms fit. */
static int64_t transposed(lam_shape x, lam_shape w, lam_shape y, const lmi_slots *s) {
    bool flag;
    if (lmi_op_bool(s, LMI_S_transposed, &flag)) return flag;
    int64_t in = channels(x, w), out = channels(y, w), first = lmi_axis(w, 0);
    if (in < 0 || out < 0 || in == out) return -1;
    return first == in ? 1 : first == out ? 0 : -1;
}

/* A fused operator may have another input before its weight ("x, other, w"), of the output's shape. */
static lam_shape weight(lmi_kind k, lam_shape y, const lmi_slots *s) {
    lam_shape w = s->at[LMI_S_w].shape, next = s->at[LMI_S_b].shape;
    bool other = k == LMI_K_conv_fused && w.ndim >= 0 && next.ndim == w.ndim && w.ndim == y.ndim;
    return other ? next : w;
}

/* Sets which gradients were requested; a kernel may return further ones, which do not count. */
static void asked(const lmi_slots *s, lmi_facts *f) {
    const lam_value *v = s->at[LMI_S_asked].value;
    bool known = v && v->type == LAM_INTS && v->n == 3;
    lmi_fact_set(f, LMI_FACT_asks_x, known ? v->ints[0] != 0 : lmi_fact_get(f, LMI_FACT_want_x));
    lmi_fact_set(f, LMI_FACT_asks_w, known ? v->ints[1] != 0 : lmi_fact_get(f, LMI_FACT_want_w));
}

/* If "same" pads an odd number of positions, one side gets one more: a tool that halves the padding loses
 * one. */
static int64_t halved(lam_shape y, lam_shape w, const lmi_slots *s) {
    const lam_value *pad = s->at[LMI_S_pad].value;
    int64_t n = lmi_numel(y);
    if (!pad || pad->type != LAM_TEXT || strcmp(pad->text, "same") != 0 || w.ndim < 3) return n;
    n = lmi_axes(y, 0, 2 - w.ndim);
    for (int32_t i = 0; i < w.ndim - 2; i++) {
        const lam_value *d = s->at[LMI_S_dil].value;
        int64_t odd = lmi_value_axis(d, i, 1) & (lmi_axis(w, i + 2) - 1) & 1; /* of their product */
        n = lmi_times(n, lmi_axis(y, i + 2 - w.ndim) - odd);
    }
    return n;
}

static void conv(const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    bool backward = k == LMI_K_conv_backward;
    lam_shape x = lmi_op_in(op, s), y = backward ? s->at[LMI_S_grad].shape : lmi_op_out(op, -1);
    lam_shape w = weight(k, y, s);
    lmi_fact_set(f, LMI_FACT_weights, lmi_numel(w));
    lmi_fact_set(f, LMI_FACT_red, lmi_axes(w, 1, w.ndim));
    lmi_fact_set(f, LMI_FACT_out_channels, channels(y, w));
    lmi_fact_set(f, LMI_FACT_biases, lmi_op_optional(s, LMI_S_b));
    const lam_value *pad = s->at[LMI_S_pad].value;
    lmi_fact_set(f, LMI_FACT_pad_word, pad && pad->type == LAM_TEXT);
    lmi_fact_set(f, LMI_FACT_halved, halved(y, w, s));
    if (backward) asked(s, f);
    bool either = k == LMI_K_conv_either || backward;
    int64_t turned = either ? transposed(x, w, y, s) : k == LMI_K_conv_transpose, one = lmi_axis(w, 1);
    lmi_fact_set(f, LMI_FACT_transposed, turned);
    int64_t many = turned < 0 ? -1 : channels(turned ? y : x, w);
    lmi_fact_set(f, LMI_FACT_groups, one > 0 && many >= 0 ? many / one : -1);
}

/* -- products -------------------------------------------------------------------------------------------- */

/* Products with the factors alpha and beta. A factor of 1 costs nothing, nor does 0, which omits the
 * summand. */
static int64_t scalings(const lmi_slots *s) {
    const lam_value *shifted = s->at[LMI_S_value].value;
    if (shifted && (shifted->type == LAM_INT || shifted->type == LAM_FLOAT)) return -1; /* another overload */
    double alpha = lmi_op_number(s, LMI_S_alpha, 1), beta = lmi_op_number(s, LMI_S_beta, 1);
    return (alpha != 1) + (beta != 1 && beta != 0);
}

static void product(const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = lmi_op_in(op, s), y = lmi_op_out(op, -1);
    /* addbmm adds up the products of a batch of matrices. */
    bool over_batch = x.ndim == 3 && y.ndim == 2 && k == LMI_K_product && lmi_op_tensor(s, LMI_S_b);
    int64_t red = lmi_axis(x, -1);
    if (over_batch) red = lmi_times(red, lmi_axis(x, 0));
    lmi_fact_set(f, LMI_FACT_red, red);
    lmi_fact_set(f, LMI_FACT_products, lmi_times(lmi_numel(y), red));
    lmi_fact_set(f, LMI_FACT_kept, lmi_numel(y));
    int64_t extra = scalings(s);
    bool gelu;
    if (k == LMI_K_product_act)
        extra = lmi_op_bool(s, LMI_S_value, &gelu) && !gelu && extra >= 0 ? extra + 1 : -1;
    lmi_fact_set(f, LMI_FACT_extra, extra);
    lmi_fact_set(f, LMI_FACT_biases, lmi_op_optional(s, LMI_S_b));
    lmi_fact_set(f, LMI_FACT_x2_last, lmi_axis(s->at[LMI_S_x2].shape, -1));
}

/* Operations of a distance: a difference, then by the norm: a square, and a root of the sum; an absolute
 * value or a comparison; an absolute value and a power, and a root of the sum. */
static void distance(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    double p = lmi_op_number(s, LMI_S_norm, -1);
    bool plain = p == 0 || p == 1 || p == HUGE_VAL;
    lmi_fact_set(f, LMI_FACT_red, lmi_axis(lmi_op_in(op, s), -1));
    lmi_fact_set(f, LMI_FACT_each, p < 0 ? -1 : plain || p == 2 ? 2 : 3);
    lmi_fact_set(f, LMI_FACT_last, !plain);
}

/* A difference, its part of the gradient, and the sum: for p=1 the sign times the gradient; for p=2 the
 * gradient times the difference over the distance, if that is not 0. */
static void distance_backward(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    double p = lmi_op_number(s, LMI_S_norm, -1);
    lmi_fact_set(f, LMI_FACT_red, lmi_axis(lmi_op_in(op, s), -1));
    lmi_fact_set(f, LMI_FACT_each, p == 2 ? 5 : p == 1 ? 4 : -1);
}

void lmi_op_dense(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    switch (k) {
    case LMI_K_conv:
    case LMI_K_conv_either:
    case LMI_K_conv_transpose:
    case LMI_K_conv_fused:
    case LMI_K_conv_backward: conv(op, k, s, f); break;
    case LMI_K_pair_distance: distance(op, s, f); break;
    case LMI_K_pair_distance_backward: distance_backward(op, s, f); break;
    default: product(op, k, s, f); break;
    }
}
