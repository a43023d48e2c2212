/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes as operators: each argument and attribute at the position where the signature of the operator's word
 * has the role (operators.def, vocab/signatures_op.def). */
#include "read/onnx/arguments.h"
#include "vocab/vocab.h"

#include <stdio.h>

/* -- most of them ------------------------------------------------------------------------------------------
 */

static lam_status form_of_rank(lmi_onnx_op *o, const char *form, int32_t rank) {
    char text[32];
    snprintf(text, sizeof text, "%s%dd", form, (int)rank);
    return lmi_onnx_name_op(o, rank >= 1 && rank <= 3 ? text : "");
}

static lam_status plain(lmi_onnx_op *o) {
    for (int32_t i = 0; i < o->n->n_in; i++) LAM_TRY(lmi_onnx_put_tensor(o, i, i));
    return LAM_OK;
}

static lam_status variadic(lmi_onnx_op *o) {
    if (o->n->n_in > 2) LAM_TRY(lmi_onnx_name_op(o, "many"));
    return plain(o);
}

static lam_status concat(lmi_onnx_op *o) {
    for (int32_t i = 0; i < o->n->n_in; i++) LAM_TRY(lmi_onnx_put_tensor(o, i, 0));
    return lmi_onnx_put_int(o, 1, lmi_onnx_int(o->n, "axis", 0));
}

static lam_status axis(lmi_onnx_op *o) {
    LAM_TRY(first(o));
    return lmi_onnx_put_int(o, 1, lmi_onnx_int(o->n, "axis", 0));
}

/* Up to opset 12 all axes from one on were normalised as if they were one. */
static lam_status softmax(lmi_onnx_op *o) {
    const lmi_onnx_value *x = in(o, 0);
    const bool old = lmi_onnx_int(o->n, "opset", o->n->opset) < 13; /* a quantised one says which it is of */
    int64_t at = lmi_onnx_int(o->n, "axis", old ? 1 : -1);
    if (!old || !is_known(x) || x->ndim == 0) {
        LAM_TRY(first(o));
        return lmi_onnx_put_int(o, 1, at);
    }
    int64_t flat[2] = {1, 1};
    if (at < 0) at += x->ndim;
    for (int32_t i = 0; i < x->ndim; i++) flat[i >= at] *= x->sizes[i]; /* the whole product fits */
    if (at == x->ndim - 1) {
        LAM_TRY(first(o));
        return lmi_onnx_put_int(o, 1, -1);
    }
    LAM_TRY(lmi_onnx_put_shaped(o, 0, 0, 2, flat));
    return lmi_onnx_put_int(o, 1, 1);
}

static lam_status cumsum(lmi_onnx_op *o) {
    int64_t at[FEW];
    int32_t n;
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_numbers(o, 1, NULL, at, &n));
    return n == 1 ? lmi_onnx_put_int(o, 1, at[0]) : LAM_OK;
}

static lam_status reduce(lmi_onnx_op *o) {
    int64_t at[FEW];
    int32_t n;
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_numbers(o, 1, "axes", at, &n));
    LAM_TRY(n ? lmi_onnx_put_ints(o, 1, at, n) : LAM_OK);
    return lmi_onnx_put_flag(o, 2, lmi_onnx_int(o->n, "keepdims", 1) != 0);
}

/* Behind each tensor there are its scale and its zero point, and before the list of a Concat those of the
 * result. */
static lam_status two_quantised(lmi_onnx_op *o) {
    LAM_TRY(first(o));
    return lmi_onnx_put_tensor(o, 3, 1);
}

static lam_status where_quantised(lmi_onnx_op *o) {
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_put_tensor(o, 1, 1));
    return lmi_onnx_put_tensor(o, 4, 2);
}

static lam_status concat_quantised(lmi_onnx_op *o) {
    for (int32_t i = 2; i < o->n->n_in; i += 3) LAM_TRY(lmi_onnx_put_tensor(o, i, 0));
    return lmi_onnx_put_int(o, 1, lmi_onnx_int(o->n, "axis", 0));
}

