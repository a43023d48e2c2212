/* SPDX-License-Identifier: Apache-2.0
 * The JSON of torch_inspector, as a bytearray: it goes to a file as it is, and grows without being copied. */
#include "base/ext.h"
#include "results/results.h"

#include <string.h>

enum { A_LAYER = 2048 }; /* rough number of bytes that are written for each */

typedef struct page {
    PyObject *bytes;
    size_t n, room;
} page;

static lam_status keep(void *to, const char *bytes, size_t n) {
    page *p = to;
    if (n > p->room - p->n) {
        p->room = 2 * p->room + n;
        if (PyByteArray_Resize(p->bytes, (Py_ssize_t)p->room) < 0) return LAM_NOMEM;
    }
    memcpy(PyByteArray_AsString(p->bytes) + p->n, bytes, n);
    p->n += n;
    return LAM_OK;
}

/* Finds the gadgets once; the model keeps them for the next call. */
static const lam_gadgets *gadgets_of(lmx_model *self) {
    lam_error e = {.at = -1};
    const lam_model *m = lmx_model_of((PyObject *)self);
    if (m && !self->gadgets && lam_gadgets_new(&self->gadgets, m, &e) != LAM_OK) lmx_raise(self->st, &e);
    return m ? self->gadgets : NULL;
}

PyObject *lmx_gadgets(PyObject *self, PyObject *args) {
    lmx_model *handle = (lmx_model *)self;
    int depth = -1, forward = 1, backward = 1;
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "|ipp:gadgets", &depth, &forward, &backward)) return NULL;
    const lam_gadgets *g = gadgets_of(handle);
    page p = {.bytes = g ? PyByteArray_FromStringAndSize(NULL, 0) : NULL};
    if (!p.bytes) return NULL;
    /* Reserves enough at once: memory that is doubled soon is so large that the system takes it back each
     * time, and maps it anew page by page, which takes longer than writing. */
    p.room = (size_t)lam_model_n_places(handle->model) * A_LAYER;
    if (PyByteArray_Resize(p.bytes, (Py_ssize_t)p.room) < 0) p.room = 0;
    PyErr_Clear();
    const lam_gadget_options o = {depth, forward != 0, backward != 0};
    if (lam_gadgets_write(g, &o, (lam_sink){keep, &p}, &e) != LAM_OK)
        lmx_raise(handle->st, &e);
    else if (PyByteArray_Resize(p.bytes, (Py_ssize_t)p.n) == 0)
        return p.bytes;
    Py_DECREF(p.bytes);
    return NULL;
}
