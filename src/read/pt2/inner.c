/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that an operator calls. A run observes both, and counts the inner ones where the outer has no
 * rule; receptive fields follow some inner ones alone. So what torch calls in its place is pushed here. */
#include "read/pt2/inner.h"

#include <stdlib.h>

enum { FIRST_FRESH = 1 << 29, MOST_AXES = 32 };

/* -- pushing --------------------------------------------------------------------------------------------- */

const lam_op_arg *lmi_inner_at(const lam_op_info *op, int32_t position, int32_t nth) {
    for (int32_t i = 0; i < op->n_in; i++)
        if (op->in[i].position == position && nth-- == 0) return &op->in[i];
    return NULL;
}

int64_t lmi_inner_int(const lam_op_info *op, int32_t position, int64_t fallback) {
    const lam_op_arg *a = lmi_inner_at(op, position, 0);
    if (!a || a->is_tensor || (a->value.type != LAM_INT && a->value.type != LAM_BOOL)) return fallback;
    return a->value.i;
}

const char *lmi_inner_text(const lam_op_info *op, int32_t position) {
    const lam_op_arg *a = lmi_inner_at(op, position, 0);
    return a && !a->is_tensor && a->value.type == LAM_TEXT ? a->value.text : NULL;
}

const lam_op_arg *lmi_inner_tensor(const lam_op_info *op, int32_t position) {
    const lam_op_arg *a = lmi_inner_at(op, position, 0);
    return a && a->is_tensor ? a : NULL;
}

void lmi_inner_begin(lmi_pt2 *p) {
    lmi_vec_clear(&p->more_in);
    lmi_vec_clear(&p->more_out);
}

lam_status lmi_inner_give(lmi_pt2 *p, const lam_op_arg *a, int32_t position) {
    lam_op_arg copy;
    if (!a) return LAM_OK;
    copy = *a;
    copy.position = position;
    return lmi_vec_put(&p->more_in, &copy, p->e);
}

lam_status lmi_inner_move(lmi_pt2 *p, const lam_op_info *op, int32_t from, int32_t to) {
    for (int32_t i = 0; i < op->n_in; i++)
        if (op->in[i].position == from) LAM_TRY(lmi_inner_give(p, &op->in[i], to));
    return LAM_OK;
}

lam_status lmi_inner_value(lmi_pt2 *p, int32_t position, lam_value v) {
    const lam_op_arg a = {.position = position, .dtype = -1, .device = -1, .ndim = -1, .value = v};
    return lmi_vec_put(&p->more_in, &a, p->e);
}

lam_status lmi_inner_ints(lmi_pt2 *p, int32_t position, const int64_t *ints, int32_t n) {
    const int64_t *kept = lmi_copy(&p->arena, ints, (uint64_t)n, sizeof *ints);
    if (!kept) return lmi_nomem(p->e);
    return lmi_inner_value(p, position, (lam_value){.type = LAM_INTS, .n = n, .ints = kept});
}

lam_status lmi_inner_made(lmi_pt2 *p, const lam_op_arg *like, const int64_t *sizes, int32_t n,
                          lam_op_arg *out) {
    *out = *like;
    out->sizes = lmi_copy(&p->arena, sizes, (uint64_t)n, sizeof *sizes);
    out->ndim = n;
    out->position = 0;
    out->storage = out->object = (uint64_t)(FIRST_FRESH + p->fresh++) << 4;
    return out->sizes ? LAM_OK : lmi_nomem(p->e);
}

lam_status lmi_inner_result(lmi_pt2 *p, const lam_op_arg *a) { return lmi_vec_put(&p->more_out, a, p->e); }

lam_status lmi_inner_push(lmi_pt2 *p, const lam_op_info *op, int32_t parent, const char *name,
                          int32_t *index) {
    lam_op_info info = *op;
    info.name = name;
    info.parent = parent;
    info.flags = 0;
    info.n_in = (int32_t)p->more_in.n;
    info.n_out = (int32_t)p->more_out.n;
    info.in = p->more_in.data;
    info.out = p->more_out.data;
    return lam_build_op(p->b, &info, index, p->e);
}

/* Pushes an operator of two tensors or, with `b` NULL, of one. */
static lam_status apply(lmi_pt2 *p, const lam_op_info *op, int32_t index, const char *name,
                        const lam_op_arg *a, const lam_op_arg *b, const lam_op_arg *out) {
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, a, 0));
    LAM_TRY(lmi_inner_give(p, b, 1));
    LAM_TRY(lmi_inner_result(p, out));
    return lmi_inner_push(p, op, index, name, NULL);
}

lam_status lmi_inner_view(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *from,
                          const lam_op_arg *to) {
    return apply(p, op, index, "aten::view", from, NULL, to);
}

lam_status lmi_inner_place(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *from,
                           const lam_op_arg *to) {
    return apply(p, op, index, "aten::as_strided", from, NULL, to);
}

lam_status lmi_inner_product(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *a,
                             const lam_op_arg *b, const lam_op_arg *out) {
    return apply(p, op, index, "aten::bmm", a, b, out);
}

