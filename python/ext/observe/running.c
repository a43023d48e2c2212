/* SPDX-License-Identifier: Apache-2.0
 * The operators that run on a thread: their records begin and end here, and what they are, and which inside
 * them count. Runs inside torch's callbacks, with or without the GIL, without Python. */
#include "observe/running.h"
#include "observe/guard.h"
#include "observe/listeners.h"

/* The operator's own values. `known`: their number when it last ran. The schema is read only if that
 * differs, since the processor has to wait for it. */
static lmx_values own_of(lmx_values all, int32_t *known, size_t (*ask)(const void *), const void *record) {
    if (!ask || (*known >= 0 && (size_t)*known == all.n)) return all;
    *known = (int32_t)ask(record);
    return lmx_last_of(all, (size_t)*known);
}

static void tell_op(const lmx_observer *o, const lmx_frame *f, bool direct, bool began) {
    const lmx_layout *l = o->layout;
    lmx_values v = began ? lmx_own_inputs(lmx_api, l, f->record) : lmx_own_outputs(lmx_api, l, f->record);
    bool failed = !began && lmx_api->unwinding && lmx_api->unwinding() > f->unwinding;
    const lmx_op_run op = {.record = f->record,
                           .layout = l,
                           .name = lmx_api->name(f->record),
                           .values = v.at,
                           .n_values = v.n,
                           .where = {f->call, f->phase},
                           .direct = direct,
                           .failed = failed};
    lmx_tell_op(o->capture, &op, began);
}

void lmx_open_for_listeners(const lmx_observer *o, lmx_lane *lane, const void *record) {
    const lmx_frame *around = lmx_top_of(lane);
    const bool direct = around->is_node;
    lmx_frame f = {.record = record, .op = around->op, .notifies = true};
    f.sequence = (int64_t)lmx_word_at(record, (size_t)o->layout->sequence);
    lmx_place_inside(o, lane, around, &f);
    f.unwinding = lmx_api->unwinding ? lmx_api->unwinding() : 0;
    if (lmx_push_frame(lane, &f)) tell_op(o, &f, direct, true);
}

/* Hides the callback, which is faster than to ignore what runs inside, unless others watch this thread too:
 * they need every operator. */
static void be_quiet(const lmx_observer *o, const lmx_lane *lane, const void *record) {
    lmx_active *active = (lmx_active *)(void *)(lane->kept + o->layout->callbacks);
    if (lane->quiet->record || active->n != 1 || !lmx_is_only(active, o->own)) return;
    *lane->quiet = (lmx_quiet){record, active, o->own};
    active->n = 0;
}

/* True for nearly all names: compared here, since a call of the library's function takes longer. */
static bool is_atens(const char *name) {
    return name[0] == 'a' && name[1] == 't' && name[2] == 'e' && name[3] == 'n' && name[4] == ':' &&
           name[5] == ':';
}

/* True if the operator is a trial, not the model's work. The class of tensors that are spread over processes
 * runs an operator on tensors without values, made by a mode of torch's, to find what it would return. The
 * class of fake tensors hands such a mode the very tensors that it got, so those are compared. */
static bool is_trial(const lmx_observer *o, const lmx_lane *lane, const lmx_frame *f, const void *record) {
    const lmx_frame *answer = f->answer ? (lmx_frame *)lane->frames.data + f->answer - 1 : NULL;
    return answer && lmx_has_torchs_modes(lmx_api, answer->asked) &&
           lmx_first_tensor(lmx_api, o->layout, record) != answer->first;
}

/* torch reports a mode or a class of tensors only when an operator reaches it, just before the kernel. */
static void open_passage(const lmx_observer *o, lmx_lane *lane, lmx_frame *f, const char *name) {
    lmx_frame *around = lmx_top_of(lane);
    bool noted = around && around->noted && !around->is_node;
    if (noted) around->ran = true;
    if (noted && lmx_passes_to_others(o, lmx_api, name))
        ((lmx_op *)lane->ops.data)[around->op].flags |= LAM_OP_NODE;
    if (noted && lmx_is_of_class(name)) {
        f->answer = (int32_t)lane->frames.n + 1;
        f->asked = lmx_api->modes ? (int32_t)lmx_api->modes() : 0;
        f->first = around->first;
    }
    lmx_push_frame(lane, f);
}

