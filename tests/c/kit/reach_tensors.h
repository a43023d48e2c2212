/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up tensors, and what each of their elements depends on: sets of input elements that are carried along
 * by the definitions of operators. */
#ifndef LAMINA_TEST_REACH_TENSORS_H
#define LAMINA_TEST_REACH_TENSORS_H

#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/ops_net.h"

#include <stdio.h>
#include <stdlib.h>

enum { AXES = 5, ELEMENTS = 512, LONGEST = 7, ARGS = 10 };

/* A tensor, and for each element the elements of the input (64 at most) that it depends on. */
typedef struct tensor {
    uint64_t number;
    int32_t ndim;
    int64_t sizes[AXES];
    uint64_t deps[ELEMENTS];
} tensor;

static int64_t count(const tensor *t) {
    int64_t n = 1;
    for (int32_t i = 0; i < t->ndim; i++) n *= t->sizes[i];
    return n;
}

static void place_in(const tensor *t, int64_t element, int64_t at[AXES]) {
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
        at[i] = element % t->sizes[i];
        element /= t->sizes[i];
    }
}

static int64_t element_at(const tensor *t, const int64_t at[AXES]) {
    int64_t element = 0;
    for (int32_t i = 0; i < t->ndim; i++) element = element * t->sizes[i] + at[i];
    return element;
}

static lam_op_arg arg_of(int32_t position, const tensor *t) {
    return data_of(position, t->number, t->number, t->sizes, t->ndim);
}

/* -- the operator in hand ---------------------------------------------------------------------- */

typedef struct chain {
    net n;
    int32_t call, length;
    tensor was, now; /* before the last operator, and after it */
    char text[512];
    lam_op_arg in[ARGS];
    int32_t n_in;
    int64_t ints[ARGS][AXES * 2];
} chain;

static void put_ints(chain *c, int32_t position, int32_t n, ...) {
    va_list more;
    va_start(more, n);
    for (int32_t i = 0; i < n; i++) c->ints[c->n_in][i] = va_arg(more, int64_t);
    va_end(more);
    c->in[c->n_in] = ints_at(position, c->ints[c->n_in], n);
    c->n_in++;
}

static void put_int(chain *c, int32_t position, int64_t i) { c->in[c->n_in++] = int_at(position, i); }
static void put_tensor(chain *c, int32_t position, const tensor *t) {
    c->in[c->n_in++] = arg_of(position, t);
}

/* The operator ran on what was put; `now` is its result, of which the sizes are told. */
static void ran(chain *c, const char *name) {
    const lam_op_arg out = arg_of(0, &c->now);
    net_op_args(&c->n, name, (op_at){c->call, -1, LAM_FORWARD, 0}, c->in, c->n_in, &out, 1);
    snprintf(c->text + strlen(c->text), sizeof c->text - strlen(c->text), " %s", name + 6);
}

/* Element `from` of the one argument, found for each of the result's. */
typedef bool (*reads)(const chain *c, const int64_t out[AXES], const int64_t in[AXES]);

static void carry(chain *c, reads r) {
    int64_t out[AXES], in[AXES];
    for (int64_t o = 0; o < count(&c->now); o++) {
        c->now.deps[o] = 0;
        place_in(&c->now, o, out);
        for (int64_t i = 0; i < count(&c->was); i++) {
            place_in(&c->was, i, in);
            if (r(c, out, in)) c->now.deps[o] |= c->was.deps[i];
        }
    }
}

/* What the operator in hand was drawn to do. */
static int32_t dim;
static int64_t first, step, window, by[AXES];

static void start(chain *c) {
    c->was = c->now;
    c->now.number = c->was.number + 1;
    c->n_in = 0;
    dim = (int32_t)draw(0, c->was.ndim - 1);
    put_tensor(c, 0, &c->was);
}

#endif
