/* SPDX-License-Identifier: Apache-2.0
 *
 * The costs of a model under a convention: sums, rows and the reasons for their numbers. */
#include "analyse/field/field.h"
#include "report/tell/tell.h"

#include <stdio.h>

enum { N_NUMBERS = LAM_N_METRICS + 2 /* bytes, intensity */, NAME = 40 };
typedef char number_names[N_NUMBERS][NAME];

/* -- metrics --------------------------------------------------------------------------------------------- */

static const char *name_of(number_names *names, int i) {
    if (names) return (*names)[i];
    return i < LAM_N_METRICS ? lam_metric_name((lam_metric)i) : i == LAM_N_METRICS ? "bytes" : "intensity";
}

static void name_numbers(number_names *names, const char *prefix) {
    for (int i = 0; i < N_NUMBERS; i++) snprintf((*names)[i], NAME, "%s%s", prefix, name_of(NULL, i));
}

/* `names` NULL: without a prefix. */
static void tell_numbers(lmi_teller *t, const lam_costs *c, number_names *names,
                         const lam_count metric[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++)
        if (!t->brief || i <= LAM_DMAS || lmi_has_metric(c, (lam_metric)i))
            lmi_tell_count(t, name_of(names, i), metric[i]);
    if (t->brief && !lmi_has_metric(c, LAM_BYTES_READ)) return;
    lmi_tell_count(t, name_of(names, LAM_N_METRICS), lam_metric_bytes(metric));
    tell_known_real(t, name_of(names, LAM_N_METRICS + 1), lam_metric_intensity(metric));
}

void lmi_metric_fields(lmi_teller *t, const lam_costs *c, const lam_count metric[LAM_N_METRICS]) {
    tell_numbers(t, c, NULL, metric);
}

/* -- receptive fields ------------------------------------------------------------------------------------ */

void lmi_tell_reach(lmi_teller *t, const char *name, const lam_cost_row *row, double v) {
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
void lmi_axes_fields(lmi_teller *t, const char *name, const lam_costs *c, int32_t row) {
    lam_rf_axis x;
    if (lam_costs_rf_axis(c, row, 0, &x, NULL) != LAM_OK) {
        tell_absent(t, name);
        return;
    }
    tell_list(t, name);
    for (int32_t i = 0; lam_costs_rf_axis(c, row, i, &x, NULL) == LAM_OK; i++)
        if (x.shown) tell_axis(t, &x);
    tell_list_end(t);
}

/* -- rows ---------------------------------------------------------------------------------------------- */

/* One level of fields, like the columns of a table. The JSON of a report nests them (formats/json.c). */

enum { N_SUMS = 6 };

static void tell_shapes(lmi_teller *t, const char *name, const lam_arg *args, int32_t n) {
    tell_tuple(t, name);
    for (int32_t i = 0; i < n; i++) lmi_tell_sizes(t, NULL, args[i].ndim, args[i].sizes);
    tell_list_end(t);
}

static void tell_dtypes(lmi_teller *t, const char *name, const lam_arg *args, int32_t n) {
    tell_tuple(t, name);
    for (int32_t i = 0; i < n; i++) tell_text(t, NULL, lam_dtype_name(args[i].dtype));
    tell_list_end(t);
}

static void tell_call(lmi_teller *t, const lam_event *ev) {
    static const lam_event never = {.parent = -1, .ordinal = -1};
    if (!ev) ev = &never;
    tell_int(t, "ordinal", ev->ordinal);
    tell_shapes(t, "in_shapes", ev->in, ev->n_in);
    tell_shapes(t, "out_shapes", ev->out, ev->n_out);
    tell_dtypes(t, "in_dtypes", ev->in, ev->n_in);
    tell_dtypes(t, "out_dtypes", ev->out, ev->n_out);
    tell_truth(t, "failed", ev->flags & LAM_CALL_FAILED);
    tell_known(t, "t0_ns", ev->t0_ns > 0 ? ev->t0_ns : -1); /* a dry run has no times */
    tell_known(t, "t1_ns", ev->t1_ns > 0 ? ev->t1_ns : -1);
}

static void tell_place(lmi_teller *t, const lam_model *m, const lam_cost_row *row) {
    tell_text(t, "path", m->places[row->place].path);
    tell_text(t, "name", m->places[row->place].name);
    tell_text(t, "type", m->modules[row->module].type);
    tell_text(t, "type_path", m->modules[row->module].type_path);
    tell_int(t, "event", row->event);
    tell_int(t, "place", row->place);
    tell_int(t, "module", row->module);
    tell_int(t, "depth", row->depth);
}

static void tell_own(lmi_teller *t, const lam_cost_row *row, const lam_module *mod) {
    const bool inside = row->never_called && lmi_is_inside(mod);
    lmi_tell_count(t, "params", row->params);
    lmi_tell_count(t, "grad_params", row->grad_params);
    lmi_tell_count(t, "nograd_params", row->nograd_params);
    lmi_tell_count(t, "param_bytes", row->param_bytes);
    lmi_tell_count(t, "logical_bytes", row->logical_bytes);
    lmi_tell_count(t, "local_params", row->local_params);
    lmi_tell_count(t, "local_bytes", row->local_bytes);
    lmi_tell_count(t, "buffers", row->buffers);
    lmi_tell_count(t, "buffer_bytes", row->buffer_bytes);
    lmi_tell_count(t, "packed", row->packed);
    lmi_tell_count(t, "packed_bytes", row->packed_bytes);
    lmi_tell_count(t, "total_params", row->total_params);
    lmi_tell_count(t, "running_stats", row->running_stats);
    tell_truth(t, "shared", row->shared);
    tell_truth(t, "leaf", row->leaf);
    tell_truth(t, "never_called", row->never_called && !inside);
    tell_truth(t, "inside", inside); /* of code that shows no calls */
    tell_truth(t, "counted", row->counted);
    lmi_tell_reach(t, "rf", row, row->rf);
    lmi_tell_reach(t, "rf_stride", row, row->rf_stride);
    lmi_tell_reach(t, "rf_padding", row, row->rf_padding);
    tell_truth(t, "rf_at_most", row->rf_at_most);
    tell_truth(t, "rf_whole", row->rf_whole);
    tell_text(t, "rule_kind", row->rule_kind);
    tell_text(t, "reason", row->reason);
}

static void tell_row(lmi_teller *t, const lam_costs *c, int32_t i, number_names names[N_SUMS]) {
    const lam_cost_row *row = lam_costs_row(c, i);
    const lam_count *const sums[N_SUMS] = {row->metric,         row->total,     row->backward,
                                           row->total_backward, row->recompute, row->total_recompute};
    tell_object(t, NULL);
    tell_place(t, c->model, row);
    tell_own(t, row, lam_model_module(c->model, row->module));
    for (int k = 0; k < N_SUMS; k++) tell_numbers(t, c, &names[k], sums[k]);
    tell_text(t, "rf_state", lam_state_name(row->rf_state));
    tell_call(t, lam_model_event(c->model, row->event));
    lmi_axes_fields(t, "rf_axes", c, i);
    lmi_time_fields(t, c, i);
    tell_end(t);
}

static void tell_rows(lmi_teller *t, const lam_costs *c) {
    static const char *const prefixes[N_SUMS] = {"",           "total_",
                                                 "backward_",  "total_backward_",
                                                 "recompute_", "total_recompute_"};
    number_names names[N_SUMS];
    for (int k = 0; k < N_SUMS; k++) name_numbers(&names[k], prefixes[k]);
    tell_list(t, NULL);
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++) tell_row(t, c, i, names);
    tell_list_end(t);
}

