/* SPDX-License-Identifier: Apache-2.0
 * regions: how often compiled code began to run on a thread. torch records each piece of it that torch's
 * compiler made, under a name that begins alike in all versions. */
#ifndef LMX_REGIONS_H
#define LMX_REGIONS_H

#include "base/ext.h"

/* True for torch's name of a piece of compiled code that runs. */
bool lmx_is_region(const char *name);
/* Begins to count on this thread, if that has not begun. False, without an exception, if torch does not offer
 * it. */
bool lmx_regions_begin(lmx_state *st);
void lmx_regions_end(void); /* on this thread */
typedef struct lmx_regions {
    uint64_t begun;
    uint64_t passes; /* of them, backward passes as a whole: autograd itself is compiled, and runs no nodes */
} lmx_regions;
lmx_regions lmx_regions_here(void); /* how many have begun on this thread while they were counted */

#endif
