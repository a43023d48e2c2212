/* SPDX-License-Identifier: Apache-2.0
 *
 * Will it fit: the peak of a run that was followed, what holds it, and the text of it. */
#include "kit/oom.h"

#include "kit/json_text.h"
#include "kit/ops_net.h"
#include "kit/show.h"

static void took(net *n, int64_t bytes, int32_t made, int32_t freed, lam_taken what) {
    const lam_lifetime l = {bytes, made, freed, what, -1};
    NET_OK(n, lam_build_lifetime(n->b, &l, &n->e));
}

/* A step of the optimizer, of one operator that works with so many bytes. */
static void steps(net *n, const char *optimizer, int64_t kept, int32_t parameter, int64_t working) {
    const lam_lifetime state = {kept, -1, -1, LAM_TAKEN_STATE, parameter};
    int32_t op = net_relu(n, (op_at){-1, -1, LAM_FORWARD, 0}, 8);
    if (kept) NET_OK(n, lam_build_lifetime(n->b, &state, &n->e));
    if (working) took(n, working, op, op, LAM_TAKEN_TENSOR);
    NET_OK(n, lam_build_step(n->b, optimizer, op, false, &n->e));
}

/* Net(fc, act, mine) of ops_net.h: parameters 16 + 25 elements. A forward of three operators, then a backward
 * of two. `backward` false: the forward alone. An optimizer keeps 136 bytes. */
