/* SPDX-License-Identifier: Apache-2.0
 * The tree of places under a root, in registration order, parents first. The stack is on the heap,
 * because a tree may be ten thousand deep; a module that is its own ancestor is cut; shared modules have
 * a place under every parent. */
#include "base/ext.h"
#include "modules/tree.h"
#include "observe/open_capture.h"

#include <stdlib.h>

enum { MAX_PLACES = 1000000, MAX_TWINS = 64 };

typedef struct frame {
    PyObject *name, *module; /* strong; name NULL: the place's children are done */
    int32_t parent, node;
} frame;

typedef struct walker {
    lmx_state *st;
    lmx_tree *tree;
    lmi_vec stack;       /* frame */
    int32_t place, node; /* the place and node whose children are being listed */
} walker;

/* The node of a module object, added if it is new; -1 with an exception. */
static int32_t node_of(walker *w, PyObject *module) {
    lmx_tree *t = w->tree;
    int32_t i = lmx_map_get(&t->index, module);
    if (i >= 0) return i;
    i = (int32_t)t->nodes.n;
    lmx_node *node = lmx_map_put(&t->index, module, i) ? lmx_vec_push(&t->nodes, sizeof *node, 1) : NULL;
    if (!node) {
        PyErr_NoMemory();
        return -1;
    }
    Py_INCREF(module);
    PyTypeObject *wrapper = w->st->torch.compiled;
    bool compiled = wrapper && PyType_IsSubtype(Py_TYPE(module), wrapper);
    *node = (lmx_node){.object = module, .parent_seen = -1, .inner = -1, .compiled = compiled};
    return i;
}

static bool push_frame(walker *w, PyObject *name, PyObject *module, int32_t node) {
    frame *f = lmx_vec_push(&w->stack, sizeof *f, 1);
    if (!f) return lmx_nomem();
    Py_XINCREF(name);
    Py_XINCREF(module);
    *f = (frame){name, module, w->place, node};
    return true;
}

static bool push_twin(walker *w, PyObject *name, int32_t node) {
    if (w->tree->twins.n >= MAX_TWINS) return true;
    lmx_twin *twin = lmx_vec_push(&w->tree->twins, sizeof *twin, 1);
    if (!twin) return lmx_nomem();
    Py_INCREF(name);
    *twin = (lmx_twin){w->place, node, name};
    return true;
}

/* Notes what a child of this name means for its parent. */
static void mark(walker *w, lmx_node *parent, PyObject *name, int32_t child) {
    if (PyUnicode_Compare(name, w->st->n_parametrizations) == 0) parent->parametrized = true;
    if (parent->compiled && PyUnicode_Compare(name, w->st->n__orig_mod) == 0) parent->inner = child;
}

static bool see_child(void *self, PyObject *name, PyObject *module) {
    walker *w = self;
    if (!PyUnicode_Check(name) || !PyType_IsSubtype(Py_TYPE(module), w->st->torch.module)) return true;
    int32_t i = node_of(w, module);
    if (i < 0) return false;
    lmx_node *node = lmx_node_at(w->tree, i), *parent = lmx_node_at(w->tree, w->node);
    if (node->parent_seen == w->place) return push_twin(w, name, i);
    node->parent_seen = w->place;
    parent->n_children++;
    mark(w, parent, name, i);
    return node->on_path || push_frame(w, name, module, i);
}

static void reverse(frame *f, size_t n) {
    for (size_t i = 0; i < n / 2; i++) {
        frame swap = f[i];
        f[i] = f[n - 1 - i];
        f[n - 1 - i] = swap;
    }
}

/* Pushes the children so that the first comes off the stack first, and under them the end of this place. */
static bool push_children(walker *w, PyObject *children) {
    size_t before = w->stack.n;
    lmx_node_at(w->tree, w->node)->on_path = true;
    lmx_node_at(w->tree, w->node)->n_children = 0;
    bool ok = push_frame(w, NULL, NULL, w->node) && lmx_each(w->st, children, see_child, w);
    if (w->stack.n > before) reverse((frame *)w->stack.data + before + 1, w->stack.n - before - 1);
    return ok;
}

static bool list_children(walker *w, PyObject *module) {
    PyObject *dict = lmx_dict_of(module);
    PyObject *children = lmx_registered(w->st, module, dict, w->st->n__modules);
    PyObject *compiled = lmx_get(dict, w->st->n__compiled_call_impl); /* by Module.compile() */
    if (compiled && compiled != Py_None) lmx_node_at(w->tree, w->node)->opaque = true;
    bool any = children && !(PyDict_Check(children) && PyDict_Size(children) == 0);
    bool ok = !any || push_children(w, children);
    Py_XDECREF(children);
    Py_XDECREF(dict);
    return ok;
}

static bool add_place(walker *w, frame *f) {
    lmx_tree *t = w->tree;
    if (t->places.n >= MAX_PLACES) {
        lmx_fail(w->st, LAM_LIMIT, NULL,
                 "the tree has more than %d places; modules that share children multiply them", MAX_PLACES);
        return false;
    }
    lmx_place *place = lmx_vec_push(&t->places, sizeof *place, 1);
    if (!place) return lmx_nomem();
    Py_INCREF(f->name);
    *place = (lmx_place){f->parent, f->node, f->name};
    w->place = (int32_t)t->places.n - 1;
    w->node = f->node;
    return true;
}

