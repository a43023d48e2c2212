/* SPDX-License-Identifier: Apache-2.0
 *
 * lamina: see every layer of a neural network.
 *
 * Ownership in one sentence: what a `_new` gives you, you free with its `_free`; everything else is borrowed
 * and lives as long as what you asked.
 *
 * Errors: every fallible call returns a lam_status and takes a `lam_error *` last (NULL is allowed). The
 * error is the caller's storage; the first cause stays. The library never prints, exits or aborts. A gap in
 * knowledge is not an error: it is a count whose state is LAM_UNKNOWN or LAM_AT_LEAST, with a reason.
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
    LAM_IO = -2,          /* a sink refused bytes, a file could not be written */
    LAM_SYNTAX = -3,      /* a text (formula, command line, file) is malformed; `at` is the byte offset */
    LAM_UNSUPPORTED = -4, /* well formed, but this build or this source can't do it */
    LAM_LIMIT = -5,       /* a limit that guards against hostile input was reached */
    LAM_RANGE = -6,       /* an index or a number lies outside its range */
    /* the caller asked for something that does not exist; the sentence says what does */
    LAM_USAGE = -7,
    LAM_FAILED = -8       /* the host (a live model's own code) failed; the sentence is the host's */
} lam_status;

typedef struct lam_error { /* NULL is allowed wherever one is taken */
    lam_status status;     /* the first failure; later ones do not overwrite it */
    int64_t at;            /* byte offset in the input; -1 where none applies */
    char where[96];        /* what and where: "convention 'foo'", "layer1.0.conv1"; may be empty */
    char text[256];        /* one sentence: what is wrong and what to do next; no newline */
} lam_error;

/* "USAGE", "NOMEM", ...; static storage, never NULL. */
LAM_API const char *lam_status_name(lam_status status);

/* Where text goes. `put` receives n bytes of UTF-8 and returns LAM_OK, or LAM_IO to stop the writer. */
typedef struct lam_sink {
    lam_status (*put)(void *to, const char *bytes, size_t n);
    void *to;
} lam_sink;

/* == 2. Words ===============================================================================================
 * How a source spells a layer, and which of its attributes and arguments mean what, are data
 * (src/vocab/names_module.def). A word is one spelling of one kind. */

/* Index of the torch.nn class called `name` ("Conv2d"), or -1 when lamina has no word for it. */
LAM_API int32_t lam_word_module(const char *name);
/* The spelling ("Conv2d") and the kind ("conv") of a word; NULL when out of range. */
LAM_API const char *lam_word_name(int32_t word);
LAM_API const char *lam_word_kind(int32_t word);
/* The i-th attribute of the module that must be read for this word ("kernel_size"); NULL past the last one.
 * Tensors among them (weight, bias) need not be read: parameters and buffers are pushed with
 * lam_build_tensor. */
LAM_API const char *lam_word_attr(int32_t word, int32_t i);
/* True for kinds that only hold and call children and do no work of their own (Sequential, ModuleList). */
LAM_API bool lam_word_is_container(int32_t word);
/* Index of the operator spelled `name` ("aten::convolution", no overload), or -1. Its own numbering. */
LAM_API int32_t lam_word_op(const char *name);
LAM_API const char *lam_word_op_name(int32_t word);
LAM_API const char *lam_word_op_kind(int32_t word);
/* True for an operator that only calls others, whose work it is. */
LAM_API bool lam_word_op_wraps(int32_t word);
/* The position of the argument that masks scores, whose values decide what effective counts leave out: a
 * source counts them with lam_values_mask. -1: it has none. */
LAM_API int32_t lam_word_op_mask(int32_t word);

/* What an operator gives, from its arguments alone (src/vocab/shapes.def). The rule that serves `name`, by
 * the overload's arguments as they come; -1 where there is none. */
LAM_API int32_t lam_shape_rule(const char *name);
typedef enum lam_order {
    LAM_ORDER_LIKE, /* as torch's TensorIterator lays it out, after the operands that are tensors */
    LAM_ORDER_BOTH, /* the same, a number being an operand without axes */
    LAM_ORDER_ROWS,  /* last axis first, if the operands are in that order; else unknown */
    LAM_ORDER_IMAGE, /* the same, or with channels last, if an operand of 4 axes is */
    LAM_ORDER_CONV,  /* as IMAGE, but for numbers of 64 bits, which are in rows always */
    LAM_ORDER_NORM,  /* channels last where only that is the first operand's layout; else last axis first */
    LAM_ORDER_FRESH /* last axis first whatever they are */
} lam_order;
LAM_API lam_order lam_shape_order(int32_t rule);
enum { LAM_MAX_AXES = 8, LAM_MAX_RESULTS = 4 };
typedef struct lam_result {
    int32_t in; /* the entry of the arguments that it is, written to in place; -1: it is new */
    int32_t dtype, ndim;
    int64_t sizes[LAM_MAX_AXES];
} lam_result;
struct lam_op_arg;
/* How many results there are; 0 where the rule does not serve these arguments, which then is not known. */
LAM_API int32_t lam_shape_run(int32_t rule, const struct lam_op_arg *in, int32_t n_in,
                              lam_result out[LAM_MAX_RESULTS]);

/* Data types. Numbers are torch's ScalarType numbers; bytes may be fractions for packed types, so bits are
 * given. */
LAM_API const char *lam_dtype_name(int32_t dtype); /* "float32"; "?" when unknown */
LAM_API int32_t lam_dtype_bits(int32_t dtype);     /* bits an element; 0 when unknown */
LAM_API int32_t lam_dtype_by_name(const char *name); /* -1 when unknown; with or without a leading "torch." */

/* == 3. Building a model ====================================================================================
 * A source pushes what it saw and decides nothing. Indices count from 0 in push order. */

typedef struct lam_builder lam_builder;
typedef struct lam_model lam_model;

/* `memory_limit` in bytes bounds the model's arena; 0 means 1 GiB. */
LAM_API lam_status lam_builder_new(lam_builder **out, uint64_t memory_limit, lam_error *e);
LAM_API void lam_builder_free(lam_builder *b); /* NULL is allowed; frees the unfinished model too */

/* An attribute of a module, or a value of an argument. */
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
    LAM_MODULE_EXACT = 1,       /* its class is the word itself, not a subclass */
    /* a subclass of the word that overrides forward: the word's rule may miss work */
    LAM_MODULE_OWN_FORWARD = 2,
    LAM_MODULE_TRAINING = 4,    /* train() mode when the capture closed */
    LAM_MODULE_OPAQUE = 8,      /* scripted, traced or compiled: its inside could not be seen */
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
/* Another thread called the module, which was not watched: what that cost, and what came of it, is not known.
 * Where no call of it was pushed, totals are at least, and tables say "called elsewhere". LAM_RANGE: there is
 * no such module. */
LAM_API lam_status lam_build_called_elsewhere(lam_builder *b, int32_t module, lam_error *e);

/* One place in the tree: a name under a parent place. A module object reachable from two parents has two
 * places. The root is pushed first with parent -1 (its name may be ""); parents before children, in
 * registration order. */
LAM_API lam_status lam_build_place(lam_builder *b, int32_t parent, const char *name, int32_t module,
                                   int32_t *index, lam_error *e);

/* One distinct parameter or buffer object (tied weights are one tensor). */
typedef struct lam_tensor_info {
    int32_t dtype;        /* ScalarType number, -1 unknown */
    int32_t ndim;         /* -1: no shape (uninitialised) */
    const int64_t *sizes; /* ndim sizes; copied */
    int64_t bytes;        /* numel * item size; -1: from dtype and sizes */
    bool requires_grad;
    uint64_t storage, object; /* as those of lam_op_arg */
} lam_tensor_info;
LAM_API lam_status lam_build_tensor(lam_builder *b, const lam_tensor_info *info, int32_t *index,
                                    lam_error *e);
/* Of a tensor that is spread over several processes, `elements` are not in this one. */
LAM_API lam_status lam_build_elsewhere(lam_builder *b, int32_t tensor, int64_t elements, lam_error *e);
/* Tensor `tensor` is a weight that a quantised layer keeps in an object of its own: neither parameter nor
 * buffer, unpacked to be told. Its owner owns it as a buffer. */
LAM_API lam_status lam_build_packed(lam_builder *b, int32_t tensor, lam_error *e);
/* In a backward pass from all floating-point outputs a gradient `came` to tensor `tensor`, or none did. */
LAM_API lam_status lam_build_gradient(lam_builder *b, int32_t tensor, bool came, lam_error *e);
/* `module` owns tensor `tensor` under `name` ("weight"). */
LAM_API lam_status lam_build_owns(lam_builder *b, int32_t module, const char *name, int32_t tensor,
                                  bool is_buffer, lam_error *e);

/* One tensor that went into or came out of a call. */
typedef struct lam_arg {
    const char *name;     /* keyword, or NULL for a positional argument; copied */
    /* index of the top-level argument among the positional ones (or of the output), else -1 */
    int32_t position;
    int32_t dtype;        /* ScalarType number, -1 unknown */
    int32_t device;       /* c10 device type number (cpu 0, cuda 1, meta 14), -1 unknown */
    int32_t ndim;         /* -1: shape unknown */
    const int64_t *sizes; /* copied */
    uint64_t storage;     /* identity of its data (address); 0 unknown. Only equality is meaningful. */
    uint64_t memory, object; /* as storage and object of lam_op_arg; memory 0: `storage` is taken */
} lam_arg;

