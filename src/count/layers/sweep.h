/* SPDX-License-Identifier: Apache-2.0
 * sweep: what a window that slides over an input really reads, in closed form. */
#ifndef LMI_SWEEP_H
#define LMI_SWEEP_H

#include "count/layers/layers.h"

/* One axis: tap t of window o looks at position o * stride - pad + t * dil, which may lie outside 0..in-1. */
typedef struct lmi_sweep {
    int64_t in, out, kernel, stride, pad, dil;
} lmi_sweep;

/* covered: pairs of a window and an element in bounds that it reads. windows: windows that read one at least.
 * touched: elements that some window reads. */
typedef struct lmi_swept {
    int64_t covered, windows, touched;
} lmi_swept;

/* False when a number is out of reach: an axis or a step beyond 2^31, a window beyond 2^20 taps. */
bool lmi_sweep_axis(const lmi_sweep *a, lmi_swept *out);
/* An adaptive pool's windows: from floor(o * in / out) up to, not including, ceil((o + 1) * in / out). */
bool lmi_sweep_adaptive(int64_t in, int64_t out, lmi_swept *to);
/* Axes are independent, so their numbers multiply. False on overflow. */
bool lmi_swept_times(lmi_swept *total, const lmi_swept *axis);

/* The sweep of one axis as the slots kernel, stride, pad and dil tell; false where one is missing. `pad` may
 * be the word "same" or "valid". A stride of None is the kernel. */
bool lmi_sweep_slots(const lmi_slots *s, int32_t axis, lmi_sweep *out);

/* The facts covered and touched of an image that unfold reads or fold writes: (N, C, H, W) or (C, H, W). */
void lmi_image_swept(const lmi_slots *s, lam_shape at, lmi_facts *f);

#endif
