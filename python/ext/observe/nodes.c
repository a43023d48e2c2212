/* SPDX-License-Identifier: Apache-2.0
 * Nodes of autograd's graph, and whose work it is what runs: the calls that made the nodes of a backward
 * pass. Runs inside torch's callbacks, with or without the GIL, without Python. */
#include "observe/listeners.h"
#include "observe/running.h"

int32_t lmx_origin_of(lmx_observer *o, const void *record, int64_t sequence) {
    if (sequence < 0) return -1;
    int32_t at = o->layout->forward_thread;
    uint64_t thread = at >= 0 ? lmx_word_at(record, (size_t)at) : 0;
    for (lmx_lane *lane = atomic_load(&o->lanes); lane; lane = lane->next)
        if (lane->thread == (thread ? thread : o->thread)) return lmx_lane_origin(lane, sequence);
    return -1;
}

int32_t lmx_open_call(const lmx_observer *o) {
    const lmx_capture *c = o->capture;
    unsigned long worker;
    int32_t call;
    do {
        worker = __atomic_load_n(&c->threads.worker, __ATOMIC_ACQUIRE);
        const bool others = worker && worker != (unsigned long)pthread_self();
        call = __atomic_load_n(others ? &c->threads.owners_call : &c->noted.open, __ATOMIC_ACQUIRE);
    } while (worker != __atomic_load_n(&c->threads.worker, __ATOMIC_RELAXED));
    return call;
}

/* Everything inside a node is its backward, unless a forward is recomputed there: modules are called in it,
 * or gradients are wanted although the node itself runs without them. */
void lmx_place_inside(const lmx_observer *o, const lmx_lane *lane, const lmx_frame *around, lmx_frame *f) {
    const lmx_frame *node = (lmx_frame *)lane->frames.data + around->node;
    int32_t open = lmx_open_call(o);
    bool called = open != node->open;
    bool again = called || (f->sequence >= 0 && !node->grad && lmx_api->grad_enabled) ||
                 (!around->is_node && around->phase == LAM_RECOMPUTE);
    f->phase = again ? LAM_RECOMPUTE : LAM_BACKWARD;
    f->call = called ? open : node->call;
    f->node = around->node;
}

bool lmx_observe_call(lmx_capture *c) {
    lmx_observer *o = c->watched.observer;
    lmx_lane *lane = o && o->slot >= 0 ? lmx_lane_of(o, o->slot) : NULL;
    if (!lane) return false;
    int32_t call = o->nodes_only ? lmx_here(c).call : lmx_open_call(o);
    if (lmx_api->sequence) lmx_lane_note_origin(lane, (int64_t)lmx_api->sequence(), call);
    const lmx_frame *top = lmx_top_of(lane);
    return top && top->node >= 0;
}

const lmx_lane *lmx_observe_worker(const lmx_capture *c) {
    const lmx_lane *lane = lmx_lane_here(c);
    const lmx_frame *top = lane ? lmx_top_of(lane) : NULL;
    return top && top->node >= 0 ? lane : NULL;
}

lmx_where lmx_here(const lmx_capture *c) {
    const lmx_lane *lane = lmx_lane_here(c);
    const lmx_frame *top = lane ? lmx_top_of(lane) : NULL;
    const bool own = lmx_takes_calls(c);
    int32_t open = own ? __atomic_load_n(&c->noted.open, __ATOMIC_RELAXED) : -1;
    if (!top || top->node < 0) return (lmx_where){open, LAM_FORWARD};
    bool called = own && open != ((const lmx_frame *)lane->frames.data)[top->node].open;
    return called ? (lmx_where){open, LAM_RECOMPUTE} : (lmx_where){top->call, top->phase};
}

/* True if the engine is between the nodes of a pass that runs inside a node of another pass. */
static bool is_pass_inside(const lmx_lane *lane) {
    const lmx_frame *top = lmx_top_of(lane);
    if (!top || !top->real || top->op < 0) return false;
    return ((const lmx_op *)lane->ops.data + top->op)->pass != (uint16_t)(lmx_api->task() + 1);
}

lmx_where lmx_here_or_engine(const lmx_capture *c) {
    lmx_where at = lmx_here(c);
    bool nobodys = at.call < 0 && at.phase == LAM_FORWARD;
    if ((!nobodys && at.phase != LAM_BACKWARD) || !lmx_api || !lmx_api->task || lmx_api->task() < 0)
        return at;
    const lmx_lane *lane = lmx_lane_here(c);
    if (!lane) return at;
    return nobodys || is_pass_inside(lane) ? (lmx_where){lane->last_call, LAM_BACKWARD} : at;
}

/* == nodes ============================================================================================= */

const char *lmx_engine_work(const char *name) {
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

void lmx_report_node(const lmx_observer *o, const lmx_frame *f, const char *name, bool began) {
    const int32_t pass = lmx_api->task ? (uint16_t)(lmx_api->task() + 1) : 0;
    const lmx_node_run node = {f->record, o->layout, name, {f->call, f->phase}, pass};
    lmx_tell_node(o->capture, &node, began);
}

void lmx_note_nodes_origin(const lmx_observer *o, lmx_lane *lane, int32_t call) {
    if (o->nodes_only) lmx_lane_note_origin(lane, (int64_t)lmx_api->sequence(), call);
}

void lmx_open_node(lmx_observer *o, lmx_lane *lane, const void *record, const char *name, bool real) {
    const lmx_frame *around = lmx_top_of(lane);
    lmx_frame f = {.record = record,
                   .op = around ? around->op : -1,
                   .phase = LAM_BACKWARD,
                   .is_node = true,
                   .real = real};
    f.sequence = (int64_t)lmx_word_at(record, (size_t)o->layout->sequence);
    f.call = f.sequence >= 0          ? lmx_origin_of(o, record, f.sequence)
             : adds_gradient_up(name) ? lane->last_call
                                      : -1;
    f.open = lmx_open_call(o);
    f.node = (int32_t)lane->frames.n;
    f.grad = lmx_api->grad_enabled && lmx_api->grad_enabled();
    f.unwinding = lmx_api->unwinding ? lmx_api->unwinding() : 0;
    lmx_frame *same = same_node(lane, name);
    if (same) {
        same->merged = true;
        if (f.call >= 0) same->call = ((lmx_op *)lane->ops.data)[same->op].call = f.call;
        lmx_push_frame(lane, &f);
        if (o->capture->heard.listeners && real) lmx_report_node(o, &f, name, true);
        return;
    }
    lmx_op *op = lmx_note_op(lane, &f, name, LAM_OP_NODE);
    if (!op) return;
    f.op = (int32_t)(lane->ops.n - 1);
    f.noted = true;
    if (f.grad) lmx_note_nodes_origin(o, lane, f.call);
    op->pass = lmx_api->task ? (uint16_t)(lmx_api->task() + 1) : 0;
    if (!lmx_push_frame(lane, &f)) return;
    if (o->capture->heard.listeners && real) lmx_report_node(o, &f, name, true);
    op->began = lmx_clock_stamp(lane->clock, lane->last);
}
