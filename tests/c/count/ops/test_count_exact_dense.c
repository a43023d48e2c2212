/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for products of matrices and for convolutions, forward and backward. */
#include "kit/oom.h"

#include "kit/op_build.h"

/* -- products ------------------------------------------------------------------------------------------ */

/* y[n,m] = start + x[n,k] w[k,m], for each of `batch` matrices; added up over the batch if `summed`. */
static void product_walk(int64_t batch, int64_t n, int64_t k, int64_t m, cells *x, cells *w, cells *start,
                         cells *y, bool summed) {
    for (int64_t b = 0; b < (summed ? 1 : batch); b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < m; j++) {
                double acc = start ? rd(start, (i * m + j) % (start->n ? start->n : 1)) : 0;
                for (int64_t c = 0; c < (summed ? batch : 1); c++)
                    for (int64_t r = 0; r < k; r++)
                        acc = mac(acc, rd(x, ((b + c) * n + i) * k + r), rd(w, ((b + c) * k + r) * m + j));
                wr(y, (b * n + i) * m + j, acc);
            }
}

/* Operands are read whole even where there is nothing to multiply. */
static void read_whole(cells *a, cells *b, cells *c) {
    rd_all(a);
    rd_all(b);
    if (c) rd_all(c);
}

static void matrices(void **state) {
    (void)state;
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 4), k = pick(0, 5), m = pick(0, 4);
        bool added = coin();
        op_new(added ? "aten::addmm" : coin() ? "aten::mm" : "aten::_int_mm");
        cells *x = cells_of(n * k), *w = cells_of(k * m), *b = added ? cells_of(m) : NULL,
              *y = cells_of(n * m);
        if (added) in_tensor(0, SIZES(m));
        in_tensor(added, SIZES(n, k));
        in_tensor(added + 1, SIZES(k, m));
        if (added && coin()) {
            in_int(3, 1);
            in_int(4, 1);
        }
        out_tensor(0, SIZES(n, m));
        product_walk(1, n, k, m, x, w, b, y, false);
        read_whole(x, w, b);
        op_proves();
    }
}

static void batches(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t batch = pick(0, 3), n = pick(0, 4), k = pick(0, 4), m = pick(1, 4);
        bool added = coin(), summed = added && coin();
        op_new(summed ? "aten::addbmm" : added ? "aten::baddbmm" : "aten::bmm");
        int64_t outs = (summed ? 1 : batch) * n * m;
        cells *x = cells_of(batch * n * k), *w = cells_of(batch * k * m), *y = cells_of(outs);
        cells *b = added ? cells_of(n * m) : NULL;
        if (added) in_tensor(0, SIZES(n, m));
        in_tensor(added, SIZES(batch, n, k));
        in_tensor(added + 1, SIZES(batch, k, m));
        if (summed) {
            out_tensor(0, SIZES(n, m));
        } else {
            out_tensor(0, SIZES(batch, n, m));
        }
        product_walk(batch, n, k, m, x, w, b, y, summed);
        read_whole(x, w, b);
        op_proves();
    }
}

static void vectors(void **state) {
    (void)state;
    for (int i = 0; more(i, 2000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 5), k = pick(0, 6);
        int which = (int)pick(0, 2);
        op_new(which == 0 ? "aten::dot" : which == 1 ? "aten::mv" : "aten::addmv_");
        if (which == 0) n = 1;
        cells *x = cells_of(n * k), *v = cells_of(k), *b = which == 2 ? cells_of(n) : NULL, *y = cells_of(n);
        if (which == 0) {
            in_tensor(0, SIZES(k));
            in_tensor(1, SIZES(k));
            out_tensor(0, 0, NULL);
        } else {
            if (which == 2) in_tensor(0, SIZES(n));
            in_tensor(which == 2, SIZES(n, k));
            in_tensor(1 + (which == 2), SIZES(k));
            out_tensor(0, SIZES(n));
        }
        product_walk(1, n, k, 1, x, v, b, y, false);
        read_whole(x, v, b);
        op_proves();
    }
}

