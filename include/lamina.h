/* SPDX-License-Identifier: Apache-2.0
 *
 * lamina: see every layer of a neural network.
 *
 * Ownership: free the result of a `_new` function with its `_free`. Every other pointer is borrowed and is
 * valid as long as the object that it was read from.
 *
 * Errors: every function that can fail returns a lam_status and takes a `lam_error *` last (NULL is allowed).
 * The caller owns the error, which keeps the first failure. The library never prints, exits or aborts. A
 * number that can't be known is not an error: its state is LAM_UNKNOWN or LAM_AT_LEAST, with a reason.
 *
 * Threads: an object may be used by one thread at a time; different objects are independent. There is no
 * global mutable state.
 *
 * Contents: 1 errors and sinks · 2 words · 3 building a model · 4 reading a model · 5 conventions and rules ·
 * 6 costs · 7 receptive field · 8 reports · 9 numbers as text · 10 the data's graph · 11 memory ·
 * 12 values and health · 13 time · 14 will it fit · included here: lamina_command.h and lamina_recording.h
 */
#ifndef LAMINA_H
#define LAMINA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LAM_API __attribute__((visibility("default")))
#define LAM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define LAM_API
#define LAM_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LAM_VERSION "0.2.0"

/* The version of this library, "MAJOR.MINOR.PATCH"; static storage. */
LAM_API const char *lam_version(void);

/* == 1. Errors and sinks ================================================================================= */

typedef enum lam_status {
    LAM_OK = 0,
    LAM_NOMEM = -1,       /* memory ran out, or an arena's limit was reached */
    LAM_IO = -2,          /* a sink refused bytes, or a file could not be read or written */
    LAM_SYNTAX = -3,      /* a text (formula, command line, file) is malformed; `at` is the byte offset */
    LAM_UNSUPPORTED = -4, /* well formed, but this build or this source does not support it */
    LAM_LIMIT = -5,       /* a limit that guards against hostile input was reached */
    LAM_RANGE = -6,       /* an index or a number is out of range */
    /* the request names something that does not exist; the sentence lists what does */
    LAM_USAGE = -7,
    LAM_FAILED = -8       /* the host (a live model's own code) failed; the sentence is the host's */
} lam_status;

typedef struct lam_error { /* every parameter of this type may be NULL */
    lam_status status;     /* the first failure; later ones do not overwrite it */
    int64_t at;            /* byte offset in the input; -1: none */
    char where[96];        /* what and where: "convention 'foo'", "layer1.0.conv1"; may be empty */
    char text[256];        /* one sentence: what is wrong and what to do next; no newline */
} lam_error;

/* "USAGE", "NOMEM", ...; static storage, never NULL. */
LAM_API const char *lam_status_name(lam_status status);

/* A destination of text. `put` receives n bytes of UTF-8 and returns LAM_OK, or LAM_IO to stop the writer. */
typedef struct lam_sink {
    lam_status (*put)(void *to, const char *bytes, size_t n);
    void *to;
} lam_sink;

/* == 2. Words ===============================================================================================
 * A word is one spelling of one kind of layer or operator. Spellings, and the meaning of attributes and
 * arguments, are data (src/vocab/names_module.def). */

/* Index of the word for the torch.nn class `name` ("Conv2d"), or -1 if there is none. */
LAM_API int32_t lam_word_module(const char *name);
/* The spelling ("Conv2d") and the kind ("conv") of a word; NULL if out of range. */
LAM_API const char *lam_word_name(int32_t word);
LAM_API const char *lam_word_kind(int32_t word);
/* The i-th attribute that a source reads from a module of this word ("kernel_size"); NULL past the last one.
 * Tensors among them (weight, bias) need not be read: push parameters and buffers with lam_build_tensor. */
LAM_API const char *lam_word_attr(int32_t word, int32_t i);
/* True for kinds that only hold and call children and compute nothing themselves (Sequential, ModuleList). */
LAM_API bool lam_word_is_container(int32_t word);
/* Index of the word for the operator `name` ("aten::convolution", no overload), or -1. These indices are
 * independent of those of modules. */
LAM_API int32_t lam_word_op(const char *name);
LAM_API const char *lam_word_op_name(int32_t word);
LAM_API const char *lam_word_op_kind(int32_t word);
/* True for an operator that only calls others; the work is theirs. */
LAM_API bool lam_word_op_wraps(int32_t word);
/* The position of the argument that masks scores; -1: none. Its values decide what effective counts leave
 * out: a source counts them with lam_values_mask. */
LAM_API int32_t lam_word_op_mask(int32_t word);

/* The index of the rule that computes the results of operator `name` from its arguments alone, in the order
 * of the overload (src/vocab/shapes.def); -1 if there is none. */
LAM_API int32_t lam_shape_rule(const char *name);
typedef enum lam_order {
    LAM_ORDER_LIKE, /* as torch's TensorIterator derives it from the operands that are tensors */
    LAM_ORDER_BOTH, /* as LIKE, with a number as an operand without axes */
    LAM_ORDER_ROWS,  /* contiguous if the operands are; else unknown */
    LAM_ORDER_IMAGE, /* as ROWS, or channels last if an operand of 4 axes is */
    LAM_ORDER_CONV,  /* as IMAGE, but always contiguous for numbers of 64 bits */
    LAM_ORDER_NORM,  /* channels last if that is the first operand's only layout; else contiguous */
    LAM_ORDER_FRESH /* always contiguous */
} lam_order;
/* The memory layout of the results of `rule`. */
LAM_API lam_order lam_shape_order(int32_t rule);
enum { LAM_MAX_AXES = 8, LAM_MAX_RESULTS = 4 };
typedef struct lam_result {
    int32_t in; /* the argument that is written in place; -1: the result is new */
    int32_t dtype, ndim;
    int64_t sizes[LAM_MAX_AXES];
} lam_result;
struct lam_op_arg;
/* Fills `out` and returns the number of results; 0 if the rule does not cover these arguments: the results
 * are then unknown. */
LAM_API int32_t lam_shape_run(int32_t rule, const struct lam_op_arg *in, int32_t n_in,
                              lam_result out[LAM_MAX_RESULTS]);

/* Data types, by torch's ScalarType numbers. Sizes are in bits, since an element of a packed type may be a
 * fraction of a byte. */
LAM_API const char *lam_dtype_name(int32_t dtype); /* "float32"; "?" when unknown */
LAM_API int32_t lam_dtype_bits(int32_t dtype);     /* bits an element; 0 when unknown */
LAM_API int32_t lam_dtype_by_name(const char *name); /* -1 when unknown; with or without a leading "torch." */

/* == 3. Building a model ====================================================================================
 * A source pushes what it observed and decides nothing. Indices count from 0, in the order of pushing.
 * Functions of this section return LAM_RANGE for an index that was not pushed. */

typedef struct lam_builder lam_builder;
typedef struct lam_model lam_model;

/* Begins a model. `memory_limit` is the most memory that the model may take, in bytes; 0: 1 GiB. */
LAM_API lam_status lam_builder_new(lam_builder **out, uint64_t memory_limit, lam_error *e);
LAM_API void lam_builder_free(lam_builder *b); /* frees the unfinished model too; NULL is allowed */

/* The value of an attribute of a module or of an argument. */
typedef enum lam_value_type { LAM_NONE, LAM_BOOL, LAM_INT, LAM_INTS, LAM_FLOAT, LAM_TEXT } lam_value_type;
typedef struct lam_value {
    /* LAM_INT and LAM_INTS differ: torchscan counts kernel_size=3 and (3, 3) differently */
    lam_value_type type;
    int32_t n;                /* LAM_INTS: how many */
    union {
        int64_t i;            /* LAM_BOOL, LAM_INT */
        double f;             /* LAM_FLOAT */
        const int64_t *ints;  /* LAM_INTS; copied by the builder */
        const char *text;     /* LAM_TEXT, UTF-8; copied by the builder */
    };
} lam_value;

/* One distinct module object. */
typedef enum lam_module_flags {
    LAM_MODULE_EXACT = 1,       /* its class is the word's class, not a subclass */
    /* its class is a subclass that overrides forward: the word's rule may miss work */
    LAM_MODULE_OWN_FORWARD = 2,
    LAM_MODULE_TRAINING = 4,    /* train() mode when the capture closed */
    LAM_MODULE_OPAQUE = 8,      /* scripted, traced or compiled: its inside is not visible */
    LAM_MODULE_LEAF = 16,       /* has no registered children */
    LAM_MODULE_ELSEWHERE = 32   /* lam_build_called_elsewhere() */
} lam_module_flags;
typedef struct lam_module_info {
    const char *type;      /* class name, "BasicBlock" */
    const char *type_path; /* "torchvision.models.resnet.BasicBlock" */
    const char *extra;     /* extra_repr() or NULL */
    int32_t word;          /* lam_word_module of the first class in its MRO that has a word; -1: none */
    uint32_t flags;        /* lam_module_flags */
} lam_module_info;
LAM_API lam_status lam_build_module(lam_builder *b, const lam_module_info *info, int32_t *index,
                                    lam_error *e);
LAM_API lam_status lam_build_attr(lam_builder *b, int32_t module, const char *name, const lam_value *v,
                                  lam_error *e);
/* Notes that another thread, which was not watched, called the module: the cost and the results of that call
 * are unknown. If no call of the module is pushed, totals are lower bounds, and tables say "called
 * elsewhere". LAM_RANGE if there is no such module. */
LAM_API lam_status lam_build_called_elsewhere(lam_builder *b, int32_t module, lam_error *e);

