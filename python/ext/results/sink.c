/* SPDX-License-Identifier: Apache-2.0
 * The fields of a result as Python's own values: objects are dicts, records tuples, counts pairs of a value
 * and a state. There may be a hundred thousand fields, of few names: a name becomes a key once, and so does
 * each state. */
#include "base/ext.h"
#include "results/results.h"

static PyObject *key_of(lmx_sink *t, const char *name) {
    enum { NEAR = 8 };
    const size_t first = (size_t)((uintptr_t)name * 0x9E3779B97F4A7C15ull >> 40);
    size_t at = first % LMX_SINK_KEYS;
    for (size_t i = 1; i < NEAR && t->keys[at].name != name && t->keys[at].name; i++)
        at = (first + i) % LMX_SINK_KEYS;
    if (t->keys[at].name != name) {
        Py_XDECREF(t->keys[at].key);
        t->keys[at].key = PyUnicode_InternFromString(name);
        t->keys[at].name = t->keys[at].key ? name : NULL;
    }
    return t->keys[at].key;
}

/* Takes `value` over. */
static bool put(lmx_sink *t, const char *name, PyObject *value) {
    lmx_sink_part *in = t->depth ? &t->open[t->depth - 1] : NULL;
    bool ok = value != NULL;
    if (!in) {
        t->whole = value;
        return ok;
    }
    if (in->type == LAM_FIELD_RECORD) {
        PyObject **at = ok ? lmx_vec_push(&t->items, sizeof *at, 1) : NULL;
        if (at) *at = value;
        if (ok && !at) Py_DECREF(value);
        return at || (ok && PyErr_NoMemory() != NULL);
    }
    if (in->type == LAM_FIELD_LIST) {
        ok = ok && PyList_Append(in->made, value) == 0;
    } else {
        PyObject *key = ok ? key_of(t, name) : NULL;
        ok = key && PyDict_SetItem(in->made, key, value) == 0;
    }
    Py_XDECREF(value);
    return ok;
}

static bool begin(lmx_sink *t, const lam_field *f) {
    lmx_sink_part *part = &t->open[t->depth];
    if (t->depth == LMX_SINK_DEPTH) return PyErr_BadInternalCall(), false; /* no walk goes as deep */
    *part = (lmx_sink_part){.name = f->name, .type = f->type, .first = t->items.n};
    if (f->type == LAM_FIELD_OBJECT) part->made = PyDict_New();
    if (f->type == LAM_FIELD_LIST) part->made = PyList_New(0);
    if (!part->made && f->type != LAM_FIELD_RECORD) return false;
    t->depth++;
    return true;
}

/* Moves the items from `first` on into a tuple. */
static PyObject *tuple_of(lmx_sink *t, size_t first) {
    PyObject **items = t->items.data, *tuple = PyTuple_New((Py_ssize_t)(t->items.n - first));
    for (size_t i = first; tuple && i < t->items.n; i++)
        PyTuple_SetItem(tuple, (Py_ssize_t)(i - first), items[i]);
    if (tuple) t->items.n = first;
    return tuple;
}

static bool end(lmx_sink *t) {
    lmx_sink_part *part = &t->open[--t->depth];
    return put(t, part->name, part->type == LAM_FIELD_RECORD ? tuple_of(t, part->first) : part->made);
}

static PyObject *count_of(lmx_sink *t, lam_count c) {
    PyObject **zero = &t->zeros[c.state], **state = &t->states[c.state];
    if (c.over) return lmx_count(c);
    if (!*state) *state = lmx_str(lam_state_name(c.state));
    if (*state && !*zero) *zero = Py_BuildValue("(iO)", 0, *state);
    if (!*zero) return NULL;
    if (!c.n) {
        Py_INCREF(*zero);
        return *zero;
    }
    PyObject *n = PyLong_FromLongLong(c.n);
    PyObject *pair = n ? PyTuple_Pack(2, n, *state) : NULL;
    Py_XDECREF(n);
    return pair;
}

static PyObject *value_of(lmx_sink *t, const lam_field *f) {
    switch (f->type) {
    case LAM_FIELD_TRUTH: return PyBool_FromLong(f->truth);
    case LAM_FIELD_INTEGER: return PyLong_FromLongLong(f->integer);
    case LAM_FIELD_REAL: return PyFloat_FromDouble(f->real);
    case LAM_FIELD_TEXT: return lmx_str(f->text);
    case LAM_FIELD_COUNT: return count_of(t, f->count);
    case LAM_FIELD_SIZES: return lmx_shape(f->shape);
    default: return lmx_str(NULL);
    }
}

static bool receive(void *self, const lam_field *f) {
    lmx_sink *t = self;
    if (f->type < LAM_FIELD_OBJECT) return put(t, f->name, value_of(t, f));
    return f->type == LAM_FIELD_END ? end(t) : begin(t, f);
}

lam_receiver lmx_sink_begin(lmx_sink *t) {
    *t = (lmx_sink){0};
    return (lam_receiver){receive, t};
}

PyObject *lmx_sink_end(lmx_sink *t) {
    while (t->depth) Py_XDECREF(t->open[--t->depth].made); /* parts left open by a failure */
    for (size_t i = 0; i < t->items.n; i++) Py_DECREF(((PyObject **)t->items.data)[i]);
    lmi_vec_free(&t->items);
    for (int i = 0; i < LMX_SINK_KEYS; i++) Py_XDECREF(t->keys[i].key);
    for (int i = 0; i <= LAM_UNKNOWN; i++) {
        Py_XDECREF(t->states[i]);
        Py_XDECREF(t->zeros[i]);
    }
    return t->whole;
}