/* -- one operator with the same tensors ------------------------------------------------------------------ */

/* What the first operator calls with its own arguments and results. */
#define CALLS(outer, inner) {outer, inner},
static const struct calls {
    const char *outer, *inner;
} calls[] = {
#include "read/pt2/inner.def"
};
#undef CALLS

static lam_status same(lmi_pt2 *p, const lam_op_info *op, int32_t index, const char *inner) {
    lmi_inner_begin(p);
    for (int32_t i = 0; i < op->n_in; i++) LAM_TRY(lmi_inner_give(p, &op->in[i], op->in[i].position));
    for (int32_t i = 0; i < op->n_out; i++) LAM_TRY(lmi_inner_result(p, &op->out[i]));
    lam_op_info same = *op;
    int32_t at;
    LAM_TRY(lmi_inner_push(p, op, index, inner, &at));
    same.name = inner;
    return lmi_pt2_inner(p, &same, at);
}

/* -- convolutions ---------------------------------------------------------------------------------------- */

/* A number for each axis, from a list or from one number for all. */
static void fill_axes(const lam_op_info *op, int32_t position, int32_t n, int64_t fallback, int64_t *out) {
    const lam_op_arg *a = lmi_inner_at(op, position, 0);
    const bool list = a && !a->is_tensor && a->value.type == LAM_INTS;
    for (int32_t i = 0; i < n; i++) {
        if (list && a->value.n > 0)
            out[i] = a->value.ints[i < a->value.n ? i : a->value.n - 1];
        else
            out[i] = lmi_inner_int(op, position, fallback);
    }
}

typedef struct convolution {
    int64_t stride[MOST_AXES], pad[MOST_AXES], dil[MOST_AXES], outpad[MOST_AXES];
    int32_t n;
    bool transposed;
    int64_t groups;
    lam_op_arg x;
} convolution;

/* Padding "same" is what the window needs; where that is odd, torch first pads the end by one. */
static lam_status pad_same(lmi_pt2 *p, const lam_op_info *op, int32_t index, convolution *c) {
    const lam_op_arg *w = lmi_inner_at(op, 1, 0);
    int64_t pads[2 * MOST_AXES] = {0}, sizes[MOST_AXES];
    bool odd = false;
    memcpy(sizes, c->x.sizes, (size_t)c->x.ndim * sizeof *sizes);
    for (int32_t i = 0; i < c->n; i++) {
        int64_t all;
        if (w->sizes[i + 2] < 1 || lmi_mul_over(c->dil[i], w->sizes[i + 2] - 1, &all) || all < 0)
            return LAM_OK;
        c->pad[i] = all / 2;
        pads[2 * (c->n - 1 - i) + 1] = all % 2;
        odd = odd || all % 2;
        if (lmi_add_over(sizes[c->x.ndim - c->n + i], all % 2, &sizes[c->x.ndim - c->n + i])) return LAM_OK;
    }
    if (!odd) return LAM_OK;
    lam_op_arg padded;
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &c->x, 0));
    LAM_TRY(lmi_inner_ints(p, 1, pads, 2 * c->n));
    LAM_TRY(lmi_inner_made(p, &c->x, sizes, c->x.ndim, &padded));
    LAM_TRY(lmi_inner_result(p, &padded));
    c->x = padded;
    return lmi_inner_push(p, op, index, "aten::constant_pad_nd", NULL);
}

static lam_status convolve(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0), *w = lmi_inner_at(op, 1, 0);
    const char *padding = lmi_inner_text(op, 4);
    convolution c = {.transposed = strstr(op->name, "transpose") != NULL};
    if (!x || !w || !x->is_tensor || !w->is_tensor || x->ndim < 0 || w->ndim < 3 || x->ndim < w->ndim - 1)
        return LAM_OK;
    c.n = w->ndim - 2;
    c.x = *x;
    c.groups = lmi_inner_int(op, 6, 1);
    fill_axes(op, 3, c.n, 1, c.stride);
    fill_axes(op, 4, c.n, 0, c.pad);
    fill_axes(op, c.transposed ? 7 : 5, c.n, 1, c.dil);
    if (c.transposed) fill_axes(op, 5, c.n, 0, c.outpad);
    if (padding && strcmp(padding, "same") == 0) LAM_TRY(pad_same(p, op, index, &c));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &c.x, 0));
    LAM_TRY(lmi_inner_move(p, op, 1, 1));
    LAM_TRY(lmi_inner_move(p, op, 2, 2));
    LAM_TRY(lmi_inner_ints(p, 3, c.stride, c.n));
    LAM_TRY(lmi_inner_ints(p, 4, c.pad, c.n));
    LAM_TRY(lmi_inner_ints(p, 5, c.dil, c.n));
    LAM_TRY(lmi_inner_value(p, 6, (lam_value){.type = LAM_BOOL, .i = c.transposed}));
    LAM_TRY(lmi_inner_ints(p, 7, c.outpad, c.n));
    LAM_TRY(lmi_inner_value(p, 8, (lam_value){.type = LAM_INT, .i = c.groups}));
    for (int32_t i = 0; i < op->n_out; i++) LAM_TRY(lmi_inner_result(p, &op->out[i]));
    return lmi_inner_push(p, op, index, "aten::convolution", NULL);
}

