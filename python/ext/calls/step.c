/* SPDX-License-Identifier: Apache-2.0
 * The recorded steps of a root, see root.h, from a step's first call to the recorder; and the counting of
 * calls in C, which takes one addition for most calls. */
#include "calls/calls.h"
#include "calls/compiler.h"
#include "calls/root.h"
#include "measure/device.h"
#include "observe/observe.h"
#include "observe/regions.h"
#include "observe/spans.h"
#include "process/clock.h"

#include <time.h>
#include <unistd.h>

/* The most steps that are open at a time: a thread may have eight captures, including the user's own. The
 * number of calls of modules from which on a step gets no further call of the root. */
enum { MOST_OPEN = 4, MOST_MODULE_CALLS = 1 << 16 };
/* The most steps of a root that are counted: some have other modules again and again, or other calls. */
enum { MOST_COUNTED = 16 };

lmx_root *lmx_roots;
static lmx_root *first_open;
static int n_open;
static lmx_root *counts; /* the root of the step that is counted, by a separate capture; NULL: none */

/* == open steps ======================================================================================== */

static void add_step(lmx_root *r, lmx_capture *c, PyObject *close) {
    lmx_root **at = &first_open;
    while (*at) at = &(*at)->next_open;
    *at = r;
    n_open += 1;
    r->capture = c;
    r->close = close;
}

/* Takes the step from the root. The caller then owns the capture and the function that closes it. */
static lmx_capture *take_step(lmx_root *r, PyObject **close) {
    lmx_capture *c = r->capture;
    *close = r->close;
    lmx_root **at = &first_open;
    while (*at && *at != r) at = &(*at)->next_open;
    if (*at) *at = r->next_open;
    n_open -= 1;
    r->next_open = NULL;
    r->capture = NULL;
    r->close = NULL;
    return c;
}

/* True if a step of this thread is open. */
static bool is_open_here(void) {
    const lmx_root *r = first_open;
    while (r && r->thread != PyThread_get_thread_ident()) r = r->next_open;
    return r != NULL;
}

/* Closes the capture. Returns its Model, a new reference; None if the records are read from the capture
 * itself; NULL with an exception. */
static PyObject *close_capture(lmx_capture *c, PyObject *close) {
    if (close) return PyObject_CallNoArgs(close);
    lmx_capture_detach(c);
    Py_RETURN_NONE;
}

static bool hand_over(lmx_root *r, lmx_capture *c, bool known, PyObject *seen) {
    if (c->noted.brief) return lmx_hand_over(&r->handover, r->recorder, c, known, &r->about);
    return seen == Py_None || lmx_hand_over_model(r->st, r->recorder, seen, &r->about);
}

