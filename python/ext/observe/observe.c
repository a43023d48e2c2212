/* SPDX-License-Identifier: Apache-2.0
 * The callbacks that note operators. torch runs them on the thread that runs the operator, with or without
 * the GIL, so they use neither Python nor locks: every thread writes into its own lane, which is linked to
 * its capture with one atomic exchange and read when the capture is closed.
 *
 * A callback learns only which operator runs, so each open capture has a slot with its own functions. */
#include "observe/observe.h"
#include "observe/frames.h"
#include "observe/guard.h"
#include "observe/listeners.h"
#include "torch/values.h"

#include <stdlib.h>
#include <time.h>

enum { SLOTS = 8 };
static struct {
    _Atomic(lmx_observer *) observer; /* NULL: the slot's callbacks note nothing */
    atomic_int busy;                  /* callbacks that are running */
    /* Protected by the GIL. Only the thread that added a callback can remove it; one that outlived its
     * capture keeps its slot until that thread opens or closes another. */
    bool taken, stale;
    uint64_t thread, handles[2];
    int n_handles;
} slots[SLOTS];

static _Thread_local struct {
    uint64_t generation;
    lmx_lane *lane;
} mine[SLOTS];

/* While an operator runs that counts for everything inside it, and whose own work alone can run there, the
 * thread's callback is hidden from torch: most of the cost of watching is that torch prepares arguments for
 * callbacks. */
static _Thread_local struct {
    const void *record; /* of that operator; NULL: none runs */
    lmx_active *active;
    const lmx_callback *own;
} quiet;

static const lmx_record_api *api; /* set once, under the GIL, before the first callback */

/* == lanes ============================================================================================= */

static void find_state(const lmx_observer *o, lmx_lane *lane) {
    static const uint64_t nothing[2];
    lane->state = o->nodes_only ? NULL : lmx_keys_here(api);
    if (!lane->state) lane->state = nothing;
    lane->hooks = api->hooks ? api->hooks() : NULL;
    lane->kept = api->kept ? api->kept() : NULL;
}

static lmx_lane *new_lane(lmx_observer *o, int slot) {
    lmx_lane *lane = lmx_lane_new(o, api->thread());
    if (!lane) return NULL;
    lane->api = api;
    find_state(o, lane);
    mine[slot].generation = o->generation;
    mine[slot].lane = lane;
    return lane;
}

static lmx_lane *lane_of(lmx_observer *o, int slot) {
    return mine[slot].generation == o->generation ? mine[slot].lane : new_lane(o, slot);
}

/* == whose work it is ================================================================================== */

/* The call whose forward made the node. Each thread has its own sequence numbers. */
static int32_t origin_of(lmx_observer *o, const void *record, int64_t sequence) {
    if (sequence < 0) return -1;
    int32_t at = o->layout->forward_thread;
    uint64_t thread = at >= 0 ? lmx_word_at(record, (size_t)at) : 0;
    for (lmx_lane *lane = atomic_load(&o->lanes); lane; lane = lane->next)
        if (lane->thread == (thread ? thread : o->thread)) return lmx_lane_origin(lane, sequence);
    return -1;
}

/* The open call, as this thread sees it: the calls of a worker are open on its thread alone. */
static int32_t open_call(const lmx_observer *o) {
    const lmx_capture *c = o->capture;
    unsigned long worker;
    int32_t call;
    do {
        worker = __atomic_load_n(&c->worker, __ATOMIC_ACQUIRE);
        const bool others = worker && worker != (unsigned long)pthread_self();
        call = __atomic_load_n(others ? &c->owners_call : &c->open_call, __ATOMIC_ACQUIRE);
    } while (worker != __atomic_load_n(&c->worker, __ATOMIC_RELAXED));
    return call;
}

/* Everything inside a node is its backward, unless a forward is recomputed there: modules are called in it,
 * or gradients are wanted although the node itself runs without them. */
