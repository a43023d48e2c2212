/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings, a part of lamina.h: what steps of a training run showed, in a file: an SQLite database, which
 * any client of SQLite reads (docs/recording.md has its tables). A step is one outermost call of a root and
 * what followed until the next, the backward pass with it. */
#ifndef LAMINA_RECORDING_H
#define LAMINA_RECORDING_H

#include "lamina.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lam_run_info {
    const char *command, *host, *torch; /* NULL: not told; copied */
    int32_t rank, world;                /* 0 of 1 where one process runs alone */
    int32_t every;                      /* each which step is seen */
    int64_t unix_ns;                    /* when it began */
} lam_run_info;
typedef struct lam_step_info {
    int32_t root;     /* which root of the run, from 0 */
    const char *name; /* what to call it; copied */
    int64_t number;   /* of its first call among those of the root of this kind, from 0 */
    bool training, gradients; /* that kind: the mode, and whether torch made graphs */
    int64_t unix_ns, t0_ns; /* when it began: of the calendar, and monotonic */
} lam_step_info;

typedef struct lam_recorder lam_recorder;
/* Begins a run in `file`, which is made where it is missing; where it has runs already, this is one more.
 * LAM_IO where it can't be written or is something else, LAM_UNSUPPORTED in a library without SQLite. */
LAM_API lam_status lam_recorder_new(lam_recorder **out, const char *file, const lam_run_info *info,
                                    lam_error *e);
/* Hands over what one step showed: the model is the recorder's from now on, also where this fails. Never
 * waits: a thread of the recorder's own makes rows of it and writes them, within half a second, and where
 * that thread is behind by very much the step is dropped and counted. The first failure to write (a full
 * disk) ends the recording: it is returned from then on, and nothing more is written. In a forked child the
 * model is freed, which is LAM_OK. */
LAM_API lam_status lam_recorder_step(lam_recorder *r, lam_model *m, const lam_step_info *info, lam_error *e);
/* The same of a step that was timed and no more, of a root whose modules and places are as in the last such
 * model that was handed over of it: all is copied. `n_nodes` is -1 where none were watched. Where the
 * recorder has no such model `*known` is false and nothing is handed over. */
LAM_API lam_status lam_recorder_again(lam_recorder *r, const lam_step_info *info, const lam_call_info *calls,
                                      int32_t n_calls, const lam_op_info *nodes, int32_t n_nodes,
                                      bool *known, lam_error *e);
LAM_API int64_t lam_recorder_dropped(const lam_recorder *r); /* steps */
LAM_API int64_t lam_recorder_steps(const lam_recorder *r);   /* handed over, without those dropped */
LAM_API int64_t lam_recorder_run(const lam_recorder *r);     /* the number of its run in the file, from 1 */
/* Writes what is left, ends the run and frees the recorder, also where it fails. NULL is allowed. */
LAM_API lam_status lam_recorder_close(lam_recorder *r, lam_error *e);

/* Median over steps and median absolute deviation from it; n 0: not measured. Of the layers of many steps
 * they are within 1 % and 2 % of the median, else exact. */
