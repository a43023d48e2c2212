/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells and frames of tables on the page of a run of many ranks, and links to where numbers come from. */
#include "report/runs/many.h"

#include <math.h>

const char *const lmi_many_ids[LMI_N_ORIGINS] = {
    [LMI_FROM_RANKS] = "from-ranks",     [LMI_FROM_STEPS] = "from-steps", [LMI_FROM_GAIN] = "from-gain",
    [LMI_FROM_WINDOWS] = "from-windows", [LMI_FROM_NODES] = "from-nodes", [LMI_FROM_LAST] = "from-last",
    [LMI_FROM_MFU] = "from-mfu"};

void lmi_many_from(lmi_many *p, lmi_many_origin of) { lmi_putf(p->b, "<a href=\"#%s\">", lmi_many_ids[of]); }
void lmi_many_from_end(lmi_many *p) { lmi_put(p->b, "</a>"); }

void lmi_many_put_us(lmi_buf *b, double us) { lmi_put_ns(b, isnan(us) ? -1 : us * 1000); }

void lmi_many_us(lmi_many *p, double us) {
    lmi_put(p->b, "<td>");
    lmi_many_put_us(p->b, us);
    lmi_put(p->b, "</td>");
}

void lmi_many_table(lmi_many *p, const char *label, bool folded) {
    if (folded) lmi_put(p->b, "<details><summary>As a table</summary>");
    lmi_putf(p->b,
             "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><thead><tr>",
             label);
}

void lmi_many_table_end(lmi_many *p, bool folded) {
    lmi_put(p->b, "</tbody></table></div>");
    if (folded) lmi_put(p->b, "</details>");
}

void lmi_many_head(lmi_many *p, const char *title, lmi_many_origin of) {
    lmi_put(p->b, "<th scope=\"col\"><span>");
    if (of < LMI_N_ORIGINS) lmi_many_from(p, of);
    lmi_put(p->b, title);
    if (of < LMI_N_ORIGINS) lmi_many_from_end(p);
    lmi_put(p->b, "</span></th>");
}
