/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a convolution takes on a CPU beside its results. oneDNN wants channels in blocks as wide as a
 * vector register, so data and weights are copied to that order and the result back; where it has no kernel
 * of its own, it multiplies matrices of columns. A transposed convolution is the gradient of one that goes
 * the other way. */
#include "predict/workspace.h"

#include <string.h>

typedef enum way { LMI_BLOCKS, LMI_DEPTHWISE, LMI_GROUPS, LMI_IMAGE, LMI_COLUMNS } way;

enum {
    FEW = 3,
    WIDE = 14,
    PART = 4,
    AVX512 = 16
}; /* channels; elements of a window; channels of a group that fill a register; lanes */

typedef struct conv {
    const lam_op_arg *x, *w;
    int32_t axes;
    int64_t in, out, groups; /* channels */
    int64_t window, positions,
        slices;         /* elements of a window and of a result's image, along its first axis */
    int64_t bx, bw, by; /* bytes as they are, and */
    int64_t px, pw, py; /* in blocks of channels */
    bool strided, dilated, padded, transposed, last, far, uneven, biased;
    way order;
} conv;

static int64_t in_blocks(const lmi_asked *a, int64_t n) { return lmi_up(n, a->cpu.lanes); }

/* Sizes of the result, and which kinds of window there are. `p`: position of the stride. */
static void look_at_windows(const lmi_asked *a, conv *c, int32_t p) {
    c->window = c->positions = 1;
    for (int32_t i = 0; i < c->axes; i++) {
        int64_t stride = lmi_most(lmi_asked_number(a, p, i, 1), 1), pad = lmi_asked_number(a, p + 1, i, 0);
        int64_t dilation = lmi_asked_number(a, p + 2, i, 1), size = c->x->sizes[i + 2];
        int64_t kernel = c->w->sizes[i + 2], reach = lmi_times(dilation, kernel - 1) + 1;
        int64_t ends = lmi_times(2, pad), out = (size + ends - reach) / stride + 1;
        if (c->transposed)
            out = lmi_times(size - 1, stride) - ends + reach + lmi_asked_number(a, p + 4, i, 0);
        if (i == 0) c->slices = lmi_most(out, 1);
        c->window = lmi_times(c->window, kernel);
        c->positions = lmi_times(c->positions, out);
        c->strided = c->strided || stride != 1;
        c->dilated = c->dilated || dilation != 1;
        c->padded = c->padded || pad != 0;
        c->far = c->far || pad >= size;
        c->uneven = c->uneven || out % stride != 0;
    }
}

/* Bytes of data, weights and result where channels are in blocks. A few channels of an image are left as they
 * are. */
static void look_at_blocks(const lmi_asked *a, conv *c) {
    bool few = c->in <= FEW && !c->transposed, one = c->window == 1;
    c->px = c->bx, c->pw = c->bw, c->py = c->by;
    c->order = c->groups == 1 ? few && !one ? LMI_IMAGE : LMI_BLOCKS : LMI_GROUPS;
    if (c->groups > 1 && c->groups == c->in && c->in == c->out) c->order = LMI_DEPTHWISE;
    if (c->order == LMI_GROUPS || c->in == 0 || c->out == 0) return;
    c->py = lmi_times(c->by / c->out, in_blocks(a, c->out));
    c->pw = lmi_times(c->bw / c->out, in_blocks(a, c->out));
    if (c->order == LMI_BLOCKS) c->pw = lmi_times(c->pw / c->in, in_blocks(a, c->in));
    c->px = c->order == LMI_IMAGE ? 0 : lmi_times(c->bx / c->in, in_blocks(a, c->in));
}

