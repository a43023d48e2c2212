/* SPDX-License-Identifier: Apache-2.0
 *
 * Models from files, a part of lamina.h.
 * A file is a source of a model as a run is: everything that reads a model works on it. Nothing of a file is
 * executed, and nothing in it is trusted. */
#ifndef LAMINA_READ_H
#define LAMINA_READ_H

#include "lamina_report.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lam_read_options {
    uint64_t memory_limit; /* as for lam_builder_new */
} lam_read_options;

/* Reads the model in a file: safetensors, GGUF, an index of shards of weights (beside them), a report that
 * was saved as JSON; or the one in a folder. Formats are told by content. What the file does not tell is
 * unknown: without a graph, what a call would cost. `o` NULL: the defaults. Free the model with
 * lam_model_free. LAM_IO: it can't be read; LAM_FAILED: it is damaged, or no such file; LAM_UNSUPPORTED,
 * LAM_LIMIT: it has something that is not known, or too much. The error names the place. */
LAM_API lam_status lam_read(lam_model **out, const char *path, const lam_read_options *o, lam_error *e);

/* The format of a file by its first bytes: "safetensors", "GGUF", "index", "report" (another JSON text too),
 * or "folder" for one with such a file; NULL: it is none of these, or can't be read. */
LAM_API const char *lam_read_format(const char *path);

#ifdef __cplusplus
}
#endif
#endif
