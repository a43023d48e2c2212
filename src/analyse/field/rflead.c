/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans through operators. A span that follows one axis is mapped as a whole, with its period. Where elements
 * differ along other axes too, a grid is mapped beside it and says what the span does not. */
#include "analyse/field/rflead.h"
#include "analyse/field/rfmemory.h"
#include "analyse/field/rfreshape.h"

/* -- grids --------------------------------------------------------------------------------------- */

bool lmi_rf_grid(lmi_arena *a, const lmi_span *s, lam_shape shape, lmi_grid *g) {
    g->at = NULL;
    if (s->varies || shape.ndim > LMI_AXES || (s->kind == LMI_SPAN_TRACK && s->axis >= shape.ndim))
        return true;
    return lmi_grid_of(a, s, lmi_rf_elements(s, shape), g);
}

/* The axis along which indices tell most: the largest field of an index is smallest, or there are more
 * numbers. */
static bool best_axis(lmi_arena *a, const lmi_grid *g, lam_shape shape, int32_t *best) {
    int64_t least = INT64_MAX;
    *best = -1;
    for (int32_t i = 0; i < shape.ndim; i++) {
        int64_t n = shape.sizes[i], most = 0;
        if (g->of[i].n == 1 || n > LMI_EACH_MAX) continue;
        lmi_reach *each = lmi_alloc(a, (uint64_t)n, sizeof *each);
        if (!each) return false;
        lmi_grid_along(g, i, n, each);
        for (int64_t o = 0; o < n; o++)
            if (each[o].hi - each[o].lo + 1 > most) most = each[o].hi - each[o].lo + 1;
        if (most > least || (most == least && g->of[i].n <= g->of[*best].n)) continue;
        *best = i;
        least = most;
    }
    return true;
}

/* The span follows the axis, and has a period if it repeats. */
static bool follow(lmi_arena *a, lmi_span *s, const lmi_grid *g, int32_t axis, int64_t n) {
    const lmi_digit *d = &g->of[axis];
    lmi_reach *each = lmi_alloc(a, (uint64_t)n + 1, sizeof *each), *all = lmi_alloc(a, 1, sizeof *all);
    if (!each || !all) return false;
    lmi_grid_along(g, axis, n, each);
    if (s->kind != LMI_SPAN_TRACK || s->axis != axis) {
        bool short_one = !d->each && d->inner * d->n <= LMI_PERIOD_MAX && d->inner * d->n < n;
        *all = (lmi_reach){s->first, s->last};
        s->kind = LMI_SPAN_TRACK;
        s->axis = (int8_t)axis;
        s->period = short_one ? (int32_t)(d->inner * d->n) : 1;
        s->shift = 0;
        s->at = short_one ? each : all;
        s->each = NULL;
        s->n_each = 0;
        s->stays = 0;
    }
    return lmi_span_each(a, s, each, n);
}

bool lmi_rf_settle(lmi_arena *a, lmi_span *s, const lmi_grid *from, lam_shape shape) {
    lmi_grid g = *from;
    int32_t axis = s->kind == LMI_SPAN_TRACK ? s->axis : -1;
    s->grid = NULL;
    s->varies = 0;
    if (s->kind == LMI_SPAN_UNKNOWN || s->kind == LMI_SPAN_NONE) return true;
    if (!lmi_grid_settle(a, &g, shape)) return false;
    uint8_t along = lmi_grid_differ(&g);
    bool own = axis >= 0 && (along >> axis & 1 || shape.sizes[axis] == 1);
    if (!along && !own) {
        int8_t stays = s->kind == LMI_SPAN_FIXED ? s->stays : 0;
        if (g.at[0].hi < g.at[0].lo) *s = (lmi_span){.kind = LMI_SPAN_NONE, .least = s->least};
        if (s->kind == LMI_SPAN_NONE) return true;
        s->kind = LMI_SPAN_FIXED;
        s->at = g.at;
        s->each = NULL;
        s->period = 1;
        s->shift = 0;
        s->stays = stays;
        s->first = g.at[0].lo;
        s->last = g.at[0].hi;
        return true;
    }
    if (!own && !best_axis(a, &g, shape, &axis)) return false;
    if (axis >= 0 && shape.sizes[axis] <= LMI_EACH_MAX && !follow(a, s, &g, axis, shape.sizes[axis]))
        return false;
    if (s->kind == LMI_SPAN_TRACK && !(along & ~(1u << s->axis)) && shape.sizes[s->axis] <= LMI_EACH_MAX)
        return true;
    lmi_grid *kept = s->kind == LMI_SPAN_NONE ? NULL : lmi_copy(a, &g, 1, sizeof g);
    s->grid = kept;
    return kept || s->kind == LMI_SPAN_NONE;
}

