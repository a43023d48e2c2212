/* SPDX-License-Identifier: Apache-2.0
 * The JSON of torch_inspector, as bytes: it goes to a file as it is. */
#include "ext.h"

/* What it takes to find is kept with the model, for the next time. */
static const lam_gadgets *gadgets_of(lmx_model *self) {
    lam_error e = {.at = -1};
    const lam_model *m = lmx_model_get(self->st, (PyObject *)self);
    if (m && !self->gadgets && lam_gadgets_new(&self->gadgets, m, &e) != LAM_OK) lmx_raise(self->st, &e);
    return m ? self->gadgets : NULL;
}

PyObject *lmx_gadgets(lmx_model *self, PyObject *args) {
    int depth = -1, forward = 1, backward = 1;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "|ipp:gadgets", &depth, &forward, &backward)) return NULL;
    const lam_gadgets *g = gadgets_of(self);
    if (!g) return NULL;
    const lam_gadget_options o = {depth, forward != 0, backward != 0};
    PyObject *told = NULL;
    if (lam_gadgets_write(g, &o, lmx_text_sink(&text), &e) != LAM_OK)
        lmx_raise(self->st, &e);
    else
        told = PyBytes_FromStringAndSize(text.bytes.data, (Py_ssize_t)text.bytes.n);
    lmx_vec_free(&text.bytes);
    return told;
}
