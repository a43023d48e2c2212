/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for windows and indices, forward and backward. */
#include "kit/oom.h"

#include "kit/op_build.h"

/* -- windows ------------------------------------------------------------------------------------------- */

typedef struct pool {
    int32_t rank;
    bool batched;
    int64_t batch, chan, in[3], out[3], k[3], stride[3], pad[3], dil[3];
} pool;

static void random_pool(pool *p, bool dilates) {
    *p = (pool){.rank = (int32_t)pick(2, 3), .batched = coin(), .chan = pick(1, 2)};
    p->batch = p->batched ? pick(0, 2) : 1;
    for (int32_t i = 0; i < p->rank; i++) {
        p->k[i] = pick(1, 3);
        p->stride[i] = pick(1, 3);
        p->dil[i] = dilates ? pick(1, 2) : 1;
        p->pad[i] = pick(0, p->k[i] / 2);
        int64_t reach = p->dil[i] * (p->k[i] - 1) + 1, least = reach - 2 * p->pad[i];
        p->in[i] = pick(least > 1 ? least : 1, (least > 1 ? least : 1) + 3);
        p->out[i] = (p->in[i] + 2 * p->pad[i] - reach) / p->stride[i] + 1;
    }
}

static int32_t pool_shape(const pool *p, const int64_t *spatial, int64_t *s) {
    int32_t n = 0;
    if (p->batched) s[n++] = p->batch;
    s[n++] = p->chan;
    for (int32_t i = 0; i < p->rank; i++) s[n++] = spatial[i];
    return n;
}

/* Calls `use` for each window with the number of its elements in bounds. */
static void each_window(const pool *p, bool adaptive, void (*use)(int64_t covered)) {
    for (int64_t n = 0; n < p->batch * p->chan; n++) {
        int64_t o[3] = {0};
        do {
            int64_t size[3], t[3] = {0}, at[3], covered = 0;
            for (int32_t d = 0; d < p->rank; d++) {
                int64_t first = o[d] * p->in[d] / p->out[d];
                size[d] = adaptive ? ((o[d] + 1) * p->in[d] + p->out[d] - 1) / p->out[d] - first : p->k[d];
            }
            do {
                for (int32_t d = 0; d < p->rank; d++)
                    at[d] = adaptive ? o[d] * p->in[d] / p->out[d] + t[d]
                                     : o[d] * p->stride[d] - p->pad[d] + t[d] * p->dil[d];
                covered += offset_of(p->rank, p->in, at) >= 0;
            } while (next_at(p->rank, size, t));
            use(covered);
        } while (next_at(p->rank, p->out, o));
    }
}

static void largest(int64_t covered) {
    for (int64_t i = 1; i < covered; i++) (void)max2(1, 2);
}
static void mean(int64_t covered) {
    for (int64_t i = 1; i < covered; i++) (void)add(1, 2);
    (void)dvd(1, 2);
}
static void mean_backward(int64_t covered) {
    (void)dvd(1, 2);
    for (int64_t i = 0; i < covered; i++) (void)add(1, 2);
}

static void pools(void **state) {
    (void)state;
    static const char *const names[4][2] = {{"aten::max_pool2d_with_indices",
                                             "aten::max_pool3d_with_indices"},
                                            {"aten::avg_pool2d", "aten::avg_pool3d"},
                                            {"aten::avg_pool2d_backward", "aten::avg_pool3d_backward"},
                                            {"aten::max_pool2d", "aten::max_pool3d"}};
    for (int i = 0; more(i, 5000); i++) {
        reseed((uint64_t)i);
        pool p;
        int which = (int)pick(0, 3);
        bool max = which == 0 || which == 3, back = which == 2;
        random_pool(&p, max);
        int64_t x[5], y[5];
        int32_t n = pool_shape(&p, p.in, x);
        pool_shape(&p, p.out, y);
        op_new(names[which][p.rank - 2]);
        if (back) in_tensor(0, n, y);
        in_tensor(back, n, x);
        in_ints(back + 1, p.rank, p.k);
        bool as_wide = true; /* an empty list of strides means the window */
        for (int32_t d = 0; d < p.rank; d++) as_wide = as_wide && p.stride[d] == p.k[d];
        in_ints(back + 2, as_wide ? 0 : p.rank, p.stride);
        in_ints(back + 3, p.rank, p.pad);
        if (max) in_ints(4, p.rank, p.dil);
        for (int32_t k = 0; k < 1 + (which == 0); k++) out_tensor(k, n, back ? x : y);
        each_window(&p, false, max ? largest : back ? mean_backward : mean);
        read_cells(elements(n, back ? y : x));
        for (int k = 0; k < 1 + (which == 0); k++) wrote_cells(elements(n, back ? x : y));
        op_proves();
    }
}

