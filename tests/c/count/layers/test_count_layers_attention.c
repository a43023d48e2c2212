/* SPDX-License-Identifier: Apache-2.0
 *
 * Proofs of `layers` for multi-head attention and the transformer layers. */
#include "kit/oom.h"

#include "kit/layer_build.h"

enum { MAX_KEYS = 8, MAX_EMBED = 6 };

typedef struct attention {
    int64_t seqs, queries, keys, heads, head, kdim, vdim;
    bool batched, batch_first, bias, bias_kv, zero, mask, pad_mask, training, weights, per_head, one_tensor;
    double p;
    cells *q, *k, *v, *mask_at, *pad_at, *y, *returned;
    cells *wq, *wk, *wv, *bq, *bk, *bv, *wo, *bo, *extra_k, *extra_v;
} attention;

static int64_t embed(const attention *a) { return a->heads * a->head; }
static int64_t all_keys(const attention *a) { return a->keys + a->bias_kv + a->zero; }

/* -- attention, one sequence at a time ----------------------------------------------------------------- */

static double project(cells *w, cells *b, int64_t row, cells *x, int64_t first, int64_t n) {
    double acc = b ? rd(b, row) : 0;
    for (int64_t i = 0; i < n; i++) acc = mac(acc, rd(w, row * n + i), rd(x, first + i));
    return acc;
}

/* Keys or values of a sequence: projected from what is given, then the learned one, then zeros. */
static void project_keys(const attention *a, int64_t seq, cells *x, cells *w, cells *b, cells *learned,
                         int64_t n, double to[MAX_KEYS][MAX_EMBED]) {
    for (int64_t s = 0; s < all_keys(a); s++)
        for (int64_t e = 0; e < embed(a); e++) {
            if (s < a->keys)
                to[s][e] = project(w, b, e, x, (seq * a->keys + s) * n, n);
            else
                to[s][e] = a->bias_kv && s == a->keys ? rd(learned, e) : 0;
        }
}

/* A row of scores becomes a row of weights. */
static void soften(const attention *a, double *row) {
    double sum = 0;
    for (int64_t s = 0; s < all_keys(a); s++) {
        row[s] = exp1(row[s]);
        sum = s ? add(sum, row[s]) : row[s];
    }
    for (int64_t s = 0; s < all_keys(a); s++) row[s] = dvd(row[s], sum);
    for (int64_t s = 0; s < all_keys(a) && a->training && a->p > 0; s++)
        row[s] = a->p >= 1 ? mul(row[s], 0) : mul(row[s], dvd(1, 1 - a->p));
}

/* Masks are as long as the keys given; what is added behind them is never masked, but a mask is added to it
 * as 0. */
static double masked(const attention *a, int64_t seq, int64_t l, int64_t s, double score) {
    if (a->mask_at) score = add(score, s < a->keys ? rd(a->mask_at, l * a->keys + s) : 0);
    if (a->pad_at) score = add(score, s < a->keys ? rd(a->pad_at, seq * a->keys + s) : 0);
    return score;
}

static void one_head(const attention *a, int64_t seq, int64_t l, int64_t h, const double *q,
                     double k[MAX_KEYS][MAX_EMBED], double v[MAX_KEYS][MAX_EMBED], double *row, double *to) {
    for (int64_t s = 0; s < all_keys(a); s++) {
        double score = 0;
        for (int64_t i = 0; i < a->head; i++) score = mac(score, q[h * a->head + i], k[s][h * a->head + i]);
        row[s] = masked(a, seq, l, s, dvd(score, sqrt((double)a->head)));
    }
    soften(a, row);
    for (int64_t i = 0; i < a->head; i++) {
        double acc = 0;
        for (int64_t s = 0; s < all_keys(a); s++) acc = mac(acc, row[s], v[s][h * a->head + i]);
        to[h * a->head + i] = acc;
    }
}

