/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs of a model under one convention: the steps in order, and the functions that read the result. */
#include "analyse/cost/work.h"

#include <stdlib.h>

/* Bounds the memory of one model's costs; a model of a million calls needs less than half of it. */
static const uint64_t ARENA_LIMIT = UINT64_C(4) << 30;

static lam_status find_totals(lmi_work *w, lam_error *e) {
    LAM_TRY(lmi_tree_build(&w->tree, w->m, &w->scratch, e));
    LAM_TRY(lmi_ops_sum(w, e));
    LAM_TRY(lmi_price_events(w, e));
    lmi_ops_totals(w);
    if (!w->c->released) lmi_find_total(w);
    return lmi_times_of(w->c, e);
}

static lam_status find_rows(lmi_work *w, lam_error *e) {
    LAM_TRY(lmi_rows(w, e));
    if (w->c->released) lmi_find_total(w);
    LAM_TRY(lmi_params(w, e));
    LAM_TRY(lmi_gaps(w, e));
    w->c->rf_pending = w->c->below_pending = true;
    return LAM_OK;
}

static void free_work(lmi_work *w) {
    if (!w) return;
    for (int i = 0; i < LMI_N_CAUSES; i++) lmi_map_free(&w->by_type[i]);
    lmi_vec_free(&w->op_groups);
    lmi_map_free(&w->op_by_name);
    lmi_vec_free(&w->groups);
    lmi_arena_free(&w->scratch);
    free(w);
}

static lam_status compute(lam_costs *c, const lam_cost_options *o, lam_error *e) {
    lmi_work *w = calloc(1, sizeof *w);
    if (!w) return lmi_nomem(e);
    c->pending = w;
    w->c = c;
    w->m = c->model;
    w->cv = c->convention;
    w->o = o;
    lmi_arena_init(&w->scratch, ARENA_LIMIT);
    lmi_vec_init(&w->groups, sizeof(lmi_group));
    for (int i = 0; i < LMI_N_CAUSES; i++) lmi_map_init(&w->by_type[i]);
    lmi_vec_init(&w->op_groups, sizeof(lmi_op_group));
    lmi_map_init(&w->op_by_name);
    LAM_TRY(find_totals(w, e));
    w->o = NULL; /* the options belong to the caller, and are not needed any more */
    return o->totals_only && !c->released ? LAM_OK : lam_costs_settle(c, e);
}

lam_status lam_costs_settle(lam_costs *c, lam_error *e) {
    if (!c) return lmi_fail(e, LAM_USAGE, "lam_costs_settle", "there are no costs to settle");
    if (c->unsettled) return lmi_nomem(e);
    lmi_work *w = c->pending;
    lam_status s = w ? find_rows(w, e) : LAM_OK;
    c->pending = NULL;
    c->unsettled = s != LAM_OK;
    if (s != LAM_OK) c->n_rows = c->n_gaps = c->n_unruled = c->ops.n_unruled = 0;
    free_work(w);
    return s;
}

/* Copies user-defined rules, but not for the released form: the tool itself did not know them. */
static lam_status take_own(lam_costs *c, const lam_cost_options *o, lam_error *e) {
    lmi_map_init(&c->own.by_name);
    if (!o->own || o->released) return LAM_OK;
    LAM_TRY(lmi_own_copy(o->own, &c->arena, &c->own, e));
    c->with_own = *c->convention;
    c->with_own.own = &c->own;
    c->convention = &c->with_own;
    return LAM_OK;
}

/* Counts of a file are as they are. */
static lam_status check_given(const lam_costs *from, const lam_cost_options *o, lam_error *e) {
    const char *file = from->model->given->file, *by = from->convention->name;
    if (o->convention && strcmp(o->convention, by) != 0)
        return lmi_fail(e, LAM_USAGE, file,
                        "it was counted by %.40s; to count by %.40s needs the run: give the model itself", by,
                        o->convention);
    if (o->released && !from->released) return lmi_needs_run(from->model, "the form that a tool released", e);
    return LAM_OK;
}