/* As ATen chooses between its own kernels, which write columns, and oneDNN's. */
static bool by_onednn(const lmi_asked *a, const conv *c) {
    const char *type = lam_dtype_name(c->x->dtype);
    int64_t n = 1, last = c->w->sizes[c->w->ndim - 1], before = c->axes > 1 ? c->w->sizes[c->w->ndim - 2] : 1;
    if (strcmp(type, "bfloat16") == 0) return a->cpu.lanes >= AVX512;
    if (strcmp(type, "float16") == 0) return a->cpu.half;
    if (strcmp(type, "float32") != 0) return false;
    for (int32_t i = 0; i < c->x->ndim && i < 4; i++) n = lmi_times(n, c->x->sizes[i]);
    bool worth =
        c->strided || c->dilated || c->x->sizes[0] >= 16 || last != 1 || before != 1 || a->cpu.threads > 1;
    return worth && (c->groups > 1 || (last > 3 && before > 3) || c->x->sizes[0] > 1 || n > 20480);
}

/* `x`, `w`: positions of data and weights; `p`: of the stride. */
static bool look_at(const lmi_asked *a, conv *c, int32_t x, int32_t w, int32_t p) {
    *c = (conv){.x = lmi_asked_tensor(a, x), .w = lmi_asked_tensor(a, w)};
    if (!c->x || !c->w || c->x->ndim < 3 || c->x->ndim != c->w->ndim) return false;
    c->axes = c->x->ndim - 2;
    c->groups = lmi_asked_number(a, p + 5, 0, 1);
    c->transposed = lmi_asked_number(a, p + 3, 0, 0) != 0;
    c->in = c->x->sizes[1];
    c->out = c->transposed ? lmi_times(c->w->sizes[1], c->groups) : c->w->sizes[0];
    look_at_windows(a, c, p);
    c->bx = lmi_bytes(c->x);
    c->bw = lmi_bytes(c->w);
    c->by = lmi_times(lmi_times(c->x->sizes[0], c->out), lmi_times(c->positions, lmi_item(c->x)));
    c->last = lmi_asked_channels_last(a, x) || lmi_asked_channels_last(a, w);
    look_at_blocks(a, c);
    if (!by_onednn(a, c)) c->order = LMI_COLUMNS;
    return true;
}

/* Bytes of one image of the data. */
static int64_t image(const conv *c) { return c->bx / lmi_most(c->x->sizes[0], 1); }

/* Bytes of the columns of one image. */
static int64_t columns(const conv *c) {
    int64_t rows = lmi_times(c->w->sizes[1], c->window);
    if (c->transposed) return lmi_times(rows, image(c) / lmi_most(c->in, 1));
    return lmi_times(rows, lmi_times(c->positions, lmi_item(c->x)));
}

static bool as_it_is(const conv *c) { return c->window == 1 && !c->strided && !c->padded; }

/* A window of one element with a step is gathered before it is multiplied. */
static int64_t gathered(const lmi_asked *a, const conv *c) {
    if (c->window != 1 || !c->strided || c->groups != 1 || c->axes != 2) return 0;
    return lmi_times(lmi_times(lmi_item(c->x), in_blocks(a, c->in)), lmi_times(c->positions, a->cpu.threads));
}

/* Groups whose channels fill no part of a register. */
static bool ragged(const conv *c) {
    int64_t groups = lmi_most(c->groups, 1);
    return c->order == LMI_GROUPS && (c->in / groups % PART != 0 || c->out / groups % PART != 0);
}

/* == transposed ======================================================================================== */

/* oneDNN has no kernel of its own for these. */
static bool by_matrices(const lmi_asked *a, const conv *c) {
    int64_t in = c->in / lmi_most(c->groups, 1);
    if (c->dilated && (c->strided || c->order == LMI_DEPTHWISE)) return true;
    return c->order == LMI_GROUPS && in % a->cpu.lanes != 0 && ragged(c);
}

/* Weights with blocks of the result's channels alone. */
static int64_t half_in_blocks(const lmi_asked *a, const conv *c) {
    int64_t out = c->w->sizes[1];
    return out < 1 ? 0 : lmi_times(c->bw / out, in_blocks(a, out));
}

/* A bias is added to a copy of the result, but by the kernel for windows with a step, which wants its data
 * channels last, keeps up to an image of it, and whose result is copied twice. */
