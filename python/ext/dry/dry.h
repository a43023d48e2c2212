/* SPDX-License-Identifier: Apache-2.0
 * dry: a forward that computes nothing. Every tensor is a fake one: a CPU tensor with sizes, strides and a
 * type, at an address without memory. Dry is the base of a dispatch mode, which answers each operator with
 * fake tensors. */
#ifndef LMX_DRY_H
#define LMX_DRY_H

#include "modules/snapshot.h"
#include "native/ledger.h"

/* torch's functions that make tensors without memory; names and types as in libtorch's stable C shim. */
typedef struct lmx_blob_api {
    int32_t (*make)(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                    int32_t dtype, int32_t device, int32_t device_index, void **handle);
    int32_t (*strides)(void *tensor, int64_t **out);
    /* The same; `drop` is called when the memory is no longer needed. NULL: not in this torch. */
    int32_t (*owned)(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                     int32_t dtype, int32_t device, int32_t device_index, void **handle, int32_t layout,
                     const uint8_t *metadata, int64_t n_metadata, void (*drop)(void *data, void *context),
                     void *context);
} lmx_blob_api;

/* When an operator's answer is that of an earlier one with equal arguments (repeats.c). */
typedef enum lmx_repeats {
    LMX_REPEATS_NEVER,
    LMX_REPEATS_PURE,   /* always: it makes new tensors, which depend on sizes alone */
    LMX_REPEATS_WRITES, /* unless values are known that it writes to; it returns arguments */
    LMX_REPEATS_VIEWS   /* if torch's C functions make views; it makes some of its first argument */
} lmx_repeats;
enum { LMX_DEVICE, LMX_N_PLAIN = 4 }; /* types of torch whose objects are arguments */

typedef struct lmx_dry {
    PyObject_HEAD lmx_state *st;
    PyTypeObject *fake, *known; /* of a tensor without values, and its subclass with values */
    PyObject *slow, *about;     /* answers if no rule does; describes an operator */
    PyObject *ask;              /* raises if torch's kernel does not accept such arguments */
    PyObject *lone;             /* true if only autograd's engine holds a tensor; NULL: not needed */
    PyObject *taken;            /* returns an operator's workspace; NULL: not needed */
    /* torch's: makes a tensor of a subclass, takes a tensor from a handle, a guard that disables this mode */
    PyObject *subclass, *steal, *below;
    PyObject *capture;   /* strong; operators that run for an answer are not the model's */
    bool paused;         /* the capture's state before the operator that is answered */
    PyObject *written;   /* set: addresses of tensors whose views were written to; NULL: none */
    PyObject *seen_last; /* weak, to the last view of one of these; or NULL */
    PyObject *chain;     /* list: numbers of the nodes of that view and of its bases */
    int32_t n_cuts;      /* the number of these views with fewer elements than their base */
    PyObject *rebuilt;   /* set: numbers of nodes that differ in a real run; NULL: none */
    bool rebuilt_noted;
    PyObject *held;   /* list: owns the objects in the maps */
    PyObject *leaves; /* list: a pair of a leaf that wants a gradient and its fake tensor for each */
    PyObject *others; /* list: the fake tensors that have another class than `fake` while the run lasts */
    lmi_map classed;  /* each of these -> its index in that */
    int32_t op;     /* index of the operator noted last before the answer */
    int64_t turn;   /* of the operator that is answered (ledger.h) */
    lam_cpu cpu;
    bool elsewhere; /* a tensor from before the run is not on the CPU */
    bool given;     /* fake tensors now replace tensors from before the run */
    bool real;      /* operators run: a module is being imported, and keeps what it makes */
    int32_t dtype;  /* of floating-point tensors from before the run; -1: unchanged */
    PyObject *inference; /* torch's guard of an inference mode, if fakes of tensors from one are too */
    PyObject *class_of;  /* returns the class for the fake of a tensor of a program's class */
    lmx_blob_api api;
    lmi_map functions; /* an overload -> its entry */
    lmi_map asked;     /* a hash of an operator and the types of its arguments (ask.c) */
    lmi_vec entries;
    lmi_map swapped;   /* a real tensor -> index of its fake one in `held` */
    lmi_map wholes;    /* memory of real tensors -> index in `held` of a fake tensor of all of it */
    PyObject *repeats; /* dict: answers by operator and arguments, both as bytes */
    PyObject *plain[LMX_N_PLAIN];
    lmi_vec words;     /* in use while one of these is written */
    bool special;      /* the answer has effects of its own: it is not kept */
    PyObject *suppose; /* gives values to unknown results of one element; NULL: they stay unknown */
} lmx_dry;

