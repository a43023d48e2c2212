/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators for the models of net.h, pushed as a watching source would. */
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
typedef struct net_calls { int32_t root, fc, act, mine; } net_calls;
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

#endif
