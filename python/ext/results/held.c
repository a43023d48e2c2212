/* SPDX-License-Identifier: Apache-2.0
 * What a model did with memory, as Python reads it. */
#include "base/base.h"
#include "measure/memory.h"
#include "results/results.h"

static const char *const phases[LAM_N_PHASES] = {"forward", "backward", "recompute"};

static PyObject *known(int64_t bytes) {
    if (bytes >= 0) return PyLong_FromLongLong(bytes);
    Py_RETURN_NONE;
}

/* What a backward held is among what is not known as anything, where it can't be told. */
static PyObject *held_of(const int64_t held[LAM_N_HELD], const lam_memory *y) {
    bool forward_only = lam_memory_total(y)->info.forward_only;
    PyObject *d = PyDict_New();
    for (int i = 0; d && i < LAM_N_HELD; i++)
        if ((i != LAM_HELD_BACKWARD || !forward_only) &&
            !lmx_put(d, lam_held_name((lam_held)i), PyLong_FromLongLong(held[i])))
            Py_CLEAR(d);
    return d;
}

static PyObject *use_of(const lam_memory_use *use, bool told) {
    if (!told) Py_RETURN_NONE;
    return Py_BuildValue("(LLLL)", (long long)use->allocated, (long long)use->freed, (long long)use->retained,
                         (long long)use->peak);
}

/* {phase: (allocated, freed, retained, peak)}, None where that is not known */
static PyObject *uses_of(const lam_memory_use use[LAM_N_PHASES], bool forward_only) {
    PyObject *d = PyDict_New();
    for (int p = 0; d && p < LAM_N_PHASES; p++)
        if (!lmx_put(d, phases[p], use_of(&use[p], p == LAM_FORWARD || !forward_only))) Py_CLEAR(d);
    return d;
}

static bool put_row(PyObject *d, const lam_memory *y, const lam_memory_row *row) {
    bool forward_only = lam_memory_total(y)->info.forward_only;
    return lmx_put(d, "own", uses_of(row->own, forward_only)) &&
           lmx_put(d, "total", uses_of(row->total, forward_only));
}