/* -- padding, dropout, losses ---------------------------------------------------------------------------- */

static lam_status pad(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    static const char *const mirrored[] = {"aten::reflection_pad1d", "aten::reflection_pad2d",
                                           "aten::reflection_pad3d"},
                             *const copied[] = {"aten::replication_pad1d", "aten::replication_pad2d",
                                                "aten::replication_pad3d"};
    const char *mode = lmi_inner_text(op, 2);
    const lam_op_arg *pads = lmi_inner_at(op, 1, 0);
    const int32_t n = pads && !pads->is_tensor && pads->value.type == LAM_INTS ? pads->value.n / 2 : 0;
    if (!mode || strcmp(mode, "constant") == 0) return same(p, op, index, "aten::constant_pad_nd");
    if (strcmp(mode, "circular") == 0) return same(p, op, index, "aten::_pad_circular");
    if (n < 1 || n > 3) return LAM_OK;
    return same(p, op, index, strcmp(mode, "reflect") == 0 ? mirrored[n - 1] : copied[n - 1]);
}

/* In training a mask is drawn, divided by the share that is kept, and multiplied. */
static lam_status drop(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0), *share = lmi_inner_at(op, 1, 0);
    lam_op_arg mask;
    if (!lmi_inner_int(op, 2, 0) || !x || !x->is_tensor || x->ndim < 0 || !share || share->is_tensor)
        return LAM_OK;
    if (share->value.type == LAM_FLOAT && share->value.f == 0) return LAM_OK;
    LAM_TRY(lmi_inner_made(p, x, x->sizes, x->ndim, &mask));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_result(p, &mask));
    LAM_TRY(lmi_inner_push(p, op, index, "aten::empty_like", NULL));
    LAM_TRY(lmi_inner_give(p, &mask, 0));
    LAM_TRY(lmi_inner_push(p, op, index, "aten::bernoulli_", NULL));
    LAM_TRY(lmi_inner_value(p, 1, (lam_value){.type = LAM_FLOAT, .f = 0.5}));
    LAM_TRY(lmi_inner_push(p, op, index, "aten::div_", NULL));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, x, 0));
    LAM_TRY(lmi_inner_give(p, &mask, 1));
    for (int32_t i = 0; i < op->n_out; i++) LAM_TRY(lmi_inner_result(p, &op->out[i]));
    return lmi_inner_push(p, op, index, "aten::mul", NULL);
}

/* It returns the places of the largest too. */
static lam_status pool(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    lam_op_arg places;
    if (op->n_out != 1 || op->out[0].ndim < 0) return LAM_OK;
    LAM_TRY(lmi_inner_made(p, &op->out[0], op->out[0].sizes, op->out[0].ndim, &places));
    places.dtype = lam_dtype_by_name("int64");
    places.position = 1;
    lmi_inner_begin(p);
    for (int32_t i = 0; i < op->n_in; i++) LAM_TRY(lmi_inner_give(p, &op->in[i], op->in[i].position));
    LAM_TRY(lmi_inner_result(p, &op->out[0]));
    LAM_TRY(lmi_inner_result(p, &places));
    return lmi_inner_push(p, op, index,
                          strstr(op->name, "2d") ? "aten::max_pool2d_with_indices"
                                                 : "aten::max_pool3d_with_indices",
                          NULL);
}

/* It returns the norms too, one for each scale. */
static lam_status normalise_weight(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *g = lmi_inner_tensor(op, 1);
    lam_op_arg norms;
    if (!g || g->ndim < 0 || op->n_out != 1) return LAM_OK;
    LAM_TRY(lmi_inner_made(p, g, g->sizes, g->ndim, &norms));
    norms.position = 1;
    lmi_inner_begin(p);
    for (int32_t i = 0; i < op->n_in; i++) LAM_TRY(lmi_inner_give(p, &op->in[i], op->in[i].position));
    LAM_TRY(lmi_inner_result(p, &op->out[0]));
    LAM_TRY(lmi_inner_result(p, &norms));
    return lmi_inner_push(p, op, index, "aten::_weight_norm_interface", NULL);
}

static lam_status lose(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0);
    return same(p, op, index,
                x && x->is_tensor && x->ndim == 4 ? "aten::nll_loss2d_forward" : "aten::nll_loss_forward");
}

