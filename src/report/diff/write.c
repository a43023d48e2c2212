/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference as text, as narrow as the terminal, and as Markdown. */
#include "report/diff/diff.h"

#include <string.h>

enum { DEFAULT_ROWS = 20, NAME = 34, LEAST_NAME = 16, CHANGED = 28, WIDE_CHANGED = 44, WIDE = 120 };

typedef struct writer {
    const lam_diff *d;
    const lmi_diff_lines *l;
    const lam_diff_options *o;
    bool md;
    int32_t n;                  /* number of lines shown */
    int32_t idle;               /* number of containers that are left out */
    bool column[LMI_N_FIGURES]; /* columns besides `by` */
    lmi_buf out, attr, lacks;   /* attr: one attribute that differs; lacks: columns without room */
    lam_error *e;
} writer;

static const lmi_diff_line *line_at(const writer *w, int32_t i) { return lmi_vec_at(&w->l->at, (size_t)i); }

/* -- tables ---------------------------------------------------------------------------------------------- */

static void begin_table(writer *w, lmi_sheet *t) {
    lmi_sheet_start(t, &w->out, w->md || w->o->width <= 0 ? 0 : (size_t)w->o->width, w->o->ascii, w->e);
    t->cap = w->md || w->o->width <= 0 ? 0 : w->o->width < WIDE ? CHANGED : WIDE_CHANGED;
}

/* `below`, unless NULL, writes lines below a row. */
static lam_status end_table(writer *w, lmi_sheet *t, void (*below)(writer *w, int32_t row)) {
    if (w->md) {
        lmi_sheet_md(t);
    } else {
        lmi_sheet_fit(t, NAME, LEAST_NAME);
        for (int32_t r = 0; t->s == LAM_OK && !t->cell->bad && r < lmi_sheet_rows(t); r++) {
            lmi_sheet_row(t, r, 0, 0);
            if (below) below(w, r);
        }
        if (t->s == LAM_OK && !t->cell->bad && below) lmi_sheet_left_out(t, &w->lacks);
    }
    return lmi_sheet_free(t);
}

/* -- modules --------------------------------------------------------------------------------------------- */

static void put_path(writer *w, lmi_buf *b, int side, int32_t place) {
    lmi_buf path;
    lmi_buf_init(&path);
    lmi_diff_path(w->d, side, place, &path);
    lmi_put_clean(b, path.n ? path.s : "(the model)");
    lmi_buf_used(&path, b);
}

/* "> features -> stem (Sequential, 12 modules)" */
static void put_module(writer *w, lmi_buf *b, const lmi_diff_line *l) {
    static const char sign[] = " +-~>";
    const lmi_outline_place *was = lmi_diff_outlined(w->d, 0, l->place),
                            *now = lmi_diff_outlined(w->d, 1, l->place);
    lmi_putf(b, "%c ", sign[l->change]);
    if (l->moved) {
        put_path(w, b, 0, l->place);
        lmi_put(b, " -> ");
    }
    put_path(w, b, now ? 1 : 0, l->place);
    const char *type = now ? now->type : was->type;
    bool in_both = was && now && l->whole && l->change == LMI_CHANGED;
    lmi_put(b, " (");
    lmi_put_clean(b, type);
    if (l->whole && !in_both) lmi_putf(b, "%s%d modules", *type ? ", " : "", (int)l->modules);
    lmi_putc(b, ')');
}

static bool have_shapes(const writer *w) {
    return lmi_has_shapes(&w->d->side[0].o) && lmi_has_shapes(&w->d->side[1].o);
}

/* The type of a single tensor, after its shape; NULL: there are several, or none is known. */
static const char *type_of_one(const char *tensors) {
    return strchr(tensors, ',') || strchr(tensors, '+') ? NULL : strchr(tensors, ' ');
}

