/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for what reads an image on another grid, forward and backward. */
#include "kit/oom.h"

#include "kit/op_build.h"

/* -- grids ----------------------------------------------------------------------------------------------- */

/* Blends along the last axis, then the one before: 1 for the first, taps for the next, taps squared ... */
static int64_t blend(int32_t rank, int64_t taps) {
    int64_t n = 0;
    for (int64_t lines = 1; rank-- > 0; lines *= taps) n += lines;
    return n;
}

static void interpolations(void **state) {
    (void)state;
    static const struct {
        const char *name, *back;
        int32_t rank;
        int64_t taps;
    } all[] = {{"aten::upsample_linear1d", "aten::upsample_linear1d_backward", 1, 2},
               {"aten::upsample_bilinear2d", "aten::upsample_bilinear2d_backward", 2, 2},
               {"aten::upsample_bicubic2d", "aten::upsample_bicubic2d_backward", 2, 4},
               {"aten::upsample_trilinear3d", "aten::upsample_trilinear3d_backward", 3, 2}};
    for (int i = 0; more(i, 2000); i++) {
        reseed((uint64_t)i);
        size_t which = (size_t)pick(0, 3);
        int64_t x[5] = {pick(1, 2), pick(1, 2)}, y[5] = {x[0], x[1]};
        int32_t n = all[which].rank + 2;
        bool back = coin();
        for (int32_t d = 2; d < n; d++) x[d] = pick(1, 3), y[d] = pick(1, 4);
        op_new(back ? all[which].back : all[which].name);
        in_tensor(0, n, back ? y : x);
        out_tensor(0, n, back ? x : y);
        read_cells(elements(n, back ? y : x)), wrote_cells(elements(n, back ? x : y));
        for (int64_t o = 0; o < elements(n, y); o++)
            for (int64_t b = 0; b < blend(all[which].rank, all[which].taps); b++)
                for (int64_t t = 0; t < all[which].taps; t++) {
                    (void)mul(1, 2);
                    if (t || back) (void)add(1, 2);
                }
        op_proves();
    }
}

enum { BILINEAR, NEAREST, BICUBIC };

/* Of one position: coordinates, and what each mode takes of them. */
static void place(int64_t mode, int64_t rank, bool aligned) {
    for (int axis = 0; axis < rank; axis++) {
        double at = aligned ? mul(dvd(add(0.1, 1), 2), 3) : dvd(sub(mul(add(0.1, 1), 4), 1), 2);
        double low = did(floor(at));
        if (mode == NEAREST) continue;
        double t = sub(at, low);
        if (mode == BILINEAR) {
            (void)sub(1, t);
            continue;
        }
        double near[] = {t, sub(1, t)}, far[] = {add(t, 1), sub(2, t)}, a = -0.75;
        for (int k = 0; k < 2; k++) { /* Keys' cubic, by Horner; its factors are constants */
            (void)add(mul(mul(sub(mul(a + 2, near[k]), a + 3), near[k]), near[k]), 1);
            (void)sub(mul(add(mul(sub(mul(a, far[k]), 5 * a), far[k]), 8 * a), far[k]), 4 * a);
        }
    }
    for (int corner = 0; mode == BILINEAR && corner < (rank == 2 ? 4 : 8); corner++)
        for (int axis = 1; axis < rank; axis++) (void)mul(1, 2);
}

static void grid(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t rank = pick(2, 3), n = pick(1, 2), c = pick(0, 3), h = pick(1, 3), w = pick(1, 3);
        int64_t mode = pick(BILINEAR, rank == 2 ? BICUBIC : NEAREST);
        bool aligned = coin(), flat = rank == 2;
        op_new(flat ? "aten::grid_sampler_2d" : "aten::grid_sampler_3d");
        in_tensor(0, flat ? 4 : 5, flat ? (const int64_t[]){n, c, 4, 5} : (const int64_t[]){n, c, 2, 4, 5});
        in_tensor(1, flat ? 4 : 5, flat ? (const int64_t[]){n, h, w, 2} : (const int64_t[]){n, 2, h, w, 3});
        in_int(2, mode), in_int(3, 0), in_bool(4, aligned);
        int64_t depth = flat ? 1 : 2, points = n * depth * h * w;
        out_tensor(0, flat ? 4 : 5, flat ? (const int64_t[]){n, c, h, w} : (const int64_t[]){n, c, 2, h, w});
        read_cells(n * c * 20 * depth), read_cells(points * rank), wrote_cells(points * c);
        for (int64_t p = 0; p < points; p++) {
            place(mode, rank, aligned);
            for (int64_t k = 0; k < c; k++) {
                if (mode == BILINEAR) weigh(flat ? 4 : 8);
                for (int line = 0; mode == BICUBIC && line < 5; line++) weigh(4);
            }
        }
        op_proves();
    }
    op_new("aten::grid_sampler_2d"); /* no mode of torch's */
    in_tensor(0, SIZES(1, 1, 4, 5));
    in_tensor(1, SIZES(1, 2, 2, 2));
    in_int(2, 3), in_int(3, 0), in_bool(4, true);
    out_tensor(0, SIZES(1, 1, 2, 2));
    op_says(0, -1, 20 + 8 + 4);
}

