/* SPDX-License-Identifier: Apache-2.0
 * safetensors: eight bytes with the length of a header, the header, which is JSON, and the tensors' bytes. */
#ifndef LMI_READ_SAFETENSORS_H
#define LMI_READ_SAFETENSORS_H

#include "read/tensors/tensors.h"

/* True for bytes that begin as such a file does. */
bool lmi_is_safetensors(const unsigned char *head, size_t n, uint64_t size);
/* Adds the file's tensors. LAM_SYNTAX: it is damaged, or its tensors do not fill it exactly. */
lam_status lmi_safetensors_read(lmi_tensors *t, const lmi_bytes *of, lam_error *e);

#endif
