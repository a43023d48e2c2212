/* SPDX-License-Identifier: Apache-2.0
 * The tables of torchscan and thoplw: Python lays them out, from rows as dicts. */
#include "base/ext.h"
#include "results/results.h"

static PyObject *part_of(const lam_costs *c, lam_costs_part part) {
    lmx_sink t;
    /* A report is written of settled costs, so nothing is computed. */
    lam_status s = lam_costs_tell((lam_costs *)c, part, 0, lmx_sink_begin(&t), NULL);
    PyObject *all = lmx_sink_end(&t);
    if (s != LAM_OK) Py_CLEAR(all);
    return all;
}

static PyObject *modules_of(const lam_model *m) {
    lmx_sink t;
    lam_model_tell(m, LAM_MODEL_MODULES, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

static PyObject *text_of(PyObject *options, const lam_costs *c, const lam_report_options *o) {
    PyObject *old = PyImport_ImportModule("lamina._old.layouts"), *text = NULL;
    PyObject *rows = old ? part_of(c, LAM_COSTS_ROWS) : NULL;
    PyObject *params = rows ? part_of(c, LAM_COSTS_PARAMS) : NULL;
    PyObject *modules = params ? modules_of(lam_costs_model(c)) : NULL;
    PyObject *more = options ? PyDict_Copy(options) : PyDict_New();
    if (modules && more)
        text = PyObject_CallMethod(old, "lay_out", "ssOOOOO", o->layout, o->format ? o->format : "text",
                                   o->receptive_field ? Py_True : Py_False, rows, params, modules, more);
    Py_XDECREF(old);
    Py_XDECREF(rows);
    Py_XDECREF(params);
    Py_XDECREF(modules);
    Py_XDECREF(more);
    return text;
}

lam_status lmx_write_old(void *options, const lam_costs *c, const lam_report_options *o, lam_sink to,
                         lam_error *e) {
    (void)e;
    PyObject *text = text_of(options, c, o);
    PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    Py_ssize_t n;
    char *at;
    lam_status status = LAM_FAILED;
    if (bytes && PyBytes_AsStringAndSize(bytes, &at, &n) == 0) status = to.put(to.to, at, (size_t)n);
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    return status;
}
