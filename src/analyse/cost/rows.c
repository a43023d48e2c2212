/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls become rows, under which place and in which order. */
#include "analyse/cost/work.h"

#include <stdlib.h>

/* -- rows of the released tool ----------------------------------------------------------------- */

/* Finds every place that is not the first of its module under its parent: a module with two names in one
 * parent was registered once. */
static lam_status repeated_siblings(lmi_work *w, bool **out, lam_error *e) {
    const lam_model *m = w->m;
    bool *twin = lmi_alloc(&w->scratch, (uint64_t)m->n_places, sizeof *twin);
    int32_t *stamp = lmi_alloc(&w->scratch, (uint64_t)m->n_modules, sizeof *stamp);
    if (!twin || !stamp) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_places; i++) {
        const lam_place *p = &m->places[i];
        for (int32_t k = 0; k < p->n_children; k++) {
            int32_t child = p->children[k], mod = m->places[child].module;
            twin[child] = stamp[mod] == i + 1;
            stamp[mod] = i + 1;
        }
    }
    *out = twin;
    return LAM_OK;
}

/* Places are pushed after their parents, so one pass forward finds the places below a layer with a rule. */
lam_status lmi_added_places(lmi_work *w, lam_error *e) {
    const lam_model *m = w->m;
    bool *twin, *below;
    if (w->cv->repeated != LMI_PLACES) return LAM_OK;
    below = lmi_alloc(&w->scratch, (uint64_t)m->n_places, sizeof *below);
    w->added = lmi_alloc(&w->scratch, (uint64_t)m->n_modules, sizeof *w->added);
    if (!below || !w->added) return lmi_nomem(e);
    LAM_TRY(repeated_siblings(w, &twin, e));
    for (int32_t i = 0; i < m->n_places; i++) {
        const lam_place *p = &m->places[i];
        bool ruled = p->parent >= 0 && lmi_rule_for(w->cv, &m->modules[m->places[p->parent].module]);
        below[i] = twin[i] || ruled || (p->parent >= 0 && below[p->parent]);
        if (!below[i]) w->added[p->module]++;
    }
    return LAM_OK;
}

/* The place that the k-th call of a module is shown under, k counting up with every event of the module;
 * -1 when it was called more often than it has places. */
static int32_t next_place(const lam_module *mod, const bool *twin, int32_t *cursor) {
    while (*cursor < mod->n_places && twin[mod->places[*cursor]]) (*cursor)++;
    return *cursor < mod->n_places ? mod->places[(*cursor)++] : -1;
}

static int32_t released_place(const lmi_work *w, const lam_event *ev, const bool *twin, int32_t *cursor) {
    const lam_module *mod = &w->m->modules[ev->module];
    switch (w->cv->repeated) {
    case LMI_KTH_PLACE: return next_place(mod, twin, &cursor[ev->module]);
    case LMI_LAST: return ev->ordinal == mod->n_calls - 1 ? mod->places[0] : -1;
    default: return ev->place;
    }
}

static bool is_row(const lmi_work *w, int32_t event) {
    const lmi_call_cost *p = &w->c->prices[event];
    if (p->omit) return false;
    return w->cv->which != LMI_RULED || p->counted;
}

static lam_status released_items(lmi_work *w, lmi_item *items, int32_t *n, lam_error *e) {
    bool *twin;
    int32_t *cursor = lmi_alloc(&w->scratch, (uint64_t)w->m->n_modules, sizeof *cursor);
    if (!cursor) return lmi_nomem(e);
    LAM_TRY(repeated_siblings(w, &twin, e));
    for (int32_t i = 0; i < w->m->n_events; i++) {
        int32_t place = released_place(w, &w->m->events[i], twin, cursor);
        if (place >= 0 && is_row(w, i)) items[(*n)++] = (lmi_item){i, place, w->tree.pre[place], false};
    }
    return LAM_OK;
}

/* -- calls, and places that were never called -------------------------------------------------- */

static void put_spares(const lmi_work *w, const lmi_spare *s, int32_t place, lmi_item *items, int32_t *n) {
    for (; place >= 0; place = s->next[place])
        items[(*n)++] = (lmi_item){-1, place, w->tree.pre[place], false};
}

static void all_items(const lmi_work *w, const lmi_spare *s, lmi_item *items, int32_t *n) {
    if (w->m->n_events == 0 && w->m->n_places > 0 && s->shown[0]) put_spares(w, s, 0, items, n);
    for (int32_t i = 0; i < w->m->n_events; i++) {
        int32_t place = w->m->events[i].place;
        put_spares(w, s, s->before[i], items, n);
        items[(*n)++] = (lmi_item){i, place, w->tree.pre[place], false};
        put_spares(w, s, s->after[i], items, n);
    }
}

