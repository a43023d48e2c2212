/* SPDX-License-Identifier: Apache-2.0
 * What became of the values that were looked at, as Python sees it. */
#include "base/base.h"
#include "results/results.h"

static const char *const phases[] = {"forward", "backward", "recompute"};

static PyObject *truth(bool yes) { return PyBool_FromLong(yes); }

static PyObject *path_of(const lam_model *m, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    return lmx_str(ev ? lam_model_place(m, ev->place)->path : NULL);
}

static PyObject *type_of(const lam_model *m, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    return lmx_str(ev ? lam_model_module(m, ev->module)->type : NULL);
}

/* Calls count from 1 where people read them. */
static PyObject *ordinal_of(const lam_model *m, int32_t call) {
    const lam_event *ev = lam_model_event(m, call);
    if (!ev) Py_RETURN_NONE;
    return PyLong_FromLong(ev->ordinal + 1);
}

static PyObject *first_of(const lam_bad *bad) {
    int64_t at[LAM_MAX_AXES];
    return lmx_shape((lam_shape){lam_bad_first(bad, at), at});
}

static PyObject *finding_of(const lam_model *m, const lam_finding *f) {
    const lam_bad *bad = lam_model_bad(m, f->bad);
    PyObject *d = PyDict_New();
    bool ok =
        d && lmx_put(d, "text", lmx_str(f->text)) && lmx_put(d, "phase", lmx_str(phases[f->phase])) &&
        lmx_put(d, "path", path_of(m, f->call)) && lmx_put(d, "type", type_of(m, f->call)) &&
        lmx_put(d, "call", ordinal_of(m, f->call)) && lmx_put(d, "before", path_of(m, f->before)) &&
        lmx_put(d, "after", path_of(m, f->after)) && lmx_put(d, "own", truth(f->own)) &&
        lmx_put(d, "input", truth(f->input)) && lmx_put(d, "check", lmx_str(f->check ? bad->name : NULL)) &&
        lmx_put(d, "explained", truth(f->explained)) && lmx_put(d, "owned", lmx_str(f->owned)) &&
        lmx_put(d, "op", lmx_str(f->op)) && lmx_put(d, "value", lmx_str(lam_bad_kind(bad))) &&
        lmx_put(d, "nan", PyLong_FromLongLong(bad->found.nan)) &&
        lmx_put(d, "inf", PyLong_FromLongLong(bad->found.inf)) && lmx_put(d, "first", first_of(bad)) &&
        lmx_put(d, "shape", lmx_shape((lam_shape){bad->ndim, bad->sizes})) &&
        lmx_put(d, "dtype", lmx_str(bad->dtype < 0 ? NULL : lam_dtype_name(bad->dtype))) &&
        lmx_put(d, "times", PyLong_FromLong(f->times)) && lmx_put(d, "passed", PyLong_FromLong(f->passed));
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *stats_of(const lam_stats *s) {
    if (!s) Py_RETURN_NONE;
    return Py_BuildValue("{sLsLsLsLsLsdsdsdsd}", "numbers", (long long)s->numbers, "nan", (long long)s->nan,
                         "inf", (long long)s->inf, "zeros", (long long)s->zeros, "subnormal",
                         (long long)s->subnormal, "least", s->least, "greatest", s->greatest, "mean", s->mean,
                         "headroom", s->headroom);
}

static PyObject *all_stats(const lam_model *m, int32_t call) {
    int32_t n = lam_model_event(m, call)->n_out;
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < n; i++) {
        PyObject *item = stats_of(lam_model_stats(m, call, i));
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *call_of(const lam_health *h, const lam_model *m, int32_t call) {
    static const char *const states[] = {"unknown", "fine", "passed", "born"};
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "path", path_of(m, call)) && lmx_put(d, "type", type_of(m, call)) &&
              lmx_put(d, "call", ordinal_of(m, call)) &&
              lmx_put(d, "forward", lmx_str(states[lam_health_of(h, call, LAM_FORWARD)])) &&
              lmx_put(d, "backward", lmx_str(states[lam_health_of(h, call, LAM_BACKWARD)])) &&
              lmx_put(d, "stats", all_stats(m, call));
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *findings_of(const lam_health *h, const lam_model *m) {
    PyObject *list = PyList_New(0);
    const lam_finding *f;
    for (int32_t i = 0; list && (f = lam_health_finding(h, i)); i++) {
        PyObject *item = finding_of(m, f);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *calls_of(const lam_health *h, const lam_model *m) {
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && i < lam_model_n_events(m); i++) {
        PyObject *item = call_of(h, m, i);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

PyObject *lmx_scan_values(PyObject *module, PyObject *args) {
    unsigned long long at;
    const char *dtype;
    long long n;
    int repeats = 1, stats = 0;
    if (!PyArg_ParseTuple(args, "KsL|ip:scan_values", &at, &dtype, &n, &repeats, &stats)) return NULL;
    const int64_t sizes[] = {n};
    const lam_values v = {(const void *)(uintptr_t)at, lam_dtype_by_name(dtype), 1, sizes, NULL};
    lam_nonfinite found = {.first = -1};
    lam_error e = {.at = -1};
    lam_status s = LAM_OK;
    lam_stats told;
    for (int i = 0; s == LAM_OK && i < repeats; i++)
        s = stats ? lam_values_stats(&v, &told, &e) : lam_values_scan(&v, &found, &e);
    if (s == LAM_OK && stats) found = (lam_nonfinite){.nan = told.nan, .inf = told.inf, .first = -1};
    if (s != LAM_OK) return lmx_raise(lmx_state_of(module), &e);
    return Py_BuildValue("LLL", (long long)found.nan, (long long)found.inf, (long long)found.first);
}

static lam_health *health_of(lmx_model *self) {
    lam_health *h = NULL;
    lam_error e = {.at = -1};
    if (lam_health_new(&h, self->model, &e) != LAM_OK) lmx_raise(self->st, &e);
    return h;
}

PyObject *lmx_health(lmx_model *self) {
    const lam_looked *looked = lam_model_looked(self->model);
    if (!looked) Py_RETURN_NONE;
    lam_health *h = health_of(self);
    PyObject *d = h ? PyDict_New() : NULL;
    bool ok = d && lmx_put(d, "sentence", lmx_str(lam_health_sentence(h))) &&
              lmx_put(d, "findings", findings_of(h, self->model)) &&
              lmx_put(d, "calls", calls_of(h, self->model)) &&
              lmx_put(d, "tensors", PyLong_FromLongLong(looked->tensors)) &&
              lmx_put(d, "bytes", PyLong_FromLongLong(looked->bytes)) &&
              lmx_put(d, "unseen", PyLong_FromLongLong(looked->unseen)) &&
              lmx_put(d, "gradients", truth(looked->gradients)) &&
              lmx_put(d, "operators", truth(looked->operators)) && lmx_put(d, "cut", truth(looked->cut));
    if (!ok) Py_CLEAR(d);
    lam_health_free(h);
    return d;
}

PyObject *lmx_health_tail(lmx_model *self, PyObject *args) {
    int n;
    if (!PyArg_ParseTuple(args, "i:health_tail", &n)) return NULL;
    lam_health *h = health_of(self);
    lmx_text text = {0};
    lam_error e = {.at = -1};
    if (!h) return NULL;
    lam_status s = lam_health_tail(h, n, lmx_text_sink(&text), &e);
    lam_health_free(h);
    if (s == LAM_OK) return lmx_text_take(&text);
    lmx_vec_free(&text.bytes);
    return lmx_raise(self->st, &e);
}
