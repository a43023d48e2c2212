/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a run of many ranks, row by row. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const lmi_us_names[LMI_N_US] = {"own_us",     "step_us",     "input_us",     "h2d_us",
                                            "forward_us", "backward_us", "optimizer_us", "other_us",
                                            "comm_us",    "processor_us"};
static const char *const kinds[LAM_N_RANK_KINDS] = {"none",  "slow_rank", "slow_node", "slow_link",
                                                    "died",  "uneven",    "processor", "network",
                                                    "input", "slower",    "jitter",    "stages"};

const char *lam_rank_kind_name(lam_rank_kind k) {
    return (unsigned)k < LAM_N_RANK_KINDS ? kinds[k] : kinds[LAM_RANKS_NONE];
}

lam_status lam_ranks_new(lam_ranks **out, lam_error *e) {
    lam_ranks *r = calloc(1, sizeof *r);
    *out = r;
    if (!r) return lmi_nomem(e);
    lmi_arena_init(&r->arena, UINT64_MAX);
    lmi_map *maps[] = {&r->node_of, &r->layer_of, &r->step_of, &r->col_of, &r->group_of};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) lmi_map_init(maps[i]);
    lmi_vec_init(&r->nodes, sizeof(const char *));
    lmi_vec_init(&r->layers_named, sizeof(const char *));
    lmi_vec_init(&r->groups, sizeof(int64_t));
    lmi_vec_init(&r->facts, sizeof(lmi_fact));
    lmi_vec_init(&r->windows, sizeof(lmi_window));
    lmi_vec_init(&r->meets, sizeof(lmi_meet));
    lmi_vec_init(&r->layers, sizeof(lmi_layer));
    lmi_vec_init(&r->keys, sizeof(lmi_key));
    lmi_vec_init(&r->orders, sizeof(lmi_ranks_order));
    lmi_vec_init(&r->notes, sizeof(const char *));
    return LAM_OK;
}

void lam_ranks_free(lam_ranks *r) {
    if (!r) return;
    lmi_map *maps[] = {&r->node_of, &r->layer_of, &r->step_of, &r->col_of, &r->group_of};
    lmi_vec *vecs[] = {&r->nodes, &r->layers_named, &r->groups, &r->facts, &r->windows,
                       &r->meets, &r->layers,       &r->keys,   &r->notes, &r->orders};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) lmi_map_free(maps[i]);
    for (size_t i = 0; i < sizeof vecs / sizeof *vecs; i++) lmi_vec_free(vecs[i]);
    free(r->room);
    lmi_arena_free(&r->arena);
    free(r);
}

const lam_rank_verdict *lam_ranks_verdict(const lam_ranks *r) { return r->judged ? &r->verdict : NULL; }

/* -- names --------------------------------------------------------------------------------------------- */

static int32_t named(lam_ranks *r, lmi_map *of, lmi_vec *names, const char *name, lam_error *e) {
    const int64_t known = lmi_map_get(of, name);
    if (known >= 0) return (int32_t)known;
    const char *kept = lmi_strdup(&r->arena, name);
    if (!kept) {
        lmi_nomem(e);
        return -1;
    }
    const int64_t n = (int64_t)names->n;
    if (lmi_vec_put(names, &kept, e) != LAM_OK || lmi_map_put(of, kept, n, e) != LAM_OK) return -1;
    return (int32_t)n;
}

/* The node of that name, which is added; -1: memory ran out. */
static int32_t node_of(lam_ranks *r, const char *name, lam_error *e) {
    return named(r, &r->node_of, &r->nodes, name, e);
}

int32_t lmi_ranks_col(const lam_ranks *r, int32_t rank) {
    return rank < 0 ? -1 : (int32_t)lmi_map_get_u64(&r->col_of, (uint64_t)rank);
}

lam_status lmi_ranks_note(lam_ranks *r, lam_error *e, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *kept = n > 0 ? lmi_strdup(&r->arena, text) : NULL;
    return kept ? lmi_vec_put(&r->notes, &kept, e) : lmi_nomem(e);
}

/* The index of a group; -1: none; -2: memory ran out. */
static int32_t group_of(lam_ranks *r, int64_t group, lam_error *e) {
    if (group == LAM_NOT_KNOWN) return -1;
    const int64_t known = lmi_map_get_u64(&r->group_of, (uint64_t)group), n = (int64_t)r->groups.n;
    if (known >= 0) return (int32_t)known;
    if (lmi_vec_put(&r->groups, &group, e) != LAM_OK ||
        lmi_map_put_u64(&r->group_of, (uint64_t)group, n, e) != LAM_OK)
        return -2;
    return (int32_t)n;
}

/* -- checks -------------------------------------------------------------------------------------------- */

