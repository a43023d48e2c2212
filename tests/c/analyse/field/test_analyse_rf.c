/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields. torchscan's are those of tests/data/torchscan.json; the true ones are checked against
 * a search for the input positions that an output position depends on. */
#include "kit/oom.h"

#include "kit/chains.h"
#include "kit/draw.h"
#include "kit/shown.h"

#include <math.h>

typedef struct want {
    double rf, stride, padding;
    lam_state state;
} want;

static void expect_row(const lam_costs *c, int32_t i, want w) {
    const lam_cost_row *r = lam_costs_row(c, i);
    if (r->rf != w.rf || r->rf_stride != w.stride || r->rf_padding != w.padding || r->rf_state != w.state)
        fail_msg("row %d: (%g, %g, %g) %s, expected (%g, %g, %g) %s", (int)i, r->rf, r->rf_stride,
                 r->rf_padding, lam_state_name(r->rf_state), w.rf, w.stride, w.padding,
                 lam_state_name(w.state));
}

static void expect_rows(const lam_costs *c, const want *w, int32_t n) {
    assert_int_equal(lam_costs_n_rows(c), n);
    for (int32_t i = 0; i < n; i++) expect_row(c, i, w[i]);
}
#define ROWS(c, ...) expect_rows(c, (const want[]){__VA_ARGS__}, sizeof((want[]){__VA_ARGS__}) / sizeof(want))
#define E            LAM_EXACT
#define L            LAM_AT_LEAST
#define U            LAM_UNKNOWN

static int32_t adaptive(net *n, const char *type, int64_t out) {
    int32_t m = net_leaf(n, type);
    net_int(n, m, "output_size", out);
    return m;
}

/* -- torchscan's recorded chains --------------------------------------------------------------- */

static lam_model *encdec(bool own_forward, bool data) {
    return text_model(own_forward ? "Net" CHAIN_ENCDEC : "Sequential" CHAIN_ENCDEC, data, SH(1, 1, 28, 28));
}

static void encdec_torchscan(void **state) {
    (void)state;
    lam_model *m = encdec(false, false);
    lam_costs *c = net_costs(m, "torchscan", true);
    ROWS(c, {1, 1, 0, E}, {3, 2, 1, E}, {3, 2, 1, E}, {7, 4, 3, E}, {7, 4, 3, E}, {-5, 2, 3, E},
         {-5, 2, 3, E}, {-11, 1, 3, E});
    lam_costs_free(c);
    lam_model_free(m);
}

/* The true fields never shrink: a transposed convolution of kernel 2 and stride 2 sees one input position. */
static void encdec_true(void **state) {
    (void)state;
    lam_model *m = encdec(false, false);
    static const char *const conventions[] = {"layers", "torchscan"};
    for (int i = 0; i < 2; i++) {
        lam_costs *c = net_costs(m, conventions[i], false);
        ROWS(c, {7, 1, 3, E}, {3, 2, 1, E}, {3, 2, 1, E}, {7, 4, 3, E}, {7, 4, 3, E}, {7, 2, 3, E},
             {7, 2, 3, E}, {7, 1, 3, E});
        lam_costs_free(c);
    }
    lam_model_free(m);
}

static lam_model *conv1d(void) {
    return text_model(
        "Sequential(Conv1d 4 8 k5 s2; BatchNorm1d 8; MaxPool1d k2; AdaptiveMaxPool1d 3; Flatten; "
        "Linear 24 2)",
        true, SH(1, 4, 50));
}

static void conv1d_torchscan(void **state) {
    (void)state;
    lam_model *m = conv1d();
    lam_costs *c = net_costs(m, "torchscan", true);
    ROWS(c, {1, 1, 0, E}, {5, 2, 0, E}, {5, 2, 0, E}, {7, 4, 0, E}, {19, 16, -10, E}, {19, 16, -10, E},
         {19, 16, -10, E});
    lam_costs_free(c);
    lam_model_free(m);
}

/* 11 positions pooled to 3: windows of 4, 5 and 4. The Linear after the Flatten sees all 50 input
 * positions. */
