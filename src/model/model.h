/* SPDX-License-Identifier: Apache-2.0
 * model: what was seen, no opinions. One tree of places, the distinct modules and tensors behind it, and
 * one list of calls, all in one arena. */
#ifndef LMI_MODEL_H
#define LMI_MODEL_H

#include "vocab/vocab.h"

/* Where one tensor that went into an operator comes from. */
typedef struct lmi_edge {
    int32_t op; /* -1: nothing that was seen */
    /* index of a parameter or buffer; -2 - i for the i-th argument of the outermost call; -1 none of these */
    int32_t owner;
    int32_t made;  /* the operator that made this very object, as its result `nth`; -1 none that was seen */
    int32_t write; /* the last that was written into its memory by then (lmi_write), -1 */
    int32_t maybe; /* `op` is -1: it has the memory of what this operator gave, and may be that (Tensor.data);
                      -1 */
    int16_t nth;
    bool through; /* `op` wrote through another view of its memory */
} lmi_edge;

/* Something was written into memory: by the operator that made it, or later through a view. */
typedef struct lmi_write {
    int32_t op;
    int32_t made, nth, ndim; /* the view, as in lmi_edge, and its shape */
    const int64_t *sizes;
    int32_t owner;
    int32_t prev; /* the write before into the same memory, -1 */
    uint32_t when;
} lmi_write;

/* What was seen of memory (memory.c). */
typedef struct lmi_memory {
    lam_memory_info info; /* its text is in the arena */
    bool seen;
    lmi_vec blocks; /* lam_block */
    lmi_vec spans;  /* lam_span */
} lmi_memory;
void lmi_memory_free(lmi_memory *y); /* NULL is allowed */
/* What a device's clock and its allocator told (device.c). */
typedef struct lmi_device {
    bool timed;
    lmi_vec spans; /* lam_device_span */
    lmi_vec bytes; /* lam_device_bytes */
    lmi_vec uses;  /* lam_span */
} lmi_device;
void lmi_device_free(lmi_device *d); /* NULL is allowed */
/* What was seen of values (health.c). */
typedef struct lmi_seen lmi_seen;
void lmi_seen_free(lmi_seen *s); /* NULL is allowed */
void lmi_seen_finish(lmi_seen *s);
/* Backward passes by their numbers; those that don't fit are in no set. */
enum { LMI_PASSES = 1 << 16 };
typedef struct lmi_passes {
    uint64_t has[LMI_PASSES / 64];
} lmi_passes;
bool lmi_is_pass(const lmi_passes *p, int32_t pass);
void lmi_seen_leave_out(lmi_seen *s, const lmi_passes *others); /* NULL is allowed */

/* One tensor among an operator's arguments and results as it was pushed: the addresses of its memory and of
 * itself, of 48 bits each. */
typedef struct lmi_tie {
    uint32_t id[3];
} lmi_tie;

/* A parameter or buffer that has addresses. */
typedef struct lmi_identity {
    uint64_t storage, object;
    int32_t tensor;
} lmi_identity;

/* A fact of the run's provenance. */
typedef struct lmi_named_text {
    const char *name, *text;
} lmi_named_text;

struct lam_model {
    lmi_arena arena;
    lmi_memory *memory; /* NULL: it was not measured */
    lmi_device *device; /* NULL: none was asked */
    int32_t n_modules, n_places, n_tensors, n_events, n_notes, n_made, n_provenance;
    lam_module *modules;
    lam_place *places;
    lam_tensor *tensors;
    lam_event *events;
    const char **notes, **made;
    lmi_named_text *provenance;
    const char *cut; /* why more ran than was seen; NULL: nothing did */
    bool calls_cut;
    int64_t cut_ns;
    bool ops_seen, nodes_seen, timed, traced, no_backward;
    struct lam_model *timed_by; /* whose times are its; NULL: its own */
    int32_t n_ops, n_op_sigs;
    lam_op *ops;
    lmi_tie *ties; /* of the tensors of each operator, arguments first; see lam_op.ties_ */
    uint64_t n_ties;
    lmi_edge *edges; /* in their place, once sources were asked for; those of results mean nothing */
    lmi_identity *identities;
    int32_t n_identities;
    lmi_write *writes;     /* into the memory of tensors, found with the edges */
    lmi_edge *out_sources; /* of the calls' results, and where each call's begin */
    int32_t *out_sources_at, n_out_sources_at;
    int32_t n_lifetimes;
    lam_lifetime *lifetimes; /* of a dry run's tensors */
    void *storage[16];  /* what the arrays live in when they are not in the arena; freed with the model */
    lmi_seen *seen;     /* NULL: nobody looked */
    int32_t *by_path;   /* open addressing: places by the hash of their path, -1 empty */
    uint64_t path_mask; /* slots of by_path - 1 */
};

/* The edge of entry `in` of an operator's arguments, or of entry `out` of a call's results; NULL: it is no
 * tensor, or sources can't be had. */
const lmi_edge *lmi_model_edge(const lam_model *m, int32_t op, int32_t in);
const lmi_edge *lmi_model_out_edge(const lam_model *m, int32_t event, int32_t out);

/* Takes out what backward passes showed in which no node is of this model's: another model's, which ran while
 * a capture of this one was open. */
void lmi_leave_out_passes(lam_model *m);

/* Offers the call's tensors, the module's owned tensors and its attributes to the binder, of each kind so
 * many that no real layer has more. Never fails. */
void lmi_model_bind(const lam_model *m, int32_t event, lmi_slots *out);
/* The i-th attribute of a module as a report tells it; false past the last one. Behind those that were read
 * comes `bias`, whether it has one, where its kind may. A number that is not finite is a text, as "inf". */
bool lmi_module_attr(const lam_model *m, int32_t module, int32_t i, lam_attr *out);

#endif
