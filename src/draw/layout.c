/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a graph whose nodes are in order of execution: ranks from top to bottom, the main path as a
 * straight line, long lines beside it. */
#include "draw/sketch.h"

#include <math.h>

enum {
    LINES_A_NODE = 3,    /* with more lines, all long ones share one rail */
    MOST_CROSSINGS = 40, /* the same with more crossings in the best order */
    GAP = 22,            /* between ranks */
    MOST_MORE = 26,      /* the most that is added to the gap for wide jumps */
    FURTHEST = 1 << 28   /* the largest distance from the middle */
};

static lam_status check(int32_t n, const lmi_box_size *size, int32_t m, const lmi_line_ends *line,
                        lam_error *e) {
    int64_t w = 0, h = 0;
    if (n < 0 || n > INT32_MAX / 32 || m < 0 || m > INT32_MAX / 4)
        return lmi_fail(e, LAM_USAGE, "drawing", "%d nodes with %d lines can't be drawn", (int)n, (int)m);
    for (int32_t i = 0; i < n; i++) {
        if (size[i].w < 0 || size[i].h < 0)
            return lmi_fail(e, LAM_USAGE, "drawing", "node %d has a negative size", (int)i);
        w += size[i].w;
        h += (int64_t)size[i].h + GAP + MOST_MORE;
    }
    if (w > FURTHEST || h > FURTHEST)
        return lmi_fail(e, LAM_LIMIT, "drawing", "the nodes are too large to be drawn");
    for (int32_t i = 0; i < m; i++)
        if (line[i].from < 0 || line[i].from >= line[i].to || line[i].to >= n)
            return lmi_fail(e, LAM_USAGE, "drawing",
                            "line %d goes from node %d to node %d; of %d nodes it must go down", (int)i,
                            (int)line[i].from, (int)line[i].to, (int)n);
    return LAM_OK;
}

static lam_status sketch(lmi_sketch *s, int32_t m, const lmi_line_ends *line, lam_error *e) {
    LAM_TRY(lmi_sketch_ranks(s, m, line, e));
    s->shared = s->m > (int64_t)LINES_A_NODE * s->n;
    LAM_TRY(lmi_sketch_segments(s, e));
    LAM_TRY(lmi_sketch_order(s, e));
    if (s->crossings > MOST_CROSSINGS && !s->shared) {
        s->shared = true;
        LAM_TRY(lmi_sketch_segments(s, e));
        LAM_TRY(lmi_sketch_order(s, e));
    }
    return lmi_sketch_places(s, e);
}

/* Copies positions as whole numbers, and finds the extent. */
static lam_status take_places(lmi_drawing *out, const lmi_sketch *s, lam_error *e) {
    double left = 0, right = 0;
    for (int32_t i = 0; i < s->n_items; i++) {
        const lmi_item *at = &s->item[i];
        double x = round(at->x);
        if (!(fabs(x) <= FURTHEST))
            return lmi_fail(e, LAM_LIMIT, "drawing", "the graph is too wide to be drawn");
        left = fmin(left, x - at->w / 2.0);
        right = fmax(right, x + at->w / 2.0);
        if (i < s->n)
            out->x[i] = (int32_t)x;
        else
            out->waypoint[i - s->n] = (lmi_waypoint){(int32_t)x, at->rank, at->source};
    }
    out->left = (int32_t)floor(left);
    out->right = (int32_t)ceil(right);
    return LAM_OK;
}

/* A rank is as high as its highest node. The gap below it grows with the sideways distance of its widest
 * segment. */
static void stack_ranks(lmi_drawing *out, const lmi_sketch *s) {
    int32_t *high = out->bottom, *jump = out->top, at = 0;
    for (int32_t v = 0; v < s->n; v++)
        if (s->size[v].h > high[s->rank[v]]) high[s->rank[v]] = s->size[v].h;
    for (int32_t i = 0; i < s->n_segments; i++) {
        const lmi_item *a = &s->item[s->segment[i].from], *b = &s->item[s->segment[i].to];
        int32_t across = (int32_t)fabs(round(a->x) - round(b->x));
        if (across > jump[a->rank]) jump[a->rank] = across;
    }
    for (int32_t r = 0; r < s->n_ranks; r++) {
        int32_t more = jump[r] / 10 < MOST_MORE ? jump[r] / 10 : MOST_MORE;
        out->top[r] = at;
        out->bottom[r] = at += high[r];
        out->height = at;
        at += GAP + more;
    }
    for (int32_t v = 0; v < s->n; v++) {
        int32_t r = s->rank[v];
        out->y[v] = out->top[r] + (out->bottom[r] - out->top[r] - s->size[v].h) / 2;
    }
}

static lam_status take(lmi_drawing *out, lmi_arena *a, const lmi_sketch *s, lam_error *e) {
    uint64_t n = (uint64_t)s->n, ranks = (uint64_t)s->n_ranks;
    *out = (lmi_drawing){.n = s->n,
                         .n_ranks = s->n_ranks,
                         .n_waypoints = s->n_items - s->n,
                         .n_segments = s->n_segments,
                         .shared = s->shared,
                         .crossings = s->crossings};
    out->x = lmi_alloc(a, n, sizeof *out->x);
    out->y = lmi_alloc(a, n, sizeof *out->y);
    out->rank = lmi_copy(a, s->rank, n, sizeof *out->rank);
    out->spine = lmi_copy(a, s->spine, n, sizeof *out->spine);
    out->top = lmi_alloc(a, ranks, sizeof *out->top);
    out->bottom = lmi_alloc(a, ranks, sizeof *out->bottom);
    out->waypoint = lmi_alloc(a, (uint64_t)out->n_waypoints, sizeof *out->waypoint);
    out->segment = lmi_copy(a, s->segment, (uint64_t)s->n_segments, sizeof *out->segment);
    if (!out->x || !out->y || !out->rank || !out->spine || !out->top || !out->bottom || !out->waypoint ||
        !out->segment)
        return lmi_nomem(e);
    LAM_TRY(take_places(out, s, e));
    stack_ranks(out, s);
    return LAM_OK;
}

lam_status lmi_draw(lmi_drawing *out, lmi_arena *arena, int32_t n, const lmi_box_size *size, int32_t m,
                    const lmi_line_ends *line, lam_error *e) {
    lmi_sketch s = {.n = n, .size = size};
    *out = (lmi_drawing){0};
    LAM_TRY(check(n, size, m, line, e));
    if (n == 0) return LAM_OK;
    lmi_arena_init(&s.arena, UINT64_MAX);
    lam_status status = sketch(&s, m, line, e);
    if (status == LAM_OK) status = take(out, arena, &s, e);
    lmi_arena_free(&s.arena);
    if (status != LAM_OK) *out = (lmi_drawing){0};
    return status;
}
