/* SPDX-License-Identifier: Apache-2.0
 *
 * How operators map positions: one function for each way of rf_operators.def. It fills the route of one
 * argument: the axes of the result that its axes become, and the elements read along them. False: memory ran
 * out. */
#include "analyse/field/routearg.h"

/* -- elementwise --------------------------------------------------------------------------------- */

bool lmi_way_point(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    (void)a;
    aligned(r, s->in[in].ndim, lmi_result_shape(s).ndim);
    return true;
}

/* Elementwise on the first tensor; of others only the shape or the type is read. */
bool lmi_way_first(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    r->unread = nth_tensor(s, in) > 0;
    return lmi_way_point(a, s, in, r);
}

bool lmi_way_nothing(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    (void)a, (void)s, (void)in;
    r->unread = true;
    return true;
}

/* Elementwise, but some elements of the result may come from another argument. */
bool lmi_way_some(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    r->some = true;
    return lmi_way_point(a, s, in, r);
}

/* masked_fill(x, mask, value), where(mask, x, y): every element reads the mask. */
bool lmi_way_masked(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    bool first = !strcmp(s->name, "aten::where");
    r->some = s->in[in].position != (first ? 0 : 1);
    return lmi_way_point(a, s, in, r);
}

bool lmi_way_copy(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    r->unread = nth_tensor(s, in) == 0;
    return lmi_way_point(a, s, in, r);
}

bool lmi_way_all(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    (void)a, (void)s, (void)in;
    to_all(r);
    return true;
}

bool lmi_way_spread(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    r->loose = true;
    return lmi_way_all(a, s, in, r);
}

bool lmi_way_view(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    r->view = nth_tensor(s, in) == 0;
    r->unread = !r->view;
    return lmi_way_point(a, s, in, r);
}

/* -- axes in another order ----------------------------------------------------------------------- */

bool lmi_way_permute(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim;
    (void)a;
    to_all(r);
    for (int32_t i = 0; i < n; i++) {
        int64_t from = number(s, LMI_S_dim, i, 0);
        if (from < 0) from += n;
        if (from >= 0 && from < LMI_AXES) r->to[from] = (int8_t)i;
    }
    return true;
}

bool lmi_way_swap(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim;
    lmi_way_point(a, s, in, r);
    int32_t x = axis_by(s, LMI_S_start, 0, n), y = axis_by(s, LMI_S_end, 1, n);
    if (n < 2 || x < 0 || y < 0 || x >= LMI_AXES || y >= LMI_AXES) return true;
    r->to[x] = (int8_t)y;
    r->to[y] = (int8_t)x;
    return true;
}

static void to_one(lmi_route *r, int32_t n, int32_t dim, int64_t one) {
    to_all(r);
    for (int32_t i = 0; i < n && i < LMI_AXES; i++) r->to[i] = (int8_t)(i < dim ? i : i - 1);
    if (dim < LMI_AXES) r->to[dim] = LMI_TO_ONE;
    if (dim < LMI_AXES) r->one[dim] = one;
}

bool lmi_way_select(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, dim = axis_of(s, 0, n);
    (void)a;
    to_all(r);
    if (dim < 0) return true;
    int64_t one = number(s, LMI_S_begin, 0, 0);
    to_one(r, n, dim, one < 0 ? one + s->in[in].sizes[dim] : one);
    return true;
}

bool lmi_way_slice(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, dim = axis_of(s, 0, n);
    lmi_way_point(a, s, in, r);
    if (dim < 0) return true;
    int64_t size = s->in[in].sizes[dim], start = number(s, LMI_S_begin, 0, 0),
            step = number(s, LMI_S_step, 0, 1);
    if (start < 0) start += size;
    start = start < 0 ? 0 : start > size ? size : start;
    return tap_same(a, r, dim, step, 1, start, start);
}

/* The route of the whole argument; lmi_route_part has the routes of the parts. */
bool lmi_way_split(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    (void)a;
    r->unread = nth_tensor(s, in) > 0;
    aligned(r, s->in[in].ndim, s->in[in].ndim);
    return true;
}

