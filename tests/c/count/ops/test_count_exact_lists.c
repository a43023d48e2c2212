/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for lists of tensors, steps of optimisers, packed recurrences and norms that are told
 * apart by their arguments. */
#include "kit/oom.h"

#include "kit/op_build.h"

enum { RUNS = 500, MOST = 3 };

/* The same shapes for each list of an operator. */
typedef struct list {
    int32_t n, ndim[MOST];
    int64_t sizes[MOST][LAYER_NDIM], numel[MOST];
} list;

static list random_list(void) {
    list l = {.n = (int32_t)pick(0, MOST - 1)};
    for (int32_t i = 0; i < l.n; i++) {
        l.ndim[i] = random_shape(0, 3, l.sizes[i]);
        l.numel[i] = 1;
        for (int32_t k = 0; k < l.ndim[i]; k++) l.numel[i] *= l.sizes[i][k];
    }
    return l;
}

static void push(const list *l, int32_t position) {
    for (int32_t i = 0; i < l->n; i++) in_tensor(position, l->ndim[i], l->sizes[i]);
}
static void push_out(const list *l) {
    for (int32_t i = 0; i < l->n; i++) out_tensor(0, l->ndim[i], l->sizes[i]);
}

/* -- element by element ---------------------------------------------------------------------------------- */

/* x + a*y, the factor only where it is not 1. */
static void added_lists(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        list l = random_list();
        bool inplace = coin(), scaled = coin();
        if (l.n == 0) continue;
        op_new(inplace ? "aten::_foreach_add_" : "aten::_foreach_add");
        push(&l, 0);
        push(&l, 1);
        in_float(2, scaled ? 0.5 : 1);
        if (!inplace) push_out(&l);
        for (int32_t t = 0; t < l.n; t++) {
            cells *x = cells_of(l.numel[t]), *y = cells_of(l.numel[t]);
            cells *z = inplace ? x : cells_of(l.numel[t]);
            for (int64_t k = 0; k < x->n; k++)
                wr(z, k, add(rd(x, k), scaled ? mul(0.5, rd(y, k)) : rd(y, k)));
        }
        op_proves();
    }
}

/* x + a*y/z and x + a*y*z. */
static void products_added(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        list l = random_list();
        bool scaled = coin(), told = !scaled || coin();
        if (l.n == 0) continue;
        op_new(coin() ? "aten::_foreach_addcdiv_" : "aten::_foreach_addcmul_");
        for (int32_t p = 0; p < 3; p++) push(&l, p);
        if (told) in_float(3, scaled ? -0.1 : 1); /* a list of factors, one a tensor, is not told */
        for (int32_t t = 0; t < l.n; t++) {
            cells *x = cells_of(l.numel[t]), *y = cells_of(l.numel[t]), *z = cells_of(l.numel[t]);
            for (int64_t k = 0; k < x->n; k++) {
                double q = dvd(rd(y, k), rd(z, k));
                wr(x, k, add(rd(x, k), scaled ? mul(-0.1, q) : q));
            }
        }
        op_proves();
    }
}

static void moved_lists(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        list l = random_list();
        bool zero = coin();
        op_new(zero ? "aten::_foreach_zero_" : "aten::_foreach_copy_");
        push(&l, 0);
        if (!zero) push(&l, 1);
        for (int32_t t = 0; t < l.n; t++) {
            cells *x = cells_of(l.numel[t]), *y = zero ? NULL : cells_of(l.numel[t]);
            for (int64_t k = 0; k < x->n; k++) wr(x, k, zero ? 0 : rd(y, k));
        }
        op_proves();
    }
}

/* -- norms ----------------------------------------------------------------------------------------------- */

static double power_of(double x, double p) {
    return p == 2 ? mul(x, x) : p == 1 ? abs1(x) : pow1(abs1(x), p);
}

