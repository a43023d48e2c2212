/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own table: never wider than asked. Columns are dropped before names are cut; names are cut in the
 * middle. */
#include "report/table/report.h"

static const char EACH[] = "each";

enum { GAP = 2, NARROWEST = 8, WIDEST = 1000, OUTPUT_CAP = 30, DEFAULT_WIDTH = 100, STEP = 3 };

typedef struct page {
    lmi_job *j;
    lmi_nodes *t;
    lmi_columns columns; /* the first is the name */
    lmi_grid grid;       /* the other cells, one row a node shown */
    size_t widths[LMI_COLUMNS_MAX], width;
    size_t each; /* columns of " each" after the last cell, 0 where no line stands for several */
    bool shown[LMI_COLUMNS_MAX];
} page;

void lmi_own_columns(const lmi_job *j, lmi_columns *out) {
    const char *share_of = lmi_figure_find(j, j->o->by)->column;
    lmi_columns all;
    lmi_columns_parse(LMI_OWN_COLUMNS, &all);
    out->n = 0;
    for (int32_t i = 0; i < all.n; i++) {
        if (!all.at[i]->when(j)) continue;
        out->at[out->n++] = all.at[i];
        if (strcmp(all.at[i]->id, share_of) == 0) lmi_columns_append("own_share", out);
    }
}

/* -- names --------------------------------------------------------------------------------------------- */

/* The branch in front of a name, at most `room` columns wide; deeper than that, the depth as a number. */
static void put_branch(const page *p, int32_t node, size_t room, lmi_buf *out) {
    const char *const utf8[] = {"\u251c\u2500 ", "\u2514\u2500 ", "\u2502  ", "   "};
    const char *const ascii[] = {"|- ", "`- ", "|  ", "   "};
    const char *const *glyph = p->j->o->ascii ? ascii : utf8;
    bool last[WIDEST / STEP + 1];
    if (p->t->flat) return;
    int32_t depth = 0, at_depth = p->t->at[node].line.depth;
    if ((size_t)at_depth > room / STEP || at_depth > WIDEST / STEP) {
        lmi_putf(out, "[%d] ", (int)at_depth);
        return;
    }
    for (int32_t i = node; p->t->at[i].parent >= 0; i = p->t->at[i].parent)
        last[depth++] = lmi_nodes_sibling(p->t, i) < 0;
    for (int32_t k = depth - 1; k > 0; k--) lmi_put(out, glyph[last[k] ? 3 : 2]);
    if (depth > 0) lmi_put(out, glyph[last[0] ? 1 : 0]);
}

typedef struct name_parts {
    lmi_buf branch, label, marks, brief;
} name_parts;

static void name_init(name_parts *n) {
    lmi_buf_init(&n->branch);
    lmi_buf_init(&n->label);
    lmi_buf_init(&n->marks);
    lmi_buf_init(&n->brief);
}

static void name_free(name_parts *n) {
    lmi_buf_free(&n->branch);
    lmi_buf_free(&n->label);
    lmi_buf_free(&n->marks);
    lmi_buf_free(&n->brief);
}

static lam_status name_fill(const page *p, int32_t node, size_t room, name_parts *n) {
    lmi_buf *parts[] = {&n->branch, &n->label, &n->marks, &n->brief};
    for (size_t i = 0; i < 4; i++) {
        parts[i]->n = 0;
        lmi_putn(parts[i], "", 0);
    }
    put_branch(p, node, room / 2, &n->branch);
    lmi_nodes_label(p->t, node, SIZE_MAX, p->j->o->ascii, &n->label);
    lmi_nodes_marks(p->t, node, false, &n->marks);
    lmi_nodes_marks(p->t, node, true, &n->brief);
    for (size_t i = 0; i < 4; i++) LAM_TRY(lmi_buf_status(parts[i], p->j->e));
    return LAM_OK;
}

/* Paints the parts into `width` columns and returns how many were used. Marks are shortened before the
 * label. */
