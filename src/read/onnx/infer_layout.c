/* SPDX-License-Identifier: Apache-2.0
 * Rules of shapes: operators that keep a shape, broadcast several or reduce axes, and those that only lay
 * elements out anew. */
#include "read/onnx/infer.h"

/* -- shapes that are kept, broadcast, reduced ----------------------------------------------------------- */

/* All results have the shape of the first argument. */
void lmi_infer_same(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    for (int32_t k = 0; x && k < s->n->n_out; k++) lmi_set_as(s, k, x);
}

/* The first result has the shape of the first argument, others have no axes. */
void lmi_infer_same_scalars(lmi_node_at *s) {
    lmi_set_as(s, 0, lmi_shaped(s, 0));
    for (int32_t k = 1; k < s->n->n_out; k++) lmi_set_scalar(s, k);
}

void lmi_infer_scalar(lmi_node_at *s) {
    for (int32_t k = 0; k < s->n->n_out; k++) lmi_set_scalar(s, k);
}

void lmi_infer_broadcast(lmi_node_at *s) {
    lmi_shape to = {0};
    for (int32_t i = 0; i < lmi_n_args(s); i++) {
        const lmi_onnx_value *x = lmi_shaped(s, i);
        if (!x) return;
        if (!lmi_broadcast(&to, x->ndim, x->sizes)) {
            lmi_contradict(s);
            return;
        }
    }
    for (int32_t k = 0; k < s->n->n_out; k++) lmi_set(s, k, to.ndim, to.at);
}

/* The axes of a shape without those that are reduced, or with 1 for them. */
static void put_reduced(lmi_node_at *s, const lmi_onnx_value *x, const bool *reduced, bool keep) {
    lmi_shape to = {0};
    for (int32_t i = 0; i < x->ndim; i++) {
        if (!reduced[i])
            to.at[to.ndim++] = x->sizes[i];
        else if (keep)
            to.at[to.ndim++] = 1;
    }
    lmi_set(s, 0, to.ndim, to.at);
}

/* Which axes a reduction goes over. False: unknown. */
bool lmi_reduced_axes(lmi_node_at *s, const lmi_onnx_value *x, bool *reduced) {
    lmi_ints axes = lmi_list(s, "axes", *s->rule->in ? -1 : 1);
    if (axes.n < 0 || (axes.n > 0 && !axes.all)) return false;
    bool all = axes.n == 0 && !lmi_onnx_int(s->n, "noop_with_empty_axes", 0);
    for (int32_t i = 0; i < x->ndim; i++) reduced[i] = all;
    for (int32_t i = 0; i < axes.n; i++) {
        int64_t axis = axes.at[i];
        if (!lmi_axis_of(&axis, x->ndim)) return false;
        reduced[axis] = true;
    }
    return true;
}

void lmi_infer_reduce(lmi_node_at *s) {
    bool reduced[LMI_ONNX_MOST_AXES], keep = lmi_onnx_int(s->n, "keepdims", 1) != 0;
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x) return;
    if (lmi_reduced_axes(s, x, reduced))
        put_reduced(s, x, reduced, keep);
    else if (keep)
        lmi_set_axes(s, 0, x->ndim);
}

void lmi_infer_arg_reduce(lmi_node_at *s) {
    bool reduced[LMI_ONNX_MOST_AXES] = {0};
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t axis = lmi_onnx_int(s->n, "axis", 0);
    if (!x || !lmi_axis_of(&axis, x->ndim)) return;
    reduced[axis] = true;
    put_reduced(s, x, reduced, lmi_onnx_int(s->n, "keepdims", 1) != 0);
}

/* A normalisation over the axes from `axis`: its mean and deviation have 1 for them. A fourth result is a sum
 * of the arguments. */
static void put_normalised(lmi_node_at *s, int64_t axis) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x) return;
    lmi_set_as(s, 0, x);
    lmi_set_as(s, 3, x);
    lmi_shape to = {.ndim = x->ndim};
    if (!lmi_axis_of(&axis, x->ndim)) return;
    for (int32_t i = 0; i < x->ndim; i++) to.at[i] = i < axis ? x->sizes[i] : 1;
    lmi_set(s, 1, to.ndim, to.at);
    lmi_set(s, 2, to.ndim, to.at);
}