static void adaptive_pools(void **state) {
    (void)state;
    static const char *const names[3][2] = {{"aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d"},
                                            {"aten::_adaptive_avg_pool2d_backward",
                                             "aten::_adaptive_avg_pool3d_backward"},
                                            {"aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d"}};
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        pool p;
        int which = (int)pick(0, 2);
        random_pool(&p, false);
        for (int32_t d = 0; d < p.rank; d++) p.out[d] = pick(1, 5);
        int64_t x[5], y[5];
        int32_t n = pool_shape(&p, p.in, x);
        pool_shape(&p, p.out, y);
        op_new(names[which][p.rank - 2]);
        if (which == 1) in_tensor(0, n, y);
        in_tensor(which == 1, n, x);
        out_tensor(0, n, which == 1 ? x : y);
        if (which == 2) out_tensor(1, n, y);
        each_window(&p, true, which == 2 ? largest : which ? mean_backward : mean);
        read_cells(elements(n, which == 1 ? y : x)), wrote_cells(elements(n, which == 1 ? x : y));
        if (which == 2) wrote_cells(elements(n, y));
        op_proves();
    }
}

/* Columns are added to an image that starts at 0: the first that falls on an element costs nothing. */
static void folds(void **state) {
    (void)state;
    for (int i = 0; more(i, 10500); i++) {
        reseed((uint64_t)i);
        pool p;
        do random_pool(&p, true);
        while (p.rank != 2);
        int64_t x[5], columns[3], adds[64] = {0}, o[2] = {0}, t[2], at[2], taps = p.k[0] * p.k[1];
        int32_t n = pool_shape(&p, p.in, x), m = 0;
        if (p.batched) columns[m++] = p.batch;
        columns[m++] = p.chan * taps;
        columns[m++] = p.out[0] * p.out[1];
        op_new("aten::col2im");
        in_tensor(0, m, columns);
        in_ints(1, 2, p.in), in_ints(2, 2, p.k), in_ints(3, 2, p.dil), in_ints(4, 2, p.pad),
            in_ints(5, 2, p.stride);
        out_tensor(0, n, x);
        read_cells(elements(m, columns)), wrote_cells(elements(n, x));
        assert_true(p.in[0] * p.in[1] <= 64);
        do {
            t[0] = t[1] = 0;
            do {
                for (int d = 0; d < 2; d++) at[d] = o[d] * p.stride[d] - p.pad[d] + t[d] * p.dil[d];
                int64_t to = offset_of(2, p.in, at);
                if (to >= 0) adds[to]++;
            } while (next_at(2, p.k, t));
        } while (next_at(2, p.out, o));
        for (int64_t k = 0; k < p.batch * p.chan; k++)
            for (int64_t to = 0; to < p.in[0] * p.in[1]; to++)
                for (int64_t a = 1; a < adds[to]; a++) (void)add(1, 2);
        op_proves();
    }
}

/* Where the window was not told, the layer that made the call says it. */
static void window_of_the_layer(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        layer l;
        int64_t kernel[2] = {3, 3}, stride[2] = {2, 2};
        layer_new(&l, i == 2 ? "MaxPool1d" : "MaxPool2d");
        if (i) {
            has_ints(&l, "kernel_size", 2, kernel);
            has_ints(&l, "stride", 2, stride);
            has_int(&l, "padding", 0);
            has_int(&l, "dilation", 1);
        }
        op_new("aten::max_pool2d_with_indices");
        in_tensor(0, SIZES(1, 2, 7, 7));
        out_tensor(0, SIZES(1, 2, 3, 3));
        int32_t event, op;
        lam_model *m;
        lam_call_info call = {.module = l.module, .parent = -1};
        lam_op_info info = {
            .name = the.name, .parent = -1, .n_in = 1, .n_out = 1, .in = the.in, .out = the.out};
        assert_int_equal(lam_build_call(l.b, &call, &event, NULL), LAM_OK);
        assert_int_equal(lam_build_op(l.b, &info, &op, NULL), LAM_OK);
        assert_int_equal(lam_builder_finish(l.b, &m, NULL), LAM_OK);
        lam_count got[LAM_N_METRICS];
        lmi_count_op(lmi_convention_named("exact", NULL), m, 0, got);
        assert_int_equal(got[LAM_FLOPS].state, i == 1 ? LAM_EXACT : LAM_UNKNOWN);
        if (i == 1) assert_int_equal(got[LAM_FLOPS].n, 18 * 8);
        lam_model_free(m);
    }
}

