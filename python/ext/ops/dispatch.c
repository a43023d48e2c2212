/* SPDX-License-Identifier: Apache-2.0
 * The function behind __torch_dispatch__. torch calls it with our mode off the stack, so what an operator
 * calls is not seen unless the mode is put back meanwhile: that is done for operators that stand for what
 * they call, which then run by their kernel. Everything here runs under the GIL. */
#include "ops/dispatch.h"
#include "base/base.h"
#include "observe/capture.h"
#include "observe/clock.h"
#include "observe/observe.h"
#include "torch/looks.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <stdlib.h>

/* A run of the autograd engine: which call was open when it began. */
typedef struct task {
    int64_t id;
    int32_t base;
} task;

/* The copy that ran last in a thread, and where in Python's code. All of it is only compared. */
typedef struct copy {
    const void *of, *frame;
    long at;
    int32_t op; /* -1: none */
} copy;

/* A thread that ran operators under the mode. */
typedef struct thread {
    struct thread *next;
    unsigned long id;
    lmx_lane *lane;
    PyObject *passing; /* the operator that the class of its arguments is to do; only compared */
    uint64_t peeked;   /* nodes from this number on were made since, by what a backward pass does again */
    lmx_vec tasks;     /* task: the engine's, the innermost last */
    bool redone;       /* nodes that were made last were a backward pass's, doing a forward again */
    bool describing;   /* what is run now is our own */
    bool trial;        /* what runs is tried out on tensors without values, and is nobody's work */
    int64_t asked;     /* modes that there were when the class was asked whose answer runs; -1: none runs */
    int32_t op;        /* the operator that is open, -1 */
    int32_t behind;    /* the call of the node that ran last */
    copy copied;
} thread;

struct lmx_dispatcher {
    lmx_capture *capture;        /* not owned: it owns this */
    struct lmx_dispatcher *next; /* among the open ones */
    PyObject *mode;              /* strong; NULL: not open */
    thread *threads;
    lmx_answer *answer;
    void *self;
    int32_t n_inside; /* operators that are being noted: the lanes must stay */
};

static lmx_dispatcher *open_ones; /* under the GIL */

/* == what torch offers ================================================================================= */

static void load_symbols(lmx_modes *m) {
    void *library = lmx_torch_library();
    if (library) {
        lmx_symbol(library, "_ZN2at15sequence_number4peekEv", &m->peek);
        lmx_symbol(library, "_ZN3c108GradMode10is_enabledEv", &m->grad_enabled);
        dlclose(library); /* torch keeps it loaded */
    }
    PyObject *told = m->peek ? PyObject_CallNoArgs(m->sequence) : NULL;
    if (!told || PyLong_AsUnsignedLongLong(told) != m->peek()) m->peek = NULL;
    Py_XDECREF(told);
    PyErr_Clear();
}

