/* SPDX-License-Identifier: Apache-2.0
 *
 * Comma-separated values (RFC 4180, lines end in a newline): one line per row of the costs, with plain
 * integers; an unknown number is an empty cell next to its state. The last line is the total. */
#include "report/formats/formats.h"

/* Makes the total, which is the last line. */
static void whole(const lmi_job *j, lmi_line *out) {
    static const lam_place nowhere = {.name = "", .path = "total"};
    static const lam_module nothing = {.type = ""};
    lam_param_totals p = lam_costs_params(j->c);
    *out = (lmi_line){.job = j, .index = -1, .place = &nowhere, .module = &nothing};
    out->row = (lam_cost_row){.rf_state = LAM_UNKNOWN,
                              .params = p.params,
                              .total_params = p.params,
                              .grad_params = p.grad_params,
                              .param_bytes = p.param_bytes,
                              .logical_bytes = p.logical_bytes,
                              .local_params = p.local_params,
                              .local_bytes = p.local_bytes,
                              .buffers = p.buffers,
                              .buffer_bytes = p.buffer_bytes};
    for (int m = 0; m < LAM_N_METRICS; m++) {
        out->row.metric[m] = out->row.total[m] = lmi_total(j->c, (lam_metric)m);
        out->row.backward[m] = out->row.total_backward[m] =
            lam_costs_phase_total(j->c, LAM_BACKWARD, (lam_metric)m);
        out->row.recompute[m] = lam_costs_phase_total(j->c, LAM_RECOMPUTE, (lam_metric)m);
    }
}

static lam_status put_line(lmi_job *j, const lmi_columns *columns, const lmi_line *l, lmi_buf *cell) {
    for (int32_t i = 0; i < columns->n; i++) {
        lmi_buf_clear(cell);
        columns->at[i]->cell(l, cell);
        if (i) lmi_putc(&j->out, ',');
        lmi_put_csv(&j->out, lmi_buf_text(cell));
    }
    lmi_putc(&j->out, '\n');
    LAM_TRY(lmi_buf_status(cell, j->e));
    return lmi_job_flush(j);
}

lam_status lmi_csv_rows(lmi_job *j) {
    lmi_columns columns;
    lmi_buf cell;
    lmi_line l;
    lam_status s = LAM_OK;
    lmi_columns_of(j, LMI_IN_DATA, &columns);
    lmi_buf_init(&cell);
    for (int32_t i = 0; i < columns.n; i++) lmi_putf(&j->out, "%s%s", i ? "," : "", columns.at[i]->title);
    lmi_putc(&j->out, '\n');
    for (int32_t r = 0; s == LAM_OK && r < lam_costs_n_rows(j->c); r++) {
        lmi_line_of_row(j, r, &l);
        s = put_line(j, &columns, &l, &cell);
    }
    whole(j, &l);
    if (s == LAM_OK) s = put_line(j, &columns, &l, &cell);
    lmi_buf_free(&cell);
    return s;
}
