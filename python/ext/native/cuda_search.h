/* SPDX-License-Identifier: Apache-2.0
 * cuda_search: searches a GPU's memory for NaN and Inf (lmx_streams.search). */
#ifndef LMX_CUDA_SEARCH_H
#define LMX_CUDA_SEARCH_H

#include "process/device_api.h"

/* The threads of one launch of a search's kernel; more numbers than these are searched in a loop. */
enum { LMX_SEARCHED_AT_ONCE = 1 << 18 };
/* lmx_streams.search by a kernel of CUDA's driver (cuda_search.c); NULL if the driver is not loaded. */
int (*lmx_cuda_search(void))(const lmx_search *s, void *stream, bool *found);

#endif