bool lmx_modes_load(lmx_state *st) {
    lmx_modes *m = st->modes;
    if (m->open) return true;
    PyObject *module = PyImport_ImportModule("lamina._dispatch");
    PyObject *functions = module ? PyObject_CallMethod(module, "functions", NULL) : NULL;
    Py_XDECREF(module);
    if (!functions) return false;
#define X(what)                                                                                              \
    m->what = PyDict_GetItemString(functions, #what);                                                        \
    if (m->what == Py_None) m->what = NULL;                                                                  \
    Py_XINCREF(m->what);
    LMX_MODE_FUNCTIONS(X)
#undef X
    Py_DECREF(functions);
    load_symbols(m);
    return true;
}

void lmx_modes_clear(lmx_modes *m) {
    if (!m) return;
#define X(what) Py_CLEAR(m->what);
    LMX_MODE_FUNCTIONS(X)
#undef X
    lmx_overloads_free(m);
}

bool lmx_modes_implicit(lmx_state *st, PyObject *func) {
    PyObject *told = PyObject_CallFunctionObjArgs(st->modes->is_implicit, func, NULL);
    bool yes = told == Py_True;
    Py_XDECREF(told);
    PyErr_Clear();
    return yes;
}

/* What a function without arguments tells, as a number; `none` where there is no such function. */
static int64_t number_of(PyObject *function, int64_t none) {
    PyObject *told = function ? PyObject_CallNoArgs(function) : NULL;
    int64_t number = told ? PyLong_AsLongLong(told) : none;
    Py_XDECREF(told);
    if (!PyErr_Occurred()) return number;
    PyErr_Clear();
    return none;
}

uint64_t lmx_modes_sequence(const lmx_modes *m) {
    return m->peek ? m->peek() : (uint64_t)number_of(m->sequence, 0);
}

/* == threads =========================================================================================== */

static thread *new_thread(lmx_capture *c, unsigned long id) {
    thread *t = calloc(1, sizeof *t);
    lmx_lane *lane = t ? lmx_lane_new() : NULL;
    if (!lane) {
        free(t);
        return NULL;
    }
    *t = (thread){.next = c->dispatcher->threads,
                  .id = id,
                  .lane = lane,
                  .asked = -1,
                  .op = -1,
                  .behind = -1,
                  .copied = {.op = -1}};
    t->peeked = lmx_modes_sequence(c->st->modes);
    c->dispatcher->threads = t;
    lmx_lane_clock(lane, &c->clock, id == c->owner);
    lane->most = c->most_ops;
    lane->next = c->observer->lanes;
    c->observer->lanes = lane;
    return t;
}

static thread *find_thread(const lmx_dispatcher *d, unsigned long id) {
    thread *t = d->threads;
    while (t && t->id != id) t = t->next;
    return t;
}

/* True while operators may be noted: the lanes are given away when the model is built. */
static bool listens(const lmx_capture *c) { return c->phase == LMX_OPEN && c->dispatcher && c->observer; }

/* The thread to note an operator of; NULL when it is not to be noted. */
static thread *noting(lmx_capture *c) {
    if (!listens(c) || c->lost) return NULL;
    unsigned long id = PyThread_get_thread_ident();
    if ((c->busy || c->paused) && id == c->owner) return NULL;
    thread *t = find_thread(c->dispatcher, id);
    if (!t && !(t = new_thread(c, id))) c->lost = true;
    return t && !t->lane->lost && !t->describing ? t : NULL;
}

/* While values are described, what that runs in torch is not the model's. */
static void describes(lmx_capture *c, thread *t, bool yes) {
    t->describing = yes;
    if (t->id == c->owner) c->busy = yes;
}

/* == whose work it is ================================================================================== */

/* The engine's run that is going on in this thread; NULL: none. Runs nest, and the inner one is newer. */
static task *task_of(const lmx_modes *m, thread *t, int32_t open) {
    int64_t id = number_of(m->task, -1);
    task *all = t->tasks.data;
    while (t->tasks.n && all[t->tasks.n - 1].id > id) t->tasks.n--;
    if (id < 0) return NULL;
    if (t->tasks.n && all[t->tasks.n - 1].id == id) return &all[t->tasks.n - 1];
    task *new = lmx_vec_push(&t->tasks, sizeof *new, 1);
    if (!new)
        t->lane->lost = true;
    else
        *new = (task){id, open};
    return new;
}

/* The call whose forward made the node that runs. The engine adds gradients up between two nodes. */
static int32_t call_of_node(lmx_capture *c, thread *t) {
    PyObject *node = PyObject_CallNoArgs(c->st->modes->node);
    PyObject *number = node && node != Py_None ? PyObject_CallMethod(node, "_sequence_nr", NULL) : NULL;
    const thread *own = find_thread(c->dispatcher, c->owner);
    if (number) {
        /* Nodes that only keep a gradient have the largest number there is, and run after what gave it. */
        uint64_t sequence = PyLong_AsUnsignedLongLong(number);
        if (!own || sequence <= INT64_MAX)
            t->behind = own ? lmx_lane_origin(own->lane, (int64_t)sequence) : -1;
    }
    Py_XDECREF(number);
    Py_XDECREF(node);
    PyErr_Clear();
    return t->behind;
}

/* True where torch puts what a forward saves into the hands of somebody, as a checkpoint that does a forward
 * again has it; true too inside a node that is a Python function. */
static bool may_redo(const lmx_modes *m) {
    PyObject *hooks = m->hooks ? PyObject_CallFunctionObjArgs(m->hooks, Py_False, NULL) : NULL;
    bool yes = hooks && hooks != Py_None;
    Py_XDECREF(hooks);
    PyErr_Clear();
    if (yes || number_of(m->keeps, 1) != 0) return yes;
    PyObject *node = PyObject_CallNoArgs(m->node);
    yes = node && PyObject_IsInstance(node, m->function) > 0;
    Py_XDECREF(node);
    PyErr_Clear();
    return yes;
}

/* True when the operator made a node: a forward is done again, or the gradients will have gradients. */
static bool makes_nodes(const lmx_modes *m, const thread *t) {
    return m->grad_enabled && m->grad_enabled() && m->peek && m->peek() > t->peeked;
}

typedef struct place {
    int32_t call;
    uint8_t phase;
} place;

static place place_of(lmx_capture *c, thread *t) {
    const lmx_modes *m = c->st->modes;
    const lmx_op *around = t->op >= 0 ? (lmx_op *)t->lane->ops.data + t->op : NULL;
    if (around) return (place){around->call, around->phase};
    task *run = task_of(m, t, c->open_call);
    if (!run && t->redone) lmx_lane_note_origin(t->lane, (int64_t)t->peeked, c->open_call);
    if (!run) t->redone = false;
    if (!run) return (place){c->open_call, LAM_FORWARD};
    bool called = c->open_call != run->base;
    place p = {called ? c->open_call : call_of_node(c, t), LAM_BACKWARD};
    if (!called && !makes_nodes(m, t)) return p;
    if (called || may_redo(m)) p.phase = LAM_RECOMPUTE;
    lmx_lane_note_origin(t->lane, (int64_t)t->peeked, p.call);
    if (m->peek) t->peeked = m->peek();
    t->redone = true;
    return p;
}

bool lmx_dispatch_call(lmx_capture *c) {
    if (!listens(c)) return false;
    const lmx_modes *m = c->st->modes;
    unsigned long id = PyThread_get_thread_ident();
    thread *t = find_thread(c->dispatcher, id);
    if (!t && !(t = new_thread(c, id))) {
        c->lost = true;
        return false;
    }
    t->peeked = lmx_modes_sequence(m);
    lmx_lane_note_origin(t->lane, (int64_t)t->peeked, c->open_call);
    const lmx_call *open = c->open_call >= 0 ? (lmx_call *)c->calls.data + c->open_call : NULL;
    return task_of(m, t, open ? open->parent : -1) != NULL;
}

/* == notes ============================================================================================= */

static lmx_op *op_at(const thread *t, int32_t i) { return (lmx_op *)t->lane->ops.data + i; }

/* The index of the new operator, -1 when memory ran out. */
static int32_t new_op(lmx_capture *c, thread *t, const char *name, bool kept) {
    lmx_lane *lane = t->lane;
    place p = place_of(c, t);
    lmx_op *op = lmx_lane_op(lane, name, kept);
    if (!op) return -1;
    op->call = p.call;
    op->parent = t->op;
    op->phase = p.phase;
    return (int32_t)lane->ops.n - 1;
}

/* The instruction of Python's that runs: -1 where none is told. */
static long instruction(const void **frame) {
    PyObject *here = (PyObject *)PyEval_GetFrame(); /* borrowed */
    PyObject *told = here ? PyObject_GetAttrString(here, "f_lasti") : NULL;
    long at = told ? PyLong_AsLong(told) : -1;
    Py_XDECREF(told);
    PyErr_Clear();
    *frame = here;
    return at;
}

/* In a forward autograd copies what an operator is about to overwrite where its gradient needs it. A mode is
 * told before that operator is; the observer sees it inside. The same instruction of Python's asked for both,
 * which a copy of the program's own and what overwrites its source never have in common. */
static int32_t adopt(thread *t, const lmx_overload *o, PyObject *args, int32_t op) {
    copy was = t->copied;
    const void *frame, *first = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
    t->copied.op = -1;
    if (o->copies) {
        t->copied = (copy){.of = first, .op = op};
        t->copied.at = instruction(&t->copied.frame);
        return op;
    }
    if (!o->writes || was.op < 0 || was.op != op - 1 || was.of != first || was.at < 0) return op;
    lmx_op *own = op_at(t, op), *inside = op_at(t, was.op), kept = *inside;
    bool alike = kept.parent == own->parent && kept.phase == own->phase && !(kept.flags & LAM_OP_FAILED);
    if (!alike || own->phase == LAM_BACKWARD) return op;
    if (instruction(&frame) != was.at || frame != was.frame) return op;
    *inside = *own;
    *own = kept;
    own->parent = was.op;
    return was.op;
}

/* False only for an exception that must reach the user. */
static bool begin(lmx_capture *c, thread *t, const lmx_overload *o, PyObject *args, PyObject *kwargs,
                  int32_t *op) {
    int32_t n = 0;
    *op = new_op(c, t, lmx_utf8(o->name), true);
    if (*op < 0) return true;
    *op = adopt(t, o, args, *op);
    describes(c, t, true);
    t->lane->reads = c->st->torch.reads > 0 && !c->dry;
    bool ok = lmx_pack_arguments(c->st, t->lane, o, args, kwargs, &n);
    describes(c, t, false);
    op_at(t, *op)->in = lmx_lane_take(t->lane);
    bool alone = *op + 1 == (int32_t)t->lane->ops.n;
    op_at(t, *op)->began = alone ? lmx_clock_stamp(t->lane->clock, t->lane->last) : op_at(t, *op + 1)->began;
    return ok;
}

/* Notes the end; an exception of the operator's own stays. False when another must replace the result. */
static bool end(lmx_capture *c, thread *t, const lmx_overload *o, int32_t at, PyObject *result) {
    int32_t n = 0;
    lmx_op *op = op_at(t, at);
    op->ended = lmx_clock_stamp(t->lane->clock, t->lane->last);
    if (c->st->modes->peek && op->phase == LAM_FORWARD) t->peeked = c->st->modes->peek();
    if (!result) {
        op->flags |= LAM_OP_FAILED;
        return true;
    }
    describes(c, t, true);
    bool ok = lmx_pack_result(c->st, t->lane, o, result, &n);
    describes(c, t, false);
    op_at(t, at)->out = lmx_lane_take(t->lane);
    return ok;
}

/* == running =========================================================================================== */

static PyObject *call(const lmx_overload *o, PyObject *args, PyObject *kwargs) {
    return PyObject_Call(o->call, args, kwargs);
}

static PyObject *prefixed(PyObject *first, PyObject *second, PyObject *args) {
    Py_ssize_t n = PyTuple_Size(args), before = (first != NULL) + (second != NULL);
    PyObject *all = PyTuple_New(n + before);
    for (Py_ssize_t i = 0; all && i < n + before; i++) {
        PyObject *item = i >= before ? PyTuple_GetItem(args, i - before) : i == 0 ? first : second;
        Py_INCREF(item);
        PyTuple_SetItem(all, i, item);
    }
    return all;
}

/* Takes our mode off again. False with an exception that is not the operator's. */
static bool pop_mode(const lmx_modes *m) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *popped = PyObject_CallNoArgs(m->pop);
    if (popped)
        PyErr_Restore(type, value, trace);
    else
        Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    Py_XDECREF(popped);
    return popped != NULL;
}

