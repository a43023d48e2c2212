/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for activations, softmax and dropout. Cases of a formula are all computed and one is
 * chosen, as vectorised code does it. */
#include "kit/oom.h"

#include "kit/layer_build.h"

/* -- one value to one value ---------------------------------------------------------------------------- */

static double choose(bool first, double a, double b) { return first ? a : b; } /* part of the comparison */

static double relu(double x) { return max2(0, x); }
static double relu6(double x) { return min2(max2(0, x), 6); }
static double hardtanh(double x) { return min2(max2(x, -1), 1); }
static double threshold(double x) { return choose(less(0.1, x), x, 20); }
static double elu(double x) { return choose(less(0, x), x, mul(1.5, sub(exp1(x), 1))); }
static double selu(double x) { return mul(1.05, add(max2(0, x), min2(0, mul(1.67, sub(exp1(x), 1))))); }
static double celu(double x) { return add(max2(0, x), min2(0, mul(1.5, sub(exp1(dvd(x, 1.5)), 1)))); }
static double leaky(double x) { return choose(less(x, 0), mul(0.01, x), x); }
static double gelu(double x) { return mul(mul(0.5, x), add(1, erf1(dvd(x, 1.4142135623730951)))); }
static double gelu_tanh(double x) {
    double inner = add(x, mul(0.044715, mul(mul(x, x), x)));
    return mul(mul(0.5, x), add(1, tanh1(mul(0.7978845608028654, inner))));
}
static double log_sigmoid(double x) { return log1(sigmoid1(x)); }
static double silu(double x) { return mul(x, sigmoid1(x)); }
static double mish(double x) { return mul(x, tanh1(log1(add(1, exp1(x))))); }
static double hardsigmoid(double x) {
    double middle = add(dvd(x, 6), 0.5);
    bool low = less(x, -3), high = less(3, x);
    return choose(low, 0, choose(high, 1, middle));
}
static double hardswish(double x) {
    double middle = dvd(mul(x, add(x, 3)), 6);
    bool low = less(x, -3), high = less(3, x);
    return choose(low, 0, choose(high, x, middle));
}
static double tanhshrink(double x) { return sub(x, tanh1(x)); }
static double hardshrink(double x) {
    bool above = less(0.5, x), below = less(x, -0.5);
    return choose(above || below, x, 0);
}
static double softshrink(double x) {
    double lowered = sub(x, 0.5), raised = add(x, 0.5);
    bool above = less(0.5, x), below = less(x, -0.5);
    return choose(above, lowered, choose(below, raised, 0));
}
static double softplus(double x) {
    double scaled = mul(2.0, x);
    return choose(less(20, scaled), x, mul(0.5, log1(add(1, exp1(scaled)))));
}
static double softsign(double x) { return dvd(x, add(1, abs1(x))); }

static const struct {
    const char *word, *attribute, *value;
    double (*f)(double);
} activations[] = {
    {"ReLU", NULL, NULL, relu},
    {"ReLU6", NULL, NULL, relu6},
    {"Hardtanh", NULL, NULL, hardtanh},
    {"Threshold", NULL, NULL, threshold},
    {"ELU", NULL, NULL, elu},
    {"SELU", NULL, NULL, selu},
    {"CELU", NULL, NULL, celu},
    {"LeakyReLU", NULL, NULL, leaky},
    {"RReLU", NULL, NULL, leaky},
    {"GELU", "approximate", "none", gelu},
    {"GELU", NULL, NULL, gelu},
    {"GELU", "approximate", "tanh", gelu_tanh},
    {"Sigmoid", NULL, NULL, sigmoid1},
    {"LogSigmoid", NULL, NULL, log_sigmoid},
    {"SiLU", NULL, NULL, silu},
    {"Mish", NULL, NULL, mish},
    {"Hardsigmoid", NULL, NULL, hardsigmoid},
    {"Hardswish", NULL, NULL, hardswish},
    {"Tanh", NULL, NULL, tanh1},
    {"Tanhshrink", NULL, NULL, tanhshrink},
    {"Hardshrink", NULL, NULL, hardshrink},
    {"Softshrink", NULL, NULL, softshrink},
    {"Softplus", NULL, NULL, softplus},
    {"Softsign", NULL, NULL, softsign},
};
enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

static int32_t random_shape(int64_t *s, int32_t least) {
    int32_t n = (int32_t)pick(least, 4);
    for (int32_t i = 0; i < n; i++) s[i] = pick(pick(0, 9) ? 1 : 0, 5);
    return n;
}

