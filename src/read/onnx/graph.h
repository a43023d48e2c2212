/* SPDX-License-Identifier: Apache-2.0
 * onnx: models in the ONNX format, read from protobuf's wire without trust.
 *
 * This header is what the parts of the room share: the graph in memory. Inference completes what
 * the file leaves out. Everything is in the model's arena. */
#ifndef LMI_READ_ONNX_GRAPH_H
#define LMI_READ_ONNX_GRAPH_H

#include "read/bytes/bytes.h"

/* Element types, with the numbers of TensorProto.DataType. */
typedef enum lmi_onnx_type {
    LMI_ONNX_NO_TYPE = 0,
    LMI_ONNX_FLOAT = 1,
    LMI_ONNX_UINT8 = 2,
    LMI_ONNX_INT8 = 3,
    LMI_ONNX_UINT16 = 4,
    LMI_ONNX_INT16 = 5,
    LMI_ONNX_INT32 = 6,
    LMI_ONNX_INT64 = 7,
    LMI_ONNX_STRING = 8,
    LMI_ONNX_BOOL = 9,
    LMI_ONNX_FLOAT16 = 10,
    LMI_ONNX_DOUBLE = 11,
    LMI_ONNX_UINT32 = 12,
    LMI_ONNX_UINT64 = 13,
    LMI_ONNX_COMPLEX64 = 14,
    LMI_ONNX_COMPLEX128 = 15,
    LMI_ONNX_BFLOAT16 = 16,
    LMI_ONNX_FLOAT8E4M3FN = 17,
    LMI_ONNX_FLOAT8E4M3FNUZ = 18,
    LMI_ONNX_FLOAT8E5M2 = 19,
    LMI_ONNX_FLOAT8E5M2FNUZ = 20,
    LMI_ONNX_UINT4 = 21,
    LMI_ONNX_INT4 = 22,
    LMI_ONNX_FLOAT4E2M1 = 23,
    LMI_ONNX_FLOAT8E8M0 = 24,
    LMI_ONNX_UINT2 = 25,
    LMI_ONNX_INT2 = 26,
    LMI_ONNX_N_TYPES
} lmi_onnx_type;
int32_t lmi_onnx_bits(int32_t type); /* of an element: 4 for INT4; 0: unknown, or a text */
struct lmi_onnx_value;
/* The bytes that the elements of a tensor take in raw_data; false: unknown. */
bool lmi_onnx_raw_bytes(const struct lmi_onnx_value *v, uint64_t *out);

/* What a value is. Type and shape are those of a tensor, or of the elements of a sequence or an optional. */
typedef enum lmi_onnx_kind {
    LMI_ONNX_TENSOR,
    LMI_ONNX_SEQUENCE,
    LMI_ONNX_OPTIONAL,
    LMI_ONNX_OTHER /* a map, a sparse tensor, a sequence of sequences, ... */
} lmi_onnx_kind;

/* Where the elements of a constant are. */
typedef enum lmi_onnx_where {
    LMI_ONNX_NOWHERE, /* it is no constant, or its elements are not known */
    LMI_ONNX_MEMORY,  /* in `memory`, in the byte order and packing of raw_data */
    LMI_ONNX_RAW,     /* in the file from `at`, in the same form */
    LMI_ONNX_FIELDS,  /* in the fields of the TensorProto that is at `at` in the file */
    LMI_ONNX_SPARSE,  /* in a SparseTensorProto at `at` in the file; never decoded */
    LMI_ONNX_EXTERNAL /* in another file, which is never opened */
} lmi_onnx_where;

/* Axes of a value: more than any operator uses; a value with more is of unknown shape. */
enum { LMI_ONNX_MOST_AXES = 32 };

/* One name of the file: an input of a graph, an initialiser, or a result of a node. */
typedef struct lmi_onnx_value {
    const char *name;       /* "": it has none, as the tensor of an attribute */
    int32_t kind;           /* lmi_onnx_kind */
    int32_t type;           /* lmi_onnx_type */
    int32_t ndim;           /* -1: unknown */
    const int64_t *sizes;   /* ndim sizes; -1: unknown */
    const int32_t *symbols; /* ndim indices into the model's symbols, -1: none; NULL: none at all */
    bool stated;            /* type and shape are what the file states (value_info), not inferred */
    bool initialiser;       /* of any graph, sparse ones too */
    bool input;             /* of a graph; it may be an initialiser too, which is then only its default */
    int32_t producer;       /* the node whose result it is; -1: none */
    struct lmi_onnx_graph *graph; /* where it is defined; NULL: of an attribute */

    /* a constant: an initialiser, the result of a Constant, or folded by inference; no input that was given
     * replaces it */
    int32_t where;      /* lmi_onnx_where */
    const void *memory; /* LMI_ONNX_MEMORY */
    uint64_t at;        /* in the file */
    uint64_t bytes; /* of the payload: of `memory`, of RAW, of the fields; of EXTERNAL by type and shape */
} lmi_onnx_value;

typedef struct lmi_onnx_attribute {
    const char *name;
    int32_t type; /* as AttributeProto.AttributeType: 1 FLOAT, 2 INT, 3 STRING, 4 TENSOR, 5 GRAPH, 6 FLOATS, 7
                   * INTS, 8 STRINGS, ...; told by the fields if the file omits it */
    int64_t i;
    float f;
    const char *s;       /* with a NUL behind it; NULL: none */
    int32_t n;           /* of the lists */
    const int64_t *ints; /* NULL: none */
    const float *floats;
    const char *const *strings;
    int32_t tensor;               /* a value of the model, a constant; -1: none */
    struct lmi_onnx_graph *graph; /* NULL: none */
} lmi_onnx_attribute;

typedef struct lmi_onnx_text {
    const char *key, *value;
} lmi_onnx_text;

