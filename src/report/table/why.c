/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a number: each number of a row with its formula and the values put in, as text. */
#include "report/table/report.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 160, MOST_WORDS = 8 };

/* What is told of one row. */
typedef struct teller {
    lmi_buf *out;
    const lam_costs *costs;
    int32_t row;
    bool facts, ascii; /* each rule's own text and every fact; no letters beyond ASCII */
} teller;

static void say_args(lmi_buf *out, const lam_arg *args, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        char shape[TEXT];
        lam_text_shape(shape, sizeof shape, (lam_shape){args[i].ndim, args[i].sizes}, "x");
        const char *name = args[i].name ? args[i].name : "", *equals = args[i].name ? "=" : "";
        lmi_putf(out, "%s%s%s%s %s", i ? ", " : "", name, equals, shape, lam_dtype_name(args[i].dtype));
    }
    if (n == 0) lmi_putf(out, "no tensor");
}

/* Effective counts are shown if they differ from the dense ones. */
static bool is_told(const lam_costs *costs, const lam_why *w, const lam_count value[LAM_N_METRICS]) {
    if (w->metric <= LAM_DMAS) return true;
    if (!lam_convention_counts(lam_costs_convention(costs), w->metric)) return false;
    if (w->metric < LAM_EFFECTIVE_MACS) return true;
    return !lmi_is_same(w->value, value[w->metric - LAM_EFFECTIVE_MACS]);
}

/* A formula with its values; the product sign is an x in ASCII. */
static void say_values(const teller *t, const char *text) {
    static const char times[] = "\xc3\x97";
    for (const char *s = text, *x; *s; s = x + strlen(times)) {
        x = t->ascii ? strstr(s, times) : NULL;
        if (!x) {
            lmi_putf(t->out, "%s", s);
            return;
        }
        lmi_putf(t->out, "%.*sx", (int)(x - s), s);
    }
}

static const char *title_of(lam_metric metric) {
    static const char *const titles[LAM_N_METRICS] = {"MACs",    "FLOPs",     "DMAs",      "read",
                                                      "written", "eff. MACs", "eff. FLOPs"};
    return titles[metric];
}

static bool is_bytes(lam_metric metric) { return metric == LAM_BYTES_READ || metric == LAM_BYTES_WRITTEN; }

/* True for the metrics that are shown without the facts: of the moved data, bytes if the convention counts
 * them. */
static bool is_wanted(const teller *t, const lam_why *w, const lam_count value[LAM_N_METRICS]) {
    if (!is_told(t->costs, w, value)) return false;
    bool bytes = lam_convention_counts(lam_costs_convention(t->costs), LAM_BYTES_READ);
    return t->facts || w->metric != LAM_DMAS || !bytes;
}

/* True if the formula says more than the number. */
static bool has_formula(const lam_why *w) {
    char text[64];
    lam_text_count(text, sizeof text, w->value, true);
    return w->formula && *w->substituted && strcmp(w->substituted, text) != 0;
}

/* " = 200,704 x 576" and `tail`, and with facts the rule's own text below it, `margin` columns from the
 * left. */
static void say_formula(const teller *t, const lam_why *w, const char *tail, int margin) {
    if (w && has_formula(w)) {
        lmi_putf(t->out, " = ");
        say_values(t, w->substituted);
    }
    lmi_putf(t->out, "%s\n", tail);
    if (w && t->facts && w->formula) lmi_putf(t->out, "%*s = %s\n", margin, "", w->formula);
}

/* Prints a metric; `formula` NULL: without one. A row with layers in it has its own number and the sum. */
static void say_metric(const teller *t, const lam_why *row, const lam_why *formula) {
    const lam_cost_row *r = lam_costs_row(t->costs, t->row);
    char text[64], all[64], tail[TEXT] = "";
    lam_text_count(text, sizeof text, row->value, true);
    lmi_putf(t->out, "  %-10s %15s%s", title_of(row->metric), text, is_bytes(row->metric) ? " bytes" : "");
    lam_text_count(all, sizeof all, r->below->total[row->metric], true);
    if (row->phase == LAM_FORWARD && !r->leaf && strcmp(all, text) != 0)
        snprintf(tail, sizeof tail, "%s with its layers %s", formula && has_formula(formula) ? ";" : ",",
                 all);
    say_formula(t, formula, tail, 28);
}

