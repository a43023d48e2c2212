/* SPDX-License-Identifier: Apache-2.0
 * Facts of layers that are not as torch makes them: attributes missing, parameters kept elsewhere, shapes
 * unknown, tensors tied, trees deep. What can't be had must stay unknown. */
#include "kit/bare_layer.h"

/* -- helpers ------------------------------------------------------------------------------------------- */

static void shapes(void **state) {
    (void)state;
    lam_shape s = {SIZES(2, 3, 5)}, unknown = {UNKNOWN_SHAPE}, scalar = {0, NULL};
    assert_int_equal(lmi_axis(s, 0), 2);
    assert_int_equal(lmi_axis(s, -1), 5);
    assert_int_equal(lmi_axis(s, 3), -1);
    assert_int_equal(lmi_axis(s, -4), -1);
    assert_int_equal(lmi_axis(unknown, 0), -1);
    assert_int_equal(lmi_axis(unknown, -1), -1);
    assert_int_equal(lmi_numel(s), 30);
    assert_int_equal(lmi_numel(scalar), 1);
    assert_int_equal(lmi_numel(unknown), -1);
    assert_int_equal(lmi_numel((lam_shape){SIZES(INT64_MAX, 2)}), -1);
    assert_int_equal(lmi_spatial(s, 2), 15);
    assert_int_equal(lmi_spatial(s, 3), -1);
    assert_int_equal(lmi_spatial(s, -1), -1);
    assert_int_equal(lmi_spatial((lam_shape){SIZES(1, INT64_MAX, 2)}, 2), -1);
}

static void values(void **state) {
    (void)state;
    const int64_t two[] = {4, 5};
    lam_value ints = {.type = LAM_INTS, .n = 2, .ints = two}, one = {.type = LAM_INTS, .n = 1, .ints = two};
    lam_value number = {.type = LAM_INT, .i = 3}, yes = {.type = LAM_BOOL, .i = 1}, none = {.type = LAM_NONE};
    assert_int_equal(lmi_value_int(&number, 9), 3);
    assert_int_equal(lmi_value_int(&yes, 9), 1);
    assert_int_equal(lmi_value_int(&one, 9), 4);
    assert_int_equal(lmi_value_int(&ints, 9), 9);
    assert_int_equal(lmi_value_int(&none, 9), 9);
    assert_int_equal(lmi_value_int(NULL, 9), 9);
    assert_int_equal(lmi_value_axis(&ints, 1, 9), 5);
    assert_int_equal(lmi_value_axis(&ints, 2, 9), 9);
    assert_int_equal(lmi_value_axis(&ints, -1, 9), 9);
    assert_int_equal(lmi_value_axis(&one, 1, 9), 4);
    assert_int_equal(lmi_value_axis(&number, 1, 9), 3);
    assert_int_equal(lmi_value_axis(NULL, 1, 9), 9);
}

/* -- the frame ----------------------------------------------------------------------------------------- */

static void nothing_seen(void **state) {
    (void)state;
    start("ReLU");
    call(0, NULL, 0, NULL);
    UNKNOWN(in);
    UNKNOWN(out);
    UNKNOWN(dims);
    UNKNOWN(batch);
    UNKNOWN(outs);
    UNKNOWN(rank);
    IS(ins, 0);
    IS(params, 0);
    IS(training, 0);
    IS(inplace, 0);
    IS(opened, 0);
    lmi_facts_of(model, 7, &facts); /* no such call */
    UNKNOWN(ins);
}

static void sums(void **state) {
    (void)state;
    start("Identity");
    int32_t t = new_tensor(SIZES(3)); /* one tensor under two names is one */
    assert_int_equal(lam_build_owns(bare.b, 0, "a", t, false, NULL), LAM_OK);
    assert_int_equal(lam_build_owns(bare.b, 0, "b", t, false, NULL), LAM_OK);
    assert_int_equal(lam_build_owns(bare.b, 0, "c", new_tensor(SIZES(5)), true, NULL), LAM_OK);
    const lam_arg in[] = {arg(SIZES(2, 3)), arg(SIZES(4))}, out[] = {arg(SIZES(2, 3)), arg(UNKNOWN_SHAPE)};
    call(2, in, 2, out);
    IS(ins, 10);
    UNKNOWN(outs);
    IS(params, 3);
    IS(all_params, 3);
    IS(buffers, 5);
    IS(batch, 2);
    IS(rank, 0);
}

