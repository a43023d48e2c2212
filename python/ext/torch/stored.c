/* SPDX-License-Identifier: Apache-2.0
 * Tensors whose memory lies in other tensors: wrapper subclasses, which name the tensors inside them by
 * torch's protocol (__tensor_flatten__), such as a quantised weight with its scales, and tensors that are
 * sharded over several processes (DTensor), which wrap the part of this process. They may wrap each other. */
#include "base/ext.h"
#include "torch/addresses.h"
#include "torch/tensor.h"

enum { DEEPEST = 8 };

/* == what is inside ====================================================================================== */

/* Adds what a wrapper names to the list: a tensor; or None or an object without tensors, such as a mesh,
 * which is left out. False, maybe with an exception: it is something else. */
static bool add_part(lmx_state *st, PyObject *value, PyObject *parts) {
    if (!value) return false;
    if (lmx_is_tensor(st, value)) return PyList_Append(parts, value) == 0;
    return !PyList_Check(value) && !PyTuple_Check(value) && !PyDict_Check(value);
}

/* The tensors that a wrapper names, a new list; NULL, maybe with an exception: it names none. */
static PyObject *named_parts(lmx_state *st, PyObject *tensor) {
    PyObject *result = PyObject_CallMethod(tensor, "__tensor_flatten__", NULL);
    PyObject *first =
        result && PyTuple_Check(result) && PyTuple_Size(result) > 0 ? PyTuple_GetItem(result, 0) : NULL;
    PyObject *names = first ? PySequence_List(first) : NULL, *parts = names ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; parts && i < PyList_Size(names); i++) {
        PyObject *part = PyObject_GetAttr(tensor, PyList_GetItem(names, i));
        if (!add_part(st, part, parts)) Py_CLEAR(parts);
        Py_XDECREF(part);
    }
    if (parts && PyList_Size(parts) == 0) Py_CLEAR(parts);
    Py_XDECREF(names);
    Py_XDECREF(result);
    return parts;
}

/* torch's masked tensors follow no protocol: a new list of their data and mask; NULL, maybe with an
 * exception, for others. */
static PyObject *masked_parts(lmx_state *st, PyObject *tensor) {
    PyObject *data = PyObject_GetAttrString(tensor, "_masked_data");
    PyObject *mask = data ? PyObject_GetAttrString(tensor, "_masked_mask") : NULL;
    bool both = mask && lmx_is_tensor(st, data) && lmx_is_tensor(st, mask);
    PyObject *parts = both ? Py_BuildValue("[OO]", data, mask) : NULL;
    Py_XDECREF(mask);
    Py_XDECREF(data);
    return parts;
}

/* Of a tensor, or of a storage. */
static bool is_on_meta(PyObject *o) {
    PyObject *device = PyObject_GetAttrString(o, "device");
    PyObject *type = device ? PyObject_GetAttrString(device, "type") : NULL;
    bool yes = type && strcmp(lmx_utf8(type), "meta") == 0;
    Py_XDECREF(type);
    Py_XDECREF(device);
    PyErr_Clear();
    return yes;
}

/* True if the tensor has memory itself, as a class that only overrides operators, or would have, as torch's
 * own fake tensors. torch refuses the address of a wrapper's memory, or returns 0. */
static bool has_own(const lmx_state *st, PyObject *tensor) {
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    PyErr_Clear();
    bool fake = storage && is_on_meta(storage) && !is_on_meta(tensor);
    bool own = fake || (storage && lmx_storage_address(st, tensor, storage) != 0);
    Py_XDECREF(storage);
    return own;
}

/* The tensors inside; NULL without an exception: it is none that wraps others (*own), or they are unknown. */
static PyObject *parts_of(lmx_state *st, PyObject *tensor, bool *own) {
    *own = lmx_kind_of(st, tensor) == LMX_PLAIN;
    if (*own) return NULL;
    PyObject *parts = named_parts(st, tensor);
    if (parts || !lmx_forgive()) return parts;
    parts = masked_parts(st, tensor);
    if (parts || !lmx_forgive()) return parts;
    *own = has_own(st, tensor);
    return NULL;
}