static void place_inside(const lmx_observer *o, const lmx_lane *lane, const lmx_frame *around, lmx_frame *f) {
    const lmx_frame *node = (lmx_frame *)lane->frames.data + around->node;
    int32_t open = open_call(o);
    bool called = open != node->open;
    bool again = called || (f->sequence >= 0 && !node->grad && api->grad_enabled) ||
                 (!around->is_node && around->phase == LAM_RECOMPUTE);
    f->phase = again ? LAM_RECOMPUTE : LAM_BACKWARD;
    f->call = called ? open : node->call;
    f->node = around->node;
}

/* == notes ============================================================================================= */

static lmx_op *note_op(lmx_lane *lane, const lmx_frame *f, const char *name, uint8_t flags) {
    lmx_op *op = lmx_lane_op(lane, name, !f->is_node); /* torch makes a node's name anew each time */
    if (!op) return NULL;
    op->call = f->call;
    op->parent = f->op;
    op->phase = f->phase;
    op->flags = flags;
    return op;
}

static bool push_frame(lmx_lane *lane, const lmx_frame *f) {
    lmx_frame *at = lmx_vec_push(&lane->frames, sizeof *at, 1);
    if (at)
        *at = *f;
    else
        lane->lost = true;
    return at != NULL;
}

/* The operator's own values. `known`: their number when it last ran. The schema is read only if that
 * differs, since the processor has to wait for it. */
static lmx_values own_of(lmx_values all, int32_t *known, size_t (*ask)(const void *), const void *record) {
    if (!ask || (*known >= 0 && (size_t)*known == all.n)) return all;
    *known = (int32_t)ask(record);
    return lmx_last_of(all, (size_t)*known);
}

static void tell_op(const lmx_observer *o, const lmx_frame *f, bool direct, bool began) {
    const lmx_layout *l = o->layout;
    lmx_values v = began ? lmx_own_inputs(api, l, f->record) : lmx_own_outputs(api, l, f->record);
    bool failed = !began && api->unwinding && api->unwinding() > f->unwinding;
    const lmx_op_run op = {.record = f->record,
                           .layout = l,
                           .name = api->name(f->record),
                           .values = v.at,
                           .n_values = v.n,
                           .where = {f->call, f->phase},
                           .direct = direct,
                           .failed = failed};
    lmx_tell_op(o->capture, &op, began);
}

/* Used if only nodes are watched and a listener wants the operators in them (is_nobodys: a node is open). */
static void open_told(const lmx_observer *o, lmx_lane *lane, const void *record) {
    const lmx_frame *around = lmx_top_of(lane);
    const bool direct = around->is_node;
    lmx_frame f = {.record = record, .op = around->op, .told = true};
    f.sequence = (int64_t)lmx_word_at(record, (size_t)o->layout->sequence);
    place_inside(o, lane, around, &f);
    f.unwinding = api->unwinding ? api->unwinding() : 0;
    if (push_frame(lane, &f)) tell_op(o, &f, direct, true);
}

/* Hides the callback, which is faster than to ignore what runs inside, unless others watch this thread too:
 * they need every operator. */
static void be_quiet(const lmx_observer *o, const lmx_lane *lane, const void *record) {
    lmx_active *active = (lmx_active *)(void *)(lane->kept + o->layout->callbacks);
    if (quiet.record || active->n != 1 || !lmx_is_only(active, o->own)) return;
    quiet.record = record;
    quiet.active = active;
    quiet.own = o->own;
    active->n = 0;
}

/* If torch has rebuilt its list since then, the list is right already. */
static void end_quiet(void) {
    if (quiet.record && quiet.active->n == 0 && lmx_is_only(quiet.active, quiet.own)) quiet.active->n = 1;
    quiet.record = NULL;
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
    return answer && lmx_has_torchs_modes(api, answer->asked) &&
           lmx_first_tensor(api, o->layout, record) != answer->first;
}

