/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that lines of lamina's table are sorted by and that shares are of; and the table as a list:
 * every layer with its path, the largest first. A container's own work is a separate line, so nothing is in
 * it twice. */
#include "report/table/report.h"

#include "analyse/run/times.h"

#include <stdlib.h>

/* False for an unknown number, and for "at least 0", which says nothing. */
static bool known(lam_count c, double *out) {
    *out = lmi_count_double(c);
    return c.state == LAM_EXACT || (c.state == LAM_AT_LEAST && *out > 0);
}

#define METRIC(name, counts, metric_)                                                                        \
    static bool name(const lmi_line *l, double *out) { return known(l->row.counts[metric_], out); }
METRIC(macs_of, metric, LAM_MACS)
METRIC(flops_of, metric, LAM_FLOPS)
METRIC(dmas_of, metric, LAM_DMAS)
METRIC(backward_macs_of, backward, LAM_MACS)
METRIC(backward_flops_of, backward, LAM_FLOPS)
#undef METRIC

static bool params_of(const lmi_line *l, double *out) { return known(l->row.params, out); }
static bool bytes_of(const lmi_line *l, double *out) { return known(lam_metric_bytes(l->row.metric), out); }

/* For the whole it is the run's time, which includes time outside all layers. */
static bool time_of(const lmi_line *l, double *out) {
    int64_t ns = l->total ? lmi_self_time(l) : lam_costs_time_part(l->job->c, LAM_TIME_WHOLE);
    *out = ns < 0 ? 0 : (double)ns;
    return ns >= 0;
}

static bool memory_of(const lmi_line *l, double *out) {
    const lmi_job *j = l->job;
    const lam_memory_row *row = j->memory && l->place && !l->outside
                                    ? lam_memory_place(j->memory, (int32_t)(l->place - j->m->places))
                                    : NULL;
    *out = row ? (double)(l->own ? row->own : row->total)[LAM_FORWARD].allocated : 0;
    return row != NULL;
}

static bool has_macs(const lmi_job *j) { return lmi_has_metric(j->c, LAM_MACS); }
static bool has_flops(const lmi_job *j) { return lmi_has_metric(j->c, LAM_FLOPS); }
static bool has_params(const lmi_job *j) { return j->c != NULL; }
static bool has_dmas(const lmi_job *j) { return j->o->bytes && lmi_has_metric(j->c, LAM_DMAS); }
static bool has_bytes(const lmi_job *j) { return j->o->bytes && lmi_has_metric(j->c, LAM_BYTES_READ); }
static bool has_time(const lmi_job *j) { return j->o->time; }
static bool has_memory(const lmi_job *j) { return j->o->memory; }
static bool has_backward(const lmi_job *j) { return lmi_by_ops(j->c); }

static const char no_count[] = "the convention does not count them";
static const char no_bytes[] = "bytes=True shows them, under a convention that counts them";
static const lmi_figure figures[] = {
    {"macs", "own_macs", has_macs, macs_of, no_count},
    {"flops", "own_flops", has_flops, flops_of, no_count},
    {"params", "own_params", has_params, params_of, NULL},
    {"dmas", "own_dmas", has_dmas, dmas_of, no_bytes},
    {"bytes", "own_written", has_bytes, bytes_of, no_bytes},
    {"backward_macs", "own_bwd_macs", has_backward, backward_macs_of,
     "the convention counts no backward pass"},
    {"backward_flops", "own_bwd_flops", has_backward, backward_flops_of,
     "the convention counts no backward pass"},
    {"time", "own_self", has_time, time_of, "time=True measures it"},
    {"memory", "mem_allocated", has_memory, memory_of, "memory=True measures it"},
};
enum { N_FIGURES = sizeof figures / sizeof *figures };

const lmi_figure *lmi_figure_find(const lmi_job *j, const char *name) {
    if (!name) name = j->o->sort; /* sorting by a column also shows its share */
    if (!name) name = j->o->time ? "time" : has_macs(j) ? "macs" : "params";
    for (int i = 0; i < N_FIGURES; i++)
        if (strcmp(figures[i].name, name) == 0) return &figures[i];
    return NULL;
}

static lam_status check_one(const lmi_job *j, const char *option, const char *name, lam_error *e) {
    const lmi_figure *f = lmi_figure_find(j, name);
    if (f && f->is_there(j)) return LAM_OK;
    if (f) return lmi_fail(e, LAM_USAGE, option, "there is no column '%s' here: %s", name, f->why_not);
    char list[160] = "";
    for (int i = 0; i < N_FIGURES; i++) {
        if (i) strcat(list, ", ");
        strcat(list, figures[i].name);
    }
    return lmi_fail(e, LAM_USAGE, option,
                    "'%.40s' is not a column to sort by or to be the share of; these are: %s", name, list);
}