static lam_status clip(lmi_onnx_op *o) {
    static const char *const ends[] = {"min", "max"};
    LAM_TRY(first(o));
    for (int32_t i = 0; i < 2; i++) {
        const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, ends[i]);
        LAM_TRY(lmi_onnx_put_tensor(o, i + 1, i + 1));
        if (a && o->n->n_in < 2)
            LAM_TRY(lmi_onnx_put_value(o, i + 1, (lam_value){.type = LAM_FLOAT, .f = (double)a->f}));
    }
    return LAM_OK;
}

static lam_status gelu(lmi_onnx_op *o) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, "approximate");
    LAM_TRY(first(o));
    return lmi_onnx_put_value(o, 1, (lam_value){.type = LAM_TEXT, .text = a && a->s ? a->s : "none"});
}

static lam_status topk(lmi_onnx_op *o) {
    int64_t k[FEW];
    int32_t n;
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_numbers(o, 1, NULL, k, &n));
    if (n == 0 && lmi_onnx_attr(o->n, "k")) k[0] = lmi_onnx_int(o->n, "k", 0), n = 1;
    if (n == 1) LAM_TRY(lmi_onnx_put_int(o, 1, k[0]));
    return lmi_onnx_put_int(o, 2, lmi_onnx_int(o->n, "axis", -1));
}

/* -- products ----------------------------------------------------------------------------------------------
 */

/* The second factor is behind scale and zero point of the first one in QLinearMatMul. */
static lam_status product(lmi_onnx_op *o) {
    LAM_TRY(lmi_onnx_put_tensor(o, 0, 0));
    return lmi_onnx_put_tensor(o, strcmp(o->n->op, "QLinearMatMul") == 0 ? 3 : 1, 1);
}

/* A factor as it is multiplied: with its last two axes exchanged where an attribute says so. */
static lam_status factor(lmi_onnx_op *o, int32_t i, int32_t position, const char *turned) {
    const lmi_onnx_value *v = in(o, i);
    int64_t sizes[FEW];
    if (!is_known(v) || v->ndim < 2 || lmi_onnx_int(o->n, turned, 0) == 0)
        return lmi_onnx_put_tensor(o, i, position);
    memcpy(sizes, v->sizes, (size_t)v->ndim * sizeof *sizes);
    sizes[v->ndim - 1] = v->sizes[v->ndim - 2];
    sizes[v->ndim - 2] = v->sizes[v->ndim - 1];
    return lmi_onnx_put_shaped(o, i, position, v->ndim, sizes);
}

static lam_status scaled_product(lmi_onnx_op *o) {
    LAM_TRY(factor(o, 0, 0, "transA"));
    LAM_TRY(factor(o, 1, 1, "transB"));
    return lmi_onnx_put_value(o, 2, (lam_value){.type = LAM_FLOAT, .f = real(o, "alpha", 1)});
}

/* alpha*A*B + beta*C, as addmm(C, A, B); the quantised one has scales and zero points between them. */
static lam_status gemm(lmi_onnx_op *o) {
    static const char *const names[] = {"beta", "alpha"};
    const bool linear = strcmp(o->n->op, "QGemm") == 0;
    LAM_TRY(lmi_onnx_put_tensor(o, linear ? 6 : 2, 0));
    LAM_TRY(factor(o, 0, 1, "transA"));
    LAM_TRY(factor(o, linear ? 3 : 1, 2, "transB"));
    for (int32_t i = 0; i < 2; i++) {
        const double by = linear ? 1 : real(o, names[i], 1);
        LAM_TRY(lmi_onnx_put_value(o, 3 + i,
                                   (lam_value){.type = LAM_FLOAT, .f = i == 0 && o->n->n_in < 3 ? 1 : by}));
    }
    return LAM_OK;
}

