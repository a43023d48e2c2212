/* SPDX-License-Identifier: Apache-2.0
 * CPython calls a function through a pointer that the object holds. From 3.12 on there is a function to set
 * it, which shows where it is, too; before, the place is where the address of _PyFunction_Vectorcall is.
 * CPython 3.11 runs a function that bytecode calls by its own name without looking there, so the code is
 * swapped too where that is seen to be so. Nothing is taken for granted: a class of our own is called in
 * every way first, before, meanwhile and after. */
#include "calls/lead.h"
#include "torch/tensor.h"

#include <dlfcn.h>
#include <string.h>

typedef PyObject *(*vectorcall)(PyObject *callable, PyObject *const *args, size_t n, PyObject *names);

static struct {
    bool looked, usable, code;
    size_t at;                                        /* bytes from a function's beginning, */
    size_t size;                                      /* of so many, */
    vectorcall plain;                                 /* to what it holds when it is not led */
    void (*set)(PyObject *function, vectorcall call); /* NULL: there is none */
    lmx_led led;        /* of the one that is on; the next two are for it too: */
    PyObject *only;     /* borrowed: whose calls are led; NULL: everybody's */
    PyObject *twin;     /* borrowed from the lead; NULL: there is none */
    PyTypeObject *type; /* of functions */
    PyObject *n_code;   /* "__code__", kept so that putting back needs no memory */
} lead_way;

/* == reaching C ======================================================================================== */

LMX_OFTEN static PyObject *by_pointer(PyObject *function, PyObject *const *args, size_t n, PyObject *names) {
    (void)function;
    const size_t flag = (size_t)1 << (8 * sizeof n - 1); /* the one before `args` may be written to */
    /* Each step of a model that is watched comes here for each of its modules, of which nobody wants to know
     * most of the time. */
    if (lead_way.only && lead_way.twin && (n & ~flag) && args[0] != lead_way.only) {
        PyObject *twin = lead_way.twin;
        Py_INCREF(twin);
        PyObject *result = lead_way.plain(twin, args, n, names);
        Py_DECREF(twin);
        return result;
    }
    return lead_way.led(args, (Py_ssize_t)(n & ~flag), names);
}

static PyObject *by_code(PyObject *unused, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)unused;
    return lead_way.led(args, n, names);
}

static PyMethodDef method = {"__call__", (PyCFunction)(void (*)(void))by_code, METH_FASTCALL | METH_KEYWORDS,
                             PyDoc_STR(
                                 "__call__($self, /, *args, **kwargs)\n--\n\nCalls the module. A lamina "
                                 "capture is open.")};

static vectorcall pointer_of(PyObject *function) {
    vectorcall call;
    memcpy(&call, (char *)function + lead_way.at, sizeof call);
    return call;
}

static void point(PyObject *function, vectorcall call) {
    if (lead_way.set)
        lead_way.set(function, call);
    else
        memcpy((char *)function + lead_way.at, &call, sizeof call);
}

/* == one lead ========================================================================================== */

static void clear(lmx_lead *lead) {
    if (lead_way.twin == lead->twin) lead_way.twin = NULL;
    Py_CLEAR(lead->function);
    Py_CLEAR(lead->twin);
    Py_CLEAR(lead->code);
    Py_CLEAR(lead->ahead);
}

/* One that can't be asked, because memory ran out, is taken for what it was. */
static bool has_code(PyObject *function, PyObject *wanted) {
    PyObject *code = PyObject_GetAttr(function, lead_way.n_code);
    Py_XDECREF(code);
    if (!code) PyErr_Clear();
    return !code || code == wanted;
}

/* Code that leads to C already: somebody copied it from a function that was led. */
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

static bool make(lmx_lead *lead, PyObject *function) {
    PyObject *kit = PyImport_ImportModule("lamina._guard.twin"), *c = PyCFunction_New(&method, NULL);
    Py_INCREF(function);
    lead->function = function;
    lead->code = PyObject_GetAttr(function, lead_way.n_code);
    bool fits = kit && lead->code && !is_ours(lead->code);
    lead->twin = fits ? PyObject_CallMethod(kit, "twin_of", "O", function) : NULL;
    if (lead->twin && c && lead_way.code)
        lead->ahead = PyObject_CallMethod(kit, "leading_to", "OO", c, function);
    bool ok = lead->twin && c && (!lead_way.code || lead->ahead);
    Py_XDECREF(kit);
    Py_XDECREF(c);
    if (!ok) clear(lead);
    PyErr_Clear();
    return ok;
}

bool lmx_lead_begin(lmx_lead *lead) {
    if (lead->ahead && PyObject_SetAttr(lead->function, lead_way.n_code, lead->ahead) < 0) {
        PyErr_Clear();
        return false;
    }
    lead_way.twin = lead->twin;
    point(lead->function, by_pointer);
    return true;
}

void lmx_lead_only(PyObject *object) { lead_way.only = object; }

bool lmx_lead_end(lmx_lead *lead, bool *ended) {
    bool own = has_code(lead->function, lead->ahead ? lead->ahead : lead->code);
    *ended = !own || !lead->ahead || PyObject_SetAttr(lead->function, lead_way.n_code, lead->code) == 0;
    if (!*ended) PyErr_Clear();
    if (pointer_of(lead->function) == by_pointer) point(lead->function, lead_way.plain);
    return own;
}

