/* SPDX-License-Identifier: Apache-2.0
 *
 * Analysing a model, a part of lamina.h.
 * Receptive fields, the graph of the data, memory, health, times, and whether a run fits into memory. */
#ifndef LAMINA_ANALYSE_H
#define LAMINA_ANALYSE_H

#include "lamina_count.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == Receptive field ===================================================================================
 * Receptive field, stride and padding of one call of a layer alone, along one axis, in input positions. */

typedef struct lam_rf { double size, stride, padding; lam_state state; } lam_rf;
/* Reads the field of call `event` under `convention`; (1, 1, 0) with LAM_UNKNOWN if it has no rule.
 * Source: torchscan 0.1.2's modules.module_rf for `torchscan`; Araujo et al., "Computing Receptive Fields of
 * Convolutional Neural Networks", Distill 2019, for the others. */
LAM_API lam_status lam_rf_of(const lam_model *m, int32_t event, const char *convention, lam_rf *out,
                             lam_error *e);
/* Replaces the rows' cumulative receptive fields with those of torchscan 0.1.1, which accumulates backwards
 * from the last row: "relative to the last convolutional layer". */
LAM_API lam_status lam_costs_rf_backwards(lam_costs *c, lam_error *e);

/* If operators were watched, the rows' fields come from the data-flow graph, for each axis of each input
 * tensor of the model. The first axis, usually the batch, is last in this list, and only listed for tensors
 * with two or three axes. A field is the smallest interval with every position that an element of the row's
 * first output depends on. With dilation this includes the positions between, which are not read. Batch
 * normalisation counts as in eval mode.
 * Element o of axis `out_axis` depends on positions from start + o * jump to end + o * jump, all three exact
 * fractions, numerator and denominator. */
typedef enum lam_reach {
    LAM_REACH_NOTHING, /* depends on no position */
    LAM_REACH_WINDOW,  /* as above */
    LAM_REACH_WHOLE,   /* every element depends on the whole axis */
    LAM_REACH_PART,    /* every element depends on positions start to end of the axis */
    LAM_REACH_UNKNOWN  /* see `why` */
} lam_reach;
typedef struct lam_rf_axis {
    int32_t input, axis, out_axis; /* out_axis -1: no WINDOW */
    int64_t positions;             /* of the input's axis */
    lam_reach reach;
    int64_t size, narrow;          /* the largest field of an element; the same along the narrowest path */
    int64_t jump[2], start[2], end[2];
    bool shown;                    /* the row's columns show the largest field among the axes with `shown` */
    bool paths;                    /* paths with different fields join before the output */
    bool at_most;                  /* the field may be smaller */
    lam_state state;               /* LAM_AT_LEAST: the source of an operand was not observed */
    const char *why;               /* the operator that makes the field unknown; NULL: the field is known */
} lam_rf_axis;
/* Reads the field of row `row` along the i-th axis; LAM_RANGE past the last one, or if nothing is known. */
LAM_API lam_status lam_costs_rf_axis(const lam_costs *c, int32_t row, int32_t i, lam_rf_axis *out,
                                     lam_error *e);
/* Reads the existing positions that element `element` along out_axis depends on; last < first: none.
 * LAM_RANGE as above, if the reach is unknown, or if there is no such element. */
LAM_API lam_status lam_costs_rf_seen(const lam_costs *c, int32_t row, int32_t i, int64_t element,
                                     int64_t *first, int64_t *last, lam_error *e);

/* == The graph of the data =============================================================================
 * The data-flow graph, if operators were watched. Nodes are the operators that count or move elements, the
 * inputs and outputs of each outermost call, and the parameters and buffers that were read. Views, and
 * operators that only call others, are left out: edges pass through them. */

typedef enum lam_node_type { LAM_NODE_INPUT, LAM_NODE_TENSOR, LAM_NODE_OP, LAM_NODE_OUTPUT } lam_node_type;
typedef struct lam_node {
    lam_node_type type;
    int32_t index;    /* of the call's argument or result, the parameter or buffer, the operator */
    int32_t call;     /* the innermost call of an operator, the outermost of an input or output; -1 none */
    lam_phase phase;
    const char *name; /* "aten::convolution", "input", "layer1.0.conv1.weight" */
    lam_shape shape;  /* of the tensor, or of an operator's first result */
} lam_node;
typedef struct lam_edge {
    int32_t from, to; /* nodes */
    int32_t arg;      /* entry of the operator's `in`; index of the output */
    lam_shape shape;  /* of the tensor that is read */
} lam_edge;

