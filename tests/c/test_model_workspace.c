/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators take beside their results: figures that torch's own CPU allocator gave, and arguments that
 * are hostile or missing. */
#include "oom.h"

#include "ops_net.h"

enum { AXES = 8, MOST = 12 };
static const lam_cpu wide = {1, 16};

static lam_op_arg whole(int32_t at, int64_t i) {
    return (lam_op_arg){.position = at, .value = {.type = LAM_INT, .i = i}, .ndim = -1};
}
static lam_op_arg list(int32_t at, const int64_t *ints, int32_t n) {
    return (lam_op_arg){.position = at, .value = {.type = LAM_INTS, .n = n, .ints = ints}, .ndim = -1};
}
#define LIST(at, ...) list(at, SH(__VA_ARGS__))

/* Strides of elements one after another; `last`: with channels last. */
static void strides_of(const lam_op_arg *a, bool last, int64_t *to) {
    static const int32_t order[] = {1, 3, 2, 0};
    int64_t step = 1;
    for (int32_t i = 0; i < a->ndim; i++) {
        int32_t axis = last && a->ndim == 4 ? order[i] : a->ndim - 1 - i;
        to[axis] = step;
        step *= a->sizes[axis];
    }
}

static int64_t ask(const char *name, lam_cpu cpu, bool last, const lam_op_arg *in, int32_t n) {
    int64_t strides[MOST][AXES];
    const int64_t *at[MOST] = {NULL};
    for (int32_t i = 0; i < n; i++) {
        if (!in[i].is_tensor) continue;
        strides_of(&in[i], last, strides[i]);
        at[i] = strides[i];
    }
    int32_t rule = lam_workspace_rule(name);
    if (rule < 0) fail_msg("no rule serves %s", name);
    return lam_workspace(rule, in, at, n, cpu);
}
#define ASK(name, ...)                                                                                       \
    ask(name, wide, false, (lam_op_arg[]){__VA_ARGS__},                                                      \
        (int32_t)(sizeof((lam_op_arg[]){__VA_ARGS__}) / sizeof(lam_op_arg)))
#define CONV(stride, pad, dilation, groups)                                                                  \
    LIST(3, stride, stride), LIST(4, pad, pad), LIST(5, dilation, dilation), whole(6, 0), LIST(7, 0, 0),     \
        whole(8, groups)

static void data_and_weights_are_put_in_blocks(void **state) {
    (void)state;
    /* resnet18: weights and data copied; then few channels, and what is copied back */
    assert_int_equal(ASK("aten::convolution", T(0, 1, 512, 7, 7), T(1, 512, 512, 3, 3), CONV(1, 1, 1, 1)),
                     9537536);
    assert_int_equal(ASK("aten::convolution", T(0, 2, 3, 224, 224), T(1, 40, 3, 3, 3), CONV(2, 1, 1, 1)),
                     4816896);
    /* shufflenet's depthwise kernel of 24 channels, in blocks of 16 */
    assert_int_equal(ASK("aten::convolution", T(0, 1, 24, 56, 56), T(1, 24, 1, 3, 3), CONV(2, 1, 1, 24)),
                     427648);
    /* a window of one with a step: resnet50 */
    assert_in_range(ASK("aten::convolution", T(0, 1, 1024, 14, 14), T(1, 2048, 1024, 1, 1), CONV(2, 0, 1, 1)),
                    9392128, 9392256);
}

static void small_convolutions_write_columns(void **state) {
    (void)state;
    assert_int_equal(ASK("aten::convolution", T(0, 1, 16, 32, 32), T(1, 32, 16, 3, 3), CONV(1, 1, 1, 1)),
                     589824);
    assert_int_equal(ASK("aten::convolution", T(0, 1, 64, 56, 56), T(1, 64, 64, 1, 1), CONV(1, 0, 1, 1)), 0);
    const lam_op_arg volume[] = {T(0, 1, 64, 4, 56, 56), T(1, 64, 64, 3, 3, 3),
                                 LIST(3, 1, 1, 1),       LIST(4, 1, 1, 1),
                                 LIST(5, 1, 1, 1),       whole(6, 0),
                                 LIST(7, 0, 0, 0),       whole(8, 1)};
    assert_int_equal(ask("aten::convolution", wide, false, volume, 8), 86704128);
}

static void narrow_registers_make_narrow_blocks(void **state) {
    (void)state;
    const lam_op_arg in[] = {T(0, 1, 24, 56, 56), T(1, 24, 1, 3, 3), CONV(2, 1, 1, 24)};
    int64_t eight = ask("aten::convolution", (lam_cpu){1, 8}, false, in, 8);
    assert_int_equal(eight, 24 * 56 * 56 * 4 + 24 * 9 * 4);
    /* with threads oneDNN serves windows of one too */
    const lam_op_arg one[] = {T(0, 1, 64, 56, 56), T(1, 64, 64, 1, 1), CONV(1, 0, 1, 1)};
    assert_true(ask("aten::convolution", (lam_cpu){4, 16}, false, one, 8) > 0);
}

