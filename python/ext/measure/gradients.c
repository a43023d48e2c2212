/* SPDX-License-Identifier: Apache-2.0
 * A tensor that an operator made refers to the node of the graph that will receive its gradient, and to the
 * index there; nodes are identified by their sequence numbers. Any other tensor, a leaf, keeps its gradient
 * itself. */
#include "measure/gradients.h"
#include "base/ext.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"
#include "torch/values.h"

#include <stdlib.h>

enum { MOST_GIVEN = 1 << 26 };

typedef struct given {
    int64_t sequence;
    int32_t entry;
    bool seen, bad;
} given;

typedef struct leaf {
    PyObject *ref;   /* a weak reference */
    uintptr_t held;  /* the gradient at the start; 0: none */
    int64_t version; /* and its version counter */
    lam_grad grad;
    bool came;
} leaf;

void lmx_gradients_init(lmx_gradients *t) { pthread_mutex_init(&t->lock, NULL); }

void lmx_gradients_free(lmx_gradients *t) {
    for (size_t i = 0; i < t->leaves.n; i++) Py_XDECREF(((leaf *)t->leaves.data)[i].ref);
    lmi_vec_free(&t->leaves);
    lmi_vec_free(&t->notes);
    lmi_vec_free(&t->given);
    Py_XDECREF(t->n_grad_fn);
    Py_XDECREF(t->n_sequence);
    Py_XDECREF(t->n_output);
    pthread_mutex_destroy(&t->lock);
}

bool lmx_gradients_open(lmx_gradients *t, lmx_capture *c, lmx_looker *looker) {
    t->capture = c;
    t->looker = looker;
    t->n_grad_fn = PyUnicode_InternFromString("grad_fn");
    t->n_sequence = PyUnicode_InternFromString("_sequence_nr");
    t->n_output = PyUnicode_InternFromString("output_nr");
    return t->n_grad_fn && t->n_sequence && t->n_output;
}

/* == leaves ============================================================================================== */

/* The gradient that a leaf holds now, and its version counter. NULL or None without a gradient. */
static PyObject *gradient_of(const lmx_gradients *t, PyObject *tensor, int64_t *version) {
    lmx_state *st = t->capture->st;
    PyObject *grad = PyObject_GetAttr(tensor, st->n_grad);
    PyObject *result = grad && grad != Py_None ? PyObject_GetAttr(grad, st->n__version) : NULL;
    *version = result && PyLong_Check(result) ? PyLong_AsLongLong(result) : 0;
    Py_XDECREF(result);
    PyErr_Clear();
    return grad;
}

static void note_leaf(lmx_gradients *t, PyObject *tensor, lam_grad entry) {
    PyObject *wanted = PyObject_GetAttr(tensor, t->capture->st->n_requires_grad);
    leaf l = {.grad = entry};
    if (wanted == Py_True) {
        PyObject *grad = gradient_of(t, tensor, &l.version);
        l.held = grad == Py_None ? 0 : (uintptr_t)grad;
        l.ref = PyWeakref_NewRef(tensor, NULL);
        Py_XDECREF(grad);
    }
    Py_XDECREF(wanted);
    PyErr_Clear();
    if (!l.ref) return;
    leaf *to = lmx_vec_push(&t->leaves, sizeof *to, 1);
    if (to)
        *to = l;
    else
        Py_DECREF(l.ref);
}

/* A received gradient is there when the capture closes, unless the tensor is gone or its gradient was
 * removed. If it was added to an earlier gradient, its values are unknown. */
static void ask_leaf(lmx_gradients *t, size_t i) {
    /* A copy: reading may run user code, which may move the leaves. */
    leaf l = ((leaf *)t->leaves.data)[i];
    PyObject *tensor = PyWeakref_GetObject(l.ref);
    if (!tensor || tensor == Py_None) return;
    Py_INCREF(tensor);
    int64_t version = 0;
    lmx_look look = {0};
    lmx_seen seen = LMX_NOT_TO_READ;
    PyObject *grad = gradient_of(t, tensor, &version);
    if (grad && grad != Py_None) {
        l.came = (uintptr_t)grad != l.held || version != l.version;
        lmx_kind kind = lmx_kind_of(t->capture->st, grad);
        if (l.came && !l.held && !lmx_look_into(t->looker, grad, kind, &look, &seen)) PyErr_Clear();
        l.grad.seen = seen != LMX_NOT_TO_READ;
        l.grad.bad = seen == LMX_SEEN && lmx_look_bad(&look);
        ((leaf *)t->leaves.data)[i] = l;
    }
    Py_XDECREF(grad);
    Py_DECREF(tensor);
    PyErr_Clear();
}

void lmx_gradients_close(lmx_gradients *t) {
    for (size_t i = 0; i < t->leaves.n; i++) ask_leaf(t, i);
}

