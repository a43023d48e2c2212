/* SPDX-License-Identifier: Apache-2.0
 * The own work of the steps of several processes, for their verdict and for tables of them. */
#ifndef LMI_WORK_H
#define LMI_WORK_H

#include "report/recorded/recorded.h"

#include "analyse/ranks/ranks.h"

#include <math.h>

typedef struct lmi_work {
    const lmi_recorded *w;
    int32_t *model;                /* the model of each process that is compared; -1: it has none */
    bool known[LAM_N_STEP_PHASES]; /* in all processes that have phases */
    bool knows_processor;          /* the same of their waiting for a processor */
    lam_waits waits;
} lmi_work;
/* The model that takes most time in the first process, and in the others the same; where one has none of its
 * name, as a stage of a pipeline, its own that takes most. End it also on failure. */
lam_status lmi_work_begin(lmi_work *x, const lmi_recorded *w);
void lmi_work_end(lmi_work *x);
/* The step without its waiting for others, in microseconds, and for a processor: a rank that shares its
 * processor with another program is not slow, as it waits for that too. If waiting for others is not told
 * apart, the phases that hold none. NaN: unknown. */
double lmi_work_own(const lmi_work *x, const lam_recorded_step *s);

/* The window of a step: the same in all processes, since it follows from the number of the step and the rule
 * by which the run records. Of the recorded steps, some 192 are in windows of 8, as many again in windows of
 * 16, then 384 in windows of 32; all others in windows of 64. */
int64_t lmi_recorded_window(int32_t every, const lam_recorded_step *s);
/* From 0: which start of its job it is; unless that was recorded, of its file. */
static inline int64_t lmi_recorded_attempt(const lam_recorded_run *r) {
    return (r->attempt > 0 ? r->attempt : r->run) - 1;
}
/* True if it has no end, and was seen within the last minute. */
bool lmi_recorded_runs(const lam_recorded_run *run, int64_t now_unix_ns);

static inline double lmi_recorded_us(int64_t ns) {
    return ns < 0 || ns > INT64_MAX / 1024 * 1000 ? NAN : (double)ns / 1000;
}
static inline int64_t lmi_recorded_moment(int64_t unix_ns) { /* in microseconds, or LAM_NOT_KNOWN */
    return unix_ns <= 0 || unix_ns > INT64_MAX / 1024 * 1000 ? LAM_NOT_KNOWN : unix_ns / 1000;
}
static inline const char *lmi_recorded_host(const lam_recording *r) {
    const char *host = lam_recording_run(r)->host;
    return host ? host : "?";
}

#endif
