/* SPDX-License-Identifier: Apache-2.0
 * Rules of shapes: convolutions, pools and what else slides a window, resizing, products of matrices,
 * recurrent layers, attention. */
#include "read/onnx/infer.h"
#include "vocab/vocab.h"

#include <math.h>

/* -- windows -------------------------------------------------------------------------------------------- */

/* A window along one axis. */
typedef struct lmi_window_axis {
    int64_t size, kernel, stride, dilation, before, after;
} lmi_window_axis;

static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* How many windows there are. Numbers that are out of all range give -1. */
static int64_t windows(const lmi_window_axis *w, bool up, bool same) {
    const int64_t most = INT64_C(1) << 40;
    if (w->size < 0 || w->stride < 1 || w->size > most || w->stride > most) return -1;
    if (same) return ceil_div(w->size, w->stride);
    if (w->kernel < 1 || w->dilation < 1 || w->kernel > most || w->dilation > most / w->kernel) return -1;
    if (w->before < -most || w->before > most || w->after < -most || w->after > most) return -1;
    int64_t room = w->size + w->before + w->after - ((w->kernel - 1) * w->dilation + 1);
    if (room < 0) return -1;
    int64_t n = (up ? ceil_div(room, w->stride) : room / w->stride) + 1;
    if (up && (n - 1) * w->stride >= w->size + w->before) n--; /* a window has to begin inside of the input */
    return n;
}

static bool is_same(const lmi_node_at *s) {
    return lmi_attr_is(s, "auto_pad", "SAME_UPPER") || lmi_attr_is(s, "auto_pad", "SAME_LOWER");
}

/* The window of axis i of `rank`, by the node's attributes. */
static lmi_window_axis window_of(const lmi_node_at *s, int32_t i, int32_t rank, int64_t size,
                                 int64_t kernel) {
    bool none = lmi_attr_is(s, "auto_pad", "VALID");
    return (lmi_window_axis){.size = size,
                             .kernel = lmi_nth(s, "kernel_shape", i, kernel),
                             .stride = lmi_nth(s, "strides", i, 1),
                             .dilation = lmi_nth(s, "dilations", i, 1),
                             .before = none ? 0 : lmi_nth(s, "pads", i, 0),
                             .after = none ? 0 : lmi_nth(s, "pads", rank + i, 0)};
}

/* Whether the channels are the last axis; else they are the second. */
static bool channels_last(const lmi_node_at *s) {
    return lmi_onnx_int(s->n, "channels_last", 0) != 0 || strncmp(s->n->op, "Nhwc", 4) == 0;
}

void lmi_infer_conv(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *w = lmi_arg(s, 1);
    if (!x || x->ndim < 3) return;
    int32_t rank = x->ndim - 2;
    bool last = channels_last(s), weight = w && w->ndim == x->ndim;
    lmi_shape to = {.ndim = x->ndim};
    to.at[0] = x->sizes[0];
    to.at[last ? x->ndim - 1 : 1] = weight ? w->sizes[0] : -1;
    for (int32_t i = 0; i < rank; i++) {
        int32_t at = (last ? 1 : 2) + i;
        lmi_window_axis a = window_of(s, i, rank, x->sizes[at], weight && !last ? w->sizes[2 + i] : -1);
        to.at[at] = windows(&a, false, is_same(s));
    }
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_pool(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x || x->ndim < 3) return;
    int32_t rank = x->ndim - 2;
    bool last = channels_last(s), up = lmi_onnx_int(s->n, "ceil_mode", 0) != 0;
    lmi_shape to = {.ndim = x->ndim};
    to.at[0] = x->sizes[0];
    to.at[last ? x->ndim - 1 : 1] = x->sizes[last ? x->ndim - 1 : 1];
    for (int32_t i = 0; i < rank; i++) {
        int32_t at = (last ? 1 : 2) + i;
        lmi_window_axis a = window_of(s, i, rank, x->sizes[at], -1);
        to.at[at] = windows(&a, up, is_same(s));
    }
    for (int32_t k = 0; k < s->n->n_out; k++) lmi_set(s, k, to.ndim, to.at);
}

