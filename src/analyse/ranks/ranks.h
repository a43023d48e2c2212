/* SPDX-License-Identifier: Apache-2.0
 * analyse/ranks: who slows a run of many ranks (lamina_ranks.h). tables.c: what is added. lay.c: the tables
 * as arrays by window, rank and step. late.c: who is late, and when. without.c: what all would gain without
 * them. cause.c: in which phase and layer. links.c: groups whose transfer is slow. ended.c: who died.
 * whole.c: verdicts without a name. shown.c: what is told beside a verdict. judge.c: the order of these.
 * look.c: a rank, a node or all layers beside their peers. one_run.c: whether the tables are of one run.
 * middle.c: medians of what is known. orders.c: whether all began the same collectives. */
#ifndef LMI_RANKS_H
#define LMI_RANKS_H

#include "base/base.h"

/* -- the rule: what its numbers are for; docs/scale.md says how they were found ---------------------- */

static const struct {
    double late;               /* own work above the peers' by which a rank is hot in a window */
    double apart;              /* and robust standard deviations */
    double few_late;           /* instead of both where there are fewer than 4 ranks, */
    double few_apart;          /* and standard errors of its mean over windows */
    double gain;               /* the least share of a step that is worth a name */
    double most_of;            /* of a gain: the fewest who have that much of it are named */
    double many;               /* of the ranks: more are a kind of machine */
    double cause;              /* of the excess: the phase, or the layer, that has it is the cause */
    double layer;              /* and the layer takes that much longer than its peers */
    double group, group_apart; /* a group's transfer above the others', and robust deviations */
    double processor;          /* of a step: waiting for a processor */
    double beside;             /* of that wait: less is what is left of it, as cold caches */
    double network, moved;     /* transfer of a step; its rise */
    double input, slower, jitter, stages;
    double few;       /* of the ranks: more than this share did not die first */
    double margin_us; /* of heartbeats: who was seen that much earlier died first */
} lmi_ranking = {0.03, 4.5,  0.08, 3, 0.025, 0.9, 0.25, 0.6,  0.25, 0.3, 6,
                 0.1,  0.25, 0.25, 0.3,   0.1, 0.05, 0.08, 0.03, 0.1, 5e6};
enum {
    LMI_HOT_WINDOWS = 2, /* so many hot windows make a candidate, with gaps of one */
    LMI_PEERS = 4,       /* fewer have no median that says something */
    LMI_FEW_WINDOWS = 4, /* of so few, one is hot in so many windows, or in half of them */
    LMI_FEW_RANKS = 8,   /* up to so many, those that are named are also last in most steps */
    LMI_LEAST_STEPS = 20,
    LMI_UNITS = 256 /* the most candidates whose absence is tried */
};

/* -- tables -------------------------------------------------------------------------------------------- */

typedef enum lmi_us {
    LMI_US_OWN,
    LMI_US_STEP,
    LMI_US_INPUT,
    LMI_US_H2D,
    LMI_US_FORWARD,
    LMI_US_BACKWARD,
    LMI_US_OPTIMIZER,
    LMI_US_OTHER,
    LMI_US_COMM,
    LMI_US_PROCESSOR,
    LMI_N_US
} lmi_us;
extern const char *const lmi_us_names[LMI_N_US]; /* "own_us", "step_us", ..., as a window has them */

typedef struct lmi_fact {
    int32_t attempt, rank, world, node;
    int64_t tree, group, seen, ended;
    double flops, hardware, peak;
    bool at_least; /* flops and hardware are lower bounds */
    const char *ended_by, *ran_last, *why_mfu;
    lam_waits waits;
} lmi_fact;

typedef struct lmi_window {
    int32_t attempt, rank, n;
    int32_t win, col; /* lay.c: of the window and the rank; -1: left out */
    int64_t window, first_step, started;
    float of[LMI_N_US];
} lmi_window;

typedef struct lmi_meet {
    int32_t step, node, group, ranks, last_rank, second_rank; /* group: of lam_ranks.groups; -1: none */
    int32_t weight;                                           /* the steps that it stands for */
    int64_t started;
    float last, second, own, transfer, group_transfer, whole;
} lmi_meet;

typedef struct lmi_layer {
    int32_t rank, name;
    float own, peer;
} lmi_layer;

typedef struct lmi_ranks_order { /* ranks that began the same collectives in a step */
    int32_t attempt, first_rank;
    int64_t step, tree, n, hash, ranks; /* n: collectives */
} lmi_ranks_order;

typedef struct lmi_key { /* a step, before they are sorted */
    int32_t attempt, to;
    int64_t step;
} lmi_key;

/* -- arrays -------------------------------------------------------------------------------------------- */

/* What is known of each rank, in their order. */
typedef struct lmi_ranked_rank {
    int32_t rank;
    const lmi_fact *fact; /* of its newest attempt; NULL: none */
    int64_t tree;
    int32_t node; /* -1 unknown */
} lmi_ranked_rank;

