/* SPDX-License-Identifier: Apache-2.0
 * ledger: when a real run would allocate and free the memory of a dry run's tensors. Autograd, modules and
 * Python variables hold fake tensors like real ones, so torch reports when the last holder releases one. */
#ifndef LMX_LEDGER_H
#define LMX_LEDGER_H

#include "observe/observe.h"

/* NULL with an exception. */
lmx_ledger *lmx_ledger_new(void);
/* lmx_ledger_close stops noting; tensors that torch still holds keep the ledger until they are released. */

/* An operator is about to be answered: `op` is its index among those of its thread, -1 for none. `outside`:
 * new tensors are not the model's. */
void lmx_ledger_at(lmx_ledger *l, int32_t op, bool outside);
/* The run is over: remaining tensors live until its end. */
void lmx_ledger_over(lmx_ledger *l);
/* Notes an allocation of `bytes`. The result is the context for lmx_ledger_drop(), which notes the free and
 * calls free() on `own`. NULL: memory ran out. */
void *lmx_ledger_take(lmx_ledger *l, int64_t bytes, void *own);
void lmx_ledger_drop(void *data, void *context);
/* The number of calls of lmx_ledger_at. While it stays, no other operator was answered inside this one. */
int64_t lmx_ledger_turn(lmx_ledger *l);
/* Sets the memory that the results of the operator answered last hold together, in place of what their shapes
 * say. Does nothing if they have no memory of this ledger. */
void lmx_ledger_left(lmx_ledger *l, int64_t bytes);
/* Notes memory that the operator took while it ran, beside its results. */
void lmx_ledger_note(lmx_ledger *l, int64_t bytes, lam_taken what);
/* Pushes what was noted, after the operators, of which those of its thread are the first. */
lam_status lmx_ledger_push(lmx_ledger *l, lam_builder *b, lam_error *e);
void lmx_ledger_close(lmx_ledger *l); /* NULL is allowed */

#endif
