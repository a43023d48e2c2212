/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina plot` and the drawings of `lamina graph`: what they ask the host for, and what they write. */
#include "kit/oom.h"

#include "kit/net.h"

#include "kit/fakehost.h"

static void one_model(void **state) {
    (void)state;
    assert_int_equal(lamina("plot icicle m:two -i 1x2 -c layers"), 0);
    OUT_HAS("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lam\"");
    ERR_IS_EMPTY();
    assert_string_equal(fake_request, "m:two mode=eval -i 1x2");
    assert_false(fake_asked.time || fake_asked.memory);
}

/* Each picture asks for what it shows; this host measures nothing, whatever is asked for. */
static void what_is_shown_is_measured(void **state) {
    (void)state;
    assert_int_equal(lamina("plot memory m:step -i 1x2 --backward"), 2);
    ERR_HAS("memory: it was not measured");
    assert_true(fake_asked.memory && fake_asked.backward && !fake_asked.time);
    assert_int_equal(lamina("plot roofline m:step -i 1x2 --repeats 3"), 2);
    ERR_HAS("roofline: times were not measured");
    assert_true(fake_asked.time && fake_asked.repeats == 3 && !fake_asked.memory);
    lamina("plot icicle m:step -i 1x2 --by peak");
    assert_true(fake_asked.memory && !fake_asked.time);
    lamina("plot graph m:two -i 1x2 -c layers");
    assert_true(fake_asked.ops);
}

/* Before a model is asked for. */
static void mistakes_are_found_first(void **state) {
    (void)state;
    static const char *const lines[] = {
        "plot pie m:two",           "plot icicle m:two --by colour", "plot memory m:two --by macs",
        "plot icicle m:two m:step", "plot roofline m:two -c layers", "plot table nowhere",
        "plot table thoplw vgg17",  "plot table thoplw -i 1x2",      "plot table thoplw -c nothing",
        "graph m:two --format pdf", "graph m:two --format svg --ops"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(lamina(lines[i]), 2);
        assert_int_equal(fake_lives, 0);
        OUT_IS_EMPTY();
        ERR_HAS("lamina: error: ");
    }
}

static void a_machine_that_nobody_knows(void **state) {
    (void)state;
    lam_host h = fake_host();
    h.roof = NULL;
    assert_int_equal(fake_run(&h, "plot roofline m:step -i 1x2"), 3);
    ERR_HAS("what this machine can do is not known here");
    assert_int_equal(fake_lives, 0);
}

static int circles(void) {
    int n = 0;
    for (const char *p = fake_out.text; (p = strstr(p, "<circle")) != NULL; p++) n++;
    return n;
}

static void models_of_a_table(void **state) {
    (void)state;
    assert_int_equal(lamina("plot table torchscan shufflenet_v2_x0_5 mobilenet_v2 alexnet -c layers"), 0);
    OUT_HAS("aria-label=\"MACs against parameters of 3 torchvision models\"");
    OUT_HAS(">shufflenet_v2_x0_5</text>");
    assert_int_equal(circles(), 3);
    assert_int_equal(fake_lives, 3);
    assert_string_equal(fake_request,
                        "torchvision.models:shufflenet_v2_x0_5 mode=eval -i 1x3x224x224 weights=None");
    /* One that can't be run is left out; where the first can't, there is no picture. */
    assert_int_equal(lamina("plot table torchscan alexnet vgg11 -c layers"), 3);
    ERR_HAS("torchvision.models:vgg11: this torchvision has no such model\n");
    assert_int_equal(circles(), 1);
    assert_int_equal(lamina("plot table thoplw vgg11 -c layers"), 3);
    OUT_IS_EMPTY();
}

static void drawings_of_a_graph(void **state) {
    (void)state;
    assert_int_equal(lamina("graph m:step -i 1x2 --format dot"), 0);
    OUT_HAS("digraph");
    assert_int_equal(lamina("graph m:step -i 1x2 --format svg"), 0);
    assert_true(strncmp(fake_out.text, "<svg xmlns=", 11) == 0);
    assert_int_equal(lamina("graph m:step -i 1x2 --format html"), 0);
    OUT_HAS("<!doctype html>");
    OUT_HAS("content=\"default-src 'none'; style-src 'unsafe-inline'\"");
    OUT_HAS("</svg>\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_model),
        cmocka_unit_test(what_is_shown_is_measured),
        cmocka_unit_test(mistakes_are_found_first),
        cmocka_unit_test(a_machine_that_nobody_knows),
        cmocka_unit_test(models_of_a_table),
        cmocka_unit_test(drawings_of_a_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
