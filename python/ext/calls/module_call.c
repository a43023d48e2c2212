/* SPDX-License-Identifier: Apache-2.0
 * Module calls. While a capture is open, a call of a module reaches C first, because any hook of torch's own
 * costs twenty times as much. C finds the module by its address, notes the call, and calls the original.
 *
 * The function torch.nn.Module.__call__ gets a detour to C (detour.h), so that no class is changed. If that
 * fails, or if other code put something other than a function there, a C method takes its place.
 *
 * There is one torch.nn.Module in a process, so its entry is process-wide state: `entry`, guarded by the GIL.
 * It may stay while no capture is open (lmx_rest). Other code may replace Module.__call__ while our method is
 * installed, and keep a reference to our method. So our method must work after its capture closed, and must
 * not call the code that calls it. Each method therefore has a slot with its own original; a slot is used
 * again only for the same original, or once no reference to its method is left. */
#include "base/ext.h"
#include "calls/calls.h"
#include "calls/detour.h"
#include "calls/root.h"
#include "observe/capture.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "ops/dispatch.h"
#include "process/clock.h"
#include "torch/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8, NESTED = 8 };

typedef struct slot {
    PyObject *original, *method; /* strong; both stay after the capture closed */
} slot;

static struct {
    slot *active;         /* the installed one; NULL: no capture is open and none rests */
    slot *unrestored;     /* its original could not be restored yet, because memory ran out */
    PyObject *dict;       /* Module.__dict__, kept so that restoring needs no memory */
    PyObject *class_dict; /* the dict behind that proxy, or NULL */
    lmx_capture *first;   /* open captures, newest first; not owned: each unlinks itself when it is dropped */
    int resting;          /* above 0: it stays in place between captures (lmx_rest) */
    lmx_detour detour;    /* of the function Module.__call__ */
    slot detoured;        /* while the detour is in place: its copy and its function */
    slot slots[SLOTS];
} entry;

/* One call that is being recorded in one capture. */
typedef struct frame {
    lmx_capture *capture; /* strong */
    int32_t module, call, inner, parent;
    bool hired;             /* with it the thread became the capture's worker */
    const lmx_given *given; /* the caller's, until the call is left */
} frame;

/* == recording ========================================================================================= */

/* The stamp of this moment on the thread whose calls the capture takes. */
LMX_OFTEN static int64_t stamp(lmx_capture *c) {
    return lmx_clock_stamp(&c->clock, c->worker ? c->workers_lane->last : &c->clock.last);
}

static lmx_call *call_at(lmx_capture *c, int32_t i) { return (lmx_call *)c->calls.data + i; }

LMX_OFTEN static bool is_training(lmx_state *st, PyObject *module) {
    PyObject *dict = lmx_dict_of(module);
    PyObject *training = lmx_get(dict, st->n_training);
    bool yes = training == Py_True;
    Py_XDECREF(dict);
    if (!training && (training = PyObject_GetAttr(module, st->n_training))) {
        yes = training == Py_True;
        Py_DECREF(training);
    }
    if (!training) PyErr_Clear();
    return yes;
}

/* If memory runs out, the capture loses records and the user's call goes on. False only for an exception that
 * must reach the user. */
static bool finish_find(lmx_capture *c, const lmx_finder *f, bool ok) {
    c->busy = false;
    if (f->cut) c->cut = true;
    if (f->nomem) c->lost = true;
    if (ok || !PyErr_ExceptionMatches(PyExc_MemoryError)) return ok;
    PyErr_Clear();
    c->lost = true;
    return true;
}

/* False only for an exception that must reach the user. */
static bool find_arguments(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *names,
                           int32_t *found) {
    lmx_finder f = {.st = c->st, .words = &c->words, .budget = LMX_BUDGET, .name = -1, .names = c};
    if (c->open_call < 0) f.entry = lmx_entry_name; /* the model's own inputs are reported by name */
    c->busy = true;
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        f.position = (int32_t)i;
        ok = lmx_find(&f, args[i], 0);
    }
    Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
    f.position = -1;
    for (Py_ssize_t i = 0; ok && i < n_names; i++) {
        f.name = lmx_keyword(c, PyTuple_GetItem(names, i));
        ok = lmx_find(&f, args[n + i], 0);
    }
    *found = f.n;
    return finish_find(c, &f, ok);
}

