/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of an outline: of the whole model, which its source tells, and of a place itself. */
#include "analyse/run/health.h"
#include "report/outline/outline.h"

bool lmi_figure_measured(const lmi_outline *o, lmi_figure k) {
    switch (lmi_figures[k].needs) {
    case LAM_NEEDS_TIMES: return o->timed && (k != LMI_FIGURE_BACK_TIME || o->backward);
    case LAM_NEEDS_MEMORY: return o->memory != NULL;
    case LAM_NEEDS_BACKWARD: return o->backward;
    case LAM_NEEDS_TOKENS: return false; /* they are of many calls, and lam_tokens has them */
    case LAM_NEEDS_RECORDINGS: return false;
    default: return true;
    }
}

lam_count lmi_figure_own(const lmi_outline *o, lmi_figure k, int32_t place) {
    lam_count sum = lmi_exact(0);
    for (int i = 0; i < 2; i++) {
        lmi_own_number part = lmi_figures[k].part[i];
        if (part == LMI_OWN_NO || !o->own[part]) continue;
        int64_t n = o->own[part][place];
        lam_state state = o->state[part] ? (lam_state)o->state[part][place] : LAM_EXACT;
        /* At least 0 says nothing, nor does a number of more than 64 bits, which was cut. */
        bool known = state != LAM_AT_LEAST || (n > 0 && n < INT64_MAX);
        sum = lmi_sum(sum, known ? (lam_count){n, 0, state} : lmi_unknown());
    }
    return sum;
}

lam_count lmi_figure_sum(const lmi_outline *o, lmi_figure k) {
    lam_count sum = lmi_exact(0);
    for (int32_t i = 0; i < o->n; i++) sum = lmi_sum(sum, lmi_figure_own(o, k, i));
    return sum;
}

static lam_count time_of(const lmi_outline *o, lam_time_part part) {
    return o->time[part].n ? lmi_count_of(o->time[part].median) : lmi_unknown();
}

/* Recomputing is a part of the backward; most runs recompute nothing, and its time is unknown. */
static lam_count backward_time_of(const lmi_outline *o) {
    lam_count again = time_of(o, LAM_TIME_RECOMPUTE);
    return lmi_sum(time_of(o, LAM_TIME_BACKWARD), again.state == LAM_UNKNOWN ? lmi_exact(0) : again);
}

/* What a convention counted, forward or backward. */
static lam_count counted(const lmi_outline *o, const lmi_figure_info *f) {
    const lam_count *of = f->metric == LAM_MACS         ? o->macs
                          : f->metric == LAM_FLOPS      ? o->flops
                          : f->metric == LAM_BYTES_READ ? o->bytes
                                                        : NULL;
    if (!of) return lmi_unknown();
    return f->needs == LAM_NEEDS_BACKWARD ? lmi_sum(of[LAM_BACKWARD], of[LAM_RECOMPUTE]) : of[LAM_FORWARD];
}

lam_count lmi_figure_whole(const lmi_outline *o, lmi_figure k) {
    if (!lmi_figure_measured(o, k)) return lmi_unknown();
    if (lmi_figures[k].metric >= 0) return counted(o, &lmi_figures[k]);
    switch (k) {
    case LMI_FIGURE_PARAMS: return o->params.params;
    case LMI_FIGURE_TRAINABLE: return o->params.grad_params;
    case LMI_FIGURE_PARAM_BYTES: return o->params.param_bytes;
    case LMI_FIGURE_LOGICAL_BYTES: return o->params.logical_bytes;
    case LMI_FIGURE_LOCAL_BYTES: return o->params.local_bytes;
    case LMI_FIGURE_TIME: return time_of(o, LAM_TIME_FORWARD);
    case LMI_FIGURE_BACK_TIME: return backward_time_of(o);
    case LMI_FIGURE_PEAK: return lmi_count_of(o->memory->peak);
    case LMI_FIGURE_NONFINITE: return o->health ? lmi_exact(lmi_n_findings(o->health)) : lmi_unknown();
    default: return lmi_figures[k].adds_up ? lmi_figure_sum(o, k) : lmi_unknown();
    }
}
