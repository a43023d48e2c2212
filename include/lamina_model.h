/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a model, a part of lamina.h.
 * Its observations, as the source pushed them. All results are borrowed from the model. */
#ifndef LAMINA_MODEL_H
#define LAMINA_MODEL_H

#include "lamina_build.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == Modules, calls, operators =========================================================================
 * All pointers are borrowed from the model. An index out of range gives NULL. */

typedef struct lam_shape { int32_t ndim; const int64_t *sizes; } lam_shape; /* ndim -1: unknown */
typedef struct lam_owned { const char *name; int32_t tensor; bool is_buffer; } lam_owned;
typedef struct lam_attr { const char *name; lam_value value; } lam_attr;

typedef struct lam_module {
    const char *type, *type_path, *extra;
    int32_t word;
    uint32_t flags;
    int32_t n_owned; const lam_owned *owned; /* parameters and buffers in registration order */
    int32_t n_attrs; const lam_attr *attrs;
    int32_t n_places; const int32_t *places; /* every place that holds it, in registration order */
    int32_t n_calls;                         /* calls of the module */
} lam_module;

typedef struct lam_place {
    const char *name; /* last component; the root's is "" */
    const char *path; /* dotted, "" for the root */
    int32_t parent, module, depth; /* the root has parent -1 and depth 0 */
    int32_t n_children; const int32_t *children;
    int32_t n_calls; /* calls at this place */
} lam_place;

typedef struct lam_tensor {
    int32_t dtype;
    lam_shape shape;
    int64_t numel, bytes; /* bytes: of the memory in which it is stored; -1: unknown */
    int64_t elsewhere;    /* the part of numel that other processes hold */
    int64_t local_bytes;  /* what this process stores of `bytes`; -1: unknown */
    uint64_t storage;     /* the identity of its memory, which other tensors may share; 0: unknown */
    int64_t storage_bytes; /* of all of that memory; 0: unknown */
    bool requires_grad, packed;
    bool wraps; /* its memory lies in other tensors */
    int8_t gradient; /* of a backward pass from all outputs: 1 received, -1 not received, 0 not checked */
    int32_t owner; /* the first module that owns it, -1 none */
    int32_t n_owners;
} lam_tensor;

typedef struct lam_event { /* one call of a module */
    int32_t module, place, parent, ordinal; /* ordinal: the k-th call of this module, from 0 */
    int32_t n_children_called; /* direct child calls */
    uint32_t flags;            /* lam_call_flags */
    int32_t regions;           /* as in lam_call_info */
    int64_t t0_ns, t1_ns;
    int32_t n_in, n_out;
    const lam_arg *in, *out;
    int32_t thread; /* as in lam_op_info */
} lam_event;

/* A signature: the name, arguments and results that several operators share. */
typedef struct lam_op_sig {
    const char *name;
    int32_t word;  /* lam_word_op of the name; -1: none */
    int32_t index; /* from 0 to lam_model_n_op_sigs - 1, for tables */
    int32_t n_in, n_out, n_tensors; /* n_tensors: of both */
    const lam_op_arg *in, *out;
} lam_op_sig;

typedef struct lam_op {
    const lam_op_sig *sig;
    int32_t call, parent;
    int32_t n_children;   /* operators that ran directly inside it */
    uint8_t phase, flags; /* lam_phase, lam_op_flags */
    uint16_t thread;      /* as in lam_op_info; 65535: that or more */
    uint32_t ties_;       /* private: where its tensors' identities begin */
    int32_t pass;
    int64_t t0_ns, t1_ns;
} lam_op;

LAM_API bool lam_model_ops_seen(const lam_model *m);
LAM_API bool lam_model_nodes_seen(const lam_model *m);
LAM_API bool lam_model_timed(const lam_model *m);
/* False if operators ran and the memory of their tensors was not identified: then no source is known. */
LAM_API bool lam_model_traced(const lam_model *m);
LAM_API int32_t lam_model_n_ops(const lam_model *m);
LAM_API const lam_op *lam_model_op(const lam_model *m, int32_t i);
/* The innermost node in which the last backward pass raised; -1: it raised in none, or another pass or a
 * forward ran after it. */
LAM_API int32_t lam_model_failed_node(const lam_model *m);
LAM_API int32_t lam_model_n_op_sigs(const lam_model *m);
/* Sources: where the data of entry `in` of an operator's arguments comes from. LAM_SOURCE_NONE: the source
 * was not observed, the entry is no tensor, or an index is out of range. */
enum { LAM_SOURCE_NONE = -1 };
/* Finds all sources now; otherwise the first of the functions below does. This takes as long as building the
 * rest of the model; sums need no sources. LAM_NOMEM: none is known yet. */
