/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of words, kinds, slots and data types, and the binder. */
#include "kit/oom.h"

#include "vocab/vocab.h"

static void words_are_sorted_and_found(void **state) {
    (void)state;
    int32_t n = 0;
    for (; lam_word_name(n); n++) {
        if (n > 0) assert_true(strcmp(lam_word_name(n - 1), lam_word_name(n)) < 0);
        assert_int_equal(lam_word_module(lam_word_name(n)), n);
        assert_true(lmi_word_kind(n) < LMI_N_KINDS);
        assert_string_equal(lam_word_kind(n), lmi_kind_name(lmi_word_kind(n)));
    }
    assert_true(n > 100);
    assert_int_equal(lam_word_module("Conv"), -1);
    assert_int_equal(lam_word_module("AAA"), -1);
    assert_int_equal(lam_word_module("Zzz"), -1);
    assert_int_equal(lam_word_module(""), -1);
    assert_int_equal(lam_word_module(NULL), -1);
    static const int32_t outside[] = {-1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        assert_null(lam_word_name(outside[i]));
        assert_null(lam_word_kind(outside[i]));
        assert_null(lam_word_attr(outside[i], 0));
        assert_int_equal(lmi_word_kind(outside[i]), LMI_N_KINDS);
        assert_int_equal(lmi_word_rank(outside[i]), 0);
        assert_false(lam_word_is_container(outside[i]));
    }
    assert_null(lam_word_name(n));
}

static void every_kind_has_a_word(void **state) {
    (void)state;
    for (int32_t k = 0; k < LMI_N_KINDS; k++) {
        bool found = false;
        for (int32_t w = 0; lam_word_name(w); w++) found = found || (int32_t)lmi_word_kind(w) == k;
        if (lmi_kind_family((lmi_kind)k) == LMI_F_op) found = true; /* see test_vocab_ops.c */
        found = found || k == LMI_K_any; /* what serves every class has none of its own */
        if (!found) fail_msg("no class of torch.nn has the kind %s", lmi_kind_name((lmi_kind)k));
    }
}

static void words_know_their_rank(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t rank;
    } all[] = {{"Conv1d", 1},    {"Conv2d", 2}, {"ConvTranspose3d", 3}, {"Softmax2d", 2},
               {"ZeroPad2d", 2}, {"Linear", 0}, {"Upsample", 0},        {"Threshold", 0},
               {"Embedding", 0}, {"ReLU6", 0},  {"BatchNorm1d", 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(lmi_word_rank(lam_word_module(all[i].name)), all[i].rank);
    }
}

static void containers_do_no_work(void **state) {
    (void)state;
    static const char *const names[] = {"Sequential", "ModuleList", "ModuleDict", "ParameterList",
                                        "ParameterDict"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(lam_word_is_container(lam_word_module(names[i])));
        assert_null(lam_word_attr(lam_word_module(names[i]), 0));
    }
    assert_false(lam_word_is_container(lam_word_module("Identity")));
    assert_false(lam_word_is_container(lam_word_module("Transformer")));
}

static void attributes_are_listed(void **state) {
    (void)state;
    static const char *const conv[] = {"kernel_size",  "stride",         "padding",
                                       "dilation",     "groups",         "in_channels",
                                       "out_channels", "output_padding", "padding_mode"};
    int32_t w = lam_word_module("Conv2d"), n = 0;
    for (; lam_word_attr(w, n); n++) assert_string_equal(lam_word_attr(w, n), conv[n]);
    assert_int_equal(n, 9);
    assert_null(lam_word_attr(w, -1));
    for (int32_t i = 0; lam_word_name(i); i++) {
        for (int32_t k = 0; lam_word_attr(i, k); k++) {
            for (int32_t j = 0; j < k; j++) assert_string_not_equal(lam_word_attr(i, j), lam_word_attr(i, k));
            assert_true(k < 16);
        }
    }
}

static void kinds_have_names(void **state) {
    (void)state;
    for (int32_t k = 0; k < LMI_N_KINDS; k++) {
        assert_true(lmi_kind_doc((lmi_kind)k)[0] != '\0');
        assert_true((uint32_t)lmi_kind_family((lmi_kind)k) <= LMI_F_op);
        assert_true((uint32_t)lmi_kind_rf((lmi_kind)k) <= LMI_rf_none);
    }
    assert_string_equal(lmi_kind_name(LMI_K_conv), "conv");
    assert_int_equal(lmi_kind_family(LMI_K_conv), LMI_F_dense);
    assert_int_equal(lmi_kind_rf(LMI_K_conv), LMI_rf_window);
    assert_string_equal(lmi_kind_name(LMI_N_KINDS), "?");
    assert_string_equal(lmi_kind_doc(LMI_N_KINDS), "?");
    assert_int_equal(lmi_kind_family(LMI_N_KINDS), LMI_F_hold);
    assert_int_equal(lmi_kind_rf(LMI_N_KINDS), LMI_rf_none);
}