bool lmi_way_unbind(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return lmi_way_split(a, s, in, r);
}

bool lmi_route_part(lmi_arena *a, const lam_op_sig *s, int32_t in, int32_t nth, lmi_route *r) {
    int32_t n = s->in[in].ndim;
    bool gone = s->out[0].ndim == n - 1;
    int32_t dim = axis_of(s, 0, n);
    int64_t before = 0;
    aligned(r, n, n);
    if (dim < 0) return true;
    if (gone) to_one(r, n, dim, nth);
    if (nth < 0 && dim < LMI_AXES) {
        r->to[dim] = LMI_TO_ALL;
        r->unsure |= (uint8_t)(1u << dim);
    }
    if (gone || nth < 0) return true;
    for (int32_t i = 0; i < nth; i++) before += s->out[i].sizes[dim];
    return tap_same(a, r, dim, 1, 1, before, before);
}

bool lmi_way_flip(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const lam_value *dims = value(s, LMI_S_dim);
    int32_t n = s->in[in].ndim;
    lmi_way_point(a, s, in, r);
    for (int32_t k = 0; dims && dims->type == LAM_INTS && k < dims->n; k++) {
        int64_t dim = dims->ints[k] < 0 ? dims->ints[k] + n : dims->ints[k];
        if (dim < 0 || dim >= n) continue;
        int64_t last = s->in[in].sizes[dim] - 1;
        if (!tap_same(a, r, (int32_t)dim, -1, 1, last, last)) return false;
    }
    return true;
}

/* Elements that leave an axis of n at one end enter it at the other. */
static bool turn(lmi_arena *a, lmi_route *r, int32_t axis, int64_t n, int64_t by) {
    lmi_reach *each;
    if (!reads(a, n, &each)) return false;
    for (int64_t o = 0; each && o < n; o++) each[o] = only(((o - by) % n + n) % n);
    if (!tap_each(a, r, axis, -by, each)) return false;
    if (!each) r->to[axis] = LMI_TO_ALL, r->unsure |= (uint8_t)(1u << axis);
    return true;
}

/* roll(x, shifts, dims); without dims the elements are in one row. */
bool lmi_way_roll(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const lam_value *dims = value(s, LMI_S_dim);
    int32_t n = s->in[in].ndim;
    int64_t by[LMI_AXES] = {0}, all;
    lmi_way_point(a, s, in, r);
    if (!dims || dims->type != LAM_INTS || dims->n == 0) {
        if (!lmi_product(s->in[in].sizes, n, &all)) return lmi_way_spread(a, s, in, r);
        lmi_route *flat = then(a, r, 1, &all), *back = flat ? then(a, flat, 1, &all) : NULL;
        r->view = true;
        if (back) back->view = true;
        return back && turn(a, flat, 0, all, number(s, LMI_S_shift, 0, 0));
    }
    for (int32_t k = 0; k < dims->n; k++) {
        int64_t dim = dims->ints[k] < 0 ? dims->ints[k] + n : dims->ints[k];
        if (dim >= 0 && dim < n && dim < LMI_AXES) by[dim] += number(s, LMI_S_shift, k, 0);
    }
    for (int32_t i = 0; i < n && i < LMI_AXES; i++)
        if (by[i] != 0 && !turn(a, r, i, s->in[in].sizes[i], by[i])) return false;
    return true;
}

bool lmi_way_repeat(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    lam_shape out = lmi_result_shape(s);
    lmi_way_point(a, s, in, r);
    for (int32_t i = 0; i < s->in[in].ndim && i < LMI_AXES; i++) {
        int64_t size = s->in[in].sizes[i];
        int32_t to = r->to[i];
        lmi_reach *each;
        if (to < 0 || size <= 1 || out.sizes[to] == size) continue;
        if (!reads(a, out.sizes[to], &each)) return false;
        for (int64_t o = 0; each && o < out.sizes[to]; o++) each[o] = only(o % size);
        if (!tap_each(a, r, i, 0, each)) return false;
        if (!each) r->to[i] = LMI_TO_ALL, r->unsure |= (uint8_t)(1u << i);
    }
    return true;
}

