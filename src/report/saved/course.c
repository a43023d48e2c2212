/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the memory in use over time, and the places at work below it. Older reports have no such lists; then
 * both are derived from the rows. */
#include "report/saved/saved.h"

enum { DEEPEST = 3 }; /* levels of places at work that are shown */

/* The k-th value of a list; 0: there is none. */
static uint32_t nth(const lmi_saved *s, uint32_t list, int k) {
    LMI_JSON_EACH(&s->j, list, i) if (k-- == 0) return i;
    return 0;
}

/* Takes the k-th moment of a list, in microseconds. One before the first call becomes 0, as in an outline of
 * a model. */
static lam_status take_moment(const lmi_saved *s, uint32_t list, int k, int64_t *out) {
    uint32_t at = nth(s, list, k);
    if (!lmi_json_as_int(&s->j, at, out))
        return lmi_saved_wrong(s, at ? at : list, "is no moment in whole numbers");
    if (*out < 0) *out = 0;
    return LAM_OK;
}

static lam_status take_points(lmi_saved *s, uint32_t list) {
    lmi_outline *o = s->w->o;
    int64_t last = 0;
    LAM_TRY(lmi_saved_list(s, list, sizeof *o->point, &o->n_points, &o->point));
    if (o->n_points > LMI_OUTLINE_POINTS) o->n_points = LMI_OUTLINE_POINTS;
    int32_t n = 0;
    LMI_JSON_EACH(&s->j, list, i) {
        if (n >= o->n_points) break;
        lmi_course_point *p = &o->point[n++];
        LAM_TRY(take_moment(s, i, 0, &p->us));
        if (p->us < last) p->us = last;
        last = p->us;
        LAM_TRY(lmi_saved_int(s, nth(s, i, 1), &p->bytes));
        if (p->bytes < 0) return lmi_saved_wrong(s, i, "has no bytes");
    }
    return LAM_OK;
}

/* Takes the parts of all points; they are dropped unless they add up to the whole. */
static lam_status take_parts(lmi_saved *s, uint32_t all) {
    lmi_outline *o = s->w->o;
    o->part = lmi_alloc(&o->arena, (uint64_t)o->n_points, sizeof *o->part);
    if (!o->part) return lmi_nomem(s->e);
    LMI_JSON_NAMES(&s->j, all, h) {
        const lam_held held = lmi_saved_held_of(lmi_json_as_text(&s->j, h));
        int32_t n = 0;
        LMI_JSON_EACH(&s->j, h + 1, i) {
            int64_t bytes;
            LAM_TRY(lmi_saved_int(s, i, &bytes));
            if (n >= o->n_points || bytes < 0) return lmi_saved_wrong(s, i, "is at no point of the memory");
            o->part[n][held] = lmi_add_capped(o->part[n][held], bytes);
            n++;
        }
    }
    for (int32_t i = 0; o->part && i < o->n_points; i++) {
        int64_t sum = 0;
        for (int h = 0; h < LAM_N_HELD; h++) sum = lmi_add_capped(sum, o->part[i][h]);
        if (sum != o->point[i].bytes) o->part = NULL;
    }
    return LAM_OK;
}

/* Takes a span from the two moments of a list. */
static lam_status take_span(const lmi_saved *s, uint32_t list, int32_t place, uint8_t phase,
                            lmi_active *out) {
    int64_t end;
    *out = (lmi_active){.place = place, .depth = s->w->o->at[place].depth, .phase = phase};
    LAM_TRY(take_moment(s, list, 0, &out->us));
    LAM_TRY(take_moment(s, list, 1, &end));
    if (end < out->us) return lmi_saved_wrong(s, list, "ends before it begins");
    out->length = end - out->us;
    return LAM_OK;
}

/* They are in their order, and not too many. */
static lam_status take_at_work(lmi_saved *s, uint32_t list) {
    lmi_outline *o = s->w->o;
    LAM_TRY(lmi_saved_list(s, list, sizeof *o->at_work, &o->n_at_work, &o->at_work));
    if (o->n_at_work > LMI_OUTLINE_SPANS) o->n_at_work = LMI_OUTLINE_SPANS;
    int32_t n = 0;
    LMI_JSON_EACH(&s->j, list, i) {
        int32_t place;
        uint8_t phase;
        if (n >= o->n_at_work) break;
        LAM_TRY(lmi_saved_shown(s, lmi_saved_get(s, i, "path"), &place));
        LAM_TRY(lmi_saved_phase(s, lmi_saved_get(s, i, "phase"), &phase));
        LAM_TRY(take_span(s, lmi_saved_get(s, i, "span"), place, phase, &o->at_work[n++]));
    }
    return LAM_OK;
}

static lam_status add_span(lmi_saved *s, uint32_t list, lmi_vec *to, int32_t place, uint8_t phase) {
    lmi_active at;
    LAM_TRY(take_span(s, list, place, phase, &at));
    return lmi_vec_put(to, &at, s->e);
}

/* Takes the spans of rows, a forward and its backwards, where these have both moments. */
static lam_status take_spans(lmi_saved *s, lmi_vec *to) {
    const int32_t *place = s->row_place;
    LMI_JSON_EACH(&s->j, s->rows, row) {
        uint32_t span = lmi_saved_get(s, row, "span"), back = lmi_saved_get(s, row, "backward_spans");
        int32_t i = s->w->of_place[*place++], depth = s->w->o->at[i].depth;
        if (depth < 1 || depth > DEEPEST) continue;
        if (lmi_json_size(&s->j, span) == 2) LAM_TRY(add_span(s, span, to, i, LAM_FORWARD));
        LMI_JSON_EACH(&s->j, back, k) LAM_TRY(add_span(s, k, to, i, LAM_BACKWARD));
    }
    return LAM_OK;
}

/* The backward begins with the first of its spans. */
static lam_status take_backward(lmi_saved *s) {
    LMI_JSON_EACH(&s->j, s->rows, row) {
        uint32_t back = lmi_saved_get(s, row, "backward_spans");
        LMI_JSON_EACH(&s->j, back, i) {
            int64_t us;
            LAM_TRY(take_moment(s, i, 0, &us));
            if (s->w->o->backward_us < 0 || us < s->w->o->backward_us) s->w->o->backward_us = us;
        }
    }
    return LAM_OK;
}

static lam_status take_work(lmi_saved *s) {
    uint32_t list = lmi_saved_top(s, "at_work");
    lmi_vec spans;
    if (lmi_json_is(&s->j, list) == LMI_JSON_LIST) return take_at_work(s, list);
    if (s->w->o->n != s->w->n) return LAM_OK; /* some places were combined */
    lmi_vec_init(&spans, sizeof(lmi_active));
    lam_status status = take_spans(s, &spans);
    if (status == LAM_OK) status = lmi_keep_spans(s->w->o, &spans, s->e);
    lmi_vec_free(&spans);
    return status;
}

lam_status lmi_saved_course(lmi_saved *s) {
    uint32_t memory = lmi_saved_top(s, "memory");
    if (!s->w->o->memory) return LAM_OK;
    LAM_TRY(take_points(s, lmi_saved_get(s, memory, "course")));
    LAM_TRY(take_parts(s, lmi_saved_get(s, memory, "course_held")));
    LAM_TRY(take_work(s));
    return take_backward(s);
}