enum { MOST_RANKS = 1 << 24, MOST_ATTEMPTS = 1 << 15, STEP_BITS = 48 };
static const double most_us = 9007199254740992.0; /* 2^53: from there on a double leaves numbers out */

static lam_status damaged(lam_error *e, const char *table, const char *column) {
    return lmi_fail(e, LAM_SYNTAX, table,
                    "%s is missing, negative or too large: a file is damaged, or it is not of a run", column);
}

static bool is_whole(int64_t n, int64_t end) { return n >= 0 && n < end; }

static bool is_moment(int64_t us) { return us == LAM_NOT_KNOWN || is_whole(us, (int64_t)most_us); }

/* True of NaN too, which is unknown. */
static bool is_time(double us) { return !(us < 0 || us > most_us); }

static lam_status check_rank(int64_t attempt, int64_t rank, const char *table, lam_error *e) {
    if (!is_whole(attempt, MOST_ATTEMPTS)) return damaged(e, table, "attempt");
    return is_whole(rank, MOST_RANKS) ? LAM_OK : damaged(e, table, "rank");
}

/* -- rows ---------------------------------------------------------------------------------------------- */

lam_status lam_ranks_add_fact(lam_ranks *r, const lam_rank_fact *f, lam_error *e) {
    LAM_TRY(check_rank(f->attempt, f->rank, "ranks", e));
    if (!is_whole(f->world, MOST_RANKS) || f->world <= f->rank)
        return lmi_fail(e, LAM_SYNTAX, "ranks", "rank %lld is not one of a world of %lld", (long long)f->rank,
                        (long long)f->world);
    if (!is_moment(f->seen_us)) return damaged(e, "ranks", "seen_us");
    if (!is_moment(f->ended_us)) return damaged(e, "ranks", "ended_us");
    if (!f->node) return lmi_fail(e, LAM_SYNTAX, "ranks", "rank %lld has no node", (long long)f->rank);
    const int32_t node = node_of(r, f->node, e);
    const char *ended_by = f->ended_by ? lmi_strdup(&r->arena, f->ended_by) : NULL;
    const char *ran_last = f->ran_last ? lmi_strdup(&r->arena, f->ran_last) : NULL;
    const char *why_mfu = f->why_mfu ? lmi_strdup(&r->arena, f->why_mfu) : NULL;
    if (node < 0 || (f->ended_by && !ended_by) || (f->ran_last && !ran_last) || (f->why_mfu && !why_mfu))
        return lmi_nomem(e);
    const lmi_fact own = {.attempt = (int32_t)f->attempt,
                          .rank = (int32_t)f->rank,
                          .world = (int32_t)f->world,
                          .node = node,
                          .tree = f->tree,
                          .group = f->comm_group,
                          .seen = f->seen_us,
                          .ended = f->ended_us,
                          .flops = f->step_flops,
                          .hardware = f->hardware_flops,
                          .at_least = f->flops_at_least == 1,
                          .why_mfu = why_mfu,
                          .peak = f->peak_flops,
                          .ended_by = ended_by,
                          .ran_last = ran_last,
                          .waits = f->waits};
    return lmi_vec_put(&r->facts, &own, e);
}

lam_status lam_ranks_add_window(lam_ranks *r, const lam_rank_window *w, lam_error *e) {
    const double of[LMI_N_US] = {w->own_us,      w->step_us,      w->input_us, w->h2d_us,  w->forward_us,
                                 w->backward_us, w->optimizer_us, w->other_us, w->comm_us, w->processor_us};
    LAM_TRY(check_rank(w->attempt, w->rank, "windows", e));
    if (!is_whole(w->win, INT32_MAX)) return damaged(e, "windows", "win");
    if (!is_whole(w->first_step, INT64_C(1) << STEP_BITS)) return damaged(e, "windows", "first_step");
    if (!is_whole(w->steps, INT32_MAX)) return damaged(e, "windows", "steps");
    if (!is_moment(w->started_us)) return damaged(e, "windows", "started_us");
    lmi_window own = {.attempt = (int32_t)w->attempt,
                      .rank = (int32_t)w->rank,
                      .n = (int32_t)w->steps,
                      .window = w->win,
                      .first_step = w->first_step,
                      .started = w->started_us};
    for (int i = 0; i < LMI_N_US; i++) {
        if (!is_time(of[i])) return damaged(e, "windows", lmi_us_names[i]);
        own.of[i] = (float)of[i];
    }
    return lmi_vec_put(&r->windows, &own, e);
}

