/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for what is computed element by element or along axes, and of its agreement with `layers`
 * where a layer is one operator. */
#include "kit/oom.h"

#include "kit/op_build.h"

/* -- element by element: each operator as it is defined, on one element ---------------------------------- */

static double softplus1(double x) {
    double z = mul(2, x);
    bool high = less(20, z);
    double low = mul(0.5, log1(add(1, exp1(z))));
    return high ? x : low;
}

static double p_add(double x, double y) { return add(x, y); }
static double p_pow(double x, double y) { return pow1(x, y); }
static double p_sigmoid(double x, double y) { return y == y ? sigmoid1(x) : 0; }
static double p_silu(double x, double y) { return y == y ? mul(x, sigmoid1(x)) : 0; }
static double p_mish(double x, double y) { return y == y ? mul(x, tanh1(log1(add(1, exp1(x))))) : 0; }
static double p_elu(double x, double y) {
    double low = mul(y, sub(exp1(x), 1));
    return less(0, x) ? x : low;
}
static double p_leaky(double x, double y) {
    double low = mul(y, x);
    return less(x, 0) ? low : x;
}
static double p_softplus(double x, double y) { return y == y ? softplus1(x) : 0; }
static double p_log_sigmoid(double x, double y) { return y == y ? log1(sigmoid1(x)) : 0; }
static double p_hardswish(double x, double y) {
    bool low = less(x, -3), high = less(3, x);
    double between = dvd(mul(x, add(x, 3)), 6);
    return low || y != y ? 0 : high ? x : between;
}
static double p_hardsigmoid(double x, double y) {
    bool low = less(x, -3), high = less(3, x);
    double between = add(dvd(x, 6), 0.5);
    return low || y != y ? 0 : high ? 1 : between;
}
static double p_relu6(double x, double y) { return y == y ? min2(max2(x, 0), 6) : 0; }
static double p_lerp(double x, double y) { return add(x, mul(0.3, sub(y, x))); }
static double p_selu(double x, double y) {
    return y == y ? mul(1.05, add(max2(0, x), min2(0, mul(1.67, sub(exp1(x), 1))))) : 0;
}
/* Gradients: `x` comes in, `y` is what the forward kept. */
static double p_threshold_backward(double x, double y) { return less(0, y) ? x : 0; }
static double p_sigmoid_backward(double x, double y) { return mul(mul(x, sub(1, y)), y); }
static double p_tanh_backward(double x, double y) { return mul(x, sub(1, mul(y, y))); }
static double p_silu_backward(double x, double y) {
    double s = sigmoid1(y);
    return mul(mul(x, s), add(1, mul(y, sub(1, s))));
}
static double p_mish_backward(double x, double y) {
    double s = sigmoid1(y), t = tanh1(log1(add(1, exp1(y))));
    return mul(x, add(t, mul(mul(y, s), sub(1, mul(t, t)))));
}
static double p_hardswish_backward(double x, double y) {
    bool low = less(y, -3), high = less(3, y);
    double between = mul(x, add(dvd(y, 3), 0.5));
    return low ? 0 : high ? x : between;
}
static double p_hardsigmoid_backward(double x, double y) {
    bool low = less(y, -3), high = less(3, y);
    double between = dvd(x, 6);
    return low || high ? 0 : between;
}
static double p_hardtanh_backward(double x, double y) {
    bool low = less(y, 0), high = less(6, y);
    return low || high ? 0 : x;
}
static double p_elu_backward(double x, double y) {
    double low = mul(mul(x, 0.3), exp1(y));
    return less(y, 0) ? low : x;
}
static double p_softplus_backward(double x, double y) {
    double scaled = mul(2, y), z = exp1(scaled), low = dvd(mul(x, z), add(z, 1));
    return less(20, scaled) ? x : low;
}
static double p_mse_backward(double x, double y) { return mul(mul(2, sub(x, y)), 0.1); }
static double p_addcmul(double x, double y) { return add(x, mul(y, y)); }

