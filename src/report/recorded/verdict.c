/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several processes slows the others: the steps that their recordings have in common, reduced to
 * windows and meets, and the verdict on these. All processes record the same steps, so steps of one number
 * are one step, and no clock is compared. */
#include "report/recorded/work.h"

#include <stdio.h>
#include <stdlib.h>

static const int64_t steps_end = INT64_C(1) << 48;

/* A recorded step of a process. */
typedef struct row {
    int64_t attempt, number, started_us, represents, win, collectives, collectives_hash, tree;
    int32_t which, node;                                 /* node: the first process of its host */
    double own, of[LAM_N_STEP_PHASES], whole, processor; /* microseconds, NaN: unknown */
} row;

typedef struct reduction {
    const lmi_recorded *w; /* with earlier starts of the job among its processes */
    int32_t n_shown;       /* those before them */
    lam_ranks *to;
    lmi_vec rows;
    lmi_work work;
    int32_t *node;
    bool *has_step; /* of each process */
    double *room;   /* for medians */
} reduction;

/* -- steps --------------------------------------------------------------------------------------------- */

/* Without a job it is not known which starts of several processes are one: those that are given. */
static int64_t start_of(const reduction *x, const lam_recorded_run *run) {
    return x->w->of_one_job ? lmi_recorded_attempt(run) : 0;
}

/* 0: it has no model, and so no layers. */
static int64_t tree_of(const reduction *x, int32_t which) {
    const lam_recorded_model *m = lam_recording_model(x->w->all[which], x->work.model[which]);
    return m ? m->tree : 0;
}

static lam_status take_process(reduction *x, int32_t which) {
    const lam_recording *r = x->w->all[which];
    const int32_t model = x->work.model[which];
    const int64_t tree = tree_of(x, which);
    lam_recorded_step s;
    for (int64_t i = 0; model >= 0 && lam_recording_step(r, model, i, &s); i++) {
        if (!s.counts || s.number < 0 || s.number >= steps_end) continue;
        row at = {.attempt = start_of(x, lam_recording_run(r)),
                  .number = s.number,
                  .started_us = lmi_recorded_moment(s.unix_ns),
                  .represents = s.represents,
                  .collectives = s.collectives,
                  .collectives_hash = s.collectives_hash,
                  .tree = tree,
                  .which = which,
                  .node = x->node[which],
                  .win = lmi_recorded_window(lam_recording_run(r)->every, &s),
                  .own = lmi_work_own(&x->work, &s),
                  .whole = lmi_recorded_us(s.whole_ns),
                  .processor = lmi_recorded_us(s.processor_wait_ns)};
        for (int k = 0; k < LAM_N_STEP_PHASES; k++)
            at.of[k] = isnan(at.whole) ? NAN : lmi_recorded_us(s.phase_ns[k]);
        LAM_TRY(lmi_vec_put(&x->rows, &at, x->w->e));
    }
    return LAM_OK;
}

/* Steps whose own work is unknown are left out, unless it is in all. */
static void leave_out_unknown(reduction *x) {
    row *at = x->rows.data;
    size_t n = 0;
    bool any = false;
    for (size_t i = 0; i < x->rows.n; i++) any = any || !isnan(at[i].own);
    for (size_t i = 0; any && i < x->rows.n; i++)
        if (!isnan(at[i].own)) at[n++] = at[i];
    if (any) x->rows.n = n;
    for (size_t i = 0; i < x->rows.n; i++) x->has_step[at[i].which] = true;
}

/* -- windows and meets --------------------------------------------------------------------------------- */

static int by_step(const void *a, const void *b) {
    const row *x = a, *y = b;
    LMI_ORDER(x->attempt, y->attempt);
    LMI_ORDER(x->number, y->number);
    LMI_ORDER(x->node, y->node);
    return x->which - y->which;
}

