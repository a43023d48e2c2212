/* SPDX-License-Identifier: Apache-2.0
 * snapshot: the state of a model that a forward may change, saved so that it can be restored. */
#ifndef LMX_SNAPSHOT_H
#define LMX_SNAPSHOT_H

#include "base/ext.h"
#include "observe/open_capture.h"

typedef enum lmx_container_type { LMX_BOX_NONE, LMX_BOX_DICT, LMX_BOX_LIST, LMX_BOX_SET } lmx_container_type;

/* The saved content of a dict, list or set: `n` references from `at` on, two for each entry of a dict. */
typedef struct lmx_container {
    PyObject *object; /* strong */
    uint32_t at, n;
    int32_t node; /* the module that holds it */
    lmx_container_type type;
} lmx_container;

/* An object of a class written in Python that a module holds, also in its containers; or a module whose class
 * has slots. */
typedef struct lmx_object {
    PyObject *object, *name; /* strong; name: of the attribute, NULL of a module */
    int32_t node;
} lmx_object;

/* Most containers of a module are its empty dicts of hooks. They have no box: the reference to them is
 * marked. */
static inline bool lmx_is_empty_box(const PyObject *ref) { return (uintptr_t)ref & 1; }
static inline PyObject *lmx_ref(PyObject *ref) { return (PyObject *)((uintptr_t)ref & ~(uintptr_t)1); }
static inline PyObject *lmx_mark_empty(PyObject *ref) { return (PyObject *)((uintptr_t)ref | 1); }

typedef struct lmx_kept { /* a parameter, a buffer or a tensor held as a plain attribute */
    PyObject *tensor, *name;
    PyObject *clone;    /* its values, if they are not in `bytes`; or NULL */
    PyObject *grad;     /* of a parameter; NULL otherwise */
    PyObject *hooks[2]; /* the dicts of hooks that run with its gradient; NULL if it has none */
    PyObject *data;     /* a tensor with its shape and memory; or NULL */
    void *held;         /* the same from lmx_hold; or NULL */
    PyTypeObject *type; /* strong: a lazy layer's tensors change theirs */
    const char *bytes;  /* its values, in the snapshot's `values`, `n_bytes` of them */
    size_t n_bytes;
    size_t sampled; /* the number of bytes that `sample` covers; 0: no sample */
    /* If sampled, or of an argument: the identity of its memory, as operators report it; 0 unknown. */
    uint64_t memory;
    uint64_t object; /* of an argument: its own identity */
    char *saved;     /* of an argument: its `n_saved` bytes from before the first write; or NULL */
    size_t n_saved;
    bool parted;  /* of an argument: its values are those of other tensors, which are kept too */
    bool written; /* an operator wrote to it in place */
    uint64_t sample;
    int64_t version;        /* torch's count of writes; -1: unknown */
    uint64_t storage, form; /* form: a hash of its dtype, its device and, if known, its strides */
    int32_t node, ndim;
    int64_t sizes[8];               /* the first ones; a tensor of more axes is compared by those */
    bool requires_grad, knows_grad; /* the latter: requires_grad is known */
} lmx_kept;

/* Of the modules under a root, or of a run's arguments: then there is no tree, nodes are -1, and each name is
 * that of the argument. */
typedef struct lmx_snapshot {
    PyObject_HEAD lmx_state *st;
    lmx_tree tree;
    lmi_vec types;         /* PyTypeObject *, one a node: a lazy layer changes its own */
    lmi_vec training;      /* PyObject *, one a node: the flag of a scripted module, else NULL */
    lmi_vec boxes;         /* lmx_container: every module's dict, and what is in it */
    lmi_vec refs;          /* PyObject *, some marked */
    lmi_vec kept;          /* lmx_kept */
    lmi_arena values;      /* of buffers and of small tensors */
    lmi_vec draws;         /* lmx_generator: random number generators that modules hold */
    lmi_map seen;          /* tensor -> kept */
    lmi_vec objects;       /* lmx_object */
    lmi_map within;        /* the containers that others hold, and the objects; each is kept once */
    PyTypeObject *no_draw; /* the last type that is no generator; only compared, not owned */
    size_t plain;          /* the size of an instance of nn.Module, which has no slots; 0: not known yet */
    PyObject *problems;    /* while restoring: a list of names */
    bool untouched;        /* lmx_snapshot_holds found nothing to restore, and nothing has run since */
} lmx_snapshot;