static const struct {
    const char *name;
    int32_t inputs;
    double (*one)(double x, double y);
} maps[] = {
    {"aten::add", 2, p_add},
    {"aten::add_", 2, p_add},
    {"aten::mul", 2, p_add},
    {"aten::sub_", 1, p_add},
    {"aten::div_out", 2, p_add},
    {"aten::pow", 1, p_pow},
    {"aten::exp", 1, p_add},
    {"aten::relu", 1, p_add},
    {"aten::relu_", 1, p_add},
    {"aten::eq", 2, p_add},
    {"aten::maximum", 2, p_add},
    {"aten::sigmoid", 1, p_sigmoid},
    {"aten::silu_", 1, p_silu},
    {"aten::mish", 1, p_mish},
    {"aten::elu", 1, p_elu},
    {"aten::leaky_relu", 1, p_leaky},
    {"aten::softplus", 1, p_softplus},
    {"aten::log_sigmoid_forward", 1, p_log_sigmoid},
    {"aten::hardswish", 1, p_hardswish},
    {"aten::hardsigmoid", 1, p_hardsigmoid},
    {"aten::hardtanh", 1, p_relu6},
    {"aten::lerp", 2, p_lerp},
    {"aten::selu", 1, p_selu},
    {"aten::threshold_backward", 2, p_threshold_backward},
    {"aten::sigmoid_backward", 2, p_sigmoid_backward},
    {"aten::tanh_backward", 2, p_tanh_backward},
    {"aten::silu_backward", 2, p_silu_backward},
    {"aten::mish_backward", 2, p_mish_backward},
    {"aten::hardswish_backward", 2, p_hardswish_backward},
    {"aten::hardsigmoid_backward", 2, p_hardsigmoid_backward},
    {"aten::hardtanh_backward", 2, p_hardtanh_backward},
    {"aten::elu_backward", 2, p_elu_backward},
    {"aten::softplus_backward", 2, p_softplus_backward},
    {"aten::mse_loss_backward", 2, p_mse_backward},
    {"aten::addcmul", 2, p_addcmul},
};

/* The second input may have fewer axes, or axes of one element: every element of the output is computed
 * once. */
static void element_by_element(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        size_t which = (size_t)pick(0, sizeof maps / sizeof *maps - 1);
        int64_t s[4], small[4];
        int32_t ndim = random_shape(0, 4, s), cut = (int32_t)pick(0, ndim);
        for (int32_t k = 0; k < ndim; k++) small[k] = coin() ? s[k] : 1;
        bool broadcast = maps[which].inputs == 2 && pick(0, 2) == 0;
        op_new(maps[which].name);
        in_tensor(0, ndim, s);
        cells *x = cells_of(elements(ndim, s)), *y = cells_of(x->n), *b = NULL;
        if (maps[which].inputs == 2) {
            int32_t n = broadcast ? ndim - cut : ndim;
            in_tensor(1, n, broadcast ? small + cut : s);
            b = cells_of(elements(n, broadcast ? small + cut : s));
            rd_all(b);
        }
        out_tensor(0, ndim, s);
        for (int64_t k = 0; k < y->n; k++) wr(y, k, maps[which].one(rd(x, k), 0.3));
        op_proves();
    }
}

/* Factors and bounds that arguments add. */
static void arguments(void **state) {
    (void)state;
    for (int alpha = 0; alpha < 3; alpha++) {
        op_new("aten::add");
        in_tensor(0, SIZES(2, 3));
        in_tensor(1, SIZES(2, 3));
        if (alpha) in_int(2, alpha);
        out_tensor(0, SIZES(2, 3));
        op_says(0, alpha == 2 ? 12 : 6, 18);
    }
    for (int which = 0; which < 4; which++) {
        op_new("aten::clamp_");
        in_tensor(0, SIZES(2, 3));
        which & 1 ? in_float(1, 0) : in_none(1);
        if (which & 2) in_float(2, 6);
        out_tensor(0, SIZES(2, 3));
        op_says(0, 6 * ((which & 1) + (which >> 1)), 12);
    }
    for (int scaled = 0; scaled < 2; scaled++) { /* selu, as a dispatch mode is shown it */
        op_new("aten::elu");
        in_tensor(0, SIZES(2, 3));
        in_float(1, 1.67);
        in_float(2, scaled ? 1.05 : 1);
        in_float(3, 1);
        out_tensor(0, SIZES(2, 3));
        op_says(0, scaled ? 42 : 24, 12);
    }
    op_new("aten::gelu");
    in_tensor(0, SIZES(2, 3));
    out_tensor(0, SIZES(2, 3));
    op_says(0, -1, 12); /* which gelu is not told */
    in_text(1, "none");
    op_says(0, 30, 12);
    the.in[1].value.text = "tanh";
    op_says(0, 54, 12);
    op_new("aten::gelu_backward");
    in_tensor(0, SIZES(2, 3));
    in_tensor(1, SIZES(2, 3));
    in_text(2, "none");
    out_tensor(0, SIZES(2, 3));
    op_says(0, 66, 18);
    the.in[2].value.text = "tanh";
    op_says(0, 108, 18);
    op_new("aten::max"); /* of two tensors, and along axes */
    in_tensor(0, SIZES(2, 3));
    in_tensor(1, SIZES(3));
    out_tensor(0, SIZES(2, 3));
    op_says(0, 6, 15);
    op_new("aten::max");
    in_tensor(0, SIZES(2, 3));
    in_int(1, 1);
    out_tensor(0, SIZES(2));
    out_tensor(1, SIZES(2));
    op_says(0, 4, 10);
}

