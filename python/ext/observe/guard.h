/* SPDX-License-Identifier: Apache-2.0
 * guard: tells the owner of a capture that an operator is about to write to memory which it must be able to
 * restore: the tensors of a run's arguments. */
#ifndef LMX_GUARD_H
#define LMX_GUARD_H

#include "observe/observe.h"

/* Guards a set of addresses, of memory or of tensors without any. `before_write(name, n, touched)` is called
 * before an operator of `n` arguments that touches some of them; `touched` has (position, address) of each.
 * It returns those that need no guard any more. NULL with an exception. */
lmx_guard *lmx_guard_new(PyObject *addresses, PyObject *before_write);
void lmx_guard_free(lmx_guard *g); /* NULL is allowed */
int lmx_guard_visit(lmx_guard *g, visitproc visit, void *arg);
/* Called when the arguments `in` of an operator were packed, before it runs; with or without the GIL. What
 * `before_write` runs on the capture's thread is not noted. */
void lmx_guard_look(lmx_capture *c, const lmx_lane *lane, const char *name, lmx_args in, int32_t n);
/* The same for the operator `op` of the lane, as the observer noted it. Returns its record. */
lmx_op *lmx_guard_open(lmx_capture *c, lmx_lane *lane, const char *name, int32_t op);

#endif
