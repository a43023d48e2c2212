/* SPDX-License-Identifier: Apache-2.0
 * Tensors that are not stored as their shape says: sparse ones, which keep indices and values, and weights
 * that a quantised layer keeps packed for the machine in an object that is no tensor. Its state has them
 * unpacked. */
#include "ext.h"

#include <string.h>

/* -- sparse -------------------------------------------------------------------------------------------- */

static const struct {
    const char *layout, *parts[3];
} layouts[] = {
    {"torch.sparse_coo", {"_indices", "_values", NULL}},
    {"torch.sparse_csr", {"crow_indices", "col_indices", "values"}},
    {"torch.sparse_bsr", {"crow_indices", "col_indices", "values"}},
    {"torch.sparse_csc", {"ccol_indices", "row_indices", "values"}},
    {"torch.sparse_bsc", {"ccol_indices", "row_indices", "values"}},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

/* What a method without arguments gives as a number; -1 with an exception. */
static int64_t ask(PyObject *tensor, const char *method) {
    PyObject *n = PyObject_CallMethod(tensor, method, NULL);
    int64_t value = n ? PyLong_AsLongLong(n) : -1;
    Py_XDECREF(n);
    return value;
}

static int64_t bytes_of_part(PyObject *tensor, const char *name) {
    PyObject *part = PyObject_CallMethod(tensor, name, NULL);
    int64_t n = part ? ask(part, "numel") : -1, item = n >= 0 ? ask(part, "element_size") : -1;
    Py_XDECREF(part);
    return item >= 0 ? n * item : -1;
}

static int layout_of(PyObject *tensor) {
    PyObject *layout = PyObject_GetAttrString(tensor, "layout"), *text = layout ? PyObject_Str(layout) : NULL;
    const char *name = text ? lmx_utf8(text) : "";
    int i = 0;
    while (i < N_LAYOUTS && strcmp(layouts[i].layout, name) != 0) i++;
    Py_XDECREF(layout);
    Py_XDECREF(text);
    return i;
}

bool lmx_sparse_bytes(PyObject *tensor, int64_t *bytes, bool *sparse) {
    int layout = layout_of(tensor);
    *sparse = layout < N_LAYOUTS;
    *bytes = *sparse ? 0 : -1;
    for (int i = 0; *sparse && i < 3 && layouts[layout].parts[i] && *bytes >= 0; i++) {
        int64_t n = bytes_of_part(tensor, layouts[layout].parts[i]);
        *bytes = n < 0 ? -1 : *bytes + n;
    }
    return lmx_forgive();
}

/* -- packed -------------------------------------------------------------------------------------------- */

enum { DEEPEST = 12 }; /* of a packed layer in a packed recurrence, in a list */

static bool is_packed(PyObject *o) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    bool yes = name && strcmp(lmx_utf8(name), "ScriptObject") == 0;
    Py_XDECREF(name);
    PyErr_Clear();
    return yes;
}

static bool collect(lmx_state *st, PyObject *o, int depth, PyObject *into, bool *told) {
    if (lmx_is_tensor(st, o)) return PyList_Append(into, o) == 0;
    if (depth == DEEPEST) return true;
    bool ok = true;
    if (PyTuple_Check(o) || PyList_Check(o)) {
        Py_ssize_t n = PySequence_Size(o);
        for (Py_ssize_t i = 0; ok && i < n; i++) {
            PyObject *item = PySequence_GetItem(o, i);
            ok = item && collect(st, item, depth + 1, into, told);
            Py_XDECREF(item);
        }
    } else if (is_packed(o)) {
        PyObject *state = PyObject_CallMethod(o, "__getstate__", NULL);
        if (!state) *told = false;
        ok = state ? collect(st, state, depth + 1, into, told) : lmx_forgive();
        Py_XDECREF(state);
    }
    return ok;
}

PyObject *lmx_unpacked(lmx_state *st, PyObject *dict, PyObject *name, bool *told) {
    PyObject *packed = lmx_get(dict, name), *tensors = packed && is_packed(packed) ? PyList_New(0) : NULL;
    *told = true;
    if (tensors && !collect(st, packed, 0, tensors, told)) Py_CLEAR(tensors);
    return tensors;
}
