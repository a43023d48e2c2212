/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules that differ, each with its own numbers, so that the differences of all lines add up to that of
 * the whole. A place that was added or removed with everything in it is one line, and so is everything below
 * the depth. */
#include "report/diff/diff.h"

#include <stdlib.h>
#include <string.h>

typedef struct listing {
    lmi_diff_lines *to;
    const lam_diff *d;
    lam_error *e;
    lmi_figure by;
    int32_t depth;
} listing;

/* -- the change of a place itself ------------------------------------------------------------------------ */

static lmi_change change_of(const lam_diff *d, int32_t i) {
    return lmi_outline_change(&d->both, i, d->moved[i]);
}

/* A place in a renamed one is renamed with it. */
void lmi_diff_count(lam_diff *d) {
    for (int32_t i = 0; i < d->both.n; i++) {
        int32_t up = d->both.at[i].parent;
        d->moved[i] = lmi_outline_moved(&d->both, i) || (up >= 0 && d->moved[up]);
    }
    lmi_outline_count(&d->both, d->n);
}

/* -- numbers --------------------------------------------------------------------------------------------- */

static lam_count number_of(const lam_diff *d, int side, lmi_figure k, int32_t place) {
    int32_t at = lmi_diff_at(d, side, place);
    return at < 0 ? lmi_exact(0) : lmi_figure_own(&d->side[side].o, k, at);
}

static void add_numbers(const lam_diff *d, lmi_diff_line *l, int32_t place) {
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        lmi_figure k = (lmi_figure)i;
        if (!d->by_place[i]) continue;
        l->was[i] = lmi_sum(l->was[i], number_of(d, 0, k, place));
        l->now[i] = lmi_sum(l->now[i], number_of(d, 1, k, place));
    }
}

static int64_t spread_of(const lam_diff *d, int side, lmi_figure k, int32_t place) {
    int32_t at = lmi_diff_at(d, side, place);
    const int64_t *spread = d->side[side].spread[lmi_figures[k].part[0]];
    return at < 0 || !spread ? 0 : spread[at];
}

static bool is_measured(lmi_figure k) { return k >= LMI_FIGURE_TIME && k < LMI_N_FIGURES; }

/* A measured number differs if medians are further apart than they spread. */
static bool measured_differs(const listing *t, int32_t i) {
    lmi_figure k = t->by;
    if (!is_measured(k)) return false;
    lmi_delta delta = lmi_delta_of(number_of(t->d, 0, k, i), number_of(t->d, 1, k, i));
    double spread = (double)spread_of(t->d, 0, k, i) + (double)spread_of(t->d, 1, k, i);
    return delta.how == LMI_DELTA_UNKNOWN ? false : lmi_delta_size(delta) > spread;
}

/* -- lines ----------------------------------------------------------------------------------------------- */

static lmi_diff_line *add_line(listing *t, int32_t place, lmi_change change) {
    lmi_diff_line *l = lmi_vec_push(&t->to->at);
    if (!l) return NULL;
    *l = (lmi_diff_line){.place = place, .change = (uint8_t)change, .modules = 1};
    l->moved = t->d->moved[place] && lmi_diff_at(t->d, 0, place) >= 0 && lmi_diff_at(t->d, 1, place) >= 0;
    return l;
}

static bool is_alone(const lam_diff *d, int32_t i, lmi_change change) {
    for (int32_t k = i; k < d->both.at[i].end; k++)
        if (change_of(d, k) != change) return false;
    return true;
}

/* The number of places at and below `i` that differ. */
static int32_t differ_below(const listing *t, int32_t i) {
    int32_t n = 0;
    for (int32_t k = i; k < t->d->both.at[i].end; k++)
        n += change_of(t->d, k) != LMI_SAME || measured_differs(t, k);
    return n;
}

/* Adds everything at and below a place as one line, and moves `*i` past it. */
static lam_status add_whole(listing *t, int32_t *i, lmi_change change, int32_t modules) {
    int32_t end = t->d->both.at[*i].end;
    lmi_diff_line *l = add_line(t, *i, change);
    if (!l) return lmi_nomem(t->e);
    l->whole = end > *i + 1;
    l->modules = modules;
    for (; *i < end; ++*i) add_numbers(t->d, l, *i);
    return LAM_OK;
}

static bool begins_move(const lam_diff *d, int32_t i) {
    int32_t up = d->both.at[i].parent;
    return d->moved[i] && (up < 0 || !d->moved[up] || lmi_outline_moved(&d->both, i));
}

