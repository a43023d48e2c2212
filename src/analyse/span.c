/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals of input positions that repeat along an axis: how windows act on them, and how they are joined
 * where paths meet. */
#include "analyse/span.h"

static const int64_t FAR = INT64_C(1) << 48; /* beyond every input: what gets there is unknown */
enum {
    WORK_MAX = 1 << 22,
    ENDS = 1 << 15
}; /* intervals looked at for one operator, at either end of an axis */

static bool nothing(const lmi_reach *r) { return r->hi < r->lo; }

static void give_up(lmi_span *s, const char *why) {
    *s = (lmi_span){.kind = LMI_SPAN_UNKNOWN, .why = why, .least = s->least};
}

bool lmi_span_input(lmi_arena *a, lmi_span *out, int32_t axis, int64_t n) {
    lmi_reach *at = lmi_alloc(a, 1, sizeof *at);
    *out = (lmi_span){.kind = LMI_SPAN_TRACK,
                      .axis = (int8_t)axis,
                      .period = 1,
                      .shift = 1,
                      .at = at,
                      .first = 0,
                      .last = n - 1};
    return at != NULL;
}

static lmi_reach moved(lmi_reach r, int64_t by) {
    return (lmi_reach){r.lo + by, r.hi + by, r.narrow_lo + by, r.narrow_hi + by};
}

lmi_reach lmi_span_at(const lmi_span *s, int64_t o) {
    if (s->kind != LMI_SPAN_TRACK) return s->at[0];
    int64_t q = lmi_floor_div(o, s->period);
    return moved(s->at[o - q * s->period], q * s->shift);
}

