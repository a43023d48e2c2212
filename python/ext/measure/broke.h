/* SPDX-License-Identifier: Apache-2.0
 * broke: reports a finding while the capture is still open, with the calls so far. */
#ifndef LMX_BROKE_H
#define LMX_BROKE_H

#include "observe/capture.h"

#include <stdatomic.h>

typedef struct lmx_broke {
    struct lmx_broke *next; /* among those that are open */
    lmx_capture *capture;   /* not owned; NULL: it is not open */
    PyObject *tell;         /* tell(model, error) returns true once it has reported; NULL: not requested */
    int32_t tries;          /* the number of its calls */
    atomic_bool told, seen; /* seen: something that may be a finding */
    lam_status (*push)(void *self, lam_builder *b, lam_error *e); /* what was found so far */
    void *self;
} lmx_broke;

/* Under the GIL. */
void lmx_broke_open(lmx_broke *t, lmx_capture *c);
void lmx_broke_close(lmx_broke *t);
/* From a thread that runs a backward pass, with or without the GIL: schedules a report by Python. */
void lmx_broke_call(lmx_broke *t);
/* Under the GIL: reports once, if something was seen or `raised`. Leaves no exception. */
void lmx_broke_tell(lmx_broke *t, PyObject *raised);

#endif
