/* SPDX-License-Identifier: Apache-2.0
 * report/ranks: who slows a run of many ranks. told.c: as fields and JSON. sentences.c: the verdict in words,
 * and what to do next. write.c: the screen. look.c: one of the run beside its peers. held.c: its numbers held
 * against limits. */
#ifndef LMI_REPORT_RANKS_H
#define LMI_REPORT_RANKS_H

#include "analyse/ranks/ranks.h"
#include "report/budget/held.h"
#include "report/table/report.h"
#include "report/tell/tell.h"

/* A screen that is being written. */
typedef struct lmi_ranks_writer {
    const lam_ranks *r;
    const lam_ranks_options *o;
    size_t width;
    lmi_buf out;
    lam_error *e;
} lmi_ranks_writer;
enum { LMI_RANKS_ROWS = 12 }; /* of a table, unless the options say how many */
/* Writes words as lines, behind a label unless that is NULL, and clears them. */
void lmi_ranks_words(lmi_ranks_writer *w, const char *label, size_t indent, lmi_buf *text);
void lmi_ranks_remark(lmi_ranks_writer *w, const char *text);
/* Begins a table behind an empty line. */
void lmi_ranks_sheet(lmi_ranks_writer *w, lmi_sheet *t, const lmi_head *heads, size_t n);
void lmi_us_cell(lmi_sheet *t, double us);
/* Writes the first two cells of the k-th of n rows over time, and gives its windows: from *first to before
 * *last. */
void lmi_ranks_put_when(lmi_sheet *t, const lam_ranks *r, int32_t k, int32_t n, int32_t *first,
                        int32_t *last);
/* The phases of a step, by rank or node; a row of neither is `others`. */
lam_status lmi_ranks_put_phases(lmi_ranks_writer *w, const lmi_phases *rows, int32_t n, const char *others);
lam_status lmi_ranks_put_look(lmi_ranks_writer *w);
/* ", since step 3,200 (Dec 1 00:05 UTC)"; without the moment if it is not known. */
void lmi_put_since(lmi_buf *b, int64_t step, int64_t us);

/* The verdict, and the phases that it is based on, as lines; the first is empty. */
lam_status lmi_ranks_put(const lam_ranks *r, const lam_ranks_options *o, lmi_buf *out, lam_error *e);
/* The verdict as the field `verdict`. */
void lmi_ranks_tell_verdict(lmi_teller *t, const lam_ranks *r);
/* The document, with its newline. */
void lmi_ranks_json(const lam_ranks *r, lmi_buf *out);
/* Who, what it costs, what it is, since when; one sentence or two, without a newline. */
void lmi_ranks_say(const lam_ranks *r, lmi_buf *b);
/* What to do next; nothing if there is nothing to do. */
void lmi_ranks_say_next(const lam_ranks *r, lmi_buf *b);
/* The share of a step that each rank waits for its input; NaN: unknown. */
typedef struct lmi_inputs {
    const double *share;
    const int32_t *ranks;
    int32_t n;
    const char *why;  /* if it is not known of any: the reason */
    const char *next; /* of a single process: what to do; NULL: none, or there are several */
} lmi_inputs;
/* Holds the limits of recordings, `straggler` and `input`; `r` NULL: straggler is not limited. */
lam_status lmi_ranks_hold(lam_check *k, const lam_budget *b, const lam_ranks *r, const lmi_inputs *in,
                          lam_error *e);
/* "612 ms", "1.21 s" of microseconds; "?" if it is NaN. */
void lmi_put_us(lmi_buf *b, double us);
/* "Nov 25 03:14" UTC of microseconds since 1970. */
void lmi_put_moment(lmi_buf *b, int64_t us);

#endif