/* The places that a transposed convolution, or an unpooling, makes of `a`. */
static int64_t spread(const lmi_window_axis *a, int64_t more) {
    const int64_t most = INT64_C(1) << 30;
    if (a->size < 0 || a->size > most || a->stride < 1 || a->stride > most || a->kernel < 1 ||
        a->kernel > most || a->dilation < 1 || a->dilation > most || more < 0 || more > most ||
        a->before < -most || a->before > most || a->after < -most || a->after > most)
        return -1;
    int64_t n = a->stride * (a->size - 1) + more + (a->kernel - 1) * a->dilation + 1 - a->before - a->after;
    return n < 0 ? -1 : n;
}

void lmi_infer_conv_transpose(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *w = lmi_arg(s, 1);
    if (!x || x->ndim < 3) return;
    int32_t rank = x->ndim - 2;
    bool weight = w && w->ndim == x->ndim;
    lmi_shape to = {.ndim = x->ndim};
    lmi_ints want = lmi_list(s, "output_shape", -1);
    bool moving = lmi_n_args(s) > 2;
    lmi_ints pads = {0};
    if (moving) pads = lmi_list(s, NULL, 2);
    to.at[0] = x->sizes[0];
    to.at[1] = weight ? lmi_size_times(w->sizes[1], lmi_onnx_int(s->n, "group", 1)) : -1;
    for (int32_t i = 0; i < rank; i++) {
        lmi_window_axis a = window_of(s, i, rank, x->sizes[2 + i], weight ? w->sizes[2 + i] : -1);
        if (want.given && want.n >= rank)
            to.at[2 + i] = want.at[want.n - rank + i];
        else if (is_same(s))
            to.at[2 + i] = lmi_size_times(a.size, a.stride);
        else if (moving && (!pads.all || pads.n != 2 * rank))
            to.at[2 + i] = -1;
        else {
            if (moving) a.before = pads.at[i], a.after = pads.at[rank + i];
            to.at[2 + i] = spread(&a, lmi_nth(s, "output_padding", i, 0));
        }
    }
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_max_unpool(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    lmi_ints want = lmi_list(s, NULL, 2);
    if (!x || x->ndim < 3) return;
    lmi_shape to = {.ndim = x->ndim};
    to.at[0] = x->sizes[0];
    to.at[1] = x->sizes[1];
    for (int32_t i = 0; i < x->ndim - 2; i++) {
        lmi_window_axis a = window_of(s, i, x->ndim - 2, x->sizes[2 + i], -1);
        to.at[2 + i] = spread(&a, 0);
    }
    if (!want.given)
        lmi_set(s, 0, to.ndim, to.at);
    else if (want.all && want.n == x->ndim)
        lmi_set(s, 0, x->ndim, want.at);
    else
        lmi_set_axes(s, 0, x->ndim);
}

void lmi_infer_col2im(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    lmi_ints image = lmi_list(s, NULL, 1), block = lmi_list(s, NULL, 2);
    if (!x || x->ndim != 3 || image.n < 0 || image.n + 2 > LMI_ONNX_MOST_AXES) return;
    lmi_shape to = {.ndim = image.n + 2};
    int64_t each = block.all ? lmi_size_all(block.at, block.n) : -1;
    to.at[0] = x->sizes[0];
    to.at[1] = each > 0 && x->sizes[1] >= 0 ? x->sizes[1] / each : -1;
    for (int32_t i = 0; i < image.n; i++) to.at[2 + i] = image.known[i] ? image.at[i] : -1;
    lmi_set(s, 0, to.ndim, to.at);
}

/* Regions of an image: one result a region, of the wanted height and width. */
static void regions(lmi_node_at *s, int64_t height, int64_t width) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *rois = lmi_arg(s, 1);
    int64_t sizes[] = {rois && rois->ndim == 2 ? rois->sizes[0] : -1, x && x->ndim == 4 ? x->sizes[1] : -1,
                       height, width};
    lmi_set(s, 0, 4, sizes);
}

void lmi_infer_roi_align(lmi_node_at *s) {
    regions(s, lmi_onnx_int(s->n, "output_height", 1), lmi_onnx_int(s->n, "output_width", 1));
}

void lmi_infer_roi_pool(lmi_node_at *s) {
    regions(s, lmi_nth(s, "pooled_shape", 0, -1), lmi_nth(s, "pooled_shape", 1, -1));
}