static void conv1d_true(void **state) {
    (void)state;
    lam_model *m = conv1d();
    lam_costs *c = net_costs(m, "layers", false);
    expect_row(c, 3, (want){7, 4, 0, E});
    expect_row(c, 4, (want){7 + 4 * 4, 4 * 11.0 / 3, 0, E});
    expect_row(c, 6, (want){50, 50, 0, E});
    expect_row(c, 0, (want){50, 50, 0, E});
    lam_costs_free(c);
    lam_model_free(m);
}

/* torchscan 0.1.1 starts from the end: (3, 1, 0), (1, 1, 0), (5, 2, 0) of a convolution, a ReLU and a
 * convolution. */
static void backwards(void **state) {
    (void)state;
    lam_model *m = text_model("Sequential(Conv1d 1 1 k5 s2; ReLU; Conv1d 1 1 k3 p1)", false, SH(1, 1, 19));
    lam_costs *c = net_costs(m, "torchscan", true);
    assert_int_equal(lam_costs_rf_backwards(c, NULL), LAM_OK);
    ROWS(c, {9, 2, 2, E}, {9, 2, 2, E}, {3, 1, 1, E}, {3, 1, 1, E});
    assert_int_equal(lam_costs_rf_backwards(NULL, NULL), LAM_USAGE);
    /* aggregated, the container takes the first row's field there and the last one's in 0.1.2 */
    assert_int_equal(lam_costs_aggregate(c, 0, NULL), LAM_OK);
    ROWS(c, {9, 2, 2, E});
    lam_costs_free(c);
    c = net_costs(m, "torchscan", true);
    assert_int_equal(lam_costs_aggregate(c, 0, NULL), LAM_OK);
    ROWS(c, {9, 2, 2, E});
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- how far a chain is proved ----------------------------------------------------------------- */

static void own_forward_is_a_lower_bound(void **state) {
    (void)state;
    lam_model *m = encdec(true, true);
    lam_costs *c = net_costs(m, "layers", false);
    ROWS(c, {7, 1, 3, L}, {3, 2, 1, L}, {3, 2, 1, L}, {7, 4, 3, L}, {7, 4, 3, L}, {7, 2, 3, L}, {7, 2, 3, L},
         {7, 1, 3, L});
    lam_costs_free(c);
    lam_model_free(m);
    m = encdec(true, false); /* nothing tells whether the data connects */
    c = net_costs(m, "layers", false);
    expect_row(c, 1, (want){1, 1, 0, U});
    expect_row(c, 7, (want){1, 1, 0, U});
    lam_costs_free(c);
    lam_model_free(m);
}

/* Net(stem: Sequential(conv, relu), left, right) where left and right both read the stem's output. */
static void branches(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), stem = net_module(&n, "Sequential", 0);
    int32_t conv = net_conv(&n, "Conv2d", 2, 1, 1, 3, 1, 0), relu = net_leaf(&n, "ReLU");
    int32_t left = net_conv(&n, "Conv2d", 2, 1, 1, 3, 1, 0), right = net_conv(&n, "Conv2d", 2, 1, 1, 3, 1, 0);
    int32_t p = net_place(&n, -1, "", root), q = net_place(&n, p, "stem", stem);
    net_place(&n, q, "0", conv);
    net_place(&n, q, "1", relu);
    net_place(&n, p, "left", left);
    net_place(&n, p, "right", right);
    int32_t r = net_call(&n, root, -1, SH(1, 1, 9, 9), 1, SH(1, 1, 5, 5), 6);
    int32_t s = net_call(&n, stem, r, SH(1, 1, 9, 9), 1, SH(1, 1, 7, 7), 3);
    net_call(&n, conv, s, SH(1, 1, 9, 9), 1, SH(1, 1, 7, 7), 2);
    net_call(&n, relu, s, SH(1, 1, 7, 7), 2, SH(1, 1, 7, 7), 3);
    net_call(&n, left, r, SH(1, 1, 7, 7), 3, SH(1, 1, 5, 5), 4);
    net_call(&n, right, r, SH(1, 1, 7, 7), 3, SH(1, 1, 5, 5), 5);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    ROWS(c, {1, 1, 0, U}, {3, 1, 0, L}, {3, 1, 0, L}, {3, 1, 0, L}, {5, 1, 0, L}, {1, 1, 0, U});
    lam_costs_free(c);
    lam_model_free(m);
}