static void return_weights(const attention *a, int64_t seq, int64_t l, double rows[][MAX_KEYS]) {
    for (int64_t s = 0; a->weights && s < all_keys(a); s++) {
        double sum = 0;
        for (int64_t h = 0; h < a->heads; h++) {
            if (a->per_head)
                wr(a->returned, ((seq * a->heads + h) * a->queries + l) * all_keys(a) + s, rows[h][s]);
            else
                sum = h ? add(sum, rows[h][s]) : rows[h][s];
        }
        if (!a->per_head)
            wr(a->returned, (seq * a->queries + l) * all_keys(a) + s, dvd(sum, (double)a->heads));
    }
}

/* `to` receives the output of one position; NULL: the output tensor does. */
static void one_query(const attention *a, int64_t seq, int64_t l, double k[MAX_KEYS][MAX_EMBED],
                      double v[MAX_KEYS][MAX_EMBED]) {
    double q[MAX_EMBED], rows[MAX_EMBED][MAX_KEYS], context[MAX_EMBED];
    int64_t e = embed(a), at = (seq * a->queries + l) * e;
    for (int64_t i = 0; i < e; i++) q[i] = project(a->wq, a->bq, i, a->q, at, e);
    for (int64_t h = 0; h < a->heads; h++) one_head(a, seq, l, h, q, k, v, rows[h], context);
    return_weights(a, seq, l, rows);
    for (int64_t i = 0; i < e; i++) {
        double acc = a->bo ? rd(a->bo, i) : 0;
        for (int64_t j = 0; j < e; j++) acc = mac(acc, context[j], rd(a->wo, i * e + j));
        wr(a->y, at + i, acc);
    }
}

static void attend(const attention *a) {
    for (int64_t seq = 0; seq < a->seqs; seq++) {
        double k[MAX_KEYS][MAX_EMBED], v[MAX_KEYS][MAX_EMBED];
        project_keys(a, seq, a->k, a->wk, a->bk, a->extra_k, a->kdim, k);
        project_keys(a, seq, a->v, a->wv, a->bv, a->extra_v, a->vdim, v);
        for (int64_t l = 0; l < a->queries; l++) one_query(a, seq, l, k, v);
    }
}

/* -- the layer
 * -----------------------------------------------------------------------------------------------------------
 */

static void random_attention(attention *a) {
    *a = (attention){.queries = pick(1, 4), .keys = pick(1, 5), .heads = pick(1, 3), .head = pick(1, 2)};
    a->batched = pick(0, 3) != 0;
    a->seqs = a->batched ? pick(1, 3) : 1;
    a->batch_first = coin();
    a->bias = coin();
    a->bias_kv = pick(0, 3) == 0;
    a->zero = pick(0, 3) == 0;
    a->mask = pick(0, 2) == 0;
    a->pad_mask = pick(0, 2) == 0;
    a->training = coin();
    a->weights = coin();
    a->per_head = a->weights && coin();
    a->p = pick(0, 2) ? 0 : pick(0, 2) ? 0.1 : 1;
    a->one_tensor = pick(0, 2) == 0;
    bool same = a->one_tensor || coin();
    a->kdim = same ? embed(a) : pick(1, 5);
    a->vdim = same ? embed(a) : pick(1, 5);
    if (a->one_tensor) a->keys = a->queries;
}

static cells *weight(layer *l, const char *name, int64_t rows, int64_t columns) {
    if (columns)
        has_param(l, name, SIZES(rows, columns));
    else
        has_param(l, name, SIZES(rows));
    return cells_of(rows * (columns ? columns : 1));
}

