/* SPDX-License-Identifier: Apache-2.0
 * view: which part of a tensor a view of it is, as far as each of its axes goes along one of the tensor's.
 * What is written through one view is read through others. */
#ifndef LMI_MODEL_VIEW_H
#define LMI_MODEL_VIEW_H

#include "model/model.h"

enum { LMI_PLACE_AXES = 8 };

/* Along axis i of the tensor whose memory it is: elements start[i], start[i] + step[i], ..., count[i] in all.
 * of[k]: the axis of that tensor which axis k of the view goes along; -1: none, it has one element or repeats
 * it. */
typedef struct lmi_place {
    int32_t n_base, n;
    int64_t size[LMI_PLACE_AXES];
    int64_t start[LMI_PLACE_AXES], step[LMI_PLACE_AXES], count[LMI_PLACE_AXES];
    int8_t of[LMI_PLACE_AXES];
} lmi_place;

/* A whole tensor of that shape. False: it has too many axes. */
bool lmi_place_whole(lmi_place *p, int32_t ndim, const int64_t *sizes);
/* The place of what result `nth` of operator `made` gave; made -1: of a tensor of that shape that was there
 * before. False: it is not known. */
bool lmi_place_of(const lam_model *m, const lmi_edge *edges, int32_t made, int32_t nth, int32_t ndim,
                  const int64_t *sizes, lmi_place *p);
/* True: it is all of it. */
bool lmi_place_is_whole(const lmi_place *p);
/* True: their memory has one shape; an operator may make another of memory that it is given. */
bool lmi_places_comparable(const lmi_place *x, const lmi_place *y);
/* False: no element is in both. */
bool lmi_places_meet(const lmi_place *x, const lmi_place *y);
/* True: each element of `part` is in `whole`. */
bool lmi_place_holds(const lmi_place *whole, const lmi_place *part);

#endif
