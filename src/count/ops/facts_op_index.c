/* SPDX-License-Identifier: Apache-2.0
 * facts_op_index: operators that read or write at indices, and those that read windows. */
#include "count/ops/facts_op.h"

/* -- indices --------------------------------------------------------------------------------------------- */

/* Elements (or bytes) of the tensors in the list at a position. */
static int64_t listed(const lam_op *op, int32_t position, bool bytes) {
    int64_t sum = 0;
    int32_t at = 0;
    bool any = false;
    for (const lam_op_arg *a; (a = lmi_op_next(op, position, &at)) != NULL; any = true) {
        int64_t n = lmi_op_arg_numel(a);
        if (bytes) n = lmi_stored(n, lam_dtype_bits(a->dtype));
        sum = lmi_plus(sum, n);
    }
    return any ? sum : -1;
}

/* The mode of a bag: 0 sum, 1 mean, 2 maximum. */
static void bag(const lmi_slots *s, lmi_facts *f) {
    double mode = lmi_op_number(s, LMI_S_mode, -1);
    lmi_fact_set(f, LMI_FACT_weights, lmi_op_numel(s, LMI_S_w));
    lmi_fact_set(f, LMI_FACT_weighted, lmi_op_tensor(s, LMI_S_per_sample));
    lmi_fact_set(f, LMI_FACT_divides, mode < 0 ? -1 : mode == 1);
    lmi_fact_set(f, LMI_FACT_skips, lmi_op_number(s, LMI_S_padding_idx, -1) >= 0);
}

/* Each bag's gradient is added to all its rows, or element by element to those with the maxima. It is unknown
 * how often an index occurs, by which a flag divides, and which indices are the padding that is left out:
 * both depend on values. */
static void bag_backward(const lmi_slots *s, lmi_facts *f) {
    bool by_frequency = false;
    lam_shape grad = s->at[LMI_S_grad].shape;
    bag(s, f);
    lmi_fact_set(f, LMI_FACT_row, lmi_axis(grad, -1));
    lmi_fact_set(f, LMI_FACT_largest, lmi_op_number(s, LMI_S_mode, -1) == 2);
    if (lmi_op_bool(s, LMI_S_scale, &by_frequency) && by_frequency) lmi_fact_set(f, LMI_FACT_skips, 1);
}

static void packed_bag(const lmi_slots *s, lmi_facts *f) {
    bool pruned = false;
    bool known = lmi_op_bool(s, LMI_S_pruned, &pruned);
    lmi_fact_set(f, LMI_FACT_weighted, lmi_op_tensor(s, LMI_S_per_sample));
    lmi_fact_set(f, LMI_FACT_skips, known ? pruned : -1);
}

void lmi_op_index(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    bool adds;
    lmi_fact_set(f, LMI_FACT_indices, lmi_op_numel(s, LMI_S_index));
    int64_t row = lmi_axis(s->at[LMI_S_w].shape, -1);
    lmi_fact_set(f, LMI_FACT_indices_bytes, lmi_op_bytes(s, LMI_S_index));
    lmi_fact_set(f, LMI_FACT_row, row);
    lmi_fact_set(f, LMI_FACT_row_bytes, lmi_stored(row, s->at[LMI_S_w].bits));
    if (k == LMI_K_embedding_bag || k == LMI_K_bag_weights_backward) bag(s, f);
    if (k == LMI_K_bag_backward) bag_backward(s, f);
    if (k == LMI_K_bag_packed) packed_bag(s, f);
    if (k == LMI_K_pick_list || k == LMI_K_put_list) {
        lmi_fact_set(f, LMI_FACT_listed, listed(op, 1, false));
        lmi_fact_set(f, LMI_FACT_listed_bytes, listed(op, 1, true));
    }
    if (k != LMI_K_put_list && k != LMI_K_put) return;
    bool known = lmi_op_bool(s, LMI_S_accumulate, &adds);
    lmi_fact_set(f, LMI_FACT_accumulates, known ? adds : s->at[LMI_S_accumulate].present ? -1 : 0);
}

/* -- windows --------------------------------------------------------------------------------------------- */

/* A source that can't read lists of integers leaves the window out. It is then taken from the layer that
 * called the operator, if that has the same kind and number of spatial axes. */
static void window_of_layer(const lam_model *m, const lam_op *op, lmi_kind k, lmi_slots *s) {
    const lam_event *call = lam_model_event(m, op->call);
    const lam_module *mod = call ? lam_model_module(m, call->module) : NULL;
    lmi_kind kind = k == LMI_K_avg_pool_backward ? LMI_K_avg_pool : k;
    if (s->at[LMI_S_kernel].present || !mod || lmi_word_kind(mod->word) != kind) return;
    if (lmi_word_rank(mod->word) != lmi_op_rank(op->sig->word) || (mod->flags & LAM_MODULE_OWN_FORWARD))
        return;
    static const lmi_slot_id ids[] = {LMI_S_kernel, LMI_S_stride, LMI_S_pad, LMI_S_dil};
    lmi_slots layer;
    lmi_model_bind(m, op->call, &layer);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) s->at[ids[i]] = layer.at[ids[i]];
}

static void windows(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *bound, lmi_facts *f) {
    lmi_slots s = *bound;
    bool adaptive =
        k == LMI_K_adaptive_avg_pool || k == LMI_K_adaptive_avg_pool_backward || k == LMI_K_adaptive_max_pool;
    bool backward = k == LMI_K_avg_pool_backward || k == LMI_K_adaptive_avg_pool_backward;
    lam_shape x = lmi_op_in(op, &s), y = backward ? s.at[LMI_S_grad].shape : lmi_op_out(op, -1);
    int32_t rank = lmi_op_rank(op->sig->word);
    lmi_swept all;
    if (!adaptive) window_of_layer(m, op, k, &s);
    if (!lmi_sweep_axes(adaptive, &s, x, y, rank, &all)) return;
    int64_t planes = lmi_axes(x, 0, x.ndim - rank);
    lmi_fact_set(f, LMI_FACT_covered, lmi_times(planes, all.covered));
    lmi_fact_set(f, LMI_FACT_windows, lmi_times(planes, all.windows));
}

void lmi_op_window(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    switch (k) {
    case LMI_K_fractional_max_pool: /* at random positions, all in bounds */
        lmi_fact_set(f, LMI_FACT_win, lmi_window(s->at[LMI_S_kernel].value, lmi_op_rank(op->sig->word)));
        break;
    case LMI_K_fold_columns: lmi_image_swept(s, lmi_op_out(op, -1), f); break;
    default: windows(m, op, k, s, f); break;
    }
}