static void two_inputs_and_two_runs(void **state) {
    (void)state;
    net n = net_new();
    int32_t relu = net_leaf(&n, "ReLU");
    net_place(&n, -1, "", relu);
    net_call(&n, relu, -1, SH(1, 4), 1, SH(1, 4), 2);
    net_call(&n, relu, -1, SH(1, 4), 7, SH(1, 4), 8); /* a second run starts anew */
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    ROWS(c, {1, 1, 0, E}, {1, 1, 0, E});
    lam_costs_free(c);
    lam_model_free(m);
    n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), a = net_leaf(&n, "ReLU"), b = net_leaf(&n, "Bilinear");
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "0", a);
    net_place(&n, p, "1", b);
    int32_t r = net_call(&n, root, -1, SH(1, 4), 1, SH(1, 4), 3);
    net_call(&n, a, r, SH(1, 4), 1, SH(1, 4), 2);
    const int64_t x[] = {1, 4};
    lam_arg in[] = {{NULL, 0, 6, 0, 2, x, 2, 0, 0}, {NULL, 1, 6, 0, 2, x, 9, 0, 0}},
            out = {NULL, 0, 6, 0, 2, x, 3, 0, 0};
    lam_call_info call = {.module = b, .parent = r, .n_in = 2, .in = in, .n_out = 1, .out = &out};
    NET_OK(&n, lam_build_call(n.b, &call, &(int32_t){0}, &n.e));
    m = net_done(&n);
    c = net_costs(m, "layers", false);
    ROWS(c, {1, 1, 0, U}, {1, 1, 0, E}, {1, 1, 0, U});
    lam_costs_free(c);
    lam_model_free(m);
}

static void norm_is_a_bound_and_upsampling_unknown(void **state) {
    (void)state;
    lam_model *m =
        text_model("Sequential(Conv2d 1 4 k3 p1; GroupNorm; Upsample; ReLU)", false, SH(1, 1, 8, 8));
    lam_costs *c = net_costs(m, "layers", false);
    ROWS(c, {1, 1, 0, U}, {3, 1, 1, E}, {3, 1, 1, L}, {1, 1, 0, U}, {1, 1, 0, U});
    lam_costs_free(c);
    c = net_costs(m, "torchscan", true); /* it passes over what it does not know */
    ROWS(c, {1, 1, 0, E}, {3, 1, 1, E}, {3, 1, 1, L}, {3, 1, 1, L}, {3, 1, 1, L});
    lam_costs_free(c);
    lam_model_free(m);
}