void lmi_infer_crop_and_resize(lmi_node_at *s) {
    lmi_ints size = lmi_list(s, NULL, 3);
    regions(s, size.n == 2 && size.known[0] ? size.at[0] : -1,
            size.n == 2 && size.known[1] ? size.at[1] : -1);
}

/* The places of a grid, whose last axis holds coordinates, with the channels of the first argument. */
void lmi_infer_grid_sample(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *grid = lmi_arg(s, 1);
    if (!x || x->ndim < 3) return;
    lmi_shape to = {.ndim = x->ndim};
    for (int32_t i = 0; i < x->ndim; i++)
        to.at[i] = i < 2 ? x->sizes[i] : grid && grid->ndim == x->ndim ? grid->sizes[i - 1] : -1;
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_affine_grid(lmi_node_at *s) {
    lmi_ints size = lmi_list(s, NULL, 1);
    if (size.n != 4 && size.n != 5) return;
    lmi_shape to = {.ndim = size.n};
    for (int32_t i = 0; i < size.n - 1; i++) {
        int32_t from = i ? i + 1 : 0;
        to.at[i] = size.known[from] ? size.at[from] : -1;
    }
    to.at[size.n - 1] = size.n - 2;
    lmi_set(s, 0, to.ndim, to.at);
}

/* -- resizing -------------------------------------------------------------------------------------------- */

/* By the smallest or largest of the factors that the wanted sizes are of the axes' sizes. */
static void keep_ratio(lmi_shape *to, const int64_t *axes, int32_t n, const lmi_ints *want, bool larger) {
    double factor = larger ? 0 : INFINITY;
    for (int32_t i = 0; i < n; i++) {
        int64_t size = to->at[axes[i]];
        double f = size > 0 && want->known[i] ? (double)want->at[i] / (double)size : NAN;
        factor = isnan(f) || isnan(factor) ? NAN : larger ? fmax(factor, f) : fmin(factor, f);
    }
    for (int32_t i = 0; i < n; i++) {
        int64_t *at = &to->at[axes[i]];
        double size = floor((double)*at * factor + 0.5);
        *at = *at >= 0 && size >= 0 && size < 0x1p53 ? (int64_t)size : -1;
    }
}

/* By factors, in the precision of float, as the definition computes it. */
static void scale(lmi_node_at *s, lmi_shape *to, const int64_t *axes, int32_t n, const lmi_onnx_value *by) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "scales");
    int64_t n_by = -1;
    const lmi_cell *cells =
        by && lmi_few(by, &n_by) && by->type == LMI_ONNX_FLOAT ? lmi_cells(s->all, by) : NULL;
    bool old = !by && a && a->type == 6 && a->n == n;
    bool cropped = lmi_attr_is(s, "coordinate_transformation_mode", "tf_crop_and_resize");
    for (int32_t i = 0; i < n; i++) {
        int64_t *at = &to->at[axes[i]];
        double f = old ? (double)a->floats[i] : cells && n_by == n && cells[i].known ? cells[i].f : NAN;
        float size = floorf((float)*at * (float)f);
        *at = *at >= 0 && !cropped && size >= 0 && size < 0x1p53F ? (int64_t)size : -1;
    }
}

void lmi_infer_resize(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *by, *sizes;
    bool early = strcmp(s->n->op, "Upsample") == 0 || (s->n->opset && s->n->opset < 11);
    if (!x) return;
    by = lmi_onnx_in(s->all->m, s->n, early ? 1 : 2);
    sizes = early ? NULL : lmi_onnx_in(s->all->m, s->n, 3);
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    lmi_ints list = lmi_list(s, "axes", -1), want = lmi_list(s, NULL, early ? -1 : 3);
    int64_t axes[LMI_ONNX_MOST_AXES] = {0};
    int32_t n = list.given ? list.n : x->ndim;
    if (n < 0 || n > x->ndim) return;
    for (int32_t i = 0; i < n; i++) {
        axes[i] = list.given ? list.at[i] : i;
        if (!lmi_axis_of(&axes[i], x->ndim)) return;
    }
    if (sizes && !(sizes->ndim == 1 && sizes->sizes[0] == 0)) {
        if (want.n != n) lmi_set_axes(s, 0, x->ndim);
        bool larger = lmi_attr_is(s, "keep_aspect_ratio_policy", "not_smaller");
        if (want.n != n) return;
        if (larger || lmi_attr_is(s, "keep_aspect_ratio_policy", "not_larger"))
            keep_ratio(&to, axes, n, &want, larger);
        else
            for (int32_t i = 0; i < n; i++) to.at[axes[i]] = want.known[i] ? want.at[i] : -1;
    } else
        scale(s, &to, axes, n, by);
    lmi_set(s, 0, to.ndim, to.at);
}

