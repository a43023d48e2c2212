/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of all sections: frames of tables, and names of recordings. */
#include "report/runs/runs.h"

void lmi_runs_scroll(lmi_runs *p, const char *label, int32_t model) {
    lmi_putf(&p->w.out, "<div class=\"scroll\" tabindex=\"0\" role=\"%s\" aria-label=\"%s %d\">",
             p->part ? "group" : "region", label, (int)model + 1);
}
void lmi_runs_scroll_end(lmi_runs *p) { lmi_put(&p->w.out, "</div>"); }

lmi_many lmi_runs_many(lmi_runs *p) { return (lmi_many){.r = p->ranks, .b = &p->w.out, .e = p->w.e}; }

void lmi_runs_which(lmi_runs *p, int32_t i) {
    lmi_buf name;
    lmi_buf_init(&name);
    lmi_put_which(&name, &p->w, i);
    lmi_put_bdi(&p->w.out, lmi_buf_text(&name), LMI_RUNS_CELL);
    lmi_buf_used(&name, &p->w.out);
}
