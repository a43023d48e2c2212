/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of places behind lamina's table: the rows of one place are one line, and lines are summed upwards.
 * Parents have smaller indices than their children, so loops replace recursion, however deep the tree is.
 * Equal siblings are one line: the outline tells which. As a list it is every layer with its path, the
 * largest first. */
#include "report/formats/nodes.h"

#include "report/outline/outline.h"

#include <stdlib.h>

static void start_node(const lmi_job *j, lmi_node *node, int32_t place) {
    const lam_place *p = lam_model_place(j->m, place);
    node->line = (lmi_line){.job = j,
                            .place = p,
                            .module = lam_model_module(j->m, p->module),
                            .depth = p->depth,
                            .row.rf_state = LAM_UNKNOWN};
    node->self = node->line;
    node->parent = p->parent;
    node->first_child = node->next = node->last = -1;
    node->fold = 1;
    node->times = 1;
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
static void add_row(const lmi_job *j, lmi_nodes *t, int32_t row) {
    lmi_line l;
    lmi_line_of_row(j, row, &l);
    int32_t i = (int32_t)(l.place - j->m->places);
    lmi_node *node = &t->at[i];
    if (l.outside) {
        t->outside = l;
        node->used = true;
        return;
    }
    if (l.event && lmi_inside_itself(j->m, l.event)) {
        memset(l.time.total, 0, sizeof l.time.total);
        memset(l.device_time.total, 0, sizeof l.device_time.total);
    }
    if (!node->self.event) show_call(&node->self, &l);
    if (!node->self.row.reason) node->self.row.reason = l.row.reason;
    node->self.row.shared = node->self.row.shared || l.row.shared;
    lmi_line_add(&node->self, &l);
    node->has_rows = true;
    for (; i >= 0 && !t->at[i].used; i = t->at[i].parent) t->at[i].used = true;
}

static bool some(lam_count c) { return c.n > 0 || c.over > 0; }

static bool works(const lmi_line *l) {
    return some(l->row.metric[LAM_MACS]) || some(l->row.metric[LAM_FLOPS]) ||
           some(l->row.backward[LAM_MACS]) || some(l->row.backward[LAM_FLOPS]);
}

static void take(int64_t to[LAM_N_PHASES], const int64_t from[LAM_N_PHASES]) {
    memcpy(to, from, LAM_N_PHASES * sizeof *to);
}

/* Adds a line above the children of `parent`. */
static void add_line(lmi_nodes *t, int32_t parent, const lmi_line *line) {
    lmi_node *node = &t->at[t->n], *above = &t->at[parent];
    *node = (lmi_node){.line = *line,
                       .parent = parent,
                       .first_child = -1,
                       .next = above->first_child,
                       .fold = 1,
                       .last = -1,
                       .times = 1,
                       .used = true};
    node->line.own = true;
    node->line.calls = 0;
    node->line.depth++;
    node->line.split = true;
    node->line.never_called = false;
    node->self = node->line;
    above->first_child = t->n++;
}

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
        lam_count n = self->row.metric[metrics[k]];
        if (shows(j, metrics[k]) && (some(n) || (called && n.state != LAM_EXACT))) return true;
    }
    for (int k = LAM_MACS; k <= LAM_FLOPS && lmi_has_phase(j->c, LAM_BACKWARD); k++)
        if (called && shows(j, (lam_metric)k) && self->row.backward[k].state != LAM_EXACT) return true;
    return false;
}

/* A scripted, traced or compiled module has the work of what is inside it, whose own is unknown. */
static void add_child(lmi_nodes *t, const lmi_node *node) {
    lmi_line line = node->line;
    if (node->parent < 0) return;
    lmi_line *above = &t->at[node->parent].line;
    if (line.never_called && lmi_is_inside(line.module) && !lmi_is_inside(above->module))
        for (int i = 0; i < LAM_N_METRICS; i++)
            line.row.metric[i] = line.row.backward[i] = line.row.recompute[i] = lmi_exact(0);
    lmi_line_add(above, &line);
}

static void sum_up(const lmi_job *j, lmi_nodes *t) {
    if (t->outside.outside) { /* its row has the root's place */
        lmi_line_add(&t->at[0].line, &t->outside);
        memset(&t->outside.time, 0xff, sizeof t->outside.time); /* -1: it was not measured */
        memset(&t->outside.device_time, 0xff, sizeof t->outside.device_time);
        if (counts(j, &t->outside)) add_line(t, 0, &t->outside);
    }
    for (int32_t i = j->m->n_places - 1; i >= 0; i--) {
        lmi_node *node = &t->at[i];
        if (!node->used) continue;
        lmi_line_add(&node->line, &node->self);
        /* A median of sums is not a sum of medians: a place that was called has its own measured time. */
        if (node->self.calls > 0) {
            take(node->line.time.total, node->self.time.total);
            take(node->line.device_time.total, node->self.device_time.total);
        }
        show_call(&node->line, &node->self);
        node->line.row.reason = node->self.row.reason;
        node->line.never_called = node->line.calls == 0 && !works(&node->line) && !j->m->described;
        int32_t *head = node->parent < 0 ? &t->first : &t->at[node->parent].first_child;
        node->next = *head;
        *head = i;
        add_child(t, node);
    }
}