/* As _addmm_activation: the flag is that of gelu, and relu is the other one. */
static lam_status gemm_act(lmi_onnx_op *o) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, "activation");
    LAM_TRY(gemm(o));
    return a && a->s && strcmp(a->s, "Relu") == 0 ? lmi_onnx_put_flag(o, 5, false) : LAM_OK;
}

/* The product of the sizes of the axes that both factors have and the result has not; -1: the equation is of
 * another kind than a product. */
static int64_t contracted(const lmi_onnx_op *o, const char *equation) {
    enum { IN_FIRST = 1, IN_SECOND = 2, IN_RESULT = 4 };
    const lmi_onnx_value *x = in(o, 0), *w = in(o, 1);
    uint8_t of[LMI_EINSUM_LABELS] = {0}, first[LMI_EINSUM_AXES], second[LMI_EINSUM_AXES];
    int64_t red = 1, size[LMI_EINSUM_LABELS];
    lmi_einsum e;
    if (!is_known(x) || !is_known(w) || !lmi_einsum_read(equation, &e) || e.n != 2 || o->n->n_in != 2 ||
        !lmi_einsum_label(&e.term[0], x->ndim, first) || !lmi_einsum_label(&e.term[1], w->ndim, second))
        return -1;
    for (int32_t i = 0; i < e.result.n; i++) of[e.result.letter[i]] = IN_RESULT;
    for (int32_t i = LMI_EINSUM_LETTERS; i < LMI_EINSUM_LABELS; i++)
        of[i] = e.result.dots < 0 ? 0 : IN_RESULT;
    for (int32_t i = 0; i < w->ndim; i++) {
        of[second[i]] |= IN_SECOND;
        size[second[i]] = w->sizes[i];
    }
    for (int32_t i = 0; i < x->ndim; i++) {
        const uint8_t label = first[i];
        if (of[label] & IN_FIRST) return -1; /* a diagonal */
        of[label] |= IN_FIRST;
        if (of[label] != (IN_FIRST | IN_SECOND)) continue;
        if (size[label] != x->sizes[i] || lmi_mul_over(red, x->sizes[i], &red)) return -1;
    }
    for (int32_t i = 0; i < LMI_EINSUM_LABELS; i++) /* an axis that only one factor has is summed alone */
        if (of[i] == IN_FIRST || of[i] == IN_SECOND) return -1;
    return red;
}

static lam_status einsum(lmi_onnx_op *o) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, "equation");
    const lmi_onnx_value *x = in(o, 0);
    const int64_t red = a && a->s ? contracted(o, a->s) : -1;
    int64_t all = 1;
    if (red < 1) return plain(o);
    lmi_product(x->sizes, x->ndim, &all);
    const int64_t flat[] = {all / red, red};
    LAM_TRY(lmi_onnx_name_op(o, "product"));
    LAM_TRY(lmi_onnx_put_shaped(o, 0, 0, 2, flat));
    return lmi_onnx_put_tensor(o, 1, 1);
}

/* -- windows -----------------------------------------------------------------------------------------------
 */

/* What of the padding is before the first element, where the file only says that the sizes fit. */
static int64_t same_pad(bool lower, int64_t size, int64_t k, int64_t stride, int64_t dil) {
    if (stride < 1 || k < 1 || size < 1 || dil < 1 || k > INT32_MAX || dil > INT32_MAX || stride > INT32_MAX)
        return 0;
    const int64_t last = (size - 1) / stride * stride, all = last - size + (k - 1) * dil + 1;
    if (all <= 0) return 0;
    return lower ? all - all / 2 : all / 2;
}

typedef struct window {
    int64_t k[FEW], stride[FEW], dil[FEW], pad[FEW], outpad[FEW];
} window;

static void spread(const lmi_onnx_node *n, const char *attribute, int64_t otherwise, int32_t rank,
                   int64_t *to) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(n, attribute);
    for (int32_t i = 0; i < rank; i++) to[i] = a && a->ints && i < a->n ? a->ints[i] : otherwise;
}

