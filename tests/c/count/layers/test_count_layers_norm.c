/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for the normalisations. */
#include "kit/oom.h"

#include "kit/layer_build.h"

/* A normalisation at work: input and output are (samples, channels, positions) in memory. */
typedef struct norm {
    cells *x, *y, *scale, *shift;
    int64_t samples, channels, positions;
} norm;

static norm norm_of(int64_t samples, int64_t channels, int64_t positions, int64_t scales, int64_t shifts) {
    norm m = {.samples = samples, .channels = channels, .positions = positions};
    m.x = cells_of(samples * channels * positions);
    m.y = cells_of(samples * channels * positions);
    m.scale = scales ? cells_of(scales) : NULL;
    m.shift = shifts ? cells_of(shifts) : NULL;
    return m;
}

/* The elements that share one mean: indices into the input. */
typedef struct group {
    int64_t n, at[512];
} group;

static double mean_of(cells *x, const group *g) {
    double sum = rd(x, g->at[0]);
    for (int64_t i = 1; i < g->n; i++) sum = add(sum, rd(x, g->at[i]));
    return dvd(sum, (double)g->n);
}

static double variance_of(cells *x, const group *g, double mean) {
    double sum = 0;
    for (int64_t i = 0; i < g->n; i++) {
        double d = sub(rd(x, g->at[i]), mean), square = mul(d, d);
        sum = i ? add(sum, square) : square;
    }
    return dvd(sum, (double)g->n);
}

static void scaled(norm *m, int64_t at, int64_t parameter, double v) {
    if (m->scale) v = mul(v, rd(m->scale, parameter));
    if (m->shift) v = add(v, rd(m->shift, parameter));
    wr(m->y, at, v);
}

/* (x - mean) / root for one element. */
static double centred(norm *m, int64_t at, double mean, double root) {
    return dvd(sub(rd(m->x, at), mean), root);
}

static double moving(double old, double factor, double fresh) {
    return add(mul(1 - factor, old), mul(factor, fresh));
}

/* All elements of one channel, of every sample or of one. */
static void channel_of(const norm *m, int64_t c, int64_t first, int64_t last, group *g) {
    g->n = 0;
    for (int64_t n = first; n <= last; n++)
        for (int64_t p = 0; p < m->positions; p++) g->at[g->n++] = (n * m->channels + c) * m->positions + p;
    assert_true(g->n <= 512);
}

/* -- batch norm ---------------------------------------------------------------------------------------- */

typedef struct kept { /* running statistics; mean NULL: none */
    cells *mean, *var, *batches;
    bool cumulative;
} kept;

static void batch_channel(norm *m, kept *k, int64_t c, bool training, double factor) {
    group g;
    channel_of(m, c, 0, m->samples - 1, &g);
    double mean, var;
    if (k->mean && !training) {
        mean = rd(k->mean, c);
        var = rd(k->var, c);
    } else {
        mean = mean_of(m->x, &g);
        var = variance_of(m->x, &g, mean);
    }
    if (k->mean && training) {
        wr(k->mean, c, moving(rd(k->mean, c), factor, mean));
        wr(k->var, c, moving(rd(k->var, c), factor, mul(var, (double)g.n / (double)(g.n - 1))));
    }
    double root = sqrt1(add(fabs(var), 1e-5));
    for (int64_t i = 0; i < g.n; i++) scaled(m, g.at[i], c, centred(m, g.at[i], mean, root));
}

static void batch_walk(norm *m, kept *k, bool training) {
    double factor = 0.1;
    if (k->mean && training) {
        wr(k->batches, 0, add(rd(k->batches, 0), 1));
        if (k->cumulative) factor = dvd(1, k->batches->v[0]);
    }
    for (int64_t c = 0; c < m->channels; c++) batch_channel(m, k, c, training, factor);
}

/* Attributes and buffers that batch and instance normalisation share. */
static void kept_layer(layer *l, int64_t channels, bool affine, bool track, bool cumulative) {
    has_int(l, "num_features", channels);
    has_bool(l, "affine", affine);
    has_bool(l, "track_running_stats", track);
    if (cumulative)
        has_none(l, "momentum");
    else
        has_float(l, "momentum", 0.1);
    if (affine) {
        has_param(l, "weight", SIZES(channels));
        has_param(l, "bias", SIZES(channels));
    }
    if (track) {
        has_buffer(l, "running_mean", SIZES(channels));
        has_buffer(l, "running_var", SIZES(channels));
        has_buffer(l, "num_batches_tracked", 0, NULL);
    }
}

