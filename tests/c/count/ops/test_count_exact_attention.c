/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `exact` for attention, forward and backward. */
#include "kit/oom.h"

#include "kit/op_build.h"

/* -- attention ----------------------------------------------------------------------------------------- */

enum { MOST_MASK = 2 * 4 * 4 * 4 };

/* Of one query head: b sequences, h heads, of which `kv` heads share keys and values. */
typedef struct attention {
    int64_t b, h, kv, lq, lk, d, dv;
    bool mask, causal;
    int64_t low, high; /* query i sees keys i + low to i + high; and if causal none after it */
    /* of the mask: its last so many axes of (b, h, lq, lk), each whole or 1; what lets scores count; whether
     * that was read */
    int32_t mask_ndim;
    int64_t mask_sizes[4];
    bool open[MOST_MASK], read;
    bool capped, padded; /* scores are kept below a limit; a second mask is added to them */
} attention;

static void random_mask(attention *a) {
    const int64_t whole[] = {a->b, a->h, a->lq, a->lk};
    int64_t some = pick(0, 3); /* 0: nothing is open */
    a->read = pick(0, 3) > 0;
    a->mask_ndim = (int32_t)pick(1, 4);
    for (int32_t i = 0; i < 4; i++) a->mask_sizes[i] = i >= 4 - a->mask_ndim && pick(0, 3) ? whole[i] : 1;
    for (int i = 0; i < MOST_MASK; i++) a->open[i] = pick(1, 3) <= some;
}

static int64_t mask_cells(const attention *a) {
    const int64_t *m = a->mask_sizes;
    return m[0] * m[1] * m[2] * m[3];
}

/* The cell of the mask that is added to a score. */
static int64_t mask_at(const attention *a, int64_t head, int64_t i, int64_t j) {
    const int64_t at[] = {head / a->h, head % a->h, i, j};
    int64_t cell = 0;
    for (int32_t k = 0; k < 4; k++) cell = cell * a->mask_sizes[k] + (a->mask_sizes[k] > 1 ? at[k] : 0);
    return cell;
}

/* As a source tells the mask: counted one by one. */
static void in_mask(const attention *a, int32_t position) {
    int64_t n = mask_cells(a), wide = a->mask_sizes[3];
    if (!a->mask) {
        in_none(position);
        return;
    }
    in_tensor(position, a->mask_ndim, a->mask_sizes + 4 - a->mask_ndim);
    lam_op_arg *to = &the.in[the.n_in - 1];
    to->masks = a->read;
    for (int64_t row = 0; a->read && n && row < n / wide; row++) {
        bool any = false;
        for (int64_t j = 0; j < wide; j++) {
            to->open += a->open[row * wide + j];
            any = any || a->open[row * wide + j];
        }
        to->open_rows += any;
    }
}

/* The metrics that are not known. */
static int untold(const attention *a) {
    return a->mask && !a->read ? 1 << LAM_EFFECTIVE_MACS | 1 << LAM_EFFECTIVE_FLOPS : 0;
}

static void random_attention(attention *a) {
    *a = (attention){.b = pick(0, 12) == 0 ? 0 : pick(1, 2),
                     .kv = pick(1, 2),
                     .lq = pick(1, 4),
                     .lk = pick(1, 4)};
    a->h = a->kv * pick(1, 2);
    a->d = pick(1, 4);
    a->dv = pick(1, 4);
    a->mask = coin();
    a->causal = !a->mask && a->d % 2;
    random_mask(a);
    a->low = -100;
    a->high = 100;
}

/* What does not count is idle. */
static void look(const attention *a, int64_t head, int64_t i, int64_t j) {
    now.idle = (a->causal && j > i) || j - i < a->low || j - i > a->high ||
               (a->mask && !a->open[mask_at(a, head, i, j)]);
}

/* The first weight that counts is where a sum begins. */
static double sum_up(double sum, double weight, int64_t j, bool *begun) {
    bool counts = !now.idle;
    if (!*begun) now.idle = true;
    *begun = *begun || counts;
    return j ? add(sum, weight) : weight;
}

/* The tensors of an attention; a head reads the keys and values of its group. */
typedef struct tensors {
    cells *q, *k, *v, *mask;
} tensors;

