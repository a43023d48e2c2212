/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables and lines as wide as the page. */
#include "report/recorded/recorded.h"

void lmi_recorded_wrap(lmi_recorded *w, size_t from) {
    lmi_buf lines;
    if (w->out.bad || w->o->width <= 0) return;
    lmi_buf_init(&lines);
    lmi_put(&lines, w->out.s + from);
    w->out.n = from;
    for (char *line = lines.s, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        lmi_flow_line(&w->out, w->width, line, 0);
        lmi_putc(&w->out, '\n');
    }
    lmi_buf_used(&lines, &w->out);
}

/* The least width of the names' column before other columns are left out, and after that. */
enum { NAME = 24, LEAST_NAME = 12 };

void lmi_recorded_sheet(lmi_sheet *t, lmi_recorded *w, const lmi_head *heads, int32_t n) {
    lmi_sheet_start(t, &w->out, w->width, w->o->ascii, w->e);
    t->color = w->o->color;
    for (int32_t k = 0; k < n; k++) lmi_sheet_column(t, &heads[k]);
}

lam_status lmi_recorded_sheet_end(lmi_recorded *w, lmi_sheet *t) {
    lmi_buf lacks;
    lmi_buf_init(&lacks);
    lmi_sheet_write(t, NAME, LEAST_NAME);
    const size_t from = w->out.n;
    if (t->s == LAM_OK && !t->cell->bad && lmi_sheet_left_out(t, &lacks))
        lmi_putf(t->out, "not shown: %s (%d columns); -w shows all\n", lmi_buf_text(&lacks), (int)t->width);
    lmi_buf_used(&lacks, t->out);
    lmi_recorded_wrap(w, from);
    return lmi_sheet_free(t);
}
