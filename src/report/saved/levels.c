/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels of the graph and the formulas, as report/tell/levels.c writes them. A report of an older lamina
 * has none. */
#include "analyse/flow/levels.h"
#include "base/sqlite.h"
#include "report/saved/saved.h"

#define EACH_LEVEL   "json_each(?1, '$.levels') l"
#define EACH_NODE    EACH_LEVEL ", json_each(l.value, '$.nodes') n"
#define EACH_FORMULA "json_each(?1, '$.formulas') l"
#define EACH_GROUP   EACH_FORMULA ", json_each(l.value, '$.work') n"

static lam_status not_levels(const lmi_saved *s) {
    return lmi_saved_wrong(s, "its levels are none that lamina writes");
}
static lam_status not_formulas(const lmi_saved *s) {
    return lmi_saved_wrong(s, "its formulas are none that lamina writes");
}

/* Reads a whole number from `least` to `most`; returns false if it is not one. */
static bool between(sqlite3_stmt *q, int column, int64_t least, int64_t most, int32_t *out) {
    int64_t n = sqlite3_column_type(q, column) == SQLITE_INTEGER ? sqlite3_column_int64(q, column) : -1;
    *out = (int32_t)n;
    return n >= least && n <= most;
}

/* -- the nodes of levels --------------------------------------------------------------------------------- */

/* Makes room for a level: its place in the list, how many nodes and lines it has, and how many nodes are left
 * out. */
static lam_status take_level(lmi_saved *s, sqlite3_stmt *q, void *to) {
    int32_t n, n_lines, cut;
    bool good = between(q, 1, 1, LMI_INSIDE_UNITS, &n) &&
                between(q, 2, 0, LMI_INSIDE_UNITS * LMI_INSIDE_UNITS / 2, &n_lines) &&
                between(q, 3, 0, INT32_MAX, &cut);
    lmi_level *l = good ? lmi_vec_push(to) : NULL;
    if (!good) return not_levels(s);
    if (!l) return lmi_nomem(s->w.e);
    LAM_TRY(lmi_level_new(l, &s->w.o->arena, n, n_lines, s->w.e));
    for (int32_t i = 0; i < n; i++) l->node[i] = (lmi_level_node){.name = "", .class_name = "", .place = -1};
    l->cut = cut;
    l->n_lines = 0; /* counted by take_line */
    return LAM_OK;
}

static lmi_level *level_at(const lmi_saved *s, sqlite3_stmt *q) {
    int32_t k;
    return between(q, 0, 0, (int64_t)s->w.o->n_levels - 1, &k) ? &s->w.o->level[k] : NULL;
}

static lmi_level_node *node_at(const lmi_saved *s, sqlite3_stmt *q) {
    const lmi_level *l = level_at(s, q);
    int32_t i;
    return l && between(q, 1, 0, (int64_t)l->n - 1, &i) ? &l->node[i] : NULL;
}

static int type_of(const char *name) {
    for (int i = LMI_UNIT_IN; i <= LMI_UNIT_OUT; i++)
        if (strcmp(name, lmi_node_name[i]) == 0) return i;
    return -1;
}

static lam_status take_module(lmi_saved *s, sqlite3_stmt *q, lmi_level_node *node) {
    int32_t call;
    const char *path;
    LAM_TRY(lmi_saved_text(s, q, 4, &node->class_name));
    if (!between(q, 7, 1, INT32_MAX, &node->times) || !between(q, 6, 0, (int64_t)node->times - 1, &call))
        return not_levels(s);
    node->nth = call + 1;
    if (sqlite3_column_type(q, 5) == SQLITE_NULL) return LAM_OK; /* its place is not kept */
    LAM_TRY(lmi_saved_text(s, q, 5, &path));
    LAM_TRY(lmi_saved_place(s, path, "its levels name a module that no row has", &node->place));
    node->place = s->w.of_place[node->place] < 0 ? -1 : s->w.of_place[node->place];
    return LAM_OK;
}

/* Makes room for the operators and the shape. */
static lam_status take_operators(lmi_saved *s, sqlite3_stmt *q, lmi_level_node *node) {
    lam_count *counts[] = {&node->macs, &node->flops, &node->bytes};
    int32_t n, ndim = -1;
    bool known = sqlite3_column_type(q, 9) != SQLITE_NULL;
    if (!between(q, 8, 1, INT16_MAX, &n) || (known && !between(q, 9, 0, INT16_MAX, &ndim)))
        return not_levels(s);
    node->op = lmi_alloc(&s->w.o->arena, (uint64_t)n, sizeof *node->op);
    node->shape.sizes = lmi_alloc(&s->w.o->arena, (uint64_t)(ndim < 0 ? 0 : ndim), sizeof(int64_t));
    if (!node->op || !node->shape.sizes) return lmi_nomem(s->w.e);
    if (!known) node->shape.ndim = -1;
    for (int i = 0; i < 3; i++) LAM_TRY(lmi_saved_count(s, q, 10 + i, counts[i]));
    return LAM_OK;
}

