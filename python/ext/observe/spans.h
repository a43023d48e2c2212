/* SPDX-License-Identifier: Apache-2.0
 * spans: the work of a thread outside of its model's layers, as torch's own Python and C++ code records it
 * for its profiler: a loader's next batch, an optimizer's step, a wait for other processes. Nothing of the
 * program is changed; between recorded steps nothing is called. */
#ifndef LMX_SPANS_H
#define LMX_SPANS_H

#include "base/ext.h"

/* Begins to note spans on this thread, and on threads that torch has work for it, if that has not begun.
 * False, without an exception, if torch does not offer it. */
bool lmx_spans_begin(lmx_state *st);
void lmx_spans_end(void); /* on this thread */
/* Replaces `spans` (lam_step_span) by those between two moments of the monotonic clock, cut to fit, of this
 * thread and of any that worked for it. False, without an exception, if there were too many, or if memory ran
 * out.
 */
bool lmx_spans_between(int64_t t0_ns, int64_t t1_ns, lmi_vec *spans);
/* How many collectives began between the two moments, on this thread and on those that worked for it, and a
 * hash of their names in this order. -1: unknown, as there were too many, or as several threads are listened
 * to, whose collectives are not told apart. */
int64_t lmx_spans_collectives(int64_t t0_ns, int64_t t1_ns, int64_t *hash);
/* How much of lmx_processor_wait_ns() of this thread was in waits for other processes. */
int64_t lmx_spans_starved_ns(void);
/* Which kinds were ever noted in this process: bits 1 << lam_step_span_kind. */
uint32_t lmx_spans_seen(void);

#endif
