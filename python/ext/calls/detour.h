/* SPDX-License-Identifier: Apache-2.0
 * detour: redirects every call of a Python function to C, without changing the classes that contain it, so
 * that CPython's type caches stay valid. */
#ifndef LMX_DETOUR_H
#define LMX_DETOUR_H

#include "base/ext.h"

typedef struct lmx_detour lmx_detour;

/* The C function: `args` are all arguments, then the values of the keywords in `names` (or NULL). */
typedef PyObject *(*lmx_detour_target)(const lmx_detour *detour, PyObject *const *args, Py_ssize_t n,
                                       PyObject *names);

struct lmx_detour {
    PyObject *function;               /* its calls are redirected; strong, as all of these */
    PyObject *copy;                   /* a copy of the function that is not redirected */
    PyObject *own_code, *detour_code; /* the function's code; its code while redirected, NULL: the same */
    lmx_detour_target target;
    lmx_detour *next; /* among those that are installed */
};

/* True if this interpreter follows a detour in calls of the function by its name (m.__call__(x)) only if the
 * function has other code meanwhile. torch's compiler sees that code; nothing else of a detour does it see.
 */
bool lmx_detour_needs_code(void);
/* Prepares a detour of the function, unless it is prepared already. `with_code`: the function may have other
 * code meanwhile; one detour at a time may. False, without an exception, if this function or this interpreter
 * does not support it; the detour is then unchanged. */
bool lmx_detour_prepare(lmx_detour *detour, PyObject *function, lmx_detour_target target, bool with_code);
/* Starts redirecting; true on success. The detour must stay where it is until it is removed. */
bool lmx_detour_install(lmx_detour *detour);
/* False if other code replaced the function's code: that stays. `*ended` is false if memory ran out before
 * everything was restored: call it again. */
bool lmx_detour_remove(lmx_detour *detour, bool *ended);
void lmx_detour_clear(lmx_detour *detour); /* for one that is not installed */
/* Calls whose first argument is neither this object nor one of torch.compile's wrappers may go to the copies
 * at once; none may if `limited` is false. */
void lmx_detour_limit_to(bool limited, PyObject *object);

#endif