static int32_t push_call(lmx_capture *c, const lmx_call *call) {
    size_t used = c->calls.n * sizeof *call + c->words.n * sizeof(int64_t);
    bool full = used > c->most;
    lmx_call *at = full ? NULL : lmx_vec_push(&c->calls, sizeof *at, 1);
    if (!at) {
        c->full = full;
        c->lost = true;
        return -1;
    }
    *at = *call;
    c->open_call = (int32_t)c->calls.n - 1;
    return c->open_call;
}

/* Reports to the observer of operators that another call is open now. True inside a backward pass. */
static bool change_open_call(lmx_capture *c) {
    return c->dispatcher ? lmx_dispatch_call(c) : lmx_observe_call(c);
}

/* True if this call was noted already, together with the call of the compiled wrapper around it. */
static bool is_inner_again(const lmx_capture *c, int32_t module) {
    const lmx_call *open = c->open_call >= 0 ? (const lmx_call *)c->calls.data + c->open_call : NULL;
    if (open && open->module == module && c->open_call == c->alias_call &&
        (size_t)c->open_call + 1 == c->calls.n)
        return true;
    return open && open->module == module && open->parent >= 0 && (size_t)c->open_call + 1 == c->calls.n &&
           lmx_node_at(&c->tree, ((const lmx_call *)c->calls.data)[open->parent].module)->inner == module;
}

/* Calls the capture's `given` once; ignores what it raises. */
static void report_root_arguments(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *function = c->given, *tuple = PyTuple_New(n), *dict = PyDict_New(), *done = NULL;
    Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
    bool ok = tuple && dict;
    c->given = NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        Py_INCREF(args[i]);
        ok = PyTuple_SetItem(tuple, i, args[i]) == 0;
    }
    for (Py_ssize_t i = 0; ok && i < n_names; i++)
        ok = PyDict_SetItem(dict, PyTuple_GetItem(names, i), args[n + i]) == 0;
    c->busy = true;
    if (ok) done = PyObject_CallFunctionObjArgs(function, tuple, dict, NULL);
    c->busy = false;
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(dict);
    Py_XDECREF(tuple);
    Py_DECREF(function);
}

/* Notes the entry. A compiled wrapper reaches the module inside it by a method that was bound before ours
 * was installed, so the inner call, which has the same arguments and result, is noted with it. False only
 * for an exception that must reach the user. */
static bool note_entry(frame *f, PyObject *self) {
    lmx_capture *c = f->capture;
    const lmx_given *g = f->given;
    f->parent = c->open_call;
    f->call = f->inner = -1;
    if (c->busy || c->lost || c->phase != LMX_OPEN || is_inner_again(c, f->module)) return true;
    lmx_call call = {.module = f->module, .parent = f->parent, .in_at = c->words.n};
    if (c->worker) call.thread = c->workers_lane->number;
    PyObject *module = lmx_node_at(&c->tree, f->module)->object;
    call.flags = LAM_CALL_UNSEEN;
    if (!c->brief && is_training(c->st, module)) call.flags |= LAM_CALL_TRAINING;
    if (!c->brief && !find_arguments(c, g->args, g->n, g->names, &call.n_in)) {
        c->words.n = call.in_at;
        return false;
    }
    if (c->phase != LMX_OPEN) return true; /* describing may run the user's code */
    f->call = push_call(c, &call);
    if (c->given && f->module == 0) report_root_arguments(c, g->args, g->n, g->names);
    if (c->phase != LMX_OPEN) return true;
    if (self != module) c->alias_call = f->call;
    int32_t inner = lmx_node_at(&c->tree, f->module)->inner;
    if (f->call >= 0 && inner >= 0) {
        call.module = inner;
        call.parent = f->call;
        f->inner = push_call(c, &call);
    }
    if (change_open_call(c)) {
        if (f->call >= 0) call_at(c, f->call)->flags |= LAM_CALL_AGAIN;
        if (f->inner >= 0) call_at(c, f->inner)->flags |= LAM_CALL_AGAIN;
    }
    bool ok = !c->listeners || f->call < 0 || lmx_tell_entered(c, f->call, f->given);
    if (c->phase != LMX_OPEN) return ok;
    int64_t now = stamp(c); /* last, to leave out lamina's own work */
    if (f->call >= 0) call_at(c, f->call)->began = now;
    if (f->inner >= 0) call_at(c, f->inner)->began = now;
    return ok;
}

