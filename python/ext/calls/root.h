/* SPDX-License-Identifier: Apache-2.0
 * root: the type Root, a module whose calls are counted and of which some steps are recorded.
 *
 * Calls are counted in C (module_call.c), or by Python where torch's compiler may be used (_watch.py). Both
 * report each call to the same functions, lmx_on_begin and the two after it, which open a capture for a step,
 * close it, and hand over what it saw. Python makes the capture where more than times is asked for. */
#ifndef LMX_ROOT_H
#define LMX_ROOT_H

#include "calls/handover.h"
#include "calls/schedule.h"

#include <sys/types.h>

typedef struct lmx_root {
    PyObject_HEAD struct lmx_root *next; /* in lmx_roots */
    lmx_state *st;
    PyObject *module; /* whose calls C counts, borrowed: its owner ends that before it is deleted; or NULL */
    lmx_schedule *schedule; /* strong; NULL until __init__ ran */
    bool inside;            /* a call that C counts is in progress; calls inside it are not counted */
    bool retired;           /* no step may begin any more */
    bool times_only;        /* C makes the captures of calls that it counts */
    bool sees_nodes;        /* nodes of backward passes are watched */
    int32_t number;
    PyObject *name;     /* str, strong */
    PyObject *recorder; /* strong */
    PyObject
        *start_callbacks; /* torch's list of what it calls before it compiles, strong; NULL until C counts */
    pid_t process;
    lmx_handover handover;
    /* the step in progress */
    struct lmx_root *next_open; /* among those that have one, oldest first */
    lmx_capture *capture;       /* strong; NULL: there is none */
    PyObject *close;            /* closes a capture that Python made, strong; or NULL */
    bool compiles_nothing;      /* while it is open */
    lam_step_info about;
    unsigned long thread; /* on which it began */
} lmx_root;

/* == counting (step.c) ================================================================================= */

extern lmx_root *lmx_roots;  /* whose calls C counts; guarded by the GIL */
void lmx_calls_wanted(void); /* call it when that list has changed (module_call.c) */

/* A call that C counts begins; *seen: its end must be reported. False: the call must not be made. */
bool lmx_count_begin(lmx_root *r, PyObject *self, bool training, bool *seen);
/* It ended with `result`, or NULL with an exception, which is kept. */
PyObject *lmx_count_end(lmx_root *r, bool seen, PyObject *result);

/* == steps (step.c): each is false with an exception that must reach the user =========================== */

/* A call of the root, `module` or a wrapper of it, begins, which the schedule did not skip. */
bool lmx_on_begin(lmx_root *r, PyObject *module, int kind);
/* It has ended. */
bool lmx_on_end(lmx_root *r);
/* It has raised; the caller has put the exception aside. */
bool lmx_on_raise(lmx_root *r);
/* Something is about to be compiled, which must not meet a capture. */
bool lmx_on_compile(lmx_root *r);
/* Ends the step in progress, if there is one, and records it; or gives it up, and the next one is recorded in
 * its place. */
bool lmx_end_step(lmx_root *r);
bool lmx_give_up_step(lmx_root *r);
void lmx_drop_step(lmx_root *r); /* as lmx_give_up_step, and calls no method of the root */

#endif