/* Pushes one place in the tree: a name under a parent place. A module object with two parents has two places.
 * Push the root first, with parent -1 (its name may be ""), and parents before children, in registration
 * order. */
LAM_API lam_status lam_build_place(lam_builder *b, int32_t parent, const char *name, int32_t module,
                                   int32_t *index, lam_error *e);

/* One distinct parameter or buffer object (tied weights are one tensor). */
typedef struct lam_tensor_info {
    int32_t dtype;        /* ScalarType number, -1 unknown */
    int32_t ndim;         /* -1: no shape (uninitialised) */
    const int64_t *sizes; /* ndim sizes; copied */
    int64_t bytes;        /* numel * item size; -1: compute it from dtype and sizes */
    bool requires_grad;
    uint64_t storage, object; /* as in lam_op_arg */
} lam_tensor_info;
LAM_API lam_status lam_build_tensor(lam_builder *b, const lam_tensor_info *info, int32_t *index,
                                    lam_error *e);
/* Notes that `elements` of a tensor that is sharded over several processes are in other processes. */
LAM_API lam_status lam_build_elsewhere(lam_builder *b, int32_t tensor, int64_t elements, lam_error *e);
/* Marks a tensor as the packed weight of a quantised layer: neither parameter nor buffer, described by its
 * unpacked shape and type. Its owner owns it as a buffer. */
LAM_API lam_status lam_build_packed(lam_builder *b, int32_t tensor, lam_error *e);
/* Notes whether a backward pass from all floating-point outputs gave the tensor a gradient (`came`). */
LAM_API lam_status lam_build_gradient(lam_builder *b, int32_t tensor, bool came, lam_error *e);
/* Notes that `module` owns tensor `tensor` under `name` ("weight"). */
LAM_API lam_status lam_build_owns(lam_builder *b, int32_t module, const char *name, int32_t tensor,
                                  bool is_buffer, lam_error *e);

/* One tensor among the arguments or results of a call. */
typedef struct lam_arg {
    const char *name;     /* keyword, or NULL for a positional argument; copied */
    /* index of the top-level positional argument, or of the output; else -1 */
    int32_t position;
    int32_t dtype;        /* ScalarType number, -1 unknown */
    int32_t device;       /* c10 device type number (cpu 0, cuda 1, meta 14), -1 unknown */
    int32_t ndim;         /* -1: shape unknown */
    const int64_t *sizes; /* copied */
    uint64_t storage;     /* identity of its data (an address), compared for equality only; 0 unknown */
    uint64_t memory, object; /* as storage and object of lam_op_arg; memory 0: same as `storage` */
} lam_arg;

typedef enum lam_call_flags {
    LAM_CALL_TRAINING = 1, /* the module was in train() mode at this call */
    LAM_CALL_FAILED = 2,   /* it raised */
    LAM_CALL_UNSEEN = 4,   /* nothing is known of its outputs (None, a string, ...) */
    LAM_CALL_AGAIN = 8,    /* repeats forward work inside a backward pass; may raise to end early */
    LAM_CALL_ELSEWHERE = 16, /* during it an unwatched thread called modules of the model */
    LAM_CALL_HIDES = 32,   /* scripted code in it ran kernels that are not operators */
    LAM_CALL_STRANGERS = 64, /* it called modules outside the model, which were not watched */
    LAM_CALL_LATER = 128,  /* it returned a generator or a coroutine: its forward runs later, if at all */
    LAM_CALL_VALUES = 256  /* its outputs include numbers or arrays, whose source is not observed */
} lam_call_flags;
typedef struct lam_call_info {
    int32_t module; /* the module object that was called */
    int32_t parent; /* the call around it, or -1; push parents before children */
    uint32_t flags; /* lam_call_flags */
    int64_t t0_ns, t1_ns; /* begin and end, monotonic nanoseconds; 0: not measured */
    int32_t n_in, n_out;
    const lam_arg *in, *out;
} lam_call_info;
/* Pushes one call, in the order in which calls began. The builder finds the call's place: the child place of
 * the parent's place that holds this module, else the module's first place under the nearest common
 * ancestor. */
LAM_API lam_status lam_build_call(lam_builder *b, const lam_call_info *info, int32_t *index, lam_error *e);

/* -- operators ---------------------------------------------------------------------------------------
 * Operators of the framework that ran in the calls, such as "aten::convolution". */
typedef enum lam_phase {
    LAM_FORWARD,
    LAM_BACKWARD,
    LAM_RECOMPUTE, /* forward work that is repeated inside a backward pass (activation checkpointing) */
    LAM_N_PHASES
} lam_phase;
LAM_API const char *lam_phase_name(lam_phase p); /* "forward", "backward", "recompute" */

/* One argument or result. Tensors of a list share one position. Entries that are unknown are left out. */
typedef struct lam_op_arg {
    int32_t position; /* in the operator's schema, from 0 */
    bool is_tensor;
    bool sparse;      /* a tensor that does not store the elements that are 0 */
    bool masks;       /* a mask (lam_word_op_mask) that was counted by lam_values_mask before the operator */
    int32_t dtype;    /* of a tensor: ScalarType number, -1 unknown */
    int32_t device;   /* c10 device type number, -1 unknown */
    int32_t ndim;     /* -1: shape unknown */
    int32_t shares;   /* output only, of a result: the last entry of `in` with the same memory, -1 none */
    lam_value value;  /* a scalar or a list of integers; LAM_NONE for None. Not for tensors */
    const int64_t *sizes; /* copied */
    /* Input only: identities (addresses) of a tensor's memory, which its views share, and of the tensor
     * itself; 0 unknown. The model returns 0. */
    uint64_t storage, object;
    /* A sparse tensor: stored elements, stored elements and indices together, and the bytes of both; -1
     * unknown. A mask: the counts of lam_values_mask; the builder returns LAM_RANGE for more than a tensor of
     * this shape can have. No tensor is both. */
    union {
        int64_t values;
        int64_t open;
    };
    union {
        int64_t stored;
        int64_t open_rows;
    };
    int64_t stored_bytes;
} lam_op_arg;

typedef enum lam_op_flags {
    LAM_OP_FAILED = 1, /* it raised: it has no results and does not count */
    /* a node of the autograd graph ("AddmmBackward0"), or an operator on a transform's tensors (vmap), which
     * runs others on the real ones: it counts nothing itself */
    LAM_OP_NODE = 2,
    LAM_OP_HIDES = 4, /* it has unobserved work: compiled code, or an operator without a record of torch */
    LAM_OP_GRAD = 8, /* its results require a gradient; not set on operators inside one that has it */
    LAM_OP_WHOLE = 16, /* its rule counts it, although operators of this name usually only call others */
    /* Values decide which operators run in its place, and there were none, as in a dry run: it and the
     * operators in it count nothing. Sums are lower bounds, except of dense work, which none of them does. */
    LAM_OP_VALUES = 32
} lam_op_flags;

/* Identities of a tensor, as in lam_op_arg. */
typedef struct lam_identity { uint64_t storage, object; } lam_identity;

typedef struct lam_op_info {
    const char *name; /* copied, shared between equal names */
    /* the innermost open module call; in a backward pass the call whose forward made the running node; -1:
     * outside every call */
    int32_t call;
    int32_t parent;   /* the operator around it on its thread, or -1; push parents first */
    lam_phase phase;
    uint32_t flags;       /* lam_op_flags */
    int64_t t0_ns, t1_ns; /* 0: not measured */
    int32_t n_in, n_out;
    const lam_op_arg *in, *out;
    /* 1 + the index of an earlier operator with equal name, arguments and results, identities aside; 0: the
     * builder searches for one. With `tensors`, `in` and `out` may be left out: it holds the identities of
     * the n_tensors tensors, arguments first. */
    int32_t like, n_tensors;
    const lam_identity *tensors;
    int32_t thread; /* 0: the thread of the calls; others from 1 */
    int32_t pass;   /* of a node: equal for all nodes of one backward pass; 0 unknown */
} lam_op_info;
/* Pushes one operator, after all calls: thread by thread, in the order in which they started. LAM_RANGE for a
 * call or parent that was not pushed. */
LAM_API lam_status lam_build_op(lam_builder *b, const lam_op_info *info, int32_t *index, lam_error *e);
/* Notes that operators were watched: a model without any is then known to have run none. */
LAM_API lam_status lam_build_ops_seen(lam_builder *b, lam_error *e);
/* The same for the nodes of backward passes (LAM_OP_NODE), which may be watched without other operators. */
LAM_API lam_status lam_build_nodes_seen(lam_builder *b, lam_error *e);
/* Notes that times were measured: reports show them. */
LAM_API lam_status lam_build_timed(lam_builder *b, lam_error *e);
/* Notes that a backward pass was requested and did not run: unless an operator of one is pushed, its cost is
 * unknown, not 0. */
LAM_API lam_status lam_build_no_backward(lam_builder *b, lam_error *e);

/* Notes that the model is incomplete: memory ran out, or a limit was reached. `why` is a sentence for the
 * report; numbers that may lack something become "at least". Operators that started after `from_ns` are
 * missing (INT64_MAX: any of a backward pass may be); `calls`: any call may be missing too. The builder may
 * exceed its memory limit by a quarter, so that the model can be finished. */
LAM_API lam_status lam_build_cut(lam_builder *b, const char *why, bool calls, int64_t from_ns, lam_error *e);

/* Adds a note that the report shows ("shim not available", ...); at most 64 are kept. */
LAM_API lam_status lam_build_note(lam_builder *b, const char *text, lam_error *e);