typedef struct lam_graph lam_graph;
/* Builds the graph of model `m`, which must outlive it. LAM_USAGE if no operators were watched,
 * LAM_UNSUPPORTED if no source is known. */
LAM_API lam_status lam_graph_new(lam_graph **out, const lam_model *m, lam_error *e);
LAM_API void lam_graph_free(lam_graph *g); /* NULL is allowed */
LAM_API int32_t lam_graph_n_nodes(const lam_graph *g);
LAM_API int32_t lam_graph_n_edges(const lam_graph *g);
LAM_API const lam_node *lam_graph_node(const lam_graph *g, int32_t i); /* NULL out of range */
LAM_API const lam_edge *lam_graph_edge(const lam_graph *g, int32_t i);
/* The path of the i-th unused module, with the reason as a sentence: it was never called, or one of its
 * results reaches no output of the outermost call. NULL past the last one. */
LAM_API const char *lam_graph_unused(const lam_graph *g, int32_t i, const char **reason);
/* The path of the i-th parameter that gets no gradient in a backward pass from the floating-point outputs,
 * and the reason; NULL past the last one. */
LAM_API const char *lam_graph_no_gradient(const lam_graph *g, int32_t i, const char **reason);
/* Writes the graph in Graphviz' DOT. ops: a node for each operator; else a node for a call's work between two
 * of its inner calls, of the forward only. */
LAM_API lam_status lam_graph_dot(const lam_graph *g, bool ops, lam_sink to, lam_error *e);

/* == Memory ============================================================================================
 * Allocations and frees of torch's CPU allocator while a capture was open. Sizes are the requested bytes. */

typedef struct lam_memory lam_memory;
/* Computes the memory use of model `m`, which must outlive the result. LAM_USAGE if memory was not
 * measured. */
LAM_API lam_status lam_memory_new(lam_memory **out, const lam_model *m, lam_error *e);
LAM_API void lam_memory_free(lam_memory *y); /* NULL is allowed */

typedef struct lam_memory_totals {
    lam_memory_info info;
    int64_t allocated, freed; /* since the capture opened; the difference is live at its end */
    int64_t before;           /* parameters, buffers, gradients, inputs, ... that existed at the opening */
    int64_t peak;             /* the most memory in use at one moment, `before` included */
    int64_t peak_allocated;   /* the most without memory of `before`: as torch counts from the opening on */
    /* the first moment of `peak`; ns 0: before the first allocation */
    int64_t peak_order, peak_ns;
    int32_t peak_call;           /* the call that ran then, -1 none */
    uint8_t peak_phase;          /* its lam_phase */
    int64_t held[LAM_N_HELD];    /* the parts of `peak` */
    int64_t old_gradients;       /* the part of `peak` that is gradients from before the capture */
    int64_t elsewhere;           /* allocated on threads that ran none of the capture's calls */
} lam_memory_totals;
LAM_API const lam_memory_totals *lam_memory_total(const lam_memory *y);

/* The memory use of a call, or of all calls at a place, in one phase. A block belongs to the call that
 * allocated it, even if another call frees it. */
typedef struct lam_memory_use {
    int64_t allocated;
    int64_t freed;    /* the part that was freed before the capture closed */
    int64_t retained; /* the part that was live when the call returned; backward: when the capture closed */
    /* the largest increase since its beginning; of a backward: of one node */
    int64_t peak;
} lam_memory_use;
/* own: without the calls inside it, except for `peak`; total: with them. */
typedef struct lam_memory_row {
    lam_memory_use own[LAM_N_PHASES], total[LAM_N_PHASES];
} lam_memory_row;
LAM_API const lam_memory_row *lam_memory_call(const lam_memory *y, int32_t event);  /* NULL out of range */
/* Sums over the calls at the place, and the largest of their peaks. */
LAM_API const lam_memory_row *lam_memory_place(const lam_memory *y, int32_t place);
/* Bytes that a place holds at the peak, indexed by lam_held: the place alone, and with every place below it.
 * A tensor and its gradient are held at the tensor's first owner; lam_memory_unplaced returns the bytes that
 * no module holds. NULL if out of range. */
LAM_API const int64_t *lam_memory_held(const lam_memory *y, int32_t place);
LAM_API const int64_t *lam_memory_held_below(const lam_memory *y, int32_t place);
LAM_API const int64_t *lam_memory_unplaced(const lam_memory *y);

