/* SPDX-License-Identifier: Apache-2.0
 * alloc: every block of memory that torch's allocator for the CPU hands out and takes back while someone
 * looks. torch's libraries call c10::alloc_cpu and c10::free_cpu through entries that redirect.c can change;
 * no torch offers a way to listen that costs as little. Nothing of Python is touched here. */
#ifndef LMX_ALLOC_H
#define LMX_ALLOC_H

#include "observe/blocks.h"

typedef struct lmx_alloc {
    lmx_blocks *blocks;
    /* Says on whose behalf the calling thread works; called from any thread, at any time while it is open. */
    lmx_whose (*whose)(void *self);
    void *self;
    int slot;
    bool forked; /* this is another process than the one that opened it */
} lmx_alloc;

enum { LMX_ALLOCS = 8 }; /* that may be open at a time */

/* Begins to look. `alloc` and `free` are the two functions themselves. The caller sees to it that no two
 * threads open or close at a time. False with a reason. */
bool lmx_alloc_open(lmx_alloc *a, void *alloc, void *free, char *why, size_t size);
/* Ends it; what was recorded stays. With the last one, every entry is put back as it was. */
void lmx_alloc_close(lmx_alloc *a);
/* How many entries there are, 0 before the first was opened. */
size_t lmx_alloc_entries(void);

#endif