/* Notes how the next input of the root's first call was generated: "rand", "zeros", ... In the order of the
 * inputs; not called for tensors that the user gave. */
LAM_API lam_status lam_build_made(lam_builder *b, const char *text, lam_error *e);

/* Freezes the model. The caller frees `*out` with lam_model_free; `b` is always freed, also on failure. */
LAM_API lam_status lam_builder_finish(lam_builder *b, lam_model **out, lam_error *e);
LAM_API void lam_model_free(lam_model *m); /* NULL is allowed */

/* == 4. Reading a model =====================================================================================
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
    int32_t n_calls;                         /* calls of it */
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
    int64_t numel, bytes; /* -1: unknown */
    int64_t elsewhere;    /* the part of numel that other processes hold */
    bool requires_grad, packed;
    int8_t gradient; /* of a backward pass from all outputs: 1 received, -1 not received, 0 not checked */
    int32_t owner; /* the first module that owns it, -1 none */
    int32_t n_owners;
} lam_tensor;

typedef struct lam_event { /* one call of a module */
    int32_t module, place, parent, ordinal; /* ordinal: the k-th call of this module, from 0 */
    int32_t n_children_called; /* direct child calls */
    uint32_t flags;            /* lam_call_flags */
    int64_t t0_ns, t1_ns;
    int32_t n_in, n_out;
    const lam_arg *in, *out;
} lam_event;

/* A signature: what all operators of one name with equal arguments and results share. */
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
/* False if operators ran and their tensors' memory was not identified: no source is known then. */
LAM_API bool lam_model_traced(const lam_model *m);
/* Why the model is incomplete, from lam_build_cut; NULL: it is complete. */
LAM_API const char *lam_model_cut(const lam_model *m);
LAM_API int32_t lam_model_n_ops(const lam_model *m);
LAM_API const lam_op *lam_model_op(const lam_model *m, int32_t i);
LAM_API int32_t lam_model_n_op_sigs(const lam_model *m);
/* Sources: where the data of entry `in` of an operator's arguments comes from. LAM_SOURCE_NONE: the source
 * was not observed, the entry is no tensor, or an index is out of range. */
enum { LAM_SOURCE_NONE = -1 };
/* Finds all sources now; else the first request does. It takes as long as all the rest of a model, and sums
 * need no sources. LAM_NOMEM: none is known yet. */
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
LAM_API const char *lam_model_made(const lam_model *m, int32_t i);
/* The place whose dotted path is `path` ("layer1.0.conv1"), or -1. */
LAM_API int32_t lam_model_find(const lam_model *m, const char *path);
/* The attribute called `name` of module i, or NULL. */
LAM_API const lam_value *lam_model_attr(const lam_model *m, int32_t module, const char *name);

/* == 5. Conventions and rules ===============================================================================
 * A convention is a table of rules (one formula for each metric and kind, over named facts) and policies, all
 * data: src/count/rules/conventions.def and one .def file for each table. A rule may have a second,
 * *released* form: what the tool of that name printed where it missed its author's intent. Only the drop-in
 * functions use released forms. */

typedef enum lam_metric {
    LAM_MACS,
    LAM_FLOPS,
    LAM_DMAS,          /* elements read and written */
    LAM_BYTES_READ,    /* the same elements in bytes, as each tensor stores them */
    LAM_BYTES_WRITTEN,
    /* without what an attention mask excludes or a sparse factor does not store; elsewhere equal to the
     * dense count */
    LAM_EFFECTIVE_MACS,
    LAM_EFFECTIVE_FLOPS,
    LAM_N_METRICS
} lam_metric;

typedef enum lam_state { LAM_EXACT = 0, LAM_AT_LEAST = 1, LAM_UNKNOWN = 2 } lam_state;
/* A number and its state. The value is over * 2^63 + n. For LAM_UNKNOWN it is the known part (0 if nothing is
 * known) and must not be shown as a number. */
typedef struct lam_count { int64_t n; uint32_t over; lam_state state; } lam_count;

LAM_API const char *lam_state_name(lam_state s);   /* "exact", "at least", "unknown" */
LAM_API const char *lam_metric_name(lam_metric m); /* "macs", "flops", "dmas", "bytes_read", ... */
/* The sum, checked over 128 bits, with the worse state of the two. */
LAM_API lam_count lam_count_add(lam_count a, lam_count b);
/* Bytes read and written together. */
LAM_API lam_count lam_metric_bytes(const lam_count metric[LAM_N_METRICS]);
/* Arithmetic intensity, FLOPs a byte read or written; negative unless both are exact and some byte moves. */
LAM_API double lam_metric_intensity(const lam_count metric[LAM_N_METRICS]);

LAM_API int32_t lam_n_conventions(void);
LAM_API const char *lam_convention_name(int32_t i);   /* NULL out of range */
/* What the table reproduces, with its version, as one line. */
LAM_API const char *lam_convention_source(int32_t i);
/* The convention for `m` when none is named: the default one, which counts operators, or, if the operators of
 * `m` were not watched, the first that counts layers. NULL `m`: the default one. */
LAM_API const char *lam_convention_of(const lam_model *m);
LAM_API int32_t lam_convention_find(const char *name); /* the index; -1: there is none */
/* True if it counts operators, which a model has only if they were watched. */
LAM_API bool lam_convention_counts_ops(int32_t i);
/* True if the tool that it reproduces makes every layer run its own forward. torch runs an attention layer in
 * eval mode as one kernel, unless the layer has hooks or gradients are enabled. */
LAM_API bool lam_convention_unfused(int32_t i);
/* True if one of its rules has a formula for the metric; else that metric is always LAM_UNKNOWN. */
LAM_API bool lam_convention_counts(int32_t i, lam_metric metric);

typedef struct lam_rule {
    const char *kind;                     /* "conv" */
    /* "out*red"; NULL: the convention has no formula, the count is unknown */
    const char *formula[LAM_N_METRICS];
    const char *released[LAM_N_METRICS];  /* the released form where it differs, else NULL */
    const char *note;                     /* why, or the source of the formula; NULL */
    const char *only;                     /* the spellings it applies to, separated by spaces; NULL: all */
    bool of_op;                           /* it applies to operators, not layers */
} lam_rule;
/* Reads the i-th rule of a convention; LAM_RANGE past the last one. */
LAM_API lam_status lam_convention_rule(int32_t convention, int32_t i, lam_rule *out, lam_error *e);
/* The i-th fact that a formula may name, and its meaning; NULL past the last one. */
LAM_API const char *lam_fact_name(int32_t i);
LAM_API const char *lam_fact_meaning(int32_t i);

/* Evaluates a formula. `names[i]` has value `values[i]`. Grammar: integers, names, + - * / (floor), unary -,
 * ( ), comparisons < <= > >= == != (1 or 0), c ? a : b, min(a,b), max(a,b), and the word `unknown`.
 * LAM_SYNTAX with the offset of a mistake. The state is LAM_UNKNOWN for a result of 2^95 or more or below
 * -2^63, a division by 0, or an unknown name. */
LAM_API lam_status lam_formula_eval(const char *formula, const char *const *names, const int64_t *values,
                                    int32_t n, lam_count *out, lam_error *e);

/* User-defined rules for operators ("mylib::op") and classes of layers ("MyLayer"), which override the
 * convention's. lam_rules_read reads text with one rule a line,
 * `mylib::op  macs = out*x_last  flops = 2*macs`, described in docs/your-own-rules.md. LAM_SYNTAX with
 * "from:line:column" in `where`. */
typedef struct lam_rules lam_rules;
LAM_API lam_status lam_rules_new(lam_rules **out, lam_error *e);
LAM_API void lam_rules_free(lam_rules *r); /* NULL is allowed */
LAM_API lam_status lam_rules_read(lam_rules *r, const char *text, const char *from, lam_error *e);
/* Adds one rule and replaces an older one of that name. A formula may be NULL. `ask`: lam_cost_options.ask is
 * called for what the formulas do not give. */
LAM_API lam_status lam_rules_add(lam_rules *r, const char *name, const char *const formula[LAM_N_METRICS],
                                 bool ask, lam_error *e);
/* Reads the i-th rule, its name as `kind`; false past the last one. */
LAM_API bool lam_rules_at(const lam_rules *r, int32_t i, lam_rule *out);

/* == 6. Costs ===============================================================================================
 * The rows of a model and their costs under one convention. */

typedef struct lam_cost_options {
    const char *convention; /* NULL: the default */
    bool released;          /* true: the rows of the released tool (k-th call under the k-th place, last call
                               only, ...) and released formulas. false: a row for every call, and the rules'
                               first forms. */
    /* A custom count of a call (custom_ops): fill out[LAM_N_METRICS] and return true to override the rule,
     * false to keep it. Set `omit` to true to leave the layer out. NULL: none. */
    bool (*custom)(void *self, const lam_model *m, int32_t event, lam_count out[LAM_N_METRICS], bool *omit);
    void *custom_self;
    /* User-defined rules, copied; ignored if `released`. A layer's rule counts its work outside the layers
     * that it calls; an operator's rule counts everything that runs inside it. NULL: none. */
    const lam_rules *own;
    /* Called for operator `op`, or (op -1) call `event`, if rule `name` of `own` leaves a number unknown:
     * fill out[] and return true, or return false if it is not known. NULL: none. */
    bool (*ask)(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                lam_count out[LAM_N_METRICS]);
    void *ask_self;
    bool totals_only; /* computes totals alone; lam_costs_settle adds rows, parameters and sentences */
} lam_cost_options;

