/* SPDX-License-Identifier: Apache-2.0
 * Answers that are given again. A loop runs the same operators on tensors of the same sizes many times: an
 * answer is kept by the operator and its arguments, as sizes and numbers, and is made anew from that. */
#include "base/ext.h"
#include "dry/dry.h"
#include "native/ledger.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"

#include <string.h>

enum { MOST_WORDS = 1024, MOST_TENSORS = 64, MOST_KEPT = 65536, DEPTH = 2 };
enum { SMALL = 256 }; /* elements: MOST of _dry/kernels.py */

/* Begins each part of a key, or of an answer. */
enum part { TENSOR, VIEW, SEEN, NUMBER, FRACTION, TRUTH, NONE, LIST, TUPLE, OBJECT, TEXT };

/* == keys ============================================================================================== */

/* Words are collected in the dry run's own array; `known` counts tensors with known values. */
typedef struct reading {
    lmx_dry *d;
    const PyObject *seen[MOST_TENSORS];
    int32_t n_seen, known, dtype; /* dtype: of the last one */
    int64_t elements;             /* of all of them, at least */
    bool question, types;         /* for a question to a kernel; of types alone, without sizes and numbers */
} reading;

static bool put(lmx_dry *d, int64_t word) {
    int64_t *to = d->words.n < MOST_WORDS ? lmx_vec_push(&d->words, sizeof *to, 1) : NULL;
    if (to) *to = word;
    return to != NULL;
}

static bool put_two(lmx_dry *d, enum part part, int64_t word) { return put(d, part) && put(d, word); }

static bool put_plain(lmx_dry *d, const lmx_plain *p) {
    bool ok = put(d, TENSOR) && put(d, p->dtype) && put(d, p->ndim);
    for (int32_t i = 0; ok && i < p->ndim; i++) ok = put(d, p->sizes[i]) && put(d, p->strides[i]);
    return ok;
}

/* The position among the tensors that were seen, or -1. */
static int32_t place_of(const reading *r, const PyObject *o) {
    for (int32_t i = 0; i < r->n_seen; i++)
        if (r->seen[i] == o) return i;
    return -1;
}

static bool read_tensor(reading *r, PyObject *o) {
    lmx_plain p;
    int32_t before = place_of(r, o);
    if (before >= 0) return put_two(r->d, SEEN, before);
    if (r->n_seen == MOST_TENSORS || !lmx_plain_of(r->d, o, &p)) return false;
    r->seen[r->n_seen++] = o;
    r->known += Py_TYPE(o) == r->d->known;
    r->dtype = p.dtype;
    int64_t n = 1;
    for (int32_t i = 0; i < p.ndim && n <= SMALL; i++) n *= p.sizes[i] <= SMALL ? p.sizes[i] : SMALL + 1;
    r->elements += n;
    return r->types ? put_two(r->d, TENSOR, p.dtype) && put(r->d, p.ndim) : put_plain(r->d, &p);
}

/* A device, as text: its objects are made anew each time. */
static bool read_text(reading *r, PyObject *o) {
    PyObject *text = PyObject_Str(o);
    Py_ssize_t n = 0;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, &n) : NULL;
    bool ok = s && put_two(r->d, TEXT, n);
    for (Py_ssize_t i = 0; ok && i < n; i += (Py_ssize_t)sizeof(int64_t)) {
        int64_t word = 0;
        size_t left = (size_t)(n - i);
        memcpy(&word, s + i, left < sizeof word ? left : sizeof word);
        ok = put(r->d, word);
    }
    Py_XDECREF(text);
    PyErr_Clear();
    return ok;
}

static bool read_number(reading *r, PyObject *o) {
    if (PyBool_Check(o)) return put_two(r->d, TRUTH, o == Py_True);
    if (r->types) return put(r->d, PyLong_Check(o) ? NUMBER : FRACTION);
    if (PyLong_Check(o)) {
        int64_t n = PyLong_AsLongLong(o);
        bool fits = !PyErr_Occurred();
        PyErr_Clear();
        return fits && put_two(r->d, NUMBER, n);
    }
    double f = PyFloat_AsDouble(o);
    int64_t word;
    memcpy(&word, &f, sizeof word);
    return put_two(r->d, FRACTION, word);
}