static tensors make(const attention *a) {
    tensors t = {cells_of(a->b * a->h * a->lq * a->d), cells_of(a->b * a->kv * a->lk * a->d),
                 cells_of(a->b * a->kv * a->lk * a->dv), a->mask ? cells_of(mask_cells(a)) : NULL};
    rd_all(t.q);
    rd_all(t.k);
    rd_all(t.v);
    if (t.mask) rd_all(t.mask);
    return t;
}

static int64_t group(const attention *a, int64_t head) {
    return head / a->h * a->kv + head % a->h / (a->h / a->kv);
}

/* The score of query i and key j: a dot product, scaled and masked. */
static double score(const attention *a, const tensors *t, int64_t head, int64_t i, int64_t j) {
    double s = 0;
    for (int64_t c = 0; c < a->d; c++)
        s = mac(s, rd(t->q, (head * a->lq + i) * a->d + c),
                rd(t->k, (group(a, head) * a->lk + j) * a->d + c));
    s = mul(s, 0.5);
    if (a->capped) s = mul(exp1(dvd(s, 2)), 2); /* a library function, as tanh is */
    if (a->padded) s = add(s, 1);
    return a->mask ? add(s, rd(t->mask, mask_at(a, head, i, j))) : s;
}

static void forward_walk(const attention *a, const tensors *t, cells *y) {
    for (int64_t head = 0; head < a->b * a->h; head++)
        for (int64_t i = 0; i < a->lq; i++) {
            double w[8], sum = 0;
            bool begun = false;
            for (int64_t j = 0; j < a->lk; j++) {
                look(a, head, i, j);
                w[j] = exp1(score(a, t, head, i, j));
                sum = sum_up(sum, w[j], j, &begun);
            }
            for (int64_t j = 0; j < a->lk; j++) {
                look(a, head, i, j);
                w[j] = dvd(w[j], sum);
            }
            for (int64_t c = 0; c < a->dv; c++) {
                double acc = 0;
                for (int64_t j = 0; j < a->lk; j++) {
                    look(a, head, i, j);
                    acc = mac(acc, w[j], rd(t->v, (group(a, head) * a->lk + j) * a->dv + c));
                }
                now.idle = false;
                wr(y, (head * a->lq + i) * a->dv + c, acc);
            }
        }
}

static void inputs(const attention *a, int32_t first, int32_t mask) {
    in_tensor(first, SIZES(a->b, a->h, a->lq, a->d));
    in_tensor(first + 1, SIZES(a->b, a->kv, a->lk, a->d));
    in_tensor(first + 2, SIZES(a->b, a->kv, a->lk, a->dv));
    in_mask(a, mask);
}

static void attend(void **state) {
    (void)state;
    for (int i = 0; more(i, 6000); i++) {
        reseed((uint64_t)i);
        attention a;
        random_attention(&a);
        bool cpu = coin();
        op_new(cpu ? "aten::_scaled_dot_product_flash_attention_for_cpu"
                   : "aten::_scaled_dot_product_efficient_attention");
        tensors t = make(&a);
        cells *y = cells_of(a.b * a.h * a.lq * a.dv);
        inputs(&a, 0, cpu ? 5 : 3);
        out_tensor(0, SIZES(a.b, a.h, a.lq, a.dv));
        in_bool(cpu ? 4 : 6, a.causal);
        forward_walk(&a, &t, y);
        op_proves_but(untold(&a));
    }
}

static void nones(int32_t from, int32_t to) {
    for (int32_t i = from; i < to; i++) in_none(i);
}

/* One of (sequences, positions, heads, width) each; what lies between the arguments that count is None. */
static void rows(const attention *a, int32_t first) {
    in_tensor(first, SIZES(a->b, a->lq, a->h, a->d));
    in_tensor(first + 1, SIZES(a->b, a->lk, a->kv, a->d));
    in_tensor(first + 2, SIZES(a->b, a->lk, a->kv, a->dv));
}

/* A window is told by how many keys before and after it has, from the query that stands at the last key. */
static void random_window(attention *a, int64_t *left, int64_t *right, bool *causal) {
    random_attention(a);
    int64_t shift = a->lk - a->lq;
    *left = pick(-1, 3);
    *right = pick(-1, 3);
    *causal = coin();
    a->mask = a->causal = false;
    if (*left >= 0) a->low = shift - *left;
    if (*right >= 0) a->high = shift + *right;
    if (*causal) a->high = shift;
}

