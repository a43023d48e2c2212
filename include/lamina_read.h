/* SPDX-License-Identifier: Apache-2.0
 *
 * Models from files, a part of lamina.h.
 * A file is a source of a model as a run is: everything that reads a model works on it. Nothing of a file is
 * executed, and nothing in it is trusted. */
#ifndef LAMINA_READ_H
#define LAMINA_READ_H

#include "lamina_diff.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value for a size that a program leaves open. `name`: "batch", the first axis of its inputs, if that is
 * open; "x.1", an axis of the input x, from 0; or the name that the file has for the size. */
typedef struct lam_read_size {
    const char *name;
    int64_t value;
} lam_read_size;

/* Follows work that reads many bytes: it is called now and then, with the bytes that were read and those that
 * will be. Any status but LAM_OK ends the work, and is returned. */
typedef struct lam_watcher {
    lam_status (*watch)(void *self, uint64_t done, uint64_t all);
    void *self;
} lam_watcher;

typedef struct lam_read_options {
    uint64_t memory_limit; /* as for lam_builder_new */
    /* Looks for NaN and Inf in the weights: lam_health_new then tells where they are. It reads all values,
     * and the other options read none. */
    bool health;
    const lam_watcher *watcher; /* of that; NULL: none */
    const lam_read_size *sizes; /* in place of those of the file's example */
    int32_t n_sizes;
    /* Of an ONNX file: the shapes of its inputs, and values that decide shapes or branches:
     * "images=1x3x640x640", "1x3x640x640" for the next one, "sr=scalar:int64=16000". Sizes that the file
     * only names have then the sizes that they get. */
    const char *const *inputs;
    int32_t n_inputs;
    /* Reads the file again with other values of each size that it leaves open, of at most four sizes, so that
     * lam_costs_growth can tell how totals grow. */
    bool growth;
} lam_read_options;

/* Reads the model in a file: an archive of torch.export, ONNX, safetensors, GGUF, a checkpoint that
 * torch.save or torch.jit.save wrote, an index of shards of weights (beside them), a report that was saved as
 * JSON; or the one in a folder. Formats are told by content. What the file does not tell is unknown: without
 * a graph, what a call would cost. `o` NULL: the defaults. Free the model with lam_model_free. LAM_IO: it
 * can't be read; LAM_FAILED: it is damaged, or no such file; LAM_UNSUPPORTED, LAM_LIMIT: it has something
 * that is not known, or too much; LAM_USAGE: the file has no such input or size. The error names the place.
 */
LAM_API lam_status lam_read(lam_model **out, const char *path, const lam_read_options *o, lam_error *e);

/* The format of a file by its first bytes: "safetensors", "GGUF", "ONNX", "checkpoint", "TorchScript", "pt2"
 * (of torch.export), "ExecuTorch", "index", "report" (another JSON text too), or "folder" for one with such
 * a file; NULL: it is none of these, or can't be read. */
LAM_API const char *lam_read_format(const char *path);

/* == Weights against weights ===========================================================================
 * The tensors of two files by their values: safetensors, GGUF, checkpoints, an index of them, a folder with
 * one of these, in any mix. They are read in pieces, so memory does not grow with them. */

typedef enum lam_weights_change {
    LAM_WEIGHTS_EQUAL,
    LAM_WEIGHTS_CHANGED, /* another value, type or shape */
    LAM_WEIGHTS_ADDED,
    LAM_WEIGHTS_REMOVED,
    LAM_WEIGHTS_RENAMED, /* the same bytes under another name */
    LAM_WEIGHTS_UNKNOWN, /* it could not be compared */
    LAM_N_WEIGHTS_CHANGES
} lam_weights_change;
typedef struct lam_tensor_change {
    lam_weights_change change;
    const char *was, *name; /* its names before and after; NULL: there it does not exist */
    const char *type[2];    /* before and after: "float16", "q4_K"; NULL as its name */
    int32_t ndim[2];        /* -1: unknown */
    const int64_t *sizes[2];
    int64_t elements; /* -1: unknown */
    const char *why;  /* why values are not compared; NULL: they are, or it is on one side only */
    /* Of the values, if `compared`; of an equal tensor all are 0. */
    bool compared;
    int64_t differ;         /* elements whose values differ */
    double squares, before; /* the sums of the squares of all differences, and of all values before */
    double largest;         /* the largest absolute difference */
    int64_t nonfinite[2];   /* values that are NaN or Inf; no sum has their elements */
} lam_tensor_change;
typedef struct lam_weights_diff lam_weights_diff;

/* Compares the tensors of two files. They belong together by their names; of a GGUF file and another one also
 * by those of Hugging Face's for the same part; of the rest those with equal bytes. `watcher` NULL: none.
 * Free it with lam_weights_diff_free. As lam_read; LAM_UNSUPPORTED: a file is none of weights. */
LAM_API lam_status lam_weights_diff_new(lam_weights_diff **out, const char *before, const char *after,
                                        const lam_watcher *watcher, lam_error *e);
LAM_API void lam_weights_diff_free(lam_weights_diff *d); /* NULL is allowed */
/* The i-th tensor, in the order of the files; NULL past the last one. */
LAM_API const lam_tensor_change *lam_weights_tensor(const lam_weights_diff *d, int32_t i);
/* The number of tensors that are not equal. */
LAM_API int32_t lam_weights_differ(const lam_weights_diff *d);
/* The metrics that modules can be sorted by: "relative" (the norm of the difference over that of the values
 * before; the default), "norm", "largest", "differ" (the share of elements that differ), "elements"; NULL
 * past the last one. */
LAM_API const char *lam_weights_metric(int32_t i);
/* Writes the difference by module: `by` is one of those metrics. Else as lam_diff_write. */
LAM_API lam_status lam_weights_diff_write(const lam_weights_diff *d, const lam_diff_options *o, lam_sink to,
                                          lam_error *e);

/* == What loading a file would import ==================================================================
 * A pickle names functions and classes that loading it imports and calls. They are listed without loading
 * anything. */

typedef enum lam_import_kind {
    LAM_IMPORT_RUNS,  /* of a module whose functions run code, start programs, or read and write files */
    LAM_IMPORT_OTHER, /* of any other module */
    LAM_IMPORT_CLASS, /* the same, and by its name a class, as of a model that was saved whole */
    LAM_IMPORT_KNOWN  /* known to be harmless, by module and name */
} lam_import_kind;
typedef struct lam_import {
    const char *module, *name; /* "?" where the pickle makes them of something that is no text */
    const char *where;         /* the entries of zip files that it is in; "": the file itself */
    int64_t at;                /* the byte of the pickle that names it */
    int32_t times;             /* how often it is named */
    lam_import_kind kind;
} lam_import;
typedef struct lam_scan lam_scan;

/* Lists what loading a file would import: a checkpoint, a pickle, a zip file with pickles; other formats of
 * lam_read import nothing. What can't be read of it is no failure but a part of the result. Free it with
 * lam_scan_free. LAM_IO: the file can't be read. */
LAM_API lam_status lam_scan_new(lam_scan **out, const char *file, lam_error *e);
LAM_API void lam_scan_free(lam_scan *s); /* NULL is allowed */
/* The i-th import, each once, by kind; NULL past the last one. */
LAM_API const lam_import *lam_scan_import(const lam_scan *s, int32_t i);
/* The i-th part of the file that could not be read, and why; NULL past the last one. */
LAM_API const char *lam_scan_unread(const lam_scan *s, int32_t i);

#ifdef __cplusplus
}
#endif
#endif
