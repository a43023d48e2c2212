/* SPDX-License-Identifier: Apache-2.0
 *
 * How windows map positions: convolutions, pools, interpolation. */
#include "analyse/field/routearg.h"

#include <math.h>

/* -- windows ------------------------------------------------------------------------------------- */

typedef struct window {
    int64_t k, stride, pad, dil;
} window;

static bool tap_window(lmi_arena *a, lmi_route *r, int32_t axis, window w) {
    if (w.k <= 0 || w.stride <= 0 || w.dil <= 0) {
        r->to[axis] = LMI_TO_ALL;
        r->loose = true;
        return true;
    }
    return tap_same(a, r, axis, w.stride, w.dil, -w.pad, w.dil * (w.k - 1) - w.pad);
}

/* Element o reads input i through tap k if i * stride + k * dil - pad = o. */
static bool tap_transposed(lmi_arena *a, lmi_route *r, int32_t axis, window w) {
    int64_t *lo, *hi;
    if (w.k <= 0 || w.stride <= 0 || w.dil <= 0 || w.stride > LMI_PERIOD_MAX)
        return tap_window(a, r, axis, w);
    if (!tap(a, r, axis, (int32_t)w.stride, 1, 1, &lo, &hi)) return false;
    for (int64_t o = 0; o < w.stride; o++) {
        lo[o] = 1;
        hi[o] = 0;
        for (int64_t k = 0; k < w.k; k++) {
            int64_t at = o + w.pad - k * w.dil, i = lmi_floor_div(at, w.stride);
            if (at != i * w.stride) continue;
            if (hi[o] < lo[o]) lo[o] = hi[o] = i;
            lo[o] = i < lo[o] ? i : lo[o];
            hi[o] = i > hi[o] ? i : hi[o];
        }
    }
    return true;
}

bool lmi_way_conv(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t which = nth_tensor(s, in), n = s->in[in].ndim, weight = -1, seen = 0;
    for (int32_t i = 0; i < s->n_in && weight < 0; i++)
        if (s->in[i].is_tensor && seen++ == 1) weight = i;
    if (which > 0 || weight < 0) return lmi_way_all(a, s, in, r);
    lam_shape w = shape_in(s, weight), out = lmi_result_shape(s);
    bool transposed = int_at(s, 6, 0, 0) != 0, depthwise = int_at(s, 8, 0, 1) > 1;
    lmi_way_point(a, s, in, r);
    r->spatial = true;
    if (n < 2 || n > LMI_AXES || w.ndim != n || out.ndim != n) return lmi_way_all(a, s, in, r);
    if (!depthwise || int_at(s, 8, 0, 1) != s->in[in].sizes[1] || out.sizes[1] != s->in[in].sizes[1])
        r->to[1] = LMI_TO_ALL;
    for (int32_t i = 2; i < n; i++) {
        window at = {w.sizes[i], int_at(s, 3, i - 2, 1), int_at(s, 4, i - 2, 0), int_at(s, 5, i - 2, 1)};
        if (!(transposed ? tap_transposed(a, r, i, at) : tap_window(a, r, i, at))) return false;
    }
    return true;
}

static bool pool(lmi_arena *a, const lam_op_sig *s, int32_t in, bool dilated, lmi_route *r) {
    int32_t n = s->in[in].ndim, rank = lmi_op_rank(s->word);
    lmi_way_point(a, s, in, r);
    r->spatial = true;
    if (nth_tensor(s, in) > 0 || rank < 1 || n <= rank || n > LMI_AXES) return lmi_way_all(a, s, in, r);
    for (int32_t i = 0; i < rank; i++) {
        int64_t k = int_at(s, 1, i, 0);
        window w = {k, int_at(s, 2, i, k), int_at(s, 3, i, 0), dilated ? int_at(s, 4, i, 1) : 1};
        if (!tap_window(a, r, n - rank + i, w)) return false;
    }
    return true;
}

bool lmi_way_max_pool(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return pool(a, s, in, true, r);
}
bool lmi_way_avg_pool(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return pool(a, s, in, false, r);
}

/* Along a resized axis, element o reads lo(o) .. hi(o), which `at` computes for in/out = p/q. */
typedef void (*resized)(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi);

static bool tap_resized(lmi_arena *a, lmi_route *r, int32_t axis, int64_t p, int64_t q, resized at) {
    int64_t d = lmi_gcd(p, q), *lo, *hi;
    if (p <= 0 || q <= 0 || q / d > LMI_PERIOD_MAX) {
        r->to[axis] = LMI_TO_ALL;
        r->loose = true;
        return true;
    }
    p /= d;
    q /= d;
    if (!tap(a, r, axis, (int32_t)q, p, 1, &lo, &hi)) return false;
    for (int64_t o = 0; o < q; o++) at(o, p, q, &lo[o], &hi[o]);
    return true;
}