/* -- indices --------------------------------------------------------------------------------------------- */

static void lookups(void **state) {
    (void)state;
    for (int i = 0; more(i, 3000); i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 5), width = pick(1, 4), n = pick(0, 6);
        int which = (int)pick(0, 3);
        op_new(which == 0   ? "aten::embedding"
               : which == 1 ? "aten::index_select"
               : which == 2 ? "aten::gather"
                            : "aten::index");
        in_tensor(0, SIZES(rows, width));
        if (which == 1 || which == 2) in_int(1, 0);
        int32_t at = which == 1 || which == 2 ? 2 : 1;
        which == 2 ? in_tensor(at, SIZES(n, width)) : in_tensor(at, SIZES(n));
        if (which == 3 && coin()) { /* one index an axis */
            in_tensor(1, SIZES(n));
            out_tensor(0, SIZES(n));
            now.extra_reads += n + n + n; /* both indices, and an element each */
            wrote_cells(n);
        } else {
            out_tensor(0, SIZES(n, width));
            now.extra_reads += which == 2 ? n * width : n;
            for (int64_t k = 0; k < n * width; k++) now.extra_reads++;
            wrote_cells(n * width);
        }
        op_proves();
    }
    op_new("aten::index"); /* the list was not read */
    in_tensor(0, SIZES(4, 3));
    out_tensor(0, SIZES(2, 3));
    op_says(0, 0, -1);
}

static void additions(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t source;
    } all[] = {{"aten::embedding_dense_backward", 0},
               {"aten::scatter_add_", 3},
               {"aten::index_add", 3},
               {"aten::max_pool2d_with_indices_backward", 0},
               {"aten::reflection_pad2d_backward", 0}};
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        size_t which = (size_t)pick(0, 4);
        int64_t n = pick(0, 8), m = pick(1, 8);
        op_new(all[which].name);
        if (all[which].source) in_tensor(0, SIZES(m));
        in_tensor(all[which].source, SIZES(n));
        out_tensor(0, SIZES(m));
        cells *from = cells_of(n), *to = cells_of(m);
        for (int64_t k = 0; k < n; k++) wr(to, k % m, add(to->v[k % m], rd(from, k)));
        wr_all(to);
        if (all[which].source) rd_all(to);
        op_proves();
    }
}

static void puts_one_by_one(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 8), m = pick(1, 8);
        bool adds = coin();
        op_new("aten::put_");
        in_tensor(0, SIZES(m)), read_cells(m);
        in_tensor(1, SIZES(n)), read_cells(n);
        in_tensor(2, SIZES(n)), read_cells(n);
        if (adds || coin()) in_bool(3, adds);
        out_tensor(0, SIZES(m)), wrote_cells(m);
        for (int64_t k = 0; adds && k < n; k++) (void)add(1, 2);
        op_proves();
    }
}

static void bags_backward(void **state) {
    (void)state;
    enum { SUM, MEAN, MAX };
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 6), bags = pick(1, 4), row = pick(1, 4), mode = pick(SUM, MAX);
        bool dense = coin(), weighted = mode == SUM && coin();
        op_new(dense ? "aten::_embedding_bag_dense_backward" : "aten::_embedding_bag_backward");
        in_tensor(0, SIZES(bags, row)), read_cells(bags * row);
        in_tensor(1, SIZES(n)), read_cells(n);
        in_bool(dense ? 6 : 7, false);
        in_int(dense ? 7 : 8, mode);
        if (weighted) in_tensor(dense ? 8 : 10, SIZES(n)), read_cells(n);
        in_int(dense ? 9 : 11, -1);
        out_tensor(0, SIZES(9, row)), wrote_cells(9 * row);
        for (int64_t e = 0; mode != SUM && e < bags * row; e++) (void)(mode == MEAN ? dvd(1, 2) : add(1, 2));
        for (int64_t e = 0; mode != MAX && e < n * row; e++) (void)add(1, weighted ? mul(2, 3) : 2);
        op_proves();
    }
    op_new("aten::_embedding_bag_backward"); /* divided by how often each index occurs */
    in_tensor(0, SIZES(1, 2));
    in_tensor(1, SIZES(3));
    in_bool(7, true);
    in_int(8, SUM);
    out_tensor(0, SIZES(4, 2));
    op_says(0, -1, 2 + 3 + 8);
}

