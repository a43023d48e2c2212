/* SPDX-License-Identifier: Apache-2.0
 * Reads Python's values as attributes of a layer. */
#include "base/ext.h"
#include "modules/classes.h"
#include "torch/tensor.h"

bool lmx_answers(PyObject *value) { return !(PyType_GetFlags(Py_TYPE(value)) & Py_TPFLAGS_HEAPTYPE); }

bool lmx_asks_nobody(PyObject *value, bool early) {
    if (lmx_is_settled(value)) return true;
    if (!lmx_answers(value)) return false;
    const bool list = PyList_Check(value), sequence = list || PyTuple_Check(value);
    for (Py_ssize_t i = 0; sequence && i < PySequence_Size(value); i++) {
        PyObject *item = list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
        if (!lmx_is_settled(item) && (early || !lmx_answers(item))) return false;
    }
    return !early || sequence || PyCallable_Check(value);
}

static bool int_of(PyObject *o, int64_t *out) {
    int overflow = 0;
    PyObject *whole = PyLong_Check(o) ? (Py_INCREF(o), o) : PyNumber_Index(o);
    if (whole) *out = PyLong_AsLongLongAndOverflow(whole, &overflow);
    bool ok = whole && !overflow && !PyErr_Occurred();
    Py_XDECREF(whole);
    PyErr_Clear();
    return ok;
}

/* None among sizes (AdaptiveAvgPool2d((None, 7))) is -1: the size of the input. */
static bool ints_of(PyObject *o, int64_t *ints, lam_value *v) {
    Py_ssize_t n = PySequence_Size(o);
    if (n < 0 || n > LMX_MAX_INTS) return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        bool ok = item && (item == Py_None || int_of(item, &ints[i]));
        if (item == Py_None) ints[i] = -1;
        Py_XDECREF(item);
        if (!ok) return false;
    }
    *v = (lam_value){.type = LAM_INTS, .n = (int32_t)n, .ints = ints};
    return true;
}

/* Functions and classes (activation=torch.relu) are given by name. False: neither these nor a text. */
static bool text_of(lmx_state *st, PyObject *o, PyObject **name, lam_value *v) {
    if (PyUnicode_Check(o)) Py_INCREF(o);
    *name = PyUnicode_Check(o) ? o : PyCallable_Check(o) ? PyObject_GetAttr(o, st->n___name__) : NULL;
    if (*name && !PyUnicode_Check(*name)) Py_CLEAR(*name);
    *v = (lam_value){.type = LAM_TEXT, .text = lmx_utf8(*name)};
    return *name != NULL;
}

bool lmx_value_of(lmx_state *st, PyObject *o, int64_t *ints, PyObject **name, lam_value *v) {
    *name = NULL;
    *v = (lam_value){.type = LAM_NONE};
    if (o == Py_None) return true;
    if (PyBool_Check(o) || lmx_is_tensor(st, o)) {
        *v = (lam_value){.type = LAM_BOOL, .i = o != Py_False};
        return true;
    }
    if (PyFloat_Check(o)) {
        *v = (lam_value){.type = LAM_FLOAT, .f = PyFloat_AsDouble(o)};
        return true;
    }
    if (PyLong_Check(o)) {
        v->type = LAM_INT;
        return int_of(o, &v->i);
    }
    if (PyTuple_Check(o) || PyList_Check(o)) return ints_of(o, ints, v);
    if (PyType_IsSubtype(Py_TYPE(o), st->torch.module)) o = (PyObject *)Py_TYPE(o);
    if (text_of(st, o, name, v)) return true;
    v->type = LAM_INT; /* numpy's integers and the like */
    return int_of(o, &v->i);
}
