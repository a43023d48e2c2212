/* SPDX-License-Identifier: Apache-2.0
 * The type Model: a handle of what a capture saw, with readers for every part of it. */
#include "base/ext.h"
#include "base/tables.h"
#include "measure/memory.h"
#include "results/results.h"

#include <stdlib.h>

static lmx_model *self_of(PyObject *self) { return (lmx_model *)self; }

/* == parts as data ===================================================================================== */

static PyObject *part_data(PyObject *self, lam_model_part part) {
    const lam_model *m = lmx_model_of(self);
    lmx_sink t;
    if (!m) return NULL;
    lam_model_tell(m, part, lmx_sink_begin(&t));
    return lmx_sink_end(&t);
}

#define PART(name, part)                                                                                     \
    static PyObject *model_##name(PyObject *self, PyObject *unused) {                                        \
        (void)unused;                                                                                        \
        return part_data(self, part);                                                                        \
    }
PART(events, LAM_MODEL_CALLS)
PART(modules, LAM_MODEL_MODULES)
PART(places, LAM_MODEL_PLACES)
PART(tensors, LAM_MODEL_TENSORS)
PART(notes, LAM_MODEL_NOTES)
PART(provenance, LAM_MODEL_PROVENANCE)
PART(operators, LAM_MODEL_OPERATORS)
PART(lifetimes, LAM_MODEL_LIFETIMES)

/* == results of a model ================================================================================ */

static PyObject *model_add_note(PyObject *self, PyObject *text) {
    lmx_state *st = self_of(self)->st;
    lam_model *m = lmx_model_of(self);
    lam_error e = {.at = -1};
    if (!m) return NULL;
    if (!PyUnicode_Check(text)) return PyErr_Format(PyExc_TypeError, "a note is a str");
    if (lam_model_add_note(m, lmx_utf8(text), &e) != LAM_OK) return lmx_raise(st, &e);
    Py_RETURN_NONE;
}

static PyObject *model_table_rows(PyObject *self, PyObject *in) {
    const lam_model *m = lmx_model_of(self);
    const long at = m ? PyLong_AsLong(in) : -1;
    if (!m || (at == -1 && PyErr_Occurred())) return NULL;
    bool is_largest = false;
    const int64_t rows = at < 0 || at > INT32_MAX ? -1 : lam_model_table_rows(m, (int32_t)at, &is_largest);
    if (rows < 0) Py_RETURN_NONE;
    return Py_BuildValue("(LN)", (long long)rows, PyBool_FromLong(is_largest));
}

/* One tensor of a cache: its layer, its bytes before and after a step, and whether sequences share it. */
static bool read_kept(PyObject *item, lam_kept *kept) {
    int shared = 0;
    long long before = 0, after = 0;
    if (!PyArg_ParseTuple(item, "iLLp:keep", &kept->layer, &before, &after, &shared)) return false;
    kept->before = before;
    kept->after = after;
    kept->shared = shared;
    return true;
}

