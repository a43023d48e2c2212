/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN and Inf in memory, at the speed of memory. A number is not finite if all bits of its exponent are set,
 * so the search compares whole words as integers: numbers are only interpreted in a block with a non-finite
 * one. The widest vectors of the processor are chosen at the first call. */
#include "model/values.h"

enum { BLOCK = 4096 };

/* -- the bits of each type ------------------------------------------------------------------------------- */

#define F64  0x7FF0000000000000u, 0x7FF0000000000000u, 0x000FFFFFFFFFFFFFu, UINT64_C(1) << 63
#define F32  0x7F800000u, 0x7F800000u, 0x007FFFFFu, 0x80000000u
#define BF16 0x7F80u, 0x7F80u, 0x007Fu, 0x8000u
#define F16  0x7C00u, 0x7C00u, 0x03FFu, 0x8000u

static const lmi_form forms[] = {
    {7, 8, F64, 0x7FF0000000000000u, 0, 0, 1, 0x1.fffffffffffffp1023},  /* float64 */
    {6, 4, F32, 0x7F800000u, 0, 0, 1, 0x1.fffffep127},                  /* float32 */
    {5, 2, F16, 0x7C00u, 13, 112, 1, 65504},                            /* float16 */
    {15, 2, BF16, 0x7F80u, 16, 0, 1, 0x1.fep127},                       /* bfloat16 */
    {23, 1, 0x7Cu, 0x7Cu, 0x03u, 0x80u, 0x7Cu, 21, 112, 1, 57344},      /* float8_e5m2 */
    {24, 1, 0x7Fu, 0x7Fu, 0, 0x80u, 0x78u, 20, 120, 1, 448},            /* float8_e4m3fn: no Inf */
    {25, 1, 0xFFu, 0x80u, 0, 0x80u, 0x7Cu, 21, 111, 1, 57344},          /* float8_e5m2fnuz: no Inf */
    {26, 1, 0xFFu, 0x80u, 0, 0x80u, 0x78u, 20, 119, 1, 240},            /* float8_e4m3fnuz: no Inf */
    {44, 1, 0xFFu, 0xFFu, 0, 0, 0xFFu, 23, 0, 1, 0x1p127},              /* float8_e8m0fnu: no Inf */
    {8, 2, F16, 0x7C00u, 13, 112, 2, 65504},                            /* complex32 */
    {46, 2, BF16, 0x7F80u, 16, 0, 2, 0x1.fep127},                       /* bcomplex32 */
    {9, 4, F32, 0x7F800000u, 0, 0, 2, 0x1.fffffep127},                  /* complex64 */
    {10, 8, F64, 0x7FF0000000000000u, 0, 0, 2, 0x1.fffffffffffffp1023}, /* complex128 */
};

const lmi_form *lmi_form_of(int32_t dtype) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].dtype == dtype) return &forms[i];
    return NULL;
}

bool lam_dtype_is_float(int32_t dtype) { return lmi_form_of(dtype) != NULL; }

bool lam_dtype_nonfinite(int32_t dtype, lam_nonfinite_bits *out) {
    const lmi_form *f = lmi_form_of(dtype);
    if (f) *out = (lam_nonfinite_bits){f->bytes, f->mask, f->want};
    return f != NULL;
}

/* -- searching a run of bytes ---------------------------------------------------------------------------- */

/* One function for each size of numbers and each processor, with vectors of WIDE bytes (compilers generate
 * poor code for wider ones). Returns the start of the first block with a non-finite number, or the length.
 * Every vector is compared, and the result is tested once a block: leaving earlier would cost a branch a
 * vector. Bytes after the last whole vector are read by a vector that overlaps it, or one by one in a run
 * shorter than a vector. */
#define BODY(WIDE, T)                                                                                        \
    typedef T vec __attribute__((vector_size(WIDE)));                                                        \
    const T mask = (T)f->mask, want = (T)f->want;                                                            \
    if (n < WIDE) {                                                                                          \
        bool bad = false;                                                                                    \
        for (size_t i = 0; i < n; i += sizeof(T)) {                                                          \
            T v;                                                                                             \
            memcpy(&v, p + i, sizeof v);                                                                     \
            bad |= (T)(v & mask) == want;                                                                    \
        }                                                                                                    \
        return bad ? 0 : n;                                                                                  \
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
        if (any) return from;                                                                                \
    }                                                                                                        \
    return n;