/* Sizes and strides in elements. */
typedef struct lmx_plain {
    int32_t dtype, ndim;
    const int64_t *sizes, *strides;
} lmx_plain;

/* The workspace that was noted for an operator, and the bytes of its results (-1: by their shapes). */
typedef struct lmx_noted {
    lam_taken what;
    int64_t bytes, left;
} lmx_noted;

/* The lifetimes of memory; NULL: not requested. */
static inline lmx_ledger *lmx_ledger_of(const lmx_dry *d) {
    return d->capture ? ((lmx_capture *)d->capture)->dry.ledger : NULL;
}

/* True if one of `callers`, each between spaces, called the operator that is answered; NULL: none. Below are
 * the methods of the type for callers and counting (fake_kernels.c). */
bool lmx_dry_elsewhere(const lmx_dry *d, const char *callers);
PyObject *lmx_dry_caller(PyObject *self, PyObject *level);
PyObject *lmx_dry_casts(PyObject *self, PyObject *device);
PyObject *lmx_dry_here(PyObject *self, PyObject *unused);
PyObject *lmx_dry_aside(PyObject *self, PyObject *args);
PyObject *lmx_dry_whole(PyObject *self, PyObject *level);
PyObject *lmx_dry_decided(PyObject *self, PyObject *level);
/* Methods of the type for what is there before a step (kept.c). */
PyObject *lmx_dry_before(PyObject *self, PyObject *what);
PyObject *lmx_dry_belongs(PyObject *self, PyObject *args);
PyObject *lmx_dry_step(PyObject *self, PyObject *args);
PyObject *lmx_dry_done(PyObject *self, PyObject *unused);
PyObject *lmx_dry_more(PyObject *self, PyObject *why);
/* Methods of the type that make new fake tensors (fakes.c). */
PyObject *lmx_dry_like(PyObject *self, PyObject *tensor);
PyObject *lmx_dry_beside(PyObject *self, PyObject *tensor);
PyObject *lmx_dry_fake_of(PyObject *self, PyObject *tensor);
PyObject *lmx_dry_in_class(PyObject *self, PyObject *args);
PyObject *lmx_dry_owns(PyObject *self, PyObject *address);
PyObject *lmx_dry_over(PyObject *self, PyObject *unused);
PyObject *lmx_dry_leaves(PyObject *self, PyObject *unused);
PyObject *lmx_dry_alike(PyObject *self, PyObject *args);
/* After a view was written to, torch's backward goes through the views of that memory in one operator, but
 * for tensor subclasses in the operators that made them: it makes those views again and drops them. Call
 * these for the target of an in-place operator, for each new view, and for each operator before it is
 * answered; all are false with an exception. */
bool lmx_dry_wrote(lmx_dry *d, PyObject *tensor);
bool lmx_dry_viewed(lmx_dry *d, PyObject *of, PyObject *view);
bool lmx_dry_look_back(lmx_dry *d);
/* True if no keyword argument can change a shape. */
bool lmx_dry_harmless(PyObject *kwargs);
/* Asks once whether torch's kernel accepts arguments of these types, and of these sizes if they are small
 * (_dry/kernels.py). False with the kernel's exception. */
