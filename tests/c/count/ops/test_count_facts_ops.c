/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of operators one by one, where no rule of ours asks for them or an edge is easily missed: rules of
 * the caller's own may name them all. */
#include "kit/oom.h"

#include "kit/op_build.h"

#include "count/ops/facts_op.h"

static lmi_facts facts;

static void look(void) {
    lam_model *m = op_model();
    lmi_facts_of_op(m, 0, &facts);
    lam_model_free(m);
}

#define IS(fact, n)   assert_int_equal(lmi_fact_get(&facts, LMI_FACT_##fact), n)
#define UNKNOWN(fact) assert_false(facts.known[LMI_FACT_##fact])

static void layer_norms_backward(void **state) {
    (void)state;
    op_new("aten::native_layer_norm_backward");
    in_tensor(0, SIZES(4, 3));
    in_tensor(1, SIZES(4, 3));
    in_ints(2, SIZES(3));
    in_tensor(3, SIZES(4, 1));
    in_tensor(4, SIZES(4, 1));
    in_tensor(5, SIZES(3));
    in_tensor(6, SIZES(3));
    out_tensor(0, SIZES(4, 3));
    out_tensor(1, SIZES(3));
    out_tensor(2, SIZES(3));
    look();
    IS(rows, 4);
    IS(in, 12);
}

static void rows_along_an_axis(void **state) {
    (void)state;
    const int64_t huge = INT64_C(1) << 40;
    static const int64_t want[] = {6, 8, 0, -1, -1};
    for (int i = 0; i < 5; i++) {
        op_new("aten::_softmax");
        if (i < 2) in_tensor(0, SIZES(2, 4, 3));
        if (i == 2) in_tensor(0, SIZES(2, 0, 3));
        if (i == 3) in_tensor(0, SIZES(huge, 4, huge));
        if (i == 4) in_tensor(0, SIZES(2, 4, 3));
        in_int(1, i == 1 ? -1 : i == 4 ? 3 : 1);
        in_bool(2, false);
        look();
        IS(rows, want[i]);
    }
}

static void choices_of_none(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        op_new("aten::topk");
        in_tensor(0, SIZES(2, 5));
        in_int(1, k == 2 ? 6 : k);
        in_int(2, 1);
        look();
        IS(rows, k == 2 ? -1 : 2);
        IS(compares, k == 2 ? -1
                     : k    ? 2 * 4
                            : 0); /* the most that are kept is none, one, more than there are */
    }
    op_new("aten::topk");
    in_tensor(0, 0, NULL);
    in_int(1, 1);
    look();
    IS(rows, 1);
    IS(compares, 0);
}

static void scales_of_transforms(void **state) {
    (void)state;
    for (int norm = -1; norm < 3; norm++) {
        op_new("aten::_fft_c2c");
        in_tensor(0, SIZES(2, 8));
        in_ints(1, SIZES(1));
        if (norm >= 0) in_int(2, norm);
        in_bool(3, true);
        out_tensor(0, SIZES(2, 8));
        look();
        IS(scaled, norm < 0 ? -1 : norm != 0);
        IS(nlogn, 16 * 3);
    }
}

static void biases_of_convolutions(void **state) {
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        op_new("aten::convolution");
        in_tensor(0, SIZES(1, 3, 8));
        in_tensor(1, SIZES(4, 3, 3));
        if (bias)
            in_tensor(2, SIZES(4));
        else
            in_none(2);
        in_ints(3, SIZES(1));
        in_ints(4, SIZES(0));
        in_ints(5, SIZES(1));
        in_bool(6, false);
        in_ints(7, SIZES(0));
        in_int(8, 1);
        out_tensor(0, SIZES(1, 4, 6));
        look();
        IS(biases, bias ? 4 : 0);
        IS(weights, 36);
        IS(red, 9);
        IS(groups, 1);
        IS(transposed, 0);
    }
}

/* Of a padding that is called "same", half of an odd number is rounded down on both sides. */
static void halves_of_paddings(void **state) {
    (void)state;
    for (int same = 0; same < 2; same++) {
        op_new("aten::_convolution_mode");
        in_tensor(0, SIZES(1, 3, 8, 6));
        in_tensor(1, SIZES(4, 3, 2, 3));
        in_none(2);
        in_ints(3, SIZES(1, 1));
        in_text(4, same ? "same" : "valid");
        in_ints(5, SIZES(1, 1));
        in_int(6, 1);
        out_tensor(0, SIZES(1, 4, 8, 6));
        look();
        IS(halved, same ? 4 * 7 * 6 : 4 * 8 * 6);
    }
}

/* Nothing can be made of an image without elements. */
static void images_of_nothing(void **state) {
    (void)state;
    for (int64_t size = 0; size < 2; size++) {
        op_new("aten::_upsample_bilinear2d_aa");
        in_tensor(0, SIZES(1, 1, size, 4));
        in_ints(1, SIZES(3, 3));
        in_bool(2, false);
        out_tensor(0, SIZES(1, 1, 3, 3));
        look();
        if (size)
            assert_true(facts.known[LMI_FACT_covered]);
        else
            UNKNOWN(covered);
    }
}

/* How what is multiplied is put together may be a word that nobody knows yet. */
static void products_of_unknown_ways(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        op_new("aten::_sparse_mm_reduce_impl");
        in_tensor(0, SIZES(2, 3));
        in_tensor(1, SIZES(3, 4));
        in_text(2, i ? "prod" : "sum");
        out_tensor(0, SIZES(2, 4));
        the.in[0].sparse = true;
        the.in[0].values = 5;
        look();
        IS(products, i ? -1 : 5 * 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norms_backward),     cmocka_unit_test(rows_along_an_axis),
        cmocka_unit_test(choices_of_none),          cmocka_unit_test(scales_of_transforms),
        cmocka_unit_test(biases_of_convolutions),   cmocka_unit_test(images_of_nothing),
        cmocka_unit_test(products_of_unknown_ways), cmocka_unit_test(halves_of_paddings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
