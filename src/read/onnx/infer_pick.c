/* SPDX-License-Identifier: Apache-2.0
 * Rules of shapes: operators that pick elements or make new tensors; signals, losses, texts, classic models
 * (ai.onnx.ml) and com.microsoft. */
#include "read/onnx/infer.h"

#include <math.h>

/* -- elements that are picked --------------------------------------------------------------------------- */

/* The rows of the first argument that the second one picks along an axis; *axis is that of the attribute. */
static bool gathered(lmi_node_at *s, const char *attribute, int64_t *axis, lmi_shape *to) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *i = lmi_shaped(s, 1);
    *axis = lmi_onnx_int(s->n, attribute, 0);
    if (!x || !i || !lmi_axis_of(axis, x->ndim) || x->ndim - 1 + i->ndim > LMI_ONNX_MOST_AXES) return false;
    for (int32_t d = 0; d < *axis; d++) to->at[to->ndim++] = x->sizes[d];
    for (int32_t d = 0; d < i->ndim; d++) to->at[to->ndim++] = i->sizes[d];
    for (int32_t d = (int32_t)*axis + 1; d < x->ndim; d++) to->at[to->ndim++] = x->sizes[d];
    return true;
}

void lmi_infer_gather(lmi_node_at *s) {
    lmi_shape to = {0};
    int64_t axis;
    if (gathered(s, "axis", &axis, &to)) lmi_set(s, 0, to.ndim, to.at);
}

