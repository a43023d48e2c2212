/* SPDX-License-Identifier: Apache-2.0
 * Costs of operators in each phase: the backward and recomputed numbers of the rows, and totals. */
#include "analyse/cost/work.h"
#include "analyse/flow/graph.h"

static void fill_phases(const lam_costs *c, lam_row_phases *row, const lmi_op_sum *own,
                        const lmi_op_sum *whole) {
    for (int i = 0; i < LAM_N_METRICS; i++) {
        row->backward[i] = lmi_settled(own->n[LAM_BACKWARD][i]);
        row->recompute[i] = lmi_settled(own->n[LAM_RECOMPUTE][i]);
        row->total_backward[i] = lmi_settled(whole->n[LAM_BACKWARD][i]);
        row->total_recompute[i] = lmi_settled(whole->n[LAM_RECOMPUTE][i]);
    }
    lmi_no_opinion(c, row->backward);
    lmi_no_opinion(c, row->recompute);
    lmi_no_opinion(c, row->total_backward);
    lmi_no_opinion(c, row->total_recompute);
}

void lmi_unknown_phases(lam_row_phases *row) {
    lmi_set_unknown(row->backward);
    lmi_set_unknown(row->recompute);
    lmi_set_unknown(row->total_backward);
    lmi_set_unknown(row->total_recompute);
}

static void add_sum(lmi_op_sum *to, const lmi_op_sum *from) {
    for (int p = LAM_BACKWARD; p < LAM_N_PHASES; p++)
        for (int i = 0; i < LAM_N_METRICS; i++) to->n[p][i] = lmi_count_add(to->n[p][i], from->n[p][i]);
}

static void sum_phase(lmi_work *w, lam_phase p) {
    lam_count *total = w->c->ops.total[p];
    for (int32_t k = 0; k <= w->m->n_events; k++)
        for (int i = 0; i < LAM_N_METRICS; i++) total[i] = lmi_count_add(total[i], w->by_call[k].n[p][i]);
    for (int i = 0; i < LAM_N_METRICS; i++) total[i] = lmi_settled(total[i]);
    lmi_no_opinion(w->c, total);
}

/* True for a phase whose cost is known: a backward pass that did not run has none, and calls alone show none.
 */
static bool is_known(const lmi_work *w, int phase) {
    return lmi_by_ops(w->c) && (phase == LAM_FORWARD || w->c->ops.back);
}

void lmi_ops_totals(lmi_work *w) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        if (is_known(w, p)) sum_phase(w, (lam_phase)p);
        if (!is_known(w, p) && p != LAM_FORWARD) lmi_set_unknown(w->c->ops.total[p]);
    }
}

/* Calls are numbered in the order in which they began, so a backward loop visits children before parents. */
static lam_status subtotals(lmi_work *w, lam_error *e) {
    const lam_model *m = w->m;
    lmi_op_sum *whole = lmi_copy(&w->scratch, w->by_call, (uint64_t)m->n_events + 1, sizeof *whole);
    lmi_op_sum none = {0};
    lam_row_phases *all = lmi_alloc(&w->c->arena, (uint64_t)w->c->n_rows, sizeof *all);
    if (!whole || !all) return lmi_nomem(e);
    for (int32_t i = m->n_events - 1; i >= 0; i--)
        if (m->events[i].parent >= 0) add_sum(&whole[m->events[i].parent], &whole[i]);
    for (int32_t r = 0; r < w->c->n_rows; r++) {
        lam_cost_row *row = &w->c->rows[r];
        int32_t at = row->event >= 0 ? row->event : m->n_events;
        bool ran = row->event >= 0 || lmi_is_outside(row);
        row->phases = &all[r];
        fill_phases(w->c, &all[r], ran ? &w->by_call[at] : &none, ran ? &whole[at] : &none);
        const lam_module *mod = &m->modules[row->module];
        bool unseen = lmi_only_elsewhere(mod) || (row->never_called && lmi_is_inside(mod));
        if (!ran && unseen) lmi_unknown_phases(&all[r]);
    }
    return LAM_OK;
}

lam_status lmi_ops_rows(lmi_work *w, lam_error *e) {
    return is_known(w, LAM_BACKWARD) ? subtotals(w, e) : LAM_OK;
}

void lmi_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS]) {
    const lmi_answer *at =
        lmi_vec_at(&c->answers, lmi_lower_bound(c->answers.data, c->answers.n, sizeof *at, op));
    if (at && at->op == op)
        memcpy(out, at->n, sizeof at->n);
    else
        lmi_count_op(c->convention, c->model, op, out);
    lmi_flex_effective(c->model, op, out);
    lmi_left_effective(c, op, out);
}

/* -- public functions ---------------------------------------------------------------------------- */

lam_count lam_costs_phase_total(const lam_costs *c, lam_phase phase, lam_metric metric) {
    if ((unsigned)phase >= LAM_N_PHASES || (unsigned)metric >= LAM_N_METRICS) return lmi_unknown();
    return phase == LAM_FORWARD ? c->total[metric] : c->ops.total[phase][metric];
}

lam_status lam_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS], bool *counted,
                        lam_error *e) {
    const lam_op *o = lam_model_op(c->model, op);
    if (!o)
        return lmi_fail(e, LAM_RANGE, "lam_costs_op", "there is no operator %d; the model has %d", (int)op,
                        (int)c->model->n_ops);
    lmi_role role = lmi_by_ops(c) ? (lmi_role)c->ops.role[op] : LMI_ROLE_THROUGH;
    bool nothing = lmi_by_ops(c) && (o->flags & (LAM_OP_FAILED | LAM_OP_NODE | LAM_OP_VALUES));
    const lam_state state = o->flags & (LAM_OP_HIDES | LAM_OP_VALUES) ? LAM_UNKNOWN : LAM_EXACT;
    lmi_costs_op(c, op, out);
    for (int i = 0; nothing && i < LAM_N_METRICS; i++) out[i] = (lam_count){.state = state};
    if (counted) *counted = role == LMI_ROLE_COUNTED || role == LMI_ROLE_NO_RULE;
    return LAM_OK;
}

const char *lam_costs_unruled_op(const lam_costs *c, int32_t i, int32_t *n) {
    if (i < 0 || i >= c->ops.n_unruled) return NULL;
    if (n) *n = c->ops.unruled_runs[i];
    return c->ops.unruled[i];
}
