/* SPDX-License-Identifier: Apache-2.0
 * What the rules of inference share: arguments, results, lists of integers, elements, sizes. */
#include "read/onnx/infer.h"

#include <math.h>

void lmi_out_of_memory(lmi_infer *c) {
    if (c->bad == LAM_OK) c->bad = lmi_nomem(c->e);
}

static int32_t index_of(const lmi_infer *c, const lmi_onnx_value *v) {
    return (int32_t)(v - (const lmi_onnx_value *)c->m->values.data);
}

lmi_value_known *lmi_known_of(const lmi_infer *c, const lmi_onnx_value *v) {
    return &c->known[index_of(c, v)];
}

/* -- arguments ------------------------------------------------------------------------------------------- */

const lmi_onnx_value *lmi_arg(const lmi_node_at *s, int32_t i) {
    const char *in = s->rule->in;
    if (!*in) return lmi_onnx_in(s->all->m, s->n, i);
    return i < (int32_t)strlen(in) ? lmi_onnx_in(s->all->m, s->n, in[i] - '0') : NULL;
}

int32_t lmi_n_args(const lmi_node_at *s) { return *s->rule->in ? (int32_t)strlen(s->rule->in) : s->n->n_in; }

const lmi_onnx_value *lmi_shaped(lmi_node_at *s, int32_t i) {
    const lmi_onnx_value *v = lmi_arg(s, i);
    if (v && v->ndim >= 0) return v;
    if (!s->why) s->why = v ? "the shape of an argument is unknown" : "an argument is missing";
    return NULL;
}

bool lmi_whole(const lmi_onnx_value *v) {
    for (int32_t i = 0; i < v->ndim; i++)
        if (v->sizes[i] < 0) return false;
    return v->ndim >= 0;
}

/* -- results --------------------------------------------------------------------------------------------- */

void lmi_set_sizes(lmi_infer *c, lmi_onnx_value *v, int32_t ndim, const int64_t *sizes) {
    lmi_value_known *known = lmi_known_of(c, v);
    if (!known->own || known->room < ndim) {
        known->own = lmi_alloc(&c->m->arena, (uint64_t)ndim, sizeof *known->own);
        known->room = known->own ? ndim : 0;
        if (!known->own) {
            lmi_out_of_memory(c);
            return;
        }
    }
    for (int32_t i = 0; i < ndim; i++) known->own[i] = sizes[i] < 0 ? -1 : sizes[i];
    v->ndim = ndim;
    v->sizes = known->own;
}

void lmi_set(lmi_node_at *s, int32_t k, int32_t ndim, const int64_t *sizes) {
    lmi_onnx_value *v = lmi_onnx_out(s->all->m, s->n, k);
    if (v && ndim >= 0 && ndim <= LMI_ONNX_MOST_AXES) lmi_set_sizes(s->all, v, ndim, sizes);
}

void lmi_set_as(lmi_node_at *s, int32_t k, const lmi_onnx_value *v) {
    if (v && v->ndim >= 0) lmi_set(s, k, v->ndim, v->sizes);
}

void lmi_set_scalar(lmi_node_at *s, int32_t k) { lmi_set(s, k, 0, NULL); }

void lmi_set_axes(lmi_node_at *s, int32_t k, int32_t ndim) {
    int64_t sizes[LMI_ONNX_MOST_AXES];
    for (int32_t i = 0; i < LMI_ONNX_MOST_AXES; i++) sizes[i] = -1;
    lmi_set(s, k, ndim, sizes);
}

void lmi_set_type(lmi_node_at *s, int32_t k, int32_t type) {
    lmi_onnx_value *v = lmi_onnx_out(s->all->m, s->n, k);
    if (v && type > 0 && type < LMI_ONNX_N_TYPES) v->type = type;
}

/* -- sizes ----------------------------------------------------------------------------------------------- */

int64_t lmi_size_times(int64_t a, int64_t b) { return a == 0 || b == 0 ? 0 : lmi_times(a, b); }

int64_t lmi_size_all(const int64_t *sizes, int32_t n) {
    int64_t all = 1;
    for (int32_t i = 0; i < n; i++) all = lmi_size_times(all, sizes[i]);
    return all;
}

bool lmi_broadcast_size(int64_t *to, int64_t size) {
    if (*to == size || size == 1) return true;
    if (*to == 1)
        *to = size;
    else if (*to < 0)
        *to = size < 0 ? -1 : size; /* it is 1 or this size, since the file is valid */
    else if (size >= 0)
        return false;
    return true;
}