static int by_window(const void *a, const void *b) {
    const row *x = a, *y = b;
    LMI_ORDER(x->attempt, y->attempt);
    LMI_ORDER(x->win, y->win);
    LMI_ORDER(x->which, y->which);
    LMI_ORDER(x->number, y->number);
    return 0;
}

static int by_order(const void *a, const void *b) {
    const row *x = a, *y = b;
    LMI_ORDER(x->attempt, y->attempt);
    LMI_ORDER(x->number, y->number);
    LMI_ORDER(x->tree, y->tree);
    LMI_ORDER(x->collectives, y->collectives);
    LMI_ORDER(x->collectives_hash, y->collectives_hash);
    return x->which - y->which;
}

static bool are_of_step(const row *a, const row *b) {
    return a->attempt == b->attempt && a->number == b->number;
}

static size_t end_of_step(const reduction *x, size_t from) {
    const row *at = x->rows.data;
    size_t end = from;
    while (end < x->rows.n && are_of_step(&at[end], &at[from])) end++;
    return end;
}

/* The processes of a start of the job that have a step. */
static size_t processes(const reduction *x, int64_t attempt) {
    size_t n = 0;
    for (int32_t i = 0; i < x->w->n; i++)
        n += x->has_step[i] && start_of(x, lam_recording_run(x->w->all[i])) == attempt;
    return n;
}

/* Only steps that at least half of the processes have, and two, are in common. The rows are sorted by step.
 */
static void drop_rare(reduction *x) {
    row *at = x->rows.data;
    size_t all = 0;
    for (size_t from = 0, end; from < x->rows.n; from = end) {
        end = end_of_step(x, from);
        if (!from || at[from].attempt != at[from - 1].attempt) all = processes(x, at[from].attempt);
        if (end - from >= 2 && 2 * (end - from) >= all) continue;
        for (size_t i = from; i < end; i++) at[i].win = -1;
    }
}

static int64_t rank_of(const reduction *x, int32_t which) {
    return lam_recording_run(x->w->all[which])->rank;
}

/* The processes of one host in a step; fmax and fmin leave out what is not known. */
static lam_status give_meet(reduction *x, const row *at, size_t n) {
    lam_rank_meet m = {.attempt = at->attempt,
                       .step = at->number,
                       .comm_group = LAM_NOT_KNOWN,
                       .ranks = (int64_t)n,
                       .last_rank = LAM_NOT_KNOWN,
                       .second_rank = LAM_NOT_KNOWN,
                       .started_us = at->started_us,
                       .represents = at->represents,
                       .last_us = NAN,
                       .second_us = NAN,
                       .own_us = NAN,
                       .transfer_us = NAN,
                       .group_transfer_us = NAN,
                       .step_us = NAN,
                       .node = lmi_recorded_host(x->w->all[at->node])};
    for (size_t i = 0; i < n; i++) {
        const double own = at[i].own;
        m.step_us = fmax(m.step_us, at[i].whole);
        if (x->work.waits == LAM_WAITS_APART) m.transfer_us = fmin(m.transfer_us, at[i].of[LAM_STEP_COMM]);
        if (at[i].started_us != LAM_NOT_KNOWN &&
            (m.started_us == LAM_NOT_KNOWN || at[i].started_us < m.started_us))
            m.started_us = at[i].started_us;
        if (isnan(own)) continue;
        m.own_us = isnan(m.own_us) ? own : m.own_us + own;
        if (isnan(m.last_us) || own > m.last_us) {
            m.second_us = m.last_us;
            m.second_rank = m.last_rank;
            m.last_us = own;
            m.last_rank = rank_of(x, at[i].which);
        } else if (isnan(m.second_us) || own > m.second_us) {
            m.second_us = own;
            m.second_rank = rank_of(x, at[i].which);
        }
    }
    return lam_ranks_add_meet(x->to, &m, x->w->e);
}

