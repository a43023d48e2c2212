/* SPDX-License-Identifier: Apache-2.0
 * Recorded steps, see sample.h. What a step costs is mostly memory that is not in the processor's cache after
 * a hundred others, so little is done and in one place: the tree is told to the recorder once, and from then
 * on only calls and nodes are. */
#include "calls/sample.h"
#include "base/ext.h"
#include "calls/calls.h"
#include "calls/turns.h"
#include "measure/device.h"
#include "modules/tree.h"
#include "observe/capture.h"
#include "observe/clock.h"
#include "observe/observe.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Steps that are being seen at a time: a thread may have eight captures, and the user's own are among them.
 * Calls of modules that a step may have before it gets no further call of the root. */
enum { OPEN = 4, MOST_NOTED = 1 << 16 };

struct lmx_sampler {
    lmx_sampler *next; /* among those that see a step, oldest first */
    lmx_state *st;
    PyObject *told, *recorder;
    PyObject *told_of_compiling; /* torch's list: when it is empty, compiling would not be told of */
    char *name;
    int32_t root;
    lmx_turns *turns; /* strong */
    pid_t process;
    int users;           /* whoever counts, and calls that are under way */
    bool nodes, dropped; /* dropped: nobody counts any more, and no step may begin */
    /* the step that is being seen */
    lmx_capture *capture; /* strong; NULL: none */
    lam_step_info about;
    unsigned long thread; /* on which it began */
    /* the tree that the recorder knows, all strong */
    lmi_vec types, places;          /* PyTypeObject * of each node; lmx_place */
    lmi_vec call_infos, node_infos; /* lam_call_info, lam_op_info: room to tell them in */
};

static lmx_sampler *seeing;
static int n_seeing;

/* == beginning and ending ============================================================================== */

static void forget_tree(lmx_sampler *s) {
    lmi_vec types = s->types, places = s->places;
    s->types = s->places = (lmi_vec){0};
    for (size_t i = 0; i < types.n; i++) Py_DECREF(((PyObject **)types.data)[i]);
    for (size_t i = 0; i < places.n; i++) Py_DECREF(((lmx_place *)places.data)[i].name);
    lmi_vec_free(&types);
    lmi_vec_free(&places);
}

static void let_go(lmx_sampler *s) {
    if (--s->users) return;
    forget_tree(s);
    lmi_vec_free(&s->call_infos);
    lmi_vec_free(&s->node_infos);
    Py_DECREF(s->told);
    Py_DECREF(s->recorder);
    Py_DECREF(s->told_of_compiling);
    Py_DECREF((PyObject *)s->turns);
    PyMem_Free(s->name);
    PyMem_Free(s);
}

static char *copy_of(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = PyMem_Malloc(n);
    if (!copy) PyErr_NoMemory();
    return copy ? memcpy(copy, text, n) : NULL;
}

lmx_sampler *lmx_sampler_new(lmx_state *st, PyObject *how, lmx_turns *turns, PyObject *told) {
    lmx_sampler s = {.st = st, .told = told, .turns = turns, .users = 1, .process = getpid()};
    const char *name;
    int nodes;
    if (!PyArg_ParseTuple(how, "OispO!", &s.recorder, &s.root, &name, &nodes, &PyList_Type,
                          &s.told_of_compiling) ||
        !lmx_recorder_of(st, s.recorder))
        return NULL;
    s.nodes = nodes != 0;
    s.name = copy_of(name);
    lmx_sampler *made = s.name ? PyMem_Malloc(sizeof *made) : NULL;
    if (!made) {
        PyMem_Free(s.name);
        PyErr_NoMemory();
        return NULL;
    }
    *made = s;
    Py_INCREF(told);
    Py_INCREF(s.recorder);
    Py_INCREF(s.told_of_compiling);
    Py_INCREF((PyObject *)turns);
    return made;
}

/* The step that is being seen is none any more: its capture, which is the caller's. */
static lmx_capture *take(lmx_sampler *s) {
    lmx_capture *c = s->capture;
    if (!c) return NULL;
    lmx_sampler **at = &seeing;
    while (*at && *at != s) at = &(*at)->next;
    if (*at) *at = s->next;
    n_seeing -= 1;
    s->next = NULL;
    s->capture = NULL;
    return c;
}

static void put(lmx_sampler *s, lmx_capture *c) {
    lmx_sampler **at = &seeing;
    while (*at) at = &(*at)->next;
    *at = s;
    n_seeing += 1;
    s->capture = c;
}

/* In a forked child other threads, which might be waited for, are gone: there the capture is left alone. */
static void give_up_step(lmx_sampler *s) {
    lmx_capture *c = take(s);
    if (c) lmx_turns_again(s->turns);
    if (!c || s->process != getpid()) return;
    lmx_unwatch(c);
    Py_DECREF(c);
}

void lmx_sampler_drop(lmx_sampler *s) {
    if (!s) return;
    s->dropped = true;
    give_up_step(s);
    let_go(s);
}

