/* SPDX-License-Identifier: Apache-2.0
 *
 * Four of the recorded chains of tests/data/torchscan.json and thoplw.json, rebuilt from text. */
#ifndef LAMINA_TEST_CHAINS_H
#define LAMINA_TEST_CHAINS_H

#include "kit/text_net.h"

OOM_UNUSED static lam_model *chain_nested(void) {
    return text_model("Sequential(features: Sequential(Conv2d 3 8 k3; ReLU inplace); "
                      "pool: Sequential(AdaptiveAvgPool2d 1; Flatten); classifier: Linear 8 1)",
                      true, SH(1, 3, 32, 32));
}

#define CHAIN_ENCDEC                                                                                         \
    "(Conv2d 1 4 k3 s2 p1; Tanh; Conv2d 4 8 k3 s2 p1; Sigmoid; ConvTranspose2d 8 4 k2 s2; ELU; "             \
    "ConvTranspose2d 4 1 k2 s2)"

OOM_UNUSED static lam_model *chain_encdec(void) {
    return text_model("Sequential" CHAIN_ENCDEC, true, SH(1, 1, 28, 28));
}

OOM_UNUSED static lam_model *chain_long_names(void) {
    return text_model("Sequential(a_rather_long_first_component: Sequential("
                      "an_even_longer_second_component_name: Sequential("
                      "the_innermost_layer_with_a_long_name: Linear 4 1234567)); x: ReLU)",
                      true, SH(1, 4));
}

OOM_UNUSED static lam_model *chain_leaf_root(void) {
    return text_model("Conv2d 3 8 k3", true, SH(1, 3, 32, 32));
}

#endif
