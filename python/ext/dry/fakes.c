/* SPDX-License-Identifier: Apache-2.0
 * Fake tensors: each has a unique address, so that addresses identify data as those of real tensors do,
 * and replaces one of the model's tensors for one forward. */
#include "base/ext.h"
#include "dry/dry.h"
#include "modules/snapshot.h"
#include "observe/ledger.h"
#include "torch/tensor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STRIDED = 0, LINE = 64, KNOWN_VALUES = 1 << 16, KNOWN_BYTES = 1 << 26 };
static const uint64_t REGION = (uint64_t)1 << 44; /* bytes of addresses; not of memory */

/* == making one ======================================================================================== */

bool lmx_plain_of(lmx_dry *d, PyObject *tensor, lmx_plain *out) {
    const lmx_torch *t = &d->st->torch;
    void *handle = (char *)tensor + t->offset, *impl;
    int64_t dims = -1, *sizes = NULL, *strides = NULL;
    memcpy(&impl, handle, sizeof impl);
    if (!impl || t->shim.dim(handle, &dims) || t->shim.sizes(handle, &sizes)) return false;
    if (dims < 0 || dims > LMX_DIMS || d->api.strides(handle, &strides)) return false;
    if (t->shim.dtype(handle, &out->dtype) || lam_dtype_bits(out->dtype) <= 0) return false;
    out->ndim = (int32_t)dims;
    out->sizes = sizes;
    out->strides = strides;
    return true;
}

/* Bytes from a tensor's first element to its last; 0 if they can't be computed. */
static uint64_t span(const lmx_plain *p) {
    int64_t last = 0, part;
    for (int32_t i = 0; i < p->ndim; i++) {
        if (p->sizes[i] == 0) return 0;
        if (__builtin_mul_overflow(p->sizes[i] - 1, p->strides[i], &part)) return 0;
        if (part < 0 || __builtin_add_overflow(last, part, &last)) return 0;
    }
    if (__builtin_add_overflow(last, 1, &last)) return 0;
    if (__builtin_mul_overflow(last, lam_dtype_bits(p->dtype), &part)) return 0;
    return ((uint64_t)part + 7) / 8;
}

/* One region serves the whole process, under the GIL. It can be read, and reads as zeros, so that native
 * code that bypasses torch's operators does not crash; it takes no memory. If the process may not
 * reserve so many addresses, these are ones that no process has. */
static struct {
    char *at;
    uint64_t used;
} region;

