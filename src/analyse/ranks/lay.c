/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables as arrays: ranks in their order, windows that have enough steps, and each step of the run. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

/* -- ranks --------------------------------------------------------------------------------------------- */

static int by_rank_newest_last(const void *a, const void *b) {
    const lmi_fact *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->attempt != y->attempt) return x->attempt < y->attempt ? -1 : 1;
    return (x->seen > y->seen) - (x->seen < y->seen);
}

/* The newest fact of a rank: of two of one attempt that which was seen last. */
static const lmi_fact *newest(const lam_ranks *r, int32_t rank) {
    const lmi_fact *at = r->facts.data;
    size_t low = 0, high = r->facts.n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (at[mid].rank <= rank)
            low = mid + 1;
        else
            high = mid;
    }
    return low && at[low - 1].rank == rank ? &at[low - 1] : NULL;
}

static void lay_facts(lam_ranks *r) {
    const lmi_fact *at = r->facts.data;
    qsort(r->facts.data, r->facts.n, sizeof *at, by_rank_newest_last);
    r->waits = LAM_WAITS_APART;
    for (size_t i = 0; i < r->facts.n; i++) {
        if (at[i].world > r->world) r->world = at[i].world;
        if (at[i].attempt >= r->attempts) r->attempts = at[i].attempt + 1;
        if (at[i].waits > r->waits) r->waits = at[i].waits;
    }
}

