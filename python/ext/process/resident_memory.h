/* SPDX-License-Identifier: Apache-2.0
 * resident_memory: the memory of this process as the kernel counts it. */
#ifndef LMX_RESIDENT_MEMORY_H
#define LMX_RESIDENT_MEMORY_H

#include <stdint.h>

/* Resident bytes, now and the most that there ever were; -1 unknown. */
void lmx_resident(int64_t *now, int64_t *most);

#endif
