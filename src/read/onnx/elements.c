/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of constants, when somebody needs them. */
#include "read/onnx/reader.h"

/* -- Constant ----------------------------------------------------------------------------------------------
 */

static void put_le(unsigned char *to, uint64_t bits, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = (unsigned char)(bits >> 8 * i);
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Memory for n elements of `size` bytes, and the type and shape of the value. */
static unsigned char *constant_memory(lmi_onnx_reader *r, lmi_onnx_value *v, int32_t type, int32_t ndim,
                                      int32_t n, size_t size) {
    const int64_t one = n;
    unsigned char *to = lmi_alloc(&r->m->arena, (uint64_t)n, size);
    v->type = type;
    v->ndim = ndim;
    v->sizes = lmi_copy(&r->m->arena, &one, (uint64_t)ndim, sizeof one);
    v->symbols = NULL;
    v->stated = false;
    v->where = LMI_ONNX_MEMORY;
    v->memory = to;
    v->bytes = (uint64_t)n * size;
    return v->sizes ? to : NULL;
}

lam_status lmi_onnx_constant_of(lmi_onnx_reader *r, const lmi_onnx_attribute *a, lmi_onnx_value *v,
                                lam_error *e) {
    const bool list = strcmp(a->name, "value_ints") == 0 || strcmp(a->name, "value_floats") == 0;
    const int32_t n = list ? a->n : 1, ndim = list ? 1 : 0;
    const bool whole = strncmp(a->name, "value_int", 9) == 0;
    unsigned char *to = NULL;
    if (list && n && !(whole ? (const void *)a->ints : a->floats))
        return LAM_OK; /* of another kind: unknown */
    if (strcmp(a->name, "value_ints") == 0 || strcmp(a->name, "value_int") == 0) {
        to = constant_memory(r, v, LMI_ONNX_INT64, ndim, n, 8);
        for (int32_t i = 0; to && i < n; i++)
            put_le(to + 8 * (size_t)i, (uint64_t)(list ? a->ints[i] : a->i), 8);
    } else if (strcmp(a->name, "value_floats") == 0 || strcmp(a->name, "value_float") == 0) {
        to = constant_memory(r, v, LMI_ONNX_FLOAT, ndim, n, 4);
        for (int32_t i = 0; to && i < n; i++)
            put_le(to + 4 * (size_t)i, bits_of(list ? a->floats[i] : a->f), 4);
    } else { /* a text, or texts: what they are is never needed */
        v->type = LMI_ONNX_STRING;
        v->ndim = strcmp(a->name, "value_string") == 0 ? 0 : -1;
        v->sizes = NULL;
        return LAM_OK;
    }
    return to ? LAM_OK : lmi_nomem(e);
}

/* -- elements of a tensor ----------------------------------------------------------------------------------
 */

/* The field that holds elements of a type that has bits, and the bytes that one entry of it becomes. */
static uint32_t field_of(int32_t type, size_t *bytes) {
    const int32_t n = lmi_onnx_bits(type);
    *bytes = n < 8 ? 1 : (size_t)n / 8;
    switch (type) {
    case LMI_ONNX_COMPLEX64: *bytes = 4; return 4;
    case LMI_ONNX_FLOAT: return 4;
    case LMI_ONNX_INT64: return 7;
    case LMI_ONNX_COMPLEX128: *bytes = 8; return 10;
    case LMI_ONNX_DOUBLE: return 10;
    case LMI_ONNX_UINT32:
    case LMI_ONNX_UINT64: return 11;
    default: return 5;
    }
}

/* One entry of the field, from the wire. */
static lam_status entry(lmi_cursor *c, uint64_t end, uint32_t field, uint64_t *out, lam_error *e) {
    const size_t n = field == 4 ? 4 : 8;
    const unsigned char *p;
    if (field != 4 && field != 10) return lmi_wire_varint(c, end, out, e);
    if (end - c->at < n) return lmi_bytes_bad(c->of, c->at, e, "a number that does not end in its message,");
    LAM_TRY(lmi_cursor_take(c, n, &p, e));
    *out = n == 4 ? lmi_le32(p) : lmi_le64(p);
    return LAM_OK;
}

/* Fills `to` from the fields of a TensorProto; *n: the bytes that it holds, which may be more than there is
 * room for. */
static lam_status from_fields(lmi_cursor *c, const lmi_onnx_value *v, unsigned char *to, uint64_t size,
                              uint64_t *n, lam_error *e) {
    const uint64_t end = v->at + v->bytes;
    size_t each;
    const uint32_t field = field_of(v->type, &each);
    lmi_field f = {0};
    bool more;
    *n = 0;
    for (;;) {
        LAM_TRY(lmi_wire_next(c, end, &f, &more, e));
        if (!more || *n > size) return LAM_OK;
        if (f.number != field) continue;
        const bool packed = f.type == LMI_WIRE_LENGTH;
        while (!packed || c->at < f.end) {
            uint64_t bits = f.value;
            if (packed) LAM_TRY(entry(c, f.end, field, &bits, e));
            if (*n + each <= size) put_le(to + *n, bits, each);
            *n += each;
            if (!packed || *n > size) break;
        }
    }
}

lam_status lmi_onnx_elements(lmi_onnx_model *m, lmi_onnx_value *v, uint64_t most, const void **out,
                             lam_error *e) {
    uint64_t need, n;
    *out = NULL;
    if (v->where == LMI_ONNX_MEMORY) {
        *out = v->memory;
        return LAM_OK;
    }
    if (v->where != LMI_ONNX_RAW && v->where != LMI_ONNX_FIELDS) return LAM_OK;
    if (!lmi_onnx_raw_bytes(v, &need) || need > most || need > m->file->size * 8 || need > SIZE_MAX / 2)
        return LAM_OK;
    unsigned char *to = lmi_alloc(&m->arena, need + 8, 1);
    if (!to) return lmi_nomem(e);
    n = need;
    if (v->where == LMI_ONNX_RAW) {
        LAM_TRY(lmi_bytes_read(m->file, v->at, to, (size_t)need, e));
    } else {
        lmi_cursor c = lmi_cursor_of(m->file, m->piece);
        c.at = v->at;
        LAM_TRY(from_fields(&c, v, to, need, &n, e));
    }
    if (n != need) return LAM_OK;
    v->where = LMI_ONNX_MEMORY;
    v->memory = to;
    v->bytes = need;
    *out = to;
    return LAM_OK;
}