static int64_t transposed(const lmi_asked *a, const conv *c) {
    enum {
        AROUND = 8 << 10,
        EACH = 2 << 10
    }; /* bytes beside the image, and for each element of the window */
    int64_t grouped = c->in / lmi_most(c->groups, 1) % a->cpu.lanes, sum = c->biased ? c->by : 0;
    bool in_steps = c->strided && c->order != LMI_DEPTHWISE && (c->order != LMI_GROUPS || grouped == 0);
    if (by_matrices(a, c)) return lmi_most(sum + lmi_times(columns(c), a->cpu.threads), c->by);
    if (!in_steps) return lmi_most((c->biased ? c->py : 0) + c->px + c->pw + c->py - c->by, c->py);
    int64_t around = AROUND + lmi_times(EACH, c->window);
    int64_t kept = lmi_times(around + image(c), a->cpu.threads) + (c->uneven ? sum : 0);
    return lmi_most(2 * c->by, kept + c->bx + half_in_blocks(a, c));
}

/* == by ATen =========================================================================================== */

/* Bytes of a copy of one group's channels, which in several images are not in one piece. */
static int64_t group(const conv *c, int64_t bytes) { return c->x->sizes[0] > 1 ? bytes / c->groups : 0; }

/* The plain kernel for volumes takes all groups together. */
static bool group_by_group(const conv *c) {
    return c->groups > 1 && (c->axes < 3 || c->transposed || c->dilated);
}

/* Columns of as many images as are written at a time; a kernel for each group that there is. */
static int64_t written(const conv *c) {
    int64_t images = c->transposed ? c->axes < 3 : !c->dilated, all = columns(c);
    if (as_it_is(c) && !c->transposed) return 0;
    if (!group_by_group(c)) all = lmi_times(all, c->groups);
    return images ? lmi_times(all, c->x->sizes[0]) : all;
}

/* Of volumes a transposed one has ones that a bias is multiplied with. The results of groups are joined. */
static int64_t in_columns(const conv *c) {
    int64_t ones = c->transposed && c->axes == 3 ? lmi_times(c->positions, lmi_item(c->x)) : 0;
    int64_t all = written(c) + ones;
    return group_by_group(c) ? lmi_most(all + group(c, c->bx), c->by) : all;
}

/* == forward =========================================================================================== */

int64_t lmi_convolution(const lmi_asked *a) {
    conv c;
    if (!look_at(a, &c, 0, 1, 3)) return 0;
    c.biased = lmi_asked_tensor(a, 2) != NULL;
    int64_t extra = c.last ? 0 : lmi_asked_copied(a, 0);
    if (c.order == LMI_COLUMNS) return extra + in_columns(&c);
    if (c.transposed) return extra + transposed(a, &c);
    if (c.last) {
        bool weights = c.w->sizes[1] > 1 && !lmi_asked_channels_last(a, 1);
        return c.pw + (weights ? c.bw : 0) + (lmi_asked_channels_last(a, 0) ? 0 : c.bx);
    }
    if (c.far || (c.order == LMI_GROUPS && c.in == c.groups)) return extra + c.by;
    if (c.order == LMI_DEPTHWISE && c.axes == 3) return extra + 2 * c.by;
    int64_t copies = c.px + c.pw + gathered(a, &c) + c.py;
    if (lmi_item(c.x) == 2 && c.window == 1 && c.order == LMI_BLOCKS) /* and a bias of its own */
        return extra + copies + lmi_times(c.out, lmi_item(c.x)) + (c.biased ? c.by : 0);
    return extra + lmi_most(copies - c.by, c.py);
}

/* == backward ========================================================================================== */

