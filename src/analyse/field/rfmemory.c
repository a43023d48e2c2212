/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields of parts of memory that are written through one view and read through another. */
#include "analyse/field/rfmemory.h"
#include "analyse/field/rfempty.h"
#include "analyse/field/rflead.h"

static int32_t axis_to(const lmi_place *p, int32_t base) {
    for (int32_t k = 0; k < p->n; k++)
        if (p->of[k] == base) return k;
    return -1;
}

/* The index along axis `b` of the view at `p` of element `at` of the memory's axis; -1: the view does not
 * contain it. */
static int64_t element_of(const lmi_place *p, int32_t b, int64_t at) {
    int64_t v = at - p->start[b];
    if (v < 0 || v % p->step[b] != 0 || v / p->step[b] >= p->count[b]) return -1;
    return v / p->step[b];
}

static int64_t base_of(const lmi_place *p, int32_t b, int64_t o) { return p->start[b] + o * p->step[b]; }

/* The shape of the view at `p`. */
static lam_shape shape_of(const lmi_place *p, int64_t *sizes) {
    for (int32_t k = 0; k < p->n; k++) sizes[k] = p->of[k] < 0 ? 1 : p->count[p->of[k]];
    return (lam_shape){p->n, sizes};
}

/* The route of an axis that both views have: along it the reader's elements are those of the written view
 * that have the same place. */
static bool move_axis(lmi_arena *a, const lmi_place *from, const lmi_place *to, int32_t axis, int32_t b,
                      lmi_route *r) {
    int64_t n = to->count[b], shift = to->step[b] / from->step[b], *first = lmi_alloc(a, 1, sizeof *first);
    lmi_reach *each = lmi_alloc(a, (uint64_t)(n ? n : 1), sizeof *each);
    lmi_taps *t = lmi_alloc(a, 1, sizeof *t);
    if (!first || !each || !t) return false;
    *first = lmi_floor_div(to->start[b] - from->start[b], from->step[b]);
    for (int64_t o = 0; o < n; o++) {
        int64_t at = element_of(from, b, base_of(to, b, o));
        each[o] = at < 0 ? (lmi_reach){1, 0} : (lmi_reach){at, at};
    }
    *t = (lmi_taps){1, shift ? shift : 1, 1, first, first, each, false};
    r->taps[axis] = t;
    return true;
}

/* The route from the elements of one view to those of another. *any: some element is in both. */
static bool move_route(lmi_arena *a, const lmi_place *from, const lmi_place *to, lmi_route *r, bool *any) {
    *r = (lmi_route){.among = -1};
    *any = true;
    for (int32_t i = 0; i < LMI_AXES; i++) r->to[i] = LMI_TO_ALL;
    for (int32_t i = 0; i < from->n; i++) {
        int32_t b = from->of[i], k = b < 0 ? -1 : axis_to(to, b);
        if (b < 0) continue;
        r->to[i] = (int8_t)(k < 0 ? LMI_TO_ONE : k);
        if (k < 0) r->one[i] = element_of(from, b, to->start[b]);
        *any = *any && (k >= 0 || r->one[i] >= 0);
        bool same =
            from->start[b] == to->start[b] && from->step[b] == to->step[b] && from->count[b] == to->count[b];
        if (k >= 0 && to->count[b] > LMI_EACH_MAX && !same)
            r->to[i] = LMI_TO_ALL, r->unsure |= (uint8_t)(1u << i);
        else if (k >= 0 && !same && !move_axis(a, from, to, i, b, r))
            return false;
    }
    return true;
}

bool lmi_rf_move(lmi_arena *a, lmi_span *s, const lmi_place *from, const lmi_place *to) {
    int64_t x[LMI_PLACE_AXES], out[LMI_PLACE_AXES];
    bool windowed = false, any;
    lmi_route r;
    if (!move_route(a, from, to, &r, &any)) return false;
    if (!any) s->kind = LMI_SPAN_NONE;
    return lmi_rf_step(a, shape_of(from, x), shape_of(to, out), &r, 0, s, &windowed);
}

void lmi_rf_narrower(lmi_span *s, const lmi_span *other) {
    if (other->kind == LMI_SPAN_NONE || s->kind == LMI_SPAN_UNKNOWN) return;
    if (s->kind == LMI_SPAN_NONE || other->kind == LMI_SPAN_UNKNOWN ||
        lmi_span_size(other) < lmi_span_size(s))
        *s = *other;
}