/* The shape (samples, channels, spatial...) or, unbatched, (channels, spatial...); gives its positions. */
static int64_t norm_shapes(layer *l, bool batched, int64_t samples, int64_t channels, int64_t rank) {
    int64_t s[LAYER_NDIM];
    int32_t n = 0;
    if (batched) s[n++] = samples;
    s[n++] = channels;
    int32_t first = n;
    for (int64_t i = 0; i < rank; i++) s[n++] = pick(2, 4);
    takes(l, n, s);
    gives(l, n, s);
    return elements(n - first, s + first);
}

static void batch_norm(void **state) {
    (void)state;
    static const char *const names[] = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"};
    for (int i = 0; more(i, 600); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t which = pick(0, 3), samples = pick(2, 4), channels = pick(1, 5);
        int64_t rank = which == 0 ? pick(0, 1) : which == 3 ? pick(0, 3) : which + 1;
        bool affine = coin(), track = coin(), training = coin();
        kept k = {.cumulative = coin()};
        layer_new(&l, names[which]);
        kept_layer(&l, channels, affine, track, k.cumulative);
        in_training(&l, training);
        int64_t positions = norm_shapes(&l, true, samples, channels, rank);
        norm m = norm_of(samples, channels, positions, affine ? channels : 0, affine ? channels : 0);
        if (track) {
            k.mean = cells_of(channels);
            k.var = cells_of(channels);
            k.batches = cells_of(1);
        }
        batch_walk(&m, &k, training);
        proves(&l);
    }
}

/* -- instance norm ------------------------------------------------------------------------------------- */

/* Each sample moves a copy of the running statistics; the copies' mean is kept. */
static void instance_channel(norm *m, kept *k, int64_t c, bool training) {
    double mean_sum = 0, var_sum = 0, root = 0;
    if (k->mean && !training) root = sqrt1(add(fabs(rd(k->var, c)), 1e-5));
    for (int64_t n = 0; n < m->samples; n++) {
        group g;
        channel_of(m, c, n, n, &g);
        double mean, var;
        if (k->mean && !training) {
            mean = rd(k->mean, c);
        } else {
            mean = mean_of(m->x, &g);
            var = variance_of(m->x, &g, mean);
            root = sqrt1(add(var, 1e-5));
        }
        if (k->mean && training) {
            double moved_mean = moving(rd(k->mean, c), 0.1, mean);
            double moved_var = moving(rd(k->var, c), 0.1, mul(var, (double)g.n / (double)(g.n - 1)));
            mean_sum = n ? add(mean_sum, moved_mean) : moved_mean;
            var_sum = n ? add(var_sum, moved_var) : moved_var;
        }
        for (int64_t i = 0; i < g.n; i++) scaled(m, g.at[i], c, centred(m, g.at[i], mean, root));
    }
    if (k->mean && training) {
        wr(k->mean, c, dvd(mean_sum, (double)m->samples));
        wr(k->var, c, dvd(var_sum, (double)m->samples));
    }
}

static void instance_norm(void **state) {
    (void)state;
    static const char *const names[] = {"InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"};
    for (int i = 0; more(i, 600); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t rank = pick(1, 3), channels = pick(1, 4);
        bool batched = coin(), affine = coin(), track = coin(), training = coin();
        int64_t samples = batched ? pick(1, 4) : 1;
        layer_new(&l, names[rank - 1]);
        kept_layer(&l, channels, affine, track, false);
        in_training(&l, training);
        int64_t positions = norm_shapes(&l, batched, samples, channels, rank);
        norm m = norm_of(samples, channels, positions, affine ? channels : 0, affine ? channels : 0);
        kept k = {.mean = track ? cells_of(channels) : NULL, .var = track ? cells_of(channels) : NULL};
        for (int64_t c = 0; c < channels; c++) instance_channel(&m, &k, c, training);
        proves(&l);
    }
}

/* -- group, layer, rms norm ---------------------------------------------------------------------------- */

static void group_walk(norm *m, int64_t groups) {
    int64_t each = m->channels / groups * m->positions;
    for (int64_t row = 0; row < m->samples * groups; row++) {
        group g = {.n = each};
        for (int64_t i = 0; i < each; i++) g.at[i] = row * each + i;
        double mean = mean_of(m->x, &g), root = sqrt1(add(variance_of(m->x, &g, mean), 1e-5));
        for (int64_t i = 0; i < each; i++)
            scaled(m, g.at[i], g.at[i] / m->positions % m->channels, centred(m, g.at[i], mean, root));
    }
}

