/* SPDX-License-Identifier: Apache-2.0
 * observe: every operator that runs while a capture is open, through torch's own at::RecordFunction, which
 * the profiler uses too. torch offers no C interface for it. Its C++ functions are exported, and the places
 * of the few fields that are read were found, never guessed: see probe.c. */
#ifndef LMX_OBSERVE_H
#define LMX_OBSERVE_H

#include "torch/layout.h"
#include "base/base.h"
#include "observe/capture.h"
#include "torch/tensor.h"

#include <stdatomic.h>
#include <string.h>

enum { LMX_IVALUE = 16, LMX_IVALUE_TAG = 8 }; /* bytes of an IValue; where its tag lies. Verified */

/* An array of IValues as torch passes it. */
typedef struct lmx_values {
    const char *at;
    size_t n;
} lmx_values;

/* torch's exported functions, in this process. */
typedef struct lmx_record_api {
    bool loaded;
    void (*add)(void); /* of another type: lmx_add_callback knows it, as it does the one for all threads, */
    void (*add_for_all)(void); /* which is NULL where it is not exported */
    void (*remove)(uint64_t handle);
    const char *(*name)(const void *record);
    uint64_t (*thread)(void);
    /* NULL where it is not exported, as are those that follow. */
    size_t (*n_inputs)(const void *record); /* by the schema; 0 where there is none */
    size_t (*n_outputs)(const void *record);
    bool (*grad_enabled)(void);
    uint64_t (*sequence)(void); /* the number that the next node of this thread gets */
    int (*task)(void);          /* the number of the backward pass that this thread is at; -1 none */
    /* Transforms (vmap, grad): the open ones as a vector, and whether a tensor is what one made. */
    const void *(*transforms)(void);
    const void *const *(*transforming)(void); /* the thread's pointer to what holds that vector */
    bool (*is_batched)(const void *tensor, int64_t level);
    const void *(*wrapper)(const void *tensor);
    int64_t (*modes)(void); /* how many modes in Python this thread's operators are handed to first, */
    bool (*own_modes)(bool); /* and (true) whether any is no part of torch itself, as fake tensors' is */
    bool (*excluded)(uint16_t key); /* whether this dispatch key is left out now */
    int (*unwinding)(void); /* exceptions in flight */
    void *(*kept)(void);    /* what torch keeps of this thread's callbacks */
    const void *undefined;  /* the C++ object behind every undefined tensor */
    lmx_shim shim;
} lmx_record_api;

/* What a start or an end calls back. */
typedef struct lmx_callback {
    void *(*start)(void **context, const void *record);
    void (*end)(const void *record, void *context);
    bool nodes;   /* of the autograd graph, instead of operators */
    bool values;  /* inputs and outputs are wanted, or */
    bool results; /* outputs alone */
    bool all;     /* of all threads, and not of this one and those that work for it */
} lmx_callback;

/* The callbacks that torch calls for a thread's next operator: a vector that begins with room of its own. */
typedef struct lmx_pair {
    void *(*start)(void **context, const void *record);
    void (*end)(const void *record, void *context);
} lmx_pair;
typedef struct lmx_active {
    const lmx_pair *at;
    uint32_t n, room;
} lmx_active;
/* Of one that is known to be such a vector; it has moved away where it once held many. */
static inline bool lmx_is_only(const lmx_active *a, const lmx_callback *c) {
    return a->at && a->room && a->at->start == c->start && a->at->end == c->end;
}
static inline bool lmx_is_active(const lmx_active *a, const lmx_callback *c) {
    return (const void *)a->at == a + 1 && lmx_is_only(a, c);
}

const lmx_record_api *lmx_record_api_of(lmx_state *st); /* NULL: this platform or this torch has none */
/* The handle is for api->remove. */
uint64_t lmx_add_callback(const lmx_record_api *api, const lmx_callback *c);

static inline int32_t lmx_tag_of(const char *value) {
    uint32_t tag;
    memcpy(&tag, value + LMX_IVALUE_TAG, sizeof tag);
    return (int32_t)tag;
}

enum { LMX_MAX_LIST = 4096 }; /* arguments, or entries of a list, that are looked at */

/* Read from the record under `l`. */
lmx_values lmx_inputs_of(const lmx_layout *l, const void *record);
lmx_values lmx_outputs_of(const lmx_layout *l, const void *record);
lmx_values lmx_list_of(const lmx_layout *l, const char *value);

