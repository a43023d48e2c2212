/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of an array in one pass: the least, the greatest and the mean, and how many numbers are zero,
 * subnormal or not finite. Bits of types of at most 32 bits are shifted into those of a float, so there is
 * one loop for them and one for float64. */
#include "model/values.h"

#include <math.h>

/* Numbers that are not contiguous, or too few for vectors, are gathered here first. */
enum { GATHERED = 4096 };

typedef struct sums {
    int64_t n, finite, zeros, subnormal, nan;
    double least, greatest, sum;
} sums;

typedef struct kernel {
    void (*run)(const char *p, int64_t n, const lmi_form *f, sums *to);
    int32_t lanes;
} kernel;

static double value_of(uint64_t bits, const lmi_form *f) {
    uint64_t magnitude = bits & ~f->sign;
    double v;
    if (f->bytes == 8) {
        memcpy(&v, &bits, sizeof v);
        return v;
    }
    if (!f->sign) return ldexp(1, (int)magnitude - 127); /* an exponent alone */
    uint32_t shifted = (uint32_t)(magnitude << f->shift);
    float as_float;
    memcpy(&as_float, &shifted, sizeof as_float);
    v = ldexp((double)as_float, f->scale);
    return bits & f->sign ? -v : v;
}

/* Adds one number; the loops over vectors do the same with many. */
static void add_one(uint64_t bits, const lmi_form *f, sums *to) {
    to->n++;
    if ((bits & f->mask) == f->want) {
        to->nan += f->fraction == 0 || (bits & f->fraction) != 0;
        return;
    }
    double v = value_of(bits, f);
    to->finite++;
    to->zeros += v == 0;
    to->subnormal += f->sign && v != 0 && (bits & f->exponent) == 0;
    to->sum += v;
    if (v < to->least) to->least = v;
    if (v > to->greatest) to->greatest = v;
}

static void add_each(const char *p, int64_t n, const lmi_form *f, sums *to) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = 0; /* little-endian, as all machines that torch runs on */
        memcpy(&bits, p + i * f->bytes, (size_t)f->bytes);
        add_one(bits, f, to);
    }
}

/* -- loops over vectors -------------------------------------------------------------------------------
 *
 * Vectors are as wide as the processor's (compilers generate poor code for wider ones). A block is so short
 * that no counter overflows and a sum of floats stays accurate. A fast loop assumes that all numbers of a
 * block are finite; if they are not, or if the sum overflows, the block is computed again with CARE. Bits of
 * small types are summed as those of a float, whose exponent is then too small by `scale`: this is corrected
 * once, at the end. */
enum { AT_ONCE = 32 };

static void add_bound(uint64_t bits, const lmi_form *f, sums *to) {
    double v = value_of(bits, f);
    if (v < to->least) to->least = v;
    if (v > to->greatest) to->greatest = v;
}

/* T, S: types of a number's bits, unsigned and signed. Signed bits have the order of the numbers after all
 * bits but the sign of negative ones are inverted. W, R: the types of sums; one W holds several numbers. With
 * CARE, numbers that are not finite count as zero in the sum, and never as least or greatest. AGAIN handles a
 * block that this loop can't. */