/* With targets that are classes, and no smoothing. */
static lam_status cross_entropy(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0), *y = lmi_inner_at(op, 1, 0),
                     *smooth = lmi_inner_at(op, 5, 0);
    const bool smooths =
        smooth && !smooth->is_tensor && smooth->value.type == LAM_FLOAT && smooth->value.f != 0;
    lam_op_arg logs;
    lam_op_info loss = *op;
    if (!x || !y || !x->is_tensor || !y->is_tensor || x->ndim < 1 || x->ndim == y->ndim || smooths)
        return LAM_OK;
    LAM_TRY(lmi_inner_made(p, x, x->sizes, x->ndim, &logs));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, x, 0));
    LAM_TRY(lmi_inner_value(p, 1, (lam_value){.type = LAM_INT, .i = x->ndim == 1 ? 0 : 1}));
    LAM_TRY(lmi_inner_result(p, &logs));
    LAM_TRY(lmi_inner_push(p, op, index, "aten::_log_softmax", NULL));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &logs, 0));
    for (int32_t i = 1; i < 5; i++) LAM_TRY(lmi_inner_move(p, op, i, i));
    for (int32_t i = 0; i < loss.n_out; i++) LAM_TRY(lmi_inner_result(p, &op->out[i]));
    return lmi_inner_push(p, op, index, x->ndim == 4 ? "aten::nll_loss2d_forward" : "aten::nll_loss_forward",
                          NULL);
}

/* Per element: log_sigmoid(x), and two differences and a product of it; then the reduction. */
static lam_status binary_cross_entropy(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    static const char *const steps[] = {"aten::log_sigmoid_forward", "aten::sub_", "aten::mul_",
                                        "aten::sub_"};
    const lam_op_arg *x = lmi_inner_at(op, 0, 0);
    const int64_t reduction = lmi_inner_int(op, 4, 1);
    if (!x || !x->is_tensor || x->ndim < 0 || lmi_inner_tensor(op, 2) || lmi_inner_tensor(op, 3))
        return LAM_OK;
    for (int32_t i = 0; i < 4; i++) {
        lmi_inner_begin(p);
        LAM_TRY(lmi_inner_give(p, x, 0));
        if (i) LAM_TRY(lmi_inner_move(p, op, 1, 1));
        LAM_TRY(lmi_inner_result(p, x));
        LAM_TRY(lmi_inner_push(p, op, index, steps[i], NULL));
    }
    if (reduction == 0) return LAM_OK;
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, x, 0));
    for (int32_t i = 0; i < op->n_out; i++) LAM_TRY(lmi_inner_result(p, &op->out[i]));
    return lmi_inner_push(p, op, index, reduction == 1 ? "aten::mean" : "aten::sum", NULL);
}

/* The classes are looked through, to see that they fit, and each sets one element. */
static lam_status one_hot(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0);
    lam_op_arg end;
    if (!x || !x->is_tensor || x->ndim < 0) return LAM_OK;
    LAM_TRY(lmi_inner_made(p, x, NULL, 0, &end));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, x, 0));
    for (int32_t i = 0; i < 2; i++) {
        end.position = i;
        LAM_TRY(lmi_inner_result(p, &end));
    }
    LAM_TRY(lmi_inner_push(p, op, index, "aten::aminmax", NULL));
    lmi_inner_begin(p);
    for (int32_t i = 0; i < op->n_out; i++) LAM_TRY(lmi_inner_give(p, &op->out[i], 0));
    LAM_TRY(lmi_inner_give(p, x, 2));
    for (int32_t i = 0; i < op->n_out; i++) LAM_TRY(lmi_inner_result(p, &op->out[i]));
    return lmi_inner_push(p, op, index, "aten::scatter_", NULL);
}

/* The last two axes change places. */
static lam_status turn(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_move(p, op, 0, 0));
    for (int32_t i = 1; i < 3; i++) LAM_TRY(lmi_inner_value(p, i, (lam_value){.type = LAM_INT, .i = -i}));
    for (int32_t i = 0; i < op->n_out; i++) LAM_TRY(lmi_inner_result(p, &op->out[i]));
    return lmi_inner_push(p, op, index, "aten::transpose", NULL);
}

/* Neighbours are subtracted, as often as the second argument says. */
static lam_status subtract(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_tensor(op, 0);
    if (lmi_inner_int(op, 1, 1) != 1 || !x || op->n_out != 1) return LAM_OK;
    lmi_inner_begin(p);
    for (int32_t i = 0; i < 2; i++) LAM_TRY(lmi_inner_give(p, x, i));
    LAM_TRY(lmi_inner_result(p, &op->out[0]));
    return lmi_inner_push(p, op, index, "aten::sub", NULL);
}

/* -- products -------------------------------------------------------------------------------------------- */

/* Pushes the product of all rows with a matrix, with what the sums start from; NULL: 0. */
static lam_status push_rows(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *start,
                            int64_t rows, const lam_op_arg *w) {
    const int64_t left[2] = {rows, w->sizes[1]}, right[2] = {w->sizes[1], w->sizes[0]},
                  made[2] = {rows, w->sizes[0]};
    const int32_t first = start ? 1 : 0;
    lam_op_arg x, y, out;
    LAM_TRY(lmi_inner_made(p, lmi_inner_at(op, 0, 0), left, 2, &x));
    LAM_TRY(lmi_inner_made(p, w, right, 2, &y));
    LAM_TRY(lmi_inner_made(p, &op->out[0], made, 2, &out));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, start, 0));
    LAM_TRY(lmi_inner_give(p, &x, first));
    LAM_TRY(lmi_inner_give(p, &y, first + 1));
    for (int32_t i = 0; start && i < 2; i++)
        LAM_TRY(lmi_inner_value(p, 3 + i, (lam_value){.type = LAM_INT, .i = 1}));
    LAM_TRY(lmi_inner_result(p, &out));
    return lmi_inner_push(p, op, index, start ? "aten::addmm" : "aten::mm", NULL);
}