static void too_large(void **state) {
    (void)state;
    start("Identity");
    own(0, "a", SIZES(INT64_MAX));
    own(0, "b", SIZES(INT64_MAX));
    const lam_arg in[] = {arg(SIZES(INT64_MAX)), arg(SIZES(1))};
    lam_arg out = arg(SIZES(INT64_MAX, 2));
    call(2, in, 1, &out);
    IS(in, INT64_MAX);
    UNKNOWN(ins);
    UNKNOWN(out);
    UNKNOWN(params);
}

static void uninitialised(void **state) {
    (void)state;
    start("Linear");
    own(0, "weight", UNKNOWN_SHAPE);
    attr_int("in_features", 0);
    attr_int("out_features", 4);
    call1(arg(SIZES(2, 8)), arg(SIZES(2, 4)));
    UNKNOWN(params);
    IS(red, 0);
}

static void unbatched(void **state) {
    (void)state;
    start("MaxPool2d");
    attr_int("kernel_size", 3);
    call1(arg(SIZES(3, 9, 12)), arg(SIZES(3, 3, 4)));
    IS(rank, 2);
    IS(batch, 1);
    IS(isp, 108);
    IS(osp, 12);
    IS(win, 9);
    IS(win_as_written, 3);
    IS(win_x2, 3);
}

/* `n` tensors that a layer and its child share. */
static void tie(int n) {
    start("Identity");
    add_place(0, "other", "Identity", 0);
    for (int i = 0; i < n; i++) {
        int32_t t = new_tensor(SIZES(1));
        assert_int_equal(lam_build_owns(bare.b, 0, "a", t, false, NULL), LAM_OK);
        assert_int_equal(lam_build_owns(bare.b, 1, "b", t, false, NULL), LAM_OK);
    }
    call1(arg(SIZES(2)), arg(SIZES(2)));
}

/* More tied tensors than are remembered: the sum is unknown rather than wrong. */
static void tied(void **state) {
    tie(256);
    IS(params, 256);
    IS(all_params, 256);
    IS(buffers, 0);
    done(state);
    tie(257);
    IS(params, 257);
    UNKNOWN(all_params);
    done(state);
    tie(1025);
    UNKNOWN(params);
    UNKNOWN(all_params);
}

/* A layer with a tree of its own: a chain, fans, and one module at two places. */
static void a_tree_inside(void **state) {
    (void)state;
    enum { DEPTH = 3000 };
    start("TransformerEncoder");
    for (int32_t i = 0; i < 3; i++) own(add_place(0, "fan", "Linear", 0), "weight", SIZES(10));
    int32_t place, deepest = 0;
    assert_int_equal(lam_build_place(bare.b, 0, "again", 2, &place, NULL), LAM_OK);
    for (int32_t i = 0; i < DEPTH; i++) {
        lam_module_info info = {.type = "Sequential", .type_path = "", .word = lam_word_module("Sequential")};
        int32_t module;
        assert_int_equal(lam_build_module(bare.b, &info, &module, NULL), LAM_OK);
        own(module, "weight", SIZES(1));
        assert_int_equal(lam_build_place(bare.b, deepest, "deep", module, &deepest, NULL), LAM_OK);
    }
    call1(arg(SIZES(2, 3, 4)), arg(SIZES(2, 3, 4)));
    IS(params, 0);
    IS(all_params, 30 + DEPTH);
}

/* Sums by name are of parameters, each once. */
static void parameters_by_name(void **state) {
    (void)state;
    bare = net_new();
    add_place(-1, "", "Linear", LAM_MODULE_LEAF);
    own(0, "weight", SIZES(3, 4));
    own(0, "bias", SIZES(3));
    own(0, "in_proj_weight", SIZES(5));
    own(0, "scale", SIZES(11));
    assert_int_equal(lam_build_owns(bare.b, 0, "tied_weight", 0, false, NULL), LAM_OK);
    assert_int_equal(lam_build_owns(bare.b, 0, "old_bias", new_tensor(SIZES(7)), true, NULL), LAM_OK);
    call1(arg(SIZES(2, 4)), arg(SIZES(2, 3)));
    IS(plain_params, 15);
    IS(odd_params, 5);
    IS(params, 31);
    IS(buffers, 7);
}

/* -- dense --------------------------------------------------------------------------------------------- */

