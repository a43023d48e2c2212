/* SPDX-License-Identifier: Apache-2.0
 * span: the positions along one axis of a model's input that an element of a tensor depends on. All numbers
 * are whole: along the axis that follows the input's, the intervals repeat every `period` elements, `shift`
 * input positions further. A jump is the fraction shift / period, so strides, interpolations and transposed
 * convolutions stay exact, element by element. */
#ifndef LMI_ANALYSE_SPAN_H
#define LMI_ANALYSE_SPAN_H

#include "analyse/costs.h"

typedef enum lmi_span_kind {
    LMI_SPAN_NONE,   /* depends on no position */
    LMI_SPAN_TRACK,  /* depends on those of at[], by the element's index along one of the tensor's axes */
    LMI_SPAN_FIXED,  /* every element depends on those of at[0], or, with a grid, on some of them */
    LMI_SPAN_UNKNOWN /* the operator that `why` names maps them in an unknown way */
} lmi_span_kind;

/* Positions lo to hi; none if hi < lo. */
typedef struct lmi_reach {
    int64_t lo, hi;
} lmi_reach;

typedef struct lmi_grid lmi_grid; /* grid.h */

enum { LMI_AXES = 8 }; /* the axes of a tensor that are followed */

typedef struct lmi_span {
    uint8_t kind; /* lmi_span_kind */
    int8_t axis;
    int8_t stays; /* FIXED: one more than the axis of the tensor that is still the input's; 0: none */
    bool loose;   /* may include positions that it does not depend on */
    bool least;   /* an operand has an unobserved source: there may be more */
    bool paths;   /* paths with different fields join in it */
    int32_t period;
    int64_t shift;
    const lmi_reach *at; /* one an element of the period */
    /* TRACK: the existing positions that each element of the axis depends on, if the period can't describe
     * them: at padding, in concatenated parts; NULL: it can. */
    const lmi_reach *each;
    int64_t n_each;
    int64_t first, last; /* no existing element depends on positions beyond these */
    /* What elements depend on that differ along other axes of the tensor too; NULL: all with the same index
     * along `axis` are alike, unless along an axis that `varies` has a bit for. The above unites them. */
    const lmi_grid *grid;
    uint8_t varies;
    const char *why;
} lmi_span;

enum {
    LMI_PERIOD_MAX = 4096,
    LMI_EACH_MAX = 1 << 16 /* elements of an axis that are checked one by one */
};

/* The input elements that element o of an axis reads: lo[r] + q*shift, in steps of `step`, to hi[r] +
 * q*shift, with o = q*period + r. */
typedef struct lmi_taps {
    int32_t period;
    int64_t shift, step;
    const int64_t *lo, *hi;
    const lmi_reach
        *each; /* from where to where each element reads, if the period can't tell; NULL: it can */
    bool begins; /* every element reads from the axis' beginning on: intervals are just long enough for it */
} lmi_taps;

static inline int64_t lmi_floor_div(int64_t a, int64_t b) { /* b > 0 */
    return a / b - (a % b < 0);
}

/* The span of an input itself, of n positions. False: memory ran out. */
bool lmi_span_input(lmi_arena *a, lmi_span *out, int32_t axis, int64_t n);
/* The positions that element o depends on. */
lmi_reach lmi_span_at(const lmi_span *s, int64_t o);
/* The same, clipped to existing positions; hi < lo: none. */
lmi_reach lmi_span_clipped(const lmi_span *s, int64_t o);
/* The elements that element o reads of an axis of n, in steps of `step`; hi < lo: none. */
lmi_reach lmi_taps_at(const lmi_taps *t, int64_t o, int64_t n);
/* Maps the span through taps along its axis, which has n elements before and out_n after. */
bool lmi_span_window(lmi_arena *a, lmi_span *s, const lmi_taps *t, int64_t n, int64_t out_n);
/* Every element now depends on everything that any of the axis' n elements depends on. */
bool lmi_span_all(lmi_arena *a, lmi_span *s, int64_t n);
/* Elements of an axis of n that are not in `in` depend on nothing. The span is fixed or follows that axis. */
bool lmi_span_mask(lmi_arena *a, lmi_span *s, int32_t axis, int64_t n, const bool *in);
/* The n elements of the span's axis depend on these positions. False: memory ran out. */
bool lmi_span_each(lmi_arena *a, lmi_span *s, const lmi_reach *each, int64_t n);
/* Makes the span fixed if all elements along the axis depend on the same positions. */
void lmi_span_even(lmi_span *s);
/* True if some of the axis' n elements depend on nothing. */
bool lmi_span_gaps(const lmi_span *s, int64_t n);
/* True if both are the same for every element. */
bool lmi_span_equal(const lmi_span *a, const lmi_span *b);
/* The largest number of positions that an element depends on. */
int64_t lmi_span_size(const lmi_span *s);
/* True if the period includes each[], so that it bounds the positions of every element. */
bool lmi_span_periodic(const lmi_span *s);
/* Joins two spans: the result depends on both, along axes of n and other_n elements. */
bool lmi_span_join(lmi_arena *a, lmi_span *s, const lmi_span *other, int64_t n, int64_t other_n);

#endif
