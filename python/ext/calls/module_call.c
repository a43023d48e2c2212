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
#include "calls/noting.h"
#include "calls/own_call.h"
#include "calls/root.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"

#include <stdlib.h>
#include <string.h>

/* == the method ======================================================================================== */

/* Notes that a module of the capture was called on another thread than the capture's. */
static void note_call_elsewhere(lmx_capture *c, int32_t module) {
    if (c->noted.open >= 0) lmx_call_at(c, c->noted.open)->flags |= LAM_CALL_ELSEWHERE;
    c->threads.strangers = c->threads.strangers || c->noted.open < 0;
    if (!c->threads.elsewhere) c->threads.elsewhere = calloc(c->tree.nodes.n, sizeof *c->threads.elsewhere);
    if (c->threads.elsewhere)
        c->threads.elsewhere[module] = true; /* if memory ran out, the call's flag and the note remain */
}

/* On a GPU the nodes of a backward pass run on a thread of autograd, and so do the calls that a checkpoint
 * repeats in them. The first such thread with a call becomes the worker until that call is over. Until then
 * all other threads' calls count as elsewhere; and so do its own while the owner repeats one. */
static bool hire(lmx_capture *c) {
    const bool repeats = c->noted.open >= 0 && lmx_call_at(c, c->noted.open)->flags & LAM_CALL_AGAIN;
    const lmx_lane *lane = repeats ? NULL : lmx_observe_worker(c);
    if (!lane) return false;
    c->threads.workers_lane = lane;
    c->threads.owners_call = c->noted.open;
    __atomic_store_n(&c->threads.worker, PyThread_get_thread_ident(), __ATOMIC_RELEASE);
    return true;
}

/* True if a call of that module may belong to the capture. A recorded step has the calls of its root, those
 * inside them, and those that its backward pass repeats. The program may call the modules in between too. */
static bool is_of_step(const lmx_capture *c, int32_t module) {
    if (!c->compiled.recorded) return true;
    return !c->watched.paused &&
           (module == 0 || !c->compiled.roots_only || c->noted.open >= 0 || lmx_here(c).call >= 0);
}

/* Lists the open captures that take the calls of this thread and contain the module; returns their number. */
static int find_captures(PyObject *self, lmx_entered *frames) {
    int n = 0;
    for (lmx_capture *c = lmx_first_open; c && n < LMX_NESTED; c = c->next) {
        int32_t module = lmx_map_get(&c->tree.index, self);
        if (module < 0) module = lmx_map_get(&c->tree.index, lmx_compiler_inside(c->st, self));
        if (module >= 0 && !is_of_step(c, module)) continue;
        const bool takes = lmx_takes_calls(c), hired = module >= 0 && !takes && !c->threads.worker && hire(c);
        if (module < 0 && takes && c->noted.open >= 0 && !c->noted.busy)
            lmx_call_at(c, c->noted.open)->flags |= LAM_CALL_STRANGERS;
        if (module < 0) continue;
        if (!takes && !hired) {
            note_call_elsewhere(c, module);
            continue;
        }
        Py_INCREF((PyObject *)c);
        frames[n++] = (lmx_entered){c, module, -1, -1, -1, hired, false, NULL};
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
static bool runs_python(const lmx_entered *frames, int n) {
    bool yes = false;
    for (int i = 0; i < n; i++)
        yes = yes || (frames[i].capture->compiled.recorded && !frames[i].capture->noted.brief);
    return yes;
}

/* Closes the frames in reverse order. The exception of a failed call is saved before that and restored
 * after it, because any call of the Python API could lose it. */
static PyObject *leave_all(lmx_entered *frames, int n, PyObject *result) {
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    bool failed = !result;
    if (failed) PyErr_Fetch(&type, &value, &trace);
    PyObject *compiler = runs_python(frames, n) ? lmx_compiler_off() : NULL;
    /* Before Python 3.12 an error raised by C is no exception object yet. */
    if (failed && n > 0) PyErr_NormalizeException(&type, &value, &trace);
    while (n-- > 0) {
        frames[n].capture->raised = failed ? value ? value : type : NULL;
        if (!lmx_note_exit(&frames[n], result)) Py_CLEAR(result);
        frames[n].capture->raised = NULL;
        if (frames[n].hired) __atomic_store_n(&frames[n].capture->threads.worker, 0, __ATOMIC_RELEASE);
        Py_DECREF(frames[n].capture);
    }
    lmx_compiler_on(compiler);
    if (failed) PyErr_Restore(type, value, trace);
    return result;
}

static bool enter_all(lmx_entered *frames, int n, int *entered, PyObject *self, const lmx_given *given,
                      bool own) {
    bool ok = true;
    PyObject *compiler = runs_python(frames, n) ? lmx_compiler_off() : NULL;
    while (ok && *entered < n) {
        frames[*entered].own = own;
        ok = lmx_note_entry(&frames[(*entered)++], self, given);
    }
    lmx_compiler_on(compiler);
    return ok;
}

static PyObject *call_captured(lmx_slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *names) {
    lmx_entered frames[LMX_NESTED];
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
    bool seen, ok = r->counting->begin(r, lmx_is_training(r->st, r->module), &seen);
    PyObject *result = ok ? call_counted(s, self, args, n, names) : NULL;
    return r->counting->end(r, seen, result);
}

/* == roots that are not known yet ====================================================================== */

static __thread bool within_root; /* such a call is running in this thread */

/* Begins such a call. Returns Py_None, a function to call instead, or NULL with an exception. */
static PyObject *begin_found(PyObject *self) {
    PyObject *finder = lmx_root_finder, *compiler = lmx_compiler_off(); /* the finder may unset itself */
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

/* True on the thread on which torch's compiler works, which may run layers on tensors without values, and on
 * one on which inspect runs a model: such calls are no steps. */
LMX_OFTEN static bool is_aside(void) {
    return (lmx_all_aside && lmx_runs_aside) ||
           (lmx_compiler_thread && lmx_compiler_thread == PyThread_get_thread_ident());
}

LMX_OFTEN static PyObject *call_module(lmx_slot *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                       PyObject *names) {
    if (s != lmx_entry || is_aside()) return call_captured(s, self, args, n, names);
    if (lmx_root_finder && !within_root) return call_outermost(s, self, args, n, names);
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
    PyObject *result = n && root_of(args[0]) && !is_aside()
                           ? call_counted(&own, args[0], args + 1, n - 1, names)
                           : lmx_vectorcall(copy, args, (size_t)n, names);
    Py_DECREF(copy);
    return result;
}

bool lmx_roots_changed(void) {
    lmx_limit_calls();
    return lmx_own_calls(lmx_roots, call_own);
}

const lmx_targets lmx_call_targets = {call_module, call_detoured};
