/* SPDX-License-Identifier: Apache-2.0
 * rules: facts are exact integers of one event or operator; a rule is a line of text over facts; a convention
 * is a table of rules plus policies. No code tests a convention's name. */
#ifndef LMI_COUNT_RULES_H
#define LMI_COUNT_RULES_H

#include "model/model.h"

#include <stdatomic.h>

typedef enum lmi_fact_id {
#define FACT(id, doc) LMI_FACT_##id,
#include "count/rules/facts.def"
#undef FACT
    LMI_N_FACTS
} lmi_fact_id;

typedef struct lmi_facts {
    int64_t v[LMI_N_FACTS];
    bool known[LMI_N_FACTS];
} lmi_facts;

/* The fact whose name is these `n` bytes; -1: there is none. */
int32_t lmi_fact_find(const char *name, size_t n);
/* -- formulas -------------------------------------------------------------------------------------------- */

/* A formula parsed once. Small, fixed size, needs no freeing. */
#define LMI_FORMULA_MAX 256
typedef struct lmi_formula {
    int32_t n;
    struct { uint8_t op; int32_t fact; int64_t number; } code[LMI_FORMULA_MAX]; /* n of them are set */
} lmi_formula;
lam_status lmi_formula_parse(lmi_formula *out, const char *text, lam_error *e);
/* Every step is checked; an unknown fact, a number that a lam_count can't hold or a division by 0 gives
 * LAM_UNKNOWN. Facts in a branch of ?: that is not taken don't matter. */
lam_count lmi_formula_run(const lmi_formula *f, const lmi_facts *facts);
/* The formula with its values, "1,605,632 x 576": every fact by its value ("?" when unknown), without the
 * parts that do not change the result. `used` (or NULL): the facts in it are set, the others unchanged. */
void lmi_formula_show(const char *text, const lmi_facts *facts, lmi_buf *out, bool used[LMI_N_FACTS]);

/* -- conventions ----------------------------------------------------------------------------------------- */

typedef struct lmi_rule {
    lmi_kind kind;
    /* of an operator. whole: the operators that it calls do not count; open: only these count */
    bool whole, open;
    bool asks; /* the caller's function computes the metrics that have no formula */
    const char *formula[LAM_N_METRICS];
    const char *released[LAM_N_METRICS]; /* NULL: the same as formula */
    const char *note;
    /* the spellings of the kind that the tool knows ("ZeroPad2d"), separated by spaces; NULL: all */
    const char *only;
    const char *name; /* of the operator or layer of a user-defined rule; NULL in a table */
} lmi_rule;

/* A rule's parsed formulas. Metrics may share one. */
typedef struct lmi_rule_code {
    const lmi_formula *formula[LAM_N_METRICS], *released[LAM_N_METRICS]; /* NULL: the rule has none */
} lmi_rule_code;
typedef _Atomic(lmi_rule_code *) lmi_rule_slot;

typedef struct lmi_rule_table {
    const lmi_rule *rows;
    const uint8_t *places; /* by kind: the position of its row + 1; 0: it has no rule */
    lmi_rule_slot *codes;  /* by row, each NULL until its first use */
    int32_t n;
} lmi_rule_table;
/* NULL: there is no table, or no rule of the kind in it. */
const lmi_rule *lmi_rule_at(const lmi_rule_table *t, lmi_kind k);

/* User-defined rules (user_rules.c). They take precedence over the convention's. */
typedef struct lmi_own {
    const lmi_rule *rules;
    lmi_rule_slot *codes; /* by rule */
    int32_t n;
    lmi_map by_name;
} lmi_own;

typedef struct lmi_convention {
    const char *name, *source;
    const char *unit; /* the relation of FLOPs to MACs in the table's foot; NULL: not fixed */
    enum lmi_which { LMI_LEAF, LMI_CHILDLESS, LMI_RULED, LMI_OWN, LMI_OPS, LMI_HOOKS } which;
    enum lmi_sees { LMI_SEES_RULES, LMI_SEES_DISPATCHED, LMI_SEES_CALLED, LMI_SEES_TRACED } sees;
    enum lmi_repeated { LMI_EACH, LMI_KTH_PLACE, LMI_LAST, LMI_PLACES } repeated;
    enum lmi_match { LMI_SUBCLASS, LMI_CLASS } match;
    enum lmi_no_rule { LMI_NR_UNKNOWN, LMI_NR_OMIT, LMI_NR_NOTHING } no_rule;
    enum lmi_params { LMI_FIRST_SEEN, LMI_OF_MODULE, LMI_DISTINCT, LMI_TRAINABLE, LMI_KEPT } params;
    enum lmi_order { LMI_ORDER_CALLS, LMI_ORDER_TREE } order;
    enum lmi_rf_policy { LMI_RF_FORWARD, LMI_RF_CHAIN, LMI_RF_GRAPH } rf;
    enum lmi_hidden { LMI_TRUST, LMI_HIDDEN_AT_LEAST } hidden;
    const lmi_rule_table *rules;
    const lmi_rule_table *op_rules; /* the same for operators; NULL: layers are counted alone */
    const lmi_own *own; /* NULL: none; a table never has any */
} lmi_convention;