typedef enum lam_call_flags {
    LAM_CALL_TRAINING = 1, /* the module was in train() mode at this call */
    LAM_CALL_FAILED = 2,   /* it raised */
    LAM_CALL_UNSEEN = 4,   /* nothing is known of its outputs (None, a string, ...) */
    LAM_CALL_AGAIN = 8,    /* made inside a backward pass, to do forward work again; may raise to end early */
    LAM_CALL_ELSEWHERE = 16, /* meanwhile another thread called modules of the model, and was not watched */
    LAM_CALL_HIDES = 32,   /* scripted code ran kernels in it that are no operators */
    LAM_CALL_STRANGERS = 64, /* it called modules that are not among the model's, which was not watched */
    LAM_CALL_LATER = 128,  /* it gave a generator or a coroutine: what its forward does runs later, if ever */
    LAM_CALL_VALUES = 256  /* among its outputs are numbers or arrays: where they come from is not seen */
} lam_call_flags;
typedef struct lam_call_info {
    int32_t module; /* which module object was called */
    int32_t parent; /* the call that was open around it, or -1; parents are pushed before children */
    uint32_t flags; /* lam_call_flags */
    int64_t t0_ns, t1_ns; /* enter and leave, monotonic nanoseconds; 0 when not measured */
    int32_t n_in, n_out;
    const lam_arg *in, *out;
} lam_call_info;
/* Calls are pushed in the order in which they were entered. The builder finds the call's place: the child
 * place of the parent's place that holds this module, else the module's first place under the nearest common
 * ancestor. */
LAM_API lam_status lam_build_call(lam_builder *b, const lam_call_info *info, int32_t *index, lam_error *e);

/* -- operators ---------------------------------------------------------------------------------------
 * What the calls did: one operator of the framework that ran, "aten::convolution". */
typedef enum lam_phase {
    LAM_FORWARD,
    LAM_BACKWARD,
    LAM_RECOMPUTE, /* forward work that is done again inside a backward pass (activation checkpointing) */
    LAM_N_PHASES
} lam_phase;

/* One argument or result. Tensors of a list share one position; what the source can't tell is left out. */
typedef struct lam_op_arg {
    int32_t position; /* in the operator's schema, from 0 */
    bool is_tensor;
    bool sparse;      /* a tensor that does not store the elements that are 0 */
    bool masks;       /* a mask (lam_word_op_mask), and lam_values_mask was asked about it as it came */
    int32_t dtype;    /* of a tensor: ScalarType number, -1 unknown */
    int32_t device;   /* c10 device type number, -1 unknown */
    int32_t ndim;     /* -1: shape unknown */
    int32_t shares;   /* only read, of a result: the last entry of `in` with the same memory, -1 none */
    lam_value value;  /* a scalar or a list of integers; LAM_NONE for None. Not for tensors */
    const int64_t *sizes; /* copied */
    /* Only pushed: identities (addresses) of a tensor's memory, which its views share, and of the tensor
     * itself; 0 unknown. Read, they are 0. */
    uint64_t storage, object;
    /* A sparse tensor: how many elements it stores, how many together with their indices, and the bytes of
     * both; -1 unknown. A mask: what lam_values_mask said; the builder answers LAM_RANGE where a tensor of
     * this shape can't have so many. No tensor is both. */
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
    LAM_OP_FAILED = 1, /* it raised: nothing came out, and it does not count */
    /* a node of the autograd graph ("AddmmBackward0"), or an operator on what a transform (vmap) made of
     * tensors, which runs others on the real ones: it counts nothing itself */
    LAM_OP_NODE = 2,
    LAM_OP_HIDES = 4, /* work in it is not seen: compiled code, or an operator torch kept no record of */
    LAM_OP_GRAD = 8, /* gradients were wanted of what it does; operators inside one that says so don't tell */
    LAM_OP_WHOLE = 16, /* its rule counts it, although it commonly stands for what it calls */
    /* Values decide what runs in its place and there were none, as in a dry run: it and what it calls count
     * nothing, and the sums are lower bounds of all but dense work, of which no way has any. */
    LAM_OP_VALUES = 32
} lam_op_flags;

/* Identities of a tensor: as storage and object of lam_op_arg. */
typedef struct lam_identity { uint64_t storage, object; } lam_identity;

typedef struct lam_op_info {
    const char *name; /* copied, shared between equal names */
    /* the innermost open module call; in a backward pass the call whose forward made the node that runs; -1:
     * outside every call */
    int32_t call;
    int32_t parent;   /* the operator that was open around it on its thread, -1; parents are pushed first */
    lam_phase phase;
    uint32_t flags;       /* lam_op_flags */
    int64_t t0_ns, t1_ns; /* 0 when not measured */
    int32_t n_in, n_out;
    const lam_op_arg *in, *out;
    /* 1 + the index of an operator that was pushed with equal name, arguments and results, identities aside:
     * spares looking for one; 0: look. With `tensors`, `in` and `out` need not be told again: the identities
     * of its tensors, arguments first, n_tensors in all. */
    int32_t like, n_tensors;
    const lam_identity *tensors;
    int32_t thread; /* 0: the one that made the calls; others from 1 */
    int32_t pass;   /* of a node: equal for those that one backward pass runs; 0 unknown */
} lam_op_info;
/* In the order in which they started, after all calls, those of one thread together. LAM_RANGE for a call or
 * parent that was not pushed. */
LAM_API lam_status lam_build_op(lam_builder *b, const lam_op_info *info, int32_t *index, lam_error *e);
/* Says that operators were watched, so that a model without any is known to have run none. */
LAM_API lam_status lam_build_ops_seen(lam_builder *b, lam_error *e);
/* The same of the nodes of backward passes (LAM_OP_NODE), which may be watched without other operators. */
LAM_API lam_status lam_build_nodes_seen(lam_builder *b, lam_error *e);
/* Says that times were asked for: reports tell them. */
LAM_API lam_status lam_build_timed(lam_builder *b, lam_error *e);
/* Says that a backward pass was asked for and did not run: where no operator of one was pushed, what it costs
 * is unknown, and not 0. */
LAM_API lam_status lam_build_no_backward(lam_builder *b, lam_error *e);

/* What was pushed is not all that ran: memory ran out, or a limit was reached. `why` is a sentence for the
 * report, in which what may lack something is "at least". Operators that started after `from_ns` were not
 * seen (INT64_MAX: those of backward passes, whenever); `calls`: nor were calls, whenever. The builder may
 * take a quarter more memory than it was given, so that it can be finished. */
LAM_API lam_status lam_build_cut(lam_builder *b, const char *why, bool calls, int64_t from_ns, lam_error *e);

/* A note that the report shows ("shim not available", ...); at most 64 are kept. */
LAM_API lam_status lam_build_note(lam_builder *b, const char *text, lam_error *e);

/* How the next tensor that goes into the model was made up: "rand", "zeros", ... In the order of the inputs
 * of the root's first call; none for tensors that somebody gave. */
LAM_API lam_status lam_build_made(lam_builder *b, const char *text, lam_error *e);

/* Freezes the model; `*out` is the caller's, and `b` is freed in every case. */
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
    int32_t n_calls;                         /* how often it was called */
} lam_module;

typedef struct lam_place {
    const char *name; /* last component; the root's is "" */
    const char *path; /* dotted, "" for the root */
    int32_t parent, module, depth; /* the root has parent -1 and depth 0 */
    int32_t n_children; const int32_t *children;
    int32_t n_calls; /* calls that were made at this place */
} lam_place;

typedef struct lam_tensor {
    int32_t dtype;
    lam_shape shape;
    int64_t numel, bytes; /* -1: unknown */
    int64_t elsewhere;    /* of numel: what other processes hold */
    bool requires_grad, packed;
    int8_t gradient; /* of a backward pass from all outputs: 1 came, -1 did not, 0 nobody looked */
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

/* What operators have in common that ran under one name with equal arguments and results. */
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
    uint32_t ties_;       /* the model's own: where its tensors' identities begin */
    int32_t pass;
    int64_t t0_ns, t1_ns;
} lam_op;

LAM_API bool lam_model_ops_seen(const lam_model *m);
LAM_API bool lam_model_nodes_seen(const lam_model *m);
LAM_API bool lam_model_timed(const lam_model *m);
/* False where operators ran and nothing told whose memory their tensors have: no source is known then. */
LAM_API bool lam_model_traced(const lam_model *m);
/* Why what was seen is not all that ran, as lam_build_cut told; NULL: it is. */
LAM_API const char *lam_model_cut(const lam_model *m);
LAM_API int32_t lam_model_n_ops(const lam_model *m);
LAM_API const lam_op *lam_model_op(const lam_model *m, int32_t i);
LAM_API int32_t lam_model_n_op_sigs(const lam_model *m);
/* Where the data of entry `in` of an operator's arguments comes from. Each may be LAM_SOURCE_NONE: nothing
 * that was seen, no tensor, or out of range. */
enum { LAM_SOURCE_NONE = -1 };
/* Sources are found when the first is asked for: that takes as long as all the rest of a model, and sums need
 * none. This finds them now. LAM_NOMEM: none is known yet. */
LAM_API lam_status lam_model_find_sources(const lam_model *m, lam_error *e);
/* The operator that gave it last: made it, made this view of it, or wrote into it; who wrote into other parts
 * of its memory does not count. Of operators inside each other the outermost that had ended. */
LAM_API int32_t lam_model_source(const lam_model *m, int32_t op, int32_t in);
/* The parameter or buffer (lam_model_tensor) whose memory it is. */
LAM_API int32_t lam_model_source_tensor(const lam_model *m, int32_t op, int32_t in);
/* The entry of `in` of the outermost call around it whose memory it is. */
LAM_API int32_t lam_model_source_input(const lam_model *m, int32_t op, int32_t in);
/* The operator that last gave the data of entry `out` of a call's results before it returned. */
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
/* How input i of the root's first call was made up; NULL where somebody gave it. */
LAM_API const char *lam_model_made(const lam_model *m, int32_t i);
/* The place whose dotted path is `path` ("layer1.0.conv1"), or -1. */
LAM_API int32_t lam_model_find(const lam_model *m, const char *path);
/* The attribute called `name` of module i, or NULL. */
LAM_API const lam_value *lam_model_attr(const lam_model *m, int32_t module, const char *name);