static void reserve(void) {
    if (region.at) return;
    void *at = mmap(NULL, REGION, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uintptr_t nowhere = (uintptr_t)1 << 60;
    if (at == MAP_FAILED) memcpy(&at, &nowhere, sizeof at);
    region.at = at;
}

lmx_range lmx_fake_region(void) {
    reserve();
    return (lmx_range){(uintptr_t)region.at, (uintptr_t)region.at + REGION};
}

static void *address_for(uint64_t bytes) {
    reserve();
    if (bytes > REGION) bytes = REGION;
    if (region.used > REGION - bytes) region.used = 0; /* all are used: starts again */
    char *at = region.at + region.used;
    region.used += (bytes + LINE) / LINE * LINE;
    return at;
}

static PyObject *as_subclass(lmx_dry *d, PyTypeObject *type, PyObject *tensor, bool requires_grad) {
    return PyObject_CallFunctionObjArgs(d->subclass, (PyObject *)type, tensor,
                                        requires_grad ? Py_True : Py_False, NULL);
}

/* Makes a tensor over memory that has no owner or, if `own`, is freed with it. Enters it in the ledger, if
 * there is one, unless it replaces a tensor from before the run. */
static bool make(lmx_dry *d, const lmx_plain *p, void *at, void *own, void **handle) {
    int64_t bytes = (int64_t)span(p);
    lmx_ledger *ledger = d->given ? NULL : lmx_ledger_of(d);
    if (!ledger) return d->api.make(at, p->ndim, p->sizes, p->strides, 0, p->dtype, LMX_CPU, 0, handle) == 0;
    void *ticket = lmx_ledger_take(ledger, bytes, own);
    if (!ticket) {
        free(own);
        return false;
    }
    if (d->api.owned(at, p->ndim, p->sizes, p->strides, 0, p->dtype, LMX_CPU, -1, handle, STRIDED, NULL, 0,
                     lmx_ledger_drop, ticket) == 0)
        return true;
    lmx_ledger_drop(at, ticket);
    return false;
}

/* The tensor of a handle, which it takes over. torch's function for a single handle leaks a reference;
 * its function for a list does not. */
static PyObject *tensor_of(lmx_dry *d, void *handle) {
    PyObject *capsule = PyCapsule_New(handle, NULL, NULL), *all = PyList_New(1), *tensors = NULL;
    bool ok = capsule && all;
    if (ok) {
        Py_INCREF(capsule);
        ok = PyList_SetItem(all, 0, capsule) == 0;
    }
    if (ok)
        tensors = PyObject_CallFunctionObjArgs(d->steal, all, NULL);
    else
        d->st->torch.shim.release(handle);
    PyObject *tensor = tensors ? PySequence_GetItem(tensors, 0) : NULL;
    Py_XDECREF(tensors);
    Py_XDECREF(all);
    Py_XDECREF(capsule);
    return tensor;
}

static PyObject *fake_over(lmx_dry *d, PyTypeObject *type, const lmx_plain *p, bool requires_grad, void *at,
                           void *own) {
    void *handle = NULL;
    if (!make(d, p, at, own, &handle)) {
        lmx_fail(d->st, LAM_UNSUPPORTED, NULL, "torch made no tensor of %d axes and type %s", (int)p->ndim,
                 lam_dtype_name(p->dtype));
        return NULL;
    }
    PyObject *tensor = tensor_of(d, handle);
    PyObject *fake = tensor ? as_subclass(d, type, tensor, requires_grad) : NULL;
    Py_XDECREF(tensor);
    return fake;
}

PyObject *lmx_fake(lmx_dry *d, PyTypeObject *type, const lmx_plain *p, bool requires_grad) {
    return fake_over(d, type, p, requires_grad, address_for(span(p)), NULL);
}

PyObject *lmx_fake_with(lmx_dry *d, PyObject *tensor) {
    lmx_plain p;
    const void *from;
    if (!lmx_ledger_of(d) || d->given || !lmx_plain_of(d, tensor, &p) || span(&p) == 0)
        return as_subclass(d, d->known, tensor, false);
    void *own = malloc(span(&p));
    if (!own) return PyErr_NoMemory();
    if (d->st->torch.shim.data((char *)tensor + d->st->torch.offset, (void **)&from)) {
        free(own);
        return as_subclass(d, d->known, tensor, false);
    }
    if (from)
        memcpy(own, from, span(&p));
    else
        memset(own, 0, span(&p)); /* zeros that torch keeps without memory, for forward-mode gradients */
    return fake_over(d, d->known, &p, false, own, own);
}

/* == the fake of a real tensor ========================================================================= */

/* True for small tensors of whole numbers, which layers read as numbers while they run: tables of
 * positions, counters. They keep their values. */
static bool keeps_values(const lmx_plain *p, int32_t device, bool is_parameter) {
    int64_t n = 1;
    const char *name = lam_dtype_name(p->dtype);
    for (int32_t i = 0; i < p->ndim && n <= KNOWN_VALUES; i++)
        n *= p->sizes[i] > KNOWN_VALUES ? KNOWN_VALUES + 1 : p->sizes[i];
    bool whole = strncmp(name, "int", 3) == 0 || strncmp(name, "uint", 4) == 0 || strcmp(name, "bool") == 0;
    return device == LMX_CPU && !is_parameter && whole && n <= KNOWN_VALUES && span(p) <= KNOWN_BYTES;
}

static bool is_real_number(int32_t dtype) {
    const char *name = lam_dtype_name(dtype);
    return strncmp(name, "float", 5) == 0 || strncmp(name, "bfloat", 6) == 0;
}

static bool copy_attributes(lmx_dry *d, PyObject *from, PyObject *to, bool is_parameter) {
    PyObject *dict = lmx_dict_of(from), *own = NULL;
    bool ok = true;
    if (dict && PyDict_Check(dict) && PyDict_Size(dict) > 0) {
        own = PyObject_GenericGetDict(to, NULL);
        ok = own && PyDict_Update(own, dict) == 0;
    }
    if (ok && is_parameter) ok = PyObject_SetAttr(to, d->st->n__is_param, Py_True) == 0;
    Py_XDECREF(own);
    Py_XDECREF(dict);
    return ok;
}

static PyObject *tuple_of(const int64_t *numbers, int32_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (!number || PyTuple_SetItem(tuple, i, number)) Py_CLEAR(tuple);
    }
    return tuple;
}

/* A tensor with known values has its own memory, copied from the first element to the last: torch's copy of
 * the tensor itself would close gaps between elements. */
static PyObject *copy_of(lmx_dry *d, PyObject *tensor, const lmx_plain *p) {
    long long n = (long long)(span(p) * 8 / (uint64_t)lam_dtype_bits(p->dtype));
    PyObject *detached = PyObject_CallMethodObjArgs(tensor, d->st->n_detach, NULL);
    PyObject *line = detached ? PyObject_CallMethod(detached, "as_strided", "((L)(i))", n, 1) : NULL;
    PyObject *clone = line ? PyObject_CallMethodObjArgs(line, d->st->n_clone, NULL) : NULL;
    PyObject *copy = clone ? PyObject_CallMethod(clone, "as_strided", "NN", tuple_of(p->sizes, p->ndim),
                                                 tuple_of(p->strides, p->ndim))
                           : NULL;
    PyObject *known = copy ? as_subclass(d, d->known, copy, false) : NULL;
    Py_XDECREF(detached);
    Py_XDECREF(line);
    Py_XDECREF(clone);
    Py_XDECREF(copy);
    return known;
}

