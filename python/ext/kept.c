/* SPDX-License-Identifier: Apache-2.0
 * Tensors of a snapshot: the values of buffers are cloned and copied back where they were written to;
 * parameters are only watched, because copies of all weights would double a model. */
#include "snapshot.h"

#include <string.h>

static bool nomem(void) {
    PyErr_NoMemory();
    return false;
}

static PyObject *call(PyObject *o, PyObject *method, PyObject *arg) {
    return PyObject_CallMethodObjArgs(o, method, arg, NULL);
}

/* == remembering ======================================================================================= */

/* How often the tensor was written to in place; -1 for one that does not count (made in inference mode). */
static int64_t version_of(lmx_state *st, PyObject *tensor) {
    PyObject *version = PyObject_GetAttr(tensor, st->n__version);
    int64_t n = version ? PyLong_AsLongLong(version) : -1;
    Py_XDECREF(version);
    return n;
}

static PyObject *clone_of(lmx_state *st, PyObject *tensor) {
    PyObject *detached = call(tensor, st->n_detach, NULL);
    PyObject *clone = detached ? call(detached, st->n_clone, NULL) : NULL;
    Py_XDECREF(detached);
    return clone;
}

enum { META = 14 }; /* c10::DeviceType */

static bool is_true(PyObject *o, PyObject *name) {
    PyObject *value = PyObject_GetAttr(o, name);
    bool yes = value == Py_True;
    Py_XDECREF(value);
    return yes;
}

/* The rest of what is remembered; each read may fail on a tensor of somebody's own, which then is only
 * compared. */
static void fill(lmx_state *st, lmx_kept *k, const lmx_tensor *d, lmx_role role, bool clone) {
    k->version = version_of(st, k->tensor);
    PyErr_Clear();
    if (d->ndim < 0) { /* no shape yet: a lazy layer's, or one that hides it */
        k->data = PyObject_GetAttr(k->tensor, st->n_data);
        PyErr_Clear();
    } else if (clone && d->device != META) {
        k->clone = clone_of(st, k->tensor);
        PyErr_Clear();
    }
    if (role != LMX_PARAMETER) return;
    k->requires_grad = is_true(k->tensor, st->n_requires_grad);
    k->grad = PyObject_GetAttr(k->tensor, st->n_grad);
    k->grad_version = k->grad && k->grad != Py_None ? version_of(st, k->grad) : -1;
    PyErr_Clear();
}

bool lmx_tensor_keep(lmx_snapshot *s, int32_t node, PyObject *name, PyObject *tensor, lmx_role role,
                     bool clone) {
    if (lmx_map_get(&s->seen, tensor) >= 0) return true;
    lmx_tensor d;
    if (!lmx_describe(s->st, tensor, lmx_kind_of(s->st, tensor), &d)) return false;
    lmx_kept k = {.tensor = tensor, .name = name, .type = Py_TYPE(tensor), .node = node};
    k.ndim = d.ndim;
    k.storage = d.storage;
    for (int32_t i = 0; i < d.ndim && i < 8; i++) k.sizes[i] = d.sizes[i];
    Py_INCREF(tensor);
    Py_INCREF(name);
    Py_INCREF(k.type);
    fill(s->st, &k, &d, role, clone);
    lmx_kept *at =
        lmx_map_put(&s->seen, tensor, (int32_t)s->kept.n) ? lmx_vec_push(&s->kept, sizeof *at, 1) : NULL;
    if (at)
        *at = k;
    else
        lmx_kept_free(&k);
    return at || nomem();
}

void lmx_kept_free(lmx_kept *k) {
    Py_CLEAR(k->tensor);
    Py_CLEAR(k->name);
    Py_CLEAR(k->clone);
    Py_CLEAR(k->grad);
    Py_CLEAR(k->data);
    Py_CLEAR(k->type);
}

/* == putting back ====================================================================================== */

static bool has_moved(const lmx_kept *k, const lmx_tensor *d) {
    if (d->ndim != k->ndim || d->storage != k->storage) return true;
    int32_t n = d->ndim < 8 ? d->ndim : 8;
    return n > 0 && memcmp(d->sizes, k->sizes, sizeof *k->sizes * (size_t)n) != 0;
}

/* A lazy layer's tensor becomes shapeless again. */
static bool unmaterialise(lmx_state *st, const lmx_kept *k) {
    return k->data && PyObject_SetAttr(k->tensor, st->n_data, k->data) == 0 &&
           PyObject_SetAttr(k->tensor, st->n___class__, (PyObject *)k->type) == 0;
}

/* `.data` has a version counter of its own: autograd does not see this write, as it did not happen. */
static bool copy_back(lmx_state *st, const lmx_kept *k) {
    PyObject *data = PyObject_GetAttr(k->tensor, st->n_data);
    PyObject *done = data ? call(data, st->n_copy_, k->clone) : NULL;
    Py_XDECREF(data);
    Py_XDECREF(done);
    return done != NULL;
}

static bool restore_values(lmx_snapshot *s, const lmx_kept *k) {
    static const char *const written = "was written to and could not be put back";
    lmx_tensor d;
    if (Py_TYPE(k->tensor) != k->type)
        return unmaterialise(s->st, k) ||
               lmx_problem(s, k->node, k->name, "changed its type and could not be put back");
    if (!lmx_describe(s->st, k->tensor, lmx_kind_of(s->st, k->tensor), &d)) return false;
    bool moved = has_moved(k, &d);
    int64_t version = version_of(s->st, k->tensor);
    PyErr_Clear();
    if (k->clone && moved)
        return PyObject_SetAttr(k->tensor, s->st->n_data, k->clone) == 0 ||
               lmx_problem(s, k->node, k->name, written);
    /* Batch normalisation writes to its running statistics without counting a version, so buffers are
     * always copied. */
    if (k->clone) return copy_back(s->st, k) || lmx_problem(s, k->node, k->name, written);
    if (version >= 0 && version == k->version && !moved) return true;
    /* A tensor made in inference mode does not tell whether it was written to. */
    return (version < 0 && !moved) || d.device == META || lmx_problem(s, k->node, k->name, written);
}

static bool restore_grad(lmx_snapshot *s, const lmx_kept *k) {
    static const char *const changed = "had its gradient or requires_grad changed and could not be put back";
    if (!k->grad) return true;
    int64_t version = k->grad_version >= 0 ? version_of(s->st, k->grad) : k->grad_version;
    PyErr_Clear();
    PyObject *now = PyObject_GetAttr(k->tensor, s->st->n_grad);
    bool ok = now && (now == k->grad || PyObject_SetAttr(k->tensor, s->st->n_grad, k->grad) == 0);
    Py_XDECREF(now);
    if (ok && is_true(k->tensor, s->st->n_requires_grad) != k->requires_grad)
        ok = PyObject_SetAttr(k->tensor, s->st->n_requires_grad, k->requires_grad ? Py_True : Py_False) == 0;
    return (ok && version == k->grad_version) || lmx_problem(s, k->node, k->name, changed);
}

bool lmx_tensor_restore(lmx_snapshot *s, const lmx_kept *k) {
    return restore_values(s, k) && restore_grad(s, k);
}
