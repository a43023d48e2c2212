/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a row, in the order of JSON. Python and CSV have them under other names, without objects in
 * objects (flat.c). */
#include "analyse/field/field.h"
#include "report/tell/tell.h"

void lmi_rows_of(lmi_rows *r, const lam_costs *c) {
    const lam_param_totals p = lam_costs_params(c);
    *r = (lmi_rows){.c = c};
    r->has[LMI_ROW_ALWAYS] = true;
    r->has[LMI_ROW_LOGICAL] = lmi_has_logical(&p);
    r->has[LMI_ROW_SPREAD] = lmi_is_spread(c->model);
    r->has[LMI_ROW_OPERATORS] = lmi_by_ops(c);
    r->has[LMI_ROW_TIMED] = lmi_has_times(c);
    r->has[LMI_ROW_DEVICE_TIMED] = lmi_has_device_times(c);
}

void lmi_rows_measured(lmi_rows *r, const lmi_job *j) {
    r->memory = j->memory;
    r->device_memory = j->device_memory;
    r->health = j->health;
    r->has[LMI_ROW_MEMORY_SEEN] = j->memory != NULL;
    r->has[LMI_ROW_DEVICE_SEEN] = j->device_memory != NULL;
    r->has[LMI_ROW_HEALTH] = j->health != NULL;
}

/* One of them, or the whole. */
typedef struct told_row {
    const lmi_rows *of;
    const lam_model *m;
    const lam_cost_row *row;
    const lam_place *place;
    const lam_module *module;
    const lam_event *event; /* NULL: no call */
    int32_t index;          /* -1: the whole */
} told_row;

/* -- metrics --------------------------------------------------------------------------------------------- */

void lmi_metric_fields(lmi_teller *t, const lam_costs *c, const lam_count metric[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++)
        if (!t->brief || i <= LAM_DMAS || lmi_has_metric(c, (lam_metric)i))
            lmi_tell_count(t, lam_metric_name((lam_metric)i), metric[i]);
    if (t->brief && !lmi_has_metric(c, LAM_BYTES_READ)) return;
    lmi_tell_count(t, "bytes", lam_metric_bytes(metric));
    tell_known_real(t, "intensity", lam_metric_intensity(metric));
}

void lmi_phase_fields(lmi_teller *t, const lam_costs *c, const lam_count backward[LAM_N_METRICS],
                      const lam_count recompute[LAM_N_METRICS]) {
    if (t->brief && !c->ops.back) return;
    tell_object(t, "backward");
    lmi_metric_fields(t, c, backward);
    tell_end(t);
    tell_object(t, "recompute");
    lmi_metric_fields(t, c, recompute);
    tell_end(t);
}