/* The same from rows of few bits, several in a byte of the last axis. */
void lmi_infer_gather_packed(lmi_node_at *s) {
    const int64_t bits = lmi_onnx_int(s->n, "bits", 4);
    lmi_shape to = {0};
    int64_t axis;
    if (!gathered(s, "gather_axis", &axis, &to)) return;
    const lmi_onnx_value *x = lmi_arg(s, 0);
    int64_t *last = axis < x->ndim - 1 ? &to.at[to.ndim - 1] : NULL;
    if (last && !x->type) *last = -1;
    if (last && x->type == LMI_ONNX_UINT8) *last = bits > 0 ? lmi_size_times(*last, 8 / bits) : -1;
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_gather_nd(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *i = lmi_shaped(s, 1);
    int64_t batch = lmi_onnx_int(s->n, "batch_dims", 0);
    if (!x || !i || i->ndim < 1 || batch < 0) return;
    int64_t taken = i->sizes[i->ndim - 1];
    if (taken < 0 || batch > x->ndim || taken > x->ndim - batch) return;
    lmi_shape to = {0};
    if (i->ndim - 1 + x->ndim - batch - taken > LMI_ONNX_MOST_AXES) return;
    for (int32_t d = 0; d < i->ndim - 1; d++) to.at[to.ndim++] = i->sizes[d];
    for (int32_t d = (int32_t)(batch + taken); d < x->ndim; d++) to.at[to.ndim++] = x->sizes[d];
    lmi_set(s, 0, to.ndim, to.at);
}

/* The shape of the second argument. */
void lmi_infer_like_second(lmi_node_at *s) { lmi_set_as(s, 0, lmi_shaped(s, 1)); }

/* A shape in which one axis has another size. */
static void with_axis(lmi_node_at *s, int32_t k, const lmi_onnx_value *x, int64_t axis, int64_t size) {
    lmi_shape to = {.ndim = x->ndim};
    if (!lmi_axis_of(&axis, x->ndim)) return;
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    to.at[axis] = size;
    lmi_set(s, k, to.ndim, to.at);
}

void lmi_infer_topk(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t n;
    if (!x) return;
    if (!lmi_one(s, "k", 1, -1, &n)) n = -1;
    for (int32_t k = 0; k < 2; k++) with_axis(s, k, x, lmi_onnx_int(s->n, "axis", -1), n);
}

void lmi_infer_compress(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *by = lmi_arg(s, 1);
    const lmi_onnx_attribute *axis = lmi_onnx_attr(s->n, "axis");
    const lmi_cell *cells = lmi_cells(s->all, by);
    int64_t all = 0, n = cells ? 0 : -1;
    if (!x) return;
    if (cells && (!lmi_few(by, &all) || !lmi_afford(s->all, all))) n = -1;
    for (int64_t i = 0; i < all && n >= 0; i++) n = cells[i].known ? n + (cells[i].i != 0) : -1;
    if (axis)
        with_axis(s, 0, x, axis->i, n);
    else
        lmi_set(s, 0, 1, &n);
}

void lmi_infer_one_hot(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *depth = lmi_arg(s, 1);
    if (!x || x->ndim + 1 > LMI_ONNX_MOST_AXES) return;
    int64_t axis = lmi_onnx_int(s->n, "axis", -1), n = -1, few;
    const lmi_cell *cells = lmi_cells(s->all, depth);
    if (cells && lmi_few(depth, &few) && few == 1 && cells->known)
        n = !lmi_is_real(depth->type)            ? cells->i
            : cells->f >= 0 && cells->f < 0x1p53 ? (int64_t)cells->f
                                                 : -1;
    lmi_shape to = {.ndim = x->ndim + 1};
    if (!lmi_axis_of(&axis, to.ndim)) return;
    for (int32_t i = 0, at = 0; i < to.ndim; i++) to.at[i] = i == axis ? n : x->sizes[at++];
    lmi_set(s, 0, to.ndim, to.at);
}

static bool is_zero(const lmi_onnx_value *x, const lmi_cell *c) {
    return lmi_is_real(x->type) ? c->f == 0 : c->i == 0;
}

void lmi_infer_nonzero(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    int64_t sizes[] = {x && x->ndim >= 0 ? x->ndim : -1, -1}, n;
    const lmi_cell *cells = lmi_cells(s->all, x);
    s->why = "it depends on values that are known only when the model runs";
    if (x && cells && lmi_few(x, &n) && lmi_afford(s->all, n)) {
        sizes[1] = 0;
        for (int64_t i = 0; i < n && sizes[1] >= 0; i++)
            sizes[1] = cells[i].known ? sizes[1] + !is_zero(x, &cells[i]) : -1;
    }
    lmi_set(s, 0, 2, sizes);
}

/* True if rows a and b of an axis of `rows`, with `inner` elements behind each, are the same. */
static bool same_rows(const lmi_onnx_value *x, const lmi_cell *cells, int64_t all, int64_t rows,
                      int64_t inner, int64_t a, int64_t b) {
    for (int64_t from = 0; from < all; from += rows * inner) {
        for (int64_t k = 0; k < inner; k++) {
            const lmi_cell *one = &cells[from + a * inner + k], *two = &cells[from + b * inner + k];
            if (lmi_is_real(x->type) ? one->f != two->f : one->i != two->i) return false;
        }
    }
    return true;
}

/* How many different rows an axis has, or elements there are (axis -1); -1: unknown. */
static int64_t n_unique(lmi_node_at *s, const lmi_onnx_value *x, int64_t axis) {
    const lmi_cell *cells = lmi_cells(s->all, x);
    int64_t all, n = 0;
    if (!cells || !lmi_few(x, &all) || all == 0) return cells && all == 0 && axis < 0 ? 0 : -1;
    int64_t rows = axis < 0 ? all : x->sizes[axis];
    int64_t inner = axis < 0 ? 1 : lmi_size_all(x->sizes + axis + 1, x->ndim - (int32_t)axis - 1);
    if (!lmi_afford(s->all, all * rows)) return -1;
    for (int64_t i = 0; i < all; i++)
        if (!cells[i].known || (lmi_is_real(x->type) && isnan(cells[i].f))) return -1;
    for (int64_t a = 0; a < rows; a++) {
        bool seen = false;
        for (int64_t b = 0; b < a && !seen; b++) seen = same_rows(x, cells, all, rows, inner, a, b);
        n += !seen;
    }
    return n;
}

void lmi_infer_unique(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "axis");
    int64_t axis = a ? a->i : -1, inverse = -1;
    if (!x || (a && !lmi_axis_of(&axis, x->ndim))) return;
    s->why = "it depends on values that are known only when the model runs";
    int64_t n = n_unique(s, x, axis);
    inverse = a ? x->sizes[axis] : lmi_size_all(x->sizes, x->ndim);
    if (a)
        with_axis(s, 0, x, axis, n);
    else
        lmi_set(s, 0, 1, &n);
    lmi_set(s, 1, 1, &n);
    lmi_set(s, 2, 1, &inverse);
    lmi_set(s, 3, 1, &n);
}

