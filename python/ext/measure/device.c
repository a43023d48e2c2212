/* SPDX-License-Identifier: Apache-2.0
 * The time that calls, and the nodes of their backward, took on a GPU: stamps before and after each in
 * the current stream, all read after the capture has closed. And their memory: the allocator's
 * statistics at the same moments. The GPU is that of the memory of the model or of its inputs. */
#include "measure/device.h"
#include "base/ext.h"
#include "modules/tree.h"
#include "observe/listeners.h"
#include "observe/open_capture.h"
#include "process/clock.h"
#include "process/device_api.h"
#include "torch/tensor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* A call or a node. A stamp that could not be set is -1. */
typedef struct mark {
    int32_t call, inner; /* inner: a call that began with it; -1: none */
    int32_t first, last;
    int32_t first_said, last_said; /* the same for the allocator's statistics */
    bool node;
    int32_t pass;
    int64_t host_ns;
    const void *record; /* of a node that runs: torch's */
} mark;

typedef struct device {
    lmx_listener listener; /* first: a listener is cast to this */
    const lmx_streams *table;
    bool timed, sized;    /* what to measure */
    bool begun;           /* a GPU was found */
    lmx_stamps *stamps;   /* NULL: no times */
    lmi_vec open;         /* mark: calls */
    pthread_mutex_t lock; /* of the next three, which nodes on any thread change */
    lmi_vec said;         /* lam_device_bytes */
    lmi_vec marks;        /* mark: finished ones */
    lmi_vec nodes;        /* mark: running nodes */
    bool lost, moved;     /* moved: some ended in another stream than they began in */
    int index;            /* of the GPU; -1: none */
    bool several;         /* more than one GPU */
    char why[240];        /* why nothing is known; "" without a reason */
    char why_said[240];   /* the same for memory only */
} device;

static device *device_of(lmx_listener *l) { return (device *)l; }

/* == which GPU =========================================================================================== */

/* tensor.device.index; the CPU has none, which is 0. */
static int index_of(PyObject *tensor) {
    PyObject *where = PyObject_GetAttrString(tensor, "device");
    PyObject *index = where ? PyObject_GetAttrString(where, "index") : NULL;
    int i = index && PyLong_Check(index) ? (int)PyLong_AsLong(index) : 0;
    Py_XDECREF(index);
    Py_XDECREF(where);
    PyErr_Clear();
    return i;
}

/* False with an exception, as lmx_describe. */
static bool meet(device *d, lmx_state *st, PyObject *tensor, lmx_kind kind) {
    lmx_tensor t;
    if (!lmx_describe(st, tensor, kind, &t)) return false;
    if (t.device != d->table->device_type) return true;
    int index = index_of(tensor);
    d->several = d->several || (d->index >= 0 && d->index != index);
    d->index = index;
    return true;
}

typedef struct owned_walk {
    device *d;
    lmx_state *st;
} owned_walk;

static bool meet_owned(void *self, PyObject *name, PyObject *tensor) {
    const owned_walk *w = self;
    (void)name;
    return !lmx_is_tensor(w->st, tensor) || meet(w->d, w->st, tensor, lmx_kind_of(w->st, tensor));
}

static bool meet_model(device *d, lmx_capture *c) {
    owned_walk w = {d, c->st};
    return lmx_each_owned(c->st, &c->tree, c->st->n__parameters, meet_owned, &w) &&
           lmx_each_owned(c->st, &c->tree, c->st->n__buffers, meet_owned, &w);
}

static bool meet_found(lmx_finder *f, PyObject *tensor, lmx_kind kind) {
    return meet(f->self, f->st, tensor, kind);
}

static bool meet_inputs(device *d, lmx_capture *c, const lmx_given *given) {
    lmx_finder f = {.st = c->st, .budget = LMX_BUDGET, .name = -1, .each = meet_found, .self = d};
    bool ok = true;
    Py_ssize_t n = lmx_n_given(given);
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = lmx_find(&f, given->args[i], 0);
    return ok;
}

/* Reads the allocator and returns the reading's index; -1: it can't be read any more. If Python reads it,
 * another thread may store a later reading first: values that then seem to decrease are raised to those. */
