/* SPDX-License-Identifier: Apache-2.0
 * pt2: archives that torch.export.save wrote. A zip file has one graph of operators as JSON, with the shape
 * of every tensor, and the weights, which are not read.
 *
 * pt2.c: the whole. archive.c: the archive and its JSON. weights.c: parameters and buffers. sizes.c: sizes
 * that are expressions. values.c: the tensors of a graph, and the arguments of its nodes. walk.c: which calls
 * of modules the nodes ran in. modules.c: the tree of modules. build.c: the model. schema.c: positions and
 * defaults of arguments. inner.h: the operators that an operator calls. */
#ifndef LMI_READ_PT2_H
#define LMI_READ_PT2_H

#include "read/bytes/zip.h"
#include "read/tensors/tensors.h"

/* Whether a zip file has the program of torch.export. */
bool lmi_is_pt2(const lmi_zip *z);
/* LAM_SYNTAX: it is damaged; LAM_UNSUPPORTED: it has no program, or one that is not known; LAM_LIMIT: it has
 * more than a file of its size should. `z`: its directory, which is taken; NULL: that is read too. `other`
 * NULL: none; a size with another value than it has by `o`. */
lam_status lmi_pt2_read(const lmi_bytes *of, lmi_zip *z, const lam_read_options *o,
                        const lam_read_size *other, lam_model **out, lam_error *e);

/* -- inside this room ------------------------------------------------------------------------------------ */

/* A parameter or buffer, by its name in the model. Tied ones are several names of one. */
typedef struct lmi_pt2_weight {
    const char *name;
    int32_t dtype, ndim; /* ndim -1: unknown */
    const int64_t *sizes;
    bool buffer, requires_grad;
    int32_t same;   /* the earlier one that it is another name of; -1: none */
    int32_t module; /* that has it: known with all modules */
    int32_t tensor; /* in the model */
} lmi_pt2_weight;

/* A module that the file names. */
typedef struct lmi_pt2_module {
    const char *path, *name;
    int32_t parent;        /* -1: the root */
    int32_t n;             /* children */
    int32_t index;         /* in the model */
    const char *type_path; /* NULL: unknown */
    bool described;        /* its attributes were read from one of its operators */
} lmi_pt2_module;

/* A tensor of a graph. */
typedef struct lmi_pt2_value {
    int32_t dtype, device, ndim; /* ndim -1: its shape is not known */
    const int64_t *sizes;
    bool scattered;           /* its elements do not lie one after the other */
    bool apart;               /* nor do those of its last axis */
    bool requires_grad;
    uint64_t storage, object; /* identities, as in lam_op_arg */
    int32_t weight;           /* the parameter or buffer that it is; -1: none */
    int32_t call;             /* the call in which it was made; -1: it is from outside */
    int32_t step;             /* the step that made it; -1: none */
} lmi_pt2_value;

/* One graph: the program's own, or one that a node runs. */
typedef struct lmi_pt2_scope {
    uint32_t graph;  /* its position in the JSON */
    uint32_t sizes;  /* of its sizes that have names */
    lmi_map by_name; /* of its tensors: positions in `values` */
    lmi_map sized;   /* of its sizes with names: positions in the JSON */
} lmi_pt2_scope;

/* A call of a module. */
typedef struct lmi_pt2_call {
    int32_t module, parent, depth;
    int32_t first_in, last_in, first_out, last_out; /* chains in `ends` */
    int32_t n_in, n_out;
    int32_t last; /* the last step in it, or in a call in it */
} lmi_pt2_call;

/* A tensor among the arguments or results of a call. */
typedef struct lmi_pt2_end {
    int32_t value, next;
} lmi_pt2_end;

/* A node, as it was read. Steps are in the order in which they run. */
typedef struct lmi_pt2_step {
    uint32_t node; /* its position in the JSON */
    int32_t scope, call;
    bool backward;
    const char *op;     /* "aten::conv2d"; NULL: it computes with sizes */
    int32_t graphs;     /* among its arguments */
    size_t first;       /* of `args`: its n_in other arguments, and behind them its n_out results */
    size_t first_float; /* of `floats`: those of its arguments */
    int32_t n_in, n_out, n_floats;
} lmi_pt2_step;