static void linear_from_weight(void **state) {
    (void)state;
    start("Linear");
    own(0, "weight", SIZES(4, 8));
    own(0, "bias", SIZES(4));
    call1(arg(SIZES(2, 8)), arg(SIZES(2, 4)));
    IS(red, 8);
    IS(out_channels, 4);
    IS(weights, 32);
    IS(bias, 1);
    IS(biases, 4);
    IS(x1, 8);
    IS(y1, 4);
}

static void linear_of_no_outputs(void **state) {
    (void)state;
    start("Linear");
    own(0, "weight", SIZES(0, 8));
    call1(arg(SIZES(2, 8)), arg(UNKNOWN_SHAPE));
    IS(red, 8);
    IS(out_channels, 0);
    IS(weights, 0);
}

static void linear_from_shapes(void **state) {
    (void)state;
    start("Linear");
    attr_type("bias", LAM_NONE, 0, NULL);
    call1(arg(SIZES(8)), arg(SIZES(4)));
    IS(red, 8);
    IS(weights, 32);
    IS(bias, 0);
    IS(biases, 0);
    IS(batch, 1);
    UNKNOWN(x1);
}

static void linear_from_nothing(void **state) {
    (void)state;
    start("Linear");
    call(0, NULL, 0, NULL);
    UNKNOWN(red);
    UNKNOWN(weights);
}

static void embedding_from_output(void **state) {
    (void)state;
    start("Embedding");
    call1(arg(SIZES(2, 3)), arg(SIZES(2, 3, 5)));
    IS(row, 5);
}

static void resampled_from_nothing(void **state) {
    (void)state;
    start("Upsample");
    attr_type("mode", LAM_TEXT, 0, "nearest");
    attr_type("size", LAM_INT, 4, NULL);
    call1(arg(SIZES(1, 1, 0)), arg(SIZES(1, 1, 4)));
    UNKNOWN(touched);
}

static void bilinear(void **state) {
    (void)state;
    start("Bilinear");
    own(0, "weight", SIZES(5, 3, 4));
    call1(arg(SIZES(2, 3)), arg(SIZES(2, 5)));
    IS(in1, 3);
    IS(in2, 4);
    IS(red, 12);
    IS(weights, 60);
    IS(bias, 0);
}

static void conv_from_weight(void **state) {
    (void)state;
    start("Conv2d");
    attr_int("groups", 2);
    own(0, "weight", SIZES(6, 2, 3, 5));
    call1(arg(SIZES(1, 4, 9, 9)), arg(SIZES(1, 6, 7, 5)));
    IS(in_channels, 4);
    IS(out_channels, 6);
    IS(win, 15);
    IS(red, 30);
    IS(red_x1, 30);
    IS(osp, 35);
    IS(isp, 81);
}

static void transposed_from_weight(void **state) {
    (void)state;
    start("ConvTranspose2d");
    attr_int("groups", 2);
    own(0, "weight", SIZES(4, 3, 2, 2));
    call1(arg(SIZES(1, 4, 9, 9)), arg(SIZES(1, 6, 10, 10)));
    IS(in_channels, 4);
    IS(out_channels, 6);
    IS(red, 8);
    IS(weights, 48);
}

static void conv_without_groups(void **state) {
    (void)state;
    start("Conv2d");
    own(0, "weight", SIZES(6, 2, 3, 5));
    call1(arg(SIZES(1, 4, 9, 9)), arg(SIZES(1, 6, 7, 5)));
    UNKNOWN(red);
    UNKNOWN(in_channels);
    IS(weights, 180);
}

static void conv_of_strange_weight(void **state) {
    start("Conv2d");
    attr_int("groups", 0);
    own(0, "weight", SIZES(6, 2, 3));
    call1(arg(SIZES(1, 4, 9, 9)), arg(SIZES(1, 6, 7, 5)));
    UNKNOWN(win);
    UNKNOWN(red);
    UNKNOWN(red_x1);
    IS(weights, 36);
    done(state);
    start("Conv2d");
    attr_int("groups", 1);
    own(0, "weight", SIZES(6, 2, 3, 3, 2)); /* an axis more than the layer has */
    call1(arg(SIZES(1, 2, 9, 9)), arg(SIZES(1, 6, 7, 7)));
    UNKNOWN(win);
    UNKNOWN(red);
    IS(weights, 216);
}

