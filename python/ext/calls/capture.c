/* SPDX-License-Identifier: Apache-2.0
 * The type Capture: the window in which the calls under one root are noted. */
#include "base/ext.h"
#include "base/tables.h"
#include "calls/calls.h"
#include "measure/device.h"
#include "measure/health.h"
#include "measure/memory.h"
#include "modules/snapshot.h"
#include "modules/tree.h"
#include "native/ledger.h"
#include "observe/guard.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"

#include <stdlib.h>

static lmx_capture *self_of(PyObject *self) { return (lmx_capture *)self; }

/* `why` is the reason, for a note; an empty one gives no note. */
static bool use_dispatch_mode(lmx_capture *c, PyObject *why) {
    if (!PyUnicode_Check(why)) {
        PyErr_SetString(PyExc_TypeError, "dispatch is the reason for it, a str");
        return false;
    }
    if (PyUnicode_GetLength(why) > 0) {
        Py_INCREF(why);
        c->remarks.why_mode = why;
    }
    PyObject *module = PyImport_ImportModule("lamina._observe.dispatch");
    c->watched.mode = module ? PyObject_CallMethod(module, "Mode", NULL) : NULL;
    Py_XDECREF(module);
    return c->watched.mode;
}

static void drop_held_records(lmx_capture *c);

static lmx_capture *make_capture(lmx_state *st, PyTypeObject *type, PyObject *root) {
    lmx_capture *c = (lmx_capture *)PyType_GenericAlloc(type, 0);
    if (!c) return NULL;
    c->st = st;
    c->holders.drop = drop_held_records;
    c->noted.open = c->noted.alias = -1;
    c->noted.most = UINT64_C(1) << 30;
    c->watched.most = UINT64_C(4) << 30;
    Py_INCREF(root);
    c->root = root;
    return c;
}

lmx_capture *lmx_capture_brief(lmx_state *st, PyObject *root, bool nodes) {
    lmx_capture *c = make_capture(st, (PyTypeObject *)st->capture_type, root);
    if (!c) return NULL;
    c->watched.nodes = nodes;
    c->timed = c->noted.brief = c->compiled.recorded = c->compiled.roots_only = true;
    return c;
}

static PyObject *capture_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"root", "ops", "alias", "dispatch", "nodes", "timed", "brief", NULL};
    PyObject *root, *alias = NULL, *why = Py_None;
    int ops = 0, nodes = 0, timed = 0, brief = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|pOOppp:Capture", names, &root, &ops, &alias, &why,
                                     &nodes, &timed, &brief))
        return NULL;
    lmx_state *st = PyType_GetModuleState(type);
    if (!st || !lmx_torch_ready(st)) return NULL;
    if (!PyType_IsSubtype(Py_TYPE(root), st->torch.module)) {
        lmx_tree none = {0};
        lmx_walk(st, &none, root); /* raises, and says what it is instead */
        return NULL;
    }
    lmx_capture *c = make_capture(st, type, root);
    if (!c) return NULL;
    c->watched.ops = ops;
    c->watched.nodes = nodes;
    c->timed = timed;
    c->noted.brief = brief;
    if (alias && alias != Py_None && alias != root) c->alias = alias;
    Py_XINCREF(c->alias);
    if (ops && why != Py_None && !use_dispatch_mode(c, why)) Py_CLEAR(c);
    return (PyObject *)c;
}

/* Calls of the alias count as calls of the root, unless the alias itself has a place in the tree. */
static bool add_alias(lmx_capture *c) {
    if (!c->alias || lmx_map_get(&c->tree.index, c->alias) >= 0) return true;
    if (lmx_map_put(&c->tree.index, c->alias, 0)) return true;
    PyErr_NoMemory();
    return false;
}

static void request_identities(lmx_capture *c, bool wanted) {
    if (c->counted != wanted) c->st->identities += wanted ? 1 : -1;
    c->counted = wanted;
}

