/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings, a part of lamina.h: measurements of the steps of a training run. A recording is an SQLite
 * database, which any SQLite client can read (docs/recording.md describes its tables). A step is one
 * outermost call of a root and everything until the next one, including the backward pass. */
#ifndef LAMINA_RECORDING_H
#define LAMINA_RECORDING_H

#include "lamina_ranks.h"
#include "lamina_report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The default of which steps are recorded: dense at first, then fewer. Around step k, from 0, one in N is
 * recorded, N being the smallest of 1, 2, 5, 10, 20, 50 and 100 that is at least k / 32; else 100. */
enum { LAM_THINNING = 0 };
/* How many steps a recorded one represents: `every`, or N of step `k` by LAM_THINNING. */
LAM_API int32_t lam_recorded_every(int32_t every, int64_t k);
/* Writes the rule in words, "one in 50 steps", to `to`, of LAM_RULE_WORDS bytes, and returns it. */
enum { LAM_RULE_WORDS = 96 };
LAM_API const char *lam_recorded_rule(int32_t every, char *to);

/* All calls of a run's models, recorded or not. The thread that calls them stores each number with one atomic
 * store; the recorder's thread reads `calls` and exchanges `slowest_ns` for 0. */
typedef struct lam_pace {
    int64_t calls;
    int64_t slowest_ns; /* the longest time from one call to the next */
    int64_t last_ns;    /* when the last call began; for the caller alone */
} lam_pace;

typedef struct lam_run_info {
    const char *command, *host, *torch; /* NULL: unknown; copied */
    const char *job; /* a name that all processes and all starts of a run share; NULL: unknown */
    int32_t attempt; /* the least attempt of the job that it is, from 1; 0: one more than the file has */
    lam_pace *pace;  /* all zero; borrowed until the recorder is closed; NULL: calls are not counted */
    int32_t rank, world;                /* a single process: rank 0 of world 1 */
    int32_t every;                      /* one in `every` steps is recorded; or LAM_THINNING */
    int64_t unix_ns;                    /* the start of the run */
} lam_run_info;
/* The phases of a step: each moment, from its first call of the model to that of the next step, is of one of
 * them. */
typedef enum lam_step_phase {
    LAM_STEP_INPUT, /* waiting for a DataLoader's next batch */
    LAM_STEP_H2D,   /* copying it to a GPU */
    LAM_STEP_FORWARD,
    LAM_STEP_BACKWARD,
    LAM_STEP_OPTIMIZER, /* its step and zero_grad */
    LAM_STEP_COMM,      /* waiting for other processes, and for transfers between them */
    LAM_STEP_OTHER,     /* all else, and what is unknown */
    LAM_N_STEP_PHASES
} lam_step_phase;
LAM_API const char *lam_step_phase_name(lam_step_phase phase); /* "input", "h2d", ... */
/* What torch recorded that a step's thread did. */
typedef enum lam_step_span_kind {
    LAM_SPAN_INPUT,
    LAM_SPAN_OPTIMIZER,
    LAM_SPAN_WAIT,       /* part of FSDP's work, which waits for other processes */
    LAM_SPAN_COLLECTIVE, /* from its start on this thread to its end on any: the thread may do other work */
    LAM_N_SPAN_KINDS
} lam_step_span_kind;
typedef struct lam_step_span {
    int32_t kind; /* lam_step_span_kind */
    int64_t t0_ns, t1_ns; /* monotonic time */
} lam_step_span;

/* The operations of a step, counted from its operators, and the peak of the device that it runs on. Texts are
 * empty if there is nothing to say. */
enum { LAM_WORK_WORDS = 240, LAM_WORK_NAME = 96 };
typedef struct lam_step_work {
    int64_t flops, hardware_flops; /* two for each MAC of lam_costs_model_macs: without what the backward
                                    * repeats, and with it; -1 unknown */
    bool at_least;                 /* they are lower bounds */
    double peak;                   /* of the device, FLOP/s; 0 unknown */
    char why[LAM_WORK_WORDS];      /* they are unknown, or lower bounds */
    char why_peak[LAM_WORK_WORDS]; /* it is unknown */
    char device[LAM_WORK_NAME], dtype[LAM_WORK_NAME]; /* "NVIDIA H200"; "bfloat16": of most of the MACs */
    char peak_of[LAM_WORK_NAME];   /* the entry of the table of peaks, "h200-sxm:bfloat16"; or "given" */
} lam_step_work;