/* An operator that is called through the stack of an interpreter (TorchScript's, a transform's) is shown all
 * that lies there: its own are the last. */
static inline lmx_values lmx_last_of(lmx_values all, size_t n) {
    if (!n || n >= all.n) return all;
    return (lmx_values){all.at + (all.n - n) * LMX_IVALUE, n};
}
static inline lmx_values lmx_own_inputs(const lmx_record_api *api, const lmx_layout *l, const void *record) {
    return lmx_last_of(lmx_inputs_of(l, record), api->n_inputs ? api->n_inputs(record) : 0);
}
static inline lmx_values lmx_own_outputs(const lmx_record_api *api, const lmx_layout *l, const void *record) {
    return lmx_last_of(lmx_outputs_of(l, record), api->n_outputs ? api->n_outputs(record) : 0);
}

/* == what was recorded ================================================================================= */

/* Arguments or results as an operator had them: what most have in common with one that ran before, and what
 * identifies the tensors among them. */
typedef struct lmx_args {
    int32_t part;    /* of the lane's parts; -1 none */
    uint32_t ids_at; /* in the lane's ids */
} lmx_args;

typedef struct lmx_op {
    int32_t name, call, parent; /* name: offset of its text in the lane's names */
    uint8_t phase, flags;
    uint16_t pass; /* of a node: lam_op_info.pass, as far as it goes */
    lmx_args in, out;
    int64_t began, ended; /* stamps of the capture's clock; 0 none */
} lmx_op;

typedef enum lmx_arg_kind {
    LMX_ARG_TENSOR,
    LMX_ARG_NONE,
    LMX_ARG_BOOL,
    LMX_ARG_INT,
    LMX_ARG_REAL,
    LMX_ARG_INTS,
    LMX_ARG_TEXT,  /* its words hold it, with its end */
    LMX_ARG_SPARSE, /* a tensor: its words begin with those of a lmx_sparse */
    LMX_ARG_MASK    /* a tensor: its words begin with those of a lam_mask */
} lmx_arg_kind;

/* One argument in a word; `n` words with sizes or values follow it. */
typedef struct lmx_packed {
    uint16_t position;
    uint8_t kind, n; /* n: 255 for a tensor without a known shape */
    int16_t dtype, device;
} lmx_packed;
enum { LMX_NO_SHAPE = 255 };

/* Packed arguments that were met once or more. */
typedef struct lmx_part {
    uint32_t at, n_words, hash; /* in the lane's words */
    int32_t n;
} lmx_part;

/* Of one tensor its memory and itself: two addresses of 45 bits, for they are multiples of 8. */
typedef struct lmx_id {
    uint32_t low[2], high;
} lmx_id;

/* How many arguments and results an operator's schema has; -1 unknown. */
typedef struct lmx_arity {
    int32_t in, out;
} lmx_arity;

/* What one thread did for a capture. Nobody else writes to it, and all but the origins is read once the
 * thread is done. */
typedef struct lmx_lane {
    struct lmx_lane *next;
    const lmx_record_api *api;
    uint64_t thread; /* torch's own number of it */
    lmx_clock *clock; /* the capture's */
    int64_t *last;    /* of lmx_clock_stamp: where it is kept for the thread, */
    int64_t own_last; /* which is here where the capture is another thread's */
    bool inside;     /* a callback is running: what it calls in torch is not the model's */
    bool lost;       /* memory ran out */
    bool classed;    /* the class of a tensor that was packed answers for operators; for who packs */
    bool reads;      /* values may be read: tensors have them, and torch's functions tell where */
    bool full;       /* there are more operators than a lane may hold: */
    uint64_t most;   /* bytes */
    bool told;       /* what was recorded was pushed, and given back */
    lmx_vec ops;     /* lmx_op */
    lmx_vec words;   /* int64_t: what the parts are made of, and what is being packed */
    lmx_vec parts;   /* lmx_part */
    lmx_vec ids;     /* lmx_id */
    size_t packed;   /* words that belong to parts; those after them are being packed, */
    size_t ids_packed;
    int32_t n_packed; /* so many arguments */
    int32_t *by_part; /* hash table of 1 + index of parts, 0 empty */
    size_t part_mask;
    lmx_vec names;            /* char: texts with their ends, each behind what is known of it */
    lmx_vec frames;           /* of observe.c: what is open */
    lmx_vec origins;          /* from sequence numbers to calls: what other threads read, where */
    atomic_bool origins_held; /* nobody changes them, and nobody reads them but their thread */
    int32_t last_call;        /* of the last node with a number, -1 */
    int32_t *by_text;         /* hash table of offsets of names, -1 empty */
    size_t n_names, mask;
    struct {
        const char *at;
        int32_t name;
        lmx_arity arity;
    } seen[512]; /* names that were met at this address */
    /* Of the thread, asked once. NULL: unknown. What holds torch's levels of transforms, and where in it they
     * are (bytes; 0: not found yet); the callbacks torch runs. */
    const void *const *holder;
    size_t vector_at;
    char *kept;
} lmx_lane;

