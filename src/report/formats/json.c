/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, schema lamina.report/1: the fields of docs/json.md, in that order. Fields may be added within a
 * schema number; none is removed or changes its meaning. Numbers are plain integers in SI base units; an
 * unknown number is null. Fields that other clients read too are in report/tell. */
#include "analyse/run/course.h"
#include "report/formats/formats.h"
#include "report/outline/outline.h"
#include "report/tell/tell.h"

static void tell_tensor(lmi_teller *t, const lam_arg *a) {
    tell_object(t, NULL);
    tell_text(t, "name", a->name);
    tell_known(t, "position", a->position);
    tell_text(t, "dtype", a->dtype < 0 ? NULL : lam_dtype_name(a->dtype));
    tell_text(t, "device", a->device < 0 ? NULL : lmi_device_name(a->device));
    lmi_tell_sizes(t, "shape", a->ndim, a->sizes);
    tell_end(t);
}

static void tell_tensors(lmi_teller *t, const char *name, const lam_arg *args, int32_t n) {
    tell_list(t, name);
    for (int32_t i = 0; i < n; i++) tell_tensor(t, &args[i]);
    tell_list_end(t);
}

/* Writes the other phases, if operators were watched and a backward pass ran. */
static void tell_phases(lmi_teller *t, const lam_costs *c, const lam_count backward[LAM_N_METRICS],
                        const lam_count recompute[LAM_N_METRICS]) {
    if (!c->ops.back) return;
    tell_object(t, "backward");
    lmi_metric_fields(t, c, backward);
    tell_end(t);
    tell_object(t, "recompute");
    lmi_metric_fields(t, c, recompute);
    tell_end(t);
}

/* What all rows tell or none does. */
typedef struct told_bytes {
    bool logical; /* parameters are stored in another size than their shapes and types give */
    bool spread;  /* parameters are spread over several processes */
} told_bytes;

static told_bytes told_of(const lmi_job *j) {
    const lam_param_totals p = lam_costs_params(j->c);
    return (told_bytes){lmi_has_logical(&p), lmi_is_spread(j->m)};
}

/* Writes the bytes of parameters by their shapes and types, and what this process holds of them. */
static void tell_bytes(lmi_teller *t, told_bytes told, lam_count logical, lam_count params, lam_count bytes) {
    if (told.logical) lmi_tell_count(t, "logical_bytes", logical);
    if (!told.spread) return;
    lmi_tell_count(t, "local_params", params);
    lmi_tell_count(t, "local_bytes", bytes);
}

/* Writes the weights packed for the machine, if there are any. */
static void tell_packed(lmi_teller *t, lam_count packed, lam_count bytes) {
    if (lmi_is_zero(packed)) return;
    lmi_tell_count(t, "packed", packed);
    lmi_tell_count(t, "packed_bytes", bytes);
}

/* -- rows ------------------------------------------------------------------------------------------------ */

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

static void tell_place(lmi_teller *t, const lam_model *m, const lmi_line *l, const lam_cost_row *r) {
    tell_text(t, "path", l->place->path);
    tell_text(t, "name", l->place->name);
    tell_text(t, "type", l->module->type);
    tell_text(t, "type_path", l->module->type_path);
    tell_attributes(t, m, r->module);
    tell_int(t, "depth", l->depth);
    tell_text(t, "status", lmi_line_status(l));
    tell_known(t, "call", l->event ? l->event->ordinal : -1);
    tell_truth(t, "leaf", r->leaf);
    tell_truth(t, "shared", r->shared);
    tell_ties(t, m, l->place);
    tell_tensors(t, "inputs", l->event ? l->event->in : NULL, l->event ? l->event->n_in : 0);
    tell_tensors(t, "outputs", l->event ? l->event->out : NULL, l->event ? l->event->n_out : 0);
}

static void tell_costs(lmi_teller *t, const lam_costs *c, const lam_cost_row *r, told_bytes told) {
    lmi_tell_count(t, "params", r->params);
    lmi_tell_count(t, "trainable", r->grad_params);
    lmi_tell_count(t, "frozen", r->nograd_params);
    lmi_tell_count(t, "param_bytes", r->param_bytes);
    tell_bytes(t, told, r->logical_bytes, r->local_params, r->local_bytes);
    lmi_tell_count(t, "buffers", r->buffers);
    lmi_tell_count(t, "buffer_bytes", r->buffer_bytes);
    tell_packed(t, r->packed, r->packed_bytes);
    lmi_metric_fields(t, c, r->metric);
    tell_phases(t, c, r->backward, r->recompute);
    tell_object(t, "subtotal");
    lmi_tell_count(t, "params", r->total_params);
    lmi_metric_fields(t, c, r->total);
    tell_phases(t, c, r->total_backward, r->total_recompute);
    tell_end(t);
}