typedef struct lam_step_info {
    int32_t root;     /* which root of the run, from 0 */
    int64_t tree;     /* steps of a root with the same number have the same modules and places; 0: unknown */
    const char *name; /* the root's name; copied */
    int64_t number;   /* the number of its first call among the root's calls of this kind, from 0 */
    bool training, gradients; /* the kind: training mode, and whether torch made graphs */
    int32_t compiled; /* compiled code ran in it: 1 yes, 0 no, -1 unknown */
    int64_t unix_ns, t0_ns; /* the start of the step: calendar time and monotonic time */
    int64_t t1_ns;          /* the start of the next step, monotonic; 0: unknown, and so are the phases */
    const lam_step_span *spans;  /* within the step; copied */
    int32_t n_spans;
    uint32_t spans_seen; /* kinds that were ever seen in this process: bits 1 << lam_step_span_kind */
    bool pass_unseen;    /* a backward pass ran whose nodes can't be seen */
    int64_t processor_wait_ns; /* its thread was ready to run without a processor, but for waits for other
                                * processes; -1 unknown */
    int64_t collectives;       /* that began in it, but for sending and receiving; -1 unknown */
    int64_t collectives_hash;  /* equal for equal names in the same order */
    bool alone;          /* no other process takes part; set by the recorder */
    const lam_step_work *work; /* copied; NULL: it was not counted in this step */
} lam_step_info;

/* The copy of SQLite that reads and writes recordings. */
typedef struct lam_sqlite {
    const char *version; /* "3.46.1"; static storage */
    const char *whose;   /* "Python's", or "the system's" and maybe why; static */
    char file[512];      /* the library's file, cut to fit; "": unknown */
} lam_sqlite;
/* LAM_UNSUPPORTED if none is found, or if it is too old. */
LAM_API lam_status lam_recording_sqlite(lam_sqlite *out, lam_error *e);

typedef struct lam_recorder lam_recorder;
/* Begins a run in `file`, which is created if it is missing; a file can hold several runs. LAM_IO if it
 * can't be written or is no recording, LAM_UNSUPPORTED without SQLite. */
LAM_API lam_status lam_recorder_new(lam_recorder **out, const char *file, const lam_run_info *info,
                                    lam_error *e);
/* Adds one step. The recorder owns the model from then on, also on failure. This never waits: a thread of the
 * recorder makes rows of the model and writes them within half a second; if that thread is far behind, the
 * step is dropped and counted. The first failure to write (a full disk) ends the recording: every later call
 * returns it, and nothing more is written. In a forked child the model is freed and LAM_OK returned. */
LAM_API lam_status lam_recorder_step(lam_recorder *r, lam_model *m, const lam_step_info *info, lam_error *e);
/* The same for a step with times only, of a root whose modules and places are the same as in its last model.
 * Everything is copied. `n_nodes` -1: nodes were not watched. If the recorder has no such model, `*known` is
 * false and nothing is added. */
LAM_API lam_status lam_recorder_again(lam_recorder *r, const lam_step_info *info, const lam_call_info *calls,
                                      int32_t n_calls, const lam_op_info *nodes, int32_t n_nodes,
                                      bool *known, lam_error *e);
LAM_API int64_t lam_recorder_dropped(const lam_recorder *r); /* dropped steps */
LAM_API int64_t lam_recorder_steps(const lam_recorder *r);   /* added steps, without the dropped ones */
LAM_API int64_t lam_recorder_run(const lam_recorder *r);     /* the number of its run in the file, from 1 */
/* How the program ended, or will: "end", or an exception, its type first. At most LAM_ENDED_BY - 1 bytes are
 * kept. It is written when the recorder is closed. */
enum { LAM_ENDED_BY = 256 };
LAM_API void lam_recorder_ended_by(lam_recorder *r, const char *how);
/* The same for a signal that ends the process, `name` in static storage. It may be called in the signal's
 * handler: the recorder's thread writes the end at once, and this waits for that for at most `ms` ms. */
