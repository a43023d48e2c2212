/* SPDX-License-Identifier: Apache-2.0
 * lane: torch's records of operators (at::RecordFunction), and lanes: what is kept of those of one thread.
 * Everything here may run inside torch's callbacks, with or without the GIL, and touches no Python. */
#ifndef LMX_LANE_H
#define LMX_LANE_H

#include "native/handles.h"
#include "native/vec.h"
#include "process/clock.h"

#include <stdatomic.h>

typedef struct lmx_capture lmx_capture; /* observe/open_capture.h */
typedef struct lmx_observer lmx_observer;

enum { LMX_IVALUE = 16, LMX_IVALUE_TAG = 8 }; /* bytes of an IValue; offset of its tag. Verified */

/* An array of IValues as torch passes it. */
typedef struct lmx_values {
    const char *at;
    size_t n;
} lmx_values;

/* torch's exported functions, in this process. */
typedef struct lmx_record_api {
    bool loaded;
    void (*add)(void);         /* lmx_add_callback has the real type, also of the next */
    void (*add_for_all)(void); /* for all threads; NULL: not exported */
    void (*remove)(uint64_t handle);
    const char *(*name)(const void *record);
    uint64_t (*thread)(void);
    /* From here on each may be NULL: not exported. */
    size_t (*n_inputs)(const void *record); /* by the schema; 0: no schema */
    size_t (*n_outputs)(const void *record);
    bool (*grad_enabled)(void);
    uint64_t (*sequence)(void); /* the number of the next node of this thread */
    int (*task)(void);          /* the number of the backward pass of this thread; -1 none */
    int64_t (*modes)(void);     /* the number of Python modes that are active in this thread */
    bool (*own_modes)(bool);    /* (true) whether any of them is not one of torch's own, such as that of fake
                                 * tensors */
    bool (*excluded)(uint16_t key); /* true if this dispatch key is excluded now */
    int (*unwinding)(void);         /* exceptions in flight */
    void *(*kept)(void);            /* torch's data of this thread's callbacks */
    const char *(*hooks)(void);     /* and of its hooks for saved tensors */
    void *library;                  /* for lmx_keys_here */
    lmx_shim shim;
} lmx_record_api;

/* A pair of callbacks and its options. */
typedef struct lmx_callback {
    void *(*start)(void **context, const void *record);
    void (*end)(const void *record, void *context);
    bool nodes;   /* for nodes of the autograd graph instead of operators */
    bool user;    /* for spans that Python and C++ code names itself instead */
    bool values;  /* needs inputs and outputs */
    bool results; /* needs outputs alone */
    bool all;     /* on all threads, not only on this one and those that work for it */
} lmx_callback;

/* torch's callbacks for a thread's next operator: a vector with inline storage. */
typedef struct lmx_pair {
    void *(*start)(void **context, const void *record);
    void (*end)(const void *record, void *context);
} lmx_pair;
typedef struct lmx_active {
    const lmx_pair *at;
    uint32_t n, room;
} lmx_active;
/* True if `c` is the only callback of a known vector; the vector is not inline if it once held many. */
static inline bool lmx_is_only(const lmx_active *a, const lmx_callback *c) {
    return a->at && a->room && a->at->start == c->start && a->at->end == c->end;
}
static inline bool lmx_is_active(const lmx_active *a, const lmx_callback *c) {
    return (const void *)a->at == a + 1 && lmx_is_only(a, c);
}

static inline int32_t lmx_tag_of(const char *value) {
    uint32_t tag;
    memcpy(&tag, value + LMX_IVALUE_TAG, sizeof tag);
    return (int32_t)tag;
}

enum { LMX_MAX_LIST = 4096 }; /* arguments, or entries of a list, that are read */

/* Read the record with layout `l`. */
lmx_values lmx_inputs_of(const lmx_layout *l, const void *record);
lmx_values lmx_outputs_of(const lmx_layout *l, const void *record);
lmx_values lmx_list_of(const lmx_layout *l, const char *value);

/* The record of an operator that is called through an interpreter's stack (TorchScript's, a transform's) has
 * the whole stack: the operator's values are the last. */
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

/* == records =========================================================================================== */

