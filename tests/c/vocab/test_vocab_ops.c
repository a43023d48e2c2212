/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of operators: the table, the spellings that share a word, and the binder. */
#include "kit/oom.h"

#include "vocab/vocab.h"

/* The table is one of torch's words, one of ONNX's and one of others', in this order, which no word tells. */
static void each_table_is_sorted(void **state) {
    (void)state;
    int32_t n = 0, tables = 1;
    for (; lam_word_op_name(n); n++) {
        if (n && strcmp(lam_word_op_name(n - 1), lam_word_op_name(n)) >= 0 && ++tables > 3)
            fail_msg("%s stands before %s", lam_word_op_name(n - 1), lam_word_op_name(n));
        assert_int_equal(lam_word_op(lam_word_op_name(n)), n);
        assert_true(lmi_op_kind(n) < LMI_N_KINDS);
        assert_string_equal(lam_word_op_kind(n), lmi_kind_name(lmi_op_kind(n)));
        assert_in_range(lmi_op_each(n), 0, 23);
        assert_in_range(lmi_op_last(n), 0, 2);
        assert_in_range(lmi_op_rank(n), 0, 3);
        const char *name = lam_word_op_name(n);
        assert_true(lam_word_op_mask(n) == -1 || strstr(name, "ttention") || strstr(name, "oftmax"));
    }
    assert_int_equal(lam_word_op_mask(lam_word_op("aten::scaled_dot_product_attention")), 3);
    const char *backward = "aten::_scaled_dot_product_flash_attention_for_cpu_backward";
    assert_int_equal(lam_word_op_mask(lam_word_op(backward)), 8);
    assert_int_equal(lam_word_op_ends(lam_word_op("aten::_grouped_mm")), 2);
    assert_int_equal(lam_word_op_ends(lam_word_op("aten::_scaled_grouped_mm")), 4);
    assert_int_equal(lam_word_op_ends(lam_word_op("aten::_scaled_grouped_mm_v2")), 8);
    assert_int_equal(lam_word_op_ends(lam_word_op("aten::mm")), -1);
    assert_int_equal(lam_word_op_mask(lam_word_op("torchvision::deform_conv2d")),
                     -1); /* its mask is a factor */
    assert_true(n > 1800);
    const int32_t outside[] = {-1, n, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_null(lam_word_op_name(outside[i]));
        assert_null(lam_word_op_kind(outside[i]));
        assert_int_equal(lmi_op_kind(outside[i]), LMI_N_KINDS);
        assert_false(lam_word_op_wraps(outside[i]));
        assert_int_equal(lam_word_op_mask(outside[i]), -1);
        assert_int_equal(lmi_op_each(outside[i]) + lmi_op_last(outside[i]) + lmi_op_rank(outside[i]), 0);
    }
}

