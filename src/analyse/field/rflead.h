/* SPDX-License-Identifier: Apache-2.0
 * How a span leads through an operator, and how several spans of one tensor are joined (rflead.c). */
#ifndef LMI_ANALYSE_RFLEAD_H
#define LMI_ANALYSE_RFLEAD_H

#include "analyse/field/grid.h"
#include "analyse/field/route.h"

/* Maps a span of an argument of shape x along the first step of a route, to a tensor of shape `out`. alone:
 * axes of the argument (one bit each) that no span of the same input follows. Sets *windowed if a window
 * moved along the span's own axis. All return false if memory ran out. */
bool lmi_rf_step(lmi_arena *a, lam_shape x, lam_shape out, const lmi_route *r, uint32_t alone, lmi_span *s,
                 bool *windowed);
/* True if the route may read less along one of the axes (one bit each). */
bool lmi_rf_loosens(const lmi_route *r, uint8_t axes);
/* Restricts the span of one concatenated argument to its part: elements of the others do not depend on it. */
bool lmi_rf_part(lmi_arena *a, lmi_span *s, const lmi_route *r, lam_shape out);
/* Joins two spans of a tensor of that shape: the result depends on both. */
bool lmi_rf_join(lmi_arena *a, lmi_span *s, const lmi_span *other, lam_shape shape);
/* The span now says of each element what the grid says, which all that it said before includes. */
bool lmi_rf_settle(lmi_arena *a, lmi_span *s, const lmi_grid *g, lam_shape shape);
/* The grid of a span of a tensor of that shape. */
bool lmi_rf_grid(lmi_arena *a, const lmi_span *s, lam_shape shape, lmi_grid *g);

#endif
