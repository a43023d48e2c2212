/* SPDX-License-Identifier: Apache-2.0
 * What is written through one view of memory, as it is read through another (rfplace.c). */
#ifndef LMI_ANALYSE_RFPLACE_H
#define LMI_ANALYSE_RFPLACE_H

#include "analyse/field/rfgraph.h"
#include "model/view.h"

/* A span of a view at `from` becomes one of a view at `to`, of whose elements it knows those that are in
 * both. False: memory ran out. */
bool lmi_rf_move(lmi_arena *a, lmi_span *s, const lmi_place *from, const lmi_place *to);
/* The view at `to` knows `old` (n spans); `fresh`, led there by lmi_rf_move, was written at `at` since. */
bool lmi_rf_overlay(lmi_arena *a, int32_t n, lmi_span *old, lmi_span *fresh, const lmi_place *at,
                    const lmi_place *to);
/* Axes of inputs whose positions follow axis `axis` of a tensor, one bit each. */
uint32_t lmi_rf_along(const lmi_span *spans, int32_t n, int32_t axis);
/* How many elements a tensor of that shape has along the axis that a span follows; 1: it follows none. */
static inline int64_t lmi_rf_elements(const lmi_span *s, lam_shape shape) {
    return s->kind == LMI_SPAN_TRACK && s->axis < shape.ndim ? shape.sizes[s->axis] : 1;
}
/* `spans` and `sum` are about to meet: an element that sees nothing along one axis sees nothing at all, also
 * where the other goes along that axis, so what it sees along the others may be less. Axes in `but` (one bit
 * each) tell apart themselves. */
void lmi_rf_gaps(int32_t n, const lmi_span *spans, lmi_span *sum, lam_shape shape, uint32_t but);
/* Of two paths, keeps the one that sees less. */
void lmi_rf_narrower(lmi_span *s, const lmi_span *other);

#endif