/* The index of a step in `keys`, which is added; -1: memory ran out. */
static int32_t step_of(lam_ranks *r, int32_t attempt, int64_t step, lam_error *e) {
    const uint64_t key = (uint64_t)attempt << STEP_BITS | (uint64_t)step;
    const int64_t known = lmi_map_get_u64(&r->step_of, key), n = (int64_t)r->keys.n;
    if (known >= 0) return (int32_t)known;
    const lmi_key own = {attempt, 0, step};
    if (n >= INT32_MAX || lmi_map_put_u64(&r->step_of, key, n, e) != LAM_OK) return -1;
    return lmi_vec_put(&r->keys, &own, e) == LAM_OK ? (int32_t)n : -1;
}

static lam_status check_meet(const lam_rank_meet *m, lam_error *e) {
    const struct {
        const char *name;
        double us;
    } times[] = {{"last_us", m->last_us}, {"second_us", m->second_us},
                 {"own_us", m->own_us},   {"transfer_us", m->transfer_us},
                 {"step_us", m->step_us}, {"group_transfer_us", m->group_transfer_us}};
    LAM_TRY(check_rank(m->attempt, 0, "meets", e));
    if (!is_whole(m->step, INT64_C(1) << STEP_BITS)) return damaged(e, "meets", "step");
    if (!is_whole(m->ranks, MOST_RANKS)) return damaged(e, "meets", "ranks");
    if (m->last_rank != LAM_NOT_KNOWN) LAM_TRY(check_rank(0, m->last_rank, "meets", e));
    if (m->second_rank != LAM_NOT_KNOWN) LAM_TRY(check_rank(0, m->second_rank, "meets", e));
    if (!is_moment(m->started_us)) return damaged(e, "meets", "started_us");
    if (m->represents > INT32_MAX) return damaged(e, "meets", "represents");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (!is_time(times[i].us)) return damaged(e, "meets", times[i].name);
    return m->node ? LAM_OK : lmi_fail(e, LAM_SYNTAX, "meets", "a row has no node");
}

static int32_t rank_or_none(int64_t rank) { return rank == LAM_NOT_KNOWN ? -1 : (int32_t)rank; }

lam_status lam_ranks_add_meet(lam_ranks *r, const lam_rank_meet *m, lam_error *e) {
    LAM_TRY(check_meet(m, e));
    const int32_t node = node_of(r, m->node, e), group = group_of(r, m->comm_group, e);
    const int32_t step = node < 0 || group < -1 ? -1 : step_of(r, (int32_t)m->attempt, m->step, e);
    if (step < 0) return lmi_nomem(e);
    const lmi_meet own = {.step = step,
                          .node = node,
                          .group = group,
                          .ranks = (int32_t)m->ranks,
                          .last_rank = rank_or_none(m->last_rank),
                          .second_rank = rank_or_none(m->second_rank),
                          .weight = m->represents < 1 ? 1 : (int32_t)m->represents,
                          .started = m->started_us,
                          .last = (float)m->last_us,
                          .second = (float)m->second_us,
                          .own = (float)m->own_us,
                          .transfer = (float)m->transfer_us,
                          .group_transfer = (float)m->group_transfer_us,
                          .whole = (float)m->step_us};
    return lmi_vec_put(&r->meets, &own, e);
}

lam_status lam_ranks_add_layer(lam_ranks *r, const lam_rank_layer *l, lam_error *e) {
    LAM_TRY(check_rank(0, l->rank, "layers", e));
    if (!is_time(l->own_us)) return damaged(e, "layers", "own_us");
    if (!is_time(l->peer_us)) return damaged(e, "layers", "peer_us");
    if (!l->layer) return lmi_fail(e, LAM_SYNTAX, "layers", "a layer has no name");
    const int32_t name = named(r, &r->layer_of, &r->layers_named, l->layer, e);
    const lmi_layer own = {(int32_t)l->rank, name, (float)l->own_us, (float)l->peer_us};
    return name < 0 ? lmi_nomem(e) : lmi_vec_put(&r->layers, &own, e);
}

lam_status lam_ranks_add_order(lam_ranks *r, const lam_rank_order *o, lam_error *e) {
    LAM_TRY(check_rank(o->attempt, o->first_rank, "orders", e));
    if (!is_whole(o->step, INT64_C(1) << STEP_BITS)) return damaged(e, "orders", "step");
    if (!is_whole(o->ranks, MOST_RANKS)) return damaged(e, "orders", "ranks");
    if (!is_whole(o->collectives, (int64_t)most_us)) return damaged(e, "orders", "collectives");
    if (!is_whole(o->collectives_hash, (int64_t)most_us)) return damaged(e, "orders", "collectives_hash");
    const lmi_ranks_order own = {.attempt = (int32_t)o->attempt,
                                 .first_rank = (int32_t)o->first_rank,
                                 .step = o->step,
                                 .tree = o->tree,
                                 .n = o->collectives,
                                 .hash = o->collectives_hash,
                                 .ranks = o->ranks};
    return lmi_vec_put(&r->orders, &own, e);
}
