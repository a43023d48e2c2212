/* SPDX-License-Identifier: Apache-2.0
 * Opens and closes captures, and puts lamina's entry into torch.nn.Module and takes it out. It may rest there
 * while no capture is open (lmx_rest); while torch's compiler works it is hidden. Guarded by the GIL. */
#include "calls/calls.h"
#include "calls/compiler.h"
#include "calls/entry.h"
#include "observe/listeners.h"
#include "observe/observe.h"
#include "observe/regions.h"
#include "torch/tensor.h"

static int resting; /* above 0: the entry stays in place between captures (lmx_rest) */
static bool hidden; /* the entry is taken out while the compiler works */
unsigned long lmx_compiler_thread;
int lmx_all_aside;
__thread int lmx_runs_aside;

/* Counts compiled code in the calls of a recorded step, once there may be such code. */
static void count_regions(lmx_capture *c) {
    const bool here = c->threads.owner == PyThread_get_thread_ident();
    if (!c->compiled.roots_only || c->compiled.regions != LMX_REGIONS_NONE || !here || !lmx_compiler_used())
        return;
    c->compiled.regions = lmx_regions_begin(c->st) ? LMX_REGIONS_COUNTED : LMX_REGIONS_UNKNOWN;
    c->compiled.regions_before = lmx_regions_here().begun;
    c->compiled.passes_before = lmx_regions_here().passes;
}

static void end_regions(lmx_capture *c) {
    const unsigned long here = PyThread_get_thread_ident();
    const lmx_capture *o = lmx_first_open; /* without this one */
    while (o && (o->threads.owner != here || o->compiled.regions != LMX_REGIONS_COUNTED)) o = o->next;
    if (c->compiled.regions == LMX_REGIONS_COUNTED && c->threads.owner == here && !o) lmx_regions_end();
}

static bool start_observing(lmx_capture *c) {
    if (c->watched.mode) return lmx_dispatch(c);
    return (!c->watched.ops && !c->watched.nodes) || lmx_observe(c);
}

/* True if our entry is in place. Other code may have replaced it while it rested. */
static bool is_installed(lmx_state *st) {
    return lmx_first_open ? lmx_entry != NULL : lmx_entry_is_whole(st);
}

static bool install(lmx_state *st) { return lmx_entry_install(st, &lmx_call_targets, resting > 0); }

bool lmx_capture_attach(lmx_capture *c) {
    c->threads.owner = PyThread_get_thread_ident();
    c->noted.open = -1;
    if (!lmx_may_open(c) || (!is_installed(c->st) && !install(c->st))) return false;
    lmx_add_open(c);
    lmx_limit_calls();
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
    lmx_limit_calls();
    c->phase = LMX_CLOSED;
    if (c->compiled.roots_only) end_regions(c);
    lmx_clock_end(&c->clock);
    if (c->watched.mode)
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
    const bool idle = !lmx_first_open && !resting;
    if ((idle || !lmx_entry) && !lmx_entry_remove(c->st)) c->replaced = true;
    PyErr_Restore(type, value, trace);
}

/* Each change of torch.nn.Module empties CPython's caches of every class of modules, and from 3.12 on a
 * class that was changed a thousand times is never cached again. So captures that follow each other leave
 * the entry in place, which costs a call some nanoseconds. An open capture may have put in one that the
 * compiler can see. */
static bool begin_rest(lmx_state *st) {
    resting++;
    if (lmx_entry_shows()) lmx_entry_remove(st);
    if (lmx_compiler_thread || lmx_entry || install(st)) return true;
    resting--;
    return false;
}

PyObject *lmx_rest(PyObject *module, PyObject *wanted) {
    lmx_state *st = lmx_state_of(module);
    const int more = PyObject_IsTrue(wanted);
    if (more < 0 || (more && (!lmx_torch_ready(st) || !begin_rest(st)))) return NULL;
    if (!more && resting > 0 && --resting == 0 && !lmx_first_open) lmx_entry_remove(st);
    Py_RETURN_NONE;
}

/* Captures of steps ignore what the compiler runs on this thread, and then count what it made. They ignore
 * the runs of inspect too. */
static void pause_captures(bool works, bool compiles) {
    for (lmx_capture *c = lmx_first_open; c; c = c->next) {
        if (!c->compiled.recorded || c->threads.owner != PyThread_get_thread_ident()) continue;
        c->watched.paused = works || lmx_runs_aside;
        if (!works && compiles) count_regions(c);
    }
}

PyObject *lmx_aside(PyObject *module, PyObject *works) {
    (void)module;
    const int now = PyObject_IsTrue(works);
    if (now < 0) return NULL;
    lmx_all_aside += now ? 1 : -1;
    lmx_runs_aside += now ? 1 : -1;
    if (lmx_runs_aside == now) pause_captures(now, false);
    Py_RETURN_NONE;
}

PyObject *lmx_compiling(PyObject *module, PyObject *works) {
    lmx_state *st = lmx_state_of(module);
    const int now = PyObject_IsTrue(works);
    if (now < 0) return NULL;
    if (now) lmx_compiler_thread = PyThread_get_thread_ident();
    pause_captures(now, true);
    if (!now) lmx_compiler_thread = 0;
    if (now && resting && lmx_entry_shows()) {
        lmx_entry_remove(st);
        hidden = true;
    }
    if (!now && hidden) {
        hidden = false;
        if ((lmx_first_open || resting) && !lmx_entry && !install(st)) return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *lmx_in_place(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(lmx_entry != NULL);
}
