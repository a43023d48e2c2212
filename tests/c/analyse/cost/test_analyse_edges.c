/* SPDX-License-Identifier: Apache-2.0
 *
 * The less common ways through the costs: tensors of unknown size, frozen and doubly named ones, names
 * that are missing, layers without a shape, and allocations that fail in a model too large for one piece
 * of memory. */
#include "kit/oom.h"

#include "kit/net.h"

/* -- tensors ----------------------------------------------------------------------------------- */

/* BatchNorm2d with a frozen bias, its statistics, a tensor under two names and one that is not made yet. */
static lam_model *odd_tensors(bool lazy) {
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), bn = net_leaf(&n, "BatchNorm2d");
    int32_t w = net_tensor(&n, true, SH(4));
    net_owns(&n, bn, "weight", w);
    net_owns(&n, bn, "again", w);
    net_owns(&n, bn, "bias", net_tensor(&n, false, SH(4)));
    net_buffer(&n, bn, "running_mean", SH(4));
    net_buffer(&n, bn, "running_var", SH(4));
    net_buffer(&n, bn, "num_batches_tracked", NULL, 0);
    if (lazy) net_owns(&n, bn, "late", net_tensor(&n, true, NULL, -1));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "0", bn);
    int32_t r = net_call(&n, root, -1, SH(1, 4, 2, 2), 0, SH(1, 4, 2, 2), 0);
    net_call(&n, bn, r, SH(1, 4, 2, 2), 0, SH(1, 4, 2, 2), 0);
    return net_done(&n);
}

static void frozen_and_named_twice(void **state) {
    (void)state;
    lam_model *m = odd_tensors(false);
    static const struct {
        const char *convention;
        bool released;
    } ways[] = {{"layers", false}, {"torchscan", true}, {"thoplw", true}};
    for (int i = 0; i < 3; i++) {
        lam_costs *c = net_costs(m, ways[i].convention, ways[i].released);
        const lam_cost_row *bn = lam_costs_row(c, lam_costs_n_rows(c) - 1);
        net_expect(bn->params, 8, LAM_EXACT);
        net_expect(bn->grad_params, 4, LAM_EXACT);
        net_expect(bn->nograd_params, 4, LAM_EXACT);
        net_expect(bn->param_bytes, 32, LAM_EXACT);
        net_expect(bn->buffers, 9, LAM_EXACT);
        net_expect(bn->running_stats, 8, LAM_EXACT);
        assert_false(bn->shared);
        net_expect(bn->below->params, 8, LAM_EXACT);
        net_expect(lam_costs_params(c).nograd_params, 4, LAM_EXACT);
        lam_costs_free(c);
    }
    lam_model_free(m);
}

static void not_made_yet(void **state) {
    (void)state;
    lam_model *m = odd_tensors(true);
    lam_costs *c = net_costs(m, "layers", false);
    assert_int_equal(lam_costs_row(c, 1)->params.state, LAM_UNKNOWN);
    net_expect(lam_costs_row(c, 0)->below->params, 8, LAM_AT_LEAST);
    lam_costs_free(c);
    lam_model_free(m);
}

/* thoplw counts all that is in a module; the caller's function makes a container a layer of its own. */
static bool count_all(void *self, const lam_model *m, int32_t event, lam_count out[LAM_N_METRICS],
                      bool *omit) {
    (void)self, (void)m, (void)event, (void)omit;
    out[LAM_MACS] = (lam_count){1, 0, LAM_EXACT};
    return true;
}

