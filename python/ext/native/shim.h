/* SPDX-License-Identifier: Apache-2.0
 * shim: the C functions of libtorch that describe a tensor by its handle, the address of an at::Tensor. */
#ifndef LMX_SHIM_H
#define LMX_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LMX_FORMS = 5, LMX_PARTS = 3 }; /* of sparse tensors: layouts, and the tensors that make one up */

/* The C functions of libtorch that describe a tensor: names, types and meaning as in its stable C shim. */
typedef struct lmx_shim {
    int32_t (*dim)(void *tensor, int64_t *out);
    int32_t (*sizes)(void *tensor, int64_t **out);
    int32_t (*dtype)(void *tensor, int32_t *out);
    int32_t (*device)(void *tensor, int32_t *out);
    int32_t (*device_index)(void *tensor, int32_t *out); /* -1: the CPU's; may be NULL */
    int32_t (*data)(void *tensor, void **out);
    int32_t (*release)(void *tensor);
    int32_t (*offset)(void *tensor, int64_t *out); /* of its first element in its memory; may be NULL */
    /* The next three may be NULL: whether it is contiguous, its strides, another tensor of its memory. */
    int32_t (*dense)(void *tensor, bool *out);
    int32_t (*strides)(void *tensor, int64_t **out);
    int32_t (*again)(void *tensor, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset,
                     void **out);
    int32_t (*layout)(void *tensor, int32_t *out); /* may be NULL; dense tensors have none of these: */
    struct lmx_form {
        int32_t layout;
        /* Each makes a tensor of a sparse one, its values last. C++: `out` is where the handle is written. */
        void *(*parts[LMX_PARTS])(void *out, const void *tensor);
        const void *table; /* the C++ class that has them; NULL: not exported */
    } forms[LMX_FORMS];
    struct lmx_form nested;      /* its only part has the values of all tensors in it, one after the other */
    void *(*room)(size_t bytes); /* memory for a handle, for `release`; NULL: stored elements are unknown */
    int32_t (*storage)(void *tensor, int64_t *out); /* bytes of its memory; may be NULL */
    /* As `data`, for reading. May be NULL. lmx_data_of() (handles.h) chooses. */
    int32_t (*peek)(void *tensor, const void **out);
    /* C++: torch's negation bit: its values are the negated ones in memory, as of z.conj().imag. May be
     * NULL. */
    bool (*negated)(const void *tensor);
    const void *undefined; /* the C++ object behind every undefined tensor; may be NULL */
} lmx_shim;

/* autograd's data of a tensor, by its C++ object; NULL: not exported (autograd.c). */
typedef struct lmx_grads {
    bool (*wanted)(const void *impl);      /* requires_grad */
    const void *(*grad)(const void *impl); /* a reference to an at::Tensor */
    /* The same to be written to, and a new handle of a tensor; NULL: not exported, or not as expected. */
    void *(*slot)(void *impl);
    int32_t (*handle)(void *tensor, void **out);
    int32_t hooks; /* where the Python object has two dicts of hooks, NULL for none; 0: not known */
} lmx_grads;

enum { LMX_DIMS = 64 };

/* Stores a function that a library exports in the pointer at `function`; NULL and false if there is none. */
bool lmx_symbol(void *library, const char *name, void *function);
bool lmx_shim_tells(const lmx_shim *s); /* true if the functions that every tensor needs exist */

#endif
