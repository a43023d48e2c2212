/* SPDX-License-Identifier: Apache-2.0
 * Receptive fields of data that is written through one view and read through another (rfplace.c). */
#ifndef LMI_ANALYSE_RFPLACE_H
#define LMI_ANALYSE_RFPLACE_H

#include "analyse/field/rfgraph.h"
#include "model/view.h"

/* Converts a span of a view at `from` into one of a view at `to`; it covers the elements that are in both.
 * False: memory ran out. */
bool lmi_rf_move(lmi_arena *a, lmi_span *s, const lmi_place *from, const lmi_place *to);
/* Merges into `old` (n spans of the view at `to`) the spans `fresh`, from lmi_rf_move, which were written at
 * `at` later. */
bool lmi_rf_overlay(lmi_arena *a, int32_t n, lmi_span *old, lmi_span *fresh, const lmi_place *at,
                    const lmi_place *to);
/* Axes of inputs whose positions follow axis `axis` of a tensor, one bit each. */
uint32_t lmi_rf_along(const lmi_span *spans, int32_t n, int32_t axis);
/* The number of elements of a tensor of that shape along the axis that a span follows; 1: it follows none. */
static inline int64_t lmi_rf_elements(const lmi_span *s, lam_shape shape) {
    return s->kind == LMI_SPAN_TRACK && s->axis < shape.ndim ? shape.sizes[s->axis] : 1;
}
/* Call it before `spans` and `sum` are joined: an element without positions along one axis depends on
 * nothing, also if the other follows that axis, so its fields along other axes may be smaller. Axes in `but`
 * (one bit each) are excluded. */
void lmi_rf_gaps(int32_t n, const lmi_span *spans, lmi_span *sum, lam_shape shape, uint32_t but);
/* Keeps the narrower of two paths. */
void lmi_rf_narrower(lmi_span *s, const lmi_span *other);

#endif
