/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of an operator whose results' shapes are asked for. */
#ifndef LAMINA_TEST_SHAPE_ARGS_H
#define LAMINA_TEST_SHAPE_ARGS_H

#include "kit/ops_net.h"

OOM_UNUSED static lam_op_arg of_type(lam_op_arg a, int32_t dtype) {
    a.dtype = dtype;
    return a;
}
OOM_UNUSED static lam_op_arg whole(int32_t at, int64_t i) {
    return (lam_op_arg){.position = at, .value = {.type = LAM_INT, .i = i}, .ndim = -1};
}
OOM_UNUSED static lam_op_arg flag(int32_t at, bool yes) {
    return (lam_op_arg){.position = at, .value = {.type = LAM_BOOL, .i = yes}, .ndim = -1};
}
OOM_UNUSED static lam_op_arg real(int32_t at, double f) {
    return (lam_op_arg){.position = at, .value = {.type = LAM_FLOAT, .f = f}, .ndim = -1};
}
OOM_UNUSED static lam_op_arg nothing(int32_t at) { return (lam_op_arg){.position = at, .ndim = -1}; }
OOM_UNUSED static lam_op_arg list(int32_t at, const int64_t *ints, int32_t n) {
    return (lam_op_arg){.position = at, .value = {.type = LAM_INTS, .n = n, .ints = ints}, .ndim = -1};
}

/* A list of integers on the spot: LIST(3, 1, 1). */
#define LIST(at, ...) list(at, SH(__VA_ARGS__))

OOM_UNUSED static lam_result got[LAM_MAX_RESULTS]; /* what shapes_of gave */

OOM_UNUSED static int32_t shapes_of(const char *name, const lam_op_arg *in, int32_t n) {
    return lam_shape_run(lam_shape_rule(name), in, n, got);
}

#endif
