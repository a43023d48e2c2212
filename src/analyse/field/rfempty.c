/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements that depend on nothing of an input: padding, what a transposed convolution leaves out, what was
 * overwritten. An element of a tensor has a span for each axis of the input, and each says it on its own. */
#include "analyse/field/rfempty.h"
#include "analyse/field/rflead.h"
#include "analyse/field/rfmemory.h"

/* Spans i and k are of two axes of one input. */
static bool of_one_input(const lmi_rf *rf, int32_t i, int32_t k) {
    return i != k && rf->slot[i].input == rf->slot[k].input;
}

/* The axes along which elements may differ that the span describes, one bit each. */
static uint8_t axes_of(const lmi_span *s) {
    if (s->kind != LMI_SPAN_TRACK && s->kind != LMI_SPAN_FIXED) return 0;
    uint32_t bits = s->varies | (s->grid ? lmi_grid_differ(s->grid) : 0u);
    return (uint8_t)(bits | (s->kind == LMI_SPAN_TRACK ? 1u << s->axis : 0u));
}

/* Removes from span `s` the elements of which `by` says nothing. */
static bool empty_as(lmi_arena *a, lmi_span *s, const lmi_span *by, lam_shape shape) {
    lmi_grid g, h;
    if (!by->grid && !lmi_span_gaps(by, lmi_rf_elements(by, shape))) return true;
    if (!lmi_rf_grid(a, s, shape, &g) || !lmi_rf_grid(a, by, shape, &h)) return false;
    if (h.at && !lmi_grid_gaps(&h)) return true;
    if (h.at && g.at && !lmi_grid_cut(a, &g, &h, shape)) return false;
    if (h.at && g.at) return lmi_rf_settle(a, s, &g, shape);
    s->varies = (uint8_t)(axes_of(s) | axes_of(by));
    if (s->kind == LMI_SPAN_TRACK) s->varies &= (uint8_t) ~(1u << s->axis);
    s->grid = NULL;
    return true;
}

bool lmi_rf_empty(lmi_arena *a, const lmi_rf *rf, lmi_span *spans, lam_shape shape, bool part) {
    for (int32_t k = 0; k < rf->n_slots; k++)
        for (int32_t i = 0; i < rf->n_slots; i++) {
            lmi_span *s = &spans[i], *by = &spans[k];
            if (!of_one_input(rf, i, k)) continue;
            if (by->kind == LMI_SPAN_NONE) s->kind = spans[rf->n_slots + i].kind = LMI_SPAN_NONE;
            bool tracks = s->kind == LMI_SPAN_TRACK && by->kind == LMI_SPAN_TRACK;
            bool share = axes_of(s) & axes_of(by);
            if (((part && tracks) || share) && !empty_as(a, s, by, shape)) return false;
        }
    return true;
}

/* True if by `whole` every element depends on all positions that any element depends on by `s`. */
static bool covers(const lmi_span *whole, const lmi_span *s) {
    if (s->kind == LMI_SPAN_NONE || lmi_span_equal(whole, s)) return true;
    return whole->kind == LMI_SPAN_FIXED && !whole->grid && !whole->varies && whole->at[0].lo <= s->first &&
           whole->at[0].hi >= s->last;
}

static bool follows_with_gaps(const lmi_span *s, lam_shape shape) {
    return s->kind == LMI_SPAN_TRACK && lmi_span_gaps(s, lmi_rf_elements(s, shape));
}

bool lmi_rf_apart(lmi_arena *a, const lmi_rf *rf, lmi_span *spans, lmi_span *sum, lam_shape shape) {
    for (int32_t k = 0; k < rf->n_slots; k++) {
        bool here = follows_with_gaps(&spans[k], shape), there = follows_with_gaps(&sum[k], shape);
        for (int32_t i = 0; (here || there) && i < rf->n_slots; i++) {
            if (!of_one_input(rf, i, k)) continue;
            if (spans[i].kind == LMI_SPAN_NONE || sum[i].kind == LMI_SPAN_NONE) continue;
            bool mine = here && !covers(&sum[i], &spans[i]), its = there && !covers(&spans[i], &sum[i]);
            if (mine && !empty_as(a, &spans[i], &spans[k], shape)) return false;
            if (its && !empty_as(a, &sum[i], &sum[k], shape)) return false;
        }
    }
    return true;
}

/* For each slot: the axes of the argument that have taps and that no span of its input follows, one bit each.
 */
static void find_alone(const lmi_rf *rf, const lmi_route *r, lam_shape x, const lmi_span *spans,
                       uint32_t *alone) {
    uint32_t taps = 0;
    for (int32_t i = 0; i < x.ndim && i < LMI_AXES; i++) taps |= r->taps[i] ? 1u << i : 0;
    for (int32_t k = 0; k < rf->n_slots; k++) {
        alone[k] = taps;
        for (int32_t i = 0; taps && i < rf->n_slots; i++)
            if (rf->slot[i].input == rf->slot[k].input && spans[i].kind == LMI_SPAN_TRACK)
                alone[k] &= ~(1u << spans[i].axis);
    }
}

/* Where the route may read less along an axis, it may read only what depends on nothing. */
static void doubt(const lmi_rf *rf, const lmi_route *r, lam_shape x, lmi_span *spans) {
    for (int32_t k = 0; k < rf->n_slots; k++) {
        const lmi_span *by = &spans[k];
        if (by->kind != LMI_SPAN_TRACK || !lmi_rf_loosens(r, (uint8_t)(1u << by->axis))) continue;
        for (int32_t i = 0; follows_with_gaps(by, x) && i < rf->n_slots; i++)
            if (of_one_input(rf, i, k)) spans[i].loose = true;
    }
}

bool lmi_rf_lead(lmi_arena *a, const lmi_rf *rf, lam_shape x, lam_shape out, const lmi_route *r,
                 lmi_span *spans, bool *windowed) {
    uint32_t alone[LMI_RF_SLOTS];
    for (;; r = r->then) {
        lam_shape to = r->then ? r->mid : out;
        find_alone(rf, r, x, spans, alone);
        doubt(rf, r, x, spans);
        for (int32_t k = 0; k < 2 * rf->n_slots; k++)
            if (!lmi_rf_step(a, x, to, r, k < rf->n_slots ? alone[k] : 0, &spans[k],
                             &windowed[k % rf->n_slots]))
                return false;
        if (!r->then) return true;
        if (!lmi_rf_empty(a, rf, spans, to, false)) return false;
        x = to;
    }
}
