/* SPDX-License-Identifier: Apache-2.0
 * gguf: the files of llama.cpp: keys with values, the names, shapes and types of tensors, and their bytes. */
#ifndef LMI_READ_GGUF_H
#define LMI_READ_GGUF_H

#include "read/tensors/tensors.h"

/* What a file tells of itself. */
typedef struct lmi_gguf {
    uint32_t version;
    int64_t part,
        parts; /* of a model in several files: which one this is, from 0; parts 0 or 1: it is alone */
} lmi_gguf;

bool lmi_is_gguf(const unsigned char *head, size_t n);
/* Adds the file's tensors, and unless it is a later part the keys of the model. LAM_SYNTAX: it is damaged;
 * LAM_UNSUPPORTED: its version or the type of a tensor is not known. */
lam_status lmi_gguf_read(lmi_tensors *t, const lmi_bytes *of, lmi_gguf *out, lam_error *e);
/* The name of a part (from 0) of the model of which `first` is the first one, in memory of malloc.
 * LAM_FAILED: the name of the first does not end in "-00001-of-00003.gguf". */
lam_status lmi_gguf_part(const char *first, int64_t part, int64_t parts, char **out, lam_error *e);

#endif
