/* SPDX-License-Identifier: Apache-2.0
 * capture: what an open capture holds. Its functions are in calls/calls.h. */
#ifndef LMX_CAPTURE_H
#define LMX_CAPTURE_H

#include "observe/clock.h"
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
    int8_t hides; /* of a scripted one: 1 its code runs kernels that are no operators, -1 none, 0 not asked */
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
    lmx_vec nodes, places, twins;
    lmx_map index; /* module object -> node */
} lmx_tree;
static inline lmx_node *lmx_node_at(const lmx_tree *t, int32_t i) { return (lmx_node *)t->nodes.data + i; }
static inline lmx_place *lmx_place_at(const lmx_tree *t, int32_t i)
{
    return (lmx_place *)t->places.data + i;
}
/* == captures (watch.c, capture.c, describe.c) ========================================================= */

typedef struct lmx_call {
    int32_t module, parent;
    uint32_t flags;
    int32_t n_in, n_out;
    size_t in_at, out_at; /* words */
    int64_t began, ended; /* stamps of the capture's clock; 0 none */
} lmx_call;

typedef struct lmx_observer lmx_observer;
typedef struct lmx_ledger lmx_ledger;
typedef struct lmx_dispatcher lmx_dispatcher;
typedef struct lmx_teller lmx_teller; /* describe.c */
typedef enum lmx_phase { LMX_NEW, LMX_OPEN, LMX_CLOSED } lmx_phase;

typedef struct lmx_capture {
    PyObject_HEAD
    lmx_state *st;
    PyObject *root, *model; /* model: built once, when asked for */
    PyObject *alias;        /* what torch.compile made of the root: its calls are the root's; or NULL */
    PyObject *notes;        /* list of str, for the report; or NULL */
    PyObject *made;         /* list of str, how each input was made up; or NULL */
    PyObject *open_regions; /* set of names of compiled code that runs operator by operator; or NULL */
    struct lmx_capture *next; /* among the open ones */
    lmx_tree tree;
    PyObject *snapshot; /* that was taken before the start; or NULL */
    lmx_teller *early;  /* the modules as they were described then; NULL: they are described at the end */
    lmx_vec calls; /* lmx_call */
    lmx_vec words; /* int64_t: the tensors of the calls */
    lmx_vec names; /* PyObject *: keywords */
    lmx_vec written; /* uint64_t: memory that operators wrote to in place, known once they are told */
    size_t n_calls, n_modules; /* what there was before the records were dropped */
    unsigned long owner;       /* thread */
    lmx_clock clock;
    int32_t open_call;
    int32_t alias_call; /* the last one that was made through the alias; -1 */
    lmx_phase phase;
    bool busy;     /* tensors are being described: calls that this makes are not the model's */
    bool counted;  /* among the state's `identities` */
    bool lost;     /* memory for records ran out, or */
    bool full;     /* there are more records than a capture may hold: */
    uint64_t most, most_ops; /* bytes of calls, and of operators a thread */
    bool cut;      /* a value had more tensors or levels than are looked at */
    bool replaced; /* somebody else's Module.__call__ was found at the end */
    bool strangers; /* another thread called modules of it while none was called here */
    bool *elsewhere; /* by module: another thread called it; NULL: none did */
    bool wants_ops, paused; /* paused: operators that run are not the model's */
    bool wants_nodes;       /* those of backward passes are watched, also where operators are not */
    bool timed;             /* times were asked for */
    bool no_backward;       /* a backward pass was asked for and did not run */
    lmx_listener *listeners; /* NULL: nobody */
    const lmx_map *tensors_told; /* tensor object -> index, while they are told what to push; else NULL */
    bool brief;             /* of calls only who called whom and when, of modules what they are and own */
    int32_t dry;            /* nothing is computed, times mean nothing: modes that are on with its own; 0 */
    lmx_ledger *ledger;     /* when memory was taken and given back, of a dry run; NULL: nobody asked */
    lmx_observer *observer; /* of the operators; NULL: only calls are noted */
    lmx_dispatcher *dispatcher; /* operators are seen through torch's dispatch mode; NULL: by the observer */
    PyObject *why; /* str: why they are, for a note; NULL: no note */
    PyObject *raised; /* while a call is left that raised: what; not owned */
    PyObject *gradients; /* dict: by address, a parameter and whether a gradient came; NULL: nobody looked */
    PyObject *given; /* is called once, with the arguments of the first call of the root; NULL: nobody asks */
    int32_t holders; /* so many read or write the records now, and may run code of the user's meanwhile */
    bool owed;       /* the records are dropped when the last of those lets go */
    void (*drop)(struct lmx_capture *c); /* drops them */
    bool telling;    /* the model is being made */
} lmx_capture;

/* From one to the other the records stay, whoever closes the capture and asks for its model meanwhile. The
 * caller has a reference. The second keeps a pending exception. */
static inline void lmx_capture_hold(lmx_capture *c) { c->holders++; }
static inline void lmx_capture_let_go(lmx_capture *c)
{
    if (--c->holders == 0 && c->owed) c->drop(c);
}

/* Names of arguments (find.c): of a keyword, -1 when there are too many, and of a dict's entry, for the
 * `entry` of a finder whose `names` is the capture. */
int32_t lmx_keyword(lmx_capture *c, PyObject *name);
int32_t lmx_entry_name(lmx_finder *f, PyObject *key);

#endif