/* -- several tensors into one -------------------------------------------------------------------- */

bool lmi_way_cat(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, dim = axis_of(s, 0, n);
    lam_shape out = lmi_result_shape(s);
    lmi_way_point(a, s, in, r);
    if (dim < 0 || out.ndim != n) return true;
    for (int32_t i = 0; i < in; i++)
        if (s->in[i].is_tensor && s->in[i].ndim == n) r->before += s->in[i].sizes[dim];
    r->among = dim;
    r->n_parts = nth_tensor(s, s->n_in);
    r->n_among = s->in[in].sizes[dim];
    lmi_reach *each;
    if (!reads(a, out.sizes[dim], &each)) return false;
    for (int64_t o = 0; each && o < out.sizes[dim]; o++)
        each[o] = only(o >= r->before && o < r->before + r->n_among ? o - r->before : -1);
    return tap_each(a, r, dim, -r->before, each);
}

bool lmi_way_stack(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, dim = axis_of(s, 0, n + 1);
    (void)a;
    to_all(r);
    for (int32_t i = 0; i < n && i < LMI_AXES; i++) r->to[i] = (int8_t)(i < dim ? i : i + 1);
    r->among = dim;
    r->n_parts = nth_tensor(s, s->n_in);
    r->before = nth_tensor(s, in);
    r->n_among = 1;
    return true;
}

/* -- along axes ---------------------------------------------------------------------------------- */

bool lmi_way_along(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return mix(a, s, in, r, axis_of(s, -1, s->in[in].ndim));
}

/* An element depends on those from the axis' beginning to its own. */
static bool beginning(lmi_arena *a, const lam_op_sig *s, int32_t in, int32_t axis, lmi_route *r) {
    const int64_t n = axis >= 0 ? s->in[in].sizes[axis] : 0;
    int64_t *lo, *hi;
    if (n < 1) return true;
    lmi_taps *t = tap(a, r, axis, 1, 1, 1, &lo, &hi);
    if (!t) return false;
    *lo = 1 - n;
    t->begins = true;
    return true;
}

bool lmi_way_scan(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    lmi_way_point(a, s, in, r);
    return beginning(a, s, in, axis_of(s, -1, s->in[in].ndim), r);
}

/* Two halves of an axis, of which one is the gate of the other: element o reads o, and o of the second half.
 */
bool lmi_way_halves(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, dim = axis_of(s, -1, n);
    int64_t half = dim < 0 ? 0 : s->in[in].sizes[dim] / 2;
    lmi_way_point(a, s, in, r);
    return half < 1 || tap_same(a, r, dim, 1, half, 0, half);
}

/* Fourier transforms along some axes. */
bool lmi_way_waves(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const lam_value *dims = value(s, LMI_S_dim);
    int32_t n = s->in[in].ndim;
    lmi_way_point(a, s, in, r);
    if (!dims || dims->type != LAM_INTS) return lmi_way_all(a, s, in, r);
    for (int32_t k = 0; k < dims->n; k++) {
        int64_t d = dims->ints[k] < 0 ? dims->ints[k] + n : dims->ints[k];
        if (d >= 0 && d < n && d < LMI_AXES) r->to[d] = LMI_TO_ALL;
    }
    return true;
}

int32_t lmi_sequence_axis(const lam_op_sig *s) { return number(s, LMI_S_batch_first, 0, 0) != 0; }

