/* SPDX-License-Identifier: Apache-2.0
 * The words of a language model in tokens, as the command, a page and a notebook show them. */
#ifndef LMI_REPORT_TABLE_TOKENS_H
#define LMI_REPORT_TABLE_TOKENS_H

#include "lamina.h"
#include "report/table/report.h"

typedef struct lmi_token_words {
    const lam_tokens *t;
    const lam_costs *c;
    int64_t memory;               /* bytes of a device; 0: none */
    const lam_token_bound *bound; /* NULL: no peak was named */
    bool exact;
    /* Takes a line and empties its text. */
    void (*line)(void *to, const char *label, lmi_buf *text);
    void *to;
} lmi_token_words;

/* Writes what generated, and how long it is: "Talker, float32, batch 1, a prompt of 4 tokens, 12 new". */
void lmi_token_head(const lmi_token_words *w, lmi_buf *to);
const char *lmi_token_type(const lmi_token_words *w); /* of the language model */

/* The columns of the table of stages: FLOPs a token, of all products, without hidden scores and of the
 * architecture; bytes of weights and of the cache that a call reads. */
enum { LMI_TOKEN_COLUMNS = 5 };
extern const char *const lmi_token_columns[LMI_TOKEN_COLUMNS];
/* "15.5 G", or "15.5 G to 15.6 G" where calls differ; "": the stage has no call. */
void lmi_token_cell(const lmi_token_words *w, lam_stage stage, int column, lmi_buf *to);
extern const char lmi_token_caption[];

/* Gives the lines below the table: sums, parameters, cache, what fits, bounds, and reasons. */
void lmi_token_lines(const lmi_token_words *w);

/* "dynamic", "fixed", "none"; NULL: no cache was seen */
const char *lmi_cache_kind(const lam_tokens *x);

#endif
