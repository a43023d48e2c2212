/* SPDX-License-Identifier: Apache-2.0
 * Decides what an operator inside a counted one is: a part of its work, or other work that torch does in
 * passing. An operator passes layers of torch before its kernel runs. Autocast converts arguments and calls
 * the operator again; autograd hands what it saves to hooks, copies what is about to be overwritten, and
 * computes tangents; a conjugate that the kernel can't read is computed. Each layer leaves its mark in the
 * dispatch keys that the thread excludes, and in those of the arguments. Runs inside torch's callbacks,
 * without Python. */
#include "native/frames.h"

#include <string.h>

static lmx_op *op_of(const lmx_lane *lane, const lmx_frame *f) { return (lmx_op *)lane->ops.data + f->op; }

/* True if hooks for saved tensors are set on this thread: torch keeps them in a std::deque, and its first
 * entry is where its end is if it is empty. */
static bool has_hooks(const lmx_lane *lane, const lmx_layout *l) {
    enum { TO_END = 32 };
    if (!lane->hooks || l->hooks < 0) return true;
    const char *list = lane->hooks + l->hooks;
    return lmx_word_at(list, 0) != lmx_word_at(list, TO_END);
}

/* True if autograd has had its turn, or has none: no hook, copy or tangent of it can follow. */
static bool is_past_autograd(const lmx_layout *l, const lmx_frame *f) {
    return f->excluded & (l->below | l->gradients);
}

uint8_t lmx_may_run(lmx_lane *lane, const lmx_layout *l, const lmx_frame *f, int32_t name) {
    int may = f->excluded & l->autocast ? LMX_MAY_CAST : 0;
    if (lane->keys & l->turned) may |= LMX_MAY_TURN;
    if (lane->keys & l->zeros) may |= LMX_MAY_FILL;
    if (is_past_autograd(l, f)) return (uint8_t)may;
    if (lane->tangents) may |= LMX_MAY_DERIVE;
    if (f->sequence >= 0 && has_hooks(lane, l)) may |= LMX_MAY_HOOK;
    const lmx_named *named = lmx_lane_named(lane, name);
    if (named->writes && (lane->tangents || (f->sequence >= 0 && named->saves))) may |= LMX_MAY_SAVE;
    return (uint8_t)may;
}

/* True if the operator inside, `f`, began with the same state as the one around it, but without autocast:
 * then autocast called it. */
static bool is_autocasts(const lmx_layout *l, const lmx_frame *around, const lmx_frame *f) {
    const uint64_t changed = around->excluded ^ f->excluded;
    return changed && !(changed & ~l->autocast) && !(f->excluded & changed);
}

/* Autocast answers the operator `around`: those inside it count. So they do in the operators around that one
 * which only called it, but not in one whose kernel called it. */
static void pass_to_autocast(lmx_lane *lane, const lmx_layout *l, lmx_frame *around, const lmx_frame *f) {
    const lmx_frame *first = lane->frames.data;
    if (op_of(lane, f)->name == op_of(lane, around)->name) op_of(lane, around)->flags |= LAM_OP_NODE;
    for (lmx_frame *x = around; x >= first && x->noted && !x->is_node && x->excluded & l->autocast; x--) {
        lmx_op *outer = op_of(lane, x);
        if (lmx_lane_named(lane, outer->name)->counts) outer->flags |= LAM_OP_NODE;
        if (x->excluded & l->below || outer->flags & LAM_OP_BESIDE) break;
    }
}

/* True for an operator of autograd's own turn, in the operator `around`. */
static bool is_autograds(const lmx_lane *lane, const lmx_frame *around, const lmx_named *inner) {
    if (around->may & LMX_MAY_SAVE && inner->copies) return true;
    return around->may & LMX_MAY_HOOK && lane->api->grad_enabled && !lane->api->grad_enabled();
}