/* Takes one frame off the stack. False with an exception. */
static bool step(walker *w) {
    frame f = ((frame *)w->stack.data)[--w->stack.n];
    if (!f.name) {
        lmx_node_at(w->tree, f.node)->on_path = false;
        return true;
    }
    bool ok = add_place(w, &f) && list_children(w, f.module);
    Py_DECREF(f.name);
    Py_DECREF(f.module);
    return ok;
}

static bool walk(walker *w, PyObject *root) {
    PyObject *name = PyUnicode_FromString("");
    int32_t node = name ? node_of(w, root) : -1;
    w->place = -1;
    bool ok = node >= 0 && push_frame(w, name, root, node);
    Py_XDECREF(name);
    while (ok && w->stack.n) {
        ok = step(w);
        if (w->tree->places.n % 65536 == 0 && PyErr_CheckSignals() < 0) ok = false;
    }
    for (size_t i = 0; i < w->stack.n; i++) {
        Py_XDECREF(((frame *)w->stack.data)[i].name);
        Py_XDECREF(((frame *)w->stack.data)[i].module);
    }
    lmi_vec_free(&w->stack);
    return ok;
}

bool lmx_walk(lmx_state *st, lmx_tree *tree, PyObject *root) {
    if (!PyType_IsSubtype(Py_TYPE(root), st->torch.module)) {
        PyObject *name = PyObject_GetAttr((PyObject *)Py_TYPE(root), st->n___name__);
        if (name) lmx_fail(st, LAM_USAGE, NULL, "expected a torch.nn.Module, not %.80s", lmx_utf8(name));
        Py_XDECREF(name);
        return false;
    }
    walker w = {.st = st, .tree = tree};
    return walk(&w, root);
}

static bool copy_vec(lmi_vec *to, const lmi_vec *from, size_t size) {
    void *at = from->n ? lmx_vec_push(to, size, from->n) : NULL;
    if (at) memcpy(at, from->data, from->n * size);
    return at || !from->n;
}

bool lmx_tree_copy(lmx_tree *to, const lmx_tree *from) {
    lmx_tree copy = {0};
    if (!copy_vec(&copy.nodes, &from->nodes, sizeof(lmx_node)) ||
        !copy_vec(&copy.places, &from->places, sizeof(lmx_place)) ||
        !copy_vec(&copy.twins, &from->twins, sizeof(lmx_twin)) ||
        lmi_map_copy(&copy.index, &from->index, NULL) != LAM_OK) {
        lmi_vec_free(&copy.nodes);
        lmi_vec_free(&copy.places);
        lmi_vec_free(&copy.twins);
        return lmx_nomem();
    }
    for (size_t i = 0; i < copy.places.n; i++) Py_INCREF(lmx_place_at(&copy, (int32_t)i)->name);
    for (size_t i = 0; i < copy.twins.n; i++) Py_INCREF(((lmx_twin *)copy.twins.data)[i].name);
    for (size_t i = 0; i < copy.nodes.n; i++) Py_INCREF(lmx_node_at(&copy, (int32_t)i)->object);
    *to = copy;
    return true;
}

int lmx_tree_visit(lmx_tree *tree, visitproc visit, void *arg) {
    for (size_t i = 0; i < tree->nodes.n; i++) Py_VISIT(lmx_node_at(tree, (int32_t)i)->object);
    return 0;
}

void lmx_tree_free(lmx_tree *tree) {
    lmx_tree old = *tree;
    *tree = (lmx_tree){0}; /* dropping a module may run code that reads this tree */
    for (size_t i = 0; i < old.places.n; i++) Py_DECREF(lmx_place_at(&old, (int32_t)i)->name);
    for (size_t i = 0; i < old.twins.n; i++) Py_DECREF(((lmx_twin *)old.twins.data)[i].name);
    for (size_t i = 0; i < old.nodes.n; i++) Py_DECREF(lmx_node_at(&old, (int32_t)i)->object);
    lmi_vec_free(&old.nodes);
    lmi_vec_free(&old.places);
    lmi_vec_free(&old.twins);
    lmi_map_free(&old.index);
}

static bool join(PyObject *parts, PyObject **path) {
    PyObject *dot = PyList_Reverse(parts) == 0 ? PyUnicode_FromString(".") : NULL;
    *path = dot ? PyUnicode_Join(dot, parts) : NULL;
    Py_XDECREF(dot);
    return *path != NULL;
}

PyObject *lmx_path(const lmx_tree *tree, int32_t parent, PyObject *name) {
    PyObject *parts = PyList_New(0), *path = NULL;
    bool ok = parts && (!name || PyList_Append(parts, name) == 0);
    for (int32_t p = parent; ok && p > 0; p = lmx_place_at(tree, p)->parent)
        ok = PyList_Append(parts, lmx_place_at(tree, p)->name) == 0;
    if (ok) join(parts, &path);
    Py_XDECREF(parts);
    return path;
}

bool lmx_each_owned(lmx_state *st, const lmx_tree *tree, PyObject *kind,
                    bool (*each)(void *self, PyObject *name, PyObject *tensor), void *self) {
    bool ok = true;
    for (size_t i = 0; ok && i < tree->nodes.n; i++) {
        PyObject *module = lmx_node_at(tree, (int32_t)i)->object, *dict = lmx_dict_of(module);
        PyObject *owned = lmx_registered(st, module, dict, kind);
        ok = lmx_each(st, owned, each, self);
        Py_XDECREF(owned);
        Py_XDECREF(dict);
    }
    return ok;
}
