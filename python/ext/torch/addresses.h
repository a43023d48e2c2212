/* SPDX-License-Identifier: Apache-2.0
 * addresses: the addresses of a tensor's memory and of its gradient (addresses.c). Needs the GIL. */
#ifndef LMX_ADDRESSES_H
#define LMX_ADDRESSES_H

#include "base/ext.h"

/* torch's exported functions. */
typedef struct lmx_allocator {
    void *alloc, *free;
    int32_t (*storage_size)(void *tensor, int64_t *out); /* NULL: not exported */
} lmx_allocator;
/* False with a reason in `why` and no exception. */
bool lmx_allocator_find(lmx_allocator *f, char *why, size_t size);

typedef struct lmx_address_of {
    uint64_t address; /* 0: none, or not known */
    int64_t bytes;
    bool elsewhere; /* on another device */
} lmx_address_of;
/* False only for an exception that must reach the user. */
bool lmx_locate(lmx_state *st, const lmx_allocator *f, PyObject *tensor, lmx_address_of *out);

/* The same from Python's storage, also of a tensor without elements. */
void lmx_locate_storage(lmx_state *st, PyObject *tensor, lmx_address_of *out);

/* The address of the memory of a tensor's storage, read as lmx_read_address does; 0: none, or not known. */
uint64_t lmx_storage_address(const lmx_state *st, PyObject *tensor, PyObject *storage);

/* Reading a gradient from Python makes a Python object, hundreds in a step. torch's C++ function returns the
 * handle; it is used if it returns a known gradient, which this tests once. */
void lmx_gradient_prove(lmx_state *st);
/* The address of a tensor's gradient; all 0 if it has none. False: read it from Python. */
bool lmx_gradient_locate(lmx_state *st, const lmx_allocator *f, PyObject *tensor, lmx_address_of *out);

/* The int that a method without arguments returns; 0 on failure. Never leaves an exception. */
int64_t lmx_ask(PyObject *o, const char *method);
/* A new tensor on the CPU, regardless of the default. NULL with an exception, or if `torch` is NULL. */
PyObject *lmx_new_tensor(PyObject *torch, long elements);

#endif
