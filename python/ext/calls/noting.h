/* SPDX-License-Identifier: Apache-2.0
 * noting: what a capture keeps of one call of a module. */
#ifndef LMX_NOTING_H
#define LMX_NOTING_H

#include "calls/calls.h"
#include "observe/listeners.h"

/* One call that is being recorded in one capture. */
typedef struct lmx_entered {
    lmx_capture *capture; /* strong */
    int32_t module, call, inner, parent;
    bool hired;             /* with it the thread became the capture's worker */
    bool own;               /* a call of the class's own __call__, in which another call may follow */
    const lmx_given *given; /* the caller's, until the call is left */
} lmx_entered;

/* False only for an exception that must reach the user. */
bool lmx_note_entry(lmx_entered *f, PyObject *self, const lmx_given *given);
/* The call returned, or raised (NULL). False if an exception must replace the result. */
bool lmx_note_exit(lmx_entered *f, PyObject *result);
bool lmx_is_training(lmx_state *st, PyObject *module);
static inline lmx_call *lmx_call_at(lmx_capture *c, int32_t i) { return (lmx_call *)c->noted.calls.data + i; }

#endif