static int by_int(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Those that have a window that counts. */
static lam_status lay_ranks(lam_ranks *r, lam_error *e) {
    const lmi_window *at = r->windows.data;
    int32_t n = 0, *all = malloc((r->windows.n + 1) * sizeof *all);
    if (!all) return lmi_nomem(e);
    for (size_t i = 0; i < r->windows.n; i++)
        if (at[i].win >= 0) all[n++] = at[i].rank;
    qsort(all, (size_t)n, sizeof *all, by_int);
    r->ranks = lmi_alloc(&r->arena, (uint64_t)n, sizeof *r->ranks);
    lam_status s = r->ranks ? LAM_OK : lmi_nomem(e);
    for (int32_t i = 0; s == LAM_OK && i < n; i++) {
        if (i && all[i] == all[i - 1]) continue;
        const lmi_fact *fact = newest(r, all[i]);
        r->ranks[r->n_ranks] =
            (lmi_ranked_rank){all[i], fact, fact ? fact->tree : -1, fact ? fact->node : -1};
        s = lmi_map_put_u64(&r->col_of, (uint64_t)all[i], r->n_ranks++, e);
    }
    free(all);
    return s;
}

/* -- windows ------------------------------------------------------------------------------------------- */

static int by_window(const void *a, const void *b) {
    const lmi_win *x = a, *y = b;
    if (x->attempt != y->attempt) return x->attempt < y->attempt ? -1 : 1;
    if (x->window != y->window) return x->window < y->window ? -1 : 1;
    return (x->first_step > y->first_step) - (x->first_step < y->first_step);
}

/* Sorted, each once, with the first of its steps. */
static int32_t once(lmi_win *v, int32_t n) {
    int32_t to = 0;
    qsort(v, (size_t)n, sizeof *v, by_window);
    for (int32_t i = 0; i < n; i++)
        if (!i || v[i].attempt != v[to - 1].attempt || v[i].window != v[to - 1].window) v[to++] = v[i];
    return to;
}

static int32_t find_window(const lmi_win *v, int32_t n, int32_t attempt, int64_t window) {
    int32_t low = 0, high = n;
    while (low < high) {
        const int32_t mid = low + (high - low) / 2;
        if (v[mid].attempt < attempt || (v[mid].attempt == attempt && v[mid].window < window))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The steps that a rank needs in a window for that to count: a third of the most that a rank has in it, or in
 * the one before it of the same attempt, as the last window may have just begun. Windows become longer in the
 * course of a run. */
static lam_status find_least(const lam_ranks *r, const lmi_win *all, int32_t n_all, int32_t **least,
                             lam_error *e) {
    const lmi_window *at = r->windows.data;
    int32_t *most = calloc((size_t)n_all + 1, sizeof *most);
    *least = calloc((size_t)n_all + 1, sizeof **least);
    if (!most || !*least) {
        free(most);
        return lmi_nomem(e);
    }
    for (size_t i = 0; i < r->windows.n; i++) {
        const int32_t w = find_window(all, n_all, at[i].attempt, at[i].window);
        if (at[i].n > most[w]) most[w] = at[i].n;
    }
    for (int32_t w = 0; w < n_all; w++) {
        const bool follows =
            w && all[w].attempt == all[w - 1].attempt && all[w].window == all[w - 1].window + 1;
        const int32_t whole = follows && most[w - 1] > most[w] ? most[w - 1] : most[w];
        (*least)[w] = whole / 3 > 4 ? whole / 3 : 4;
    }
    free(most);
    return LAM_OK;
}

/* `all`: the windows, thin ones too, which steps are of that count with the next window. */
static lam_status lay_windows(lam_ranks *r, lmi_win **all, int32_t *n_all, lam_error *e) {
    lmi_window *at = r->windows.data;
    int32_t n = 0, *least = NULL;
    *all = lmi_alloc(&r->arena, r->windows.n, sizeof **all);
    r->wins = lmi_alloc(&r->arena, r->windows.n, sizeof *r->wins);
    if (!*all || !r->wins) return lmi_nomem(e);
    for (size_t i = 0; i < r->windows.n; i++)
        (*all)[i] =
            (lmi_win){at[i].attempt, at[i].window, at[i].first_step, at[i].started, NAN, NAN, NAN, NAN};
    *n_all = once(*all, (int32_t)r->windows.n);
    lam_status s = find_least(r, *all, *n_all, &least, e);
    for (size_t i = 0; s == LAM_OK && i < r->windows.n; i++) {
        at[i].win = at[i].n < least[find_window(*all, *n_all, at[i].attempt, at[i].window)] ? -1 : 0;
        if (at[i].win == 0)
            r->wins[n++] =
                (lmi_win){at[i].attempt, at[i].window, at[i].first_step, at[i].started, NAN, NAN, NAN, NAN};
    }
    free(least);
    if (s != LAM_OK) return s;
    r->n_wins = once(r->wins, n);
    for (size_t i = 0; i < r->windows.n; i++)
        if (at[i].win == 0) at[i].win = find_window(r->wins, r->n_wins, at[i].attempt, at[i].window);
    LAM_TRY(lay_ranks(r, e));
    for (size_t i = 0; i < r->windows.n; i++) at[i].col = at[i].win < 0 ? -1 : lmi_ranks_col(r, at[i].rank);
    return LAM_OK;
}

void lmi_ranks_spread(const lam_ranks *r, lmi_us what, float *out) {
    const lmi_window *at = r->windows.data;
    const size_t n = (size_t)r->n_wins * (size_t)r->n_ranks;
    for (size_t i = 0; i < n; i++) out[i] = NAN;
    for (size_t i = 0; i < r->windows.n; i++)
        if (at[i].win >= 0) out[(size_t)at[i].win * (size_t)r->n_ranks + (size_t)at[i].col] = at[i].of[what];
}

/* -- steps --------------------------------------------------------------------------------------------- */

/* The index in `all` of the window that a step is in; -1: it is before the first one. */
static int32_t window_at(const lmi_win *all, int32_t n, int32_t attempt, int64_t step) {
    int32_t low = 0, high = n;
    while (low < high) {
        const int32_t mid = low + (high - low) / 2;
        if (all[mid].attempt < attempt || (all[mid].attempt == attempt && all[mid].first_step <= step))
            low = mid + 1;
        else
            high = mid;
    }
    return low && all[low - 1].attempt == attempt ? low - 1 : -1;
}

/* The index of the window, or of the next one of its attempt if it was too thin; -1: there is none. */
static int32_t window_of(const lam_ranks *r, const lmi_win *of) {
    const int32_t w = find_window(r->wins, r->n_wins, of->attempt, of->window);
    return w < r->n_wins && r->wins[w].attempt == of->attempt ? w : -1;
}

static int by_key(const void *a, const void *b) {
    const lmi_key *x = a, *y = b;
    LMI_ORDER(x->attempt, y->attempt);
    LMI_ORDER(x->step, y->step);
    return 0;
}

/* NaN if one of them is. */
static double smaller_of(double a, double b) { return a < b ? a : b <= a ? b : NAN; }

/* fmax and fmin leave out what is not known. Of equal ones the smaller rank is last, so that the order of
 * rows does not matter. */
static void add_meet(lmi_step *s, const lmi_meet *m) {
    if (m->last_rank >= 0 && !isnan(m->last) &&
        (s->last_rank < 0 || m->last > s->last || (m->last == s->last && m->last_rank < s->last_rank)))
        s->last_rank = m->last_rank;
    s->second = fmax(fmax(s->second, m->second), smaller_of(s->last, m->last));
    s->last = fmax(s->last, m->last);
    if (!isnan(m->own)) s->own = isnan(s->own) ? m->own : s->own + m->own;
    s->ranks += m->ranks;
    if (m->weight > s->weight) s->weight = m->weight;
    s->transfer = fmin(s->transfer, m->transfer);
    s->whole = fmax(s->whole, m->whole);
    if (m->started != LAM_NOT_KNOWN && (s->started == LAM_NOT_KNOWN || m->started < s->started))
        s->started = m->started;
}

/* Steps that fewer than half of the ranks have are left out. */
static lam_status drop_rare(lam_ranks *r, int32_t *to, lam_error *e) {
    int64_t most = 0;
    int32_t n = 0, *moved = lmi_alloc_none(&r->arena, r->n_steps);
    if (!moved) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_steps; i++)
        if (r->steps[i].ranks > most) most = r->steps[i].ranks;
    for (int32_t i = 0; i < r->n_steps; i++) {
        if (2 * r->steps[i].ranks < most) continue;
        moved[i] = n;
        r->steps[n++] = r->steps[i];
    }
    lmi_meet *at = r->meets.data;
    size_t kept = 0;
    for (size_t i = 0; i < r->meets.n; i++) {
        at[i].step = moved[to[at[i].step]];
        if (at[i].step >= 0) at[kept++] = at[i];
    }
    r->meets.n = kept;
    r->n_steps = n;
    return LAM_OK;
}

static lam_status lay_steps(lam_ranks *r, const lmi_win *all, int32_t n_all, lam_error *e) {
    const int32_t n = (int32_t)r->keys.n;
    lmi_key *keys = r->keys.data;
    int32_t *to = lmi_alloc_none(&r->arena, n);
    r->steps = lmi_alloc(&r->arena, (uint64_t)n, sizeof *r->steps);
    if (!to || !r->steps) return lmi_nomem(e);
    r->n_steps = n;
    for (int32_t i = 0; i < n; i++) keys[i].to = i;
    if (n) qsort(keys, (size_t)n, sizeof *keys, by_key);
    for (int32_t i = 0; i < n; i++) {
        to[keys[i].to] = i;
        const int32_t w = window_at(all, n_all, keys[i].attempt, keys[i].step);
        r->steps[i] = (lmi_step){.attempt = keys[i].attempt,
                                 .win = w < 0 ? -1 : window_of(r, &all[w]),
                                 .step = keys[i].step,
                                 .started = LAM_NOT_KNOWN,
                                 .last_rank = -1,
                                 .last = NAN,
                                 .second = NAN,
                                 .own = NAN,
                                 .transfer = NAN,
                                 .whole = NAN};
    }
    const lmi_meet *at = r->meets.data;
    for (size_t i = 0; i < r->meets.n; i++) add_meet(&r->steps[to[at[i].step]], &at[i]);
    for (int32_t i = 0; i < n; i++)
        if (r->steps[i].ranks) r->steps[i].own /= (double)r->steps[i].ranks;
    return drop_rare(r, to, e);
}

static lam_status lay_room(lam_ranks *r, lam_error *e) {
    int64_t n = r->n_ranks > r->n_wins ? r->n_ranks : r->n_wins;
    if (r->n_steps > n) n = r->n_steps;
    if ((int64_t)r->windows.n > n) n = (int64_t)r->windows.n;
    r->n_room = (size_t)n + 1;
    r->room = calloc(r->n_room, sizeof *r->room);
    return r->room ? LAM_OK : lmi_nomem(e);
}

typedef double (*of_step)(const lmi_step *s);
static double whole_of(const lmi_step *s) { return s->whole; }
static double own_of(const lmi_step *s) { return s->own; }
static double late_of(const lmi_step *s) { return s->last - s->own; }
static double transfer_of(const lmi_step *s) { return s->transfer; }

/* The medians of each window's steps. */
static void middles_of_windows(lam_ranks *r) {
    static const of_step numbers[] = {whole_of, own_of, late_of, transfer_of};
    for (int32_t from = 0, end, w = 0; w < r->n_wins; w++, from = end) {
        double *to[] = {&r->wins[w].step, &r->wins[w].own, &r->wins[w].late, &r->wins[w].transfer};
        while (from < r->n_steps && r->steps[from].win < w) from++;
        for (end = from; end < r->n_steps && r->steps[end].win == w; end++) continue;
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            for (int32_t i = from; i < end; i++) r->room[i - from] = numbers[k](&r->steps[i]);
            *to[k] = lmi_middle(r->room, (size_t)(end - from));
        }
    }
}

lam_status lmi_ranks_lay(lam_ranks *r, lam_error *e) {
    lmi_win *all;
    int32_t n_all = 0;
    if (r->windows.n > INT32_MAX || r->meets.n > INT32_MAX)
        return lmi_fail(e, LAM_LIMIT, "lam_ranks_judge", "there are more than 2^31 rows");
    lay_facts(r);
    LAM_TRY(lmi_ranks_one_run(r, e));
    LAM_TRY(lay_windows(r, &all, &n_all, e));
    LAM_TRY(lay_steps(r, all, n_all, e));
    LAM_TRY(lay_room(r, e));
    middles_of_windows(r);
    return LAM_OK;
}
