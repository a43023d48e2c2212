/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for pooling, and of the closed forms behind it (count/sweep.h). */
#include "kit/oom.h"

#include "count/layers/sweep.h"
#include "kit/layer_build.h"

/* -- windows, walked one by one ------------------------------------------------------------------------ */

typedef struct pool {
    int32_t rank;
    bool batched, ceil, adaptive;
    int64_t batch, channels;
    int64_t in[3], out[3], k[3], stride[3], pad[3], dil[3];
} pool;

/* Where window o's elements along axis d lie; gives how many, in bounds or not. */
static int64_t window(const pool *p, int32_t d, int64_t o, int64_t *at) {
    int64_t n = 0;
    if (p->adaptive) {
        int64_t start = (int64_t)floor((double)(o * p->in[d]) / (double)p->out[d]);
        int64_t end = (int64_t)ceil((double)((o + 1) * p->in[d]) / (double)p->out[d]);
        for (int64_t i = start; i < end; i++) at[n++] = i;
    } else {
        for (int64_t t = 0; t < p->k[d]; t++) at[n++] = o * p->stride[d] - p->pad[d] + t * p->dil[d];
    }
    return n;
}

/* Offsets, in one plane, of the elements in bounds of the window at `o`. */
static int64_t inside(const pool *p, const int64_t *o, int64_t *to) {
    int64_t at[3][64], n[3], i[3] = {0}, found = 0;
    for (int32_t d = 0; d < p->rank; d++) {
        n[d] = window(p, d, o[d], at[d]);
        assert_true(n[d] <= 64);
    }
    do {
        int64_t position[3];
        for (int32_t d = 0; d < p->rank; d++) position[d] = at[d][i[d]];
        int64_t where = offset_of(p->rank, p->in, position);
        if (where >= 0) to[found++] = where;
    } while (next_at(p->rank, n, i));
    return found;
}

typedef double reduction(cells *x, int64_t plane, const int64_t *at, int64_t n);

static double largest(cells *x, int64_t plane, const int64_t *at, int64_t n) {
    double best = n ? rd(x, plane + at[0]) : -INFINITY;
    for (int64_t i = 1; i < n; i++) best = max2(best, rd(x, plane + at[i]));
    return best;
}
static double average(cells *x, int64_t plane, const int64_t *at, int64_t n) {
    double sum = n ? rd(x, plane + at[0]) : 0;
    for (int64_t i = 1; i < n; i++) sum = add(sum, rd(x, plane + at[i]));
    return dvd(sum, 7); /* by the window, what is in bounds of it, or a fixed number: one division */
}
static double power_mean(cells *x, int64_t plane, const int64_t *at, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double power = pow1(rd(x, plane + at[i]), 3);
        sum = i ? add(sum, power) : power;
    }
    return pow1(sum, 1.0 / 3);
}

static void pool_walk(const pool *p, reduction *reduce, bool indices) {
    int64_t planes = p->batch * p->channels, in = elements(p->rank, p->in), out = elements(p->rank, p->out);
    cells *x = cells_of(planes * in), *y = cells_of(planes * out), *where = indices ? cells_of(y->n) : NULL;
    for (int64_t plane = 0; plane < planes; plane++) {
        int64_t o[3] = {0}, at[512], to = plane * out;
        do {
            int64_t n = inside(p, o, at);
            if (where) wr(where, to, 0);
            wr(y, to++, reduce(x, plane * in, at, n));
        } while (next_at(p->rank, p->out, o));
    }
}

/* -- the layers ---------------------------------------------------------------------------------------- */

/* Windows as torch lets them be: floor or ceil of the room, and with ceil a window more only if it starts in
 * bounds or in the padding before. */
static bool axis_of(pool *p, int32_t d, bool pads) {
    p->k[d] = pick(1, 4);
    p->stride[d] = pick(1, 5);
    int64_t reach = p->dil[d] * (p->k[d] - 1) + 1;
    p->pad[d] = pads ? pick(0, reach / 2) : 0;
    p->in[d] = pick(1, 8);
    int64_t room = p->in[d] + 2 * p->pad[d] - reach;
    if (p->ceil) room += p->stride[d] - 1;
    if (room < 0) return false;
    p->out[d] = room / p->stride[d] + 1;
    if (p->ceil && (p->out[d] - 1) * p->stride[d] >= p->in[d] + p->pad[d]) p->out[d]--;
    return p->out[d] >= 1;
}

static void random_pool(pool *p, int32_t rank, bool pads, bool dilates) {
    *p = (pool){.rank = rank, .batched = coin(), .ceil = coin(), .channels = pick(1, 3)};
    p->batch = p->batched ? pick(1, 3) : 1;
    for (int32_t d = 0; d < rank; d++) {
        do p->dil[d] = dilates ? pick(1, 3) : 1;
        while (!axis_of(p, d, pads));
    }
}

