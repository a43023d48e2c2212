/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is late: own work beside that of ranks with the same layers, window by window. */
#include "analyse/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>

int64_t *lmi_ranks_trees(const lam_ranks *r, int32_t *n) {
    int64_t *all = malloc(((size_t)r->n_ranks + 1) * sizeof *all);
    *n = 0;
    if (!all) return NULL;
    for (int32_t i = 0; i < r->n_ranks; i++) all[i] = r->ranks[i].tree;
    qsort(all, (size_t)r->n_ranks, sizeof *all, lmi_by_size);
    for (int32_t i = 0; i < r->n_ranks; i++)
        if (!i || all[i] != all[*n - 1]) all[(*n)++] = all[i];
    return all;
}

static double share_above(double own, double of) { return of > 0 ? own / of - 1 : NAN; }

/* Against the median of those of the tree. */
static void beside_peers(lam_ranks *r, const float *own, int64_t tree) {
    for (int32_t w = 0; w < r->n_wins; w++) {
        const size_t row = (size_t)w * (size_t)r->n_ranks;
        size_t n = 0;
        for (int32_t i = 0; i < r->n_ranks; i++)
            if (r->ranks[i].tree == tree) r->room[n++] = own[row + (size_t)i];
        const double middle = lmi_middle(r->room, n);
        for (int32_t i = 0; i < r->n_ranks; i++)
            if (r->ranks[i].tree == tree)
                r->late[row + (size_t)i] = (float)share_above(own[row + (size_t)i], middle);
    }
}

/* Of two or three ranks: against the fastest of the others. */
static void beside_fastest(lam_ranks *r, const float *own) {
    for (int32_t w = 0; w < r->n_wins; w++) {
        const size_t row = (size_t)w * (size_t)r->n_ranks;
        for (int32_t i = 0; i < r->n_ranks; i++) {
            double least = NAN;
            for (int32_t k = 0; k < r->n_ranks; k++)
                if (k != i && !isnan(own[row + (size_t)k]) && !(least <= own[row + (size_t)k]))
                    least = own[row + (size_t)k];
            r->late[row + (size_t)i] = r->n_ranks < 2 ? 0 : (float)share_above(own[row + (size_t)i], least);
        }
    }
}

/* Ranks without peers: against their own beginning, and that against all others'. */
static lam_status beside_beginning(lam_ranks *r, const float *own, const bool *alone, lam_error *e) {
    const int32_t head = r->n_wins / 4 > 1 ? r->n_wins / 4 : 1;
    double *first = malloc((size_t)r->n_ranks * sizeof *first);
    if (!first) return lmi_nomem(e);
    for (int32_t i = 0; i < r->n_ranks; i++) {
        for (int32_t w = 0; w < head && w < r->n_wins; w++)
            r->room[w] = own[(size_t)w * (size_t)r->n_ranks + (size_t)i];
        first[i] = lmi_middle(r->room, (size_t)(head < r->n_wins ? head : r->n_wins));
    }
    for (int32_t w = 0; w < r->n_wins; w++) {
        const size_t row = (size_t)w * (size_t)r->n_ranks;
        for (int32_t i = 0; i < r->n_ranks; i++)
            r->room[i] = first[i] > 0 ? own[row + (size_t)i] / first[i] : NAN;
        const double middle = lmi_middle(r->room, (size_t)r->n_ranks);
        for (int32_t i = 0; i < r->n_ranks; i++)
            if (alone[i] && first[i] > 0)
                r->late[row + (size_t)i] = (float)share_above(own[row + (size_t)i] / first[i], middle);
    }
    free(first);
    return LAM_OK;
}

