/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators for the models of net.h, pushed as a watching source would. A tensor whose source matters is
 * named by a number, which stands for its memory too; a view has a number of its own and the memory of
 * another. */
#ifndef LAMINA_TEST_OPS_NET_H
#define LAMINA_TEST_OPS_NET_H

#include "kit/net.h"

/* A float32 tensor at a position of the schema. */
#define T(at, ...) net_op_tensor(at, SH(__VA_ARGS__))
/* A tensor whose shape nobody saw. */
#define T_UNSEEN(at) net_op_tensor(at, NULL, -1)

OOM_UNUSED static lam_op_arg net_op_tensor(int32_t position, const int64_t *sizes, int32_t ndim) {
    return (lam_op_arg){.position = position,
                        .is_tensor = true,
                        .dtype = NET_FLOAT32,
                        .device = 0,
                        .ndim = ndim,
                        .sizes = sizes};
}

typedef struct op_at {
    int32_t call, parent;
    lam_phase phase;
    uint32_t flags;
} op_at;

OOM_UNUSED static int32_t net_op_args(net *n, const char *name, op_at at, const lam_op_arg *in, int32_t n_in,
                                      const lam_op_arg *out, int32_t n_out) {
    int32_t index = -1;
    lam_op_info o = {.name = name,
                     .call = at.call,
                     .parent = at.parent,
                     .phase = at.phase,
                     .flags = at.flags,
                     .n_in = n_in,
                     .n_out = n_out,
                     .in = in,
                     .out = out};
    NET_OK(n, lam_build_op(n->b, &o, &index, &n->e));
    return index;
}

/* An operator without tensors: a wrapper, or one whose arguments don't matter. */
OOM_UNUSED static int32_t net_op(net *n, const char *name, op_at at) {
    return net_op_args(n, name, at, NULL, 0, NULL, 0);
}

/* (rows, inner) times (inner, columns): rows * inner * columns MACs. */
OOM_UNUSED static int32_t net_mm(net *n, op_at at, int64_t rows, int64_t inner, int64_t columns) {
    const lam_op_arg in[] = {T(0, rows, inner), T(1, inner, columns)};
    lam_op_arg out[] = {T(0, rows, columns)};
    out[0].object = 8; /* so that whose memory it is is told */
    return net_op_args(n, "aten::mm", at, in, 2, out, at.flags & LAM_OP_FAILED ? 0 : 1);
}

OOM_UNUSED static int32_t net_relu(net *n, op_at at, int64_t size) {
    const lam_op_arg in[] = {T(0, size)}, out[] = {T(0, size)};
    return net_op_args(n, "aten::relu", at, in, 1, out, 1);
}

/* Net(fc: Linear(3, 4), act: ReLU, mine: Mine(inner: Linear)) with the calls root, fc, act, mine. `inner`
 * is not called: Mine computes with its weight. */
typedef struct net_calls {
    int32_t root, fc, act, mine;
} net_calls;
OOM_UNUSED static net_calls net_plain(net *n) {
    int32_t root = net_module(n, "Net", 0), fc = net_linear(n, 3, 4), act = net_leaf(n, "ReLU");
    int32_t mine = net_module(n, "Mine", 0), inner = net_linear(n, 4, 5), p = net_place(n, -1, "", root);
    net_place(n, p, "fc", fc);
    net_place(n, p, "act", act);
    net_place(n, net_place(n, p, "mine", mine), "inner", inner);
    net_calls c;
    c.root = net_call(n, root, -1, SH(2, 3), 0, SH(2, 5), 0);
    c.fc = net_call(n, fc, c.root, SH(2, 3), 0, SH(2, 4), 0);
    c.act = net_call(n, act, c.root, SH(2, 4), 0, SH(2, 4), 0);
    c.mine = net_call(n, mine, c.root, SH(2, 4), 0, SH(2, 5), 0);
    return c;
}

/* net_plain with its operators: forward, backward, one recomputed, one of somebody's own, one that raised,
 * and one outside every call. MACs forward: fc 24, mine 40, outside 6; backward: fc 48; recomputed: fc 24. */
OOM_UNUSED static lam_model *net_step(void) {
    net n = net_new();
    net_calls c = net_plain(&n);
    int32_t linear = net_op(&n, "aten::linear", (op_at){c.fc, -1, LAM_FORWARD, 0});
    int32_t t = net_op(&n, "aten::t", (op_at){c.fc, linear, LAM_FORWARD, 0});
    net_op(&n, "aten::transpose", (op_at){c.fc, t, LAM_FORWARD, 0});
    net_mm(&n, (op_at){c.fc, linear, LAM_FORWARD, 0}, 2, 3, 4);
    net_relu(&n, (op_at){c.act, -1, LAM_FORWARD, 0}, 8);
    net_mm(&n, (op_at){c.mine, -1, LAM_FORWARD, 0}, 2, 4, 5);
    net_op(&n, "my::op", (op_at){c.mine, -1, LAM_FORWARD, 0});
    net_op(&n, "my::op", (op_at){c.mine, -1, LAM_FORWARD, 0});
    net_mm(&n, (op_at){c.mine, -1, LAM_FORWARD, LAM_OP_FAILED}, 2, 4, 500);
    net_mm(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 1, 2, 3);
    int32_t node = net_op(&n, "MmBackward0", (op_at){c.fc, -1, LAM_BACKWARD, LAM_OP_NODE});
    net_mm(&n, (op_at){c.fc, node, LAM_RECOMPUTE, 0}, 2, 3, 4);
    net_mm(&n, (op_at){c.fc, node, LAM_BACKWARD, 0}, 3, 2, 4);
    net_mm(&n, (op_at){c.fc, node, LAM_BACKWARD, 0}, 2, 4, 3);
    return net_done(&n);
}

/* -- whose data goes where --------------------------------------------------------------------------------
 */

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

/* -- levels of the graph: tensors of the shape (2, 3), which matter only by who makes and who reads them
 * ---------- */

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
