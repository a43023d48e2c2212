/* SPDX-License-Identifier: Apache-2.0
 * The type Model: a handle of what a capture saw, with readers for every part of it. */
#include "base/base.h"
#include "base/tables.h"
#include "measure/memory.h"
#include "results/results.h"

static lmx_model *self_of(PyObject *self) { return (lmx_model *)self; }

/* == parts as data ===================================================================================== */

static PyObject *arg_shape(const lam_arg *a) { return lmx_shape((lam_shape){a->ndim, a->sizes}); }

static PyObject *tuple_of(const lam_arg *args, int32_t n, PyObject *(*of)(const lam_arg *)) {
    PyObject *t = PyTuple_New(n);
    for (int32_t i = 0; t && i < n; i++) {
        PyObject *item = of(&args[i]);
        if (!item || PyTuple_SetItem(t, i, item) < 0) Py_CLEAR(t);
    }
    return t;
}

static PyObject *arg_dtype(const lam_arg *a) { return lmx_str(lam_dtype_name(a->dtype)); }

static PyObject *arg_whole(const lam_arg *a) {
    PyObject *shape = arg_shape(a), *name = lmx_str(a->name), *dtype = arg_dtype(a);
    if (!shape || !name || !dtype) {
        Py_XDECREF(shape);
        Py_XDECREF(name);
        Py_XDECREF(dtype);
        return NULL;
    }
    return Py_BuildValue("{s:N,s:i,s:N,s:i,s:N,s:K}", "name", name, "position", (int)a->position, "dtype",
                         dtype, "device", (int)a->device, "shape", shape, "storage",
                         (unsigned long long)a->storage);
}

PyObject *lmx_arg_shapes(const lam_arg *args, int32_t n) { return tuple_of(args, n, arg_shape); }
PyObject *lmx_arg_dtypes(const lam_arg *args, int32_t n) { return tuple_of(args, n, arg_dtype); }

static PyObject *out_sources(const lam_model *m, int32_t event, int32_t n) {
    PyObject *t = PyTuple_New(n);
    for (int32_t i = 0; t && i < n; i++) {
        PyObject *item = PyLong_FromLong(lam_model_call_output_source(m, event, i));
        if (!item || PyTuple_SetItem(t, i, item) < 0) Py_CLEAR(t);
    }
    return t;
}

static PyObject *event_at(const lam_model *m, int32_t i) {
    const lam_event *ev = lam_model_event(m, i);
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "module", PyLong_FromLong(ev->module)) &&
              lmx_put(d, "place", PyLong_FromLong(ev->place)) &&
              lmx_put(d, "parent", PyLong_FromLong(ev->parent)) &&
              lmx_put(d, "ordinal", PyLong_FromLong(ev->ordinal)) &&
              lmx_put(d, "n_children_called", PyLong_FromLong(ev->n_children_called)) &&
              lmx_put(d, "training", PyBool_FromLong(ev->flags & LAM_CALL_TRAINING)) &&
              lmx_put(d, "failed", PyBool_FromLong(ev->flags & LAM_CALL_FAILED)) &&
              lmx_put(d, "unseen", PyBool_FromLong(ev->flags & LAM_CALL_UNSEEN)) &&
              lmx_put(d, "t0_ns", PyLong_FromLongLong(ev->t0_ns)) &&
              lmx_put(d, "t1_ns", PyLong_FromLongLong(ev->t1_ns)) &&
              lmx_put(d, "inputs", tuple_of(ev->in, ev->n_in, arg_whole)) &&
              lmx_put(d, "outputs", tuple_of(ev->out, ev->n_out, arg_whole)) &&
              lmx_put(d, "output_sources", out_sources(m, i, ev->n_out));
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *value_as_python(const lam_value *v) {
    switch (v->type) {
    case LAM_BOOL: return PyBool_FromLong(v->i != 0);
    case LAM_INT: return PyLong_FromLongLong(v->i);
    case LAM_INTS: return lmx_shape((lam_shape){v->n, v->ints});
    case LAM_FLOAT: return PyFloat_FromDouble(v->f);
    case LAM_TEXT: return lmx_str(v->text);
    default: return lmx_str(NULL);
    }
}

static PyObject *attrs_of(const lam_module *m) {
    PyObject *d = PyDict_New();
    for (int32_t i = 0; d && i < m->n_attrs; i++)
        if (!lmx_put(d, m->attrs[i].name, value_as_python(&m->attrs[i].value))) Py_CLEAR(d);
    return d;
}

static PyObject *owned_of(const lam_module *m) {
    PyObject *t = PyTuple_New(m->n_owned);
    for (int32_t i = 0; t && i < m->n_owned; i++) {
        const lam_owned *o = &m->owned[i];
        PyObject *item = Py_BuildValue("(siN)", o->name, (int)o->tensor, PyBool_FromLong(o->is_buffer));
        if (!item || PyTuple_SetItem(t, i, item) < 0) Py_CLEAR(t);
    }
    return t;
}

