/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls near a good one: one argument is of another size or type, has an axis less, or is another number. */
#ifndef LAMINA_TEST_NEAR_ARGS_H
#define LAMINA_TEST_NEAR_ARGS_H

#include "kit/shape_args.h"

enum { NEAR_ARGS = 24, NEAR_AXES = 8 };

/* What is done with each; `how` says which argument is changed and in what way. */
typedef void (*near_ask)(const char *name, const lam_op_arg *in, int32_t n, const char *how);

typedef struct near_call {
    const char *name;
    lam_op_arg in[NEAR_ARGS];
    int32_t n;
    int64_t ints[NEAR_AXES + 1]; /* of the argument that is changed */
    near_ask ask;
} near_call;

static void near_try(near_call *c, int32_t i, const char *what) {
    char how[48];
    snprintf(how, sizeof how, "%d %s", (int)c->in[i].position, what);
    c->ask(c->name, c->in, c->n, how);
}

static void near_tensor(near_call *c, int32_t i) {
    static const int32_t dtypes[] = {4, 5, 7, 9, 11, 15};
    char what[24];
    lam_op_arg *a = &c->in[i];
    const lam_op_arg was = *a;
    const int32_t ndim = a->ndim > NEAR_AXES ? NEAR_AXES : a->ndim;
    for (int32_t k = 0; k < ndim; k++)
        for (int64_t more = -1; more < 2; more += 2) {
            memcpy(c->ints, was.sizes, (size_t)ndim * sizeof *c->ints);
            c->ints[k] += more;
            a->sizes = c->ints;
            snprintf(what, sizeof what, "axis %d %+d", (int)k, (int)more);
            if (c->ints[k] >= 0) near_try(c, i, what);
        }
    *a = was;
    a->ndim = ndim - (ndim > 0);
    near_try(c, i, "axis less");
    *a = was;
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        a->dtype = dtypes[k];
        snprintf(what, sizeof what, "dtype %d", (int)dtypes[k]);
        near_try(c, i, what);
    }
    *a = was;
}

static void near_value(near_call *c, int32_t i) {
    lam_op_arg *a = &c->in[i];
    const lam_op_arg was = *a;
    const int32_t n = was.value.n > NEAR_AXES ? NEAR_AXES : was.value.n;
    if (was.value.type == LAM_INT || was.value.type == LAM_BOOL) {
        a->value.i = was.value.type == LAM_BOOL ? !was.value.i : was.value.i + 1;
        near_try(c, i, "more");
        a->value.i = was.value.type == LAM_BOOL ? was.value.i : was.value.i - 1;
        near_try(c, i, "less");
    } else if (was.value.type == LAM_INTS) {
        for (int32_t k = 0; k < n; k++)
            for (int64_t more = -1; more < 2; more += 2) {
                memcpy(c->ints, was.value.ints, (size_t)n * sizeof *c->ints);
                c->ints[k] += more;
                a->value.ints = c->ints;
                near_try(c, i, more > 0 ? "entry more" : "entry less");
            }
        *a = was;
        a->value.n = n - (n > 0);
        near_try(c, i, "shorter");
    }
    *a = was;
}

OOM_UNUSED static void near_calls(const char *name, const lam_op_arg *in, int32_t n, near_ask ask) {
    near_call c = {.name = name, .n = n, .ask = ask};
    assert_true(n <= NEAR_ARGS);
    memcpy(c.in, in, (size_t)n * sizeof *in);
    ask(name, in, n, "as it is");
    for (int32_t i = 0; i < n; i++) {
        const lam_op_arg was = c.in[i];
        if (was.is_tensor)
            near_tensor(&c, i);
        else
            near_value(&c, i);
        c.in[i] = nothing(was.position);
        near_try(&c, i, "none");
        c.in[i] = was;
    }
}

#endif
