/* SPDX-License-Identifier: Apache-2.0
 * memory: what a run did with memory, by blocks (memory.c) or by what an allocator says (devicememory.c). */
#ifndef LMI_ANALYSE_MEMORY_H
#define LMI_ANALYSE_MEMORY_H

#include "analyse/costs.h"

struct lam_memory {
    lmi_arena arena;
    const lam_model *m;
    bool by_device; /* orders are moments at which its allocator was asked; nothing is held */
    lam_memory_totals total;
    int64_t n;         /* orders: 0 is the opening */
    int64_t *live;     /* after each of them (of a device: the most since the one before), */
    int64_t *when;     /* and its time */
    int64_t *greatest; /* of live: a tree over chunks, leaf i at n_chunks + i */
    int64_t n_chunks;
    int64_t *last; /* of each call: the order at which it returned; n: it did not */
    lam_memory_row *calls, *places;
    int64_t (*held)[LAM_N_HELD], (*below)[LAM_N_HELD]; /* of each place */
    int64_t unplaced[LAM_N_HELD];
};

/* Room for all of it, once `n` is known. False where memory ran out. */
bool lmi_memory_allocate(lam_memory *y);
/* Once `live` is there: the greatest from one order to another, both included. */
void lmi_memory_index(lam_memory *y);
int64_t lmi_memory_greatest(const lam_memory *y, int64_t from, int64_t to);
/* Places from calls. */
void lmi_memory_places(lam_memory *y);

#endif