/* torch reports a mode or a class of tensors only when an operator reaches it, just before the kernel. */
static void open_passage(const lmx_observer *o, lmx_lane *lane, lmx_frame *f, const char *name) {
    lmx_frame *around = lmx_top_of(lane);
    bool noted = around && around->noted && !around->is_node;
    if (noted) around->ran = true;
    if (noted && lmx_passes_to_others(o, api, name))
        ((lmx_op *)lane->ops.data)[around->op].flags |= LAM_OP_NODE;
    if (noted && lmx_is_of_class(name)) {
        f->answer = (int32_t)lane->frames.n + 1;
        f->asked = api->modes ? (int32_t)api->modes() : 0;
        f->first = around->first;
    }
    push_frame(lane, f);
}

/* Notes the arguments of an operator. True if the operators inside it are not to be noted. */
static bool take_arguments(lmx_observer *o, lmx_lane *lane, lmx_frame *f, bool real) {
    const lmx_layout *l = o->layout;
    lmx_op *op = (lmx_op *)lane->ops.data + f->op;
    const lmx_named *named = lmx_lane_named(lane, op->name);
    lmx_arity *arity = lmx_lane_arity(lane, api->name(f->record));
    lmx_frame *around = lmx_top_of(lane);
    if (arity->out < 0 && api->n_outputs) arity->out = (int32_t)api->n_outputs(f->record);
    f->n_out = arity->out;
    lmx_lane_pack(lane, l, own_of(lmx_inputs_of(l, f->record), &arity->in, api->n_inputs, f->record),
                  real && lane->reads ? lmx_lane_reads(lane, op) : -1);
    op->in = lmx_lane_take(lane);
    real = real && !lmx_is_passed_on(o, lane);
    if (!real) op->flags |= LAM_OP_NODE;
    f->told = o->tells_ops && real;
    f->may = lmx_may_run(lane, l, f, op->name);
    if (around && around->may && around->noted && !around->is_node) lmx_settle_inside(lane, l, around, f, op);
    return real && named->closes && !f->may && !o->tells_ops;
}

static void open_operator(lmx_observer *o, lmx_lane *lane, const void *record, const char *name) {
    const lmx_frame *around = lmx_top_of(lane);
    const lmx_layout *l = o->layout;
    lmx_frame f = {.record = record, .op = around ? around->op : -1, .node = -1, .phase = LAM_FORWARD};
    f.sequence = (int64_t)lmx_word_at(record, (size_t)l->sequence);
    f.call = open_call(o);
    f.excluded = lane->state[1];
    if (around) f.answer = around->answer, f.trial = around->trial;
    if (around && around->node >= 0) place_inside(o, lane, around, &f);
    /* The record of an operator that makes a node has the number which the node will get. */
    if (f.sequence >= 0) lmx_lane_note_origin(lane, f.sequence, f.call);
    f.unwinding = api->unwinding ? api->unwinding() : 0;
    /* The forward of an autograd.Function has the name of its class and is no operator of torch's. */
    bool plain = is_atens(name) || strstr(name, "::");
    if (!plain && lmx_is_passage(name)) {
        open_passage(o, lane, &f, name);
        return;
    }
    if (!f.trial) f.trial = is_trial(o, lane, &f, record);
    /* A checkpoint with kept results has a mode that returns them; what it still runs is noted inside. */
    bool kept = f.phase == LAM_RECOMPUTE && lmx_has_modes(o, api);
    const bool direct = around && around->is_node;
    /* torch sets a number only where gradients are wanted. */
    lmx_op *op = note_op(lane, &f, name, f.sequence >= 0 ? LAM_OP_GRAD : 0);
    if (!op) return;
    f.op = (int32_t)(lane->ops.n - 1);
    f.noted = true;
    bool alone = take_arguments(o, lane, &f, plain && !f.trial && !kept);
    const bool classed = lmx_is_classed(o, lane);
    if (!push_frame(lane, &f)) return;
    if (o->capture->guard) op = lmx_guard_open(o->capture, lane, name, f.op);
    if (f.told) tell_op(o, &f, direct, true);
    if (classed) lmx_top_of(lane)->first = lmx_first_tensor(api, l, record);
    if (l->asks >= 0 && plain && lmx_asks_python(o, api, classed)) {
        op->flags |= LAM_OP_NODE;
        if (!lmx_has_modes(o, api)) lmx_top_of(lane)->answer = (int32_t)lane->frames.n;
    }
    alone = alone && !classed && (!(lane->state[0] >> l->python & 1) || !lmx_has_modes(o, api));
    lmx_top_of(lane)->alone = alone;
    if (alone && o->own) be_quiet(o, lane, record);
    op->began = lmx_clock_stamp(lane->clock, lane->last);
}

