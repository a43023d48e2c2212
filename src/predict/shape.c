/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of an operator's results. A rule that is not certain returns no result: the caller has slower
 * ways, and a wrong size would be worse than none. */
#include "model/model.h"
#include "model/values.h"

enum { FLOAT = 6, DOUBLE = 7, BOOL = 11, LONG = 4 }; /* ScalarType numbers */

typedef enum types { any, real, full, ints, truth } types;

/* The arguments, and the common properties of their tensors. */
typedef struct asked {
    const lam_op_arg *in;
    int32_t word;                /* of the operator */
    int32_t n, n_tensors, dtype; /* dtype: of the first tensor */
    bool one_type;               /* all tensors are of that type */
} asked;

typedef int32_t (*rule_fn)(const asked *a, lam_result *out);

/* -- arguments --------------------------------------------------------------------------------------- */

static const lam_op_arg *at(const asked *a, int32_t position) {
    for (int32_t i = 0; i < a->n; i++)
        if (a->in[i].position == position) return &a->in[i];
    return NULL;
}

static const lam_op_arg *tensor(const asked *a, int32_t position) {
    const lam_op_arg *t = at(a, position);
    return t && t->is_tensor && t->ndim >= 0 && t->ndim <= LAM_MAX_AXES ? t : NULL;
}

static bool is_none(const lam_op_arg *t) { return !t || (!t->is_tensor && t->value.type == LAM_NONE); }

static int64_t whole(const asked *a, int32_t position, int64_t otherwise) {
    const lam_op_arg *t = at(a, position);
    if (!t || t->is_tensor) return otherwise;
    return t->value.type == LAM_INT || t->value.type == LAM_BOOL ? t->value.i : otherwise;
}

/* The same of the argument with that role. */
static int64_t whole_of(const asked *a, lmi_slot_id role, int64_t otherwise) {
    return whole(a, lmi_op_position(a->word, role), otherwise);
}

/* The i-th number of a list of `n`, or a single number for all; false if it is unknown. */
static bool entry(const asked *a, int32_t position, int32_t i, int32_t n, int64_t *out) {
    const lam_op_arg *t = at(a, position);
    if (!t || t->is_tensor) return false;
    if (t->value.type == LAM_INT) {
        *out = t->value.i;
        return true;
    }
    if (t->value.type != LAM_INTS || (t->value.n != n && t->value.n != 1)) return false;
    *out = t->value.ints[t->value.n == 1 ? 0 : i];
    return true;
}

static bool entry_of(const asked *a, lmi_slot_id role, int32_t i, int32_t n, int64_t *out) {
    return entry(a, lmi_op_position(a->word, role), i, n, out);
}

/* The i-th of a list of exactly `n`. */
static bool among(const asked *a, int32_t position, int32_t i, int32_t n, int64_t *out) {
    const lam_op_arg *t = at(a, position);
    return t && t->value.type == LAM_INTS && t->value.n == n && entry(a, position, i, n, out);
}

static lam_result *give(const asked *a, lam_result *out, int32_t ndim) {
    out->in = -1;
    out->dtype = a->dtype;
    out->ndim = ndim;
    return out;
}

static int32_t copy_of(const asked *a, const lam_op_arg *t, lam_result *out) {
    memcpy(give(a, out, t->ndim)->sizes, t->sizes, sizeof *t->sizes * (size_t)t->ndim);
    return 1;
}

/* -- elementwise ------------------------------------------------------------------------------------- */

static int32_t same(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0);
    return x && a->n_tensors == 1 ? copy_of(a, x, out) : 0;
}

/* Axes are aligned at their ends; a size of 1 is broadcast. */
static bool widen(lam_result *r, const lam_op_arg *t) {
    int32_t more = t->ndim - r->ndim;
    if (more > 0) {
        memmove(r->sizes + more, r->sizes, sizeof *r->sizes * (size_t)r->ndim);
        for (int32_t i = 0; i < more; i++) r->sizes[i] = 1;
        r->ndim = t->ndim;
    }
    for (int32_t i = 0; i < t->ndim; i++) {
        int64_t *size = &r->sizes[r->ndim - t->ndim + i];
        if (*size != t->sizes[i] && *size != 1 && t->sizes[i] != 1) return false;
        if (*size == 1) *size = t->sizes[i];
    }
    return true;
}

