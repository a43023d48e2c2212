/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as an outline: its tree, with the medians of one kind of its steps. It has no shapes and counts
 * nothing but parameters. */
#include "report/diff/diff.h"

#include <string.h>

/* -- which steps ----------------------------------------------------------------------------------------- */

/* The kind with the most steps among those like `like`, or among all if that is NULL. -1: there is none. */
static int32_t most_steps(const lam_recording *r, const lam_recorded_model *like) {
    const lam_recorded_model *m;
    int32_t best = -1;
    int64_t most = 0;
    for (int32_t i = 0; (m = lam_recording_model(r, i)); i++) {
        bool alike = !like || (strcmp(m->name, like->name) == 0 && m->training == like->training &&
                               m->gradients == like->gradients && m->went_back == like->went_back);
        if (!alike || m->n_steps <= most) continue;
        best = i;
        most = m->n_steps;
    }
    return best;
}

void lmi_diff_choose(lmi_diff_side side[2]) {
    for (int i = 0; i < 2; i++)
        if (side[i].recording) side[i].model = most_steps(side[i].recording, NULL);
    const lam_recorded_model *was = lmi_diff_recorded(&side[0]), *now = lmi_diff_recorded(&side[1]);
    if (!was || !now) return;
    int32_t same = most_steps(side[0].recording, now);
    if (same >= 0)
        side[0].model = same;
    else if ((same = most_steps(side[1].recording, was)) >= 0)
        side[1].model = same;
    was = lmi_diff_recorded(&side[0]);
    now = lmi_diff_recorded(&side[1]);
    side[0].device = side[1].device = was->device_forward_ns.n && now->device_forward_ns.n;
}

/* -- its places ------------------------------------------------------------------------------------------ */

static const char *last_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Places are a tree in depth-first order: reading the recording has checked that. */
static void take_places(lmi_diff_side *s) {
    lmi_outline *o = &s->o;
    const lam_recorded_place *p;
    for (int32_t i = 0; i < o->n && (p = lam_recording_place(s->recording, s->model, i)); i++) {
        lmi_outline_place *at = &o->at[i];
        *at = lmi_outlined_new(i, p->parent, last_name(p->path), p->type ? p->type : "");
        at->depth = p->depth;
        at->state = p->n_steps ? LMI_CALLED : LMI_NEVER_CALLED;
        if (at->parent >= 0) o->at[at->parent].n_children++;
        for (int32_t up = at->parent; up >= 0; up = o->at[up].parent) o->at[up].end = i + 1;
    }
}

/* -- its numbers ----------------------------------------------------------------------------------------- */

static lam_middle number_of(const lmi_diff_side *s, const lam_recorded_place *p, lmi_own_number k) {
    lam_middle back = s->device ? p->device_backward_ns : p->backward_ns;
    lam_middle again = s->device ? p->device_recompute_ns : p->recompute_ns;
    switch (k) {
    case LMI_OWN_PARAMS: return (lam_middle){p->params, 0, p->params >= 0};
    case LMI_OWN_TIME: return s->device ? p->device_self_ns : p->self_ns;
    case LMI_OWN_BACK_TIME:
        if (back.n && again.n) back.median += again.median, back.deviation += again.deviation;
        return back;
    case LMI_OWN_ALLOCATED: return p->allocated_bytes;
    case LMI_OWN_RETAINED: return s->device ? p->device_retained_bytes : p->retained_bytes;
    case LMI_OWN_CALLS: return p->calls;
    default: return (lam_middle){0};
    }
}

/* Takes a number of all places, unless no place has it. It is 0 for a place that was not called. */
static lam_status take_number(lmi_diff_side *s, lmi_own_number k, lam_error *e) {
    lmi_outline *o = &s->o;
    const lam_recorded_place *p;
    int64_t *n = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *n);
    int64_t *spread = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *spread);
    uint8_t *state = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *state);
    bool any = false, all = true;
    if (!n || !spread || !state) return lmi_nomem(e);
    for (int32_t i = 0; i < o->n && (p = lam_recording_place(s->recording, s->model, i)); i++) {
        lam_middle m = number_of(s, p, k);
        bool known = m.n > 0, none = !known && !p->n_steps && k != LMI_OWN_PARAMS;
        n[i] = known ? m.median : 0;
        spread[i] = known ? m.deviation : 0;
        state[i] = known || none ? LAM_EXACT : LAM_UNKNOWN;
        any = any || known;
        all = all && state[i] == LAM_EXACT;
    }
    if (!any) return LAM_OK;
    o->own[k] = n;
    if (!all) o->state[k] = state;
    s->spread[k] = spread;
    return LAM_OK;
}

static lam_status take_run(lmi_diff_side *s, lam_error *e) {
    lmi_outline *o = &s->o;
    const lam_recorded_run *run = lam_recording_run(s->recording);
    o->provenance = lmi_alloc(&o->arena, 1, sizeof *o->provenance);
    if (!o->provenance) return lmi_nomem(e);
    o->provenance[0][0] = "torch";
    o->provenance[0][1] = run->torch;
    o->n_provenance = run->torch != NULL;
    return LAM_OK;
}

lam_status lmi_recorded_outline(lmi_diff_side *s, lam_error *e) {
    static const lmi_own_number known[] = {LMI_OWN_PARAMS,    LMI_OWN_TIME,     LMI_OWN_BACK_TIME,
                                           LMI_OWN_ALLOCATED, LMI_OWN_RETAINED, LMI_OWN_CALLS};
    const lam_recorded_model *m = lmi_diff_recorded(s);
    lmi_outline *o = &s->o;
    lmi_arena_init(&o->arena, UINT64_MAX);
    if (!m || m->n_places < 1)
        return lmi_fail(e, LAM_FAILED, lam_recording_run(s->recording)->file,
                        "it has no step that counts, so there is nothing to compare");
    o->n = m->n_places;
    o->at = lmi_alloc(&o->arena, (uint64_t)o->n, sizeof *o->at);
    if (!o->at) return lmi_nomem(e);
    take_places(s);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) LAM_TRY(take_number(s, known[i], e));
    o->name = o->at[0].type;
    o->mode = m->training ? "train" : "eval";
    o->modules = o->n;
    o->timed = o->own[LMI_OWN_TIME] != NULL;
    o->backward = m->went_back;
    o->params.params = o->params.in_rows = lmi_count_of(m->params);
    o->params.param_bytes = lmi_count_of(m->param_bytes);
    o->params.logical_bytes = lmi_count_of(m->logical_bytes < 0 ? m->param_bytes : m->logical_bytes);
    o->params.local_bytes = lmi_count_of(m->local_bytes < 0 ? m->param_bytes : m->local_bytes);
    return take_run(s, e);
}
