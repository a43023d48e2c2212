/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a saved report, its sums, and why they are not exact. */
#include "report/numbers/numbers.h"
#include "report/saved/saved.h"

/* -- numbers --------------------------------------------------------------------------------------------- */

/* Takes what a row or the whole model owns. */
static lam_status take_owned(const lmi_saved *s, uint32_t from, lam_param_totals *out) {
    const lam_count unknown = lmi_unknown(), nothing = lmi_exact(0);
    lam_param_totals all = {0};
    uint32_t at;
#define OWNED(member, name, when, otherwise, csv, form)                                                      \
    at = lmi_saved_get(s, from, name);                                                                       \
    if (at)                                                                                                  \
        LAM_TRY(lmi_saved_count(s, at, &all.member));                                                        \
    else                                                                                                     \
        all.member = otherwise;
#include "report/numbers/row.def"
    *out = all;
    return LAM_OK;
}

/* What the convention does not count is missing. */
static lam_status take_metrics(const lmi_saved *s, uint32_t from, lam_count to[LAM_N_METRICS]) {
    for (int m = 0; m < LAM_N_METRICS; m++)
        LAM_TRY(lmi_saved_count(s, lmi_saved_get(s, from, lam_metric_name((lam_metric)m)), &to[m]));
    return LAM_OK;
}

/* -- rows ------------------------------------------------------------------------------------------------ */

/* Takes how sure the receptive field is, from the axis that it is of: one that is not known, or the one with
 * the largest field. Without axes it is a lower bound at least. */
static lam_status take_sureness(const lmi_saved *s, uint32_t row, lam_cost_row *r) {
    int64_t most = -1;
    LMI_JSON_EACH(&s->j, lmi_saved_get(s, row, "receptive_fields"), i) {
        const uint32_t state = lmi_saved_get(s, i, "state");
        int64_t size;
        LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, i, "size"), &size));
        const bool unknown = lmi_json_equals(&s->j, state, lam_state_name(LAM_UNKNOWN));
        if (most == INT64_MAX || (!unknown && size <= most)) continue;
        most = unknown ? INT64_MAX : size;
        r->rf_state = lmi_json_equals(&s->j, state, lam_state_name(LAM_EXACT)) ? LAM_EXACT : LAM_AT_LEAST;
        LAM_TRY(lmi_saved_truth(s, lmi_saved_get(s, i, "at_most"), &r->rf_at_most));
        r->rf_whole = lmi_json_equals(&s->j, lmi_saved_get(s, i, "reach"), "whole");
    }
    return LAM_OK;
}

static lam_status take_field(const lmi_saved *s, uint32_t row, lam_cost_row *r) {
    const uint32_t rf = lmi_saved_get(s, row, "receptive_field");
    r->rf_state = LAM_AT_LEAST;
    LAM_TRY(take_sureness(s, row, r));
    if (!lmi_saved_has(s, rf)) r->rf_state = LAM_UNKNOWN;
    LAM_TRY(lmi_saved_real(s, rf, 0, &r->rf));
    LAM_TRY(lmi_saved_real(s, lmi_saved_get(s, row, "rf_stride"), 0, &r->rf_stride));
    return lmi_saved_real(s, lmi_saved_get(s, row, "rf_padding"), 0, &r->rf_padding);
}

