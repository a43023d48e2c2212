/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls with times that are known. */
#ifndef LAMINA_TEST_TIMED_NET_H
#define LAMINA_TEST_TIMED_NET_H

#include "kit/net.h"

/* Net(a: Linear, b: Linear): modules 0, 1, 2, places 0, 1, 2. */
OOM_UNUSED static net timed_layers(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 3, 4), b = net_linear(&n, 4, 5);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "a", a);
    net_place(&n, p, "b", b);
    return n;
}

OOM_UNUSED static int32_t timed_call(net *n, int32_t module, int32_t parent, int64_t t0, int64_t t1,
                                     uint32_t flags) {
    int32_t index = -1;
    lam_call_info c = {.module = module, .parent = parent, .flags = flags, .t0_ns = t0, .t1_ns = t1};
    NET_OK(n, lam_build_call(n->b, &c, &index, &n->e));
    return index;
}

/* For oom_sweep: the times of a model. */
OOM_UNUSED static void take_times(void *arg, bool *ok) {
    lam_times *t = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_times_new(&t, arg, &e), &e);
    lam_times_free(t);
}

#endif
