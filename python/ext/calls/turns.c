/* SPDX-License-Identifier: Apache-2.0
 * The type Turns, see turns.h.
 *
 * A loop that does several things in turn has a period, and so would have each N-th call: with a common
 * factor, one thing alone would ever be seen. So one call is chosen in each window of N, at a place that
 * moves on by the golden ratio of it: these fall on all places of any period alike. They are others for each
 * root, as not many roots can be seen at a time.
 *
 * A step of several calls takes up as many windows, so that of all calls no more than one in N is watched.
 * The first step of a kind is seen from its first call on, and takes up one window whatever it has. */
#include "calls/turns.h"
#include "base/tables.h"

/* So many steps with one call each, and calls under way before them, say that several were an exception. */
enum { SINGLES = 8 };

static void choose_next(lmx_turns *t, lmx_turn *k) {
    const double golden = 0.6180339887498949;
    const int64_t charged = k->n ? t->taken + k->waited : 1, window = t->every * charged;
    k->n++;
    if (t->number >= k->window + window) k->window = t->number; /* windows that went by are not caught up */
    k->window += window;
    double place = k->n * golden + t->shift;
    place -= (double)(int64_t)place;
    k->next = t->every > 1 ? k->window + (int64_t)(place * (double)window) : 0;
}

/* What a step showed of those to come. */
static void learn(const lmx_turns *t, lmx_turn *k, bool went_back) {
    const bool was_alone = k->alone;
    k->alone = !went_back && (k->alone || t->taken > 1);
    if (t->taken > 1 || (was_alone && went_back))
        k->several = SINGLES;
    else if (k->several && k->waited < 2)
        k->several--;
}

bool lmx_turns_goes_on(lmx_turns *t, int kind, bool went_back) {
    const bool grad = kind & LMX_GRAD;
    if (went_back || !(t->kind & LMX_GRAD) || t->of[t->kind].alone || t->taken >= LMX_MOST_CALLS)
        return false;
    if (grad && kind != t->kind)
        return false; /* another mode is another step; what is needed for a loss is not */
    t->of[kind].calls++;
    t->taken++;
    return true;
}

bool lmx_turns_end(lmx_turns *t, bool went_back) {
    if (t->kind < 0) return false;
    lmx_turn *k = &t->of[t->kind];
    const bool seen = !t->waits;
    if (seen) {
        learn(t, k, went_back);
        choose_next(t, k);
        k->waited = 0;
    } else {
        k->waited += t->taken;
        k->at_start = true;
        k->alone = !went_back;
    }
    t->fresh = went_back;
    t->waits = false;
    t->kind = -1;
    return seen;
}

bool lmx_turns_begin(lmx_turns *t, int kind) {
    if (lmx_turns_skip(t, kind)) return false;
    lmx_turn *k = &t->of[kind];
    const bool at_start = k->at_start || t->fresh || !k->several || k->alone;
    t->kind = kind;
    t->number = k->calls++;
    t->taken = 1;
    t->waits = (kind & LMX_GRAD) && !at_start && t->every > 1;
    k->at_start = false;
    if (kind & LMX_GRAD) t->fresh = false;
    return true;
}

void lmx_turns_again(lmx_turns *t) {
    if (t->kind < 0) return;
    t->of[t->kind].next = 0;
    t->waits = false;
    t->kind = -1;
}

/* == the type ========================================================================================== */

static lmx_turns *self_of(PyObject *self) { return (lmx_turns *)self; }

lmx_turns *lmx_turns_of(lmx_state *st, PyObject *o) {
    if (Py_TYPE(o) == st->turns_type) return self_of(o);
    PyErr_SetString(PyExc_TypeError, "expected lamina Turns");
    return NULL;
}

static PyObject *turns_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"every", "root", NULL};
    const double apart = 0.7548776662466927; /* places of two roots coincide as rarely as can be */
    long long every;
    int root = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L|i:Turns", names, &every, &root)) return NULL;
    if (every < 1 || every > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "every is not a number of calls");
        return NULL;
    }
    lmx_turns *t = (lmx_turns *)PyType_GenericAlloc(type, 0);
    if (!t) return NULL;
    t->every = every;
    t->shift = root * apart;
    t->kind = -1;
    t->of[LMX_GRAD].alone = true; /* in eval mode, until a backward is seen to follow */
    return (PyObject *)t;
}

