/* SPDX-License-Identifier: Apache-2.0
 * The layer that runs, for the last words of the command. It is read in a signal's handler: nothing is
 * allocated unless a name is not ASCII. */
#include "process/signals.h"
#include "calls/calls.h"
#include "observe/open_capture.h"

#include <string.h>

enum { DEEPEST = 64 };

static size_t put(char *to, size_t room, const char *s, size_t n) {
    if (n > room) n = room;
    memcpy(to, s, n);
    return n;
}

static size_t put_name(char *to, size_t room, PyObject *name) {
    Py_ssize_t n = 0;
    const char *s = name ? PyUnicode_AsUTF8AndSize(name, &n) : NULL;
    return s ? put(to, room, s, (size_t)n) : 0;
}

static int32_t place_of(const lmx_tree *t, int32_t module) {
    for (int32_t i = 0; i < (int32_t)t->places.n; i++)
        if (lmx_place_at(t, i)->node == module) return i;
    return -1;
}

static size_t put_path(char *to, size_t room, const lmx_tree *t, int32_t place) {
    int32_t at[DEEPEST], n = 0;
    size_t used = 0;
    for (; place > 0 && n < DEEPEST; place = lmx_place_at(t, place)->parent) at[n++] = place;
    if (n == 0) return put(to, room, "the model itself", strlen("the model itself"));
    while (n-- > 0) {
        used += put_name(to + used, room - used, lmx_place_at(t, at[n])->name);
        if (n) used += put(to + used, room - used, ".", 1);
    }
    return used;
}

/* "in layer1.0.conv1 (Conv2d)" */
static size_t place_now(char *to, size_t room) {
    const lmx_capture *c = lmx_first_open;
    if (!c || c->noted.open < 0 || (size_t)c->noted.open >= c->noted.calls.n) return 0;
    const int32_t module = ((const lmx_call *)c->noted.calls.data)[c->noted.open].module;
    size_t n = put(to, room, "in ", 3);
    n += put_path(to + n, room - n, &c->tree, place_of(&c->tree, module));
    PyObject *type = (PyObject *)Py_TYPE(lmx_node_at(&c->tree, module)->object);
    n += put(to + n, room - n, " (", 2);
    n += put_name(to + n, room - n, PyType_GetName((PyTypeObject *)type));
    return n + put(to + n, room - n, ")", 1);
}

PyObject *lmx_say_last_words(PyObject *module, PyObject *what) {
    (void)module;
    if (what == Py_None) {
        lmx_no_last_words();
        Py_RETURN_FALSE;
    }
    const char *text = PyUnicode_AsUTF8AndSize(what, NULL);
    return text ? PyBool_FromLong(lmx_last_words(text, place_now)) : NULL;
}

PyObject *lmx_interrupted(PyObject *module, PyObject *milliseconds) {
    (void)module;
    if (milliseconds == Py_None) {
        lmx_not_at_interrupt();
        Py_RETURN_FALSE;
    }
    const long ms = PyLong_AsLong(milliseconds);
    if (PyErr_Occurred()) return NULL;
    return PyBool_FromLong(lmx_end_at_interrupt(ms > 0 && ms < 1 << 24 ? (int)ms : 1));
}
