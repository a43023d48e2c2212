/* SPDX-License-Identifier: Apache-2.0
 * view: the part of a tensor that a view covers, if each axis of the view follows one of the tensor's. It
 * shows which writes through one view are read through another. */
#ifndef LMI_MODEL_VIEW_H
#define LMI_MODEL_VIEW_H

#include "model/model.h"

enum { LMI_PLACE_AXES = 8 };

/* The view has the elements start[i], start[i] + step[i], ..., count[i] in all, along axis i of the tensor
 * whose memory it shares. of[k]: the axis of that tensor that axis k of the view follows; -1: none, it has
 * one element or repeats it. */
typedef struct lmi_place {
    int32_t n_base, n;
    int64_t size[LMI_PLACE_AXES];
    int64_t start[LMI_PLACE_AXES], step[LMI_PLACE_AXES], count[LMI_PLACE_AXES];
    int8_t of[LMI_PLACE_AXES];
} lmi_place;

/* A whole tensor of that shape. False: it has too many axes. */
bool lmi_place_whole(lmi_place *p, int32_t ndim, const int64_t *sizes);
/* Computes the place of result `nth` of operator `made`; made -1: of an earlier tensor of that shape. False:
 * it is unknown. */
bool lmi_place_of(const lam_model *m, const lmi_edge *edges, int32_t made, int32_t nth, int32_t ndim,
                  const int64_t *sizes, lmi_place *p);
/* True if the view covers the whole tensor. */
bool lmi_place_is_whole(const lmi_place *p);
/* True if the tensors of both have the same shape; an operator may give memory another shape. */
bool lmi_places_comparable(const lmi_place *x, const lmi_place *y);
/* False if no element is in both. */
bool lmi_places_meet(const lmi_place *x, const lmi_place *y);
/* True if each element of `part` is in `whole`. */
bool lmi_place_holds(const lmi_place *whole, const lmi_place *part);

#endif