/* torch makes no record of this one. If the operator runs already, this is its way to the kernel. */
static void note_unseen(lmx_observer *o, lmx_lane *lane, const char *name) {
    const lmx_frame *around = lmx_top_of(lane);
    lmx_frame f = {.op = around ? around->op : -1, .node = -1, .phase = LAM_FORWARD, .sequence = -1};
    if (o->nodes_only || lmx_is_of_one_alone(lane) || lmx_runs_now(lane, name)) return;
    f.call = open_call(o);
    if (around && around->node >= 0) place_inside(o, lane, around, &f);
    lmx_op *op = note_op(lane, &f, name, LAM_OP_NODE | LAM_OP_HIDES);
    if (op) op->began = op->ended = lmx_clock_stamp(lane->clock, lane->last);
}

/* The node's name if this is the engine's work on it (the node and sums of gradients); else NULL. */
static const char *engine_work(const char *name) {
    static const char prefix[] = "autograd::engine::evaluate_function: ";
    if (name[0] != prefix[0] || name[1] != prefix[1]) return NULL; /* as in most names: "aten::add" */
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : NULL;
}

/* The frame of the engine's work on the node that begins now: of torch's two records one is noted. */
static lmx_frame *same_node(const lmx_lane *lane, const char *name) {
    lmx_frame *around = lmx_top_of(lane);
    if (!around || !around->is_node || !around->noted || around->merged) return NULL;
    return strcmp(lmx_op_name(lane, (lmx_op *)lane->ops.data + around->op), name) == 0 ? around : NULL;
}

/* The node that stores a parameter's gradient has no number. It follows the one that computed it. */
static bool adds_gradient_up(const char *name) {
    return strcmp(name, "torch::autograd::AccumulateGrad") == 0;
}

static void tell_node(const lmx_observer *o, const lmx_frame *f, const char *name, bool began) {
    const int32_t pass = api->task ? (uint16_t)(api->task() + 1) : 0;
    const lmx_node_run node = {f->record, o->layout, name, {f->call, f->phase}, pass};
    lmx_tell_node(o->capture, &node, began);
}

/* Nodes made by a node, for a second derivative, belong to its call. Watched operators note it. */
static void note_origin(const lmx_observer *o, lmx_lane *lane, int32_t call) {
    if (o->nodes_only) lmx_lane_note_origin(lane, (int64_t)api->sequence(), call);
}

static void open_node(lmx_observer *o, lmx_lane *lane, const void *record, const char *name, bool real) {
    const lmx_frame *around = lmx_top_of(lane);
    lmx_frame f = {.record = record,
                   .op = around ? around->op : -1,
                   .phase = LAM_BACKWARD,
                   .is_node = true,
                   .real = real};
    f.sequence = (int64_t)lmx_word_at(record, (size_t)o->layout->sequence);
    f.call = f.sequence >= 0          ? origin_of(o, record, f.sequence)
             : adds_gradient_up(name) ? lane->last_call
                                      : -1;
    f.open = open_call(o);
    f.node = (int32_t)lane->frames.n;
    f.grad = api->grad_enabled && api->grad_enabled();
    f.unwinding = api->unwinding ? api->unwinding() : 0;
    lmx_frame *same = same_node(lane, name);
    if (same) {
        same->merged = true;
        if (f.call >= 0) same->call = ((lmx_op *)lane->ops.data)[same->op].call = f.call;
        push_frame(lane, &f);
        if (o->capture->listeners && real) tell_node(o, &f, name, true);
        return;
    }
    lmx_op *op = note_op(lane, &f, name, LAM_OP_NODE);
    if (!op) return;
    f.op = (int32_t)(lane->ops.n - 1);
    f.noted = true;
    if (f.grad) note_origin(o, lane, f.call);
    op->pass = api->task ? (uint16_t)(api->task() + 1) : 0;
    if (!push_frame(lane, &f)) return;
    if (o->capture->listeners && real) tell_node(o, &f, name, true);
    op->began = lmx_clock_stamp(lane->clock, lane->last);
}

