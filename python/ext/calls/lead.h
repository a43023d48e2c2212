/* SPDX-License-Identifier: Apache-2.0
 * lead: has C called instead of a Python function, whoever calls it and however, and without a word to the
 * classes it is in: what CPython remembers of them stays good. */
#ifndef LMX_LEAD_H
#define LMX_LEAD_H

#include "base/base.h"

/* What is called instead: `args` are all arguments, then the values of the keywords in `names` (or NULL). */
typedef PyObject *(*lmx_led)(PyObject *const *args, Py_ssize_t n, PyObject *names);

typedef struct lmx_lead {
    PyObject *function;     /* whose calls are led; strong, as all of these */
    PyObject *twin;         /* does what it does when it is not led */
    PyObject *code, *ahead; /* its own code; what it has instead meanwhile, or NULL: it keeps its own */
} lmx_lead;

/* Gets a lead ready for the function; a lead that is for it already stays as it is. False, without an
 * exception, where this can't be done with it, or in this interpreter; then the lead is what it was. */
bool lmx_lead_ready(lmx_lead *lead, PyObject *function, lmx_led led);
/* True when it was begun. One lead at a time may be on. */
bool lmx_lead_begin(lmx_lead *lead);
/* False when the code that the function has is somebody's: it stays. `*ended` is false when memory ran out
 * before all was put back; then it is to be called again. */
bool lmx_lead_end(lmx_lead *lead, bool *ended);
/* Calls whose first argument is another object may go to the twin at once (None: all may); NULL: none may. */
void lmx_lead_only(PyObject *object);

#endif
