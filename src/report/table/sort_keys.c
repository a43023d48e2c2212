/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers that lines of lamina's table are sorted by and that shares are of. */
#include "report/table/report.h"

#include "analyse/run/times.h"

/* False for an unknown number, and for "at least 0", which says nothing. */
static bool known(lam_count c, double *out) {
    *out = lmi_count_double(c);
    return c.state == LAM_EXACT || (c.state == LAM_AT_LEAST && *out > 0);
}

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

static bool counted_of(const lmi_figure_info *f, const lmi_line *l, double *out) {
    const lam_count *counts = f->needs == LAM_NEEDS_BACKWARD ? l->phases.backward : l->metric;
    if (f->metric < 0) return known(l->row.params, out);
    if (f->metric == LAM_BYTES_READ) return known(lam_metric_bytes(counts), out);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the row of a line has its numbers */
    return known(counts[f->metric], out);
}

bool lmi_figure_of_line(lmi_figure k, const lmi_line *l, double *out) {
    switch (lmi_figures[k].needs) {
    case LAM_NEEDS_TIMES: return time_of(l, out);
    case LAM_NEEDS_MEMORY: return memory_of(l, out);
    default: return counted_of(&lmi_figures[k], l, out);
    }
}

static bool is_there(const lmi_job *j, const lmi_figure_info *f) {
    switch (f->needs) {
    case LAM_NEEDS_TIMES: return j->o->time;
    case LAM_NEEDS_MEMORY: return j->o->memory;
    case LAM_NEEDS_BACKWARD: return lmi_by_ops(j->c);
    case LAM_NEEDS_COLUMNS: return j->o->bytes && lmi_has_metric(j->c, (lam_metric)f->metric);
    default: return f->metric < 0 ? j->c != NULL : lmi_has_metric(j->c, (lam_metric)f->metric);
    }
}

static const char *const why_not[] = {
    [LAM_NEEDS_NOTHING] = "the convention does not count them",
    [LAM_NEEDS_COLUMNS] = "bytes=True shows them, under a convention that counts them",
    [LAM_NEEDS_BACKWARD] = "the convention counts no backward pass",
    [LAM_NEEDS_TIMES] = "time=True measures it",
    [LAM_NEEDS_MEMORY] = "memory=True measures it",
};

lmi_figure lmi_sorted_by(const lmi_job *j, const char *name) {
    if (!name) name = j->o->sort; /* sorting by a column also shows its share */
    if (name) return lmi_figure_find(LMI_SORTED, name, strlen(name));
    bool macs = lmi_has_metric(j->c, LAM_MACS) && !j->m->described;
    return j->o->time ? LMI_FIGURE_TIME : macs ? LMI_FIGURE_MACS : LMI_FIGURE_PARAMS;
}

static lam_status no_column(const char *option, const char *name, lam_error *e) {
    lmi_buf list;
    lmi_buf_init(&list);
    lmi_put_figures(&list, LMI_SORTED);
    lam_status s = lmi_buf_status(&list, e);
    if (s == LAM_OK)
        s = lmi_fail(e, LAM_USAGE, option,
                     "'%.40s' is not a column to sort by or to be the share of; these are: %s", name,
                     lmi_buf_text(&list));
    lmi_buf_free(&list);
    return s;
}

static lam_status check_one(const lmi_job *j, const char *option, const char *name, lam_error *e) {
    lmi_figure k = lmi_sorted_by(j, name);
    if (k == LMI_FIGURE_NO) return no_column(option, name, e);
    if (is_there(j, &lmi_figures[k])) return LAM_OK;
    return lmi_fail(e, LAM_USAGE, option, "there is no column '%s' here: %s", name,
                    why_not[lmi_figures[k].needs]);
}

lam_status lmi_no_times(const lam_model *m, const char *where, lam_error *e) {
    if (lmi_of_weights(m)) return lmi_fail(e, LAM_USAGE, where, "a file has no times: nothing of it is run");
    return lmi_fail(e, LAM_USAGE, where,
                    "times were not measured; lamina.inspect(model, args, time=True) measures them");
}

lam_status lmi_no_memory(const lam_model *m, lam_error *e) {
    if (lmi_of_weights(m))
        return lmi_fail(e, LAM_USAGE, "memory", "a file has no memory over time: nothing of it is run");
    return lmi_fail(e, LAM_USAGE, "memory",
                    "it was not measured; lamina.inspect(model, args, memory=True) does");
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
    const lmi_figure k = lmi_sorted_by(l->job, l->job->o->by);
    double part, whole = 0;
    if (k == LMI_FIGURE_TIME && l->split) return SHARE_ELSEWHERE; /* shown on its container's line */
    if (l->never_called && k != LMI_FIGURE_PARAMS) return SHARE_NONE;
    if (l->outside && k == LMI_FIGURE_ALLOCATED) return SHARE_NONE; /* memory is reported by layer */
    if (!lmi_figure_of_line(k, l, &part) || (!lmi_figure_of_line(k, l->total, &whole) && !(whole > 0)))
        return SHARE_UNKNOWN;
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

bool lmi_wants_list(const lam_report_options *o) { return o->sort || o->rows > 0; }
