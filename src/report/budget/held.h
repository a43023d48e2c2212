/* SPDX-License-Identifier: Apache-2.0
 * Limits that are of no model: their source finds the numbers, and they are held and told as those of one. */
#ifndef LMI_REPORT_HELD_H
#define LMI_REPORT_HELD_H

#include "report/numbers/numbers.h"

/* A check without limits yet. */
lam_status lmi_check_begin(lam_check **out, const char *name, lam_error *e);
/* What is held against a limit that is of no model; all is copied. */
typedef struct lmi_held {
    lam_count now;
    const char *why;  /* why it is not complete; NULL: as its state says */
    const char *said; /* as in lmi_limit_result, as are those below */
    const int32_t *ranks;
    const char *const *nodes;
    int32_t n_ranks, n_nodes;
} lmi_held;
bool lmi_is_limited(const lam_budget *b, lmi_figure of);
lam_status lmi_check_hold(lam_check *k, const lam_budget *b, lmi_figure of, const lmi_held *held,
                          lam_error *e);
lam_status lmi_check_note(lam_check *k, const char *sentence, lam_error *e);

#endif
