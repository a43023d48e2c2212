/* SPDX-License-Identifier: Apache-2.0
 * dry: a forward that computes nothing. Every tensor is a fake one: a tensor of the CPU with sizes, strides
 * and a type, at an address where there are no values. Dry is the base of a mode of torch's, which answers
 * each operator with more of them. */
#ifndef LMX_DRY_H
#define LMX_DRY_H

#include "modules/snapshot.h"
#include "observe/ledger.h"

/* What of torch makes tensors without memory; names and types as in libtorch's stable C shim. */
typedef struct lmx_blob_api {
    int32_t (*make)(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                    int32_t dtype, int32_t device, int32_t device_index, void **handle);
    int32_t (*strides)(void *tensor, int64_t **out);
    /* The same, and `drop` is told when the memory is not needed any more; NULL: this torch can't. */
    int32_t (*owned)(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                     int32_t dtype, int32_t device, int32_t device_index, void **handle, int32_t layout,
                     const uint8_t *metadata, int64_t n_metadata, void (*drop)(void *data, void *context),
                     void *context);
} lmx_blob_api;

typedef struct lmx_dry {
    PyObject_HEAD lmx_state *st;
    PyTypeObject *fake, *known; /* of a tensor without values, and its subclass: with values */
    PyObject *slow, *about;     /* what answers where no rule does; what tells of an operator */
    PyObject *lone;             /* tells whether only autograd's engine holds a tensor; NULL: not asked */
    PyObject *taken;            /* tells what an operator takes beside its results; NULL: not asked */
    /* torch's: a tensor as one of a subclass, tensors of handles, a guard under which nothing comes here */
    PyObject *subclass, *steal, *below;
    PyObject *capture;   /* strong: what runs to answer is not the model's */
    bool paused;         /* what the capture was before the operator that is answered */
    PyObject *written;   /* set: addresses of tensors that views were written to of; NULL: none */
    PyObject *seen_last; /* weak, to the view of one of these that was made last; or NULL */
    PyObject *chain;     /* list: numbers of the nodes of that view and of those it is a view of */
    int32_t n_cuts;      /* how many of these views have fewer elements than what they are of */
    PyObject *rebuilt;   /* set: numbers of nodes where a real run has another; NULL: none */
    bool rebuilt_told;
    PyObject *held; /* list: keeps what is in the maps */
    int32_t op;     /* the last one noted before what is answered now */
    int64_t turn;   /* of what is answered now (ledger.h) */
    lam_cpu cpu;
    bool given;    /* what is made stands for what was there before the run */
    int32_t dtype; /* of floating-point tensors that were there before the run; -1: as they are */
    lmx_blob_api api;
    lmx_map functions; /* an overload -> its entry */
    lmx_vec entries;
    lmx_map swapped; /* a real tensor -> index of its fake one in `held` */
} lmx_dry;

/* Sizes and strides in elements. */
typedef struct lmx_plain {
    int32_t dtype, ndim;
    const int64_t *sizes, *strides;
} lmx_plain;

/* When memory is taken and given back; NULL: nobody asks. */
static inline lmx_ledger *lmx_ledger_of(const lmx_dry *d) {
    return d->capture ? ((lmx_capture *)d->capture)->ledger : NULL;
}

/* True where one of `callers`, each between spaces, called the operator that is answered; NULL: none is asked
 * for. Then the methods of the type that tell of callers and say what counts (ways.c). */
bool lmx_dry_elsewhere(const lmx_dry *d, const char *callers);
PyObject *lmx_dry_caller(PyObject *self, PyObject *level);
PyObject *lmx_dry_here(PyObject *self, PyObject *unused);
PyObject *lmx_dry_aside(PyObject *self, PyObject *args);
PyObject *lmx_dry_whole(PyObject *self, PyObject *level);
PyObject *lmx_dry_decided(PyObject *self, PyObject *level);
/* Once a view was written to, torch goes back through views of the same memory by one operator of its own,
 * and where tensors have a class of their own by what made them: it makes them anew and drops them. To be
 * told of what an operator in place writes to, of each view that was made, and of each operator before it is
 * answered; all are false with an exception. */
bool lmx_dry_wrote(lmx_dry *d, PyObject *tensor);
bool lmx_dry_viewed(lmx_dry *d, PyObject *of, PyObject *view);
bool lmx_dry_look_back(lmx_dry *d);
/* Reads a tensor's; false without an exception where it has no plain layout. */
bool lmx_plain_of(lmx_dry *d, PyObject *tensor, lmx_plain *out);
/* A fake tensor at an address of its own; NULL with an exception. */
PyObject *lmx_fake(lmx_dry *d, PyTypeObject *type, const lmx_plain *p, bool requires_grad);
/* A fake tensor with the values of a real one, which is of the same sizes; NULL with an exception. */
PyObject *lmx_fake_with(lmx_dry *d, PyObject *tensor);
/* The fake one of a real tensor, made once; NULL with an exception. */
PyObject *lmx_fake_of(lmx_dry *d, PyObject *tensor);
/* The arguments of an operator, and the strides of those that are tensors. */
typedef struct lmx_operands {
    int32_t n;
    const lam_op_arg *in;
    const int64_t *const *strides;
} lmx_operands;

/* The strides of a result; false where they can't be told. */
bool lmx_lay_out(const lmx_operands *r, lam_order order, const lam_result *out, int64_t *strides);
/* True where the elements fill their memory without gaps, in whatever order of axes longer than 1. */
bool lmx_is_dense(const lam_op_arg *a, const int64_t *strides);
/* The result of aten::add where torch would have written it to the first operand; NULL with an exception, or
 * without one where it would not. */
PyObject *lmx_added_in_place(lmx_dry *d, PyObject *args);
/* Puts fake tensors in the place of those that the snapshot's modules hold. False with an exception. */
bool lmx_swap(lmx_dry *d, lmx_snapshot *s);

#endif
