/* SPDX-License-Identifier: Apache-2.0
 * Python's Model objects, as handles of the library's models. */
#include "base/ext.h"

static lmx_model *self_of(PyObject *self) { return (lmx_model *)self; }

PyObject *lmx_model_wrap(lmx_state *st, lam_model *m) {
    lmx_model *self = (lmx_model *)PyType_GenericAlloc(st->model_type, 0);
    if (!self) {
        lam_model_free(m);
        return NULL;
    }
    self->st = st;
    self->model = m;
    return (PyObject *)self;
}

static lmx_model *checked(lmx_state *st, PyObject *o) {
    if (Py_TYPE(o) != st->model_type) {
        lmx_fail(st, LAM_USAGE, NULL, "expected a lamina Model");
        return NULL;
    }
    if (!self_of(o)->model) {
        lmx_fail(st, LAM_USAGE, NULL, "this Model was handed to the command and is empty");
        return NULL;
    }
    return self_of(o);
}

lam_model *lmx_model_get(lmx_state *st, PyObject *o) {
    lmx_model *self = checked(st, o);
    return self ? self->model : NULL;
}

lam_model *lmx_model_release(lmx_state *st, PyObject *o) {
    lmx_model *self = checked(st, o);
    if (!self) return NULL;
    if (self->borrowers) {
        lmx_fail(st, LAM_USAGE, NULL, "this Model is still read by its Costs, so it can't be handed over");
        return NULL;
    }
    lam_model *m = self->model;
    self->model = NULL;
    lam_gadgets_free(self->gadgets);
    self->gadgets = NULL;
    return m;
}
