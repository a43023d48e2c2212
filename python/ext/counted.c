/* SPDX-License-Identifier: Apache-2.0
 * Calls that are counted, see counted.h. Most of them are one subtraction. */
#include "counted.h"

lmx_counted *lmx_roots;

static void let_go(lmx_counted *r) {
    if (--r->users) return;
    Py_XDECREF(r->told);
    PyMem_Free(r);
}

/* The answer to what is told; -1 with an exception. */
static int64_t tell(lmx_counted *r, int moment, bool training, int64_t left) {
    PyObject *told = r->told; /* who is told may stop counting */
    Py_INCREF(told);
    PyObject *answer = PyObject_CallFunction(told, "iiL", moment, (int)training, (long long)left);
    Py_DECREF(told);
    left = answer ? PyLong_AsLongLong(answer) : -1;
    Py_XDECREF(answer);
    return left;
}

static bool tell_begin(lmx_counted *r, PyObject *self, bool training) {
    if (r->sampler) {
        bool ok = lmx_sample_before(r->sampler, self, training, r->left);
        r->every_one = r->sampler && lmx_sampling(r->sampler);
        return ok;
    }
    int64_t left = r->left[training];
    r->left[training] = 0;
    left = tell(r, 0, training, left);
    if (PyErr_Occurred()) return false;
    r->every_one = left < 0;
    r->left[training] = left < 0 ? -1 - left : left;
    return true;
}

static PyObject *tell_end(lmx_counted *r, bool training, PyObject *result) {
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (!result) PyErr_Fetch(&type, &value, &trace);
    if (r->sampler)
        lmx_sample_after(r->sampler, !result);
    else
        tell(r, result ? 1 : 2, training, 0);
    if (type) PyErr_Restore(type, value, trace);
    if (result && PyErr_Occurred()) Py_CLEAR(result);
    return result;
}

bool lmx_count_begin(lmx_counted *r, PyObject *self, bool training, bool *told) {
    r->users++;
    r->inside = true;
    *told = r->every_one || !r->left[training];
    if (*told) return tell_begin(r, self, training);
    r->left[training]--;
    return true;
}

PyObject *lmx_count_end(lmx_counted *r, bool training, bool told, PyObject *result) {
    if (told && r->told) result = tell_end(r, training, result);
    r->inside = false;
    let_go(r);
    return result;
}

/* == beginning and ending ============================================================================== */

PyObject *lmx_count_calls(PyObject *module, PyObject *args) {
    PyObject *of, *told, *how = Py_None;
    long long left[2] = {0, 0};
    if (!PyArg_ParseTuple(args, "OO|O(LL):count", &of, &told, &how, &left[0], &left[1])) return NULL;
    lmx_state *st = lmx_state_of(module);
    lmx_sampler *sampler = how == Py_None ? NULL : lmx_sampler_new(st, how, told);
    if (!sampler && how != Py_None) return NULL;
    lmx_counted *r = PyMem_Calloc(1, sizeof *r);
    if (!r) {
        lmx_sampler_drop(sampler);
        return PyErr_NoMemory();
    }
    Py_INCREF(told);
    *r = (lmx_counted){.next = lmx_roots,
                       .st = st,
                       .module = of,
                       .told = told,
                       .sampler = sampler,
                       .left = {left[0], left[1]},
                       .users = 1};
    lmx_roots = r;
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
    if (!r || !r->sampler) Py_RETURN_NONE;
    return lmx_sample_end(r->sampler, record != 0);
}

PyObject *lmx_uncount_calls(PyObject *module, PyObject *address) {
    (void)module;
    const void *of = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred()) return NULL;
    lmx_counted **at = find(of), *r = *at;
    if (!r) Py_RETURN_NONE;
    *at = r->next;
    lmx_sampler *sampler = r->sampler;
    PyObject *numbers = sampler ? lmx_sample_numbers(sampler) : PyTuple_New(0);
    PyObject *left =
        numbers ? Py_BuildValue("((LL)N)", (long long)r->left[0], (long long)r->left[1], numbers) : NULL;
    Py_CLEAR(r->told);
    r->sampler = NULL;
    let_go(r);
    lmx_sampler_drop(sampler);
    return left;
}
