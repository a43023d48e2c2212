/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for Upsample in all its modes. An output element is made by recursion over the axes:
 * along each, `taps` values, made from the axes below in the same way, are weighted and added. */
#include "kit/oom.h"

#include "kit/layer_build.h"

typedef struct grid {
    int32_t rank;
    int64_t planes, taps, in[3], out[3];
    bool exact, align;
    float step[3]; /* input elements an output element advances */
} grid;

/* The element that tap t of output position o reads along axis d: PyTorch's upsampling in words. Nearest
 * takes the element under the position; linear the two around its middle; cubic the four around it. Edges are
 * repeated. */
static int64_t element(const grid *g, int32_t d, int64_t o, int64_t t) {
    int64_t at;
    if (g->taps == 1) {
        at = (int64_t)floorf(((float)o + (g->exact ? 0.5F : 0)) * g->step[d]);
    } else {
        float middle = g->align ? (float)o * g->step[d] : g->step[d] * ((float)o + 0.5F) - 0.5F;
        if (g->taps == 2 && middle < 0) middle = 0;
        at = (int64_t)floorf(middle) + t - (g->taps == 4);
    }
    return at < 0 ? 0 : at >= g->in[d] ? g->in[d] - 1 : at;
}

static double blend(const grid *g, cells *x, int64_t from, int32_t d, const int64_t *o) {
    if (d == g->rank) return rd(x, from);
    double sum = 0;
    for (int64_t t = 0; t < g->taps; t++) {
        double v = blend(g, x, from * g->in[d] + element(g, d, o[d], t), d + 1, o);
        if (g->taps == 1) return v;
        v = mul(v, 0.3);
        sum = t ? add(sum, v) : v;
    }
    return sum;
}

static void walk(const grid *g) {
    cells *x = cells_of(g->planes * elements(g->rank, g->in)),
          *y = cells_of(g->planes * elements(g->rank, g->out));
    int64_t to = 0;
    for (int64_t plane = 0; plane < g->planes; plane++) {
        int64_t o[3] = {0};
        do wr(y, to++, blend(g, x, plane, 0, o));
        while (next_at(g->rank, g->out, o));
    }
}

static void shapes(layer *l, const grid *g) {
    int64_t in[LAYER_NDIM] = {1, g->planes}, out[LAYER_NDIM] = {1, g->planes};
    if (g->planes % 2 == 0) in[0] = out[0] = 2, in[1] = out[1] = g->planes / 2;
    for (int32_t d = 0; d < g->rank; d++) {
        in[2 + d] = g->in[d];
        out[2 + d] = g->out[d];
    }
    takes(l, g->rank + 2, in);
    gives(l, g->rank + 2, out);
}

/* Output sizes either given or made by one factor for all axes, which then is the step too. */
static void random_sizes(layer *l, grid *g) {
    bool by_factor = coin();
    double factor = coin() ? (double)pick(1, 3) : (double)pick(5, 30) / 10.0;
    for (int32_t d = 0; d < g->rank; d++) {
        g->in[d] = pick(1, 7);
        g->out[d] = by_factor ? (int64_t)floor((double)g->in[d] * factor) : pick(1, 9);
        if (g->out[d] < 1) g->in[d] = 7, g->out[d] = (int64_t)floor(7 * factor);
        g->step[d] = by_factor ? (float)(1 / factor) : (float)g->in[d] / (float)g->out[d];
        if (g->align) g->step[d] = g->out[d] > 1 ? (float)(g->in[d] - 1) / (float)(g->out[d] - 1) : 0;
        /* Where nothing changes size, torch copies: every element is read by its own position. */
        if (g->in[d] == g->out[d] && g->taps < 4) g->step[d] = 1;
    }
    if (by_factor) {
        has_none(l, "size");
        has_float(l, "scale_factor", factor);
    } else {
        has_ints(l, "size", g->rank, g->out);
        has_none(l, "scale_factor");
    }
}

static void upsample(void **state) {
    (void)state;
    static const struct {
        const char *mode;
        int32_t rank;
        int64_t taps;
        bool exact;
    } modes[] = {{"nearest", 0, 1, false},  {"nearest-exact", 0, 1, true}, {"linear", 1, 2, false},
                 {"bilinear", 2, 2, false}, {"trilinear", 3, 2, false},    {"bicubic", 2, 4, false}};
    for (int i = 0; more(i, 1200); i++) {
        reseed((uint64_t)i);
        layer l;
        size_t which = (size_t)pick(0, 5);
        int32_t rank = modes[which].rank ? modes[which].rank : (int32_t)pick(1, 3);
        grid g = {.rank = rank, .planes = pick(1, 4), .taps = modes[which].taps, .exact = modes[which].exact};
        g.align = g.taps > 1 && coin();
        layer_new(&l, which == 0 && rank == 2 ? "UpsamplingNearest2d"
                      : which == 3 && g.align ? "UpsamplingBilinear2d"
                                              : "Upsample");
        has_text(&l, "mode", modes[which].mode);
        if (g.taps == 1)
            has_none(&l, "align_corners");
        else
            has_bool(&l, "align_corners", g.align);
        random_sizes(&l, &g);
        shapes(&l, &g);
        walk(&g);
        proves(&l);
    }
}

/* mode="area" is adaptive average pooling. */
static void area(void **state) {
    (void)state;
    for (int i = 0; more(i, 200); i++) {
        reseed((uint64_t)i);
        layer l;
        grid g = {.rank = 1, .planes = pick(1, 4), .in = {pick(1, 9)}, .out = {pick(1, 9)}};
        layer_new(&l, "Upsample");
        has_text(&l, "mode", "area");
        has_ints(&l, "size", 1, g.out);
        shapes(&l, &g);
        cells *x = cells_of(g.planes * g.in[0]), *y = cells_of(g.planes * g.out[0]);
        for (int64_t k = 0; k < y->n; k++) {
            int64_t o = k % g.out[0], plane = k / g.out[0] * g.in[0];
            int64_t start = o * g.in[0] / g.out[0], end = ((o + 1) * g.in[0] + g.out[0] - 1) / g.out[0];
            double sum = rd(x, plane + start);
            for (int64_t j = start + 1; j < end; j++) sum = add(sum, rd(x, plane + j));
            wr(y, k, dvd(sum, (double)(end - start)));
        }
        proves(&l);
    }
}

/* A factor an axis can't be told by the source: where the sizes leave no doubt it is not needed. */
static void untold_factor(void **state) {
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        layer l;
        layer_new(&l, "Upsample");
        has_text(&l, "mode", "nearest");
        takes(&l, SIZES(1, 1, 4));
        gives(&l, SIZES(1, 1, whole ? 8 : 7));
        is_unknown(&l, whole ? 0 : 1 << LAM_DMAS);
    }
    layer l;
    layer_new(&l, "Upsample");
    has_text(&l, "mode", "lanczos");
    takes(&l, SIZES(1, 1, 4));
    gives(&l, SIZES(1, 1, 8));
    is_unknown(&l, 1 << LAM_DMAS | 1 << LAM_FLOPS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(upsample), cmocka_unit_test(area),
                                       cmocka_unit_test(untold_factor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