typedef struct lam_memory_point { int64_t t_ns, bytes; } lam_memory_point;
/* Reads memory in use over time, in `points` steps: the maximum of the i-th step and its moment. If there are
 * fewer moments than `points`, each moment is a step. LAM_RANGE past the last one. */
LAM_API lam_status lam_memory_at(const lam_memory *y, int32_t points, int32_t i, lam_memory_point *out,
                                 lam_error *e);
/* Reads the parts of `bytes` of the same step of lam_memory_at, indexed by lam_held. LAM_USAGE for a device's
 * memory, whose parts are not known. */
LAM_API lam_status lam_memory_held_at(const lam_memory *y, int32_t points, int32_t i,
                                      int64_t held[LAM_N_HELD], lam_error *e);
/* As lam_memory_new, for the device. `freed` counts all frees during the call, of blocks of any call;
 * `retained` is the increase at its end. The use of blocks is not known: lam_memory_held is NULL. */
LAM_API lam_status lam_device_memory_new(lam_memory **out, const lam_model *m, lam_error *e);

/* == Values and health =================================================================================
 * NaN and Inf in the values of tensors. */


/* -- findings ------------------------------------------------------------------------------------------
 * A non-finite value is born in a call with a non-finite output and finite inputs. Layers that only pass it
 * on are reported separately. -Inf alone counts as a mask until it is the first argument of a layer other
 * than softmax, or an output of the model. If `origin` is known, the finding names that operator.
 * docs/health.md has the rules. */
typedef enum lam_health_state {
    LAM_HEALTH_UNKNOWN, /* not checked */
    LAM_HEALTH_FINE,
    LAM_HEALTH_PASSED, /* an input was bad */
    LAM_HEALTH_BORN    /* no input was bad, and a result is */
} lam_health_state;
typedef struct lam_finding {
    lam_phase phase;
    int32_t call, place; /* the call and layer that made the value; -1: outside of every layer */
    /* if `own`: the calls of children before and after that work, -1 none; else -1 */
    int32_t before, after;
    bool own;          /* the work of a layer between the calls of its children made it */
    bool input;        /* it was in an input of the model */
    bool check;        /* the user's check reported it */
    bool explained;    /* an earlier finding is enough to cause it */
    const char *owned; /* the parameter or buffer that holds it; NULL: none */
    const char *op;    /* the operator or node that returned it; NULL: unknown */
    int32_t bad;       /* its index for lam_model_bad */
    int32_t times;     /* how often it was found there */
    int32_t passed;    /* the number of layers without children that passed it on later */
    const char *text;  /* the finding as a sentence */
} lam_finding;
typedef struct lam_health lam_health;
/* Judges the values of model `m`, which must outlive the result. LAM_USAGE if they were not checked. */
LAM_API lam_status lam_health_new(lam_health **out, const lam_model *m, lam_error *e);
LAM_API void lam_health_free(lam_health *h);                                   /* NULL is allowed */
LAM_API const lam_finding *lam_health_finding(const lam_health *h, int32_t i); /* NULL past the last one */
/* The state of a call: of its outputs in the forward, of gradients in the backward. */
LAM_API lam_health_state lam_health_of(const lam_health *h, int32_t call, lam_phase phase);
/* The worst state of the calls at a place. Of a model that is only described that of the module's tensors;
 * PASSED: a module in it has a value that is not finite. */
LAM_API lam_health_state lam_health_at(const lam_health *h, int32_t place, lam_phase phase);
/* "fine", "passed", "born" or "unknown". */
LAM_API const char *lam_health_name(lam_health_state s);
/* The sentence of the first finding; without a finding, one with the number of tensors that were checked. */
LAM_API const char *lam_health_sentence(const lam_health *h);
/* Writes the last `n` calls that ended before the first finding, or before the capture closed, as text. */
LAM_API lam_status lam_health_tail(const lam_health *h, int32_t n, lam_sink to, lam_error *e);

/* == Time ==============================================================================================
 * Times are nanoseconds of a monotonic clock; -1: unknown. Every moment of a thread belongs to exactly one
 * call: the innermost open one or, in a backward pass, the one whose forward made the running node. The parts
 * of a run therefore add up to it. */

/* The peak performance of a machine: FLOPs a second, bytes read or written a second; 0 unknown. */
typedef struct lam_peak { double flops, bytes; } lam_peak;
typedef struct lam_time {
    /* A call's time by lam_phase. Its backward is the time of the nodes that its forward made; recomputation
     * is the time of calls inside a backward pass. */
    int64_t self[LAM_N_PHASES];  /* without the calls made inside it */
    int64_t total[LAM_N_PHASES]; /* with them */
} lam_time;

