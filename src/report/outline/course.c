/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in use over time, and the places at work at each time: calls, and the nodes of a backward. A node
 * also extends the spans of the places around its own, so that the lanes of a backward read as those of the
 * forward. All are of one run and by one clock: the times of the model whose memory was measured, even if
 * other runs gave the times of rows. */
#include "analyse/run/memory.h"
#include "analyse/run/times.h"
#include "report/outline/work.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEEPEST = 3 };

typedef struct course {
    const lmi_filling *w;
    lmi_outline *o;
    lmi_vec spans; /* lmi_active; in nanoseconds until they are kept */
    int64_t began;
} course;

static int64_t us_of(const course *c, int64_t ns) { return ns > c->began ? (ns - c->began) / 1000 : 0; }

static lam_status take_points(course *c) {
    lmi_outline *o = c->o;
    int64_t moments = o->use->n + 1, last = 0;
    o->n_points = moments < LMI_OUTLINE_POINTS ? (int32_t)moments : LMI_OUTLINE_POINTS;
    o->point = lmi_alloc(&o->arena, (uint64_t)o->n_points, sizeof *o->point);
    o->part = lmi_alloc(&o->arena, (uint64_t)o->n_points, sizeof *o->part);
    if (!o->point || !o->part) return lmi_nomem(c->w->e);
    for (int32_t i = 0; i < o->n_points; i++) {
        lam_memory_point p;
        LAM_TRY(lam_memory_at(o->use, LMI_OUTLINE_POINTS, i, &p, c->w->e));
        LAM_TRY(lam_memory_held_at(o->use, LMI_OUTLINE_POINTS, i, o->part[i], c->w->e));
        int64_t us = us_of(c, p.t_ns);
        if (us > last) last = us; /* a moment without a time is at the previous one */
        o->point[i] = (lmi_course_point){last, p.bytes};
    }
    return LAM_OK;
}

/* -- places at work -------------------------------------------------------------------------------------- */

static lam_status add_span(course *c, int32_t place, uint8_t phase, int64_t t0, int64_t t1) {
    const lmi_active at = {place, c->o->at[place].depth, phase, t0, t1 - t0};
    return lmi_vec_put(&c->spans, &at, c->w->e);
}

static lam_status add_call(course *c, const lmi_span *s) {
    const lam_event *ev = &c->w->m->events[s->index];
    int32_t place = lmi_place_for(c->w->of_place, ev->place), depth = c->o->at[place].depth;
    if (depth < 1 || depth > DEEPEST) return LAM_OK;
    return add_span(c, place, lmi_call_phase(ev), s->t0, s->t1);
}

/* For each depth the span of the backward that the next node may continue; -1: none. */
typedef struct lanes {
    int64_t span[DEEPEST + 1];
    int32_t pass;
    uint16_t thread;
} lanes;

static void end_lanes(lanes *l, int32_t from) {
    for (int32_t d = from; d <= DEEPEST; d++) l->span[d] = -1;
}

/* A node continues the span of each place around it that was the last one at work at its depth. */
static lam_status add_node(course *c, lanes *l, const lmi_span *s) {
    const lam_op *op = &c->w->m->ops[s->index];
    if (op->pass != l->pass || s->thread != l->thread) end_lanes(l, 1);
    l->pass = op->pass;
    l->thread = s->thread;
    int32_t place = op->call < 0 ? 0 : lmi_place_for(c->w->of_place, c->w->m->events[op->call].place);
    if (c->o->at[place].depth == 0) return LAM_OK; /* in no lane: it adds up gradients, for example */
    while (c->o->at[place].depth > DEEPEST) place = c->o->at[place].parent;
    end_lanes(l, c->o->at[place].depth + 1);
    for (; c->o->at[place].depth > 0; place = c->o->at[place].parent) {
        int32_t depth = c->o->at[place].depth;
        lmi_active *at = l->span[depth] < 0 ? NULL : lmi_vec_at(&c->spans, (size_t)l->span[depth]);
        if (at && at->place == place) {
            if (s->t1 - at->us > at->length) at->length = s->t1 - at->us;
            continue;
        }
        l->span[depth] = (int64_t)c->spans.n;
        LAM_TRY(add_span(c, place, LAM_BACKWARD, s->t0, s->t1));
    }
    return LAM_OK;
}

static bool is_node(const lam_model *m, const lam_op *op) {
    (void)m;
    return op->phase == LAM_BACKWARD && (op->flags & LAM_OP_NODE);
}

static lam_status add_spans(course *c, const lmi_vec *all) {
    const lmi_span *s = all->data;
    lanes l = {.pass = -1};
    int64_t back = 0;
    end_lanes(&l, 1);
    for (size_t i = 0; i < all->n; i++)
        if (c->began == 0 || s[i].t0 < c->began) c->began = s[i].t0;
    for (size_t i = 0; i < all->n; i++) {
        if (s[i].is_op && (back == 0 || s[i].t0 < back)) back = s[i].t0;
        LAM_TRY(s[i].is_op ? add_node(c, &l, &s[i]) : add_call(c, &s[i]));
    }
    if (back > 0) c->o->backward_us = us_of(c, back);
    return LAM_OK;
}

static int longest_first(const void *a, const void *b) {
    const lmi_active *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static int by_start(const void *a, const void *b) {
    const lmi_active *x = a, *y = b;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
    return longest_first(a, b);
}

lam_status lmi_keep_spans(lmi_outline *o, lmi_vec *spans, lam_error *e) {
    lmi_active *all = spans->data;
    size_t n = spans->n;
    char text[160];
    if (n > LMI_OUTLINE_SPANS) {
        snprintf(text, sizeof text, "Below the memory over time the longest %d of %lld spans are shown.",
                 LMI_OUTLINE_SPANS, (long long)n);
        LAM_TRY(lmi_leave_out(o, e, text));
        qsort(all, n, sizeof *all, longest_first);
        n = LMI_OUTLINE_SPANS;
    }
    if (n) qsort(all, n, sizeof *all, by_start);
    o->at_work = n ? lmi_copy(&o->arena, all, n, sizeof *all) : NULL;
    if (n && !o->at_work) return lmi_nomem(e);
    o->n_at_work = (int32_t)n;
    return LAM_OK;
}

static lam_status keep_spans(course *c) {
    lmi_outline *o = c->o;
    LAM_TRY(lmi_keep_spans(o, &c->spans, c->w->e));
    for (int32_t i = 0; i < o->n_at_work; i++) {
        lmi_active *at = &o->at_work[i];
        int64_t end = us_of(c, at->us + at->length);
        at->us = us_of(c, at->us);
        at->length = end - at->us;
    }
    return LAM_OK;
}

lam_status lmi_take_course(lmi_filling *w) {
    course k = {.w = w, .o = w->o};
    lmi_vec all;
    if (!w->o->use) return LAM_OK;
    lmi_vec_init(&all, sizeof(lmi_span));
    lmi_vec_init(&k.spans, sizeof(lmi_active));
    lam_status s = lmi_spans_find(w->m, is_node, &all, w->e);
    if (s == LAM_OK) s = add_spans(&k, &all);
    if (s == LAM_OK) s = take_points(&k);
    if (s == LAM_OK) s = keep_spans(&k);
    lmi_vec_free(&all);
    lmi_vec_free(&k.spans);
    return s;
}
