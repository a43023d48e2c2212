/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the tables are of one run: as many ranks in all of an attempt, each once, by clocks that agree.
 * What does not fit is left out, and told. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

static const double clock_us = 1e6; /* by which a clock may be off without being told */
enum { MOST_CLOCKS = 3 };

/* The ranks there are in each attempt; 0: not known. */
static lam_status worlds(const lam_ranks *r, int32_t *world, lam_error *e) {
    const lmi_fact *at = r->facts.data;
    for (size_t i = 0; i < r->facts.n; i++) {
        int32_t *of = &world[at[i].attempt];
        if (*of && *of != at[i].world)
            return lmi_fail(
                e, LAM_SYNTAX, "ranks",
                "they are not of one run: in attempt %d rank %d is one of %d, and others are of %d",
                (int)at[i].attempt, (int)at[i].rank, (int)at[i].world, (int)*of);
        *of = at[i].world;
    }
    return LAM_OK;
}

/* The newest attempt that has enough steps for a verdict, else the newest. */
static int32_t main_attempt(const lam_ranks *r, const int32_t *world, int32_t *steps) {
    const lmi_key *keys = r->keys.data;
    int32_t newest = 0;
    for (size_t i = 0; i < r->keys.n; i++)
        if (keys[i].attempt < r->attempts) steps[keys[i].attempt]++;
    for (int32_t a = 0; a < r->attempts; a++)
        if (world[a]) newest = a;
    for (int32_t a = newest; a >= 0; a--)
        if (world[a] && steps[a] >= LMI_LEAST_STEPS) return a;
    return newest;
}

static bool is_other(const lam_ranks *r, const int32_t *world, int32_t attempt) {
    return attempt < r->attempts && world[attempt] && world[attempt] != r->world;
}

/* Attempts of another number of ranks can't be compared. */
static lam_status drop_others(lam_ranks *r, const int32_t *world, lam_error *e) {
    const lmi_key *keys = r->keys.data;
    lmi_window *w = r->windows.data;
    lmi_meet *m = r->meets.data;
    size_t n = 0;
    int32_t others = 0;
    for (int32_t a = 0; a < r->attempts; a++) others += is_other(r, world, a);
    if (!others) return LAM_OK;
    for (size_t i = 0; i < r->windows.n; i++)
        if (!is_other(r, world, w[i].attempt)) w[n++] = w[i];
    r->windows.n = n;
    n = 0;
    for (size_t i = 0; i < r->meets.n; i++)
        if (!is_other(r, world, keys[m[i].step].attempt)) m[n++] = m[i];
    r->meets.n = n;
    return lmi_ranks_note(r, e, "%d attempt%s of another number of ranks than %d: left out", (int)others,
                          others == 1 ? " is" : "s are", (int)r->world);
}

/* Facts are sorted by rank, attempt and when they were last alive. */
static lam_status note_copies(lam_ranks *r, lam_error *e) {
    const lmi_fact *at = r->facts.data;
    int32_t n = 0, *twice = malloc((r->facts.n + 1) * sizeof *twice);
    lmi_buf b;
    if (!twice) return lmi_nomem(e);
    for (size_t i = 1; i < r->facts.n; i++) {
        const lmi_fact *a = &at[i - 1], *c = &at[i];
        const bool equal = a->node == c->node && a->seen == c->seen && a->ended == c->ended;
        if (a->rank != c->rank || a->attempt != c->attempt || equal) continue;
        if (!n || twice[n - 1] != c->rank) twice[n++] = c->rank;
    }
    lmi_buf_init(&b);
    lmi_put_ranges(&b, twice, n);
    free(twice);
    lam_status s = b.bad ? lmi_nomem(e) : LAM_OK;
    if (s == LAM_OK && n)
        s = lmi_ranks_note(r, e,
                           "%s %s of several processes in one attempt: the one that was last alive counts",
                           lmi_buf_text(&b), n == 1 ? "is a rank" : "are ranks");
    lmi_buf_free(&b);
    return s;
}

lam_status lmi_ranks_one_run(lam_ranks *r, lam_error *e) {
    int32_t *world = calloc((size_t)r->attempts + 1, sizeof *world);
    int32_t *steps = calloc((size_t)r->attempts + 1, sizeof *steps);
    lam_status s = world && steps ? worlds(r, world, e) : lmi_nomem(e);
    if (s == LAM_OK) {
        r->world = world[main_attempt(r, world, steps)];
        s = drop_others(r, world, e);
    }
    if (s == LAM_OK) s = note_copies(r, e);
    free(world);
    free(steps);
    return s;
}

lam_status lmi_ranks_clocks(lam_ranks *r, const double *skew, lam_error *e) {
    int32_t n = 0;
    lmi_buf b;
    lmi_buf_init(&b);
    for (int32_t i = 0; i < (int32_t)r->nodes.n; i++) {
        if (!(fabs(skew[i]) > clock_us) || ++n > MOST_CLOCKS) continue;
        lmi_putf(&b, "%s%.40s by %.0f s", n > 1 ? ", " : "", lmi_ranks_node_name(r, i), skew[i] / 1e6);
    }
    if (n > MOST_CLOCKS) lmi_putf(&b, " and %d more", (int)(n - MOST_CLOCKS));
    lam_status s = b.bad ? lmi_nomem(e) : LAM_OK;
    if (s == LAM_OK && n)
        s = lmi_ranks_note(r, e, "clocks of nodes are off (%s): who died first is told by corrected ones",
                           lmi_buf_text(&b));
    lmi_buf_free(&b);
    return s;
}