/* (layers of a) recurrence over a sequence: input, states, weights, ... */
bool lmi_way_rnn(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    bool both_ways = number(s, LMI_S_bidirectional, 0, 0) != 0;
    int32_t steps = lmi_sequence_axis(s), position = s->in[in].position;
    to_all(r);
    if (position > 1) return true;
    if (s->in[in].ndim != 3 || lmi_result_shape(s).ndim != 3) return lmi_way_spread(a, s, in, r);
    if (position == 1) r->to[1] = (int8_t)(1 - steps);
    if (position == 1) return true;
    r->to[1 - steps] = (int8_t)(1 - steps);
    if (both_ways) return true;
    r->to[steps] = (int8_t)steps;
    return beginning(a, s, in, steps, r);
}

/* ONNX's: (steps, batch, width) becomes (steps, directions, batch, width), or with the batch first (batch,
 * steps, directions, width). */
bool lmi_way_steps(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const int32_t steps = lmi_sequence_axis(s);
    to_all(r);
    if (s->in[in].position > 0) return true;
    if (s->in[in].ndim != 3 || lmi_result_shape(s).ndim != 4) return lmi_way_spread(a, s, in, r);
    r->to[1 - steps] = (int8_t)(steps ? 0 : 2);
    if (number(s, LMI_S_bidirectional, 0, 0) != 0) return true;
    r->to[steps] = (int8_t)steps;
    return beginning(a, s, in, steps, r);
}

/* sort(x, dim, descending), and with `stable` before them */
bool lmi_way_sort(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const lam_value *v = lmi_sig_value(s, 1);
    return mix(a, s, in, r, dim_at(s, v && v->type == LAM_INT ? 1 : 2, -1, s->in[in].ndim));
}

bool lmi_way_top(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return mix(a, s, in, r, axis_of(s, -1, s->in[in].ndim));
}

/* Elements that an index selects along one axis. */
bool lmi_way_pick(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t dim = axis_of(s, 0, lmi_result_shape(s).ndim);
    if (nth_tensor(s, in) > 0) {
        lmi_way_all(a, s, in, r);
        if (s->in[in].ndim == 1 && dim >= 0) r->to[0] = (int8_t)dim;
        return true;
    }
    r->loose = true;
    return mix(a, s, in, r, dim);
}

/* gather(x, dim, index): each element has a separate index. */
bool lmi_way_gather(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t dim = axis_of(s, 0, s->in[in].ndim);
    if (nth_tensor(s, in) > 0 || dim < 0) return lmi_way_point(a, s, in, r);
    lam_shape x = shape_in(s, in), out = lmi_result_shape(s);
    r->loose = true;
    lmi_way_point(a, s, in, r);
    for (int32_t i = 0; i < x.ndim && i < LMI_AXES && i < out.ndim; i++)
        if (i != dim && !tap_same(a, r, i, 1, 1, 0, 0)) return false;
    r->to[dim] = LMI_TO_ALL;
    return true;
}

/* scatter(x, dim, index, source): any place along the axis may be overwritten. */
bool lmi_way_scatter(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    lmi_way_point(a, s, in, r);
    r->some = true;
    if (nth_tensor(s, in) > 0) mix(a, s, in, r, axis_of(s, 0, s->in[in].ndim));
    return true;
}

/* scatter_add, index_add, index_copy(x, dim, index, source): the old elements stay, or may stay. */
bool lmi_way_add_at(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t dim = axis_of(s, 0, lmi_result_shape(s).ndim);
    r->some = nth_tensor(s, in) > 0 || strstr(s->name, "copy") || strstr(s->name, "reduce");
    if (s->in[in].ndim == 1 && nth_tensor(s, in) == 1) return lmi_way_all(a, s, in, r);
    return nth_tensor(s, in) > 0 ? mix(a, s, in, r, dim) : lmi_way_point(a, s, in, r);
}

/* index_put(x, indices, values): anywhere. */
bool lmi_way_put(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    r->some = true;
    return nth_tensor(s, in) == 0 ? lmi_way_point(a, s, in, r) : lmi_way_all(a, s, in, r);
}

/* The last axis holds real and imaginary parts. */
bool lmi_way_as_complex(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim;
    (void)a;
    aligned(r, n, n);
    if (n > 0 && n <= LMI_AXES) r->to[n - 1] = LMI_TO_ALL;
    return true;
}

