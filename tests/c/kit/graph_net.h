/* SPDX-License-Identifier: Apache-2.0
 *
 * Models whose operators tell where their data comes from. A tensor is named by a number,
 * which stands for its memory too; a view has a number of its own and the memory of another. */
#ifndef LAMINA_TEST_GRAPH_NET_H
#define LAMINA_TEST_GRAPH_NET_H

#include "kit/ops_net.h"

OOM_UNUSED static lam_op_arg data_of(int32_t position, uint64_t object, uint64_t memory, const int64_t *sizes,
                                     int32_t ndim) {
    lam_op_arg a = net_op_tensor(position, sizes, ndim);
    a.object = object;
    a.storage = memory;
    return a;
}
/* Tensor number `n` at a position of the schema; V: a view of the memory of tensor `of`. */
#define D(at, n, ...)     data_of(at, n, n, SH(__VA_ARGS__))
#define V(at, n, of, ...) data_of(at, n, of, SH(__VA_ARGS__))

OOM_UNUSED static lam_op_arg ints_at(int32_t position, const int64_t *ints, int32_t n) {
    return (lam_op_arg){.position = position,
                        .dtype = -1,
                        .device = -1,
                        .ndim = -1,
                        .value = {.type = LAM_INTS, .n = n, .ints = ints}};
}
OOM_UNUSED static lam_op_arg int_at(int32_t position, int64_t i) {
    return (lam_op_arg){
        .position = position, .dtype = -1, .device = -1, .ndim = -1, .value = {.type = LAM_INT, .i = i}};
}
#define I(at, ...) ints_at(at, SH(__VA_ARGS__))
#define N(at, i)   int_at(at, i)

#define IN(...)                                                                                              \
    (const lam_op_arg[]){__VA_ARGS__}, (int32_t)(sizeof((lam_op_arg[]){__VA_ARGS__}) / sizeof(lam_op_arg))
#define OUT(a) (const lam_op_arg[]){a}, 1

/* A parameter of `module` that is tensor number `number`. */
OOM_UNUSED static int32_t net_numbered(net *n, int32_t module, const char *name, uint64_t number, bool grad,
                                       const int64_t *sizes, int32_t ndim) {
    int32_t index = -1;
    lam_tensor_info t = {.dtype = NET_FLOAT32,
                         .ndim = ndim,
                         .sizes = sizes,
                         .bytes = -1,
                         .requires_grad = grad,
                         .storage = number,
                         .object = number};
    NET_OK(n, lam_build_tensor(n->b, &t, &index, &n->e));
    net_owns(n, module, name, index);
    return index;
}

/* A call with one tensor in and one out, both by number. */
OOM_UNUSED static int32_t net_step_of(net *n, int32_t module, int32_t parent, const lam_op_arg *x,
                                      const lam_op_arg *y) {
    int32_t index = -1;
    lam_arg in = {NULL, 0, NET_FLOAT32, 0, x->ndim, x->sizes, x->storage, x->storage, x->object};
    lam_arg out = {NULL, 0, NET_FLOAT32, 0, y->ndim, y->sizes, y->storage, y->storage, y->object};
    lam_call_info c = {.module = module, .parent = parent, .n_in = 1, .in = &in, .n_out = 1, .out = &out};
    NET_OK(n, lam_build_call(n->b, &c, &index, &n->e));
    return index;
}

/* Odd "net"(conv, fc): fc(view(relu_(conv(x)) + x)); what neg gives is used by nothing. */
OOM_UNUSED static lam_model *net_residual(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Odd \"net\"\\\n", 0), conv = net_leaf(&n, "Conv1d"),
            fc = net_leaf(&n, "Linear");
    net_numbered(&n, conv, "weight", 100, true, SH(4, 4, 3));
    net_numbered(&n, fc, "weight", 101, true, SH(2, 32));
    net_numbered(&n, fc, "bias", 102, false, SH(2));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "conv", conv);
    net_place(&n, p, "fc", fc);
    const lam_op_arg x = D(0, 1, 1, 4, 8), h = D(0, 10, 1, 4, 8), y = D(0, 14, 1, 2),
                     flat = V(0, 12, 11, 1, 32);
    int32_t r = net_step_of(&n, root, -1, &x, &y), c = net_step_of(&n, conv, r, &x, &h);
    int32_t f = net_step_of(&n, fc, r, &flat, &y);
    int32_t outer =
        net_op_args(&n, "aten::conv1d", (op_at){c, -1, LAM_FORWARD, 0}, IN(x, D(1, 100, 4, 4, 3)), OUT(h));
    net_op_args(&n, "aten::convolution", (op_at){c, outer, LAM_FORWARD, 0},
                IN(x, D(1, 100, 4, 4, 3), I(3, 1), I(4, 1), I(5, 1)), OUT(h));
    net_op_args(&n, "aten::relu_", (op_at){r, -1, LAM_FORWARD, 0}, IN(h), OUT(h));
    net_op_args(&n, "aten::add", (op_at){r, -1, LAM_FORWARD, 0}, IN(h, D(1, 1, 1, 4, 8)),
                OUT(D(0, 11, 1, 4, 8)));
    net_op_args(&n, "aten::view", (op_at){r, -1, LAM_FORWARD, 0}, IN(D(0, 11, 1, 4, 8), I(1, 1, 32)),
                OUT(flat));
    outer = net_op_args(&n, "aten::linear", (op_at){f, -1, LAM_FORWARD, 0},
                        IN(flat, D(1, 101, 2, 32), D(2, 102, 2)), OUT(y));
    net_op_args(&n, "aten::t", (op_at){f, outer, LAM_FORWARD, 0}, IN(D(0, 101, 2, 32)),
                OUT(V(0, 13, 101, 32, 2)));
    net_op_args(&n, "aten::addmm", (op_at){f, outer, LAM_FORWARD, 0},
                IN(D(0, 102, 2), V(1, 12, 11, 1, 32), V(2, 13, 101, 32, 2)), OUT(y));
    net_op_args(&n, "aten::neg", (op_at){r, -1, LAM_FORWARD, 0}, IN(D(0, 11, 1, 4, 8)),
                OUT(D(0, 15, 1, 4, 8)));
    return net_done(&n);
}

#endif
