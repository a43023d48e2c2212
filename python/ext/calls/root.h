/* SPDX-License-Identifier: Apache-2.0
 * root: the type Root, a module whose calls are counted and of which some steps are recorded.
 *
 * Calls are counted in C (module_call.c), or by Python where torch's compiler may be used (_watch.py).
 * Both report each call to the same functions, lmx_on_begin and the two after it, which open a capture for
 * a step, close it, and pass its observations to the recorder. Python makes the capture if more than times
 * is wanted. */
#ifndef LMX_ROOT_H
#define LMX_ROOT_H

#include "calls/handover.h"
#include "calls/schedule.h"

#include <sys/types.h>

typedef struct lmx_root {
    PyObject_HEAD struct lmx_root *next; /* in lmx_roots */
    lmx_state *st;
    PyObject *module; /* C counts its calls; borrowed: its owner ends that before it is deleted; or NULL */
    lmx_schedule *schedule; /* strong; NULL until __init__ ran */
    bool inside;            /* a call that C counts is in progress; calls inside it are not counted */
    bool retired;           /* no step may begin any more */
    bool times_only;        /* C makes the captures of calls that it counts */
    bool sees_nodes;        /* nodes of backward passes are watched */
    int32_t number;
    PyObject *name;     /* str, strong */
    PyObject *recorder; /* strong */
    PyObject
        *start_callbacks; /* torch's list of callbacks before it compiles, strong; NULL until C counts */
    pid_t process;
    lmx_handover handover;
    /* the step in progress */
    struct lmx_root *next_open; /* among roots with a step in progress, oldest first */
    lmx_capture *capture;       /* strong; NULL: there is none */
    PyObject *close;            /* closes a capture that Python made, strong; or NULL */
    bool compiles_nothing;      /* while the step is open, no code is compiled */
    lam_step_info about;
    unsigned long thread; /* on which it began */
} lmx_root;

/* == counting (step.c) ================================================================================= */

extern lmx_root *lmx_roots;  /* those whose calls C counts; guarded by the GIL */
void lmx_calls_wanted(void); /* call it when that list has changed (module_call.c) */

/* A call that C counts begins; *seen: its end must be reported. False: the call must not be made. */
bool lmx_count_begin(lmx_root *r, PyObject *self, bool training, bool *seen);
/* That call ended with `result`, or NULL with an exception, which is kept. */
PyObject *lmx_count_end(lmx_root *r, bool seen, PyObject *result);

/* == steps (step.c): each is false with an exception that must reach the user =========================== */

/* A call of the root, `module` or a wrapper of it, begins. The schedule did not skip it. */
bool lmx_on_begin(lmx_root *r, PyObject *module, int kind);
/* That call has ended. */
bool lmx_on_end(lmx_root *r);
/* That call has raised; the caller has saved the exception. */
bool lmx_on_raise(lmx_root *r);
/* torch is about to compile code, which must not happen while a capture is open. */
bool lmx_on_compile(lmx_root *r);
/* Ends the step in progress, if there is one, and records it; or gives it up, and the next one is recorded in
 * its place. */
bool lmx_end_step(lmx_root *r);
bool lmx_give_up_step(lmx_root *r);
void lmx_drop_step(lmx_root *r); /* as lmx_give_up_step, but calls no method of the root */

#endif
