/* SPDX-License-Identifier: Apache-2.0
 * The weights of two files against each other. */
#include "base/ext.h"
#include "results/results.h"

static const char NAME[] = "lamina._lamina.weights";

/* Signals are heard while files are read without the lock of the interpreter. */
static lam_status hear(void *self, uint64_t done, uint64_t all) {
    PyThreadState **state = self;
    (void)done, (void)all;
    PyEval_RestoreThread(*state);
    const bool fine = PyErr_CheckSignals() == 0;
    *state = PyEval_SaveThread();
    return fine ? LAM_OK : LAM_FAILED;
}

lam_watcher lmx_hear(PyThreadState **state) { return (lam_watcher){hear, state}; }

static void free_weights(PyObject *capsule) { lam_weights_diff_free(PyCapsule_GetPointer(capsule, NAME)); }

static PyObject *weights(PyObject *module, PyObject *args) {
    const char *before, *after;
    lam_weights_diff *d = NULL;
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "yy:weights", &before, &after)) return NULL;
    PyThreadState *state = PyEval_SaveThread();
    const lam_watcher watcher = lmx_hear(&state);
    lam_status s = lam_weights_diff_new(&d, before, after, &watcher, &e);
    PyEval_RestoreThread(state);
    if (s != LAM_OK) return PyErr_Occurred() ? NULL : lmx_raise(lmx_state_of(module), &e);
    PyObject *capsule = PyCapsule_New(d, NAME, free_weights);
    if (!capsule) lam_weights_diff_free(d);
    return capsule;
}

static PyObject *weights_text(PyObject *module, PyObject *args) {
    PyObject *capsule;
    lam_diff_options o = {0};
    int exact;
    if (!PyArg_ParseTuple(args, "Oszipii:weights_text", &capsule, &o.format, &o.by, &o.width, &exact, &o.rows,
                          &o.depth))
        return NULL;
    const lam_weights_diff *d = PyCapsule_GetPointer(capsule, NAME);
    if (!d) return NULL;
    o.exact = exact != 0;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    lam_status s = lam_weights_diff_write(d, &o, lmx_text_sink(&text), &e);
    return lmx_text_end(&text, lmx_state_of(module), s, &e);
}

PyMethodDef lmx_weights_methods[] = {
    {"weights", weights, METH_VARARGS,
     PyDoc_STR("weights($module, before, after, /)\n--\n\nCompares the weights of two files, named as bytes; "
               "weights_text writes the result.")},
    {"weights_text", weights_text, METH_VARARGS,
     PyDoc_STR("weights_text($module, weights, kind, by, width, exact, rows, depth, /)\n--\n\nReturns what "
               "weights() found as text.")},
    {NULL, NULL, 0, NULL},
};
