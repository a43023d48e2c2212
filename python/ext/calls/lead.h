/* SPDX-License-Identifier: Apache-2.0
 * lead: redirects every call of a Python function to C, without changing the classes that contain it, so that
 * CPython's type caches stay valid. */
#ifndef LMX_LEAD_H
#define LMX_LEAD_H

#include "base/ext.h"

/* The C function: `args` are all arguments, then the values of the keywords in `names` (or NULL). */
typedef PyObject *(*lmx_led)(PyObject *const *args, Py_ssize_t n, PyObject *names);

typedef struct lmx_lead {
    PyObject *function;     /* its calls are redirected; strong, as all of these */
    PyObject *twin;         /* a copy of the function that is not redirected */
    PyObject *code, *ahead; /* its own code; its code while redirected, or NULL: it keeps its own */
} lmx_lead;

/* Prepares a lead for the function; a lead that is ready for it stays unchanged. False, without an exception,
 * if this function or this interpreter does not support it; the lead is then unchanged. */
bool lmx_lead_ready(lmx_lead *lead, PyObject *function, lmx_led led);
/* Starts redirecting; true on success. One lead at a time may be active. */
bool lmx_lead_begin(lmx_lead *lead);
/* False if other code replaced the function's code: that stays. `*ended` is false if memory ran out before
 * everything was restored: call it again. */
bool lmx_lead_end(lmx_lead *lead, bool *ended);
/* Calls whose first argument is another object may go to the twin at once (None: all may); NULL: none may. */
void lmx_lead_only(PyObject *object);

#endif
