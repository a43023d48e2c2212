/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina table`: the tables that torchscan and thoplw published, beside a live run of the same models. Rows,
 * columns and the reasons of known differences are data (published_*.def). */
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

enum { CELLS = 4, CELL = 24 };

/* What a column counts: a metric, or one of these. */
enum { OF_PARAMS = LAM_N_METRICS, OF_PARAMS_AND_STATISTICS };

typedef struct column {
    const char *title;
    int of;
    double unit;        /* 0: the unit is chosen as by thoplw's clever_format */
    const char *suffix; /* of the unit */
} column;

typedef struct row {
    const char *label, *model, *input;
    const char *build[3];
    const char *cell[CELLS]; /* as published, two decimals */
} row;

typedef struct reason {
    const char *label;
    int column;
    const char *today; /* the cell's known current text */
    const char *text;
} reason;

typedef struct table {
    const char *name, *convention, *source;
    int n_columns;
    column columns[CELLS];
    const row *rows;
    size_t n_rows;
    const reason *reasons;
    size_t n_reasons;
} table;

#define LIGHT                                                                                                \
    { "weights=None", NULL, NULL }
#define NO_INIT                                                                                              \
    { "weights=None", "init_weights=False", NULL }
#define REASON(label, column, today, text)
#define ROW(label, model, input, build, ...) {label, #model, input, build, {__VA_ARGS__}},
static const row torchscan_rows[] = {
#include "cmd/published_torchscan.def"
};
static const row thoplw_rows[] = {
#include "cmd/published_thoplw.def"
};
#undef ROW
#undef REASON
#define ROW(label, model, input, build, ...)
#define REASON(label, column, today, text) {label, column, today, text},
static const reason torchscan_reasons[] = {
#include "cmd/published_torchscan.def"
};
static const reason thoplw_reasons[] = {
#include "cmd/published_thoplw.def"
};
#undef ROW
#undef REASON

#define COUNT(array) (sizeof(array) / sizeof *(array))
_Static_assert(COUNT(torchscan_rows) <= LMI_MOST_PUBLISHED, "more rows than a picture of them has room for");
_Static_assert(COUNT(thoplw_rows) <= LMI_MOST_PUBLISHED, "more rows than a picture of them has room for");
static const table tables[] = {
    {"torchscan",
     "torchscan",
     "the README of torchscan 0.1.1, measured in March 2020",
     4,
     {{"params", OF_PARAMS, 1e6, "M"},
      {"FLOPs", LAM_FLOPS, 1e9, "G"},
      {"MACs", LAM_MACS, 1e9, "G"},
      {"DMAs", LAM_DMAS, 1e9, "G"}},
     torchscan_rows,
     COUNT(torchscan_rows),
     torchscan_reasons,
     COUNT(torchscan_reasons)},
    {"thoplw",
     "thoplw",
     "the README of thoplw 2024.1.25; params there include running statistics",
     2,
     {{"MACs", LAM_MACS, 0, NULL}, {"params", OF_PARAMS_AND_STATISTICS, 0, NULL}},
     thoplw_rows,
     COUNT(thoplw_rows),
     thoplw_reasons,
     COUNT(thoplw_reasons)},
};

/* -- cells ------------------------------------------------------------------------------------- */

static lam_count value_of(const lam_costs *c, int of) {
    if (of < LAM_N_METRICS) return lam_costs_total(c, (lam_metric)of);
    lam_count sum = lam_costs_params(c).in_rows;
    for (int32_t i = 0; of == OF_PARAMS_AND_STATISTICS && i < lam_costs_n_rows(c); i++)
        sum = lam_count_add(sum, lam_costs_row(c, i)->running_stats);
    return sum;
}

/* Scales as thoplw's clever_format does. */
static double clever_scale(double x, const char **unit) {
    static const char *const units[] = {" ", "K", "M", "G", "T", "P"};
    int i = 0;
    for (; i < 5 && x >= 1000; i++) x /= 1000;
    *unit = units[i];
    return x;
}

/* Prints two decimals and a point, in any locale of the host. */
static void cell_text(char *to, lam_count v, const column *col) {
    double x = (double)v.over * 9223372036854775808.0 + (double)v.n;
    const char *suffix = col->suffix;
    if (v.state == LAM_UNKNOWN) {
        snprintf(to, CELL, "?");
        return;
    }
    if (col->unit > 0)
        x /= col->unit;
    else
        x = clever_scale(x, &suffix);
    snprintf(to, CELL, "%.2f %s", x, suffix);
    for (char *s = to; *s; s++)
        if (*s == ',') *s = '.';
}

static const reason *known_reason(const table *t, const row *r, int at, const char *today) {
    for (size_t i = 0; i < t->n_reasons; i++) {
        const reason *why = &t->reasons[i];
        bool same = strcmp(why->label, r->label) == 0 && why->column == at;
        if (same && strcmp(why->today, today) == 0) return why;
    }
    return NULL;
}

/* -- rows -------------------------------------------------------------------------------------- */

/* Prints the head, at the first row only: a host may hand over the whole command line instead of running a
 * model. */
static void say_head(lmi_cli *c, const table *t) {
    lmi_say(c, "%s: published in %s\n%-20s", t->name, t->source, "model");
    for (int i = 0; i < t->n_columns; i++) lmi_say(c, " %11s ", t->columns[i].title);
    lmi_say(c, "\n");
}

typedef struct tally {
    int rows, same, cells_off, unexplained, failed;
} tally;

/* A row's cells as they are now, beside the published ones. */
typedef struct cells {
    const table *t;
    const row *r;
    char now[CELLS][CELL];
    bool same[CELLS];
    const reason *why[CELLS]; /* of a cell that differs; NULL: unknown */
} cells;

static cells look_at(const table *t, const row *r, const lam_costs *costs, tally *sum) {
    cells x = {.t = t, .r = r};
    int off = 0;
    for (int i = 0; i < t->n_columns; i++) {
        cell_text(x.now[i], value_of(costs, t->columns[i].of), &t->columns[i]);
        x.same[i] = strcmp(x.now[i], r->cell[i]) == 0;
        if (x.same[i]) continue;
        x.why[i] = known_reason(t, r, i, x.now[i]);
        sum->unexplained += !x.why[i];
        off++;
    }
    sum->rows++;
    sum->same += !off;
    sum->cells_off += off;
    return x;
}

static void say_row(lmi_cli *c, const cells *x) {
    bool off = false;
    lmi_say(c, "%-20s", x->r->label);
    for (int i = 0; i < x->t->n_columns; i++) {
        off = off || !x->same[i];
        lmi_say(c, " %11s%s", x->now[i], x->same[i] ? " " : "*");
    }
    lmi_say(c, "%s\n", off ? " differs" : "");
    for (int i = 0; i < x->t->n_columns; i++)
        if (!x->same[i])
            lmi_say(c, "    * %s published as %s: %s\n", x->t->columns[i].title, x->r->cell[i],
                    x->why[i] ? x->why[i]->text : "no reason is known for this difference");
}

static void json_row(lmi_cli *c, const cells *x) {
    lmi_json_open(c, NULL, LAM_FIELD_OBJECT);
    lmi_json_text(c, "model", x->r->label);
    lmi_json_open(c, "cells", LAM_FIELD_LIST);
    for (int i = 0; i < x->t->n_columns; i++) {
        lmi_json_open(c, NULL, LAM_FIELD_OBJECT);
        lmi_json_text(c, "column", x->t->columns[i].title);
        lmi_json_text(c, "published", x->r->cell[i]);
        lmi_json_text(c, "now", x->now[i]);
        lmi_json_truth(c, "same", x->same[i]);
        lmi_json_text(c, "reason", x->why[i] ? x->why[i]->text : NULL);
        lmi_json_close(c);
    }
    lmi_json_close(c);
    lmi_json_close(c);
}

static lam_status run_row(lmi_cli *c, const row *r, const lam_cost_options *o, lmi_take_model take,
                          void *self, lam_error *e) {
    char target[64];
    snprintf(target, sizeof target, "torchvision.models:%s", r->model);
    lam_live what = {.target = target,
                     .inputs = {r->input},
                     .mode = "eval",
                     .build = {r->build[0], r->build[1]},
                     .dry = c->args.live.dry,
                     .ops = lam_convention_counts_ops(lam_convention_find(o->convention))};
    lam_model *m;
    lam_costs *costs = NULL;
    lam_status s = lmi_live_model(c, &what, &m, e);
    if (s == LAM_OK) s = lam_costs_new(&costs, m, o, e);
    if (s == LAM_OK) s = take(self, r->label, costs, e);
    lam_costs_free(costs);
    lam_model_free(m);
    return s;
}

/* -- the table --------------------------------------------------------------------------------- */

static void say_end(lmi_cli *c, const tally *sum) {
    lmi_say(c, "%d of %d models as published", sum->same, sum->rows);
    if (sum->cells_off)
        lmi_say(c, "; %d cell%s, %s", sum->cells_off, sum->cells_off == 1 ? " differs" : "s differ",
                sum->unexplained ? "not all for a known reason" : "each for the reason given");
    if (sum->failed) lmi_say(c, "; %d could not be run", sum->failed);
    lmi_say(c, "\n");
}

/* True if an operand after `at` names the row, or if there is no such operand. */
static bool wanted(const lmi_args *a, int32_t at, const row *r) {
    for (int32_t i = at + 1; i < a->n_operands; i++)
        if (strcmp(a->operands[i], r->label) == 0 || strcmp(a->operands[i], r->model) == 0) return true;
    return a->n_operands == at + 1;
}

/* If not even the first model can be run, neither can the others: *failed is -1. */
static int run_models(lmi_cli *c, int32_t at, const table *t, const lam_cost_options *o, lmi_take_model take,
                      void *self, int *failed) {
    int ran = 0;
    *failed = 0;
    for (size_t i = 0; i < t->n_rows && c->out_status == LAM_OK; i++) {
        lam_error e = {0};
        if (!wanted(&c->args, at, &t->rows[i])) continue;
        lam_status s = run_row(c, &t->rows[i], o, take, self, &e);
        ran += s == LAM_OK;
        if (s == LAM_OK) continue;
        int code = lmi_complain_of(c, &e, s);
        *failed = ran ? *failed + 1 : -1;
        if (!ran) return code;
    }
    return *failed ? LMI_EXIT_FAILED : LMI_EXIT_OK;
}

typedef struct printing {
    lmi_cli *c;
    const table *t;
    tally sum;
} printing;

static lam_status print_row(void *self, const char *label, const lam_costs *costs, lam_error *e) {
    printing *p = self;
    (void)e;
    for (size_t i = 0; i < p->t->n_rows; i++)
        if (p->t->rows[i].label == label) {
            bool first = p->sum.rows == 0;
            cells x = look_at(p->t, &p->t->rows[i], costs, &p->sum);
            if (lmi_is_json(&p->c->args)) {
                json_row(p->c, &x);
                continue;
            }
            if (first) say_head(p->c, p->t);
            say_row(p->c, &x);
        }
    return LAM_OK;
}

static int begin_json(lmi_cli *c, const table *t) {
    int code = lmi_json_begin(c, "table");
    if (code != LMI_EXIT_OK) return code;
    lmi_json_text(c, "table", t->name);
    lmi_json_text(c, "convention", t->convention);
    lmi_json_text(c, "source", t->source);
    lmi_json_open(c, "models", LAM_FIELD_LIST);
    return code;
}

static int end_json(lmi_cli *c, const tally *sum, int code) {
    lmi_json_close(c);
    lmi_json_int(c, "as_published", sum->same);
    lmi_json_int(c, "cells_off", sum->cells_off);
    lmi_json_int(c, "unexplained", sum->unexplained);
    lmi_json_int(c, "failed", sum->failed);
    return lmi_json_end(c, code);
}

static int run_table(lmi_cli *c, const table *t) {
    printing p = {.c = c, .t = t};
    const lam_cost_options o = {.convention = t->convention, .released = true};
    const bool json = lmi_is_json(&c->args);
    int begun = json ? begin_json(c, t) : LMI_EXIT_OK;
    if (begun != LMI_EXIT_OK) return begun;
    int code = run_models(c, 0, t, &o, print_row, &p, &p.sum.failed);
    if (p.sum.failed < 0) return code;
    if (code == LMI_EXIT_OK && p.sum.unexplained) code = LMI_EXIT_FINDING;
    if (json) return end_json(c, &p.sum, code);
    say_end(c, &p.sum);
    return code;
}

static bool known_models(lmi_cli *c, int32_t at, const table *t) {
    for (int32_t k = at + 1; k < c->args.n_operands; k++) {
        const char *name = c->args.operands[k];
        lmi_near near = lmi_near_start(name);
        bool found = false;
        for (size_t i = 0; i < t->n_rows && !found; i++) {
            found = strcmp(t->rows[i].label, name) == 0 || strcmp(t->rows[i].model, name) == 0;
            lmi_near_put(&near, t->rows[i].label);
        }
        if (found) continue;
        lmi_complain(c, lmi_near_hint(&near, "leave MODEL out to run all of them"),
                     "%s: the table has no such model", name);
        return false;
    }
    return true;
}

/* The table that operand `at` names; NULL after an error, also if it lacks a model that is named after it. */
static const table *find_table(lmi_cli *c, int32_t at) {
    const char *name = c->args.operands[at];
    for (size_t i = 0; i < COUNT(tables); i++)
        if (strcmp(tables[i].name, name) == 0) return known_models(c, at, &tables[i]) ? &tables[i] : NULL;
    char hint[96] = "there are:";
    for (size_t i = 0; i < COUNT(tables); i++)
        snprintf(hint + strlen(hint), sizeof hint - strlen(hint), " %s", tables[i].name);
    lmi_complain(c, hint, "%s: there is no such published table", name);
    return NULL;
}

int lmi_published_run(lmi_cli *c, int32_t at, const char *convention, lmi_take_model take, void *self) {
    const table *t = find_table(c, at);
    const lam_cost_options o = {.convention = convention};
    int failed;
    return t ? run_models(c, at, t, &o, take, self, &failed) : LMI_EXIT_USAGE;
}

int lmi_run_table(lmi_cli *c) {
    const table *t = find_table(c, 0);
    return t ? run_table(c, t) : LMI_EXIT_USAGE;
}
