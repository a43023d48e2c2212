/* SPDX-License-Identifier: Apache-2.0
 * One tensor as facts, in two ways that must agree: libtorch's C functions (9 ns) and attribute reads
 * (260 ns). */
#include "torch/tensor.h"
#include "base/ext.h"
#include "native/layout.h"

/* -- what kind of value -------------------------------------------------------------------------------- */

/* Clears an exception that means no; after a MemoryError the answer is not sure. */
static void answered(bool *sure) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) *sure = false;
    PyErr_Clear();
}

/* True if the type has torch.Tensor's own `name`. */
static bool inherits(PyObject *type, PyObject *name, PyObject *expected, bool *sure) {
    PyObject *found = PyObject_GetAttr(type, name);
    answered(sure);
    bool same = found == expected;
    Py_XDECREF(found);
    return same;
}

/* True for a subclass of Tensor that its C object describes: nothing is dispatched to Python, and the three
 * attributes that are read are Tensor's own. */
static bool is_plain(lmx_state *st, PyObject *type, bool *sure) {
    lmx_torch *t = &st->torch;
    return inherits(type, st->n___torch_dispatch__, t->dispatch, sure) &&
           inherits(type, st->n_shape, t->shape, sure) && inherits(type, st->n_dtype, t->dtype, sure) &&
           inherits(type, st->n_device, t->device, sure);
}

static bool from_builtins(lmx_state *st, PyObject *type, bool *sure) {
    PyObject *module = PyObject_GetAttr(type, st->n___module__);
    answered(sure);
    bool yes = module && strcmp(lmx_utf8(module), "builtins") == 0;
    Py_XDECREF(module);
    return yes;
}

static bool has(PyObject *o, PyObject *name, bool *sure) {
    PyObject *found = PyObject_GetAttr(o, name);
    answered(sure);
    Py_XDECREF(found);
    return found != NULL;
}

static lmx_kind first_look(lmx_state *st, PyObject *o, bool *sure) {
    PyTypeObject *type = Py_TYPE(o);
    PyObject *as_object = (PyObject *)type;
    if (st->torch.fake && PyType_IsSubtype(type, st->torch.fake))
        return LMX_PLAIN; /* its values can't be
                           * read */
    if (PyType_IsSubtype(type, st->torch.tensor)) return is_plain(st, as_object, sure) ? LMX_PLAIN : LMX_ODD;
    if (PyTuple_Check(o)) return LMX_TUPLE;
    if (PyList_Check(o)) return LMX_LIST;
    if (PyDict_Check(o)) return LMX_DICT;
    if (PyType_Check(o) || PyModule_Check(o) || PyType_IsSubtype(type, st->torch.module)) return LMX_IGNORE;
    if (from_builtins(st, as_object, sure)) return LMX_IGNORE;
    PyObject *dict = lmx_dict_of(o);
    Py_XDECREF(dict);
    if (dict) return LMX_OBJECT;
    return has(as_object, st->n___dataclass_fields__, sure) ? LMX_FIELDS : LMX_IGNORE;
}

/* The cache holds its types, so that no other type can reuse their addresses. */
static void remember(lmx_torch *t, PyTypeObject *type, lmx_kind kind) {
    size_t at = ((uintptr_t)type >> 4 ^ (uintptr_t)type >> 12) & (LMX_TYPES - 1);
    PyTypeObject *old = t->types[at];
    Py_INCREF((PyObject *)type);
    t->types[at] = type;
    t->knows_types = true;
    t->kinds[at] = (uint8_t)kind;
    Py_XDECREF((PyObject *)old);
}

lmx_kind lmx_classify(lmx_state *st, PyObject *o) {
    PyObject *pending[3];
    bool sure = true;
    PyErr_Fetch(&pending[0], &pending[1], &pending[2]);
    lmx_kind kind = first_look(st, o, &sure);
    PyErr_Restore(pending[0], pending[1], pending[2]);
    if (sure) remember(&st->torch, Py_TYPE(o), kind);
    return kind;
}

/* identity of memory */

const lmx_layout *lmx_layout_of(const lmx_state *st) {
    static const lmx_layout unknown = {.storage = -1, .nested = -1};
    return st->watches_ops ? st->layout : &unknown;
}

/* Reading a fake tensor's data pointer prints a warning. */
uint64_t lmx_memory_here(const lmx_state *st, PyObject *tensor, lmx_kind kind) {
    const lmx_layout *l = lmx_layout_of(st);
    const char *handle = (char *)tensor + st->torch.offset;
    if (st->torch.offset < 0 || (kind != LMX_PLAIN && l->storage < 0)) return 0;
    return lmx_memory_of(l, &st->torch.shim, handle);
}

/* Sets the identities, which only captures of operators need. */
static void identify(lmx_state *st, PyObject *tensor, lmx_kind kind, lmx_tensor *out) {
    if (!st->identities) return;
    out->object = lmx_word_at((char *)tensor + st->torch.offset, 0);
    out->memory = lmx_memory_here(st, tensor, kind);
}

/* -- through the C functions --------------------------------------------------------------------------- */

