/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, schema lamina.report/1: the fields of docs/json.md, in that order. Fields may be added within a
 * schema number; none is removed or changes its meaning. Numbers are plain integers in SI base units; an
 * unknown number is null. */
#include "report/formats/formats.h"
#include "report/table/quick.h"

static void put_count(lmi_buf *b, lam_count c) {
    if (c.state == LAM_EXACT && c.over == 0) {
        PUT(b, "{\"value\": ");
        quick_int(b, c.n);
        PUT(b, ", \"state\": \"exact\"}");
        return;
    }
    PUT(b, "{\"value\": ");
    if (c.state == LAM_UNKNOWN)
        PUT(b, "null");
    else
        lmi_put_plain(b, c);
    PUT(b, ", \"state\": ");
    quick_text(b, lam_state_name(c.state));
    PUT(b, "}");
}

QUICK void field_count(lmi_buf *b, const char *name, lam_count c, bool last) {
    quick_name(b, name);
    put_count(b, c);
    if (!last) PUT(b, ", ");
}

QUICK void field_text(lmi_buf *b, const char *name, const char *s) {
    quick_name(b, name);
    quick_text(b, s);
    PUT(b, ", ");
}

QUICK void field_int(lmi_buf *b, const char *name, int64_t v) {
    quick_name(b, name);
    quick_int(b, v);
    PUT(b, ", ");
}

QUICK void field_bool(lmi_buf *b, const char *name, bool v) {
    quick_name(b, name);
    quick_put(b, v ? "true, " : "false, ", v ? 6 : 7);
}

QUICK void field_real(lmi_buf *b, const char *name, double v, lam_state state) {
    quick_name(b, name);
    if (state == LAM_UNKNOWN || v - v != 0)
        PUT(b, "null");
    else if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v)
        quick_int(b, (int64_t)v);
    else
        lmi_put_real(b, v);
    PUT(b, ", ");
}

static void put_tensor(lmi_buf *b, const lam_arg *a) {
    PUT(b, "{");
    field_text(b, "name", a->name);
    if (a->position >= 0)
        field_int(b, "position", a->position);
    else
        PUT(b, "\"position\": null, ");
    field_text(b, "dtype", a->dtype < 0 ? NULL : lam_dtype_name(a->dtype));
    field_text(b, "device", a->device < 0 ? NULL : lmi_device_name(a->device));
    if (a->ndim < 0) {
        PUT(b, "\"shape\": null}");
        return;
    }
    PUT(b, "\"shape\": [");
    for (int32_t i = 0; i < a->ndim; i++) {
        if (i) PUT(b, ", ");
        quick_int(b, a->sizes[i]);
    }
    PUT(b, "]}");
}

static void put_tensors(lmi_buf *b, const char *name, const lam_arg *args, int32_t n) {
    quick_name(b, name);
    PUT(b, "[");
    for (int32_t i = 0; i < n; i++) {
        if (i) PUT(b, ", ");
        put_tensor(b, &args[i]);
    }
    PUT(b, "], ");
}

static void put_metrics(const lmi_job *j, lmi_buf *b, const lam_count metric[LAM_N_METRICS], bool last) {
    bool bytes = lmi_has_metric(j->c, LAM_BYTES_READ);
    for (int m = 0; m < LAM_N_METRICS; m++) {
        if (m > LAM_DMAS && !lmi_has_metric(j->c, (lam_metric)m)) continue;
        if (m) PUT(b, ", ");
        field_count(b, lam_metric_name((lam_metric)m), metric[m], true);
    }
    if (bytes) {
        double intensity = lam_metric_intensity(metric);
        PUT(b, ", ");
        field_count(b, "bytes", lam_metric_bytes(metric), false);
        PUT(b, "\"intensity\": ");
        if (intensity < 0)
            PUT(b, "null");
        else
            lmi_put_real(b, intensity);
    }
    if (!last) PUT(b, ", ");
}

