/* SPDX-License-Identifier: Apache-2.0
 * budget: a model's totals held against limits, and the layers that made a total exceed one. What can be
 * limited is a list of numbers/numbers.def. limits.c: limits from texts. check.c: totals against limits.
 * layers.c: the layers. held.c: limits of what is no model. */
#ifndef LMI_REPORT_BUDGET_H
#define LMI_REPORT_BUDGET_H

#include "report/budget/held.h"
#include "report/outline/outline.h"

struct lam_budget {
    bool allow_incomplete;
    bool limits[LMI_N_FIGURES];
    int64_t most[LMI_N_FIGURES];
    char text[LMI_N_FIGURES][32]; /* the limit as it was given, "2G" */
    double within;                /* per cent; negative: not given, which is 0 */
    double within_of[LMI_N_FIGURES]; /* negative: as `within` */
    char *file;                      /* of the baseline; NULL: there is none */
    lmi_outline baseline;
};

/* A layer that made a total exceed its limit. */
typedef struct lmi_growth {
    const char *path, *type; /* path "": the model itself */
    uint8_t change;          /* lmi_change; LMI_SAME where there is no baseline */
    bool whole;              /* the numbers include everything below it */
    int64_t was, now;
    int32_t n_ops; /* operators that a container runs itself, the largest first */
    struct lmi_growth_op { const char *name; int32_t n; int64_t value; } op[3];
} lmi_growth;
enum { LMI_MOST_PARTS = 5 };

/* One total and one limit. */
typedef struct lmi_limit_result {
    const lmi_figure_info *of;
    lam_verdict verdict;
    lam_count now, was;
    bool is_change;   /* the limit is a baseline, `was`, and `within` per cent */
    double within;
    lmi_int128 most;
    const char *text; /* "2G", "5 %" */
    const char *why;  /* why the total is not complete; NULL: it is */
    int32_t n_parts, n_more; /* n_more: parts that are left out, also those of more than 64 bits */
    lmi_growth part[LMI_MOST_PARTS];
    /* of recordings: who has the number; and of one that is not within its limit who that is, and what to do,
     * in words; said NULL: nothing is */
    int32_t n_ranks, n_nodes;
    const int32_t *ranks;
    const char **nodes, *said;
} lmi_limit_result;

struct lam_check {
    lmi_arena arena;
    const char *name, *convention;
    const char *error; /* why the check failed; NULL: it did not */
    lam_verdict verdict; /* the worst */
    int32_t n, n_gaps, n_notes;
    lmi_limit_result *at;
    const char **gap, **note;
};

/* Sets the verdict of a limit, and why it is not complete, unless `why` is set. */
void lmi_limit_judge(lam_check *k, const lam_budget *b, lmi_limit_result *h);
/* Finds the parts of a total: those of `both`, an lmi_outline_diff, that grew; NULL: the largest of `o`. */
lam_status lmi_find_parts(lam_check *k, lmi_limit_result *h, const lam_costs *c, const lmi_outline *o,
                          const lmi_outline *both, lam_error *e);

#endif