static bool enter(frame *f, PyObject *self, const lmx_given *given) {
    lmx_capture_hold(f->capture);
    f->given = given;
    bool ok = note_entry(f, self);
    lmx_capture_let_go(f->capture);
    return ok;
}

/* True for a generator or coroutine: a function with `yield` or `await` returns one before it has run. */
static bool runs_later(lmx_state *st, PyObject *result) {
    static const char *const all[] = {"generator", "coroutine", "async_generator"};
    PyObject *name = PyObject_GetAttr((PyObject *)Py_TYPE(result), st->n___name__);
    PyObject *module = PyObject_GetAttr((PyObject *)Py_TYPE(result), st->n___module__);
    bool yes = false;
    for (size_t i = 0; name && module && i < sizeof all / sizeof *all; i++)
        yes = yes || strcmp(lmx_utf8(name), all[i]) == 0;
    yes = yes && strcmp(lmx_utf8(module), "builtins") == 0;
    Py_XDECREF(name);
    Py_XDECREF(module);
    PyErr_Clear();
    return yes;
}

/* False only for an exception that must reach the user. */
static bool find_outputs(lmx_capture *c, lmx_call *call, PyObject *result) {
    lmx_finder f = {.st = c->st, .words = &c->words, .budget = LMX_BUDGET, .name = -1, .numbered = true};
    call->out_at = c->words.n;
    c->busy = true;
    bool ok = lmx_find(&f, result, 0);
    call->n_out = f.n;
    if (f.n) call->flags &= ~(uint32_t)LAM_CALL_UNSEEN;
    /* Only if outermost: the caller of an inner one may run it, and its work is then that caller's. */
    if (ok && !f.n && call->parent < 0 && result != Py_None && runs_later(c->st, result))
        call->flags |= LAM_CALL_LATER;
    if (f.values) call->flags |= LAM_CALL_VALUES;
    return finish_find(c, &f, ok);
}

static void close_call(lmx_capture *c, int32_t i, const lmx_call *seen, int64_t now) {
    if (i < 0) return;
    lmx_call *call = call_at(c, i);
    call->flags = seen->flags | (call->flags & (LAM_CALL_ELSEWHERE | LAM_CALL_STRANGERS));
    call->n_out = seen->n_out;
    call->out_at = seen->out_at;
    call->ended = now;
}

static bool note_exit(const frame *f, PyObject *result, int64_t now) {
    lmx_capture *c = f->capture;
    lmx_call seen = *call_at(c, f->call);
    bool ok = true;
    if (!result)
        seen.flags |= LAM_CALL_FAILED;
    else if (!c->busy && !c->brief)
        ok = find_outputs(c, &seen, result);
    close_call(c, f->call, &seen, now);
    close_call(c, f->inner, &seen, now);
    if (c->phase != LMX_OPEN) return ok; /* describing may run the user's code */
    c->open_call = f->parent;
    change_open_call(c);
    return c->listeners && ok ? lmx_tell_left(c, f->call, f->given, result) : ok;
}

/* Notes the end of a call, returned or raised. False if an exception must replace the result. */
static bool leave(frame *f, PyObject *result) {
    lmx_capture *c = f->capture;
    int64_t now = stamp(c);
    if (c->phase != LMX_OPEN || f->call < 0) return true;
    lmx_capture_hold(c);
    bool ok = note_exit(f, result, now);
    lmx_capture_let_go(c);
    return ok;
}

/* == the method ======================================================================================== */

/* Notes that a module of the capture was called on another thread than the capture's. */
static void note_call_elsewhere(lmx_capture *c, int32_t module) {
    if (c->open_call >= 0) call_at(c, c->open_call)->flags |= LAM_CALL_ELSEWHERE;
    c->strangers = c->strangers || c->open_call < 0;
    if (!c->elsewhere) c->elsewhere = calloc(c->tree.nodes.n, sizeof *c->elsewhere);
    if (c->elsewhere)
        c->elsewhere[module] = true; /* if memory ran out, the call's flag and the note remain */
}