void lmi_owned_fields(lmi_teller *t, const lmi_rows *r, const lam_param_totals *owned) {
    bool has[LMI_N_ROW_PARTS];
    memcpy(has, r->has, sizeof has);
    has[LMI_ROW_PACKED] = !lmi_is_zero(owned->packed);
#define OWNED(member, name, when, otherwise, csv, form)                                                      \
    if (!t->brief || has[LMI_ROW_##when]) lmi_tell_count(t, name, owned->member);
#include "report/numbers/row.def"
}

/* -- what it is ------------------------------------------------------------------------------------------ */

static void tell_tensor(lmi_teller *t, const lam_arg *a) {
    tell_object(t, NULL);
    tell_text(t, "name", a->name);
    tell_known(t, "position", a->position);
    tell_text(t, "dtype", t->brief && a->dtype < 0 ? NULL : lam_dtype_name(a->dtype));
    tell_text(t, "device", a->device < 0 ? NULL : lmi_device_name(a->device));
    lmi_tell_sizes(t, "shape", a->ndim, a->sizes);
    tell_end(t);
}

static void tell_tensors(lmi_teller *t, const char *name, const lam_arg *args, int32_t n) {
    tell_list(t, name);
    for (int32_t i = 0; i < n; i++) tell_tensor(t, &args[i]);
    tell_list_end(t);
}

static void tell_attributes(lmi_teller *t, const lam_model *m, int32_t module) {
    lam_attr a;
    tell_object(t, "attributes");
    for (int32_t i = 0; lmi_module_attr(m, module, i, &a); i++) lmi_tell_value(t, a.name, &a.value);
    tell_end(t);
}

/* Tells which tensors of the row's module an earlier module owns, or of which place the module is. */
static void tell_ties(lmi_teller *t, const lam_model *m, const lam_place *p) {
    const lam_module *mod = &m->modules[p->module];
    bool any = false;
    if (mod->n_places > 1 && mod->places[0] != (int32_t)(p - m->places)) {
        tell_text(t, "same_module", m->places[mod->places[0]].path);
        return;
    }
    for (int32_t i = 0; i < mod->n_owned; i++) {
        const int32_t tensor = mod->owned[i].tensor, by = m->tensors[tensor].owner;
        if (by < 0 || by == p->module || !m->modules[by].n_places) continue;
        if (!any) tell_list(t, "tied");
        any = true;
        tell_object(t, NULL);
        tell_text(t, "name", mod->owned[i].name);
        tell_text(t, "owner", m->places[m->modules[by].places[0]].path);
        tell_text(t, "owner_name", lmi_name_in(&m->modules[by], tensor));
        tell_end(t);
    }
    if (any) tell_list_end(t);
}

static const char *status_of(const told_row *r) {
    return r->index < 0 ? "total" : lmi_state_names[lmi_row_state(r->module, r->row)];
}

static void tell_place(lmi_teller *t, const told_row *r) {
    const lam_event *ev = r->event;
    tell_text(t, "path", r->place->path);
    tell_text(t, "name", r->place->name);
    tell_text(t, "type", r->module->type);
    tell_text(t, "type_path", r->module->type_path);
    if (t->brief) tell_attributes(t, r->m, r->row->module);
    tell_int(t, "depth", r->row->depth);
    tell_text(t, "status", status_of(r));
    tell_known(t, "call", ev ? ev->ordinal : -1);
    tell_truth(t, "leaf", r->row->leaf);
    tell_truth(t, "shared", r->row->shared);
    if (t->brief) tell_ties(t, r->m, r->place);
    tell_tensors(t, "inputs", ev ? ev->in : NULL, ev ? ev->n_in : 0);
    tell_tensors(t, "outputs", ev ? ev->out : NULL, ev ? ev->n_out : 0);
}

/* Of the capture, for those who read it too; a file of it has no use for them. */
static void tell_capture(lmi_teller *t, const told_row *r) {
    static const lam_event never = {.ordinal = -1};
    const lam_event *ev = r->event ? r->event : &never;
    const bool inside = r->row->never_called && lmi_is_inside(r->module);
    tell_int(t, "event", r->row->event);
    tell_int(t, "place", r->row->place);
    tell_int(t, "module", r->row->module);
    tell_int(t, "ordinal", ev->ordinal);
    tell_truth(t, "never_called", r->row->never_called && !inside);
    tell_truth(t, "inside", inside); /* of code that shows no calls */
    tell_truth(t, "counted", r->row->counted);
    tell_truth(t, "failed", ev->flags & LAM_CALL_FAILED);
    tell_known(t, "t0_ns", ev->t0_ns > 0 ? ev->t0_ns : -1); /* a dry run has no times */
    tell_known(t, "t1_ns", ev->t1_ns > 0 ? ev->t1_ns : -1);
    lmi_tell_count(t, "running_stats", r->row->running_stats);
}

/* -- what it costs --------------------------------------------------------------------------------------- */

static void tell_costs(lmi_teller *t, const told_row *r) {
    const lam_costs *c = r->of->c;
    const lam_cost_row *row = r->row;
    const lam_param_totals owned = lmi_row_owned(row);
    lmi_owned_fields(t, r->of, &owned);
    lmi_metric_fields(t, c, row->metric);
    lmi_phase_fields(t, c, row->phases->backward, row->phases->recompute);
    tell_object(t, "subtotal");
    lmi_tell_count(t, "params", row->below->params);
    lmi_metric_fields(t, c, row->below->total);
    lmi_phase_fields(t, c, row->phases->total_backward, row->phases->total_recompute);
    tell_end(t);
}

/* -- receptive fields ------------------------------------------------------------------------------------ */

/* None where the field is unknown. */
static void tell_reach(lmi_teller *t, const char *name, const lam_cost_row *row, double v) {
    if (row->event < 0 || row->rf_state == LAM_UNKNOWN)
        tell_none(t, name);
    else
        tell_real(t, name, v);
}

static void tell_axis(lmi_teller *t, const lam_rf_axis *x) {
    static const char *const reaches[] = {"nothing", "window", "whole", "part", "unknown"};
    tell_object(t, NULL);
    tell_int(t, "input", x->input);
    tell_int(t, "axis", x->axis);
    tell_int(t, "out_axis", x->out_axis);
    tell_int(t, "positions", x->positions);
    tell_text(t, "reach", reaches[x->reach]);
    tell_int(t, "size", x->size);
    tell_int(t, "narrow", x->narrow);
    lmi_tell_pair(t, "jump", x->jump[0], x->jump[1]);
    lmi_tell_pair(t, "start", x->start[0], x->start[1]);
    lmi_tell_pair(t, "end", x->end[0], x->end[1]);
    tell_truth(t, "paths", x->paths);
    tell_truth(t, "at_most", x->at_most);
    tell_text(t, "state", lam_state_name(x->state));
    tell_text(t, "why", x->why);
    tell_end(t);
}

/* Lists the axes of the row's columns; nothing if no graph has the row. */
static void tell_axes(lmi_teller *t, const told_row *r) {
    lam_rf_axis x;
    if (r->index < 0 || lam_costs_rf_axis(r->of->c, r->index, 0, &x, NULL) != LAM_OK) {
        tell_absent(t, "receptive_fields");
        return;
    }
    tell_list(t, "receptive_fields");
    for (int32_t i = 0; lam_costs_rf_axis(r->of->c, r->index, i, &x, NULL) == LAM_OK; i++)
        if (x.shown) tell_axis(t, &x);
    tell_list_end(t);
}

static void tell_field(lmi_teller *t, const told_row *r) {
    tell_reach(t, "receptive_field", r->row, r->row->rf);
    tell_reach(t, "rf_stride", r->row, r->row->rf_stride);
    tell_reach(t, "rf_padding", r->row, r->row->rf_padding);
    if (!t->brief) {
        tell_text(t, "rf_state", lam_state_name(r->row->rf_state));
        tell_truth(t, "rf_at_most", r->row->rf_at_most);
        tell_truth(t, "rf_whole", r->row->rf_whole);
    }
    tell_axes(t, r);
}

/* -- what was measured ----------------------------------------------------------------------------------- */

static void tell_health(lmi_teller *t, const lam_health *h, const told_row *r) {
    const int32_t call = r->row->event;
    if (!h) return;
    const bool weights = lmi_of_weights(r->m);
    if (call < 0 && !weights) {
        tell_none(t, "health");
        return;
    }
    tell_object(t, "health");
    if (weights)
        lmi_health_place_fields(t, h, r->row->place);
    else
        lmi_health_call_fields(t, h, call);
    tell_end(t);
}

static void tell_measured(lmi_teller *t, const told_row *r) {
    const lmi_rows *of = r->of;
    const int32_t call = r->row->event;
    if (of->has[LMI_ROW_TIMED] || !t->brief) lmi_time_fields(t, of->c, r->index);
    if (of->spans) lmi_span_fields(t, r->m, of->spans, call);
    tell_health(t, of->health, r);
    if (of->memory) lmi_memory_call_fields(t, "memory", of->memory, call);
    if (of->device_memory) lmi_memory_call_fields(t, "device_memory", of->device_memory, call);
}

/* -- a row ----------------------------------------------------------------------------------------------- */

static void tell_row(lmi_teller *t, const told_row *r) {
    tell_object(t, NULL);
    tell_place(t, r);
    if (!t->brief) tell_capture(t, r);
    tell_costs(t, r);
    tell_field(t, r);
    tell_measured(t, r);
    tell_text(t, "rule", r->row->rule_kind);
    tell_text(t, "reason", r->row->reason);
    tell_end(t);
}

/* What is the sum of several rows in no row is unknown. */
static void sum_up(const lam_costs *c, lam_cost_row *whole, lam_row_below *below, lam_row_phases *back) {
    const lam_param_totals owned = lam_costs_params(c);
    *whole = (lam_cost_row){
        .event = -1, .rf_state = LAM_UNKNOWN, .metric = below->total, .below = below, .phases = back};
    *below = (lam_row_below){.params = owned.params};
    lmi_row_own(whole, &owned);
    for (int i = 0; i < LAM_N_METRICS; i++) {
        const lam_metric m = (lam_metric)i;
        below->total[i] = lmi_total(c, m);
        back->backward[i] = back->total_backward[i] = lam_costs_phase_total(c, LAM_BACKWARD, m);
        back->recompute[i] = back->total_recompute[i] = lam_costs_phase_total(c, LAM_RECOMPUTE, m);
    }
}

void lmi_row_fields(lmi_teller *t, const lmi_rows *rows, int32_t i) {
    static const lam_place nowhere = {.name = "", .path = "total"};
    static const lam_module nothing = {.type = ""};
    const lam_model *m = rows->c->model;
    lam_cost_row whole;
    lam_row_below below;
    lam_row_phases back;
    told_row r = {.of = rows, .m = m, .row = &whole, .place = &nowhere, .module = &nothing, .index = -1};
    if (i < 0) {
        sum_up(rows->c, &whole, &below, &back);
    } else {
        r.index = i;
        r.row = lam_costs_row(rows->c, i);
        r.place = lam_model_place(m, r.row->place);
        r.module = lam_model_module(m, r.row->module);
        r.event = lam_model_event(m, r.row->event);
    }
    tell_row(t, &r);
}
