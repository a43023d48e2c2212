/* SPDX-License-Identifier: Apache-2.0
 *
 * How interpolation maps positions. torch computes the position that an element is read at in floating point,
 * so that where it is a whole number, rounding decides which elements are read. Fractions give the period;
 * the same arithmetic as torch's gives what each element reads. Source: aten/src/ATen/native/UpSample.h and
 * cpu/UpSampleKernel.cpp of PyTorch 2.13. */
#include "analyse/field/routearg.h"

#include <math.h>

bool lmi_tap_resized(lmi_arena *a, lmi_route *r, int32_t axis, int64_t p, int64_t q, lmi_resized at) {
    int64_t d = lmi_gcd(p, q), *lo, *hi;
    if (p <= 0 || q <= 0 || q / d > LMI_PERIOD_MAX) {
        r->to[axis] = LMI_TO_ALL;
        r->unsure |= (uint8_t)(1u << axis);
        return true;
    }
    p /= d;
    q /= d;
    if (!tap(a, r, axis, (int32_t)q, p, 1, &lo, &hi)) return false;
    for (int64_t o = 0; o < q; o++) at(o, p, q, &lo[o], &hi[o]);
    return true;
}

/* -- fractions ----------------------------------------------------------------------------------- */

static void at_nearest(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) { *lo = *hi = o * p / q; }

static void at_nearest_exact(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    *lo = *hi = (2 * o + 1) * p / (2 * q);
}

/* The source of o is at (o + 1/2) p/q - 1/2; if that is a whole position, no neighbour is read. */
static void at_linear(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    int64_t twice = (2 * o + 1) * p - q;
    *lo = lmi_floor_div(twice, 2 * q);
    *hi = *lo + (twice != *lo * 2 * q);
}

static void at_linear_corners(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    *lo = o * p / q;
    *hi = *lo + (o * p % q != 0);
}

static void at_cubic(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    at_linear(o, p, q, lo, hi);
    if (*hi == *lo) return;
    *hi += 1;
    *lo -= 1;
}

static void at_cubic_corners(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    at_linear_corners(o, p, q, lo, hi);
    if (*hi == *lo) return;
    *hi += 1;
    *lo -= 1;
}

/* Antialiased: all within `support` source positions of the centre, more if the axis shrinks. */
static void at_antialiased(int64_t o, int64_t p, int64_t q, int64_t support, int64_t *lo, int64_t *hi) {
    int64_t centre = (2 * o + 1) * p, reach = support * 2 * (p > q ? p : q);
    *lo = *hi = o;
    if (p == q) return; /* an axis that keeps its length is left as it is */
    *lo = lmi_floor_div(centre - reach + q, 2 * q);
    *hi = lmi_floor_div(centre + reach + q, 2 * q) - 1;
}
static void at_linear_aa(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    at_antialiased(o, p, q, 1, lo, hi);
}
static void at_cubic_aa(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    at_antialiased(o, p, q, 2, lo, hi);
}

/* -- floating point ------------------------------------------------------------------------------ */

/* One axis. */
typedef struct resizing {
    int64_t n, out_n;
    double factor;        /* that was given; 0: none was */
    bool corners, single; /* single: torch computes in float32, else in float64 */
} resizing;

/* What element o reads. *sure: wherever torch was built and whatever the memory format is. */
typedef lmi_reach (*rounded)(const resizing *z, int64_t o, bool *sure);

static double round_to(bool single, double v) {
    volatile double kept = single ? (double)(float)v : v; /* without excess precision */
    return kept;
}

/* Products of float32 are exact in float64, and so are sums of those and a half. */
static double times_plus(bool single, bool fused, double a, double b, double c) {
    if (!fused) return round_to(single, round_to(single, a * b) + c);
    return single ? round_to(true, a * b + c) : fma(a, b, c);
}

static double scale_of(const resizing *z, bool single) {
    if (z->corners) return z->out_n > 1 ? round_to(single, (double)(z->n - 1) / (double)(z->out_n - 1)) : 0;
    return round_to(single, z->factor > 0 ? 1 / z->factor : (double)z->n / (double)z->out_n);
}