bool lmi_broadcast(lmi_shape *to, int32_t ndim, const int64_t *sizes) {
    if (ndim < 0 || ndim > LMI_ONNX_MOST_AXES) return false;
    int32_t more = ndim - to->ndim;
    if (more > 0) {
        memmove(to->at + more, to->at, (size_t)to->ndim * sizeof *to->at);
        for (int32_t i = 0; i < more; i++) to->at[i] = 1;
        to->ndim = ndim;
    }
    for (int32_t i = 0; i < ndim; i++)
        if (!lmi_broadcast_size(&to->at[to->ndim - ndim + i], sizes[i])) return false;
    return true;
}

/* -- elements -------------------------------------------------------------------------------------------- */

bool lmi_is_real(int32_t type) {
    switch (type) {
    case LMI_ONNX_FLOAT:
    case LMI_ONNX_DOUBLE:
    case LMI_ONNX_FLOAT16:
    case LMI_ONNX_BFLOAT16: return true;
    default: return false;
    }
}

/* Rounds to `bits` of fraction, half to even, with 2^`least` the smallest normal number. */
static double rounded(double f, int bits, int least) {
    int exponent;
    if (f == 0 || !isfinite(f)) return f;
    frexp(f, &exponent);
    if (exponent - 1 < least) exponent = least + 1;
    return ldexp(nearbyint(ldexp(f, bits + 1 - exponent)), exponent - bits - 1);
}

bool lmi_fit_real(int32_t type, double *f) {
    switch (type) {
    case LMI_ONNX_DOUBLE: return true;
    case LMI_ONNX_FLOAT: *f = (double)(float)*f; return true;
    case LMI_ONNX_BFLOAT16: *f = rounded(*f, 7, -126); return fabs(*f) <= 0x1.fep127;
    case LMI_ONNX_FLOAT16: *f = rounded(*f, 10, -14); return fabs(*f) <= 65504;
    default: return false;
    }
}

bool lmi_fit_int(int32_t type, int64_t *i) {
    int32_t bits = lmi_onnx_bits(type);
    switch (type) {
    case LMI_ONNX_INT64: return true;
    case LMI_ONNX_UINT64: return *i >= 0; /* larger ones are not followed */
    case LMI_ONNX_BOOL: *i = *i != 0; return true;
    case LMI_ONNX_UINT2:
    case LMI_ONNX_UINT4:
    case LMI_ONNX_UINT8:
    case LMI_ONNX_UINT16:
    case LMI_ONNX_UINT32: *i &= (INT64_C(1) << bits) - 1; return true;
    case LMI_ONNX_INT2:
    case LMI_ONNX_INT4:
    case LMI_ONNX_INT8:
    case LMI_ONNX_INT16:
    case LMI_ONNX_INT32: {
        int64_t half = INT64_C(1) << (bits - 1);
        *i = ((*i & (2 * half - 1)) ^ half) - half;
        return true;
    }
    default: return false;
    }
}

