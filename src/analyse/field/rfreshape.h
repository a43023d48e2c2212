/* SPDX-License-Identifier: Apache-2.0
 * Axes of two shapes that hold the same elements in the same order (rfreshape.c). */
#ifndef LMI_ANALYSE_RFVIEW_H
#define LMI_ANALYSE_RFVIEW_H

#include "analyse/field/route.h"

typedef struct lmi_group { /* axes of two shapes that hold the same elements in the same order */
    int32_t in, in_end, out, out_end;
} lmi_group;

/* Finds the group that contains input axis `axis`. */
bool lmi_find_group(lam_shape in, lam_shape out, int32_t axis, lmi_group *g);
int64_t lmi_axes_product(lam_shape s, int32_t from, int32_t to);
/* The first axis of a group with more than one element, or its first. */
int32_t lmi_first_real(lam_shape s, int32_t from, int32_t to);
/* The shape with the fewest axes from which both shapes result by merging axes. False: there is none. */
bool lmi_refined(lam_shape in, lam_shape out, int64_t *sizes, lam_shape *mid);

#endif