#define BACK(stride, pad, groups, data)                                                                      \
    LIST(4, stride, stride), LIST(5, pad, pad), LIST(6, 1, 1), whole(7, 0), LIST(8, 0, 0), whole(9, groups), \
        LIST(10, data, 1, 0)

static void backward_needs_both_in_blocks(void **state) {
    (void)state;
    assert_int_equal(ASK("aten::convolution_backward", T(0, 2, 512, 7, 7), T(1, 2, 512, 7, 7),
                         T(2, 512, 512, 3, 3), BACK(1, 1, 1, 1)),
                     9437184);
    assert_int_equal(ASK("aten::convolution_backward", T(0, 2, 96, 56, 56), T(1, 2, 96, 112, 112),
                         T(2, 96, 1, 3, 3), BACK(2, 1, 96, 1)),
                     12042240);
    /* no gradient of the image: only the weights' */
    assert_int_equal(ASK("aten::convolution_backward", T(0, 2, 64, 112, 112), T(1, 2, 3, 224, 224),
                         T(2, 64, 3, 7, 7), BACK(2, 3, 1, 0)),
                     6422528);
    /* 16 columns wide: matrices, and sums of the weights */
    assert_in_range(ASK("aten::convolution_backward", T(0, 2, 768, 14, 14), T(1, 2, 3, 224, 224),
                        T(2, 768, 3, 16, 16), BACK(16, 0, 1, 0)),
                    10039296, 10039552);
}

static void others(void **state) {
    (void)state;
    const lam_op_arg q = T(0, 2, 12, 197, 64), k = T(1, 2, 12, 197, 64);
    assert_int_equal(ASK("aten::_scaled_dot_product_flash_attention_for_cpu", q, k, T(2, 2, 12, 197, 64)),
                     67328);
    assert_int_equal(ASK("aten::_safe_softmax", T(0, 2, 12, 64, 64)), 2 * 12 * 64 * 64 + 2 * 2 * 12 * 64);
    assert_int_equal(ASK("aten::native_batch_norm_backward", T(0, 2, 64, 8, 8), T(1, 2, 64, 8, 8)),
                     2 * 64 * 64 * 4);
    assert_int_equal(ASK("aten::roll", T(0, 1, 56, 56, 96), LIST(1, 3, 3), LIST(2, 1, 2)), 1204224);
    assert_int_equal(ASK("aten::roll", T(0, 1, 56, 56, 96), LIST(1, 3), LIST(2, 1)), 0);
    assert_int_equal(ASK("aten::upsample_nearest2d", T(0, 1, 16, 28, 28), LIST(1, 56, 56)), 250880);
    assert_int_equal(ASK("aten::native_layer_norm", T(0, 2, 197, 768)), 0);
    const lam_op_arg turned = T(0, 2, 56, 56, 96);
    assert_int_equal(ask("aten::native_layer_norm", wide, true, &turned, 1), 2 * 56 * 56 * 96 * 4);
}

static void nothing_is_known_of_others(void **state) {
    (void)state;
    assert_int_equal(lam_workspace_rule("aten::relu"), -1);
    assert_int_equal(lam_workspace_rule(NULL), -1);
    assert_int_equal(lam_workspace(-1, NULL, NULL, 0, wide), 0);
    assert_int_equal(lam_workspace(1 << 20, NULL, NULL, 0, wide), 0);
    assert_int_equal(lam_cpu_here(0).threads, 1);
    assert_true(lam_cpu_here(3).lanes >= 8);
}

/* Whatever is handed over, there is a number, and it is none below 0. */
static void hostile_arguments(void **state) {
    (void)state;
    static const int64_t sizes[][AXES] = {{0},
                                          {1, 1, 1, 1, 1, 1},
                                          {INT64_MAX / 2, 3, INT64_MAX / 4, 9},
                                          {-1, -7, 2, 2}};
    static const char *const names[] = {
        "aten::convolution",   "aten::convolution_backward",       "aten::_safe_softmax",
        "aten::roll",          "aten::upsample_bilinear2d",        "aten::mkldnn_rnn_layer",
        "aten::gelu_backward", "aten::native_layer_norm_backward", "aten::_native_multi_head_attention"};
    for (size_t r = 0; r < sizeof names / sizeof *names; r++)
        for (size_t s = 0; s < 4; s++)
            for (int32_t ndim = 0; ndim < 6; ndim++) {
                lam_op_arg in[MOST];
                const int64_t *strides[MOST];
                for (int32_t i = 0; i < MOST; i++) {
                    in[i] = i < 3 ? net_op_tensor(i, sizes[s], ndim) : list(i, sizes[s], ndim);
                    strides[i] = sizes[(s + 1) % 4];
                }
                assert_true(lam_workspace(lam_workspace_rule(names[r]), in, strides, MOST, wide) >= 0);
                assert_int_equal(lam_workspace(lam_workspace_rule(names[r]), in, strides, 0, wide), 0);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_and_weights_are_put_in_blocks),
        cmocka_unit_test(small_convolutions_write_columns),
        cmocka_unit_test(narrow_registers_make_narrow_blocks),
        cmocka_unit_test(backward_needs_both_in_blocks),
        cmocka_unit_test(others),
        cmocka_unit_test(nothing_is_known_of_others),
        cmocka_unit_test(hostile_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
