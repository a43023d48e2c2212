/* SPDX-License-Identifier: Apache-2.0
 * Notes the operators that a dispatch mode in Python (_observe/dispatch.py) gets. The mode determines the
 * call and phase of an operator and runs it. Here the operator gets its record in the lane of its thread, and
 * Python's arguments and results are packed there as thread_log.c packs torch's own. Everything here runs
 * under the GIL. */
#include "ops/dispatch.h"
#include "base/ext.h"
#include "observe/capture.h"
#include "observe/observe.h"
#include "process/clock.h"
#include "torch/tensor.h"
#include "torch/values.h"

#include <stdlib.h>

enum { MAX_INTS = 32 };

struct lmx_dispatcher {
    lmx_capture *capture;        /* not owned: it owns this */
    struct lmx_dispatcher *next; /* among the open ones */
    PyObject *mode;              /* strong; NULL: not open */
};

static lmx_dispatcher *open_ones; /* under the GIL */

/* == lanes ============================================================================================= */

static lmx_lane *find_lane(const lmx_capture *c, unsigned long thread) {
    lmx_lane *lane = c->observer->lanes;
    while (lane && lane->thread != thread) lane = lane->next;
    return lane;
}

static lmx_lane *new_lane(lmx_capture *c, unsigned long thread) {
    lmx_lane *lane = lmx_lane_new();
    if (!lane) {
        c->lost = true;
        return NULL;
    }
    lane->thread = thread;
    lane->open_op = -1;
    lmx_lane_begin(lane, c->observer, thread == c->owner);
    lane->next = c->observer->lanes;
    c->observer->lanes = lane;
    return lane;
}

/* True while operators may be noted: the lanes are freed when the model is built. */
static bool listens(const lmx_capture *c) { return c->phase == LMX_OPEN && c->dispatcher && c->observer; }

/* The capture that opened the mode, and the lane of this thread in it; NULL if nothing may be noted. */
static lmx_lane *lane_of_mode(const PyObject *mode, lmx_capture **c) {
    lmx_dispatcher *d = open_ones;
    while (d && d->mode != mode) d = d->next;
    if (!d || !listens(d->capture)) return NULL;
    *c = d->capture;
    unsigned long thread = PyThread_get_thread_ident();
    lmx_lane *lane = find_lane(*c, thread);
    return lane ? lane : new_lane(*c, thread);
}

/* Keeps the capture: describing values may run user code, which may close and drop it. */
static void hold(lmx_capture *c) {
    Py_INCREF((PyObject *)c);
    lmx_capture_hold(c);
}

static void let_go(lmx_capture *c) {
    lmx_capture_let_go(c);
    Py_DECREF(c);
}

static lmx_op *op_at(const lmx_lane *lane, int32_t i) { return (lmx_op *)lane->ops.data + i; }

/* == packing =========================================================================================== */

/* A value that is being packed into a lane, at a position of the schema. */
typedef struct packer {
    lmx_state *st;
    lmx_lane *lane;
    int32_t position;
    bool masks; /* the value is a mask of scores, which is read too */
} packer;

/* Fake tensors have values in their own dry run alone, where those of real ones may be outdated. */
static bool read_mask(const packer *p, PyObject *tensor, lmx_kind kind, const lmx_tensor *t, lam_mask *out) {
    const lmx_torch *torch = &p->st->torch;
    const bool fake = torch->fake && PyType_IsSubtype(Py_TYPE(tensor), torch->fake);
    if (!p->masks || !p->lane->reads || kind != LMX_PLAIN || t->ndim < 0) return false;
    if (p->lane->nowhere ? !fake : fake || !t->storage) return false;
    const void *handle = (char *)tensor + torch->offset;
    return lmx_mask_at(lmx_layout_of(p->st), &torch->shim, handle, p->lane->nowhere, out);
}

static bool pack_tensor(const packer *p, PyObject *tensor, lmx_kind kind) {
    lmx_tensor t;
    if (!lmx_describe(p->st, tensor, kind, &t)) return false;
    lmx_sparse kept;
    bool sparse = false;
    if (!t.memory && !t.storage && !lmx_sparse_read(tensor, &kept, &sparse)) return false;
    lam_mask left;
    if (sparse)
        lmx_lane_sparse(p->lane, p->position, &t, &kept);
    else if (read_mask(p, tensor, kind, &t, &left))
        lmx_lane_mask(p->lane, p->position, &t, &left);
    else
        lmx_lane_tensor(p->lane, p->position, &t);
    return true;
}

