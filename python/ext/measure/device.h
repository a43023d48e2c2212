/* SPDX-License-Identifier: Apache-2.0
 * device: what a capture's calls and nodes did on a GPU (streams.h), where torch uses one. CUDA is never
 * loaded and never begun by this: only what the model's own work has begun is asked. */
#ifndef LMX_DEVICE_H
#define LMX_DEVICE_H

#include "observe/capture.h"
#include "observe/streams.h"

/* -- the table (cuda.c) ---------------------------------------------------------------------------------- */

/* True where torch has begun to use a GPU, or a test pretends so. Never fails. */
bool lmx_device_used(void);
/* What can be asked of it: CUDA's or HIP's functions, found in the libraries that torch has loaded. NULL with
 * a reason. */
const lmx_streams *lmx_device_streams(char *why, size_t size);
/* Puts two events into the current stream, once a process, and reads them: the streams are those that torch
 * names, and the clock goes on. False with a reason. */
bool lmx_device_prove(const lmx_streams *table, int device, char *why, size_t size);
/* What the allocator says of a device, from any thread, with or without the GIL. False: it can't be told. */
bool lmx_device_said(const lmx_streams *table, int device, lmx_said *out);
/* A tensor of known size is seen to come and go, once a process. False with a reason. */
bool lmx_device_prove_memory(const lmx_streams *table, int device, char *why, size_t size);
/* pretend_device(address), for tests: of a lmx_streams that is used in a GPU's place; 1: what is loaded of
 * CUDA, for the CPU's tensors; 0: a GPU again. None, or NULL with an exception. */
PyObject *lmx_pretend_device(PyObject *module, PyObject *address);

/* -- asked for by Python (device.c) ---------------------------------------------------------------------- */

/* measure_device(time, memory): before the start; nothing where no GPU is in use. None, or NULL with an
 * exception. */
PyObject *lmx_measure_device(lmx_capture *c, PyObject *args);
/* The same from C; where no GPU is in use nothing. False with an exception. */
bool lmx_device_listen(lmx_capture *c, bool timed, bool sized);
/* True once it is told what the GPU's memory was used for. */
bool lmx_device_sized(const lmx_capture *c);

#endif
