/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators take beside their results: figures that torch's own CPU allocator gave, and arguments that
 * are hostile or missing. */
#include "kit/oom.h"

#include "kit/near_args.h"
#include "kit/shown.h"

enum { AXES = 8, MOST = 12 };
enum { HALF = 5, SINGLE = 6, BRAIN = 15 };
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

/* What is told of the calls near those that are asked for. */
static char told[1 << 20];
static size_t n_told;

static int64_t ask_alone(const char *name, lam_cpu cpu, bool last, const lam_op_arg *in, int32_t n) {
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
static bool told_last;
static lam_cpu told_cpu;

static void tell_bytes(const char *name, const lam_op_arg *in, int32_t n, const char *how) {
    const int64_t bytes = ask_alone(name, told_cpu, told_last, in, n);
    n_told += (size_t)snprintf(told + n_told, sizeof told - n_told, "%s, %s: %lld\n", name + 6, how,
                               (long long)bytes);
    assert_true(n_told < sizeof told);
}

/* Of the same operator the calls near the first two, and then near one in ten. */
static int64_t ask(const char *name, lam_cpu cpu, bool last, const lam_op_arg *in, int32_t n) {
    static const char *asked;
    static int times;
    if (!asked || strcmp(asked, name) != 0) times = 0;
    asked = name;
    told_cpu = cpu;
    told_last = last;
    if (times < 2 || times % 10 == 0) near_calls(name, in, n, tell_bytes);
    times++;
    return ask_alone(name, cpu, last, in, n);
}
#define ASK(name, ...)                                                                                       \
    ask(name, wide, false, (lam_op_arg[]){__VA_ARGS__},                                                      \
        (int32_t)(sizeof((lam_op_arg[]){__VA_ARGS__}) / sizeof(lam_op_arg)))

/* A vector has no matrices to copy. */
static void products_of_vectors(void **state) {
    (void)state;
    lam_op_arg in[] = {T(0, 4096), T(1, 4096)};
    for (int i = 0; i < 2; i++) in[i].dtype = 15; /* bfloat16 */
    assert_int_equal(ask("aten::mm", wide, false, in, 2), 0);
    assert_int_equal(ask("aten::bmm", wide, false, in, 2), 0);
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

/* steps, examples, features, hidden, and whether a backward is to come */
static int64_t lstm(const char *name, int64_t t, int64_t n, int64_t in, int64_t hidden, bool train) {
    const lam_op_arg all[] = {T(0, t, n, in), T(1, 4 * hidden, in), T(2, 4 * hidden, hidden),
                              whole(15, train)};
    return ask(name, wide, false, all, 4);
}

/* The weights' gradients are added up in float32 there. */
static void recurrences_in_16_bits(void **state) {
    (void)state;
    lam_op_arg all[] = {T(0, 10, 2, 128), T(1, 512, 128), T(2, 512, 128), whole(15, false)};
    for (int i = 0; i < 3; i++) all[i].dtype = lam_dtype_by_name("bfloat16");
    assert_int_equal(ask("aten::mkldnn_rnn_layer_backward", wide, false, all, 4), 842808);
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
    /* One channel: it is last where the others have gaps, and not where all are one element. */
    static const int64_t one[] = {2, 1, 32, 32}, gaps[] = {2048, 1, 64, 2}, point[] = {2, 1, 1, 1},
                         far[] = {4, 1, 1, 1};
    const lam_op_arg grey[] = {net_op_tensor(0, one, 4), LIST(1, 32, 32), LIST(2, 2, 1, 16, 16)};
    const lam_op_arg dot[] = {net_op_tensor(0, point, 4), LIST(1, 1, 1), LIST(2, 2, 1, 16, 16)};
    const int64_t *wider[] = {gaps, NULL, NULL}, *apiece[] = {far, NULL, NULL};
    assert_int_equal(lam_workspace(rule, grey, wider, 3, wide), 8192 + 2048);
    assert_int_equal(lam_workspace(rule, dot, apiece, 3, wide), 8);
    /* The stride of an axis of one element says nothing; that of any other must fit. */
    static const int64_t row[] = {4, 1, 8}, any[] = {8, 5, 1}, wide_rows[] = {16, 5, 1};
    const lam_op_arg turned = net_op_tensor(0, row, 3);
    const int64_t *fits[] = {any}, *gapped[] = {wide_rows};
    rule = lam_workspace_rule("aten::native_layer_norm");
    assert_int_equal(lam_workspace(rule, &turned, fits, 1, wide), 0);
    assert_int_equal(lam_workspace(rule, &turned, gapped, 1, wide), 128);
}

/* Gradient, data, mean, rstd, weight, and the sizes: measured. */
static void norms_of_groups(void **state) {
    (void)state;
    static const char name[] = "aten::native_group_norm_backward";
    const lam_op_arg many[] = {T(0, 8, 32, 64, 64), T(1, 8, 32, 64, 64), T(2, 8, 4),     T(3, 8, 4), T(4, 32),
                               whole(5, 8),         whole(6, 32),        whole(7, 4096), whole(8, 4)};
    const lam_op_arg few[] = {T(0, 8, 32, 10, 10), T(1, 8, 32, 10, 10), T(2, 8, 4),    T(3, 8, 4), T(4, 32),
                              whole(5, 8),         whole(6, 32),        whole(7, 100), whole(8, 4)};
    const lam_cpu two = {2, 16, false};
    assert_int_equal(ask(name, wide, false, many, 9), 2048);
    assert_int_equal(ask_in(BRAIN, name, wide, many, 9), 2048);
    assert_int_equal(ask_in(7, name, wide, many, 9), 4096);
    assert_int_equal(ask(name, two, true, many, 9), 6400);
    assert_int_equal(ask(name, wide, true, many, 9), 4352);
    assert_int_equal(ask(name, two, true, few, 9), 2048);
    /* a volume with channels last */
    static const int64_t sizes[] = {2, 8, 20, 20, 20}, last[] = {64000, 1, 3200, 160, 8};
    lam_op_arg volume[9];
    const int64_t *strides[9] = {NULL, last};
    memcpy(volume, many, sizeof many);
    volume[1] = net_op_tensor(1, sizes, 5);
    for (int i = 5; i < 9; i++) volume[i] = whole(i, (const int64_t[]){2, 8, 8000, 8}[i - 5]);
    assert_int_equal(lam_workspace(lam_workspace_rule(name), volume, strides, 9, two), 512);
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

static bool rough(const char *name, const char *type) {
    lam_op_arg in[] = {T(0, 8, 8), T(1, 8, 8)};
    in[0].dtype = in[1].dtype = lam_dtype_by_name(type);
    return lam_workspace_rough(lam_workspace_rule(name), in, 2);
}

static void some_rules_are_not_sure(void **state) {
    (void)state;
    assert_false(rough("aten::mm", "float32"));
    assert_int_equal(rough("aten::mm", "float16"), !lam_cpu_lacks(HALF));
    assert_int_equal(rough("aten::mm", "bfloat16"), !lam_cpu_lacks(BRAIN));
    assert_false(lam_cpu_lacks(BRAIN) && lam_cpu_here(1).lanes >= 16);
    assert_false(lam_cpu_lacks(HALF) && lam_cpu_here(1).half);
    assert_true(rough("aten::sum", "bool")); /* which it adds up as whole numbers, in a copy */
    assert_false(rough("aten::sum", "bfloat16"));
    assert_false(rough("aten::clone", "int64"));
    assert_false(lam_workspace_rough(-1, NULL, 0));
    const lam_op_arg one[] = {T(0, 8, 8)};
    assert_int_equal(ask("aten::sum", wide, false, one, 1), 0);
}

static void nothing_is_known_of_others(void **state) {
    (void)state;
    assert_int_equal(lam_workspace_rule("aten::relu"), -1);
    assert_int_equal(lam_workspace_rule(NULL), -1);
    assert_int_equal(lam_workspace(-1, NULL, NULL, 0, wide), 0);
    assert_int_equal(lam_workspace(1 << 20, NULL, NULL, 0, wide), 0);
    const lam_op_arg q = T(0, 2, 12, 197, 64), all[] = {q, T(1, 2, 12, 197, 64), T(2, 2, 12, 197, 64)};
    const int64_t *none[3] = {NULL};
    int32_t rule = lam_workspace_rule("aten::_scaled_dot_product_flash_attention_for_cpu");
    assert_int_equal(lam_workspace(rule, all, none, 3, wide), 67328);
    assert_int_equal(lam_workspace(rule, all, none, -1, wide), 0);
    assert_int_equal(lam_workspace(rule, all, none, 3, (lam_cpu){1, 0, false}), 0);
    assert_int_equal(lam_workspace(rule, all, none, 3, (lam_cpu){0, 16, false}), 0);
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
    static const char *const names[] = {"aten::_safe_softmax",
                                        "aten::roll",
                                        "aten::upsample_bilinear2d",
                                        "aten::mkldnn_rnn_layer",
                                        "aten::gelu_backward",
                                        "aten::native_layer_norm_backward",
                                        "aten::native_group_norm_backward",
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

/* Comes last: what the others gathered is as it was before. */
static void near_ones(void **state) {
    (void)state;
    (void)show_sink();
    assert_int_equal(show_put(NULL, told, n_told), LAM_OK);
    show_golden("workspaces", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_vectors),
        cmocka_unit_test(products_in_16_bits),
        cmocka_unit_test(recurrences),
        cmocka_unit_test(recurrences_in_16_bits),
        cmocka_unit_test(strides_count),
        cmocka_unit_test(norms_of_groups),
        cmocka_unit_test(others),
        cmocka_unit_test(some_rules_are_not_sure),
        cmocka_unit_test(nothing_is_known_of_others),
        cmocka_unit_test(hostile_arguments),
        cmocka_unit_test(near_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
