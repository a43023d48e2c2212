/* SPDX-License-Identifier: Apache-2.0
 * Writers of recordings. recorded.c: one run as text. ranks.c: several processes side by side.
 * recorded_data.c: both as CSV and JSON. */
#ifndef LMI_RECORDED_H
#define LMI_RECORDED_H

#include "report/table/report.h"

typedef struct lmi_recorded {
    const lam_recording *const *all;
    int32_t n;
    const lam_recording_options *o;
    size_t width;
    lmi_buf out;
    lam_error *e;
    bool by_rank;       /* they are named by rank: no two ranks are equal */
    const char **names; /* of several: the names of their files without folders, sorted */
    int32_t model;      /* the model of the first recording that is compared with those of its name */
} lmi_recorded;

/* A layer for which one of several processes takes longer than the median of all. */
typedef struct lmi_straggler {
    const lam_recorded_place *place;
    const char *model;
    int32_t which;          /* the slowest process */
    int64_t slowest, among; /* its own time, and the median of all */
} lmi_straggler;
enum { LMI_STRAGGLERS = 10 };

lam_status lmi_recorded_text(lmi_recorded *w);
lam_status lmi_recorded_ranks(lmi_recorded *w);
lam_status lmi_recorded_csv(lmi_recorded *w);
lam_status lmi_recorded_json(lmi_recorded *w);

/* The stragglers among the layers of `model`, the most time lost first. */
lam_status lmi_stragglers(const lmi_recorded *w, lmi_straggler out[LMI_STRAGGLERS], int32_t *found);
/* "12.3 ms", three digits; "?" where n is 0. */
void lmi_put_ns(lmi_buf *b, lam_middle m);
void lmi_put_size(lmi_buf *b, lam_middle bytes);
void lmi_put_integer(lmi_buf *b, int64_t n);                /* "1,234"; "?" below 0 */
void lmi_put_when(lmi_buf *b, int64_t unix_ns);             /* "2026-11-21 19:40:12 UTC" */
void lmi_put_kind(lmi_buf *b, const lam_recorded_model *m); /* "a training step of 2 calls" */
/* The name of the i-th of several: "rank 3", or its file if ranks are equal. */
void lmi_put_which(lmi_buf *b, const lmi_recorded *w, int32_t i);
/* "ended after 12 s", "not ended yet", "the process that wrote it (pid 12) has ended ..." */
void lmi_put_state(const lmi_recorded *w, const lam_recorded_run *run, lmi_buf *b);
/* Writes the columns of a grid two spaces apart, the first `left` of them aligned left. If they are too wide,
 * those in `spare` ("c" is the third) are left out in turn, and then the first one is shortened. */
void lmi_put_grid(lmi_recorded *w, const lmi_grid *g, int32_t left, const char *spare);

/* A grid that is filled cell by cell: lmi_end_cell adds the text of `cell` as the next one. */
typedef struct lmi_sheet {
    lmi_grid grid;
    lmi_buf cell;
    lam_error *e;
    lam_status s; /* the first failure */
} lmi_sheet;
void lmi_sheet_start(lmi_sheet *t, int32_t columns, lam_error *e);
/* Writes the grid, `left` and `spare` as in lmi_put_grid, unless something failed, and frees it. */
lam_status lmi_sheet_end(lmi_sheet *t, lmi_recorded *w, int32_t left, const char *spare);
void lmi_end_cell(lmi_sheet *t);
void lmi_text_cell(lmi_sheet *t, const char *text);
void lmi_integer_cell(lmi_sheet *t, int64_t n);
void lmi_ns_cell(lmi_sheet *t, lam_middle m);
void lmi_size_cell(lmi_sheet *t, lam_middle m); /* of bytes */

#endif