static void dtypes_are_torchs(void **state) {
    (void)state;
    static const struct {
        int32_t number, bits;
        const char *name;
    } all[] = {{0, 8, "uint8"},           {4, 64, "int64"},
               {5, 16, "float16"},        {6, 32, "float32"},
               {8, 32, "complex32"},      {10, 128, "complex128"},
               {11, 8, "bool"},           {15, 16, "bfloat16"},
               {16, 4, "quint4x2"},       {17, 2, "quint2x4"},
               {24, 8, "float8_e4m3fn"},  {29, 64, "uint64"},
               {30, 8, "uint1"},          {37, 8, "int1"},
               {44, 8, "float8_e8m0fnu"}, {45, 8, "float4_e2m1fn_x2"},
               {46, 32, "bcomplex32"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_equal(lam_dtype_name(all[i].number), all[i].name);
        assert_int_equal(lam_dtype_bits(all[i].number), all[i].bits);
    }
    for (int32_t i = 0; i <= 46; i++) {
        assert_int_equal(lam_dtype_by_name(lam_dtype_name(i)), i);
        assert_true(lam_dtype_bits(i) > 0);
    }
    assert_int_equal(lam_dtype_by_name("torch.float32"), 6);
    assert_int_equal(lam_dtype_by_name("torch.half"), 5);
    assert_int_equal(lam_dtype_by_name("long"), 4);
    assert_int_equal(lam_dtype_by_name("cdouble"), 10);
    assert_int_equal(lam_dtype_by_name("float33"), -1);
    assert_int_equal(lam_dtype_by_name("torch."), -1);
    assert_int_equal(lam_dtype_by_name(NULL), -1);
    static const int32_t outside[] = {-1, 47, INT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(lam_dtype_name(outside[i]), "?");
        assert_int_equal(lam_dtype_bits(outside[i]), 0);
    }
}

/* -- the binder ------------------------------------------------------------------------------------------ */

static const int64_t sizes[] = {8, 3, 5, 5};
static const lam_value number = {.type = LAM_INT, .i = 3};
static const lam_value none = {.type = LAM_NONE};
static const lam_value yes = {.type = LAM_BOOL, .i = 1};
static const lam_value no = {.type = LAM_BOOL, .i = 0};

static lmi_offer input(const char *name, int32_t position, int32_t ndim) {
    return (lmi_offer){name, position, {ndim, sizes}, NULL, LMI_FROM_CALL};
}
static lmi_offer owned(const char *name, int32_t ndim) {
    return (lmi_offer){name, -1, {ndim, sizes}, NULL, LMI_FROM_OWNED};
}
static lmi_offer attr(const char *name, const lam_value *v) {
    return (lmi_offer){.name = name, .position = -1, .value = v, .from = LMI_FROM_ATTR};
}

static int32_t filled(const lmi_slots *s) {
    int32_t n = 0;
    for (int32_t i = 0; i < LMI_N_SLOTS; i++) n += s->at[i].present;
    return n;
}

static void binds_a_convolution(void **state) {
    (void)state;
    lmi_offer offers[] = {attr("kernel_size", &number),
                          attr("bogus", &number),
                          owned("weight", 4),
                          input(NULL, 0, 3),
                          input(NULL, 9, 1),
                          attr("padding_mode", &none)};
    lmi_slots s;
    lmi_bind(lam_word_module("Conv2d"), offers, 6, &s);
    assert_int_equal(filled(&s), 4);
    assert_int_equal(s.at[LMI_S_x].shape.ndim, 3);
    assert_null(s.at[LMI_S_x].value);
    assert_int_equal(s.at[LMI_S_w].shape.ndim, 4);
    assert_ptr_equal(s.at[LMI_S_kernel].value, &number);
    assert_int_equal(s.at[LMI_S_kernel].shape.ndim, -1);
    assert_true(s.at[LMI_S_pad_mode].present);
    assert_ptr_equal(s.at[LMI_S_pad_mode].value, &none);
    assert_false(s.at[LMI_S_b].present);
    assert_int_equal(s.at[LMI_S_b].shape.ndim, -1);
    assert_null(s.at[LMI_S_b].value);
}

static void binds_by_keyword_and_position(void **state) {
    (void)state;
    lmi_slots s;
    /* query, key, value, key_padding_mask, need_weights (no role), attn_mask */
    lmi_offer offers[] = {input(NULL, 0, 1), input(NULL, 1, 2),    input("value", -1, 3),
                          input(NULL, 4, 0), input("mask", -1, 0), input(NULL, 5, 4)};
    lmi_bind(lam_word_module("MultiheadAttention"), offers, 6, &s);
    assert_int_equal(filled(&s), 4);
    assert_int_equal(s.at[LMI_S_q].shape.ndim, 1);
    assert_int_equal(s.at[LMI_S_k].shape.ndim, 2);
    assert_int_equal(s.at[LMI_S_v].shape.ndim, 3);
    assert_int_equal(s.at[LMI_S_mask].shape.ndim, 4);
    /* Two tensors of one argument, (h, c): the first counts. */
    lmi_offer state_of_two[] = {input(NULL, 0, 3), input(NULL, 1, 2), input(NULL, 1, 1)};
    lmi_bind(lam_word_module("LSTM"), state_of_two, 3, &s);
    assert_int_equal(s.at[LMI_S_h].shape.ndim, 2);
}

static void owned_tensors_may_be_hidden(void **state) {
    (void)state;
    int32_t linear = lam_word_module("Linear");
    lmi_slots s;
    lmi_offer told[] = {attr("weight", &yes), attr("bias", &no)};
    lmi_bind(linear, told, 2, &s);
    assert_true(s.at[LMI_S_w].present);
    assert_int_equal(s.at[LMI_S_w].shape.ndim, -1);
    assert_null(s.at[LMI_S_w].value);
    assert_false(s.at[LMI_S_b].present);
    lmi_offer both[] = {attr("weight", &yes), owned("weight", 2), attr("bias", &none), attr("bias", &number)};
    lmi_bind(linear, both, 4, &s);
    assert_int_equal(s.at[LMI_S_w].shape.ndim, 2);
    assert_true(s.at[LMI_S_b].present);
    lmi_offer strange[] = {input("weight", -1, 2)};
    lmi_bind(linear, strange, 1, &s);
    assert_false(s.at[LMI_S_w].present);
    /* In a recurrent layer `bias` is a flag, not a tensor. */
    lmi_bind(lam_word_module("GRU"), told, 2, &s);
    assert_ptr_equal(s.at[LMI_S_bias_flag].value, &no);
}

static void origins_do_not_mix(void **state) {
    (void)state;
    lmi_slots s;
    lmi_offer buffer[] = {owned("mask", 2), attr("src", &number)};
    lmi_bind(lam_word_module("TransformerEncoder"), buffer, 2, &s);
    assert_int_equal(filled(&s), 0);
    lmi_offer keyword = {"kernel_size", -1, {-1, NULL}, &number, LMI_FROM_CALL};
    lmi_bind(lam_word_module("Conv2d"), &keyword, 1, &s);
    assert_int_equal(filled(&s), 0);
    lmi_offer anything[] = {{"kernel_size", -1, {-1, NULL}, &number, LMI_FROM_ANY},
                            {"weight", -1, {4, sizes}, NULL, LMI_FROM_ANY},
                            {"bias", -1, {-1, NULL}, &yes, LMI_FROM_CALL},
                            {NULL, 0, {4, sizes}, NULL, LMI_FROM_ANY},
                            {"stride", -1, {0, NULL}, NULL, LMI_FROM_ANY}};
    lmi_bind(lam_word_module("Conv2d"), anything, 5, &s);
    assert_int_equal(filled(&s), 3);
}

static void every_word_binds_all_it_names(void **state) {
    (void)state;
    for (int32_t w = 0; lam_word_name(w); w++) {
        lmi_offer offers[32];
        int32_t n = 0;
        for (; lam_word_attr(w, n); n++) offers[n] = attr(lam_word_attr(w, n), &number);
        lmi_slots s;
        lmi_bind(w, offers, n, &s);
        assert_int_equal(filled(&s), n); /* each attribute has a role of its own */
        lmi_offer first = input(NULL, 0, 2);
        lmi_bind(w, &first, 1, &s);
        assert_int_equal(filled(&s), lam_word_is_container(w) ? 0 : 1);
    }
}

static void unknown_words_bind_nothing(void **state) {
    (void)state;
    lmi_slots s;
    lmi_offer offers[] = {input(NULL, 0, 2)};
    lmi_bind(-1, offers, 1, &s);
    assert_int_equal(filled(&s), 0);
    lmi_bind(lam_word_module("ReLU"), NULL, 0, &s);
    assert_int_equal(filled(&s), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_sorted_and_found),
        cmocka_unit_test(every_kind_has_a_word),
        cmocka_unit_test(words_know_their_rank),
        cmocka_unit_test(containers_do_no_work),
        cmocka_unit_test(attributes_are_listed),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(dtypes_are_torchs),
        cmocka_unit_test(binds_a_convolution),
        cmocka_unit_test(binds_by_keyword_and_position),
        cmocka_unit_test(owned_tensors_may_be_hidden),
        cmocka_unit_test(origins_do_not_mix),
        cmocka_unit_test(every_word_binds_all_it_names),
        cmocka_unit_test(unknown_words_bind_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