/* A snapshot of the capture's model, whose modules are described on the way. NULL with an
 * exception. */
PyObject *lmx_snapshot_for(lmx_capture *c);
/* True if the descriptions of the modules are still valid: their dicts, their tensors' memory, shapes and
 * requires_grad are the same. Also false with an exception. No user code may run between this and the
 * restore. */
bool lmx_snapshot_holds(PyObject *snapshot);
void lmx_snapshot_doubt(PyObject *snapshot); /* user code may run; NULL is allowed */

lmx_container_type lmx_container_type_of(PyObject *o);
Py_ssize_t lmx_container_size(PyObject *o, lmx_container_type type);
/* Saves a dict, list or set and its content. */
bool lmx_container_keep(lmx_snapshot *s, int32_t node, PyObject *object, lmx_container_type type);
/* True if its content is unchanged. Also false with an exception. */
bool lmx_container_is_same(lmx_snapshot *s, const lmx_container *box);
/* Restores its content if it differs. False with an exception. */
bool lmx_container_restore(lmx_snapshot *s, const lmx_container *box);

/* A random number generator and its saved state. */
typedef struct lmx_generator {
    PyObject *object, *name, *state; /* strong */
    int32_t node;
    const struct lmx_generator_kind *how;
} lmx_generator;
/* Saves a generator of torch, Python or numpy; ignores anything else. */
bool lmx_generator_keep(lmx_snapshot *s, int32_t node, PyObject *name, PyObject *value);
bool lmx_generator_restore(lmx_snapshot *s, const lmx_generator *draw);

/* `registered`: a parameter or buffer, whose gradient is kept too; `clone`: values of any size are copied. */
bool lmx_tensor_keep(lmx_snapshot *s, int32_t node, PyObject *name, PyObject *tensor, bool registered,
                     bool clone);
/* True if its memory, shape and requires_grad are unchanged. Also false with an exception. Clears `untouched`
 * if values or a gradient may have to be restored, or an exception is pending. */
bool lmx_tensor_is_same(lmx_snapshot *s, const lmx_kept *kept, bool *untouched);
/* `memory`: the set of memory that operators wrote to. False with an exception. */
bool lmx_tensor_was_written(lmx_kept *kept, PyObject *memory);
bool lmx_tensor_restore(lmx_snapshot *s, lmx_kept *kept);
void lmx_kept_free(lmx_kept *kept, const lmx_torch *t);
/* Copies the values of an argument that is about to be written to. False with an exception. */
bool lmx_tensor_save(lmx_snapshot *s, lmx_kept *kept);

/* Calls `instead` for each value in the dicts and lists of modules, and in tuples there, and puts its result,
 * a new reference, in its place: NULL without an exception leaves the value. False with an exception. */
typedef PyObject *lmx_instead(void *self, PyObject *value);
bool lmx_snapshot_replace(lmx_snapshot *s, lmx_instead *instead, void *self);

/* The methods for the arguments of a run, for objects, and for tensors with a graph (given.c). */
PyObject *lmx_given_keep(PyObject *self, PyObject *args);
PyObject *lmx_given_memory(PyObject *self, PyObject *unused);
PyObject *lmx_given_save(PyObject *self, PyObject *address);
PyObject *lmx_objects(PyObject *self, PyObject *unused);
PyObject *lmx_graphs(PyObject *self, PyObject *unused);

/* Notes that `name` of module `node` could not be restored, and clears the exception. False only for an
 * exception that must reach the user. */
bool lmx_problem(lmx_snapshot *s, int32_t node, PyObject *name, const char *what);

#endif
