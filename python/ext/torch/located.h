/* SPDX-License-Identifier: Apache-2.0
 * located: where a tensor's memory is, and its gradient's (located.c). Needs the GIL. */
#ifndef LMX_LOCATED_H
#define LMX_LOCATED_H

#include "base/base.h"

/* What torch exports. */
typedef struct lmx_allocator {
    void *alloc, *free;
    int32_t (*storage_size)(void *tensor, int64_t *out); /* NULL: not exported */
} lmx_allocator;
/* False with a reason in `why` and no exception. */
bool lmx_allocator_find(lmx_allocator *f, char *why, size_t size);

typedef struct lmx_located {
    uint64_t address; /* 0: none, or not known */
    int64_t bytes;
    bool elsewhere; /* on another device */
} lmx_located;
/* False only for an exception that must reach the user. */
bool lmx_locate(lmx_state *st, const lmx_allocator *f, PyObject *tensor, lmx_located *out);

/* Asking a tensor for its gradient makes a Python object of it, hundreds of them a step. torch's C++ gives
 * the handle: used once it was seen to give what was set, which is tried here, once. */
void lmx_gradient_prove(lmx_state *st);
/* Where the gradient of a tensor is; all 0 where it has none. False where Python has to be asked for it. */
bool lmx_gradient_locate(lmx_state *st, const lmx_allocator *f, PyObject *tensor, lmx_located *out);

/* What a method without arguments answers, an int; 0 where it does not. Never leaves an exception. */
int64_t lmx_ask(PyObject *o, const char *method);
/* A new tensor on the CPU, whatever the default is. NULL with an exception, or when `torch` is NULL. */
PyObject *lmx_new_tensor(PyObject *torch, long elements);

#endif
