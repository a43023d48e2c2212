/* SPDX-License-Identifier: Apache-2.0
 * sweep: the elements that a window sliding over an input really reads, in closed form. */
#ifndef LMI_SWEEP_H
#define LMI_SWEEP_H

#include "count/layers/layers.h"

/* One axis: tap t of window o is at position o * stride - pad + t * dil, which may be outside 0..in-1. */
typedef struct lmi_sweep {
    int64_t in, out, kernel, stride, pad, dil;
} lmi_sweep;

/* covered: pairs of a window and an element in bounds that it reads. windows: windows that read at least one
 * element in bounds. touched: elements that at least one window reads. */
typedef struct lmi_swept {
    int64_t covered, windows, touched;
} lmi_swept;

/* False if a number is beyond a limit: 2^31 for an axis or a step, 2^20 for the taps of a window. */
bool lmi_sweep_axis(const lmi_sweep *a, lmi_swept *out);
/* An adaptive pool's windows: from floor(o * in / out) up to, not including, ceil((o + 1) * in / out). */
bool lmi_sweep_adaptive(int64_t in, int64_t out, lmi_swept *to);
/* Axes are independent, so their numbers multiply. False on overflow. */
bool lmi_swept_times(lmi_swept *total, const lmi_swept *axis);

/* The sweep of one axis by the slots kernel, stride, pad and dil; false if one is missing. `pad` may be the
 * word "same" or "valid". A stride of None is the kernel. */
bool lmi_sweep_slots(const lmi_slots *s, int32_t axis, lmi_sweep *out);

/* The sweep of the last `rank` axes of x, whose windows give those of y; `adaptive`: the windows of an
 * adaptive pool. False if a number is missing or too large. */
bool lmi_sweep_axes(bool adaptive, const lmi_slots *s, lam_shape x, lam_shape y, int32_t rank,
                    lmi_swept *total);

/* The facts covered and touched of an image that unfold reads or fold writes: (N, C, H, W) or (C, H, W). */
void lmi_image_swept(const lmi_slots *s, lam_shape at, lmi_facts *f);

#endif
