/* SPDX-License-Identifier: Apache-2.0
 * trails: the operator or node that made the non-finite values in some memory. Results that an operator
 * computes from such memory have the same origin, so the origin of a result is known when it is found. Memory
 * is identified by the address of its storage. Any thread; the caller holds the lock. */
#ifndef LMX_TRAILS_H
#define LMX_TRAILS_H

#include "base/ext.h"

typedef struct lmx_trail {
    int32_t origin; /* the record of its origin, from 1; 0: unknown, or intended */
    bool mask;      /* -Inf alone */
    bool back;      /* made by a backward pass */
    bool taken;     /* some operator used it */
} lmx_trail;

typedef struct lmx_trails {
    lmi_map at;         /* storage -> index in `all` */
    lmi_vec all;        /* trails with what is known of them (trails.c) */
    lmi_vec alive;      /* int32_t per record: the number of storages that still hold its values */
    _Atomic uint32_t n; /* the number of trails so far; read without the lock */
} lmx_trails;

/* False: nothing is known of that memory. */
bool lmx_trail_at(const lmx_trails *t, uint64_t storage, lmx_trail *out);
/* True if it was noted after the first `n` (lmx_trails.n). */
bool lmx_trail_since(const lmx_trails *t, uint64_t storage, uint32_t n);
/* If memory runs out, the trail ends. */
void lmx_trail_put(lmx_trails *t, uint64_t storage, lmx_trail trail);
void lmx_trail_drop(lmx_trails *t, uint64_t storage);
/* An operator used that memory: its result has its own trail. */
void lmx_trail_taken(lmx_trails *t, uint64_t storage);
/* The same for all memory with this origin. */
void lmx_trail_end(lmx_trails *t, int32_t origin);
/* True if operators used all memory with this origin and made only finite values of it. */
bool lmx_trail_gone(const lmx_trails *t, int32_t origin);
void lmx_trails_free(lmx_trails *t);

#endif
