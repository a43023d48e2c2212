/* SPDX-License-Identifier: Apache-2.0
 * facts_op: exact whole numbers of one operator, from the shapes of its tensors and a few of its arguments.
 * This file sets the facts that every kind has, and calls the family's function for further ones. */
#include "count/ops/facts_op.h"
#include "model/values.h"

static lam_shape shape_of(const lam_op_arg *a) { return (lam_shape){a->ndim, a->sizes}; }

/* -- facts of every kind --------------------------------------------------------------------------------- */

static bool in_place(const lam_op *op) {
    size_t n = strlen(op->sig->name);
    return n > 0 && op->sig->name[n - 1] == '_';
}

/* True for an argument that receives the result (`out`): it is written, not read. */
static bool takes_result(const lam_op *op, int32_t i) {
    if (i == 0 || in_place(op)) return false;
    for (int32_t k = 0; k < op->sig->n_out; k++)
        if (op->sig->out[k].shares == i) return true;
    return false;
}

/* The size of a tensor, in elements or in bytes. */
typedef int64_t measure(const lam_op_arg *a);
static int64_t elements(const lam_op_arg *a) { return a->sparse ? a->stored : lmi_op_arg_numel(a); }
static int64_t stored(const lam_op_arg *a) {
    return a->sparse ? a->stored_bytes : lmi_stored(lmi_op_arg_numel(a), lam_dtype_bits(a->dtype));
}

static int64_t sum_in(const lam_op *op, measure *of) {
    int64_t sum = 0;
    bool shared = false; /* mostly not, and thousands of arguments may have thousands of results */
    for (int32_t k = 0; k < op->sig->n_out && !shared; k++) shared = op->sig->out[k].shares > 0;
    for (int32_t i = 0; i < op->sig->n_in; i++) {
        if (!op->sig->in[i].is_tensor || (shared && takes_result(op, i))) continue;
        sum = lmi_plus(sum, of(&op->sig->in[i]));
    }
    return sum;
}

/* The sum over the results; -1 if no result is known, also for an operator that returns no tensor. */
static int64_t sum_out(const lam_op *op, measure *of) {
    int64_t sum = op->sig->n_out > 0 ? 0 : -1;
    for (int32_t i = 0; i < op->sig->n_out; i++)
        if (op->sig->out[i].is_tensor) sum = lmi_plus(sum, of(&op->sig->out[i]));
    return sum;
}

/* 1 if a tensor has complex elements, 0 if not; -1: there is no tensor, or the type of one is unknown. */
static int64_t any_complex(const lam_op_arg *args, int32_t n) {
    int64_t any = -1;
    for (int32_t i = 0; i < n; i++) {
        if (!args[i].is_tensor) continue;
        if (args[i].dtype < 0) return -1;
        const lmi_form *form = lmi_form_of(args[i].dtype);
        if (any < 1) any = form && form->parts == 2;
    }
    return any;
}

/* Sets the operations an element; complex numbers take more than the line of the word says. */
static void set_elements(const lam_op *op, lmi_facts *f) {
    int64_t out = any_complex(op->sig->out, op->sig->n_out), in = any_complex(op->sig->in, op->sig->n_in);
    bool complex = out == 1 || in == 1;
    const lmi_complex_ops *ops = complex ? lmi_op_complex(op->sig->word) : NULL;
    lmi_fact_set(f, LMI_FACT_complex, complex ? 1 : out == 0 || in == 0 ? 0 : -1);
    lmi_fact_set(f, LMI_FACT_each, ops ? ops->each : complex ? -1 : lmi_op_each(op->sig->word));
    lmi_fact_set(f, LMI_FACT_last, ops ? ops->last : complex ? -1 : lmi_op_last(op->sig->word));
    lmi_fact_set(f, LMI_FACT_step, ops ? ops->step : complex ? 2 : 1);
}

/* Sets facts for user-defined rules of any operator: axes, and whole numbers among the arguments. */
static void set_generic(const lam_op *op, lam_shape x, lam_shape y, lmi_facts *f) {
    lam_shape z = {-1, NULL};
    int32_t tensors = 0;
    for (int32_t i = 0; i < op->sig->n_in; i++) {
        const lam_op_arg *a = &op->sig->in[i];
        bool number = !a->is_tensor && (a->value.type == LAM_INT || a->value.type == LAM_BOOL);
        if (a->is_tensor && ++tensors == 2) z = shape_of(a);
        if (number && a->position >= 0 && a->position < 8)
            lmi_fact_set(f, (lmi_fact_id)(LMI_FACT_arg0 + a->position), a->value.i);
    }
    lmi_facts_axes(x, z, y, f);
}