/* True for the operators that torch answers without their kernel if an argument is all zeros. */
static bool knows_zeros(const char *name) {
    static const char *const names[] = {"aten::mul", "aten::add", "aten::sub", "aten::div",
                                        "aten::linalg_cross"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Zeros without memory are filled before any other operator inside, unless torch knows the result: then it
 * finds only the result's shape, with tensors that have no values, and that is no work. */
static void settle_zeros(const lmx_lane *lane, lmx_frame *around, lmx_frame *f, lmx_op *op, bool fills) {
    const char *name = lmx_op_name(lane, op);
    if (fills) {
        op->flags |= LAM_OP_BESIDE;
        around->may |= LMX_FILLED;
    } else if (!(around->may & LMX_FILLED) && knows_zeros(lmx_op_name(lane, op_of(lane, around)))) {
        f->trial = f->trial || strcmp(name, "aten::to") == 0 || strncmp(name, "prims::", 7) == 0;
        if (f->trial) op->flags |= LAM_OP_NODE;
    }
}

/* True for the copy of a conjugate that was computed for the operator `outer`, which can't read one. */
static bool is_turned(const char *outer, const lmx_frame *around, const lmx_frame *f, bool copies) {
    if (!copies || !(around->may & f->may & LMX_MAY_TURN)) return false;
    return !strstr(outer, "resolve_") && !strstr(outer, "conj");
}

/* True if the first tensor of `op`, inside `outer`, has other memory than the arguments of `outer`: then it
 * is a result of that one. The identities of arguments end where those of the next operator begin. */
static bool has_result(const lmx_lane *lane, const lmx_op *outer, const lmx_op *op) {
    const lmx_id *ids = lane->ids.data;
    const uint64_t memory = op->in.ids_at < lane->ids.n ? lmx_id_memory(&ids[op->in.ids_at]) : 0;
    for (uint32_t i = outer->in.ids_at; memory && i < outer[1].in.ids_at; i++)
        if (lmx_id_memory(&ids[i]) == memory) return false;
    return memory != 0;
}

static uint64_t first_tensor(const lmx_lane *lane, const lmx_op *op) {
    const bool any = op->in.ids_at < lane->ids.n;
    return any ? lmx_id_object((const lmx_id *)lane->ids.data + op->in.ids_at) : 0;
}

/* True if the operator `outer`, which has no kernel, called `op`, and both have tangents. False for what
 * forward-mode AD itself runs on tensors with tangents: `outer` again, on the tangent of its first argument,
 * and an operator that lays out a tangent like its tensor, which has the place for it already. */
static bool is_called(const lmx_lane *lane, const lmx_op *outer, const lmx_op *op) {
    if (op->name == outer->name) return first_tensor(lane, op) == first_tensor(lane, outer);
    return strcmp(lmx_op_name(lane, op), "aten::_new_zeros_with_same_feature_meta") != 0;
}

void lmx_settle_inside(lmx_lane *lane, const lmx_layout *l, lmx_frame *around, lmx_frame *f, lmx_op *op) {
    lmx_op *outer = op_of(lane, around);
    if (around->may & LMX_MAY_CAST && is_autocasts(l, around, f)) {
        pass_to_autocast(lane, l, around, f);
        return;
    }
    if (outer->flags & LAM_OP_NODE || !lmx_lane_named(lane, outer->name)->counts) return;
    const lmx_named inner = *lmx_lane_named(lane, op->name);
    if (is_turned(lmx_op_name(lane, outer), around, f, inner.copies)) op->flags |= LAM_OP_BESIDE;
    if (around->may & LMX_MAY_FILL) settle_zeros(lane, around, f, op, inner.fills);
    if (is_past_autograd(l, f)) {
        around->ran = true;
        return;
    }
    if (is_autograds(lane, around, &inner)) {
        op->flags |= LAM_OP_BESIDE;
        if (!around->done && around->may & LMX_MAY_HOOK && (around->ran || has_result(lane, outer, op))) {
            around->done = true;
            around->kept = f->op + 1;
        }
    } else if (around->may & f->may & LMX_MAY_DERIVE && !inner.free && is_called(lane, outer, op))
        outer->flags |= LAM_OP_NODE; /* it only calls others, which compute their own tangents */
    else if (around->may & LMX_MAY_DERIVE) {
        op->flags |= LAM_OP_BESIDE;
        around->done = true;
    }
}

static int32_t args_of(const lmx_lane *lane, lmx_args a) {
    return ((const lmx_part *)lane->parts.data)[a.part].n;
}

void lmx_settle_end(lmx_lane *lane, const lmx_layout *l, const lmx_frame *f, lmx_op *op) {
    /* A checkpoint stops in the hook that got the last tensor it needs. */
    if (f->kept && f->n_out == 1 && op->out.part >= 0 && args_of(lane, op->out) == 0)
        op->out = lmx_lane_again(lane, ((const lmx_op *)lane->ops.data + f->kept - 1)->in);
    if ((f->may & (LMX_MAY_FILL | LMX_FILLED)) == LMX_MAY_FILL && knows_zeros(lmx_op_name(lane, op)))
        op->flags |= LAM_OP_NODE;
    /* A view may get its tangent only now, from the tensor that it is a view of. */
    if (f->alone && lane->tangents && !is_past_autograd(l, f) && !lmx_lane_named(lane, op->name)->free)
        op->flags |= LAM_OP_DERIVED;
}

bool lmx_runs_now(const lmx_lane *lane, const char *name) {
    const lmx_frame *frames = lane->frames.data;
    const lmx_op *ops = lane->ops.data;
    size_t n = lane->frames.n;
    while (n && frames[n - 1].noted && strcmp(lmx_op_name(lane, &ops[frames[n - 1].op]), name) != 0 &&
           ops[frames[n - 1].op].flags & LAM_OP_NODE)
        n--;
    return n && frames[n - 1].noted && strcmp(lmx_op_name(lane, &ops[frames[n - 1].op]), name) == 0;
}
