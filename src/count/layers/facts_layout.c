/* SPDX-License-Identifier: Apache-2.0
 * facts_layout: kinds that move elements and compute nothing, except fold, which adds elements of overlapping
 * windows. */
#include "count/layers/sweep.h"

enum { META = 14 }; /* c10's number of the device that has no memory */

/* 1 if a reshape copied its elements, 0 if the result has the memory of the input, -1: unknown. On the meta
 * device there is no memory, and nothing is copied. */
static int64_t moved(const lam_event *ev) {
    if (ev->n_in < 1 || ev->n_out < 1) return -1;
    const lam_arg *x = &ev->in[0], *y = &ev->out[0];
    if (y->device == META || lmi_numel((lam_shape){y->ndim, y->sizes}) == 0) return 0;
    return x->storage && y->storage ? x->storage != y->storage : -1;
}

/* Reads the padding before and after the i-th spatial axis, from 0. The attribute lists the last axis
 * first. */
static bool pads(const lam_value *v, int32_t i, int32_t rank, int64_t to[2]) {
    if (!v || (v->type == LAM_INTS && v->n != 2 * rank)) return false;
    int32_t at = 2 * (rank - 1 - i);
    to[0] = v->type == LAM_INTS ? v->ints[at] : lmi_value_int(v, INT64_MIN);
    to[1] = v->type == LAM_INTS ? v->ints[at + 1] : to[0];
    return to[0] >= -INT32_MAX && to[1] >= -INT32_MAX;
}

/* Elements of the input that are read. A negative padding crops, and cropped elements are not read. If the
 * padding copies values of the input, it may read cropped elements, so the number is unknown. */
static int64_t padded(lmi_kind k, const lmi_slots *s, lam_shape x, int32_t rank) {
    int64_t n = 1;
    for (int32_t i = 0; i < x.ndim; i++) {
        int64_t p[2] = {0, 0}, size = x.sizes[i];
        int32_t axis = i - (x.ndim - rank);
        if (axis >= 0 && !pads(s->at[LMI_S_pad].value, axis, rank, p)) return -1;
        bool crops = p[0] < 0 || p[1] < 0;
        if (crops && k == LMI_K_pad_copy) return -1;
        size += (p[0] < 0 ? p[0] : 0) + (p[1] < 0 ? p[1] : 0);
        n = lmi_times(n, size > 0 || !crops ? size : 0);
    }
    return n;
}

/* The number of windows that fit: floor((size + 2 pad - dil (kernel - 1) - 1) / stride) + 1. */
static int64_t fitting(const lmi_sweep *a) {
    int64_t room = a->in + 2 * a->pad - a->dil * (a->kernel - 1) - 1;
    return room < 0 ? 0 : room / a->stride + 1;
}

static bool sweep_image(const lmi_slots *s, const int64_t sizes[2], lmi_swept *total) {
    *total = (lmi_swept){1, 1, 1};
    for (int32_t i = 0; i < 2; i++) {
        lmi_sweep a;
        lmi_swept axis;
        if (!lmi_sweep_slots(s, i, &a)) return false;
        a.in = sizes[i];
        a.out = 0;
        if (!lmi_sweep_axis(&a, &axis))
            return false; /* without `out` yet: only checks that the numbers are within limits */
        a.out = fitting(&a);
        if (!lmi_sweep_axis(&a, &axis) || !lmi_swept_times(total, &axis)) return false;
    }
    return true;
}

/* The image is unfold's input and fold's output: (N, C, H, W) or (C, H, W). */
void lmi_image_swept(const lmi_slots *s, lam_shape at, lmi_facts *f) {
    lmi_swept total;
    if (at.ndim < 3 || !sweep_image(s, at.sizes + at.ndim - 2, &total)) return;
    int64_t planes = lmi_axes(at, 0, -2);
    lmi_fact_set(f, LMI_FACT_covered, lmi_times(planes, total.covered));
    lmi_fact_set(f, LMI_FACT_touched, lmi_times(planes, total.touched));
}

void lmi_facts_layout(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    lam_shape x = lmi_input(m, event, s);
    int64_t rank = lmi_fact_get(f, LMI_FACT_rank);
    switch (k) {
    case LMI_K_flatten:
    case LMI_K_unflatten: lmi_fact_set(f, LMI_FACT_moved, moved(lam_model_event(m, event))); break;
    case LMI_K_pad_constant:
    case LMI_K_pad_copy:
        if (rank >= 1 && rank <= x.ndim) lmi_fact_set(f, LMI_FACT_touched, padded(k, s, x, (int32_t)rank));
        break;
    case LMI_K_fold: lmi_image_swept(s, lmi_output(m, event), f); break;
    case LMI_K_unfold: lmi_image_swept(s, x, f); break;
    default: break;
    }
}
