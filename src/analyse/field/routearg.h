/* SPDX-License-Identifier: Apache-2.0
 * Readers of an operator's arguments and writers of routes, for the files that begin with route. */
#ifndef LMI_ANALYSE_ROUTEARG_H
#define LMI_ANALYSE_ROUTEARG_H

#include "analyse/field/route.h"

/* The k-th of the integers of the argument at a position; a single integer applies to every axis. */
static inline int64_t int_at(const lam_op_sig *s, int32_t position, int32_t k, int64_t fallback) {
    const lam_value *v = lmi_sig_value(s, position);
    if (!v) return fallback;
    if (v->type == LAM_INT || v->type == LAM_BOOL) return v->i;
    if (v->type != LAM_INTS || v->n == 0) return fallback;
    return v->ints[v->n == 1 ? 0 : k < v->n ? k : v->n - 1];
}

/* The argument with that role, unless it is a tensor or was not given. */
static inline const lam_value *value(const lam_op_sig *s, lmi_slot_id role) {
    return lmi_sig_value(s, lmi_op_position(s->word, role));
}

/* The k-th of its integers. */
static inline int64_t number(const lam_op_sig *s, lmi_slot_id role, int32_t k, int64_t fallback) {
    return int_at(s, lmi_op_position(s->word, role), k, fallback);
}

static inline int32_t dim_at(const lam_op_sig *s, int32_t position, int64_t fallback, int32_t ndim) {
    int64_t d = int_at(s, position, 0, fallback);
    if (d < 0) d += ndim;
    return d >= 0 && d < ndim ? (int32_t)d : -1;
}

/* The axis that the argument with that role names. */
static inline int32_t axis_by(const lam_op_sig *s, lmi_slot_id role, int64_t fallback, int32_t ndim) {
    return dim_at(s, lmi_op_position(s->word, role), fallback, ndim);
}
static inline int32_t axis_of(const lam_op_sig *s, int64_t fallback, int32_t ndim) {
    return axis_by(s, LMI_S_dim, fallback, ndim);
}

static inline lam_shape shape_in(const lam_op_sig *s, int32_t in) {
    return (lam_shape){s->in[in].ndim, s->in[in].sizes};
}

/* The index of argument `in` among the arguments that are tensors. */
static inline int32_t nth_tensor(const lam_op_sig *s, int32_t in) {
    int32_t n = 0;
    for (int32_t i = 0; i < in; i++) n += s->in[i].is_tensor;
    return n;
}

static inline void to_all(lmi_route *r) {
    for (int i = 0; i < LMI_AXES; i++) r->to[i] = LMI_TO_ALL;
}

static inline void aligned(lmi_route *r, int32_t in_ndim, int32_t out_ndim) {
    for (int32_t i = 0; i < LMI_AXES; i++)
        r->to[i] = (int8_t)(i < in_ndim && i + out_ndim - in_ndim >= 0 ? i + out_ndim - in_ndim : LMI_TO_ALL);
}

/* NULL: memory ran out. */
static inline lmi_taps *tap(lmi_arena *a, lmi_route *r, int32_t axis, int32_t period, int64_t shift,
                            int64_t step, int64_t **lo, int64_t **hi) {
    lmi_taps *t = lmi_alloc(a, 1, sizeof *t);
    *lo = lmi_alloc(a, (uint64_t)period, sizeof **lo);
    *hi = lmi_alloc(a, (uint64_t)period, sizeof **hi);
    if (!t || !*lo || !*hi) return NULL;
    *t = (lmi_taps){period, shift, step, *lo, *hi, NULL, false};
    if (axis >= 0 && axis < LMI_AXES) r->taps[axis] = t;
    return t;
}

/* Taps with one interval for every element. */
static inline bool tap_same(lmi_arena *a, lmi_route *r, int32_t axis, int64_t shift, int64_t step,
                            int64_t low, int64_t high) {
    int64_t *lo, *hi;
    if (!tap(a, r, axis, 1, shift, step, &lo, &hi)) return false;
    *lo = low;
    *hi = high;
    return true;
}

/* Allocates what each of n elements reads; NULL if n is too large. */
static inline bool reads(lmi_arena *a, int64_t n, lmi_reach **each) {
    *each = NULL;
    if (n > LMI_EACH_MAX) return true;
    *each = lmi_alloc(a, (uint64_t)(n > 0 ? n : 1), sizeof **each);
    return *each != NULL;
}

/* Element i alone, -1: none. */
static inline lmi_reach only(int64_t i) { return i < 0 ? (lmi_reach){1, 0} : (lmi_reach){i, i}; }

/* Taps that read each[o], or o + at if `each` is NULL. */
static inline bool tap_each(lmi_arena *a, lmi_route *r, int32_t axis, int64_t at, const lmi_reach *each) {
    lmi_taps *t = lmi_alloc(a, 1, sizeof *t);
    int64_t *lo = lmi_alloc(a, 1, sizeof *lo);
    if (!t || !lo) return false;
    *lo = at;
    *t = (lmi_taps){1, 1, 1, lo, lo, each, false};
    if (axis >= 0 && axis < LMI_AXES) r->taps[axis] = t;
    return true;
}

/* The route leads to a tensor of these sizes first. Returns the route from there, on which each axis stays;
 * NULL: memory ran out. */
static inline lmi_route *then(lmi_arena *a, lmi_route *r, int32_t ndim, const int64_t *sizes) {
    lmi_route *next = lmi_alloc(a, 1, sizeof *next);
    int64_t *mid = lmi_copy(a, sizes, (uint64_t)ndim, sizeof *mid);
    if (!next || !mid) return NULL;
    next->among = -1;
    for (int32_t i = 0; i < LMI_AXES; i++) next->to[i] = (int8_t)i;
    r->mid = (lam_shape){ndim, mid};
    r->then = next;
    return next;
}

/* The route is of three steps: the axes are split as in `split`, permuted, and merged. by[i]: the split axis
 * that becomes axis i. */
bool lmi_rearranged(lmi_arena *a, lmi_route *r, int32_t n, const int64_t *split, const int8_t *by);

/* The axes of windows: the last `rank` of n, one bit each. */
static inline uint8_t lmi_last_axes(int32_t n, int32_t rank) {
    uint8_t bits = 0;
    for (int32_t i = n - rank < 0 ? 0 : n - rank; i < n && i < LMI_AXES; i++) bits |= (uint8_t)(1u << i);
    return bits;
}

/* Along a resized axis, element o reads lo(o) .. hi(o), which `at` computes for in/out = p/q. */
typedef void (*lmi_resized)(int64_t o, int64_t p, int64_t q, int64_t *lo, int64_t *hi);
bool lmi_tap_resized(lmi_arena *a, lmi_route *r, int32_t axis, int64_t p, int64_t q, lmi_resized at);

static inline bool mix(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r, int32_t dim) {
    lmi_way_point(a, s, in, r);
    if (dim >= 0 && dim < LMI_AXES) r->to[dim] = LMI_TO_ALL;
    return true;
}

#endif