/* alpha * (x w) + beta * b: each factor that is not 1 multiplies every element of the result. */
static void scaled(void **state) {
    (void)state;
    static const double factors[] = {1, 0, 0.5, -2};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            op_new("aten::addmm");
            in_tensor(0, SIZES(2, 3));
            in_tensor(1, SIZES(2, 4));
            in_tensor(2, SIZES(4, 3));
            in_float(3, factors[b]);
            in_float(4, factors[a]);
            out_tensor(0, SIZES(2, 3));
            op_says(24, 48 + 6 * ((a != 0) + (b > 1)), 6 + 8 + 12 + 6);
        }
    op_new("aten::addmm"); /* the overload with a type before the factors */
    in_tensor(0, SIZES(2, 3));
    in_tensor(1, SIZES(2, 4));
    in_tensor(2, SIZES(4, 3));
    in_int(3, 6);
    in_int(4, 1);
    in_int(5, 1);
    out_tensor(0, SIZES(2, 3));
    op_says(24, -1, 32);
}

/* -- groups -------------------------------------------------------------------------------------------- */

/* Ends of groups over `size` rows; after the last group there may be rows left. */
typedef struct groups {
    int64_t n, end[5], used;
} groups;

static groups random_groups(int64_t size) {
    groups g = {.n = pick(1, 4)};
    for (int64_t j = 1; j <= g.n; j++) {
        g.end[j] = coin() ? g.end[j - 1] : pick(g.end[j - 1], size);
        g.used += g.end[j] > g.end[j - 1];
    }
    return g;
}

static void in_ends(int32_t position, const groups *g) {
    in_tensor(position, SIZES(g->n));
    lam_op_arg *a = &the.in[the.n_in - 1];
    a->masks = true;
    a->open = g->end[g->n];
    a->open_rows = g->used;
}

static void op_grouped(const char *name) {
    op_new(name);
    the.dtype = 3; /* of ends, and the same of all */
}

/* One product of the group's matrices, each element of them read. */
static void group_product(cells *x, int64_t x_at, int64_t x_row, int64_t x_step, cells *w, int64_t w_at,
                          int64_t w_row, int64_t w_step, cells *y, int64_t y_at, int64_t y_row,
                          const int64_t size[3]) {
    for (int64_t r = 0; r < size[0]; r++)
        for (int64_t q = 0; q < size[1]; q++) rd(x, x_at + r * x_row + q * x_step);
    for (int64_t q = 0; q < size[1]; q++)
        for (int64_t c = 0; c < size[2]; c++) rd(w, w_at + q * w_row + c * w_step);
    for (int64_t r = 0; r < size[0]; r++)
        for (int64_t c = 0; c < size[2]; c++) {
            double acc = 0;
            for (int64_t q = 0; q < size[1]; q++)
                acc = mac(acc, rd(x, x_at + r * x_row + q * x_step), rd(w, w_at + q * w_row + c * w_step));
            wr(y, y_at + r * y_row + c, acc);
        }
}

/* Rows of x are dealt out to matrices; every row up to the last end meets one of them. */
static void grouped_rows(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t k = pick(0, 4), n = pick(0, 4), rows = pick(0, 6);
        const groups g = random_groups(rows);
        op_grouped("aten::_grouped_mm");
        cells *x = cells_of(rows * k), *w = cells_of(g.n * k * n), *o = cells_of(g.n),
              *y = cells_of(rows * n);
        for (int64_t j = 0; j < g.n; j++) {
            const int64_t size[] = {g.end[j + 1] - g.end[j], k, n};
            if (size[0]) group_product(x, g.end[j] * k, k, 1, w, j * k * n, n, 1, y, g.end[j] * n, n, size);
        }
        rd_all(o);
        in_tensor(0, SIZES(rows, k));
        in_tensor(1, SIZES(g.n, k, n));
        in_ends(2, &g);
        out_tensor(0, SIZES(rows, n));
        op_proves();
    }
}

/* Columns of the second factor are dealt out to matrices. */
static void grouped_columns(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t high = pick(0, 4), k = pick(0, 4), wide = pick(0, 6);
        const groups g = random_groups(wide);
        op_grouped("aten::_grouped_mm");
        cells *x = cells_of(g.n * high * k), *w = cells_of(k * wide), *o = cells_of(g.n),
              *y = cells_of(high * wide);
        for (int64_t j = 0; j < g.n; j++) {
            const int64_t size[] = {high, k, g.end[j + 1] - g.end[j]};
            if (size[2]) group_product(x, j * high * k, k, 1, w, g.end[j], wide, 1, y, g.end[j], wide, size);
        }
        rd_all(o);
        in_tensor(0, SIZES(g.n, high, k));
        in_tensor(1, SIZES(k, wide));
        in_ends(2, &g);
        out_tensor(0, SIZES(high, wide));
        op_proves();
    }
}

