/* SPDX-License-Identifier: Apache-2.0
 * count: numbers from facts, of a call or of an operator, under a convention. */
#ifndef LMI_COUNT_H
#define LMI_COUNT_H

#include "count/layers/layers.h"
#include "count/ops/facts_op.h"

/* The rule for this module under the convention's `match`; NULL: none. */
const lmi_rule *lmi_rule_for(const lmi_convention *c, const lam_module *mod);

/* One metric by a rule's formula, from facts; LAM_UNKNOWN without a formula. */
lam_count lmi_rule_count(const lmi_rule *r, lam_metric metric, const lmi_facts *facts);

/* The rule for an operator; user-defined rules take precedence. */
const lmi_rule *lmi_rule_of_op(const lmi_convention *c, const lam_op *op);
/* The rule for an operator of this word and name; NULL: none (or the convention counts calls). A rule with
 * the formulas "0" gives a known count of 0. */
const lmi_rule *lmi_rule_for_op(const lmi_convention *c, int32_t op_word, const char *name);
/* True if the operator itself counts nothing and the operators that it called count instead. */
bool lmi_op_opens(const lmi_convention *c, const lam_op *o, const lmi_rule *rule);
/* The result of an operator's formula. It may be negative if shapes contradict each other: then it is
 * unknown. */
static inline lam_count lmi_op_count(lam_count n) { return n.n < 0 ? lmi_unknown() : n; }
/* All metrics of one operator by its own rule, regardless of operators around or inside it; LAM_UNKNOWN
 * without a rule. */
void lmi_count_op(const lmi_convention *c, const lam_model *m, int32_t op, lam_count out[LAM_N_METRICS]);

#endif
