/* SPDX-License-Identifier: Apache-2.0
 * What the door needs of the room. */
#ifndef LMI_READ_ONNX_ONNX_H
#define LMI_READ_ONNX_ONNX_H

#include "read/onnx/graph.h"

/* True if a file of `size` bytes that begins so is an ONNX model. */
bool lmi_is_onnx(const unsigned char *head, size_t n, uint64_t size);
/* The model in a file; of `o` the memory limit, inputs and sizes are read. */
lam_status lmi_onnx_model_of(lam_model **out, const lmi_bytes *file, const lam_read_options *o,
                             const lam_read_size *other, lam_error *e);

#endif
