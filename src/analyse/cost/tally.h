/* SPDX-License-Identifier: Apache-2.0
 * tally: types and functions that ops.c and opeffective.c share. */
#ifndef LMI_ANALYSE_TALLY_H
#define LMI_ANALYSE_TALLY_H

#include "analyse/cost/work.h"

/* The effective counts that an operator around others gives for them. */
enum {
    LMI_ATTRIBUTED_NOTHING,
    LMI_ATTRIBUTED_WHOLE /* they are the dense ones */,
    LMI_ATTRIBUTED_SUM /* those of all inside it */
};

/* Notes on each operator during the pass. */
typedef struct lmi_tally {
    bool *costs;         /* one of its numbers is not 0 */
    bool *computes;      /* the same without elements and bytes moved; also for the operators inside it */
    uint8_t *attributed; /* how its effective counts are given */
} lmi_tally;

/* True if adding `n` changes nothing. */
static inline bool lmi_is_nothing(lam_count n) { return n.n == 0 && n.over == 0 && n.state == LAM_EXACT; }

static inline lmi_op_sum *lmi_sum_of(const lmi_work *w, int32_t op) {
    int32_t call = w->m->ops[op].call;
    return &w->by_call[call >= 0 ? call : w->m->n_events];
}

/* == ops.c ============================================================================================= */

/* The results of a rule's formulas. */
typedef struct lmi_outcome {
    lmi_facts facts;
    lam_count n[LAM_N_METRICS];
    bool known; /* all formulas gave a number, effective counts aside */
    bool all;   /* the effective counts are numbers too */
} lmi_outcome;

/* By an operator's arguments and the layer that runs it; by a signature, as far as the layer does not matter.
 */
lam_status lmi_outcome_of_op(lmi_work *w, int32_t op, const lmi_rule *rule, lmi_outcome *out, lam_error *e);
lam_status lmi_outcome_of_sig(lmi_work *w, const lam_op_sig *sig, const lmi_rule *rule, lmi_outcome *out,
                              lam_error *e);

/* == opeffective.c ===================================================================================== */

/* Gives the effective counts of the operators inside `op`, if its flags or its mask determine them. */
lam_status lmi_attribute_effective(lmi_work *w, lmi_tally *t, int32_t op, lam_error *e);
/* Notes that a mask was added to scores, if it was, in an attention without an operator around it. */
void lmi_note_mask(lmi_work *w, const lmi_tally *t, int32_t op);
/* Makes effective counts unknown in the calls in which such an attention ran, since it is unknown which of
 * their products belong to it. */
void lmi_forget_effective(lmi_work *w);

#endif
