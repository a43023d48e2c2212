/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, schema lamina.report/1: the fields of docs/json.md, in that order. Fields may be added within a
 * schema number; none is removed or changes its meaning. Numbers are plain integers in SI base units; an
 * unknown number is null. Fields that other clients read too are in report/tell. */
#include "analyse/run/course.h"
#include "report/formats/formats.h"
#include "report/outline/outline.h"
#include "report/tell/tell.h"

/* -- the rest: a line each ------------------------------------------------------------------------------- */

static void end_line(lmi_teller *t) {
    if (t->any) PUT(t->json, ",\n");
    t->any = false;
}

static lam_status put_rows(lmi_job *j, lmi_teller *t, lmi_rows *rows) {
    lmi_vec spans = {0};
    lam_status s = LAM_OK;
    if (j->memory || rows->has[LMI_ROW_TIMED]) {
        rows->spans = &spans;
        s = lmi_backward_spans(j->m, &spans, j->e);
    }
    tell_list(t, "rows");
    for (int32_t i = 0; s == LAM_OK && i < lam_costs_n_rows(j->c); i++) {
        lmi_teller row = lmi_tell_json(&j->out);
        lmi_put(&j->out, i ? ",\n" : "\n");
        lmi_row_fields(&row, rows, i);
        s = lmi_job_flush(j);
    }
    rows->spans = NULL;
    lmi_vec_free(&spans);
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

static void put_totals(const lmi_job *j, lmi_teller *t, const lmi_rows *rows) {
    lam_param_totals p = lam_costs_params(j->c);
    lam_count metric[LAM_N_METRICS], backward[LAM_N_METRICS], recompute[LAM_N_METRICS];
    for (int m = 0; m < LAM_N_METRICS; m++) {
        metric[m] = lmi_total(j->c, (lam_metric)m);
        backward[m] = lam_costs_phase_total(j->c, LAM_BACKWARD, (lam_metric)m);
        recompute[m] = lam_costs_phase_total(j->c, LAM_RECOMPUTE, (lam_metric)m);
    }
    tell_object(t, "totals");
    lmi_metric_fields(t, j->c, metric);
    lmi_phase_fields(t, j->c, backward, recompute);
    lmi_owned_fields(t, rows, &p);
    lmi_tell_count(t, "params_in_rows", p.in_rows);
    tell_end(t);
    end_line(t);
}

/* Writes how the totals grow with the sizes that a file leaves open. */
static void put_growth(const lmi_job *j, lmi_teller *t) {
    if (lam_costs_growth(j->c, 0)) lmi_growth_fields(t, "per", j->c);
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
    if (lam_model_input_origin(j->m, 0)) {
        tell_list(t, "made_up");
        for (int32_t i = 0; (made = lam_model_input_origin(j->m, i)) != NULL; i++) tell_text(t, NULL, made);
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
    lmi_rows rows;
    lmi_rows_of(&rows, j->c);
    lmi_rows_measured(&rows, j);
    put_head(j, &t);
    put_totals(j, &t, &rows);
    put_growth(j, &t);
    put_measured(j, &t);
    put_operators(j, &t);
    LAM_TRY(put_rows(j, &t, &rows));
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