static void elementwise(void **state) {
    (void)state;
    for (int i = 0; more(i, 40 * N_ACTIVATIONS); i++) {
        reseed((uint64_t)i);
        layer l;
        int which = i % N_ACTIVATIONS;
        int64_t s[LAYER_NDIM];
        int32_t ndim = random_shape(s, 0);
        layer_new(&l, activations[which].word);
        if (activations[which].attribute)
            has_text(&l, activations[which].attribute, activations[which].value);
        bool inplace = coin();
        has_bool(&l, "inplace", inplace);
        in_training(&l, coin());
        takes(&l, ndim, s);
        gives(&l, ndim, s);
        cells *x = cells_of(elements(ndim, s)), *y = inplace ? x : cells_of(x->n);
        for (int64_t k = 0; k < x->n; k++) wr(y, k, activations[which].f(rd(x, k)));
        proves(&l);
    }
}

static void prelu(void **state) {
    (void)state;
    for (int i = 0; more(i, 200); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t n = pick(1, 3), c = pick(1, 5), w = pick(1, 5), slopes = coin() ? 1 : c;
        layer_new(&l, "PReLU");
        has_int(&l, "num_parameters", slopes);
        has_param(&l, "weight", SIZES(slopes));
        takes(&l, SIZES(n, c, w));
        gives(&l, SIZES(n, c, w));
        cells *x = cells_of(n * c * w), *a = cells_of(slopes), *y = cells_of(x->n);
        for (int64_t k = 0; k < x->n; k++) {
            double v = rd(x, k), slope = rd(a, slopes == 1 ? 0 : k / w % c);
            wr(y, k, choose(less(v, 0), mul(slope, v), v));
        }
        proves(&l);
    }
}

static void identity(void **state) {
    (void)state;
    layer l;
    layer_new(&l, "Identity");
    takes(&l, SIZES(2, 3));
    gives(&l, SIZES(2, 3));
    l.out[0].storage = l.in[0].storage;
    proves(&l);
    layer_new(&l, "Sequential");
    takes(&l, SIZES(2, 3));
    gives(&l, SIZES(2, 3));
    proves(&l);
}

/* -- along an axis ------------------------------------------------------------------------------------- */

/* The axis in question splits a shape into what lies before it, itself and what lies behind. */
typedef struct along {
    int64_t before, n, behind;
} along;
static along split(int32_t ndim, const int64_t *s, int32_t axis) {
    return (along){elements(axis, s), ndim ? s[axis] : 1, ndim ? elements(ndim - axis - 1, s + axis + 1) : 1};
}

static void glu(void **state) {
    (void)state;
    for (int i = 0; more(i, 200); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t s[LAYER_NDIM];
        int32_t ndim = random_shape(s, 1), axis = (int32_t)pick(0, ndim - 1);
        int64_t half = s[axis];
        layer_new(&l, "GLU");
        has_int(&l, "dim", coin() ? axis : axis - ndim);
        s[axis] = 2 * half;
        takes(&l, ndim, s);
        along a = split(ndim, s, axis);
        cells *x = cells_of(elements(ndim, s)), *y = cells_of(x->n / 2);
        s[axis] = half;
        gives(&l, ndim, s);
        for (int64_t b = 0; b < a.before; b++)
            for (int64_t k = 0; k < half * a.behind; k++) {
                int64_t first = b * a.n * a.behind + k;
                wr(y, b * half * a.behind + k, mul(rd(x, first), sigmoid1(rd(x, first + half * a.behind))));
            }
        proves(&l);
    }
}

static void softmax_row(cells *x, cells *y, int64_t first, int64_t step, int64_t n, char how) {
    double e[8], sum = 0;
    for (int64_t k = 0; k < n; k++) {
        double v = rd(x, first + k * step);
        e[k] = exp1(how == '-' ? neg(v) : v);
        sum = k ? add(sum, e[k]) : e[k];
    }
    for (int64_t k = 0; k < n; k++) {
        double share = dvd(e[k], sum);
        wr(y, first + k * step, how == 'l' ? log1(share) : share);
    }
}

/* torch's choice where no axis was given: torch.nn.functional._get_softmax_dim. */
static int32_t legacy_axis(int32_t ndim) { return ndim == 0 || ndim == 1 || ndim == 3 ? 0 : 1; }

