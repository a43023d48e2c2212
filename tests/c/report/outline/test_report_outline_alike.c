/* SPDX-License-Identifier: Apache-2.0
 *
 * What colours places, and what makes two outlines comparable: families, attributes, reasons. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/outlined.h"

#include "report/outline/work.h"

/* -- families ---------------------------------------------------------------------------------------- */

/* A network with one layer of this type, "at", which calls a Linear of its own or is a leaf: the layer's
 * call. */
static int32_t net_of_layer(net *n, const char *type, const char *at, bool parts) {
    int32_t root = net_module(n, "Net", 0), layer = net_module(n, type, parts ? 0 : LAM_MODULE_LEAF);
    int32_t p = net_place(n, net_place(n, -1, "", root), at, layer);
    int32_t r = net_call(n, root, -1, SH(4, 4), 0, SH(4, 4), 0),
            c = net_call(n, layer, r, SH(4, 4), 0, SH(4, 4), 0);
    if (parts) {
        int32_t fc = net_linear(n, 4, 4);
        net_place(n, p, "fc", fc);
        net_call(n, fc, c, SH(4, 4), 0, SH(4, 4), 0);
    }
    return c;
}

/* The family of a leaf of no known class, called "Mine", that runs these operators itself. */
static lmi_layer_family family_of_ops(const char *const *ops, lam_phase phase, bool parts) {
    net n = net_new();
    const int32_t c = net_of_layer(&n, "Mine", "mine", parts);
    for (int i = 0; i < 3 && ops[i]; i++) net_op(&n, ops[i], (op_at){c, -1, phase, 0});
    outlined x = outline_of(net_done(&n), NULL);
    lmi_layer_family family = (lmi_layer_family)outline_at(&x.o, "mine")->family;
    outline_leave(&x);
    return family;
}

static void test_families_of_operators(void **unused) {
    (void)unused;
    static const struct {
        const char *ops[3];
        lmi_layer_family family;
    } all[] = {
        {{"aten::_scaled_dot_product_flash_attention"}, LMI_ATTENTION},
        {{"aten::_flash_attention_forward"}, LMI_ATTENTION},
        {{"aten::_efficient_attention_forward"}, LMI_ATTENTION},
        {{"aten::_native_multi_head_attention"}, LMI_ATTENTION},
        {{"aten::_cudnn_rnn"}, LMI_ATTENTION},
        {{"aten::mkldnn_rnn_layer"}, LMI_ATTENTION},
        {{"aten::quantized_lstm"}, LMI_ATTENTION},
        {{"aten::mm", "aten::_softmax", "aten::mm"}, LMI_ATTENTION},
        {{"aten::_softmax", "aten::bmm", "aten::bmm"}, LMI_ATTENTION},
        {{"aten::mm", "aten::_softmax"}, LMI_LINEAR},
        {{"aten::mm", "aten::mm", "aten::mm"}, LMI_LINEAR},
        {{"aten::_softmax"}, LMI_OTHER_FAMILY},
        {{"aten::_addmm_activation"}, LMI_LINEAR},
        {{"aten::einsum"}, LMI_LINEAR},
        {{"aten::_grouped_mm"}, LMI_LINEAR},
        {{"aten::_weight_int4pack_mm"}, LMI_LINEAR},
        {{"aten::linear"}, LMI_LINEAR},
        {{"aten::convolution"}, LMI_CONVOLUTION},
        {{"aten::conv2d"}, LMI_CONVOLUTION},
        {{"quantized::conv2d"}, LMI_CONVOLUTION},
        {{"mkldnn::_linear_pointwise"}, LMI_LINEAR},
        {{"aten::conv_transpose2d"}, LMI_CONVOLUTION},
        {{"aten::cudnn_convolution_relu"}, LMI_CONVOLUTION},
        {{"torchvision::deform_conv2d"}, LMI_CONVOLUTION},
        {{"aten::mm", "aten::convolution"}, LMI_CONVOLUTION},
        {{"aten::native_layer_norm"}, LMI_NORMALISATION},
        {{"aten::native_layer_norm", "aten::mm"}, LMI_LINEAR},
        {{"aten::embedding"}, LMI_EMBEDDING},
        {{"aten::embedding", "aten::native_layer_norm"}, LMI_NORMALISATION},
        {{"aten::relu"}, LMI_OTHER_FAMILY},
        {{NULL}, LMI_OTHER_FAMILY},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_layer_family family = family_of_ops(all[i].ops, LAM_FORWARD, false);
        if (family != all[i].family) fail_msg("%zu: %s", i, lmi_family_name[family]);
        /* What holds others is a container, unless it attends. */
        family = family_of_ops(all[i].ops, LAM_FORWARD, true);
        if (family != (all[i].family == LMI_ATTENTION ? LMI_ATTENTION : LMI_CONTAINER))
            fail_msg("%zu with parts: %s", i, lmi_family_name[family]);
        assert_int_equal(family_of_ops(all[i].ops, LAM_BACKWARD, false), LMI_OTHER_FAMILY);
    }
}