/* The inner axis is dealt out: one result for each group, 0 for an empty one. Scales are read whole. */
static void grouped_inside(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t high = pick(0, 4), wide = pick(0, 4), inner = pick(0, 6);
        const groups g = random_groups(inner);
        bool scaled = coin();
        op_grouped(scaled ? "aten::_scaled_grouped_mm" : "aten::_grouped_mm");
        cells *x = cells_of(high * inner), *w = cells_of(inner * wide), *o = cells_of(g.n);
        cells *y = cells_of(g.n * high * wide);
        for (int64_t j = 0; j < g.n; j++) {
            const int64_t size[] = {high, g.end[j + 1] - g.end[j], wide};
            group_product(x, g.end[j], inner, 1, w, g.end[j] * wide, wide, 1, y, j * high * wide, wide, size);
        }
        rd_all(o);
        in_tensor(0, SIZES(high, inner));
        in_tensor(1, SIZES(inner, wide));
        if (scaled) in_whole(2, SIZES(3));
        if (scaled) in_whole(3, SIZES(2));
        in_ends(scaled ? 4 : 2, &g);
        out_tensor(0, SIZES(g.n, high, wide));
        op_proves();
    }
}

/* Without ends every row is in a group. Ends that were not read leave all unknown but the most it can be. */
static void groups_of_unknown_size(void **state) {
    (void)state;
    op_new("aten::_grouped_mm");
    in_tensor(0, SIZES(2, 4, 5));
    in_tensor(1, SIZES(2, 5, 3));
    out_tensor(0, SIZES(2, 4, 3));
    op_says(2 * 4 * 5 * 3, 2 * 2 * 4 * 5 * 3, 40 + 30 + 24);
    op_new("aten::_grouped_mm");
    in_tensor(0, SIZES(4, 5, 7));
    in_tensor(1, SIZES(7, 8));
    out_tensor(0, SIZES(5, 8));
    op_says(5 * 7 * 8, 2 * 5 * 7 * 8, 140 + 56 + 40);
    op_new("aten::_grouped_mm");
    in_tensor(0, SIZES(6, 4));
    in_tensor(1, SIZES(3, 4, 8));
    in_tensor(2, SIZES(3));
    out_tensor(0, SIZES(6, 8));
    op_says(-1, -1, -1);
    const groups beyond = {.n = 3, .end = {0, 1, 2, 9}, .used = 3};
    op_grouped("aten::_grouped_mm");
    in_tensor(0, SIZES(6, 4));
    in_tensor(1, SIZES(3, 4, 8));
    in_ends(2, &beyond);
    out_tensor(0, SIZES(6, 8));
    op_says(-1, -1, -1);
}

static void complex_numbers(void **state) {
    (void)state;
    op_new("aten::mm");
    in_tensor(0, SIZES(2, 3));
    in_tensor(1, SIZES(3, 4));
    out_tensor(0, SIZES(2, 4));
    the.out[0].dtype = 9;
    op_says(24, 8 * 24, 6 + 12 + 8);
    op_new("aten::acosh");
    in_tensor(0, SIZES(2, 3));
    out_tensor(0, SIZES(2, 3));
    the.out[0].dtype = 10;
    op_says(0, -1, 12);
}

/* -- convolution --------------------------------------------------------------------------------------- */

typedef struct conv {
    int32_t rank;
    bool transposed, bias;
    int64_t batch, ic, oc, groups;
    int64_t in[3], out[3], k[3], stride[3], pad[3], dil[3];
} conv;

static void random_conv(conv *c) {
    *c = (conv){.rank = (int32_t)pick(1, 3), .transposed = coin(), .bias = coin(), .groups = pick(1, 3)};
    c->batch = pick(0, 12) == 0 ? 0 : pick(1, 2);
    c->ic = c->groups * pick(1, 2);
    c->oc = c->groups * pick(1, 2);
    for (int32_t i = 0; i < c->rank; i++) {
        c->k[i] = pick(1, 3);
        c->stride[i] = pick(1, 3);
        c->dil[i] = pick(1, 2);
        c->pad[i] = pick(0, 2);
        int64_t reach = c->dil[i] * (c->k[i] - 1) + 1, least = reach - 2 * c->pad[i];
        int64_t small = pick(least > 1 ? least : 1, (least > 1 ? least : 1) + 3 / c->rank);
        int64_t other = (small + 2 * c->pad[i] - reach) / c->stride[i] + 1;
        c->in[i] = c->transposed ? other : small;
        c->out[i] = c->transposed ? small : other;
    }
}