static lam_status put_name(page *p, int32_t node, size_t width, name_parts *n, lmi_buf *label, size_t *used) {
    LAM_TRY(name_fill(p, node, width, n));
    size_t branch = lmi_fit(n->branch.s, width);
    size_t room = width - lmi_width(n->branch.s) * (n->branch.s[branch] == '\0');
    if (n->branch.s[branch] != '\0') room = 0;
    const lmi_line *l = &p->t->at[node].line;
    size_t want = lmi_width(n->label.s);
    const char *marks = n->marks.s;
    if (want + lmi_width(marks) > room) marks = n->brief.s;
    if (lmi_width(marks) + (want < NARROWEST ? want : NARROWEST) > room) marks = "";
    label->n = 0;
    lmi_putn(label, "", 0);
    lmi_nodes_label(p->t, node, room - lmi_width(marks), p->j->o->ascii, label);
    LAM_TRY(lmi_buf_status(label, p->j->e));
    lmi_paint(p->j, LMI_DIM, n->branch.s, branch);
    lmi_paint(p->j,
              l->never_called                   ? LMI_DIM
              : p->t->at[node].first_child >= 0 ? LMI_BOLD
                                                : NULL,
              label->s, label->n);
    lmi_paint(p->j, l->never_called ? LMI_WARN : LMI_DIM, marks, strlen(marks));
    *used = (room ? lmi_width(n->branch.s) : lmi_fit(n->branch.s, width)) + lmi_width(label->s) +
            lmi_width(marks);
    return LAM_OK;
}

static lam_status widest_name(const page *p, size_t *out) {
    name_parts n;
    lam_status s = LAM_OK;
    name_init(&n);
    *out = lmi_width(p->columns.at[0]->title);
    for (int32_t i = p->t->first; i >= 0 && s == LAM_OK; i = lmi_nodes_next(p->t, p->j, i)) {
        s = name_fill(p, i, p->width, &n);
        if (s != LAM_OK) break;
        size_t w = lmi_width(n.branch.s) + lmi_width(n.label.s) + lmi_width(n.marks.s);
        if (w > *out) *out = w;
    }
    name_free(&n);
    return s;
}

/* -- columns ------------------------------------------------------------------------------------------- */

static lam_status fill_grid(page *p) {
    for (int32_t i = p->t->first; i >= 0; i = lmi_nodes_next(p->t, p->j, i)) {
        lmi_line l;
        lmi_nodes_line(p->t, i, &l);
        if (lmi_nodes_each(p->t, i)) p->each = GAP + strlen(EACH);
        for (int32_t k = 1; k < p->columns.n; k++)
            LAM_TRY(lmi_grid_put(&p->grid, p->columns.at[k], &l, NULL, p->j->e));
    }
    return LAM_OK;
}

static size_t taken(const page *p) {
    size_t n = p->each;
    for (int32_t k = 1; k < p->columns.n; k++) n += p->shown[k] ? p->widths[k] + GAP : 0;
    return n;
}

/* Columns go, the greatest rank first, until the name has a fair share of the page. */
static lam_status choose(page *p) {
    size_t name;
    LAM_TRY(widest_name(p, &name));
    size_t fair = p->width * 2 / 5 > NARROWEST ? p->width * 2 / 5 : NARROWEST;
    if (fair > name) fair = name;
    for (int32_t k = 1; k < p->columns.n; k++) {
        size_t title = lmi_width(p->columns.at[k]->title), w = lmi_grid_width(&p->grid, k - 1, lmi_width);
        w = w > title ? w : title;
        p->widths[k] = p->columns.at[k]->align == LMI_LEFT && w > OUTPUT_CAP ? OUTPUT_CAP : w;
        p->shown[k] = true;
    }
    while (fair + taken(p) > p->width) {
        int32_t worst = -1;
        for (int32_t k = 1; k < p->columns.n; k++)
            if (p->shown[k] && (worst < 0 || p->columns.at[k]->rank > p->columns.at[worst]->rank)) worst = k;
        if (worst < 0) break;
        p->shown[worst] = false;
    }
    if (fair + p->each > p->width) p->each = 0;
    size_t room = p->width - taken(p);
    p->widths[0] = name < room ? name : room;
    return LAM_OK;
}

