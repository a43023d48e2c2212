/* SPDX-License-Identifier: Apache-2.0
 * series: the steps of a model of a recording, thinned to as many as a picture shows. */
#ifndef LMI_REPORT_RUNS_SERIES_H
#define LMI_REPORT_RUNS_SERIES_H

#include "base/base.h"

enum { LMI_RUNS_POINTS = 600, LMI_RUNS_TENTH = 10 };

/* Steps that count, the oldest first. If there are many, a point is the step of median time of a piece of
 * them, with the piece's most memory. */
typedef struct lmi_series {
    lam_recorded_step at[LMI_RUNS_POINTS];
    int32_t n;
    int64_t all;         /* steps that count */
    int64_t first, last; /* median time of a step in the first and in the last tenth; -1: unknown */
} lmi_series;
/* Fills a series of a model of a recording. */
lam_status lmi_series_take(lmi_series *s, const lam_recording *r, int32_t model, lam_error *e);
/* From start to start if that is known, else forward and backward; -1: unknown. */
int64_t lmi_series_time(const lam_recorded_step *s);

#endif