static PyObject *new_fake_of(lmx_dry *d, PyObject *tensor) {
    void *handle = (char *)tensor + d->st->torch.offset;
    lmx_plain p;
    lmx_sparse sparse; /* torch gives a sparse tensor in coordinates strides, as if it were dense */
    int32_t device = -1;
    if (!lmx_plain_of(d, tensor, &p)) return NULL;
    if (lmx_sparse_of(lmx_layout_of(d->st), &d->st->torch.shim, handle, &sparse)) return NULL;
    d->st->torch.shim.device(handle, &device);
    PyObject *grad = PyObject_GetAttr(tensor, d->st->n_requires_grad);
    if (!grad) return NULL;
    bool is_parameter = PyType_IsSubtype(Py_TYPE(tensor), d->st->torch.parameter);
    if (d->dtype >= 0 && is_real_number(p.dtype)) p.dtype = d->dtype;
    d->given = true;
    PyObject *fake = keeps_values(&p, device, is_parameter) ? copy_of(d, tensor, &p)
                                                            : lmx_fake(d, d->fake, &p, grad == Py_True);
    d->given = false;
    Py_DECREF(grad);
    if (fake && !copy_attributes(d, tensor, fake, is_parameter)) Py_CLEAR(fake);
    return fake;
}

PyObject *lmx_fake_of(lmx_dry *d, PyObject *tensor) {
    int32_t at = lmx_map_get(&d->swapped, tensor);
    PyObject *fake = at >= 0 ? PyList_GetItem(d->held, at) : NULL;
    if (fake) {
        Py_INCREF(fake);
        return fake;
    }
    fake = new_fake_of(d, tensor);
    if (!fake && !PyErr_Occurred()) { /* no plain layout: the real tensor stays */
        Py_INCREF(tensor);
        return tensor;
    }
    bool ok = fake && PyList_Append(d->held, tensor) == 0 && PyList_Append(d->held, fake) == 0;
    if (ok && !lmx_map_put(&d->swapped, tensor, (int32_t)PyList_Size(d->held) - 1)) {
        lmx_nomem();
        ok = false;
    }
    if (!ok) Py_CLEAR(fake);
    return fake;
}

/* == replacing a model's tensors ======================================================================= */

static bool is_real(lmx_dry *d, PyObject *o) {
    return lmx_kind_of(d->st, o) == LMX_PLAIN && !PyType_IsSubtype(Py_TYPE(o), d->fake);
}

/* The tuple with its tensors replaced by fake ones; NULL with an exception, or without one if it holds
 * no tensors. */
static PyObject *swapped_tuple(lmx_dry *d, PyObject *tuple) {
    Py_ssize_t n = PyTuple_Size(tuple), real = 0;
    for (Py_ssize_t i = 0; i < n; i++) real += is_real(d, PyTuple_GetItem(tuple, i));
    PyObject *list = real ? PySequence_List(tuple) : NULL;
    bool ok = list != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        if (!is_real(d, item)) continue;
        PyObject *fake = lmx_fake_of(d, item);
        ok = fake && PyList_SetItem(list, i, fake) == 0;
    }
    PyObject *out = ok ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return out;
}

/* The replacement of a value; NULL with an exception, or without one if it needs none. */
static PyObject *stand_in(lmx_dry *d, PyObject *value) {
    if (is_real(d, value)) {
        PyObject *fake = lmx_fake_of(d, value);
        if (fake == value) Py_CLEAR(fake);
        return fake;
    }
    return PyTuple_CheckExact(value) ? swapped_tuple(d, value) : NULL;
}

static bool put(PyObject *object, lmx_container_type type, PyObject *key, Py_ssize_t at, PyObject *value) {
    if (type == LMX_BOX_LIST) {
        Py_INCREF(value);
        return PyList_SetItem(object, at, value) == 0;
    }
    return (PyDict_CheckExact(object) ? PyDict_SetItem(object, key, value)
                                      : PyObject_SetItem(object, key, value)) == 0;
}

static bool swap_box(lmx_dry *d, lmx_snapshot *s, const lmx_container *box) {
    PyObject **refs = (PyObject **)s->refs.data + box->at;
    size_t step = box->type == LMX_BOX_DICT ? 2 : 1;
    if (box->type != LMX_BOX_DICT && box->type != LMX_BOX_LIST) return true;
    for (size_t i = 0; i < box->n; i++) {
        PyObject *value = lmx_ref(refs[step * i + step - 1]), *in = stand_in(d, value);
        bool ok = in ? put(box->object, box->type, refs[step * i], (Py_ssize_t)i, in) : !PyErr_Occurred();
        Py_XDECREF(in);
        if (!ok) return false;
    }
    return true;
}

bool lmx_swap(lmx_dry *d, lmx_snapshot *s) {
    for (size_t i = 0; i < s->boxes.n; i++)
        if (!swap_box(d, s, (lmx_container *)s->boxes.data + i)) return false;
    return true;
}