static bool is_number(const lam_op_arg *t, bool real_too) {
    return t && !t->is_tensor && (t->value.type == LAM_INT || (real_too && t->value.type == LAM_FLOAT));
}

static int32_t pair(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0), *y = tensor(a, 1);
    bool is_real = lam_dtype_name(a->dtype)[0] == 'f' || lam_dtype_name(a->dtype)[0] == 'b';
    if (!x || a->n_tensors > 2) return 0;
    if (!y && !(a->dtype != BOOL && is_number(at(a, 1), is_real))) return 0;
    copy_of(a, x, out);
    return !y || widen(out, y) ? 1 : 0;
}

/* log_sigmoid_forward(x): the result, and as many numbers for its gradient. */
static int32_t twice(const asked *a, lam_result *out) {
    return same(a, out) == 1 && same(a, out + 1) == 1 ? 2 : 0;
}

/* rrelu_with_noise(x, noise, ...) */
static int32_t noisy(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0);
    return x && tensor(a, 1) && a->n_tensors == 2 ? copy_of(a, x, out) : 0;
}

/* torch takes the second operand as the first, which matters if their layouts differ. */
static int32_t number_first(const asked *a, lam_result *out) { return tensor(a, 1) ? 0 : pair(a, out); }

/* -- products ---------------------------------------------------------------------------------------- */

static int32_t product(const asked *a, int32_t first, int32_t ndim, lam_result *out) {
    const lam_op_arg *x = tensor(a, first), *y = tensor(a, first + 1);
    if (!x || !y || x->ndim != ndim || y->ndim != ndim) return 0;
    if (x->sizes[ndim - 1] != y->sizes[ndim - 2]) return 0;
    if (ndim == 3 && x->sizes[0] != y->sizes[0]) return 0;
    copy_of(a, x, out);
    out->sizes[ndim - 1] = y->sizes[ndim - 1];
    return 1;
}

/* The addend must fit the result, whose sizes it does not change. */
static int32_t added(const asked *a, int32_t ndim, lam_result *out) {
    const lam_op_arg *b = tensor(a, 0);
    lam_result wide;
    if (!b || !product(a, 1, ndim, out)) return 0;
    wide = *out;
    bool fits = widen(&wide, b) && wide.ndim == ndim;
    return fits && memcmp(wide.sizes, out->sizes, sizeof *wide.sizes * (size_t)ndim) == 0;
}

static int32_t mm(const asked *a, lam_result *out) { return product(a, 0, 2, out); }
static int32_t bmm(const asked *a, lam_result *out) { return product(a, 0, 3, out); }
static int32_t addmm(const asked *a, lam_result *out) { return added(a, 2, out); }
static int32_t baddbmm(const asked *a, lam_result *out) { return added(a, 3, out); }

/* _grouped_mm(x, y, group ends): groups are of columns of one matrix and rows of the other or, of a
 * matrix and a batch, of the matrix' rows or columns. Results are padded to 16 bytes, which changes
 * nothing for these sizes. */
static int32_t grouped_mm(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0), *y = tensor(a, 1), *ends = tensor(a, 2), *type = at(a, 4);
    if (!x || !y || x->ndim < 2 || x->ndim > 3 || y->ndim < 2 || y->ndim > 3) return 0;
    if (type && (type->is_tensor || type->value.type != LAM_NONE)) return 0; /* the result has another type */
    if (x->sizes[x->ndim - 1] != y->sizes[y->ndim - 2] || y->sizes[y->ndim - 1] % 8 != 0) return 0;
    bool both = x->ndim == 3 && y->ndim == 3, none = x->ndim == 2 && y->ndim == 2;
    if (both != !ends || (ends && ends->ndim != 1)) return 0;
    int64_t groups = ends ? ends->sizes[0] : x->sizes[0];
    if ((x->ndim == 3 && x->sizes[0] != groups) || (y->ndim == 3 && y->sizes[0] != groups)) return 0;
    lam_result *r = give(a, out, both || none ? 3 : 2);
    r->sizes[0] = groups;
    r->sizes[r->ndim - 2] = x->sizes[x->ndim - 2];
    r->sizes[r->ndim - 1] = y->sizes[y->ndim - 1];
    return 1;
}

