/* SPDX-License-Identifier: Apache-2.0
 * listeners: a thread's position in a capture (the module call and the phase), and listeners for its changes.
 * Times need only the nodes of a backward pass; measuring memory or checking values needs a listener. Without
 * one a capture pays one comparison a call. */
#ifndef LMX_LISTENERS_H
#define LMX_LISTENERS_H

#include "observe/open_capture.h"

typedef struct lmx_where {
    int32_t call;  /* the innermost open one, or the one whose forward made the running node; -1 none */
    uint8_t phase; /* lam_phase */
} lmx_where;

/* The position of the calling thread, with or without the GIL, also from a function that allocates memory.
 * The capture must be open, and must not be closed during the call. Without nodes (lmx_watched.nodes)
 * or operators only calls are known. */
lmx_where lmx_here(const lmx_capture *c);
/* The same, but the engine's work between two nodes of a backward pass (it sums gradients and adjusts their
 * shapes) belongs to the node that ran last. */
lmx_where lmx_here_or_engine(const lmx_capture *c);

/* One node of a backward pass that runs in this thread. */
typedef struct lmx_node_run {
    const void *record; /* torch's; its inputs are the gradients of the results of the forward's operator */
    const lmx_layout *layout; /* for lmx_inputs_of (observe.h), if some listener `wants_values` */
    const char *name;         /* "ConvolutionBackward0" */
    lmx_where where;
    int32_t pass; /* as lam_op_info.pass */
} lmx_node_run;

/* One operator that runs in this thread. */
typedef struct lmx_op_run {
    const void *record;
    const lmx_layout *layout;
    const char *name;   /* "aten::convolution" */
    const void *values; /* its arguments, or after its end its results: IValues */
    size_t n_values;    /* the number of values */
    lmx_where where;
    bool direct; /* it runs in a node, and in no other operator there */
    bool failed; /* it raised; set at its end only */
} lmx_op_run;

/* The arguments of a call, as METH_FASTCALL | METH_KEYWORDS passes them. */
typedef struct lmx_given {
    PyObject *const *args;
    Py_ssize_t n;
    PyObject *names;
} lmx_given;
static inline Py_ssize_t lmx_n_given(const lmx_given *g) {
    return g->n + (g->names ? PyTuple_Size(g->names) : 0);
}

/* Callbacks may be NULL. Those for calls run under the GIL, without a pending exception, and torch's work in
 * them is not noted; those for nodes run on any thread, with or without the GIL. */
struct lmx_listener {
    lmx_listener *next;
    bool kernel_clock; /* it compares the capture's times with others, by the kernel's clock */
    bool wants_values; /* of nodes */
    /* Reports operators that run in nodes; others too if the capture observes operators (not by a mode). */
    bool wants_operators;
    /* A call was noted and is about to run. False with an exception, which ends the call. */
    bool (*entered)(lmx_listener *l, lmx_capture *c, int32_t call, const lmx_given *given);
    /* The call returned `result`, or (NULL) raised. False with an exception, which replaces the result. */
    bool (*left)(lmx_listener *l, lmx_capture *c, int32_t call, const lmx_given *given, PyObject *result);
    void (*node_began)(lmx_listener *l, const lmx_node_run *node);
    void (*node_ended)(lmx_listener *l, const lmx_node_run *node);
    void (*op_began)(lmx_listener *l, const lmx_op_run *op);
    void (*op_ended)(lmx_listener *l, const lmx_op_run *op);
    /* opened: the capture opens; false with an exception keeps it closed. closed: it was closed, or could not
     * be opened. */
    bool (*opened)(lmx_listener *l, lmx_capture *c);
    void (*closed)(lmx_listener *l, lmx_capture *c);
    /* Pushes the listener's data into the model, after the calls and operators. */
    lam_status (*push)(lmx_listener *l, lmx_capture *c, lam_builder *b, lam_error *e);
    void (*free)(lmx_listener *l);
};

/* Adds a listener before the capture starts. The capture owns it and frees it with its records. */
void lmx_listen(lmx_capture *c, lmx_listener *l);
void lmx_listeners_free(lmx_capture *c);
bool lmx_want_kernel_clock(const lmx_capture *c);
bool lmx_want_values(const lmx_capture *c);
bool lmx_want_operators(const lmx_capture *c);
bool lmx_tell_opened(lmx_capture *c);
void lmx_tell_closed(lmx_capture *c);
bool lmx_tell_entered(lmx_capture *c, int32_t call, const lmx_given *given);
bool lmx_tell_left(lmx_capture *c, int32_t call, const lmx_given *given, PyObject *result);
void lmx_tell_node(const lmx_capture *c, const lmx_node_run *node, bool began);
void lmx_tell_op(const lmx_capture *c, const lmx_op_run *op, bool began);
lam_status lmx_tell_push(lmx_capture *c, lam_builder *b, lam_error *e);

#endif