/* The windows over the last `rank` axes of the first argument. */
static void window_of(const lmi_onnx_op *o, int32_t rank, window *w) {
    const lmi_onnx_attribute *how = lmi_onnx_attr(o->n, "auto_pad");
    const bool same = how && how->s && strncmp(how->s, "SAME", 4) == 0;
    const lmi_onnx_value *x = in(o, 0);
    spread(o->n, "strides", 1, rank, w->stride);
    spread(o->n, "dilations", 1, rank, w->dil);
    spread(o->n, "pads", 0, rank, w->pad);
    spread(o->n, "output_padding", 0, rank, w->outpad);
    for (int32_t i = 0; same && i < rank; i++)
        w->pad[i] = x && x->ndim == rank + 2 ? same_pad(strcmp(how->s, "SAME_LOWER") == 0, x->sizes[i + 2],
                                                        w->k[i], w->stride[i], w->dil[i])
                                             : 0;
}

static lam_status conv(lmi_onnx_op *o) {
    const bool linear = strcmp(o->n->op, "QLinearConv") == 0, integer = strcmp(o->n->op, "ConvInteger") == 0;
    const lmi_onnx_value *w = in(o, linear ? 3 : 1);
    const int32_t rank = w && w->ndim > 2 ? w->ndim - 2 : 0;
    const bool turned = strcmp(o->n->op, "ConvTranspose") == 0;
    window at;
    LAM_TRY(lmi_onnx_put_tensor(o, 0, 0));
    LAM_TRY(lmi_onnx_put_tensor(o, linear ? 3 : 1, 1));
    if (!integer) LAM_TRY(lmi_onnx_put_tensor(o, linear ? 8 : 2, 2));
    for (int32_t i = 0; i < rank; i++) at.k[i] = w->sizes[i + 2];
    window_of(o, rank, &at);
    LAM_TRY(lmi_onnx_put_ints(o, 3, at.stride, rank));
    LAM_TRY(lmi_onnx_put_ints(o, 4, at.pad, rank));
    LAM_TRY(lmi_onnx_put_ints(o, 5, at.dil, rank));
    LAM_TRY(lmi_onnx_put_flag(o, 6, turned));
    LAM_TRY(lmi_onnx_put_ints(o, 7, at.outpad, rank));
    return lmi_onnx_put_int(o, 8, lmi_onnx_int(o->n, "group", 1));
}

/* As torchvision's: input, weight, offsets, mask, bias; the mask is not there where it has no elements. */
static lam_status deform_conv(lmi_onnx_op *o) {
    static const int32_t places[] = {0, 1, 2, 4, 3};
    for (int32_t i = 0; i < 5; i++) LAM_TRY(lmi_onnx_put_tensor(o, i, places[i]));
    return lmi_onnx_put_flag(o, 13, in(o, 4) != NULL);
}

/* What is done to the result is given by a name, and may be nothing. */
static lam_status conv_act(lmi_onnx_op *o) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, "activation");
    const bool more = (a && a->s && *a->s) || in(o, 3);
    LAM_TRY(conv(o));
    LAM_TRY(lmi_onnx_put_tensor(o, 3, 9)); /* which is added to it */
    return more ? lmi_onnx_name_op(o, "act") : LAM_OK;
}

/* Each channel by itself, with as many steps before the first as the kernel reaches back. Where the channels
 * are the last axis, a part of them may be taken, and there is no word for it. */
