/* SPDX-License-Identifier: Apache-2.0
 * The strides that torch gives a result, from the layouts of its operands. */
#include "dry/dry.h"

#include <string.h>

static void in_rows(const int64_t *sizes, int32_t n, int64_t *strides) {
    int64_t step = 1;
    for (int32_t i = n - 1; i >= 0; i--) {
        strides[i] = step;
        if (sizes[i] > 1 && __builtin_mul_overflow(step, sizes[i], &step)) step = INT64_MAX;
    }
}

static bool is_in_rows(const lam_op_arg *a, const int64_t *strides) {
    int64_t want[LMX_DIMS];
    in_rows(a->sizes, a->ndim, want);
    return memcmp(want, strides, sizeof *want * (size_t)a->ndim) == 0;
}

/* As torch decides: strides of axes of one element don't matter, and without elements none does. */
static bool is_contiguous(const lam_op_arg *a, const int64_t *strides) {
    int64_t want[LMX_DIMS];
    bool same = true;
    in_rows(a->sizes, a->ndim, want);
    for (int32_t i = 0; i < a->ndim; i++) {
        if (a->sizes[i] == 0) return true;
        same = same && (a->sizes[i] == 1 || strides[i] == want[i]);
    }
    return same;
}

static bool all_in_rows(const lmx_operands *r) {
    for (int32_t i = 0; i < r->n; i++)
        if (r->in[i].is_tensor && !is_in_rows(&r->in[i], r->strides[i])) return false;
    return true;
}

/* True if the elements fill their memory without gaps, in any order of axes longer than 1. */
bool lmx_is_dense(const lam_op_arg *a, const int64_t *strides) {
    int64_t step = 1, next = 1;
    uint64_t seen = 0;
    for (int32_t done = 0; done < a->ndim; done++, step = next) {
        int32_t i = 0;
        while (i < a->ndim && (seen >> i & 1 || strides[i] != step || a->sizes[i] < 2)) i++;
        if (i == a->ndim) break;
        seen |= (uint64_t)1 << i;
        next = step * a->sizes[i];
    }
    for (int32_t i = 0; i < a->ndim; i++)
        if (a->sizes[i] > 1 && !(seen >> i & 1)) return false;
    return true;
}

static void channels_last(const int64_t *sizes, int64_t *strides) {
    int64_t step = 1;
    static const int8_t order[] = {1, 3, 2, 0};
    for (int i = 0; i < 4; i++) {
        strides[order[i]] = step;
        if (sizes[order[i]] > 1 && __builtin_mul_overflow(step, sizes[order[i]], &step)) step = INT64_MAX;
    }
}

/* As is_contiguous, with the channels as the last axis in memory. */
static bool is_channels_last(const lam_op_arg *a, const int64_t *strides) {
    int64_t want[4];
    if (a->ndim != 4) return false;
    channels_last(a->sizes, want);
    for (int i = 0; i < 4; i++)
        if (a->sizes[i] != 1 && strides[i] != want[i]) return false;
    return true;
}

/* TensorIterator's first check: all operands have the sizes of the result, and one layout. False: it
 * compares their axes. */
static bool in_one_layout(const lmx_operands *r, lam_order order, const lam_result *out, int64_t *strides) {
    const int64_t *first = NULL;
    bool rows = true, last = true, dense = true;
    size_t bytes = sizeof *strides * (size_t)out->ndim;
    for (int32_t i = 0; i < r->n; i++) {
        const lam_op_arg *a = &r->in[i];
        if (!a->is_tensor && order == LAM_ORDER_BOTH) return false;
        if (!a->is_tensor) continue;
        if (a->ndim != out->ndim || memcmp(a->sizes, out->sizes, bytes) != 0) return false;
        if (!first) first = r->strides[i];
        rows = rows && is_contiguous(a, r->strides[i]);
        last = last && is_channels_last(a, r->strides[i]);
        dense = dense && lmx_is_dense(a, r->strides[i]) && memcmp(first, r->strides[i], bytes) == 0;
    }
    if (rows) return true; /* the strides are set already */
    if (last)
        channels_last(out->sizes, strides);
    else if (dense)
        memcpy(strides, first, bytes);
    return last || dense;
}

/* The distance in memory between two neighbours of an operand along an axis of the result; 0 if it has
 * one value there. */
static int64_t along(const lmx_operands *r, int32_t operand, const lam_result *out, int32_t axis) {
    const lam_op_arg *a = &r->in[operand];
    int32_t own = axis - (out->ndim - a->ndim);
    if (own < 0 || (a->sizes[own] == 1 && out->sizes[axis] != 1)) return 0;
    return r->strides[operand][own];
}

