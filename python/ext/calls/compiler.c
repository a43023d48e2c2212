/* SPDX-License-Identifier: Apache-2.0
 * What is known of torch's compiler, see compiler.h. */
#include "calls/compiler.h"
#include "base/ext.h"
#include "base/tables.h"
#include "torch/tensor.h"

/* A global of an imported module, a new reference; NULL without an exception if there is none. */
static PyObject *global_of(const char *module, const char *name, bool *imported) {
    PyObject *m = lmx_imported(module);
    PyObject *value = m ? PyObject_GetAttrString(m, name) : NULL;
    *imported = m != NULL;
    Py_XDECREF(m);
    PyErr_Clear();
    return value;
}

bool lmx_compiler_compiled(void) {
    bool imported;
    PyObject *n = global_of("torch._dynamo.convert_frame", "FRAME_COUNTER", &imported);
    bool yes = n && PyObject_IsTrue(n) == 1;
    Py_XDECREF(n);
    return yes;
}

bool lmx_compiler_used(void) {
    static bool used; /* for good */
    bool imported;
    if (used) return true;
    PyObject *backends = global_of("torch._dynamo.eval_frame", "cached_backends", &imported), *key, *value;
    bool yes = imported && (!backends || !PyDict_Check(backends));
    Py_ssize_t at = 0;
    while (backends && !yes && PyDict_Next(backends, &at, &key, &value)) yes = value != Py_None;
    Py_XDECREF(backends);
    /* torch._dynamo.reset() forgets the backends, but code that was compiled for them may be called again. */
    used = yes || (imported && lmx_compiler_compiled());
    return used;
}

PyObject *lmx_compiler_was_used(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(lmx_compiler_used());
}

PyTypeObject *lmx_compiler_wrapper;

static void find_wrapper(void) {
    bool imported;
    PyObject *type =
        lmx_compiler_wrapper ? NULL : global_of("torch._dynamo.eval_frame", "OptimizedModule", &imported);
    if (type && PyType_Check(type))
        lmx_compiler_wrapper = (PyTypeObject *)type; /* the reference is kept */
    else
        Py_XDECREF(type);
}

PyObject *lmx_compiler_unwrapped(lmx_state *st, PyObject *module) {
    while (Py_TYPE(module) == lmx_compiler_wrapper) {
        PyObject *dict = lmx_dict_of(module);
        PyObject *inside = lmx_get(dict, st->n__modules);
        inside = inside ? lmx_get(inside, st->n__orig_mod) : NULL;
        Py_XDECREF(dict);
        if (!inside) break;
        module = inside;
    }
    return module;
}

static PyObject *reports; /* strong; NULL: not known */

PyObject *lmx_compiler_report_to(PyObject *module, PyObject *list) {
    (void)module;
    PyObject *before = reports;
    reports = PyList_Check(list) ? list : NULL;
    find_wrapper();
    Py_XINCREF(reports);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

bool lmx_compiler_reports(void) { return !reports || PyList_Size(reports) > 0; }

/* Has torch call this function at each frame, or nothing (None). Returns what it called before; NULL:
 * unknown. */
static PyObject *set_frames(PyObject *function) {
    static PyObject *set; /* torch's, kept for good */
    bool imported;
    if (!set) set = global_of("torch._C._dynamo.eval_frame", "set_eval_frame", &imported);
    PyObject *before = set ? PyObject_CallFunctionObjArgs(set, function, NULL) : NULL;
    PyErr_Clear();
    return before;
}

PyObject *lmx_compiler_off(void) {
    PyObject *before = set_frames(Py_None);
    if (before != Py_None) return before;
    Py_DECREF(before);
    return NULL;
}

void lmx_compiler_on(PyObject *before) {
    if (!before) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *nothing = set_frames(before);
    Py_XDECREF(nothing);
    Py_DECREF(before);
    PyErr_Restore(type, value, trace);
}
