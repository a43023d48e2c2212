/* SPDX-License-Identifier: Apache-2.0
 * Rows of costs as dicts. There may be thousands, of a hundred entries each: rows have the same keys in the
 * same order, so a key is made once, in the first row, and so are the counts that most entries have. */
#include "base/base.h"
#include "results/results.h"

#include <stddef.h>
#include <stdio.h>

enum { MOST_KEYS = 160, N_STATES = LAM_UNKNOWN + 1 };

/* Writes dicts that are alike, one after another. */
typedef struct writer {
    PyObject *d;               /* the one that is being written; borrowed */
    PyObject *keys[MOST_KEYS]; /* in the order in which they are put */
    int at;                    /* of them: the next */
    PyObject *states[N_STATES], *zeros[N_STATES];
} writer;

static bool writer_init(writer *w) {
    *w = (writer){0};
    for (int i = 0; i < N_STATES; i++) {
        w->states[i] = PyUnicode_FromString(lam_state_name((lam_state)i));
        w->zeros[i] = lmx_count((lam_count){0, 0, (lam_state)i});
        if (!w->states[i] || !w->zeros[i]) return false;
    }
    return true;
}

static void writer_clear(writer *w) {
    for (int i = 0; i < MOST_KEYS; i++) Py_CLEAR(w->keys[i]);
    for (int i = 0; i < N_STATES; i++) {
        Py_CLEAR(w->states[i]);
        Py_CLEAR(w->zeros[i]);
    }
}

static PyObject *key_of(const char *prefix, const char *name) {
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return PyUnicode_InternFromString(whole);
}

/* Takes `value` over. False with an exception, or when `value` is NULL. */
static bool put_prefixed(writer *w, const char *prefix, const char *name, PyObject *value) {
    bool kept = w->at < MOST_KEYS;
    PyObject *key = kept ? w->keys[w->at] : NULL;
    if (!key) key = key_of(prefix, name);
    if (kept) w->keys[w->at++] = key;
    bool ok = key && value && PyDict_SetItem(w->d, key, value) == 0;
    Py_XDECREF(value);
    if (!kept) Py_XDECREF(key);
    return ok;
}

static bool put(writer *w, const char *name, PyObject *value) { return put_prefixed(w, "", name, value); }

static PyObject *count_of(const writer *w, lam_count c) {
    if (c.over) return lmx_count(c);
    if (!c.n) {
        Py_INCREF(w->zeros[c.state]);
        return w->zeros[c.state];
    }
    PyObject *n = PyLong_FromLongLong(c.n);
    PyObject *pair = n ? PyTuple_Pack(2, n, w->states[c.state]) : NULL;
    Py_XDECREF(n);
    return pair;
}

/* == metrics =========================================================================================== */

static PyObject *intensity_of(const lam_count metric[LAM_N_METRICS]) {
    double v = lam_metric_intensity(metric);
    if (v >= 0) return PyFloat_FromDouble(v);
    Py_RETURN_NONE;
}

/* "macs", "bytes", "intensity" and so on, or "total_backward_macs" after a prefix. */
static bool put_metrics(writer *w, const char *prefix, const lam_count metric[LAM_N_METRICS]) {
    for (int i = 0; i < LAM_N_METRICS; i++)
        if (!put_prefixed(w, prefix, lam_metric_name((lam_metric)i), count_of(w, metric[i]))) return false;
    return put_prefixed(w, prefix, "bytes", count_of(w, lam_metric_bytes(metric))) &&
           put_prefixed(w, prefix, "intensity", intensity_of(metric));
}

bool lmx_put_metrics(PyObject *dict, const lam_count metric[LAM_N_METRICS]) {
    writer w;
    bool ok = writer_init(&w);
    w.d = dict;
    ok = ok && put_metrics(&w, "", metric);
    writer_clear(&w);
    return ok;
}

/* == receptive fields ================================================================================== */

static PyObject *fraction(const int64_t f[2]) {
    return Py_BuildValue("(LL)", (long long)f[0], (long long)f[1]);
}

static PyObject *axis_as_dict(const lam_rf_axis *x) {
    static const char *const reaches[] = {"nothing", "window", "whole", "part", "unknown"};
    PyObject *d = PyDict_New();
    bool ok =
        d && lmx_put(d, "input", PyLong_FromLong(x->input)) && lmx_put(d, "axis", PyLong_FromLong(x->axis)) &&
        lmx_put(d, "out_axis", PyLong_FromLong(x->out_axis)) &&
        lmx_put(d, "positions", PyLong_FromLongLong(x->positions)) &&
        lmx_put(d, "reach", lmx_str(reaches[x->reach])) && lmx_put(d, "size", PyLong_FromLongLong(x->size)) &&
        lmx_put(d, "narrow", PyLong_FromLongLong(x->narrow)) && lmx_put(d, "jump", fraction(x->jump)) &&
        lmx_put(d, "start", fraction(x->start)) && lmx_put(d, "end", fraction(x->end)) &&
        lmx_put(d, "paths", PyBool_FromLong(x->paths)) &&
        lmx_put(d, "at_most", PyBool_FromLong(x->at_most)) &&
        lmx_put(d, "state", lmx_str(lam_state_name(x->state))) && lmx_put(d, "why", lmx_str(x->why));
    if (!ok) Py_CLEAR(d);
    return d;
}

