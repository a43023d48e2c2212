/* SPDX-License-Identifier: Apache-2.0
 *
 * The places that a report shows, and the numbers of each: sums over its rows, as its table adds them up. */
#include "report/outline/work.h"

/* -- places ---------------------------------------------------------------------------------------------- */

/* A place is shown if it has rows, or one below it has; the root always. */
static bool *shown_places(lmi_filling *w) {
    bool *shown = lmi_alloc(&w->scratch, (uint64_t)w->m->n_places, sizeof *shown);
    if (!shown) return NULL;
    if (w->m->n_places > 0) shown[0] = true;
    for (int32_t r = 0; r < w->c->n_rows; r++)
        for (int32_t i = w->c->rows[r].place; i >= 0 && !shown[i]; i = w->m->places[i].parent)
            shown[i] = true;
    return shown;
}

static bool arrays(lmi_filling *w, int32_t n) {
    w->at = lmi_alloc_unset(w->table ? &w->o->arena : &w->scratch, (uint64_t)n, sizeof *w->at);
    w->place = lmi_alloc_unset(&w->scratch, (uint64_t)n, sizeof *w->place);
    w->call = lmi_alloc(&w->scratch, (uint64_t)n, sizeof *w->call);
    w->n_places = w->m->n_places;
    w->of_place = lmi_alloc_unset(&w->scratch, (uint64_t)w->n_places, sizeof *w->of_place);
    bool ok = w->at && w->place && w->call && w->of_place;
    for (int k = 0; k < LMI_N_OWN && ok; k++) {
        if (w->table && k != LMI_OWN_CALLS) continue; /* it has the numbers of its lines */
        w->own[k] = lmi_alloc(&w->scratch, (uint64_t)n, sizeof *w->own[k]);
        w->state[k] = lmi_alloc(&w->scratch, (uint64_t)n, sizeof *w->state[k]);
        ok = w->own[k] && w->state[k];
    }
    return ok;
}

/* Makes the outline of a model without places: one empty place. */
static void no_places(lmi_filling *w) {
    w->o->name = "empty model";
    w->at[0] = lmi_outlined_new(0, -1, "", "");
    w->n = 1;
}

/* With room for `bias`, which lmi_module_attr may add. */
static bool add_attrs(lmi_filling *w, lmi_outline_place *at, int32_t module) {
    const int32_t most = w->m->modules[module].n_attrs + 1;
    lam_attr one, *to = NULL;
    for (int32_t i = 0; lmi_module_attr(w->m, module, i, &one); i++) {
        if (!to) to = lmi_alloc(&w->o->arena, (uint64_t)most, sizeof *to);
        if (!to) return false;
        to[i] = one;
        at->n_attrs = i + 1;
    }
    at->attrs = to;
    return true;
}

static const char *model_type(const lmi_filling *w, int32_t place) {
    return w->m->modules[w->m->places[place].module].type;
}

/* Siblings often have one type, at one address. */
static bool add_place(lmi_filling *w, int32_t place) {
    const lam_place *p = &w->m->places[place];
    int32_t i = w->n++;
    lmi_outline_place *at = &w->at[i];
    const char *type = model_type(w, place);
    const bool same = i > 0 && model_type(w, w->place[i - 1]) == type;
    *at = lmi_outlined_new(i, p->parent < 0 ? -1 : w->of_place[p->parent], p->name,
                           same ? w->at[i - 1].type : lmi_take_text(w, type));
    at->depth = p->depth;
    if (at->parent >= 0) w->at[at->parent].n_children++;
    w->place[i] = place;
    w->of_place[place] = i;
    return at->type && (w->table || add_attrs(w, at, p->module));
}

lam_status lmi_take_places(lmi_filling *w) {
    int32_t n = 0, places = w->m->n_places;
    bool *shown = shown_places(w);
    if (!shown) return lmi_nomem(w->e);
    for (int32_t i = 0; i < places; i++) n += shown[i];
    if (!arrays(w, n ? n : 1)) return lmi_nomem(w->e);
    if (n == 0) no_places(w);
    for (int32_t pos = 0; pos < places; pos++) {
        int32_t place = w->tree.order[pos];
        if (!shown[place])
            w->of_place[place] = -2 - lmi_place_for(w->of_place, w->m->places[place].parent);
        else if (!add_place(w, place))
            return lmi_nomem(w->e);
    }
    lmi_find_ends(w->at, w->n);
    if (places > 0) w->o->name = w->at[0].type;
    return LAM_OK;
}

