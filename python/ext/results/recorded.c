/* SPDX-License-Identifier: Apache-2.0
 * The types Recordings, runs of recordings that were read, and Table, which any reader of Arrow's C streams
 * takes. */
#include "base/ext.h"
#include "base/tables.h"
#include "results/results.h"

#include <stdlib.h>
#include <string.h>

/* == a table =========================================================================================== */

typedef struct lmx_table {
    PyObject_HEAD lmx_state *st;
    lam_table *table;
} lmx_table;

static lam_table *table_of(PyObject *self) { return ((lmx_table *)self)->table; }

static PyObject *table_new(lmx_state *st, lam_table *owned) {
    PyTypeObject *type = st->table_type;
    lmx_table *self = (lmx_table *)PyType_GenericAlloc(type, 0);
    if (!self) {
        lam_table_free(owned);
        return NULL;
    }
    self->st = st;
    self->table = owned;
    return (PyObject *)self;
}

static void table_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    lam_table_free(table_of(self));
    PyObject_Free(self);
    Py_DECREF(type);
}

static Py_ssize_t table_length(PyObject *self) { return (Py_ssize_t)lam_table_rows(table_of(self)); }

static PyObject *value_of(const lam_cell *c) {
    if (!c->known) Py_RETURN_NONE;
    switch (c->kind) {
    case LAM_CELL_WHOLE: return PyLong_FromLongLong(c->whole);
    case LAM_CELL_REAL: return PyFloat_FromDouble(c->real);
    case LAM_CELL_FLAG: return PyBool_FromLong(c->flag);
    default: return PyUnicode_DecodeUTF8(c->text, (Py_ssize_t)c->n, "replace");
    }
}

