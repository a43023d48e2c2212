/* SPDX-License-Identifier: Apache-2.0
 * Receptive fields of data that is written through one view and read through another (rfmemory.c). */
#ifndef LMI_ANALYSE_RFPLACE_H
#define LMI_ANALYSE_RFPLACE_H

#include "analyse/field/rfgraph.h"
#include "model/view.h"

/* Converts a span of a view at `from` into one of a view at `to`; it covers the elements that are in both.
 * False: memory ran out. */
bool lmi_rf_move(lmi_arena *a, lmi_span *s, const lmi_place *from, const lmi_place *to);
/* Merges into `old`, the spans of the view at `to`, the spans `fresh`, from lmi_rf_move, which were written
 * at `at` later. */
bool lmi_rf_overlay(lmi_arena *a, const lmi_rf *rf, lmi_span *old, lmi_span *fresh, const lmi_place *at,
                    const lmi_place *to);
/* The number of elements of a tensor of that shape along the axis that a span follows; 1: it follows none. */
static inline int64_t lmi_rf_elements(const lmi_span *s, lam_shape shape) {
    return s->kind == LMI_SPAN_TRACK && s->axis < shape.ndim ? shape.sizes[s->axis] : 1;
}
/* Keeps the narrower of two paths. */
void lmi_rf_narrower(lmi_span *s, const lmi_span *other);

#endif
