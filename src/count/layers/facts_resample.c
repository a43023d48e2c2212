/* SPDX-License-Identifier: Apache-2.0
 * facts_resample: interpolation onto another grid. An output element is computed axis by axis from `taps`
 * neighbours; the weights depend on sizes alone and cost nothing. Source of the positions:
 * ATen/native/UpSample.h, in single precision as there. */
#include "count/layers/sweep.h"

#include <math.h>

enum { MAX_STEPS = 1 << 24 };

typedef struct grid { /* one axis */
    int64_t in, out, taps;
    bool align, exact; /* corners aligned; nearest neighbour from the middle of an element */
    float scale;       /* input positions an output step */
} grid;

static const struct {
    const char *mode;
    int64_t taps;
    bool exact;
} modes[] = {
    {"nearest", 1, false},  {"nearest-exact", 1, true}, {"linear", 2, false},
    {"bilinear", 2, false}, {"trilinear", 2, false},    {"bicubic", 4, false},
};

/* The first input element that output element `o` reads; may be below 0, where the edge is repeated. */
static int64_t first_tap(const grid *g, int64_t o) {
    if (g->in == g->out && g->taps < 4) return o;
    if (g->taps == 1) return (int64_t)floorf(((float)o + (g->exact ? 0.5F : 0.0F)) * g->scale);
    float at = g->align ? g->scale * (float)o : g->scale * ((float)o + 0.5F) - 0.5F;
    if (g->taps == 2) return at < 0 ? 0 : (int64_t)floorf(at);
    return (int64_t)floorf(at) - 1;
}

/* Distinct elements read along the axis. Taps only move forward, so elements beyond the furthest one are
 * new. */
static int64_t touched(const grid *g) {
    if (g->in < 1 || g->out < 0 || g->out > MAX_STEPS || g->in > MAX_STEPS) return -1;
    int64_t furthest = -1, n = 0;
    for (int64_t o = 0; o < g->out; o++) {
        int64_t low = first_tap(g, o), high = low + g->taps - 1;
        if (low < 0) low = 0;
        if (low > g->in - 1) low = g->in - 1;
        if (high > g->in - 1) high = g->in - 1;
        if (low <= furthest) low = furthest + 1;
        if (high < low) continue;
        n += high - low + 1;
        furthest = high;
    }
    return n;
}

/* Sets the step: by the layer's factor, if it has one and corners are not aligned, else by the sizes. False:
 * the layer has a factor that the source could not read. */
static bool set_scale(const lmi_slots *s, grid *g) {
    const lam_value *factor = s->at[LMI_S_scale].value, *size = s->at[LMI_S_size].value;
    bool sized = size && size->type != LAM_NONE;
    g->scale = g->out > 0 ? (float)g->in / (float)g->out : 0;
    if (g->align) g->scale = g->out > 1 ? (float)(g->in - 1) / (float)(g->out - 1) : 0;
    if (g->align || sized) return true;
    double by = factor && factor->type == LAM_FLOAT ? factor->f : (double)lmi_value_int(factor, 0);
    bool sane = by > 0 && 1.0 / by <= MAX_STEPS;
    if (sane) g->scale = (float)(1.0 / by);
    /* A separate factor for each axis is unknown; if every element is repeated equally often, any factor
     * reads all. */
    return sane || (g->in > 0 && g->out % g->in == 0);
}

static int64_t touched_all(const lmi_slots *s, lam_shape x, lam_shape y, grid g) {
    int64_t n = lmi_times(lmi_axis(x, 0), lmi_axis(x, 1));
    for (int32_t i = 2; i < x.ndim; i++) {
        g.in = x.sizes[i];
        g.out = y.sizes[i];
        n = set_scale(s, &g) ? lmi_times(n, touched(&g)) : -1;
    }
    return n;
}

static void by_area(lam_shape x, lam_shape y, lmi_facts *f) {
    int64_t covered = lmi_times(lmi_axis(x, 0), lmi_axis(x, 1));
    for (int32_t i = 2; i < x.ndim; i++) {
        lmi_swept axis;
        covered = lmi_sweep_adaptive(x.sizes[i], y.sizes[i], &axis) ? lmi_times(covered, axis.covered) : -1;
    }
    lmi_fact_set(f, LMI_FACT_covered, covered);
    lmi_fact_set(f, LMI_FACT_windows, lmi_numel(y));
    lmi_fact_set(f, LMI_FACT_touched, lmi_numel(x));
}

void lmi_facts_resample(const lam_model *m, int32_t event, lmi_kind k, const lmi_slots *s, lmi_facts *f) {
    (void)k;
    lam_shape x = lmi_input(m, event, s), y = lmi_output(m, event);
    const lam_value *mode = s->at[LMI_S_mode].value;
    if (!mode || mode->type != LAM_TEXT || x.ndim < 3 || x.ndim > 5 || y.ndim != x.ndim) return;
    bool area = !strcmp(mode->text, "area");
    lmi_fact_set(f, LMI_FACT_by_area, area);
    if (area) by_area(x, y, f);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(mode->text, modes[i].mode) != 0) continue;
        int64_t taps = modes[i].taps, blends = 0;
        for (int32_t axis = 2; taps > 1 && axis < x.ndim; axis++) blends = blends * taps + 1;
        bool align = lmi_value_int(s->at[LMI_S_align].value, 0) != 0;
        lmi_fact_set(f, LMI_FACT_taps, taps);
        lmi_fact_set(f, LMI_FACT_blends, blends);
        lmi_fact_set(f, LMI_FACT_touched,
                     touched_all(s, x, y, (grid){.taps = taps, .align = align, .exact = modes[i].exact}));
    }
}
