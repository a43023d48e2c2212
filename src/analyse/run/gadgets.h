/* SPDX-License-Identifier: Apache-2.0
 * gadgets: what torch_inspector told of every layer, a place each: sizes, times, memory and values. */
#ifndef LMI_GADGETS_H
#define LMI_GADGETS_H

#include "analyse/costs.h"

typedef enum lmi_truth { LMI_NO, LMI_YES, LMI_NOT_KNOWN } lmi_truth;

/* Numbers are -1 where they are not known. */
typedef struct lmi_gadget {
    int64_t params, trainable;             /* elements of the distinct parameters here and below */
    int64_t param_bytes, gradient_bytes;   /* bytes of them, and of those that gradients are wanted of */
    int64_t forward_ns, backward_ns;       /* of all calls, with what is called inside */
    int64_t forward_bytes, backward_bytes; /* retained, likewise */
    int32_t calls;                         /* all of them */
    bool hidden; /* what was done here, and whether, is not known: inside one that can't be looked into, in */
    int32_t same; /* another thread, or what the same layer did is told at this place; -1 */
    /* The first call whose shapes are told, -1 none: those of the last run that came here; and the first of
     * those that a backward pass made again for it, to which gradients come. */
    int32_t first, first_again;
    lmi_truth forward_nan, grad_in_nan, grad_out_nan; /* NaN or Inf in any call */
} lmi_gadget;

struct lam_gadgets {
    lmi_arena arena;
    const lam_model *m;
    lmi_gadget *at; /* per place */
    int32_t *next;  /* per call: the next one of its kind, -1 none */
    bool gradients; /* whether a gradient came is known */
};

/* Bytes of a tensor, and of those of a call; -1: not known. */
int64_t lmi_gadget_bytes(const lam_arg *a);
/* Bytes of everything that went into the calls whose shapes are told, with the parameters and gradients. */
int64_t lmi_gadget_memory(const lam_gadgets *g, int32_t place);

#endif