static lam_status give_meets(reduction *x) {
    const row *at = x->rows.data;
    for (size_t from = 0, end; from < x->rows.n; from = end) {
        for (end = from; end < x->rows.n; end++)
            if (!are_of_step(&at[end], &at[from]) || at[end].node != at[from].node) break;
        if (at[from].win >= 0) LAM_TRY(give_meet(x, at + from, end - from));
    }
    return LAM_OK;
}

/* The mean of what is known. */
static double mean_of(const row *at, size_t n, size_t field) {
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        const double v = *(const double *)(const void *)((const char *)&at[i] + field);
        if (isnan(v)) continue;
        sum += v;
        known++;
    }
    return known ? sum / (double)known : NAN;
}

#define MEAN_OF(phase) mean_of(at, n, offsetof(row, of) + (phase) * sizeof(double))

/* -- collectives --------------------------------------------------------------------------------------- */

static lam_status give_order(reduction *x, const row *at, size_t n) {
    lam_rank_order o = {.attempt = at->attempt,
                        .step = at->number,
                        .tree = at->tree,
                        .collectives = at->collectives,
                        .collectives_hash = at->collectives_hash,
                        .ranks = (int64_t)n,
                        .first_rank = rank_of(x, at->which)};
    for (size_t i = 1; i < n; i++) {
        const int64_t rank = rank_of(x, at[i].which);
        if (rank < o.first_rank) o.first_rank = rank;
    }
    return lam_ranks_add_order(x->to, &o, x->w->e);
}

/* The rows are sorted by step and by what was begun in it. */
static lam_status give_orders(reduction *x) {
    const row *at = x->rows.data;
    for (size_t from = 0, end; from < x->rows.n; from = end) {
        for (end = from + 1; end < x->rows.n; end++)
            if (!are_of_step(&at[end], &at[from]) || at[end].tree != at[from].tree ||
                at[end].collectives != at[from].collectives ||
                at[end].collectives_hash != at[from].collectives_hash)
                break;
        if (at[from].collectives >= 0) LAM_TRY(give_order(x, at + from, end - from));
    }
    return LAM_OK;
}

/* -- windows ------------------------------------------------------------------------------------------- */

static lam_status give_window(reduction *x, const row *at, size_t n) {
    for (size_t i = 0; i < n; i++) x->room[i] = at[i].own;
    const lam_rank_window w = {.attempt = at->attempt,
                               .win = at->win,
                               .rank = rank_of(x, at->which),
                               .first_step = at->number,
                               .started_us = at->started_us,
                               .steps = (int64_t)n,
                               .own_us = lmi_middle(x->room, n),
                               .step_us = mean_of(at, n, offsetof(row, whole)),
                               .input_us = MEAN_OF(LAM_STEP_INPUT),
                               .h2d_us = MEAN_OF(LAM_STEP_H2D),
                               .forward_us = MEAN_OF(LAM_STEP_FORWARD),
                               .backward_us = MEAN_OF(LAM_STEP_BACKWARD),
                               .optimizer_us = MEAN_OF(LAM_STEP_OPTIMIZER),
                               .other_us = MEAN_OF(LAM_STEP_OTHER),
                               .comm_us = MEAN_OF(LAM_STEP_COMM),
                               .processor_us = mean_of(at, n, offsetof(row, processor))};
    return lam_ranks_add_window(x->to, &w, x->w->e);
}

static lam_status give_windows(reduction *x) {
    const row *at = x->rows.data;
    for (size_t from = 0, end; from < x->rows.n; from = end) {
        for (end = from; end < x->rows.n; end++)
            if (at[end].attempt != at[from].attempt || at[end].win != at[from].win ||
                at[end].which != at[from].which)
                break;
        if (at[from].win >= 0) LAM_TRY(give_window(x, at + from, end - from));
    }
    return LAM_OK;
}

/* -- processes ----------------------------------------------------------------------------------------- */