/* The other phases, if operators were watched. */
static void put_phases(const lmi_job *j, lmi_buf *b, const lam_count backward[LAM_N_METRICS],
                       const lam_count recompute[LAM_N_METRICS], const char *end) {
    if (!lmi_by_ops(j->c)) return;
    PUT(b, "\"backward\": {");
    put_metrics(j, b, backward, true);
    PUT(b, "}, \"recompute\": {");
    put_metrics(j, b, recompute, true);
    PUT(b, "}");
    lmi_put(b, end);
}

/* The part of this process, if parameters are sharded over several. */
static void put_local(bool spread, lmi_buf *b, lam_count params, lam_count bytes) {
    if (!spread) return;
    field_count(b, "local_params", params, false);
    field_count(b, "local_bytes", bytes, false);
}

/* Weights packed for the machine, if there are any. */
static void put_packed(lmi_buf *b, lam_count packed, lam_count bytes) {
    if (packed.state == LAM_EXACT && packed.n == 0 && packed.over == 0) return;
    field_count(b, "packed", packed, false);
    field_count(b, "packed_bytes", bytes, false);
}

static void put_fraction(lmi_buf *b, const char *name, const int64_t f[2]) {
    lmi_putf(b, "\"%s\": [%lld, %lld], ", name, (long long)f[0], (long long)f[1]);
}

static void put_axis(lmi_buf *b, const lam_rf_axis *x) {
    static const char *const reaches[] = {"nothing", "window", "whole", "part", "unknown"};
    PUT(b, "{");
    field_int(b, "input", x->input);
    field_int(b, "axis", x->axis);
    field_int(b, "out_axis", x->out_axis);
    field_int(b, "positions", x->positions);
    field_text(b, "reach", reaches[x->reach]);
    field_int(b, "size", x->size);
    field_int(b, "narrow", x->narrow);
    put_fraction(b, "jump", x->jump);
    put_fraction(b, "start", x->start);
    put_fraction(b, "end", x->end);
    field_bool(b, "paths", x->paths);
    field_bool(b, "at_most", x->at_most);
    lmi_putf(b, "\"state\": \"%s\", \"why\": ", lam_state_name(x->state));
    quick_text(b, x->why);
    PUT(b, "}");
}

/* The axes of the row's columns, if there is a graph for the row. */
static void put_axes(const lmi_job *j, lmi_buf *b, int32_t row) {
    lam_rf_axis x;
    bool any = false;
    if (lam_costs_rf_axis(j->c, row, 0, &x, NULL) != LAM_OK) return;
    PUT(b, "\"receptive_fields\": [");
    for (int32_t i = 0; lam_costs_rf_axis(j->c, row, i, &x, NULL) == LAM_OK; i++) {
        if (!x.shown) continue;
        if (any) PUT(b, ", ");
        put_axis(b, &x);
        any = true;
    }
    PUT(b, "], ");
}

QUICK void put_ns(lmi_buf *b, const char *name, int64_t ns, const char *end) {
    quick_name(b, name);
    if (ns < 0)
        PUT(b, "null");
    else
        quick_int(b, ns);
    quick_put(b, end, strlen(end));
}

QUICK void put_phase_times(lmi_buf *b, const lam_time *t) {
    static const char *const phases[LAM_N_PHASES] = {"forward", "backward", "recompute"};
    for (int p = 0; p < LAM_N_PHASES; p++) {
        if (p) PUT(b, ", ");
        quick_name(b, phases[p]);
        PUT(b, "{");
        put_ns(b, "total", t->total[p], ", ");
        put_ns(b, "self", t->self[p], "}");
    }
}

/* Nanoseconds, if times were measured. */
static void put_time(const lmi_job *j, lmi_buf *b, int32_t row) {
    lam_time t;
    if (!lmi_has_times(j->c)) return;
    if (!lam_costs_time(j->c, row, &t)) {
        PUT(b, "\"time\": null, ");
        return;
    }
    PUT(b, "\"time\": {");
    put_phase_times(b, &t);
    if (lam_costs_device_time(j->c, row, &t)) {
        PUT(b, ", \"device\": {");
        put_phase_times(b, &t);
        PUT(b, "}");
    }
    PUT(b, "}, ");
}