/* Parameters as torch names them: one matrix for equal widths, else three. The output's lie in a child. */
static void attention_parameters(layer *l, attention *a, int32_t self) {
    int64_t e = embed(a);
    int32_t own = l->module;
    l->module = self;
    if (a->kdim == e && a->vdim == e) {
        has_param(l, "in_proj_weight", SIZES(3 * e, e));
        a->wq = cells_of(e * e);
        a->wk = cells_of(e * e);
        a->wv = cells_of(e * e);
    } else {
        a->wq = weight(l, "q_proj_weight", e, e);
        a->wk = weight(l, "k_proj_weight", e, a->kdim);
        a->wv = weight(l, "v_proj_weight", e, a->vdim);
    }
    if (a->bias) {
        has_param(l, "in_proj_bias", SIZES(3 * e));
        a->bq = cells_of(e);
        a->bk = cells_of(e);
        a->bv = cells_of(e);
    }
    if (a->bias_kv) {
        a->extra_k = weight(l, "bias_k", 1, e);
        a->extra_v = weight(l, "bias_v", 1, e);
    }
    has_int(l, "embed_dim", e);
    has_int(l, "num_heads", a->heads);
    has_int(l, "kdim", a->kdim);
    has_int(l, "vdim", a->vdim);
    has_bool(l, "add_zero_attn", a->zero);
    has_bool(l, "batch_first", a->batch_first);
    has_float(l, "dropout", a->p);
    l->module = own;
}

static void output_projection(layer *l, attention *a, int32_t owner) {
    int32_t own = l->module;
    l->module = owner;
    a->wo = weight(l, "weight", embed(a), embed(a));
    if (a->bias) a->bo = weight(l, "bias", embed(a), 0);
    l->module = own;
}

/* (N, L, n), (L, N, n) or (L, n). */
static int32_t sequence(const attention *a, int64_t length, int64_t n, int64_t *s) {
    if (!a->batched) {
        s[0] = length;
        s[1] = n;
        return 2;
    }
    s[0] = a->batch_first ? a->seqs : length;
    s[1] = a->batch_first ? length : a->seqs;
    s[2] = n;
    return 3;
}

/* By position or by keyword; the same call either way. */
static void hand_over(layer *l, bool named, const char *name, int32_t position, int32_t ndim,
                      const int64_t *s) {
    if (named)
        takes_named(l, name, ndim, s);
    else
        takes(l, ndim, s);
    if (!named) l->in[l->n_in - 1].position = position;
}

static void masks(layer *l, attention *a, bool named) {
    const int64_t pad[] = {a->seqs, a->keys}, mask[] = {a->queries, a->keys};
    if (a->pad_mask) {
        hand_over(l, named, "key_padding_mask", 3, a->batched ? 2 : 1, a->batched ? pad : pad + 1);
        a->pad_at = cells_of(a->seqs * a->keys);
    }
    if (a->mask) {
        hand_over(l, named, "attn_mask", 5, 2, mask);
        a->mask_at = cells_of(a->queries * a->keys);
    }
}

static void inputs(layer *l, attention *a) {
    int64_t s[3], e = embed(a);
    bool named = pick(0, 3) == 0;
    int32_t ndim = sequence(a, a->queries, e, s);
    hand_over(l, named, "query", 0, ndim, s);
    a->q = a->k = a->v = cells_of(a->seqs * a->queries * e);
    sequence(a, a->keys, a->kdim, s);
    hand_over(l, named, "key", 1, ndim, s);
    sequence(a, a->keys, a->vdim, s);
    hand_over(l, named, "value", 2, ndim, s);
    if (a->one_tensor) {
        l->in[1].storage = l->in[2].storage = l->in[0].storage;
    } else {
        a->k = cells_of(a->seqs * a->keys * a->kdim);
        a->v = cells_of(a->seqs * a->keys * a->vdim);
    }
    masks(l, a, named);
}

static void outputs(layer *l, attention *a) {
    int64_t s[3];
    int32_t ndim = sequence(a, a->queries, embed(a), s);
    gives(l, ndim, s);
    a->y = cells_of(a->seqs * a->queries * embed(a));
    if (!a->weights) return;
    const int64_t mean[] = {a->seqs, a->queries, all_keys(a)},
                  each[] = {a->seqs, a->heads, a->queries, all_keys(a)};
    int32_t skip = !a->batched;
    if (a->per_head)
        gives(l, 4 - skip, each + skip);
    else
        gives(l, 3 - skip, mean + skip);
    a->returned = cells_of(a->seqs * (a->per_head ? a->heads : 1) * a->queries * all_keys(a));
}