lmx_lane *lmx_lane_new(void); /* an empty one of no thread; NULL when memory ran out */
void lmx_lane_free(lmx_lane *lane);
/* Its stamps are of this clock, whose own thread's they are or not. */
void lmx_lane_clock(lmx_lane *lane, lmx_clock *clock, bool own);
/* Of its thread's transforms, which is the one that asks; whether any is open in what holds them. */
void lmx_lane_find_holder(lmx_lane *lane);
bool lmx_lane_transforms(lmx_lane *lane, const void *held);
/* The thread, which asks, is in vmap or one of its like. */
static inline bool lmx_lane_transforming(lmx_lane *lane) {
    const void *held = lane->holder ? *lane->holder : NULL;
    return held && lmx_lane_transforms(lane, held);
}
/* The offset of a name among the lane's; -1 when memory ran out. */
int32_t lmx_lane_name(lmx_lane *lane, const char *text);
/* Whether the operator of this name stands for all that runs inside it. */
bool lmx_lane_closes(lmx_lane *lane, int32_t name);
/* The position of its argument that masks scores, as lam_word_op_mask. */
int32_t lmx_lane_masked(lmx_lane *lane, int32_t name);
/* How many arguments and results the operator of this name, the last that was asked for, had when it last
 * ran; -1 unknown. */
lmx_arity *lmx_lane_arity(lmx_lane *lane, const char *text);
/* A new operator; NULL when memory ran out or the lane is full, which `lost` and `full` tell. `kept`: the
 * name is likely to be at that address when it is met again. */
lmx_op *lmx_lane_op(lmx_lane *lane, const char *name, bool kept);
/* What was packed since this was last called, as one. */
lmx_args lmx_lane_take(lmx_lane *lane);
static inline uint64_t lmx_id_memory(const lmx_id *id) {
    return ((uint64_t)(id->high & 0xFFFF) << 32 | id->low[0]) << 3;
}
static inline uint64_t lmx_id_object(const lmx_id *id) {
    return ((uint64_t)(id->high >> 16) << 32 | id->low[1]) << 3;
}
/* Packs values; returns how many were. What the tensor at position `mask` leaves of scores is told too, where
 * it can be read; -1: no value is read. Memory that runs out is told by `lost`. */
int32_t lmx_lane_pack(lmx_lane *lane, const lmx_layout *l, lmx_values values, int32_t mask);

/* One value that was read elsewhere; how many were packed, 0 or 1. */
int32_t lmx_lane_tensor(lmx_lane *lane, int32_t position, const lmx_tensor *t);
int32_t lmx_lane_sparse(lmx_lane *lane, int32_t position, const lmx_tensor *t, const lmx_sparse *kept);
int32_t lmx_lane_mask(lmx_lane *lane, int32_t position, const lmx_tensor *t, const lam_mask *left);
/* Long texts are left out. */
int32_t lmx_lane_text(lmx_lane *lane, int32_t position, const char *text, size_t n);
int32_t lmx_lane_value(lmx_lane *lane, int32_t position, lmx_arg_kind kind, const int64_t *words, int32_t n);
/* From this sequence number on, autograd's nodes were made by `call`; and whose one was, -1: nobody's. The
 * second may be asked by any thread. */
void lmx_lane_note_origin(lmx_lane *lane, int64_t sequence, int32_t call);
int32_t lmx_lane_origin(lmx_lane *lane, int64_t sequence);

