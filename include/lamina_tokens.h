/* SPDX-License-Identifier: Apache-2.0
 *
 * A language model in tokens, a part of lamina.h: costs of a prompt and of each new token, bytes of the
 * cache, parameters that a token uses, and the longest context and largest batch in a memory. */
#ifndef LAMINA_TOKENS_H
#define LAMINA_TOKENS_H

#include "lamina_fields.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lam_stage {
    LAM_PREFILL, /* calls of the model that consume the prompt; they give the first new token */
    LAM_DECODE,  /* the calls after it: steps, one for each further token */
    LAM_N_STAGES
} lam_stage;
LAM_API const char *lam_stage_name(lam_stage s); /* "prefill", "decode" */

/* Three ways to count one product of matrices, in multiply-accumulates of the whole batch. */
typedef struct lam_token_macs {
    lam_count executed;  /* all products that ran */
    lam_count effective; /* without scores that a mask or a causal flag hides */
    lam_count model; /* the need of the architecture, in any implementation; LAM_UNKNOWN: see `why_model` */
} lam_token_macs;

/* What a call costs, or all calls of a stage together. */
typedef struct lam_token_cost {
    lam_token_macs macs;
    lam_count flops; /* of all operators */
    /* Bytes of parameters that are read, in a call each element once: of tables the rows that are looked up,
     * of routed experts those that are hit. `weights_most`: the same where it is not known which experts are
     * hit, and `weights` is then the least. */
    lam_count weights, weights_most;
    lam_count cache_read; /* bytes of cached keys, values and states that are attended to, of the batch, the
                             call's own included; of the first call of a prompt 0 */
} lam_token_cost;

/* One call of the language model, or a step between two that ran. */
typedef struct lam_token_step {
    int32_t event; /* its call; -1: it did not run, and is on the line through steps that did */
    lam_stage stage;
    int32_t step;        /* of decode, from 1; 0: prefill */
    int64_t batch;       /* sequences; -1 unknown, as the next two */
    int64_t fresh, keys; /* new tokens of a sequence; tokens that it sees, its own included */
    int64_t pads; /* positions of the batch that fill prompts up to the longest one and are hidden from all
                     others, as found by a mask; they are among `fresh` and `keys`. -1: not known */
    lam_token_cost cost;
    lam_count cache; /* bytes that one sequence keeps after it; LAM_UNKNOWN: no cache was seen */
    int32_t experts_least, experts_most; /* routed experts hit in a layer; -1: none, or not known */
} lam_token_step;

typedef struct lam_token_stage {
    int32_t calls;
    int64_t tokens; /* new tokens of the batch, without padding: of prefill the prompt's; -1 unknown */
    int64_t pads;   /* positions that are padding: executed and effective MACs are of these too; -1 unknown */
    lam_token_cost cost;
    const char *why_model; /* why cost.macs.model is not known; NULL: it is */
    /* Bytes that a call takes at its peak beside the weights and the cache that it leaves, of the batch, by
     * the run `followed` of lam_token_options: of the prefill the most of its calls, and of the first step of
     * decode, which sees `followed_keys` tokens; -1: it is not known. */
    lam_count activations;
    int64_t followed_keys;
} lam_token_stage;

/* Bytes of parameters that the last step reads, by its batch: `fixed` at every batch, at least and at most,
 * and of routed experts from `routed`, those of one token, to as many times the batch, at most `all` of them.
 * `why`: it is not known; NULL: it is. */
typedef struct lam_token_reads {
    int64_t fixed, fixed_most, routed, all;
    const char *why;
} lam_token_reads;

typedef struct lam_token_params { /* elements, each distinct parameter once */
    lam_count total;
    lam_count active; /* used for a new token: without experts that it is not routed to, and encoders */
    lam_count active_matrix; /* the part that a token is multiplied with: no tables, biases and norms */
    int32_t experts, routed; /* in a layer: routed experts, and how many a token uses; 0: none were seen */
    int32_t layers;          /* with routed experts */
} lam_token_params;

