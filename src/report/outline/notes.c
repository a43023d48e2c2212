/* SPDX-License-Identifier: Apache-2.0
 *
 * What an outline says besides numbers: unused modules and those without gradients, reasons why numbers are
 * not exact, notes of the run. They are as in the JSON of a report. */
#include "report/outline/work.h"

typedef const char *(*unused_at)(const lam_graph *, int32_t, const char **);

static lam_status take_in_vain(lmi_outline *o, unused_at at, int32_t *n, const char *(**out)[2],
                               lam_error *e) {
    int32_t found = 0;
    const char *reason;
    while (at(o->graph, found, &reason)) found++;
    *out = lmi_alloc(&o->arena, (uint64_t)found, sizeof **out);
    if (!*out) return lmi_nomem(e);
    for (int32_t i = 0; i < found; i++) (*out)[i][0] = at(o->graph, i, &(*out)[i][1]);
    *n = found;
    return LAM_OK;
}

static lam_status take_graph(lmi_outline *o, const lam_costs *c, lam_error *e) {
    if (!lam_model_ops_seen(c->model) || !lam_model_traced(c->model)) return LAM_OK;
    LAM_TRY(lam_graph_new(&o->graph, c->model, e));
    if (!c->model->given && lam_graph_n_edges(o->graph) == 0)
        return LAM_OK; /* the sources of data are unknown */
    LAM_TRY(take_in_vain(o, lam_graph_unused, &o->n_unused, &o->unused, e));
    return take_in_vain(o, lam_graph_no_gradient, &o->n_no_gradient, &o->no_gradient, e);
}

static lam_status take_sentences(lmi_outline *o, const lam_costs *c, lam_error *e) {
    while (lam_costs_gap(c, o->n_gaps)) o->n_gaps++;
    o->n_notes = lam_model_n_notes(c->model);
    o->gap = lmi_alloc(&o->arena, (uint64_t)o->n_gaps, sizeof *o->gap);
    o->note = lmi_alloc(&o->arena, (uint64_t)o->n_notes, sizeof *o->note);
    if (!o->gap || !o->note) return lmi_nomem(e);
    for (int32_t i = 0; i < o->n_gaps; i++) o->gap[i] = lam_costs_gap(c, i);
    for (int32_t i = 0; i < o->n_notes; i++) o->note[i] = lam_model_note(c->model, i);
    return LAM_OK;
}

/* Takes a sentence on each size that the file leaves open and that totals depend on. */
static lam_status take_growth(lmi_outline *o, const lam_costs *c, lam_error *e) {
    const lam_growth *g;
    int32_t n = 0;
    lmi_buf text;
    while (lam_costs_growth(c, n)) n++;
    o->growth = lmi_alloc(&o->arena, (uint64_t)n, sizeof *o->growth);
    if (!o->growth) return lmi_nomem(e);
    lmi_buf_init(&text);
    for (int32_t i = 0; (g = lam_costs_growth(c, i)) != NULL; i++) {
        lmi_buf_clear(&text);
        for (int m = LAM_MACS; m <= LAM_FLOPS; m++) {
            lmi_buf one;
            lmi_buf_init(&one);
            if (lmi_put_per(&one, c, g, (lam_metric)m, false))
                lmi_putf(&text, "%s%s", text.n ? ", " : "", lmi_buf_text(&one));
            lmi_buf_used(&one, &text);
        }
        if (text.n) o->growth[o->n_growth++] = lmi_strdup(&o->arena, lmi_buf_text(&text));
    }
    lam_status s = lmi_buf_status(&text, e);
    lmi_buf_free(&text);
    for (int32_t i = 0; i < o->n_growth; i++)
        if (!o->growth[i]) return lmi_nomem(e);
    return s;
}

static lam_status take_provenance(lmi_outline *o, const lam_model *m, lam_error *e) {
    o->n_provenance = lam_model_n_provenance(m);
    o->provenance = lmi_alloc(&o->arena, (uint64_t)o->n_provenance, sizeof *o->provenance);
    if (!o->provenance) return lmi_nomem(e);
    for (int32_t i = 0; i < o->n_provenance; i++)
        o->provenance[i][1] = lam_model_provenance(m, i, &o->provenance[i][0]);
    return LAM_OK;
}

/* Takes the root's type, and the mode of its first call. */
static void take_root(const lmi_filling *w) {
    const lam_event *call = w->call[0];
    if (w->m->n_places > 0) w->o->type_path = w->m->modules[w->m->places[0].module].type_path;
    if (call) w->o->mode = call->flags & LAM_CALL_TRAINING ? "train" : "eval";
}

lam_status lmi_take_notes(lmi_filling *w) {
    lmi_outline *o = w->o;
    take_root(w);
    LAM_TRY(take_provenance(o, w->m, w->e));
    LAM_TRY(take_growth(o, w->c, w->e));
    LAM_TRY(take_graph(o, w->c, w->e));
    LAM_TRY(take_sentences(o, w->c, w->e));
    return lmi_leave_out_device(o, lam_model_device_memory_seen(w->m), lmi_has_device_times(w->c), w->e);
}