static PyObject *model_keep(PyObject *self, PyObject *args) {
    lmx_state *st = self_of(self)->st;
    lam_model *m = lmx_model_of(self);
    PyObject *list;
    long long batch;
    const char *why;
    lam_error e = {.at = -1};
    if (!m || !PyArg_ParseTuple(args, "O!Lz:keep", &PyList_Type, &list, &batch, &why)) return NULL;
    const Py_ssize_t n = PyList_Size(list);
    lam_kept *kept = calloc((size_t)n + 1, sizeof *kept);
    bool ok = kept != NULL;
    if (!ok) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = read_kept(PyList_GetItem(list, i), &kept[i]);
    if (ok && lam_model_keep(m, kept, (int32_t)n, batch, why, &e) != LAM_OK) {
        lmx_raise(st, &e);
        ok = false;
    }
    free(kept);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *model_rf(PyObject *self, PyObject *args) {
    int event;
    const char *convention = NULL;
    if (!PyArg_ParseTuple(args, "i|z:rf", &event, &convention)) return NULL;
    lmx_state *st = self_of(self)->st;
    const lam_model *m = lmx_model_of(self);
    lam_error e = {.at = -1};
    lam_rf rf;
    if (!m) return NULL;
    if (lam_rf_of(m, event, convention, &rf, &e) != LAM_OK) return lmx_raise(st, &e);
    return Py_BuildValue("(ddds)", rf.size, rf.stride, rf.padding, lam_state_name(rf.state));
}

static PyObject *model_n_operators(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_model *m = lmx_model_of(self);
    return m ? PyLong_FromLong(lam_model_n_ops(m)) : NULL;
}

static PyObject *model_ops_seen(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_model *m = lmx_model_of(self);
    return m ? PyBool_FromLong(lam_model_ops_seen(m)) : NULL;
}

static PyObject *model_find(PyObject *self, PyObject *args) {
    const char *path;
    const lam_model *m = lmx_model_of(self);
    if (!m || !PyArg_ParseTuple(args, "s:find", &path)) return NULL;
    return PyLong_FromLong(lam_model_find(m, path));
}

static void model_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    lam_gadgets_free(self_of(self)->gadgets);
    lam_model_free(self_of(self)->model);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef model_methods[] = {
    {"costs", (PyCFunction)(void (*)(void))lmx_costs_new, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("costs($self, /, convention=None, released=False, custom=None, own=None, "
               "ask=None)\n--\n\nReturns the Costs of the calls under a convention.")},
    {"compare", lmx_compared, METH_VARARGS,
     PyDoc_STR(
         "compare($self, conventions, kind=None, width=0, exact=False, flops=False, backward=False, "
         "tokens=False, given=False, /)\n--\n\nReturns the forward's totals under several conventions, and "
         "why they differ, as text. `tokens`: conventions of a token; `given`: its length was named.")},
    {"rf", model_rf, METH_VARARGS,
     PyDoc_STR("rf($self, event, convention=None, /)\n--\n\nReturns receptive field, stride, padding and "
               "state of one call alone.")},
    {"find", model_find, METH_VARARGS,
     PyDoc_STR("find($self, path, /)\n--\n\nReturns the number of the place at a dotted path, or -1.")},
    {"time_by", lmx_time_by, METH_O,
     PyDoc_STR("time_by($self, other, /)\n--\n\nReplaces the times by the medians of the runs of `other`, "
               "which is empty afterwards.")},
    {"add_note", model_add_note, METH_O,
     PyDoc_STR("add_note($self, text, /)\n--\n\nAdds a note after the capture.")},
    {"keep", model_keep, METH_VARARGS,
     PyDoc_STR(
         "keep($self, tensors, batch, why, /)\n--\n\nAdds what a forward kept for the next one: for each "
         "tensor of a cache the number of its layer, its bytes before and after a step of one token, and "
         "whether all `batch` sequences share it. `why`: how it grows is not known; else None.")},
    {"table_rows", model_table_rows, METH_O,
     PyDoc_STR("table_rows($self, entry, /)\n--\n\nReturns among how many rows of a table an argument of the "
               "outermost call chooses, and whether it is the largest; None: of none.")},
    {"graph", lmx_graph, METH_NOARGS,
     PyDoc_STR("graph($self, /)\n--\n\nReturns the data-flow graph: nodes and edges as lists of dicts.")},
    {"findings", lmx_graph_findings, METH_NOARGS,
     PyDoc_STR(
         "findings($self, /)\n--\n\nReturns what is unused and what has no gradient: paths and reasons.")},
    {"health", lmx_health, METH_NOARGS,
     PyDoc_STR("health($self, /)\n--\n\nReturns where NaN and Inf first occurred; None if values were not "
               "searched.")},
    {"health_tail", lmx_health_tail, METH_VARARGS,
     PyDoc_STR(
         "health_tail($self, n, /)\n--\n\nReturns the last `n` calls before the first NaN or Inf, as text.")},
    {"gadgets", lmx_gadgets, METH_VARARGS,
     PyDoc_STR("gadgets($self, max_depth=-1, forward=True, backward=True, /)\n--\n\nReturns the JSON of "
               "torch_inspector in UTF-8.")},
    {"graph_dot", lmx_graph_dot, METH_VARARGS,
     PyDoc_STR("graph_dot($self, ops=False, /)\n--\n\nReturns the graph as DOT. `ops`: with a node for each "
               "operator.")},
    {"memory_measured", lmx_memory_measured, METH_NOARGS,
     PyDoc_STR("memory_measured($self, /)\n--\n\nReturns True if memory was measured.")},
    {"memory", lmx_memory_data, METH_NOARGS,
     PyDoc_STR("memory($self, /)\n--\n\nReturns the memory of the run: totals, and a dict for each place.")},
    {"device_memory", lmx_device_memory_data, METH_NOARGS,
     PyDoc_STR("device_memory($self, /)\n--\n\nReturns the figures of a device's allocator, or None.")},
    {"memory_course", lmx_memory_course, METH_VARARGS,
     PyDoc_STR("memory_course($self, points, /)\n--\n\nReturns the memory over time at most at `points` "
               "times: nanoseconds and bytes.")},
    {"events", model_events, METH_NOARGS, PyDoc_STR("events($self, /)\n--\n\nReturns every call, in order.")},
    {"modules", model_modules, METH_NOARGS,
     PyDoc_STR("modules($self, /)\n--\n\nReturns every distinct module.")},
    {"places", model_places, METH_NOARGS,
     PyDoc_STR("places($self, /)\n--\n\nReturns every place in the tree.")},
    {"tensors", model_tensors, METH_NOARGS,
     PyDoc_STR("tensors($self, /)\n--\n\nReturns every distinct parameter and buffer.")},
    {"operators", model_operators, METH_NOARGS,
     PyDoc_STR(
         "operators($self, /)\n--\n\nReturns every operator that was observed, in order of its start.")},
    {"n_operators", model_n_operators, METH_NOARGS,
     PyDoc_STR("n_operators($self, /)\n--\n\nReturns the number of operators that were observed.")},
    {"ops_seen", model_ops_seen, METH_NOARGS,
     PyDoc_STR("ops_seen($self, /)\n--\n\nReturns whether operators were observed.")},
    {"lifetimes", model_lifetimes, METH_NOARGS,
     PyDoc_STR("lifetimes($self, /)\n--\n\nReturns the tensors of a dry run whose memory was followed: "
               "bytes, the operator that made each, the operator after which it is freed, and what it is.")},
    {"provenance", model_provenance, METH_NOARGS,
     PyDoc_STR("provenance($self, /)\n--\n\nReturns how, where and when the model was run: texts by name.")},
    {"notes", model_notes, METH_NOARGS, PyDoc_STR("notes($self, /)\n--\n\nReturns the notes of the report.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot model_slots[] = {
    {Py_tp_doc, "What a capture saw: modules, places, tensors and calls."},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_methods, model_methods},
    {0, NULL},
};

PyType_Spec lmx_model_spec = {
    "lamina._lamina.Model",
    sizeof(lmx_model),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    model_slots,
};