/* True if the place itself holds or does something that is shown. A list has no line of the container that
 * could show its own time and memory. */
static bool has_own(const lmi_job *j, const lmi_node *node) {
    const lmi_line *self = &node->self;
    bool list = lmi_wants_list(j->o), unknown = self->row.params.state != LAM_EXACT && node->has_rows;
    return some(self->row.params) || unknown || counts(j, self) ||
           (list && j->o->time && lmi_self_time(self) > 0) || (list && lmi_has_own_memory(self));
}

/* What a container holds or does itself gets a separate line above its children, so that all of these lines
 * add up to the container's. */
static void split_own(const lmi_job *j, lmi_nodes *t) {
    for (int32_t i = 0; i < j->m->n_places; i++) {
        lmi_node *node = &t->at[i];
        if (!node->used || node->first_child < 0 || !has_own(j, node)) continue;
        lmi_line own = node->self;
        take(own.time.total, own.time.self);
        take(own.device_time.total, own.device_time.self);
        add_line(t, i, &own);
    }
}

bool lmi_nodes_open(const lmi_nodes *t, const lmi_job *j, int32_t i) {
    const lmi_node *node = &t->at[i];
    return node->first_child >= 0 && (j->o->max_depth < 0 || node->line.depth < j->o->max_depth);
}

int32_t lmi_nodes_sibling(const lmi_nodes *t, int32_t i) {
    const lmi_node *node = &t->at[i];
    return node->last >= 0 ? t->at[node->last].next : node->next;
}

int32_t lmi_nodes_next(const lmi_nodes *t, const lmi_job *j, int32_t i) {
    if (lmi_nodes_open(t, j, i)) return t->at[i].first_child;
    for (; i >= 0; i = t->at[i].parent) {
        int32_t next = lmi_nodes_sibling(t, i);
        if (next >= 0) return next;
    }
    return -1;
}

bool lmi_nodes_each(const lmi_nodes *t, int32_t i) { return t->at[i].fold > 1; }

/* Times are the sum over `n` equal nodes; each shows the mean. */
static void mean(lam_time *t, int64_t n) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        t->self[p] = t->self[p] < 0 ? -1 : t->self[p] / n;
        t->total[p] = t->total[p] < 0 ? -1 : t->total[p] / n;
    }
}

void lmi_nodes_line(const lmi_nodes *t, int32_t i, lmi_line *out) {
    const lmi_node *node = &t->at[i];
    *out = node->line;
    out->calls = node->self.calls;
    out->total = &t->whole;
    if (!t->flat && lmi_nodes_open(t, out->job, i)) { /* in a list the topmost line is the whole */
        take(out->time.self, node->self.time.self);
        take(out->device_time.self, node->self.device_time.self);
    }
    mean(&out->time, node->times);
    mean(&out->device_time, node->times);
}

/* -- equal siblings -------------------------------------------------------------------------------------- */

/* Adds up the times of two equal subtrees, node by node, as they may differ. */
static void merge_times(lmi_nodes *t, int32_t a, int32_t b) {
    for (int32_t x = a, y = b;;) {
        lmi_line_add_times(&t->at[x].line, &t->at[y].line);
        lmi_line_add_times(&t->at[x].self, &t->at[y].self);
        if (t->at[x].first_child >= 0 && t->at[y].first_child >= 0) {
            x = t->at[x].first_child;
            y = t->at[y].first_child;
            continue;
        }
        while (x != a && (t->at[x].next < 0 || t->at[y].next < 0)) {
            x = t->at[x].parent;
            y = t->at[y].parent;
        }
        if (x == a) return;
        x = t->at[x].next;
        y = t->at[y].next;
    }
}

/* Makes one line of each run. */
static void fold_runs(lmi_nodes *t, const lmi_job *j, const lmi_outline *o) {
    for (int32_t i = 0; i < o->n_shown; i++) {
        if (o->at[i].n_run < 2) continue;
        lmi_node *first = &t->at[o->shown[i].place];
        for (int32_t k = o->at[i].end, n = 1; n < o->at[i].n_run; k = o->at[k].end, n++) {
            first->last = o->shown[k].place;
            first->fold++;
            t->at[first->last].fold = 0;
            if (lmi_has_times(j->c)) merge_times(t, o->shown[i].place, first->last);
        }
    }
    for (int32_t i = 0; i < t->n; i++) {
        lmi_node *node = &t->at[i];
        node->times = (node->parent < 0 ? 1 : t->at[node->parent].times) * (node->fold > 0 ? node->fold : 1);
    }
}

static lam_status fold(lmi_nodes *t, const lmi_job *j) {
    lmi_outline o;
    lam_status s = lmi_outline_new(&o, j->c, &(lmi_outline_options){.table = j}, j->e);
    if (s == LAM_OK) fold_runs(t, j, &o);
    lmi_outline_free(&o);
    return s;
}

