/* SPDX-License-Identifier: Apache-2.0
 * Operators through a dispatch mode of torch (_observe/dispatch.py), for builds where observe.c can't read
 * torch's records. It costs much more an operator, and torch supports it. The mode finds the call and phase
 * of an operator and runs it. Here the operator gets its record in the lane of its thread, and its values are
 * packed there as thread_log.c packs torch's own. Everything here runs under the GIL. */
#include "calls/calls.h"
#include "native/frames.h"
#include "observe/guard.h"
#include "process/clock.h"
#include "torch/values.h"

/* The lane of this thread; NULL: memory ran out. */
static lmx_lane *lane_here(lmx_capture *c) {
    const unsigned long here = PyThread_get_thread_ident();
    lmx_lane *lane = c->watched.observer->lanes;
    while (lane && lane->thread != here) lane = lane->next;
    if (!lane) lane = lmx_lane_new(c->watched.observer, here);
    if (!lane) c->noted.lost = true;
    return lane;
}

/* Reads the values of masks alone. Fake tensors have some in their own dry run, where those of real ones may
 * be outdated. */
static bool pack_tensor(lmx_state *st, lmx_lane *lane, int at, PyObject *tensor, bool is_mask) {
    const lmx_torch *torch = &st->torch;
    const void *handle = (char *)tensor + torch->offset;
    const bool fake = torch->fake && PyType_IsSubtype(Py_TYPE(tensor), torch->fake);
    const lmx_kind kind = lmx_kind_of(st, tensor);
    lmx_tensor t;
    lmx_sparse kept;
    lam_mask left;
    bool sparse = false;
    if (!lmx_describe(st, tensor, kind, &t)) return false;
    if (!t.memory && !t.storage && !lmx_sparse_read(tensor, &kept, &sparse)) return false;
    const bool reads = is_mask && !sparse && lane->reads && kind == LMX_PLAIN && t.ndim >= 0;
    if (sparse)
        lmx_lane_tensor(lane, at, &t, &kept, NULL);
    else if (reads && (lane->nowhere ? fake : !fake && t.storage) &&
             lmx_mask_at(lmx_layout_of(st), &torch->shim, handle, lane->nowhere, &left))
        lmx_lane_tensor(lane, at, &t, NULL, &left);
    else
        lmx_lane_tensor(lane, at, &t, NULL, NULL);
    return true;
}

/* torch's operators take data types as numbers. Others (a device, a layout, a generator, an int that is too
 * large for torch) don't count. */