/* Unique of com.microsoft: of one axis, with indices and counts in other places. */
void lmi_infer_unique_flat(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x) return;
    int64_t n = n_unique(s, x, -1), all = lmi_size_all(x->sizes, x->ndim);
    lmi_set(s, 0, 1, &n);
    lmi_set(s, 1, 1, &all);
    lmi_set(s, 2, 1, &n);
}

void lmi_infer_non_max(lmi_node_at *s) {
    const int64_t sizes[] = {-1, 3};
    s->why = "it depends on values that are known only when the model runs";
    lmi_set(s, 0, 2, sizes);
}

void lmi_infer_array_feature(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *y = lmi_shaped(s, 1);
    if (!x || !y || x->ndim < 1) return;
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    if (x->ndim == 1) to.at[to.ndim++] = to.at[0] = 1;
    to.at[to.ndim - 1] = lmi_size_all(y->sizes, y->ndim);
    lmi_set(s, 0, to.ndim, to.at);
}

/* -- new tensors ----------------------------------------------------------------------------------------- */

/* The one number that an argument holds. */
static bool number(lmi_node_at *s, int32_t i, double *f, int64_t *n) {
    const lmi_onnx_value *v = lmi_arg(s, i);
    const lmi_cell *c = lmi_cells(s->all, v);
    int64_t few;
    if (!c || !lmi_few(v, &few) || few != 1 || !c->known) return false;
    *n = lmi_is_real(v->type) ? 0 : c->i;
    *f = lmi_is_real(v->type) ? c->f : (double)c->i;
    return true;
}

void lmi_infer_range(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    double f[3] = {0}, n = NAN;
    int64_t i[3] = {0}, size = -1;
    i[2] = 1;
    f[2] = 1;
    bool known = number(s, 0, &f[0], &i[0]) && number(s, 1, &f[1], &i[1]) &&
                 (s->n->n_in < 3 || number(s, 2, &f[2], &i[2]));
    bool real = x && lmi_is_real(x->type);
    double span = f[1] - f[0], sum = f[0]; /* engines subtract and add in the type */
    if (known && real && f[2] != 0 && lmi_fit_real(x->type, &span)) n = ceil(span / f[2]);
    const int64_t most = INT64_C(1) << 62;
    if (known && !real && i[2] != 0 && i[0] > -most && i[0] < most && i[1] > -most && i[1] < most) {
        int64_t gap = i[2] > 0 ? i[1] - i[0] : i[0] - i[1], step = i[2] > 0 ? i[2] : -(i[2] + 1);
        if (i[2] < 0)
            size = gap <= 0 ? 0 : step == INT64_MAX ? 1 : (gap - 1) / (step + 1) + 1;
        else
            size = gap <= 0 ? 0 : (gap - 1) / step + 1;
    }
    if (known && real && isfinite(n) && n < 0x1p53) size = n > 0 ? (int64_t)n : 0;
    if (!known) s->why = "it depends on values that are known only when the model runs";
    lmi_set(s, 0, 1, &size);
    lmi_cell *cells = size < 0 || !x ? NULL : lmi_cells_new(s->all, size);
    for (int64_t k = 0; cells && k < size; k++) {
        if (real)
            cells[k].f = f[0] + (double)k * f[2];
        else
            cells[k].i = i[0] + k * i[2];
        cells[k].known = real ? lmi_fit_real(x->type, &cells[k].f) : lmi_fit_int(x->type, &cells[k].i);
        if (!real) continue;
        cells[k].known = cells[k].known && cells[k].f == sum; /* they add, or multiply */
        sum += f[2];
        if (!lmi_fit_real(x->type, &sum)) sum = NAN;
    }
    lmi_cells_set(s, 0, cells);
}

