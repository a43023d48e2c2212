/* SPDX-License-Identifier: Apache-2.0
 * tensor: tensors, values that hold them, and how they are spread over processes. */
#ifndef LMX_TENSOR_H
#define LMX_TENSOR_H

#include "base/ext.h"

/* == tensors (library.c, tensor.c) ======================================================================= */

/* Finds torch among the modules that are already imported. False with an exception. */
bool lmx_torch_ready(lmx_state *st);
void lmx_torch_forget_types(lmx_torch *t);
/* A module that is already imported, a new reference; NULL without an exception. */
PyObject *lmx_imported(const char *name);
/* The libtorch_cpu of the torch that was imported; nothing is loaded. The caller closes the handle. NULL
 * without an exception. */
void *lmx_torch_library(void);
/* Loads the functions that the library has; NULL for the others. */
void lmx_shim_load(lmx_shim *s, void *library);
void lmx_torch_clear(lmx_torch *t);
int lmx_torch_visit(lmx_torch *t, visitproc visit, void *arg);
PyObject *lmx_describe_status(PyObject *module, PyObject *unused);

/* A handle to another tensor of the same memory, from a tensor's description; NULL: not possible. For
 * lmx_held, or the shim's `release`. (tensor_memory.c) */
void *lmx_hold(const lmx_torch *t, PyObject *tensor, const lmx_tensor *d);
PyObject *lmx_held(lmx_state *st, void *held); /* the handle as a tensor; NULL with an exception */
/* Tests lmx_hold with the probe and disables it on failure. */
void lmx_prove_hold(lmx_state *st, PyObject *probe);
/* Reads requires_grad. False with an exception. */
bool lmx_wants_grad(lmx_state *st, PyObject *tensor, bool *wanted);
/* True if the tensor has no gradient now; false also if only its attribute shows that. */
bool lmx_has_no_grad(lmx_state *st, PyObject *tensor);
/* The same of hooks that run with its gradient. */
bool lmx_has_no_hooks(lmx_state *st, PyObject *tensor);
PyObject *lmx_put_gradient(PyObject *module, PyObject *args);
/* Sets a tensor's gradient, also to one that torch does not accept for it. False, maybe with an exception: it
 * could not. */
bool lmx_give_gradient(lmx_state *st, PyObject *tensor, PyObject *grad);
void lmx_load_grads(lmx_torch *t, void *library);     /* after its shim */
void lmx_prove_grads(lmx_state *st, PyObject *probe); /* disables the functions if their results are wrong */

lmx_kind lmx_classify(lmx_state *st, PyObject *o);
/* True for a tensor of torch's own class: reading it runs no user code. */
static inline bool lmx_is_torchs(const lmx_state *st, PyObject *o) {
    return Py_TYPE(o) == st->torch.tensor || Py_TYPE(o) == st->torch.parameter;
}
static inline lmx_kind lmx_kind_of(lmx_state *st, PyObject *o) {
    if (lmx_is_torchs(st, o)) return LMX_PLAIN;
    PyTypeObject *type = Py_TYPE(o);
    size_t at = ((uintptr_t)type >> 4 ^ (uintptr_t)type >> 12) & (LMX_TYPES - 1);
    return st->torch.types[at] == type ? (lmx_kind)st->torch.kinds[at] : lmx_classify(st, o);
}
static inline bool lmx_is_tensor(lmx_state *st, PyObject *o) {
    lmx_kind kind = lmx_kind_of(st, o);
    return kind == LMX_PLAIN || kind == LMX_ODD;
}
/* Describes a tensor; properties that can't be read stay unknown. False only for an exception that must reach
 * the user, and if memory ran out. */
bool lmx_describe(lmx_state *st, PyObject *tensor, lmx_kind kind, lmx_tensor *out);

/* The address of a tensor's first element, a new int; NULL with an exception. It is for reading alone, where
 * torch has that: for one to write through torch copies memory that is shared until it is written to. */