/* True for an operator outside of every node, if only nodes are watched. */
static bool is_nobodys(const lmx_observer *o, const lmx_lane *lane, bool is_node) {
    const lmx_frame *around = lmx_top_of(lane);
    return o->nodes_only && !is_node && (!around || around->node < 0);
}

static void open_record(lmx_observer *o, lmx_lane *lane, const void *record, bool is_node) {
    if (is_nobodys(o, lane, is_node) || lmx_is_of_one_alone(lane)) return;
    const char *name = api->name(record), *node = is_node ? name : engine_work(name);
    if (node && (is_node || !o->nodes_only))
        open_node(o, lane, record, node, is_node);
    else if (o->nodes_only && !node)
        open_told(o, lane, record);
    else if (!node)
        open_operator(o, lane, record, name);
}

/* An operator that raised has no outputs; some others have none either. */
static void close_op(lmx_observer *o, lmx_lane *lane, const lmx_frame *f, const void *record, int64_t now) {
    lmx_op *op = (lmx_op *)lane->ops.data + f->op;
    op->ended = now;
    int32_t n = 0;
    if (!f->is_node) {
        int32_t known = f->n_out;
        n = lmx_lane_pack(lane, o->layout,
                          own_of(lmx_outputs_of(o->layout, record), &known, api->n_outputs, record), -1);
        op->out = lmx_lane_take(lane);
        if (f->may || f->alone) lmx_settle_end(lane, o->layout, f, op);
    }
    /* What raised was a hook, after the kernel: a checkpoint stops in the last one that it needs. */
    const bool done = f->done || (f->ran && f->may & LMX_MAY_HOOK);
    bool raised = !n && !done && (api->unwinding ? api->unwinding() > f->unwinding : !f->is_node);
    if (raised) op->flags |= LAM_OP_FAILED;
}

/* Ignores a record whose start was not noted. Frames above the record's missed their end and are dropped. */
static void close_frame(lmx_observer *o, lmx_lane *lane, const void *record, int64_t now) {
    size_t n = lane->frames.n;
    const lmx_frame *frames = lane->frames.data;
    while (n && frames[n - 1].record != record) n--;
    if (!n) return;
    lmx_frame f = frames[n - 1];
    lane->frames.n = n - 1;
    if (f.noted) close_op(o, lane, &f, record, now);
    const lmx_frame *around = f.told ? lmx_top_of(lane) : NULL;
    if (f.told) tell_op(o, &f, around && around->is_node, false);
    if (!f.real) return;
    if (f.sequence >= 0) lane->last_call = f.call;
    if (f.grad) note_origin(o, lane, lmx_here(o->capture).call);
    if (o->capture->listeners) tell_node(o, &f, api->name(record), false);
}

bool lmx_observe_call(lmx_capture *c) {
    lmx_observer *o = c->observer;
    lmx_lane *lane = o && o->slot >= 0 ? lane_of(o, o->slot) : NULL;
    if (!lane) return false;
    int32_t call = o->nodes_only ? lmx_here(c).call : open_call(o);
    if (api->sequence) lmx_lane_note_origin(lane, (int64_t)api->sequence(), call);
    const lmx_frame *top = lmx_top_of(lane);
    return top && top->node >= 0;
}

/* The lane of this thread; NULL: it has none. */
static const lmx_lane *lane_here(const lmx_capture *c) {
    const lmx_observer *o = c->observer;
    const int slot = o ? o->slot : -1;
    return slot >= 0 && mine[slot].generation == o->generation ? mine[slot].lane : NULL;
}