/* A tensor whose sizes are an attribute. */
void lmi_infer_shape_attr(lmi_node_at *s) {
    lmi_ints want = lmi_list(s, "shape", -1);
    if (want.given && want.n >= 0) lmi_set(s, 0, want.n, want.at);
}

void lmi_infer_multinomial(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    const int64_t sizes[] = {x && x->ndim == 2 ? x->sizes[0] : -1, lmi_onnx_int(s->n, "sample_size", 1)};
    lmi_set(s, 0, 2, sizes);
}

/* One axis, as long as the argument says. */
void lmi_infer_window_of(lmi_node_at *s) {
    int64_t n;
    if (!lmi_one(s, NULL, 0, -1, &n)) n = -1;
    lmi_set(s, 0, 1, &n);
}

void lmi_infer_mel(lmi_node_at *s) {
    int64_t mel, length;
    if (!lmi_one(s, NULL, 0, -1, &mel)) mel = -1;
    if (!lmi_one(s, NULL, 1, -1, &length)) length = -1;
    const int64_t sizes[] = {length < 0 ? -1 : length / 2 + 1, mel};
    lmi_set(s, 0, 2, sizes);
}

void lmi_infer_image(lmi_node_at *s) {
    const int64_t sizes[] = {-1, -1, lmi_attr_is(s, "pixel_format", "Grayscale") ? 1 : 3};
    s->why = "it depends on values that are known only when the model runs";
    lmi_set(s, 0, 3, sizes);
}

/* -- signals --------------------------------------------------------------------------------------------- */

void lmi_infer_dft(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    bool early = s->n->opset < 20, half = lmi_onnx_int(s->n, "onesided", 0) != 0;
    bool back = lmi_onnx_int(s->n, "inverse", 0) != 0;
    int64_t axis, length;
    if (!x || x->ndim < 2) return;
    if (!lmi_one(s, early ? "axis" : NULL, early ? -1 : 2, early ? 1 : -2, &axis) ||
        !lmi_axis_of(&axis, x->ndim)) {
        lmi_set_axes(s, 0, x->ndim);
        return;
    }
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    bool given = lmi_onnx_in(s->all->m, s->n, 1) != NULL;
    if (!lmi_one(s, NULL, 1, x->sizes[axis], &length)) length = -1;
    if (half && back && !given) length = x->sizes[axis] > 0 ? 2 * (x->sizes[axis] - 1) : -1;
    to.at[axis] = length < 0 ? -1 : half && !back ? length / 2 + 1 : length;
    to.at[x->ndim - 1] = half && back ? 1 : 2;
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_stft(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0), *window = lmi_arg(s, 2);
    int64_t step, length, frames = -1;
    if (!x || x->ndim < 2) return;
    int64_t otherwise = window && window->ndim == 1 ? window->sizes[0] : window ? -1 : x->sizes[1];
    if (!lmi_one(s, NULL, 1, -1, &step)) step = -1;
    if (!lmi_one(s, NULL, 3, otherwise, &length)) length = -1;
    if (x->sizes[1] >= 0 && step > 0 && length >= 0 && x->sizes[1] >= length)
        frames = (x->sizes[1] - length) / step + 1;
    bool half = lmi_onnx_int(s->n, "onesided", 1) != 0;
    const int64_t sizes[] = {x->sizes[0], frames, length < 0 ? -1 : half ? length / 2 + 1 : length, 2};
    lmi_set(s, 0, 4, sizes);
}

/* -- losses ---------------------------------------------------------------------------------------------- */

