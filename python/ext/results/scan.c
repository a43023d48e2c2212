/* SPDX-License-Identifier: Apache-2.0
 * The tables of torchscan and thoplw from the dicts that their users pass around: what crawl_module returned
 * and the logs of a LayersInfo, perhaps changed since. The core lays them out, as it does with rows of its
 * own. */
#include "base/base.h"
#include "base/tables.h"
#include "results/results.h"

#include <stdlib.h>
#include <string.h>

/* The dict's value under a name, borrowed. NULL with a KeyError. */
static PyObject *item(PyObject *dict, const char *name) {
    PyObject *key = PyUnicode_FromString(name);
    PyObject *value = key && PyDict_Check(dict) ? PyDict_GetItemWithError(dict, key) : NULL;
    if (!value && key && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
    Py_XDECREF(key);
    return value;
}

/* A whole number, or one of lamina's counts, which knows its state. */
static bool count_of(lmx_state *st, PyObject *value, lam_count *out) {
    PyObject *state = PyObject_GetAttrString(value, "state");
    PyObject *pair = state ? PyTuple_Pack(2, value, state) : (PyErr_Clear(), Py_INCREF(value), value);
    bool ok = pair && lmx_count_from(st, pair, out);
    Py_XDECREF(state);
    Py_XDECREF(pair);
    return ok;
}

static bool add_item(lmx_state *st, PyObject *dict, const char *name, lam_count *sum) {
    lam_count c;
    PyObject *value = item(dict, name);
    if (!value || !count_of(st, value, &c)) return false;
    *sum = lam_count_add(*sum, c);
    return true;
}

/* Without the key the column is empty space; the tables that don't show it need not carry it. */
static bool number_item(PyObject *dict, const char *name, double *out) {
    PyObject *value = PyDict_GetItemString(dict, name);
    *out = value && value != Py_None ? PyFloat_AsDouble(value) : 0;
    return !PyErr_Occurred();
}

/* `shape` keeps the text that the row borrows. */
static bool row_of(lmx_state *st, PyObject *layer, PyObject **shape, lam_scan_row *row) {
    memset(row, 0, sizeof *row);
    PyObject *name = item(layer, "name"), *type = name ? item(layer, "type") : NULL;
    PyObject *depth = type ? item(layer, "depth") : NULL,
             *output = depth ? item(layer, "output_shape") : NULL;
    if (!output) return false;
    *shape = output == Py_None ? PyUnicode_FromString("?") : PyObject_Str(output);
    long at = PyLong_AsLong(depth);
    if (!*shape || (at == -1 && PyErr_Occurred())) return false;
    row->name = lmx_utf8(name);
    row->type = lmx_utf8(type);
    row->output_shape = lmx_utf8(*shape);
    row->depth = at > INT32_MAX ? INT32_MAX : at < 0 ? 0 : (int32_t)at;
    return add_item(st, layer, "grad_params", &row->params) &&
           add_item(st, layer, "nograd_params", &row->params) &&
           add_item(st, layer, "num_buffers", &row->params) && number_item(layer, "rf", &row->rf) &&
           number_item(layer, "s", &row->rf_stride) && number_item(layer, "p", &row->rf_padding);
}

static bool work_of(lmx_state *st, PyObject *layer, lam_scan_row *row) {
    for (int i = 0; i <= LAM_DMAS; i++) /* that table has no others */
        if (!add_item(st, layer, lam_metric_name((lam_metric)i), &row->metric[i])) return false;
    return true;
}

static bool wrap_of(lmx_state *st, PyObject *mode, lam_wrap *out) {
    const char *name = mode == Py_None ? "none" : PyUnicode_Check(mode) ? lmx_utf8(mode) : "?";
    *out = strcmp(name, "mid") == 0 ? LAM_WRAP_MID : strcmp(name, "end") == 0 ? LAM_WRAP_END : LAM_WRAP_NONE;
    if (*out != LAM_WRAP_NONE || mode == Py_None) return true;
    lmx_fail(st, LAM_USAGE, NULL, "there is no wrap mode '%.40s'; it is 'mid', 'end' or None", name);
    return false;
}

/* overheads: {"cuda": {"fwd": MiB}, "framework": {"fwd": MiB}} */
static bool overhead_of(PyObject *info, double *mib) {
    static const char *const kinds[] = {"cuda", "framework"};
    PyObject *overheads = item(info, "overheads");
    for (int i = 0; overheads && i < 2; i++) {
        PyObject *kind = item(overheads, kinds[i]), *fwd = kind ? item(kind, "fwd") : NULL;
        if (!fwd) return false;
        *mib += PyFloat_AsDouble(fwd);
    }
    return overheads && !PyErr_Occurred();
}

static PyObject *write_info(lmx_state *st, const lam_scan_info *info, const lam_report_options *o) {
    lmx_text text = {0};
    lam_error e = {.at = -1};
    if (lam_scan_write(info, o, lmx_text_sink(&text), &e) == LAM_OK) return lmx_text_take(&text);
    Py_XDECREF(lmx_text_take(&text));
    PyErr_Clear();
    return lmx_raise(st, &e);
}

static bool totals_of(lmx_state *st, PyObject *info, lam_scan_info *out, lam_report_options *o) {
    PyObject *overall = item(info, "overall");
    return overall && add_item(st, overall, "grad_params", &out->grad_params) &&
           add_item(st, overall, "nograd_params", &out->nograd_params) &&
           add_item(st, overall, "param_size", &out->bytes) &&
           add_item(st, overall, "buffer_size", &out->bytes) && overhead_of(info, &o->overhead_mb);
}

PyObject *lmx_scan_write(PyObject *module, PyObject *args) {
    PyObject *info, *mode;
    int rf, stats;
    lmx_state *st = lmx_state_of(module);
    lam_report_options o;
    lam_report_defaults(&o);
    o.layout = "torchscan-0.1.2";
    if (!PyArg_ParseTuple(args, "O!Opp:scan_write", &PyDict_Type, &info, &mode, &rf, &stats)) return NULL;
    if (!wrap_of(st, mode, &o.wrap)) return NULL;
    o.receptive_field = rf;
    o.effective_rf_stats = stats;
    PyObject *given = item(info, "layers"), *layers = given ? PySequence_List(given) : NULL;
    Py_ssize_t n = layers ? PyList_Size(layers) : 0, done = 0;
    lam_scan_row *rows = calloc((size_t)n + 1, sizeof *rows);
    PyObject **shapes = calloc((size_t)n + 1, sizeof *shapes);
    bool ok = layers && rows && shapes && n <= INT32_MAX;
    for (; ok && done < n; done++) {
        PyObject *layer = PyList_GetItem(layers, done);
        ok = row_of(st, layer, &shapes[done], &rows[done]) && work_of(st, layer, &rows[done]);
    }
    lam_scan_info out = {.n_rows = (int32_t)n, .rows = rows};
    ok = ok && totals_of(st, info, &out, &o);
    PyObject *text = ok ? write_info(st, &out, &o) : NULL;
    for (Py_ssize_t i = 0; shapes && i < n; i++) Py_XDECREF(shapes[i]);
    free(shapes);
    free(rows);
    Py_XDECREF(layers);
    if (!text && !PyErr_Occurred()) PyErr_NoMemory();
    return text;
}

/* Cell `column` of one layer's line, padded and cut to `width`; None for a width: as long as it is. */
PyObject *lmx_scan_cell(PyObject *module, PyObject *args) {
    PyObject *layer, *mode, *given;
    int column;
    lmx_state *st = lmx_state_of(module);
    lam_wrap wrap;
    if (!PyArg_ParseTuple(args, "O!iOO:scan_cell", &PyDict_Type, &layer, &column, &given, &mode)) return NULL;
    long width = given == Py_None ? -1 : PyLong_AsLong(given);
    if ((width == -1 && PyErr_Occurred()) || !wrap_of(st, mode, &wrap)) return NULL;
    PyObject *shape = NULL, *text = NULL;
    lam_scan_row row;
    if (row_of(st, layer, &shape, &row)) {
        int32_t w = width > INT32_MAX ? INT32_MAX : width < 0 ? -1 : (int32_t)width;
        int size = lam_scan_cell(NULL, 0, &row, column, w, wrap);
        char *buf = size >= 0 ? malloc((size_t)size + 1) : NULL;
        if (buf) lam_scan_cell(buf, (size_t)size + 1, &row, column, w, wrap);
        text = buf ? lmx_str(buf) : NULL;
        if (size < 0 && row.depth > LAM_SCAN_DEEPEST)
            lmx_fail(st, LAM_RANGE, NULL, "the depth is %d; no tree is deeper than %d", row.depth,
                     LAM_SCAN_DEEPEST);
        else if (size < 0)
            lmx_fail(st, LAM_USAGE, NULL, "torchscan's table has the columns 0 to 6, not %d", column);
        else if (!buf)
            PyErr_NoMemory();
        free(buf);
    }
    Py_XDECREF(shape);
    return text;
}

/* -- thoplw -------------------------------------------------------------------------------------------- */

static PyObject *joined(PyObject *list, const char *by) {
    PyObject *between = PyUnicode_FromString(by), *text = NULL;
    if (between && list) text = PyUnicode_Join(between, list);
    Py_XDECREF(between);
    Py_XDECREF(list);
    return text;
}

/* A shape without its batch axis, as "3x224x224"; several with commas; "?" for None. */
static PyObject *shape_text(PyObject *shape) {
    PyObject *sizes = shape == Py_None ? NULL : PySequence_List(shape), *texts = sizes ? PyList_New(0) : NULL;
    Py_ssize_t n = sizes ? PyList_Size(sizes) : 0;
    if (shape == Py_None) return PyUnicode_FromString("?");
    PyObject *first = n > 0 ? PyList_GetItem(sizes, 0) : NULL;
    bool several = first && (first == Py_None || PyList_Check(first) || PyTuple_Check(first));
    for (Py_ssize_t i = several ? 0 : 1; texts && i < n; i++) {
        PyObject *at = PyList_GetItem(sizes, i), *text = several ? shape_text(at) : PyObject_Str(at);
        if (!text || PyList_Append(texts, text) < 0) Py_CLEAR(texts);
        Py_XDECREF(text);
    }
    Py_XDECREF(sizes);
    return texts ? joined(texts, several ? ", " : "x") : NULL;
}

/* `texts` keeps what the row borrows. 0: the layer is left out; -1: an exception. */
static int log_of(lmx_state *st, PyObject *pair, PyObject *texts, lam_thoplw_row *row) {
    PyObject *path, *log, *in, *out;
    if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "UO!:log", &path, &PyDict_Type, &log)) return -1;
    PyObject *macs = item(log, "macs"), *params = macs ? item(log, "params") : NULL;
    PyObject *in_shapes = params ? item(log, "shapes_in") : NULL,
             *out_shape = in_shapes ? item(log, "shape_out") : NULL,
             *description = out_shape ? item(log, "description") : NULL;
    if (!description) return -1;
    if (macs == Py_None || params == Py_None) return 0;
    in = shape_text(in_shapes);
    out = in ? shape_text(out_shape) : NULL;
    PyObject *kept = out ? PyTuple_Pack(5, path, in, out, description, log) : NULL;
    bool ok = kept && PyList_Append(texts, kept) == 0 && count_of(st, macs, &row->macs) &&
              count_of(st, params, &row->params);
    if (ok) {
        row->path = lmx_utf8(path);
        row->in_shapes = lmx_utf8(in);
        row->out_shape = lmx_utf8(out);
        row->description = lmx_utf8(description);
    }
    Py_XDECREF(in);
    Py_XDECREF(out);
    Py_XDECREF(kept);
    return ok ? 1 : -1;
}