static bool each_part(lmx_state *st, PyObject *tensor, int depth, lmx_part_visitor *v) {
    bool own, ok = true;
    PyObject *parts = parts_of(st, tensor, &own);
    if (!parts && PyErr_Occurred()) return false;
    if (own) return v->each(v->self, tensor);
    if (!parts || depth == DEEPEST) v->unknown = true;
    for (Py_ssize_t i = 0; ok && parts && depth < DEEPEST && i < PyList_Size(parts); i++)
        ok = each_part(st, PyList_GetItem(parts, i), depth + 1, v);
    Py_XDECREF(parts);
    return ok;
}

bool lmx_each_part(lmx_state *st, PyObject *tensor, lmx_part_visitor *v) {
    return each_part(st, tensor, 0, v);
}

/* == how much is stored ================================================================================== */

/* `n` >= 0 of elements, in `here` those of this process. */
typedef struct weight {
    int64_t bytes, here;             /* -1: unknown */
    int64_t elements, elements_here; /* -1: unknown */
} weight;

static int64_t elements_of(const lmx_tensor *d) {
    int64_t n = d->ndim < 0 ? -1 : 1;
    for (int32_t i = 0; n >= 0 && i < d->ndim; i++)
        if (__builtin_mul_overflow(n, d->sizes[i], &n)) n = -1;
    return n;
}

static int64_t bytes_of(int64_t elements, int32_t dtype) {
    int64_t bits;
    if (elements < 0 || lam_dtype_bits(dtype) <= 0 ||
        __builtin_mul_overflow(elements, lam_dtype_bits(dtype), &bits))
        return -1;
    return bits / 8 + (bits % 8 != 0);
}

/* Puts a key into `seen`; *again: it was there. */
static bool note_seen(PyObject *seen, PyObject *key, bool *again) {
    const int there = key ? PyDict_Contains(seen, key) : -1;
    *again = there > 0;
    return there > 0 || (there == 0 && PyDict_SetItem(seen, key, Py_True) == 0);
}

/* A tensor takes its whole memory, once for all tensors that share it. The part of a sharded tensor takes
 * what its elements need: its memory may be padded, or that of the whole. */
static bool weigh_memory(PyObject *tensor, const lmx_tensor *d, bool sharded, PyObject *seen, weight *out) {
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    PyObject *size = storage ? PyObject_CallMethod(storage, "nbytes", NULL) : NULL;
    PyObject *memory = size ? PyObject_GetAttrString(storage, "_cdata") : NULL, *key = memory;
    int64_t all = size ? PyLong_AsLongLong(size) : -1, own = bytes_of(out->elements, d->dtype);
    PyErr_Clear();
    bool whole = !sharded || own < 0 || own > all, again = false;
    out->bytes = all < 0 ? own : whole ? all : own;
    if (memory && !whole) key = Py_BuildValue("(OL)", memory, (long long)lmx_ask(tensor, "storage_offset"));
    bool ok = !memory || note_seen(seen, key, &again);
    if (again) out->bytes = 0;
    if (key != memory) Py_XDECREF(key);
    Py_XDECREF(memory);
    Py_XDECREF(size);
    Py_XDECREF(storage);
    return ok;
}

static bool weigh_own(lmx_state *st, PyObject *tensor, bool sharded, PyObject *seen, weight *out) {
    lmx_tensor d;
    lmx_sparse kept;
    bool sparse = false;
    if (!lmx_describe(st, tensor, lmx_kind_of(st, tensor), &d)) return false;
    out->elements = out->elements_here = elements_of(&d);
    if (!d.storage && !lmx_sparse_read(tensor, &kept, &sparse)) return false;
    bool ok = sparse || weigh_memory(tensor, &d, sharded, seen, out);
    if (sparse) out->bytes = kept.bytes;
    out->here = out->bytes;
    return ok;
}

