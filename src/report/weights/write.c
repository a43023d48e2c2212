/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference of weights as text, as narrow as the terminal, and as Markdown. */
#include "report/table/report.h"
#include "report/weights/weights.h"

enum { DEFAULT_ROWS = 20, MOST_SAID = 10, NAME = 34, LEAST_NAME = 16, CHANGED = 36 };

typedef struct writer {
    const lam_weights_diff *d;
    const lmi_weights_lines *l;
    const lam_diff_options *o;
    bool md;
    int32_t n; /* lines shown */
    lmi_buf out, lacks;
    lam_error *e;
} writer;

/* -- numbers --------------------------------------------------------------------------------------------- */

/* Three digits, or nine. */
static void put_number(const writer *w, lmi_buf *b, double v) {
    if (w->o->exact) {
        lmi_put_nine(b, v);
    } else if (v >= 999.5 && v < 1e15) {
        lmi_put_scaled(b, LMI_COUNTS, v, &lmi_plain);
    } else if (v >= 1 && v < 999.5) {
        lmi_put_digits(b, v);
    } else {
        const size_t from = b->n;
        lmi_putf(b, "%.3g", v);
        for (size_t i = from; i < b->n && !b->bad; i++)
            if (b->s[i] == ',') b->s[i] = '.'; /* independent of the host's locale */
    }
}

/* A value before that is 0 is no whole to take a share of. */
static void put_share(const writer *w, lmi_buf *b, double v) {
    if (v - v != 0) {
        lmi_put(b, "from 0");
        return;
    }
    put_number(w, b, 100 * v);
    lmi_put(b, " %");
}

static bool is_share(lmi_weights_by by) { return by == LMI_WEIGHTS_RELATIVE || by == LMI_WEIGHTS_DIFFER; }

static void put_metric(const writer *w, lmi_buf *b, const lmi_weights_line *l, lmi_weights_by by) {
    const double v = lmi_weights_value(&l->sum, by);
    if (v < 0)
        lmi_put(b, l->n[LAM_WEIGHTS_CHANGED] || l->n[LAM_WEIGHTS_UNKNOWN] ? "?" : "");
    else if (is_share(by))
        put_share(w, b, v);
    else
        put_number(w, b, v);
}

/* -- lines ----------------------------------------------------------------------------------------------- */

static const char *const words[LAM_N_WEIGHTS_CHANGES] = {"equal",   "changed", "added",
                                                         "removed", "renamed", "not compared"};

static int32_t not_equal(const lmi_weights_line *l) {
    int32_t n = 0;
    for (int i = LAM_WEIGHTS_CHANGED; i < LAM_N_WEIGHTS_CHANGES; i++) n += l->n[i];
    return n;
}

/* What all tensors of a line became; LAM_WEIGHTS_CHANGED if that differs. */
static lam_weights_change change_of(const lmi_weights_line *l) {
    for (int i = LAM_WEIGHTS_CHANGED; i < LAM_N_WEIGHTS_CHANGES; i++)
        if (l->n[i] == not_equal(l)) return (lam_weights_change)i;
    return LAM_WEIGHTS_CHANGED;
}

static void put_path(lmi_buf *b, const lmi_weights_line *l) {
    static const char sign[] = " ~+->?";
    lmi_putf(b, "%c ", sign[change_of(l)]);
    lmi_put_clean(b, *l->path ? l->path : "(the model)");
}

static void put_tensor(lmi_buf *b, const lam_tensor_change *c, int side) {
    lmi_put_shape(b, (lam_shape){.ndim = c->ndim[side], .sizes = c->sizes[side]});
    lmi_putc(b, ' ');
    lmi_put_clean(b, c->type[side]);
}

static bool same_shape(const lam_tensor_change *c) {
    if (c->ndim[0] != c->ndim[1]) return false;
    for (int32_t i = 0; i < c->ndim[0]; i++)
        if (c->sizes[0][i] != c->sizes[1][i]) return false;
    return true;
}

/* "weight", "weight float32 -> q8_0", "weight 4x2 -> 8x2" */
static void put_one(lmi_buf *b, const lam_tensor_change *c, const char *path) {
    const char *name = c->name ? c->name : c->was;
    const size_t n = strlen(path);
    lmi_put_clean(b, strncmp(name, path, n) == 0 && name[n] == '.' ? name + n + 1 : name);
    if (c->change == LAM_WEIGHTS_ADDED || c->change == LAM_WEIGHTS_REMOVED) {
        lmi_putc(b, ' ');
        put_tensor(b, c, c->change == LAM_WEIGHTS_ADDED);
        return;
    }
    if (c->was && strcmp(c->was, name) != 0) {
        lmi_put(b, " was ");
        lmi_put_clean(b, c->was);
    }
    if (!same_shape(c)) {
        lmi_putc(b, ' ');
        put_tensor(b, c, 0);
        lmi_put(b, " -> ");
        put_tensor(b, c, 1);
    } else if (strcmp(c->type[0], c->type[1]) != 0) {
        lmi_putc(b, ' ');
        lmi_put_clean(b, c->type[0]);
        lmi_put(b, " -> ");
        lmi_put_clean(b, c->type[1]);
    }
}

