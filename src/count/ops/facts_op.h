/* SPDX-License-Identifier: Apache-2.0
 * facts_op: shared declarations of the facts of operators. */
#ifndef LMI_FACTS_OP_H
#define LMI_FACTS_OP_H

#include "count/layers/sweep.h"

/* Computes the facts of one operator. Never fails: a fact that can't be computed stays unknown. */
void lmi_facts_of_op(const lam_model *m, int32_t op, lmi_facts *out);
/* Computes the facts that do not depend on the layer: the same for all operators of a signature. */
void lmi_facts_of_sig(const lam_model *m, const lam_op_sig *sig, lmi_facts *out);

/* The `call` of an operator that represents all of its signature: facts that depend on the layer are
 * unknown. */
enum { LMI_ANY_LAYER = -2 };

/* One file a family: facts_op_dense.c, facts_op_norm.c, facts_op_index.c, facts_op_list.c,
 * facts_op_region.c, facts_op_recurrent.c ... Their helpers are in facts_op_roles.c. */
typedef void lmi_op_family(const lam_model *m, const lam_op *op, lmi_kind k, const lmi_slots *s,
                           lmi_facts *f);
lmi_op_family lmi_op_dense, lmi_op_attention, lmi_op_recurrent, lmi_op_norm, lmi_op_axes, lmi_op_point,
    lmi_op_index, lmi_op_window, lmi_op_list, lmi_op_region, lmi_op_packed, lmi_op_inside, lmi_op_sized,
    lmi_op_factor, lmi_op_order, lmi_op_ctc, lmi_op_resample, lmi_op_margin, lmi_op_made, lmi_op_grouped,
    lmi_op_fused;

/* The last end of groups, entry `in` of an operator's arguments, if it follows from the operators that
 * computed it; -1 unknown. */
int64_t lmi_last_end(const lam_model *m, const lam_op *op, int32_t in);

/* True if an argument or a result is a sparse tensor. Facts that count every element of a shape are then
 * unknown; lmi_op_sparse sets the others. */
bool lmi_op_is_sparse(const lam_op *op);
void lmi_op_sparse(const lam_op *op, lmi_kind k, const lmi_slots *s, lmi_facts *f);

/* Facts that files share: of a norm's power, and of a factor and bounds that each element takes. */
void lmi_op_power(const lam_op *op, const lmi_slots *s, lmi_facts *f);
int64_t lmi_op_factors(const lmi_slots *s);

/* The next tensor of the list that is argument `position`, from entry *at on; NULL past the last one. */
const lam_op_arg *lmi_op_next(const lam_op *op, int32_t position, int32_t *at);
/* The first input: the role x or q, else the first tensor. */
lam_shape lmi_op_in(const lam_op *op, const lmi_slots *s);
/* The shape of the result at `position`, -1: the first one; ndim -1: there is none. */
lam_shape lmi_op_out(const lam_op *op, int32_t position);
/* True if the role holds a tensor, of known or unknown shape. */
bool lmi_op_tensor(const lmi_slots *s, lmi_slot_id id);
/* Elements of a role's tensor. Without a tensor lmi_op_numel returns -1, lmi_op_optional 0. */
int64_t lmi_op_numel(const lmi_slots *s, lmi_slot_id id);
int64_t lmi_op_optional(const lmi_slots *s, lmi_slot_id id);
/* Bytes of a role's tensor; -1: it holds none. */
int64_t lmi_op_bytes(const lmi_slots *s, lmi_slot_id id);
/* The value of a role; false or `fallback` if it holds no such value. */
bool lmi_op_bool(const lmi_slots *s, lmi_slot_id id, bool *out);
double lmi_op_number(const lmi_slots *s, lmi_slot_id id, double fallback);

#endif