static void in_window(int32_t at, int64_t left, int64_t right) {
    if (left < 0)
        in_none(at);
    else
        in_int(at, left);
    in_int(at + 1, right);
}

static void flash(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        attention a;
        int64_t left, right;
        bool causal;
        random_window(&a, &left, &right, &causal);
        op_new("aten::_flash_attention_forward");
        tensors t = make(&a);
        cells *y = cells_of(a.b * a.h * a.lq * a.dv);
        rows(&a, 0);
        nones(3, 5);
        in_int(5, a.lq);
        in_int(6, a.lk);
        in_float(7, 0);
        in_bool(8, causal);
        in_bool(9, false);
        in_window(11, left, right);
        out_tensor(0, SIZES(a.b, a.lq, a.h, a.dv));
        forward_walk(&a, &t, y);
        op_proves();
    }
}

static void efficient(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        attention a;
        random_attention(&a);
        int64_t type = a.mask ? 0 : pick(0, 2);
        a.causal = false;
        if (type) a.high = type == 1 ? 0 : a.lk - a.lq;
        op_new("aten::_efficient_attention_forward");
        tensors t = make(&a);
        cells *y = cells_of(a.b * a.h * a.lq * a.dv);
        rows(&a, 0);
        in_mask(&a, 3);
        nones(4, 8);
        in_float(8, 0);
        in_int(9, type);
        out_tensor(0, SIZES(a.b, a.lq, a.h, a.dv));
        forward_walk(&a, &t, y);
        op_proves_but(untold(&a));
    }
}

/* Sequences of different lengths, pages and slopes: what shapes do not tell is not told. */
static void lengths_are_values(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int32_t at; /* of the tensor that tells more */
        bool macs;  /* they are known all the same */
    } cases[] = {{"aten::_flash_attention_forward", 3, false},
                 {"aten::_flash_attention_forward", 13, false},
                 {"aten::_flash_attention_forward", 14, true},
                 {"aten::_flash_attention_forward", 15, false},
                 {"aten::_efficient_attention_forward", 4, false},
                 {"aten::_efficient_attention_forward", 12, false},
                 {"aten::_cudnn_attention_forward", 4, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        op_new(cases[i].name);
        for (int32_t k = 0; k < 3; k++) in_tensor(k, SIZES(2, 5, 3, 4));
        in_tensor(cases[i].at, SIZES(3));
        out_tensor(0, SIZES(2, 5, 3, 4));
        op_says(cases[i].macs ? 2 * 3 * 25 * 8 : -1, -1, 4 * 120 + 3);
    }
    /* A causal flag before windows: which end it is at is not told, and matters where there are more keys. */
    for (int64_t keys = 2; keys < 6; keys++) {
        op_new("aten::_flash_attention_forward");
        in_tensor(0, SIZES(1, 2, 1, 4));
        for (int32_t k = 1; k < 3; k++) in_tensor(k, SIZES(1, keys, 1, 4));
        in_bool(8, true);
        out_tensor(0, SIZES(1, 2, 1, 4));
        lam_count got[LAM_N_METRICS];
        op_counts(got);
        op_same(LAM_MACS, got[LAM_MACS], 2 * keys * 8);
        if (keys == 2)
            op_same(LAM_EFFECTIVE_MACS, got[LAM_EFFECTIVE_MACS], 3 * 8);
        else
            assert_int_equal(got[LAM_EFFECTIVE_MACS].state, LAM_UNKNOWN);
    }
}

/* With P the weights: dV = P^T dO, dP = dO V^T, dS = P * (dP - sum dO*O), dQ = dS K / sqrt(d) and dK = dS^T Q
 * / sqrt(d); P comes from the scores, computed again, and from the logsumexp that the forward kept. */
