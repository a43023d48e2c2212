/* SPDX-License-Identifier: Apache-2.0
 * The detours of classes that have a __call__ of their own, see own_call.h. */
#include "calls/own_call.h"
#include "base/ext.h"
#include "base/tables.h"

typedef struct own_call {
    lmx_detour detour;
    bool wanted;
    struct own_call *next;
} own_call;

static own_call *first;

/* The __call__ of the module's class, a new reference, if it is not that of torch.nn.Module; NULL without an
 * exception if it is. */
static PyObject *own_of(lmx_state *st, PyObject *module) {
    PyObject *own = PyObject_GetAttr((PyObject *)Py_TYPE(module), st->n___call__);
    PyObject *usual = PyObject_GetAttr((PyObject *)st->torch.module, st->n___call__);
    if (!own || own == usual) Py_CLEAR(own);
    Py_XDECREF(usual);
    PyErr_Clear();
    return own;
}

static own_call *find(const PyObject *function) {
    own_call *o = first;
    while (o && o->detour.function != function) o = o->next;
    return o;
}

static bool want(lmx_state *st, PyObject *module, lmx_detour_target to) {
    PyObject *own = own_of(st, module);
    if (!own) return true;
    own_call *o = find(own);
    bool ok = true;
    if (!o && (ok = (o = PyMem_Calloc(1, sizeof *o)) != NULL)) {
        if (lmx_detour_prepare(&o->detour, own, to, false) && lmx_detour_install(&o->detour)) {
            o->next = first;
            first = o;
        } else { /* it is no Python function, or another tool has changed how it is called */
            lmx_detour_clear(&o->detour);
            PyMem_Free(o);
            o = NULL;
        }
    }
    if (o) o->wanted = true;
    Py_DECREF(own);
    if (!ok) PyErr_NoMemory();
    return ok;
}

static void drop_unwanted(void) {
    bool ended;
    for (own_call **at = &first; *at;) {
        own_call *o = *at;
        if (o->wanted) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        lmx_detour_remove(&o->detour, &ended);
        lmx_detour_clear(&o->detour);
        PyMem_Free(o);
    }
}

bool lmx_own_calls(const lmx_root *roots, lmx_detour_target to) {
    bool ok = true;
    for (own_call *o = first; o; o = o->next) o->wanted = false;
    for (const lmx_root *r = roots; ok && r; r = r->next) ok = want(r->st, r->module, to);
    drop_unwanted();
    return ok;
}