/* _transform_bias_rescale_qkv(qkv, bias, heads): queries, keys and values, by heads. */
static int32_t qkv(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0), *b = tensor(a, 1);
    int64_t heads = whole(a, 2, 0);
    if (!x || !b || x->ndim != 3 || b->ndim != 1 || heads <= 0) return 0;
    if (b->sizes[0] != x->sizes[2] || x->sizes[2] % 3 != 0 || x->sizes[2] / 3 % heads != 0) return 0;
    lam_result *r = give(a, out, 4);
    r->sizes[0] = x->sizes[0];
    r->sizes[1] = heads;
    r->sizes[2] = x->sizes[1];
    r->sizes[3] = x->sizes[2] / 3 / heads;
    out[1] = out[2] = out[0];
    return 3;
}

/* -- windows ----------------------------------------------------------------------------------------- */

/* Positions of a window along an axis. False if there is none. */
static bool slide(int64_t size, int64_t window, int64_t stride, int64_t pad, int64_t dilation, bool ceil,
                  int64_t *out) {
    if (stride <= 0 || dilation <= 0 || window <= 0 || pad < 0 || pad > INT32_MAX || size > INT32_MAX)
        return false;
    if (window > INT32_MAX || dilation > INT32_MAX || stride > INT32_MAX) return false;
    int64_t room = size + 2 * pad - dilation * (window - 1) - 1;
    if (room < 0) return false;
    *out = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (*out - 1) * stride >= size + pad) --*out; /* the last one starts inside */
    return *out > 0;
}

static bool conv_axis(const asked *a, const lam_op_arg *x, const lam_op_arg *w, int32_t i, bool transposed,
                      int64_t *out) {
    int64_t stride, pad, dilation, more, size = x->sizes[i + 2], window = w->sizes[i + 2];
    int32_t n = x->ndim - 2;
    bool known = entry_of(a, LMI_S_stride, i, n, &stride) && entry_of(a, LMI_S_pad, i, n, &pad) &&
                 entry_of(a, LMI_S_dil, i, n, &dilation) && entry_of(a, LMI_S_outpad, i, n, &more);
    if (!known) return false;
    if (!transposed) return slide(size, window, stride, pad, dilation, false, out);
    if (stride <= 0 || dilation <= 0 || pad < 0 || size <= 0 || stride > INT32_MAX || size > INT32_MAX ||
        dilation > INT32_MAX || window > INT32_MAX)
        return false;
    *out = (size - 1) * stride - 2 * pad + dilation * (window - 1) + more + 1;
    return *out > 0;
}

/* convolution(x, w, b, ...) */
static int32_t conv(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0), *w = tensor(a, 1), *b = tensor(a, 2);
    if (!x || !w || x->ndim < 3 || x->ndim > 5 || w->ndim != x->ndim || (!b && !is_none(at(a, 2)))) return 0;
    bool transposed = whole_of(a, LMI_S_transposed, 0) != 0;
    int64_t groups = whole_of(a, LMI_S_groups, 0);
    if (groups <= 0 || x->sizes[0] <= 0 || w->sizes[0] % groups != 0) return 0;
    if (x->sizes[1] != (transposed ? w->sizes[0] : w->sizes[1] * groups)) return 0;
    int64_t channels = transposed ? w->sizes[1] * groups : w->sizes[0];
    if (b && (b->ndim != 1 || b->sizes[0] != channels)) return 0;
    lam_result *r = give(a, out, x->ndim);
    r->sizes[0] = x->sizes[0];
    r->sizes[1] = channels;
    for (int32_t i = 0; i < x->ndim - 2; i++)
        if (!conv_axis(a, x, w, i, transposed, &r->sizes[i + 2])) return 0;
    return 1;
}

