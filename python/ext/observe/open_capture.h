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

typedef struct lmx_capture {
    PyObject_HEAD lmx_state *st;
    PyObject *root, *model;   /* model: built once, on the first request */
    PyObject *alias;          /* torch.compile's wrapper of the root, whose calls are the root's; or NULL */
    PyObject *notes;          /* list of str, for the report; or NULL */
    PyObject *made;           /* list of str, how each input was generated; or NULL */
    PyObject *provenance;     /* dict of str: how, where and when the run was made; or NULL */
    PyObject *open_regions;   /* set of names of compiled code that runs operator by operator; or NULL */
    struct lmx_capture *next; /* among the open ones */
    lmx_tree tree;
    PyObject *snapshot;   /* taken before the start; or NULL */
    lmx_describer *early; /* descriptions of modules made at that time; NULL: they are described at the end */
    lmi_vec calls;        /* lmx_call */
    lmi_vec words;        /* int64_t: the tensors of the calls */
    lmi_vec names;        /* PyObject *: keywords */
    lmi_vec written;      /* uint64_t: memory that operators wrote to in place, filled when they are pushed */
    unsigned long owner;  /* thread */
    /* A thread of autograd that repeats forward work, 0: none. While it works, `calls` and `open_call` are
     * its own; the owner's open call waits in `owners_call`. */
    unsigned long worker;
    const struct lmx_lane *workers_lane; /* observe.h */
    int32_t owners_call;
    lmx_clock clock;
    int32_t open_call;
    int32_t alias_call; /* the last one through the alias; -1 */
    lmx_phase phase;
    bool busy;               /* tensors are being described: calls during that are not the model's */
    bool counted;            /* among the state's `identities` */
    bool lost;               /* memory for records ran out */
    bool full;               /* the limit of records was reached */
    uint64_t most, most_ops; /* that limit, in bytes: of calls, and of operators a thread */
    bool cut;                /* a value had more tensors or levels than are searched */
    bool replaced;           /* another Module.__call__ was found at the end */
    bool strangers;          /* another thread called its modules while none was called on its own thread */
    bool *elsewhere;         /* by module: another thread called it; NULL: none did */
    bool wants_ops, paused;  /* paused: operators that run are not the model's */
    /* Of a recorded step: torch's compiler may work while it is open, and what that runs is not noted.
     * roots_only: nor are calls outside the calls of the root. */
    bool recorded, roots_only;
    enum { LMX_REGIONS_NONE, LMX_REGIONS_COUNTED, LMX_REGIONS_UNKNOWN } regions; /* of compiled code */
    uint64_t regions_before;     /* how many had begun on its thread at its last change of calls */
    uint64_t passes_before;      /* how many compiled backward passes when it was opened */
    bool wants_nodes;            /* nodes of backward passes are watched, also if operators are not */
    bool timed;                  /* times are measured */
    bool no_backward;            /* a backward pass was requested and did not run */
    bool backward_raised;        /* it ran and raised */
    lmx_listener *listeners;     /* NULL: none */
    const lmi_map *tensors_told; /* tensor object -> index, while listeners push; else NULL */
    bool brief;                  /* notes callers, callees and times alone, and modules with what they own */
    int32_t dry;            /* of a dry run, without times: number of active modes, its own too; else 0 */
    lmx_is_fake nowhere;    /* of a dry run; else NULL */
    lmx_ledger *ledger;     /* lifetimes of memory in a dry run; NULL: not requested */
    lmx_guard *guard;       /* of memory that operators may write to; NULL: none is guarded */
    lmx_observer *observer; /* of the operators; NULL: only calls are noted */
    PyObject *mode;         /* the dispatch mode that operators come through; NULL: the observer */
    PyObject *why;          /* str: the reason for the dispatch mode, for a note; NULL: no note */
    PyObject *raised;       /* at the end of a call that raised: the exception; not owned */
    PyObject *gradients; /* dict: by address, a parameter and whether it got a gradient; NULL: not checked */
    PyObject *given;     /* called once with the arguments of the first call of the root; NULL: not needed */
    int32_t holders;     /* the number of readers and writers of the records, which may run user code */
    bool owed;           /* the records are dropped when the last holder releases them */
    void (*drop)(struct lmx_capture *c); /* drops them */
    bool telling;                        /* the model is being made */
} lmx_capture;

/* Between hold and let_go the records stay, even if the capture is closed and its model is built. The caller
 * has a reference. lmx_capture_let_go keeps a pending exception. */
static inline void lmx_capture_hold(lmx_capture *c) { c->holders++; }
static inline void lmx_capture_let_go(lmx_capture *c) {
    if (--c->holders == 0 && c->owed) c->drop(c);
}

/* Indices of names of arguments, for find_tensors.c: of a keyword, -1 when there are too many; and of a
 * dict's entry, for the `entry` of a finder whose `names` is the capture. */
int32_t lmx_keyword(lmx_capture *c, PyObject *name);
int32_t lmx_entry_name(lmx_finder *f, PyObject *key);

#endif
