/* SPDX-License-Identifier: Apache-2.0
 * sample: the recorded steps of a root whose calls are counted in C (watch.c), from the first call of a step
 * to the recorder, without running Python code. */
#ifndef LMX_SAMPLE_H
#define LMX_SAMPLE_H

#include "observe/capture.h"
#include "calls/turns.h"

typedef struct lmx_sampler lmx_sampler;

/* From (recorder, root's number, its name, nodes, told_of_compiling). `told(3, 0, exception)` is called when
 * a step can't be recorded, `told(4, 0, None)` when the next one can't be seen from C. NULL with an
 * exception. */
lmx_sampler *lmx_sampler_new(lmx_state *st, PyObject *how, lmx_turns *turns, PyObject *told);
/* Frees it; a step in progress is not recorded. NULL is allowed. */
void lmx_sampler_drop(lmx_sampler *s);
/* A call of the root begins, which was not skipped (turns.h). False with an exception that must reach the
 * user. */
bool lmx_sample_before(lmx_sampler *s, PyObject *module, int kind);
/* The call returned or raised; the same. */
bool lmx_sample_after(lmx_sampler *s, bool raised);
/* Ends the step in progress, if there is one, or discards it. False with an exception. */
bool lmx_sample_end(lmx_sampler *s, bool record);
int lmx_gradients(lmx_state *st); /* whether torch makes graphs now; -1 with an exception */

/* A capture of callers, callees, times and nodes alone; open it with lmx_capture_open (capture.c). */
lmx_capture *lmx_capture_brief(lmx_state *st, PyObject *root, bool nodes);
bool lmx_capture_open(lmx_capture *c); /* False with an exception */
bool lmx_rests(void);                  /* the method stays in place between captures (watch.c) */
lam_recorder *lmx_recorder_of(lmx_state *st, PyObject *o); /* NULL with an exception (record.c) */

#endif