static void conv_attributes(void) {
    attr_int("in_channels", 3);
    attr_int("out_channels", 8);
    attr_int("groups", 1);
    attr_ints("kernel_size", 2, (const int64_t[]){3, 3});
    attr_type("padding", LAM_TEXT, 0, "same");
}

/* torch.nn.utils.parametrize keeps the original in a child. */
static void parametrized(void **state) {
    (void)state;
    start("Conv2d");
    conv_attributes();
    int32_t keeper = add_place(0, "parametrizations", "ModuleDict", 0);
    own(add_place(keeper, "weight", "ParametrizationList", 0), "original", SIZES(8, 3, 3, 3));
    own(add_place(keeper, "bias", "ParametrizationList", 0), "original", SIZES(8));
    call1(arg(SIZES(1, 3, 10, 10)), arg(SIZES(1, 8, 10, 10)));
    IS(weights, 216);
    IS(bias, 1);
    IS(biases, 8);
    IS(params, 0);
    IS(all_params, 224);
    IS(red, 27);
}

/* torch.nn.utils.prune keeps it under another name, the older weight_norm in two. */
static void pruned(void **state) {
    (void)state;
    start("Conv2d");
    conv_attributes();
    own(0, "weight_orig", SIZES(8, 3, 3, 3));
    own(0, "bias_orig", SIZES(8));
    call1(arg(SIZES(1, 3, 10, 10)), arg(SIZES(1, 8, 10, 10)));
    IS(weights, 216);
    IS(bias, 1);
    IS(params, 224);
}

static void weight_normed_norm(void **state) {
    (void)state;
    start("LayerNorm");
    attr_ints("normalized_shape", 2, (const int64_t[]){3, 4});
    own(0, "weight_g", SIZES(3, 1));
    own(0, "weight_v", SIZES(3, 4));
    call1(arg(SIZES(2, 3, 4)), arg(SIZES(2, 3, 4)));
    IS(scales, 12);
    IS(shifts, 0);
    IS(affine, 1);
}

/* -- norm ---------------------------------------------------------------------------------------------- */

static void batch_norm_bare(void **state) {
    (void)state;
    start("BatchNorm1d");
    call1(arg(SIZES(8, 4)), arg(SIZES(8, 4)));
    IS(batch, 8);
    IS(chan, 4);
    IS(rows, 4);
    IS(per_row, 8);
    IS(affine, 0);
    IS(stats, 0);
    IS(tracked, 0);
    UNKNOWN(momentum);
    UNKNOWN(cumulative);
}

static void batch_norm_of_scale(void **state) {
    (void)state;
    start("BatchNorm2d");
    own(0, "weight", SIZES(4));
    own(0, "running_mean", SIZES(4));
    attr_int("momentum", 0);
    call1(arg(UNKNOWN_SHAPE), arg(UNKNOWN_SHAPE));
    IS(chan, 4);
    IS(affine, 1);
    IS(tracked, 1);
    IS(momentum, 0);
    IS(cumulative, 0);
    UNKNOWN(per_row);
    UNKNOWN(batch);
}

static void batch_norm_of_nothing(void **state) {
    (void)state;
    start("SyncBatchNorm");
    attr_type("momentum", LAM_NONE, 0, NULL);
    call1(arg(UNKNOWN_SHAPE), arg(UNKNOWN_SHAPE));
    UNKNOWN(chan);
    UNKNOWN(rows);
    IS(cumulative, 1);
    IS(momentum, 0);
}

static void instance_norm(void **state) {
    (void)state;
    start("InstanceNorm1d");
    call1(arg(SIZES(6, 9)), arg(SIZES(6, 9)));
    IS(batch, 1);
    IS(chan, 6);
    IS(rows, 6);
    IS(per_row, 9);
}

static void group_norm(void **state) {
    (void)state;
    start("GroupNorm");
    attr_int("num_groups", 2);
    attr_int("num_channels", 6);
    attr_type("affine", LAM_BOOL, 1, NULL);
    call1(arg(SIZES(3, 6, 5)), arg(SIZES(3, 6, 5)));
    IS(groups, 2);
    IS(rows, 6);
    IS(per_row, 15);
    IS(affine, 1);
    IS(chan, 6);
}

static void layer_norm_of_scale(void **state) {
    (void)state;
    start("RMSNorm");
    own(0, "weight", SIZES(5));
    call1(arg(SIZES(3, 5)), arg(SIZES(3, 5)));
    IS(chan, 5);
    IS(rows, 3);
}

