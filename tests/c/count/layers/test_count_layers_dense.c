/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for linear, bilinear, convolution and transposed convolution. */
#include "kit/oom.h"

#include "kit/layer_build.h"

static int64_t shape_[LAYER_NDIM];

/* `lead` random axes and then `last`. */
static const int64_t *leading(int32_t lead, int64_t last) {
    for (int32_t i = 0; i < lead; i++) shape_[i] = pick(0, 3);
    shape_[lead] = last;
    return shape_;
}

/* y_o = b_o + sum_i x_i w_oi */
static void linear_walk(int64_t rows, int64_t in, int64_t out, bool bias) {
    cells *x = cells_of(rows * in), *w = cells_of(out * in), *b = bias ? cells_of(out) : NULL,
          *y = cells_of(rows * out);
    if (rows == 0) { /* parameters are read all the same */
        rd_all(w);
        if (b) rd_all(b);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++) {
            double acc = b ? rd(b, o) : 0;
            for (int64_t i = 0; i < in; i++) acc = mac(acc, rd(x, r * in + i), rd(w, o * in + i));
            wr(y, r * out + o, acc);
        }
}

static void linear(void **state) {
    (void)state;
    for (int i = 0; more(i, 600); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t in = pick(1, 6), out = pick(1, 6), lead = pick(0, 4);
        bool bias = coin();
        layer_new(&l, coin() ? "Linear" : "NonDynamicallyQuantizableLinear");
        has_int(&l, "in_features", in);
        has_int(&l, "out_features", out);
        has_param(&l, "weight", SIZES(out, in));
        if (bias) has_param(&l, "bias", SIZES(out));
        const int64_t *x = leading((int32_t)lead, in);
        int64_t rows = elements((int32_t)lead, x);
        takes(&l, (int32_t)lead + 1, x);
        shape_[lead] = out;
        gives(&l, (int32_t)lead + 1, shape_);
        linear_walk(rows, in, out, bias);
        proves(&l);
    }
}

/* y_k = b_k + (x1^T A_k) x2, the vector x1^T A_k first. With `same`, both inputs are one tensor. */
static void bilinear_walk(int64_t rows, int64_t in1, int64_t in2, int64_t out, bool bias, bool same) {
    cells *x1 = cells_of(rows * in1), *x2 = same ? x1 : cells_of(rows * in2);
    cells *a = cells_of(out * in1 * in2), *b = bias ? cells_of(out) : NULL, *y = cells_of(rows * out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < out; k++) {
            double acc = b ? rd(b, k) : 0;
            for (int64_t j = 0; j < in2; j++) {
                double t = 0;
                for (int64_t i = 0; i < in1; i++)
                    t = mac(t, rd(x1, r * in1 + i), rd(a, (k * in1 + i) * in2 + j));
                acc = mac(acc, t, rd(x2, r * in2 + j));
            }
            wr(y, r * out + k, acc);
        }
}

static void bilinear(void **state) {
    (void)state;
    for (int i = 0; more(i, 400); i++) {
        reseed((uint64_t)i);
        layer l;
        bool bias = coin(), same = pick(0, 3) == 0;
        int64_t in1 = pick(1, 5), in2 = same ? in1 : pick(1, 5), out = pick(1, 5), rows = pick(1, 4),
                more = pick(1, 2);
        bool deep = coin();
        layer_new(&l, "Bilinear");
        has_int(&l, "in1_features", in1);
        has_int(&l, "in2_features", in2);
        has_int(&l, "out_features", out);
        has_param(&l, "weight", SIZES(out, in1, in2));
        if (bias) has_param(&l, "bias", SIZES(out));
        if (deep) {
            takes(&l, SIZES(rows, more, in1));
            takes(&l, SIZES(rows, more, in2));
            gives(&l, SIZES(rows, more, out));
        } else {
            takes(&l, SIZES(rows, in1));
            takes(&l, SIZES(rows, in2));
            gives(&l, SIZES(rows, out));
        }
        if (same) l.in[1].storage = l.in[0].storage;
        bilinear_walk(deep ? rows * more : rows, in1, in2, out, bias, same);
        proves(&l);
    }
}

/* -- convolution --------------------------------------------------------------------------------------- */

typedef struct conv {
    int32_t rank;
    bool batched, bias, same, valid;
    int64_t batch, ic, oc, groups;
    int64_t in[3], out[3], k[3], stride[3], pad[3], dil[3];
} conv;