/* Finds the elements of axis k of the view at `to` that are also in the view at `at`; NULL: all are. */
static bool covered(lmi_arena *a, const lmi_place *at, const lmi_place *to, int32_t k, bool **in) {
    int32_t b = to->of[k];
    *in = NULL;
    if (b < 0) return true;
    bool *each = lmi_alloc(a, (uint64_t)(to->count[b] + 1), sizeof *each), all = true;
    if (!each) return false;
    for (int64_t o = 0; o < to->count[b]; o++) {
        each[o] = element_of(at, b, base_of(to, b, o)) >= 0;
        all = all && each[o];
    }
    if (!all) *in = each;
    return true;
}

typedef struct region { /* the elements that were written, along each axis of the reader; NULL: all */
    bool *in[LMI_PLACE_AXES], *out[LMI_PLACE_AXES];
    int64_t n[LMI_PLACE_AXES];
    int32_t parts, axis; /* the number of axes of which a part was written, and the first of them */
} region;

static bool find_region(lmi_arena *a, const lmi_place *at, const lmi_place *to, region *r) {
    *r = (region){.axis = -1};
    for (int32_t k = 0; k < to->n; k++) {
        if (!covered(a, at, to, k, &r->in[k])) return false;
        if (!r->in[k]) continue;
        r->n[k] = to->count[to->of[k]];
        if (r->parts++ == 0) r->axis = k;
        r->out[k] = lmi_alloc(a, (uint64_t)(r->n[k] + 1), sizeof **r->out);
        if (!r->out[k]) return false;
        for (int64_t o = 0; o < r->n[k]; o++) r->out[k][o] = !r->in[k][o];
    }
    return true;
}

/* If a part of one axis was written, and both follow at most that axis, they are separated along it. */
static bool separate(lmi_arena *a, lmi_span *old, lmi_span *fresh, const region *r, bool *done) {
    int32_t p = r->axis;
    bool follow = (fresh->kind != LMI_SPAN_TRACK || fresh->axis == p) &&
                  (old->kind != LMI_SPAN_TRACK || old->axis == p);
    *done = r->parts == 1 && follow && !fresh->grid && !old->grid && !fresh->varies && !old->varies;
    return !*done ||
           (lmi_span_mask(a, old, p, r->n[p], r->out[p]) && lmi_span_mask(a, fresh, p, r->n[p], r->in[p]));
}

/* Elements differ along the axes of the region, and no grid says how. */
static void lose_grid(lmi_span *s, const region *r) {
    if (s->grid) s->varies |= lmi_grid_differ(s->grid);
    for (int32_t k = 0; k < LMI_PLACE_AXES; k++)
        if (r->in[k]) s->varies |= (uint8_t)(1u << k);
    if (s->kind == LMI_SPAN_TRACK) s->varies &= (uint8_t) ~(1u << s->axis);
    s->grid = NULL;
}

/* Old elements stay where the new ones were not written. */
static bool put_over(lmi_arena *a, lmi_span *old, lmi_span *fresh, const region *r, lam_shape shape) {
    lmi_grid was, now;
    bool done;
    if (!separate(a, old, fresh, r, &done)) return false;
    if (done) return true;
    if (!lmi_rf_grid(a, old, shape, &was) || !lmi_grid_box(a, &was, shape, r->in, false)) return false;
    if (!lmi_rf_grid(a, fresh, shape, &now) || !lmi_grid_box(a, &now, shape, r->in, true)) return false;
    if (was.at && now.at) return lmi_rf_settle(a, old, &was, shape) && lmi_rf_settle(a, fresh, &now, shape);
    old->loose = old->loose || (old->kind == LMI_SPAN_TRACK && r->parts == 1 && old->axis == r->axis);
    fresh->loose = fresh->loose || (fresh->kind == LMI_SPAN_TRACK && r->in[fresh->axis]);
    lose_grid(old, r);
    lose_grid(fresh, r);
    return true;
}

bool lmi_rf_overlay(lmi_arena *a, const lmi_rf *rf, lmi_span *old, lmi_span *fresh, const lmi_place *at,
                    const lmi_place *to) {
    int64_t sizes[LMI_PLACE_AXES];
    region r;
    if (!find_region(a, at, to, &r)) return false;
    lam_shape shape = shape_of(to, sizes);
    if (r.parts > 0 && !(lmi_rf_empty(a, rf, old, shape, true) && lmi_rf_empty(a, rf, fresh, shape, true)))
        return false;
    for (int32_t i = 0; i < rf->n_slots; i++) {
        lmi_span *s = &old[i], *f = &fresh[i];
        bool differ = f->kind != s->kind || !lmi_span_equal(s, f);
        if (r.parts > 0 && differ && !put_over(a, s, f, &r, shape)) return false;
        if (!lmi_rf_join(a, s, f, shape)) return false;
        lmi_span_even(s);
    }
    return true;
}