static lam_status causal_conv(lmi_onnx_op *o) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, "activation");
    const lmi_onnx_value *w = in(o, 1);
    const bool act = a && a->s && *a->s && strcmp(a->s, "none") != 0, known = is_known(w) && w->ndim == 3;
    const int64_t one = 1, dilation = lmi_onnx_int(o->n, "dilation", 1), none = 0;
    int64_t before;
    if (lmi_onnx_int(o->n, "channels_last", 0) || lmi_onnx_int(o->n, "ndim", 1) != 1)
        LAM_TRY(lmi_onnx_name_op(o, "other"));
    else if (act)
        LAM_TRY(lmi_onnx_name_op(o, "act"));
    for (int32_t i = 0; i < 3; i++) LAM_TRY(lmi_onnx_put_tensor(o, i, i));
    if (!known || lmi_mul_over(w->sizes[2] - 1, dilation, &before)) return LAM_OK;
    LAM_TRY(lmi_onnx_put_ints(o, 3, &one, 1));
    LAM_TRY(lmi_onnx_put_ints(o, 4, &before, 1));
    LAM_TRY(lmi_onnx_put_ints(o, 5, &dilation, 1));
    LAM_TRY(lmi_onnx_put_flag(o, 6, false));
    LAM_TRY(lmi_onnx_put_ints(o, 7, &none, 1));
    return lmi_onnx_put_int(o, 8, w->sizes[0]);
}

static lam_status pool(lmi_onnx_op *o) {
    const lmi_onnx_attribute *k = lmi_onnx_attr(o->n, "kernel_shape");
    const int32_t rank = k && k->ints && k->n <= FEW ? k->n : 0;
    const bool max = strcmp(o->n->op, "MaxPool") == 0, last = lmi_onnx_int(o->n, "channels_last", 0) != 0;
    window at;
    if (!last) LAM_TRY(form_of_rank(o, "", rank));
    LAM_TRY(lmi_onnx_put_tensor(o, 0, 0));
    spread(o->n, "kernel_shape", 0, rank, at.k);
    window_of(o, rank, &at);
    LAM_TRY(lmi_onnx_put_ints(o, 1, at.k, rank));
    LAM_TRY(lmi_onnx_put_ints(o, 2, at.stride, rank));
    LAM_TRY(lmi_onnx_put_ints(o, 3, at.pad, rank));
    if (max) LAM_TRY(lmi_onnx_put_ints(o, 4, at.dil, rank));
    return lmi_onnx_put_flag(o, max ? 5 : 4, lmi_onnx_int(o->n, "ceil_mode", 0) != 0);
}

static lam_status global_pool(lmi_onnx_op *o) {
    const lmi_onnx_value *x = in(o, 0);
    const bool last = lmi_onnx_int(o->n, "channels_last", 0) != 0;
    if (!last) LAM_TRY(form_of_rank(o, "", is_known(x) ? x->ndim - 2 : 2));
    return first(o);
}

static lam_status resize(lmi_onnx_op *o) {
    const lmi_onnx_attribute *mode = lmi_onnx_attr(o->n, "mode");
    const lmi_onnx_value *x = in(o, 0);
    const char *how = mode && mode->s ? mode->s : "nearest";
    const int32_t rank = is_known(x) ? x->ndim - 2 : 2;
    const bool known =
        strcmp(how, "nearest") == 0 || strcmp(how, "linear") == 0 || (strcmp(how, "cubic") == 0 && rank == 2);
    if (known && lmi_onnx_int(o->n, "antialias", 0) == 0) LAM_TRY(form_of_rank(o, how, rank));
    return first(o);
}

/* Tables of which only some rows are read, and values tell which: how much of them is not told. */
static lam_status rows_of(lmi_onnx_op *o) {
    const bool embeds = strcmp(o->n->op, "GatherBlockQuantized") != 0;
    for (int32_t i = 0; i < o->n->n_in; i++) {
        const bool table = embeds ? i >= 2 && i <= 4 : i != 1;
        const lmi_onnx_value *x = table ? in(o, i) : NULL;
        if (x)
            LAM_TRY(lmi_onnx_put_shaped(o, i, i, -1, x->sizes));
        else
            LAM_TRY(lmi_onnx_put_tensor(o, i, i));
    }
    return LAM_OK;
}

/* -- normalisations ----------------------------------------------------------------------------------------
 */

static lam_status batch_norm(lmi_onnx_op *o) {
    LAM_TRY(plain(o));
    return lmi_onnx_put_flag(o, 5, lmi_onnx_int(o->n, "training_mode", 0) != 0);
}