/* Matrices of columns for the gradient of the weights, whose sums are kept apart. */
static bool by_columns(const lmi_asked *a, const conv *c) {
    bool uneven = c->in / lmi_most(c->groups, 1) % a->cpu.lanes != 0;
    bool volume = c->axes == 3 && c->window > 1, grouped = c->order == LMI_GROUPS;
    if (c->far || ragged(c) || (volume && (c->dilated || grouped))) return true;
    if (c->transposed && ((c->dilated && c->strided) || (c->groups > 1 && uneven))) return true;
    return c->order != LMI_DEPTHWISE && c->w->sizes[c->w->ndim - 1] > WIDE;
}

static int64_t columns_backward(const conv *c) {
    return columns(c) / (c->axes == 3 && !c->transposed ? c->slices : 1) + 4 * c->bw;
}

/* Channels last: partial sums of a depthwise kernel, but of the smallest, and weights in two orders. */
static int64_t weights_backward_last(const conv *c) {
    enum { SUMS = 257, SMALL = 9 };
    return c->order != LMI_DEPTHWISE ? 3 * c->pw : c->window == SMALL ? 2 * c->pw : SUMS * c->pw;
}

static int64_t weights_backward(const lmi_asked *a, const conv *c) {
    if (by_columns(a, c)) return columns_backward(c);
    if (c->last) return weights_backward_last(c);
    int64_t in = c->px + gathered(a, c);
    return lmi_most(in + c->py + c->pw - c->bw, c->pw);
}

/* With the gradient of the weights not there yet. The kernel for windows with a step gives it channels last,
 * and it is copied twice. */
static int64_t data_backward(const lmi_asked *a, const conv *c) {
    bool in_steps = c->strided && !c->transposed && c->groups == 1;
    int64_t px = c->px, pw = c->pw;
    if (ragged(c) && !c->transposed) return lmi_most(columns(c), c->bx) - c->bw;
    if (c->order == LMI_IMAGE) {
        px = lmi_times(c->bx / lmi_most(c->in, 1), in_blocks(a, c->in));
        pw = lmi_times(c->pw / lmi_most(c->in, 1), in_blocks(a, c->in));
    }
    int64_t peak = lmi_most(c->py + pw + px - c->bx, px);
    return (in_steps ? lmi_most(peak, 2 * c->bx) : peak) - c->bw;
}

/* By ATen. The gradient of a bias is added up in 32 bits, from a copy: of transposed volumes in the same
 * loop, elsewhere afterwards. */
static int64_t in_columns_backward(const conv *c, bool biased) {
    bool grouped = group_by_group(c), sums = biased && lmi_item(c->x) == 2;
    int64_t images = c->dilated || c->transposed ? 1 : c->x->sizes[0], all = columns(c);
    int64_t copy = sums ? lmi_times(2, c->by) + lmi_times(4, c->out) : 0;
    if (!grouped) all = lmi_times(all, c->groups);
    if (grouped) copy /= c->groups;
    all = as_it_is(c) && c->axes < 3 ? 0 : lmi_times(all, images);
    all = c->axes == 3 && c->transposed ? all + copy : lmi_most(all, copy - c->bw);
    return grouped ? all + group(c, c->bx) + group(c, c->by) : all;
}

/* First the gradient of the data, then that of the weights. */
int64_t lmi_convolution_backward(const lmi_asked *a) {
    conv c;
    if (!look_at(a, &c, 1, 2, 4)) return 0;
    int64_t extra =
        c.last ? (lmi_asked_channels_last(a, 0) ? 0 : c.by) : lmi_asked_copied(a, 0) + lmi_asked_copied(a, 1);
    if (c.order == LMI_COLUMNS) {
        bool biased = lmi_asked_number(a, 10, 2, 0) != 0;
        return extra + in_columns_backward(&c, biased);
    }
    if (c.transposed && c.out <= FEW) { /* an image, left as it is */
        c.py = 0;
        c.pw = lmi_times(c.bw / lmi_most(c.in, 1), in_blocks(a, c.in));
    }
    int64_t peak = weights_backward(a, &c);
    bool data = lmi_asked_number(a, 10, 0, 1) != 0;
    if (data && !c.last) peak = lmi_most(peak, data_backward(a, &c));
    return extra + lmi_most(peak, 0);
}