static void norms_of_lists(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        static const double powers[] = {1, 2, 3};
        list l = random_list();
        double p = powers[pick(0, 2)];
        bool root = coin();
        if (l.n == 0) continue;
        op_new(root ? "aten::_foreach_norm" : "aten::_foreach_powsum");
        push(&l, 0);
        in_float(1, p);
        for (int32_t t = 0; t < l.n; t++) {
            cells *x = cells_of(l.numel[t]), *y = cells_of(1);
            double sum = 0;
            for (int64_t k = 0; k < x->n; k++) {
                double term = power_of(rd(x, k), p);
                sum = k ? add(sum, term) : term;
            }
            if (root && p != 1) sum = p == 2 ? sqrt1(sum) : pow1(sum, 1 / p);
            wr(y, 0, sum);
            out_tensor(0, 0, NULL);
        }
        op_proves();
    }
    op_new("aten::linalg__powsum");
    in_tensor(0, 1, (const int64_t[]){5});
    in_int(1, 2);
    out_tensor(0, 0, NULL);
    op_says(0, 9, 6);
    op_new("aten::linalg_vector_norm");
    in_tensor(0, 1, (const int64_t[]){5});
    in_int(1, 2);
    out_tensor(0, 0, NULL);
    op_says(0, 10, 6);
}

static void maxima_of_lists(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        list l = random_list();
        if (l.n == 0) continue;
        op_new("aten::_foreach_max");
        push(&l, 0);
        for (int32_t t = 0; t < l.n; t++) {
            cells *x = cells_of(l.numel[t]), *y = cells_of(1);
            double best = x->n ? rd(x, 0) : 0;
            for (int64_t k = 1; k < x->n; k++) best = max2(best, rd(x, k));
            wr(y, 0, best);
            out_tensor(0, 0, NULL);
        }
        op_proves();
    }
}

static void products_of_lists(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t d[MOST][3];
        int32_t n = (int32_t)pick(1, MOST - 1);
        op_new("aten::_foreach_mm");
        for (int32_t t = 0; t < n; t++)
            for (int k = 0; k < 3; k++) d[t][k] = pick(0, 5);
        for (int32_t t = 0; t < n; t++) in_tensor(0, 2, (const int64_t[]){d[t][0], d[t][1]});
        for (int32_t t = 0; t < n; t++) in_tensor(1, 2, (const int64_t[]){d[t][1], d[t][2]});
        for (int32_t t = 0; t < n; t++) {
            cells *a = cells_of(d[t][0] * d[t][1]), *b = cells_of(d[t][1] * d[t][2]),
                  *y = cells_of(d[t][0] * d[t][2]);
            rd_all(a), rd_all(b);
            for (int64_t r = 0; r < d[t][0]; r++)
                for (int64_t c = 0; c < d[t][2]; c++) {
                    double sum = 0;
                    for (int64_t k = 0; k < d[t][1]; k++)
                        sum = mac(sum, rd(a, r * d[t][1] + k), rd(b, k * d[t][2] + c));
                    wr(y, r * d[t][2] + c, sum);
                }
            out_tensor(0, 2, (const int64_t[]){d[t][0], d[t][2]});
        }
        op_proves();
    }
    op_new("aten::_foreach_mm"); /* lists of different lengths say nothing */
    in_tensor(0, 2, (const int64_t[]){2, 3});
    in_tensor(0, 2, (const int64_t[]){2, 3});
    in_tensor(1, 2, (const int64_t[]){3, 4});
    out_tensor(0, 2, (const int64_t[]){2, 4});
    op_says(-1, -1, 32);
}

/* -- optimisers ------------------------------------------------------------------------------------------ */

/* Of state tensors, those that the step writes. */
static double turned(double g, bool maximize) { return maximize ? neg(g) : g; }

static void adam_element(cells *const t[5], int64_t k, bool w, bool decay, bool amsgrad, bool maximize) {
    double p = rd(t[0], k), g = turned(rd(t[1], k), maximize), m = rd(t[2], k), v = rd(t[3], k);
    if (decay && w) p = mul(p, 0.99);
    if (decay && !w) g = add(g, mul(0.01, p));
    m = add(m, mul(0.1, sub(g, m)));
    v = add(mul(v, 0.999), mul(mul(g, g), 0.001));
    double largest = v;
    if (amsgrad) {
        largest = max2(rd(t[4], k), v);
        wr(t[4], k, largest);
    }
    double under = add(dvd(sqrt1(fabs(largest)), 0.5), 1e-8);
    wr(t[0], k, sub(p, mul(0.001, dvd(m, under))));
    wr(t[2], k, m);
    wr(t[3], k, v);
}

