/* SPDX-License-Identifier: Apache-2.0
 * frames: the operators and nodes that are running on a thread, the innermost last, and what may run inside
 * an operator that is no part of its work. */
#ifndef LMX_FRAMES_H
#define LMX_FRAMES_H

#include "native/lane.h"

/* What torch may run inside an operator beside the operator's own work. */
typedef enum lmx_may {
    LMX_MAY_CAST = 1,   /* autocast is on: it may convert the arguments and call the operator again */
    LMX_MAY_HOOK = 2,   /* hooks for saved tensors are set: Python's code may run for each that it saves */
    LMX_MAY_DERIVE = 4, /* an argument has a tangent: forward-mode AD computes that of the result */
    LMX_MAY_SAVE = 8,   /* autograd may copy what the operator is about to overwrite */
    LMX_MAY_TURN = 16,  /* an argument is a conjugate or a negative that was not computed yet */
    LMX_MAY_FILL = 32,  /* an argument is a tangent of zeros without memory */
    LMX_FILLED = 64     /* and such zeros were filled */
} lmx_may;

typedef struct lmx_frame {
    const void *record;
    int64_t sequence;
    int32_t op;   /* index of the innermost noted operator, this one or one around it */
    int32_t call; /* the call that this, and everything inside it, belongs to */
    int32_t open; /* of a node: the module call that was open when it began */
    int32_t node; /* index of the frame of the innermost node, this one included; -1 */
    int unwinding;
    uint8_t phase;
    bool is_node, noted, grad;
    int32_t n_out;     /* of a noted operator: the number of results in its schema; -1 */
    bool notifies;     /* listeners are called for this operator */
    bool real, merged; /* the node itself; or the engine's work on a node that has begun */
    bool trial;        /* is_trial() holds for this or an operator around it */
    bool alone;        /* of an operator: what runs inside it is its own work, and is not noted */
    uint8_t may;       /* of an operator: lmx_may */
    /* Of an operator: its kernel, or a mode that answers, was reached; its own work is done, since its result
     * is saved or a tangent computed; and 1 + index of the operator in a hook that got the result, or 0. */
    bool ran, done;
    int32_t kept;
    int32_t answer;    /* 1 + index of the frame in which a class answers, the innermost; 0 */
    int32_t asked;     /* of such a frame: the number of modes when it began, and */
    uint64_t first;    /* the first tensor of its operator; of an operator: its own */
    uint64_t excluded; /* of an operator: the second word of lmx_keys_here when it began */
} lmx_frame;

static inline lmx_frame *lmx_top_of(const lmx_lane *lane) {
    return lane->frames.n ? (lmx_frame *)lane->frames.data + lane->frames.n - 1 : NULL;
}

/* True if what begins now is the work of an operator that runs alone. */
static inline bool lmx_is_of_one_alone(const lmx_lane *lane) {
    const lmx_frame *around = lmx_top_of(lane);
    return around && around->alone;
}

/* == inside.c ========================================================================================== */

/* What may run inside the operator whose arguments were packed last, as lmx_may. 0: its own work alone. */
uint8_t lmx_may_run(lmx_lane *lane, const lmx_layout *l, const lmx_frame *f, int32_t name);
/* An operator begins inside `around`, which may run more than its own work. Flags the operator if it is no
 * part of that work, or the operators around it if the work is done by those inside them. */
void lmx_settle_inside(lmx_lane *lane, const lmx_layout *l, lmx_frame *around, lmx_frame *f, lmx_op *op);
/* The operator ends. Its results were packed last. */
void lmx_settle_end(lmx_lane *lane, const lmx_layout *l, const lmx_frame *f, lmx_op *op);
/* True if the innermost running operator, apart from those flagged LAM_OP_NODE, has this name. */
bool lmx_runs_now(const lmx_lane *lane, const char *name);

#endif
