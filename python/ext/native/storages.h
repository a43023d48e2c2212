/* SPDX-License-Identifier: Apache-2.0
 * storages: for each piece of memory, which operator or node first wrote NaN or Inf into it.
 * Results that an operator computes from such memory have the same origin, so the origin of a result is known
 * when it is found. Memory is identified by the address of its storage. Any thread; the caller holds the
 * lock. */
#ifndef LMX_STORAGES_H
#define LMX_STORAGES_H

#include "native/vec.h"

#include <stdatomic.h>

typedef struct lmx_storage {
    int32_t origin; /* the record of its origin, from 1; 0: unknown, or intended */
    bool mask;      /* -Inf alone */
    bool back;      /* made by a backward pass */
    bool taken;     /* some operator used it */
} lmx_storage;

typedef struct lmx_storages {
    lmi_map at;         /* storage -> index in `all` */
    lmi_vec all;        /* trails, as storages.c keeps them */
    lmi_vec alive;      /* int32_t per record: the number of storages that still hold its values */
    _Atomic uint32_t n; /* the number of trails so far; read without the lock */
} lmx_storages;

/* Reads the trail of that memory; false if there is none. */
bool lmx_storage_at(const lmx_storages *t, uint64_t storage, lmx_storage *out);
/* True if the storage was noted after the first `n` trails (lmx_storages.n). */
bool lmx_storage_since(const lmx_storages *t, uint64_t storage, uint32_t n);
/* Sets the trail of that memory; if memory runs out, it has none. */
void lmx_storage_put(lmx_storages *t, uint64_t storage, lmx_storage trail);
void lmx_storage_drop(lmx_storages *t, uint64_t storage);
/* Notes that an operator used that memory: the operator's result has a separate trail. */
void lmx_storage_taken(lmx_storages *t, uint64_t storage);
/* Notes that operators used all memory with this origin. */
void lmx_storage_end(lmx_storages *t, int32_t origin);
/* True if operators used all memory with this origin and made only finite values of it. */
bool lmx_storage_gone(const lmx_storages *t, int32_t origin);
void lmx_storages_free(lmx_storages *t);

#endif
