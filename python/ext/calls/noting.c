/* SPDX-License-Identifier: Apache-2.0
 * Notes calls of modules: the module, the tensors among its arguments and results, and the times. If memory
 * runs out, the capture loses records and the user's call goes on. */
#include "calls/noting.h"
#include "observe/observe.h"
#include "observe/regions.h"
#include "torch/tensor.h"

#include <string.h>

/* The stamp of this moment on the thread whose calls the capture takes. */
LMX_OFTEN static int64_t stamp(lmx_capture *c) {
    return lmx_clock_stamp(&c->clock, c->threads.worker ? c->threads.workers_lane->last : &c->clock.last);
}

LMX_OFTEN bool lmx_is_training(lmx_state *st, PyObject *module) {
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
    c->noted.busy = false;
    if (f->cut) c->noted.cut = true;
    if (f->nomem) c->noted.lost = true;
    if (ok || !PyErr_ExceptionMatches(PyExc_MemoryError)) return ok;
    PyErr_Clear();
    c->noted.lost = true;
    return true;
}

/* Credits compiled code that has run since the last change of calls to the call that is open. */
static void note_regions(lmx_capture *c) {
    if (c->compiled.regions != LMX_REGIONS_COUNTED || c->threads.worker ||
        c->threads.owner != PyThread_get_thread_ident())
        return;
    const uint64_t now = lmx_regions_here().begun;
    if (c->noted.open >= 0)
        lmx_call_at(c, c->noted.open)->regions += (int32_t)(now - c->compiled.regions_before);
    c->compiled.regions_before = now;
}

/* False only for an exception that must reach the user. */
static bool find_arguments(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *names,
                           int32_t *found) {
    lmx_finder f = {.st = c->st, .words = &c->noted.words, .budget = LMX_BUDGET, .name = -1, .names = c};
    if (c->noted.open < 0) f.entry = lmx_entry_name; /* the model's own inputs are reported by name */
    c->noted.busy = true;
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
    size_t used = c->noted.calls.n * sizeof *call + c->noted.words.n * sizeof(int64_t);
    bool full = used > c->noted.most;
    lmx_call *at = full ? NULL : lmx_vec_push(&c->noted.calls, sizeof *at, 1);
    if (!at) {
        c->noted.full = full;
        c->noted.lost = true;
        return -1;
    }
    *at = *call;
    c->noted.open = (int32_t)c->noted.calls.n - 1;
    return c->noted.open;
}

/* Reports to the observer of operators that another call is open now. True inside a backward pass. */
static bool change_open_call(lmx_capture *c) {
    return c->watched.mode ? lmx_dispatch_call(c) : lmx_observe_call(c);
}

/* True if this call was noted already, together with the call of the compiled wrapper around it. */
static bool is_inner_again(const lmx_capture *c, int32_t module) {
    const lmx_call *open = c->noted.open >= 0 ? (const lmx_call *)c->noted.calls.data + c->noted.open : NULL;
    if (open && open->module == module && c->noted.open == c->noted.alias &&
        (size_t)c->noted.open + 1 == c->noted.calls.n)
        return true;
    return open && open->module == module && open->parent >= 0 &&
           (size_t)c->noted.open + 1 == c->noted.calls.n &&
           lmx_node_at(&c->tree, ((const lmx_call *)c->noted.calls.data)[open->parent].module)->inner ==
               module;
}

/* Calls the capture's `given` once; ignores what it raises. */
static void report_root_arguments(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *function = c->ahead.given, *tuple = PyTuple_New(n), *dict = PyDict_New(), *done = NULL;
    Py_ssize_t n_names = names ? PyTuple_Size(names) : 0;
    bool ok = tuple && dict;
    c->ahead.given = NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        Py_INCREF(args[i]);
        ok = PyTuple_SetItem(tuple, i, args[i]) == 0;
    }
    for (Py_ssize_t i = 0; ok && i < n_names; i++)
        ok = PyDict_SetItem(dict, PyTuple_GetItem(names, i), args[n + i]) == 0;
    c->noted.busy = true;
    if (ok) done = PyObject_CallFunctionObjArgs(function, tuple, dict, NULL);
    c->noted.busy = false;
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(dict);
    Py_XDECREF(tuple);
    Py_DECREF(function);
}

/* Notes the entry. A compiled wrapper reaches the module inside it by a method that was bound before ours
 * was installed, so the inner call, which has the same arguments and result, is noted with it. False only
 * for an exception that must reach the user. */
