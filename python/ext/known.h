/* SPDX-License-Identifier: Apache-2.0
 * known: what the dicts of a module told, for the next capture of the same model. CPython gives a dict a
 * number whenever it changes that no dict had before (PEP 509; up to 3.12): where a module's dicts have the
 * numbers that they had, they tell what they told, and need not be looked through. Nothing is kept alive: an
 * address is only followed once the number of the dict that holds it was found to be the same. */
#ifndef LMX_KNOWN_H
#define LMX_KNOWN_H

#include "classes.h"

enum { LMX_MAX_INTS = 64 };

/* Reads a value of Python's as an attribute: `*told` false where it is nothing that can be told. `*name` is a
 * new reference to what a text lives in, or NULL; `ints` has room for LMX_MAX_INTS. An exception may be
 * pending. (value.c) */
bool lmx_value_of(lmx_state *st, PyObject *o, int64_t *ints, PyObject **name, lam_value *v);
/* Whether it is of one of CPython's own types, whose values answer by themselves. (value.c) */
bool lmx_answers(PyObject *value);
/* Whether asking runs nothing of the user's, and, before the run (`early`), the answer stays what it is
 * unless the dict or list that holds the value changes. (value.c) */
bool lmx_asks_nobody(PyObject *value, bool early);
/* None, or a number or text of Python's own types: it answers by itself, and stays what it is. */
static inline bool lmx_is_settled(PyObject *o)
{
    return o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
           PyUnicode_CheckExact(o);
}

typedef struct lmx_stamp { /* of a dict: where it is, and its number */
    const void *dict;
    uint64_t number;
} lmx_stamp;

enum { LMX_OWN_DICT, LMX_CHILDREN, LMX_PARAMETERS, LMX_BUFFERS, LMX_STAMPS };

typedef struct lmx_known { /* a module */
    const void *module, *type; /* addresses */
    const lmx_class *class;
    lmx_stamp stamps[LMX_STAMPS];
    size_t at, owned_at, attrs_at, end; /* words: its children, tensors and attributes */
    uint32_t flags;                     /* LAM_MODULE_, as far as its dict tells */
} lmx_known;

struct lmx_knowns {
    lmx_vec all;   /* lmx_known */
    lmx_vec words; /* uint64_t */
    lmx_map by_module;
    uint32_t generation; /* of the classes */
    int8_t numbered;     /* dicts have numbers: 1 yes, -1 no, 0 not asked */
    int busy;            /* who notes or tells something now: of several threads, several may */
    bool full, used;     /* there is no room for more; the description that runs told something again */
};

/* What is noted of one module while it is described. */
typedef struct lmx_noting {
    bool open, holds; /* holds: nobody else notes meanwhile */
    lmx_known now;
} lmx_noting;

typedef struct lmx_child {
    PyObject *name, *module;
} lmx_child;

typedef struct lmx_tensor_of {
    const char *name;
    PyObject *tensor;
    bool is_buffer;
} lmx_tensor_of;

typedef struct lmx_attr_of {
    const char *name;
    lam_value value; /* its ints and text live as long as the record and the module's dict do */
} lmx_attr_of;

/* The module's record among them, which may not hold any more; -1: there is none. */
int32_t lmx_known_of(lmx_state *st, const PyObject *module);
/* The record, if the children that it names are still those of the module; the other: if its tensors and
 * attributes are. `dict` is the module's own, which lives. Else NULL. */
const lmx_known *lmx_known_children(lmx_state *st, int32_t i, const PyObject *module, const PyObject *dict);
const lmx_known *lmx_known_rest(lmx_state *st, int32_t i, const PyObject *module, const PyObject *dict);
/* The same of a record that was given and is still held on to, once code of the user's may have run. */
bool lmx_known_holds(const lmx_known *of);
/* Brings what lmx_known_rest and its reader will look at nearer to the processor. */
void lmx_known_ahead(lmx_state *st, int32_t i, const PyObject *module);

/* The item at word `*at`, which is moved on; false at the end. */
bool lmx_known_child(const lmx_knowns *k, const lmx_known *of, size_t *at, lmx_child *out);
bool lmx_known_tensor(const lmx_knowns *k, const lmx_known *of, size_t *at, lmx_tensor_of *out);
bool lmx_known_attr(const lmx_knowns *k, const lmx_known *of, size_t *at, lmx_attr_of *out);

void lmx_knowns_begin(lmx_state *st); /* a description begins, which has asked for its classes */
/* Begins to note a module, with its children; tensors and then attributes follow. Without numbers or room
 * nothing is noted by this and the others. None of them fails: what can't be noted is looked through again
 * the next time. */
void lmx_note_begin(lmx_state *st, lmx_noting *n, PyObject *module, PyObject *dict, const lmx_class *class);
void lmx_note_tensor(lmx_state *st, lmx_noting *n, const char *name, PyObject *tensor, bool is_buffer);
void lmx_note_attr(lmx_state *st, lmx_noting *n, const char *name, PyObject *o, const lam_value *v);
void lmx_note_nothing(lmx_noting *n); /* it is told by more than its dicts */
void lmx_note_end(lmx_state *st, lmx_noting *n, uint32_t flags);

void lmx_knowns_clear(lmx_knowns *k);

#endif
