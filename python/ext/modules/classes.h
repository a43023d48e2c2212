/* SPDX-License-Identifier: Apache-2.0
 * classes: what all modules of one class have in common, found once in a process: a walk along its bases
 * costs more than all else that is told of a small module. A class is known by its address, and a weak
 * reference tells whether it is still the one that was met there; nothing is kept alive. */
#ifndef LMX_CLASSES_H
#define LMX_CLASSES_H

#include "base/base.h"

enum { LMX_MAX_ATTRS = 32, LMX_MAX_INTS = 64 };

typedef struct lmx_class {
    PyObject *type;        /* weak reference */
    const void *bases;     /* the address of its __mro__, while it lives */
    PyObject *name, *path; /* str; strong, as is */
    PyObject *word_type;   /* the base that lamina has a word for, one of torch's; or NULL */
    int32_t word, n_attrs;
    uint32_t flags;
    bool script, packs;             /* packs: one of torch's own quantised layers */
    PyObject *attrs[LMX_MAX_ATTRS]; /* str, interned */
} lmx_class;

struct lmx_classes {
    lmx_vec all; /* lmx_class *: each stays where it is */
    lmx_map by_type;
    int asked; /* descriptions that are under way and hold on to some */
};

/* Before classes are asked for; `asked` goes down again when they are no more held on to. */
void lmx_classes_ask(lmx_classes *c);
/* NULL with an exception. */
const lmx_class *lmx_class_of(lmx_state *st, PyTypeObject *type);
/* The class's LAM_MODULE_ flags, as its forward is now. False with an exception. */
bool lmx_class_flags(lmx_state *st, const lmx_class *k, PyTypeObject *type, uint32_t *flags);
void lmx_classes_clear(lmx_classes *c);

/* Reads a value of Python's as an attribute: false where it is nothing that can be told. `*name` is a new
 * reference to what a text lives in, or NULL; `ints` has room for LMX_MAX_INTS. An exception may be pending.
 * (value.c) */
bool lmx_value_of(lmx_state *st, PyObject *o, int64_t *ints, PyObject **name, lam_value *v);
/* Whether it is of one of CPython's own types, whose values answer by themselves. (value.c) */
bool lmx_answers(PyObject *value);
/* Whether asking runs nothing of the user's, and, before the run (`early`), the answer stays what it is
 * unless the dict or list that holds the value changes. (value.c) */
bool lmx_asks_nobody(PyObject *value, bool early);

#endif