static const char *meaning(const char *fact) {
    for (int32_t i = 0; lam_fact_name(i); i++)
        if (strcmp(lam_fact_name(i), fact) == 0) return lam_fact_meaning(i);
    return "";
}

static void say_fact(lmi_buf *out, const char *name, int64_t value) {
    char text[64];
    lam_text_count(text, sizeof text, (lam_count){value, 0, LAM_EXACT}, true);
    lmi_putf(out, "  %-10s %15s  %s\n", name, text, meaning(name));
}

/* All known facts of the row. */
static void say_facts(const teller *t) {
    const char *name;
    int64_t value;
    for (int32_t i = 0; lam_costs_fact(t->costs, t->row, i, &name, &value); i++) {
        if (i == 0) lmi_putf(t->out, "facts\n");
        say_fact(t->out, name, value);
    }
}

/* The facts of several formulas, each once: as a list with their meanings, or on one line. */
typedef struct named {
    const char *seen[2 * LAM_WHY_FACTS];
    int32_t n;
    bool line;
} named;

static void say_named(const teller *t, const lam_why *w, named *to) {
    for (int32_t i = 0; i < w->n_facts; i++) {
        const char *name = w->facts[i].name;
        int64_t value = w->facts[i].value;
        int32_t k = 0;
        while (k < to->n && strcmp(to->seen[k], name) != 0) k++;
        if (k < to->n || to->n == 2 * LAM_WHY_FACTS) continue;
        to->seen[to->n++] = name;
        if (to->line) {
            char text[64];
            lam_text_count(text, sizeof text, (lam_count){value, 0, LAM_EXACT}, true);
            lmi_putf(t->out, "%s %s %s", to->n > 1 ? "," : "    with", name, text);
        } else {
            lmi_putf(t->out, "%s", to->n == 1 ? "where\n" : "");
            say_fact(t->out, name, value);
        }
    }
}

/* Explanation `i` of the row; false past the last one. */
static bool explained(const teller *t, int32_t i, lam_why *w) {
    return lam_costs_why(t->costs, t->row, i, w, NULL) == LAM_OK;
}

/* Prints the parameters in the layer, and their bytes if these are not what shapes and types give, or if
 * other processes have a part of them. */
static void say_parameters(const teller *t) {
    const lam_cost_row *r = lam_costs_row(t->costs, t->row);
    const struct {
        const char *name;
        lam_count bytes;
    } all[] = {{"param_bytes", r->below->param_bytes},
               {"logical_bytes", r->below->logical_bytes},
               {"local_bytes", r->below->local_bytes}};
    char text[64];
    bool alike = lmi_is_same(all[0].bytes, all[1].bytes) && lmi_is_same(all[0].bytes, all[2].bytes);
    lam_text_count(text, sizeof text, r->below->params, true);
    lmi_putf(t->out, "  %-10s %15s\n", "params", text);
    for (int i = 0; i < 3 && !alike; i++) {
        if (i > 0 && lmi_is_same(all[i].bytes, all[0].bytes)) continue;
        lam_text_count(text, sizeof text, all[i].bytes, true);
        lmi_putf(t->out, "  %-13s %12s bytes\n", all[i].name, text);
    }
}

/* Prints each metric of the row, with the formulas from explanation `from` on (-1: none), and then the
 * meaning of the facts in them. */