/* == 5. Conventions and rules ===============================================================================
 * A convention is a table of rules (one text formula a metric and kind, over named facts) plus policies, all
 * data: src/count/conventions.def and one .def a table. A rule may have a second, *released* form: what the
 * tool of that name really printed where its author's intent was missed; only the drop-in functions use
 * it. */

typedef enum lam_metric {
    LAM_MACS,
    LAM_FLOPS,
    LAM_DMAS,          /* elements read and written */
    LAM_BYTES_READ,    /* the same elements in bytes, as each tensor stores them */
    LAM_BYTES_WRITTEN,
    /* without what an attention's mask leaves out or a sparse factor does not store; elsewhere the
     * dense count */
    LAM_EFFECTIVE_MACS,
    LAM_EFFECTIVE_FLOPS,
    LAM_N_METRICS
} lam_metric;

typedef enum lam_state { LAM_EXACT = 0, LAM_AT_LEAST = 1, LAM_UNKNOWN = 2 } lam_state;
/* A number that knows whether it is whole. Its value is over * 2^63 + n. For LAM_UNKNOWN the value is what
 * is known (0 where nothing is) and must not be shown as a number. */
typedef struct lam_count { int64_t n; uint32_t over; lam_state state; } lam_count;

LAM_API const char *lam_state_name(lam_state s);   /* "exact", "at least", "unknown" */
LAM_API const char *lam_metric_name(lam_metric m); /* "macs", "flops", "dmas", "bytes_read", ... */
/* worst state wins; the sum is checked over 128 bits */
LAM_API lam_count lam_count_add(lam_count a, lam_count b);
/* Bytes read and written together. */
LAM_API lam_count lam_metric_bytes(const lam_count metric[LAM_N_METRICS]);
/* Arithmetic intensity, FLOPs a byte read or written; negative unless both are exact and some byte moves. */
LAM_API double lam_metric_intensity(const lam_count metric[LAM_N_METRICS]);

LAM_API int32_t lam_n_conventions(void);
LAM_API const char *lam_convention_name(int32_t i);   /* NULL out of range */
/* what the table reproduces, with its version; one line */
LAM_API const char *lam_convention_source(int32_t i);
/* What a model is counted under when no convention is named: the default one, which counts operators; where
 * `m`'s were not watched, the first that counts layers. NULL `m`: the default one. */
LAM_API const char *lam_convention_of(const lam_model *m);
LAM_API int32_t lam_convention_find(const char *name); /* -1 */
/* True when it counts operators, which a model has only where they were watched. */
LAM_API bool lam_convention_counts_ops(int32_t i);
/* True when the tool that it reproduces makes every layer run its own forward: torch runs an attention layer
 * in eval mode as one kernel, but not where the layer has hooks, and not with gradients. */
LAM_API bool lam_convention_unfused(int32_t i);
/* True when some rule of it has a formula for the metric; else that metric is always LAM_UNKNOWN. */
LAM_API bool lam_convention_counts(int32_t i, lam_metric metric);

typedef struct lam_rule {
    const char *kind;                     /* "conv" */
    /* "out*red"; NULL: the convention has no opinion, the count is unknown */
    const char *formula[LAM_N_METRICS];
    const char *released[LAM_N_METRICS];  /* the released form where it differs, else NULL */
    const char *note;                     /* why, or the source of the formula; NULL */
    const char *only;                     /* the spellings that it serves, separated by spaces; NULL: all */
    bool of_op;                           /* it serves operators, not layers */
} lam_rule;
/* The i-th rule of a convention; LAM_RANGE past the last one. */
LAM_API lam_status lam_convention_rule(int32_t convention, int32_t i, lam_rule *out, lam_error *e);
/* Every fact a formula may name, with its meaning; NULL past the last one. */
LAM_API const char *lam_fact_name(int32_t i);
LAM_API const char *lam_fact_meaning(int32_t i);

/* Evaluates a formula. `names[i]` has value `values[i]`. Grammar: integers, names, + - * / (floor), unary -,
 * ( ), comparisons < <= > >= == != (1 or 0), c ? a : b, min(a,b), max(a,b), and the word `unknown`.
 * LAM_SYNTAX with the offset; a result of 2^95 or more or below -2^63, a division by 0 or an unknown name
 * gives state UNKNOWN. */
LAM_API lam_status lam_formula_eval(const char *formula, const char *const *names, const int64_t *values,
                                    int32_t n, lam_count *out, lam_error *e);

/* Rules of the caller's own, for operators ("mylib::op") and classes of layers ("MyLayer"); they win over the
 * convention's. A text has one rule a line, `mylib::op  macs = out*x_last  flops = 2*macs`; all of it is in
 * docs/your-own-rules.md. LAM_SYNTAX with "from:line:column" in where. */
typedef struct lam_rules lam_rules;
LAM_API lam_status lam_rules_new(lam_rules **out, lam_error *e);
LAM_API void lam_rules_free(lam_rules *r); /* NULL is allowed */
LAM_API lam_status lam_rules_read(lam_rules *r, const char *text, const char *from, lam_error *e);
/* One rule; replaces an older one of that name. A formula may be NULL. `ask`: what the formulas do not give
 * is asked of lam_cost_options.ask. */
LAM_API lam_status lam_rules_add(lam_rules *r, const char *name, const char *const formula[LAM_N_METRICS],
                                 bool ask, lam_error *e);
/* The i-th, its name as `kind`; false past the last one. */
LAM_API bool lam_rules_at(const lam_rules *r, int32_t i, lam_rule *out);

/* == 6. Costs ===============================================================================================
 * Which calls become rows, under which place, and what each costs, under one convention. */

typedef struct lam_cost_options {
    const char *convention; /* NULL: the default */
    bool released;          /* as the tool of that name printed it: its rows (k-th call under the k-th place,
                               last call only, ...) and released formulas. false: every call is a row, rules
                               as meant. */
    /* A count of the caller's own for a call (custom_ops): return true and fill out[LAM_N_METRICS] to
     * override, false to let the rule decide. `omit` set to true leaves the layer out. NULL: none. */
    bool (*custom)(void *self, const lam_model *m, int32_t event, lam_count out[LAM_N_METRICS], bool *omit);
    void *custom_self;
    /* NULL: none. Copied. Not looked at where `released`. A layer's rule gives what it does itself, outside
     * the layers that it calls; an operator's everything that runs inside it. */
    const lam_rules *own;
    /* Asked for operator `op`, or (-1) call `event`, that rule `name` of `own` says nothing certain of: fill
     * out[] and return true, or false where it is not known. NULL: none. */
    bool (*ask)(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                lam_count out[LAM_N_METRICS]);
    void *ask_self;
    bool totals_only; /* rows, parameters and sentences are left for lam_costs_settle */
} lam_cost_options;

typedef struct lam_cost_row {
    /* -1: a place that was never called, a container's own parameters, or (counted, at the root) the
     * operators that ran outside every call */
    int32_t event;
    int32_t place, module, depth;
    lam_count metric[LAM_N_METRICS];
    /* as the convention's column */
    lam_count params, grad_params, nograd_params, param_bytes, buffers, buffer_bytes;
    lam_count packed, packed_bytes;   /* of weights packed for the machine, which are no parameters */
    lam_count total[LAM_N_METRICS];   /* this row and every row below it (calls made inside this call) */
    /* of this row alone; metric[] is the forward's */
    lam_count backward[LAM_N_METRICS], recompute[LAM_N_METRICS];
    lam_count total_backward[LAM_N_METRICS], total_recompute[LAM_N_METRICS]; /* with every row below it */
    lam_count local_params, local_bytes; /* of params and param_bytes: what this process holds */
    lam_count total_params;           /* distinct parameters of the place and everything under it */
    lam_count running_stats; /* elements of running_mean and running_var among the buffers of this row */
    bool shared;     /* some parameter or buffer had been counted by an earlier row */
    bool leaf;       /* no children registered */
    bool never_called;
    /* false: the row is shown for the structure; its own metrics are 0 and belong to its children */
    bool counted;
    double rf, rf_stride, rf_padding; /* as the convention cumulates them; see section 7 */
    lam_state rf_state;
    /* On the graph of the data: it may see less, where an operator mixes what can't be told apart; every
     * element sees the whole axis. */
    bool rf_at_most, rf_whole;
    const char *rule_kind; /* NULL: no rule, or operators are counted */
    const char *reason;    /* why it is not exact; NULL when it is */
} lam_cost_row;

typedef struct lam_costs lam_costs;
/* Costs of model `m`, which must outlive the result. */
LAM_API lam_status lam_costs_new(lam_costs **out, const lam_model *m, const lam_cost_options *o,
                                 lam_error *e);
/* Makes what `totals_only` left out: until then there are no rows, parameters, gaps or names without a rule
 * to read. Does nothing where they are there. LAM_NOMEM: there will be none. */
LAM_API lam_status lam_costs_settle(lam_costs *c, lam_error *e);
LAM_API void lam_costs_free(lam_costs *c);
LAM_API const lam_model *lam_costs_model(const lam_costs *c);
LAM_API int32_t lam_costs_convention(const lam_costs *c);
LAM_API int32_t lam_costs_n_rows(const lam_costs *c);
LAM_API const lam_cost_row *lam_costs_row(const lam_costs *c, int32_t i);
LAM_API lam_count lam_costs_total(const lam_costs *c, lam_metric metric);
/* The same by phase: LAM_FORWARD equals lam_costs_total. Exact 0 where operators were watched and none ran in
 * that phase; LAM_UNKNOWN for the others under a convention that counts calls. */