/* Elements differ along these axes too, and no grid says how. */
static void lose_grid(lmi_span *s, uint32_t axes) {
    if (s->grid) axes |= lmi_grid_differ(s->grid);
    s->varies |= (uint8_t)axes;
    if (s->kind == LMI_SPAN_TRACK) s->varies &= (uint8_t) ~(1u << s->axis);
    s->grid = NULL;
}

/* Elements with an index along `axis` that is not `in` depend on nothing. */
static bool mask(lmi_arena *a, lmi_span *s, int32_t axis, const bool *in, lam_shape shape) {
    int64_t n = shape.sizes[axis];
    lmi_grid g;
    if (s->kind != LMI_SPAN_TRACK && s->kind != LMI_SPAN_FIXED) return true;
    bool other = s->grid || s->varies || (s->kind == LMI_SPAN_TRACK && s->axis != axis);
    if (!other) return lmi_span_mask(a, s, axis, n, in);
    if (!lmi_rf_grid(a, s, shape, &g) || !lmi_grid_mask(a, &g, axis, n, in)) return false;
    if (g.at) return lmi_rf_settle(a, s, &g, shape);
    if (s->grid) s->varies |= lmi_grid_differ(s->grid);
    s->varies |= (uint8_t)(1u << axis);
    if (s->kind == LMI_SPAN_TRACK) s->varies &= (uint8_t) ~(1u << s->axis);
    s->grid = NULL;
    return true;
}

/* -- views --------------------------------------------------------------------------------------- */

/* Every element depends on all that any does: more than it really depends on. */
static bool unite(lmi_arena *a, lmi_span *s, int64_t n, bool *more) {
    *more = true;
    return lmi_span_all(a, s, n);
}

/* Repeats each of the span's elements `inner` times: element o becomes that of o / inner. */
static bool stretch(lmi_arena *a, lmi_span *s, int64_t n, int64_t inner, int32_t to, bool *more) {
    if (inner > LMI_PERIOD_MAX) return unite(a, s, n, more);
    int64_t *zeros = lmi_alloc(a, (uint64_t)inner, sizeof *zeros);
    if (!zeros) return false;
    lmi_taps taps = {(int32_t)inner, 1, 1, zeros, zeros, NULL, false};
    s->axis = (int8_t)to;
    return lmi_span_window(a, s, &taps, n, n * inner);
}

/* Moves the span to the major axis of a split: its elements depend on all elements of the minor axes. */
static bool split(lmi_arena *a, lmi_span *s, lam_shape out, int32_t major, int64_t n, bool *more) {
    int64_t lo = 0, inner = n / out.sizes[major], hi = inner - 1;
    lmi_taps taps = {1, inner, 1, &lo, &hi, NULL, false};
    *more = *more || inner > 1;
    s->axis = (int8_t)major;
    return lmi_span_window(a, s, &taps, n, out.sizes[major]);
}

/* Maps a span that follows an axis through a view. *more: its elements depend on less than it says. */
static bool view_span(lmi_arena *a, lmi_span *s, lam_shape in, lam_shape out, bool *more) {
    lmi_group g;
    lam_shape mid;
    int64_t sizes[LMI_AXES], n = in.sizes[s->axis];
    if (n == 0 || !lmi_find_group(in, out, s->axis, &g)) return unite(a, s, n, more);
    int64_t outer = lmi_axes_product(in, g.in, s->axis), inner = lmi_axes_product(in, s->axis + 1, g.in_end);
    int32_t to = lmi_first_real(out, g.out, g.out_end);
    int64_t major = to < g.out_end ? out.sizes[to] : 0;
    if ((n == 1 && outer * inner > 1) || g.out == g.out_end) return lmi_span_all(a, s, n);
    if (outer == 1 && major > 0 && major % n == 0) return stretch(a, s, n, major / n, to, more);
    if (major == outer * n * inner) return unite(a, s, n, more);
    if (outer == 1 && major > 0 && n % major == 0) return split(a, s, out, to, n, more);
    if (lmi_refined(in, out, sizes, &mid) && mid.ndim != in.ndim && mid.ndim != out.ndim)
        return view_span(a, s, in, mid, more) &&
               (s->kind != LMI_SPAN_TRACK || view_span(a, s, mid, out, more));
    return unite(a, s, n, more);
}