/* Calls `function` with our mode on the stack, above what is there. */
static PyObject *call_under(const lmx_capture *c, PyObject *function, PyObject *first, PyObject *second,
                            PyObject *args, PyObject *kwargs) {
    const lmx_modes *m = c->st->modes;
    PyObject *mode = c->dispatcher->mode, *all = prefixed(first, second, args), *result = NULL;
    if (!all) return NULL;
    PyObject *pushed = mode ? PyObject_CallFunctionObjArgs(m->push, mode, NULL) : NULL;
    if (pushed || !mode) result = PyObject_Call(function, all, kwargs);
    if (pushed && !pop_mode(m)) Py_CLEAR(result);
    Py_XDECREF(pushed);
    Py_DECREF(all);
    return result;
}

/* The class of an argument does this operator by others. It is called again, and then left to that class,
 * whose operators are seen, and count in its place; unless it keeps them from every mode. */
static PyObject *run_inside(const lmx_capture *c, thread *t, const lmx_overload *o, PyObject *args,
                            PyObject *kwargs) {
    const int32_t op = t->op;
    const int64_t asked = t->asked;
    t->passing = o->func;
    t->asked = number_of(c->st->modes->below, 0);
    PyObject *result = call_under(c, o->call, NULL, NULL, args, kwargs);
    t->passing = NULL;
    t->asked = asked;
    if (op >= 0 && (size_t)op + 1 < t->lane->ops.n) op_at(t, op)->flags |= LAM_OP_NODE;
    return result;
}