/* A bias that is added first. */
static lam_status biased(lmi_onnx_op *o) {
    if (in(o, 1)) LAM_TRY(lmi_onnx_name_op(o, "bias"));
    return plain(o);
}

/* Some experts of many: `k` for each row. */
static lam_status experts(lmi_onnx_op *o) {
    const int32_t step = strcmp(o->n->op, "QMoE") == 0 ? 3 : 2;
    int64_t parts[3], sizes[3];
    int32_t n = 0;
    bool known = true;
    for (int32_t i = 2; i < 2 + 3 * step; i += step) {
        const lmi_onnx_value *w = in(o, i);
        if (!w) continue;
        const int32_t ndim = lmi_onnx_unpacked(o->m, o->n, i, sizes);
        if (ndim < 0 && is_known(w) && w->ndim == 3) memcpy(sizes, w->sizes, sizeof sizes);
        known = known && is_known(w) && w->ndim == 3 && lmi_product(sizes + 1, 2, &parts[n++]);
    }
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_put_int(o, 1, lmi_onnx_int(o->n, "k", 1)));
    if (known && n > 0) LAM_TRY(lmi_onnx_put_ints(o, 2, parts, n));
    for (int32_t i = 1; i < o->n->n_in; i++) LAM_TRY(lmi_onnx_put_tensor(o, i, 2 + i));
    return LAM_OK;
}

/* The shape of what is normalised, at 1, is that of the last axes. */
static lam_status layer_norm(lmi_onnx_op *o) {
    const lmi_onnx_value *x = in(o, 0);
    int64_t at = lmi_onnx_int(o->n, "axis", -1);
    LAM_TRY(first(o));
    if (is_known(x) && at < 0) at += x->ndim;
    if (is_known(x) && at >= 0 && at < x->ndim)
        LAM_TRY(lmi_onnx_put_ints(o, 1, x->sizes + at, x->ndim - (int32_t)at));
    LAM_TRY(lmi_onnx_put_tensor(o, 1, 2));
    return lmi_onnx_put_tensor(o, 2, 3);
}

static lam_status group_norm(lmi_onnx_op *o) {
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_put_int(o, 1, lmi_onnx_int(o->n, "num_groups", 0)));
    LAM_TRY(lmi_onnx_put_tensor(o, 1, 2));
    return lmi_onnx_put_tensor(o, 2, 3);
}

/* -- parts and other orders --------------------------------------------------------------------------------
 */

static lam_status transpose(lmi_onnx_op *o) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(o->n, "perm");
    const lmi_onnx_value *x = in(o, 0);
    int64_t order[FEW];
    LAM_TRY(first(o));
    if (a && a->ints && a->n <= FEW) return lmi_onnx_put_ints(o, 1, a->ints, a->n);
    if (!x || x->ndim < 0) return LAM_OK;
    for (int32_t i = 0; i < x->ndim; i++) order[i] = x->ndim - 1 - i;
    return lmi_onnx_put_ints(o, 1, order, x->ndim);
}

static lam_status slice(lmi_onnx_op *o) {
    int64_t from[FEW], to[FEW], axes[FEW], steps[FEW];
    int32_t n, n_to, n_axes, n_steps;
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_numbers(o, 1, "starts", from, &n));
    LAM_TRY(lmi_onnx_numbers(o, 2, "ends", to, &n_to));
    LAM_TRY(lmi_onnx_numbers(o, 3, "axes", axes, &n_axes));
    LAM_TRY(lmi_onnx_numbers(o, 4, NULL, steps, &n_steps));
    const bool axes_known = o->n->n_in <= 3 || n_axes == 1, stepped = o->n->n_in <= 4 || n_steps == 1;
    if (n != 1 || n_to != 1 || !axes_known || !stepped) return lmi_onnx_name_op(o, "axes");
    LAM_TRY(lmi_onnx_put_int(o, 1, n_axes ? axes[0] : 0));
    LAM_TRY(lmi_onnx_put_int(o, 2, from[0]));
    LAM_TRY(lmi_onnx_put_int(o, 3, to[0]));
    return lmi_onnx_put_int(o, 4, n_steps ? steps[0] : 1);
}

