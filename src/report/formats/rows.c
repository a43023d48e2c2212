/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of lamina's table. The tree and its runs of equal siblings are the outline's; here the rows of the
 * costs at one place become one line, and lines are summed upwards with every number that a column may show.
 * Parents have smaller indices than their children, so loops replace recursion, however deep the tree is. As
 * a list it is every layer with its path, the largest first. */
#include "report/formats/rows.h"

#include <stdlib.h>

/* In place of the number of a line that is kept: an equal sibling has it, or it is made of its row. */
enum { OF_SIBLING = -1, OF_ROW = -2 };

/* -- sums ------------------------------------------------------------------------------------------------ */

/* Equal siblings have equal numbers, but for their times: without these the lines of the first do for all,
 * and for everything inside them. */
static bool shares_lines(const lmi_rows *t) {
    return t->folded && !lmi_has_times(t->j->c) && !lmi_has_device_times(t->j->c);
}

/* A place without children and with one row has its numbers: the line is made whenever it is read, for a file
 * of weights has very many of them. Times of equal places are added up, so that these lines stay. */
static bool keeps_line(const lmi_rows *t, int32_t i) {
    const bool one_row = t->rows.start[i + 1] - t->rows.start[i] == 1;
    return i == 0 || t->o.at[i].n_children > 0 || !one_row || lmi_has_times(t->j->c) ||
           lmi_has_device_times(t->j->c);
}

/* Numbers the lines of places that are kept, and returns how many there are. */
static int32_t number_lines(lmi_rows *t) {
    int32_t n = 0;
    for (int32_t i = 0; i < t->o.n_shown;) {
        const lmi_outline_place *at = &t->o.at[i];
        const bool other = shares_lines(t) && at->run != i;
        t->line[i] = other ? OF_SIBLING : keeps_line(t, i) ? n++ : OF_ROW;
        i++;
        while (other && i < at->end) t->line[i++] = OF_SIBLING;
    }
    return n;
}

/* Shapes and receptive field are those of one call. */
static void show_call(lmi_line *to, const lmi_line *from) {
    to->event = from->event;
    to->row.rf = from->row.rf;
    to->row.rf_state = from->row.rf_state;
    to->row.rf_at_most = from->row.rf_at_most;
    to->row.rf_whole = from->row.rf_whole;
}

/* Calls of one place share a line: the first gives shapes and receptive field. */
static void add_row(const lmi_rows *t, int32_t row, lmi_line *self) {
    lmi_line l;
    lmi_line_of_row(t->j, row, &l);
    if (l.outside) return; /* its row has the root's place */
    if (l.event && lmi_inside_itself(t->j->m, l.event)) {
        memset(l.time.total, 0, sizeof l.time.total);
        memset(l.device_time.total, 0, sizeof l.device_time.total);
    }
    if (!self->event) show_call(self, &l);
    if (!self->row.reason) self->row.reason = l.row.reason;
    lmi_line_add(self, &l);
}

static const lam_place *place_of(const lmi_rows *t, int32_t i) {
    return lam_model_place(t->j->m, t->o.shown[i].place);
}

static void start_line(const lmi_rows *t, int32_t i, lmi_line *out) {
    const lam_place *p = place_of(t, i);
    *out = (lmi_line){.job = t->j,
                      .place = p,
                      .module = lam_model_module(t->j->m, p->module),
                      .depth = p->depth,
                      .row.rf_state = LAM_UNKNOWN};
}

static void add_rows(const lmi_rows *t, int32_t i, lmi_line *self) {
    for (int32_t k = t->rows.start[i]; k < t->rows.start[i + 1]; k++) add_row(t, t->rows.order[k], self);
}

static bool some(lam_count c) { return c.n > 0 || c.over > 0; }

static bool works(const lmi_line *l) {
    return some(l->metric[LAM_MACS]) || some(l->metric[LAM_FLOPS]) || some(l->phases.backward[LAM_MACS]) ||
           some(l->phases.backward[LAM_FLOPS]);
}

static void take(int64_t to[LAM_N_PHASES], const int64_t from[LAM_N_PHASES]) {
    memcpy(to, from, LAM_N_PHASES * sizeof *to);
}

static void note_never(lmi_line *sum) {
    sum->never_called = sum->calls == 0 && !works(sum) && !sum->job->m->described;
}

