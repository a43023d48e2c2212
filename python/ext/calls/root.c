/* SPDX-License-Identifier: Apache-2.0
 * The type Root, see root.h. */
#include "calls/root.h"
#include "base/ext.h"
#include "base/tables.h"

#include <unistd.h>

/* == the type ========================================================================================== */

static lmx_root *self_of(PyObject *self) { return (lmx_root *)self; }

static int root_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"schedule", "recorder", "number", "name", "nodes", "times_only", NULL};
    lmx_root *r = self_of(self);
    PyObject *schedule, *recorder, *name;
    int number, nodes, times_only;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOiUpp:Root", names, &schedule, &recorder, &number, &name,
                                     &nodes, &times_only))
        return -1;
    lmx_state *st = lmx_state_of_type(Py_TYPE(self));
    if (!st || r->schedule || !lmx_schedule_of(st, schedule) || !lmx_recorder_of(st, recorder)) {
        if (r->schedule) PyErr_SetString(PyExc_RuntimeError, "this Root was made already");
        return -1;
    }
    r->st = st;
    r->counting = &lmx_counts_steps;
    r->number = number;
    r->sees_nodes = nodes != 0;
    r->times_only = times_only != 0;
    r->process = getpid();
    Py_INCREF(schedule);
    Py_INCREF(recorder);
    Py_INCREF(name);
    r->name = name;
    r->schedule = (lmx_schedule *)schedule;
    r->recorder = recorder;
    r->pace = lmx_recorder_pace(recorder);
    return 0;
}

static int root_traverse(PyObject *self, visitproc visit, void *arg) {
    const lmx_root *r = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)r->schedule);
    Py_VISIT(r->recorder);
    Py_VISIT((PyObject *)r->capture);
    Py_VISIT(r->close);
    return 0;
}

static int root_clear(PyObject *self) {
    lmx_drop_step(self_of(self));
    return 0;
}

static void root_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    lmx_root *r = self_of(self);
    PyObject_GC_UnTrack(self);
    root_clear(self);
    lmx_handover_clear(&r->handover);
    lmi_vec_free(&r->spans);
    Py_XDECREF((PyObject *)r->schedule);
    Py_XDECREF(r->recorder);
    Py_XDECREF(r->name);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* NULL with an exception if __init__ was not called. */
static lmx_root *made(PyObject *self) {
    if (self_of(self)->schedule) return self_of(self);
    PyErr_SetString(PyExc_RuntimeError, "Root.__init__ was not called");
    return NULL;
}

static PyObject *none_if(bool ok) {
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *root_count(PyObject *self, PyObject *module) {
    lmx_root *r = made(self);
    if (!r) return NULL;
    if (!r->module) {
        Py_INCREF(self);
        r->next = lmx_roots;
        lmx_roots = r;
    }
    r->module = module;
    return none_if(lmx_roots_changed());
}

static PyObject *root_uncount(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_root *r = self_of(self), **at = &lmx_roots;
    if (!r->module) Py_RETURN_NONE;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    r->module = NULL;
    const bool ok = lmx_roots_changed();
    Py_DECREF(self);
    return none_if(ok);
}

static bool retire(lmx_root *r) {
    r->retired = true;
    return lmx_give_up_step(r);
}

#define METHOD(name, work)                                                                                   \
    static PyObject *name(PyObject *self, PyObject *unused) {                                                \
        (void)unused;                                                                                        \
        return none_if(work(self_of(self)));                                                                 \
    }
METHOD(root_end_step, lmx_end_step)
METHOD(root_retire, retire)
#undef METHOD

static PyMethodDef root_methods[] = {
    {"count", root_count, METH_O,
     PyDoc_STR(
         "count($self, module, /)\n--\n\nCounts the calls of `module`, and of torch.compile's wrappers of "
         "it.")},
    {"uncount", root_uncount, METH_NOARGS,
     PyDoc_STR("uncount($self, /)\n--\n\nStops counting the calls of the module.")},
    {"end_step", root_end_step, METH_NOARGS,
     PyDoc_STR("end_step($self, /)\n--\n\nEnds the step in progress and records it.")},
    {"retire", root_retire, METH_NOARGS,
     PyDoc_STR("retire($self, /)\n--\n\nDiscards the step in progress. No other step begins.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot root_slots[] = {
    {Py_tp_doc,
     "Root(schedule, recorder, number, name, nodes, times_only)\n--\n\nThe steps of one root. A subclass has "
     "open_step(module) -> (Capture, close), which is called for each capture that Python makes; "
     "count_step(module), which begins to count the operators of a step; counted(whole), which ends that, "
     "and "
     "if the step did all its work returns a tuple of the fields of lam_step_work; look(), which is called "
     "if "
     "torch's compiler does not report that it works; and on_failure(error), which is called when a step "
     "can't "
     "be recorded."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, root_init},
    {Py_tp_dealloc, root_dealloc},
    {Py_tp_traverse, root_traverse},
    {Py_tp_clear, root_clear},
    {Py_tp_methods, root_methods},
    {0, NULL},
};

PyType_Spec lmx_root_spec = {
    "lamina._lamina.Root",
    sizeof(lmx_root),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    root_slots,
};
