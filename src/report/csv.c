/* SPDX-License-Identifier: Apache-2.0
 *
 * Comma-separated values (RFC 4180, lines end in a newline): one line a row of the costs, plain integers,
 * an unknown number an empty cell beside its state. */
#include "report/looked.h"

lam_status lmi_csv_rows(lmi_job *j) {
    lmi_columns columns;
    lmi_buf cell;
    lam_status s = LAM_OK;
    lmi_columns_parse(j->layout->data_columns, &columns);
    if (lmi_by_ops(j->c)) lmi_columns_append(j->layout->op_columns, &columns);
    if (lmi_has_times(j->c)) lmi_columns_append(j->layout->time_columns, &columns);
    if (lmi_has_device_times(j->c)) lmi_columns_append(LMI_DEVICE_COLUMNS, &columns);
    if (j->memory) lmi_columns_append(LMI_MEMORY_COLUMNS, &columns);
    if (j->health) lmi_columns_append(LMI_HEALTH_COLUMNS, &columns);
    if (j->device_memory) lmi_columns_append(LMI_DEVICE_MEMORY_COLUMNS, &columns);
    lmi_buf_init(&cell);
    for (int32_t i = 0; i < columns.n; i++) lmi_putf(&j->out, "%s%s", i ? "," : "", columns.at[i]->title);
    lmi_putc(&j->out, '\n');
    for (int32_t r = 0; s == LAM_OK && r < lam_costs_n_rows(j->c); r++) {
        lmi_line l;
        lmi_line_of_row(j, r, &l);
        for (int32_t i = 0; i < columns.n; i++) {
            cell.n = 0;
            lmi_putn(&cell, "", 0);
            columns.at[i]->cell(&l, &cell);
            if (i) lmi_putc(&j->out, ',');
            lmi_put_csv(&j->out, lmi_buf_text(&cell));
        }
        lmi_putc(&j->out, '\n');
        s = lmi_buf_status(&cell, j->e);
        if (s == LAM_OK) s = lmi_job_flush(j);
    }
    lmi_buf_free(&cell);
    return s;
}
