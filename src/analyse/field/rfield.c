/* SPDX-License-Identifier: Apache-2.0
 *
 * The receptive field of one layer alone, along one axis: the number of input positions that one output
 * position depends on (size), the input positions between two neighbouring outputs (stride), and how many
 * positions before the input's first the first output starts (padding). Source: Araujo, Norris, Sim,
 * "Computing Receptive Fields of Convolutional Neural Networks", Distill 2019; for torchscan, the behaviour
 * of torchscan 0.1.2's modules.module_rf. */
#include "analyse/field/field.h"
#include "count/count.h"

#include <math.h>

static lam_rf rf(double size, double stride, double padding) {
    return (lam_rf){size, stride, padding, LAM_EXACT};
}

static lam_rf rf_unknown(void) { return (lam_rf){1, 1, 0, LAM_UNKNOWN}; }

static lam_shape shape_of(const lam_arg *args, int32_t n) {
    if (n == 0) return (lam_shape){-1, NULL};
    return (lam_shape){args[0].ndim, args[0].sizes};
}

/* -- windows ----------------------------------------------------------------------------------- */

typedef struct window {
    int64_t k, stride, pad, dil;
} window; /* k and stride -1: unknown */

/* Along the first axis. padding='same' adds dilation * (kernel - 1) positions, the smaller half in front. */
static window window_of(const lmi_slots *s) {
    window w;
    w.k = lmi_value_axis(s->at[LMI_S_kernel].value, 0, -1);
    w.stride = lmi_value_axis(s->at[LMI_S_stride].value, 0, w.k);
    w.dil = lmi_value_axis(s->at[LMI_S_dil].value, 0, 1);
    w.pad = lmi_value_axis(s->at[LMI_S_pad].value, 0, 0);
    const lam_value *pad = s->at[LMI_S_pad].value;
    if (pad && pad->type == LAM_TEXT && pad->text && strcmp(pad->text, "same") == 0 && w.k > 0)
        if (lmi_mul_over(w.dil, w.k - 1, &w.pad)) w.k = -1;
    if (pad && pad->type == LAM_TEXT) w.pad /= 2;
    return w;
}

static bool usable(const window *w) { return w->k > 0 && w->stride > 0 && w->dil > 0; }

static double extent(const window *w) { return (double)w->dil * ((double)w->k - 1) + 1; }

static lam_rf rf_window(const lmi_slots *s) {
    window w = window_of(s);
    return usable(&w) ? rf(extent(&w), (double)w.stride, (double)w.pad) : rf_unknown();
}

/* An output position of a transposed convolution depends on at most ceil(extent / stride) inputs.
 * Neighbouring outputs are 1 / stride of a position apart; the first starts (extent - 1 - padding) / stride
 * positions early. */
static lam_rf rf_transposed(const lmi_slots *s) {
    window w = window_of(s);
    if (!usable(&w)) return rf_unknown();
    double stride = (double)w.stride;
    return rf(ceil(extent(&w) / stride), 1 / stride, floor((extent(&w) - 1 - (double)w.pad) / stride));
}

static lam_rf rf_transposed_torchscan(const lmi_slots *s) {
    window w = window_of(s);
    return usable(&w) ? rf(-(double)w.k, 1 / (double)w.stride, 0) : rf_unknown();
}

/* -- adaptive pools ---------------------------------------------------------------------------- */

static lam_rf rf_adaptive_torchscan(const lam_event *ev) {
    int64_t in = lmi_axis(shape_of(ev->in, ev->n_in), -1), out = lmi_axis(shape_of(ev->out, ev->n_out), -1);
    if (in <= 0 || out <= 0) return rf_unknown();
    double k = (double)(in / out + (in % out != 0));
    return rf(k, k, ((double)in - k * k) / 2);
}

/* Window i of an adaptive pool runs from floor(i*in/out) to ceil((i+1)*in/out). With r = in mod out in
 * lowest terms, the largest is in/out if that is whole, one more if r/out is 1/n, else two more. */
static lam_rf rf_adaptive(const lam_event *ev, int32_t rank) {
    int64_t in = lmi_axis(shape_of(ev->in, ev->n_in), -rank),
            out = lmi_axis(shape_of(ev->out, ev->n_out), -rank);
    if (in <= 0 || out <= 0) return rf_unknown();
    int64_t r = (in % out) / lmi_gcd(in, out);
    return rf((double)(in / out + (r > 2 ? 2 : r)), (double)in / (double)out, 0);
}

/* -- layers that depend on everything ---------------------------------------------------------- */

