/* SPDX-License-Identifier: Apache-2.0
 * course: memory in use over time, by what it holds, and when the nodes of a backward ran (course.c). */
#ifndef LMI_ANALYSE_COURSE_H
#define LMI_ANALYSE_COURSE_H

#include "analyse/run/memory.h"
#include "analyse/run/times.h"

/* When the first call began, from which a report counts the run's moments; 0: no call has a time. */
int64_t lmi_run_began(const lam_model *m);

/* When a call's nodes of a backward ran, on the model's own clock. */
typedef struct lmi_work_span {
    int32_t call;
    int64_t t0, t1;
} lmi_work_span;

/* Collects the spans of all calls' nodes, by call and then by time. Nodes of one call without another call's
 * between them on their thread are one span. The caller frees `out` (lmi_vec_free), also on failure. */
lam_status lmi_backward_spans(const lam_model *m, lmi_vec *out, lam_error *e);
/* The first span of `call`, or of a later call. */
size_t lmi_first_span(const lmi_vec *spans, int32_t call);

#endif
