/* SPDX-License-Identifier: Apache-2.0
 * The type Recorder, which writes the steps of a run to a file. It waits for disks without the GIL. */
#include "base/ext.h"
#include "base/tables.h"
#include "calls/send_step.h"
#include "process/signals.h"

#include <stdatomic.h>

typedef struct recorder {
    PyObject_HEAD lmx_state *st;
    lam_recorder *to; /* NULL once it is closed */
    lam_pace pace;    /* of all calls of its roots */
} recorder;

enum { MOST_OPEN = 8, WAIT_MS = 1000 };
/* Recorders whose run a signal may end. Those past the first ones are not told. */
static _Atomic(lam_recorder *) open_ones[MOST_OPEN];

/* In a signal's handler. */
static void tell_signal(const char *name) {
    for (int i = 0; i < MOST_OPEN; i++) {
        lam_recorder *to = atomic_load(&open_ones[i]);
        if (to) lam_recorder_signal(to, name, WAIT_MS);
    }
}

static void note_open(lam_recorder *to) {
    for (int i = 0; i < MOST_OPEN; i++) {
        lam_recorder *none = NULL;
        if (!atomic_compare_exchange_strong(&open_ones[i], &none, to)) continue;
        lmx_tell_signals(tell_signal);
        return;
    }
}

static void note_closed(lam_recorder *to) {
    bool others = false;
    for (int i = 0; i < MOST_OPEN; i++) {
        lam_recorder *at = to;
        if (to) atomic_compare_exchange_strong(&open_ones[i], &at, NULL);
        others = others || atomic_load(&open_ones[i]);
    }
    if (!others) lmx_tell_no_signals();
}

static recorder *self_of(PyObject *self) { return (recorder *)self; }

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"file",  "command", "host", "torch",   "rank", "world",
                            "every", "unix_ns", "job",  "attempt", NULL};
    PyObject *file;
    lam_run_info info = {0};
    long long unix_ns;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&zzziiiL|zi:Recorder", names, PyUnicode_FSConverter,
                                     &file, &info.command, &info.host, &info.torch, &info.rank, &info.world,
                                     &info.every, &unix_ns, &info.job, &info.attempt))
        return NULL;
    info.unix_ns = unix_ns;
    lmx_state *st = PyType_GetModuleState(type);
    recorder *r = st ? (recorder *)PyType_GenericAlloc(type, 0) : NULL;
    lam_error e = {.at = -1};
    lam_status s = LAM_OK;
    if (r) {
        r->st = st;
        info.pace = &r->pace;
        const char *path = PyBytes_AsString(file);
        Py_BEGIN_ALLOW_THREADS s = lam_recorder_new(&r->to, path, &info, &e);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(file);
    if (r && s != LAM_OK) {
        Py_DECREF(r);
        return lmx_raise(st, &e);
    }
    if (r) note_open(r->to);
    return (PyObject *)r;
}

lam_pace *lmx_recorder_pace(PyObject *o) { return &self_of(o)->pace; }

lam_recorder *lmx_recorder_of(lmx_state *st, PyObject *o) {
    bool is_one = Py_TYPE(o) == st->recorder_type;
    if (!is_one) PyErr_SetString(PyExc_TypeError, "expected a lamina Recorder");
    if (is_one && !self_of(o)->to) lmx_fail(st, LAM_USAGE, NULL, "the recording is closed");
    return is_one ? self_of(o)->to : NULL;
}

bool lmx_hand_over_model(lmx_state *st, PyObject *into, PyObject *model, const lam_step_info *about) {
    lam_error e = {.at = -1};
    lam_recorder *to = lmx_recorder_of(st, into);
    lam_model *m = to ? lmx_model_release(st, model) : NULL;
    if (!m) return false;
    lam_status s = lam_recorder_step(to, m, about, &e);
    if (s != LAM_OK) lmx_raise(st, &e);
    return s == LAM_OK;
}

static lam_status close_it(recorder *r, lam_error *e) {
    lam_recorder *to = r->to;
    lam_status s;
    r->to = NULL;
    note_closed(to);
    Py_BEGIN_ALLOW_THREADS s = lam_recorder_close(to, e);
    Py_END_ALLOW_THREADS return s;
}

static PyObject *recorder_close(PyObject *self, PyObject *args) {
    const char *ended_by = NULL;
    lam_error e = {.at = -1};
    if (!PyArg_ParseTuple(args, "|z:close", &ended_by)) return NULL;
    if (self_of(self)->to) lam_recorder_ended_by(self_of(self)->to, ended_by);
    if (close_it(self_of(self), &e) != LAM_OK) return lmx_raise(self_of(self)->st, &e);
    Py_RETURN_NONE;
}

static PyObject *recorder_steps(PyObject *self, void *unused) {
    (void)unused;
    const lam_recorder *to = self_of(self)->to;
    return PyLong_FromLongLong(to ? lam_recorder_steps(to) : 0);
}

static PyObject *recorder_run(PyObject *self, void *unused) {
    (void)unused;
    const lam_recorder *to = self_of(self)->to;
    return PyLong_FromLongLong(to ? lam_recorder_run(to) : 0);
}

static void recorder_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    close_it(self_of(self), NULL);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef recorder_methods[] = {
    {"close", recorder_close, METH_VARARGS,
     PyDoc_STR("close($self, ended_by=None, /)\n--\n\nWrites what is left and ends the run, and how the "
               "program ended. A second call does nothing.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef recorder_getset[] = {
    {"steps", recorder_steps, NULL, "Steps that were handed over, without those that were dropped.", NULL},
    {"run", recorder_run, NULL, "The number of its run in the file, from 1.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot recorder_slots[] = {
    {Py_tp_doc,
     "Recorder(file, command, host, torch, rank, world, every, unix_ns, job=None, attempt=0)\n--\n\n"
     "Begins a run in `file`; `attempt`: the least that it is of those of the job."},
    {Py_tp_new, recorder_new},
    {Py_tp_dealloc, recorder_dealloc},
    {Py_tp_methods, recorder_methods},
    {Py_tp_getset, recorder_getset},
    {0, NULL},
};

PyType_Spec lmx_recorder_spec = {
    "lamina._lamina.Recorder", sizeof(recorder), 0, Py_TPFLAGS_DEFAULT, recorder_slots,
};
