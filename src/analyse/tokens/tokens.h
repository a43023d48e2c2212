/* SPDX-License-Identifier: Apache-2.0
 * tokens: a run of a language model in tokens. calls.c finds the calls of the model and what they are given,
 * and padding.c which of that fills prompts up; products.c what each multiplies and which parameters it
 * reads; cache.c what is kept from one call to the next and how it grows, and inside.c what the model keeps
 * in itself; stages.c the steps and their sums; space.c what a call takes beside weights and cache; fits.c
 * what fits into a memory; plan.c which runs tell all this. */
#ifndef LMI_ANALYSE_TOKENS_H
#define LMI_ANALYSE_TOKENS_H

#include "analyse/cost/numbers.h"
#include "analyse/flow/flow.h"
#include "model/view.h"

/* One call of the language model that is in no other call of it. */
typedef struct lmi_token_call {
    int32_t event;
    int32_t sequence;     /* of calls: each begins with one that was given no cache */
    bool given;           /* a cache, or the model has one in itself that the call before it left */
    bool stores, carries; /* it writes a cache in buffers; it reads what else the call before it made */
    bool failed;          /* it raised */
    lam_stage said;       /* by the user; LAM_N_STAGES: the user did not say */
    int64_t batch, fresh; /* sequences, tokens of one that it is given; -1 unknown */
    int64_t again;  /* of `fresh` those that were given before, as without a cache; -1: it is not known */
    int64_t source; /* tokens that an encoder was given; -1: none */
    int64_t keys;   /* tokens of a sequence after it; -1 unknown */
    uint64_t ids;   /* the memory of the tokens that it is given; 0 unknown */
    int64_t pads;   /* positions of the batch that are padding; -1 unknown */
} lmi_token_call;

/* What one call, with what led to it, multiplies and reads. */
typedef struct lmi_token_work {
    lam_count metric[LAM_N_METRICS];
    int64_t padded;                /* MACs of products of parameters with padding */
    const char *why_model;         /* why the model's own MACs are not the effective ones; NULL: they are */
    int64_t weights, weights_most; /* bytes; -1 unknown */
    int64_t dealt, dealt_most;     /* of these, of routed experts */
    int32_t experts_least, experts_most;
} lmi_token_work;

/* A cached tensor after one call. */
typedef struct lmi_token_entry {
    int64_t numel;
    int32_t dtype;
    bool shared; /* by all sequences of the batch */
} lmi_token_entry;
/* The entries after one call. */
typedef struct lmi_token_held {
    int32_t first, n; /* in `entries`; n -1: no cache was seen */
    int64_t keys, batch;
    int32_t results; /* of them results of the call; the others are buffers of the model */
    int64_t storage; /* bytes of the memory in which they lie, of one sequence; -1 unknown */
} lmi_token_held;

/* What is known of a parameter from the calls that were looked at. */
typedef struct lmi_token_use {
    bool touched[LAM_N_STAGES]; /* read at all */
    bool whole;                 /* multiplied as a whole, in decode */
    bool unclear;               /* how much of it one token multiplies with is not known */
    int64_t part;               /* elements of it that one token multiplies with, in decode */
    int32_t groups;      /* it is a stack of so many matrices, of which a token takes some; 0: it is not */
    int64_t stamp, read; /* the call that was looked at last, and the elements that this one read */
    int64_t least, most; /* matrices of the stack that this call read */
} lmi_token_use;

typedef struct lmi_token_run {
    const lam_costs *c;
    const lam_model *m;
    lmi_arena *arena;
    int32_t module;       /* the language model */
    lmi_vec calls;        /* lmi_token_call */
    lmi_token_work *work; /* one a call */
    int32_t *call_of;     /* per event: the call that it is in or leads to, -1 none */
    lmi_groups ops;       /* the operators of each call */
    lmi_token_use *use;   /* per tensor */
    bool *parameter;      /* per tensor */
    bool *stored;         /* per tensor: it is a buffer that calls write as a cache */
    bool *scores;         /* per operator: its product is one of an attention that is written out */
    int32_t table;        /* that of the tokens; -1: none */
    bool chooses;         /* a router of the last step chooses among parameters that are no stack */
    lmi_vec wide;         /* lam_token_wide */
    lmi_vec entries;      /* lmi_token_entry */
    lmi_vec held;         /* lmi_token_held, one a call */
    uint64_t
        holders; /* the results of a call that hold the cache, a bit each; set it if another run showed it */
} lmi_token_run;

static inline lmi_token_call *lmi_token_at(const lmi_token_run *r, int32_t k) {
    return lmi_vec_at(&r->calls, (size_t)k);
}

/* Finds the calls of the module at `path`. LAM_USAGE if there are none, or none is given token ids. */
lam_status lmi_token_calls(lmi_token_run *r, const char *path, lam_error *e);
/* Finds the padding of each call. */
void lmi_token_padding(lmi_token_run *r);
/* True for a call that consumes the prompt. */
bool lmi_token_prefills(const lmi_token_run *r, int32_t k);
/* How much an argument looks like the tokens, by its type, shape and name; 0: it is something else. */
int lmi_token_rank(const lam_arg *a);
/* The memory of a call's tensor; 0 unknown. */
static inline uint64_t lmi_token_memory(const lam_arg *a) { return a->memory ? a->memory : a->storage; }
/* True for the same tensor as the result of one call and an argument of a later one. */
bool lmi_token_same(const lam_arg *a, const lam_arg *b);
/* Per operator of the model: an operator of call `k` read what it made. To be freed; NULL: memory ran out. */
bool *lmi_token_read(const lmi_token_run *r, int32_t k);
/* Finds the caches that are buffers of the model, and the calls that write them. */
lam_status lmi_token_stores(lmi_token_run *r, lam_error *e);
/* True if an operator of call `k` reads a tensor that one of the call before it made. */
bool lmi_token_carries(const lmi_token_run *r, int32_t k);
/* Fills r->work, r->use, r->wide, r->scores and r->table. */
lam_status lmi_token_products(lmi_token_run *r, lam_error *e);
/* True for an operator that counts; for an attention in one operator; for a convolution. */
bool lmi_token_counts(const lam_costs *c, int32_t op);
static inline bool lmi_token_attends(lmi_kind k) {
    return k == LMI_K_attend || k == LMI_K_attend_flash || k == LMI_K_attend_efficient;
}
bool lmi_token_convolves(lmi_kind k);
/* Fills r->entries and r->held. */
lam_status lmi_token_kept(lmi_token_run *r, lam_error *e);
/* Fills the activations of `t` from a run whose memory was followed; texts are kept in `to`. */
lam_status lmi_token_space(const lmi_token_run *r, lam_tokens *t, lmi_arena *to, lam_error *e);
/* How the cache grows, from the calls of a run and of another one (NULL). */
lam_status lmi_token_growth(const lmi_token_run *r, const lmi_token_run *other, lmi_arena *to,
                            lam_token_cache *out, lam_error *e);

/* cache.gap, if the cache grew in a run and none of other lengths shows whether it goes on; it is known up to
 * cache.tried. */
extern const char lmi_token_no_longer[];

#endif