static int64_t whole(double v, int64_t n) {
    int64_t i = (int64_t)floorf((float)v);
    return i < n ? i : n - 1;
}

/* The position in the memory format that has the channels last, and on GPUs, is always float32's, and the
 * axis is left as it is or doubled if it can be. */
static lmi_reach read_nearest(const resizing *z, int64_t o, bool *sure) {
    int64_t i = whole(round_to(z->single, scale_of(z, z->single) * (double)o), z->n);
    int64_t other = whole(round_to(true, scale_of(z, true) * (double)o), z->n);
    if (z->out_n == z->n) other = o;
    if (z->out_n == 2 * z->n) other = o / 2;
    *sure = i == other;
    return (lmi_reach){i < other ? i : other, i < other ? other : i};
}

static lmi_reach read_nearest_exact(const resizing *z, int64_t o, bool *sure) {
    double scale = scale_of(z, z->single), half = (double)o + 0.5;
    lmi_reach r = {INT64_MAX, 0};
    for (int way = 0; way < 3; way++) {
        double v = way == 2 ? scale_of(z, true) * half : times_plus(z->single, way == 1, scale, half, -0.5);
        int64_t i = whole(way == 2 ? v : (v > 0 ? v : 0) + 0.5, z->n);
        if (i < r.lo) r.lo = i;
        if (i > r.hi) r.hi = i;
    }
    *sure = r.lo == r.hi;
    return r;
}

/* The position, and `more` on both sides of it and the next unless it is whole. Where only a fused
 * multiplication leaves a weight of its rounding, its neighbour is read. */
static lmi_reach read_smooth(const resizing *z, int64_t o, int64_t more, bool *sure) {
    double scale = scale_of(z, z->single);
    int64_t at[2];
    bool between = false;
    for (int fused = 0; fused < 2; fused++) {
        double v = z->corners ? round_to(z->single, scale * (double)o)
                              : times_plus(z->single, fused, scale, (double)o + 0.5, -0.5);
        if (more == 0 && v < 0) v = 0;
        at[fused] = whole(v, z->n);
        between = between || v > (double)at[fused];
    }
    *sure = at[0] == at[1];
    int64_t lo = at[0] < at[1] ? at[0] : at[1], hi = at[0] < at[1] ? at[1] : at[0];
    return between ? (lmi_reach){lo - more, hi + 1 + more} : (lmi_reach){lo, hi};
}

static lmi_reach read_linear(const resizing *z, int64_t o, bool *sure) {
    return z->n == z->out_n ? (lmi_reach){o, o} : read_smooth(z, o, 0, sure);
}

static lmi_reach read_cubic(const resizing *z, int64_t o, bool *sure) { return read_smooth(z, o, 1, sure); }

static lmi_reach read_antialiased(const resizing *z, int64_t o, double support) {
    double scale = scale_of(z, z->single), centre = round_to(z->single, scale * ((double)o + 0.5));
    if (z->n == z->out_n) return (lmi_reach){o, o};
    if (scale >= 1) support = round_to(z->single, support * scale);
    double lo = round_to(z->single, centre - support) + 0.5, hi = round_to(z->single, centre + support) + 0.5;
    return (lmi_reach){lo > 0 ? (int64_t)lo : 0, (int64_t)hi - 1};
}
static lmi_reach read_linear_aa(const resizing *z, int64_t o, bool *sure) {
    (void)sure;
    return read_antialiased(z, o, 1);
}
static lmi_reach read_cubic_aa(const resizing *z, int64_t o, bool *sure) {
    (void)sure;
    return read_antialiased(z, o, 2);
}

/* -- the ways ------------------------------------------------------------------------------------ */

typedef struct kind {
    lmi_resized at, at_corners; /* at_corners: whose first and last positions are the axis' own */
    rounded each;
} kind;

/* False: a factor was given, but this operator's arguments do not have it. */
static bool ratio_is_known(const lam_op_sig *s) {
    const lam_value *size = value(s, LMI_S_output), *factor = value(s, LMI_S_scale);
    return !size || size->type != LAM_NONE || (factor && factor->type == LAM_FLOAT);
}