/* The parts of a run. Every outermost call of the first module that was called begins a run. */
typedef enum lam_time_part {
    LAM_TIME_FORWARD, LAM_TIME_BACKWARD, LAM_TIME_RECOMPUTE, /* of all calls */
    LAM_TIME_ENGINE,  /* autograd between its nodes */
    LAM_TIME_OUTSIDE, /* nodes that no call made: the loss, ... */
    LAM_TIME_WHOLE,   /* the sum of these */
    LAM_N_TIME_PARTS
} lam_time_part;
typedef struct lam_spread { /* one time over the runs that have it */
    int32_t n;
    int64_t median, deviation; /* the median of the absolute differences from the median */
    int64_t least, most;
    int32_t most_run; /* the run of `most` */
} lam_spread;

/* Replaces the times of `m` with those of one run of `timed`, another capture of the same tree: the run whose
 * whole time is the median. `m` owns `timed` from then on, also on failure. Call it before analysing `m`.
 * LAM_USAGE if the trees differ, or no times were measured. */
LAM_API lam_status lam_model_time_by(lam_model *m, lam_model *timed, lam_error *e);

typedef struct lam_times lam_times;
/* Computes the times of model `m`, or of the one that it is timed by; `m` must outlive the result. LAM_USAGE
 * if no times were measured. */
LAM_API lam_status lam_times_new(lam_times **out, const lam_model *m, lam_error *e);
LAM_API void lam_times_free(lam_times *t); /* NULL is allowed */
LAM_API int32_t lam_times_n_runs(const lam_times *t);
/* Reads the times of one call of the timed model; false if out of range. */
LAM_API bool lam_times_event(const lam_times *t, int32_t event, lam_time *out);
/* Reads the time of the k-th call at `place` in a run, over the runs, with (total) or without the calls
 * inside it; false if there is no such call or the time is unknown. */
LAM_API bool lam_times_place(const lam_times *t, int32_t place, int32_t k, lam_phase phase, bool total,
                             lam_spread *out);
/* The time of a part: its spread over all runs, and in run `run`. */
LAM_API bool lam_times_part(const lam_times *t, lam_time_part part, lam_spread *out);
LAM_API int64_t lam_times_run(const lam_times *t, int32_t run, lam_time_part part);
/* A run that took much longer than others: one of at least 5, and its time is above the median by more than 5
 * deviations (scaled to a standard deviation) and by more than 5 %. */
typedef struct lam_outlier {
    int32_t run;
    int64_t whole, median; /* whole time of the run; median over all runs */
    int32_t place;         /* the place with the largest delay; -1: the engine, or nodes that no call made */
    int64_t late;          /* the time of that place above its own median */
} lam_outlier;
/* Reads the i-th; false past the last one. */
LAM_API bool lam_times_outlier(const lam_times *t, int32_t i, lam_outlier *out);
/* The operators or nodes of one name in one phase. */
typedef struct lam_op_time {
    const char *name;
    lam_phase phase;
    bool node;
    int32_t n;           /* the number that ran */
    int64_t self, total; /* without and with the operators inside, summed over all runs */
} lam_op_time;
/* Reads the i-th, the largest `self` first; false past the last one. */
LAM_API bool lam_times_op(const lam_times *t, int32_t i, lam_op_time *out);
/* As lam_times_new, by the device's clock: waits for the host are included, operators are left out. A call's
 * total is the time of its stream; its own time is unknown if calls in it ran on other streams. LAM_USAGE: no
 * clock was read. */
LAM_API lam_status lam_device_times_new(lam_times **out, const lam_model *m, lam_error *e);
/* As lam_costs_times and lam_costs_time below. */
LAM_API const lam_times *lam_costs_device_times(const lam_costs *c);
LAM_API bool lam_costs_device_time(const lam_costs *c, int32_t row, lam_time *out);

/* Reads the times of a row's call; false if times were not measured, and for rows that are no call. */
LAM_API bool lam_costs_time(const lam_costs *c, int32_t row, lam_time *out);
/* A part of the time of all rows: in all runs, or (lam_model_time_by) in the run whose whole time is the
 * median. The rows show the same runs: their own times and the time of no row add up to the whole. */
