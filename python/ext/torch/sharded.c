/* SPDX-License-Identifier: Apache-2.0
 * Whether this process is one of several that run a model together. */
#include "base/ext.h"
#include "torch/tensor.h"

/* The group as torch stores it, a new reference; its public function goes through three others. NULL:
 * nothing of this name. */
static PyObject *group_of(lmx_state *st) {
    PyObject *module = lmx_imported("torch.distributed.distributed_c10d");
    PyObject *world = module ? PyObject_GetAttr(module, st->n__world) : NULL;
    PyObject *dict = world ? lmx_dict_of(world) : NULL;
    PyObject *group = dict ? lmx_get(dict, st->n__default_pg) : NULL;
    Py_XINCREF(group);
    Py_XDECREF(dict);
    Py_XDECREF(world);
    Py_XDECREF(module);
    PyErr_Clear();
    return group;
}

bool lmx_has_group(lmx_state *st) {
    PyObject *group = group_of(st);
    if (group) {
        Py_DECREF(group);
        return group != Py_None;
    }
    PyObject *distributed = lmx_imported("torch.distributed");
    PyObject *yes = distributed ? PyObject_CallMethod(distributed, "is_initialized", NULL) : NULL;
    bool has = distributed && yes != Py_False; /* a torch that can't report it may have one */
    Py_XDECREF(yes);
    Py_XDECREF(distributed);
    PyErr_Clear();
    return has;
}