/* A case in which a tool gives another number than its table, with the reason. */
typedef struct lmi_limit {
    int32_t convention;
    enum lmi_when {
        LMI_WHEN_CALLED, LMI_WHEN_SIZED, LMI_WHEN_STRETCHED, LMI_WHEN_MAPPED, LMI_WHEN_TRAINING,
        LMI_WHEN_TIED, LMI_WHEN_PRUNED, LMI_WHEN_UNBATCHED, LMI_WHEN_UNEVEN
    } when;
    unsigned metrics; /* a bit a metric */
    const char *operators; /* separated by spaces; NULL: the line has none */
    const char *text;
} lmi_limit;
const lmi_limit *lmi_limit_at(int32_t i); /* NULL past the last one */

const lmi_convention *lmi_convention_at(int32_t i); /* NULL out of range */
/* NULL: there is none of that name; LAM_USAGE lists them. */
const lmi_convention *lmi_convention_named(const char *name, lam_error *e);
/* False: the model is an ONNX file's, and the tool takes what it does not know, which is all of it, as 0. */
bool lmi_convention_counts(const lmi_convention *c, const lam_model *m);
/* The same for a model, which it has to count; NULL name: the one of lam_convention_of. */
const lmi_convention *lmi_convention_for(const lam_model *m, const char *name, lam_error *e);
/* See lam_convention_unfused. */
bool lmi_unfused(const lmi_convention *c);
/* Parses a rule's formulas. The caller frees the result. */
lam_status lmi_rule_code_new(lmi_rule_code **out, const lmi_rule *r, lam_error *e);
void lmi_rule_code_free(lmi_rule_code *code);
/* The formulas of one of the convention's rules, parsed at the first call. Those of a table live until the
 * process ends, those of a user-defined rule as long as its costs. Any thread may call this. */
lam_status lmi_rule_code_of(const lmi_convention *c, const lmi_rule *r, const lmi_rule_code **out,
                            lam_error *e);
/* Sets each metric that the rule has a formula for; with `released` by the released one, if that gives a
 * number. */
void lmi_rule_run(const lmi_rule_code *code, bool released, const lmi_facts *facts,
                  lam_count n[LAM_N_METRICS]);

static inline void lmi_set_unknown(lam_count n[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++) n[i] = lmi_unknown();
}
/* An operator is known even if its effective counts are not. */
static inline bool lmi_is_effective(int metric) { return metric >= LAM_EFFECTIVE_MACS; }
/* Copies the caller's rules, in part into an arena. Free it also on failure. */
lam_status lmi_own_copy(const lam_rules *from, lmi_arena *arena, lmi_own *out, lam_error *e);
void lmi_own_free(lmi_own *own);
/* The user-defined rule for a layer, by the full name of its class or the last part, or for an operator.
 * NULL: none, or the convention counts the other of the two. */
const lmi_rule *lmi_own_of_module(const lmi_convention *c, const lam_module *mod);
const lmi_rule *lmi_own_of_op(const lmi_convention *c, const char *name);
/* Without effective counts, all of the work is effective. */
static inline void lmi_own_effective(lam_count n[LAM_N_METRICS]) {
    for (int i = LAM_EFFECTIVE_MACS; i < LAM_N_METRICS; i++)
        if (n[i].state == LAM_UNKNOWN) n[i] = n[i - LAM_EFFECTIVE_MACS];
}
/* The displayed name of a rule: its kind, or the name in a user-defined rule. */
static inline const char *lmi_rule_name(const lmi_rule *r) {
    return r->name ? r->name : lmi_kind_name(r->kind);
}
/* The kind of a layer with this rule. A user-defined rule does not change it. */
static inline lmi_kind lmi_rule_kind(const lmi_rule *r, const lam_module *mod) {
    return r->name ? lmi_word_kind(mod->word) : r->kind;
}

/* True if operators of this kind do dense work, by the table of `exact`. */
bool lmi_kind_multiplies(lmi_kind k);
/* True if a rule of the convention has a formula for this metric. */
bool lmi_convention_tells(const lmi_convention *c, lam_metric metric);
#endif