/* pad(x, padding at each end of the last two axes, the last one first) */
static int32_t pad2d(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0);
    if (!x || x->ndim < 3 || x->ndim > 4 || a->n_tensors != 1) return 0;
    copy_of(a, x, out);
    for (int32_t i = 0; i < 2; i++) {
        int64_t before, after, *size = &out->sizes[x->ndim - 1 - i];
        if (!among(a, 1, 2 * i, 4, &before) || !among(a, 1, 2 * i + 1, 4, &after)) return 0;
        if (before < 0 || after < 0 || before >= *size || after >= *size) return 0;
        *size += before + after;
    }
    return 1;
}

/* roll(x, shifts, axes): two parts that swap places. With a shift all the way round, one part has no
 * elements, and the result is in rows. */
static int32_t rolled(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0), *shifts = at(a, 1), *axes = at(a, 2);
    int32_t n = shifts && shifts->value.type == LAM_INTS ? shifts->value.n : 0;
    if (!x || n < 1 || !axes || axes->value.type != LAM_INTS || axes->value.n != n) return 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t axis = axes->value.ints[i] + (axes->value.ints[i] < 0 ? x->ndim : 0);
        if (axis < 0 || axis >= x->ndim || x->sizes[axis] == 0) return 0;
        if (shifts->value.ints[i] % x->sizes[axis] == 0) return 0;
    }
    return same(a, out);
}

/* max_unpool2d(x, indices, the sizes of the result's last two axes) */
static int32_t unpool2d(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0);
    if (!x || !tensor(a, 1) || x->ndim < 3) return 0;
    copy_of(a, x, out);
    for (int32_t i = 0; i < 2; i++)
        if (!among(a, 2, i, 2, &out->sizes[x->ndim - 2 + i]) || out->sizes[x->ndim - 2 + i] < 1) return 0;
    return 1;
}

/* An argument that may be left out: then *out stays. */
static bool entry_or(const asked *a, lmi_slot_id role, int32_t i, int32_t n, int64_t *out) {
    return !at(a, lmi_op_position(a->word, role)) || entry_of(a, role, i, n, out);
}

/* pool(x, kernel, stride, ...) */
static int32_t pool2d(const asked *a, lam_result *out) {
    enum { axes = 2 };
    const lam_op_arg *x = tensor(a, 0), *strides = at(a, lmi_op_position(a->word, LMI_S_stride));
    if (!x || a->n_tensors != 1 || (x->ndim != axes + 1 && x->ndim != axes + 2)) return 0;
    bool by_window = !strides || (strides->value.type == LAM_INTS && strides->value.n == 0);
    copy_of(a, x, out);
    for (int32_t i = 0; i < axes; i++) {
        int64_t window, stride, pad = 0, dilation = 1, *size = &out->sizes[x->ndim - axes + i];
        if (!entry_of(a, LMI_S_kernel, i, axes, &window)) return 0;
        if (!entry_of(a, by_window ? LMI_S_kernel : LMI_S_stride, i, axes, &stride)) return 0;
        if (!entry_or(a, LMI_S_pad, i, axes, &pad) || !entry_or(a, LMI_S_dil, i, axes, &dilation)) return 0;
        if (pad > window / 2) return 0;
        if (!slide(*size, window, stride, pad, dilation, whole_of(a, LMI_S_ceil, 0) != 0, size)) return 0;
    }
    return 1;
}

static int32_t pool2d_indices(const asked *a, lam_result *out) {
    if (!pool2d(a, out)) return 0;
    out[1] = out[0];
    out[1].dtype = LONG;
    return 2;
}

