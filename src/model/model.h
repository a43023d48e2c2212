/* SPDX-License-Identifier: Apache-2.0
 * model: observations without judgement. One tree of places, its distinct modules and tensors, and one list
 * of calls, all in one arena. */
#ifndef LMI_MODEL_H
#define LMI_MODEL_H

#include "vocab/vocab.h"

/* The source of one tensor among an operator's arguments. */
typedef struct lmi_edge {
    int32_t op; /* the operator that produced the data; -1: none was observed */
    /* index of a parameter or buffer; -2 - i for the i-th argument of the outermost call; -1 none of these */
    int32_t owner;
    int32_t made;  /* the operator that returned this object as its result `nth`; -1: none was observed */
    int32_t write; /* the last write into its memory before (lmi_write), -1 */
    int32_t maybe; /* if `op` is -1: the operator with a result on the same memory, which may be this tensor
                      (Tensor.data); -1 */
    int16_t nth;
    bool through; /* `op` wrote through another view of its memory */
    bool as_data; /* another tensor on the memory of a parameter, which no operator made (Tensor.data) */
} lmi_edge;

/* A write into memory: by the operator that allocated it, or later through a view. */
typedef struct lmi_write {
    int32_t op;
    int32_t made, nth, ndim; /* the view, as in lmi_edge, and its shape */
    const int64_t *sizes;
    int32_t owner;
    int32_t prev; /* the previous write into the same memory, -1 */
    uint32_t when;
} lmi_write;

/* Observations of memory (memory.c). */
typedef struct lmi_memory {
    lam_memory_info info; /* its text is in the arena */
    bool seen;
    lmi_vec blocks; /* lam_block */
    lmi_vec spans;  /* lam_span */
} lmi_memory;
void lmi_memory_free(lmi_memory *y); /* NULL is allowed */
/* Readings of a device's clock and allocator (device.c). */
typedef struct lmi_device {
    bool timed;
    lmi_vec spans; /* lam_device_span */
    lmi_vec bytes; /* lam_device_bytes */
    lmi_vec uses;  /* lam_span */
} lmi_device;
void lmi_device_free(lmi_device *d); /* NULL is allowed */
/* Observations of values (health.c). */
typedef struct lmi_seen lmi_seen;
void lmi_seen_free(lmi_seen *s); /* NULL is allowed */
void lmi_seen_finish(lmi_seen *s);
/* True for a model of a file: its weights may be checked, and no call has values. */
bool lmi_of_weights(const struct lam_model *m);
/* A set of backward passes, by their numbers; larger numbers are in no set. */
enum { LMI_PASSES = 1 << 16 };
typedef struct lmi_passes {
    uint64_t has[LMI_PASSES / 64];
} lmi_passes;
bool lmi_is_pass(const lmi_passes *p, int32_t pass);
void lmi_seen_leave_out(lmi_seen *s, const lmi_passes *others); /* NULL is allowed */

/* One tensor among an operator's arguments and results as pushed: the addresses of its memory and of the
 * object, of 48 bits each. */
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

/* A size that the model's source leaves open. */
enum { LMI_OTHER_SIZES = 3 };
typedef struct lmi_open_size {
    const char *name;
    int64_t value;       /* -1: it has none, and what depends on it is unknown */
    int64_t least, most; /* values that the source allows */
    /* The same model with other values of this size. */
    int32_t n_others;
    int64_t other[LMI_OTHER_SIZES];
    struct lam_model *at[LMI_OTHER_SIZES];
} lmi_open_size;

struct lmi_given; /* analyse/costs.h */

struct lam_model {
    lmi_arena arena;
    /* The results of a report that was saved, in place of what they were computed from; NULL: observed. The
     * second function frees them. */
    struct lmi_given *given;
    void (*free_given)(struct lmi_given *given);
    bool device_given;  /* it has the memory of a device */
    lmi_memory *memory; /* NULL: it was not measured */
    lmi_device *device; /* NULL: no device was measured */
    int32_t n_modules, n_places, n_tensors, n_events, n_made, n_provenance;
    lam_module *modules;
    lam_place *places;
    lam_tensor *tensors;
    lam_event *events;
    lmi_vec notes; /* const char *; the one list that may grow later */
    const char **made;
    lmi_named_text *provenance;
    const char *cut; /* why observations are missing; NULL: none are */
    /* why no call was observed, of a source that describes modules and tensors alone; NULL: it ran */
    const char *described;
    bool of_file; /* its provenance names the format of a file */
    bool trainable_unknown; /* which parameters are trainable is not told; so it is of a model that is
                               described */
    bool calls_cut;
    int64_t cut_ns;
    bool ops_seen, nodes_seen, timed, traced, no_backward;
    bool backward_raised;       /* a backward pass did */
    int32_t failed_node;        /* the last node in which a backward pass raised, the innermost; -1 */
    struct lam_model *timed_by; /* the model that gives its times; NULL: itself */
    int32_t n_ops, n_op_sigs;
    lam_op *ops;
    lmi_tie *ties; /* of the tensors of each operator, arguments first; see lam_op.ties_ */
    uint64_t n_ties;
    lmi_edge *edges; /* replace `ties` after sources were found; those of results are not set */
    lmi_identity *identities;
    int32_t n_identities;
    lmi_write *writes;     /* into the memory of tensors, found with the edges */
    lmi_edge *out_sources; /* of the calls' results, and the index of each call's first one */
    int32_t *out_sources_at, n_out_sources_at;
    int32_t n_lifetimes;
    lam_lifetime *lifetimes; /* of a dry run's tensors */
    const char *more;        /* why more may be taken than they tell; NULL: not more */
    const char *optimizer;   /* whose step was followed; NULL: none */
    int32_t step;            /* the first operator of that step */
    bool decided;            /* made-up values may decide which operators it has */
    /* the arrays that are not in the arena, the one of `ties` or `edges` first; freed with the model */
    void *storage[16];
    int32_t n_storage;
    lmi_seen *seen;       /* NULL: values were not checked */
    lmi_map by_path;      /* places by a hash of their path; empty: none was looked for (read.c) */
    const lam_kept *kept; /* what the forward left for the next one */
    int32_t n_kept;
    int64_t kept_batch;
    const char *kept_why;
    lmi_vec open_sizes; /* lmi_open_size */
};

