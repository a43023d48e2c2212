/* SPDX-License-Identifier: Apache-2.0
 * Asks torch's kernels what they accept: once for each operator with arguments of new types. Python asks
 * (_dry/kernels.py), which is rare; whether it did is looked up here, at each operator of a dry run. */
#include "base/ext.h"
#include "dry/dry.h"

#include <string.h>

enum { MAX_WORDS = 160, SMALL = 256 };

/* What is known of the arguments, in words. */
typedef struct words {
    lmx_dry *d;
    bool sizes, full; /* sizes and numbers count too; there was no room, or an argument could not be read */
    int32_t n, n_fake;
    int64_t elements;
    uint64_t at[MAX_WORDS];
} words;

static void put(words *w, uint64_t word) {
    if (w->n < MAX_WORDS)
        w->at[w->n++] = word;
    else
        w->full = true;
}

static void put_tensor(words *w, PyObject *tensor) {
    enum { BITS_OF_NDIM = 8, BITS_OF_TYPE = 16 };
    lmx_plain p;
    if (!lmx_plain_of(w->d, tensor, &p)) {
        PyErr_Clear();
        w->full = true;
        return;
    }
    int64_t elements = 1;
    put(w, (uint64_t)(uint32_t)p.dtype << BITS_OF_TYPE | (uint64_t)(uint32_t)p.ndim << BITS_OF_NDIM | 1);
    for (int32_t i = 0; i < p.ndim; i++) {
        elements = elements < SMALL ? elements * (p.sizes[i] < SMALL ? p.sizes[i] : SMALL + 1) : elements;
        if (w->sizes) put(w, (uint64_t)p.sizes[i]);
    }
    w->elements += elements;
    w->n_fake += Py_TYPE(tensor) == w->d->fake;
}

static void put_value(words *w, PyObject *value) {
    if (Py_TYPE(value) == w->d->fake || Py_TYPE(value) == w->d->known) {
        put_tensor(w, value);
    } else if (PyList_Check(value) || PyTuple_Check(value)) {
        const Py_ssize_t n = PySequence_Size(value);
        put(w, (uint64_t)n);
        for (Py_ssize_t i = 0; i < n && !w->full; i++)
            put_value(w, PyList_Check(value) ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i));
    } else if (w->sizes && PyLong_Check(value)) {
        put(w, (uint64_t)PyLong_AsLongLong(value));
        if (PyErr_Occurred()) PyErr_Clear();
    } else if (PyLong_Check(value) || PyFloat_Check(value)) {
        put(w, (uintptr_t)Py_TYPE(value));
    } else {
        put(w, (uintptr_t)value); /* None, a type, a layout: there is one object of each */
    }
}

static void put_all(words *w, PyObject *function, PyObject *args, PyObject *kwargs, bool sizes) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    w->sizes = sizes;
    w->n = w->n_fake = 0;
    w->elements = 0;
    put(w, (uintptr_t)function);
    put_value(w, args);
    while (kwargs && kwargs != Py_None && PyDict_Next(kwargs, &at, &key, &value)) {
        put(w, (uintptr_t)key);
        put_value(w, value);
    }
}

bool lmx_dry_harmless(PyObject *kwargs) {
    static const char *const names[] = {"alpha", "beta", "value", "approximate"};
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!kwargs || kwargs == Py_None) return true;
    while (PyDict_Next(kwargs, &at, &key, &value)) {
        const char *name = lmx_utf8(key);
        size_t i = 0;
        while (i < sizeof names / sizeof *names && strcmp(names[i], name) != 0) i++;
        if (i == sizeof names / sizeof *names) return false;
    }
    return true;
}

bool lmx_dry_ask(lmx_dry *d, PyObject *function, PyObject *args, PyObject *kwargs) {
    words w = {.d = d};
    put_all(&w, function, args, kwargs, false);
    if (!w.full && w.elements <= SMALL) put_all(&w, function, args, kwargs, true);
    if (w.full || !w.n_fake) return true; /* known values are computed, by the kernel itself */
    const uint64_t hash = lmi_hash(w.at, (size_t)w.n * sizeof *w.at) | 1;
    if (lmi_map_get_u64(&d->asked, hash) >= 0) return true;
    PyObject *told = PyObject_CallFunction(d->ask, "OOOOK", function, args, kwargs ? kwargs : Py_None,
                                           d->elsewhere ? Py_True : Py_False, (unsigned long long)hash);
    if (!told) return false;
    Py_DECREF(told);
    if (lmi_map_put_u64(&d->asked, hash, 1, NULL) == LAM_OK) return true;
    PyErr_NoMemory();
    return false;
}