/* in/out as p/q; if a given factor differs from it, 1 / factor as a fraction, 0 if that is none. */
static void ratio(const resizing *z, int64_t *p, int64_t *q) {
    *p = z->corners ? z->n - 1 : z->n;
    *q = z->corners ? z->out_n - 1 : z->out_n;
    if (z->corners || !(z->factor > 0) || fabs(z->factor * (double)*p - (double)*q) < 1e-6) return;
    for (int64_t d = 1; d <= LMI_PERIOD_MAX; d++) {
        double n = z->factor * (double)d;
        if (fabs(n - nearbyint(n)) > 1e-9 * n || n < 1) continue;
        *p = d;
        *q = (int64_t)nearbyint(n);
        return;
    }
    *p = *q = 0;
}

/* The taps of an axis: a period if there is one, and what each element reads if there are not too many. */
static bool resize(lmi_arena *a, lmi_route *r, int32_t axis, const kind *k, const resizing *z) {
    lmi_reach *each;
    int64_t p, q;
    ratio(z, &p, &q);
    if (z->n == 1 || (z->corners && q == 0)) return tap_same(a, r, axis, 0, 1, 0, 0);
    if (!reads(a, z->out_n, &each)) return false;
    bool known = p > 0 && q > 0 && q / lmi_gcd(p, q) <= LMI_PERIOD_MAX;
    if (!known && each && !tap_same(a, r, axis, 0, 1, 0, z->n - 1)) return false;
    if (known || !each) {
        if (!lmi_tap_resized(a, r, axis, p, q, z->corners ? k->at_corners : k->at)) return false;
    }
    for (int64_t o = 0; each && o < z->out_n; o++) {
        bool sure = true;
        each[o] = k->each(z, o, &sure);
        if (!sure) r->unsure |= (uint8_t)(1u << axis);
    }
    lmi_taps *t = each ? lmi_copy(a, r->taps[axis], 1, sizeof *t) : NULL;
    if (each && !t) return false;
    if (t) t->each = each;
    if (t) r->taps[axis] = t;
    return true;
}

static bool interpolated(lmi_arena *a, const lam_op_sig *s, int32_t in, const kind *k, lmi_route *r) {
    enum { FLOAT64 = 7 }; /* ScalarType */
    lam_shape x = shape_in(s, in), out = lmi_result_shape(s);
    const int32_t factors = lmi_op_position(s->word, LMI_S_scale); /* one an axis */
    bool corners = number(s, LMI_S_align, 0, 0) != 0;
    lmi_way_point(a, s, in, r);
    r->spatial = lmi_last_axes(x.ndim, x.ndim - 2);
    if (x.ndim < 3 || x.ndim > LMI_AXES || out.ndim != x.ndim) return lmi_way_all(a, s, in, r);
    if (corners && !k->at_corners) return lmi_way_spread(a, s, in, r);
    bool sure = corners || ratio_is_known(s);
    for (int32_t i = 2; i < x.ndim; i++) {
        const lam_value *factor = lmi_sig_value(s, factors + i - 2);
        resizing z = {x.sizes[i], out.sizes[i], 0, corners, s->in[in].dtype != FLOAT64};
        if (factor && factor->type == LAM_FLOAT && factor->f > 0) z.factor = factor->f;
        if (!sure) r->to[i] = LMI_TO_ALL, r->unsure |= (uint8_t)(1u << i);
        if (sure && !resize(a, r, i, k, &z)) return false;
    }
    return true;
}

#define WAY(name, ...)                                                                                       \
    bool lmi_way_##name(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {                       \
        static const kind k = {__VA_ARGS__};                                                                 \
        return interpolated(a, s, in, &k, r);                                                                \
    }
WAY(nearest, at_nearest, NULL, read_nearest)
WAY(nearest_exact, at_nearest_exact, NULL, read_nearest_exact)
WAY(linear_up, at_linear, at_linear_corners, read_linear)
WAY(cubic, at_cubic, at_cubic_corners, read_cubic)
WAY(linear_aa, at_linear_aa, NULL, read_linear_aa)
WAY(cubic_aa, at_cubic_aa, NULL, read_cubic_aa)