static lam_model *of_step(bool backward, const char *third, const char *optimizer) {
    enum { MM, RELU, LAST, FIRST_BACK, LAST_BACK };
    net n = net_new();
    net_calls c = net_plain(&n);
    net_mm(&n, (op_at){c.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    net_relu(&n, (op_at){c.act, -1, LAM_FORWARD, 0}, 8);
    net_op(&n, third, (op_at){c.mine, -1, LAM_FORWARD, 0});
    if (backward) {
        net_mm(&n, (op_at){c.mine, -1, LAM_BACKWARD, 0}, 4, 2, 5);
        net_mm(&n, (op_at){c.fc, -1, LAM_BACKWARD, 0}, 3, 2, 4);
    }
    took(&n, 1000, MM, RELU, LAM_TAKEN_TENSOR); /* gone after the relu */
    took(&n, 500, MM, MM, LAM_TAKEN_WORKSPACE);
    took(&n, 2000, RELU, backward ? FIRST_BACK : -1, LAM_TAKEN_TENSOR);
    took(&n, 40, LAST, -1, LAM_TAKEN_TENSOR);
    if (backward) {
        took(&n, 30, LAST, LAST_BACK, LAM_TAKEN_SEED);
        took(&n, 64, FIRST_BACK, -1, LAM_TAKEN_TENSOR); /* a gradient */
        took(&n, 300, FIRST_BACK, FIRST_BACK, LAM_TAKEN_TENSOR);
        took(&n, 100, LAST_BACK, LAST_BACK, LAM_TAKEN_WORKSPACE);
    }
    if (optimizer) steps(&n, optimizer, 136, 0, 0);
    return net_done(&n);
}

static lam_model *followed(bool backward, const char *third) { return of_step(backward, third, NULL); }

static lam_fit *fit_of(const lam_model *m) {
    lam_error e = {0};
    lam_fit *f = NULL;
    if (lam_fit_new(&f, m, &e) != LAM_OK) fail_msg("lam_fit_new: %s", e.text);
    return f;
}

enum { PARAMETERS = (12 + 4 + 20 + 5) * 4, INPUT = 2 * 3 * 4 };

static void the_peak_is_where_most_is_held(void **state) {
    (void)state;
    lam_model *m = followed(false, "aten::neg");
    lam_fit *f = fit_of(m);
    assert_int_equal(f->peak.n, PARAMETERS + INPUT + 1000 + 2000);
    assert_int_equal(f->peak.state, LAM_EXACT);
    assert_int_equal(f->part[LAM_HELD_PARAMETER].n, PARAMETERS);
    assert_int_equal(f->part[LAM_HELD_INPUT].n, INPUT);
    assert_int_equal(f->part[LAM_HELD_ACTIVATION].n, 3000);
    assert_int_equal(f->part[LAM_HELD_WORKSPACE].n, 0);
    assert_string_equal(f->at, "aten::relu");
    assert_false(f->backward);
    assert_null(f->gap);
    int64_t sum = 0;
    for (int32_t i = 0; i < f->n_rows; i++) {
        sum += f->rows[i].bytes;
        if (i) assert_true(f->rows[i - 1].bytes >= f->rows[i].bytes);
    }
    assert_int_equal(sum, f->peak.n);
    assert_string_equal(lam_model_place(m, f->rows[0].place)->path, "act");
    lam_fit_free(f);
    lam_model_free(m);
}

static void a_step_has_gradients_and_an_optimizer(void **state) {
    (void)state;
    lam_model *m = followed(true, "aten::neg"), *with = of_step(true, "aten::neg", "adam");
    lam_fit *plain = fit_of(m), *adam = fit_of(with);
    assert_true(plain->backward);
    assert_null(plain->optimizer);
    assert_string_equal(adam->optimizer, "adam");
    assert_int_equal(plain->peak.n, PARAMETERS + INPUT + 1000 + 2000);
    assert_int_equal(plain->part[LAM_HELD_OPTIMIZER].n, 0);
    assert_int_equal(adam->part[LAM_HELD_OPTIMIZER].n, 136);
    assert_int_equal(adam->peak.n, plain->peak.n + 136);
    lam_fit_free(plain);
    lam_fit_free(adam);
    lam_model_free(m);
    lam_model_free(with);
}

/* Little is saved, and one parameter is large: the step itself is the peak. */
static void the_step_itself_may_be_the_peak(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_linear(&n, 100, 50);
    net_place(&n, -1, "", root);
    int32_t call = net_call(&n, root, -1, SH(1, 100), 0, SH(1, 50), 0);
    net_mm(&n, (op_at){call, -1, LAM_FORWARD, 0}, 1, 100, 50);
    int32_t back = net_mm(&n, (op_at){call, -1, LAM_BACKWARD, 0}, 50, 1, 100);
    took(&n, 200, 0, -1, LAM_TAKEN_TENSOR);
    took(&n, 20200, back, -1, LAM_TAKEN_TENSOR);
    steps(&n, "adamw", 2 * 20200 + 8, 0, 2 * 20000);
    lam_model *m = net_done(&n);
    lam_fit *f = fit_of(m);
    assert_string_equal(f->at, "the optimizer's step");
    assert_int_equal(f->op, -1);
    assert_int_equal(f->part[LAM_HELD_WORKSPACE].n, 2 * 20000);
    assert_int_equal(f->part[LAM_HELD_OPTIMIZER].n, 2 * 20200 + 8);
    assert_int_equal(f->part[LAM_HELD_GRADIENT].n, 20200);
    assert_int_equal(f->peak.n, 20200 + 400 + 200 + 20200 + 2 * 20200 + 8 + 2 * 20000);
    lam_fit_free(f);
    lam_model_free(m);
}

static void foreign_operators_make_it_a_lower_bound(void **state) {
    (void)state;
    lam_model *m = followed(false, "my::op");
    lam_fit *f = fit_of(m);
    assert_int_equal(f->peak.state, LAM_AT_LEAST);
    assert_non_null(strstr(f->gap, "my::op"));
    lam_fit_free(f);
    lam_model_free(m);
    static const char *const known[] = {"aten::of_a_later_torch", "torchvision::nms"};
    for (int i = 0; i < 2; i++) {
        m = followed(false, known[i]);
        f = fit_of(m);
        assert_null(f->gap);
        lam_fit_free(f);
        lam_model_free(m);
    }
}

/* A model of a convolution's backward, of which it is known in one way or another what it takes. */
static lam_model *convolved(lam_taken what, uint8_t flags) {
    net n = net_new();
    int32_t root = net_linear(&n, 3, 4);
    net_place(&n, -1, "", root);
    int32_t call = net_call(&n, root, -1, SH(1, 3), 0, SH(1, 4), 0);
    const lam_op_arg in = net_op_tensor(0, SH(2, 3, 4, 4));
    const lam_op_info op = {.name = "aten::convolution_backward",
                            .call = call,
                            .parent = -1,
                            .phase = LAM_BACKWARD,
                            .flags = flags,
                            .n_in = 1,
                            .in = &in};
    NET_OK(&n, lam_build_op(n.b, &op, NULL, &n.e));
    took(&n, 200, 0, -1, LAM_TAKEN_TENSOR);
    took(&n, 30, 0, 0, what);
    return net_done(&n);
}

static void what_is_not_measured_says_so(void **state) {
    (void)state;
    lam_model *m = convolved(LAM_TAKEN_UNKNOWN, 0);
    lam_fit *f = fit_of(m);
    assert_null(f->rough);
    assert_int_equal(f->peak.state, LAM_AT_LEAST);
    assert_string_equal(f->gap, "what aten::convolution_backward takes beside its results was not measured");
    lam_fit_free(f);
    lam_model_free(m);
    m = convolved(LAM_TAKEN_WORKSPACE, 0);
    f = fit_of(m);
    assert_null(f->gap);
    assert_null(f->rough);
    assert_int_equal(f->part[LAM_HELD_WORKSPACE].n, 30);
    lam_fit_free(f);
    lam_model_free(m);
    m = convolved(LAM_TAKEN_WORKSPACE, LAM_OP_NODE | LAM_OP_VALUES);
    f = fit_of(m);
    assert_string_equal(f->rough, "values decide what aten::convolution_backward runs");
    lam_fit_free(f);
    lam_model_free(m);
}

static void what_is_known_roughly_says_so(void **state) {
    (void)state;
    lam_model *m = convolved(LAM_TAKEN_ROUGHLY, 0);
    lam_error e = {0};
    lam_fit *f = fit_of(m);
    assert_null(f->gap);
    assert_int_equal(f->peak.state, LAM_EXACT);
    assert_string_equal(f->rough,
                        "what aten::convolution_backward takes beside its results is known roughly");
    assert_int_equal(lam_fit_write(NULL, f, m, NULL, NULL, false, show_sink(), &e), LAM_OK);
    show_has("\nit may be somewhat less or more: what aten::convolution_backward takes");
    show_lacks("it may be more");
    assert_int_equal(lam_fit_write(NULL, f, m, NULL, "json", false, show_sink(), &e), LAM_OK);
    show_has("\"gap\":null,\"rough\":\"what aten::convolution_backward takes");
    lam_fit_free(f);
    lam_model_free(m);
}

static lam_op_arg at_position(const int64_t *sizes, int32_t ndim, int32_t position, uint64_t memory) {
    lam_op_arg a = net_op_tensor(0, sizes, ndim);
    a.position = position;
    a.storage = memory;
    a.object = memory + 1;
    return a;
}

static lam_fit *attends(net *n, lam_model **m) {
    took(n, 10, 1, -1, LAM_TAKEN_TENSOR);
    *m = net_done(n);
    return fit_of(*m);
}

static const int64_t narrow[] = {1, 2, 10, 8}, broad[] = {1, 4, 10, 8}, scores[] = {1, 4, 10, 10},
                     turned[] = {1, 4, 8, 10}, plane[] = {10, 10};

static int32_t attention(net *n) {
    *n = net_new();
    int32_t root = net_leaf(n, "Attention");
    net_place(n, -1, "", root);
    return net_call(n, root, -1, SH(1, 8), 0, SH(1, 8), 0);
}

/* Two queries share a key: it is repeated, and would be kept once. */
static void causal_attention_would_keep_keys(void **state) {
    (void)state;
    for (int masked = 0; masked < 2; masked++) {
        net n;
        int32_t call = attention(&n);
        lam_op_arg from[] = {net_op_tensor(0, narrow, 4)}, to[] = {net_op_tensor(0, broad, 4)};
        from[0].storage = from[0].object = 64;
        to[0].storage = 64, to[0].object = 128;
        net_op_args(&n, "aten::expand", (op_at){call, -1, LAM_FORWARD, 0}, from, 1, to, 1);
        lam_op_arg in[] = {net_op_tensor(0, broad, 4),
                           to[0],
                           to[0],
                           {.position = 3, .ndim = -1},
                           {.position = 4, .ndim = -1},
                           {.position = 5, .ndim = -1, .value = {.type = LAM_BOOL, .i = !masked}}};
        in[1].position = 1, in[2].position = 2;
        in[4].value = (lam_value){.type = LAM_FLOAT};
        if (masked) in[3] = at_position(plane, 2, 3, 256);
        const lam_op_arg out[] = {net_op_tensor(0, broad, 4)};
        net_op_args(&n, "aten::scaled_dot_product_attention", (op_at){call, -1, LAM_FORWARD, 0}, in, 6, out,
                    1);
        lam_model *m;
        lam_fit *f = attends(&n, &m);
        assert_int_equal(f->cached_layers, !masked);
        assert_int_equal(f->cache_bytes, masked ? 0 : 2 * 2 * 8 * 4);
        assert_int_equal(f->masked_layers, masked);
        assert_int_equal(f->masked_bytes, masked ? 2 * 2 * 8 * 4 : 0);
        assert_int_equal(lam_fit_write(f, NULL, m, NULL, NULL, true, show_sink(), NULL), LAM_OK);
        show_has(masked ? " a token, in 1 layer with a mask of the model's own" : " a token, in 1 layer");
        lam_fit_free(f);
        lam_model_free(m);
    }
}

/* Scores, a mask, a softmax and values, each an operator; without the mask nothing says that it is causal. */
static void attention_that_is_written_out_may_be_causal(void **state) {
    (void)state;
    for (int masked = 0; masked < 2; masked++) {
        net n;
        int32_t call = attention(&n);
        const op_at at = {call, -1, LAM_FORWARD, 0};
        const lam_op_arg s = at_position(scores, 4, 0, 512), p = at_position(scores, 4, 0, 1024);
        const lam_op_arg kq[] = {at_position(broad, 4, 0, 64), at_position(turned, 4, 1, 128)};
        const lam_op_arg add[] = {s, at_position(plane, 2, 1, 256)};
        const lam_op_arg pv[] = {p, at_position(broad, 4, 1, 2048)}, y[] = {at_position(broad, 4, 0, 4096)};
        net_op_args(&n, "aten::matmul", at, kq, 2, &s, 1);
        if (masked) net_op_args(&n, "aten::add_", at, add, 2, &s, 1);
        net_op_args(&n, "aten::softmax", at, &s, 1, &p, 1);
        net_op_args(&n, "aten::matmul", at, pv, 2, y, 1);
        lam_model *m;
        lam_fit *f = attends(&n, &m);
        assert_int_equal(f->cached_layers, 0);
        assert_int_equal(f->masked_layers, masked);
        assert_int_equal(f->masked_bytes, masked ? 2 * 4 * 8 * 4 : 0);
        lam_fit_free(f);
        lam_model_free(m);
    }
}

static void what_cannot_be_told_is_refused(void **state) {
    (void)state;
    lam_error e = {0};
    lam_fit *f = NULL;
    lam_model *plain = net_step(), *m = followed(false, "aten::neg");
    assert_int_equal(lam_fit_new(&f, plain, &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "no memory was followed"));
    assert_int_equal(lam_fit_new(NULL, m, NULL), LAM_USAGE);
    assert_null(f);
    assert_int_equal(lam_fit_write(NULL, NULL, m, NULL, NULL, false, show_sink(), NULL), LAM_USAGE);
    f = fit_of(m);
    assert_int_equal(lam_fit_write(f, NULL, m, NULL, "csv", false, show_sink(), NULL), LAM_USAGE);
    lam_fit_free(f);
    lam_fit_free(NULL);
    lam_model_free(m);
    lam_model_free(plain);
    assert_null(lam_held_name((lam_held)99));
}

/* A model that runs no operator is followed all the same: it says so by memory of no bytes. */
static void nothing_ran(void **state) {
    (void)state;
    net n = net_new();
    net_plain(&n);
    NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
    took(&n, 0, -1, -1, LAM_TAKEN_TENSOR);
    lam_model *m = net_done(&n);
    lam_fit *f = fit_of(m);
    assert_int_equal(f->op, -1);
    lam_fit_free(f);
    lam_model_free(m);
}

static void lifetimes_are_checked(void **state) {
    (void)state;
    net n = net_new();
    net_plain(&n);
    const lam_lifetime wrong[] = {{-1, -1, -1, LAM_TAKEN_TENSOR, -1},
                                  {1, 0, -1, LAM_TAKEN_TENSOR, -1},
                                  {1, -1, 3, LAM_TAKEN_TENSOR, -1},
                                  {1, -1, -1, LAM_TAKEN_STATE, 99}};
    for (size_t i = 0; i < 4; i++) assert_int_equal(lam_build_lifetime(n.b, &wrong[i], NULL), LAM_RANGE);
    assert_int_equal(lam_build_lifetime(n.b, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_build_step(n.b, "sgd", 1, false, NULL), LAM_RANGE); /* no operator ran yet */
    assert_int_equal(lam_build_step(n.b, "sgd", -1, false, NULL), LAM_RANGE);
    assert_int_equal(lam_build_step(n.b, NULL, 0, false, NULL), LAM_USAGE);
    net_mm(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 1, 1, 1);
    took(&n, 7, 0, 0, LAM_TAKEN_TENSOR);
    lam_model *m = net_done(&n);
    assert_int_equal(lam_model_n_lifetimes(m), 1);
    assert_int_equal(lam_model_lifetime(m, 0)->bytes, 7);
    assert_null(lam_model_lifetime(m, 1));
    lam_model_free(m);
}

static void too_many_bytes(void **state) {
    (void)state;
    net n = net_new();
    net_plain(&n);
    net_mm(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 1, 1, 1);
    took(&n, INT64_MAX, 0, 0, LAM_TAKEN_TENSOR);
    lam_model *m = net_done(&n);
    lam_fit *f;
    assert_int_equal(lam_fit_new(&f, m, NULL), LAM_RANGE);
    lam_model_free(m);
}

static void both_as_text(void **state) {
    (void)state;
    lam_model *m = followed(false, "aten::neg"), *trained = of_step(true, "aten::neg", "adamw");
    lam_fit *f = fit_of(m), *s = fit_of(trained);
    const int64_t measured[] = {3000, -1};
    assert_int_equal(lam_fit_write(f, s, trained, measured, NULL, true, show_sink(), NULL), LAM_OK);
    show_has("forward pass   3,188 B\n  of it        activations 3,000 B, parameters 164 B, input 24 B\n");
    show_has("  measured     3,000 B, the prediction is off by +6.27 %\n");
    assert_int_equal(strncmp(shown, "training step  ", 15), 0); /* the answer first */
    show_has(" B, with adamw\n  of it        activations ");
    show_has("\n  largest      while aten::");
    show_has(" runs, in act (ReLU)\n");
    show_has("held by, at the peak of the training step\n");
    show_has("     2,000 B  act (ReLU): activations 2,000 B\n");
    show_has("\ncounts what torch's CPU allocator hands out; a GPU's differs\n");
    assert_null(strstr(shown, "gradients of results"));
    assert_int_equal(lam_fit_write(f, s, trained, measured, "html", true, show_sink(), NULL), LAM_OK);
    show_has(
        "<span>forward pass</span><span class=\"v\">3,188 B</span><span class=\"w\">measured 3,000 B, off "
        "by +6.27\u202f%</span>");
    show_has("<span>training step, with adamw</span>");
    show_has("<code><bdi>act (ReLU)</bdi></code></th><td class=\"l wr\">activations 2,000 B</td>");
    show_has("<p class=\"sub\">The peak of the training step is <bdi>while aten::");
    show_has("<div class=\"exact ln\">counts what torch&#39;s CPU allocator");
    assert_int_equal(lam_fit_write(f, NULL, m, measured, "json", true, show_sink(), NULL), LAM_OK);
    assert_non_null(
        strstr(shown,
               "{\"schema\": \"lamina.fit/1\",\"schema_version\": 1,\"version\": \"" LAM_VERSION
               "\",\"forward\":{\"peak\":3188,\"state\":\"predicted\",\"parts\":{\"parameters\":164,"));
    assert_non_null(strstr(shown, ",\"measured\":3000,\"off\":6.2667,"));
    assert_non_null(strstr(shown, "\"step\":null}\n"));
    assert_string_equal(json_value(shown), "\n");
    lam_fit_free(f);
    lam_fit_free(s);
    lam_model_free(m);
    lam_model_free(trained);
}

/* A bar is as long as its share of the peak, 50 at most. */
static void bars_of_shares(void **state) {
    (void)state;
    for (int other = 0; other < 2; other++) {
        net n = net_new();
        int32_t root = net_leaf(&n, "ReLU");
        net_place(&n, -1, "", root);
        int32_t c = net_call(&n, root, -1, SH(0, 3), 0, SH(0, 3), 0);
        int32_t relu = net_relu(&n, (op_at){c, -1, LAM_FORWARD, 0}, 8);
        took(&n, 750, relu, -1, LAM_TAKEN_TENSOR);
        if (other) took(&n, 250, relu, relu, LAM_TAKEN_WORKSPACE);
        lam_model *m = net_done(&n);
        lam_fit *f = fit_of(m);
        assert_int_equal(lam_fit_write(f, NULL, m, NULL, "html", true, show_sink(), NULL), LAM_OK);
        show_has(other ? "<td class=\"n w38\">750 B</td>" : "<td class=\"n w50\">750 B</td>");
        lam_fit_free(f);
        lam_model_free(m);
    }
}

/* Layers whose paths differ in one number and that hold the same are one line; what holds more is another. */
static void equal_layers(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), p = net_place(&n, -1, "", root), block[4];
    int32_t list = net_place(&n, p, "layers", net_module(&n, "Blocks", 0));
    static const char *const names[] = {"10", "11", "12", "tail"};
    for (int i = 0; i < 4; i++) block[i] = net_linear(&n, 3, 4);
    for (int i = 0; i < 4; i++) net_place(&n, list, names[i], block[i]);
    int32_t c = net_call(&n, root, -1, SH(2, 3), 0, SH(2, 4), 0);
    for (int i = 0; i < 4; i++) net_call(&n, block[i], c, SH(2, 3), 0, SH(2, 4), 0);
    NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
    net_mm(&n, (op_at){c, -1, LAM_FORWARD, 0}, 2, 3, 4);
    took(&n, 32, 0, -1, LAM_TAKEN_TENSOR);
    lam_model *m = net_done(&n);
    lam_fit *f = fit_of(m);
    assert_int_equal(lam_fit_write(f, NULL, m, NULL, NULL, true, show_sink(), NULL), LAM_OK);
    show_has("        64 B each  layers.10..12 x3 (Linear): parameters 64 B\n");
    show_has("        64 B  layers.tail (Linear): parameters 64 B\n");
    assert_int_equal(lam_fit_write(f, NULL, m, NULL, "html", true, show_sink(), NULL), LAM_OK);
    show_has("<bdi>layers.10..12 x3 (Linear)</bdi></code></th><td class=\"l wr\">parameters 64 B</td>");
    show_has("64 B each</td>");
    assert_null(strstr(shown, "other layer"));
    lam_fit_free(f);
    lam_model_free(m);
}

static void a_sink_that_fails(void **state) {
    (void)state;
    lam_model *m = followed(false, "aten::neg");
    lam_fit *f = fit_of(m);
    assert_int_equal(lam_fit_write(f, NULL, m, NULL, NULL, false, show_refusing(), NULL), LAM_IO);
    lam_fit_free(f);
    lam_model_free(m);
}

static void sweep(void *arg, bool *ok) {
    lam_error e = {0};
    lam_fit *f = NULL;
    lam_status s = lam_fit_new(&f, arg, &e);
    if (s == LAM_OK) s = lam_fit_write(NULL, f, arg, NULL, NULL, false, show_sink(), &e);
    if (s == LAM_OK) s = lam_fit_write(NULL, f, arg, NULL, "html", false, show_sink(), &e);
    *ok = oom_check(s, &e);
    lam_fit_free(f);
}

static void memory_runs_out(void **state) {
    (void)state;
    lam_model *m = of_step(true, "my::op", "adam");
    oom_sweep(sweep, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_where_most_is_held),
        cmocka_unit_test(a_step_has_gradients_and_an_optimizer),
        cmocka_unit_test(the_step_itself_may_be_the_peak),
        cmocka_unit_test(what_is_known_roughly_says_so),
        cmocka_unit_test(what_is_not_measured_says_so),
        cmocka_unit_test(foreign_operators_make_it_a_lower_bound),
        cmocka_unit_test(causal_attention_would_keep_keys),
        cmocka_unit_test(attention_that_is_written_out_may_be_causal),
        cmocka_unit_test(what_cannot_be_told_is_refused),
        cmocka_unit_test(nothing_ran),
        cmocka_unit_test(lifetimes_are_checked),
        cmocka_unit_test(too_many_bytes),
        cmocka_unit_test(bars_of_shares),
        cmocka_unit_test(equal_layers),
        cmocka_unit_test(both_as_text),
        cmocka_unit_test(a_sink_that_fails),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
