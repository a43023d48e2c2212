/* SPDX-License-Identifier: Apache-2.0
 * detour: redirects every call of a Python function to C, without changing the classes that contain it, so
 * that CPython's type caches stay valid. */
#ifndef LMX_DETOUR_H
#define LMX_DETOUR_H

#include "base/ext.h"

/* The C function: `args` are all arguments, then the values of the keywords in `names` (or NULL). */
typedef PyObject *(*lmx_detour_target)(PyObject *const *args, Py_ssize_t n, PyObject *names);

typedef struct lmx_detour {
    PyObject *function;               /* its calls are redirected; strong, as all of these */
    PyObject *copy;                   /* a copy of the function that is not redirected */
    PyObject *own_code, *detour_code; /* the function's code; its code while redirected, NULL: the same */
} lmx_detour;

/* Prepares a detour of the function, unless it is prepared already. False, without an exception, if this
 * function or this interpreter does not support it; the detour is then unchanged. */
bool lmx_detour_prepare(lmx_detour *detour, PyObject *function, lmx_detour_target target);
/* Starts redirecting; true on success. One detour at a time may be active. */
bool lmx_detour_install(lmx_detour *detour);
/* False if other code replaced the function's code: that stays. `*ended` is false if memory ran out before
 * everything was restored: call it again. */
bool lmx_detour_remove(lmx_detour *detour, bool *ended);
/* Calls whose first argument is another object may go to the copy at once (None: all may); NULL: none may. */
void lmx_detour_limit_to(PyObject *object);

#endif