/* Notes the arguments of an operator. True if the operators inside it are not to be noted. */
static bool take_arguments(lmx_observer *o, lmx_lane *lane, lmx_frame *f, bool real) {
    const lmx_layout *l = o->layout;
    lmx_op *op = (lmx_op *)lane->ops.data + f->op;
    const lmx_named *named = lmx_lane_named(lane, op->name);
    lmx_arity *arity = lmx_lane_arity(lane, lmx_api->name(f->record));
    lmx_frame *around = lmx_top_of(lane);
    if (arity->out < 0 && lmx_api->n_outputs) arity->out = (int32_t)lmx_api->n_outputs(f->record);
    f->n_out = arity->out;
    lmx_lane_pack(lane, l, own_of(lmx_inputs_of(l, f->record), &arity->in, lmx_api->n_inputs, f->record),
                  real && lane->reads ? lmx_lane_reads(lane, op) : -1);
    op->in = lmx_lane_take(lane);
    real = real && !lmx_is_passed_on(o, lane);
    if (!real) op->flags |= LAM_OP_NODE;
    f->notifies = o->tells_ops && real;
    f->may = lmx_may_run(lane, l, f, op->name);
    if (around && around->may && around->noted && !around->is_node) lmx_settle_inside(lane, l, around, f, op);
    return real && named->closes && !f->may && !o->tells_ops;
}

void lmx_open_operator(lmx_observer *o, lmx_lane *lane, const void *record, const char *name) {
    const lmx_frame *around = lmx_top_of(lane);
    const lmx_layout *l = o->layout;
    lmx_frame f = {.record = record, .op = around ? around->op : -1, .node = -1, .phase = LAM_FORWARD};
    f.sequence = (int64_t)lmx_word_at(record, (size_t)l->sequence);
    f.call = lmx_open_call(o);
    f.excluded = lane->state[1];
    if (around) f.answer = around->answer, f.trial = around->trial;
    if (around && around->node >= 0) lmx_place_inside(o, lane, around, &f);
    /* The record of an operator that makes a node has the number which the node will get. */
    if (f.sequence >= 0) lmx_lane_note_origin(lane, f.sequence, f.call);
    f.unwinding = lmx_api->unwinding ? lmx_api->unwinding() : 0;
    /* The forward of an autograd.Function has the name of its class and is no operator of torch's. */
    bool plain = is_atens(name) || strstr(name, "::");
    if (!plain && lmx_is_passage(name)) {
        open_passage(o, lane, &f, name);
        return;
    }
    if (!f.trial) f.trial = is_trial(o, lane, &f, record);
    /* A checkpoint with kept results has a mode that returns them; what it still runs is noted inside. */
    bool kept = f.phase == LAM_RECOMPUTE && lmx_has_modes(o, lmx_api);
    const bool direct = around && around->is_node;
    /* torch sets a number only where gradients are wanted. */
    lmx_op *op = lmx_note_op(lane, &f, name, f.sequence >= 0 ? LAM_OP_GRAD : 0);
    if (!op) return;
    f.op = (int32_t)(lane->ops.n - 1);
    f.noted = true;
    bool alone = take_arguments(o, lane, &f, plain && !f.trial && !kept);
    const bool classed = lmx_is_classed(o, lane);
    if (!lmx_push_frame(lane, &f)) return;
    if (o->capture->watched.guard) op = lmx_guard_open(o->capture, lane, name, f.op);
    if (f.notifies) tell_op(o, &f, direct, true);
    if (classed) lmx_top_of(lane)->first = lmx_first_tensor(lmx_api, l, record);
    if (l->asks >= 0 && plain && lmx_asks_python(o, lmx_api, classed)) {
        op->flags |= LAM_OP_NODE;
        if (!lmx_has_modes(o, lmx_api)) lmx_top_of(lane)->answer = (int32_t)lane->frames.n;
    }
    alone = alone && !classed && (!(lane->state[0] >> l->python & 1) || !lmx_has_modes(o, lmx_api));
    lmx_top_of(lane)->alone = alone;
    if (alone && o->own) be_quiet(o, lane, record);
    op->began = lmx_clock_stamp(lane->clock, lane->last);
}

