/* SPDX-License-Identifier: Apache-2.0
 * infer: types and shapes of all values of an ONNX graph, and the elements of small tensors.
 *
 * infer.c: lmi_onnx_infer of graph.h, the walk over graphs and the table of operators (rules.def).
 * infer_flow.c: nodes with bodies, sequences. infer_step.c: what rules share. infer_layout.c, infer_layer.c,
 * infer_pick.c: the rules of shapes. infer_fold.c: the elements of small tensors.
 *
 * A rule that is not sure says nothing, and the result is unknown. */
#ifndef LMI_READ_ONNX_INFER_H
#define LMI_READ_ONNX_INFER_H

#include "read/onnx/graph.h"

enum {
    LMI_MOST_CELLS = 1 << 16, /* elements of a tensor that are folded */
    LMI_MOST_REALS =
        1 << 12,         /* the same of a constant of floats: larger ones are weights, of no use for shapes */
    LMI_FEW_CELLS = 64,  /* what shapes are made of: counted apart, so that weights leave room for them */
    LMI_MOST_INTS = 64,  /* of a list of axes, pads, ... */
    LMI_MOST_DEPTH = 64, /* of graphs in graphs */
    LMI_MOST_TIMES = 1 << 10 /* that a loop is followed for what it adds up to */
};

/* An element: `f` of types with fractions, rounded to the type; `i` of all others, a bool is 0 or 1. */
typedef struct lmi_cell {
    union {
        int64_t i;
        double f;
    };
    bool known;
} lmi_cell;

/* What inference knows of a value beside its type and shape. */
typedef struct lmi_value_known {
    const lmi_cell *cells; /* all elements, in order; NULL: nothing is known of them */
    const lmi_onnx_value *like; /* the value that the elements were taken from; NULL: none */
    int64_t *own;          /* memory for its sizes, of `room` axes */
    int32_t room;
    bool looked;              /* the elements of a constant were read, or can't be */
    bool varies;              /* it is made by a body that may run more than once */
    bool torn;                /* branches or rounds give it other numbers of axes: the shape that the file
                               * states is not true of all */
    int64_t count;            /* of a sequence; 1 or 0 of an optional; -1: unknown */
    int32_t kind, type, ndim; /* what the file states; ndim -1 and type 0: nothing */
    const int64_t *sizes;
    const int32_t *symbols;
} lmi_value_known;

typedef struct lmi_infer {
    lmi_onnx_model *m;
    lmi_value_known *known; /* of each value */
    lmi_arena scratch;
    int64_t few[2],
        many; /* elements that may still be kept: of small tensors, beside and in loops; of large ones */
    int64_t effort;    /* elements of large tensors that may still be read */
    int64_t work;      /* nodes of loops that may still be run for what is true of all rounds */
    int64_t tries;     /* and to follow loops round by round */
    int32_t following; /* loops around the node that are followed */
    bool tired;        /* there was more work: what loops give is unknown */
    int32_t loops;     /* bodies around the node, which may run more than once */
    int32_t depth;     /* of the graph that is walked */
    void (*walk)(struct lmi_infer *c, const lmi_onnx_graph *g); /* infers the nodes of a graph */
    lam_status bad;                                             /* the first failure */
    lam_error *e;
} lmi_infer;

/* One node, while its rule runs. */
typedef struct lmi_node_at {
    lmi_infer *all;
    lmi_onnx_node *n;
    const struct lmi_onnx_rule *rule;
    const char *why; /* why a result is unknown; NULL: the rule gave no reason */
    bool wrong;      /* its arguments contradict each other, so that what the file states is not true here */
} lmi_node_at;
/* Notes that its arguments contradict each other. */
static inline void lmi_contradict(lmi_node_at *s) {
    s->wrong = true;
    s->why = "the shapes of its arguments do not go together";
}

/* The operators of ONNX, for folding. */
typedef enum lmi_onnx_operator {
#define OP(name, ...) LMI_OP_##name,
#define ML(name, ...)
#define MS(name, ...)
#define NC(name, ...)
#include "read/onnx/rules.def"
#undef OP
#undef ML
#undef MS
#undef NC
    LMI_OP_OTHER
} lmi_onnx_operator;

typedef void lmi_onnx_rule_fn(lmi_node_at *s);
typedef struct lmi_onnx_rule {
    const char *name;
    lmi_onnx_rule_fn *shape;
    const char *in;         /* the arguments that the rule works with, a digit each; "": all */
    const char *types;      /* of the results, a letter each, the last for all further ones; see rules.def */
    lmi_onnx_rule_fn *fold; /* NULL: none; runs if the first result is small */
    lmi_onnx_operator op;
} lmi_onnx_rule;

/* The rule of an operator; NULL: there is none. */
const lmi_onnx_rule *lmi_onnx_rule_of(const char *domain, const char *op);

/* -- infer_step.c: what rules share ---------------------------------------------------------------------- */

/* The i-th argument that the rule works with; NULL: it is left out. */
const lmi_onnx_value *lmi_arg(const lmi_node_at *s, int32_t i);
int32_t lmi_n_args(const lmi_node_at *s); /* how many there can be */
/* The argument, if its shape is known, at least its number of axes; else NULL, and says why. */
const lmi_onnx_value *lmi_shaped(lmi_node_at *s, int32_t i);
bool lmi_whole(const lmi_onnx_value *v); /* all sizes are known */
/* The elements, if all sizes are known and they are few enough to be folded. */
static inline bool lmi_few(const lmi_onnx_value *v, int64_t *n) {
    int64_t all = 1; /* without axes of size 0, so that no distance of elements is too large either */
    *n = 1;
    for (int32_t i = 0; v && i < v->ndim; i++) {
        if (v->sizes[i] < 0 || v->sizes[i] > LMI_MOST_CELLS) return false;
        *n *= v->sizes[i];
        all *= v->sizes[i] ? v->sizes[i] : 1;
        if (all > LMI_MOST_CELLS) return false;
    }
    return v && v->ndim >= 0;
}