static void put_changed(lmi_buf *b, const char *what, const char *was, const char *now, bool tensors) {
    char shape[2][128] = {"", ""};
    if (strcmp(was, now) == 0) return;
    if (b->n && b->s[b->n - 1]) lmi_put(b, "; ");
    if (*what) lmi_putf(b, "%s ", what);
    const char *a = tensors ? type_of_one(was) : NULL, *c = tensors ? type_of_one(now) : NULL;
    bool one = a && c && strcmp(a, c) == 0 && a - was < 128 && c - now < 128; /* unlike types are shown */
    if (one) {
        memcpy(shape[0], was, (size_t)(a - was));
        memcpy(shape[1], now, (size_t)(c - now));
    }
    void (*put)(lmi_buf *, const char *) = tensors ? lmi_put_tensors : lmi_put_clean;
    put(b, one ? shape[0] : *was ? was : "none");
    lmi_put(b, " -> ");
    put(b, one ? shape[1] : *now ? now : "none");
}

static void put_value(lmi_buf *b, const lam_value *v) {
    switch (v->type) {
    case LAM_BOOL: lmi_put(b, v->i ? "True" : "False"); break;
    case LAM_INT: lmi_putf(b, "%lld", (long long)v->i); break;
    case LAM_INTS:
        for (int32_t i = 0; i < v->n; i++) lmi_putf(b, "%s%lld", i ? "x" : "", (long long)v->ints[i]);
        if (!v->n) lmi_put(b, "()");
        break;
    case LAM_FLOAT: lmi_put_nine(b, v->f); break;
    case LAM_TEXT: lmi_put_clean(b, v->text); break;
    default: lmi_put(b, "None");
    }
}

/* "kernel_size 3x3 -> 5x5", the i-th attribute that differs; false past the last one. */
static bool put_attribute(writer *w, const lmi_outline_place *was, const lmi_outline_place *now, int32_t i) {
    lam_attr changed[2];
    lmi_buf_clear(&w->attr);
    if (!lmi_changed_attr(was, now, i, changed)) return false;
    lmi_put_clean(&w->attr, changed[1].name);
    lmi_putc(&w->attr, ' ');
    put_value(&w->attr, &changed[0].value);
    lmi_put(&w->attr, " -> ");
    put_value(&w->attr, &changed[1].value);
    return true;
}

static bool is_sum(const lmi_diff_line *l) { return l->whole && l->change == LMI_CHANGED; }

/* The type and the shapes of a module that differ: "in 2x32 -> 2x64; out 2x4 -> 2x8". */
static void put_unlike(const writer *w, lmi_buf *b, const lmi_outline_place *was,
                       const lmi_outline_place *now) {
    if (lmi_unlike_types(was, now)) put_changed(b, "", was->type, now->type, false);
    if (!have_shapes(w)) return;
    put_changed(b, "in", was->in, now->in, true);
    put_changed(b, "out", was->out, now->out, true);
}

/* True if that is wider than its column. Then the column has the names alone, and the rest is below. */
static bool is_wide(const writer *w, const lmi_outline_place *was, const lmi_outline_place *now) {
    lmi_buf b;
    lmi_buf_init(&b);
    put_unlike(w, &b, was, now);
    const size_t cap = w->o->width < WIDE ? CHANGED : WIDE_CHANGED;
    bool wide = !w->md && w->o->width > 0 && lmi_width(lmi_buf_text(&b)) > cap;
    lmi_buf_free(&b);
    return wide;
}

/* Writes the attributes that differ, and what is too wide for its column, below the row of their module. Row
 * 0 has the heads, and the last row may sum up lines that are not shown. */
static void put_attributes(writer *w, int32_t row) {
    enum { MARGIN = 4 };
    const lmi_diff_line *l = row > 0 && row <= w->n ? line_at(w, row - 1) : NULL;
    const lmi_outline_place *was = l ? lmi_diff_outlined(w->d, 0, l->place) : NULL,
                            *now = l ? lmi_diff_outlined(w->d, 1, l->place) : NULL;
    lmi_flow f;
    if (!was || !now || is_sum(l)) return;
    lmi_flow_start(&f, &w->out, w->o->width > 0 ? (size_t)w->o->width : 0, MARGIN);
    lmi_flow_label(&f, NULL, "", 0);
    for (int32_t i = 0; put_attribute(w, was, now, i); i++)
        lmi_flow_item(&f, NULL, lmi_buf_text(&w->attr), ", ");
    if (is_wide(w, was, now)) {
        lmi_buf_clear(&w->attr);
        put_unlike(w, &w->attr, was, now);
        lmi_flow_item(&f, NULL, lmi_buf_text(&w->attr), ", ");
    }
    lmi_flow_end(&f);
}

