/* SPDX-License-Identifier: Apache-2.0
 * counted: modules whose calls are counted in C (watch.c), with callbacks for some calls. */
#ifndef LMX_COUNTED_H
#define LMX_COUNTED_H

#include "calls/sample.h"

typedef struct lmx_counted {
    struct lmx_counted *next;
    lmx_state *st;
    PyObject *module;     /* borrowed: its owner stops counting before it is deleted */
    PyObject *told;       /* strong, the callback; NULL: it is no longer counted */
    lmx_turns *turns;     /* strong */
    lmx_sampler *sampler; /* records steps; NULL: the callback does */
    int users;            /* the list, and the calls in progress */
    bool inside;          /* a call is in progress; calls inside it are not counted */
} lmx_counted;
extern lmx_counted *lmx_roots; /* guarded by the GIL */
void lmx_calls_wanted(void);   /* call it when that list has changed (watch.c) */

/* A call begins in that mode; *told: its end must be reported. False: the call must not be made. */
bool lmx_count_begin(lmx_counted *r, PyObject *self, bool training, bool *told);
/* The call ended with `result`, or NULL with an exception, which is kept. */
PyObject *lmx_count_end(lmx_counted *r, bool told, PyObject *result);

/* Called for each module that is called outside any other, while the redirection stays; NULL: none. */
extern PyObject *lmx_root_finder;
extern __thread bool lmx_within_root; /* such a call is under way in this thread */
/* Such a call begins: Py_None, what is to be called instead, or NULL with an exception; and has ended. */
PyObject *lmx_found_begin(PyObject *self);
void lmx_found_end(PyObject *instead);

#endif