/* Torch's own class of fake tensors follows shapes and runs nothing. */
static bool is_torchs(PyObject *type) {
    static const char home[] = "torch.";
    PyObject *module = PyObject_GetAttrString(type, "__module__");
    const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
    const size_t n = sizeof home - 2; /* up to the dot */
    bool own = name && strncmp(name, home, n) == 0 && (name[n] == '.' || name[n] == 0);
    PyErr_Clear();
    Py_XDECREF(module);
    return own;
}

static bool has_attr(PyObject *type, const char *name, bool written_in_c) {
    PyObject *attr = PyObject_GetAttrString(type, name);
    bool has = attr && (written_in_c || !PyCFunction_Check(attr));
    PyErr_Clear();
    Py_XDECREF(attr);
    return has;
}

/* A dry run's own, which its mode answers for. */
static bool is_of_dry_run(const lmx_capture *c, PyObject *type) {
    PyTypeObject *fake = c->st->torch.fake;
    return fake && PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, fake);
}

/* Whether a class answers for its tensors' operators. Those that don't have torch's refusal, written in C. */
static bool wraps_tensors(const lmx_capture *c, PyObject *types) {
    for (Py_ssize_t i = 0; PyTuple_Check(types) && i < PyTuple_Size(types); i++) {
        PyObject *type = PyTuple_GetItem(types, i);
        if (is_of_dry_run(c, type)) continue;
        if (has_attr(type, "__tensor_flatten__", true)) return true;
        if (!is_torchs(type) && has_attr(type, "__torch_dispatch__", false)) return true;
    }
    return false;
}

