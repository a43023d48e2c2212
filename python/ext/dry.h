/* SPDX-License-Identifier: Apache-2.0
 * dry: a forward that computes nothing. Every tensor is a fake one: a tensor of the CPU with sizes, strides
 * and a type, at an address where there are no values. Dry is the base of a mode of torch's, which answers
 * each operator with more of them. */
#ifndef LMX_DRY_H
#define LMX_DRY_H

#include "snapshot.h"

/* What of torch makes tensors without memory; names and types as in libtorch's stable C shim. */
typedef struct lmx_blob_api {
    int32_t (*make)(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                    int32_t dtype, int32_t device, int32_t device_index, void **handle);
    int32_t (*strides)(void *tensor, int64_t **out);
} lmx_blob_api;

typedef struct lmx_dry {
    PyObject_HEAD
    lmx_state *st;
    PyTypeObject *fake, *known; /* of a tensor without values, and its subclass: with values */
    PyObject *slow, *about;     /* what answers where no rule does; what tells of an operator */
    /* torch's: a tensor as one of a subclass, a tensor of a handle, a guard under which nothing comes here */
    PyObject *subclass, *steal, *below;
    PyObject *capture;          /* strong: what runs to answer is not the model's */
    bool paused;                /* what the capture was before the operator that is answered */
    PyObject *held;             /* list: keeps what is in the maps */
    lmx_blob_api api;
    lmx_map functions; /* an overload -> its entry */
    lmx_vec entries;
    lmx_map swapped;   /* a real tensor -> index of its fake one in `held` */
} lmx_dry;

/* Sizes and strides in elements. */
typedef struct lmx_plain {
    int32_t dtype, ndim;
    const int64_t *sizes, *strides;
} lmx_plain;

/* Reads a tensor's; false without an exception where it has no plain layout. */
bool lmx_plain_of(lmx_dry *d, PyObject *tensor, lmx_plain *out);
/* A fake tensor at an address of its own; NULL with an exception. */
PyObject *lmx_fake(lmx_dry *d, PyTypeObject *type, const lmx_plain *shape, bool requires_grad);
/* The fake one of a real tensor, made once; NULL with an exception. */
PyObject *lmx_fake_of(lmx_dry *d, PyObject *tensor);
/* Puts fake tensors in the place of those that the snapshot's modules hold. False with an exception. */
bool lmx_swap(lmx_dry *d, lmx_snapshot *s);

#endif
