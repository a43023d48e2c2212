/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told beside a verdict: means of all steps, who was last, who waits for a processor, how much of the
 * machine is used, and the phases of the named ranks beside those of the others. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

static void means_of_steps(lam_ranks *r) {
    double sum[3] = {0}, n[3] = {0};
    for (int32_t i = 0; i < r->n_steps; i++) {
        const lmi_step *s = &r->steps[i];
        const double of[3] = {s->whole, s->transfer, s->last - s->own};
        for (int k = 0; k < 3; k++) {
            if (isnan(of[k])) continue;
            sum[k] += s->weight * of[k];
            n[k] += s->weight;
        }
    }
    r->mean_step = n[0] > 0 ? sum[0] / n[0] : NAN;
    r->mean_transfer = n[1] > 0 ? sum[1] / n[1] : NAN;
    r->mean_late = n[2] > 0 ? sum[2] / n[2] : NAN;
}

/* The ranks that were last most often; of equal ones the smaller. */
static lam_status who_was_last(lam_ranks *r, lam_error *e) {
    int64_t *times = calloc((size_t)r->n_ranks + 1, sizeof *times);
    if (!times) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_steps; i++) {
        const int32_t col = lmi_ranks_col(r, r->steps[i].last_rank);
        if (col < 0) continue;
        times[col]++;
        r->n_last_steps++;
    }
    for (int k = 0; k < LMI_LASTS; k++) {
        int32_t top = -1;
        for (int32_t i = 0; i < r->n_ranks; i++)
            if (times[i] && (top < 0 || times[i] > times[top])) top = i;
        if (top < 0) break;
        r->lasts[r->n_lasts++] = (lmi_last){r->ranks[top].rank, times[top]};
        times[top] = 0;
    }
    for (int32_t i = 0; i < r->n_ranks; i++) r->n_others += times[i] > 0;
    free(times);
    return LAM_OK;
}

/* The rank that waits longest for a processor, and the share of its steps in which it does. */
static lam_status who_is_starved(lam_ranks *r, lam_error *e) {
    const lmi_window *at = r->windows.data;
    double *waits = calloc(2 * (size_t)r->n_ranks + 1, sizeof *waits);
    r->starved = NAN;
    r->starved_rank = -1;
    if (!waits) return lmi_nomem(e);
    double *steps = waits + r->n_ranks;
    for (size_t i = 0; i < r->windows.n; i++) {
        const double wait = at[i].of[LMI_US_PROCESSOR], step = at[i].of[LMI_US_STEP];
        if (at[i].col < 0 || isnan(wait) || isnan(step)) continue;
        waits[at[i].col] += wait * at[i].n;
        steps[at[i].col] += step * at[i].n;
    }
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const double share = steps[i] > 0 ? waits[i] / steps[i] : NAN;
        if (isnan(share) || r->starved >= share) continue;
        r->starved = share;
        r->starved_rank = r->ranks[i].rank;
    }
    free(waits);
    return LAM_OK;
}

/* Unknown unless all ranks tell operations and peaks. */
static void used_of_machine(lam_ranks *r) {
    double model = 0, hardware = 0;
    r->mfu = r->hfu = NAN;
    r->mfu_at_least = false;
    r->why_mfu = NULL;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const lmi_fact *f = r->ranks[i].fact;
        if (f && f->why_mfu) r->why_mfu = f->why_mfu;
        if (!f || !(f->flops > 0) || !(f->peak > 0)) return;
        model += f->flops / f->peak;
        hardware += f->hardware > 0 ? f->hardware / f->peak : NAN;
        r->mfu_at_least |= f->at_least;
    }
    if (!r->n_ranks || !(r->mean_step > 0)) return;
    r->mfu = model / r->n_ranks / (r->mean_step / 1e6);
    r->hfu = hardware / r->n_ranks / (r->mean_step / 1e6);
}

lam_status lmi_ranks_means(lam_ranks *r, lam_error *e) {
    bool *seen = calloc(r->nodes.n + 1, sizeof *seen);
    if (!seen) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const int32_t node = r->ranks[i].node;
        if (node >= 0 && !seen[node]) r->n_nodes++;
        if (node >= 0) seen[node] = true;
    }
    free(seen);
    means_of_steps(r);
    used_of_machine(r);
    LAM_TRY(who_is_starved(r, e));
    return who_was_last(r, e);
}

