/* SPDX-License-Identifier: Apache-2.0
 *
 * Differences, a part of lamina.h: two models, reports saved as JSON, or recordings, module by module. */
#ifndef LAMINA_DIFF_H
#define LAMINA_DIFF_H

#include "lamina_recording.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One of both: costs, or a file. */
typedef struct lam_diff_side {
    const lam_costs *costs; /* must outlive the difference; NULL: what `file` holds */
    const char *file;       /* a report that was saved as JSON, or a recording */
    int64_t run;            /* of a recording: which run of the file; 0: the newest */
    const char *name;       /* what it is called; NULL: the file, or the target, or the root's type */
    const char *ran;        /* only a part of the model ran: why, a sentence; NULL: all of it did */
} lam_diff_side;

typedef struct lam_diff lam_diff;
/* Matches the modules of both: by path, then by equal types, shapes and counts at another path. What only one
 * of them knows, and what another convention counted, is not compared; the difference says so. Of a recording
 * the medians of its most frequent steps are compared, if possible of those that both have. LAM_IO: a file
 * can't be read; LAM_FAILED: it is no report; else as lam_recording_open. */
LAM_API lam_status lam_diff_new(lam_diff **out, const lam_diff_side *before, const lam_diff_side *after,
                                lam_error *e);
LAM_API void lam_diff_free(lam_diff *d); /* NULL is allowed */
/* Modules that were added, removed, changed themselves or renamed. */
LAM_API int32_t lam_diff_modules(const lam_diff *d);

LAM_API const char *lam_diff_metric(int32_t i); /* names of metrics of modules; NULL past the last one */

typedef struct lam_diff_options {
    const char *format; /* "text" (default), "md" or "json" */
    /* The metric whose difference modules are sorted by: "params", "param_bytes", "macs", "flops", "bytes",
     * "backward_macs", "backward_flops", "backward_bytes", "time", "backward_time", "memory", "retained",
     * "peak" or "calls". NULL: MACs, or the first that differs. By a measured one (from "time" on), modules
     * that differ in nothing else are listed too. */
    const char *by;
    int32_t width;     /* of the text, in columns; 0: no limit */
    int32_t rows;      /* the largest differences alone, of text and Markdown; 0: all; -1: 20 */
    int32_t depth;     /* what is deeper is summed up; -1: no limit */
    bool exact, ascii; /* numbers in full; no UTF-8 */
    bool command;      /* hints name the command's options */
} lam_diff_options;
/* `o` NULL: the defaults, with depth and rows -1. LAM_USAGE: there is no such format, or no such metric that
 * both know; the sentence lists those there are. */
LAM_API lam_status lam_diff_write(const lam_diff *d, const lam_diff_options *o, lam_sink to, lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
