/* SPDX-License-Identifier: Apache-2.0
 *
 * The position of each item in its rank. The spine is at 0, a trunk as far out as its furthest waypoint, and
 * every other item at the median of its neighbours, as near as order and distances permit: pooling adjacent
 * violators finds the exact weighted least squares of a rank. */
#include "draw/sketch.h"

#include <math.h>
#include <stdlib.h>

enum { SWEEPS = 16, BOTH_WAYS = 4 /* the last sweeps use the neighbours above and below */ };
enum { BETWEEN_NODES = 20, BESIDE_TRUNK = 16, BETWEEN_TRUNKS = 14 };

/* The extent of a source's trunk: its furthest waypoint, and the sides on which it has waypoints. */
typedef struct reach {
    double far;
    bool left, right;
} reach;
/* Adjacent items at the minimum distance from each other. */
typedef struct pool {
    double mean, weight;
    int32_t n;
} pool;
/* An item's wanted position, its weight, and its least distance from the first item of the row. */
typedef struct want {
    double where, weight, offset;
} want;

typedef struct work {
    reach *trunk;
    pool *pools;
    want *wants;
    double *near;
} work;

static bool is_waypoint(const lmi_sketch *s, int32_t i) { return i >= s->n; }

static double distance(const lmi_sketch *s, int32_t a, int32_t b) {
    int gap = is_waypoint(s, a) && is_waypoint(s, b)   ? BETWEEN_TRUNKS
              : is_waypoint(s, a) || is_waypoint(s, b) ? BESIDE_TRUNK
                                                       : BETWEEN_NODES;
    return (s->item[a].w + (double)s->item[b].w) / 2 + gap;
}

/* Places `n` items of a row: pools from the left, which grow until their means ascend. Means stay on `side`
 * of 0: -1 left, 1 right, 0 anywhere; a bound on all of them is a bound on each. */
static void settle(lmi_sketch *s, const int32_t *row, const want *wants, int32_t n, pool *pools, int side) {
    int32_t n_pools = 0, at = 0;
    for (int32_t i = 0; i < n; i++) {
        pools[n_pools++] = (pool){wants[i].where - wants[i].offset, wants[i].weight, 1};
        for (; n_pools > 1 && pools[n_pools - 2].mean > pools[n_pools - 1].mean; n_pools--) {
            pool *a = &pools[n_pools - 2], *b = a + 1;
            double weight = a->weight + b->weight;
            *a = (pool){(a->mean * a->weight + b->mean * b->weight) / weight, weight, a->n + b->n};
        }
    }
    for (int32_t p = 0; p < n_pools; p++) {
        double mean = side < 0 ? fmin(pools[p].mean, 0) : side > 0 ? fmax(pools[p].mean, 0) : pools[p].mean;
        for (int32_t k = 0; k < pools[p].n; k++, at++) s->item[row[at]].x = mean + wants[at].offset;
    }
}

static int compare_numbers(const void *a, const void *b) {
    double p = *(const double *)a, q = *(const double *)b;
    return p < q ? -1 : p > q;
}

static int32_t gather(const lmi_sketch *s, const lmi_lists *of, int32_t i, double *near) {
    int32_t n = 0;
    for (int32_t k = of->at[i]; k < of->at[i + 1]; k++) near[n++] = s->item[of->to[k]].x;
    return n;
}

static want wanted(const lmi_sketch *s, const work *w, int32_t i, bool above, bool below) {
    if (is_waypoint(s, i)) {
        const reach *trunk = &w->trunk[s->item[i].source];
        if (!trunk->left || !trunk->right) return (want){trunk->far, 1e3, 0};
    }
    int32_t n = above ? gather(s, &s->above, i, w->near) : 0;
    if (below) n += gather(s, &s->below, i, w->near + n);
    if (n == 0) return (want){s->item[i].x, .1, 0};
    qsort(w->near, (size_t)n, sizeof *w->near, compare_numbers);
    return (want){(w->near[(n - 1) / 2] + w->near[n / 2]) / 2, 1, 0};
}

