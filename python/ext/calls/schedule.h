/* SPDX-License-Identifier: Apache-2.0
 * schedule: decides which calls are recorded. Calls of a root have four kinds, with and without gradients in
 * train and in eval mode, which are counted separately; one in `every` calls of each begins a recorded step,
 * or more at first (LAM_THINNING). No Python runs here: root.c and step.c use it at each call, _watch.py
 * through the type Schedule (schedule.c). */
#ifndef LMX_SCHEDULE_H
#define LMX_SCHEDULE_H

#include "base/ext.h"

enum { LMX_TRAINING = 1, LMX_GRAD = 2, LMX_KINDS = 4 };
/* The most calls of a step before its backward begins. */
enum { LMX_MOST_CALLS = 256 };

typedef struct lmx_kind_schedule {
    int64_t calls;      /* so far */
    int64_t next;       /* the next step begins at this call or at the first possible one after it */
    int64_t window;     /* the start of the window of calls from which it was chosen */
    int32_t every;      /* one in so many steps is recorded where it is */
    int64_t seek_calls; /* calls that were watched to find the start of the next step */
    uint32_t n;         /* recorded steps */
    int several;        /* above 0: some step had several calls, so any call may lie inside one */
    bool single_calls;  /* no backward follows the calls: each is a step */
    bool at_start;      /* the next call begins the expected step */
} lmx_kind_schedule;

typedef struct lmx_schedule {
    PyObject_HEAD int32_t every; /* as in lam_run_info */
    double shift; /* of positions in windows, so that roots called together are not recorded at once */
    lmx_kind_schedule of[LMX_KINDS];
    int kind;            /* of the current recorded step; -1: none */
    int64_t number;      /* of its first call among those of its kind */
    int64_t step_calls;  /* its calls so far */
    bool seeks_start;    /* the current step was not seen from its start: the next one is recorded */
    bool after_backward; /* no call with gradients since the end of a backward pass */
} lmx_schedule;

/* Counts a call that needs nothing else, as most do; false: it may begin or belong to a recorded step. */
static inline bool lmx_schedule_skip_call(lmx_schedule *t, int kind) {
    lmx_kind_schedule *k = &t->of[kind];
    if (t->kind >= 0 || k->calls >= k->next || k->at_start) return false;
    k->calls++;
    if (kind & LMX_GRAD) t->after_backward = false;
    return true;
}
/* During a recorded step: true if this call belongs to it. Else end the step before this call begins
 * another. `went_back`: a backward pass was seen in it, or can't be seen. */
bool lmx_schedule_extend_step(lmx_schedule *t, int kind, bool went_back);
/* Ends the step: false if it was only watched to find the next start, and is not recorded. */
bool lmx_schedule_end_step(lmx_schedule *t, bool went_back);
/* Outside a recorded step: true if one begins with this call. */
bool lmx_schedule_begin_step(lmx_schedule *t, int kind);
/* Discards the step; the next one is recorded instead. */
void lmx_schedule_discard_step(lmx_schedule *t);

bool lmx_is_kind(int kind);                                /* False with an exception */
lmx_schedule *lmx_schedule_of(lmx_state *st, PyObject *o); /* NULL with an exception */

#endif
