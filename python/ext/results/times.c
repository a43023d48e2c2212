/* SPDX-License-Identifier: Apache-2.0
 * How long it took, as Python's own values: nanoseconds, None where they are not known. */
#include "base/base.h"
#include "results/results.h"

#include <stdio.h>

static const char *const phases[LAM_N_PHASES] = {"forward", "backward", "recompute"};

static PyObject *ns_of(int64_t ns) { return ns < 0 ? lmx_str(NULL) : PyLong_FromLongLong(ns); }

/* A pair for each phase, and room for `more`. */
static PyObject *phases_of(const lam_time *t, int more) {
    PyObject *all = PyTuple_New(LAM_N_PHASES + more);
    for (int p = 0; all && p < LAM_N_PHASES; p++) {
        PyObject *total = ns_of(t->total[p]), *self = ns_of(t->self[p]);
        PyObject *pair = total && self ? PyTuple_Pack(2, total, self) : NULL;
        Py_XDECREF(total);
        Py_XDECREF(self);
        if (!pair || PyTuple_SetItem(all, p, pair) < 0) Py_CLEAR(all);
    }
    return all;
}

/* By the host's clock, and last by a device's: None where it was not read. */
PyObject *lmx_row_time(const lam_costs *c, int32_t row) {
    lam_time t;
    if (!lam_costs_time(c, row, &t)) return lmx_str(NULL);
    PyObject *all = phases_of(&t, 1);
    PyObject *device = lam_costs_device_time(c, row, &t) ? phases_of(&t, 0) : lmx_str(NULL);
    if (!all || !device) {
        Py_XDECREF(device);
        Py_CLEAR(all);
    } else if (PyTuple_SetItem(all, LAM_N_PHASES, device) < 0) {
        Py_CLEAR(all);
    }
    return all;
}

static PyObject *spread_of(bool known, const lam_spread *s) {
    if (!known) return lmx_str(NULL);
    return Py_BuildValue("(iLLLLi)", (int)s->n, (long long)s->median, (long long)s->deviation,
                         (long long)s->least, (long long)s->most, (int)s->most_run);
}

/* The k-th call at a place; NULL without an exception where no run has one. */
static PyObject *layer_of(const lam_times *t, const lam_model *m, int32_t place, int32_t k) {
    lam_spread s;
    bool any = false;
    PyObject *d = Py_BuildValue("{s:s,s:i}", "path", lam_model_place(m, place)->path, "call", (int)k);
    for (int i = 0; d && i < 2 * LAM_N_PHASES; i++) {
        char name[32];
        bool known = lam_times_place(t, place, k, (lam_phase)(i / 2), i % 2 == 0, &s);
        PyOS_snprintf(name, sizeof name, "%s%s", phases[i / 2], i % 2 ? "_self" : "");
        any = any || known;
        if (!lmx_put(d, name, spread_of(known, &s))) Py_CLEAR(d);
    }
    if (!any) Py_CLEAR(d);
    return d;
}

static PyObject *layers_of(const lam_times *t, const lam_model *m) {
    PyObject *list = PyList_New(0);
    for (int32_t place = 0; list && place < lam_model_n_places(m); place++) {
        for (int32_t k = 0; list; k++) {
            PyObject *layer = layer_of(t, m, place, k);
            if (!layer) break;
            if (PyList_Append(list, layer) < 0) Py_CLEAR(list);
            Py_DECREF(layer);
        }
        if (PyErr_Occurred()) Py_CLEAR(list);
    }
    return list;
}

static PyObject *outliers_of(const lam_times *t, const lam_model *m) {
    PyObject *list = PyList_New(0);
    lam_outlier o;
    for (int32_t i = 0; list && lam_times_outlier(t, i, &o); i++) {
        const char *path = o.place < 0 ? NULL : lam_model_place(m, o.place)->path;
        PyObject *item = Py_BuildValue("(iLLzL)", (int)o.run, (long long)o.whole, (long long)o.median, path,
                                       (long long)o.late);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *operators_of(const lam_times *t) {
    PyObject *list = PyList_New(0);
    lam_op_time o;
    for (int32_t i = 0; list && lam_times_op(t, i, &o); i++) {
        PyObject *item = Py_BuildValue("(ssNiLL)", o.name, phases[o.phase], PyBool_FromLong(o.node), (int)o.n,
                                       (long long)o.total, (long long)o.self);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *all_of(const lam_times *t, const lam_model *m) {
    static const char *const parts[LAM_N_TIME_PARTS] = {"forward", "backward", "recompute",
                                                        "engine",  "outside",  "whole"};
    lam_spread s;
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "runs", PyLong_FromLong(lam_times_n_runs(t))) &&
              lmx_put(d, "layers", layers_of(t, m)) && lmx_put(d, "outliers", outliers_of(t, m)) &&
              lmx_put(d, "operators", operators_of(t));
    for (int p = 0; ok && p < LAM_N_TIME_PARTS; p++)
        ok = lmx_put(d, parts[p], spread_of(lam_times_part(t, (lam_time_part)p, &s), &s));
    if (!ok) Py_CLEAR(d);
    return d;
}

PyObject *lmx_times(const lam_costs *c) {
    const lam_times *t = lam_costs_times(c), *device = lam_costs_device_times(c);
    const lam_model *m = lam_costs_model(c);
    if (!t) return lmx_str(NULL);
    PyObject *d = all_of(t, m);
    if (d && !lmx_put(d, "device", device ? all_of(device, m) : lmx_str(NULL))) Py_CLEAR(d);
    return d;
}

static PyObject *real_of(double v) { return v < 0 ? lmx_str(NULL) : PyFloat_FromDouble(v); }

static PyObject *speed_at(const lam_costs *c, int32_t row, int phase, const lam_peak *peak) {
    lam_speed s;
    if (!lam_costs_speed(c, row, (lam_phase)phase, peak, &s)) return lmx_str(NULL);
    const lam_place *p = lam_model_place(lam_costs_model(c), lam_costs_row(c, row)->place);
    return Py_BuildValue("(ssLNNNsN)", p->path, phases[phase], (long long)s.ns, real_of(s.flops),
                         real_of(s.bytes), real_of(s.intensity), lam_bound_name(s.bound), real_of(s.share));
}

PyObject *lmx_speeds(const lam_costs *c, const lam_peak *peak) {
    PyObject *list = PyList_New(0);
    const lam_peak reached = lam_costs_peak(c, *peak);
    for (int32_t i = 0; list && i < lam_costs_n_rows(c) * LAM_N_PHASES; i++) {
        PyObject *item = speed_at(c, i / LAM_N_PHASES, i % LAM_N_PHASES, &reached);
        if (!item || (item != Py_None && PyList_Append(list, item) < 0)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

PyObject *lmx_time_by(lmx_model *m, PyObject *other) {
    lam_model *model = lmx_model_get(m->st, (PyObject *)m);
    lam_error e = {.at = -1};
    if (!model) return NULL;
    if (m->borrowers) return lmx_fail(m->st, LAM_USAGE, NULL, "this Model is read by its Costs already");
    lam_model *timed = lmx_model_release(m->st, other);
    if (!timed) return NULL;
    if (lam_model_time_by(model, timed, &e) != LAM_OK) return lmx_raise(m->st, &e);
    Py_RETURN_NONE;
}
