/* SPDX-License-Identifier: Apache-2.0
 * A Python function object holds a pointer to what runs when it is called; usually that is one and the same
 * function of CPython's. CPython 3.12 offers to set it, the limited API does not, so the place of the pointer
 * is looked for, once, and tried out on a function of our own. */
#include "entry.h"

#include <dlfcn.h>
#include <string.h>

static lmx_entry usual; /* NULL: not looked for yet, or not to be had */
static size_t place;    /* of the pointer, in bytes; 0: it was not found */

/* == finding the pointer =============================================================================== */

static lmx_entry entry_of(PyObject *function) {
    lmx_entry entry;
    memcpy(&entry, (char *)function + place, sizeof entry);
    return entry;
}

static void set_entry(PyObject *function, lmx_entry to) { memcpy((char *)function + place, &to, sizeof to); }

/* The only word of a function that is the usual entry; 0 where there is none or several. */
static size_t find_place(PyObject *function) {
    PyObject *size = PyObject_GetAttrString((PyObject *)Py_TYPE(function), "__basicsize__");
    size_t n = size ? PyLong_AsSize_t(size) : 0, found = 0;
    Py_XDECREF(size);
    PyErr_Clear();
    for (size_t at = sizeof(PyObject); n != (size_t)-1 && at + sizeof usual <= n; at += sizeof(void *)) {
        if (memcmp((char *)function + at, &usual, sizeof usual) != 0) continue;
        if (found) return 0;
        found = at;
    }
    return found;
}

static PyObject *answer(PyObject *function, PyObject *const *args, size_t n, PyObject *names) {
    bool as_called = LMX_ENTRY_N(n) == 1 && args[0] == Py_None && !names;
    return as_called ? Py_NewRef(function) : Py_NewRef(Py_None);
}

/* True if a call of `function`, which nobody else has, follows the pointer. */
static bool leads_there(PyObject *function) {
    set_entry(function, answer);
    PyObject *result = PyObject_CallFunctionObjArgs(function, Py_None, NULL);
    set_entry(function, usual);
    Py_XDECREF(result);
    PyErr_Clear();
    return result == function;
}

static bool look(PyObject *function, PyObject *copy) {
    static bool looked;
    if (looked) return place != 0;
    looked = true;
    void *symbol = dlsym(RTLD_DEFAULT, "_PyFunction_Vectorcall");
    if (!symbol) return false;
    memcpy(&usual, &symbol, sizeof usual);
    place = find_place(copy);
    if (place && (find_place(function) != place || !leads_there(copy))) place = 0;
    return place != 0;
}

/* == copies and detours ================================================================================ */

/* A function with the same code and everything that belongs to a call. */
static PyObject *copy_of(PyObject *function) {
    static const char *const parts[] = {"__code__", "__globals__", "__name__", "__defaults__", "__closure__"};
    enum { N = sizeof parts / sizeof *parts };
    PyObject *all = PyTuple_New(N);
    for (Py_ssize_t i = 0; all && i < N; i++) {
        PyObject *part = PyObject_GetAttrString(function, parts[i]);
        if (!part || PyTuple_SetItem(all, i, part) < 0) Py_CLEAR(all);
    }
    PyObject *copy = all ? PyObject_CallObject((PyObject *)Py_TYPE(function), all) : NULL;
    PyObject *only = copy ? PyObject_GetAttrString(function, "__kwdefaults__") : NULL;
    if (copy && (!only || PyObject_SetAttrString(copy, "__kwdefaults__", only) < 0)) Py_CLEAR(copy);
    Py_XDECREF(only);
    Py_XDECREF(all);
    return copy;
}

/* `constants` with `through` in place of the number that stands for it. */
static PyObject *with_builtin(PyObject *constants, PyObject *through) {
    Py_ssize_t n = PyTuple_Check(constants) ? PyTuple_Size(constants) : 0;
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t i = 0; all && i < n; i++) {
        PyObject *one = PyTuple_GetItem(constants, i);
        one = PyFloat_Check(one) ? through : one;
        Py_INCREF(one);
        if (PyTuple_SetItem(all, i, one) < 0) Py_CLEAR(all);
    }
    return all;
}

static PyObject *replaced_constants(PyObject *code, PyObject *through) {
    PyObject *old = PyObject_GetAttrString(code, "co_consts");
    PyObject *all = old ? with_builtin(old, through) : NULL;
    PyObject *none = PyTuple_New(0), *names = all ? Py_BuildValue("{s:O}", "co_consts", all) : NULL;
    PyObject *replace = PyObject_GetAttrString(code, "replace");
    PyObject *result = none && names && replace ? PyObject_Call(replace, none, names) : NULL;
    Py_XDECREF(old);
    Py_XDECREF(all);
    Py_XDECREF(none);
    Py_XDECREF(names);
    Py_XDECREF(replace);
    return result;
}