static void random_conv(conv *c, bool transposed) {
    *c = (conv){.rank = (int32_t)pick(1, 3), .batched = coin(), .bias = coin(), .groups = pick(1, 3)};
    c->batch = c->batched ? pick(1, 3) : 1;
    c->ic = c->groups * pick(1, 3);
    c->oc = c->groups * pick(1, 3);
    c->same = !transposed && pick(0, 7) == 0;
    c->valid = !transposed && !c->same && pick(0, 7) == 0;
    for (int32_t i = 0; i < c->rank; i++) {
        c->k[i] = pick(1, 3);
        c->stride[i] = c->same ? 1 : pick(1, 4);
        c->dil[i] = pick(1, 3);
        c->pad[i] = c->same ? c->dil[i] * (c->k[i] - 1) / 2 : c->valid ? 0 : pick(0, 3);
        int64_t reach = c->dil[i] * (c->k[i] - 1) + 1, least = reach - 2 * c->pad[i];
        if (transposed) {
            do {
                c->in[i] = pick(1, 4);
                c->out[i] = (c->in[i] - 1) * c->stride[i] - 2 * c->pad[i] + reach;
            } while (c->out[i] < 1 && c->pad[i]-- >= 0);
            if (c->stride[i] > 1 && coin()) c->out[i]++; /* output_padding */
        } else {
            c->in[i] = c->same ? pick(1, 6) : pick(least > 1 ? least : 1, (least > 1 ? least : 1) + 4);
            c->out[i] = c->same ? c->in[i] : (c->in[i] + 2 * c->pad[i] - reach) / c->stride[i] + 1;
        }
    }
}

static void with_batch(const conv *c, int64_t channels, const int64_t *spatial, bool out, layer *l) {
    int64_t s[LAYER_NDIM];
    int32_t n = 0;
    if (c->batched) s[n++] = c->batch;
    s[n++] = channels;
    for (int32_t i = 0; i < c->rank; i++) s[n++] = spatial[i];
    if (out)
        gives(l, n, s);
    else
        takes(l, n, s);
}

static void conv_layer(layer *l, const conv *c, bool transposed) {
    static const char *const names[2][3] = {{"Conv1d", "Conv2d", "Conv3d"},
                                            {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"}};
    int64_t w[5] = {transposed ? c->ic : c->oc, (transposed ? c->oc : c->ic) / c->groups};
    for (int32_t i = 0; i < c->rank; i++) w[2 + i] = c->k[i];
    layer_new(l, names[transposed][c->rank - 1]);
    has_int(l, "in_channels", c->ic);
    has_int(l, "out_channels", c->oc);
    has_int(l, "groups", c->groups);
    has_ints(l, "kernel_size", c->rank, c->k);
    has_ints(l, "stride", c->rank, c->stride);
    has_ints(l, "dilation", c->rank, c->dil);
    if (c->same || c->valid)
        has_text(l, "padding", c->same ? "same" : "valid");
    else
        has_ints(l, "padding", c->rank, c->pad);
    has_text(l, "padding_mode", "zeros");
    has_param(l, "weight", c->rank + 2, w);
    if (c->bias) has_param(l, "bias", SIZES(c->oc));
    with_batch(c, c->ic, c->in, false, l);
    with_batch(c, c->oc, c->out, true, l);
}

/* One output element: its bias, and every tap of every input channel of its group. A tap beyond the edge is
 * multiplied with the padding's 0, which is read nowhere. */
static double conv_at(const conv *c, cells *x, cells *w, int64_t n, int64_t oc, const int64_t *o,
                      double acc) {
    int64_t per_group = c->ic / c->groups, first = oc / (c->oc / c->groups) * per_group;
    for (int64_t i = 0; i < per_group; i++) {
        int64_t t[3] = {0}, tap = 0, taps = elements(c->rank, c->k);
        do {
            int64_t at[3];
            for (int32_t d = 0; d < c->rank; d++) at[d] = o[d] * c->stride[d] - c->pad[d] + t[d] * c->dil[d];
            int64_t where = offset_of(c->rank, c->in, at), plane = elements(c->rank, c->in);
            double value = where < 0 ? 0 : rd(x, (n * c->ic + first + i) * plane + where);
            acc = mac(acc, rd(w, (oc * per_group + i) * taps + tap++), value);
        } while (next_at(c->rank, c->k, t));
    }
    return acc;
}

static void conv_walk(const conv *c) {
    int64_t in = elements(c->rank, c->in), out = elements(c->rank, c->out);
    cells *x = cells_of(c->batch * c->ic * in), *y = cells_of(c->batch * c->oc * out);
    cells *w = cells_of(c->oc * (c->ic / c->groups) * elements(c->rank, c->k)),
          *b = c->bias ? cells_of(c->oc) : NULL;
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t oc = 0; oc < c->oc; oc++) {
            int64_t o[3] = {0}, at = 0;
            do {
                double v = conv_at(c, x, w, n, oc, o, b ? rd(b, oc) : 0);
                wr(y, (n * c->oc + oc) * out + at++, v);
            } while (next_at(c->rank, c->out, o));
        }
}

static void convolution(void **state) {
    (void)state;
    for (int i = 0; more(i, 500); i++) {
        reseed((uint64_t)i);
        conv c;
        layer l;
        random_conv(&c, false);
        conv_layer(&l, &c, false);
        conv_walk(&c);
        proves(&l);
    }
}

/* Every input element times every tap into every output channel of its group; what falls outside is thrown
 * away. */
static void transposed_walk(const conv *c) {
    int64_t in = elements(c->rank, c->in), out = elements(c->rank, c->out), taps = elements(c->rank, c->k);
    int64_t per_group = c->oc / c->groups;
    cells *x = cells_of(c->batch * c->ic * in), *y = cells_of(c->batch * c->oc * out);
    cells *w = cells_of(c->ic * per_group * taps), *b = c->bias ? cells_of(c->oc) : NULL;
    if (b) rd_all(b);
    wr_all(y); /* the bias, or 0 */
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t ic = 0; ic < c->ic; ic++) {
            int64_t at[3] = {0}, from = 0;
            do {
                double v = rd(x, (n * c->ic + ic) * in + from++);
                for (int64_t j = 0; j < per_group; j++) {
                    int64_t t[3] = {0}, tap = 0, oc = ic / (c->ic / c->groups) * per_group + j;
                    do {
                        int64_t o[3];
                        for (int32_t d = 0; d < c->rank; d++)
                            o[d] = at[d] * c->stride[d] - c->pad[d] + t[d] * c->dil[d];
                        int64_t where = offset_of(c->rank, c->out, o), to = (n * c->oc + oc) * out + where;
                        double sum =
                            mac(where < 0 ? 0 : y->v[to], v, rd(w, (ic * per_group + j) * taps + tap++));
                        if (where >= 0) wr(y, to, sum);
                    } while (next_at(c->rank, c->k, t));
                }
            } while (next_at(c->rank, c->in, at));
        }
}

