/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of nodes: a node is below everything that it reads. The spine is a longest path to the last node,
 * and is drawn as a straight line. */
#include "draw/sketch.h"

lam_status lmi_sketch_lists(lmi_arena *a, lmi_lists *out, int32_t n, int32_t m, const lmi_line_ends *line,
                            bool by_to, lam_error *e) {
    lmi_groups g;
    int32_t *keys = lmi_alloc(a, (uint64_t)m, sizeof *keys);
    for (int32_t i = 0; keys && i < m; i++) keys[i] = by_to ? line[i].to : line[i].from;
    if (!keys || !lmi_group_by(a, keys, m, n, &g)) return lmi_nomem(e);
    for (int32_t i = 0; i < m; i++) g.order[i] = by_to ? line[g.order[i]].from : line[g.order[i]].to;
    *out = (lmi_lists){g.start, g.order};
    return LAM_OK;
}

/* Sorts the lines by source, then by reader, and removes duplicates: two counting sorts, first by reader. */
static lam_status sort_lines(lmi_sketch *s, int32_t m, const lmi_line_ends *line, lam_error *e) {
    lmi_lists of;
    s->line = lmi_alloc(&s->arena, (uint64_t)m, sizeof *s->line);
    if (!s->line) return lmi_nomem(e);
    LAM_TRY(lmi_sketch_lists(&s->arena, &of, s->n, m, line, true, e));
    for (int32_t v = 0, k = 0; v < s->n; v++)
        for (; k < of.at[v + 1]; k++) s->line[k] = (lmi_line_ends){of.to[k], v};
    LAM_TRY(lmi_sketch_lists(&s->arena, &of, s->n, m, s->line, false, e));
    for (int32_t v = 0; v < s->n; v++)
        for (int32_t k = of.at[v]; k < of.at[v + 1]; k++)
            if (k == of.at[v] || of.to[k] != of.to[k - 1]) s->line[s->m++] = (lmi_line_ends){v, of.to[k]};
    LAM_TRY(lmi_sketch_lists(&s->arena, &s->readers, s->n, s->m, s->line, false, e));
    return lmi_sketch_lists(&s->arena, &s->sources, s->n, s->m, s->line, true, e);
}

static void find_ranks(lmi_sketch *s) {
    for (int32_t i = 0; i < s->m; i++) { /* by source, so the rank of a source is known */
        int32_t below = s->rank[s->line[i].from] + 1, *rank = &s->rank[s->line[i].to];
        if (below > *rank) *rank = below;
    }
    for (int32_t v = 0; v < s->n; v++)
        if (s->rank[v] >= s->n_ranks) s->n_ranks = s->rank[v] + 1;
}

/* Moves a node that reads nothing to the rank just above its first reader. Another node always stays in rank
 * 0. */
static void lower_inputs(lmi_sketch *s) {
    for (int32_t v = 0; v < s->n; v++) {
        int32_t first = s->n_ranks;
        if (s->sources.at[v] < s->sources.at[v + 1]) continue;
        for (int32_t k = s->readers.at[v]; k < s->readers.at[v + 1]; k++)
            if (s->rank[s->readers.to[k]] < first) first = s->rank[s->readers.to[k]];
        if (first < s->n_ranks) s->rank[v] = first - 1;
    }
}

/* The `want`-th of the sources of v on a longest path to it (want -1: none); *n: their number. */
static int32_t near_source(const lmi_sketch *s, int32_t v, int32_t want, int32_t *n) {
    int32_t found = -1;
    *n = 0;
    for (int32_t k = s->sources.at[v]; k < s->sources.at[v + 1]; k++)
        if (s->rank[s->sources.to[k]] == s->rank[v] - 1 && (*n)++ == want) found = s->sources.to[k];
    return found;
}

/* Finds the `gate` of each node v: the last node before v that all longest paths to v pass, -1 none; and its
 * `depth`: the number of gates before it. */
static void find_gates(const lmi_sketch *s, int32_t *gate, int32_t *depth) {
    for (int32_t v = 0; v < s->n; v++) {
        bool first = true;
        gate[v] = -1;
        for (int32_t k = s->sources.at[v]; k < s->sources.at[v + 1]; k++) {
            int32_t a = s->sources.to[k], b = gate[v];
            if (s->rank[a] != s->rank[v] - 1) continue;
            while (!first && a != b) { /* up from the deeper one to the common gate */
                int32_t *deeper = b < 0 || (a >= 0 && depth[a] >= depth[b]) ? &a : &b;
                *deeper = gate[*deeper];
            }
            gate[v] = a;
            first = false;
        }
        depth[v] = gate[v] < 0 ? 0 : depth[gate[v]] + 1;
    }
}

/* If there is an odd number of equally long branches, the spine follows the middle one. With an even number
 * the spine has a gap, and the branches are on both sides of it. */
static lam_status find_spine(lmi_sketch *s, lam_error *e) {
    int32_t *gate = lmi_alloc(&s->arena, (uint64_t)s->n, sizeof *gate), last = s->n - 1, n;
    int32_t *depth = lmi_alloc(&s->arena, (uint64_t)s->n, sizeof *depth);
    if (!gate || !depth) return lmi_nomem(e);
    find_gates(s, gate, depth);
    for (int32_t v = s->n - 1; v >= 0 && s->rank[s->n - 1] == 0; v--) /* the last node reads nothing */
        if (s->rank[v] > s->rank[last]) last = v;
    while (last >= 0) {
        s->spine[last] = true;
        (void)near_source(s, last, -1, &n);
        last = n % 2 ? near_source(s, last, n / 2, &n) : n ? gate[last] : -1;
    }
    return LAM_OK;
}

lam_status lmi_sketch_ranks(lmi_sketch *s, int32_t m, const lmi_line_ends *line, lam_error *e) {
    s->rank = lmi_alloc(&s->arena, (uint64_t)s->n, sizeof *s->rank);
    s->spine = lmi_alloc(&s->arena, (uint64_t)s->n, sizeof *s->spine);
    if (!s->rank || !s->spine) return lmi_nomem(e);
    LAM_TRY(sort_lines(s, m, line, e));
    find_ranks(s);
    LAM_TRY(find_spine(s, e));
    lower_inputs(s);
    return LAM_OK;
}
