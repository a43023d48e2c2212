/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of items in each rank. At first nodes are in order of execution, with waypoints to the right of
 * them. Then every item moves to the mean of its neighbours, in sweeps down and up; the order with the fewest
 * crossings is kept. */
#include "draw/sketch.h"

#include <stdlib.h>

enum { SWEEPS = 24 };

typedef struct wish {
    double where;
    int32_t pos, item;
} wish;

static int compare_wishes(const void *a, const void *b) {
    const wish *p = a, *q = b;
    if (p->where != q->where) return p->where < q->where ? -1 : 1;
    return p->pos < q->pos ? -1 : p->pos > q->pos;
}

static void sort_rank(lmi_sketch *s, int32_t r, const lmi_lists *by, wish *wishes) {
    int32_t *row = s->row + s->row_at[r], n = s->row_at[r + 1] - s->row_at[r];
    for (int32_t i = 0; i < n; i++) {
        int32_t v = row[i], k = by->at[v], end = by->at[v + 1];
        double sum = 0;
        for (; k < end; k++) sum += s->item[by->to[k]].pos;
        wishes[i] = (wish){end > by->at[v] ? sum / (end - by->at[v]) : i, i, v};
    }
    qsort(wishes, (size_t)n, sizeof *wishes, compare_wishes);
    for (int32_t i = 0; i < n; i++) {
        row[i] = wishes[i].item;
        s->item[row[i]].pos = i;
    }
}

/* Two segments cross if their ends are in opposite orders. Walking from the left, a Fenwick tree over the
 * lower positions counts the earlier segments that end to the right of the present one. */
static int64_t crossings_below(const lmi_sketch *s, int32_t r, int32_t *tree) {
    int32_t n = s->row_at[r + 2] - s->row_at[r + 1], before = 0;
    int64_t crossings = 0;
    memset(tree, 0, ((size_t)n + 1) * sizeof *tree);
    for (int32_t i = s->row_at[r]; i < s->row_at[r + 1]; i++) {
        int32_t v = s->row[i], first = s->below.at[v], end = s->below.at[v + 1];
        for (int32_t k = first; k < end; k++) {
            crossings += before;
            for (int32_t at = s->item[s->below.to[k]].pos + 1; at > 0; at -= at & -at) crossings -= tree[at];
        }
        for (int32_t k = first; k < end; k++)
            for (int32_t at = s->item[s->below.to[k]].pos + 1; at <= n; at += at & -at) tree[at]++;
        before += end - first;
    }
    return crossings;
}

static int64_t count_crossings(const lmi_sketch *s, int32_t *tree) {
    int64_t crossings = 0;
    for (int32_t r = 0; r + 1 < s->n_ranks; r++) crossings += crossings_below(s, r, tree);
    return crossings;
}

static void number(lmi_sketch *s) {
    for (int32_t r = 0; r < s->n_ranks; r++)
        for (int32_t i = s->row_at[r]; i < s->row_at[r + 1]; i++) s->item[s->row[i]].pos = i - s->row_at[r];
}

static lam_status begin(lmi_sketch *s, lam_error *e) {
    lmi_groups rows;
    int32_t *rank = lmi_alloc(&s->arena, (uint64_t)s->n_items, sizeof *rank);
    for (int32_t i = 0; rank && i < s->n_items; i++) rank[i] = s->item[i].rank;
    if (!rank || !lmi_group_by(&s->arena, rank, s->n_items, s->n_ranks, &rows)) return lmi_nomem(e);
    s->row_at = rows.start;
    s->row = rows.order;
    s->widest = 0;
    for (int32_t r = 0; r < s->n_ranks; r++)
        if (s->row_at[r + 1] - s->row_at[r] > s->widest) s->widest = s->row_at[r + 1] - s->row_at[r];
    number(s);
    return LAM_OK;
}

lam_status lmi_sketch_order(lmi_sketch *s, lam_error *e) {
    LAM_TRY(begin(s, e));
    size_t bytes = (size_t)s->n_items * sizeof *s->row;
    int32_t *best = lmi_copy(&s->arena, s->row, (uint64_t)s->n_items, sizeof *best);
    int32_t *tree = lmi_alloc(&s->arena, (uint64_t)s->widest + 1, sizeof *tree);
    wish *wishes = lmi_alloc(&s->arena, (uint64_t)s->widest, sizeof *wishes);
    if (!best || !tree || !wishes) return lmi_nomem(e);
    s->crossings = count_crossings(s, tree);
    for (int sweep = 0; sweep < SWEEPS && s->crossings; sweep++) {
        bool down = sweep % 2 == 0;
        for (int32_t r = 1; r < s->n_ranks; r++)
            sort_rank(s, down ? r : s->n_ranks - 1 - r, down ? &s->above : &s->below, wishes);
        int64_t now = count_crossings(s, tree);
        if (now >= s->crossings) continue;
        s->crossings = now;
        memcpy(best, s->row, bytes);
    }
    memcpy(s->row, best, bytes);
    number(s);
    return LAM_OK;
}