bool lmi_way_as_real(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    (void)a;
    aligned(r, s->in[in].ndim, s->in[in].ndim);
    return true;
}

/* repeat_interleave(x, times, dim): each element several times over. */
bool lmi_way_again(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, dim = axis_of(s, 0, n);
    const lam_value *times = value(s, LMI_S_times);
    int64_t *lo, *hi;
    if (nth_tensor(s, in) > 0 || !times || times->type != LAM_INT || times->i < 1 ||
        times->i > LMI_PERIOD_MAX || dim < 0 || lmi_result_shape(s).ndim != n)
        return lmi_way_spread(a, s, in, r);
    lmi_way_point(a, s, in, r);
    return tap(a, r, dim, (int32_t)times->i, 1, 1, &lo, &hi) != NULL;
}

/* Removes the axes that `v` names; all, if it names none. */
static bool reduced(const lam_op_sig *s, int32_t in, const lam_value *v, lmi_route *r) {
    lam_shape out = lmi_result_shape(s);
    int32_t n = s->in[in].ndim, next = 0;
    to_all(r);
    if (!v || (v->type != LAM_INT && v->type != LAM_INTS) || (v->type == LAM_INTS && v->n == 0)) return true;
    for (int32_t i = 0; i < n && i < LMI_AXES; i++) {
        bool gone = false;
        for (int32_t k = 0; k < (v->type == LAM_INT ? 1 : v->n); k++) {
            int64_t d = v->type == LAM_INT ? v->i : v->ints[k];
            gone = gone || d == i || d + n == i;
        }
        if (!gone && next < out.ndim) r->to[i] = (int8_t)next;
        next += !gone || out.ndim == n;
    }
    return true;
}

/* max(x, y) is one element by element; max(x, dim) has the axis in the place of y. */
bool lmi_way_reduce(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const lmi_slot_id axis = lmi_op_position(s->word, LMI_S_dim) < 0 ? LMI_S_x2 : LMI_S_dim;
    int32_t tensors = 0;
    for (int32_t i = 0; i < s->n_in; i++) tensors += s->in[i].is_tensor && s->in[i].position < 2;
    return tensors > 1 ? lmi_way_point(a, s, in, r) : reduced(s, in, value(s, axis), r);
}

bool lmi_way_norm(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    (void)a;
    return reduced(s, in, value(s, LMI_S_dim), r);
}

/* -- normalisation ------------------------------------------------------------------------------- */

/* With running statistics batch normalisation counts as in eval mode; without them the statistics are always
 * those of the input. */
bool lmi_way_batch_norm(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const int32_t mean = lmi_op_position(s->word, LMI_S_mean);
    bool running = false;
    for (int32_t i = 0; i < s->n_in; i++)
        running = running || (s->in[i].is_tensor && s->in[i].position == mean);
    if (running && nth_tensor(s, in) == 0) return lmi_way_point(a, s, in, r);
    lmi_way_all(a, s, in, r);
    if (nth_tensor(s, in) == 0) r->to[1] = 1;
    return true;
}

bool lmi_way_instance_norm(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    if (number(s, LMI_S_training, 0, 1) == 0 && nth_tensor(s, in) == 0) return lmi_way_point(a, s, in, r);
    lmi_way_all(a, s, in, r);
    if (nth_tensor(s, in) == 0) r->to[0] = 0, r->to[1] = 1;
    return true;
}

bool lmi_way_layer_norm(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    const lam_value *shape = value(s, LMI_S_shape);
    int32_t n = s->in[in].ndim, last = shape && shape->type == LAM_INTS ? shape->n : 1;
    if (nth_tensor(s, in) > 0) return lmi_way_all(a, s, in, r);
    lmi_way_point(a, s, in, r);
    for (int32_t i = n - last < 0 ? 0 : n - last; i < n && i < LMI_AXES; i++) r->to[i] = LMI_TO_ALL;
    return true;
}

