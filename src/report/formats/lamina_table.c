/* SPDX-License-Identifier: Apache-2.0
 *
 * Lamina's table as text, never wider than the page. Columns are left out before names are cut; names are cut
 * in the middle. */
#include "report/formats/formats.h"
#include "report/formats/rows.h"

enum { NARROWEST = 8, WIDEST = 1000, OUTPUT_CAP = 30, DEFAULT_WIDTH = 100, STEP = 3 };

typedef struct page {
    lmi_job *j;
    lmi_rows *t;
    lmi_columns columns; /* the first is the name */
    lmi_sheet sheet;     /* one row for each of `t` */
    size_t width;
    bool more; /* a call returns more tensors than the one that is shown */
} page;

void lmi_own_columns(const lmi_job *j, lmi_columns *out) {
    const char *share_of = lmi_figures[lmi_sorted_by(j, j->o->by)].column;
    lmi_columns all;
    lmi_columns_of(j, &all);
    out->n = 0;
    for (int32_t i = 0; i < all.n; i++) {
        out->at[out->n++] = all.at[i];
        if (strcmp(all.at[i]->id, share_of) == 0) out->at[out->n++] = lmi_column_find("own_share");
    }
}

/* -- names --------------------------------------------------------------------------------------------- */

/* Writes the branch before a name, at most `room` columns wide; if it is deeper, the depth as a number. */
static void put_branch(const page *p, int32_t row, size_t room, lmi_buf *out) {
    const char *const utf8[] = {"\u251c\u2500 ", "\u2514\u2500 ", "\u2502  ", "   "};
    const char *const ascii[] = {"|- ", "`- ", "|  ", "   "};
    const char *const *glyph = p->j->o->ascii ? ascii : utf8;
    const lmi_row *at = p->t->at;
    bool last[WIDEST / STEP + 1] = {false};
    int32_t depth = at[row].depth;
    if (p->t->flat) return;
    if ((size_t)depth > room / STEP || depth > WIDEST / STEP) {
        lmi_putf(out, "[%d] ", (int)depth);
        return;
    }
    for (int32_t i = row; at[i].parent >= 0; i = at[i].parent) last[at[i].depth] = at[i].last;
    for (int32_t k = 1; k < depth; k++) lmi_put(out, glyph[last[k] ? 3 : 2]);
    if (depth > 0) lmi_put(out, glyph[last[depth] ? 1 : 0]);
}

/* Paints a name into the first column; `*used` is the number of columns that it takes. Marks are shortened
 * before the label. The parts are in `b`, each ended by a NUL. */
static lam_status put_name(page *p, int32_t row, size_t *used, lmi_buf *b) {
    enum { BRANCH, WHOLE, MARKS, BRIEF, LABEL, N_PARTS };
    const size_t width = p->sheet.widths[0];
    size_t at[N_PARTS] = {0}, wide[N_PARTS];
    lmi_line line;
    lmi_rows_line(p->t, row, &line);
    lmi_buf_clear(b);
    for (int k = BRANCH; k < LABEL; k++) {
        if (k == BRANCH) put_branch(p, row, width / 2, b);
        if (k == WHOLE) lmi_rows_label(p->t, row, SIZE_MAX, p->j->o->ascii, b);
        if (k == MARKS || k == BRIEF) lmi_rows_marks(p->t, &line, k == BRIEF, b);
        LAM_TRY(lmi_buf_status(b, p->j->e));
        wide[k] = lmi_width(b->s + at[k]);
        lmi_putc(b, '\0');
        at[k + 1] = b->n;
    }
    size_t branch = lmi_fit(b->s, width), room = wide[BRANCH] < width ? width - wide[BRANCH] : 0;
    size_t least = wide[WHOLE] < NARROWEST ? wide[WHOLE] : NARROWEST;
    int marks = wide[WHOLE] + wide[MARKS] > room ? BRIEF : MARKS;
    size_t of_marks = wide[marks] + least > room ? 0 : wide[marks];
    const int cut = wide[WHOLE] <= room - of_marks ? WHOLE : LABEL;
    if (cut == LABEL) lmi_rows_label(p->t, row, room - of_marks, p->j->o->ascii, b);
    LAM_TRY(lmi_buf_status(b, p->j->e));
    const char *label = b->s + at[cut], *mark = of_marks ? b->s + at[marks] : "";
    const bool never = !line.own && line.never_called;
    const char *style = never ? LMI_DIM : lmi_rows_holds(p->t, row) ? LMI_BOLD : NULL;
    lmi_paint(p->j, LMI_DIM, b->s, branch);
    lmi_paint(p->j, style, label, strlen(label));
    lmi_paint(p->j, never ? LMI_WARN : LMI_DIM, mark, strlen(mark));
    *used = (room ? wide[BRANCH] : branch) + lmi_width(label) + of_marks;
    return LAM_OK;
}