enum { META = 14 }; /* c10's number of the device without memory */

/* True if data go from another device to the meta device: nothing is read or written. If all tensors are on
 * the meta device, the run has no memory and counts by shapes. */
static bool goes_nowhere(const lam_op *op) {
    if (op->sig->n_out != 1 || !op->sig->out->is_tensor || op->sig->out->device != META) return false;
    for (int32_t i = 0; i < op->sig->n_in; i++)
        if (op->sig->in[i].is_tensor && op->sig->in[i].device >= 0 && op->sig->in[i].device != META)
            return true;
    return false;
}

static void set_frame(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = lmi_op_in(op, s), y = lmi_op_out(op, -1);
    lmi_fact_set(f, LMI_FACT_in, lmi_numel(x));
    lmi_fact_set(f, LMI_FACT_out, lmi_numel(y));
    bool nowhere = goes_nowhere(op);
    lmi_fact_set(f, LMI_FACT_ins, nowhere ? 0 : sum_in(op, elements));
    lmi_fact_set(f, LMI_FACT_outs, nowhere ? 0 : sum_out(op, elements));
    lmi_fact_set(f, LMI_FACT_dims, x.ndim);
    set_generic(op, x, y, f);
    set_elements(op, f);
    lmi_fact_set(f, LMI_FACT_second, nowhere ? 0 : lmi_op_numel(s, LMI_S_x2));
    lmi_fact_set(f, LMI_FACT_pair, lmi_op_tensor(s, LMI_S_x2));
    lmi_fact_set(f, LMI_FACT_grads, lmi_op_numel(s, LMI_S_grad));
    lmi_fact_set(f, LMI_FACT_sparse, lmi_op_is_sparse(op));
}

static int32_t first_bits(const lam_op_arg *args, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (args[i].is_tensor) return lam_dtype_bits(args[i].dtype);
    return 0;
}

/* Sets the facts in bytes, by the type of each tensor. */
static void set_bytes(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    lmi_slot_id role = lmi_op_tensor(s, LMI_S_x) ? LMI_S_x : LMI_S_q;
    int32_t out = first_bits(op->sig->out, op->sig->n_out);
    int32_t bits = lmi_op_tensor(s, role) ? s->at[role].bits : first_bits(op->sig->in, op->sig->n_in);
    bool nowhere = goes_nowhere(op);
    lmi_fact_set(f, LMI_FACT_ins_bytes, nowhere ? 0 : sum_in(op, stored));
    lmi_fact_set(f, LMI_FACT_outs_bytes, nowhere ? 0 : sum_out(op, stored));
    lmi_fact_set(f, LMI_FACT_in_bytes, lmi_stored(lmi_fact_get(f, LMI_FACT_in), bits));
    lmi_fact_set(f, LMI_FACT_in_item, bits > 0 && bits % 8 == 0 ? bits / 8 : -1);
    lmi_fact_set(f, LMI_FACT_out_bytes, lmi_stored(lmi_fact_get(f, LMI_FACT_out), out));
    lmi_fact_set(f, LMI_FACT_out_item, out > 0 && out % 8 == 0 ? out / 8 : -1);
    lmi_fact_set(f, LMI_FACT_second_bytes, nowhere ? 0 : lmi_op_bytes(s, LMI_S_x2));
    lmi_fact_set(f, LMI_FACT_grads_bytes, lmi_op_bytes(s, LMI_S_grad));
    lmi_fact_set(f, LMI_FACT_weights_bytes, lmi_op_bytes(s, LMI_S_w));
}

/* 1 if a backward returns the gradient at `position`; 0: it was not requested. */
static int64_t wanted(const lam_op *op, int32_t position) {
    for (int32_t i = 0; i < op->sig->n_out; i++)
        if (op->sig->out[i].position == position && op->sig->out[i].is_tensor) return 1;
    return 0;
}

static void set_wanted(const lam_op *op, lmi_facts *f) {
    if (op->sig->n_out == 0) return;
    lmi_fact_set(f, LMI_FACT_want_x, wanted(op, 0));
    lmi_fact_set(f, LMI_FACT_want_w, wanted(op, 1));
    lmi_fact_set(f, LMI_FACT_want_b, wanted(op, 2));
}

/* -- further facts by family ----------------------------------------------------------------------------- */

