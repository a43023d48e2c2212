/* SPDX-License-Identifier: Apache-2.0
 * kernel_memory: the memory that one call takes from torch's CPU allocator. */
#ifndef LMX_KERNEL_MEMORY_H
#define LMX_KERNEL_MEMORY_H

#include "base/ext.h"

/* taken(function, args, kwargs): calls it and returns (most, left, out): the peak of bytes that were
 * allocated during the call, by any thread; the bytes that are live at its return; its result. NULL with an
 * exception, also if the allocator can't be watched (lmx_probe_memory). */
PyObject *lmx_kernel_memory(PyObject *module, PyObject *args);

#endif
