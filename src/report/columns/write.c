/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a table as text, CSV or JSON. */
#include "report/columns/columns.h"
#include "report/table/report.h"
#include "report/tell/tell.h"

#include <math.h>
#include <stdlib.h>

enum { LONGEST_CELL = 256 }; /* of texts on a screen, in bytes */

/* As many digits as tell the number apart from others on a screen, or all that it has. */
static void put_real(lmi_buf *b, double v, bool whole) {
    if (isfinite(v))
        lmi_putf(b, whole ? "%.17g" : fabs(v) >= 1e5 || v == floor(v) ? "%.0f" : "%.6g", v);
    else
        lmi_put(b, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
}

static void put_cell(lmi_buf *b, const lam_cell *c, const char *none, bool whole) {
    if (!c->known)
        lmi_put(b, none);
    else if (c->kind == LAM_CELL_WHOLE)
        lmi_putf(b, "%lld", (long long)c->whole);
    else if (c->kind == LAM_CELL_REAL)
        put_real(b, c->real, whole);
    else if (c->kind == LAM_CELL_FLAG)
        lmi_put(b, c->flag ? "true" : "false");
    else
        lmi_putn(b, c->text, whole || c->n < LONGEST_CELL ? c->n : LONGEST_CELL);
}

/* -- text ---------------------------------------------------------------------------------------------- */

static void put_row(const lam_table *t, lmi_sheet *s, int64_t row, lmi_buf *one) {
    lam_cell c;
    for (int32_t k = 0; lam_table_cell(t, k, row, &c); k++) {
        lmi_buf_clear(one);
        put_cell(one, &c, "?", false);
        lmi_put_clean(s->cell, lmi_buf_text(one));
        lmi_end_cell(s);
    }
}

static lam_status put_text(const lam_table *t, const lam_table_options *o, lmi_buf *out, lam_error *e) {
    enum { NAME = 24, LEAST_NAME = 12 };
    lmi_sheet s;
    lmi_buf one, lacks;
    if (t->n >= LMI_COLUMNS_MAX) return lmi_fail(e, LAM_LIMIT, NULL, "it has too many columns for a table");
    lmi_buf_init(&one);
    lmi_buf_init(&lacks);
    lmi_sheet_start(&s, out, o->width > 0 ? (size_t)o->width : 100, o->ascii, e);
    s.color = o->color;
    for (int32_t k = 0; k < t->n; k++) {
        const bool left = t->columns[k].kind == LAM_CELL_TEXT || t->columns[k].kind == LAM_CELL_FLAG;
        lmi_sheet_column(&s, &(lmi_head){t->columns[k].name, left ? LMI_LEFT : LMI_RIGHT, k});
    }
    for (int64_t row = 0; row < t->rows; row++) put_row(t, &s, row, &one);
    lmi_sheet_write(&s, NAME, LEAST_NAME);
    if (s.s == LAM_OK && lmi_sheet_left_out(&s, &lacks))
        lmi_putf(out, "not shown: %s; -w shows all\n", lmi_buf_text(&lacks));
    lmi_putf(out, "%lld row%s\n", (long long)t->rows, t->rows == 1 ? "" : "s");
    lmi_buf_used(&one, out);
    lmi_buf_used(&lacks, out);
    return lmi_sheet_free(&s);
}

/* -- for programs -------------------------------------------------------------------------------------- */

static void put_csv(const lam_table *t, lmi_buf *out) {
    lmi_buf one;
    lam_cell c;
    lmi_buf_init(&one);
    for (int64_t row = -1; row < t->rows; row++) {
        for (int32_t k = 0; k < t->n; k++) {
            lmi_buf_clear(&one);
            if (row < 0)
                lmi_put(&one, t->columns[k].name);
            else if (lam_table_cell(t, k, row, &c))
                put_cell(&one, &c, "", true);
            if (k) lmi_putc(out, ',');
            lmi_put_csv(out, lmi_buf_text(&one));
        }
        lmi_putc(out, '\n');
    }
    lmi_buf_used(&one, out);
}

static void tell_cell(lmi_teller *t, const lam_cell *c, lmi_buf *one) {
    if (!c->known || (c->kind == LAM_CELL_REAL && !isfinite(c->real)))
        tell_none(t, NULL);
    else if (c->kind == LAM_CELL_WHOLE)
        tell_int(t, NULL, c->whole);
    else if (c->kind == LAM_CELL_REAL)
        lmi_tell_digits(t, NULL, c->real);
    else if (c->kind == LAM_CELL_FLAG)
        tell_truth(t, NULL, c->flag);
    else {
        lmi_buf_clear(one);
        lmi_putn(one, c->text, c->n);
        tell_text(t, NULL, lmi_buf_text(one));
    }
}

static void put_json(const lam_table *t, const char *kind, lmi_buf *out) {
    lmi_teller to = lmi_tell_json(out);
    lmi_buf one;
    lam_cell c;
    lmi_buf_init(&one);
    lmi_tell_document(&to, kind, 1);
    tell_list(&to, "columns");
    for (int32_t k = 0; k < t->n; k++) tell_text(&to, NULL, t->columns[k].name);
    tell_list_end(&to);
    tell_list(&to, "rows");
    for (int64_t row = 0; row < t->rows; row++) {
        lmi_tell_line(&to);
        tell_list(&to, NULL); /* in the order of the columns, whose names may be anything */
        for (int32_t k = 0; lam_table_cell(t, k, row, &c); k++) tell_cell(&to, &c, &one);
        tell_list_end(&to);
    }
    tell_list_end(&to);
    tell_end(&to);
    lmi_putc(out, '\n');
    lmi_buf_used(&one, out);
}

lam_status lam_table_write(const lam_table *t, const lam_table_options *o, lam_sink to, lam_error *e) {
    const char *format = o->format ? o->format : "text";
    lmi_buf out;
    lam_status s = LAM_OK;
    lmi_buf_init(&out);
    if (strcmp(format, "text") == 0)
        s = put_text(t, o, &out, e);
    else if (strcmp(format, "csv") == 0)
        put_csv(t, &out);
    else if (strcmp(format, "json") == 0)
        put_json(t, o->kind, &out);
    else
        s = lmi_fail(e, LAM_USAGE, NULL, "%s: the formats are text, csv and json", format);
    if (s == LAM_OK) s = lmi_buf_status(&out, e);
    if (s == LAM_OK) s = lmi_buf_flush(&out, to, e);
    lmi_buf_free(&out);
    return s;
}