static void pool_shape(layer *l, const pool *p, const int64_t *spatial, bool out) {
    int64_t s[LAYER_NDIM];
    int32_t n = 0;
    if (p->batched) s[n++] = p->batch;
    s[n++] = p->channels;
    for (int32_t i = 0; i < p->rank; i++) s[n++] = spatial[i];
    if (out)
        gives(l, n, s);
    else
        takes(l, n, s);
}

/* An attribute for every axis, or one number where all are the same. */
static void per_axis(layer *l, const char *name, const pool *p, const int64_t *v) {
    bool same = true;
    for (int32_t i = 1; i < p->rank; i++) same = same && v[i] == v[0];
    if (same && coin())
        has_int(l, name, v[0]);
    else
        has_ints(l, name, p->rank, v);
}

static void pool_attributes(layer *l, const pool *p) {
    bool is_kernel = !memcmp(p->k, p->stride, sizeof p->k);
    per_axis(l, "kernel_size", p, p->k);
    if (is_kernel && coin())
        has_none(l, "stride");
    else
        per_axis(l, "stride", p, p->stride);
    per_axis(l, "padding", p, p->pad);
    per_axis(l, "dilation", p, p->dil);
    has_bool(l, "ceil_mode", p->ceil);
}

static void max_pool(void **state) {
    (void)state;
    static const char *const names[] = {"MaxPool1d", "MaxPool2d", "MaxPool3d"};
    for (int i = 0; more(i, 700); i++) {
        reseed((uint64_t)i);
        pool p;
        layer l;
        bool indices = coin();
        random_pool(&p, (int32_t)pick(1, 3), true, true);
        layer_new(&l, names[p.rank - 1]);
        pool_attributes(&l, &p);
        has_bool(&l, "return_indices", indices);
        pool_shape(&l, &p, p.in, false);
        pool_shape(&l, &p, p.out, true);
        if (indices) pool_shape(&l, &p, p.out, true);
        pool_walk(&p, largest, indices);
        proves(&l);
    }
}

static void avg_pool(void **state) {
    (void)state;
    static const char *const names[] = {"AvgPool1d", "AvgPool2d", "AvgPool3d"};
    for (int i = 0; more(i, 600); i++) {
        reseed((uint64_t)i);
        pool p;
        layer l;
        random_pool(&p, (int32_t)pick(1, 3), true, false);
        layer_new(&l, names[p.rank - 1]);
        pool_attributes(&l, &p);
        has_bool(&l, "count_include_pad", coin());
        if (coin()) has_int(&l, "divisor_override", 3);
        pool_shape(&l, &p, p.in, false);
        pool_shape(&l, &p, p.out, true);
        pool_walk(&p, average, false);
        proves(&l);
    }
}

static void lp_pool(void **state) {
    (void)state;
    static const char *const names[] = {"LPPool1d", "LPPool2d", "LPPool3d"};
    for (int i = 0; more(i, 400); i++) {
        reseed((uint64_t)i);
        pool p;
        layer l;
        random_pool(&p, (int32_t)pick(1, 3), false, false);
        layer_new(&l, names[p.rank - 1]);
        pool_attributes(&l, &p);
        has_float(&l, "norm_type", 3);
        pool_shape(&l, &p, p.in, false);
        pool_shape(&l, &p, p.out, true);
        pool_walk(&p, power_mean, false);
        proves(&l);
    }
}

static void adaptive(void **state) {
    (void)state;
    static const char *const names[] = {"AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
                                        "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d"};
    for (int i = 0; more(i, 600); i++) {
        reseed((uint64_t)i);
        layer l;
        bool mean = coin(), indices = !mean && coin();
        pool p = {.rank = (int32_t)pick(1, 3), .batched = coin(), .channels = pick(1, 3), .adaptive = true};
        p.batch = p.batched ? pick(1, 3) : 1;
        for (int32_t d = 0; d < p.rank; d++) {
            p.in[d] = pick(1, 7);
            p.out[d] = pick(1, 7);
        }
        layer_new(&l, names[3 * mean + p.rank - 1]);
        has_ints(&l, "output_size", p.rank, p.out);
        pool_shape(&l, &p, p.in, false);
        pool_shape(&l, &p, p.out, true);
        if (indices) pool_shape(&l, &p, p.out, true);
        pool_walk(&p, mean ? average : largest, indices);
        proves(&l);
    }
}