/* Gives a value its sizes, in memory of its own. */
void lmi_set_sizes(lmi_infer *c, lmi_onnx_value *v, int32_t ndim, const int64_t *sizes);
/* States the shape of result k, which need not exist. */
void lmi_set(lmi_node_at *s, int32_t k, int32_t ndim, const int64_t *sizes);
void lmi_set_as(lmi_node_at *s, int32_t k, const lmi_onnx_value *v); /* that of a value, if it is known */
void lmi_set_type(lmi_node_at *s, int32_t k, int32_t type);
void lmi_set_scalar(lmi_node_at *s, int32_t k);
/* The result is a tensor of unknown sizes, as many as told. */
void lmi_set_axes(lmi_node_at *s, int32_t k, int32_t ndim);
/* States that memory ran out. */
void lmi_out_of_memory(lmi_infer *c);

lmi_value_known *lmi_known_of(const lmi_infer *c, const lmi_onnx_value *v);

/* All elements of a value; NULL: nothing is known of them. */
const lmi_cell *lmi_cells(lmi_infer *c, const lmi_onnx_value *v);
/* True if the bodies of loops are to be run no more: for now, or for good. */
static inline bool lmi_enough(const lmi_infer *c) {
    return c->bad != LAM_OK || (c->loops > 0 && (c->tired || (c->following > 0 && c->tries < 0)));
}
/* Counts a step of a loop, which goes over so many arguments, results and attributes. */
static inline void lmi_charge(lmi_infer *c, int64_t n) {
    const int64_t steps = 1 + n / 16;
    if (c->following > 0)
        c->tries -= steps;
    else if (c->loops > 0 && (c->work -= steps) < 0)
        c->tired = true;
}
/* True if n more elements may be read; counts them. All that is done with elements is bounded so. */
bool lmi_afford(lmi_infer *c, int64_t n);
/* Memory for n elements, all unknown; NULL: no more may be kept, or memory ran out. */
lmi_cell *lmi_cells_new(lmi_infer *c, int64_t n);
/* Gives result k its elements. */
void lmi_cells_set(lmi_node_at *s, int32_t k, const lmi_cell *cells);
bool lmi_is_real(int32_t type); /* with fractions: floats of any width */
/* Rounds to a type of floats, or wraps to the width of one of integers. False: it can't be held. */
bool lmi_fit_real(int32_t type, double *f);
bool lmi_fit_int(int32_t type, int64_t *i);
/* The bits of a float of any width. */
void lmi_real_bits(int32_t type, double f, uint64_t *out);

/* A list of integers: an attribute of older versions, an input of newer ones. */
typedef struct lmi_ints {
    bool given;
    bool all;  /* it is known as a whole */
    int32_t n; /* -1: unknown */
    int64_t at[LMI_MOST_INTS];
    bool known[LMI_MOST_INTS];
} lmi_ints;
/* By the name of the attribute, NULL: none, or from the i-th argument of the node, -1: none. */
lmi_ints lmi_list(lmi_node_at *s, const char *attr, int32_t input);
/* A list that is an attribute alone: its i-th number, or `otherwise`. */
int64_t lmi_nth(const lmi_node_at *s, const char *attr, int32_t i, int64_t otherwise);
/* One integer, in the same two places. False: it is there and unknown. */
bool lmi_one(lmi_node_at *s, const char *attr, int32_t input, int64_t otherwise, int64_t *out);
bool lmi_attr_is(const lmi_node_at *s, const char *attr, const char *text);

/* Makes an axis count from the front; false: it is out of range. */
static inline bool lmi_axis_of(int64_t *axis, int32_t ndim) {
    if (*axis < 0) *axis += ndim;
    return *axis >= 0 && *axis < ndim;
}
/* Products of sizes, as lmi_times has them, and 0 with a size of 0. */
int64_t lmi_size_times(int64_t a, int64_t b);
int64_t lmi_size_all(const int64_t *sizes, int32_t n);

/* A shape that grows while arguments are broadcast to it; begins with ndim 0. */
typedef struct lmi_shape {
    int32_t ndim;
    int64_t at[LMI_ONNX_MOST_AXES];
} lmi_shape;
/* False: sizes that do not go together, or unknown. */
bool lmi_broadcast(lmi_shape *to, int32_t ndim, const int64_t *sizes);
bool lmi_broadcast_size(int64_t *to, int64_t size); /* of one axis, which begins as 1 */

/* Which axes a reduction goes over, of x->ndim. False: unknown. */
bool lmi_reduced_axes(lmi_node_at *s, const lmi_onnx_value *x, bool *reduced);
/* What a Slice takes: attributes of older versions, inputs of newer ones. */
typedef struct lmi_slices {
    lmi_ints from, to, axes, steps;
} lmi_slices;
lmi_slices lmi_slices_of(lmi_node_at *s);
/* How many elements a slice takes of an axis, and the first of them; -1: unknown. */
int64_t lmi_slice(int64_t size, int64_t from, int64_t to, int64_t step, int64_t *first);

/* -- the rules that the table names ------------------------------------------------------------------------
 */

#define OP(name, shape, in, types, fold) lmi_onnx_rule_fn lmi_infer_##shape, lmi_fold_##fold;
#define ML                               OP
#define MS                               OP
#define NC                               OP
#include "read/onnx/rules.def"
#undef OP
#undef ML
#undef MS
#undef NC

#endif