const lmx_lane *lmx_observe_worker(const lmx_capture *c) {
    const lmx_lane *lane = lane_here(c);
    const lmx_frame *top = lane ? lmx_top_of(lane) : NULL;
    return top && top->node >= 0 ? lane : NULL;
}

lmx_where lmx_here(const lmx_capture *c) {
    const lmx_lane *lane = lane_here(c);
    const lmx_frame *top = lane ? lmx_top_of(lane) : NULL;
    const bool own = lmx_takes_calls(c);
    int32_t open = own ? __atomic_load_n(&c->open_call, __ATOMIC_RELAXED) : -1;
    if (!top || top->node < 0) return (lmx_where){open, LAM_FORWARD};
    bool called = own && open != ((const lmx_frame *)lane->frames.data)[top->node].open;
    return called ? (lmx_where){open, LAM_RECOMPUTE} : (lmx_where){top->call, top->phase};
}

/* True if the engine is between the nodes of a pass that runs inside a node of another pass. */
static bool is_pass_inside(const lmx_lane *lane) {
    const lmx_frame *top = lmx_top_of(lane);
    if (!top || !top->real || top->op < 0) return false;
    return ((const lmx_op *)lane->ops.data + top->op)->pass != (uint16_t)(api->task() + 1);
}

lmx_where lmx_here_or_engine(const lmx_capture *c) {
    lmx_where at = lmx_here(c);
    bool nobodys = at.call < 0 && at.phase == LAM_FORWARD;
    if ((!nobodys && at.phase != LAM_BACKWARD) || !api || !api->task || api->task() < 0) return at;
    const lmx_lane *lane = lane_here(c);
    if (!lane) return at;
    return nobodys || is_pass_inside(lane) ? (lmx_where){lane->last_call, LAM_BACKWARD} : at;
}

/* == callbacks ========================================================================================= */

/* The lane to write to; NULL if nothing is to be noted, as for what the capture itself runs in torch. */
static lmx_lane *enter(lmx_observer *o, int slot) {
    lmx_lane *lane = o ? lane_of(o, slot) : NULL;
    if (!lane || lane->inside || lane->lost) return NULL;
    if (lmx_takes_calls(o->capture) && (o->capture->busy || o->capture->paused)) return NULL;
    lane->inside = true;
    return lane;
}

static void *begin(int slot, void **context, const void *record, bool is_node) {
    *context = NULL;
    atomic_fetch_add(&slots[slot].busy, 1);
    lmx_observer *o = atomic_load(&slots[slot].observer);
    lmx_lane *lane = enter(o, slot);
    if (lane) {
        open_record(o, lane, record, is_node);
        lane->inside = false;
    }
    atomic_fetch_sub(&slots[slot].busy, 1);
    return context;
}

static void end(int slot, const void *record) {
    if (quiet.record == record) end_quiet();
    atomic_fetch_add(&slots[slot].busy, 1);
    lmx_observer *o = atomic_load(&slots[slot].observer);
    lmx_lane *lane = enter(o, slot);
    if (lane) {
        close_frame(o, lane, record, lmx_clock_stamp(lane->clock, lane->last));
        lane->inside = false;
    }
    atomic_fetch_sub(&slots[slot].busy, 1);
}

void lmx_observe_unseen(const char *name) {
    for (int i = 0; api && !quiet.record && i < SLOTS; i++) {
        atomic_fetch_add(&slots[i].busy, 1);
        lmx_observer *o = atomic_load(&slots[i].observer);
        lmx_lane *lane = o && o->thread == api->thread() ? enter(o, i) : NULL;
        if (lane) note_unseen(o, lane, name);
        if (lane) lane->inside = false;
        atomic_fetch_sub(&slots[i].busy, 1);
    }
}

