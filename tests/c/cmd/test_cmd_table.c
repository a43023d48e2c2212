/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina table`: the published tables, here from models made to measure. */
#include "kit/oom.h"

#include "kit/net.h"

#include "kit/fakehost.h"

static void same_as_published(void **state) {
    (void)state;
    assert_int_equal(lamina("table torchscan shufflenet_v2_x0_5"), 0);
    OUT_HAS("shufflenet_v2_x0_5        1.37 M       0.09 G       0.04 G       0.05 G \n");
    OUT_HAS("1 of 1 models as published\n");
    assert_string_equal(fake_request,
                        "torchvision.models:shufflenet_v2_x0_5 mode=eval -i 1x3x224x224 weights=None");
    assert_int_equal(lamina("table thoplw squeezenet1.0"), 0);
    OUT_HAS("squeezenet1.0           818.93 M       1.25 M \n");
    assert_string_equal(fake_request,
                        "torchvision.models:squeezenet1_0 mode=eval -i 1x3x224x224 weights=None");
}

static void differs_for_a_known_reason(void **state) {
    (void)state;
    assert_int_equal(lamina("table torchscan mobilenet_v2"), 0);
    OUT_HAS("0.33 G* differs\n");
    OUT_HAS("    * DMAs published as 0.32 G: as if its 35 calls of ReLU6 read and wrote nothing");
    OUT_HAS("0 of 1 models as published; 1 cell differs, each for the reason given\n");
}

static void differs_and_nobody_knows_why(void **state) {
    (void)state;
    assert_int_equal(lamina("table torchscan alexnet mobilenet_v2"), 1);
    OUT_HAS("* FLOPs published as 1.43 G: no reason is known for this difference");
    OUT_HAS("not all for a known reason");
}

static void models_that_cannot_run(void **state) {
    (void)state;
    assert_int_equal(lamina("table torchscan"), 3);
    OUT_HAS("alexnet");
    OUT_HAS("mobilenet_v2");
    ERR_HAS("torchvision.models:vgg11: this torchvision has no such model\n");
    OUT_HAS(" could not be run\n");
    assert_int_equal(fake_lives, 35);
    assert_int_equal(lamina("table thoplw"), 3);
    assert_int_equal(fake_lives, 33);
    /* not even the first: one sentence and no more */
    assert_int_equal(lamina("table thoplw vgg11 alexnet vgg13"), 3);
    lam_host h = fake_host();
    h.live = NULL;
    assert_int_equal(fake_run(&h, "table thoplw"), 3);
    OUT_IS_EMPTY();
}

static void asks_for_the_right_models(void **state) {
    (void)state;
    lamina("table torchscan inception_v3");
    assert_string_equal(fake_request, "torchvision.models:inception_v3 mode=eval -i 1x3x299x299 weights=None "
                                      "init_weights=False");
    lamina("table thoplw mnasnet_0.5");
    assert_string_equal(fake_request, "torchvision.models:mnasnet0_5 mode=eval -i 1x3x224x224 weights=None");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_published),
        cmocka_unit_test(differs_for_a_known_reason),
        cmocka_unit_test(differs_and_nobody_knows_why),
        cmocka_unit_test(models_that_cannot_run),
        cmocka_unit_test(asks_for_the_right_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