/* == what was seen ===================================================================================== */

/* Equal for two steps whose models have the same modules and places. */
static bool is_known(const lmx_sampler *s, const lmx_tree *t) {
    if (!s->places.n || t->nodes.n != s->types.n || t->places.n != s->places.n) return false;
    PyTypeObject *const *types = s->types.data;
    for (size_t i = 0; i < t->nodes.n; i++)
        if (Py_TYPE(lmx_node_at(t, (int32_t)i)->object) != types[i]) return false;
    const lmx_place *places = s->places.data;
    for (size_t i = 0; i < t->places.n; i++) {
        const lmx_place *now = lmx_place_at(t, (int32_t)i);
        if (now->node != places[i].node || now->parent != places[i].parent || now->name != places[i].name)
            return false;
    }
    return true;
}

/* Where memory runs out nothing is known, which is no failure. */
static void know_tree(lmx_sampler *s, const lmx_tree *t) {
    forget_tree(s);
    PyTypeObject **types = lmx_vec_push(&s->types, sizeof *types, t->nodes.n);
    for (size_t i = 0; types && i < t->nodes.n; i++) {
        types[i] = Py_TYPE(lmx_node_at(t, (int32_t)i)->object);
        Py_INCREF(types[i]);
    }
    lmx_place *places = types ? lmx_vec_push(&s->places, sizeof *places, t->places.n) : NULL;
    for (size_t i = 0; places && i < t->places.n; i++) {
        places[i] = *lmx_place_at(t, (int32_t)i);
        Py_INCREF(places[i].name);
    }
}

static bool tell_calls(lmx_sampler *s, const lmx_capture *c) {
    const lmx_call *calls = c->calls.data;
    s->call_infos.n = 0;
    lam_call_info *to = c->calls.n ? lmx_vec_push(&s->call_infos, sizeof *to, c->calls.n) : NULL;
    if (c->calls.n && !to) return false;
    for (size_t i = 0; i < c->calls.n; i++)
        to[i] = (lam_call_info){.module = calls[i].module,
                                .parent = calls[i].parent,
                                .flags = calls[i].flags,
                                .t0_ns = lmx_clock_ns(&c->clock, calls[i].began),
                                .t1_ns = lmx_clock_ns(&c->clock, calls[i].ended)};
    return true;
}

static bool tell_lane(lmx_sampler *s, const lmx_lane *lane, int32_t thread) {
    const lmx_op *ops = lane->ops.data;
    int32_t base = (int32_t)s->node_infos.n;
    lam_op_info *to = lane->ops.n ? lmx_vec_push(&s->node_infos, sizeof *to, lane->ops.n) : NULL;
    if (lane->ops.n && !to) return false;
    for (size_t i = 0; i < lane->ops.n; i++)
        to[i] = (lam_op_info){.name = lmx_op_name(lane, &ops[i]),
                              .call = ops[i].call,
                              .parent = ops[i].parent < 0 ? -1 : base + ops[i].parent,
                              .thread = thread,
                              .pass = ops[i].pass,
                              .phase = (lam_phase)ops[i].phase,
                              .flags = ops[i].flags,
                              .t0_ns = lmx_clock_ns(lane->clock, ops[i].began),
                              .t1_ns = lmx_clock_ns(lane->clock, ops[i].ended)};
    return true;
}

static bool tell_nodes(lmx_sampler *s, const lmx_observer *o) {
    int32_t thread = 0;
    bool ok = true;
    s->node_infos.n = 0;
    for (const lmx_lane *lane = o ? o->lanes : NULL; ok && lane; lane = lane->next)
        ok = tell_lane(s, lane, lane->thread == o->thread ? 0 : ++thread);
    return ok;
}

/* Its calls and nodes alone. False where that will not do, as where a GPU's clock was read too; `*e` says
 * what failed. */
static bool record_again(lmx_sampler *s, const lmx_capture *c, lam_recorder *r, lam_error *e) {
    int64_t since;
    bool known =
        !c->listeners && is_known(s, &c->tree) && !c->lost && !lmx_observer_lost(c->observer, &since);
    if (!known || !tell_calls(s, c) || !tell_nodes(s, c->observer)) return false;
    int32_t n_nodes = c->observer ? (int32_t)s->node_infos.n : -1;
    e->status = lam_recorder_again(r, &s->about, s->call_infos.data, (int32_t)s->call_infos.n,
                                   s->node_infos.data, n_nodes, &known, e);
    return known;
}

/* False with an exception. */
static bool record(lmx_sampler *s, lmx_capture *c) {
    lam_error e = {.at = -1};
    lam_model *m;
    lam_recorder *r = lmx_recorder_of(s->st, s->recorder);
    if (!r) return false;
    if (!record_again(s, c, r, &e) && e.status == LAM_OK) {
        if (!lmx_describe_model(c, NULL, &m)) return false;
        e.status = lam_recorder_step(r, m, &s->about, &e);
        if (e.status == LAM_OK) know_tree(s, &c->tree);
    }
    if (e.status != LAM_OK) lmx_raise(s->st, &e);
    return e.status == LAM_OK;
}

