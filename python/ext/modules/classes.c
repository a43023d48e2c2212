/* SPDX-License-Identifier: Apache-2.0
 * The properties that all modules of one class share: its names, lamina's word for it, and the attributes
 * which that word wants. */
#include "modules/classes.h"
#include "base/ext.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 1024 }; /* the most classes that are kept; then all are dropped */

static bool is_torch_nn(lmx_state *st, PyObject *type) {
    PyObject *module = PyObject_GetAttr(type, st->n___module__);
    const char *name = module ? lmx_utf8(module) : "";
    bool yes = strncmp(name, "torch.nn", 8) == 0 && (name[8] == '.' || !name[8]);
    Py_XDECREF(module);
    return yes;
}

/* "timm.layers.attention.Attention"; NULL with an error. */
static PyObject *path_of(lmx_state *st, PyObject *type) {
    PyObject *module = PyObject_GetAttr(type, st->n___module__);
    PyObject *qualified = module ? PyObject_GetAttr(type, st->n___qualname__) : NULL;
    PyObject *path = qualified ? PyUnicode_FromFormat("%S.%U", module, qualified) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(qualified);
    return path;
}

/* Classes of torch.nn are known by their name, others by their whole path. */
static int32_t word_of(lmx_state *st, PyObject *type) {
    bool own = is_torch_nn(st, type);
    PyObject *name = own ? PyObject_GetAttr(type, st->n___name__) : path_of(st, type);
    int32_t word = name ? lam_word_module(lmx_utf8(name)) : -1;
    Py_XDECREF(name);
    return word;
}

/* Finds the first class among the bases that lamina has a word for. */
static bool find_word(lmx_state *st, lmx_class *k, PyObject *mro) {
    Py_ssize_t n = PyTuple_Check(mro) ? PyTuple_Size(mro) : 0;
    k->word = -1;
    for (Py_ssize_t i = 0; i < n && k->word < 0; i++) {
        PyObject *base = PyTuple_GetItem(mro, i);
        k->word = word_of(st, base);
        if (PyErr_Occurred()) break;
        if (k->word < 0) continue;
        Py_INCREF(base);
        k->word_type = base;
        if (i == 0) k->flags |= LAM_MODULE_EXACT;
    }
    return lmx_forgive();
}

static bool list_attrs(lmx_class *k) {
    const char *name;
    for (int32_t i = 0; i < LMX_MAX_ATTRS && (name = lam_word_attr(k->word, i)); i++) {
        k->attrs[i] = PyUnicode_InternFromString(name);
        if (!k->attrs[i]) return false;
        k->n_attrs = i + 1;
    }
    return true;
}

static bool name_class(lmx_state *st, lmx_class *k, PyObject *type) {
    k->name = PyObject_GetAttr(type, st->n___name__);
    if (k->name) k->path = path_of(st, type);
    return lmx_forgive();
}

static bool look_at(lmx_state *st, lmx_class *k, PyTypeObject *type, PyObject *mro) {
    PyTypeObject *script = st->torch.script, *wrapper = st->torch.compiled;
    k->script = script && PyType_IsSubtype(type, script);
    if (!name_class(st, k, (PyObject *)type)) return false;
    k->packs = strncmp(lmx_utf8(k->path), "torch.", 6) == 0 && strstr(lmx_utf8(k->path), "quantized");
    if (wrapper && PyType_IsSubtype(type, wrapper)) {
        k->word = lam_word_module("Container"); /* it only calls the module that it wraps */
        return true;
    }
    return find_word(st, k, mro) && list_attrs(k);
}

bool lmx_class_flags(lmx_state *st, const lmx_class *k, PyTypeObject *type, uint32_t *flags) {
    *flags = k->flags;
    if (!k->word_type || k->word_type == (PyObject *)type) return true;
    PyObject *forward = PyObject_GetAttr((PyObject *)type, st->n_forward);
    if (!lmx_forgive()) return false;
    PyObject *of_word = PyObject_GetAttr(k->word_type, st->n_forward);
    if (of_word && forward != of_word) *flags |= LAM_MODULE_OWN_FORWARD;
    Py_XDECREF(forward);
    Py_XDECREF(of_word);
    return lmx_forgive();
}

static void free_class(lmx_class *k) {
    Py_XDECREF(k->type);
    Py_XDECREF(k->name);
    Py_XDECREF(k->path);
    Py_XDECREF(k->word_type);
    for (int32_t a = 0; a < k->n_attrs; a++) Py_DECREF(k->attrs[a]);
    free(k);
}

void lmx_classes_clear(lmx_classes *c) {
    lmi_vec all = c->all;
    c->all = (lmi_vec){0};
    lmi_map_free(&c->by_type);
    c->by_type = (lmi_map){0};
    for (size_t i = 0; i < all.n; i++) free_class(((lmx_class **)all.data)[i]);
    lmi_vec_free(&all);
}

void lmx_classes_ask(lmx_classes *c) {
    if (!c->asked++ && c->all.n >= MANY) lmx_classes_clear(c);
}

/* False if another class has this address now, or if the class was given other bases or another name. */
static bool is_still(lmx_state *st, const lmx_class *k, PyTypeObject *type, const PyObject *mro) {
    if (PyWeakref_GetObject(k->type) != (PyObject *)type || k->bases != mro) return false;
    PyObject *name = PyObject_GetAttr((PyObject *)type, st->n___name__);
    bool same = name == k->name;
    Py_XDECREF(name);
    PyErr_Clear();
    return same;
}

/* Adds a class. Earlier ones keep their address, since a description may use them. */
static lmx_class *add_class(lmx_state *st, PyTypeObject *type, PyObject *mro) {
    lmx_classes *c = st->classes;
    lmx_class *k = calloc(1, sizeof *k), **at = k ? lmx_vec_push(&c->all, sizeof *at, 1) : NULL;
    if (!at) {
        free(k);
        PyErr_NoMemory();
        return NULL;
    }
    *at = k;
    int32_t index = (int32_t)c->all.n - 1;
    k->bases = mro;
    k->type = PyWeakref_NewRef((PyObject *)type, NULL);
    if (!k->type || !look_at(st, k, type, mro)) return NULL;
    if (!lmx_map_put(&c->by_type, type, index)) {
        PyErr_NoMemory();
        return NULL;
    }
    return k;
}

const lmx_class *lmx_class_of(lmx_state *st, PyTypeObject *type) {
    lmx_classes *c = st->classes;
    PyObject *mro = PyObject_GetAttr((PyObject *)type, st->n___mro__);
    if (!mro) return NULL;
    int32_t i = lmx_map_get(&c->by_type, type);
    const lmx_class *k = i >= 0 ? ((lmx_class **)c->all.data)[i] : NULL;
    if (!k || !is_still(st, k, type, mro)) k = add_class(st, type, mro);
    Py_DECREF(mro);
    return k;
}
