/* SPDX-License-Identifier: Apache-2.0
 * The values of a tensor, through torch's C functions (about ten nanoseconds before the first byte is
 * read) or, if those are missing, through its attributes. */
#include "torch/values.h"
#include "base/ext.h"
#include "process/device_values.h"
#include "torch/tensor.h"

enum { LONG = 1 << 20, WORTH_KNOWING = 1 << 14 }; /* bytes */

/* == reading ============================================================================================= */

static lmx_seen read_values(const lmx_looker *k, const lmx_where_values *at, lmx_look *out) {
    lam_stats *stats = k->wants_stats ? &out->stats : NULL;
    if (at->gpu >= 0)
        return lmx_device_values(k->gpu, at->gpu, &at->v, &out->found, stats) ? LMX_SEEN : LMX_NOT_TO_READ;
    if (lam_values_scan(&at->v, &out->found, NULL) != LAM_OK) return LMX_NOT_TO_READ;
    if (stats) lam_values_stats(&at->v, stats, NULL);
    return LMX_SEEN;
}

/* Reads long ones without the GIL: the caller holds the tensor. */
static lmx_seen read_checked(const lmx_looker *k, const lmx_where_values *at, bool gil, lmx_look *out) {
    const lam_values *v = &at->v;
    int64_t n = lmx_count_values(v);
    out->gpu = at->gpu >= 0;
    out->data = (uint64_t)(uintptr_t)v->data;
    if (n == 0) return LMX_NEVER_BAD;
    if (n < 0 || !lmx_has_values(at)) return LMX_NOT_TO_READ;
    out->bytes = n * (lam_dtype_bits(v->dtype) / 8);
    if (!gil || (out->bytes < LONG && at->gpu < 0)) return read_values(k, at, out);
    PyThreadState *state = PyEval_SaveThread();
    lmx_seen seen = read_values(k, at, out);
    PyEval_RestoreThread(state);
    return seen;
}

/* Statistics are of the values; those in memory have the opposite sign. */
static void turn_signs(lam_stats *s) {
    const double least = s->least;
    s->least = -s->greatest;
    s->greatest = -least;
    s->mean = -s->mean;
}

static void keep_shape(lmx_look *out, int32_t dtype, int64_t ndim, const int64_t *sizes) {
    out->dtype = dtype;
    out->ndim = ndim <= LAM_MAX_AXES ? (int32_t)ndim : -1;
    for (int32_t i = 0; i < out->ndim; i++) out->sizes[i] = sizes[i];
}

static void clear(lmx_look *out) {
    out->found = (lam_nonfinite){.first = -1};
    out->data = out->storage = 0;
    out->bytes = 0;
    out->whole = out->gpu = false;
    out->dtype = out->ndim = -1;
    out->stats = (lam_stats){0};
}

/* The storage of the values of a sparse or nested tensor. */
static uint64_t stored_at(const lmx_looker *k, const void *handle, int32_t dtype) {
    const lmx_layout *l = lmx_layout_of(k->st);
    void *values = lmx_stored_values(l, k->shim, handle);
    lmx_where_values at;
    const uint64_t begin =
        values && lmx_find_values(l, k->shim, k->gpu, values, dtype, &at) ? lmx_begin_of_values(&at) : 0;
    if (values) k->shim->release(values);
    return begin;
}

uint64_t lmx_look_storage(const lmx_looker *k, const void *handle) {
    void *h = (void *)(uintptr_t)handle;
    int32_t dtype;
    lmx_where_values at;
    if (lmx_is_undefined(k->shim, h) || k->shim->dtype(h, &dtype) || !lam_dtype_is_float(dtype)) return 0;
    if (!lmx_find_values(lmx_layout_of(k->st), k->shim, k->gpu, h, dtype, &at)) return stored_at(k, h, dtype);
    return lmx_begin_of_values(&at);
}