static void put_spread(lmi_buf *b, const lam_spread *s) {
    lmi_putf(b, "{\"n\": %d, ", (int)s->n);
    put_ns(b, "median", s->median, ", ");
    put_ns(b, "deviation", s->deviation, ", ");
    put_ns(b, "least", s->least, ", ");
    put_ns(b, "most", s->most, ", ");
    lmi_putf(b, "\"most_run\": %d}", (int)s->most_run);
}

static void put_outliers(const lmi_job *j, const lam_times *t, lmi_buf *b) {
    lam_outlier o;
    PUT(b, "\"outliers\": [");
    for (int32_t i = 0; lam_times_outlier(t, i, &o); i++) {
        lmi_putf(b, "%s{\"run\": %d, ", i ? ", " : "", (int)o.run);
        put_ns(b, "whole", o.whole, ", ");
        put_ns(b, "median", o.median, ", ");
        put_ns(b, "late", o.late, ", \"path\": ");
        quick_text(b, o.place < 0 ? NULL : lam_model_place(j->m, o.place)->path);
        PUT(b, "}");
    }
    PUT(b, "]");
}

/* The parts of all runs. */
static void put_parts(const lmi_job *j, const lam_times *t, lmi_buf *b) {
    static const char *const parts[LAM_N_TIME_PARTS] = {"forward", "backward", "recompute",
                                                        "engine",  "outside",  "whole"};
    lam_spread s;
    for (int p = 0; p < LAM_N_TIME_PARTS; p++) {
        lmi_putf(b, "\"%s\": ", parts[p]);
        if (lam_times_part(t, (lam_time_part)p, &s))
            put_spread(b, &s);
        else
            PUT(b, "null");
        PUT(b, ", ");
    }
    put_outliers(j, t, b);
}

static void put_times(const lmi_job *j, lmi_buf *b) {
    if (!lmi_has_times(j->c)) return;
    PUT(b, "\"time\": {");
    field_int(b, "runs", lam_times_n_runs(lam_costs_times(j->c)));
    put_parts(j, lam_costs_times(j->c), b);
    if (lmi_has_device_times(j->c)) {
        PUT(b, ", \"device\": {");
        put_parts(j, lam_costs_device_times(j->c), b);
        PUT(b, "}");
    }
    PUT(b, "},\n");
}

/* `spread`: lmi_is_spread, which reads every tensor. */
static void put_row(const lmi_job *j, lmi_buf *b, int32_t i, bool spread) {
    const lam_cost_row *r = lam_costs_row(j->c, i);
    lmi_line l;
    lmi_line_of_row(j, i, &l);
    PUT(b, "{");
    field_text(b, "path", l.place->path);
    field_text(b, "name", l.place->name);
    field_text(b, "type", l.module->type);
    field_text(b, "type_path", l.module->type_path);
    field_int(b, "depth", l.depth);
    field_text(b, "status", lmi_line_status(&l));
    if (l.event)
        field_int(b, "call", l.event->ordinal);
    else
        PUT(b, "\"call\": null, ");
    field_bool(b, "leaf", r->leaf);
    field_bool(b, "shared", r->shared);
    put_tensors(b, "inputs", l.event ? l.event->in : NULL, l.event ? l.event->n_in : 0);
    put_tensors(b, "outputs", l.event ? l.event->out : NULL, l.event ? l.event->n_out : 0);
    field_count(b, "params", r->params, false);
    field_count(b, "trainable", r->grad_params, false);
    field_count(b, "frozen", r->nograd_params, false);
    field_count(b, "param_bytes", r->param_bytes, false);
    put_local(spread, b, r->local_params, r->local_bytes);
    field_count(b, "buffers", r->buffers, false);
    field_count(b, "buffer_bytes", r->buffer_bytes, false);
    put_packed(b, r->packed, r->packed_bytes);
    put_metrics(j, b, r->metric, false);
    put_phases(j, b, r->backward, r->recompute, ", ");
    PUT(b, "\"subtotal\": {");
    field_count(b, "params", r->total_params, false);
    put_metrics(j, b, r->total, !lmi_by_ops(j->c));
    put_phases(j, b, r->total_backward, r->total_recompute, "");
    PUT(b, "}, ");
    field_real(b, "receptive_field", r->rf, r->event < 0 ? LAM_UNKNOWN : r->rf_state);
    field_real(b, "rf_stride", r->rf_stride, r->event < 0 ? LAM_UNKNOWN : r->rf_state);
    field_real(b, "rf_padding", r->rf_padding, r->event < 0 ? LAM_UNKNOWN : r->rf_state);
    put_axes(j, b, i);
    put_time(j, b, i);
    lmi_json_row_health(j, b, l.event);
    lmi_memory_json_row(j, b, r->event);
    lmi_device_memory_json_row(j, b, r->event);
    field_text(b, "rule", r->rule_kind);
    PUT(b, "\"reason\": ");
    quick_text(b, r->reason);
    PUT(b, "}");
}