static const lmi_line *line_of_row(const lmi_rows *t, int32_t i, lmi_line *room) {
    start_line(t, i, room);
    add_rows(t, i, room);
    note_never(room);
    return room;
}

/* `room` is for a line that is not kept. */
static const lmi_line *sum_of(const lmi_rows *t, int32_t i, lmi_line *room) {
    return t->line[i] < 0 ? line_of_row(t, i, room) : &t->sum[t->line[i]];
}

/* Adds a place to the one above it, and its equal siblings, if they have no lines. A scripted, traced or
 * compiled module has the work of what is inside it, whose own is unknown. */
static void add_child(lmi_rows *t, int32_t i) {
    const lmi_outline_place *at = &t->o.at[i];
    lmi_line line, *above = &t->sum[t->line[at->parent]];
    const lmi_line *sum = sum_of(t, i, &line);
    if (sum != &line) line = *sum;
    if (line.never_called && lmi_is_inside(line.module) && !lmi_is_inside(above->module))
        for (int k = 0; k < LAM_N_METRICS; k++)
            line.metric[k] = line.phases.backward[k] = line.phases.recompute[k] = lmi_exact(0);
    for (int32_t n = shares_lines(t) ? at->n_run : 1; n > 0; n--) lmi_line_add(above, &line);
}

/* The lines that are kept, before they are summed up: of each what it has itself. */
static void start_lines(lmi_rows *t) {
    for (int32_t i = 0; i < t->o.n_shown; i++) {
        const int32_t at = t->line[i];
        if (at < 0) continue;
        start_line(t, i, &t->sum[at]);
        t->self[at] = t->sum[at];
        add_rows(t, i, &t->self[at]);
    }
}

static void sum_up(lmi_rows *t) {
    if (t->outside.outside) { /* its row has the root's place */
        lmi_line_add(&t->sum[0], &t->outside);
        memset(&t->outside.time, 0xff, sizeof t->outside.time); /* -1: it was not measured */
        memset(&t->outside.device_time, 0xff, sizeof t->outside.device_time);
    }
    for (int32_t i = t->o.n_shown - 1; i >= 0; i--) {
        if (t->line[i] == OF_SIBLING) continue;
        if (t->line[i] >= 0) {
            lmi_line *sum = &t->sum[t->line[i]];
            const lmi_line *self = &t->self[t->line[i]];
            lmi_line_add(sum, self);
            /* A median of sums is not a sum of medians: a place that was called has its own measured time. */
            if (self->calls > 0) {
                take(sum->time.total, self->time.total);
                take(sum->device_time.total, self->device_time.total);
            }
            show_call(sum, self);
            sum->row.reason = self->row.reason;
            note_never(sum);
        }
        if (i > 0) add_child(t, i);
    }
}

/* -- which rows there are -------------------------------------------------------------------------------- */

static bool shows(const lmi_job *j, lam_metric metric) {
    return lmi_has_metric(j->c, metric) && (metric == LAM_MACS || metric == LAM_FLOPS || j->o->bytes);
}

/* True if a column that is shown has a number of the place's own work, or a question mark. Without operators
 * no container's own work is seen, which the report says once. */
static bool counts(const lmi_job *j, const lmi_line *self) {
    static const lam_metric metrics[] = {LAM_MACS, LAM_FLOPS, LAM_DMAS, LAM_BYTES_READ, LAM_BYTES_WRITTEN};
    bool called = self->calls > 0 && lmi_by_ops(j->c);
    if (works(self)) return true;
    for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) {
        lam_count n = self->metric[metrics[k]];
        if (shows(j, metrics[k]) && (some(n) || (called && n.state != LAM_EXACT))) return true;
    }
    for (int k = LAM_MACS; k <= LAM_FLOPS && lmi_has_phase(j->c, LAM_BACKWARD); k++)
        if (called && shows(j, (lam_metric)k) && self->phases.backward[k].state != LAM_EXACT) return true;
    return false;
}

/* True if a container needs a line of its own. In the flat list no other line shows its own time or memory.
 */
static bool has_own(const lmi_job *j, const lmi_line *self) {
    bool list = lmi_wants_list(j->o);
    return some(self->row.params) || self->row.params.state != LAM_EXACT || counts(j, self) ||
           (list && j->o->time && lmi_self_time(self) > 0) || (list && lmi_has_own_memory(self));
}

static bool ran_outside(const lmi_rows *t, int32_t place) {
    return place == 0 && t->outside.outside && counts(t->j, &t->outside);
}

