/* SPDX-License-Identifier: Apache-2.0
 * Elements that depend on nothing of an input, such as padding: a span of one axis says it for those of the
 * others (rfempty.c). All functions return false if memory ran out. */
#ifndef LMI_ANALYSE_RFEMPTY_H
#define LMI_ANALYSE_RFEMPTY_H

#include "analyse/field/rfgraph.h"
#include "analyse/field/route.h"

/* An element that reads no position along one axis of an input reads nothing of it. Call it where that can't
 * be seen later from the spans of both axes: they follow the same axis of the tensor of that shape, have
 * grids, or are those of a part of the tensor (`part`). */
bool lmi_rf_empty(lmi_arena *a, const lmi_rf *rf, lmi_span *spans, lam_shape shape, bool part);
/* The same before `spans` are joined to `sum`: an element that depends on nothing by one of them may depend
 * on something by the other. */
bool lmi_rf_apart(lmi_arena *a, const lmi_rf *rf, lmi_span *spans, lmi_span *sum, lam_shape shape);
/* Maps all spans of an argument of shape x along the route, to a result of shape `out`. Sets windowed[] of
 * slots along whose axis a window moved. */
bool lmi_rf_lead(lmi_arena *a, const lmi_rf *rf, lam_shape x, lam_shape out, const lmi_route *r,
                 lmi_span *spans, bool *windowed);

#endif