/* Code that hands its arguments to `through`, which it holds as a constant: it needs no name for it. */
static PyObject *detour_to(PyObject *through) {
    static const char text[] = "def __call__(self, *args, **kwargs):\n"
                               "    return [0.5][0](self, *args, **kwargs)\n";
    PyObject *names = PyDict_New();
    PyObject *compiled = names ? Py_CompileString(text, "<lamina>", Py_file_input) : NULL;
    PyObject *done = compiled ? PyEval_EvalCode(compiled, names, names) : NULL;
    PyObject *made = done ? PyDict_GetItemString(names, "__call__") : NULL;
    PyObject *code = made ? PyObject_GetAttrString(made, "__code__") : NULL;
    PyObject *result = code ? replaced_constants(code, through) : NULL;
    Py_XDECREF(code);
    Py_XDECREF(done);
    Py_XDECREF(compiled);
    Py_XDECREF(names);
    return result;
}

/* Of the flags those that say what a call does: the rest is of the text it was compiled from. */
static long kind_of(PyObject *code) {
    enum { OPTIMIZED = 0x1, NEW_LOCALS = 0x2, ARGS = 0x4, KEYWORDS = 0x8, SUSPENDS = 0x2A0 };
    PyObject *flags = PyObject_GetAttrString(code, "co_flags");
    long kind = flags ? PyLong_AsLong(flags) : -1;
    Py_XDECREF(flags);
    return kind < 0 ? -1 : kind & (OPTIMIZED | NEW_LOCALS | ARGS | KEYWORDS | SUSPENDS);
}

/* Whether two codes lay out their variables alike. Garbage can be collected while CPython lays out those of a
 * call, and a capture among it puts the code back right then. */
static bool alike(PyObject *a, PyObject *b) {
    static const char *const parts[] = {"co_argcount", "co_posonlyargcount", "co_kwonlyargcount",
                                        "co_nlocals",  "co_cellvars",        "co_freevars"};
    bool yes = kind_of(a) >= 0 && kind_of(a) == kind_of(b);
    for (size_t i = 0; yes && i < sizeof parts / sizeof *parts; i++) {
        PyObject *of_a = PyObject_GetAttrString(a, parts[i]), *of_b = PyObject_GetAttrString(b, parts[i]);
        yes = of_a && of_b && PyObject_RichCompareBool(of_a, of_b, Py_EQ) == 1;
        Py_XDECREF(of_a);
        Py_XDECREF(of_b);
    }
    PyErr_Clear();
    return yes;
}

/* == moving ============================================================================================ */

static bool is_function(PyObject *o) {
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    PyObject *code = PyObject_GetAttrString(o, "__code__"), *closure = NULL;
    bool yes = name && code && strcmp(lmx_utf8(name), "function") == 0;
    if (yes) closure = PyObject_GetAttrString(o, "__closure__");
    yes = closure == Py_None; /* the detour has none, and code is only replaced by code that has as many */
    Py_XDECREF(closure);
    Py_XDECREF(code);
    Py_XDECREF(name);
    PyErr_Clear();
    return yes;
}

static void forget(lmx_moved *m) {
    Py_CLEAR(m->function);
    Py_CLEAR(m->copy);
    Py_CLEAR(m->code);
    Py_CLEAR(m->detour);
}

static bool prepare(lmx_moved *m, PyObject *function, PyObject *through) {
    if (m->function == function) {
        PyObject *code = PyObject_GetAttrString(function, "__code__");
        Py_XDECREF(code);
        if (code == m->code || code == m->detour) return true;
    }
    forget(m);
    m->copy = copy_of(function);
    m->code = m->copy ? PyObject_GetAttrString(function, "__code__") : NULL;
    m->detour = m->code && look(function, m->copy) ? detour_to(through) : NULL;
    if (m->detour && !alike(m->code, m->detour)) Py_CLEAR(m->detour);
    Py_INCREF(function);
    m->function = function;
    if (!m->detour) forget(m);
    return m->detour != NULL;
}

bool lmx_move(lmx_moved *m, PyObject *function, lmx_entry to, PyObject *through) {
    bool ready = (m->function == function || is_function(function)) && prepare(m, function, through) &&
                 entry_of(function) == usual;
    if (ready && PyObject_SetAttrString(function, "__code__", m->detour) == 0) {
        set_entry(function, to);
        return true;
    }
    PyErr_Clear();
    return false;
}

bool lmx_move_back(lmx_moved *m) {
    set_entry(m->function, usual);
    PyObject *now = PyObject_GetAttrString(m->function, "__code__");
    Py_XDECREF(now);
    bool ok = now && (now != m->detour || PyObject_SetAttrString(m->function, "__code__", m->code) == 0);
    PyErr_Clear();
    return ok;
}

PyObject *lmx_call_moved(const lmx_moved *m, PyObject *const *args, size_t n, PyObject *names) {
    return usual(m->copy, args, n, names);
}