LAM_API lam_count lam_costs_phase_total(const lam_costs *c, lam_phase phase, lam_metric metric);
/* The numbers of operator `op` alone under the costs' convention; LAM_RANGE out of range. `counted` is false
 * for what a counted operator around it, or the operators inside it, account for. */
LAM_API lam_status lam_costs_op(const lam_costs *c, int32_t op, lam_count out[LAM_N_METRICS], bool *counted,
                                lam_error *e);
/* Operators without a rule, each name once: name and how many ran. NULL past the end. */
LAM_API const char *lam_costs_unruled_op(const lam_costs *c, int32_t i, int32_t *n);

/* Parameters of the whole model, each distinct tensor once (elements, bytes). */
typedef struct lam_param_totals {
    lam_count params, grad_params, nograd_params, param_bytes, buffers, buffer_bytes;
    lam_count packed, packed_bytes;
    lam_count in_rows; /* the sum of the rows' params column: what the convention's own total says */
    lam_count local_params, local_bytes; /* of params and param_bytes: what this process holds */
} lam_param_totals;
LAM_API lam_param_totals lam_costs_params(const lam_costs *c);

/* Layers without a rule, each type once, in order of first call: type name and how many calls. NULL past the
 * end. */
LAM_API const char *lam_costs_unruled(const lam_costs *c, int32_t i, int32_t *n_calls);
/* The full name of that type ("torch.nn.modules.activation.GELU"); NULL past the end. */
LAM_API const char *lam_costs_unruled_path(const lam_costs *c, int32_t i);
/* Why a total is not exact: one sentence each; NULL past the end. */
LAM_API const char *lam_costs_gap(const lam_costs *c, int32_t i);

/* Aggregates to `max_depth` as torchscan 0.1.2 does: a container row at exactly that depth gets the sums of
 * the rows below it and their last (released "0.1.1": first) receptive field; deeper rows are dropped.
 * LAM_USAGE when no row has that depth; the sentence names the deepest. `c` is changed in place. */
LAM_API lam_status lam_costs_aggregate(lam_costs *c, int32_t max_depth, lam_error *e);

/* One number with its formula and the values put in, for `lamina why`. */
enum { LAM_WHY_FACTS = 16 };
typedef struct lam_why {
    lam_metric metric;
    lam_phase phase;
    int32_t op;             /* the operator that it is about; -1: the row */
    const char *formula;    /* NULL: no rule */
    char substituted[512];  /* "1,605,632 x 147", in UTF-8: the values put in, without what has no effect */
    lam_count value;        /* of one operator where it stands for several */
    const char *note;
    const char *words;      /* what the rule's kind of operation does; NULL: no rule */
    int32_t n_equal;        /* how many equal operators it stands for; 1 */
    int32_t n_facts;        /* those whose values stand in `substituted` */
    struct { const char *name; int64_t value; } facts[LAM_WHY_FACTS];
} lam_why;
/* The i-th explanation of row `row`; LAM_RANGE past the last one. First each metric. Where operators are
 * counted that is the sum of those of the row's forward, and the metrics of each of them (32 at most, equal
 * ones as one) follow with its name as the note. The row's backward and its recomputation, where there are
 * any, follow in the same way. */
LAM_API lam_status lam_costs_why(const lam_costs *c, int32_t row, int32_t i, lam_why *out, lam_error *e);
/* The i-th known fact of row `row` (name, value) that its rule's formulas name or that is worth knowing of
 * any call; false past the last one. */
LAM_API bool lam_costs_fact(const lam_costs *c, int32_t row, int32_t i, const char **name, int64_t *value);

/* -- side by side ------------------------------------------------------------------------------------ */

/* One reason for a difference: the same operator (or type of layer) counted in the same other way. */
typedef struct lam_cause {
    const char *text;   /* "leaves out attention in MultiheadAttention" */
    const char *note;   /* what the convention's table says of it; NULL */
    int64_t difference; /* its part of the row's */
    int32_t calls;      /* how often; 0 for what no cause explains */
} lam_cause;
typedef struct lam_compared {
    const char *convention;
    lam_count macs, flops, params; /* of the phase; params as the convention's own total says */
    bool told; int64_t difference; /* from the reference, in what is compared; whether it is known */
    int32_t n_causes; const lam_cause *causes; /* largest first */
    const char *gap;         /* why it is not exact; NULL when it is, or it is not told at all */
    /* Where the tool itself may give another number of this run's forward, and why; NULL: nowhere. */
    const char *limits;
} lam_compared;
typedef struct lam_comparison lam_comparison;
/* LAM_MACS or LAM_FLOPS of the forward or the backward. n 0: the conventions that count operators alone;
 * "all" among the names: every convention that knows that phase. */
typedef struct lam_compare_options { const char *const *conventions; int32_t n; lam_metric metric;
                                     lam_phase phase; } lam_compare_options;
/* What differs from the reference (`exact`, the first row). Who counts calls counts as the tool printed it.
 * LAM_USAGE for what can't be compared, or where no operators were watched. `o` NULL: the forward's MACs. */
LAM_API lam_status lam_compare_new(lam_comparison **out, const lam_model *m, const lam_compare_options *o,
                                   lam_error *e);
LAM_API void lam_compare_free(lam_comparison *c);
LAM_API const lam_compared *lam_compare_row(const lam_comparison *c, int32_t i); /* NULL past the last one */
/* Writes it as "text" (format NULL), "md", "json", "csv" or "html"; `width` in columns, 0: 100; `exact`:
 * numbers in full. Text has the three largest causes a row, and all where the conventions were named. */
LAM_API lam_status lam_compare_write(const lam_comparison *c, const char *format, int32_t width, bool exact,
                                     lam_sink to, lam_error *e);

/* == 7. Receptive field =====================================================================================
 * The receptive field, stride and padding of one call of a layer alone, along one axis (input positions). */
typedef struct lam_rf { double size, stride, padding; lam_state state; } lam_rf;
/* `event` of `m` under `convention`'s table; (1, 1, 0) with LAM_UNKNOWN where it has no rule.
 * Source: torchscan 0.1.2's modules.module_rf for `torchscan`; Araujo et al., "Computing Receptive Fields of
 * Convolutional Neural Networks", Distill 2019, for the others. */
LAM_API lam_status lam_rf_of(const lam_model *m, int32_t event, const char *convention, lam_rf *out,
                             lam_error *e);
/* Replaces the rows' cumulative receptive fields by those of torchscan 0.1.1, which runs backwards from the
 * last row: "relative to the last convolutional layer". */
LAM_API lam_status lam_costs_rf_backwards(lam_costs *c, lam_error *e);

/* Where operators were watched, the rows' fields are found on the graph of the data, for each axis of each
 * tensor that went into the model; the first, mostly the batch, comes last, and only of tensors with two or
 * three axes. A field is the smallest interval that holds every position that an element of the row's first
 * output depends on, with dilation also those between that it does not read; batch normalisation counts as in
 * eval mode.
 * Element o of axis `out_axis` depends on positions from start + o * jump to end + o * jump, all three exact
 * fractions, numerator and denominator. */
typedef enum lam_reach {
    LAM_REACH_NOTHING, /* depends on no position */
    LAM_REACH_WINDOW,  /* as above */
    LAM_REACH_WHOLE,   /* every element depends on the whole axis, or */
    LAM_REACH_PART,    /* on positions start to end of it */
    LAM_REACH_UNKNOWN  /* see `why` */
} lam_reach;
typedef struct lam_rf_axis {
    int32_t input, axis, out_axis; /* out_axis -1: no WINDOW */
    int64_t positions;             /* of the input's axis */
    lam_reach reach;
    int64_t size, narrow;          /* most positions that an element sees; along the path that sees least */
    int64_t jump[2], start[2], end[2];
    bool shown;                    /* one of the axes that the row's columns go by: the largest of them */
    bool paths;                    /* paths that see differently much meet */
    bool at_most;                  /* it may see less */
    lam_state state;               /* LAM_AT_LEAST: something of unseen origin went in */
    const char *why;               /* the operator that leaves it unknown, else NULL */
} lam_rf_axis;
/* The i-th axis that is followed, of row `row`; LAM_RANGE past the last one, or where nothing is known. */
LAM_API lam_status lam_costs_rf_axis(const lam_costs *c, int32_t row, int32_t i, lam_rf_axis *out,
                                     lam_error *e);
/* The positions, of those that there are, that element `element` along out_axis depends on; last < first: on
 * none. LAM_RANGE as above, where the reach is unknown, and where there is no such element. */
LAM_API lam_status lam_costs_rf_seen(const lam_costs *c, int32_t row, int32_t i, int64_t element,
                                     int64_t *first, int64_t *last, lam_error *e);

/* == 8. Reports =============================================================================================
 * A report is costs laid out as rows and columns, written to a sink. */

