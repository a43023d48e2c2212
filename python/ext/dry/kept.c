/* SPDX-License-Identifier: Apache-2.0
 * Memory that is there before a training step: what an optimizer keeps, and memory for gradients. A dry run
 * makes it too, before the optimizer's step that is predicted, or before the forward. */
#include "base/ext.h"
#include "dry/dry.h"
#include "native/ledger.h"
#include "observe/observe.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"

/* The ledger; NULL with an exception if memory is not followed. */
static lmx_ledger *ledger_of(const lmx_dry *d) {
    lmx_ledger *l = lmx_ledger_of(d);
    if (!l) lmx_fail(d->st, LAM_USAGE, NULL, "memory is not followed in this dry run");
    return l;
}

PyObject *lmx_dry_before(PyObject *self, PyObject *what) {
    lmx_ledger *l = ledger_of((lmx_dry *)self);
    if (!l) return NULL;
    const char *name = what == Py_None ? "" : lmx_utf8(what);
    lmx_ledger_before(l, strcmp(name, "state") == 0      ? LAM_TAKEN_STATE
                         : strcmp(name, "gradient") == 0 ? LAM_TAKEN_GRADIENT
                                                         : LAM_TAKEN_TENSOR);
    Py_RETURN_NONE;
}

/* Where the memory of a tensor begins; NULL if that is unknown. */
static const void *memory_of(const lmx_dry *d, PyObject *tensor) {
    const lmx_torch *t = &d->st->torch;
    void *handle = (char *)tensor + t->offset, *data = NULL;
    int64_t offset = 0;
    int32_t dtype = -1;
    if (!t->shim.offset || t->shim.data(handle, &data) || t->shim.offset(handle, &offset)) return NULL;
    if (t->shim.dtype(handle, &dtype)) return NULL;
    return (const char *)data - offset * (lam_dtype_bits(dtype) / 8);
}

PyObject *lmx_dry_belongs(PyObject *self, PyObject *args) {
    const lmx_dry *d = (lmx_dry *)self;
    lmx_ledger *l = ledger_of(d);
    PyObject *tensor, *parameter;
    if (!l || !PyArg_ParseTuple(args, "OO:belongs", &tensor, &parameter)) return NULL;
    bool fake = lmx_dry_is(d, tensor);
    const void *at = fake ? memory_of(d, tensor) : NULL;
    return PyBool_FromLong(lmx_ledger_belongs(l, at, parameter == Py_None ? NULL : parameter));
}

PyObject *lmx_dry_step(PyObject *self, PyObject *args) {
    const lmx_dry *d = (lmx_dry *)self;
    lmx_ledger *l = ledger_of(d);
    const char *name;
    int op, decided;
    if (!l || !PyArg_ParseTuple(args, "sip:step", &name, &op, &decided)) return NULL;
    if (!lmx_ledger_step(l, name, op, decided != 0)) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyObject *lmx_dry_done(PyObject *self, PyObject *unused) {
    const lmx_capture *c = (lmx_capture *)((lmx_dry *)self)->capture;
    (void)unused;
    return PyLong_FromSize_t(c && c->watched.observer ? lmx_observer_own(c->watched.observer) : 0);
}

PyObject *lmx_dry_more(PyObject *self, PyObject *why) {
    lmx_ledger *l = ledger_of((lmx_dry *)self);
    if (!l) return NULL;
    if (!lmx_ledger_more(l, lmx_utf8(why))) return PyErr_NoMemory();
    Py_RETURN_NONE;
}
