/* SPDX-License-Identifier: Apache-2.0
 *
 * The MACs that a training step needs of its model, for its utilization (Chowdhery et al., "PaLM", 2022): the
 * forward and the backward, whatever else ran in the step. */
#include "analyse/cost/numbers.h"

static bool wants_gradient(const lam_model *m, int32_t op) {
    for (int32_t i = op; i >= 0; i = m->ops[i].parent)
        if (m->ops[i].flags & LAM_OP_GRAD) return true;
    return false;
}

/* Hooks of a parameter run in the node that stores its gradient, such as one that makes an optimizer's
 * step. */
static bool stores_gradient(const lam_model *m, int32_t op) {
    for (int32_t i = op; i >= 0; i = m->ops[i].parent)
        if (m->ops[i].flags & LAM_OP_NODE &&
            strcmp(m->ops[i].sig->name, "torch::autograd::AccumulateGrad") == 0)
            return true;
    return false;
}

/* True for the work of an optimizer, of an average of the weights, of a metric: outside every call, without
 * gradients. What makes nodes of autograd there belongs to the loss. */
static bool is_no_models(const lam_model *m, int32_t op) {
    const lam_op *o = &m->ops[op];
    if (o->phase != LAM_FORWARD) return stores_gradient(m, op);
    return o->call < 0 && !wants_gradient(m, op);
}

/* The effective count if it is known, or else the dense one. */
static lam_count needed(const lam_count n[LAM_N_METRICS]) {
    return n[LAM_EFFECTIVE_MACS].state == LAM_EXACT ? n[LAM_EFFECTIVE_MACS] : n[LAM_MACS];
}

/* An unknown part makes the sum a lower bound already. */
static lam_count less(lam_count sum, lam_count part) {
    const bool known = part.state == LAM_EXACT && !part.over;
    return known ? lam_count_add(sum, lmi_exact(-part.n)) : sum;
}

/* Without the flag on any operator it is not known what made nodes, so what ran outside is left out. */
static bool tells_gradients(const lam_model *m) {
    for (int32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i].flags & LAM_OP_GRAD) return true;
    return false;
}

/* The type of the first tensor that it takes; -1: it takes none. */
static int32_t dtype_of(const lam_op *o) {
    for (int32_t i = 0; i < o->sig->n_in; i++)
        if (o->sig->in[i].is_tensor) return o->sig->in[i].dtype;
    return -1;
}

int32_t lam_costs_macs_dtype(const lam_costs *c) {
    enum { TYPES = 128 };
    double macs[TYPES] = {0};
    int32_t best = -1;
    lam_count n[LAM_N_METRICS];
    for (int32_t i = 0; lmi_by_ops(c) && i < c->model->n_ops; i++) {
        const int32_t dtype = dtype_of(&c->model->ops[i]);
        if (c->ops.role[i] != LMI_ROLE_COUNTED || dtype < 0 || dtype >= TYPES) continue;
        lmi_costs_op(c, i, n);
        if (n[LAM_MACS].state != LAM_UNKNOWN) macs[dtype] += (double)n[LAM_MACS].n;
        if (macs[dtype] > (best < 0 ? 0 : macs[best])) best = dtype;
    }
    return best;
}

lam_count lam_costs_model_macs(const lam_costs *c, bool repeated) {
    const lam_model *m = c->model;
    lam_count sum = lmi_exact(0), n[LAM_N_METRICS];
    if (!lmi_by_ops(c)) return lmi_unknown();
    const bool gradients_known = tells_gradients(m);
    for (int32_t r = 0; r < c->n_rows; r++) {
        const lam_cost_row *row = &c->rows[r];
        sum = lam_count_add(sum, needed(row->metric));
        if (!c->ops.back) continue; /* a pass that did not run adds nothing, and its cost is unknown */
        sum = lam_count_add(sum, needed(row->phases->backward));
        if (repeated) sum = lam_count_add(sum, needed(row->phases->recompute));
    }
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op *o = &m->ops[i];
        if (c->ops.role[i] != LMI_ROLE_COUNTED || !is_no_models(m, i)) continue;
        if (o->phase == LAM_RECOMPUTE && !repeated) continue;
        lmi_costs_op(c, i, n);
        sum = less(sum, needed(n));
        if (!gradients_known && o->phase == LAM_FORWARD && n[LAM_MACS].n) sum.state = LAM_AT_LEAST;
    }
    return lmi_settled(sum);
}
