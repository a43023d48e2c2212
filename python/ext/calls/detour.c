/* SPDX-License-Identifier: Apache-2.0
 * Redirects the calls of a Python function, see detour.h. CPython calls a function through a pointer in the
 * function object. From 3.12 on PyFunction_SetVectorcall sets it, which also shows its offset in the object;
 * in 3.11 it lies where the address of _PyFunction_Vectorcall is found. CPython 3.11 does not read the
 * pointer where bytecode calls a function by its name, so there the function's code is swapped as well. All
 * this is verified: a class of lamina's is called in every way before, during and after a detour. */
#include "calls/detour.h"
#include "calls/compiler.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <string.h>

typedef PyObject *(*vectorcall)(PyObject *callable, PyObject *const *args, size_t n, PyObject *names);

static struct {
    bool probed, usable, swaps_code;
    size_t offset;                                         /* of the pointer in a function object */
    size_t size;                                           /* of a function object */
    vectorcall usual_call;                                 /* what the pointer holds without a detour */
    void (*set_call)(PyObject *function, vectorcall call); /* NULL: this CPython has none */
    lmx_detour *first;                                     /* the installed detours */
    const lmx_detour *with_code; /* the last one with other code, which may have been copied; NULL: none */
    bool limited; /* only calls of this object, borrowed, and of torch.compile's wrappers go to C */
    PyObject *only_object;
    PyTypeObject *function_type; /* of functions */
    PyObject *code_name;         /* "__code__", kept so that removing needs no memory */
} interpreter;

/* == reaching C ======================================================================================== */

LMX_OFTEN static PyObject *enter_by_pointer(PyObject *function, PyObject *const *args, size_t n,
                                            PyObject *names) {
    const size_t flag = (size_t)1 << (8 * sizeof n - 1); /* args[-1] may be overwritten */
    const lmx_detour *d = interpreter.first;
    while (d && d->function != function) d = d->next;
    if (!d) return interpreter.usual_call(function, args, n, names);
    /* Between recorded steps all calls of modules but the root's take this path (bench/watching.py). */
    if (interpreter.limited && (n & ~flag) && args[0] != interpreter.only_object &&
        Py_TYPE(args[0]) != lmx_compiler_wrapper) {
        PyObject *copy = d->copy;
        Py_INCREF(copy);
        PyObject *result = interpreter.usual_call(copy, args, n, names);
        Py_DECREF(copy);
        return result;
    }
    return d->target(d, args, (Py_ssize_t)(n & ~flag), names);
}

static PyObject *enter_by_code(PyObject *unused, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)unused;
    const lmx_detour *d = interpreter.with_code;
    return d->target(d, args, n, names);
}

static PyMethodDef method = {
    "__call__", (PyCFunction)(void (*)(void))enter_by_code, METH_FASTCALL | METH_KEYWORDS,
    PyDoc_STR("__call__($self, /, *args, **kwargs)\n--\n\nCalls the module. A lamina capture is open.")};

static vectorcall call_of(PyObject *function) {
    vectorcall call;
    memcpy(&call, (char *)function + interpreter.offset, sizeof call);
    return call;
}

static void set_call_of(PyObject *function, vectorcall call) {
    if (interpreter.set_call)
        interpreter.set_call(function, call);
    else
        memcpy((char *)function + interpreter.offset, &call, sizeof call);
}

/* == one detour ===================================================================================== */

void lmx_detour_clear(lmx_detour *detour) {
    Py_CLEAR(detour->function);
    Py_CLEAR(detour->copy);
    Py_CLEAR(detour->own_code);
    Py_CLEAR(detour->detour_code);
}

/* If memory runs out, the code counts as unchanged. */
static bool has_code(PyObject *function, PyObject *wanted) {
    PyObject *code = PyObject_GetAttr(function, interpreter.code_name);
    Py_XDECREF(code);
    if (!code) PyErr_Clear();
    return !code || code == wanted;
}

/* True if the code calls C already: it was copied from a function with a detour. */
static bool is_ours(PyObject *code) {
    PyObject *consts = code ? PyObject_GetAttrString(code, "co_consts") : NULL;
    bool ours = false;
    for (Py_ssize_t i = 0; consts && PyTuple_Check(consts) && i < PyTuple_Size(consts); i++) {
        PyObject *one = PyTuple_GetItem(consts, i);
        ours = ours || (PyCFunction_Check(one) && PyCFunction_GetFunction(one) == method.ml_meth);
    }
    Py_XDECREF(consts);
    return ours;
}

static bool make_detour(lmx_detour *detour, PyObject *function, bool with_code) {
    PyObject *kit = PyImport_ImportModule("lamina._guard.code_copy"), *c = PyCFunction_New(&method, NULL);
    Py_INCREF(function);
    detour->function = function;
    detour->own_code = PyObject_GetAttr(function, interpreter.code_name);
    bool fits = kit && detour->own_code && !is_ours(detour->own_code);
    detour->copy = fits ? PyObject_CallMethod(kit, "twin_of", "O", function) : NULL;
    if (detour->copy && c && with_code)
        detour->detour_code = PyObject_CallMethod(kit, "leading_to", "OO", c, function);
    bool ok = detour->copy && c && (!with_code || detour->detour_code);
    Py_XDECREF(kit);
    Py_XDECREF(c);
    if (!ok) lmx_detour_clear(detour);
    PyErr_Clear();
    return ok;
}

