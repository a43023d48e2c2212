/* SPDX-License-Identifier: Apache-2.0
 * taken: what one call takes of torch's allocator for the CPU. */
#ifndef LMX_TAKEN_H
#define LMX_TAKEN_H

#include "base/base.h"

/* taken(function, args, kwargs): calls it and gives (most, left, out), the most bytes that were handed out at
 * one time meanwhile, by any thread, what of them was left when it was back, and what it gave. NULL with an
 * exception, also where the allocator can't be watched (lmx_probe_memory). */
PyObject *lmx_taken(PyObject *module, PyObject *args);

#endif
