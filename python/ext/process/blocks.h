/* SPDX-License-Identifier: Apache-2.0
 * blocks: records every allocation and free of memory during a capture. Any thread may add and drop blocks at
 * any time; Python is not touched. Read the blocks after the capture has ended. */
#ifndef LMX_BLOCKS_H
#define LMX_BLOCKS_H

#include "process/clock.h"

#include <stddef.h>

/* The call and phase that an allocation or free belongs to. */
typedef struct lmx_whose {
    int32_t call; /* -1: none */
    uint8_t phase;
    bool elsewhere; /* on a thread that runs none of the capture's calls */
} lmx_whose;

typedef struct lmx_block {
    uint64_t address;
    int64_t bytes;
    /* number among all allocations and frees, from 1; 0: before the capture, or not freed */
    int64_t order, freed_order;
    int64_t t0_ns, t1_ns;
    lmx_whose by, freed_by;
    uint8_t held; /* its use, from lmx_blocks_tell; 0: unknown */
    uint64_t of;  /* the tensor of that use */
} lmx_block;

typedef struct lmx_blocks lmx_blocks;

/* Allocations and frees are stamped by that clock, which must have ended when the blocks are read; NULL: by
 * the monotonic one. Returns NULL if memory ran out. */
lmx_blocks *lmx_blocks_new(const lmx_clock *clock);
void lmx_blocks_free(lmx_blocks *b);
/* A block was allocated at `address`. An earlier block there counts as freed now. lmx_blocks_lost reports if
 * memory ran out. */
void lmx_blocks_add(lmx_blocks *b, uint64_t address, int64_t bytes, lmx_whose by);
/* Sets the time of the next allocations and frees; 0: the current time. For events that are added afterwards,
 * with a clock that does not count. */
void lmx_blocks_moment(lmx_blocks *b, int64_t ns);
/* Sets the use of the block at `address`, if it has none yet. If no block is known there, one of `bytes`
 * bytes existed before the capture. */
void lmx_blocks_tell(lmx_blocks *b, uint64_t address, int64_t bytes, uint8_t held, uint64_t of);
/* The block at `address` is freed; an unknown address does nothing. */
void lmx_blocks_drop(lmx_blocks *b, uint64_t address, lmx_whose by);
/* The current moment: the number of allocations and frees so far. */
int64_t lmx_blocks_now(const lmx_blocks *b);

/* After the last add and drop: */
bool lmx_blocks_lost(const lmx_blocks *b); /* memory ran out */
bool lmx_blocks_full(const lmx_blocks *b); /* the limit of blocks was reached */

typedef struct lmx_reading {
    lmx_block *blocks; /* in the order of allocation, those from before the capture first */
    size_t n;
    int64_t *orders; /* by moment: the last order until then */
} lmx_reading;

/* False: memory ran out. */
bool lmx_blocks_read(const lmx_blocks *b, lmx_reading *r);
void lmx_reading_free(lmx_reading *r);

#endif