/* On a GPU the nodes of a backward pass run on a thread of autograd, and so do the calls that a checkpoint
 * repeats in them. The first such thread with a call becomes the worker until that call is over. Until then
 * all other threads' calls count as elsewhere; and so do its own while the owner repeats one. */
static bool hire(lmx_capture *c) {
    const bool repeats = c->open_call >= 0 && call_at(c, c->open_call)->flags & LAM_CALL_AGAIN;
    const lmx_lane *lane = repeats ? NULL : lmx_observe_worker(c);
    if (!lane) return false;
    c->workers_lane = lane;
    c->owners_call = c->open_call;
    __atomic_store_n(&c->worker, PyThread_get_thread_ident(), __ATOMIC_RELEASE);
    return true;
}

/* Lists the open captures that take the calls of this thread and contain the module; returns their number. */
static int find_captures(PyObject *self, frame *frames) {
    int n = 0;
    for (lmx_capture *c = entry.first; c && n < NESTED; c = c->next) {
        int32_t module = lmx_map_get(&c->tree.index, self);
        const bool takes = lmx_takes_calls(c), hired = module >= 0 && !takes && !c->worker && hire(c);
        if (module < 0 && takes && c->open_call >= 0 && !c->busy)
            call_at(c, c->open_call)->flags |= LAM_CALL_STRANGERS;
        if (module < 0) continue;
        if (!takes && !hired) {
            note_call_elsewhere(c, module);
            continue;
        }
        Py_INCREF((PyObject *)c);
        frames[n++] = (frame){c, module, -1, -1, -1, hired, NULL};
    }
    return n;
}

/* `args` begins with the module. */
LMX_OFTEN static PyObject *call_copy(PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *copy = entry.detoured.original;
    Py_INCREF(copy);
    PyObject *result = lmx_vectorcall(copy, args, (size_t)n, names);
    Py_DECREF(copy);
    return result;
}

LMX_OFTEN static PyObject *call_original(const slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                         PyObject *names) {
    PyObject *original = s->original;
    if (s == &entry.detoured) return call_copy(args - 1, n + 1, names); /* self lies before the others */
    PyObject *few[16], **all = few;
    size_t total = (size_t)n + (names ? (size_t)PyTuple_Size(names) : 0);
    if (total + 1 > sizeof few / sizeof *few && !(all = PyMem_Malloc((total + 1) * sizeof *all)))
        return PyErr_NoMemory();
    all[0] = self;
    for (size_t i = 0; i < total; i++) all[i + 1] = args[i];
    PyObject *result = lmx_vectorcall(original, all, (size_t)n + 1, names);
    if (all != few) PyMem_Free(all);
    return result;
}

/* Closes the frames in reverse order. The exception of a failed call is saved before that and restored
 * after it, because any call of the Python API could lose it. */
static PyObject *leave_all(frame *frames, int n, PyObject *result) {
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    bool failed = !result;
    if (failed) PyErr_Fetch(&type, &value, &trace);
    /* Before Python 3.12 an error raised by C is no exception object yet. */
    if (failed && n > 0) PyErr_NormalizeException(&type, &value, &trace);
    while (n-- > 0) {
        frames[n].capture->raised = failed ? value ? value : type : NULL;
        if (!leave(&frames[n], result)) Py_CLEAR(result);
        frames[n].capture->raised = NULL;
        if (frames[n].hired) __atomic_store_n(&frames[n].capture->worker, 0, __ATOMIC_RELEASE);
        Py_DECREF(frames[n].capture);
    }
    if (failed) PyErr_Restore(type, value, trace);
    return result;
}

static PyObject *call_captured(slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *names) {
    frame frames[NESTED];
    const lmx_given given = {args, n, names};
    int n_frames = s == entry.active ? find_captures(self, frames) : 0;
    PyObject *original = s->original;
    Py_INCREF(original);
    PyObject *result;
    int entered = 0;
    bool ok = true;
    while (ok && entered < n_frames) ok = enter(&frames[entered++], self, &given);
    result = ok ? call_original(s, self, args, n, names) : NULL;
    Py_DECREF(original);
    return n_frames ? leave_all(frames, n_frames, result) : result;
}

