/* SPDX-License-Identifier: Apache-2.0
 * device: the time and memory of a capture's calls and nodes on a GPU (device_api.h), if torch uses one. This
 * never loads or initialises CUDA: it only reads a device that the model's own work initialised. */
#ifndef LMX_DEVICE_H
#define LMX_DEVICE_H

#include "observe/open_capture.h"
#include "process/device_api.h"

/* -- the table (cuda.c) ---------------------------------------------------------------------------------- */

/* True if torch uses a GPU, or a test pretends so. Never fails. */
bool lmx_device_used(void);
/* The functions of CUDA or HIP, from the libraries that torch has loaded. NULL with a reason. */
const lmx_streams *lmx_device_streams(char *why, size_t size);
/* Records two events in the current stream, once in a process, and reads them: checks that the streams are
 * those of torch and that the clock runs. False with a reason. */
bool lmx_device_prove(const lmx_streams *table, int device, char *why, size_t size);
/* Reads the allocator's statistics of a device, on any thread, with or without the GIL. False: unknown. */
bool lmx_device_said(const lmx_streams *table, int device, lmx_said *out);
/* Checks the statistics with a tensor of known size, once in a process. False with a reason. */
bool lmx_device_prove_memory(const lmx_streams *table, int device, char *why, size_t size);
/* The table, if the values of a GPU's tensors can be read: checked once for each GPU that is current, with
 * tensors of known values. NULL: they can't be, or torch uses no GPU. Never fails. */
const lmx_streams *lmx_device_reads(void);
/* pretend_device(address), for tests: the address of a lmx_streams that replaces a GPU; 1: the loaded parts
 * of CUDA, for the CPU's tensors; 0: a GPU again. None, or NULL with an exception. */
PyObject *lmx_pretend_device(PyObject *module, PyObject *address);

/* -- called from Python (device.c) ----------------------------------------------------------------------- */

/* measure_device(time, memory): before the start; does nothing if no GPU is in use. None, or NULL with an
 * exception. */
PyObject *lmx_measure_device(PyObject *self, PyObject *args);
/* The same from C. False with an exception. */
bool lmx_device_listen(lmx_capture *c, bool timed, bool sized);
/* True if the GPU's memory was measured. */
bool lmx_device_sized(const lmx_capture *c);

#endif