LAM_API void lam_recorder_signal(lam_recorder *r, const char *name, int32_t ms);
/* Writes the remaining steps, ends the run and frees the recorder, also on failure. NULL is allowed. */
LAM_API lam_status lam_recorder_close(lam_recorder *r, lam_error *e);

/* Median over `n` recorded steps, each weighed by the steps that it represents, and median absolute deviation
 * from it; n 0: not measured. For layers in many steps the two are accurate to 1 % and 2 % of the median;
 * else they are exact. */
typedef struct lam_middle { int64_t median, deviation, n; } lam_middle;
typedef struct lam_recorded_run {
    int64_t run;      /* its number in the file, from 1 */
    const char *file; /* the name with which it was opened */
    int64_t pid;      /* the process that wrote it */
    bool gone;        /* the run has no end, it ran on this machine, and its process no longer exists */
    bool cut;         /* the run has no end, and there is no -wal file: the newest steps may be missing */
    const char *command, *host, *torch, *lamina; /* NULL: unknown */
    const char *job;      /* NULL: unknown */
    int64_t attempt;      /* which start of the job, from 1; -1 unknown */
    int64_t calls;        /* of its models, recorded or not; -1 unknown */
    struct {
        int64_t minutes, calls; /* whole minutes of the run, and the calls in them; 0: none is known */
        int64_t slowest_ns, slowest_unix_ns; /* the longest time from one call to the next; its minute */
        int64_t stalls; /* minutes with one that took a second or more, and ten times as long as usual */
    } pace;
    const char *ended_by; /* "end": by itself; "SIGTERM"; an exception, its type first; NULL: unknown */
    int32_t rank, world;
    int32_t every; /* as in lam_run_info */
    int32_t n_models; /* a root counts once for each kind of its steps */
    int64_t started_unix_ns, seen_unix_ns; /* seen: the last write to the file */
    int64_t ended_unix_ns;                 /* 0: it is still running, or its process died */
    int64_t dropped;                       /* dropped steps */
} lam_recorded_run;
/* The shares of a device's peak that steps reach, model and hardware FLOPs utilization: the operations of a
 * step over its mean time, or where that is not known, over the median time from step to step. */