static int32_t adaptive2d(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0);
    int64_t height, width;
    if (!x || x->ndim < 3 || x->ndim > 4) return 0;
    if (!among(a, 1, 0, 2, &height) || !among(a, 1, 1, 2, &width)) return 0;
    copy_of(a, x, out);
    for (int32_t i = 0; i < x->ndim; i++)
        if (x->sizes[i] <= 0) return 0;
    out->sizes[x->ndim - 2] = height;
    out->sizes[x->ndim - 1] = width;
    return height > 0 && width > 0;
}

/* -- normalisation ----------------------------------------------------------------------------------- */

static bool is_list_of(const asked *a, int32_t position, int64_t n) {
    const lam_op_arg *t = at(a, position);
    return is_none(t) || (tensor(a, position) && t->ndim == 1 && t->sizes[0] == n);
}

/* native_batch_norm(x, w, b, mean, var, training, momentum, eps): the result, and mean and deviation per
 * channel, which are empty if the running ones are used. */
static int32_t batch_norm(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0), *training = at(a, 5);
    if (!x || x->ndim < 2 || !training || training->value.type != LAM_BOOL) return 0;
    bool is_full = a->dtype == FLOAT || a->dtype == DOUBLE;
    if (training->value.i && !(a->one_type && is_full)) return 0;
    for (int32_t i = 1; i < 5; i++)
        if (!is_list_of(a, i, x->sizes[1])) return 0;
    if (!training->value.i && (is_none(at(a, 3)) || is_none(at(a, 4)))) return 0;
    copy_of(a, x, out);
    for (int32_t i = 1; i < 3; i++) give(a, &out[i], 1)->sizes[0] = training->value.i ? x->sizes[1] : 0;
    return 3;
}

/* native_layer_norm(x, shape, w, b, eps): the result, and mean and deviation per row. */
static int32_t layer_norm(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0), *shape = at(a, 1);
    int32_t n = shape && shape->value.type == LAM_INTS ? shape->value.n : 0;
    if (!x || n < 1 || n > x->ndim) return 0;
    for (int32_t i = 0; i < n; i++)
        if (shape->value.ints[i] != x->sizes[x->ndim - n + i]) return 0;
    for (int32_t p = 2; p < 4; p++) {
        const lam_op_arg *t = tensor(a, p);
        bool fits = t && t->ndim == n;
        for (int32_t i = 0; fits && i < n; i++) fits = t->sizes[i] == shape->value.ints[i];
        if (!fits && !is_none(at(a, p))) return 0;
    }
    copy_of(a, x, out);
    out[1] = out[0];
    for (int32_t i = x->ndim - n; i < x->ndim; i++) out[1].sizes[i] = 1;
    out[2] = out[1];
    return 3;
}

/* native_group_norm(x, w, b, N, C, HxW, groups, eps) */
static int32_t group_norm(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0);
    int64_t batch = whole(a, 3, -1), channels = whole(a, 4, -1), groups = whole(a, 6, -1);
    if (!x || batch < 0 || groups <= 0 || channels % groups != 0) return 0;
    if (!is_list_of(a, 1, channels) || !is_list_of(a, 2, channels)) return 0;
    copy_of(a, x, out);
    for (int32_t i = 1; i < 3; i++) {
        give(a, &out[i], 2)->sizes[0] = batch;
        out[i].sizes[1] = groups;
    }
    return 3;
}

/* -- along axes, lists, tables ------------------------------------------------------------------------- */

/* reduce(x, axes, keep): all axes if none are given. */
static int32_t reduce(const asked *a, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0), *axes = at(a, 1);
    uint32_t gone = 0;
    if (!x || a->n_tensors != 1) return 0;
    for (int32_t i = 0; i < x->ndim; i++)
        if (x->sizes[i] == 0) return 0;
    bool all = is_none(axes) || (axes->value.type == LAM_INTS && axes->value.n == 0);
    for (int32_t i = 0; all && i < x->ndim; i++) gone |= 1u << i;
    if (!all && axes->value.type != LAM_INTS) return 0;
    for (int32_t i = 0; !all && i < axes->value.n; i++) {
        int64_t axis = axes->value.ints[i] + (axes->value.ints[i] < 0 ? x->ndim : 0);
        if (axis < 0 || axis >= x->ndim || gone >> axis & 1) return 0;
        gone |= 1u << axis;
    }
    bool keep = whole(a, 2, 0) != 0;
    lam_result *r = give(a, out, 0);
    for (int32_t i = 0; i < x->ndim; i++) {
        if (!(gone >> i & 1))
            r->sizes[r->ndim++] = x->sizes[i];
        else if (keep)
            r->sizes[r->ndim++] = 1;
    }
    return 1;
}