static int32_t ask(device *d) {
    lmx_said now = {0};
    if (!d->sized || *d->why_said) return -1;
    bool known = lmx_device_said(d->table, d->index, &now);
    pthread_mutex_lock(&d->lock);
    const lam_device_bytes *last = d->said.n ? (const lam_device_bytes *)d->said.data + d->said.n - 1 : NULL;
    if (last && now.allocated < last->allocated) now.allocated = last->allocated;
    if (last && now.freed < last->freed) now.freed = last->freed;
    lam_device_bytes *at = known ? lmx_vec_push(&d->said, sizeof *at, 1) : NULL;
    int32_t index = at ? (int32_t)d->said.n - 1 : -1;
    if (at)
        *at = (lam_device_bytes){now.now, now.peak, now.allocated, now.freed, lmx_now_ns()};
    else
        snprintf(d->why_said, sizeof d->why_said, "%s",
                 known ? "memory ran out" : "its allocator does not tell");
    pthread_mutex_unlock(&d->lock);
    return index;
}

static void begin_times(device *d) {
    if (!lmx_device_prove(d->table, d->index, d->why, sizeof d->why)) return;
    d->stamps = lmx_stamps_new(d->table, d->index);
    if (!d->stamps) snprintf(d->why, sizeof d->why, "memory ran out");
}

/* Begins when the GPU is known. */
static void begin(device *d) {
    if (d->index < 0 || *d->why) return;
    if (d->several) {
        snprintf(d->why, sizeof d->why,
                 "the model is spread over several devices, and one alone can be followed");
        return;
    }
    if (d->sized) lmx_device_prove_memory(d->table, d->index, d->why_said, sizeof d->why_said);
    if (d->timed) begin_times(d);
    d->begun = d->sized || d->stamps;
    ask(d);
}

/* Reads the allocator first, which takes longer, then the clock; at the end the other way round. */
static void put_first(device *d, mark *m) {
    m->first_said = ask(d);
    m->first = d->stamps ? lmx_stamps_put(d->stamps) : -1;
}

static void put_last(device *d, mark *m) {
    m->last = d->stamps ? lmx_stamps_put(d->stamps) : -1;
    m->last_said = ask(d);
}

/* == calls and nodes ===================================================================================== */

static void push_mark(device *d, lmi_vec *to, const mark *m) {
    pthread_mutex_lock(&d->lock);
    lmx_vec_keep(to, sizeof *m, m, &d->lost);
    pthread_mutex_unlock(&d->lock);
}

static bool entered(lmx_listener *l, lmx_capture *c, int32_t call, const lmx_given *given) {
    device *d = device_of(l);
    if (!d->begun) {
        if (*d->why || ((const lmx_call *)c->noted.calls.data)[call].parent >= 0) return true;
        if (!meet_inputs(d, c, given)) return false;
        begin(d);
        if (!d->begun) return true;
    }
    mark m = {.call = call, .inner = c->noted.open != call ? c->noted.open : -1, .last = -1, .last_said = -1};
    put_first(d, &m);
    lmx_vec_keep(&d->open, sizeof m, &m, &d->lost);
    return true;
}

/* Ends a call. Calls inside it that never returned get no end. */
static bool left(lmx_listener *l, lmx_capture *c, int32_t call, const lmx_given *given, PyObject *result) {
    device *d = device_of(l);
    mark end = {.last = -1, .last_said = -1};
    (void)c;
    (void)given;
    (void)result;
    if (!d->begun) return true;
    if (call >= 0) put_last(d, &end);
    while (d->open.n) {
        mark m = ((const mark *)d->open.data)[--d->open.n];
        const bool this_one = m.call == call;
        m.last = this_one ? end.last : -1;
        m.last_said = this_one ? end.last_said : -1;
        push_mark(d, &d->marks, &m);
        if (this_one) break;
    }
    return true;
}

/* Nodes may run on several threads at a time; on one thread they are nested. */
static void node_began(lmx_listener *l, const lmx_node_run *node) {
    device *d = device_of(l);
    if (!d->begun) return;
    mark m = {.call = node->where.call,
              .inner = -1,
              .last = -1,
              .last_said = -1,
              .node = true,
              .pass = node->pass,
              .host_ns = lmx_now_ns(),
              .record = node->record};
    put_first(d, &m);
    push_mark(d, &d->nodes, &m);
}