struct lmx_observer {
    lmx_capture *capture; /* not owned: it owns this */
    const lmx_layout *layout;
    _Atomic(lmx_lane *) lanes; /* newest first */
    uint64_t generation;       /* never the same for two observers */
    uint64_t thread;           /* torch's number of the capture's own thread */
    int slot;
    bool everywhere;     /* what other threads do is asked for: */
    atomic_bool strange; /* one that is not watched went backward through what a call made */
    bool nodes_only;
    bool tells_ops;          /* somebody listens to operators */
    const lmx_callback *own; /* of operators; NULL where all that runs inside one is to be seen */
};

/* An operator is about to run by a way that torch keeps no record of: what it does is not seen. */
void lmx_observe_unseen(const char *name);

/* == who does an operator's work (answered.c) ========================================================== */

/* An operator on what vmap and its like made of tensors runs operators on the tensors themselves, whose
 * shapes are the real ones. */
bool lmx_runs_others(const lmx_observer *o, lmx_lane *lane, const void *record);
/* Of the operator whose arguments were packed last: the class of one of them answers for it. */
bool lmx_is_classed(const lmx_observer *o, const lmx_lane *lane, const void *record);
/* The object of its first argument, or of the first in that list; 0: that is no tensor. */
uint64_t lmx_first_tensor(const lmx_record_api *api, const lmx_layout *l, const void *record);
/* Modes in Python that are asked before what lamina itself has there, which is a dry run's. */
bool lmx_has_modes(const lmx_observer *o, const lmx_record_api *api);
/* There are more than so many, and none is anybody's but torch's own. */
bool lmx_has_torchs_modes(const lmx_record_api *api, int64_t more_than);
/* Where that has no record: whether what answers in Python is about to be asked. */
bool lmx_asks_python(const lmx_observer *o, const lmx_record_api *api, bool classed);
/* What torch itself notes around the answer of a mode or of a tensor's class (which?); and whether what that
 * runs is the work, and counts instead of the operator. */
bool lmx_is_passage(const char *name);
bool lmx_is_of_class(const char *passage);
bool lmx_passes_to_others(const lmx_observer *o, const lmx_record_api *api, const char *passage);

/* The name of an operator, without the overload: "aten::convolution". */
static inline const char *lmx_op_name(const lmx_lane *lane, const lmx_op *op) {
    return (const char *)lane->names.data + op->name;
}

/* == operators (observe.c, operators.c, probe.c; see observe.h) ======================================== */

/* Watches the operators of this thread, or the nodes of its backward passes alone, and of the threads that
 * run a backward pass for it, until the stop. False with an exception. */
bool lmx_observe(lmx_capture *c);
/* The reverse; allowed at any time, from any thread. What was recorded stays. */
void lmx_unobserve(lmx_capture *c);
/* To be told when the capture's open call has changed: nodes that autograd makes from now on are its.
 * True inside a backward pass. */
bool lmx_observe_call(lmx_capture *c);
void lmx_observer_free(lmx_observer *o); /* NULL is allowed */
/* True when operators could not be noted any more; those up to `since_ns` were. */
bool lmx_observer_lost(const lmx_observer *o, int64_t *since_ns);
/* True when they were pushed, and so can't be again. */
bool lmx_observer_told(const lmx_observer *o);
/* A backward pass through what the model made ran on a thread that is not watched. */
bool lmx_observer_strange(const lmx_observer *o);
bool lmx_observer_full(const lmx_observer *o);
size_t lmx_observer_n(const lmx_observer *o);
/* Operators that were noted of the capture's own thread. */
size_t lmx_observer_own(const lmx_observer *o);
/* Of the operator that its own thread runs now: the name of the one that called it, "" where the engine of
 * autograd adds gradients up, NULL for another or none. */
const char *lmx_observer_caller(const lmx_observer *o);
/* The same of whoever is so many levels above it; it is at level 0 itself. */
const char *lmx_observer_above(const lmx_observer *o, size_t level);
/* Gives one of lam_op_flags to whoever is so many levels above it. */
void lmx_observer_mark(lmx_observer *o, size_t level, uint8_t flag);
/* Pushes every operator. False with an error. */
lam_status lmx_push_operators(const lmx_observer *o, lam_builder *b, lam_error *e);
extern PyMethodDef lmx_probe_methods[];

#endif
