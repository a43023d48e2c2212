/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators take beside their results: figures that torch's own CPU allocator gave, and arguments that
 * are hostile or missing. */
#include "oom.h"

#include "shape_args.h"

enum { AXES = 8, MOST = 12 };
static const lam_cpu wide = {1, 16, false};

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
    int64_t eight = ask("aten::convolution", (lam_cpu){1, 8, false}, false, in, 8);
    assert_int_equal(eight, 24 * 56 * 56 * 4 + 24 * 9 * 4);
    /* with threads oneDNN serves windows of one too */
    const lam_op_arg one[] = {T(0, 1, 64, 56, 56), T(1, 64, 64, 1, 1), CONV(1, 0, 1, 1)};
    assert_true(ask("aten::convolution", (lam_cpu){4, 16, false}, false, one, 8) > 0);
}

/* The same in another type: 5 float16, 7 float64, 15 bfloat16. */
static int64_t ask_in(int32_t dtype, const char *name, lam_cpu cpu, const lam_op_arg *in, int32_t n) {
    lam_op_arg all[MOST];
    for (int32_t i = 0; i < n; i++) {
        all[i] = in[i];
        if (in[i].is_tensor) all[i].dtype = dtype;
    }
    return ask(name, cpu, false, all, n);
}

static void products_in_16_bits(void **state) {
    (void)state;
    enum { HALF = 5, SINGLE = 6, BRAIN = 15 };
    static const struct {
        int64_t m, k, n, bytes;
    } known[] = {{4, 8, 2, 0},         {16, 64, 64, 13312},     {64, 784, 128, 82944},
                 {64, 128, 10, 19968}, {1024, 64, 64, 74752},   {512, 2048, 512, 197632},
                 {33, 65, 17, 15556},  {1, 1024, 1024, 66816},  {64, 8192, 64, 148480},
                 {64, 62, 64, 25600},  {197, 768, 2304, 116992}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const int64_t m = known[i].m, k = known[i].k, n = known[i].n;
        const lam_op_arg mm[] = {T(0, m, k), T(1, k, n)}, added[] = {T(0, n), T(1, m, k), T(2, k, n)};
        assert_int_equal(ask_in(BRAIN, "aten::mm", wide, mm, 2), known[i].bytes);
        assert_int_equal(ask_in(BRAIN, "aten::addmm", wide, added, 3), known[i].bytes);
        assert_int_equal(ask_in(SINGLE, "aten::mm", wide, mm, 2), 0);
        assert_int_equal(ask_in(HALF, "aten::mm", wide, mm, 2), 0);
        assert_int_equal(ask_in(HALF, "aten::mm", (lam_cpu){1, 16, true}, mm, 2), known[i].bytes);
        assert_int_equal(ask_in(BRAIN, "aten::mm", (lam_cpu){1, 8, false}, mm, 2), 0);
    }
    const lam_op_arg many[] = {T(0, 8, 128, 32), T(1, 8, 32, 128)};
    assert_int_equal(ask_in(BRAIN, "aten::bmm", wide, many, 2), 37888);
    /* one matrix on its side: that is copied too */
    const int64_t sizes[] = {64, 10, 10, 128}, across[] = {1, 64}, along[] = {128, 1};
    const lam_op_arg grad[] = {
        {.position = 0, .is_tensor = true, .dtype = BRAIN, .ndim = 2, .sizes = sizes},
        {.position = 1, .is_tensor = true, .dtype = BRAIN, .ndim = 2, .sizes = sizes + 2}};
    const int64_t *strides[] = {across, along};
    assert_int_equal(lam_workspace(lam_workspace_rule("aten::mm"), grad, strides, 2, wide),
                     64 * 64 * 4 + 32 * 64 * 2 + 64 * 32 * 2 + 128 + 1024);
    const int64_t deep[] = {64, 2048, 2048, 64}, down[] = {1, 64}, right[] = {64, 1};
    const lam_op_arg long_sums[] = {
        {.position = 0, .is_tensor = true, .dtype = BRAIN, .ndim = 2, .sizes = deep},
        {.position = 1, .is_tensor = true, .dtype = BRAIN, .ndim = 2, .sizes = deep + 2}};
    const int64_t *its[] = {down, right};
    assert_int_equal(lam_workspace(lam_workspace_rule("aten::mm"), long_sums, its, 2, wide), 152704);
    /* a thread takes blocks of its own */
    const lam_op_arg large[] = {T(0, 1024, 64), T(1, 64, 64)};
    assert_int_equal(ask_in(BRAIN, "aten::mm", (lam_cpu){2, 16, false}, large, 2), 2 * 74752);
}

