/* SPDX-License-Identifier: Apache-2.0
 * times: to which call and to which run every moment belongs (times.c), and what that tells (timestats.c). */
#ifndef LMI_ANALYSE_TIMES_H
#define LMI_ANALYSE_TIMES_H

#include "analyse/analyse.h"

/* Calls of one place that come k-th in their runs share a slot. */
typedef struct lmi_beats {
    int32_t n, n_runs;
    int32_t *of_event, *run_of; /* of each call */
    int32_t *first, *place;     /* a place's first slot, -1 none; a slot's place */
    int32_t *next, *k;          /* a slot's next one of the same place, -1 none; which it is */
    int64_t *began;             /* when each run began */
    /* the calls of slot i in order[start[i]] .. order[start[i + 1] - 1] */
    int32_t *start, *order;
} lmi_beats;
lam_status lmi_beats_find(const lam_model *m, lmi_arena *a, lmi_beats *out, lam_error *e);
/* The slot of the k-th call of a place in a run, -1. */
int32_t lmi_beat(const lmi_beats *s, int32_t place, int32_t k);

/* A call, or an operator. */
typedef struct lmi_span {
    int64_t t0, t1;
    int32_t index;
    uint16_t thread;
    bool is_op;
} lmi_span;
/* Those of a model that have times, of operators those that `wanted` says, into a vector of spans: by thread,
 * then by their start, what is around before what is inside. */
lam_status lmi_spans_find(const lam_model *m, bool (*wanted)(const lam_model *m, const lam_op *op),
                          lmi_vec *out, lam_error *e);

struct lam_times {
    lmi_arena arena;
    const lam_model *m;
    lmi_beats beats;
    lam_time *of_event;
    int64_t *parts[LAM_N_TIME_PARTS]; /* of each run */
    int64_t *scratch;                 /* room for one number a run */
    int32_t n_outliers, n_op_times;
    lam_outlier *outliers;
    lam_op_time *op_times;
};

/* Work in so much time (speed.c). peak NULL: nothing is bound. */
lam_speed lmi_speed_of(const lam_count work[LAM_N_METRICS], int64_t ns, const lam_peak *peak);

/* Outliers and operators (timestats.c). */
lam_status lmi_times_stats(lam_times *t, lam_error *e);

#endif