static void backward_walk(const attention *a, const tensors *t, cells *go, cells *o, cells *lse) {
    for (int64_t head = 0; head < a->b * a->h; head++)
        for (int64_t i = 0; i < a->lq; i++) {
            double delta = 0;
            int64_t row = head * a->lq + i;
            for (int64_t c = 0; c < a->dv; c++) {
                double p = mul(rd(go, row * a->dv + c), rd(o, row * a->dv + c));
                delta = c ? add(delta, p) : p;
            }
            for (int64_t j = 0; j < a->lk; j++) {
                look(a, head, i, j);
                double p = exp1(sub(score(a, t, head, i, j), rd(lse, row))), dp = 0, acc = 0;
                for (int64_t c = 0; c < a->dv; c++)
                    dp = mac(dp, rd(go, row * a->dv + c), rd(t->v, (group(a, head) * a->lk + j) * a->dv + c));
                for (int64_t c = 0; c < a->dv; c++) acc = mac(acc, p, 1); /* into dV */
                double ds = mul(mul(p, sub(dp, delta)), 0.5);
                for (int64_t c = 0; c < 2 * a->d; c++) acc = mac(acc, ds, 1); /* into dQ and dK */
            }
            now.idle = false;
        }
}

static void attend_backward(void **state) {
    (void)state;
    for (int i = 0; more(i, 4000); i++) {
        reseed((uint64_t)i);
        attention a;
        random_attention(&a);
        op_new("aten::_scaled_dot_product_flash_attention_for_cpu_backward");
        tensors t = make(&a);
        int64_t outs = a.b * a.h * a.lq * a.dv;
        cells *go = cells_of(outs), *o = cells_of(outs), *lse = cells_of(a.b * a.h * a.lq);
        rd_all(go);
        rd_all(o);
        rd_all(lse);
        backward_walk(&a, &t, go, o, lse);
        in_tensor(0, SIZES(a.b, a.h, a.lq, a.dv));
        inputs(&a, 1, 8);
        in_bool(7, a.causal);
        in_tensor(4, SIZES(a.b, a.h, a.lq, a.dv));
        in_tensor(5, SIZES(a.b, a.h, a.lq));
        out_tensor(0, SIZES(a.b, a.h, a.lq, a.d));
        out_tensor(1, SIZES(a.b, a.kv, a.lk, a.d));
        out_tensor(2, SIZES(a.b, a.kv, a.lk, a.dv));
        wr_all(cells_of(t.q->n));
        wr_all(cells_of(t.k->n));
        wr_all(cells_of(t.v->n));
        op_proves_but(untold(&a));
    }
}

static void backward_of_rows(void **state) {
    (void)state;
    for (int i = 0; more(i, 20000); i++) {
        reseed((uint64_t)i);
        attention a;
        int64_t left = -1, right = -1, type = 0;
        bool causal = false, by_window = i % 2;
        if (by_window) {
            random_window(&a, &left, &right, &causal);
        } else {
            random_attention(&a);
            a.causal = false;
            type = a.mask ? 0 : pick(0, 2);
            if (type) a.high = type == 1 ? 0 : a.lk - a.lq;
        }
        op_new(by_window ? "aten::_flash_attention_backward" : "aten::_efficient_attention_backward");
        tensors t = make(&a);
        int64_t outs = a.b * a.h * a.lq * a.dv;
        cells *go = cells_of(outs), *o = cells_of(outs), *lse = cells_of(a.b * a.h * a.lq);
        rd_all(go);
        rd_all(o);
        rd_all(lse);
        backward_walk(&a, &t, go, o, lse);
        in_tensor(0, SIZES(a.b, a.lq, a.h, a.dv));
        rows(&a, 1);
        if (!by_window) in_mask(&a, 4);
        in_tensor(by_window ? 4 : 5, SIZES(a.b, a.lq, a.h, a.dv));
        in_tensor(by_window ? 5 : 10, SIZES(a.b, a.h, a.lq));
        if (by_window) {
            nones(6, 8);
            in_bool(11, causal);
            in_window(15, left, right);
        } else {
            in_int(14, type);
        }
        out_tensor(0, SIZES(a.b, a.lq, a.h, a.d));
        out_tensor(1, SIZES(a.b, a.lk, a.kv, a.d));
        out_tensor(2, SIZES(a.b, a.lk, a.kv, a.dv));
        wr_all(cells_of(t.q->n));
        wr_all(cells_of(t.k->n));
        wr_all(cells_of(t.v->n));
        op_proves_but(untold(&a));
    }
}