/* -- channels in blocks ----------------------------------------------------------------------------------
 *
 * ONNX Runtime's convolutions of com.microsoft.nchwc have 8 or 16 channels side by side, as the machine wants
 * that wrote the file. The axes are in the order of NCHW, and the channels are padded to whole blocks. */

enum {
    LEAST_BLOCK = 8,
    MOST_BLOCK = 16,
    NEAR = 64 /* nodes behind one, in which who reads it is looked for */
};

/* The channels that a convolution near behind the node takes of it; -1: there is none, or it is not known. */
static int64_t taken_channels(const lmi_node_at *s) {
    const lmi_onnx_model *m = s->all->m;
    const int32_t at = (int32_t)(s->n - lmi_onnx_node_at(m, 0));
    for (int32_t i = at + 1; s->n->n_out > 0 && i < (int32_t)m->nodes.n && i <= at + NEAR; i++) {
        const lmi_onnx_node *n = lmi_onnx_node_at(m, i);
        const lmi_onnx_value *w = lmi_onnx_in(m, n, 1);
        if (!w || n->in[0] != s->n->out[0] || strcmp(n->op, "Conv") != 0) continue;
        return w->ndim == 4 ? lmi_size_times(w->sizes[1], lmi_onnx_int(n, "group", 1)) : -1;
    }
    return -1;
}

static int64_t blocks_of(int64_t channels, int64_t block) {
    return channels < 0 || channels > INT32_MAX ? -1 : ceil_div(channels, block) * block;
}

void lmi_infer_to_blocks(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x || x->ndim < 3) return;
    const bool last = channels_last(s);
    const int64_t channels = x->sizes[last ? x->ndim - 1 : 1], padded = blocks_of(channels, MOST_BLOCK);
    lmi_shape to = {.ndim = x->ndim};
    to.at[0] = x->sizes[0];
    to.at[1] = blocks_of(channels, LEAST_BLOCK) == padded ? padded : taken_channels(s);
    for (int32_t i = 2; i < x->ndim; i++) to.at[i] = x->sizes[last ? i - 1 : i];
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_from_blocks(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x || x->ndim < 3) return;
    const bool last = channels_last(s);
    lmi_shape to = {.ndim = x->ndim};
    to.at[0] = x->sizes[0];
    to.at[last ? x->ndim - 1 : 1] = lmi_onnx_int(s->n, "channels", -1);
    for (int32_t i = 2; i < x->ndim; i++) to.at[last ? i - 1 : i] = x->sizes[i];
    lmi_set(s, 0, to.ndim, to.at);
}

/* By whole numbers, one for each axis. */
void lmi_infer_upsample_blocks(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x) return;
    lmi_shape to = {.ndim = x->ndim};
    for (int32_t i = 0; i < x->ndim; i++) to.at[i] = lmi_size_times(x->sizes[i], lmi_nth(s, "scales", i, 1));
    lmi_set(s, 0, to.ndim, to.at);
}

/* -- products ------------------------------------------------------------------------------------------- */