static lam_status late_by_trees(lam_ranks *r, const float *own, const int64_t *tree, int32_t n_trees,
                                lam_error *e) {
    bool *alone = lmi_alloc(&r->arena, (uint64_t)r->n_ranks, sizeof *alone);
    int32_t n_alone = 0;
    if (!alone) return lmi_nomem(e);
    for (int32_t t = 0; t < n_trees; t++) {
        int32_t n = 0;
        for (int32_t i = 0; i < r->n_ranks; i++) n += r->ranks[i].tree == tree[t];
        if (n >= LMI_PEERS)
            beside_peers(r, own, tree[t]);
        else if (n_trees == 1)
            beside_fastest(r, own);
        if (n >= LMI_PEERS || n_trees == 1) continue;
        for (int32_t i = 0; i < r->n_ranks; i++) alone[i] = alone[i] || r->ranks[i].tree == tree[t];
        n_alone += n;
    }
    if (!n_alone) return LAM_OK;
    LAM_TRY(lmi_ranks_note(r, e, "%d rank%s no peers with the same layers: compared with the own beginning",
                           (int)n_alone, n_alone == 1 ? " has" : "s have"));
    return beside_beginning(r, own, alone, e);
}

lam_status lmi_ranks_late(lam_ranks *r, const float *own, lam_error *e) {
    const size_t n = (size_t)r->n_wins * (size_t)r->n_ranks;
    int32_t n_trees;
    r->late = lmi_alloc(&r->arena, n, sizeof *r->late);
    int64_t *tree = lmi_ranks_trees(r, &n_trees);
    for (size_t i = 0; r->late && i < n; i++) r->late[i] = NAN;
    lam_status s = tree && r->late ? late_by_trees(r, own, tree, n_trees, e) : lmi_nomem(e);
    free(tree);
    return s;
}

double lmi_ranks_late_in(const lam_ranks *r, int32_t col, const lmi_stretch *in) {
    size_t n = 0;
    for (int32_t w = in->first; w <= in->last; w++)
        r->room[n++] = r->late[(size_t)w * (size_t)r->n_ranks + (size_t)col];
    return lmi_middle(r->room, n);
}

/* -- candidates ---------------------------------------------------------------------------------------- */

/* What lateness varies by in a window: the median of all windows. */
static lam_status usual_spread(const lam_ranks *r, double *out, lam_error *e) {
    double *of = malloc(((size_t)r->n_wins + 1) * sizeof *of);
    if (!of) return lmi_nomem(e);
    for (int32_t w = 0; w < r->n_wins; w++) {
        const float *late = r->late + (size_t)w * (size_t)r->n_ranks;
        for (int32_t i = 0; i < r->n_ranks; i++) r->room[i] = late[i];
        const double middle = lmi_middle(r->room, (size_t)r->n_ranks);
        for (int32_t i = 0; i < r->n_ranks; i++) r->room[i] = fabs(late[i] - middle);
        of[w] = lmi_spread(r->room, (size_t)r->n_ranks);
    }
    const double spread = lmi_middle(of, (size_t)r->n_wins);
    *out = spread > 0.004 ? spread : 0.004;
    free(of);
    return LAM_OK;
}

int32_t lmi_ranks_n_found(const lam_ranks *r) {
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_ranks; i++) n += r->found[i].n > 0;
    return n;
}

int32_t lmi_ranks_size_of(const lam_ranks *r, int32_t node) {
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_ranks; i++) n += r->ranks[i].node == node;
    return n;
}

static int32_t hot_windows_wanted(const lam_ranks *r) {
    return r->n_wins < LMI_HOT_WINDOWS ? r->n_wins : LMI_HOT_WINDOWS;
}

static bool one_tree(const lam_ranks *r) {
    for (int32_t i = 1; i < r->n_ranks; i++)
        if (r->ranks[i].tree != r->ranks[0].tree) return false;
    return true;
}

enum { FEW_NODES = 3 };

/* The nodes of all ranks; 0 unless they are two or three of at least LMI_PEERS ranks each. */
static int32_t few_nodes(const lam_ranks *r, int32_t out[FEW_NODES]) {
    int32_t n = 0;
    for (int32_t i = 0, k; i < r->n_ranks; i++) {
        for (k = 0; k < n && out[k] != r->ranks[i].node; k++) continue;
        if (k == n && n == FEW_NODES) return 0;
        if (k == n) out[n++] = r->ranks[i].node;
    }
    for (int32_t k = 0; k < n; k++)
        if (lmi_ranks_size_of(r, out[k]) < LMI_PEERS) return 0;
    return n >= 2 ? n : 0;
}