/* torch has one object for each type, layout and order of memory, but makes devices anew each time. */
static bool read_object(reading *r, PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    int k = 0;
    while (k < LMX_N_PLAIN && r->d->plain[k] != (PyObject *)type) k++;
    if (k == LMX_DEVICE || PyUnicode_Check(o)) return read_text(r, o);
    return (k < LMX_N_PLAIN || r->question) && put_two(r->d, OBJECT, (int64_t)(uintptr_t)o);
}

static bool read_one(reading *r, PyObject *o, int depth) {
    if (lmx_dry_is(r->d, o)) return read_tensor(r, o);
    if (o == Py_None) return put(r->d, NONE);
    if (PyLong_Check(o) || PyFloat_Check(o)) return read_number(r, o);
    bool list = PyList_Check(o);
    if (!list && !PyTuple_Check(o)) return read_object(r, o);
    Py_ssize_t n = PySequence_Size(o);
    bool ok = depth < DEPTH && put_two(r->d, list ? LIST : TUPLE, n);
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = read_one(r, list ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i), depth + 1);
    return ok;
}

static bool read_all(reading *r, PyObject *function, PyObject *args, PyObject *kwargs) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    r->d->words.n = 0;
    bool ok = put(r->d, (int64_t)(uintptr_t)function);
    for (Py_ssize_t i = 0; ok && i < PyTuple_Size(args); i++) ok = read_one(r, PyTuple_GetItem(args, i), 0);
    while (ok && kwargs && kwargs != Py_None && PyDict_Next(kwargs, &at, &key, &value))
        ok = read_text(r, key) && read_one(r, value, 0);
    return ok;
}

/* Where the elements of a tensor begin in its memory. */
static bool offset_of(lmx_dry *d, PyObject *tensor, int64_t *out) {
    const lmx_torch *t = &d->st->torch;
    return t->shim.offset && t->shim.offset((char *)tensor + t->offset, out) == 0;
}

/* A view of one plain tensor, the first argument. A complex one may be made its conjugate. */
static bool is_view_of_one(reading *r, PyObject *args) {
    int64_t offset;
    if (!r->d->st->torch.shim.again || r->n_seen != 1 || PyTuple_GetItem(args, 0) != r->seen[0]) return false;
    if (strncmp(lam_dtype_name(r->dtype), "complex", 7) == 0) return false;
    return offset_of(r->d, PyTuple_GetItem(args, 0), &offset) && put(r->d, offset);
}

PyObject *lmx_repeats_key(lmx_dry *d, lmx_repeats as, PyObject *function, PyObject *args, PyObject *kwargs) {
    reading r = {.d = d};
    if (as == LMX_REPEATS_NEVER || !PyTuple_Check(args) || !read_all(&r, function, args, kwargs)) return NULL;
    if (as == LMX_REPEATS_WRITES && r.known > 0) return NULL;        /* what is written is known no more */
    if (as != LMX_REPEATS_VIEWS && r.n_seen == r.known) return NULL; /* it is computed */
    if (as == LMX_REPEATS_VIEWS && !is_view_of_one(&r, args)) return NULL;
    const char *words = d->words.data;
    PyObject *key = PyBytes_FromStringAndSize(words, (Py_ssize_t)(d->words.n * sizeof(int64_t)));
    if (!key) PyErr_Clear();
    return key;
}

uint64_t lmx_repeats_question(lmx_dry *d, PyObject *function, PyObject *args, PyObject *kwargs) {
    reading r = {.d = d, .question = true, .types = true};
    bool read = PyTuple_Check(args) && read_all(&r, function, args, kwargs);
    if (!read || r.n_seen == r.known) return 0;
    if (r.elements <= SMALL) {
        r = (reading){.d = d, .question = true};
        if (!read_all(&r, function, args, kwargs)) return 0;
    }
    return lmi_hash(d->words.data, d->words.n * sizeof(int64_t)) | 1;
}

/* == answers =========================================================================================== */

/* The argument that is returned; -1: none. */
static int32_t argument_at(PyObject *args, PyObject *o) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(args); i++)
        if (PyTuple_GetItem(args, i) == o) return (int32_t)i;
    return -1;
}

static bool put_view(lmx_dry *d, PyObject *of, PyObject *view) {
    lmx_plain from, p;
    int64_t first, offset;
    return Py_TYPE(view) == lmx_class_of_views(d, of) && lmx_plain_of(d, of, &from) &&
           lmx_plain_of(d, view, &p) && from.dtype == p.dtype && offset_of(d, of, &first) &&
           offset_of(d, view, &offset) && put_two(d, VIEW, offset - first) && put_plain(d, &p);
}