static void multihead(void **state) {
    (void)state;
    for (int i = 0; more(i, 900); i++) {
        reseed((uint64_t)i);
        attention a;
        layer l;
        random_attention(&a);
        layer_new(&l, "MultiheadAttention");
        attention_parameters(&l, &a, l.module);
        output_projection(&l, &a, layer_child(&l, "out_proj", "NonDynamicallyQuantizableLinear"));
        in_training(&l, a.training);
        inputs(&l, &a);
        outputs(&l, &a);
        attend(&a);
        proves(&l);
    }
}

/* -- encoder layer
 * ---------------------------------------------------------------------------------------------------------
 */

typedef struct feed {
    int64_t ff;
    bool gelu, bias[2], affine;
    cells *w1, *b1, *w2, *b2, *scale[2], *shift[2];
} feed;

static double activation(const feed *f, double x) {
    return f->gelu ? mul(mul(0.5, x), add(1, erf1(dvd(x, 1.4142135623730951)))) : max2(0, x);
}

/* Functions are told by their name, modules by their class. */
static const char *activation_name(const feed *f) {
    return coin() ? (f->gelu ? "gelu" : "relu") : f->gelu ? "GELU" : "ReLU";
}

static void normalise(double *x, int64_t n, cells *scale, cells *shift) {
    double sum = x[0], squares = 0;
    for (int64_t i = 1; i < n; i++) sum = add(sum, x[i]);
    double mean = dvd(sum, (double)n);
    for (int64_t i = 0; i < n; i++) {
        double d = sub(x[i], mean), square = mul(d, d);
        squares = i ? add(squares, square) : square;
    }
    double root = sqrt1(add(dvd(squares, (double)n), 1e-5));
    for (int64_t i = 0; i < n; i++) {
        x[i] = dvd(sub(x[i], mean), root);
        if (scale) x[i] = mul(x[i], rd(scale, i));
        if (shift) x[i] = add(x[i], rd(shift, i));
    }
}

static void matrix(cells *w, cells *b, const double *x, int64_t n, int64_t rows, double *to) {
    for (int64_t r = 0; r < rows; r++) {
        to[r] = b ? rd(b, r) : 0;
        for (int64_t i = 0; i < n; i++) to[r] = mac(to[r], rd(w, r * n + i), x[i]);
    }
}

/* What follows the attention, for one position: its output lies in a->y, its input in a->q. */
static void rest_of_layer(const attention *a, const feed *f, int64_t at) {
    double x[MAX_EMBED], inner[8], out[MAX_EMBED];
    int64_t e = embed(a);
    for (int64_t i = 0; i < e; i++) x[i] = add(a->q->v[at + i], a->y->v[at + i]);
    normalise(x, e, f->scale[0], f->shift[0]);
    matrix(f->w1, f->b1, x, e, f->ff, inner);
    for (int64_t i = 0; i < f->ff; i++) inner[i] = activation(f, inner[i]);
    matrix(f->w2, f->b2, inner, f->ff, e, out);
    for (int64_t i = 0; i < e; i++) x[i] = add(x[i], out[i]);
    normalise(x, e, f->scale[1], f->shift[1]);
    for (int64_t i = 0; i < e; i++) wr(a->y, at + i, x[i]);
}

static int32_t linear_child(layer *l, const char *name, int64_t in, int64_t out, bool bias, cells **w,
                            cells **b) {
    int32_t own = l->module, child = layer_child(l, name, "Linear");
    l->module = child;
    has_int(l, "in_features", in);
    has_int(l, "out_features", out);
    *w = weight(l, "weight", out, in);
    *b = bias ? weight(l, "bias", out, 0) : NULL;
    l->module = own;
    return child;
}

static int32_t norm_child(layer *l, const char *name, int64_t n, bool scale, bool shift, cells **w,
                          cells **b) {
    int32_t own = l->module, child = layer_child(l, name, "LayerNorm");
    l->module = child;
    has_ints(l, "normalized_shape", SIZES(n));
    *w = scale ? weight(l, "weight", n, 0) : NULL;
    *b = shift ? weight(l, "bias", n, 0) : NULL;
    l->module = own;
    return child;
}