bool lmx_detour_install(lmx_detour *detour) {
    if (detour->detour_code &&
        PyObject_SetAttr(detour->function, interpreter.code_name, detour->detour_code) < 0) {
        PyErr_Clear();
        return false;
    }
    if (detour->detour_code) interpreter.with_code = detour;
    detour->next = interpreter.first;
    interpreter.first = detour;
    set_call_of(detour->function, enter_by_pointer);
    return true;
}

void lmx_detour_limit_to(bool limited, PyObject *object) {
    interpreter.limited = limited;
    interpreter.only_object = object;
}

static void unlink_detour(lmx_detour *detour) {
    lmx_detour **at = &interpreter.first;
    while (*at && *at != detour) at = &(*at)->next;
    if (*at) *at = detour->next;
    detour->next = NULL;
}

bool lmx_detour_remove(lmx_detour *detour, bool *ended) {
    bool own = has_code(detour->function, detour->detour_code ? detour->detour_code : detour->own_code);
    *ended = !own || !detour->detour_code ||
             PyObject_SetAttr(detour->function, interpreter.code_name, detour->own_code) == 0;
    if (!*ended) PyErr_Clear();
    if (call_of(detour->function) == enter_by_pointer) set_call_of(detour->function, interpreter.usual_call);
    unlink_detour(detour);
    return own;
}

/* == whether detours work here ====================================================================== */

static PyObject *answer(const lmx_detour *detour, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)detour;
    (void)args;
    (void)n;
    (void)names;
    Py_RETURN_TRUE;
}

static bool every_call_returns(PyObject *kit, PyObject *wanted) {
    PyObject *given = PyObject_CallMethod(kit, "all_give", "O", wanted);
    bool yes = given == Py_True;
    Py_XDECREF(given);
    PyErr_Clear();
    return yes;
}

static bool detours_every_call(PyObject *kit, PyObject *function) {
    lmx_detour detour = {.target = answer};
    bool ok = every_call_returns(kit, Py_None) && make_detour(&detour, function, interpreter.swaps_code) &&
              lmx_detour_install(&detour);
    ok = ok && every_call_returns(kit, Py_True);
    bool ended = true;
    if (detour.function) ok = lmx_detour_remove(&detour, &ended) && ended && ok;
    lmx_detour_clear(&detour);
    interpreter.with_code = NULL;
    return every_call_returns(kit, Py_None) && ok;
}

/* Finds the pointer in the function object; false if it does not occur there exactly once. */
static bool find_offset(PyObject *function, vectorcall call) {
    size_t found = 0;
    for (size_t at = 0; at + sizeof(vectorcall) <= interpreter.size; at += sizeof(void *)) {
        vectorcall held;
        memcpy(&held, (char *)function + at, sizeof held);
        if (held != call) continue;
        interpreter.offset = at;
        found++;
    }
    return found == 1;
}

/* The value that the pointer has before it is set is its value without a detour. */
static bool find_offset_by_setting(PyObject *function) {
    char before[256];
    if (!interpreter.set_call || interpreter.size > sizeof before) return false;
    memcpy(before, function, interpreter.size);
    interpreter.set_call(function, enter_by_pointer);
    bool found = find_offset(function, enter_by_pointer);
    memcpy(&interpreter.usual_call, before + (found ? interpreter.offset : 0), sizeof interpreter.usual_call);
    if (found) interpreter.set_call(function, interpreter.usual_call);
    return found;
}

static bool read_function_size(PyObject *function) {
    interpreter.function_type = Py_TYPE(function);
    interpreter.size = lmx_instance_size(interpreter.function_type);
    PyErr_Clear();
    return interpreter.size > 0;
}

static void probe_interpreter(void) {
    const bool limited = interpreter.limited;
    interpreter.limited = false;
    interpreter.probed = true;
    *(void **)&interpreter.usual_call = dlsym(RTLD_DEFAULT, "_PyFunction_Vectorcall");
    *(void **)&interpreter.set_call = dlsym(RTLD_DEFAULT, "PyFunction_SetVectorcall");
    interpreter.code_name = PyUnicode_InternFromString("__code__");
    PyObject *kit = interpreter.code_name ? PyImport_ImportModule("lamina._guard.code_copy") : NULL;
    PyObject *function = kit ? PyObject_GetAttrString(kit, "FUNCTION") : NULL;
    if (function && read_function_size(function) &&
        (interpreter.set_call ? find_offset_by_setting(function)
                              : interpreter.usual_call && find_offset(function, interpreter.usual_call))) {
        interpreter.usable = detours_every_call(kit, function);
        interpreter.swaps_code = !interpreter.usable;
        interpreter.usable = interpreter.usable || detours_every_call(kit, function);
    }
    Py_XDECREF(function);
    Py_XDECREF(kit);
    PyErr_Clear();
    interpreter.limited = limited;
}

/* == preparing ====================================================================================== */

bool lmx_detour_needs_code(void) {
    if (!interpreter.probed) probe_interpreter();
    return interpreter.swaps_code;
}

bool lmx_detour_prepare(lmx_detour *detour, PyObject *function, lmx_detour_target target, bool with_code) {
    with_code = lmx_detour_needs_code() && with_code;
    if (!interpreter.usable || Py_TYPE(function) != interpreter.function_type) return false;
    if (call_of(function) != interpreter.usual_call) return false;
    if (detour->function == function && (detour->detour_code != NULL) == with_code &&
        has_code(function, detour->own_code))
        return true;
    lmx_detour made = {.target = target};
    if (!make_detour(&made, function, with_code))
        return false; /* keeps the previous detour: its code may have been copied */
    lmx_detour_clear(detour);
    *detour = made;
    return true;
}