LMX_OFTEN static PyObject *call_root(slot *s, lmx_root *r, PyObject *self, PyObject *const *args,
                                     Py_ssize_t n, PyObject *names) {
    bool seen, ok = lmx_count_begin(r, self, is_training(r->st, self), &seen);
    PyObject *result = NULL;
    if (ok && entry.first)
        result = call_captured(s, self, args, n, names);
    else if (ok)
        result = call_original(s, self, args, n, names);
    return lmx_count_end(r, seen, result);
}

static PyObject *call_module(slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* == roots that are not known yet ====================================================================== */

static PyObject *root_finder;     /* called for each module that is called outside any other; NULL: none */
static __thread bool within_root; /* such a call is running in this thread */

/* Begins such a call. Returns Py_None, a function to call instead, or NULL with an exception. */
static PyObject *begin_found(PyObject *self) {
    PyObject *finder = root_finder; /* the finder may unset itself */
    within_root = true;
    Py_INCREF(finder);
    PyObject *instead = PyObject_CallFunctionObjArgs(finder, self, NULL);
    Py_DECREF(finder);
    return instead;
}

static PyObject *call_outermost(slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                PyObject *names) {
    PyObject *instead = begin_found(self), *result = NULL;
    if (instead == Py_None)
        result = call_module(s, self, args, n, names);
    else if (instead)
        result = lmx_vectorcall(instead, args, (size_t)n, names);
    within_root = false;
    Py_XDECREF(instead);
    return result;
}

LMX_OFTEN static PyObject *call_module(slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                       PyObject *names) {
    if (s == entry.active) {
        if (root_finder && !within_root) return call_outermost(s, self, args, n, names);
        for (lmx_root *r = lmx_roots; r; r = r->next)
            if (r->module == self && !r->inside) return call_root(s, r, self, args, n, names);
        if (!entry.first) return call_original(s, self, args, n, names);
    }
    return call_captured(s, self, args, n, names);
}

/* == the method itself ================================================================================= */

#define METHOD(i)                                                                                            \
    static PyObject *call_##i(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {        \
        return call_module(&entry.slots[i], self, args, n, names);                                           \
    }
/* clang-format off */
METHOD(0) METHOD(1) METHOD(2) METHOD(3) METHOD(4) METHOD(5) METHOD(6) METHOD(7)

#define DOC "__call__($self, /, *args, **kwargs)\n--\n\nCalls the module. A lamina capture is open."
#define ENTRY(i) {"__call__", (PyCFunction)(void (*)(void))call_##i, METH_FASTCALL | METH_KEYWORDS, DOC}
static PyMethodDef methods[SLOTS] = {ENTRY(0), ENTRY(1), ENTRY(2), ENTRY(3),
                                     ENTRY(4), ENTRY(5), ENTRY(6), ENTRY(7)};
/* clang-format on */

LMX_OFTEN static PyObject *call_detoured(PyObject *const *args, Py_ssize_t n, PyObject *names) {
    return n ? call_module(&entry.detoured, args[0], args + 1, n - 1, names) : call_copy(args, n, names);
}

void lmx_calls_wanted(void) {
    const lmx_root *r = lmx_roots;
    lmx_detour_limit_to(entry.first || root_finder || (r && r->next) ? NULL : r ? r->module : Py_None);
}

PyObject *lmx_find_roots(PyObject *module, PyObject *finder) {
    (void)module;
    PyObject *before = root_finder;
    root_finder = finder == Py_None ? NULL : finder;
    Py_XINCREF(root_finder);
    Py_XDECREF(before);
    lmx_calls_wanted();
    Py_RETURN_NONE;
}

PyObject *lmx_within_found(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(within_root);
}

/* == installing ======================================================================================== */

/* The entry in Module's own dict, without attribute lookup; a new reference. */
static PyObject *current_call(lmx_state *st) {
    if (!entry.dict) entry.dict = PyObject_GetAttr((PyObject *)st->torch.module, st->n___dict__);
    return entry.dict ? PyObject_GetItem(entry.dict, st->n___call__) : NULL;
}

/* The dict behind Module.__dict__; NULL if it can't be reached. */
static PyObject *dict_behind(PyObject *proxy) {
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *shown = gc ? PyObject_CallMethod(gc, "get_referents", "O", proxy) : NULL;
    PyObject *dict = shown && PyList_Check(shown) ? PyList_GetItem(shown, 0) : NULL;
    if (dict && !PyDict_CheckExact(dict)) dict = NULL;
    Py_XINCREF(dict);
    Py_XDECREF(shown);
    Py_XDECREF(gc);
    PyErr_Clear();
    return dict;
}