/* A mask beside what leaves out something as well, or of a shape that it can't have: nothing is known. */
static void masks_that_do_not_tell(void **state) {
    (void)state;
    static const struct {
        int64_t sizes[4];
        int32_t ndim;
        bool causal, told;
    } cases[] = {{{3, 3}, 2, false, true},     {{3, 3}, 2, true, false},        {{2, 3}, 2, false, false},
                 {{2, 3, 3}, 3, false, false}, {{1, 2, 1, 3}, 4, false, false}, {{1, 1, 3}, 3, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lam_count got[LAM_N_METRICS];
        op_new("aten::scaled_dot_product_attention");
        for (int32_t k = 0; k < 3; k++) in_tensor(k, SIZES(5, 3, 4));
        in_tensor(3, cases[i].ndim, cases[i].sizes);
        the.in[3].masks = true;
        the.in[3].open = the.in[3].open_rows = 1;
        in_bool(5, cases[i].causal);
        out_tensor(0, SIZES(5, 3, 4));
        op_counts(got);
        op_same(LAM_MACS, got[LAM_MACS], 5 * 9 * 8);
        assert_int_equal(got[LAM_EFFECTIVE_MACS].state, cases[i].told ? LAM_EXACT : LAM_UNKNOWN);
        if (cases[i].told) op_same(LAM_EFFECTIVE_MACS, got[LAM_EFFECTIVE_MACS], 5 * 8 * (i ? 3 : 1));
    }
}

/* cuDNN's have heads before positions, as torch's own have. */
static void cudnn(void **state) {
    (void)state;
    for (int i = 0; more(i, 2000); i++) {
        reseed((uint64_t)i);
        attention a;
        random_attention(&a);
        op_new("aten::_cudnn_attention_forward");
        tensors t = make(&a);
        cells *y = cells_of(a.b * a.h * a.lq * a.dv);
        inputs(&a, 0, 3);
        in_bool(10, a.causal);
        out_tensor(0, SIZES(a.b, a.h, a.lq, a.dv));
        forward_walk(&a, &t, y);
        op_proves_but(untold(&a));
    }
}

/* -- what is fused into an attention ----------------------------------------------------------------------
 */

/* So many operations on each of n elements. */
static void each_of(int64_t n, int64_t operations) {
    for (int64_t i = 0; i < n * operations; i++) (void)mul(1, 2);
}

/* A product of x, (rows, wide), with a matrix, which a bias begins. */
static void projection(int64_t rows, int64_t wide, int64_t out) {
    for (int64_t i = 0; i < rows * out; i++) {
        double sum = 1;
        for (int64_t k = 0; k < wide; k++) sum = mac(sum, 1, 2);
    }
}

static void with_weights(const attention *a, bool *projects) {
    const int64_t wide = pick(1, 3), out = pick(1, 4);
    *projects = coin();
    if (!*projects) return;
    in_whole(11, SIZES(a->b, a->lq, wide));
    in_whole(12, SIZES(wide, out));
    projection(a->b * a->lq, wide, out);
}

/* Biases, a rotation, norms of heads, and a weight of each head that goes to no key. */
static void with_more(const attention *a, int64_t past, bool projects) {
    const int64_t q = a->b * a->lq * a->h * a->d, fresh = a->b * (a->lk - past) * a->kv;
    const int64_t turned = pick(0, a->d);
    in_int(9, turned);
    for (int64_t i = 0; i < (q + fresh * a->d) / a->d * turned; i++) (void)add(mul(1, 2), mul(1, 2));
    if (a->capped) in_bool(10, true);
    if (coin()) {
        in_whole(13, SIZES(5));
        if (!projects) each_of(q + fresh * (a->d + a->dv), 1);
    }
    if (coin()) {
        in_bool(14, true);
        for (int64_t i = 0; i < a->b * a->h * a->lq; i++) (void)add(exp1(1), 1);
    }
    if (coin()) {
        in_whole(15, SIZES(a->d));
        for (int64_t row = 0; row < (q + fresh * a->d) / a->d; row++) {
            double sum = 0; /* x / sqrt(eps + mean(x^2)) * w */
            for (int64_t i = 0; i < a->d; i++) sum = i ? add(sum, mul(1, 2)) : mul(1, 2);
            each_of(1, 3);
            each_of(a->d, 2);
        }
    }
}

/* A cache: the first query stands behind `past` keys. */
static void fused(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        attention a;
        random_attention(&a);
        const int64_t past = pick(0, a.lk), left = pick(-1, 3), right = pick(-1, 3);
        bool causal = coin(), projects;
        a.mask = pick(0, 3) == 0;
        a.causal = a.read = false;
        a.capped = coin();
        a.padded = pick(0, 3) == 0;
        if (left >= 0) a.low = past - left;
        if (right >= 0) a.high = past + right;
        if (causal) a.high = past;
        op_new("com.microsoft::GroupQueryAttention");
        tensors t = make(&a);
        cells *y = cells_of(a.b * a.h * a.lq * a.dv);
        in_ints(0, SIZES(a.b, a.lq, a.h, a.d));
        in_ints(1, SIZES(a.b, a.lk, a.kv, a.d));
        in_ints(2, SIZES(a.b, a.lk, a.kv, a.dv));
        in_mask(&a, 3);
        if (a.padded) in_whole(4, SIZES(a.b, a.lk));
        in_bool(5, causal);
        in_window(6, left, right);
        in_int(8, past);
        with_weights(&a, &projects);
        with_more(&a, past, projects);
        rows(&a, 16);
        out_tensor(0, SIZES(a.b, a.lq, a.h, a.dv));
        forward_walk(&a, &t, y);
        op_proves_but(a.mask || a.padded ? 1 << LAM_EFFECTIVE_MACS | 1 << LAM_EFFECTIVE_FLOPS : 0);
    }
}

