/* SPDX-License-Identifier: Apache-2.0
 * Layers that a run added to the model: they had no place when the capture opened, so they have no row. */
#include "base/ext.h"
#include "modules/tree.h"

enum { MOST_NAMED = 3 };

/* True if a call of the capture called a module without a place. */
static bool called_strangers(const lmx_capture *c) {
    const lmx_call *calls = c->noted.calls.data;
    for (size_t i = 0; i < c->noted.calls.n; i++)
        if (calls[i].flags & LAM_CALL_STRANGERS) return true;
    return false;
}

/* True for a module that the capture does not know, in one that it knows. */
static bool is_added(const lmx_capture *c, const lmx_tree *now, const lmx_place *p) {
    if (p->parent < 0 || lmx_map_get(&c->tree.index, lmx_node_at(now, p->node)->object) >= 0) return false;
    const lmx_place *parent = lmx_place_at(now, p->parent);
    return lmx_map_get(&c->tree.index, lmx_node_at(now, parent->node)->object) >= 0;
}

static bool add_name(const lmx_tree *now, const lmx_place *p, PyObject *names) {
    PyObject *path = lmx_path(now, p->parent, p->name);
    PyObject *type =
        PyObject_GetAttrString((PyObject *)Py_TYPE(lmx_node_at(now, p->node)->object), "__name__");
    PyObject *text = path && type ? PyUnicode_FromFormat("%U (%S)", path, type) : NULL;
    bool ok = text && PyList_Append(names, text) == 0;
    Py_XDECREF(path);
    Py_XDECREF(type);
    Py_XDECREF(text);
    return ok;
}

static PyObject *sentence(PyObject *names, Py_ssize_t n) {
    PyObject *comma = PyUnicode_FromString(", "), *list = comma ? PyUnicode_Join(comma, names) : NULL;
    PyObject *more =
        n > MOST_NAMED ? PyUnicode_FromFormat(" and %zd more", n - MOST_NAMED) : PyUnicode_FromString("");
    PyObject *text = NULL;
    if (list && more)
        text = PyUnicode_FromFormat("layers that the run added to the model have no row: %U%U; their work "
                                    "counts where they were called, their parameters do not; call the model "
                                    "once before",
                                    list, more);
    Py_XDECREF(comma);
    Py_XDECREF(list);
    Py_XDECREF(more);
    return text;
}

PyObject *lmx_added_layers(lmx_capture *c) {
    lmx_tree now = {0};
    if (!called_strangers(c)) return NULL;
    PyObject *names = lmx_walk(c->st, &now, c->root) ? PyList_New(0) : NULL, *text = NULL;
    Py_ssize_t n = 0;
    bool ok = names != NULL;
    for (size_t i = 0; ok && i < now.places.n; i++) {
        const lmx_place *p = lmx_place_at(&now, (int32_t)i);
        if (is_added(c, &now, p) && n++ < MOST_NAMED) ok = add_name(&now, p, names);
    }
    if (ok && n) text = sentence(names, n);
    Py_XDECREF(names);
    lmx_tree_free(&now);
    return text;
}
