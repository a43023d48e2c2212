/* SPDX-License-Identifier: Apache-2.0
 * The parts of the reader that turns a file into the graph of graph.h.
 *
 * model.c: the file, with nodes after what they read. parse.c: graphs, nodes and functions. attribute.c:
 * attributes. tensor.c: tensors, their elements, what is stated of values, and values by name. */
#ifndef LMI_READ_ONNX_READER_H
#define LMI_READ_ONNX_READER_H

#include "read/onnx/graph.h"
#include "read/onnx/wire.h"

/* Graphs in graphs, and functions in functions. */
enum { LMI_ONNX_DEEPEST = 32 };

/* Instead of a value: an argument that the call of a function leaves out. */
enum { LMI_ONNX_ABSENT = -2 };

/* What is known of a value while its graph is read. */
typedef struct lmi_onnx_naming {
    bool defined, used;
    int32_t same; /* the value of an outer graph, or of a call, that it names; -1: none */
} lmi_onnx_naming;

typedef struct lmi_onnx_function {
    const char *name, *domain, *overload; /* several may have one name, each with another overload */
    uint64_t start, end;                  /* of its FunctionProto */
} lmi_onnx_function;

/* The names of a graph, or of a function that is being put in place of a call. */
typedef struct lmi_onnx_scope {
    struct lmi_onnx_scope *parent; /* NULL: none */
    lmi_onnx_graph *graph;
    lmi_map names;                       /* of values */
    lmi_vec *nodes;                      /* int32_t: of the graph */
    const lmi_onnx_node *call;           /* of a function: what its nodes take attributes from; else NULL */
    const lmi_onnx_attribute *otherwise; /* of a function: what attributes are that a call leaves out */
    int32_t n_otherwise;
    const lmi_onnx_text *opsets;
    int32_t n_opsets;
    const char *within; /* put before the names of nodes; "": nothing */
} lmi_onnx_scope;

typedef struct lmi_onnx_reader {
    lmi_onnx_model *m;
    lmi_cursor c;
    lmi_vec namings;   /* lmi_onnx_naming, one a value */
    lmi_vec functions; /* lmi_onnx_function */
    lmi_map by_name;   /* of functions: a hash of name, domain and overload */
    int64_t work;      /* that calls of functions may still make */
    int32_t depth;
} lmi_onnx_reader;

/* Adds a function that nodes may call, unless there is one of its name. */
lam_status lmi_onnx_function_add(lmi_onnx_reader *r, const lmi_onnx_function *fn, lam_error *e);
lam_status lmi_onnx_bad(const lmi_onnx_reader *r, uint64_t at, lam_error *e, const char *fmt, ...)
    LAM_PRINTF(4, 5);
/* Values and nodes are larger than what a file needs to name them: LAM_LIMIT if they take too much memory. */
lam_status lmi_onnx_room(const lmi_onnx_reader *r, lam_error *e);
/* A value that is new. */
lam_status lmi_onnx_new_value(lmi_onnx_reader *r, const char *name, int32_t *out, lam_error *e);
/* The value of that name in the scope, made if there is none; "": -1. */
lam_status lmi_onnx_name(lmi_onnx_reader *r, lmi_onnx_scope *s, const char *name, int32_t *out, lam_error *e);
lam_status lmi_onnx_graph_read(lmi_onnx_reader *r, lmi_onnx_scope *parent, uint64_t end, lmi_onnx_graph **out,
                               lam_error *e);
/* The attribute that the field, of the cursor's position, holds; false in *is: a call of its function leaves
 * it out. */
lam_status lmi_onnx_attribute_read(lmi_onnx_reader *r, lmi_onnx_scope *s, const lmi_field *of,
                                   lmi_onnx_attribute *out, bool *is, lam_error *e);
lam_status lmi_onnx_entry_read(lmi_onnx_reader *r, const lmi_field *of, lmi_onnx_text *out, lam_error *e);
/* Reads a TensorProto, or with `sparse` a SparseTensorProto, into a value; *name is its own, "" if it has
 * none. */
lam_status lmi_onnx_tensor_read(lmi_onnx_reader *r, const lmi_field *of, bool sparse, lmi_onnx_value *out,
                                const char **name, lam_error *e);
/* Reads a ValueInfoProto: a name, and what `out` is stated to be. */
lam_status lmi_onnx_stated_read(lmi_onnx_reader *r, const lmi_field *of, lmi_onnx_value *out,
                                const char **name, lam_error *e);
/* Adds an operator set that is imported, with its version. */
lam_status lmi_onnx_opset_read(lmi_onnx_reader *r, const lmi_field *of, lmi_vec *to, lam_error *e);
/* The result of a Constant whose attribute is no tensor. */
lam_status lmi_onnx_constant_of(lmi_onnx_reader *r, const lmi_onnx_attribute *a, lmi_onnx_value *v,
                                lam_error *e);

/* -- for those who read the graph --------------------------------------------------------------------------
 */

/* The graph of a file, which must outlive it; freed by lmi_onnx_free also on failure. */
lam_status lmi_onnx_parse(lmi_onnx_model *m, const lmi_bytes *file, lam_error *e);
void lmi_onnx_free(lmi_onnx_model *m);

#endif