static PyObject *write_logs(lmx_state *st, const lam_thoplw_info *info, const lam_report_options *o) {
    lmx_text text = {0};
    lam_error e = {.at = -1};
    if (lam_thoplw_write(info, o, lmx_text_sink(&text), &e) == LAM_OK) return lmx_text_take(&text);
    Py_XDECREF(lmx_text_take(&text));
    PyErr_Clear();
    return lmx_raise(st, &e);
}

PyObject *lmx_thoplw_write(PyObject *module, PyObject *args) {
    PyObject *info;
    const char *numbers;
    lam_thoplw_info out = {0};
    lmx_state *st = lmx_state_of(module);
    lam_report_options o;
    lam_report_defaults(&o);
    if (!PyArg_ParseTuple(args, "O!sss:thoplw_write", &PyList_Type, &info, &out.type, &o.format, &numbers))
        return NULL;
    o.numbers = strcmp(numbers, "clever") == 0  ? LAM_FMT_CLEVER
                : strcmp(numbers, "ratio") == 0 ? LAM_FMT_RATIO
                                                : LAM_FMT_RAW;
    /* A copy: what text is made of may be the user's own and change the list. */
    PyObject *logs = PySequence_List(info), *texts = logs ? PyList_New(0) : NULL;
    Py_ssize_t n = texts ? PyList_Size(logs) : 0;
    lam_thoplw_row *rows = calloc((size_t)n + 1, sizeof *rows);
    int ok = texts && rows && n <= INT32_MAX ? 1 : -1;
    if (ok < 0 && !PyErr_Occurred()) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok >= 0 && i < n; i++) {
        ok = log_of(st, PyList_GetItem(logs, i), texts, &rows[out.n_rows]);
        if (ok > 0) out.n_rows++;
    }
    out.rows = rows;
    PyObject *text = ok >= 0 ? write_logs(st, &out, &o) : NULL;
    free(rows);
    Py_XDECREF(texts);
    Py_XDECREF(logs);
    return text;
}