/* A process that has not ended died, unless it wrote a moment ago: then it is as good as one that ended. */
static int64_t end_of(const reduction *x, const lam_recorded_run *run) {
    if (run->ended_unix_ns) return lmi_recorded_moment(run->ended_unix_ns);
    return lmi_recorded_runs(run, x->w->o->now_unix_ns) ? lmi_recorded_moment(run->seen_unix_ns)
                                                        : LAM_NOT_KNOWN;
}

/* What a process ran last: calls are counted at least every two seconds, steps only some of the time. */
static const char *ran_last(const reduction *x, int32_t which, char *to, size_t size) {
    const lam_recorded_run *run = lam_recording_run(x->w->all[which]);
    const lam_recorded_model *m = lam_recording_model(x->w->all[which], x->work.model[which]);
    if (!m || (run->calls <= 0 && m->last < 0)) return NULL;
    const char *name = run->n_models > 1 ? "its models" : m->name;
    const char *later = run->ended_unix_ns ? "" : " or a later one"; /* the newest ones may not be written */
    if (run->calls > 0)
        snprintf(to, size, "call %lld of %.100s%s", (long long)run->calls, name, later);
    else
        snprintf(to, size, "step %lld of %.100s%s", (long long)m->last, name, later);
    return to;
}

static lam_status give_facts(reduction *x) {
    for (int32_t i = 0; i < x->w->n; i++) {
        char last[192];
        const lam_recorded_run *run = lam_recording_run(x->w->all[i]);
        const lam_recorded_model *m = lam_recording_model(x->w->all[i], x->work.model[i]);
        const lam_utilization *u = m ? &m->used : NULL;
        const lam_rank_fact f = {.attempt = start_of(x, run),
                                 .rank = run->rank,
                                 .world = run->world,
                                 .tree = tree_of(x, i),
                                 .comm_group = LAM_NOT_KNOWN,
                                 .seen_us = lmi_recorded_moment(run->seen_unix_ns),
                                 .ended_us = end_of(x, run),
                                 .step_flops = u && u->flops >= 0 ? (double)u->flops : NAN,
                                 .hardware_flops =
                                     u && u->hardware_flops >= 0 ? (double)u->hardware_flops : NAN,
                                 .peak_flops = u ? u->peak : NAN,
                                 .flops_at_least = u && u->at_least,
                                 .why_mfu = u ? lmi_used_why(u) : "no step was recorded",
                                 .node = lmi_recorded_host(x->w->all[i]),
                                 .ended_by = run->ended_by,
                                 .ran_last = ran_last(x, i, last, sizeof last),
                                 .waits = x->work.waits};
        LAM_TRY(lam_ranks_add_fact(x->to, &f, x->w->e));
    }
    return LAM_OK;
}

static void find_nodes(reduction *x) {
    for (int32_t i = 0; i < x->w->n; i++)
        for (x->node[i] = 0; x->node[i] < i; x->node[i]++)
            if (strcmp(lmi_recorded_host(x->w->all[x->node[i]]), lmi_recorded_host(x->w->all[i])) == 0) break;
}

/* -- layers -------------------------------------------------------------------------------------------- */

static int32_t process_of(const reduction *x, int32_t rank) {
    int32_t i = 0;
    while (i < x->w->n && rank_of(x, i) != rank) i++;
    return i; /* ranks of the verdict are of processes */
}

/* The layers of a process beside the medians of the same ones in its peers; all processes are, if none is
 * named. */