static void put_what(const writer *w, lmi_buf *b, const lmi_weights_line *l) {
    const lam_tensor_change *first = lam_weights_tensor(w->d, l->first);
    const char *between = "";
    if (not_equal(l) == 1) {
        put_one(b, first, l->path);
        return;
    }
    for (int i = LAM_WEIGHTS_CHANGED; i < LAM_N_WEIGHTS_CHANGES; i++) {
        if (!l->n[i]) continue;
        lmi_putf(b, "%s%d %s", between, (int)l->n[i], words[i]);
        between = ", ";
    }
    if (l->type[0] && strcmp(l->type[0], l->type[1]) != 0) {
        lmi_putf(b, ": %s -> ", l->type[0]);
        lmi_put_clean(b, l->type[1]);
    }
}

static lam_status put_lines(writer *w) {
    static const char *const heads[] = {"relative", "norm", "largest", "differ"};
    const int32_t *n = w->l->all.n; /* what was added, removed or renamed has no numbers */
    const int metrics = n[LAM_WEIGHTS_CHANGED] || n[LAM_WEIGHTS_UNKNOWN] ? LMI_WEIGHTS_ELEMENTS : 0;
    lmi_sheet t;
    lmi_sheet_start(&t, &w->out, w->md || w->o->width <= 0 ? 0 : (size_t)w->o->width, w->o->ascii, w->e);
    t.cap = w->md || w->o->width <= 0 ? 0 : CHANGED;
    lmi_sheet_column(&t, &(lmi_head){"module", LMI_LEFT, 0});
    lmi_sheet_column(&t, &(lmi_head){"tensors", LMI_LEFT, 3});
    for (int i = 0; i < metrics; i++)
        lmi_sheet_column(&t, &(lmi_head){heads[i], LMI_RIGHT, i == 0 ? 0 : i == 3 ? 1 : 2});
    for (int32_t i = 0; i < w->n; i++) {
        const lmi_weights_line *l = lmi_vec_at(&w->l->at, (size_t)i);
        put_path(t.cell, l);
        lmi_end_cell(&t);
        put_what(w, t.cell, l);
        lmi_end_cell(&t);
        for (int by = 0; by < metrics; by++) {
            put_metric(w, t.cell, l, (lmi_weights_by)by);
            lmi_end_cell(&t);
        }
    }
    if (w->md) {
        lmi_sheet_md(&t);
    } else {
        lmi_sheet_write(&t, NAME, LEAST_NAME);
        if (t.s == LAM_OK && !t.cell->bad) lmi_sheet_left_out(&t, &w->lacks);
    }
    return lmi_sheet_free(&t);
}

/* -- the page -------------------------------------------------------------------------------------------- */

static void put_sentence(writer *w, const char *text) {
    lmi_flow f;
    if (w->md) {
        lmi_put(&w->out, "- ");
        lmi_put_md(&w->out, text);
        lmi_putc(&w->out, '\n');
        return;
    }
    lmi_flow_start(&f, &w->out, w->o->width > 0 ? (size_t)w->o->width : 0, 0);
    lmi_flow_label(&f, NULL, "", 0);
    lmi_flow_words(&f, NULL, text);
    lmi_flow_end(&f);
}

static void put_title(writer *w) {
    lmi_buf b;
    lmi_buf_init(&b);
    for (int i = 0; i < 2; i++) {
        lmi_put(&b, i ? " -> " : "");
        lmi_put_clean(&b, w->d->name[i]);
    }
    if (w->md) lmi_put(&w->out, "### ");
    (w->md ? lmi_put_md : lmi_put)(&w->out, lmi_buf_text(&b));
    lmi_put(&w->out, w->md ? "\n\n" : "\n");
    lmi_buf_used(&b, &w->out);
}

/* "3 tensors changed, 1 added; 10 are equal." */
static void put_counts(writer *w, lmi_buf *b) {
    const lmi_weights_line *all = &w->l->all;
    const int32_t same = all->n[LAM_WEIGHTS_EQUAL];
    bool any = false;
    for (int i = LAM_WEIGHTS_CHANGED; i < LAM_N_WEIGHTS_CHANGES; i++) {
        const int32_t n = all->n[i];
        if (!n) continue;
        lmi_putf(b, any ? ", %d %s" : n == 1 ? "%d tensor %s" : "%d tensors %s", (int)n, words[i]);
        any = true;
    }
    if (!any)
        lmi_putf(b, "Nothing differs: %d tensor%s equal.", (int)same, same == 1 ? " is" : "s are");
    else if (same == 0)
        lmi_put(b, "; none is equal.");
    else
        lmi_putf(b, "; %d %s equal.", (int)same, same == 1 ? "is" : "are");
}