typedef enum lam_wrap { LAM_WRAP_MID, LAM_WRAP_END, LAM_WRAP_NONE } lam_wrap;
typedef enum lam_number_format { LAM_FMT_RAW, LAM_FMT_CLEVER, LAM_FMT_RATIO } lam_number_format;
/* What a machine reaches at best, a second: floating point operations, bytes read or written; 0 unknown. */
typedef struct lam_peak { double flops, bytes; } lam_peak;
typedef struct lam_report_options {
    const char *layout; /* "lamina" (default), "torchscan-0.1.2", "torchscan-0.1.1", "thoplw" */
    /* "text" (default), "csv", "md", "json", "html"; what ran when: "trace" (Chrome's trace events, which
     * Perfetto reads) or "speedscope" */
    const char *format;
    int32_t width;      /* columns of the terminal; 0: 100 */
    int32_t max_depth;  /* -1: no limit. The lamina layout folds deeper rows into their ancestor */
    bool color, ascii, exact, expand; /* ANSI colours; no UTF-8; full digits; no folding of equal siblings */
    bool receptive_field, effective_rf_stats;
    bool time;  /* how long each row took, where times were asked for */
    lam_peak peak; /* not 0: with `time` how fast it was beside this too, where FLOPs and bytes are counted */
    bool memory; /* what each row allocated and retained, where memory was measured */
    bool bytes; /* elements moved, bytes read and written, arithmetic intensity, where they are counted */
    /* Of the lamina layout. why: every reason, tie and note. by: the column that `%` is the share of: "macs",
     * "flops", "params", "dmas", "bytes", "backward_macs", "backward_flops", "time" or "memory"; NULL: the
     * one of `sort`, else "time" with `time`, else "macs". sort: a list of layers, the largest of this column
     * first; NULL: the tree, or with `rows` > 0, so many of the largest, that of `by`. command: hints name
     * the command's options. next: a target and its inputs, for a last line of other commands; NULL: none */
    bool why, command;
    const char *by, *sort, *next;
    int32_t rows;
    lam_wrap wrap;              /* torchscan layouts */
    lam_number_format numbers;  /* thoplw layout */
    /* thoplw layout: running statistics in the parameter column, as its README shows */
    bool old_params;
    double overhead_mb;         /* torchscan layouts: framework and CUDA overhead of the forward, MiB */
} lam_report_options;
/* Fills `o` with the defaults above. */
LAM_API void lam_report_defaults(lam_report_options *o);
/* Writes costs under the options (NULL: the defaults). json and html are the same for every layout. Every
 * line ends in a newline. LAM_USAGE names the layouts or formats there are; also where max_depth is given to
 * a torchscan layout and lam_costs_aggregate has not been called. */
LAM_API lam_status lam_report_write(const lam_costs *c, const lam_report_options *o, lam_sink to,
                                    lam_error *e);
/* Writes texts as a table, row by row, the titles first: the first column to the left and cut where a line is
 * wider than `width` (0: no limit), the others to the right. LAM_USAGE: too many columns, or none. */
LAM_API lam_status lam_table_write(const char *const *cells, int32_t n_columns, int32_t n_rows, int32_t width,
                                   lam_sink to, lam_error *e);

/* What InspectorGadgets of torch_inspector 0.1.0 wrote of a model: JSON by the names of the tree, with its
 * fields, each from what was measured; null where it was not. docs/torch_inspector.md has them. */
typedef struct lam_gadget_options {
    int32_t max_depth;      /* layers below that are not listed; -1: all are */
    bool forward, backward; /* false: the fields of that phase are null */
} lam_gadget_options;
typedef struct lam_gadgets lam_gadgets;
/* `m` must outlive it. */
LAM_API lam_status lam_gadgets_new(lam_gadgets **out, const lam_model *m, lam_error *e);
LAM_API void lam_gadgets_free(lam_gadgets *g); /* NULL is allowed */
/* `o` NULL: everything. */
LAM_API lam_status lam_gadgets_write(const lam_gadgets *g, const lam_gadget_options *o, lam_sink to,
                                     lam_error *e);

/* One row of torchscan's table, for callers that hold the numbers themselves. Texts are borrowed. */
typedef struct lam_scan_row {
    const char *name, *type;  /* last component of the path; class name */
    const char *output_shape; /* as Python prints it, "(-1, 64, 112, 112)"; "?" where it is unknown */
    int32_t depth;
    lam_count params; /* the "Param #" column: elements of parameters and buffers */
    lam_count metric[LAM_N_METRICS];
    double rf, rf_stride, rf_padding;
    bool rf_is_float; /* print it as Python prints a float, "-11.0": 0.1.1, after a transposed convolution */
    lam_state rf_state;
} lam_scan_row;
typedef struct lam_scan_info {
    int32_t n_rows;
    const lam_scan_row *rows;
    lam_count grad_params, nograd_params, bytes; /* of the whole model; bytes: parameters and buffers */
} lam_scan_info;
/* Writes rows in one of the torchscan layouts: `o` gives layout, wrap, receptive_field, effective_rf_stats
 * and overhead_mb. lam_report_write does the same with the rows of its costs. */
LAM_API lam_status lam_scan_write(const lam_scan_info *info, const lam_report_options *o, lam_sink to,
                                  lam_error *e);

/* One row of thoplw's table, for callers that hold the logs themselves. Texts are borrowed; a shape is text
 * too, "3x224x224", without the batch axis, "?" where it is unknown. */
typedef struct lam_thoplw_row {
    const char *path, *in_shapes, *out_shape, *description;
    lam_count macs, params;
} lam_thoplw_row;
typedef struct lam_thoplw_info {
    int32_t n_rows;
    const lam_thoplw_row *rows;
    const char *type; /* the root's class, in the line of the total */
} lam_thoplw_info;
/* Writes rows and their total in thoplw's layout: `o` gives format ("text", "csv", "md") and numbers.
 * lam_report_write does the same with the rows of its costs. */
LAM_API lam_status lam_thoplw_write(const lam_thoplw_info *info, const lam_report_options *o, lam_sink to,
                                    lam_error *e);

/* == 9. Numbers as text =====================================================================================
 * Each writes at most `size` bytes with the final NUL, like snprintf, and returns the length it wanted. */
LAM_API int lam_text_count(char *buf, size_t size, lam_count c, bool exact); /* "1.81 G", ">= 1.81 G", "?" */
LAM_API int lam_text_digits(char *buf, size_t size, lam_count c);   /* "1814073344", ">= 5", "?" */
LAM_API int lam_text_bytes(char *buf, size_t size, lam_count bytes); /* IEC: "97.7 MiB" */
LAM_API int lam_text_shape(char *buf, size_t size, lam_shape s, const char *separator); /* "1,64,112,112" */
/* torchscan's unit_scale: >=1e12 T, 1e9 G, 1e6 M, 1e3 k, else ""; negative numbers never scale. */
LAM_API double lam_unit_scale(double value, const char **prefix);
/* thoplw's clever_format: divide by 1000 while >= 1000, at most 5 times; units " ", K, M, G, T, P. */
LAM_API double lam_clever_scale(double value, const char **unit);
/* torchscan's wrap_string, over code points: a text longer than max_len is cut and marked with `wrap`, for
 * LAM_WRAP_MID followed by "." and what stands after the last `delimiter`. -1 where the text is too long and
 * the mode unknown or (LAM_WRAP_MID) the delimiter empty; also when memory ran out. */
LAM_API int lam_wrap_string(char *buf, size_t size, const char *text, int64_t max_len, const char *delimiter,
                            const char *wrap, lam_wrap mode);
enum { LAM_SCAN_DEEPEST = 1000000 }; /* no tree that can be walked is deeper */
/* torchscan's format_name: the name behind its branch of the tree: "name", "├─name", "|    └─name". -1 for a
 * depth beyond LAM_SCAN_DEEPEST, and when memory ran out. */
LAM_API int lam_format_name(char *buf, size_t size, const char *name, int32_t depth);
/* torchscan's format_s: padded on the right to min_width and cut to max_width code points; negative: not. */
LAM_API int lam_format_s(char *buf, size_t size, const char *text, int32_t min_width, int32_t max_width);
/* Cell `column` (0 Layer .. 6 Effective padding) of a row as torchscan's format_line_str gives it, padded and
 * cut to `width`; negative: as long as it is. -1 for an unknown column, and as the two above. */
LAM_API int lam_scan_cell(char *buf, size_t size, const lam_scan_row *row, int32_t column, int32_t width,
                          lam_wrap wrap);

/* == 10. The data's graph ===================================================================================
 * Which operator gave what to which, where operators were watched: those that count or move elements, views
 * and what only calls others looked through; what went into each outermost call and came out of it; the
 * parameters and buffers that were read. */

typedef enum lam_node_type { LAM_NODE_INPUT, LAM_NODE_TENSOR, LAM_NODE_OP, LAM_NODE_OUTPUT } lam_node_type;
typedef struct lam_node {
    lam_node_type type;
    int32_t index;    /* of the call's argument or result, the parameter or buffer, the operator */
    int32_t call;     /* innermost call of an operator, outermost one of an input or output; -1 none */
    lam_phase phase;
    const char *name; /* "aten::convolution", "input", "layer1.0.conv1.weight" */
    lam_shape shape;  /* of the tensor, or of an operator's first one */
} lam_node;
typedef struct lam_edge {
    int32_t from, to; /* nodes */
    int32_t arg;      /* entry of the operator's `in`; of an output, which */
    lam_shape shape;  /* of the tensor as it is read */
} lam_edge;

typedef struct lam_graph lam_graph;
/* The graph of model `m`, which must outlive it. LAM_USAGE where no operators were watched, LAM_UNSUPPORTED
 * where no source is known. */
LAM_API lam_status lam_graph_new(lam_graph **out, const lam_model *m, lam_error *e);
LAM_API void lam_graph_free(lam_graph *g); /* NULL is allowed */
LAM_API int32_t lam_graph_n_nodes(const lam_graph *g);
LAM_API int32_t lam_graph_n_edges(const lam_graph *g);
LAM_API const lam_node *lam_graph_node(const lam_graph *g, int32_t i); /* NULL out of range */
LAM_API const lam_edge *lam_graph_edge(const lam_graph *g, int32_t i);
/* What is in vain: the path of the i-th module that was never called, or of which some result reaches no
 * output of the outermost call, with the reason as a sentence; NULL past the last one. */