static lam_status split(lmi_onnx_op *o) {
    LAM_TRY(first(o));
    return lmi_onnx_put_int(o, 2, lmi_onnx_int(o->n, "axis", 0));
}

static lam_status gather(lmi_onnx_op *o) {
    const lmi_onnx_value *index = in(o, 1);
    const int64_t at = lmi_onnx_int(o->n, "axis", 0);
    int64_t one[FEW];
    int32_t n;
    if (index && index->ndim == 0) {
        LAM_TRY(lmi_onnx_name_op(o, "one"));
        LAM_TRY(first(o));
        LAM_TRY(lmi_onnx_put_int(o, 1, at));
        LAM_TRY(lmi_onnx_numbers(o, 1, NULL, one, &n));
        return n == 1 ? lmi_onnx_put_int(o, 2, one[0]) : LAM_OK;
    }
    if (at == 0) return plain(o);
    LAM_TRY(lmi_onnx_name_op(o, "axis"));
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_put_int(o, 1, at));
    return lmi_onnx_put_tensor(o, 1, 2);
}

static lam_status gather_elements(lmi_onnx_op *o) {
    LAM_TRY(first(o));
    LAM_TRY(lmi_onnx_put_int(o, 1, lmi_onnx_int(o->n, "axis", 0)));
    return lmi_onnx_put_tensor(o, 1, 2);
}

/* torch's list of paddings begins with the last axis, the two ends of each side by side. */
static lam_status pad(lmi_onnx_op *o) {
    const lmi_onnx_attribute *mode = lmi_onnx_attr(o->n, "mode");
    int64_t by[FEW], mine[FEW];
    int32_t n;
    if (mode && mode->s && strcmp(mode->s, "constant") != 0) {
        const bool known =
            strcmp(mode->s, "reflect") == 0 || strcmp(mode->s, "edge") == 0 || strcmp(mode->s, "wrap") == 0;
        if (known) LAM_TRY(lmi_onnx_name_op(o, mode->s));
    }
    LAM_TRY(first(o));
    if (o->n->n_in > 3) return LAM_OK; /* of some axes */
    LAM_TRY(lmi_onnx_numbers(o, 1, "pads", by, &n));
    for (int32_t i = 0; i < n / 2; i++) {
        mine[2 * i] = by[n / 2 - 1 - i];
        mine[2 * i + 1] = by[n / 2 * 2 - 1 - i];
    }
    return n ? lmi_onnx_put_ints(o, 1, mine, n / 2 * 2) : LAM_OK;
}

static lam_status depth_to_space(lmi_onnx_op *o) {
    const lmi_onnx_attribute *mode = lmi_onnx_attr(o->n, "mode");
    if (mode && mode->s && strcmp(mode->s, "CRD") == 0) LAM_TRY(lmi_onnx_name_op(o, "crd"));
    LAM_TRY(first(o));
    return lmi_onnx_put_int(o, 1, lmi_onnx_int(o->n, "blocksize", 0));
}

/* -- recurrences -------------------------------------------------------------------------------------------
 */

/* As one layer of cuDNN's: x, the number of weights of a layer, the weight, the state, mode, hidden size,
 * layers, batch first, dropout, training, both ways. */