#define LOOP(WIDE, T, S, HIGHEST, W, R, OVERFLOW, CARE, AGAIN)                                               \
    typedef T raw __attribute__((vector_size(WIDE)));                                                        \
    typedef S whole __attribute__((vector_size(WIDE)));                                                      \
    typedef W words __attribute__((vector_size(WIDE)));                                                      \
    typedef R reals __attribute__((vector_size(WIDE)));                                                      \
    const T mask = (T)f->mask, want = (T)f->want, sign = (T)f->sign, exponent = (T)f->exponent;              \
    const int bits = (int)sizeof(T) * 8, up = (int)sizeof(W) * 8 - bits, shift = f->shift;                   \
    const W top = (W)1 << (bits - 1), below = top - 1, number = top | below;                                 \
    const int64_t lanes = WIDE / (int64_t)sizeof(T);                                                         \
    const T fraction = (T)f->fraction;                                                                       \
    const whole most = (whole){0} + HIGHEST, never_inf = (whole){0} - (S)(fraction == 0);                    \
    whole least = most, greatest = ~most;                                                                    \
    words zeros = {0}, low = {0}, lost = {0}, nans = {0};                                                    \
    double sum = 0;                                                                                          \
    for (int64_t from = 0; from < n; from += lanes * AT_ONCE) {                                              \
        int64_t end = n - from < lanes * AT_ONCE ? n : from + lanes * AT_ONCE;                               \
        const whole least_before = least, greatest_before = greatest;                                        \
        whole bad = {0}, nan = {0}, zero = {0}, small = {0};                                                 \
        reals part = {0};                                                                                    \
        for (int64_t i = from; i < end; i += lanes) {                                                        \
            raw v;                                                                                           \
            memcpy(&v, p + i * (int64_t)sizeof(T), WIDE);                                                    \
            const whole is_bad = (whole)((v & mask) == want), ok = CARE ? ~is_bad : ~(whole){0};             \
            if (CARE) nan -= is_bad & ((whole)((v & fraction) != 0) | never_inf);                            \
            v &= (raw)ok;                                                                                    \
            const whole key = (whole)v ^ ((whole)((whole)v < 0) & most);                                     \
            const whole under = (key & ok) | (most & ~ok), over = (key & ok) | ~(most | ok);                 \
            const whole less = under < least;                                                                \
            const whole more = over > greatest;                                                              \
            least = (under & less) | (least & ~less);                                                        \
            greatest = (over & more) | (greatest & ~more);                                                   \
            zero -= (whole)((v & (T)~sign) == 0) & ok;                                                       \
            small -= (whole)((v & exponent) == 0) & ok;                                                      \
            bad = CARE ? bad - is_bad : bad | is_bad;                                                        \
            for (int k = 0; k <= up; k += bits) {                                                            \
                const words x = (words)v >> (W)k;                                                            \
                part += (reals)((x & below) << (W)shift | (x & top) << (W)up);                               \
            }                                                                                                \
        }                                                                                                    \
        words wrong = (words)(((words)part & (W)OVERFLOW) == (W)OVERFLOW);                                   \
        if (!(CARE)) wrong |= (words)bad;                                                                    \
        uint64_t parts[WIDE / 8], any = 0;                                                                   \
        memcpy(parts, &wrong, WIDE);                                                                         \
        for (int k = 0; k < WIDE / 8; k++) any |= parts[k];                                                  \
        if (any) {                                                                                           \
            least = least_before;                                                                            \
            greatest = greatest_before;                                                                      \
            AGAIN(p + from * (int64_t)sizeof(T), end - from, f, to);                                         \
            continue;                                                                                        \
        }                                                                                                    \
        for (int k = 0; k <= up; k += bits) {                                                                \
            zeros += (words)zero >> (W)k & number;                                                           \
            low += (words)small >> (W)k & number;                                                            \
            lost += (words)bad >> (W)k & number;                                                             \
            nans += (words)nan >> (W)k & number;                                                             \
        }                                                                                                    \
        to->n += end - from;                                                                                 \
        to->finite += end - from;                                                                            \
        for (size_t k = 0; k < WIDE / sizeof(R); k++) sum += (double)part[k];                                \
    }                                                                                                        \
    to->sum += ldexp(sum, f->scale);                                                                         \
    for (size_t k = 0; k < WIDE / sizeof(W); k++) {                                                          \
        to->zeros += (int64_t)zeros[k];                                                                      \
        to->subnormal += (int64_t)(low[k] - zeros[k]);                                                       \
        to->finite -= (int64_t)lost[k];                                                                      \
        to->nan += (int64_t)nans[k];                                                                         \
    }                                                                                                        \
    for (int k = 0; k < lanes; k++) {                                                                        \
        if (least[k] > greatest[k]) continue; /* the lane is empty */                                        \
        add_bound((T)(least[k] < 0 ? least[k] ^ HIGHEST : least[k]), f, to);                                 \
        add_bound((T)(greatest[k] < 0 ? greatest[k] ^ HIGHEST : greatest[k]), f, to);                        \
    }