/* How long a sequence is depends on values, or the number of earlier positions is not known. */
static void fused_without_sizes(void **state) {
    (void)state;
    lam_count got[LAM_N_METRICS];
    for (int unknown = 0; unknown < 4; unknown++) {
        op_new("com.microsoft::MultiHeadAttention");
        for (int32_t k = 0; k < (unknown == 1 ? 2 : 3); k++) in_ints(k, SIZES(2, 5, 3, 4));
        if (unknown == 0)
            in_none(5);
        else
            in_bool(5, false);
        if (unknown == 2) in_int(8, 6);
        if (unknown == 3) in_none(9);
        in_tensor(16, SIZES(2, 5, 12));
        out_tensor(0, SIZES(2, 5, 12));
        op_counts(got);
        const bool macs = unknown == 0 || unknown == 3;
        assert_int_equal(got[LAM_MACS].state, macs ? LAM_EXACT : LAM_UNKNOWN);
        assert_int_equal(got[LAM_EFFECTIVE_MACS].state, unknown == 3 ? LAM_EXACT : LAM_UNKNOWN);
        if (macs) op_same(LAM_MACS, got[LAM_MACS], 2 * 3 * 25 * 8);
    }
}

static void rotation(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        const int64_t b = pick(0, 3), lq = pick(1, 3), h = pick(1, 3), d = 2 * pick(1, 4),
                      turned = 2 * pick(0, d / 2);
        op_new(coin() ? "onnx::RotaryEmbedding.node" : "com.microsoft::RotaryEmbedding");
        in_whole(0, SIZES(b, lq, h, d));
        in_int(1, turned);
        in_whole(16, SIZES(lq, d / 2));
        in_whole(17, SIZES(lq, d / 2));
        out_whole(0, SIZES(b, lq, h, d));
        for (int64_t k = 0; k < b * lq * h * turned; k++) (void)add(mul(1, 2), mul(1, 2));
        op_proves();
    }
    op_new("onnx::RotaryEmbedding.node");
    in_tensor(0, SIZES(2, 3, 4));
    out_tensor(0, SIZES(2, 3, 4));
    op_says(0, -1, 48);
}