static void put_sums(writer *w, lmi_buf *b) {
    const lam_tensor_change *sum = &w->l->all.sum;
    if (!sum->compared) return;
    if (sum->differ == 0) {
        lmi_put(b, " No value of those that changed differs.");
        return;
    }
    lmi_put(b, " In those that changed ");
    put_share(w, b, lmi_weights_value(sum, LMI_WEIGHTS_DIFFER));
    lmi_put(b, " of ");
    lmi_put_count(b, lmi_exact(sum->elements), w->o->exact);
    lmi_put(b, " elements differ, by a norm of ");
    put_number(w, b, lmi_weights_value(sum, LMI_WEIGHTS_NORM));
    if (sum->before > 0) {
        lmi_put(b, " or ");
        put_share(w, b, lmi_weights_value(sum, LMI_WEIGHTS_RELATIVE));
    }
    lmi_put(b, ", and by at most ");
    put_number(w, b, sum->largest);
    lmi_putc(b, '.');
}

/* A tensor that is not compared, or that has NaN or Inf; false: neither. */
static bool put_said(lmi_buf *b, const lam_tensor_change *c) {
    const bool bad = c->compared && (c->nonfinite[0] || c->nonfinite[1]);
    if (!c->why && !bad) return false;
    lmi_put_clean(b, c->name ? c->name : c->was);
    if (bad)
        lmi_putf(b, ": %lld NaN or Inf, before %lld; norms leave them out", (long long)c->nonfinite[1],
                 (long long)c->nonfinite[0]);
    else
        lmi_putf(b, ": %s", c->why);
    return true;
}

static void put_remarks(writer *w) {
    const lam_tensor_change *c;
    int32_t n = 0;
    lmi_buf b;
    lmi_buf_init(&b);
    for (size_t i = 0; i < w->d->notes.n; i++) put_sentence(w, *(const char **)lmi_vec_at(&w->d->notes, i));
    for (int32_t i = 0; (c = lam_weights_tensor(w->d, i)); i++) {
        lmi_buf_clear(&b);
        if (c->why && c->change == LAM_WEIGHTS_CHANGED && !same_shape(c)) continue; /* its line says so */
        if (!put_said(&b, c) || (n++ >= MOST_SAID && w->o->rows != 0)) continue;
        put_sentence(w, lmi_buf_text(&b));
    }
    if (n > MOST_SAID && w->o->rows != 0) {
        lmi_buf_clear(&b);
        lmi_putf(&b, "%d more tensors are not compared, or have NaN or Inf; %s", (int)(n - MOST_SAID),
                 w->o->command ? "-n 0 lists them" : "rows=0 lists them");
        put_sentence(w, lmi_buf_text(&b));
    }
    lmi_buf_used(&b, &w->out);
}

static void put_left_out(writer *w) {
    const int32_t more = (int32_t)w->l->at.n - w->n;
    if (more)
        lmi_putf(&w->out, "%d more modules; %s\n", (int)more,
                 w->o->command ? "-n 0 shows all" : "rows=0 shows all");
    if (w->lacks.n)
        lmi_putf(&w->out, "not shown: %s (%d columns); %s\n", lmi_buf_text(&w->lacks), (int)w->o->width,
                 w->o->command ? "-w shows all" : "a larger width shows all");
}

static lam_status write_all(writer *w) {
    lmi_buf b;
    put_title(w);
    if (!w->md) lmi_putc(&w->out, '\n');
    if (w->n) {
        LAM_TRY(put_lines(w));
        put_left_out(w);
        lmi_putc(&w->out, '\n');
    }
    lmi_buf_init(&b);
    put_counts(w, &b);
    put_sums(w, &b);
    put_sentence(w, lmi_buf_text(&b));
    lmi_buf_used(&b, &w->out);
    put_remarks(w);
    return LAM_OK;
}

lam_status lmi_weights_text(const lam_weights_diff *d, const lmi_weights_lines *l, const lam_diff_options *o,
                            lam_sink to, lam_error *e) {
    writer w = {.d = d, .l = l, .o = o, .e = e, .md = o->format && strcmp(o->format, "md") == 0};
    const int32_t rows = o->rows < 0 ? DEFAULT_ROWS : o->rows;
    w.n = rows > 0 && (size_t)rows < l->at.n ? rows : (int32_t)l->at.n;
    lmi_buf_init(&w.out);
    lmi_buf_init(&w.lacks);
    lam_status s = write_all(&w);
    if (s == LAM_OK) s = lmi_buf_status(&w.lacks, e);
    if (s == LAM_OK) s = lmi_buf_flush(&w.out, to, e);
    lmi_buf_free(&w.lacks);
    lmi_buf_free(&w.out);
    return s;
}