static void adam(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        list l = random_list();
        bool w = coin(), decay = coin(), amsgrad = coin(), maximize = coin();
        op_new(w ? "aten::_fused_adamw_" : "aten::_fused_adam_");
        for (int32_t p = 0; p < 4 + amsgrad; p++) push(&l, p);
        for (int32_t t = 0; t < l.n; t++) in_tensor(5, 0, NULL);
        const double numbers[] = {0.001, 0.9, 0.999, decay ? 0.01 : 0, 1e-8};
        for (int32_t k = 0; k < 5; k++) in_float(6 + k, numbers[k]);
        in_bool(11, amsgrad);
        in_bool(12, maximize);
        for (int32_t t = 0; t < l.n; t++) {
            cells *of[5] = {NULL}, *steps = cells_of(1);
            for (int32_t k = 0; k < 4 + amsgrad; k++) of[k] = cells_of(l.numel[t]);
            rd_all(steps);
            for (int64_t k = 0; k < l.numel[t]; k++) adam_element(of, k, w, decay, amsgrad, maximize);
        }
        op_proves();
    }
}

typedef struct descent {
    bool decay, momentum, damp, nesterov, maximize, first;
} descent;

static void sgd_element(cells *p, cells *g, cells *buf, int64_t k, const descent *d) {
    double x = rd(p, k), by = turned(rd(g, k), d->maximize);
    if (d->decay) by = add(by, mul(0.01, x));
    if (d->momentum) {
        double kept = by;
        if (!d->first) kept = add(mul(0.9, rd(buf, k)), d->damp ? mul(0.5, by) : by);
        wr(buf, k, kept);
        by = d->nesterov ? add(by, mul(0.9, kept)) : kept;
    }
    wr(p, k, sub(x, mul(0.1, by)));
}

static void sgd(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        list l = random_list();
        descent d = {coin(), coin(), coin(), coin(), coin(), coin()};
        op_new("aten::_fused_sgd_");
        for (int32_t p = 0; p < 2 + d.momentum; p++) push(&l, p);
        in_float(3, d.decay ? 0.01 : 0);
        in_float(4, d.momentum ? 0.9 : 0);
        in_float(5, 0.1);
        in_float(6, d.damp ? 0.5 : 0);
        in_bool(7, d.nesterov);
        in_bool(8, d.maximize);
        in_bool(9, d.first);
        for (int32_t t = 0; t < l.n; t++) {
            cells *p = cells_of(l.numel[t]), *g = cells_of(l.numel[t]), *b = cells_of(l.numel[t]);
            for (int64_t k = 0; k < p->n; k++) sgd_element(p, g, b, k, &d);
        }
        op_proves();
    }
    op_new("aten::_fused_sgd_"); /* nothing but the tensors is told */
    in_tensor(0, 1, (const int64_t[]){5});
    op_says(0, -1, -1);
}

static void adagrad(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        list l = random_list();
        bool decay = coin(), maximize = coin();
        op_new("aten::_fused_adagrad_");
        for (int32_t p = 0; p < 3; p++) push(&l, p);
        for (int32_t t = 0; t < l.n; t++) in_tensor(3, 0, NULL);
        in_float(6, decay ? 0.01 : 0);
        in_bool(8, maximize);
        for (int32_t t = 0; t < l.n; t++) {
            cells *p = cells_of(l.numel[t]), *g = cells_of(l.numel[t]), *s = cells_of(l.numel[t]);
            rd_all(cells_of(1));
            for (int64_t k = 0; k < p->n; k++) {
                double x = rd(p, k), by = turned(rd(g, k), maximize);
                if (decay) by = add(by, mul(0.01, x));
                double sum = add(rd(s, k), mul(by, by));
                wr(s, k, sum);
                wr(p, k, sub(x, dvd(mul(0.1, by), add(sqrt1(fabs(sum)), 1e-10))));
            }
        }
        op_proves();
    }
}

/* -- packed weights -------------------------------------------------------------------------------------- */

