/* SPDX-License-Identifier: Apache-2.0
 * Operators of a dry run for which torch takes another path than in a real run, because the
 * tensors are of a subclass (_dry/decompositions.py lists them, and what a real run does). */
#include "base/ext.h"
#include "dry/dry.h"
#include "native/frames.h"
#include "observe/observe.h"

#include <string.h>

static lmx_observer *observer_of(const lmx_dry *d) {
    const lmx_capture *c = (lmx_capture *)d->capture;
    return c ? c->watched.observer : NULL;
}

/* True if operators are watched through torch's dispatch mode. Callers are unknown there, and not
 * needed: a mode makes a real run take these other paths too, except one (ANYHOW in _dry/decompositions.py).
 */
static bool dispatched(const lmx_dry *d) { return d->capture && ((lmx_capture *)d->capture)->watched.mode; }

/* The operator or node this many levels above the one that is answered; NULL if unknown. */
static const char *above(const lmx_dry *d, size_t level) {
    return observer_of(d) ? lmx_observer_above(observer_of(d), level) : NULL;
}

static void mark(PyObject *self, size_t level, uint8_t flag) {
    lmx_dry *d = (lmx_dry *)self;
    d->special = true;
    if (observer_of(d)) lmx_observer_mark(observer_of(d), dispatched(d) ? 0 : level, flag);
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

PyObject *lmx_dry_casts(PyObject *self, PyObject *device) {
    const lmx_observer *o = observer_of((lmx_dry *)self);
    const unsigned long long key = PyLong_AsUnsignedLongLong(device);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(o && lmx_observer_casts(o, key));
}

PyObject *lmx_dry_here(PyObject *self, PyObject *unused) {
    const lmx_dry *d = (lmx_dry *)self;
    const lmx_lane *own = dispatched(d) ? lmx_observer_lane(observer_of(d), 0) : NULL;
    (void)unused;
    return PyLong_FromLong(own && lmx_top_of(own) ? lmx_top_of(own)->op : -1);
}

PyObject *lmx_dry_aside(PyObject *self, PyObject *args) {
    const lmx_dry *d = (lmx_dry *)self;
    const lmx_lane *own = dispatched(d) ? lmx_observer_lane(observer_of(d), 0) : NULL;
    int op = -1;
    if (!PyArg_ParseTuple(args, "|i:aside", &op)) return NULL;
    if (op < 0)
        mark(self, 0, LAM_OP_NODE);
    else if (own && (size_t)op < own->ops.n)
        ((lmx_op *)own->ops.data)[op].flags |= LAM_OP_NODE;
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

/* == views that are written to ========================================================================= */

static bool put_number(PyObject **set, unsigned long long number) {
    if (!*set) *set = PySet_New(NULL);
    PyObject *o = PyLong_FromUnsignedLongLong(number);
    bool ok = *set && o && PySet_Add(*set, o) == 0;
    Py_XDECREF(o);
    return ok;
}

static bool has_number(PyObject *set, unsigned long long number) {
    PyObject *o = set ? PyLong_FromUnsignedLongLong(number) : NULL;
    bool yes = o && PySet_Contains(set, o) > 0;
    Py_XDECREF(o);
    return yes;
}

static unsigned long long address(const void *o) { return (unsigned long long)(uintptr_t)o; }

bool lmx_dry_wrote(lmx_dry *d, PyObject *tensor) {
    PyObject *base = PyObject_GetAttrString(tensor, "_base");
    bool ok = base && (base == Py_None || put_number(&d->written, address(base)));
    Py_XDECREF(base);
    return ok;
}

/* The last view of the memory that was written to, a new reference; NULL if there is none, or it is
 * gone. */
static PyObject *last_view(const lmx_dry *d) {
    PyObject *view = d->seen_last ? PyObject_CallNoArgs(d->seen_last) : NULL;
    if (view == Py_None) Py_CLEAR(view);
    PyErr_Clear();
    return view;
}

/* True if the gradient of this view is made of new zeros: it has fewer elements, or it is a slice that has
 * them all. */
static bool is_cut(lmx_dry *d, PyObject *of, PyObject *view) {
    lmx_plain a, b;
    int64_t m = 1, n = 1;
    if (!lmx_plain_of(d, of, &a) || !lmx_plain_of(d, view, &b)) return true;
    bool same = a.ndim == b.ndim;
    for (int32_t i = 0; i < a.ndim; i++) m *= a.sizes[i];
    for (int32_t i = 0; i < b.ndim; i++) n *= b.sizes[i];
    for (int32_t i = 0; same && i < a.ndim; i++)
        same = a.sizes[i] == b.sizes[i] && a.strides[i] == b.strides[i];
    return m != n || same;
}

static bool wants_gradient(const lmx_dry *d, PyObject *tensor) {
    PyObject *result = PyObject_GetAttr(tensor, d->st->n_requires_grad);
    bool yes = result == Py_True;
    Py_XDECREF(result);
    PyErr_Clear();
    return yes;
}

/* The result of a function of torch's without arguments. */
static PyObject *ask_torch(const char *home, const char *function) {
    PyObject *module = lmx_imported(home), *result = NULL;
    if (module) result = PyObject_CallMethod(module, function, NULL);
    Py_XDECREF(module);
    return result;
}

/* Adds a view to the chain. Its node was made just before this. */
static bool add_view(lmx_dry *d, PyObject *of, PyObject *view, bool goes_on) {
    if (!goes_on) Py_CLEAR(d->chain);
    if (!goes_on) d->n_cuts = 0;
    if (!d->chain) d->chain = PyList_New(0);
    PyObject *next = d->chain ? ask_torch("torch.autograd", "_get_sequence_nr") : NULL;
    PyObject *number = next ? PyLong_FromUnsignedLongLong(PyLong_AsUnsignedLongLong(next) - 1) : NULL;
    Py_XDECREF(next);
    bool ok = number && PyList_Append(d->chain, number) == 0;
    Py_XDECREF(number);
    if (ok) d->seen_last = PyWeakref_NewRef(view, NULL);
    d->n_cuts += is_cut(d, of, view);
    return ok && d->seen_last;
}

bool lmx_dry_viewed(lmx_dry *d, PyObject *of, PyObject *view) {
    if (!d->written || !of || !PyObject_TypeCheck(view, d->st->torch.tensor)) return true;
    PyObject *last = last_view(d);
    bool goes_on = last == of;
    Py_XDECREF(last);
    Py_CLEAR(d->seen_last);
    if (!goes_on && !has_number(d->written, address(of))) return !PyErr_Occurred();
    return !wants_gradient(d, of) || add_view(d, of, view, goes_on);
}

/* True in the backward of a view that was made again: a real run has new zeros there and one copy to
 * them, which is also the gradient of a single slice. */
static bool look_at_node(lmx_dry *d) {
    static const char note[] = "a view was written to in place: the gradient takes another way through it in "
                               "a dry run, and copies that a real backward makes there are missing from its "
                               "DMAs";
    PyObject *node = ask_torch("torch._C", "_current_autograd_node"), *done = NULL;
    PyObject *number = node && node != Py_None ? PyObject_CallMethod(node, "_sequence_nr", NULL) : NULL;
    bool yes = number && PySet_Contains(d->rebuilt, number) > 0;
    Py_XDECREF(number);
    Py_XDECREF(node);
    if (yes) mark((PyObject *)d, 0, LAM_OP_VALUES);
    if (yes && !d->rebuilt_noted && d->capture) done = PyObject_CallMethod(d->capture, "note", "s", note);
    d->rebuilt_noted = d->rebuilt_noted || yes;
    Py_XDECREF(done);
    return !PyErr_Occurred();
}

bool lmx_dry_look_back(lmx_dry *d) {
    PyObject *view = last_view(d);
    bool dropped = d->seen_last && !view, ok = true; /* autograd drops it before anything reads it */
    Py_XDECREF(view);
    for (Py_ssize_t i = 0; dropped && d->n_cuts != 1 && ok && i < PyList_Size(d->chain); i++)
        ok = put_number(&d->rebuilt, PyLong_AsUnsignedLongLong(PyList_GetItem(d->chain, i)));
    if (dropped) Py_CLEAR(d->seen_last);
    return ok && (!d->rebuilt || look_at_node(d));
}
