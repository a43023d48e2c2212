/* SPDX-License-Identifier: Apache-2.0
 * handles: what a tensor is, by its handle. Nothing here touches Python. */
#ifndef LMX_HANDLES_H
#define LMX_HANDLES_H

#include "native/layout.h"
#include "process/device_api.h"

#include "lamina.h"

enum { LMX_CPU = 0, LMX_META = 14 }; /* c10::DeviceType, which is in no C header */

typedef struct lmx_tensor {
    int32_t dtype, device, ndim; /* -1: unknown */
    uint64_t storage;            /* the address of its data; 0 unknown, or none */
    uint64_t memory, object;     /* identity of its memory, which views share; of itself; 0 unknown */
    const int64_t *sizes;        /* in `own` or in the tensor: valid while the tensor lives unchanged */
    int64_t own[LMX_DIMS];
} lmx_tensor;

typedef bool (*lmx_is_fake)(uint64_t address); /* true for the address of a tensor without values */
/* Bytes from a tensor's first element to its last; 0 if they can't be computed. */
uint64_t lmx_span(int32_t dtype, int32_t ndim, const int64_t *sizes, const int64_t *strides);
/* The address of a handle's first element, read-only where this torch can; false: none is given. To give one
 * that can be written to, torch copies memory that is shared until then, and raises for a fake tensor of its
 * compiler, which takes a millisecond. */
bool lmx_data_of(const lmx_shim *s, const void *handle, uint64_t *out);
/* The identity of the memory of a handle's tensor (an at::Tensor), the same for all its views; 0: unknown.
 * Python is not touched. */
uint64_t lmx_memory_of(const lmx_layout *l, const lmx_shim *s, const void *handle);
/* The stored data of a sparse tensor: elements, elements and indices, and the bytes of both; -1 unknown. */
typedef struct lmx_sparse {
    int64_t values, stored, bytes;
} lmx_sparse;
/* Reads it. False: the tensor is not sparse, or unknown. */
bool lmx_sparse_of(const lmx_layout *l, const lmx_shim *s, const void *handle, lmx_sparse *out);
/* Adds one of its tensors, values last, with `elements` of `item` bytes; -1 makes all unknown. */
void lmx_sparse_add(lmx_sparse *out, int64_t elements, int64_t item);
/* A new handle of the tensor that has the values of a sparse or nested one, for `release`; NULL: it is
 * neither, or they can't be read. */
void *lmx_stored_values(const lmx_layout *l, const lmx_shim *s, const void *handle);
/* Where the values of a tensor are: in this machine's memory, or in that of a GPU. */
typedef struct lmx_where_values {
    lam_values v;
    int64_t offset, storage;
    int32_t gpu; /* its index; -1: this machine's memory */
} lmx_where_values;
/* False: unknown. Only v.sizes is set if the tensor has no memory. */
bool lmx_find_values(const lmx_layout *l, const lmx_shim *s, const lmx_streams *gpu, void *handle,
                     int32_t dtype, lmx_where_values *out);
int64_t lmx_count_values(const lam_values *v);            /* -1: too many */
uint64_t lmx_begin_of_values(const lmx_where_values *at); /* the address of their memory */
/* True if the values are in memory. A tensor that represents others, such as a DTensor, has none: its
 * address is its offset alone. */
bool lmx_has_values(const lmx_where_values *at);
/* Counts the mask of an at::Tensor; false if its values can't be read. Only if the functions were found, and
 * were right for a test tensor (torch/values.h). */
bool lmx_mask_at(const lmx_layout *l, const lmx_shim *s, const void *handle, lmx_is_fake nowhere,
                 lam_mask *out);

#endif
