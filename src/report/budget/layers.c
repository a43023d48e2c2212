/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers that made a total exceed its limit, and the operators of those that call others. */
#include "report/budget/budget.h"

#include <stdlib.h>

/* A place of the outline, with its number before (0 without a baseline) and now. */
typedef struct candidate {
    int32_t place;
    bool whole;
    int64_t was, now;
} candidate;

static int more(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    int64_t p = x->now - x->was, q = y->now - y->was;
    return p != q ? (p < q ? 1 : -1) : x->place - y->place;
}

/* A figure's parts of a place; of times, which are limited with their backward, the backward's too. */
static int64_t number(int64_t *const numbers[LMI_N_OWN], const lmi_figure_info *of, int32_t place) {
    int64_t sum = 0;
    for (int i = 0; i < 2 && place >= 0; i++)
        if (of->part[i] != LMI_OWN_NO && numbers[of->part[i]])
            sum = lmi_add_capped(sum, numbers[of->part[i]][place]);
    if (of->needs != LAM_NEEDS_TIMES || of->back == LMI_FIGURE_NO) return sum;
    return lmi_add_capped(sum, number(numbers, &lmi_figures[of->back], place));
}

/* An added place is one candidate with everything in it; the places in it are none. */
static bool take(const lmi_outline *o, const lmi_outline *both, const lmi_figure_info *of, int32_t i,
                 candidate *out) {
    const lmi_outline *all = both ? both : o;
    bool added = both && both->change[i] == LMI_ADDED;
    if (added && all->at[i].parent >= 0 && both->change[all->at[i].parent] == LMI_ADDED) return false;
    *out = (candidate){.place = i, .whole = added, .now = number(added ? all->total : all->own, of, i)};
    if (both) out->was = number(both->was->own, of, both->was_at[i]);
    return out->now > out->was;
}

/* -- operators ------------------------------------------------------------------------------------------- */

/* The number of an operator; false if it has none. */
static bool of_operator(const lam_costs *c, int32_t op, const lmi_figure_info *of, int64_t *out) {
    lam_count metric[LAM_N_METRICS];
    bool counted, back = lam_model_op(lam_costs_model(c), op)->phase != LAM_FORWARD;
    if (back != (of->needs == LAM_NEEDS_BACKWARD)) return false;
    if (lam_costs_op(c, op, metric, &counted, NULL) != LAM_OK || !counted) return false;
    lam_count n = of->metric == LAM_BYTES_READ ? lam_metric_bytes(metric) : metric[of->metric];
    *out = n.over ? INT64_MAX : n.n;
    return n.state != LAM_UNKNOWN && *out > 0;
}

/* Adds an operator to the list, which stays sorted by value; if the list is full, the smallest is dropped. */
static void add_operator(lmi_growth *p, struct lmi_growth_op op) {
    enum { ROOM = sizeof p->op / sizeof *p->op };
    int i = p->n_ops < ROOM ? p->n_ops++ : ROOM;
    for (; i > 0 && op.value > p->op[i - 1].value; i--)
        if (i < ROOM) p->op[i] = p->op[i - 1];
    if (i < ROOM) p->op[i] = op;
}

/* Finds the operators that ran at a place itself, and adds up those of one name. */
static lam_status find_operators(lam_check *k, lmi_growth *p, const lam_costs *c, const lmi_figure_info *of,
                                 lam_error *e) {
    const lam_model *m = lam_costs_model(c);
    lam_status s = lmi_model_index(m, e);
    const int32_t place = lam_model_find(m, p->path);
    lmi_map names;
    lmi_vec sums;
    lmi_map_init(&names);
    lmi_vec_init(&sums, sizeof(struct lmi_growth_op));
    for (int32_t i = 0; i < lam_model_n_ops(m) && s == LAM_OK; i++) {
        const lam_op *op = lam_model_op(m, i);
        const lam_event *call = lam_model_event(m, op->call);
        int64_t value;
        if (!call || call->place != place || !of_operator(c, i, of, &value)) continue;
        int64_t at = lmi_map_get(&names, op->sig->name);
        if (at < 0) {
            struct lmi_growth_op *new = lmi_vec_push(&sums);
            at = (int64_t)sums.n - 1;
            s = new ? lmi_map_put(&names, op->sig->name, at, e) : lmi_nomem(e);
            if (new) new->name = op->sig->name;
        }
        struct lmi_growth_op *sum = lmi_vec_at(&sums, (size_t)at);
        if (s != LAM_OK || !sum) break;
        sum->n++;
        if (lmi_add_over(sum->value, value, &sum->value)) sum->value = INT64_MAX;
    }
    const struct lmi_growth_op *all = sums.data;
    for (size_t i = 0; s == LAM_OK && i < sums.n; i++) add_operator(p, all[i]);
    for (int i = 0; s == LAM_OK && i < p->n_ops; i++) {
        p->op[i].name = lmi_strdup(&k->arena, p->op[i].name);
        if (!p->op[i].name) s = lmi_nomem(e);
    }
    lmi_map_free(&names);
    lmi_vec_free(&sums);
    return s;
}

/* -- layers ---------------------------------------------------------------------------------------------- */

static lam_status keep(lam_check *k, lmi_limit_result *h, const lam_costs *c, const lmi_outline *all,
                       const candidate *from, lam_error *e) {
    lmi_growth *p = &h->part[h->n_parts++];
    lmi_buf path;
    lmi_buf_init(&path);
    lmi_outline_path(all, from->place, &path);
    *p = (lmi_growth){.was = from->was, .now = from->now, .whole = from->whole};
    if (all->change) p->change = from->whole ? LMI_ADDED : LMI_CHANGED;
    p->path = lmi_buf_keep(&path, &k->arena);
    p->type = lmi_strdup(&k->arena, all->at[from->place].type);
    if (!p->path || !p->type) return lmi_nomem(e);
    bool own = all->at[from->place].n_children > 0 && !from->whole;
    return own && h->of->metric >= 0 ? find_operators(k, p, c, h->of, e) : LAM_OK;
}

lam_status lmi_find_parts(lam_check *k, lmi_limit_result *h, const lam_costs *c, const lmi_outline *o,
                          const lmi_outline *both, lam_error *e) {
    const lmi_outline *all = both ? both : o;
    candidate *found = calloc((size_t)all->n + 1, sizeof *found);
    int32_t n = 0, cut = 0;
    lam_status s = found ? LAM_OK : lmi_nomem(e);
    for (int32_t i = 0; s == LAM_OK && i < all->n; i++) {
        if (!take(o, both, h->of, i, &found[n])) continue;
        bool fits = found[n].now < INT64_MAX; /* else it was cut, and says nothing of the layer's share */
        *(fits ? &n : &cut) += 1;
    }
    if (n) qsort(found, (size_t)n, sizeof *found, more);
    for (int32_t i = 0; s == LAM_OK && i < n && i < LMI_MOST_PARTS; i++) s = keep(k, h, c, all, &found[i], e);
    h->n_more = cut + (n > LMI_MOST_PARTS ? n - LMI_MOST_PARTS : 0);
    free(found);
    return s;
}
