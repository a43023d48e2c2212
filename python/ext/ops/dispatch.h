/* SPDX-License-Identifier: Apache-2.0
 * dispatch: operators through a dispatch mode of torch (torch.utils._python_dispatch.TorchDispatchMode), for
 * builds where observe.c can't read torch's records. It costs much more an operator, and torch supports it.
 * The mode is in Python (_observe/dispatch.py); this part notes the operators that it gets. A mode belongs to
 * its thread, and to threads that get its state from torch. */
#ifndef LMX_DISPATCH_H
#define LMX_DISPATCH_H

#include "observe/observe.h"

/* The number of the open operator of this thread; -1: none. */
int32_t lmx_dispatch_op(const lmx_capture *c);
/* Sets one of lam_op_flags on operator number `op` of this thread. */
void lmx_dispatch_mark(lmx_capture *c, int32_t op, uint8_t flag);

/* Calls `function` during the answer of another mode: the operators that it runs are noted inside the one
 * that is answered. If the capture does not watch through the dispatch mode, it only calls `function`. */
PyObject *lmx_dispatch_inside(lmx_capture *c, PyObject *function, PyObject *args, PyObject *kwargs);

bool lmx_dispatcher_new(lmx_capture *c); /* it is the capture's. False with an exception */
void lmx_dispatcher_free(lmx_dispatcher *d);
/* lmx_observe, lmx_unobserve and lmx_observe_call for a capture with a dispatcher. Only its own thread can
 * remove the mode: closed by another, it notes nothing, and is removed when that thread closes a capture. */
bool lmx_dispatch(lmx_capture *c);
void lmx_undispatch(lmx_capture *c);
bool lmx_dispatch_call(lmx_capture *c);
extern PyMethodDef lmx_dispatch_methods[]; /* what the mode calls */

#endif
