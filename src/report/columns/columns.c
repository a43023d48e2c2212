/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a table by columns. It has several owners, as each stream and each of its arrays is one. */
#include "report/columns/columns.h"

#include <stdatomic.h>
#include <stdlib.h>

static lam_status nothing_yet(lmi_column_of *c, lam_error *e) {
    static const size_t sizes[] = {
        [LAM_CELL_WHOLE] = sizeof(int64_t),
        [LAM_CELL_REAL] = sizeof(double),
        [LAM_CELL_TEXT] = sizeof(int64_t),
        [LAM_CELL_FLAG] = 1,
    };
    const int64_t begin = 0;
    lmi_vec_init(&c->known, 1);
    lmi_vec_init(&c->values, sizes[c->kind]);
    lmi_vec_init(&c->bytes, 1);
    return c->kind == LAM_CELL_TEXT ? lmi_vec_put(&c->values, &begin, e) : LAM_OK;
}

lam_status lmi_table_new(lam_table **out, const lmi_column_name *names, int32_t n, lam_error *e) {
    lam_table *t = *out = calloc(1, sizeof *t);
    if (!t) return lmi_nomem(e);
    lmi_arena_init(&t->names, INT64_MAX);
    atomic_init(&t->owners, 1);
    t->columns = calloc((size_t)n + 1, sizeof *t->columns);
    lam_status s = t->columns ? LAM_OK : lmi_nomem(e);
    for (int32_t i = 0; s == LAM_OK && i < n; i++) {
        lmi_column_of *c = &t->columns[t->n++];
        c->kind = names[i].kind;
        s = nothing_yet(c, e);
        c->name = lmi_strdup(&t->names, names[i].name);
        if (s == LAM_OK && !c->name) s = lmi_nomem(e);
    }
    if (s == LAM_OK) return s;
    lam_table_free(t);
    *out = NULL;
    return s;
}

lam_table *lmi_table_keep(lam_table *t) {
    atomic_fetch_add(&t->owners, 1);
    return t;
}

void lam_table_free(lam_table *t) {
    if (!t || atomic_fetch_sub(&t->owners, 1) != 1) return;
    for (int32_t i = 0; i < t->n; i++) {
        lmi_vec_free(&t->columns[i].known);
        lmi_vec_free(&t->columns[i].values);
        lmi_vec_free(&t->columns[i].bytes);
    }
    free(t->columns);
    lmi_arena_free(&t->names);
    free(t);
}

/* -- rows ---------------------------------------------------------------------------------------------- */

/* Sets bit `row` of a list of bits, which has a byte more at each eighth row. */
static lam_status put_bit(lmi_vec *bits, int64_t row, bool set, lam_error *e) {
    if (row % 8 == 0 && !lmi_vec_push(bits)) return lmi_nomem(e);
    if (set) ((uint8_t *)bits->data)[row / 8] |= (uint8_t)(1U << (row % 8));
    return LAM_OK;
}

static lam_status put_text(lmi_column_of *c, const lam_cell *cell, lam_error *e) {
    if (cell->known && cell->n) {
        void *to = lmi_vec_add(&c->bytes, cell->n);
        if (!to) return lmi_nomem(e);
        memcpy(to, cell->text, cell->n);
    }
    const int64_t end = (int64_t)c->bytes.n;
    return lmi_vec_put(&c->values, &end, e);
}

static lam_status put_cell(lmi_column_of *c, int64_t row, const lam_cell *cell, lam_error *e) {
    const int64_t whole = cell->known ? cell->whole : 0;
    const double real = cell->known ? cell->real : 0;
    LAM_TRY(put_bit(&c->known, row, cell->known, e));
    c->unknown += !cell->known;
    switch (c->kind) {
    case LAM_CELL_WHOLE: return lmi_vec_put(&c->values, &whole, e);
    case LAM_CELL_REAL: return lmi_vec_put(&c->values, &real, e);
    case LAM_CELL_TEXT: return put_text(c, cell, e);
    default: return put_bit(&c->values, row, cell->known && cell->flag, e);
    }
}

lam_status lmi_table_add(lam_table *t, const lam_cell *cells, lam_error *e) {
    for (int32_t i = 0; i < t->n; i++) LAM_TRY(put_cell(&t->columns[i], t->rows, &cells[i], e));
    t->rows++;
    return LAM_OK;
}

int64_t lam_table_rows(const lam_table *t) { return t->rows; }
int32_t lam_table_columns(const lam_table *t) { return t->n; }
const char *lam_table_column(const lam_table *t, int32_t column) {
    return column >= 0 && column < t->n ? t->columns[column].name : NULL;
}

static bool bit(const lmi_vec *bits, int64_t row) {
    return ((const uint8_t *)bits->data)[row / 8] >> (row % 8) & 1;
}

bool lam_table_cell(const lam_table *t, int32_t column, int64_t row, lam_cell *out) {
    if (column < 0 || column >= t->n || row < 0 || row >= t->rows) return false;
    const lmi_column_of *c = &t->columns[column];
    *out = (lam_cell){.kind = c->kind, .known = bit(&c->known, row)};
    if (!out->known) return true;
    const int64_t *whole = c->values.data;
    if (c->kind == LAM_CELL_WHOLE) out->whole = whole[row];
    if (c->kind == LAM_CELL_REAL) out->real = ((const double *)c->values.data)[row];
    if (c->kind == LAM_CELL_FLAG) out->flag = bit(&c->values, row);
    if (c->kind == LAM_CELL_TEXT) {
        out->n = (size_t)(whole[row + 1] - whole[row]);
        out->text = out->n ? (const char *)c->bytes.data + whole[row] : "";
    }
    return true;
}
