/* SPDX-License-Identifier: Apache-2.0
 *
 * Models for the levels of the graph. Tensors are numbers, and all have the shape (2, 3): they matter only by
 * who makes and who reads them. */
#ifndef LAMINA_TEST_LEVEL_NET_H
#define LAMINA_TEST_LEVEL_NET_H

#include "kit/graph_net.h"

OOM_UNUSED static lam_op_arg level_tensor(int32_t position, uint64_t number) {
    static const int64_t sizes[] = {2, 3};
    return data_of(position, number, number, sizes, 2);
}

/* A module at a place; `type` a class without children, unless places are put below it. */
OOM_UNUSED static int32_t level_place(net *n, int32_t parent, const char *name, const char *type) {
    return net_place(n, parent, name, net_module(n, type, 0));
}

/* A call of module `module`, which level_place numbers as its place. */
OOM_UNUSED static int32_t level_call(net *n, int32_t module, int32_t parent, uint64_t in, uint64_t out) {
    const lam_op_arg x = level_tensor(0, in), y = level_tensor(0, out);
    return net_step_of(n, module, parent, &x, &y);
}

OOM_UNUSED static int32_t level_op(net *n, const char *name, int32_t call, lam_phase phase, uint64_t out,
                                   int32_t n_in, const uint64_t *in) {
    lam_op_arg args[32];
    const lam_op_arg y = level_tensor(0, out);
    assert_true(n_in <= 32);
    for (int32_t i = 0; i < n_in; i++) args[i] = level_tensor(i, in[i]);
    return net_op_args(n, name, (op_at){call, -1, phase, 0}, args, n_in, &y, 1);
}
/* OP(n, "relu", call, 5, 3, 4): the call makes tensor 5 of 3 and 4. */
#define OP(n, name, call, out, ...)                                                                          \
    level_op(n, "aten::" name, call, LAM_FORWARD, out,                                                       \
             (int32_t)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (uint64_t[]){__VA_ARGS__})

/* Calls a leaf: one operator, which makes `out` of `in`. */
OOM_UNUSED static void level_leaf(net *n, int32_t module, int32_t parent, uint64_t in, uint64_t out) {
    OP(n, "tanh", level_call(n, module, parent, in, out), out, in);
}

/* Net(blocks: ModuleList(0: Block(fc, act), ...), head): blocks of fc(act(x)) + x, which the root calls one
 * after the other. Block k is place 2 + 3 * k. */
OOM_UNUSED static lam_model *level_blocks(int32_t blocks) {
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net"), list = level_place(&n, root, "blocks", "ModuleList");
    for (int32_t k = 0; k < blocks; k++) {
        char name[16];
        snprintf(name, sizeof name, "%d", (int)k);
        int32_t block = level_place(&n, list, name, "Block");
        level_place(&n, block, "fc", "Linear");
        level_place(&n, block, "act", "ReLU");
    }
    int32_t head = level_place(&n, root, "head", "Linear");
    uint64_t x = 1, end = 10 + 10 * (uint64_t)blocks;
    int32_t call = level_call(&n, root, -1, 1, end);
    for (int32_t k = 0; k < blocks; k++, x += 10) {
        uint64_t in = k ? x : 1, made = 11 + 10 * (uint64_t)k;
        int32_t block = 2 + 3 * k, inner = level_call(&n, block, call, in, made);
        level_leaf(&n, block + 2, inner, in, made + 1);
        level_leaf(&n, block + 1, inner, made + 1, made + 2);
        OP(&n, "add", inner, made, made + 2, in);
    }
    level_leaf(&n, head, call, x, end);
    return net_done(&n);
}

#endif