static void put_word(lmi_buf *b, const char *word, const char *was, const char *now) {
    if (strcmp(was, now) == 0) return;
    if (b->n && b->s[b->n - 1]) lmi_put(b, ", ");
    lmi_put(b, word);
}

static void put_what(writer *w, lmi_buf *b, const lmi_diff_line *l) {
    const lmi_outline_place *was = lmi_diff_outlined(w->d, 0, l->place),
                            *now = lmi_diff_outlined(w->d, 1, l->place);
    if (!was || !now) return;
    if (is_sum(l)) {
        lmi_putf(b, "%d in it differ%s", (int)l->modules, l->modules == 1 ? "s" : "");
        return;
    }
    if (is_wide(w, was, now)) {
        if (lmi_unlike_types(was, now)) put_word(b, "type", was->type, now->type);
        put_word(b, "in", was->in, now->in);
        put_word(b, "out", was->out, now->out);
        return;
    }
    if (w->md && lmi_unlike_types(was, now)) put_changed(b, "", was->type, now->type, false);
    for (int32_t i = 0; w->md && put_attribute(w, was, now, i); i++) {
        if (b->n && b->s[b->n - 1]) lmi_put(b, "; ");
        lmi_put(b, lmi_buf_text(&w->attr));
    }
    if (!w->md) {
        put_unlike(w, b, was, now);
    } else if (have_shapes(w)) {
        put_changed(b, "in", was->in, now->in, true);
        put_changed(b, "out", was->out, now->out, true);
    }
}

static bool differs_in(const writer *w, lmi_figure k) {
    for (int32_t i = 0; i < w->n && w->d->by_place[k]; i++)
        if (!lmi_is_same(line_at(w, i)->was[k], line_at(w, i)->now[k])) return true;
    return false;
}

/* Bytes of parameters are shown only if the number of parameters is the same: else they say nothing new. */
static void find_columns(writer *w) {
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        lmi_figure k = (lmi_figure)i;
        bool again =
            k == LMI_FIGURE_CALLS || (k == LMI_FIGURE_PARAM_BYTES && differs_in(w, LMI_FIGURE_PARAMS));
        w->column[i] = k != w->l->by && !again && differs_in(w, k);
    }
}

static void put_heads(writer *w, lmi_sheet *t) {
    const char *by = w->l->by == LMI_N_FIGURES ? NULL : lmi_figures[w->l->by].title;
    lmi_sheet_column(t, &(lmi_head){"module", LMI_LEFT, 0});
    lmi_sheet_column(t, &(lmi_head){"change", LMI_LEFT, 1});
    if (by) {
        lmi_sheet_column(t, &(lmi_head){"before", LMI_RIGHT, 3});
        lmi_sheet_column(t, &(lmi_head){"now", LMI_RIGHT, 2});
        lmi_sheet_column(t, &(lmi_head){by, LMI_RIGHT, 0});
        lmi_sheet_column(t, &(lmi_head){"%", LMI_RIGHT, 4});
    }
    for (int k = 0; k < LMI_N_FIGURES; k++)
        if (w->column[k]) lmi_sheet_column(t, &(lmi_head){lmi_figures[k].title, LMI_RIGHT, 5 + k});
}

static void put_numbers(writer *w, lmi_sheet *t, lmi_figure k, lam_count was, lam_count now) {
    lmi_put_number(t->cell, k, was, w->o->exact);
    lmi_end_cell(t);
    lmi_put_number(t->cell, k, now, w->o->exact);
    lmi_end_cell(t);
    lmi_put_delta(t->cell, k, lmi_delta_of(was, now), w->o->exact);
    lmi_end_cell(t);
    lmi_put_relative(t->cell, was, now);
    lmi_end_cell(t);
}