/* A matrix product over the features of one sample depends on all of them; with more axes it works on each
 * position alone. */
static lam_rf rf_dense(const lam_event *ev) {
    lam_shape x = shape_of(ev->in, ev->n_in);
    if (x.ndim > 2) return rf(1, 1, 0);
    int64_t n = lmi_axis(x, -1);
    return n > 0 ? rf((double)n, (double)n, 0) : rf_unknown();
}

/* Attention and recurrence depend on the whole sequence. */
static lam_rf rf_sequence(const lam_event *ev, const lmi_slots *s) {
    lam_shape x = shape_of(ev->in, ev->n_in);
    bool batch_first = x.ndim == 3 && lmi_value_int(s->at[LMI_S_batch_first].value, 0) == 1;
    int64_t n = lmi_axis(x, batch_first ? 1 : 0);
    return n > 0 ? rf((double)n, (double)n, 0) : rf_unknown();
}

/* Kinds without a spatial window. Norms and softmax mix positions only through a sum or a mean: the field is
 * a lower bound. It is unknown for kinds that move or resize positions. */
static lam_rf rf_other(lmi_family family) {
    lam_rf r = rf_unknown();
    if (family == LMI_F_norm || family == LMI_F_point) r.state = LAM_AT_LEAST;
    return r;
}

/* -- one layer --------------------------------------------------------------------------------- */

static lam_rf rf_true(const lam_model *m, int32_t event, lmi_kind kind) {
    const lam_event *ev = &m->events[event];
    lmi_rf_rule rule = lmi_kind_rf(kind);
    lmi_slots s;
    if (rule == LMI_rf_hold || rule == LMI_rf_point) return rf(1, 1, 0);
    if (rule == LMI_rf_none) return rf_other(lmi_kind_family(kind));
    if (rule == LMI_rf_adaptive) return rf_adaptive(ev, lmi_word_rank(m->modules[ev->module].word));
    if (rule == LMI_rf_all && lmi_kind_family(kind) == LMI_F_dense) return rf_dense(ev);
    lmi_model_bind(m, event, &s);
    if (rule == LMI_rf_window) return rf_window(&s);
    return rule == LMI_rf_transposed ? rf_transposed(&s) : rf_sequence(ev, &s);
}

static lam_rf rf_torchscan(const lam_model *m, int32_t event, lmi_kind kind) {
    lmi_rf_rule rule = lmi_kind_rf(kind);
    lmi_slots s;
    if (rule == LMI_rf_adaptive) return rf_adaptive_torchscan(&m->events[event]);
    if (rule == LMI_rf_window || rule == LMI_rf_transposed) {
        lmi_model_bind(m, event, &s);
        return rule == LMI_rf_window ? rf_window(&s) : rf_transposed_torchscan(&s);
    }
    bool supported = rule == LMI_rf_point || (rule == LMI_rf_all && lmi_kind_family(kind) == LMI_F_dense);
    return supported ? rf(1, 1, 0) : rf_unknown();
}

lam_rf lmi_rf_own(const lam_model *m, int32_t event, const lmi_convention *cv) {
    const lam_module *mod = &m->modules[m->events[event].module];
    if (cv->rf == LMI_RF_FORWARD) {
        const lmi_rule *rule = lmi_rule_for(cv, mod);
        if (lmi_is_opaque_call(m, &m->events[event])) return rf_unknown();
        if (!(mod->flags & LAM_MODULE_LEAF) || lmi_plain_holder(mod)) return rf(1, 1, 0);
        return rule ? rf_torchscan(m, event, lmi_rule_kind(rule, mod)) : rf_unknown();
    }
    lmi_kind kind = lmi_word_kind(mod->word);
    if (kind == LMI_N_KINDS) return rf_unknown();
    lam_rf r = rf_true(m, event, kind);
    if ((mod->flags & LAM_MODULE_OWN_FORWARD) && r.state == LAM_EXACT) r.state = LAM_AT_LEAST;
    return r;
}

lam_status lam_rf_of(const lam_model *m, int32_t event, const char *convention, lam_rf *out, lam_error *e) {
    const lmi_convention *cv = lmi_convention_for(m, convention, e);
    if (!cv) return LAM_USAGE;
    if (event < 0 || event >= m->n_events)
        return lmi_fail(e, LAM_RANGE, "lam_rf_of", "there is no call %d; the model has %d", (int)event,
                        (int)m->n_events);
    *out = lmi_rf_own(m, event, cv);
    return LAM_OK;
}
