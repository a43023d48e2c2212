/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for torchvision's operators on regions of images and for deformable convolutions, and for
 * normalisations of quantised tensors, which are told by other arguments. */
#include "kit/oom.h"

#include "kit/op_build.h"

enum { RUNS = 400 };

typedef struct region {
    int64_t batch, chan, high, wide, n, bins_h, bins_w, samples;
    bool aligned, position_sensitive;
} region;

static region random_region(void) {
    return (region){pick(1, 2), pick(1, 3), pick(2, 5), pick(2, 5), pick(0, 3),
                    pick(1, 3), pick(1, 3), pick(1, 3), coin(),     coin()};
}

/* Corners in pixels of the image, sides and bins. */
static void one_region(const region *r) {
    double corner = 0;
    for (int k = 0; k < 4; k++) corner = sub(mul(corner, 0.5), r->aligned ? 0.5 : 0);
    for (int side = 0; side < 2; side++) {
        double length = sub(corner, 1);
        if (!r->aligned && !r->position_sensitive) length = max2(length, 1);
        (void)dvd(length, 2);
    }
}

/* start + bin*size + (i + 0.5)*size/samples along both axes, rounded down, then the weights of 4 neighbours.
 */
static void one_position(void) {
    double at[2], low[2], far[2];
    for (int axis = 0; axis < 2; axis++) {
        at[axis] = add(add(0.3, mul(2, 1.5)), dvd(mul(add(1, 0.5), 1.5), 2));
        low[axis] = sub(at[axis], did(floor(at[axis])));
        far[axis] = sub(1, low[axis]);
    }
    (void)mul(far[0], far[1]), (void)mul(far[0], low[1]), (void)mul(low[0], far[1]),
        (void)mul(low[0], low[1]);
}

static void positions(const region *r) {
    for (int64_t k = 0; k < r->n; k++) {
        one_region(r);
        for (int64_t s = 0; s < r->bins_h * r->bins_w * r->samples * r->samples; s++) one_position();
    }
}

/* The mean of the samples of one bin. */
static double one_bin(const region *r) {
    double sum = 0;
    for (int64_t s = 0; s < r->samples * r->samples; s++) {
        double at = add(add(add(mul(0.1, 1), mul(0.2, 1)), mul(0.3, 1)), mul(0.4, 1));
        sum = s ? add(sum, at) : at;
    }
    return dvd(sum, 4);
}

static void region_args(const region *r, const char *name) {
    op_new(name);
    in_tensor(0, 4, (const int64_t[]){r->batch, r->chan, r->high, r->wide});
    in_tensor(1, 2, (const int64_t[]){r->n, 5});
    in_float(2, 0.5);
    in_int(3, r->bins_h);
    in_int(4, r->bins_w);
    in_int(5, r->samples);
    if (!r->position_sensitive) in_bool(6, r->aligned);
    rd_all(cells_of(r->batch * r->chan * r->high * r->wide));
    rd_all(cells_of(r->n * 5));
}

static void aligned_regions(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        region r = random_region();
        region_args(&r, r.position_sensitive ? "torchvision::ps_roi_align" : "torchvision::roi_align");
        cells *y = cells_of(r.n * r.chan * r.bins_h * r.bins_w);
        out_tensor(0, 4, (const int64_t[]){r.n, r.chan, r.bins_h, r.bins_w});
        positions(&r);
        for (int64_t k = 0; k < y->n; k++) wr(y, k, one_bin(&r));
        op_proves();
    }
}

static void gradients_of_regions(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        region r = random_region();
        int32_t at = r.position_sensitive ? 6 : 9;
        op_new(r.position_sensitive ? "torchvision::_ps_roi_align_backward"
                                    : "torchvision::_roi_align_backward");
        in_tensor(0, 4, (const int64_t[]){r.n, r.chan, r.bins_h, r.bins_w});
        in_tensor(1, 2, (const int64_t[]){r.n, 5});
        in_int(at, r.samples);
        if (!r.position_sensitive) in_bool(10, r.aligned);
        out_tensor(0, 4, (const int64_t[]){r.batch, r.chan, r.high, r.wide});
        cells *g = cells_of(r.n * r.chan * r.bins_h * r.bins_w);
        rd_all(cells_of(r.n * 5));
        wr_all(cells_of(r.batch * r.chan * r.high * r.wide));
        positions(&r);
        for (int64_t k = 0; k < g->n; k++)
            for (int64_t s = 0; s < 4 * r.samples * r.samples; s++) (void)add(0, dvd(mul(rd(g, k), 0.25), 4));
        op_proves();
    }
}