void lmi_infer_layer_norm(lmi_node_at *s) { put_normalised(s, lmi_onnx_int(s->n, "axis", -1)); }

void lmi_infer_skip_norm(lmi_node_at *s) { put_normalised(s, -1); }

void lmi_infer_batch_norm(lmi_node_at *s) {
    lmi_set_as(s, 0, lmi_shaped(s, 0));
    for (int32_t k = 1; k < s->n->n_out; k++) lmi_set_as(s, k, lmi_shaped(s, 3));
}

void lmi_infer_global_pool(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x || x->ndim < 2) return;
    bool last = lmi_onnx_int(s->n, "channels_last", 0) != 0;
    lmi_shape to = {.ndim = x->ndim};
    for (int32_t i = 0; i < x->ndim; i++) to.at[i] = 1;
    to.at[0] = x->sizes[0];
    int32_t channels = last ? x->ndim - 1 : 1;
    to.at[channels] = x->sizes[channels];
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_shape(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t from = lmi_onnx_int(s->n, "start", 0), to = x ? lmi_onnx_int(s->n, "end", x->ndim) : 0, size;
    if (!x) {
        lmi_set_axes(s, 0, 1);
        return;
    }
    if (from < 0) from += x->ndim;
    if (to < 0) to += x->ndim;
    from = from < 0 ? 0 : from > x->ndim ? x->ndim : from;
    to = to < from ? from : to > x->ndim ? x->ndim : to;
    size = to - from;
    lmi_set(s, 0, 1, &size);
    lmi_cell *cells = lmi_cells_new(s->all, size);
    for (int64_t i = 0; cells && i < size; i++) {
        cells[i].i = x->sizes[from + i];
        cells[i].known = cells[i].i >= 0;
    }
    lmi_cells_set(s, 0, cells);
}

void lmi_infer_size(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    lmi_set_scalar(s, 0);
    int64_t n = x ? lmi_size_all(x->sizes, x->ndim) : -1;
    lmi_cell *cell = n < 0 ? NULL : lmi_cells_new(s->all, 1);
    if (!cell) return;
    *cell = (lmi_cell){.i = n, .known = true};
    lmi_cells_set(s, 0, cell);
}

void lmi_infer_constant(lmi_node_at *s) {
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "value");
    const lmi_onnx_value *t = a ? lmi_onnx_value_at(s->all->m, a->tensor) : NULL;
    if (!t) return; /* the reader makes constants of the others */
    lmi_set_as(s, 0, t);
    lmi_set_type(s, 0, t->type);
    lmi_cells_set(s, 0, lmi_cells(s->all, t));
}

/* -- elements that are laid out anew -------------------------------------------------------------------- */

void lmi_infer_identity(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    lmi_onnx_value *y = lmi_onnx_out(s->all->m, s->n, 0);
    if (x && y) {
        y->kind = x->kind;
        lmi_known_of(s->all, y)->count = lmi_known_of(s->all, x)->count;
    }
    lmi_set_as(s, 0, lmi_shaped(s, 0));
}

/* The sizes that the wanted ones make of a shape. Where one size is unknown, the number of elements tells it:
 * sizes that are copied from unknown ones stand on both sides, and cancel out. */