/* A gradient comes back to one element of the image, and to its position. */
static void come_back(int64_t mode, int64_t rank, bool image, bool positions) {
    int64_t near = mode == BICUBIC ? 16 : mode == NEAREST ? 1 : rank == 3 ? 8 : 4;
    for (int64_t k = 0; k < near; k++) {
        double g = 0.5;
        if (image && mode == BICUBIC) g = mul(mul(g, 2), 3);
        if (image && mode == BILINEAR) g = mul(g, 2);
        if (image) (void)add(1, g);
        for (int64_t axis = 0; positions && mode != NEAREST && axis < rank; axis++) {
            g = mul(3, 0.5);
            for (int64_t other = 0; other < (mode == BICUBIC ? 2 : rank - 1); other++) g = mul(g, 2);
            (void)add(1, g);
        }
    }
}

/* The slopes of a cubic's four weights along an axis, by Horner; its factors are constants. */
static void slopes(void) {
    double t = 0.3, a = -0.75;
    for (int k = 0; k < 4; k++) {
        double x = sub((double)k - 1, t);
        if (k == 0) (void)sub(mul(sub(mul(-3 * a, x), 10 * a), x), 8 * a);
        if (k == 1) (void)mul(sub(mul(-3 * (a + 2), x), 2 * (a + 3)), x);
        if (k == 2) (void)mul(sub(mul(3 * (a + 2), x), 2 * (a + 3)), x);
        if (k == 3) (void)add(mul(sub(mul(3 * a, x), 10 * a), x), 8 * a);
    }
}

static void grid_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t rank = pick(2, 3), n = pick(1, 2), c = pick(0, 3), h = pick(1, 3), w = pick(1, 3);
        int64_t mode = pick(BILINEAR, rank == 2 ? BICUBIC : NEAREST);
        bool aligned = coin(), image = coin(), positions = !image || coin(), flat = rank == 2;
        int32_t axes = flat ? 4 : 5;
        int64_t depth = flat ? 1 : 2, points = n * depth * h * w;
        const int64_t *x = flat ? (const int64_t[]){n, c, 4, 5} : (const int64_t[]){n, c, 2, 4, 5};
        const int64_t *y = flat ? (const int64_t[]){n, c, h, w} : (const int64_t[]){n, c, 2, h, w};
        const int64_t *at = flat ? (const int64_t[]){n, h, w, 2} : (const int64_t[]){n, 2, h, w, 3};
        op_new(flat ? "aten::grid_sampler_2d_backward" : "aten::grid_sampler_3d_backward");
        in_tensor(0, axes, y), in_tensor(1, axes, x), in_tensor(2, axes, at);
        in_int(3, mode), in_int(4, 0), in_bool(5, aligned);
        read_cells(points * c), read_cells(n * c * 20 * depth), read_cells(points * rank);
        if (image) out_tensor(0, axes, x), wrote_cells(n * c * 20 * depth);
        if (positions) out_tensor(1, axes, at), wrote_cells(points * rank);
        for (int64_t p = 0; p < points; p++) {
            place(mode, rank, aligned);
            for (int64_t k = 0; k < c; k++) come_back(mode, rank, image, positions);
            for (int64_t axis = 0; positions && mode != NEAREST && axis < rank; axis++) {
                if (mode == BICUBIC) slopes();
                (void)mul(1, 2);
            }
        }
        op_proves();
    }
    op_new("aten::grid_sampler_2d_backward"); /* no mode of torch's */
    in_tensor(0, SIZES(1, 1, 2, 2));
    in_tensor(1, SIZES(1, 1, 4, 5));
    in_tensor(2, SIZES(1, 2, 2, 2));
    in_int(3, 3), in_int(4, 0), in_bool(5, true);
    out_tensor(0, SIZES(1, 1, 4, 5));
    op_says(0, -1, 4 + 20 + 8 + 20);
}

