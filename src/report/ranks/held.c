/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of recordings: the time of a step that is lost to those whom the verdict names, and its wait for
 * input. */
#include "report/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

enum { WHOLE = 1000000 }; /* shares are millionths */

static int64_t share_of(double share) {
    return share >= 1 ? WHOLE : share > 0 ? (int64_t)(share * WHOLE + 0.5) : 0;
}

/* -- straggler ----------------------------------------------------------------------------------------- */

/* A rank that can't be compared by all that it does may lose more than is seen. */
static void find_gain(const lam_ranks *r, lmi_held *h) {
    const lam_rank_verdict *v = &r->verdict;
    if (v->abstains) {
        h->now = lmi_unknown();
        h->why = v->abstains;
        return;
    }
    h->now = lmi_exact(v->n_ranks || v->n_nodes ? share_of(v->gain) : 0);
    if (r->waits != LAM_WAITS_INSIDE) return;
    h->now.state = LAM_AT_LEAST;
    h->why = "it is a lower bound, for waiting for others is not told from the work in forward and backward";
}

/* The notes of the verdict, and a verdict that is no loss by ranks: what all wait for, or who died. */
static lam_status put_notes(lam_check *k, const lam_ranks *r, lmi_buf *said, lam_error *e) {
    const lam_rank_verdict *v = &r->verdict;
    const bool slow =
        v->kind == LAM_RANKS_SLOW_RANK || v->kind == LAM_RANKS_SLOW_NODE || v->kind == LAM_RANKS_SLOW_LINK;
    if (v->kind != LAM_RANKS_NONE && !slow) LAM_TRY(lmi_check_note(k, lmi_buf_text(said), e));
    for (int32_t i = 0; i < v->n_notes; i++) {
        if (v->abstains && strcmp(v->notes[i], v->abstains) == 0) continue;
        LAM_TRY(lmi_check_note(k, v->notes[i], e));
    }
    return LAM_OK;
}

static lam_status hold_straggler(lam_check *k, const lam_budget *b, const lam_ranks *r, lam_error *e) {
    const lam_rank_verdict *v = &r->verdict;
    lmi_buf said;
    lmi_held h = {.ranks = v->ranks, .n_ranks = v->n_ranks, .nodes = v->nodes, .n_nodes = v->n_nodes};
    lmi_buf_init(&said);
    find_gain(r, &h);
    lmi_ranks_say(r, &said);
    if (v->gain > 0 && (v->n_ranks || v->n_nodes)) h.said = lmi_buf_text(&said);
    lam_status s = lmi_buf_status(&said, e);
    if (s == LAM_OK) s = lmi_check_hold(k, b, LMI_FIGURE_STRAGGLER, &h, e);
    if (s == LAM_OK) s = put_notes(k, r, &said, e);
    lmi_buf_free(&said);
    return s;
}

/* -- input --------------------------------------------------------------------------------------------- */

static int by_share(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median rank, of two the upper; a rank whose input is unknown counts as one without, so that the number
 * is then a lower bound. */
static void find_middle(const lmi_inputs *in, double *room, lmi_held *h) {
    int32_t known = 0;
    for (int32_t i = 0; i < in->n; i++) {
        room[i] = isnan(in->share[i]) ? 0 : in->share[i];
        known += !isnan(in->share[i]);
    }
    if (in->n) qsort(room, (size_t)in->n, sizeof *room, by_share);
    h->now = known ? lmi_exact(share_of(room[in->n / 2])) : lmi_unknown();
    if (known == in->n && known) return;
    if (known) h->now.state = LAM_AT_LEAST;
    h->why = in->why ? in->why : "no rank reports its wait for input";
    if (known) h->why = "it is a lower bound, for some ranks do not report their wait for input";
}

/* The rank that waits longest; -1: none waits. */
static int32_t longest(const lmi_inputs *in) {
    int32_t most = -1;
    for (int32_t i = 0; i < in->n; i++)
        if (in->share[i] > (most < 0 ? 0 : in->share[most])) most = i;
    return most;
}

static lam_status hold_input(lam_check *k, const lam_budget *b, const lmi_inputs *in, lam_error *e) {
    const int32_t most = longest(in);
    lmi_buf said;
    lmi_held h = {.said = in->next};
    double *room = malloc(((size_t)in->n + 1) * sizeof *room);
    if (!room) return lmi_nomem(e);
    find_middle(in, room, &h);
    free(room);
    lmi_buf_init(&said);
    if (in->n > 1 && most >= 0) {
        lmi_putf(&said, "of the median rank; longest waits rank %d, ", (int)in->ranks[most]);
        lmi_put_percent(&said, in->share[most], 1, &lmi_plain);
        lmi_put(&said, " of its steps");
        h.said = lmi_buf_text(&said);
        h.ranks = &in->ranks[most];
        h.n_ranks = 1;
    }
    lam_status s = lmi_buf_status(&said, e);
    if (s == LAM_OK) s = lmi_check_hold(k, b, LMI_FIGURE_INPUT, &h, e);
    lmi_buf_free(&said);
    return s;
}

/* -- both ---------------------------------------------------------------------------------------------- */

lam_status lmi_ranks_hold(lam_check *k, const lam_budget *b, const lam_ranks *r, const lmi_inputs *in,
                          lam_error *e) {
    if (r) LAM_TRY(hold_straggler(k, b, r, e));
    return lmi_is_limited(b, LMI_FIGURE_INPUT) ? hold_input(k, b, in, e) : LAM_OK;
}

static lam_status hold_run(lam_check *k, const lam_ranks *r, const lam_budget *b, lam_error *e) {
    double *share = malloc(((size_t)r->n_ranks + 1) * sizeof *share);
    int32_t *ranks = malloc(((size_t)r->n_ranks + 1) * sizeof *ranks);
    lam_status s = share && ranks ? lmi_ranks_input(r, share, e) : lmi_nomem(e);
    for (int32_t i = 0; s == LAM_OK && i < r->n_ranks; i++) ranks[i] = r->ranks[i].rank;
    const lmi_inputs in = {.share = share, .ranks = ranks, .n = r->n_ranks};
    if (s == LAM_OK) s = lmi_ranks_hold(k, b, lmi_is_limited(b, LMI_FIGURE_STRAGGLER) ? r : NULL, &in, e);
    free(share);
    free(ranks);
    return s;
}

lam_status lam_check_ranks(lam_check **out, const char *name, const lam_ranks *r, const lam_budget *b,
                           lam_error *e) {
    *out = NULL;
    if (!r || !r->judged) return lmi_fail(e, LAM_USAGE, "lam_check_ranks", "the verdict was not reached yet");
    lam_status s = lmi_check_begin(out, name, e);
    if (s == LAM_OK) s = hold_run(*out, r, b, e);
    if (s == LAM_OK) return s;
    lam_check_free(*out);
    *out = NULL;
    return s;
}
