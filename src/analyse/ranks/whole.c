/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts without a name: what a step loses to other programs on its processor, to the transfer, to the
 * data, to the last rank, to one stage of a pipeline; or that all became slower. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

enum { FEW_TIMES = 5 };            /* fewer steps say nothing about a rank */
static const double CHANCE = 1e-4; /* that a rank is said to be last alone which is not */

/* How much more own work the longest stage has than the middle one, in a step; 0: there is one stage. */
static lam_status stages_apart(lam_ranks *r, double *out, int32_t *n_stages, lam_error *e) {
    const lmi_window *at = r->windows.data;
    int32_t n;
    int64_t *trees = lmi_ranks_trees(r, &n);
    double most = NAN, *of = malloc(((size_t)r->n_ranks + 1) * sizeof *of);
    *out = 0;
    if (!trees || !of) {
        free(trees);
        free(of);
        return lmi_nomem(e);
    }
    for (int32_t t = 0; t < n && n > 1; t++) {
        size_t k = 0;
        for (size_t i = 0; i < r->windows.n; i++)
            if (at[i].win >= 0 && r->ranks[at[i].col].tree == trees[t]) r->room[k++] = at[i].of[LMI_US_OWN];
        of[t] = lmi_middle(r->room, k);
        if (!(most >= of[t])) most = of[t];
    }
    *n_stages = n;
    if (n > 1) *out = most - lmi_middle(of, (size_t)n);
    free(trees);
    free(of);
    return LAM_OK;
}

/* The share of a step that ranks wait for their input: the median. */
static double input_share(const lam_ranks *r) {
    const lmi_window *at = r->windows.data;
    size_t n = 0;
    for (size_t i = 0; i < r->windows.n; i++)
        if (at[i].win >= 0 && at[i].of[LMI_US_STEP] > 0)
            r->room[n++] = at[i].of[LMI_US_INPUT] / at[i].of[LMI_US_STEP];
    return lmi_middle(r->room, n);
}

/* Steps and transfers of the windows that have steps; at[k]: which window the k-th is. */
static int32_t by_window(const lam_ranks *r, double *steps, double *transfers, int32_t *at) {
    int32_t n = 0;
    for (int32_t w = 0, from = 0, end; w < r->n_wins; w++, from = end) {
        while (from < r->n_steps && r->steps[from].win < w) from++;
        for (end = from; end < r->n_steps && r->steps[end].win == w; end++) continue;
        if (end == from) continue;
        at[n] = w;
        steps[n] = r->wins[w].step;
        transfers[n++] = r->wins[w].transfer;
    }
    return n;
}

static void tell(lam_ranks *r, lam_rank_kind kind, double gain, int32_t from) {
    r->verdict.kind = kind;
    r->verdict.gain = gain;
    if (from >= 0) r->period = (lmi_stretch){from, r->n_wins - 1, 1};
}

/* -- who is last alone --------------------------------------------------------------------------------- */

/* True if chance can't make one of `ranks` the last in `k` of `n` steps: by Chernoff's bound, for any rank.
 */
static bool is_no_chance(int64_t k, int64_t n, int32_t ranks) {
    const double share = (double)k / (double)n, p = 1.0 / ranks;
    if (k < FEW_TIMES || share <= p) return false;
    const double rest = share < 1 ? (1 - share) * log((1 - share) / (1 - p)) : 0;
    return (double)n * (share * log(share / p) + rest) > log(ranks / CHANCE);
}

/* Steps may wait for one rank most of the time that they wait at all, though it is late in few of them: it
 * saves checkpoints, or writes logs. The median of a window does not show that. */
static lam_status who_is_last_alone(lam_ranks *r, lam_error *e) {
    const size_t n = (size_t)r->n_ranks;
    double all = 0, *more = calloc(2 * n + 1, sizeof *more);
    int64_t steps = 0;
    if (!more) return lmi_nomem(e);
    double *times = more + n;
    for (int32_t i = 0; i < r->n_steps; i++) {
        const lmi_step *s = &r->steps[i];
        const double by = s->last - s->second;
        const int32_t col = lmi_ranks_col(r, s->last_rank);
        if (col < 0 || isnan(by) || !(by >= lmi_ranking.late * s->own)) continue;
        more[col] += s->weight * by;
        times[col]++;
        all += s->weight * by;
        steps++;
    }
    for (size_t i = 0; i < n; i++)
        if (more[i] >= lmi_ranking.cause * all && is_no_chance((int64_t)times[i], steps, r->n_ranks)) {
            r->alone_rank = r->ranks[i].rank;
            r->alone_steps = (int64_t)times[i];
        }
    free(more);
    return LAM_OK;
}

static lam_status decide(lam_ranks *r, double *steps, double *transfers, int32_t *at, lam_error *e) {
    lmi_rise rose, moved = {-1, 0, 0};
    double stages;
    int32_t n_stages = 1;
    const bool apart = r->waits == LAM_WAITS_APART;
    const int32_t n = by_window(r, steps, transfers, at);
    LAM_TRY(lmi_rise_of(steps, n, &rose, e));
    if (apart) LAM_TRY(lmi_rise_of(transfers, n, &moved, e));
    LAM_TRY(stages_apart(r, &stages, &n_stages, e));
    const double whole = r->mean_step;
    const double input = input_share(r), usual = lmi_middle(steps, (size_t)n);
    const bool alike = n_stages == 1;        /* what a stage of a pipeline waits is not all transfer */
    if (r->starved >= lmi_ranking.processor) /* the threads of the transfer wait for it too */
        tell(r, LAM_RANKS_PROCESSOR, r->starved, -1);
    else if (alike && moved.at >= 0 && moved.share >= lmi_ranking.moved &&
             moved.by / usual >= lmi_ranking.gain)
        tell(r, LAM_RANKS_NETWORK, moved.by / usual, at[moved.at]);
    else if (alike && apart && r->mean_transfer / whole >= lmi_ranking.network)
        tell(r, LAM_RANKS_NETWORK, r->mean_transfer / whole, -1);
    else if (input >= lmi_ranking.input)
        tell(r, LAM_RANKS_INPUT, input, -1);
    else if (rose.at >= 0 && rose.share >= lmi_ranking.slower)
        tell(r, LAM_RANKS_SLOWER, rose.share, at[rose.at]);
    else if (apart && r->mean_late / whole >= lmi_ranking.jitter && r->verdict.kind == LAM_RANKS_NONE)
        tell(r, LAM_RANKS_JITTER, r->mean_late / whole, -1);
    const lam_rank_kind k = r->verdict.kind;
    if (stages / whole >= lmi_ranking.stages && (k == LAM_RANKS_NONE || k == LAM_RANKS_JITTER))
        tell(r, LAM_RANKS_STAGES, stages / whole, -1);
    if (r->verdict.kind == LAM_RANKS_JITTER) LAM_TRY(who_is_last_alone(r, e));
    r->verdict.step_us = whole;
    return LAM_OK;
}

lam_status lmi_ranks_whole(lam_ranks *r, lam_error *e) {
    const size_t n = (size_t)r->n_wins + 1;
    double *room = malloc(2 * n * sizeof *room);
    int32_t *at = malloc(n * sizeof *at);
    lam_status s = room && at ? decide(r, room, room + n, at, e) : lmi_nomem(e);
    free(room);
    free(at);
    return s;
}