static lam_status add_place(listing *t, int32_t *i) {
    const lam_diff *d = t->d;
    lmi_change change = change_of(d, *i);
    int32_t all = d->both.at[*i].end - *i;
    bool apart =
        change == LMI_ADDED || change == LMI_REMOVED || (change == LMI_RENAMED && begins_move(d, *i));
    if (apart && is_alone(d, *i, change) && (change != LMI_RENAMED || !is_measured(t->by)))
        return add_whole(t, i, change, all);
    if (t->depth >= 0 && d->both.at[*i].depth >= t->depth && all > 1) {
        int32_t n = differ_below(t, *i);
        if (n) return add_whole(t, i, LMI_CHANGED, n);
        *i += all;
        return LAM_OK;
    }
    bool renamed = change == LMI_RENAMED && begins_move(d, *i);
    bool measured = change == LMI_SAME || change == LMI_RENAMED ? measured_differs(t, *i) : false;
    bool shown = change == LMI_ADDED || change == LMI_REMOVED || change == LMI_CHANGED;
    if (shown || renamed || measured) {
        lmi_diff_line *l = add_line(t, *i, measured ? LMI_CHANGED : change);
        if (!l) return lmi_nomem(t->e);
        add_numbers(d, l, *i);
    }
    ++*i;
    return LAM_OK;
}

/* -- order ----------------------------------------------------------------------------------------------- */

typedef struct ranked {
    double size, other;
    lmi_diff_line line;
} ranked;

static int by_size(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    bool renamed = x->line.change == LMI_RENAMED, other = y->line.change == LMI_RENAMED;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    if (x->other != y->other) return x->other < y->other ? 1 : -1;
    if (renamed != other) return renamed ? 1 : -1;
    return x->line.place < y->line.place ? -1 : 1;
}

static double size_of(const lmi_diff_line *l, int k) {
    return lmi_delta_size(lmi_delta_of(l->was[k], l->now[k]));
}

static lam_status sort_lines(listing *t) {
    lmi_diff_line *all = t->to->at.data;
    size_t n = t->to->at.n;
    if (n < 2) return LAM_OK;
    ranked *to = calloc(n, sizeof *to);
    if (!to) return lmi_nomem(t->e);
    for (size_t i = 0; i < n; i++) {
        to[i].line = all[i];
        if (t->by != LMI_N_FIGURES) to[i].size = size_of(&all[i], t->by);
        to[i].other = size_of(&all[i], LMI_FIGURE_PARAMS);
    }
    qsort(to, n, sizeof *to, by_size);
    for (size_t i = 0; i < n; i++) all[i] = to[i].line;
    free(to);
    return LAM_OK;
}

/* -- by which metric ------------------------------------------------------------------------------------- */

static lam_status no_metric(const lam_diff *d, const char *by, lam_error *e) {
    lmi_buf text;
    lmi_buf_init(&text);
    lmi_figure of = lmi_diff_find(by);
    lmi_setup_change u;
    if (of == LMI_N_FIGURES) {
        lmi_putf(&text, "there is no metric '%s'", by);
    } else if (lmi_diff_is_unlike(d, of, &u)) {
        lmi_putf(&text, "'%s' can't be compared (", by);
        lmi_put_setup_change(&text, &u, true);
        lmi_putc(&text, ')');
    } else {
        lmi_putf(&text, "'%s' is not known of the modules of both", by);
    }
    const char *before = "; there are: ";
    for (int k = 0; k < LMI_N_FIGURES; k++) {
        if (!d->by_place[k]) continue;
        lmi_putf(&text, "%s%s", before, lmi_figures[k].name);
        before = ", ";
    }
    if (*before == ';') lmi_put(&text, "; there are: none");
    lam_status s = lmi_buf_status(&text, e);
    if (s == LAM_OK) s = lmi_fail(e, LAM_USAGE, "by", "%s", lmi_buf_text(&text));
    lmi_buf_free(&text);
    return s;
}

static bool differs_anywhere(const lam_diff *d, lmi_figure k) {
    for (int32_t i = 0; i < d->both.n; i++)
        if (!lmi_is_same(number_of(d, 0, k, i), number_of(d, 1, k, i))) return true;
    return false;
}

/* Measured numbers always differ a little, so they come last. */
static lmi_figure first_that_differs(const lam_diff *d) {
    static const lmi_figure order[] = {LMI_FIGURE_MACS,  LMI_FIGURE_PARAMS,    LMI_FIGURE_FLOPS,
                                       LMI_FIGURE_MOVED, LMI_FIGURE_BACK_MACS, LMI_FIGURE_PARAM_BYTES};
    bool recorded = d->side[0].recording || d->side[1].recording;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (d->by_place[order[i]] && differs_anywhere(d, order[i])) return order[i];
    if (recorded && d->by_place[LMI_FIGURE_TIME]) return LMI_FIGURE_TIME;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (d->by_place[order[i]]) return order[i];
    return LMI_N_FIGURES;
}

lam_status lmi_diff_list(lmi_diff_lines *l, const lam_diff *d, const char *by, int32_t depth, lam_error *e) {
    listing t = {.to = l, .d = d, .e = e, .depth = depth};
    t.by = by ? lmi_diff_find(by) : first_that_differs(d);
    if (by && (t.by == LMI_N_FIGURES || !d->by_place[t.by])) return no_metric(d, by, e);
    l->by = t.by;
    for (int32_t i = 0; i < d->both.n;) LAM_TRY(add_place(&t, &i));
    return sort_lines(&t);
}