static lam_status take_row(lmi_saved *s, uint32_t row, int32_t place, int32_t event, lam_cost_row *r) {
    static const char *const phases[] = {"backward", "recompute"};
    const uint32_t status = lmi_saved_get(s, row, "status"), below = lmi_saved_get(s, row, "subtotal");
    lam_row_phases *back = lmi_saved_room(s, 1, sizeof *back);
    lam_row_below *whole = lmi_saved_room(s, 1, sizeof *whole);
    lam_count *metric = lmi_saved_room(s, LAM_N_METRICS, sizeof *metric);
    if (!back || !whole || !metric) return lmi_nomem(s->e);
    lam_count *const own[] = {back->backward, back->recompute}, *const all[] = {back->total_backward,
                                                                                back->total_recompute};
    lam_param_totals owned;
    *r = (lam_cost_row){.event = event,
                        .place = place,
                        .module = place,
                        .depth = s->m->places[place].depth,
                        .metric = metric,
                        .below = whole,
                        .phases = back};
    LAM_TRY(take_owned(s, row, &owned));
    lmi_row_own(r, &owned);
    r->running_stats = whole->param_bytes = whole->logical_bytes = whole->local_bytes = lmi_unknown();
    LAM_TRY(lmi_saved_count(s, lmi_saved_get(s, below, "params"), &whole->params));
    LAM_TRY(take_metrics(s, row, metric));
    LAM_TRY(take_metrics(s, below, whole->total));
    for (int p = 0; p < 2; p++) {
        LAM_TRY(take_metrics(s, lmi_saved_get(s, row, phases[p]), own[p]));
        LAM_TRY(take_metrics(s, lmi_saved_get(s, below, phases[p]), all[p]));
    }
    LAM_TRY(lmi_saved_truth(s, lmi_saved_get(s, row, "shared"), &r->shared));
    LAM_TRY(lmi_saved_truth(s, lmi_saved_get(s, row, "leaf"), &r->leaf));
    LAM_TRY(lmi_saved_text(s, lmi_saved_get(s, row, "rule"), &r->rule_kind));
    LAM_TRY(lmi_saved_text(s, lmi_saved_get(s, row, "reason"), &r->reason));
    r->never_called = lmi_json_equals(&s->j, status, "never called") ||
                      lmi_json_equals(&s->j, status, "called elsewhere") ||
                      lmi_json_equals(&s->j, status, "not seen");
    r->counted = r->rule_kind || lmi_json_equals(&s->j, status, "outside calls");
    for (int m = 0; m < LAM_N_METRICS && event >= 0; m++) /* a container that only calls others counts 0 */
        r->counted = r->counted || (s->given.costs.has[m] && !lmi_is_zero(r->metric[m]));
    return take_field(s, row, r);
}

/* Takes the rows; the k-th call of a shared module may be of any of its places. */
static lam_status take_rows(lmi_saved *s) {
    lam_costs *c = &s->given.costs;
    int32_t n = 0, event = 0;
    c->rows = lmi_saved_room(s, lmi_json_size(&s->j, s->rows), sizeof *c->rows);
    c->prices = lmi_saved_room(s, (uint64_t)s->m->n_events, sizeof *c->prices);
    if (!c->rows || !c->prices) return lmi_nomem(s->e);
    LMI_JSON_EACH(&s->j, s->rows, row) {
        const bool called = lmi_json_equals(&s->j, lmi_saved_get(s, row, "status"), "called");
        const int32_t place = s->row_place[n];
        lam_cost_row *r = &c->rows[n++];
        LAM_TRY(take_row(s, row, place, called ? event : -1, r));
        if (lmi_json_equals(&s->j, lmi_saved_get(s, row, "status"), "not seen"))
            s->m->modules[place].flags |= LAM_MODULE_INSIDE;
        if (!called) continue;
        if (r->reason && strcmp(r->reason, LMI_HIDDEN_WORK) == 0) c->prices[event].cause = LMI_CAUSE_HIDDEN;
        LAM_TRY(lmi_saved_small(s, lmi_saved_get(s, row, "call"), &s->m->events[event++].ordinal));
    }
    c->n_rows = n;
    return LAM_OK;
}

/* -- sums, and why they are not complete ----------------------------------------------------------------- */

/* A backward ran if its operators cost something, or an unknown amount. */
static int32_t ran(const lam_costs *c, lam_phase phase) {
    for (int m = 0; m < LAM_N_METRICS; m++)
        if (c->has[m] && !lmi_is_zero(c->ops.total[phase][m])) return 1;
    return 0;
}