/* Reads those values. Their indices are not the tensor's. */
static lmx_seen look_at_stored(const lmx_looker *k, const void *handle, int32_t dtype, bool gil,
                               lmx_look *out) {
    const lmx_layout *l = lmx_layout_of(k->st);
    void *values = lmx_stored_values(l, k->shim, handle);
    lmx_seen seen = LMX_NOT_TO_READ;
    lmx_where_values at;
    if (!values) return seen;
    if (lmx_find_values(l, k->shim, k->gpu, values, dtype, &at)) {
        seen = read_checked(k, &at, gil, out);
        if (seen == LMX_SEEN) out->storage = lmx_begin_of_values(&at);
        out->whole = out->bytes == at.storage;
        out->found.first = -1;
    }
    k->shim->release(values);
    return seen;
}

lmx_seen lmx_look_at(const lmx_looker *k, const void *handle, bool gil, lmx_look *out) {
    const lmx_shim *s = k->shim;
    void *h = (void *)(uintptr_t)handle;
    int32_t dtype;
    lmx_where_values at = {.v.sizes = NULL};
    clear(out);
    /* Its dtype is the number of a real dtype in a later torch, and each further question raises in C++. */
    if (lmx_is_undefined(s, h)) return LMX_NEVER_BAD;
    if (s->dtype(h, &dtype)) return LMX_NOT_TO_READ;
    if (!lam_dtype_is_float(dtype)) return LMX_NEVER_BAD;
    bool found = lmx_find_values(lmx_layout_of(k->st), s, k->gpu, h, dtype, &at);
    if (at.v.sizes) keep_shape(out, dtype, at.v.ndim, at.v.sizes);
    if (!found) return look_at_stored(k, h, dtype, gil, out);
    lmx_seen seen = read_checked(k, &at, gil, out);
    if (seen == LMX_SEEN) out->storage = lmx_begin_of_values(&at);
    out->whole = out->bytes == at.storage;
    if (k->wants_stats && s->negated && s->negated(h)) turn_signs(&out->stats);
    return seen;
}

/* == through attributes ================================================================================== */

static bool ask(PyObject *o, PyObject *name, int64_t *out) {
    PyObject *result = PyObject_CallMethodObjArgs(o, name, NULL);
    bool ok = result && PyLong_Check(result);
    *out = ok ? PyLong_AsLongLong(result) : -1;
    Py_XDECREF(result);
    return ok && !PyErr_Occurred();
}

static bool ask_strides(PyObject *tensor, PyObject *name, int32_t ndim, int64_t *out) {
    PyObject *result = PyObject_CallMethodObjArgs(tensor, name, NULL);
    bool ok = result && PyTuple_Check(result) && PyTuple_Size(result) == ndim;
    for (int32_t i = 0; ok && i < ndim; i++) {
        PyObject *one = PyTuple_GetItem(result, i);
        ok = PyLong_Check(one);
        if (ok) out[i] = PyLong_AsLongLong(one);
    }
    Py_XDECREF(result);
    return ok && !PyErr_Occurred();
}

static bool ask_storage(const lmx_looker *k, PyObject *tensor, int64_t *out) {
    PyObject *storage = PyObject_CallMethodObjArgs(tensor, k->n_storage, NULL), *n = NULL;
    if (!storage) {
        PyErr_Clear();
        storage = PyObject_CallMethod(tensor, "storage", NULL);
    }
    if (storage) n = PyObject_CallMethod(storage, "nbytes", NULL);
    bool ok = n && PyLong_Check(n);
    if (ok) *out = PyLong_AsLongLong(n);
    Py_XDECREF(n);
    Py_XDECREF(storage);
    return ok && !PyErr_Occurred();
}

