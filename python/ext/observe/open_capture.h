/* SPDX-License-Identifier: Apache-2.0
 * capture: what an open capture holds. Its functions are in calls/calls.h. */
#ifndef LMX_OPEN_CAPTURE_H
#define LMX_OPEN_CAPTURE_H

#include "process/clock.h"
#include "torch/tensor.h"

/* == the tree (walk.c) ================================================================================= */

typedef struct lmx_node { /* a distinct module object */
    PyObject *object;
    int32_t n_children;  /* registered; a duplicate counts once */
    int32_t parent_seen; /* the place whose children were listed last with this module among them */
    int32_t inner;       /* of a compiled wrapper: the node of the module it wraps, else -1 */
    bool on_path, parametrized, compiled;
    bool opaque; /* compiled, and its inside was not seen */
    bool scripted;
    int8_t hides; /* of a scripted one: 1 its code runs kernels that are no operators, -1 none, 0 unknown */
} lmx_node;
typedef struct lmx_place {
    int32_t parent, node;
    PyObject *name; /* str */
} lmx_place;
typedef struct lmx_twin { /* a name under which a sibling was registered again */
    int32_t place;        /* of the parent */
    int32_t node;
    PyObject *name;
} lmx_twin;
typedef struct lmx_tree {
    lmi_vec nodes, places, twins;
    lmi_map index; /* module object -> node */
} lmx_tree;
static inline lmx_node *lmx_node_at(const lmx_tree *t, int32_t i) { return (lmx_node *)t->nodes.data + i; }
static inline lmx_place *lmx_place_at(const lmx_tree *t, int32_t i) {
    return (lmx_place *)t->places.data + i;
}
/* == captures (attach.c, noting.c, capture.c, describe.c) ===================================================
 */

typedef struct lmx_call {
    int32_t module, parent;
    uint32_t flags;
    int32_t n_in, n_out;
    int32_t thread;       /* as lam_call_info.thread */
    int32_t regions;      /* pieces of compiled code that ran in it, and in no call inside it */
    size_t in_at, out_at; /* words */
    int64_t began, ended; /* stamps of the capture's clock; 0 none */
} lmx_call;

typedef struct lmx_observer lmx_observer;
typedef struct lmx_ledger lmx_ledger;
typedef struct lmx_guard lmx_guard;         /* guard.h */
typedef struct lmx_describer lmx_describer; /* describe.c */
typedef enum lmx_phase { LMX_NEW, LMX_OPEN, LMX_CLOSED } lmx_phase;

typedef struct lmx_capture lmx_capture;

/* What the report says of the run; each NULL: nothing. */
typedef struct lmx_remarks {
    PyObject *notes;      /* list of str */
    PyObject *made;       /* list of str: how each input was generated */
    PyObject *provenance; /* dict of str: how, where and when the run was made */
    PyObject *why_mode;   /* str: the reason for the dispatch mode */
} lmx_remarks;

/* What is done before the first call of the root, or with its arguments; each NULL: nothing. */
typedef struct lmx_ahead {
    PyObject *snapshot;   /* taken before the start */
    lmx_describer *early; /* descriptions of modules made at that time; NULL: they are made at the end */
    PyObject *given;      /* called once with the arguments of the first call of the root */
} lmx_ahead;

/* The calls of modules that were noted. */
typedef struct lmx_noted_calls {
    lmi_vec calls;   /* lmx_call */
    lmi_vec words;   /* int64_t: the tensors of the calls */
    lmi_vec names;   /* PyObject *: keywords */
    lmi_vec written; /* uint64_t: memory that operators wrote to in place, filled when they are pushed */
    int32_t open;    /* the innermost call that has not ended; -1 none */
    int32_t alias;   /* the last one through the alias; -1 none */
    uint64_t most;   /* the limit of records, in bytes */
    bool full;       /* it was reached */
    bool lost;       /* memory for records ran out */
    bool cut;        /* a value had more tensors or levels than are searched */
    bool busy;       /* tensors are being described: calls during that are not the model's */
    bool brief;      /* notes callers, callees and times alone, and modules with what they own */
} lmx_noted_calls;

