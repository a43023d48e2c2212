/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting a model, a part of lamina.h.
 * Conventions and their rules, the costs of a model under one, and several side by side. */
#ifndef LAMINA_COUNT_H
#define LAMINA_COUNT_H

#include "lamina_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == Conventions and rules =============================================================================
 * A convention is a table of rules (one formula for each metric and kind, over named facts) and policies, all
 * data: src/count/rules/conventions.def and one .def file for each table. A rule may have a second,
 * *released* form: the formula of the tool's published version, if its result is not the one that the author
 * intended. Only the drop-in functions use released forms. */

typedef enum lam_metric {
    LAM_MACS,
    LAM_FLOPS,
    LAM_DMAS,          /* elements read and written */
    LAM_BYTES_READ,    /* the same elements in bytes, as each tensor stores them */
    LAM_BYTES_WRITTEN,
    /* without work that an attention mask excludes or that needs elements a sparse factor does not store;
     * otherwise equal to the dense count */
    LAM_EFFECTIVE_MACS,
    LAM_EFFECTIVE_FLOPS,
    LAM_N_METRICS
} lam_metric;

typedef enum lam_state { LAM_EXACT = 0, LAM_AT_LEAST = 1, LAM_UNKNOWN = 2 } lam_state;
/* A number and its state. The value is over * 2^63 + n. For LAM_UNKNOWN it is the known part (0 if nothing is
 * known) and must not be shown as a number. */
typedef struct lam_count { int64_t n; uint32_t over; lam_state state; } lam_count;

LAM_API const char *lam_state_name(lam_state s);   /* "exact", "at least", "unknown" */
LAM_API const char *lam_metric_name(lam_metric m); /* "macs", "flops", "dmas", "bytes_read", ... */
/* The sum, checked over 128 bits, with the worse state of the two. */
LAM_API lam_count lam_count_add(lam_count a, lam_count b);
/* Bytes read and written together. */
LAM_API lam_count lam_metric_bytes(const lam_count metric[LAM_N_METRICS]);
/* Arithmetic intensity, FLOPs a byte read or written; negative unless both are exact and some byte moves. */
LAM_API double lam_metric_intensity(const lam_count metric[LAM_N_METRICS]);

LAM_API int32_t lam_n_conventions(void);
LAM_API const char *lam_convention_name(int32_t i);   /* NULL out of range */
/* The tool or definition that the table reproduces, with its version, as one line. */
LAM_API const char *lam_convention_source(int32_t i);
/* The convention for `m` when none is named: the default one, which counts operators, or, if the operators of
 * `m` were not watched, the first that counts layers. NULL `m`: the default one. */
LAM_API const char *lam_convention_of(const lam_model *m);
LAM_API int32_t lam_convention_find(const char *name); /* the index; -1: there is none */
/* True if the convention counts operators, which a model has only if they were watched. */
LAM_API bool lam_convention_counts_ops(int32_t i);
/* True if the tool that it reproduces makes every layer run its own forward. torch runs an attention layer in
 * eval mode as one kernel, unless the layer has hooks or gradients are enabled. */
LAM_API bool lam_convention_unfused(int32_t i);
/* True if a rule of the convention has a formula for the metric; else that metric is always LAM_UNKNOWN. */
LAM_API bool lam_convention_counts(int32_t i, lam_metric metric);

typedef struct lam_rule {
    const char *kind;                     /* "conv" */
    /* "out*red"; NULL: the convention has no formula, the count is unknown */
    const char *formula[LAM_N_METRICS];
    const char *released[LAM_N_METRICS];  /* the released form if it differs, else NULL */
    const char *note;                     /* why, or the source of the formula; NULL */
    const char *only;                     /* the spellings it applies to, separated by spaces; NULL: all */
    bool of_op;                           /* it applies to operators, not layers */
} lam_rule;
/* Reads the i-th rule of a convention; LAM_RANGE past the last one. */
LAM_API lam_status lam_convention_rule(int32_t convention, int32_t i, lam_rule *out, lam_error *e);
/* The i-th fact that a formula may name, and its meaning; NULL past the last one. */
LAM_API const char *lam_fact_name(int32_t i);
LAM_API const char *lam_fact_meaning(int32_t i);

/* Evaluates a formula. `names[i]` has value `values[i]`. Grammar: integers, names, + - * / (floor), unary -,
 * ( ), comparisons < <= > >= == != (1 or 0), c ? a : b, min(a,b), max(a,b), and the word `unknown`.
 * LAM_SYNTAX with the offset of a mistake. The state is LAM_UNKNOWN for a result of 2^95 or more or below
 * -2^63, a division by 0, or an unknown name. */
