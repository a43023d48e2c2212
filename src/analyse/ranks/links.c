/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of ranks whose transfer is slow: what the last to arrive still waits, beside the other groups. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

typedef struct links {
    lam_ranks *r;
    int32_t n;       /* groups */
    float *transfer; /* [window * n + group]: the median over steps of the least in a step */
    float *cost;     /* above the middle of the groups, as a share of a step */
    bool *hot;       /* [group * n_wins + window] */
    lmi_arena room;
} links;

static lam_status lay_links(links *l, lam_error *e) {
    lam_ranks *r = l->r;
    const lmi_meet *at = r->meets.data;
    const uint64_t cells = (uint64_t)r->n_wins * (uint64_t)l->n;
    float *least = lmi_alloc(&l->room, (uint64_t)r->n_steps * (uint64_t)l->n, sizeof *least);
    l->transfer = lmi_alloc(&l->room, cells, sizeof *l->transfer);
    l->cost = lmi_alloc(&l->room, cells, sizeof *l->cost);
    l->hot = lmi_alloc(&l->room, cells, sizeof *l->hot);
    if (!least || !l->transfer || !l->cost || !l->hot) return lmi_nomem(e);
    for (uint64_t i = 0; i < (uint64_t)r->n_steps * (uint64_t)l->n; i++) least[i] = NAN;
    for (size_t i = 0; i < r->meets.n; i++) {
        if (at[i].group < 0 || isnan(at[i].group_transfer)) continue;
        float *to = &least[(size_t)at[i].step * (size_t)l->n + (size_t)at[i].group];
        if (!(*to <= at[i].group_transfer)) *to = at[i].group_transfer;
    }
    for (int32_t w = 0, from = 0, end; w < r->n_wins; w++, from = end) {
        while (from < r->n_steps && r->steps[from].win < w) from++;
        for (end = from; end < r->n_steps && r->steps[end].win == w; end++) continue;
        for (int32_t g = 0; g < l->n; g++) {
            for (int32_t i = from; i < end; i++)
                r->room[i - from] = least[(size_t)i * (size_t)l->n + (size_t)g];
            l->transfer[(size_t)w * (size_t)l->n + (size_t)g] =
                (float)lmi_middle(r->room, (size_t)(end - from));
        }
    }
    return LAM_OK;
}

/* Finds the windows in which a group is slow. `above`: room for a number of each window and group. */
static void find_hot(links *l, double *above, double *row) {
    lam_ranks *r = l->r;
    const size_t n = (size_t)l->n, cells = (size_t)r->n_wins * n;
    for (size_t w = 0; w < (size_t)r->n_wins; w++) {
        const float *of = l->transfer + w * n;
        for (size_t g = 0; g < n; g++) row[g] = of[g];
        const double middle = lmi_middle(row, n);
        for (size_t g = 0; g < n; g++) {
            above[w * n + g] = middle > 0 ? fabs(of[g] / middle - 1) : NAN;
            l->cost[w * n + g] = (float)((of[g] - middle) / r->wins[w].step);
        }
    }
    const double usual = lmi_spread(above, cells), spread = usual > 0.02 ? usual : 0.02;
    const double apart = lmi_ranking.group_apart * spread;
    const double least = apart > lmi_ranking.group ? apart : lmi_ranking.group;
    for (size_t w = 0; w < (size_t)r->n_wins; w++) {
        const float *of = l->transfer + w * n;
        for (size_t g = 0; g < n; g++) row[g] = of[g];
        const double middle = lmi_middle(row, n);
        for (size_t g = 0; g < n; g++)
            l->hot[g * (size_t)r->n_wins + w] =
                of[g] / middle - 1 >= least && l->cost[w * n + g] >= lmi_ranking.gain;
    }
}

/* Groups of which a transfer is known. */
static int32_t known_groups(const links *l) {
    int32_t known = 0;
    for (int32_t g = 0; g < l->n; g++) {
        bool any = false;
        for (int32_t w = 0; w < l->r->n_wins; w++)
            any = any || !isnan(l->transfer[(size_t)w * (size_t)l->n + (size_t)g]);
        known += any;
    }
    return known;
}

/* The group that is hot for longest; -1: none, or too many are. */
static int32_t slowest(const links *l, int32_t known, lmi_stretch *when) {
    const int32_t n_wins = l->r->n_wins, wanted = n_wins < LMI_HOT_WINDOWS ? n_wins : LMI_HOT_WINDOWS;
    int32_t best = -1, n_hot = 0;
    *when = (lmi_stretch){0, -1, 0};
    for (int32_t g = 0; g < l->n; g++) {
        const lmi_stretch s = lmi_most_hot(l->hot + (size_t)g * (size_t)n_wins, n_wins);
        n_hot += s.n > 0;
        if (!s.n || s.n < wanted || s.n <= when->n) continue;
        *when = s;
        best = g;
    }
    return n_hot > 1 && n_hot > lmi_ranking.many * known ? -1 : best;
}

/* The nodes of the group's ranks: `named` is set for those. */
static void name_group(lam_ranks *r, int32_t group) {
    const int64_t wanted = ((const int64_t *)r->groups.data)[group];
    for (int32_t i = 0; i < r->n_ranks; i++)
        r->named[i] = r->ranks[i].fact && r->ranks[i].fact->group == wanted;
}

static void tell_link(links *l, int32_t group, const lmi_stretch *when) {
    lam_ranks *r = l->r;
    lam_rank_verdict *v = &r->verdict;
    double steps = 0;
    size_t n = 0;
    for (int32_t w = when->first; w <= when->last; w++)
        r->room[n++] = l->cost[(size_t)w * (size_t)l->n + (size_t)group];
    v->gain = lmi_middle(r->room, n);
    n = 0;
    for (int32_t w = when->first; w <= when->last; w++) r->room[n++] = r->wins[w].step;
    steps = lmi_middle(r->room, n);
    v->step_us = steps;
    v->without_us = steps * (1 - v->gain);
    v->excess_us = steps * v->gain;
    r->period = *when;
    name_group(r, group);
}

lam_status lmi_ranks_links(lam_ranks *r, bool *any, lam_error *e) {
    links l = {.r = r, .n = (int32_t)r->groups.n};
    lmi_stretch when;
    *any = false;
    if (l.n < LMI_PEERS) return LAM_OK;
    lmi_arena_init(&l.room, UINT64_MAX);
    lam_status s = lay_links(&l, e);
    if (s == LAM_OK && known_groups(&l) >= LMI_PEERS) {
        double *above = lmi_alloc(&l.room, (uint64_t)r->n_wins * (uint64_t)l.n, sizeof *above);
        double *row = lmi_alloc(&l.room, (uint64_t)l.n, sizeof *row);
        if (above && row) find_hot(&l, above, row);
        const int32_t group = above && row ? slowest(&l, known_groups(&l), &when) : -1;
        if (!above || !row) s = lmi_nomem(e);
        if (group >= 0) tell_link(&l, group, &when);
        *any = group >= 0;
    }
    lmi_arena_free(&l.room);
    return s;
}
