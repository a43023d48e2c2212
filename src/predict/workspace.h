/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of the operator whose workspace is predicted. */
#ifndef LMI_WORKSPACE_H
#define LMI_WORKSPACE_H

#include "model/model.h"

typedef struct lmi_asked {
    const lam_op_arg *in;
    const int64_t *const *strides;
    int32_t n;
    lam_cpu cpu;
} lmi_asked;

/* The tensor at a position of the schema; NULL if there is none, or its shape is unknown. */
const lam_op_arg *lmi_asked_tensor(const lmi_asked *a, int32_t position);
/* The i-th number of a list of integers; a single one counts for all axes. */
int64_t lmi_asked_number(const lmi_asked *a, int32_t position, int32_t i, int64_t without);

/* a * b, limited to a number larger than any memory, so that later sums do not overflow. */
static inline int64_t lmi_limited_times(int64_t a, int64_t b) {
    const int64_t most = INT64_MAX / 4096;
    int64_t n;
    return a < 0 || b < 0 ? 0 : __builtin_mul_overflow(a, b, &n) || n > most ? most : n;
}
static inline int64_t lmi_most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t lmi_up(int64_t n, int64_t to) { return lmi_limited_times(n / to + (n % to != 0), to); }
static inline int64_t lmi_item(const lam_op_arg *t) { return (lam_dtype_bits(t->dtype) + 7) / 8; }
static inline int64_t lmi_bytes(const lam_op_arg *t) {
    int64_t n;
    return t && lmi_product(t->sizes, t->ndim, &n) ? lmi_limited_times(n, lmi_item(t)) : 0;
}

int64_t lmi_recurrent(const lmi_asked *a); /* workspace_rnn.c */
int64_t lmi_recurrent_backward(const lmi_asked *a);
int64_t lmi_recurrent_kept(const lmi_asked *a);

#endif
