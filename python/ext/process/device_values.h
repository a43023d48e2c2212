/* SPDX-License-Identifier: Apache-2.0
 * device_values: NaN, Inf and statistics of values in a device's memory. Memory with finite values alone is
 * searched by the device, which tells one word; other memory is copied here, a piece at a time. */
#ifndef LMX_DEVICE_VALUES_H
#define LMX_DEVICE_VALUES_H

#include "lamina.h"
#include "process/device_api.h"

/* As lam_values_scan and lam_values_stats (`stats` NULL: not wanted) of an array whose `data` is an address
 * in the memory of `device`, and whose strides are given. Waits for the work in the device's current stream
 * of this thread, which wrote the values. Any thread may call it, with any current device. False if they
 * can't be read: while a graph is captured in that stream, in a forked process, after an error of the device,
 * if memory ran out. */
bool lmx_device_values(const lmx_streams *t, int device, const lam_values *v, lam_nonfinite *found,
                       lam_stats *stats);

#endif