/* The product of the last two axes of a and b, either transposed; the others are broadcast. */
static void product(lmi_node_at *s, bool flip_a, bool flip_b) {
    const lmi_onnx_value *a = lmi_shaped(s, 0), *b = lmi_shaped(s, 1);
    if (!a || !b || a->ndim < 1 || b->ndim < 1) return;
    lmi_shape to = {0};
    if (!lmi_broadcast(&to, a->ndim > 2 ? a->ndim - 2 : 0, a->sizes) ||
        !lmi_broadcast(&to, b->ndim > 2 ? b->ndim - 2 : 0, b->sizes)) {
        lmi_contradict(s);
        return;
    }
    const int64_t in_a = a->sizes[a->ndim > 1 && flip_a ? a->ndim - 2 : a->ndim - 1];
    const int64_t in_b = b->sizes[b->ndim > 1 && !flip_b ? b->ndim - 2 : b->ndim - 1];
    if (in_a >= 0 && in_b >= 0 && in_a != in_b) {
        lmi_contradict(s);
        return;
    }
    if (a->ndim > 1) to.at[to.ndim++] = a->sizes[a->ndim - (flip_a ? 1 : 2)];
    if (b->ndim > 1) to.at[to.ndim++] = b->sizes[b->ndim - (flip_b ? 2 : 1)];
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_matmul(lmi_node_at *s) {
    if (lmi_onnx_int(s->n, "transBatchA", 0) || lmi_onnx_int(s->n, "transBatchB", 0)) return;
    product(s, lmi_onnx_int(s->n, "transA", 0) != 0, lmi_onnx_int(s->n, "transB", 0) != 0);
}

void lmi_infer_gemm(lmi_node_at *s) {
    const lmi_onnx_value *a = lmi_arg(s, 0), *b = lmi_arg(s, 1);
    const bool flip_a = lmi_onnx_int(s->n, "transA", 0) != 0, flip_b = lmi_onnx_int(s->n, "transB", 0) != 0;
    int64_t sizes[] = {-1, -1};
    if (a && a->ndim == 2) sizes[0] = a->sizes[flip_a];
    if (b && b->ndim == 2) sizes[1] = b->sizes[!flip_b];
    if (a && b && a->ndim == 2 && b->ndim == 2) {
        const int64_t in_a = a->sizes[!flip_a], in_b = b->sizes[flip_b];
        if (in_a >= 0 && in_b >= 0 && in_a != in_b) lmi_contradict(s);
    }
    if (!s->wrong) lmi_set(s, 0, 2, sizes);
}

/* The axes of the first argument, whose last becomes the attribute N. */
void lmi_infer_matmul_packed(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x || x->ndim < 1) return;
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    to.at[x->ndim - 1] = lmi_onnx_int(s->n, "N", -1);
    lmi_set(s, 0, to.ndim, to.at);
}

/* -- einsum ---------------------------------------------------------------------------------------------- */

void lmi_infer_einsum(lmi_node_at *s) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "equation");
    int64_t size[LMI_EINSUM_LABELS], to[LMI_EINSUM_AXES];
    uint8_t labels[LMI_EINSUM_AXES];
    int32_t dots = 0;
    lmi_einsum e;
    if (!a || !a->s || !lmi_einsum_read(a->s, &e) || e.n != s->n->n_in) return;
    for (int32_t i = 0; i < LMI_EINSUM_LABELS; i++) size[i] = 1;
    for (int32_t i = 0; i < e.n; i++) {
        const lmi_onnx_value *x = lmi_shaped(s, i);
        if (!x || !lmi_einsum_label(&e.term[i], x->ndim, labels)) return;
        if (x->ndim - e.term[i].n > dots) dots = x->ndim - e.term[i].n;
        for (int32_t k = 0; k < x->ndim; k++)
            if (!lmi_broadcast_size(&size[labels[k]], x->sizes[k])) return;
    }
    const int32_t ndim = e.result.n + (e.result.dots < 0 ? 0 : dots);
    if (!lmi_einsum_label(&e.result, ndim, labels)) return;
    for (int32_t k = 0; k < ndim; k++) to[k] = size[labels[k]];
    lmi_set(s, 0, ndim, to);
}

/* -- recurrent layers ------------------------------------------------------------------------------------ */