static lam_status take_given(lam_costs **out, const lam_costs *from, const lam_cost_options *o,
                             lam_error *e) {
    LAM_TRY(check_given(from, o, e));
    lam_costs *c = calloc(1, sizeof *c);
    if (!c) return lmi_nomem(e);
    *c = *from;
    lmi_arena_init(&c->arena, ARENA_LIMIT);
    if (from->convention == &from->with_own) c->convention = &c->with_own;
    if (from->times) c->times = lmi_times_copy(from->times);
    if (from->device_times) c->device_times = lmi_times_copy(from->device_times);
    if ((c->times != NULL) == (from->times != NULL) &&
        (c->device_times != NULL) == (from->device_times != NULL)) {
        *out = c;
        return LAM_OK;
    }
    lam_costs_free(c);
    return lmi_nomem(e);
}

lam_status lam_costs_new(lam_costs **out, const lam_model *m, const lam_cost_options *o, lam_error *e) {
    static const lam_cost_options defaults = {0};
    if (!out) return lmi_fail(e, LAM_USAGE, "lam_costs_new", "there is nowhere to put the result");
    *out = NULL;
    if (!m) return lmi_fail(e, LAM_USAGE, "lam_costs_new", "there is no model to cost");
    if (!o) o = &defaults;
    if (m->given) return take_given(out, &m->given->costs, o, e);
    const lmi_convention *cv = lmi_convention_for(m, o->convention, e);
    if (!cv) return LAM_USAGE;
    lam_costs *c = calloc(1, sizeof *c);
    if (!c) return lmi_nomem(e);
    lmi_arena_init(&c->arena, ARENA_LIMIT);
    c->model = m;
    c->convention = cv;
    c->released = o->released;
    for (int i = 0; i < LAM_N_METRICS; i++) c->has[i] = lmi_convention_tells(cv, (lam_metric)i);
    lmi_vec_init(&c->answers, sizeof(lmi_answer));
    lam_status s = take_own(c, o, e);
    if (s == LAM_OK) s = compute(c, o, e);
    if (s == LAM_OK) s = lmi_find_growth(c, o, e);
    if (s == LAM_OK)
        *out = c;
    else
        lam_costs_free(c);
    return s;
}

void lam_costs_free(lam_costs *c) {
    if (!c) return;
    free_work(c->pending);
    lam_times_free(c->times);
    lam_times_free(c->device_times);
    lmi_own_free(&c->own);
    lmi_vec_free(&c->answers);
    lmi_arena_free(&c->arena);
    free(c);
}

const lam_model *lam_costs_model(const lam_costs *c) { return c->model; }

int32_t lam_costs_convention(const lam_costs *c) { return lam_convention_find(c->convention->name); }

int32_t lam_costs_n_rows(const lam_costs *c) { return c->n_rows; }

lam_status lmi_rows_need(const lam_costs *c, lam_error *e) {
    LAM_TRY(lmi_rf_need(c, e));
    return lmi_below_need(c, e);
}

const lam_cost_row *lam_costs_row(const lam_costs *c, int32_t i) {
    (void)lmi_rows_need(c, NULL);
    return i >= 0 && i < c->n_rows ? &c->rows[i] : NULL;
}

lam_count lam_costs_total(const lam_costs *c, lam_metric metric) {
    return (unsigned)metric < LAM_N_METRICS ? c->total[metric] : lmi_unknown();
}

lam_param_totals lam_costs_params(const lam_costs *c) { return c->params; }

const char *lam_costs_unruled(const lam_costs *c, int32_t i, int32_t *n_calls) {
    if (i < 0 || i >= c->n_unruled) return NULL;
    if (n_calls) *n_calls = c->unruled_calls[i];
    return c->unruled[i];
}

const char *lam_costs_unruled_path(const lam_costs *c, int32_t i) {
    return i >= 0 && i < c->n_unruled ? c->unruled_paths[i] : NULL;
}

const char *lam_costs_gap(const lam_costs *c, int32_t i) {
    return i >= 0 && i < c->n_gaps ? c->gaps[i] : NULL;
}