typedef struct lmi_pt2 {
    const lmi_bytes *of;
    const lam_read_options *o;
    const lam_read_size *other;
    lam_error *e;
    lmi_arena arena;
    lmi_zip zip;
    size_t root; /* the length of the folder in the archive, with its slash */
    const char *root_name;
    const char *program_name;
    char *text; /* of the program */
    size_t n_text;
    lmi_json j;
    uint32_t module, graph, signature; /* positions of "graph_module" and of parts of it */
    int64_t schema;                    /* the major version of its schema */
    lmi_map hints;                     /* of each symbol: its position in `hint` */
    lmi_vec hint;                      /* int64_t; -1: unknown */
    lmi_vec weights;                   /* lmi_pt2_weight */
    lmi_tensors stored;                /* their values, if these are checked */
    bool turned;                       /* those are in the other byte order */
    lmi_map by_weight, by_store;
    lmi_vec modules; /* lmi_pt2_module */
    lmi_map by_path;
    uint64_t names; /* bytes of the names so far */
    lmi_vec values, scopes, calls, ends, steps;
    lmi_map calls_by_key;        /* of calls, by their keys */
    lmi_map known_ends;          /* of ends, by call and value */
    lmi_vec open;                /* int32_t: calls that have not ended, each in the one before */
    lmi_vec keys;                /* const char *: their keys */
    lmi_pt2_step now;            /* the node that is read, or was taken up again */
    lmi_vec args;                /* lam_op_arg: arguments and results of all steps */
    lmi_vec arg_value;           /* int32_t: of each the tensor that it is; -1: none */
    lmi_vec floats;              /* double: the lists of them among the arguments */
    lmi_vec more_in, more_out;   /* lam_op_arg: of an operator inside one */
    lmi_map schemas, inner;      /* what lmi_pt2_find has found: schemas, and who pushes what one calls */
    const char *arguments;       /* of the operator that is read, by its schema; NULL: not known */
    int64_t fresh;               /* tensors that operators inside others made */
    lmi_buf path;                /* of what an error names */
    uint32_t stack;              /* in the JSON: the modules around the last node that names them; or 0 */
    bool hides;                  /* graphs that values decide on may run in modules without a call */
    int32_t decided;             /* operators of which sizes decide what they run */
    bool again;                  /* the graph that is walked is in one that runs more than once */
    int64_t repeated;            /* nodes and tensors that graphs which run more than once have added */
    int32_t masked;              /* attentions with a mask that the program makes */
    bool training;               /* layers were in training mode */
    bool joint;                  /* it has a backward pass too */
    lam_builder *b;
} lmi_pt2;

static inline lmi_pt2_weight *lmi_pt2_weight_at(const lmi_pt2 *p, int32_t i) {
    return lmi_vec_at(&p->weights, (size_t)i);
}
static inline lmi_pt2_module *lmi_pt2_module_at(const lmi_pt2 *p, int32_t i) {
    return lmi_vec_at(&p->modules, (size_t)i);
}
static inline lmi_pt2_value *lmi_pt2_value_at(const lmi_pt2 *p, int32_t i) {
    return lmi_vec_at(&p->values, (size_t)i);
}
static inline lmi_pt2_call *lmi_pt2_call_at(const lmi_pt2 *p, int32_t i) {
    return lmi_vec_at(&p->calls, (size_t)i);
}

/* Argument i of a step, or behind them result i - n_in; and the tensor that it is, -1: none. */
static inline lam_op_arg *lmi_pt2_arg(const lmi_pt2 *p, const lmi_pt2_step *s, int32_t i) {
    return lmi_vec_at(&p->args, s->first + (size_t)i);
}
static inline int32_t lmi_pt2_arg_value(const lmi_pt2 *p, const lmi_pt2_step *s, int32_t i) {
    return ((const int32_t *)p->arg_value.data)[s->first + (size_t)i];
}

