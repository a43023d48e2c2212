/* SPDX-License-Identifier: Apache-2.0
 * Fake tensors: each has a unique address, so that addresses identify data as those of real tensors do,
 * and replaces one of the model's tensors for one forward. */
#include "base/ext.h"
#include "dry/dry.h"
#include "modules/snapshot.h"
#include "native/ledger.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    STRIDED = 0,
    LINE = 64,
    KNOWN_VALUES = 1 << 16,
    KNOWN_BYTES = 1 << 26,
    SMALLEST = 1 << 20,
    SHARE = 16
};
static const uint64_t REGION = (uint64_t)1 << 44;  /* bytes of addresses; not of memory */
static const uint64_t NOWHERE = (uint64_t)1 << 60; /* addresses from here on are those of no process */

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

static uint64_t span(const lmx_plain *p) { return lmx_span(p->dtype, p->ndim, p->sizes, p->strides); }

/* Addresses of one kind; under the GIL, for the whole process. */
typedef struct region {
    uint64_t at, n, used;
} region;

/* `readable` can be read, and reads as zeros, so that native code that bypasses torch's operators does not
 * crash; it takes no memory. A process that may not reserve so many addresses reserves a small share of what
 * it has left, which its own memory needs; tensors that do not fit get addresses that no process has. */
static region readable, nowhere = {.at = NOWHERE, .n = REGION};

