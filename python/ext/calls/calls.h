/* SPDX-License-Identifier: Apache-2.0
 * calls: calls of modules that are led to C. */
#ifndef LMX_CALLS_H
#define LMX_CALLS_H

#include "modules/tree.h"

/* Has calls of torch.nn.Module.__call__ reach C, and lists the capture. False with an exception. */
bool lmx_watch(lmx_capture *c);
/* The reverse; allowed at any time, from any thread. Keeps a pending exception. */
void lmx_unwatch(lmx_capture *c);
/* rest(True): ours is in place, also while no capture is open; until rest(False) was called as often. */
PyObject *lmx_rest(PyObject *module, PyObject *wanted);
PyObject *lmx_in_place(PyObject *module, PyObject *unused); /* in_place(): whether it is */
/* find(finder): while ours rests, it is asked about each module that is called outside any other, before it
 * is: None, or what is to be called instead of it. find(None) ends that. within_found(): such a call is under
 * way in this thread. */
PyObject *lmx_find_roots(PyObject *module, PyObject *finder);
PyObject *lmx_within_found(PyObject *module, PyObject *unused);
/* behind(function): what it calls where it is one of our entries, itself otherwise. */
PyObject *lmx_behind(PyObject *module, PyObject *function);
/* count(root, turns, told, how=None): while ours is in place, `told` hears of the calls of the root whose
 * turn it is (turns.h), when they begin and when they end; or, with `how`, steps are seen and recorded
 * without (sample.h). uncount(id(root)) ends that. end_step(id(root), record): ends the step that is being
 * seen. */
PyObject *lmx_count_calls(PyObject *module, PyObject *args);
PyObject *lmx_uncount_calls(PyObject *module, PyObject *address);
PyObject *lmx_end_step(PyObject *module, PyObject *args);
/* Notes one call of the root that was made elsewhere, and closes the capture, which was never open. */
bool lmx_note(lmx_capture *c, PyObject *const *args, Py_ssize_t n, PyObject *result);
PyObject *lmx_one_call(PyObject *module, PyObject *args); /* capture.c */

#endif