static void say_numbers(const teller *t, int32_t at, int32_t from) {
    named facts = {0};
    lam_count value[LAM_N_METRICS];
    lam_why row, w;
    bool shown[LAM_N_METRICS] = {false};
    for (int32_t i = 0; i < LAM_N_METRICS && explained(t, at + i, &row); i++) {
        value[i] = row.value;
        shown[i] = is_wanted(t, &row, value);
        bool formula = from >= 0 && explained(t, from + i, &w);
        if (shown[i]) say_metric(t, &row, formula ? &w : NULL);
    }
    if (at == 0) say_parameters(t);
    for (int32_t i = 0; i < LAM_N_METRICS && from >= 0; i++)
        if (shown[i] && explained(t, from + i, &w) && has_formula(&w)) say_named(t, &w, &facts);
}

/* Prints one operator, or several equal ones: on one line if it has one number, else with a line for each. */
static void say_op(const teller *t, const lam_why w[LAM_N_METRICS]) {
    char text[64], times[32] = "";
    lam_count value[LAM_N_METRICS];
    int32_t shown[LAM_N_METRICS], n = 0;
    named facts = {.line = true};
    for (int32_t i = 0; i < LAM_N_METRICS; i++) {
        value[i] = w[i].value;
        bool work = i == LAM_MACS || i == LAM_FLOPS || t->facts || i >= LAM_EFFECTIVE_MACS;
        if (work && is_wanted(t, &w[i], value) && !(lmi_is_zero(value[i]) && !t->facts)) shown[n++] = i;
    }
    if (w->n_equal > 1) snprintf(times, sizeof times, " x%d", (int)w->n_equal);
    lmi_putf(t->out, "  %s%s%s", w->note, times, n == 1 ? ":" : "\n");
    for (int32_t k = 0; k < n; k++) {
        const lam_why *one = &w[shown[k]];
        lam_text_count(text, sizeof text, one->value, true);
        lmi_putf(t->out, n == 1 ? " %s %s%s" : "    %-10s %13s%s", title_of(one->metric), text,
                 is_bytes(one->metric) ? " bytes" : "");
        lmi_putf(t->out, "%s", one->n_equal > 1 ? " each" : "");
        say_formula(t, one, "", n == 1 ? 4 : 28);
    }
    for (int32_t k = 0; k < n; k++)
        if (has_formula(&w[shown[k]])) say_named(t, &w[shown[k]], &facts);
    if (facts.n) lmi_putf(t->out, "\n");
}

/* The operators without work, printed on one line: their number and their names. */
typedef struct idle {
    int32_t n, names;
    const char *name[MOST_WORDS];
    int32_t times[MOST_WORDS];
} idle;

static void add_idle(idle *rest, const lam_why *w) {
    int32_t k = 0, known = rest->names < MOST_WORDS ? rest->names : MOST_WORDS;
    while (k < known && strcmp(rest->name[k], w->note) != 0) k++;
    rest->n += w->n_equal;
    if (k == known) rest->names++;
    if (k == MOST_WORDS) return;
    rest->name[k] = w->note;
    rest->times[k] = (k < known ? rest->times[k] : 0) + w->n_equal;
}

static void say_idle(const teller *t, const idle *rest) {
    if (!rest->n) return;
    lmi_putf(t->out, "  %d operator%s without MACs or FLOPs:", (int)rest->n, rest->n == 1 ? "" : "s");
    for (int32_t k = 0; k < rest->names && k < MOST_WORDS; k++) {
        lmi_putf(t->out, "%s %s", k ? "," : "", rest->name[k]);
        if (rest->times[k] > 1) lmi_putf(t->out, " x%d", (int)rest->times[k]);
    }
    lmi_putf(t->out, "%s\n", rest->names > MOST_WORDS ? ", ..." : "");
}

/* Prints the operators that explanation `at`, a sum, consists of. Returns the index after them. */
static int32_t say_ops(const teller *t, int32_t at) {
    lam_why w[LAM_N_METRICS];
    idle rest = {0};
    for (;; at += LAM_N_METRICS) {
        for (int32_t i = 0; i < LAM_N_METRICS; i++)
            if (!explained(t, at + i, &w[i]) || w[i].op < 0) {
                say_idle(t, &rest);
                return at;
            }
        if (lmi_is_zero(w[LAM_MACS].value) && lmi_is_zero(w[LAM_FLOPS].value) && !t->facts)
            add_idle(&rest, w);
        else
            say_op(t, w);
    }
}

