/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that an operator takes on a CPU beside its results. Most of it is convolution's: oneDNN wants
 * channels in blocks as wide as a vector register, so data and weights are copied to that order and the
 * result back. */
#include "model/model.h"

typedef struct asked {
    const lam_op_arg *in;
    const int64_t *const *strides;
    int32_t n;
    lam_cpu cpu;
} asked;

/* == arguments ========================================================================================= */

static int32_t at(const asked *a, int32_t position) {
    for (int32_t i = 0; i < a->n; i++)
        if (a->in[i].position == position) return i;
    return -1;
}

static const lam_op_arg *tensor(const asked *a, int32_t position) {
    int32_t i = at(a, position);
    return i >= 0 && a->in[i].is_tensor && a->in[i].ndim >= 0 ? &a->in[i] : NULL;
}

static int64_t numel(const lam_op_arg *t) {
    int64_t n;
    return t && lmi_product(t->sizes, t->ndim, &n) ? n : 0;
}

/* No more than so much, which no memory holds, so that what is computed from it stays a number. */
static int64_t times(int64_t a, int64_t b) {
    const int64_t most = INT64_MAX / 4096;
    int64_t n;
    return a < 0 || b < 0 ? 0 : __builtin_mul_overflow(a, b, &n) || n > most ? most : n;
}

static int64_t item(const lam_op_arg *t) { return (lam_dtype_bits(t->dtype) + 7) / 8; }
static int64_t bytes(const lam_op_arg *t) { return t ? times(numel(t), item(t)) : 0; }

/* The i-th number of a list of integers, which may be one for all axes. */
static int64_t number(const asked *a, int32_t position, int32_t i, int64_t without) {
    int32_t k = at(a, position);
    const lam_value *v = k >= 0 ? &a->in[k].value : NULL;
    if (v && (v->type == LAM_INT || v->type == LAM_BOOL)) return v->i;
    if (!v || v->type != LAM_INTS || v->n == 0) return without;
    return v->ints[i < v->n ? i : v->n - 1];
}

/* Elements one after another when axes are walked in this order, the last first. */
static bool dense(const asked *a, int32_t position, const int8_t *order) {
    const lam_op_arg *t = tensor(a, position);
    const int64_t *strides = t ? a->strides[t - a->in] : NULL;
    int64_t step = 1;
    for (int32_t i = 0; strides && i < t->ndim; i++) {
        int32_t axis = order ? order[i] : t->ndim - 1 - i;
        if (t->sizes[axis] != 1 && strides[axis] != step) return false;
        step = times(step, t->sizes[axis] > 0 ? t->sizes[axis] : 1);
    }
    return true;
}

static bool in_rows(const asked *a, int32_t position) { return dense(a, position, NULL); }

static bool channels_last(const asked *a, int32_t position) {
    static const int8_t order[] = {1, 3, 2, 0};
    const lam_op_arg *t = tensor(a, position);
    return t && t->ndim == 4 && !in_rows(a, position) && dense(a, position, order);
}

