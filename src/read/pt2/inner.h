/* SPDX-License-Identifier: Apache-2.0
 * inner: pushes the operators inside another. inner.c: which, and the simple ones. recurrent.c: layers and
 * cells with a state. contract.c: products by an equation. */
#ifndef LMI_READ_INNER_H
#define LMI_READ_INNER_H

#include "read/pt2/pt2.h"

/* Entry `nth` of an argument; NULL: there is none. */
const lam_op_arg *lmi_inner_at(const lam_op_info *op, int32_t position, int32_t nth);
const lam_op_arg *lmi_inner_tensor(const lam_op_info *op, int32_t position); /* NULL: it is none */
/* A whole number or a truth value. */
int64_t lmi_inner_int(const lam_op_info *op, int32_t position, int64_t fallback);
const char *lmi_inner_text(const lam_op_info *op, int32_t position); /* NULL: it is no text */

/* Begins an inner operator: its arguments and results are added one after the other, then it is pushed. */
void lmi_inner_begin(lmi_pt2 *p);
lam_status lmi_inner_give(lmi_pt2 *p, const lam_op_arg *a, int32_t position); /* NULL: nothing */
/* Gives it all entries of an argument of the outer one. */
lam_status lmi_inner_move(lmi_pt2 *p, const lam_op_info *op, int32_t from, int32_t to);
lam_status lmi_inner_value(lmi_pt2 *p, int32_t position, lam_value v);
lam_status lmi_inner_ints(lmi_pt2 *p, int32_t position, const int64_t *ints, int32_t n);
/* Makes a new tensor of another's type. */
lam_status lmi_inner_made(lmi_pt2 *p, const lam_op_arg *like, const int64_t *sizes, int32_t n,
                          lam_op_arg *out);
lam_status lmi_inner_result(lmi_pt2 *p, const lam_op_arg *a);
lam_status lmi_inner_push(lmi_pt2 *p, const lam_op_info *op, int32_t parent, const char *name,
                          int32_t *index);

/* Pushes a view, a change of places that is not told, and a batched product. */
lam_status lmi_inner_view(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *from,
                          const lam_op_arg *to);
lam_status lmi_inner_place(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *from,
                           const lam_op_arg *to);
lam_status lmi_inner_product(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *a,
                             const lam_op_arg *b, const lam_op_arg *out);

lam_status lmi_inner_recurrent(lmi_pt2 *p, const lam_op_info *op, int32_t index);
lam_status lmi_inner_cell(lmi_pt2 *p, const lam_op_info *op, int32_t index);
lam_status lmi_inner_contract(lmi_pt2 *p, const lam_op_info *op, int32_t index);

#endif