/* Cached tensors that grow alike: `bytes` a token of one sequence, until `cap` tokens; cap -1: for ever. */
typedef struct lam_token_piece {
    int64_t bytes, cap;
    int32_t tensors;
} lam_token_piece;
typedef struct lam_token_cache {
    bool seen;      /* some call kept something for the next one */
    int64_t fixed;  /* bytes of a sequence that do not grow */
    int64_t shared; /* bytes for all sequences together */
    int32_t n_pieces;
    const lam_token_piece *pieces; /* the smallest cap first */
    /* Bytes of a sequence's share of the memory in which the cache lies after the last call, also of what is
     * not cached there; LAM_UNKNOWN: what took that memory was not seen. */
    lam_count storage;
    int64_t tried;   /* the most tokens that a run had: a larger cap would not have been seen */
    int32_t dtype;   /* of the largest part */
    const char *gap; /* why it is not known how it grows; NULL: it is */
} lam_token_cache;

/* A layer that multiplies more rows than the call has new tokens, as one that expands a latent cache. */
typedef struct lam_token_wide {
    int32_t place;        /* -1 outside every layer */
    int32_t layers;       /* with this name, rows and tokens */
    int64_t rows, tokens; /* of the last decode step */
    lam_count macs;       /* of all of them */
} lam_token_wide;

typedef struct lam_tokens {
    int64_t prompt, fresh, batch; /* tokens of a prompt, new tokens, sequences; -1 unknown */
    bool asked_prompt, asked_fresh;
    bool sampled;   /* decode steps between those that ran are filled in */
    bool bent;      /* they are not on one line, so those between are not known: run every step */
    bool cacheless; /* each step ran over all tokens */
    lam_token_stage stage[LAM_N_STAGES];
    int32_t n_steps;
    const lam_token_step *steps; /* prefill first */
    lam_token_params params;
    lam_token_cache cache;
    lam_token_reads reads;
    int32_t n_wide;
    const lam_token_wide *wide;
    int64_t weights;             /* bytes of all parameters and buffers; -1 unknown */
    int32_t dtype;               /* of most parameters */
    int32_t device;              /* c10 device type number of the token ids; -1 unknown */
    int64_t logits;              /* positions of a sequence of the prefill that got logits; -1 unknown */
    const char *why_activations; /* why those of a stage are not known, or at least so many; NULL: they are */
    const char *rough_activations; /* why they may be some per cent lower or higher; NULL: they are not */
} lam_tokens;

typedef struct lam_token_options {
    const char *path;               /* of the language model: "" or NULL the root */
    int64_t prompt, fresh, batch;   /* that were requested; 0: as in the calls */
    bool given_prompt, given_fresh; /* the user named them */
    /* Further sequences of calls stand for later steps of the first one. false: for themselves. */
    bool sampled;
    /* Costs of another run, of the same model on prompts of other lengths, for how its cache grows; NULL. */
    const lam_costs *lengths;
    /* Costs of a further run, on the same prompt, whose memory was followed; NULL: there is none, and
     * `not_followed` says why, or the caller made none (NULL). */
    const lam_costs *followed;
    const char *not_followed;
} lam_token_options;

/* Reads a run of a language model in tokens. `c` must outlive the result and count operators. LAM_USAGE if
 * the model was not called, or no call was given whole numbers that a table reads. */
LAM_API lam_status lam_tokens_new(lam_tokens **out, const lam_costs *c, const lam_token_options *o,
                                  lam_error *e);
LAM_API void lam_tokens_free(lam_tokens *t); /* NULL is allowed */

/* What the costs of a run are needed for. */
typedef enum lam_token_purpose {
    LAM_RUN_STEPS,   /* they are what is read in tokens */
    LAM_RUN_LENGTHS, /* `lengths` of lam_token_options; the run may fail */
    LAM_RUN_MEMORY   /* `followed`; the run may fail */
} lam_token_purpose;
/* A run of a language model whose costs are needed. */
typedef struct lam_token_run {
    lam_token_purpose purpose;
    const char *which;      /* as `tokens` of lam_live: "sample", "every", "lengths", "own" or "first" */
    bool dry, time, follow; /* it computes nothing; its calls are timed; its memory is followed */
    bool tells;             /* after it the tokens can be read */
} lam_token_run;
typedef struct lam_token_plan {
    bool dry, time; /* of the options */
    bool memory;    /* what calls take beside weights and cache is wanted too */
} lam_token_plan;
/* The run to make after `made` others. False: no further one is needed. `t`: the tokens so far, NULL: they
 * were not read yet. */