/* As many samples as the region is large: nobody knows how many. */
static void samples_by_size(void **state) {
    (void)state;
    region r = {1, 2, 4, 4, 3, 2, 2, 0, true, false};
    region_args(&r, "torchvision::roi_align");
    out_tensor(0, 4, (const int64_t[]){r.n, r.chan, r.bins_h, r.bins_w});
    op_says(0, -1, 1 * 2 * 4 * 4 + 3 * 5 + 3 * 2 * 2 * 2);
    forget();
}

/* -- deformable convolutions ----------------------------------------------------------------------------- */

typedef struct deformed {
    int64_t n, in, out, groups, offset_groups, kh, kw, oh, ow, h, w;
    bool masked;
} deformed;

static deformed random_deformed(void) {
    deformed d = {.n = pick(0, 2), .groups = pick(1, 2), .offset_groups = pick(1, 2), .masked = coin()};
    d.in = 2 * pick(1, 2);
    d.out = d.groups * pick(1, 2);
    d.kh = pick(1, 2), d.kw = pick(1, 3), d.oh = pick(1, 3), d.ow = pick(1, 3);
    d.h = d.oh + d.kh, d.w = d.ow + d.kw;
    return d;
}

static void deformed_args(const deformed *d, int32_t from) {
    int64_t taps = d->offset_groups * d->kh * d->kw;
    in_tensor(from, 4, (const int64_t[]){d->n, d->in, d->h, d->w});
    in_tensor(from + 1, 4, (const int64_t[]){d->out, d->in / d->groups, d->kh, d->kw});
    in_tensor(from + 2, 4, (const int64_t[]){d->n, 2 * taps, d->oh, d->ow});
    if (d->masked)
        in_tensor(from + 3, 4, (const int64_t[]){d->n, taps, d->oh, d->ow});
    else
        in_tensor(from + 3, 2, (const int64_t[]){d->n, 1});
    in_tensor(from + 4, 1, &d->out);
    in_bool(from + 13, d->masked);
}

static void deformed_reads(const deformed *d) {
    int64_t taps = d->kh * d->kw, moved = d->n * d->oh * d->ow * d->offset_groups * taps;
    rd_all(cells_of(d->n * d->in * d->h * d->w));
    rd_all(cells_of(d->out * d->in / d->groups * taps));
    rd_all(cells_of(2 * moved));
    rd_all(cells_of(d->masked ? moved : d->n));
    rd_all(cells_of(d->out));
}

static void sampled_once(const deformed *d) {
    for (int64_t k = 0; k < d->n * d->offset_groups * d->kh * d->kw * d->oh * d->ow; k++) {
        double low[2], far[2];
        for (int axis = 0; axis < 2; axis++) {
            double at = add(1, 0.3);
            low[axis] = sub(at, did(floor(at)));
            far[axis] = sub(1, low[axis]);
        }
        (void)mul(far[0], far[1]), (void)mul(far[0], low[1]), (void)mul(low[0], far[1]),
            (void)mul(low[0], low[1]);
    }
    for (int64_t k = 0; k < d->n * d->in * d->kh * d->kw * d->oh * d->ow; k++) {
        double v = add(add(add(mul(0.1, 1), mul(0.2, 1)), mul(0.3, 1)), mul(0.4, 1));
        if (d->masked) (void)mul(v, 0.5);
    }
}

static void deformable(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        deformed d = random_deformed();
        int64_t taps = d.kh * d.kw, positions = d.n * d.oh * d.ow;
        op_new("torchvision::deform_conv2d");
        deformed_args(&d, 0);
        out_tensor(0, 4, (const int64_t[]){d.n, d.out, d.oh, d.ow});
        deformed_reads(&d);
        cells *y = cells_of(positions * d.out);
        sampled_once(&d);
        for (int64_t k = 0; k < y->n; k++) {
            double sum = 0.5;
            for (int64_t t = 0; t < d.in / d.groups * taps; t++) sum = mac(sum, 1, 2);
            wr(y, k, sum);
        }
        op_proves();
    }
}

