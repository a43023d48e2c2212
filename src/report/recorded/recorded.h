/* SPDX-License-Identifier: Apache-2.0
 * Writers of recordings. recorded.c: one run as text; phases.c: phases of its steps; sheets.c: its tables.
 * ranks.c: several processes side by side; work.c, verdict.c: which of them slows the others; same.c: what is
 * the same in them; columns.c: tables of them. recorded_data.c: one and several as CSV and JSON. held.c: they
 * are held against limits. prometheus.c: for Prometheus. slower.c: whether its steps became slower. used.c:
 * the share of the peak that they reach. */
#ifndef LMI_RECORDED_H
#define LMI_RECORDED_H

#include "report/table/report.h"

typedef struct lmi_recorded {
    const lam_recording *const *all;
    int32_t n;       /* processes that are shown */
    int32_t n_older; /* earlier starts of their job, which follow: the verdict is reached with them */
    bool of_one_job; /* all tell the same job, so that their starts are known */
    int32_t copies, replaced; /* that are left out: of some of them; of a rank that another one took over */
    const lam_recording_options *o;
    size_t width;
    lmi_buf out;
    lam_error *e;
    bool by_rank;       /* named by rank: no two ranks are equal */
    const char **names; /* of several: the names of their files without folders, sorted */
    int32_t model;      /* the model of the first recording that is compared with those of its name */
} lmi_recorded;

enum { LMI_FEW_STEPS = 10 }; /* medians of fewer say little */

/* For qsort of pointers to places: the one with the most own time first. */
int lmi_by_own_time(const void *a, const void *b);

/* A layer for which one of several processes takes longer than the median of all. */
typedef struct lmi_straggler {
    const lam_recorded_place *place;
    const char *model;
    int32_t which;          /* the slowest process */
    int64_t slowest, among; /* its own time, and the median of all */
} lmi_straggler;
enum { LMI_STRAGGLERS = 10 };

lam_status lmi_recorded_ranks(lmi_recorded *w);
/* The model of each process whose steps took most time: the same in all, or where none has its name, as in a
 * stage of a pipeline, its own; -1: it has none. */
void lmi_recorded_mains(const lmi_recorded *w, int32_t *model);
/* Writes the part that the options name. */
lam_status lmi_recorded_look(lmi_recorded *w, lam_sink to);
/* Which process slows the others, and the part that the options name; *out NULL: they are not processes of
 * one run. */
lam_status lmi_recorded_judge(const lmi_recorded *w, lam_ranks **out);
/* Sets `all`: without copies of others; of the recordings of one job, the newest start of each rank, and then
 * the earlier ones. Of two of one start that which was seen last counts. The caller frees the list. */
lam_status lmi_recorded_sort(lmi_recorded *w, const lam_recording *const *all, int32_t n);
/* Why two of them are not processes of one run; NULL: there is no reason, or each is a separate run, which
 * may be compared with another. */
const char *lmi_recorded_unlike(const lmi_recorded *w);
/* The table of a model's phases; nothing if they were not measured. */
lam_status lmi_recorded_phases(lmi_recorded *w, int32_t model);
bool lmi_phase_shown(const lam_recorded_model *m, lam_step_phase phase); /* it took time, or is unknown */
const char *lmi_phase_unknown(lam_step_phase phase);                     /* why it is, if it is */

/* What stands out in the steps of a process: by its mean input or waiting for a processor, from a tenth of a
 * step on, or the optimizer, from three tenths on, the largest of the three; or that steps became slower. */
