/* SPDX-License-Identifier: Apache-2.0
 * looks: the values of a tensor, read where they lie. Only plain tensors in this machine's memory are read:
 * none that is fake, sparse, wrapped, on another device, or longer than its memory says. */
#ifndef LMX_LOOKS_H
#define LMX_LOOKS_H

#include "torch/layout.h"
#include "torch/tensor.h"

typedef enum lmx_seen {
    LMX_SEEN,       /* looked at */
    LMX_NEVER_BAD,  /* its type has neither NaN nor Inf, or it has no elements; nothing was read */
    LMX_NOT_TO_READ /* it can't be looked at */
} lmx_seen;

typedef struct lmx_look {
    lam_nonfinite found;
    uint64_t data;    /* where its first element lies */
    uint64_t storage; /* and its storage; 0: not told */
    int64_t bytes;
    bool whole;          /* it is all of its storage */
    int32_t dtype, ndim; /* ndim -1: more axes than are kept */
    int64_t sizes[LAM_MAX_AXES];
    lam_stats stats; /* where they are wanted */
} lmx_look;

static inline bool lmx_look_bad(const lmx_look *l) { return l->found.nan > 0 || l->found.inf > 0; }
/* -Inf and nothing worse. */
static inline bool lmx_look_masks(const lmx_look *l) {
    return l->found.nan == 0 && l->found.inf == l->found.negative;
}

typedef struct lmx_looker {
    lmx_state *st;
    const lmx_shim *shim;
    bool by_shim; /* the functions were found and told the truth of a tensor that was tried */
    bool wants_stats;
    PyObject *n_version, *n_stride, *n_offset, *n_storage; /* interned names */
    /* Results that were looked at lately, as long as they live: where they go in next they need no look. */
    struct {
        PyObject *ref; /* a weak reference; NULL: free */
        const void *tensor;
        uint64_t data, storage;
        int64_t version;
        bool allowed; /* whatever is in it is no finding */
        lam_nonfinite found;
    } known[64];
} lmx_looker;

/* False with an exception. */
bool lmx_looker_open(lmx_looker *k, lmx_state *st);
void lmx_looker_forget(lmx_looker *k); /* what is known of tensors, which it looks at as ever */
void lmx_looker_close(lmx_looker *k);  /* twice does nothing */
/* Of the tensor behind an at::Tensor, with or without the GIL (`gil`: held, and given up for long ones);
 * `by_shim` only. */
lmx_seen lmx_look_at(const lmx_looker *k, const void *handle, bool gil, lmx_look *out);
/* Where its storage begins, without a look at values; 0: it will not tell. */
uint64_t lmx_look_storage(const lmx_looker *k, const void *handle);
/* Whether `by_shim` is so in this process. Whatever fails is forgotten and means no. */
bool lmx_reads_values(lmx_state *st);
/* What the mask behind an at::Tensor leaves; false where its values can't be read. Only where
 * lmx_reads_values(). Nothing of Python is touched. */
bool lmx_mask_at(const lmx_shim *s, const void *handle, lam_mask *out);
/* Of a Python tensor. What was known of it is taken again. Never fails: what it will not tell is not to be
 * read. False only for an exception that must reach the user. */
bool lmx_look_into(lmx_looker *k, PyObject *tensor, lmx_kind kind, lmx_look *out, lmx_seen *seen);
/* Told by an operator's name: it gives memory that was not written; numbers that were there before, in
 * another place or type; or a view of memory. */
bool lmx_gives_unwritten(const char *name);
bool lmx_only_copies(const char *name);
bool lmx_moves_nothing(const char *name);
/* How often it was written to, as far as torch counts that; -1: it does not, as under inference_mode. */
int64_t lmx_look_version(const lmx_looker *k, PyObject *tensor);
/* From now on nothing in this tensor is a finding, as long as it lives unchanged. */
void lmx_look_allow(lmx_looker *k, PyObject *tensor, const lmx_look *look);

#endif