/* The set of dispatch keys below the modes that the arguments have; NULL, without an exception, where the
 * operator can't be run by its kernel: there is another mode or class to ask, or nothing to tell by. */
static PyObject *kernel_of(const lmx_capture *c, PyObject *types, PyObject *args, PyObject *kwargs) {
    const lmx_modes *m = c->st->modes;
    if (PyTuple_Check(types) && PyTuple_Size(types)) return NULL;
    if (number_of(m->below, 1) != 0) return NULL;
    PyObject *keys = PyObject_CallFunctionObjArgs(m->keys, args, kwargs ? kwargs : Py_None, NULL);
    PyErr_Clear();
    if (keys == Py_None) Py_CLEAR(keys);
    return keys;
}

static PyObject *run(const lmx_capture *c, thread *t, const lmx_overload *o, PyObject *const *given,
                     PyObject *kwargs) {
    PyObject *types = given[1], *args = given[2], *result = NULL;
    lmx_dispatcher *d = c->dispatcher;
    if (d->answer && d->answer(d->self, o, args, kwargs, &result)) return result;
    if (wraps_tensors(c, types)) return run_inside(c, t, o, args, kwargs);
    if (!o->wraps || o->higher) return call(o, args, kwargs);
    PyObject *keys = kernel_of(c, types, args, kwargs);
    if (keys) {
        result = call_under(c, c->st->modes->redispatch, o->func, keys, args, kwargs);
        Py_DECREF(keys);
        return result;
    }
    if (o->implicit) return call_under(c, c->st->modes->decompose, o->func, NULL, args, kwargs);
    return call(o, args, kwargs);
}