static bool holds(const lmi_rows *t, int32_t place) {
    return t->o.at[place].n_children > 0 || ran_outside(t, place);
}

static int32_t add(lmi_rows *t, lmi_row row) {
    t->at[t->n] = row;
    return t->n++;
}

/* Adds a place's row and, if it is open (which keeps its line), what it holds or does itself as a row above
 * its children, so that all of these rows add up to its own. */
static void add_place(lmi_rows *t, int32_t i, int32_t parent) {
    const int32_t depth = t->o.at[i].depth, most = t->j->o->max_depth;
    const bool open = holds(t, i) && (most < 0 || depth < most);
    const int32_t row = add(t, (lmi_row){.place = i, .parent = parent, .depth = depth, .open = open});
    if (!open) return;
    if (has_own(t->j, &t->self[t->line[i]]))
        add(t, (lmi_row){.place = i, .parent = row, .depth = depth + 1, .own = true});
}

/* `row`: by place, room for its row. */
static void add_places(lmi_rows *t, int32_t *row) {
    for (int32_t i = 0; i < t->o.n_shown;) {
        const lmi_outline_place *at = &t->o.at[i];
        const int32_t up = at->parent;
        if (t->folded && at->run != i) { /* the first of its run stands for it */
            i = at->end;
            continue;
        }
        row[i] = t->n;
        add_place(t, i, up < 0 ? -1 : row[up]);
        if (up >= 0) t->times[i] = t->times[up] * (t->folded ? at->n_run : 1);
        i = t->at[row[i]].open ? i + 1 : at->end;
    }
    if (t->n > 0 && t->at[0].open && ran_outside(t, 0))
        add(t, (lmi_row){.place = 0, .parent = 0, .depth = 1, .own = true, .outside = true});
}

/* Adds the times of the places of each run to those of the first, as they may differ. */
static void add_times(lmi_rows *t) {
    for (int32_t i = 0; i < t->o.n_shown; i++) {
        const lmi_outline_place *at = t->o.at;
        const int32_t size = at[i].end - i;
        for (int32_t n = 1, k = at[i].end; n < at[i].n_run; n++, k = at[k].end)
            for (int32_t d = 0; d < size; d++) {
                const int32_t to = t->line[i + d], from = t->line[k + d];
                lmi_line_add_times(&t->sum[to], &t->sum[from]);
                lmi_line_add_times(&t->self[to], &t->self[from]);
            }
    }
}

/* `seen`: by row, room for whether a row below it was seen. */
static void find_last(lmi_rows *t, bool *seen) {
    for (int32_t i = t->n - 1; i >= 0; i--) {
        const int32_t up = t->at[i].parent;
        t->at[i].last = up < 0 || !seen[up];
        if (up >= 0) seen[up] = true;
    }
}

/* -- the list -------------------------------------------------------------------------------------------- */

typedef struct entry {
    double size;
    lmi_row row;
    int32_t order;
} entry;

