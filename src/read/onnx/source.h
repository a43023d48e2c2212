/* SPDX-License-Identifier: Apache-2.0
 * A graph as a source of a model.
 *
 * source.c pushes the model; scopes.c finds the module of a node, and weights.c the constants that are
 * parameters. arguments.c, attention.c: a node as an operator. notes.c: the notes of a file. */
#ifndef LMI_READ_ONNX_SOURCE_H
#define LMI_READ_ONNX_SOURCE_H

#include "model/model.h"
#include "read/onnx/reader.h"
#include "vocab/vocab.h"

/* -- operators ---------------------------------------------------------------------------------------------
 */

/* A node as an operator of lam_build_op. */
typedef struct lmi_onnx_op {
    lmi_onnx_model *m;
    const lmi_onnx_node *n;
    lmi_buf name; /* "onnx::Conv" */
    lmi_vec in;   /* lam_op_arg */
    lmi_arena *a; /* of lists in arguments */
    lam_error *e;
} lmi_onnx_op;
void lmi_onnx_op_init(lmi_onnx_op *o, lmi_onnx_model *m, lmi_arena *a, lam_error *e);
void lmi_onnx_op_free(lmi_onnx_op *o);
/* Fills name and arguments of a node. */
lam_status lmi_onnx_op_of(lmi_onnx_op *o, const lmi_onnx_node *n);
/* The value as an argument or a result at a position. */
lam_op_arg lmi_onnx_arg(const lmi_onnx_model *m, int32_t value, int32_t position);
/* True if the i-th argument of the node is never a weight. */
bool lmi_onnx_is_setting(const lmi_onnx_node *n, int32_t i);
int32_t lmi_onnx_dtype(int32_t type); /* torch's number; -1: it has none */

/* -- modules -----------------------------------------------------------------------------------------------
 */

enum { LMI_ONNX_MOST_PARTS = 32 };
/* True if so many modules, or calls of them, are more than a file of this size has. */
static inline bool lmi_onnx_modules_are_many(const lmi_onnx_model *m, size_t n) {
    return n >= lmi_bytes_modules(m->file) || n >= INT32_MAX;
}
lam_status lmi_onnx_too_many_modules(const lmi_onnx_model *m, lam_error *e);

/* A call of a module, by the names of nodes; 0 is that of the whole model. */
typedef struct lmi_onnx_scope_of {
    int32_t parent;   /* -1: none */
    const char *path; /* of the module, "layer1.0.conv1" */
    const char *type; /* of the module, "torch.nn.modules.conv.Conv2d", or an operator; NULL: not told */
} lmi_onnx_scope_of;
typedef struct lmi_onnx_scopes {
    lmi_vec at;     /* lmi_onnx_scope_of, parents first */
    int32_t *of;    /* of each node of the model; -1: it is not pushed */
    int32_t folded; /* batch normalisations that are part of a convolution */
    lmi_map by_key; /* the last call of a module by what names it */
    lmi_map folded_by;
    int32_t n_open, open[LMI_ONNX_MOST_PARTS]; /* those around the last node */
} lmi_onnx_scopes;
lam_status lmi_onnx_scopes_of(lmi_onnx_scopes *s, const lmi_onnx_model *m, lmi_arena *a, lam_error *e);
void lmi_onnx_scopes_free(lmi_onnx_scopes *s);

/* The initialiser or constant that a value is, by whatever name; -1: it is none. */
int32_t lmi_onnx_stored(const lmi_onnx_model *m, int32_t value);
/* True for a node that only gives a stored tensor another name. */
bool lmi_onnx_names_stored(const lmi_onnx_model *m, const lmi_onnx_node *n);
/* "layer1.0.conv1" of "layer1.0.conv1.weight", in memory of the arena; "": it names no module. */
lam_status lmi_onnx_owner_path(const char *name, lmi_arena *a, const char **out, lam_error *e);

/* -- what is given -----------------------------------------------------------------------------------------
 */

/* lmi_onnx_infer with the inputs and sizes that `o` gives, and `other` in place of what these say of it; both
 * may be NULL. */
lam_status lmi_onnx_infer_with(lmi_onnx_model *m, const lam_read_options *o, const lam_read_size *other,
                               lam_error *e);
/* An axis of an input, which the file leaves open. */
typedef struct lmi_onnx_axis {
    int32_t value, axis;
    int32_t symbol; /* the file's name for it; -1: none */
} lmi_onnx_axis;
/* Before anything is given: adds the open axes of the inputs. */
lam_status lmi_onnx_open_axes(const lmi_onnx_model *m, lmi_vec *out, lam_error *e);
/* Tells the model which sizes these are, each by a name that lmi_onnx_infer_with takes. */
lam_status lmi_onnx_open_sizes(const lmi_onnx_model *m, const lmi_vec *open, lam_model *to, lam_error *e);

/* -- weights -----------------------------------------------------------------------------------------------
 */

typedef enum lmi_onnx_role { LMI_ONNX_NO_WEIGHT, LMI_ONNX_PARAMETER, LMI_ONNX_BUFFER } lmi_onnx_role;
/* How nodes read a constant. */
typedef struct lmi_onnx_use {
    int32_t first; /* the first node that reads it; -1: none */
    bool weight, setting, statistic, int32;
    int32_t tensor, place; /* 1 + the tensor that was made of it, 0: none; and whose it is */
} lmi_onnx_use;
/* Adds what a node reads; `uses`: one a value of the model. */
void lmi_onnx_look_at(const lmi_onnx_model *m, lmi_onnx_use *uses, int32_t node);
/* The sizes, at most three, of the numbers that the i-th argument of a node holds packed, several in a byte,
 * and how many axes there are; -1: it holds them one by one, or it is not known how. */
int32_t lmi_onnx_unpacked(const lmi_onnx_model *m, const lmi_onnx_node *n, int32_t i, int64_t sizes[3]);
/* What lam_build_tensor gets of a weight: the shape and type of its numbers, and the bytes of all that
 * holds it. */
lam_status lmi_onnx_weight(lmi_onnx_model *m, int32_t value, const lmi_onnx_use *u, lam_tensor_info *to,
                           lmi_arena *a, lam_error *e);
/* `named`: its name is that of a module's tensor. */
lmi_onnx_role lmi_onnx_role_of(const lmi_onnx_value *v, const lmi_onnx_use *u, bool named);

/* Notes what is to be known of the file. `folded`: batch normalisations that are part of a convolution. */
lam_status lmi_onnx_tell(const lmi_onnx_model *m, int32_t folded, lam_builder *b, lam_error *e);

/* Looks for NaN and Inf in the weights, those with a tensor in `uses`, and tells the model. */
lam_status lmi_onnx_check(lmi_onnx_model *m, const lmi_onnx_use *uses, const lam_watcher *watcher,
                          lam_builder *b, lam_error *e);

/* The model of a graph; `o`: whether its weights are checked; NULL: they are not. */
lam_status lmi_onnx_build(lam_model **out, lmi_onnx_model *m, const lam_read_options *o,
                          uint64_t memory_limit, lam_error *e);

#endif
