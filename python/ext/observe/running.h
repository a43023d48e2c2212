/* SPDX-License-Identifier: Apache-2.0
 * running: what observe.c, running.c and nodes.c share: the operators and nodes that run on a thread. */
#ifndef LMX_RUNNING_H
#define LMX_RUNNING_H

#include "native/frames.h"
#include "observe/observe.h"

extern const lmx_record_api *lmx_api; /* set once, under the GIL, before the first callback (observe.c) */

/* The lane of this thread in the capture of that slot; made if there is none. NULL: memory ran out. */
lmx_lane *lmx_lane_of(lmx_observer *o, int slot);
const lmx_lane *lmx_lane_here(const lmx_capture *c); /* NULL: there is none */

static inline lmx_op *lmx_note_op(lmx_lane *lane, const lmx_frame *f, const char *name, uint8_t flags) {
    lmx_op *op = lmx_lane_op(lane, name, !f->is_node); /* torch makes a node's name anew each time */
    if (!op) return NULL;
    op->call = f->call;
    op->parent = f->op;
    op->phase = f->phase;
    op->flags = flags;
    return op;
}

static inline bool lmx_push_frame(lmx_lane *lane, const lmx_frame *f) {
    lmx_frame *at = lmx_vec_push(&lane->frames, sizeof *at, 1);
    if (at)
        *at = *f;
    else
        lane->lost = true;
    return at != NULL;
}

/* == operators (running.c) ============================================================================= */

void lmx_open_operator(lmx_observer *o, lmx_lane *lane, const void *record, const char *name);
/* Used if only nodes are watched and a listener wants the operators in them: a node is open. */
void lmx_open_for_listeners(const lmx_observer *o, lmx_lane *lane, const void *record);
/* torch makes no record of this one. If the operator runs already, this is its way to the kernel. */
void lmx_note_unseen(lmx_observer *o, lmx_lane *lane, const char *name);
/* Ends what that record began: an operator, or a node. Ignores one whose start was not noted. Frames above it
 * missed their end and are dropped. */
void lmx_close_frame(lmx_observer *o, lmx_lane *lane, const void *record, int64_t now);

/* == nodes, and whose work it is (nodes.c) ============================================================= */

/* The call whose forward made the node; -1: unknown. Each thread has its own sequence numbers. */
int32_t lmx_origin_of(lmx_observer *o, const void *record, int64_t sequence);
/* The open call, as this thread sees it: the calls of a worker are open on its thread alone. */
int32_t lmx_open_call(const lmx_observer *o);
/* Sets the call and phase of what begins inside `around`, in a backward pass. */
void lmx_place_inside(const lmx_observer *o, const lmx_lane *lane, const lmx_frame *around, lmx_frame *f);
/* `real`: the node itself, else the engine's work on it. */
void lmx_open_node(lmx_observer *o, lmx_lane *lane, const void *record, const char *name, bool real);
/* The node's name if this is the engine's work on it (the node and sums of gradients); else NULL. */
const char *lmx_engine_work(const char *name);
void lmx_report_node(const lmx_observer *o, const lmx_frame *f, const char *name, bool began);
/* Nodes made by a node, for a second derivative, belong to its call. Watched operators note it. */
void lmx_note_nodes_origin(const lmx_observer *o, lmx_lane *lane, int32_t call);

#endif
