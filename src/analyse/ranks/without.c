/* SPDX-License-Identifier: Apache-2.0
 *
 * What all would gain if some ranks were like the others: a step ends when the last rank has done its own
 * work, so without the late ones it ends when the last of the others has. Several culprits hide each other
 * one by one, not together. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

/* A candidate: a rank, or a node of which at least half of the ranks are candidates. */
typedef struct unit {
    int32_t node, col; /* -1: the other */
    int32_t order;     /* in which it was found */
    double late;
} unit;

typedef struct trial {
    lam_ranks *r;
    unit *units;
    int32_t n;
    int32_t *of_node, *of_col; /* the unit; -1: none */
    float *own;   /* [step * n + unit]: own work, -INFINITY: not among the last two of its node */
    double *rest; /* of each step the last of all others; NaN: not known */
    lmi_arena room;
} trial;

static int latest_first(const void *a, const void *b) {
    const unit *x = a, *y = b;
    if (x->late != y->late) return x->late > y->late ? -1 : 1;
    return x->order - y->order;
}

/* The median lateness of a node's candidates; `score`: of each rank. */
static double late_node(const lam_ranks *r, int32_t node, const double *score) {
    size_t n = 0;
    for (int32_t i = 0; i < r->n_ranks; i++)
        if (r->found[i].n && r->ranks[i].node == node) r->room[n++] = score[i];
    return lmi_middle(r->room, n);
}

static bool is_whole_node(const lam_ranks *r, int32_t node) {
    int32_t found = 0;
    const int32_t size = lmi_ranks_size_of(r, node);
    for (int32_t i = 0; i < r->n_ranks; i++) found += r->found[i].n && r->ranks[i].node == node;
    return node >= 0 && found >= 2 && 2 * found >= size;
}

static lam_status list_units(trial *t, lam_error *e) {
    lam_ranks *r = t->r;
    const int32_t found = lmi_ranks_n_found(r);
    double *score = lmi_alloc(&t->room, (uint64_t)r->n_ranks, sizeof *score);
    t->units = lmi_alloc(&t->room, (uint64_t)found, sizeof *t->units);
    t->of_node = lmi_alloc_none(&t->room, (int32_t)r->nodes.n);
    t->of_col = lmi_alloc_none(&t->room, r->n_ranks);
    if (!score || !t->units || !t->of_node || !t->of_col) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_ranks; i++)
        if (r->found[i].n) score[i] = lmi_ranks_late_in(r, i, &r->found[i]);
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const int32_t node = r->ranks[i].node;
        if (!r->found[i].n || (node >= 0 && t->of_node[node] >= 0)) continue;
        const bool whole = is_whole_node(r, node);
        if (whole) t->of_node[node] = t->n;
        t->units[t->n] =
            whole ? (unit){node, -1, t->n, late_node(r, node, score)} : (unit){-1, i, t->n, score[i]};
        t->n++;
    }
    qsort(t->units, (size_t)t->n, sizeof *t->units, latest_first);
    if (t->n > LMI_UNITS) t->n = LMI_UNITS;
    for (size_t i = 0; i < r->nodes.n; i++) t->of_node[i] = -1;
    for (int32_t u = 0; u < t->n; u++) {
        if (t->units[u].node >= 0)
            t->of_node[t->units[u].node] = u;
        else
            t->of_col[t->units[u].col] = u;
    }
    return LAM_OK;
}

static int32_t unit_of(const trial *t, int32_t rank) {
    const int32_t col = lmi_ranks_col(t->r, rank);
    return col < 0 ? -1 : t->of_col[col];
}

static void raise_own(trial *t, int32_t step, int32_t u, float own) {
    float *at = &t->own[(size_t)step * (size_t)t->n + (size_t)u];
    if (own > *at) *at = own;
}

static void raise_rest(trial *t, int32_t step, float own) {
    if (!isnan(own) && !(t->rest[step] >= own)) t->rest[step] = own;
}