static bool note_entry(lmx_entered *f, PyObject *self) {
    lmx_capture *c = f->capture;
    const lmx_given *g = f->given;
    f->parent = c->noted.open;
    f->call = f->inner = -1;
    if (c->noted.busy || c->noted.lost || c->phase != LMX_OPEN || is_inner_again(c, f->module)) return true;
    note_regions(c);
    lmx_call call = {.module = f->module, .parent = f->parent, .in_at = c->noted.words.n};
    if (c->threads.worker) call.thread = c->threads.workers_lane->number;
    PyObject *module = lmx_node_at(&c->tree, f->module)->object;
    call.flags = LAM_CALL_UNSEEN;
    if (!c->noted.brief && lmx_is_training(c->st, module)) call.flags |= LAM_CALL_TRAINING;
    if (!c->noted.brief && !find_arguments(c, g->args, g->n, g->names, &call.n_in)) {
        c->noted.words.n = call.in_at;
        return false;
    }
    if (c->phase != LMX_OPEN) return true; /* describing may run the user's code */
    f->call = push_call(c, &call);
    if (c->ahead.given && f->module == 0) report_root_arguments(c, g->args, g->n, g->names);
    if (c->phase != LMX_OPEN) return true;
    if (self != module || f->own) c->noted.alias = f->call;
    int32_t inner = lmx_node_at(&c->tree, f->module)->inner;
    if (f->call >= 0 && inner >= 0) {
        call.module = inner;
        call.parent = f->call;
        f->inner = push_call(c, &call);
    }
    if (change_open_call(c)) {
        if (f->call >= 0) lmx_call_at(c, f->call)->flags |= LAM_CALL_AGAIN;
        if (f->inner >= 0) lmx_call_at(c, f->inner)->flags |= LAM_CALL_AGAIN;
    }
    bool ok = !c->heard.listeners || f->call < 0 || lmx_tell_entered(c, f->call, f->given);
    if (c->phase != LMX_OPEN) return ok;
    int64_t now = stamp(c); /* last, to leave out lamina's own work */
    if (f->call >= 0) lmx_call_at(c, f->call)->began = now;
    if (f->inner >= 0) lmx_call_at(c, f->inner)->began = now;
    return ok;
}

bool lmx_note_entry(lmx_entered *f, PyObject *self, const lmx_given *given) {
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
    lmx_finder f = {
        .st = c->st, .words = &c->noted.words, .budget = LMX_BUDGET, .name = -1, .numbered = true};
    call->out_at = c->noted.words.n;
    c->noted.busy = true;
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
    lmx_call *call = lmx_call_at(c, i);
    call->flags = seen->flags | (call->flags & (LAM_CALL_ELSEWHERE | LAM_CALL_STRANGERS));
    call->n_out = seen->n_out;
    call->out_at = seen->out_at;
    call->ended = now;
}

static bool note_exit(const lmx_entered *f, PyObject *result, int64_t now) {
    lmx_capture *c = f->capture;
    note_regions(c);
    lmx_call seen = *lmx_call_at(c, f->call);
    bool ok = true;
    if (!result)
        seen.flags |= LAM_CALL_FAILED;
    else if (!c->noted.busy && !c->noted.brief)
        ok = find_outputs(c, &seen, result);
    close_call(c, f->call, &seen, now);
    close_call(c, f->inner, &seen, now);
    if (c->phase != LMX_OPEN) return ok; /* describing may run the user's code */
    c->noted.open = f->parent;
    change_open_call(c);
    return c->heard.listeners && ok ? lmx_tell_left(c, f->call, f->given, result) : ok;
}

bool lmx_note_exit(lmx_entered *f, PyObject *result) {
    lmx_capture *c = f->capture;
    int64_t now = stamp(c);
    if (c->phase != LMX_OPEN || f->call < 0) return true;
    lmx_capture_hold(c);
    bool ok = note_exit(f, result, now);
    lmx_capture_let_go(c);
    return ok;
}

bool lmx_note(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *result) {
    lmx_entered f = {.capture = c, .call = -1, .inner = -1, .parent = -1};
    const lmx_given given = {args, n, NULL};
    c->phase = LMX_OPEN;
    bool ok = lmx_note_entry(&f, c->root, &given) && lmx_note_exit(&f, result);
    c->phase = LMX_CLOSED;
    return ok;
}