static void parameters_of_a_container(void **state) {
    (void)state;
    lam_model *m = net_two_parents(true);
    lam_costs *c = NULL;
    lam_cost_options o = {.convention = "thoplw", .released = true, .custom = count_all};
    assert_int_equal(lam_costs_new(&c, m, &o, NULL), LAM_OK);
    assert_int_equal(lam_costs_n_rows(c), 7);
    net_expect(lam_costs_row(c, 0)->params, 24, LAM_EXACT);
    net_expect(lam_costs_row(c, 1)->params, 20, LAM_EXACT);
    net_expect(lam_costs_row(c, 5)->params, 20, LAM_EXACT);
    assert_true(lam_costs_row(c, 1)->shared);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- names ------------------------------------------------------------------------------------- */

static void nameless_classes(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), odd = -1;
    lam_module_info info = {.type = "", .type_path = "", .word = -1, .flags = LAM_MODULE_LEAF};
    NET_OK(&n, lam_build_module(n.b, &info, &odd, &n.e));
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++) net_param(&n, root, names[i], SH(1));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "odd", odd);
    for (int i = 0; i < 2; i++) {
        int32_t dead = net_linear(&n, 1, 1);
        net_place(&n, p, names[i], dead);
    }
    int32_t r = net_call(&n, root, -1, SH(1), 0, SH(1), 0);
    net_call(&n, odd, r, SH(1), 0, SH(1), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    assert_string_equal(lam_costs_gap(c, 1), "no rule for ? (1 call); the convention `exact` counts it");
    assert_string_equal(lam_costs_unruled(c, 0, NULL), "?");
    assert_string_equal(lam_costs_gap(c, 2),
                        "parameters `a`, `b`, `c` and 2 more of Net (1 call) are used by no "
                        "layer that was called");
    assert_string_equal(lam_costs_gap(c, 3),
                        "Linear (2 places, the first `a`) was never called: work that uses "
                        "its 4 parameters in another way is not seen");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A root that is a layer is no stranger to thoplw's list, and a stranger twice is told once. */
static void strangers_once(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root), s[3];
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        s[i] = net_leaf(&n, "Snake");
        net_place(&n, p, names[i], s[i]);
    }
    int32_t r = net_call(&n, root, -1, SH(1), 0, SH(1), 0), calls = -1;
    net_call(&n, s[0], r, SH(1), 0, SH(1), 0);
    net_call(&n, s[1], r, SH(1), 0, SH(1), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "thoplw", true);
    assert_string_equal(lam_costs_unruled(c, 0, &calls), "Snake");
    assert_int_equal(calls, 2);
    assert_null(lam_costs_unruled(c, 1, NULL));
    assert_int_equal(lam_costs_n_rows(c), 0);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- receptive fields of layers that tell little ----------------------------------------------- */

static void expect_rf(net *n, int32_t module, const int64_t *in, int32_t n_in, uint32_t flags,
                      const char *convention, double size, lam_state state) {
    net_place(n, -1, "", module);
    net_call_flags(n, module, -1, flags, in, n_in, 0, in, n_in, 0);
    lam_model *m = net_done(n);
    lam_rf r;
    assert_int_equal(lam_rf_of(m, 0, convention, &r, NULL), LAM_OK);
    if (r.size != size || r.state != state) fail_msg("%g %s", r.size, lam_state_name(r.state));
    lam_costs *c = net_costs(m, convention, true);
    assert_int_equal(lam_costs_rf_backwards(c, NULL), LAM_OK);
    lam_costs_free(c);
    c = net_costs(m, convention, false);
    lam_costs_free(c);
    lam_model_free(m);
}

