/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina why`: a layer's numbers with their formulas, by its call or by its operators. */
#include "kit/oom.h"

#include "kit/fakehost.h"

static void why(void **state) {
    (void)state;
    assert_int_equal(lamina("why m:two a.fc -i 1x4 -c torchscan"), 0);
    OUT_HAS("a.fc (Linear), call 1 of 2, rule linear\n");
    OUT_HAS("  1x4 float32 -> 1x4 float32\n  matrix product over the last axis\n");
    OUT_HAS("  FLOPs                   32 = 4 \xc3\x97 (2 \xc3\x97 4 - 1 + 1)\n");
    OUT_HAS("  params                  20\nwhere\n");
    OUT_HAS("  red                      4  products summed for one output element");
    assert_null(strstr(fake_out.text, "out*(2*red-1+bias)"));
    assert_null(strstr(fake_out.text, "training"));
    lam_host ascii = fake_host();
    ascii.out_is_utf8 = false;
    assert_int_equal(fake_run(&ascii, "why m:two a.fc -i 1x4 -c torchscan"), 0);
    OUT_HAS("  FLOPs                   32 = 4 x (2 x 4 - 1 + 1)\n");
    assert_int_equal(lamina("why m:two a.fc -i 1x4 -c torchscan --facts"), 0);
    OUT_HAS("                            = out*(2*red-1+bias)\n");
    OUT_HAS("facts\n");
    OUT_HAS("  training                 0  1 in train() mode\n");
    assert_int_equal(lamina("why m:two ."), 0);
    OUT_HAS("the whole model (Sequential), rule container\n");
    OUT_HAS("  it only calls its layers, and their work is theirs\n");
    OUT_HAS("  MACs                     0, with its layers ");
    assert_int_equal(lamina("why m:two a.fcc"), 2);
    ERR_HAS("a.fcc: the model has no such layer\n  hint: did you mean a.fc?");
    assert_int_equal(lamina("why m:two nothing.like.it"), 2);
    ERR_HAS("hint: `lamina show` lists the layers");
    assert_int_equal(lamina("why m:two b.fc -c thoplw --released"),
                     0); /* released: one row, under its first place */
    OUT_HAS("b.fc has no row under this convention");
    assert_int_equal(lamina("why m:two"), 2);
}

static void why_by_operators(void **state) {
    (void)state;
    assert_int_equal(lamina("why m:step mine -c exact --backward"), 0);
    assert_non_null(strstr(fake_request, " ops backward"));
    OUT_HAS("mine (Mine)\n");
    OUT_HAS("  no rule for the operator my::op\n  MACs                 >= 40\n");
    OUT_HAS("3 operators\n  aten::mm\n    MACs                  40 = ");
    OUT_HAS("  my::op x2\n    MACs                   ? each\n    FLOPs                  ? each\n");
    assert_int_equal(lamina("why m:step fc -c exact --backward"), 0);
    OUT_HAS("  aten::mm: product of matrices or vectors\n  MACs                    24 = ");
    OUT_HAS("backward\n  MACs                    48\n");
    OUT_HAS("2 operators\n  aten::mm\n    MACs                  24 = ");
    OUT_HAS("    FLOPs                 48 = 2 × 12 × 2\n    with out 12, red 2\n");
    assert_int_equal(lamina("why m:idle2 . -c exact"), 0);
    OUT_HAS("\n  3 operators without MACs or FLOPs: aten::clone x2, aten::flip\n");
    assert_int_equal(lamina("why m:idle8 . -c exact"), 0);
    OUT_HAS(": aten::clone x2, aten::flip, aten::roll, aten::stack, aten::tril, aten::triu, aten::gather, "
            "aten::cat\n");
    assert_int_equal(lamina("why m:idle9 . -c exact"), 0);
    OUT_HAS("\n  10 operators without MACs or FLOPs: aten::clone x2, ");
    OUT_HAS(" aten::gather, aten::cat, ...\n");
    assert_int_equal(lamina("show m:step -c exact"), 0);
    assert_non_null(strstr(fake_request, " ops"));
    assert_null(strstr(fake_request, " backward"));
    OUT_HAS("incomplete 2 of 10 operators have no rule: my::op (2)");
    assert_int_equal(lamina("show m:step -c layers"), 0);
    assert_null(strstr(fake_request, " ops"));
}

static void why_never_called(void **state) {
    (void)state;
    assert_int_equal(lamina("why torchvision.models:alexnet conv"), 0);
    OUT_HAS("conv (Conv1d)\n");
    OUT_HAS("  it was never called\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(why),
        cmocka_unit_test(why_by_operators),
        cmocka_unit_test(why_never_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
