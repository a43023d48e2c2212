/* SPDX-License-Identifier: Apache-2.0
 * The address of a tensor's memory and of its gradient: by torch's own functions if they are exported,
 * which makes no Python object, otherwise by attributes. */
#include "torch/addresses.h"
#include "base/ext.h"
#include "native/layout.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <stdio.h>

/* == torch's allocator ================================================================================= */

bool lmx_allocator_find(lmx_allocator *f, char *why, size_t size) {
    static lmx_allocator found; /* torch stays loaded */
    *f = found;
    if (f->alloc) return true;
    void *library = lmx_torch_library();
    *f = (lmx_allocator){NULL, NULL, NULL};
    if (!library) {
        snprintf(why, size, "libtorch_cpu was not found among the loaded libraries");
        return false;
    }
    f->alloc = dlsym(library, "_ZN3c109alloc_cpuEm");
    f->free = dlsym(library, "_ZN3c108free_cpuEPv");
    lmx_symbol(library, "aoti_torch_get_storage_size", &f->storage_size);
    dlclose(library); /* torch keeps it loaded */
    if (f->alloc && f->free) {
        found = *f;
        return true;
    }
    snprintf(why, size, "this torch does not export the functions of its allocator");
    return false;
}

PyObject *lmx_new_tensor(PyObject *torch, long elements) {
    PyObject *empty = torch ? PyObject_GetAttrString(torch, "empty") : NULL;
    PyObject *args = Py_BuildValue("(l)", elements), *kwargs = Py_BuildValue("{s:s}", "device", "cpu");
    PyObject *tensor = empty && args && kwargs ? PyObject_Call(empty, args, kwargs) : NULL;
    Py_XDECREF(empty);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return tensor;
}

/* == addresses of tensors ============================================================================== */

int64_t lmx_ask(PyObject *o, const char *method) {
    PyObject *value = PyObject_CallMethod(o, method, NULL);
    int64_t n = value && PyLong_Check(value) ? (int64_t)PyLong_AsUnsignedLongLongMask(value) : 0;
    Py_XDECREF(value);
    PyErr_Clear();
    return n;
}

/* True if the memory may be shared with another tensor until one of them is written to. From PyTorch 2.14 on
 * it is not known of a class with a __torch_dispatch__ of its own. */
static bool may_be_shared_lazily(PyObject *tensor) {
    PyObject *torch = PyImport_ImportModule("torch._C");
    PyObject *ask = torch ? PyObject_GetAttrString(torch, "_is_cow_tensor") : NULL;
    PyObject *yes = ask ? PyObject_CallFunctionObjArgs(ask, tensor, NULL) : NULL;
    const bool may = ask && yes != Py_False;
    Py_XDECREF(yes);
    Py_XDECREF(ask);
    Py_XDECREF(torch);
    PyErr_Clear();
    return may;
}

/* A storage has no address for reading alone. */
uint64_t lmx_storage_address(const lmx_state *st, PyObject *tensor, PyObject *storage) {
    if (!may_be_shared_lazily(tensor)) return (uint64_t)lmx_ask(storage, "data_ptr");
    PyObject *first = lmx_read_address(st, tensor);
    const uint64_t at = first && PyLong_Check(first) ? PyLong_AsUnsignedLongLongMask(first) : 0;
    Py_XDECREF(first);
    PyErr_Clear();
    return at ? at - (uint64_t)(lmx_ask(tensor, "storage_offset") * lmx_ask(tensor, "element_size")) : 0;
}

void lmx_locate_storage(lmx_state *st, PyObject *tensor, lmx_address_of *out) {
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    PyErr_Clear();
    if (!storage) return;
    out->address = lmx_storage_address(st, tensor, storage);
    out->bytes = lmx_ask(storage, "nbytes");
    Py_DECREF(storage);
}

static bool is_elsewhere(int32_t device) { return device > LMX_CPU && device != LMX_META; }

