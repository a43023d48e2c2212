/* SPDX-License-Identifier: Apache-2.0
 *
 * What all sections put: frames of tables. */
#include "report/runs/runs.h"

void lmi_runs_scroll(lmi_runs *p, const char *label, int32_t model) {
    lmi_putf(&p->w.out, "<div class=\"scroll\" tabindex=\"0\" role=\"%s\" aria-label=\"%s %d\">",
             p->part ? "group" : "region", label, (int)model + 1);
}
void lmi_runs_scroll_end(lmi_runs *p) { lmi_put(&p->w.out, "</div>"); }