static void other_types_have_other_kernels(void **state) {
    (void)state;
    const lam_op_arg groups[] = {T(0, 2, 64, 28, 28), T(1, 64, 16, 3, 3), CONV(1, 1, 1, 4)};
    const lam_op_arg image[] = {T(0, 1, 60, 20, 20), T(1, 30, 20, 5, 5), CONV(1, 2, 1, 3)};
    const lam_op_arg deep[] = {T(0, 2, 32, 56, 56), T(1, 32, 1, 3, 3), CONV(1, 1, 1, 32)};
    const lam_op_arg back[] = {T(0, 3, 32, 20, 20), T(1, 32, 16, 2, 2), LIST(3, 2, 2), LIST(4, 0, 0),
                               LIST(5, 1, 1),       whole(6, 1),        LIST(7, 0, 0), whole(8, 1)};
    const lam_op_arg volume[] = {T(0, 2, 8, 10, 10, 10), T(1, 12, 4, 3, 3, 3), LIST(3, 1, 1, 1),
                                 LIST(4, 0, 0, 0),       LIST(5, 1, 1, 1),     whole(6, 0),
                                 LIST(7, 0, 0, 0),       whole(8, 2)};
    const lam_op_arg point[] = {T(0, 2, 64, 28, 28), T(1, 64, 64, 1, 1), CONV(1, 0, 1, 1)};
    const lam_cpu half = {1, 16, true};
    assert_int_equal(ask_in(5, "aten::convolution", wide, groups, 8), 501760);
    assert_int_equal(ask_in(7, "aten::convolution", wide, groups, 8), 4 * 501760);
    assert_int_equal(ask_in(5, "aten::convolution", wide, image, 8), 400000);
    assert_int_equal(ask_in(5, "aten::convolution", wide, deep, 8), 401408); /* results to be joined */
    assert_int_equal(ask_in(5, "aten::convolution", wide, back, 8), 153600);
    assert_int_equal(ask_in(5, "aten::convolution", wide, volume, 8), 442368);
    assert_int_equal(ask_in(5, "aten::convolution", wide, point, 8), 0);
    assert_int_equal(ask_in(15, "aten::convolution", wide, point, 8), 409728);
    assert_int_equal(ask_in(5, "aten::convolution", half, point, 8), 409728); /* as in bfloat16 */
    assert_int_equal(ask_in(15, "aten::convolution", (lam_cpu){1, 8, false}, point, 8), 0);
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

/* Data and gradient of a group are copied; 32 bits for the gradient of a transposed one's bias. */
static void backward_in_columns(void **state) {
    (void)state;
    const lam_op_arg groups[] = {T(0, 2, 64, 28, 28), T(1, 2, 64, 28, 28), T(2, 64, 16, 3, 3),
                                 BACK(1, 1, 4, 1)};
    const lam_op_arg biased[] = {T(0, 3, 40, 59, 59), T(1, 3, 8, 20, 20), T(2, 8, 40, 2, 2), LIST(4, 3, 3),
                                 LIST(5, 0, 0),       LIST(6, 1, 1),      whole(7, 1),       LIST(8, 0, 0),
                                 whole(9, 1),         LIST(10, 1, 1, 1)};
    assert_int_equal(ask_in(5, "aten::convolution_backward", wide, groups, 10), 451584 + 2 * 50176);
    assert_int_equal(ask_in(5, "aten::convolution_backward", wide, biased, 10),
                     4 * 40 * 3 * 59 * 59 + 160 - 2560);
    assert_int_equal(ask_in(7, "aten::convolution_backward", wide, biased, 10), 4 * 128000);
    const lam_op_arg point[] = {T(0, 2, 64, 20, 20), T(1, 2, 32, 20, 20), T(2, 64, 32, 1, 1), LIST(4, 1, 1),
                                LIST(5, 0, 0),       LIST(6, 1, 1),       whole(7, 0),        LIST(8, 0, 0),
                                whole(9, 1),         LIST(10, 1, 1, 1)};
    assert_int_equal(ask_in(5, "aten::convolution_backward", wide, point, 10), 4 * 51200 + 4 * 64 - 4096);
}

/* Windows with a step, and what is as it is. */
static void backward_of_steps(void **state) {
    (void)state;
    /* repvgg: the gradient of the data is copied twice; a window of one in columns needs none */
    assert_int_equal(ASK("aten::convolution_backward", T(0, 2, 48, 56, 56), T(1, 2, 48, 112, 112),
                         T(2, 48, 48, 3, 3), BACK(2, 1, 1, 1)),
                     9550848);
    assert_int_equal(ASK("aten::convolution_backward", T(0, 2, 48, 56, 56), T(1, 2, 48, 56, 56),
                         T(2, 48, 48, 1, 1), BACK(1, 0, 1, 1)),
                     0);
    /* three channels of 16 in groups of one: columns of one image and four sums of the weights */
    const lam_op_arg line[] = {T(0, 2, 6, 43200), T(1, 2, 2, 43204), T(2, 6, 1, 5), LIST(4, 1),
                               LIST(5, 0),        LIST(6, 1),        whole(7, 0),   LIST(8, 0),
                               whole(9, 2),       LIST(10, 1, 1, 1)};
    assert_in_range(ask("aten::convolution_backward", wide, false, line, 10), 864480, 864736);
    /* a mixed network of videos: 64 channels, 3 x 3 x 3 */
    const lam_op_arg video[] = {T(0, 2, 64, 4, 32, 32),
                                T(1, 2, 64, 4, 32, 32),
                                T(2, 64, 64, 3, 3, 3),
                                LIST(4, 1, 1, 1),
                                LIST(5, 1, 1, 1),
                                LIST(6, 1, 1, 1),
                                whole(7, 0),
                                LIST(8, 0, 0, 0),
                                whole(9, 1),
                                LIST(10, 1, 1, 1)};
    assert_int_equal(ask("aten::convolution_backward", wide, false, video, 10), 4194304);
    /* depthwise, channels last: partial sums for all but the smallest window */
    const lam_op_arg five[] = {T(0, 2, 96, 14, 14), T(1, 2, 96, 14, 14), T(2, 96, 1, 5, 5),
                               BACK(1, 2, 96, 1)},
                     three[] = {T(0, 2, 96, 14, 14), T(1, 2, 96, 14, 14), T(2, 96, 1, 3, 3),
                                BACK(1, 1, 96, 1)};
    assert_in_range(ask("aten::convolution_backward", wide, true, five, 10), 2467200, 2467584);
    assert_in_range(ask("aten::convolution_backward", wide, true, three, 10), 6912, 7296);
}

#define GROW(stride, pad, dilation, groups, out)                                                             \
    LIST(3, stride, stride), LIST(4, pad, pad), LIST(5, dilation, dilation), whole(6, 1), LIST(7, out, out), \
        whole(8, groups)
#define GROW_BACK(stride, pad, dilation, groups)                                                             \
    LIST(4, stride, stride), LIST(5, pad, pad), LIST(6, dilation, dilation), whole(7, 1), LIST(8, 0, 0),     \
        whole(9, groups), LIST(10, 1, 1, 0)

static void transposed_convolutions(void **state) {
    (void)state;
    static const char name[] = "aten::convolution";
    /* an image that grows: the result is copied twice */
    assert_int_equal(ASK(name, T(0, 2, 32, 32, 32), T(1, 32, 16, 4, 4), GROW(2, 1, 1, 1, 0)), 1048576);
    /* no step: in blocks, and a bias is added to a copy */
    assert_int_equal(ASK(name, T(0, 2, 32, 32, 32), T(1, 32, 16, 3, 3), GROW(1, 1, 1, 1, 0)), 280576);
    assert_in_range(ASK(name, T(0, 2, 32, 32, 32), T(1, 32, 16, 3, 3), T(2, 16), GROW(1, 1, 1, 1, 0)), 411648,
                    411776);
    /* dilated, with a step: columns */
    assert_in_range(ASK(name, T(0, 2, 32, 32, 32), T(1, 32, 16, 3, 3), GROW(2, 1, 2, 1, 0)), 589824, 590080);
    /* the second layer of a DCGAN: most are the weights */
    assert_in_range(ASK(name, T(0, 1, 512, 4, 4), T(1, 512, 256, 4, 4), GROW(2, 1, 1, 1, 0)), 8480000,
                    8530000);
    /* a volume by ATen: columns and ones */
    const lam_op_arg volume[] = {T(0, 1, 32, 4, 12, 12), T(1, 32, 16, 2, 2, 2),
                                 LIST(3, 2, 2, 2),       LIST(4, 0, 0, 0),
                                 LIST(5, 1, 1, 1),       whole(6, 1),
                                 LIST(7, 0, 0, 0),       whole(8, 1)};
    assert_int_equal(ask(name, wide, false, volume, 8), 313344);
}

static void backward_of_transposed_convolutions(void **state) {
    (void)state;
    static const char name[] = "aten::convolution_backward";
    assert_int_equal(ASK(name, T(0, 2, 16, 64, 64), T(1, 2, 32, 32, 32), T(2, 32, 16, 4, 4),
                         GROW_BACK(2, 1, 1, 1)),
                     786432);
    assert_int_equal(ASK(name, T(0, 2, 20, 64, 64), T(1, 2, 24, 32, 32), T(2, 24, 20, 4, 4),
                         GROW_BACK(2, 1, 1, 1)),
                     1345536);
    /* an image comes out: its three channels stay as they are */
    assert_int_equal(ASK(name, T(0, 2, 3, 128, 128), T(1, 2, 32, 64, 64), T(2, 32, 3, 4, 4),
                         GROW_BACK(2, 1, 1, 1)),
                     1048576);
    /* dilated, with a step: columns and sums of the weights; groups of eight too */
    assert_in_range(ASK(name, T(0, 2, 16, 65, 65), T(1, 2, 32, 32, 32), T(2, 32, 16, 3, 3),
                        GROW_BACK(2, 1, 2, 1)),
                    663552, 663936);
    assert_in_range(ASK(name, T(0, 2, 8, 32, 32), T(1, 2, 16, 16, 16), T(2, 16, 4, 4, 4),
                        GROW_BACK(2, 1, 1, 2)),
                    81920, 82304);
}

/* steps, examples, features, hidden, and whether a backward is to come */
static int64_t lstm(const char *name, int64_t t, int64_t n, int64_t in, int64_t hidden, bool train) {
    const lam_op_arg all[] = {T(0, t, n, in), T(1, 4 * hidden, in), T(2, 4 * hidden, hidden),
                              whole(15, train)};
    return ask(name, wide, false, all, 4);
}

/* Measured: 1,105,264 bytes; the weights' gradients are added up in float32 there. */
static void recurrences_in_16_bits(void **state) {
    (void)state;
    lam_op_arg all[] = {T(0, 10, 2, 128), T(1, 512, 128), T(2, 512, 128), whole(15, false)};
    for (int i = 0; i < 3; i++) all[i].dtype = lam_dtype_by_name("bfloat16");
    assert_in_range(ask("aten::mkldnn_rnn_layer_backward", wide, false, all, 4), 1100000, 1110000);
}

static void recurrences(void **state) {
    (void)state;
    static const char forward[] = "aten::mkldnn_rnn_layer", backward[] = "aten::mkldnn_rnn_layer_backward";
    assert_int_equal(lstm(forward, 30, 4, 96, 160, true), 977976);
    assert_int_equal(lstm(forward, 12, 5, 300, 256, true), 2587960);
    assert_int_equal(lstm(forward, 64, 16, 256, 512, true), 14881336);
    assert_in_range(lstm(forward, 30, 2, 96, 160, false), 836000, 839000);
    assert_in_range(lstm(forward, 30, 2, 320, 160, false), 1480000, 1491000);
    assert_int_equal(lstm(backward, 30, 4, 96, 160, false), 985656);
    assert_int_equal(lstm(backward, 10, 3, 32, 64, false), 153400);
    assert_int_equal(lstm(backward, 1, 1, 64, 64, false), 158008);
    static const char kept[] = "aten::mkldnn_rnn_layer(workspace)";
    assert_int_equal(lstm(kept, 30, 4, 96, 160, true), 1183744);
    assert_int_equal(lstm(kept, 30, 4, 320, 160, true), 1662976);
    assert_int_equal(lstm(kept, 10, 3, 100, 100, true), 221184);
    assert_int_equal(lstm(kept, 64, 16, 256, 512, true), 32321536);
    assert_int_equal(lstm(kept, 0, 1, 1, 1, true), 0);
}

/* A tensor between others: as torch tells whether its channels are last. */
static void strides_count(void **state) {
    (void)state;
    static const int64_t sizes[] = {2, 256, 32, 32}, apart[] = {1 << 20, 1, 1 << 15, 1 << 10},
                         rows[] = {1 << 20, 1 << 10, 32, 1};
    const lam_op_arg in[] = {net_op_tensor(0, sizes, 4), LIST(1, 32, 32), LIST(2, 2, 256, 16, 16)};
    const int64_t *last[] = {apart, NULL, NULL}, *first[] = {rows, NULL, NULL};
    int32_t rule = lam_workspace_rule("aten::upsample_bilinear2d_backward");
    assert_int_equal(lam_workspace(rule, in, last, 3, wide), 2097152 + 524288);
    assert_int_equal(lam_workspace(rule, in, first, 3, wide), 2097152);
    /* one example whose first stride is as small as the channels': in rows, and not without gaps, so it is
     * copied */
    static const int64_t one[] = {1, 256, 56, 56}, view[] = {256, 1, 14336, 256};
    const lam_op_arg conv[] = {net_op_tensor(0, one, 4), T(1, 256, 1, 3, 3), CONV(1, 1, 1, 256)};
    const int64_t *strides[] = {view, rows, NULL, NULL, NULL, NULL, NULL, NULL};
    assert_int_equal(lam_workspace(lam_workspace_rule("aten::convolution"), conv, strides, 8, wide), 6431744);
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
    static const char *const names[] = {"aten::convolution",
                                        "aten::convolution_backward",
                                        "aten::_safe_softmax",
                                        "aten::roll",
                                        "aten::upsample_bilinear2d",
                                        "aten::mkldnn_rnn_layer",
                                        "aten::gelu_backward",
                                        "aten::native_layer_norm_backward",
                                        "aten::mkldnn_rnn_layer_backward",
                                        "aten::mkldnn_rnn_layer(workspace)",
                                        "aten::upsample_bilinear2d_backward",
                                        "aten::embedding_dense_backward"};
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
        cmocka_unit_test(products_in_16_bits),
        cmocka_unit_test(other_types_have_other_kernels),
        cmocka_unit_test(backward_in_columns),
        cmocka_unit_test(backward_of_steps),
        cmocka_unit_test(transposed_convolutions),
        cmocka_unit_test(backward_of_transposed_convolutions),
        cmocka_unit_test(recurrences),
        cmocka_unit_test(recurrences_in_16_bits),
        cmocka_unit_test(strides_count),
        cmocka_unit_test(others),
        cmocka_unit_test(nothing_is_known_of_others),
        cmocka_unit_test(hostile_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
