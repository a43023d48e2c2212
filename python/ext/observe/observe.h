/* SPDX-License-Identifier: Apache-2.0
 * observe: every operator that runs while a capture is open, through torch's at::RecordFunction, which the
 * profiler uses too. torch has no C interface for it. Its C++ functions are exported, and the offsets of the
 * few fields that are read are found and verified: see probe.c. */
#ifndef LMX_OBSERVE_H
#define LMX_OBSERVE_H

#include "base/ext.h"
#include "native/lane.h"
#include "observe/open_capture.h"
#include "torch/tensor.h"

#include <pthread.h>
#include <string.h>

const lmx_record_api *lmx_record_api_of(lmx_state *st); /* NULL: not supported on this platform or by this
                                                         * torch */
/* The dispatch keys that the calling thread includes, and those that it excludes: two words, in each of which
 * torch inverts the keys of its default. NULL: unknown. */
const uint64_t *lmx_keys_here(const lmx_record_api *api);
/* The handle is for api->remove. */
uint64_t lmx_add_callback(const lmx_record_api *api, const lmx_callback *c);

/* Notes an operator that is about to run without a record of torch: its work is not observed. */
void lmx_observe_unseen(const char *name);

/* == operators (observe.c, running.c, nodes.c, operators.c, probe.c) ==================================== */

/* Starts watching operators, or only nodes of backward passes, of this thread and of threads that run a
 * backward pass for it. False with an exception. */
bool lmx_observe(lmx_capture *c);
/* The capture's observer, without any lane yet. NULL with an exception. */
lmx_observer *lmx_observer_new(lmx_capture *c);
/* Stops watching; allowed at any time, from any thread. The records stay. */
void lmx_unobserve(lmx_capture *c);
/* Call it when the capture's open call has changed: new nodes of autograd belong to that call. True inside a
 * backward pass. */
bool lmx_observe_call(lmx_capture *c);
/* The lane of this thread, if it runs a node of a backward pass for the capture; else NULL. */
const lmx_lane *lmx_observe_worker(const lmx_capture *c);
/* True on the thread whose module calls the capture takes now: its worker, or without one its own. */
static inline bool lmx_takes_calls(const lmx_capture *c) {
    const unsigned long worker = __atomic_load_n(&c->threads.worker, __ATOMIC_ACQUIRE);
    return (unsigned long)pthread_self() == (worker ? worker : c->threads.owner);
}
/* The number of noted operators of the capture's own thread. */
size_t lmx_observer_own(const lmx_observer *o);
/* The caller of the operator that the capture's thread runs now: its name, "" if autograd's engine adds
 * gradients, NULL for another or none, and always under a dispatch mode, which does not see all. */
const char *lmx_observer_caller(const lmx_observer *o);
/* True if the running operator began with autocast on for the device of this dispatch key, so that arguments
 * of those inside are converted. False for one that autocast called, and under a dispatch mode, inside which
 * it is off. */
bool lmx_observer_casts(const lmx_observer *o, uint64_t device);
/* The name of the operator `level` levels above; level 0 is the running one. */
const char *lmx_observer_above(const lmx_observer *o, size_t level);
/* Sets one of lam_op_flags on the operator `level` levels above. */
void lmx_observer_mark(lmx_observer *o, size_t level, uint8_t flag);
/* Pushes every operator. False with an error. */
lam_status lmx_push_operators(const lmx_observer *o, lam_builder *b, lam_error *e);
extern PyMethodDef lmx_probe_methods[];

#endif
