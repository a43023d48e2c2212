/* SPDX-License-Identifier: Apache-2.0
 * Finds the tensors in a value: any nesting of tuples, lists, dicts, dataclasses and objects. Depth and count
 * are bounded and cycles are cut, because the user may pass anything. */
#include "base/ext.h"
#include "torch/tensor.h"

#include <string.h>

static bool take(lmx_finder *f, PyObject *tensor, lmx_kind kind) {
    lmx_tensor t;
    if (!lmx_describe(f->st, tensor, kind, &t)) return false;
    size_t dims = t.ndim > 0 ? (size_t)t.ndim : 0;
    int64_t *at = lmx_vec_push(f->words, sizeof *at, sizeof(lmx_found) / sizeof *at + dims);
    if (!at) {
        f->nomem = true;
        return true;
    }
    lmx_found found = {t.storage, t.memory, t.object, t.dtype, t.device, t.ndim, f->position, f->name, 0};
    memcpy(at, &found, sizeof found);
    for (size_t i = 0; i < dims; i++) at[sizeof found / sizeof *at + i] = t.sizes[i];
    f->n++;
    return true;
}

static bool find_held(lmx_finder *f, PyObject *value, int depth) {
    Py_INCREF(value); /* describing may run user code, which may drop it */
    bool ok = lmx_find(f, value, depth);
    Py_DECREF(value);
    return ok;
}

static bool in_tuple(lmx_finder *f, PyObject *tuple, int depth) {
    Py_ssize_t n = PyTuple_Size(tuple);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!lmx_find(f, PyTuple_GetItem(tuple, i), depth)) return false;
    return true;
}

static bool in_list(lmx_finder *f, PyObject *list, int depth) {
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        PyObject *item = PyList_GetItem(list, i);
        f->values = f->values || (PyLong_Check(item) && !PyBool_Check(item)); /* Tensor.tolist() */
        if (!find_held(f, item, depth)) return false;
    }
    return true;
}

/* A tensor's values can leave torch without an operator as numbers and arrays of numbers. Single
 * integers are mostly sizes. */
static bool is_value(PyObject *o) {
    if (PyFloat_Check(o) || PyComplex_Check(o)) return true;
    return !(o == Py_None || PyLong_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o) || PyType_Check(o)) &&
           PyObject_HasAttrString(o, "__array_interface__");
}

/* `keyed`: a dict of the user, not of attributes. */
static bool in_dict(lmx_finder *f, PyObject *dict, int depth, bool keyed) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int32_t name = f->name;
    bool ok = true;
    while (ok && PyDict_Next(dict, &at, &key, &value)) {
        if (keyed && f->entry && PyUnicode_Check(key)) f->name = f->entry(f, key);
        ok = find_held(f, value, depth);
        f->name = name;
    }
    return ok;
}

static bool in_object(lmx_finder *f, PyObject *o, int depth) {
    PyObject *dict = lmx_dict_of(o);
    bool ok = !dict || !PyDict_Check(dict) || in_dict(f, dict, depth, false);
    Py_XDECREF(dict);
    return ok;
}

static bool in_fields(lmx_finder *f, PyObject *o, int depth) {
    PyObject *fields = PyObject_GetAttr(o, f->st->n___dataclass_fields__), *key, *unused;
    Py_ssize_t at = 0;
    bool ok = fields || lmx_forgive();
    while (ok && fields && PyDict_Check(fields) && PyDict_Next(fields, &at, &key, &unused)) {
        PyObject *value = PyObject_GetAttr(o, key);
        ok = value ? lmx_find(f, value, depth) : lmx_forgive();
        Py_XDECREF(value);
    }
    Py_XDECREF(fields);
    return ok;
}

static bool inside(lmx_finder *f, PyObject *value, lmx_kind kind, int depth) {
    switch (kind) {
    case LMX_TUPLE: return in_tuple(f, value, depth);
    case LMX_LIST: return in_list(f, value, depth);
    case LMX_DICT: return in_dict(f, value, depth, true);
    case LMX_OBJECT: return in_object(f, value, depth);
    case LMX_FIELDS: return in_fields(f, value, depth);
    default: return true;
    }
}

/* False if the container is already open, or the search ends here. */
static bool may_open(lmx_finder *f, PyObject *container, int depth) {
    for (int i = 0; i < depth; i++)
        if (f->path[i] == container) return false;
    if (depth >= LMX_DEPTH) f->cut = true;
    return depth < LMX_DEPTH;
}

static bool find(lmx_finder *f, PyObject *value, int depth) {
    if (f->budget-- <= 0) {
        f->cut = true;
        return true;
    }
    lmx_kind kind = lmx_kind_of(f->st, value);
    if (kind == LMX_PLAIN || kind == LMX_ODD) return (f->each ? f->each : take)(f, value, kind);
    if (kind == LMX_IGNORE) f->values = f->values || is_value(value);
    if (kind == LMX_IGNORE || !may_open(f, value, depth)) return true;
    f->path[depth] = value;
    return inside(f, value, kind, depth + 1);
}

bool lmx_find(lmx_finder *f, PyObject *value, int depth) {
    bool ok = find(f, value, depth);
    if (depth == 1 && f->numbered) f->position++;
    return ok;
}