LAM_API bool lam_tokens_next(lam_token_run *out, int32_t made, const lam_tokens *t,
                             const lam_token_plan *plan);
/* Its fields as one object. */
LAM_API void lam_tokens_run_tell(const lam_token_run *r, lam_receiver to);

/* A sequence to generate: `fresh` tokens after `prompt`, of which the first comes of the prefill and each
 * further one of a step. `decoder`: tokens that the decoder behind an encoder begins with; 0: as ever. */
typedef struct lam_token_sequence {
    int64_t prompt, fresh, decoder;
} lam_token_sequence;
enum { LAM_TOKEN_SEQUENCES = 3 };
/* What bounds the sequences of a model, in tokens. */
typedef struct lam_token_limits {
    bool encoder;    /* the prompt is an encoder's */
    int64_t table;   /* positions for which it has a table; 0: it has none */
    int64_t own;     /* that it says it takes; 0: it does not say */
    int64_t longest; /* lam_tokens_longest; 0: the same as for any model */
} lam_token_limits;
/* The sequences of the run `which`, for a model that is asked for `fresh` tokens after `prompt`; returns how
 * many. */
LAM_API int32_t lam_tokens_sequences(lam_token_sequence out[LAM_TOKEN_SEQUENCES], const char *which,
                                     int64_t prompt, int64_t fresh, const lam_token_limits *of);
/* Tokens of a prompt that shows whether a cache goes on growing: fewer for a model that has operators for
 * each token, as a scan has that is a loop of the program. `c`: costs of the first run; `path`: as in
 * lam_token_options. 0: the same as for any model. */
LAM_API int64_t lam_tokens_longest(lam_costs *c, const char *path);

/* Bytes of the caches of `batch` sequences of `tokens` tokens each. LAM_AT_LEAST if a part is not known. */
LAM_API lam_count lam_tokens_cache_at(const lam_tokens *t, int64_t tokens, int64_t batch);
/* The most tokens of each of `batch` sequences whose caches fit beside the weights in `memory` bytes; 0: not
 * one; INT64_MAX: there is no end. -1: not known, see t->cache.gap. Activations are not in it. */
LAM_API int64_t lam_tokens_context(const lam_tokens *t, int64_t memory, int64_t batch);
/* The most sequences of `tokens` tokens; as lam_tokens_context. */
LAM_API int64_t lam_tokens_batch(const lam_tokens *t, int64_t memory, int64_t tokens);
/* What fits into a memory, and how many tokens and sequences less with the activations of a stage, if each
 * sequence takes as many as one of the run that was followed; -1: not known. */
typedef struct lam_token_capacity {
    int64_t memory;
    int64_t context;       /* lam_tokens_context of one sequence */
    int64_t tokens, batch; /* lam_tokens_batch of sequences as long as those that were generated */
    int64_t context_less[LAM_N_STAGES], batch_less[LAM_N_STAGES];
} lam_token_capacity;
LAM_API lam_token_capacity lam_tokens_capacity(const lam_tokens *t, int64_t memory);
/* Its fields as one object. */
LAM_API void lam_tokens_capacity_tell(const lam_tokens *t, const lam_token_capacity *x, lam_receiver to);

/* A device's peak as its maker publishes it, of dense products. */
typedef struct lam_named_peak {
    const char *name, *dtype, *source;
    lam_peak best;
} lam_named_peak;
/* Reads "h100-sxm", of numbers of type `dtype` (NULL: the text names it), or "h100-sxm:bfloat16". LAM_USAGE
 * if there is none. Of "measured" and "measured:bfloat16" `best` is 0: it is to be measured, as by `roof` of
 * lam_host. */
LAM_API lam_status lam_peak_named(const char *text, const char *dtype, lam_named_peak *out, lam_error *e);
/* The same, or FLOP/s as a number, "9.9e14": the name is "given" then, and the bytes are 0. LAM_USAGE too for
 * "measured", and for a number below 1. */
