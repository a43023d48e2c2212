/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines as segments between neighbouring ranks. A line over several ranks is long. All long lines of a source
 * share one trunk, so the number of segments is not quadratic; if trunks would cover the drawing, all long
 * lines share one rail. */
#include "draw/sketch.h"

/* With more waypoints a node the drawing would be unreadable. */
enum { WAYPOINTS_A_NODE = 16 };

static bool is_long(const lmi_sketch *s, int32_t i) {
    return s->rank[s->line[i].to] > s->rank[s->line[i].from] + 1;
}

/* The last rank that the trunk of v passes; the rank of v: it has no trunk. */
static int32_t trunk_end(const lmi_sketch *s, int32_t v) {
    int32_t end = s->rank[v];
    for (int32_t k = s->readers.at[v]; k < s->readers.at[v + 1]; k++)
        if (s->rank[s->readers.to[k]] - 1 > end) end = s->rank[s->readers.to[k]] - 1;
    return end;
}

static int32_t add_waypoint(lmi_sketch *s, int32_t rank, int32_t source) {
    s->item[s->n_items] = (lmi_item){.rank = rank, .source = source};
    return s->n_items++;
}

static void add_segment(lmi_sketch *s, int32_t from, int32_t to) {
    s->segment[s->n_segments++] = (lmi_line_ends){from, to};
}

/* Allocates items for the nodes and `waypoints`, and `segments`; adds the nodes. */
static lam_status begin(lmi_sketch *s, int64_t waypoints, int64_t segments, lam_error *e) {
    if (s->n + waypoints > INT32_MAX - 2 || segments > INT32_MAX - 2)
        return lmi_fail(e, LAM_LIMIT, "drawing", "the graph has too many long lines to be drawn");
    s->item = lmi_alloc(&s->arena, (uint64_t)(s->n + waypoints), sizeof *s->item);
    s->segment = lmi_alloc(&s->arena, (uint64_t)segments, sizeof *s->segment);
    if (!s->item || !s->segment) return lmi_nomem(e);
    for (int32_t v = 0; v < s->n; v++)
        s->item[v] = (lmi_item){.rank = s->rank[v], .source = v, .w = s->size[v].w};
    s->n_items = s->n;
    s->n_segments = 0;
    return LAM_OK;
}

static lam_status trunks(lmi_sketch *s, int64_t waypoints, lam_error *e) {
    LAM_TRY(begin(s, waypoints, waypoints + s->m, e));
    for (int32_t v = 0; v < s->n; v++) {
        int32_t first = s->n_items - s->rank[v] - 1; /* the trunk's waypoint in rank r is item first + r */
        for (int32_t r = s->rank[v] + 1, end = trunk_end(s, v), from = v; r <= end; r++) {
            int32_t at = add_waypoint(s, r, v);
            add_segment(s, from, at);
            from = at;
        }
        for (int32_t k = s->readers.at[v]; k < s->readers.at[v + 1]; k++) {
            int32_t to = s->readers.to[k], above = s->rank[to] - 1;
            add_segment(s, above == s->rank[v] ? v : first + above, to);
        }
    }
    return LAM_OK;
}

/* The rail passes the ranks that at least one long line passes, and has gaps in other ranks. */
static lam_status rail(lmi_sketch *s, lam_error *e) {
    LAM_TRY(begin(s, s->n_ranks, (int64_t)s->n_ranks + 2 * (int64_t)s->m, e));
    uint64_t n = (uint64_t)s->n_ranks + 2;
    int32_t *passing = lmi_alloc(&s->arena, n, sizeof *passing),
            *going_on = lmi_alloc(&s->arena, n, sizeof *going_on);
    int32_t *at = lmi_alloc(&s->arena, n, sizeof *at);
    bool *leaves = lmi_alloc(&s->arena, (uint64_t)s->n, 1);
    if (!passing || !going_on || !at || !leaves) return lmi_nomem(e);
    for (int32_t i = 0; i < s->m; i++) {
        int32_t first = s->rank[s->line[i].from] + 1, end = s->rank[s->line[i].to];
        if (!is_long(s, i)) continue;
        passing[first]++, passing[end]--;
        going_on[first]++, going_on[end - 1]--;
    }
    for (int32_t r = 1; r < s->n_ranks; r++) {
        passing[r] += passing[r - 1];
        going_on[r] += going_on[r - 1];
        if (passing[r]) at[r] = add_waypoint(s, r, s->n);
        if (going_on[r - 1]) add_segment(s, at[r - 1], at[r]);
    }
    for (int32_t i = 0, joined = -1; i < s->m; i++) { /* a source is joined to it once, and so is a reader */
        int32_t from = s->line[i].from, to = s->line[i].to;
        if (!is_long(s, i)) {
            add_segment(s, from, to);
            continue;
        }
        if (joined != from) add_segment(s, from, at[s->rank[from] + 1]);
        if (!leaves[to]) add_segment(s, at[s->rank[to] - 1], to);
        joined = from;
        leaves[to] = true;
    }
    return LAM_OK;
}

lam_status lmi_sketch_segments(lmi_sketch *s, lam_error *e) {
    int64_t waypoints = 0;
    for (int32_t v = 0; v < s->n; v++) waypoints += trunk_end(s, v) - s->rank[v];
    if (waypoints > (int64_t)WAYPOINTS_A_NODE * s->n) s->shared = true;
    LAM_TRY(s->shared ? rail(s, e) : trunks(s, waypoints, e));
    LAM_TRY(lmi_sketch_lists(&s->arena, &s->above, s->n_items, s->n_segments, s->segment, true, e));
    return lmi_sketch_lists(&s->arena, &s->below, s->n_items, s->n_segments, s->segment, false, e);
}
