/* SPDX-License-Identifier: Apache-2.0
 * A snapshot of what a run is given: tensors of its arguments, whose values are copied only before a write,
 * and tensors of the model with a graph that is not the run's. */
#include "base/ext.h"
#include "modules/snapshot.h"
#include "modules/tree.h"
#include "native/layout.h"
#include "torch/tensor.h"

static lmx_snapshot *self_of(PyObject *self) { return (lmx_snapshot *)self; }

/* == arguments ========================================================================================= */

static void identify(lmx_snapshot *s, lmx_kept *k) {
    const lmx_torch *t = &s->st->torch;
    k->memory = lmx_memory_here(s->st, k->tensor, lmx_kind_of(s->st, k->tensor));
    k->object = t->offset >= 0 ? lmx_word_at((const char *)k->tensor + t->offset, 0) : 0;
}

PyObject *lmx_given_keep(PyObject *self, PyObject *args) {
    lmx_snapshot *s = self_of(self);
    PyObject *name, *value;
    int parted = 0;
    if (!PyArg_ParseTuple(args, "UO|p:keep", &name, &value, &parted)) return NULL;
    const size_t tensors = s->kept.n, draws = s->draws.n;
    const bool is_tensor = lmx_is_tensor(s->st, value);
    const bool ok =
        is_tensor ? lmx_tensor_keep(s, -1, name, value, true, false) : lmx_generator_keep(s, -1, name, value);
    if (!ok) return NULL;
    for (size_t i = tensors; i < s->kept.n; i++) identify(s, (lmx_kept *)s->kept.data + i);
    if (s->kept.n > tensors) ((lmx_kept *)s->kept.data)[tensors].parted = parted;
    return PyBool_FromLong(is_tensor || s->draws.n > draws);
}

/* Operators report a tensor without memory, as a sparse one, by itself. */
static uint64_t address_of(const lmx_kept *k) { return k->memory ? k->memory : k->object; }

PyObject *lmx_given_memory(PyObject *self, PyObject *unused) {
    const lmx_snapshot *s = self_of(self);
    (void)unused;
    PyObject *all = PySet_New(NULL);
    for (size_t i = 0; all && i < s->kept.n; i++) {
        const lmx_kept *k = (lmx_kept *)s->kept.data + i;
        if (k->n_bytes) continue; /* its values were copied when it was kept */
        PyObject *one = PyLong_FromUnsignedLongLong(address_of(k));
        if (!one || PySet_Add(all, one) != 0) Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

PyObject *lmx_given_save(PyObject *self, PyObject *address) {
    lmx_snapshot *s = self_of(self);
    const unsigned long long at = PyLong_AsUnsignedLongLong(address);
    if (PyErr_Occurred()) return NULL;
    for (size_t i = 0; i < s->kept.n; i++) {
        lmx_kept *k = (lmx_kept *)s->kept.data + i;
        if (address_of(k) == at && !lmx_tensor_save(s, k)) return NULL;
    }
    Py_RETURN_NONE;
}

/* == objects and tensors with a graph ================================================================== */

static PyObject *path_of(const lmx_snapshot *s, int32_t node, PyObject *name) {
    int32_t place = 0;
    while ((size_t)place < s->tree.places.n && lmx_place_at(&s->tree, place)->node != node) place++;
    return lmx_path(&s->tree, place, name);
}

static bool add_pair(const lmx_snapshot *s, int32_t node, PyObject *name, PyObject *value, PyObject *list) {
    PyObject *path = path_of(s, node, name), *pair = path ? PyTuple_Pack(2, path, value) : NULL;
    const bool ok = pair && PyList_Append(list, pair) == 0;
    Py_XDECREF(path);
    Py_XDECREF(pair);
    return ok;
}

PyObject *lmx_objects(PyObject *self, PyObject *unused) {
    const lmx_snapshot *s = self_of(self);
    (void)unused;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < s->objects.n; i++) {
        const lmx_object *o = (lmx_object *)s->objects.data + i;
        if (!add_pair(s, o->node, o->name, o->object, list)) Py_CLEAR(list);
    }
    return list;
}

static bool add_graph(const lmx_snapshot *s, const lmx_kept *k, PyObject *list) {
    if (!k->requires_grad || PyType_IsSubtype(Py_TYPE(k->tensor), s->st->torch.parameter)) return true;
    PyObject *node = PyObject_GetAttrString(k->tensor, "grad_fn");
    const bool has = node && node != Py_None;
    Py_XDECREF(node);
    return has ? add_pair(s, k->node, k->name, k->tensor, list) : lmx_forgive();
}

PyObject *lmx_graphs(PyObject *self, PyObject *unused) {
    const lmx_snapshot *s = self_of(self);
    (void)unused;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < s->kept.n; i++)
        if (!add_graph(s, (lmx_kept *)s->kept.data + i, list)) Py_CLEAR(list);
    return list;
}
