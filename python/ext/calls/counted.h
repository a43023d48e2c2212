/* SPDX-License-Identifier: Apache-2.0
 * counted: modules whose calls are counted by what leads calls to C (watch.c), and who is told of some. */
#ifndef LMX_COUNTED_H
#define LMX_COUNTED_H

#include "calls/sample.h"

typedef struct lmx_counted {
    struct lmx_counted *next;
    lmx_state *st;
    PyObject *module;     /* borrowed: whoever counts it stops when it goes */
    PyObject *told;       /* strong; NULL: nobody counts it any more */
    lmx_turns *turns;     /* strong */
    lmx_sampler *sampler; /* who sees and records steps; NULL: whoever is told */
    int users;            /* the list, and the calls that are under way */
    bool inside;          /* of a call; those inside it are not counted */
} lmx_counted;
extern lmx_counted *lmx_roots; /* guarded by the GIL */
void lmx_calls_wanted(void);   /* to be called when that list changed (watch.c) */

/* A call of it begins in that mode; *told: somebody has to know of its end. False where it must not be made.
 */
bool lmx_count_begin(lmx_counted *r, PyObject *self, bool training, bool *told);
/* It has ended so: the result, or NULL with an exception, which is kept. */
PyObject *lmx_count_end(lmx_counted *r, bool told, PyObject *result);

/* Asked about each module that is called outside any other, while ours rests; NULL: nobody is. */
extern PyObject *lmx_root_finder;
extern __thread bool lmx_within_root; /* such a call is under way in this thread */
/* Such a call begins: Py_None, what is to be called instead, or NULL with an exception; and has ended. */
PyObject *lmx_found_begin(PyObject *self);
void lmx_found_end(PyObject *instead);

#endif
