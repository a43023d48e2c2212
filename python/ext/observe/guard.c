/* SPDX-License-Identifier: Apache-2.0
 * Guards memory until an operator writes to it. Nearly all operators touch no guarded memory, and pay a look
 * into a map for each tensor. Which arguments an operator writes to, Python knows from its schema. */
#include "observe/guard.h"
#include "base/ext.h"
#include "observe/observe.h"

#include <stdlib.h>

struct lmx_guard {
    lmi_map at; /* address -> 1: guarded, 0: no more */
    PyObject *before_write;
};

enum { FREE, GUARDED };

static bool put(lmx_guard *g, PyObject *address, int32_t value) {
    const unsigned long long at = PyLong_AsUnsignedLongLong(address);
    if (PyErr_Occurred()) return false;
    if (!at) return true;
    return lmi_map_put_u64(&g->at, at, value, NULL) == LAM_OK || lmx_nomem();
}

static bool put_all(lmx_guard *g, PyObject *addresses, int32_t value) {
    PyObject *iterator = PyObject_GetIter(addresses), *one;
    while (iterator && (one = PyIter_Next(iterator))) {
        put(g, one, value);
        Py_DECREF(one);
        if (PyErr_Occurred()) break;
    }
    Py_XDECREF(iterator);
    return !PyErr_Occurred();
}

lmx_guard *lmx_guard_new(PyObject *addresses, PyObject *before_write) {
    lmx_guard *g = calloc(1, sizeof *g);
    if (!g) {
        lmx_nomem();
        return NULL;
    }
    Py_INCREF(before_write);
    g->before_write = before_write;
    if (put_all(g, addresses, GUARDED)) return g;
    lmx_guard_free(g);
    return NULL;
}

void lmx_guard_free(lmx_guard *g) {
    if (!g) return;
    lmi_map_free(&g->at);
    Py_CLEAR(g->before_write);
    free(g);
}

int lmx_guard_visit(lmx_guard *g, visitproc visit, void *arg) {
    if (g) Py_VISIT(g->before_write);
    return 0;
}

static bool guards(const lmx_guard *g, uint64_t address) {
    return address && lmi_map_get_u64(&g->at, address) == GUARDED;
}

static bool guards_one(const lmx_guard *g, const lmx_id *id) {
    return guards(g, lmx_id_memory(id)) || guards(g, lmx_id_object(id));
}

static bool add(PyObject *list, int position, uint64_t address) {
    PyObject *pair = Py_BuildValue("(iK)", position, (unsigned long long)address);
    const bool ok = pair && PyList_Append(list, pair) == 0;
    Py_XDECREF(pair);
    return ok;
}

/* The guarded addresses among the arguments, with their positions. */
static PyObject *touched(const lmx_guard *g, const lmx_lane *lane, lmx_args in) {
    const lmx_id *ids = (const lmx_id *)lane->ids.data + in.ids_at;
    const lmx_part *part = (const lmx_part *)lane->parts.data + in.part;
    const int64_t *words = (const int64_t *)lane->words.data + part->at;
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < part->n; i++) {
        lmx_packed head;
        memcpy(&head, words, sizeof head);
        words += lmx_packed_words(&head);
        if (!lmx_packed_tensor(&head)) continue;
        const uint64_t memory = lmx_id_memory(ids), address = guards(g, memory) ? memory : lmx_id_object(ids);
        ids++;
        if (guards(g, address) && !add(list, head.position, address)) Py_CLEAR(list);
    }
    return list;
}

static void tell(lmx_guard *g, const lmx_lane *lane, const char *name, lmx_args in, int32_t n) {
    PyObject *pending[3];
    PyErr_Fetch(&pending[0], &pending[1], &pending[2]);
    PyObject *list = touched(g, lane, in), *free_ones = NULL;
    if (list) free_ones = PyObject_CallFunction(g->before_write, "siO", name, (int)n, list);
    if (free_ones) put_all(g, free_ones, FREE);
    Py_XDECREF(free_ones);
    Py_XDECREF(list);
    PyErr_Restore(pending[0], pending[1], pending[2]); /* the callback handles its own */
}

void lmx_guard_look(lmx_capture *c, const lmx_lane *lane, const char *name, lmx_args in, int32_t n) {
    lmx_guard *g = c->watched.guard;
    if (in.part < 0) return;
    for (size_t i = in.ids_at; i < lane->ids.n; i++) {
        if (!guards_one(g, (const lmx_id *)lane->ids.data + i)) continue;
        PyGILState_STATE state = PyGILState_Ensure();
        const bool own = lane->thread == c->threads.owner, was = c->noted.busy;
        if (own) c->noted.busy = true;
        tell(g, lane, name, in, n);
        if (own) c->noted.busy = was;
        PyGILState_Release(state);
        return;
    }
}

lmx_op *lmx_guard_open(lmx_capture *c, lmx_lane *lane, const char *name, int32_t op) {
    const lmx_args in = ((const lmx_op *)lane->ops.data)[op].in;
    lmx_guard_look(c, lane, name, in, lmx_lane_arity(lane, name)->in);
    return (lmx_op *)lane->ops.data + op; /* on another thread, what was run before the write is noted */
}
