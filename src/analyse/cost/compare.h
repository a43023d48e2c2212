/* SPDX-License-Identifier: Apache-2.0
 * Comparisons, for their writer: the parts that are not in lamina.h. */
#ifndef LMI_ANALYSE_COMPARE_H
#define LMI_ANALYSE_COMPARE_H

#include "analyse/costs.h"
#include "count/count.h"

/* Of a comparison in tokens (analyse/tokens/compare.c), whose FLOPs are those of all tokens. */
typedef struct lmi_token_comparison {
    bool there, training, hides, given, dry; /* hides: counted without what a mask hides */
    int64_t tokens, batch, length;
    const char *model; /* its class */
} lmi_token_comparison;

struct lam_comparison {
    lmi_arena arena;
    int32_t n;
    lam_compared *rows; /* the reference first */
    lam_metric metric;
    lam_phase phase;
    bool named; /* the caller named its conventions */
    bool all;   /* every convention that can count the model is there */
    const char *left_out; /* those that can't: "torch, fvcore"; NULL: none, or the caller named some */
    lmi_token_comparison tokens;
};

/* The texts of the LIMIT lines that apply to this run; NULL: none does (limits.c). */
lam_status lmi_limits(const lam_costs *c, lam_metric metric, lmi_arena *a, const char **out, lam_error *e);
/* True if the tool of that name counts this metric in this phase. */
bool lmi_compare_tells(const lmi_convention *cv, lam_metric metric, lam_phase phase);

#endif
