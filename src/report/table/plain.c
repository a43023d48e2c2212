/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of texts that the caller has: what was read back from a file, without the run behind it. */
#include "report/table/report.h"

enum { GAP = 2, NARROWEST = 8 };

/* Columns of the first one's cells where all of the others are to fit in `width`; 0: no limit. */
static size_t first_width(const lmi_grid *g, const size_t *widths, int32_t width) {
    size_t others = 0;
    for (int32_t i = 1; i < g->n_columns; i++) others += widths[i] + GAP;
    if (width <= 0 || widths[0] + others <= (size_t)width) return widths[0];
    return (size_t)width > others + NARROWEST ? (size_t)width - others : NARROWEST;
}

static void put_row(const lmi_grid *g, const size_t *widths, int32_t row, lmi_buf *out) {
    lmi_buf first;
    lmi_buf_init(&first);
    lmi_put_middle(&first, lmi_grid_cell(g, row, 0), widths[0], true);
    lmi_put(out, lmi_buf_text(&first));
    size_t pad = widths[0] - lmi_width(lmi_buf_text(&first));
    for (int32_t i = 1; i < g->n_columns; i++) {
        const char *cell = lmi_grid_cell(g, row, i);
        lmi_pad(out, ' ', pad + GAP + widths[i] - lmi_width(cell));
        lmi_put(out, cell);
        pad = 0;
    }
    lmi_putc(out, '\n');
    out->bad = out->bad || first.bad;
    lmi_buf_free(&first);
}

static lam_status fill(lmi_grid *g, const char *const *cells, int32_t n, lam_error *e) {
    lmi_buf clean;
    lam_status s = LAM_OK;
    lmi_buf_init(&clean);
    for (int32_t i = 0; s == LAM_OK && i < n; i++) {
        clean.n = 0;
        lmi_putn(&clean, "", 0);
        lmi_put_clean(&clean, cells[i]);
        s = lmi_buf_status(&clean, e);
        if (s == LAM_OK) s = lmi_grid_put(g, NULL, NULL, lmi_buf_text(&clean), e);
    }
    lmi_buf_free(&clean);
    return s;
}

lam_status lam_table_write(const char *const *cells, int32_t n_columns, int32_t n_rows, int32_t width,
                           lam_sink to, lam_error *e) {
    size_t widths[LMI_COLUMNS_MAX];
    lmi_grid g;
    lmi_buf out;
    bool fits =
        n_columns > 0 && n_columns <= LMI_COLUMNS_MAX && n_rows >= 0 && n_rows <= INT32_MAX / n_columns;
    if (!cells || !fits)
        return lmi_fail(e, LAM_USAGE, "lam_table_write", "a table has from 1 to %d columns", LMI_COLUMNS_MAX);
    lmi_grid_init(&g, n_columns);
    lmi_buf_init(&out);
    lam_status s = fill(&g, cells, n_columns * n_rows, e);
    for (int32_t i = 0; s == LAM_OK && i < n_columns; i++) widths[i] = lmi_grid_width(&g, i, lmi_width);
    if (s == LAM_OK) widths[0] = first_width(&g, widths, width);
    for (int32_t r = 0; s == LAM_OK && r < n_rows; r++) put_row(&g, widths, r, &out);
    if (s == LAM_OK) s = lmi_buf_status(&out, e);
    if (s == LAM_OK) s = to.put(to.to, lmi_buf_text(&out), out.n);
    lmi_buf_free(&out);
    lmi_grid_free(&g);
    return s;
}