typedef struct lam_cost_row {
    /* -1: a place that was never called, a container's own parameters, or (counted, at the root) the
     * operators that ran outside every call */
    int32_t event;
    int32_t place, module, depth;
    lam_count metric[LAM_N_METRICS];
    /* as in the convention's column */
    lam_count params, grad_params, nograd_params, param_bytes, buffers, buffer_bytes;
    lam_count packed, packed_bytes;   /* of packed quantised weights, which are no parameters */
    lam_count total[LAM_N_METRICS];   /* this row and every row below it (calls made inside this call) */
    /* of this row alone; metric[] is of the forward */
    lam_count backward[LAM_N_METRICS], recompute[LAM_N_METRICS];
    lam_count total_backward[LAM_N_METRICS], total_recompute[LAM_N_METRICS]; /* with every row below it */
    lam_count local_params, local_bytes; /* the part of params and param_bytes that this process holds */
    lam_count total_params;           /* distinct parameters of the place and everything under it */
    lam_count running_stats; /* elements of running_mean and running_var among the buffers of this row */
    bool shared;     /* an earlier row counted one of its parameters or buffers */
    bool leaf;       /* no registered children */
    bool never_called;
    /* false: the row only shows the structure; its metrics are 0 and belong to its children */
    bool counted;
    double rf, rf_stride, rf_padding; /* as the convention cumulates them; see section 7 */
    lam_state rf_state;
    /* On the data-flow graph. at_most: the field may be smaller, since an operator mixes positions that can't
     * be separated. whole: every element depends on the whole axis. */
    bool rf_at_most, rf_whole;
    const char *rule_kind; /* NULL: no rule, or operators are counted */
    const char *reason;    /* why a number is not exact; NULL: all are */
} lam_cost_row;

typedef struct lam_costs lam_costs;
/* Computes the costs of model `m`, which must outlive the result. `o` NULL: the defaults. LAM_USAGE if there
 * is no such convention, or it counts operators and none were watched. */
LAM_API lam_status lam_costs_new(lam_costs **out, const lam_model *m, const lam_cost_options *o,
                                 lam_error *e);
/* Computes what `totals_only` left out: rows, parameters, gaps and names without a rule. Does nothing if they
 * exist. LAM_NOMEM: they stay empty. */
LAM_API lam_status lam_costs_settle(lam_costs *c, lam_error *e);
LAM_API void lam_costs_free(lam_costs *c);
LAM_API const lam_model *lam_costs_model(const lam_costs *c);
LAM_API int32_t lam_costs_convention(const lam_costs *c);
LAM_API int32_t lam_costs_n_rows(const lam_costs *c);
LAM_API const lam_cost_row *lam_costs_row(const lam_costs *c, int32_t i);
LAM_API lam_count lam_costs_total(const lam_costs *c, lam_metric metric);
/* The same by phase; LAM_FORWARD equals lam_costs_total. Exactly 0 if operators were watched and none ran in
 * that phase; LAM_UNKNOWN for the other phases under a convention that counts calls. */
LAM_API lam_count lam_costs_phase_total(const lam_costs *c, lam_phase phase, lam_metric metric);
/* Reads the counts of operator `op` alone; LAM_RANGE if out of range. `counted` is false if a counted
 * operator around it, or the operators inside it, count its work. */
LAM_API lam_status lam_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS], bool *counted,
                                lam_error *e);
/* The i-th name of operators without a rule, and how many ran; NULL past the last one. */
LAM_API const char *lam_costs_unruled_op(const lam_costs *c, int32_t i, int32_t *n);

/* Parameters of the whole model, each distinct tensor once (elements, bytes). */
typedef struct lam_param_totals {
    lam_count params, grad_params, nograd_params, param_bytes, buffers, buffer_bytes;
    lam_count packed, packed_bytes;
    lam_count in_rows; /* the sum of the rows' params column: the convention's own total */
    lam_count local_params, local_bytes; /* the part of params and param_bytes that this process holds */
} lam_param_totals;
LAM_API lam_param_totals lam_costs_params(const lam_costs *c);

/* The i-th type of layers without a rule, in order of first call, and how many calls it had; NULL past the
 * last one. */
LAM_API const char *lam_costs_unruled(const lam_costs *c, int32_t i, int32_t *n_calls);
/* The full name of that type ("torch.nn.modules.activation.GELU"); NULL past the last one. */
LAM_API const char *lam_costs_unruled_path(const lam_costs *c, int32_t i);
/* The i-th reason why a total is not exact, as one sentence; NULL past the last one. */
LAM_API const char *lam_costs_gap(const lam_costs *c, int32_t i);

/* Aggregates `c` in place to `max_depth`, as torchscan 0.1.2 does: a container row at exactly that depth gets
 * the sums of the rows below it and their last (released "0.1.1": first) receptive field; deeper rows are
 * dropped. LAM_USAGE if no row has that depth; the sentence names the deepest. */
LAM_API lam_status lam_costs_aggregate(lam_costs *c, int32_t max_depth, lam_error *e);

/* One number with its formula and substituted values, for `lamina why`. */
enum { LAM_WHY_FACTS = 16 };
typedef struct lam_why {
    lam_metric metric;
    lam_phase phase;
    int32_t op;             /* the operator; -1: the row */
    const char *formula;    /* NULL: no rule */
    /* "1,605,632 x 147", in UTF-8: the formula with its values, without terms that have no effect */
    char substituted[512];
    lam_count value;        /* of one operator, also if n_equal > 1 */
    const char *note;
    const char *words;      /* what the rule's kind of operation does; NULL: no rule */
    int32_t n_equal;        /* the number of equal operators that this explains */
    int32_t n_facts;        /* the facts whose values are in `substituted` */
    struct { const char *name; int64_t value; } facts[LAM_WHY_FACTS];
} lam_why;
/* The i-th explanation of row `row`; LAM_RANGE past the last one. First each metric of the row. If operators
 * are counted, that is the sum over the row's forward, and the metrics of each operator follow (at most 32,
 * equal ones as one), with its name as the note. The row's backward and its recomputation follow in the same
 * way. */
LAM_API lam_status lam_costs_why(const lam_costs *c, int32_t row, int32_t i, lam_why *out, lam_error *e);
/* The i-th known fact of row `row` (name, value): those that its rule's formulas name, and those of general
 * interest; false past the last one. */
LAM_API bool lam_costs_fact(const lam_costs *c, int32_t row, int32_t i, const char **name, int64_t *value);

/* -- side by side ------------------------------------------------------------------------------------ */

/* One cause of a difference: one operator (or type of layer) that is counted differently in one way. */
typedef struct lam_cause {
    const char *text;   /* "leaves out attention in MultiheadAttention" */
    const char *note;   /* the note of the convention's table; NULL: none */
    int64_t difference; /* its part of the row's difference */
    int32_t calls;      /* how many; 0: the part that no cause explains */
} lam_cause;
typedef struct lam_compared {
    const char *convention;
    lam_count macs, flops, params; /* of the phase; params: the convention's own total */
    bool told; int64_t difference; /* whether the difference from the reference is known, and its value */
    int32_t n_causes; const lam_cause *causes; /* largest first */
    const char *gap;         /* why it is not exact; NULL: it is, or the convention does not count it */
    /* Where and why the tool itself may print another number for this run's forward; NULL: nowhere. */
    const char *limits;
} lam_compared;
typedef struct lam_comparison lam_comparison;
/* Compares LAM_MACS or LAM_FLOPS of the forward or the backward. n 0: the conventions that count operators;
 * "all" among the names: every convention that counts that phase. */
typedef struct lam_compare_options { const char *const *conventions; int32_t n; lam_metric metric;
                                     lam_phase phase; } lam_compare_options;
/* Compares conventions with the reference (`exact`, the first row). Those that count calls use their released
 * form. LAM_USAGE for another metric or phase, or if no operators were watched. `o` NULL: the MACs of the
 * forward. */
LAM_API lam_status lam_compare_new(lam_comparison **out, const lam_model *m, const lam_compare_options *o,
                                   lam_error *e);
LAM_API void lam_compare_free(lam_comparison *c);
LAM_API const lam_compared *lam_compare_row(const lam_comparison *c, int32_t i); /* NULL past the last one */
/* Writes it as "text" (format NULL), "md", "json", "csv" or "html". `width` in columns, 0: 100; `exact`:
 * numbers in full. Text shows the three largest causes of a row, or all if the conventions were named. */
LAM_API lam_status lam_compare_write(const lam_comparison *c, const char *format, int32_t width, bool exact,
                                     lam_sink to, lam_error *e);

/* == 7. Receptive field =====================================================================================
 * Receptive field, stride and padding of one call of a layer alone, along one axis, in input positions. */
typedef struct lam_rf { double size, stride, padding; lam_state state; } lam_rf;
/* Reads the field of call `event` under `convention`; (1, 1, 0) with LAM_UNKNOWN if it has no rule.
 * Source: torchscan 0.1.2's modules.module_rf for `torchscan`; Araujo et al., "Computing Receptive Fields of
 * Convolutional Neural Networks", Distill 2019, for the others. */
LAM_API lam_status lam_rf_of(const lam_model *m, int32_t event, const char *convention, lam_rf *out,
                             lam_error *e);
/* Replaces the rows' cumulative receptive fields with those of torchscan 0.1.1, which accumulates backwards
 * from the last row: "relative to the last convolutional layer". */
LAM_API lam_status lam_costs_rf_backwards(lam_costs *c, lam_error *e);