/* cat(tensors, axis) */
static int32_t join(const asked *a, lam_result *out) {
    const lam_op_arg *first = tensor(a, 0);
    int64_t axis = whole(a, 1, 0);
    if (!first || first->ndim == 0) return 0;
    if (axis < 0) axis += first->ndim;
    if (axis < 0 || axis >= first->ndim) return 0;
    copy_of(a, first, out);
    out->sizes[axis] = 0;
    for (int32_t i = 0; i < a->n; i++) {
        const lam_op_arg *t = &a->in[i];
        if (t->position != 0) continue;
        if (!t->is_tensor || t->ndim != first->ndim) return 0;
        for (int32_t k = 0; k < t->ndim; k++)
            if (k != axis && t->sizes[k] != first->sizes[k]) return 0;
        if (__builtin_add_overflow(out->sizes[axis], t->sizes[axis], &out->sizes[axis])) return 0;
    }
    return 1;
}

/* embedding(table, indices): the result has the type of the table, which comes first. */
static int32_t lookup(const asked *a, lam_result *out) {
    const lam_op_arg *table = tensor(a, 0), *indices = tensor(a, 1);
    if (!table || !indices || table->ndim != 2 || indices->ndim + 1 > LAM_MAX_AXES) return 0;
    copy_of(a, indices, out);
    out->sizes[out->ndim++] = table->sizes[1];
    return 1;
}

/* _embedding_bag(table, indices, offsets, scale, mode, sparse, weights, last, padding): the result, each
 * index's bag, each bag's size, and the indices of the maxima. A sum without padding has no second
 * result. */
static int32_t bag_results(const asked *a, bool forward_only, lam_result *out) {
    const lam_op_arg *table = tensor(a, 0), *indices = tensor(a, 1), *offsets = tensor(a, 2);
    int64_t mode = whole(a, 4, 0), last = whole(a, 7, 0), padding = whole(a, 8, -1);
    if (!table || !indices || !offsets || table->ndim != 2 || indices->ndim != 1 || offsets->ndim != 1)
        return 0;
    const lam_op_arg *weights = tensor(a, 6); /* only a sum has them */
    if (a->n_tensors != (weights ? 4 : 3) || (weights && (mode != 0 || weights->dtype != a->dtype))) return 0;
    if (mode < 0 || mode > 2 || offsets->sizes[0] < 1) return 0;
    bool fast = mode == 0 && padding < 0 && a->dtype != DOUBLE;
    int64_t bags = offsets->sizes[0] - (last != 0), width = table->sizes[1];
    for (int32_t i = 0; i < 4; i++) give(a, &out[i], 1)->dtype = offsets->dtype;
    out[0].dtype = a->dtype;
    out[0].ndim = 2;
    out[0].sizes[0] = bags;
    out[0].sizes[1] = width;
    out[1].sizes[0] = fast ? 0 : indices->sizes[0];
    out[2].sizes[0] = forward_only && mode == 0 ? offsets->sizes[0] : bags;
    out[3].sizes[0] = out[2].sizes[0];
    if (mode == 2) out[3].ndim = 2;
    out[3].sizes[1] = width;
    return 4;
}

static int32_t bags(const asked *a, lam_result *out) { return bag_results(a, false, out); }
static int32_t bags_only(const asked *a, lam_result *out) { return bag_results(a, true, out); }

/* -- the table ----------------------------------------------------------------------------------------- */