/* True if Module, and with it every subclass, has `call` as its __call__ now. */
static bool is_set(lmx_state *st, PyObject *call) {
    PyObject *found = PyObject_GetAttr((PyObject *)st->torch.module, st->n___call__);
    Py_XDECREF(found);
    PyErr_Clear();
    return found == call;
}

/* Setting an attribute called __call__ checks the slots of every subclass that was ever imported: half a
 * millisecond, twice a capture. A Python function and a C method are reached through the same slot, so it
 * is enough to write the entry and to report that the type changed. */
static bool set_quickly(lmx_state *st, PyObject *old, PyObject *call) {
    if (!old || Py_TYPE(old) == &PyWrapperDescr_Type || Py_TYPE(call) == &PyWrapperDescr_Type) return false;
    if (!entry.class_dict && entry.dict) entry.class_dict = dict_behind(entry.dict);
    if (!entry.class_dict || lmx_get(entry.class_dict, st->n___call__) != old) return false;
    if (PyDict_SetItem(entry.class_dict, st->n___call__, call) < 0) PyErr_Clear();
    PyType_Modified(st->torch.module);
    return is_set(st, call);
}

static bool set_call(lmx_state *st, PyObject *old, PyObject *call) {
    return set_quickly(st, old, call) ||
           PyObject_SetAttr((PyObject *)st->torch.module, st->n___call__, call) == 0;
}

/* The slot to install over `current`; NULL if other code still refers to every slot's method. */
static slot *slot_for(PyObject *current) {
    for (slot *s = entry.slots; s < entry.slots + SLOTS; s++)
        if (s->method && (s->method == current || s->original == current)) return s;
    for (slot *s = entry.slots; s < entry.slots + SLOTS; s++)
        if (!s->method || Py_REFCNT(s->method) == 1) return s;
    return NULL;
}

static bool prepare(lmx_state *st, slot *s, PyObject *current) {
    if (s->method && (s->method == current || s->original == current)) return true;
    PyObject *method = PyDescr_NewMethod(st->torch.module, &methods[s - entry.slots]);
    if (!method) return false;
    PyObject *old_method = s->method, *old_original = s->original;
    Py_INCREF(current);
    s->method = method;
    s->original = current;
    Py_XDECREF(old_method);
    Py_XDECREF(old_original);
    return true;
}

static bool put_detour(PyObject *current) {
    if (!lmx_detour_prepare(&entry.detour, current, call_detoured) || !lmx_detour_install(&entry.detour))
        return false;
    entry.detoured = (slot){entry.detour.copy, current};
    entry.active = &entry.detoured;
    return true;
}

static bool put_method(lmx_state *st, PyObject *current) {
    slot *s = slot_for(current);
    bool ok = s && prepare(st, s, current) && (s->method == current || set_call(st, current, s->method));
    if (!s)
        lmx_fail(st, LAM_LIMIT, "torch.nn.Module.__call__",
                 "it was replaced by others during %d captures, and what replaced it still calls lamina; "
                 "undo that first",
                 SLOTS);
    if (ok) entry.active = s;
    return ok;
}

static bool take_out_detour(void) {
    bool ended, ours = lmx_detour_remove(&entry.detour, &ended);
    entry.unrestored = ended ? NULL : &entry.detoured;
    return ours;
}

static bool install(lmx_state *st) {
    PyObject *current = current_call(st);
    if (entry.active == &entry.detoured || entry.unrestored == &entry.detoured)
        take_out_detour(); /* __call__ may be another function now */
    entry.active = NULL;
    bool detoured = current && entry.unrestored != &entry.detoured && put_detour(current);
    bool ok = current && (detoured || put_method(st, current));
    if (ok && entry.unrestored != &entry.detoured) entry.unrestored = NULL;
    Py_XDECREF(current);
    return ok;
}

