/* SPDX-License-Identifier: Apache-2.0
 * Hands a step that was only timed to the recorder, see send_step.h. Most of the cost of a step is memory
 * that left the processor's cache during the hundred steps before it, so this touches little memory: the tree
 * is handed over once, and from then on only calls and nodes are. bench/watching.py measures it. */
#include "calls/send_step.h"
#include "base/ext.h"
#include "modules/tree.h"
#include "observe/observe.h"
#include "process/clock.h"

static void forget_tree(lmx_handover *h) {
    lmi_vec modules = h->modules, places = h->places;
    h->modules = h->places = (lmi_vec){0};
    for (size_t i = 0; i < modules.n; i++) Py_DECREF(((lmx_known_module *)modules.data)[i].type);
    for (size_t i = 0; i < places.n; i++) Py_DECREF(((lmx_place *)places.data)[i].name);
    lmi_vec_free(&modules);
    lmi_vec_free(&places);
}

void lmx_handover_clear(lmx_handover *h) {
    forget_tree(h);
    lmi_vec_free(&h->call_infos);
    lmi_vec_free(&h->node_infos);
}

/* True if the model has the modules and places that were handed over last. */
static bool is_known(const lmx_handover *h, const lmx_tree *t) {
    if (!h->places.n || t->nodes.n != h->modules.n || t->places.n != h->places.n) return false;
    const lmx_known_module *modules = h->modules.data;
    for (size_t i = 0; i < t->nodes.n; i++) {
        PyObject *object = lmx_node_at(t, (int32_t)i)->object;
        if (object != modules[i].object || Py_TYPE(object) != modules[i].type) return false;
    }
    const lmx_place *places = h->places.data;
    for (size_t i = 0; i < t->places.n; i++) {
        const lmx_place *now = lmx_place_at(t, (int32_t)i);
        if (now->node != places[i].node || now->parent != places[i].parent || now->name != places[i].name)
            return false;
    }
    return true;
}

/* If memory runs out, no tree is known, and the next step is handed over whole. */
static void keep_tree(lmx_handover *h, const lmx_tree *t) {
    forget_tree(h);
    lmx_known_module *modules = lmx_vec_push(&h->modules, sizeof *modules, t->nodes.n);
    for (size_t i = 0; modules && i < t->nodes.n; i++) {
        PyObject *object = lmx_node_at(t, (int32_t)i)->object;
        modules[i] = (lmx_known_module){Py_TYPE(object), object};
        Py_INCREF((PyObject *)modules[i].type);
    }
    lmx_place *places = modules ? lmx_vec_push(&h->places, sizeof *places, t->places.n) : NULL;
    for (size_t i = 0; places && i < t->places.n; i++) {
        places[i] = *lmx_place_at(t, (int32_t)i);
        Py_INCREF(places[i].name);
    }
}

bool lmx_number_tree(lmx_handover *h, const lmx_capture *c, lam_step_info *about) {
    const bool known = is_known(h, &c->tree);
    if (!known) keep_tree(h, &c->tree);
    about->tree = known ? h->n_trees : ++h->n_trees;
    return known;
}

static bool list_calls(lmx_handover *h, const lmx_capture *c) {
    const lmx_call *calls = c->noted.calls.data;
    h->call_infos.n = 0;
    lam_call_info *to = c->noted.calls.n ? lmx_vec_push(&h->call_infos, sizeof *to, c->noted.calls.n) : NULL;
    if (c->noted.calls.n && !to) return false;
    for (size_t i = 0; i < c->noted.calls.n; i++)
        to[i] = (lam_call_info){.module = calls[i].module,
                                .parent = calls[i].parent,
                                .flags = calls[i].flags,
                                .regions = calls[i].regions,
                                .t0_ns = lmx_clock_ns(&c->clock, calls[i].began),
                                .t1_ns = lmx_clock_ns(&c->clock, calls[i].ended),
                                .thread = calls[i].thread};
    return true;
}

static bool list_lane(lmx_handover *h, const lmx_lane *lane) {
    const lmx_op *ops = lane->ops.data;
    int32_t base = (int32_t)h->node_infos.n;
    lam_op_info *to = lane->ops.n ? lmx_vec_push(&h->node_infos, sizeof *to, lane->ops.n) : NULL;
    if (lane->ops.n && !to) return false;
    for (size_t i = 0; i < lane->ops.n; i++)
        to[i] = (lam_op_info){.name = lmx_op_name(lane, &ops[i]),
                              .call = ops[i].call,
                              .parent = ops[i].parent < 0 ? -1 : base + ops[i].parent,
                              .thread = lane->number,
                              .pass = ops[i].pass,
                              .phase = (lam_phase)ops[i].phase,
                              .flags = ops[i].flags,
                              .t0_ns = lmx_clock_ns(lane->clock, ops[i].began),
                              .t1_ns = lmx_clock_ns(lane->clock, ops[i].ended)};
    return true;
}

static bool list_nodes(lmx_handover *h, const lmx_observer *o) {
    bool ok = true;
    h->node_infos.n = 0;
    for (int32_t i = 0; ok && o && i <= atomic_load(&o->others); i++) {
        const lmx_lane *lane = lmx_observer_lane(o, i);
        ok = !lane || list_lane(h, lane);
    }
    return ok;
}

/* Hands over calls and nodes alone. False if the recorder needs the whole step, as if a GPU's clock was read
 * too; `*e` has the error if it failed. */
static bool hand_over_again(lmx_handover *h, lam_recorder *r, const lmx_capture *c,
                            const lam_step_info *about, lam_error *e) {
    int64_t since;
    bool known = !c->heard.listeners && !c->noted.lost && !lmx_observer_lost(c->watched.observer, &since);
    if (!known || !list_calls(h, c) || !list_nodes(h, c->watched.observer)) return false;
    int32_t n_nodes = c->watched.observer ? (int32_t)h->node_infos.n : -1;
    e->status = lam_recorder_again(r, about, h->call_infos.data, (int32_t)h->call_infos.n, h->node_infos.data,
                                   n_nodes, &known, e);
    return known;
}

bool lmx_hand_over(lmx_handover *h, PyObject *recorder, lmx_capture *c, bool known,
                   const lam_step_info *about) {
    lam_error e = {.at = -1};
    lam_model *m;
    lam_recorder *r = lmx_recorder_of(c->st, recorder);
    if (!r) return false;
    if ((!known || !hand_over_again(h, r, c, about, &e)) && e.status == LAM_OK) {
        if (!lmx_describe_model(c, NULL, &m)) return false;
        e.status = lam_recorder_step(r, m, about, &e);
    }
    if (e.status != LAM_OK) lmx_raise(c->st, &e);
    return e.status == LAM_OK;
}
