/* SPDX-License-Identifier: Apache-2.0
 * Module calls. While a capture is open, a call of a module reaches C first, because any hook of torch's own
 * costs twenty times as much. C finds the module by its address, notes the call, and calls the original.
 *
 * lamina's entry in torch.nn.Module (entry.h) may stay there while no capture is open (lmx_rest): then calls
 * are counted for recorded steps. While torch's compiler works, nothing is counted or recorded in its thread.
 */
#include "base/ext.h"
#include "calls/calls.h"
#include "calls/compiler.h"
#include "calls/entry.h"
#include "calls/own_call.h"
#include "calls/root.h"
#include "observe/capture.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "observe/regions.h"
#include "process/clock.h"
#include "torch/tensor.h"

#include <stdlib.h>
#include <string.h>

/* Process-wide, guarded by the GIL. */
static struct {
    int resting;            /* above 0: the entry stays in place between captures (lmx_rest) */
    unsigned long compiler; /* the thread on which torch's compiler works; 0: none */
    bool hidden;            /* the entry is taken out meanwhile */
} all;

/* One call that is being recorded in one capture. */
typedef struct frame {
    lmx_capture *capture; /* strong */
    int32_t module, call, inner, parent;
    bool hired;             /* with it the thread became the capture's worker */
    bool own;               /* a call of the class's own __call__, in which another call may follow */
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

/* Credits compiled code that has run since the last change of calls to the call that is open. */
static void note_regions(lmx_capture *c) {
    if (c->regions != LMX_REGIONS_COUNTED || c->worker || c->owner != PyThread_get_thread_ident()) return;
    const uint64_t now = lmx_regions_here().begun;
    if (c->open_call >= 0) call_at(c, c->open_call)->regions += (int32_t)(now - c->regions_before);
    c->regions_before = now;
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
static bool change_open_call(lmx_capture *c) { return c->mode ? lmx_dispatch_call(c) : lmx_observe_call(c); }

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
    note_regions(c);
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
    if (self != module || f->own) c->alias_call = f->call;
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
    note_regions(c);
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

/* True if a call of that module may belong to the capture. A recorded step has the calls of its root, those
 * inside them, and those that its backward pass repeats. The program may call the modules in between too. */
static bool is_of_step(const lmx_capture *c, int32_t module) {
    if (!c->recorded) return true;
    return !c->paused && (module == 0 || !c->roots_only || c->open_call >= 0 || lmx_here(c).call >= 0);
}

/* Lists the open captures that take the calls of this thread and contain the module; returns their number. */
static int find_captures(PyObject *self, frame *frames) {
    int n = 0;
    for (lmx_capture *c = lmx_first_open; c && n < LMX_NESTED; c = c->next) {
        int32_t module = lmx_map_get(&c->tree.index, self);
        if (module < 0) module = lmx_map_get(&c->tree.index, lmx_compiler_inside(c->st, self));
        if (module >= 0 && !is_of_step(c, module)) continue;
        const bool takes = lmx_takes_calls(c), hired = module >= 0 && !takes && !c->worker && hire(c);
        if (module < 0 && takes && c->open_call >= 0 && !c->busy)
            call_at(c, c->open_call)->flags |= LAM_CALL_STRANGERS;
        if (module < 0) continue;
        if (!takes && !hired) {
            note_call_elsewhere(c, module);
            continue;
        }
        Py_INCREF((PyObject *)c);
        frames[n++] = (frame){c, module, -1, -1, -1, hired, false, NULL};
    }
    return n;
}

LMX_OFTEN static PyObject *call_original(const lmx_slot *s, PyObject *self, PyObject *const *args,
                                         Py_ssize_t n, PyObject *names) {
    PyObject *original = s->original;
    if (s->detoured) {
        Py_INCREF(original);
        PyObject *result = lmx_vectorcall(original, args - 1, (size_t)n + 1, names);
        Py_DECREF(original);
        return result;
    }
    PyObject *few[16], **every = few;
    size_t total = (size_t)n + (names ? (size_t)PyTuple_Size(names) : 0);
    if (total + 1 > sizeof few / sizeof *few && !(every = PyMem_Malloc((total + 1) * sizeof *every)))
        return PyErr_NoMemory();
    every[0] = self;
    for (size_t i = 0; i < total; i++) every[i + 1] = args[i];
    PyObject *result = lmx_vectorcall(original, every, (size_t)n + 1, names);
    if (every != few) PyMem_Free(every);
    return result;
}

/* True for a capture that may run Python where it notes a call, in a program that runs compiled code. */
static bool runs_python(const frame *frames, int n) {
    bool yes = false;
    for (int i = 0; i < n; i++) yes = yes || (frames[i].capture->recorded && !frames[i].capture->brief);
    return yes;
}

/* Closes the frames in reverse order. The exception of a failed call is saved before that and restored
 * after it, because any call of the Python API could lose it. */
static PyObject *leave_all(frame *frames, int n, PyObject *result) {
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    bool failed = !result;
    if (failed) PyErr_Fetch(&type, &value, &trace);
    PyObject *compiler = runs_python(frames, n) ? lmx_compiler_off() : NULL;
    /* Before Python 3.12 an error raised by C is no exception object yet. */
    if (failed && n > 0) PyErr_NormalizeException(&type, &value, &trace);
    while (n-- > 0) {
        frames[n].capture->raised = failed ? value ? value : type : NULL;
        if (!leave(&frames[n], result)) Py_CLEAR(result);
        frames[n].capture->raised = NULL;
        if (frames[n].hired) __atomic_store_n(&frames[n].capture->worker, 0, __ATOMIC_RELEASE);
        Py_DECREF(frames[n].capture);
    }
    lmx_compiler_on(compiler);
    if (failed) PyErr_Restore(type, value, trace);
    return result;
}

static bool enter_all(frame *frames, int n, int *entered, PyObject *self, const lmx_given *given, bool own) {
    bool ok = true;
    PyObject *compiler = runs_python(frames, n) ? lmx_compiler_off() : NULL;
    while (ok && *entered < n) {
        frames[*entered].own = own;
        ok = enter(&frames[(*entered)++], self, given);
    }
    lmx_compiler_on(compiler);
    return ok;
}

static PyObject *call_captured(lmx_slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *names) {
    frame frames[LMX_NESTED];
    const lmx_given given = {args, n, names};
    int n_frames = s->own || s == lmx_entry ? find_captures(self, frames) : 0, entered = 0;
    PyObject *original = s->original;
    Py_INCREF(original);
    bool ok = enter_all(frames, n_frames, &entered, self, &given, s->own);
    PyObject *result = ok ? call_original(s, self, args, n, names) : NULL;
    Py_DECREF(original);
    return n_frames ? leave_all(frames, n_frames, result) : result;
}

/* The root that is this module, unless it is being called. */
LMX_OFTEN static lmx_root *root_of(PyObject *module) {
    lmx_root *r = lmx_roots;
    while (r && (r->module != module || r->inside)) r = r->next;
    return r;
}

/* Makes a call, counted for each root whose call it is. */
LMX_OFTEN static PyObject *call_counted(lmx_slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                        PyObject *names) {
    lmx_root *r = lmx_roots ? root_of(lmx_compiler_inside(lmx_roots->st, self)) : NULL;
    if (!r && !lmx_first_open) return call_original(s, self, args, n, names);
    if (!r) return call_captured(s, self, args, n, names);
    bool seen, ok = lmx_count_begin(r, is_training(r->st, r->module), &seen);
    PyObject *result = ok ? call_counted(s, self, args, n, names) : NULL;
    return lmx_count_end(r, seen, result);
}

/* == roots that are not known yet ====================================================================== */

static PyObject *root_finder;     /* called for each module that is called outside any other; NULL: none */
static __thread bool within_root; /* such a call is running in this thread */

/* Begins such a call. Returns Py_None, a function to call instead, or NULL with an exception. */
static PyObject *begin_found(PyObject *self) {
    PyObject *finder = root_finder, *compiler = lmx_compiler_off(); /* the finder may unset itself */
    within_root = true;
    Py_INCREF(finder);
    PyObject *instead = PyObject_CallFunctionObjArgs(finder, self, NULL);
    Py_DECREF(finder);
    lmx_compiler_on(compiler);
    return instead;
}

static PyObject *call_outermost(lmx_slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                PyObject *names) {
    PyObject *instead = begin_found(self), *result = NULL;
    if (instead == Py_None)
        result = call_counted(s, self, args, n, names);
    else if (instead)
        result = lmx_vectorcall(instead, args, (size_t)n, names);
    within_root = false;
    Py_XDECREF(instead);
    return result;
}

/* True on the thread on which torch's compiler works: it may run layers on tensors without values. */
static bool is_compiling(void) { return all.compiler && all.compiler == PyThread_get_thread_ident(); }

LMX_OFTEN static PyObject *call_module(lmx_slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                       PyObject *names) {
    if (s != lmx_entry || is_compiling()) return call_captured(s, self, args, n, names);
    if (root_finder && !within_root) return call_outermost(s, self, args, n, names);
    return call_counted(s, self, args, n, names);
}

LMX_OFTEN static PyObject *call_detoured(const lmx_detour *d, PyObject *const *args, Py_ssize_t n,
                                         PyObject *names) {
    lmx_slot *s = lmx_entry;
    /* Other code may have kept the detour's code, and lead here after it was taken out. */
    if (n && s && s->original == d->copy) return call_module(s, args[0], args + 1, n - 1, names);
    return lmx_vectorcall(d->copy, args, (size_t)n, names);
}

/* The own __call__ of a root's class was called, maybe for another instance. */
static PyObject *call_own(const lmx_detour *d, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    lmx_slot own = {d->copy, d->function, true, true};
    PyObject *copy = d->copy;
    Py_INCREF(copy);
    PyObject *result = n && root_of(args[0]) && !is_compiling()
                           ? call_counted(&own, args[0], args + 1, n - 1, names)
                           : lmx_vectorcall(copy, args, (size_t)n, names);
    Py_DECREF(copy);
    return result;
}

/* Between recorded steps of one root, calls of all other modules need not come here. */
static void limit_calls(void) {
    const lmx_root *r = lmx_roots;
    const bool limited = !lmx_first_open && !root_finder && !(r && r->next);
    lmx_detour_limit_to(limited, r ? r->module : NULL);
}

bool lmx_roots_changed(void) {
    limit_calls();
    return lmx_own_calls(lmx_roots, call_own);
}

PyObject *lmx_find_roots(PyObject *module, PyObject *finder) {
    (void)module;
    PyObject *before = root_finder;
    root_finder = finder == Py_None ? NULL : finder;
    Py_XINCREF(root_finder);
    Py_XDECREF(before);
    limit_calls();
    Py_RETURN_NONE;
}

/* == installing ======================================================================================== */

/* Counts compiled code in the calls of a recorded step, once there may be such code. */
static void count_regions(lmx_capture *c) {
    const bool here = c->owner == PyThread_get_thread_ident();
    if (!c->roots_only || c->regions != LMX_REGIONS_NONE || !here || !lmx_compiler_used()) return;
    c->regions = lmx_regions_begin(c->st) ? LMX_REGIONS_COUNTED : LMX_REGIONS_UNKNOWN;
    c->regions_before = lmx_regions_here().begun;
    c->passes_before = lmx_regions_here().passes;
}

static void end_regions(lmx_capture *c) {
    const unsigned long here = PyThread_get_thread_ident();
    const lmx_capture *o = lmx_first_open; /* without this one */
    while (o && (o->owner != here || o->regions != LMX_REGIONS_COUNTED)) o = o->next;
    if (c->regions == LMX_REGIONS_COUNTED && c->owner == here && !o) lmx_regions_end();
}

static bool start_observing(lmx_capture *c) {
    if (c->mode) return lmx_dispatch(c);
    return (!c->wants_ops && !c->wants_nodes) || lmx_observe(c);
}

static const lmx_targets targets = {call_module, call_detoured};

/* True if our entry is in place. Other code may have replaced it while it rested. */
static bool is_installed(lmx_state *st) {
    return lmx_first_open ? lmx_entry != NULL : lmx_entry_is_whole(st);
}

static bool install(lmx_state *st) { return lmx_entry_install(st, &targets, all.resting > 0); }

bool lmx_capture_attach(lmx_capture *c) {
    c->owner = PyThread_get_thread_ident();
    c->open_call = -1;
    if (!lmx_may_open(c) || (!is_installed(c->st) && !install(c->st))) return false;
    lmx_add_open(c);
    limit_calls();
    c->phase = LMX_OPEN;
    lmx_clock_begin(&c->clock, !lmx_want_kernel_clock(c));
    count_regions(c);
    if (lmx_tell_opened(c) && start_observing(c)) return true;
    lmx_capture_detach(c);
    c->phase = LMX_NEW;
    return false;
}

static void close_capture(lmx_capture *c) {
    lmx_remove_open(c);
    limit_calls();
    c->phase = LMX_CLOSED;
    if (c->roots_only) end_regions(c);
    lmx_clock_end(&c->clock);
    if (c->mode)
        lmx_undispatch(c);
    else
        lmx_unobserve(c);
    lmx_tell_closed(c);
}

void lmx_capture_detach(lmx_capture *c) {
    if (c->phase != LMX_OPEN && !lmx_entry_unrestored()) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (c->phase == LMX_OPEN) close_capture(c);
    if (!lmx_first_open && lmx_entry) lmx_torch_forget_types(&c->st->torch);
    const bool idle = !lmx_first_open && !all.resting;
    if ((idle || !lmx_entry) && !lmx_entry_remove(c->st)) c->replaced = true;
    PyErr_Restore(type, value, trace);
}

/* Each change of torch.nn.Module empties CPython's caches of every class of modules, and from 3.12 on a
 * class that was changed a thousand times is never cached again. So captures that follow each other leave
 * the entry in place, which costs a call some nanoseconds. An open capture may have put in one that the
 * compiler can see. */
static bool begin_rest(lmx_state *st) {
    all.resting++;
    if (lmx_entry_shows()) lmx_entry_remove(st);
    if (all.compiler || lmx_entry || install(st)) return true;
    all.resting--;
    return false;
}

PyObject *lmx_rest(PyObject *module, PyObject *wanted) {
    lmx_state *st = lmx_state_of(module);
    const int more = PyObject_IsTrue(wanted);
    if (more < 0 || (more && (!lmx_torch_ready(st) || !begin_rest(st)))) return NULL;
    if (!more && all.resting > 0 && --all.resting == 0 && !lmx_first_open) lmx_entry_remove(st);
    Py_RETURN_NONE;
}

/* Captures of steps ignore what the compiler runs on this thread, and then count what it made. */
static void pause_captures(bool works) {
    for (lmx_capture *c = lmx_first_open; c; c = c->next) {
        if (!c->recorded || c->owner != all.compiler) continue;
        c->paused = works;
        if (!works) count_regions(c);
    }
}

PyObject *lmx_compiling(PyObject *module, PyObject *works) {
    lmx_state *st = lmx_state_of(module);
    const int now = PyObject_IsTrue(works);
    if (now < 0) return NULL;
    if (now) all.compiler = PyThread_get_thread_ident();
    pause_captures(now);
    if (!now) all.compiler = 0;
    if (now && all.resting && lmx_entry_shows()) {
        lmx_entry_remove(st);
        all.hidden = true;
    }
    if (!now && all.hidden) {
        all.hidden = false;
        if ((lmx_first_open || all.resting) && !lmx_entry && !install(st)) return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *lmx_in_place(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(lmx_entry != NULL);
}

bool lmx_note(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *result) {
    frame f = {.capture = c, .call = -1, .inner = -1, .parent = -1};
    const lmx_given given = {args, n, NULL};
    c->phase = LMX_OPEN;
    bool ok = enter(&f, c->root, &given) && leave(&f, result);
    c->phase = LMX_CLOSED;
    return ok;
}
