/* SPDX-License-Identifier: Apache-2.0
 *
 * One training step of which everything was seen: operators, times and memory of the host and of a device,
 * values. */
#ifndef LAMINA_TEST_FULL_NET_H
#define LAMINA_TEST_FULL_NET_H

#include "kit/ops_net.h"

enum { FULL_KIB = 1024 };

typedef struct full_step_of {
    int32_t root, conv, fc;
} full_step_of;

static int32_t full_call_of(net *n, int32_t module, int32_t parent, int64_t t0, int64_t t1, lam_op_arg x,
                            lam_op_arg y) {
    int32_t index = -1;
    const bool outer = parent < 0;
    const lam_arg in[] = {{outer ? "pixels" : NULL, outer ? -1 : 0, NET_FLOAT32, 0, x.ndim, x.sizes,
                           x.storage, x.storage, x.object},
                          {"mask", -1, -1, -1, -1, NULL, 0, 0, 0}};
    const lam_arg out = {NULL, 0, NET_FLOAT32, 0, y.ndim, y.sizes, y.storage, y.storage, y.object};
    lam_call_info c = {
        .module = module, .parent = parent, .t0_ns = t0, .t1_ns = t1, .n_out = 1, .in = in, .out = &out};
    c.n_in = outer ? 2 : 1;
    NET_OK(n, lam_build_call(n->b, &c, &index, &n->e));
    return index;
}

static lam_op_arg full_result(int32_t position, uint64_t number, const int64_t *sizes, int32_t ndim) {
    return data_of(position, number, number, sizes, ndim);
}

static void full_operators(net *n, full_step_of s) {
    const lam_op_arg x = D(0, 1, 1, 4, 8), h = D(0, 10, 1, 4, 8), flat = V(0, 12, 10, 1, 32),
                     y = D(0, 14, 1, 2);
    net_op_args(n, "aten::convolution", (op_at){s.conv, -1, LAM_FORWARD, 0},
                IN(x, D(1, 100, 4, 4, 3), I(3, 1), I(4, 1), I(5, 1)), OUT(h));
    net_op_args(n, "my::op", (op_at){s.conv, -1, LAM_FORWARD, 0}, IN(h), OUT(D(0, 20, 1, 4, 8)));
    net_op_args(n, "aten::view", (op_at){s.root, -1, LAM_FORWARD, 0}, IN(h, I(1, 1, 32)), OUT(flat));
    net_op_args(n, "aten::addmm", (op_at){s.fc, -1, LAM_FORWARD, 0},
                IN(D(0, 102, 2), V(1, 12, 10, 1, 32), D(2, 101, 32, 2)), OUT(y));
    const int32_t node = net_node(n, "AddmmBackward0", s.fc, 1500, 1600);
    net_op_args(n, "aten::mm", (op_at){s.fc, node, LAM_RECOMPUTE, 0}, IN(T(0, 1, 2), T(1, 2, 32)),
                OUT(full_result(0, 30, SH(1, 32))));
    net_op_args(n, "aten::mm", (op_at){s.fc, node, LAM_BACKWARD, 0}, IN(T(0, 1, 2), T(1, 2, 32)),
                OUT(full_result(0, 31, SH(1, 32))));
}

