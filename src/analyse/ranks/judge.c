/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict: first ranks that are slow and cost all something, then a slow group, then who died, then what
 * all of them lose. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static lam_status tell_watch(lam_ranks *r, lam_error *e) {
    int32_t *watch = lmi_alloc(&r->arena, (uint64_t)lmi_ranks_n_found(r), sizeof *watch);
    if (!watch) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_ranks; i++)
        if (r->found[i].n) watch[r->verdict.n_watch++] = r->ranks[i].rank;
    r->verdict.watch = watch;
    return LAM_OK;
}

static lam_status tell_ranks(lam_ranks *r, lam_error *e) {
    int32_t n = 0, *ranks = lmi_alloc(&r->arena, (uint64_t)r->n_ranks, sizeof *ranks);
    if (!ranks) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_ranks; i++)
        if (r->named[i]) ranks[n++] = r->ranks[i].rank;
    r->verdict.ranks = ranks;
    r->verdict.n_ranks = n;
    return LAM_OK;
}

/* The nodes of the named ranks, each once, by name. */
static lam_status tell_nodes(lam_ranks *r, lam_error *e) {
    const char **nodes = lmi_alloc(&r->arena, r->nodes.n, sizeof *nodes);
    bool *seen = lmi_alloc(&r->arena, r->nodes.n, sizeof *seen);
    int32_t n = 0;
    if (!nodes || !seen) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const int32_t node = r->ranks[i].node;
        if (!r->named[i] || node < 0 || seen[node]) continue;
        seen[node] = true;
        nodes[n++] = lmi_ranks_node_name(r, node);
    }
    qsort(nodes, (size_t)n, sizeof *nodes, by_name);
    r->verdict.nodes = nodes;
    r->verdict.n_nodes = n;
    return LAM_OK;
}

void lmi_ranks_since(const lam_ranks *r, int32_t win, int64_t *attempt, int64_t *step, int64_t *us) {
    int32_t i = 0;
    while (i < r->n_steps && r->steps[i].win < win) i++;
    *attempt = i < r->n_steps ? r->steps[i].attempt : LAM_NOT_KNOWN;
    *step = i < r->n_steps ? r->steps[i].step : LAM_NOT_KNOWN;
    *us = i < r->n_steps ? r->steps[i].started : LAM_NOT_KNOWN;
}

/* When the period begins: at its first step. */
static void tell_since(lam_ranks *r) {
    lam_rank_verdict *v = &r->verdict;
    if (r->period.n) lmi_ranks_since(r, r->period.first, &v->since_attempt, &v->since_step, &v->since_us);
}

/* How late the named are while they are, beside their peers. */
static lam_status tell_late(lam_ranks *r, lam_error *e) {
    double *of = malloc(((size_t)r->n_ranks + 1) * sizeof *of);
    size_t n = 0;
    if (!of) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_ranks; i++)
        if (r->named[i]) of[n++] = lmi_ranks_late_in(r, i, &r->period);
    r->verdict.late = lmi_middle(of, n);
    free(of);
    return LAM_OK;
}

/* True if on each node of a named rank at least half of its ranks are named. */
static bool are_nodes(const lam_ranks *r) {
    for (int32_t i = 0; i < r->n_ranks; i++) {
        int32_t n = 0;
        if (!r->named[i]) continue;
        for (int32_t k = 0; k < r->n_ranks; k++) n += r->named[k] && r->ranks[k].node == r->ranks[i].node;
        if (r->ranks[i].node < 0 || n < 2 || 2 * n < lmi_ranks_size_of(r, r->ranks[i].node)) return false;
    }
    return true;
}

/* More candidates than could be stragglers, unless they are one node. */
static bool is_uneven(const lam_ranks *r) {
    const int32_t n = lmi_ranks_n_found(r);
    int32_t node = -1;
    bool one = true;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        if (!r->found[i].n) continue;
        if (node >= 0 && r->ranks[i].node != node) one = false;
        node = r->ranks[i].node;
    }
    one = one && node >= 0 && n == lmi_ranks_size_of(r, node) && 2 * n <= r->n_ranks;
    return n > 1 && n > lmi_ranking.many * r->n_ranks && r->n_ranks > LMI_PEERS && !one;
}