static lam_status recurrent(lmi_onnx_op *o) {
    enum { RELU, TANH, LSTM, GRU };
    const lmi_onnx_attribute *acts = lmi_onnx_attr(o->n, "activations"),
                             *way = lmi_onnx_attr(o->n, "direction");
    const lmi_onnx_value *w2 = in(o, 2);
    const bool both = way && way->s && strcmp(way->s, "bidirectional") == 0, bias = in(o, 3) != NULL;
    const bool relu = acts && acts->strings && acts->n > 0 && strcmp(acts->strings[0], "Relu") == 0;
    const bool turned = strcmp(o->n->op, "DynamicQuantizeLSTM") == 0; /* its matrices are transposed */
    const int64_t mode = turned || strcmp(o->n->op, "LSTM") == 0 ? LSTM
                         : strcmp(o->n->op, "GRU") == 0          ? GRU
                         : relu                                  ? RELU
                                                                 : TANH;
    const int64_t hidden =
        lmi_onnx_int(o->n, "hidden_size", is_known(w2) && w2->ndim == 3 ? w2->sizes[turned ? 1 : 2] : -1);
    const int64_t state[] = {hidden};
    LAM_TRY(lmi_onnx_put_tensor(o, 0, 0));
    for (int32_t i = 1; i <= 3; i++) LAM_TRY(lmi_onnx_put_tensor(o, i, 1));
    LAM_TRY(lmi_onnx_put_int(o, 2, bias ? 4 : 2));
    if (in(o, 5)) {
        LAM_TRY(lmi_onnx_put_tensor(o, 5, 4));
    } else if (hidden > 0) {
        const lam_op_arg h = {.position = 4,
                              .is_tensor = true,
                              .dtype = -1,
                              .device = -1,
                              .shares = -1,
                              .ndim = 1,
                              .sizes = lmi_copy(o->a, state, 1, sizeof *state)};
        if (!h.sizes) return lmi_nomem(o->e);
        LAM_TRY(lmi_onnx_put(o, &h));
    }
    LAM_TRY(lmi_onnx_put_int(o, 6, mode));
    if (hidden > 0) LAM_TRY(lmi_onnx_put_int(o, 7, hidden));
    LAM_TRY(lmi_onnx_put_int(o, 9, 1));
    LAM_TRY(lmi_onnx_put_flag(o, 10, lmi_onnx_int(o->n, "layout", 0) != 0));
    LAM_TRY(lmi_onnx_put_value(o, 11, (lam_value){.type = LAM_FLOAT, .f = 0}));
    LAM_TRY(lmi_onnx_put_flag(o, 12, false));
    return lmi_onnx_put_flag(o, 13, both);
}

/* -- the table ---------------------------------------------------------------------------------------------
 */

#define OPERATOR(domain, name, how, settings) {domain, name, how, settings},
static const struct operator_row {
    const char *domain, *name;
    lam_status (*how)(lmi_onnx_op *);
    uint32_t settings;
} rows[] = {
#include "read/onnx/operators.def"
};
#undef OPERATOR

static const struct operator_row *row_of(const lmi_onnx_node *n) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, n->op) == 0 && strcmp(rows[i].domain, n->domain) == 0) return &rows[i];
    return NULL;
}

bool lmi_onnx_is_setting(const lmi_onnx_node *n, int32_t i) {
    const struct operator_row *row = i < 32 ? row_of(n) : NULL;
    return row && (row->settings >> i & 1);
}

void lmi_onnx_op_init(lmi_onnx_op *o, lmi_onnx_model *m, lmi_arena *a, lam_error *e) {
    *o = (lmi_onnx_op){.m = m, .a = a, .e = e};
    lmi_buf_init(&o->name);
    lmi_vec_init(&o->in, sizeof(lam_op_arg));
}

void lmi_onnx_op_free(lmi_onnx_op *o) {
    lmi_buf_free(&o->name);
    lmi_vec_free(&o->in);
}

lam_status lmi_onnx_op_of(lmi_onnx_op *o, const lmi_onnx_node *n) {
    const struct operator_row *row = row_of(n);
    o->n = n;
    lmi_vec_clear(&o->in);
    LAM_TRY(lmi_onnx_name_op(o, ""));
    /* torch's own operator of this name only calls others, and a node calls none */
    if (lam_word_op_wraps(lam_word_op(lmi_buf_text(&o->name)))) LAM_TRY(lmi_onnx_name_op(o, "node"));
    return row ? row->how(o) : plain(o);
}