PyObject *lmx_module(const lam_model *model, int32_t i) {
    const lam_module *m = lam_model_module(model, i);
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "type", lmx_str(m->type)) && lmx_put(d, "type_path", lmx_str(m->type_path)) &&
              lmx_put(d, "word", lmx_str(lam_word_name(m->word))) &&
              lmx_put(d, "exact", PyBool_FromLong(m->flags & LAM_MODULE_EXACT)) &&
              lmx_put(d, "own_forward", PyBool_FromLong(m->flags & LAM_MODULE_OWN_FORWARD)) &&
              lmx_put(d, "training", PyBool_FromLong(m->flags & LAM_MODULE_TRAINING)) &&
              lmx_put(d, "opaque", PyBool_FromLong(m->flags & LAM_MODULE_OPAQUE)) &&
              lmx_put(d, "leaf", PyBool_FromLong(m->flags & LAM_MODULE_LEAF)) &&
              lmx_put(d, "n_calls", PyLong_FromLong(m->n_calls)) && lmx_put(d, "owned", owned_of(m)) &&
              lmx_put(d, "attrs", attrs_of(m));
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *place_at(const lam_model *model, int32_t i) {
    const lam_place *p = lam_model_place(model, i);
    return Py_BuildValue("{s:s,s:s,s:i,s:i,s:i,s:i}", "name", p->name, "path", p->path, "parent",
                         (int)p->parent, "module", (int)p->module, "depth", (int)p->depth, "n_calls",
                         (int)p->n_calls);
}

static PyObject *tensor_at(const lam_model *model, int32_t i) {
    const lam_tensor *t = lam_model_tensor(model, i);
    PyObject *shape = lmx_shape(t->shape);
    if (!shape) return NULL;
    return Py_BuildValue("{s:s,s:N,s:L,s:L,s:N,s:i,s:i}", "dtype", lam_dtype_name(t->dtype), "shape", shape,
                         "numel", (long long)t->numel, "bytes", (long long)t->bytes, "requires_grad",
                         PyBool_FromLong(t->requires_grad), "owner", (int)t->owner, "n_owners",
                         (int)t->n_owners);
}

static PyObject *op_value(const lam_op_arg *a) {
    if (!a->is_tensor) return value_as_python(&a->value);
    PyObject *shape = lmx_shape((lam_shape){a->ndim, a->sizes});
    if (!shape) return NULL;
    return Py_BuildValue("{s:N,s:s,s:i}", "shape", shape, "dtype", lam_dtype_name(a->dtype), "device",
                         (int)a->device);
}

/* Where the data of each argument comes from: (operator, tensor, input), each -1 where it has no such source.
 */
static PyObject *op_sources(const lam_model *model, int32_t op, int32_t n) {
    PyObject *t = PyTuple_New(n);
    for (int32_t i = 0; t && i < n; i++) {
        PyObject *item = Py_BuildValue("(iii)", (int)lam_model_source(model, op, i),
                                       (int)lam_model_source_tensor(model, op, i),
                                       (int)lam_model_source_input(model, op, i));
        if (!item || PyTuple_SetItem(t, i, item) < 0) Py_CLEAR(t);
    }
    return t;
}

PyObject *lmx_op_args(const lam_op_arg *args, int32_t n) {
    PyObject *t = PyTuple_New(n);
    for (int32_t i = 0; t && i < n; i++) {
        PyObject *value = op_value(&args[i]);
        PyObject *item = value ? Py_BuildValue("(iN)", (int)args[i].position, value) : NULL;
        if (!item || PyTuple_SetItem(t, i, item) < 0) Py_CLEAR(t);
    }
    return t;
}

static PyObject *op_at(const lam_model *model, int32_t i) {
    static const char *const phases[LAM_N_PHASES] = {"forward", "backward", "recompute"};
    const lam_op *op = lam_model_op(model, i);
    PyObject *d = PyDict_New();
    bool ok = d && lmx_put(d, "name", lmx_str(op->sig->name)) &&
              lmx_put(d, "call", PyLong_FromLong(op->call)) &&
              lmx_put(d, "parent", PyLong_FromLong(op->parent)) &&
              lmx_put(d, "phase", lmx_str(phases[op->phase])) &&
              lmx_put(d, "failed", PyBool_FromLong(op->flags & LAM_OP_FAILED)) &&
              lmx_put(d, "node", PyBool_FromLong(op->flags & LAM_OP_NODE)) &&
              lmx_put(d, "hides", PyBool_FromLong(op->flags & LAM_OP_HIDES)) &&
              lmx_put(d, "kind", lmx_str(lam_word_op_kind(op->sig->word))) &&
              lmx_put(d, "n_children", PyLong_FromLong(op->n_children)) &&
              lmx_put(d, "t0_ns", PyLong_FromLongLong(op->t0_ns)) &&
              lmx_put(d, "t1_ns", PyLong_FromLongLong(op->t1_ns)) &&
              lmx_put(d, "inputs", lmx_op_args(op->sig->in, op->sig->n_in)) &&
              lmx_put(d, "sources", op_sources(model, i, op->sig->n_in)) &&
              lmx_put(d, "outputs", lmx_op_args(op->sig->out, op->sig->n_out));
    if (!ok) Py_CLEAR(d);
    return d;
}