static void node_ended(lmx_listener *l, const lmx_node_run *node) {
    device *d = device_of(l);
    mark m, end = {.last = -1, .last_said = -1};
    if (!d->begun) return;
    put_last(d, &end);
    pthread_mutex_lock(&d->lock);
    bool known = lmx_vec_take(&d->nodes, sizeof m, offsetof(mark, record), node->record, &m);
    pthread_mutex_unlock(&d->lock);
    if (!known) return;
    m.last = end.last;
    m.last_said = end.last_said;
    push_mark(d, &d->marks, &m);
}

/* == opening and closing ================================================================================= */

static bool opened(lmx_listener *l, lmx_capture *c) {
    device *d = device_of(l);
    char why[sizeof d->why] = "";
    d->table = lmx_device_streams(why, sizeof why);
    if (!d->table) {
        snprintf(d->why, sizeof d->why, "%s", why);
        return true;
    }
    if (!meet_model(d, c)) return false;
    begin(d);
    return true;
}

/* A call or node that is still open has no end. A backward pass that goes on in another thread is not
 * waited for. */
static void closed(lmx_listener *l, lmx_capture *c) {
    device *d = device_of(l);
    if (!d->begun) return;
    if (d->open.n) left(l, c, -1, NULL, NULL);
    for (size_t i = 0; i < d->nodes.n; i++) push_mark(d, &d->marks, (const mark *)d->nodes.data + i);
    d->nodes.n = 0;
    ask(d);
    if (!d->stamps) return;
    Py_BEGIN_ALLOW_THREADS;
    lmx_stamps_resolve(d->stamps);
    Py_END_ALLOW_THREADS;
}

static void free_device(lmx_listener *l) {
    device *d = device_of(l);
    lmx_stamps_free(d->stamps);
    lmi_vec_free(&d->open);
    lmi_vec_free(&d->marks);
    lmi_vec_free(&d->said);
    lmi_vec_free(&d->nodes);
    pthread_mutex_destroy(&d->lock);
    PyMem_Free(d);
}

/* == building the model ================================================================================== */

static lam_device_span span_of(device *d, const mark *m) {
    lam_device_span s = {
        .call = m->call, .stream = -1, .node = m->node, .pass = m->pass, .host_ns = m->host_ns};
    int32_t first, last;
    int64_t t0, t1;
    if (!lmx_stamps_at(d->stamps, m->first, &first, &t0) || !lmx_stamps_at(d->stamps, m->last, &last, &t1))
        return s;
    d->moved = d->moved || first != last;
    if (first != last || t1 < t0) return s;
    s.stream = first;
    s.t0_ns = t0;
    s.t1_ns = t1;
    return s;
}

static lam_status push_span(device *d, const mark *m, lam_builder *b, lam_error *e) {
    lam_device_span s = span_of(d, m);
    lam_status status = lam_build_device_span(b, &s, e);
    s.call = m->inner;
    return status == LAM_OK && m->inner >= 0 ? lam_build_device_span(b, &s, e) : status;
}

static lam_status note(lam_builder *b, const char *what, const char *why, lam_error *e) {
    char text[400];
    snprintf(text, sizeof text, "%s on the device is not known: %s", what, why);
    return lam_build_note(b, text, e);
}

static const char no_time[] = "how long a layer took", some_time[] = "how long some layer took",
                  no_memory[] = "what a layer allocated";

