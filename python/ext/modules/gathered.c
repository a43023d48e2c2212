/* SPDX-License-Identifier: Apache-2.0
 * The parameters that FSDP2 gathers. A module that it shards registers its shards between calls and the
 * gathered parameters during them, and in training also until the backward. FSDP2 keeps both. */
#include "base/ext.h"
#include "modules/tree.h"
#include "torch/tensor.h"

/* The attribute, a new reference; NULL without an exception. */
static PyObject *attribute(PyObject *o, const char *name) {
    PyObject *value = o ? PyObject_GetAttrString(o, name) : NULL;
    PyErr_Clear();
    return value;
}

/* The class of modules that FSDP2 shards, a new reference; NULL: there are none. */
static PyTypeObject *sharded_class(void) {
    PyObject *fsdp = lmx_imported("torch.distributed.fsdp"), *class = attribute(fsdp, "FSDPModule");
    Py_XDECREF(fsdp);
    if (class && !PyType_Check(class)) Py_CLEAR(class);
    return (PyTypeObject *)class;
}

/* The groups of parameters that are gathered together, a new list; NULL: a torch that keeps them elsewhere.
 */
static PyObject *groups_of(PyObject *module) {
    PyObject *state = PyObject_CallMethod(module, "_get_fsdp_state", NULL);
    PyErr_Clear();
    PyObject *groups = attribute(state, "_fsdp_param_groups"), *only = NULL;
    if (!groups && (only = attribute(state, "_fsdp_param_group")) != NULL)
        groups = only == Py_None ? PyList_New(0) : Py_BuildValue("[O]", only);
    Py_XDECREF(only);
    Py_XDECREF(state);
    if (groups && !PyList_Check(groups)) Py_CLEAR(groups);
    return groups;
}

static bool add_pair(lmx_state *st, PyObject *parameter, PyObject *pairs) {
    PyObject *shard = attribute(parameter, "sharded_param");
    PyObject *gathered = attribute(parameter, "_unsharded_param"); /* made by the first call */
    bool both = shard && gathered && lmx_is_tensor(st, shard) && lmx_is_tensor(st, gathered);
    bool ok = !both || (PyList_Append(pairs, gathered) == 0 && PyList_Append(pairs, shard) == 0);
    Py_XDECREF(shard);
    Py_XDECREF(gathered);
    return ok;
}

static bool add_module(lmx_state *st, PyObject *module, void *pairs) {
    PyObject *groups = groups_of(module);
    bool ok = true;
    for (Py_ssize_t i = 0; ok && groups && i < PyList_Size(groups); i++) {
        PyObject *all = attribute(PyList_GetItem(groups, i), "fsdp_params");
        for (Py_ssize_t k = 0; ok && all && PyList_Check(all) && k < PyList_Size(all); k++)
            ok = add_pair(st, PyList_GetItem(all, k), pairs);
        Py_XDECREF(all);
    }
    Py_XDECREF(groups);
    return ok;
}

/* Calls `each(st, module, self)` for every module that FSDP2 shards, until it returns false. */
static bool each_sharded(lmx_state *st, const lmx_tree *tree,
                         bool (*each)(lmx_state *st, PyObject *module, void *self), void *self) {
    PyTypeObject *sharded = lmx_has_group(st) ? sharded_class() : NULL;
    bool ok = true;
    for (size_t i = 0; sharded && ok && i < tree->nodes.n; i++) {
        PyObject *module = lmx_node_at(tree, (int32_t)i)->object;
        if (PyType_IsSubtype(Py_TYPE(module), sharded)) ok = each(st, module, self);
    }
    Py_XDECREF((PyObject *)sharded);
    return ok;
}

PyObject *lmx_gathered(lmx_state *st, const lmx_tree *tree) {
    PyObject *pairs = PyList_New(0);
    if (pairs && !each_sharded(st, tree, add_module, pairs)) Py_CLEAR(pairs);
    return pairs;
}

static bool reshard(lmx_state *st, PyObject *module, void *self) {
    PyObject *done = PyObject_CallMethod(module, "reshard", NULL);
    (void)st;
    lmx_keep_first(self, done != NULL);
    Py_XDECREF(done);
    return true;
}

bool lmx_reshard(lmx_state *st, const lmx_tree *tree) {
    PyObject *raised[3] = {NULL, NULL, NULL};
    each_sharded(st, tree, reshard, raised);
    if (raised[0]) PyErr_Restore(raised[0], raised[1], raised[2]);
    return !raised[0];
}