LAM_API lam_status lam_formula_eval(const char *formula, const char *const *names, const int64_t *values,
                                    int32_t n, lam_count *out, lam_error *e);

/* User-defined rules for operators ("mylib::op") and classes of layers ("MyLayer"), which override the
 * convention's. lam_rules_read reads text with one rule a line,
 * `mylib::op  macs = out*x_last  flops = 2*macs`, described in docs/your-own-rules.md. LAM_SYNTAX with
 * "from:line:column" in `where`. */
typedef struct lam_rules lam_rules;
LAM_API lam_status lam_rules_new(lam_rules **out, lam_error *e);
LAM_API void lam_rules_free(lam_rules *r); /* NULL is allowed */
LAM_API lam_status lam_rules_read(lam_rules *r, const char *text, const char *from, lam_error *e);
/* Adds one rule and replaces an older one of that name. A formula may be NULL. `ask`: lam_cost_options.ask is
 * called for the metrics that the formulas do not give. */
LAM_API lam_status lam_rules_add(lam_rules *r, const char *name, const char *const formula[LAM_N_METRICS],
                                 bool ask, lam_error *e);
/* Reads the i-th rule, its name as `kind`; false past the last one. */
LAM_API bool lam_rules_at(const lam_rules *r, int32_t i, lam_rule *out);

/* == Costs =============================================================================================
 * The rows of a model and their costs under one convention. */

typedef struct lam_cost_options {
    const char *convention; /* NULL: the default */
    bool released;          /* true: the rows of the released tool (k-th call under the k-th place, last call
                               only, ...) and released formulas. false: a row for every call, and the rules'
                               first forms. */
    /* A custom count of a call (custom_ops): fills out[LAM_N_METRICS] and returns true to override the rule,
     * returns false to keep it, sets `omit` to true to leave the layer out. NULL: none. */
    bool (*custom)(void *self, const lam_model *m, int32_t event, lam_count out[LAM_N_METRICS], bool *omit);
    void *custom_self;
    /* User-defined rules, copied; ignored if `released`. A layer's rule counts its work outside the layers
     * that it calls; an operator's rule counts everything that runs inside it. NULL: none. */
    const lam_rules *own;
    /* Called for operator `op`, or (op -1) call `event`, if rule `name` of `own` leaves a number unknown:
     * fills out[] and returns true, or returns false if the number is not known. NULL: none. */
    bool (*ask)(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                lam_count out[LAM_N_METRICS]);
    void *ask_self;
    bool totals_only; /* computes totals alone; lam_costs_settle adds rows, parameters and sentences */
} lam_cost_options;

/* What a row costs beside the forward. Rows of a model without a known backward share one. */
typedef struct lam_row_phases {
    lam_count backward[LAM_N_METRICS], recompute[LAM_N_METRICS]; /* of the row alone */
    lam_count total_backward[LAM_N_METRICS], total_recompute[LAM_N_METRICS]; /* with every row below it */
} lam_row_phases;

/* A row and every row below it (calls made inside this call), and the distinct parameters of its place and
 * everything under it. */
typedef struct lam_row_below {
    lam_count total[LAM_N_METRICS];
    lam_count params, param_bytes, logical_bytes, local_bytes; /* of the bytes as in lam_cost_row */
} lam_row_below;

typedef struct lam_cost_row {
    /* -1: a place that was never called, a container's own parameters, or (counted, at the root) the
     * operators that ran outside every call */
    int32_t event;
    int32_t place, module, depth;
    const lam_count *metric; /* LAM_N_METRICS of them; never NULL */
    /* as the convention's column of parameters shows them; bytes: of the memory in which they are stored */
    lam_count params, grad_params, nograd_params, param_bytes, buffers, buffer_bytes;
    lam_count logical_bytes;          /* what params take by their shapes and types */
    lam_count packed, packed_bytes;   /* the part of them that quantised layers keep packed */
    const lam_row_below *below;       /* with what is below it; never NULL */
    const lam_row_phases *phases;     /* metric[] and total[] of the other phases; never NULL */
    lam_count local_params, local_bytes; /* the part of params and param_bytes that this process holds */
    lam_count running_stats; /* elements of running_mean and running_var among the buffers of this row */
    bool shared;     /* an earlier row counted one of its parameters or buffers */
    bool leaf;       /* no registered children */
    bool never_called;
    /* false: the row only shows the structure; its metrics are 0 and belong to its children */
    bool counted;
    double rf, rf_stride, rf_padding; /* as the convention cumulates them; see lam_rf_of */
    lam_state rf_state;
    /* On the data-flow graph. at_most: the field may be smaller, since an operator mixes positions that can't
     * be separated. whole: every element depends on the whole axis. */
    bool rf_at_most, rf_whole;
    const char *rule_kind; /* NULL: no rule, or operators are counted */
    const char *reason;    /* why a number is not exact; NULL: all are */
} lam_cost_row;

