/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of texts that the caller has, such as one read from a file, without the run behind it. */
#include "report/table/report.h"

enum { NARROWEST = 8 };

lam_status lam_table_write(const char *const *cells, int32_t n_columns, int32_t n_rows, int32_t width,
                           lam_sink to, lam_error *e) {
    lmi_sheet t;
    lmi_buf out;
    bool fits =
        n_columns > 0 && n_columns <= LMI_COLUMNS_MAX && n_rows >= 0 && n_rows <= INT32_MAX / n_columns;
    if (!cells || !fits)
        return lmi_fail(e, LAM_USAGE, "lam_table_write", "a table has from 1 to %d columns", LMI_COLUMNS_MAX);
    lmi_buf_init(&out);
    lmi_sheet_start(&t, &out, width > 0 ? (size_t)width : 0, true, e);
    for (int32_t i = 0; i < n_columns * n_rows; i++) {
        lmi_put_clean(t.cell, cells[i]);
        if (i < n_columns)
            lmi_sheet_column(&t, &(lmi_head){"", i ? LMI_RIGHT : LMI_LEFT, 0});
        else
            lmi_end_cell(&t);
    }
    if (n_rows > 0) lmi_sheet_write(&t, NARROWEST, NARROWEST);
    lam_status s = lmi_sheet_free(&t);
    if (s == LAM_OK) s = lmi_buf_status(&out, e);
    if (s == LAM_OK) s = to.put(to.to, lmi_buf_text(&out), out.n);
    lmi_buf_free(&out);
    return s;
}
