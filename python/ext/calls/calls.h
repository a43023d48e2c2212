/* SPDX-License-Identifier: Apache-2.0
 * calls: calls of modules, which are redirected to C. */
#ifndef LMX_CALLS_H
#define LMX_CALLS_H

#include "modules/tree.h"

/* Redirects calls of torch.nn.Module.__call__ to C, and lists the capture. False with an exception. */
bool lmx_capture_attach(lmx_capture *c);
/* Ends the redirection for this capture; allowed at any time, from any thread. Keeps a pending exception. */
void lmx_capture_detach(lmx_capture *c);
/* rest(True) keeps nn.Module redirected between captures; each one needs one rest(False). */
PyObject *lmx_rest(PyObject *module, PyObject *wanted);
PyObject *lmx_in_place(PyObject *module, PyObject *unused); /* in_place(): true if the redirection is in
                                                             * place */
/* compiling(True): torch's compiler begins to work on this thread. compiling(False): it has ended. Between
 * these it traces nothing of lamina's, and the captures of recorded steps ignore what it runs. */
PyObject *lmx_compiling(PyObject *module, PyObject *works);
/* aside(True): inspect begins to run a model on this thread; its calls are no steps. aside(False): it has
 * ended. */
PyObject *lmx_aside(PyObject *module, PyObject *works);
/* find(finder): while the redirection stays, `finder` is called before each module that is called outside any
 * other; it returns None, or a function to call instead. find(None) ends that. */
PyObject *lmx_find_roots(PyObject *module, PyObject *finder);
/* The open captures, newest first (`next`); not owned: each removes itself when it is dropped (open.c). */
extern lmx_capture *lmx_first_open;
enum { LMX_NESTED = 8 };           /* in one thread */
bool lmx_may_open(lmx_capture *c); /* False with an exception: too many are open in its thread */
void lmx_add_open(lmx_capture *c);
void lmx_remove_open(lmx_capture *c);
/* Called for each module that is called outside any other; NULL: none (lmx_find_roots). */
extern PyObject *lmx_root_finder;
/* Call it when the open captures, the finder or the roots have changed. */
void lmx_limit_calls(void);
extern unsigned long lmx_compiler_thread; /* the one on which torch's compiler works; 0: none (attach.c) */
/* The runs of inspect on all threads, which is faster to read, and on this one: their calls are no steps. */
extern int lmx_all_aside;
extern __thread int lmx_runs_aside;
/* last_words(what): a signal that ends the process is told in one line, which begins with `what` and names
 * the layer that runs. end_at_interrupt(milliseconds): the process ends so long after a Ctrl-C, whatever it
 * does. None ends either; both return whether they are on (signals.c). */
PyObject *lmx_say_last_words(PyObject *module, PyObject *what);
PyObject *lmx_interrupted(PyObject *module, PyObject *milliseconds);
/* Notes one call of the root that ran without the capture, and closes the capture, which was never open. */
bool lmx_note(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *result);
PyObject *lmx_one_call(PyObject *module, PyObject *args); /* capture.c */

/* A capture of callers, callees, times and nodes alone; open it with lmx_capture_open (capture.c). */
lmx_capture *lmx_capture_brief(lmx_state *st, PyObject *root, bool nodes);
bool lmx_capture_open(lmx_capture *c); /* False with an exception */

/* lmx_observe, lmx_unobserve and lmx_observe_call for a capture with a dispatch mode (dispatch.c). Only its
 * own thread can remove the mode: closed by another, it notes nothing, and is removed when that thread opens
 * or closes another. */
bool lmx_dispatch(lmx_capture *c);
void lmx_undispatch(lmx_capture *c);
bool lmx_dispatch_call(lmx_capture *c);
/* dispatched(mode, around, flags, entries, name, call, phase, n): what the mode calls. */
PyObject *lmx_dispatched(PyObject *module, PyObject *args);
/* unseen(name): observers note an operator that is about to run without a record of torch (dispatch.c). */
PyObject *lmx_unseen(PyObject *module, PyObject *name);

#endif
