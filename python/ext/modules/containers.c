/* SPDX-License-Identifier: Apache-2.0
 * Dicts, lists and sets, remembered by reference and restored where they differ. The order of a dict counts:
 * it is the order of a model's layers. lmx_problem reports what can't be restored. */
#include "base/ext.h"
#include "modules/snapshot.h"
#include "modules/tree.h"

/* == remembering ======================================================================================= */

static bool keep_one(lmx_snapshot *s, PyObject *o) {
    PyObject **at = lmx_vec_push(&s->refs, sizeof *at, 1);
    if (!at) return lmx_nomem();
    Py_INCREF(o);
    *at = o;
    return true;
}

static bool keep_item(void *self, PyObject *key, PyObject *value) {
    return keep_one(self, key) && keep_one(self, value);
}

/* Keeps a plain dict's items at once: every module has such a dict, and this takes most of the time. */
static bool keep_dict(lmx_snapshot *s, PyObject *dict) {
    if (!PyDict_CheckExact(dict)) return lmx_each(s->st, dict, keep_item, s);
    size_t n = 2 * (size_t)PyDict_Size(dict);
    PyObject **to = lmx_vec_push(&s->refs, sizeof *to, n), *key, *value;
    if (!to) return lmx_nomem();
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); to += 2) {
        Py_INCREF(key);
        Py_INCREF(value);
        to[0] = key;
        to[1] = value;
    }
    return true;
}

static bool keep_list(lmx_snapshot *s, PyObject *list) {
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++)
        if (!keep_one(s, PyList_GetItem(list, i))) return false;
    return true;
}

static bool keep_set(lmx_snapshot *s, PyObject *set) {
    PyObject *iterator = PyObject_GetIter(set), *item;
    bool ok = iterator != NULL;
    while (ok && (item = PyIter_Next(iterator))) {
        ok = keep_one(s, item);
        Py_DECREF(item);
    }
    Py_XDECREF(iterator);
    return ok && !PyErr_Occurred();
}

Py_ssize_t lmx_container_size(PyObject *o, lmx_container_type type) {
    return type == LMX_BOX_DICT ? PyDict_Size(o) : type == LMX_BOX_LIST ? PyList_Size(o) : PySet_Size(o);
}

lmx_container_type lmx_container_type_of(PyObject *o) {
    if (lmx_is_settled(o)) return LMX_BOX_NONE;
    const unsigned long flags = PyType_GetFlags(Py_TYPE(o));
    if (flags & Py_TPFLAGS_DICT_SUBCLASS) return LMX_BOX_DICT;
    if (flags & Py_TPFLAGS_LIST_SUBCLASS) return LMX_BOX_LIST;
    return !(flags & Py_TPFLAGS_TUPLE_SUBCLASS) && PySet_Check(o) ? LMX_BOX_SET : LMX_BOX_NONE;
}

bool lmx_container_keep(lmx_snapshot *s, int32_t node, PyObject *object, lmx_container_type type) {
    lmx_container *box = lmx_vec_push(&s->boxes, sizeof *box, 1);
    if (!box) return lmx_nomem();
    size_t at = s->refs.n, place = s->boxes.n - 1;
    Py_INCREF(object);
    *box = (lmx_container){object, (uint32_t)at, 0, node, type};
    if (!lmx_container_size(object, type)) return true;
    bool ok = type == LMX_BOX_DICT   ? keep_dict(s, object)
              : type == LMX_BOX_LIST ? keep_list(s, object)
                                     : keep_set(s, object);
    size_t n = s->refs.n - at;
    if (s->refs.n > UINT32_MAX) return lmx_nomem();
    ((lmx_container *)s->boxes.data)[place].n = (uint32_t)(type == LMX_BOX_DICT ? n / 2 : n);
    return ok;
}

/* == comparing ========================================================================================= */

typedef struct cursor {
    PyObject **at, **end;
    bool same;
} cursor;

static bool same_item(void *self, PyObject *key, PyObject *value) {
    cursor *c = self;
    c->same = c->same && c->at < c->end && c->at[0] == key && lmx_ref(c->at[1]) == value;
    if (c->same) c->at += 2;
    return c->same; /* stops at the first difference */
}

static bool dict_is_same(lmx_snapshot *s, PyObject *dict, PyObject **refs, size_t n) {
    cursor c = {refs, refs + 2 * n, true};
    if ((size_t)PyDict_Size(dict) != n) return false;
    if (PyDict_CheckExact(dict)) {
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); c.at += 2)
            if (c.at[0] != key || lmx_ref(c.at[1]) != value) return false;
        return true;
    }
    bool whole = lmx_each(s->st, dict, same_item, &c);
    return whole && c.same && c.at == c.end;
}

static bool list_is_same(PyObject *list, PyObject **refs, size_t n) {
    bool same = (size_t)PyList_Size(list) == n;
    for (size_t i = 0; same && i < n; i++) same = PyList_GetItem(list, (Py_ssize_t)i) == refs[i];
    return same;
}