/* LSTM, GRU, RNN: all steps, then the last states. `hidden` from the attribute, or an axis of the weights. */
static void recurrent(lmi_node_at *s, int32_t hidden_axis) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *w = lmi_arg(s, 1), *r = lmi_arg(s, 2);
    if (!x || x->ndim != 3) return;
    bool batch_first = lmi_onnx_int(s->n, "layout", 0) != 0;
    int64_t hidden = lmi_onnx_int(s->n, "hidden_size", r && r->ndim == 3 ? r->sizes[hidden_axis] : -1);
    int64_t ways = lmi_attr_is(s, "direction", "bidirectional") ? 2 : w && w->ndim == 3 ? w->sizes[0] : 1;
    int64_t steps = x->sizes[batch_first ? 1 : 0], batch = x->sizes[batch_first ? 0 : 1];
    const int64_t all[2][4] = {{steps, ways, batch, hidden}, {batch, steps, ways, hidden}};
    const int64_t last[2][3] = {{ways, batch, hidden}, {batch, ways, hidden}};
    lmi_set(s, 0, 4, all[batch_first]);
    lmi_set(s, 1, 3, last[batch_first]);
    lmi_set(s, 2, 3, last[batch_first]);
}

void lmi_infer_recurrent(lmi_node_at *s) { recurrent(s, 2); }

void lmi_infer_quantized_lstm(lmi_node_at *s) { recurrent(s, 1); }

/* -- attention ------------------------------------------------------------------------------------------- */

/* One of query, key and value: with heads as an axis (4), or inside of the last (3). */
typedef struct lmi_heads {
    int64_t batch, heads, steps, each;
} lmi_heads;

static bool heads_of(const lmi_onnx_value *x, int64_t heads, lmi_heads *out) {
    *out = (lmi_heads){-1, heads, -1, -1};
    if (!x || (x->ndim != 3 && x->ndim != 4)) return false;
    const int64_t *d = x->sizes;
    if (x->ndim == 4)
        *out = (lmi_heads){d[0], d[1], d[2], d[3]};
    else
        *out = (lmi_heads){d[0], heads, d[1], heads > 0 && d[2] >= 0 ? d[2] / heads : -1};
    return true;
}

void lmi_infer_attention(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *past = lmi_arg(s, 3);
    int64_t n = lmi_onnx_int(s->n, "q_num_heads", -1);
    lmi_heads q, k, v;
    if (!heads_of(x, n, &q)) return;
    heads_of(lmi_arg(s, 1), lmi_onnx_int(s->n, "kv_num_heads", n), &k);
    heads_of(lmi_arg(s, 2), lmi_onnx_int(s->n, "kv_num_heads", n), &v);
    int64_t before = !past ? 0 : past->ndim == 4 ? past->sizes[2] : -1;
    int64_t steps = lmi_plus(k.steps, before);
    const int64_t y4[] = {q.batch, q.heads, q.steps, v.each};
    const int64_t y3[] = {q.batch, q.steps, lmi_size_times(q.heads, v.each)};
    const int64_t key[] = {q.batch, k.heads, steps, k.each}, value[] = {q.batch, v.heads, steps, v.each};
    const int64_t scores[] = {q.batch, q.heads, q.steps, steps};
    lmi_set(s, 0, x->ndim, x->ndim == 4 ? y4 : y3);
    lmi_set(s, 1, 4, key);
    lmi_set(s, 2, 4, value);
    lmi_set(s, 3, 4, scores);
}

void lmi_infer_linear_attention(lmi_node_at *s) {
    int64_t n_q = lmi_onnx_int(s->n, "q_num_heads", -1), n = lmi_onnx_int(s->n, "kv_num_heads", -1);
    lmi_heads q, k, v;
    if (!heads_of(lmi_shaped(s, 0), n_q, &q)) return;
    heads_of(lmi_arg(s, 1), n, &k);
    heads_of(lmi_arg(s, 2), n, &v);
    const int64_t y[] = {q.batch, q.steps, lmi_size_times(n_q > n ? n_q : n, v.each)};
    const int64_t states = lmi_onnx_int(s->n, "state_window", 0);
    const int64_t state[] = {states, q.batch, n, k.each, v.each};
    lmi_set(s, 0, 3, y);
    lmi_set(s, 1, states ? 5 : 4, states ? state : state + 1);
}

