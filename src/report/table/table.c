/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells as columns: all texts of a table are in one buffer, so that widths are known before anything is
 * written; and the layout of a table on a page. Every table for a screen is written here. */
#include "report/table/report.h"

enum { GAP = 2 }; /* spaces between columns */

void lmi_sheet_start(lmi_sheet *t, lmi_buf *out, size_t width, bool ascii, lam_error *e) {
    *t = (lmi_sheet){.out = out, .width = width, .ascii = ascii, .e = e};
    lmi_buf_init(&t->text);
    lmi_vec_init(&t->at, sizeof(size_t));
    lmi_vec_init(&t->shares, sizeof(double));
    lmi_buf_init(&t->cut);
    t->cell = &t->text;
}

lam_status lmi_sheet_free(lmi_sheet *t) {
    if (t->s == LAM_OK) t->s = lmi_buf_status(t->cell, t->e);
    if (t->s == LAM_OK) t->s = lmi_buf_status(&t->cut, t->e);
    lmi_buf_free(&t->text);
    lmi_vec_free(&t->at);
    lmi_vec_free(&t->shares);
    lmi_buf_free(&t->cut);
    return t->s;
}

void lmi_end_cell(lmi_sheet *t) {
    size_t *at = t->s == LAM_OK ? lmi_vec_push(&t->at) : NULL;
    if (!at) {
        t->s = lmi_nomem(t->e);
        return;
    }
    *at = t->begun;
    lmi_putc(t->cell, '\0');
    t->begun = t->cell->n;
}

void lmi_text_cell(lmi_sheet *t, const char *text) {
    lmi_put(t->cell, text);
    lmi_end_cell(t);
}

void lmi_sheet_column(lmi_sheet *t, const lmi_head *head) {
    t->heads[t->n++] = *head;
    lmi_text_cell(t, head->title);
}

void lmi_sheet_bars(lmi_sheet *t, int32_t first, int32_t last) {
    t->bar_first = first;
    t->bar_last = last;
}

void lmi_sheet_share(lmi_sheet *t, double share) {
    double *to = t->s == LAM_OK ? lmi_vec_push(&t->shares) : NULL;
    if (to)
        *to = share;
    else
        t->s = lmi_nomem(t->e);
}

int32_t lmi_sheet_rows(const lmi_sheet *t) { return (int32_t)(t->at.n / (size_t)t->n); }

static const char *cell_at(const lmi_sheet *t, int32_t row, int32_t column) {
    const size_t *at = lmi_vec_at(&t->at, (size_t)row * (size_t)t->n + (size_t)column);
    return t->text.s + *at;
}

static size_t widest(const lmi_sheet *t, int32_t column) {
    size_t most = 0;
    for (int32_t r = 0; r < lmi_sheet_rows(t); r++) {
        size_t w = lmi_width(cell_at(t, r, column));
        if (w > most) most = w;
    }
    return most;
}

static bool failed(const lmi_sheet *t) { return t->s != LAM_OK || t->cell->bad || t->cut.bad; }

/* The width of all columns but the first. */
static size_t taken(const lmi_sheet *t) {
    size_t n = 0;
    for (int32_t k = 1; k < t->n; k++) n += t->widths[k] ? t->widths[k] + GAP : 0;
    return n;
}

size_t lmi_sheet_columns(const lmi_sheet *t) { return t->widths[0] + taken(t); }

/* Leaves out the column of greatest rank, the leftmost of equal ones; false if all columns stay. */
static bool leave_out_one(lmi_sheet *t) {
    int32_t worst = 0;
    for (int32_t k = 1; k < t->n; k++)
        if (t->widths[k] && t->heads[k].rank > t->heads[worst].rank) worst = k;
    if (worst) t->widths[worst] = 0;
    return worst > 0;
}

void lmi_sheet_fit(lmi_sheet *t, size_t fair, size_t least) {
    if (failed(t)) return;
    for (int32_t k = 0; k < t->n; k++) {
        size_t w = widest(t, k);
        t->widths[k] = t->cap && k && t->heads[k].align == LMI_LEFT && w > t->cap ? t->cap : w;
    }
    if (!t->width) return;
    if (fair > t->widths[0]) fair = t->widths[0];
    if (least > fair) least = fair;
    while (fair + taken(t) > t->width && leave_out_one(t)) continue;
    size_t room = t->width > taken(t) ? t->width - taken(t) : 0;
    if (t->widths[0] > room) t->widths[0] = room > least ? room : least;
}

int32_t lmi_sheet_left_out(const lmi_sheet *t, lmi_buf *to) {
    int32_t n = 0;
    for (int32_t k = 1; k < t->n; k++)
        if (!t->widths[k] && *t->heads[k].title) lmi_putf(to, "%s%s", n++ ? ", " : "", t->heads[k].title);
    return n;
}

