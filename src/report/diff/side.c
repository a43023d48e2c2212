/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of each side: of a model or a saved report from its outline, of a recording from its steps. */
#include "report/diff/diff.h"

#include "report/saved/saved.h"

#include <string.h>

lmi_figure lmi_diff_find(const char *name) {
    int k = 0;
    while (k < LMI_N_FIGURES && strcmp(lmi_figures[k].name, name) != 0) k++;
    return (lmi_figure)k;
}

const char *lam_diff_metric(int32_t i) {
    for (int k = 0; i >= 0 && k < LMI_N_FIGURES; k++)
        if (lmi_figures[k].part[0] != LMI_OWN_NO && i-- == 0) return lmi_figures[k].name;
    return NULL;
}

/* -- opening --------------------------------------------------------------------------------------------- */

lam_status lmi_diff_open(lmi_diff_side *s, const lam_diff_side *from, lam_error *e) {
    *s = (lmi_diff_side){.o = {.peak_place = -1, .backward_us = -1}, .model = -1, .ran = from->ran};
    if (!from->costs && !from->file)
        return lmi_fail(e, LAM_USAGE, "lam_diff_side", "it has neither costs nor a file");
    const bool ran = from->costs && !lam_model_file(lam_costs_model(from->costs));
    s->kind = ran ? "model" : from->costs ? "report" : lam_recording_is(from->file) ? "recording" : "report";
    if (from->costs || !lam_recording_is(from->file)) return LAM_OK;
    return lam_recording_open(&s->recording, from->file, from->run, 0, e);
}

lam_status lmi_diff_take(lmi_diff_side *s, const lam_diff_side *from, lam_error *e) {
    static const lmi_outline_options tree_alone = {0};
    if (s->recording)
        LAM_TRY(lmi_recorded_outline(s, e));
    else if (from->costs)
        LAM_TRY(lmi_outline_new(&s->o, from->costs, &tree_alone, e));
    else
        LAM_TRY(lmi_saved_outline(&s->o, from->file, &tree_alone, e));
    const char *target = lmi_outline_provenance(&s->o, "target");
    const char *file = from->costs ? lam_model_file(lam_costs_model(from->costs)) : from->file;
    s->name = from->name ? from->name : file ? file : target ? target : s->o.name;
    return LAM_OK;
}

void lmi_diff_close(lmi_diff_side *s) {
    lmi_outline_free(&s->o);
    lam_recording_free(s->recording);
}

/* -- numbers --------------------------------------------------------------------------------------------- */

const lam_recorded_model *lmi_diff_recorded(const lmi_diff_side *s) {
    return s->recording && s->model >= 0 ? lam_recording_model(s->recording, s->model) : NULL;
}

static lam_count of_middle(lam_middle m) { return m.n ? lmi_exact(m.median) : lmi_unknown(); }

static lam_middle middle_of(const lmi_diff_side *s, lmi_figure k) {
    const lam_recorded_model *m = lmi_diff_recorded(s);
    switch (k) {
    case LMI_FIGURE_TIME: return s->device ? m->device_forward_ns : m->forward_ns;
    case LMI_FIGURE_BACK_TIME: return s->device ? m->device_backward_ns : m->backward_ns;
    case LMI_FIGURE_STEP: return m->step_ns;
    case LMI_FIGURE_PEAK: return s->device ? m->device_peak_bytes : m->peak_bytes;
    default: return (lam_middle){0};
    }
}

static lam_count whole_of_recording(const lmi_diff_side *s, lmi_figure k) {
    const lam_recorded_model *m = lmi_diff_recorded(s);
    switch (k) {
    case LMI_FIGURE_PARAMS: return lmi_count_of(m->params);
    case LMI_FIGURE_PARAM_BYTES: return lmi_count_of(m->param_bytes);
    case LMI_FIGURE_LOGICAL_BYTES: return lmi_count_of(m->logical_bytes);
    case LMI_FIGURE_LOCAL_BYTES: return lmi_count_of(m->local_bytes);
    case LMI_FIGURE_NONFINITE: return lmi_count_of(m->nonfinite);
    default: return of_middle(middle_of(s, k));
    }
}

lam_count lmi_diff_whole(const lmi_diff_side *s, lmi_figure k) {
    if (lmi_figures[k].adds_up) return lmi_diff_has(s, k) ? lmi_figure_sum(&s->o, k) : lmi_unknown();
    return lmi_diff_recorded(s) ? whole_of_recording(s, k) : lmi_figure_whole(&s->o, k);
}

int64_t lmi_diff_whole_spread(const lmi_diff_side *s, lmi_figure k) {
    const lam_spread *time = s->o.time;
    lam_middle m = lmi_diff_recorded(s) ? middle_of(s, k) : (lam_middle){0};
    if (m.n) return m.deviation;
    if (lmi_diff_recorded(s) || !s->o.timed) return -1;
    if (k == LMI_FIGURE_TIME) return time[LAM_TIME_FORWARD].deviation;
    return k == LMI_FIGURE_BACK_TIME ? time[LAM_TIME_BACKWARD].deviation : -1;
}

bool lmi_diff_has_whole(const lmi_diff_side *s, lmi_figure k) {
    return lmi_diff_whole(s, k).state != LAM_UNKNOWN;
}

bool lmi_diff_has(const lmi_diff_side *s, lmi_figure k) {
    const lmi_outline *o = &s->o;
    const lmi_figure_info *f = &lmi_figures[k];
    if (f->part[0] == LMI_OWN_NO) return false;
    if (s->recording) return o->own[f->part[0]] != NULL;
    if (k == LMI_FIGURE_CALLS && !lmi_has_shapes(o))
        return false; /* calls of a file of weights are unknown */
    bool measured = f->needs == LAM_NEEDS_TIMES || f->needs == LAM_NEEDS_MEMORY;
    return measured || f->adds_up ? lmi_figure_measured(o, k) : lmi_diff_has_whole(s, k);
}
