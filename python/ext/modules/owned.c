/* SPDX-License-Identifier: Apache-2.0
 * The tensors of a module as facts of a model: parameters, buffers and packed weights, where their memory
 * lies, and whether they got a gradient. */
#include "base/ext.h"
#include "modules/describer.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"

typedef lmx_describer describer;

/* Pushes whether the tensor got a gradient, if that was checked. */
static bool push_gradient(describer *t, PyObject *tensor, int32_t index) {
    PyObject *id = t->c->backward.gradients ? PyLong_FromVoidPtr(tensor) : NULL;
    PyObject *came = id ? PyDict_GetItemWithError(t->c->backward.gradients, id) : NULL;
    Py_XDECREF(id);
    if (!came) return !PyErr_Occurred();
    bool is_there = PyTuple_Check(came) && PyTuple_GetItem(came, 1) == Py_True;
    return lmx_pushed(t, lam_build_gradient(t->b, index, is_there, &t->e));
}

/* Pushes where a tensor's memory lies: in others, and in other processes. */
static bool push_inside(describer *t, PyObject *tensor, int32_t index) {
    lmx_stored s;
    if (!lmx_weigh(t->st, tensor, t->stored, &s)) return false;
    if (!s.wraps) return true;
    return (!s.elsewhere || lmx_pushed(t, lam_build_elsewhere(t->b, index, s.elsewhere, &t->e))) &&
           lmx_pushed(t, lam_build_wraps(t->b, index, s.bytes, s.here, &t->e));
}

bool lmx_find_gathered(describer *t) {
    t->gathered = lmx_gathered(t->st, &t->c->tree);
    for (Py_ssize_t i = 0; t->gathered && i < PyList_Size(t->gathered); i++)
        if (!lmx_map_put(&t->by_pair, PyList_GetItem(t->gathered, i), (int32_t)i)) return lmx_nomem();
    return t->gathered != NULL;
}

/* What FSDP2 gathered is described as the shards, which this process keeps. */
static PyObject *kept_for(describer *t, PyObject *tensor) {
    int32_t at = lmx_map_get(&t->by_pair, tensor);
    return at < 0 || at % 2 ? tensor : PyList_GetItem(t->gathered, at + 1);
}

/* Operators read what was gathered of a shard in its place. */
static bool push_gathered(describer *t, PyObject *shard, int32_t index) {
    int32_t at = lmx_map_get(&t->by_pair, shard);
    if (at < 0) return true;
    PyObject *gathered = PyList_GetItem(t->gathered, at - 1);
    lmx_tensor d;
    return lmx_describe(t->st, gathered, lmx_kind_of(t->st, gathered), &d) &&
           lmx_pushed(t, lam_build_alias(t->b, index, d.memory, d.object, &t->e));
}

/* The bytes of all the memory that a tensor lies in; 0: unknown. */
static int64_t storage_bytes(const describer *t, PyObject *tensor, lmx_kind kind, const lmx_tensor *d) {
    const lmx_torch *torch = &t->st->torch;
    int64_t bytes = 0;
    if (kind != LMX_PLAIN || !d->storage || torch->offset < 0 || !torch->shim.storage) return 0;
    return torch->shim.storage((char *)tensor + torch->offset, &bytes) || bytes < 0 ? 0 : bytes;
}

/* The bytes in which a tensor is stored that has fewer elements in memory than its shape says, as an expanded
 * one; -1: as many as its shape says, or unknown. */
static int64_t fewer_bytes(const describer *t, PyObject *tensor, const lmx_tensor *d, int64_t storage) {
    const lmx_torch *torch = &t->st->torch;
    int64_t *strides = NULL, whole = lam_dtype_bits(d->dtype) / 8;
    if (storage <= 0 || whole <= 0 || !torch->shim.strides) return -1;
    for (int32_t i = 0; i < d->ndim; i++)
        if (__builtin_mul_overflow(whole, d->sizes[i], &whole)) return -1;
    if (torch->shim.strides((char *)tensor + torch->offset, &strides)) return -1;
    const int64_t span = lmx_span(d->dtype, d->ndim, d->sizes, strides);
    return span < whole ? span : -1;
}

static bool push_tensor(describer *t, PyObject *tensor, int32_t *index) {
    lmx_tensor d;
    lmx_kind kind = lmx_kind_of(t->st, tensor);
    if ((t->early ? !lmx_is_torchs(t->st, tensor) : kind != LMX_PLAIN) && !lmx_describer_may_run(t))
        return false;
    if (!lmx_describe(t->st, tensor, kind, &d)) return false;
    bool wanted;
    if (!lmx_wants_grad(t->st, tensor, &wanted) && lmx_must_raise()) return false;
    lam_tensor_info info = {.dtype = d.dtype,
                            .ndim = d.ndim,
                            .sizes = d.sizes,
                            .bytes = -1,
                            .requires_grad = wanted,
                            .storage = d.memory,
                            .object = d.object,
                            .storage_bytes = storage_bytes(t, tensor, kind, &d)};
    info.bytes = fewer_bytes(t, tensor, &d, info.storage_bytes);
    bool sparse = false;
    lmx_sparse kept;
    if (!d.storage && !lmx_sparse_read(tensor, &kept, &sparse)) return false;
    if (sparse) info.bytes = kept.bytes;
    if (sparse && info.bytes < 0) info.dtype = -1; /* the bytes that it takes are unknown */
    if (!lmx_pushed(t, lam_build_tensor(t->b, &info, index, &t->e))) return false;
    if (kind != LMX_PLAIN && !push_inside(t, tensor, *index)) return false;
    return push_gradient(t, tensor, *index) && push_gathered(t, tensor, *index);
}

