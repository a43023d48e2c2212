/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the steps of one process became slower: the moment from which they take longer, by medians of
 * windows, and the phase that most of it is in. */
#include "report/recorded/recorded.h"

#include "analyse/ranks/ranks.h"

#include <stdlib.h>

enum { WINDOWS = 24, SHORTEST = 8, LEAST_PERCENT = 10, MOST_OF = 60 };

static const char SLOWER_NEXT[] =
    "Look at what changed then: longer inputs, another part of the program, the clocks of the machine.";

/* The next step that counts and whose time is known. */
static bool next_step(const lam_recording *r, int32_t model, int64_t *i, lam_recorded_step *out) {
    while (lam_recording_step(r, model, (*i)++, out))
        if (out->counts && out->whole_ns >= 0) return true;
    return false;
}

static int64_t count_steps(const lam_recording *r, int32_t model) {
    lam_recorded_step s;
    int64_t n = 0;
    for (int64_t i = 0; next_step(r, model, &i, &s);) n++;
    return n;
}

/* A window's median step, and the number of its first step. */
typedef struct window {
    double ns;
    int64_t first;
} window;

static int32_t take_windows(const lam_recording *r, int32_t model, size_t size, double *room, window *to) {
    lam_recorded_step s;
    size_t n = 0;
    int32_t windows = 0;
    for (int64_t i = 0; next_step(r, model, &i, &s);) {
        if (!n) to[windows].first = s.number;
        room[n++] = (double)s.whole_ns;
        if (n < size) continue;
        to[windows++].ns = lmi_middle(room, n);
        n = 0;
    }
    return windows; /* what is left over fills no window */
}

/* Weighed means of the phases and the step from a step on, and before it. */
typedef struct means {
    double weight, whole, of[LAM_N_STEP_PHASES];
} means;

static void take_means(const lam_recording *r, int32_t model, int64_t from, means of[2]) {
    lam_recorded_step s;
    of[0] = of[1] = (means){0};
    for (int64_t i = 0; next_step(r, model, &i, &s);) {
        means *m = &of[s.number >= from];
        const double weight = (double)s.represents;
        m->weight += weight;
        m->whole += weight * (double)s.whole_ns;
        for (int k = 0; k < LAM_N_STEP_PHASES; k++)
            if (s.phase_ns[k] > 0) m->of[k] += weight * (double)s.phase_ns[k];
    }
}

/* The phase that has most of what the steps take longer; NULL: none. */
static const char *phase_of(const means of[2]) {
    const double more = of[1].whole / of[1].weight - of[0].whole / of[0].weight;
    for (int k = 0; more > 0 && k < LAM_N_STEP_PHASES; k++)
        if (100 * (of[1].of[k] / of[1].weight - of[0].of[k] / of[0].weight) >= MOST_OF * more)
            return lam_step_phase_name((lam_step_phase)k);
    return NULL;
}

static lam_status find(const lam_recording *r, int32_t model, size_t size, double *room, window *at,
                       lmi_standout *out, lam_error *e) {
    lmi_rise rise;
    means of[2];
    const int32_t n = take_windows(r, model, size, room, at);
    for (int32_t i = 0; i < n; i++) room[i] = at[i].ns;
    LAM_TRY(lmi_rise_of(room, n, &rise, e));
    if (rise.at < 0 || 100 * rise.share < LEAST_PERCENT) return LAM_OK;
    take_means(r, model, at[rise.at].first, of);
    *out = (lmi_standout){.kind = "slower",
                          .percent = 100 * rise.share,
                          .next = SLOWER_NEXT,
                          .since = at[rise.at].first,
                          .before_ns = (int64_t)(rise.by / rise.share),
                          .after_ns = (int64_t)(rise.by / rise.share + rise.by),
                          .phase = phase_of(of)};
    return LAM_OK;
}

/* Input and the processor come first, since it is known what to do about them; a long optimizer may always
 * have been long. */
lam_status lmi_recorded_standout(const lam_recording *r, int32_t model, lmi_standout *out, lam_error *e) {
    const int64_t steps = count_steps(r, model);
    int64_t size = (steps + WINDOWS / 2) / WINDOWS;
    *out = lmi_standout_of(lam_recording_model(r, model));
    if (out->kind && (strcmp(out->kind, "input") == 0 || strcmp(out->kind, "processor") == 0)) return LAM_OK;
    if (size < SHORTEST) size = SHORTEST;
    double *room = calloc((size_t)(steps + size) + 1, sizeof *room);
    window *at = calloc((size_t)(steps / size) + 2, sizeof *at);
    const lam_status s = room && at ? find(r, model, (size_t)size, room, at, out, e) : lmi_nomem(e);
    free(room);
    free(at);
    return s;
}

void lmi_put_slower(lmi_buf *b, const lmi_standout *x) {
    lmi_put(b, " at step ");
    lmi_put_integer(b, x->since);
    lmi_put(b, " (");
    lmi_put_time(b, x->before_ns);
    lmi_put(b, " -> ");
    lmi_put_time(b, x->after_ns);
    lmi_putc(b, ')');
    if (x->phase) lmi_putf(b, ", most of it in %s", x->phase);
    lmi_putf(b, ". %s", x->next);
}
