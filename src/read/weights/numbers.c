/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a file as numbers, of each type that is known. */
#include "model/values.h"
#include "read/weights/weights.h"

#include <math.h>

/* A type of GGUF whose blocks are known, of some elements and bytes; the others are torch's. */
static bool find_block(const char *name, lmi_stored_type *out) {
#define TYPE(number, text, n, size, torch)                                                                   \
    if (n > 1 && strcmp(name, text) == 0) {                                                                  \
        *out = (lmi_stored_type){.name = text, .elements = n, .bytes = size, .dtype = -1};                   \
        return true;                                                                                         \
    }
#include "read/gguf/types.def"
#undef TYPE
    return false;
}

lmi_stored_type lmi_stored_type_of(const lmi_stored_tensor *x) {
    lmi_stored_type type = {.name = x->raw.type, .elements = 1, .bytes = 1, .dtype = -1, .opaque = true};
    const int32_t bits = x->raw.dtype >= 0 ? lam_dtype_bits(x->raw.dtype) : 0;
    if (bits > 0 && bits % 8 == 0)
        return (
            lmi_stored_type){.name = x->raw.type, .elements = 1, .bytes = bits / 8, .dtype = x->raw.dtype};
    if (x->raw.dtype < 0 && find_block(x->raw.type, &type)) type.values = lmi_block_of(type.name);
    return type;
}

/* Whole numbers: 'i', signed; 'u', unsigned, as bool is; else 0. */
static char sign_of(int32_t dtype) {
    static const char *const names[] = {"int8",   "int16",  "int32",  "int64", "uint8",
                                        "uint16", "uint32", "uint64", "bool"};
    const char *name = lam_dtype_name(dtype);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return *name == 'i' ? 'i' : 'u';
    return 0;
}

bool lmi_is_number(const lmi_stored_type *type) {
    if (type->dtype < 0) return type->values != NULL;
    const lmi_form *f = lmi_form_of(type->dtype);
    return f ? f->parts == 1 : sign_of(type->dtype) != 0;
}

bool lmi_is_wide(const lmi_stored_type *type) {
    return type->dtype >= 0 && type->bytes == 8 && !lmi_form_of(type->dtype) && sign_of(type->dtype);
}

/* -- floating-point types -------------------------------------------------------------------------------- */

static double value_of(uint64_t bits, const lmi_form *f) {
    const bool minus = (bits & f->sign) != 0;
    if ((bits & f->mask) == f->want && (f->fraction == 0 || (bits & f->fraction))) return NAN;
    if ((bits & f->mask) == f->want) return minus ? -INFINITY : INFINITY;
    if (!f->sign) return ldexp(1, (int)bits - 127); /* an exponent alone */
    const uint32_t shifted = (uint32_t)(bits & ~f->sign) << f->shift;
    float v;
    memcpy(&v, &shifted, sizeof v);
    return (minus ? -1 : 1) * ldexp((double)v, f->scale);
}

static void bytes_of_floats(const unsigned char *p, int64_t n, const lmi_form *f, double *to) {
    double table[256];
    for (unsigned i = 0; i < 256; i++) table[i] = value_of(i, f);
    for (int64_t i = 0; i < n; i++) to[i] = table[p[i]];
}

/* The exponent of a finite number is at most 30, so that of 2^112 times the shifted bits is right; of others
 * it is set to that of an infinity or NaN. */
static void halves(const unsigned char *p, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, p + 2 * i, sizeof bits);
        uint32_t wide = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
        float v;
        memcpy(&v, &wide, sizeof v);
        v *= 0x1p112f;
        memcpy(&wide, &v, sizeof v);
        wide |= (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
        wide |= sign;
        memcpy(&v, &wide, sizeof v);
        to[i] = (double)v;
    }
}

static void brains(const unsigned char *p, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, p + 2 * i, sizeof bits);
        const uint32_t wide = (uint32_t)bits << 16;
        float v;
        memcpy(&v, &wide, sizeof v);
        to[i] = (double)v;
    }
}

static void floats(const unsigned char *p, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, p + 4 * i, sizeof v);
        to[i] = (double)v;
    }
}

static void of_form(const lmi_form *f, const unsigned char *p, int64_t n, double *to) {
    if (f->bytes == 8)
        memcpy(to, p, (size_t)n * sizeof *to);
    else if (f->bytes == 4)
        floats(p, n, to);
    else if (f->bytes == 1)
        bytes_of_floats(p, n, f, to);
    else if (f->scale)
        halves(p, n, to);
    else
        brains(p, n, to);
}

/* -- all types ------------------------------------------------------------------------------------------- */

static double whole(const unsigned char *p, int32_t bytes, bool is_signed) {
    const uint64_t v = bytes == 1 ? *p : bytes == 2 ? lmi_le16(p) : bytes == 4 ? lmi_le32(p) : lmi_le64(p);
    if (!is_signed) return (double)v;
    return bytes == 1   ? (double)(int8_t)v
           : bytes == 2 ? (double)(int16_t)v
           : bytes == 4 ? (double)(int32_t)v
                        : (double)(int64_t)v;
}

void lmi_stored_numbers(const lmi_stored_type *type, const unsigned char *bytes, int64_t n, double *to) {
    if (type->dtype < 0) {
        for (int64_t i = 0; i < n / type->elements; i++)
            type->values(bytes + i * type->bytes, to + i * type->elements);
        return;
    }
    const lmi_form *f = lmi_form_of(type->dtype);
    if (f) {
        of_form(f, bytes, n, to);
        return;
    }
    const bool is_signed = sign_of(type->dtype) == 'i';
    for (int64_t i = 0; i < n; i++) to[i] = whole(bytes + i * type->bytes, type->bytes, is_signed);
}