static void reshaped(lmi_node_at *s, const lmi_onnx_value *x, const lmi_ints *want, lmi_shape *to) {
    bool zero = lmi_onnx_int(s->n, "allowzero", 0) != 0;
    bool copied[LMI_ONNX_MOST_AXES] = {0};
    int64_t made = 1, had = x->ndim < 0 ? -1 : 1;
    int32_t open = -1, n_open = 0;
    for (int32_t i = 0; i < to->ndim; i++) {
        bool copy = want->known[i] && want->at[i] == 0 && !zero;
        to->at[i] = !want->known[i] ? -1 : copy ? (i < x->ndim ? x->sizes[i] : -1) : want->at[i];
        if (to->at[i] < 0 && copy && i < x->ndim)
            copied[i] = true;
        else if (to->at[i] < 0)
            open = i, n_open++;
        else
            made = lmi_size_times(made, to->at[i]);
    }
    for (int32_t i = 0; i < x->ndim; i++)
        if (!copied[i]) had = lmi_size_times(had, x->sizes[i]);
    if (n_open == 1 && had >= 0 && made > 0 && had % made == 0)
        to->at[open] = had / made;
    else if (had >= 0 && made >= 0 && (n_open == 1 ? made > 0 : n_open == 0 && had != made))
        lmi_contradict(s); /* it has not as many elements as the sizes that are wanted make */
}