static lam_status judge_slow(lam_ranks *r, lam_give_layers layers, void *self, bool *any, lam_error *e) {
    const int32_t n = lmi_ranks_n_found(r);
    *any = false;
    LAM_TRY(tell_watch(r, e));
    if (n && is_uneven(r)) {
        r->verdict.kind = LAM_RANKS_UNEVEN;
        return LAM_OK;
    }
    if (n) LAM_TRY(lmi_ranks_without(r, any, e));
    if (!*any) return LAM_OK;
    LAM_TRY(tell_ranks(r, e));
    LAM_TRY(tell_late(r, e));
    LAM_TRY(lmi_ranks_cause(r, e));
    tell_since(r);
    const bool nodes = are_nodes(r);
    r->verdict.kind = nodes ? LAM_RANKS_SLOW_NODE : LAM_RANKS_SLOW_RANK;
    if (nodes) return tell_nodes(r, e);
    const bool compute = r->verdict.phase && strcmp(r->verdict.phase, "compute") == 0;
    return compute ? lmi_ranks_layer(r, layers, self, e) : LAM_OK;
}

static lam_status tell_died(lam_ranks *r, const bool *dead, lam_error *e) {
    r->named = lmi_copy(&r->arena, dead, (uint64_t)r->n_ranks, sizeof *dead);
    if (!r->named) return lmi_nomem(e);
    r->verdict.kind = LAM_RANKS_DIED;
    LAM_TRY(tell_ranks(r, e));
    const int32_t col = lmi_ranks_col(r, r->verdict.ranks[0]);
    const lmi_fact *f = r->ranks[col].fact;
    r->verdict.ended_by = f ? f->ended_by : NULL;
    r->verdict.ran_last = f ? f->ran_last : NULL;
    return LAM_OK;
}

static lam_status judge_rest(lam_ranks *r, const bool *dead, bool died, lam_error *e) {
    bool link;
    LAM_TRY(lmi_ranks_links(r, &link, e));
    if (link) {
        r->verdict.kind = LAM_RANKS_SLOW_LINK;
        tell_since(r);
        return tell_nodes(r, e);
    }
    if (!died) {
        LAM_TRY(lmi_ranks_whole(r, e));
        tell_since(r);
        return LAM_OK;
    }
    return tell_died(r, dead, e);
}

static lam_status note_missing(lam_ranks *r, lam_error *e) {
    int32_t n = 0, *missing = r->n_ranks < r->world ? malloc((size_t)r->world * sizeof *missing) : NULL;
    if (r->n_ranks >= r->world) return LAM_OK;
    if (!missing) return lmi_nomem(e);
    for (int32_t i = 0; i < r->world; i++)
        if (lmi_ranks_col(r, i) < 0) missing[n++] = i;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_ranges(&b, missing, n);
    free(missing);
    lam_status s =
        !n ? LAM_OK
           : lmi_ranks_note(
                 r, e,
                 "%d of %d ranks have no recording that can be compared (%s); a cause may be among them",
                 (int)n, (int)r->world, lmi_buf_text(&b));
    if (b.bad) s = lmi_nomem(e);
    lmi_buf_free(&b);
    return s;
}

