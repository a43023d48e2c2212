/* SPDX-License-Identifier: Apache-2.0
 * rows: lamina's table as text and Markdown: its rows, which are places of an outline, and its columns. */
#ifndef LMI_REPORT_ROWS_H
#define LMI_REPORT_ROWS_H

#include "report/outline/outline.h"

typedef struct lmi_row {
    int32_t place;         /* of the outline */
    int32_t parent, depth; /* the row that this one is below, -1: none */
    bool own;              /* what a container holds or does itself, a row above those of its children */
    bool outside;          /* what ran outside all calls; own too */
    bool open, last;       /* its children follow; no row of the same parent follows */
} lmi_row;

typedef struct lmi_rows {
    const lmi_job *j;
    lmi_outline o;
    lmi_groups rows;      /* of the costs, by place */
    int32_t *line;        /* by place: the number of its lines that are kept; below 0: see rows.c */
    lmi_line *sum, *self; /* over everything at and below a place, and its rows of the costs alone */
    lmi_line outside;     /* what ran outside all calls; outside.outside false: nothing */
    int64_t *times;       /* by place: its times are sums over so many equal ones */
    int32_t n, left_out;  /* left_out: rows that a list does not show */
    lmi_row *at;
    bool folded; /* a run of equal siblings is one row */
    bool flat;   /* a list by size and no tree: names are paths */
} lmi_rows;

/* The rows that are shown, from top to bottom, folded or as a list by the options. Free them also on failure.
 */
lam_status lmi_rows_new(lmi_rows *t, const lmi_job *j);
void lmi_rows_free(lmi_rows *t);
/* True if the row represents several places, each with the same numbers. */
bool lmi_rows_each(const lmi_rows *t, int32_t i);
/* True if places below the row's are shown, or would be if there were no limit of depth. */
bool lmi_rows_holds(const lmi_rows *t, int32_t i);
/* The row's line: if it represents several, the numbers of one and the mean of times. */
void lmi_rows_line(const lmi_rows *t, int32_t i, lmi_line *out);
/* Name, range and class in at most `room` columns. The class is cut first, then left out, then the name is
 * cut; the range stays as long as it can. */
void lmi_rows_label(const lmi_rows *t, int32_t i, size_t room, bool ascii, lmi_buf *out);
/* The marks of a row, by its line: " (2 calls)", " [never called]", " [called elsewhere]", " tied to
 * 0.weight" or, if `brief`, " [tied]". */
void lmi_rows_marks(const lmi_rows *t, const lmi_line *l, bool brief, lmi_buf *out);
/* The columns that this report shows: without metrics that the convention does not count, with or without the
 * receptive field; the share follows its column. */
void lmi_own_columns(const lmi_job *j, lmi_columns *out);

#endif