/* Where tap `t` takes position `o` of the side with fewer positions to on the other side; -1 outside. */
static int64_t tap_at(const conv *c, const int64_t *o, const int64_t *t) {
    int64_t at[3];
    for (int32_t d = 0; d < c->rank; d++) at[d] = o[d] * c->stride[d] - c->pad[d] + t[d] * c->dil[d];
    return offset_of(c->rank, c->transposed ? c->out : c->in, at);
}

/* Every product of the sum that defines the convolution: input channel i, output channel o of the same group,
 * a position of the strided side and a tap. `use` says what is multiplied with what. */
typedef void conv_use(cells *a, int64_t ai, cells *b, int64_t bi, cells *to, int64_t ti);

static void conv_products(const conv *c, conv_use *use, cells *strided, cells *weight, cells *other) {
    int64_t per_in = c->ic / c->groups, per_out = c->oc / c->groups;
    const int64_t *low = c->transposed ? c->in : c->out;
    int64_t plane = elements(c->rank, low), wide = elements(c->rank, c->transposed ? c->out : c->in);
    int64_t taps = elements(c->rank, c->k);
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t o = 0; o < c->oc; o++)
            for (int64_t j = 0; j < per_in; j++) {
                int64_t i = o / per_out * per_in + j, p[3] = {0}, at = 0;
                int64_t first = c->transposed ? i * per_out + o % per_out : o * per_in + j;
                do {
                    int64_t t[3] = {0}, tap = 0;
                    do {
                        int64_t there = tap_at(c, p, t);
                        int64_t mine =
                            (n * (c->transposed ? c->ic : c->oc) + (c->transposed ? i : o)) * plane + at;
                        int64_t his =
                            (n * (c->transposed ? c->oc : c->ic) + (c->transposed ? o : i)) * wide + there;
                        use(strided, mine, weight, first * taps + tap++, other, there < 0 ? -1 : his);
                    } while (next_at(c->rank, c->k, t));
                    at++;
                } while (next_at(c->rank, low, p));
            }
}

/* One multiply-accumulate, whichever of the three is summed; what lies on padding is multiplied all the
 * same. */
static void multiply(cells *a, int64_t ai, cells *b, int64_t bi, cells *to, int64_t ti) {
    (void)mac(a->v[ai], b->v[bi], ti < 0 ? 0 : to->v[ti]);
}

static void conv_shapes(const conv *c, int64_t *x, int64_t *w, int64_t *y) {
    x[0] = y[0] = c->batch;
    x[1] = c->ic;
    y[1] = c->oc;
    w[0] = c->transposed ? c->ic : c->oc;
    w[1] = (c->transposed ? c->oc : c->ic) / c->groups;
    for (int32_t i = 0; i < c->rank; i++) {
        x[2 + i] = c->in[i];
        y[2 + i] = c->out[i];
        w[2 + i] = c->k[i];
    }
}

/* A random convolution with the shapes and cells of its input, weight and result, or of that one's gradient.
 */
typedef struct drawn {
    conv c;
    int32_t n; /* axes of each */
    int64_t xs[5], ws[5], ys[5];
    cells *x, *w, *y;
} drawn;

static drawn draw_convolution(int round) {
    drawn d;
    reseed((uint64_t)round);
    random_conv(&d.c);
    d.n = d.c.rank + 2;
    conv_shapes(&d.c, d.xs, d.ws, d.ys);
    d.x = cells_of(elements(d.n, d.xs));
    d.w = cells_of(elements(d.n, d.ws));
    d.y = cells_of(elements(d.n, d.ys));
    return d;
}

static void convolution(void **state) {
    (void)state;
    for (int i = 0; more(i, 6000); i++) {
        drawn d = draw_convolution(i);
        conv c = d.c;
        conv_products(&c, multiply, c.transposed ? d.x : d.y, d.w, c.transposed ? d.y : d.x);
        read_whole(d.x, d.w, c.bias ? cells_of(c.oc) : NULL);
        wr_all(d.y);
        op_new(coin() ? "aten::convolution" : "aten::_convolution");
        in_tensor(0, d.n, d.xs);
        in_tensor(1, d.n, d.ws);
        if (c.bias) in_tensor(2, SIZES(c.oc));
        if (c.ic == c.oc || coin()) in_bool(6, c.transposed); /* else the channels tell */
        out_tensor(0, d.n, d.ys);
        op_proves();
    }
}

