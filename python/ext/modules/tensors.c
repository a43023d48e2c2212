/* SPDX-License-Identifier: Apache-2.0
 * Tensors of a snapshot. The values of buffers and of small tensors are copied, and restored where they
 * changed. Other parameters are only watched, because copies of all weights would double a model: torch's
 * count of writes to them, their address and a sample of their values.
 *
 * A buffer in the CPU's memory is copied byte by byte: cloning it through torch takes longer than many a
 * small layer. Its bytes are compared, since batch normalisation writes to its running statistics without
 * counting a version. */
#include "base/ext.h"
#include "modules/snapshot.h"
#include "torch/tensor.h"

#include <stdlib.h>
#include <string.h>

static PyObject *call(PyObject *o, PyObject *method, PyObject *arg) {
    return PyObject_CallMethodObjArgs(o, method, arg, NULL);
}

/* The most bytes of a tensor that is copied although it is no buffer; of an argument, of which there are few,
 * and which is else read whole; of all that a snapshot copies so. */
enum { SMALL = 1 << 14, SMALL_GIVEN = 1 << 20, MOST = 1 << 22 };

/* == remembering ======================================================================================= */

/* torch's count of in-place writes to the tensor; -1 if it has none (made in inference mode). False only
 * for an exception that must reach the user. */
static bool version_of(lmx_state *st, PyObject *tensor, int64_t *out) {
    PyObject *version = PyObject_GetAttr(tensor, st->n__version);
    *out = version ? PyLong_AsLongLong(version) : -1;
    Py_XDECREF(version);
    return lmx_forgive();
}

static PyObject *clone_of(lmx_state *st, PyObject *tensor) {
    PyObject *detached = call(tensor, st->n_detach, NULL);
    PyObject *clone = detached ? call(detached, st->n_clone, NULL) : NULL;
    Py_XDECREF(detached);
    return clone;
}

static bool is_dense(lmx_state *st, PyObject *tensor) {
    const lmx_torch *t = &st->torch;
    bool yes = false;
    if (t->offset >= 0 && t->shim.dense && lmx_kind_of(st, tensor) == LMX_PLAIN)
        return !t->shim.dense((char *)tensor + t->offset, &yes) && yes;
    PyObject *dense = call(tensor, st->n_is_contiguous, NULL);
    yes = dense == Py_True;
    Py_XDECREF(dense);
    return yes;
}

/* The number of bytes at d->storage if they are the tensor's values, one after another; else 0. */
static size_t plain_bytes(lmx_state *st, PyObject *tensor, const lmx_tensor *d) {
    int64_t bits = lam_dtype_bits(d->dtype), n = 1;
    if (d->device != LMX_CPU || !d->storage || bits <= 0 || bits % 8 != 0) return 0;
    for (int32_t i = 0; i < d->ndim; i++)
        if (__builtin_mul_overflow(n, d->sizes[i], &n)) return 0;
    if (__builtin_mul_overflow(n, bits / 8, &n)) return 0;
    return is_dense(st, tensor) ? (size_t)n : 0;
}

/* Keeps the memory that the tensor has now, to restore it. Leaves an exception to the caller. */
static void hold_on(lmx_snapshot *s, lmx_kept *k, const lmx_tensor *d) {
    if (lmx_kind_of(s->st, k->tensor) == LMX_PLAIN) k->held = lmx_hold(&s->st->torch, k->tensor, d);
    if (!k->held) k->data = call(k->tensor, s->st->n_detach, NULL);
}

static bool keep_bytes(lmx_snapshot *s, lmx_kept *k, const lmx_tensor *d) {
    size_t n = plain_bytes(s->st, k->tensor, d);
    if (!n) return lmx_forgive();
    k->bytes = lmi_copy(&s->values, (const void *)(uintptr_t)d->storage, n, 1);
    if (!k->bytes) return lmx_nomem();
    hold_on(s, k, d);
    k->n_bytes = k->held || k->data ? n : 0;
    return lmx_forgive();
}

static bool keep_values(lmx_snapshot *s, lmx_kept *k, const lmx_tensor *d) {
    if (d->device == LMX_META) return true;
    if (!keep_bytes(s, k, d)) return false;
    if (k->n_bytes) return true;
    if (d->storage) hold_on(s, k, d);
    if (!lmx_forgive()) return false;
    k->clone = clone_of(s->st, k->tensor);
    return lmx_forgive();
}