static bool put_result(lmx_dry *d, PyObject *args, PyObject *o, lmx_repeats as) {
    int32_t at = argument_at(args, o);
    lmx_plain p;
    if (as == LMX_REPEATS_VIEWS) return at < 0 && put_view(d, PyTuple_GetItem(args, 0), o);
    if (o == Py_None) return put(d, NONE);
    if (Py_TYPE(o) == d->known || !lmx_dry_is(d, o)) return false;
    if (at >= 0) return put_two(d, SEEN, at);
    return as == LMX_REPEATS_PURE && lmx_plain_of(d, o, &p) && put_plain(d, &p);
}

bool lmx_repeats_keep(lmx_dry *d, PyObject *key, PyObject *args, PyObject *out, lmx_repeats as,
                      const lmx_noted *noted) {
    bool list = PyList_CheckExact(out), many = list || PyTuple_CheckExact(out);
    Py_ssize_t n = many ? PySequence_Size(out) : 1;
    d->words.n = 0;
    bool ok = put(d, noted->what) && put(d, noted->bytes) && put(d, noted->left);
    ok = ok && put_two(d, list ? LIST : many ? TUPLE : NONE, n);
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = put_result(d, args, !many ? out : list ? PyList_GetItem(out, i) : PyTuple_GetItem(out, i), as);
    if (!ok || PyDict_Size(d->repeats) >= MOST_KEPT) return true;
    PyObject *kept = PyBytes_FromStringAndSize(d->words.data, (Py_ssize_t)(d->words.n * sizeof(int64_t)));
    ok = kept && PyDict_SetItem(d->repeats, key, kept) == 0;
    Py_XDECREF(kept);
    return ok;
}

/* Makes the result whose description begins at `*from`, and moves it to the next one. */
static PyObject *result(lmx_dry *d, PyObject *args, const int64_t **from) {
    int64_t sizes[LMX_DIMS], strides[LMX_DIMS], offset = **from == VIEW ? (*from)[1] : 0;
    bool is_view = **from == VIEW;
    const int64_t *at = is_view ? *from + 2 : *from;
    PyObject *o;
    if (*at == TENSOR) {
        const lmx_plain p = {(int32_t)at[1], (int32_t)at[2], sizes, strides};
        for (int32_t i = 0; i < p.ndim; i++) {
            sizes[i] = at[3 + 2 * i];
            strides[i] = at[4 + 2 * i];
        }
        *from = at + 3 + 2 * p.ndim;
        return is_view ? lmx_fake_view(d, PyTuple_GetItem(args, 0), &p, offset)
                       : lmx_fake(d, d->fake, &p, false);
    }
    o = *at == SEEN ? PyTuple_GetItem(args, (Py_ssize_t)at[1]) : Py_None;
    *from = at + (*at == SEEN ? 2 : 1);
    Py_XINCREF(o);
    return o;
}

static PyObject *results(lmx_dry *d, PyObject *args, const int64_t *from) {
    int64_t part = from[0], n = from[1];
    from += 2;
    if (part == NONE) return result(d, args, &from);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *o = result(d, args, &from);
        if (!o || PyList_SetItem(list, (Py_ssize_t)i, o) < 0) Py_CLEAR(list);
    }
    PyObject *out = list && part == TUPLE ? PyList_AsTuple(list) : list;
    if (out != list) Py_XDECREF(list);
    return out;
}

bool lmx_repeats_given(lmx_dry *d, PyObject *key, PyObject *args, PyObject **out, lmx_noted *noted) {
    PyObject *kept = PyDict_GetItemWithError(d->repeats, key);
    if (!kept) return false;
    const int64_t *words = (const int64_t *)(const void *)PyBytes_AsString(kept);
    *noted = (lmx_noted){(lam_taken)words[0], words[1], words[2]};
    if (*out) return true;
    bool views = words[4] > 0 && words[5] == VIEW;
    PyObject *guard = views ? lmx_dry_below(d) : NULL;
    Py_INCREF(kept);
    if (guard || !views) *out = results(d, args, words + 3);
    Py_DECREF(kept);
    *out = lmx_dry_above(d, guard, *out);
    return true;
}
