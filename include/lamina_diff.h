/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences, a part of lamina.h: two models, reports saved as JSON, or recordings, module by module. */
#ifndef LAMINA_DIFF_H
#define LAMINA_DIFF_H

#include "lamina_recording.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One of the two sides of a difference: costs, or a file. */
typedef struct lam_diff_side {
    const lam_costs *costs; /* must outlive the difference; NULL: read `file` */
    const char *file;       /* a report that was saved as JSON, or a recording */
    int64_t run;            /* the run to read from a recording; 0: the newest */
    const char *name;       /* the name of the side; NULL: the file, or the target, or the root's type */
    const char *ran;        /* why only a part of the model ran, a sentence; NULL: all of it ran */
} lam_diff_side;

typedef struct lam_diff lam_diff;
/* Matches the modules of both sides: by path, then by equal types, shapes and counts at another path. Numbers
 * that one side lacks, or that another convention counted, are not compared; the difference says so. A
 * recording is compared by the medians of its most frequent kind of steps, if possible of one that both sides
 * have. LAM_IO: a file can't be read; LAM_FAILED: it is no report; else as lam_recording_open. */
LAM_API lam_status lam_diff_new(lam_diff **out, const lam_diff_side *before, const lam_diff_side *after,
                                lam_error *e);
LAM_API void lam_diff_free(lam_diff *d); /* NULL is allowed */
/* The number of modules that were added, removed, renamed, or changed themselves. */
LAM_API int32_t lam_diff_modules(const lam_diff *d);

LAM_API const char *lam_diff_metric(int32_t i); /* names of metrics of modules; NULL past the last one */

typedef struct lam_diff_options {
    const char *format; /* "text" (default), "md" or "json" */
    /* The metric whose difference modules are sorted by: "params", "param_bytes", "macs", "flops", "bytes",
     * "backward_macs", "backward_flops", "backward_bytes", "time", "backward_time", "memory", "retained",
     * "peak" or "calls". NULL: MACs, or the first that differs. If it is a measured one (from "time" on),
     * modules that differ in nothing else are listed too. */
    const char *by;
    int32_t width;     /* of the text, in columns; 0: no limit */
    int32_t rows;      /* how many of the largest differences text and Markdown show; 0: all; -1: 20 */
    int32_t depth;     /* deeper modules are summed up; -1: no limit */
    bool exact, ascii; /* numbers in full; no UTF-8 */
    bool command;      /* hints name the command's options */
} lam_diff_options;
/* Writes the difference. `o` NULL: the defaults, with depth and rows -1. LAM_USAGE: there is no such format,
 * or no such metric on both sides; the sentence lists the possible ones. */
LAM_API lam_status lam_diff_write(const lam_diff *d, const lam_diff_options *o, lam_sink to, lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