static uint64_t mixed(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 32;
}

/* Hashes words spread over a tensor's bytes: torch does not count writes by `.data` and numpy. Of a model's
 * many tensors a few words are read, of an argument all up to 16 MiB. Each word waits for the one before it
 * in its lane alone. */
static uint64_t sample_of(const lmx_kept *k, const char *data) {
    enum { FEW = 16, MANY = 1 << 21, LANES = 4 };
    uint64_t sums[LANES] = {0}, word;
    const size_t n = k->sampled, words = n / sizeof word;
    const size_t reads = k->node >= 0   ? FEW
                         : words < MANY ? words
                                        : MANY,
                 step = (n - sizeof word) / (reads - 1);
    for (size_t i = 0; i < reads; i++) {
        memcpy(&word, data + step * i, sizeof word);
        sums[i % LANES] = mixed(sums[i % LANES], word);
    }
    for (size_t lane = 1; lane < LANES; lane++) sums[0] = mixed(sums[0], sums[lane]);
    return sums[0];
}

static void take_sample(const lmx_state *st, lmx_kept *k, const lmx_tensor *d, size_t n) {
    k->memory = lmx_memory_here(st, k->tensor, LMX_PLAIN);
    k->sampled = n;
    k->sample = sample_of(k, (const char *)(uintptr_t)d->storage);
}

/* For a tensor that is no buffer: copies it if it is small. */
static bool keep_little(lmx_snapshot *s, lmx_kept *k, const lmx_tensor *d) {
    const size_t n = plain_bytes(s->st, k->tensor, d);
    if (!lmx_forgive()) return false;
    const size_t small = k->node >= 0 ? SMALL : SMALL_GIVEN;
    if (n && n <= small && s->values.used + n <= MOST) return keep_bytes(s, k, d);
    if (lmx_kind_of(s->st, k->tensor) != LMX_PLAIN) return true;
    if (n >= SMALL) take_sample(s->st, k, d, n);
    if (d->storage) hold_on(s, k, d);
    return lmx_forgive();
}