/* -- rows -------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const lmi_item *x = a, *y = b;
    if (x->pre != y->pre) return x->pre < y->pre ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

static void fill_row(const lmi_work *w, const lmi_item *it, lam_cost_row *row) {
    const lam_place *p = &w->m->places[it->place];
    const lam_module *mod = &w->m->modules[p->module];
    *row = (lam_cost_row){.event = it->event,
                          .place = it->place,
                          .module = p->module,
                          .depth = p->depth,
                          .leaf = mod->flags & LAM_MODULE_LEAF,
                          .rf = 1,
                          .rf_stride = 1,
                          .rf_state = LAM_UNKNOWN,
                          .metric = w->c->uncalled[LMI_ROW_NOTHING],
                          .phases = &w->c->no_phases,
                          .below = &w->c->no_below};
    if (it->outside && w->by_call) {
        row->counted = true;
        row->metric = w->c->uncalled[LMI_ROW_OUTSIDE];
        return;
    }
    if (it->event < 0) {
        row->never_called = !w->tree.live[it->place] && !(lmi_plain_holder(mod) && p->n_children == 0);
        const bool inside = lmi_is_inside(mod) && row->never_called && !w->c->released;
        if (w->m->n_events > 0 && !lmi_only_elsewhere(mod) && !inside) return;
        row->metric = w->c->uncalled[LMI_ROW_UNKNOWN];
        return;
    }
    const lmi_call_cost *price = &w->c->prices[it->event];
    row->counted = price->counted;
    row->rule_kind = price->rule ? lmi_rule_name(price->rule) : NULL;
    row->metric = price->metric;
}

static void fill_unknown(lam_costs *c) {
    lam_row_below *none = &c->no_below;
    lmi_unknown_phases(&c->no_phases);
    lmi_set_unknown(none->total);
    none->params = none->param_bytes = none->logical_bytes = none->local_bytes = lmi_unknown();
}

static void fill_uncalled(const lmi_work *w) {
    const lam_count *outside = w->by_call ? w->by_call[w->m->n_events].n[LAM_FORWARD] : NULL;
    lam_count(*to)[LAM_N_METRICS] = w->c->uncalled;
    lmi_no_opinion(w->c, to[LMI_ROW_NOTHING]);
    lmi_set_unknown(to[LMI_ROW_UNKNOWN]);
    for (int i = 0; i < LAM_N_METRICS && outside; i++) to[LMI_ROW_OUTSIDE][i] = lmi_settled(outside[i]);
}

/* Operators that ran outside every call are shown at the root, so that the rows add up to the total. */
static bool works_outside(const lmi_work *w) {
    return w->by_call && w->by_call[w->m->n_events].any && w->m->n_places > 0;
}

static void add_to_total(lam_costs *c, const lam_count n[LAM_N_METRICS]) {
    for (int k = 0; k < LAM_N_METRICS; k++) c->total[k] = lmi_count_add(c->total[k], n[k]);
}

/* True if another thread did some of the model's work and no call of this thread covers it. */
static bool works_elsewhere(const lam_model *m) {
    for (int32_t i = 0; i < m->n_modules; i++)
        if (lmi_only_elsewhere(&m->modules[i])) return true;
    return false;
}

/* If no layer of the model was called, nothing is no number of it. */
static void forget_nothing(lam_costs *c) {
    for (int k = 0; k < LAM_N_METRICS; k++) {
        if (!lmi_is_zero(c->total[k])) continue;
        c->total[k] = lmi_unknown();
        c->none_called = true;
    }
}

/* Sums the calls, each of which has a row; in the released form, the rows that the tool chose. */
void lmi_find_total(lmi_work *w) {
    lam_costs *c = w->c;
    int32_t n = c->released ? c->n_rows : w->m->n_events;
    for (int32_t i = 0; i < n; i++) add_to_total(c, c->released ? c->rows[i].metric : c->prices[i].metric);
    if (!c->released && works_outside(w)) add_to_total(c, w->by_call[w->m->n_events].n[LAM_FORWARD]);
    for (int k = 0; k < LAM_N_METRICS; k++) c->total[k] = lmi_settled(c->total[k]);
    if (n == 0 && (c->released || !works_outside(w))) lmi_no_opinion(c, c->total);
    bool elsewhere = !c->released && works_elsewhere(w->m);
    for (int k = 0; elsewhere && k < LAM_N_METRICS; k++)
        c->total[k] = lmi_settled((lam_count){c->total[k].n, c->total[k].over, LAM_AT_LEAST});
    /* Without a place there is no row for operators outside every call. */
    if (lmi_by_ops(c) && w->m->n_places == 0) memcpy(c->total, c->ops.total[LAM_FORWARD], sizeof c->total);
    if (!c->released && !elsewhere && w->m->n_events == 0) forget_nothing(c);
}

lam_status lmi_rows(lmi_work *w, lam_error *e) {
    lam_costs *c = w->c;
    lmi_spare spare = {0};
    int32_t n = 0;
    if (!c->released) LAM_TRY(lmi_spare_find(w, &spare, e));
    lmi_item *items =
        lmi_alloc_unset(&w->scratch, (uint64_t)w->m->n_events + (uint64_t)spare.n + 1, sizeof *items);
    if (!items) return lmi_nomem(e);
    if (c->released)
        LAM_TRY(released_items(w, items, &n, e));
    else
        all_items(w, &spare, items, &n);
    if (works_outside(w)) items[n++] = (lmi_item){-1, 0, 0, true};
    if (w->cv->order == LMI_ORDER_TREE) qsort(items, (size_t)n, sizeof *items, by_place);
    c->rows = lmi_alloc_unset(&c->arena, (uint64_t)n, sizeof *c->rows);
    if (!c->rows) return lmi_nomem(e);
    c->n_rows = n;
    fill_uncalled(w);
    fill_unknown(c);
    for (int32_t i = 0; i < n; i++) fill_row(w, &items[i], &c->rows[i]);
    return lmi_ops_rows(w, e);
}
