/* SPDX-License-Identifier: Apache-2.0
 * The type Schedule, see schedule.h.
 *
 * If each N-th call began a step, a loop that alternates between several activities could show a single one:
 * its period may have a factor in common with N. So one call is chosen in each window of N calls, and its
 * place in the window moves on by the golden ratio, which reaches all places of any period equally often.
 * Each root has different places, because only a few roots can have an open step at the same time.
 *
 * A step of several calls takes up as many windows, so that no more than one call in N is watched. The first
 * step of a kind is watched from its first call on, and takes up one window however many calls it has.
 *
 * LAM_THINNING has windows that widen. They begin at multiples of their width, and the place in one is found
 * from its number: so the next step follows from the number of the last one alone, and processes of one run
 * record the same steps, even if one of them missed some. */
#include "calls/schedule.h"
#include "base/tables.h"

/* After so many steps in a row with one call each, a step with several calls counts as an exception. */
enum { SINGLES = 8 };

static void choose_next(lmx_schedule *t, lmx_kind_schedule *k) {
    const double golden = 0.6180339887498949;
    const int64_t charged = k->n ? t->step_calls + k->seek_calls : 1;
    k->every = lam_recorded_every(t->every, k->calls / t->step_calls);
    const int64_t window = k->every * charged;
    int64_t nth = ++k->n;
    if (t->every == LAM_THINNING) {
        nth = t->number / window + 1;
        k->window = nth * window;
    } else {
        if (t->number >= k->window + window) k->window = t->number; /* skips windows that have passed */
        k->window += window;
    }
    double place = (double)nth * golden + t->shift;
    place -= (double)(int64_t)place;
    k->next = k->every > 1 ? k->window + (int64_t)(place * (double)window) : 0;
}

/* Expects later steps to be like this one. */
static void expect_alike(const lmx_schedule *t, lmx_kind_schedule *k, bool went_back) {
    const bool was_single = k->single_calls;
    k->single_calls = !went_back && (k->single_calls || t->step_calls > 1);
    if (t->step_calls > 1 || (was_single && went_back))
        k->several = SINGLES;
    else if (k->several && k->seek_calls < 2)
        k->several--;
}

bool lmx_schedule_extend_step(lmx_schedule *t, int kind, bool went_back) {
    const bool grad = kind & LMX_GRAD;
    if (went_back || !(t->kind & LMX_GRAD) || t->of[t->kind].single_calls || t->step_calls >= LMX_MOST_CALLS)
        return false;
    if (grad && kind != t->kind)
        return false; /* another mode begins another step; a call without gradients may serve the loss */
    t->of[kind].calls++;
    t->step_calls++;
    return true;
}

bool lmx_schedule_end_step(lmx_schedule *t, bool went_back) {
    if (t->kind < 0) return false;
    lmx_kind_schedule *k = &t->of[t->kind];
    const bool seen = !t->seeks_start;
    if (seen) {
        expect_alike(t, k, went_back);
        choose_next(t, k);
        k->seek_calls = 0;
    } else {
        k->seek_calls += t->step_calls;
        k->at_start = true;
        k->single_calls = !went_back;
    }
    t->after_backward = went_back;
    t->seeks_start = false;
    t->kind = -1;
    return seen;
}

bool lmx_schedule_begin_step(lmx_schedule *t, int kind) {
    if (lmx_schedule_skip_call(t, kind)) return false;
    lmx_kind_schedule *k = &t->of[kind];
    const bool at_start = k->at_start || t->after_backward || !k->several || k->single_calls;
    t->kind = kind;
    t->number = k->calls++;
    t->step_calls = 1;
    t->seeks_start = (kind & LMX_GRAD) && !at_start && k->every > 1;
    k->at_start = false;
    if (kind & LMX_GRAD) t->after_backward = false;
    return true;
}

void lmx_schedule_discard_step(lmx_schedule *t) {
    if (t->kind < 0) return;
    t->of[t->kind].next = 0;
    t->seeks_start = false;
    t->kind = -1;
}

/* == the type ========================================================================================== */

static lmx_schedule *self_of(PyObject *self) { return (lmx_schedule *)self; }

lmx_schedule *lmx_schedule_of(lmx_state *st, PyObject *o) {
    if (Py_TYPE(o) == st->schedule_type) return self_of(o);
    PyErr_SetString(PyExc_TypeError, "expected a lamina Schedule");
    return NULL;
}

static PyObject *schedule_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"every", "root", NULL};
    const double apart = 0.7548776662466927; /* places of two roots coincide as rarely as possible */
    long long every;
    int root = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L|i:Schedule", names, &every, &root)) return NULL;
    if (every < LAM_THINNING || every > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "every is not a number of calls");
        return NULL;
    }
    lmx_schedule *t = (lmx_schedule *)PyType_GenericAlloc(type, 0);
    if (!t) return NULL;
    t->every = (int32_t)every;
    for (int i = 0; i < LMX_KINDS; i++) t->of[i].every = lam_recorded_every(t->every, 0);
    t->shift = root * apart;
    t->kind = -1;
    t->of[LMX_GRAD].single_calls = true; /* in eval mode, until a backward is seen to follow */
    return (PyObject *)t;
}