/* Windows lie at random, none over the edge; here they all lie at the start. What they read is chance. */
static void fractional(void **state) {
    (void)state;
    for (int i = 0; more(i, 100); i++) {
        reseed((uint64_t)i);
        layer l;
        pool p = {.rank = (int32_t)pick(2, 3), .batched = true, .batch = pick(1, 2), .channels = pick(1, 3)};
        for (int32_t d = 0; d < p.rank; d++) {
            p.k[d] = pick(1, 3);
            p.dil[d] = 1;
            p.in[d] = p.k[d] + pick(0, 4);
            p.out[d] = pick(1, p.in[d] - p.k[d] + 1);
        }
        layer_new(&l, p.rank == 2 ? "FractionalMaxPool2d" : "FractionalMaxPool3d");
        has_ints(&l, "kernel_size", p.rank, p.k);
        pool_shape(&l, &p, p.in, false);
        pool_shape(&l, &p, p.out, true);
        pool_walk(&p, largest, false);
        lam_count got[LAM_N_METRICS];
        layer_counts(&l, 0, NULL, got);
        same_number(&l, LAM_MACS, got[LAM_MACS], now.macs);
        same_number(&l, LAM_FLOPS, got[LAM_FLOPS], now.flops);
        assert_int_equal(got[LAM_DMAS].state, LAM_UNKNOWN);
        proved("layers", "fractional_max_pool");
        forget();
    }
}

static void unpool(void **state) {
    (void)state;
    for (int i = 0; more(i, 200); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t n = pick(1, 3), c = pick(1, 3), w = pick(1, 5), wide = w * pick(1, 3);
        layer_new(&l, "MaxUnpool1d");
        has_ints(&l, "kernel_size", SIZES(wide / w));
        takes(&l, SIZES(n, c, w));
        takes(&l, SIZES(n, c, w));
        gives(&l, SIZES(n, c, wide));
        cells *x = cells_of(n * c * w), *where = cells_of(x->n), *y = cells_of(n * c * wide);
        wr_all(y); /* with 0 */
        for (int64_t k = 0; k < x->n; k++) {
            (void)rd(where, k);
            wr(y, k / w * wide + k % w * (wide / w), rd(x, k));
        }
        proves(&l);
    }
}

/* -- the closed forms ---------------------------------------------------------------------------------- */

static void sweep(void **state) {
    (void)state;
    for (int i = 0; more(i, 20000); i++) {
        reseed((uint64_t)i);
        lmi_sweep a = {pick(0, 20), pick(0, 10), pick(1, 9), pick(1, 7), pick(0, 9), pick(1, 7)};
        lmi_swept got, want = {0};
        bool read[20] = {false};
        for (int64_t o = 0; o < a.out; o++) {
            bool any = false;
            for (int64_t t = 0; t < a.kernel; t++) {
                int64_t at = o * a.stride - a.pad + t * a.dil;
                if (at < 0 || at >= a.in) continue;
                any = read[at] = true;
                want.covered++;
            }
            want.windows += any;
        }
        for (int64_t k = 0; k < a.in; k++) want.touched += read[k];
        assert_true(lmi_sweep_axis(&a, &got));
        assert_int_equal(got.covered, want.covered);
        assert_int_equal(got.windows, want.windows);
        assert_int_equal(got.touched, want.touched);
    }
}

static void sweep_refuses(void **state) {
    (void)state;
    const int64_t huge = (int64_t)1 << 40;
    const lmi_sweep good = {8, 4, 2, 2, 0, 1}, bad[] = {{huge, 4, 2, 2, 0, 1},
                                                        {8, huge, 2, 2, 0, 1},
                                                        {8, 4, huge, 2, 0, 1},
                                                        {8, 4, 2, huge, 0, 1},
                                                        {8, 4, 2, 2, huge, 1},
                                                        {8, 4, 2, 2, 0, huge},
                                                        {-1, 4, 2, 2, 0, 1},
                                                        {8, -1, 2, 2, 0, 1},
                                                        {8, 4, 0, 2, 0, 1},
                                                        {8, 4, 2, 0, 0, 1},
                                                        {8, 4, 2, 2, -1, 1},
                                                        {8, 4, 2, 2, 0, 0},
                                                        {8, 4, (1 << 20) + 1, 2, 0, 1}};
    lmi_swept got;
    assert_true(lmi_sweep_axis(&good, &got));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(lmi_sweep_axis(&bad[i], &got));
    assert_false(lmi_sweep_adaptive(huge, 1, &got));
    assert_false(lmi_sweep_adaptive(1, huge, &got));
    assert_true(lmi_sweep_adaptive(0, 3, &got));
    assert_int_equal(got.covered, 0);
    lmi_swept total = {INT64_MAX, 1, 1}, two = {2, 2, 2};
    assert_false(lmi_swept_times(&total, &two));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_pool), cmocka_unit_test(avg_pool),      cmocka_unit_test(lp_pool),
        cmocka_unit_test(adaptive), cmocka_unit_test(fractional),    cmocka_unit_test(unpool),
        cmocka_unit_test(sweep),    cmocka_unit_test(sweep_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
