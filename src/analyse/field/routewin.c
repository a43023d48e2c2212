/* SPDX-License-Identifier: Apache-2.0
 *
 * How windows map positions: convolutions, pools. */
#include "analyse/field/routearg.h"

/* -- windows ------------------------------------------------------------------------------------- */

typedef struct window {
    int64_t k, stride, pad, dil;
} window;

/* The i-th window of k elements, by the operator's arguments. */
static window window_at(const lam_op_sig *s, int32_t i, int64_t k) {
    return (window){k, number(s, LMI_S_stride, i, 1), number(s, LMI_S_pad, i, 0), number(s, LMI_S_dil, i, 1)};
}

static bool tap_window(lmi_arena *a, lmi_route *r, int32_t axis, window w) {
    if (axis < 0 || axis >= LMI_AXES) return true;
    if (w.k <= 0 || w.stride <= 0 || w.dil <= 0) {
        r->to[axis] = LMI_TO_ALL;
        r->unsure |= (uint8_t)(1u << axis);
        return true;
    }
    return tap_same(a, r, axis, w.stride, w.dil, -w.pad, w.dil * (w.k - 1) - w.pad);
}

/* Element o reads input i through tap k if i * stride + k * dil - pad = o. */
static bool tap_transposed(lmi_arena *a, lmi_route *r, int32_t axis, window w) {
    int64_t *lo, *hi;
    if (w.k <= 0 || w.stride <= 0 || w.dil <= 0 || w.stride > LMI_PERIOD_MAX)
        return tap_window(a, r, axis, w);
    if (!tap(a, r, axis, (int32_t)w.stride, 1, w.dil / lmi_gcd(w.dil, w.stride), &lo, &hi)) return false;
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

/* Every channel of the result reads those of its group, of n channels in all. */
static bool tap_groups(lmi_arena *a, lmi_route *r, int64_t n, int64_t out_n, int64_t groups) {
    int64_t *lo, *hi;
    if (groups <= 1 || n % groups != 0 || out_n % groups != 0 || out_n / groups > LMI_PERIOD_MAX) {
        r->to[1] = LMI_TO_ALL;
        if (groups > 1) r->unsure |= 2;
        return true;
    }
    if (n == groups && out_n == groups) return true;
    if (!tap(a, r, 1, (int32_t)(out_n / groups), n / groups, 1, &lo, &hi)) return false;
    for (int64_t o = 0; o < out_n / groups; o++) hi[o] = n / groups - 1;
    return true;
}

bool lmi_way_conv(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t which = nth_tensor(s, in), n = s->in[in].ndim, weight = -1, seen = 0;
    for (int32_t i = 0; i < s->n_in && weight < 0; i++)
        if (s->in[i].is_tensor && seen++ == 1) weight = i;
    if (which > 0 || weight < 0) return lmi_way_all(a, s, in, r);
    lam_shape w = shape_in(s, weight), out = lmi_result_shape(s);
    bool transposed = number(s, LMI_S_transposed, 0, 0) != 0;
    lmi_way_point(a, s, in, r);
    r->spatial = lmi_last_axes(n, n - 2);
    if (n < 2 || n > LMI_AXES || w.ndim != n || out.ndim != n) return lmi_way_all(a, s, in, r);
    if (!tap_groups(a, r, s->in[in].sizes[1], out.sizes[1], number(s, LMI_S_groups, 0, 1))) return false;
    for (int32_t i = 2; i < n; i++) {
        window at = window_at(s, i - 2, w.sizes[i]);
        if (!(transposed ? tap_transposed(a, r, i, at) : tap_window(a, r, i, at))) return false;
    }
    return true;
}

bool lmi_way_pool(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, rank = lmi_op_rank(s->word);
    lmi_way_point(a, s, in, r);
    r->spatial = lmi_last_axes(n, rank);
    if (nth_tensor(s, in) > 0 || rank < 1 || n <= rank || n > LMI_AXES) return lmi_way_all(a, s, in, r);
    for (int32_t i = 0; i < rank; i++) {
        window w = window_at(s, i, number(s, LMI_S_kernel, i, 0));
        w.stride = number(s, LMI_S_stride, i, w.k); /* none is given: windows side by side */
        if (!tap_window(a, r, n - rank + i, w)) return false;
    }
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
    r->spatial = lmi_last_axes(n, rank);
    if (rank < 1 || n <= rank || n > LMI_AXES || out.ndim != n) return lmi_way_all(a, s, in, r);
    for (int32_t i = n - rank; i < n; i++) {
        if (out.sizes[i] == 1)
            r->to[i] = LMI_TO_ALL;
        else if (!lmi_tap_resized(a, r, i, s->in[in].sizes[i], out.sizes[i], at_adaptive))
            return false;
    }
    return true;
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

/* -- windows as columns -------------------------------------------------------------------------- */

/* The windows of im2col and col2im along one axis of n elements. */
typedef struct window_row {
    window w;
    int64_t n, count; /* count: of windows */
} window_row;

/* False: they are not known, or there are no windows. */
static bool window_rows(const lam_op_sig *s, const int64_t *sizes, window_row rows[2]) {
    for (int32_t i = 0; i < 2; i++) {
        window w = window_at(s, i, number(s, LMI_S_kernel, i, 0));
        if (w.k < 1 || w.stride < 1 || w.dil < 1) return false;
        rows[i] = (window_row){w, sizes[i], (sizes[i] + 2 * w.pad - w.dil * (w.k - 1) - 1) / w.stride + 1};
        if (rows[i].count < 1 || rows[i].count > LMI_PERIOD_MAX) return false;
    }
    return true;
}

/* im2col(x, kernel, dilation, padding, stride): each axis becomes one of (elements of the kernel) x
 * (windows), and these are put in another order. */
bool lmi_way_columns(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    static const int8_t order[2][7] = {{0, 1, 3, 2, 4}, {0, 1, 2, 4, 3, 5}};
    int32_t n = s->in[in].ndim, c = n - 3;
    int64_t sizes[LMI_AXES], split[LMI_AXES], *lo, *hi;
    window_row rows[2];
    if ((n != 3 && n != 4) || !window_rows(s, s->in[in].sizes + n - 2, rows))
        return lmi_way_spread(a, s, in, r);
    lmi_way_point(a, s, in, r);
    memcpy(sizes, s->in[in].sizes, (size_t)n * sizeof *sizes);
    memcpy(split, sizes, (size_t)n * sizeof *split);
    for (int32_t i = 0; i < 2; i++) {
        const window_row *row = &rows[i];
        r->to[c + 1 + i] = (int8_t)(c + 1 + i);
        if (!tap(a, r, c + 1 + i, (int32_t)row->count, row->w.dil, 1, &lo, &hi)) return false;
        for (int64_t o = 0; o < row->count; o++) lo[o] = hi[o] = o * row->w.stride - row->w.pad;
        sizes[c + 1 + i] = row->w.k * row->count;
        split[c + 1 + 2 * i] = row->w.k;
        split[c + 2 + 2 * i] = row->count;
    }
    for (int32_t i = 0; i <= c; i++) r->to[i] = (int8_t)i;
    lmi_route *next = then(a, r, n, sizes);
    return next && lmi_rearranged(a, next, n + 2, split, order[c]);
}

/* Element o of an axis reads, of (elements of the kernel) x (windows), those of the windows that it is in. */
static bool tap_columns(lmi_arena *a, lmi_route *r, int32_t axis, const window_row *row) {
    const window w = row->w;
    int64_t common = lmi_gcd(w.stride, w.dil), by = w.stride / common * row->count - w.dil / common;
    lmi_reach *each;
    if (!reads(a, row->n, &each)) return false;
    if (by < 1 || !each) {
        r->to[axis] = LMI_TO_ALL;
        r->unsure |= (uint8_t)(1u << axis);
        return true;
    }
    for (int64_t o = 0; o < row->n; o++) {
        each[o] = only(-1);
        for (int64_t k = 0; k < w.k; k++) {
            int64_t at = o + w.pad - k * w.dil, i = lmi_floor_div(at, w.stride);
            if (at != i * w.stride || i < 0 || i >= row->count) continue;
            if (each[o].hi < each[o].lo) each[o].lo = k * row->count + i;
            each[o].hi = k * row->count + i;
        }
    }
    if (!tap_same(a, r, axis, 0, by, 0, w.k * row->count - 1)) return false;
    lmi_taps *t = lmi_copy(a, r->taps[axis], 1, sizeof *t);
    if (t) t->each = each;
    r->taps[axis] = t;
    return t != NULL;
}

/* col2im(x, size, kernel, dilation, padding, stride): the reverse; windows are added up. */
bool lmi_way_from_columns(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    static const int8_t order[2][6] = {{0, 1, 3, 2, 4}, {0, 1, 2, 4, 3, 5}};
    int32_t n = s->in[in].ndim, c = n - 2;
    int64_t split[LMI_AXES], sizes[LMI_AXES];
    window_row rows[2];
    lam_shape out = lmi_result_shape(s);
    if ((n != 2 && n != 3) || out.ndim != n + 1 || !window_rows(s, out.sizes + n - 1, rows))
        return lmi_way_spread(a, s, in, r);
    lmi_way_point(a, s, in, r);
    if (c == 1) split[0] = sizes[0] = s->in[in].sizes[0];
    split[c] = sizes[c] = out.sizes[c];
    for (int32_t i = 0; i < 2; i++) {
        split[c + 1 + i] = rows[i].w.k;
        split[c + 3 + i] = rows[i].count;
        sizes[c + 1 + i] = rows[i].w.k * rows[i].count;
    }
    if (!lmi_rearranged(a, r, n + 3, split, order[c])) return false;
    lmi_route *last = (lmi_route *)(uintptr_t)r->then->then, *sum = then(a, last, n + 1, sizes);
    if (!sum) return false;
    return tap_columns(a, sum, c + 1, &rows[0]) && tap_columns(a, sum, c + 2, &rows[1]);
}

bool lmi_rearranged(lmi_arena *a, lmi_route *r, int32_t n, const int64_t *split, const int8_t *by) {
    int64_t turned[LMI_AXES];
    for (int32_t i = 0; i < n; i++) turned[i] = split[by[i]];
    lmi_route *permute = then(a, r, n, split), *merge = permute ? then(a, permute, n, turned) : NULL;
    if (!merge) return false;
    for (int32_t i = 0; i < n; i++) permute->to[by[i]] = (int8_t)i;
    r->view = merge->view = true;
    return true;
}