/* n * to / from; -1 if that is no whole number. */
static int64_t scaled(int64_t n, int64_t to, int64_t from) {
    int64_t product;
    if (n < 0 || to < 0 || from <= 0 || __builtin_mul_overflow(n, to, &product)) return -1;
    return product % from ? -1 : product / from;
}

/* A sharded tensor, from the weight of the part in this process: the whole has as many bytes for each
 * element. */
static void weigh_whole(weight *of, int64_t elements, bool plain, int32_t dtype) {
    if (elements == of->elements) return;
    of->bytes = of->elements > 0 ? scaled(of->bytes, elements, of->elements)
                : plain          ? bytes_of(elements, dtype)
                                 : -1;
    of->elements = elements;
}

static bool is_sharded(PyObject *tensor, PyObject *part) {
    PyObject *local = PyObject_GetAttrString(tensor, "_local_tensor");
    PyErr_Clear();
    Py_XDECREF(local);
    return local == part;
}

static int64_t plus(int64_t a, int64_t b) {
    int64_t sum;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? -1 : sum;
}

/* Where a tensor stands: how many wrappers are around it, and whether it is sharded. */
typedef struct inside {
    int depth;
    bool sharded;
} inside;

static bool weigh(lmx_state *st, PyObject *tensor, inside at, PyObject *seen, weight *out);

/* A wrapper has the elements of its own shape; of them in this process is what its largest part has here. */
static bool weigh_parts(lmx_state *st, PyObject *tensor, PyObject *parts, inside at, PyObject *seen,
                        weight *out) {
    lmx_tensor d;
    weight largest = {0, 0, -1, -1};
    *out = (weight){0, 0, -1, -1};
    if (!lmx_describe(st, tensor, lmx_kind_of(st, tensor), &d)) return false;
    PyObject *first = PyList_Size(parts) == 1 ? PyList_GetItem(parts, 0) : NULL;
    const bool sharded = first && is_sharded(tensor, first);
    for (Py_ssize_t i = 0; i < PyList_Size(parts); i++) {
        weight part;
        const inside deeper = {at.depth + 1, at.sharded || sharded};
        if (!weigh(st, PyList_GetItem(parts, i), deeper, seen, &part)) return false;
        out->bytes = plus(out->bytes, part.bytes);
        out->here = plus(out->here, part.here);
        if (part.elements > largest.elements) largest = part;
    }
    out->elements = elements_of(&d);
    if (sharded) {
        out->elements = largest.elements;
        weigh_whole(out, elements_of(&d), lmx_kind_of(st, first) == LMX_PLAIN, d.dtype);
        out->elements_here = largest.elements_here;
    } else if (largest.elements == largest.elements_here) {
        out->elements_here = out->elements;
    } else {
        out->elements_here = scaled(out->elements, largest.elements_here, largest.elements);
    }
    return true;
}

static bool weigh(lmx_state *st, PyObject *tensor, inside at, PyObject *seen, weight *out) {
    bool own = false;
    PyObject *parts = at.depth < DEEPEST ? parts_of(st, tensor, &own) : NULL;
    *out = (weight){-1, -1, -1, -1};
    if (!parts && PyErr_Occurred()) return false;
    if (own) return weigh_own(st, tensor, at.sharded, seen, out);
    bool ok = !parts || weigh_parts(st, tensor, parts, at, seen, out);
    Py_XDECREF(parts);
    return ok;
}

bool lmx_weigh(lmx_state *st, PyObject *tensor, PyObject *seen, lmx_stored *out) {
    bool own;
    weight w = {-1, -1, -1, -1};
    PyObject *parts = parts_of(st, tensor, &own);
    bool ok = parts ? weigh_parts(st, tensor, parts, (inside){0, false}, seen, &w) : !PyErr_Occurred();
    bool split = w.elements_here >= 0 && w.elements_here < w.elements;
    Py_XDECREF(parts);
    *out = (lmx_stored){w.bytes, w.here, split ? w.elements - w.elements_here : 0, !own};
    return ok;
}