/* Each channel depends on those of its group. */
bool lmi_way_group_norm(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int64_t groups = number(s, LMI_S_groups, 0, 0), n, *lo, *hi;
    lmi_way_all(a, s, in, r);
    if (nth_tensor(s, in) > 0 || s->in[in].ndim < 2) return true;
    n = s->in[in].sizes[1];
    r->to[0] = 0;
    if (groups <= 1 || n % groups != 0 || n / groups > LMI_PERIOD_MAX) return true;
    r->to[1] = 1;
    if (!tap(a, r, 1, (int32_t)(n / groups), n / groups, 1, &lo, &hi)) return false;
    for (int64_t o = 0; o < n / groups; o++) hi[o] = n / groups - 1;
    return true;
}

/* -- products ------------------------------------------------------------------------------------ */

/* The left or right factor of a matrix product with operands of `n` and `other` axes. */
static void factor(lmi_route *r, bool left, int32_t n, int32_t other, int32_t out_ndim) {
    int32_t columns = left ? other >= 2 : n >= 2, rows = left ? n >= 2 : other >= 2;
    int32_t matrix = out_ndim - columns - rows; /* axes of batches in the result */
    to_all(r);
    for (int32_t i = 0; i < n - 2 && i < LMI_AXES; i++) {
        int32_t to = matrix - (n - 2 - i);
        if (to >= 0) r->to[i] = (int8_t)to;
    }
    int32_t kept = left ? n - 2 : n - 1, at = left ? matrix : out_ndim - 1;
    if (n >= 2 && kept < LMI_AXES && at >= 0) r->to[kept] = (int8_t)at;
}

static bool product(lmi_arena *a, const lam_op_sig *s, int32_t in, int32_t first, lmi_route *r) {
    int32_t n = nth_tensor(s, in) - first, other = -1, seen = 0;
    for (int32_t i = 0; i < s->n_in; i++) {
        if (!s->in[i].is_tensor) continue;
        if (seen++ == first + (n == 0 ? 1 : 0)) other = s->in[i].ndim;
    }
    if (n < 0) return lmi_way_point(a, s, in, r);
    factor(r, n == 0, s->in[in].ndim, other, lmi_result_shape(s).ndim);
    return true;
}

bool lmi_way_matmul(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return product(a, s, in, 0, r);
}

bool lmi_way_addmm(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return product(a, s, in, 1, r);
}

bool lmi_way_linear(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, out = lmi_result_shape(s).ndim;
    if (nth_tensor(s, in) == 2) return lmi_way_point(a, s, in, r);
    if (nth_tensor(s, in) == 0) return mix(a, s, in, r, n - 1);
    to_all(r);
    if (n == 2 && out > 0) r->to[0] = (int8_t)(out - 1);
    return true;
}

/* softmax(Q K^T) V: an element depends on its query and on every key and value, if causal on those up to its
 * position; the positions that a mask leaves are unknown. */
bool lmi_way_attend(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, which = nth_tensor(s, in);
    bool whole = !strcmp(s->name, "aten::scaled_dot_product_attention"), masked = false;
    for (int32_t i = 0; i < s->n_in; i++) masked = masked || (s->in[i].is_tensor && s->in[i].position > 2);
    lmi_way_point(a, s, in, r);
    if (n < 2 || n > LMI_AXES) return true;
    if (which != 2) r->to[n - 1] = LMI_TO_ALL;
    if (which != 1 && which != 2) return true;
    r->loose = masked;
    if (whole && number(s, LMI_S_causal, 0, 0) != 0) return beginning(a, s, in, n - 2, r);
    r->to[n - 2] = LMI_TO_ALL;
    return true;
}

/* A whole attention layer: batch first, then positions. */
bool lmi_way_sequence(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    lmi_way_all(a, s, in, r);
    if (nth_tensor(s, in) == 0 && s->in[in].ndim == 3) r->to[0] = 0;
    return true;
}