static void pack_word(const packer *p, lmx_arg_kind kind, int64_t word) {
    lmx_lane_value(p->lane, p->position, kind, &word, kind == LMX_ARG_NONE ? 0 : 1);
}

static void pack_real(const packer *p, PyObject *value) {
    double real = PyFloat_AsDouble(value);
    int64_t word;
    memcpy(&word, &real, sizeof word);
    pack_word(p, LMX_ARG_REAL, word);
}

/* Ignores an int that is too large for torch. */
static void pack_int(const packer *p, PyObject *value) {
    int overflow;
    int64_t word = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow) pack_word(p, LMX_ARG_INT, word);
}

/* torch's operators take data types as numbers. Others (a device, a layout, a generator) don't count. */
static void pack_other(const packer *p, PyObject *value) {
    const lmx_torch *t = &p->st->torch;
    for (int32_t i = 0; i < t->n_dtypes; i++)
        if (t->dtypes[i] == value) pack_word(p, LMX_ARG_INT, t->dtype_numbers[i]);
}

static bool pack_one(const packer *p, PyObject *value) {
    const lmx_kind kind = lmx_kind_of(p->st, value);
    if (kind == LMX_PLAIN || kind == LMX_ODD) return pack_tensor(p, value, kind);
    if (value == Py_None)
        pack_word(p, LMX_ARG_NONE, 0);
    else if (PyBool_Check(value))
        pack_word(p, LMX_ARG_BOOL, value == Py_True);
    else if (PyLong_CheckExact(value))
        pack_int(p, value);
    else if (PyFloat_CheckExact(value))
        pack_real(p, value);
    else if (PyUnicode_Check(value))
        lmx_lane_text(p->lane, p->position, lmx_utf8(value), strlen(lmx_utf8(value)));
    else
        pack_other(p, value);
    return true;
}

static PyObject *item(PyObject *list, Py_ssize_t i) {
    return PyList_Check(list) ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i);
}

static void pack_ints(const packer *p, PyObject *list, Py_ssize_t n) {
    int64_t ints[MAX_INTS];
    if (n > MAX_INTS) return;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = item(list, i);
        int overflow;
        if (!PyLong_Check(value)) return; /* a bool is an int too */
        ints[i] = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow) return;
    }
    lmx_lane_value(p->lane, p->position, LMX_ARG_INTS, ints, (int32_t)n);
}

/* Packs the tensors of a list, or else its integers. */
static bool pack_list(const packer *p, PyObject *list) {
    const Py_ssize_t n = PySequence_Size(list);
    const int32_t before = p->lane->n_packed;
    if (n > LMX_MAX_LIST) return true;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = item(list, i);
        lmx_kind kind = PyLong_CheckExact(value) ? LMX_IGNORE : lmx_kind_of(p->st, value);
        if ((kind == LMX_PLAIN || kind == LMX_ODD) && !pack_tensor(p, value, kind)) return false;
    }
    if (p->lane->n_packed == before && n) pack_ints(p, list, n);
    return true;
}

static bool pack(const packer *p, PyObject *value) {
    return PyList_Check(value) || PyTuple_Check(value) ? pack_list(p, value) : pack_one(p, value);
}

/* Packs a number as the tensor without dimensions that torch makes of it; the mode gets the number. */
static bool pack_operand(const packer *p, PyObject *value) {
    enum { INT64 = 4, FLOAT64 = 7, COMPLEX128 = 10, BOOL = 11 };
    lmx_tensor t = {.device = LMX_CPU, .dtype = -1};
    if (PyBool_Check(value)) t.dtype = BOOL;
    if (PyLong_CheckExact(value)) t.dtype = INT64;
    if (PyFloat_CheckExact(value)) t.dtype = FLOAT64;
    if (PyComplex_CheckExact(value)) t.dtype = COMPLEX128;
    if (t.dtype < 0) return pack(p, value);
    t.sizes = t.own;
    lmx_lane_tensor(p->lane, p->position, &t);
    return true;
}

/* `operands` has a T at each value that torch makes a tensor of. While values are described, calls of
 * modules are not the model's. */
