/* SPDX-License-Identifier: Apache-2.0
 * route: how an operator maps positions of its arguments to its result (rf_operators.def). */
#ifndef LMI_ANALYSE_ROUTE_H
#define LMI_ANALYSE_ROUTE_H

#include "analyse/field/span.h"

enum {
    LMI_TO_ALL = -1, /* every element of the result depends on the whole axis */
    LMI_TO_ONE = -2  /* every element depends on element one[] of the axis, -1: on none */
};

/* The route of one argument. */
typedef struct lmi_route {
    int8_t to[LMI_AXES];            /* per axis of the argument: the result's, or one of the above */
    const lmi_taps *taps[LMI_AXES]; /* the elements read along that axis; NULL: the one of the same index */
    int64_t one[LMI_AXES];
    int64_t before, n_among; /* its first element along `among`, and their number */
    int32_t among;           /* the axis along which several arguments are concatenated, -1 none */
    int32_t n_parts;         /* the number of these arguments */
    bool some;               /* some elements of the result may read nothing */
    bool unread;             /* no value of it is read */
    bool view;               /* the same elements in the same order, in another shape */
    bool loose;              /* it may read less */
    uint8_t unsure;          /* so may the taps of these axes, one bit each */
    uint8_t spatial;         /* axes whose taps are those of a window, one bit each: they have positions */
    /* If not NULL: the above leads to a tensor of shape `mid`, and this from there to the result. */
    const struct lmi_route *then;
    lam_shape mid;
} lmi_route;

typedef bool (*lmi_way)(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r);

/* Every way by its name in rf_operators.def: in route.c, those of windows in routewin.c, that of einsum in
 * routesum.c. Each returns false if memory ran out. */
/* clang-format off */
#define LMI_WAYS(X) \
    X(point) X(first) X(nothing) X(some) X(copy) X(all) X(spread) X(view) X(permute) X(swap) X(select) \
    X(slice) X(split) X(unbind) X(flip) X(roll) X(repeat) X(cat) X(stack) X(along) X(halves) X(scan) \
    X(waves) X(masked) X(scatter) X(put) X(add_at) X(gather) X(instance_norm) X(rnn) X(steps) X(as_complex) \
    X(as_real) X(again) X(sort) X(top) X(pick) X(reduce) X(norm) X(batch_norm) X(layer_norm) \
    X(group_norm) X(matmul) X(addmm) X(linear) X(attend) X(sequence) X(embedding) X(conv) X(pool) \
    X(adaptive) X(nearest) X(nearest_exact) X(linear_up) X(cubic) X(linear_aa) X(cubic_aa) X(einsum) \
    X(grid) X(pad) X(mirror) X(edge) X(round) X(channels) X(shuffle) X(unshuffle) X(unfold) X(columns) \
    X(from_columns)
/* clang-format on */
#define X(how) bool lmi_way_##how(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r);
LMI_WAYS(X)
#undef X

/* The line of rf_operators.def for each operator's word. */
typedef struct lmi_ways {
    lmi_way *by_word;
    bool *named; /* it has its own line */
    int32_t n;
} lmi_ways;
bool lmi_ways_build(lmi_ways *w, lmi_arena *a);

/* The route to part `nth` of an operator that splits its argument (split, unbind); -1: to an unknown one. */
bool lmi_route_part(lmi_arena *a, const lam_op_sig *s, int32_t in, int32_t nth, lmi_route *r);
/* The sequence axis of a recurrence. */
int32_t lmi_sequence_axis(const lam_op_sig *s);

#endif
