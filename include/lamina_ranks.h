/* SPDX-License-Identifier: Apache-2.0
 *
 * Who slows a run of many processes, a part of lamina.h. A program fills a lam_ranks with two reductions of
 * the recorded steps, windows and meets, with the order of collectives in them, and with the facts of each
 * rank; the verdict names the ranks, the node or the links that slow all, says what it costs and since when,
 * or says why no rank is named.
 *
 * Times are in microseconds, moments in microseconds since 1970. Unknown is NaN, of whole numbers
 * LAM_NOT_KNOWN. The rule is of docs/scale.md: ranks are compared by their own work, which is a step without
 * its waiting for others and for a processor, never by their steps; and only what costs all of them something
 * is named. */
#ifndef LAMINA_RANKS_H
#define LAMINA_RANKS_H

#include "lamina_fields.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LAM_NOT_KNOWN INT64_MIN

/* Where the waiting of a rank for others is found in its steps. */
typedef enum lam_waits {
    LAM_WAITS_APART, /* measured as a phase of its own: own work is the step without it */
    LAM_WAITS_OTHER, /* in the rest of a step: own work is the step without that */
    LAM_WAITS_INSIDE /* in forward and backward: own work is input, copies to the device, and optimizer */
} lam_waits;

typedef struct lam_rank_fact { /* a rank in an attempt; one that is restarted has several */
    int64_t attempt, rank, world;
    int64_t tree;       /* a hash of its modules: ranks of one tree have the same layers */
    int64_t comm_group; /* the ranks that exchange data with it before all others do; LAM_NOT_KNOWN: none */
    int64_t seen_us;    /* when it was last alive */
    int64_t ended_us;   /* LAM_NOT_KNOWN: its file was never closed */
    double step_flops, hardware_flops; /* of a step, as in lam_step_work */
    double peak_flops;                 /* of its device, a second */
    int64_t flops_at_least; /* 1: those of a step are lower bounds */
    const char *why_mfu;    /* why they or the peak are unknown, or lower bounds; NULL: not told */
    const char *node;
    const char *ended_by; /* the exception or signal that ended it, its name first; NULL: none is known */
    const char *ran_last; /* such as "call 121 of Net"; NULL: unknown */
    lam_waits waits;
} lam_rank_fact;

typedef struct lam_rank_window { /* a rank in a window of recorded steps, which all ranks have in common */
    int64_t attempt, win, rank;
    int64_t first_step, started_us; /* of the window's first recorded step that this rank has */
    int64_t steps;                  /* recorded ones */
    double own_us;                  /* the median of its own work in a step */
    double step_us, input_us, h2d_us, forward_us, backward_us, optimizer_us, other_us, comm_us; /* means */
    double processor_us; /* the mean time without a free processor, inside the phases; not in own_us */
} lam_rank_window;

typedef struct lam_rank_meet { /* a recorded step of a node: who of its ranks ended its own work last */
    int64_t attempt, step, comm_group, ranks, last_rank, second_rank, started_us;
    int64_t represents;        /* how many steps it represents, in means and gains; below 1: one */
    double last_us, second_us; /* the own work of these two */
    double own_us;             /* the sum of all */
    double transfer_us, group_transfer_us; /* the least that a rank waited, for all and for its group */
    double step_us;                        /* the longest */
    const char *node;
} lam_rank_meet;

typedef struct lam_rank_order { /* ranks with the same layers that began the same collectives in a recorded
                                   step */
    int64_t attempt, step, tree;
    int64_t collectives, collectives_hash; /* how many; equal for equal ones in the same order */
    int64_t ranks, first_rank;             /* how many ranks, and the first of them */
} lam_rank_order;

typedef struct lam_rank_layer { /* a layer of a rank beside others like it */
    int64_t rank;
    double own_us, peer_us; /* forward and backward, medians over the hours asked for */
    const char *layer;
} lam_rank_layer;

typedef struct lam_ranks lam_ranks;
LAM_API lam_status lam_ranks_new(lam_ranks **out, lam_error *e);
LAM_API void lam_ranks_free(lam_ranks *r);
/* Each copies what it is given. LAM_SYNTAX: a number is negative or too large, as in a damaged file; texts
 * may not be NULL where nothing says so. */
LAM_API lam_status lam_ranks_add_fact(lam_ranks *r, const lam_rank_fact *f, lam_error *e);
LAM_API lam_status lam_ranks_add_window(lam_ranks *r, const lam_rank_window *w, lam_error *e);
LAM_API lam_status lam_ranks_add_meet(lam_ranks *r, const lam_rank_meet *m, lam_error *e);
LAM_API lam_status lam_ranks_add_order(lam_ranks *r, const lam_rank_order *o, lam_error *e);
LAM_API lam_status lam_ranks_add_layer(lam_ranks *r, const lam_rank_layer *l, lam_error *e);

/* Which layers are needed: of some ranks, and the medians of others like them, in a range of hours since
 * 1970. Without ranks: of each layer the rank that takes longest beyond the median of its peers. */