static void tell_health(lmi_teller *t, const lmi_job *j, int32_t call) {
    if (!j->health) return;
    if (call < 0) {
        tell_none(t, "health");
        return;
    }
    tell_object(t, "health");
    lmi_health_call_fields(t, j->health, call);
    tell_end(t);
}

/* Computed once for all rows. */
typedef struct of_rows {
    told_bytes told;
    bool measured; /* times or memory */
    lmi_vec spans; /* of the backward, if `measured` */
} of_rows;

static void put_row(const lmi_job *j, lmi_buf *b, int32_t i, const of_rows *all) {
    const lam_cost_row *r = lam_costs_row(j->c, i);
    lmi_teller json = lmi_tell_json(b), *t = &json;
    lmi_line l;
    lmi_line_of_row(j, i, &l);
    tell_object(t, NULL);
    tell_place(t, j->m, &l, r);
    tell_costs(t, j->c, r, all->told);
    lmi_tell_reach(t, "receptive_field", r, r->rf);
    lmi_tell_reach(t, "rf_stride", r, r->rf_stride);
    lmi_tell_reach(t, "rf_padding", r, r->rf_padding);
    lmi_axes_fields(t, "receptive_fields", j->c, i);
    if (lmi_has_times(j->c)) lmi_time_fields(t, j->c, i);
    if (all->measured) lmi_span_fields(t, j->m, &all->spans, r->event);
    tell_health(t, j, r->event);
    if (j->memory) lmi_memory_call_fields(t, "memory", j->memory, r->event);
    if (j->device_memory) lmi_memory_call_fields(t, "device_memory", j->device_memory, r->event);
    tell_text(t, "rule", r->rule_kind);
    tell_text(t, "reason", r->reason);
    tell_end(t);
}

/* -- the rest: a line each ------------------------------------------------------------------------------- */

static void end_line(lmi_teller *t) {
    if (t->any) PUT(t->json, ",\n");
    t->any = false;
}

static lam_status put_rows(lmi_job *j, lmi_teller *t) {
    of_rows all = {.told = told_of(j), .measured = j->memory || lmi_has_times(j->c)};
    lam_status s = all.measured ? lmi_backward_spans(j->m, &all.spans, j->e) : LAM_OK;
    tell_list(t, "rows");
    for (int32_t i = 0; s == LAM_OK && i < lam_costs_n_rows(j->c); i++) {
        lmi_put(&j->out, i ? ",\n" : "\n");
        put_row(j, &j->out, i, &all);
        s = lmi_job_flush(j);
    }
    lmi_vec_free(&all.spans);
    tell_list_end(t);
    end_line(t);
    return s;
}

static void put_head(const lmi_job *j, lmi_teller *t) {
    const lam_place *root = lam_model_place(j->m, 0);
    const lam_module *mod = root ? lam_model_module(j->m, root->module) : NULL;
    PUT(t->json, "{\n");
    lmi_put_head(t->json, "report", 1, ",\n");
    t->any = true;
    end_line(t);
    tell_text(t, "convention", j->c->convention->name);
    end_line(t);
    tell_text(t, "source", j->c->convention->source);
    end_line(t);
    tell_truth(t, "released", j->c->released);
    end_line(t);
    tell_object(t, "model");
    tell_text(t, "type", mod ? mod->type : NULL);
    tell_text(t, "type_path", mod ? mod->type_path : NULL);
    tell_int(t, "modules", lam_model_n_modules(j->m));
    tell_int(t, "places", lam_model_n_places(j->m));
    tell_int(t, "calls", lam_model_n_events(j->m));
    tell_end(t);
    end_line(t);
    if (lam_model_n_provenance(j->m) > 0) lmi_provenance_fields(t, "provenance", j->m);
    end_line(t);
}

static void put_totals(const lmi_job *j, lmi_teller *t) {
    lam_param_totals p = lam_costs_params(j->c);
    lam_count metric[LAM_N_METRICS], backward[LAM_N_METRICS], recompute[LAM_N_METRICS];
    for (int m = 0; m < LAM_N_METRICS; m++) {
        metric[m] = lmi_total(j->c, (lam_metric)m);
        backward[m] = lam_costs_phase_total(j->c, LAM_BACKWARD, (lam_metric)m);
        recompute[m] = lam_costs_phase_total(j->c, LAM_RECOMPUTE, (lam_metric)m);
    }
    tell_object(t, "totals");
    lmi_metric_fields(t, j->c, metric);
    tell_phases(t, j->c, backward, recompute);
    lmi_tell_count(t, "params", p.params);
    lmi_tell_count(t, "trainable", p.grad_params);
    lmi_tell_count(t, "frozen", p.nograd_params);
    lmi_tell_count(t, "param_bytes", p.param_bytes);
    tell_bytes(t, told_of(j), p.logical_bytes, p.local_params, p.local_bytes);
    lmi_tell_count(t, "buffers", p.buffers);
    lmi_tell_count(t, "buffer_bytes", p.buffer_bytes);
    tell_packed(t, p.packed, p.packed_bytes);
    lmi_tell_count(t, "params_in_rows", p.in_rows);
    tell_end(t);
    end_line(t);
}

