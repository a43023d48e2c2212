/* SPDX-License-Identifier: Apache-2.0
 * gadgets: torch_inspector's fields for every place: sizes, times, memory and values. */
#ifndef LMI_GADGETS_H
#define LMI_GADGETS_H

#include "analyse/costs.h"

typedef enum lmi_truth { LMI_NO, LMI_YES, LMI_NOT_KNOWN } lmi_truth;

/* Numbers are -1 if unknown. */
typedef struct lmi_gadget {
    int64_t params, trainable;             /* elements of the distinct parameters here and below */
    int64_t param_bytes, gradient_bytes;   /* bytes of them, and of those that require gradients */
    int64_t forward_ns, backward_ns;       /* of all calls, with the calls inside */
    int64_t forward_bytes, backward_bytes; /* retained, likewise */
    int32_t calls;                         /* all of them */
    bool hidden;  /* its work is unknown: inside an opaque module, or called by another thread */
    int32_t same; /* the place that has the numbers of the same layer; -1 */
    /* The first call whose shapes are shown, of the last run with a call here, -1 none; and the first of its
     * repetitions in a backward pass, which receive the gradients. */
    int32_t first, first_again;
    lmi_truth forward_nan, grad_in_nan, grad_out_nan; /* NaN or Inf in any call */
} lmi_gadget;

struct lam_gadgets {
    lmi_arena arena;
    const lam_model *m;
    lmi_gadget *at; /* per place */
    int32_t *next;  /* per call: the next one of its kind, -1 none */
    bool gradients; /* gradients were observed */
};

/* Bytes of all inputs of the calls whose shapes are shown, with parameters and gradients. */
int64_t lmi_gadget_memory(const lam_gadgets *g, int32_t place);

#endif