/* -- sums, and why they are not complete ----------------------------------------------------------------- */

static void tell_totals(lmi_teller *t, const lam_costs *c, lam_phase phase) {
    lam_count n[LAM_N_METRICS];
    for (int i = 0; i < LAM_N_METRICS; i++) n[i] = lam_costs_phase_total(c, phase, (lam_metric)i);
    tell_object(t, NULL);
    lmi_metric_fields(t, c, n);
    tell_end(t);
}

static void tell_params(lmi_teller *t, const lam_costs *c) {
    lam_param_totals p = lam_costs_params(c);
    tell_object(t, NULL);
    lmi_tell_count(t, "params", p.params);
    lmi_tell_count(t, "grad_params", p.grad_params);
    lmi_tell_count(t, "nograd_params", p.nograd_params);
    lmi_tell_count(t, "param_bytes", p.param_bytes);
    lmi_tell_count(t, "logical_bytes", p.logical_bytes);
    lmi_tell_count(t, "buffers", p.buffers);
    lmi_tell_count(t, "buffer_bytes", p.buffer_bytes);
    lmi_tell_count(t, "packed", p.packed);
    lmi_tell_count(t, "packed_bytes", p.packed_bytes);
    lmi_tell_count(t, "in_rows", p.in_rows);
    lmi_tell_count(t, "local_params", p.local_params);
    lmi_tell_count(t, "local_bytes", p.local_bytes);
    tell_end(t);
}