/* Arguments or results of an operator: a part that equal operators share, and the identities of tensors. */
typedef struct lmx_args {
    int32_t part;    /* of the lane's parts; -1 none */
    uint32_t ids_at; /* in the lane's ids */
} lmx_args;

typedef struct lmx_op {
    int32_t name, call, parent; /* name: offset of its text in the lane's names */
    uint8_t phase, flags;
    uint16_t pass; /* of a node: lam_op_info.pass, if it fits */
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
    LMX_ARG_TEXT,   /* its words hold it, with its NUL */
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
static inline bool lmx_packed_tensor(const lmx_packed *p) {
    return p->kind == LMX_ARG_TENSOR || p->kind == LMX_ARG_SPARSE || p->kind == LMX_ARG_MASK;
}
/* The words of the argument, its own included. */
static inline int32_t lmx_packed_words(const lmx_packed *p) {
    int32_t more = p->kind == LMX_ARG_SPARSE ? (int32_t)(sizeof(lmx_sparse) / sizeof(int64_t))
                   : p->kind == LMX_ARG_MASK ? (int32_t)(sizeof(lam_mask) / sizeof(int64_t))
                                             : 0;
    return 1 + more + (lmx_packed_tensor(p) && p->n == LMX_NO_SHAPE ? 0 : p->n);
}

/* Packed arguments, shared by equal ones. */
typedef struct lmx_part {
    uint32_t at, n_words; /* in the lane's words */
    int32_t n;
} lmx_part;

/* The addresses of a tensor's memory and of the tensor, of 45 bits each, since they are multiples of 8. */
typedef struct lmx_id {
    uint32_t low[2], high;
} lmx_id;

/* While an operator runs that counts for everything inside it, and whose own work alone can run there, the
 * thread's callback is hidden from torch: most of the cost of watching is that torch prepares arguments for
 * callbacks. */
typedef struct lmx_quiet {
    const void *record; /* of that operator; NULL: none runs */
    lmx_active *active;
    const lmx_callback *own;
} lmx_quiet;
/* Shows the callback again if that record hid it. If torch has rebuilt its list since then, the list is right
 * already. */
static inline void lmx_end_quiet(lmx_quiet *q, const void *record) {
    if (!record || q->record != record) return;
    if (q->active->n == 0 && lmx_is_only(q->active, q->own)) q->active->n = 1;
    q->record = NULL;
}

/* The number of arguments and results of an operator's schema; -1 unknown. */
typedef struct lmx_arity {
    int32_t in, out;
} lmx_arity;

/* The records of one thread for a capture. Only that thread writes to it; others read the origins at any
 * time, and the rest once the thread is done. */
typedef struct lmx_lane {
    struct lmx_lane *next;
    const lmx_record_api *api;
    uint64_t thread;  /* torch's number of the thread */
    int32_t number;   /* of the thread in the capture, as lam_op_info.thread; 0: the capture's own */
    lmx_clock *clock; /* the capture's */
    int64_t *last;    /* the thread's last stamp, for lmx_clock_stamp */
    int64_t own_last; /* its storage if the capture belongs to another thread */
    bool inside;      /* a callback is running: its calls of torch are not the model's */
    bool lost;        /* memory ran out */
    /* Of the tensors packed last: all their dispatch keys; and not 0 if one may have a tangent. */
    uint64_t keys, tangents;
    lmx_quiet *quiet;    /* the thread's; NULL under a dispatch mode */
    bool reads;          /* values may be read: torch's functions return the address of a tensor's memory */
    lmx_is_fake nowhere; /* of a dry run; else NULL */
    bool full;           /* the limit of operators was reached */
    uint64_t most;       /* that limit, in bytes */
    bool pushed;         /* the records were pushed and freed */
    lmi_vec ops;         /* lmx_op */
    lmi_vec words;       /* int64_t: of the parts, and of the arguments that are being packed */
    lmi_vec parts;       /* lmx_part */
    lmi_vec ids;         /* lmx_id */
    size_t packed;       /* words that belong to parts; later ones are being packed */
    size_t ids_packed;   /* the same of ids */
    int32_t n_packed;    /* arguments that are being packed */
    lmi_map by_part;     /* indices of parts, by a hash of their words */
    lmi_vec names;       /* char: NUL-terminated texts, each preceded by its properties (thread_log.c) */
    lmi_vec frames;      /* lmx_frame (frames.h): the open operators and nodes */
    lmi_vec origins;     /* from sequence numbers to calls; other threads read them */
    atomic_bool origins_held; /* a lock of the origins */
    int32_t last_call;        /* of the last node with a number, -1 */
    lmi_map by_text;          /* offsets of names, by a hash of the text */
    struct {
        const char *at;
        int32_t name;
        lmx_arity arity;
    } seen[512]; /* names by their address */
    /* torch's data of the thread, found once. `state`: as lmx_keys_here; `hooks`, `kept`: as in
     * lmx_record_api, NULL: unknown. */
    const uint64_t *state;
    const char *hooks;
    char *kept;
} lmx_lane;

/* Adds the lane of this thread, which is given by its number in torch, or by Python's under a dispatch mode.
 * NULL: memory ran out. */
lmx_lane *lmx_lane_new(lmx_observer *o, uint64_t thread);
void lmx_lane_free(lmx_lane *lane);
/* The lane with this number; NULL: there is none. Numbers are up to o->others. */
lmx_lane *lmx_observer_lane(const lmx_observer *o, int32_t number);
/* The offset of a name among the lane's; -1: memory ran out. */
int32_t lmx_lane_name(lmx_lane *lane, const char *text);
/* What the name of an operator says. */
typedef struct lmx_named {
    bool known;          /* the rest is set */
    bool counts;         /* it counts, and the operators inside it do not */
    bool closes;         /* and they need not be observed */
    bool free;           /* it computes and moves nothing */
    bool writes, saves;  /* it writes in place; and its gradient may need what was overwritten */
    bool copies, fills;  /* it is aten::clone; it is aten::zeros */
    bool picks;          /* it is aten::where */
    bool weighs;         /* it is aten::_softmax, whose values are read for what a mask hid */
    bool product, keeps; /* it computes scores; it moves or scales them, and hides none */
    int16_t mask; /* the position of the argument whose values are read: a mask, or ends of groups; -1 */
    int16_t over; /* in a dry run: of what is added to scores, or hides some; -1 */
} lmx_named;
/* Valid until the next name is looked up. */
const lmx_named *lmx_lane_named(lmx_lane *lane, int32_t name);
/* The position of an operator's argument whose values are read; -1: none. In a dry run, where scores have no
 * values, that of what is added to them or hides some of them, which may have values. */
int32_t lmx_lane_mask_of(lmx_lane *lane, int32_t name);
/* The position of the argument of an operator whose values are read, -1: of none. In flex_attention, which
 * runs operator by operator on the CPU, the mask of its scores is an argument of aten::where. */
int32_t lmx_lane_reads(lmx_lane *lane, const lmx_op *op);
/* The number of arguments and results in the last run of the operator of this name, which must be the last
 * name looked up; -1 unknown. */
lmx_arity *lmx_lane_arity(lmx_lane *lane, const char *text);
/* Adds an operator; NULL if memory ran out (`lost`) or the lane is full (`full`). `kept`: the address of the
 * name probably stays the same. */
lmx_op *lmx_lane_op(lmx_lane *lane, const char *name, bool kept);
/* Takes everything packed since the last call as one list. */
lmx_args lmx_lane_take(lmx_lane *lane);
/* The first of these arguments, a tensor, as a list of its own. */
lmx_args lmx_lane_again(lmx_lane *lane, lmx_args from);
static inline uint64_t lmx_id_memory(const lmx_id *id) {
    return ((uint64_t)(id->high & 0xFFFF) << 32 | id->low[0]) << 3;
}
static inline uint64_t lmx_id_object(const lmx_id *id) {
    return ((uint64_t)(id->high >> 16) << 32 | id->low[1]) << 3;
}
/* Packs values and returns their number. Also reads and counts the mask at position `mask` if it can; -1:
 * reads no values. If memory runs out, `lost` is set. */
int32_t lmx_lane_pack(lmx_lane *lane, const lmx_layout *l, lmx_values values, int32_t mask);

/* Pack one value that was read elsewhere. `kept`: of a sparse tensor; `left`: of a mask; else NULL. */
void lmx_lane_tensor(lmx_lane *lane, int32_t position, const lmx_tensor *t, const lmx_sparse *kept,
                     const lam_mask *left);
void lmx_lane_value(lmx_lane *lane, int32_t position, lmx_arg_kind kind, const void *words, int32_t n);
/* Leaves out long texts; returns the number packed, 0 or 1. */
int32_t lmx_lane_text(lmx_lane *lane, int32_t position, const char *text, size_t n);
/* Notes that autograd's nodes from this sequence number on were made by `call`. lmx_lane_origin returns the
 * call of a node, -1: none; any thread may call it. */
void lmx_lane_note_origin(lmx_lane *lane, int64_t sequence, int32_t call);
int32_t lmx_lane_origin(lmx_lane *lane, int64_t sequence);

struct lmx_observer {
    lmx_capture *capture; /* not owned: it owns this. The next five are of it, or of its state */
    lmx_clock *clock;
    const int32_t *reads;       /* above 0: values may be read */
    const int32_t *dry;         /* of a dry run: the number of active modes; else 0 */
    const lmx_is_fake *nowhere; /* of a dry run */
    uint64_t most;              /* bytes of operators that a thread may note */
    const lmx_layout *layout;
    _Atomic(lmx_lane *) lanes; /* newest first */
    uint64_t generation;       /* never the same for two observers */
    uint64_t thread;           /* torch's number of the capture's thread */
    int slot;
    atomic_int others;   /* the number of lanes of other threads than the capture's */
    bool everywhere;     /* also watches for backward passes on other threads */
    atomic_bool strange; /* an unwatched thread ran a backward pass through a call's nodes */
    bool nodes_only;
    bool tells_ops;          /* a listener wants operators */
    const lmx_callback *own; /* of operators; NULL: everything inside a counted one is observed too */
};

/* == all lanes together (thread_log.c) ================================================================= */

void lmx_observer_free(lmx_observer *o); /* NULL is allowed */
/* True if later operators could not be noted; those up to `since_ns` were. */
bool lmx_observer_lost(const lmx_observer *o, int64_t *since_ns);
/* True if the operators were pushed; they can't be pushed again. */
bool lmx_observer_pushed(const lmx_observer *o);
/* True if an unwatched thread ran a backward pass through the model's nodes. */
bool lmx_observer_strange(const lmx_observer *o);
bool lmx_observer_full(const lmx_observer *o);
size_t lmx_observer_n(const lmx_observer *o);

/* == operators that other code answers (overrides.c) ==================================================== */

/* True if the operator whose arguments were packed last is passed on: inside a transform of torch.func, or on
 * tensors of one. The operators inside it run on the real tensors, with the real shapes. */
bool lmx_is_passed_on(const lmx_observer *o, const lmx_lane *lane);
/* True if the class of one of the last packed arguments answers for the operator. */
bool lmx_is_classed(const lmx_observer *o, const lmx_lane *lane);
/* The object of the operator's first argument, or of the first entry if that is a list; 0: no tensor. */
uint64_t lmx_first_tensor(const lmx_record_api *api, const lmx_layout *l, const void *record);
/* True if Python modes are active above lamina's own, which are those of a dry run. */
bool lmx_has_modes(const lmx_observer *o, const lmx_record_api *api);
/* True if more than `more_than` modes are active, and all are torch's own. */
bool lmx_has_torchs_modes(const lmx_record_api *api, int64_t more_than);
/* For a torch that makes no records of answers: true if Python is about to answer the operator. */
bool lmx_asks_python(const lmx_observer *o, const lmx_record_api *api, bool classed);
/* lmx_is_passage: true for torch's record around the answer of a mode or a tensor subclass;
 * lmx_is_of_class: of a subclass; lmx_passes_to_others: if the operators in that record count instead of
 * the operator. */
bool lmx_is_passage(const char *name);
bool lmx_is_of_class(const char *passage);
bool lmx_passes_to_others(const lmx_observer *o, const lmx_record_api *api, const char *passage);

/* The name of an operator, without the overload: "aten::convolution". */
static inline const char *lmx_op_name(const lmx_lane *lane, const lmx_op *op) {
    return (const char *)lane->names.data + op->name;
}

#endif