static void pack_number(const lmx_torch *t, lmx_lane *lane, int at, PyObject *value) {
    int overflow = 0;
    int64_t word = PyLong_Check(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
    const double real = PyFloat_CheckExact(value) ? PyFloat_AsDouble(value) : 0;
    for (int32_t i = 0; i < t->n_dtypes; i++)
        if (t->dtypes[i] == value) lmx_lane_value(lane, at, LMX_ARG_INT, &(int64_t){t->dtype_numbers[i]}, 1);
    if (value == Py_None) lmx_lane_value(lane, at, LMX_ARG_NONE, NULL, 0);
    if (PyBool_Check(value)) lmx_lane_value(lane, at, LMX_ARG_BOOL, &word, 1);
    if (PyLong_CheckExact(value) && !overflow) lmx_lane_value(lane, at, LMX_ARG_INT, &word, 1);
    if (PyFloat_CheckExact(value)) lmx_lane_value(lane, at, LMX_ARG_REAL, &real, 1);
}

/* Packs each of `entries` (_entries in dispatch.py). While values are described, which may run user code,
 * calls of modules are not the model's. */
static bool pack(lmx_capture *c, lmx_lane *lane, PyObject *entries, int mask, lmx_args *out) {
    const bool own = lane->thread == c->threads.owner;
    bool ok = true;
    c->noted.busy = c->noted.busy || own;
    for (Py_ssize_t i = 0; ok && i < PyList_Size(entries); i++) {
        int at, dtype;
        PyObject *value;
        ok = PyArg_ParseTuple(PyList_GetItem(entries, i), "iOi", &at, &value, &dtype);
        const lmx_tensor number = {.device = LMX_CPU, .dtype = dtype, .sizes = number.own};
        if (!ok) break;
        if (lmx_is_tensor(c->st, value))
            ok = pack_tensor(c->st, lane, at, value, at == mask);
        else if (dtype >= 0)
            lmx_lane_tensor(lane, at, &number, NULL, NULL);
        else if (PyBytes_Check(value))
            lmx_lane_value(lane, at, LMX_ARG_INTS, PyBytes_AsString(value), (int32_t)PyBytes_Size(value) / 8);
        else if (PyUnicode_Check(value))
            lmx_lane_text(lane, at, lmx_utf8(value), strlen(lmx_utf8(value)));
        else
            pack_number(&c->st->torch, lane, at, value);
    }
    if (own) c->noted.busy = false;
    *out = lmx_lane_take(lane);
    return ok;
}

static lmx_op *op_at(const lmx_lane *lane, int32_t i) { return (lmx_op *)lane->ops.data + i; }

/* Notes an operator, of `n` arguments. Its number; -1: it is not noted; -2: an exception. */
static int32_t begin(lmx_capture *c, lmx_lane *lane, lmx_op op, const char *name, PyObject *entries, int n) {
    if (lane->lost || c->noted.lost ||
        (lane->thread == c->threads.owner && (c->noted.busy || c->watched.paused)))
        return -1;
    lmx_op *to = lmx_lane_op(lane, name, true);
    const int32_t at = (int32_t)lane->ops.n - 1;
    lmx_frame *frame = to ? lmx_vec_push(&lane->frames, sizeof *frame, 1) : NULL;
    if (!frame) return -1;
    *frame = (lmx_frame){.op = at, .node = -1, .noted = true};
    op.name = to->name;
    op.in = op.out = to->in;
    *to = op;
    const bool ok = pack(c, lane, entries, lmx_lane_mask_of(lane, op.name), &op.in);
    op_at(lane, at)->in = op.in;
    if (ok && c->watched.guard) lmx_guard_look(c, lane, name, op.in, n);
    op_at(lane, at)->began = lmx_clock_stamp(lane->clock, lane->last);
    return ok ? at : -2;
}

/* Ends the operator that runs inside number `op->parent`, if one was noted. Returns -1, or as above. */
static int32_t end(lmx_capture *c, lmx_lane *lane, lmx_op op, PyObject *entries) {
    const int32_t at = lane->frames.n ? lmx_top_of(lane)->op : -1;
    if (at <= op.parent) return -1;
    op_at(lane, at)->ended = lmx_clock_stamp(lane->clock, lane->last);
    op_at(lane, at)->flags |= op.flags;
    lane->frames.n--;
    const bool ok = pack(c, lane, entries, -1, &op.out);
    op_at(lane, at)->out = op.out;
    return ok ? -1 : -2;
}

PyObject *lmx_dispatched(PyObject *module, PyObject *args) {
    PyObject *mode, *entries;
    const char *name = NULL;
    int around, flags, call = -1, phase = 0, n = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OiiO!|siii:dispatched", &mode, &around, &flags, &PyList_Type, &entries,
                          &name, &call, &phase, &n))
        return NULL;
    lmx_capture *c = lmx_first_open;
    while (c && c->watched.mode != mode) c = c->next;
    lmx_lane *lane = c && c->watched.observer ? lane_here(c) : NULL;
    if (!lane) return PyLong_FromLong(-1);
    Py_INCREF((PyObject *)c); /* describing values may run user code, which may close and drop it */
    lmx_capture_hold(c);
    const lmx_op op = {.call = call, .parent = around, .phase = (uint8_t)phase, .flags = (uint8_t)flags};
    const int32_t at = name ? begin(c, lane, op, name, entries, n) : end(c, lane, op, entries);
    lmx_capture_let_go(c);
    Py_DECREF(c);
    return at < -1 ? NULL : PyLong_FromLong(at);
}

PyObject *lmx_unseen(PyObject *module, PyObject *name) {
    (void)module;
    lmx_observe_unseen(lmx_utf8(name));
    Py_RETURN_NONE;
}

bool lmx_dispatch(lmx_capture *c) {
    if (!c->dry.modes) lmx_reads_values(c->st);
    c->watched.observer = lmx_observer_new(c);
    if (!c->watched.observer) return false;
    c->watched.observer->thread = c->threads.owner;
    PyObject *done = PyObject_CallMethod(c->watched.mode, "open", NULL);
    Py_XDECREF(done);
    return done;
}

void lmx_undispatch(lmx_capture *c) {
    PyObject *done = PyObject_CallMethod(c->watched.mode, "close", NULL);
    if (!done) PyErr_Clear(), done = PyObject_CallMethod(c->watched.mode, "close", NULL); /* after a Ctrl-C */
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
}

/* A Ctrl-C during the call is raised at the next line of the program. */
bool lmx_dispatch_call(lmx_capture *c) {
    PyObject *result = PyObject_CallMethod(c->watched.mode, "called", "i", c->noted.open);
    const bool again = result == Py_True;
    if (!result && !lmx_forgive()) {
        PyErr_Clear();
        PyErr_SetInterrupt();
    }
    Py_XDECREF(result);
    return again;
}