/* Notes the end whatever way it came; the operator's own exception is put aside meanwhile. */
static PyObject *finish(lmx_capture *c, thread *t, const lmx_overload *o, int32_t op, PyObject *result) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (op < 0 || !listens(c) || end(c, t, o, op, result)) {
        PyErr_Restore(type, value, trace);
        return result;
    }
    Py_XDECREF(result);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return NULL;
}

static PyObject *watch(lmx_capture *c, thread *t, const lmx_overload *o, PyObject *const *given,
                       PyObject *kwargs) {
    int32_t op, around = t->op;
    const bool trial = t->trial;
    PyObject *result = NULL;
    c->dispatcher->n_inside++;
    t->trial = trial || (t->asked >= 0 && number_of(c->st->modes->below, 0) > t->asked);
    if (begin(c, t, o, given[2], kwargs, &op)) {
        if (op >= 0) t->op = op;
        if (op >= 0 && t->trial) op_at(t, op)->flags |= LAM_OP_NODE;
        result = run(c, t, o, given, kwargs);
        t->op = around;
        result = finish(c, t, o, op, result);
    }
    t->trial = trial;
    c->dispatcher->n_inside--;
    return result;
}

static PyObject *pass(PyObject *const *given, PyObject *kwargs) {
    return PyObject_Call(given[0], given[2], kwargs);
}

static PyObject *seen_by(lmx_capture *c, PyObject *const *given, PyObject *kwargs) {
    thread *t = noting(c);
    if (!t) return pass(given, kwargs);
    if (t->passing == given[0]) {
        t->passing = NULL;
        Py_INCREF(Py_NotImplemented);
        return Py_NotImplemented;
    }
    const lmx_overload *o = lmx_overload_of(c->st, given[0]);
    if (!o) return NULL;
    return o->unseen ? call(o, given[2], kwargs) : watch(c, t, o, given, kwargs);
}

static PyObject *dispatched(PyObject *self, PyObject *const *given, Py_ssize_t n) {
    if (n < 3 || !PyTuple_Check(given[2])) {
        PyErr_SetString(PyExc_TypeError, "torch calls this, with an operator and its arguments");
        return NULL;
    }
    PyObject *kwargs = n > 3 && PyDict_Check(given[3]) && PyDict_Size(given[3]) ? given[3] : NULL;
    lmx_dispatcher *d = open_ones;
    while (d && d->mode != self) d = d->next;
    if (!d) return pass(given, kwargs);
    PyObject *capture = (PyObject *)d->capture;
    Py_INCREF(capture);
    PyObject *result = seen_by(d->capture, given, kwargs);
    Py_DECREF(capture);
    return result;
}

/* Whether the operator that is open, or one that it only passed on, is this one. */
static bool runs_now(const thread *t, const char *name) {
    int32_t at = t->op;
    while (at >= 0 && strcmp(lmx_op_name(t->lane, op_at(t, at)), name) != 0)
        at = op_at(t, at)->flags & LAM_OP_NODE ? op_at(t, at)->parent : -1;
    return at >= 0;
}

static void add_unseen(const char *name) {
    for (lmx_dispatcher *d = open_ones; d; d = d->next) {
        thread *t = noting(d->capture);
        if (!t || runs_now(t, name)) continue;
        const int32_t at = new_op(d->capture, t, name, false);
        if (at < 0) continue;
        op_at(t, at)->flags = LAM_OP_NODE | LAM_OP_HIDES;
        op_at(t, at)->began = op_at(t, at)->ended = lmx_clock_stamp(t->lane->clock, t->lane->last);
    }
}

PyObject *lmx_unseen(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return NULL;
    lmx_observe_unseen(text);
    add_unseen(text);
    Py_RETURN_NONE;
}