static void put_others(writer *w, lmi_sheet *t, const lmi_diff_line *l) {
    for (int k = 0; k < LMI_N_FIGURES; k++) {
        if (!w->column[k]) continue;
        lmi_put_delta(t->cell, (lmi_figure)k, lmi_delta_of(l->was[k], l->now[k]), w->o->exact);
        lmi_end_cell(t);
    }
}

static void put_row(writer *w, lmi_sheet *t, const lmi_diff_line *l) {
    lmi_figure by = w->l->by;
    if (by != LMI_N_FIGURES) put_numbers(w, t, by, l->was[by], l->now[by]);
    put_others(w, t, l);
}

/* Writes the lines that are not shown as one row. */
static void put_rest(writer *w, lmi_sheet *t) {
    lmi_diff_line rest = {0};
    int32_t all = (int32_t)w->l->at.n;
    for (int32_t i = w->n; i < all; i++)
        for (int k = 0; k < LMI_N_FIGURES; k++) {
            rest.was[k] = lmi_sum(rest.was[k], line_at(w, i)->was[k]);
            rest.now[k] = lmi_sum(rest.now[k], line_at(w, i)->now[k]);
        }
    lmi_putf(t->cell, "  [%d more]", (int)(all - w->n));
    lmi_end_cell(t);
    lmi_text_cell(t, w->o->command ? "-n 0 shows all" : "");
    put_row(w, t, &rest);
}

static lam_status put_modules(writer *w) {
    lmi_sheet t;
    if (!w->l->at.n) return LAM_OK;
    begin_table(w, &t);
    find_columns(w);
    put_heads(w, &t);
    for (int32_t i = 0; i < w->n; i++) {
        put_module(w, t.cell, line_at(w, i));
        lmi_end_cell(&t);
        put_what(w, t.cell, line_at(w, i));
        lmi_end_cell(&t);
        put_row(w, &t, line_at(w, i));
    }
    if (w->n < (int32_t)w->l->at.n) put_rest(w, &t);
    lam_status s = end_table(w, &t, put_attributes);
    lmi_putc(&w->out, '\n');
    return s;
}

/* -- totals ---------------------------------------------------------------------------------------------- */

static bool is_within_spread(const writer *w, lmi_figure k, lmi_delta d) {
    int64_t a = lmi_diff_whole_spread(&w->d->side[0], k), b = lmi_diff_whole_spread(&w->d->side[1], k);
    return a >= 0 && b >= 0 && d.how == LMI_DELTA_EXACT && lmi_delta_size(d) <= (double)a + (double)b;
}

static void put_columns(lmi_sheet *t) {
    static const char *const heads[] = {"before", "now", "difference", "%"};
    for (int i = 0; i < 4; i++) lmi_sheet_column(t, &(lmi_head){heads[i], LMI_RIGHT, 0});
}

/* Writes the totals; returns true if one differs. */
static bool put_totals(writer *w, lam_status *s) {
    lmi_sheet t;
    bool any = false;
    begin_table(w, &t);
    lmi_sheet_column(&t, &(lmi_head){"total", LMI_LEFT, 0});
    put_columns(&t);
    lmi_sheet_column(&t, &(lmi_head){"", LMI_LEFT, 1});
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        lmi_figure k = (lmi_figure)i;
        if (!w->d->whole[i]) continue;
        lam_count was = lmi_diff_whole(&w->d->side[0], k), now = lmi_diff_whole(&w->d->side[1], k);
        lmi_delta delta = lmi_delta_of(was, now);
        any = any || !lmi_is_same(was, now);
        lmi_text_cell(&t, lmi_figures[i].title);
        put_numbers(w, &t, k, was, now);
        lmi_text_cell(&t, is_within_spread(w, k, delta) && delta.n ? "within the spread of runs" : "");
    }
    *s = end_table(w, &t, NULL);
    return any;
}

