/* SPDX-License-Identifier: Apache-2.0
 * The HTML page, and its part for a notebook: of costs, of a report saved as JSON, of a recording. */
#include "base/ext.h"
#include "results/results.h"

/* Costs, or the name of a file as bytes; neither is set on failure. */
static bool take(lmx_state *st, PyObject *of, const lam_costs **costs, const char **file) {
    if (Py_TYPE(of) == st->costs_type) return (*costs = lmx_costs_settled(of)) != NULL;
    *file = PyBytes_AsString(of);
    return *file != NULL;
}

static PyObject *page(PyObject *module, PyObject *args) {
    lam_page_options o = {0};
    PyObject *of, *before;
    const lam_costs *costs = NULL;
    const char *file = NULL;
    int part;
    if (!PyArg_ParseTuple(args, "OzddOp:page", &of, &o.ran, &o.roof.flops, &o.roof.bytes, &before, &part))
        return NULL;
    lmx_state *st = lmx_state_of(module);
    if (!take(st, of, &costs, &file)) return NULL;
    if (before != Py_None && !take(st, before, &o.costs_before, &o.file_before)) return NULL;
    o.before = o.file_before;
    o.part = part != 0;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    lam_sink to = lmx_text_sink(&text);
    lam_status s = costs ? lam_page_write(costs, &o, to, &e) : lam_page_of(file, &o, to, &e);
    return lmx_text_end(&text, st, s, &e);
}

enum { MOST_SIZES = 64 };

/* Reads {"batch": 8}; the names stay those of `given`. */
static bool take_sizes(PyObject *given, lam_read_size *out, int32_t *n) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    for (*n = 0; PyDict_Next(given, &at, &name, &value); ++*n) {
        if (*n == MOST_SIZES)
            return PyErr_Format(PyExc_ValueError, "sizes: more than %d", MOST_SIZES) != NULL;
        out[*n] = (lam_read_size){lmx_utf8(name), PyLong_AsLongLong(value)};
        if (PyErr_Occurred()) return false;
    }
    return true;
}

/* Reads a tuple of texts; they stay those of `given`. */
static bool take_inputs(PyObject *given, const char *out[MOST_SIZES], int32_t *n) {
    if (PyTuple_Size(given) > MOST_SIZES)
        return PyErr_Format(PyExc_ValueError, "inputs: more than %d", MOST_SIZES) != NULL;
    for (*n = 0; *n < PyTuple_Size(given); ++*n)
        if (!(out[*n] = lmx_utf8(PyTuple_GetItem(given, *n)))) return false;
    return true;
}

static PyObject *read_file(PyObject *module, PyObject *args) {
    lmx_state *st = lmx_state_of(module);
    const char *name, *inputs[MOST_SIZES];
    PyObject *given, *shapes;
    int saved, health;
    lam_model *m;
    lam_error e = {.at = -1};
    lam_status s;
    lam_read_size sizes[MOST_SIZES];
    lam_read_options o = {.sizes = sizes, .inputs = inputs};
    if (!PyArg_ParseTuple(args, "ypO!O!p:read", &name, &saved, &PyTuple_Type, &shapes, &PyDict_Type, &given,
                          &health))
        return NULL;
    if (!take_inputs(shapes, inputs, &o.n_inputs) || !take_sizes(given, sizes, &o.n_sizes)) return NULL;
    PyThreadState *state = PyEval_SaveThread();
    const lam_watcher watcher = lmx_hear(&state);
    o.health = health != 0;
    o.growth = true;
    o.watcher = &watcher;
    s = saved ? lam_model_load(&m, name, &e) : lam_read(&m, name, &o, &e);
    PyEval_RestoreThread(state);
    if (s != LAM_OK) return PyErr_Occurred() ? NULL : lmx_raise(st, &e);
    saved = lam_model_file(m) != NULL;
    return Py_BuildValue("NO", lmx_model_wrap(st, m), saved ? Py_True : Py_False);
}

static PyObject *recording_part(PyObject *module, PyObject *file) {
    const char *name = PyBytes_AsString(file);
    lam_recording *r = NULL;
    lmx_text text = {0};
    lam_error e = {.at = -1};
    if (!name) return NULL;
    lam_status s = lam_recording_open(&r, name, 0, 0, &e);
    if (s == LAM_OK) s = lam_recording_part(r, lmx_text_sink(&text), &e);
    lam_recording_free(r);
    return lmx_text_end(&text, lmx_state_of(module), s, &e);
}

PyMethodDef lmx_page_methods[] = {
    {"page", page, METH_VARARGS,
     PyDoc_STR("page($module, of, ran, flops, moved, before, part, /)\n--\n\nReturns the report as one HTML "
               "file, or a `part` of it for a notebook. `of` and `before` (what it is compared with, or "
               "None) are Costs, or names of saved reports as bytes. `ran`: why only a part of the model "
               "ran, or None. `flops` and `moved`: the machine's peaks per second.")},
    {"read", read_file, METH_VARARGS,
     PyDoc_STR(
         "read($module, file, saved, inputs, sizes, health, /)\n--\n\nReturns the Model in a file, and "
         "whether it is "
         "a report that was saved as JSON. `file` is its name as bytes. `saved`: it must be such a report. "
         "`inputs`: a tuple of texts, as of -i. `sizes`: a dict of names and values for sizes that it leaves "
         "open. `health`: looks for NaN and Inf in weights.")},
    {"recording_part", recording_part, METH_O,
     PyDoc_STR("recording_part($module, file, /)\n--\n\nReturns the newest run of a recording for a "
               "notebook. `file` is its name as bytes.")},
    {NULL, NULL, 0, NULL},
};