static int by_size(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Unknown numbers come last, as their size is unknown. */
static double size_of(const lmi_rows *t, lmi_figure k, int32_t i) {
    lmi_line l;
    double size;
    lmi_rows_line(t, i, &l);
    if (l.never_called && k != LMI_FIGURE_PARAMS) return -2;
    return lmi_figure_of_line(k, &l, &size) || size > 0 ? size : -1;
}

/* Keeps the first row, and of those that are not open the largest, in their order, below it. */
static lam_status list_by_size(lmi_rows *t) {
    const lam_report_options *o = t->j->o;
    const lmi_figure k = lmi_sorted_by(t->j, o->sort ? o->sort : o->by);
    entry *list = lmi_alloc(&t->o.arena, (uint64_t)t->n, sizeof *list);
    int32_t n = 0;
    if (!list) return lmi_nomem(t->j->e);
    if (t->n < 2) return LAM_OK; /* there is one layer, or the depth is 0 */
    t->flat = true;
    for (int32_t i = 1; i < t->n; i++)
        if (!t->at[i].open) list[n] = (entry){size_of(t, k, i), t->at[i], n}, n++;
    qsort(list, (size_t)n, sizeof *list, by_size);
    t->n = 1 + (o->rows > 0 && o->rows < n ? o->rows : n);
    t->left_out = 1 + n - t->n;
    for (int32_t i = 1; i < t->n; i++) {
        t->at[i] = list[i - 1].row;
        t->at[i].parent = 0;
        t->at[i].depth = t->at[0].depth + 1;
    }
    return LAM_OK;
}

/* -- all ------------------------------------------------------------------------------------------------- */

/* Groups the rows of the costs by their places, and finds that of what ran outside all calls. */
static lam_status group_rows(lmi_rows *t) {
    const lmi_job *j = t->j;
    const int32_t n = t->o.n_shown, n_rows = lam_costs_n_rows(j->c);
    lmi_arena *a = &t->o.arena;
    int32_t *of_place = lmi_alloc_unset(a, (uint64_t)j->m->n_places, sizeof *of_place);
    int32_t *place = lmi_alloc_unset(a, (uint64_t)n_rows, sizeof *place);
    if (!of_place || !place) return lmi_nomem(j->e);
    for (int32_t i = 0; i < n; i++) of_place[t->o.shown[i].place] = i;
    for (int32_t r = 0; r < n_rows; r++) {
        place[r] = of_place[j->c->rows[r].place];
        if (lmi_is_outside(&j->c->rows[r])) lmi_line_of_row(j, r, &t->outside);
    }
    return lmi_group_by(a, place, n_rows, n, &t->rows) ? LAM_OK : lmi_nomem(j->e);
}

static lam_status make(lmi_rows *t) {
    const lmi_job *j = t->j;
    const int32_t n = t->o.n_shown;
    lmi_arena *a = &t->o.arena;
    const uint64_t most = 2 * (uint64_t)n + 1; /* a row of each, of its own work, of what ran outside */
    t->folded = !j->o->expand && !lmi_wants_list(j->o);
    t->line = lmi_alloc_unset(a, (uint64_t)n, sizeof *t->line);
    t->times = lmi_alloc_unset(a, (uint64_t)n, sizeof *t->times);
    t->at = lmi_alloc_unset(a, most, sizeof *t->at);
    int32_t *row = lmi_alloc_unset(a, (uint64_t)n, sizeof *row);
    bool *seen = lmi_alloc(a, most, sizeof *seen);
    if (!t->line || !t->times || !t->at || !row || !seen) return lmi_nomem(j->e);
    LAM_TRY(group_rows(t));
    const int32_t lines = number_lines(t);
    t->sum = lmi_alloc_unset(a, (uint64_t)lines, sizeof *t->sum);
    t->self = lmi_alloc_unset(a, (uint64_t)lines, sizeof *t->self);
    if (!t->sum || !t->self) return lmi_nomem(j->e);
    for (int32_t i = 0; i < n; i++) t->times[i] = 1;
    start_lines(t);
    sum_up(t);
    if (t->folded && lmi_has_times(j->c)) add_times(t);
    if (lam_costs_n_rows(j->c) > 0) add_places(t, row);
    if (lmi_wants_list(j->o)) LAM_TRY(list_by_size(t));
    find_last(t, seen);
    return LAM_OK;
}

lam_status lmi_rows_new(lmi_rows *t, const lmi_job *j) {
    *t = (lmi_rows){.j = j};
    LAM_TRY(lmi_outline_new(&t->o, j->c, &(lmi_outline_options){.table = j}, j->e));
    return make(t);
}

void lmi_rows_free(lmi_rows *t) { lmi_outline_free(&t->o); }

bool lmi_rows_each(const lmi_rows *t, int32_t i) {
    return t->folded && !t->at[i].own && t->o.at[t->at[i].place].n_run > 1;
}

bool lmi_rows_holds(const lmi_rows *t, int32_t i) {
    return t->flat ? i == 0 : !t->at[i].own && holds(t, t->at[i].place);
}

/* Times are the sum over `n` equal places; each shows the mean. */
static void mean(lam_time *t, int64_t n) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        t->self[p] = t->self[p] < 0 ? -1 : t->self[p] / n;
        t->total[p] = t->total[p] < 0 ? -1 : t->total[p] / n;
    }
}

static const lmi_line *line_of(const lmi_rows *t, int32_t i, lmi_line *room) {
    const lmi_row *row = &t->at[i];
    if (row->outside) return &t->outside;
    return row->own ? &t->self[t->line[row->place]] : sum_of(t, row->place, room);
}