typedef struct lmi_onnx_node {
    const char *op, *domain, *name; /* domain "" is ai.onnx; texts are never NULL */
    int32_t opset;                  /* the version of its domain where the node stands; 0: none is imported */
    int32_t n_in, n_out, n_attrs, n_meta;
    const int32_t *in;  /* values of the model; -1: left out */
    const int32_t *out; /* the same */
    const lmi_onnx_attribute *attrs;
    const lmi_onnx_text *meta;    /* metadata_props */
    uint64_t at;                  /* in the file, for errors */
    struct lmi_onnx_graph *graph; /* that it is a node of */
    /* set by inference */
    int32_t taken;   /* of an If: 1 then_branch, 0 else_branch; -1: unknown. -1 for others */
    int64_t times;   /* of a Loop or Scan: how often its body runs; -1: unknown. 1 for others */
    const char *why; /* why the shape of a result is unknown, a part of a sentence; NULL: it is known */
} lmi_onnx_node;

typedef struct lmi_onnx_graph {
    const char *name;
    struct lmi_onnx_graph *parent; /* whose values its nodes may read too; NULL: none */
    int32_t depth;                 /* 0: the model's */
    int32_t n_nodes, n_inputs, n_outputs, n_initialisers;
    const int32_t *nodes; /* of the model, each after those whose results it or its bodies read */
    const int32_t *inputs, *outputs,
        *initialisers; /* values of the model; an output may be one of the parent */
} lmi_onnx_graph;

/* A size that the file only names. */
typedef struct lmi_onnx_symbol {
    const char *name;
    int64_t size; /* given, or told by a given input; -1: unknown */
} lmi_onnx_symbol;

/* Calls of functions that the model defines are replaced by the nodes of the function. A Constant is no work:
 * its result is a constant from the beginning. */
typedef struct lmi_onnx_model {
    lmi_arena arena;
    const lmi_bytes *file;
    unsigned char *piece; /* LMI_PIECE bytes, of the part of the file that is read */
    lmi_vec values;       /* lmi_onnx_value, of all graphs */
    lmi_vec nodes;        /* lmi_onnx_node, of all graphs */
    lmi_vec symbols;      /* lmi_onnx_symbol */
    lmi_map by_symbol;
    lmi_onnx_graph *graph;
    const char *producer, *producer_version;
    int64_t ir_version;
    int32_t n_opsets;
    const lmi_onnx_text *opset_domains; /* key: domain; value: its version in decimal digits */
    int32_t n_meta;
    const lmi_onnx_text *meta;
} lmi_onnx_model;

/* NULL for -1. The returned pointers are not valid after a value or a node is added: inference adds none. */
static inline lmi_onnx_value *lmi_onnx_value_at(const lmi_onnx_model *m, int32_t i) {
    return lmi_vec_at(&m->values, (size_t)i);
}
/* The i-th input of the model, which is there. */
static inline lmi_onnx_value *lmi_onnx_input(const lmi_onnx_model *m, int32_t i) {
    return lmi_vec_at(&m->values, (size_t)m->graph->inputs[i]);
}
static inline lmi_onnx_node *lmi_onnx_node_at(const lmi_onnx_model *m, int32_t i) {
    return lmi_vec_at(&m->nodes, (size_t)i);
}
/* The i-th argument or result; NULL: there is none, or it is left out. */
static inline lmi_onnx_value *lmi_onnx_in(const lmi_onnx_model *m, const lmi_onnx_node *n, int32_t i) {
    return i < n->n_in ? lmi_onnx_value_at(m, n->in[i]) : NULL;
}
static inline lmi_onnx_value *lmi_onnx_out(const lmi_onnx_model *m, const lmi_onnx_node *n, int32_t i) {
    return i < n->n_out ? lmi_onnx_value_at(m, n->out[i]) : NULL;
}
/* The attribute of that name; NULL: the node has none. */
static inline const lmi_onnx_attribute *lmi_onnx_attr(const lmi_onnx_node *n, const char *name) {
    for (int32_t i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i];
    return NULL;
}
static inline int64_t lmi_onnx_int(const lmi_onnx_node *n, const char *name, int64_t otherwise) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(n, name);
    return a && a->type == 2 ? a->i : otherwise;
}

/* The elements of a constant as raw_data holds them, in memory of the model's arena, which is kept in the
 * value (LMI_ONNX_MEMORY). *out NULL: it is no constant, has more than `most` bytes in the file, is in
 * another file, or is damaged (its bytes do not match its shape, or are no numbers of its type). */
lam_status lmi_onnx_elements(lmi_onnx_model *m, lmi_onnx_value *v, uint64_t most, const void **out,
                             lam_error *e);

/* What the user says of the model's inputs. */
typedef struct lmi_onnx_given_input {
    const char *name; /* NULL: the i-th input that is no initialiser */
    int32_t ndim;     /* -1: not given */
    const int64_t *sizes;
    int32_t type;       /* lmi_onnx_type; 0: not given */
    const void *memory; /* its elements, as in raw_data; NULL: not given */
    uint64_t bytes;
} lmi_onnx_given_input;
typedef struct lmi_onnx_given {
    int32_t n_inputs, n_symbols;
    const lmi_onnx_given_input *inputs;
    const lmi_onnx_symbol *symbols;
} lmi_onnx_given;

/* Completes type, shape and, of small tensors, the elements of all values, and what If, Loop and Scan do,
 * from the shapes of the inputs. What a file states is used where nothing better is known. `given` NULL:
 * nothing. LAM_USAGE: a given input or symbol that the model does not have, or whose shape contradicts the
 * file's. */
lam_status lmi_onnx_infer(lmi_onnx_model *m, const lmi_onnx_given *given, lam_error *e);

#endif