typedef struct lam_middle { int64_t median, deviation, n; } lam_middle;
typedef struct lam_recorded_run {
    int64_t run;      /* its number in the file, from 1 */
    const char *file; /* as it was named when it was opened */
    int64_t pid;      /* of the process that wrote it */
    bool gone;        /* it has not ended, and there is no such process on this machine, where it ran */
    bool cut;         /* it has not ended, and no -wal file is beside it: newest steps may be missing */
    const char *command, *host, *torch, *lamina; /* NULL: not told */
    int32_t rank, world, every;
    int32_t n_models; /* each once for each kind of its steps */
    int64_t started_unix_ns, seen_unix_ns; /* seen: when the file was last written to */
    int64_t ended_unix_ns;                 /* 0: it runs still, or its process died */
    int64_t dropped;
} lam_recorded_run;
typedef struct lam_recorded_model { /* a root, as its tree was, and one kind of its steps */
    const char *name;
    /* Steps are of a kind that have the same mode and number of calls, and in which torch made graphs or
     * not and a backward pass was seen or not. Where there are more than three numbers of calls, steps of
     * one call are of one kind and those of several are of another. */
    int32_t kind, n_kinds;  /* the kind-th, from 0, of n_kinds of this root */
    bool training;          /* in train() mode */
    int32_t gradients;      /* torch made graphs: 1 yes, 0 no, -1 the file does not tell */
    bool went_back;         /* a backward pass was seen */
    int64_t least_calls, most_calls; /* of the root in a step */
    int64_t params, local_params, param_bytes; /* distinct ones; local: those in this process; -1 unknown */
    int32_t n_places;
    bool warmed_up;       /* the root's first step was left out: it warms up, and there are others */
    int64_t n_steps;      /* that were seen, without that one */
    int64_t last, failed; /* the number of the newest one; how many raised */
    lam_middle forward_ns, backward_ns; /* of a step */
    lam_middle step_ns; /* from the start of one to that of the next; n 0 where steps differ in their calls */
    lam_middle call_ns; /* from a call of the root to the next of that mode, with gradients or without */
    lam_middle peak_bytes;
    lam_middle device_forward_ns, device_backward_ns; /* by a GPU's clock, */
    lam_middle device_peak_bytes;                     /* and of its memory, where there is one */
    int64_t nonfinite;     /* steps in which a NaN or Inf was found; -1: nobody looked */
    int32_t first_bad;     /* place that made the first one, -1 none */
    int64_t first_bad_step;
} lam_recorded_model;
typedef struct lam_recorded_place {
    const char *path, *type;
    int32_t parent, depth; /* of the root: -1, 0 */
    int64_t params, local_params; /* of its own, tied ones at their first owner; -1 unknown */
    int64_t n_steps;     /* in which it was called */
    lam_middle calls;    /* a step */
    lam_middle forward_ns, self_ns; /* self: without what was called in it */
    lam_middle backward_ns;         /* of its own nodes, and with those of the layers in it */
    lam_middle total_backward_ns;
    lam_middle recompute_ns;        /* forward work that was done again in the backward */
    lam_middle allocated_bytes, retained_bytes, peak_bytes;
    lam_middle device_forward_ns, device_self_ns, device_backward_ns, device_recompute_ns;
    lam_middle device_retained_bytes, device_peak_bytes;
    int64_t own_ns;      /* self and backward together, by a GPU's clock where one was read; -1 unknown */
    int64_t nonfinite;   /* steps in which its results or gradients had a NaN or Inf; -1: nobody looked */
} lam_recorded_place;

typedef struct lam_recording lam_recording;
/* Reads run `run` of `file` (0: the newest), of its `last` newest steps of each kind only (0: all). The file
 * is not trusted. LAM_IO where it is no recording or is damaged, LAM_LIMIT where it would take more memory
 * than the file's own size and 256 MB. */
LAM_API lam_status lam_recording_open(lam_recording **out, const char *file, int64_t run, int32_t last,
                                      lam_error *e);
LAM_API void lam_recording_free(lam_recording *r); /* NULL is allowed */
LAM_API const lam_recorded_run *lam_recording_run(const lam_recording *r);
LAM_API const lam_recorded_model *lam_recording_model(const lam_recording *r, int32_t i); /* NULL: no such */
LAM_API const lam_recorded_place *lam_recording_place(const lam_recording *r, int32_t model, int32_t place);
/* True when the file begins as an SQLite database does, or is to be one by its name (*.lamina). */
LAM_API bool lam_recording_is(const char *file);

typedef struct lam_recording_options {
    const char *format; /* "text" (default), "csv" or "json" */
    int32_t width;      /* 0: 100 */
    int32_t rows;       /* 0: every layer, in the tree's order; else so many, slowest first */
    int32_t depth;      /* -1: no limit */
    bool first_kinds;   /* layers of the first kind of steps of each root alone; of others only the sums */
    bool ascii;
    int64_t now_unix_ns; /* 0: how long ago a run was seen is not told */
} lam_recording_options;
/* Writes one recording, or those of several processes side by side: each, how far they lie apart, which
 * layers are slow in one of them. LAM_USAGE for a format that there is not. */
LAM_API lam_status lam_recording_write(const lam_recording *const *all, int32_t n,
                                       const lam_recording_options *o, lam_sink to, lam_error *e);
/* Writes the scalars of every step of run `run` of `file` into a new file of events for TensorBoard in
 * `folder`, which is made where it is missing. `path`, of `size` bytes, takes the new file's name. */
LAM_API lam_status lam_recording_tensorboard(const char *file, int64_t run, const char *folder, char *path,
                                             size_t size, lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