/* Both products of one step, and the operations of its gates; how many numbers the packed matrices hold is
 * not told. */
static void packed_cells(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t gates, each;
    } cases[] = {{"quantized::quantized_lstm_cell_dynamic", 4, 22},
                 {"quantized::quantized_gru_cell_dynamic", 3, 17},
                 {"quantized::quantized_rnn_tanh_cell_dynamic", 1, 2}};
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int which = (int)pick(0, 2);
        int64_t batch = pick(0, 4), in = pick(1, 6), hidden = pick(1, 6);
        op_new(cases[which].name);
        in_tensor(0, 2, (const int64_t[]){batch, in});
        in_tensor(1, 2, (const int64_t[]){batch, hidden});
        if (which == 0) in_tensor(1, 2, (const int64_t[]){batch, hidden});
        out_tensor(0, 2, (const int64_t[]){batch, hidden});
        wr_all(cells_of(batch * hidden));
        for (int64_t n = 0; n < batch; n++) {
            for (int64_t g = 0; g < cases[which].gates * hidden; g++)
                for (int64_t k = 0; k < in + hidden; k++) (void)mac(0, 1, 2);
            for (int64_t k = 0; k < hidden * cases[which].each; k++) (void)did(0);
        }
        op_proves_but(1 << LAM_DMAS);
    }
}

static void packed_bags(void **state) {
    (void)state;
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int64_t indices = pick(0, 9), bags = pick(1, 4), width = pick(1, 6);
        bool weighted = coin(), pruned = pick(0, 3) == 0;
        op_new("quantized::embedding_bag_byte");
        in_none(0);
        in_tensor(1, 1, &indices);
        in_tensor(2, 1, &bags);
        in_bool(5, pruned);
        if (weighted) in_tensor(6, 1, &indices);
        out_tensor(0, 2, (const int64_t[]){bags, width});
        wr_all(cells_of(bags * width));
        for (int64_t k = 0; k < indices * width; k++) (void)add(0, weighted ? mul(2, 3) : 2);
        op_proves_but(1 << LAM_DMAS | pruned << LAM_FLOPS);
    }
}

/* -- between processes ----------------------------------------------------------------------------------- */

/* What a process takes of a sum: of each of its elements one of every process, added up. */
static void add_part(int64_t n, int64_t processes, bool mean) {
    for (int64_t k = 0; k < n; k++) {
        double sum = 1;
        for (int64_t p = 1; p < processes; p++) sum = add(sum, 1);
        if (mean) (void)dvd(sum, (double)processes);
    }
}

/* What goes out is read, what comes in is written; who adds it up where all take it whole is not told. */
static void communications(void **state) {
    (void)state;
    static const char *const names[] = {"_c10d_functional::all_gather_into_tensor",
                                        "_c10d_functional::all_reduce",
                                        "_c10d_functional::reduce_scatter_tensor"};
    static const char *const how[] = {"sum", "avg", "max", "premul_sum"};
    for (int i = 0; more(i, RUNS); i++) {
        reseed((uint64_t)i);
        int which = (int)pick(0, 2), by = (int)pick(0, 3);
        int64_t n = pick(0, 9), processes = pick(1, 4), few = n, many = n * processes;
        op_new(names[which]);
        if (which) in_text(1, how[by]);
        if (which == 2) add_part(n, processes, by == 1);
        int64_t in = which == 2 ? many : few, out = which == 0 ? many : few;
        in_tensor(0, 1, &in);
        out_tensor(0, 1, &out);
        rd_all(cells_of(in));
        wr_all(cells_of(out));
        op_proves_but(which == 1 || (which == 2 && by == 3) ? 1 << LAM_FLOPS : 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(added_lists),
        cmocka_unit_test(products_added),
        cmocka_unit_test(moved_lists),
        cmocka_unit_test(norms_of_lists),
        cmocka_unit_test(maxima_of_lists),
        cmocka_unit_test(products_of_lists),
        cmocka_unit_test(adam),
        cmocka_unit_test(sgd),
        cmocka_unit_test(adagrad),
        cmocka_unit_test(packed_cells),
        cmocka_unit_test(packed_bags),
        cmocka_unit_test(communications),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