/* -- routes -------------------------------------------------------------------------------------- */

/* Makes every element depend on the positions of element `one`; -1: on none. */
static bool pick_one(lmi_arena *a, lmi_span *s, int64_t one) {
    lmi_reach *at = lmi_alloc(a, 1, sizeof *at);
    if (!at) return false;
    *at = one < 0 ? (lmi_reach){1, 0} : lmi_span_clipped(s, one);
    s->kind = at->hi < at->lo ? LMI_SPAN_NONE : LMI_SPAN_FIXED;
    s->period = 1;
    s->shift = 0;
    s->at = at;
    s->each = NULL;
    s->stays = 0;
    return true;
}

/* Maps a fixed span: its positions stay the same, but the axis that still holds them may move, and a window
 * may move along it. */
static void stay(lam_shape x, lam_shape out, const lmi_route *r, lmi_span *s, bool *windowed) {
    int32_t axis = s->stays - 1, to = axis;
    lmi_group g;
    if (axis < 0 || axis >= x.ndim) {
        s->stays = 0;
    } else if (r->view) {
        bool alone = x.sizes[axis] > 0 && lmi_find_group(x, out, axis, &g) &&
                     x.sizes[axis] == lmi_axes_product(x, g.in, g.in_end);
        int32_t real = alone ? lmi_first_real(out, g.out, g.out_end) : out.ndim;
        *windowed = *windowed || (r->spatial >> axis & 1);
        s->stays = (int8_t)(real < out.ndim && out.sizes[real] == x.sizes[axis] ? real + 1 : 0);
    } else {
        if (r->to[axis] != LMI_TO_ALL) to = r->to[axis];
        bool there = to >= 0 && to < out.ndim && (r->taps[axis] || out.sizes[to] == x.sizes[axis]);
        *windowed = *windowed || (there && r->taps[axis] && r->spatial >> axis & 1);
        s->stays = (int8_t)(there ? to + 1 : 0);
    }
}

/* Along some axes of the argument no span tells that an element reads nothing. Where windows along them are
 * outside of the tensor, elements of this span depend on nothing either. */
static bool leave_out(lmi_arena *a, lam_shape x, lam_shape out, const lmi_route *r, uint32_t alone,
                      lmi_span *s) {
    for (int32_t i = 0; i < x.ndim && i < LMI_AXES; i++) {
        const lmi_taps *t = r->view || !(alone >> i & 1) ? NULL : r->taps[i];
        if (!t || r->to[i] < 0 || r->to[i] >= out.ndim || out.sizes[r->to[i]] > LMI_EACH_MAX) continue;
        int64_t n = out.sizes[r->to[i]], found = 0;
        bool *in = lmi_alloc(a, (uint64_t)n + 1, sizeof *in);
        if (!in) return false;
        for (int64_t o = 0; o < n; o++) {
            lmi_reach at = lmi_taps_at(t, o, x.sizes[i]);
            in[o] = at.hi >= at.lo;
            found += in[o];
        }
        if (found < n && !mask(a, s, r->to[i], in, out)) return false;
    }
    return true;
}

/* Maps a span that follows an axis. *more: its elements depend on less than it says. */
static bool lead_axis(lmi_arena *a, lam_shape x, lam_shape out, const lmi_route *r, lmi_span *s,
                      bool *windowed, bool *more) {
    int32_t axis = s->axis, to = r->to[axis];
    int64_t n = axis < x.ndim ? x.sizes[axis] : 1;
    bool own =
        s->shift != 0 || s->stays == axis + 1; /* it stays: parts of it were left out of a fixed span */
    *windowed = *windowed || ((r->spatial >> axis & 1) && own);
    if (r->view) return view_span(a, s, x, out, more);
    if (to == LMI_TO_ONE) return pick_one(a, s, r->one[axis]);
    if (to < 0 || to >= out.ndim) {
        bool same = to == LMI_TO_ALL && axis < out.ndim && x.ndim == out.ndim && out.sizes[axis] == n;
        s->stays = (int8_t)(same ? axis + 1 : 0);
        return lmi_span_all(a, s, n);
    }
    bool spread = !r->taps[axis] && n != out.sizes[to];
    *more = *more || (spread && n != 1);
    if (spread) return lmi_span_all(a, s, n);
    s->axis = (int8_t)to;
    s->stays = (int8_t)(s->stays == axis + 1 ? to + 1 : 0);
    if (!r->taps[axis]) return true;
    return lmi_span_window(a, s, r->taps[axis], n, out.sizes[to]);
}

