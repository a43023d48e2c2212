/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals of input positions that repeat along an axis: the effect of windows on them, and their union when
 * paths join. */
#include "analyse/field/span.h"

#include "analyse/field/grid.h"

static const int64_t FAR = INT64_C(1) << 48; /* beyond every input: spans that reach it become unknown */
enum {
    WORK_MAX = 1 << 22,
    ENDS = 1 << 15
}; /* intervals examined for one operator, at either end of an axis */

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

static const lmi_reach NOTHING = {1, 0};

static lmi_reach moved(lmi_reach r, int64_t by) { return (lmi_reach){r.lo + by, r.hi + by}; }

lmi_reach lmi_span_at(const lmi_span *s, int64_t o) {
    if (s->kind != LMI_SPAN_TRACK) return s->at[0];
    int64_t q = lmi_floor_div(o, s->period);
    return moved(s->at[o - q * s->period], q * s->shift);
}

static int64_t lesser(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t greater(int64_t x, int64_t y) { return x > y ? x : y; }
static int64_t between(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

static lmi_reach clipped(const lmi_span *s, int64_t o) {
    lmi_reach r = lmi_span_at(s, o);
    if (nothing(&r) || r.hi < s->first || r.lo > s->last) return NOTHING;
    return (lmi_reach){between(r.lo, s->first, s->last), between(r.hi, s->first, s->last)};
}

lmi_reach lmi_span_clipped(const lmi_span *s, int64_t o) {
    if (s->kind != LMI_SPAN_TRACK || !s->each) return clipped(s, o);
    return o >= 0 && o < s->n_each ? s->each[o] : NOTHING;
}

bool lmi_span_gaps(const lmi_span *s, int64_t n) {
    if (s->kind != LMI_SPAN_TRACK) return false;
    for (int64_t o = 0; o < (s->each ? s->n_each : n); o++) {
        if (!s->each && o == ENDS && n > 2 * ENDS) o = n - ENDS;
        lmi_reach r = lmi_span_clipped(s, o);
        if (nothing(&r)) return true;
    }
    return false;
}

/* Extends `to` to the hull of both; true if they differed. */
static bool widen(lmi_reach *to, lmi_reach r) {
    if (nothing(&r)) return false;
    if (nothing(to)) {
        *to = r;
        return false;
    }
    bool differ = r.lo != to->lo || r.hi != to->hi;
    if (r.lo < to->lo) to->lo = r.lo;
    if (r.hi > to->hi) to->hi = r.hi;
    return differ;
}

/* True if the intervals already repeat after `period` elements. */
static bool repeats(const lmi_span *s, int32_t period) {
    int64_t shift = s->shift / (s->period / period);
    for (int32_t i = period; i < s->period; i++) {
        lmi_reach was = moved(s->at[i - period], shift);
        if (was.lo != s->at[i].lo || was.hi != s->at[i].hi) return false;
    }
    return true;
}

/* Reduces the span to its shortest period. */
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

/* The hull of the existing positions that elements 0 .. n-1 depend on. The ends of a long axis are enough:
 * elements between them reach no further. */
static lmi_reach hull(const lmi_span *s, int64_t n) {
    lmi_reach all = NOTHING;
    for (int64_t o = 0; o < n; o++) {
        if (o == ENDS && n > 2 * ENDS && !s->each) o = n - ENDS;
        widen(&all, lmi_span_clipped(s, o));
    }
    return all;
}

static void nowhere(lmi_span *s) {
    *s = (lmi_span){.kind = LMI_SPAN_NONE, .least = s->least, .loose = s->loose};
}

static void bound(lmi_span *s, int64_t n) {
    lmi_reach all = hull(s, n);
    if (nothing(&all)) {
        if (n <= 2 * ENDS) nowhere(s);
        return;
    }
    s->first = all.lo;
    s->last = all.hi;
}

static bool same_reach(lmi_reach x, lmi_reach y) {
    return (nothing(&x) && nothing(&y)) || (x.lo == y.lo && x.hi == y.hi);
}

/* Stores the intervals of the n elements, unless the period gives the same. */
static void take_each(lmi_span *s, const lmi_reach *each, int64_t n) {
    lmi_reach all = NOTHING;
    bool same = true;
    for (int64_t o = 0; o < n; o++) widen(&all, each[o]);
    if (nothing(&all)) {
        nowhere(s);
        return;
    }
    s->first = all.lo;
    s->last = all.hi;
    for (int64_t o = 0; o < n && same; o++) same = same_reach(clipped(s, o), each[o]);
    s->each = same ? NULL : each;
    s->n_each = same ? 0 : n;
}

lmi_reach lmi_taps_at(const lmi_taps *t, int64_t o, int64_t n) {
    int64_t q = lmi_floor_div(o, t->period), r = o - q * t->period;
    lmi_reach at = {t->lo[r] + q * t->shift, t->hi[r] + q * t->shift};
    if (t->each) at = t->each[o];
    if (at.lo < 0) at.lo += (-at.lo + t->step - 1) / t->step * t->step;
    if (at.hi >= n) at.hi = n - 1;
    return nothing(&at) ? NOTHING : at;
}

enum { PERIODS_TRIED = 64 };

/* Looks for a short period that gives the same intervals, from those in the middle of the axis. */
static bool find_period(lmi_arena *a, lmi_span *s) {
    lmi_reach *at = lmi_alloc(a, PERIODS_TRIED, sizeof *at);
    if (!at) return false;
    for (int32_t p = 1; p <= PERIODS_TRIED && 2 * p <= s->n_each; p++) {
        lmi_span t = *s;
        int64_t q = s->n_each / 2 / p, from = q * p, o = 0;
        while (o < p && nothing(&s->each[from - p + o])) o++;
        if (o == p) continue;
        t.shift = s->each[from + o].lo - s->each[from - p + o].lo;
        if (t.shift == 0 && s->shift != 0) continue;
        t.period = p;
        t.at = at;
        for (o = 0; o < p; o++)
            at[o] = nothing(&s->each[from + o]) ? NOTHING : moved(s->each[from + o], -q * t.shift);
        for (o = 0; o < s->n_each && same_reach(clipped(&t, o), s->each[o]);) o++;
        if (o < s->n_each) continue;
        t.each = NULL;
        t.n_each = 0;
        *s = t;
        return true;
    }
    return true;
}

bool lmi_span_each(lmi_arena *a, lmi_span *s, const lmi_reach *each, int64_t n) {
    take_each(s, each, n);
    return s->kind != LMI_SPAN_TRACK || !s->each || find_period(a, s);
}

/* Computes the positions that each of out_n elements depends on, one by one. *each NULL: too many. */
static bool window_each(lmi_arena *a, const lmi_span *s, const lmi_taps *t, int64_t n, int64_t out_n,
                        lmi_reach **each) {
    int64_t work = 0;
    *each = NULL;
    if (n > LMI_EACH_MAX || out_n > LMI_EACH_MAX) return true;
    lmi_reach *to = lmi_alloc(a, (uint64_t)(out_n ? out_n : 1), sizeof *to);
    if (!to) return false;
    for (int64_t o = 0; o < out_n; o++) {
        lmi_reach at = lmi_taps_at(t, o, n);
        to[o] = NOTHING;
        for (int64_t i = at.lo; i <= at.hi; i += t->step, work++) widen(&to[o], lmi_span_clipped(s, i));
        if (work > WORK_MAX) return true;
    }
    *each = to;
    return true;
}

/* An element that depends on all positions up to its own depends on no more than there are: the intervals of
 * a scan of a scan need not be longer. How far the last ones go beyond all positions stays. */
static void cut(lmi_span *s, lmi_reach *at, int64_t out_n) {
    int64_t over = 0;
    for (int64_t o = s->shift < 0 || out_n <= s->period ? 0 : out_n - s->period, i = 0; i < s->period; i++) {
        const lmi_reach r = lmi_span_at(s, o + i);
        over = greater(over, s->shift < 0 ? s->first - r.lo : r.hi - s->last);
    }
    for (int32_t i = 0; i < s->period; i++) {
        if (s->shift < 0)
            at[i].hi = lesser(at[i].hi, at[i].lo + s->last - s->first + over);
        else
            at[i].lo = greater(at[i].lo, at[i].hi - s->last + s->first - over);
    }
}

bool lmi_span_window(lmi_arena *a, lmi_span *s, const lmi_taps *t, int64_t n, int64_t out_n) {
    int64_t again = s->period / lmi_gcd(t->shift, s->period), period = (int64_t)t->period * again, work = 0;
    if (period > LMI_PERIOD_MAX) return lmi_span_all(a, s, n) && (s->loose = true);
    lmi_reach *at = lmi_alloc(a, (uint64_t)period, sizeof *at), *each;
    if (!at || !window_each(a, s, t, n, out_n, &each)) return false;
    if (!each && (s->each || t->each)) return lmi_span_all(a, s, n) && (s->loose = true);
    for (int64_t o = 0; o < period; o++) {
        int64_t by = o / t->period * t->shift, r = o % t->period;
        at[o] = NOTHING;
        for (int64_t i = t->lo[r]; i <= t->hi[r]; i += t->step, work++) widen(&at[o], lmi_span_at(s, i + by));
        if (work > WORK_MAX) {
            give_up(s, "a window too large to follow");
            return true;
        }
        if (nothing(&at[o])) at[o] = NOTHING;
    }
    s->shift = t->shift * again / s->period * s->shift;
    s->period = (int32_t)period;
    s->at = at;
    s->each = NULL;
    if (too_far(s)) {
        give_up(s, "a field larger than any input");
        return true;
    }
    settle(s);
    if (each)
        take_each(s, each, out_n);
    else
        bound(s, out_n);
    if (t->begins && s->kind == LMI_SPAN_TRACK) cut(s, at, out_n);
    return true;
}

bool lmi_span_all(lmi_arena *a, lmi_span *s, int64_t n) {
    s->grid = NULL;
    s->varies = 0;
    if (s->kind != LMI_SPAN_TRACK) return true;
    lmi_reach *all = lmi_alloc(a, 1, sizeof *all);
    if (!all) return false;
    *all = hull(s, n);
    s->kind = nothing(all) ? LMI_SPAN_NONE : LMI_SPAN_FIXED;
    s->at = all;
    s->each = NULL;
    s->period = 1;
    s->shift = 0;
    return true;
}

bool lmi_span_mask(lmi_arena *a, lmi_span *s, int32_t axis, int64_t n, const bool *in) {
    if (s->kind != LMI_SPAN_FIXED && s->kind != LMI_SPAN_TRACK) return true;
    lmi_reach *each = lmi_alloc(a, (uint64_t)(n ? n : 1), sizeof *each);
    if (!each) return false;
    for (int64_t o = 0; o < n; o++) each[o] = in[o] ? lmi_span_clipped(s, o) : NOTHING;
    if (s->kind == LMI_SPAN_FIXED) {
        s->kind = LMI_SPAN_TRACK;
        s->axis = (int8_t)axis;
        s->period = 1;
        s->shift = 0;
    }
    take_each(s, each, n);
    return true;
}

void lmi_span_even(lmi_span *s) {
    if (s->kind != LMI_SPAN_TRACK || (!s->each && (s->shift != 0 || s->period > 1))) return;
    for (int64_t o = 1; s->each && o < s->n_each; o++)
        if (!same_reach(s->each[0], s->each[o])) return;
    s->kind = LMI_SPAN_FIXED;
    s->stays = (int8_t)((s->each && s->n_each == 1) || s->stays == s->axis + 1 ? s->axis + 1 : 0);
    if (s->each) s->at = s->each;
    s->each = NULL;
    s->period = 1;
    s->shift = 0;
}

static int64_t size_of(const lmi_reach *r) { return nothing(r) ? 0 : r->hi - r->lo + 1; }

bool lmi_span_periodic(const lmi_span *s) {
    for (int64_t o = 0; s->each && o < s->n_each; o++) {
        lmi_reach r = clipped(s, o);
        if (!nothing(&s->each[o]) && (nothing(&r) || r.lo > s->each[o].lo || r.hi < s->each[o].hi))
            return false;
    }
    return true;
}

int64_t lmi_span_size(const lmi_span *s) {
    int64_t most = 0;
    if (s->kind == LMI_SPAN_NONE || s->kind == LMI_SPAN_UNKNOWN) return 0;
    bool periodic = s->kind != LMI_SPAN_TRACK || !s->each;
    int64_t n = !periodic ? s->n_each : s->kind == LMI_SPAN_TRACK ? s->period : 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t size = size_of(periodic ? &s->at[i] : &s->each[i]);
        if (size > most) most = size;
    }
    return most;
}

/* -- joining paths ------------------------------------------------------------------------------- */

static bool sees_all(const lmi_span *s, int64_t first, int64_t last) {
    return s->kind == LMI_SPAN_FIXED && s->at[0].lo <= first && s->at[0].hi >= last;
}

static int8_t axis_of(const lmi_span *s) {
    return s->kind == LMI_SPAN_TRACK ? (int8_t)(s->axis + 1) : s->kind == LMI_SPAN_FIXED ? s->stays : 0;
}

/* Joins two fixed spans. Spans that can't be joined element by element are made fixed first. */
static bool join_fixed(lmi_arena *a, lmi_span *s, lmi_span other, int64_t n, int64_t other_n) {
    bool alike = s->kind == LMI_SPAN_FIXED && other.kind == LMI_SPAN_FIXED;
    int64_t first = lesser(s->first, other.first), last = greater(s->last, other.last);
    bool all = sees_all(s, first, last) || sees_all(&other, first, last);
    bool loose = (s->kind == LMI_SPAN_FIXED && s->loose) || (other.kind == LMI_SPAN_FIXED && other.loose);
    int8_t stays = axis_of(s) == axis_of(&other) ? axis_of(s) : 0;
    lmi_reach *at = lmi_alloc(a, 1, sizeof *at);
    if (!at || !lmi_span_all(a, s, n) || !lmi_span_all(a, &other, other_n)) return false;
    *at = s->kind == LMI_SPAN_FIXED ? s->at[0] : NOTHING;
    bool differ = other.kind == LMI_SPAN_FIXED && widen(at, other.at[0]);
    s->kind = nothing(at) ? LMI_SPAN_NONE : LMI_SPAN_FIXED;
    s->at = at;
    s->stays = stays;
    s->loose = all || alike ? loose : true;
    s->paths = s->paths || other.paths || differ || !alike;
    s->first = first;
    s->last = last;
    return true;
}

/* Joins spans with different jumps on an axis too long to examine each element: widens the intervals of `s`
 * by those of `other`. */
static void absorb(lmi_span *s, lmi_reach *at, const lmi_span *other, int64_t n) {
    for (int64_t o = 0; o < n; o++) {
        int64_t q = o / s->period;
        s->paths |= widen(&at[o % s->period], moved(lmi_span_at(other, o), -q * s->shift));
    }
    s->loose = true;
}

/* Joins two periods with the same jump in a common one. With different jumps the period of `s` stays, widened
 * by that of `other`; with `each`, that of `other` if only it jumps. */
static bool join_periods(lmi_arena *a, lmi_span *s, const lmi_span *other, int64_t n, bool each) {
    bool same = s->shift * other->period == other->shift * s->period;
    int64_t again = same ? other->period / lmi_gcd(s->period, other->period) : 1, period = s->period * again;
    if (each && (!same || period > LMI_PERIOD_MAX)) {
        if (s->shift != 0 || other->shift == 0) return true;
        s->period = other->period;
        s->shift = other->shift;
        s->at = other->at;
        return true;
    }
    lmi_reach *at = lmi_alloc(a, (uint64_t)period, sizeof *at);
    if (!at) return false;
    for (int64_t o = 0; o < period; o++) at[o] = lmi_span_at(s, o);
    s->shift *= again;
    s->period = (int32_t)period;
    s->at = at;
    for (int64_t o = 0; same && o < period; o++) s->paths |= widen(&at[o], lmi_span_at(other, o));
    if (!same) absorb(s, at, other, n);
    settle(s);
    return true;
}

static bool join_tracks(lmi_arena *a, lmi_span *s, const lmi_span *other, int64_t n) {
    bool same = s->shift * other->period == other->shift * s->period, one_by_one = n <= LMI_EACH_MAX;
    int64_t again = same ? other->period / lmi_gcd(s->period, other->period) : 1;
    if (!one_by_one &&
        (s->each || other->each || s->period * again > LMI_PERIOD_MAX || (!same && n > WORK_MAX)))
        return join_fixed(a, s, *other, n, n);
    lmi_reach *each = one_by_one ? lmi_alloc(a, (uint64_t)(n ? n : 1), sizeof *each) : NULL;
    if (one_by_one && !each) return false;
    for (int64_t o = 0; one_by_one && o < n; o++) {
        each[o] = lmi_span_clipped(s, o);
        s->paths |= widen(&each[o], lmi_span_clipped(other, o));
    }
    if (!join_periods(a, s, other, n, one_by_one)) return false;
    s->paths = s->paths || other->paths;
    s->loose = s->loose || other->loose;
    s->first = lesser(s->first, other->first);
    s->last = greater(s->last, other->last);
    if (one_by_one && n > 0) take_each(s, each, n);
    return true;
}

bool lmi_span_equal(const lmi_span *a, const lmi_span *b) {
    if (a->kind == LMI_SPAN_NONE && b->kind == LMI_SPAN_NONE) return true;
    return a->kind == b->kind && a->axis == b->axis && a->period == b->period && a->shift == b->shift &&
           a->loose == b->loose && a->paths == b->paths && a->first == b->first && a->last == b->last &&
           a->at && b->at && !a->grid == !b->grid && (!a->grid || lmi_grid_equal(a->grid, b->grid)) &&
           a->varies == b->varies && a->n_each == b->n_each && !a->each == !b->each &&
           memcmp(a->at, b->at, (size_t)a->period * sizeof *a->at) == 0 &&
           (!a->each || memcmp(a->each, b->each, (size_t)a->n_each * sizeof *a->each) == 0);
}

/* True for a fixed span of a part of the axis and a span that follows an axis, if that is short enough to
 * join them element by element. */
static bool joins_each(const lmi_span *fixed, const lmi_span *track, int64_t n) {
    if (fixed->kind != LMI_SPAN_FIXED || track->kind != LMI_SPAN_TRACK || n > LMI_EACH_MAX) return false;
    return !sees_all(fixed, lesser(fixed->first, track->first), greater(fixed->last, track->last));
}

static bool join_part(lmi_arena *a, lmi_span *s, const lmi_span *other, int64_t n) {
    lmi_span fixed = s->kind == LMI_SPAN_FIXED ? *s : *other, track = s->kind == LMI_SPAN_FIXED ? *other : *s;
    lmi_reach *each = lmi_alloc(a, (uint64_t)(n ? n : 1), sizeof *each);
    if (!each) return false;
    track.paths = track.paths || fixed.paths;
    for (int64_t o = 0; o < n; o++) {
        each[o] = lmi_span_clipped(&track, o);
        track.paths |= widen(&each[o], fixed.at[0]);
    }
    track.loose = track.loose || fixed.loose;
    *s = track;
    if (n > 0) take_each(s, each, n);
    return true;
}

bool lmi_span_join(lmi_arena *a, lmi_span *s, const lmi_span *other, int64_t n, int64_t other_n) {
    bool least = s->least || other->least;
    bool ok = true;
    if (other->kind == LMI_SPAN_NONE || lmi_span_equal(s, other)) {
        ;
    } else if (s->kind == LMI_SPAN_NONE) {
        *s = *other;
    } else if (s->kind == LMI_SPAN_UNKNOWN || other->kind == LMI_SPAN_UNKNOWN) {
        if (s->kind != LMI_SPAN_UNKNOWN) *s = *other;
    } else if (s->kind == LMI_SPAN_TRACK && other->kind == LMI_SPAN_TRACK && s->axis == other->axis) {
        ok = join_tracks(a, s, other, n);
    } else if (joins_each(s, other, other_n) || joins_each(other, s, n)) {
        ok = join_part(a, s, other, s->kind == LMI_SPAN_TRACK ? n : other_n);
    } else {
        ok = join_fixed(a, s, *other, n, other_n);
    }
    s->least = least;
    return ok;
}
