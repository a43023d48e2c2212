/* SPDX-License-Identifier: Apache-2.0
 *
 * Receptive fields of parts of memory that are written through one view and read through another. */
#include "analyse/field/rfplace.h"

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

static bool fix(lmi_arena *a, lmi_span *s, const lmi_reach *r) {
    lmi_reach *at = lmi_alloc(a, 1, sizeof *at);
    if (!at) return false;
    *at = *r;
    s->kind = r->hi < r->lo ? LMI_SPAN_NONE : LMI_SPAN_FIXED;
    s->at = at;
    s->each = NULL;
    s->n_each = 0;
    s->period = 1;
    s->shift = 0;
    s->stays = 0;
    return true;
}

bool lmi_rf_move(lmi_arena *a, lmi_span *s, const lmi_place *from, const lmi_place *to) {
    if (s->kind == LMI_SPAN_FIXED && s->stays) {
        int32_t b = s->stays <= from->n ? from->of[s->stays - 1] : -1;
        int32_t k = b < 0 ? -1 : axis_to(to, b);
        s->stays = (int8_t)(k >= 0 && from->count[b] == to->count[b] ? k + 1 : 0);
    }
    if (s->kind == LMI_SPAN_FOLDED) {
        s->loose = true;
        return lmi_span_all(a, s, 1);
    }
    if (s->kind != LMI_SPAN_TRACK) return true;
    int32_t b = s->axis < from->n ? from->of[s->axis] : -1;
    if (b < 0) return lmi_span_all(a, s, 1);
    int32_t k = axis_to(to, b);
    if (k < 0) {
        int64_t o = element_of(from, b, to->start[b]);
        lmi_reach r = o < 0 ? (lmi_reach){1, 0} : lmi_span_clipped(s, o);
        return fix(a, s, &r);
    }
    int64_t n = to->count[b], first = lmi_floor_div(to->start[b] - from->start[b], from->step[b]);
    if (n > LMI_EACH_MAX) {
        s->loose = true;
        return lmi_span_all(a, s, from->count[b]);
    }
    int64_t *pick = lmi_alloc(a, (uint64_t)(n ? n : 1), sizeof *pick);
    if (!pick) return false;
    for (int64_t o = 0; o < n; o++) pick[o] = element_of(from, b, base_of(to, b, o));
    int64_t shift = to->step[b] / from->step[b];
    lmi_taps taps = {
        .period = 1, .shift = shift ? shift : 1, .step = 1, .lo = &first, .hi = &first, .pick = pick};
    s->axis = (int8_t)k;
    return lmi_span_window(a, s, &taps, from->count[b], n);
}

uint32_t lmi_rf_along(const lmi_span *spans, int32_t n, int32_t axis) {
    uint32_t bits = 0;
    for (int32_t k = 0; k < n; k++)
        if (spans[k].kind == LMI_SPAN_TRACK && spans[k].axis == axis) bits |= UINT32_C(1) << k;
    return bits;
}

static bool nowhere(const lmi_span *spans, int32_t n) {
    for (int32_t k = 0; k < n; k++)
        if (spans[k].kind != LMI_SPAN_NONE) return false;
    return true;
}

/* True if by `whole` every element depends on all positions that any element depends on by `s`. */
static bool covers(const lmi_span *whole, const lmi_span *s) {
    if (s->kind == LMI_SPAN_NONE || lmi_span_equal(whole, s)) return true;
    return whole->kind == LMI_SPAN_FIXED && whole->at[0].lo <= s->first && whole->at[0].hi >= s->last;
}

static uint32_t gaps_of(const lmi_span *spans, int32_t n, lam_shape shape, uint32_t but) {
    uint32_t bits = 0;
    for (int32_t k = 0; k < n; k++) {
        bool apart = spans[k].kind == LMI_SPAN_TRACK && but >> spans[k].axis & 1;
        if (!apart && lmi_span_gaps(&spans[k], lmi_rf_elements(&spans[k], shape))) bits |= UINT32_C(1) << k;
    }
    return bits;
}

void lmi_rf_gaps(int32_t n, const lmi_span *spans, lmi_span *sum, lam_shape shape, uint32_t but) {
    if (nowhere(spans, n) || nowhere(sum, n)) return;
    uint32_t here = gaps_of(spans, n, shape, but), there = gaps_of(sum, n, shape, but);
    for (int32_t k = 0; k < n; k++) {
        uint32_t others = ~(UINT32_C(1) << k);
        if (here & others && !covers(&sum[k], &spans[k])) sum[k].mixed |= here;
        if (there & others && !covers(&spans[k], &sum[k])) sum[k].mixed |= there;
    }
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

/* If a part of one axis was written, old and new elements are separated along it. If parts of two or more
 * axes were written, elements may still depend on the old data. */
static bool put_over(lmi_arena *a, lmi_span *old, lmi_span *fresh, const region *r, const uint32_t *along) {
    int32_t p =
        old->kind == LMI_SPAN_TRACK && old->axis < LMI_PLACE_AXES && r->in[old->axis] ? old->axis : r->axis;
    bool tells = fresh->kind != LMI_SPAN_TRACK || fresh->axis == p;
    bool kept = old->kind == LMI_SPAN_FIXED || (old->kind == LMI_SPAN_TRACK && old->axis == p);
    bool differ = fresh->kind != old->kind || !lmi_span_equal(old, fresh);
    if (differ && kept && r->parts == 1 && tells && !lmi_span_mask(a, old, p, r->n[p], r->out[p]))
        return false;
    if (differ && tells && !lmi_span_mask(a, fresh, p, r->n[p], r->in[p])) return false;
    for (int32_t k = 0; differ && k < LMI_PLACE_AXES; k++)
        if (r->in[k] && !(k == p && tells && (kept || old->kind == LMI_SPAN_NONE))) old->mixed |= along[k];
    return true;
}

bool lmi_rf_overlay(lmi_arena *a, int32_t n, lmi_span *old, lmi_span *fresh, const lmi_place *at,
                    const lmi_place *to) {
    uint32_t along[LMI_PLACE_AXES], but = 0;
    int64_t sizes_to[LMI_PLACE_AXES];
    region r;
    if (!find_region(a, at, to, &r)) return false;
    for (int32_t k = 0; k < to->n; k++) {
        sizes_to[k] = to->of[k] < 0 ? 1 : to->count[to->of[k]];
        if (r.in[k]) but |= UINT32_C(1) << k;
    }
    lam_shape shape = {to->n, sizes_to};
    lmi_rf_gaps(n, fresh, old, shape, but);
    for (int32_t k = 0; k < LMI_PLACE_AXES; k++)
        along[k] = lmi_rf_along(old, n, k) | lmi_rf_along(fresh, n, k);
    for (int32_t i = 0; i < n; i++) {
        lmi_span *s = &old[i], *f = &fresh[i];
        if (r.parts > 0 && !put_over(a, s, f, &r, along)) return false;
        if (!lmi_span_join(a, s, f, lmi_rf_elements(s, shape), lmi_rf_elements(f, shape))) return false;
        lmi_span_even(s);
    }
    return true;
}