static void experts(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        const int64_t n = pick(0, 4), wide = pick(1, 3), inner = pick(1, 3), chosen = pick(1, 3),
                      gate = pick(0, 1);
        op_new(coin() ? "com.microsoft::MoE" : "com.microsoft::QMoE");
        in_tensor(0, SIZES(n, wide));
        in_int(1, chosen);
        in_ints(2, 3, (const int64_t[]){inner * wide, wide * inner, gate * inner * wide});
        out_tensor(0, SIZES(n, wide));
        for (int64_t row = 0; row < n * chosen; row++) {
            projection(1, wide, inner * (1 + gate));
            projection(1, inner, wide);
        }
        op_proves_but(1 << LAM_FLOPS | 1 << LAM_DMAS | 1 << LAM_BYTES_WRITTEN);
    }
    op_new("com.microsoft::MoE");
    in_tensor(0, SIZES(2, 4));
    in_int(1, 2);
    out_tensor(0, SIZES(2, 4));
    op_says(-1, -1, -1);
}

/* The reader of ONNX says how many products a position has with all states. */
static void linear_attention(void **state) {
    (void)state;
    for (int i = 0; more(i, 10000); i++) {
        reseed((uint64_t)i);
        const int64_t steps = pick(0, 4), key = pick(1, 3), value = pick(1, 3), kept = pick(1, 2),
                      asking = kept * pick(1, 2), delta = pick(0, 1);
        op_new(coin() ? "onnx::LinearAttention" : "com.microsoft::LinearAttention");
        in_whole(0, SIZES(2, steps, asking * key));
        in_int(1, key * value * (kept * (1 + delta) + asking));
        in_whole(2, SIZES(2, steps, kept * key));
        in_whole(3, SIZES(2, steps, kept * value));
        out_whole(0, SIZES(2, steps, asking * value));
        for (int64_t at = 0; at < 2 * steps; at++) {
            for (int64_t head = 0; head < kept; head++) {
                for (int64_t row = 0; row < key; row++) projection(1, 1, value);
                if (delta) projection(1, key, value);
            }
            for (int64_t head = 0; head < asking; head++) projection(1, key, value);
        }
        op_proves_but(1 << LAM_FLOPS);
    }
    op_new("onnx::LinearAttention");
    in_tensor(0, SIZES(2, 3, 4));
    out_tensor(0, SIZES(2, 3, 4));
    op_says(-1, -1, 48);
}

/* Fused kernels in which nothing was seen: projections, attention and the feed-forward block by hand. */
static void whole_layers(void **state) {
    (void)state;
    op_new("aten::_native_multi_head_attention");
    for (int32_t i = 0; i < 3; i++) in_tensor(i, SIZES(2, i ? 7 : 5, 8));
    in_int(3, 8);
    in_int(4, 2);
    in_tensor(5, SIZES(24, 8));
    in_tensor(6, SIZES(24));
    in_tensor(7, SIZES(8, 8));
    in_tensor(8, SIZES(8));
    out_tensor(0, SIZES(2, 5, 8));
    op_says(2 * (2 * 5 * 64 + 2 * 7 * 64 + 2 * 5 * 7 * 8), -1, 80 + 112 + 112 + 192 + 24 + 64 + 8 + 80);
    op_new("aten::_transformer_encoder_layer_fwd");
    in_tensor(0, SIZES(2, 5, 8));
    in_int(1, 8);
    in_int(2, 2);
    in_tensor(3, SIZES(24, 8));
    in_tensor(14, SIZES(16, 8));
    in_tensor(16, SIZES(8, 16));
    out_tensor(0, SIZES(2, 5, 8));
    op_says(2 * (4 * 5 * 64 + 2 * 5 * 5 * 8) + 2 * 5 * (128 + 128), -1, 80 + 192 + 128 + 128 + 80);
    op_new("aten::_scaled_dot_product_flash_attention"); /* without shapes */
    in_none(0);
    op_says(-1, -1, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attend),
        cmocka_unit_test(attend_backward),
        cmocka_unit_test(flash),
        cmocka_unit_test(efficient),
        cmocka_unit_test(lengths_are_values),
        cmocka_unit_test(backward_of_rows),
        cmocka_unit_test(masks_that_do_not_tell),
        cmocka_unit_test(cudnn),
        cmocka_unit_test(fused),
        cmocka_unit_test(fused_without_sizes),
        cmocka_unit_test(rotation),
        cmocka_unit_test(linear_attention),
        cmocka_unit_test(experts),
        cmocka_unit_test(whole_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
