/* SPDX-License-Identifier: Apache-2.0
 * costs: the numbers of one model under one convention, filled by the rooms of analyse. tree/: the order of
 * places and callers. flow/: the graph of the data, unused layers, traced graphs. field/: receptive fields.
 * run/: times, memory, health, devices. cost/: prices of calls, rows, sums, parameters, reasons, `why`,
 * `compare`. fit/: predicted memory. */
#ifndef LMI_ANALYSE_COSTS_H
#define LMI_ANALYSE_COSTS_H

#include "count/rules/rules.h"

/* The sentence for LMI_CAUSE_HIDDEN. */
#define LMI_HIDDEN_WORK "what its own forward computes outside its layers is not seen by calls"
/* Why a row's numbers are not exact, one sentence each (gaps.c). */
typedef enum lmi_cause {
    LMI_CAUSE_NONE,
    LMI_CAUSE_HIDDEN,      /* a container with a user-defined forward */
    LMI_CAUSE_OWN_FORWARD, /* a subclass whose forward may do more than the rule counts */
    LMI_CAUSE_FAILED,      /* it raised */
    LMI_CAUSE_FACT,        /* a fact that the formula needs is unknown, or the formula says `unknown` */
    LMI_CAUSE_OPAQUE,      /* scripted, traced or compiled */
    LMI_CAUSE_FUSED,       /* one kernel ran it; under the convention's tool its own layers would run */
    LMI_CAUSE_NO_RULE,
    LMI_CAUSE_UNUSED,           /* a container's own parameters, used by no layer */
    LMI_CAUSE_NEVER,            /* parameters of a module that was never called */
    LMI_CAUSE_CALLED_ELSEWHERE, /* a module that only other threads called */
    LMI_CAUSE_ELSEWHERE,        /* other threads called modules of the model during it */
    LMI_CAUSE_STRANGERS,        /* it called modules outside the model */
    LMI_CAUSE_LATER,  /* its forward is a generator or a coroutine: it runs after the call returned */
    LMI_CAUSE_KERNEL, /* scripted code in it ran kernels that are not operators */
    LMI_CAUSE_CUT,    /* later calls were not noted */
    LMI_CAUSE_OP,     /* an operator that ran in it has no rule or no number (opgaps.c) */
    LMI_N_CAUSES
} lmi_cause;

/* The cost of one call, whether or not it becomes a row. */
typedef struct lmi_call_cost {
    lam_count metric[LAM_N_METRICS];
    const lmi_rule *rule; /* NULL: none */
    uint8_t cause;        /* lmi_cause */
    int32_t places;       /* how often a tool of LMI_PLACES adds it; else 0 */
    /* the call does work itself; false for a container that only calls its children */
    bool counted;
    bool omit;   /* left out by the convention or by the custom function */
    bool custom; /* the custom function gave the numbers */
} lmi_call_cost;

/* How one operator is counted. */
typedef enum lmi_role {
    LMI_ROLE_THROUGH, /* it counts nothing: the operators inside it count, or it raised */
    LMI_ROLE_COUNTED, /* its rule counts it and everything inside it */
    LMI_ROLE_INSIDE,  /* an operator around it counts it */
    LMI_ROLE_NO_RULE  /* nothing ran inside it and it has no rule: unknown */
} lmi_role;

/* The costs of operators; all 0 under a convention that counts calls. */
typedef struct lmi_op_costs {
    uint8_t *role; /* lmi_role of each operator */
    /* work[start[i]] .. work[start[i + 1] - 1]: operators that cost something, of phase p of call k for
     * i = k * LAM_N_PHASES + p; k = n_events: outside every call */
    int32_t *start, *work;
    int32_t ran[LAM_N_PHASES]; /* operators that count */
    int32_t known;             /* of these, those with numbers */
    lam_count total[LAM_N_PHASES][LAM_N_METRICS];
    bool back; /* a backward pass ran, or may have; else the cost of one is unknown */
    int32_t n_unruled;
    const char **unruled;
    int32_t *unruled_runs;
} lmi_op_costs;

struct lmi_call_slots; /* times.h */
struct lmi_rf;         /* rfgraph.h */
typedef struct lmi_rf lmi_rf;

/* The metrics of rows without a call: where nothing ran, where it is not known what did, and of the operators
 * outside every call. */
enum { LMI_ROW_NOTHING, LMI_ROW_UNKNOWN, LMI_ROW_OUTSIDE, LMI_N_UNCALLED };

/* The counts that the caller's function gave for one operator. */
typedef struct lmi_answer {
    int32_t op;
    lam_count n[LAM_N_METRICS];
} lmi_answer;

/* What a mask leaves of the scores on which an operator of an attention works. */
typedef struct lmi_left {
    int64_t scores, open; /* scores 0: it is of none; open -1: not known */
    int64_t rows;         /* those with an open score, of a softmax */
} lmi_left;