void lmi_unruled_fields(lmi_teller *t, const char *name, const lam_costs *c) {
    const char *type;
    int32_t calls;
    tell_list(t, name);
    for (int32_t i = 0; (type = lam_costs_unruled(c, i, &calls)) != NULL; i++) {
        tell_record(t, NULL);
        tell_text(t, "type", type);
        tell_int(t, "calls", calls);
        if (!t->brief) tell_text(t, "path", lam_costs_unruled_path(c, i));
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_unruled_ops_fields(lmi_teller *t, const char *name, const lam_costs *c) {
    const char *op;
    int32_t runs;
    tell_list(t, name);
    for (int32_t i = 0; (op = lam_costs_unruled_op(c, i, &runs)) != NULL; i++) {
        tell_record(t, NULL);
        tell_text(t, "name", op);
        tell_int(t, "runs", runs);
        tell_end(t);
    }
    tell_list_end(t);
}

void lmi_gaps_fields(lmi_teller *t, const char *name, const lam_costs *c) {
    const char *gap;
    tell_list(t, name);
    for (int32_t i = 0; (gap = lam_costs_gap(c, i)) != NULL; i++) tell_text(t, NULL, gap);
    tell_list_end(t);
}

/* -- why ------------------------------------------------------------------------------------------------- */

static void tell_why(lmi_teller *t, const lam_costs *c, int32_t row) {
    lam_why w;
    tell_list(t, NULL);
    for (int32_t i = 0; lam_costs_why(c, row, i, &w, NULL) == LAM_OK; i++) {
        tell_object(t, NULL);
        tell_text(t, "metric", lam_metric_name(w.metric));
        tell_text(t, "phase", lam_phase_name(w.phase));
        tell_text(t, "formula", w.formula);
        tell_text(t, "substituted", w.substituted);
        lmi_tell_count(t, "value", w.value);
        tell_text(t, "note", w.note);
        tell_text(t, "words", w.words);
        tell_text(t, "operator", w.op < 0 ? NULL : w.note);
        tell_int(t, "times", w.n_equal);
        tell_list(t, "facts");
        for (int32_t k = 0; k < w.n_facts; k++) {
            tell_record(t, NULL);
            tell_text(t, "name", w.facts[k].name);
            tell_int(t, "value", w.facts[k].value);
            tell_text(t, "meaning", w.facts[k].meaning);
            tell_end(t);
        }
        tell_list_end(t);
        tell_end(t);
    }
    tell_list_end(t);
}

static void tell_facts(lmi_teller *t, const lam_costs *c, int32_t row) {
    const char *name;
    int64_t value;
    tell_object(t, NULL);
    for (int32_t i = 0; lam_costs_fact(c, row, i, &name, &value); i++) tell_int(t, name, value);
    tell_end(t);
}

static lam_status tell_operator(lmi_teller *t, const lam_costs *c, int32_t op, lam_error *e) {
    lam_count n[LAM_N_METRICS];
    bool counted;
    LAM_TRY(lam_costs_op(c, op, n, &counted, e));
    tell_object(t, NULL);
    tell_truth(t, "counted", counted);
    lmi_metric_fields(t, c, n);
    tell_end(t);
    return LAM_OK;
}

/* -- all ------------------------------------------------------------------------------------------------- */

static lam_status check(const lam_costs *c, lam_costs_part part, int32_t i, lam_error *e) {
    int32_t n = lam_costs_n_rows(c);
    if (part == LAM_COSTS_TOTALS && (i < 0 || i >= LAM_N_PHASES))
        return lmi_fail(e, LAM_RANGE, NULL, "there is no phase %d; there are %d", (int)i, LAM_N_PHASES);
    if ((part == LAM_COSTS_WHY || part == LAM_COSTS_FACTS) && (i < 0 || i >= n))
        return lmi_fail(e, LAM_RANGE, NULL, "there is no row %d; there are %d", (int)i, (int)n);
    return part == LAM_COSTS_ROWS ? lmi_rf_need(c, e) : LAM_OK;
}

lam_status lam_costs_tell(lam_costs *c, lam_costs_part part, int32_t i, lam_receiver to, lam_error *e) {
    lmi_teller t = lmi_tell_to(to);
    if (part != LAM_COSTS_TOTALS && part != LAM_COSTS_OPERATOR) LAM_TRY(lam_costs_settle(c, e));
    LAM_TRY(check(c, part, i, e));
    switch (part) {
    case LAM_COSTS_ROWS: tell_rows(&t, c); break;
    case LAM_COSTS_TOTALS: tell_totals(&t, c, (lam_phase)i); break;
    case LAM_COSTS_PARAMS: tell_params(&t, c); break;
    case LAM_COSTS_UNRULED: lmi_unruled_fields(&t, NULL, c); break;
    case LAM_COSTS_UNRULED_OPS: lmi_unruled_ops_fields(&t, NULL, c); break;
    case LAM_COSTS_GAPS: lmi_gaps_fields(&t, NULL, c); break;
    case LAM_COSTS_TIMES: lmi_times_fields(&t, NULL, c); break;
    case LAM_COSTS_WHY: tell_why(&t, c, i); break;
    case LAM_COSTS_FACTS: tell_facts(&t, c, i); break;
    case LAM_COSTS_OPERATOR: return tell_operator(&t, c, i, e);
    }
    return LAM_OK;
}
