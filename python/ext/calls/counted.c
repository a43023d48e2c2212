/* SPDX-License-Identifier: Apache-2.0
 * Calls that are counted, see counted.h. Most of them are one addition. */
#include "calls/counted.h"
#include "base/ext.h"
#include "calls/calls.h"
#include "calls/sample.h"
#include "calls/turns.h"

lmx_counted *lmx_roots;

LMX_OFTEN static void let_go(lmx_counted *r) {
    if (--r->users) return;
    Py_XDECREF(r->told);
    Py_DECREF((PyObject *)r->turns);
    PyMem_Free(r);
}

/* False with an exception. */
static bool tell(lmx_counted *r, int moment, int kind) {
    PyObject *told = r->told; /* who is told may stop counting */
    Py_INCREF(told);
    PyObject *answer = PyObject_CallFunction(told, "iiO", moment, kind, Py_None);
    Py_DECREF(told);
    Py_XDECREF(answer);
    return answer != NULL;
}

static PyObject *tell_end(lmx_counted *r, PyObject *result) {
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    if (r->sampler)
        lmx_sample_after(r->sampler, !result);
    else
        tell(r, result ? 1 : 2, 0);
    if (type) PyErr_Restore(type, value, trace);
    if (result && PyErr_Occurred()) Py_CLEAR(result);
    return result;
}

LMX_OFTEN bool lmx_count_begin(lmx_counted *r, PyObject *self, bool training, bool *told) {
    const int grad = lmx_gradients(r->st), kind = (training ? LMX_TRAINING : 0) | (grad > 0 ? LMX_GRAD : 0);
    r->users++;
    r->inside = true;
    *told = false;
    if (grad < 0) return false;
    if (lmx_turns_skip(r->turns, kind)) return true;
    *told = true;
    return r->sampler ? lmx_sample_before(r->sampler, self, kind) : tell(r, 0, kind);
}

LMX_OFTEN PyObject *lmx_count_end(lmx_counted *r, bool told, PyObject *result) {
    if (told && r->told) result = tell_end(r, result);
    r->inside = false;
    let_go(r);
    return result;
}

/* == roots that are not known yet ====================================================================== */

PyObject *lmx_root_finder;
__thread bool lmx_within_root;

PyObject *lmx_found_begin(PyObject *self) {
    PyObject *finder = lmx_root_finder; /* who is asked may end it */
    lmx_within_root = true;
    Py_INCREF(finder);
    PyObject *instead = PyObject_CallFunctionObjArgs(finder, self, NULL);
    Py_DECREF(finder);
    return instead;
}

void lmx_found_end(PyObject *instead) {
    lmx_within_root = false;
    Py_XDECREF(instead);
}

PyObject *lmx_find_roots(PyObject *module, PyObject *finder) {
    (void)module;
    PyObject *before = lmx_root_finder;
    lmx_root_finder = finder == Py_None ? NULL : finder;
    Py_XINCREF(lmx_root_finder);
    Py_XDECREF(before);
    lmx_calls_wanted();
    Py_RETURN_NONE;
}

PyObject *lmx_within_found(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyBool_FromLong(lmx_within_root);
}

/* == beginning and ending ============================================================================== */

PyObject *lmx_count_calls(PyObject *module, PyObject *args) {
    PyObject *of, *turns, *told, *how = Py_None;
    if (!PyArg_ParseTuple(args, "OOO|O:count", &of, &turns, &told, &how)) return NULL;
    lmx_state *st = lmx_state_of(module);
    lmx_turns *t = lmx_turns_of(st, turns);
    lmx_sampler *sampler = t && how != Py_None ? lmx_sampler_new(st, how, t, told) : NULL;
    if (!t || (!sampler && how != Py_None)) return NULL;
    lmx_counted *r = PyMem_Calloc(1, sizeof *r);
    if (!r) {
        lmx_sampler_drop(sampler);
        return PyErr_NoMemory();
    }
    Py_INCREF(told);
    Py_INCREF(turns);
    *r = (lmx_counted){
        .next = lmx_roots, .st = st, .module = of, .told = told, .turns = t, .sampler = sampler, .users = 1};
    lmx_roots = r;
    lmx_calls_wanted();
    Py_RETURN_NONE;
}

static lmx_counted **find(const void *module) {
    lmx_counted **at = &lmx_roots;
    while (*at && (*at)->module != module) at = &(*at)->next;
    return at;
}

PyObject *lmx_end_step(PyObject *module, PyObject *args) {
    PyObject *address;
    int record;
    (void)module;
    if (!PyArg_ParseTuple(args, "Op:end_step", &address, &record)) return NULL;
    const void *of = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred()) return NULL;
    const lmx_counted *r = *find(of);
    if (r && r->sampler && !lmx_sample_end(r->sampler, record != 0)) return NULL;
    Py_RETURN_NONE;
}

PyObject *lmx_uncount_calls(PyObject *module, PyObject *address) {
    (void)module;
    const void *of = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred()) return NULL;
    lmx_counted **at = find(of), *r = *at;
    if (!r) Py_RETURN_NONE;
    *at = r->next;
    lmx_calls_wanted();
    lmx_sampler *sampler = r->sampler;
    Py_CLEAR(r->told);
    r->sampler = NULL;
    let_go(r);
    lmx_sampler_drop(sampler);
    Py_RETURN_NONE;
}
