/* SPDX-License-Identifier: Apache-2.0
 * first_failure: reports a finding while the capture is still open, with the calls so far. */
#ifndef LMX_FIRST_FAILURE_H
#define LMX_FIRST_FAILURE_H

#include "observe/open_capture.h"

#include <stdatomic.h>

typedef struct lmx_first_failure {
    struct lmx_first_failure *next; /* among those that are open */
    lmx_capture *capture;   /* not owned; NULL: it is not open */
    PyObject *tell;         /* tell(model, error) returns true once it has reported; NULL: not requested */
    int32_t tries;          /* the number of calls of `tell` */
    atomic_bool reported, seen; /* seen: something that may be a finding */
    lam_status (*push)(void *self, lam_builder *b, lam_error *e); /* what was found so far */
    void *self;
} lmx_first_failure;

/* Under the GIL. */
void lmx_first_failure_open(lmx_first_failure *t, lmx_capture *c);
void lmx_first_failure_close(lmx_first_failure *t);
/* From a thread that runs a backward pass, with or without the GIL: schedules a report by Python. */
void lmx_first_failure_call(lmx_first_failure *t);
/* Under the GIL: reports once, if something was seen or `raised`. Leaves no exception. */
void lmx_first_failure_tell(lmx_first_failure *t, PyObject *raised);

#endif
