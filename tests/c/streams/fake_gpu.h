/* SPDX-License-Identifier: Apache-2.0
 * A stand-in for a GPU. */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include "process/device_api.h"

/* Its work takes as long as it is told, and its clock moves on with that alone. NULL where none is in use. */
const lmx_streams *fake_gpu_streams(void);
/* "use": 1 it is, from its beginning; 0 it is not. "work": the current stream has so many nanoseconds more to
 * do. "stream", "device": is current from now on. "wait": the current stream waits for that one. "capturing":
 * of the current stream. "lazy": events are ready when somebody waits for one. "fail_create": after so many
 * events; "fail_sync", "fail_record", "fail_elapsed", "fail_memory", "fail_copy", "fail_search", "fail_wait":
 * with this error. "allocate", "free": bytes. "live", "made", "syncs", "copies", "searches", "errors": events
 * that were not destroyed; ever; how often was waited, copied, searched; errors that nobody took. -1: unknown
 * word. */
int64_t fake_gpu(const char *what, int64_t value);

#endif