static const char *style_of(const char *cell) {
    return *cell == '?' || *cell == '>' ? LMI_WARN : *cell == '-' ? LMI_DIM : NULL;
}

/* One cell after the name; `style` NULL: by its text. Spaces stay outside the colours. */
static lam_status put_cell(page *p, int32_t k, const char *text, const char *style, size_t *owed,
                           lmi_buf *scratch) {
    scratch->n = 0;
    lmi_putn(scratch, "", 0);
    lmi_put_middle(scratch, text, p->widths[k], p->j->o->ascii);
    LAM_TRY(lmi_buf_status(scratch, p->j->e));
    size_t w = lmi_width(scratch->s), pad = p->widths[k] - w;
    bool right = p->columns.at[k]->align == LMI_RIGHT;
    *owed += GAP + (right ? pad : 0);
    if (w > 0) {
        lmi_pad(&p->j->out, ' ', *owed);
        lmi_paint(p->j, style ? style : style_of(scratch->s), scratch->s, scratch->n);
        *owed = 0;
    } else {
        *owed += w;
    }
    *owed += right ? 0 : pad;
    return LAM_OK;
}

static lam_status put_titles(page *p, lmi_buf *scratch) {
    const char *title = p->columns.at[0]->title;
    size_t fits = lmi_fit(title, p->widths[0]), owed = p->widths[0] - fits;
    lmi_paint(p->j, LMI_BOLD, title, fits);
    for (int32_t k = 1; k < p->columns.n; k++)
        if (p->shown[k]) LAM_TRY(put_cell(p, k, p->columns.at[k]->title, LMI_BOLD, &owed, scratch));
    lmi_putc(&p->j->out, '\n');
    return LAM_OK;
}

/* Spaces are owed until something follows them, so that no line ends in them. */
static lam_status put_lines(page *p, name_parts *n, lmi_buf *scratch) {
    int32_t row = 0;
    LAM_TRY(put_titles(p, scratch));
    for (int32_t i = p->t->first; i >= 0; i = lmi_nodes_next(p->t, p->j, i), row++) {
        size_t used;
        LAM_TRY(put_name(p, i, p->widths[0], n, scratch, &used));
        size_t owed = p->widths[0] - used;
        for (int32_t k = 1; k < p->columns.n; k++)
            if (p->shown[k])
                LAM_TRY(put_cell(p, k, lmi_grid_cell(&p->grid, row, k - 1), NULL, &owed, scratch));
        if (p->each && lmi_nodes_each(p->t, i)) {
            lmi_pad(&p->j->out, ' ', owed + GAP);
            lmi_paint(p->j, LMI_DIM, EACH, strlen(EACH));
        }
        lmi_putc(&p->j->out, '\n');
        LAM_TRY(lmi_job_flush(p->j));
    }
    return LAM_OK;
}

static lam_status put_table(page *p) {
    name_parts n;
    lmi_buf scratch;
    lam_status s = fill_grid(p);
    if (s == LAM_OK) s = choose(p);
    name_init(&n);
    lmi_buf_init(&scratch);
    if (s == LAM_OK) s = put_lines(p, &n, &scratch);
    lmi_buf_free(&scratch);
    name_free(&n);
    return s;
}

typedef struct talk {
    lmi_flow f;
    bool head; /* the first label is a title */
} talk;

static void say(void *to, const char *style, const char *label, const char *text) {
    talk *t = to;
    if (label) lmi_flow_label(&t->f, t->head ? style : LMI_DIM, label, t->head ? 4 : 0);
    t->head = false;
    if (*text) lmi_flow_item(&t->f, style, text);
}

