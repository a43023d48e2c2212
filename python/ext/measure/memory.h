/* SPDX-License-Identifier: Apache-2.0
 * memory: measures the memory of a capture's model at the allocator (allocator.h). */
#ifndef LMX_MEMORY_H
#define LMX_MEMORY_H

#include "process/resident_memory.h"
#include "base/ext.h"
#include "observe/open_capture.h"

/* measure_memory(source, afterwards=False): from the start of the capture on; the report shows `source`.
 * None, or NULL with an exception. */
PyObject *lmx_measure_memory(PyObject *self, PyObject *args);
/* memory_events([(address, bytes, nanoseconds), ...]): allocations and (negative) frees that are reported
 * after the run (measure_memory(source, True)). Only those in forwards can be assigned to calls. */
PyObject *lmx_memory_events(PyObject *self, PyObject *list);
/* Notes the current gradients of the parameters. None, also if memory is not measured. */
PyObject *lmx_memory_gradients(PyObject *self, PyObject *unused);
/* memory_state(tensor, parameter): the tensor is an optimizer's state for a parameter; None: for several. */
PyObject *lmx_memory_state(PyObject *self, PyObject *args);
/* The reason why memory can't be measured at torch's allocator, from a test with a tensor: a str; None: it
 * can. */
PyObject *lmx_probe_memory(PyObject *module, PyObject *unused);

#endif
