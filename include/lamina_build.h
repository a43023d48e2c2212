/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a model, a part of lamina.h.
 * A source pushes what it observed and decides nothing. */
#ifndef LAMINA_BUILD_H
#define LAMINA_BUILD_H

#include "lamina_words.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == The model =========================================================================================
 * Indices count from 0, in the order of pushing.
 * Functions of this header return LAM_RANGE for an index that was not pushed. */

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
    LAM_MODULE_ELSEWHERE = 32,  /* lam_build_called_elsewhere() */
    LAM_MODULE_INSIDE = 64      /* by lam_builder_finish(): in a module that hides the calls in it */
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
    int64_t bytes;        /* of the memory in which it is stored; -1: compute it from dtype and sizes */
    bool requires_grad;
    uint64_t storage, object; /* as in lam_op_arg */
    int64_t storage_bytes;    /* of all that `storage` names, of which the tensor may be a part; 0: unknown */
} lam_tensor_info;
LAM_API lam_status lam_build_tensor(lam_builder *b, const lam_tensor_info *info, int32_t *index,
                                    lam_error *e);
/* Notes that `elements` of a tensor that is sharded over several processes are in other processes. */
LAM_API lam_status lam_build_elsewhere(lam_builder *b, int32_t tensor, int64_t elements, lam_error *e);
/* Notes that a tensor's memory lies in other tensors, which operators may read in its place. `bytes` replaces
 * its bytes, and `local_bytes` is the part of them in this process; -1: unknown. Call it after
 * lam_build_elsewhere. */
LAM_API lam_status lam_build_wraps(lam_builder *b, int32_t tensor, int64_t bytes, int64_t local_bytes,
                                   lam_error *e);
/* Notes another tensor that operators read as if it were `tensor`, such as one that was gathered from shards;
 * `storage` and `object` as in lam_op_arg. */
LAM_API lam_status lam_build_alias(lam_builder *b, int32_t tensor, uint64_t storage, uint64_t object,
                                   lam_error *e);
/* Marks a tensor as the packed weight of a quantised layer: a parameter that is no tensor of torch's,
 * described by its unpacked shape and type. Its owner owns it as a buffer. */
LAM_API lam_status lam_build_packed(lam_builder *b, int32_t tensor, lam_error *e);
/* Notes whether the tensor received a gradient (`came`) in a backward pass from all floating-point
 * outputs. */
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
    LAM_CALL_UNSEEN = 4,   /* its outputs are unknown (None, a string, ...) */
    LAM_CALL_AGAIN = 8,    /* it repeats forward work inside a backward pass; it may raise to end early */
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
    int32_t thread; /* as in lam_op_info; another than 0 only if autograd's thread repeats forward work */
    int32_t regions; /* pieces of compiled code that began in it, without those in the calls inside it */
} lam_call_info;
/* Pushes one call, in the order in which calls began. The builder finds the call's place: the child place of
 * the parent's place that holds this module, else the module's first place under the nearest common
 * ancestor. */
LAM_API lam_status lam_build_call(lam_builder *b, const lam_call_info *info, int32_t *index, lam_error *e);