static void weights_of_bags_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t n = pick(0, 6), bags = pick(1, 4), row = pick(1, 4);
        op_new("aten::_embedding_bag_per_sample_weights_backward");
        in_tensor(0, SIZES(bags, row)), read_cells(bags * row);
        in_tensor(1, SIZES(9, row)), read_cells(n * row);
        in_tensor(2, SIZES(n)), read_cells(n);
        in_int(6, -1);
        out_tensor(0, SIZES(n)), wrote_cells(n);
        for (int64_t k = 0; k < n; k++) weigh(row);
        op_proves();
    }
}

static void bags(void **state) {
    (void)state;
    for (int i = 0; more(i, 1000); i++) {
        reseed((uint64_t)i);
        int64_t rows = pick(1, 4), width = pick(1, 4), n = pick(0, 6), bags = pick(1, 4), mode = pick(0, 2);
        bool weighted = mode == 0 && coin();
        op_new("aten::_embedding_bag_forward_only");
        in_tensor(0, SIZES(rows, width));
        in_tensor(1, SIZES(n));
        in_tensor(2, SIZES(bags));
        in_int(4, mode);
        weighted ? in_tensor(6, SIZES(n)) : in_none(6);
        in_int(8, -1);
        out_tensor(0, SIZES(bags, width));
        now.extra_reads += n + n * width + bags + (weighted ? n : 0);
        for (int64_t k = 0; k < n * width; k++) (void)add(weighted ? mul(1, 2) : 1, 1);
        for (int64_t k = 0; mode == 1 && k < bags * width; k++) (void)dvd(1, 2);
        wrote_cells(bags * width);
        op_proves();
    }
}

/* What only moves elements, or none. */
static void moves(void **state) {
    (void)state;
    op_new("aten::view");
    in_tensor(0, SIZES(2, 3));
    out_tensor(0, SIZES(6));
    op_says(0, 0, 0);
    op_new("aten::zeros");
    out_tensor(0, SIZES(2, 3));
    op_says(0, 0, 6);
    op_new("aten::copy_");
    in_tensor(0, SIZES(2, 3));
    in_tensor(1, SIZES(3));
    out_tensor(0, SIZES(2, 3));
    op_says(0, 0, 3 + 6);
    op_new("aten::cat");
    out_tensor(0, SIZES(4, 3));
    op_says(0, 0, 24);
    op_new("aten::constant_pad_nd");
    in_tensor(0, SIZES(2, 3));
    out_tensor(0, SIZES(4, 5));
    op_says(0, 0, 26);
    op_new("aten::_local_scalar_dense");
    in_tensor(0, 0, NULL);
    op_says(0, 0, 1);
    op_new("aten::index_put_");
    in_tensor(0, SIZES(5, 3));
    in_tensor(1, SIZES(2));
    in_tensor(2, SIZES(2, 3));
    in_bool(3, true);
    out_tensor(0, SIZES(5, 3));
    op_says(0, 6, 2 + 3 * 6);
    op_new("aten::unique_dim");
    in_tensor(0, SIZES(5));
    out_tensor(0, SIZES(5));
    out_tensor(1, SIZES(5));
    op_says(0, -1, 15);
    op_new("aten::_compute_linear_combination");
    in_tensor(0, SIZES(3, 3));
    out_tensor(0, SIZES(3, 3));
    out_tensor(1, SIZES(3, 3));
    op_says(-1, -1, 27);
}

/* The tensor that takes the result is written and not read. */
static void results_given(void **state) {
    (void)state;
    op_new("aten::add");
    in_tensor(0, SIZES(2, 3));
    in_tensor(1, SIZES(2, 3));
    in_int(2, 1);
    in_tensor(3, SIZES(2, 3));
    out_tensor(0, SIZES(2, 3));
    op_says(0, 6, 24);
    the.out[0].storage = the.in[3].storage;
    op_says(0, 6, 18);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools),         cmocka_unit_test(adaptive_pools),
        cmocka_unit_test(folds),         cmocka_unit_test(window_of_the_layer),
        cmocka_unit_test(lookups),       cmocka_unit_test(additions),
        cmocka_unit_test(bags),          cmocka_unit_test(puts_one_by_one),
        cmocka_unit_test(bags_backward), cmocka_unit_test(weights_of_bags_backward),
        cmocka_unit_test(moves),         cmocka_unit_test(results_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
