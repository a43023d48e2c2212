/* SPDX-License-Identifier: Apache-2.0
 * Readers of an operator's arguments and writers of routes, for route.c and routewin.c. */
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

static inline int32_t dim_at(const lam_op_sig *s, int32_t position, int64_t fallback, int32_t ndim) {
    int64_t d = int_at(s, position, 0, fallback);
    if (d < 0) d += ndim;
    return d >= 0 && d < ndim ? (int32_t)d : -1;
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

static inline bool tap(lmi_arena *a, lmi_route *r, int32_t axis, int32_t period, int64_t shift, int64_t step,
                       int64_t **lo, int64_t **hi) {
    lmi_taps *t = lmi_alloc(a, 1, sizeof *t);
    *lo = lmi_alloc(a, (uint64_t)period, sizeof **lo);
    *hi = lmi_alloc(a, (uint64_t)period, sizeof **hi);
    if (!t || !*lo || !*hi) return false;
    *t = (lmi_taps){period, shift, step, *lo, *hi, NULL};
    if (axis >= 0 && axis < LMI_AXES) r->taps[axis] = t;
    return true;
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

/* Allocates the indices of the elements that each of n elements reads; NULL if n is too large. */
static inline bool picks(lmi_arena *a, int64_t n, int64_t **pick) {
    *pick = NULL;
    if (n > LMI_EACH_MAX) return true;
    *pick = lmi_alloc(a, (uint64_t)(n > 0 ? n : 1), sizeof **pick);
    return *pick != NULL;
}

/* Taps that read one element each: pick[o], or o + at if `pick` is NULL. */
static inline bool tap_pick(lmi_arena *a, lmi_route *r, int32_t axis, int64_t at, const int64_t *pick) {
    lmi_taps *t = lmi_alloc(a, 1, sizeof *t);
    int64_t *lo = lmi_alloc(a, 1, sizeof *lo);
    if (!t || !lo) return false;
    *lo = at;
    *t = (lmi_taps){1, 1, 1, lo, lo, pick};
    if (axis >= 0 && axis < LMI_AXES) r->taps[axis] = t;
    return true;
}

static inline bool mix(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r, int32_t dim) {
    lmi_way_point(a, s, in, r);
    if (dim >= 0 && dim < LMI_AXES) r->to[dim] = LMI_TO_ALL;
    return true;
}

#endif