void lmi_infer_reshape(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_arg(s, 0);
    lmi_ints want = lmi_list(s, "shape", 1);
    if (!x || !want.given || want.n < 0 || want.n > LMI_ONNX_MOST_AXES) {
        if (!s->why) s->why = "its shape depends on values that are known only when the model runs";
        return;
    }
    lmi_shape to = {.ndim = want.n};
    reshaped(s, x, &want, &to);
    if (!s->wrong) lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_flatten(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t axis = lmi_onnx_int(s->n, "axis", 1), sizes[2] = {-1, -1};
    if (x && (axis == x->ndim || lmi_axis_of(&axis, x->ndim))) {
        sizes[0] = lmi_size_all(x->sizes, (int32_t)axis);
        sizes[1] = lmi_size_all(x->sizes + axis, x->ndim - (int32_t)axis);
    }
    lmi_set(s, 0, 2, sizes);
}

void lmi_infer_squeeze(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    bool gone[LMI_ONNX_MOST_AXES] = {0};
    lmi_ints axes = lmi_list(s, "axes", 1);
    if (!x || !axes.all) return;
    for (int32_t i = 0; i < x->ndim && !axes.given; i++) {
        if (x->sizes[i] < 0) return; /* it may be 1 */
        gone[i] = x->sizes[i] == 1;
    }
    for (int32_t i = 0; i < axes.n; i++) {
        int64_t axis = axes.at[i];
        if (!lmi_axis_of(&axis, x->ndim)) return;
        gone[axis] = true;
    }
    lmi_shape to = {0};
    for (int32_t i = 0; i < x->ndim; i++)
        if (!gone[i]) to.at[to.ndim++] = x->sizes[i];
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_unsqueeze(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    bool added[LMI_ONNX_MOST_AXES] = {0};
    lmi_ints axes = lmi_list(s, "axes", 1);
    if (!x || axes.n < 0 || x->ndim + axes.n > LMI_ONNX_MOST_AXES) return;
    int32_t ndim = x->ndim + axes.n, at = 0;
    if (!axes.all) {
        lmi_set_axes(s, 0, ndim);
        return;
    }
    for (int32_t i = 0; i < axes.n; i++) {
        int64_t axis = axes.at[i];
        if (!lmi_axis_of(&axis, ndim) || added[axis]) return;
        added[axis] = true;
    }
    lmi_shape to = {.ndim = ndim};
    for (int32_t i = 0; i < ndim; i++) to.at[i] = added[i] ? 1 : x->sizes[at++];
    lmi_set(s, 0, ndim, to.at);
}

void lmi_infer_transpose(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x) return;
    lmi_shape to = {.ndim = x->ndim};
    for (int32_t i = 0; i < x->ndim; i++) {
        int64_t from = lmi_nth(s, "perm", i, x->ndim - 1 - i);
        if (!lmi_axis_of(&from, x->ndim)) return;
        to.at[i] = x->sizes[from];
    }
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_expand(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    lmi_ints want = lmi_list(s, NULL, 1);
    if (!x || want.n < 0 || want.n > LMI_ONNX_MOST_AXES) return;
    lmi_shape to = {0};
    for (int32_t i = 0; i < want.n; i++)
        if (!want.known[i]) want.at[i] = -1;
    if (!lmi_broadcast(&to, x->ndim, x->sizes) || !lmi_broadcast(&to, want.n, want.at)) return;
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_tile(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    lmi_ints times = lmi_list(s, NULL, 1);
    if (!x) return;
    lmi_shape to = {.ndim = x->ndim};
    for (int32_t i = 0; i < x->ndim; i++)
        to.at[i] = i < times.n && times.known[i] ? lmi_size_times(x->sizes[i], times.at[i]) : -1;
    lmi_set(s, 0, to.ndim, to.at);
}

/* The arguments from one on, every `step`-th. */
static void joined(lmi_node_at *s, int32_t first, int32_t step) {
    lmi_shape to = {.ndim = -1};
    int64_t axis = lmi_onnx_int(s->n, "axis", s->n->opset < 4 ? 1 : 0);
    bool gap = false;
    for (int32_t i = first; i < s->n->n_in; i += step) {
        const lmi_onnx_value *x = lmi_onnx_in(s->all->m, s->n, i);
        if (!x || x->ndim < 0) {
            if (!s->why) s->why = "the shape of an argument is unknown";
            gap = true;
            continue;
        }
        if (to.ndim < 0) {
            to.ndim = x->ndim;
            if (!lmi_axis_of(&axis, x->ndim)) return;
            memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
            continue;
        }
        if (x->ndim != to.ndim) return;
        for (int32_t d = 0; d < to.ndim; d++) {
            if (d == axis)
                to.at[d] = lmi_plus(to.at[d], x->sizes[d]);
            else if (to.at[d] < 0)
                to.at[d] = x->sizes[d];
        }
    }
    if (to.ndim < 0) return;
    if (gap) to.at[axis] = -1;
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_concat(lmi_node_at *s) { joined(s, 0, 1); }

void lmi_infer_quantized_concat(lmi_node_at *s) { joined(s, 2, 3); }

void lmi_infer_split(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t axis = lmi_onnx_int(s->n, "axis", 0);
    lmi_ints parts = lmi_list(s, "split", s->n->opset < 13 && s->n->opset ? -1 : 1);
    if (!x || !lmi_axis_of(&axis, x->ndim)) return;
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    int64_t size = x->sizes[axis], n = s->n->n_out, each = size < 0 || n < 1 ? -1 : (size + n - 1) / n;
    for (int32_t k = 0; k < n; k++) {
        if (parts.given)
            to.at[axis] = k < parts.n && parts.known[k] ? parts.at[k] : -1;
        else
            to.at[axis] = each < 0 ? -1 : k < n - 1 ? each : size - each * (n - 1);
        lmi_set(s, k, to.ndim, to.at);
    }
}

/* How many elements a slice takes of an axis, and the first of them. */
int64_t lmi_slice(int64_t size, int64_t from, int64_t to, int64_t step, int64_t *first) {
    if (size < 0 || step == 0 || step == INT64_MIN) return -1;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    if (from < 0) from += size;
    if (to < 0) to += size;
    from = from > high ? high : from < 0 ? 0 : from;
    to = to < low ? low : to > high ? high : to;
    *first = from;
    int64_t gap = step > 0 ? to - from : from - to, each = step > 0 ? step : -step;
    return gap > 0 ? (gap - 1) / each + 1 : 0;
}

lmi_slices lmi_slices_of(lmi_node_at *s) {
    bool old = lmi_onnx_attr(s->n, "starts") != NULL;
    return (lmi_slices){lmi_list(s, "starts", old ? -1 : 1), lmi_list(s, "ends", old ? -1 : 2),
                        lmi_list(s, "axes", old ? -1 : 3), lmi_list(s, NULL, old ? -1 : 4)};
}

void lmi_infer_slice(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    lmi_slices of = lmi_slices_of(s);
    if (!x) return;
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    int32_t n = of.axes.given ? of.axes.n : of.from.n;
    if (n < 0 || n > x->ndim || (of.axes.given && !of.axes.all)) {
        lmi_set_axes(s, 0, x->ndim);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        int64_t axis = of.axes.given ? of.axes.at[i] : i, step = of.steps.given ? of.steps.at[i] : 1, first;
        if (!lmi_axis_of(&axis, x->ndim)) return;
        bool known = of.from.known[i] && of.to.known[i] && (!of.steps.given || of.steps.known[i]);
        /* All of an axis, whatever its size. */
        bool whole = known && step == 1 && of.from.at[i] == 0 && of.to.at[i] >= INT32_MAX;
        if (!whole)
            to.at[axis] = known ? lmi_slice(x->sizes[axis], of.from.at[i], of.to.at[i], step, &first) : -1;
    }
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_pad(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    if (!x) return;
    lmi_ints pads = lmi_list(s, lmi_onnx_attr(s->n, "pads") ? "pads" : "paddings", 1),
             axes = lmi_list(s, NULL, 3);
    int32_t n = axes.given ? axes.n : x->ndim;
    if (n < 0 || (axes.given && !axes.all) || pads.n != 2 * n) {
        lmi_set_axes(s, 0, x->ndim);
        return;
    }
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    for (int32_t i = 0; i < n; i++) {
        int64_t axis = axes.given ? axes.at[i] : i, more;
        if (!lmi_axis_of(&axis, x->ndim)) return;
        bool known = pads.known[i] && pads.known[n + i] && to.at[axis] >= 0 &&
                     !lmi_add_over(pads.at[i], pads.at[n + i], &more) &&
                     !lmi_add_over(to.at[axis], more, &to.at[axis]);
        if (!known) to.at[axis] = -1;
    }
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_crop_pad(lmi_node_at *s) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    lmi_ints want = lmi_list(s, NULL, 1), axes = lmi_list(s, "axes", -1);
    if (!x) return;
    lmi_shape to = {.ndim = x->ndim};
    memcpy(to.at, x->sizes, (size_t)x->ndim * sizeof *to.at);
    int32_t n = axes.given ? axes.n : x->ndim;
    for (int32_t i = 0; i < n; i++) {
        int64_t axis = axes.given ? axes.at[i] : i;
        if (!lmi_axis_of(&axis, x->ndim)) return;
        to.at[axis] = i < want.n && want.known[i] ? want.at[i] : -1;
    }
    lmi_set(s, 0, to.ndim, to.at);
}

void lmi_infer_constant_of_shape(lmi_node_at *s) {
    lmi_ints want = lmi_list(s, NULL, 0);
    const lmi_onnx_attribute *a = lmi_onnx_attr(s->n, "value");
    const lmi_onnx_value *t = a ? lmi_onnx_value_at(s->all->m, a->tensor) : NULL;
    lmi_set_type(s, 0, t ? t->type : LMI_ONNX_FLOAT);
    if (want.n < 0 || want.n > LMI_ONNX_MOST_AXES) return;
    for (int32_t i = 0; i < want.n; i++)
        if (!want.known[i]) want.at[i] = -1;
    lmi_set(s, 0, want.n, want.at);
}

/* DepthToSpace and SpaceToDepth: blocks of channels become blocks of places, or the reverse. What does not
 * fill blocks is unknown. */
static void blocks(lmi_node_at *s, bool to_space) {
    const lmi_onnx_value *x = lmi_shaped(s, 0);
    int64_t b = lmi_onnx_int(s->n, "blocksize", 0), all = lmi_size_times(b, b);
    if (!x || x->ndim != 4 || b < 1 || all < 1) return;
    const int64_t *d = x->sizes;
    int64_t sizes[] = {d[0], -1, -1, -1};
    for (int32_t i = 1; i < 4; i++) {
        bool smaller = (i == 1) == to_space;
        int64_t by = i == 1 ? all : b;
        if (d[i] >= 0 && (!smaller || d[i] % by == 0))
            sizes[i] = smaller ? d[i] / by : lmi_size_times(d[i], by);
    }
    lmi_set(s, 0, 4, sizes);
}

void lmi_infer_depth_to_space(lmi_node_at *s) { blocks(s, true); }

void lmi_infer_space_to_depth(lmi_node_at *s) { blocks(s, false); }