/* == steps ============================================================================================= */

static bool tell(lmx_sampler *s, int moment, PyObject *error) {
    PyObject *answer = PyObject_CallFunction(s->told, "iiO", moment, 0, error);
    Py_XDECREF(answer);
    return answer != NULL;
}

/* An Exception ends the recording, and not the program. */
static bool fail(lmx_sampler *s) {
    PyObject *type, *value, *trace;
    if (!PyErr_Occurred()) return true;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    bool ok = tell(s, 3, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return ok;
}

/* A backward pass was seen in the step, or can't be. */
static bool went_back(const lmx_sampler *s) { return !s->nodes || lmx_observer_n(s->capture->observer) > 0; }

static bool finish(lmx_sampler *s) {
    if (!s->capture) return true;
    const bool wanted = lmx_turns_end(s->turns, went_back(s));
    lmx_capture *c = take(s);
    s->users++;
    lmx_unwatch(c);
    bool ok = !wanted || record(s, c) || fail(s);
    Py_DECREF(c); /* which may drop the model, and with it all who count its calls */
    let_go(s);
    return ok;
}

static int64_t unix_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A model that is called no more may keep a step open; it gives way to those that are. Where its backward
 * pass may be yet to come, what was seen is no step, unless there will be no other. */
static bool give_way(lmx_sampler *s) {
    if (went_back(s) || !(s->turns->kind & LMX_GRAD) || !s->turns->number) return finish(s);
    give_up_step(s);
    return true;
}

static bool begin(lmx_sampler *s, PyObject *module, int kind) {
    while (n_seeing >= OPEN)
        if (!give_way(seeing)) return false;
    lmx_capture *c = lmx_capture_brief(s->st, module, s->nodes);
    if (!c) return false;
    s->about = (lam_step_info){.name = s->name,
                               .root = s->root,
                               .training = (kind & LMX_TRAINING) != 0,
                               .gradients = (kind & LMX_GRAD) != 0,
                               .number = s->turns->number,
                               .unix_ns = unix_now(),
                               .t0_ns = lmx_now_ns()};
    s->thread = PyThread_get_thread_ident();
    bool ok = lmx_device_listen(c, true, false) && lmx_capture_open(c);
    if (ok)
        put(s, c);
    else
        Py_DECREF(c);
    return ok;
}

/* What is called in a backward pass does forward work again, which begins no step. It may raise on purpose to
 * end early. */
static bool goes_back(const lmx_sampler *s) {
    const lmx_record_api *api = lmx_record_api_of(s->st);
    return api && api->task && api->task() >= 0;
}

/* So much was noted that another call of the root would be too many. */
static bool is_full(const lmx_sampler *s) { return s->capture->calls.n >= MOST_NOTED; }

static bool before(lmx_sampler *s, PyObject *module, int kind) {
    if (goes_back(s)) return true;
    if (s->capture) {
        const bool ended = went_back(s) || is_full(s) || s->thread != PyThread_get_thread_ident();
        if (lmx_turns_goes_on(s->turns, kind, ended)) return true;
        if (!finish(s)) return false;
    }
    if (s->dropped || !lmx_turns_begin(s->turns, kind)) return true;
    if (!lmx_rests() || PyList_Size(s->told_of_compiling) < 1) {
        lmx_turns_again(s->turns);
        return tell(s, 4, Py_None);
    }
    if (begin(s, module, kind)) return true;
    lmx_turns_again(s->turns);
    return fail(s);
}

bool lmx_sample_before(lmx_sampler *s, PyObject *module, int kind) {
    s->users++;
    bool ok = before(s, module, kind);
    let_go(s);
    return ok;
}

LMX_OFTEN int lmx_gradients(lmx_state *st) {
    const lmx_record_api *api = lmx_record_api_of(st);
    if (api && api->grad_enabled) return api->grad_enabled();
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *enabled = torch ? PyObject_CallMethod(torch, "is_grad_enabled", NULL) : NULL;
    int is = enabled ? PyObject_IsTrue(enabled) : -1;
    Py_XDECREF(enabled);
    Py_XDECREF(torch);
    return is;
}

/* A step without gradients is over: no backward will follow. */
bool lmx_sample_after(lmx_sampler *s, bool raised) {
    if (!s->capture || (raised ? goes_back(s) : (s->turns->kind & LMX_GRAD) != 0)) return true;
    s->users++;
    bool ok = finish(s);
    let_go(s);
    return ok;
}

bool lmx_sample_end(lmx_sampler *s, bool record) {
    if (!s->capture) return true;
    s->users++;
    bool ok = !record || finish(s);
    if (!record) give_up_step(s);
    let_go(s);
    return ok;
}