/* -1 if the operands make an axis of the result faster than another, 1 if slower, 0 if they don't
 * decide. */
static int32_t compared(const lmx_operands *r, const lam_result *out, int32_t axis, int32_t other) {
    for (int32_t i = 0; i < r->n; i++) {
        if (!r->in[i].is_tensor) continue;
        int64_t a = along(r, i, out, axis), b = along(r, i, out, other);
        if (a == 0 || b == 0) continue;
        if (a != b) return a < b ? -1 : 1;
        if (out->sizes[axis] > out->sizes[other]) return 1;
    }
    return 0;
}

/* The strides of a result of TensorIterator: its axes are ordered in memory as the operands are walked.
 * TensorIterator sorts them by insertion; axes that it can't compare keep their order. */
static bool as_operands(const lmx_operands *r, lam_order order, const lam_result *out, int64_t *strides) {
    int32_t axes[LAM_MAX_AXES], n = out->ndim;
    if (in_one_layout(r, order, out, strides)) return true;
    for (int32_t i = 0; i < n; i++) {
        if (out->sizes[i] == 0) return false;
        axes[i] = n - 1 - i;
    }
    for (int32_t i = 1; i < n; i++) {
        int32_t at = i;
        for (int32_t j = i - 1; j >= 0; j--) {
            int32_t sign = compared(r, out, axes[j], axes[at]), axis = axes[j];
            if (sign < 0) break;
            if (sign == 0) continue;
            axes[j] = axes[at];
            axes[at] = axis;
            at = j;
        }
    }
    int64_t step = 1;
    for (int32_t i = 0; i < n; i++) {
        strides[axes[i]] = step;
        if (__builtin_mul_overflow(step, out->sizes[axes[i]], &step)) step = INT64_MAX;
    }
    return true;
}

/* True if torch sees channels last: it trusts the strides of axes of one element; NCHW if both fit. */
static bool has_channels_last(const lam_op_arg *a, const int64_t *strides) {
    static const int8_t order[] = {1, 3, 2, 0};
    int64_t least = 0;
    if (!a->is_tensor || a->ndim != 4 || strides[1] == 0) return false;
    for (int i = 0; i < 4; i++) {
        int64_t size = a->sizes[order[i]], stride = strides[order[i]];
        if (size == 0 || stride < least || (order[i] == 0 && least == strides[1])) return false;
        least = stride;
        if (size > 1 && __builtin_mul_overflow(least, size, &least)) return false;
    }
    int64_t want[4];
    channels_last(a->sizes, want);
    for (int i = 0; i < 4; i++)
        if (a->sizes[i] > 1 && strides[i] != want[i]) return false;
    return true;
}

/* If every operand is in rows or has its channels last, so has the result. */
static bool as_images(const lmx_operands *r, lam_order order, const lam_result *out, int64_t *strides) {
    bool any = false;
    for (int32_t i = 0; i < r->n; i++) {
        if (!r->in[i].is_tensor) continue;
        bool last = has_channels_last(&r->in[i], r->strides[i]);
        if (!last && !is_in_rows(&r->in[i], r->strides[i])) return false;
        any = any || last;
    }
    if (any && out->ndim == 4 && !(order == LAM_ORDER_CONV && lam_dtype_bits(out->dtype) == 64))
        channels_last(out->sizes, strides);
    return true;
}

/* Channels last if only that fits the first operand, else in rows. With 5 axes the operand may have a
 * layout that is not covered here. */
static bool as_first(const lmx_operands *r, const lam_result *out, int64_t *strides) {
    const lam_op_arg *x = &r->in[0];
    if (!x->is_tensor || is_contiguous(x, r->strides[0])) return x->is_tensor;
    if (is_channels_last(x, r->strides[0]) && out->ndim == 4) channels_last(out->sizes, strides);
    return x->ndim <= 4;
}

bool lmx_lay_out(const lmx_operands *r, lam_order order, const lam_result *out, int64_t *strides) {
    in_rows(out->sizes, out->ndim, strides);
    if (order == LAM_ORDER_FRESH) return true;
    if (order == LAM_ORDER_NORM) return as_first(r, out, strides);
    if (order == LAM_ORDER_IMAGE || order == LAM_ORDER_CONV) return as_images(r, order, out, strides);
    if (all_in_rows(r)) return true;
    return (order == LAM_ORDER_LIKE || order == LAM_ORDER_BOTH) && as_operands(r, order, out, strides);
}
