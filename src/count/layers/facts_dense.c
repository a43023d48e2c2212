/* SPDX-License-Identifier: Apache-2.0
 * facts_dense: linear, bilinear, convolution and its transpose. Attributes take precedence over the weight's
 * shape, because a weight may be computed at every call (parametrizations, pruning), and then the layer does
 * not own it. */
#include "count/layers/layers.h"

/* The attribute if the layer has it, else one axis of its weight. The attribute of a lazy layer is 0 until
 * its first call. */
static int64_t width(const lmi_slots *s, lmi_slot_id attribute, int32_t axis) {
    int64_t v = lmi_value_int(s->at[attribute].value, -1);
    if (v > 0) return v;
    int64_t from_weight = lmi_axis(s->at[LMI_S_w].shape, axis);
    return from_weight >= 0 ? from_weight : v;
}

/* A bias that a parametrization or pruning keeps in another place is added too. */
static void set_bias(const lam_model *m, int32_t event, const lmi_slots *s, int64_t outputs, lmi_facts *f) {
    bool owned = lmi_filled(s, LMI_S_b);
    bool elsewhere = !owned && lmi_reparametrized(m, event, "bias");
    lmi_fact_set(f, LMI_FACT_bias, owned || elsewhere);
    lmi_fact_set(f, LMI_FACT_biases, owned ? lmi_numel(s->at[LMI_S_b].shape) : elsewhere ? outputs : 0);
}

static void set_weights(const lmi_slots *s, int64_t computed, lmi_facts *f) {
    int64_t owned = lmi_numel(s->at[LMI_S_w].shape);
    lmi_fact_set(f, LMI_FACT_weights, owned >= 0 ? owned : computed);
}

static void linear(const lam_model *m, int32_t event, const lmi_slots *s, lmi_facts *f) {
    int64_t in = width(s, LMI_S_in_features, 1), out = width(s, LMI_S_out_features, 0);
    if (in < 0) in = lmi_fact_get(f, LMI_FACT_x_last);
    if (out < 0) out = lmi_fact_get(f, LMI_FACT_y_last);
    lmi_fact_set(f, LMI_FACT_red, in);
    lmi_fact_set(f, LMI_FACT_in1, in);
    lmi_fact_set(f, LMI_FACT_in_channels, in);
    lmi_fact_set(f, LMI_FACT_out_channels, out);
    set_weights(s, lmi_times(in, out), f);
    set_bias(m, event, s, out, f);
}

static void bilinear(const lam_model *m, int32_t event, const lmi_slots *s, lmi_facts *f) {
    int64_t in1 = width(s, LMI_S_in_features, 1), in2 = width(s, LMI_S_in2_features, 2);
    int64_t out = width(s, LMI_S_out_features, 0);
    lmi_fact_set(f, LMI_FACT_in1, in1);
    lmi_fact_set(f, LMI_FACT_in2, in2);
    lmi_fact_set(f, LMI_FACT_red, lmi_times(in1, in2));
    lmi_fact_set(f, LMI_FACT_out_channels, out);
    set_weights(s, lmi_times(lmi_times(in1, in2), out), f);
    set_bias(m, event, s, out, f);
}

/* Elements of the window: by the attribute, else by the weight's axes after the first two. */
static int64_t window(const lmi_slots *s, int64_t rank) {
    const lam_value *kernel = s->at[LMI_S_kernel].value;
    lam_shape w = s->at[LMI_S_w].shape;
    if (kernel) return lmi_window(kernel, rank);
    return w.ndim == rank + 2 ? lmi_axes(w, 2, w.ndim) : -1;
}

/* floor(channels / groups) * window; -1 when one is unknown. */
static int64_t reduced(int64_t channels, int64_t groups, int64_t win) {
    return channels < 0 || groups < 1 ? -1 : lmi_times(channels / groups, win);
}

static void conv(const lam_model *m, int32_t event, bool transposed, const lmi_slots *s, lmi_facts *f) {
    int64_t rank = lmi_fact_get(f, LMI_FACT_rank);
    int64_t groups = lmi_value_int(s->at[LMI_S_groups].value, -1), win = window(s, rank);
    int64_t in = lmi_value_int(s->at[LMI_S_in_channels].value, -1), out;
    /* A weight is (out, in / groups, window), a transposed one (in, out / groups, window). */
    lam_shape w = s->at[LMI_S_w].shape;
    if (in <= 0) in = transposed ? lmi_axis(w, 0) : lmi_times(lmi_axis(w, 1), groups);
    out = lmi_value_int(s->at[LMI_S_out_channels].value, -1);
    if (out <= 0) out = transposed ? lmi_times(lmi_axis(w, 1), groups) : lmi_axis(w, 0);
    lmi_fact_set(f, LMI_FACT_win, win);
    lmi_fact_set(f, LMI_FACT_groups, groups);
    lmi_fact_set(f, LMI_FACT_in_channels, in);
    lmi_fact_set(f, LMI_FACT_out_channels, out);
    lmi_fact_set(f, LMI_FACT_red, reduced(in, groups, win));
    lmi_fact_set(f, LMI_FACT_red_x1, reduced(lmi_fact_get(f, LMI_FACT_x1), groups, win));
    lmi_fact_set(f, LMI_FACT_isp, lmi_spatial(lmi_input(m, event, s), rank));
    lmi_fact_set(f, LMI_FACT_osp, lmi_spatial(lmi_output(m, event), rank));
    set_weights(s, lmi_times(out, reduced(in, groups, win)), f);
    set_bias(m, event, s, out, f);
}

void lmi_facts_dense(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    switch (k) {
    case LMI_K_bilinear: bilinear(m, event, s, f); break;
    case LMI_K_conv:
    case LMI_K_conv_transpose: conv(m, event, k == LMI_K_conv_transpose, s, f); break;
    default: linear(m, event, s, f);
    }
}