typedef struct lmi_win {
    int32_t attempt;
    int64_t window, first_step, started;
    double step, own, late, transfer; /* medians of its steps; late: of the last above the mean; NaN */
} lmi_win;

/* A recorded step of the run: who was last, and what is left when all are there. */
typedef struct lmi_step {
    int32_t attempt, win; /* win: -1 if no window has it */
    int64_t step, started;
    int64_t ranks;
    int32_t last_rank, weight;
    double last, second; /* own work of that rank, and of the last one of the others */
    double own, transfer, whole; /* own: the mean */
} lmi_step;

/* A stretch of windows; n: of them hot. */
typedef struct lmi_stretch {
    int32_t first, last, n;
} lmi_stretch;

/* A row of the table of phases: of a rank, of a node, or of all that are not named. */
typedef struct lmi_phases {
    int32_t rank, node; /* -1: none; neither: of the others, the median */
    double of[LMI_N_US];
} lmi_phases;

/* How often a rank was the last one. */
typedef struct lmi_last {
    int32_t rank;
    int64_t steps;
} lmi_last;
enum { LMI_PHASE_ROWS = 9, LMI_LASTS = 3 };

/* orders.c: steps of an attempt in which ranks with the same layers began other collectives. */
typedef struct lmi_unlike {
    int32_t attempt, n;        /* n: of `of`; 0: there is no such step */
    int64_t step;              /* the first one */
    int64_t n_steps, n_unlike; /* that were compared; 0: none could be */
    const lmi_ranks_order *of; /* of that step, the fewest ranks first */
} lmi_unlike;

/* look.c: one of the run beside its peers. */
typedef struct lmi_look_layer {
    const char *name;
    int32_t rank; /* of all layers the slowest one's; else -1 */
    double own, peer;
} lmi_look_layer;
typedef struct lmi_look_win {
    double own, peer, late, waits; /* medians of its ranks; late: as a share; NaN */
} lmi_look_win;
typedef struct lmi_look {
    bool there;
    int32_t rank, node; /* -1: none; neither: all layers */
    int32_t n_ranks, n_peers, n_late, n_rows, n_layers;
    bool alike;       /* the peers have the same layers */
    bool has_layers;  /* something is known of them */
    lmi_stretch when; /* in which its ranks are late; n 0: they are not */
    int64_t since_attempt, since_step, since_us;
    double late;            /* in that time, or in all */
    int64_t last_in;        /* steps in which one of its ranks was the last */
    bool apart;             /* its ranks were last alive at different times */
    const lmi_fact *fact;   /* of that which was silent first; NULL: none */
    int64_t seen;           /* when any rank of the run was last alive */
    lmi_phases *rows;       /* of the peers, of it, and of each rank of a node */
    lmi_look_win *wins;     /* of each window */
    lmi_look_layer *layers; /* the most time above the peers' first */
} lmi_look;

struct lam_ranks {
    lmi_arena arena;
    lmi_map node_of, layer_of, step_of, col_of, group_of;
    lmi_vec nodes, layers_named, groups;         /* const char *, const char *, int64_t */
    lmi_vec facts, windows, meets, layers, keys; /* lmi_fact, lmi_window, ... */
    lmi_vec orders;                              /* lmi_ranks_order */
    lmi_vec notes;                               /* const char * */
    bool judged;
    lam_rank_verdict verdict;
    int32_t n_ranks, n_wins, n_steps, world, attempts;
    lmi_ranked_rank *ranks;
    lmi_win *wins;
    lmi_step *steps;
    float *late;        /* of each window and rank: own work above that of the peers, as a share */
    lmi_stretch period; /* windows of the verdict; n 0: it is not of a moment */
    lam_waits waits;
    double *room; /* for medians: as many as there are ranks, windows or steps */
    size_t n_room;
    lmi_stretch *found; /* of each rank: when it was late; n 0: it is no candidate */
    bool *named;        /* of each rank */
    /* shown.c: what is shown beside the verdict */
    int32_t n_phases, n_lasts, n_others; /* others: further ranks that were the last at least once */
    lmi_phases phases[LMI_PHASE_ROWS];
    lmi_last lasts[LMI_LASTS]; /* most steps first */
    int64_t n_last_steps;      /* of which the last rank is known */
    double mfu, hfu;     /* floating-point operations over the peak of the devices; NaN: unknown */
    bool mfu_at_least;   /* they are lower bounds */
    const char *why_mfu; /* why they are unknown, or lower bounds; NULL: not told */
    double mean_step, mean_late, mean_transfer; /* microseconds over all steps; NaN */
    double starved; /* the share of a step that the rank waits for a processor that does so longest; NaN */
    int32_t starved_rank; /* which one; -1 */
    int32_t alone_rank;   /* of `jitter`: the rank that steps wait for most; -1 */
    int64_t alone_steps;  /* in how many steps it was late */
    int32_t n_nodes;      /* that have ranks */
    lmi_unlike unlike;
    lmi_look look;
};