LAM_API const char *lam_graph_unused(const lam_graph *g, int32_t i, const char **reason);
/* The path of the i-th parameter that a backward pass from the floating-point outputs gives no gradient, and
 * why; NULL past the last one. */
LAM_API const char *lam_graph_no_gradient(const lam_graph *g, int32_t i, const char **reason);
/* As Graphviz' DOT. ops: a node an operator; else a node for what a call did between two calls of others,
 * forward only. */
LAM_API lam_status lam_graph_dot(const lam_graph *g, bool ops, lam_sink to, lam_error *e);

/* == 11. Memory =============================================================================================
 * What torch's allocator for the CPU handed out and took back while a capture was open. Sizes are bytes, as
 * they were asked for. */

/* As what a block is held. The source says what it knows; the last three are told by lam_memory. */
typedef enum lam_held {
    LAM_HELD_OTHER, /* outside every call, and not known as anything */
    LAM_HELD_PARAMETER,
    LAM_HELD_BUFFER,
    LAM_HELD_GRADIENT, /* of a parameter */
    LAM_HELD_OPTIMIZER,
    LAM_HELD_INPUT,      /* of an outermost call */
    LAM_HELD_ACTIVATION, /* made in a forward, and there when its call returns: saved, or a result */
    LAM_HELD_BACKWARD,   /* made in a backward, and no parameter's gradient */
    LAM_HELD_WORKSPACE,  /* made in a forward, and gone when its call returns */
    LAM_N_HELD
} lam_held;
LAM_API const char *lam_held_name(lam_held held); /* "parameters", "gradients", ...; NULL out of range */

typedef enum lam_block_flags {
    LAM_BLOCK_ELSEWHERE = 1 /* of a thread that did nothing for the capture: in no sum but `elsewhere` */
} lam_block_flags;
typedef struct lam_block {
    int64_t bytes;
    /* Among all that was handed out and taken back, from 1. order 0: it was there before the capture;
     * freed_order 0: never. */
    int64_t order, freed_order;
    int64_t t0_ns, t1_ns;     /* monotonic; 0 where there is no such moment */
    int32_t call, freed_call; /* as lam_op_info.call, of who asked for it and of who gave it back */
    int32_t tensor;           /* the parameter or buffer that it is, or whose gradient or state it is; -1 */
    uint8_t phase, freed_phase, held, flags; /* lam_phase, lam_phase, lam_held, lam_block_flags */
} lam_block;
/* After all calls. Of blocks with an order no two have the same. */
LAM_API lam_status lam_build_block(lam_builder *b, const lam_block *block, lam_error *e);
/* A call's forward (or what it did again, LAM_RECOMPUTE), or one node of its backward: what it did has an
 * order greater than `first` and not above `last`. */
typedef struct lam_span {
    int64_t first, last;
    int32_t call;
    uint8_t phase; /* lam_phase */
} lam_span;
LAM_API lam_status lam_build_span(lam_builder *b, const lam_span *span, lam_error *e);
typedef struct lam_memory_info {
    const char *source; /* how it was measured, a sentence's part: "at torch's allocator, 5 entries" */
    /* resident memory of the process when the capture opened, when it was closed, and the most in between; -1
     * unknown */
    int64_t rss_open, rss_close, rss_peak;
    bool forward_only; /* what calls did in other phases is not known, whatever their numbers say */
} lam_memory_info;
/* Says that memory was measured, so that a model without blocks is known to have asked for none. */
LAM_API lam_status lam_build_memory(lam_builder *b, const lam_memory_info *info, lam_error *e);
LAM_API bool lam_model_memory_seen(const lam_model *m);
LAM_API int32_t lam_model_n_blocks(const lam_model *m);
LAM_API const lam_block *lam_model_block(const lam_model *m, int32_t i); /* as pushed */

typedef struct lam_memory lam_memory;
/* What model `m`, which must outlive it, did with memory. LAM_USAGE where that was not measured. */
LAM_API lam_status lam_memory_new(lam_memory **out, const lam_model *m, lam_error *e);
LAM_API void lam_memory_free(lam_memory *y); /* NULL is allowed */

typedef struct lam_memory_totals {
    lam_memory_info info;
    int64_t allocated, freed; /* since the capture opened; the difference is there at its end */
    int64_t before;           /* parameters, buffers, gradients, inputs, ... that were there when it opened */
    int64_t peak;             /* the most that there was at a time, with what was there before */
    int64_t peak_allocated;   /* the same without: as torch's allocator counts from the opening on */
    /* the moment of `peak`, the first of several; ns 0: before anything happened */
    int64_t peak_order, peak_ns;
    int32_t peak_call;           /* who was at work then, -1 nobody; in */
    uint8_t peak_phase;          /* lam_phase */
    int64_t held[LAM_N_HELD];    /* what `peak` is made of; */
    int64_t old_gradients;       /* of it, gradients that were there when the capture opened */
    int64_t elsewhere;           /* handed out meanwhile on threads that did nothing for the capture */
} lam_memory_totals;
LAM_API const lam_memory_totals *lam_memory_total(const lam_memory *y);

/* What a call, or all calls at a place, did in one phase. What they asked for is theirs, whoever frees it. */
typedef struct lam_memory_use {
    int64_t allocated;
    int64_t freed;    /* of it, until the capture closed */
    int64_t retained; /* of it, there when the call returned; of a backward, when the capture closed */
    /* the most that there was above what there was at its beginning; of a backward: a node's */
    int64_t peak;
} lam_memory_use;
/* own: itself, outside the calls that it makes, but for `peak`; total: with them. */
typedef struct lam_memory_row {
    lam_memory_use own[LAM_N_PHASES], total[LAM_N_PHASES];
} lam_memory_row;
LAM_API const lam_memory_row *lam_memory_call(const lam_memory *y, int32_t event);  /* NULL out of range */
/* Sums over the calls, and the greatest peak among them. */
LAM_API const lam_memory_row *lam_memory_place(const lam_memory *y, int32_t place);
/* What it holds when the peak is reached, by lam_held: itself, and with every place below it. A tensor and
 * its gradient are where its first owner is. What no module holds: lam_memory_unplaced. NULL out of range. */
LAM_API const int64_t *lam_memory_held(const lam_memory *y, int32_t place);
LAM_API const int64_t *lam_memory_held_below(const lam_memory *y, int32_t place);
LAM_API const int64_t *lam_memory_unplaced(const lam_memory *y);

typedef struct lam_memory_point { int64_t t_ns, bytes; } lam_memory_point;
/* How much there was, in `points` steps: the greatest value of the i-th, and when; of fewer moments than that
 * each. LAM_RANGE past the last one. */
LAM_API lam_status lam_memory_at(const lam_memory *y, int32_t points, int32_t i, lam_memory_point *out,
                                 lam_error *e);

/* What a device's allocator says of itself at a moment, in bytes; of all threads. */
typedef struct lam_device_bytes {
    int64_t now, peak;        /* peak: the most since the moment before */
    int64_t allocated, freed; /* since it began; they only grow */
    int64_t t_ns;
} lam_device_bytes;
LAM_API lam_status lam_build_device_bytes(lam_builder *b, const lam_device_bytes *said, lam_error *e);
/* A call or a node as lam_build_span tells it; first and last are such moments, from 0, pushed before. */
LAM_API lam_status lam_build_device_use(lam_builder *b, const lam_span *span, lam_error *e);
LAM_API bool lam_model_device_memory_seen(const lam_model *m);
/* As lam_memory_new, of the device: `freed` is what went meanwhile, whoever had asked for it, and `retained`
 * by how much more there was at the end. What it is held as is not known: lam_memory_held is NULL. */
LAM_API lam_status lam_device_memory_new(lam_memory **out, const lam_model *m, lam_error *e);

/* == 12. Values and health ==================================================================================
 * What lies in a tensor's memory. */

/* True for types that have NaN or Inf: floating-point and complex ones. */
LAM_API bool lam_dtype_is_float(int32_t dtype);
/* Memory of the caller's, read and not kept. */
typedef struct lam_values {
    const void *data; /* the first element; NULL only where there are none */
    int32_t dtype;    /* ScalarType number */
    int32_t ndim;
    const int64_t *sizes, *strides; /* in elements; strides may be 0 (an expanded axis); NULL: contiguous */
} lam_values;
typedef struct lam_nonfinite {
    int64_t nan, inf; /* Inf of either sign, and */
    int64_t negative; /* of those the negative ones */
    int64_t first;    /* index of the first element that has any, the last axis counted first; -1: none */
} lam_nonfinite;
/* Counts NaN and Inf (of either sign) in a strided array of any type of torch's, fp8 and complex included; a
 * complex number counts for each part. Memory without any is read once, in the widest vectors of the
 * processor. Types without such values (integers, bool) count 0 and are not read. LAM_RANGE for sizes or
 * strides that can't be; LAM_UNSUPPORTED for a type that is none. */
LAM_API lam_status lam_values_scan(const lam_values *v, lam_nonfinite *out, lam_error *e);
typedef struct lam_stats {
    int64_t numbers, nan, inf, zeros, subnormal; /* a complex number is two */
    double least, greatest, mean; /* of the finite ones; NaN where there are none */
    double headroom; /* how often the largest magnitude can be doubled before it overflows; Inf: all are 0 */
} lam_stats;
/* The same memory read once, for more. LAM_UNSUPPORTED for types that are not floating-point. */
LAM_API lam_status lam_values_stats(const lam_values *v, lam_stats *out, lam_error *e);