static lam_status take_operators(lmi_saved *s) {
    lmi_op_costs *o = &s->given.costs.ops;
    const uint32_t at = lmi_saved_top(s, "operators"), list = lmi_saved_get(s, at, "unruled");
    int32_t counted;
    LAM_TRY(lmi_saved_small(s, lmi_saved_get(s, at, "known"), &o->known));
    LAM_TRY(lmi_saved_small(s, lmi_saved_get(s, at, "counted"), &counted));
    if (o->back) {
        o->ran[LAM_BACKWARD] = ran(&s->given.costs, LAM_BACKWARD);
        o->ran[LAM_RECOMPUTE] = ran(&s->given.costs, LAM_RECOMPUTE);
    }
    o->ran[LAM_FORWARD] = counted - o->ran[LAM_BACKWARD] - o->ran[LAM_RECOMPUTE];
    if (o->ran[LAM_FORWARD] < 0) o->ran[LAM_FORWARD] = 0;
    o->unruled = lmi_saved_room(s, lmi_saved_size(s, list), sizeof *o->unruled);
    o->unruled_runs = lmi_saved_room(s, lmi_saved_size(s, list), sizeof *o->unruled_runs);
    if (!o->unruled || !o->unruled_runs) return lmi_nomem(s->e);
    LMI_JSON_EACH(&s->j, list, i) {
        LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, i, "name"), &o->unruled[o->n_unruled]));
        LAM_TRY(lmi_saved_small(s, lmi_saved_get(s, i, "runs"), &o->unruled_runs[o->n_unruled++]));
    }
    return LAM_OK;
}

static lam_status take_unruled(lmi_saved *s) {
    lam_costs *c = &s->given.costs;
    const uint32_t list = lmi_saved_top(s, "unruled"), n = lmi_saved_size(s, list);
    c->unruled = lmi_saved_room(s, n, sizeof *c->unruled);
    c->unruled_paths = lmi_saved_room(s, n, sizeof *c->unruled_paths);
    c->unruled_calls = lmi_saved_room(s, n, sizeof *c->unruled_calls);
    if (!c->unruled || !c->unruled_paths || !c->unruled_calls) return lmi_nomem(s->e);
    LMI_JSON_EACH(&s->j, list, i) {
        LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, i, "type"), &c->unruled[c->n_unruled]));
        LAM_TRY(lmi_saved_small(s, lmi_saved_get(s, i, "calls"), &c->unruled_calls[c->n_unruled++]));
    }
    return LAM_OK;
}

static lam_status take_gaps(lmi_saved *s) {
    lam_costs *c = &s->given.costs;
    const uint32_t list = lmi_saved_top(s, "gaps");
    c->gaps = lmi_saved_room(s, lmi_saved_size(s, list), sizeof *c->gaps);
    if (!c->gaps) return lmi_nomem(s->e);
    LMI_JSON_EACH(&s->j, list, i) LAM_TRY(lmi_saved_word(s, i, &c->gaps[c->n_gaps++]));
    return LAM_OK;
}

/* Takes paths, each with a reason. */
static lam_status take_reasons(lmi_saved *s, const char *name, int32_t *n, const char *(**out)[2]) {
    const uint32_t list = lmi_saved_top(s, name);
    *out = lmi_saved_room(s, lmi_saved_size(s, list), sizeof **out);
    if (!*out) return lmi_nomem(s->e);
    LMI_JSON_EACH(&s->j, list, i) {
        const char *(*to)[2] = &(*out)[(*n)++];
        LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, i, "path"), &(*to)[0]));
        LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, i, "reason"), &(*to)[1]));
    }
    return LAM_OK;
}

static lam_status take_linear(const lmi_saved *s, uint32_t at, lam_growth *g, int m) {
    const uint32_t grows = lmi_saved_get(s, at, "grows");
    if (!lmi_saved_has(s, at)) return LAM_OK;
    for (int how = LAM_GROWS_UNKNOWN; how <= LAM_GROWS_OTHERWISE; how++)
        if (lmi_json_equals(&s->j, grows, lam_grows_name((lam_grows)how))) g->metric[m].how = (lam_grows)how;
    if (g->metric[m].how != LAM_GROWS_LINEAR) return LAM_OK;
    if (lmi_json_as_int(&s->j, lmi_saved_get(s, at, "each"), &g->metric[m].each) &&
        lmi_json_as_int(&s->j, lmi_saved_get(s, at, "fixed"), &g->metric[m].fixed))
        return LAM_OK;
    return lmi_saved_wrong(s, at, "is no linear growth: it lacks whole numbers");
}

