/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN and Inf in memory, at the speed of memory. A number is not finite when all bits of its exponent are
 * set, so the search compares whole words as integers: no number is interpreted until a block of them is
 * known to hold something. The widest vectors of the processor that runs are chosen at the first call. */
#include "model/model.h"

enum { WIDE = 64, BLOCK = 4096, MAX_DIMS = 64 };

/* -- what each type's bits mean -------------------------------------------------------------------------- */

typedef struct form {
    int32_t dtype, bytes;
    uint64_t mask, want; /* (bits & mask) == want: not finite */
    uint64_t fraction;   /* of those, it is a NaN if one of these is set; 0: always a NaN */
    int32_t parts;       /* numbers an element: 2 for complex ones */
} form;

static const form forms[] = {
    {7, 8, 0x7FF0000000000000u, 0x7FF0000000000000u, 0x000FFFFFFFFFFFFFu, 1},  /* float64 */
    {6, 4, 0x7F800000u, 0x7F800000u, 0x007FFFFFu, 1},                          /* float32 */
    {5, 2, 0x7C00u, 0x7C00u, 0x03FFu, 1},                                      /* float16 */
    {15, 2, 0x7F80u, 0x7F80u, 0x007Fu, 1},                                     /* bfloat16 */
    {23, 1, 0x7Cu, 0x7Cu, 0x03u, 1},                                           /* float8_e5m2 */
    {24, 1, 0x7Fu, 0x7Fu, 0, 1},                                               /* float8_e4m3fn: no Inf */
    {25, 1, 0xFFu, 0x80u, 0, 1},                                               /* float8_e5m2fnuz: no Inf */
    {26, 1, 0xFFu, 0x80u, 0, 1},                                               /* float8_e4m3fnuz: no Inf */
    {44, 1, 0xFFu, 0xFFu, 0, 1},                                               /* float8_e8m0fnu: no Inf */
    {8, 2, 0x7C00u, 0x7C00u, 0x03FFu, 2},                                      /* complex32 */
    {9, 4, 0x7F800000u, 0x7F800000u, 0x007FFFFFu, 2},                          /* complex64 */
    {10, 8, 0x7FF0000000000000u, 0x7FF0000000000000u, 0x000FFFFFFFFFFFFFu, 2}, /* complex128 */
};

static const form *form_of(int32_t dtype) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].dtype == dtype) return &forms[i];
    return NULL;
}

/* -- is there anything in a run of bytes? ---------------------------------------------------------------- */

/* One function a width and a processor. Every vector is compared, and a block is looked at once it is done:
 * to leave earlier would cost a branch a vector. Bytes after the last vector are taken with it again, or
 * one by one in a run that is shorter than a vector. */
#define BODY(T)                                                                                              \
    typedef T vec __attribute__((vector_size(WIDE)));                                                        \
    const T mask = (T)f->mask, want = (T)f->want;                                                            \
    if (n < WIDE) {                                                                                          \
        bool bad = false;                                                                                    \
        for (size_t i = 0; i < n; i += sizeof(T)) {                                                          \
            T v;                                                                                             \
            memcpy(&v, p + i, sizeof v);                                                                     \
            bad |= (T)(v & mask) == want;                                                                    \
        }                                                                                                    \
        return bad;                                                                                          \
    }                                                                                                        \
    for (size_t from = 0; from < n; from += BLOCK) {                                                         \
        size_t end = n - from < BLOCK ? n : from + BLOCK;                                                    \
        vec all = {0};                                                                                       \
        for (size_t i = from; i + WIDE <= end; i += WIDE) {                                                  \
            vec v;                                                                                           \
            memcpy(&v, p + i, WIDE);                                                                         \
            all |= (vec)((v & mask) == want);                                                                \
        }                                                                                                    \
        if (end == n) {                                                                                      \
            vec v;                                                                                           \
            memcpy(&v, p + n - WIDE, WIDE);                                                                  \
            all |= (vec)((v & mask) == want);                                                                \
        }                                                                                                    \
        uint64_t words[WIDE / 8], any = 0;                                                                   \
        memcpy(words, &all, WIDE);                                                                           \
        for (size_t i = 0; i < WIDE / 8; i++) any |= words[i];                                               \
        if (any) return true;                                                                                \
    }                                                                                                        \
    return false;

#define SEARCHES(cpu, attribute)                                                                             \
    attribute static bool cpu##8(const char *p, size_t n, const form *f){                                    \
        BODY(uint8_t)} attribute static bool cpu##16(const char *p, size_t n, const form *f){                \
        BODY(uint16_t)} attribute static bool cpu##32(const char *p, size_t n, const form *f){               \
        BODY(uint32_t)} attribute static bool cpu##64(const char *p, size_t n, const form *f) {              \
        BODY(uint64_t)                                                                                       \
    }

typedef bool search(const char *p, size_t n, const form *f);

SEARCHES(plain, )
#if defined(__x86_64__) && defined(__GNUC__)
SEARCHES(avx2_, __attribute__((target("avx2"))))
SEARCHES(avx512_, __attribute__((target("avx512f,avx512bw"))))
#endif

/* Of numbers of 1, 2, 4 and 8 bytes. */
static search *search_for(int32_t bytes) {
    static search *const plain[] = {plain8, plain16, plain32, plain64};
    int at = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
#if defined(__x86_64__) && defined(__GNUC__)
    static search *const avx2[] = {avx2_8, avx2_16, avx2_32, avx2_64};
    static search *const avx512[] = {avx512_8, avx512_16, avx512_32, avx512_64};
    if (__builtin_cpu_supports("avx512bw")) return avx512[at];
    if (__builtin_cpu_supports("avx2")) return avx2[at];
#endif
    return plain[at];
}