/* The axes that the row's columns go by; None where no graph tells of the row. */
static PyObject *axes_of(const lam_costs *c, int32_t row) {
    lam_rf_axis x;
    lam_status s = lam_costs_rf_axis(c, row, 0, &x, NULL);
    if (s != LAM_OK) return s == LAM_NOMEM ? PyErr_NoMemory() : lmx_str(NULL);
    PyObject *list = PyList_New(0);
    for (int32_t i = 0; list && lam_costs_rf_axis(c, row, i, &x, NULL) == LAM_OK; i++) {
        PyObject *item = x.shown ? axis_as_dict(&x) : NULL;
        if (x.shown && (!item || PyList_Append(list, item) < 0)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* == rows ============================================================================================== */

static const struct field {
    const char *name;
    size_t at;
    enum { COUNT, FLAG, INDEX, REAL, TEXT } type;
} row_fields[] = {
#define FIELD(member, type)                                                                                  \
    { #member, offsetof(lam_cost_row, member), type }
    FIELD(event, INDEX),         FIELD(place, INDEX),        FIELD(module, INDEX),
    FIELD(depth, INDEX),         FIELD(params, COUNT),       FIELD(grad_params, COUNT),
    FIELD(nograd_params, COUNT), FIELD(param_bytes, COUNT),  FIELD(local_params, COUNT),
    FIELD(local_bytes, COUNT),   FIELD(buffers, COUNT),      FIELD(buffer_bytes, COUNT),
    FIELD(packed, COUNT),        FIELD(packed_bytes, COUNT), FIELD(total_params, COUNT),
    FIELD(running_stats, COUNT), FIELD(shared, FLAG),        FIELD(leaf, FLAG),
    FIELD(never_called, FLAG),   FIELD(counted, FLAG),       FIELD(rf, REAL),
    FIELD(rf_stride, REAL),      FIELD(rf_padding, REAL),    FIELD(rf_at_most, FLAG),
    FIELD(rf_whole, FLAG),       FIELD(rule_kind, TEXT),     FIELD(reason, TEXT),
#undef FIELD
};

static PyObject *field_value(const writer *w, const lam_cost_row *row, const struct field *f) {
    const void *at = (const char *)row + f->at;
    switch (f->type) {
    case COUNT: return count_of(w, *(const lam_count *)at);
    case FLAG: return PyBool_FromLong(*(const bool *)at);
    case INDEX: return PyLong_FromLong(*(const int32_t *)at);
    case REAL: return PyFloat_FromDouble(*(const double *)at);
    default: return lmx_str(*(const char *const *)at);
    }
}

static bool put_fields(writer *w, const lam_cost_row *row) {
    for (size_t i = 0; i < sizeof row_fields / sizeof *row_fields; i++)
        if (!put(w, row_fields[i].name, field_value(w, row, &row_fields[i]))) return false;
    return put_metrics(w, "", row->metric) && put_metrics(w, "total_", row->total) &&
           put_metrics(w, "backward_", row->backward) &&
           put_metrics(w, "total_backward_", row->total_backward) &&
           put_metrics(w, "recompute_", row->recompute) &&
           put_metrics(w, "total_recompute_", row->total_recompute) &&
           put(w, "rf_state", lmx_str(lam_state_name(row->rf_state)));
}

static bool put_place(writer *w, const lam_model *m, const lam_cost_row *row) {
    const lam_place *p = lam_model_place(m, row->place);
    const lam_module *mod = lam_model_module(m, row->module);
    return p && mod && put(w, "path", lmx_str(p->path)) && put(w, "name", lmx_str(p->name)) &&
           put(w, "type", lmx_str(mod->type)) && put(w, "type_path", lmx_str(mod->type_path));
}

static bool put_call(writer *w, const lam_model *m, const lam_cost_row *row) {
    static const lam_event never = {.parent = -1, .ordinal = -1};
    const lam_event *ev = row->event >= 0 ? lam_model_event(m, row->event) : NULL;
    if (!ev) ev = &never;
    return put(w, "ordinal", PyLong_FromLong(ev->ordinal)) &&
           put(w, "in_shapes", lmx_arg_shapes(ev->in, ev->n_in)) &&
           put(w, "out_shapes", lmx_arg_shapes(ev->out, ev->n_out)) &&
           put(w, "in_dtypes", lmx_arg_dtypes(ev->in, ev->n_in)) &&
           put(w, "out_dtypes", lmx_arg_dtypes(ev->out, ev->n_out)) &&
           put(w, "failed", PyBool_FromLong(ev->flags & LAM_CALL_FAILED)) &&
           put(w, "t0_ns", PyLong_FromLongLong(ev->t0_ns)) && put(w, "t1_ns", PyLong_FromLongLong(ev->t1_ns));
}

static PyObject *row_of(writer *w, const lam_costs *c, int32_t i) {
    const lam_model *m = lam_costs_model(c);
    const lam_cost_row *row = lam_costs_row(c, i);
    PyObject *d = PyDict_New();
    w->d = d;
    w->at = 0;
    bool ok = d && put_place(w, m, row) && put_fields(w, row) && put_call(w, m, row) &&
              put(w, "rf_axes", axes_of(c, i)) && put(w, "time", lmx_row_time(c, i));
    if (!ok) Py_CLEAR(d);
    return d;
}

PyObject *lmx_rows(const lam_costs *c) {
    writer w;
    bool ok = writer_init(&w);
    PyObject *list = ok ? PyList_New(0) : NULL;
    for (int32_t i = 0; list && i < lam_costs_n_rows(c); i++) {
        PyObject *d = row_of(&w, c, i);
        if (!d || PyList_Append(list, d) < 0) Py_CLEAR(list);
        Py_XDECREF(d);
    }
    writer_clear(&w);
    return list;
}