static void full_memory(net *n, full_step_of s) {
    const lam_block blocks[] = {
        {.bytes = 64 * FULL_KIB,
         .order = 0,
         .call = -1,
         .freed_call = -1,
         .tensor = -1,
         .held = LAM_HELD_INPUT},
        {.bytes = 4 * FULL_KIB,
         .order = 1,
         .call = s.conv,
         .freed_call = -1,
         .tensor = 0,
         .held = LAM_HELD_OTHER},
        {.bytes = 2 * FULL_KIB,
         .order = 2,
         .freed_order = 4,
         .call = s.fc,
         .freed_call = -1,
         .tensor = -1,
         .held = LAM_HELD_OTHER},
        {.bytes = FULL_KIB,
         .order = 5,
         .call = s.fc,
         .freed_call = -1,
         .tensor = -1,
         .phase = LAM_BACKWARD,
         .held = LAM_HELD_OTHER},
    };
    const lam_span spans[] = {{0, 4, s.root, LAM_FORWARD},
                              {0, 1, s.conv, LAM_FORWARD},
                              {1, 3, s.fc, LAM_FORWARD},
                              {4, 5, s.fc, LAM_BACKWARD}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        NET_OK(n, lam_build_block(n->b, &blocks[i], &n->e));
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        NET_OK(n, lam_build_span(n->b, &spans[i], &n->e));
    NET_OK(n, lam_build_memory(n->b, &(lam_memory_info){"a test", 1000, 3000, 2000, false}, &n->e));
}

/* Moments: opening, root, conv, conv left, fc, fc left, root left, fc's node, left. */
static void full_device(net *n, full_step_of s) {
    static const int64_t now[] = {100, 110, 120, 5150, 145, 165, 160, 160, 90},
                         peak[] = {500, 110, 130, 6200, 5150, 165, 165, 160, 4260},
                         got[] = {1000, 1010, 1030, 7130, 7130, 7150, 7150, 7150, 12250};
    for (int i = 0; i < 9; i++) {
        const lam_device_bytes b = {now[i], peak[i], got[i], got[i] - now[i], 1000 + 10 * i};
        NET_OK(n, lam_build_device_bytes(n->b, &b, &n->e));
    }
    const lam_span uses[] = {{1, 6, s.root, LAM_FORWARD},
                             {2, 3, s.conv, LAM_FORWARD},
                             {4, 5, s.fc, LAM_FORWARD},
                             {7, 8, s.fc, LAM_BACKWARD}};
    for (int i = 0; i < 4; i++) NET_OK(n, lam_build_device_use(n->b, &uses[i], &n->e));
    const lam_device_span spans[] = {
        {.call = s.root, .t0_ns = 100, .t1_ns = 1100},
        {.call = s.conv, .t0_ns = 150, .t1_ns = 450},
        {.call = s.fc, .t0_ns = 450, .t1_ns = 1050},
        {.call = s.fc, .t0_ns = 2010, .t1_ns = 2510, .node = true, .pass = 1, .host_ns = 1500}};
    for (int i = 0; i < 4; i++) NET_OK(n, lam_build_device_span(n->b, &spans[i], &n->e));
}

static void full_values(net *n, full_step_of s) {
    const lam_checked looked = {.tensors = 4, .bytes = 96, .unseen = 1, .gradients = true, .operators = true};
    const lam_stats stats = {.numbers = 32,
                             .zeros = 3,
                             .subnormal = 1,
                             .mean = 0.5,
                             .least = -1.25,
                             .greatest = 2,
                             .headroom = 1e9};
    const lam_bad born = {.side = LAM_BAD_OUTPUT,
                          .call = s.conv,
                          .calls = 2,
                          .from = -1,
                          .dtype = NET_FLOAT32,
                          .found = {.nan = 1, .inf = 2, .first = 4},
                          .ndim = 3,
                          .sizes = (const int64_t[]){1, 4, 8}};
    const lam_bad node = {.side = LAM_BAD_NODE,
                          .phase = LAM_BACKWARD,
                          .call = s.fc,
                          .calls = 3,
                          .from = -1,
                          .fed = true,
                          .pass = 1,
                          .dtype = -1,
                          .ndim = -1};
    NET_OK(n, lam_build_bad(n->b, &born, &n->e));
    NET_OK(n, lam_build_bad(n->b, &node, &n->e));
    NET_OK(n, lam_build_stats(n->b, s.conv, 0, &stats, &n->e));
    NET_OK(n, lam_build_checked(n->b, &looked, &n->e));
}

/* Net(conv, fc, idle): fc(view(conv(x))). conv's weight is spread over two processes, idle is not called and
 * holds a weight that is packed. */
OOM_UNUSED static lam_model *full_step(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), conv = net_leaf(&n, "Conv1d"), fc = net_leaf(&n, "Linear"),
            idle = net_leaf(&n, "Linear");
    int32_t spread = net_numbered(&n, conv, "weight", 100, true, SH(4, 4, 3)), packed;
    net_numbered(&n, fc, "weight", 101, true, SH(2, 32));
    net_numbered(&n, fc, "bias", 102, false, SH(2));
    NET_OK(&n, lam_build_gradient(n.b, spread, true, &n.e));
    NET_OK(&n, lam_build_elsewhere(n.b, spread, 24, &n.e));
    packed = net_tensor(&n, false, SH(3, 5));
    NET_OK(&n, lam_build_packed(n.b, packed, &n.e));
    NET_OK(&n, lam_build_owns(n.b, idle, "weight", packed, true, &n.e));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "conv", conv);
    net_place(&n, p, "fc", fc);
    net_place(&n, p, "idle", idle);
    full_step_of s;
    s.root = full_call_of(&n, root, -1, 1000, 1400, D(0, 1, 1, 4, 8), D(0, 14, 1, 2));
    s.conv = full_call_of(&n, conv, s.root, 1050, 1150, D(0, 1, 1, 4, 8), D(0, 10, 1, 4, 8));
    s.fc = full_call_of(&n, fc, s.root, 1200, 1300, V(0, 12, 10, 1, 32), D(0, 14, 1, 2));
    full_operators(&n, s);
    full_memory(&n, s);
    full_device(&n, s);
    full_values(&n, s);
    NET_OK(&n, lam_build_note(n.b, "a \"note\"", &n.e));
    NET_OK(&n, lam_build_note(n.b, "another\none", &n.e));
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    NET_OK(&n, lam_build_nodes_seen(n.b, &n.e));
    return net_done(&n);
}

#endif
