/* SPDX-License-Identifier: Apache-2.0
 * pte: the programs of ExecuTorch. A file is a flatbuffer with a header of its own, which says how large the
 * program is and where the segments behind it, the weights, begin. More of it is not read. */
#ifndef LMI_READ_PTE_H
#define LMI_READ_PTE_H

#include "read/tensors/tensors.h"

bool lmi_is_pte(const unsigned char *head, size_t n);
/* Adds what the header says. LAM_SYNTAX: it says what can't be. */
lam_status lmi_pte_read(lmi_tensors *t, const lmi_bytes *of, lam_error *e);

#endif
