/* SPDX-License-Identifier: Apache-2.0
 * Tables by columns, as Arrow has them. columns.c: their memory. give.c: as a stream of Arrow. take.c: from
 * one. */
#ifndef LMI_COLUMNS_H
#define LMI_COLUMNS_H

#include "base/base.h"

/* The layout of Arrow: a bit a row, 1 for known; values, of texts where each begins and the last ends. */
typedef struct lmi_column_of {
    const char *name; /* in `names` of the table */
    lam_cell_kind kind;
    lmi_vec known, values, bytes; /* uint8_t; int64_t, double or uint8_t; char */
    int64_t unknown;              /* rows */
} lmi_column_of;

struct lam_table {
    _Atomic int32_t owners;
    int32_t n;
    int64_t rows;
    lmi_column_of *columns;
    lmi_arena names;
};

typedef struct lmi_column_name {
    const char *name;
    lam_cell_kind kind;
} lmi_column_name;
lam_status lmi_table_new(lam_table **out, const lmi_column_name *names, int32_t n, lam_error *e);
/* Adds a row: `cells` has one of the right kind, or an unknown one, for each column. */
lam_status lmi_table_add(lam_table *t, const lam_cell *cells, lam_error *e);
lam_table *lmi_table_keep(lam_table *t); /* one more owner */

/* Cells. A negative time or size is unknown. */
static inline lam_cell lmi_cell_whole(int64_t v) {
    return (lam_cell){.kind = LAM_CELL_WHOLE, .known = v >= 0, .whole = v};
}
static inline lam_cell lmi_cell_real(double v) {
    return (lam_cell){.kind = LAM_CELL_REAL, .known = v == v, .real = v}; /* NaN is unknown */
}
static inline lam_cell lmi_cell_text(const char *s) {
    return (lam_cell){.kind = LAM_CELL_TEXT, .known = s != NULL, .text = s, .n = s ? strlen(s) : 0};
}
static inline lam_cell lmi_cell_flag(int32_t v) { /* -1: unknown */
    return (lam_cell){.kind = LAM_CELL_FLAG, .known = v >= 0, .flag = v > 0};
}

#endif