/* What the page had no room for is named. */
static lam_status tell_not_shown(page *p, talk *to) {
    lmi_speaker s;
    int32_t n = 0;
    lmi_speak(&s, p->j, say, to);
    for (int32_t k = 1; k < p->columns.n; k++)
        if (!p->shown[k]) lmi_putf(&s.text, "%s%s", n++ ? ", " : "", p->columns.at[k]->title);
    if (n) {
        lmi_putf(&s.text, " (%d columns): %s", (int)p->width,
                 p->j->o->command ? "-w shows all" : "a larger width shows all");
        lmi_tell(&s, LMI_DIM, "not shown");
    }
    if (p->t->left_out) {
        lmi_putf(&s.text, "%d smaller line%s", (int)p->t->left_out, p->t->left_out == 1 ? "" : "s");
        lmi_tell(&s, LMI_DIM, n ? "" : "not shown");
    }
    return lmi_said(&s);
}

/* The call that does most multiplications itself; "." where there is none. */
static const char *largest(const lmi_job *j) {
    const char *path = ".";
    lam_count most = {0, 0, LAM_EXACT};
    for (int32_t i = 0; i < lam_costs_n_rows(j->c); i++) {
        const lam_cost_row *r = lam_costs_row(j->c, i);
        lam_count n = r->metric[LAM_MACS];
        if (r->event < 0 || !r->counted || lmi_count_double(n) <= lmi_count_double(most)) continue;
        const lam_place *p = lam_model_place(j->m, r->place);
        if (!*p->path) continue;
        most = n;
        path = p->path;
    }
    return path;
}

/* What may be typed after this. */
static lam_status tell_next(page *p, talk *to) {
    const lam_report_options *o = p->j->o;
    lmi_speaker s;
    if (!o->next) return LAM_OK;
    lmi_speak(&s, p->j, say, to);
    lmi_putf(&s.text, "lamina why %s ", o->next);
    lmi_put_clean(&s.text, largest(p->j));
    lmi_tell(&s, LMI_DIM, "next");
    lmi_putf(&s.text, "lamina compare %s", o->next);
    lmi_tell(&s, LMI_DIM, NULL);
    if (!o->memory) lmi_put(&s.text, "--memory ");
    if (!o->time) lmi_put(&s.text, "--time ");
    if (!lmi_has_phase(p->j->c, LAM_BACKWARD)) lmi_put(&s.text, "--backward");
    if (s.text.n) lmi_tell(&s, LMI_DIM, NULL);
    return lmi_said(&s);
}

static lam_status put_page(page *p) {
    talk t = {.head = true};
    lmi_flow_start(&t.f, p->j, p->width);
    LAM_TRY(lmi_own_head(p->j, say, &t));
    lmi_flow_end(&t.f);
    lmi_putc(&p->j->out, '\n');
    LAM_TRY(put_table(p));
    lmi_putc(&p->j->out, '\n');
    LAM_TRY(lmi_own_foot(p->j, say, &t));
    LAM_TRY(tell_not_shown(p, &t));
    LAM_TRY(tell_next(p, &t));
    lmi_flow_end(&t.f);
    return LAM_OK;
}

lam_status lmi_text_own(lmi_job *j) {
    lmi_nodes t;
    page p = {.j = j, .t = &t, .width = j->o->width == 0 ? DEFAULT_WIDTH : (size_t)j->o->width};
    if (p.width < NARROWEST) p.width = NARROWEST;
    if (p.width > WIDEST) p.width = WIDEST;
    lmi_own_columns(j, &p.columns);
    lmi_grid_init(&p.grid, p.columns.n - 1);
    lam_status s = lmi_nodes_build(&t, j);
    if (s == LAM_OK) s = put_page(&p);
    lmi_grid_free(&p.grid);
    lmi_nodes_free(&t);
    return s;
}