bool lmx_is_kind(int kind) {
    if (kind >= 0 && kind < LMX_KINDS) return true;
    PyErr_SetString(PyExc_ValueError, "there are kinds 0 to 3");
    return false;
}

static PyObject *turns_skip(PyObject *self, PyObject *kind) {
    long n = PyLong_AsLong(kind);
    if ((n == -1 && PyErr_Occurred()) || !lmx_is_kind((int)n)) return NULL;
    return PyBool_FromLong(lmx_turns_skip(self_of(self), (int)n));
}

static PyObject *turns_goes_on(PyObject *self, PyObject *args) {
    int kind, went_back;
    if (!PyArg_ParseTuple(args, "ip:goes_on", &kind, &went_back) || !lmx_is_kind(kind)) return NULL;
    return PyBool_FromLong(self_of(self)->kind >= 0 &&
                           lmx_turns_goes_on(self_of(self), kind, went_back != 0));
}

static PyObject *turns_end(PyObject *self, PyObject *args) {
    int went_back;
    if (!PyArg_ParseTuple(args, "p:end", &went_back)) return NULL;
    return PyBool_FromLong(lmx_turns_end(self_of(self), went_back != 0));
}

static PyObject *turns_begin(PyObject *self, PyObject *args) {
    int kind;
    if (!PyArg_ParseTuple(args, "i:begin", &kind) || !lmx_is_kind(kind)) return NULL;
    return PyBool_FromLong(self_of(self)->kind < 0 && lmx_turns_begin(self_of(self), kind));
}

static PyObject *turns_again(PyObject *self, PyObject *unused) {
    (void)unused;
    lmx_turns_again(self_of(self));
    Py_RETURN_NONE;
}

static PyObject *turns_kind(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(self_of(self)->kind);
}

static PyObject *turns_number(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(self_of(self)->number);
}

static PyObject *turns_waits(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(self_of(self)->waits);
}

static PyObject *turns_calls(PyObject *self, void *unused) {
    long long sum = 0;
    (void)unused;
    for (int i = 0; i < LMX_KINDS; i++) sum += self_of(self)->of[i].calls;
    return PyLong_FromLongLong(sum);
}

static void turns_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef turns_methods[] = {
    {"skip", turns_skip, METH_O,
     PyDoc_STR("skip($self, kind, /)\n--\n\nCounts a call that nobody has to know of; False where somebody "
               "has. A kind is 1 in train mode, and 2 more with gradients.")},
    {"goes_on", turns_goes_on, METH_VARARGS,
     PyDoc_STR("goes_on($self, kind, went_back, /)\n--\n\nTrue where a call of that kind is one of the step "
               "that is being seen, in which a backward pass was seen or not.")},
    {"end", turns_end, METH_VARARGS,
     PyDoc_STR("end($self, went_back, /)\n--\n\nEnds that step; False where it is not to be recorded.")},
    {"begin", turns_begin, METH_VARARGS,
     PyDoc_STR(
         "begin($self, kind, /)\n--\n\nCounts a call; True where it begins a step that is to be seen.")},
    {"again", turns_again, METH_NOARGS,
     PyDoc_STR("again($self, /)\n--\n\nGives the step up; the next one is seen in its place.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef turns_getset[] = {
    {"kind", turns_kind, NULL, "Of the step that is being seen; -1 where none is.", NULL},
    {"number", turns_number, NULL, "Of its first call among those of its kind.", NULL},
    {"waits", turns_waits, NULL, "It is only waited through, until one begins.", NULL},
    {"calls", turns_calls, NULL, "Calls of all kinds so far.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot turns_slots[] = {
    {Py_tp_doc, "Turns(every, root=0)\n--\n\nWhich calls of root number `root` begin a step that is seen."},
    {Py_tp_new, turns_new},
    {Py_tp_dealloc, turns_dealloc},
    {Py_tp_methods, turns_methods},
    {Py_tp_getset, turns_getset},
    {0, NULL},
};

PyType_Spec lmx_turns_spec = {
    "lamina._lamina.Turns", sizeof(lmx_turns), 0, Py_TPFLAGS_DEFAULT, turns_slots,
};