/* If operators were watched, the rows' fields come from the data-flow graph, for each axis of each tensor
 * that goes into the model. The first axis, usually the batch, is last in this list, and only listed for
 * tensors with two or three axes. A field is the smallest interval with every position that an element of the
 * row's first output depends on. With dilation this includes the positions between, which are not read. Batch
 * normalisation counts as in eval mode.
 * Element o of axis `out_axis` depends on positions from start + o * jump to end + o * jump, all three exact
 * fractions, numerator and denominator. */
typedef enum lam_reach {
    LAM_REACH_NOTHING, /* depends on no position */
    LAM_REACH_WINDOW,  /* as above */
    LAM_REACH_WHOLE,   /* every element depends on the whole axis */
    LAM_REACH_PART,    /* every element depends on positions start to end of the axis */
    LAM_REACH_UNKNOWN  /* see `why` */
} lam_reach;
typedef struct lam_rf_axis {
    int32_t input, axis, out_axis; /* out_axis -1: no WINDOW */
    int64_t positions;             /* of the input's axis */
    lam_reach reach;
    int64_t size, narrow;          /* the largest field of an element; the same along the narrowest path */
    int64_t jump[2], start[2], end[2];
    bool shown;                    /* the row's columns show the largest of the axes with `shown` */
    bool paths;                    /* paths with different fields meet */
    bool at_most;                  /* the field may be smaller */
    lam_state state;               /* LAM_AT_LEAST: an operand has an unobserved source */
    const char *why;               /* the operator that leaves it unknown; NULL: it is known */
} lam_rf_axis;
/* Reads the field of row `row` along the i-th axis; LAM_RANGE past the last one, or if nothing is known. */
LAM_API lam_status lam_costs_rf_axis(const lam_costs *c, int32_t row, int32_t i, lam_rf_axis *out,
                                     lam_error *e);
/* Reads the existing positions that element `element` along out_axis depends on; last < first: none.
 * LAM_RANGE as above, if the reach is unknown, or if there is no such element. */
LAM_API lam_status lam_costs_rf_seen(const lam_costs *c, int32_t row, int32_t i, int64_t element,
                                     int64_t *first, int64_t *last, lam_error *e);

/* == 8. Reports =============================================================================================
 * A report shows costs as rows and columns and is written to a sink. */

/* The peak performance of a machine: FLOPs a second, bytes read or written a second; 0 unknown. */
typedef struct lam_peak { double flops, bytes; } lam_peak;
struct lam_report_options;
/* Writes the table of a layout of another tool. */
typedef lam_status (*lam_layout)(void *self, const lam_costs *c, const struct lam_report_options *o,
                                 lam_sink to, lam_error *e);
typedef struct lam_report_options {
    const char *layout; /* "lamina" (default), "torchscan-0.1.2", "torchscan-0.1.1", "thoplw" */
    /* "text" (default), "csv", "md", "json", "html"; a timeline: "trace" (Chrome's trace events, which
     * Perfetto reads) or "speedscope" */
    const char *format;
    int32_t width;      /* columns of the terminal; 0: 100 */
    int32_t max_depth;  /* -1: no limit. The lamina layout folds deeper rows into their ancestor */
    bool color, ascii, exact, expand; /* ANSI colours; no UTF-8; full digits; no folding of equal siblings */
    bool receptive_field;
    bool time;  /* the time of each row, if times were measured */
    lam_peak peak; /* not 0: with `time` also the speed relative to it, if FLOPs and bytes are counted */
    bool memory; /* the memory that each row allocated and retained, if it was measured */
    bool bytes; /* elements moved, bytes read and written, arithmetic intensity, if they are counted */
    /* Of the lamina layout. why: every reason, shared tensor and note. by: the column whose share is `%`:
     * "macs", "flops", "params", "dmas", "bytes", "backward_macs", "backward_flops", "time" or "memory";
     * NULL: that of `sort`, else "time" with `time`, else "macs". sort: a list of layers instead of the tree,
     * the largest of this column first; NULL: the tree, or with `rows` > 0 a list by `by`. rows: the length
     * of the list. command: hints name the command's options. next: a target and its inputs, for a last line
     * with other commands; NULL: none */
    bool why, command;
    const char *by, *sort, *next;
    int32_t rows;
    /* Writes the layouts of torchscan and thoplw, as the Python package does; NULL: LAM_UNSUPPORTED */
    lam_layout lay_out;
    void *lay_out_self;
} lam_report_options;
/* Sets `o` to the defaults above. */
LAM_API void lam_report_defaults(lam_report_options *o);
/* Writes costs under the options (NULL: the defaults). json and html are the same for every layout. Every
 * line ends with a newline. LAM_USAGE for an unknown layout or format; the sentence lists the known ones. */
LAM_API lam_status lam_report_write(const lam_costs *c, const lam_report_options *o, lam_sink to,
                                    lam_error *e);
/* Writes texts as a table, row by row, the titles first. The first column is aligned left, and cut if a line
 * is wider than `width` (0: no limit); the others are aligned right. LAM_USAGE: too many columns, or none. */
LAM_API lam_status lam_table_write(const char *const *cells, int32_t n_columns, int32_t n_rows, int32_t width,
                                   lam_sink to, lam_error *e);

/* The report of InspectorGadgets of torch_inspector 0.1.0: JSON keyed by the names of the tree, with that
 * tool's fields; null for what was not measured. docs/torch_inspector.md describes the fields. */
typedef struct lam_gadget_options {
    int32_t max_depth;      /* deeper layers are left out; -1: no limit */
    bool forward, backward; /* false: the fields of that phase are null */
} lam_gadget_options;
typedef struct lam_gadgets lam_gadgets;
/* `m` must outlive the result. */
LAM_API lam_status lam_gadgets_new(lam_gadgets **out, const lam_model *m, lam_error *e);
LAM_API void lam_gadgets_free(lam_gadgets *g); /* NULL is allowed */
/* `o` NULL: everything. */
LAM_API lam_status lam_gadgets_write(const lam_gadgets *g, const lam_gadget_options *o, lam_sink to,
                                     lam_error *e);

/* == 9. Numbers as text =====================================================================================
 * Like snprintf: each function writes at most `size` bytes with the final NUL and returns the full length. */
LAM_API int lam_text_count(char *buf, size_t size, lam_count c, bool exact); /* "1.81 G", ">= 1.81 G", "?" */
LAM_API int lam_text_digits(char *buf, size_t size, lam_count c);   /* "1814073344", ">= 5", "?" */
LAM_API int lam_text_bytes(char *buf, size_t size, lam_count bytes); /* IEC: "97.7 MiB" */
LAM_API int lam_text_shape(char *buf, size_t size, lam_shape s, const char *separator); /* "1,64,112,112" */

/* == 10. The data's graph ===================================================================================
 * The data-flow graph, if operators were watched. Nodes are the operators that count or move elements, the
 * inputs and outputs of each outermost call, and the parameters and buffers that were read. Views, and
 * operators that only call others, are left out: edges pass through them. */

typedef enum lam_node_type { LAM_NODE_INPUT, LAM_NODE_TENSOR, LAM_NODE_OP, LAM_NODE_OUTPUT } lam_node_type;
typedef struct lam_node {
    lam_node_type type;
    int32_t index;    /* of the call's argument or result, the parameter or buffer, the operator */
    int32_t call;     /* the innermost call of an operator, the outermost of an input or output; -1 none */
    lam_phase phase;
    const char *name; /* "aten::convolution", "input", "layer1.0.conv1.weight" */
    lam_shape shape;  /* of the tensor, or of an operator's first result */
} lam_node;
typedef struct lam_edge {
    int32_t from, to; /* nodes */
    int32_t arg;      /* entry of the operator's `in`; index of the output */
    lam_shape shape;  /* of the tensor that is read */
} lam_edge;

typedef struct lam_graph lam_graph;
/* Builds the graph of model `m`, which must outlive it. LAM_USAGE if no operators were watched,
 * LAM_UNSUPPORTED if no source is known. */
LAM_API lam_status lam_graph_new(lam_graph **out, const lam_model *m, lam_error *e);
LAM_API void lam_graph_free(lam_graph *g); /* NULL is allowed */
LAM_API int32_t lam_graph_n_nodes(const lam_graph *g);
LAM_API int32_t lam_graph_n_edges(const lam_graph *g);
LAM_API const lam_node *lam_graph_node(const lam_graph *g, int32_t i); /* NULL out of range */
LAM_API const lam_edge *lam_graph_edge(const lam_graph *g, int32_t i);
/* The path of the i-th unused module, with the reason as a sentence: it was never called, or one of its
 * results reaches no output of the outermost call. NULL past the last one. */
LAM_API const char *lam_graph_unused(const lam_graph *g, int32_t i, const char **reason);
/* The path of the i-th parameter that gets no gradient in a backward pass from the floating-point outputs,
 * and the reason; NULL past the last one. */
LAM_API const char *lam_graph_no_gradient(const lam_graph *g, int32_t i, const char **reason);
/* Writes the graph in Graphviz' DOT. ops: a node for each operator; else a node for a call's work between two
 * of its inner calls, of the forward only. */
LAM_API lam_status lam_graph_dot(const lam_graph *g, bool ops, lam_sink to, lam_error *e);

/* == 11. Memory =============================================================================================
 * Allocations and frees of torch's CPU allocator while a capture was open. Sizes are the requested bytes. */