static lam_status take_node(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_level_node *node = node_at(s, q);
    const char *name;
    (void)to;
    if (!node) return not_levels(s);
    LAM_TRY(lmi_saved_text(s, q, 2, &name));
    int type = type_of(name);
    if (type < 0) return not_levels(s);
    node->type = (uint8_t)type;
    LAM_TRY(lmi_saved_text(s, q, 3, &node->name));
    if (type == LMI_UNIT_MODULE) return take_module(s, q, node);
    return type == LMI_UNIT_OPS ? take_operators(s, q, node) : LAM_OK;
}

/* Takes the next operator's name, or the next size, into the room that take_operators made. */
static lam_status take_operator(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_level_node *node = node_at(s, q);
    const char *name;
    (void)to;
    if (!node || !node->op) return LAM_OK; /* not a node of operators */
    LAM_TRY(lmi_saved_text(s, q, 2, &name));
    node->op[node->n_ops++] = name;
    return LAM_OK;
}

static lam_status take_size(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_level_node *node = node_at(s, q);
    int64_t size;
    (void)to;
    if (!node || !node->op || node->shape.ndim < 0) return LAM_OK;
    LAM_TRY(lmi_saved_int(s, q, 2, &size));
    ((int64_t *)(uintptr_t)node->shape.sizes)[node->shape.ndim++] = size;
    return LAM_OK;
}

/* Takes a line. Lines go from earlier nodes to later ones, are sorted, and none is repeated. */
static lam_status take_line(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_level *l = level_at(s, q);
    int32_t a, b;
    (void)to;
    if (!l || !between(q, 1, 0, l->n - 1, &a) || !between(q, 2, (int64_t)a + 1, l->n - 1, &b))
        return not_levels(s);
    const lmi_line_ends *last = l->n_lines ? &l->line[l->n_lines - 1] : NULL;
    if (last && (a < last->from || (a == last->from && b <= last->to))) return not_levels(s);
    l->line[l->n_lines++] = (lmi_line_ends){a, b};
    return LAM_OK;
}

/* -- formulas -------------------------------------------------------------------------------------------- */

static lam_status take_formulas(lmi_saved *s, sqlite3_stmt *q, void *to) {
    int32_t n;
    bool good = between(q, 1, 0, INT16_MAX, &n);
    lmi_formulas *f = good ? lmi_vec_push(to) : NULL;
    if (!good) return not_formulas(s);
    if (!f) return lmi_nomem(s->w.e);
    f->at = lmi_alloc(&s->w.o->arena, (uint64_t)n, sizeof *f->at);
    f->n = n;
    if (!f->at) return lmi_nomem(s->w.e);
    for (int32_t i = 0; i < n; i++) f->at[i].name = "";
    return LAM_OK;
}

static lmi_formula_group *group_at(const lmi_saved *s, sqlite3_stmt *q) {
    int32_t k, i;
    if (!between(q, 0, 0, (int64_t)s->w.o->n_formulas - 1, &k)) return NULL;
    const lmi_formulas *f = &s->w.o->formulas[k];
    return between(q, 1, 0, (int64_t)f->n - 1, &i) ? &f->at[i] : NULL;
}

/* The metric of this name; -1: there is none. */
static int metric_of(const char *name) {
    for (int i = 0; i < LAM_N_METRICS; i++)
        if (strcmp(name, lam_metric_name((lam_metric)i)) == 0) return i;
    return -1;
}

/* Makes room for the formulas of an operator. */
static lam_status take_group(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_formula_group *g = group_at(s, q);
    const char *phase;
    int32_t n;
    (void)to;
    if (!g || !between(q, 4, 0, INT32_MAX, &g->n_equal) || !between(q, 5, 0, INT16_MAX, &n))
        return not_formulas(s);
    LAM_TRY(lmi_saved_text(s, q, 2, &phase));
    LAM_TRY(lmi_saved_text(s, q, 3, &g->name));
    LAM_TRY(lmi_saved_phase_of(s, phase, &g->phase));
    g->at = lmi_alloc(&s->w.o->arena, (uint64_t)n, sizeof *g->at);
    return g->at ? LAM_OK : lmi_nomem(s->w.e);
}

static lam_status take_formula(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_formula_group *g = group_at(s, q);
    const char *metric;
    (void)to;
    if (!g || !g->at) return not_formulas(s);
    LAM_TRY(lmi_saved_text(s, q, 2, &metric));
    if (metric_of(metric) < 0) return not_formulas(s);
    lmi_outlined_formula *f = &g->at[g->n++];
    f->metric = (lam_metric)metric_of(metric);
    LAM_TRY(lmi_saved_text(s, q, 3, &f->formula));
    LAM_TRY(lmi_saved_text(s, q, 4, &f->filled));
    return lmi_saved_int(s, q, 5, &f->value);
}

/* -- all ------------------------------------------------------------------------------------------------- */