#define CALLBACKS(i)                                                                                         \
    static void *begin_op_##i(void **context, const void *record) {                                          \
        return begin(i, context, record, false);                                                             \
    }                                                                                                        \
    static void *begin_node_##i(void **context, const void *record) {                                        \
        return begin(i, context, record, true);                                                              \
    }                                                                                                        \
    static void end_##i(const void *record, void *context) {                                                 \
        (void)context;                                                                                       \
        end(i, record);                                                                                      \
    }
/* clang-format off */
CALLBACKS(0) CALLBACKS(1) CALLBACKS(2) CALLBACKS(3) CALLBACKS(4) CALLBACKS(5) CALLBACKS(6) CALLBACKS(7)
    /* clang-format on */

    enum {
        OF_OPS,
        OF_OPS_RESULTS,
        OF_NODES,
        OF_NODES_WITH_VALUES,
        N_CALLBACKS
    };
#define ENTRY(i)                                                                                             \
    {                                                                                                        \
        {.start = begin_op_##i, .end = end_##i, .values = true},                                             \
            {.start = begin_op_##i, .end = end_##i, .results = true},                                        \
            {.start = begin_node_##i, .end = end_##i, .nodes = true}, {                                      \
            .start = begin_node_##i, .end = end_##i, .nodes = true, .values = true                           \
        }                                                                                                    \
    }
static const lmx_callback callbacks[SLOTS][N_CALLBACKS] = {ENTRY(0), ENTRY(1), ENTRY(2), ENTRY(3),
                                                           ENTRY(4), ENTRY(5), ENTRY(6), ENTRY(7)};

/* == other threads ===================================================================================== */

/* Callbacks belong to one thread and to those that torch has work for it. A backward pass that the program
 * runs on any other thread is seen only by this callback, which all captures share. */
static struct {
    uint64_t handle;
    int n; /* open captures; under the GIL */
} everywhere;

static bool is_strange(lmx_observer *o, int slot, const void *record) {
    const lmx_layout *l = o->layout;
    if (mine[slot].generation == o->generation || api->thread() == o->thread || l->forward_thread < 0)
        return false;
    return lmx_word_at(record, (size_t)l->forward_thread) &&
           origin_of(o, record, (int64_t)lmx_word_at(record, (size_t)l->sequence)) >= 0;
}

/* Called when a node ends: by then a watched thread has a lane. */
static void end_anywhere(const void *record, void *context) {
    (void)context;
    for (int i = 0; i < SLOTS; i++) {
        if (!atomic_load(&slots[i].observer)) continue;
        atomic_fetch_add(&slots[i].busy, 1);
        lmx_observer *o = atomic_load(&slots[i].observer);
        if (o && is_strange(o, i, record)) atomic_store(&o->strange, true);
        atomic_fetch_sub(&slots[i].busy, 1);
    }
}

static void *begin_anywhere(void **context, const void *record) {
    (void)record;
    *context = NULL;
    return context;
}

static void watch_everywhere(void) {
    static const lmx_callback c = {.start = begin_anywhere, .end = end_anywhere, .nodes = true, .all = true};
    if (everywhere.n++ == 0 && api->add_for_all) everywhere.handle = lmx_add_callback(api, &c);
}

static void leave_everywhere(void) {
    if (--everywhere.n == 0 && api->add_for_all) api->remove(everywhere.handle);
}

/* == opening and closing =============================================================================== */

static void remove_callbacks(int slot) {
    end_quiet(); /* it is this thread's, and torch is about to rebuild its list */
    while (slots[slot].n_handles) api->remove(slots[slot].handles[--slots[slot].n_handles]);
    slots[slot].taken = slots[slot].stale = false;
}

static void clean_up(uint64_t thread) {
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].stale && slots[i].thread == thread) remove_callbacks(i);
}

static int free_slot(void) {
    for (int i = 0; i < SLOTS; i++)
        if (!slots[i].taken) return i;
    return -1;
}

static void add_callback(int slot, int which) {
    slots[slot].handles[slots[slot].n_handles++] = lmx_add_callback(api, &callbacks[slot][which]);
}