static void reach_out(reach *trunk, double x) {
    trunk->left = trunk->left || x < -1;
    trunk->right = trunk->right || x > 1;
    if (fabs(x) > fabs(trunk->far)) trunk->far = x;
}

/* The index in its row of the item on the spine, -1 none. */
static int32_t spine_in(const lmi_sketch *s, const int32_t *row, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (!is_waypoint(s, row[i]) && s->spine[row[i]]) return i;
    return -1;
}

static void place_rank(lmi_sketch *s, work *w, int32_t r, bool above, bool below) {
    const int32_t *row = s->row + s->row_at[r], n = s->row_at[r + 1] - s->row_at[r],
                  mid = spine_in(s, row, n);
    for (int32_t i = 0; i < n; i++) w->wants[i] = wanted(s, w, row[i], above, below);
    for (int32_t i = 1; i < n; i++)
        w->wants[i].offset = w->wants[i - 1].offset + distance(s, row[i - 1], row[i]);
    if (mid < 0) {
        settle(s, row, w->wants, n, w->pools, 0);
    } else { /* both sides keep their distance from the spine */
        for (int32_t i = 0, zero = mid; i < n; i++)
            if (i != zero) w->wants[i].offset -= w->wants[zero].offset;
        settle(s, row, w->wants, mid, w->pools, -1);
        settle(s, row + mid + 1, w->wants + mid + 1, n - mid - 1, w->pools, 1);
        s->item[row[mid]].x = 0;
    }
    for (int32_t i = 0; i < n; i++)
        if (is_waypoint(s, row[i])) reach_out(&w->trunk[s->item[row[i]].source], s->item[row[i]].x);
}

/* Places items side by side, with the spine, or else the middle of the row's nodes, at 0. */
static void begin_rank(lmi_sketch *s, int32_t r) {
    const int32_t *row = s->row + s->row_at[r], n = s->row_at[r + 1] - s->row_at[r],
                  mid = spine_in(s, row, n);
    double left = HUGE_VAL, right = -HUGE_VAL;
    for (int32_t i = 0; i < n; i++) {
        lmi_item *at = &s->item[row[i]];
        at->x = i ? s->item[row[i - 1]].x + distance(s, row[i - 1], row[i]) : 0;
        if (is_waypoint(s, row[i])) continue;
        left = fmin(left, at->x - at->w / 2.0);
        right = fmax(right, at->x + at->w / 2.0);
    }
    double zero = mid >= 0 ? s->item[row[mid]].x : (left + right) / 2; /* every rank has a node */
    for (int32_t i = 0; i < n; i++) s->item[row[i]].x -= zero;
}

lam_status lmi_sketch_places(lmi_sketch *s, lam_error *e) {
    work w;
    w.trunk = lmi_alloc(&s->arena, (uint64_t)s->n + 1, sizeof *w.trunk);
    w.pools = lmi_alloc(&s->arena, (uint64_t)s->widest, sizeof *w.pools);
    w.wants = lmi_alloc(&s->arena, (uint64_t)s->widest, sizeof *w.wants);
    w.near = lmi_alloc(&s->arena, (uint64_t)s->n_segments, sizeof *w.near);
    if (!w.trunk || !w.pools || !w.wants || !w.near) return lmi_nomem(e);
    for (int32_t r = 0; r < s->n_ranks; r++) begin_rank(s, r);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        bool down = sweep % 2 == 0, both = sweep >= SWEEPS - BOTH_WAYS;
        memset(w.trunk, 0, ((size_t)s->n + 1) * sizeof *w.trunk);
        for (int32_t i = s->n; i < s->n_items; i++) reach_out(&w.trunk[s->item[i].source], s->item[i].x);
        for (int32_t r = 0; r < s->n_ranks; r++)
            place_rank(s, &w, down ? r : s->n_ranks - 1 - r, down || both, !down || both);
    }
    return LAM_OK;
}
