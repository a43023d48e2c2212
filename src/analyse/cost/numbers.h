/* SPDX-License-Identifier: Apache-2.0
 * numbers: the counts of one operator, the formula of a call, and its speed. */
#ifndef LMI_ANALYSE_NUMBERS_H
#define LMI_ANALYSE_NUMBERS_H

#include "analyse/costs.h"

/* Fills what is below the rows (below.c). This is done once, before it is first read. LAM_NOMEM: it is
 * unknown until the next try. The second fills all that rows have at their first use. */
lam_status lmi_below_need(const lam_costs *c, lam_error *e);
lam_status lmi_rows_need(const lam_costs *c, lam_error *e);

/* The counts of one operator under the costs' rules, user-defined ones included. */
void lmi_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS]);
/* True for an operator in flex_attention, as far as torch tells. The second leaves out of its effective
 * counts the scores that the mask leaves out; unknown if the mask was not read. */
bool lmi_in_flex(const lam_model *m, int32_t op);
void lmi_flex_effective(const lam_model *m, int32_t op, lam_count n[LAM_N_METRICS]);
/* The part of a count that `open` of all `scores` have, -1: not known; unknown too if they have unequal
 * parts. */
lam_count lmi_part_of(lam_count all, int64_t open, int64_t scores);
/* The same for attention that is written as products around a softmax. */
void lmi_left_effective(const lam_costs *c, int32_t op, lam_count n[LAM_N_METRICS]);

/* The formula of metric `metric` under `rule` for these facts: the released one if `released` and it gives a
 * number, else the rule's; NULL if the rule has none. */
const char *lmi_formula_used(const lmi_rule *rule, lam_metric metric, bool released, const lmi_facts *facts);

/* The explanations of a row, as of lam_costs_why; the row's operators are gathered once. */
typedef struct lmi_whys lmi_whys;
lam_status lmi_whys_new(lmi_whys **out, const lam_costs *c, int32_t row, lam_error *e);
lam_status lmi_whys_at(lmi_whys *t, int32_t i, lam_why *out, lam_error *e);
void lmi_whys_free(lmi_whys *t); /* NULL is allowed */

/* The speed of `work` in `ns`. peak NULL: the bound is unknown. */
lam_speed lmi_speed_of(const lam_count work[LAM_N_METRICS], int64_t ns, const lam_peak *peak);

#endif