typedef struct lmi_standout {
    const char *kind; /* "input", "processor", "slower", "optimizer", "nothing"; NULL: unknown (fewer than 20
                       * steps) */
    double percent;     /* of a step; "slower": of the steps before; "nothing": 0 */
    const char *reason; /* of what takes time: why that is, as the end of a sentence */
    const char *next;   /* what to do about it, a sentence; "nothing": NULL */
    int64_t since, before_ns, after_ns; /* "slower": the first step that is, and medians of a step */
    const char *phase;                  /* "slower": that most of it is in; NULL: none */
} lmi_standout;
lmi_standout lmi_standout_of(const lam_recorded_model *m); /* of its phases alone */
const char *lmi_standout_what(const lmi_standout *x);      /* what takes time: "input", "waiting for ..." */
const char *lmi_standout_next(lam_step_phase phase); /* of input or the optimizer: what to do about it */
lam_status lmi_recorded_standout(const lam_recording *r, int32_t model, lmi_standout *out, lam_error *e);
void lmi_put_slower(lmi_buf *b, const lmi_standout *x); /* " at step 1,600 (120 ms -> 148 ms). Look at ..." */
lam_status lmi_recorded_csv(lmi_recorded *w);
lam_status lmi_recorded_json(lmi_recorded *w);

/* The stragglers among the layers of `model`, the most time lost first. */
lam_status lmi_stragglers(const lmi_recorded *w, lmi_straggler out[LMI_STRAGGLERS], int32_t *found);

/* Finds their names: sets by_rank and names, which the caller frees. */
lam_status lmi_recorded_names(lmi_recorded *w);
/* The place of the path of `p` in another recording, nearly always at its index `i`; NULL: there is none. */
const lam_recorded_place *lmi_recorded_place_like(const lam_recording *r, int32_t model,
                                                  const lam_recorded_place *p, int32_t i);
/* The index of the model of the i-th recording that is compared; -1: it has none. */
int32_t lmi_recorded_index(const lmi_recorded *w, int32_t i);
/* That model; NULL: it has none. */
const lam_recorded_model *lmi_recorded_model(const lmi_recorded *w, int32_t i);

/* "?" if it was not measured. */
/* True if recording makes the recorded steps slower, by 3 % or more and by more than chance. */
static inline bool lmi_recording_slows(const lam_recorded_model *m) {
    const int64_t slower = m->cost.recorded_ns - m->cost.between_ns;
    return m->cost.n >= LMI_FEW_STEPS && slower >= m->cost.between_ns / 33 && slower > 4 * m->cost.error_ns;
}
static inline void lmi_put_median(lmi_buf *b, lam_middle m) { lmi_put_time(b, m.n ? m.median : -1); }
static inline void lmi_put_size(lmi_buf *b, lam_middle bytes) {
    lmi_put_bytes(b, bytes.n ? lmi_exact(bytes.median) : lmi_unknown());
}
static inline void lmi_put_integer(lmi_buf *b, int64_t n) { /* "1,234"; "?" below 0 */
    lmi_put_grouped(b, lmi_count_of(n));
}
/* "MFU 41.2 %, HFU 52 % of 989 TFLOP/s (NVIDIA H200, bfloat16); 3.21 TFLOP a step, 407 TFLOP/s"; where they
 * are not known "?", and the reason (used.c). */
void lmi_put_used(lmi_buf *b, const lam_utilization *u);
void lmi_put_share_of_peak(lmi_buf *b, double share); /* "41.2 %"; NaN: "?" */
const char *lmi_used_why(const lam_utilization *u);   /* why MFU is unknown, or a lower bound; NULL */
void lmi_put_kind(lmi_buf *b, const lam_recorded_model *m); /* "a training step of 2 calls" */
/* The name of the i-th of several: "rank 3", or its file if ranks are equal. */
void lmi_put_which(lmi_buf *b, const lmi_recorded *w, int32_t i);
/* "ended after 12 s", "not ended yet", "the process that wrote it (pid 12) has ended ..." */
void lmi_put_state(const lmi_recorded *w, const lam_recorded_run *run, lmi_buf *b);
void lmi_put_when(lmi_buf *b, int64_t unix_ns); /* "2026-01-31 12:00:00 UTC" */
/* Breaks the lines written from byte `from` on at the width of the page, if one was given. */
void lmi_recorded_wrap(lmi_recorded *w, size_t from);
/* Begins a table as wide as the page, with `n` columns. */
void lmi_recorded_sheet(lmi_sheet *t, lmi_recorded *w, const lmi_head *heads, int32_t n);
/* Writes it, unless something failed, with the names of the columns that had no room, and frees it. */
lam_status lmi_recorded_sheet_end(lmi_recorded *w, lmi_sheet *t);

#endif