/* -- input --------------------------------------------------------------------------------------------- */

/* How many steps a recorded step of each window represents, in the mean. */
static void weigh_windows(const lam_ranks *r, double *weight, double *n) {
    for (int32_t w = 0; w < r->n_wins; w++) weight[w] = n[w] = 0;
    for (int32_t i = 0; i < r->n_steps; i++) {
        if (r->steps[i].win < 0) continue;
        weight[r->steps[i].win] += r->steps[i].weight;
        n[r->steps[i].win]++;
    }
    for (int32_t w = 0; w < r->n_wins; w++) weight[w] = n[w] > 0 ? weight[w] / n[w] : 1;
}

lam_status lmi_ranks_input(const lam_ranks *r, double *share, lam_error *e) {
    const lmi_window *at = r->windows.data;
    const size_t ranks = (size_t)r->n_ranks, wins = (size_t)r->n_wins;
    double *weight = malloc((2 * wins + ranks + 1) * sizeof *weight);
    if (!weight) return lmi_nomem(e);
    double *whole = weight + 2 * wins;
    weigh_windows(r, weight, weight + wins);
    for (size_t i = 0; i < ranks; i++) share[i] = whole[i] = 0;
    for (size_t i = 0; i < r->windows.n; i++) {
        if (at[i].win < 0) continue;
        const double steps = at[i].n * weight[at[i].win];
        share[at[i].col] += steps * at[i].of[LMI_US_INPUT];
        whole[at[i].col] += steps * at[i].of[LMI_US_STEP];
    }
    for (size_t i = 0; i < ranks; i++) share[i] = whole[i] > 0 ? share[i] / whole[i] : NAN;
    free(weight);
    return LAM_OK;
}

/* -- phases -------------------------------------------------------------------------------------------- */

double lmi_ranks_mean(const lam_ranks *r, const float *of, int32_t col, const lmi_stretch *in) {
    const int32_t first = in->n ? in->first : 0;
    const int32_t last = in->n ? in->last : r->n_wins - 1;
    double sum = 0;
    int32_t n = 0;
    for (int32_t w = first; w <= last; w++) {
        const float v = of[(size_t)w * (size_t)r->n_ranks + (size_t)col];
        if (isnan(v)) continue;
        sum += v;
        n++;
    }
    return n ? sum / n : NAN;
}

static void list_rows(lam_ranks *r) {
    r->phases[r->n_phases++] = (lmi_phases){.rank = -1, .node = -1};
    for (int32_t i = 0; i < r->n_ranks && r->n_phases < LMI_PHASE_ROWS; i++) {
        const bool nodes = r->verdict.n_nodes > 0;
        bool there = false;
        if (!r->named[i]) continue;
        for (int32_t k = 1; k < r->n_phases; k++) there = there || r->phases[k].node == r->ranks[i].node;
        if (nodes && there) continue;
        r->phases[r->n_phases++] =
            (lmi_phases){.rank = nodes ? -1 : r->ranks[i].rank, .node = nodes ? r->ranks[i].node : -1};
    }
}

/* True if the rank is one of the row's. */
static bool in_row(const lam_ranks *r, const lmi_phases *row, int32_t col) {
    if (row->rank >= 0) return r->ranks[col].rank == row->rank;
    return row->node >= 0 ? r->ranks[col].node == row->node : !r->named[col] || r->n_phases == 1;
}

lam_status lmi_ranks_phases(lam_ranks *r, lam_error *e) {
    float *of = malloc(((size_t)r->n_wins * (size_t)r->n_ranks + 1) * sizeof *of);
    if (!of) return lmi_nomem(e);
    list_rows(r);
    for (int what = 0; what < LMI_N_US; what++) {
        lmi_ranks_spread(r, (lmi_us)what, of);
        for (int32_t k = 0; k < r->n_phases; k++) {
            size_t n = 0;
            for (int32_t i = 0; i < r->n_ranks; i++)
                if (in_row(r, &r->phases[k], i)) r->room[n++] = lmi_ranks_mean(r, of, i, &r->period);
            r->phases[k].of[what] = lmi_middle(r->room, n);
        }
    }
    free(of);
    return LAM_OK;
}
