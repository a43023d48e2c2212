/* SPDX-License-Identifier: Apache-2.0
 * saved: an outline of a report that was saved as JSON. SQLite reads the JSON, because its reader has been
 * tested on hostile text for years. */
#ifndef LMI_REPORT_SAVED_H
#define LMI_REPORT_SAVED_H

#include "report/outline/work.h"

/* Reads the report that Report.to_json or `--json` wrote. LAM_IO: the file can't be read; LAM_FAILED: it is
 * no such report; LAM_LIMIT: it is too large. Free it also on failure. */
lam_status lmi_saved_outline(lmi_outline *o, const char *file, lam_error *e);

/* -- inside this room ------------------------------------------------------------------------------------ */

struct sqlite3;
struct sqlite3_stmt;
typedef struct lmi_saved {
    lmi_taking w;
    const char *file;
    char *text; /* of the file */
    int64_t n;
    struct sqlite3 *db;
    lmi_vec of_row;     /* int32_t: the place of each row */
    lmi_map by_path;    /* a place's path: its position in `index` */
    int32_t *index;     /* places before some are combined; w.of_place has what shows each */
} lmi_saved;

/* Fails: the file is no report; `what` names what is wrong. */
lam_status lmi_saved_wrong(const lmi_saved *s, const char *what);
/* The same for an error of SQLite. */
lam_status lmi_saved_failed(const lmi_saved *s, int code);
/* Prepares a query of the text, which is its first parameter. */
lam_status lmi_saved_ask(const lmi_saved *s, const char *sql, struct sqlite3_stmt **out);
/* Reads the next row, if there is one. */
lam_status lmi_saved_next(const lmi_saved *s, struct sqlite3_stmt *q, bool *more);
/* Calls `row` for each row of a query. */
typedef lam_status (*lmi_saved_row)(lmi_saved *s, struct sqlite3_stmt *q, void *to);
lam_status lmi_saved_each(lmi_saved *s, const char *sql, lmi_saved_row row, void *to);
/* The same, where `row` pushes onto an lmi_vec, `to`; its `n` elements of `size` bytes are copied to *out, a
 * pointer. */
lam_status lmi_saved_list(lmi_saved *s, const char *sql, lmi_saved_row row, size_t size, int32_t *n,
                          void *out);
/* A whole number of at least 0; -1 if it is missing or null. */
lam_status lmi_saved_int(const lmi_saved *s, struct sqlite3_stmt *q, int column, int64_t *out);
/* The phase with this name; an error if there is none. */
lam_status lmi_saved_phase_of(const lmi_saved *s, const char *name, uint8_t *out);
/* The category of memory with this name; "other" has what stands under a name that is not known. */
lam_held lmi_saved_held_of(const char *name);
/* The truth that a query gives. */
lam_status lmi_saved_truth(lmi_saved *s, const char *sql, bool *out);
/* A text, kept once; "" if it is missing. */
lam_status lmi_saved_text(lmi_saved *s, struct sqlite3_stmt *q, int column, const char **out);
/* The columns of the count at a path: its value and its state as text, for SQLite reads numbers of more than
 * 64 bits as floats. */
#define LMI_SAVED_COUNT(from, path) "json_extract(" from ", '$." path ".value', '$." path ".state')"
/* The count of such a column; unknown if it is missing. */
lam_status lmi_saved_count(const lmi_saved *s, struct sqlite3_stmt *q, int column, lam_count *out);

/* The place of a path, before some are combined; `wrong` is the error if no row has it. */
lam_status lmi_saved_place(const lmi_saved *s, const char *path, const char *wrong, int32_t *out);
lam_status lmi_saved_places(lmi_saved *s);  /* places.c: the tree, by the paths of the rows */
lam_status lmi_saved_numbers(lmi_saved *s); /* places.c: what the rows have of each place */
lam_status lmi_saved_whole(lmi_saved *s);   /* whole.c: everything outside the rows */
lam_status lmi_saved_course(lmi_saved *s);  /* course.c: memory over time, and the places at work */
lam_status lmi_saved_held(lmi_saved *s);    /* whole.c: what each place holds at the peak */
lam_status lmi_saved_levels(lmi_saved *s);  /* levels.c: the graph, and the formulas */

#endif
