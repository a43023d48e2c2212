/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a model, thinned to as many as a picture shows. */
#include "report/runs/series.h"

#include <stdlib.h>

int64_t lmi_series_time(const lam_recorded_step *s) {
    int64_t sum;
    if (s->step_ns >= 0) return s->step_ns;
    if (s->forward_ns < 0) return -1;
    return lmi_add_over(s->forward_ns, s->backward_ns < 0 ? 0 : s->backward_ns, &sum) ? -1 : sum;
}

/* The time of a step, to sort by, its index, and how many steps it represents. */
typedef struct timed {
    int64_t ns, step, weight;
} timed;

static int by_time(const void *a, const void *b) {
    const timed *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static int64_t weight_of(const timed *of, int64_t n) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += of[i].weight;
    return sum;
}

/* The step of median time among `n`; the lower of two. */
static timed middle_of(timed *of, int64_t n) {
    qsort(of, (size_t)n, sizeof *of, by_time);
    int64_t i = 0, before = 0;
    const int64_t half = (weight_of(of, n) - 1) / 2;
    while (i < n - 1 && before + of[i].weight <= half) before += of[i++].weight;
    return of[i];
}

static void thin(lmi_series *s, const lam_recording *r, int32_t model, timed *all) {
    lam_recorded_step one;
    s->n = s->all < LMI_RUNS_POINTS ? (int32_t)s->all : LMI_RUNS_POINTS;
    for (int32_t k = 0; k < s->n; k++) {
        int64_t from = s->all * k / s->n, to = s->all * (k + 1) / s->n, most = -1;
        for (int64_t i = from; i < to; i++)
            if (lam_recording_step(r, model, all[i].step, &one) && one.peak_bytes > most)
                most = one.peak_bytes;
        timed middle = middle_of(all + from, to - from);
        (void)lam_recording_step(r, model, middle.step, &s->at[k]);
        s->at[k].peak_bytes = most;
    }
}

/* Compares the tenths of the run, not of the recorded steps: those are denser at first. Only times of one
 * meaning are compared: the last step has no next one and is left out. */
static void compare_ends(lmi_series *s, timed *all, int64_t n) {
    const int64_t tenth = weight_of(all, n) / LMI_RUNS_TENTH;
    int64_t first = 0, last = 0;
    for (int64_t w = 0; first < n && (w += all[first].weight) <= tenth;) first++;
    for (int64_t w = 0; last < n && (w += all[n - 1 - last].weight) <= tenth;) last++;
    if (!first || !last) return;
    s->first = middle_of(all, first).ns;
    s->last = middle_of(all + n - last, last).ns;
}

lam_status lmi_series_take(lmi_series *s, const lam_recording *r, int32_t model, lam_error *e) {
    const lam_recorded_model *m = lam_recording_model(r, model);
    lam_recorded_step one;
    *s = (lmi_series){.first = -1, .last = -1};
    timed *all = calloc((size_t)m->n_steps + 1, sizeof *all);
    if (!all) return lmi_nomem(e);
    int64_t n = 0;
    for (int64_t i = 0; lam_recording_step(r, model, i, &one); i++) {
        int64_t ns = m->step_ns.n ? one.step_ns : lmi_series_time(&one);
        if (one.counts && ns >= 0) all[n++] = (timed){ns, i, one.represents};
    }
    compare_ends(s, all, n);
    for (int64_t i = 0; lam_recording_step(r, model, i, &one); i++)
        if (one.counts) all[s->all++] = (timed){lmi_series_time(&one), i, one.represents};
    thin(s, r, model, all);
    free(all);
    return LAM_OK;
}