/* The kernels that convolution calls, which are seen alone in compiled programs. */
static void kernels(void **state) {
    (void)state;
    for (int i = 0; more(i, 2000); i++) {
        drawn d = draw_convolution(i);
        conv c = d.c;
        conv_products(&c, multiply, c.transposed ? d.x : d.y, d.w, c.transposed ? d.y : d.x);
        read_whole(d.x, d.w, NULL);
        wr_all(d.y);
        static const char *const names[2][3] = {{"aten::mkldnn_convolution", "aten::_slow_conv2d_forward",
                                                 "aten::slow_conv3d_forward"},
                                                {"aten::conv_transpose1d", "aten::slow_conv_transpose2d",
                                                 "aten::slow_conv_transpose3d"}};
        bool unbatched = c.batch == 1 && c.transposed && c.rank == 1; /* a composite takes that too */
        op_new(names[c.transposed][c.rank - 1]);
        in_tensor(0, unbatched ? d.n - 1 : d.n, unbatched ? d.xs + 1 : d.xs);
        in_tensor(1, d.n, d.ws);
        out_tensor(0, unbatched ? d.n - 1 : d.n, unbatched ? d.ys + 1 : d.ys);
        op_proves();
    }
}

/* grad_x: every product again, of the gradient and the weight. grad_w: of the gradient and the input. grad_b:
 * the sum of each channel of the gradient. */
static void backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 4000); i++) {
        drawn d = draw_convolution(i);
        conv c = d.c;
        bool want[3] = {coin(), coin(), coin()};
        rd_all(d.y);
        for (int k = 0; k < 2; k++)
            if (want[k]) conv_products(&c, multiply, c.transposed ? d.x : d.y, d.w, c.transposed ? d.y : d.x);
        if (want[0]) rd_all(d.w), wr_all(cells_of(d.x->n));
        if (want[1]) rd_all(d.x), wr_all(cells_of(d.w->n));
        if (want[2]) wr_all(cells_of(c.oc));
        for (int64_t k = 0; want[2] && k < d.y->n - c.oc; k++) (void)add(1, 1);
        op_new("aten::convolution_backward");
        in_tensor(0, d.n, d.ys);
        in_tensor(1, d.n, d.xs);
        in_tensor(2, d.n, d.ws);
        in_bool(7, c.transposed);
        const int64_t bias[1] = {c.oc};
        const struct {
            int32_t n;
            const int64_t *s;
        } outs[3] = {{d.n, d.xs}, {d.n, d.ws}, {1, bias}};
        for (int32_t k = 0; k < 3; k++) want[k] ? out_tensor(k, outs[k].n, outs[k].s) : out_none(k);
        op_proves();
    }
}

/* Where neither the flag nor the channels tell which way it goes, nothing is claimed. */
static void undecided(void **state) {
    (void)state;
    op_new("aten::convolution");
    in_tensor(0, SIZES(1, 4, 5, 5));
    in_tensor(1, SIZES(4, 4, 3, 3));
    out_tensor(0, SIZES(1, 4, 3, 3));
    op_says(-1, -1, 100 + 144 + 36);
    op_new("aten::convolution");
    in_tensor(0, SIZES(1, 4, 5, 5));
    out_tensor(0, SIZES(1, 4, 3, 3));
    op_says(-1, -1, 136);
    op_new("aten::convolution_backward");
    in_tensor(0, SIZES(1, 4, 5, 5));
    op_says(-1, -1, -1);
}

/* Kernels with another input before the weight, or whose weight is packed. */
static void fused(void **state) {
    (void)state;
    op_new("mkldnn::_convolution_pointwise");
    in_tensor(0, SIZES(1, 4, 5, 5));
    in_tensor(1, SIZES(8, 4, 3, 3));
    in_tensor(2, SIZES(8));
    out_tensor(0, SIZES(1, 8, 3, 3));
    op_says(72 * 36, -1, 100 + 288 + 8 + 72);
    op_new("mkldnn::_convolution_pointwise");
    in_tensor(0, SIZES(1, 4, 5, 5));
    in_tensor(1, SIZES(1, 8, 3, 3));
    in_tensor(2, SIZES(8, 4, 3, 3));
    out_tensor(0, SIZES(1, 8, 3, 3));
    op_says(72 * 36, -1, 100 + 72 + 288 + 72);
    op_new("quantized::linear_dynamic");
    in_tensor(0, SIZES(4, 64));
    out_tensor(0, SIZES(4, 128));
    op_says(4 * 64 * 128, 2 * 4 * 64 * 128, -1);
    op_new("quantized::conv_transpose2d");
    in_tensor(0, SIZES(1, 3, 8, 8));
    out_tensor(0, SIZES(1, 4, 8, 8));
    op_says(-1, -1, 192 + 256);
}