static lam_status give_layers_of(reduction *x, int32_t which, const lam_layers_wanted *what, lam_ranks *to,
                                 lam_error *e) {
    const int32_t n_peers = what->n_ranks ? what->n_peers : x->n_shown;
    const lam_recorded_place *p;
    for (int32_t i = 0; (p = lam_recording_place(x->w->all[which], x->work.model[which], i)); i++) {
        size_t n = 0;
        for (int32_t k = 0; k < n_peers && p->own_ns >= 0; k++) {
            const int32_t peer = what->n_ranks ? process_of(x, what->peers[k]) : k;
            const lam_recorded_place *there =
                lmi_recorded_place_like(x->w->all[peer], x->work.model[peer], p, i);
            if (there && there->own_ns >= 0) x->room[n++] = lmi_recorded_us(there->own_ns);
        }
        if (!n) continue;
        const lam_rank_layer l = {.rank = rank_of(x, which),
                                  .own_us = lmi_recorded_us(p->own_ns),
                                  .peer_us = lmi_middle(x->room, n),
                                  .layer = p->depth ? p->path : "(the model)"};
        LAM_TRY(lam_ranks_add_layer(to, &l, e));
    }
    return LAM_OK;
}

static lam_status give_layers(void *self, const lam_layers_wanted *what, lam_ranks *to, lam_error *e) {
    reduction *x = self;
    for (int32_t i = 0; !what->n_ranks && i < x->n_shown; i++)
        if (x->work.model[i] >= 0) LAM_TRY(give_layers_of(x, i, what, to, e));
    for (int32_t i = 0; i < what->n_ranks; i++)
        LAM_TRY(give_layers_of(x, process_of(x, what->ranks[i]), what, to, e));
    return LAM_OK;
}

/* -- the verdict --------------------------------------------------------------------------------------- */

static lam_status reduce(reduction *x) {
    find_nodes(x);
    for (int32_t i = 0; i < x->w->n; i++) LAM_TRY(take_process(x, i));
    leave_out_unknown(x);
    x->room = calloc(x->rows.n + (size_t)x->w->n + 1, sizeof *x->room);
    if (!x->room) return lmi_nomem(x->w->e);
    LAM_TRY(give_facts(x));
    if (x->rows.n) qsort(x->rows.data, x->rows.n, sizeof(row), by_order);
    LAM_TRY(give_orders(x));
    if (x->rows.n) qsort(x->rows.data, x->rows.n, sizeof(row), by_step);
    drop_rare(x);
    LAM_TRY(give_meets(x));
    if (x->rows.n) qsort(x->rows.data, x->rows.n, sizeof(row), by_window);
    LAM_TRY(give_windows(x));
    LAM_TRY(lam_ranks_judge(x->to, give_layers, x, x->w->e));
    return x->w->o->look ? lam_ranks_look_at(x->to, x->w->o->look, give_layers, x, x->w->e) : LAM_OK;
}

static bool are_of_one_run(const lmi_recorded *w) {
    for (int32_t i = 0; i < w->n; i++) {
        const lam_recorded_run *run = lam_recording_run(w->all[i]);
        if (run->world < 2 || run->rank >= run->world) return false;
    }
    return w->n > 1 && !lmi_recorded_unlike(w);
}

lam_status lmi_recorded_judge(const lmi_recorded *w, lam_ranks **out) {
    lmi_recorded all = *w;
    reduction x = {.w = &all, .n_shown = w->n};
    *out = NULL;
    all.n += w->n_older;
    if (w->o->newest || !are_of_one_run(w)) return LAM_OK;
    lmi_vec_init(&x.rows, sizeof(row));
    x.node = calloc((size_t)all.n, sizeof *x.node);
    x.has_step = calloc((size_t)all.n, sizeof *x.has_step);
    lam_status s = x.node && x.has_step ? lmi_work_begin(&x.work, &all) : lmi_nomem(w->e);
    if (s == LAM_OK) s = lam_ranks_new(&x.to, w->e);
    if (s == LAM_OK) s = reduce(&x);
    if (s != LAM_OK) {
        lam_ranks_free(x.to);
        x.to = NULL;
    }
    *out = x.to;
    lmi_vec_free(&x.rows);
    lmi_work_end(&x.work);
    free(x.node);
    free(x.has_step);
    free(x.room);
    return s;
}