LAM_API lam_status lam_model_find_sources(const lam_model *m, lam_error *e);
/* The last operator that produced the data: created it, created this view of it, or wrote into it. Writes to
 * other parts of its memory do not count. Of nested operators the outermost that had ended. */
LAM_API int32_t lam_model_source(const lam_model *m, int32_t op, int32_t in);
/* The parameter or buffer (lam_model_tensor) whose memory holds the data. */
LAM_API int32_t lam_model_source_tensor(const lam_model *m, int32_t op, int32_t in);
/* The entry of `in` of the outermost call around the operator whose memory holds the data. */
LAM_API int32_t lam_model_source_input(const lam_model *m, int32_t op, int32_t in);
/* The last operator that produced the data of entry `out` of a call's results before the call returned. */
LAM_API int32_t lam_model_call_output_source(const lam_model *m, int32_t event, int32_t out);
LAM_API int32_t lam_model_n_modules(const lam_model *m);
LAM_API int32_t lam_model_n_places(const lam_model *m);
LAM_API int32_t lam_model_n_tensors(const lam_model *m);
LAM_API int32_t lam_model_n_events(const lam_model *m);
LAM_API int32_t lam_model_n_notes(const lam_model *m);
LAM_API const lam_module *lam_model_module(const lam_model *m, int32_t i);
LAM_API const lam_place *lam_model_place(const lam_model *m, int32_t i);
LAM_API const lam_tensor *lam_model_tensor(const lam_model *m, int32_t i);
LAM_API const lam_event *lam_model_event(const lam_model *m, int32_t i);
LAM_API const char *lam_model_note(const lam_model *m, int32_t i);
/* How input i of the root's first call was generated; NULL if the user gave it. */
LAM_API const char *lam_model_input_origin(const lam_model *m, int32_t i);
/* Provenance, as pushed: the text of fact i, and its name unless `name` is NULL. Past the last one both are
 * NULL. A model without any was not captured from a live run. */
LAM_API int32_t lam_model_n_provenance(const lam_model *m);
LAM_API const char *lam_model_provenance(const lam_model *m, int32_t i, const char **name);
/* The text of a fact of the provenance by its name, as "dry"; NULL: unknown. */
LAM_API const char *lam_model_told(const lam_model *m, const char *name);
/* The place whose dotted path is `path` ("layer1.0.conv1"), or -1. */
LAM_API int32_t lam_model_find(const lam_model *m, const char *path);
/* The attribute called `name` of module i, or NULL. */
LAM_API const lam_value *lam_model_attr(const lam_model *m, int32_t module, const char *name);

/* == Memory ============================================================================================ */

LAM_API bool lam_model_memory_seen(const lam_model *m);
LAM_API int32_t lam_model_n_blocks(const lam_model *m);
LAM_API const lam_block *lam_model_block(const lam_model *m, int32_t i); /* as pushed */
LAM_API bool lam_model_device_memory_seen(const lam_model *m);

/* == Values ============================================================================================ */

/* The i-th gradient, by call, inputs before outputs, and by index; NULL past the last one. There are none
 * unless gradients were watched (lam_checked.gradients). */
LAM_API const lam_grad *lam_model_grad(const lam_model *m, int32_t i);
/* The index of the first gradient of `call` or of a later call. */
LAM_API int32_t lam_model_first_grad(const lam_model *m, int32_t call);
LAM_API const lam_checked *lam_model_checked(const lam_model *m); /* NULL: values were not checked */
LAM_API int32_t lam_model_n_bad(const lam_model *m);
LAM_API const lam_bad *lam_model_bad(const lam_model *m, int32_t i);
/* Reads the indices of the first non-finite element, one for each axis. Returns the number of axes; -1: the
 * indices are unknown. */
LAM_API int32_t lam_bad_first(const lam_bad *bad, int64_t at[LAM_MAX_AXES]);
/* The worst value found: "NaN", "Inf" or "-Inf"; NULL: none. */
LAM_API const char *lam_bad_kind(const lam_bad *bad);
LAM_API const lam_stats *lam_model_stats(const lam_model *m, int32_t call, int32_t out); /* NULL: none */

/* == A device's times ================================================================================== */

/* True if a device's clock was read in the run of `m`, or of the model that gives its times
 * (lam_model_time_by). */
LAM_API bool lam_model_device_timed(const lam_model *m);

/* == Lifetimes of memory =============================================================================== */

/* The number of lifetimes; 0 also if they were not followed. */
LAM_API int32_t lam_model_n_lifetimes(const lam_model *m);
LAM_API const lam_lifetime *lam_model_lifetime(const lam_model *m, int32_t i);

#ifdef __cplusplus
}
#endif
#endif