static void perceptron_and_generator(void **state) {
    (void)state;
    lam_model *m = text_model("Sequential(Linear 6 4; ReLU; Linear 4 2)", false, SH(1, 6));
    lam_costs *c = net_costs(m, "layers", false);
    ROWS(c, {6, 6, 0, E}, {6, 6, 0, E}, {6, 6, 0, E}, {6, 6, 0, E});
    lam_costs_free(c);
    lam_model_free(m);
    m = text_model("Sequential(Flatten; Linear 784 9)", false, SH(1, 1, 28, 28));
    c = net_costs(m, "layers", false);
    ROWS(c, {28, 28, 0, E}, {1, 1, 0, E}, {28, 28, 0, E});
    lam_costs_free(c);
    lam_model_free(m);
    net n = net_of_text("Sequential(Linear 8 4; LSTM)", false, SH(1, 5, 8));
    net_bool(&n, 2, "batch_first", true);
    m = net_done(&n);
    c = net_costs(m, "layers", false);
    ROWS(c, {5, 5, 0, E}, {1, 1, 0, E}, {5, 5, 0, E});
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- one layer alone --------------------------------------------------------------------------- */

static lam_model *one(net *n, int32_t module, const int64_t *in, int32_t n_in, const int64_t *out,
                      int32_t n_out) {
    net_place(n, -1, "", module);
    net_call(n, module, -1, in, n_in, 0, out, n_out, 0);
    return net_done(n);
}

static void expect_own(lam_model *m, const char *convention, want w) {
    lam_rf r;
    assert_int_equal(lam_rf_of(m, 0, convention, &r, NULL), LAM_OK);
    if (r.size != w.rf || r.stride != w.stride || r.padding != w.padding || r.state != w.state)
        fail_msg("%s: (%g, %g, %g) %s", convention, r.size, r.stride, r.padding, lam_state_name(r.state));
}

static void one_adaptive(int64_t in, int64_t out, want torchscan, double largest) {
    net n = net_new();
    lam_model *m = one(&n, adaptive(&n, "AdaptiveAvgPool1d", out), SH(1, 1, in), SH(1, 1, out));
    expect_own(m, "torchscan", torchscan);
    expect_own(m, "layers", (want){largest, (double)in / (double)out, 0, E});
    lam_model_free(m);
}

static void own_adaptive(void **state) {
    (void)state;
    one_adaptive(10, 1, (want){10, 10, -45, E}, 10);
    one_adaptive(10, 5, (want){2, 2, 3, E}, 2);
    one_adaptive(10, 4, (want){3, 3, 0.5, E}, 3);
    one_adaptive(6, 6, (want){1, 1, 2.5, E}, 1);
    one_adaptive(3, 4, (want){1, 1, 1, E}, 2);
    for (int64_t in = 1; in < 24; in++) {
        for (int64_t out = 1; out < 24; out++) {
            double k = ceil((double)in / (double)out);
            int64_t most = 0;
            for (int64_t i = 0; i < out; i++) {
                int64_t from = i * in / out, to = ((i + 1) * in + out - 1) / out;
                if (to - from > most) most = to - from;
            }
            one_adaptive(in, out, (want){k, k, ((double)in - k * k) / 2, E}, (double)most);
        }
    }
}

/* The inputs that output positions of a transposed convolution depend on, found by trying them all. */
static void own_transposed(void **state) {
    (void)state;
    for (int64_t k = 1; k < 7; k++) {
        for (int64_t s = 1; s < 5; s++) {
            for (int64_t pad = 0; pad < k; pad++) {
                int64_t most = 0, start = 0;
                for (int64_t o = 0; o < 40; o++) {
                    int64_t count = 0, first = INT64_MAX;
                    for (int64_t i = -50; i < 50; i++) {
                        int64_t tap = o + pad - i * s;
                        if (tap < 0 || tap >= k) continue;
                        count++;
                        if (i < first) first = i;
                    }
                    if (count > most) most = count;
                    if (o == 0 && count) start = -first;
                }
                net n = net_new();
                lam_model *m =
                    one(&n, net_conv(&n, "ConvTranspose1d", 1, 1, 1, k, s, pad), SH(1, 1, 9), SH(1, 1, 9));
                lam_rf r;
                assert_int_equal(lam_rf_of(m, 0, "layers", &r, NULL), LAM_OK);
                assert_true(r.size == (double)most && r.stride == 1 / (double)s);
                if (k >= s) assert_true(r.padding == (double)start);
                expect_own(m, "torchscan", (want){-(double)k, 1 / (double)s, 0, E});
                lam_model_free(m);
            }
        }
    }
}

static void one_padded(const char *text, int64_t k, int64_t d, want w) {
    net n = net_new();
    int32_t conv = net_leaf(&n, "Conv2d");
    net_ints(&n, conv, "kernel_size", SH(k, 1));
    net_ints(&n, conv, "dilation", SH(d, 1));
    net_ints(&n, conv, "stride", SH(1, 1));
    net_text(&n, conv, "padding", text);
    lam_model *m = one(&n, conv, SH(1, 1, 9, 9), SH(1, 1, 9, 9));
    expect_own(m, "torchscan", w);
    expect_own(m, "layers", w);
    lam_model_free(m);
}

static void own_windows(void **state) {
    (void)state;
    one_padded("same", 3, 1, (want){3, 1, 1, E});
    one_padded("same", 4, 1, (want){4, 1, 1, E});
    one_padded("same", 3, 4, (want){9, 1, 4, E});
    one_padded("valid", 5, 1, (want){5, 1, 0, E});
    net n = net_new();
    int32_t pool = net_leaf(&n, "AvgPool2d");
    net_int(&n, pool, "kernel_size", 3); /* no stride known: it is the kernel's */
    lam_model *m = one(&n, pool, SH(1, 1, 9, 9), SH(1, 1, 3, 3));
    expect_own(m, "torchscan", (want){3, 3, 0, E});
    lam_model_free(m);
    n = net_new();
    m = one(&n, net_leaf(&n, "Conv2d"), SH(1, 1, 9, 9), SH(1, 1, 3, 3)); /* nothing known of it */
    expect_own(m, "torchscan", (want){1, 1, 0, U});
    expect_own(m, "layers", (want){1, 1, 0, U});
    lam_model_free(m);
}

static void own_others(void **state) {
    (void)state;
    net n = net_new();
    lam_model *m = one(&n, net_leaf(&n, "GELU"), SH(2, 8), SH(2, 8));
    expect_own(m, "torchscan", (want){1, 1, 0, U}); /* it has no rule for it */
    expect_own(m, "layers", (want){1, 1, 0, E});
    lam_model_free(m);
    n = net_new();
    m = one(&n, net_leaf(&n, "Swish"), SH(2, 8), SH(2, 8));
    expect_own(m, "torchscan", (want){1, 1, 0, U});
    expect_own(m, "layers", (want){1, 1, 0, U});
    lam_model_free(m);
    n = net_new();
    m = one(&n, net_subclass(&n, "MyReLU", "ReLU", LAM_MODULE_LEAF | LAM_MODULE_OWN_FORWARD), SH(2, 8),
            SH(2, 8));
    expect_own(m, "layers", (want){1, 1, 0, L});
    lam_rf r;
    lam_error e = {0};
    assert_int_equal(lam_rf_of(m, 0, "nobody", &r, &e), LAM_USAGE);
    e = (lam_error){0};
    assert_int_equal(lam_rf_of(m, 1, NULL, &r, &e), LAM_RANGE);
    assert_string_equal(e.text, "there is no call 1; the model has 1");
    lam_model_free(m);
    n = net_new();
    m = one(&n, net_module(&n, "Sequential", 0), SH(2, 8), SH(2, 8));
    expect_own(m, "torchscan", (want){1, 1, 0, E});
    lam_model_free(m);
}

/* -- a transcript ------------------------------------------------------------------------------ */

enum { TOLD = 100, DEEPEST = 3 };

typedef struct growing {
    net n;
    uint64_t data;  /* the number of the tensor that was given last; 0: not known */
    int64_t length; /* its positions */
} growing;

static int32_t a_layer(net *n) {
    const int64_t k = draw(1, 3), stride = draw(1, 2);
    switch (draw(0, 10)) {
    case 0: return net_conv(n, "Conv1d", 1, 4, 4, k, stride, draw(0, 1));
    case 1: return net_conv(n, "ConvTranspose1d", 1, 4, 4, k, stride, 0);
    case 2: return net_pool(n, "MaxPool1d", k, stride);
    case 3: return adaptive(n, "AdaptiveAvgPool1d", k);
    case 4: return net_linear(n, 4, 4);
    case 5: return net_leaf(n, "Flatten");
    case 6: return net_leaf(n, "GroupNorm");
    case 7: return net_module(n, "MultiheadAttention", 0);
    case 8: return net_leaf(n, "LSTM");
    case 9: return net_leaf(n, draw(0, 3) ? "GELU" : draw(0, 1) ? "Swish" : "Upsample");
    default: return net_leaf(n, "ReLU");
    }
}

/* The data goes on; sometimes it can't be told, or other data comes in. */
static uint64_t handed_on(const growing *g) {
    const int64_t how = draw(0, 60);
    return how == 0 ? 0 : how == 1 ? 1000 + g->data : g->data;
}

static void grow(growing *g, int32_t module, int32_t place, int32_t parent, int32_t depth) {
    net *n = &g->n;
    char name[16];
    const int32_t many = (int32_t)draw(1, 5);
    const int64_t out = draw(1, 9);
    const uint64_t in = parent < 0 ? g->data : handed_on(g);
    const int32_t call = net_call(n, module, parent, SH(1, 4, g->length), in, SH(1, 4, out), in + 1);
    const bool holds = depth < DEEPEST && (depth == 0 || draw(0, 2) == 0);
    g->data = in;
    for (int32_t i = 0; holds && i < many; i++) {
        const bool box = draw(0, 2) == 0;
        const int32_t inner = box ? net_module(n, draw(0, 2) ? "Sequential" : "Net", 0) : a_layer(n);
        snprintf(name, sizeof name, "%d", (int)i);
        grow(g, inner, net_place(n, place, name, inner), call, box ? depth + 1 : DEEPEST - (draw(0, 5) == 0));
    }
    if (holds) return; /* what the last one in it gave is what it gives */
    g->data = in + 1;
    g->length = out;
}

static void show_line(const char *text) { (void)show_put(NULL, text, strlen(text)); }

static void tell_rows(const lam_model *m, const char *convention, bool released) {
    lam_costs *c = net_costs(m, convention, released);
    char line[160];
    snprintf(line, sizeof line, " %s%s\n", convention, released ? ", released" : "");
    show_line(line);
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++) {
        const lam_cost_row *r = lam_costs_row(c, i);
        const lam_place *at = lam_model_place(m, r->place);
        snprintf(line, sizeof line, "  %s %s: %.6g %.6g %.6g %s\n", at->path,
                 lam_model_module(m, at->module)->type, r->rf, r->rf_stride, r->rf_padding,
                 lam_state_name(r->rf_state));
        show_line(line);
    }
    lam_costs_free(c);
}