void lmi_infer_causal_conv(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *w = lmi_arg(s, 1);
    if (!x || x->ndim != 3 || lmi_onnx_int(s->n, "channels_last", 0)) return;
    int64_t k = w && w->ndim == 3 ? w->sizes[2] : -1, dilation = lmi_onnx_int(s->n, "dilation", 1);
    const int64_t state[] = {x->sizes[0], x->sizes[1], k > 0 ? lmi_size_times(k - 1, dilation) : -1};
    lmi_set_as(s, 0, x);
    if (lmi_onnx_int(s->n, "state_window", 0) || lmi_onnx_int(s->n, "state_length", 0) ||
        lmi_onnx_int(s->n, "state_channels_last", -1) > 0)
        return;
    lmi_set(s, 1, 3, state);
}

/* Positions that a cache holds before the node runs: those of its axis or, where the node writes into a cache
 * that is longer, those that an argument tells. */
static int64_t past_of(lmi_node_at *s, const lmi_onnx_value *past, int32_t ndim, int32_t told) {
    int64_t n = -1;
    if (told >= 0) return lmi_one(s, NULL, told, -1, &n) ? n : -1;
    return !past ? 0 : past->ndim == ndim ? past->sizes[ndim - 2] : -1;
}

/* Attention of com.microsoft, which multiplies by its weights itself: input, weights, bias, past. */
void lmi_infer_packed_attention(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *w = lmi_arg(s, 1), *past = lmi_arg(s, 2);
    if (!x || x->ndim != 3) return;
    const bool shared = lmi_onnx_int(s->n, "past_present_share_buffer", 0) != 0;
    int64_t third = w && w->ndim == 2 && w->sizes[1] >= 0 ? w->sizes[1] / 3 : -1;
    int64_t wide = lmi_nth(s, "qkv_hidden_sizes", 2, third), n = lmi_onnx_int(s->n, "num_heads", -1);
    const int64_t y[] = {x->sizes[0], x->sizes[1], wide};
    lmi_set(s, 0, 3, y);
    if (shared) {
        lmi_set_as(s, 1, past);
        return;
    }
    if (lmi_onnx_attr(s->n, "qkv_hidden_sizes")) return; /* heads of two widths in one tensor */
    const int64_t present[] = {2, x->sizes[0], n, lmi_plus(x->sizes[1], past_of(s, past, 5, -1)),
                               n > 0 && wide >= 0 ? wide / n : -1};
    lmi_set(s, 1, 5, present);
}

/* (batch, steps, heads, parts, width): several in one tensor. */
static bool several_of(const lmi_onnx_value *x, lmi_heads *out) {
    if (x->ndim != 5) return false;
    *out = (lmi_heads){x->sizes[0], x->sizes[2], x->sizes[1], x->sizes[4]};
    return true;
}

/* The query, key and value of MultiHeadAttention: each for itself, or the latter two or all three in one. */
static bool three_of(const lmi_onnx_value *q, const lmi_onnx_value *k, const lmi_onnx_value *v, int64_t n,
                     lmi_heads of[3]) {
    if (!k) {
        if (!several_of(q, &of[0])) return false;
        of[1] = of[2] = of[0];
        return true;
    }
    if (q->ndim != 3 || !heads_of(q, n, &of[0])) return false;
    if (v) return heads_of(k, n, &of[1]) && heads_of(v, n, &of[2]);
    if (!several_of(k, &of[1])) return false;
    of[2] = of[1];
    return true;
}

/* MultiHeadAttention: query, key, value, past key. */
void lmi_infer_multi_head(lmi_node_at *s) {
    const lmi_onnx_value *q = lmi_shaped(s, 0), *past = lmi_arg(s, 3);
    const bool shared = lmi_onnx_in(s->all->m, s->n, 8) != NULL;
    const int64_t n = lmi_onnx_int(s->n, "num_heads", -1);
    lmi_heads of[3];
    if (!q || !three_of(q, lmi_arg(s, 1), lmi_arg(s, 2), n, of)) return;
    const lmi_onnx_value *v = lmi_arg(s, 2);
    const bool twice = past && v && v->ndim == 4; /* two caches: their sum is unknown */
    const int64_t before = twice ? -1 : past_of(s, past, 4, shared ? 8 : -1);
    const int64_t steps = lmi_plus(of[2].steps, before);
    const int64_t room = !shared ? steps : past && past->ndim == 4 ? past->sizes[2] : -1;
    const int64_t y[] = {of[0].batch, of[0].steps, lmi_size_times(n, of[2].each)};
    const int64_t key[] = {of[0].batch, n, room, of[0].each}, value[] = {of[0].batch, n, room, of[2].each};
    const int64_t scores[] = {of[0].batch, n, of[0].steps, steps};
    lmi_set(s, 0, 3, y);
    if (lmi_onnx_int(s->n, "past_present_share_buffer", 0)) return; /* of older versions */
    lmi_set(s, 1, 4, key);
    lmi_set(s, 2, 4, value);
    lmi_set(s, 3, 4, scores);
}