/* Where rows do not lie one after the other, the bias is added afterwards, and not where the sum starts. */
static lam_status multiply_rows(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_tensor(op, 0), *w = lmi_inner_tensor(op, 1), *b = lmi_inner_tensor(op, 2);
    const int32_t value = p->now.n_in ? lmi_pt2_arg_value(p, &p->now, 0) : -1;
    const bool after = b && x && x->ndim > 2 && value >= 0 && lmi_pt2_value_at(p, value)->scattered;
    int64_t rows;
    if (!x || !w || x->ndim < 1 || w->ndim != 2 || op->n_out != 1 || x->sizes[x->ndim - 1] != w->sizes[1] ||
        !lmi_product(x->sizes, x->ndim - 1, &rows))
        return LAM_OK;
    LAM_TRY(push_rows(p, op, index, after ? NULL : b, rows, w));
    if (!after) return LAM_OK;
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &op->out[0], 0));
    LAM_TRY(lmi_inner_give(p, b, 1));
    LAM_TRY(lmi_inner_result(p, &op->out[0]));
    return lmi_inner_push(p, op, index, "aten::add_", NULL);
}

/* The same with the arguments and the result as views, so that fields are followed. */
static lam_status multiply_views(lmi_pt2 *p, const lam_op_info *op, int32_t index, const int64_t *sizes,
                                 int32_t n) {
    const int64_t batch = n > 3 ? sizes[3] : 1, left[3] = {batch, sizes[0], sizes[1]},
                  right[3] = {batch, sizes[1], sizes[2]}, made[3] = {batch, sizes[0], sizes[2]};
    const int32_t skip = n > 3 ? 0 : 1, axes = 3 - skip;
    lam_op_arg x, y, out;
    LAM_TRY(lmi_inner_made(p, lmi_inner_at(op, 0, 0), left + skip, axes, &x));
    LAM_TRY(lmi_inner_made(p, lmi_inner_at(op, 1, 0), right + skip, axes, &y));
    LAM_TRY(lmi_inner_made(p, &op->out[0], made + skip, axes, &out));
    LAM_TRY(lmi_inner_view(p, op, index, lmi_inner_at(op, 0, 0), &x));
    LAM_TRY(lmi_inner_view(p, op, index, lmi_inner_at(op, 1, 0), &y));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &x, 0));
    LAM_TRY(lmi_inner_give(p, &y, 1));
    LAM_TRY(lmi_inner_result(p, &out));
    LAM_TRY(lmi_inner_push(p, op, index, n > 3 ? "aten::bmm" : "aten::mm", NULL));
    return lmi_inner_view(p, op, index, &out, &op->out[0]);
}

/* True if all axes but the last two are equal. */
static bool same_batch(const lam_op_arg *a, const lam_op_arg *b) {
    return a->ndim == b->ndim && a->ndim > 2 &&
           memcmp(a->sizes, b->sizes, (size_t)(a->ndim - 2) * sizeof *a->sizes) == 0;
}

/* Rows of all batches times one matrix, or a batch of products. */
static lam_status multiply(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_tensor(op, 0), *y = lmi_inner_tensor(op, 1);
    int64_t n;
    if (!x || !y || op->n_out != 1 || x->ndim < 2 || y->ndim < 2 ||
        x->sizes[x->ndim - 1] != y->sizes[y->ndim - 2])
        return LAM_OK;
    const int64_t left = x->sizes[x->ndim - 2], inner = x->sizes[x->ndim - 1], right = y->sizes[y->ndim - 1];
    if (y->ndim == 2 && lmi_product(x->sizes, x->ndim - 1, &n))
        return multiply_views(p, op, index, (int64_t[]){n, inner, right}, 3);
    if (!same_batch(x, y) || !lmi_product(x->sizes, x->ndim - 2, &n)) return LAM_OK;
    return multiply_views(p, op, index, (int64_t[]){left, inner, right, n}, 4);
}

/* The tensor of the program that an argument is; NULL: it is none. */
static const lmi_pt2_value *value_of(const lmi_pt2 *p, int32_t position) {
    for (int32_t i = 0; i < p->now.n_in; i++) {
        const int32_t value = lmi_pt2_arg_value(p, &p->now, i);
        if (lmi_pt2_arg(p, &p->now, i)->position == position && value >= 0) return lmi_pt2_value_at(p, value);
    }
    return NULL;
}