/* sqrt(max(|x|^2 + |y|^2 - 2 x.y, 0)) for all pairs, and distances computed one by one. */
static void distances(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 4), m = pick(1, 4), k = pick(1, 5);
        static const double norms[] = {2, 1, 0, HUGE_VAL, 3};
        int which = (int)pick(-1, 4);
        cells *x = cells_of(n * k), *z = cells_of(m * k), *y = cells_of(n * m);
        for (int64_t r = 0; which < 0 && r < n + m; r++) {
            double acc = 0;
            for (int64_t c = 0; c < k; c++) acc = c ? add(acc, mul(1, 2)) : mul(1, 2);
        }
        for (int64_t p = 0; p < n * m; p++) {
            double acc = 0;
            for (int64_t c = 0; c < k; c++) {
                double a = rd(x, p / m * k + c), b = rd(z, p % m * k + c);
                if (which < 0) {
                    acc = mac(acc, a, b);
                    continue;
                }
                double d = sub(a, b), e = which == 0 ? mul(d, d) : which == 2 ? (double)less(d, 0) : abs1(d);
                if (which == 4) e = pow1(e, 3);
                acc = c == 0 ? e : which == 3 ? max2(acc, e) : add(acc, e);
            }
            if (which < 0) acc = sqrt1(max2(add(add(mul(-2, acc), 1), 1), 0));
            if (which == 0 || which == 4) acc = sqrt1(abs(1));
            wr(y, p, acc);
        }
        op_new(which < 0 ? "aten::_euclidean_dist" : "aten::_cdist_forward");
        in_tensor(0, SIZES(n, k));
        in_tensor(1, SIZES(m, k));
        if (which >= 0) in_float(2, norms[which]);
        out_tensor(0, SIZES(n, m));
        op_proves();
    }
}

/* Of each pair and axis, to one side. */
static void distances_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 500); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(1, 4), m = pick(0, 4), k = pick(1, 4);
        bool squares = coin();
        op_new("aten::_cdist_backward");
        in_tensor(0, SIZES(n, m));
        in_tensor(1, SIZES(n, k));
        in_tensor(2, SIZES(m, k));
        in_float(3, squares ? 2 : 1);
        in_tensor(4, SIZES(n, m));
        out_tensor(0, SIZES(n, k));
        rd_all(cells_of(n * m)), rd_all(cells_of(n * k)), rd_all(cells_of(m * k)), rd_all(cells_of(n * m));
        wr_all(cells_of(n * k));
        for (int64_t p = 0; p < n * m * k; p++) {
            double far = sub(1, 2);
            (void)add(1, squares ? less(0, 3) ? dvd(mul(2, far), 3) : 0 : mul(did(far < 0 ? -1 : 1), 2));
        }
        op_proves();
    }
    op_new("aten::_cdist_backward"); /* another norm */
    in_tensor(0, SIZES(1, 1));
    in_tensor(1, SIZES(1, 2));
    in_tensor(2, SIZES(1, 2));
    in_float(3, 3);
    in_tensor(4, SIZES(1, 1));
    out_tensor(0, SIZES(1, 2));
    op_says(0, -1, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices),        cmocka_unit_test(batches),
        cmocka_unit_test(vectors),         cmocka_unit_test(scaled),
        cmocka_unit_test(grouped_rows),    cmocka_unit_test(grouped_columns),
        cmocka_unit_test(grouped_inside),  cmocka_unit_test(groups_of_unknown_size),
        cmocka_unit_test(complex_numbers), cmocka_unit_test(convolution),
        cmocka_unit_test(kernels),         cmocka_unit_test(backward),
        cmocka_unit_test(undecided),       cmocka_unit_test(fused),
        cmocka_unit_test(distances),       cmocka_unit_test(distances_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