LAM_API int64_t lam_costs_time_part(const lam_costs *c, lam_time_part part);
/* The times that rows show; NULL if none were measured. */
LAM_API const lam_times *lam_costs_times(const lam_costs *c);
typedef enum lam_bound {
    LAM_BOUND_UNKNOWN,
    LAM_BOUND_COMPUTE, /* the FLOPs a second are nearer to their peak than the bytes a second */
    LAM_BOUND_MEMORY,
    LAM_BOUND_NEITHER  /* neither reaches a tenth of its peak */
} lam_bound;
LAM_API const char *lam_bound_name(lam_bound b); /* "unknown", "compute", ... */
typedef struct lam_speed { /* the speed of a row's own work in its own time */
    double flops, bytes;   /* a second; negative: the work is not exact */
    double intensity;      /* FLOPs a byte; negative: the work is not exact */
    double share;          /* share of the peak of its bound; negative: unknown */
    lam_bound bound;
    int64_t ns;
} lam_speed;
/* Computes the speed of a row in a phase, by the device's clock if it was read; false if the row has no time
 * or no work there. peak NULL: the bound is unknown. Bytes count once for each operand, so reads from a cache
 * count as memory. */
LAM_API bool lam_costs_speed(const lam_costs *c, int32_t row, lam_phase phase, const lam_peak *peak,
                             lam_speed *out);
/* The same for the work and the time of the row together with the calls inside it: the speed of a container
 * as a whole. */
LAM_API bool lam_costs_speed_inside(const lam_costs *c, int32_t row, lam_phase phase, const lam_peak *peak,
                                    lam_speed *out);
/* The peak that rows are compared with: `measured`, or the speed of a row that exceeds it, since then the
 * measurement was too low. 0 stays 0. */
LAM_API lam_peak lam_costs_peak(const lam_costs *c, lam_peak measured);

/* == Tables ============================================================================================ */

/* The rows among which the values of entry `in` of the outermost call's arguments choose, by an embedding:
 * those of the smallest table that they choose from; -1: of none. `is_largest`: the run's largest table is
 * among these. */
LAM_API int64_t lam_model_table_rows(const lam_model *m, int32_t in, bool *is_largest);

/* == Will it fit ======================================================================================= */

/* The memory that one layer holds at the peak, without its children. */
typedef struct lam_fit_row {
    int32_t place; /* -1: outside every call */
    int64_t bytes, part[LAM_N_HELD];
} lam_fit_row;
/* The predicted peak of the memory that a CPU's allocator hands out in a run, from a dry run that followed
 * how long autograd and the model's code held each tensor. */
typedef struct lam_fit {
    lam_count peak, part[LAM_N_HELD]; /* the peak and its parts; LAM_AT_LEAST: see `gap` */
    int32_t op;                       /* the operator that runs then; -1: none, or in the optimizer's step */
    const char *at;                   /* its name, "the optimizer's step", or "before the first operator" */
    const char *optimizer;            /* of the step that was followed; NULL: none was */
    bool backward;                    /* there was a backward pass */
    const char *gap;                  /* why the peak may be higher; NULL: it is not */
    const char *rough;                /* why it may be some per cent lower or higher; NULL: it is not */
    /* The cache that the forward left for the next one: the layers in which it grows, its bytes for each
     * token of a sequence (-1: how it grows is not known, and `cache_why` says why), and the bytes of a
     * sequence that do not grow, as states, full windows and what is allocated at once; -1: the forward left
     * none. Without one: layers with causal attention, and the bytes of keys and values for a token. */
    int32_t cached_layers;
    int64_t cache_bytes, cache_fixed;
    const char *cache_why;
    /* The same for layers with self-attention under a mask that the model gives, which may be causal. */
    int32_t masked_layers;
    int64_t masked_bytes;
    int32_t n_rows;
    const lam_fit_row *rows; /* the largest first */
} lam_fit;
/* Computes the fit of model `m`. LAM_USAGE if memory was not followed. */
LAM_API lam_status lam_fit_new(lam_fit **out, const lam_model *m, lam_error *e);
LAM_API void lam_fit_free(lam_fit *f); /* NULL is allowed */
/* Writes the fit of a forward pass, a training step, or both (NULL: left out) as "text" (format NULL), "json"
 * or "html" (an element for a notebook). `m` is the model of one of them. `measured`: the peaks that an
 * allocator counted, shown beside the predicted ones; -1 unknown. */
LAM_API lam_status lam_fit_write(const lam_fit *forward, const lam_fit *step, const lam_model *m,
                                 const int64_t measured[2], const char *format, bool exact, lam_sink to,
                                 lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