typedef struct lam_utilization {
    double mfu, hfu;    /* NaN: unknown */
    double flops_per_s; /* those of MFU; NaN: unknown */
    bool at_least;      /* all three are lower bounds, as are the FLOPs of a step */
    const char *why, *why_peak; /* why FLOPs are unknown or lower bounds, and why the peak is unknown; NULL */
    int64_t flops, hardware_flops; /* of a step, as in lam_step_work; -1 unknown */
    double peak;                   /* FLOP/s; NaN: unknown */
    const char *device, *dtype, *peak_of; /* as in lam_step_work; NULL: unknown */
} lam_utilization;
typedef struct lam_recorded_model { /* a root with one tree, and one kind of its steps */
    const char *name;
    /* Steps of one kind agree in mode, in number of calls, in whether torch made graphs, in whether compiled
     * code ran, and in whether a backward pass was observed. If there are more than three numbers of calls,
     * steps of one call are one kind and steps of several calls another. */
    int32_t kind, n_kinds;  /* the kind-th, from 0, of n_kinds of this root */
    bool training;          /* in train() mode */
    int32_t gradients;      /* torch made graphs: 1 yes, 0 no, -1 unknown */
    int32_t compiled;       /* compiled code ran: 1 yes, 0 no, -1 unknown */
    bool went_back;         /* a backward pass was observed */
    int64_t least_calls, most_calls; /* calls of the root in a step */
    int64_t params, local_params, param_bytes; /* distinct ones; local: those in this process; -1 unknown */
    int64_t local_bytes, logical_bytes; /* as in lam_cost_row; -1 unknown, as in files of older versions */
    int64_t tree; /* a number that models with layers of the same paths and types share */
    int32_t n_places;
    bool warmed_up;       /* the root's first step is a warm-up and was left out, since there are others */
    int64_t n_steps;      /* recorded steps, without the warm-up */
    int64_t last, failed; /* the number of the newest step; the number of steps that raised */
    lam_middle forward_ns, backward_ns; /* of a step */
    lam_middle step_ns; /* from the start of a step to the next start; n 0 if steps differ in their calls */
    lam_middle call_ns; /* from a call of the root to its next call of the same mode and gradients */
    /* Means over steps that count and whose end is known, each weighed by the steps that it represents. They
     * add up: an unknown one, -1, is part of LAM_STEP_OTHER. */
    struct {
        int64_t n, whole_ns; /* n 0: nothing is known */
        int64_t ns[LAM_N_STEP_PHASES];
        int64_t steps[LAM_N_STEP_PHASES]; /* that spent time in it */
        int64_t processor_ns; /* inside them: the step's thread was ready to run, and no processor was free;
                               * -1 unknown */
    } phases;
    /* Steps that are recorded beside all between them and the next: means, of n recorded ones, each weighed
     * by those between, and the standard error of the first; n 0: not known. */
    struct {
        int64_t n, recorded_ns, between_ns, error_ns;
    } cost;
    lam_utilization used;
    lam_middle peak_bytes;
    lam_middle device_forward_ns, device_backward_ns; /* by a GPU's clock */
    lam_middle device_peak_bytes;                     /* of a GPU's memory */
    int64_t nonfinite;     /* steps with a NaN or Inf; -1: values were not checked */
    int32_t first_bad;     /* the place that made the first one, -1 none */
    int64_t first_bad_step;
} lam_recorded_model;
typedef struct lam_recorded_place {
    const char *path, *type;
    int32_t parent, depth; /* of the root: -1, 0 */
    int64_t params, local_params; /* without its children, tied ones at their first owner; -1 unknown */
    int64_t n_steps;     /* steps in which it was called */
    lam_middle calls;    /* calls a step */
    lam_middle forward_ns, self_ns; /* self: without the calls inside it */
    lam_middle backward_ns;         /* of the nodes that the layer made; total: with the layers inside it */
    lam_middle total_backward_ns;
    lam_middle recompute_ns;        /* forward work that was repeated in the backward */
    lam_middle allocated_bytes, retained_bytes, peak_bytes;
    lam_middle device_forward_ns, device_self_ns, device_backward_ns, device_recompute_ns;
    lam_middle device_retained_bytes, device_peak_bytes;
    lam_middle regions;  /* pieces of compiled code that began in it, without those in the layers inside it */
    int64_t own_ns;      /* self and backward together, by a GPU's clock if one was read; -1 unknown */
    int64_t nonfinite;   /* steps with a NaN or Inf in its results or gradients; -1: not checked */
} lam_recorded_place;

typedef struct lam_recorded_step {
    int64_t number, unix_ns;
    int64_t calls;      /* of the root */
    int64_t represents; /* its weight in medians: how many steps it represents */
    bool counts;  /* the medians include it: it did not raise, and is no warm-up */
    bool failed, looked, bad; /* it raised; its values were checked; they had a NaN or Inf */
    int32_t first_bad; /* the place that made the first one; -1 none */
    int64_t forward_ns, backward_ns, peak_bytes; /* -1 unknown */
    int64_t step_ns; /* to the start of the next step that counts, for each step between; -1 unknown */
    int64_t device_forward_ns, device_backward_ns, device_peak_bytes;
    int64_t whole_ns, phase_ns[LAM_N_STEP_PHASES]; /* as recorded; they add up; -1 unknown */
    int64_t processor_wait_ns; /* as in lam_step_info */
    int64_t collectives, collectives_hash; /* the same; -1 unknown */
} lam_recorded_step;

typedef struct lam_recording lam_recording;
/* Reads run `run` of `file` (0: the newest), only the `last` newest steps of each kind (0: all). The file is
 * not trusted. LAM_IO if it is no recording or is damaged, LAM_LIMIT if reading it would take more memory
 * than the size of the file and 256 MB. */
LAM_API lam_status lam_recording_open(lam_recording **out, const char *file, int64_t run, int32_t last,
                                      lam_error *e);
/* The same of all steps, but reads no rows of layers: places have no medians. */
LAM_API lam_status lam_recording_open_steps(lam_recording **out, const char *file, int64_t run, lam_error *e);
/* The same of the start of its job before this one, in its file; *out NULL: there is none, or the run has no
 * job. */