static bool by_shim(const lmx_state *st, PyObject *tensor, lmx_tensor *out) {
    const lmx_shim *s = &st->torch.shim;
    const lmx_layout *l = lmx_layout_of(st);
    void *handle = (char *)tensor + st->torch.offset;
    int64_t dims = -1, first = 0, *sizes = NULL;
    if (!lmx_has_sizes(l, handle) || s->dim(handle, &dims) || s->sizes(handle, &sizes)) return false;
    if (dims < 0 || dims > LMX_DIMS || s->dtype(handle, &out->dtype) || s->device(handle, &out->device))
        return false;
    out->ndim = (int32_t)dims;
    out->sizes = sizes;
    out->storage = 0;
    /* Without memory, as after its storage was resized to 0, the address is the offset alone. */
    if (!lmx_has_memory(l, handle) || !lmx_data_of(s, handle, &out->storage) || !out->storage) return true;
    if (!s->offset || s->offset(handle, &first)) return true;
    if (out->storage == (uint64_t)first * (uint64_t)lam_dtype_bits(out->dtype) / 8) out->storage = 0;
    return true;
}

/* A copy: the next read of a user's class may change the tensor's sizes. */
static void take_own(lmx_tensor *t) {
    for (int32_t i = 0; i < t->ndim; i++) t->own[i] = t->sizes[i];
    t->sizes = t->own;
}

/* -- through the attributes ---------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int32_t number; /* c10::DeviceType */
} devices[] = {
    {"cpu", 0},    {"cuda", 1},
    {"mkldnn", 2}, {"opengl", 3},
    {"opencl", 4}, {"ideep", 5},
    {"hip", 6},    {"fpga", 7},
    {"maia", 8},   {"ort", 8},
    {"xla", 9},    {"vulkan", 10},
    {"metal", 11}, {"xpu", 12},
    {"mps", 13},   {"meta", 14},
    {"hpu", 15},   {"ve", 16},
    {"lazy", 17},  {"ipu", 18},
    {"mtia", 19},  {"privateuseone", 20},
};

static int32_t device_number(PyObject *type) {
    const char *name = lmx_utf8(type);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (strcmp(devices[i].name, name) == 0) return devices[i].number;
    return -1;
}

static int32_t dtype_number(const lmx_torch *t, PyObject *dtype) {
    for (int32_t i = 0; i < t->n_dtypes; i++)
        if (t->dtypes[i] == dtype) return t->dtype_numbers[i];
    return -1;
}

/* Sizes that are not plain ints (symbols of a traced shape) make the shape unknown. */
static void take_sizes(PyObject *shape, lmx_tensor *out) {
    Py_ssize_t n = PyTuple_Check(shape) ? PyTuple_Size(shape) : -1;
    if (n < 0 || n > LMX_DIMS) return;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *size = PyTuple_GetItem(shape, i);
        if (!size || !PyLong_Check(size)) return;
        out->own[i] = PyLong_AsLongLong(size);
    }
    out->ndim = (int32_t)n;
    out->sizes = out->own;
}

/* Reads an attribute; false only for an exception that must reach the user. */
static bool read_attr(PyObject *o, PyObject *name, PyObject **value) {
    *value = PyObject_GetAttr(o, name);
    return *value || lmx_forgive();
}

static bool read_device(lmx_state *st, PyObject *tensor, lmx_tensor *out) {
    PyObject *device, *type = NULL;
    if (!read_attr(tensor, st->n_device, &device)) return false;
    bool ok = !device || read_attr(device, st->n_type, &type);
    if (type) out->device = device_number(type);
    Py_XDECREF(device);
    Py_XDECREF(type);
    return ok;
}

PyObject *lmx_read_address(const lmx_state *st, PyObject *tensor) {
    const bool apart = PyObject_HasAttr((PyObject *)Py_TYPE(tensor), st->n_const_data_ptr);
    return PyObject_CallMethodObjArgs(tensor, apart ? st->n_const_data_ptr : st->n_data_ptr, NULL);
}

static bool read_storage(lmx_state *st, PyObject *tensor, lmx_tensor *out) {
    PyObject *at = lmx_read_address(st, tensor);
    if (!at) return lmx_forgive(); /* sparse and the like have none */
    if (PyLong_Check(at)) out->storage = PyLong_AsUnsignedLongLong(at);
    Py_DECREF(at);
    return lmx_forgive();
}

static bool by_attributes(lmx_state *st, PyObject *tensor, lmx_kind kind, lmx_tensor *out) {
    PyObject *shape, *dtype = NULL;
    if (!read_attr(tensor, st->n_shape, &shape)) return false;
    if (shape) take_sizes(shape, out);
    Py_XDECREF(shape);
    if (!read_attr(tensor, st->n_dtype, &dtype)) return false;
    if (dtype) out->dtype = dtype_number(&st->torch, dtype);
    Py_XDECREF(dtype);
    if (!read_device(st, tensor, out)) return false;
    /* A wrapper's data identifies nothing, and reading a fake tensor's prints a warning. */
    return kind != LMX_PLAIN || read_storage(st, tensor, out);
}

bool lmx_describe(lmx_state *st, PyObject *tensor, lmx_kind kind, lmx_tensor *out) {
    out->storage = out->memory = out->object = 0;
    if (st->torch.offset >= 0) identify(st, tensor, kind, out);
    if (kind == LMX_PLAIN && st->torch.offset >= 0 && by_shim(st, tensor, out)) {
        if (!lmx_is_torchs(st, tensor)) take_own(out);
        return true;
    }
    out->dtype = out->device = out->ndim = -1;
    out->sizes = out->own;
    out->storage = 0;
    return by_attributes(st, tensor, kind, out);
}