/* Reports an Exception, which ends the recording and not the program. False for any other. */
static bool fail(lmx_root *r) {
    PyObject *type, *value, *trace;
    if (!PyErr_Occurred()) return true;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *answer = PyObject_CallMethod((PyObject *)r, "on_failure", "O", value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    Py_XDECREF(answer);
    return answer != NULL;
}

/* == the end of a step ================================================================================= */

/* True if a backward pass was seen in the step, or can't be seen. */
static bool went_back(const lmx_root *r) {
    const lmx_capture *c = r->capture;
    const bool compiled = c->compiled.regions == LMX_REGIONS_COUNTED &&
                          c->threads.owner == PyThread_get_thread_ident() &&
                          lmx_regions_here().passes != c->compiled.passes_before;
    return !r->sees_nodes || compiled || lmx_observer_n(c->watched.observer) > 0;
}

/* Whether compiled code ran in the calls of a capture; -1: unknown. */
static int32_t ran_compiled(const lmx_capture *c) {
    const lmx_call *calls = c->noted.calls.data;
    for (size_t i = 0; i < c->noted.calls.n; i++)
        if (calls[i].regions > 0) return 1;
    const bool known =
        c->compiled.regions == LMX_REGIONS_COUNTED || (!c->compiled.regions && !lmx_compiler_compiled());
    return known ? 0 : -1;
}

/* How long this thread has been ready without a processor, but for its waits for other processes; -1:
 * unknown. */
static int64_t starved_ns(void) {
    const int64_t all = lmx_processor_wait_ns();
    return all < 0 ? -1 : all - lmx_spans_starved_ns();
}

/* The thread on which the step began begins the next one. */
static void note_end(lmx_root *r) {
    const int64_t starved = starved_ns();
    r->about.t1_ns = lmx_now_ns();
    if (starved >= r->starved_ns && r->starved_ns >= 0) r->about.processor_wait_ns = starved - r->starved_ns;
}

/* Notes what else the step's thread did, and how long the step took, if its end was noted. */
static void take_spans(lmx_root *r, const lmx_capture *c) {
    lam_step_info *about = &r->about;
    if (!about->t1_ns) return;
    about->collectives = lmx_spans_collectives(about->t0_ns, about->t1_ns, &about->collectives_hash);
    if (!lmx_spans_between(about->t0_ns, about->t1_ns, &r->spans)) about->t1_ns = 0;
    about->spans = r->spans.data;
    about->n_spans = (int32_t)r->spans.n;
    about->spans_seen = lmx_spans_seen();
    about->pass_unseen =
        c->compiled.regions == LMX_REGIONS_COUNTED && lmx_regions_here().passes != c->compiled.passes_before;
}

static void copy_text(char *to, size_t size, const char *text) {
    const size_t n = text ? strlen(text) : 0, most = n < size ? n : size - 1;
    size_t end = most;
    while (n >= size && end && ((unsigned char)text[end] & 0xc0) == 0x80) end--; /* not within a character */
    memcpy(to, text ? text : "", end);
    to[end] = '\0';
}

/* Ends the counting of a step, and asks Python what it computed, if it is recorded and did all its work. */
static bool end_counting(lmx_root *r, bool whole) {
    lam_step_work *w = &r->work;
    const char *why, *why_peak, *device, *dtype, *peak_of;
    long long flops, hardware;
    int at_least;
    if (counts != r) return true;
    counts = NULL;
    PyObject *result = PyObject_CallMethod((PyObject *)r, "counted", "O", whole ? Py_True : Py_False);
    const bool ok =
        result && (!whole || PyArg_ParseTuple(result, "LLpdzzzzz:counted", &flops, &hardware, &at_least,
                                              &w->peak, &why, &why_peak, &device, &dtype, &peak_of));
    if (ok && whole) {
        w->flops = flops;
        w->hardware_flops = hardware;
        w->at_least = at_least != 0;
        copy_text(w->why, sizeof w->why, why);
        copy_text(w->why_peak, sizeof w->why_peak, why_peak);
        copy_text(w->device, sizeof w->device, device);
        copy_text(w->dtype, sizeof w->dtype, dtype);
        copy_text(w->peak_of, sizeof w->peak_of, peak_of);
        r->about.work = w;
    }
    Py_XDECREF(result);
    return ok;
}

/* Notes a recorded step, and whether enough of its like were counted. After a step with other modules than
 * the one before, it alone was. */
static void note_counted(lmx_root *r, int64_t calls, bool back, bool known) {
    lmx_counted *c =
        &r->counted[(r->about.training ? LMX_TRAINING : 0) | (r->about.gradients ? LMX_GRAD : 0)];
    int32_t i = 0;
    if (!known) memset(r->counted, 0, sizeof r->counted);
    while (i < c->n && (c->of[i].calls != calls || c->of[i].went_back != back)) i++;
    c->enough = i == LMX_UNLIKE;
    if (i == LMX_UNLIKE) return;
    c->of[i].calls = calls;
    c->of[i].went_back = back;
    if (i == c->n) c->of[c->n++].times = 0;
    if (counts == r) c->of[i].times++;
    c->enough = c->of[i].times >= LMX_ALIKE;
}

static bool close_step(lmx_root *r, bool record) {
    const int64_t calls = r->schedule->step_calls;
    const bool back = record && went_back(r), whole = record && !r->raised;
    PyObject *close;
    lmx_capture *c = take_step(r, &close);
    if (record) take_spans(r, c);
    if (!is_open_here()) lmx_spans_end();
    Py_INCREF((PyObject *)r);
    const bool known = record && lmx_number_tree(&r->handover, c, &r->about);
    r->about.compiled = ran_compiled(c);
    if (whole) note_counted(r, calls, back, known);
    bool ok = end_counting(r, whole) || fail(r);
    PyObject *seen = ok ? close_capture(c, close) : NULL;
    ok = ok && ((seen && (!record || hand_over(r, c, known, seen))) || fail(r));
    Py_XDECREF(seen);
    Py_XDECREF(close);
    lmx_capture_detach(c);    /* closed already, unless something failed */
    Py_DECREF((PyObject *)c); /* this may delete the model, and with it all roots that count its calls */
    Py_DECREF((PyObject *)r);
    return ok;
}

bool lmx_end_step(lmx_root *r) {
    return !r->capture || close_step(r, lmx_schedule_end_step(r->schedule, went_back(r)));
}

/* Leaves the capture alone in a forked child, where the threads that closing may wait for are gone. */
static bool leave_alone(lmx_root *r) {
    PyObject *close;
    const bool forked = r->process != getpid();
    if (forked) take_step(r, &close);
    if (forked && counts == r) counts = NULL;
    return forked;
}

bool lmx_give_up_step(lmx_root *r) {
    if (!r->capture) return true;
    lmx_schedule_discard_step(r->schedule);
    return leave_alone(r) || close_step(r, false);
}

void lmx_drop_step(lmx_root *r) {
    PyObject *close;
    if (!r->capture || leave_alone(r)) return;
    lmx_capture *c = take_step(r, &close);
    if (counts == r) counts = NULL;
    lmx_capture_detach(c);
    if (!is_open_here()) lmx_spans_end();
    Py_XDECREF(close);
    Py_DECREF((PyObject *)c);
}

/* == the begin of a step =============================================================================== */

/* Ends the open step of a model that may not be called again, to make room for another. If its backward
 * pass may still follow, the step is given up as incomplete, unless it is the first: there may be no
 * other. */
static bool give_way(lmx_root *r) {
    if (went_back(r) || !(r->schedule->kind & LMX_GRAD) || !r->schedule->number) return lmx_end_step(r);
    return lmx_give_up_step(r);
}

/* Ends the steps of this thread that only wait for the next call of their root, when another root begins its
 * first: the program may be done with their models, which an open step keeps. */
static bool end_waiting(void) {
    const unsigned long here = PyThread_get_thread_ident();
    lmx_root *r = first_open;
    while (r && (r->thread != here || r->inside || !went_back(r))) r = r->next_open;
    return !r || (lmx_end_step(r) && end_waiting());
}

static int64_t unix_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Asks torch's compiler again to report when it works: torch._dynamo.reset() makes it forget that. */
static bool ask_compiler(lmx_root *r) {
    if (lmx_compiler_reports()) return true;
    PyObject *done = PyObject_CallMethod((PyObject *)r, "look", NULL);
    Py_XDECREF(done);
    return done != NULL;
}

static lmx_capture *open_brief(lmx_root *r) {
    lmx_capture *c = lmx_capture_brief(r->st, r->module, r->sees_nodes);
    if (!c || (lmx_device_listen(c, true, false) && lmx_capture_open(c))) return c;
    Py_DECREF((PyObject *)c);
    return NULL;
}

static lmx_capture *open_in_python(lmx_root *r, PyObject **close) {
    PyObject *c = NULL, *opened = PyObject_CallMethod((PyObject *)r, "open_step", "O", r->module);
    if (!opened || !PyArg_ParseTuple(opened, "O!O:open_step", r->st->capture_type, &c, close)) {
        Py_XDECREF(opened);
        return NULL;
    }
    Py_INCREF(c);
    Py_INCREF(*close);
    Py_DECREF(opened);
    return (lmx_capture *)c;
}

/* Begins to count the operators of the step that was opened, unless enough of its like were counted, or one
 * of another root is being counted. */
static bool begin_counting(lmx_root *r, int kind) {
    if (r->schedule->seeks_start || r->counted[kind].enough || r->n_counted >= MOST_COUNTED || counts)
        return true;
    PyObject *done = PyObject_CallMethod((PyObject *)r, "count_step", "O", r->module);
    if (!done) return false;
    Py_DECREF(done);
    counts = r;
    r->n_counted++;
    return true;
}

static bool open_step(lmx_root *r, int kind) {
    PyObject *close = NULL;
    if (!r->schedule->number && !end_waiting()) return false;
    while (n_open >= MOST_OPEN)
        if (!give_way(first_open)) return false;
    r->about = (lam_step_info){.name = lmx_utf8(r->name),
                               .root = r->number,
                               .training = (kind & LMX_TRAINING) != 0,
                               .gradients = (kind & LMX_GRAD) != 0,
                               .number = r->schedule->number,
                               .unix_ns = unix_now(),
                               .processor_wait_ns = -1,
                               .collectives = -1};
    r->thread = PyThread_get_thread_ident();
    if (!ask_compiler(r)) return false;
    lmx_spans_begin(r->st);
    /* A step of which only the end is wanted, to find the start of the next one, is not recorded. */
    lmx_capture *c = r->times_only || r->schedule->seeks_start ? open_brief(r) : open_in_python(r, &close);
    if (c) add_step(r, c, close);
    r->raised = false;
    const bool ok = c && begin_counting(r, kind);
    if (c && !ok) lmx_drop_step(r);
    r->about.t0_ns = lmx_now_ns(); /* opening it is no work of the step */
    r->starved_ns = starved_ns();
    return ok;
}

/* True inside a backward pass: calls there recompute a forward and begin no step; they may raise on purpose
 * to end early. Negative with an exception. */
static int goes_back(const lmx_root *r) {
    const lmx_record_api *api = lmx_record_api_of(r->st);
    if (api && api->task) return api->task() >= 0;
    PyObject *c = PyImport_ImportModule("torch._C");
    PyObject *task = c ? PyObject_CallMethod(c, "_current_graph_task_id", NULL) : NULL;
    long id = task ? PyLong_AsLong(task) : -1;
    Py_XDECREF(task);
    Py_XDECREF(c);
    return PyErr_Occurred() ? -1 : id >= 0;
}

/* True if so many calls of modules were noted that the step gets no further call of the root. */
static bool is_full(const lmx_root *r) { return r->capture->noted.calls.n >= MOST_MODULE_CALLS; }

static bool on_begin(lmx_root *r, int kind) {
    const int back = goes_back(r);
    if (back) return back > 0;
    if (r->capture) {
        const bool ended = went_back(r) || is_full(r) || r->thread != PyThread_get_thread_ident();
        if (lmx_schedule_extend_step(r->schedule, kind, ended)) return true;
        if (r->thread == PyThread_get_thread_ident()) note_end(r);
        if (!lmx_end_step(r)) return false;
    }
    /* Ending a step may have ended the watching of this root. */
    if (r->retired || !r->module || !lmx_schedule_begin_step(r->schedule, kind)) return true;
    if (open_step(r, kind)) return true;
    lmx_schedule_discard_step(r->schedule);
    if (!is_open_here()) lmx_spans_end();
    return fail(r);
}

/* A step without gradients has ended: no backward will follow. */
static bool on_end(lmx_root *r) {
    return !r->capture || (r->schedule->kind & LMX_GRAD) != 0 || lmx_end_step(r);
}

static bool on_raise(lmx_root *r) {
    const int back = r->capture ? goes_back(r) : 1;
    if (back) return back > 0;
    r->raised = true;
    return lmx_end_step(r);
}

/* == counting ========================================================================================== */

LMX_OFTEN static int grad_enabled(lmx_state *st) {
    const lmx_record_api *api = lmx_record_api_of(st);
    if (api && api->grad_enabled) return api->grad_enabled();
    PyObject *torch = PyImport_ImportModule("torch");
    PyObject *enabled = torch ? PyObject_CallMethod(torch, "is_grad_enabled", NULL) : NULL;
    int is = enabled ? PyObject_IsTrue(enabled) : -1;
    Py_XDECREF(enabled);
    Py_XDECREF(torch);
    return is;
}

/* The recorder's thread reads these; this one has the GIL, so no other writes them, except a 0. */
LMX_OFTEN static void count_call(lam_pace *p) {
    const int64_t now = lmx_now_ns(), since = now - p->last_ns;
    if (p->last_ns && since > __atomic_load_n(&p->slowest_ns, __ATOMIC_RELAXED))
        __atomic_store_n(&p->slowest_ns, since, __ATOMIC_RELAXED);
    p->last_ns = now;
    __atomic_store_n(&p->calls, p->calls + 1, __ATOMIC_RELAXED);
}

LMX_OFTEN static bool count_begin(lmx_root *r, bool training, bool *seen) {
    const int grad = grad_enabled(r->st), kind = (training ? LMX_TRAINING : 0) | (grad > 0 ? LMX_GRAD : 0);
    Py_INCREF((PyObject *)r);
    r->inside = true;
    *seen = false;
    count_call(r->pace);
    if (grad < 0) return false;
    if (lmx_schedule_skip_call(r->schedule, kind)) return true;
    *seen = true;
    PyObject *compiler = lmx_compiler_off();
    const bool ok = on_begin(r, kind);
    lmx_compiler_on(compiler);
    return ok;
}

static PyObject *report_end(lmx_root *r, PyObject *result) {
    PyObject *type = NULL, *value = NULL, *trace = NULL, *compiler;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    compiler = lmx_compiler_off();
    if (result && !on_end(r)) Py_CLEAR(result);
    if (type) on_raise(r);
    lmx_compiler_on(compiler);
    if (type) PyErr_Restore(type, value, trace);
    return result;
}

LMX_OFTEN static PyObject *count_end(lmx_root *r, bool seen, PyObject *result) {
    if (seen) result = report_end(r, result);
    r->inside = false;
    Py_DECREF((PyObject *)r);
    return result;
}

const lmx_counting lmx_counts_steps = {count_begin, count_end};
