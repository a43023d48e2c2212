/* SPDX-License-Identifier: Apache-2.0
 * turns: whose turn it is. Calls of a root are of four kinds, with and without gradients in train and in eval
 * mode, each of which is counted apart, and of each one call of so many begins a step that is seen. No Python
 * runs here: counted.c and sample.c ask it at each call, _watch.py through the type Turns (turns.c). */
#ifndef LMX_TURNS_H
#define LMX_TURNS_H

#include "base/base.h"

enum { LMX_TRAINING = 1, LMX_GRAD = 2, LMX_KINDS = 4 };
/* Calls that a step may take up before its backward begins. */
enum { LMX_MOST_CALLS = 256 };

typedef struct lmx_turn {
    int64_t calls;  /* so far */
    int64_t next;   /* the call that is to begin a step: the first one from it on that can */
    int64_t window; /* where the window of calls begins out of which that one was chosen */
    int64_t waited; /* calls that were watched to find out where the coming step begins */
    uint32_t n;     /* steps that were seen */
    int several;    /* above 0: some step had several calls, so one may be under way anywhere */
    bool alone;     /* calls that no backward follows: each is a step */
    bool at_start;  /* the next call begins a step; that was waited for */
} lmx_turn;

typedef struct lmx_turns {
    PyObject_HEAD int64_t every;
    double shift; /* of places in windows: roots that are called together are not all seen together */
    lmx_turn of[LMX_KINDS];
    int kind;       /* of the step that is being seen; -1: none is */
    int64_t number; /* of its first call among those of its kind */
    int64_t taken;  /* calls that it took up so far */
    bool waits;     /* what is under way is no step from its beginning: the next one will be seen */
    bool fresh;     /* nothing with gradients was called since a backward was seen to its end */
} lmx_turns;

/* A call that nobody has to know of, and most are: it is counted, which is all. */
static inline bool lmx_turns_skip(lmx_turns *t, int kind) {
    lmx_turn *k = &t->of[kind];
    if (t->kind >= 0 || k->calls >= k->next || k->at_start) return false;
    k->calls++;
    if (kind & LMX_GRAD) t->fresh = false;
    return true;
}
/* While a step is being seen: true when this call is one of it. Else it has to be ended before this call
 * can begin another. `went_back`: a backward pass was seen in it, or can't be. */
bool lmx_turns_goes_on(lmx_turns *t, int kind, bool went_back);
/* Ends the step: false where it was only waited through, and is not to be recorded. */
bool lmx_turns_end(lmx_turns *t, bool went_back);
/* While none is being seen: true when one begins with this call. */
bool lmx_turns_begin(lmx_turns *t, int kind);
/* The step is given up, and the next one seen in its place. */
void lmx_turns_again(lmx_turns *t);

lmx_turns *lmx_turns_of(lmx_state *st, PyObject *o); /* NULL with an exception */

#endif
