/* SPDX-License-Identifier: Apache-2.0
 * A sink that keeps text, and lookups that never raise. */
#include "base/ext.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

lmx_state *lmx_state_of(PyObject *module) { return PyModule_GetState(module); }

lmx_state *lmx_state_of_type(PyTypeObject *type) {
    lmx_state *st = NULL;
    for (; type && !(st = PyType_GetModuleState(type)); type = PyType_GetSlot(type, Py_tp_base))
        PyErr_Clear();
    return st;
}

lmx_vectorcall_of lmx_vectorcall;

bool lmx_find_vectorcall(void) {
    void *at = dlsym(RTLD_DEFAULT, "PyObject_Vectorcall");
    memcpy(&lmx_vectorcall, &at, sizeof at); /* ISO C has no conversion */
    if (!at) PyErr_SetString(PyExc_ImportError, "lamina needs CPython 3.11 or later: no PyObject_Vectorcall");
    return at;
}

static lam_status keep(void *to, const char *bytes, size_t n) {
    lmx_text *t = to;
    if (!n) return LAM_OK;
    char *at = lmx_vec_push(&t->bytes, 1, n);
    if (!at) return LAM_NOMEM;
    memcpy(at, bytes, n);
    return LAM_OK;
}

lam_sink lmx_text_sink(lmx_text *t) { return (lam_sink){keep, t}; }

PyObject *lmx_text_end(lmx_text *t, lmx_state *st, lam_status s, const lam_error *e) {
    const char *bytes = t->bytes.data ? t->bytes.data : "";
    PyObject *text =
        s == LAM_OK ? PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)t->bytes.n, "replace") : lmx_raise(st, e);
    lmi_vec_free(&t->bytes);
    return text;
}

bool lmx_nomem(void) {
    PyErr_NoMemory();
    return false;
}

bool lmx_must_raise(void) {
    if (!PyErr_Occurred()) return false;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return true;
    PyErr_Clear();
    return false;
}

bool lmx_forgive(void) {
    bool nomem = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError);
    return !nomem && !lmx_must_raise();
}

size_t lmx_instance_size(PyTypeObject *type) {
    PyObject *size = PyObject_GetAttrString((PyObject *)type, "__basicsize__");
    const size_t n = size ? PyLong_AsSize_t(size) : 0;
    Py_XDECREF(size);
    return PyErr_Occurred() ? 0 : n;
}

void lmx_keep_first(PyObject *raised[3], bool ok) {
    if (ok) return;
    if (raised[0])
        PyErr_Clear();
    else
        PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
}

const char *lmx_utf8(PyObject *text) {
    const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (!s) PyErr_Clear();
    return s ? s : "?";
}

LMX_OFTEN PyObject *lmx_dict_of(PyObject *o) {
    PyObject *dict = PyObject_GenericGetDict(o, NULL);
    if (!dict) PyErr_Clear();
    return dict;
}

LMX_OFTEN PyObject *lmx_get(PyObject *dict, PyObject *key) {
    if (!dict || !PyDict_Check(dict)) return NULL;
    PyObject *value = PyDict_GetItemWithError(dict, key);
    if (!value) PyErr_Clear();
    return value;
}

PyObject *lmx_registered(lmx_state *st, PyObject *module, PyObject *dict, PyObject *key) {
    PyObject *value = lmx_get(dict, key);
    Py_XINCREF(value);
    if (value || !st->torch.script || !PyType_IsSubtype(Py_TYPE(module), st->torch.script)) return value;
    value = PyObject_GetAttr(module, key);
    if (!value) PyErr_Clear();
    return value;
}

/* A capture allocates and frees a megabyte or two. glibc returns memory of that size to the system at once,
 * and to map and zero it again costs more than all that a small model's report computes; glibc keeps memory
 * once a larger block has been freed (mallopt(3), M_MMAP_THRESHOLD). This block is never touched, so it
 * takes no memory. */
void lmx_keep_memory(void) {
    void *volatile block = malloc((size_t)8 << 20);
    free(block);
}

/* Holds each entry, since `each` may run code that removes it from the dict. */
static bool each_item(PyObject *dict, bool (*each)(void *, PyObject *, PyObject *), void *self) {
    PyObject *key, *value;
    bool ok = true;
    Py_INCREF(dict);
    for (Py_ssize_t at = 0; ok && PyDict_Next(dict, &at, &key, &value);) {
        Py_INCREF(key);
        Py_INCREF(value);
        ok = each(self, key, value);
        Py_DECREF(key);
        Py_DECREF(value);
    }
    Py_DECREF(dict);
    return ok;
}

bool lmx_each(lmx_state *st, PyObject *mapping, bool (*each)(void *, PyObject *, PyObject *), void *self) {
    if (!mapping || mapping == Py_None || (PyDict_Check(mapping) && PyDict_Size(mapping) == 0)) return true;
    PyObject *key, *value;
    bool ok = true;
    if (PyDict_CheckExact(mapping)) return each_item(mapping, each, self);
    /* An OrderedDict may have another order than its base dict, and a scripted module's mappings are no
     * dicts. */
    PyObject *items = PyObject_CallMethodObjArgs(mapping, st->n_items, NULL);
    PyObject *iterator = items ? PyObject_GetIter(items) : NULL, *pair;
    ok = iterator != NULL;
    while (ok && (pair = PyIter_Next(iterator))) {
        ok = PyArg_ParseTuple(pair, "OO", &key, &value) && each(self, key, value);
        Py_DECREF(pair);
    }
    Py_XDECREF(items);
    Py_XDECREF(iterator);
    return ok && !PyErr_Occurred();
}