typedef struct lam_layers_wanted {
    const int32_t *ranks, *peers;
    int32_t n_ranks, n_peers;
    int64_t first_hour, last_hour;
} lam_layers_wanted;
/* Adds them by lam_ranks_add_layer; none if nothing is known of layers. */
typedef lam_status (*lam_give_layers)(void *self, const lam_layers_wanted *what, lam_ranks *to, lam_error *e);

/* Reaches the verdict, once all is added. `layers` may be NULL. LAM_USAGE: there are no facts, or it was
 * reached before. */
LAM_API lam_status lam_ranks_judge(lam_ranks *r, lam_give_layers layers, void *self, lam_error *e);

typedef enum lam_rank_kind {
    LAM_RANKS_NONE,      /* nothing stands out, or see `abstains` */
    LAM_RANKS_SLOW_RANK, /* `ranks` slow all */
    LAM_RANKS_SLOW_NODE, /* `nodes` do, with most of their ranks */
    LAM_RANKS_SLOW_LINK, /* the transfer inside a group of `nodes` is slow */
    LAM_RANKS_DIED,      /* `ranks` ended first, and the others because of that */
    LAM_RANKS_UNEVEN,    /* many ranks are slower than the others: two kinds of machine or of work */
    LAM_RANKS_PROCESSOR, /* ranks wait for a processor that other threads or programs use */
    LAM_RANKS_NETWORK,   /* the transfer of all takes long, or longer than before */
    LAM_RANKS_INPUT,     /* all wait for data */
    LAM_RANKS_SLOWER,    /* all became slower */
    LAM_RANKS_JITTER,    /* all wait for the last rank, another one each time */
    LAM_RANKS_STAGES,    /* one stage of a pipeline has more to do than the others */
    LAM_N_RANK_KINDS
} lam_rank_kind;
LAM_API const char *lam_rank_kind_name(lam_rank_kind k); /* "none", "slow_rank", ... */

typedef struct lam_rank_verdict {
    lam_rank_kind kind;
    const char *abstains; /* why no rank can be named; NULL: one could have been */
    int32_t n_ranks, n_nodes, n_notes, n_watch;
    const int32_t *ranks;     /* ascending */
    const char *const *nodes; /* by name */
    const char *phase;        /* "compute", "input", "h2d", "optimizer", "other"; NULL: none has most of it */
    const char *layer;        /* NULL: none has most of it, or nothing is known of layers */
    const char *ended_by, *ran_last; /* of the first of `ranks` that died; NULL: unknown, or none did */
    double gain;      /* the share of a step that would be gained, or that is lost to it; 0: none */
    double late;      /* how much more own work the named do than their peers, as a share of theirs; NaN */
    double excess_us; /* in that phase, of one of them in a step; NaN: unknown */
    double step_us, without_us; /* a step while it lasts, and what it would be without it; NaN */
    int64_t since_attempt, since_step, since_us; /* when it began; LAM_NOT_KNOWN: it is not of a moment */
    const char *const *notes;                    /* sentences */
    const int32_t *watch;                        /* ranks that are late again and again, named or not */
} lam_rank_verdict;
/* NULL before lam_ranks_judge. */
LAM_API const lam_rank_verdict *lam_ranks_verdict(const lam_ranks *r);
/* The verdict and what it is based on, as fields: those of the JSON. */
LAM_API void lam_ranks_tell(const lam_ranks *r, lam_receiver to);

/* One of a run, beside its peers: the ranks with the same layers, or all others if there are none. */
typedef struct lam_ranks_look {
    int64_t rank;     /* LAM_NOT_KNOWN: none */
    const char *node; /* NULL: none */
    bool layers;      /* neither: all layers, by how much longer the slowest rank of each takes */
} lam_ranks_look;
/* Reads one part of a run, once, after the verdict: phases, since when it is late, its layers, and when it
 * was last alive.
 * `layers` may be NULL. LAM_RANGE: there is no such rank or node; the sentence says which there are.
 * LAM_USAGE: it is not one of the three, or the verdict was not reached. */
LAM_API lam_status lam_ranks_look_at(lam_ranks *r, const lam_ranks_look *what, lam_give_layers layers,
                                     void *self, lam_error *e);

typedef struct lam_ranks_options {
    const char *format; /* "text" or "json"; NULL: text */
    int32_t width;      /* columns; 0: 100 */
    bool ascii, color;
    int32_t rows; /* the most rows of the tables over time and of layers; 0: 12 */
} lam_ranks_options;
/* The verdict and what it is based on, as an HTML file, which has no script and loads nothing. `name`: of the
 * run's folder. */
LAM_API lam_status lam_ranks_page(const lam_ranks *r, const char *name, lam_sink to, lam_error *e);
/* The verdict, or the part that lam_ranks_look_at read. */
LAM_API lam_status lam_ranks_write(const lam_ranks *r, const lam_ranks_options *o, lam_sink to, lam_error *e);

/* Holds the run against the limits of recordings: `straggler`, the gain of what the verdict names (0: none;
 * not complete if it abstains), and `input`, the share of a step of the median rank; others are not
 * compared. */
LAM_API lam_status lam_check_ranks(lam_check **out, const char *name, const lam_ranks *r, const lam_budget *b,
                                   lam_error *e);

#ifdef __cplusplus
}
#endif

#endif