typedef struct lam_costs lam_costs;
/* Computes the costs of model `m`, which must outlive the result. `o` NULL: the defaults. LAM_USAGE if there
 * is no such convention, or it counts operators and none were watched. */
LAM_API lam_status lam_costs_new(lam_costs **out, const lam_model *m, const lam_cost_options *o,
                                 lam_error *e);
/* Computes the parts that `totals_only` left out: rows, parameters, gaps and names without a rule. Does
 * nothing if they exist. LAM_NOMEM: they stay empty. */
LAM_API lam_status lam_costs_settle(lam_costs *c, lam_error *e);
LAM_API void lam_costs_free(lam_costs *c);
LAM_API const lam_model *lam_costs_model(const lam_costs *c);
LAM_API int32_t lam_costs_convention(const lam_costs *c);
LAM_API int32_t lam_costs_n_rows(const lam_costs *c);
LAM_API const lam_cost_row *lam_costs_row(const lam_costs *c, int32_t i);
LAM_API lam_count lam_costs_total(const lam_costs *c, lam_metric metric);
/* The total of one phase; that of LAM_FORWARD equals lam_costs_total. Exactly 0 if operators were watched and
 * none ran in that phase; LAM_UNKNOWN for the other phases under a convention that counts calls. */
LAM_API lam_count lam_costs_phase_total(const lam_costs *c, lam_phase phase, lam_metric metric);
/* The MACs that the step needs of the model: of the forward and the backward, effective where that is known,
 * with work that the backward repeats if `repeated`. What an optimizer and other code outside the calls run
 * without gradients is left out. LAM_UNKNOWN under a convention that counts calls. */
LAM_API lam_count lam_costs_model_macs(const lam_costs *c, bool repeated);
/* The type of the numbers that most of the MACs of its operators multiply, as in lam_tensor; -1: unknown, or
 * there are none. */
LAM_API int32_t lam_costs_macs_dtype(const lam_costs *c);
/* Reads the counts of operator `op` alone; LAM_RANGE if out of range. `counted` is false if a counted
 * operator around it, or the operators inside it, count its work. */
LAM_API lam_status lam_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS], bool *counted,
                                lam_error *e);
/* The i-th name of operators without a rule, and how many ran; NULL past the last one. */
LAM_API const char *lam_costs_unruled_op(const lam_costs *c, int32_t i, int32_t *n);

/* Parameters of the whole model, each distinct tensor once (elements, bytes); as in lam_cost_row. */
typedef struct lam_param_totals {
    lam_count params, grad_params, nograd_params, param_bytes, buffers, buffer_bytes;
    lam_count logical_bytes;
    lam_count packed, packed_bytes;
    lam_count in_rows; /* the sum of the rows' params column: the convention's own total */
    lam_count local_params, local_bytes; /* the part of params and param_bytes that this process holds */
} lam_param_totals;
LAM_API lam_param_totals lam_costs_params(const lam_costs *c);

/* How a total of the forward grows with a size that the model's file leaves open, all other sizes as they
 * are: `fixed` + `each` x size. It is linear if the counts at three values of the size lie on one line. */
typedef enum lam_grows { LAM_GROWS_UNKNOWN, LAM_GROWS_LINEAR, LAM_GROWS_OTHERWISE } lam_grows;
typedef struct lam_growth {
    const char *size; /* its name, for lam_read_options.sizes */
    int64_t value;    /* the one that the model was counted at; -1: none is given */
    struct { lam_grows how; int64_t each, fixed; } metric[LAM_N_METRICS]; /* 0 unless it is linear */
} lam_growth;
LAM_API const char *lam_grows_name(lam_grows how); /* "unknown", "linear", "otherwise" */
/* For the i-th such size; NULL past the last one, of a model that no file has, and unless the option `growth`
 * of lam_read was set. Unknown: a total is not exact at one of the three values, or the options of the costs
 * have a function for calls. */
LAM_API const lam_growth *lam_costs_growth(const lam_costs *c, int32_t i);

/* The i-th type of layers without a rule, in order of first call, and how many calls it had; NULL past the
 * last one. */
