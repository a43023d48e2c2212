/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for CosineSimilarity and PairwiseDistance, with broadcasting. */
#include "kit/oom.h"

#include "kit/layer_build.h"

/* Two shapes of at most 3 axes that broadcast to `all`; missing axes lie in front. */
typedef struct pair {
    int32_t ndim, na, nb;
    int64_t all[3], a[3], b[3];
    cells *x, *y;
} pair;

static void random_pair(pair *p, bool drops_axes) {
    *p = (pair){.ndim = (int32_t)pick(1, 3)};
    for (int32_t d = 0; d < p->ndim; d++) {
        p->all[d] = pick(1, 4);
        p->a[d] = pick(0, 3) ? p->all[d] : 1;
        p->b[d] = p->a[d] == p->all[d] && pick(0, 3) == 0 ? 1 : p->all[d];
    }
    p->na = p->nb = p->ndim;
    if (drops_axes && p->ndim > 1 && coin()) {
        memmove(p->b, p->b + 1, 2 * sizeof *p->b); /* b has an axis less: the first of a is its own */
        p->nb--;
        p->a[0] = p->all[0];
    }
    p->x = cells_of(elements(p->na, p->a));
    p->y = cells_of(elements(p->nb, p->b));
}

static int64_t broadcast_offset(int32_t n, const int64_t *s, int32_t ndim, const int64_t *at) {
    int64_t own[3];
    for (int32_t d = 0; d < n; d++) own[d] = s[d] == 1 ? 0 : at[ndim - n + d];
    return offset_of(n, s, own);
}

/* The two values that meet at a position of the broadcast shape. */
static double left(const pair *p, const int64_t *at) {
    return rd(p->x, broadcast_offset(p->na, p->a, p->ndim, at));
}
static double right(const pair *p, const int64_t *at) {
    return rd(p->y, broadcast_offset(p->nb, p->b, p->ndim, at));
}

static double cosine(const pair *p, int64_t *at, int32_t axis) {
    double dot = 0, xx = 0, yy = 0;
    for (at[axis] = 0; at[axis] < p->all[axis]; at[axis]++) {
        double x = left(p, at), y = right(p, at);
        double xy = mul(x, y), x2 = mul(x, x), y2 = mul(y, y);
        dot = at[axis] ? add(dot, xy) : xy;
        xx = at[axis] ? add(xx, x2) : x2;
        yy = at[axis] ? add(yy, y2) : y2;
    }
    return dvd(dot, max2(mul(sqrt1(xx), sqrt1(yy)), 1e-8));
}

static double distance(const pair *p, int64_t *at, int32_t axis) {
    double sum = 0;
    for (at[axis] = 0; at[axis] < p->all[axis]; at[axis]++) {
        double power = pow1(abs1(add(sub(left(p, at), right(p, at)), 1e-6)), 3);
        sum = at[axis] ? add(sum, power) : power;
    }
    return pow1(sum, 1.0 / 3);
}

/* Every row along `axis`; the output lacks that axis. */
static void walk(layer *l, pair *p, int32_t axis, double (*row)(const pair *, int64_t *, int32_t),
                 bool keeps) {
    int64_t rest[3], out[3], at[3] = {0}, to = 0;
    int32_t n = 0;
    memcpy(rest, p->all, sizeof rest);
    rest[axis] = 1;
    for (int32_t d = 0; d < p->ndim; d++)
        if (d != axis || keeps) out[n++] = rest[d];
    gives(l, n, out);
    cells *y = cells_of(elements(n, out));
    do {
        int64_t here[3];
        memcpy(here, at, sizeof here);
        wr(y, to++, row(p, here, axis));
    } while (next_at(p->ndim, rest, at));
}

static void cosine_similarity(void **state) {
    (void)state;
    for (int i = 0; more(i, 500); i++) {
        reseed((uint64_t)i);
        layer l;
        pair p;
        random_pair(&p, true);
        int32_t axis = (int32_t)pick(0, p.ndim - 1);
        layer_new(&l, "CosineSimilarity");
        has_int(&l, "dim", coin() ? axis : axis - p.ndim);
        takes(&l, p.na, p.a);
        takes(&l, p.nb, p.b);
        walk(&l, &p, axis, cosine, false);
        proves(&l);
    }
}

static void pairwise_distance(void **state) {
    (void)state;
    for (int i = 0; more(i, 500); i++) {
        reseed((uint64_t)i);
        layer l;
        pair p;
        bool keeps = coin();
        random_pair(&p, true);
        layer_new(&l, "PairwiseDistance");
        if (coin())
            has_float(&l, "norm", 3);
        else
            has_int(&l, "norm", 3);
        has_bool(&l, "keepdim", keeps);
        takes(&l, p.na, p.a);
        takes(&l, p.nb, p.b);
        walk(&l, &p, p.ndim - 1, distance, keeps);
        proves(&l);
    }
}

static void without_a_formula(void **state) {
    (void)state;
    layer l;
    layer_new(&l, "PairwiseDistance");
    has_float(&l, "norm", INFINITY);
    takes(&l, SIZES(2, 3));
    takes(&l, SIZES(2, 3));
    gives(&l, SIZES(2));
    is_unknown(&l, 1 << LAM_FLOPS);
    layer_new(&l, "CosineSimilarity"); /* an axis that is not there */
    has_int(&l, "dim", 5);
    takes(&l, SIZES(2, 3));
    takes(&l, SIZES(2, 3));
    gives(&l, SIZES(2));
    is_unknown(&l, 1 << LAM_FLOPS);
    layer_new(&l, "CosineSimilarity"); /* only one input was seen */
    has_int(&l, "dim", 1);
    takes(&l, SIZES(2, 3));
    gives(&l, SIZES(2));
    is_unknown(&l, 1 << LAM_FLOPS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cosine_similarity),
                                       cmocka_unit_test(pairwise_distance),
                                       cmocka_unit_test(without_a_formula)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
