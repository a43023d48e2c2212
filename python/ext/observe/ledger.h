/* SPDX-License-Identifier: Apache-2.0
 * ledger: when the memory of a dry run's tensors would have been taken and given back. Autograd, modules and
 * Python's own variables hold fake tensors as they would hold real ones, so torch itself tells when the last
 * of them lets go. */
#ifndef LMX_LEDGER_H
#define LMX_LEDGER_H

#include "observe/observe.h"

/* NULL with an exception. */
lmx_ledger *lmx_ledger_new(void);
/* lmx_ledger_close: nothing is noted any more; what torch still holds keeps it until it lets go. */

/* An operator is about to be answered: `op` is its index among those of its thread, -1 for none. `outside`:
 * what is made is not the model's. */
void lmx_ledger_at(lmx_ledger *l, int32_t op, bool outside);
/* The run is over: what is there now was there at its end. */
void lmx_ledger_over(lmx_ledger *l);
/* Notes that `bytes` are taken. What it gives goes to lmx_ledger_drop() as `data`'s context when they are
 * free again; `own` is then given to free(). NULL: memory ran out. */
void *lmx_ledger_take(lmx_ledger *l, int64_t bytes, void *own);
void lmx_ledger_drop(void *data, void *context);
/* How often lmx_ledger_at was called: while that stays, no other operator was answered inside this one. */
int64_t lmx_ledger_turn(lmx_ledger *l);
/* What the operator left that was answered last: its results hold so much memory, whatever their shapes say.
 * Nothing where they hold none of their own. */
void lmx_ledger_left(lmx_ledger *l, int64_t bytes);
/* Notes what it took while it ran beside its results. */
void lmx_ledger_note(lmx_ledger *l, int64_t bytes, lam_taken what);
/* Pushes what was noted; `base`: index of the thread's first operator in the model. */
lam_status lmx_ledger_push(lmx_ledger *l, int32_t base, lam_builder *b, lam_error *e);
void lmx_ledger_close(lmx_ledger *l); /* NULL is allowed */

#endif