/* Makes room for so many modules with a place each, and tensors with an owner each. */
lam_status lmi_builder_reserve(lam_builder *b, int32_t modules, int32_t tensors, lam_error *e);
/* True if something was not taken since it is above the limit of memory. */
bool lmi_builder_full(const lam_builder *b);
/* Indexes the places by their paths, for lam_model_find, which else compares them one by one. */
lam_status lmi_model_index(const lam_model *m, lam_error *e);
/* Adds a size that the source leaves open. */
lam_status lmi_model_open_size(lam_model *m, const char *name, int64_t value, int64_t least, int64_t most,
                               lam_error *e);
static inline lmi_open_size *lmi_open_size_at(const lam_model *m, size_t i) {
    return lmi_vec_at(&m->open_sizes, i);
}

/* Elements of a shape; -1: unknown or too many. */
int64_t lmi_numel(lam_shape s);
/* Bytes of `n` elements of `bits` bits, rounded up to whole bytes; -1: unknown. */
int64_t lmi_stored(int64_t n, int32_t bits);
/* What the tensor takes by its shape and type, wherever it is stored; -1: unknown. */
static inline int64_t lmi_logical_bytes(const lam_tensor *t) {
    return lmi_stored(t->numel, lam_dtype_bits(t->dtype));
}
/* Bytes of a call's argument or result; -1: unknown. */
int64_t lmi_arg_bytes(const lam_arg *a);
static inline int64_t lmi_op_arg_numel(const lam_op_arg *a) {
    return lmi_numel((lam_shape){a->ndim, a->sizes});
}
/* The phase of a call: LAM_RECOMPUTE if a backward pass repeats it. */
/* True if an operator, a node or a call ran in a backward pass. */
bool lmi_went_back(const lam_model *m);
static inline lam_phase lmi_call_phase(const lam_event *c) {
    return c->flags & LAM_CALL_AGAIN ? LAM_RECOMPUTE : LAM_FORWARD;
}

/* True for a call inside another of the same place, as of a module that calls itself: what that one took
 * includes it. */
bool lmi_inside_itself(const lam_model *m, const lam_event *call);

/* The operator around this one, if this one's work may be a part of that one's; else -1. */
static inline int32_t lmi_op_owner(const lam_op *o) { return o->flags & LAM_OP_BESIDE ? -1 : o->parent; }
/* True for the name of one of torch's own operators. */
static inline bool lmi_is_torchs(const char *op) { return strncmp(op, "aten::", 6) == 0; }
/* True for the operators whose mask names what is hidden, where that of others names what is seen. */
static inline bool lmi_is_masked_fill(const char *op) { return strncmp(op, "aten::masked_fill", 17) == 0; }
/* True for the torch.autograd.Function of flex_attention, for its node in a backward pass, and for the
 * operator as a dispatch mode sees it. */
static inline bool lmi_is_flex(const char *op) {
    return strncmp(op, "FlexAttentionAutogradOp", 23) == 0 ||
           strncmp(op, "higher_order::flex_attention", 28) == 0;
}
/* The argument at a position of the schema that is no tensor; NULL: there is none. */
const lam_value *lmi_sig_value(const lam_op_sig *s, int32_t position);
/* The shape of the first tensor among the results; ndim -1: there is none. */
lam_shape lmi_result_shape(const lam_op_sig *s);
/* "parent.name"; the root and its children have no dot. NULL: memory ran out. */
char *lmi_join_path(lmi_arena *a, const char *parent, const char *name);

/* The edge of entry `in` of an operator's arguments, or of entry `out` of a call's results; NULL: it is no
 * tensor, or sources could not be found. */
const lmi_edge *lmi_model_edge(const lam_model *m, int32_t op, int32_t in);
const lmi_edge *lmi_model_out_edge(const lam_model *m, int32_t event, int32_t out);

/* Finds `failed_node`. If a backward pass raised, the model is incomplete, and `cut` says so. */
lam_status lmi_note_raised(lam_model *m, bool raised, lam_error *e);
/* Removes observations of backward passes without a node of this model: they are another model's, which ran
 * while a capture of this one was open. */
void lmi_leave_out_passes(lam_model *m);

/* Offers the call's tensors, the module's owned tensors and its attributes to the binder, up to limits that
 * no real layer reaches. Never fails. */
void lmi_model_bind(const lam_model *m, int32_t event, lmi_slots *out);
/* The same for a module without a call. */
void lmi_module_bind(const lam_model *m, int32_t module, lmi_slots *out);
/* The i-th attribute of a module as a report shows it; false past the last one. After the attributes that
 * were read comes `bias`, true or false, if modules of the kind may have one. A number that is not finite is
 * a text, such as "inf". */
bool lmi_module_attr(const lam_model *m, int32_t module, int32_t i, lam_attr *out);

#endif