static lmx_seen by_attributes(const lmx_looker *k, PyObject *tensor, lmx_look *out) {
    lmx_tensor t;
    int64_t strides[LMX_DIMS];
    lmx_where_values at = {.gpu = -1};
    if (!lmx_describe(k->st, tensor, LMX_PLAIN, &t) || t.ndim < 0) return LMX_NOT_TO_READ;
    if (t.dtype >= 0 && !lam_dtype_is_float(t.dtype)) return LMX_NEVER_BAD;
    if (t.dtype < 0 || t.device != 0) return LMX_NOT_TO_READ;
    keep_shape(out, t.dtype, t.ndim, t.sizes);
    if (!ask_strides(tensor, k->n_stride, t.ndim, strides) || !ask(tensor, k->n_offset, &at.offset) ||
        !ask_storage(k, tensor, &at.storage))
        return LMX_NOT_TO_READ;
    at.v = (lam_values){(const void *)(uintptr_t)t.storage, t.dtype, t.ndim, t.sizes, strides};
    lmx_seen seen = read_checked(k, &at, true, out);
    PyObject *negated = k->wants_stats ? PyObject_CallMethod(tensor, "is_neg", NULL) : NULL;
    if (negated == Py_True) turn_signs(&out->stats);
    Py_XDECREF(negated);
    return seen;
}

/* == results that are known ============================================================================ */

static size_t slot_of(PyObject *tensor) { return ((uintptr_t)tensor >> 4 ^ (uintptr_t)tensor >> 10) & 63; }

int64_t lmx_look_version(const lmx_looker *k, PyObject *tensor) {
    PyObject *result = PyObject_GetAttr(tensor, k->n_version);
    int64_t v = result && PyLong_Check(result) ? PyLong_AsLongLong(result) : -1;
    Py_XDECREF(result);
    PyErr_Clear();
    return v;
}

/* The slot of this same tensor, if unchanged; otherwise -1. torch does not count writes through `.data`,
 * so they are not noticed. */
static int32_t known_at(lmx_looker *k, PyObject *tensor) {
    size_t i = slot_of(tensor);
    if (!k->known[i].ref || k->known[i].tensor != tensor) return -1;
    if (PyWeakref_GetObject(k->known[i].ref) != tensor) return -1;
    return k->known[i].version >= 0 && lmx_look_version(k, tensor) == k->known[i].version ? (int32_t)i : -1;
}

static void know(lmx_looker *k, PyObject *tensor, const lmx_look *look, bool allowed) {
    size_t i = slot_of(tensor);
    int64_t version = lmx_look_version(k, tensor);
    Py_CLEAR(k->known[i].ref);
    if (version < 0) return;
    k->known[i].ref = PyWeakref_NewRef(tensor, NULL);
    PyErr_Clear();
    k->known[i].tensor = tensor;
    k->known[i].data = look->data;
    k->known[i].storage = look->storage;
    k->known[i].version = version;
    k->known[i].allowed = allowed;
    k->known[i].found = look->found;
}

void lmx_look_allow(lmx_looker *k, PyObject *tensor, const lmx_look *look) { know(k, tensor, look, true); }

/* True if its memory was checked and has not changed since; the shape may be of another view. */
static bool is_known(lmx_looker *k, PyObject *tensor, lmx_look *out, lmx_seen *seen) {
    int32_t i = known_at(k, tensor);
    lmx_tensor t;
    if (i < 0 || (k->wants_stats && !k->known[i].allowed)) return false;
    clear(out);
    if (!lmx_describe(k->st, tensor, LMX_PLAIN, &t) || t.storage != k->known[i].data) return false;
    keep_shape(out, t.dtype, t.ndim < 0 ? LAM_MAX_AXES + 1 : t.ndim, t.sizes);
    out->data = t.storage;
    out->storage = k->known[i].storage;
    if (!k->known[i].allowed) out->found = k->known[i].found;
    *seen = LMX_SEEN;
    return true;
}

bool lmx_look_into(lmx_looker *k, PyObject *tensor, lmx_kind kind, lmx_look *out, lmx_seen *seen) {
    if (kind != LMX_PLAIN) {
        clear(out);
        *seen = LMX_NOT_TO_READ;
        return true;
    }
    if (is_known(k, tensor, out, seen)) return true;
    if (k->by_shim) {
        *seen = lmx_look_at(k, (char *)tensor + k->st->torch.offset, true, out);
    } else {
        clear(out);
        *seen = by_attributes(k, tensor, out);
        if (!lmx_forgive()) return false;
    }
    if (*seen == LMX_SEEN && (out->gpu || out->bytes >= WORTH_KNOWING)) know(k, tensor, out, false);
    return true;
}