bool lmx_is_kind(int kind) {
    if (kind >= 0 && kind < LMX_KINDS) return true;
    PyErr_SetString(PyExc_ValueError, "there are kinds 0 to 3");
    return false;
}

static PyObject *schedule_skip_call(PyObject *self, PyObject *kind) {
    long n = PyLong_AsLong(kind);
    if ((n == -1 && PyErr_Occurred()) || !lmx_is_kind((int)n)) return NULL;
    return PyBool_FromLong(lmx_schedule_skip_call(self_of(self), (int)n));
}

static PyObject *schedule_extend_step(PyObject *self, PyObject *args) {
    int kind, went_back;
    if (!PyArg_ParseTuple(args, "ip:extend_step", &kind, &went_back) || !lmx_is_kind(kind)) return NULL;
    return PyBool_FromLong(self_of(self)->kind >= 0 &&
                           lmx_schedule_extend_step(self_of(self), kind, went_back != 0));
}

static PyObject *schedule_end_step(PyObject *self, PyObject *args) {
    int went_back;
    if (!PyArg_ParseTuple(args, "p:end_step", &went_back)) return NULL;
    return PyBool_FromLong(lmx_schedule_end_step(self_of(self), went_back != 0));
}

static PyObject *schedule_begin_step(PyObject *self, PyObject *args) {
    int kind;
    if (!PyArg_ParseTuple(args, "i:begin_step", &kind) || !lmx_is_kind(kind)) return NULL;
    return PyBool_FromLong(self_of(self)->kind < 0 && lmx_schedule_begin_step(self_of(self), kind));
}

static PyObject *schedule_discard_step(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_schedule_discard_step(self_of(self));
    Py_RETURN_NONE;
}

static PyObject *schedule_kind(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(self_of(self)->kind);
}

static PyObject *schedule_number(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(self_of(self)->number);
}

static PyObject *schedule_seeks_start(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(self_of(self)->seeks_start);
}

static PyObject *schedule_calls(PyObject *self, void *unused) {
    long long sum = 0;
    (void)unused;
    for (int i = 0; i < LMX_KINDS; i++) sum += self_of(self)->of[i].calls;
    return PyLong_FromLongLong(sum);
}

static PyObject *schedule_rule(PyObject *self, void *unused) {
    char rule[LAM_RULE_WORDS];
    (void)unused;
    return PyUnicode_FromString(lam_recorded_rule(self_of(self)->every, rule));
}

static void schedule_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef schedule_methods[] = {
    {"skip_call", schedule_skip_call, METH_O,
     PyDoc_STR("skip_call($self, kind, /)\n--\n\nCounts a call, and returns True if it need not be seen. "
               "`kind`: 1 in train mode, plus 2 with gradients.")},
    {"extend_step", schedule_extend_step, METH_VARARGS,
     PyDoc_STR("extend_step($self, kind, went_back, /)\n--\n\nReturns True if a call of that kind belongs to "
               "the step in progress. `went_back`: a backward pass was seen in it.")},
    {"end_step", schedule_end_step, METH_VARARGS,
     PyDoc_STR("end_step($self, went_back, /)\n--\n\nEnds the step in progress. Returns False if it is not "
               "to be recorded.")},
    {"begin_step", schedule_begin_step, METH_VARARGS,
     PyDoc_STR("begin_step($self, kind, /)\n--\n\nCounts a call. Returns True if it begins a step that is to "
               "be recorded.")},
    {"discard_step", schedule_discard_step, METH_NOARGS,
     PyDoc_STR(
         "discard_step($self, /)\n--\n\nDiscards the step in progress; the next one is recorded instead.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef schedule_getset[] = {
    {"kind", schedule_kind, NULL, "Of the step that is being seen; -1 where none is.", NULL},
    {"number", schedule_number, NULL, "Of its first call among those of its kind.", NULL},
    {"seeks_start", schedule_seeks_start, NULL, "It is only waited through, until one begins.", NULL},
    {"calls", schedule_calls, NULL, "Calls of all kinds so far.", NULL},
    {"rule", schedule_rule, NULL, "Which steps are recorded, in words.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot schedule_slots[] = {
    {Py_tp_doc, "Schedule(every, root=0)\n--\n\nDecides which calls of root number `root` begin a recorded "
                "step; `every` 0: more at first than later."},
    {Py_tp_new, schedule_new},
    {Py_tp_dealloc, schedule_dealloc},
    {Py_tp_methods, schedule_methods},
    {Py_tp_getset, schedule_getset},
    {0, NULL},
};

PyType_Spec lmx_schedule_spec = {
    "lamina._lamina.Schedule", sizeof(lmx_schedule), 0, Py_TPFLAGS_DEFAULT, schedule_slots,
};