/* Window o of an adaptive pool: floor(o*in/out) to ceil((o+1)*in/out) - 1. */
static void at_adaptive(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    *lo = o * p / q;
    *hi = ((o + 1) * p + q - 1) / q - 1;
}

bool lmi_way_adaptive(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, rank = lmi_op_rank(s->word);
    lam_shape out = lmi_result_shape(s);
    lmi_way_point(a, s, in, r);
    r->spatial = true;
    if (rank < 1 || n <= rank || n > LMI_AXES || out.ndim != n) return lmi_way_all(a, s, in, r);
    for (int32_t i = n - rank; i < n; i++) {
        if (out.sizes[i] == 1)
            r->to[i] = LMI_TO_ALL;
        else if (!tap_resized(a, r, i, s->in[in].sizes[i], out.sizes[i], at_adaptive))
            return false;
    }
    return true;
}

/* -- interpolation ------------------------------------------------------------------------------- */

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
    *lo = lmi_floor_div(centre - reach + q, 2 * q);
    *hi = lmi_floor_div(centre + reach + q, 2 * q) - 1;
}
static void at_linear_aa(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    at_antialiased(o, p, q, 1, lo, hi);
}
static void at_cubic_aa(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi) {
    at_antialiased(o, p, q, 2, lo, hi);
}

/* False: a factor was given, but this operator's arguments do not have it. */
static bool ratio_is_known(const lam_op_sig *s, int32_t factors) {
    const lam_value *size = lmi_sig_value(s, 1), *factor = lmi_sig_value(s, factors);
    return !size || size->type != LAM_NONE || (factor && factor->type == LAM_FLOAT);
}

/* p/q is in/out; if a given factor differs from it, 1 / factor as a fraction. */
static void ratio(const lam_op_sig *s, int32_t position, int64_t *p, int64_t *q) {
    const lam_value *v = lmi_sig_value(s, position);
    if (!v || v->type != LAM_FLOAT || !(v->f > 0) || fabs(v->f * (double)*p - (double)*q) < 1e-6) return;
    for (int64_t d = 1; d <= LMI_PERIOD_MAX; d++) {
        double n = v->f * (double)d;
        if (fabs(n - nearbyint(n)) > 1e-9 * n || n < 1) continue;
        *p = d;
        *q = (int64_t)nearbyint(n);
        return;
    }
    *p = *q = 0;
}

static bool interpolated(lmi_arena *a, const lam_op_sig *s, int32_t in, bool corners, int32_t factors,
                         resized at, lmi_route *r) {
    lam_shape x = shape_in(s, in), out = lmi_result_shape(s);
    lmi_way_point(a, s, in, r);
    r->spatial = true;
    if (x.ndim < 3 || x.ndim > LMI_AXES || out.ndim != x.ndim) return lmi_way_all(a, s, in, r);
    bool sure = corners || ratio_is_known(s, factors);
    for (int32_t i = 2; i < x.ndim; i++) {
        int64_t p = x.sizes[i], q = out.sizes[i];
        if (!sure) {
            r->to[i] = LMI_TO_ALL;
            r->loose = true;
            continue;
        }
        if (corners) {
            p--;
            q--;
        } else {
            ratio(s, factors + i - 2, &p, &q);
        }
        if (x.sizes[i] == 1 || (corners && q == 0)) {
            if (!tap_same(a, r, i, 0, 1, 0, 0)) return false;
        } else if (!tap_resized(a, r, i, p, q, at)) {
            return false;
        }
    }
    return true;
}

bool lmi_way_nearest(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return interpolated(a, s, in, false, 2, at_nearest, r);
}
bool lmi_way_nearest_exact(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return interpolated(a, s, in, false, 2, at_nearest_exact, r);
}
bool lmi_way_linear_up(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    bool corners = int_at(s, 2, 0, 0) != 0;
    return interpolated(a, s, in, corners, 3, corners ? at_linear_corners : at_linear, r);
}
bool lmi_way_cubic(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    bool corners = int_at(s, 2, 0, 0) != 0;
    return interpolated(a, s, in, corners, 3, corners ? at_cubic_corners : at_cubic, r);
}
bool lmi_way_linear_aa(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    if (int_at(s, 2, 0, 0) != 0) return lmi_way_spread(a, s, in, r);
    return interpolated(a, s, in, false, 3, at_linear_aa, r);
}
bool lmi_way_cubic_aa(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    if (int_at(s, 2, 0, 0) != 0) return lmi_way_spread(a, s, in, r);
    return interpolated(a, s, in, false, 3, at_cubic_aa, r);
}

/* grid_sampler: another tensor says where to read, so every position may be read. */
bool lmi_way_grid(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim;
    bool grid = nth_tensor(s, in) == 1;
    (void)a;
    to_all(r);
    r->loose = true;
    for (int32_t i = 0; i < n && i < LMI_AXES; i++) {
        if (grid && i < n - 1) r->to[i] = (int8_t)(i ? i + 1 : 0);
        if (!grid && i < 2) r->to[i] = (int8_t)i;
    }
    return true;
}