static lam_status lay_trial(trial *t, lam_error *e) {
    lam_ranks *r = t->r;
    const lmi_meet *at = r->meets.data;
    const uint64_t cells = (uint64_t)r->n_steps * (uint64_t)t->n;
    t->own = lmi_alloc(&t->room, cells, sizeof *t->own);
    t->rest = lmi_alloc(&t->room, (uint64_t)r->n_steps, sizeof *t->rest);
    if (!t->own || !t->rest) return lmi_nomem(e);
    for (uint64_t i = 0; i < cells; i++) t->own[i] = -INFINITY;
    for (int32_t i = 0; i < r->n_steps; i++) t->rest[i] = NAN;
    for (size_t i = 0; i < r->meets.n; i++) {
        const lmi_meet *m = &at[i];
        const int32_t node = t->of_node[m->node];
        const int32_t last = unit_of(t, m->last_rank), second = unit_of(t, m->second_rank);
        if (node >= 0) {
            raise_own(t, m->step, node, m->last);
            continue;
        }
        if (last >= 0) raise_own(t, m->step, last, m->last);
        if (second >= 0) raise_own(t, m->step, second, m->second);
        if (last < 0 && m->last_rank >= 0)
            raise_rest(t, m->step, m->last);
        else if (second < 0 && m->second_rank >= 0)
            raise_rest(t, m->step, m->second);
    }
    return LAM_OK;
}

/* A node tells its last two ranks: where these are candidates on every node, the last of the others in a step
 * is not known. It is taken to be the greatest median of its window then. */
static lam_status fill_rest(trial *t, lam_error *e) {
    const lam_ranks *r = t->r;
    float *own = lmi_alloc(&t->room, (uint64_t)r->n_wins * (uint64_t)r->n_ranks, sizeof *own);
    double *most = lmi_alloc(&t->room, (uint64_t)r->n_wins, sizeof *most);
    if (!own || !most) return lmi_nomem(e);
    lmi_ranks_spread(r, LMI_US_OWN, own);
    for (int32_t w = 0; w < r->n_wins; w++) {
        most[w] = NAN;
        for (int32_t i = 0; i < r->n_ranks; i++) {
            const float of = own[(size_t)w * (size_t)r->n_ranks + (size_t)i];
            const int32_t node = r->ranks[i].node;
            if (t->of_col[i] >= 0 || (node >= 0 && t->of_node[node] >= 0) || isnan(of)) continue;
            if (!(most[w] >= of)) most[w] = of;
        }
    }
    for (int32_t i = 0; i < r->n_steps; i++)
        if (isnan(t->rest[i]) && r->steps[i].win >= 0) t->rest[i] = most[r->steps[i].win];
    return LAM_OK;
}

static bool is_of(const lam_ranks *r, const unit *u, int32_t col) {
    return u->node >= 0 ? u->node == r->ranks[col].node : u->col == col;
}

/* The windows of the candidates that are at least half as late as the latest. */
static lmi_stretch period_of(const trial *t) {
    const lam_ranks *r = t->r;
    lmi_stretch p = {INT32_MAX, -1, 1};
    for (int32_t u = 0; u < t->n; u++) {
        if (!(t->units[u].late >= 0.5 * t->units[0].late)) continue;
        for (int32_t i = 0; i < r->n_ranks; i++) {
            if (!is_of(r, &t->units[u], i) || !r->found[i].n) continue;
            if (r->found[i].first < p.first) p.first = r->found[i].first;
            if (r->found[i].last > p.last) p.last = r->found[i].last;
        }
    }
    return p;
}

/* gain[k]: the share of a step if the first k units were like the others. */
static void gains(const trial *t, const lmi_stretch *p, double *gain, double *step) {
    const lam_ranks *r = t->r;
    double total = 0, steps = 0;
    for (int32_t k = 0; k <= t->n; k++) gain[k] = 0;
    for (int32_t i = 0; i < r->n_steps; i++) {
        if (!lmi_in(&r->steps[i], p) || isnan(t->rest[i]) || isnan(r->steps[i].whole)) continue;
        const float *own = t->own + (size_t)i * (size_t)t->n;
        const double weight = r->steps[i].weight;
        double whole = t->rest[i], last = t->rest[i];
        for (int32_t u = 0; u < t->n; u++)
            if (own[u] > whole) whole = own[u];
        for (int32_t k = t->n; k >= 0; k--) {
            if (k < t->n && own[k] > last) last = own[k];
            gain[k] += weight * (whole - last);
        }
        total += weight * r->steps[i].whole;
        steps += weight;
    }
    for (int32_t k = 0; k <= t->n; k++) gain[k] = total > 0 ? gain[k] / total : 0;
    *step = steps > 0 ? total / steps : NAN;
}