static void *reserve(uint64_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void reserve_region(void) {
    uint64_t n = REGION;
    void *at = reserve(n);
    while (!at && n > SMALLEST) at = reserve(n /= 2);
    if (at && n < REGION) {
        munmap(at, n);
        at = reserve(n /= SHARE);
    }
    readable = (region){(uint64_t)(uintptr_t)at, at ? n : 0, 0};
    if (!at) readable.at = NOWHERE;
}

static bool is_in(const region *r, uint64_t address) { return address >= r->at && address - r->at < r->n; }

bool lmx_dry_address(uint64_t address) { return is_in(&readable, address) || is_in(&nowhere, address); }

PyObject *lmx_dry_owns(PyObject *self, PyObject *address) {
    (void)self;
    const unsigned long long at = PyLong_AsUnsignedLongLong(address);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(lmx_dry_address(at));
}

static void *address_for(uint64_t bytes) {
    if (!readable.at) reserve_region();
    if (bytes > REGION) bytes = REGION;
    region *r = readable.n < REGION && readable.used + bytes + LINE > readable.n ? &nowhere : &readable;
    if (r->used > r->n - bytes) r->used = 0; /* all are used: starts again */
    uint64_t at = r->at + r->used;
    r->used += (bytes + LINE) / LINE * LINE;
    return (void *)(uintptr_t)at; /* NOLINT(performance-no-int-to-ptr) */
}

/* Takes the guard. */
static PyObject *entered(const lmx_dry *d, PyObject *guard) {
    PyObject *in = guard ? PyObject_CallMethodObjArgs(guard, d->st->n___enter__, NULL) : NULL;
    if (!in) Py_CLEAR(guard);
    Py_XDECREF(in);
    return guard;
}

PyObject *lmx_dry_below(lmx_dry *d) { return entered(d, PyObject_CallFunctionObjArgs(d->below, NULL)); }

PyObject *lmx_dry_above(lmx_dry *d, PyObject *guard, PyObject *result) {
    PyObject *type, *value, *trace;
    if (!guard) return result;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *done = PyObject_CallMethodObjArgs(guard, d->st->n___exit__, Py_None, Py_None, Py_None, NULL);
    if (!done) Py_CLEAR(result);
    Py_XDECREF(done);
    Py_DECREF(guard);
    if (type) PyErr_Restore(type, value, trace);
    return result;
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
    void *ticket = lmx_ledger_take(ledger, at, bytes, own);
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

/* A new tensor of the same sizes, strides and type. */
PyObject *lmx_dry_like(PyObject *self, PyObject *tensor) {
    lmx_dry *d = (lmx_dry *)self;
    lmx_plain p;
    if (!PyObject_TypeCheck(tensor, d->st->torch.tensor))
        return PyErr_Format(PyExc_TypeError, "like takes a tensor, not %R", tensor);
    if (lmx_plain_of(d, tensor, &p)) return lmx_fake(d, d->fake, &p, false);
    return lmx_fail(d->st, LAM_UNSUPPORTED, NULL, "a tensor without a plain layout came out");
}

/* The same, beside the operators: torch took its memory after the last one, by none. */
PyObject *lmx_dry_beside(PyObject *self, PyObject *tensor) {
    const lmx_dry *d = (lmx_dry *)self;
    lmx_ledger *l = lmx_ledger_of(d);
    lmx_capture *c = (lmx_capture *)d->capture;
    const bool paused = c && c->watched.paused;
    if (c) c->watched.paused = true;
    if (l) lmx_ledger_between(l, true);
    PyObject *out = lmx_dry_like(self, tensor);
    if (l) lmx_ledger_between(l, false);
    if (c) c->watched.paused = paused;
    return out;
}

PyObject *lmx_supposed(lmx_dry *d, PyObject *function, PyObject *out) {
    lmx_plain p;
    int64_t n = 1;
    bool many = PyTuple_Check(out) || PyList_Check(out);
    if (!many && (Py_TYPE(out) != d->fake || !lmx_plain_of(d, out, &p))) return out;
    for (int32_t i = 0; !many && i < p.ndim && n == 1; i++) n = p.sizes[i];
    if (n != 1) return out;
    PyObject *known = PyObject_CallFunctionObjArgs(d->suppose, function, out, NULL);
    Py_DECREF(out);
    return known;
}

PyObject *lmx_fake_view(lmx_dry *d, PyObject *tensor, const lmx_plain *p, int64_t offset) {
    void *handle = (char *)tensor + d->st->torch.offset, *made = NULL;
    if (d->st->torch.shim.again(handle, p->ndim, p->sizes, p->strides, offset, &made))
        return lmx_fail(d->st, LAM_UNSUPPORTED, NULL, "torch made no view of %d axes", (int)p->ndim);
    PyObject *plain = tensor_of(d, made);
    PyObject *view = plain ? as_subclass(d, lmx_class_of_views(d, tensor), plain, false) : NULL;
    Py_XDECREF(plain);
    return view;
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

/* The type of its gradients, a new reference, if that is not its own; NULL if it is, or torch has no such
 * attribute. */
static PyObject *type_of_gradients(lmx_dry *d, PyObject *leaf) {
    PyObject *type = PyObject_GetAttr(leaf, d->st->n_grad_dtype);
    PyObject *own = type ? PyObject_GetAttr(leaf, d->st->n_dtype) : NULL;
    if (type == own) Py_CLEAR(type);
    Py_XDECREF(own);
    return type;
}

/* Gives the fake tensor the real one's hooks of this kind, in the same dict, so that one can remove itself. A
 * torch may lack a kind. */
static bool share_hooks(PyObject *from, PyObject *to, PyObject *name) {
    PyObject *hooks = PyObject_GetAttr(from, name);
    if (!hooks) return lmx_forgive();
    const bool some = PyDict_Check(hooks) && PyDict_Size(hooks) > 0;
    const bool ok = !some || PyObject_SetAttr(to, name, hooks) == 0;
    Py_DECREF(hooks);
    return ok;
}

/* Gives the fake tensor of a leaf what the real one does with its gradient: its hooks, and its type. */
static bool share_hooks_of_leaf(lmx_dry *d, PyObject *from, PyObject *to) {
    PyObject *pair = PyTuple_Pack(2, from, to), *type = NULL;
    bool ok = pair && PyList_Append(d->leaves, pair) == 0 &&
              share_hooks(from, to, d->st->n__backward_hooks) &&
              share_hooks(from, to, d->st->n__post_accumulate_grad_hooks);
    if (ok) type = type_of_gradients(d, from);
    if (ok && !type) ok = lmx_forgive(); /* there is no such attribute */
    if (type) ok = PyObject_SetAttr(to, d->st->n_grad_dtype, type) == 0;
    Py_XDECREF(pair);
    Py_XDECREF(type);
    return ok;
}

/* Gives it a fake of the gradient that the leaf has, which a forward may read. */
static bool share_gradient(lmx_dry *d, PyObject *from, PyObject *to) {
    if (lmx_has_no_grad(d->st, from)) return true;
    PyObject *grad = PyObject_GetAttr(from, d->st->n_grad), *fake = NULL;
    if (grad && grad != Py_None) fake = lmx_dry_fake_of((PyObject *)d, grad);
    const bool ok = grad && (grad == Py_None || (fake && lmx_give_gradient(d->st, to, fake)));
    Py_XDECREF(fake);
    Py_XDECREF(grad);
    return ok;
}

/* A tensor that is the result of a graph passes its gradient on to nothing in a run. */
static bool share_autograd(lmx_dry *d, PyObject *from, PyObject *to, bool wanted) {
    PyObject *is_leaf = PyObject_GetAttrString(from, "is_leaf");
    bool ok = is_leaf != NULL;
    if (is_leaf == Py_True) ok = (!wanted || share_hooks_of_leaf(d, from, to)) && share_gradient(d, from, to);
    Py_XDECREF(is_leaf);
    return ok || lmx_forgive();
}

static PyObject *tuple_of(const int64_t *numbers, int32_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (!number || PyTuple_SetItem(tuple, i, number)) Py_CLEAR(tuple);
    }
    return tuple;
}

/* A copy of `n` elements of the tensor's memory, from its first one or, if `all`, from the memory's. */
static PyObject *clone_line(lmx_dry *d, PyObject *tensor, long long n, bool all) {
    PyObject *detached = PyObject_CallMethodObjArgs(tensor, d->st->n_detach, NULL), *line = NULL;
    if (detached && all) line = PyObject_CallMethod(detached, "as_strided", "((L)(i)i)", n, 1, 0);
    if (detached && !all) line = PyObject_CallMethod(detached, "as_strided", "((L)(i))", n, 1);
    PyObject *clone = line ? PyObject_CallMethodObjArgs(line, d->st->n_clone, NULL) : NULL;
    Py_XDECREF(detached);
    Py_XDECREF(line);
    return clone;
}

/* A part of `whole`'s memory, laid out as `p`, as a tensor of ours. */
static PyObject *part_of(lmx_dry *d, PyTypeObject *type, PyObject *whole, const lmx_plain *p, int64_t offset,
                         bool requires_grad) {
    PyObject *guard = lmx_dry_below(d), *part = NULL, *ours = NULL;
    if (guard)
        part = PyObject_CallMethod(whole, "as_strided", "NNL", tuple_of(p->sizes, p->ndim),
                                   tuple_of(p->strides, p->ndim), (long long)offset);
    if (part) ours = as_subclass(d, type, part, requires_grad);
    Py_XDECREF(part);
    return lmx_dry_above(d, guard, ours);
}

/* A tensor with known values has its own memory, copied from the first element to the last: torch's copy of
 * the tensor itself would close gaps between elements. */
static PyObject *copy_of(lmx_dry *d, PyObject *tensor, const lmx_plain *p) {
    long long n = (long long)(span(p) * 8 / (uint64_t)lam_dtype_bits(p->dtype));
    PyObject *clone = clone_line(d, tensor, n, false);
    PyObject *known = clone ? part_of(d, d->known, clone, p, 0, false) : NULL;
    Py_XDECREF(clone);
    return known;
}

/* The memory of a real tensor, which other tensors may share. */
typedef struct whole {
    const void *key;   /* its identity; NULL: unknown */
    int64_t offset, n; /* the tensor's first element; the number of elements */
    bool is_part;      /* the tensor is not all of it */
} whole;

static whole whole_of(const lmx_dry *d, PyObject *tensor, const lmx_plain *p) {
    const lmx_shim *s = &d->st->torch.shim;
    void *handle = (char *)tensor + d->st->torch.offset;
    const int64_t bits = lam_dtype_bits(p->dtype);
    int64_t bytes = 0;
    whole w = {.key = (const void *)(uintptr_t)lmx_memory_here(d->st, tensor, LMX_PLAIN)}; /* NOLINT */
    if (!s->offset || !s->storage || s->offset(handle, &w.offset) || s->storage(handle, &bytes))
        return (whole){0};
    w.n = bytes * 8 / bits;
    w.is_part = w.offset || (uint64_t)w.n != span(p) * 8 / (uint64_t)bits;
    return w;
}

static bool note_whole(lmx_dry *d, const whole *w, PyObject *fake) {
    if (PyList_Append(d->held, fake) != 0) return false;
    return lmx_map_put(&d->wholes, w->key, (int32_t)PyList_Size(d->held) - 1) || lmx_nomem();
}

/* The fake of all of a tensor's memory, of which the tensor is a part, in one line. */
static PyObject *new_whole(lmx_dry *d, PyObject *tensor, int32_t dtype, const whole *w, bool known) {
    static const int64_t one = 1;
    if (!known) return lmx_fake(d, d->fake, &(lmx_plain){dtype, 1, &w->n, &one}, false);
    PyObject *clone = clone_line(d, tensor, w->n, true);
    PyObject *fake = clone ? as_subclass(d, d->known, clone, false) : NULL;
    Py_XDECREF(clone);
    return fake;
}

/* The fake of a tensor that is a part of its memory, or shares it with an earlier one; NULL without an
 * exception if it does neither. */
static PyObject *shared_fake(lmx_dry *d, PyObject *tensor, const lmx_plain *p, const whole *w, bool known,
                             bool grad) {
    const int32_t seen = w->key ? lmx_map_get(&d->wholes, w->key) : -1;
    PyTypeObject *type = known ? d->known : d->fake;
    lmx_plain laid;
    if (seen >= 0) {
        PyObject *all = PyList_GetItem(d->held, seen);
        const bool alike =
            lmx_class_of_views(d, all) == type && lmx_plain_of(d, all, &laid) && laid.dtype == p->dtype;
        return alike ? part_of(d, type, all, p, w->offset, grad) : NULL;
    }
    if (!w->key || !w->is_part || (known && w->n > KNOWN_VALUES)) return NULL;
    PyObject *all = new_whole(d, tensor, p->dtype, w, known), *fake = NULL;
    if (all && note_whole(d, w, all)) fake = part_of(d, type, all, p, w->offset, grad);
    Py_XDECREF(all);
    return fake;
}

/* Its fake, which has its own memory. */
static PyObject *own_fake(lmx_dry *d, PyObject *tensor, const lmx_plain *p, const whole *w, bool known,
                          bool grad) {
    PyObject *fake = known ? copy_of(d, tensor, p) : lmx_fake(d, d->fake, p, grad);
    const bool other = !fake || !w->key || w->is_part || lmx_map_get(&d->wholes, w->key) >= 0;
    const bool noted = other || note_whole(d, w, fake);
    if (!noted) Py_CLEAR(fake);
    return fake;
}

/* A fake tensor under another class, as one that went through DLPack, is of ours again. */
static PyObject *same_under_ours(lmx_dry *d, PyObject *tensor, bool requires_grad) {
    PyObject *guard = lmx_dry_below(d);
    return lmx_dry_above(d, guard, guard ? as_subclass(d, d->fake, tensor, requires_grad) : NULL);
}

static bool is_sparse(lmx_dry *d, void *handle) {
    lmx_sparse sparse; /* torch gives a sparse tensor in coordinates strides, as if it were dense */
    return lmx_sparse_of(lmx_layout_of(d->st), &d->st->torch.shim, handle, &sparse);
}

/* torch's shape functions know no quantised tensor. */
static bool is_quantised(const lmx_plain *p) {
    const char *name = lam_dtype_name(p->dtype);
    return strncmp(name, "qint", 4) == 0 || strncmp(name, "quint", 5) == 0;
}

/* Python gives a class to no object that is laid out in another way, as by __slots__. */
static bool refuse_class(const lmx_dry *d, PyTypeObject *type) {
    PyObject *name = PyObject_GetAttr((PyObject *)type, d->st->n___name__);
    if (name)
        lmx_fail(
            d->st, LAM_UNSUPPORTED, NULL,
            "a dry run can't follow a tensor of the class %s: Python gives that class to no other object",
            lmx_utf8(name));
    Py_XDECREF(name);
    return false;
}

bool lmx_in_class(lmx_dry *d, PyObject *fake, PyTypeObject *type) {
    if (PyObject_SetAttrString(fake, "__class__", (PyObject *)type) != 0)
        return lmx_forgive() && (type == d->st->torch.parameter || refuse_class(d, type));
    const bool ok = PyList_Append(d->others, fake) == 0;
    return ok && (lmx_map_put(&d->classed, fake, (int32_t)PyList_Size(d->others) - 1) || lmx_nomem());
}

PyObject *lmx_dry_in_class(PyObject *self, PyObject *args) {
    lmx_dry *d = (lmx_dry *)self;
    PyObject *fake, *type;
    if (!PyArg_ParseTuple(args, "OO!:in_class", &fake, &PyType_Type, &type)) return NULL;
    if (Py_TYPE(fake) == d->fake && !lmx_in_class(d, fake, (PyTypeObject *)type)) return NULL;
    Py_INCREF(fake);
    return fake;
}

/* Gives the fake tensor the class that a program may ask for, of a real one. torch's own class is none: most
 * results are of it, and their fakes are not. */
static bool as_its_class(lmx_dry *d, PyObject *tensor, PyObject *fake, bool is_parameter) {
    if (is_parameter) return lmx_in_class(d, fake, Py_TYPE(tensor));
    if (Py_TYPE(tensor) == d->st->torch.tensor || !d->class_of) return true;
    PyObject *type = PyObject_CallFunctionObjArgs(d->class_of, (PyObject *)Py_TYPE(tensor), NULL);
    if (!type) return lmx_forgive() && refuse_class(d, Py_TYPE(tensor));
    const bool ok = PyType_Check(type) && lmx_in_class(d, fake, (PyTypeObject *)type);
    Py_DECREF(type);
    return ok;
}

static PyObject *new_fake_of(lmx_dry *d, PyObject *tensor) {
    void *handle = (char *)tensor + d->st->torch.offset, *data = NULL;
    lmx_plain p;
    int32_t device = -1;
    bool grad;
    if (!lmx_plain_of(d, tensor, &p) || is_sparse(d, handle) || is_quantised(&p)) return NULL;
    d->st->torch.shim.device(handle, &device);
    d->elsewhere = d->elsewhere || device != LMX_CPU;
    if (!lmx_wants_grad(d->st, tensor, &grad)) return NULL;
    if (!d->st->torch.shim.data(handle, &data) && lmx_dry_address((uint64_t)(uintptr_t)data))
        return same_under_ours(d, tensor, grad);
    bool is_parameter = PyType_IsSubtype(Py_TYPE(tensor), d->st->torch.parameter);
    const bool known = lmx_is_torchs(d->st, tensor) && keeps_values(&p, device, is_parameter);
    const whole w = whole_of(d, tensor, &p);
    if (d->dtype >= 0 && is_real_number(p.dtype)) p.dtype = d->dtype;
    d->given = true;
    PyObject *fake = shared_fake(d, tensor, &p, &w, known, grad && !known);
    if (!fake && !PyErr_Occurred()) fake = own_fake(d, tensor, &p, &w, known, grad && !known);
    d->given = false;
    if (fake && !copy_attributes(d, tensor, fake, is_parameter)) Py_CLEAR(fake);
    if (fake && !known && !share_autograd(d, tensor, fake, grad)) Py_CLEAR(fake);
    if (fake && !as_its_class(d, tensor, fake, is_parameter)) Py_CLEAR(fake);
    return fake;
}

/* Tensors of the program's that the run has seen, such as gradients, are freed when the program drops them.
 */
PyObject *lmx_dry_over(PyObject *self, PyObject *unused) {
    lmx_dry *d = (lmx_dry *)self;
    lmi_map *const maps[] = {&d->classed, &d->swapped, &d->wholes, &d->functions, &d->asked};
    PyObject *const lists[] = {d->others, d->leaves, d->held};
    bool ok = true;
    (void)unused;
    for (Py_ssize_t i = 0; i < PyList_Size(d->others); i++) {
        PyObject *fake = PyList_GetItem(d->others, i);
        ok = PyObject_SetAttrString(fake, "__class__", (PyObject *)d->fake) == 0 && ok;
    }
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) lmi_map_free(maps[i]);
    d->entries.n = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        ok = PyList_SetSlice(lists[i], 0, PyList_Size(lists[i]), NULL) == 0 && ok;
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

/* NULL without an exception for other tensors. */
static PyObject *guard_of_inference(lmx_dry *d, PyObject *tensor) {
    PyObject *is = d->inference ? PyObject_CallMethod(tensor, "is_inference", NULL) : NULL;
    PyObject *guard = is == Py_True ? PyObject_CallFunctionObjArgs(d->inference, Py_True, NULL) : NULL;
    Py_XDECREF(is);
    return guard ? entered(d, guard) : NULL;
}

/* NULL without an exception for a tensor without a plain layout. */
static PyObject *fake_in_its_mode(lmx_dry *d, PyObject *tensor) {
    PyObject *guard = guard_of_inference(d, tensor);
    return PyErr_Occurred() ? NULL : lmx_dry_above(d, guard, new_fake_of(d, tensor));
}

PyObject *lmx_fake_of(lmx_dry *d, PyObject *tensor) {
    int32_t at = lmx_map_get(&d->swapped, tensor);
    PyObject *fake = at >= 0 ? PyList_GetItem(d->held, at) : NULL;
    if (fake) {
        Py_INCREF(fake);
        return fake;
    }
    fake = fake_in_its_mode(d, tensor);
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

PyObject *lmx_dry_leaves(PyObject *self, PyObject *unused) {
    (void)unused;
    return PySequence_List(((lmx_dry *)self)->leaves);
}

PyObject *lmx_dry_alike(PyObject *self, PyObject *args) {
    lmx_dry *d = (lmx_dry *)self;
    PyObject *inference, *class_of;
    if (!PyArg_ParseTuple(args, "OO:alike", &inference, &class_of)) return NULL;
    Py_CLEAR(d->inference);
    Py_CLEAR(d->class_of);
    if (inference != Py_None) {
        Py_INCREF(inference);
        d->inference = inference;
    }
    Py_INCREF(class_of);
    d->class_of = class_of;
    Py_RETURN_NONE;
}

PyObject *lmx_dry_fake_of(PyObject *self, PyObject *tensor) {
    lmx_dry *d = (lmx_dry *)self;
    return lmx_kind_of(d->st, tensor) == LMX_PLAIN ? lmx_fake_of(d, tensor) : (Py_INCREF(tensor), tensor);
}

/* == replacing a model's tensors ======================================================================= */

static bool is_real(lmx_dry *d, PyObject *o) {
    return lmx_kind_of(d->st, o) == LMX_PLAIN && !lmx_dry_is(d, o);
}

/* The fake tensor for a real one; NULL without an exception for other values. */
static PyObject *stand_in(void *self, PyObject *value) {
    lmx_dry *d = self;
    PyObject *fake = is_real(d, value) ? lmx_fake_of(d, value) : NULL;
    if (fake == value) Py_CLEAR(fake);
    return fake;
}

bool lmx_swap(lmx_dry *d, lmx_snapshot *s) { return lmx_snapshot_replace(s, stand_in, d); }