/* A hash of dtype, device and strides: how the values lie in memory, but for the address. */
static uint64_t form_of(lmx_state *st, PyObject *tensor, const lmx_tensor *d) {
    const lmx_torch *t = &st->torch;
    const bool readable = t->offset >= 0 && t->shim.strides && lmx_kind_of(st, tensor) == LMX_PLAIN;
    uint64_t form = ((uint64_t)(uint32_t)d->dtype << 32 | (uint32_t)d->device) + 1;
    int64_t *strides = NULL;
    if (!readable || !d->storage || t->shim.strides((char *)tensor + t->offset, &strides)) return form;
    for (int32_t i = 0; i < d->ndim; i++) form = (form ^ (uint64_t)strides[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return form;
}

static bool keep_flag(lmx_state *st, lmx_kept *k) {
    k->knows_grad = lmx_wants_grad(st, k->tensor, &k->requires_grad);
    return lmx_forgive();
}

static bool keep_grad(lmx_state *st, lmx_kept *k) {
    if (lmx_has_no_grad(st, k->tensor)) {
        Py_INCREF(Py_None);
        k->grad = Py_None;
        return true;
    }
    k->grad = PyObject_GetAttr(k->tensor, st->n_grad);
    return lmx_forgive();
}

/* The dict of its hooks of one kind: of those that get the gradient, or of those that run once it is there.
 * NULL if it has none. False only for an exception that must reach the user. */
static bool hooks_of(lmx_state *st, PyObject *tensor, int kind, PyObject **out) {
    *out = NULL;
    if (lmx_has_no_hooks(st, tensor)) return true;
    *out = PyObject_GetAttr(tensor, kind ? st->n__post_accumulate_grad_hooks : st->n__backward_hooks);
    if (*out && !PyDict_Check(*out)) Py_CLEAR(*out);
    return lmx_forgive();
}

/* True if it may have hooks: none can be given to a tensor that wants no gradient. Of arguments a forward may
 * change that. */
static bool may_have_hooks(const lmx_kept *k) { return k->requires_grad || k->node < 0; }

/* Keeps its hooks, and for a tensor of the model its attributes: those of arguments are kept elsewhere. */
static bool keep_dicts(lmx_snapshot *s, lmx_kept *k) {
    PyObject *own = k->node >= 0 ? lmx_dict_of(k->tensor) : NULL;
    bool ok = !own || !PyDict_Check(own) || lmx_container_keep(s, k->node, own, LMX_BOX_DICT);
    Py_XDECREF(own);
    for (int i = 0; ok && i < 2 && may_have_hooks(k); i++) {
        ok = hooks_of(s->st, k->tensor, i, &k->hooks[i]);
        if (ok && k->hooks[i]) ok = lmx_container_keep(s, k->node, k->hooks[i], LMX_BOX_DICT);
    }
    return ok;
}

/* Keeps a gradient's values like those of any tensor. */
static bool keep_grads_values(lmx_snapshot *s, const lmx_kept *k) {
    if (!k->grad || !lmx_is_tensor(s->st, k->grad)) return true;
    PyObject *grad = k->grad, *name = PyUnicode_FromFormat("%U.grad", k->name);
    const int32_t node = k->node; /* lmx_tensor_keep may move what `k` points to */
    Py_INCREF(grad);
    bool ok = name && lmx_tensor_keep(s, node, name, grad, false, false);
    Py_DECREF(grad);
    Py_XDECREF(name);
    return ok;
}

/* Keeps the rest. Each read may fail on a tensor of a user's class, which then is only compared. */
static bool fill(lmx_snapshot *s, lmx_kept *k, const lmx_tensor *d, bool registered, bool clone) {
    if (d->ndim < 0) { /* no shape yet: a lazy layer's, or one that hides it */
        k->data = PyObject_GetAttr(k->tensor, s->st->n_data);
        if (!lmx_forgive()) return false;
    } else if (!(clone ? keep_values(s, k, d) : keep_little(s, k, d))) {
        return false;
    }
    if (!version_of(s->st, k->tensor, &k->version)) return false;
    return keep_flag(s->st, k) && (!registered || keep_grad(s->st, k)) && keep_dicts(s, k);
}

bool lmx_tensor_keep(lmx_snapshot *s, int32_t node, PyObject *name, PyObject *tensor, bool registered,
                     bool clone) {
    const int32_t seen = lmx_map_get(&s->seen, tensor);
    if (seen >= 0) { /* maybe as an attribute of a module around this one */
        lmx_kept *again = (lmx_kept *)s->kept.data + seen;
        if (!registered || again->grad) return true;
        return keep_grad(s->st, again) && keep_grads_values(s, again);
    }
    lmx_tensor d;
    if (!lmx_describe(s->st, tensor, lmx_kind_of(s->st, tensor), &d)) return false;
    lmx_kept k = {.tensor = tensor, .name = name, .type = Py_TYPE(tensor), .node = node};
    k.ndim = d.ndim;
    k.storage = d.storage;
    k.form = form_of(s->st, tensor, &d);
    for (int32_t i = 0; i < d.ndim && i < 8; i++) k.sizes[i] = d.sizes[i];
    Py_INCREF(tensor);
    Py_INCREF(name);
    Py_INCREF((PyObject *)k.type);
    k.version = -1;
    bool ok = fill(s, &k, &d, registered, clone);
    ok = ok && (lmx_map_put(&s->seen, tensor, (int32_t)s->kept.n) || lmx_nomem());
    lmx_kept *at = ok ? lmx_vec_push(&s->kept, sizeof *at, 1) : NULL;
    if (at) {
        *at = k;
        return keep_grads_values(s, &k);
    }
    lmx_kept_free(&k, &s->st->torch);
    return ok && lmx_nomem();
}

void lmx_kept_free(lmx_kept *k, const lmx_torch *t) {
    if (k->held) t->shim.release(k->held);
    free(k->saved);
    k->held = NULL;
    k->saved = NULL;
    Py_CLEAR(k->tensor);
    Py_CLEAR(k->name);
    Py_CLEAR(k->clone);
    Py_CLEAR(k->grad);
    Py_CLEAR(k->hooks[0]);
    Py_CLEAR(k->hooks[1]);
    Py_CLEAR(k->data);
    Py_CLEAR(k->type);
}

/* == before a write ==================================================================================== */

/* True if the tensor's memory has `n` bytes from its first element on: a program may have resized it. */
static bool reaches(const lmx_state *st, PyObject *tensor, const lmx_tensor *d, size_t n) {
    const lmx_shim *shim = &st->torch.shim;
    void *handle = (char *)tensor + st->torch.offset;
    int64_t offset = 0, bytes = 0;
    if (!n || !d->storage) return !n;
    if (st->torch.offset < 0 || !shim->storage || !shim->offset) return true;
    if (shim->offset(handle, &offset) || shim->storage(handle, &bytes)) return true;
    return offset * lam_dtype_bits(d->dtype) / 8 + (int64_t)n <= bytes;
}

/* The number of bytes at d->storage from the tensor's first element to its last; 0 if they are none of the
 * CPU's memory. */
static size_t span_of(lmx_state *st, PyObject *tensor, const lmx_tensor *d) {
    const lmx_torch *t = &st->torch;
    int64_t *strides = NULL;
    if (d->device != LMX_CPU || !d->storage || lmx_kind_of(st, tensor) != LMX_PLAIN) return 0;
    if (t->offset < 0 || !t->shim.strides || t->shim.strides((char *)tensor + t->offset, &strides))
        return plain_bytes(st, tensor, d);
    return (size_t)lmx_span(d->dtype, d->ndim, d->sizes, strides);
}

bool lmx_tensor_save(lmx_snapshot *s, lmx_kept *k) {
    lmx_tensor d;
    if (k->n_bytes || k->saved || k->clone || k->parted) return true;
    if (!lmx_describe(s->st, k->tensor, lmx_kind_of(s->st, k->tensor), &d)) return false;
    if (d.device == LMX_META) return true;
    const size_t n = span_of(s->st, k->tensor, &d);
    if (!n) {
        k->clone = clone_of(s->st, k->tensor);
        return k->clone != NULL;
    }
    if (!reaches(s->st, k->tensor, &d, n)) return true; /* there is nothing to copy */
    k->saved = malloc(n);
    if (!k->saved) return lmx_nomem();
    memcpy(k->saved, (const void *)(uintptr_t)d.storage, n);
    k->n_saved = n;
    return true;
}

/* == comparing ========================================================================================= */

static bool has_moved(lmx_state *st, const lmx_kept *k, const lmx_tensor *d) {
    if (d->ndim != k->ndim || d->storage != k->storage || form_of(st, k->tensor, d) != k->form) return true;
    int32_t n = d->ndim < 8 ? d->ndim : 8;
    return n > 0 && memcmp(d->sizes, k->sizes, sizeof *k->sizes * (size_t)n) != 0;
}

/* True if it has the dicts of hooks that it had. Their contents are compared like those of any container. */
static bool has_its_hooks(lmx_snapshot *s, const lmx_kept *k) {
    bool same = true;
    for (int i = 0; same && i < 2; i++) {
        PyObject *now;
        same = hooks_of(s->st, k->tensor, i, &now) && now == k->hooks[i];
        Py_XDECREF(now);
    }
    return same;
}

/* True if there is certainly nothing to restore. */
static bool is_untouched(lmx_snapshot *s, const lmx_kept *k, const lmx_tensor *d) {
    int64_t version = -1;
    if (k->grad && (k->grad != Py_None || !lmx_has_no_grad(s->st, k->tensor))) return false;
    if (k->clone || k->data) return false;
    if (may_have_hooks(k) && !has_its_hooks(s, k)) return false;
    const char *now = (const char *)(uintptr_t)d->storage;
    if (k->n_bytes && memcmp(now, k->bytes, k->n_bytes) != 0) return false;
    if (k->written || (k->sampled && sample_of(k, now) != k->sample)) return false;
    if (k->n_bytes && k->version < 0) return true;
    return version_of(s->st, k->tensor, &version) && version == k->version;
}

/* False for sparse tensors, whose bytes are reported, and for many axes, whose sizes are not all kept. */
bool lmx_tensor_is_same(lmx_snapshot *s, const lmx_kept *k, bool *untouched) {
    enum { AXES = sizeof k->sizes / sizeof *k->sizes };
    lmx_tensor d;
    bool wanted;
    if (Py_TYPE(k->tensor) != k->type || k->ndim < 0 || k->ndim > AXES || !k->knows_grad) return false;
    if (!lmx_describe(s->st, k->tensor, lmx_kind_of(s->st, k->tensor), &d)) return false;
    if (has_moved(s->st, k, &d) || (!d.storage && d.device != LMX_META)) return false;
    if (!lmx_wants_grad(s->st, k->tensor, &wanted) || wanted != k->requires_grad) return false;
    *untouched = *untouched && is_untouched(s, k, &d);
    return !PyErr_Occurred();
}

#define PUT_VERSION "_unsafe_set_version_counter"

/* == restoring ========================================================================================= */

/* Makes a lazy layer's tensor shapeless again. */
static bool unmaterialise(lmx_state *st, const lmx_kept *k) {
    return k->data && PyObject_SetAttr(k->tensor, st->n_data, k->data) == 0 &&
           PyObject_SetAttr(k->tensor, st->n___class__, (PyObject *)k->type) == 0;
}

/* `.data` has a separate version counter: autograd does not see this write. */
static bool copy_back(lmx_state *st, const lmx_kept *k) {
    PyObject *data = PyObject_GetAttr(k->tensor, st->n_data);
    PyObject *done = data ? call(data, st->n_copy_, k->clone) : NULL;
    Py_XDECREF(data);
    Py_XDECREF(done);
    return done != NULL;
}

/* Restores the tensor's memory and shape. */
static bool give_back(lmx_snapshot *s, lmx_kept *k) {
    if (k->held) {
        k->data = lmx_held(s->st, k->held);
        k->held = NULL;
    }
    return k->data && PyObject_SetAttr(k->tensor, s->st->n_data, k->data) == 0;
}

/* Restores the tensor's memory and shape, and describes it. */
static bool bring_back(lmx_snapshot *s, lmx_kept *k, lmx_tensor *d) {
    return give_back(s, k) && lmx_describe(s->st, k->tensor, lmx_kind_of(s->st, k->tensor), d);
}

/* Restores the tensor's memory and shape if it `moved`, or lies otherwise, and its values. */
static bool put_bytes(lmx_snapshot *s, lmx_kept *k, lmx_tensor *d, bool moved) {
    const bool away = moved || plain_bytes(s->st, k->tensor, d) != k->n_bytes;
    if (away && !bring_back(s, k, d)) return false;
    if (plain_bytes(s->st, k->tensor, d) != k->n_bytes || !reaches(s->st, k->tensor, d, k->n_bytes))
        return false;
    void *to = (void *)(uintptr_t)d->storage;
    const char *from = k->bytes;
    if (memcmp(to, from, k->n_bytes) != 0) memcpy(to, from, k->n_bytes);
    return true;
}

/* The same for the values from before the first write. */
static bool put_saved(lmx_snapshot *s, lmx_kept *k, lmx_tensor *d, bool moved) {
    if (moved && !bring_back(s, k, d)) return false;
    if (span_of(s->st, k->tensor, d) != k->n_saved || !reaches(s->st, k->tensor, d, k->n_saved)) return false;
    memcpy((void *)(uintptr_t)d->storage, k->saved, k->n_saved);
    return true;
}

static bool put_clone(lmx_snapshot *s, lmx_kept *k, bool moved) {
    if (moved && !k->held && !k->data) return PyObject_SetAttr(k->tensor, s->st->n_data, k->clone) == 0;
    return (!moved || give_back(s, k)) && copy_back(s->st, k);
}

/* Restores torch's count of writes with the values: else a graph that the user holds can't go backward. */
static bool put_version(lmx_snapshot *s, const lmx_kept *k) {
    int64_t now;
    if (!version_of(s->st, k->tensor, &now)) return false;
    if (k->version < 0 || now == k->version) return true;
    PyObject *low = PyImport_ImportModule("torch._C._autograd"), *done = NULL;
    if (low) done = PyObject_CallMethod(low, PUT_VERSION, "(O)(L)", k->tensor, (long long)k->version);
    if (low && !done && PyErr_ExceptionMatches(PyExc_TypeError)) { /* before torch 2.5 */
        PyErr_Clear();
        done = PyObject_CallMethod(low, PUT_VERSION, "OL", k->tensor, (long long)k->version);
    }
    Py_XDECREF(done);
    Py_XDECREF(low);
    return lmx_forgive(); /* this torch may lack it; the values matter more */
}

/* For a tensor that was only watched: false if its values changed, or may have. */
static bool is_as_it_was(lmx_snapshot *s, lmx_kept *k, lmx_tensor *d, bool moved) {
    int64_t version = -1;
    if (moved && !bring_back(s, k, d)) return false;
    if (!version_of(s->st, k->tensor, &version) || (k->version >= 0 && version != k->version)) return false;
    const char *data = (const char *)(uintptr_t)d->storage; /* NULL: it was freed */
    if (k->sampled && (!data || !reaches(s->st, k->tensor, d, k->sampled))) return false;
    return !k->written && (!k->sampled || sample_of(k, data) == k->sample);
}

static bool restore_values(lmx_snapshot *s, lmx_kept *k) {
    static const char *const written = "was written to and could not be restored";
    lmx_tensor d;
    if (Py_TYPE(k->tensor) != k->type)
        return unmaterialise(s->st, k) ||
               lmx_problem(s, k->node, k->name, "changed its type and could not be restored");
    if (!lmx_describe(s->st, k->tensor, lmx_kind_of(s->st, k->tensor), &d)) return false;
    bool moved = has_moved(s->st, k, &d);
    if (d.device == LMX_META && !moved) return true;
    if (k->parted) return put_version(s, k);
    if (k->n_bytes || k->saved || k->clone) {
        bool put = k->n_bytes ? put_bytes(s, k, &d, moved)
                   : k->saved ? put_saved(s, k, &d, moved)
                              : put_clone(s, k, moved);
        return put ? put_version(s, k) : lmx_problem(s, k->node, k->name, written);
    }
    return is_as_it_was(s, k, &d, moved) || lmx_problem(s, k->node, k->name, written);
}

bool lmx_tensor_was_written(lmx_kept *k, PyObject *memory) {
    PyObject *own = k->memory ? PyLong_FromUnsignedLongLong(k->memory) : NULL;
    const int in = own ? PySet_Contains(memory, own) : PyErr_Occurred() ? -1 : 0;
    k->written = k->written || in > 0;
    Py_XDECREF(own);
    return in >= 0;
}

/* A leaf has a graph if a value with a graph was written to it in place: it is taken from it. */
static bool restore_flag(lmx_snapshot *s, const lmx_kept *k) {
    bool now;
    if (!k->knows_grad) return true;
    if (!lmx_wants_grad(s->st, k->tensor, &now)) return false;
    PyObject *was = k->requires_grad ? Py_True : Py_False;
    if (now == k->requires_grad || PyObject_SetAttr(k->tensor, s->st->n_requires_grad, was) == 0) return true;
    if (k->requires_grad || !lmx_forgive()) return false;
    PyObject *done = PyObject_CallMethod(k->tensor, "detach_", NULL);
    Py_XDECREF(done);
    return done != NULL;
}

static bool restore_grad(lmx_snapshot *s, const lmx_kept *k) {
    static const char *const changed = "had its gradient or requires_grad changed and could not be restored";
    if (!k->grad) return restore_flag(s, k) || lmx_problem(s, k->node, k->name, changed);
    const bool none = k->grad == Py_None && lmx_has_no_grad(s->st, k->tensor);
    PyObject *now = none ? NULL : PyObject_GetAttr(k->tensor, s->st->n_grad);
    bool ok = none || (now && (now == k->grad || PyObject_SetAttr(k->tensor, s->st->n_grad, k->grad) == 0));
    Py_XDECREF(now);
    ok = ok && restore_flag(s, k);
    return ok || lmx_problem(s, k->node, k->name, changed);
}

static bool restore_hooks(lmx_snapshot *s, const lmx_kept *k) {
    bool ok = true;
    for (int i = 0; ok && i < 2 && may_have_hooks(k); i++) {
        PyObject *now, *was = k->hooks[i] ? k->hooks[i] : Py_None;
        PyObject *name = i ? s->st->n__post_accumulate_grad_hooks : s->st->n__backward_hooks;
        if (!hooks_of(s->st, k->tensor, i, &now)) return false;
        if (now != k->hooks[i] && PyObject_SetAttr(k->tensor, name, was) != 0)
            ok = lmx_problem(s, k->node, k->name, "had its hooks changed and could not be restored");
        Py_XDECREF(now);
    }
    return ok;
}

bool lmx_tensor_restore(lmx_snapshot *s, lmx_kept *k) {
    return restore_values(s, k) && restore_grad(s, k) && restore_hooks(s, k);
}
