/* SPDX-License-Identifier: Apache-2.0
 * A growable array, a map from addresses, a sink that keeps text, and lookups that never raise. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

lmx_state *lmx_state_of(PyObject *module) { return PyModule_GetState(module); }

/* Small ones grow faster: moving them costs more than what they leave unused. */
void *lmx_vec_grow(lmx_vec *v, size_t size, size_t more) {
    enum { SMALL = 16 << 10 };
    if (more > SIZE_MAX / 4 / size - v->n) return NULL;
    size_t need = v->n + more;
    if (need > v->cap || !v->data) {
        size_t cap = v->cap ? v->cap * (v->cap * size < SMALL ? 4 : 2) : 16;
        if (cap < need) cap = need;
        void *data = realloc(v->data, cap * size);
        if (!data) return NULL;
        v->data = data;
        v->cap = cap;
    }
    void *at = (char *)v->data + v->n * size;
    v->n = need;
    return at;
}

void lmx_vec_free(lmx_vec *v) {
    free(v->data);
    *v = (lmx_vec){0};
}

static size_t slot_of(const lmx_map *m, const void *key) {
    size_t at = (size_t)(((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15ull >> 20) & m->mask;
    while (m->keys[at] && m->keys[at] != key) at = (at + 1) & m->mask;
    return at;
}

int32_t lmx_map_get(const lmx_map *m, const void *key) {
    if (!m->keys) return -1;
    size_t at = slot_of(m, key);
    return m->keys[at] ? m->values[at] : -1;
}

static bool rehash(lmx_map *m, size_t cap) {
    lmx_map wide = {calloc(cap, sizeof *wide.keys), malloc(cap * sizeof *wide.values), m->n, cap - 1};
    if (!wide.keys || !wide.values) {
        lmx_map_free(&wide);
        return false;
    }
    for (size_t i = 0; m->keys && i <= m->mask; i++) {
        if (!m->keys[i]) continue;
        size_t at = slot_of(&wide, m->keys[i]);
        wide.keys[at] = m->keys[i];
        wide.values[at] = m->values[i];
    }
    lmx_map_free(m);
    *m = wide;
    return true;
}

bool lmx_map_put(lmx_map *m, const void *key, int32_t value) {
    if ((!m->keys || m->n * 2 > m->mask) && !rehash(m, m->keys ? (m->mask + 1) * 2 : 64)) return false;
    size_t at = slot_of(m, key);
    if (!m->keys[at]) m->n++;
    m->keys[at] = key;
    m->values[at] = value;
    return true;
}

bool lmx_map_copy(lmx_map *to, const lmx_map *from) {
    const size_t cap = from->keys ? from->mask + 1 : 0;
    lmx_map copy = *from;
    if (!cap) {
        *to = copy;
        return true;
    }
    copy.keys = malloc(cap * sizeof *copy.keys);
    copy.values = malloc(cap * sizeof *copy.values);
    if (!copy.keys || !copy.values) {
        lmx_map_free(&copy);
        return false;
    }
    memcpy((void *)copy.keys, (const void *)from->keys, cap * sizeof *copy.keys);
    memcpy(copy.values, from->values, cap * sizeof *copy.values);
    *to = copy;
    return true;
}

void lmx_map_free(lmx_map *m) {
    free((void *)m->keys);
    free(m->values);
    *m = (lmx_map){0};
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

PyObject *lmx_text_take(lmx_text *t) {
    const char *bytes = t->bytes.data ? t->bytes.data : "";
    PyObject *s = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)t->bytes.n, "replace");
    lmx_vec_free(&t->bytes);
    return s;
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

/* A capture takes and gives back a megabyte or two. glibc returns memory of that size to the system at once,
 * and having it mapped and zeroed again costs more than all that a small model's report computes; it keeps
 * memory once a larger block has been freed (mallopt(3), M_MMAP_THRESHOLD). This block is never touched, so
 * it takes no memory. */
void lmx_keep_memory(void) {
    void *volatile block = malloc((size_t)8 << 20);
    free(block);
}

/* What `each` runs may take them out of the dict. */
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
    /* An OrderedDict may have another order than the dict below it, and a scripted module's are no dicts
     * at all. */
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
