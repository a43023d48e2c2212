/* SPDX-License-Identifier: Apache-2.0
 * Inside of a recording that was read: read.c fills it from the file, kinds.c parts it,
 * middle.c sums it up. */
#ifndef LMI_STORE_READ_H
#define LMI_STORE_READ_H

#include "store/store.h"

/* One step as it stands in the file; -1: NULL. */
typedef struct lmi_step {
    int64_t id, number, training, unix_ns, t0_ns, calls, failed, forward, backward, peak, looked, first_bad;
    int64_t device_forward, device_backward, device_peak, gradients;
    bool bad;
} lmi_step;

typedef struct lmi_root {
    lam_recorded_model told;
    lam_recorded_place *places;
    int64_t id;
    lmi_step *steps; /* newest first; in the arena */
    int64_t n_steps;
    bool uniform; /* each step of its mode has as many calls */
} lmi_root;

struct lam_recording {
    lmi_arena arena;
    lmi_db db; /* closed once it is read */
    lam_recorded_run run;
    lmi_root *roots;
};

/* The newest run when `run` is 0. */
lam_status lmi_read_run(lam_recording *r, int64_t run, lam_error *e);
/* The roots of the run with their places, and the `last` newest steps of each kind (0: all). */
lam_status lmi_read_roots(lam_recording *r, int32_t last, lam_error *e);
/* What selects the layers of a step, in tables of that version, and the next row of it. */
const char *lmi_layers(const lmi_db *d);
lam_status lmi_read_layer(const lam_recording *r, struct sqlite3_stmt *s, const lmi_root *root, bool *more,
                          lmi_measure *out, lam_error *e);

/* A root of its own of each kind of its steps (kinds.c). */
lam_status lmi_split_kinds(lam_recording *r, lam_error *e);
/* Which steps count, and the middles of the roots and of their places. */
lam_status lmi_sum_up(lam_recording *r, lam_error *e);
/* The step is one that counts: see lam_recorded_model. */
bool lmi_counts(const lmi_root *root, const lmi_step *s);

#endif