void lmi_infer_loss(lmi_node_at *s) {
    if (lmi_attr_is(s, "reduction", "none"))
        lmi_set_as(s, 0, lmi_shaped(s, 1));
    else
        lmi_set_scalar(s, 0);
    lmi_set_as(s, 1, lmi_arg(s, 0));
}

/* Optimisers: rate, count, then the tensors, their gradients and their states, whose new ones are given:
 * all but the gradients. */
void lmi_infer_optimiser(lmi_node_at *s) {
    int32_t kinds = strcmp(s->n->op, "Adam") == 0 ? 4 : 3, n = (s->n->n_in - 2) / kinds;
    for (int32_t k = 0; n > 0 && k < s->n->n_out; k++) {
        int32_t from = 2 + (k < n ? k : k + n);
        const lmi_onnx_value *x = lmi_onnx_in(s->all->m, s->n, from);
        lmi_set_as(s, k, x);
        if (x) lmi_set_type(s, k, x->type);
    }
}

/* -- texts ----------------------------------------------------------------------------------------------- */

void lmi_infer_string_split(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x || x->ndim + 1 > LMI_ONNX_MOST_AXES) return;
    lmi_shape to = {.ndim = x->ndim + 1};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    to.at[x->ndim] = -1;
    s->why = "it depends on values that are known only when the model runs";
    lmi_set(s, 0, to.ndim, to.at);
    lmi_set_as(s, 1, x);
}

void lmi_infer_string_normalizer(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    const lmi_onnx_attribute *stop = lmi_onnx_attr(s->n, "stopwords");
    if (!x) return;
    if (!stop || stop->n == 0) {
        lmi_set_as(s, 0, x);
        return;
    }
    s->why = "it depends on values that are known only when the model runs";
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    if (x->ndim > 0) to.at[x->ndim - 1] = -1;
    lmi_set(s, 0, to.ndim, to.at);
}

/* The axes of the first argument, with another last one, or added behind them. */
static void last_axis(lmi_node_at *s, int32_t k, int64_t size, bool added) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x || x->ndim + (added ? 1 : 0) > LMI_ONNX_MOST_AXES || (!added && x->ndim < 1)) return;
    lmi_shape to = {.ndim = x->ndim + (added ? 1 : 0)};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    to.at[to.ndim - 1] = size < 0 ? -1 : size;
    lmi_set(s, k, to.ndim, to.at);
}

void lmi_infer_tf_idf(lmi_node_at *s) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "ngram_indexes");
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t most = -1;
    for (int32_t i = 0; a && a->type == 7 && i < a->n; i++)
        if (a->ints[i] > most && a->ints[i] < INT64_MAX) most = a->ints[i];
    int64_t n = most < 0 ? -1 : most + 1;
    if (x && x->ndim == 0)
        lmi_set(s, 0, 1, &n);
    else
        last_axis(s, 0, n, false);
}

/* -- classic models -------------------------------------------------------------------------------------- */

static int64_t rows_of(const lmi_onnx_value *x) {
    return !x || x->ndim < 0 ? -1 : x->ndim < 2 ? 1 : x->sizes[0];
}

static void one_a_row(lmi_node_at *s, int32_t k, int64_t columns) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t sizes[] = {rows_of(x), columns};
    if (x && (x->ndim == 1 || x->ndim == 2)) lmi_set(s, k, 2, sizes);
}

void lmi_infer_regressor(lmi_node_at *s) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "n_targets");
    int64_t n = a ? a->i : lmi_onnx_int(s->n, "targets", 1);
    one_a_row(s, 0, n);
}

void lmi_infer_classifier(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    const char *names[] = {"classlabels_strings", "classlabels_int64s", "classlabels_ints"};
    int64_t n = -1, rows = rows_of(x);
    for (int32_t i = 0; i < 3; i++) {
        const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, names[i]);
        if (!a || a->n <= 0) continue;
        n = a->n;
        lmi_set_type(s, 0, i == 0 ? LMI_ONNX_STRING : LMI_ONNX_INT64);
        break;
    }
    if (x && x->ndim >= 1) lmi_set(s, 0, 1, &rows);
    one_a_row(s, 1, n);
}

