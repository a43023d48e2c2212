/* SPDX-License-Identifier: Apache-2.0
 * numbers: what one operator costs, by which formula a call does, and how fast it was. */
#ifndef LMI_ANALYSE_NUMBERS_H
#define LMI_ANALYSE_NUMBERS_H

#include "analyse/costs.h"

/* The numbers of one operator under the costs' rules, the caller's own among them. */
void lmi_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS]);

/* The formula that gives metric `metric` of an event under `rule`, with the facts at hand: the released
 * text where it is asked for and gives a number, else the rule's; NULL when the rule has none. */
const char *lmi_formula_used(const lmi_rule *rule, lam_metric metric, bool released, const lmi_facts *facts);

/* Work in so much time. peak NULL: nothing is bound. */
lam_speed lmi_speed_of(const lam_count work[LAM_N_METRICS], int64_t ns, const lam_peak *peak);

#endif
