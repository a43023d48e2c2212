/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the ranks began the same collectives: in each recorded step, those with the same layers. One that
 * began another one than the others waits for them without end, or they for it. */
#include "analyse/ranks/ranks.h"

#include <stdlib.h>

static int by_step(const void *a, const void *b) {
    const lmi_ranks_order *x = a, *y = b;
    LMI_ORDER(x->attempt, y->attempt);
    LMI_ORDER(x->step, y->step);
    LMI_ORDER(x->tree, y->tree);
    LMI_ORDER(x->n, y->n);
    LMI_ORDER(x->hash, y->hash);
    LMI_ORDER(x->first_rank, y->first_rank);
    return 0;
}

static int by_ranks(const void *a, const void *b) {
    const lmi_ranks_order *x = a, *y = b;
    LMI_ORDER(x->ranks, y->ranks);
    LMI_ORDER(x->first_rank, y->first_rank);
    return 0;
}

static bool are_like(const lmi_ranks_order *a, const lmi_ranks_order *b) {
    return a->n == b->n && a->hash == b->hash && a->tree == b->tree;
}

/* The rows of all nodes as one for each order. */
static void join(lam_ranks *r) {
    lmi_ranks_order *at = r->orders.data;
    size_t n = 0;
    if (r->orders.n) qsort(at, r->orders.n, sizeof *at, by_step);
    for (size_t i = 0; i < r->orders.n; i++) {
        if (n && at[i].attempt == at[n - 1].attempt && at[i].step == at[n - 1].step &&
            are_like(&at[i], &at[n - 1]))
            at[n - 1].ranks += at[i].ranks;
        else
            at[n++] = at[i];
    }
    r->orders.n = n;
}

/* Behind the last row with the step and the tree of this one. */
static size_t end_of(const lam_ranks *r, size_t from) {
    const lmi_ranks_order *at = r->orders.data;
    size_t end = from;
    while (end < r->orders.n && at[end].attempt == at[from].attempt && at[end].step == at[from].step &&
           at[end].tree == at[from].tree)
        end++;
    return end;
}

/* Notes the first step in which they differ, of the attempt. */
static void compare(lam_ranks *r, int32_t attempt) {
    const lmi_ranks_order *at = r->orders.data;
    lmi_unlike *to = &r->unlike;
    int64_t last = -1, last_unlike = -1;
    *to = (lmi_unlike){.attempt = attempt, .step = -1};
    for (size_t from = 0, end; from < r->orders.n; from = end) {
        int64_t ranks = 0;
        end = end_of(r, from);
        for (size_t i = from; i < end; i++) ranks += at[i].ranks;
        if (at[from].attempt != attempt || ranks < 2) continue;
        to->n_steps += at[from].step != last;
        last = at[from].step;
        if (end - from < 2) continue;
        to->n_unlike += last != last_unlike;
        last_unlike = last;
        if (to->step >= 0) continue;
        to->step = last;
        to->of = at + from;
        to->n = (int32_t)(end - from);
    }
}

static void put_one(lmi_buf *b, const lmi_ranks_order *of) {
    lmi_putf(b, "rank %d", (int)of->first_rank);
    if (of->ranks > 1) lmi_putf(b, " and %lld more", (long long)(of->ranks - 1));
}

/* "rank 3 began 41, rank 0 and 6 more 42" */
static void put_groups(lmi_buf *b, const lmi_unlike *u) {
    enum { MOST = 3 };
    const bool equal = u->of[0].n == u->of[u->n - 1].n;
    for (int32_t i = 0; i < u->n && i < MOST; i++) {
        if (i) lmi_put(b, ", ");
        put_one(b, &u->of[i]);
        if (equal) continue;
        lmi_putf(b, i ? " %lld" : " began %lld", (long long)u->of[i].n);
    }
    if (u->n > MOST) lmi_putf(b, ", and %d others", (int)(u->n - MOST));
    if (equal)
        lmi_putf(b, " began %lld each, but not the same ones in the same order", (long long)u->of[0].n);
}

static lam_status note(lam_ranks *r, lam_error *e) {
    const lmi_unlike *u = &r->unlike;
    lmi_buf b;
    lmi_buf_init(&b);
    put_groups(&b, u);
    const lam_status s =
        b.bad ? lmi_nomem(e)
              : lmi_ranks_note(
                    r, e,
                    "collectives differ in %lld of %lld recorded steps, first in step %lld: %s; a rank "
                    "waits forever for one that the others of its group do not begin",
                    (long long)u->n_unlike, (long long)u->n_steps, (long long)u->step, lmi_buf_text(&b));
    lmi_buf_free(&b);
    return s;
}

lam_status lmi_ranks_orders(lam_ranks *r, lam_error *e) {
    join(r);
    const lmi_ranks_order *at = r->orders.data;
    /* The newest attempt with steps that can be compared. */
    for (size_t i = r->orders.n; i-- > 0 && !r->unlike.n_steps;)
        if (i + 1 == r->orders.n || at[i].attempt != at[i + 1].attempt) compare(r, at[i].attempt);
    if (!r->unlike.n) return LAM_OK;
    lmi_ranks_order *groups = lmi_copy(&r->arena, r->unlike.of, (uint64_t)r->unlike.n, sizeof *groups);
    if (!groups) return lmi_nomem(e);
    qsort(groups, (size_t)r->unlike.n, sizeof *groups, by_ranks);
    r->unlike.of = groups;
    return note(r, e);
}