LAM_API lam_status lam_recording_open_before(lam_recording **out, const lam_recording *r, lam_error *e);
LAM_API void lam_recording_free(lam_recording *r); /* NULL is allowed */
LAM_API const lam_recorded_run *lam_recording_run(const lam_recording *r);
LAM_API const lam_recorded_model *lam_recording_model(const lam_recording *r, int32_t i); /* NULL: none */
LAM_API const lam_recorded_place *lam_recording_place(const lam_recording *r, int32_t model, int32_t place);
/* The i-th step of a model that was read, the oldest first, warm-up and steps that raised included. False:
 * there are no more. */
LAM_API bool lam_recording_step(const lam_recording *r, int32_t model, int64_t i, lam_recorded_step *out);
/* A place in the steps of an hour that count. */
typedef struct lam_recorded_hour {
    int64_t hour; /* since 1970 */
    int32_t place;
    int64_t steps;                   /* that the medians are of */
    int64_t forward_ns, backward_ns; /* medians: without the calls inside it; a GPU's if it was read */
} lam_recorded_hour;
typedef lam_status (*lam_take_hour)(void *self, const lam_recorded_hour *h, lam_error *e);
/* Reads the layers of a model from the file again, and gives the places of each hour. The medians are over at
 * most 16 steps of an hour, evenly spread. Hours that end before `from_unix_ns` are left out. */
LAM_API lam_status lam_recording_hours(const lam_recording *r, int32_t model, int64_t from_unix_ns,
                                       lam_take_hour take, void *self, lam_error *e);
/* True if the file starts like an SQLite database, or its name ends with .lamina. */
LAM_API bool lam_recording_is(const char *file);

typedef struct lam_recording_options {
    const char *format; /* "text" (default), "csv" or "json" */
    int32_t width;      /* 0: 100 */
    int32_t rows;       /* 0: every layer, in tree order; else the number of layers, the slowest first */
    int32_t depth;      /* -1: no limit */
    bool first_kinds;   /* show layers for each root's first kind of steps, and only sums for the others */
    bool color, bars, ascii; /* as in lam_report_options */
    int64_t now_unix_ns; /* the current time, to show how long ago a run last wrote; 0: not shown */
    bool newest; /* only the newest steps were read: which process slows the others is not told */
    const lam_ranks_look *look; /* one of the processes of a run beside its peers; NULL: all of them */
} lam_recording_options;
/* Writes one recording, or those of several processes side by side: which of them slows the others
 * (lamina_ranks.h), each of them, how much they differ, and which layers are slow in one of them. LAM_USAGE
 * for an unknown format. */
LAM_API lam_status lam_recording_write(const lam_recording *const *all, int32_t n,
                                       const lam_recording_options *o, lam_sink to, lam_error *e);
/* Writes one recording, or those of several processes side by side, as an HTML file, which has no script and
 * loads nothing. Its pictures show at most 600 steps. */
LAM_API lam_status lam_recording_page(const lam_recording *const *all, int32_t n, lam_sink to, lam_error *e);
/* Writes the verdict and the layers alone, as one element for a notebook; see lam_page_options.part. */
LAM_API lam_status lam_recording_part(const lam_recording *r, lam_sink to, lam_error *e);
/* Holds recordings against the limits that are of them: `straggler`, the gain of what the verdict on several
 * processes names, and `input`, the share of a step that the median process waits for its DataLoader.
 * `now_unix_ns` as in lam_recording_options. LAM_USAGE: `straggler` of one recording, or of those of several
 * runs. */
LAM_API lam_status lam_check_recordings(lam_check **out, const char *name, const lam_recording *const *all,
                                        int32_t n, int64_t now_unix_ns, const lam_budget *b, lam_error *e);
/* Writes the newest numbers of recordings, one of each rank, in Prometheus' text format. LAM_USAGE: two are
 * of one rank. */
LAM_API lam_status lam_recording_prometheus(const lam_recording *const *all, int32_t n, lam_sink to,
                                            lam_error *e);
/* Writes the scalars of every step of run `run` of `file` to a new TensorBoard event file in `folder`, which
 * is created if it is missing. `path`, of `size` bytes, receives the name of the new file. */
LAM_API lam_status lam_recording_tensorboard(const char *file, int64_t run, const char *folder, char *path,
                                             size_t size, lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