static void spellings_share_a_word(void **state) {
    (void)state;
    assert_true(lam_word_op("aten::convolution") >= 0);
    assert_int_equal(lam_word_op("aten::relu_"), lam_word_op("aten::relu"));
    assert_int_equal(lam_word_op("aten::add_out"), lam_word_op("aten::add"));
    assert_int_equal(lam_word_op("aten::_index_put_impl_"), lam_word_op("aten::_index_put_impl"));
    assert_int_not_equal(lam_word_op("aten::bernoulli_"), lam_word_op("aten::bernoulli"));
    static const char *const none[] = {
        "",     "_",          "_out",        "aten::",     "aten::nothing", "aten::relu__",
        "relu", "aten::conv", "aten::reluu", "aten::Relu", "torchscan::x",  "aten::add_out_"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_int_equal(lam_word_op(none[i]), -1);
    assert_int_equal(lam_word_op(NULL), -1);
}

static void composites(void **state) {
    (void)state;
    static const char *const yes[] = {"aten::linear",
                                      "aten::matmul",
                                      "aten::conv2d",
                                      "aten::einsum",
                                      "aten::lstm",
                                      "aten::scaled_dot_product_attention",
                                      "aten::_native_multi_head_attention",
                                      "aten::dropout",
                                      "aten::reshape",
                                      "aten::batch_norm"};
    static const char *const no[] = {"aten::addmm",
                                     "aten::convolution",
                                     "aten::_softmax",
                                     "aten::view",
                                     "aten::mkldnn_rnn_layer",
                                     "aten::native_batch_norm",
                                     "aten::_scaled_dot_product_flash_attention_for_cpu"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!lam_word_op_wraps(lam_word_op(yes[i]))) fail_msg("%s wraps none", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (lam_word_op_wraps(lam_word_op(no[i]))) fail_msg("%s wraps others", no[i]);
    for (int32_t w = 0; lam_word_op_name(w); w++)
        if (lmi_op_kind(w) == LMI_K_composite) assert_true(lam_word_op_wraps(w));
}

static void every_kind_has_a_word(void **state) {
    (void)state;
    for (int32_t k = 0; k < LMI_N_KINDS; k++) {
        bool found = lmi_kind_family((lmi_kind)k) != LMI_F_op;
        for (int32_t w = 0; lam_word_op_name(w) && !found; w++) found = (int32_t)lmi_op_kind(w) == k;
        if (!found) fail_msg("no operator has the kind %s", lmi_kind_name((lmi_kind)k));
    }
}

static void ranks(void **state) {
    (void)state;
    assert_int_equal(lmi_op_rank(lam_word_op("aten::max_pool2d_with_indices")), 2);
    assert_int_equal(lmi_op_rank(lam_word_op("aten::upsample_linear1d_backward")), 1);
    assert_int_equal(lmi_op_rank(lam_word_op("aten::slow_conv3d_forward")), 3);
    assert_int_equal(lmi_op_rank(lam_word_op("aten::addmm")), 0);
}

static void arguments_find_their_roles(void **state) {
    (void)state;
    const int64_t x[] = {2, 3}, y[] = {3, 4};
    const lam_op_arg in[] = {
        {.position = 1, .is_tensor = true, .ndim = 2, .sizes = x},
        {.position = 2, .is_tensor = true, .ndim = 2, .sizes = y},
        {.position = 4, .value = {.type = LAM_FLOAT, .f = 0.5}, .ndim = -1},
        {.position = 3, .value = {.type = LAM_NONE}, .ndim = -1},
        {.position = -1, .is_tensor = true, .ndim = 2, .sizes = y},
        {.position = 99, .is_tensor = true, .ndim = 2, .sizes = y},
        {.position = 1, .is_tensor = true, .ndim = 2, .sizes = y}, /* a second tensor of the same position */
    };
    lam_op_sig sig = {.name = "aten::addmm", .word = lam_word_op("aten::addmm"), .n_in = 7, .in = in};
    lmi_slots s;
    lmi_bind_op(&sig, &s);
    assert_false(s.at[LMI_S_b].present);
    assert_true(s.at[LMI_S_x].present && !s.at[LMI_S_x].value);
    assert_ptr_equal(s.at[LMI_S_x].shape.sizes, x);
    assert_ptr_equal(s.at[LMI_S_x2].shape.sizes, y);
    assert_true(s.at[LMI_S_alpha].present && s.at[LMI_S_alpha].value->f == 0.5);
    assert_true(s.at[LMI_S_beta].present && s.at[LMI_S_beta].value->type == LAM_NONE);
    sig.word = -1;
    lmi_bind_op(&sig, &s);
    for (int i = 0; i < LMI_N_SLOTS; i++) assert_true(!s.at[i].present && s.at[i].shape.ndim == -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_table_is_sorted),
        cmocka_unit_test(spellings_share_a_word),
        cmocka_unit_test(composites),
        cmocka_unit_test(every_kind_has_a_word),
        cmocka_unit_test(ranks),
        cmocka_unit_test(arguments_find_their_roles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
