/* SPDX-License-Identifier: Apache-2.0
 * root: the type Root, a module whose calls are counted and of which some steps are recorded.
 *
 * Calls are counted in C (module_call.c), which reports them to the root's `counting`. That opens a capture
 * for a step, closes it, and passes its observations to the recorder. Python makes the capture if more than
 * times is wanted. In the first two steps of each kind of calls operators are watched too, and counted. */
#ifndef LMX_ROOT_H
#define LMX_ROOT_H

#include "calls/schedule.h"
#include "calls/send_step.h"

#include <sys/types.h>

typedef struct lmx_root lmx_root;

/* begin: a call of the root begins; *seen: its end must be reported. False with an exception: the call must
 * not be made. end: that call ended with `result`, or NULL with an exception, which is kept. */
typedef struct lmx_counting {
    bool (*begin)(lmx_root *r, bool training, bool *seen);
    PyObject *(*end)(lmx_root *r, bool seen, PyObject *result);
} lmx_counting;

/* Steps of one kind of calls that were counted: two that are alike, to see whether they compute the same.
 * Those that differ in how many calls they have, or in having a backward pass, are unlike. */
enum { LMX_UNLIKE = 4, LMX_ALIKE = 2 };
typedef struct lmx_counted {
    int32_t n;
    bool enough; /* of those that are like the last recorded step */
    struct {
        int64_t calls;
        bool went_back;
        int32_t times;
    } of[LMX_UNLIKE];
} lmx_counted;

struct lmx_root {
    PyObject_HEAD struct lmx_root *next; /* in lmx_roots */
    const lmx_counting *counting;
    lmx_state *st;
    PyObject *module; /* its calls are counted; borrowed: the owner ends that before it is deleted; or NULL */
    lmx_schedule *schedule; /* strong; NULL until __init__ ran */
    bool inside;            /* a call is in progress; calls inside it are not counted */
    bool retired;           /* no step may begin any more */
    bool times_only;        /* C makes the captures */
    bool sees_nodes;        /* nodes of backward passes are watched */
    lmx_counted counted[LMX_KINDS]; /* steps whose operators were counted, by the kind of their calls */
    int32_t n_counted;              /* all of them */
    int32_t number;
    PyObject *name;     /* str, strong */
    PyObject *recorder; /* strong */
    lam_pace *pace;     /* the recorder's */
    pid_t process;
    lmx_handover handover;
    /* the step in progress */
    struct lmx_root *next_open; /* among roots with a step in progress, oldest first */
    lmx_capture *capture;       /* strong; NULL: there is none */
    PyObject *close;            /* closes a capture that Python made, strong; or NULL */
    lam_step_info about;
    bool raised; /* its call did */
    lam_step_work work;
    lmi_vec spans;        /* lam_step_span: those of the last step that ended */
    unsigned long thread; /* on which it began */
    int64_t starved_ns;   /* how long that thread had been without a processor then; -1 unknown */
};

/* == counting (step.c) ================================================================================= */

extern lmx_root *lmx_roots; /* those whose calls are counted; guarded by the GIL */
/* Call it when that list has changed. False with an exception (module_call.c). */
bool lmx_roots_changed(void);

extern const lmx_counting lmx_counts_steps;

/* == steps (step.c): each is false with an exception that must reach the user =========================== */

/* Ends the step in progress, if there is one, and records it; or gives it up, and the next one is recorded in
 * its place. */
bool lmx_end_step(lmx_root *r);
bool lmx_give_up_step(lmx_root *r);
void lmx_drop_step(lmx_root *r); /* as lmx_give_up_step, but calls no method of the root */

#endif