static void softmax(void **state) {
    (void)state;
    static const struct {
        const char *word;
        char how;
    } kinds[] = {{"Softmax", '+'}, {"Softmin", '-'}, {"LogSoftmax", 'l'}, {"Softmax2d", '+'}};
    for (int i = 0; more(i, 600); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t s[LAYER_NDIM], which = pick(0, 3);
        int32_t ndim = which == 3 ? (int32_t)pick(3, 4) : (int32_t)pick(0, 4);
        for (int32_t k = 0; k < ndim; k++) s[k] = pick(1, 5);
        int32_t axis = ndim ? (int32_t)pick(0, ndim - 1) : 0;
        layer_new(&l, kinds[which].word);
        if (which == 3) {
            axis = ndim - 3;
        } else if (coin()) {
            has_none(&l, "dim");
            axis = legacy_axis(ndim);
        } else {
            has_int(&l, "dim", coin() ? axis : axis - (ndim ? ndim : 1));
        }
        takes(&l, ndim, s);
        gives(&l, ndim, s);
        along a = split(ndim, s, axis);
        cells *x = cells_of(elements(ndim, s)), *y = cells_of(x->n);
        for (int64_t b = 0; b < a.before; b++)
            for (int64_t k = 0; k < a.behind; k++)
                softmax_row(x, y, b * a.n * a.behind + k, a.behind, a.n, kinds[which].how);
        proves(&l);
    }
}

/* -- dropout
 * ----------------------------------------------------------------------------------------------------------
 */

/* What torch does: a mask of zeros and ones, drawn for each element or each channel, made into a factor (for
 * alpha dropout also into a summand), then applied. */
static void drop(cells *x, cells *y, double p, bool alpha, int64_t same) {
    double factor = 0, summand = 0;
    for (int64_t k = 0; k < x->n; k++) {
        if (p >= 1) {
            wr(y, k, mul(rd(x, k), 0));
            continue;
        }
        if (k % same == 0) { /* a new mask */
            double mask = coin();
            factor = alpha ? mul(mask, 0.9) : dvd(mask, 1 - p);
            if (alpha) summand = add(mul(add(mask, -1), 1.6), 0.3);
        }
        double v = mul(rd(x, k), factor);
        wr(y, k, alpha ? add(v, summand) : v);
    }
}

/* Positions that share a mask: those behind the channel. Inputs of Dropout1d and 3d may lack the batch axis.
 */
static int64_t behind_channel(int32_t ndim, const int64_t *s, int64_t rank) {
    bool unbatched = (rank == 1 && ndim == 2) || (rank == 3 && ndim == 4);
    int32_t first = unbatched ? 1 : 2;
    return elements(ndim - first, s + first);
}

static void dropout(void **state) {
    (void)state;
    static const struct {
        const char *word;
        bool alpha;
        int64_t rank;
    } kinds[] = {{"Dropout", false, 0},   {"AlphaDropout", true, 0}, {"FeatureAlphaDropout", true, 9},
                 {"Dropout1d", false, 1}, {"Dropout2d", false, 2},   {"Dropout3d", false, 3}};
    for (int i = 0; more(i, 900); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t s[LAYER_NDIM], which = pick(0, 5), rank = kinds[which].rank;
        int32_t ndim = rank == 0   ? (int32_t)pick(0, 4)
                       : rank == 9 ? (int32_t)pick(2, 5)
                                   : (int32_t)(rank + pick(1, 2));
        for (int32_t k = 0; k < ndim; k++) s[k] = pick(1, 4);
        double p = pick(0, 3) == 0 ? 0 : pick(0, 3) == 0 ? 1 : 0.25;
        bool training = pick(0, 3) != 0, inplace = coin();
        layer_new(&l, kinds[which].word);
        if (p == 0 || p == 1) {
            if (coin())
                has_int(&l, "p", (int64_t)p);
            else
                has_float(&l, "p", p);
        } else {
            has_float(&l, "p", p);
        }
        has_bool(&l, "inplace", inplace);
        in_training(&l, training);
        takes(&l, ndim, s);
        gives(&l, ndim, s);
        cells *x = cells_of(elements(ndim, s)), *y = inplace ? x : cells_of(x->n);
        if (training && p > 0) drop(x, y, p, kinds[which].alpha, rank ? behind_channel(ndim, s, rank) : 1);
        proves(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise), cmocka_unit_test(prelu),   cmocka_unit_test(identity),
        cmocka_unit_test(glu),         cmocka_unit_test(softmax), cmocka_unit_test(dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