/* What a mask leaves of an attention's scores. */
typedef struct lam_mask {
    int64_t open; /* elements that let their score count */
    int64_t rows; /* rows, along the last axis, that have one; a tensor without axes is one row */
} lam_mask;
/* Counts them in a strided array: of bool those that are true; of float64, float32, float16 and bfloat16,
 * which are added to scores, those that are neither -Inf nor the lowest finite number of the type: softmax
 * makes the weights of both 0. Each is read once; an expanded axis is not gone through. LAM_UNSUPPORTED for
 * other types, LAM_RANGE for sizes or strides that can't be. */
LAM_API lam_status lam_values_mask(const lam_values *v, lam_mask *out, lam_error *e);

/* -- what was seen of it -------------------------------------------------------------------------------
 * A source that looks at values pushes what it found not finite, in the order in which it met it; which of it
 * is where something went wrong is lam_health_new's to say. */
typedef enum lam_bad_side {
    LAM_BAD_INPUT,  /* entry `index` of a call's `in`, when it was entered */
    LAM_BAD_OUTPUT, /* entry `index` of a call's `out`, when it was left */
    LAM_BAD_WRITTEN, /* entry `index` of its `in` then, which was fine when it was entered: it wrote to it */
    LAM_BAD_OWNED,  /* `name`, a parameter or buffer of the call's module, when it was left */
    LAM_BAD_OP,     /* result `index` of operator `name` */
    LAM_BAD_NODE,   /* of a backward pass: node `name` was given a gradient that is (`fed`), or gave one */
    LAM_BAD_GRAD_INPUT,  /* the gradient that came to entry `index` of a call's `in`, */
    LAM_BAD_GRAD_OUTPUT, /* of its `out`: from all that used it */
    LAM_BAD_CHECK,  /* nothing of this: a check `name` of the user's said `text` of entry `index` of `out` */
    LAM_BAD_UNSEEN, /* nothing of this: an entry of a call's `out` that could not be looked at */
    LAM_N_BAD_SIDES
} lam_bad_side;
typedef struct lam_bad {
    lam_bad_side side;
    lam_phase phase;
    int32_t call;  /* the innermost open one; of a node the one whose forward made it; -1: outside of all */
    int32_t calls, index; /* calls: how many had been entered by then; index: -1 none */
    bool fed, gave; /* fed: of OP and NODE, what went in was bad; gave: of NODE, what `inside` gave */
    int32_t from;  /* NODE that was `fed`: the call of the node that ran before it, `inside`; -1 none */
    int32_t pass;  /* NODE: as lam_op_info.pass */
    /* Numbers that a source gives, from 1 on, to each OP and NODE that was not `fed`: its own; elsewhere the
     * one's that it comes of. A NODE of which that is not known has its own too. 0: not known. */
    int32_t origin;
    bool gone; /* of OP and NODE: operators took all that came of it, and gave finite values */
    const char *name; /* copied, as all texts; NULL where none is named */
    const char *inside; /* NODE that was not: the operator in it that gave it */
    const char *text;
    lam_nonfinite found;
    int32_t dtype, ndim;  /* of the tensor; -1 unknown */
    const int64_t *sizes; /* copied */
} lam_bad;
typedef struct lam_looked {
    int64_t tensors, bytes;    /* that were looked at */
    int64_t unseen;            /* tensors that could not be: on another device, without memory, sparse */
    bool gradients, operators; /* those of backward passes, and operators' results, were looked at too */
    bool cut;                  /* there was more that is bad than was kept */
} lam_looked;
/* Says that values were looked at. */
LAM_API lam_status lam_build_looked(lam_builder *b, const lam_looked *looked, lam_error *e);
LAM_API lam_status lam_build_bad(lam_builder *b, const lam_bad *bad, lam_error *e);
/* Statistics of entry `out` of a call's results. */
LAM_API lam_status lam_build_stats(lam_builder *b, int32_t call, int32_t out, const lam_stats *s,
                                   lam_error *e);
/* A gradient that came, in a backward pass, to an entry of a call's `in` or `out`. */
typedef struct lam_grad {
    int32_t call, index;
    bool is_input;
    bool seen, bad; /* its values were looked at; some were NaN or Inf */
} lam_grad;
/* Of one entry only once. */
LAM_API lam_status lam_build_grad(lam_builder *b, const lam_grad *grad, lam_error *e);
/* The i-th, by call, inputs before outputs, and by index; NULL past the last one. Where nobody watched
 * (lam_looked.gradients) there are none. */
LAM_API const lam_grad *lam_model_grad(const lam_model *m, int32_t i);
/* Which is the first one of a call or a later one. */
LAM_API int32_t lam_model_first_grad(const lam_model *m, int32_t call);
LAM_API const lam_looked *lam_model_looked(const lam_model *m); /* NULL: nobody looked */
LAM_API int32_t lam_model_n_bad(const lam_model *m);
LAM_API const lam_bad *lam_model_bad(const lam_model *m, int32_t i);
/* The indices of its first one, an axis each; how many there are, -1 where they are not known. */
LAM_API int32_t lam_bad_first(const lam_bad *bad, int64_t at[LAM_MAX_AXES]);
/* "NaN", "Inf", "-Inf": the worst of what is there; NULL: nothing. */
LAM_API const char *lam_bad_kind(const lam_bad *bad);
LAM_API const lam_stats *lam_model_stats(const lam_model *m, int32_t call, int32_t out); /* NULL: none */

/* -- what it means -------------------------------------------------------------------------------------
 * A value is born where what comes out is not finite and all that goes in is. What only hands it on is told
 * apart. -Inf alone is a mask until it goes, as first argument, into a layer that is no softmax, or comes out
 * of the model. Where `origin` is known, that operator is blamed. docs/health.md has the rules. */
typedef enum lam_health_state {
    LAM_HEALTH_UNKNOWN, /* not looked at */
    LAM_HEALTH_FINE,
    LAM_HEALTH_PASSED, /* it was given what is bad */
    LAM_HEALTH_BORN    /* it was not, and gave it */
} lam_health_state;
typedef struct lam_finding {
    lam_phase phase;
    int32_t call, place; /* whose work it is; -1: outside of every layer */
    /* own work of a layer that calls others: the calls before and after it, -1 none; both -1 elsewhere */
    int32_t before, after;
    bool own;          /* of such a layer */
    bool input;        /* it came in with an input of the model */
    bool check;        /* a check of the user's said it */
    bool explained;    /* what was found before it is enough to cause it */
    const char *owned; /* the parameter or buffer that holds it; NULL */
    const char *op;    /* the operator or node that gave it; NULL: not known */
    int32_t bad;       /* lam_model_bad of it */
    int32_t times;     /* how often it was found there */
    int32_t passed;    /* layers without others in them that handed it on later, each once */
    const char *text;  /* a sentence */
} lam_finding;
typedef struct lam_health lam_health;
/* LAM_USAGE where nobody looked. `m` must outlive it. */
LAM_API lam_status lam_health_new(lam_health **out, const lam_model *m, lam_error *e);
LAM_API void lam_health_free(lam_health *h);                                   /* NULL is allowed */
LAM_API const lam_finding *lam_health_finding(const lam_health *h, int32_t i); /* NULL past the last one */
/* What became of a call: its outputs in the forward, gradients in the backward. */
LAM_API lam_health_state lam_health_of(const lam_health *h, int32_t call, lam_phase phase);
/* The worst of its calls. */
LAM_API lam_health_state lam_health_at(const lam_health *h, int32_t place, lam_phase phase);
/* "fine", "passed", "born" or "unknown". */
LAM_API const char *lam_health_name(lam_health_state s);
/* The first finding's sentence, or that there is none in so many tensors. */
LAM_API const char *lam_health_sentence(const lam_health *h);
/* The last `n` calls that were left before the first finding, or before the capture closed, as text. */
LAM_API lam_status lam_health_tail(const lam_health *h, int32_t n, lam_sink to, lam_error *e);

/* == 13. Time ===============================================================================================
 * How long what was watched took, in nanoseconds of a clock that never goes back; -1: not known. Of each
 * thread every moment belongs to one thing: the innermost call that was open or, in a backward pass, the call
 * whose forward made the node that ran. So the parts of a run add up to it. */

typedef struct lam_time {
    /* A call's time by lam_phase. The backward of a call is that of the nodes that its forward made; what is
     * done again is the calls made inside a backward pass. */
    int64_t self[LAM_N_PHASES];  /* without the calls made inside it */
    int64_t total[LAM_N_PHASES]; /* with them */
} lam_time;

/* Every outermost call of the first module that was called begins a run. */
typedef enum lam_time_part {
    LAM_TIME_FORWARD, LAM_TIME_BACKWARD, LAM_TIME_RECOMPUTE, /* what the calls took together */
    LAM_TIME_ENGINE,  /* autograd between its nodes */
    LAM_TIME_OUTSIDE, /* nodes that no call made: the loss, ... */
    LAM_TIME_WHOLE,   /* all of these */
    LAM_N_TIME_PARTS
} lam_time_part;
typedef struct lam_spread { /* of one time over the runs that have it */
    int32_t n;
    int64_t median, deviation; /* the median of the absolute differences from the median */
    int64_t least, most;
    int32_t most_run; /* the run of `most` */
} lam_spread;

/* The times of `m` are from now on those of one run of `timed`, another capture of the same tree: the run
 * whose whole time is the median. `m` takes `timed` over in every case. Before anything is asked of `m`.
 * LAM_USAGE where it is another tree, or no times were asked for. */
LAM_API lam_status lam_model_time_by(lam_model *m, lam_model *timed, lam_error *e);

typedef struct lam_times lam_times;
/* Times of model `m`, or of the one that it is timed by; it must outlive the result. LAM_USAGE where no times
 * were asked for. */