/* -- without aliasing ------------------------------------------------------------------------------------ */

enum { FLOAT32 = 6, FLOAT64 = 7 };

/* Whether input element j goes into output element i, in the arithmetic of the elements' own type. */
static bool near_single(int64_t in, int64_t i, int64_t j, float step, float taps) {
    float reach = step >= 1 ? taps * 0.5F * step : taps * 0.5F,
          middle = (float)((double)step * ((double)i + 0.5));
    float from = middle - reach, to = middle + reach;
    return j >= 0 && j < in && j >= (int64_t)((double)from + 0.5) && j < (int64_t)((double)to + 0.5);
}
static bool near_double(int64_t in, int64_t i, int64_t j, double step, double taps) {
    double reach = step >= 1 ? taps * 0.5 * step : taps * 0.5, middle = step * ((double)i + 0.5);
    return j >= 0 && j < in && j >= (int64_t)(middle - reach + 0.5) && j < (int64_t)(middle + reach + 0.5);
}

typedef struct smooth {
    int64_t in[2], out[2];
    double factor[2]; /* 0: none is given */
    bool aligned, single;
    int64_t taps;
} smooth;

static bool near(const smooth *s, int axis, int64_t i, int64_t j) {
    int64_t in = s->in[axis], out = s->out[axis];
    double by = s->factor[axis];
    if (s->single) {
        float step = by > 0 ? (float)(1 / by) : (float)in / (float)out;
        if (s->aligned) step = out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;
        return near_single(in, i, j, step, (float)s->taps);
    }
    double step = by > 0 ? 1 / by : (double)in / (double)out;
    if (s->aligned) step = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
    return near_double(in, i, j, step, (double)s->taps);
}

/* One axis of one line: an output element from its neighbours. */
static void blend_line(const smooth *s, int axis) {
    for (int64_t i = 0; i < s->out[axis]; i++) {
        bool begun = false;
        for (int64_t j = 0; j < s->in[axis]; j++) {
            if (!near(s, axis, i, j)) continue;
            (void)mul(1, 2);
            if (begun) (void)add(1, 2);
            begun = true;
        }
    }
}

static void blend_back(const smooth *s) {
    for (int64_t i = 0; i < s->out[0]; i++)
        for (int64_t k = 0; k < s->out[1]; k++)
            for (int64_t j = 0; j < s->in[0]; j++)
                for (int64_t l = 0; l < s->in[1]; l++)
                    if (near(s, 0, i, j) && near(s, 1, k, l)) (void)add(1, mul(mul(1, 2), 3));
}

static smooth random_smooth(int64_t taps) {
    smooth s = {.aligned = pick(0, 3) == 0, .single = coin(), .taps = taps};
    for (int i = 0; i < 2; i++) {
        s.in[i] = pick(1, 12), s.out[i] = pick(0, 3) ? pick(1, 9) : s.in[i];
        if (coin()) s.factor[i] = ((double)s.out[i] + (double)pick(0, 9) / 10) / (double)s.in[i];
    }
    return s;
}

static void smoothed(void **state) {
    (void)state;
    static const char *const names[] = {"aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa",
                                        "aten::_upsample_lanczos2d_aa"};
    static const char *const backs[] = {"aten::_upsample_bilinear2d_aa_backward",
                                        "aten::_upsample_bicubic2d_aa_backward",
                                        "aten::_upsample_lanczos2d_aa_backward"};
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        int which = (int)pick(0, 2);
        smooth s = random_smooth(2 + 2 * which);
        int64_t n = pick(0, 2), c = pick(1, 2), x[] = {n, c, s.in[0], s.in[1]},
                y[] = {n, c, s.out[0], s.out[1]};
        bool back = coin();
        op_new(back ? backs[which] : names[which]);
        the.dtype = s.single ? FLOAT32 : FLOAT64;
        in_tensor(0, 4, back ? y : x);
        in_ints(1, 2, y + 2);
        if (back) in_ints(2, 4, x);
        in_bool(2 + back, s.aligned);
        for (int axis = 0; axis < 2; axis++) {
            if (s.factor[axis] > 0)
                in_float(3 + back + axis, s.factor[axis]);
            else
                in_none(3 + back + axis);
        }
        out_tensor(0, 4, back ? x : y);
        read_cells(elements(4, back ? y : x)), wrote_cells(elements(4, back ? x : y));
        for (int64_t plane = 0; plane < n * c; plane++) {
            for (int64_t row = 0; !back && s.in[1] != s.out[1] && row < s.in[0]; row++) blend_line(&s, 1);
            for (int64_t column = 0; !back && s.in[0] != s.out[0] && column < s.out[1]; column++)
                blend_line(&s, 0);
            if (back) blend_back(&s);
        }
        op_proves();
    }
}