/* What a block holds. The source sets what it knows; lam_memory derives the last three. */
typedef enum lam_held {
    LAM_HELD_OTHER, /* outside every call, and of unknown use */
    LAM_HELD_PARAMETER,
    LAM_HELD_BUFFER,
    LAM_HELD_GRADIENT, /* of a parameter */
    LAM_HELD_OPTIMIZER,
    LAM_HELD_INPUT,      /* of an outermost call */
    LAM_HELD_ACTIVATION, /* allocated in a forward, live when its call returns: saved, or a result */
    LAM_HELD_BACKWARD,   /* allocated in a backward, not the gradient of a parameter */
    LAM_HELD_WORKSPACE,  /* allocated in a forward, freed when its call returns */
    LAM_N_HELD
} lam_held;
LAM_API const char *lam_held_name(lam_held held); /* "parameters", "gradients", ...; NULL out of range */

typedef enum lam_block_flags {
    LAM_BLOCK_ELSEWHERE = 1 /* of a thread that ran none of the capture's calls: only in `elsewhere` */
} lam_block_flags;
typedef struct lam_block {
    int64_t bytes;
    /* Its number among all allocations and frees, from 1. order 0: allocated before the capture;
     * freed_order 0: not freed. */
    int64_t order, freed_order;
    int64_t t0_ns, t1_ns;     /* when, monotonic; 0: no such moment */
    int32_t call, freed_call; /* the call that allocated it and that freed it, as lam_op_info.call */
    int32_t tensor;           /* the parameter or buffer whose data, gradient or state it holds; -1: none */
    uint8_t phase, freed_phase, held, flags; /* lam_phase, lam_phase, lam_held, lam_block_flags */
} lam_block;
/* Pushes one block, after all calls. Orders other than 0 are distinct. */
LAM_API lam_status lam_build_block(lam_builder *b, const lam_block *block, lam_error *e);
/* A call's forward (or recomputation, LAM_RECOMPUTE), or one node of its backward. Its allocations and frees
 * have orders greater than `first` and at most `last`. */
typedef struct lam_span {
    int64_t first, last;
    int32_t call;
    uint8_t phase; /* lam_phase */
} lam_span;
LAM_API lam_status lam_build_span(lam_builder *b, const lam_span *span, lam_error *e);
typedef struct lam_memory_info {
    const char *source; /* how it was measured, a part of a sentence: "at torch's allocator, 5 entries" */
    /* resident memory of the process when the capture opened and closed, and its maximum in between; -1
     * unknown */
    int64_t rss_open, rss_close, rss_peak;
    bool forward_only; /* numbers of other phases are unknown, even if they are set */
} lam_memory_info;
/* Notes that memory was measured: a model without blocks is then known to have allocated nothing. */
LAM_API lam_status lam_build_memory(lam_builder *b, const lam_memory_info *info, lam_error *e);
LAM_API bool lam_model_memory_seen(const lam_model *m);
LAM_API int32_t lam_model_n_blocks(const lam_model *m);
LAM_API const lam_block *lam_model_block(const lam_model *m, int32_t i); /* as pushed */

typedef struct lam_memory lam_memory;
/* Computes the memory use of model `m`, which must outlive the result. LAM_USAGE if it was not measured. */
LAM_API lam_status lam_memory_new(lam_memory **out, const lam_model *m, lam_error *e);
LAM_API void lam_memory_free(lam_memory *y); /* NULL is allowed */

typedef struct lam_memory_totals {
    lam_memory_info info;
    int64_t allocated, freed; /* since the capture opened; the difference is live at its end */
    int64_t before;           /* parameters, buffers, gradients, inputs, ... that existed when it opened */
    int64_t peak;             /* the most memory in use at one moment, `before` included */
    int64_t peak_allocated;   /* the same without `before`: as torch's allocator counts from the opening on */
    /* the first moment of `peak`; ns 0: before the first allocation */
    int64_t peak_order, peak_ns;
    int32_t peak_call;           /* the call that ran then, -1 none */
    uint8_t peak_phase;          /* its lam_phase */
    int64_t held[LAM_N_HELD];    /* the parts of `peak` */
    int64_t old_gradients;       /* the part of `peak` that is gradients from before the capture */
    int64_t elsewhere;           /* allocated on threads that ran none of the capture's calls */
} lam_memory_totals;
LAM_API const lam_memory_totals *lam_memory_total(const lam_memory *y);

/* The memory use of a call, or of all calls at a place, in one phase. A block belongs to the call that
 * allocated it, whichever call frees it. */
typedef struct lam_memory_use {
    int64_t allocated;
    int64_t freed;    /* the part that was freed before the capture closed */
    int64_t retained; /* the part that was live when the call returned; backward: when the capture closed */
    /* the largest increase since its beginning; of a backward: of one node */
    int64_t peak;
} lam_memory_use;
/* own: without the calls inside it, except for `peak`; total: with them. */
typedef struct lam_memory_row {
    lam_memory_use own[LAM_N_PHASES], total[LAM_N_PHASES];
} lam_memory_row;
LAM_API const lam_memory_row *lam_memory_call(const lam_memory *y, int32_t event);  /* NULL out of range */
/* Sums over the calls at the place, and the largest of their peaks. */
LAM_API const lam_memory_row *lam_memory_place(const lam_memory *y, int32_t place);
/* Bytes that a place holds at the peak, indexed by lam_held: itself, and with every place below it. A tensor
 * and its gradient are held at its first owner; lam_memory_unplaced has what no module holds. NULL if out of
 * range. */
LAM_API const int64_t *lam_memory_held(const lam_memory *y, int32_t place);
LAM_API const int64_t *lam_memory_held_below(const lam_memory *y, int32_t place);
LAM_API const int64_t *lam_memory_unplaced(const lam_memory *y);

typedef struct lam_memory_point { int64_t t_ns, bytes; } lam_memory_point;
/* Reads memory in use over time, in `points` steps: the maximum of the i-th step and its moment. Fewer
 * moments than `points` are read one by one. LAM_RANGE past the last one. */
LAM_API lam_status lam_memory_at(const lam_memory *y, int32_t points, int32_t i, lam_memory_point *out,
                                 lam_error *e);

/* Statistics of a device's allocator at one moment, in bytes, of all threads. */
typedef struct lam_device_bytes {
    int64_t now, peak;        /* peak: the maximum since the previous moment */
    int64_t allocated, freed; /* since the process started; they only grow */
    int64_t t_ns;
} lam_device_bytes;
LAM_API lam_status lam_build_device_bytes(lam_builder *b, const lam_device_bytes *said, lam_error *e);
/* Pushes a call or a node, as lam_build_span; first and last are indices of such moments, which were pushed
 * before. */
LAM_API lam_status lam_build_device_use(lam_builder *b, const lam_span *span, lam_error *e);
LAM_API bool lam_model_device_memory_seen(const lam_model *m);
/* As lam_memory_new, for the device. `freed` counts all frees during the call, of blocks of any call;
 * `retained` is the increase at its end. The use of blocks is not known: lam_memory_held is NULL. */
LAM_API lam_status lam_device_memory_new(lam_memory **out, const lam_model *m, lam_error *e);

/* == 12. Values and health ==================================================================================
 * The values of tensors. */

/* True for types that have NaN or Inf: floating-point and complex ones. */
LAM_API bool lam_dtype_is_float(int32_t dtype);
/* An array in the caller's memory, which is only read during the call. */
typedef struct lam_values {
    const void *data; /* the first element; NULL only if there are none */
    int32_t dtype;    /* ScalarType number */
    int32_t ndim;
    const int64_t *sizes, *strides; /* in elements; strides may be 0 (an expanded axis); NULL: contiguous */
} lam_values;
typedef struct lam_nonfinite {
    int64_t nan, inf; /* inf: of either sign */
    int64_t negative; /* -Inf alone */
    int64_t first;    /* index of the first non-finite element, in row-major order; -1: none */
} lam_nonfinite;
/* Counts NaN and Inf (of either sign) in a strided array of any type of torch, fp8 and complex included; each
 * part of a complex number counts. Memory without any is read once, in the widest vectors of the processor.
 * Types without such values (integers, bool) count 0 and are not read. LAM_RANGE for impossible sizes or
 * strides; LAM_UNSUPPORTED for an unknown type. */
LAM_API lam_status lam_values_scan(const lam_values *v, lam_nonfinite *out, lam_error *e);
typedef struct lam_stats {
    int64_t numbers, nan, inf, zeros, subnormal; /* a complex number is two */
    double least, greatest, mean; /* of the finite ones; NaN if there are none */
    double headroom; /* how often the largest magnitude can be doubled before it overflows; Inf: all are 0 */
} lam_stats;
/* Computes statistics in one pass over the memory. LAM_UNSUPPORTED for types that are not floating-point. */
LAM_API lam_status lam_values_stats(const lam_values *v, lam_stats *out, lam_error *e);

/* The elements of an attention mask that keep their score. */
typedef struct lam_mask {
    int64_t open; /* elements that keep their score */
    int64_t rows; /* rows, along the last axis, with such an element; a tensor without axes is one row */
} lam_mask;
/* Counts them in a strided array. Of bool: the true elements. Of float64, float32, float16 and bfloat16,
 * which are added to scores: all but -Inf and the lowest finite number of the type, since softmax gives both
 * the weight 0. Each element is read once; an expanded axis is not walked. LAM_UNSUPPORTED for other types,
 * LAM_RANGE for impossible sizes or strides. */
LAM_API lam_status lam_values_mask(const lam_values *v, lam_mask *out, lam_error *e);

