/* SPDX-License-Identifier: Apache-2.0
 * What the functions that turn nodes into operators share: arguments and attributes at positions.
 *
 * positions.c: puts these there. arguments.c: the table of operators (operators.def), and most of them.
 * attention.c: attention, with what is fused into it. */
#ifndef LMI_READ_ONNX_ARGUMENTS_H
#define LMI_READ_ONNX_ARGUMENTS_H

#include "read/onnx/source.h"

enum { FEW = LMI_ONNX_MOST_AXES };

/* True if every size is known. */
static inline bool is_known(const lmi_onnx_value *v) {
    int64_t n;
    return v && v->ndim >= 0 && v->kind == LMI_ONNX_TENSOR && lmi_product(v->sizes, v->ndim, &n);
}

/* An attribute that is a number; `otherwise` if the node has none. */
static inline double real(const lmi_onnx_op *o, const char *attribute, double otherwise) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, attribute);
    return a ? (double)a->f : otherwise;
}

static inline const lmi_onnx_value *in(const lmi_onnx_op *o, int32_t i) { return lmi_onnx_in(o->m, o->n, i); }

/* -- positions.c ----------------------------------------------------------------------------------------- */

/* Names the operator: "onnx::Conv", and behind a dot a form of it; "": none. */
lam_status lmi_onnx_name_op(lmi_onnx_op *o, const char *form);

lam_status lmi_onnx_put(lmi_onnx_op *o, const lam_op_arg *a);
/* The i-th argument, if it is there. */
lam_status lmi_onnx_put_tensor(lmi_onnx_op *o, int32_t i, int32_t position);
/* The i-th argument, which is there, as if it had another shape with as many elements. */
lam_status lmi_onnx_put_shaped(lmi_onnx_op *o, int32_t i, int32_t position, int32_t ndim,
                               const int64_t *sizes);
lam_status lmi_onnx_put_value(lmi_onnx_op *o, int32_t position, lam_value v);
lam_status lmi_onnx_put_int(lmi_onnx_op *o, int32_t position, int64_t i);
lam_status lmi_onnx_put_flag(lmi_onnx_op *o, int32_t position, bool is);
lam_status lmi_onnx_put_ints(lmi_onnx_op *o, int32_t position, const int64_t *ints, int32_t n);
/* The whole numbers of an argument or, before they were one, of an attribute. *n 0: they are not known, or
 * there are none. */
lam_status lmi_onnx_numbers(lmi_onnx_op *o, int32_t i, const char *attribute, int64_t to[FEW], int32_t *n);

static inline lam_status first(lmi_onnx_op *o) { return lmi_onnx_put_tensor(o, 0, 0); }

/* -- attention.c ----------------------------------------------------------------------------------------- */

/* Of ai.onnx, and those of com.microsoft. */
lam_status lmi_onnx_attention(lmi_onnx_op *o);
lam_status lmi_onnx_group_query(lmi_onnx_op *o);
lam_status lmi_onnx_multi_head(lmi_onnx_op *o);
lam_status lmi_onnx_packed_attention(lmi_onnx_op *o);
lam_status lmi_onnx_rotary(lmi_onnx_op *o);
lam_status lmi_onnx_linear_attention(lmi_onnx_op *o);

#endif
