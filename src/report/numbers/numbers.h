/* SPDX-License-Identifier: Apache-2.0
 * numbers: what lamina tells of a model and of each of its modules, each number once (numbers.def). Columns
 * to sort by, pictures, budgets, differences, the page and its script are lists of these. A figure is such a
 * number. */
#ifndef LMI_REPORT_NUMBERS_H
#define LMI_REPORT_NUMBERS_H

#include "base/base.h"

/* What is kept of a place itself. */
typedef enum lmi_own_number {
#define OWN(id) LMI_OWN_##id,
#define NUMBER(...)
#include "report/numbers/numbers.def"
#undef OWN
#undef NUMBER
    LMI_N_OWN,
    LMI_OWN_NO = -1
} lmi_own_number;

typedef enum lmi_figure {
#define OWN(id)
#define NUMBER(id, ...) LMI_FIGURE_##id,
#include "report/numbers/numbers.def"
#undef OWN
#undef NUMBER
    LMI_N_FIGURES,
    LMI_FIGURE_NO = -1
} lmi_figure;

/* Lists of numbers that a user chooses from. */
typedef enum lmi_figure_list { LMI_SORTED, LMI_DRAWN, LMI_LIMITED, LMI_PAGED, LMI_N_LISTS } lmi_figure_list;

typedef struct lmi_figure_info {
    const char *name, *title, *part_title; /* part_title NULL: `title` */
    lmi_number_unit unit;
    lam_needs needs;
    int metric;              /* lam_metric; -1: none */
    lmi_own_number part[2];  /* LMI_OWN_NO: none */
    lmi_figure back;         /* in the backward pass, or LMI_FIGURE_NO */
    bool adds_up;            /* the whole model's is the sum of its modules' */
    uint8_t at[LMI_N_LISTS]; /* its position, from 1; 0: it is not in the list */
    bool always;             /* a baseline limits it even if it is not named */
    const char *column;      /* of lamina's table; NULL: none */
} lmi_figure_info;
extern const lmi_figure_info lmi_figures[LMI_N_FIGURES];

/* The i-th of a list, from 0; LMI_FIGURE_NO past the last one. */
lmi_figure lmi_figure_at(lmi_figure_list list, int i);
/* Of the first n bytes of `name`; LMI_FIGURE_NO: it is not in the list. */
lmi_figure lmi_figure_find(lmi_figure_list list, const char *name, size_t n);
/* Writes the names of a list: "macs, flops, ...". */
void lmi_put_figures(lmi_buf *b, lmi_figure_list list);
const char *lmi_part_title(lmi_figure k); /* beside a place's part: "at peak" */

/* -- the fields of a row (row.def) --------------------------------------------------------------------- */

/* What a report must have for a column of CSV; of some, JSON has the field then. */
typedef enum lmi_row_part {
    LMI_ROW_ALWAYS,
    LMI_ROW_LOGICAL, /* parameters are stored in another size than their shapes and types give */
    LMI_ROW_SPREAD,  /* parameters are sharded over several processes */
    LMI_ROW_PACKED,  /* some are packed for the machine; of one row */
    LMI_ROW_OPERATORS,
    LMI_ROW_TIMED,
    LMI_ROW_DEVICE_TIMED,
    LMI_ROW_MEMORY_SEEN,
    LMI_ROW_DEVICE_SEEN, /* its memory */
    LMI_ROW_HEALTH,
    LMI_N_ROW_PARTS
} lmi_row_part;
typedef enum lmi_row_form { LMI_ROW_VALUE, LMI_ROW_STATED, LMI_ROW_EACH, LMI_ROW_FIRST } lmi_row_form;

/* Whose names the fields of a row have, if not those of JSON. */
typedef enum lmi_row_user { LMI_IN_PYTHON, LMI_IN_CSV, LMI_N_ROW_USERS } lmi_row_user;

typedef struct lmi_row_name {
    const char *path;                  /* in JSON, "memory.own.forward.peak" */
    const char *name[LMI_N_ROW_USERS]; /* "": they have no such field */
    lmi_row_part when;
    lmi_row_form form;
} lmi_row_name;
enum {
#define FIELD(...) +1
    LMI_N_ROW_NAMES = 0
#include "report/numbers/row.def"
};
extern const lmi_row_name lmi_row_names[LMI_N_ROW_NAMES];

/* What a row owns, and the reverse. */
lam_param_totals lmi_row_owned(const lam_cost_row *row);
void lmi_row_own(lam_cost_row *row, const lam_param_totals *owned);

#endif
