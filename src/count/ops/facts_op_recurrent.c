/* SPDX-License-Identifier: Apache-2.0
 * facts_op_recurrent: recurrences as operators: one layer and direction, all of them at once, and one step.
 */
#include "count/ops/facts_op.h"

/* -- one layer and direction ----------------------------------------------------------------------------- */

static void layer(const lmi_slots *s, lmi_facts *f) {
    lam_shape x = s->at[LMI_S_x].shape, w = s->at[LMI_S_w].shape, w2 = s->at[LMI_S_w2].shape;
    int64_t hidden = lmi_axis(w2, -1), rows = lmi_axis(w, 0);
    lmi_fact_set(f, LMI_FACT_steps, x.ndim == 3 ? lmi_axes(x, 0, 2) : -1);
    lmi_fact_set(f, LMI_FACT_weights, lmi_plus(lmi_numel(w), lmi_numel(w2)));
    lmi_fact_set(f, LMI_FACT_hidden, hidden);
    lmi_fact_set(f, LMI_FACT_gates, hidden > 0 && rows >= 0 && rows % hidden == 0 ? rows / hidden : -1);
}

/* -- all layers and directions --------------------------------------------------------------------------- */

/* The modes of cuDNN and MIOpen: a plain recurrence with relu, one with tanh, an LSTM, a GRU. */
static void mode(const lmi_slots *s, lmi_facts *f) {
    static const int64_t gates[] = {1, 1, 4, 3};
    int64_t which = lmi_value_int(s->at[LMI_S_mode].value, -1);
    bool known = which >= 0 && which < 4;
    lmi_fact_set(f, LMI_FACT_gates, known ? gates[which] : -1);
    lmi_fact_set(f, LMI_FACT_by_relu, known ? which == 0 : -1);
}

/* Under autocast the matrices in the list are columns of numbers, as the biases are. So the sizes are those
 * that the other arguments tell. Steps are the product of all axes of the input but the last: the data of a
 * packed sequence have one axis for all steps of all sequences. */
static void sizes(const lmi_slots *s, lmi_facts *f) {
    lam_shape x = s->at[LMI_S_x].shape;
    int64_t hidden = lmi_value_int(s->at[LMI_S_hidden].value, -1),
            layers = lmi_value_int(s->at[LMI_S_layers].value, -1), state = lmi_axis(s->at[LMI_S_h].shape, -1);
    bool both, known = hidden > 0 && state > 0;
    lmi_fact_set(f, LMI_FACT_steps, x.ndim == 2 || x.ndim == 3 ? lmi_axes(x, 0, -1) : -1);
    lmi_fact_set(f, LMI_FACT_in_size, lmi_axis(x, -1));
    lmi_fact_set(f, LMI_FACT_hidden, hidden > 0 ? hidden : -1);
    lmi_fact_set(f, LMI_FACT_state, known ? state : -1);
    lmi_fact_set(f, LMI_FACT_proj, !known ? -1 : state == hidden ? 0 : state);
    lmi_fact_set(f, LMI_FACT_layers, layers > 0 ? layers : -1);
    if (lmi_op_bool(s, LMI_S_bidirectional, &both)) lmi_fact_set(f, LMI_FACT_dirs, 1 + both);
}

/* Dropout is applied between layers. */
static void between(const lmi_slots *s, lmi_facts *f) {
    bool training;
    if (lmi_op_bool(s, LMI_S_training, &training)) lmi_fact_set(f, LMI_FACT_training, training);
    if (lmi_op_number(s, LMI_S_dropout, -1) >= 0) lmi_facts_drops(s->at[LMI_S_dropout].value, f);
}

/* The list of weights may also come as one buffer, which is returned. */
static void buffer(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    bool given = lmi_op_tensor(s, LMI_S_w), shared = false;
    for (int32_t i = 0; given && i < op->sig->n_out; i++)
        if (op->sig->out[i].position == 4) shared = op->sig->out[i].shares >= 0;
    lmi_fact_set(f, LMI_FACT_weights, lmi_op_optional(s, LMI_S_w));
    lmi_fact_set(f, LMI_FACT_weights_bytes, given ? lmi_op_bytes(s, LMI_S_w) : 0);
    lmi_fact_set(f, LMI_FACT_shared, shared);
}

/* 1 if the gradients of the weights are returned, a list after those of the input and of both states. A list
 * that was requested and is not there was not read. */
static int64_t returns_weights(const lam_op *op, const lmi_slots *s) {
    const lam_value *asked = s->at[LMI_S_asked].value;
    for (int32_t i = 0; i < op->sig->n_out; i++)
        if (op->sig->out[i].position == 3 && op->sig->out[i].is_tensor) return 1;
    return asked && asked->type == LAM_INTS && asked->n == 4 && !asked->ints[3] ? 0 : -1;
}

/* A layer and direction has two matrices, a third where it projects, and two biases or none. */
static void stack(const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    int64_t each = lmi_value_int(s->at[LMI_S_bias_flag].value, -1);
    mode(s, f);
    sizes(s, f);
    between(s, f);
    buffer(op, s, f);
    lmi_fact_set(f, LMI_FACT_bias, each >= 2 && each <= 5 ? each >= 4 : -1);
    if (k == LMI_K_rnn_stack_backward) lmi_fact_set(f, LMI_FACT_want_w, returns_weights(op, s));
}

/* -- one step -------------------------------------------------------------------------------------------- */

static void packed_cell(const lam_op *op, const lmi_slots *s, lmi_facts *f) {
    lmi_fact_set(f, LMI_FACT_gates, lmi_op_each(op->sig->word));
    lmi_fact_set(f, LMI_FACT_hidden, lmi_axis(s->at[LMI_S_h].shape, -1));
    lmi_fact_set(f, LMI_FACT_held, lmi_op_numel(s, LMI_S_h));
}

/* A backward may name the state by its gradient alone, and says by a flag whether there were biases. */
static void step(lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    bool flag, known = lmi_op_bool(s, LMI_S_bias_flag, &flag);
    lmi_fact_set(f, LMI_FACT_held, lmi_op_numel(s, lmi_op_tensor(s, LMI_S_h) ? LMI_S_h : LMI_S_grad));
    if (k == LMI_K_cell_step) lmi_fact_set(f, LMI_FACT_bias, lmi_op_tensor(s, LMI_S_b));
    if (k == LMI_K_cell_step_backward) lmi_fact_set(f, LMI_FACT_bias, known ? flag : -1);
}

void lmi_op_recurrent(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)m;
    switch (k) {
    case LMI_K_cell_packed: packed_cell(op, s, f); break;
    case LMI_K_cell_step:
    case LMI_K_cell_step_backward: step(k, s, f); break;
    case LMI_K_rnn_stack:
    case LMI_K_rnn_stack_backward: stack(op, k, s, f); break;
    default: layer(s, f); break;
    }
}