static int64_t between(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

lmi_reach lmi_span_clipped(const lmi_span *s, int64_t o) {
    lmi_reach r = lmi_span_at(s, o);
    if (nothing(&r) || r.hi < s->first || r.lo > s->last) return (lmi_reach){1, 0, 1, 0};
    r.lo = between(r.lo, s->first, s->last);
    r.hi = between(r.hi, s->first, s->last);
    r.narrow_lo = between(r.narrow_lo, s->first, s->last);
    r.narrow_hi = between(r.narrow_hi, s->first, s->last);
    return r;
}

/* Both, of one path: the hull. */
static void widen(lmi_reach *to, lmi_reach r) {
    if (nothing(&r)) return;
    if (nothing(to)) {
        *to = r;
        return;
    }
    if (r.lo < to->lo) to->lo = r.lo;
    if (r.hi > to->hi) to->hi = r.hi;
    if (r.narrow_lo < to->narrow_lo) to->narrow_lo = r.narrow_lo;
    if (r.narrow_hi > to->narrow_hi) to->narrow_hi = r.narrow_hi;
}

/* Both, of two paths: the narrow one is the narrower of the two. */
static bool meet(lmi_reach *to, lmi_reach r) {
    if (nothing(&r)) return false;
    if (nothing(to)) {
        *to = r;
        return false;
    }
    bool differ = r.lo != to->lo || r.hi != to->hi;
    if (r.narrow_hi - r.narrow_lo < to->narrow_hi - to->narrow_lo) {
        to->narrow_lo = r.narrow_lo;
        to->narrow_hi = r.narrow_hi;
    }
    if (r.lo < to->lo) to->lo = r.lo;
    if (r.hi > to->hi) to->hi = r.hi;
    return differ;
}

/* True where the intervals repeat after `period` elements already. */
static bool repeats(const lmi_span *s, int32_t period) {
    int64_t shift = s->shift / (s->period / period);
    for (int32_t i = period; i < s->period; i++) {
        lmi_reach was = moved(s->at[i - period], shift);
        if (memcmp(&was, &s->at[i], sizeof was) != 0) return false;
    }
    return true;
}

/* The shortest period. */
static void settle(lmi_span *s) {
    for (int32_t d = 2; d <= s->period; d++)
        while (s->period % d == 0 && s->shift % d == 0 && repeats(s, s->period / d)) {
            s->shift /= d;
            s->period /= d;
        }
}

static bool too_far(const lmi_span *s) {
    for (int32_t i = 0; i < s->period; i++)
        if (s->at[i].lo < -FAR || s->at[i].hi > FAR) return true;
    return s->shift > FAR || s->shift < -FAR;
}

/* Everything that the elements 0 .. n-1 depend on, of positions that there are. Of a long axis the ends tell:
 * those between reach no further. */
static lmi_reach hull(const lmi_span *s, int64_t n) {
    lmi_reach all = {1, 0, 1, 0};
    for (int64_t o = 0; o < n; o++) {
        if (o == ENDS && n > 2 * ENDS) o = n - ENDS;
        widen(&all, lmi_span_clipped(s, o));
    }
    return all;
}

static void bound(lmi_span *s, int64_t n) {
    lmi_reach all = hull(s, n);
    if (nothing(&all)) return;
    s->first = all.lo;
    s->last = all.hi;
}

bool lmi_span_window(lmi_arena *a, lmi_span *s, const lmi_taps *t, int64_t n, int64_t out_n) {
    (void)n;
    int64_t again = s->period / lmi_gcd(t->shift, s->period), period = (int64_t)t->period * again, work = 0;
    if (period > LMI_PERIOD_MAX) return lmi_span_all(a, s, n) && (s->loose = true);
    lmi_reach *at = lmi_alloc(a, (uint64_t)period, sizeof *at);
    if (!at) return false;
    for (int64_t o = 0; o < period; o++) {
        int64_t by = o / t->period * t->shift, r = o % t->period;
        at[o] = (lmi_reach){1, 0, 1, 0};
        for (int64_t i = t->lo[r]; i <= t->hi[r]; i += t->step, work++) widen(&at[o], lmi_span_at(s, i + by));
        if (work > WORK_MAX) {
            give_up(s, "a window too large to follow");
            return true;
        }
        if (nothing(&at[o])) at[o] = (lmi_reach){1, 0, 1, 0};
    }
    s->shift = t->shift * again / s->period * s->shift;
    s->period = (int32_t)period;
    s->at = at;
    if (too_far(s))
        give_up(s, "a field larger than any input");
    else {
        settle(s);
        bound(s, out_n);
    }
    return true;
}

bool lmi_span_all(lmi_arena *a, lmi_span *s, int64_t n) {
    if (s->kind == LMI_SPAN_FOLDED) s->kind = LMI_SPAN_FIXED;
    if (s->kind != LMI_SPAN_TRACK) return true;
    lmi_reach *all = lmi_alloc(a, 1, sizeof *all);
    if (!all) return false;
    *all = hull(s, n);
    s->kind = nothing(all) ? LMI_SPAN_NONE : LMI_SPAN_FIXED;
    s->at = all;
    s->period = 1;
    s->shift = 0;
    return true;
}

/* -- where paths meet ---------------------------------------------------------------------------- */

static bool sees_all(const lmi_span *s, int64_t first, int64_t last) {
    return s->kind == LMI_SPAN_FIXED && s->at[0].lo <= first && s->at[0].hi >= last;
}

static int8_t axis_of(const lmi_span *s) {
    return s->kind == LMI_SPAN_TRACK ? (int8_t)(s->axis + 1) : s->kind == LMI_SPAN_FIXED ? s->stays : 0;
}

/* Two fixed ones, or what is made so where the two can't be told element by element. */
static bool join_fixed(lmi_arena *a, lmi_span *s, lmi_span other, int64_t n, int64_t other_n) {
    bool alike = s->kind == LMI_SPAN_FIXED && other.kind == LMI_SPAN_FIXED;
    int64_t first = s->first < other.first ? s->first : other.first,
            last = s->last > other.last ? s->last : other.last;
    bool all = sees_all(s, first, last) || sees_all(&other, first, last);
    bool loose = (s->kind == LMI_SPAN_FIXED && s->loose) || (other.kind == LMI_SPAN_FIXED && other.loose);
    int8_t stays = axis_of(s) == axis_of(&other) ? axis_of(s) : 0;
    lmi_reach *at = lmi_alloc(a, 1, sizeof *at);
    if (!at || !lmi_span_all(a, s, n) || !lmi_span_all(a, &other, other_n)) return false;
    *at = s->kind == LMI_SPAN_FIXED ? s->at[0] : (lmi_reach){1, 0, 1, 0};
    bool differ = other.kind == LMI_SPAN_FIXED && meet(at, other.at[0]);
    s->kind = nothing(at) ? LMI_SPAN_NONE : LMI_SPAN_FIXED;
    s->at = at;
    s->stays = stays;
    s->loose = all || alike ? loose : true;
    s->paths = s->paths || other.paths || differ;
    s->first = first;
    s->last = last;
    return true;
}

/* Two jumps that differ: the second is taken into the first's intervals, element by element. */
static void absorb(lmi_span *s, lmi_reach *at, const lmi_span *other, int64_t n) {
    for (int64_t o = 0; o < n; o++) {
        int64_t q = o / s->period;
        s->paths |= meet(&at[o % s->period], moved(lmi_span_at(other, o), -q * s->shift));
    }
    s->loose = true;
}

static bool join_tracks(lmi_arena *a, lmi_span *s, const lmi_span *other, int64_t n) {
    bool same = s->shift * other->period == other->shift * s->period;
    int64_t again = same ? other->period / lmi_gcd(s->period, other->period) : 1, period = s->period * again;
    if (period > LMI_PERIOD_MAX || (!same && n > WORK_MAX)) return join_fixed(a, s, *other, n, n);
    lmi_reach *at = lmi_alloc(a, (uint64_t)period, sizeof *at);
    if (!at) return false;
    for (int64_t o = 0; o < period; o++) at[o] = lmi_span_at(s, o);
    s->shift *= again;
    s->period = (int32_t)period;
    s->at = at;
    s->paths = s->paths || other->paths;
    for (int64_t o = 0; same && o < period; o++) s->paths |= meet(&at[o], lmi_span_at(other, o));
    if (!same) absorb(s, at, other, n);
    s->loose = s->loose || other->loose;
    s->first = s->first < other->first ? s->first : other->first;
    s->last = s->last > other->last ? s->last : other->last;
    settle(s);
    return true;
}

static bool equal(const lmi_span *a, const lmi_span *b) {
    return a->kind == b->kind && a->axis == b->axis && a->period == b->period && a->shift == b->shift &&
           a->loose == b->loose && a->paths == b->paths && a->first == b->first && a->last == b->last &&
           a->outer == b->outer && a->n == b->n && a->inner == b->inner && a->at && b->at &&
           memcmp(a->at, b->at, (size_t)a->period * sizeof *a->at) == 0;
}

bool lmi_span_join(lmi_arena *a, lmi_span *s, const lmi_span *other, int64_t n, int64_t other_n) {
    bool least = s->least || other->least;
    bool ok = true;
    if (other->kind == LMI_SPAN_NONE || equal(s, other)) {
        ;
    } else if (s->kind == LMI_SPAN_NONE) {
        *s = *other;
    } else if (s->kind == LMI_SPAN_UNKNOWN || other->kind == LMI_SPAN_UNKNOWN) {
        if (s->kind != LMI_SPAN_UNKNOWN) *s = *other;
    } else if (s->kind == LMI_SPAN_TRACK && other->kind == LMI_SPAN_TRACK && s->axis == other->axis) {
        ok = join_tracks(a, s, other, n);
    } else {
        ok = join_fixed(a, s, *other, n, other_n);
    }
    s->least = least;
    return ok;
}