/* -- columns ------------------------------------------------------------------------------------------- */

static bool any_each(const page *p) {
    for (int32_t i = 0; i < p->t->n; i++)
        if (lmi_rows_each(p->t, i)) return true;
    return false;
}

/* Bars are behind the share and its column, which is before it. */
static void set_bars(page *p) {
    for (int32_t k = 2; p->j->o->bars && k < p->columns.n; k++)
        if (p->columns.at[k]->cell == lmi_cell_share) lmi_sheet_bars(&p->sheet, k - 1, k);
}

/* Columns that no option asked for are left out first, and those that only go with others. */
static bool is_minor(const lmi_column *c) {
    static const char *const ids[] = {"name",      "output",    "own_params", "own_macs",
                                      "own_flops", "own_share", "own_dmas",   "own_bwd_flops"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (strcmp(ids[i], c->id) == 0) return true;
    return false;
}

static int rank_in(const lmi_column *c, bool asked) {
    enum { FIRST = 100 };
    return c->rank && !asked ? c->rank + FIRST : c->rank;
}

/* A share is left out before its column, which an option may have named. */
static int rank_of(const page *p, const lmi_column *c) {
    const char *by = p->j->o->by;
    const lmi_column *of = lmi_column_find(lmi_figures[lmi_sorted_by(p->j, by)].column);
    const int whole = rank_in(of, by || !is_minor(of));
    if (c == of) return whole;
    if (c->cell != lmi_cell_share) return rank_in(c, !is_minor(c));
    const int share = rank_in(c, by != NULL);
    return share > whole ? share : whole + 1;
}

static void fill(page *p) {
    lmi_sheet *t = &p->sheet;
    const bool each = any_each(p);
    for (int32_t k = 0; k < p->columns.n; k++) {
        const lmi_column *c = p->columns.at[k];
        lmi_sheet_column(t, &(lmi_head){c->title, c->align, rank_of(p, c)});
    }
    if (each) lmi_sheet_column(t, &(lmi_head){"", LMI_LEFT, 1});
    if (each) t->dim = p->columns.n;
    set_bars(p);
    for (int32_t i = 0; i < p->t->n; i++) {
        lmi_line l;
        lmi_rows_line(p->t, i, &l);
        p->more = p->more || (l.event && !l.own && l.event->n_out > 1);
        put_branch(p, i, p->width / 2, t->cell);
        lmi_rows_label(p->t, i, SIZE_MAX, p->j->o->ascii, t->cell);
        lmi_rows_marks(p->t, &l, false, t->cell);
        lmi_end_cell(t);
        for (int32_t k = 1; k < p->columns.n; k++) {
            p->columns.at[k]->cell(&l, t->cell);
            lmi_end_cell(t);
        }
        if (each) lmi_text_cell(t, lmi_rows_each(p->t, i) ? "each" : "");
        if (t->bar_last) lmi_sheet_share(t, lmi_share(&l));
    }
}

static lam_status put_table(page *p) {
    lmi_buf name;
    size_t share = p->width * 2 / 5;
    lam_status s = LAM_OK;
    int32_t row = 0;
    lmi_buf_init(&name);
    fill(p);
    lmi_sheet_fit(&p->sheet, share > NARROWEST ? share : NARROWEST, 0);
    if (p->sheet.widths[0]) lmi_sheet_row(&p->sheet, row++, 0, 0);
    for (int32_t i = 0; row && s == LAM_OK && i < p->t->n; i++) {
        size_t used = 0;
        s = put_name(p, i, &used, &name);
        if (s == LAM_OK) lmi_sheet_row(&p->sheet, row++, 1, p->sheet.widths[0] - used);
        if (s == LAM_OK) s = lmi_job_flush(p->j);
    }
    lmi_buf_free(&name);
    return s;
}

typedef struct talk {
    lmi_flow f;
    const char *between; /* two items of a line */
    bool head;           /* the first label is a title */
} talk;

static void say(void *to, const char *style, const char *label, const char *text) {
    talk *t = to;
    if (label) lmi_flow_label(&t->f, t->head ? style : LMI_DIM, label, t->head ? 4 : 0);
    t->head = false;
    if (*text) lmi_flow_item(&t->f, style, text, t->between);
}

/* Explains "1x64 +2" if the table has it. */
static lam_status tell_outputs(page *p, talk *to) {
    lmi_items s;
    if (!p->more || p->columns.n < 2 || !p->sheet.widths[1]) return LAM_OK;
    lmi_items_begin(&s, p->j, say, to);
    lmi_put(&s.text, "+1: another tensor beside the one that is shown");
    lmi_items_send(&s, LMI_DIM, "output");
    return lmi_items_end(&s);
}

/* Names the columns that the page had no room for. */
static lam_status tell_not_shown(page *p, talk *to) {
    lmi_items s;
    lmi_items_begin(&s, p->j, say, to);
    int32_t n = lmi_sheet_left_out(&p->sheet, &s.text);
    if (n) {
        lmi_putf(&s.text, " (%d columns): %s", (int)p->width,
                 p->j->o->command ? "-w shows all" : "a larger width shows all");
        lmi_items_send(&s, LMI_DIM, "not shown");
    }
    if (p->t->left_out) {
        lmi_putf(&s.text, "%d smaller line%s", (int)p->t->left_out, p->t->left_out == 1 ? "" : "s");
        lmi_items_send(&s, LMI_DIM, n ? "" : "not shown");
    }
    return lmi_items_end(&s);
}

/* The path of the call with the most MACs of its own; "." if there is none. */
static const char *largest(const lmi_job *j) {
    const char *path = ".";
    lam_count most = {0, 0, LAM_EXACT};
    for (int32_t i = 0; i < lam_costs_n_rows(j->c); i++) {
        const lam_cost_row *r = &j->c->rows[i];
        lam_count n = r->metric[LAM_MACS];
        if (r->event < 0 || !r->counted || lmi_count_double(n) <= lmi_count_double(most)) continue;
        const lam_place *p = lam_model_place(j->m, r->place);
        if (!*p->path) continue;
        most = n;
        path = p->path;
    }
    return path;
}

/* Suggests commands to run next: of a file, which is not run, the one that explains a number. */
static lam_status tell_next(page *p, talk *to) {
    const lam_report_options *o = p->j->o;
    const bool is_file = p->j->m->of_file;
    lmi_items s;
    if (!o->next) return LAM_OK;
    const char *path = largest(p->j);
    if (is_file && strcmp(path, ".") == 0) return LAM_OK;
    lmi_items_begin(&s, p->j, say, to);
    lmi_putf(&s.text, "lamina why %s ", o->next);
    lmi_put_clean(&s.text, path);
    lmi_items_send(&s, LMI_DIM, "next");
    if (is_file) return lmi_items_end(&s);
    lmi_putf(&s.text, "lamina compare %s", o->next);
    lmi_items_send(&s, LMI_DIM, NULL);
    if (!o->memory) lmi_put(&s.text, "--memory ");
    if (!o->time) lmi_put(&s.text, "--time ");
    if (!lmi_has_phase(p->j->c, LAM_BACKWARD)) lmi_put(&s.text, "--backward");
    if (s.text.n) lmi_items_send(&s, LMI_DIM, NULL);
    return lmi_items_end(&s);
}

static lam_status put_page(page *p) {
    enum { LABEL = 11 }; /* columns of the labels, "incomplete" and a space */
    talk t = {.head = true, .between = p->j->o->ascii ? " - " : " \u00b7 "};
    lmi_flow_start(&t.f, &p->j->out, p->width, p->width > 4 * LABEL ? LABEL : p->width > 20 ? 2 : 0);
    t.f.color = p->j->o->color;
    LAM_TRY(lmi_head_items(p->j, say, &t));
    lmi_flow_end(&t.f);
    lmi_putc(&p->j->out, '\n');
    LAM_TRY(put_table(p));
    lmi_putc(&p->j->out, '\n');
    LAM_TRY(lmi_foot_items(p->j, say, &t));
    LAM_TRY(tell_outputs(p, &t));
    LAM_TRY(tell_not_shown(p, &t));
    LAM_TRY(tell_next(p, &t));
    lmi_flow_end(&t.f);
    return LAM_OK;
}

lam_status lmi_text_own(lmi_job *j) {
    lmi_rows t;
    page p = {.j = j, .t = &t, .width = j->o->width == 0 ? DEFAULT_WIDTH : (size_t)j->o->width};
    if (p.width < NARROWEST) p.width = NARROWEST;
    if (p.width > WIDEST) p.width = WIDEST;
    lmi_own_columns(j, &p.columns);
    lmi_sheet_start(&p.sheet, &j->out, p.width, j->o->ascii, j->e);
    p.sheet.cap = OUTPUT_CAP;
    p.sheet.color = j->o->color;
    lam_status s = lmi_rows_new(&t, j);
    if (s == LAM_OK) s = put_page(&p);
    lam_status cells = lmi_sheet_free(&p.sheet);
    lmi_rows_free(&t);
    return s == LAM_OK ? cells : s;
}