static PyObject *lifetime_at(const lam_model *model, int32_t i) {
    static const char *const names[] = {"tensor", "seed", "workspace", "roughly", "unknown"};
    const lam_lifetime *l = lam_model_lifetime(model, i);
    return Py_BuildValue("(Liis)", (long long)l->bytes, (int)l->made, (int)l->freed, names[l->what]);
}

static PyObject *note_at(const lam_model *model, int32_t i) { return lmx_str(lam_model_note(model, i)); }

static PyObject *list_of(PyObject *self, int32_t (*count)(const lam_model *),
                         PyObject *(*at)(const lam_model *, int32_t)) {
    const lam_model *m = lmx_model_get(self_of(self)->st, self);
    PyObject *list = m ? PyList_New(0) : NULL;
    for (int32_t i = 0; list && i < count(m); i++) {
        PyObject *item = at(m, i);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

#define LIST(part, count, at)                                                                                \
    static PyObject *model_##part(PyObject *self, PyObject *unused) {                                        \
        (void)unused;                                                                                        \
        return list_of(self, count, at);                                                                     \
    }
LIST(events, lam_model_n_events, event_at)
LIST(modules, lam_model_n_modules, lmx_module)
LIST(places, lam_model_n_places, place_at)
LIST(tensors, lam_model_n_tensors, tensor_at)
LIST(notes, lam_model_n_notes, note_at)
LIST(operators, lam_model_n_ops, op_at)
LIST(lifetimes, lam_model_n_lifetimes, lifetime_at)

/* == what is asked of it =============================================================================== */

static PyObject *model_costs(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (!lmx_model_get(self_of(self)->st, self)) return NULL;
    return lmx_costs_new(self_of(self), args, kwargs);
}

static PyObject *model_compare(PyObject *self, PyObject *args) {
    if (!lmx_model_get(self_of(self)->st, self)) return NULL;
    return lmx_compared(self_of(self), args);
}

static PyObject *model_rf(PyObject *self, PyObject *args) {
    int event;
    const char *convention = NULL;
    if (!PyArg_ParseTuple(args, "i|z:rf", &event, &convention)) return NULL;
    lmx_state *st = self_of(self)->st;
    const lam_model *m = lmx_model_get(st, self);
    lam_error e = {.at = -1};
    lam_rf rf;
    if (!m) return NULL;
    if (lam_rf_of(m, event, convention, &rf, &e) != LAM_OK) return lmx_raise(st, &e);
    return Py_BuildValue("(ddds)", rf.size, rf.stride, rf.padding, lam_state_name(rf.state));
}

static PyObject *model_n_operators(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_model *m = lmx_model_get(self_of(self)->st, self);
    return m ? PyLong_FromLong(lam_model_n_ops(m)) : NULL;
}

static PyObject *model_ops_seen(PyObject *self, PyObject *unused) {
    (void)unused;
    const lam_model *m = lmx_model_get(self_of(self)->st, self);
    return m ? PyBool_FromLong(lam_model_ops_seen(m)) : NULL;
}

static PyObject *model_time_by(PyObject *self, PyObject *other) { return lmx_time_by(self_of(self), other); }

static PyObject *model_graph(PyObject *self, PyObject *unused) {
    (void)unused;
    return lmx_graph(self_of(self));
}

static PyObject *model_findings(PyObject *self, PyObject *unused) {
    (void)unused;
    return lmx_graph_findings(self_of(self));
}

static PyObject *model_health(PyObject *self, PyObject *unused) {
    (void)unused;
    return lmx_health(self_of(self));
}

static PyObject *model_health_tail(PyObject *self, PyObject *args) {
    return lmx_health_tail(self_of(self), args);
}

static PyObject *model_gadgets(PyObject *self, PyObject *args) { return lmx_gadgets(self_of(self), args); }

static PyObject *model_graph_dot(PyObject *self, PyObject *args) {
    return lmx_graph_dot(self_of(self), args);
}

static PyObject *model_memory_measured(PyObject *self, PyObject *unused) {
    (void)unused;
    return lmx_memory_measured(self_of(self));
}

static PyObject *model_memory(PyObject *self, PyObject *unused) {
    (void)unused;
    return lmx_memory_told(self_of(self));
}

static PyObject *model_device_memory(PyObject *self, PyObject *unused) {
    (void)unused;
    return lmx_device_memory_told(self_of(self));
}

static PyObject *model_memory_course(PyObject *self, PyObject *args) {
    return lmx_memory_course(self_of(self), args);
}

static PyObject *model_find(PyObject *self, PyObject *args) {
    const char *path;
    const lam_model *m = lmx_model_get(self_of(self)->st, self);
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
    {"costs", (PyCFunction)(void (*)(void))model_costs, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("costs($self, /, convention=None, released=False, custom=None, own=None, "
               "ask=None)\n--\n\nWhat the calls cost.")},
    {"compare", model_compare, METH_VARARGS,
     PyDoc_STR("compare($self, conventions, kind=None, width=0, exact=False, flops=False, backward=False, "
               "/)\n--\n\nThe forward under "
               "several conventions, and why they differ, as text.")},
    {"rf", model_rf, METH_VARARGS,
     PyDoc_STR("rf($self, event, convention=None, /)\n--\n\nReceptive field, stride, padding and state of "
               "one call alone.")},
    {"find", model_find, METH_VARARGS,
     PyDoc_STR("find($self, path, /)\n--\n\nThe place at a dotted path, or -1.")},
    {"time_by", model_time_by, METH_O,
     PyDoc_STR("time_by($self, other, /)\n--\n\nIts times are the medians of the runs of `other` from now "
               "on, which is empty then.")},
    {"graph", model_graph, METH_NOARGS,
     PyDoc_STR("graph($self, /)\n--\n\nThe graph of the data: nodes and edges as lists of dicts.")},
    {"findings", model_findings, METH_NOARGS,
     PyDoc_STR("findings($self, /)\n--\n\nWhat is unused and what has no gradient: paths and reasons.")},
    {"health", model_health, METH_NOARGS,
     PyDoc_STR("health($self, /)\n--\n\nWhere NaN and Inf come from; None where nobody looked.")},
    {"health_tail", model_health_tail, METH_VARARGS,
     PyDoc_STR("health_tail($self, n, /)\n--\n\nThe last calls before something broke, as text.")},
    {"gadgets", model_gadgets, METH_VARARGS,
     PyDoc_STR("gadgets($self, max_depth=-1, forward=True, backward=True, /)\n--\n\nWhat "
               "torch_inspector wrote, as JSON in UTF-8.")},
    {"graph_dot", model_graph_dot, METH_VARARGS,
     PyDoc_STR("graph_dot($self, ops=False, /)\n--\n\nThe same as DOT; ops: a node an operator.")},
    {"memory_measured", model_memory_measured, METH_NOARGS,
     PyDoc_STR("memory_measured($self, /)\n--\n\nTrue where memory was measured.")},
    {"memory", model_memory, METH_NOARGS,
     PyDoc_STR("memory($self, /)\n--\n\nWhat the run did with memory: totals, and a dict a place.")},
    {"device_memory", model_device_memory, METH_NOARGS,
     PyDoc_STR("device_memory($self, /)\n--\n\nWhat a device's allocator told, or None.")},
    {"memory_course", model_memory_course, METH_VARARGS,
     PyDoc_STR("memory_course($self, points, /)\n--\n\nHow much there was: nanoseconds and bytes.")},
    {"events", model_events, METH_NOARGS, PyDoc_STR("events($self, /)\n--\n\nEvery call, in order.")},
    {"modules", model_modules, METH_NOARGS, PyDoc_STR("modules($self, /)\n--\n\nEvery distinct module.")},
    {"places", model_places, METH_NOARGS, PyDoc_STR("places($self, /)\n--\n\nEvery place in the tree.")},
    {"tensors", model_tensors, METH_NOARGS,
     PyDoc_STR("tensors($self, /)\n--\n\nEvery distinct parameter and buffer.")},
    {"operators", model_operators, METH_NOARGS,
     PyDoc_STR("operators($self, /)\n--\n\nEvery operator that was watched, in order of its start.")},
    {"n_operators", model_n_operators, METH_NOARGS,
     PyDoc_STR("n_operators($self, /)\n--\n\nHow many operators were watched.")},
    {"ops_seen", model_ops_seen, METH_NOARGS,
     PyDoc_STR("ops_seen($self, /)\n--\n\nWhether operators were watched.")},
    {"lifetimes", model_lifetimes, METH_NOARGS,
     PyDoc_STR(
         "lifetimes($self, /)\n--\n\nOf a dry run's tensors, where they were followed: bytes, the operators "
         "by which they were made and after which they were gone, and what they are.")},
    {"notes", model_notes, METH_NOARGS, PyDoc_STR("notes($self, /)\n--\n\nWhat else there is to know.")},
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