/* The gradient of gelu, both ways, one element at a time. */
static void gelu_gradients(void **state) {
    (void)state;
    for (int i = 0; more(i, 500); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 20);
        bool by_tanh = coin();
        op_new("aten::gelu_backward");
        cells *g = cells_of(n), *x = cells_of(n), *y = cells_of(n);
        for (int64_t k = 0; k < n; k++) {
            double a = rd(x, k), d;
            if (by_tanh) {
                double sq = mul(a, a), cube = mul(sq, a), t = tanh1(mul(0.8, add(a, mul(0.04, cube))));
                double left = mul(0.5, a), right = add(1, t), dl = mul(0.5, right), dt = sub(1, mul(t, t));
                d = add(dl, mul(mul(left, dt), mul(0.8, add(1, mul(0.13, sq)))));
            } else {
                double cdf = mul(0.5, add(1, erf1(mul(a, 0.7))));
                double pdf = mul(0.4, exp1(mul(mul(a, a), -0.5)));
                d = add(cdf, mul(a, pdf));
            }
            wr(y, k, mul(rd(g, k), d));
        }
        in_tensor(0, SIZES(n));
        in_tensor(1, SIZES(n));
        in_text(2, by_tanh ? "tanh" : "none");
        out_tensor(0, SIZES(n));
        op_proves();
    }
}

/* -- along axes ------------------------------------------------------------------------------------------ */

/* What is done to each element before, between two, and to each result after. */
static const struct {
    const char *name;
    int before, after, results;
    double norm; /* -1: the operator has no such argument */
} reductions[] = {
    {"aten::sum", 0, 0, 1, -1},
    {"aten::mean", 0, 1, 1, -1},
    {"aten::amax", 0, 0, 1, -1},
    {"aten::argmax", 0, 0, 1, -1},
    {"aten::prod", 0, 0, 1, -1},
    {"aten::all", 0, 0, 1, -1},
    {"aten::max", 0, 0, 2, -1},
    {"aten::logsumexp", 1, 1, 1, -1},
    {"aten::linalg_vector_norm", 1, 1, 1, 2},
    {"aten::linalg_vector_norm", 1, 0, 1, 1},
    {"aten::linalg_vector_norm", 1, 0, 1, HUGE_VAL},
    {"aten::linalg_vector_norm", 2, 1, 1, 3},
};

static void reduce(void **state) {
    (void)state;
    for (int i = 0; more(i, 6000); i++) {
        reseed((uint64_t)i);
        size_t which = (size_t)pick(0, sizeof reductions / sizeof *reductions - 1);
        int64_t s[4], left[4], at[4] = {0};
        int32_t ndim = random_shape(0, 4, s);
        for (int32_t k = 0; k < ndim; k++) left[k] = coin() ? 1 : s[k]; /* keepdim */
        op_new(reductions[which].name);
        in_tensor(0, ndim, s);
        if (reductions[which].norm >= 0) in_float(1, reductions[which].norm);
        for (int32_t k = 0; k < reductions[which].results; k++) out_tensor(k, ndim, left);
        cells *x = cells_of(elements(ndim, s)), *y = cells_of(elements(ndim, left));
        bool begun[1024] = {false};
        if (x->n > 0) do {
                int64_t to[4];
                for (int32_t k = 0; k < ndim; k++) to[k] = left[k] == 1 ? 0 : at[k];
                int64_t j = offset_of(ndim, left, to), here = offset_of(ndim, s, at);
                double v = rd(x, here);
                for (int k = 0; k < reductions[which].before; k++) v = mul(v, v);
                if (begun[j]) v = add(v, y->v[j]);
                begun[j] = true;
                y->v[j] = v;
            } while (next_at(ndim, s, at));
        for (int64_t k = 0; k < y->n; k++)
            for (int r = 0; r < reductions[which].after; r++) (void)sqrt1(1);
        wr_all(y);
        if (reductions[which].results == 2) wr_all(cells_of(y->n));
        op_proves();
    }
}

/* Rows of a variance: the mean, the differences, the squares and their mean; a deviation is its root. */
static void variance(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 5), per = pick(1, 6);
        bool root = coin(), mean = coin();
        op_new(root ? (mean ? "aten::std_mean" : "aten::std") : mean ? "aten::var_mean" : "aten::var");
        cells *x = cells_of(rows * per);
        for (int64_t r = 0; r < rows; r++) {
            double sum = rd(x, r * per);
            for (int64_t k = 1; k < per; k++) sum = add(sum, rd(x, r * per + k));
            sum = dvd(sum, (double)per);
            double sq = 0;
            for (int64_t k = 0; k < per; k++) {
                double d = sub(x->v[r * per + k], sum), e = mul(d, d);
                sq = k ? add(sq, e) : e;
            }
            sq = dvd(sq, (double)per);
            if (root) (void)sqrt1(sq);
        }
        in_tensor(0, SIZES(rows, per));
        for (int32_t k = 0; k < 1 + mean; k++) {
            out_tensor(k, SIZES(rows));
            wr_all(cells_of(rows));
        }
        op_proves();
    }
}