/* The kernel takes three axes too from PyTorch 2.14 on. */
static bool fuses_three_axes(const lmi_pt2 *p) {
    const char *torch = lmi_json_as_text(&p->j, lmi_json_get(&p->j, LMI_JSON_ROOT, "torch_version"));
    char *dot;
    const long major = torch ? strtol(torch, &dot, 10) : 0;
    return major > 2 || (major == 2 && *dot == '.' && strtol(dot + 1, NULL, 10) >= 14);
}

/* Whether a CPU has one kernel for these: four axes, heads and widths that are the same, rows in one piece.
 */
static bool has_kernel(const lmi_pt2 *p, const lam_op_arg *q, const lam_op_arg *k, const lam_op_arg *v) {
    for (int32_t i = 0; i < 4; i++) {
        const lmi_pt2_value *of = value_of(p, i);
        if (of && of->apart) return false;
    }
    const int32_t n = q->ndim, last = n - 1;
    const size_t batch = (size_t)(n - 2) * sizeof *q->sizes;
    if (n != 4 && (n != 3 || !fuses_three_axes(p))) return false;
    return k->ndim == n && v->ndim == n && k->sizes[last] == q->sizes[last] &&
           v->sizes[last] == q->sizes[last] && memcmp(q->sizes, k->sizes, batch) == 0 &&
           memcmp(q->sizes, v->sizes, batch) == 0;
}

/* Queries and keys are scaled, and multiplied; a mask is added to the scores; a row whose scores are all
 * masked has the weights 0. */
static lam_status attend_in_steps(lmi_pt2 *p, const lam_op_info *op, int32_t index, const lam_op_arg *q,
                                  const lam_op_arg *k, const lam_op_arg *v) {
    const int64_t width = q->sizes[q->ndim - 1], queries = q->sizes[q->ndim - 2],
                  keys = k->sizes[k->ndim - 2], out_width = v->sizes[v->ndim - 1];
    const lam_op_arg *y = &op->out[0];
    int64_t n;
    lam_op_arg each[2], left, right, scores, rows, values, made;
    if (!lmi_product(y->sizes, y->ndim - 2, &n)) return LAM_OK;
    LAM_TRY(lmi_inner_made(p, q, q->sizes, q->ndim, &each[0]));
    LAM_TRY(lmi_inner_made(p, k, k->sizes, k->ndim, &each[1]));
    LAM_TRY(lmi_inner_made(p, q, (int64_t[]){n, queries, width}, 3, &left));
    LAM_TRY(lmi_inner_made(p, k, (int64_t[]){n, width, keys}, 3, &right));
    LAM_TRY(lmi_inner_made(p, q, (int64_t[]){n, queries, keys}, 3, &scores));
    LAM_TRY(lmi_inner_made(p, q, (int64_t[]){n, queries, 1}, 3, &rows));
    LAM_TRY(lmi_inner_made(p, v, (int64_t[]){n, keys, out_width}, 3, &values));
    LAM_TRY(lmi_inner_made(p, y, (int64_t[]){n, queries, out_width}, 3, &made));
    LAM_TRY(apply(p, op, index, "aten::mul", q, NULL, &each[0]));
    LAM_TRY(apply(p, op, index, "aten::mul", k, NULL, &each[1]));
    LAM_TRY(lmi_inner_product(p, op, index, &left, &right, &scores));
    if (lmi_inner_tensor(op, 3) || lmi_inner_int(op, 5, 0))
        LAM_TRY(apply(p, op, index, "aten::add_", &scores, &scores, &scores));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &scores, 0));
    LAM_TRY(lmi_inner_value(p, 1, (lam_value){.type = LAM_INT, .i = -1}));
    LAM_TRY(lmi_inner_result(p, &scores));
    LAM_TRY(lmi_inner_push(p, op, index, "aten::_softmax", NULL));
    LAM_TRY(apply(p, op, index, "aten::isneginf", &scores, NULL, &scores));
    LAM_TRY(apply(p, op, index, "aten::all", &scores, NULL, &rows));
    return lmi_inner_product(p, op, index, &scores, &values, &made);
}

/* In the kernel of a CPU or, where it has none for these, in steps; nothing is dropped, and heads are not
 * shared by number. */
static lam_status attend(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    static const int32_t to[] = {0, 1, 2, 5,
                                 3, 4, 6}; /* of query, key, value, mask, dropout, causal, scale */
    const lam_op_arg *dropout = lmi_inner_at(op, 4, 0), *q = lmi_inner_tensor(op, 0),
                     *k = lmi_inner_tensor(op, 1), *v = lmi_inner_tensor(op, 2);
    const bool drops = dropout && dropout->value.type == LAM_FLOAT && dropout->value.f != 0;
    const lmi_pt2_value *mask = value_of(p, 3);
    p->masked += mask && mask->step >= 0;
    if (drops || lmi_inner_int(op, 7, 0) || op->n_out != 1 || op->out[0].ndim < 2) return LAM_OK;
    if (!q || !k || !v || q->ndim < 2 || k->ndim < 2 || v->ndim < 2) return LAM_OK;
    if (!has_kernel(p, q, k, v)) return attend_in_steps(p, op, index, q, k, v);
    lmi_inner_begin(p);
    for (int32_t i = 0; i < 7; i++) LAM_TRY(lmi_inner_move(p, op, i, to[i]));
    LAM_TRY(lmi_inner_result(p, &op->out[0]));
    return lmi_inner_push(p, op, index, "aten::_scaled_dot_product_flash_attention_for_cpu", NULL);
}