void lmx_note_unseen(lmx_observer *o, lmx_lane *lane, const char *name) {
    const lmx_frame *around = lmx_top_of(lane);
    lmx_frame f = {.op = around ? around->op : -1, .node = -1, .phase = LAM_FORWARD, .sequence = -1};
    if (o->nodes_only || lmx_is_of_one_alone(lane) || lmx_runs_now(lane, name)) return;
    f.call = lmx_open_call(o);
    if (around && around->node >= 0) lmx_place_inside(o, lane, around, &f);
    lmx_op *op = lmx_note_op(lane, &f, name, LAM_OP_NODE | LAM_OP_HIDES);
    if (op) op->began = op->ended = lmx_clock_stamp(lane->clock, lane->last);
}

/* == ends ============================================================================================== */

/* An operator that raised has no outputs; some others have none either. */
static void close_op(lmx_observer *o, lmx_lane *lane, const lmx_frame *f, const void *record, int64_t now) {
    lmx_op *op = (lmx_op *)lane->ops.data + f->op;
    op->ended = now;
    int32_t n = 0;
    if (!f->is_node) {
        int32_t known = f->n_out;
        n = lmx_lane_pack(lane, o->layout,
                          own_of(lmx_outputs_of(o->layout, record), &known, lmx_api->n_outputs, record), -1);
        op->out = lmx_lane_take(lane);
        if (f->may || f->alone) lmx_settle_end(lane, o->layout, f, op);
    }
    /* What raised was a hook, after the kernel: a checkpoint stops in the last one that it needs. */
    const bool done = f->done || (f->ran && f->may & LMX_MAY_HOOK);
    bool raised = !n && !done && (lmx_api->unwinding ? lmx_api->unwinding() > f->unwinding : !f->is_node);
    if (raised) op->flags |= LAM_OP_FAILED;
}

void lmx_close_frame(lmx_observer *o, lmx_lane *lane, const void *record, int64_t now) {
    size_t n = lane->frames.n;
    const lmx_frame *frames = lane->frames.data;
    while (n && frames[n - 1].record != record) n--;
    if (!n) return;
    lmx_frame f = frames[n - 1];
    lane->frames.n = n - 1;
    if (f.noted) close_op(o, lane, &f, record, now);
    const lmx_frame *around = f.notifies ? lmx_top_of(lane) : NULL;
    if (f.notifies) tell_op(o, &f, around && around->is_node, false);
    if (!f.real) return;
    if (f.sequence >= 0) lane->last_call = f.call;
    if (f.grad) lmx_note_nodes_origin(o, lane, lmx_here(o->capture).call);
    if (o->capture->heard.listeners) lmx_report_node(o, &f, lmx_api->name(record), false);
}

/* == those that run now ================================================================================ */

/* The operator or node this many levels up. A mode that answers has a frame too, unless the callback is
 * hidden. */
static lmx_frame *frame_above(const lmx_lane *own, size_t level) {
    for (size_t i = own ? own->frames.n : 0; i > 0; i--) {
        lmx_frame *f = (lmx_frame *)own->frames.data + i - 1;
        if ((f->noted || f->is_node) && level-- == 0) return f;
    }
    return NULL;
}

const char *lmx_observer_above(const lmx_observer *o, size_t level) {
    const lmx_lane *own = o->capture->watched.mode ? NULL : lmx_observer_lane(o, 0);
    const lmx_frame *f = frame_above(own, level);
    if (!f) return NULL;
    if (f->is_node && !f->real) return "";
    return f->noted || (f->is_node && f->op >= 0) ? lmx_op_name(own, (lmx_op *)own->ops.data + f->op) : NULL;
}

bool lmx_observer_casts(const lmx_observer *o, uint64_t device) {
    const lmx_lane *own = o->capture->watched.mode ? NULL : lmx_observer_lane(o, 0);
    const lmx_frame *f = frame_above(own, 0);
    return f && !f->is_node && f->excluded & o->layout->autocast & device;
}

const char *lmx_observer_caller(const lmx_observer *o) { return lmx_observer_above(o, 1); }

void lmx_observer_mark(lmx_observer *o, size_t level, uint8_t flag) {
    const lmx_lane *own = lmx_observer_lane(o, 0);
    lmx_frame *f = frame_above(own, level);
    if (!f || !f->noted || f->is_node) return;
    ((lmx_op *)own->ops.data + f->op)->flags |= flag;
    if (flag != LAM_OP_NODE) return;
    f->alone = false; /* its operators count */
    if (own->quiet) lmx_end_quiet(own->quiet, f->record);
}
