/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of many ranks, made up: each step all wait for the last rank, and then for the transfer. The tables
 * are those that a merge makes of the recorded steps. */
#ifndef LAMINA_TEST_RANKED_H
#define LAMINA_TEST_RANKED_H

#include "kit/oom.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANKED_MOST = 64, RANKED_WINDOW = 12 };

typedef struct ranked {
    int ranks, per_node, steps, groups; /* groups 0: none */
    int trees;                          /* 0: one for all */
    double step_us, transfer_us, noise;
    uint32_t seed;
    lam_waits waits;
    int slow;          /* the rank; -1: none */
    int also;          /* another slow rank; 0: none */
    int slow_node;     /* -1: none */
    int slow_group;    /* -1: none */
    double more_us;    /* what the slow one takes longer */
    int from, to;      /* steps in which it does; to 0: all from there on */
    int each;          /* in one of so many of them; 0: in all */
    int phase;         /* of it: 0 input, 1 h2d, 2 forward, 3 backward, 4 optimizer, 5 other */
    double grow;       /* all ranks take so many times as long from the middle on; 0: not */
    double input_us;   /* all ranks wait so long for input */
    int missing;       /* the last so many ranks have no recording */
    int odd, odd_from; /* a rank that begins other collectives from a step on; 0: none */
    bool odd_order;    /* as many, in another order */
    const char *layer; /* the slow layer that a table of layers names; NULL: all layers alike */
} ranked;

OOM_UNUSED static ranked ranked_run(void) {
    return (ranked){.ranks = 16,
                    .per_node = 8,
                    .steps = 96,
                    .step_us = 100000,
                    .transfer_us = 12000,
                    .noise = 0.004,
                    .seed = 1,
                    .slow = -1,
                    .slow_node = -1,
                    .slow_group = -1,
                    .phase = 3};
}

/* From -1 to 1, the same for the same numbers. */
static double ranked_noise(const ranked *of, int rank, int step, int what) {
    uint32_t x = of->seed * 2654435761u ^ (uint32_t)rank * 40503u ^ (uint32_t)step * 2246822519u ^
                 (uint32_t)what * 3266489917u;
    for (int i = 0; i < 3; i++) x = (x ^ x >> 15) * 2246822507u;
    return (double)(x ^ x >> 16) / 2147483648.0 - 1;
}

/* Each phase of a rank in a step; returns their sum, which is its own work unless it waits. */
static double ranked_step(const ranked *of, int rank, int step, double phase[6]) {
    static const double shares[6] = {0.01, 0.005, 0.28, 0.55, 0.04, 0.015};
    const bool late =
        step >= of->from && (!of->to || step < of->to) && (!of->each || step % of->each == 0) &&
        (rank == of->slow || (of->also && rank == of->also) || rank / of->per_node == of->slow_node);
    const double all = of->grow > 0 && step >= of->steps / 2 ? of->grow : 1;
    double sum = 0;
    for (int k = 0; k < 6; k++) {
        phase[k] = of->step_us * shares[k] * all * (1 + of->noise * ranked_noise(of, rank, step, k));
        if (k == 0) phase[k] += of->input_us;
        if (late && k == of->phase) phase[k] += of->more_us;
        sum += phase[k];
    }
    return sum;
}

static double ranked_middle(double *v, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && v[k] < v[k - 1]; k--) {
            const double t = v[k];
            v[k] = v[k - 1];
            v[k - 1] = t;
        }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static const char *ranked_node(const ranked *of, int rank) {
    static char names[RANKED_MOST][8];
    snprintf(names[rank / of->per_node], sizeof names[0], "n%02d", rank / of->per_node);
    return names[rank / of->per_node];
}

static int ranked_group(const ranked *of, int rank) { return rank * of->groups / of->ranks; }
static int ranked_there(const ranked *of) { return of->ranks - of->missing; }
static int64_t ranked_moment(const ranked *of, int step) {
    return INT64_C(1764547200000000) + (int64_t)step * 100 * (int64_t)of->step_us;
}

