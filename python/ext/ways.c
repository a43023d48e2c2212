/* SPDX-License-Identifier: Apache-2.0
 * ways: operators of a dry run whose callers take another way than in a real run, because tensors have a
 * class of their own there (_dry_ways.py says which, and what runs instead). */
#include "dry.h"

#include <string.h>

bool lmx_dry_elsewhere(const lmx_dry *d, const char *callers) {
    const lmx_capture *c = (lmx_capture *)d->capture;
    const char *caller = callers && c && c->observer ? lmx_observer_caller(c->observer) : NULL;
    const char *at = caller && *caller ? strstr(callers, caller) : NULL;
    return at && at > callers && at[-1] == ' ' && at[strlen(caller)] == ' ';
}

static lmx_observer *observer_of(PyObject *self) {
    lmx_capture *c = (lmx_capture *)((lmx_dry *)self)->capture;
    return c ? c->observer : NULL;
}

PyObject *lmx_dry_caller(PyObject *self, PyObject *level) {
    size_t n = PyLong_AsSize_t(level);
    if (PyErr_Occurred()) return NULL;
    const char *name = observer_of(self) ? lmx_observer_above(observer_of(self), n) : NULL;
    if (!name) Py_RETURN_NONE;
    return lmx_str(name);
}

PyObject *lmx_dry_aside(PyObject *self, PyObject *unused) {
    (void)unused;
    if (observer_of(self)) lmx_observer_mark(observer_of(self), 0, LAM_OP_NODE);
    Py_RETURN_NONE;
}

PyObject *lmx_dry_whole(PyObject *self, PyObject *level) {
    size_t n = PyLong_AsSize_t(level);
    if (PyErr_Occurred()) return NULL;
    if (observer_of(self)) lmx_observer_mark(observer_of(self), n, LAM_OP_WHOLE);
    Py_RETURN_NONE;
}