LAM_API const char *lam_costs_unruled(const lam_costs *c, int32_t i, int32_t *n_calls);
/* The full name of that type ("torch.nn.modules.activation.GELU"); NULL past the last one. */
LAM_API const char *lam_costs_unruled_path(const lam_costs *c, int32_t i);
/* The i-th reason why a total is not exact, as one sentence; NULL past the last one. */
LAM_API const char *lam_costs_gap(const lam_costs *c, int32_t i);

/* Aggregates `c` in place to `max_depth`, as torchscan 0.1.2 does: a container row at exactly that depth gets
 * the sums of the rows below it and their last (released "0.1.1": first) receptive field; deeper rows are
 * dropped. LAM_USAGE if no row has that depth; the sentence names the deepest. */
LAM_API lam_status lam_costs_aggregate(lam_costs *c, int32_t max_depth, lam_error *e);

/* One number with its formula and substituted values, for `lamina why`. */
enum { LAM_WHY_FACTS = 16 };
typedef struct lam_why {
    lam_metric metric;
    lam_phase phase;
    int32_t op;             /* the operator; -1: the row */
    const char *formula;    /* NULL: no rule */
    /* "1,605,632 x 147", in UTF-8: the formula with its values, without terms that have no effect */
    char substituted[512];
    lam_count value;        /* of one operator, also if n_equal > 1 */
    const char *note;
    const char *words;      /* describes the rule's kind of operation; NULL: no rule */
    int32_t n_equal;        /* the number of equal operators that this explains */
    int32_t n_facts;        /* the facts whose values are in `substituted` */
    struct { const char *name; int64_t value; const char *meaning; } facts[LAM_WHY_FACTS];
} lam_why;
/* The i-th explanation of row `row`; LAM_RANGE past the last one. First each metric of the row. If operators
 * are counted, that is the sum over the row's forward, and the metrics of each operator follow (at most 32,
 * equal ones as one), with its name as the note. The row's backward and its recomputation follow in the same
 * way. */
LAM_API lam_status lam_costs_why(const lam_costs *c, int32_t row, int32_t i, lam_why *out, lam_error *e);
/* The i-th known fact of row `row` (name, value): those that its rule's formulas name, and those of general
 * interest; false past the last one. */
LAM_API bool lam_costs_fact(const lam_costs *c, int32_t row, int32_t i, const char **name, int64_t *value);

/* -- side by side -------------------------------------------------------------------------------------- */
/* One cause of a difference: one operator (or type of layer) that is counted differently in one way. */
typedef struct lam_cause {
    const char *text;   /* "leaves out attention in MultiheadAttention" */
    const char *note;   /* the note of the convention's table; NULL: none */
    int64_t difference; /* its part of the row's difference */
    int32_t calls;      /* the number of calls; 0: the part of the difference that no cause explains */
} lam_cause;
typedef struct lam_compared {
    const char *convention;
    lam_count macs, flops, params; /* of the phase; params: the convention's own total */
    bool told; int64_t difference; /* from the reference; `told`: it is known */
    int32_t n_causes; const lam_cause *causes; /* largest first */
    const char *gap;         /* why it is not exact; NULL: it is, or the convention does not count it */
    /* The layers for which, and reasons why, the tool itself may print another number for this run's forward;
     * NULL: it prints the same. */
    const char *limits;
    const char *formula, *source; /* in tokens: of a training step, and where it is from; NULL */
} lam_compared;
typedef struct lam_comparison lam_comparison;
/* Compares LAM_MACS or LAM_FLOPS of the forward or the backward. n 0: the conventions that count operators;
 * if none of them can count the model, as by "all". "all" among the names: every convention that counts that
 * phase and can count the model. */
typedef struct lam_compare_options { const char *const *conventions; int32_t n; lam_metric metric;
                                     lam_phase phase; } lam_compare_options;
/* Compares conventions with the reference (`exact`, the first row). Those that count calls use their released
 * form. LAM_USAGE for another metric or phase, or if no operators were watched. `o` NULL: the MACs of the
 * forward. */
LAM_API lam_status lam_compare_new(lam_comparison **out, const lam_model *m, const lam_compare_options *o,
                                   lam_error *e);
LAM_API void lam_compare_free(lam_comparison *c);
LAM_API const lam_compared *lam_compare_row(const lam_comparison *c, int32_t i); /* NULL past the last one */
/* Writes the comparison as "text" (format NULL), "md", "json", "csv" or "html" (an element for a notebook).
 * `width` in columns, 0: 100; `exact`: numbers in full. Text shows the three largest causes of a row, or all
 * if the conventions were named. */
LAM_API lam_status lam_compare_write(const lam_comparison *c, const char *format, int32_t width, bool exact,
                                     lam_sink to, lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