/* Fills middle[node][window], and returns what the ranks of a node vary by around it. */
static double middles_of_nodes(lam_ranks *r, const float *own, const int32_t *nodes, int32_t n,
                               double *middle, double *all) {
    double most = 0.01;
    for (int32_t k = 0; k < n; k++) {
        size_t n_all = 0;
        for (int32_t w = 0; w < r->n_wins; w++) {
            const float *row = own + (size_t)w * (size_t)r->n_ranks;
            size_t found = 0;
            for (int32_t i = 0; i < r->n_ranks; i++)
                if (r->ranks[i].node == nodes[k]) r->room[found++] = row[i];
            const double m = middle[k * r->n_wins + w] = lmi_middle(r->room, found);
            for (int32_t i = 0; i < r->n_ranks; i++)
                if (r->ranks[i].node == nodes[k]) all[n_all++] = m > 0 ? fabs(row[i] / m - 1) : NAN;
        }
        const double spread = lmi_spread(all, n_all);
        if (spread > most) most = spread;
    }
    return most;
}

/* The windows in which a node is late beside the fastest of the others. */
static lmi_stretch node_hot(const lam_ranks *r, const double *middle, int32_t n, int32_t k, double least,
                            bool *hot) {
    for (int32_t w = 0; w < r->n_wins; w++) {
        double fastest = NAN;
        for (int32_t i = 0; i < n; i++)
            if (i != k && !(fastest <= middle[i * r->n_wins + w])) fastest = middle[i * r->n_wins + w];
        hot[w] = share_above(middle[k * r->n_wins + w], fastest) >= least;
    }
    return lmi_most_hot(hot, r->n_wins);
}

/* Of two or three nodes half of the ranks may be slow, and the median says nothing: the nodes are compared
 * with the fastest of them. It is one node, or none. */
static lam_status find_node(lam_ranks *r, const float *own, bool *hot, lam_error *e) {
    int32_t nodes[FEW_NODES], which = -1;
    const int32_t n = one_tree(r) ? few_nodes(r, nodes) : 0;
    lmi_stretch when = {0, -1, 0};
    if (!n) return LAM_OK;
    double *middle = malloc(((size_t)n * (size_t)r->n_wins + 1) * sizeof *middle);
    double *all = malloc(((size_t)r->n_ranks * (size_t)r->n_wins + 1) * sizeof *all);
    if (!middle || !all) {
        free(middle);
        free(all);
        return lmi_nomem(e);
    }
    const double spread = middles_of_nodes(r, own, nodes, n, middle, all);
    const double least =
        2 * lmi_ranking.late > lmi_ranking.apart * spread ? 2 * lmi_ranking.late : lmi_ranking.apart * spread;
    bool many = false;
    for (int32_t k = 0; k < n; k++) {
        const lmi_stretch s = node_hot(r, middle, n, k, least, hot);
        if (!s.n || s.n < hot_windows_wanted(r)) continue;
        many = which >= 0;
        which = k;
        when = s;
    }
    for (int32_t i = 0; i < r->n_ranks && which >= 0 && !many; i++)
        if (r->ranks[i].node == nodes[which]) r->found[i] = when;
    free(middle);
    free(all);
    return LAM_OK;
}

/* What numbers in order vary by. */
static double spread_of(const lam_ranks *r, const double *of, int32_t n) {
    const double middle = (of[(n - 1) / 2] + of[n / 2]) / 2;
    for (int32_t i = 0; i < n; i++) r->room[i] = fabs(of[i] - middle);
    return lmi_spread(r->room, (size_t)n);
}

/* Where the ranks come in two kinds, of which each is over a quarter of them, the median of all says nothing.
 * `late`: of each rank in the whole run, in order, of which there are `n`. Returns the least of the slower
 * kind; NaN: there is one kind. */
