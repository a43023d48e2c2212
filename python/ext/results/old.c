/* SPDX-License-Identifier: Apache-2.0
 * The tables of torchscan and thoplw: Python lays them out, from rows as dicts. */
#include "base/base.h"
#include "results/results.h"

static PyObject *modules_of(const lam_model *m) {
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < lam_model_n_modules(m); i++) {
        PyObject *item = lmx_module(m, i);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *text_of(PyObject *options, const lam_costs *c, const lam_report_options *o) {
    PyObject *old = PyImport_ImportModule("lamina._old.layouts"), *text = NULL;
    PyObject *rows = old ? lmx_rows(c) : NULL, *params = rows ? lmx_params(c) : NULL;
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