/* -- the list ------------------------------------------------------------------------------------------ */

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
static double size_of(const lmi_nodes *t, lmi_figure k, int32_t i) {
    lmi_line l;
    double size;
    lmi_nodes_line(t, i, &l);
    if (l.never_called && k != LMI_FIGURE_PARAMS) return -2;
    return lmi_figure_of_line(k, &l, &size) || size > 0 ? size : -1;
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

static lam_status list_by_size(lmi_nodes *t, const lmi_job *j) {
    const lmi_figure k = lmi_sorted_by(j, j->o->sort ? j->o->sort : j->o->by);
    entry *list = lmi_alloc(&t->arena, (uint64_t)t->n, sizeof *list);
    int32_t n = 0;
    if (!list) return lmi_nomem(j->e);
    if (t->first < 0) return LAM_OK;
    for (int32_t i = lmi_nodes_next(t, j, t->first); i >= 0; i = lmi_nodes_next(t, j, i)) {
        t->at[i].line.split = false;
        if (lmi_nodes_open(t, j, i)) continue;
        list[n] = (entry){size_of(t, k, i), i, n};
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

/* -- all ------------------------------------------------------------------------------------------------- */

lam_status lmi_nodes_build(lmi_nodes *t, const lmi_job *j) {
    int32_t places = j->m->n_places;
    uint64_t holders = 2; /* for what ran outside all calls, and what its root did itself */
    lmi_arena_init(&t->arena, UINT64_MAX);
    t->n = places;
    t->first = -1;
    t->flat = false;
    t->left_out = 0;
    t->outside = (lmi_line){0};
    t->whole = (lmi_line){.job = j};
    for (int32_t i = 0; i < places; i++) holders += lam_model_place(j->m, i)->n_children > 0;
    t->at = lmi_alloc(&t->arena, (uint64_t)places + holders, sizeof *t->at);
    if (!t->at) return lmi_nomem(j->e);
    for (int32_t i = 0; i < places; i++) start_node(j, &t->at[i], i);
    for (int32_t r = 0; r < lam_costs_n_rows(j->c); r++) add_row(j, t, r);
    sum_up(j, t);
    split_own(j, t);
    if (t->first >= 0) t->whole = t->at[t->first].line;
    if (lmi_wants_list(j->o)) return list_by_size(t, j);
    return j->o->expand ? LAM_OK : fold(t, j);
}

void lmi_nodes_free(lmi_nodes *t) { lmi_arena_free(&t->arena); }

/* -- names --------------------------------------------------------------------------------------------- */

/* The name without its class: "0", "[own parameters]"; the root's is empty. */
static void put_name(const lmi_nodes *t, int32_t i, lmi_buf *out) {
    const lmi_line *l = &t->at[i].line;
    bool holds = some(l->row.params) || l->row.params.state != LAM_EXACT;
    if (t->flat || !l->own) lmi_put_clean(out, t->flat ? l->place->path : l->place->name);
    if (t->flat && l->own && *l->place->path) lmi_putc(out, ' ');
    if (l->own) lmi_put(out, l->outside ? "[outside calls]" : holds ? "[own parameters]" : "[own work]");
}

/* "..3 x4" if the node represents several, else nothing. */
static void put_range(const lmi_nodes *t, int32_t i, lmi_buf *out) {
    const lmi_node *node = &t->at[i];
    if (node->last < 0) return;
    const char *end = t->at[node->last].line.place->name;
    lmi_put(out, "..");
    lmi_put_clean(out, end + lmi_stem(end));
    lmi_putf(out, " x%d", (int)node->fold);
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

void lmi_nodes_label(const lmi_nodes *t, int32_t i, size_t room, bool ascii, lmi_buf *out) {
    lmi_buf name, range, type;
    lmi_buf_init(&name);
    lmi_buf_init(&range);
    lmi_buf_init(&type);
    put_name(t, i, &name);
    put_range(t, i, &range);
    if (!t->at[i].line.own) lmi_put_clean(&type, t->at[i].line.module->type);
    put_label(lmi_buf_text(&name), lmi_buf_text(&range), lmi_buf_text(&type), room, ascii, out);
    lmi_buf_used(&name, out);
    lmi_buf_used(&range, out);
    lmi_buf_used(&type, out);
}

void lmi_nodes_marks(const lmi_nodes *t, int32_t i, bool brief, lmi_buf *out) {
    const lmi_node *node = &t->at[i];
    if (node->line.own) return;
    if (node->self.calls > 1) lmi_putf(out, " (%d calls)", (int)node->self.calls);
    if (node->line.never_called) lmi_putf(out, " [%s]", lmi_line_status(&node->line));
    size_t from = out->n;
    lmi_putc(out, ' ');
    lmi_put_tie(out, node->line.job->m, node->line.place);
    if (out->bad) return;
    bool tied = out->n > from + 1;
    if (tied && !brief) return;
    out->n = from;
    out->s[from] = '\0';
    if (tied) lmi_put(out, " [tied]");
}
