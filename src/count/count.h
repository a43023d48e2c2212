/* SPDX-License-Identifier: Apache-2.0
 * count: numbers from facts, of a call or of an operator, under a convention. */
#ifndef LMI_COUNT_H
#define LMI_COUNT_H

#include "count/layers/layers.h"
#include "count/ops/facts_op.h"

/* The rule that serves this module under the convention's `match`; NULL: none. */
const lmi_rule *lmi_rule_for(const lmi_convention *c, const lam_module *mod);

/* One metric under a rule, from facts. `released` as in lmi_count_event. */
lam_count lmi_rule_count(const lmi_rule *r, lam_metric metric, bool released, const lmi_facts *facts);

/* All metrics of one event. `released` chooses the released formulas, falling back to the rule's where the
 * released one is unknown. Without a rule every metric is LAM_UNKNOWN. Where the convention does not trust
 * what it can't see, a module whose class overrides forward is LAM_AT_LEAST, and one whose inside is
 * opaque LAM_UNKNOWN. */
void lmi_count_event(const lmi_convention *c, const lam_model *m, int32_t event, bool released,
                     lam_count out[LAM_N_METRICS]);

/* The rule that serves an operator, the caller's own first. */
const lmi_rule *lmi_rule_of_op(const lmi_convention *c, const lam_op *op);
/* The rule that serves an operator of this word and name; NULL: none (or the convention counts calls). A rule
 * whose formulas are "0" costs nothing, which is known. */
const lmi_rule *lmi_rule_for_op(const lmi_convention *c, int32_t op_word, const char *name);
/* True where the operator only stands for the operators that it called, which are seen instead of it. */
bool lmi_op_opens(const lmi_convention *c, const lam_op *o, const lmi_rule *rule);
/* What an operator's formula gave: shapes that contradict each other may give a negative number, which is
 * none. */
static inline lam_count lmi_op_count(lam_count n) { return n.n < 0 ? lmi_unknown() : n; }
/* All metrics of one operator by its own rule, whatever counts around or inside it; LAM_UNKNOWN without. */
void lmi_count_op(const lmi_convention *c, const lam_model *m, int32_t op, lam_count out[LAM_N_METRICS]);

#endif
