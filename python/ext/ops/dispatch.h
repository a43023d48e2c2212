/* SPDX-License-Identifier: Apache-2.0
 * dispatch: operators through a dispatch mode of torch (torch.utils._python_dispatch.TorchDispatchMode), for
 * builds where observe.c can't read torch's records, and for code that answers operators instead of running
 * them. It costs ten times as much an operator, and torch supports it. A mode belongs to its thread, and to
 * threads that get its state from torch.
 *
 * The contract for code that answers (a shape engine):
 *   1. Make a Capture with `dispatch` (capture.c), then lmx_dispatch_answer() before it is started.
 * 2. `answer` is called for each operator before it runs, with the GIL held and the mode off the stack, with
 * torch's arguments: positional ones up to the last that is no default, keyword-only ones by name.
 * lmx_overload_argument() adds the defaults. 3. It returns true if it has an answer: a new reference in
 * *result, or NULL there with an exception set. On false the operator runs as usual, under the modes below
 * this one. 4. Either way the operator is noted with its result. lmx_dispatch_note() notes one that did not
 * pass. */
#ifndef LMX_DISPATCH_H
#define LMX_DISPATCH_H

#include "observe/observe.h"

enum { LMX_OVERLOAD_ARGS = 64 };

/* An OpOverload, read once in a process. */
typedef struct lmx_overload {
    PyObject *func, *call; /* strong: itself, and the callable that runs it */
    PyObject *name;        /* str, "aten::convolution": without the overload */
    int32_t word;          /* lam_word_op of it */
    int32_t n_args;
    bool wraps;            /* it only calls others */
    bool implicit;         /* composed of other operators for every kind of tensor */
    bool many;             /* it returns a tuple of results */
    bool unseen;           /* a query of a tensor, without work */
    bool higher;           /* a higher-order operator: it runs functions */
    bool copies;           /* aten::clone */
    bool writes;           /* in place, to its first argument */
    int32_t mask;          /* lam_word_op_mask of it */
    PyObject *args[LMX_OVERLOAD_ARGS];     /* str: names */
    PyObject *defaults[LMX_OVERLOAD_ARGS]; /* NULL: none */
    bool tensors[LMX_OVERLOAD_ARGS];       /* a tensor, or a number in its place */
} lmx_overload;

/* torch's functions for modes, found when the first mode opens; from lamina._dispatch. */
#define LMX_MODE_FUNCTIONS(X)                                                                                \
    X(open)                                                                                                  \
    X(close) X(push) X(pop) X(below) X(node) X(task) X(keeps) X(hooks) X(function) X(sequence) X(keys)       \
        X(redispatch) X(is_implicit) X(decompose)
struct lmx_modes {
#define X(name) PyObject *name; /* `keeps`, `hooks`: NULL in torch 2.4, which has none */
    LMX_MODE_FUNCTIONS(X)
#undef X
    uint64_t (*peek)(void); /* as lmx_record_api.sequence; checked against torch's own answer */
    bool (*grad_enabled)(void);
    lmx_vec overloads; /* lmx_overload * */
    lmx_map by_func;
};

/* Finds torch's functions, once; false with an exception. */
bool lmx_modes_load(lmx_state *st);
/* The number of the next node that autograd makes in this thread; 0: unknown. */
uint64_t lmx_modes_sequence(const lmx_modes *m);
/* NULL with an exception. It lives as long as the extension. */
const lmx_overload *lmx_overload_of(lmx_state *st, PyObject *func);
/* The i-th argument of the schema, borrowed; NULL, without an exception, if none was given. */
PyObject *lmx_overload_argument(const lmx_overload *o, Py_ssize_t i, PyObject *args, PyObject *kwargs);

typedef bool lmx_answer(void *self, const lmx_overload *o, PyObject *args, PyObject *kwargs,
                        PyObject **result);
/* Sets `answer`; NULL: none. `self` must outlive the capture. False with an exception: the capture does not
 * watch through the dispatch mode. */
bool lmx_dispatch_answer(lmx_capture *c, lmx_answer *answer, void *self);
/* Notes an operator that ran elsewhere as if it ran now. `args` is a tuple, `kwargs` a dict or NULL. False
 * only for an exception that must reach the user. */
bool lmx_dispatch_note(lmx_capture *c, PyObject *func, PyObject *args, PyObject *kwargs, PyObject *result);

/* unseen(name): the operator of this name is about to run by a way that torch keeps no record of. Captures
 * that are open on this thread note it. */
PyObject *lmx_unseen(PyObject *module, PyObject *name);

/* The number of the open operator of this thread; -1: none. */
int32_t lmx_dispatch_op(const lmx_capture *c);
/* Sets one of lam_op_flags on operator number `op` of this thread, or on the one `level` levels above it. */
void lmx_dispatch_mark(lmx_capture *c, int32_t op, size_t level, uint8_t flag);

/* Calls `function` during an answer: the operators that it runs are noted inside the answered one. If the
 * capture does not watch through the dispatch mode, it only calls `function`. */
PyObject *lmx_dispatch_inside(lmx_capture *c, PyObject *function, PyObject *args, PyObject *kwargs);

/* == between dispatch.c and overload.c ================================================================= */

/* False only for an exception that must reach the user. *n: arguments, or results, that were packed. */
bool lmx_pack_arguments(lmx_state *st, lmx_lane *lane, const lmx_overload *o, PyObject *args,
                        PyObject *kwargs, int32_t *n);
bool lmx_pack_result(lmx_state *st, lmx_lane *lane, const lmx_overload *o, PyObject *result, int32_t *n);
/* True if the operator is composed of others for every kind of tensor. */
bool lmx_modes_implicit(lmx_state *st, PyObject *func);
void lmx_overloads_free(lmx_modes *m);

/* == operators through torch's dispatch mode (dispatch.c; see dispatch.h) ============================== */

bool lmx_dispatcher_new(lmx_capture *c); /* it is the capture's. False with an exception */
void lmx_dispatcher_free(lmx_dispatcher *d);
/* lmx_observe, lmx_unobserve and lmx_observe_call for a capture with a dispatcher. Only its own thread can
 * remove the mode: closed by another, it notes nothing, and is removed when that thread closes a capture. */
bool lmx_dispatch(lmx_capture *c);
void lmx_undispatch(lmx_capture *c);
bool lmx_dispatch_call(lmx_capture *c);
/* True while an operator is being noted, by any thread: the lanes must stay. */
bool lmx_dispatch_busy(const lmx_capture *c);
/* dispatched_by(cls): the method that is __torch_dispatch__ of a class of modes. */
PyObject *lmx_dispatched_by(PyObject *module, PyObject *type);
void lmx_modes_clear(lmx_modes *m);

#endif
