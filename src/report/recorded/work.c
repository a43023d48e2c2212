/* SPDX-License-Identifier: Apache-2.0
 *
 * The own work of the steps of several processes, and the window of a step. */
#include "report/recorded/work.h"

#include <stdlib.h>

/* The model whose recorded steps took most time; of several the first. */
static int32_t main_model(const lam_recording *r) {
    const lam_recorded_model *m;
    int32_t top = -1;
    double most = -1;
    for (int32_t i = 0; (m = lam_recording_model(r, i)); i++) {
        const double n = (double)m->n_steps, time = (double)m->phases.n * (double)m->phases.whole_ns;
        if (!(n + time > most)) continue;
        most = n + time;
        top = i;
    }
    return top;
}

void lmi_recorded_mains(const lmi_recorded *of, int32_t *model) {
    lmi_recorded w = *of;
    w.model = main_model(w.all[0]);
    for (int32_t i = 0; i < w.n; i++) {
        const int32_t same = w.model < 0 ? -1 : lmi_recorded_index(&w, i);
        model[i] = same < 0 ? main_model(w.all[i]) : same;
    }
}

/* A phase is compared if all processes know it that have phases. */
static void find_known(lmi_work *x) {
    lam_recorded_step s;
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) x->known[k] = true;
    x->knows_processor = true;
    for (int32_t i = 0; i < x->w->n; i++) {
        bool any = false, processor = false, known[LAM_N_STEP_PHASES] = {0};
        const int32_t model = x->model[i];
        for (int64_t j = 0; model >= 0 && lam_recording_step(x->w->all[i], model, j, &s); j++) {
            if (!s.counts) continue;
            any = any || s.whole_ns >= 0;
            processor = processor || s.processor_wait_ns >= 0;
            for (int k = 0; s.whole_ns >= 0 && k < LAM_N_STEP_PHASES; k++)
                known[k] = known[k] || s.phase_ns[k] >= 0;
        }
        x->knows_processor = x->knows_processor && (processor || !any);
        for (int k = 0; any && k < LAM_N_STEP_PHASES; k++) x->known[k] = x->known[k] && known[k];
    }
    x->waits = x->known[LAM_STEP_COMM] ? LAM_WAITS_APART : LAM_WAITS_INSIDE;
}

lam_status lmi_work_begin(lmi_work *x, const lmi_recorded *w) {
    *x = (lmi_work){.w = w, .model = calloc((size_t)w->n + 1, sizeof *x->model)};
    if (!x->model) return lmi_nomem(w->e);
    lmi_recorded_mains(w, x->model);
    find_known(x);
    return LAM_OK;
}

void lmi_work_end(lmi_work *x) { free(x->model); }

double lmi_work_own(const lmi_work *x, const lam_recorded_step *s) {
    static const lam_step_phase without[] = {LAM_STEP_INPUT, LAM_STEP_H2D, LAM_STEP_OPTIMIZER};
    const double whole = lmi_recorded_us(s->whole_ns);
    double sum = NAN;
    if (isnan(whole)) return NAN;
    if (x->waits == LAM_WAITS_APART) {
        const double processor = x->knows_processor ? lmi_recorded_us(s->processor_wait_ns) : 0;
        const double own = whole - lmi_recorded_us(s->phase_ns[LAM_STEP_COMM]) - processor;
        return own < 0 ? 0 : own; /* NaN stays NaN */
    }
    for (size_t k = 0; k < sizeof without / sizeof *without; k++) {
        if (!x->known[without[k]]) continue;
        const double us = lmi_recorded_us(s->phase_ns[without[k]]);
        sum = isnan(sum) ? us : sum + us;
        if (isnan(sum)) return NAN;
    }
    return sum;
}

/* -- windows --------------------------------------------------------------------------------------------- */

/* How many steps the rule records before the k-th, as a whole number; the places of them are not looked at.
 */
static int64_t place_of(int32_t every, int64_t k) {
    double place = 0;
    int64_t from = 0;
    while (from < k) {
        const int32_t n = lam_recorded_every(every, from + 1);
        int64_t end = every == LAM_THINNING ? (int64_t)n * 32 : k; /* it is one in n up to there */
        if (end > k || end <= from) end = k;
        place += (double)(end - from) / (double)n;
        from = end;
    }
    return (int64_t)place;
}

int64_t lmi_recorded_window(int32_t every, const lam_recorded_step *s) {
    enum { SHORTEST = 8, LONGEST = 64, COUNT = 24 };
    int64_t place = place_of(every, s->calls > 1 ? s->number / s->calls : s->number), window = 0, from = 0;
    for (int64_t size = SHORTEST; size < LONGEST; size *= 2) {
        const int64_t end = size * COUNT;
        if (place < end) return window + (place - from) / size;
        window += (end - from) / size;
        from = end;
    }
    return window + (place - from) / LONGEST;
}

/* -- processes ----------------------------------------------------------------------------------------- */

bool lmi_recorded_runs(const lam_recorded_run *run, int64_t now_unix_ns) {
    const int64_t still_runs_ns = INT64_C(60) * 1000000000;
    if (run->ended_unix_ns || run->gone || now_unix_ns <= 0) return false;
    return now_unix_ns - run->seen_unix_ns <= still_runs_ns;
}
