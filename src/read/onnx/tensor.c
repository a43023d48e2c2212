/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of a file: type, shape and where their elements are; what a file states of values, and values by
 * their names. Elements are passed over, and those of a constant are read on demand. */
#include "read/onnx/reader.h"

#include <stdio.h>

/* -- names ----------------------------------------------------------------------------------------------- */

lam_status lmi_onnx_bad(const lmi_onnx_reader *r, uint64_t at, lam_error *e, const char *fmt, ...) {
    char text[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return lmi_fail(e, LAM_SYNTAX, r->m->file->name, "it is damaged: %s (at byte %llu)", text,
                    (unsigned long long)at);
}

/* Values and nodes are larger than what a file needs to name them: the memory that they take is bounded too.
 */
lam_status lmi_onnx_room(const lmi_onnx_reader *r, lam_error *e) {
    const lmi_onnx_model *m = r->m;
    const uint64_t used =
        m->values.n * (sizeof(lmi_onnx_value) + sizeof(lmi_onnx_naming)) + m->nodes.n * sizeof(lmi_onnx_node);
    if (used < m->arena.limit) return LAM_OK;
    return lmi_fail(e, LAM_LIMIT, m->file->name,
                    "it has more nodes and names than a file of its size is read for");
}

lam_status lmi_onnx_new_value(lmi_onnx_reader *r, const char *name, int32_t *out, lam_error *e) {
    const lmi_onnx_value fresh = {.name = name, .ndim = -1, .producer = -1};
    const lmi_onnx_naming plain = {.same = -1};
    *out = (int32_t)r->m->values.n;
    LAM_TRY(lmi_onnx_room(r, e));
    LAM_TRY(lmi_vec_put(&r->m->values, &fresh, e));
    return lmi_vec_put(&r->namings, &plain, e);
}

lam_status lmi_onnx_name(lmi_onnx_reader *r, lmi_onnx_scope *s, const char *name, int32_t *out,
                         lam_error *e) {
    const int64_t known = *name ? lmi_map_get(&s->names, name) : -1;
    *out = (int32_t)known;
    if (known >= 0 || !*name) return LAM_OK;
    LAM_TRY(lmi_onnx_new_value(r, name, out, e));
    return lmi_map_put(&s->names, name, *out, e);
}

/* -- types ----------------------------------------------------------------------------------------------- */

int32_t lmi_onnx_bits(int32_t type) {
    static const uint8_t bits[LMI_ONNX_N_TYPES] = {[LMI_ONNX_FLOAT] = 32,
                                                   [LMI_ONNX_UINT8] = 8,
                                                   [LMI_ONNX_INT8] = 8,
                                                   [LMI_ONNX_UINT16] = 16,
                                                   [LMI_ONNX_INT16] = 16,
                                                   [LMI_ONNX_INT32] = 32,
                                                   [LMI_ONNX_INT64] = 64,
                                                   [LMI_ONNX_BOOL] = 8,
                                                   [LMI_ONNX_FLOAT16] = 16,
                                                   [LMI_ONNX_DOUBLE] = 64,
                                                   [LMI_ONNX_UINT32] = 32,
                                                   [LMI_ONNX_UINT64] = 64,
                                                   [LMI_ONNX_COMPLEX64] = 64,
                                                   [LMI_ONNX_COMPLEX128] = 128,
                                                   [LMI_ONNX_BFLOAT16] = 16,
                                                   [LMI_ONNX_FLOAT8E4M3FN] = 8,
                                                   [LMI_ONNX_FLOAT8E4M3FNUZ] = 8,
                                                   [LMI_ONNX_FLOAT8E5M2] = 8,
                                                   [LMI_ONNX_FLOAT8E5M2FNUZ] = 8,
                                                   [LMI_ONNX_UINT4] = 4,
                                                   [LMI_ONNX_INT4] = 4,
                                                   [LMI_ONNX_FLOAT4E2M1] = 4,
                                                   [LMI_ONNX_FLOAT8E8M0] = 8,
                                                   [LMI_ONNX_UINT2] = 2,
                                                   [LMI_ONNX_INT2] = 2};
    return type > 0 && type < LMI_ONNX_N_TYPES ? bits[type] : 0;
}

/* -- shapes ---------------------------------------------------------------------------------------------- */

/* Some exporters name all that they don't know "?", which is no name then. */
static lam_status symbol(lmi_onnx_reader *r, const char *name, int32_t *out, lam_error *e) {
    const lmi_onnx_symbol fresh = {name, -1};
    lmi_vec *all = &r->m->symbols;
    int64_t known = lmi_map_get(&r->m->by_symbol, name);
    *out = (int32_t)known;
    if (known >= 0 || !*name || strcmp(name, "?") == 0) return LAM_OK;
    *out = (int32_t)all->n;
    LAM_TRY(lmi_vec_put(all, &fresh, e));
    return lmi_map_put(&r->m->by_symbol, name, *out, e);
}

static lam_status axis(lmi_onnx_reader *r, const lmi_field *of, int64_t *size, int32_t *named, lam_error *e) {
    lmi_field f = {0};
    bool more;
    *size = *named = -1;
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "an axis", e));
    for (;;) {
        const char *name;
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) return LAM_OK;
        if (f.number == 1) {
            LAM_TRY(lmi_wire_is(&r->c, &f, LMI_WIRE_VARINT, "a size", e));
            *size = (int64_t)f.value < 0 ? -1 : (int64_t)f.value;
        } else if (f.number == 2) {
            LAM_TRY(lmi_wire_text(&r->c, &f, &r->m->arena, &name, e));
            LAM_TRY(symbol(r, name, named, e));
        }
    }
}

