/* SPDX-License-Identifier: Apache-2.0
 * classes: the properties that all modules of one class share, found once in a process: walking the base
 * classes costs more than the rest of a small module's description. A class is identified by its address and
 * a weak reference, which shows whether it is still the same class; nothing is kept alive. */
#ifndef LMX_CLASSES_H
#define LMX_CLASSES_H

#include "base/ext.h"

enum { LMX_MAX_ATTRS = 32, LMX_MAX_INTS = 64 };

typedef struct lmx_class {
    PyObject *type;        /* weak reference */
    const void *bases;     /* the address of its __mro__, while it lives */
    PyObject *name, *path; /* str; strong, as is */
    PyObject *word_type;   /* the base class of torch that has a word; or NULL */
    int32_t word, n_attrs;
    uint32_t flags;
    bool script, packs;             /* packs: one of torch's own quantised layers */
    PyObject *attrs[LMX_MAX_ATTRS]; /* str, interned */
} lmx_class;

struct lmx_classes {
    lmi_vec all; /* lmx_class *: each keeps its address */
    lmi_map by_type;
    int asked; /* descriptions in progress that use some */
};

/* Call it before lmx_class_of; decrement `asked` when the classes are no longer used. */
void lmx_classes_ask(lmx_classes *c);
/* NULL with an exception. */
const lmx_class *lmx_class_of(lmx_state *st, PyTypeObject *type);
/* The class's LAM_MODULE_ flags, as its forward is now. False with an exception. */
bool lmx_class_flags(lmx_state *st, const lmx_class *k, PyTypeObject *type, uint32_t *flags);
void lmx_classes_clear(lmx_classes *c);

/* Reads a Python value as an attribute: false if it has no such type. `*name` is a new reference to the owner
 * of a text, or NULL; `ints` has room for LMX_MAX_INTS. An exception may be pending. (attribute.c) */
bool lmx_value_of(lmx_state *st, PyObject *o, int64_t *ints, PyObject **name, lam_value *v);
/* True for values of CPython's own types, which can be read without user code. (attribute.c) */
bool lmx_answers(PyObject *value);
/* True if reading runs no user code and, before the run (`early`), the result stays the same unless the dict
 * or list that holds the value changes. (attribute.c) */
bool lmx_asks_nobody(PyObject *value, bool early);

#endif