/* Finds the program and reads its JSON. */
lam_status lmi_pt2_program(lmi_pt2 *p);
/* "it is damaged: WHAT, at graph.nodes[3].inputs of models/model.json", LAM_SYNTAX. */
lam_status lmi_pt2_bad(lmi_pt2 *p, uint32_t at, const char *what);
/* Reads a text as JSON; an error names the archive and the entry. */
lam_status lmi_pt2_json(lmi_pt2 *p, lmi_json *j, char *text, size_t n, const lmi_json_limits *limits);
/* Maps the names of an object, as lmi_json_index. */
lam_status lmi_pt2_index(lmi_pt2 *p, uint32_t at, lmi_map *out);
/* The value of the first name of the object at a position that is not null; 0: there is none. */
uint32_t lmi_pt2_union(const lmi_pt2 *p, uint32_t at, const char **name);
/* The entry of this name in the folder of the archive; *out NULL: there is none. */
lam_status lmi_pt2_entry(lmi_pt2 *p, const char *name, const lmi_zip_entry **out);

lam_status lmi_pt2_weights(lmi_pt2 *p);
/* The weight that one is another name of, or itself. */
int32_t lmi_pt2_first(const lmi_pt2 *p, int32_t weight);

/* Notes what each symbol stands for: the option's value, or the file's example. */
lam_status lmi_pt2_symbols(lmi_pt2 *p);
/* Tells the model which sizes the program leaves open. */
lam_status lmi_pt2_open_sizes(lmi_pt2 *p, lam_model *m);
/* A size: a number, or an expression; -1: unknown. */
lam_status lmi_pt2_size(lmi_pt2 *p, uint32_t at, int64_t *out);
/* A condition of sizes: 0, 1, or -1: it is unknown, or decided by the values of tensors. */
int lmi_pt2_truth(lmi_pt2 *p, int32_t scope, uint32_t argument);
/* Type, device and shape of the tensor that an object describes. */
lam_status lmi_pt2_tensor(lmi_pt2 *p, uint32_t at, lmi_pt2_value *out);
/* Adds a graph's tensors. The program's own is graph 0, which lmi_pt2_weights adds. */
lam_status lmi_pt2_scope_of(lmi_pt2 *p, uint32_t graph, int32_t *out);
/* Gives those of graph 0 that are weights the identities of these, once all weights are known. */
void lmi_pt2_identify(lmi_pt2 *p);
/* The tensor of this name; -1: there is none. */
int32_t lmi_pt2_named(const lmi_pt2 *p, int32_t scope, const char *name);
/* Reads a node into p->now, with the arguments that the file leaves out. Graphs among its arguments are only
 * counted. */
lam_status lmi_pt2_node(lmi_pt2 *p, uint32_t node, int32_t scope);
/* Forgets the arguments of the node that was read last. */
void lmi_pt2_drop(lmi_pt2 *p);

lam_status lmi_pt2_walk(lmi_pt2 *p);

/* LAM_LIMIT: more modules, or calls of them, than a file of its size should have. */
lam_status lmi_pt2_check_modules(const lmi_pt2 *p);
/* The module at a path of n bytes, which is added if it is new, with those above it. */
lam_status lmi_pt2_module_of(lmi_pt2 *p, const char *path, size_t n, int32_t *out);
/* The modules of the program's list and of the names of weights. */
lam_status lmi_pt2_modules(lmi_pt2 *p);
/* Pushes modules and places. */
lam_status lmi_pt2_places(lmi_pt2 *p);

lam_status lmi_pt2_build(lmi_pt2 *p, lam_model **out);

/* The first of a table's n entries that is an operator's; n: none is. Programs have thousands of nodes and
 * some thirty operators, so each is searched once: `known` has what was found. */
typedef bool lmi_pt2_is(int64_t entry, const char *op);
lam_status lmi_pt2_find(lmi_pt2 *p, lmi_map *known, const char *op, int64_t n, lmi_pt2_is *is, int64_t *out);
/* Finds the schema of the operator of p->now. */
lam_status lmi_pt2_schema(lmi_pt2 *p);
/* The position of an argument of this name in it; -1: not known. */
int32_t lmi_pt2_position(const lmi_pt2 *p, const char *argument);
/* Adds the values of arguments that the file leaves out to those of p->now, as far as a rule reads them. */
lam_status lmi_pt2_defaults(lmi_pt2 *p);
/* Pushes the operators that `op`, the operator with this index in the model, calls. */
lam_status lmi_pt2_inner(lmi_pt2 *p, const lam_op_info *op, int32_t index);
/* Pushes what a module's operator tells of its attributes. */
lam_status lmi_pt2_attributes(lmi_pt2 *p, int32_t module, const lam_op_info *op);

#endif