void lmi_rows_line(const lmi_rows *t, int32_t i, lmi_line *out) {
    const lmi_row *row = &t->at[i];
    const lmi_line *line = line_of(t, i, out), *self = out;
    if (line != out) *out = *line;
    if (t->line[row->place] >= 0) self = &t->self[t->line[row->place]];
    out->calls = row->own ? 0 : self->calls;
    out->depth = row->depth;
    out->total = &t->sum[0];
    if (row->own) {
        out->own = true;
        out->split = !t->flat;
        take(out->time.total, out->time.self);
        take(out->device_time.total, out->device_time.self);
    } else if (!t->flat && row->open) { /* in a list the topmost line is the whole */
        take(out->time.self, self->time.self);
        take(out->device_time.self, self->device_time.self);
    }
    mean(&out->time, t->times[row->place]);
    mean(&out->device_time, t->times[row->place]);
}

/* -- names ----------------------------------------------------------------------------------------------- */

/* The name without its class: "0", "[own parameters]"; the root's is empty. */
static void put_name(const lmi_rows *t, int32_t i, lmi_buf *out) {
    const lmi_row *row = &t->at[i];
    const lam_place *p = place_of(t, row->place);
    lmi_line room;
    if (t->flat || !row->own) lmi_put_clean(out, t->flat ? p->path : p->name);
    if (!row->own) return;
    if (t->flat && *p->path) lmi_putc(out, ' ');
    const lam_count held = line_of(t, i, &room)->row.params;
    const bool holds = some(held) || held.state != LAM_EXACT;
    lmi_put(out, row->outside ? "[outside calls]" : holds ? "[own parameters]" : "[own work]");
}

/* "..3 x4" if the row represents several places, else nothing. */
static void put_range(const lmi_rows *t, int32_t i, lmi_buf *out) {
    const int32_t place = t->at[i].place;
    if (!lmi_rows_each(t, i)) return;
    const char *end = t->o.at[lmi_run_last(t->o.at, place)].name;
    lmi_put(out, "..");
    lmi_put_clean(out, end + lmi_stem(end));
    lmi_putf(out, " x%d", (int)t->o.at[place].n_run);
}

static void put_label(const char *name, const char *range, const char *type, size_t room, bool ascii,
                      lmi_buf *out) {
    enum { LEAST = 4, BRACKETS = 3 }; /* columns of a class name that are still useful; " (" and ")" */
    size_t fixed = lmi_width(range), used = lmi_width(name) + fixed;
    if (!*name) {
        lmi_put_cut(out, type, room, ascii);
    } else if (used > room) {
        const char *times = strrchr(range, ' '); /* " x4", which is left out last */
        if (room < fixed + LEAST && times) fixed = lmi_width(range = times);
        if (room <= fixed) range = "";
        lmi_put_cut(out, name, *range ? room - fixed : room, ascii);
        lmi_put(out, range);
    } else {
        size_t left = room - used, want = lmi_width(type);
        lmi_put(out, name);
        lmi_put(out, range);
        if (!*type || left < BRACKETS + (want < LEAST ? want : LEAST)) return;
        lmi_put(out, " (");
        lmi_put_cut(out, type, left - BRACKETS, ascii);
        lmi_putc(out, ')');
    }
}

void lmi_rows_label(const lmi_rows *t, int32_t i, size_t room, bool ascii, lmi_buf *out) {
    lmi_buf name, range, type;
    lmi_buf_init(&name);
    lmi_buf_init(&range);
    lmi_buf_init(&type);
    put_name(t, i, &name);
    put_range(t, i, &range);
    if (!t->at[i].own) lmi_put_clean(&type, t->o.at[t->at[i].place].type);
    put_label(lmi_buf_text(&name), lmi_buf_text(&range), lmi_buf_text(&type), room, ascii, out);
    lmi_buf_used(&name, out);
    lmi_buf_used(&range, out);
    lmi_buf_used(&type, out);
}

void lmi_rows_marks(const lmi_rows *t, const lmi_line *l, bool brief, lmi_buf *out) {
    if (l->own) return;
    if (l->calls > 1) lmi_putf(out, " (%d calls)", (int)l->calls);
    if (l->never_called) lmi_putf(out, " [%s]", lmi_line_status(l));
    size_t from = out->n;
    lmi_putc(out, ' ');
    lmi_put_tie(out, t->j->m, l->place);
    if (out->bad) return;
    bool tied = out->n > from + 1;
    if (tied && !brief) return;
    out->n = from;
    out->s[from] = '\0';
    if (tied) lmi_put(out, " [tied]");
}