static void layer_norm_of_nothing(void **state) {
    (void)state;
    start("LayerNorm");
    call1(arg(SIZES(3, 5)), arg(SIZES(3, 5)));
    UNKNOWN(chan);
    UNKNOWN(rows);
}

static void layer_norm_too_large(void **state) {
    (void)state;
    start("LayerNorm");
    attr_ints("normalized_shape", 2, (const int64_t[]){INT64_MAX, 4});
    call1(arg(SIZES(3, 5)), arg(SIZES(3, 5)));
    UNKNOWN(chan);
}

static void response_norm(void **state) {
    (void)state;
    start("LocalResponseNorm");
    attr_int("size", 5);
    call1(arg(SIZES(3, 5, 7)), arg(SIZES(3, 5, 7)));
    IS(size, 5);
    UNKNOWN(chan);
}

/* -- window -------------------------------------------------------------------------------------------- */

static void window_missing(void **state) {
    (void)state;
    start("AvgPool2d");
    call1(arg(SIZES(1, 3, 9, 9)), arg(SIZES(1, 3, 3, 3)));
    UNKNOWN(win);
    UNKNOWN(win_as_written);
    UNKNOWN(win_x2);
    IS(osp, 9);
}

static void window_too_large(void **state) {
    (void)state;
    start("AvgPool2d");
    attr_ints("kernel_size", 2, (const int64_t[]){INT64_MAX, 3});
    call1(arg(SIZES(9)), arg(SIZES(3)));
    UNKNOWN(win);
    UNKNOWN(win_as_written);
    UNKNOWN(osp);
}

static void window_of_a_vector(void **state) {
    (void)state;
    start("MaxPool1d");
    attr_int("kernel_size", 3);
    call1(arg(SIZES(4, 9)), arg(SIZES(4, 3)));
    IS(win, 3);
    UNKNOWN(win_x2);
}

static void adaptive(void **state) {
    (void)state;
    start("AdaptiveAvgPool2d");
    call1(arg(SIZES(3, 7, 8)), arg(SIZES(3, 3, 4)));
    IS(awin, 4);    /* 7 to 3: 7 mod 3 + 1; 8 to 4: 2 */
    IS(awin_x2, 2); /* the released tool skips two axes always */
}

static void adaptive_to_nothing(void **state) {
    (void)state;
    start("AdaptiveMaxPool1d");
    call1(arg(SIZES(3, 7)), arg(SIZES(3, 0)));
    UNKNOWN(awin);
    UNKNOWN(awin_x2);
}

static void fractional(void **state) {
    (void)state;
    start("FractionalMaxPool2d");
    attr_ints("kernel_size", 2, (const int64_t[]){2, 3});
    call1(arg(SIZES(1, 2, 9, 9)), arg(SIZES(1, 2, 4, 4)));
    IS(win, 6);
    IS(covered, 32 * 6);
}

int main(void) {
#define TEST(f) cmocka_unit_test_teardown(f, done)
    const struct CMUnitTest tests[] = {
        TEST(shapes),
        TEST(values),
        TEST(nothing_seen),
        TEST(sums),
        TEST(too_large),
        TEST(uninitialised),
        TEST(unbatched),
        TEST(tied),
        TEST(a_tree_inside),
        TEST(parameters_by_name),
        TEST(linear_from_weight),
        TEST(linear_of_no_outputs),
        TEST(linear_from_shapes),
        TEST(linear_from_nothing),
        TEST(bilinear),
        TEST(embedding_from_output),
        TEST(resampled_from_nothing),
        TEST(conv_from_weight),
        TEST(transposed_from_weight),
        TEST(conv_without_groups),
        TEST(conv_of_strange_weight),
        TEST(parametrized),
        TEST(pruned),
        TEST(weight_normed_norm),
        TEST(batch_norm_bare),
        TEST(batch_norm_of_scale),
        TEST(batch_norm_of_nothing),
        TEST(instance_norm),
        TEST(group_norm),
        TEST(layer_norm_of_scale),
        TEST(layer_norm_of_nothing),
        TEST(layer_norm_too_large),
        TEST(response_norm),
        TEST(window_missing),
        TEST(window_too_large),
        TEST(window_of_a_vector),
        TEST(adaptive),
        TEST(adaptive_to_nothing),
        TEST(fractional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
