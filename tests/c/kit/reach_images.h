/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of images for made-up chains: convolutions, groups of channels, pixels and columns. */
#ifndef LAMINA_TEST_REACH_IMAGES_H
#define LAMINA_TEST_REACH_IMAGES_H

#include "kit/reach_tensors.h"

/* conv(x, w, b, stride, padding, dilation, transposed, output padding, groups) of the last axis of three. */
static struct { int64_t k, stride, pad, dil, transposed, groups; } conv_now;

static bool convolved(const chain *c, const int64_t *out, const int64_t *in) {
    int64_t from = conv_now.transposed ? in[2] : out[2], to = conv_now.transposed ? out[2] : in[2];
    if (out[0] != in[0] ||
        out[1] * conv_now.groups / c->now.sizes[1] != in[1] * conv_now.groups / c->was.sizes[1])
        return false;
    for (int64_t k = 0; k < conv_now.k; k++)
        if (from * conv_now.stride + k * conv_now.dil - conv_now.pad == to) return true;
    return false;
}

static bool conv(chain *c) {
    if (c->was.ndim != 3) return false;
    int64_t n = c->was.sizes[2], channels = c->was.sizes[1];
    conv_now.k = draw(1, 3);
    conv_now.stride = draw(1, 3);
    conv_now.pad = draw(0, 1);
    conv_now.dil = draw(1, 2);
    conv_now.transposed = draw(0, 1);
    conv_now.groups = channels % 2 == 0 && draw(0, 1) ? 2 : 1;
    int64_t reach = conv_now.dil * (conv_now.k - 1) + 1;
    c->now.sizes[2] = conv_now.transposed ? (n - 1) * conv_now.stride + reach - 2 * conv_now.pad
                                          : (n + 2 * conv_now.pad - reach) / conv_now.stride + 1;
    if (c->now.sizes[2] < 1 || n + 2 * conv_now.pad < reach) return false;
    const int64_t w[] = {channels, channels / conv_now.groups, conv_now.k};
    memcpy(c->ints[0], w, sizeof w);
    c->in[c->n_in++] = data_of(1, 1000, 1000, c->ints[0], 3);
    put_ints(c, 3, 1, conv_now.stride);
    put_ints(c, 4, 1, conv_now.pad);
    put_ints(c, 5, 1, conv_now.dil);
    c->in[c->n_in++] =
        (lam_op_arg){.position = 6, .ndim = -1, .value = {.type = LAM_BOOL, .i = conv_now.transposed}};
    put_int(c, 8, conv_now.groups);
    ran(c, "aten::convolution");
    carry(c, convolved);
    return true;
}

static bool in_groups(const chain *c, const int64_t *out, const int64_t *in) {
    return out[0] == in[0] && out[1] * by[0] / c->was.sizes[1] == in[1] * by[0] / c->was.sizes[1];
}

static bool group_norm(chain *c) {
    by[0] = draw(1, 2);
    if (c->was.ndim < 2 || c->was.sizes[1] % by[0]) return false;
    put_int(c, 1, by[0]);
    ran(c, "aten::group_norm");
    carry(c, in_groups);
    return true;
}

/* The pixels of one channel come from four, or go to four. */
static bool pixels(const chain *c, const int64_t *out, const int64_t *in) {
    bool up = c->now.sizes[2] > c->was.sizes[2];
    const int64_t *fine = up ? out : in, *coarse = up ? in : out;
    return out[0] == in[0] && fine[2] / 2 == coarse[2] && fine[3] / 2 == coarse[3] &&
           coarse[1] == fine[1] * 4 + fine[2] % 2 * 2 + fine[3] % 2;
}

static bool shuffle(chain *c) {
    bool up = draw(0, 1);
    int64_t *size = c->now.sizes;
    if (c->was.ndim != 4 || size[1] % (up ? 4 : 1) || (!up && (size[2] % 2 || size[3] % 2))) return false;
    size[1] = up ? size[1] / 4 : size[1] * 4;
    for (int32_t i = 2; i < 4; i++) size[i] = up ? size[i] * 2 : size[i] / 2;
    put_int(c, 1, 2);
    ran(c, up ? "aten::pixel_shuffle" : "aten::pixel_unshuffle");
    carry(c, pixels);
    return true;
}

static bool channels_shuffled(const chain *c, const int64_t *out, const int64_t *in) {
    int64_t half = c->was.sizes[1] / 2;
    for (int32_t i = 0; i < c->was.ndim; i++)
        if (i != 1 && in[i] != out[i]) return false;
    return out[1] == in[1] % half * 2 + in[1] / half;
}

static bool channel_shuffle(chain *c) {
    if (c->was.ndim < 3 || c->was.sizes[1] % 2) return false;
    put_int(c, 1, 2);
    ran(c, "aten::channel_shuffle");
    carry(c, channels_shuffled);
    return true;
}

/* Windows of im2col and col2im over the last two axes: kernel, stride and padding are the same along both. */
static struct { int64_t k, stride, pad, size[2], count[2]; } col_now;

static bool in_column(const int64_t *pixel, const int64_t *column) {
    int64_t k = column[1] % (col_now.k * col_now.k), at = column[2],
            channel = column[1] / (col_now.k * col_now.k);
    return pixel[0] == column[0] && pixel[1] == channel &&
           pixel[2] == at / col_now.count[1] * col_now.stride + k / col_now.k - col_now.pad &&
           pixel[3] == at % col_now.count[1] * col_now.stride + k % col_now.k - col_now.pad;
}

static bool to_columns(const chain *c, const int64_t *out, const int64_t *in) {
    (void)c;
    return in_column(in, out);
}

static bool from_columns(const chain *c, const int64_t *out, const int64_t *in) {
    (void)c;
    return in_column(out, in);
}

static void put_windows(chain *c, int32_t position) {
    put_ints(c, position, 2, col_now.k, col_now.k);
    put_ints(c, position + 1, 2, INT64_C(1), INT64_C(1));
    put_ints(c, position + 2, 2, col_now.pad, col_now.pad);
    put_ints(c, position + 3, 2, col_now.stride, col_now.stride);
}

/* Windows become columns, and these are added up again. */
static bool columns(chain *c) {
    if (c->was.ndim != 4) return false;
    tensor before = c->was;
    col_now.k = draw(1, 2);
    col_now.stride = draw(1, 2);
    col_now.pad = draw(0, 1);
    for (int32_t i = 0; i < 2; i++) {
        col_now.size[i] = before.sizes[2 + i];
        col_now.count[i] = (col_now.size[i] + 2 * col_now.pad - col_now.k) / col_now.stride + 1;
        if (col_now.size[i] + 2 * col_now.pad < col_now.k) return false;
    }
    c->now.ndim = 3;
    c->now.sizes[1] = before.sizes[1] * col_now.k * col_now.k;
    c->now.sizes[2] = col_now.count[0] * col_now.count[1];
    if (count(&c->now) > ELEMENTS) return false;
    put_windows(c, 1);
    ran(c, "aten::im2col");
    carry(c, to_columns);
    if (draw(0, 1)) return true;
    c->was = c->now;
    c->now.number++;
    c->n_in = 0;
    c->now.ndim = 4;
    memcpy(c->now.sizes, before.sizes, sizeof before.sizes);
    put_tensor(c, 0, &c->was);
    put_ints(c, 1, 2, col_now.size[0], col_now.size[1]);
    put_windows(c, 2);
    ran(c, "aten::col2im");
    carry(c, from_columns);
    return true;
}

#endif