void lmi_infer_label_encoder(lmi_node_at *s) {
    const char *names[] = {"values_strings", "values_int64s", "values_floats"};
    const int32_t types[] = {LMI_ONNX_STRING, LMI_ONNX_INT64, LMI_ONNX_FLOAT};
    const lmi_onnx_attribute *t = lmi_onnx_attr(s->n, "values_tensor");
    const lmi_onnx_value *v = t ? lmi_onnx_value_at(s->all->m, t->tensor) : NULL;
    for (int32_t i = 0; i < 3; i++)
        if (lmi_onnx_attr(s->n, names[i])) lmi_set_type(s, 0, types[i]);
    if (v) lmi_set_type(s, 0, v->type);
    lmi_set_as(s, 0, lmi_shaped(s, 0));
}

void lmi_infer_one_hot_encoder(lmi_node_at *s) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "cats_int64s"),
                             *b = lmi_onnx_attr(s->n, "cats_strings");
    last_axis(s, 0, a && a->n ? a->n : b ? b->n : -1, true);
}

void lmi_infer_feature_vectorizer(lmi_node_at *s) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "inputdimensions");
    int64_t n = a && a->type == 7 ? lmi_size_all(a->ints, 0) - 1 : -1;
    for (int32_t i = 0; n >= 0 && i < a->n; i++) n = lmi_plus(n, a->ints[i]);
    one_a_row(s, 0, n);
}

/* -- com.microsoft --------------------------------------------------------------------------------------- */

void lmi_infer_expand_dims(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t axis;
    if (!x || x->ndim + 1 > LMI_ONNX_MOST_AXES || !lmi_one(s, NULL, 1, 0, &axis)) return;
    lmi_shape to = {.ndim = x->ndim + 1};
    if (!lmi_axis_of(&axis, to.ndim)) return;
    for (int32_t i = 0, at = 0; i < to.ndim; i++) to.at[i] = i == axis ? 1 : x->sizes[at++];
    lmi_set(s, 0, to.ndim, to.at);
}

/* Rows of a table, by ids: ids, table. The second result has a number a row, or is a mask of the ids' shape.
 */
static void embedded(lmi_node_at *s) {
    const lmi_onnx_value *ids = lmi_shaped(s, 0), *table = lmi_arg(s, 1);
    last_axis(s, 0, table && table->ndim == 2 ? table->sizes[1] : -1, true);
    if (ids && ids->ndim == 2) lmi_set(s, 1, 1, ids->sizes);
    last_axis(s, 2, table && table->ndim == 2 ? table->sizes[1] : -1, true);
}

void lmi_infer_embed_norm(lmi_node_at *s) { embedded(s); }

/* Half of the last axis: the other half gates it. */
void lmi_infer_half(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (x && x->ndim > 0) last_axis(s, 0, x->sizes[x->ndim - 1] < 0 ? -1 : x->sizes[x->ndim - 1] / 2, false);
}

void lmi_infer_distance(lmi_node_at *s) {
    const lmi_onnx_value *a = lmi_arg(s, 0), *b = lmi_arg(s, 1);
    const int64_t sizes[] = {a && a->ndim == 2 ? a->sizes[0] : -1, b && b->ndim == 2 ? b->sizes[0] : -1};
    lmi_set(s, 0, 2, sizes);
}

void lmi_infer_relative_bias(lmi_node_at *s) {
    const lmi_onnx_value *table = lmi_arg(s, 0);
    int64_t query, key;
    if (!lmi_one(s, NULL, 1, -1, &query)) query = -1;
    if (!lmi_one(s, NULL, 2, -1, &key)) key = -1;
    const int64_t sizes[] = {1, table && table->ndim == 2 ? table->sizes[1] : -1, query, key};
    lmi_set(s, 0, 4, sizes);
}
