/* SPDX-License-Identifier: Apache-2.0
 *
 * Comma-separated values (RFC 4180, lines end in a newline): one line per row of the costs, with plain
 * integers; an unknown number is an empty cell next to its state. The last line is the total. */
#include "report/formats/formats.h"
#include "report/tell/tell.h"

static bool has_column(const lmi_rows *rows, int32_t i) {
    return lmi_row_names[i].name[LMI_IN_CSV][0] && rows->has[lmi_row_names[i].when];
}

static void put_titles(lmi_buf *out, const lmi_rows *rows) {
    for (int32_t i = 0; i < LMI_N_ROW_NAMES; i++) {
        const char *title = lmi_row_names[i].name[LMI_IN_CSV];
        if (!has_column(rows, i)) continue;
        lmi_putf(out, "%s%s", i ? "," : "", title);
        if (lmi_row_names[i].form == LMI_ROW_STATED) lmi_putf(out, ",%s_state", title);
    }
    lmi_putc(out, '\n');
}

static void put_value(const lam_field *f, lmi_row_form form, lmi_buf *out) {
    switch (f->type) {
    case LAM_FIELD_TRUTH: lmi_put(out, f->truth ? "true" : "false"); break;
    case LAM_FIELD_INTEGER: lmi_put_int(out, f->integer); break;
    case LAM_FIELD_REAL:
        if (f->real - f->real == 0) (form == LMI_ROW_FIRST ? lmi_put_nine : lmi_put_real)(out, f->real);
        break;
    case LAM_FIELD_TEXT: lmi_put_clean(out, f->text); break;
    case LAM_FIELD_COUNT:
        if (f->count.state != LAM_UNKNOWN) lmi_put_plain(out, f->count);
        break;
    case LAM_FIELD_SIZES: lmi_put_shape(out, f->shape); break;
    default: lmi_put(out, form == LMI_ROW_EACH ? "?" : "");
    }
}

/* True for one value, of a type that has no character to quote. */
static bool is_plain(const lmi_flat *flat, const lam_field *f) {
    if (f && lmi_flat_next(flat, f)) return false;
    return !f || f->type == LAM_FIELD_TRUTH || f->type == LAM_FIELD_INTEGER || f->type == LAM_FIELD_COUNT;
}

static void put_cell(const lmi_flat *flat, int32_t i, lmi_buf *out, lmi_buf *cell) {
    const lmi_row_form form = lmi_row_names[i].form;
    const lam_field *first = lmi_flat_first(flat, i);
    if (is_plain(flat, first) && form != LMI_ROW_EACH) {
        if (first) put_value(first, form, out);
        return;
    }
    lmi_buf_clear(cell);
    for (const lam_field *f = first; f; f = lmi_flat_next(flat, f)) {
        if (f != first) lmi_put(cell, "; ");
        put_value(f, form, cell);
    }
    lmi_put_csv(out, lmi_buf_text(cell));
}

static lam_status put_line(lmi_job *j, const lmi_rows *rows, const lmi_flat *flat, lmi_buf *cell) {
    for (int32_t i = 0; i < LMI_N_ROW_NAMES; i++) {
        if (!has_column(rows, i)) continue;
        if (i) lmi_putc(&j->out, ',');
        put_cell(flat, i, &j->out, cell);
        if (lmi_row_names[i].form != LMI_ROW_STATED) continue;
        lmi_putc(&j->out, ',');
        lmi_put(&j->out, lam_state_name(lmi_flat_first(flat, i)->count.state));
    }
    lmi_putc(&j->out, '\n');
    LAM_TRY(lmi_buf_status(cell, j->e));
    return lmi_job_flush(j);
}

static lam_status put_rows(lmi_job *j, const lmi_rows *rows, lmi_flat *flat, lmi_buf *cell) {
    const int32_t n = lam_costs_n_rows(j->c);
    for (int32_t i = 0; i <= n; i++) {
        lmi_teller t = lmi_tell_to(lmi_flat_row(flat));
        lmi_row_fields(&t, rows, i < n ? i : -1);
        LAM_TRY(lmi_flat_status(flat, j->e));
        LAM_TRY(put_line(j, rows, flat, cell));
    }
    return LAM_OK;
}

lam_status lmi_csv_rows(lmi_job *j) {
    lmi_rows rows;
    lmi_flat *flat;
    lmi_buf cell;
    LAM_TRY(lmi_flat_new(&flat, LMI_IN_CSV, j->e));
    lmi_buf_init(&cell);
    lmi_rows_of(&rows, j->c);
    lmi_rows_measured(&rows, j);
    put_titles(&j->out, &rows);
    lam_status s = put_rows(j, &rows, flat, &cell);
    lmi_buf_free(&cell);
    lmi_flat_free(flat);
    return s;
}