static int64_t copied(const asked *a, int32_t position) {
    return in_rows(a, position) ? 0 : bytes(tensor(a, position));
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* == convolution ======================================================================================= */

typedef enum way { LMI_BLOCKS, LMI_DEPTHWISE, LMI_GROUPS, LMI_IMAGE, LMI_COLUMNS } way;

typedef struct conv {
    const lam_op_arg *x, *w;
    int32_t axes;
    int64_t in, out, groups; /* channels */
    int64_t window, positions,
        slices;         /* elements of a window and of a result's image, along its first axis */
    int64_t bx, bw, by; /* bytes as they are, and */
    int64_t px, pw, py; /* in blocks of channels */
    bool strided, dilated, padded, transposed, last, far;
    way order;
} conv;

static int64_t in_blocks(const asked *a, int64_t n) {
    return (n + a->cpu.lanes - 1) / a->cpu.lanes * a->cpu.lanes;
}

/* Sizes of the result, and which kinds of window there are. `p`: position of the stride. */
static void look_at_windows(const asked *a, conv *c, int32_t p) {
    c->window = c->positions = 1;
    for (int32_t i = 0; i < c->axes; i++) {
        int64_t stride = most(number(a, p, i, 1), 1), pad = number(a, p + 1, i, 0);
        int64_t dilation = number(a, p + 2, i, 1), size = c->x->sizes[i + 2], kernel = c->w->sizes[i + 2];
        int64_t reach = times(dilation, kernel - 1) + 1, ends = times(2, pad);
        int64_t out = (size + ends - reach) / stride + 1;
        if (c->transposed) out = times(size - 1, stride) - ends + reach + number(a, p + 4, i, 0);
        if (i == 0) c->slices = most(out, 1);
        c->window = times(c->window, kernel);
        c->positions = times(c->positions, out);
        c->strided = c->strided || stride != 1;
        c->dilated = c->dilated || dilation != 1;
        c->padded = c->padded || pad != 0;
        c->far = c->far || pad >= size;
    }
}

/* Bytes of data, weights and result where channels are in blocks. A few channels are left as they are. */
static void look_at_blocks(const asked *a, conv *c) {
    bool few = c->in <= 3, one = c->window == 1;
    c->px = c->bx, c->pw = c->bw, c->py = c->by;
    c->order = c->groups == 1 ? few && !one ? LMI_IMAGE : LMI_BLOCKS : LMI_GROUPS;
    if (c->groups > 1 && c->groups == c->in && c->in == c->out) c->order = LMI_DEPTHWISE;
    if (c->order == LMI_GROUPS || c->in == 0 || c->out == 0) return;
    c->py = times(c->by / c->out, in_blocks(a, c->out));
    c->pw = times(c->bw / c->out, in_blocks(a, c->out));
    if (c->order == LMI_BLOCKS) c->pw = times(c->pw / c->in, in_blocks(a, c->in));
    c->px = c->order == LMI_IMAGE ? 0 : times(c->bx / c->in, in_blocks(a, c->in));
}

/* As ATen chooses between its own kernels, which write columns, and oneDNN's. */
static bool by_onednn(const asked *a, const conv *c) {
    const char *type = lam_dtype_name(c->x->dtype);
    int64_t n = 1, last = c->w->sizes[c->w->ndim - 1], before = c->axes > 1 ? c->w->sizes[c->w->ndim - 2] : 1;
    if (strcmp(type, "bfloat16") == 0 || strcmp(type, "float16") == 0) return true;
    if (strcmp(type, "float32") != 0) return false;
    for (int32_t i = 0; i < c->x->ndim && i < 4; i++) n = times(n, c->x->sizes[i]);
    bool worth =
        c->strided || c->dilated || c->x->sizes[0] >= 16 || last != 1 || before != 1 || a->cpu.threads > 1;
    return worth && (c->groups > 1 || (last > 3 && before > 3) || c->x->sizes[0] > 1 || n > 20480);
}

/* `x`, `w`: positions of data and weights; `p`: of the stride. */
static bool look_at(const asked *a, conv *c, int32_t x, int32_t w, int32_t p) {
    *c = (conv){.x = tensor(a, x), .w = tensor(a, w)};
    if (!c->x || !c->w || c->x->ndim < 3 || c->x->ndim != c->w->ndim) return false;
    c->axes = c->x->ndim - 2;
    c->groups = number(a, p + 5, 0, 1);
    c->transposed = number(a, p + 3, 0, 0) != 0;
    c->in = c->x->sizes[1];
    c->out = c->transposed ? times(c->w->sizes[1], c->groups) : c->w->sizes[0];
    look_at_windows(a, c, p);
    c->bx = bytes(c->x);
    c->bw = bytes(c->w);
    c->by = times(times(c->x->sizes[0], c->out), times(c->positions, item(c->x)));
    c->last = channels_last(a, x) || channels_last(a, w);
    look_at_blocks(a, c);
    if (!by_onednn(a, c)) c->order = LMI_COLUMNS;
    return true;
}

/* Bytes of the columns of one image. */
static int64_t columns(const conv *c) {
    int64_t rows = times(c->w->sizes[1], c->window);
    if (c->transposed) return times(rows, c->bx / most(times(c->x->sizes[0], c->in), 1));
    return times(rows, times(c->positions, item(c->x)));
}

/* A window of one element with a step is gathered before it is multiplied. */
static int64_t gathered(const asked *a, const conv *c) {
    if (c->window != 1 || !c->strided || c->groups != 1 || c->axes != 2) return 0;
    return times(times(item(c->x), in_blocks(a, c->in)), times(c->positions, a->cpu.threads));
}

static int64_t convolution(const asked *a) {
    conv c;
    if (!look_at(a, &c, 0, 1, 3)) return 0;
    int64_t extra = c.last ? 0 : copied(a, 0);
    if (c.order == LMI_COLUMNS) {
        bool as_it_is = c.window == 1 && !c.strided && !c.padded;
        int64_t images = c.dilated || c.transposed ? 1 : c.x->sizes[0], joined = c.groups > 1 ? c.by : 0;
        return extra + joined + (as_it_is ? 0 : times(columns(&c), images));
    }
    if (c.transposed) return extra + 2 * c.by;
    if (c.last) {
        bool weights = c.w->sizes[1] > 1 && !channels_last(a, 1);
        return c.pw + (weights ? c.bw : 0) + (channels_last(a, 0) ? 0 : c.bx);
    }
    if (c.far || (c.order == LMI_GROUPS && c.in == c.groups)) return extra + c.by;
    return extra + most(c.px + c.pw + gathered(a, &c) + c.py - c.by, c.py);
}

/* oneDNN has no kernel of its own for these and multiplies matrices of columns; sums of weights are kept
 * apart. */
static bool by_columns(const conv *c) {
    if (c->far || (c->axes == 3 && c->window > 1)) return true;
    return c->order != LMI_DEPTHWISE && c->w->sizes[c->w->ndim - 1] > 14;
}

static int64_t columns_backward(const conv *c) {
    return columns(c) / (c->axes == 3 ? c->slices : 1) + 4 * c->bw;
}

static int64_t weights_backward(const asked *a, const conv *c) {
    enum { SUMS = 257 }; /* partial sums of a depthwise kernel, channels last */
    if (c->last) return c->order == LMI_DEPTHWISE ? SUMS * c->pw : 3 * c->pw;
    int64_t in = c->px + gathered(a, c);
    return most(in + c->py + c->pw - c->bw, c->pw);
}

/* First the gradient of the data, then that of the weights. */
static int64_t convolution_backward(const asked *a) {
    conv c;
    if (!look_at(a, &c, 1, 2, 4)) return 0;
    int64_t extra = c.last ? (channels_last(a, 0) ? 0 : c.by) : copied(a, 0);
    if (c.order == LMI_COLUMNS) return extra + times(columns(&c), c.dilated ? 1 : c.x->sizes[0]);
    if (c.transposed) return extra + 2 * c.by + c.bx;
    if (by_columns(&c)) return extra + columns_backward(&c);
    int64_t peak = weights_backward(a, &c);
    bool data = number(a, 10, 0, 1) != 0;
    if (data && !c.last) peak = most(peak, most(c.py + c.pw + c.px - c.bx, c.px) - c.bw);
    return extra + peak;
}

/* == attention ========================================================================================= */

/* Queries and keys in blocks, a block's scores and sums a thread. */
static int64_t scores(const asked *a, int32_t query, int32_t key, bool backward) {
    enum { KEYS = 512 };
    const lam_op_arg *q = tensor(a, query), *k = tensor(a, key);
    if (!q || !k || q->ndim != 4 || k->ndim != 4) return 0;
    int64_t rows = q->sizes[2], width = q->sizes[3], keys = k->sizes[2] < KEYS ? k->sizes[2] : KEYS;
    int64_t block = rows >= 768 ? 256 : rows >= 192 ? 64 : 32;
    if (block > rows) block = rows;
    int64_t forward = keys + 2 + width, back = 2 * keys + 1;
    return times(times(block, backward ? back : forward), (int64_t)sizeof(float) * a->cpu.threads);
}

static int64_t flash(const asked *a) { return scores(a, 0, 1, false); }

/* The gradient is wanted with the heads of a position side by side. */
static int64_t flash_backward(const asked *a) {
    static const int8_t order[] = {3, 1, 2, 0};
    const lam_op_arg *grad = tensor(a, 0);
    bool copy = grad && grad->ndim == 4 && !dense(a, 0, order);
    return scores(a, 1, 2, true) + (copy ? bytes(grad) : 0);
}

/* Data, heads: every score of every head at once, and queries, keys and values before. */
static int64_t fused(const asked *a, int32_t heads, int64_t copies) {
    const lam_op_arg *x = tensor(a, 0);
    if (!x || x->ndim != 3) return 0;
    int64_t all = times(times(x->sizes[0], number(a, heads, 0, 1)), times(x->sizes[1], x->sizes[1]));
    return copies * bytes(x) + times(all, item(x));
}

static int64_t fused_attention(const asked *a) { return fused(a, 4, 2); }
static int64_t fused_layer(const asked *a) { return fused(a, 2, 4); }

/* A mask of what is -inf, and whether a row is nothing else. */
static int64_t safe_softmax(const asked *a) {
    const lam_op_arg *x = tensor(a, 0);
    int64_t last = x && x->ndim > 0 ? x->sizes[x->ndim - 1] : 0;
    return last > 0 ? numel(x) + 2 * (numel(x) / last) : 0;
}

/* == others ============================================================================================ */

static int64_t batch_norm_backward(const asked *a) { return bytes(tensor(a, 1)); }
static int64_t layer_norm(const asked *a) { return copied(a, 0); }

static int64_t layer_norm_backward(const asked *a) {
    return copied(a, 0) + copied(a, 1) + 2 * bytes(tensor(a, 5)) * a->cpu.threads;
}

static int64_t strided_twice(const asked *a) { return 2 * most(copied(a, 0), copied(a, 1)); }

/* Along one axis after another. */
static int64_t roll(const asked *a) {
    int32_t dims = at(a, 2);
    bool several = dims >= 0 && a->in[dims].value.type == LAM_INTS && a->in[dims].value.n > 1;
    return several ? bytes(tensor(a, 0)) : 0;
}

/* The weights in oneDNN's order, and what it sums up. */
static int64_t recurrent(const asked *a) {
    return bytes(tensor(a, 1)) + bytes(tensor(a, 2)) + bytes(tensor(a, 0));
}

/* With its channels last, there and back, where they fill a register. */
static int64_t upsample(const asked *a) {
    const lam_op_arg *x = tensor(a, 0);
    if (!x || x->ndim != 4 || x->sizes[1] % 4 != 0 || channels_last(a, 0)) return 0;
    int64_t area = times(number(a, 1, 0, 0), number(a, 1, 1, 0));
    int64_t y = times(times(x->sizes[0], x->sizes[1]), times(area, item(x)));
    return y + (x->sizes[2] * x->sizes[3] > 1 ? bytes(x) : 0);
}

/* == the table ========================================================================================= */

static const struct workspace {
    const char *name;
    int64_t (*run)(const asked *a);
} rules[] = {
#define WORKSPACE(name, rule) {name, rule},
#include "vocab/workspace.def"
#undef WORKSPACE
};
enum { N_RULES = sizeof rules / sizeof *rules };

int32_t lam_workspace_rule(const char *name) {
    for (int32_t i = 0; name && i < N_RULES; i++)
        if (strcmp(rules[i].name, name) == 0) return i;
    return -1;
}

int64_t lam_workspace(int32_t rule, const lam_op_arg *in, const int64_t *const *strides, int32_t n_in,
                      lam_cpu cpu) {
    if (rule < 0 || rule >= N_RULES || n_in < 0 || cpu.lanes < 1 || cpu.threads < 1) return 0;
    asked a = {in, strides, n_in, cpu};
    int64_t n = rules[rule].run(&a);
    return n > 0 ? n : 0;
}

lam_cpu lam_cpu_here(int32_t threads) {
    lam_cpu cpu = {threads > 0 ? threads : 1, 8};
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) cpu.lanes = 16;
#endif
    return cpu;
}
