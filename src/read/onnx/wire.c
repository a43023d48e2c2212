/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of protocol buffers. */
#include "read/onnx/wire.h"

#include <stdio.h>

enum { VARINT_BYTES = 10 }; /* the most that 64 bits take */

static lam_status bad(const lmi_cursor *c, uint64_t at, const char *what, lam_error *e) {
    return lmi_bytes_bad(c->of, at, e, what);
}

lam_status lmi_wire_varint(lmi_cursor *c, uint64_t end, uint64_t *out, lam_error *e) {
    const uint64_t at = c->at;
    uint64_t n = 0;
    for (int i = 0;; i++) {
        const unsigned char *p;
        if (c->at >= end) return bad(c, at, "a number that does not end in its message,", e);
        LAM_TRY(lmi_cursor_take(c, 1, &p, e));
        if (i == VARINT_BYTES - 1 && *p > 1) return bad(c, at, "a number of more than 64 bits", e);
        n |= (uint64_t)(*p & 0x7f) << 7 * i;
        if (*p < 0x80) return *out = n, LAM_OK;
    }
}

static lam_status fixed(lmi_cursor *c, uint64_t end, size_t n, uint64_t *out, lam_error *e) {
    const unsigned char *p;
    if (end - c->at < n) return bad(c, c->at, "a number that does not end in its message,", e);
    LAM_TRY(lmi_cursor_take(c, n, &p, e));
    *out = n == 4 ? lmi_le32(p) : lmi_le64(p);
    return LAM_OK;
}

static lam_status content(lmi_cursor *c, uint64_t end, lmi_field *f, lam_error *e) {
    uint64_t n;
    switch (f->type) {
    case LMI_WIRE_VARINT: return lmi_wire_varint(c, end, &f->value, e);
    case LMI_WIRE_8_BYTES: return fixed(c, end, 8, &f->value, e);
    case LMI_WIRE_4_BYTES: return fixed(c, end, 4, &f->value, e);
    case LMI_WIRE_LENGTH: break;
    default: return bad(c, f->at, "a field of a kind that ONNX does not use, such as a group,", e);
    }
    LAM_TRY(lmi_wire_varint(c, end, &n, e));
    if (n > end - c->at) return bad(c, f->at, "a field that is longer than its message,", e);
    f->start = c->at;
    f->end = c->at + n;
    return LAM_OK;
}

lam_status lmi_wire_next(lmi_cursor *c, uint64_t end, lmi_field *f, bool *more, lam_error *e) {
    uint64_t key;
    if (f->number && f->type == LMI_WIRE_LENGTH) LAM_TRY(lmi_cursor_skip(c, f->end - c->at, e));
    *f = (lmi_field){.at = c->at};
    *more = c->at < end;
    if (!*more) return LAM_OK;
    LAM_TRY(lmi_wire_varint(c, end, &key, e));
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) return bad(c, f->at, "a field without a number", e);
    f->number = (uint32_t)(key >> 3);
    f->type = (uint32_t)(key & 7);
    return content(c, end, f, e);
}

lam_status lmi_wire_is(const lmi_cursor *c, const lmi_field *f, lmi_wire_type type, const char *what,
                       lam_error *e) {
    char text[96];
    if (f->type == (uint32_t)type) return LAM_OK;
    snprintf(text, sizeof text, "%s of another kind than ONNX's", what);
    return bad(c, f->at, text, e);
}

lam_status lmi_wire_text(lmi_cursor *c, const lmi_field *f, lmi_arena *a, const char **out, lam_error *e) {
    const unsigned char *p;
    const uint64_t n = f->end - f->start;
    *out = "";
    LAM_TRY(lmi_wire_is(c, f, LMI_WIRE_LENGTH, "a text", e));
    if (n > LMI_PIECE || n == 0) return LAM_OK;
    LAM_TRY(lmi_cursor_take(c, (size_t)n, &p, e));
    *out = lmi_strndup(a, (const char *)p, (size_t)n);
    return *out ? LAM_OK : lmi_nomem(e);
}

static lam_status too_many(const lmi_cursor *c, const lmi_field *f, size_t most, const char *what,
                           lam_error *e) {
    return lmi_fail(e, LAM_LIMIT, c->of->name, "it has more than %zu %s, at byte %llu", most, what,
                    (unsigned long long)f->at);
}

lam_status lmi_wire_ints(lmi_cursor *c, const lmi_field *f, lmi_vec *out, size_t most, const char *what,
                         lam_error *e) {
    uint64_t n = 0;
    if (f->type == LMI_WIRE_VARINT) {
        const int64_t one = (int64_t)f->value;
        return out->n < most ? lmi_vec_put(out, &one, e) : too_many(c, f, most, what, e);
    }
    LAM_TRY(lmi_wire_is(c, f, LMI_WIRE_LENGTH, what, e));
    while (c->at < f->end) {
        LAM_TRY(lmi_wire_varint(c, f->end, &n, e));
        const int64_t one = (int64_t)n;
        if (out->n >= most) return too_many(c, f, most, what, e);
        LAM_TRY(lmi_vec_put(out, &one, e));
    }
    return LAM_OK;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

lam_status lmi_wire_floats(lmi_cursor *c, const lmi_field *f, lmi_vec *out, size_t most, const char *what,
                           lam_error *e) {
    uint64_t n = 0;
    if (f->type == LMI_WIRE_4_BYTES) {
        const float one = float_of((uint32_t)f->value);
        return out->n < most ? lmi_vec_put(out, &one, e) : too_many(c, f, most, what, e);
    }
    LAM_TRY(lmi_wire_is(c, f, LMI_WIRE_LENGTH, what, e));
    while (c->at < f->end) {
        LAM_TRY(fixed(c, f->end, 4, &n, e));
        const float one = float_of((uint32_t)n);
        if (out->n >= most) return too_many(c, f, most, what, e);
        LAM_TRY(lmi_vec_put(out, &one, e));
    }
    return LAM_OK;
}
