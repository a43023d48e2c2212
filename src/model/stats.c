/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of an array are like, in one pass: the least, the greatest, their mean, how many are zero,
 * too small to be normal, or no numbers. Every type of at most 32 bits is shifted into a float's place, so
 * there is one loop for them and one for float64. */
#include "model/values.h"

#include <float.h>
#include <math.h>

/* Numbers that do not lie side by side, or are too few for vectors, gather here. */
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

/* One number; the vectors' loops do the same to many. */
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
        uint64_t bits = 0; /* little-endian, as every machine that torch runs on */
        memcpy(&bits, p + i * f->bytes, (size_t)f->bytes);
        add_one(bits, f, to);
    }
}

/* -- loops over vectors ------------------------------------------------------------------------------- */

/* A block of numbers is added up as floats, and as doubles should that overflow. */
enum { AT_ONCE = 32 };

static double sum_of(const char *p, int64_t n, const lmi_form *f) {
    sums s = {0};
    add_each(p, n, f, &s);
    return s.sum;
}

static int64_t nan_of(const char *p, int64_t n, const lmi_form *f) {
    sums s = {0};
    add_each(p, n, f, &s);
    return s.nan;
}

/* No float is multiplied that may be subnormal: that is slow. RAW: a number as it lies in memory; MIDDLE: on
 * the way, as compilers widen by two at once; REAL, BITS, SIGNED: what it becomes, as floats (or doubles) and
 * as whole numbers of their width. What is not finite is nothing in the sum, and neither least nor greatest.
 */
#define LOOP(RAW, MIDDLE, REAL, BITS, SIGNED, LANES, MOST)                                                   \
    typedef RAW raw __attribute__((vector_size(LANES * sizeof(RAW))));                                       \
    typedef MIDDLE middle __attribute__((vector_size(LANES * sizeof(MIDDLE))));                              \
    typedef REAL real __attribute__((vector_size(LANES * sizeof(REAL))));                                    \
    typedef BITS words __attribute__((vector_size(LANES * sizeof(REAL))));                                   \
    typedef SIGNED whole __attribute__((vector_size(LANES * sizeof(REAL))));                                 \
    const BITS mask = (BITS)f->mask, want = (BITS)f->want, sign = (BITS)f->sign;                             \
    const BITS exponent = (BITS)f->exponent;                                                                 \
    const int shift = f->shift, up = (int)sizeof(BITS) * 8 - f->bytes * 8;                                   \
    const BITS higher = (BITS)f->scale << 23;                                                                \
    const REAL tiny = f->scale ? (REAL)ldexp(1, f->shift + f->scale - 149) : 0;                              \
    const SIGNED scaled = f->scale ? -1 : 0;                                                                 \
    whole finite = {0}, zeros = {0}, subnormal = {0};                                                        \
    real least = (real){0} + MOST, greatest = (real){0} - MOST;                                              \
    for (int64_t from = 0; from < n; from += LANES * AT_ONCE) {                                              \
        int64_t end = n - from < LANES * AT_ONCE ? n : from + LANES * AT_ONCE;                               \
        const char *at = p + from * (int64_t)sizeof(RAW);                                                    \
        real part = {0};                                                                                     \
        whole all = ~(whole){0};                                                                             \
        for (int64_t i = from; i < end; i += LANES) {                                                        \
            raw loaded;                                                                                      \
            memcpy(&loaded, p + i * (int64_t)sizeof(RAW), sizeof loaded);                                    \
            words bits = __builtin_convertvector(__builtin_convertvector(loaded, middle), words);            \
            words magnitude = bits & ~sign;                                                                  \
            whole ok = (whole)((bits & mask) != want), none = (whole)(magnitude == 0) & ok;                  \
            whole low = (whole)((bits & exponent) == 0) & ok, lifted = low & scaled;                         \
            words small = (words)(__builtin_convertvector((whole)magnitude, real) * tiny) & (words)lifted;   \
            words place = ((magnitude << shift) + higher) & (words)(ok & ~lifted);                           \
            real v = (real)(small | place | ((bits & sign) << up & (words)ok));                              \
            all &= ok;                                                                                       \
            finite -= ok;                                                                                    \
            zeros -= none;                                                                                   \
            subnormal -= low & ~none;                                                                        \
            part += v;                                                                                       \
            whole less = (whole)(v < least) & ok, more = (whole)(v > greatest) & ok;                         \
            least = (real)(((words)v & (words)less) | ((words)least & ~(words)less));                        \
            greatest = (real)(((words)v & (words)more) | ((words)greatest & ~(words)more));                  \
        }                                                                                                    \
        double block = 0;                                                                                    \
        uint64_t lanes[sizeof all / 8], good = UINT64_MAX;                                                   \
        REAL parts[LANES];                                                                                   \
        memcpy(lanes, &all, sizeof all);                                                                     \
        memcpy(parts, &part, sizeof part);                                                                   \
        for (int k = 0; k < LANES; k++) block += (double)parts[k];                                           \
        for (size_t k = 0; k < sizeof all / 8; k++) good &= lanes[k];                                        \
        to->sum += isfinite(block) ? block : sum_of(at, end - from, f);                                      \
        if (~good) to->nan += nan_of(at, end - from, f);                                                     \
    }                                                                                                        \
    for (int k = 0; k < LANES; k++) {                                                                        \
        to->finite += finite[k];                                                                             \
        to->zeros += zeros[k];                                                                               \
        to->subnormal += subnormal[k];                                                                       \
        if ((double)least[k] < to->least) to->least = (double)least[k];                                      \
        if ((double)greatest[k] > to->greatest) to->greatest = (double)greatest[k];                          \
    }                                                                                                        \
    to->n += n;