static lam_status judge(lam_ranks *r, lam_give_layers layers, void *self, lam_error *e) {
    bool died = false, sure = false, any = false;
    const size_t cells = (size_t)r->n_wins * (size_t)r->n_ranks;
    bool *dead = lmi_alloc(&r->arena, (uint64_t)r->n_ranks, sizeof *dead);
    if (!dead) return lmi_nomem(e);
    LAM_TRY(lmi_ranks_ended(r, dead, &died, &sure, e));
    LAM_TRY(note_missing(r, e));
    float *own = malloc((cells + 1) * sizeof *own);
    if (!own) return lmi_nomem(e);
    lmi_ranks_spread(r, LMI_US_OWN, own);
    lam_status s = lmi_ranks_late(r, own, e);
    if (s == LAM_OK) s = lmi_ranks_find(r, own, e);
    free(own);
    if (s == LAM_OK && r->waits == LAM_WAITS_INSIDE)
        s = lmi_ranks_note(r, e,
                           "waiting for others is inside forward and backward: ranks are compared by input, "
                           "copies to the device and optimizer alone");
    if (s == LAM_OK && sure) { /* what ended the run comes before what slowed it */
        s = tell_watch(r, e);
        if (s == LAM_OK) s = tell_died(r, dead, e);
    } else if (s == LAM_OK) {
        s = judge_slow(r, layers, self, &any, e);
        if (s == LAM_OK && !any) s = judge_rest(r, dead, died, e);
    }
    if (s != LAM_OK || r->verdict.kind == LAM_RANKS_PROCESSOR || !(r->starved >= lmi_ranking.processor))
        return s;
    return lmi_ranks_note(r, e, "ranks wait for a processor, up to %.0f %% of a step (rank %d)",
                          100 * r->starved, (int)r->starved_rank);
}

/* Steps in which the own work of a rank is known. */
static int32_t steps_known(const lam_ranks *r) {
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_steps; i++) n += !isnan(r->steps[i].last);
    return n;
}

/* Who ended first can be known all the same, but not who is slow. */
static lam_status abstain(lam_ranks *r, const char *why, lam_error *e) {
    bool died, sure, *dead = lmi_alloc(&r->arena, (uint64_t)r->n_ranks, sizeof *dead);
    if (!dead) return lmi_nomem(e);
    LAM_TRY(lmi_ranks_ended(r, dead, &died, &sure, e));
    if (died) return tell_died(r, dead, e);
    r->verdict.abstains = lmi_strdup(&r->arena, why);
    if (!r->verdict.abstains) return lmi_nomem(e);
    return lmi_ranks_note(r, e, "%s", why);
}

lam_status lam_ranks_judge(lam_ranks *r, lam_give_layers layers, void *self, lam_error *e) {
    char why[96];
    if (r->judged) return lmi_fail(e, LAM_USAGE, "lam_ranks_judge", "the verdict was reached before");
    if (!r->facts.n)
        return lmi_fail(e, LAM_USAGE, "ranks", "nothing is known of any rank: the table `ranks` is empty");
    r->verdict = (lam_rank_verdict){.late = NAN,
                                    .excess_us = NAN,
                                    .step_us = NAN,
                                    .without_us = NAN,
                                    .since_attempt = LAM_NOT_KNOWN,
                                    .since_step = LAM_NOT_KNOWN,
                                    .since_us = LAM_NOT_KNOWN};
    r->alone_rank = -1;
    LAM_TRY(lmi_ranks_lay(r, e));
    LAM_TRY(lmi_ranks_means(r, e));
    LAM_TRY(lmi_ranks_orders(r, e));
    const int32_t known = steps_known(r);
    if (r->n_steps < LMI_LEAST_STEPS || !r->n_ranks) {
        snprintf(why, sizeof why, "only %d recorded step%s in common, and %d are needed", (int)r->n_steps,
                 r->n_steps == 1 ? " is" : "s are", LMI_LEAST_STEPS);
        LAM_TRY(abstain(r, why, e));
    } else if (known < LMI_LEAST_STEPS) {
        snprintf(why, sizeof why, "only %d recorded step%s own work from waiting, and %d are needed",
                 (int)known, known == 1 ? " tells" : "s tell", LMI_LEAST_STEPS);
        LAM_TRY(abstain(r, why, e));
    } else {
        LAM_TRY(judge(r, layers, self, e));
        LAM_TRY(lmi_ranks_phases(r, e));
    }
    r->verdict.notes = r->notes.data;
    r->verdict.n_notes = (int32_t)r->notes.n;
    r->judged = true;
    return LAM_OK;
}
