/* SPDX-License-Identifier: Apache-2.0
 * tensor: tensors, values that hold them, and how they are spread over processes. */
#ifndef LMX_TENSOR_H
#define LMX_TENSOR_H

#include "base/base.h"

/* == tensors (torch.c, tensor.c) ======================================================================= */

/* Finds torch among the modules that are already imported. False with an exception. */
bool lmx_torch_ready(lmx_state *st);
void lmx_torch_forget_types(lmx_torch *t);
/* A module that somebody has imported, a new reference; NULL without an exception. */
PyObject *lmx_imported(const char *name);
/* The libtorch_cpu of the torch that was imported; nothing is loaded. The caller closes the handle. NULL
 * without an exception. */
void *lmx_torch_library(void);
/* A function that a library exports, into the pointer at `function`; NULL and false where there is none. */
bool lmx_symbol(void *library, const char *name, void *function);
/* Every function that the library has; NULL for the others. */
void lmx_shim_load(lmx_shim *s, void *library);
bool lmx_shim_tells(const lmx_shim *s); /* those are there that every tensor needs */
void lmx_torch_clear(lmx_torch *t);
int lmx_torch_visit(lmx_torch *t, visitproc visit, void *arg);
PyObject *lmx_describe_status(PyObject *module, PyObject *unused);

enum { LMX_CPU = 0, LMX_META = 14 }; /* c10::DeviceType, of which no header in C tells */

typedef struct lmx_tensor {
    int32_t dtype, device, ndim; /* -1: unknown */
    uint64_t storage;        /* the address of its data; 0 unknown */
    uint64_t memory, object; /* of what holds its data, which views share; of itself; 0 unknown */
    const int64_t *sizes; /* in `own` or in the tensor: valid while the tensor lives unchanged */
    int64_t own[LMX_DIMS];
} lmx_tensor;

/* A handle to another tensor that holds the memory of one that was described so; NULL where it can't be had.
 * It is for lmx_held, or for the shim's `release`. (hold.c) */
void *lmx_hold(const lmx_torch *t, PyObject *tensor, const lmx_tensor *d);
PyObject *lmx_held(lmx_state *st, void *held); /* what it holds, as a tensor; NULL with an exception */
/* Nothing is held like that unless it works with the probe. */
void lmx_prove_hold(lmx_state *st, PyObject *probe);
/* Whether gradients are wanted of a tensor. False with an exception. */
bool lmx_wants_grad(lmx_state *st, PyObject *tensor, bool *wanted);
/* True for a tensor that has no gradient now; false also where only its attribute can tell. */
bool lmx_has_no_grad(lmx_state *st, PyObject *tensor);
void lmx_load_grads(lmx_grads *g, void *library);
void lmx_prove_grads(lmx_state *st, PyObject *probe); /* gives the functions up where they tell otherwise */

lmx_kind lmx_classify(lmx_state *st, PyObject *o);
/* A tensor of a class that is torch's own: nothing about it is answered by code of the user's. */
static inline bool lmx_is_torchs(const lmx_state *st, PyObject *o)
{
    return Py_TYPE(o) == st->torch.tensor || Py_TYPE(o) == st->torch.parameter;
}
static inline lmx_kind lmx_kind_of(lmx_state *st, PyObject *o)
{
    if (lmx_is_torchs(st, o)) return LMX_PLAIN;
    PyTypeObject *type = Py_TYPE(o);
    size_t at = ((uintptr_t)type >> 4 ^ (uintptr_t)type >> 12) & (LMX_TYPES - 1);
    return st->torch.types[at] == type ? (lmx_kind)st->torch.kinds[at] : lmx_classify(st, o);
}
static inline bool lmx_is_tensor(lmx_state *st, PyObject *o)
{
    lmx_kind kind = lmx_kind_of(st, o);
    return kind == LMX_PLAIN || kind == LMX_ODD;
}
/* Describes a tensor. What it will not tell stays unknown. False only for an exception that must reach the
 * user, and when memory ran out. */
bool lmx_describe(lmx_state *st, PyObject *tensor, lmx_kind kind, lmx_tensor *out);

/* What identifies the memory of the tensor behind a handle (an at::Tensor), the same for all its views; 0:
 * not known. Nothing of Python is touched. */
uint64_t lmx_memory_of(const lmx_layout *l, const lmx_shim *s, const void *handle);
/* The same of a Python tensor, as captures of operators tell it. */
uint64_t lmx_memory_here(const lmx_state *st, PyObject *tensor, lmx_kind kind);
/* What a sparse tensor stores: elements, those with their indices, and the bytes of both; -1 unknown. */
typedef struct lmx_sparse {
    int64_t values, stored, bytes;
} lmx_sparse;
/* Asks the tensor itself; *sparse false: it is none. False as lmx_describe. */
bool lmx_sparse_read(PyObject *tensor, lmx_sparse *out, bool *sparse);
/* The same of a handle: nothing of Python is touched. False where it is not sparse, or that can't be told. */
bool lmx_sparse_of(const lmx_shim *s, const void *handle, lmx_sparse *out);
/* Finds in libtorch_cpu what that needs, as far as it is there. */
void lmx_sparse_load(lmx_shim *s, void *library);
/* The tensors, unpacked, of what dict[name] keeps packed for the machine, a new list; NULL without an
 * exception where it keeps none. `told` false: some could not be unpacked. */
PyObject *lmx_unpacked(lmx_state *st, PyObject *dict, PyObject *name, bool *told);

/* == tensors inside values (find.c) ==================================================================== */

/* One tensor that was found; `ndim` sizes follow it. */
typedef struct lmx_found {
    uint64_t storage, memory, object;
    int32_t dtype, device, ndim, position, name, unused;
} lmx_found;

enum { LMX_DEPTH = 12, LMX_BUDGET = 16384 };
typedef struct lmx_finder {
    lmx_state *st;
    lmx_vec *words;         /* int64 words; lmx_found and sizes are appended */
    int32_t position, name; /* of the value that is being looked through */
    int32_t n;              /* tensors found */
    int32_t budget;         /* values that may still be looked at */
    /* a result: the entries of the outermost container are numbered, a lone tensor is 0 */
    bool numbered;
    bool cut;               /* depth or budget ended the search */
    bool values;            /* there are numbers or arrays too */
    bool nomem;
    PyObject *path[LMX_DEPTH]; /* the containers that are open, to cut cycles */
    /* Told of each tensor instead of describing it in `words`; false as lmx_describe. NULL: none */
    bool (*each)(struct lmx_finder *f, PyObject *tensor, lmx_kind kind);
    void *self; /* for `each` */
    /* The name of a dict's entry, by that of the dict. NULL: entries have the dict's */
    int32_t (*entry)(struct lmx_finder *f, PyObject *key);
    void *names; /* for `entry` */
} lmx_finder;
/* False as lmx_describe. `depth` is 0 for whoever asks first. */
bool lmx_find(lmx_finder *f, PyObject *value, int depth);

/* Whether this process works with others: torch has a group of processes. Never fails (spread.c). */
bool lmx_has_group(lmx_state *st);
/* How many elements of a tensor, which was described as a whole, other processes hold; 0 for a plain one. */
int64_t lmx_elsewhere(lmx_state *st, PyObject *tensor, const lmx_tensor *whole);

#endif