#define SEARCHES(cpu, attribute, wide)                                                                       \
    attribute static size_t cpu##8(const char *p, size_t n, const lmi_form *f){                              \
        BODY(wide, uint8_t)} attribute static size_t cpu##16(const char *p, size_t n, const lmi_form *f){    \
        BODY(wide, uint16_t)} attribute static size_t cpu##32(const char *p, size_t n, const lmi_form *f){   \
        BODY(wide, uint32_t)} attribute static size_t cpu##64(const char *p, size_t n, const lmi_form *f) {  \
        BODY(wide, uint64_t)                                                                                 \
    }

typedef size_t search(const char *p, size_t n, const lmi_form *f);

SEARCHES(plain, , 16)
#if defined(__x86_64__) && defined(__GNUC__)
SEARCHES(avx2_, __attribute__((target("avx2"))), 32)
SEARCHES(avx512_, __attribute__((target("avx512f,avx512bw"))), 64)
#endif

/* The search for numbers of 1, 2, 4 or 8 bytes. */
static search *search_for(int32_t bytes) {
    static search *const plain[] = {plain8, plain16, plain32, plain64};
    int at = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
#if defined(__x86_64__) && defined(__GNUC__)
    static search *const avx2[] = {avx2_8, avx2_16, avx2_32, avx2_64};
    static search *const avx512[] = {avx512_8, avx512_16, avx512_32, avx512_64};
    if (LMI_WIDEST >= 64 && __builtin_cpu_supports("avx512bw")) return avx512[at];
    if (LMI_WIDEST >= 32 && __builtin_cpu_supports("avx2")) return avx2[at];
#endif
    return plain[at];
}

/* -- counting ---------------------------------------------------------------------------------------- */

/* Each size is written out, since a copy of a constant size is one instruction: in a model with only NaN this
 * runs for every number. */
static uint64_t bits_at(const char *p, int32_t bytes) {
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (bytes) {
    case 1: return (uint8_t)*p;
    case 2: memcpy(&two, p, sizeof two); return two;
    case 4: memcpy(&four, p, sizeof four); return four;
    default: memcpy(&eight, p, sizeof eight); return eight;
    }
}

/* Counts the number if it is not finite, and returns true. */
static bool count_one(const char *p, const lmi_form *f, int64_t times, lam_nonfinite *to) {
    uint64_t bits = bits_at(p, f->bytes);
    if ((bits & f->mask) != f->want) return false;
    if (f->fraction == 0 || (bits & f->fraction) != 0) {
        to->nan += times;
    } else {
        to->inf += times;
        if (bits & f->sign) to->negative += times;
    }
    return true;
}

typedef struct counter {
    const lmi_form *f;
    search *next;
    int64_t times;
    lam_nonfinite *to;
} counter;

/* Numbers of blocks without non-finite ones are never read one by one. */
static void count_run(void *self, const char *p, int64_t numbers, int64_t step) {
    const counter *c = self;
    if (step != c->f->bytes) {
        for (int64_t i = 0; i < numbers; i++) count_one(p + i * step, c->f, c->times, c->to);
        return;
    }
    for (size_t n = (size_t)(numbers * step), from = 0; from < n; from += BLOCK) {
        from += c->next(p + from, n - from, c->f);
        size_t size = n - from < BLOCK ? n - from : BLOCK;
        for (size_t i = 0; i < size; i += (size_t)step) count_one(p + from + i, c->f, c->times, c->to);
    }
}

/* -- strided arrays -------------------------------------------------------------------------------------- */

static void put_axis(lmi_layout *l, int64_t size, int64_t step) {
    int32_t at = l->n++;
    for (; at > 0 && l->step[at - 1] < step; at--) {
        l->size[at] = l->size[at - 1];
        l->step[at] = l->step[at - 1];
    }
    l->size[at] = size;
    l->step[at] = step;
}