/* The number of operators that explanation `at`, a sum, consists of; the name of the first. */
static int32_t n_ops(const teller *t, int32_t at, const char **name) {
    lam_why w;
    int32_t n = 0;
    for (int32_t i = at + LAM_N_METRICS; explained(t, i, &w) && w.op >= 0; i += LAM_N_METRICS) {
        if (n == 0) *name = w.note;
        n += w.n_equal;
    }
    return n;
}

/* Prints the row's forward, backward and recomputed work, each with its operators; a single operator is shown
 * as the row itself. */
static void say_phases(const teller *t) {
    static const char *const heads[] = {"forward", "backward", "recomputed"};
    const char *name = NULL;
    lam_why w;
    for (int32_t at = 0; explained(t, at, &w);) {
        int32_t n = n_ops(t, at, &name);
        if (at) lmi_putf(t->out, "%s\n", heads[w.phase]); /* the forward is first and has no heading */
        if (n == 1) {
            bool words = explained(t, at + LAM_N_METRICS, &w) && w.words;
            lmi_putf(t->out, "  %s%s%s\n", name, words ? ": " : "", words ? w.words : "");
        }
        say_numbers(t, at, n == 1 ? at + LAM_N_METRICS : n == 0 ? at : -1);
        at += LAM_N_METRICS;
        if (n > 1) lmi_putf(t->out, "%d operators\n", (int)n);
        at = n > 1 ? say_ops(t, at) : at + n * LAM_N_METRICS;
    }
}

static lam_status say_row(const teller *t, lam_error *e) {
    lam_why w;
    const char *note = NULL, *words = NULL;
    for (int32_t i = 0; i < LAM_N_METRICS; i++) {
        lam_status s = lam_costs_why(t->costs, t->row, i, &w, e); /* also if there is no such row */
        if (s != LAM_OK) return s;
        if (w.note) note = w.note;
        if (w.words) words = w.words;
    }
    const lam_model *m = lam_costs_model(t->costs);
    const lam_cost_row *r = lam_costs_row(t->costs, t->row);
    const lam_event *ev = lam_model_event(m, r->event);
    const lam_place *p = lam_model_place(m, r->place);
    const lam_module *mod = lam_model_module(m, r->module);
    lmi_put_clean(t->out, *p->path ? p->path : "the whole model");
    lmi_put(t->out, " (");
    lmi_put_clean(t->out, mod->type);
    lmi_putc(t->out, ')');
    if (ev && mod->n_calls > 1) lmi_putf(t->out, ", call %d of %d", (int)ev->ordinal + 1, (int)mod->n_calls);
    lmi_putf(t->out, "%s%s\n", r->rule_kind ? ", rule " : "", r->rule_kind ? r->rule_kind : "");
    if (ev) {
        lmi_putf(t->out, "  ");
        say_args(t->out, ev->in, ev->n_in);
        lmi_putf(t->out, " -> ");
        say_args(t->out, ev->out, ev->n_out);
        lmi_putf(t->out, "\n");
    }
    if (words) lmi_putf(t->out, "  %s\n", words);
    if (note) lmi_putf(t->out, "  %s\n", note);
    say_phases(t);
    if (t->facts) say_facts(t);
    return LAM_OK;
}

lam_status lam_why_write(const lam_costs *c, int32_t row, bool facts, bool ascii, lam_sink to, lam_error *e) {
    lmi_buf out;
    lmi_buf_init(&out);
    const teller t = {&out, c, row, facts, ascii};
    lam_status s = say_row(&t, e);
    if (s == LAM_OK) s = lmi_buf_flush(&out, to, e);
    lmi_buf_free(&out);
    return s;
}