/* Whose calls are the capture's. */
typedef struct lmx_threads {
    unsigned long owner;
    /* A thread of autograd that repeats forward work, 0: none. While it works, the calls that are noted and
     * the open one are its own; the owner's open call waits in `owners_call`. */
    unsigned long worker;
    const struct lmx_lane *workers_lane; /* native/lane.h */
    int32_t owners_call;
    bool strangers;  /* another thread called its modules while none was called on its own thread */
    bool *elsewhere; /* by module: another thread called it; NULL: none did */
} lmx_threads;

/* Compiled code that ran inside the capture. */
typedef struct lmx_compiled {
    PyObject *opened; /* set of names of compiled code that runs operator by operator; or NULL */
    enum { LMX_REGIONS_NONE, LMX_REGIONS_COUNTED, LMX_REGIONS_UNKNOWN } regions;
    uint64_t regions_before; /* how many had begun on its thread at its last change of calls */
    uint64_t passes_before;  /* how many compiled backward passes when it was opened */
    /* Of a recorded step: torch's compiler may work while it is open, and what that runs is not noted.
     * roots_only: nor are calls outside the calls of the root. */
    bool recorded, roots_only;
} lmx_compiled;

/* How operators are watched. */
typedef struct lmx_watched {
    bool ops;               /* operators are noted */
    bool nodes;             /* nodes of backward passes are watched, also if operators are not */
    bool paused;            /* operators that run are not the model's */
    uint64_t most;          /* bytes of operators that a thread may note */
    lmx_observer *observer; /* NULL: only calls are noted */
    PyObject *mode;         /* the dispatch mode that operators come through; NULL: the observer */
    lmx_guard *guard;       /* of memory that operators may write to; NULL: none is guarded */
} lmx_watched;

/* Of a dry run; else all 0. */
typedef struct lmx_dry_run {
    int32_t modes;       /* the number of active modes, its own too, if no times are measured */
    lmx_is_fake nowhere; /* whether a tensor has no memory */
    lmx_ledger *ledger;  /* lifetimes of memory; NULL: not requested */
} lmx_dry_run;

/* The backward pass that was requested. */
typedef struct lmx_backward {
    bool absent;         /* it did not run */
    bool raised;         /* it ran and raised */
    PyObject *gradients; /* dict: by address, a parameter and whether it got a gradient; NULL: not checked */
} lmx_backward;

/* Who hears of calls and operators while they run. */
typedef struct lmx_heard {
    lmx_listener *listeners; /* NULL: none */
    const lmi_map *tensors;  /* tensor object -> index, while listeners push; else NULL */
} lmx_heard;

/* Who uses the records. */
typedef struct lmx_holders {
    int32_t n;                    /* readers and writers, which may run user code */
    bool owed;                    /* the records are dropped when the last holder releases them */
    void (*drop)(lmx_capture *c); /* drops them */
} lmx_holders;

struct lmx_capture {
    PyObject_HEAD lmx_state *st;
    PyObject *root;
    PyObject *alias;   /* torch.compile's wrapper of the root, whose calls are the root's; or NULL */
    PyObject *model;   /* built once, on the first request */
    lmx_capture *next; /* among the open ones */
    lmx_tree tree;
    lmx_clock clock;
    lmx_phase phase;
    bool counted;     /* among the state's `identities` */
    bool timed;       /* times are measured */
    bool replaced;    /* another Module.__call__ was found at the end */
    bool telling;     /* the model is being made */
    PyObject *raised; /* at the end of a call that raised: the exception; not owned */
    lmx_remarks remarks;
    lmx_ahead ahead;
    lmx_noted_calls noted;
    lmx_threads threads;
    lmx_compiled compiled;
    lmx_watched watched;
    lmx_dry_run dry;
    lmx_backward backward;
    lmx_heard heard;
    lmx_holders holders;
};

/* Between hold and let_go the records stay, even if the capture is closed and its model is built. The caller
 * has a reference. lmx_capture_let_go keeps a pending exception. */
static inline void lmx_capture_hold(lmx_capture *c) { c->holders.n++; }
static inline void lmx_capture_let_go(lmx_capture *c) {
    if (--c->holders.n == 0 && c->holders.owed) c->holders.drop(c);
}

/* Indices of names of arguments, for find_tensors.c: of a keyword, -1 when there are too many; and of a
 * dict's entry, for the `entry` of a finder whose `names` is the capture. */
int32_t lmx_keyword(lmx_capture *c, PyObject *name);
int32_t lmx_entry_name(lmx_finder *f, PyObject *key);

#endif