/* The flag, a factor, or the type are not told; or it is no image. */
static void smoothed_without(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        op_new("aten::_upsample_bilinear2d_aa");
        the.dtype = FLOAT32;
        if (i == 3)
            in_tensor(0, SIZES(1, 4, 4));
        else
            in_tensor(0, SIZES(1, 1, 4, 4));
        if (i == 2) the.in[0].dtype = -1;
        if (i != 0) in_bool(2, false);
        if (i == 1) in_text(3, "2");
        out_tensor(0, SIZES(1, 1, 8, 8));
        op_says(0, -1, 16 + 64);
    }
    op_new("aten::_upsample_bilinear2d_aa"); /* a step that is no number to walk by */
    in_tensor(0, SIZES(1, 1, 4, 4));
    in_bool(2, false), in_float(3, 1e-30);
    out_tensor(0, SIZES(1, 1, 8, 8));
    op_says(0, -1, 16 + 64);
}

/* Axes longer than anybody walks along are not counted; the longest is. */
static void smoothed_from_afar(void **state) {
    (void)state;
    for (int far = 0; far < 2; far++) {
        const int64_t n = (INT64_C(1) << 24) + far;
        op_new("aten::_upsample_bilinear2d_aa");
        the.dtype = FLOAT32;
        in_tensor(0, SIZES(1, 1, n, 1));
        in_bool(2, false);
        out_tensor(0, SIZES(1, 1, 2, 1));
        lam_count got[LAM_N_METRICS];
        op_counts(got);
        assert_int_equal(got[LAM_FLOPS].state == LAM_UNKNOWN, far);
    }
}

/* -- windows that lie at random -------------------------------------------------------------------------- */

static void fractional(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int32_t rank = (int32_t)pick(2, 3), first = coin() ? 2 : 1, n = first + rank;
        int64_t x[5] = {pick(1, 2), pick(1, 2)}, y[5], k[3], win = 1;
        y[0] = x[0], y[1] = x[1];
        for (int32_t d = 0; d < rank; d++) {
            k[d] = pick(1, 3);
            y[first + d] = pick(1, 3);
            x[first + d] = y[first + d] + k[d] - 1 + pick(0, 3);
            win *= k[d];
        }
        op_new(rank == 2 ? "aten::fractional_max_pool2d" : "aten::fractional_max_pool3d");
        in_tensor(0, n, x);
        in_ints(1, rank, k);
        in_ints(2, rank, y + first);
        in_tensor(3, SIZES(first == 2 ? x[0] : 1, x[first - 1], rank));
        out_tensor(0, n, y), out_tensor(1, n, y);
        read_cells(elements(n, x)), read_cells((first == 2 ? x[0] : 1) * x[first - 1] * rank);
        wrote_cells(elements(n, y)), wrote_cells(elements(n, y));
        for (int64_t o = 0; o < elements(n, y); o++)
            for (int64_t e = 1; e < win; e++) (void)max2(1, 2);
        op_proves();
    }
    op_new("aten::fractional_max_pool2d"); /* the window was not told */
    in_tensor(0, SIZES(1, 4, 4));
    out_tensor(0, SIZES(1, 2, 2));
    op_says(0, -1, 16 + 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpolations),   cmocka_unit_test(grid),
        cmocka_unit_test(grid_backward),    cmocka_unit_test(smoothed),
        cmocka_unit_test(smoothed_without), cmocka_unit_test(smoothed_from_afar),
        cmocka_unit_test(fractional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