/* -- normalisation --------------------------------------------------------------------------------------- */

/* The sizes of a tensor (batch, channels, ...), with `axes` first sizes and the product of the rest. */
static bool fold(const lam_op_arg *x, int64_t *batch, int64_t *channels, int64_t *rest) {
    if (!x || !x->is_tensor || x->ndim < 2) return false;
    *batch = x->sizes[0];
    *channels = x->sizes[1];
    return lmi_product(x->sizes + 2, x->ndim - 2, rest);
}

static lam_status normalise_groups(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0);
    const int64_t groups = lmi_inner_int(op, 1, 1);
    int64_t batch, channels, rest;
    lam_op_arg mean;
    if (!fold(x, &batch, &channels, &rest)) return LAM_OK;
    const int64_t all[4] = {batch, channels, rest, groups}, sizes[2] = {batch, groups};
    if (groups < 1) return LAM_OK;
    LAM_TRY(lmi_inner_made(p, x, sizes, 2, &mean));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, x, 0));
    LAM_TRY(lmi_inner_move(p, op, 2, 1));
    LAM_TRY(lmi_inner_move(p, op, 3, 2));
    for (int32_t i = 0; i < 4; i++)
        LAM_TRY(lmi_inner_value(p, 3 + i, (lam_value){.type = LAM_INT, .i = all[i]}));
    for (int32_t i = 0; i < op->n_out; i++) LAM_TRY(lmi_inner_result(p, &op->out[i]));
    for (int32_t i = 1; i < 3; i++) {
        mean.position = i;
        LAM_TRY(lmi_inner_result(p, &mean));
    }
    return lmi_inner_push(p, op, index, "aten::native_group_norm", NULL);
}

/* Every channel of every sample is normalised alone: as one batch of all of them. */
static lam_status normalise_instances(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0);
    int64_t batch, channels, rest, sizes[MOST_AXES];
    lam_op_arg flat, one, out;
    if (!fold(x, &batch, &channels, &rest) || x->ndim > MOST_AXES || op->n_out < 1) return LAM_OK;
    memcpy(sizes, x->sizes, (size_t)x->ndim * sizeof *sizes);
    sizes[0] = 1;
    if (lmi_mul_over(batch, channels, &sizes[1])) return LAM_OK;
    LAM_TRY(lmi_inner_made(p, x, sizes, x->ndim, &flat));
    LAM_TRY(lmi_inner_made(p, x, sizes, x->ndim, &out));
    LAM_TRY(lmi_inner_made(p, x, &sizes[1], 1, &one));
    LAM_TRY(lmi_inner_view(p, op, index, x, &flat));
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, &flat, 0));
    for (int32_t i = 1; i < 5; i++) {
        const lam_op_arg *a = lmi_inner_at(op, i, 0);
        if (a && a->is_tensor) LAM_TRY(lmi_inner_give(p, &one, i));
    }
    LAM_TRY(lmi_inner_move(p, op, 5, 5));
    LAM_TRY(lmi_inner_result(p, &out));
    LAM_TRY(lmi_inner_push(p, op, index, "aten::native_batch_norm", NULL));
    return lmi_inner_view(p, op, index, &out, &op->out[0]);
}

/* -- resizing -------------------------------------------------------------------------------------------- */

/* With a factor instead of sizes: the sizes are those of the result, and the factor of each axis is told too.
 */
static lam_status resize(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0), *out = op->n_out ? &op->out[0] : NULL;
    const bool blends = !strstr(op->name, "nearest");
    const int32_t rank = x && x->is_tensor ? x->ndim - 2 : 0, at = blends ? 3 : 2;
    if (rank < 1 || rank > 3 || !out || out->ndim != x->ndim || p->now.n_floats != rank) return LAM_OK;
    lmi_inner_begin(p);
    LAM_TRY(lmi_inner_give(p, x, 0));
    LAM_TRY(lmi_inner_ints(p, 1, out->sizes + 2, rank));
    if (blends) LAM_TRY(lmi_inner_move(p, op, 2, 2));
    for (int32_t i = 0; i < rank; i++) {
        const double *factor = lmi_vec_at(&p->floats, p->now.first_float + (size_t)i);
        const lam_value v = {.type = LAM_FLOAT, .f = *factor};
        LAM_TRY(lmi_inner_value(p, at + i, v));
    }
    LAM_TRY(lmi_inner_result(p, out));
    return lmi_inner_push(p, op, index, op->name, NULL);
}

/* -- bilinear -------------------------------------------------------------------------------------------- */