bool lmx_dry_ask(lmx_dry *d, PyObject *function, PyObject *args, PyObject *kwargs);
/* Reads a tensor's layout; false without an exception if it is not strided. */
bool lmx_plain_of(lmx_dry *d, PyObject *tensor, lmx_plain *out);
/* A new fake tensor at a separate address; NULL with an exception. */
PyObject *lmx_fake(lmx_dry *d, PyTypeObject *type, const lmx_plain *p, bool requires_grad);
/* A fake tensor with the values of a real one of the same sizes; NULL with an exception. */
PyObject *lmx_fake_with(lmx_dry *d, PyObject *tensor);
/* Another tensor of the memory of a fake one, of its class; NULL with an exception. `offset`: in elements,
 * from its own first one. Call it below torch's dispatch. */
PyObject *lmx_fake_view(lmx_dry *d, PyObject *tensor, const lmx_plain *p, int64_t offset);
/* The answer, with supposed values for results of one unknown number. Takes `out`; NULL with an exception. */
PyObject *lmx_supposed(lmx_dry *d, PyObject *function, PyObject *out);
/* The fake tensor for a real one, made once; NULL with an exception. */
PyObject *lmx_fake_of(lmx_dry *d, PyObject *tensor);
/* Gives a fake tensor a class for which a program may ask, while the run lasts. False with an exception. */
bool lmx_in_class(lmx_dry *d, PyObject *fake, PyTypeObject *type);
/* True for a fake tensor of this run, in any class. */
static inline bool lmx_dry_is(const lmx_dry *d, PyObject *o) {
    return Py_TYPE(o) == d->fake || Py_TYPE(o) == d->known ||
           (d->classed.n && PyType_IsSubtype(Py_TYPE(o), d->st->torch.tensor) &&
            lmx_map_get(&d->classed, o) >= 0);
}
/* The class of the views of a fake tensor. */
static inline PyTypeObject *lmx_class_of_views(const lmx_dry *d, PyObject *fake) {
    return Py_TYPE(fake) == d->known ? d->known : d->fake;
}
/* True for the address of a fake tensor. */
bool lmx_dry_address(uint64_t address);
/* lmx_dry_below begins a section in which modes and classes of tensors are disabled; its result goes to
 * lmx_dry_above, which ends the section and returns `result`. NULL with an exception. */
PyObject *lmx_dry_below(lmx_dry *d);
PyObject *lmx_dry_above(lmx_dry *d, PyObject *guard, PyObject *result);
/* The arguments of an operator, and the strides of those that are tensors. */
typedef struct lmx_operands {
    int32_t n;
    const lam_op_arg *in;
    const int64_t *const *strides;
} lmx_operands;

/* The strides of a result; false if unknown. */
bool lmx_lay_out(const lmx_operands *r, lam_order order, const lam_result *out, int64_t *strides);
/* True if the elements fill their memory without gaps, in any order of axes longer than 1. */
bool lmx_is_dense(const lam_op_arg *a, const int64_t *strides);
/* The result of aten::add if torch would write it to the first operand; NULL with an exception, or without
 * one if it would not. */
PyObject *lmx_added_in_place(lmx_dry *d, PyObject *args);
/* The key of an operator with these arguments; NULL without an exception if its answer can't be kept. */
PyObject *lmx_repeats_key(lmx_dry *d, lmx_repeats as, PyObject *function, PyObject *args, PyObject *kwargs);
/* A hash of an operator and the types of its arguments, and of their sizes and numbers if the tensors are
 * small. 0: all values are known, or an argument can't be read. */
uint64_t lmx_repeats_question(lmx_dry *d, PyObject *function, PyObject *args, PyObject *kwargs);
/* Keeps an answer if it can be made anew: if its tensors are arguments, or new. False with an exception. */
bool lmx_repeats_keep(lmx_dry *d, PyObject *key, PyObject *args, PyObject *out, lmx_repeats as,
                      const lmx_noted *noted);
/* True if there is an answer: `*noted` is set, and `*out`, unless there is one, made (NULL with an
 * exception). */
bool lmx_repeats_given(lmx_dry *d, PyObject *key, PyObject *args, PyObject **out, lmx_noted *noted);
/* Replaces the tensors of the snapshot's modules with fake ones. False with an exception. */
bool lmx_swap(lmx_dry *d, lmx_snapshot *s);

#endif
