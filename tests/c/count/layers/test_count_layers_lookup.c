/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for Embedding and EmbeddingBag. A row is read anew for every index. */
#include "kit/oom.h"

#include "kit/layer_build.h"

/* Element d of row r; counted each time, since whether two indices are equal is not known. */
static double row_element(const cells *table, int64_t r, int64_t width, int64_t d) {
    now.extra_reads++;
    return table->v[r * width + d];
}

/* An index that lies in the table. */
static int64_t index_at(cells *x, int64_t i, int64_t rows) { return (int64_t)fabs(rd(x, i) * 1000) % rows; }

static void embedding(void **state) {
    (void)state;
    for (int i = 0; more(i, 300); i++) {
        reseed((uint64_t)i);
        layer l;
        int64_t rows = pick(1, 6), width = pick(1, 5), s[LAYER_NDIM];
        int32_t ndim = (int32_t)pick(0, 3);
        for (int32_t d = 0; d < ndim; d++) s[d] = pick(0, 4);
        layer_new(&l, "Embedding");
        has_int(&l, "num_embeddings", rows);
        has_int(&l, "embedding_dim", width);
        has_none(&l, "max_norm");
        has_param(&l, "weight", SIZES(rows, width));
        takes(&l, ndim, s);
        cells *x = cells_of(elements(ndim, s)), *table = cells_of(rows * width), *y = cells_of(x->n * width);
        s[ndim] = width;
        gives(&l, ndim + 1, s);
        for (int64_t k = 0; k < x->n; k++) {
            int64_t r = index_at(x, k, rows);
            for (int64_t d = 0; d < width; d++) wr(y, k * width + d, row_element(table, r, width, d));
        }
        proves(&l);
    }
}

typedef struct bags {
    int64_t n, rows, width, first[8]; /* bag b holds indices first[b] .. first[b + 1] - 1 */
    bool offsets, last, weighted;
    char mode; /* 's'um, 'm'ean, 'x' largest */
} bags;

static void bag(const bags *g, int64_t b, cells *x, cells *weights, const cells *table, cells *y) {
    for (int64_t d = 0; d < g->width; d++) {
        double acc = g->mode == 'x' ? -INFINITY : 0;
        for (int64_t k = g->first[b]; k < g->first[b + 1]; k++) {
            double v = row_element(table, index_at(x, k, g->rows), g->width, d);
            if (weights) v = mul(v, rd(weights, k));
            acc = g->mode == 'x' ? max2(acc, v) : add(acc, v);
        }
        if (g->mode == 'm') acc = dvd(acc, (double)(g->first[b + 1] - g->first[b]));
        wr(y, b * g->width + d, acc);
    }
}

static void random_bags(bags *g) {
    static const char modes[] = {'s', 'm', 'x'};
    *g = (bags){.n = pick(1, 6),
                .rows = pick(1, 6),
                .width = pick(1, 4),
                .offsets = coin(),
                .mode = modes[pick(0, 2)]};
    int64_t each = pick(1, 4);
    g->last = g->offsets && coin();
    g->weighted = g->mode == 's' && coin();
    for (int64_t b = 0; b < g->n; b++) g->first[b + 1] = g->first[b] + (g->offsets ? pick(0, 3) : each);
}

static void embedding_bag(void **state) {
    (void)state;
    for (int i = 0; more(i, 600); i++) {
        reseed((uint64_t)i);
        layer l;
        bags g;
        random_bags(&g);
        int64_t total = g.first[g.n];
        layer_new(&l, "EmbeddingBag");
        has_int(&l, "num_embeddings", g.rows);
        has_int(&l, "embedding_dim", g.width);
        has_none(&l, "max_norm");
        has_none(&l, "padding_idx");
        has_text(&l, "mode", g.mode == 's' ? "sum" : g.mode == 'm' ? "mean" : "max");
        has_bool(&l, "include_last_offset", g.last);
        has_param(&l, "weight", SIZES(g.rows, g.width));
        if (g.offsets)
            takes(&l, SIZES(total));
        else
            takes(&l, SIZES(g.n, total / g.n));
        cells *x = cells_of(total), *weights = NULL;
        if (g.offsets) {
            takes(&l, SIZES(g.n + g.last));
            rd_all(cells_of(g.n + g.last));
        }
        if (g.weighted) {
            weights = cells_of(total);
            takes_named(&l, "per_sample_weights", SIZES(total));
        }
        gives(&l, SIZES(g.n, g.width));
        cells *table = cells_of(g.rows * g.width), *y = cells_of(g.n * g.width);
        for (int64_t b = 0; b < g.n; b++) bag(&g, b, x, weights, table, y);
        proves(&l);
    }
}

/* Shortening rows and leaving an index out depend on values. */
static void depends_on_values(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        layer l;
        layer_new(&l, which ? "EmbeddingBag" : "Embedding");
        has_int(&l, "embedding_dim", 3);
        if (which < 2) has_float(&l, "max_norm", 1.0);
        if (which == 2) has_int(&l, "padding_idx", 0);
        has_text(&l, "mode", "sum");
        takes(&l, SIZES(2, 2));
        gives(&l, SIZES(2, 3));
        is_unknown(&l, 1 << LAM_FLOPS | 1 << LAM_DMAS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(embedding), cmocka_unit_test(embedding_bag),
                                       cmocka_unit_test(depends_on_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