static void group_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, 400); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t groups = pick(1, 3), channels = groups * pick(1, 3), samples = pick(1, 3);
        bool affine = coin();
        layer_new(&l, "GroupNorm");
        has_int(&l, "num_groups", groups);
        has_int(&l, "num_channels", channels);
        has_bool(&l, "affine", affine);
        if (affine) {
            has_param(&l, "weight", SIZES(channels));
            has_param(&l, "bias", SIZES(channels));
        }
        int64_t positions = norm_shapes(&l, true, samples, channels, pick(0, 3));
        norm m = norm_of(samples, channels, positions, affine ? channels : 0, affine ? channels : 0);
        group_walk(&m, groups);
        proves(&l);
    }
}

/* Leading axes and normalised axes; the normalised ones begin at `*from`. */
static int32_t last_axes(int64_t *s, int32_t *from) {
    int32_t lead = (int32_t)pick(0, 2), n = lead + (int32_t)pick(1, 3);
    for (int32_t i = 0; i < n; i++) s[i] = pick(1, 4);
    *from = lead;
    return n;
}

static void layer_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, 500); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t s[LAYER_NDIM];
        int32_t from, ndim = last_axes(s, &from);
        int64_t per_row = elements(ndim - from, s + from), rows = elements(from, s);
        bool affine = coin(), shift = affine && coin(); /* bias=False leaves the scale alone */
        layer_new(&l, "LayerNorm");
        has_ints(&l, "normalized_shape", ndim - from, s + from);
        has_bool(&l, "elementwise_affine", affine);
        if (affine) has_param(&l, "weight", ndim - from, s + from);
        if (shift) has_param(&l, "bias", ndim - from, s + from);
        takes(&l, ndim, s);
        gives(&l, ndim, s);
        norm m = norm_of(rows, per_row, 1, affine ? per_row : 0, shift ? per_row : 0);
        group_walk(&m, 1);
        proves(&l);
    }
}

static void rms_walk(norm *m, int64_t rows, int64_t per_row) {
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < per_row; i++) {
            double x = rd(m->x, r * per_row + i), square = mul(x, x);
            sum = i ? add(sum, square) : square;
        }
        double root = sqrt1(add(1e-5, dvd(sum, (double)per_row)));
        for (int64_t i = 0; i < per_row; i++)
            scaled(m, r * per_row + i, i, dvd(rd(m->x, r * per_row + i), root));
    }
}

static void rms_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, 400); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t s[LAYER_NDIM];
        int32_t from, ndim = last_axes(s, &from);
        int64_t per_row = elements(ndim - from, s + from), rows = elements(from, s);
        bool affine = coin();
        layer_new(&l, "RMSNorm");
        has_ints(&l, "normalized_shape", ndim - from, s + from);
        has_bool(&l, "elementwise_affine", affine);
        if (affine) has_param(&l, "weight", ndim - from, s + from);
        takes(&l, ndim, s);
        gives(&l, ndim, s);
        norm m = norm_of(rows, per_row, 1, affine ? per_row : 0, 0);
        rms_walk(&m, rows, per_row);
        proves(&l);
    }
}

/* -- local response norm ------------------------------------------------------------------------------- */

static void response_walk(norm *m, int64_t size) {
    int64_t n = m->samples * m->channels * m->positions;
    double *square = calloc((size_t)n + 1, sizeof *square);
    assert_non_null(square);
    for (int64_t i = 0; i < n; i++) square[i] = mul(rd(m->x, i), m->x->v[i]);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i / m->positions % m->channels;
        double sum = 0;
        for (int64_t t = 0; t < size; t++) {
            int64_t other = c - size / 2 + t;
            double v = other < 0 || other >= m->channels ? 0 : square[i + (other - c) * m->positions];
            sum = t ? add(sum, v) : v;
        }
        wr(m->y, i, dvd(rd(m->x, i), pow1(add(1, mul(1e-4 / (double)size, sum)), 0.75)));
    }
    free(square);
}

static void local_response_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, 300); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t size = pick(1, 7), samples = pick(1, 3), channels = pick(1, 6);
        layer_new(&l, coin() ? "LocalResponseNorm" : "CrossMapLRN2d");
        has_int(&l, "size", size);
        int64_t positions = norm_shapes(&l, true, samples, channels, pick(1, 3));
        norm m = norm_of(samples, channels, positions, 0, 0);
        response_walk(&m, size);
        proves(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm), cmocka_unit_test(instance_norm), cmocka_unit_test(group_norm),
        cmocka_unit_test(layer_norm), cmocka_unit_test(rms_norm),      cmocka_unit_test(local_response_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