/* For each output feature one product with the first input, and one with the second; then the bias. */
static lam_status bilinear(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    const lam_op_arg *x = lmi_inner_at(op, 0, 0), *w = lmi_inner_at(op, 2, 0), *b = lmi_inner_at(op, 3, 0);
    int64_t rows, all;
    lam_op_arg first, second, made, column, one;
    if (!x || !w || !x->is_tensor || !w->is_tensor || w->ndim != 3 || x->ndim < 1 || op->n_out < 1 ||
        !lmi_product(x->sizes, x->ndim - 1, &rows) || lmi_mul_over(rows, w->sizes[0], &all))
        return LAM_OK;
    const int64_t in[3] = {w->sizes[0], rows, w->sizes[1]}, mid[3] = {w->sizes[0], rows, w->sizes[2]},
                  left[3] = {all, 1, w->sizes[2]}, right[3] = {all, w->sizes[2], 1}, out[3] = {all, 1, 1};
    LAM_TRY(lmi_inner_made(p, x, in, 3, &first));
    LAM_TRY(lmi_inner_made(p, x, mid, 3, &made));
    LAM_TRY(lmi_inner_place(p, op, index, x, &first));
    LAM_TRY(lmi_inner_product(p, op, index, &first, w, &made));
    LAM_TRY(lmi_inner_made(p, x, left, 3, &second));
    LAM_TRY(lmi_inner_place(p, op, index, &made, &second));
    LAM_TRY(lmi_inner_made(p, x, right, 3, &column));
    LAM_TRY(lmi_inner_made(p, x, out, 3, &one));
    LAM_TRY(lmi_inner_product(p, op, index, &second, &column, &one));
    LAM_TRY(lmi_inner_place(p, op, index, &one, &op->out[0]));
    for (int32_t i = 0; i < (b && b->is_tensor ? 2 : 1); i++) {
        lmi_inner_begin(p);
        LAM_TRY(lmi_inner_give(p, &op->out[0], 0));
        LAM_TRY(lmi_inner_give(p, &op->out[0], 1));
        LAM_TRY(lmi_inner_result(p, &op->out[0]));
        LAM_TRY(lmi_inner_push(p, op, index, "aten::add_", NULL));
    }
    return LAM_OK;
}

/* -- which ----------------------------------------------------------------------------------------------- */

typedef lam_status opener(lmi_pt2 *p, const lam_op_info *op, int32_t index);

static const struct {
    const char *names;
    opener *open;
} openers[] = {
    {"aten::conv1d aten::conv2d aten::conv3d aten::conv_transpose1d aten::conv_transpose2d "
     "aten::conv_transpose3d",
     convolve},
    {"aten::pad", pad},
    {"aten::dropout aten::dropout_", drop},
    {"aten::nll_loss aten::nll_loss_nd", lose},
    {"aten::cross_entropy_loss", cross_entropy},
    {"aten::lstm aten::gru aten::rnn_tanh aten::rnn_relu", lmi_inner_recurrent},
    {"aten::lstm_cell aten::gru_cell aten::rnn_tanh_cell aten::rnn_relu_cell", lmi_inner_cell},
    {"aten::einsum", lmi_inner_contract},
    {"aten::linear", multiply_rows},
    {"aten::matmul", multiply},
    {"aten::scaled_dot_product_attention", attend},
    {"aten::binary_cross_entropy_with_logits", binary_cross_entropy},
    {"aten::one_hot", one_hot},
    {"aten::_weight_norm", normalise_weight},
    {"aten::max_pool2d aten::max_pool3d", pool},
    {"aten::diff", subtract},
    {"aten::mT aten::mH aten::adjoint", turn},
    {"aten::group_norm", normalise_groups},
    {"aten::instance_norm", normalise_instances},
    {"aten::bilinear", bilinear},
    {"aten::upsample_nearest1d aten::upsample_nearest2d aten::upsample_nearest3d "
     "aten::_upsample_nearest_exact1d aten::_upsample_nearest_exact2d aten::_upsample_nearest_exact3d "
     "aten::upsample_linear1d aten::upsample_bilinear2d aten::upsample_trilinear3d "
     "aten::upsample_bicubic2d aten::_upsample_bilinear2d_aa aten::_upsample_bicubic2d_aa",
     resize}};

enum { N_OPENERS = sizeof openers / sizeof *openers, N_INNER = N_OPENERS + sizeof calls / sizeof *calls };

/* Only composite operators call others, and overloads of upsample_ that take factors. */
static bool is_opened(int64_t i, const char *op) {
    if (!(i < N_OPENERS ? lmi_listed(openers[i].names, op) : strcmp(calls[i - N_OPENERS].outer, op) == 0))
        return false;
    return lam_word_op_wraps(lam_word_op(op)) || strstr(op, "upsample_");
}

lam_status lmi_pt2_inner(lmi_pt2 *p, const lam_op_info *op, int32_t index) {
    int64_t i;
    LAM_TRY(lmi_pt2_find(p, &p->inner, op->name, N_INNER, is_opened, &i));
    if (i == N_INNER) return LAM_OK;
    return i < N_OPENERS ? openers[i].open(p, op, index) : same(p, op, index, calls[i - N_OPENERS].inner);
}