static inline const char *lmi_ranks_node_name(const lam_ranks *r, int32_t node) {
    return ((const char *const *)r->nodes.data)[node];
}
/* The index of a rank, or -1. */
int32_t lmi_ranks_col(const lam_ranks *r, int32_t rank);
/* A sentence for the reader, once. */
lam_status lmi_ranks_note(lam_ranks *r, lam_error *e, const char *fmt, ...) LAM_PRINTF(3, 4);

/* lay.c: windows that are too thin are left out, steps that most ranks lack too. */
lam_status lmi_ranks_lay(lam_ranks *r, lam_error *e);
/* One number by window and rank, NaN where it is not known: [win * n_ranks + col]. */
void lmi_ranks_spread(const lam_ranks *r, lmi_us what, float *out);
/* The steps of a node, or of the links; in windows first..last. */
static inline bool lmi_in(const lmi_step *s, const lmi_stretch *p) {
    return s->win >= p->first && s->win <= p->last;
}

/* middle.c */
/* The median of what is not NaN, which this sorts in part; NaN if there is none. */
double lmi_middle(double *v, size_t n);
/* A robust standard deviation of numbers: `apart` has their distances from their middle. As lmi_middle. */
double lmi_spread(double *apart, size_t n);
int lmi_by_number(const void *a, const void *b); /* for qsort of doubles */
/* The longest stretch of hot windows, with gaps of one; of equal ones the first. */
lmi_stretch lmi_most_hot(const bool *hot, int32_t n);
/* Where the numbers rose, as far as that is far outside of what they vary by. */
typedef struct lmi_rise {
    int32_t at; /* -1: nowhere */
    double share, by;
} lmi_rise;
lam_status lmi_rise_of(const double *v, int32_t n, lmi_rise *out, lam_error *e);

lam_status lmi_ranks_late(lam_ranks *r, const float *own, lam_error *e); /* late.c: fills `late` */
/* The trees of all ranks, each once, in memory of malloc; NULL: memory ran out. */
int64_t *lmi_ranks_trees(const lam_ranks *r, int32_t *n);
/* How late a rank is in a stretch: the median of its windows. Uses `room`. */
double lmi_ranks_late_in(const lam_ranks *r, int32_t col, const lmi_stretch *in);
lam_status lmi_ranks_find(lam_ranks *r, const float *own, lam_error *e); /* fills `found` */
int32_t lmi_ranks_n_found(const lam_ranks *r);
int32_t lmi_ranks_size_of(const lam_ranks *r, int32_t node); /* ranks of a node */
/* without.c: sets `named`, the period, gain and steps of the verdict; *any: one is named. */
lam_status lmi_ranks_without(lam_ranks *r, bool *any, lam_error *e);
lam_status lmi_ranks_cause(lam_ranks *r, lam_error *e); /* cause.c: sets phase and excess */
lam_status lmi_ranks_layer(lam_ranks *r, lam_give_layers layers, void *self, lam_error *e);
lam_status lmi_ranks_links(lam_ranks *r, bool *any, lam_error *e); /* links.c */
lam_status lmi_ranks_ended(lam_ranks *r, bool *dead, bool *any, bool *sure,
                           lam_error *e); /* ended.c: dead: of each rank; sure: not by clocks alone */
lam_status lmi_ranks_whole(lam_ranks *r, lam_error *e);  /* whole.c */
lam_status lmi_ranks_orders(lam_ranks *r, lam_error *e); /* orders.c: fills `unlike`, and notes it */
/* shown.c: means of all steps, who was last, MFU; the table of phases, once the verdict is known */
lam_status lmi_ranks_means(lam_ranks *r, lam_error *e);
lam_status lmi_ranks_phases(lam_ranks *r, lam_error *e);
/* The share of its steps that each rank waits for its input; NaN: unknown. */
lam_status lmi_ranks_input(const lam_ranks *r, double *share, lam_error *e);
/* The mean of a rank's windows in a stretch; n 0: in all. `of`: as spread. */
double lmi_ranks_mean(const lam_ranks *r, const float *of, int32_t col, const lmi_stretch *in);
/* The first step of a window and those behind it; LAM_NOT_KNOWN where there is none. */
void lmi_ranks_since(const lam_ranks *r, int32_t win, int64_t *attempt, int64_t *step, int64_t *us);
/* cause.c: the hours of a stretch; n 0: of all. False: no moment is known. */
bool lmi_ranks_hours(const lam_ranks *r, const lmi_stretch *in, lam_layers_wanted *w);
/* one_run.c: once facts are sorted. Tables of another run are refused, attempts of other ranks left out. */
lam_status lmi_ranks_one_run(lam_ranks *r, lam_error *e);
/* Notes the clocks that are off, by node. */
lam_status lmi_ranks_clocks(lam_ranks *r, const double *skew, lam_error *e);
/* ranges.c: "3, 5, 24..31" of ascending numbers; of many ranges the first ones. */
void lmi_put_ranges(lmi_buf *b, const int32_t *v, int32_t n);

#endif
