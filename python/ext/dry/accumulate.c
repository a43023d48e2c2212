/* SPDX-License-Identifier: Apache-2.0
 * Sums that torch writes in place, except under a mode. */
#include "dry/dry.h"
#include "observe/observe.h"
#include "observe/open_capture.h"

#include <string.h>

/* Makes another tensor of the same memory; NULL with an exception. */
static PyObject *same_memory(lmx_dry *d, PyObject *tensor) {
    PyObject *guard = lmx_dry_below(d), *out = NULL;
    if (guard) out = PyObject_CallFunctionObjArgs(d->subclass, d->fake, tensor, Py_False, NULL);
    return lmx_dry_above(d, guard, out);
}

/* True if only the engine of autograd holds a gradient. */
static bool is_lone(lmx_dry *d, PyObject *tensor) {
    PyObject *result = PyObject_CallFunctionObjArgs(d->lone, tensor, NULL);
    bool lone = result == Py_True;
    Py_XDECREF(result);
    return lone;
}

/* torch adds to the first operand itself if it can, but not under a mode: at the end of a linear layer
 * without a dedicated kernel, and when gradients are summed. If memory is followed, the sum is returned
 * here. NULL without an exception if torch would write it elsewhere. */
PyObject *lmx_added_in_place(lmx_dry *d, PyObject *args) {
    lmx_plain first, second;
    if (!PyTuple_Check(args) || PyTuple_Size(args) != 2) return NULL;
    PyObject *to = PyTuple_GetItem(args, 0), *what = PyTuple_GetItem(args, 1);
    const char *caller = lmx_observer_caller(((lmx_capture *)d->capture)->watched.observer);
    if (!caller || !lmx_dry_is(d, to) || !lmx_dry_is(d, what)) return NULL;
    if (!lmx_plain_of(d, to, &first) || !lmx_plain_of(d, what, &second)) return NULL;
    if (first.dtype != second.dtype || first.ndim < second.ndim) return NULL;
    if (strcmp(caller, "aten::linear") == 0) return same_memory(d, to);
    const lam_op_arg a = {.ndim = first.ndim, .sizes = first.sizes};
    return !*caller && lmx_is_dense(&a, first.strides) && is_lone(d, to) ? same_memory(d, to) : NULL;
}