static const char *style_of(const lmi_sheet *t, int32_t row, int32_t k, const char *cell) {
    if (row == 0) return LMI_BOLD;
    return *cell == '?' || *cell == '>' ? LMI_WARN : *cell == '-' || (t->dim && k == t->dim) ? LMI_DIM : NULL;
}

/* -- bars ---------------------------------------------------------------------------------------------- */

/* The part of a row's bar that is not written yet, in columns; 0: no bar is open. */
typedef struct bar {
    size_t left;
} bar;

/* A share below half a column has no bar. */
static size_t bar_length(const lmi_sheet *t, int32_t row) {
    const double *share = row > 0 ? lmi_vec_at(&t->shares, (size_t)row - 1) : NULL;
    size_t room = 0;
    if (!t->color || t->ascii || !t->bar_last || !share || !(*share > 0)) return 0;
    for (int32_t k = t->bar_first; k <= t->bar_last; k++)
        if (t->widths[k]) room += t->widths[k] + (room ? GAP : 0);
    return *share < 1 ? (size_t)(*share * (double)room + 0.5) : room;
}

/* True if the bars begin at this column: it is the first shown one of the bar's columns. */
static bool begins_bar(const lmi_sheet *t, int32_t column) {
    if (column < t->bar_first || column > t->bar_last) return false;
    for (int32_t k = t->bar_first; k < column; k++)
        if (t->widths[k]) return false;
    return true;
}

static void open_bar(lmi_sheet *t, bar *b, size_t columns) {
    b->left = columns;
    if (columns) lmi_put(t->out, "\x1b[" LMI_BAR "m");
}

static void shorten_bar(lmi_sheet *t, bar *b, size_t columns) {
    if (!b->left) return;
    b->left -= columns;
    if (!b->left) lmi_put(t->out, "\x1b[0m");
}

static void put_spaces(lmi_sheet *t, bar *b, size_t n) {
    size_t inside = n < b->left ? n : b->left;
    lmi_pad(t->out, ' ', inside);
    shorten_bar(t, b, inside);
    lmi_pad(t->out, ' ', n - inside);
}

/* The part of a cell in the bar has the bar's style, the rest its own. */
static void put_cell(lmi_sheet *t, bar *b, const char *style, const char *cell, size_t width) {
    size_t inside = b->left ? lmi_fit(cell, b->left) : 0;
    lmi_putn(t->out, cell, inside);
    shorten_bar(t, b, width < b->left ? width : b->left);
    lmi_put_painted(t->out, t->color, style, cell + inside, strlen(cell + inside));
}

/* Spaces are written only when something follows them, so that no line ends in spaces. */
size_t lmi_sheet_cells(lmi_sheet *t, int32_t row, int32_t first, size_t owed) {
    bar b = {0};
    for (int32_t k = first; k < t->n; k++) {
        if (!t->widths[k]) continue;
        lmi_buf_clear(&t->cut);
        lmi_put_cut(&t->cut, cell_at(t, row, k), t->widths[k], t->ascii);
        const char *cell = lmi_buf_text(&t->cut);
        size_t w = lmi_width(cell), pad = t->widths[k] > w ? t->widths[k] - w : 0;
        size_t length = begins_bar(t, k) ? bar_length(t, row) : 0;
        bool right = t->heads[k].align == LMI_RIGHT;
        owed += k ? GAP : 0;
        if (length) {
            lmi_pad(t->out, ' ', owed);
            open_bar(t, &b, length);
            owed = 0;
        }
        owed += right ? pad : 0;
        if (w > 0) {
            put_spaces(t, &b, owed);
            put_cell(t, &b, style_of(t, row, k, cell), cell, w);
            owed = 0;
        }
        owed += right ? 0 : pad;
    }
    return owed;
}

void lmi_sheet_row(lmi_sheet *t, int32_t row, int32_t first, size_t owed) {
    lmi_sheet_cells(t, row, first, owed);
    lmi_putc(t->out, '\n');
}

void lmi_sheet_write(lmi_sheet *t, size_t fair, size_t least) {
    lmi_sheet_fit(t, fair, least);
    for (int32_t r = 0; !failed(t) && r < lmi_sheet_rows(t); r++) lmi_sheet_row(t, r, 0, 0);
}

static void put_md_row(lmi_sheet *t, int32_t row) {
    for (int32_t k = 0; k < t->n; k++) {
        lmi_put(t->out, "| ");
        lmi_put_md(t->out, cell_at(t, row, k));
        lmi_putc(t->out, ' ');
    }
    lmi_put(t->out, "|\n");
}

void lmi_sheet_md(lmi_sheet *t) {
    if (failed(t)) return;
    put_md_row(t, 0);
    for (int32_t k = 0; k < t->n; k++) lmi_put(t->out, t->heads[k].align == LMI_RIGHT ? "|---:" : "|:---");
    lmi_put(t->out, "|\n");
    for (int32_t r = 1; r < lmi_sheet_rows(t); r++) put_md_row(t, r);
}