static lam_status take_growth(lmi_saved *s) {
    lam_costs *c = &s->given.costs;
    const uint32_t list = lmi_saved_top(s, "per");
    c->growth = lmi_saved_room(s, lmi_saved_size(s, list), sizeof *c->growth);
    if (!c->growth) return lmi_nomem(s->e);
    LMI_JSON_EACH(&s->j, list, i) {
        lam_growth *g = &c->growth[c->n_growth++];
        LAM_TRY(lmi_saved_word(s, lmi_saved_get(s, i, "size"), &g->size));
        LAM_TRY(lmi_saved_int(s, lmi_saved_get(s, i, "value"), &g->value));
        for (int m = 0; m < LAM_N_METRICS; m++)
            LAM_TRY(take_linear(s, lmi_saved_get(s, i, lam_metric_name((lam_metric)m)), g, m));
    }
    return LAM_OK;
}

/* A convention that this lamina does not have counts what the totals have. */
static lam_status take_convention(lmi_saved *s) {
    lam_costs *c = &s->given.costs;
    const char *name, *source;
    LAM_TRY(lmi_saved_word(s, lmi_saved_top(s, "convention"), &name));
    LAM_TRY(lmi_saved_word(s, lmi_saved_top(s, "source"), &source));
    const int32_t known = lam_convention_find(name);
    c->with_own = known >= 0 ? *lmi_convention_at(known) : (lmi_convention){.name = name};
    c->with_own.source = source;
    c->convention = &c->with_own;
    if (known < 0 && lmi_saved_top(s, "operators")) c->with_own.op_rules = lmi_convention_at(0)->op_rules;
    for (int m = 0; m < LAM_N_METRICS; m++)
        c->has[m] = known >= 0 ? lmi_convention_tells(lmi_convention_at(known), (lam_metric)m)
                               : m <= LAM_FLOPS || c->total[m].state != LAM_UNKNOWN;
    return lmi_saved_truth(s, lmi_saved_top(s, "released"), &c->released);
}

lam_status lmi_saved_rows(lmi_saved *s) {
    lam_costs *c = &s->given.costs;
    const uint32_t totals = lmi_saved_top(s, "totals"), back = lmi_saved_get(s, totals, "backward");
    c->model = s->m;
    LAM_TRY(take_metrics(s, totals, c->total));
    LAM_TRY(take_metrics(s, back, c->ops.total[LAM_BACKWARD]));
    LAM_TRY(take_metrics(s, lmi_saved_get(s, totals, "recompute"), c->ops.total[LAM_RECOMPUTE]));
    memcpy(c->ops.total[LAM_FORWARD], c->total, sizeof c->total);
    c->ops.back = lmi_saved_has(s, back);
    LAM_TRY(take_owned(s, totals, &c->params));
    LAM_TRY(lmi_saved_count(s, lmi_saved_get(s, totals, "params_in_rows"), &c->params.in_rows));
    LAM_TRY(take_convention(s));
    LAM_TRY(take_rows(s));
    LAM_TRY(take_operators(s));
    LAM_TRY(take_unruled(s));
    LAM_TRY(take_gaps(s));
    LAM_TRY(take_growth(s));
    c->none_called = s->m->n_events == 0 && c->n_gaps > 0 && c->total[LAM_MACS].state == LAM_UNKNOWN;
    if (c->none_called && s->m->n_modules && lmi_is_inside(&s->m->modules[0])) s->m->described = c->gaps[0];
    LAM_TRY(take_reasons(s, "unused", &s->given.n_unused, &s->given.unused));
    s->m->ops_seen = s->m->traced = lmi_json_is(&s->j, lmi_saved_top(s, "unused")) == LMI_JSON_LIST;
    return take_reasons(s, "no_gradient", &s->given.n_no_gradient, &s->given.no_gradient);
}
