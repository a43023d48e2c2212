/* SPDX-License-Identifier: Apache-2.0
 *
 * What all sections put: names of strangers, and frames of tables. */
#include "report/runs/runs.h"

void lmi_runs_name(lmi_runs *p, const char *name, int32_t columns) {
    lmi_put(&p->w.out, "<bdi>");
    lmi_put_name(&p->w.out, name, columns);
    lmi_put(&p->w.out, "</bdi>");
}

void lmi_runs_scroll(lmi_runs *p, const char *label, int32_t model) {
    lmi_putf(&p->w.out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s %d\">", label,
             (int)model + 1);
}
void lmi_runs_scroll_end(lmi_runs *p) { lmi_put(&p->w.out, "</div>"); }