/* == whether it can be done ============================================================================ */

static PyObject *answer(PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)args;
    (void)n;
    (void)names;
    Py_RETURN_TRUE;
}

static bool all_give(PyObject *kit, PyObject *wanted) {
    PyObject *given = PyObject_CallMethod(kit, "all_give", "O", wanted);
    bool yes = given == Py_True;
    Py_XDECREF(given);
    PyErr_Clear();
    return yes;
}

static bool leads_all(PyObject *kit, PyObject *function) {
    lmx_lead lead = {0};
    lead_way.led = answer;
    bool ok = all_give(kit, Py_None) && make(&lead, function) && lmx_lead_begin(&lead);
    ok = ok && all_give(kit, Py_True);
    bool ended = true;
    if (lead.function) ok = lmx_lead_end(&lead, &ended) && ended && ok;
    clear(&lead);
    return all_give(kit, Py_None) && ok;
}

/* The one place in the function that holds the pointer; false where there is none, or two. */
static bool find_place(PyObject *function, vectorcall call) {
    size_t found = 0;
    for (size_t at = 0; at + sizeof(vectorcall) <= lead_way.size; at += sizeof(void *)) {
        vectorcall held;
        memcpy(&held, (char *)function + at, sizeof held);
        if (held != call) continue;
        lead_way.at = at;
        found++;
    }
    return found == 1;
}

/* What stood there before it was set is what a function has that is not led. */
static bool find_by_setting(PyObject *function) {
    char before[256];
    if (!lead_way.set || lead_way.size > sizeof before) return false;
    memcpy(before, function, lead_way.size);
    lead_way.set(function, by_pointer);
    bool found = find_place(function, by_pointer);
    memcpy(&lead_way.plain, before + (found ? lead_way.at : 0), sizeof lead_way.plain);
    if (found) lead_way.set(function, lead_way.plain);
    return found;
}

static bool size_of_functions(PyObject *function) {
    lead_way.type = Py_TYPE(function);
    PyObject *size = PyObject_GetAttrString((PyObject *)lead_way.type, "__basicsize__");
    lead_way.size = size ? PyLong_AsSize_t(size) : 0;
    Py_XDECREF(size);
    bool ok = size && !PyErr_Occurred();
    PyErr_Clear();
    return ok;
}

static void look(void) {
    PyObject *only = lead_way.only;
    lead_way.only = NULL;
    lead_way.looked = true;
    *(void **)&lead_way.plain = dlsym(RTLD_DEFAULT, "_PyFunction_Vectorcall");
    *(void **)&lead_way.set = dlsym(RTLD_DEFAULT, "PyFunction_SetVectorcall");
    lead_way.n_code = PyUnicode_InternFromString("__code__");
    PyObject *kit = lead_way.n_code ? PyImport_ImportModule("lamina._guard.twin") : NULL;
    PyObject *function = kit ? PyObject_GetAttrString(kit, "FUNCTION") : NULL;
    if (function && size_of_functions(function) &&
        (lead_way.set ? find_by_setting(function) : lead_way.plain && find_place(function, lead_way.plain))) {
        lead_way.usable = leads_all(kit, function);
        lead_way.code = !lead_way.usable;
        lead_way.usable = lead_way.usable || leads_all(kit, function);
    }
    Py_XDECREF(function);
    Py_XDECREF(kit);
    PyErr_Clear();
    lead_way.only = only;
}

/* == torch's compiler ================================================================================= */

/* Of a module that was imported, a new reference; NULL without an exception. */
static PyObject *global_of(const char *module, const char *name, bool *imported) {
    PyObject *m = lmx_imported(module);
    PyObject *value = m ? PyObject_GetAttrString(m, name) : NULL;
    *imported = m != NULL;
    Py_XDECREF(m);
    PyErr_Clear();
    return value;
}

/* Code that was compiled since torch._dynamo.reset(), which forgets the backends. */
static bool compiled_since(void) {
    bool imported;
    PyObject *n = global_of("torch._dynamo.convert_frame", "FRAME_COUNTER", &imported);
    bool yes = n && PyObject_IsTrue(n) == 1;
    Py_XDECREF(n);
    return yes;
}

/* Whether something was given to torch's compiler in this process, or that can't be known. */
static bool compiles(void) {
    bool imported;
    PyObject *backends = global_of("torch._dynamo.eval_frame", "cached_backends", &imported), *key, *value;
    bool yes = imported && (!backends || !PyDict_Check(backends));
    Py_ssize_t at = 0;
    while (backends && !yes && PyDict_Next(backends, &at, &key, &value)) yes = value != Py_None;
    Py_XDECREF(backends);
    return yes || (imported && compiled_since());
}

bool lmx_lead_ready(lmx_lead *lead, PyObject *function, lmx_led led) {
    if (!lead_way.looked) look();
    if (lead_way.code && compiles()) return false; /* compiled code asks for the function's own */
    if (!lead_way.usable || Py_TYPE(function) != lead_way.type) return false;
    lead_way.led = led;
    if (pointer_of(function) != lead_way.plain) return false;
    if (lead->function == function && has_code(function, lead->code)) return true;
    lmx_lead made = {0};
    if (!make(&made, function)) return false; /* the one before may be of use yet: code can be copied */
    clear(lead);
    *lead = made;
    return true;
}