static lam_status shape(lmi_onnx_reader *r, const lmi_field *of, lmi_onnx_value *out, lam_error *e) {
    int64_t sizes[LMI_ONNX_MOST_AXES];
    int32_t symbols[LMI_ONNX_MOST_AXES], n = 0;
    lmi_field f = {0};
    bool more, named = false;
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "a shape", e));
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) break;
        if (f.number != 1) continue;
        if (n == LMI_ONNX_MOST_AXES) return LAM_OK; /* more than any operator takes: unknown */
        LAM_TRY(axis(r, &f, &sizes[n], &symbols[n], e));
        named = named || symbols[n] >= 0;
        n++;
    }
    out->ndim = n;
    out->sizes = lmi_copy(&r->m->arena, sizes, (uint64_t)n, sizeof *sizes);
    out->symbols = named ? lmi_copy(&r->m->arena, symbols, (uint64_t)n, sizeof *symbols) : NULL;
    return out->sizes && (!named || out->symbols) ? LAM_OK : lmi_nomem(e);
}

static lam_status tensor_type(lmi_onnx_reader *r, const lmi_field *of, lmi_onnx_value *out, lam_error *e) {
    lmi_field f = {0};
    bool more;
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "a type", e));
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) return LAM_OK;
        if (f.number == 1) {
            LAM_TRY(lmi_wire_is(&r->c, &f, LMI_WIRE_VARINT, "a type of elements", e));
            out->type = f.value < LMI_ONNX_N_TYPES ? (int32_t)f.value : LMI_ONNX_NO_TYPE;
        } else if (f.number == 2) {
            LAM_TRY(shape(r, &f, out, e));
        }
    }
}

/* A TypeProto; `inner`: it is of the elements of another one. */
static lam_status type_of(lmi_onnx_reader *r, const lmi_field *of, bool inner, lmi_onnx_value *out,
                          lam_error *e) {
    enum { TENSOR = 1, SEQUENCE = 4, MAP = 5, OPAQUE = 7, SPARSE = 8, OPTIONAL = 9 };
    lmi_field f = {0}, g;
    bool more;
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "a type", e));
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) return LAM_OK;
        if (f.number == TENSOR) {
            LAM_TRY(tensor_type(r, &f, out, e));
        } else if ((f.number == SEQUENCE || f.number == OPTIONAL) && !inner) {
            LAM_TRY(lmi_wire_is(&r->c, &f, LMI_WIRE_LENGTH, "a type", e));
            out->kind = f.number == SEQUENCE ? LMI_ONNX_SEQUENCE : LMI_ONNX_OPTIONAL;
            g = (lmi_field){0};
            LAM_TRY(lmi_wire_next(&r->c, f.end, &g, &more, e));
            /* Made by recursion of depth 2 at most. */
            if (more && g.number == 1) LAM_TRY(type_of(r, &g, true, out, e));
        } else if (f.number == SEQUENCE || f.number == OPTIONAL || f.number == MAP || f.number == OPAQUE ||
                   f.number == SPARSE) {
            out->kind = LMI_ONNX_OTHER;
        }
    }
}

