/* SPDX-License-Identifier: Apache-2.0
 * ways: operators of a dry run whose callers take another way than in a real run, because tensors have a
 * class of their own there (_dry_ways.py says which, and what runs instead). */
#include "dry.h"

#include "dispatch.h"

#include <string.h>

/* Nodes whose gradients torch computes in one way or another as values are (how many of the factors are 0),
 * and in a third where tensors have a class of their own. None of these ways has a product of matrices. */
static const char *const by_values[] = {"ProdBackward", "CumprodBackward"};

bool lmx_dry_values_decide(const char *node) {
    for (size_t i = 0; i < sizeof by_values / sizeof *by_values; i++) {
        size_t n = strlen(by_values[i]);
        if (strncmp(node, by_values[i], n) == 0 && node[n] >= '0' && node[n] <= '9') return true;
    }
    return false;
}

static lmx_observer *observer_of(const lmx_dry *d) {
    const lmx_capture *c = (lmx_capture *)d->capture;
    return c ? c->observer : NULL;
}

/* True where operators are watched through torch's dispatch mode. There callers are not known, and need not
 * be: a mode alone makes a real run take these other ways too, all but one (the ANYHOW of _dry_ways.py). */
static bool dispatched(const lmx_dry *d) { return d->capture && ((lmx_capture *)d->capture)->dispatcher; }

/* The operator or node so many levels above the one that is answered; NULL where it is not known. */
static const char *above(const lmx_dry *d, size_t level) {
    return observer_of(d) ? lmx_observer_above(observer_of(d), level) : NULL;
}

static void mark(PyObject *self, size_t level, uint8_t flag) {
    const lmx_dry *d = (lmx_dry *)self;
    lmx_capture *c = (lmx_capture *)d->capture;
    if (dispatched(d))
        lmx_dispatch_mark(c, lmx_dispatch_op(c), level, flag);
    else if (observer_of(d))
        lmx_observer_mark(observer_of(d), level, flag);
}

bool lmx_dry_elsewhere(const lmx_dry *d, const char *callers) {
    if (callers && *callers == '*' && dispatched(d)) return true;
    const char *caller = callers ? above(d, 1) : NULL;
    const char *at = caller && *caller ? strstr(callers, caller) : NULL;
    return at && at > callers && at[-1] == ' ' && at[strlen(caller)] == ' ';
}

PyObject *lmx_dry_caller(PyObject *self, PyObject *level) {
    size_t n = PyLong_AsSize_t(level);
    if (PyErr_Occurred()) return NULL;
    const char *name = above((lmx_dry *)self, n);
    if (!name) Py_RETURN_NONE;
    return lmx_str(name);
}

PyObject *lmx_dry_here(PyObject *self, PyObject *unused) {
    const lmx_dry *d = (lmx_dry *)self;
    (void)unused;
    return PyLong_FromLong(dispatched(d) ? lmx_dispatch_op((lmx_capture *)d->capture) : -1);
}

PyObject *lmx_dry_aside(PyObject *self, PyObject *args) {
    const lmx_dry *d = (lmx_dry *)self;
    int op = -1;
    if (!PyArg_ParseTuple(args, "|i:aside", &op)) return NULL;
    if (op < 0)
        mark(self, 0, LAM_OP_NODE);
    else if (dispatched(d))
        lmx_dispatch_mark((lmx_capture *)d->capture, op, 0, LAM_OP_NODE);
    Py_RETURN_NONE;
}

PyObject *lmx_dry_whole(PyObject *self, PyObject *level) {
    size_t n = PyLong_AsSize_t(level);
    if (PyErr_Occurred()) return NULL;
    mark(self, n, LAM_OP_WHOLE);
    Py_RETURN_NONE;
}

PyObject *lmx_dry_decided(PyObject *self, PyObject *level) {
    size_t n = PyLong_AsSize_t(level);
    if (PyErr_Occurred()) return NULL;
    mark(self, n, LAM_OP_VALUES);
    Py_RETURN_NONE;
}