/* -- operators -----------------------------------------------------------------------------------------
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
    bool masks;       /* a mask, or ends of groups, whose values were read before the operator ran */
    int32_t dtype;    /* of a tensor: ScalarType number, -1 unknown */
    int32_t device;   /* c10 device type number, -1 unknown */
    int32_t ndim;     /* -1: shape unknown */
    int32_t shares;   /* output only, of a result: the last entry of `in` with the same memory, -1 none */
    int32_t before;   /* output only, of an argument: the tensors before it in `in` */
    lam_value value;  /* a scalar or a list of integers; LAM_NONE for None. Not for tensors */
    const int64_t *sizes; /* copied */
    /* Input only: identities (addresses) of a tensor's memory, which its views share, and of the tensor
     * itself; 0 unknown. The model returns 0. */
    uint64_t storage, object;
    /* A sparse tensor: stored elements, stored elements and indices together, and the bytes of both; -1
     * unknown. A mask, or the ends of groups: what lam_values_mask or lam_values_ends found; the builder
     * returns LAM_RANGE for more than a tensor of this shape can have. No tensor is both. */
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
    /* a node of the autograd graph ("AddmmBackward0"), or an operator that other operators inside it replace,
     * as on the tensors of a transform (vmap) or by autocast: it counts nothing itself */
    LAM_OP_NODE = 2,
    LAM_OP_HIDES = 4, /* it has unobserved work: compiled code, or an operator that torch does not record */
    LAM_OP_GRAD = 8, /* its results require a gradient; not set on operators inside one with this flag */
    LAM_OP_WHOLE = 16, /* its rule counts it, although operators of this name usually only call others */
    /* Values decide which operators run in its place, and there were no values, as in a dry run: it and the
     * operators in it count nothing. Sums are lower bounds, except sums of dense work: none of them does
     * any. */
    LAM_OP_VALUES = 32,
    /* It runs inside the operator around it and is no part of that one's work: a hook for saved tensors, a
     * tangent of forward-mode AD, a copy that autograd saves. It counts by itself. */
    LAM_OP_BESIDE = 64,
    LAM_OP_DERIVED = 128 /* a tangent was computed inside it that was not observed: sums are lower bounds */
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
     * builder searches for one. `in` and `out` may be left out if `tensors` is set: the identities of the
     * n_tensors tensors, arguments first. */
    int32_t like, n_tensors;
    const lam_identity *tensors;
    int32_t thread; /* 0: the capture's own; others from 1 */
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
/* Notes that a backward pass raised: what ran of it is a lower bound. A node with LAM_OP_FAILED says the
 * same, and names the layer. */
LAM_API lam_status lam_build_backward_raised(lam_builder *b, lam_error *e);

/* Notes that nothing of the model ran: the source, such as a file of weights, describes its modules and
 * tensors alone. Every place has a row; what its call would cost, and which parameters are trainable, is
 * unknown. `why` is a sentence for the report. */
LAM_API lam_status lam_build_described(lam_builder *b, const char *why, lam_error *e);

/* Notes that the source, such as a file for inference, does not say which parameters are trainable: their
 * number is then unknown, and requires_grad of lam_tensor_info is ignored. */
LAM_API lam_status lam_build_trainable_unknown(lam_builder *b, lam_error *e);

/* Notes that the model is incomplete: memory ran out, or a limit was reached. `why` is a sentence for the
 * report; numbers that may lack a part become "at least". Operators that started after `from_ns` are missing
 * (INT64_MAX: any operator of a backward pass may be); `calls`: any call may be missing too. The builder may
 * exceed its memory limit by a quarter, so that the model can be finished. */
LAM_API lam_status lam_build_cut(lam_builder *b, const char *why, bool calls, int64_t from_ns, lam_error *e);

/* Adds a note that the report shows ("shim not available", ...); at most 64 are kept. */
LAM_API lam_status lam_build_note(lam_builder *b, const char *text, lam_error *e);

/* Notes how the next input of the root's first call was generated: "rand", "zeros", ... In the order of the
 * inputs; not called for tensors that the user gave. */
LAM_API lam_status lam_build_input_origin(lam_builder *b, const char *text, lam_error *e);

/* Notes one fact about how, where and when the run was made, for the report: "torch", "2.13.0". The text of
 * an earlier fact with the same name is replaced. A source leaves out unknown facts. docs/json.md lists the
 * names that lamina uses; others are allowed. LAM_USAGE: a name has other characters than a to z, 0 to 9 and
 * _. LAM_LIMIT: there are more than 64 facts. */
LAM_API lam_status lam_build_provenance(lam_builder *b, const char *name, const char *text, lam_error *e);