struct lam_costs {
    lmi_arena arena;
    const lam_model *model;
    const lmi_convention *convention; /* a table's, or `with_own` */
    lmi_convention with_own;          /* the same with user-defined rules */
    lmi_own own;
    lmi_vec answers; /* lmi_answer, by operator */
    bool released;
    bool has[LAM_N_METRICS]; /* the convention counts the metric */
    bool rf_backwards;       /* the receptive fields are those of torchscan 0.1.1 */
    int32_t n_rows;
    lam_cost_row *rows;
    lmi_call_cost *prices; /* one an event */
    lam_count uncalled[LMI_N_UNCALLED][LAM_N_METRICS]; /* of rows without a call, which share them */
    lam_row_phases no_phases; /* all unknown, as the next: of rows until they are found */
    lam_row_below no_below;
    lam_count total[LAM_N_METRICS];
    lam_param_totals params;
    int32_t n_unruled;
    const char **unruled, **unruled_paths;
    int32_t *unruled_calls;
    int32_t n_gaps;
    const char **gaps;
    lmi_op_costs ops;
    lmi_left *left;               /* per operator, of attention that is written out; NULL: none has a mask */
    lam_times *times;             /* NULL: none were measured */
    lam_times *device_times;      /* NULL: no device's clock was read */
    struct lmi_call_slots *slots; /* of the calls here, if times are those of another capture; else NULL */
    lmi_rf *rf;                   /* receptive fields on the graph; NULL: none */
    bool rf_pending; /* receptive fields, also those of the rows, are not computed yet: lmi_rf_need */
    bool below_pending;           /* the same of what is below the rows: lmi_below_need */
    struct lmi_work *pending; /* the data that rows are made from; NULL: the rows exist */
    bool none_called;         /* no layer was called, so a sum of 0 is not the model's cost */
    bool unsettled;           /* the rows could not be made */
    int32_t n_growth;
    lam_growth *growth; /* with each open size of the model */
};

struct lmi_filling;
struct lmi_outline_options;
/* Results that came with a model, of a report that was saved: there is nothing to compute them from. What is
 * made of them, such as by lam_costs_new, refers to them, and the model frees them. */
typedef struct lmi_given {
    lmi_arena arena;
    const char *file;
    lam_costs costs;
    lam_peak roof;                      /* 0: it was not measured */
    lam_memory *memory, *device_memory; /* NULL: it was not measured, as the next */
    lam_health *health;
    int32_t n_unused, n_no_gradient;              /* what a graph found, where operators were traced */
    const char *(*unused)[2], *(*no_gradient)[2]; /* path, reason */
    /* For an outline (report/outline/work.h): the families of its places; and what no model has. */
    lam_status (*looks)(const struct lmi_given *g, struct lmi_filling *w);
    lam_status (*rest)(const struct lmi_given *g, struct lmi_filling *w,
                       const struct lmi_outline_options *options);
} lmi_given;
/* Fails: the model came from a file, and `what` needs a run ("the graph"). */
static inline lam_status lmi_needs_run(const lam_model *m, const char *what, lam_error *e) {
    return lmi_fail(e, LAM_USAGE, m->given->file,
                    "%s needs the run, and the file has its numbers alone; give the model itself", what);
}

/* True if the convention counts operators. */
static inline bool lmi_by_ops(const lam_costs *c) { return c->convention->op_rules != NULL; }

/* The row of the operators that ran outside every call. */
static inline bool lmi_is_outside(const lam_cost_row *row) { return row->event < 0 && row->counted; }

/* True for a container that does no work itself: Sequential and similar classes with torch's forward. */
static inline bool lmi_plain_holder(const lam_module *mod) {
    return lam_word_is_container(mod->word) && !(mod->flags & LAM_MODULE_OWN_FORWARD);
}

/* True for a call whose inside is not visible: of a scripted, traced or compiled module. */
static inline bool lmi_is_opaque_call(const lam_model *m, const lam_event *ev) {
    return (m->modules[ev->module].flags & LAM_MODULE_OPAQUE) && ev->n_children_called == 0;
}

/* True if only other threads called the module. */
static inline bool lmi_only_elsewhere(const lam_module *mod) {
    return mod->n_calls == 0 && (mod->flags & LAM_MODULE_ELSEWHERE);
}

/* True if the module may have run inside a scripted, traced or compiled one, which shows none of its calls
 * and has all of the work. */
static inline bool lmi_is_inside(const lam_module *mod) {
    return mod->n_calls == 0 && (mod->flags & LAM_MODULE_INSIDE);
}

/* A metric is unknown under a convention that does not count it, also if nothing ran. */
static inline void lmi_no_opinion(const lam_costs *c, lam_count n[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++)
        if (!c->has[i]) n[i] = lmi_unknown();
}

/* A sum with an unknown part is a lower bound if anything is known; a lower bound of 0 says nothing. */
static inline lam_count lmi_settled(lam_count sum) {
    if (sum.state != LAM_EXACT) sum.state = sum.n > 0 || sum.over > 0 ? LAM_AT_LEAST : LAM_UNKNOWN;
    return sum;
}

#endif