/* == results of operators =============================================================================== */

static void note_made(lmx_gradients *t, PyObject *tensor, PyObject *node, lam_grad of) {
    PyObject *sequence = PyObject_CallMethodObjArgs(node, t->n_sequence, NULL);
    PyObject *entry = sequence ? PyObject_GetAttr(tensor, t->n_output) : NULL;
    if (entry && PyLong_Check(sequence) && PyLong_Check(entry)) {
        lmx_grad_note n = {.sequence = PyLong_AsLongLong(sequence),
                           .call = of.call,
                           .index = of.index,
                           .entry = (int16_t)PyLong_AsLong(entry),
                           .is_input = of.is_input};
        lmx_grad_note *to = PyErr_Occurred() ? NULL : lmx_vec_push(&t->notes, sizeof *to, 1);
        if (to) *to = n;
    }
    Py_XDECREF(entry);
    Py_XDECREF(sequence);
}

void lmx_gradients_note(lmx_gradients *t, PyObject *tensor, int32_t call, int32_t index, bool is_input) {
    const lam_grad of = {.call = call, .index = index, .is_input = is_input};
    PyObject *node = PyObject_GetAttr(tensor, t->n_grad_fn);
    if (node == Py_None)
        note_leaf(t, tensor, of);
    else if (node)
        note_made(t, tensor, node, of);
    Py_XDECREF(node);
    PyErr_Clear();
}

void lmx_gradients_given(lmx_gradients *t, int64_t sequence, int32_t entry, bool seen, bool bad) {
    if (sequence < 0) return; /* it has no sequence number: it only accumulates a leaf's gradient */
    pthread_mutex_lock(&t->lock);
    given *to = t->given.n < MOST_GIVEN ? lmx_vec_push(&t->given, sizeof *to, 1) : NULL;
    if (to) *to = (given){sequence, entry, seen, bad};
    t->lost = t->lost || !to;
    pthread_mutex_unlock(&t->lock);
}

/* == results ============================================================================================ */

static int by_sequence(const void *a, const void *b) {
    int64_t x = ((const lmx_grad_note *)a)->sequence, y = ((const lmx_grad_note *)b)->sequence;
    return (x > y) - (x < y);
}

void lmx_gradients_sort(lmx_gradients *t) {
    if (t->notes.n) qsort(t->notes.data, t->notes.n, sizeof(lmx_grad_note), by_sequence);
}

size_t lmx_gradients_first(const lmx_gradients *t, int64_t sequence) {
    const lmx_grad_note *notes = t->notes.data;
    size_t from = 0, to = t->notes.n;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (notes[mid].sequence < sequence)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static int by_node(const void *a, const void *b) {
    const given *x = a, *y = b;
    if (x->sequence != y->sequence) return x->sequence < y->sequence ? -1 : 1;
    return (x->entry > y->entry) - (x->entry < y->entry);
}

/* Combines the gradients of an argument or result over all backward passes; false if there are none. One
 * whose node may have been replaced is not known. */
static bool find(const lmx_gradients *t, const lmx_grad_note *note, lam_grad *out) {
    const given *all = t->given.data, key = {.sequence = note->sequence, .entry = note->entry};
    size_t from = 0, to = t->given.n;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (by_node(&all[mid], &key) < 0)
            from = mid + 1;
        else
            to = mid;
    }
    *out = (lam_grad){.call = note->call, .index = note->index, .is_input = note->is_input, .seen = true};
    for (to = from; to < t->given.n && by_node(&all[to], &key) == 0; to++) {
        out->seen = out->seen && all[to].seen;
        out->bad = out->bad || all[to].bad;
    }
    if (to > from || !atomic_load(&t->rewritten)) return to > from;
    out->seen = false;
    return true;
}

static lam_status push_one(const lmx_gradients *t, const lam_grad *grad, lam_builder *b, lam_error *e) {
    const lmx_call *call = (const lmx_call *)t->capture->noted.calls.data + grad->call;
    bool known = grad->index < (grad->is_input ? call->n_in : call->n_out);
    return known ? lam_build_grad(b, grad, e) : LAM_OK;
}

lam_status lmx_gradients_push(lmx_gradients *t, lam_builder *b, lam_error *e) {
    const lmx_grad_note *notes = t->notes.data;
    const leaf *leaves = t->leaves.data;
    lam_status s = LAM_OK;
    lam_grad grad;
    if (t->given.n) qsort(t->given.data, t->given.n, sizeof(given), by_node);
    for (size_t i = 0; s == LAM_OK && i < t->notes.n; i++)
        if (find(t, &notes[i], &grad)) s = push_one(t, &grad, b, e);
    for (size_t i = 0; s == LAM_OK && i < t->leaves.n; i++)
        if (leaves[i].came) s = push_one(t, &leaves[i].grad, b, e);
    return s;
}