/* == opening ============================================================================================= */

static bool intern_names(lmx_looker *k) {
    k->n_version = PyUnicode_InternFromString("_version");
    k->n_stride = PyUnicode_InternFromString("stride");
    k->n_offset = PyUnicode_InternFromString("storage_offset");
    k->n_storage = PyUnicode_InternFromString("untyped_storage");
    return k->n_version && k->n_stride && k->n_offset && k->n_storage;
}

/* True if the functions agree with the attributes of a transposed tensor. */
static bool tells_truth(lmx_looker *k, PyObject *torch) {
    PyObject *whole = PyObject_CallMethod(torch, "ones", "ii", 3, 5);
    PyObject *probe = whole ? PyObject_CallMethod(whole, "t", NULL) : NULL;
    int64_t strides[2], offset, storage, *listed = NULL, bytes = 0;
    bool ok = probe && lmx_kind_of(k->st, probe) == LMX_PLAIN &&
              ask_strides(probe, k->n_stride, 2, strides) && ask(probe, k->n_offset, &offset) &&
              ask_storage(k, probe, &storage);
    void *handle = ok ? (char *)probe + k->st->torch.offset : NULL;
    ok = ok && !k->shim->strides(handle, &listed) && !k->shim->storage(handle, &bytes) &&
         listed[0] == strides[0] && listed[1] == strides[1] && bytes == storage;
    Py_XDECREF(probe);
    Py_XDECREF(whole);
    PyErr_Clear();
    return ok;
}

/* Tests the functions once in a process. False with an exception. */
static bool try_shim(lmx_looker *k) {
    const lmx_shim *s = k->shim;
    PyObject *torch = PyImport_ImportModule("torch");
    if (!torch) return false;
    bool found = k->st->torch.offset >= 0 && s->offset && s->strides && s->storage;
    k->st->torch.reads = found && tells_truth(k, torch) ? 1 : -1;
    Py_DECREF(torch);
    return true;
}

bool lmx_looker_open(lmx_looker *k, lmx_state *st) {
    lmx_looker_close(k); /* it may have been open before */
    k->st = st;
    k->shim = &st->torch.shim;
    if (!intern_names(k)) return false;
    if (!st->torch.reads && !try_shim(k)) return false;
    k->by_shim = st->torch.reads > 0;
    return true;
}

void lmx_looker_forget(lmx_looker *k) {
    for (size_t i = 0; i < sizeof k->known / sizeof *k->known; i++) Py_CLEAR(k->known[i].ref);
}

void lmx_looker_close(lmx_looker *k) {
    lmx_looker_forget(k);
    Py_CLEAR(k->n_version);
    Py_CLEAR(k->n_stride);
    Py_CLEAR(k->n_offset);
    Py_CLEAR(k->n_storage);
}

bool lmx_reads_values(lmx_state *st) {
    lmx_looker k = {.st = NULL};
    if (!st->torch.reads) {
        lmx_looker_open(&k, st);
        lmx_looker_close(&k);
        PyErr_Clear();
    }
    return st->torch.reads > 0;
}

/* == operators by name ================================================================================== */

/* True for operators that return uninitialised memory, whose values mean nothing. */
bool lmx_gives_unwritten(const char *name) {
    static const char *const all[] = {"aten::empty", "aten::new_empty", "aten::_empty", "aten::resize_",
                                      "aten::set_"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strncmp(name, all[i], strlen(all[i])) == 0) return true;
    return false;
}

/* True for copies and conversions: a number in another type is the same number. */
bool lmx_only_copies(const char *name) {
    static const char *const all[] = {"aten::copy_", "aten::_to_copy", "aten::to", "aten::lift_fresh",
                                      "aten::clone"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]) == 0) return true;
    return false;
}

/* True for views: their values were checked when they were written, or are not written yet. */
bool lmx_moves_nothing(const char *name) {
    int32_t word = lam_word_op(name);
    return word >= 0 && strcmp(lam_word_op_kind(word), "free") == 0;
}
