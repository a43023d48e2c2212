/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank or a node beside its peers, or all layers beside each other: phases, when it was late, its layers,
 * and when it was last alive. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ROWS = 18, MOST_ASKED = 64, MOST_PEERS = 16, MOST_NEAR = 3 };
static const int64_t all_hours = INT64_C(1) << 40;

/* Of each rank, whether it is one of those that are wanted, or one of their peers. */
typedef struct sides {
    bool *in, *peer;
} sides;

/* -- which ranks --------------------------------------------------------------------------------------- */

static lam_status no_rank(const lam_ranks *r, int64_t rank, lam_error *e) {
    int32_t *all = malloc(((size_t)r->n_ranks + 1) * sizeof *all);
    lmi_buf b;
    if (!all) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_ranks; i++) all[i] = r->ranks[i].rank;
    lmi_buf_init(&b);
    lmi_put_ranges(&b, all, r->n_ranks);
    free(all);
    lam_status s =
        b.bad ? lmi_nomem(e)
        : rank < r->world
            ? lmi_fail(e, LAM_RANGE, NULL,
                       "rank %lld of this run has no recorded steps that can be compared; %s have",
                       (long long)rank, r->n_ranks ? lmi_buf_text(&b) : "none")
            : lmi_fail(e, LAM_RANGE, NULL, "there is no rank %lld in this run: its ranks are 0..%d",
                       (long long)rank, (int)(r->world - 1));
    lmi_buf_free(&b);
    return s;
}

/* The names that are nearest to one that is none, the nearest first, then by name. */
static lam_status no_node(const lam_ranks *r, const char *name, lam_error *e) {
    const size_t n = r->nodes.n;
    bool *listed = calloc(n + 1, sizeof *listed);
    lmi_buf b;
    if (!listed) return lmi_nomem(e);
    lmi_buf_init(&b);
    for (int k = 0; k < MOST_NEAR; k++) {
        int32_t top = -1, least = 0;
        for (int32_t i = 0; i < (int32_t)n; i++) {
            const int32_t d = lmi_distance(name, lmi_ranks_node_name(r, i));
            if (listed[i] || (top >= 0 && d > least)) continue;
            if (top >= 0 && d == least && strcmp(lmi_ranks_node_name(r, i), lmi_ranks_node_name(r, top)) > 0)
                continue;
            top = i;
            least = d;
        }
        if (top < 0) break;
        listed[top] = true;
        lmi_putf(&b, k ? ", %.40s" : "%.40s", lmi_ranks_node_name(r, top));
    }
    free(listed);
    lam_status s = b.bad ? lmi_nomem(e)
                         : lmi_fail(e, LAM_RANGE, NULL, "there is no node '%.60s' in this run; %s: %s", name,
                                    n > MOST_NEAR ? "nearest are" : "there are", lmi_buf_text(&b));
    lmi_buf_free(&b);
    return s;
}

static lam_status find_ranks(lam_ranks *r, const lam_ranks_look *what, bool *in, lam_error *e) {
    lmi_look *k = &r->look;
    if (what->rank != LAM_NOT_KNOWN) {
        const int32_t col =
            what->rank < 0 || what->rank > INT32_MAX ? -1 : lmi_ranks_col(r, (int32_t)what->rank);
        if (col < 0) return no_rank(r, what->rank, e);
        in[col] = true;
        k->rank = (int32_t)what->rank;
        k->n_ranks = 1;
        return LAM_OK;
    }
    if (!what->node) return LAM_OK;
    const int64_t node = lmi_map_get(&r->node_of, what->node);
    for (int32_t i = 0; node >= 0 && i < r->n_ranks; i++) {
        in[i] = r->ranks[i].node == node;
        k->n_ranks += in[i];
    }
    k->node = (int32_t)node;
    return k->n_ranks ? LAM_OK : no_node(r, what->node, e);
}

/* Those that have the layers of the first of these ranks; where there are none, all others. */
static void find_peers(lam_ranks *r, const sides *x) {
    lmi_look *k = &r->look;
    int32_t first = 0;
    while (first < r->n_ranks && !x->in[first]) first++;
    for (int all = 0; all < 2 && !k->n_peers && first < r->n_ranks; all++) {
        k->alike = !all;
        for (int32_t i = 0; i < r->n_ranks; i++) {
            x->peer[i] = !x->in[i] && (all || r->ranks[i].tree == r->ranks[first].tree);
            k->n_peers += x->peer[i];
        }
    }
}

/* -- when ---------------------------------------------------------------------------------------------- */

/* From the first window in which one of them is late to the last. */
static void find_when(lam_ranks *r, const bool *in) {
    lmi_look *k = &r->look;
    size_t n = 0;
    for (int32_t i = 0; r->found && i < r->n_ranks; i++) {
        const lmi_stretch *s = &r->found[i];
        if (!in[i] || !s->n) continue;
        if (!k->when.n || s->first < k->when.first) k->when.first = s->first;
        if (!k->when.n || s->last > k->when.last) k->when.last = s->last;
        k->when.n += s->n;
        k->n_late++;
    }
    if (k->when.n) lmi_ranks_since(r, k->when.first, &k->since_attempt, &k->since_step, &k->since_us);
    for (int32_t w = 0; w < r->n_wins; w++)
        if (!k->when.n || (w >= k->when.first && w <= k->when.last)) r->room[n++] = k->wins[w].late;
    k->late = lmi_middle(r->room, n);
}