#define ARGUMENTS const char *p, int64_t n, const lmi_form *f, sums *to
#define PAIR(name, attribute, WIDE, T, S, HIGHEST, W, R, OVERFLOW)                                           \
    attribute static void name##_bad(ARGUMENTS){                                                             \
        LOOP(WIDE, T, S, HIGHEST, W, R, OVERFLOW, true, add_each)} attribute static void                     \
    name(ARGUMENTS) {                                                                                        \
        LOOP(WIDE, T, S, HIGHEST, W, R, OVERFLOW, false, name##_bad)                                         \
    }
#define LOOPS(cpu, attribute, WIDE)                                                                          \
    PAIR(cpu##8, attribute, WIDE, uint8_t, int8_t, INT8_MAX, uint32_t, float, 0x7F800000u)                   \
    PAIR(cpu##16, attribute, WIDE, uint16_t, int16_t, INT16_MAX, uint32_t, float, 0x7F800000u)               \
    PAIR(cpu##32, attribute, WIDE, uint32_t, int32_t, INT32_MAX, uint32_t, float, 0x7F800000u)               \
    PAIR(cpu##64, attribute, WIDE, uint64_t, int64_t, INT64_MAX, uint64_t, double, 0x7FF0000000000000u)

LOOPS(plain, , 16)
#if defined(__x86_64__) && defined(__GNUC__)
LOOPS(avx2_, __attribute__((target("avx2"))), 32)
LOOPS(avx512_, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), 64)
#endif

/* The loops assume that a type has zero; a type that is an exponent alone has none. */
static kernel kernel_for(const lmi_form *f) {
    static const kernel plain[] = {{plain8, 16}, {plain16, 8}, {plain32, 4}, {plain64, 2}};
    int at = f->bytes == 1 ? 0 : f->bytes == 2 ? 1 : f->bytes == 4 ? 2 : 3;
    if (!f->sign) return (kernel){add_each, 1};
#if defined(__x86_64__) && defined(__GNUC__)
    static const kernel avx2[] = {{avx2_8, 32}, {avx2_16, 16}, {avx2_32, 8}, {avx2_64, 4}};
    static const kernel avx512[] = {{avx512_8, 64}, {avx512_16, 32}, {avx512_32, 16}, {avx512_64, 8}};
    if (LMI_WIDEST >= 64 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return avx512[at];
    if (LMI_WIDEST >= 32 && __builtin_cpu_supports("avx2")) return avx2[at];
#endif
    return plain[at];
}

/* -- arrays ------------------------------------------------------------------------------------------- */

typedef struct pass {
    const lmi_form *f;
    kernel k;
    sums s;
    int64_t n; /* gathered numbers */
    char gathered[GATHERED];
} pass;

/* The lanes' counters hold 31 bits. */
static void add_many(pass *p, const char *at, int64_t n) {
    const int64_t most = INT64_C(1) << 24;
    int64_t whole = n / p->k.lanes * p->k.lanes;
    for (int64_t i = 0; i < whole; i += most)
        p->k.run(at + i * p->f->bytes, whole - i < most ? whole - i : most, p->f, &p->s);
    add_each(at + whole * p->f->bytes, n - whole, p->f, &p->s);
}

static void add_run(void *self, const char *at, int64_t n, int64_t step) {
    pass *p = self;
    int32_t bytes = p->f->bytes;
    int64_t room = GATHERED / bytes;
    if (step == bytes && n * step > GATHERED / 4) {
        add_many(p, at, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(p->gathered + p->n * bytes, at + i * step, (size_t)bytes);
        if (++p->n < room) continue;
        add_many(p, p->gathered, p->n);
        p->n = 0;
    }
}

lam_status lam_values_stats(const lam_values *v, lam_stats *out, lam_error *e) {
    static const char where[] = "lam_values_stats";
    const lmi_form *f = lmi_form_of(v->dtype);
    lmi_layout l;
    *out = (lam_stats){.least = NAN, .greatest = NAN, .mean = NAN, .headroom = NAN};
    if (!f)
        return lmi_fail(e, LAM_UNSUPPORTED, where, "scalar type %d is not a floating-point type",
                        (int)v->dtype);
    LAM_TRY(lmi_layout_of(v, f, &l, where, e));
    if (l.times == 0) return LAM_OK;
    pass p = {.f = f, .k = kernel_for(f), .s = {.least = INFINITY, .greatest = -INFINITY}};
    lmi_each_run(&l, f, v->data, add_run, &p);
    add_many(&p, p.gathered, p.n);
    const sums *s = &p.s;
    *out = (lam_stats){.numbers = s->n * l.times,
                       .nan = s->nan * l.times,
                       .inf = (s->n - s->finite - s->nan) * l.times,
                       .zeros = s->zeros * l.times,
                       .subnormal = s->subnormal * l.times,
                       .least = s->finite ? s->least : NAN,
                       .greatest = s->finite ? s->greatest : NAN,
                       .mean = s->finite ? s->sum / (double)s->finite : NAN,
                       .headroom = NAN};
    double most = fmax(fabs(s->least), fabs(s->greatest));
    if (s->finite) out->headroom = log2(f->largest) - log2(most);
    return LAM_OK;
}