static double half_of(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double f = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return bits >> 15 ? -f : f;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double double_of(uint64_t bits) {
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

void lmi_real_bits(int32_t type, double f, uint64_t *out) {
    if (type == LMI_ONNX_DOUBLE)
        memcpy(out, &f, sizeof *out);
    else if (type == LMI_ONNX_FLOAT16) {
        uint64_t sign = signbit(f) ? 0x8000 : 0;
        if (isnan(f))
            *out = 0x7e00;
        else if (isinf(f))
            *out = sign | 0x7c00;
        else if (fabs(f) < 0x1p-14)
            *out = sign | (uint64_t)(fabs(f) * 0x1p24);
        else {
            int exponent;
            double fraction = frexp(fabs(f), &exponent); /* 0.5 <= fraction < 1 */
            *out = sign | ((uint64_t)(exponent + 14) << 10) | ((uint64_t)(fraction * 2048) & 1023);
        }
    } else {
        float narrow = (float)f;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        *out = type == LMI_ONNX_BFLOAT16 ? bits >> 16 : bits;
    }
}

/* The i-th element of a constant, as raw_data holds it. */
static lmi_cell cell_of(int32_t type, const unsigned char *raw, int64_t i) {
    int32_t bits = lmi_onnx_bits(type);
    lmi_cell c = {.known = true};
    if (bits < 8) {
        int64_t each = 8 / bits;
        c.i = raw[i / each] >> (i % each * bits);
        c.known = lmi_fit_int(type, &c.i);
        return c;
    }
    const unsigned char *at = raw + i * (bits / 8);
    uint64_t u = bits == 8 ? *at : bits == 16 ? lmi_le16(at) : bits == 32 ? lmi_le32(at) : lmi_le64(at);
    if (type == LMI_ONNX_DOUBLE)
        c.f = double_of(u);
    else if (type == LMI_ONNX_FLOAT)
        c.f = (double)float_of((uint32_t)u);
    else if (type == LMI_ONNX_FLOAT16)
        c.f = half_of((uint16_t)u);
    else if (type == LMI_ONNX_BFLOAT16)
        c.f = (double)float_of((uint32_t)u << 16);
    else {
        c.i = (int64_t)u;
        c.known = lmi_fit_int(type, &c.i);
    }
    return c;
}

static bool has_cells(int32_t type) {
    int64_t zero = 0;
    return lmi_is_real(type) || lmi_fit_int(type, &zero);
}

bool lmi_afford(lmi_infer *c, int64_t n) {
    if (n > LMI_FEW_CELLS && c->effort < n) return false;
    if (n > LMI_FEW_CELLS) c->effort -= n;
    return true;
}

lmi_cell *lmi_cells_new(lmi_infer *c, int64_t n) {
    int64_t *left = n > LMI_FEW_CELLS ? &c->many : &c->few[c->loops > 0];
    if (n > LMI_MOST_CELLS || n > *left || !lmi_afford(c, n)) return NULL;
    lmi_cell *cells = lmi_alloc(&c->scratch, (uint64_t)n, sizeof *cells);
    if (!cells) lmi_out_of_memory(c);
    *left -= n;
    return cells;
}

const lmi_cell *lmi_cells(lmi_infer *c, const lmi_onnx_value *v) {
    int64_t n;
    if (!v || v->kind != LMI_ONNX_TENSOR) return NULL;
    lmi_value_known *known = lmi_known_of(c, v);
    if (known->cells || known->looked || v->where == LMI_ONNX_NOWHERE) return known->cells;
    known->looked = true;
    if (!lmi_few(v, &n) || !has_cells(v->type)) return NULL;
    if (n > c->many && n > LMI_FEW_CELLS) return NULL;
    if (lmi_is_real(v->type) && n > LMI_MOST_REALS) return NULL;
    const void *raw = NULL;
    lmi_onnx_value *own = &((lmi_onnx_value *)c->m->values.data)[index_of(c, v)];
    lam_status status = lmi_onnx_elements(c->m, own, (uint64_t)LMI_MOST_CELLS * 8, &raw, c->e);
    if (status != LAM_OK && c->bad == LAM_OK) c->bad = status;
    if (status != LAM_OK || (!raw && n)) return NULL;
    lmi_cell *cells = lmi_cells_new(c, n);
    for (int64_t i = 0; cells && i < n; i++) cells[i] = cell_of(v->type, raw, i);
    return known->cells = cells;
}

void lmi_cells_set(lmi_node_at *s, int32_t k, const lmi_cell *cells) {
    const lmi_onnx_value *v = lmi_onnx_out(s->all->m, s->n, k);
    if (v) lmi_known_of(s->all, v)->cells = cells;
}

/* -- lists of integers ----------------------------------------------------------------------------------- */

lmi_ints lmi_list(lmi_node_at *s, const char *attr, int32_t input) {
    lmi_ints out = {0};
    const lmi_onnx_attribute *a = attr ? lmi_onnx_attr(s->n, attr) : NULL;
    if (a && (a->type == 7 || a->type == 2)) {
        out.given = true;
        out.n = a->type == 2 ? 1 : a->n <= LMI_MOST_INTS ? a->n : -1;
        out.all = out.n >= 0;
        for (int32_t i = 0; i < out.n; i++) {
            out.at[i] = a->type == 2 ? a->i : a->ints[i];
            out.known[i] = true;
        }
        return out;
    }
    const lmi_onnx_value *v = input >= 0 ? lmi_onnx_in(s->all->m, s->n, input) : NULL;
    out.all = !v;
    if (!v) return out;
    out.given = true;
    out.n = v->ndim == 0 ? 1 : v->ndim == 1 && v->sizes[0] <= LMI_MOST_INTS ? (int32_t)v->sizes[0] : -1;
    const lmi_cell *cells = lmi_is_real(v->type) ? NULL : lmi_cells(s->all, v);
    out.all = cells && out.n >= 0;
    for (int32_t i = 0; cells && i < out.n; i++) {
        out.at[i] = cells[i].i;
        out.known[i] = cells[i].known;
        out.all = out.all && out.known[i];
    }
    if (!out.all && !s->why) s->why = "it depends on values that are known only when the model runs";
    return out;
}

int64_t lmi_nth(const lmi_node_at *s, const char *attr, int32_t i, int64_t otherwise) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, attr);
    return a && a->type == 7 && i >= 0 && i < a->n ? a->ints[i] : otherwise;
}

bool lmi_one(lmi_node_at *s, const char *attr, int32_t input, int64_t otherwise, int64_t *out) {
    lmi_ints list = lmi_list(s, attr, input);
    *out = otherwise;
    if (!list.given) return true;
    if (list.n != 1 || !list.all) return false;
    *out = list.at[0];
    return true;
}

bool lmi_attr_is(const lmi_node_at *s, const char *attr, const char *text) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, attr);
    return a && a->s && strcmp(a->s, text) == 0;
}