static void put_head(const lmi_job *j, lmi_buf *b) {
    const lam_place *root = lam_model_place(j->m, 0);
    const lam_module *mod = root ? lam_model_module(j->m, root->module) : NULL;
    PUT(b, "{\n\"schema\": \"lamina.report/1\",\n\"schema_version\": 1,\n\"version\": ");
    quick_text(b, lam_version());
    PUT(b, ",\n\"convention\": ");
    quick_text(b, j->c->convention->name);
    PUT(b, ",\n\"source\": ");
    quick_text(b, j->c->convention->source);
    lmi_putf(b, ",\n\"released\": %s,\n\"model\": {", j->c->released ? "true" : "false");
    field_text(b, "type", mod ? mod->type : NULL);
    field_text(b, "type_path", mod ? mod->type_path : NULL);
    field_int(b, "modules", lam_model_n_modules(j->m));
    field_int(b, "places", lam_model_n_places(j->m));
    lmi_putf(b, "\"calls\": %d},\n", (int)lam_model_n_events(j->m));
}

static void put_totals(const lmi_job *j, lmi_buf *b) {
    lam_param_totals p = lam_costs_params(j->c);
    lam_count metric[LAM_N_METRICS], backward[LAM_N_METRICS], recompute[LAM_N_METRICS];
    for (int m = 0; m < LAM_N_METRICS; m++) {
        metric[m] = lmi_total(j->c, (lam_metric)m);
        backward[m] = lam_costs_phase_total(j->c, LAM_BACKWARD, (lam_metric)m);
        recompute[m] = lam_costs_phase_total(j->c, LAM_RECOMPUTE, (lam_metric)m);
    }
    PUT(b, "\"totals\": {");
    put_metrics(j, b, metric, false);
    put_phases(j, b, backward, recompute, ", ");
    field_count(b, "params", p.params, false);
    field_count(b, "trainable", p.grad_params, false);
    field_count(b, "frozen", p.nograd_params, false);
    field_count(b, "param_bytes", p.param_bytes, false);
    put_local(lmi_is_spread(j->m), b, p.local_params, p.local_bytes);
    field_count(b, "buffers", p.buffers, false);
    field_count(b, "buffer_bytes", p.buffer_bytes, false);
    put_packed(b, p.packed, p.packed_bytes);
    field_count(b, "params_in_rows", p.in_rows, true);
    PUT(b, "},\n");
}

static lam_status put_rows(lmi_job *j) {
    bool spread = lmi_is_spread(j->m);
    lmi_put(&j->out, "\"rows\": [");
    for (int32_t i = 0; i < lam_costs_n_rows(j->c); i++) {
        lmi_put(&j->out, i ? ",\n" : "\n");
        put_row(j, &j->out, i, spread);
        LAM_TRY(lmi_job_flush(j));
    }
    lmi_put(&j->out, "],\n");
    return LAM_OK;
}