/* All that is told of the layers of some nets, as it was told before. */
static void all_is_told_as_before(void **state) {
    (void)state;
    seed = 31;
    (void)show_sink();
    for (int i = 0; i < TOLD; i++) {
        growing g = {.n = net_new(), .data = draw(0, 5) ? 1 : 0, .length = draw(1, 20)};
        char line[32];
        snprintf(line, sizeof line, "Net %d\n", i);
        show_line(line);
        const int32_t root = net_module(&g.n, draw(0, 3) ? "Sequential" : "Net", 0);
        grow(&g, root, net_place(&g.n, -1, "", root), -1, 0);
        if (i % 3 == 0) NET_OK(&g.n, lam_build_ops_seen(g.n.b, &g.n.e));
        lam_model *m = net_done(&g.n);
        tell_rows(m, "layers", false);
        tell_rows(m, i % 3 == 0 ? "exact" : "torchscan", i % 3 == 1);
        lam_model_free(m);
    }
    show_golden("rf-nets", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encdec_torchscan),
        cmocka_unit_test(encdec_true),
        cmocka_unit_test(conv1d_torchscan),
        cmocka_unit_test(conv1d_true),
        cmocka_unit_test(backwards),
        cmocka_unit_test(own_forward_is_a_lower_bound),
        cmocka_unit_test(branches),
        cmocka_unit_test(two_inputs_and_two_runs),
        cmocka_unit_test(norm_is_a_bound_and_upsampling_unknown),
        cmocka_unit_test(perceptron_and_generator),
        cmocka_unit_test(own_adaptive),
        cmocka_unit_test(own_transposed),
        cmocka_unit_test(own_windows),
        cmocka_unit_test(own_others),
        cmocka_unit_test(all_is_told_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