/* Of few ranks a few stalls make one late on average. One that is slow is last in most steps, and in clearly
 * more than chance would make it: half of the way from its share of the units to all steps. */
static bool are_last(const trial *t, const lmi_stretch *p, int32_t n) {
    const lam_ranks *r = t->r;
    int64_t steps = 0, last = 0;
    if (r->n_ranks > LMI_FEW_RANKS) return true;
    for (int32_t i = 0; i < r->n_steps; i++) {
        if (!lmi_in(&r->steps[i], p) || isnan(t->rest[i])) continue;
        const float *own = t->own + (size_t)i * (size_t)t->n;
        double others = t->rest[i], theirs = -INFINITY;
        for (int32_t u = 0; u < t->n; u++) {
            double *of = u < n ? &theirs : &others;
            if (own[u] > *of) *of = own[u];
        }
        steps++;
        last += theirs > others;
    }
    int32_t named = 0;
    for (int32_t i = 0; i < r->n_ranks; i++)
        for (int32_t u = 0; u < n; u++) named += is_of(r, &t->units[u], i);
    return 2.0 * (double)last >= (1 + (double)named / r->n_ranks) * (double)steps;
}

/* A rank that waits for a processor works slower too, since its caches are cold after each wait: what it
 * takes longer has to be more than that. */
static bool is_more_than_starving(const trial *t, const lmi_stretch *p, int32_t n) {
    const lam_ranks *r = t->r;
    const lmi_window *at = r->windows.data;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        double excess = 0, wait = 0;
        bool named = false;
        for (int32_t u = 0; u < n; u++) named = named || is_of(r, &t->units[u], i);
        for (size_t k = 0; named && k < r->windows.n; k++) {
            if (at[k].col != i || at[k].win < p->first || at[k].win > p->last) continue;
            const double late = r->late[(size_t)at[k].win * (size_t)r->n_ranks + (size_t)i];
            if (isnan(late) || isnan(at[k].of[LMI_US_PROCESSOR])) continue;
            excess += at[k].of[LMI_US_OWN] * late / (1 + late);
            wait += at[k].of[LMI_US_PROCESSOR];
        }
        if (excess < lmi_ranking.beside * wait) return false;
    }
    return true;
}

static lam_status decide(trial *t, bool *any, lam_error *e) {
    lam_ranks *r = t->r;
    lam_rank_verdict *v = &r->verdict;
    const lmi_stretch p = period_of(t);
    double step, *gain = lmi_alloc(&t->room, (uint64_t)t->n + 1, sizeof *gain);
    int32_t n = 1;
    if (!gain) return lmi_nomem(e);
    gains(t, &p, gain, &step);
    if (gain[t->n] < lmi_ranking.gain) return LAM_OK;
    while (n < t->n && gain[n] < lmi_ranking.most_of * gain[t->n]) n++;
    if (!are_last(t, &p, n) || !is_more_than_starving(t, &p, n)) return LAM_OK;
    for (int32_t u = 0; u < n; u++)
        for (int32_t i = 0; i < r->n_ranks; i++)
            if (r->found[i].n && is_of(r, &t->units[u], i)) r->named[i] = true;
    r->period = p;
    v->gain = gain[n];
    v->step_us = step;
    v->without_us = step * (1 - gain[n]);
    *any = true;
    return LAM_OK;
}

lam_status lmi_ranks_without(lam_ranks *r, bool *any, lam_error *e) {
    trial t = {.r = r};
    *any = false;
    lmi_arena_init(&t.room, UINT64_MAX);
    lam_status s = list_units(&t, e);
    if (s == LAM_OK) s = lay_trial(&t, e);
    if (s == LAM_OK) s = fill_rest(&t, e);
    if (s == LAM_OK) s = decide(&t, any, e);
    lmi_arena_free(&t.room);
    return s;
}