static PyObject *place_of(const lam_model *m, const lam_memory *y, int32_t i) {
    const lam_place *p = lam_model_place(m, i);
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "path", lmx_str(p->path)) &&
              lmx_put(d, "type", lmx_str(lam_model_module(m, p->module)->type)) &&
              lmx_put(d, "calls", PyLong_FromLong(p->n_calls)) && put_row(d, y, lam_memory_place(y, i)) &&
              lmx_put(d, "held", held_of(lam_memory_held(y, i), y)) &&
              lmx_put(d, "held_below", held_of(lam_memory_held_below(y, i), y));
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *places_of(const lam_model *m, const lam_memory *y) {
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < lam_model_n_places(m); i++) {
        PyObject *item = place_of(m, y, i);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* The path of the call that was at work, None where none was. */
static PyObject *at_work(const lam_model *m, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    return lmx_str(ev ? lam_model_place(m, ev->place)->path : NULL);
}

/* Outside of every call it may have been a backward's, where that can't be told. */
static PyObject *phase_of(const lam_memory_totals *t) {
    return lmx_str(t->info.forward_only && t->peak_call < 0 ? NULL : phases[t->peak_phase]);
}

static bool put_totals(PyObject *d, const lam_model *m, const lam_memory *y) {
    const lam_memory_totals *t = lam_memory_total(y);
    return lmx_put(d, "source", lmx_str(t->info.source)) && lmx_put(d, "rss_open", known(t->info.rss_open)) &&
           lmx_put(d, "rss_peak", known(t->info.rss_peak)) &&
           lmx_put(d, "rss_close", known(t->info.rss_close)) &&
           lmx_put(d, "allocated", PyLong_FromLongLong(t->allocated)) &&
           lmx_put(d, "freed", PyLong_FromLongLong(t->freed)) &&
           lmx_put(d, "before", PyLong_FromLongLong(t->before)) &&
           lmx_put(d, "peak", PyLong_FromLongLong(t->peak)) &&
           lmx_put(d, "peak_allocated", PyLong_FromLongLong(t->peak_allocated)) &&
           lmx_put(d, "peak_ns", PyLong_FromLongLong(t->peak_ns)) &&
           lmx_put(d, "peak_in", at_work(m, t->peak_call)) && lmx_put(d, "peak_phase", phase_of(t)) &&
           lmx_put(d, "elsewhere", PyLong_FromLongLong(t->elsewhere)) &&
           lmx_put(d, "old_gradients", PyLong_FromLongLong(t->old_gradients)) &&
           lmx_put(d, "held", held_of(t->held, y)) &&
           lmx_put(d, "unplaced", held_of(lam_memory_unplaced(y), y));
}

static lam_memory *memory_of(lmx_model *self) {
    lam_error e = {.at = -1};
    lam_memory *y = NULL;
    const lam_model *m = lmx_model_get(self->st, (PyObject *)self);
    if (m && lam_memory_new(&y, m, &e) != LAM_OK) lmx_raise(self->st, &e);
    return y;
}

PyObject *lmx_memory_measured(lmx_model *self) {
    const lam_model *m = lmx_model_get(self->st, (PyObject *)self);
    return m ? PyBool_FromLong(lam_model_memory_seen(m)) : NULL;
}

PyObject *lmx_memory_told(lmx_model *self) {
    lam_memory *y = memory_of(self);
    PyObject *d = y ? PyDict_New() : NULL;
    bool ok = d && put_totals(d, self->model, y) && lmx_put(d, "places", places_of(self->model, y));
    if (!ok) Py_CLEAR(d);
    lam_memory_free(y);
    return d;
}

PyObject *lmx_memory_course(lmx_model *self, PyObject *args) {
    int points;
    lam_memory_point p;
    if (!PyArg_ParseTuple(args, "i:memory_course", &points)) return NULL;
    lam_memory *y = memory_of(self);
    PyObject *list = y ? PyList_New(0) : NULL;
    for (int32_t i = 0; list && lam_memory_at(y, points, i, &p, NULL) == LAM_OK; i++) {
        PyObject *item = Py_BuildValue("(LL)", (long long)p.t_ns, (long long)p.bytes);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    lam_memory_free(y);
    return list;
}

/* The same of a device's allocator; what it is held as is not known there. */
static PyObject *device_place_of(const lam_model *m, const lam_memory *y, int32_t i) {
    const lam_place *p = lam_model_place(m, i);
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "path", lmx_str(p->path)) &&
              lmx_put(d, "type", lmx_str(lam_model_module(m, p->module)->type)) &&
              put_row(d, y, lam_memory_place(y, i));
    if (!ok) Py_CLEAR(d);
    return d;
}

static bool put_device_totals(PyObject *d, const lam_model *m, const lam_memory *y) {
    const lam_memory_totals *t = lam_memory_total(y);
    return lmx_put(d, "allocated", PyLong_FromLongLong(t->allocated)) &&
           lmx_put(d, "freed", PyLong_FromLongLong(t->freed)) &&
           lmx_put(d, "before", PyLong_FromLongLong(t->before)) &&
           lmx_put(d, "peak", PyLong_FromLongLong(t->peak)) &&
           lmx_put(d, "peak_allocated", PyLong_FromLongLong(t->peak_allocated)) &&
           lmx_put(d, "peak_in", at_work(m, t->peak_call)) &&
           lmx_put(d, "peak_phase", lmx_str(phases[t->peak_phase]));
}

PyObject *lmx_device_memory_told(lmx_model *self) {
    lam_error e = {.at = -1};
    lam_memory *y = NULL;
    const lam_model *m = lmx_model_get(self->st, (PyObject *)self);
    if (!m) return NULL;
    if (!lam_model_device_memory_seen(m)) return lmx_str(NULL);
    if (lam_device_memory_new(&y, m, &e) != LAM_OK) return lmx_raise(self->st, &e);
    PyObject *d = PyDict_New(), *places = PyList_New(0);
    for (int32_t i = 0; places && i < lam_model_n_places(m); i++) {
        PyObject *item = device_place_of(m, y, i);
        if (!item || PyList_Append(places, item) < 0) Py_CLEAR(places);
        Py_XDECREF(item);
    }
    if (!d || !put_device_totals(d, m, y) || !lmx_put(d, "places", places)) Py_CLEAR(d);
    lam_memory_free(y);
    return d;
}
