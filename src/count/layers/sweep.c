/* SPDX-License-Identifier: Apache-2.0
 * sweep: sliding windows along one axis. A tap's positions are an arithmetic progression over the windows, so
 * the input is not walked: each tap takes one step. */
#include "count/layers/sweep.h"

enum { MAX_TAPS = 1 << 20 };

/* a / b rounded down, and up; b > 0. */
static int64_t down(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t up(int64_t a, int64_t b) { return -down(-a, b); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool within(int64_t v, int64_t low) { return v >= low && v <= INT32_MAX; }

static bool in_reach(const lmi_sweep *a) {
    return within(a->in, 0) && within(a->out, 0) && within(a->kernel, 1) && a->kernel <= MAX_TAPS &&
           within(a->stride, 1) && within(a->pad, 0) && within(a->dil, 1);
}

bool lmi_sweep_axis(const lmi_sweep *a, lmi_swept *to) {
    memset(to, 0, sizeof *to);
    if (!in_reach(a)) return false;
    /* Tap t in window o reads the same element as tap t - period in window o + shift: only in its last
     * `shift` windows it reads elements that no earlier tap has read. */
    int64_t common = lmi_gcd(a->dil, a->stride), period = a->stride / common, shift = a->dil / common;
    int64_t lowest = a->out; /* windows from here up are counted, or read nothing */
    for (int64_t t = 0; t < a->kernel; t++) {
        int64_t first = t * a->dil - a->pad; /* the position of this tap in window 0 */
        int64_t low = most(up(-first, a->stride), 0);
        int64_t high = least(down(a->in - 1 - first, a->stride), a->out - 1);
        if (low > high) continue;
        to->covered += high - low + 1;
        to->touched += most(high - (t < period ? low : most(low, a->out - shift)) + 1, 0);
        /* As t grows, low and high fall, so a window is new exactly if it is below all earlier ones. */
        to->windows += most(least(high, lowest - 1) - low + 1, 0);
        lowest = least(lowest, low);
    }
    return true;
}

bool lmi_sweep_adaptive(int64_t in, int64_t out, lmi_swept *to) {
    memset(to, 0, sizeof *to);
    if (!within(in, 0) || !within(out, 0)) return false;
    if (in == 0 || out == 0) return true;
    /* The starts floor(o*in/out) sum to ((in-1)(out-1) + g - 1) / 2 with g = gcd(in, out), and the ends are
     * the starts mirrored, in - start: out * in - 2 * starts is in + out - g. */
    to->covered = in + out - lmi_gcd(in, out);
    to->windows = out;
    to->touched = in;
    return true;
}

bool lmi_swept_times(lmi_swept *total, const lmi_swept *axis) {
    return !lmi_mul_over(total->covered, axis->covered, &total->covered) &&
           !lmi_mul_over(total->windows, axis->windows, &total->windows) &&
           !lmi_mul_over(total->touched, axis->touched, &total->touched);
}

/* The padding before the first element; "same" puts the smaller half there. */
static int64_t padding(const lam_value *v, int32_t axis, const lmi_sweep *a) {
    if (!v || v->type == LAM_NONE) return 0;
    if (v->type != LAM_TEXT) return lmi_value_axis(v, axis, -1);
    if (!strcmp(v->text, "valid")) return 0;
    int64_t both = strcmp(v->text, "same") ? -1 : lmi_times(a->dil, a->kernel - 1);
    return both < 0 ? -1 : both / 2;
}

bool lmi_sweep_slots(const lmi_slots *s, int32_t axis, lmi_sweep *to) {
    to->kernel = lmi_value_axis(s->at[LMI_S_kernel].value, axis, -1);
    to->stride = lmi_value_axis(s->at[LMI_S_stride].value, axis, to->kernel);
    to->dil = lmi_value_axis(s->at[LMI_S_dil].value, axis, 1);
    to->pad = padding(s->at[LMI_S_pad].value, axis, to);
    return to->kernel > 0 && to->stride > 0 && to->dil > 0 && to->pad >= 0;
}

static bool sweep_one(bool adaptive, const lmi_slots *s, int32_t axis, int64_t in, int64_t out,
                      lmi_swept *to) {
    lmi_sweep a;
    if (adaptive) return lmi_sweep_adaptive(in, out, to);
    if (!lmi_sweep_slots(s, axis, &a)) return false;
    a.in = in;
    a.out = out;
    return lmi_sweep_axis(&a, to);
}

bool lmi_sweep_axes(bool adaptive, const lmi_slots *s, lam_shape x, lam_shape y, int32_t rank,
                    lmi_swept *total) {
    if (rank < 1 || x.ndim < rank || y.ndim < rank) return false;
    *total = (lmi_swept){1, 1, 1};
    for (int32_t i = 0; i < rank; i++) {
        lmi_swept axis;
        if (!sweep_one(adaptive, s, i, lmi_axis(x, i - rank), lmi_axis(y, i - rank), &axis)) return false;
        if (!lmi_swept_times(total, &axis)) return false;
    }
    return true;
}