static void test_families_of_names(void **unused) {
    (void)unused;
    static const struct {
        const char *type;
        lmi_layer_family family, holds;
    } all[] = {{"LlamaAttention", LMI_ATTENTION, LMI_ATTENTION},
               {"attn", LMI_ATTENTION, LMI_ATTENTION},
               {"MyLSTM", LMI_ATTENTION, LMI_ATTENTION},
               {"MambaMixer", LMI_ATTENTION, LMI_ATTENTION},
               {"CONV", LMI_CONVOLUTION, LMI_CONTAINER},
               {"FrozenBatchNorm2d", LMI_NORMALISATION, LMI_CONTAINER},
               {"RotaryEmbedding", LMI_EMBEDDING, LMI_CONTAINER},
               {"QuantLinear", LMI_LINEAR, LMI_CONTAINER},
               {"DropPathDropout", LMI_ACTIVATION, LMI_CONTAINER},
               {"SquaredReLU", LMI_ACTIVATION, LMI_CONTAINER},
               {"NewGELU", LMI_ACTIVATION, LMI_CONTAINER},
               {"SiLUx", LMI_ACTIVATION, LMI_CONTAINER},
               {"Sigmoid2", LMI_ACTIVATION, LMI_CONTAINER},
               {"SoftMax", LMI_ACTIVATION, LMI_CONTAINER},
               {"ActivationZ", LMI_ACTIVATION, LMI_CONTAINER},
               {"ConvNorm", LMI_CONVOLUTION, LMI_CONTAINER}, /* the first that is found */
               {"con", LMI_OTHER_FAMILY, LMI_CONTAINER},
               {"Zebra@[", LMI_OTHER_FAMILY, LMI_CONTAINER},
               {"", LMI_OTHER_FAMILY, LMI_CONTAINER}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_layer_family family = lmi_family_of_name(all[i].type, false);
        if (family != all[i].family) fail_msg("%s: %s", all[i].type, lmi_family_name[family]);
        assert_int_equal(lmi_family_of_name(all[i].type, true), all[i].holds);
    }
}

/* Of an attention's kind, what holds others is a container unless it attends itself. */
static void test_families_of_what_holds_an_attention(void **unused) {
    (void)unused;
    static const char *const types[] = {"MultiheadAttention", "TransformerEncoderLayer", "Sequential"};
    for (int i = 0; i < 3; i++)
        for (int parts = 0; parts < 2; parts++) {
            net n = net_new();
            net_of_layer(&n, types[i], "x", parts);
            net_op(&n, "aten::relu", (op_at){0, -1, LAM_FORWARD, 0});
            outlined o = outline_of(net_done(&n), "exact");
            assert_int_equal(outline_at(&o.o, "x")->family,
                             i == 2 || (i == 1 && parts) ? LMI_CONTAINER : LMI_ATTENTION);
            outline_leave(&o);
        }
}

/* -- attributes ---------------------------------------------------------------------------------------- */

