/* SPDX-License-Identifier: Apache-2.0
 *
 * Models whose parameters are not stored as their shapes and types say. */
#ifndef LAMINA_TEST_STORED_NET_H
#define LAMINA_TEST_STORED_NET_H

#include "kit/ops_net.h"

/* A parameter of `module` that wraps others: `bytes` in all, `here` in this process, -1: unknown. */
OOM_UNUSED static int32_t net_wrapped(net *n, int32_t module, const char *name, uint64_t number,
                                      const int64_t *sizes, int32_t ndim, int64_t bytes, int64_t here) {
    int32_t t = net_numbered(n, module, name, number, true, sizes, ndim);
    NET_OK(n, lam_build_wraps(n->b, t, bytes, here, &n->e));
    return t;
}

/* A weight of `module` that is packed. */
OOM_UNUSED static int32_t net_packed(net *n, int32_t module, const char *name, const int64_t *sizes,
                                     int32_t ndim) {
    int32_t t = net_tensor(n, false, sizes, ndim);
    NET_OK(n, lam_build_packed(n->b, t, &n->e));
    NET_OK(n, lam_build_owns(n->b, module, name, t, true, &n->e));
    return t;
}

/* Net(q, s, p): 40 numbers in 14 bytes, 60 of which 12 are elsewhere, and 15 that are packed; all of 4 bytes.
 * With `lost`, one of 7 whose bytes are unknown. */
OOM_UNUSED static lam_model *stored_net(bool lost) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), q = net_leaf(&n, "Linear"), s = net_leaf(&n, "Linear"),
            p = net_leaf(&n, "Linear"), t;
    net_wrapped(&n, q, "weight", 100, SH(10, 4), 14, 14);
    t = net_numbered(&n, s, "weight", 101, true, SH(20, 3));
    NET_OK(&n, lam_build_elsewhere(n.b, t, 12, &n.e));
    net_packed(&n, p, "_packed_params", SH(3, 5));
    if (lost) net_wrapped(&n, p, "lost", 102, SH(7), -1, -1);
    int32_t top = net_place(&n, -1, "", root);
    net_place(&n, top, "q", q);
    net_place(&n, top, "s", s);
    net_place(&n, top, "p", p);
    int32_t r = net_call(&n, root, -1, SH(2, 4), 0, SH(2, 5), 0);
    net_call(&n, q, r, SH(2, 4), 0, SH(2, 10), 0);
    net_call(&n, s, r, SH(2, 3), 0, SH(2, 20), 0);
    net_call(&n, p, r, SH(2, 3), 0, SH(2, 5), 0);
    return net_done(&n);
}

#endif
