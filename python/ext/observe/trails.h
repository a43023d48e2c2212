/* SPDX-License-Identifier: Apache-2.0
 * trails: which operator or node made what is not finite in some memory. What an operator makes of such
 * memory comes of the same one, so who is to blame for a result can be asked when it is met. Memory is told
 * by where its storage begins. Any thread; the caller holds the lock. */
#ifndef LMX_TRAILS_H
#define LMX_TRAILS_H

#include "base/base.h"

typedef struct lmx_trail {
    int32_t origin; /* the record of who made it, counted from 1; 0: not known, or wanted */
    bool mask;      /* -Inf and nothing worse */
    bool back;      /* made by a backward pass */
    bool taken;     /* some operator took it */
} lmx_trail;

typedef struct lmx_trails {
    lmx_map at;         /* storage -> index in `all` */
    lmx_vec all;        /* trails with what is known of them (trails.c) */
    lmx_vec alive;      /* int32_t per record: in how many storages it is still to be met */
    _Atomic uint32_t n; /* how many there have been; read without the lock */
} lmx_trails;

/* False: nothing is known of that memory. */
bool lmx_trail_at(const lmx_trails *t, uint64_t storage, lmx_trail *out);
/* It was noted after so many had been (lmx_trails.n). */
bool lmx_trail_since(const lmx_trails *t, uint64_t storage, uint32_t n);
/* Where memory runs out the trail ends. */
void lmx_trail_put(lmx_trails *t, uint64_t storage, lmx_trail trail);
void lmx_trail_drop(lmx_trails *t, uint64_t storage);
/* An operator took what is there: what it made of it has a trail of its own. */
void lmx_trail_taken(lmx_trails *t, uint64_t storage);
/* The same of all that came of this record. */
void lmx_trail_end(lmx_trails *t, int32_t origin);
/* All that came of this record was taken, and nothing that is not finite was made of it. */
bool lmx_trail_gone(const lmx_trails *t, int32_t origin);
void lmx_trails_free(lmx_trails *t);

#endif