/* Freezes the model. The caller frees `*out` with lam_model_free; `b` is always freed, also on failure. */
LAM_API lam_status lam_builder_finish(lam_builder *b, lam_model **out, lam_error *e);
/* A tensor that a forward left for the next one, as keys or values: its layer, its bytes, and those after a
 * step of one token more a sequence. `shared`: all sequences of the batch share it. */
typedef struct lam_kept {
    int32_t layer;
    int64_t before, after;
    bool shared;
} lam_kept;
/* Adds all that a forward of `batch` sequences left. `why`: how it grows is not known; NULL: it is. */
LAM_API lam_status lam_model_keep(lam_model *m, const lam_kept *kept, int32_t n, int64_t batch,
                                  const char *why, lam_error *e);
/* Adds a note that is known only after the model was built, such as what could not be restored. */
LAM_API lam_status lam_model_add_note(lam_model *m, const char *text, lam_error *e);
LAM_API void lam_model_free(lam_model *m); /* NULL is allowed */

/* == Memory ============================================================================================ */

/* The use of a block of memory. The source sets it where it knows it; lam_memory derives the last three. */
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
    int32_t tensor;           /* the parameter or buffer whose data, gradient or state is in it; -1: none */
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

/* Statistics of a device's allocator at one moment, in bytes, of all threads. */
typedef struct lam_device_bytes {
    int64_t now, peak;        /* peak: the maximum since the previous moment */
    int64_t allocated, freed; /* since the process started; they only grow */
    int64_t t_ns;
} lam_device_bytes;
LAM_API lam_status lam_build_device_bytes(lam_builder *b, const lam_device_bytes *said, lam_error *e);
/* Pushes a call or a node, as lam_build_span. `first` and `last` are indices of moments that were pushed by
 * lam_build_device_bytes before. */
LAM_API lam_status lam_build_device_use(lam_builder *b, const lam_span *span, lam_error *e);

/* == Values ============================================================================================ */


/* -- observations --------------------------------------------------------------------------------------
 * A source that checks values pushes the non-finite ones in the order in which it found them. lam_health_new
 * determines where they first occurred. */
typedef enum lam_bad_side {
    LAM_BAD_INPUT,  /* entry `index` of a call's `in`, when the call began */
    LAM_BAD_OUTPUT, /* entry `index` of a call's `out`, when the call ended */
    LAM_BAD_WRITTEN, /* entry `index` of a call's `in`, finite when it began and not when it ended */
    /* `name`, a parameter or buffer of the call's module, when the call ended; of a model that is only
     * described one of the module at `place` */
    LAM_BAD_OWNED,
    LAM_BAD_OP,     /* result `index` of operator `name` */
    LAM_BAD_NODE,   /* node `name` of a backward pass received (`fed`) or returned a non-finite gradient */
    LAM_BAD_GRAD_INPUT,  /* the gradient of entry `index` of a call's `in` */
    LAM_BAD_GRAD_OUTPUT, /* the gradient of entry `index` of a call's `out`, from all its uses */
    /* These two are no values: */
    LAM_BAD_CHECK,  /* the user's check `name` returned `text` for entry `index` of a call's `out` */
    LAM_BAD_UNSEEN, /* entry `index` of a call's `out`, or `name` as above, could not be checked */
    LAM_N_BAD_SIDES
} lam_bad_side;
typedef struct lam_bad {
    lam_bad_side side;
    lam_phase phase;
    int32_t call;  /* the innermost open call; of a node the call whose forward made it; -1: outside all */
    int32_t place; /* of a model that is only described, whose `call` is -1 */
    int32_t calls, index; /* calls: the number of calls that had begun; index: -1 none */
    bool fed, gave; /* fed: the input of the OP or NODE was bad; gave: of a NODE, `inside` returned it */
    int32_t from;  /* NODE that was `fed`: the call of the node that ran before it, `inside`; -1 none */
    int32_t pass;  /* NODE: as lam_op_info.pass */
    /* The source numbers each OP and NODE that was not `fed`, from 1: this number is its origin. Other
     * entries have the origin of the entry that they come from; a NODE whose entry is unknown is numbered
     * itself. 0: unknown. */
    int32_t origin;
    bool gone; /* OP and NODE: operators used all its results and returned finite values */
    bool doubt; /* OP and a call's values: an argument could not be checked, and none was found to be bad */
    const char *name; /* copied, as all texts; NULL: none */
    const char *inside; /* NODE that was not `fed`: the operator in it that returned the value */
    const char *text;
    lam_nonfinite found;
    int32_t dtype, ndim;  /* of the tensor; -1 unknown */
    const int64_t *sizes; /* copied */
} lam_bad;
typedef struct lam_checked {
    int64_t tensors, bytes;    /* the tensors that were checked, and their bytes */
    int64_t unseen;            /* tensors that could not be checked: on another device, no memory, sparse */
    bool gradients, operators; /* gradients, and results of operators, were checked too */
    bool cut;                  /* some non-finite values were not kept */
} lam_checked;
/* Notes that values were checked. */
LAM_API lam_status lam_build_checked(lam_builder *b, const lam_checked *looked, lam_error *e);
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