static bool pack_values(lmx_capture *c, lmx_lane *lane, PyObject *values, const char *operands, int32_t mask,
                        lmx_args *out) {
    packer p = {.st = c->st, .lane = lane};
    const Py_ssize_t n = (Py_ssize_t)strlen(operands);
    const bool own = lane->thread == c->owner;
    bool ok = true;
    if (own) c->busy = true;
    for (Py_ssize_t i = 0; ok && i < PyTuple_Size(values); i++) {
        PyObject *value = PyTuple_GetItem(values, i);
        p.position = (int32_t)i;
        p.masks = i == mask;
        ok = i < n && operands[i] == 'T' ? pack_operand(&p, value) : pack(&p, value);
    }
    if (own) c->busy = false;
    *out = lmx_lane_take(lane);
    return ok;
}

/* == what the mode calls =============================================================================== */

static PyObject *open_call(PyObject *module, PyObject *mode) {
    lmx_capture *c = NULL;
    const lmx_lane *lane = lane_of_mode(mode, &c);
    (void)module;
    if (!lane || lane->lost || c->lost) Py_RETURN_NONE;
    if ((c->busy || c->paused) && lane->thread == c->owner) Py_RETURN_NONE;
    return PyLong_FromLong(c->open_call);
}

/* An operator inside another one has that one's call and phase. */
static lmx_op *new_op(lmx_lane *lane, const char *name, int call, int phase) {
    lmx_op *op = lmx_lane_op(lane, name, true);
    const lmx_op *around = op && lane->open_op >= 0 ? op_at(lane, lane->open_op) : NULL;
    if (!op) return NULL;
    op->parent = lane->open_op;
    op->call = around ? around->call : call;
    op->phase = around ? around->phase : (uint8_t)phase;
    return op;
}

static PyObject *begin_op(PyObject *module, PyObject *args) {
    PyObject *mode, *values;
    const char *name, *operands;
    int call, phase, flags;
    lmx_capture *c = NULL;
    lmx_args in;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsO!siii:begin_op", &mode, &name, &PyTuple_Type, &values, &operands, &call,
                          &phase, &flags))
        return NULL;
    lmx_lane *lane = lane_of_mode(mode, &c);
    lmx_op *op = lane ? new_op(lane, name, call, phase) : NULL;
    if (!op) return PyLong_FromLong(-1);
    int32_t at = (int32_t)lane->ops.n - 1;
    op->flags = (uint8_t)flags;
    hold(c);
    const bool ok = pack_values(c, lane, values, operands, lmx_lane_named(lane, op->name)->mask, &in);
    op_at(lane, at)->in = in;
    if (ok && c->guard) lmx_guard_look(c, lane, name, in, (int32_t)PyTuple_Size(values));
    op_at(lane, at)->began = lmx_clock_stamp(lane->clock, lane->last);
    lane->open_op = at;
    let_go(c);
    return ok ? PyLong_FromLong(at) : NULL;
}

