/* SPDX-License-Identifier: Apache-2.0
 * runs: recordings as one HTML file without a script. page.c: the file, its head, how it was measured.
 * verdict.c: tiles and findings. steps.c: steps over time. layers.c: layers, and processes side by side.
 * series.c: the steps of a model, thinned. put.c: frames of tables, names. many.h: a run of many ranks. */
#ifndef LMI_REPORT_RUNS_H
#define LMI_REPORT_RUNS_H

#include "report/page/page.h"
#include "report/picture/svg.h"
#include "report/recorded/recorded.h"
#include "report/runs/many.h"
#include "report/runs/series.h"

enum { LMI_RUNS_CELL = 60 };

typedef struct lmi_runs {
    lmi_recorded w; /* out: the page */
    lam_sink to;
    bool part;         /* for a notebook: the verdict and the layers of the main model, without ids */
    int32_t main;      /* the model of the first recording that has most steps; -1 none */
    lam_ranks *ranks;  /* which of them slows the others; NULL: they are not of one run */
    lmi_series series; /* of the model that is being shown */
} lmi_runs;

/* Begins a table that can be scrolled; no two have the same label and number. */
void lmi_runs_scroll(lmi_runs *p, const char *label, int32_t model);
void lmi_runs_scroll_end(lmi_runs *p);
lmi_many lmi_runs_many(lmi_runs *p);         /* of p->ranks */
void lmi_runs_which(lmi_runs *p, int32_t i); /* writes the name of the i-th recording */
lam_status lmi_runs_verdict(lmi_runs *p);
void lmi_runs_steps(lmi_runs *p, int32_t model);
void lmi_runs_phases(lmi_runs *p, int32_t model); /* nothing if they were not measured */
lam_status lmi_runs_layers(lmi_runs *p, int32_t model);
lam_status lmi_runs_ranks(lmi_runs *p);

#endif