static bool tensor_index(describer *t, PyObject *tensor, int32_t *index) {
    PyObject *kept = kept_for(t, tensor);
    *index = lmx_map_get(&t->by_tensor, kept);
    if (*index < 0) {
        if (PyList_Append(t->held, kept) < 0 || !push_tensor(t, kept, index)) return false;
        if (!lmx_map_put(&t->by_tensor, kept, *index)) return lmx_nomem();
    }
    return kept == tensor || lmx_map_put(&t->by_tensor, tensor, *index) || lmx_nomem();
}

static bool push_owned(void *self, PyObject *name, PyObject *tensor) {
    describer *t = self;
    int32_t index;
    if (!lmx_is_tensor(t->st, tensor)) return true; /* None: registered and absent */
    if (!tensor_index(t, tensor, &index)) return false;
    return lmx_pushed(t, lam_build_owns(t->b, t->module, lmx_utf8(name), index, t->is_buffer, &t->e));
}

bool lmx_push_tensors(describer *t, PyObject *module, PyObject *dict, PyObject *kind, bool is_buffer) {
    t->is_buffer = is_buffer;
    PyObject *owned = lmx_registered(t->st, module, dict, kind);
    bool ok =
        (!owned || lmx_answers(owned) || lmx_describer_may_run(t)) && lmx_each(t->st, owned, push_owned, t);
    Py_XDECREF(owned);
    return ok;
}

enum { HALF = 2, FLOAT32 = 6, FIRST_QUANTISED = 12, LAST_QUANTISED = 17 };

/* A weight that is not quantised is packed in half precision and unpacks as float32. Integers are
 * settings. */
static bool push_packed_tensor(describer *t, const char *name, const lmx_tensor *d) {
    static const lam_tensor_info nothing = {.dtype = -1, .ndim = -1, .bytes = -1};
    lam_tensor_info info = nothing;
    int32_t index;
    if (d) {
        bool quantised = d->dtype >= FIRST_QUANTISED && d->dtype <= LAST_QUANTISED;
        if (!quantised && d->dtype != FLOAT32) return true;
        info.dtype = d->dtype;
        info.ndim = d->ndim;
        info.sizes = d->sizes;
        if (!quantised && d->ndim > 1) info.bytes = HALF;
        for (int32_t i = 0; info.bytes > 0 && i < d->ndim; i++) info.bytes *= d->sizes[i];
    }
    return lmx_pushed(t, lam_build_tensor(t->b, &info, &index, &t->e)) &&
           lmx_pushed(t, lam_build_packed(t->b, index, &t->e)) &&
           lmx_pushed(t, lam_build_owns(t->b, t->module, name, index, true, &t->e));
}

static bool push_packed_list(describer *t, const char *name, PyObject *tensors) {
    uint64_t seen[16]; /* of one layer, which may hold a bias twice */
    int n_seen = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(tensors); i++) {
        PyObject *tensor = PyList_GetItem(tensors, i);
        lmx_tensor d;
        bool twice = false;
        if (!lmx_describe(t->st, tensor, lmx_kind_of(t->st, tensor), &d)) return false;
        for (int k = 0; d.storage && k < n_seen; k++) twice = twice || seen[k] == d.storage;
        if (d.storage && n_seen < 16) seen[n_seen++] = d.storage;
        if (!twice && !push_packed_tensor(t, name, &d)) return false;
    }
    return true;
}

/* `item`: a name and a value of a layer's dict. */
static bool push_packed_value(describer *t, PyObject *item) {
    PyObject *name = PyTuple_GetItem(item, 0);
    bool complete;
    PyObject *tensors = lmx_unpacked(t->st, PyTuple_GetItem(item, 1), &complete);
    if (!tensors) return !PyErr_Occurred();
    bool ok = push_packed_list(t, lmx_utf8(name), tensors) &&
              (complete || push_packed_tensor(t, lmx_utf8(name), NULL));
    Py_DECREF(tensors);
    return ok;
}

bool lmx_push_packed(describer *t, PyObject *dict, const lmx_class *k) {
    if (!k->packs) return true;
    if (!lmx_describer_may_run(t)) return false;
    PyObject *items = dict && PyDict_Check(dict) ? PyDict_Items(dict) : PyList_New(0);
    bool ok = items != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_Size(items); i++)
        ok = push_packed_value(t, PyList_GetItem(items, i));
    Py_XDECREF(items);
    return ok;
}