#define like    LAM_ORDER_LIKE
#define both    LAM_ORDER_BOTH
#define rows    LAM_ORDER_ROWS
#define image   LAM_ORDER_IMAGE
#define windows LAM_ORDER_CONV
#define norm    LAM_ORDER_NORM
#define fresh   LAM_ORDER_FRESH
static const struct shape {
    const char *name;
    rule_fn run;
    types types;
    lam_order order;
} shapes[] = {
#define SHAPE(spelling, rule, types, layout) {spelling, rule, types, layout},
#include "vocab/shapes.def"
#undef SHAPE
};
#undef like
#undef both
#undef rows
#undef image
#undef windows
#undef norm
#undef fresh

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int32_t find(const char *name, size_t n) {
    int32_t low = 0, high = N_SHAPES;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        int o = strncmp(name, shapes[mid].name, n);
        if (o == 0 && shapes[mid].name[n]) o = -1;
        if (o == 0) return mid;
        if (o < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return -1;
}

/* An index has two entries per line: the plain spelling, and the one in place. */
int32_t lam_shape_rule(const char *name) {
    size_t n = name ? strlen(name) : 0;
    int32_t line = n ? find(name, n) : -1;
    if (line >= 0) return 2 * line;
    line = n > 1 && name[n - 1] == '_' && name[n - 2] != '_' ? find(name, n - 1) : -1;
    return line >= 0 ? 2 * line + 1 : -1;
}

lam_order lam_shape_order(int32_t rule) {
    return rule >= 0 && rule < 2 * N_SHAPES ? shapes[rule / 2].order : LAM_ORDER_ROWS;
}

/* Counts the tensors; false if one has no shape, or the types are not those of the line. */
static bool look(asked *a, const struct shape *s) {
    bool may_differ = s->run == lookup || s->run == bags || s->run == bags_only || s->run == batch_norm ||
                      s->run == grouped_mm || s->run == unpool2d;
    a->dtype = -1;
    a->one_type = true;
    for (int32_t i = 0; i < a->n; i++) {
        const lam_op_arg *t = &a->in[i];
        if (!t->is_tensor) continue;
        if (t->ndim < 0 || t->ndim > LAM_MAX_AXES || t->dtype < 0) return false;
        if (a->n_tensors++ == 0) a->dtype = t->dtype;
        a->one_type = a->one_type && t->dtype == a->dtype;
    }
    if (!a->one_type && !may_differ) return false;
    const char *name = lam_dtype_name(a->dtype);
    bool is_real = strcmp(name, "bfloat16") == 0 || strncmp(name, "float", 5) == 0;
    if (lam_dtype_bits(a->dtype) < 8 || (is_real && lam_dtype_bits(a->dtype) == 8)) return false;
    const lmi_form *form = lmi_form_of(a->dtype);
    if (form && form->parts == 2) return false; /* complex */
    if (s->types == full) return a->dtype == FLOAT || a->dtype == DOUBLE;
    return s->types == real ? is_real : s->types != ints || !is_real;
}

/* The result in place is the first argument, whose sizes can't change. */
static int32_t in_place(const asked *a, const struct shape *s, int32_t n, lam_result *out) {
    const lam_op_arg *x = tensor(a, 0);
    if (n != 1 || s->types == truth || !x || out->ndim != x->ndim) return 0;
    if (memcmp(out->sizes, x->sizes, sizeof *x->sizes * (size_t)x->ndim) != 0) return 0;
    out->in = (int32_t)(x - a->in);
    return 1;
}

int32_t lam_shape_run(int32_t rule, const lam_op_arg *in, int32_t n_in, lam_result out[LAM_MAX_RESULTS]) {
    if (rule < 0 || rule >= 2 * N_SHAPES || n_in < 0) return 0;
    const struct shape *s = &shapes[rule / 2];
    asked a = {.in = in, .word = lam_word_op(s->name), .n = n_in};
    if (!look(&a, s)) return 0;
    int32_t n = s->run(&a, out);
    if (s->types == truth && n == 1) out->dtype = BOOL;
    return rule & 1 ? in_place(&a, s, n, out) : n;
}