bool lmi_way_embedding(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    if (nth_tensor(s, in) == 0) return lmi_way_all(a, s, in, r);
    (void)a;
    aligned(r, s->in[in].ndim, s->in[in].ndim);
    return true;
}

/* -- rearranged ---------------------------------------------------------------------------------- */

typedef enum padding { PAD_NOTHING, PAD_MIRROR, PAD_EDGE, PAD_ROUND } padding;

/* The element that padding copies to position `at` of an axis of n, -1: none. */
static int64_t padded(padding how, int64_t at, int64_t n) {
    if (at >= 0 && at < n) return at;
    if (n < 1) return -1;
    if (how == PAD_EDGE) return at < 0 ? 0 : n - 1;
    if (how == PAD_ROUND) return (at % n + n) % n;
    return at < 0 ? -at : 2 * (n - 1) - at;
}

static bool pad(lmi_arena *a, const lam_op_sig *s, int32_t in, padding how, lmi_route *r) {
    const lam_value *by = value(s, LMI_S_pad);
    lam_shape x = shape_in(s, in), out = lmi_result_shape(s);
    lmi_way_point(a, s, in, r);
    for (int32_t k = 0; by && by->type == LAM_INTS && 2 * k + 1 < by->n && k < x.ndim; k++) {
        int32_t axis = x.ndim - 1 - k;
        lmi_reach *each = NULL;
        if (how != PAD_NOTHING && axis < LMI_AXES) r->spatial |= (uint8_t)(1u << axis);
        if (how != PAD_NOTHING && !reads(a, out.sizes[axis], &each)) return false;
        for (int64_t o = 0; each && o < out.sizes[axis]; o++)
            each[o] = only(padded(how, o - by->ints[2 * k], x.sizes[axis]));
        if (!tap_each(a, r, axis, -by->ints[2 * k], each)) return false;
    }
    return true;
}

bool lmi_way_pad(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return pad(a, s, in, PAD_NOTHING, r);
}
bool lmi_way_mirror(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return pad(a, s, in, PAD_MIRROR, r);
}
bool lmi_way_edge(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return pad(a, s, in, PAD_EDGE, r);
}
bool lmi_way_round(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return pad(a, s, in, PAD_ROUND, r);
}

/* channel_shuffle(x, groups): the channels are in another order. */
bool lmi_way_channels(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int64_t groups = number(s, LMI_S_groups, 0, 1), split[LMI_AXES];
    int32_t n = s->in[in].ndim;
    int8_t by[LMI_AXES];
    lmi_way_point(a, s, in, r);
    if (n < 2 || n + 1 > LMI_AXES || groups < 1 || s->in[in].sizes[1] % groups != 0)
        return lmi_way_spread(a, s, in, r);
    for (int32_t i = 0; i <= n; i++) by[i] = (int8_t)(i == 1 ? 2 : i == 2 ? 1 : i);
    for (int32_t i = 0; i <= n; i++) split[i] = s->in[in].sizes[i > 1 ? i - 1 : i];
    split[1] = groups;
    split[2] = s->in[in].sizes[1] / groups;
    return lmi_rearranged(a, r, n + 1, split, by);
}

/* pixel_shuffle(x, factor): the parts of a channel become the pixels of a square; and the reverse. */
static bool shuffled(lmi_arena *a, const lam_op_sig *s, int32_t in, bool up, lmi_route *r) {
    int64_t by = number(s, LMI_S_upscale, 0, 1), split[LMI_AXES];
    int32_t n = s->in[in].ndim, c = n - 3;
    int8_t order[LMI_AXES] = {0, 1, 2, 3, 4, 5, 6, 7};
    lam_shape x = shape_in(s, in), out = lmi_result_shape(s);
    lmi_way_point(a, s, in, r);
    if (n < 3 || n + 2 > LMI_AXES || by < 1 || out.ndim != n) return lmi_way_spread(a, s, in, r);
    const lam_shape less = up ? out : x, more = up ? x : out; /* with fewer channels, and with more */
    const int64_t pixels[] = {less.sizes[c], more.sizes[n - 2], by, more.sizes[n - 1], by},
                  parts[] = {less.sizes[c], by, by, more.sizes[n - 2], more.sizes[n - 1]};
    const int8_t from_parts[] = {0, 3, 1, 4, 2}, from_pixels[] = {0, 2, 4, 1, 3};
    for (int32_t i = 0; i < c; i++) split[i] = x.sizes[i];
    for (int32_t i = 0; i < 5; i++) {
        split[c + i] = up ? parts[i] : pixels[i];
        order[c + i] = (int8_t)(c + (up ? from_parts[i] : from_pixels[i]));
    }
    r->spatial = (uint8_t)(3u << (n - 2));
    return lmi_rearranged(a, r, n + 2, split, order);
}

