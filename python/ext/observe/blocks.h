/* SPDX-License-Identifier: Apache-2.0
 * blocks: every block of memory that was handed out while someone looked, and when it was taken back. Any
 * thread may add and drop at any time; nothing of Python is touched. Reading is for when that has ended. */
#ifndef LMX_BLOCKS_H
#define LMX_BLOCKS_H

#include "observe/clock.h"

#include <stddef.h>

/* On whose behalf something happens. */
typedef struct lmx_whose {
    int32_t call; /* -1: nobody's */
    uint8_t phase;
    bool elsewhere; /* on a thread that does nothing for the capture */
} lmx_whose;

typedef struct lmx_block {
    uint64_t address;
    int64_t bytes;
    /* among all that was handed out and taken back, from 1; 0: before, or never */
    int64_t order, freed_order;
    int64_t t0_ns, t1_ns;
    lmx_whose by, freed_by;
    uint8_t held; /* what somebody said that it is, 0 nothing; of */
    uint64_t of;  /* what */
} lmx_block;

typedef struct lmx_blocks lmx_blocks;

/* What comes and goes is stamped by that clock, which must have ended when the blocks are read; NULL: by the
 * monotonic one. NULL where memory ran out. */
lmx_blocks *lmx_blocks_new(const lmx_clock *clock);
void lmx_blocks_free(lmx_blocks *b);
/* A block was handed out at `address`. What was there before must be gone, and counts as taken back now.
 * Memory that runs out is told by lmx_blocks_lost. */
void lmx_blocks_add(lmx_blocks *b, uint64_t address, int64_t bytes, lmx_whose by);
/* The next come and go at this moment; 0: as they do. For what is told afterwards, where the clock
 * does not count. */
void lmx_blocks_moment(lmx_blocks *b, int64_t ns);
/* Says what the block at `address` is, if nobody has yet. Where none is known there, one of so many bytes was
 * there when looking began. */
void lmx_blocks_tell(lmx_blocks *b, uint64_t address, int64_t bytes, uint8_t held, uint64_t of);
/* What is at `address` is taken back; nothing where it is not known. */
void lmx_blocks_drop(lmx_blocks *b, uint64_t address, lmx_whose by);
/* A moment: how many of these were noted so far. */
int64_t lmx_blocks_now(const lmx_blocks *b);

/* Once nobody adds and drops any more. */
bool lmx_blocks_lost(const lmx_blocks *b); /* memory ran out, or */
bool lmx_blocks_full(const lmx_blocks *b); /* there was more than is kept */

typedef struct lmx_reading {
    lmx_block *blocks; /* in the order in which they were handed out, those of before first */
    size_t n;
    int64_t *orders; /* by moment: the last order until then */
} lmx_reading;

/* False where memory ran out. */
bool lmx_blocks_read(const lmx_blocks *b, lmx_reading *r);
void lmx_reading_free(lmx_reading *r);

#endif