lam_status lmi_figures_check(const lmi_job *j, lam_error *e) {
    const lam_report_options *o = j->o;
    if (o->by) LAM_TRY(check_one(j, "by", o->by, e));
    if (o->sort) LAM_TRY(check_one(j, "sort", o->sort, e));
    if (o->rows < 0)
        return lmi_fail(e, LAM_USAGE, "rows", "%d rows are not possible; give 1 or more, or 0 for all",
                        o->rows);
    return LAM_OK;
}

typedef enum share_state { SHARE_ELSEWHERE, SHARE_NONE, SHARE_UNKNOWN, SHARE_KNOWN } share_state;

/* The share of the known part: that the whole is a lower bound is shown elsewhere. */
static share_state percent_of(const lmi_line *l, double *out) {
    const lmi_figure *f = lmi_figure_find(l->job, l->job->o->by);
    double part, whole = 0;
    if (f->of == time_of && l->split) return SHARE_ELSEWHERE; /* shown on its container's line */
    if (l->never_called && f->of != params_of) return SHARE_NONE;
    if (l->outside && f->of == memory_of) return SHARE_NONE; /* memory is reported by layer */
    if (!f->of(l, &part) || (!f->of(l->total, &whole) && !(whole > 0))) return SHARE_UNKNOWN;
    *out = whole > 0 ? 100.0 * part / whole : 0;
    return SHARE_KNOWN;
}

void lmi_cell_share(const lmi_line *l, lmi_buf *out) {
    double percent;
    switch (percent_of(l, &percent)) {
    case SHARE_ELSEWHERE: break;
    case SHARE_NONE: lmi_putc(out, '-'); break;
    case SHARE_UNKNOWN: lmi_putc(out, '?'); break;
    case SHARE_KNOWN: lmi_put_fixed(out, percent, 1); break;
    }
}

double lmi_share(const lmi_line *l) {
    double percent;
    return percent_of(l, &percent) == SHARE_KNOWN ? percent / 100 : -1;
}

/* -- the list ------------------------------------------------------------------------------------------ */

bool lmi_wants_list(const lam_report_options *o) { return o->sort || o->rows > 0; }

typedef struct entry {
    double size;
    int32_t node, order;
} entry;

static int by_size(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Unknown numbers come last, as their size is unknown. */
static double size_of(const lmi_nodes *t, const lmi_figure *f, int32_t i) {
    lmi_line l;
    double size;
    lmi_nodes_line(t, i, &l);
    if (l.never_called && !(f->of == params_of)) return -2;
    return f->of(&l, &size) || size > 0 ? size : -1;
}

/* The first `n` entries become the children of the topmost line. */
static void relink(lmi_nodes *t, const entry *list, int32_t n) {
    int32_t *link = &t->at[t->first].first_child;
    for (int32_t i = 0; i < n; i++) {
        lmi_node *node = &t->at[list[i].node];
        *link = list[i].node;
        link = &node->next;
        node->parent = t->first;
        node->first_child = node->last = -1;
        node->line.depth = t->at[t->first].line.depth + 1;
        node->line.split = false;
    }
    *link = -1;
}

lam_status lmi_nodes_list(lmi_nodes *t, const lmi_job *j) {
    const lmi_figure *f = lmi_figure_find(j, j->o->sort ? j->o->sort : j->o->by);
    entry *list = lmi_alloc(&t->arena, (uint64_t)t->n, sizeof *list);
    int32_t n = 0;
    if (!list) return lmi_nomem(j->e);
    if (t->first < 0) return LAM_OK;
    for (int32_t i = lmi_nodes_next(t, j, t->first); i >= 0; i = lmi_nodes_next(t, j, i)) {
        t->at[i].line.split = false;
        if (lmi_nodes_open(t, j, i)) continue;
        list[n] = (entry){size_of(t, f, i), i, n};
        n++;
    }
    if (n == 0) return LAM_OK; /* there is one layer, or the depth is 0 */
    qsort(list, (size_t)n, sizeof *list, by_size);
    int32_t keep = j->o->rows > 0 && j->o->rows < n ? j->o->rows : n;
    relink(t, list, keep);
    t->left_out = n - keep;
    t->flat = true;
    return LAM_OK;
}
