/* SPDX-License-Identifier: Apache-2.0
 * The memory of a model, as Python objects; and a model's times, taken from another. */
#include "measure/memory.h"
#include "base/ext.h"
#include "results/results.h"

static lam_memory *memory_of(PyObject *self) {
    lam_error e = {.at = -1};
    lam_memory *y = NULL;
    const lam_model *m = lmx_model_of(self);
    if (m && lam_memory_new(&y, m, &e) != LAM_OK) lmx_raise(((lmx_model *)self)->st, &e);
    return y;
}

PyObject *lmx_memory_measured(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_model *m = lmx_model_of(self);
    return m ? PyBool_FromLong(lam_model_memory_seen(m)) : NULL;
}

/* Frees `y`. */
static PyObject *memory_data(lam_memory *y) {
    lmx_sink t;
    lam_memory_tell(y, lmx_sink_begin(&t));
    lam_memory_free(y);
    return lmx_sink_end(&t);
}

PyObject *lmx_memory_data(PyObject *self, PyObject *unused) {
    (void)unused;
    lam_memory *y = memory_of(self);
    return y ? memory_data(y) : NULL;
}

PyObject *lmx_device_memory_data(PyObject *self, PyObject *unused) {
    (void)unused;
    lam_error e = {.at = -1};
    lam_memory *y = NULL;
    const lam_model *m = lmx_model_of(self);
    if (!m) return NULL;
    if (!lam_model_device_memory_seen(m)) return lmx_str(NULL);
    if (lam_device_memory_new(&y, m, &e) != LAM_OK) return lmx_raise(((lmx_model *)self)->st, &e);
    return memory_data(y);
}

PyObject *lmx_memory_course(PyObject *self, PyObject *args) {
    int points;
    lam_memory_point p;
    if (!PyArg_ParseTuple(args, "i:memory_course", &points)) return NULL;
    lam_memory *y = memory_of(self);
    PyObject *list = y ? PyList_New(0) : NULL;
    for (int32_t i = 0; list && lam_memory_at(y, points, i, &p, NULL) == LAM_OK; i++) {
        PyObject *item = Py_BuildValue("(LL)", (long long)p.t_ns, (long long)p.bytes);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    lam_memory_free(y);
    return list;
}

PyObject *lmx_time_by(PyObject *self, PyObject *other) {
    lmx_model *m = (lmx_model *)self;
    lam_model *model = lmx_model_of(self);
    lam_error e = {.at = -1};
    if (!model) return NULL;
    if (m->borrowers) return lmx_fail(m->st, LAM_USAGE, NULL, "this Model is read by its Costs already");
    lam_model *timed = lmx_model_release(m->st, other);
    if (!timed) return NULL;
    if (lam_model_time_by(model, timed, &e) != LAM_OK) return lmx_raise(m->st, &e);
    Py_RETURN_NONE;
}
