/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells as columns: all texts of a table in one buffer, so that widths can be found before anything is
 * written. */
#include "report/table/report.h"

void lmi_grid_init(lmi_grid *g, int32_t n_columns) {
    g->n_columns = n_columns;
    lmi_buf_init(&g->text);
    lmi_vec_init(&g->at, sizeof(size_t));
}

void lmi_grid_free(lmi_grid *g) {
    lmi_buf_free(&g->text);
    lmi_vec_free(&g->at);
}

lam_status lmi_grid_put(lmi_grid *g, const lmi_column *column, const lmi_line *l, const char *text,
                        lam_error *e) {
    size_t *at = lmi_vec_push(&g->at);
    if (!at) return lmi_nomem(e);
    *at = g->text.n;
    if (column)
        column->cell(l, &g->text);
    else
        lmi_put(&g->text, text);
    lmi_putc(&g->text, '\0');
    return lmi_buf_status(&g->text, e);
}

int32_t lmi_grid_rows(const lmi_grid *g) { return (int32_t)(g->at.n / (size_t)g->n_columns); }

const char *lmi_grid_cell(const lmi_grid *g, int32_t row, int32_t column) {
    const size_t *at = lmi_vec_at(&g->at, (size_t)row * (size_t)g->n_columns + (size_t)column);
    return g->text.s + *at;
}

size_t lmi_grid_width(const lmi_grid *g, int32_t column, size_t (*measure)(const char *)) {
    size_t widest = 0;
    for (int32_t r = 0; r < lmi_grid_rows(g); r++) {
        size_t w = measure(lmi_grid_cell(g, r, column));
        if (w > widest) widest = w;
    }
    return widest;
}
