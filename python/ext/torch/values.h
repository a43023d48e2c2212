/* SPDX-License-Identifier: Apache-2.0
 * values: reads the values of a tensor in place, or those in a GPU's memory (process/device_values.h).
 * Only strided tensors are read: none that is fake, sparse, wrapped, on a third device, or larger than its
 * memory. */
#ifndef LMX_VALUES_H
#define LMX_VALUES_H

#include "process/device_api.h"
#include "torch/tensor.h"

typedef enum lmx_seen {
    LMX_SEEN,       /* its values were read */
    LMX_NEVER_BAD,  /* its type has neither NaN nor Inf, or it has no elements; nothing was read */
    LMX_NOT_TO_READ /* its values can't be read */
} lmx_seen;

typedef struct lmx_look {
    lam_nonfinite found;
    uint64_t data;    /* the address of its first element */
    uint64_t storage; /* the address of its storage; 0: unknown */
    int64_t bytes;
    bool whole;          /* it is all of its storage */
    bool gpu;            /* it is in a GPU's memory */
    int32_t dtype, ndim; /* ndim -1: more axes than are kept */
    int64_t sizes[LAM_MAX_AXES];
    lam_stats stats; /* if requested */
} lmx_look;

static inline bool lmx_look_bad(const lmx_look *l) { return l->found.nan > 0 || l->found.inf > 0; }
/* -Inf and nothing worse. */
static inline bool lmx_look_masks(const lmx_look *l) {
    return l->found.nan == 0 && l->found.inf == l->found.negative;
}

typedef struct lmx_looker {
    lmx_state *st;
    const lmx_shim *shim;
    bool by_shim; /* the functions were found, and were right for a test tensor */
    bool wants_stats;
    const lmx_streams *gpu;                                /* NULL: a GPU's tensors can't be read */
    PyObject *n_version, *n_stride, *n_offset, *n_storage; /* interned names */
    /* Recent results, while they live: as arguments they need not be read again. */
    struct {
        PyObject *ref; /* a weak reference; NULL: free */
        const void *tensor;
        uint64_t data, storage;
        int64_t version;
        bool allowed; /* its values are never a finding */
        lam_nonfinite found;
    } known[64];
} lmx_looker;

/* False with an exception. */
bool lmx_looker_open(lmx_looker *k, lmx_state *st);
void lmx_looker_forget(lmx_looker *k); /* clears `known` */
void lmx_looker_close(lmx_looker *k);  /* a second call does nothing */
/* Reads the tensor of an at::Tensor, with or without the GIL (`gil`: held, and released for large ones and
 * those of a GPU, which is waited for); only if `by_shim`. */
lmx_seen lmx_look_at(const lmx_looker *k, const void *handle, bool gil, lmx_look *out);
/* The address of the tensor's storage, without reading values; 0: unknown. */
uint64_t lmx_look_storage(const lmx_looker *k, const void *handle);
/* True if `by_shim` holds in this process. An error is cleared and means false. */
bool lmx_reads_values(lmx_state *st);
/* Reads a Python tensor, or reuses what is known of it. A tensor that can't be read is LMX_NOT_TO_READ. False
 * only for an exception that must reach the user. */
bool lmx_look_into(lmx_looker *k, PyObject *tensor, lmx_kind kind, lmx_look *out, lmx_seen *seen);
/* By an operator's name: it returns uninitialised memory; only copies or converts values; or returns a view.
 */
bool lmx_gives_unwritten(const char *name);
bool lmx_only_copies(const char *name);
bool lmx_moves_nothing(const char *name);
/* torch's count of writes to the tensor; -1: torch does not count, as under inference_mode. */
int64_t lmx_look_version(const lmx_looker *k, PyObject *tensor);
/* From now on the values of this tensor are no finding, while it lives unchanged. */
void lmx_look_allow(lmx_looker *k, PyObject *tensor, const lmx_look *look);

#endif