static double ranked_transfer(const ranked *of, int group, int step) {
    const bool slow = group == of->slow_group && step >= of->from;
    return of->transfer_us * (1 + of->noise * ranked_noise(of, 1000 + group, step, 7)) +
           (slow ? of->more_us : 0);
}

static lam_rank_fact ranked_fact(const ranked *of, int rank) {
    return (lam_rank_fact){.attempt = 0,
                           .rank = rank,
                           .world = of->ranks,
                           .tree = of->trees ? rank * of->trees / of->ranks : 7,
                           .comm_group = of->groups ? ranked_group(of, rank) : LAM_NOT_KNOWN,
                           .seen_us = ranked_moment(of, of->steps),
                           .ended_us = ranked_moment(of, of->steps),
                           .step_flops = 4e12,
                           .peak_flops = 1e14,
                           .node = ranked_node(of, rank),
                           .waits = of->waits};
}

/* What a rank did itself, as the waiting is found. */
static double ranked_own(const ranked *of, const double phase[6], double sum) {
    if (of->waits == LAM_WAITS_INSIDE) return phase[0] + phase[1] + phase[4];
    return of->waits == LAM_WAITS_OTHER ? sum - phase[5] : sum;
}

static lam_status ranked_windows(const ranked *of, lam_ranks *to, lam_error *e) {
    lam_status s = LAM_OK;
    for (int rank = 0; rank < ranked_there(of); rank++)
        for (int first = 0; s == LAM_OK && first < of->steps; first += RANKED_WINDOW) {
            const int n = of->steps - first < RANKED_WINDOW ? of->steps - first : RANKED_WINDOW;
            double own[RANKED_WINDOW], phase[6], mean[6] = {0};
            for (int i = 0; i < n; i++) {
                own[i] = ranked_own(of, phase, ranked_step(of, rank, first + i, phase));
                for (int k = 0; k < 6; k++) mean[k] += phase[k] / n;
            }
            double sum = of->transfer_us;
            for (int k = 0; k < 6; k++) sum += mean[k];
            s = lam_ranks_add_window(to,
                                     &(lam_rank_window){.win = first / RANKED_WINDOW,
                                                        .rank = rank,
                                                        .first_step = first * 100,
                                                        .started_us = ranked_moment(of, first),
                                                        .steps = n,
                                                        .own_us = ranked_middle(own, n),
                                                        .step_us = sum,
                                                        .input_us = mean[0],
                                                        .h2d_us = mean[1],
                                                        .forward_us = mean[2],
                                                        .backward_us = mean[3],
                                                        .optimizer_us = mean[4],
                                                        .other_us = mean[5],
                                                        .comm_us = of->transfer_us},
                                     e);
        }
    return s;
}

/* The last of all, with the slowest transfer: when a step ends. */
static double ranked_end(const ranked *of, int step) {
    double last = 0, transfer = 0, phase[6];
    for (int rank = 0; rank < of->ranks; rank++) last = fmax(last, ranked_step(of, rank, step, phase));
    for (int g = 0; g < (of->groups ? of->groups : 1); g++)
        transfer = fmax(transfer, ranked_transfer(of, g, step));
    return last + transfer;
}