PyObject *lmx_dispatched_by(PyObject *module, PyObject *type) {
    static PyMethodDef method = {"__torch_dispatch__", (PyCFunction)(void (*)(void))dispatched, METH_FASTCALL,
                                 PyDoc_STR("Runs an operator and notes it. A lamina capture is open.")};
    (void)module;
    if (PyType_Check(type)) return PyDescr_NewMethod((PyTypeObject *)type, &method);
    PyErr_SetString(PyExc_TypeError, "dispatched_by() takes a class");
    return NULL;
}

/* == noting what others did ============================================================================ */

bool lmx_dispatch_answer(lmx_capture *c, lmx_answer *answer, void *self) {
    if (!c->dispatcher) {
        lmx_fail(c->st, LAM_USAGE, NULL, "this capture does not watch operators through the dispatch mode");
        return false;
    }
    c->dispatcher->answer = answer;
    c->dispatcher->self = self;
    return true;
}

PyObject *lmx_dispatch_inside(lmx_capture *c, PyObject *function, PyObject *args, PyObject *kwargs) {
    if (c && listens(c) && c->dispatcher->mode) return call_under(c, function, NULL, NULL, args, kwargs);
    return PyObject_Call(function, args, kwargs);
}

bool lmx_dispatch_note(lmx_capture *c, PyObject *func, PyObject *args, PyObject *kwargs, PyObject *result) {
    const lmx_overload *o = lmx_overload_of(c->st, func);
    thread *t = o ? noting(c) : NULL;
    int32_t op = -1;
    if (!t) return o != NULL;
    c->dispatcher->n_inside++;
    bool ok = begin(c, t, o, args, kwargs, &op) && (op < 0 || end(c, t, o, op, result));
    c->dispatcher->n_inside--;
    return ok;
}

int32_t lmx_dispatch_op(const lmx_capture *c) {
    const thread *t = listens(c) ? find_thread(c->dispatcher, PyThread_get_thread_ident()) : NULL;
    return t ? t->op : -1;
}

void lmx_dispatch_mark(lmx_capture *c, int32_t op, size_t level, uint8_t flag) {
    thread *t = listens(c) ? find_thread(c->dispatcher, PyThread_get_thread_ident()) : NULL;
    while (t && op >= 0 && level-- > 0) op = op_at(t, op)->parent;
    if (t && op >= 0 && (size_t)op < t->lane->ops.n) op_at(t, op)->flags |= flag;
}

/* == opening and closing =============================================================================== */

bool lmx_dispatcher_new(lmx_capture *c) {
    c->dispatcher = calloc(1, sizeof *c->dispatcher);
    c->observer = c->dispatcher ? calloc(1, sizeof *c->observer) : NULL;
    if (!c->observer) {
        PyErr_NoMemory();
        return false;
    }
    *c->observer = (lmx_observer){.capture = c, .slot = -1};
    c->dispatcher->capture = c;
    return true;
}

bool lmx_dispatch(lmx_capture *c) {
    lmx_dispatcher *d = c->dispatcher;
    if (!lmx_modes_load(c->st)) return false;
    if (!c->dry) lmx_reads_values(c->st);
    d->mode = PyObject_CallNoArgs(c->st->modes->open);
    if (!d->mode) return false;
    d->next = open_ones;
    open_ones = d;
    return true;
}

void lmx_undispatch(lmx_capture *c) {
    lmx_dispatcher *d = c->dispatcher, **at = &open_ones;
    if (!d->mode) return;
    while (*at && *at != d) at = &(*at)->next;
    if (*at) *at = d->next;
    PyObject *mode = d->mode, *done = NULL;
    d->mode = NULL;
    for (int i = 0; !done && i < 2; i++) { /* Ctrl-C on the way: once more */
        done = PyObject_CallFunctionObjArgs(c->st->modes->close, mode, NULL);
        if (!done) PyErr_Clear();
    }
    Py_XDECREF(done);
    Py_DECREF(mode);
}

bool lmx_dispatch_busy(const lmx_capture *c) { return c->dispatcher && c->dispatcher->n_inside > 0; }

void lmx_dispatcher_free(lmx_dispatcher *d) {
    for (thread *t = d ? d->threads : NULL, *next; t; t = next) {
        next = t->next;
        lmx_vec_free(&t->tasks);
        free(t);
    }
    free(d);
}