static void find_last(lam_ranks *r, const bool *in) {
    lmi_look *k = &r->look;
    for (int32_t i = 0; i < r->n_steps; i++) {
        const int32_t col = lmi_ranks_col(r, r->steps[i].last_rank);
        k->last_in += col >= 0 && in[col];
    }
}

/* Of the newest attempt of each rank. */
static void find_beat(lam_ranks *r, const bool *in) {
    lmi_look *k = &r->look;
    k->seen = LAM_NOT_KNOWN;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        const lmi_fact *f = r->ranks[i].fact;
        if (!f) continue;
        if (f->seen > k->seen) k->seen = f->seen;
        if (!in[i]) continue;
        k->apart = k->apart || (k->fact && f->seen != k->fact->seen);
        if (!k->fact || (f->seen != LAM_NOT_KNOWN && f->seen < k->fact->seen)) k->fact = f;
    }
}

/* -- numbers ------------------------------------------------------------------------------------------- */

/* The median over some ranks in a window. */
static double middle_in(lam_ranks *r, const float *of, int32_t win, const bool *some) {
    const float *row = of + (size_t)win * (size_t)r->n_ranks;
    size_t n = 0;
    for (int32_t i = 0; i < r->n_ranks; i++)
        if (some[i]) r->room[n++] = row[i];
    return lmi_middle(r->room, n);
}

static lam_status fill_windows(lam_ranks *r, const sides *x, float *of, lam_error *e) {
    lmi_look *k = &r->look;
    k->wins = lmi_alloc(&r->arena, (uint64_t)r->n_wins, sizeof *k->wins);
    if (!k->wins) return lmi_nomem(e);
    lmi_ranks_spread(r, LMI_US_OWN, of);
    for (int32_t w = 0; w < r->n_wins; w++) {
        k->wins[w].own = middle_in(r, of, w, x->in);
        k->wins[w].peer = middle_in(r, of, w, x->peer);
        k->wins[w].late = r->late ? middle_in(r, r->late, w, x->in) : NAN;
    }
    lmi_ranks_spread(r, LMI_US_COMM, of);
    for (int32_t w = 0; w < r->n_wins; w++) k->wins[w].waits = middle_in(r, of, w, x->in);
    return LAM_OK;
}

/* The peers, the rank or node itself, and of a node each of its ranks. */
static lam_status list_rows(lam_ranks *r, const bool *in, lam_error *e) {
    lmi_look *k = &r->look;
    k->rows = lmi_alloc(&r->arena, MOST_ROWS, sizeof *k->rows);
    if (!k->rows) return lmi_nomem(e);
    k->rows[k->n_rows++] = (lmi_phases){.rank = -1, .node = -1};
    k->rows[k->n_rows++] = (lmi_phases){.rank = k->rank, .node = k->node};
    for (int32_t i = 0; k->node >= 0 && i < r->n_ranks && k->n_rows < MOST_ROWS; i++)
        if (in[i]) k->rows[k->n_rows++] = (lmi_phases){.rank = r->ranks[i].rank, .node = -1};
    return LAM_OK;
}

static void fill_rows(lam_ranks *r, const sides *x, float *of) {
    lmi_look *k = &r->look;
    for (int what = 0; what < LMI_N_US; what++) {
        lmi_ranks_spread(r, (lmi_us)what, of);
        for (int32_t j = 0; j < k->n_rows; j++) {
            size_t n = 0;
            for (int32_t i = 0; i < r->n_ranks; i++) {
                const bool of_row = j == 0   ? x->peer[i]
                                    : j == 1 ? x->in[i]
                                             : r->ranks[i].rank == k->rows[j].rank;
                if (of_row) r->room[n++] = lmi_ranks_mean(r, of, i, &k->when);
            }
            k->rows[j].of[what] = lmi_middle(r->room, n);
        }
    }
}

static lam_status fill(lam_ranks *r, const sides *x, lam_error *e) {
    float *of = malloc(((size_t)r->n_wins * (size_t)r->n_ranks + 1) * sizeof *of);
    if (!of) return lmi_nomem(e);
    lam_status s = fill_windows(r, x, of, e);
    if (s == LAM_OK) s = list_rows(r, x->in, e);
    if (s == LAM_OK) {
        find_when(r, x->in);
        fill_rows(r, x, of);
    }
    free(of);
    return s;
}

/* -- layers -------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    const lmi_layer *x = a, *y = b;
    if (x->name != y->name) return x->name < y->name ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static double more_of(const lmi_look_layer *l) {
    return isnan(l->own) || isnan(l->peer) ? -INFINITY : l->own - l->peer;
}

static int by_more(const void *a, const void *b) {
    const lmi_look_layer *x = a, *y = b;
    const double m = more_of(x), n = more_of(y);
    if (m != n) return m > n ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* A layer in some ranks: the medians, or of all ranks the one that takes longest above its peers. */