static lmi_op_family *const families[LMI_N_KINDS] = {
    [LMI_K_conv] = lmi_op_dense,
    [LMI_K_conv_transpose] = lmi_op_dense,
    [LMI_K_conv_either] = lmi_op_dense,
    [LMI_K_conv_fused] = lmi_op_dense,
    [LMI_K_conv_backward] = lmi_op_dense,
    [LMI_K_linear] = lmi_op_dense,
    [LMI_K_contract] = lmi_op_inside,
    [LMI_K_move] = lmi_op_sized,
    [LMI_K_either] = lmi_op_made,
    [LMI_K_product] = lmi_op_dense,
    [LMI_K_product_act] = lmi_op_dense,
    [LMI_K_grouped_mm] = lmi_op_grouped,
    [LMI_K_euclidean] = lmi_op_dense,
    [LMI_K_pair_distance] = lmi_op_dense,
    [LMI_K_attend] = lmi_op_attention,
    [LMI_K_attend_backward] = lmi_op_attention,
    [LMI_K_attend_flash] = lmi_op_attention,
    [LMI_K_attend_flash_backward] = lmi_op_attention,
    [LMI_K_attend_efficient] = lmi_op_attention,
    [LMI_K_attend_efficient_backward] = lmi_op_attention,
    [LMI_K_attend_fused] = lmi_op_fused,
    [LMI_K_rotate] = lmi_op_fused,
    [LMI_K_attend_linear] = lmi_op_fused,
    [LMI_K_experts] = lmi_op_fused,
    [LMI_K_skip_norm] = lmi_op_norm,
    [LMI_K_fused_mha] = lmi_op_attention,
    [LMI_K_fused_encoder] = lmi_op_attention,
    [LMI_K_rnn_layer] = lmi_op_recurrent,
    [LMI_K_rnn_layer_backward] = lmi_op_recurrent,
    [LMI_K_rnn_stack] = lmi_op_recurrent,
    [LMI_K_rnn_stack_backward] = lmi_op_recurrent,
    [LMI_K_cell_step] = lmi_op_recurrent,
    [LMI_K_cell_step_backward] = lmi_op_recurrent,
    [LMI_K_linear_packed] = lmi_op_packed,
    [LMI_K_conv_packed] = lmi_op_packed,
    [LMI_K_rnn_packed] = lmi_op_packed,
    [LMI_K_sparse_product] = lmi_op_dense,
    [LMI_K_sparse_reduce] = lmi_op_dense,
    [LMI_K_sparse_reduce_backward] = lmi_op_dense,
    [LMI_K_batch_norm] = lmi_op_norm,
    [LMI_K_batch_norm_backward] = lmi_op_norm,
    [LMI_K_layer_norm] = lmi_op_norm,
    [LMI_K_group_norm] = lmi_op_norm,
    [LMI_K_rms_norm] = lmi_op_norm,
    [LMI_K_row_norm_backward] = lmi_op_norm,
    [LMI_K_rms_norm_backward] = lmi_op_norm,
    [LMI_K_weight_norm] = lmi_op_norm,
    [LMI_K_weight_norm_backward] = lmi_op_norm,
    [LMI_K_softmax] = lmi_op_axes,
    [LMI_K_log_softmax] = lmi_op_axes,
    [LMI_K_softmax_backward] = lmi_op_axes,
    [LMI_K_scan] = lmi_op_axes,
    [LMI_K_vector_norm] = lmi_op_axes,
    [LMI_K_map] = lmi_op_point,
    [LMI_K_communicate_parts] = lmi_op_point,
    [LMI_K_gelu] = lmi_op_point,
    [LMI_K_gelu_backward] = lmi_op_point,
    [LMI_K_loss] = lmi_op_point,
    [LMI_K_nll_loss] = lmi_op_point,
    [LMI_K_multi_margin_loss] = lmi_op_margin,
    [LMI_K_multi_margin_loss_backward] = lmi_op_margin,
    [LMI_K_multilabel_margin_loss] = lmi_op_margin,
    [LMI_K_multilabel_margin_loss_backward] = lmi_op_margin,
    [LMI_K_renorm] = lmi_op_axes,
    [LMI_K_embedding] = lmi_op_index,
    [LMI_K_embedding_bag] = lmi_op_index,
    [LMI_K_pick] = lmi_op_index,
    [LMI_K_pick_list] = lmi_op_index,
    [LMI_K_put_list] = lmi_op_index,
    [LMI_K_put] = lmi_op_index,
    [LMI_K_bag_backward] = lmi_op_index,
    [LMI_K_bag_weights_backward] = lmi_op_index,
    [LMI_K_max_pool] = lmi_op_window,
    [LMI_K_avg_pool] = lmi_op_window,
    [LMI_K_avg_pool_backward] = lmi_op_window,
    [LMI_K_fold_columns] = lmi_op_window,
    [LMI_K_adaptive_avg_pool] = lmi_op_window,
    [LMI_K_adaptive_avg_pool_backward] = lmi_op_window,
    [LMI_K_adaptive_max_pool] = lmi_op_window,
    [LMI_K_fractional_max_pool] = lmi_op_window,
    [LMI_K_interpolate] = lmi_op_resample,
    [LMI_K_interpolate_backward] = lmi_op_resample,
    [LMI_K_interpolate_smooth] = lmi_op_resample,
    [LMI_K_interpolate_smooth_backward] = lmi_op_resample,
    [LMI_K_grid_sample] = lmi_op_resample,
    [LMI_K_grid_sample_backward] = lmi_op_resample,
    [LMI_K_sort] = lmi_op_order,
    [LMI_K_sort_all] = lmi_op_order,
    [LMI_K_choose] = lmi_op_order,
    [LMI_K_search] = lmi_op_order,
    [LMI_K_among] = lmi_op_order,
    [LMI_K_look] = lmi_op_order,
    [LMI_K_fourier] = lmi_op_order,
    [LMI_K_pair_distance_backward] = lmi_op_dense,
    [LMI_K_reflected] = lmi_op_factor,
    [LMI_K_map_list] = lmi_op_list,
    [LMI_K_move_list] = lmi_op_list,
    [LMI_K_fill_list] = lmi_op_list,
    [LMI_K_norm_list] = lmi_op_list,
    [LMI_K_max_list] = lmi_op_list,
    [LMI_K_product_list] = lmi_op_list,
    [LMI_K_fused_adam] = lmi_op_list,
    [LMI_K_fused_sgd] = lmi_op_list,
    [LMI_K_fused_adagrad] = lmi_op_list,
    [LMI_K_cell_packed] = lmi_op_recurrent,
    [LMI_K_bag_packed] = lmi_op_index,
    [LMI_K_batch_norm_eval] = lmi_op_norm,
    [LMI_K_instance_norm] = lmi_op_norm,
    [LMI_K_roi_align] = lmi_op_region,
    [LMI_K_roi_align_backward] = lmi_op_region,
    [LMI_K_ps_roi_align] = lmi_op_region,
    [LMI_K_ps_roi_align_backward] = lmi_op_region,
    [LMI_K_deform_conv] = lmi_op_region,
    [LMI_K_deform_conv_backward] = lmi_op_region,
    [LMI_K_lu_factor] = lmi_op_factor,
    [LMI_K_cholesky] = lmi_op_factor,
    [LMI_K_householder] = lmi_op_factor,
    [LMI_K_reflections] = lmi_op_factor,
    [LMI_K_qr] = lmi_op_factor,
    [LMI_K_triangular_solve] = lmi_op_factor,
    [LMI_K_lu_solve] = lmi_op_factor,
    [LMI_K_cholesky_solve] = lmi_op_factor,
    [LMI_K_singular_values] = lmi_op_factor,
    [LMI_K_eigenvalues] = lmi_op_factor,
    [LMI_K_symmetric_eigenvalues] = lmi_op_factor,
    [LMI_K_least_squares] = lmi_op_factor,
    [LMI_K_ldl_factor] = lmi_op_factor,
    [LMI_K_ldl_solve] = lmi_op_factor,
    [LMI_K_ctc_loss] = lmi_op_ctc,
    [LMI_K_ctc_loss_backward] = lmi_op_ctc,
    [LMI_K_histogram] = lmi_op_order,
};

static void gather(const lam_model *m, const lam_op *o, lmi_facts *out) {
    lmi_kind kind = lmi_op_kind(o->sig->word);
    lmi_slots slots;
    lmi_bind_op(o->sig, &slots);
    set_frame(o, &slots, out);
    set_bytes(o, &slots, out);
    set_wanted(o, out);
    if (kind < LMI_N_KINDS && families[kind]) families[kind](m, o, kind, &slots, out);
    if (lmi_op_is_sparse(o)) lmi_op_sparse(o, kind, &slots, out);
}

void lmi_facts_of_op(const lam_model *m, int32_t op, lmi_facts *out) {
    memset(out, 0, sizeof *out);
    const lam_op *o = lam_model_op(m, op);
    if (o) gather(m, o, out);
}

void lmi_facts_of_sig(const lam_model *m, const lam_op_sig *sig, lmi_facts *out) {
    const lam_op alone = {.sig = sig, .call = LMI_ANY_LAYER, .parent = -1};
    memset(out, 0, sizeof *out);
    gather(m, &alone, out);
}
