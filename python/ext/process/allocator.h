/* SPDX-License-Identifier: Apache-2.0
 * allocator: every allocation and free of torch's CPU allocator during a capture. torch's libraries call
 * c10::alloc_cpu and c10::free_cpu through entries that import_table.c can change; torch has no interface for
 * this that costs as little. Nothing here touches Python. */
#ifndef LMX_ALLOCATOR_H
#define LMX_ALLOCATOR_H

#include "process/blocks.h"

typedef struct lmx_alloc {
    lmx_blocks *blocks;
    /* Returns the call and phase of the calling thread; called on any thread while it is open. */
    lmx_whose (*whose)(void *self);
    void *self;
    int slot;
    bool forked; /* false before it opens; true in another process than the one that opened it */
} lmx_alloc;

enum { LMX_ALLOCS = 8 }; /* that may be open at a time */

/* Starts recording. `alloc` and `free` are the two functions themselves. The caller makes sure that no two
 * threads open or close at a time. False with a reason. */
bool lmx_alloc_open(lmx_alloc *a, void *alloc, void *free, char *why, size_t size);
/* Stops recording; the records stay. The last close restores every entry. */
void lmx_alloc_close(lmx_alloc *a);
/* The number of entries, 0 before the first open. */
size_t lmx_alloc_entries(void);

#endif
