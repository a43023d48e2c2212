/* SPDX-License-Identifier: Apache-2.0
 * A recording in memory: read.c reads it from the file, kinds.c separates kinds of steps, middle.c computes
 * medians from rows and from rollups (rollup.c), and recording.c calls them in this order. */
#ifndef LMI_STORE_READ_H
#define LMI_STORE_READ_H

#include "store/store.h"

/* One step of the file; -1: NULL. */
typedef struct lmi_step {
    int64_t id, number, training, unix_ns, t0_ns, calls, failed, forward, backward, peak, looked, first_bad;
    int64_t device_forward, device_backward, device_peak, gradients, compiled;
    int64_t whole, phases[LAM_N_STEP_PHASES], processor_wait, collectives, collectives_hash;
    int64_t weight; /* in medians */
    bool bad;
} lmi_step;

/* A summary of the steps of one kind of a model. */
typedef struct lmi_rollup {
    int64_t id, steps, last_step;
    int64_t from;  /* the start of its hour or day; 0 if it is old */
    bool old;      /* of before version 7 of the tables: of all steps, with other bins */
    lmi_step like; /* mode, gradients, compiled, whether a backward pass was seen, calls (-1: several) */
} lmi_rollup;

typedef struct lmi_counted lmi_counted; /* a step whose operations were counted (used.c) */

typedef struct lmi_root {
    lam_recorded_model info;
    lam_recorded_place *places;
    int64_t id;
    lmi_step *steps; /* newest first; in the arena */
    int64_t n_steps;
    int32_t every;                /* of the run */
    bool uniform;                 /* all steps of its mode have the same number of calls */
    int64_t rolled_up[LMI_MODES]; /* of each mode: the key of the last step in a rollup; 0: none */
    lmi_rollup *rollups;
    int64_t n_rollups;
    const lmi_counted *counted;
    int64_t n_counted;
} lmi_root;

struct lam_recording {
    lmi_arena arena;
    lmi_db db; /* closed once it is read */
    lam_recorded_run run;
    lmi_root *roots;
    uint64_t ceiling; /* the limit of its memory, in bytes */
    const char *path; /* of the file, as it was given */
    bool steps_alone; /* no rows of layers are read */
};

/* The limit of memory for reading an untrusted file, in addition to the size of the file. */
#define LMI_CEILING (UINT64_C(256) << 20)
/* Returns LAM_LIMIT if `bytes` more would exceed the limit. */
lam_status lmi_may_take(const lam_recording *r, uint64_t bytes, lam_error *e);

/* Reads a run, the newest if `run` is 0: its roots with their places, and the `last` newest steps of each
 * kind (0: all). In one transaction, so that a writer cannot change the file between two queries. */
lam_status lmi_read(lam_recording *r, const char *file, int64_t run, int32_t last, lam_error *e);
/* Reads one row of a statement into `row`, the last of those so far. */
typedef lam_status (*lmi_take_row)(lam_recording *r, struct sqlite3_stmt *s, void *self, const lmi_vec *rows,
                                   void *row, lam_error *e);
typedef struct lmi_taken {
    void *rows; /* in the arena; may be NULL after a failure */
    int64_t n;
} lmi_taken;
/* Reads all rows of a statement, of `size` bytes each, and ends the statement. */
lam_status lmi_take_rows(lam_recording *r, struct sqlite3_stmt *s, lmi_take_row take, void *self, size_t size,
                         lmi_taken *out, lam_error *e);
/* Reads the places of the root with the key root->id. */
lam_status lmi_read_places(lam_recording *r, lmi_root *root, lam_error *e);
/* The statement that selects a step by its key, in tables of the newest version; reads the selected row. */
const char *lmi_one_step(void);
lam_status lmi_read_step(const lmi_db *d, struct sqlite3_stmt *s, const lmi_root *root, lmi_step *to,
                         lam_error *e);
/* The statement that selects the layers of a step, in tables of the file's version; reads its next row. */
const char *lmi_layers(const lmi_db *d);
lam_status lmi_read_layer(const lmi_db *d, struct sqlite3_stmt *s, const lmi_root *root, bool *more,
                          lmi_measure *out, lam_error *e);
/* For each place, the first one that is not below it; the caller frees the result. NULL: memory ran out. */
int32_t *lmi_ends(const lmi_root *root);
int lmi_by_place(const void *a, const void *b); /* compares two lmi_measure, for qsort */
/* Adds all layers of a step, with the backward passes of those below them, in the order of their places. */
lam_status lmi_read_step_rows(const lmi_db *d, struct sqlite3_stmt *s, const lmi_root *root,
                              const lmi_step *step, const int32_t *ends, lmi_vec *rows, lam_error *e);

/* All calls of the run (pace.c), which older files don't have. */
lam_status lmi_read_pace(lam_recording *r, lam_error *e);
/* Recorded steps beside those between them, of a root of which the medians are known (pace.c). */
void lmi_sum_cost(lmi_root *root);

/* The steps whose operations were counted, which older files don't have; and the share of the peak that a
 * root reaches of which means are known (used.c). */
lam_status lmi_read_counted(lam_recording *r, lam_error *e);
void lmi_sum_used(const lam_recording *r, lmi_root *root);

/* Makes a separate root for each kind of its steps (kinds.c). */
lam_status lmi_split_kinds(lam_recording *r, lam_error *e);
/* Chooses the steps that count, and computes the medians of the roots and of their places. */
lam_status lmi_sum_up(lam_recording *r, lam_error *e);
/* The weight of a step that is the k-th by the rule of its run: 1 if all have the same. */
static inline int64_t lmi_weight(const lmi_root *root, int64_t k) {
    return root->every == LAM_THINNING ? lam_recorded_every(LAM_THINNING, k) : 1;
}
/* True if the step is typical of its kind: it did not raise, and is not the first, which warms up. */
bool lmi_speaks(const lmi_step *s);
/* True if the step is in a rollup. Rollups have steps of the largest weight of the run only. */
bool lmi_rolled_up(const lmi_root *root, const lmi_step *s);
/* Fails unless the rollups of a root, or of one kind of it, hold as many steps as it has. */
lam_status lmi_check_rollups(const lam_recording *r, const lmi_root *root, lam_error *e);

#endif