/* Locates a tensor's memory by the handle (an at::Tensor); false if that does not work. */
static bool locate_handle(lmx_state *st, const lmx_allocator *f, void *handle, lmx_address_of *out) {
    const lmx_shim *s = &st->torch.shim;
    int64_t offset = 0, bytes = 0;
    int32_t device = -1, dtype = -1;
    uint64_t data;
    if (!s->offset || !f->storage_size || s->device(handle, &device) || s->dtype(handle, &dtype))
        return false;
    *out = (lmx_address_of){.elsewhere = is_elsewhere(device)};
    if (device != LMX_CPU || !lmx_has_memory(lmx_layout_of(st), handle)) return true;
    if (!lmx_data_of(s, handle, &data) || !data) return true;
    if (s->offset(handle, &offset) || f->storage_size(handle, &bytes)) return false;
    out->address = data - (uint64_t)offset * (uint64_t)lam_dtype_bits(dtype) / 8;
    out->bytes = bytes;
    return true;
}

bool lmx_locate(lmx_state *st, const lmx_allocator *f, PyObject *tensor, lmx_address_of *out) {
    lmx_tensor t;
    lmx_kind kind = lmx_kind_of(st, tensor);
    *out = (lmx_address_of){0, 0, false};
    if (kind != LMX_PLAIN) {
        lmx_locate_storage(st, tensor, out); /* a tensor that wraps others has no address */
        return true;
    }
    if (st->torch.offset >= 0 && locate_handle(st, f, (char *)tensor + st->torch.offset, out)) return true;
    if (!lmx_describe(st, tensor, kind, &t)) return false;
    out->elsewhere = is_elsewhere(t.device);
    if (t.device == LMX_CPU && t.storage) lmx_locate_storage(st, tensor, out);
    return true;
}

/* == gradients ========================================================================================= */

static struct {
    bool tried;
    const void *(*of)(const void *object); /* of the C++ object behind a tensor; NULL: read it from Python */
    uint64_t none;                         /* what the handle points to if there is no gradient */
} gradient;

static const void *object_of(const lmx_state *st, PyObject *tensor) {
    const void *object;
    memcpy(&object, (const char *)tensor + st->torch.offset, sizeof object);
    return object;
}

static bool gives(const lmx_state *st, PyObject *tensor, const void *wanted) {
    return lmx_word_at(gradient.of(object_of(st, tensor)), 0) == (uint64_t)(uintptr_t)wanted;
}

static bool follows(const lmx_state *st, PyObject *one, PyObject *grad) {
    gradient.none = lmx_word_at(gradient.of(object_of(st, one)), 0);
    const void *none = (const void *)(uintptr_t)gradient.none, *other = object_of(st, grad); /* NOLINT */
    return none && none != other && PyObject_SetAttr(one, st->n_grad, grad) == 0 && gives(st, one, other) &&
           PyObject_SetAttr(one, st->n_grad, Py_None) == 0 && gives(st, one, none) && gives(st, grad, none);
}

void lmx_gradient_prove(lmx_state *st) {
    if (gradient.tried || st->torch.offset < 0) return;
    gradient.tried = true;
    PyObject *torch = PyImport_ImportModule("torch");
    void *library = lmx_torch_library();
    PyObject *one = lmx_new_tensor(torch, 3), *grad = one ? lmx_new_tensor(torch, 3) : NULL;
    bool plain = grad && Py_TYPE(one) == st->torch.tensor && Py_TYPE(grad) == st->torch.tensor;
    if (library && plain) lmx_symbol(library, "_ZNK3c1010TensorImpl4gradEv", &gradient.of);
    if (plain && gradient.of && !follows(st, one, grad)) gradient.of = NULL;
    PyErr_Clear();
    if (library) dlclose(library);
    Py_XDECREF(one);
    Py_XDECREF(grad);
    Py_XDECREF(torch);
}

bool lmx_gradient_locate(lmx_state *st, const lmx_allocator *f, PyObject *tensor, lmx_address_of *out) {
    *out = (lmx_address_of){0};
    if (!gradient.of || st->torch.offset < 0 || lmx_kind_of(st, tensor) != LMX_PLAIN) return false;
    const void *object = object_of(st, tensor), *handle = object ? gradient.of(object) : NULL;
    if (!handle) return false;
    if (lmx_word_at(handle, 0) == gradient.none) return true;
    return locate_handle(st, f, (void *)(uintptr_t)handle, out); /* NOLINT */
}