/* -- observations --------------------------------------------------------------------------------------
 * A source that checks values pushes the non-finite ones in the order in which it found them. lam_health_new
 * finds out where they began. */
typedef enum lam_bad_side {
    LAM_BAD_INPUT,  /* entry `index` of a call's `in`, when the call began */
    LAM_BAD_OUTPUT, /* entry `index` of a call's `out`, when the call ended */
    LAM_BAD_WRITTEN, /* entry `index` of a call's `in`, finite when it began and not when it ended */
    LAM_BAD_OWNED,  /* `name`, a parameter or buffer of the call's module, when the call ended */
    LAM_BAD_OP,     /* result `index` of operator `name` */
    LAM_BAD_NODE,   /* of a backward pass: node `name` received such a gradient (`fed`), or returned one */
    LAM_BAD_GRAD_INPUT,  /* the gradient of entry `index` of a call's `in` */
    LAM_BAD_GRAD_OUTPUT, /* the gradient of entry `index` of a call's `out`, from all its uses */
    LAM_BAD_CHECK,  /* no such value: the user's check `name` returned `text` for entry `index` of `out` */
    LAM_BAD_UNSEEN, /* no such value: an entry of a call's `out` that could not be checked */
    LAM_N_BAD_SIDES
} lam_bad_side;
typedef struct lam_bad {
    lam_bad_side side;
    lam_phase phase;
    int32_t call;  /* the innermost open call; of a node the one whose forward made it; -1: outside of all */
    int32_t calls, index; /* calls: the number of calls that had begun; index: -1 none */
    bool fed, gave; /* fed: of OP and NODE, its input was bad; gave: of NODE, `inside` returned it */
    int32_t from;  /* NODE that was `fed`: the call of the node that ran before it, `inside`; -1 none */
    int32_t pass;  /* NODE: as lam_op_info.pass */
    /* The source numbers each OP and NODE that was not `fed`, from 1: that is its origin. Other entries have
     * the number of the one they come from; a NODE for which that is unknown has its own. 0: unknown. */
    int32_t origin;
    bool gone; /* of OP and NODE: operators used all its results and returned finite values */
    const char *name; /* copied, as all texts; NULL: none */
    const char *inside; /* NODE that was not `fed`: the operator in it that returned the value */
    const char *text;
    lam_nonfinite found;
    int32_t dtype, ndim;  /* of the tensor; -1 unknown */
    const int64_t *sizes; /* copied */
} lam_bad;
typedef struct lam_looked {
    int64_t tensors, bytes;    /* that were checked */
    int64_t unseen;            /* tensors that could not be: on another device, without memory, sparse */
    bool gradients, operators; /* gradients, and results of operators, were checked too */
    bool cut;                  /* some non-finite values were not kept */
} lam_looked;
/* Notes that values were checked. */
LAM_API lam_status lam_build_looked(lam_builder *b, const lam_looked *looked, lam_error *e);
LAM_API lam_status lam_build_bad(lam_builder *b, const lam_bad *bad, lam_error *e);
/* Pushes statistics of entry `out` of a call's results. */
LAM_API lam_status lam_build_stats(lam_builder *b, int32_t call, int32_t out, const lam_stats *s,
                                   lam_error *e);
/* The gradient of an entry of a call's `in` or `out`, from a backward pass. */
typedef struct lam_grad {
    int32_t call, index;
    bool is_input;
    bool seen, bad; /* its values were checked; some were NaN or Inf */
} lam_grad;
/* Pushes a gradient, once for each entry. */
LAM_API lam_status lam_build_grad(lam_builder *b, const lam_grad *grad, lam_error *e);
/* The i-th gradient, by call, inputs before outputs, and by index; NULL past the last one. There are none
 * unless gradients were watched (lam_looked.gradients). */
LAM_API const lam_grad *lam_model_grad(const lam_model *m, int32_t i);
/* The index of the first gradient of `call` or of a later call. */
LAM_API int32_t lam_model_first_grad(const lam_model *m, int32_t call);
LAM_API const lam_looked *lam_model_looked(const lam_model *m); /* NULL: values were not checked */
LAM_API int32_t lam_model_n_bad(const lam_model *m);
LAM_API const lam_bad *lam_model_bad(const lam_model *m, int32_t i);
/* Reads the indices of the first non-finite element, one for each axis. Returns the number of axes; -1: the
 * indices are unknown. */
LAM_API int32_t lam_bad_first(const lam_bad *bad, int64_t at[LAM_MAX_AXES]);
/* The worst value found: "NaN", "Inf" or "-Inf"; NULL: none. */
LAM_API const char *lam_bad_kind(const lam_bad *bad);
LAM_API const lam_stats *lam_model_stats(const lam_model *m, int32_t call, int32_t out); /* NULL: none */

/* -- findings ------------------------------------------------------------------------------------------
 * A value is born where an output is not finite and all inputs are. Layers that only pass it on are reported
 * separately. -Inf alone is a mask until it is the first argument of a layer that is no softmax, or an output
 * of the model. If `origin` is known, the finding names that operator. docs/health.md has the rules. */
typedef enum lam_health_state {
    LAM_HEALTH_UNKNOWN, /* not checked */
    LAM_HEALTH_FINE,
    LAM_HEALTH_PASSED, /* an input was bad */
    LAM_HEALTH_BORN    /* no input was bad, and a result is */
} lam_health_state;
typedef struct lam_finding {
    lam_phase phase;
    int32_t call, place; /* the call and layer that made it; -1: outside of every layer */
    /* work of a layer between the calls of its children: the calls before and after it, -1 none; else -1 */
    int32_t before, after;
    bool own;          /* it is such work */
    bool input;        /* it was in an input of the model */
    bool check;        /* a check of the user's reported it */
    bool explained;    /* an earlier finding is enough to cause it */
    const char *owned; /* the parameter or buffer that holds it; NULL: none */
    const char *op;    /* the operator or node that returned it; NULL: unknown */
    int32_t bad;       /* its index for lam_model_bad */
    int32_t times;     /* how often it was found there */
    int32_t passed;    /* the number of layers without children that passed it on later */
    const char *text;  /* the finding as a sentence */
} lam_finding;
typedef struct lam_health lam_health;
/* Judges the values of model `m`, which must outlive the result. LAM_USAGE if they were not checked. */
LAM_API lam_status lam_health_new(lam_health **out, const lam_model *m, lam_error *e);
LAM_API void lam_health_free(lam_health *h);                                   /* NULL is allowed */
LAM_API const lam_finding *lam_health_finding(const lam_health *h, int32_t i); /* NULL past the last one */
/* The state of a call: of its outputs in the forward, of gradients in the backward. */
LAM_API lam_health_state lam_health_of(const lam_health *h, int32_t call, lam_phase phase);
/* The worst state of the calls at a place. */
LAM_API lam_health_state lam_health_at(const lam_health *h, int32_t place, lam_phase phase);
/* "fine", "passed", "born" or "unknown". */
LAM_API const char *lam_health_name(lam_health_state s);
/* The sentence of the first finding, or one that reports no finding and the number of tensors checked. */
LAM_API const char *lam_health_sentence(const lam_health *h);
/* Writes the last `n` calls that ended before the first finding, or before the capture closed, as text. */
LAM_API lam_status lam_health_tail(const lam_health *h, int32_t n, lam_sink to, lam_error *e);

/* == 13. Time ===============================================================================================
 * Times are nanoseconds of a monotonic clock; -1: unknown. Every moment of a thread belongs to exactly one
 * call: the innermost open one or, in a backward pass, the one whose forward made the running node. The parts
 * of a run therefore add up to it. */

typedef struct lam_time {
    /* A call's time by lam_phase. Its backward is the time of the nodes that its forward made; recomputation
     * is the time of calls inside a backward pass. */
    int64_t self[LAM_N_PHASES];  /* without the calls made inside it */
    int64_t total[LAM_N_PHASES]; /* with them */
} lam_time;

/* The parts of a run. Every outermost call of the first module that was called begins a run. */
typedef enum lam_time_part {
    LAM_TIME_FORWARD, LAM_TIME_BACKWARD, LAM_TIME_RECOMPUTE, /* of all calls */
    LAM_TIME_ENGINE,  /* autograd between its nodes */
    LAM_TIME_OUTSIDE, /* nodes that no call made: the loss, ... */
    LAM_TIME_WHOLE,   /* the sum of these */
    LAM_N_TIME_PARTS
} lam_time_part;
typedef struct lam_spread { /* one time over the runs that have it */
    int32_t n;
    int64_t median, deviation; /* the median of the absolute differences from the median */
    int64_t least, most;
    int32_t most_run; /* the run of `most` */
} lam_spread;

/* Replaces the times of `m` with those of one run of `timed`, another capture of the same tree: the run whose
 * whole time is the median. `m` owns `timed` from then on, also on failure. Call it before analysing `m`.
 * LAM_USAGE if the trees differ, or no times were measured. */
LAM_API lam_status lam_model_time_by(lam_model *m, lam_model *timed, lam_error *e);

typedef struct lam_times lam_times;
/* Computes the times of model `m`, or of the one that it is timed by; `m` must outlive the result. LAM_USAGE
 * if no times were measured. */
LAM_API lam_status lam_times_new(lam_times **out, const lam_model *m, lam_error *e);
LAM_API void lam_times_free(lam_times *t); /* NULL is allowed */
LAM_API int32_t lam_times_n_runs(const lam_times *t);
/* Reads the times of one call of the model that was timed; false if out of range. */
LAM_API bool lam_times_event(const lam_times *t, int32_t event, lam_time *out);
/* Reads the time of the k-th call at `place` in a run, over the runs, with (total) or without the calls
 * inside it; false if there is no such call or the time is unknown. */
