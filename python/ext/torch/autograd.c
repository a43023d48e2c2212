/* SPDX-License-Identifier: Apache-2.0
 * Autograd's data about a tensor, read from its C++ object, and that it has no hooks, from its Python object:
 * an attribute takes ten times as long, and a snapshot reads every parameter twice. The functions are
 * exported, and none throws. They and the place of the hooks are tested with a known tensor. */
#include "base/ext.h"
#include "native/layout.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <string.h>

static const void *impl_of(const lmx_torch *t, PyObject *tensor) {
    void *impl;
    memcpy(&impl, (char *)tensor + t->offset, sizeof impl);
    return impl;
}

/* True for types that use torch's own attributes; a subclass may override them. */
static bool answers(const lmx_state *st, PyObject *tensor) {
    const lmx_torch *t = &st->torch;
    return t->offset >= 0 && t->grads.wanted && lmx_is_torchs(st, tensor) && impl_of(t, tensor);
}

static bool has_grad(const lmx_torch *t, const void *impl) {
    const void *const *grad = t->grads.grad(impl); /* a reference to an at::Tensor */
    return *grad != t->shim.undefined;
}

bool lmx_wants_grad(lmx_state *st, PyObject *tensor, bool *wanted) {
    const lmx_torch *t = &st->torch;
    if (answers(st, tensor)) {
        *wanted = t->grads.wanted(impl_of(t, tensor));
        return true;
    }
    PyObject *result = PyObject_GetAttr(tensor, st->n_requires_grad);
    *wanted = result == Py_True;
    Py_XDECREF(result);
    return result != NULL;
}

bool lmx_has_no_grad(lmx_state *st, PyObject *tensor) {
    const lmx_torch *t = &st->torch;
    return answers(st, tensor) && !has_grad(t, impl_of(t, tensor));
}

bool lmx_has_no_hooks(lmx_state *st, PyObject *tensor) {
    const int32_t at = st->torch.grads.hooks;
    return at && answers(st, tensor) && !lmx_word_at(tensor, (size_t)at) &&
           !lmx_word_at(tensor, (size_t)at + sizeof(void *));
}

void lmx_load_grads(lmx_torch *t, void *library) {
    lmx_grads *g = &t->grads;
    if (!t->shim.undefined || !lmx_symbol(library, "_ZNK3c1010TensorImpl4gradEv", &g->grad) ||
        !lmx_symbol(library, "_ZNK3c1010TensorImpl13requires_gradEv", &g->wanted))
        *g = (lmx_grads){0};
    if (!lmx_symbol(library, "_ZN3c1010TensorImpl12mutable_gradEv", &g->slot) ||
        !lmx_symbol(library, "aoti_torch_new_tensor_handle", &g->handle))
        g->slot = NULL;
}

/* == restoring ========================================================================================= */

/* Exchanges a tensor's gradient for another: the words of two references. */
static bool exchange(const lmx_torch *t, PyObject *tensor, PyObject *grad) {
    void *handle = NULL, *word;
    if (t->grads.handle((char *)grad + t->offset, &handle) || !handle) return false;
    void *impl;
    memcpy(&impl, (char *)tensor + t->offset, sizeof impl);
    void *slot = t->grads.slot(impl);
    memcpy(&word, slot, sizeof word);
    memcpy(slot, handle, sizeof word);
    memcpy(handle, &word, sizeof word);
    return t->shim.release(handle) == 0; /* the old gradient */
}

/* False, maybe with an exception: there is another gradient, or none. */
static bool put(lmx_state *st, PyObject *tensor, PyObject *grad) {
    const lmx_torch *t = &st->torch;
    const bool both = lmx_is_tensor(st, tensor) && lmx_is_tensor(st, grad);
    return both && t->offset >= 0 && t->grads.wanted && t->grads.slot && exchange(t, tensor, grad);
}

bool lmx_give_gradient(lmx_state *st, PyObject *tensor, PyObject *grad) {
    if (PyObject_SetAttr(tensor, st->n_grad, grad) == 0) return true;
    if (!lmx_forgive()) return false;
    return put(st, tensor, grad);
}

PyObject *lmx_put_gradient(PyObject *module, PyObject *args) {
    PyObject *tensor, *grad;
    if (!PyArg_ParseTuple(args, "OO:put_gradient", &tensor, &grad)) return NULL;
    const bool ok = lmx_give_gradient(lmx_state_of(module), tensor, grad);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(ok);
}

/* == proving =========================================================================================== */

/* True if the functions return these two values. */
static bool tells(const lmx_torch *t, PyObject *probe, bool wanted, bool grad) {
    const void *impl = impl_of(t, probe);
    return t->grads.wanted(impl) == wanted && has_grad(t, impl) == grad;
}

/* True if the probe has the gradient that was put there. */
static bool can_put(lmx_state *st, PyObject *probe, PyObject *grad) {
    PyObject *now = exchange(&st->torch, probe, grad) ? PyObject_GetAttr(probe, st->n_grad) : NULL;
    const bool same = now == grad;
    Py_XDECREF(now);
    return PyObject_SetAttr(probe, st->n_grad, Py_None) == 0 && same &&
           tells(&st->torch, probe, false, false);
}

/* True if the words at `at` change from none to these dicts and back, as the attributes do. */
static bool shows_hooks(lmx_state *st, PyObject *probe, int32_t at) {
    PyObject *names[] = {st->n__backward_hooks, st->n__post_accumulate_grad_hooks};
    bool ok = true;
    for (size_t i = 0; ok && i < 2; i++) {
        const size_t here = (size_t)at + i * sizeof(void *);
        PyObject *hooks = PyDict_New();
        ok = hooks && !lmx_word_at(probe, here) && PyObject_SetAttr(probe, names[i], hooks) == 0 &&
             lmx_word_at(probe, here) == (uint64_t)(uintptr_t)hooks &&
             PyObject_SetAttr(probe, names[i], Py_None) == 0 && !lmx_word_at(probe, here);
        Py_XDECREF(hooks);
    }
    return ok;
}

/* torch has the dicts behind the handle. */
static int32_t place_of_hooks(lmx_state *st, PyObject *probe) {
    const int32_t at = st->torch.offset + (int32_t)sizeof(void *);
    const bool inside = lmx_instance_size(Py_TYPE(probe)) >= (size_t)at + 2 * sizeof(void *);
    return inside && shows_hooks(st, probe, at) ? at : 0;
}

void lmx_prove_grads(lmx_state *st, PyObject *probe) {
    lmx_torch *t = &st->torch;
    if (!t->grads.wanted) return;
    PyObject *other = PyObject_CallMethodObjArgs(probe, st->n_detach, NULL);
    bool ok = other && tells(t, probe, false, false) &&
              PyObject_SetAttr(probe, st->n_requires_grad, Py_True) == 0 && tells(t, probe, true, false) &&
              PyObject_SetAttr(probe, st->n_grad, other) == 0 && tells(t, probe, true, true) &&
              PyObject_SetAttr(probe, st->n_grad, Py_None) == 0 && tells(t, probe, true, false) &&
              PyObject_SetAttr(probe, st->n_requires_grad, Py_False) == 0 && tells(t, probe, false, false);
    if (ok && t->grads.slot && !can_put(st, probe, other)) t->grads.slot = NULL;
    Py_XDECREF(other);
    if (ok) t->grads.hooks = place_of_hooks(st, probe);
    PyErr_Clear();
    if (!ok) t->grads.wanted = NULL;
}
