/* SPDX-License-Identifier: Apache-2.0
 * memory: what a capture's model does with memory (alloc.h), measured where it is asked for. */
#ifndef LMX_MEMORY_H
#define LMX_MEMORY_H

#include "observe/resident.h"
#include "base/base.h"
#include "observe/capture.h"

/* measure_memory(source, afterwards=False): from the start of the capture on; `source` is told in the report.
 * None, or NULL with an exception. */
PyObject *lmx_measure_memory(lmx_capture *c, PyObject *args);
/* memory_events([(address, bytes, nanoseconds), ...]): what came and, negative, went, where that is told when
 * all is over (measure_memory(source, True)). Of calls' forwards alone it is known whose it is. */
PyObject *lmx_memory_events(lmx_capture *c, PyObject *list);
/* The parameters' gradients are as they are now. None, also where memory is not measured. */
PyObject *lmx_memory_gradients(lmx_capture *c);
/* memory_state(tensor, parameter): it is what an optimizer keeps for a parameter; None: for no single one. */
PyObject *lmx_memory_state(lmx_capture *c, PyObject *args);
/* Why memory can't be measured at torch's allocator, found out by measuring a tensor: a str; None where it
 * can. */
PyObject *lmx_probe_memory(PyObject *module, PyObject *unused);

#endif