/* An encoder layer and its children; gives what is called when it is not fused. */
static int32_t encoder(layer *l, attention *a, feed *f, int32_t *called) {
    int32_t n = 0;
    random_attention(a);
    a->one_tensor = true;
    a->keys = a->queries;
    a->kdim = a->vdim = embed(a);
    a->bias_kv = a->zero = a->weights = a->per_head = false;
    *f = (feed){.ff = pick(1, 8), .gelu = coin(), .affine = coin()};
    layer_new(l, "TransformerEncoderLayer");
    called[n++] = layer_child(l, "self_attn", "MultiheadAttention");
    attention_parameters(l, a, called[0]);
    output_projection(l, a, called[0]);
    called[n++] = linear_child(l, "linear1", embed(a), f->ff, a->bias, &f->w1, &f->b1);
    called[n++] = linear_child(l, "linear2", f->ff, embed(a), a->bias, &f->w2, &f->b2);
    called[n++] =
        norm_child(l, "norm1", embed(a), f->affine, f->affine && a->bias, &f->scale[0], &f->shift[0]);
    called[n++] =
        norm_child(l, "norm2", embed(a), f->affine, coin() && f->affine, &f->scale[1], &f->shift[1]);
    return n;
}

static void encoder_call(layer *l, attention *a, bool named) {
    int64_t s[3];
    int32_t ndim = sequence(a, a->queries, embed(a), s);
    hand_over(l, named, "src", 0, ndim, s);
    a->q = a->k = a->v = cells_of(a->seqs * a->queries * embed(a));
    const int64_t pad[] = {a->seqs, a->keys}, mask[] = {a->queries, a->keys};
    if (a->mask) {
        hand_over(l, named, "src_mask", 1, 2, mask);
        a->mask_at = cells_of(a->queries * a->keys);
    }
    if (a->pad_mask) {
        hand_over(l, named, "src_key_padding_mask", 2, a->batched ? 2 : 1, a->batched ? pad : pad + 1);
        a->pad_at = cells_of(a->seqs * a->keys);
    }
    gives(l, ndim, s);
    a->y = cells_of(a->q->n);
}

/* torch's fused path: the layer is called, its children are not. Only in eval() mode. */
static void fused_encoder(void **state) {
    (void)state;
    for (int i = 0; more(i, 500); i++) {
        reseed((uint64_t)i);
        attention a;
        feed f;
        layer l;
        int32_t called[8];
        encoder(&l, &a, &f, called);
        a.training = false;
        has_text(&l, "activation", activation_name(&f));
        encoder_call(&l, &a, coin());
        attend(&a);
        for (int64_t at = 0; at < a.q->n; at += embed(&a)) rest_of_layer(&a, &f, at);
        proves(&l);
    }
}

/* The layer's own work when its children are called: two sums of two tensors, and an activation that is a
 * function. */
static void own_sum(int64_t n) {
    cells *x = cells_of(n), *y = cells_of(n), *to = cells_of(n);
    for (int64_t i = 0; i < n; i++) wr(to, i, add(rd(x, i), rd(y, i)));
}
static void own_activation(const feed *f, int64_t n) {
    cells *x = cells_of(n), *to = cells_of(n);
    for (int64_t i = 0; i < n; i++) wr(to, i, activation(f, rd(x, i)));
}

static void open_encoder(void **state) {
    (void)state;
    for (int i = 0; more(i, 300); i++) {
        reseed((uint64_t)i);
        attention a;
        feed f;
        layer l;
        int32_t called[8], n = encoder(&l, &a, &f, called);
        bool module = pick(0, 2) == 0;
        int64_t size = a.seqs * a.queries * embed(&a);
        has_text(&l, "activation", activation_name(&f));
        if (module) called[n++] = layer_child(&l, "activation", f.gelu ? "GELU" : "ReLU");
        in_training(&l, a.training);
        encoder_call(&l, &a, coin());
        forget();
        own_sum(size);
        own_sum(size);
        if (!module) own_activation(&f, size / embed(&a) * f.ff);
        proves_inside(&l, n, called);
    }
}