static PyObject *column_values(lam_table *t, int32_t column) {
    const int64_t n = lam_table_rows(t);
    PyObject *list = PyList_New((Py_ssize_t)n);
    lam_cell c;
    for (int64_t row = 0; list && row < n && lam_table_cell(t, column, row, &c); row++) {
        PyObject *each = value_of(&c);
        if (!each || PyList_SetItem(list, (Py_ssize_t)row, each) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *table_item(PyObject *self, PyObject *key) {
    lam_table *t = table_of(self);
    const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
    if (!name && PyErr_Occurred()) return NULL;
    for (int32_t i = 0; name && i < lam_table_columns(t); i++)
        if (strcmp(lam_table_column(t, i), name) == 0) return column_values(t, i);
    PyErr_SetObject(PyExc_KeyError, key);
    return NULL;
}

static PyObject *table_columns(PyObject *self, void *unused) {
    lam_table *t = table_of(self);
    (void)unused;
    PyObject *names = PyTuple_New(lam_table_columns(t));
    for (int32_t i = 0; names && i < lam_table_columns(t); i++) {
        PyObject *name = PyUnicode_FromString(lam_table_column(t, i));
        if (!name || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
    }
    return names;
}

/* The stream is released with its capsule, unless its consumer has moved it out. */
static void free_stream(PyObject *capsule) {
    struct ArrowArrayStream *s = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    if (s && s->release) s->release(s);
    free(s);
}

static PyObject *table_stream(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"requested_schema", NULL};
    PyObject *unused = NULL;
    lam_error e = {.at = -1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:__arrow_c_stream__", names, &unused)) return NULL;
    struct ArrowArrayStream *s = calloc(1, sizeof *s);
    if (!s) return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (lam_table_stream(table_of(self), s, &e) != LAM_OK)
        lmx_raise(((lmx_table *)self)->st, &e);
    else
        capsule = PyCapsule_New(s, "arrow_array_stream", free_stream);
    if (!capsule) {
        if (s->release) s->release(s);
        free(s);
    }
    return capsule;
}

static PyObject *table_repr(PyObject *self) {
    lam_table *t = table_of(self);
    return PyUnicode_FromFormat("<lamina.Table: %lld rows of %d columns>", (long long)lam_table_rows(t),
                                (int)lam_table_columns(t));
}

static PyMethodDef table_methods[] = {
    {"__arrow_c_stream__", (PyCFunction)(void (*)(void))table_stream, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "__arrow_c_stream__($self, requested_schema=None)\n--\n\nReturns the table as a stream of "
         "Arrow, which DuckDB, Polars, pandas and pyarrow read. The schema asked for is not looked at.")},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef table_fields[] = {
    {"columns", table_columns, NULL, PyDoc_STR("The names of the columns, in their order."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot table_slots[] = {
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {Py_tp_getset, table_fields},
    {Py_tp_repr, table_repr},
    {Py_mp_length, table_length},
    {Py_mp_subscript, table_item},
    {Py_tp_doc,
     "A table by columns: len() gives its rows, table[name] the values of a column, None where one "
     "is unknown. Anything that reads __arrow_c_stream__ takes it."},
    {0, NULL},
};
PyType_Spec lmx_table_spec = {
    .name = "lamina._lamina.Table",
    .basicsize = sizeof(lmx_table),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = table_slots,
};

/* == recordings ========================================================================================== */

typedef struct lmx_recordings {
    PyObject_HEAD lmx_state *st;
    lam_recording **all;
    int32_t n;
} lmx_recordings;

static lmx_recordings *self_of(PyObject *self) { return (lmx_recordings *)self; }

static lam_status open_one(lmx_recordings *self, PyObject *item, lam_error *e) {
    const char *file;
    long long run;
    if (!PyArg_ParseTuple(item, "yL:Recordings", &file, &run)) return lmx_error_from_exception(self->st, e);
    lam_status s = lam_recording_open_steps(&self->all[self->n], file, run, e);
    self->n += s == LAM_OK;
    return s;
}

static PyObject *recordings_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    lmx_state *st = lmx_state_of_type(type);
    lam_error e = {.at = -1};
    PyObject *files;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!:Recordings", &PyList_Type, &files)) return NULL;
    lmx_recordings *self = (lmx_recordings *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    const Py_ssize_t n = PyList_Size(files);
    lam_status s = LAM_OK;
    self->st = st;
    self->all = calloc((size_t)n + 1, sizeof(lam_recording *));
    if (!self->all) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; s == LAM_OK && i < n; i++) s = open_one(self, PyList_GetItem(files, i), &e);
    if (s == LAM_OK) return (PyObject *)self;
    Py_DECREF(self);
    return lmx_raise(st, &e);
}

static void recordings_dealloc(PyObject *object) {
    lmx_recordings *self = self_of(object);
    PyTypeObject *type = Py_TYPE(object);
    for (int32_t i = 0; i < self->n; i++) lam_recording_free(self->all[i]);
    free(self->all);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *recordings_table(PyObject *object, PyObject *args) {
    static const char *const names[LAM_N_RECORDED_TABLES] = {"ranks", "steps", "layers"};
    lmx_recordings *self = self_of(object);
    const char *name;
    long long from = 0;
    lam_table *t = NULL;
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "s|L:table", &name, &from)) return NULL;
    int what = 0;
    while (what < LAM_N_RECORDED_TABLES && strcmp(names[what], name) != 0) what++;
    lam_status s = lam_recording_table((const lam_recording *const *)self->all, self->n,
                                       (lam_recorded_table)what, from, &t, &e);
    return s == LAM_OK ? table_new(self->st, t) : lmx_raise(self->st, &e);
}

static PyMethodDef recordings_methods[] = {
    {"table", recordings_table, METH_VARARGS,
     PyDoc_STR("table($self, name, from_unix_ns=0, /)\n--\n\nReturns the table `ranks`, `steps` or `layers`, "
               "of layers without hours that end before a moment.")},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot recordings_slots[] = {
    {Py_tp_new, recordings_new},
    {Py_tp_dealloc, recordings_dealloc},
    {Py_tp_methods, recordings_methods},
    {Py_tp_doc,
     "Recordings(files, /)\n--\n\nRuns of recordings: a list of files, as bytes, and the number of "
     "a run in each, 0 for the newest."},
    {0, NULL},
};
PyType_Spec lmx_recordings_spec = {
    .name = "lamina._lamina.Recordings",
    .basicsize = sizeof(lmx_recordings),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = recordings_slots,
};
