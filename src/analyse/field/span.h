/* SPDX-License-Identifier: Apache-2.0
 * span: which positions along one axis of a model's input an element of a tensor depends on. All numbers are
 * whole: along the axis that follows the input's, the intervals repeat every `period` elements, `shift` input
 * positions further. So a jump is the fraction shift / period, and what a stride, an interpolation or a
 * transposed convolution does stays exact, element by element. */
#ifndef LMI_ANALYSE_SPAN_H
#define LMI_ANALYSE_SPAN_H

#include "analyse/costs.h"

typedef enum lmi_span_kind {
    LMI_SPAN_NONE,   /* depends on no position */
    LMI_SPAN_TRACK,  /* on those of at[], as one of the tensor's axes tells */
    LMI_SPAN_FIXED,  /* on those of at[0], whichever element it is */
    LMI_SPAN_FOLDED, /* one of the tensor's axes holds the positions mixed with others; at[0] holds them all
                      */
    LMI_SPAN_UNKNOWN /* an operator that `why` names does something unknown to them */
} lmi_span_kind;

/* Positions lo to hi, none where hi < lo. */
typedef struct lmi_reach {
    int64_t lo, hi;
} lmi_reach;

typedef struct lmi_span {
    uint8_t kind; /* lmi_span_kind */
    int8_t axis;
    int8_t stays; /* FIXED: one more than the axis of the tensor that the input's still is; 0: it is none */
    bool loose;   /* may hold positions that it does not depend on */
    bool least;   /* something of unseen origin went in: there may be more */
    bool paths;   /* paths that see differently much meet in it */
    int32_t period;
    int64_t shift;
    const lmi_reach *at; /* one an element of the period */
    /* TRACK: what each of the axis' elements depends on, of positions that there are, where the period does
     * not tell: beside padding, where parts were put side by side; NULL: it does. */
    const lmi_reach *each;
    int64_t n_each;
    uint32_t mixed; /* axes that are followed: elements that differ along one of them may depend on less */
    int64_t first, last; /* no element that there is depends on positions beyond these */
    /* FOLDED: the axis was outer x n x inner, and n followed `was` */
    const struct lmi_span *was;
    int64_t outer, n, inner;
    const char *why;
} lmi_span;

enum {
    LMI_PERIOD_MAX = 4096,
    LMI_EACH_MAX = 1 << 16 /* elements of an axis that are looked at one by one */
};

/* What element o of an axis reads of its input: lo[r] + q*shift, in steps of `step`, to hi[r] + q*shift, with
 * o = q*period + r. */
typedef struct lmi_taps {
    int32_t period;
    int64_t shift, step;
    const int64_t *lo, *hi;
    const int64_t *pick; /* the one that each element reads in truth, -1 none; NULL: as above */
} lmi_taps;

static inline int64_t lmi_floor_div(int64_t a, int64_t b) { /* b > 0 */
    return a / b - (a % b < 0);
}

/* The positions of an input of n positions itself. False: memory ran out. */
bool lmi_span_input(lmi_arena *a, lmi_span *out, int32_t axis, int64_t n);
/* What element o depends on. */
lmi_reach lmi_span_at(const lmi_span *s, int64_t o);
/* The same, of positions that there are; hi < lo where there are none. */
lmi_reach lmi_span_clipped(const lmi_span *s, int64_t o);
/* A tensor whose axis of n elements (out_n after it) reads the span's axis through taps. */
bool lmi_span_window(lmi_arena *a, lmi_span *s, const lmi_taps *t, int64_t n, int64_t out_n);
/* Everything that any of the axis' n elements depends on, for any element. */
bool lmi_span_all(lmi_arena *a, lmi_span *s, int64_t n);
/* Of an axis of n elements, those that are not in `in` depend on nothing. The span is fixed or follows it. */
bool lmi_span_mask(lmi_arena *a, lmi_span *s, int32_t axis, int64_t n, const bool *in);
/* Fixed, where all elements along the axis turned out to depend on the same. */
void lmi_span_even(lmi_span *s);
/* True where some of the axis' n elements depend on nothing. */
bool lmi_span_gaps(const lmi_span *s, int64_t n);
/* True where both tell the same of every element. */
bool lmi_span_equal(const lmi_span *a, const lmi_span *b);
/* Most positions that an element depends on. */
int64_t lmi_span_size(const lmi_span *s);
/* True where the period tells no less than each[], so that it bounds what every element depends on. */
bool lmi_span_periodic(const lmi_span *s);
/* What depends on both, along axes of n elements. */
bool lmi_span_join(lmi_arena *a, lmi_span *s, const lmi_span *other, int64_t n, int64_t other_n);

#endif