/* Restores the very same objects. False if other code has replaced ours: its replacement stays. */
static bool uninstall(lmx_state *st, slot *s) {
    PyObject *current = current_call(st);
    bool ours = !current || current == s->method;
    if (s == &entry.detoured)
        ours = take_out_detour() && ours;
    else
        entry.unrestored = ours && !set_call(st, current, s->original) ? s : NULL;
    Py_XDECREF(current);
    PyErr_Clear();
    return ours;
}

static bool may_nest(lmx_capture *c) {
    int same_thread = 0;
    for (lmx_capture *o = entry.first; o; o = o->next) same_thread += o->owner == c->owner;
    if (same_thread < NESTED) return true;
    lmx_fail(c->st, LAM_LIMIT, NULL, "%d captures are open in this thread already; close some first", NESTED);
    return false;
}

static bool start_observing(lmx_capture *c) {
    if (c->dispatcher) return lmx_dispatch(c);
    return (!c->wants_ops && !c->wants_nodes) || lmx_observe(c);
}

/* True if our detour or method is in place. Other code may have replaced it while it rested. */
static bool is_installed(lmx_state *st) {
    if (!entry.active || entry.first) return entry.active != NULL;
    PyObject *current = current_call(st);
    Py_XDECREF(current);
    PyErr_Clear();
    return current == entry.active->method;
}

bool lmx_capture_attach(lmx_capture *c) {
    c->owner = PyThread_get_thread_ident();
    c->open_call = -1;
    if (!may_nest(c) || (!is_installed(c->st) && !install(c->st))) return false;
    c->next = entry.first;
    entry.first = c;
    lmx_calls_wanted();
    c->phase = LMX_OPEN;
    lmx_clock_begin(&c->clock, !lmx_want_kernel_clock(c));
    if (lmx_tell_opened(c) && start_observing(c)) return true;
    lmx_capture_detach(c);
    c->phase = LMX_NEW;
    return false;
}

static void close_capture(lmx_capture *c) {
    lmx_capture **at = &entry.first;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    lmx_calls_wanted();
    c->next = NULL;
    c->phase = LMX_CLOSED;
    lmx_clock_end(&c->clock);
    if (c->dispatcher)
        lmx_undispatch(c);
    else
        lmx_unobserve(c);
    lmx_tell_closed(c);
}

void lmx_capture_detach(lmx_capture *c) {
    if (c->phase != LMX_OPEN && !entry.unrestored) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (c->phase == LMX_OPEN) close_capture(c);
    slot *s = entry.unrestored;
    if (!entry.first && entry.active) {
        lmx_torch_forget_types(&c->st->torch);
        if (!entry.resting) {
            s = entry.active;
            entry.active = NULL;
        }
    }
    if (s && !entry.active && !uninstall(c->st, s)) c->replaced = true;
    PyErr_Restore(type, value, trace);
}

/* Each change of torch.nn.Module empties CPython's caches of every class of modules, and from 3.12 on a
 * class that was changed a thousand times is never cached again. So captures that follow each other leave
 * the method in place, which costs a call some nanoseconds. */
PyObject *lmx_rest(PyObject *module, PyObject *wanted) {
    lmx_state *st = lmx_state_of(module);
    int more = PyObject_IsTrue(wanted);
    if (more < 0 || (more && (!lmx_torch_ready(st) || (!entry.active && !install(st))))) return NULL;
    entry.resting += more ? 1 : entry.resting > 0 ? -1 : 0;
    slot *s = entry.active;
    if (!entry.resting && s && !entry.first) {
        entry.active = NULL;
        uninstall(st, s);
    }
    Py_RETURN_NONE;
}

PyObject *lmx_in_place(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(entry.active != NULL);
}

/* The original behind one of our methods may be another of our methods. */
PyObject *lmx_behind(PyObject *module, PyObject *function) {
    (void)module;
    for (int i = 0; i < 2 * SLOTS; i++) {
        const slot *s = &entry.slots[i % SLOTS];
        if (s->original && s->method == function) function = s->original;
    }
    Py_INCREF(function);
    return function;
}

bool lmx_rests(void) { return entry.resting > 0; }

bool lmx_note(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *result) {
    frame f = {.capture = c, .call = -1, .inner = -1, .parent = -1};
    const lmx_given given = {args, n, NULL};
    c->phase = LMX_OPEN;
    bool ok = enter(&f, c->root, &given) && leave(&f, result);
    c->phase = LMX_CLOSED;
    return ok;
}
