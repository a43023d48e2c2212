/* SPDX-License-Identifier: Apache-2.0
 * What the steps of lam_costs_new and lam_costs_settle share. Everything here lives in `scratch`, which is
 * freed when they are done; what the caller keeps is in the costs' own arena. */
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
    lam_count params; /* LMI_CAUSE_NEVER: what they hold */
    const char *reason;
} lmi_group;

/* Work that an operator shows to have run without being seen. */
typedef enum lmi_unseen {
    LMI_UNSEEN_NONE,
    LMI_UNSEEN_FUSED,   /* LAM_OP_HIDES: code that a compiler made */
    LMI_UNSEEN_OUTSIDE, /* data left for numpy or the like, and this brought data in from there */
    LMI_UNSEEN_VALUES,  /* LAM_OP_VALUES: values decide what runs, and there were none */
    LMI_UNSEEN_CUT      /* the capture ended before the run */
} lmi_unseen;

/* One operator's name that is not known, for one cause. */
typedef struct lmi_op_group {
    const char *name;     /* as the model shares it */
    const lmi_rule *rule; /* NULL: there is none */
    lmi_unseen unseen;    /* what it stands for ran unseen; no rule is missing */
    int32_t runs;
    const char *reason;
} lmi_op_group;

/* Operators that tell by their order that data left for numpy or the like, or came from there. */
typedef enum lmi_trip {
    LMI_TRIP_NEW, /* nobody has looked yet */
    LMI_TRIP_NONE,
    LMI_TRIP_ITEM,
    LMI_TRIP_CONJ,
    LMI_TRIP_NEG,
    LMI_TRIP_TO,
    LMI_TRIP_EMPTY,
    LMI_TRIP_LIFT
} lmi_trip;

/* Operators that make weights of an attention's scores. */
typedef enum lmi_weighs {
    LMI_WEIGHS_NEW, /* nobody has looked yet */
    LMI_WEIGHS_NONE,
    LMI_WEIGHS_ANY,   /* a softmax */
    LMI_WEIGHS_SAFELY /* the one that torch's attention by products has, and nobody else */
} lmi_weighs;

/* What operators of one signature cost, where that does not depend on the layer that runs them. */
typedef struct lmi_sig_cost {
    enum lmi_sig_state { LMI_SIG_NEW, LMI_SIG_KNOWN, LMI_SIG_OF_LAYER } state;
    bool ruled, missed; /* `rule` was looked up; the tool overlooks it */
    const lmi_rule *rule;
    lam_count n[LAM_N_METRICS];
    /* Of an operator that stands for what it calls: what it knows of the work that has an effect. */
    enum lmi_sig_tells {
        LMI_TELLS_NEW,
        LMI_TELLS_NOTHING,
        LMI_TELLS_WHOLE, /* all of it has */
        LMI_TELLS_SELF,
        LMI_TELLS_OF_LAYER
    } tells;
    const lam_count *told; /* LMI_TELLS_SELF: the numbers */
    lmi_trip trip;
    lmi_weighs weighs;
} lmi_sig_cost;

/* What the operators of one call cost together. */
typedef struct lmi_op_sum {
    lam_count n[LAM_N_PHASES][LAM_N_METRICS];
    bool any;       /* some operator counted */
    uint8_t masked; /* a bit a phase: what a mask leaves of it is not known */
    int32_t unsure; /* 1 + the first group (lmi_work.op_groups) that is not known, 0 none */
} lmi_op_sum;

/* The formulas of a rule that serves layers, parsed once a call of lam_costs_new. */
typedef struct lmi_kind_code {
    const lmi_formula *rule[LAM_N_METRICS], *released[LAM_N_METRICS];
} lmi_kind_code;

typedef struct lmi_work {
    lam_costs *c;
    const lam_model *m;
    const lmi_convention *cv;
    const lam_cost_options *o;
    lmi_arena scratch;
    lmi_tree tree;
    lmi_kind_code *code[LMI_N_KINDS]; /* NULL: no layer of the kind was met */
    lmi_vec groups;                   /* lmi_group */
    lmi_map by_type[LMI_N_CAUSES];
    int32_t *claimed;     /* per tensor: 1 + the row that counted it, 0 none */
    lmi_op_sum *by_call;  /* one an event, and one for what ran outside every call */
    bool back;            /* it holds something of another phase than the forward */
    lmi_sig_cost *by_sig; /* one a signature */
    bool *untraced;       /* per operator: the tool's graph does not have it; NULL: it has all */
    int32_t *added;       /* per module: how often its calls are added up (LMI_PLACES); NULL: once */
    lmi_vec own_code;     /* lmi_rule_code *: of rules of the caller's own, */
    lmi_map own_by_rule;  /* by the rule's address */
    lmi_vec op_groups;    /* lmi_op_group */
    lmi_map op_by_name;
} lmi_work;