LAM_API lam_status lam_peak_flops(const char *text, const char *dtype, lam_named_peak *out, lam_error *e);
/* The peak of a device for numbers of type `dtype`, by the name that its driver has for it, as "NVIDIA H200".
 * False: it is not in the table. */
LAM_API bool lam_peak_of_device(const char *device, const char *dtype, lam_named_peak *out);
/* The same of a language model, with the type of most of its parameters. */
LAM_API lam_status lam_tokens_peak(const lam_tokens *t, const char *text, lam_named_peak *out, lam_error *e);

/* What a peak allows of a stage: of all its calls together, in seconds; negative: unknown. */
typedef struct lam_token_limit {
    int32_t calls;
    double compute, memory; /* that its products take, and reading weights and cache; either alone */
    double memory_most;     /* reading as many routed experts as may have been hit */
    double least;           /* the sum over the calls of the longer of the two */
    lam_bound bound;        /* LAM_BOUND_COMPUTE, LAM_BOUND_MEMORY or LAM_BOUND_UNKNOWN, also if the experts
                               that are hit decide */
    int64_t ns; /* that the calls took, each the median of its runs if they were timed apart; -1: unknown */
    double mfu, mbu; /* shares of the peak that they reached then */
    bool exact_flops,
        exact_bytes; /* false: what is counted is a lower bound, and so is what follows from it */
} lam_token_limit;
typedef struct lam_token_bound {
    lam_named_peak peak;
    lam_token_limit stage[LAM_N_STAGES];
    /* The least batch at which computing limits the last decode step; INT64_MAX: there is none; -1: not
     * known, and `why` says why. `critical_most`: the same if each sequence is routed to other experts,
     * and `critical` if all are routed to the same ones. */
    int64_t critical, critical_most;
    const char *why;
    int64_t keys; /* tokens that a sequence sees then */
} lam_token_bound;
LAM_API void lam_tokens_bound(const lam_tokens *t, const lam_costs *c, const lam_named_peak *peak,
                              lam_token_bound *out);
/* Its fields as one object. */
LAM_API void lam_tokens_bound_tell(const lam_token_bound *b, lam_receiver to);

/* Conventions of a token: formulas by which others tell the FLOPs of a forward or of a training step. */
LAM_API int32_t lam_n_token_conventions(void);
LAM_API const char *lam_token_convention(int32_t i); /* "titan"; NULL past the last one */
/* LAM_USAGE, with the names, if there is none of that name; LAM_OK for "all". */
LAM_API lam_status lam_token_convention_known(const char *name, lam_error *e);
typedef struct lam_token_compare {
    const char *const *conventions; /* n 0, or "all" among them: every one */
    int32_t n;
    bool training;     /* the forward and the backward pass of the run, and what is computed again */
    bool given_length; /* the user named the length of a sequence */
} lam_token_compare;
/* Compares the FLOPs of a run of a language model with what the conventions say by its configuration, which
 * is the fact `config` of its provenance: "hidden_size=64 layer_types=full_attention,sliding_attention". The
 * first row is the run's own count. The rows have FLOPs of all tokens. `c` must count operators. LAM_USAGE if
 * it is no language model, or there is no such convention. */
LAM_API lam_status lam_compare_tokens(lam_comparison **out, lam_costs *c, const lam_token_compare *o,
                                      lam_error *e);

/* One object, as lam_costs_tell. */
LAM_API void lam_tokens_tell(const lam_tokens *t, const lam_costs *c, lam_receiver to);
/* Writes it as "text" (format NULL) or "json". `memory`: bytes of a device, for which it is told what fits;
 * 0: none. `peak`: of a device, for which it writes bounds; NULL: none. `width`: columns of the page, 0: 100.
 */
LAM_API lam_status lam_tokens_write(const lam_tokens *t, const lam_costs *c, int64_t memory,
                                    const lam_named_peak *peak, const char *format, int32_t width, bool exact,
                                    lam_sink to, lam_error *e);

/* As lam_check_new, of a language model that generated: `c` are the costs that `t` was read from. */
LAM_API lam_status lam_check_tokens(lam_check **out, const char *name, const lam_tokens *t,
                                    const lam_costs *c, const lam_budget *b, lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