static lmi_look_layer layer_of(const lam_ranks *r, const lmi_layer *at, size_t n, double *room) {
    const bool all = !r->look.n_ranks;
    const char *name = ((const char *const *)r->layers_named.data)[at->name];
    lmi_look_layer l = {.name = name, .rank = all ? at->rank : -1, .own = at->own, .peer = at->peer};
    for (size_t i = 1; all && i < n; i++) {
        const lmi_look_layer other = {name, at[i].rank, at[i].own, at[i].peer};
        if (more_of(&other) > more_of(&l)) l = other;
    }
    if (all) return l;
    for (size_t i = 0; i < n; i++) room[i] = at[i].own;
    l.own = lmi_middle(room, n);
    for (size_t i = 0; i < n; i++) room[i] = at[i].peer;
    l.peer = lmi_middle(room, n);
    return l;
}

/* The rows that were added from `from` on, a layer each; they are taken away again. */
static lam_status take_layers(lam_ranks *r, size_t from, lam_error *e) {
    lmi_look *k = &r->look;
    lmi_layer *at = (lmi_layer *)r->layers.data + from;
    const size_t n = r->layers.n - from;
    double *room = malloc((n + 1) * sizeof *room);
    k->layers = lmi_alloc(&r->arena, n, sizeof *k->layers);
    lam_status s = room && k->layers ? LAM_OK : lmi_nomem(e);
    if (s == LAM_OK && n) qsort(at, n, sizeof *at, by_name);
    for (size_t i = 0, end; s == LAM_OK && i < n; i = end) {
        for (end = i + 1; end < n && at[end].name == at[i].name; end++) continue;
        k->layers[k->n_layers++] = layer_of(r, at + i, end - i, room);
    }
    if (k->n_layers) qsort(k->layers, (size_t)k->n_layers, sizeof *k->layers, by_more);
    k->has_layers = n > 0;
    r->layers.n = from;
    free(room);
    return s;
}

/* Requests those of some ranks, and of some peers, which lie evenly among all. */
static lam_status ask_layers(lam_ranks *r, const sides *x, lam_give_layers layers, void *self, lam_error *e) {
    int32_t ranks[MOST_ASKED], peers[MOST_PEERS], seen = 0;
    const lmi_look *k = &r->look;
    lam_layers_wanted w = {.ranks = ranks, .peers = peers};
    const size_t from = r->layers.n;
    if (!layers || (k->n_ranks && !k->n_peers)) return LAM_OK;
    if (!lmi_ranks_hours(r, k->n_ranks ? &k->when : &r->period, &w)) w.last_hour = all_hours;
    const int32_t each = k->n_peers / MOST_PEERS > 1 ? k->n_peers / MOST_PEERS : 1;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        if (x->in[i] && w.n_ranks < MOST_ASKED) ranks[w.n_ranks++] = r->ranks[i].rank;
        if (x->peer[i] && seen++ % each == 0 && w.n_peers < MOST_PEERS) peers[w.n_peers++] = r->ranks[i].rank;
    }
    const lam_status s = layers(self, &w, r, e);
    return s == LAM_OK ? take_layers(r, from, e) : s;
}

/* -- all together -------------------------------------------------------------------------------------- */

static lam_status look_at(lam_ranks *r, const lam_ranks_look *what, const sides *x, lam_give_layers layers,
                          void *self, lam_error *e) {
    LAM_TRY(find_ranks(r, what, x->in, e));
    find_peers(r, x);
    if (r->look.n_ranks) LAM_TRY(fill(r, x, e));
    find_last(r, x->in);
    find_beat(r, x->in);
    LAM_TRY(ask_layers(r, x, layers, self, e));
    r->look.there = true;
    return LAM_OK;
}

lam_status lam_ranks_look_at(lam_ranks *r, const lam_ranks_look *what, lam_give_layers layers, void *self,
                             lam_error *e) {
    if (!r || !r->judged || r->look.there)
        return lmi_fail(e, LAM_USAGE, "lam_ranks_look_at", "the verdict is reached first, and it looks once");
    if (!what || (what->rank != LAM_NOT_KNOWN) + (what->node != NULL) + what->layers != 1)
        return lmi_fail(e, LAM_USAGE, "lam_ranks_look_at", "it looks at a rank, at a node, or at all layers");
    r->look = (lmi_look){.rank = -1,
                         .node = -1,
                         .since_attempt = LAM_NOT_KNOWN,
                         .since_step = LAM_NOT_KNOWN,
                         .since_us = LAM_NOT_KNOWN,
                         .late = NAN};
    sides x = {calloc((size_t)r->n_ranks + 1, sizeof *x.in), calloc((size_t)r->n_ranks + 1, sizeof *x.peer)};
    lam_status s = x.in && x.peer ? look_at(r, what, &x, layers, self, e) : lmi_nomem(e);
    free(x.in);
    free(x.peer);
    return s;
}
