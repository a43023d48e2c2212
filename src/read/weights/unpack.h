/* SPDX-License-Identifier: Apache-2.0
 * unpack: how the values of packed weights are read; each way is one file. */
#ifndef LMI_READ_UNPACK_H
#define LMI_READ_UNPACK_H

#include "read/weights/weights.h"

/* The beginning of what each way keeps. */
struct lmi_unpack {
    const lmi_tensors *t;
    lam_status (*prepare)(lmi_unpack *u, lam_error *e); /* before the first read */
    lam_status (*read)(lmi_unpack *u, int64_t from, int64_t n, double *to, lam_error *e);
    void (*free)(lmi_unpack *u);
};

/* *out stays NULL if the values of the weight can't be computed. */
lam_status lmi_unpack_columns(lmi_unpack **out, const lmi_tensors *t, const lmi_stored_tensor *x,
                              lam_error *e);
lam_status lmi_unpack_rows(lmi_unpack **out, const lmi_tensors *t, const lmi_stored_tensor *x, lam_error *e);

/* The tensor whose name is that of `x` with another end; NULL: `x` has not the end `tail`, or there is none.
 */
const lmi_stored_tensor *lmi_part(const lmi_tensors *t, const lmi_stored_tensor *x, const char *tail,
                                  const char *end);
/* Reads n bytes of a tensor from its byte `at` on. */
lam_status lmi_part_read(const lmi_tensors *t, const lmi_stored_tensor *x, uint64_t at, void *to, size_t n,
                         lam_error *e);
/* All bytes of a tensor, which the caller frees. */
lam_status lmi_part_take(const lmi_tensors *t, const lmi_stored_tensor *x, unsigned char **to, lam_error *e);
/* True if its bytes can be read and lie row by row. */
bool lmi_part_is_plain(const lmi_stored_tensor *x);
/* Fails if a number of a list of int32 is no group of so many. */
lam_status lmi_part_groups(const lmi_tensors *t, const lmi_stored_tensor *index, const unsigned char *bytes,
                           int64_t groups, lam_error *e);
/* The k-th value of `bits` in numbers of 32 bits that are `step` bytes apart. One whose bits do not divide 32
 * may begin in a number and end in the next. */
static inline uint32_t lmi_bits_at(const unsigned char *numbers, int64_t step, int32_t bits, int64_t k) {
    const int64_t at = k * bits;
    const int shift = (int)(at % 32);
    const unsigned char *p = numbers + at / 32 * step;
    uint64_t both = lmi_le32(p);
    if (shift + bits > 32) both |= (uint64_t)lmi_le32(p + step) << 32;
    return (uint32_t)(both >> shift) & ((1u << bits) - 1);
}

#endif
