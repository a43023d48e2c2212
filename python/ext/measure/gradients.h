/* SPDX-License-Identifier: Apache-2.0
 * gradients: the gradients that arguments and results of calls received in backward passes. */
#ifndef LMX_GRADIENTS_H
#define LMX_GRADIENTS_H

#include "observe/open_capture.h"
#include "torch/values.h"

#include <pthread.h>
#include <stdatomic.h>

/* The argument or result that a node's gradient belongs to. */
typedef struct lmx_grad_note {
    int64_t sequence;
    int32_t call, index;
    int16_t entry; /* index among the node's gradients */
    bool is_input;
} lmx_grad_note;

typedef struct lmx_gradients {
    lmx_capture *capture;
    lmx_looker *looker;
    lmi_vec notes;        /* lmx_grad_note */
    lmi_vec leaves;       /* arguments and results that no operator made */
    pthread_mutex_t lock; /* of `given`, which any thread adds to */
    lmi_vec given;
    bool lost;
    atomic_bool rewritten; /* a view was written to in place: torch replaced nodes that were noted */
    PyObject *n_grad_fn, *n_sequence, *n_output;
} lmx_gradients;

void lmx_gradients_init(lmx_gradients *t);
void lmx_gradients_free(lmx_gradients *t);
/* False with an exception. */
bool lmx_gradients_open(lmx_gradients *t, lmx_capture *c, lmx_looker *looker);
/* Reads the gradients of the leaves; while the looker is open, under the GIL. */
void lmx_gradients_close(lmx_gradients *t);
/* Notes that entry `index` of a call's arguments or results is this tensor. Under the GIL; leaves no
 * exception. */
void lmx_gradients_note(lmx_gradients *t, PyObject *tensor, int32_t call, int32_t index, bool is_input);
/* Notes that the node of that number received its gradient `entry`. On any thread. */
void lmx_gradients_given(lmx_gradients *t, int64_t sequence, int32_t entry, bool seen, bool bad);
/* Sorts the notes by their nodes' numbers. lmx_gradients_first: the first of a number, or its position. */
void lmx_gradients_sort(lmx_gradients *t);
size_t lmx_gradients_first(const lmx_gradients *t, int64_t sequence);
/* Pushes the received gradients. Sort the notes first. */
lam_status lmx_gradients_push(lmx_gradients *t, lam_builder *b, lam_error *e);

#endif