PyObject *lmx_read_address(const lmx_state *st, PyObject *tensor);

/* That of this torch; one in which nothing is known, if operators are not watched (tensor.c). */
const lmx_layout *lmx_layout_of(const lmx_state *st);

/* The identity of a Python tensor's memory (lmx_memory_of), as in captures of operators. */
uint64_t lmx_memory_here(const lmx_state *st, PyObject *tensor, lmx_kind kind);
/* Reads the Python tensor; *sparse false: it is dense. False as lmx_describe. */
bool lmx_sparse_read(PyObject *tensor, lmx_sparse *out, bool *sparse);
/* The tensors of a sparse Python tensor, a new list; NULL, maybe with an exception: it is dense. */
PyObject *lmx_sparse_parts(PyObject *tensor);
/* Finds the functions of libtorch_cpu for this, if they are exported. */
void lmx_sparse_load(lmx_shim *s, void *library);
/* The unpacked tensors of packed weights, a new list; NULL without an exception if the value is something
 * else. `complete` false: some could not be unpacked. */
PyObject *lmx_unpacked(lmx_state *st, PyObject *value, bool *complete);

/* == tensors inside values (find_tensors.c) ============================================================== */

/* One tensor that was found; `ndim` sizes follow it. */
typedef struct lmx_found {
    uint64_t storage, memory, object;
    int32_t dtype, device, ndim, position, name, unused;
} lmx_found;

enum { LMX_DEPTH = 12, LMX_BUDGET = 16384 };
typedef struct lmx_finder {
    lmx_state *st;
    lmi_vec *words;         /* int64 words; lmx_found and sizes are appended */
    int32_t position, name; /* of the value that is being searched */
    int32_t n;              /* tensors found */
    int32_t budget;         /* values that may still be searched */
    /* a result: the entries of the outermost container are numbered, a lone tensor is 0 */
    bool numbered;
    bool cut;    /* depth or budget ended the search */
    bool values; /* there are numbers or arrays too */
    bool nomem;
    PyObject *path[LMX_DEPTH]; /* the containers that are open, to cut cycles */
    /* Called for each tensor instead of describing it in `words`; false as lmx_describe. NULL: none */
    bool (*each)(struct lmx_finder *f, PyObject *tensor, lmx_kind kind);
    void *self; /* for `each` */
    /* The name of a dict's entry, by that of the dict. NULL: entries have the dict's */
    int32_t (*entry)(struct lmx_finder *f, PyObject *key);
    void *names; /* for `entry` */
} lmx_finder;
/* False as lmx_describe. `depth` is 0 for the first call. */
bool lmx_find(lmx_finder *f, PyObject *value, int depth);

/* True if torch has an initialised process group. Never fails (sharded.c). */
bool lmx_has_group(lmx_state *st);

/* == tensors whose memory lies in others (stored.c) ====================================================== */

/* Calls `each` for the tensors in which a tensor's memory lies: itself, or those that it wraps, at any depth.
 * `unknown`: some of them are not known. False with an exception. It may run the code of a tensor's class. */
typedef struct lmx_part_visitor {
    bool (*each)(void *self, PyObject *part);
    void *self;
    bool unknown;
} lmx_part_visitor;
bool lmx_each_part(lmx_state *st, PyObject *tensor, lmx_part_visitor *v);

typedef struct lmx_stored {
    int64_t bytes, here; /* of the whole tensor; in this process; -1: unknown */
    int64_t elsewhere;   /* elements in other processes */
    bool wraps;          /* false: it has memory itself, and the rest is not set */
} lmx_stored;
/* Measures a tensor that wraps others. Memory that was counted before counts no more: `seen`, a dict, has
 * what was. False as lmx_describe. */
bool lmx_weigh(lmx_state *st, PyObject *tensor, PyObject *seen, lmx_stored *out);

#endif
