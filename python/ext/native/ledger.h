/* SPDX-License-Identifier: Apache-2.0
 * ledger: when a real run would allocate and free the memory of a dry run's tensors. Autograd, modules and
 * Python variables hold fake tensors like real ones, so torch reports when the last holder releases one. */
#ifndef LMX_LEDGER_H
#define LMX_LEDGER_H

#include "lamina.h"

#include "native/vec.h"

typedef struct lmx_ledger lmx_ledger;

lmx_ledger *lmx_ledger_new(void); /* NULL: memory ran out */
/* lmx_ledger_close stops noting; tensors that torch still holds keep the ledger until they are released. */

/* An operator is about to be answered: `op` is its index among those of its thread, -1 for none. `outside`:
 * new tensors are not the model's. */
void lmx_ledger_at(lmx_ledger *l, int32_t op, bool outside);
/* While `between`, what is taken is taken after the last operator, and there when the next one runs. */
void lmx_ledger_between(lmx_ledger *l, bool between);
/* The run is over: remaining tensors live until its end. */
void lmx_ledger_over(lmx_ledger *l);
/* Notes an allocation of `bytes` at `at`. The result is the context for lmx_ledger_drop(), which notes the
 * free and calls free() on `own`. NULL: memory ran out. */
void *lmx_ledger_take(lmx_ledger *l, const void *at, int64_t bytes, void *own);
void lmx_ledger_drop(void *data, void *context);
/* The number of calls of lmx_ledger_at. While it stays, no other operator was answered inside this one. */
int64_t lmx_ledger_turn(lmx_ledger *l);
/* Sets the memory that the results of the operator answered last hold together, in place of what their shapes
 * say. Does nothing if they have no memory of this ledger. */
void lmx_ledger_left(lmx_ledger *l, int64_t bytes);
/* What is allocated from now on was there before the run began: `what` is LAM_TAKEN_STATE or
 * LAM_TAKEN_GRADIENT; LAM_TAKEN_TENSOR: no longer. Memory that is freed meanwhile was never there. */
void lmx_ledger_before(lmx_ledger *l, lam_taken what);
/* Such memory at `at` is kept for a parameter; NULL: for several. False if there is none. */
bool lmx_ledger_belongs(lmx_ledger *l, const void *at, const void *parameter);
/* Why more memory may be taken than is noted. False if memory ran out. */
bool lmx_ledger_more(lmx_ledger *l, const char *why);
/* The step of the optimizer `name` begins with operator `op`; `decided` as in lam_build_step. */
bool lmx_ledger_step(lmx_ledger *l, const char *name, int32_t op, bool decided);
/* Notes memory that the operator took while it ran, beside its results. */
void lmx_ledger_note(lmx_ledger *l, int64_t bytes, lam_taken what);
/* Pushes what was noted, after the operators, of which those of its thread are the first. `tensors`: from a
 * parameter to its index. */
lam_status lmx_ledger_push(lmx_ledger *l, const lmi_map *tensors, lam_builder *b, lam_error *e);
void lmx_ledger_close(lmx_ledger *l); /* NULL is allowed */

#endif
