/* SPDX-License-Identifier: Apache-2.0
 * The analysis decides whether a record is a finding. So this builds a model of the records so far, of names
 * and calls alone, and passes it to `tell`, which returns true once it has reported. */
#include "measure/first_failure.h"
#include "base/ext.h"
#include "modules/tree.h"
#include "observe/open_capture.h"

enum { TRIES = 16 };

static lmx_first_failure *first; /* under the GIL */

void lmx_first_failure_open(lmx_first_failure *t, lmx_capture *c) {
    if (!t->tell) return;
    t->capture = c;
    t->next = first;
    first = t;
}

void lmx_first_failure_close(lmx_first_failure *t) {
    lmx_first_failure **at = &first;
    while (*at && *at != t) at = &(*at)->next;
    if (*at) *at = t->next;
    t->capture = NULL;
}

static bool is_open(const lmx_first_failure *t) {
    for (const lmx_first_failure *at = first; at; at = at->next)
        if (at == t) return true;
    return false;
}

static bool is_enough(lmx_capture *c, PyObject *tell, lam_model *m, PyObject *raised) {
    PyObject *model = lmx_model_wrap(c->st, m);
    PyObject *done =
        model ? PyObject_CallFunctionObjArgs(tell, model, raised ? raised : Py_None, NULL) : NULL;
    bool enough = done == Py_True;
    Py_XDECREF(done);
    Py_XDECREF(model);
    PyErr_Clear();
    return enough;
}

/* Another thread may close the capture while `tell` runs. */
void lmx_first_failure_tell(lmx_first_failure *t, PyObject *raised) {
    if (!t->capture || t->reported || !(atomic_exchange(&t->seen, false) || raised)) return;
    if (t->tries++ >= TRIES && !raised) return;
    lmx_capture *c = t->capture;
    PyObject *tell = t->tell;
    lam_model *m = NULL;
    t->reported = true; /* ignores calls made while `tell` runs */
    Py_INCREF((PyObject *)c);
    Py_INCREF(tell);
    bool reported = lmx_describe_so_far(c, t->push, t->self, &m) && is_enough(c, tell, m, raised);
    if (!reported && is_open(t)) t->reported = false;
    PyErr_Clear();
    Py_DECREF(tell);
    Py_DECREF(c);
}

static int tell_pending(void *unused) {
    (void)unused;
    for (lmx_first_failure *t = first; t; t = t->next) {
        if (!t->seen || t->reported) continue;
        lmx_first_failure_tell(t, NULL);
        t = first; /* `tell` may have changed the list */
        if (!t) break;
    }
    return 0;
}

/* If Python can't schedule the report, the next call of a module or the end of the capture reports. */
void lmx_first_failure_call(lmx_first_failure *t) {
    if (t->tell && !t->reported && !atomic_exchange(&t->seen, true)) Py_AddPendingCall(tell_pending, NULL);
}