/* -- numbers --------------------------------------------------------------------------------------------- */

static void add_metrics(lmi_filling *w, int32_t i, const lam_cost_row *r) {
    static const lam_metric of[] = {LAM_MACS, LAM_FLOPS, LAM_BYTES_READ, LAM_BYTES_WRITTEN};
    lmi_add_own(w, LMI_OWN_PARAMS, i, r->params);
    lmi_add_own(w, LMI_OWN_PARAM_BYTES, i, r->param_bytes);
    lmi_add_own(w, LMI_OWN_LOGICAL_BYTES, i, r->logical_bytes);
    lmi_add_own(w, LMI_OWN_LOCAL_BYTES, i, r->local_bytes);
    if (w->at[i].state == LMI_NOT_SEEN) return; /* what is around it has its work */
    for (int k = 0; k < 4; k++) {
        if (!lmi_has_metric(w->c, of[k])) continue;
        lmi_add_own(w, LMI_OWN_MACS + k, i, r->metric[of[k]]);
        if (!w->c->ops.back) continue;
        lmi_add_own(w, LMI_OWN_BACK_MACS + k, i, r->phases->backward[of[k]]);
        lmi_add_own(w, LMI_OWN_BACK_MACS + k, i, r->phases->recompute[of[k]]);
    }
}

static void add_times(lmi_filling *w, int32_t i, int32_t row, int32_t event, bool back) {
    lam_time t;
    if (event < 0 || !lmi_has_times(w->c)) return;
    if (!lam_costs_time(w->c, row, &t)) /* no timed run has this call */
        for (int p = 0; p < LAM_N_PHASES; p++) t.self[p] = t.total[p] = -1;
    lmi_add_own(w, LMI_OWN_TIME, i, lmi_count_of(t.self[LAM_FORWARD]));
    if (!lmi_inside_itself(w->m, &w->m->events[event]))
        lmi_add_own(w, LMI_OWN_TOTAL_TIME, i, lmi_count_of(t.total[LAM_FORWARD]));
    if (back)
        lmi_add_own(w, LMI_OWN_BACK_TIME, i,
                    lmi_count_of(lmi_add_time(t.self[LAM_BACKWARD], t.self[LAM_RECOMPUTE])));
}

/* A median of sums is not a sum of medians: a place that was called has a measured time, a container that was
 * not called has the sum of its children's. */
void lmi_sum_total_times(lmi_filling *w) {
    for (int32_t i = w->n - 1; i > 0; i--) {
        int32_t up = w->at[i].parent;
        if (w->own[LMI_OWN_CALLS][up] > 0) continue;
        lmi_add_own(w, LMI_OWN_TOTAL_TIME, up,
                    (lam_count){w->own[LMI_OWN_TOTAL_TIME][i], 0,
                                (lam_state)w->state[LMI_OWN_TOTAL_TIME][i]});
    }
}

lam_status lmi_take_numbers(lmi_filling *w) {
    bool back = lmi_has_backward_times(w->c);
    for (int32_t r = 0; r < w->c->n_rows; r++) {
        const lam_cost_row *row = &w->c->rows[r];
        int32_t i = w->of_place[row->place];
        lmi_outline_place *at = &w->at[i];
        if (row->event >= 0 && !w->call[i]) w->call[i] = lam_model_event(w->m, row->event);
        if (at->state == LMI_CONTAINER_ALONE || row->event >= 0)
            at->state = (uint8_t)lmi_row_state(&w->m->modules[row->module], row);
        w->own[LMI_OWN_CALLS][i] += row->event >= 0;
        if (w->table) continue;
        add_metrics(w, i, row);
        add_times(w, i, r, row->event, back);
    }
    if (lmi_has_times(w->c) && !w->table) lmi_sum_total_times(w);
    return LAM_OK;
}