/* == A device's times ================================================================================== */

/* The time of a GPU's stream between two events, before and after a call or a node of a backward. */
typedef struct lam_device_span {
    int32_t call;         /* as lam_op_info.call of a node */
    int32_t stream;       /* from 0; -1: unknown, and so are the times */
    int64_t t0_ns, t1_ns; /* of the device's clock, from 1 */
    bool node;       /* of a node, not of a call */
    int32_t pass;    /* of a node: as lam_op_info.pass */
    int64_t host_ns; /* of a node: when the host launched it */
} lam_device_span;
/* Pushes a span, after the calls; those of one stream in the order in which they began. */
LAM_API lam_status lam_build_device_span(lam_builder *b, const lam_device_span *span, lam_error *e);
/* Notes that a device's clock was read: without a span, or with one without times, a time is unknown. */
LAM_API lam_status lam_build_device_timed(lam_builder *b, lam_error *e);

/* == Lifetimes of memory =============================================================================== */

/* Memory that a real run would take, from a dry run, and its lifetime. */
typedef enum lam_taken {
    LAM_TAKEN_TENSOR,
    LAM_TAKEN_SEED,     /* a tensor that a backward pass starts from */
    LAM_TAKEN_WORKSPACE, /* memory of an operator beside its results, while it runs */
    LAM_TAKEN_ROUGHLY,   /* a workspace whose size is some per cent less or more */
    LAM_TAKEN_UNKNOWN,   /* a workspace that may be larger */
    LAM_TAKEN_STATE,     /* kept by an optimizer between steps */
    LAM_TAKEN_GRADIENT   /* memory for gradients that is kept between steps */
} lam_taken;
typedef struct lam_lifetime {
    int64_t bytes;
    /* allocated in operator `made` (-1: before the first), freed before the one after `freed` (-1: never) */
    int32_t made, freed;
    lam_taken what;
    int32_t tensor; /* LAM_TAKEN_STATE: the parameter that it is kept for; -1: several, or unknown */
} lam_lifetime;
/* Pushes a lifetime, in the order of allocation, after the operators. LAM_RANGE for an operator that was not
 * pushed. */
LAM_API lam_status lam_build_lifetime(lam_builder *b, const lam_lifetime *l, lam_error *e);
/* Notes why more memory may be taken than the lifetimes tell. */
LAM_API lam_status lam_build_more(lam_builder *b, const char *why, lam_error *e);
/* Notes that the operators from `op` on are the step of the optimizer `name`. `decided`: made-up values may
 * decide which ones these are. */
LAM_API lam_status lam_build_step(lam_builder *b, const char *name, int32_t op, bool decided, lam_error *e);

#ifdef __cplusplus
}
#endif
#endif
