/* SPDX-License-Identifier: Apache-2.0
 * route: how an operator leads positions from its arguments to its result (reach.def). */
#ifndef LMI_ANALYSE_ROUTE_H
#define LMI_ANALYSE_ROUTE_H

#include "analyse/field/span.h"

enum { LMI_AXES = 8 }; /* of a tensor that are followed */

enum {
    LMI_TO_ALL = -1, /* every element of the result depends on the whole axis */
    LMI_TO_ONE = -2  /* on element `one` of it */
};

/* The way of one argument. */
typedef struct lmi_route {
    int8_t to[LMI_AXES];            /* per axis of the argument: the result's, or one of the above */
    const lmi_taps *taps[LMI_AXES]; /* what an element along that axis reads; NULL: the one of its number */
    int64_t one;
    int64_t before, n_among; /* its first element along `among`, and how many they are */
    int32_t among; /* axis along which the elements of several arguments lie one after another, -1 none */
    bool some;     /* by some elements nothing may be read */
    bool unread;   /* no value of it is read */
    bool view;     /* the elements in their order under another shape */
    bool spatial;  /* the taps are a window's: the axis is one of positions */
    bool loose;    /* less may be read */
} lmi_route;

typedef bool (*lmi_way)(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r);

/* Every way by its name in reach.def; in route.c, those of windows in routewin.c. Each returns false where
 * memory ran out. */
#define LMI_WAYS(X)                                                                                          \
    X(point)                                                                                                 \
    X(nothing)                                                                                               \
    X(some) X(copy) X(all) X(spread) X(view) X(permute) X(swap) X(select) X(slice) X(split) X(unbind)        \
        X(flip) X(roll) X(repeat) X(cat) X(stack) X(along) X(halves) X(scan) X(waves) X(masked) X(scatter)   \
            X(put) X(add_at) X(gather) X(instance_norm) X(rnn) X(as_complex) X(as_real) X(again) X(sort)     \
                X(top) X(pick) X(reduce) X(norm) X(batch_norm) X(layer_norm) X(group_norm) X(matmul)         \
                    X(addmm) X(linear) X(attend) X(sequence) X(embedding) X(conv) X(max_pool) X(avg_pool)    \
                        X(adaptive) X(nearest) X(nearest_exact) X(linear_up) X(cubic) X(linear_aa)           \
                            X(cubic_aa) X(grid) X(pad) X(mirror) X(edge) X(round) X(channels) X(shuffle)     \
                                X(unshuffle) X(unfold)
#define X(how) bool lmi_way_##how(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r);
LMI_WAYS(X)
#undef X

/* What reach.def says of each operator's word. */
typedef struct lmi_ways {
    lmi_way *by_word;
    bool *named; /* it has a line of its own */
    int32_t n;
} lmi_ways;
bool lmi_ways_build(lmi_ways *w, lmi_arena *a);

/* The way to part `nth` of what an operator takes apart (split, unbind). */
bool lmi_route_part(lmi_arena *a, const lam_op_sig *s, int32_t in, int32_t nth, lmi_route *r);
/* The only part of that shape, -1: several have it. */
int16_t lmi_part_like(const lam_op_sig *s, const lam_op_arg *like);
/* The axis along which a recurrence goes. */
int32_t lmi_sequence_axis(const lam_op_sig *s);
/* The first tensor that comes out; ndim -1 where none does. */
lam_shape lmi_result_shape(const lam_op_sig *s);

#endif
