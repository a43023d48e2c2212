/* SPDX-License-Identifier: Apache-2.0
 *
 * The default table as GitHub's Markdown: the same rows as the text, every column, and the text around
 * it as a list. */
#include "report/formats/formats.h"
#include "report/formats/rows.h"

typedef struct md {
    lmi_job *j;
    bool listing, first;
} md;

/* Each label of the head is a paragraph, each label of the foot an item of a list. */
static void say(void *to, const char *style, const char *label, const char *text) {
    md *m = to;
    bool begins = label && *label;
    (void)style;
    if (!m->first) lmi_put(&m->j->out, begins ? (m->listing ? "\n" : "\n\n") : m->listing ? "; " : ", ");
    m->first = false;
    if (begins) {
        if (m->listing) lmi_put(&m->j->out, "- ");
        lmi_put_md(&m->j->out, label);
        if (*text) lmi_put(&m->j->out, ": ");
    }
    lmi_put_md(&m->j->out, text);
}

static void put_titles(lmi_job *j, const lmi_columns *columns) {
    for (int32_t i = 0; i < columns->n; i++) lmi_putf(&j->out, "| %s ", columns->at[i]->title);
    lmi_put(&j->out, "|\n");
    for (int32_t i = 0; i < columns->n; i++)
        lmi_put(&j->out, columns->at[i]->align == LMI_RIGHT ? "|---:" : "|:---");
    lmi_put(&j->out, "|\n");
}

static lam_status put_row(lmi_job *j, const lmi_rows *t, int32_t row, const lmi_columns *columns,
                          lmi_buf *scratch) {
    lmi_line l;
    lmi_rows_line(t, row, &l);
    for (int32_t i = 0; i < columns->n; i++) {
        lmi_buf_clear(scratch);
        lmi_put(&j->out, "| ");
        if (i == 0) {
            lmi_rows_label(t, row, SIZE_MAX, j->o->ascii, scratch);
            lmi_rows_marks(t, &l, false, scratch);
            if (lmi_rows_each(t, row)) lmi_put(scratch, ", each");
            for (int32_t d = 0; d < l.depth && d < 40; d++) lmi_put(&j->out, "&nbsp;&nbsp;");
        } else {
            columns->at[i]->cell(&l, scratch);
        }
        lmi_put_md(&j->out, lmi_buf_text(scratch));
        lmi_putc(&j->out, ' ');
    }
    lmi_put(&j->out, "|\n");
    return lmi_buf_status(scratch, j->e);
}

static lam_status put_rows(lmi_job *j, const lmi_rows *t) {
    lmi_columns columns;
    lmi_buf scratch;
    lam_status s = LAM_OK;
    lmi_own_columns(j, &columns);
    lmi_buf_init(&scratch);
    put_titles(j, &columns);
    for (int32_t i = 0; i < t->n && s == LAM_OK; i++) {
        s = put_row(j, t, i, &columns, &scratch);
        if (s == LAM_OK) s = lmi_job_flush(j);
    }
    lmi_buf_free(&scratch);
    return s;
}

lam_status lmi_md_own(lmi_job *j) {
    lmi_rows t;
    md head = {j, false, true}, foot = {j, true, true};
    lam_status s = lmi_rows_new(&t, j);
    if (s == LAM_OK) s = lmi_head_items(j, say, &head);
    lmi_put(&j->out, "\n\n");
    if (s == LAM_OK) s = put_rows(j, &t);
    lmi_putc(&j->out, '\n');
    if (s == LAM_OK) s = lmi_foot_items(j, say, &foot);
    lmi_putc(&j->out, '\n');
    lmi_rows_free(&t);
    return s;
}
