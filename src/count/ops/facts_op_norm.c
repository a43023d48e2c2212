/* SPDX-License-Identifier: Apache-2.0
 * facts_op_norm: operators that normalise or work along an axis, and elementwise ones. */
#include "count/ops/facts_op.h"

#include <math.h>

/* -- normalisations -------------------------------------------------------------------------------------- */

/* 1 if the statistics of the batch are used. If the flag is unknown: in training, and only then, statistics
 * are saved for the backward pass. A backward without a flag is one of training. */
static int64_t in_training(const lam_op *op, lmi_kind k, const lmi_slots *s) {
    bool flag;
    if (lmi_op_bool(s, LMI_S_training, &flag)) return flag;
    if (k == LMI_K_batch_norm_backward) return s->at[LMI_S_training].present ? -1 : 1;
    int64_t saved = lmi_numel(lmi_op_out(op, 1));
    return saved < 0 ? -1 : saved > 0;
}

/* Leaves out the gradients that were not requested: torch's kernel without memory returns that of the input
 * in any case, the others do not. */
static void only_asked(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    static const lmi_fact_id want[] = {LMI_FACT_want_x, LMI_FACT_want_w, LMI_FACT_want_b};
    const lam_value *v = s->at[LMI_S_asked].value;
    bool known = v && v->type == LAM_INTS && v->n == 3;
    for (int32_t i = 0; known && i < op->sig->n_out; i++) {
        const lam_op_arg *a = &op->sig->out[i];
        if (!a->is_tensor || a->position < 0 || a->position > 2 || v->ints[a->position]) continue;
        int64_t n = lmi_op_arg_numel(a), bytes = lmi_stored(n, lam_dtype_bits(a->dtype));
        int64_t outs = lmi_fact_get(f, LMI_FACT_outs), outs_bytes = lmi_fact_get(f, LMI_FACT_outs_bytes);
        lmi_fact_set(f, want[a->position], 0);
        lmi_fact_set(f, LMI_FACT_outs, n < 0 || outs < 0 ? -1 : outs - n);
        lmi_fact_set(f, LMI_FACT_outs_bytes, bytes < 0 || outs_bytes < 0 ? -1 : outs_bytes - bytes);
    }
}

static void batch_norm(const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    lmi_fact_set(f, LMI_FACT_chan, lmi_axis(lmi_op_in(op, s), 1));
    lmi_fact_set(f, LMI_FACT_training, in_training(op, k, s));
    lmi_fact_set(f, LMI_FACT_tracked, lmi_op_tensor(s, LMI_S_mean));
    only_asked(op, s, f);
    lmi_fact_set(f, LMI_FACT_stats_bytes, lmi_plus(lmi_op_bytes(s, LMI_S_mean), lmi_op_bytes(s, LMI_S_var)));
}

/* If the means are not returned: the samples times the groups of an argument. */
static int64_t groups(const lam_op *op, const lmi_slots *s) {
    int64_t n = lmi_value_int(s->at[LMI_S_groups].value, -1);
    return lmi_times(lmi_axis(lmi_op_in(op, s), 0), n);
}

/* Rows, each with one mean: the number of means, which are the second result, and an argument of the
 * backward; else the input's elements for each element of the scale. */
static int64_t rows_of(const lam_op *op, lmi_kind k, const lmi_slots *s) {
    if (k == LMI_K_row_norm_backward || k == LMI_K_rms_norm_backward) return lmi_op_numel(s, LMI_S_mean);
    int64_t rows = lmi_numel(lmi_op_out(op, 1));
    if (rows < 0 && k == LMI_K_group_norm) rows = groups(op, s);
    if (rows >= 0 || k == LMI_K_group_norm || k == LMI_K_weight_norm || k == LMI_K_weight_norm_backward)
        return rows;
    int64_t in = lmi_numel(lmi_op_in(op, s)), scale = lmi_op_numel(s, LMI_S_w);
    return in >= 0 && scale > 0 ? in / scale : -1;
}