/* Maps a grid. Two axes that become one: it is lost. */
static bool lead_grid(lmi_arena *a, lam_shape x, lam_shape out, const lmi_route *r, lmi_grid *g) {
    int8_t to[LMI_AXES];
    uint32_t taken = 0;
    if (r->view) return lmi_grid_view(a, g, x, out);
    for (int32_t i = 0; i < LMI_AXES; i++) {
        to[i] = -1;
        if (!g->at || i >= x.ndim || (g->of[i].n == 1 && !r->taps[i])) continue;
        int32_t axis = r->to[i];
        bool there = axis >= 0 && axis < out.ndim && (r->taps[i] || x.sizes[i] == out.sizes[axis]);
        if (axis == LMI_TO_ONE ? !lmi_grid_pick(a, g, i, r->one[i])
            : !there           ? !lmi_grid_merge(a, g, i)
            : r->taps[i]       ? !lmi_grid_window(a, g, i, r->taps[i], x.sizes[i], out.sizes[axis])
                               : false)
            return false;
        if (!there || !g->at || g->of[i].n == 1) continue;
        to[i] = (int8_t)axis;
        if (taken >> axis & 1) g->at = NULL;
        taken |= 1u << axis;
    }
    return lmi_grid_turn(a, g, to);
}

/* The axes of the result along which elements differ if those of the argument do along axes `bits`, and are
 * not described. *more: fewer of them are read, or they are mixed with the span's own axis. */
static uint8_t lead_bits(lam_shape x, lam_shape out, const lmi_route *r, uint8_t bits, int32_t own,
                         bool *more) {
    uint8_t to = 0;
    lmi_group g;
    for (int32_t i = 0; i < x.ndim; i++) {
        if (!(bits >> i & 1)) continue;
        if (r->view) {
            bool found = x.sizes[i] > 0 && lmi_find_group(x, out, i, &g);
            *more = *more || !found || (own >= g.in && own < g.in_end && own != i);
            for (int32_t k = found ? g.out : 0; k < (found ? g.out_end : out.ndim); k++)
                to |= (uint8_t)(1u << k);
            continue;
        }
        *more = *more || r->taps[i] || r->to[i] == LMI_TO_ONE;
        if (r->to[i] >= 0 && r->to[i] < out.ndim) to |= (uint8_t)(1u << r->to[i]);
    }
    return to;
}

bool lmi_rf_loosens(const lmi_route *r, uint8_t axes) {
    for (int32_t i = 0; r->loose && i < LMI_AXES; i++)
        if ((axes >> i & 1) && (r->to[i] < 0 || r->taps[i])) return true;
    return (r->unsure & axes) != 0;
}

/* True if the route leaves the axes (one bit each) where they are, element by element. A grid also has to
 * know where taps along other axes read nothing. */
static bool keeps(const lmi_route *r, lam_shape x, lam_shape out, uint32_t axes, bool grid) {
    if (r->view)
        return x.ndim == out.ndim && memcmp(x.sizes, out.sizes, (size_t)x.ndim * sizeof *x.sizes) == 0;
    for (int32_t i = 0; i < LMI_AXES; i++) {
        if (grid && r->taps[i]) return false;
        if (!(axes >> i & 1)) continue;
        bool there = i < x.ndim && i < out.ndim && x.sizes[i] == out.sizes[i];
        if (!there || r->to[i] != i || r->taps[i]) return false;
    }
    return true;
}

bool lmi_rf_step(lmi_arena *a, lam_shape x, lam_shape out, const lmi_route *r, uint32_t alone, lmi_span *s,
                 bool *windowed) {
    const lmi_span was = *s;
    lmi_grid g = {.at = NULL};
    bool more = false, track = s->kind == LMI_SPAN_TRACK;
    if (!track && s->kind != LMI_SPAN_FIXED) return true;
    if (was.grid) g = *was.grid;
    uint8_t own = (uint8_t)(track ? 1u << s->axis : 0), bits = was.varies;
    if (was.grid) bits |= lmi_grid_differ(&g);
    bits &= (uint8_t)~own;
    s->loose = was.loose || r->some || lmi_rf_loosens(r, own | bits);
    if (!track) stay(x, out, r, s, windowed);
    bool follows = track || !was.grid; /* else the grid may have an axis to follow now */
    if (follows && keeps(r, x, out, own | bits, was.grid)) return leave_out(a, x, out, r, alone, s);
    s->grid = NULL;
    s->varies = 0;
    if (track && !lead_axis(a, x, out, r, s, windowed, &more)) return false;
    if (more && !was.grid && !lmi_rf_grid(a, &was, x, &g)) return false;
    if (g.at && !lead_grid(a, x, out, r, &g)) return false;
    if (g.at) return lmi_rf_settle(a, s, &g, out) && leave_out(a, x, out, r, alone, s);
    s->varies = lead_bits(x, out, r, bits, track ? was.axis : -1, &more);
    if (s->kind == LMI_SPAN_TRACK) s->varies &= (uint8_t) ~(1u << s->axis);
    s->loose = s->loose || more;
    return leave_out(a, x, out, r, alone, s);
}