/* Chooses the operators that count, and sums them a call: fills c->ops and w->by_call. Does nothing where
 * the convention counts calls; LAM_USAGE where it counts operators and none were watched. */
lam_status lmi_ops_sum(lmi_work *w, lam_error *e);
/* Asks the caller's function for what a rule of its own leaves open, of operator `op` or (op -1) of call
 * `event`; unknown where there is no such function or it does not know. */
void lmi_ask(const lmi_work *w, int32_t op, int32_t event, const lmi_rule *rule,
             lam_count out[LAM_N_METRICS]);
/* The rule of the caller's own that says what a call's layer does itself, in the place of the operators that
 * its forward runs; NULL: none. */
const lmi_rule *lmi_own_layer(const lmi_work *w, int32_t event);
/* The numbers of an event from its operators. */
void lmi_ops_price(lmi_work *w, int32_t event, lmi_price *p);
/* c->ops.total, and after the rows their backward and recomputed numbers; LAM_UNKNOWN where the convention
 * counts calls. */
void lmi_ops_totals(lmi_work *w);
lam_status lmi_ops_rows(lmi_work *w, lam_error *e);
/* The capture ended before the run: the group that says so. */
lam_status lmi_cut_short(lmi_work *w, int32_t *group, lam_error *e);
/* Notes that operator `op` is not known, and says why once for its name. `rule` NULL: it has none, or work
 * is hidden. */
lam_status lmi_op_unsure(lmi_work *w, int32_t op, const lmi_rule *rule, const lmi_facts *facts,
                         const lam_count n[LAM_N_METRICS], lmi_unseen unseen, int32_t *group, lam_error *e);
/* Fills c->ops.unruled, and the gaps from number `from` on. */
lam_status lmi_op_gaps(lmi_work *w, int32_t from, lam_error *e);
/* True where the fact is a word of the formula (NULL: none). */
bool lmi_names_fact(const char *formula, int32_t fact);
/* "the formula of conv needs `x`, which this call does not tell" or why else there is no number. */
void lmi_put_missing(lmi_buf *b, const lmi_rule *rule, const lmi_facts *facts,
                     const lam_count n[LAM_N_METRICS], const char *teller);

/* True for every place that is not the first of its module under its parent: one module under two names of
 * one parent was registered once. */
lam_status lmi_repeated_siblings(lmi_work *w, bool **out, lam_error *e);
/* Fills w->added where the convention asks for it. */
lam_status lmi_added_places(lmi_work *w, lam_error *e);

/* Fills c->prices. */
lam_status lmi_price_events(lmi_work *w, lam_error *e);

/* Fills c->total: what the calls cost together, or the rows that the tool of the convention's name chose. */
void lmi_find_total(lmi_work *w);
/* Fills c->rows but for their parameters, receptive fields and reasons. */
lam_status lmi_rows(lmi_work *w, lam_error *e);

/* Fills the rows' parameter columns under the policy, their total_params, and c->params. */
lam_status lmi_params(lmi_work *w, lam_error *e);

/* Fills the rows' reasons, c->gaps and c->unruled. */
lam_status lmi_gaps(lmi_work *w, lam_error *e);

/* A row to be: a call at a place, or (event -1) a place alone or the work outside every call. */
typedef struct lmi_item {
    int32_t event, place, pre;
    bool outside; /* what ran outside every call, shown at the root */
} lmi_item;

/* The places that get a row although no call was made there (places.c). */
typedef struct lmi_spare {
    bool *shown;     /* per place: never called, or a container that holds tensors */
    int32_t *unit;   /* per place: nearest place at or above it that was called, -1 none */
    int32_t *after;  /* per event: the first place to show after it, -1 none; */
    int32_t *before; /* per event: the first place to show before it, */
    int32_t *next;   /* per place: the one to show next */
    int32_t n;       /* how many there are */
} lmi_spare;
lam_status lmi_spare_find(lmi_work *w, lmi_spare *s, lam_error *e);

/* True for a place whose call counts by its own rule without calling its children: what its children hold
 * is part of that count, and they have no row of their own (the output projection of an attention layer). */
bool lmi_covers(const lmi_work *w, int32_t place);

#endif