lam_status lmi_onnx_stated_read(lmi_onnx_reader *r, const lmi_field *of, lmi_onnx_value *out,
                                const char **name, lam_error *e) {
    lmi_field f = {0};
    bool more;
    *out = (lmi_onnx_value){.name = "", .ndim = -1, .producer = -1};
    *name = "";
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "what is stated of a value", e));
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) return LAM_OK;
        if (f.number == 1) LAM_TRY(lmi_wire_text(&r->c, &f, &r->m->arena, name, e));
        if (f.number == 2) LAM_TRY(type_of(r, &f, false, out, e));
    }
}

/* -- tensors --------------------------------------------------------------------------------------------- */

static lam_status put_sizes(lmi_onnx_reader *r, lmi_vec *dims, lmi_onnx_value *out, uint64_t at,
                            lam_error *e) {
    out->ndim = (int32_t)dims->n;
    out->sizes = lmi_copy(&r->m->arena, dims->data, dims->n, sizeof(int64_t));
    if (!out->sizes) return lmi_nomem(e);
    for (int32_t i = 0; i < out->ndim; i++)
        if (out->sizes[i] < 0)
            return lmi_onnx_bad(r, at, e, "a tensor has an axis of %lld", (long long)out->sizes[i]);
    return LAM_OK;
}

/* What the fields of a tensor tell beside its shape. */
typedef struct tensor_data {
    bool raw, fields, external;
    uint64_t raw_at, raw_bytes;
} tensor_data;

static lam_status one_field(lmi_onnx_reader *r, const lmi_field *f, lmi_vec *dims, lmi_onnx_value *out,
                            tensor_data *t, const char **name, lam_error *e) {
    enum {
        DIMS = 1,
        TYPE,
        FLOATS = 4,
        INT32S,
        TEXTS,
        INT64S,
        NAME,
        RAW,
        DOUBLES,
        UINT64S,
        EXTERNAL = 13,
        LOCATION
    };
    switch (f->number) {
    case DIMS: return lmi_wire_ints(&r->c, f, dims, LMI_ONNX_MOST_AXES, "axes of a tensor", e);
    case TYPE:
        LAM_TRY(lmi_wire_is(&r->c, f, LMI_WIRE_VARINT, "a tensor's type", e));
        out->type = f->value < LMI_ONNX_N_TYPES ? (int32_t)f->value : LMI_ONNX_NO_TYPE;
        return LAM_OK;
    case NAME: return lmi_wire_text(&r->c, f, &r->m->arena, name, e);
    case RAW:
        LAM_TRY(lmi_wire_is(&r->c, f, LMI_WIRE_LENGTH, "a tensor's data", e));
        t->raw = true;
        t->raw_at = f->start;
        t->raw_bytes = f->end - f->start;
        return LAM_OK;
    case FLOATS:
    case INT32S:
    case TEXTS:
    case INT64S:
    case DOUBLES:
    case UINT64S: t->fields = true; return LAM_OK;
    case EXTERNAL: t->external = true; return LAM_OK;
    case LOCATION:
        LAM_TRY(lmi_wire_is(&r->c, f, LMI_WIRE_VARINT, "where a tensor's data is", e));
        t->external = f->value == 1;
        return LAM_OK;
    default: return LAM_OK;
    }
}