/* -- several spans ------------------------------------------------------------------------------- */

enum { PARTS_MAX = 16 }; /* concatenated tensors whose grids are joined: the work grows with their square */

bool lmi_rf_part(lmi_arena *a, lmi_span *s, const lmi_route *r, lam_shape out) {
    if (r->among < 0 || r->among >= out.ndim || r->n_among == out.sizes[r->among]) return true;
    int64_t n = out.sizes[r->among];
    bool along = s->kind == LMI_SPAN_TRACK && s->axis == r->among && !s->grid;
    if (s->kind != LMI_SPAN_TRACK && s->kind != LMI_SPAN_FIXED) return true;
    if (r->n_parts > PARTS_MAX && s->kind == LMI_SPAN_TRACK && s->axis != r->among) {
        lose_grid(s, 1u << r->among);
        return true;
    }
    if (n > LMI_EACH_MAX) {
        s->loose = s->loose || along || s->kind == LMI_SPAN_FIXED;
        s->grid = NULL;
        if (!along) s->varies |= (uint8_t)(1u << r->among);
        return !along || lmi_span_all(a, s, n);
    }
    if (along) return true; /* its taps read nothing elsewhere */
    bool *in = lmi_alloc(a, (uint64_t)n, sizeof *in);
    for (int64_t o = 0; in && o < n; o++) in[o] = o >= r->before && o < r->before + r->n_among;
    return in && mask(a, s, r->among, in, out);
}

/* True if the united spans say less than the grids of both. */
static bool need_grid(const lmi_span *s, const lmi_span *other) {
    if (s->kind == LMI_SPAN_UNKNOWN || other->kind == LMI_SPAN_UNKNOWN) return false;
    if (s->kind == LMI_SPAN_NONE || other->kind == LMI_SPAN_NONE) return false;
    bool tracks = s->kind == LMI_SPAN_TRACK && other->kind == LMI_SPAN_TRACK;
    return s->grid || other->grid || (tracks && s->axis != other->axis);
}

bool lmi_rf_join(lmi_arena *a, lmi_span *s, const lmi_span *other, lam_shape shape) {
    lmi_grid g = {.at = NULL}, h;
    lmi_span y = *other;
    const lmi_span x = *s;
    bool loose = s->loose || other->loose, grids = need_grid(s, other) && !lmi_span_equal(s, other);
    if (grids && (!lmi_rf_grid(a, s, shape, &g) || !lmi_rf_grid(a, other, shape, &h) ||
                  !lmi_grid_join(a, &g, &h, shape)))
        return false;
    if (!grids) {
        uint8_t varies = s->kind == LMI_SPAN_TRACK || s->kind == LMI_SPAN_FIXED ? s->varies : 0;
        if (other->kind == LMI_SPAN_TRACK || other->kind == LMI_SPAN_FIXED) varies |= other->varies;
        if (!lmi_span_join(a, s, other, lmi_rf_elements(s, shape), lmi_rf_elements(other, shape)))
            return false;
        s->varies = varies;
        return true;
    }
    s->grid = y.grid = NULL;
    s->varies = y.varies = 0;
    if (!lmi_span_join(a, s, &y, lmi_rf_elements(&x, shape), lmi_rf_elements(&y, shape))) return false;
    if (g.at) {
        s->loose = loose;
        return lmi_rf_settle(a, s, &g, shape);
    }
    s->varies = x.varies | other->varies;
    if (x.grid) s->varies |= lmi_grid_differ(x.grid);
    if (other->grid) s->varies |= lmi_grid_differ(other->grid);
    if (s->kind == LMI_SPAN_TRACK) s->varies &= (uint8_t) ~(1u << s->axis);
    return true;
}