LAM_API lam_status lam_times_new(lam_times **out, const lam_model *m, lam_error *e);
LAM_API void lam_times_free(lam_times *t); /* NULL is allowed */
LAM_API int32_t lam_times_n_runs(const lam_times *t);
/* Of one call of the model that was timed. False out of range. */
LAM_API bool lam_times_event(const lam_times *t, int32_t event, lam_time *out);
/* Of the k-th call that is made at `place` in a run, over the runs, with (total) or without what is called
 * inside. False where there is none, or it is not known. */
LAM_API bool lam_times_place(const lam_times *t, int32_t place, int32_t k, lam_phase phase, bool total,
                             lam_spread *out);
/* Of whole runs, and of one of them. */
LAM_API bool lam_times_part(const lam_times *t, lam_time_part part, lam_spread *out);
LAM_API int64_t lam_times_run(const lam_times *t, int32_t run, lam_time_part part);
/* A run that took much longer than others: more than 5 deviations (scaled to a standard deviation) and 5 %
 * above the median, of at least 5 runs. */
typedef struct lam_outlier {
    int32_t run;
    int64_t whole, median; /* of the run; of all */
    int32_t place;         /* what was late most: -1 autograd's engine, or nodes that no call made */
    int64_t late;          /* by so much more than its own median */
} lam_outlier;
/* The i-th; false past the last one. */
LAM_API bool lam_times_outlier(const lam_times *t, int32_t i, lam_outlier *out);
/* Operators by name and phase, most time of their own first; nodes too. False past the last one. */
typedef struct lam_op_time {
    const char *name;
    lam_phase phase;
    bool node;
    int32_t n;           /* how many ran */
    int64_t self, total; /* without and with the operators inside, in all runs together */
} lam_op_time;
LAM_API bool lam_times_op(const lam_times *t, int32_t i, lam_op_time *out);

/* What a GPU's stream did between two events, one before and one after a call or a node of a backward. */
typedef struct lam_device_span {
    int32_t call;         /* as lam_op_info.call of a node */
    int32_t stream;       /* from 0; -1: not known, as its times then are */
    int64_t t0_ns, t1_ns; /* of the device's own clock, from 1 */
    bool node;
    int32_t pass;    /* of a node: as lam_op_info.pass */
    int64_t host_ns; /* of a node: when it was handed over */
} lam_device_span;
/* After the calls; those of one stream in the order in which they began. */
LAM_API lam_status lam_build_device_span(lam_builder *b, const lam_device_span *span, lam_error *e);
/* Says that a device's clock was read; what has no span, or one without times, is unknown from then on. */
LAM_API lam_status lam_build_device_timed(lam_builder *b, lam_error *e);
LAM_API bool lam_model_device_timed(const lam_model *m); /* also of the one that it is timed by */
/* lam_times_new by the device's clock, waits for the host included; without operators. A call's total is its
 * stream's, and its own time is unknown where calls in it ran on others. LAM_USAGE: no clock was read. */
LAM_API lam_status lam_device_times_new(lam_times **out, const lam_model *m, lam_error *e);
/* As lam_costs_times and lam_costs_time, which follow. */
LAM_API const lam_times *lam_costs_device_times(const lam_costs *c);
LAM_API bool lam_costs_device_time(const lam_costs *c, int32_t row, lam_time *out);

/* The times of a row, in its call. False where times were not asked for, and for rows that are no call. */
LAM_API bool lam_costs_time(const lam_costs *c, int32_t row, lam_time *out);
/* A part of what all rows took together: in all runs, or (lam_model_time_by) in the run whose whole time is
 * the median, of which the rows tell too: so their own times and what no row took add up to the whole. */
LAM_API int64_t lam_costs_time_part(const lam_costs *c, lam_time_part part);
/* The times that rows show; NULL where none were asked for. */
LAM_API const lam_times *lam_costs_times(const lam_costs *c);
typedef enum lam_bound {
    LAM_BOUND_UNKNOWN,
    LAM_BOUND_COMPUTE, /* arithmetic is nearer to its peak than memory */
    LAM_BOUND_MEMORY,
    LAM_BOUND_NEITHER  /* neither reaches a tenth of it */
} lam_bound;
LAM_API const char *lam_bound_name(lam_bound b); /* "unknown", "compute", ... */
typedef struct lam_speed { /* of a row's own work in its own time */
    double flops, bytes;   /* a second; negative where the work is not exactly known */
    double intensity;      /* FLOPs a byte; negative likewise */
    double share;          /* of the peak of what it is bound by; negative: not known */
    lam_bound bound;
    int64_t ns;
} lam_speed;
/* False where the row has no time in that phase (a device's where its clock was read), or no work. peak NULL:
 * nothing is bound. Bytes are counted once an operand, so what comes from a cache counts as memory. */
LAM_API bool lam_costs_speed(const lam_costs *c, int32_t row, lam_phase phase, const lam_peak *peak,
                             lam_speed *out);
/* The peak that rows stand beside: `measured`, or what a row reached where that is more, since a peak that is
 * exceeded was measured too low. What is 0 stays so. */
LAM_API lam_peak lam_costs_peak(const lam_costs *c, lam_peak measured);
/* "12.3 ms", "410 us", "85 ns"; "?" where ns is negative. As section 9. */
LAM_API int lam_text_time(char *buf, size_t size, int64_t ns);

/* == 14. Will it fit ===================================================================================== */

/* Memory that a dry run would have taken, and how long. */
typedef enum lam_taken {
    LAM_TAKEN_TENSOR,
    LAM_TAKEN_SEED,     /* a tensor that a backward pass starts from */
    LAM_TAKEN_WORKSPACE, /* what an operator took beside its results while it ran */
    LAM_TAKEN_ROUGHLY,   /* the same, some per cent less or more */
    LAM_TAKEN_UNKNOWN    /* the same, or more */
} lam_taken;
typedef struct lam_lifetime {
    int64_t bytes;
    /* taken while operator `made` ran, -1: before the first; gone before the one after `freed`, -1: never */
    int32_t made, freed;
    lam_taken what;
} lam_lifetime;
/* In the order in which it was taken, after the operators. LAM_RANGE for one that was not pushed. */
LAM_API lam_status lam_build_lifetime(lam_builder *b, const lam_lifetime *l, lam_error *e);
/* 0 also where nobody noted any. */
LAM_API int32_t lam_model_n_lifetimes(const lam_model *m);
LAM_API const lam_lifetime *lam_model_lifetime(const lam_model *m, int32_t i);

/* What an operator takes on a CPU beside its results (src/vocab/workspace.def). */
typedef struct lam_cpu {
    int32_t threads, lanes; /* lanes: 32-bit numbers in a vector register */
    bool half;              /* it computes in float16 */
} lam_cpu;
LAM_API lam_cpu lam_cpu_here(int32_t threads); /* this machine's */
/* The rule that serves operators called `name`; -1 where there is none: they take nothing that matters. */
LAM_API int32_t lam_workspace_rule(const char *name);
/* True where what the rule says of these arguments is some per cent off on some processors. */
LAM_API bool lam_workspace_rough(int32_t rule, const lam_op_arg *in, int32_t n_in);
/* Bytes, from the arguments and, in elements, the strides of those that are tensors. */
LAM_API int64_t lam_workspace(int32_t rule, const lam_op_arg *in, const int64_t *const *strides, int32_t n_in,
                              lam_cpu cpu);

/* The i-th optimizer that is known, "adamw", the default first, and what it is; NULL past the last one. */
LAM_API const char *lam_optimizer_name(int32_t i, const char **what);

/* What one layer itself holds at the peak. */
typedef struct lam_fit_row {
    int32_t place; /* -1: outside every call */
    int64_t bytes, part[LAM_N_HELD];
} lam_fit_row;
/* The most memory that a CPU's allocator has handed out at one time during a run: from a dry run whose memory
 * was followed, by how long autograd and the model's own code held its tensors. */
typedef struct lam_fit {
    lam_count peak, part[LAM_N_HELD]; /* at the peak; LAM_AT_LEAST: see `gap` */
    int32_t op;                       /* that runs then; -1: none, or the optimizer's step */
    const char *at;                   /* its name, "the optimizer's step", or "before the first operator" */
    const char *optimizer;            /* NULL: no step is made */
    bool backward;                    /* there was a backward pass */
    const char *gap;                  /* why it may be more; NULL */
    const char *rough;                /* why it may be some per cent less or more; NULL */
    /* Of layers with causal attention: how many, and what they would keep of a token to go on from it. */
    int32_t cached_layers;
    int64_t cache_bytes;
    /* The same of layers that attend to themselves through a mask of the model's own, which may be causal. */
    int32_t masked_layers;
    int64_t masked_bytes;
    int32_t n_rows;
    const lam_fit_row *rows; /* most first */
} lam_fit;
/* `optimizer` NULL: none. LAM_USAGE where memory was not followed, or there is no such optimizer. */
LAM_API lam_status lam_fit_new(lam_fit **out, const lam_model *m, const char *optimizer, lam_error *e);
LAM_API void lam_fit_free(lam_fit *f); /* NULL is allowed */
/* Writes a forward pass, a training step, or both (NULL: not that one), of `m`, the model of either, as
 * "text" (format NULL) or "json". `measured`: what an allocator counted instead, -1 unknown. */
LAM_API lam_status lam_fit_write(const lam_fit *forward, const lam_fit *step, const lam_model *m,
                                 const int64_t measured[2], const char *format, bool exact, lam_sink to,
                                 lam_error *e);

#ifdef __cplusplus
}
#endif

#include "lamina_command.h"
#include "lamina_recording.h"

#endif
