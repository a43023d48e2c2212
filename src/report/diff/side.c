/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of each side: of a model or a saved report from its outline, of a recording from its steps. */
#include "report/diff/diff.h"

#include "report/saved/saved.h"

#include <string.h>

const lmi_diff_kind lmi_diff_kinds[LMI_DIFF_METRICS] = {
#define METRIC(id, name, title, unit, part, other) {name, title, LMI_##unit, {part, other}},
#include "report/diff/metrics.def"
#undef METRIC
};

lmi_diff_metric lmi_diff_find(const char *name) {
    int k = 0;
    while (k < LMI_DIFF_METRICS && strcmp(lmi_diff_kinds[k].name, name) != 0) k++;
    return (lmi_diff_metric)k;
}

const char *lam_diff_metric(int32_t i) {
    for (int k = 0; i >= 0 && k < LMI_DIFF_METRICS; k++)
        if (lmi_diff_kinds[k].part[0] >= 0 && i-- == 0) return lmi_diff_kinds[k].name;
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
    const char *target = lmi_outline_told(&s->o, "target");
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

static lam_middle middle_of(const lmi_diff_side *s, lmi_diff_metric k) {
    const lam_recorded_model *m = lmi_diff_recorded(s);
    switch (k) {
    case LMI_DIFF_TIME: return s->device ? m->device_forward_ns : m->forward_ns;
    case LMI_DIFF_BACK_TIME: return s->device ? m->device_backward_ns : m->backward_ns;
    case LMI_DIFF_STEP: return m->step_ns;
    case LMI_DIFF_PEAK: return s->device ? m->device_peak_bytes : m->peak_bytes;
    default: return (lam_middle){0};
    }
}

static lam_count whole_of_recording(const lmi_diff_side *s, lmi_diff_metric k) {
    const lam_recorded_model *m = lmi_diff_recorded(s);
    switch (k) {
    case LMI_DIFF_PARAMS: return lmi_count_of(m->params);
    case LMI_DIFF_PARAM_BYTES: return lmi_count_of(m->param_bytes);
    case LMI_DIFF_LOGICAL_BYTES: return lmi_count_of(m->logical_bytes);
    case LMI_DIFF_LOCAL_BYTES: return lmi_count_of(m->local_bytes);
    case LMI_DIFF_NONFINITE: return lmi_count_of(m->nonfinite);
    default: return of_middle(middle_of(s, k));
    }
}

static lam_count back(const lam_count of[LAM_N_PHASES]) {
    return lmi_sum(of[LAM_BACKWARD], of[LAM_RECOMPUTE]);
}

static lam_count time_of(const lmi_outline *o, lam_time_part part) {
    return o->time[part].n ? lmi_count_of(o->time[part].median) : lmi_unknown();
}

/* Recomputing is a part of the backward; most runs recompute nothing, and its time is unknown. */
static lam_count backward_time_of(const lmi_outline *o) {
    lam_count again = time_of(o, LAM_TIME_RECOMPUTE);
    return lmi_sum(time_of(o, LAM_TIME_BACKWARD), again.state == LAM_UNKNOWN ? lmi_exact(0) : again);
}

static lam_count sum_of(const lmi_diff_side *s, lmi_diff_metric k) {
    lam_count sum = lmi_exact(0);
    for (int32_t i = 0; i < s->o.n; i++) sum = lmi_sum(sum, lmi_diff_own(s, k, i));
    return sum;
}

lam_count lmi_diff_whole(const lmi_diff_side *s, lmi_diff_metric k) {
    const lmi_outline *o = &s->o;
    bool summed = k == LMI_DIFF_ALLOCATED || k == LMI_DIFF_RETAINED || k == LMI_DIFF_CALLS;
    if (summed) return lmi_diff_has(s, k) ? sum_of(s, k) : lmi_unknown();
    if (lmi_diff_recorded(s)) return whole_of_recording(s, k);
    switch (k) {
    case LMI_DIFF_PARAMS: return o->params.params;
    case LMI_DIFF_PARAM_BYTES: return o->params.param_bytes;
    case LMI_DIFF_LOGICAL_BYTES: return o->params.logical_bytes;
    case LMI_DIFF_LOCAL_BYTES: return o->params.local_bytes;
    case LMI_DIFF_MACS: return o->macs[LAM_FORWARD];
    case LMI_DIFF_FLOPS: return o->flops[LAM_FORWARD];
    case LMI_DIFF_MOVED: return o->bytes[LAM_FORWARD];
    case LMI_DIFF_BACK_MACS: return o->backward ? back(o->macs) : lmi_unknown();
    case LMI_DIFF_BACK_FLOPS: return o->backward ? back(o->flops) : lmi_unknown();
    case LMI_DIFF_BACK_MOVED: return o->backward ? back(o->bytes) : lmi_unknown();
    case LMI_DIFF_TIME: return time_of(o, LAM_TIME_FORWARD);
    case LMI_DIFF_BACK_TIME: return o->backward ? backward_time_of(o) : lmi_unknown();
    case LMI_DIFF_PEAK: return o->memory ? lmi_count_of(o->memory->peak) : lmi_unknown();
    case LMI_DIFF_NONFINITE: return o->health ? lmi_exact(o->n_findings) : lmi_unknown();
    default: return lmi_unknown();
    }
}

int64_t lmi_diff_whole_spread(const lmi_diff_side *s, lmi_diff_metric k) {
    const lam_spread *time = s->o.time;
    lam_middle m = lmi_diff_recorded(s) ? middle_of(s, k) : (lam_middle){0};
    if (m.n) return m.deviation;
    if (lmi_diff_recorded(s) || !s->o.timed) return -1;
    if (k == LMI_DIFF_TIME) return time[LAM_TIME_FORWARD].deviation;
    return k == LMI_DIFF_BACK_TIME ? time[LAM_TIME_BACKWARD].deviation : -1;
}

bool lmi_diff_has_whole(const lmi_diff_side *s, lmi_diff_metric k) {
    return lmi_diff_whole(s, k).state != LAM_UNKNOWN;
}

bool lmi_diff_has(const lmi_diff_side *s, lmi_diff_metric k) {
    const lmi_outline *o = &s->o;
    if (lmi_diff_kinds[k].part[0] < 0) return false;
    if (s->recording) return o->own[lmi_diff_kinds[k].part[0]] != NULL;
    switch (k) {
    case LMI_DIFF_TIME: return o->timed;
    case LMI_DIFF_BACK_TIME: return o->timed && o->backward;
    case LMI_DIFF_ALLOCATED:
    case LMI_DIFF_RETAINED:
    case LMI_DIFF_PEAK: return o->memory != NULL;
    case LMI_DIFF_CALLS: return true;
    default: return lmi_diff_has_whole(s, k);
    }
}

lam_count lmi_diff_own(const lmi_diff_side *s, lmi_diff_metric k, int32_t place) {
    lam_count sum = lmi_exact(0);
    for (int i = 0; i < 2; i++) {
        int part = lmi_diff_kinds[k].part[i];
        if (part < 0 || !s->o.own[part]) continue;
        int64_t n = s->o.own[part][place];
        lam_state state = s->o.state[part] ? (lam_state)s->o.state[part][place] : LAM_EXACT;
        /* At least 0 says nothing, nor does a number of more than 64 bits, which was cut. */
        bool told = state != LAM_AT_LEAST || (n > 0 && n < INT64_MAX);
        sum = lmi_sum(sum, told ? (lam_count){n, 0, state} : lmi_unknown());
    }
    return sum;
}