LAM_API bool lam_times_place(const lam_times *t, int32_t place, int32_t k, lam_phase phase, bool total,
                             lam_spread *out);
/* A part of a run, over all runs, and of run `run`. */
LAM_API bool lam_times_part(const lam_times *t, lam_time_part part, lam_spread *out);
LAM_API int64_t lam_times_run(const lam_times *t, int32_t run, lam_time_part part);
/* A run that took much longer than others: of at least 5 runs, more than 5 deviations (scaled to a standard
 * deviation) and more than 5 % above the median. */
typedef struct lam_outlier {
    int32_t run;
    int64_t whole, median; /* whole time of the run; median over all runs */
    int32_t place;         /* the place with the largest delay; -1: the engine, or nodes that no call made */
    int64_t late;          /* its delay above its own median */
} lam_outlier;
/* Reads the i-th; false past the last one. */
LAM_API bool lam_times_outlier(const lam_times *t, int32_t i, lam_outlier *out);
/* Operators and nodes by name and phase, the largest `self` first. False past the last one. */
typedef struct lam_op_time {
    const char *name;
    lam_phase phase;
    bool node;
    int32_t n;           /* the number that ran */
    int64_t self, total; /* without and with the operators inside, summed over all runs */
} lam_op_time;
LAM_API bool lam_times_op(const lam_times *t, int32_t i, lam_op_time *out);

/* The time of a GPU's stream between two events, before and after a call or a node of a backward. */
typedef struct lam_device_span {
    int32_t call;         /* as lam_op_info.call of a node */
    int32_t stream;       /* from 0; -1: unknown, and so are the times */
    int64_t t0_ns, t1_ns; /* of the device's clock, from 1 */
    bool node;
    int32_t pass;    /* of a node: as lam_op_info.pass */
    int64_t host_ns; /* of a node: when the host launched it */
} lam_device_span;
/* Pushes a span, after the calls; those of one stream in the order in which they began. */
LAM_API lam_status lam_build_device_span(lam_builder *b, const lam_device_span *span, lam_error *e);
/* Notes that a device's clock was read: without a span, or with one without times, a time is unknown. */
LAM_API lam_status lam_build_device_timed(lam_builder *b, lam_error *e);
LAM_API bool lam_model_device_timed(const lam_model *m); /* or the one that it is timed by */
/* As lam_times_new, by the device's clock: waits for the host included, operators left out. A call's total is
 * that of its stream; its own time is unknown if calls in it ran on others. LAM_USAGE: no clock was read. */
LAM_API lam_status lam_device_times_new(lam_times **out, const lam_model *m, lam_error *e);
/* As lam_costs_times and lam_costs_time below. */
LAM_API const lam_times *lam_costs_device_times(const lam_costs *c);
LAM_API bool lam_costs_device_time(const lam_costs *c, int32_t row, lam_time *out);

/* Reads the times of a row's call; false if times were not measured, and for rows that are no call. */
LAM_API bool lam_costs_time(const lam_costs *c, int32_t row, lam_time *out);
/* A part of the time of all rows: in all runs, or (lam_model_time_by) in the run whose whole time is the
 * median. The rows show the same runs: their own times and the time of no row add up to the whole. */
LAM_API int64_t lam_costs_time_part(const lam_costs *c, lam_time_part part);
/* The times that rows show; NULL if none were measured. */
LAM_API const lam_times *lam_costs_times(const lam_costs *c);
typedef enum lam_bound {
    LAM_BOUND_UNKNOWN,
    LAM_BOUND_COMPUTE, /* arithmetic is nearer to its peak than memory */
    LAM_BOUND_MEMORY,
    LAM_BOUND_NEITHER  /* neither reaches a tenth of its peak */
} lam_bound;
LAM_API const char *lam_bound_name(lam_bound b); /* "unknown", "compute", ... */
typedef struct lam_speed { /* the speed of a row's own work in its own time */
    double flops, bytes;   /* a second; negative: the work is not exact */
    double intensity;      /* FLOPs a byte; negative: the work is not exact */
    double share;          /* share of the peak of its bound; negative: unknown */
    lam_bound bound;
    int64_t ns;
} lam_speed;
/* Computes the speed of a row in a phase, by the device's clock if it was read; false if the row has no time
 * or no work there. peak NULL: the bound is unknown. Bytes count once for each operand, so reads from a cache
 * count as memory. */
LAM_API bool lam_costs_speed(const lam_costs *c, int32_t row, lam_phase phase, const lam_peak *peak,
                             lam_speed *out);
/* The peak that rows are compared with: `measured`, or the speed of a row that exceeds it, since the peak was
 * then measured too low. 0 stays 0. */
LAM_API lam_peak lam_costs_peak(const lam_costs *c, lam_peak measured);
/* "12.3 ms", "410 us", "85 ns"; "?" if ns is negative. As section 9. */
LAM_API int lam_text_time(char *buf, size_t size, int64_t ns);

/* == 14. Will it fit ===================================================================================== */

/* Memory that a real run would take, from a dry run, and its lifetime. */
typedef enum lam_taken {
    LAM_TAKEN_TENSOR,
    LAM_TAKEN_SEED,     /* a tensor that a backward pass starts from */
    LAM_TAKEN_WORKSPACE, /* memory of an operator beside its results, while it runs */
    LAM_TAKEN_ROUGHLY,   /* the same, some per cent less or more */
    LAM_TAKEN_UNKNOWN    /* the same, or more */
} lam_taken;
typedef struct lam_lifetime {
    int64_t bytes;
    /* allocated in operator `made` (-1: before the first), freed before the one after `freed` (-1: never) */
    int32_t made, freed;
    lam_taken what;
} lam_lifetime;
/* Pushes a lifetime, in the order of allocation, after the operators. LAM_RANGE for an operator that was not
 * pushed. */
LAM_API lam_status lam_build_lifetime(lam_builder *b, const lam_lifetime *l, lam_error *e);
/* 0 also if lifetimes were not followed. */
LAM_API int32_t lam_model_n_lifetimes(const lam_model *m);
LAM_API const lam_lifetime *lam_model_lifetime(const lam_model *m, int32_t i);

/* A CPU, for the memory that operators use on it beside their results (src/vocab/workspace.def). */
typedef struct lam_cpu {
    int32_t threads, lanes; /* lanes: 32-bit numbers in a vector register */
    bool half;              /* it computes in float16 */
} lam_cpu;
LAM_API lam_cpu lam_cpu_here(int32_t threads); /* this machine's */
/* The index of the rule for operator `name`; -1: none, its workspace is negligible. */
LAM_API int32_t lam_workspace_rule(const char *name);
/* True if the rule is some per cent off for these arguments on some processors. */
LAM_API bool lam_workspace_rough(int32_t rule, const lam_op_arg *in, int32_t n_in);
/* The workspace in bytes, from the arguments and the strides, in elements, of those that are tensors. */
LAM_API int64_t lam_workspace(int32_t rule, const lam_op_arg *in, const int64_t *const *strides, int32_t n_in,
                              lam_cpu cpu);

/* The name of the i-th known optimizer ("adamw"), the default first, and its description; NULL past the last
 * one. */
LAM_API const char *lam_optimizer_name(int32_t i, const char **what);

/* The memory that one layer holds at the peak, without its children. */
typedef struct lam_fit_row {
    int32_t place; /* -1: outside every call */
    int64_t bytes, part[LAM_N_HELD];
} lam_fit_row;
/* The predicted peak of memory that a CPU's allocator has handed out during a run, from a dry run that
 * followed how long autograd and the model's code held each tensor. */
typedef struct lam_fit {
    lam_count peak, part[LAM_N_HELD]; /* the peak and its parts; LAM_AT_LEAST: see `gap` */
    int32_t op;                       /* the operator that runs then; -1: none, or the optimizer's step */
    const char *at;                   /* its name, "the optimizer's step", or "before the first operator" */
    const char *optimizer;            /* NULL: no step is made */
    bool backward;                    /* there was a backward pass */
    const char *gap;                  /* why it may be more; NULL: it is not */
    const char *rough;                /* why it may be some per cent less or more; NULL: it is not */
    /* Layers with causal attention: their number, and the bytes of a cache of keys and values for a token. */
    int32_t cached_layers;
    int64_t cache_bytes;
    /* The same for layers with self-attention through a mask of the model, which may be causal. */
    int32_t masked_layers;
    int64_t masked_bytes;
    int32_t n_rows;
    const lam_fit_row *rows; /* the largest first */
} lam_fit;
/* Computes the fit of model `m`. `optimizer` NULL: none. LAM_USAGE if memory was not followed, or there is no
 * such optimizer. */
LAM_API lam_status lam_fit_new(lam_fit **out, const lam_model *m, const char *optimizer, lam_error *e);
LAM_API void lam_fit_free(lam_fit *f); /* NULL is allowed */
/* Writes the fit of a forward pass, a training step, or both (NULL: left out) as "text" (format NULL) or
 * "json". `m` is the model of either. `measured`: the peaks that an allocator counted instead, -1 unknown. */
LAM_API lam_status lam_fit_write(const lam_fit *forward, const lam_fit *step, const lam_model *m,
                                 const int64_t measured[2], const char *format, bool exact, lam_sink to,
                                 lam_error *e);

#ifdef __cplusplus
}
#endif

#include "lamina_command.h"
#include "lamina_fields.h"
#include "lamina_recording.h"

#endif
