/* SPDX-License-Identifier: Apache-2.0
 * entry: where a Python function leads when it is called. */
#ifndef LMX_ENTRY_H
#define LMX_ENTRY_H

#include "ext.h"

/* As CPython calls a function: `args` are n positional ones and the keywords' values, `names` the keywords.
 */
typedef PyObject *(*lmx_entry)(PyObject *function, PyObject *const *args, size_t n, PyObject *names);
/* The top bit of `n` is CPython's own. */
#define LMX_ENTRY_N(n) ((Py_ssize_t)((n) & ~((size_t)1 << (sizeof(size_t) * 8 - 1))))

/* A function that leads elsewhere. */
typedef struct lmx_moved {
    PyObject *function, *copy; /* strong. The copy does what the function did */
    PyObject *code, *detour;   /* strong. Its own code, and that which calls `through` */
} lmx_moved;

/* Lets every call of `function` lead to `to`: through the pointer that CPython follows, and for those callers
 * that go straight to the code through code which calls `through`, a builtin that does the same as `to`. The
 * function stays the same object, so no type changes and no cache of attributes is emptied. False, without an
 * exception, where it can't be done: it is no plain function, or this CPython keeps the pointer elsewhere. */
bool lmx_move(lmx_moved *m, PyObject *function, lmx_entry to, PyObject *through);
/* Puts everything back; false when memory ran out, and then only what calls through the detour is left. What
 * is called meanwhile still works: `m` keeps the copy until it is used for another function. */
bool lmx_move_back(lmx_moved *m);
/* Calls what the function was. */
PyObject *lmx_call_moved(const lmx_moved *m, PyObject *const *args, size_t n, PyObject *names);

#endif
