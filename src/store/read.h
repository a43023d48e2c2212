/* SPDX-License-Identifier: Apache-2.0
 * Inside of a recording that was read: read.c fills it from the file, kinds.c parts it,
 * middle.c sums it up, from rows and from rollups (rollup.c). */
#ifndef LMI_STORE_READ_H
#define LMI_STORE_READ_H

#include "store/store.h"

/* One step as it stands in the file; -1: NULL. */
typedef struct lmi_step {
    int64_t id, number, training, unix_ns, t0_ns, calls, failed, forward, backward, peak, looked, first_bad;
    int64_t device_forward, device_backward, device_peak, gradients;
    bool bad;
} lmi_step;

/* What was rolled up of the steps of a model that are alike. */
typedef struct lmi_rollup {
    int64_t id, steps, last_step;
    lmi_step like; /* mode, gradients, whether a backward pass was seen, calls (-1: several) */
} lmi_rollup;

typedef struct lmi_root {
    lam_recorded_model told;
    lam_recorded_place *places;
    int64_t id;
    lmi_step *steps; /* newest first; in the arena */
    int64_t n_steps;
    bool uniform;      /* each step of its mode has as many calls */
    int64_t rolled_up; /* the key of the last step that was; 0: none */
    lmi_rollup *rollups;
    int64_t n_rollups;
} lmi_root;

struct lam_recording {
    lmi_arena arena;
    lmi_db db; /* closed once it is read */
    lam_recorded_run run;
    lmi_root *roots;
    uint64_t ceiling; /* bytes that it may take */
};

/* A file from a stranger makes a reader take so much memory at most, beyond what the file itself takes. */
#define LMI_CEILING (UINT64_C(256) << 20)
/* Whether `bytes` more may be taken. LAM_LIMIT. */
lam_status lmi_may_take(const lam_recording *r, uint64_t bytes, lam_error *e);

/* The newest run when `run` is 0. */
lam_status lmi_read_run(lam_recording *r, int64_t run, lam_error *e);
/* The roots of the run with their places, and the `last` newest steps of each kind (0: all). */
lam_status lmi_read_roots(lam_recording *r, int32_t last, lam_error *e);
/* The places of the root whose key it has. */
lam_status lmi_read_places(lam_recording *r, lmi_root *root, lam_error *e);
/* What selects a step by its key, in tables of the newest version, and the row that it selected. */
const char *lmi_one_step(void);
lam_status lmi_read_step(const lmi_db *d, struct sqlite3_stmt *s, const lmi_root *root, lmi_step *to,
                         lam_error *e);
/* What selects the layers of a step, in tables of that version, and the next row of it. */
const char *lmi_layers(const lmi_db *d);
lam_status lmi_read_layer(const lmi_db *d, struct sqlite3_stmt *s, const lmi_root *root, bool *more,
                          lmi_measure *out, lam_error *e);
/* Of each place the first that is not below it, which frees the caller; NULL when memory ran out. */
int32_t *lmi_ends(const lmi_root *root);
/* Adds all layers of a step, with the backward passes of those below them, in the order of their places. */
lam_status lmi_read_step_rows(const lmi_db *d, struct sqlite3_stmt *s, const lmi_root *root, int64_t step,
                              const int32_t *ends, lmi_vec *rows, lam_error *e);

/* A root of its own of each kind of its steps (kinds.c). */
lam_status lmi_split_kinds(lam_recording *r, lam_error *e);
/* Which steps count, and the middles of the roots and of their places. */
lam_status lmi_sum_up(lam_recording *r, lam_error *e);
/* The step is one that counts: see lam_recorded_model. */
bool lmi_counts(const lmi_root *root, const lmi_step *s);
/* It tells what others of its kind are like: it did not raise, and is not the first, which warms up. */
bool lmi_speaks(const lmi_step *s);
/* It is in a rollup. */
bool lmi_rolled_up(const lmi_root *root, const lmi_step *s);
/* The rollups of a root, or one kind of it, must hold as many steps as it has. */
lam_status lmi_check_rollups(const lam_recording *r, const lmi_root *root, lam_error *e);

#endif