#define LOOPS(cpu, attribute)                                                                                \
    attribute static void cpu##8(const char *p, int64_t n, const lmi_form *f, sums *to){                     \
        LOOP(uint8_t, uint16_t, float, uint32_t, int32_t, 16,                                                \
             FLT_MAX)} attribute static void cpu##16(const char *p, int64_t n, const lmi_form *f, sums *to){ \
        LOOP(uint16_t, uint32_t, float, uint32_t, int32_t, 16,                                               \
             FLT_MAX)} attribute static void cpu##32(const char *p, int64_t n, const lmi_form *f, sums *to){ \
        LOOP(uint32_t, uint32_t, float, uint32_t, int32_t, 16,                                               \
             FLT_MAX)} attribute static void cpu##64(const char *p, int64_t n, const lmi_form *f,            \
                                                     sums *to) {                                             \
        LOOP(uint64_t, uint64_t, double, uint64_t, int64_t, 8, DBL_MAX)                                      \
    }

LOOPS(plain, )
#if defined(__x86_64__) && defined(__GNUC__)
LOOPS(avx2_, __attribute__((target("avx2,fma"))))
LOOPS(avx512_, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

/* A number that is an exponent alone has no zero, which the loops take for granted. */
static kernel kernel_for(const lmi_form *f) {
    static const kernel plain[] = {{plain8, 16}, {plain16, 16}, {plain32, 16}, {plain64, 8}};
    int at = f->bytes == 1 ? 0 : f->bytes == 2 ? 1 : f->bytes == 4 ? 2 : 3;
    if (!f->sign) return (kernel){add_each, 1};
#if defined(__x86_64__) && defined(__GNUC__)
    static const kernel avx2[] = {{avx2_8, 16}, {avx2_16, 16}, {avx2_32, 16}, {avx2_64, 8}};
    static const kernel avx512[] = {{avx512_8, 16}, {avx512_16, 16}, {avx512_32, 16}, {avx512_64, 8}};
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return avx512[at];
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2[at];
#endif
    return plain[at];
}

/* -- arrays ------------------------------------------------------------------------------------------- */

typedef struct pass {
    const lmi_form *f;
    kernel k;
    sums s;
    int64_t n; /* numbers that have gathered */
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
        return lmi_fail(e, LAM_UNSUPPORTED, where, "scalar type %d is no floating-point type", (int)v->dtype);
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