static lam_status ranked_meets(const ranked *of, lam_ranks *to, lam_error *e) {
    lam_status s = LAM_OK;
    for (int step = 0; step < of->steps; step++)
        for (int first = 0; s == LAM_OK && first < ranked_there(of); first += of->per_node) {
            const int group = of->groups ? ranked_group(of, first) : 0;
            const double end = ranked_end(of, step);
            lam_rank_meet m = {.step = step * 100,
                               .comm_group = of->groups ? group : LAM_NOT_KNOWN,
                               .last_rank = LAM_NOT_KNOWN,
                               .second_rank = LAM_NOT_KNOWN,
                               .started_us = ranked_moment(of, step),
                               .last_us = NAN,
                               .second_us = NAN,
                               .group_transfer_us = of->groups ? ranked_transfer(of, group, step) : NAN,
                               .step_us = end,
                               .node = ranked_node(of, first)};
            for (int rank = first; rank < first + of->per_node && rank < ranked_there(of); rank++) {
                double phase[6];
                const double own = ranked_own(of, phase, ranked_step(of, rank, step, phase));
                m.ranks++;
                m.own_us += own;
                if (m.last_rank == LAM_NOT_KNOWN || own > m.last_us) {
                    m.second_rank = m.last_rank;
                    m.second_us = m.last_us;
                    m.last_rank = rank;
                    m.last_us = own;
                } else if (m.second_rank == LAM_NOT_KNOWN || own > m.second_us) {
                    m.second_rank = rank;
                    m.second_us = own;
                }
            }
            m.transfer_us = of->waits == LAM_WAITS_APART ? end - m.last_us : NAN;
            s = lam_ranks_add_meet(to, &m, e);
        }
    return s;
}

OOM_UNUSED static lam_status ranked_layers(void *self, const lam_layers_wanted *w, lam_ranks *to,
                                           lam_error *e) {
    static const char *const names[] = {"blocks.0.attn", "blocks.0.mlp", "blocks.1.mlp"};
    const ranked *of = self;
    lam_status s = LAM_OK;
    for (int32_t i = 0; i < w->n_ranks; i++)
        for (int k = 0; s == LAM_OK && k < 3; k++) {
            const double peer = of->step_us / 4;
            const bool slow = of->layer ? strcmp(of->layer, names[k]) == 0 : true;
            const double more = slow ? (of->layer ? of->more_us : of->more_us / 3) : 0;
            s = lam_ranks_add_layer(to, &(lam_rank_layer){w->ranks[i], peer + more, peer, names[k]}, e);
        }
    return s;
}

/* The tables, with a fact for each rank unless `facts` gives its own; and the verdict. NULL: it failed. */
/* The collectives of a rank in a step: a row of its own, or one with the others of its node. */
static lam_status ranked_orders(const ranked *of, lam_ranks *to, lam_error *e) {
    lam_status s = LAM_OK;
    for (int step = 0; s == LAM_OK && of->odd && step < of->steps; step++)
        for (int first = 0; s == LAM_OK && first < ranked_there(of); first += of->per_node) {
            const bool odd = step >= of->odd_from && of->odd / of->per_node == first / of->per_node;
            lam_rank_order o = {.step = step * 100,
                                .tree = ranked_fact(of, first).tree,
                                .collectives = 42,
                                .collectives_hash = 7,
                                .ranks = of->per_node - odd,
                                .first_rank = first};
            s = lam_ranks_add_order(to, &o, e);
            o.collectives -= !of->odd_order;
            o.collectives_hash = 11;
            o.ranks = 1;
            o.first_rank = of->odd;
            if (s == LAM_OK && odd) s = lam_ranks_add_order(to, &o, e);
        }
    return s;
}

OOM_UNUSED static lam_ranks *ranked_judged(const ranked *of, const lam_rank_fact *facts, lam_error *e) {
    lam_ranks *r = NULL;
    lam_status s = lam_ranks_new(&r, e);
    for (int rank = 0; s == LAM_OK && rank < ranked_there(of); rank++) {
        const lam_rank_fact own = ranked_fact(of, rank);
        s = lam_ranks_add_fact(r, facts ? &facts[rank] : &own, e);
    }
    if (s == LAM_OK) s = ranked_windows(of, r, e);
    if (s == LAM_OK) s = ranked_meets(of, r, e);
    if (s == LAM_OK) s = ranked_orders(of, r, e);
    if (s == LAM_OK) s = lam_ranks_judge(r, ranked_layers, (void *)of, e);
    if (s == LAM_OK) return r;
    lam_ranks_free(r);
    return NULL;
}

#endif