/* Drops what was found before the start. */
static void drop_early(lmx_capture *c) {
    lmx_early_drop(c);
    Py_CLEAR(c->ahead.snapshot);
    lmx_tree_free(&c->tree);
    free(c->threads.elsewhere);
    c->threads.elsewhere = NULL;
}

bool lmx_capture_open(lmx_capture *c) {
    request_identities(c, c->watched.ops);
    const bool known = c->tree.nodes.n > 0; /* by capture_snapshot */
    if ((known || lmx_walk(c->st, &c->tree, c->root)) && add_alias(c) && lmx_capture_attach(c)) return true;
    request_identities(c, false);
    drop_early(c);
    return false;
}

static PyObject *capture_start(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_capture *c = self_of(self);
    if (c->phase != LMX_NEW)
        return lmx_fail(c->st, LAM_USAGE, NULL, "a capture can be started once; make a new one");
    if (!lmx_torch_ready(c->st)) return NULL;
    if (!lmx_capture_open(c)) return NULL;
    Py_RETURN_NONE;
}

/* A model may make or remove modules in its forward: then a walk of its own would find other ones. */
static PyObject *capture_watch_as(PyObject *self, PyObject *other) {
    lmx_capture *c = self_of(self);
    const bool is_one = Py_TYPE(other) == (PyTypeObject *)c->st->capture_type;
    if (!is_one || c->phase != LMX_NEW || c->tree.nodes.n || self_of(other)->root != c->root)
        return lmx_fail(c->st, LAM_USAGE, NULL,
                        "a capture watches as another one of its root, before it is started");
    if (!lmx_tree_copy(&c->tree, &self_of(other)->tree)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *capture_stop(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_capture_detach(self_of(self));
    Py_RETURN_NONE;
}

/* While paused, operators that run are not the model's and are not noted. */
static PyObject *capture_pause(PyObject *self, PyObject *paused) {
    self_of(self)->watched.paused = PyObject_IsTrue(paused) > 0;
    Py_RETURN_NONE;
}

static PyObject *capture_of_step(PyObject *self, PyObject *roots_only) {
    self_of(self)->compiled.recorded = true;
    self_of(self)->compiled.roots_only = PyObject_IsTrue(roots_only) > 0;
    Py_RETURN_NONE;
}

static PyObject *capture_no_backward(PyObject *self, PyObject *unused) {
    (void)unused;
    self_of(self)->backward.absent = true;
    Py_RETURN_NONE;
}

static PyObject *capture_backward_raised(PyObject *self, PyObject *unused) {
    (void)unused;
    self_of(self)->backward.raised = true;
    Py_RETURN_NONE;
}

static PyObject *add_text(PyObject **list, PyObject *text) {
    if (!PyUnicode_Check(text)) return PyErr_Format(PyExc_TypeError, "a note is a str");
    if (!*list && !(*list = PyList_New(0))) return NULL;
    if (PyList_Append(*list, text) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *capture_note(PyObject *self, PyObject *text) {
    return add_text(&self_of(self)->remarks.notes, text);
}
static PyObject *capture_made(PyObject *self, PyObject *text) {
    return add_text(&self_of(self)->remarks.made, text);
}

/* Dropping the old object may run user code, which must find the new one here. */
static void replace_reference(PyObject **at, PyObject *value) {
    PyObject *old = *at;
    *at = value;
    Py_XDECREF(old);
}

static PyObject *capture_provenance(PyObject *self, PyObject *facts) {
    if (!PyDict_Check(facts)) return PyErr_Format(PyExc_TypeError, "provenance takes a dict, not %R", facts);
    Py_INCREF(facts);
    replace_reference(&self_of(self)->remarks.provenance, facts);
    Py_RETURN_NONE;
}

static PyObject *capture_snapshot(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_capture *c = self_of(self);
    if (c->phase != LMX_NEW || c->ahead.snapshot || c->noted.brief)
        return lmx_fail(c->st, LAM_USAGE, NULL, "a capture takes one snapshot, before it is started");
    request_identities(c, c->watched.ops);
    c->ahead.snapshot = lmx_snapshot_for(c);
    if (!c->ahead.snapshot) drop_early(c);
    Py_XINCREF(c->ahead.snapshot);
    return c->ahead.snapshot;
}

static PyObject *capture_given(PyObject *self, PyObject *function) {
    Py_INCREF(function);
    replace_reference(&self_of(self)->ahead.given, function);
    Py_RETURN_NONE;
}

static PyObject *capture_guard(PyObject *self, PyObject *args) {
    lmx_capture *c = self_of(self);
    PyObject *addresses, *before_write;
    if (!PyArg_ParseTuple(args, "OO:guard", &addresses, &before_write)) return NULL;
    if (c->phase != LMX_NEW || c->watched.guard)
        return lmx_fail(c->st, LAM_USAGE, NULL, "a capture guards memory once, before it is started");
    c->watched.guard = lmx_guard_new(addresses, before_write);
    if (!c->watched.guard) return NULL;
    Py_RETURN_NONE;
}

static PyObject *capture_gradients(PyObject *self, PyObject *received) {
    if (!PyDict_Check(received))
        return PyErr_Format(PyExc_TypeError, "gradients takes a dict, not %R", received);
    Py_INCREF(received);
    replace_reference(&self_of(self)->backward.gradients, received);
    Py_RETURN_NONE;
}

/* Takes torch's names of the compiled code that runs operator by operator. */
static PyObject *capture_seen_through(PyObject *self, PyObject *names) {
    PyObject *set = PyFrozenSet_New(names);
    if (!set) return NULL;
    replace_reference(&self_of(self)->compiled.opened, set);
    Py_RETURN_NONE;
}

static PyObject *capture_is_open(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(self_of(self)->phase == LMX_OPEN);
}

static PyObject *capture_alone(PyObject *self, void *unused) {
    const lmx_capture *c = self_of(self);
    (void)unused;
    const bool others = c->watched.observer && atomic_load(&c->watched.observer->others) > 0;
    return PyBool_FromLong(!others && !c->threads.elsewhere && !c->threads.strangers);
}

static PyObject *capture_n_ops(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(lmx_observer_n(self_of(self)->watched.observer));
}

static PyObject *capture_n_calls(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(self_of(self)->noted.calls.n);
}

/* Drops the root, the tree and the records: the model, once it is built, does not need them. */
static void drop_records(lmx_capture *c) {
    request_identities(c, false);
    lmx_observer_free(c->watched.observer);
    c->watched.observer = NULL;
    lmx_guard_free(c->watched.guard);
    c->watched.guard = NULL;
    lmx_listeners_free(c);
    lmx_ledger_close(c->dry.ledger);
    c->dry.ledger = NULL;
    Py_CLEAR(c->root);
    Py_CLEAR(c->ahead.given);
    Py_CLEAR(c->backward.gradients);
    Py_CLEAR(c->alias);
    Py_CLEAR(c->compiled.opened);
    Py_CLEAR(c->remarks.notes);
    Py_CLEAR(c->remarks.made);
    Py_CLEAR(c->remarks.provenance);
    drop_early(c);
    for (size_t i = 0; i < c->noted.names.n; i++) Py_DECREF(((PyObject **)c->noted.names.data)[i]);
    lmi_vec_free(&c->noted.names);
    lmi_vec_free(&c->noted.calls);
    lmi_vec_free(&c->noted.words);
}

static void drop_held_records(lmx_capture *c) {
    PyObject *type, *value, *trace;
    c->holders.owed = false;
    PyErr_Fetch(&type, &value, &trace);
    drop_records(c);
    PyErr_Restore(type, value, trace);
}

static PyObject *model_of(lmx_capture *c, PyObject *before) {
    lam_model *m = NULL;
    if (c->telling)
        return lmx_fail(c->st, LAM_USAGE, NULL,
                        "the capture is being told already, by another thread or around this very code; ask "
                        "again when that is done");
    if (!c->model) {
        lmx_capture_hold(c);
        c->telling = true;
        if (lmx_describe_model(c, before, &m)) c->model = lmx_model_wrap(c->st, m);
        c->telling = false;
        c->holders.owed = c->model != NULL;
        lmx_capture_let_go(c);
    }
    Py_XINCREF(c->model);
    return c->model;
}

static PyObject *capture_model(PyObject *self, PyObject *args) {
    PyObject *before = Py_None;
    if (!PyArg_ParseTuple(args, "|O:model", &before)) return NULL;
    lmx_capture *c = self_of(self);
    if (c->phase == LMX_NEW) return lmx_fail(c->st, LAM_USAGE, NULL, "the capture was never started");
    if (c->phase == LMX_OPEN)
        return lmx_fail(c->st, LAM_USAGE, NULL, "the capture is still open: stop it first");
    return model_of(c, before == Py_None ? NULL : before);
}

static int capture_traverse(PyObject *self, visitproc visit, void *arg) {
    lmx_capture *c = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->root);
    Py_VISIT(c->ahead.given);
    Py_VISIT(c->watched.mode);
    Py_VISIT(c->backward.gradients);
    Py_VISIT(c->alias);
    Py_VISIT(c->compiled.opened);
    Py_VISIT(c->remarks.notes);
    Py_VISIT(c->remarks.made);
    Py_VISIT(c->remarks.provenance);
    Py_VISIT(c->model);
    Py_VISIT(c->ahead.snapshot);
    int done = lmx_early_visit(c, visit, arg);
    if (!done) done = lmx_guard_visit(c->watched.guard, visit, arg);
    return done ? done : lmx_tree_visit(&c->tree, visit, arg);
}

static int capture_clear(PyObject *self) {
    lmx_capture *c = self_of(self);
    lmx_capture_detach(c);
    drop_records(c);
    lmi_vec_free(&c->noted.written);
    Py_CLEAR(c->watched.mode);
    Py_CLEAR(c->remarks.why_mode);
    Py_CLEAR(c->model);
    return 0;
}

static void capture_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    capture_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *capture_written(PyObject *self, PyObject *unused) {
    (void)unused;
    const lmi_vec *all = &self_of(self)->noted.written;
    PyObject *set = PySet_New(NULL);
    for (size_t i = 0; set && i < all->n; i++) {
        PyObject *one = PyLong_FromUnsignedLongLong(((const uint64_t *)all->data)[i]);
        if (!one || PySet_Add(set, one) != 0) Py_CLEAR(set);
        Py_XDECREF(one);
    }
    return set;
}

static PyMethodDef capture_methods[] = {
    {"start", capture_start, METH_NOARGS,
     PyDoc_STR("start($self, /)\n--\n\nLists the modules and opens the capture.")},
    {"watch_as", capture_watch_as, METH_O,
     PyDoc_STR("watch_as($self, other, /)\n--\n\nWatches the modules that another capture of the same root "
               "watched, whatever the root has by then. Call it before start().")},
    {"stop", capture_stop, METH_NOARGS,
     PyDoc_STR("stop($self, /)\n--\n\nCloses the capture. A second call does nothing.")},
    {"pause", capture_pause, METH_O,
     PyDoc_STR("pause($self, paused, /)\n--\n\nStops noting operators while `paused` is True.")},
    {"of_step", capture_of_step, METH_O,
     PyDoc_STR(
         "of_step($self, roots_only, /)\n--\n\nMakes it the capture of a recorded step: torch's compiler "
         "may work while it is open, and what the compiler runs is not noted. `roots_only`: nor are calls "
         "outside the calls of the root. Call it before start().")},
    {"no_backward", capture_no_backward, METH_NOARGS,
     PyDoc_STR("no_backward($self, /)\n--\n\nRecords that a backward pass was requested and did not run.")},
    {"backward_raised", capture_backward_raised, METH_NOARGS,
     PyDoc_STR("backward_raised($self, /)\n--\n\nRecords that a backward pass raised.")},
    {"note", capture_note, METH_O, PyDoc_STR("note($self, text, /)\n--\n\nAdds a sentence to the report.")},
    {"made", capture_made, METH_O,
     PyDoc_STR(
         "made($self, text, /)\n--\n\nDescribes how the next tensor that is passed to the root was made.")},
    {"provenance", capture_provenance, METH_O,
     PyDoc_STR("provenance($self, facts, /)\n--\n\nTakes a dict of str: how, where and when the model is "
               "run. The mode of the modules is added.")},
    {"memory_events", lmx_memory_events, METH_O,
     PyDoc_STR("memory_events($self, events, /)\n--\n\nAdds allocations and frees, after stop(): tuples of "
               "address, bytes (0 or less: freed) and nanoseconds.")},
    {"measure_memory", lmx_measure_memory, METH_VARARGS,
     PyDoc_STR("measure_memory($self, source, afterwards=False, /)\n--\n\nMeasures memory too. `source` says "
               "how, for the report. Call it before start().")},
    {"measure_device", lmx_measure_device, METH_VARARGS,
     PyDoc_STR("measure_device($self, time, memory, /)\n--\n\nMeasures times, memory or both on GPUs that "
               "torch uses. Call it before start().")},
    {"written", capture_written, METH_NOARGS,
     PyDoc_STR("written($self, /)\n--\n\nReturns the addresses of memory that operators wrote to in place. "
               "Call it after model().")},
    {"snapshot", capture_snapshot, METH_NOARGS,
     PyDoc_STR("snapshot($self, /)\n--\n\nReturns a Snapshot of the model and describes its modules on the "
               "way. Call it before start(). If the run changes nothing that was described, model() uses "
               "this description; then no user code may run between model() and the snapshot's restore(). "
               "Otherwise, or if a description could run user code, model() describes the modules anew.")},
    {"given", capture_given, METH_O,
     PyDoc_STR("given($self, function, /)\n--\n\nCalls function(args, kwargs) once, with the arguments of "
               "the root's first call.")},
    {"memory_gradients", lmx_memory_gradients, METH_NOARGS,
     PyDoc_STR(
         "memory_gradients($self, /)\n--\n\nNotes the current gradients of the parameters, for memory.")},
    {"guard", capture_guard, METH_VARARGS,
     PyDoc_STR(
         "guard($self, addresses, before_write, /)\n--\n\nCalls before_write(name, n, touched) before an "
         "operator of `n` arguments runs on one of these (Snapshot.memory()); `touched` has (position, "
         "address) of each. It returns the addresses that need no guard any more. Call it before start().")},
    {"gradients", capture_gradients, METH_O,
     PyDoc_STR("gradients($self, received, /)\n--\n\nTakes a dict: id of a parameter to whether a backward "
               "pass from all outputs gave it a gradient.")},
    {"memory_state", lmx_memory_state, METH_VARARGS,
     PyDoc_STR("memory_state($self, tensor, parameter, /)\n--\n\nNotes that an optimizer keeps `tensor` for "
               "`parameter`; None: for no single parameter.")},
    {"seen_through", capture_seen_through, METH_O,
     PyDoc_STR("seen_through($self, names, /)\n--\n\nTakes the names of compiled code that runs operator by "
               "operator. Other compiled code may run work that is not seen.")},
    {"watch_health", lmx_watch_health, METH_VARARGS,
     PyDoc_STR(
         "watch_health($self, stats, gradients, allowed, asked, ask, broke=None, /)\n--\n\nSearches the "
         "results of calls, and gradients, for NaN and Inf. Call it before start(). Results of modules in "
         "`allowed` are no findings. For modules in `asked`, `ask(module, result)` returns [(check, text), "
         "...]. `broke(model, error)` is called during the capture with what was noted so far, if there may "
         "be a finding or the root's call raised `error`, until it returns True.")},
    {"model", capture_model, METH_VARARGS,
     PyDoc_STR(
         "model($self, before=None, /)\n--\n\nReturns what was seen. The first call describes the modules, "
         "after the run, so that lazy layers have their parameters; call it before the model is restored. "
         "This may run user code, such as properties: before(), if given, is called once before it.")},
    {NULL, NULL, 0, NULL},
};

static uint64_t *limit_of(PyObject *self, const void *of_ops) {
    return of_ops ? &self_of(self)->watched.most : &self_of(self)->noted.most;
}

static PyObject *capture_most(PyObject *self, void *of_ops) {
    return PyLong_FromUnsignedLongLong(*limit_of(self, of_ops));
}

static int capture_set_most(PyObject *self, PyObject *value, void *of_ops) {
    unsigned long long most = value ? PyLong_AsUnsignedLongLong(value) : 0;
    if (!value) PyErr_SetString(PyExc_TypeError, "a limit can't be deleted");
    if (PyErr_Occurred()) return -1;
    *limit_of(self, of_ops) = most;
    return 0;
}

static PyGetSetDef capture_getset[] = {
    {"most", capture_most, capture_set_most, "Bytes that the records of calls may take; for start().", NULL},
    {"most_ops", capture_most, capture_set_most, "The same of operators, a thread.", "ops"},
    {"is_open", capture_is_open, NULL, "True between start() and stop().", NULL},
    {"alone", capture_alone, NULL, "True if no other thread was seen to work for the model so far.", NULL},
    {"n_calls", capture_n_calls, NULL, "Calls noted so far; 0 once the model was built.", NULL},
    {"n_ops", capture_n_ops, NULL, "Operators noted so far; 0 once the model was built.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot capture_slots[] = {
    {Py_tp_doc,
     "Capture(root, ops=False, alias=None, dispatch=None, nodes=False, timed=False, "
     "brief=False)\n--\n\nNotes every call "
     "of the modules under "
     "`root` in the thread that starts it, and every operator that runs there. A call of `alias` is one of "
     "`root`. `dispatch`, a str, is why operators are to be watched through torch's dispatch mode. `nodes` "
     "watches those of backward passes alone; `timed`: the report tells times; `brief`: of calls nothing but "
     "who called whom and when is noted, and of modules what they are and which parameters they have."},
    {Py_tp_new, capture_new},
    {Py_tp_dealloc, capture_dealloc},
    {Py_tp_traverse, capture_traverse},
    {Py_tp_clear, capture_clear},
    {Py_tp_methods, capture_methods},
    {Py_tp_getset, capture_getset},
    {0, NULL},
};

PyType_Spec lmx_capture_spec = {
    "lamina._lamina.Capture", sizeof(lmx_capture), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, capture_slots,
};

/* == one call without a capture ======================================================================== */

static bool note_one(lmx_capture *c, PyObject *inputs, PyObject *result) {
    Py_ssize_t n = PyTuple_Size(inputs);
    PyObject **args = PyMem_Malloc((size_t)(n + 1) * sizeof *args);
    if (!args) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) args[i] = PyTuple_GetItem(inputs, i);
    bool ok = lmx_walk(c->st, &c->tree, c->root) && lmx_note(c, args, n, result);
    PyMem_Free(args);
    return ok;
}

PyObject *lmx_one_call(PyObject *module, PyObject *args) {
    PyObject *root, *inputs, *result;
    if (!PyArg_ParseTuple(args, "OO!O:one_call", &root, &PyTuple_Type, &inputs, &result)) return NULL;
    lmx_state *st = lmx_state_of(module);
    PyObject *capture = PyObject_CallFunctionObjArgs((PyObject *)st->capture_type, root, NULL);
    PyObject *model = NULL;
    if (capture && note_one(self_of(capture), inputs, result)) model = model_of(self_of(capture), NULL);
    Py_XDECREF(capture);
    return model;
}