static void put_measured(const lmi_job *j, lmi_teller *t) {
    const lam_peak roof = j->o->peak.flops > 0 ? lam_costs_peak(j->c, j->o->peak) : j->o->peak;
    if (lmi_has_times(j->c)) lmi_times_fields(t, "time", j->c);
    end_line(t);
    if (roof.flops > 0 && roof.bytes > 0) {
        tell_object(t, "roof");
        tell_real(t, "flops", roof.flops);
        tell_real(t, "bytes", roof.bytes);
        tell_end(t);
        end_line(t);
    }
    if (j->health) lmi_health_fields(t, "health", j->health);
    end_line(t);
    if (j->memory) lmi_memory_fields(t, "memory", j->memory);
    end_line(t);
    if (j->device_memory) lmi_memory_fields(t, "device_memory", j->device_memory);
    end_line(t);
}

static void put_operators(const lmi_job *j, lmi_teller *t) {
    const lmi_op_costs *o = &j->c->ops;
    if (!lmi_by_ops(j->c)) return;
    tell_object(t, "operators");
    tell_int(t, "ran", lam_model_n_ops(j->m));
    tell_int(t, "counted", (int64_t)o->ran[LAM_FORWARD] + o->ran[LAM_BACKWARD] + o->ran[LAM_RECOMPUTE]);
    tell_int(t, "known", o->known);
    lmi_unruled_ops_fields(t, "unruled", j->c);
    tell_end(t);
    end_line(t);
}

/* Writes the findings of the data-flow graph, if operators were watched. */
static lam_status put_graph(const lmi_job *j, lmi_teller *t) {
    lam_graph *g = NULL;
    if (!lam_model_ops_seen(j->m) || !lam_model_traced(j->m)) return LAM_OK;
    LAM_TRY(lam_graph_new(&g, j->m, j->e));
    if (lam_graph_n_edges(g) > 0) { /* otherwise the sources of data are unknown */
        lmi_unused_fields(t, g);
        end_line(t);
        lmi_no_gradient_fields(t, g);
        end_line(t);
    }
    lam_graph_free(g);
    return LAM_OK;
}

static void put_lists(const lmi_job *j, lmi_teller *t) {
    const char *made;
    lmi_unruled_fields(t, "unruled", j->c);
    end_line(t);
    lmi_gaps_fields(t, "gaps", j->c);
    end_line(t);
    if (lam_model_made(j->m, 0)) {
        tell_list(t, "made_up");
        for (int32_t i = 0; (made = lam_model_made(j->m, i)) != NULL; i++) tell_text(t, NULL, made);
        tell_list_end(t);
        end_line(t);
    }
    lmi_notes_fields(t, "notes", j->m);
    PUT(t->json, "\n}\n");
}

/* Writes what a page shows in addition to the rows. */
static lam_status put_outlined(lmi_job *j, lmi_teller *t, const lmi_outline *o) {
    if (!j->o->page) return LAM_OK;
    lmi_tree_fields(t, o, j->m);
    end_line(t);
    LAM_TRY(lmi_at_work_fields(t, o, j->e));
    end_line(t);
    LAM_TRY(lmi_levels_fields(t, o, j->e));
    end_line(t);
    LAM_TRY(lmi_formulas_fields(t, o, j->e));
    end_line(t);
    lmi_left_out_fields(t, o);
    end_line(t);
    return lmi_job_flush(j);
}

static lam_status put_all(lmi_job *j, const lmi_outline *o) {
    lmi_teller t = lmi_tell_json(&j->out);
    put_head(j, &t);
    put_totals(j, &t);
    put_measured(j, &t);
    put_operators(j, &t);
    LAM_TRY(put_rows(j, &t));
    LAM_TRY(put_graph(j, &t));
    LAM_TRY(put_outlined(j, &t, o));
    put_lists(j, &t);
    return LAM_OK;
}

lam_status lmi_json(lmi_job *j) {
    const lmi_outline_options most = {.levels = true, .formulas = true, .course = true};
    lmi_outline o = {0};
    lam_status s = j->o->page ? lmi_outline_new(&o, j->c, &most, j->e) : LAM_OK;
    if (s == LAM_OK) s = put_all(j, &o);
    lmi_outline_free(&o);
    return s;
}