/* Takes the index of a level or of formulas, and a place that has them. */
static lam_status take_path(lmi_saved *s, sqlite3_stmt *q, void *to) {
    lmi_outline *o = s->w.o;
    bool levels = to != NULL;
    const char *path;
    int32_t k, place;
    if (!between(q, 0, 0, (int64_t)(levels ? o->n_levels : o->n_formulas) - 1, &k))
        return levels ? not_levels(s) : not_formulas(s);
    LAM_TRY(lmi_saved_text(s, q, 1, &path));
    LAM_TRY(lmi_saved_place(s, path,
                            levels ? "its levels name a module that no row has"
                                   : "its formulas name a module that no row has",
                            &place));
    place = s->w.of_place[place];
    if (place < 0) return LAM_OK; /* another place represents it */
    *(levels ? &o->at[place].level : &o->at[place].formulas) = k;
    return LAM_OK;
}

static const char nodes[] =
    "SELECT l.key, n.key, json_extract(n.value, '$.node'), json_extract(n.value, '$.name'), "
    "json_extract(n.value, '$.type'), json_extract(n.value, '$.path'), json_extract(n.value, '$.call'), "
    "json_extract(n.value, '$.calls'), json_array_length(n.value, '$.operators'), "
    "CASE json_type(n.value, '$.shape') WHEN 'array' THEN json_array_length(n.value, '$.shape') "
    "END, " LMI_SAVED_COUNT("n.value", "macs") ", " LMI_SAVED_COUNT("n.value", "flops") ", " LMI_SAVED_COUNT(
        "n.value", "bytes") " FROM " EACH_NODE;

static lam_status take_levels(lmi_saved *s) {
    lmi_outline *o = s->w.o;
    LAM_TRY(lmi_saved_list(s,
                           "SELECT l.key, json_array_length(l.value, '$.nodes'), json_array_length(l.value, "
                           "'$.edges'), json_extract(l.value, '$.more') FROM " EACH_LEVEL,
                           take_level, sizeof *o->level, &o->n_levels, &o->level));
    LAM_TRY(lmi_saved_each(s, nodes, take_node, NULL));
    LAM_TRY(lmi_saved_each(s,
                           "SELECT l.key, n.key, o.value FROM " EACH_NODE
                           ", json_each(n.value, '$.operators') o",
                           take_operator, NULL));
    LAM_TRY(lmi_saved_each(s,
                           "SELECT l.key, n.key, o.value FROM " EACH_NODE
                           ", json_each(n.value, '$.shape') o WHERE json_type(n.value, '$.shape') = 'array'",
                           take_size, NULL));
    LAM_TRY(lmi_saved_each(
        s,
        "SELECT l.key, json_extract(n.value, '$[0]'), json_extract(n.value, '$[1]') FROM " EACH_LEVEL
        ", json_each(l.value, '$.edges') n",
        take_line, NULL));
    LAM_TRY(lmi_saved_each(s, "SELECT l.key, n.value FROM " EACH_LEVEL ", json_each(l.value, '$.paths') n",
                           take_path, s));
    for (int32_t k = 0; k < o->n_levels; k++)
        LAM_TRY(lmi_level_name(&o->level[k], &o->arena, &s->w.text, s->w.e));
    return lmi_outline_draw(o, s->w.e);
}

static lam_status take_all_formulas(lmi_saved *s) {
    lmi_outline *o = s->w.o;
    LAM_TRY(lmi_saved_list(s, "SELECT l.key, json_array_length(l.value, '$.work') FROM " EACH_FORMULA,
                           take_formulas, sizeof *o->formulas, &o->n_formulas, &o->formulas));
    LAM_TRY(lmi_saved_each(s,
                           "SELECT l.key, n.key, json_extract(n.value, '$.phase'), json_extract(n.value, "
                           "'$.name'), json_extract(n.value, '$.times'), json_array_length(n.value, "
                           "'$.counts') FROM " EACH_GROUP,
                           take_group, NULL));
    LAM_TRY(lmi_saved_each(
        s,
        "SELECT l.key, n.key, json_extract(o.value, '$.metric'), json_extract(o.value, '$.formula'), "
        "json_extract(o.value, '$.substituted'), json_extract(o.value, '$.value') FROM " EACH_GROUP
        ", json_each(n.value, '$.counts') o",
        take_formula, NULL));
    return lmi_saved_each(s, "SELECT l.key, n.value FROM " EACH_FORMULA ", json_each(l.value, '$.paths') n",
                          take_path, NULL);
}

static lam_status take_sentence(lmi_saved *s, sqlite3_stmt *q, void *to) {
    const char *text;
    (void)to;
    LAM_TRY(lmi_saved_text(s, q, 0, &text));
    return lmi_leave_out(s->w.o, s->w.e, text);
}

lam_status lmi_saved_levels(lmi_saved *s) {
    bool both;
    LAM_TRY(lmi_saved_truth(s,
                            "SELECT json_type(?1, '$.levels') = 'array' "
                            "AND json_type(?1, '$.formulas') = 'array'",
                            &both));
    if (!both)
        return lmi_leave_out(
            s->w.o, s->w.e,
            "It was made from a saved report that has no formulas and no graph; `lamina show "
            "TARGET --json` and report.to_json(FILE) save them.");
    LAM_TRY(take_all_formulas(s));
    LAM_TRY(take_levels(s));
    return lmi_saved_each(s, "SELECT value FROM json_each(?1, '$.left_out')", take_sentence, NULL);
}