#define INTS(...)                                                                                            \
    {                                                                                                        \
        .type = LAM_INTS, .n = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                \
        .ints = (const int64_t[]) {                                                                          \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define INT(v)                                                                                               \
    { .type = LAM_INT, .i = (v) }
#define BOOL(v)                                                                                              \
    { .type = LAM_BOOL, .i = (v) }
#define FLOAT(v)                                                                                             \
    { .type = LAM_FLOAT, .f = (v) }
#define TEXT(v)                                                                                              \
    { .type = LAM_TEXT, .text = (v) }

static void test_values_of_attributes(void **unused) {
    (void)unused;
    const struct {
        lam_value a, b;
        bool same;
    } all[] = {{INT(3), INT(3), true},
               {INT(3), INT(4), false},
               {BOOL(1), BOOL(1), true},
               {BOOL(1), BOOL(0), false},
               {BOOL(1), INT(1), false},
               {INTS(3, 3), INT(3), true},
               {INTS(3, 4), INT(3), false},
               {INTS(4, 3), INT(3), false},
               {{.type = LAM_INTS}, INT(3), false},
               {INTS(3, 4), INTS(3, 4), true},
               {INTS(3, 4), INTS(3, 5), false},
               {INTS(3), INTS(3, 3), false},
               {{.type = LAM_INTS}, {.type = LAM_INTS}, true},
               {INTS(3), BOOL(3), false},
               {FLOAT(.5), FLOAT(.5), true},
               {FLOAT(.5), FLOAT(.5 + 2e-10), true}, /* a saved number has nine digits */
               {FLOAT(.5), FLOAT(.5 + 2e-9), false},
               {FLOAT(-.5), FLOAT(.5), false},
               {FLOAT(-.5), FLOAT(-.5 - 2e-10), true},
               {FLOAT(0), FLOAT(0), true},
               {FLOAT(2), INT(2), true},
               {FLOAT(2.5), INT(2), false},
               {FLOAT(2), BOOL(2), false},
               {TEXT("zeros"), TEXT("zeros"), true},
               {TEXT("zeros"), TEXT("circular"), false},
               {TEXT("1"), INT(1), false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int turned = 0; turned < 2; turned++) {
            const lam_attr a = {.name = "x", .value = turned ? all[i].b : all[i].a},
                           b = {.name = "x", .value = turned ? all[i].a : all[i].b};
            const lmi_outline_place was = {.n_attrs = 1, .attrs = &a}, now = {.n_attrs = 1, .attrs = &b};
            lam_attr out[2];
            if (lmi_changed_attr(&was, &now, 0, out) == all[i].same) fail_msg("pair %zu, %d", i, turned);
        }
}

/* In the order of those after; what only one of them knows does not differ. */
static void test_attributes_that_differ(void **unused) {
    (void)unused;
    const lam_attr a[] = {{.name = "p", .value = INT(1)},
                          {.name = "q", .value = INT(2)},
                          {.name = "r", .value = INT(3)},
                          {.name = "gone", .value = INT(4)}},
                   b[] = {{.name = "r", .value = INT(30)},
                          {.name = "new", .value = INT(5)},
                          {.name = "q", .value = INT(2)},
                          {.name = "p", .value = INT(10)}};
    const lmi_outline_place was = {.n_attrs = 4, .attrs = a}, now = {.n_attrs = 4, .attrs = b}, none = {0};
    lam_attr out[2];
    assert_true(lmi_changed_attr(&was, &now, 0, out));
    assert_string_equal(out[0].name, "r");
    assert_int_equal(out[0].value.i, 3);
    assert_string_equal(out[1].name, "r");
    assert_int_equal(out[1].value.i, 30);
    assert_true(lmi_changed_attr(&was, &now, 1, out));
    assert_string_equal(out[0].name, "p");
    assert_int_equal(out[0].value.i, 1);
    assert_int_equal(out[1].value.i, 10);
    assert_false(lmi_changed_attr(&was, &now, 2, out));
    assert_false(lmi_changed_attr(&was, &none, 0, out));
    assert_false(lmi_changed_attr(&none, &now, 0, out));
}

/* -- outlines -------------------------------------------------------------------------------------------- */

static void test_what_outlines_count_alike(void **unused) {
    (void)unused;
    static const char *const conventions[] = {NULL, "exact", "torch"};
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            for (int once = 0; once < 8; once++) {
                lmi_outline x = {.convention = conventions[a]}, y = {.convention = conventions[b]};
                x.params.params.n = y.params.params.n = 7;
                x.params.in_rows.n = once & 1 ? 7 : 8;
                y.params.in_rows.n = once & 2 ? 7 : 8;
                y.params.in_rows.over = once & 4 ? 1 : 0;
                bool alike = a && a == b, each = once == 3;
                assert_int_equal(lmi_outlines_agree(&x, &y, LMI_OWN_MACS), alike);
                assert_int_equal(lmi_outlines_agree(&x, &y, LMI_OWN_PARAMS), alike || each);
                assert_int_equal(lmi_outlines_agree(&x, &y, LMI_OWN_PARAM_BYTES), alike || (each && a && b));
            }
}

static const char *reasons_of(const lmi_outline *was, const lmi_outline *now) {
    static char text[2000];
    size_t n = 0;
    lmi_setup_change u;
    text[0] = '\0';
    for (int32_t i = 0; lmi_outlines_unlike(was, now, i, &u); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s: %s, %s%s\n", u.what, u.was, u.now, u.so);
    return text;
}

static void test_reasons_not_to_compare(void **unused) {
    (void)unused;
    const char *a[][2] = {{"dry", "no"}, {"processor", "A"}, {"threads", "1"}, {"torch", "2.4"}},
               *b[][2] = {{"torch", "2.5"}, {"threads", "2"}, {"processor", "B"}, {"dry", "yes"}};
    lmi_outline_place at[] = {{.in = "1\u00d73"}, {.in = "2\u00d73"}};
    lmi_outline was = {.convention = "exact",
                       .mode = "train",
                       .at = &at[0],
                       .n = 1,
                       .timed = true,
                       .provenance = a,
                       .n_provenance = 4},
                now = {.convention = "torch",
                       .mode = "eval",
                       .at = &at[1],
                       .n = 1,
                       .timed = true,
                       .provenance = b,
                       .n_provenance = 4,
                       .backward = true};
    assert_string_equal(
        reasons_of(&was, &now),
        "The convention differs: exact, torch: MACs, FLOPs and bytes can't be compared\n"
        "The mode differs: train, eval: not everything runs in both, so no number may be compared without "
        "care\n"
        "The inputs differ: 1\u00d73, 2\u00d73: what depends on their sizes differs for that alone\n"
        "A backward ran: no, yes: peaks of memory can't be compared\n"
        "A dry run: no, yes: it computes nothing, so what depends on values may differ for that alone\n"
        "Another processor: A, B: times can't be compared\n"
        "Another number of threads: 1, 2: times can't be compared\n"
        "Another torch: 2.4, 2.5: times can't be compared\n");
    assert_string_equal(reasons_of(&was, &was), "");
    for (int k = 0; k < 2; k++) { /* what one of them does not tell is no reason */
        lmi_outline x = was, y = now;
        lmi_outline *less = k ? &x : &y;
        less->convention = less->mode = NULL;
        less->timed = false;
        less->n_provenance = 0;
        at[k ? 0 : 1].in = "";
        assert_string_equal(reasons_of(&x, &y),
                            "A backward ran: no, yes: peaks of memory can't be compared\n");
        at[k ? 0 : 1].in = "2\u00d73";
    }
    assert_string_equal(lmi_outline_provenance(&was, "torch"), "2.4");
    assert_null(lmi_outline_provenance(&was, "tor"));
}

/* -- numbers --------------------------------------------------------------------------------------------- */

static void test_numbers_that_are_added(void **unused) {
    (void)unused;
    static const struct {
        lam_count to, with, sum; /* over: the greatest that there is */
    } all[] = {
        {{3, 0, LAM_EXACT}, {4, 0, LAM_EXACT}, {7, 0, LAM_EXACT}},
        {{3, 0, LAM_EXACT}, {0, 0, LAM_UNKNOWN}, {3, 0, LAM_AT_LEAST}},
        {{0, 0, LAM_EXACT}, {0, 0, LAM_UNKNOWN}, {0, 0, LAM_UNKNOWN}},
        {{0, 0, LAM_UNKNOWN}, {1, 0, LAM_EXACT}, {1, 0, LAM_AT_LEAST}},
        {{3, 0, LAM_AT_LEAST}, {4, 0, LAM_EXACT}, {7, 0, LAM_AT_LEAST}},
        {{INT64_MAX, 0, LAM_EXACT}, {0, 0, LAM_EXACT}, {INT64_MAX, 0, LAM_EXACT}},
        {{INT64_MAX, 0, LAM_EXACT}, {1, 0, LAM_EXACT}, {INT64_MAX, 0, LAM_AT_LEAST}},
        {{3, 0, LAM_EXACT}, {5, 1, LAM_EXACT}, {INT64_MAX, 0, LAM_AT_LEAST}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_filling w = {0};
        int64_t n = all[i].to.n;
        uint8_t state = (uint8_t)all[i].to.state;
        w.own[LMI_OWN_MACS] = &n;
        w.state[LMI_OWN_MACS] = &state;
        lmi_add_own(&w, LMI_OWN_MACS, 0, all[i].with);
        if (n != all[i].sum.n || state != all[i].sum.state) fail_msg("%zu: %lld %d", i, (long long)n, state);
    }
    assert_true(lmi_add_capped(INT64_MAX, 1) == INT64_MAX);
    assert_true(lmi_add_capped(INT64_MIN, -1) == INT64_MIN);
    assert_true(lmi_add_capped(INT64_MAX - 1, 1) == INT64_MAX);
    assert_int_equal(lmi_add_capped(-2, 3), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_of_operators),
        cmocka_unit_test(test_families_of_names),
        cmocka_unit_test(test_families_of_what_holds_an_attention),
        cmocka_unit_test(test_values_of_attributes),
        cmocka_unit_test(test_attributes_that_differ),
        cmocka_unit_test(test_what_outlines_count_alike),
        cmocka_unit_test(test_reasons_not_to_compare),
        cmocka_unit_test(test_numbers_that_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
