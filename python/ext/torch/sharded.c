/* SPDX-License-Identifier: Apache-2.0
 * Parameters that are sharded over several processes (torch.distributed.tensor.DTensor). Such a tensor
 * has the shape of the whole, and this process holds a tensor with its part. Operators on it run
 * operators on the parts, which are the work of this process. */
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

int64_t lmx_elsewhere(lmx_state *st, PyObject *tensor, const lmx_tensor *whole) {
    lmx_kind kind = lmx_kind_of(st, tensor);
    PyObject *part = kind == LMX_PLAIN ? NULL : PyObject_GetAttrString(tensor, "_local_tensor");
    lmx_tensor here;
    int64_t all = 1, held = 1;
    bool told = part && lmx_is_tensor(st, part) && lmx_describe(st, part, lmx_kind_of(st, part), &here) &&
                here.ndim >= 0 && whole->ndim >= 0;
    for (int32_t i = 0; told && i < whole->ndim; i++) all *= whole->sizes[i];
    for (int32_t i = 0; told && i < here.ndim; i++) held *= here.sizes[i];
    Py_XDECREF(part);
    PyErr_Clear();
    return told && held < all ? all - held : 0;
}