bool lmx_observe(lmx_capture *c) {
    static uint64_t generation;
    const lmx_record_api *found = lmx_record_api_of(c->st);
    if (!api) api = found; /* it is the same each time, and callbacks may be reading it */
    if (!found || !c->st->watches_ops) {
        lmx_fail(c->st, LAM_UNSUPPORTED, NULL,
                 "operators can't be watched: no layout of torch's records is in use");
        return false;
    }
    if (!c->wants_ops && !api->sequence) {
        lmx_fail(c->st, LAM_UNSUPPORTED, NULL,
                 "this torch does not tell whose the nodes of a backward pass are");
        return false;
    }
    uint64_t thread = api->thread();
    clean_up(thread);
    int slot = free_slot();
    if (slot < 0) {
        lmx_fail(c->st, LAM_LIMIT, NULL, "%d captures of operators are open already; close some first",
                 SLOTS);
        return false;
    }
    lmx_observer *o = calloc(1, sizeof *o);
    if (!o) {
        PyErr_NoMemory();
        return false;
    }
    *o = (lmx_observer){.capture = c, .layout = c->st->layout, .thread = thread, .slot = slot};
    o->nodes_only = !c->wants_ops;
    o->tells_ops = lmx_want_operators(c);
    if (c->wants_ops && !o->tells_ops && api->kept && o->layout->callbacks >= 0)
        o->own = &callbacks[slot][OF_OPS];
    if (c->wants_ops && !c->dry) lmx_reads_values(c->st);
    o->generation = ++generation;
    c->observer = o;
    slots[slot].taken = true;
    slots[slot].thread = thread;
    atomic_store(&slots[slot].observer, o);
    if (!o->nodes_only) add_callback(slot, OF_OPS);
    if (o->nodes_only && o->tells_ops) add_callback(slot, OF_OPS_RESULTS);
    add_callback(slot, lmx_want_values(c) ? OF_NODES_WITH_VALUES : OF_NODES);
    /* This makes torch rebuild all its lists, twice. A recording reports no time of a pass that it did not
     * see, so it does without. */
    o->everywhere = !c->brief;
    if (o->everywhere) watch_everywhere();
    return true;
}

void lmx_unobserve(lmx_capture *c) {
    lmx_observer *o = c->observer;
    if (!o || o->slot < 0) return;
    int slot = o->slot;
    o->slot = -1;
    uint64_t thread = api->thread();
    if (slots[slot].thread == thread)
        remove_callbacks(slot);
    else
        slots[slot].stale = true;
    if (o->everywhere) leave_everywhere();
    atomic_store(&slots[slot].observer, NULL);
    if (atomic_load(&slots[slot].busy)) {
        /* A callback may be waiting for the GIL, since the size of a tensor may come from Python. */
        PyThreadState *state = PyEval_SaveThread();
        const struct timespec moment = {0, 10000};
        while (atomic_load(&slots[slot].busy)) nanosleep(&moment, NULL);
        PyEval_RestoreThread(state);
    }
}

size_t lmx_observer_own(const lmx_observer *o) {
    const lmx_lane *own = lmx_observer_lane(o, 0);
    return own ? own->ops.n : 0;
}

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
    const lmx_lane *own = o->capture->mode ? NULL : lmx_observer_lane(o, 0);
    const lmx_frame *f = frame_above(own, level);
    if (!f) return NULL;
    if (f->is_node && !f->real) return "";
    return f->noted || (f->is_node && f->op >= 0) ? lmx_op_name(own, (lmx_op *)own->ops.data + f->op) : NULL;
}

const char *lmx_observer_caller(const lmx_observer *o) { return lmx_observer_above(o, 1); }

void lmx_observer_mark(lmx_observer *o, size_t level, uint8_t flag) {
    const lmx_lane *own = lmx_observer_lane(o, 0);
    lmx_frame *f = frame_above(own, level);
    if (!f || !f->noted || f->is_node) return;
    ((lmx_op *)own->ops.data + f->op)->flags |= flag;
    if (flag != LAM_OP_NODE) return;
    f->alone = false; /* its operators count */
    if (quiet.record == f->record) end_quiet();
}