static void open_decoder(void **state) {
    (void)state;
    for (int i = 0; more(i, 300); i++) {
        reseed((uint64_t)i);
        layer l;
        feed f = {.ff = pick(1, 6), .gelu = coin()};
        int64_t n = pick(1, 3), t = pick(1, 4), m = pick(1, 4), e = pick(1, 4);
        bool named = coin(), module = pick(0, 3) == 0;
        layer_new(&l, "TransformerDecoderLayer");
        int32_t called[3] = {layer_child(&l, "self_attn", "MultiheadAttention")}, n_called = 1;
        called[n_called++] = linear_child(&l, "linear1", e, f.ff, true, &f.w1, &f.b1);
        if (module)
            called[n_called++] = layer_child(&l, "activation", "ReLU");
        else
            has_text(&l, "activation", f.gelu ? "gelu" : "relu");
        if (named) {
            takes_named(&l, "memory", SIZES(n, m, e));
            takes_named(&l, "tgt", SIZES(n, t, e));
        } else {
            takes(&l, SIZES(n, t, e));
            takes(&l, SIZES(n, m, e));
        }
        gives(&l, SIZES(n, t, e));
        forget();
        for (int k = 0; k < 3; k++) own_sum(n * t * e);
        if (!module) own_activation(&f, n * t * f.ff);
        proves_inside(&l, n_called, called);
    }
}

/* -- stacks, and what can't be had --------------------------------------------------------------------- */

static void stacks(void **state) {
    (void)state;
    static const char *const names[] = {"TransformerEncoder", "TransformerDecoder", "Transformer"};
    for (int i = 0; i < 6; i++) {
        layer l;
        layer_new(&l, names[i / 2]);
        int32_t child = layer_child(&l, "layers", "TransformerEncoderLayer");
        takes(&l, SIZES(2, 3, 4));
        gives(&l, SIZES(2, 3, 4));
        if (i % 2)
            proves_inside(&l, 1, &child); /* nothing of its own */
        else
            is_unknown(&l, 7); /* its layers' work was not seen */
    }
}

static void not_seen(void **state) {
    (void)state;
    attention a;
    feed f;
    layer l;
    int32_t called[8];
    reseed(1);
    encoder(&l, &a, &f, called); /* not fused in training, so its children's calls were lost */
    has_text(&l, "activation", "relu");
    in_training(&l, true);
    encoder_call(&l, &a, false);
    is_unknown(&l, 7);
    int32_t n = encoder(&l, &a, &f, called); /* a function that is neither relu nor gelu */
    has_text(&l, "activation", "<lambda>");
    encoder_call(&l, &a, false);
    lam_count got[LAM_N_METRICS];
    layer_counts(&l, n, called, got);
    assert_int_equal(got[LAM_MACS].state, LAM_EXACT);
    assert_int_equal(got[LAM_FLOPS].state, LAM_UNKNOWN);
    assert_int_equal(got[LAM_DMAS].state, LAM_EXACT); /* it reads and writes, whatever it computes */
    forget();
    layer_new(&l, "TransformerDecoderLayer");
    takes(&l, SIZES(2, 3, 4));
    gives(&l, SIZES(2, 3, 4));
    is_unknown(&l, 7);
    layer_new(&l, "MultiheadAttention"); /* a key without a shape */
    has_int(&l, "embed_dim", 4);
    has_int(&l, "num_heads", 2);
    takes(&l, SIZES(2, 3, 4));
    gives(&l, SIZES(2, 3, 4));
    is_unknown(&l, 1 << LAM_MACS | 1 << LAM_FLOPS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multihead),    cmocka_unit_test(fused_encoder), cmocka_unit_test(open_encoder),
        cmocka_unit_test(open_decoder), cmocka_unit_test(stacks),        cmocka_unit_test(not_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