/* -- how many ---------------------------------------------------------------------------------------- */

static uint64_t bits_at(const char *p, int32_t bytes) {
    uint64_t v = 0; /* little-endian, as every machine that torch runs on */
    memcpy(&v, p, (size_t)bytes);
    return v;
}

static void count_one(const char *p, const form *f, int64_t times, lam_nonfinite *to) {
    uint64_t bits = bits_at(p, f->bytes);
    if ((bits & f->mask) != f->want) return;
    if (f->fraction == 0 || (bits & f->fraction) != 0)
        to->nan += times;
    else
        to->inf += times;
}

/* A contiguous run of numbers. Blocks without anything are never looked at one by one. */
static void count_run(const char *p, size_t n, const form *f, search *any, int64_t times, lam_nonfinite *to) {
    for (size_t from = 0; from < n; from += BLOCK) {
        size_t size = n - from < BLOCK ? n - from : BLOCK;
        if (!any(p + from, size, f)) continue;
        for (size_t i = 0; i < size; i += (size_t)f->bytes) count_one(p + from + i, f, times, to);
    }
}

/* -- strided arrays -------------------------------------------------------------------------------------- */

typedef struct layout {
    int32_t n;
    int64_t size[MAX_DIMS], step[MAX_DIMS]; /* steps in bytes, widest first */
    int64_t times;                          /* how often each number is seen: axes of step 0 */
} layout;

static void put_axis(layout *l, int64_t size, int64_t step) {
    int32_t at = l->n++;
    for (; at > 0 && l->step[at - 1] < step; at--) {
        l->size[at] = l->size[at - 1];
        l->step[at] = l->step[at - 1];
    }
    l->size[at] = size;
    l->step[at] = step;
}

/* Axes in the order of memory, neighbours that follow on each other as one. */
static void merge(layout *l) {
    int32_t n = 0;
    for (int32_t i = 1; i < l->n; i++) {
        if (l->step[n] == l->step[i] * l->size[i]) {
            l->size[n] *= l->size[i];
            l->step[n] = l->step[i];
        } else {
            n++;
            l->size[n] = l->size[i];
            l->step[n] = l->step[i];
        }
    }
    l->n = l->n ? n + 1 : 0;
}

static lam_status layout_of(const lam_values *v, const form *f, layout *l, lam_error *e) {
    int64_t step = 1, bytes = (int64_t)f->bytes * f->parts, count;
    *l = (layout){.times = 1};
    if (v->ndim < 0 || v->ndim >= MAX_DIMS)
        return lmi_fail(e, LAM_RANGE, "lam_values_scan", "%d axes; there may be 0 to %d", v->ndim,
                        MAX_DIMS - 1);
    if (!lmi_product(v->sizes, v->ndim, &count) || lmi_mul_over(count, bytes, &count))
        return lmi_fail(e, LAM_RANGE, "lam_values_scan", "the sizes are negative or too large");
    for (int32_t i = v->ndim - 1; i >= 0; i--) {
        int64_t size = v->sizes[i], stride = v->strides ? v->strides[i] : step;
        if (size == 0) l->times = 0;
        if (stride < 0 || lmi_mul_over(stride, bytes, &stride))
            return lmi_fail(e, LAM_RANGE, "lam_values_scan", "a step is negative or too large");
        if (stride == 0 && size > 0) l->times *= size;
        if (stride > 0 && size > 1) put_axis(l, size, stride);
        step *= size ? size : 1;
    }
    if (f->parts > 1) put_axis(l, f->parts, f->bytes);
    merge(l);
    return LAM_OK;
}

/* Rows of numbers: a run each where they lie side by side. */
static void count_rows(const char *p, const layout *l, const form *f, search *any, lam_nonfinite *to) {
    int32_t last = l->n - 1;
    int64_t rows = l->n > 1 ? l->size[last - 1] : 1, row_step = l->n > 1 ? l->step[last - 1] : 0;
    int64_t wide = l->n ? l->size[last] : 1, step = l->n ? l->step[last] : f->bytes;
    for (int64_t r = 0; r < rows; r++, p += row_step) {
        if (step == f->bytes)
            count_run(p, (size_t)(wide * step), f, any, l->times, to);
        else
            for (int64_t i = 0; i < wide; i++) count_one(p + i * step, f, l->times, to);
    }
}

lam_status lam_values_scan(const lam_values *v, lam_nonfinite *out, lam_error *e) {
    layout l;
    *out = (lam_nonfinite){0, 0};
    const form *f = form_of(v->dtype);
    if (!f) {
        if (lam_dtype_bits(v->dtype) > 0) return LAM_OK; /* every other type has finite values only */
        return lmi_fail(e, LAM_UNSUPPORTED, "lam_values_scan", "there is no scalar type %d", (int)v->dtype);
    }
    LAM_TRY(layout_of(v, f, &l, e));
    if (l.times == 0) return LAM_OK;
    if (!v->data) return lmi_fail(e, LAM_USAGE, "lam_values_scan", "there is no memory to look at");
    search *any = search_for(f->bytes);
    int64_t at[MAX_DIMS] = {0};
    const char *p = v->data;
    for (int32_t outer = l.n - 3;;) { /* counts through the axes before the last two */
        count_rows(p, &l, f, any, out);
        int32_t i = outer;
        for (; i >= 0; i--) {
            p += l.step[i];
            if (++at[i] < l.size[i]) break;
            p -= at[i] * l.step[i];
            at[i] = 0;
        }
        if (i < 0) return LAM_OK;
    }
}
