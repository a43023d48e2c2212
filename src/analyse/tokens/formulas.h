/* SPDX-License-Identifier: Apache-2.0
 * formulas: FLOPs of a language model as others define them, beside those of a run. parts.c splits what ran
 * into parts; formulas.c reads the configuration and evaluates the formulas of formulas.def; compare.c says
 * why the two differ. */
#ifndef LMI_ANALYSE_FORMULAS_H
#define LMI_ANALYSE_FORMULAS_H

#include "analyse/cost/compare.h"
#include "analyse/tokens/tokens.h"

typedef enum lmi_part {
#define PART(name, what) LMI_PART_##name,
#include "analyse/tokens/parts.def"
#undef PART
    LMI_N_PARTS
} lmi_part;
const char *lmi_part_what(lmi_part p); /* "the head" */

/* A parameter in the run. */
typedef struct lmi_used {
    enum lmi_use {
        LMI_USE_MATRIX, /* it is multiplied with, in `part` */
        LMI_USE_TOKENS, /* the table of tokens, if it is no head too */
        LMI_USE_TABLE,  /* another table */
        LMI_USE_SMALL,  /* a norm or a bias */
        LMI_USE_NONE    /* the run did not use it */
    } use;
    lmi_part part;
    bool embedding, expert,
        encoder; /* of torch.nn.Embedding, of a routed expert, of a module for images or sound */
    int32_t tensor;
    int64_t numel;
} lmi_used;

/* A run split into parts, in multiply-accumulates. */
typedef struct lmi_parts {
    int64_t tokens, batch, length;
    lmi_int128 macs[LMI_N_PARTS][LAM_N_PHASES]; /* effective ones, where they are known */
    lmi_int128 dense;                           /* of all scores of the forward */
    lam_count whole[LAM_N_PHASES];              /* of the run, as `macs` */
    bool hides;                                 /* the effective ones are known: without what a mask hides */
    bool again;                                 /* an operator computes the scores again in the backward */
    int32_t n;
    lmi_used *used; /* of each distinct parameter */
} lmi_parts;
lam_status lmi_parts_of(const lmi_token_run *r, lmi_parts *out, lam_error *e);
/* Matrices of an MLP between `hidden` and its inner width: 2, or 3 if it is gated; -1: its parameters don't
 * tell. */
typedef struct lmi_widths {
    int64_t mlp, experts, shared; /* -1: not known */
} lmi_widths;
int64_t lmi_mlp_matrices(const lmi_token_run *r, const lmi_parts *p, int64_t hidden, const lmi_widths *w);

/* What a formula may name, from the run and from a configuration ("name=4 other=1 types=a,b"; NULL: none). */
enum { LMI_MOST_NAMES = 64 };
typedef struct lmi_names {
    int32_t n;
    const char *name[LMI_MOST_NAMES];
    int64_t value[LMI_MOST_NAMES];
    const char *config;
} lmi_names;
void lmi_names_of(const lmi_parts *p, const char *config, int64_t mlp_matrices, lmi_names *out);
/* The number of a name; -1: it is not known. */
int64_t lmi_named(const lmi_names *x, const char *name);

enum {
    LMI_WITHOUT_EMBEDDINGS = 1,
    LMI_WITHOUT_LOOKUPS = 2,
    LMI_WITHOUT_TOKEN_TABLE = 4,
    LMI_WITHOUT_OTHER_TABLES = 8,
    LMI_WITHOUT_ENCODERS = 16,
    LMI_WITHOUT_IDLE = 32, /* of experts the part that a token takes */
    LMI_NO_WEIGHTS = 64
};
/* True if the parameter is no product by these flags. */
bool lmi_is_without(const lmi_used *u, int flags);

typedef struct lmi_term {
    bool there;
    lmi_int128 flops; /* of a forward of all tokens */
    const char *note; /* what it does otherwise than the run; NULL */
} lmi_term;
typedef struct lmi_formula_of_tokens {
    const char *name, *words, *source;
    int flags;
    enum lmi_scores { LMI_SCORES_ALL, LMI_SCORES_HALF, LMI_SCORES_WINDOWS } scores;
    lmi_term weights, part[LMI_N_PARTS];
} lmi_token_formula;
int32_t lmi_n_token_formulas(void);
/* Formula `i` for these names. What it needs and is not known is written to `lacks`, separated by commas. */
void lmi_token_formula_of(int32_t i, const lmi_names *x, lmi_token_formula *out, lmi_buf *lacks);

#endif