static bool set_is_same(PyObject *set, PyObject **refs, size_t n) {
    bool same = (size_t)PySet_Size(set) == n;
    for (size_t i = 0; same && i < n; i++) same = PySet_Contains(set, refs[i]) > 0;
    return same;
}

/* == restoring ========================================================================================= */

bool lmx_problem(lmx_snapshot *s, int32_t node, PyObject *name, const char *what) {
    if (!lmx_forgive()) return false;
    const lmx_tree *tree = &s->tree;
    int32_t place = 0;
    while ((size_t)place < tree->places.n && lmx_place_at(tree, place)->node != node) place++;
    PyObject *path = node < 0 ? (Py_INCREF(name), name) : lmx_path(tree, place, name);
    PyObject *text = path ? PyUnicode_FromFormat("%U %s", path, what) : NULL;
    bool ok = text && PyList_Append(s->problems, text) == 0;
    Py_XDECREF(path);
    Py_XDECREF(text);
    return ok;
}

/* Holds the present items until the dict is complete again: dropping one may run code that reads it. */
static bool refill_dict(lmx_snapshot *s, PyObject *dict, PyObject **refs, size_t n) {
    PyObject *now = PyDict_Copy(dict), *done = NULL;
    bool ok = now != NULL;
    if (ok && PyDict_CheckExact(dict)) {
        PyDict_Clear(dict);
    } else if (ok) {
        done = PyObject_CallMethodObjArgs(dict, s->st->n_clear, NULL);
        ok = done != NULL;
    }
    bool exact = PyDict_CheckExact(dict);
    for (size_t i = 0; ok && i < n; i++) {
        PyObject *key = refs[2 * i], *value = lmx_ref(refs[2 * i + 1]);
        ok = (exact ? PyDict_SetItem(dict, key, value) : PyObject_SetItem(dict, key, value)) == 0;
    }
    Py_XDECREF(done);
    Py_XDECREF(now);
    return ok;
}

static bool refill_list(PyObject *list, PyObject **refs, size_t n) {
    PyObject *was = PyList_New((Py_ssize_t)n);
    bool ok = was != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        Py_INCREF(refs[i]);
        ok = PyList_SetItem(was, (Py_ssize_t)i, refs[i]) == 0;
    }
    ok = ok && PyList_SetSlice(list, 0, PyList_Size(list), was) == 0;
    Py_XDECREF(was);
    return ok;
}

static bool refill_set(PyObject *set, PyObject **refs, size_t n) {
    PyObject *now = PyList_New(0);
    bool ok = now && PyList_SetSlice(now, 0, 0, set) == 0 && PySet_Clear(set) == 0;
    for (size_t i = 0; ok && i < n; i++) ok = PySet_Add(set, refs[i]) == 0;
    Py_XDECREF(now);
    return ok;
}

static bool is_same(lmx_snapshot *s, PyObject *o, lmx_container_type type, PyObject **refs, size_t n) {
    if (type == LMX_BOX_DICT) return dict_is_same(s, o, refs, n);
    return type == LMX_BOX_LIST ? list_is_same(o, refs, n) : set_is_same(o, refs, n);
}

static bool is_empty(PyObject *o) { return !lmx_container_size(o, lmx_container_type_of(o)); }

bool lmx_container_is_same(lmx_snapshot *s, const lmx_container *box) {
    PyObject **refs = (PyObject **)s->refs.data + box->at;
    if (!is_same(s, box->object, box->type, refs, box->n)) return false;
    for (uint32_t i = 0; box->type == LMX_BOX_DICT && i < box->n; i++)
        if (lmx_is_empty_box(refs[2 * i + 1]) && !is_empty(lmx_ref(refs[2 * i + 1]))) return false;
    return true;
}

/* False with an exception. */
static bool refill(lmx_snapshot *s, PyObject *o, lmx_container_type type, PyObject **refs, size_t n) {
    if (is_same(s, o, type, refs, n)) return true;
    if (PyErr_Occurred()) return false;
    if (type == LMX_BOX_DICT) return refill_dict(s, o, refs, n);
    return type == LMX_BOX_LIST ? refill_list(o, refs, n) : refill_set(o, refs, n);
}

static bool empty_again(lmx_snapshot *s, PyObject *o) {
    return is_empty(o) || refill(s, o, lmx_container_type_of(o), NULL, 0);
}

bool lmx_container_restore(lmx_snapshot *s, const lmx_container *box) {
    PyObject **refs = (PyObject **)s->refs.data + box->at;
    bool ok = refill(s, box->object, box->type, refs, box->n);
    for (uint32_t i = 0; box->type == LMX_BOX_DICT && i < box->n; i++)
        if (lmx_is_empty_box(refs[2 * i + 1])) ok = empty_again(s, lmx_ref(refs[2 * i + 1])) && ok;
    return ok || lmx_problem(s, box->node, s->st->n___dict__, "held a container that could not be restored");
}