/* Orders marks by their first stamp; those without one come first. */
static int by_first(const void *a, const void *b) {
    const mark *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* True if some stamp was read: then a mark without stamps is unknown, not 0. */
static bool any_known(const device *d) {
    int32_t stream;
    int64_t ns;
    return d->stamps && lmx_stamps_at(d->stamps, 0, &stream, &ns);
}

static lam_status push_times(device *d, lam_builder *b, lam_error *e) {
    const char *why = lmx_stamps_why(d->stamps);
    if (!any_known(d)) return note(b, no_time, why ? why : "nothing ran", e);
    if (d->marks.n) qsort(d->marks.data, d->marks.n, sizeof(mark), by_first);
    lam_status s = lam_build_device_timed(b, e);
    for (size_t i = 0; s == LAM_OK && i < d->marks.n; i++)
        s = push_span(d, (const mark *)d->marks.data + i, b, e);
    if (!why && d->moved) why = "another stream was current at its end than at its beginning";
    return s == LAM_OK && why ? note(b, some_time, why, e) : s;
}

static int by_first_said(const void *a, const void *b) {
    const mark *x = a, *y = b;
    return x->first_said < y->first_said ? -1 : x->first_said > y->first_said;
}

static lam_status push_use(const lmx_capture *c, const mark *m, lam_builder *b, lam_error *e) {
    const lmx_call *call = m->node ? NULL : (const lmx_call *)c->noted.calls.data + m->call;
    lam_span s = {m->first_said, m->last_said, m->call, LAM_BACKWARD};
    if (m->first_said < 0 || m->last_said < 0) return LAM_OK; /* it never ended */
    if (call) s.phase = call->flags & LAM_CALL_AGAIN ? LAM_RECOMPUTE : LAM_FORWARD;
    lam_status status = lam_build_device_use(b, &s, e);
    s.call = m->inner;
    return status == LAM_OK && m->inner >= 0 ? lam_build_device_use(b, &s, e) : status;
}

static lam_status push_bytes(device *d, const lmx_capture *c, lam_builder *b, lam_error *e) {
    lam_status s = LAM_OK;
    for (size_t i = 0; s == LAM_OK && i < d->said.n; i++)
        s = lam_build_device_bytes(b, (const lam_device_bytes *)d->said.data + i, e);
    if (d->marks.n) qsort(d->marks.data, d->marks.n, sizeof(mark), by_first_said);
    for (size_t i = 0; s == LAM_OK && i < d->marks.n; i++)
        s = push_use(c, (const mark *)d->marks.data + i, b, e);
    return s;
}

static const char *why_no_memory(const device *d) {
    if (*d->why_said) return d->why_said;
    if (d->lost) return "memory ran out";
    return !d->begun && *d->why ? d->why : NULL;
}

static lam_status push(lmx_listener *l, lmx_capture *c, lam_builder *b, lam_error *e) {
    device *d = device_of(l);
    const char *why = *d->why ? d->why : d->lost ? "memory ran out" : NULL, *why_said = why_no_memory(d);
    lam_status s = LAM_OK;
    if (d->timed && why) s = note(b, no_time, why, e);
    if (d->stamps && !why) s = push_times(d, b, e);
    if (s != LAM_OK || !d->sized) return s;
    if (why_said) return note(b, no_memory, why_said, e);
    return d->begun ? push_bytes(d, c, b, e) : LAM_OK;
}

bool lmx_device_sized(const lmx_capture *c) {
    for (lmx_listener *l = c->heard.listeners; l; l = l->next)
        if (l->free == free_device)
            return device_of(l)->sized && device_of(l)->begun && !why_no_memory(device_of(l));
    return false;
}

/* == called from Python ================================================================================== */

bool lmx_device_listen(lmx_capture *c, bool timed, bool sized) {
    if (!lmx_device_used()) return true;
    device *d = PyMem_Calloc(1, sizeof *d);
    if (!d) {
        PyErr_NoMemory();
        return false;
    }
    d->listener = (lmx_listener){.kernel_clock = true,
                                 .entered = entered,
                                 .left = left,
                                 .node_began = node_began,
                                 .node_ended = node_ended,
                                 .opened = opened,
                                 .closed = closed,
                                 .push = push,
                                 .free = free_device};
    d->index = -1;
    d->timed = timed;
    d->sized = sized;
    pthread_mutex_init(&d->lock, NULL);
    lmx_listen(c, &d->listener);
    return true;
}

PyObject *lmx_measure_device(PyObject *self, PyObject *args) {
    lmx_capture *c = (lmx_capture *)self;
    int timed, sized;
    if (!PyArg_ParseTuple(args, "pp:measure_device", &timed, &sized)) return NULL;
    if (c->phase != LMX_NEW)
        return lmx_fail(c->st, LAM_USAGE, "device", "ask for it before the capture is started");
    if (!lmx_device_listen(c, timed, sized)) return NULL;
    Py_RETURN_NONE;
}
