/* SPDX-License-Identifier: Apache-2.0
 * memory: the memory use of a run, from blocks (memory.c) or an allocator's statistics (devicememory.c). */
#ifndef LMI_ANALYSE_MEMORY_H
#define LMI_ANALYSE_MEMORY_H

#include "analyse/costs.h"

enum { LMI_MEMORY_CHUNK = 64 }; /* orders that are summed up together */

struct lam_memory {
    lmi_arena arena;
    const lam_model *m;
    bool back;      /* a backward pass ran */
    bool by_device; /* orders are readings of a device's allocator; nothing is held */
    lam_memory_totals total;
    int64_t n;         /* orders: 0 is the opening */
    int64_t *live;     /* bytes in use after each order (of a device: the maximum since the previous one) */
    int64_t *when;     /* the time of each order */
    int64_t *greatest; /* maxima of live: a tree over chunks, leaf i at n_chunks + i */
    int64_t n_chunks;
    int64_t *last; /* of each call: the order at which it returned; n: it did not */
    lam_memory_row *calls, *places;
    int64_t (*held)[LAM_N_HELD], (*below)[LAM_N_HELD]; /* of each place */
    int64_t unplaced[LAM_N_HELD];
    uint8_t *holds;                 /* the lam_held of the block of each order */
    int64_t (*held_at)[LAM_N_HELD]; /* the parts of `live` at the first order of each chunk */
};

/* Allocates all arrays, once `n` is known. False: memory ran out. */
bool lmi_memory_allocate(lam_memory *y);
/* Once `live` is filled: the maximum from one order to another, both included. */
void lmi_memory_index(lam_memory *y);
int64_t lmi_memory_greatest(const lam_memory *y, int64_t from, int64_t to);
/* Fills the totals of `calls` from their own numbers, and `places` from `calls`. */
lam_status lmi_memory_sum_up(lam_memory *y, lam_error *e);
void lmi_memory_places(lam_memory *y);
/* The use of a block; needs `last`. */
lam_held lmi_memory_held_as(const lam_memory *y, const lam_block *k);
/* True if the numbers of a phase are known: of a backward, if one ran and its memory is known by layer. */
bool lmi_memory_tells(const lam_memory *y, lam_phase phase);
/* The name of the phase that the peak was in; NULL: unknown, or none. */
const char *lmi_peak_phase(const lam_memory_totals *x);
/* Fills `holds` and `held_at` (course.c). */
lam_status lmi_memory_holds(lam_memory *y, lam_error *e);

#endif
