/* SPDX-License-Identifier: Apache-2.0
 * The values in a tensor's memory: the meaning of each type's bits, and strided arrays as runs of numbers. */
#ifndef LMI_VALUES_H
#define LMI_VALUES_H

#include "model/model.h"

enum { LMI_MAX_AXES = 64 };

/* Bytes of the widest vectors to use, if the processor has them; tests also try smaller ones. */
#ifndef LMI_WIDEST
#define LMI_WIDEST 64
#endif

/* How a type encodes numbers. A number is (bits without the sign << shift) read as a float, times 2^scale;
 * bits of float64 are not shifted. */
typedef struct lmi_form {
    int32_t dtype, bytes;
    uint64_t mask, want; /* (bits & mask) == want: not finite */
    uint64_t fraction;   /* not finite, and one of these bits is set: NaN; 0: always a NaN */
    uint64_t sign;       /* 0: it has none */
    uint64_t exponent;   /* all of these 0 and some other bit set: subnormal */
    int32_t shift, scale;
    int32_t parts;  /* numbers an element: 2 for complex ones */
    double largest; /* the largest finite number */
} lmi_form;
const lmi_form *lmi_form_of(int32_t dtype); /* NULL: a type of finite values only, or none */

/* The axes of an array in the order of memory; contiguous neighbours are merged. */
typedef struct lmi_layout {
    int32_t n;
    int64_t size[LMI_MAX_AXES], step[LMI_MAX_AXES]; /* steps in bytes, widest first */
    int64_t times;                                  /* how often each number occurs: axes of step 0 */
} lmi_layout;
/* LAM_RANGE for impossible sizes or strides, LAM_USAGE for elements without memory. `where` is for the
 * error. */
lam_status lmi_layout_of(const lam_values *v, const lmi_form *f, lmi_layout *l, const char *where,
                         lam_error *e);

/* Calls `run` for each run of `n` numbers, `step` bytes apart. */
typedef void lmi_run(void *self, const char *p, int64_t n, int64_t step);
void lmi_each_run(const lmi_layout *l, const lmi_form *f, const void *data, lmi_run *run, void *self);

#endif
