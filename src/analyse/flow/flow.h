/* SPDX-License-Identifier: Apache-2.0
 * flow: the flow of data through the operators that ran, for the graph, receptive fields on it, and the
 * search for unused modules. */
#ifndef LMI_ANALYSE_FLOW_H
#define LMI_ANALYSE_FLOW_H

#include "analyse/costs.h"
#include "model/view.h"

/* The source of a tensor. */
typedef enum lmi_by { LMI_BY_NOTHING, LMI_BY_OP, LMI_BY_TENSOR, LMI_BY_INPUT } lmi_by;
typedef struct lmi_source {
    lmi_by by;
    int32_t index; /* of the operator, the parameter or buffer, or the argument of the outermost call */
} lmi_source;

/* Operators call operators, and data must be followed at one level. A unit is an operator that represents
 * everything inside it; the others are transparent. */
typedef struct lmi_stream {
    const lam_model *m;
    int32_t *unit; /* per operator: the unit that it is or is inside of; -1: it is transparent */
    int32_t *last; /* per transparent operator: the last unit inside it that returns a tensor, -1 */
} lmi_stream;

/* `is_unit` is called for every operator that is inside no unit. */
lam_status lmi_flow_build(lmi_stream *f, const lam_model *m, lmi_arena *a,
                          bool (*is_unit)(void *self, const lam_op *o), void *self, lam_error *e);
/* The unit, parameter, buffer or argument that is the source of entry `in` of an operator's arguments. */
lmi_source lmi_flow_from(const lmi_stream *f, int32_t op, int32_t in);
/* The same for entry `out` of a call's results. */
lmi_source lmi_flow_result(const lmi_stream *f, int32_t event, int32_t out);

/* Iterates over all sources of parts of a tensor: writers of its memory, the last first, then its creator.
 * Without partial writes that is the one of lmi_flow_from. */
typedef struct lmi_givers {
    const lmi_stream *f;
    const lmi_edge *edge;
    lmi_place place;
    bool placed;
    int32_t write; /* the next write, -1: `rest` is next */
    bool own; /* set it if the caller follows views itself: only writes since this view was made */
    lmi_source rest;
    bool done;
} lmi_givers;
lmi_givers lmi_flow_givers(const lmi_stream *f, int32_t op, int32_t in);
lmi_givers lmi_flow_result_givers(const lmi_stream *f, int32_t event, int32_t out);
/* False: there are no more. */
bool lmi_flow_next(lmi_givers *g, lmi_source *s);
/* The place of the view that a write used; false: unknown. */
bool lmi_flow_place(const lam_model *m, const lmi_write *w, lmi_place *p);

/* True for an operator that counts, with everything inside it: the units of the graph. */
bool lmi_flow_counts(void *unused, const lam_op *o);
/* True for a custom operator that returned a tensor: the operators inside it may be only a part of its
 * work. */
bool lmi_is_custom(const lam_op *o);
/* The first entry of an operator's arguments that is a tensor, -1 none. */
int32_t lmi_first_tensor(const lam_op *o);
/* The entry of the tensor that is the argument at a position, -1 none. */
int32_t lmi_tensor_argument(const lam_op_sig *sig, int32_t position);
/* True for an operator that returns a tensor and computes or moves nothing: a view or an unchanged tensor. */
bool lmi_only_view(const lam_op *o);
/* The outermost call around `call`, -1 for -1. `root` has one entry a call. */
bool lmi_flow_roots(const lam_model *m, lmi_arena *a, int32_t **root);

/* Writes the size of a key-value cache into `f` (cache.c). */
void lmi_find_cache(const lam_model *m, lam_fit *f);

#endif