static void transposed_convolution(void **state) {
    (void)state;
    for (int i = 0; more(i, 400); i++) {
        reseed((uint64_t)i);
        conv c;
        layer l;
        random_conv(&c, true);
        conv_layer(&l, &c, true);
        transposed_walk(&c);
        proves(&l);
    }
}

/* Without channels of the input each element is its bias. */
static void convolution_of_nothing(void **state) {
    (void)state;
    layer l;
    layer_new(&l, "Conv1d");
    has_int(&l, "in_channels", 0);
    has_int(&l, "out_channels", 2);
    has_int(&l, "groups", 1);
    has_ints(&l, "kernel_size", SIZES(3));
    has_ints(&l, "stride", SIZES(1));
    has_ints(&l, "dilation", SIZES(1));
    has_ints(&l, "padding", SIZES(0));
    has_text(&l, "padding_mode", "zeros");
    has_param(&l, "weight", SIZES(2, 0, 3));
    has_param(&l, "bias", SIZES(2));
    takes(&l, SIZES(1, 0, 8));
    gives(&l, SIZES(1, 2, 6));
    cells *y = cells_of(12), *b = cells_of(2);
    for (int64_t i = 0; i < 12; i++) wr(y, i, rd(b, i / 6));
    proves(&l);
}

/* Padding that copies: where the windows reach every element by themselves the count is exact, else DMAs are
 * unknown. */
static void copied_padding(void **state) {
    (void)state;
    for (int stride = 1; stride <= 2; stride++) {
        layer l;
        layer_new(&l, "Conv1d");
        has_int(&l, "in_channels", 1);
        has_int(&l, "out_channels", 1);
        has_int(&l, "groups", 1);
        has_int(&l, "kernel_size", 1);
        has_int(&l, "stride", stride);
        has_int(&l, "padding", 1);
        has_int(&l, "dilation", 1);
        has_text(&l, "padding_mode", "reflect");
        has_param(&l, "weight", SIZES(1, 1, 1));
        takes(&l, SIZES(1, 1, 5));
        gives(&l, SIZES(1, 1, stride == 1 ? 7 : 4));
        is_unknown(&l, stride == 1 ? 0 : 1 << LAM_DMAS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear),
        cmocka_unit_test(bilinear),
        cmocka_unit_test(convolution),
        cmocka_unit_test(transposed_convolution),
        cmocka_unit_test(convolution_of_nothing),
        cmocka_unit_test(copied_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
