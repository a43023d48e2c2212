/* SPDX-License-Identifier: Apache-2.0
 *
 * Why the named ranks are late: the phase, and the layer, that has most of what they take longer. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

/* How much longer the named ranks take in a phase than their peers that are not named, all together in a
 * step. */
static double excess_in(const lam_ranks *r, const float *of) {
    double total = 0, *over = NULL;
    const int32_t n = r->period.last - r->period.first + 1;
    over = malloc((size_t)n * sizeof *over);
    if (!over) return -1;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        if (!r->named[i]) continue;
        int32_t alike = 0, others = 0;
        for (int32_t k = 0; k < r->n_ranks; k++) {
            others += !r->named[k];
            alike += !r->named[k] && r->ranks[k].tree == r->ranks[i].tree;
        }
        for (int32_t w = r->period.first; w <= r->period.last; w++) {
            const float *row = of + (size_t)w * (size_t)r->n_ranks;
            size_t m = 0;
            for (int32_t k = 0; k < r->n_ranks; k++)
                if ((!others || !r->named[k]) &&
                    (alike < LMI_PEERS - 1 || r->ranks[k].tree == r->ranks[i].tree))
                    r->room[m++] = row[k];
            over[w - r->period.first] = row[i] - lmi_middle(r->room, m);
        }
        const double mine = lmi_middle(over, (size_t)n);
        if (!isnan(mine)) total += mine;
    }
    free(over);
    return total > 0 ? total : 0;
}

lam_status lmi_ranks_cause(lam_ranks *r, lam_error *e) {
    static const struct {
        const char *name;
        lmi_us a, b; /* equal: one of them */
    } causes[] = {{"compute", LMI_US_FORWARD, LMI_US_BACKWARD},
                  {"input", LMI_US_INPUT, LMI_US_INPUT},
                  {"h2d", LMI_US_H2D, LMI_US_H2D},
                  {"optimizer", LMI_US_OPTIMIZER, LMI_US_OPTIMIZER},
                  {"other", LMI_US_OTHER, LMI_US_OTHER}};
    double total = 0, most = -1;
    int top = 0;
    float *of = malloc(((size_t)r->n_wins * (size_t)r->n_ranks + 1) * sizeof *of);
    if (!of) return lmi_nomem(e);
    for (int k = 0; k < (int)(sizeof causes / sizeof *causes); k++) {
        double excess = 0;
        for (int half = 0; half < (causes[k].a == causes[k].b ? 1 : 2); half++) {
            lmi_ranks_spread(r, half ? causes[k].b : causes[k].a, of);
            const double more = excess_in(r, of);
            if (more < 0) {
                free(of);
                return lmi_nomem(e);
            }
            excess += more;
        }
        total += excess;
        if (excess > most) {
            most = excess;
            top = k;
        }
    }
    free(of);
    if (!(most > 0) || most < lmi_ranking.cause * total) return LAM_OK;
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_ranks; i++) n += r->named[i];
    r->verdict.phase = causes[top].name;
    r->verdict.excess_us = most / n;
    return LAM_OK;
}

/* -- layers -------------------------------------------------------------------------------------------- */

enum { MOST_NAMED = 8, MOST_PEERS = 64 };
static const int64_t hour_us = INT64_C(3600000000);

/* An hour that a stretch begins in is not all of it. */
bool lmi_ranks_hours(const lam_ranks *r, const lmi_stretch *in, lam_layers_wanted *w) {
    bool any = false;
    for (int32_t i = 0; i < r->n_steps; i++) {
        const lmi_step *s = &r->steps[i];
        if ((in->n && !lmi_in(s, in)) || s->started == LAM_NOT_KNOWN) continue;
        const int64_t hour = s->started / hour_us;
        if (!any || hour < w->first_hour) w->first_hour = hour;
        if (!any || hour > w->last_hour) w->last_hour = hour;
        any = true;
    }
    if (any && in->n && w->last_hour - w->first_hour >= 2) w->first_hour++;
    return any;
}

/* Some of those that are not named, with the layers of the first one that is, if there are enough. */
static void list_peers(const lam_ranks *r, int32_t *peers, lam_layers_wanted *w) {
    int32_t first = 0, alike = 0, others = 0, seen = 0;
    while (!r->named[first]) first++;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        others += !r->named[i];
        alike += !r->named[i] && r->ranks[i].tree == r->ranks[first].tree;
    }
    const bool tree = alike >= LMI_PEERS;
    const int32_t n = tree ? alike : others, each = n / MOST_PEERS > 1 ? n / MOST_PEERS : 1;
    for (int32_t i = 0; i < r->n_ranks && w->n_peers < MOST_PEERS; i++) {
        if (r->named[i] || (tree && r->ranks[i].tree != r->ranks[first].tree)) continue;
        if (seen++ % each == 0) peers[w->n_peers++] = r->ranks[i].rank;
    }
}

/* The layer that has most of what the ranks take longer. */
static lam_status slow_layer(lam_ranks *r, lam_error *e) {
    const size_t n = r->layers_named.n;
    const lmi_layer *at = r->layers.data;
    double total = 0, *sums = calloc(2 * n + 1, sizeof *sums);
    if (!sums) return lmi_nomem(e);
    double *more = sums, *peer = sums + n;
    size_t top = 0;
    for (size_t i = 0; i < r->layers.n; i++) {
        if (isnan(at[i].own) || isnan(at[i].peer)) continue;
        more[at[i].name] += at[i].own - at[i].peer;
        peer[at[i].name] += at[i].peer;
    }
    for (size_t i = 0; i < n; i++) {
        if (more[i] > 0) total += more[i];
        if (more[i] > more[top]) top = i;
    }
    if (n && more[top] > 0 && more[top] >= lmi_ranking.cause * total &&
        more[top] >= lmi_ranking.layer * peer[top])
        r->verdict.layer = ((const char *const *)r->layers_named.data)[top];
    free(sums);
    return LAM_OK;
}

lam_status lmi_ranks_layer(lam_ranks *r, lam_give_layers layers, void *self, lam_error *e) {
    int32_t ranks[MOST_NAMED], peers[MOST_PEERS];
    lam_layers_wanted w = {.ranks = ranks, .peers = peers};
    if (!layers || !lmi_ranks_hours(r, &r->period, &w)) return LAM_OK;
    for (int32_t i = 0; i < r->n_ranks && w.n_ranks < MOST_NAMED; i++)
        if (r->named[i]) ranks[w.n_ranks++] = r->ranks[i].rank;
    list_peers(r, peers, &w);
    if (!w.n_peers) return LAM_OK;
    LAM_TRY(layers(self, &w, r, e));
    return slow_layer(r, e);
}
