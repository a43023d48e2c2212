/* SPDX-License-Identifier: Apache-2.0
 * Who wants the calls of modules: the captures that are open, in all threads, and a finder of roots. Guarded
 * by the GIL. */
#include "calls/calls.h"
#include "calls/detour.h"
#include "calls/root.h"

lmx_capture *lmx_first_open;
PyObject *lmx_root_finder;

bool lmx_may_open(lmx_capture *c) {
    int same_thread = 0;
    for (lmx_capture *o = lmx_first_open; o; o = o->next) same_thread += o->threads.owner == c->threads.owner;
    if (same_thread < LMX_NESTED) return true;
    lmx_fail(c->st, LAM_LIMIT, NULL, "%d captures are open in this thread already; close some first",
             LMX_NESTED);
    return false;
}

void lmx_add_open(lmx_capture *c) {
    c->next = lmx_first_open;
    lmx_first_open = c;
}

void lmx_remove_open(lmx_capture *c) {
    lmx_capture **at = &lmx_first_open;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    c->next = NULL;
}

/* Between recorded steps of one root, calls of all other modules need not come here. */
void lmx_limit_calls(void) {
    const lmx_root *r = lmx_roots;
    const bool limited = !lmx_first_open && !lmx_root_finder && !(r && r->next);
    lmx_detour_limit_to(limited, r ? r->module : NULL);
}

PyObject *lmx_find_roots(PyObject *module, PyObject *finder) {
    (void)module;
    PyObject *before = lmx_root_finder;
    lmx_root_finder = finder == Py_None ? NULL : finder;
    Py_XINCREF(lmx_root_finder);
    Py_XDECREF(before);
    lmx_limit_calls();
    Py_RETURN_NONE;
}