static void put_operators(const lmi_job *j, lmi_buf *b) {
    const lmi_op_costs *o = &j->c->ops;
    const char *s;
    int32_t runs;
    if (!lmi_by_ops(j->c)) return;
    PUT(b, "\"operators\": {");
    field_int(b, "ran", lam_model_n_ops(j->m));
    field_int(b, "counted", (int64_t)o->ran[LAM_FORWARD] + o->ran[LAM_BACKWARD] + o->ran[LAM_RECOMPUTE]);
    field_int(b, "known", o->known);
    PUT(b, "\"unruled\": [");
    for (int32_t i = 0; (s = lam_costs_unruled_op(j->c, i, &runs)) != NULL; i++) {
        lmi_put(b, i ? ", {\"name\": " : "{\"name\": ");
        quick_text(b, s);
        lmi_putf(b, ", \"runs\": %d}", (int)runs);
    }
    PUT(b, "]},\n");
}

static void put_lists(const lmi_job *j, lmi_buf *b) {
    const char *s;
    int32_t calls;
    PUT(b, "\"unruled\": [");
    for (int32_t i = 0; (s = lam_costs_unruled(j->c, i, &calls)) != NULL; i++) {
        lmi_put(b, i ? ", {\"type\": " : "{\"type\": ");
        quick_text(b, s);
        lmi_putf(b, ", \"calls\": %d}", (int)calls);
    }
    PUT(b, "],\n\"gaps\": [");
    for (int32_t i = 0; (s = lam_costs_gap(j->c, i)) != NULL; i++) {
        if (i) PUT(b, ", ");
        quick_text(b, s);
    }
    PUT(b, "],\n");
    if (lam_model_made(j->m, 0)) PUT(b, "\"made_up\": [");
    for (int32_t i = 0; (s = lam_model_made(j->m, i)) != NULL; i++) {
        if (i) PUT(b, ", ");
        quick_text(b, s);
    }
    if (lam_model_made(j->m, 0)) PUT(b, "],\n");
    PUT(b, "\"notes\": [");
    for (int32_t i = 0; i < lam_model_n_notes(j->m); i++) {
        if (i) PUT(b, ", ");
        quick_text(b, lam_model_note(j->m, i));
    }
    PUT(b, "]\n}\n");
}

static void put_finding(lmi_buf *b, bool first, const char *path, const char *reason) {
    lmi_put(b, first ? "{\"path\": " : ", {\"path\": ");
    quick_text(b, path);
    PUT(b, ", \"reason\": ");
    quick_text(b, reason);
    PUT(b, "}");
}

/* The results of the data-flow graph, if operators were watched. */
static lam_status put_graph(lmi_job *j) {
    lmi_buf *b = &j->out;
    lam_graph *g = NULL;
    const char *path, *reason;
    if (!lam_model_ops_seen(j->m)) return LAM_OK;
    if (!lam_model_traced(j->m)) return LAM_OK;
    LAM_TRY(lam_graph_new(&g, j->m, j->e));
    if (lam_graph_n_edges(g) == 0) { /* the sources of data are unknown */
        lam_graph_free(g);
        return LAM_OK;
    }
    PUT(b, "\"unused\": [");
    for (int32_t i = 0; (path = lam_graph_unused(g, i, &reason)) != NULL; i++)
        put_finding(b, i == 0, path, reason);
    PUT(b, "],\n\"no_gradient\": [");
    for (int32_t i = 0; (path = lam_graph_no_gradient(g, i, &reason)) != NULL; i++)
        put_finding(b, i == 0, path, reason);
    PUT(b, "],\n");
    lam_graph_free(g);
    return LAM_OK;
}

lam_status lmi_json(lmi_job *j) {
    put_head(j, &j->out);
    put_totals(j, &j->out);
    put_times(j, &j->out);
    lmi_json_health(j);
    lmi_memory_json(j, &j->out);
    lmi_device_memory_json(j, &j->out);
    put_operators(j, &j->out);
    LAM_TRY(put_rows(j));
    LAM_TRY(put_graph(j));
    put_lists(j, &j->out);
    return LAM_OK;
}