static void little_known(void **state) {
    (void)state;
    static const struct {
        const char *type, *convention;
        int32_t ndim;
        double size;
        lam_state state;
    } cases[] = {
        {"ConvTranspose2d", "layers", 4, 1, LAM_UNKNOWN},
        {"ConvTranspose2d", "torchscan", 4, 1, LAM_UNKNOWN},
        {"AdaptiveAvgPool2d", "layers", -1, 1, LAM_UNKNOWN},
        {"AdaptiveAvgPool2d", "torchscan", -1, 1, LAM_UNKNOWN},
        {"AdaptiveMaxPool2d", "layers", 4, 1, LAM_EXACT},
        {"Linear", "layers", -1, 1, LAM_UNKNOWN},
        {"Linear", "torchscan", 2, 1, LAM_EXACT},
        {"LSTM", "layers", -1, 1, LAM_UNKNOWN},
        {"LSTM", "layers", 3, 2, LAM_EXACT},
        {"MultiheadAttention", "layers", 2, 2, LAM_EXACT},
        {"Softmax", "layers", 2, 1, LAM_AT_LEAST},
        {"PixelShuffle", "layers", 4, 1, LAM_UNKNOWN},
        {"Unfold", "layers", 4, 1, LAM_UNKNOWN},
        {"Sequential", "layers", 2, 1, LAM_EXACT},
        {"Sequential", "torchscan", 2, 1, LAM_EXACT},
        {"LSTM", "torchscan", 3, 1, LAM_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net n = net_new();
        int32_t mod = net_leaf(&n, cases[i].type);
        const int64_t sizes[] = {2, 3, 4, 5};
        expect_rf(&n, mod, sizes, cases[i].ndim, 0, cases[i].convention, cases[i].size, cases[i].state);
    }
    net n = net_new(); /* a call that raised has no output to tell the window from */
    expect_rf(&n, net_leaf(&n, "AdaptiveAvgPool1d"), SH(1, 1, 9), LAM_CALL_FAILED, "layers", 1, LAM_UNKNOWN);
    n = net_new();
    int32_t conv = net_leaf(&n, "Conv1d");
    net_int(&n, conv, "kernel_size", INT64_MAX);
    net_int(&n, conv, "dilation", INT64_MAX);
    net_text(&n, conv, "padding", "same");
    expect_rf(&n, conv, SH(1, 1, 9), 0, "layers", 1, LAM_UNKNOWN);
}

/* Layers without inputs or outputs don't connect to anything. */
static void nothing_in_nothing_out(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_leaf(&n, "ReLU"), b = net_leaf(&n, "ReLU");
    int32_t p = net_place(&n, -1, "", root), r = -1;
    net_place(&n, p, "a", a);
    net_place(&n, p, "b", b);
    lam_call_info call = {.module = root, .parent = -1};
    NET_OK(&n, lam_build_call(n.b, &call, &r, &n.e));
    call.module = a;
    call.parent = r;
    NET_OK(&n, lam_build_call(n.b, &call, &(int32_t){0}, &n.e));
    call.module = b;
    NET_OK(&n, lam_build_call(n.b, &call, &(int32_t){0}, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    for (int32_t i = 0; i < 3; i++) {
        const lam_cost_row *row = lam_costs_row(c, i);
        assert_int_equal(row->rf_state, LAM_UNKNOWN);
        assert_true(row->rf == 1 && row->rf_stride == 1);
    }
    net_expect(lam_costs_row(c, 1)->metric[LAM_FLOPS], 0, LAM_UNKNOWN);
    assert_non_null(strstr(lam_costs_row(c, 1)->reason, "needs `"));
    lam_why w;
    assert_int_equal(lam_costs_why(c, 1, LAM_FLOPS, &w, NULL), LAM_OK);
    assert_non_null(strchr(w.substituted, '?'));
    lam_costs_free(c);
    lam_model_free(m);
}

/* A layer deep in plain Sequentials follows one in other plain Sequentials: still a proved chain. */
static void nested_sequentials(void **state) {
    (void)state;
    net n = net_new();
    int32_t seq[5], conv[2], p[5], call[5];
    for (int i = 0; i < 5; i++) seq[i] = net_module(&n, "Sequential", 0);
    for (int i = 0; i < 2; i++) conv[i] = net_conv(&n, "Conv1d", 1, 1, 1, 3, 1, 0);
    p[0] = net_place(&n, -1, "", seq[0]);
    for (int i = 0; i < 2; i++) {
        p[1 + 2 * i] = net_place(&n, p[0], i ? "1" : "0", seq[1 + 2 * i]);
        p[2 + 2 * i] = net_place(&n, p[1 + 2 * i], "0", seq[2 + 2 * i]);
        net_place(&n, p[2 + 2 * i], "0", conv[i]);
    }
    call[0] = net_call(&n, seq[0], -1, SH(1, 1, 9), 1, SH(1, 1, 5), 3);
    for (int i = 0; i < 2; i++) {
        uint64_t from = i ? 2 : 1;
        call[1] = net_call(&n, seq[1 + 2 * i], call[0], SH(1, 1, 9), from, SH(1, 1, 7), from + 1);
        call[2] = net_call(&n, seq[2 + 2 * i], call[1], SH(1, 1, 9), from, SH(1, 1, 7), from + 1);
        net_call(&n, conv[i], call[2], SH(1, 1, 9), from, SH(1, 1, 7), from + 1);
    }
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    const lam_cost_row *last = lam_costs_row(c, lam_costs_n_rows(c) - 1);
    assert_true(last->rf == 5 && last->rf_state == LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* Arrays of a large model are allocations of their own, so each can be refused. */
static void out_of_memory_large(void **state) {
    (void)state;
    enum { N = 3000 };
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root);
    int32_t r = net_call(&n, root, -1, SH(1, 2), 0, SH(1, 2), 0);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%d", i);
        int32_t leaf = net_leaf(&n, i % 2 ? "ReLU" : "Swish");
        net_param(&n, leaf, "w", SH(2));
        net_place(&n, p, name, leaf);
        if (i % 3) net_call(&n, leaf, r, SH(1, 2), 0, SH(1, 2), 0);
    }
    lam_model *m = net_done(&n);
    net_costing all[] = {{m, "layers", false}, {m, "torchscan", true}, {m, "thoplw", true}};
    for (int i = 0; i < 3; i++) oom_sweep(net_try_costs, &all[i]);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_and_named_twice),
        cmocka_unit_test(not_made_yet),
        cmocka_unit_test(parameters_of_a_container),
        cmocka_unit_test(nameless_classes),
        cmocka_unit_test(strangers_once),
        cmocka_unit_test(little_known),
        cmocka_unit_test(nothing_in_nothing_out),
        cmocka_unit_test(nested_sequentials),
        cmocka_unit_test(out_of_memory_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