bool lmi_way_shuffle(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return shuffled(a, s, in, true, r);
}
bool lmi_way_unshuffle(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    return shuffled(a, s, in, false, r);
}

/* Tensor.unfold(dim, size, step): the elements of the windows become a separate axis. */
bool lmi_way_unfold(lmi_arena *a, const lam_op_sig *s, int32_t in, lmi_route *r) {
    int32_t n = s->in[in].ndim, dim = axis_of(s, 0, n);
    int64_t size = number(s, LMI_S_kernel, 0, 1), by = number(s, LMI_S_step, 0, 1), *lo, *hi, sizes[LMI_AXES];
    lam_shape out = lmi_result_shape(s);
    to_all(r);
    if (dim < 0 || out.ndim != n + 1 || out.ndim > LMI_AXES || size < 1 || size > LMI_PERIOD_MAX)
        return lmi_way_spread(a, s, in, r);
    for (int32_t i = 0; i < n; i++) {
        r->to[i] = (int8_t)i;
        sizes[i] = i == dim ? out.sizes[dim] * size : s->in[in].sizes[i];
    }
    if (!tap(a, r, dim, (int32_t)size, by, 1, &lo, &hi)) return false;
    for (int64_t o = 0; o < size; o++) lo[o] = hi[o] = o;
    lmi_route *split = then(a, r, n, sizes);
    for (int32_t i = n; i > dim; i--) sizes[i] = i > dim + 1 ? s->in[in].sizes[i - 1] : size;
    sizes[dim] = out.sizes[dim];
    lmi_route *last = split ? then(a, split, n + 1, sizes) : NULL;
    if (!last) return false;
    split->view = true;
    for (int32_t i = dim + 1; i <= n; i++) last->to[i] = (int8_t)(i == dim + 1 ? n : i - 1);
    return true;
}

/* -- the table ----------------------------------------------------------------------------------- */

bool lmi_ways_build(lmi_ways *w, lmi_arena *a) {
    w->n = 0;
    while (lam_word_op_name(w->n)) w->n++;
    w->by_word = lmi_alloc(a, (uint64_t)w->n, sizeof *w->by_word);
    w->named = lmi_alloc(a, (uint64_t)w->n, sizeof *w->named);
    lmi_way by_kind[LMI_N_KINDS] = {NULL};
    if (!w->by_word || !w->named) return false;
#define REACH_KIND(kind, how) by_kind[LMI_K_##kind] = lmi_way_##how;
#define REACH(spelling, how)
#include "analyse/field/rf_operators.def"
#undef REACH_KIND
#undef REACH
    for (int32_t i = 0; i < w->n; i++) w->by_word[i] = by_kind[lmi_op_kind(i)];
#define REACH_KIND(kind, how)
#define REACH(spelling, how) {spelling, lmi_way_##how},
    static const struct {
        const char *spelling;
        lmi_way how;
    } named[] = {
#include "analyse/field/rf_operators.def"
    };
#undef REACH_KIND
#undef REACH
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        int32_t word = lam_word_op(named[i].spelling);
        if (word < 0) continue;
        w->by_word[word] = named[i].how;
        w->named[word] = true;
    }
    return true;
}
