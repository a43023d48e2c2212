/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's use of a device's memory, from readings of its allocator at the beginning and end of calls and
 * nodes. Everything between two readings belongs to the innermost open call or node. */
#include "analyse/run/memory.h"
#include "analyse/tree/tree.h"

#include <stdlib.h>

typedef struct walk {
    lam_memory *y;
    const lam_device_bytes *said;
    const lam_span *spans;
    int32_t n_spans;
    lmi_groups by_first, by_last; /* spans by their first, and by their last moment */
    int32_t *open;                /* open spans, the innermost on top */
    int32_t n_open;
    bool *over; /* of each span */
} walk;

static bool allocate(walk *w) {
    uint64_t spans = (uint64_t)w->n_spans;
    lmi_arena *a = &w->y->arena;
    int32_t *first = lmi_alloc(a, spans, sizeof *first), *last = lmi_alloc(a, spans, sizeof *last);
    int32_t moments = (int32_t)w->y->n + 1;
    w->open = lmi_alloc(a, spans, sizeof *w->open);
    w->over = lmi_alloc(a, spans, sizeof *w->over);
    if (!first || !last || !w->open || !w->over) return false;
    for (int32_t i = 0; i < w->n_spans; i++) {
        first[i] = (int32_t)w->spans[i].first;
        last[i] = (int32_t)w->spans[i].last;
    }
    return lmi_group_by(a, first, w->n_spans, moments, &w->by_first) &&
           lmi_group_by(a, last, w->n_spans, moments, &w->by_last);
}

static const lam_span *innermost(walk *w) {
    while (w->n_open && w->over[w->open[w->n_open - 1]]) w->n_open--;
    return w->n_open ? &w->spans[w->open[w->n_open - 1]] : NULL;
}

/* Credits the changes from moment k - 1 to k. */
static void credit(walk *w, int64_t k) {
    const lam_device_bytes *was = &w->said[k - 1], *is = &w->said[k];
    const lam_span *in = innermost(w);
    lam_memory_totals *t = &w->y->total;
    if (is->peak > t->peak) {
        t->peak = is->peak;
        t->peak_order = k;
        t->peak_ns = is->t_ns;
        t->peak_call = in ? in->call : -1;
        t->peak_phase = in ? in->phase : LAM_FORWARD;
    }
    if (!in || in->call < 0) return;
    lam_memory_use *use = &w->y->calls[in->call].own[in->phase];
    use->allocated += is->allocated - was->allocated;
    use->freed += is->freed - was->freed;
    use->retained += is->now - was->now;
}

static void go(walk *w) {
    const lmi_groups *ends = &w->by_last, *begins = &w->by_first;
    for (int64_t k = 0; k <= w->y->n; k++) {
        if (k > 0) credit(w, k);
        for (int32_t i = ends->start[k]; i < ends->start[k + 1]; i++) w->over[ends->order[i]] = true;
        for (int32_t i = begins->start[k]; i < begins->start[k + 1]; i++)
            w->open[w->n_open++] = begins->order[i];
    }
}

static void find_peaks(walk *w) {
    for (int32_t i = 0; i < w->n_spans; i++) {
        const lam_span *s = &w->spans[i];
        if (s->call < 0 || s->first == s->last) continue;
        int64_t above = lmi_memory_greatest(w->y, s->first + 1, s->last) - w->said[s->first].now;
        int64_t *peak = &w->y->calls[s->call].own[s->phase].peak;
        if (above > *peak) *peak = above;
    }
}

static lam_status fill(lam_memory *y, const lmi_device *d, lam_error *e) {
    walk w = {.y = y, .said = d->bytes.data, .spans = d->uses.data, .n_spans = (int32_t)d->uses.n};
    y->n = (int64_t)d->bytes.n - 1;
    if (!lmi_memory_allocate(y) || !allocate(&w)) return lmi_nomem(e);
    for (int64_t k = 0; k <= y->n; k++) {
        y->live[k] = k ? w.said[k].peak : w.said[k].now;
        y->when[k] = w.said[k].t_ns;
    }
    lmi_memory_index(y);
    const lam_device_bytes *first = &w.said[0], *last = &w.said[y->n];
    y->total.before = y->total.peak = first->now;
    y->total.allocated = last->allocated - first->allocated;
    y->total.freed = last->freed - first->freed;
    y->total.peak_ns = first->t_ns;
    y->total.peak_call = -1;
    go(&w);
    y->total.peak_allocated = y->total.peak - y->total.before;
    find_peaks(&w);
    LAM_TRY(lmi_memory_sum_up(y, e));
    lmi_memory_places(y);
    return LAM_OK;
}

lam_status lam_device_memory_new(lam_memory **out, const lam_model *m, lam_error *e) {
    *out = NULL;
    if (!m || !lam_model_device_memory_seen(m))
        return lmi_fail(e, LAM_USAGE, "memory", "no device's memory was measured while the model ran");
    lam_memory *y = calloc(1, sizeof *y);
    if (!y) return lmi_nomem(e);
    if (m->given) *y = *m->given->device_memory;
    lmi_arena_init(&y->arena, UINT64_MAX); /* bounded by what the model holds */
    y->m = m;
    y->by_device = true;
    y->total.info = (lam_memory_info){"the statistics of the device's allocator", -1, -1, -1, false};
    lam_status s = m->given ? LAM_OK : fill(y, m->device, e);
    if (s == LAM_OK)
        *out = y;
    else
        lam_memory_free(y);
    return s;
}
