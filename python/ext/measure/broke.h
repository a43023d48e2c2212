/* SPDX-License-Identifier: Apache-2.0
 * broke: tells, while a capture is still open, that something broke in it, with what was seen up to there. */
#ifndef LMX_BROKE_H
#define LMX_BROKE_H

#include "observe/capture.h"

#include <stdatomic.h>

typedef struct lmx_broke {
    struct lmx_broke *next; /* among those that are open */
    lmx_capture *capture;   /* not owned; NULL: it is not open */
    PyObject *tell;         /* tell(model, error) is true once it has told; NULL: nobody wants to know */
    int32_t tries;          /* how often it was asked */
    atomic_bool told, seen; /* seen: something that may be a finding */
    lam_status (*push)(void *self, lam_builder *b, lam_error *e); /* what was found so far */
    void *self;
} lmx_broke;

/* Under the GIL. */
void lmx_broke_open(lmx_broke *t, lmx_capture *c);
void lmx_broke_close(lmx_broke *t);
/* From a thread that runs a backward pass, with or without the GIL: has Python tell as soon as it can. */
void lmx_broke_call(lmx_broke *t);
/* Under the GIL: tells if something was seen, or `raised`, and it was not told yet. Leaves no exception. */
void lmx_broke_tell(lmx_broke *t, PyObject *raised);

#endif
