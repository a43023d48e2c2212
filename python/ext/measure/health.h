/* SPDX-License-Identifier: Apache-2.0
 * health: checks of values in two parts: of calls, under the GIL (health.c), and of operators and nodes, on
 * any thread (health_ops.c). Both only note non-finite values, in order; lam_health_new judges them. */
#ifndef LMX_HEALTH_H
#define LMX_HEALTH_H

#include "measure/first_failure.h"
#include "measure/gradients.h"
#include "native/storages.h"
#include "observe/listeners.h"

#include <stdatomic.h>

enum { LMX_HEALTH_NAME = 56 };
enum { LMX_ITSELF = -1 }; /* lam_bad.origin of a record that gets its own number */

/* lam_bad with its texts and sizes. */
typedef struct lmx_bad_record {
    lam_bad bad;
    char name[LMX_HEALTH_NAME], inside[LMX_HEALTH_NAME];
    char *text; /* owned; or NULL */
    int64_t sizes[LAM_MAX_AXES];
    int64_t sequence; /* a node's number; -1 */
} lmx_bad_record;

/* An argument that was finite when its call began. */
typedef struct lmx_entry {
    const void *tensor; /* only compared, not owned */
    int64_t version;    /* -1: it was not finite, or unknown */
    int32_t call;
} lmx_entry;

/* The checks of one capture and their records. */
typedef struct lmx_checkup {
    lmx_listener base;
    lmx_capture *capture;
    lmx_looker looker;
    uint64_t generation;
    pthread_mutex_t lock; /* of the records: held for moments, never while Python or torch runs */
    lmi_vec records;      /* lmx_bad_record */
    bool cut;
    lmx_storages trails; /* under the same lock */
    lmi_vec stats;       /* of entries of calls' results */
    lmx_gradients came;
    lmx_first_failure broke;
    lmi_vec fed;                     /* uint8_t per call: its arguments */
    lmi_vec entries;                 /* lmx_entry: arguments of open calls */
    uint8_t *marks;                  /* per module: ALLOWED, ASKED */
    PyObject *allowed, *asked, *ask; /* lists of modules; the function to call for `asked`; or NULL */
    _Atomic int64_t tensors, bytes, unseen;
    atomic_bool gradients;
} lmx_checkup;

/* lmx_health_record makes a record to be filled, lmx_health_keep adds it, with or without the GIL. `look`
 * NULL: it has no tensor; `text` is copied. Returns its number, from 1; 0: it was not kept. */
lmx_bad_record lmx_health_record(lam_bad_side side, uint8_t phase, int32_t call, int32_t index);
void lmx_health_name(char *to, const char *from); /* cut to fit; NULL is "" */
int32_t lmx_health_keep(lmx_checkup *h, lmx_bad_record *r, const lmx_look *look, const char *text);
/* Counts a tensor that was checked, or could not be. */
void lmx_health_count(lmx_checkup *h, const lmx_look *look, lmx_seen seen);

/* For the calling thread: outside every operator and node, forgets what ran before. */
void lmx_health_call_begins(const lmx_checkup *h);
void lmx_health_node_began(lmx_listener *l, const lmx_node_run *node);
void lmx_health_node_ended(lmx_listener *l, const lmx_node_run *node);
/* Operators in the forward are checked only if they are watched. */
void lmx_health_op_began(lmx_listener *l, const lmx_op_run *op);
void lmx_health_op_ended(lmx_listener *l, const lmx_op_run *op);

/* Enables checks of values in the capture (health.c), before it starts. */
PyObject *lmx_watch_health(PyObject *self, PyObject *args);

#endif