/* Writes the mean phases of a step of two recordings. */
static lam_status put_phases(writer *w) {
    const lam_recorded_model *was = lmi_diff_recorded(&w->d->side[0]),
                             *now = lmi_diff_recorded(&w->d->side[1]);
    if (!was || !now || !was->phases.n || !now->phases.n) return LAM_OK;
    lmi_sheet t;
    lmi_putc(&w->out, '\n');
    begin_table(w, &t);
    lmi_sheet_column(&t, &(lmi_head){"phase", LMI_LEFT, 0});
    put_columns(&t);
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) {
        const int64_t a = was->phases.ns[k], b = now->phases.ns[k];
        if (!a && !b) continue;
        lmi_text_cell(&t, lam_step_phase_name((lam_step_phase)k));
        put_numbers(w, &t, LMI_FIGURE_TIME, lmi_count_of(a), lmi_count_of(b));
    }
    lmi_text_cell(&t, "step");
    put_numbers(w, &t, LMI_FIGURE_TIME, lmi_count_of(was->phases.whole_ns),
                lmi_count_of(now->phases.whole_ns));
    return end_table(w, &t, NULL);
}

/* -- around them ----------------------------------------------------------------------------------------- */

static void put_sentence(writer *w, const char *text) {
    if (w->md) lmi_put(&w->out, "- ");
    if (w->md)
        lmi_put_md(&w->out, text);
    else
        lmi_put(&w->out, text);
    lmi_putc(&w->out, '\n');
}

static void put_title(writer *w) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_clean(&b, w->d->side[0].name);
    lmi_put(&b, " -> ");
    lmi_put_clean(&b, w->d->side[1].name);
    if (w->md) {
        lmi_put(&w->out, "### ");
        lmi_put_md(&w->out, lmi_buf_text(&b));
    } else
        lmi_put(&w->out, lmi_buf_text(&b));
    lmi_buf_used(&b, &w->out);
    lmi_put(&w->out, w->md ? "\n\n" : "\n");
}

static void put_counts(writer *w) {
    static const struct {
        lmi_change change;
        const char *word;
    } words[] = {{LMI_ADDED, "added"},
                 {LMI_REMOVED, "removed"},
                 {LMI_CHANGED, "changed"},
                 {LMI_RENAMED, "renamed"}};
    const lam_diff *d = w->d;
    bool any = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int32_t n = d->n[words[i].change];
        if (!n) continue;
        lmi_putf(&w->out, any ? ", %d %s" : n == 1 ? "%d module %s" : "%d modules %s", (int)n, words[i].word);
        any = true;
    }
    int32_t same = d->n[LMI_SAME];
    if (any && same == 0)
        lmi_put(&w->out, "; none is equal.\n");
    else
        lmi_putf(&w->out, "%s%d %s equal.\n", any ? "; " : "", (int)same,
                 any         ? (same == 1 ? "is" : "are")
                 : same == 1 ? "module is"
                             : "modules are");
}

/* Says what the page does not show. */
static void put_left_out(writer *w) {
    if (w->idle)
        lmi_putf(&w->out, "%d of them hold%s modules that changed, and %s differ%s in shapes alone: %s.\n",
                 (int)w->idle, w->idle == 1 ? "s" : "", w->idle == 1 ? "it" : "they", w->idle == 1 ? "s" : "",
                 w->o->command ? "-n 0 lists them" : "rows=0 lists them");
    if (w->lacks.n)
        lmi_putf(&w->out, "not shown: %s (%d columns); %s\n", lmi_buf_text(&w->lacks), (int)w->o->width,
                 w->o->command ? "-w shows all" : "a larger width shows all");
}

/* True if known parts of two lower bounds are compared. */
static bool is_rough(const writer *w) {
    bool rough = false;
    for (int i = 0; i < LMI_N_FIGURES; i++) {
        lmi_figure k = (lmi_figure)i;
        for (int32_t n = 0; n < w->n && w->d->by_place[i]; n++)
            rough =
                rough || lmi_delta_of(line_at(w, n)->was[i], line_at(w, n)->now[i]).how == LMI_DELTA_ROUGHLY;
        if (w->d->whole[i])
            rough = rough ||
                    lmi_delta_of(lmi_diff_whole(&w->d->side[0], k), lmi_diff_whole(&w->d->side[1], k)).how ==
                        LMI_DELTA_ROUGHLY;
    }
    return rough;
}

