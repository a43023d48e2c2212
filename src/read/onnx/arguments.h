/* SPDX-License-Identifier: Apache-2.0
 * What the functions that turn nodes into operators share: arguments and attributes at positions.
 *
 * arguments.c: the table of operators (operators.def), and most of them. attention.c: attention, with what is
 * fused into it. */
#ifndef LMI_READ_ONNX_ARGUMENTS_H
#define LMI_READ_ONNX_ARGUMENTS_H

#include "read/onnx/source.h"

enum { FEW = LMI_ONNX_MOST_AXES, LIST_BYTES = FEW * 8 };

/* True if every size is known. */
static inline bool is_known(const lmi_onnx_value *v) {
    int64_t n;
    return v && v->ndim >= 0 && v->kind == LMI_ONNX_TENSOR && lmi_product(v->sizes, v->ndim, &n);
}

static inline lam_status put(lmi_onnx_op *o, const lam_op_arg *a) { return lmi_vec_put(&o->in, a, o->e); }

/* The i-th argument, if it is there. */
static inline lam_status tensor(lmi_onnx_op *o, int32_t i, int32_t position) {
    if (i >= o->n->n_in || o->n->in[i] < 0) return LAM_OK;
    const lam_op_arg a = lmi_onnx_arg(o->m, o->n->in[i], position);
    return put(o, &a);
}

/* The i-th argument, which is there, as if it had another shape with as many elements. */
static inline lam_status shaped(lmi_onnx_op *o, int32_t i, int32_t position, int32_t ndim,
                                const int64_t *sizes) {
    lam_op_arg a = lmi_onnx_arg(o->m, o->n->in[i], position);
    a.ndim = ndim;
    a.sizes = lmi_copy(o->a, sizes, (uint64_t)(ndim > 0 ? ndim : 0), sizeof *sizes);
    return a.sizes ? put(o, &a) : lmi_nomem(o->e);
}

static inline lam_status value(lmi_onnx_op *o, int32_t position, lam_value v) {
    const lam_op_arg a = {
        .position = position, .dtype = -1, .device = -1, .ndim = -1, .shares = -1, .value = v};
    return put(o, &a);
}

static inline lam_status whole(lmi_onnx_op *o, int32_t position, int64_t i) {
    return value(o, position, (lam_value){.type = LAM_INT, .i = i});
}

static inline lam_status flag(lmi_onnx_op *o, int32_t position, bool is) {
    return value(o, position, (lam_value){.type = LAM_BOOL, .i = is});
}

static inline lam_status list(lmi_onnx_op *o, int32_t position, const int64_t *ints, int32_t n) {
    int64_t *copy = lmi_copy(o->a, ints, (uint64_t)n, sizeof *copy);
    if (!copy) return lmi_nomem(o->e);
    return value(o, position, (lam_value){.type = LAM_INTS, .n = n, .ints = copy});
}

/* An attribute that is a number; `otherwise` if the node has none. */
static inline double real(const lmi_onnx_op *o, const char *attribute, double otherwise) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, attribute);
    return a ? (double)a->f : otherwise;
}

static inline const lmi_onnx_value *in(const lmi_onnx_op *o, int32_t i) { return lmi_onnx_in(o->m, o->n, i); }

/* "onnx::Conv", and behind a dot a form of it. */
static inline lam_status name(lmi_onnx_op *o, const char *form) {
    lmi_buf_clear(&o->name);
    lmi_put_clean(&o->name, *o->n->domain ? o->n->domain : "onnx");
    lmi_put(&o->name, "::");
    lmi_put_clean(&o->name, o->n->op);
    if (*form) lmi_putf(&o->name, ".%s", form);
    return lmi_buf_status(&o->name, o->e);
}

/* The whole numbers of an argument or, before they were one, of an attribute. False: they are not known, or
 * there are none. */
static inline lam_status numbers(lmi_onnx_op *o, int32_t i, const char *attribute, int64_t to[FEW],
                                 int32_t *n) {
    const lmi_onnx_attribute *a = attribute ? lmi_onnx_attr(o->n, attribute) : NULL;
    lmi_onnx_value *v = lmi_onnx_in(o->m, o->n, i);
    const void *raw;
    *n = 0;
    if (a && a->ints && a->n <= FEW) memcpy(to, a->ints, (size_t)a->n * sizeof *to), *n = a->n;
    if (a || !v || (v->type != LMI_ONNX_INT64 && v->type != LMI_ONNX_INT32)) return LAM_OK;
    LAM_TRY(lmi_onnx_elements(o->m, v, LIST_BYTES, &raw, o->e));
    const size_t each = v->type == LMI_ONNX_INT64 ? 8 : 4;
    if (!raw || v->bytes / each > FEW) return LAM_OK;
    *n = (int32_t)(v->bytes / each);
    for (int32_t k = 0; k < *n; k++)
        to[k] = each == 8 ? (int64_t)lmi_le64((const char *)raw + 8 * k)
                          : (int64_t)(int32_t)lmi_le32((const char *)raw + 4 * k);
    return LAM_OK;
}

static inline lam_status first(lmi_onnx_op *o) { return tensor(o, 0, 0); }

/* -- attention.c ----------------------------------------------------------------------------------------- */

/* Of ai.onnx, and those of com.microsoft. */
lam_status lmi_onnx_attention(lmi_onnx_op *o);
lam_status lmi_onnx_group_query(lmi_onnx_op *o);
lam_status lmi_onnx_multi_head(lmi_onnx_op *o);
lam_status lmi_onnx_packed_attention(lmi_onnx_op *o);
lam_status lmi_onnx_rotary(lmi_onnx_op *o);

#endif