static double slower_kind(const lam_ranks *r, const double *late, int32_t n) {
    const int32_t least = (int32_t)(lmi_ranking.many * n) + 1;
    int32_t at = -1;
    for (int32_t i = least; i + least <= n; i++)
        if (at < 0 || late[i] - late[i - 1] > late[at] - late[at - 1]) at = i;
    if (at < 0 || n <= LMI_PEERS) return NAN;
    const double faster = spread_of(r, late, at), slower = spread_of(r, late + at, n - at);
    const double apart = lmi_ranking.apart * (faster > slower ? faster : slower);
    const double gap = late[at] - late[at - 1];
    return gap >= lmi_ranking.late && gap >= apart ? late[at] : NAN;
}

static lam_status find_kind(lam_ranks *r, lam_error *e) {
    double *late = malloc(2 * ((size_t)r->n_ranks + 1) * sizeof *late);
    const lmi_stretch whole = {0, r->n_wins - 1, r->n_wins};
    int32_t n = 0;
    if (!late) return lmi_nomem(e);
    double *sorted = late + r->n_ranks;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        late[i] = lmi_ranks_late_in(r, i, &whole);
        if (!isnan(late[i])) sorted[n++] = late[i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, lmi_by_number);
    const double least = slower_kind(r, sorted, n);
    for (int32_t i = 0; i < r->n_ranks; i++)
        if (late[i] >= least) r->found[i] = whole;
    free(late);
    return LAM_OK;
}

/* What the lateness of a rank varies by from window to window, whether it is late or not; NaN: unknown. */
static double varies_by(const lam_ranks *r, int32_t col) {
    const size_t ranks = (size_t)r->n_ranks;
    const float *late = r->late + col;
    for (int32_t w = 1; w < r->n_wins; w++)
        r->room[w - 1] = fabs(late[(size_t)w * ranks] - late[(size_t)(w - 1) * ranks]);
    return lmi_spread(r->room, (size_t)(r->n_wins - 1)) / sqrt(2);
}

/* Two or three ranks do not tell what ranks vary by. One of them is late if the mean of its windows is far
 * above its standard error, and if these are several: two processes on one processor's core are slow for a
 * moment. */
static bool is_beyond_chance(const lam_ranks *r, int32_t col, const lmi_stretch *s) {
    double sum = 0, n = 0;
    const int32_t half = r->n_wins / 2;
    if (r->n_wins < 2) return true;
    if (s->n < (half < LMI_FEW_WINDOWS ? half : LMI_FEW_WINDOWS)) return false;
    const double error = varies_by(r, col);
    for (int32_t w = s->first; w <= s->last; w++) {
        const double late = r->late[(size_t)w * (size_t)r->n_ranks + (size_t)col];
        if (isnan(late)) continue;
        sum += late;
        n++;
    }
    return isnan(error) || sum / n >= lmi_ranking.few_apart * error / sqrt(n);
}

lam_status lmi_ranks_find(lam_ranks *r, const float *own, lam_error *e) {
    double spread = 0;
    bool *hot = lmi_alloc(&r->arena, (uint64_t)r->n_wins, sizeof *hot);
    r->found = lmi_alloc(&r->arena, (uint64_t)r->n_ranks, sizeof *r->found);
    r->named = lmi_alloc(&r->arena, (uint64_t)r->n_ranks, sizeof *r->named);
    if (!hot || !r->found || !r->named) return lmi_nomem(e);
    LAM_TRY(usual_spread(r, &spread, e));
    const double apart = lmi_ranking.apart * spread;
    const double least = r->n_ranks < LMI_PEERS     ? lmi_ranking.few_late
                         : apart > lmi_ranking.late ? apart
                                                    : lmi_ranking.late;
    bool any = false;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        for (int32_t w = 0; w < r->n_wins; w++)
            hot[w] = r->late[(size_t)w * (size_t)r->n_ranks + (size_t)i] >= least;
        const lmi_stretch s = lmi_most_hot(hot, r->n_wins);
        if (!s.n || s.n < hot_windows_wanted(r)) continue;
        if (r->n_ranks < LMI_PEERS && !is_beyond_chance(r, i, &s)) continue;
        r->found[i] = s;
        any = true;
    }
    if (any) return LAM_OK;
    LAM_TRY(find_node(r, own, hot, e));
    return lmi_ranks_n_found(r) || !one_tree(r) ? LAM_OK : find_kind(r, e);
}