/* Elements of one scale, for the gradients of scale and shift. */
static int64_t one_scale(const lam_op *op, const lmi_slots *s) {
    int64_t w = lmi_op_numel(s, LMI_S_w), out = lmi_numel(lmi_op_out(op, 1));
    return w >= 0 ? w : out >= 0 ? out : lmi_numel(lmi_op_out(op, 2));
}

void lmi_op_norm(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    lmi_fact_set(f, LMI_FACT_scales, lmi_op_optional(s, LMI_S_w));
    lmi_fact_set(f, LMI_FACT_shifts, lmi_op_optional(s, LMI_S_b));
    if (k == LMI_K_batch_norm || k == LMI_K_batch_norm_backward || k == LMI_K_batch_norm_eval) {
        batch_norm(op, k, s, f);
        return;
    }
    if (k == LMI_K_instance_norm) {
        lam_shape x = lmi_op_in(op, s);
        lmi_fact_set(f, LMI_FACT_rows, lmi_times(lmi_axis(x, 0), lmi_axis(x, 1)));
        return;
    }
    if (k == LMI_K_skip_norm)
        lmi_fact_set(f, LMI_FACT_extra, lmi_op_tensor(s, LMI_S_x2) + lmi_op_tensor(s, LMI_S_added));
    lmi_fact_set(f, LMI_FACT_rows, rows_of(op, k, s));
    lmi_fact_set(f, LMI_FACT_chan, one_scale(op, s));
}

/* -- along an axis --------------------------------------------------------------------------------------- */

/* Elements along the axis that an argument names; a tensor without axes has one. */
static int64_t along(lam_shape x, const lmi_slots *s) {
    const lam_value *v = s->at[LMI_S_dim].value;
    if (!v || v->type != LAM_INT || x.ndim < 0) return -1;
    if (x.ndim == 0) return 1;
    return v->i >= -x.ndim && v->i < x.ndim ? lmi_axis(x, (int32_t)v->i) : -1;
}

static int64_t of_one(double p, bool plain, int64_t complex) {
    if (complex != 1) return plain || p == 2 ? 1 : 2;
    return p == 2 || p == 0 ? 3 : plain ? 4 : 5; /* |z|^2, both parts compared with 0, |z| */
}

/* For each element: a square, an absolute value or a comparison with 0; or an absolute value and a power. For
 * the sum: a root, except for the norms 0, 1 and infinity, and for words whose line says none. */
void lmi_op_power(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    bool known = s->at[LMI_S_norm].present && s->at[LMI_S_norm].value &&
                 (s->at[LMI_S_norm].value->type == LAM_INT || s->at[LMI_S_norm].value->type == LAM_FLOAT);
    double p = lmi_op_number(s, LMI_S_norm, 2);
    bool plain = p == 0 || p == 1 || isinf(p);
    bool absent = !s->at[LMI_S_norm].present; /* torch's default is 2 */
    lmi_fact_set(f, LMI_FACT_each,
                 !known && !absent ? -1 : of_one(p, plain, lmi_fact_get(f, LMI_FACT_complex)));
    lmi_fact_set(f, LMI_FACT_step, 1);
    lmi_fact_set(f, LMI_FACT_last, lmi_op_last(op->sig->word) && !plain);
}

void lmi_op_axes(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    if (k == LMI_K_vector_norm) {
        lmi_op_power(op, s, f);
        return;
    }
    lam_shape x = lmi_op_in(op, s);
    int64_t axis = along(x, s), in = lmi_numel(x);
    if (k == LMI_K_renorm) { /* one norm for each position along the axis */
        lmi_op_power(op, s, f);
        lmi_fact_set(f, LMI_FACT_rows, axis);
        return;
    }
    lmi_fact_set(f, LMI_FACT_axis, axis);
    lmi_fact_set(f, LMI_FACT_rows, axis < 0 || in < 0 ? -1 : axis == 0 ? 0 : in / axis);
}

/* -- elementwise ----------------------------------------------------------------------------------------- */

static int64_t bounds(const lmi_slots *s) { return lmi_filled(s, LMI_S_start) + lmi_filled(s, LMI_S_end); }

