/* SPDX-License-Identifier: Apache-2.0
 *
 * What each row and everything below it take together. It is counted when a row is first read: tables add up
 * their lines themselves. */
#include "analyse/cost/work.h"

/* -- calls ----------------------------------------------------------------------------------------------- */

/* Calls are numbered in the order in which they began, so a backward loop visits children before parents. */
static lam_status add_calls(const lam_costs *c, lmi_arena *scratch, lam_row_below *all, lam_error *e) {
    const lam_model *m = c->model;
    lam_count(*sum)[LAM_N_METRICS] = lmi_alloc(scratch, (uint64_t)m->n_events, sizeof *sum);
    if (!sum) return lmi_nomem(e);
    for (int32_t r = 0; r < c->n_rows; r++)
        if (c->rows[r].event >= 0) memcpy(sum[c->rows[r].event], c->rows[r].metric, sizeof *sum);
    for (int32_t i = m->n_events - 1; i >= 0; i--) {
        int32_t parent = m->events[i].parent;
        for (int k = 0; parent >= 0 && k < LAM_N_METRICS; k++)
            sum[parent][k] = lmi_count_add(sum[parent][k], sum[i][k]);
    }
    for (int32_t r = 0; r < c->n_rows; r++) {
        const lam_cost_row *row = &c->rows[r];
        for (int k = 0; k < LAM_N_METRICS; k++)
            all[r].total[k] = row->event >= 0 ? lmi_settled(sum[row->event][k]) : row->metric[k];
    }
    return LAM_OK;
}

/* -- distinct parameters under each place ------------------------------------------------------ */

enum { ELEMENTS, STORED, LOGICAL, LOCAL, N_UNDER };

/* Sums of the tensors under a place, and how many of these have an unknown number. */
typedef struct under {
    lmi_int128 n[N_UNDER];
    int64_t unknown[N_UNDER];
} under;

typedef struct weighing {
    under *sum; /* per place */
    bool packed;
} weighing;

static void weigh(void *self, int32_t place, const lam_tensor *t, int sign) {
    const weighing *w = self;
    const int64_t numbers[N_UNDER] = {t->numel, t->bytes, lmi_logical_bytes(t), t->local_bytes};
    under *u = &w->sum[place];
    if (t->packed && !w->packed) return;
    for (int k = 0; k < N_UNDER; k++) {
        if (numbers[k] < 0)
            u->unknown[k] += sign;
        else
            u->n[k] += sign * (lmi_int128)numbers[k];
    }
}

static lam_count as_count(const under *u, int k) {
    const lmi_int128 half = (lmi_int128)INT64_MAX + 1;
    lam_state state = u->unknown[k] == 0              ? LAM_EXACT
                      : k == ELEMENTS || u->n[k] == 0 ? LAM_UNKNOWN
                                                      : LAM_AT_LEAST;
    return lmi_settled((lam_count){(int64_t)(u->n[k] % half), (uint32_t)(u->n[k] / half), state});
}

static lam_status add_params(const lam_costs *c, lmi_arena *scratch, lam_row_below *all, lam_error *e) {
    const lam_model *m = c->model;
    lmi_tree tree;
    under *sum = lmi_alloc(scratch, (uint64_t)m->n_places, sizeof *sum);
    if (!sum) return lmi_nomem(e);
    weighing weighed = {sum, lmi_counts_packed(c)};
    LAM_TRY(lmi_tree_build(&tree, m, scratch, e));
    LAM_TRY(lmi_tree_weigh(&tree, m, scratch, weigh, &weighed, e));
    for (int32_t i = m->n_places - 1; i >= 0; i--) {
        int32_t parent = m->places[i].parent;
        for (int k = 0; parent >= 0 && k < N_UNDER; k++) {
            sum[parent].n[k] += sum[i].n[k];
            sum[parent].unknown[k] += sum[i].unknown[k];
        }
    }
    for (int32_t r = 0; r < c->n_rows; r++) {
        const under *u = &sum[c->rows[r].place];
        all[r].params = as_count(u, ELEMENTS);
        all[r].param_bytes = as_count(u, STORED);
        all[r].logical_bytes = as_count(u, LOGICAL);
        all[r].local_bytes = as_count(u, LOCAL);
    }
    return LAM_OK;
}

/* -- the rows -------------------------------------------------------------------------------------------- */

static lam_status fill(lam_costs *c, lmi_arena *scratch, lam_error *e) {
    lam_row_below *all = lmi_alloc(&c->arena, (uint64_t)c->n_rows, sizeof *all);
    if (!all) return lmi_nomem(e);
    LAM_TRY(add_calls(c, scratch, all, e));
    LAM_TRY(add_params(c, scratch, all, e));
    for (int32_t r = 0; r < c->n_rows; r++) c->rows[r].below = &all[r];
    return LAM_OK;
}

lam_status lmi_below_need(const lam_costs *c, lam_error *e) {
    lmi_arena scratch;
    if (!c || !c->below_pending) return LAM_OK;
    lam_costs *mine = (lam_costs *)(uintptr_t)c; /* computed on first use; the costs look constant */
    lmi_arena_init(&scratch, UINT64_MAX);
    const lam_status s = fill(mine, &scratch, e);
    lmi_arena_free(&scratch);
    mine->below_pending = s != LAM_OK;
    return s;
}
