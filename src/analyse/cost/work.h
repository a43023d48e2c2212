/* SPDX-License-Identifier: Apache-2.0
 * Shared data of the steps of lam_costs_new and lam_costs_settle. It lives in `scratch`, which is freed at
 * their end; results are in the arena of the costs. */
#ifndef LMI_ANALYSE_WORK_H
#define LMI_ANALYSE_WORK_H

#include "analyse/cost/numbers.h"
#include "analyse/field/field.h"
#include "analyse/run/times.h"
#include "analyse/tree/tree.h"
#include "count/count.h"

typedef struct lmi_group { /* one cause for one class */
    lmi_cause cause;
    int32_t module;   /* the first one */
    int32_t calls;    /* calls, or places for LMI_CAUSE_NEVER and LMI_CAUSE_CALLED_ELSEWHERE */
    int32_t place;    /* the first one */
    lam_count params; /* LMI_CAUSE_NEVER: their parameters */
    const char *reason;
} lmi_group;

/* Work lamina did not see but can infer from an operator it saw. */
typedef enum lmi_unseen {
    LMI_UNSEEN_NONE,
    LMI_UNSEEN_FUSED,   /* LAM_OP_HIDES: compiled code */
    LMI_UNSEEN_OUTSIDE, /* data was passed to numpy or similar, and this operator takes data from there */
    LMI_UNSEEN_VALUES,  /* LAM_OP_VALUES: values decide what runs, and there were none */
    LMI_UNSEEN_ORDER,   /* a quantile that a kernel selects, without an operator */
    LMI_UNSEEN_TANGENT, /* LAM_OP_DERIVED: a tangent was computed inside it */
    LMI_UNSEEN_CUT      /* the capture ended before the run */
} lmi_unseen;

/* One name of operators with unknown counts, for one cause. */
typedef struct lmi_op_group {
    const char *name;     /* as the model shares it */
    const lmi_rule *rule; /* NULL: there is none */
    lmi_unseen unseen;    /* it has unobserved work; no rule is missing */
    int32_t runs;
    lam_count most; /* the most MACs that its runs can have; 0: not known */
    const char *reason;
} lmi_op_group;

/* Operators whose order shows that data was passed to numpy or similar, or taken from there. */
typedef enum lmi_trip {
    LMI_TRIP_NEW, /* not determined yet */
    LMI_TRIP_NONE,
    LMI_TRIP_ITEM,
    LMI_TRIP_CONJ,
    LMI_TRIP_NEG,
    LMI_TRIP_TO,
    LMI_TRIP_EMPTY,
    LMI_TRIP_LIFT
} lmi_trip;

/* Operators that compute weights from an attention's scores. */
typedef enum lmi_weighs {
    LMI_WEIGHS_NEW, /* not determined yet */
    LMI_WEIGHS_NONE,
    LMI_WEIGHS_ANY,   /* a softmax */
    LMI_WEIGHS_SAFELY /* the one that only torch's attention as matrix products uses */
} lmi_weighs;

/* The counts of operators of one signature, if they do not depend on the layer. */
typedef struct lmi_sig_cost {
    enum lmi_sig_state { LMI_SIG_NEW, LMI_SIG_KNOWN, LMI_SIG_OF_LAYER } state;
    bool ruled, missed; /* ruled: `rule` was searched; missed: the tool overlooks it */
    const lmi_rule *rule;
    lam_count n[LAM_N_METRICS];
    /* Of an operator that only calls others: what its signature says about effective counts. */
    enum lmi_sig_attributes {
        LMI_ATTRIBUTES_NEW,
        LMI_ATTRIBUTES_NOTHING,
        LMI_ATTRIBUTES_WHOLE, /* all work is effective */
        LMI_ATTRIBUTES_SELF,
        LMI_ATTRIBUTES_OF_LAYER
    } attributes;
    const lam_count *effective; /* LMI_ATTRIBUTES_SELF: the numbers */
    lmi_trip trip;
    lmi_weighs weighs;
} lmi_sig_cost;

/* The sum of the operators of one call. */
typedef struct lmi_op_sum {
    lam_count n[LAM_N_PHASES][LAM_N_METRICS];
    bool any;       /* some operator counted */
    uint8_t masked; /* a bit a phase: the effective count is unknown because of a mask */
    int32_t unsure; /* 1 + the first unknown group (lmi_work.op_groups), 0 none */
} lmi_op_sum;

typedef struct lmi_work {
    lam_costs *c;
    const lam_model *m;
    const lmi_convention *cv;
    const lam_cost_options *o;
    lmi_arena scratch;
    lmi_tree tree;
    lmi_vec groups; /* lmi_group */
    lmi_map by_type[LMI_N_CAUSES];
    int32_t *claimed;     /* per tensor: 1 + the row that counted it, 0 none */
    lmi_op_sum *by_call;  /* one an event, and one for work outside every call */
    lmi_sig_cost *by_sig; /* one a signature */
    bool *untraced;       /* per operator: the tool's graph does not have it; NULL: it has all */
    int32_t *added;       /* per module: how often its calls are added up (LMI_PLACES); NULL: once */
    lmi_vec op_groups;    /* lmi_op_group */
    lmi_map op_by_name;
} lmi_work;