/* The same inside of a decoder, whose caches it writes into. */
void lmi_infer_masked_multi_head(lmi_node_at *s) {
    const lmi_onnx_value *q = lmi_shaped(s, 0), *v = lmi_arg(s, 1), *past = lmi_arg(s, 2);
    const int64_t n = lmi_onnx_int(s->n, "num_heads", -1);
    lmi_heads of;
    if (!q || q->ndim != 3 || !heads_of(v, n, &of)) return;
    const int64_t y[] = {q->sizes[0], q->sizes[1], lmi_size_times(n, of.each)};
    lmi_set(s, 0, 3, y);
    if (!past || past->ndim != 4) return;
    const bool shared = lmi_onnx_int(s->n, "past_present_share_buffer", 0) != 0;
    const int64_t room = shared ? past->sizes[2] : v->ndim == 3 ? lmi_plus(past->sizes[2], of.steps) : -1;
    const int64_t present[] = {past->sizes[0], past->sizes[1], room, past->sizes[3]};
    lmi_set(s, 1, 4, present);
    lmi_set(s, 2, 4, present);
}

/* GroupQueryAttention: query, which holds key and value too if there is no key; the cache; how many positions
 * there are with the new ones. The caches that it returns are as long as these, or as those that it was
 * given. */
void lmi_infer_group_query(lmi_node_at *s) {
    enum { TOTAL = 6, PAST_VALUE = 4 };
    const lmi_onnx_value *q = lmi_shaped(s, 0), *k = lmi_arg(s, 1), *past = lmi_arg(s, 2);
    const lmi_onnx_value *past_value = lmi_onnx_in(s->all->m, s->n, PAST_VALUE);
    int64_t n = lmi_onnx_int(s->n, "num_heads", -1), n_kv = lmi_onnx_int(s->n, "kv_num_heads", -1), total;
    if (!q || q->ndim != 3) return;
    int64_t all = lmi_plus(n, lmi_size_times(2, n_kv)), each = -1, room = -1;
    if (k)
        each = q->sizes[2] >= 0 && n > 0 ? q->sizes[2] / n : -1;
    else if (q->sizes[2] >= 0 && all > 0)
        each = q->sizes[2] / all;
    if (!lmi_one(s, NULL, TOTAL, -1, &total)) total = -1;
    const int64_t steps = k ? (k->ndim == 3 ? k->sizes[1] : -1) : q->sizes[1];
    const int64_t kept = past && past->ndim == 4 ? past->sizes[2] : -1;
    if (!past)
        room = total >= 0 ? total : steps;
    else if (lmi_onnx_int(s->n, "sliding_window_cache", 0))
        room = kept;
    else if (total >= 0 && kept >= 0)
        room = total > kept ? total : kept;
    const int64_t y[] = {q->sizes[0], q->sizes[1], lmi_size_times(n, each)};
    const int64_t key[] = {q->sizes[0], n_kv, room, past && past->ndim == 4 ? past->sizes[3] : each};
    const int64_t value[] = {q->sizes[0], n_kv, room,
                             past_value && past_value->ndim == 4 ? past_value->sizes[3] : each};
    const int64_t scores[] = {q->sizes[0], n, q->sizes[1], !past && total < 0 ? steps : total};
    lmi_set(s, 0, 3, y);
    lmi_set(s, 1, 4, key);
    lmi_set(s, 2, 4, value);
    lmi_set(s, 3, 4, scores);
    for (int32_t i = 1; i <= 2; i++) lmi_set_type(s, i, past ? past->type : q->type);
}

/* The determinant of the last two axes. */
void lmi_infer_det(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (x && x->ndim >= 2) lmi_set(s, 0, x->ndim - 2, x->sizes);
}
