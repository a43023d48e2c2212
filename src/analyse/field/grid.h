/* SPDX-License-Identifier: Apache-2.0
 * grid: the positions that each element of a tensor depends on, if they differ along several axes. Elements
 * that differ along the axis that a span follows alone need no grid. An index along an axis gives a number,
 * and the numbers of all axes give the positions: after two tensors are concatenated, the index along the
 * channels counts as 0 or 1; after rows and columns are merged, the index modulo the width counts. */
#ifndef LMI_ANALYSE_GRID_H
#define LMI_ANALYSE_GRID_H

#include "analyse/field/span.h"

enum {
    LMI_GRID_MAX = 1 << 16
}; /* combinations of numbers, and elements of an axis of which each has its own */

/* The number of index o: each[o], or o / inner % n. Every number from 0 to n - 1 occurs. */
typedef struct lmi_digit {
    int32_t n; /* 1: all indices are alike */
    int64_t inner;
    const int32_t *each; /* one for each of `length` indices; NULL: as above */
    int64_t length;
} lmi_digit;

struct lmi_grid {
    lmi_digit of[LMI_AXES];
    const lmi_reach *at; /* for each combination of numbers, that of the last axis changes fastest; NULL:
                            there is no grid */
};

/* The functions below do nothing to a grid without at[], and remove at[] if the grid would become too large.
 * All but the last three return false if memory ran out. */

/* The grid of a span, which follows an axis of n elements, if it follows one. */
bool lmi_grid_of(lmi_arena *a, const lmi_span *s, int64_t n, lmi_grid *g);
/* Every element now depends on what any element along the axis depends on. */
bool lmi_grid_merge(lmi_arena *a, lmi_grid *g, int32_t axis);
/* Keeps the elements of one index; -1: nothing is read. */
bool lmi_grid_pick(lmi_arena *a, lmi_grid *g, int32_t axis, int64_t index);
/* Maps an axis of n elements through taps, to out_n. */
bool lmi_grid_window(lmi_arena *a, lmi_grid *g, int32_t axis, const lmi_taps *t, int64_t n, int64_t out_n);
/* Elements with the index o along an axis of n depend on nothing unless in[o]. */
bool lmi_grid_mask(lmi_arena *a, lmi_grid *g, int32_t axis, int64_t n, const bool *in);
/* The same for elements that are in all (`inside`), or not in all, of several axes; in[axis] NULL: all are.
 */
bool lmi_grid_box(lmi_arena *a, lmi_grid *g, lam_shape shape, bool *const *in, bool inside);
/* Elements that depend on nothing by `other`, of a tensor of that shape, depend on nothing. */
bool lmi_grid_cut(lmi_arena *a, lmi_grid *g, const lmi_grid *other, lam_shape shape);
/* Axis i becomes axis to[i]; -1: it has only one number. */
bool lmi_grid_turn(lmi_arena *a, lmi_grid *g, const int8_t *to);
/* The same elements in the same order, in another shape. */
bool lmi_grid_view(lmi_arena *a, lmi_grid *g, lam_shape in, lam_shape out);
/* Elements of a tensor of that shape depend on what either says. */
bool lmi_grid_join(lmi_arena *a, lmi_grid *g, const lmi_grid *other, lam_shape shape);
/* Unites numbers that lead to the same positions, in a tensor of that shape. */
bool lmi_grid_settle(lmi_arena *a, lmi_grid *g, lam_shape shape);
/* What the elements of each index along an axis of n depend on. */
void lmi_grid_along(const lmi_grid *g, int32_t axis, int64_t n, lmi_reach *each);
bool lmi_grid_gaps(const lmi_grid *g); /* some elements depend on nothing */
bool lmi_grid_equal(const lmi_grid *x, const lmi_grid *y);
int64_t lmi_grid_size(const lmi_grid *g);   /* combinations of numbers */
uint8_t lmi_grid_differ(const lmi_grid *g); /* the axes along which its elements differ, one bit each */

/* The number of an index. */
static inline int32_t lmi_digit_at(const lmi_digit *d, int64_t o) {
    return d->each ? d->each[o] : (int32_t)(o / d->inner % d->n);
}

#endif