static void deformable_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        deformed d = random_deformed();
        int64_t taps = d.kh * d.kw, positions = d.n * d.oh * d.ow, filters = d.out * d.in / d.groups;
        op_new("torchvision::_deform_conv2d_backward");
        in_tensor(0, 4, (const int64_t[]){d.n, d.out, d.oh, d.ow});
        deformed_args(&d, 1);
        out_tensor(0, 4, (const int64_t[]){d.n, d.in, d.h, d.w});
        out_tensor(1, 4, (const int64_t[]){d.out, d.in / d.groups, d.kh, d.kw});
        rd_all(cells_of(positions * d.out));
        wr_all(cells_of(d.n * d.in * d.h * d.w));
        wr_all(cells_of(filters * taps));
        deformed_reads(&d);
        for (int64_t k = 0; k < positions * filters * taps; k++) {
            (void)mac(0, 1, 2); /* gradients of the samples, */
            (void)mac(0, 1, 2); /* and of the weight */
        }
        op_proves_but(1 << LAM_FLOPS);
    }
}

/* -- normalisations of quantised tensors ----------------------------------------------------------------- */

/* (x - mean)/sqrt(var + eps), scaled, shifted, and cut where a relu follows. */
static void quantised_batch_norm(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        const int64_t s[] = {pick(0, 3), pick(1, 4), pick(1, 4), pick(1, 4)}, plane = s[2] * s[3];
        bool relu = coin(), affine = coin();
        op_new(relu ? "quantized::batch_norm2d_relu" : "quantized::batch_norm2d");
        in_tensor(0, 4, s);
        for (int32_t p = 1; p < 5; p++)
            if (affine || p > 2) {
                in_tensor(p, 1, &s[1]);
                rd_all(cells_of(s[1]));
            }
        out_tensor(0, 4, s);
        cells *x = cells_of(s[0] * s[1] * plane), *y = cells_of(x->n);
        for (int64_t c = 0; c < s[1]; c++) (void)sqrt1(add(2, 1e-5));
        for (int64_t k = 0; k < x->n; k++) {
            double v = dvd(sub(rd(x, k), 0.1), 1.1);
            if (affine) v = add(mul(v, 2), 3);
            wr(y, k, relu ? max2(v, 0) : v);
        }
        op_proves();
    }
}

/* Rows of a group norm are samples times groups, of an instance norm samples times channels. */
static void quantised_rows(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        bool instance = coin(), affine = coin();
        int64_t groups = pick(1, 3), chan = groups * pick(1, 3), n = pick(1, 3), wide = pick(1, 5);
        int64_t rows = instance ? n * chan : n * groups, in = n * chan * wide;
        op_new(instance ? "quantized::instance_norm" : "quantized::group_norm");
        in_tensor(0, 3, (const int64_t[]){n, chan, wide});
        if (!instance) in_int(1, groups);
        for (int32_t p = 0; affine && p < 2; p++) {
            in_tensor((instance ? 1 : 2) + p, 1, &chan);
            rd_all(cells_of(chan));
        }
        out_tensor(0, 3, (const int64_t[]){n, chan, wide});
        rd_all(cells_of(in));
        wr_all(cells_of(in));
        for (int64_t r = 0; r < rows; r++) {
            double mean = 0, var = 0;
            for (int64_t k = 0; k < in / rows; k++) mean = k ? add(mean, 1) : 1;
            mean = dvd(mean, 2);
            for (int64_t k = 0; k < in / rows; k++) {
                double d = sub(1, mean), square = mul(d, d);
                var = k ? add(var, square) : square;
            }
            double root = sqrt1(add(dvd(var, 2), 1e-5));
            for (int64_t k = 0; k < in / rows; k++) {
                double y = dvd(sub(1, mean), root);
                if (affine) (void)add(mul(y, 2), 3);
            }
        }
        op_proves();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_regions),     cmocka_unit_test(gradients_of_regions),
        cmocka_unit_test(samples_by_size),     cmocka_unit_test(deformable),
        cmocka_unit_test(deformable_backward), cmocka_unit_test(quantised_batch_norm),
        cmocka_unit_test(quantised_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
