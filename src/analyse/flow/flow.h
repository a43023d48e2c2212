/* SPDX-License-Identifier: Apache-2.0
 * flow: the way of the data through the operators that ran, as far as the model knows it. What the graph, the
 * receptive field on it and the search for what is unused share. */
#ifndef LMI_ANALYSE_FLOW_H
#define LMI_ANALYSE_FLOW_H

#include "analyse/costs.h"
#include "model/view.h"

/* Where a tensor comes from. */
typedef enum lmi_by { LMI_BY_NOTHING, LMI_BY_OP, LMI_BY_TENSOR, LMI_BY_INPUT } lmi_by;
typedef struct lmi_source {
    lmi_by by;
    int32_t index; /* of the operator, the parameter or buffer, or the argument of the outermost call */
} lmi_source;

/* Operators call operators, and the data of one must be followed at one level. A unit is an operator that
 * stands for everything inside it; the others are looked through. */
typedef struct lmi_stream {
    const lam_model *m;
    int32_t *unit; /* per operator: the unit that it is or is inside of; -1: it is looked through */
    int32_t *last; /* per operator that is looked through: the last unit inside it that gives a tensor, -1 */
} lmi_stream;

/* `is_unit` is asked of every operator that is inside no unit. */
lam_status lmi_flow_build(lmi_stream *f, const lam_model *m, lmi_arena *a,
                          bool (*is_unit)(void *self, const lam_op *o), void *self, lam_error *e);
/* The unit, parameter, buffer or argument that gave entry `in` of an operator's arguments. */
lmi_source lmi_flow_from(const lmi_stream *f, int32_t op, int32_t in);
/* The same of entry `out` of a call's results. */
lmi_source lmi_flow_result(const lmi_stream *f, int32_t event, int32_t out);

/* One after another, all that gave a part of a tensor: writers of its memory, the last first, and what made
 * it. Where nothing was written in parts, that is the one that lmi_flow_from tells. */
typedef struct lmi_givers {
    const lmi_stream *f;
    const lmi_edge *edge;
    lmi_place place;
    bool placed;
    int32_t write; /* the next to look at, -1: `rest` comes */
    bool own; /* set it where views are followed themselves: only what was written since this one was made */
    lmi_source rest;
    bool done;
} lmi_givers;
lmi_givers lmi_flow_givers(const lmi_stream *f, int32_t op, int32_t in);
lmi_givers lmi_flow_result_givers(const lmi_stream *f, int32_t event, int32_t out);
/* False: there are no more. */
bool lmi_flow_next(lmi_givers *g, lmi_source *s);
/* Where the view that a write went through is; false: it is not known. */
bool lmi_flow_place(const lam_model *m, const lmi_write *w, lmi_place *p);

/* True for an operator that counts: what is inside it is a part of it. The level of the graph. */
bool lmi_flow_counts(void *unused, const lam_op *o);
/* The first entry of an operator's arguments that is a tensor, -1 none. */
int32_t lmi_first_tensor(const lam_op *o);
/* True for an operator that gives a tensor and computes or moves nothing: a view, or a tensor left as it is.
 */
bool lmi_only_view(const lam_op *o);
/* The outermost call around `call`, -1 for -1. `root` has one entry a call. */
bool lmi_flow_roots(const lam_model *m, lmi_arena *a, int32_t **root);

/* What a cache of keys and values would take, into `f` (cache.c). */
void lmi_find_cache(const lam_model *m, lam_fit *f);

#endif
