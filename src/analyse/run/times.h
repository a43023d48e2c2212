/* SPDX-License-Identifier: Apache-2.0
 * times: the call and the run of every moment (times.c), and statistics of them (timestats.c). */
#ifndef LMI_ANALYSE_TIMES_H
#define LMI_ANALYSE_TIMES_H

#include "analyse/costs.h"

/* Calls of one place that come k-th in their runs share a slot. */
typedef struct lmi_call_slots {
    int32_t n, n_runs;
    int32_t *of_event, *run_of; /* of each call */
    int32_t *first, *place;     /* a place's first slot, -1 none; a slot's place */
    int32_t *next, *k;          /* a slot's next one of the same place, -1 none; its k */
    int64_t *began;             /* when each run began */
    lmi_groups of_slot;         /* the calls of each slot, in their order */
} lmi_call_slots;
/* The slot of the k-th call of a place in a run, -1. */
int32_t lmi_call_slot(const lmi_call_slots *s, int32_t place, int32_t k);

/* A call, or an operator. Of a device: one of its spans, is_op of a node, and the stream. */
typedef struct lmi_span {
    int64_t t0, t1;
    int32_t index;
    uint16_t thread;
    bool is_op;
} lmi_span;
/* Collects the spans of a model's calls and of the operators that `wanted` accepts: by thread, then by start,
 * outer ones before inner ones. */
lam_status lmi_spans_find(const lam_model *m, bool (*wanted)(const lam_model *m, const lam_op *op),
                          lmi_vec *out, lam_error *e);

struct lam_times {
    lmi_arena arena;
    const lam_model *m;
    const lmi_vec *device; /* lam_device_span: times are those of a device's clock; NULL: the host's */
    const lam_device_span **of_call; /* there: of each call, NULL none */
    lmi_call_slots slots;
    lam_time *of_event;
    int64_t *parts[LAM_N_TIME_PARTS]; /* of each run */
    int64_t *scratch;                 /* room for one number a run */
    int32_t n_outliers, n_op_times;
    bool back;    /* a backward pass ran, and its nodes were seen */
    int32_t shown; /* the shown run, whose whole time is the median; -1 none */
    lam_outlier *outliers;
    lam_op_time *op_times;
    /* Of each part, in a report that was saved: over all runs, and as rows show it (NULL: an older report
     * does not have that). It has no other single run. */
    const lam_spread *given;
    const int64_t *given_shown;
};

/* "forward", ..., "whole": as JSON names a part. */
const char *lmi_time_part_name(lam_time_part part);

/* True for times that were read. */
static inline bool lmi_has_time(int64_t t0, int64_t t1) { return t0 > 0 && t1 >= t0; }
/* The last run that had begun at `ns`. */
int32_t lmi_run_at(const lmi_call_slots *s, int64_t ns);

/* By a device's clock (devicetimes.c): of_call, and the spans of all streams. */
lam_status lmi_device_begin(lam_times *t, lam_error *e);
lam_status lmi_device_spans(const lam_times *t, lmi_vec *out, lam_error *e);
/* The time of a call with everything in it: its span, not a sum; -1 unknown. */
int64_t lmi_device_total(const lam_times *t, int32_t event);
/* After the walk: marks own times that are unknown because of other streams or a missing node's time. */
void lmi_device_unknown(lam_times *t);

/* Of costs with `slots`, or of a saved report of such: the run that rows and parts show, the host's also if
 * times are a device's; -1: they show all runs together. */
int32_t lmi_shown_run(const lam_costs *c);
/* True for an older report that was saved: parts of a time are the medians of its runs. */
bool lmi_times_are_medians(const lam_costs *c);
/* A part of a time as rows show it: of the shown run, or of all runs together. */
int64_t lmi_time_part(const lam_costs *c, const lam_times *t, lam_time_part part);

/* The number of calls that are in some runs only; 0 if no repeated runs were timed. */
int32_t lmi_times_varying(const lam_costs *c);
/* A copy that shares the arrays of `of`, which must outlive it; NULL: memory ran out. */
lam_times *lmi_times_copy(const lam_times *of);
/* Outliers and operators (timestats.c). */
lam_status lmi_times_stats(lam_times *t, lam_error *e);

/* Fills the times of the rows, if they were measured (times.c). */
lam_status lmi_times_of(lam_costs *c, lam_error *e);

#endif