static PyObject *end_op(PyObject *module, PyObject *args) {
    PyObject *mode, *results;
    int around, flags;
    lmx_capture *c = NULL;
    lmx_args out;
    (void)module;
    if (!PyArg_ParseTuple(args, "OiO!i:end_op", &mode, &around, &PyTuple_Type, &results, &flags)) return NULL;
    lmx_lane *lane = lane_of_mode(mode, &c);
    const int32_t at = lane ? lane->open_op : around;
    if (at == around) Py_RETURN_NONE; /* this one was not noted */
    op_at(lane, at)->ended = lmx_clock_stamp(lane->clock, lane->last);
    op_at(lane, at)->flags |= (uint8_t)flags;
    lane->open_op = around;
    hold(c);
    const bool ok = pack_values(c, lane, results, "", -1, &out);
    op_at(lane, at)->out = out;
    let_go(c);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *unseen(PyObject *module, PyObject *name) {
    (void)module;
    lmx_observe_unseen(lmx_utf8(name));
    Py_RETURN_NONE;
}

static PyObject *op_wraps(PyObject *module, PyObject *name) {
    (void)module;
    return PyBool_FromLong(lam_word_op_wraps(lam_word_op(lmx_utf8(name))));
}

PyMethodDef lmx_dispatch_methods[] = {
    {"open_call", open_call, METH_O,
     PyDoc_STR("open_call($module, mode, /)\n--\n\nReturns the open call in the capture of a dispatch mode, "
               "-1 if there is none; None if no operator may be noted now.")},
    {"begin_op", begin_op, METH_VARARGS,
     PyDoc_STR("begin_op($module, mode, name, values, operands, call, phase, flags, /)\n--\n\nNotes "
               "the begin of an operator. Returns its number, or -1. `operands` has a T for each value that "
               "is a tensor or a number in place of one. Inside another operator, call and phase are those "
               "of that one.")},
    {"end_op", end_op, METH_VARARGS,
     PyDoc_STR("end_op($module, mode, around, results, flags, /)\n--\n\nNotes the end and the results of the "
               "open operator inside number `around` (-1: inside none).")},
    {"unseen", unseen, METH_O,
     PyDoc_STR("unseen($module, name, /)\n--\n\nNotes, in each capture that observes this thread, that an "
               "operator of this name is about to run in a way that torch keeps no record of.")},
    {"op_wraps", op_wraps, METH_O,
     PyDoc_STR("op_wraps($module, name, /)\n--\n\nReturns True if the operator's work is done by the "
               "operators that it calls.")},
    {NULL, NULL, 0, NULL},
};

/* == for a dry run ===================================================================================== */

PyObject *lmx_dispatch_inside(lmx_capture *c, PyObject *function, PyObject *args, PyObject *kwargs) {
    PyObject *mode = c && listens(c) ? c->dispatcher->mode : NULL;
    if (!mode) return PyObject_Call(function, args, kwargs);
    return PyObject_CallMethod(mode, "inside", "OOO", function, args, kwargs ? kwargs : Py_None);
}

static lmx_lane *lane_here(const lmx_capture *c) {
    return listens(c) ? find_lane(c, PyThread_get_thread_ident()) : NULL;
}

int32_t lmx_dispatch_op(const lmx_capture *c) {
    const lmx_lane *lane = lane_here(c);
    return lane ? lane->open_op : -1;
}

void lmx_dispatch_mark(lmx_capture *c, int32_t op, uint8_t flag) {
    const lmx_lane *lane = lane_here(c);
    if (lane && op >= 0 && (size_t)op < lane->ops.n) op_at(lane, op)->flags |= flag;
}

/* == opening and closing =============================================================================== */

bool lmx_dispatcher_new(lmx_capture *c) {
    c->dispatcher = calloc(1, sizeof *c->dispatcher);
    c->observer = c->dispatcher ? calloc(1, sizeof *c->observer) : NULL;
    if (!c->observer) {
        PyErr_NoMemory();
        return false;
    }
    *c->observer = (lmx_observer){.capture = c, .slot = -1};
    c->dispatcher->capture = c;
    return true;
}

bool lmx_dispatch(lmx_capture *c) {
    lmx_dispatcher *d = c->dispatcher;
    PyObject *module = PyImport_ImportModule("lamina._observe.dispatch");
    if (!module) return false;
    if (!c->dry) lmx_reads_values(c->st);
    c->observer->thread = c->owner;
    d->mode = PyObject_CallMethod(module, "open_mode", NULL);
    Py_DECREF(module);
    if (!d->mode) return false;
    d->next = open_ones;
    open_ones = d;
    return true;
}

void lmx_undispatch(lmx_capture *c) {
    lmx_dispatcher *d = c->dispatcher, **at = &open_ones;
    if (!d->mode) return;
    while (*at && *at != d) at = &(*at)->next;
    if (*at) *at = d->next;
    PyObject *mode = d->mode, *done = NULL;
    d->mode = NULL;
    for (int i = 0; !done && i < 2; i++) { /* once more after a Ctrl-C */
        done = PyObject_CallMethod(mode, "close", NULL);
        if (!done) PyErr_Clear();
    }
    Py_XDECREF(done);
    Py_DECREF(mode);
}

/* A Ctrl-C during the call is raised at the next line of the program. */
bool lmx_dispatch_call(lmx_capture *c) {
    PyObject *mode = listens(c) ? c->dispatcher->mode : NULL;
    if (!mode) return false;
    const lmx_call *open = c->open_call >= 0 ? (lmx_call *)c->calls.data + c->open_call : NULL;
    PyObject *told = PyObject_CallMethod(mode, "called", "ii", c->open_call, open ? open->parent : -1);
    const bool again = told == Py_True;
    if (!told && !lmx_forgive()) {
        PyErr_Clear();
        PyErr_SetInterrupt();
    }
    Py_XDECREF(told);
    return again;
}

void lmx_dispatcher_free(lmx_dispatcher *d) { free(d); }