static void put_nothing(writer *w) {
    int32_t n = w->d->n[LMI_SAME];
    lmi_putf(&w->out, "Nothing differs: %d module%s equal.", (int)n, n == 1 ? " is" : "s are");
    if (is_rough(w)) lmi_put(&w->out, " Of numbers that are lower bounds, the known parts are.");
    lmi_putc(&w->out, '\n');
}

static lam_status write_all(writer *w) {
    lam_status s;
    put_title(w);
    for (int32_t i = 0; i < w->d->n_said; i++) put_sentence(w, w->d->said[i]);
    if (w->md && w->d->n_said) lmi_putc(&w->out, '\n');
    size_t begun = w->out.n;
    if (!w->md) lmi_putc(&w->out, '\n');
    LAM_TRY(put_modules(w));
    bool differs = put_totals(w, &s);
    LAM_TRY(s);
    if (!differs && !w->l->at.n && !w->idle) {
        if (!w->out.bad) w->out.n = begun; /* totals that are all equal say nothing */
        put_nothing(w);
        return LAM_OK;
    }
    LAM_TRY(put_phases(w));
    lmi_putc(&w->out, '\n');
    put_counts(w);
    if (w->md && w->d->explained) lmi_putc(&w->out, '\n');
    if (w->d->explained) put_sentence(w, w->d->explained);
    put_left_out(w);
    if (is_rough(w)) lmi_put(&w->out, w->md ? "\n" : "");
    if (is_rough(w))
        lmi_put(&w->out, "~: both numbers are lower bounds, and their known parts are compared.\n");
    return LAM_OK;
}

/* True for a container that differs in shapes alone, since something in it changed. */
static bool is_idle(writer *w, const lmi_diff_line *l) {
    const lmi_outline_place *was = lmi_diff_outlined(w->d, 0, l->place),
                            *now = lmi_diff_outlined(w->d, 1, l->place);
    if (!was || !now || l->whole || l->moved || l->change != LMI_CHANGED || !now->n_children) return false;
    if (lmi_unlike_types(was, now) || put_attribute(w, was, now, 0)) return false;
    for (int k = 0; k < LMI_N_FIGURES; k++)
        if (w->d->by_place[k] && !lmi_is_same(l->was[k], l->now[k])) return false;
    return true;
}

/* Leaves out the idle containers, unless all lines were asked for. */
static lam_status choose_lines(writer *w, lmi_diff_lines *to, const lmi_diff_lines *all) {
    to->by = all->by;
    for (size_t i = 0; i < all->at.n; i++) {
        const lmi_diff_line *l = lmi_vec_at(&all->at, i);
        if (w->o->rows != 0 && is_idle(w, l))
            w->idle++;
        else
            LAM_TRY(lmi_vec_put(&to->at, l, w->e));
    }
    int32_t rows = w->o->rows < 0 ? DEFAULT_ROWS : w->o->rows;
    w->n = rows > 0 && (size_t)rows < to->at.n ? rows : (int32_t)to->at.n;
    return LAM_OK;
}

lam_status lmi_diff_text(const lam_diff *d, const lmi_diff_lines *l, const lam_diff_options *o, lam_sink to,
                         lam_error *e) {
    lmi_diff_lines chosen;
    writer w = {.d = d, .l = &chosen, .o = o, .e = e, .md = o->format && strcmp(o->format, "md") == 0};
    lmi_vec_init(&chosen.at, sizeof(lmi_diff_line));
    lmi_buf_init(&w.out);
    lmi_buf_init(&w.attr);
    lmi_buf_init(&w.lacks);
    lam_status s = choose_lines(&w, &chosen, l);
    if (s == LAM_OK) s = write_all(&w);
    if (s == LAM_OK) s = lmi_buf_status(&w.attr, e);
    if (s == LAM_OK) s = lmi_buf_status(&w.lacks, e);
    if (s == LAM_OK) s = lmi_buf_flush(&w.out, to, e);
    lmi_buf_free(&w.lacks);
    lmi_buf_free(&w.attr);
    lmi_buf_free(&w.out);
    lmi_vec_free(&chosen.at);
    return s;
}