/* Finds which scores of written-out attention a mask leaves, in w->c->left (eager.c). */
lam_status lmi_find_left(lmi_work *w, lam_error *e);
/* Chooses the operators that count and sums them by call: fills c->ops and w->by_call. Does nothing if the
 * convention counts calls; LAM_USAGE if it counts operators and none were watched. */
lam_status lmi_ops_sum(lmi_work *w, lam_error *e);
/* Calls the caller's function for numbers that a user-defined rule leaves unknown, of operator `op`, or of
 * call `event` if `op` is -1; unknown if there is no such function or it does not know. */
void lmi_ask(const lmi_work *w, int32_t op, int32_t event, const lmi_rule *rule,
             lam_count out[LAM_N_METRICS]);
/* The user-defined rule for a call's layer; it replaces the operators that its forward runs. NULL: none. */
const lmi_rule *lmi_own_layer(const lmi_work *w, int32_t event);
/* The numbers of an event from its operators. */
void lmi_ops_price(lmi_work *w, int32_t event, lmi_call_cost *p);
/* Fill c->ops.total, and after the rows their backward and recomputed numbers; LAM_UNKNOWN if the convention
 * counts calls. */
void lmi_ops_totals(lmi_work *w);
lam_status lmi_ops_rows(lmi_work *w, lam_error *e);
void lmi_unknown_phases(lam_row_phases *row);
/* The group for a capture that ended before the run. */
lam_status lmi_cut_short(lmi_work *w, int32_t *group, lam_error *e);
/* Notes that the counts of operator `op` are unknown, with one reason for its name. `rule` NULL: it has none,
 * or work is hidden. */
lam_status lmi_op_unsure(lmi_work *w, int32_t op, const lmi_rule *rule, const lmi_facts *facts,
                         const lam_count n[LAM_N_METRICS], lmi_unseen unseen, int32_t *group, lam_error *e);
/* Fills c->ops.unruled, and the gaps from number `from` on. */
lam_status lmi_op_gaps(lmi_work *w, int32_t from, lam_error *e);
/* True if the formula (NULL: none) names the fact. */
bool lmi_names_fact(const char *formula, int32_t fact);
/* Writes "the formula of conv needs `x`, which this call does not tell", or another reason for no number. */
void lmi_put_missing(lmi_buf *b, const lmi_rule *rule, const lmi_facts *facts,
                     const lam_count n[LAM_N_METRICS], const char *teller);

/* Fills w->added if the convention needs it. */
lam_status lmi_added_places(lmi_work *w, lam_error *e);

/* Fills c->prices. */
lam_status lmi_price_events(lmi_work *w, lam_error *e);

/* Fills c->total: the sum of the calls, or of the rows that the convention's tool shows. */
void lmi_find_total(lmi_work *w);
/* Fills c->rows except parameters, receptive fields and reasons. */
lam_status lmi_rows(lmi_work *w, lam_error *e);

/* Packed weights are parameters that torch does not list, and so no other tool counts. */
static inline bool lmi_counts_packed(const lam_costs *c) { return !c->released; }
/* Fills the rows' parameter columns under the policy, and c->params. */
lam_status lmi_params(lmi_work *w, lam_error *e);

/* Fills c->growth, of a model whose source leaves sizes open. */
lam_status lmi_find_growth(lam_costs *c, const lam_cost_options *o, lam_error *e);

/* Fills the rows' reasons, c->gaps and c->unruled. */
lam_status lmi_gaps(lmi_work *w, lam_error *e);

/* A future row: a call at a place, or (event -1) a place alone or the work outside every call. */
typedef struct lmi_item {
    int32_t event, place, pre;
    bool outside; /* work outside every call, shown at the root */
} lmi_item;

/* The places that get a row without a call (places.c). */
typedef struct lmi_spare {
    bool *shown;     /* per place: never called, or a container that holds tensors */
    int32_t *unit;   /* per place: nearest place at or above it that was called, -1 none */
    int32_t *after;  /* per event: the first place to show after it, -1 none */
    int32_t *before; /* per event: the first place to show before it, -1 none */
    int32_t *next;   /* per place: the next one to show */
    int32_t n;       /* the number of these places */
} lmi_spare;
lam_status lmi_spare_find(lmi_work *w, lmi_spare *s, lam_error *e);

/* True for a place whose call counts by its own rule without calling its children: the count includes their
 * parameters, and they have no rows (the output projection of an attention layer). */
bool lmi_covers(const lmi_work *w, int32_t place);

#endif