static void merge(lmi_layout *l) {
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

lam_status lmi_layout_of(const lam_values *v, const lmi_form *f, lmi_layout *l, const char *where,
                         lam_error *e) {
    int64_t step = 1, bytes = (int64_t)f->bytes * f->parts, count;
    l->n = 0;
    l->times = 1;
    if (v->ndim < 0 || v->ndim >= LMI_MAX_AXES)
        return lmi_fail(e, LAM_RANGE, where, "%d axes; there may be 0 to %d", v->ndim, LMI_MAX_AXES - 1);
    if (!lmi_product(v->sizes, v->ndim, &count) || lmi_mul_over(count, bytes, &count))
        return lmi_fail(e, LAM_RANGE, where, "the sizes are negative or too large");
    for (int32_t i = v->ndim - 1; i >= 0; i--) {
        int64_t size = v->sizes[i], stride = v->strides ? v->strides[i] : step;
        if (size == 0) l->times = 0;
        if (stride < 0 || lmi_mul_over(stride, bytes, &stride))
            return lmi_fail(e, LAM_RANGE, where, "a step is negative or too large");
        if (stride == 0 && size > 0) l->times *= size;
        if (stride > 0 && size > 1) put_axis(l, size, stride);
        step *= size ? size : 1;
    }
    if (f->parts > 1) put_axis(l, f->parts, f->bytes);
    merge(l);
    if (l->times && !v->data) return lmi_fail(e, LAM_USAGE, where, "there is no memory to look at");
    return LAM_OK;
}

void lmi_each_run(const lmi_layout *l, const lmi_form *f, const void *data, lmi_run *run, void *self) {
    int64_t at[LMI_MAX_AXES] = {0};
    int32_t last = l->n - 1;
    int64_t wide = l->n ? l->size[last] : 1, step = l->n ? l->step[last] : f->bytes;
    int64_t rows = l->n > 1 ? l->size[last - 1] : 1, row_step = l->n > 1 ? l->step[last - 1] : 0;
    for (const char *p = data;;) { /* walks the axes before the last two */
        for (int64_t r = 0; r < rows; r++) run(self, p + r * row_step, wide, step);
        int32_t i = l->n - 3;
        for (; i >= 0; i--) {
            p += l->step[i];
            if (++at[i] < l->size[i]) break;
            p -= at[i] * l->step[i];
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

/* -- the first one, in row-major order ----------------------------------------------------------------- */

/* The index of the first non-finite element. Walks one axis more than the sizes have: the parts of a complex
 * number. */
static int64_t first_of(const lam_values *v, const lmi_form *f) {
    const char *p = v->data;
    lam_nonfinite ignored = {0};
    int64_t at[LMI_MAX_AXES] = {0}, steps[LMI_MAX_AXES], step = (int64_t)f->bytes * f->parts;
    for (int32_t i = v->ndim - 1; i >= 0; i--) {
        steps[i] = v->strides ? v->strides[i] * f->bytes * f->parts : step;
        step *= v->sizes[i];
    }
    for (int64_t index = 0;; index++) {
        for (int32_t k = 0; k < f->parts; k++)
            if (count_one(p + k * f->bytes, f, 1, &ignored)) return index;
        int32_t i = v->ndim - 1;
        for (; i >= 0; i--) {
            p += steps[i];
            if (++at[i] < v->sizes[i]) break;
            p -= at[i] * steps[i];
            at[i] = 0;
        }
        if (i < 0) return -1;
    }
}

lam_status lam_values_scan(const lam_values *v, lam_nonfinite *out, lam_error *e) {
    lmi_layout l;
    *out = (lam_nonfinite){.first = -1};
    const lmi_form *f = lmi_form_of(v->dtype);
    if (!f) {
        if (lam_dtype_bits(v->dtype) > 0) return LAM_OK; /* every other type has finite values only */
        return lmi_fail(e, LAM_UNSUPPORTED, "lam_values_scan", "there is no scalar type %d", (int)v->dtype);
    }
    LAM_TRY(lmi_layout_of(v, f, &l, "lam_values_scan", e));
    if (l.times == 0) return LAM_OK;
    counter c = {f, search_for(f->bytes), l.times, out};
    lmi_each_run(&l, f, v->data, count_run, &c);
    if (out->nan || out->inf) out->first = first_of(v, f);
    if (f->parts > 1) out->negative = 0; /* a complex number is never a mask */
    return LAM_OK;
}