static void scan(void **state) {
    (void)state;
    for (int i = 0; more(i, 2000); i++) {
        reseed((uint64_t)i);
        int64_t s[3];
        int32_t ndim = random_shape(1, 3, s), dim = (int32_t)pick(-ndim, ndim - 1);
        int64_t n = elements(ndim, s), len = s[dim < 0 ? dim + ndim : dim];
        op_new(coin() ? "aten::cumsum" : "aten::cumprod");
        in_tensor(0, ndim, s);
        in_int(1, dim);
        out_tensor(0, ndim, s);
        for (int64_t r = 0; len && r < n / len; r++)
            for (int64_t k = 1; k < len; k++) (void)add(1, 1);
        cells *x = cells_of(n), *y = cells_of(n);
        rd_all(x), wr_all(y);
        op_proves();
    }
}

static void losses(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 12), reduction = pick(0, 2);
        bool cross = coin();
        op_new(cross ? "aten::binary_cross_entropy" : "aten::mse_loss");
        cells *x = cells_of(n), *t = cells_of(n), *y = cells_of(reduction ? 1 : n);
        double sum = 0;
        for (int64_t k = 0; k < n; k++) {
            double a = rd(x, k), b = rd(t, k), d = cross ? 0 : sub(a, b);
            d = cross ? neg(add(mul(b, log1(a)), mul(sub(1, b), log1(sub(1, a))))) : mul(d, d);
            sum = !reduction || k == 0 ? d : add(sum, d);
        }
        if (reduction == 1) sum = dvd(sum, (double)n);
        wr_all(y);
        in_tensor(0, SIZES(n));
        in_tensor(1, SIZES(n));
        if (cross) in_none(2);
        in_int(cross ? 3 : 2, reduction);
        reduction ? out_tensor(0, 0, NULL) : out_tensor(0, SIZES(n));
        op_proves();
    }
    op_new("aten::nll_loss_forward");
    in_tensor(0, SIZES(4, 10));
    in_tensor(1, SIZES(4));
    in_none(2);
    in_int(3, 1);
    out_tensor(0, 0, NULL);
    out_tensor(1, 0, NULL);
    op_says(0, 4 + 3 + 1, 4 + 4 + 2);
}

/* -- agreement with `layers` --------------------------------------------------------------------------- */

/* Layers that are one operator: both conventions must give the same numbers for the same shape. */
static void layers_agree(void **state) {
    (void)state;
    static const struct {
        const char *layer, *op;
    } pairs[] = {
        {"ReLU", "aten::relu"},
        {"ReLU6", "aten::hardtanh"},
        {"Hardtanh", "aten::hardtanh_"},
        {"ELU", "aten::elu"},
        {"SELU", "aten::selu"},
        {"CELU", "aten::celu"},
        {"LeakyReLU", "aten::leaky_relu"},
        {"Sigmoid", "aten::sigmoid"},
        {"LogSigmoid", "aten::log_sigmoid_forward"},
        {"SiLU", "aten::silu"},
        {"Mish", "aten::mish"},
        {"Hardsigmoid", "aten::hardsigmoid"},
        {"Hardswish", "aten::hardswish_"},
        {"Tanh", "aten::tanh"},
        {"Hardshrink", "aten::hardshrink"},
        {"Softshrink", "aten::softshrink"},
        {"Softplus", "aten::softplus"},
        {"Threshold", "aten::threshold"},
        {"RReLU", "aten::rrelu_with_noise"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        layer l;
        lam_count want[LAM_N_METRICS];
        layer_new(&l, pairs[i].layer);
        takes(&l, SIZES(2, 3, 4));
        gives(&l, SIZES(2, 3, 4));
        layer_counts(&l, 0, NULL, want);
        op_new(pairs[i].op);
        in_tensor(0, SIZES(2, 3, 4));
        out_tensor(0, SIZES(2, 3, 4));
        op_says(want[LAM_MACS].n, want[LAM_FLOPS].n, want[LAM_DMAS].n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(element_by_element),
        cmocka_unit_test(arguments),
        cmocka_unit_test(gelu_gradients),
        cmocka_unit_test(reduce),
        cmocka_unit_test(variance),
        cmocka_unit_test(scan),
        cmocka_unit_test(losses),
        cmocka_unit_test(layers_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