/* The bytes that elements of this type and shape take in raw_data; false: unknown. */
bool lmi_onnx_raw_bytes(const lmi_onnx_value *v, uint64_t *out) {
    int64_t n, all;
    const int32_t each = lmi_onnx_bits(v->type);
    if (v->ndim < 0 || each == 0 || !lmi_product(v->sizes, v->ndim, &n)) return false;
    if (lmi_mul_over(n, (int64_t)each, &all) || lmi_add_over(all, 7, &all)) return false;
    *out = (uint64_t)all / 8;
    return true;
}

static lam_status place(lmi_onnx_reader *r, const lmi_field *of, const tensor_data *t, lmi_onnx_value *out,
                        const char *name, lam_error *e) {
    uint64_t need = 0;
    const bool known = lmi_onnx_raw_bytes(out, &need);
    out->bytes = known ? need : 0;
    if (t->external) {
        out->where = LMI_ONNX_EXTERNAL;
    } else if (t->raw) {
        if (!known && out->type != LMI_ONNX_NO_TYPE)
            return lmi_onnx_bad(r, of->at, e, "tensor '%s' has data, but its type or shape can't have any",
                                name);
        if (known && need != t->raw_bytes)
            return lmi_onnx_bad(r, of->at, e, "tensor '%s' has %llu bytes, and its type and shape take %llu",
                                name, (unsigned long long)t->raw_bytes, (unsigned long long)need);
        out->where = LMI_ONNX_RAW;
        out->at = t->raw_at;
        out->bytes = t->raw_bytes;
    } else if (t->fields) {
        out->where = LMI_ONNX_FIELDS;
        out->at = of->start;
        out->bytes = of->end - of->start;
    } else if (known && need == 0) {
        out->where = LMI_ONNX_MEMORY;
        out->memory = "";
    }
    return LAM_OK;
}

static lam_status dense(lmi_onnx_reader *r, const lmi_field *of, lmi_vec *dims, lmi_onnx_value *out,
                        const char **name, lam_error *e) {
    lmi_field f = {0};
    tensor_data t = {0};
    bool more;
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "a tensor", e));
    for (;;) {
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) break;
        LAM_TRY(one_field(r, &f, dims, out, &t, name, e));
    }
    LAM_TRY(put_sizes(r, dims, out, of->at, e));
    return place(r, of, &t, out, *name, e);
}

static lam_status sparse_of(lmi_onnx_reader *r, const lmi_field *of, lmi_vec *dims, lmi_onnx_value *out,
                            const char **name, lam_error *e) {
    lmi_field f = {0};
    lmi_vec inner;
    bool more;
    LAM_TRY(lmi_wire_is(&r->c, of, LMI_WIRE_LENGTH, "a sparse tensor", e));
    for (;;) {
        lam_status s = LAM_OK;
        LAM_TRY(lmi_wire_next(&r->c, of->end, &f, &more, e));
        if (!more) break;
        if (f.number == 1) {
            lmi_vec_init(&inner, sizeof(int64_t));
            s = dense(r, &f, &inner, out, name, e);
            lmi_vec_free(&inner);
        } else if (f.number == 3) {
            s = lmi_wire_ints(&r->c, &f, dims, LMI_ONNX_MOST_AXES, "axes of a tensor", e);
        }
        LAM_TRY(s);
    }
    LAM_TRY(put_sizes(r, dims, out, of->at, e));
    out->where = LMI_ONNX_SPARSE;
    out->at = of->start;
    out->bytes = of->end - of->start;
    return LAM_OK;
}

lam_status lmi_onnx_tensor_read(lmi_onnx_reader *r, const lmi_field *of, bool sparse, lmi_onnx_value *out,
                                const char **name, lam_error *e) {
    lmi_vec dims;
    *out = (lmi_onnx_value){.name = "", .ndim = -1, .producer = -1};
    *name = "";
    lmi_vec_init(&dims, sizeof(int64_t));
    lam_status s = sparse ? sparse_of(r, of, &dims, out, name, e) : dense(r, of, &dims, out, name, e);
    lmi_vec_free(&dims);
    return s;
}

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
