/* SPDX-License-Identifier: Apache-2.0
 *
 * Four of the recorded chains of tests/data/torchscan.json and thoplw.json, rebuilt by hand. */
#ifndef LAMINA_TEST_CHAINS_H
#define LAMINA_TEST_CHAINS_H

#include "kit/net.h"

OOM_UNUSED static lam_model *chain_nested(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), features = net_module(&n, "Sequential", 0);
    int32_t conv = net_conv(&n, "Conv2d", 2, 3, 8, 3, 1, 0), relu = net_leaf(&n, "ReLU");
    int32_t pool = net_module(&n, "Sequential", 0), avg = net_leaf(&n, "AdaptiveAvgPool2d");
    int32_t flat = net_leaf(&n, "Flatten"), fc = net_linear(&n, 8, 1);
    net_bool(&n, relu, "inplace", true);
    net_int(&n, avg, "output_size", 1);
    net_int(&n, flat, "start_dim", 1);
    net_int(&n, flat, "end_dim", -1);
    int32_t p = net_place(&n, -1, "", root), pf = net_place(&n, p, "features", features);
    net_place(&n, pf, "0", conv);
    net_place(&n, pf, "1", relu);
    int32_t pp = net_place(&n, p, "pool", pool);
    net_place(&n, pp, "0", avg);
    net_place(&n, pp, "1", flat);
    net_place(&n, p, "classifier", fc);
    int32_t r = net_call(&n, root, -1, SH(1, 3, 32, 32), 1, SH(1, 1), 6);
    int32_t cf = net_call(&n, features, r, SH(1, 3, 32, 32), 1, SH(1, 8, 30, 30), 2);
    net_call(&n, conv, cf, SH(1, 3, 32, 32), 1, SH(1, 8, 30, 30), 2);
    net_call(&n, relu, cf, SH(1, 8, 30, 30), 2, SH(1, 8, 30, 30), 2);
    int32_t cp = net_call(&n, pool, r, SH(1, 8, 30, 30), 2, SH(1, 8), 4);
    net_call(&n, avg, cp, SH(1, 8, 30, 30), 2, SH(1, 8, 1, 1), 3);
    net_call(&n, flat, cp, SH(1, 8, 1, 1), 3, SH(1, 8), 4);
    net_call(&n, fc, r, SH(1, 8), 4, SH(1, 1), 6);
    return net_done(&n);
}

OOM_UNUSED static lam_model *chain_encdec(void) {
    net n = net_new();
    int32_t m[7], root = net_module(&n, "Sequential", 0);
    m[0] = net_conv(&n, "Conv2d", 2, 1, 4, 3, 2, 1);
    m[1] = net_leaf(&n, "Tanh");
    m[2] = net_conv(&n, "Conv2d", 2, 4, 8, 3, 2, 1);
    m[3] = net_leaf(&n, "Sigmoid");
    m[4] = net_conv(&n, "ConvTranspose2d", 2, 8, 4, 2, 2, 0);
    m[5] = net_leaf(&n, "ELU");
    m[6] = net_conv(&n, "ConvTranspose2d", 2, 4, 1, 2, 2, 0);
    net_bool(&n, m[5], "inplace", false);
    int32_t p = net_place(&n, -1, "", root);
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6"};
    for (int i = 0; i < 7; i++) net_place(&n, p, names[i], m[i]);
    int32_t r = net_call(&n, root, -1, SH(1, 1, 28, 28), 1, SH(1, 1, 28, 28), 8);
    net_call(&n, m[0], r, SH(1, 1, 28, 28), 1, SH(1, 4, 14, 14), 2);
    net_call(&n, m[1], r, SH(1, 4, 14, 14), 2, SH(1, 4, 14, 14), 3);
    net_call(&n, m[2], r, SH(1, 4, 14, 14), 3, SH(1, 8, 7, 7), 4);
    net_call(&n, m[3], r, SH(1, 8, 7, 7), 4, SH(1, 8, 7, 7), 5);
    net_call(&n, m[4], r, SH(1, 8, 7, 7), 5, SH(1, 4, 14, 14), 6);
    net_call(&n, m[5], r, SH(1, 4, 14, 14), 6, SH(1, 4, 14, 14), 7);
    net_call(&n, m[6], r, SH(1, 4, 14, 14), 7, SH(1, 1, 28, 28), 8);
    return net_done(&n);
}

OOM_UNUSED static lam_model *chain_long_names(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), a = net_module(&n, "Sequential", 0);
    int32_t b = net_module(&n, "Sequential", 0), fc = net_linear(&n, 4, 1234567), x = net_leaf(&n, "ReLU");
    net_bool(&n, x, "inplace", false);
    int32_t p = net_place(&n, -1, "", root), pa = net_place(&n, p, "a_rather_long_first_component", a);
    int32_t pb = net_place(&n, pa, "an_even_longer_second_component_name", b);
    net_place(&n, pb, "the_innermost_layer_with_a_long_name", fc);
    net_place(&n, p, "x", x);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 1, SH(1, 1234567), 3);
    int32_t ca = net_call(&n, a, r, SH(1, 4), 1, SH(1, 1234567), 2);
    int32_t cb = net_call(&n, b, ca, SH(1, 4), 1, SH(1, 1234567), 2);
    net_call(&n, fc, cb, SH(1, 4), 1, SH(1, 1234567), 2);
    net_call(&n, x, r, SH(1, 1234567), 2, SH(1, 1234567), 3);
    return net_done(&n);
}

OOM_UNUSED static lam_model *chain_leaf_root(void) {
    net n = net_new();
    int32_t conv = net_conv(&n, "Conv2d", 2, 3, 8, 3, 1, 0);
    net_place(&n, -1, "", conv);
    net_call(&n, conv, -1, SH(1, 3, 32, 32), 1, SH(1, 8, 30, 30), 2);
    return net_done(&n);
}

#endif
