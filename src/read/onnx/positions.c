/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments and attributes of a node, put at the positions of an operator. */
#include "read/onnx/arguments.h"

int32_t lmi_onnx_dtype(int32_t type) {
    static const int8_t numbers[LMI_ONNX_N_TYPES] = {[LMI_ONNX_NO_TYPE] = -1,
                                                     [LMI_ONNX_FLOAT] = 6,
                                                     [LMI_ONNX_UINT8] = 0,
                                                     [LMI_ONNX_INT8] = 1,
                                                     [LMI_ONNX_UINT16] = 27,
                                                     [LMI_ONNX_INT16] = 2,
                                                     [LMI_ONNX_INT32] = 3,
                                                     [LMI_ONNX_INT64] = 4,
                                                     [LMI_ONNX_STRING] = -1,
                                                     [LMI_ONNX_BOOL] = 11,
                                                     [LMI_ONNX_FLOAT16] = 5,
                                                     [LMI_ONNX_DOUBLE] = 7,
                                                     [LMI_ONNX_UINT32] = 28,
                                                     [LMI_ONNX_UINT64] = 29,
                                                     [LMI_ONNX_COMPLEX64] = 9,
                                                     [LMI_ONNX_COMPLEX128] = 10,
                                                     [LMI_ONNX_BFLOAT16] = 15,
                                                     [LMI_ONNX_FLOAT8E4M3FN] = 24,
                                                     [LMI_ONNX_FLOAT8E4M3FNUZ] = 26,
                                                     [LMI_ONNX_FLOAT8E5M2] = 23,
                                                     [LMI_ONNX_FLOAT8E5M2FNUZ] = 25,
                                                     [LMI_ONNX_UINT4] = 33,
                                                     [LMI_ONNX_INT4] = 40,
                                                     [LMI_ONNX_FLOAT4E2M1] = 45,
                                                     [LMI_ONNX_FLOAT8E8M0] = 44,
                                                     [LMI_ONNX_UINT2] = 31,
                                                     [LMI_ONNX_INT2] = 38};
    return type > 0 && type < LMI_ONNX_N_TYPES ? numbers[type] : -1;
}

lam_op_arg lmi_onnx_arg(const lmi_onnx_model *m, int32_t value, int32_t position) {
    const lmi_onnx_value *v = lmi_onnx_value_at(m, value);
    const bool known = is_known(v);
    return (lam_op_arg){.position = position,
                        .is_tensor = true,
                        .dtype = v ? lmi_onnx_dtype(v->type) : -1,
                        .device = -1,
                        .shares = -1,
                        .ndim = v && known ? v->ndim : -1,
                        .sizes = v && known ? v->sizes : NULL,
                        .storage = (uint64_t)(value + 1),
                        .object = (uint64_t)(value + 1)};
}

lam_status lmi_onnx_put(lmi_onnx_op *o, const lam_op_arg *a) { return lmi_vec_put(&o->in, a, o->e); }

lam_status lmi_onnx_put_tensor(lmi_onnx_op *o, int32_t i, int32_t position) {
    if (i >= o->n->n_in || o->n->in[i] < 0) return LAM_OK;
    const lam_op_arg a = lmi_onnx_arg(o->m, o->n->in[i], position);
    return lmi_onnx_put(o, &a);
}

lam_status lmi_onnx_put_shaped(lmi_onnx_op *o, int32_t i, int32_t position, int32_t ndim,
                               const int64_t *sizes) {
    lam_op_arg a = lmi_onnx_arg(o->m, o->n->in[i], position);
    a.ndim = ndim;
    a.sizes = lmi_copy(o->a, sizes, (uint64_t)(ndim > 0 ? ndim : 0), sizeof *sizes);
    return a.sizes ? lmi_onnx_put(o, &a) : lmi_nomem(o->e);
}

lam_status lmi_onnx_put_value(lmi_onnx_op *o, int32_t position, lam_value v) {
    const lam_op_arg a = {
        .position = position, .dtype = -1, .device = -1, .ndim = -1, .shares = -1, .value = v};
    return lmi_onnx_put(o, &a);
}

lam_status lmi_onnx_put_int(lmi_onnx_op *o, int32_t position, int64_t i) {
    return lmi_onnx_put_value(o, position, (lam_value){.type = LAM_INT, .i = i});
}

lam_status lmi_onnx_put_flag(lmi_onnx_op *o, int32_t position, bool is) {
    return lmi_onnx_put_value(o, position, (lam_value){.type = LAM_BOOL, .i = is});
}

lam_status lmi_onnx_put_ints(lmi_onnx_op *o, int32_t position, const int64_t *ints, int32_t n) {
    int64_t *copy = lmi_copy(o->a, ints, (uint64_t)n, sizeof *copy);
    if (!copy) return lmi_nomem(o->e);
    return lmi_onnx_put_value(o, position, (lam_value){.type = LAM_INTS, .n = n, .ints = copy});
}

lam_status lmi_onnx_name_op(lmi_onnx_op *o, const char *form) {
    lmi_buf_clear(&o->name);
    lmi_put_clean(&o->name, *o->n->domain ? o->n->domain : "onnx");
    lmi_put(&o->name, "::");
    lmi_put_clean(&o->name, o->n->op);
    if (*form) lmi_putf(&o->name, ".%s", form);
    return lmi_buf_status(&o->name, o->e);
}

lam_status lmi_onnx_numbers(lmi_onnx_op *o, int32_t i, const char *attribute, int64_t to[FEW], int32_t *n) {
    const lmi_onnx_attribute *a = attribute ? lmi_onnx_attr(o->n, attribute) : NULL;
    lmi_onnx_value *v = lmi_onnx_in(o->m, o->n, i);
    const void *raw;
    *n = 0;
    if (a && a->ints && a->n <= FEW) memcpy(to, a->ints, (size_t)a->n * sizeof *to), *n = a->n;
    if (a || !v || (v->type != LMI_ONNX_INT64 && v->type != LMI_ONNX_INT32)) return LAM_OK;
    LAM_TRY(lmi_onnx_elements(o->m, v, 8 * FEW, &raw, o->e));
    const size_t each = v->type == LMI_ONNX_INT64 ? 8 : 4;
    if (!raw || v->bytes / each > FEW) return LAM_OK;
    *n = (int32_t)(v->bytes / each);
    for (int32_t k = 0; k < *n; k++)
        to[k] = each == 8 ? (int64_t)lmi_le64((const char *)raw + 8 * k)
                          : (int64_t)(int32_t)lmi_le32((const char *)raw + 4 * k);
    return LAM_OK;
}