/* A factor of 1 costs nothing; a list or a tensor never counts as 1. */
int64_t lmi_op_factors(const lmi_slots *s) {
    const lmi_slot *alpha = &s->at[LMI_S_alpha];
    bool plain = alpha->value && alpha->value->type != LAM_INTS;
    return bounds(s) + (alpha->present && (!plain || lmi_op_number(s, LMI_S_alpha, 1) != 1));
}

/* An elu with a scale is selu: scale*(max(0,x) + min(0, alpha*(exp(x)-1))), 7 operations instead of 4. */
static int64_t extra_of_map(const lmi_slots *s) {
    return lmi_op_factors(s) + (lmi_op_number(s, LMI_S_scale, 1) != 1 ? 3 : 0);
}

static int64_t by_tanh(const lam_model *m, const lam_op *op, const lmi_slots *s) {
    const lam_value *v = s->at[LMI_S_approximate].value;
    if (!v || v->type != LAM_TEXT) { /* then the layer that called it has it */
        const lam_event *call = lam_model_event(m, op->call);
        v = call ? lam_model_attr(m, call->module, "approximate") : NULL;
    }
    return v && v->type == LAM_TEXT ? !strcmp(v->text, "tanh") : -1;
}

/* Combining two operands takes one operation in every mode; a user-defined factor takes another. */
static int64_t divides(const lmi_slots *s) {
    static const char *const plain[] = {"sum", "product", "min", "max", "band", "bor", "bxor"};
    const lam_value *v = s->at[LMI_S_mode].value;
    if (!v || v->type != LAM_TEXT) return -1;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(v->text, plain[i])) return 0;
    return strcmp(v->text, "avg") ? -1 : 1;
}

/* 1 if an encoder layer called the operator: it stores its activation function when it is created, so a tool
 * that wraps functions later does not observe this call. */
static int64_t by_encoder(const lam_model *m, const lam_op *op) {
    if (op->call == LMI_ANY_LAYER) return -1;
    const lam_event *call = lam_model_event(m, op->call);
    lmi_kind kind = call ? lmi_word_kind(lam_model_module(m, call->module)->word) : LMI_N_KINDS;
    return kind == LMI_K_encoder_layer || kind == LMI_K_decoder_layer;
}

/* A difference of two elements of the input and the margin, 2, and the maximum with 0, 1; a square if the
 * power is 2. Backward: the slope of the square, and the sum for the target's element. */
static int64_t of_margin(lmi_kind k, const lmi_slots *s) {
    double p = lmi_op_number(s, LMI_S_norm, 1);
    bool backward = k == LMI_K_multi_margin_loss_backward;
    return p == 1 || p == 2 ? 3 + (p == 2) + backward : -1;
}

void lmi_op_margin(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    lam_shape x = lmi_op_in(op, s);
    int64_t in = lmi_numel(x), classes = lmi_axis(x, -1);
    lmi_fact_set(f, LMI_FACT_rows, classes > 0 ? in / classes : classes);
    lmi_fact_set(f, LMI_FACT_each, of_margin(k, s));
    lmi_fact_set(f, LMI_FACT_weighted, lmi_op_tensor(s, LMI_S_w));
    lmi_fact_set(f, LMI_FACT_reduction, lmi_value_int(s->at[LMI_S_reduction].value, -1));
}

void lmi_op_point(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    lmi_fact_set(f, LMI_FACT_by_encoder, by_encoder(m, op));
    switch (k) {
    case LMI_K_communicate_parts: lmi_fact_set(f, LMI_FACT_divides, divides(s)); break;
    case LMI_K_gelu:
    case LMI_K_gelu_backward: lmi_fact_set(f, LMI_FACT_by_tanh, by_tanh(m, op, s)); break;
    case LMI_K_map: lmi_fact_set(f, LMI_FACT_extra, extra_of_map(s)); break;
    default:
        lmi_fact_set(f, LMI_FACT_weighted, lmi_op_tensor(s, LMI_S_w));
        lmi_fact_set(f, LMI_FACT_reduction, lmi_value_int(s->at[LMI_S_reduction].value, -1));
        break;
    }
}
