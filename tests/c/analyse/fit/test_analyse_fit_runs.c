/* SPDX-License-Identifier: Apache-2.0
 *
 * Will it fit: the peak of made-up runs against one that looks at every moment; what is not known of a model;
 * and attention whose keys a cache would keep or would not. */
#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/stored_net.h"

enum { OPS = 12, LIVES = 40 };

static uint32_t seed = 21;

static lam_fit *fit_of(const lam_model *m) {
    lam_error e = {0};
    lam_fit *f = NULL;
    if (lam_fit_new(&f, m, &e) != LAM_OK) fail_msg("lam_fit_new: %s", e.text);
    return f;
}

typedef struct made {
    int32_t n_ops, n_lives, forward; /* the first so many operators are the forward's */
    lam_lifetime lives[LIVES];
} made;

static lam_model *made_up(made *d) {
    net n = net_new();
    net_calls c = net_plain(&n); /* parameters of 41 numbers, an input of 6 */
    const int32_t calls[] = {c.root, c.fc, c.act, c.mine, -1};
    *d = (made){.n_ops = draw(1, OPS), .n_lives = draw(1, LIVES)};
    d->forward = draw(1, d->n_ops);
    for (int32_t i = 0; i < d->n_ops; i++)
        net_mm(&n, (op_at){calls[draw(0, 4)], -1, i < d->forward ? LAM_FORWARD : LAM_BACKWARD, 0}, 2, 3, 4);
    for (int32_t i = 0; i < d->n_lives; i++) {
        int32_t from = draw(-1, d->n_ops - 1), to = draw(0, 2) ? draw(from < 0 ? 0 : from, d->n_ops - 1) : -1;
        d->lives[i] = (lam_lifetime){draw(0, 1000), from, to,
                                     (lam_taken)draw(LAM_TAKEN_TENSOR, LAM_TAKEN_WORKSPACE), -1};
        NET_OK(&n, lam_build_lifetime(n.b, &d->lives[i], &n.e));
    }
    return net_done(&n);
}

static int64_t there(const made *d, int32_t op) {
    int64_t sum = 0;
    for (int32_t i = 0; i < d->n_lives; i++)
        if (d->lives[i].made <= op && (d->lives[i].freed < 0 || d->lives[i].freed >= op))
            sum += d->lives[i].bytes;
    return sum;
}

static void the_peak_is_the_most_at_any_moment(void **state) {
    (void)state;
    const int64_t always = 41 * 4 + 6 * 4;
    for (int round = 0; round < rounds(3000); round++) {
        made d;
        lam_model *m = made_up(&d);
        lam_fit *f = fit_of(m);
        int64_t most = 0, parts = 0, rows = 0;
        for (int32_t i = -1; i < d.n_ops; i++) most = there(&d, i) > most ? there(&d, i) : most;
        assert_int_equal(f->peak.n, always + most);
        assert_int_equal(there(&d, f->op), most);
        for (int32_t i = -1; i < f->op; i++) assert_true(there(&d, i) < most); /* the first of several */
        assert_string_equal(f->at, f->op < 0 ? "before the first operator" : "aten::mm");
        assert_int_equal(f->backward, d.forward < d.n_ops);
        for (int k = 0; k < LAM_N_HELD; k++) parts += f->part[k].n;
        for (int32_t i = 0; i < f->n_rows; i++) {
            int64_t all = 0;
            for (int k = 0; k < LAM_N_HELD; k++) all += f->rows[i].part[k];
            assert_true(all > 0 && all == f->rows[i].bytes);
            rows += f->rows[i].bytes;
            assert_true(i == 0 || f->rows[i - 1].bytes >= f->rows[i].bytes);
        }
        assert_int_equal(parts, f->peak.n);
        assert_int_equal(rows, f->peak.n);
        assert_int_equal(f->part[LAM_HELD_PARAMETER].n, 41 * 4);
        lam_fit_free(f);
        lam_model_free(m);
    }
}

/* What an optimizer keeps belongs to the layer that owns the parameter; what it keeps for all, to none. */
static void state_is_of_the_layer_that_owns_the_parameter(void **state) {
    (void)state;
    net n = net_new();
    int32_t fc = net_leaf(&n, "Linear"), root = net_leaf(&n, "Mine");
    net_numbered(&n, fc, "weight", 100, true, SH(10));
    net_numbered(&n, root, "scale", 101, true, SH(10));
    net_place(&n, net_place(&n, -1, "", root), "fc", fc);
    int32_t call = net_call(&n, root, -1, SH(2), 0, SH(2), 0);
    net_relu(&n, (op_at){call, -1, LAM_BACKWARD, 0}, 2);
    int32_t step = net_relu(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 2);
    const lam_lifetime lives[] = {{80, -1, -1, LAM_TAKEN_STATE, 0},
                                  {90, -1, -1, LAM_TAKEN_STATE, 1},
                                  {5, -1, -1, LAM_TAKEN_STATE, -1},
                                  {70, -1, step, LAM_TAKEN_STATE, 1}, /* replaced in the step */
                                  {70, step, -1, LAM_TAKEN_TENSOR, -1}};
    for (int i = 0; i < 5; i++) NET_OK(&n, lam_build_lifetime(n.b, &lives[i], &n.e));
    NET_OK(&n, lam_build_step(n.b, "mine", step, false, &n.e));
    lam_model *m = net_done(&n);
    lam_fit *f = fit_of(m);
    int64_t kept[3] = {0};
    for (int32_t k = 0; k < f->n_rows; k++)
        kept[f->rows[k].place < 0 ? 2 : f->rows[k].place] += f->rows[k].part[LAM_HELD_OPTIMIZER];
    assert_int_equal(kept[0], 90 + 70); /* the model's own */
    assert_int_equal(kept[1], 80);
    assert_int_equal(kept[2], 5 + 70);
    assert_string_equal(f->at, "the optimizer's step");
    assert_string_equal(f->optimizer, "mine");
    lam_fit_free(f);
    lam_model_free(m);
}

/* A shard is there, not the whole; a packed weight is a parameter. */
static void what_is_here_counts(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_leaf(&n, "Mine");
    int32_t shard = net_numbered(&n, root, "shard", 100, true, SH(10));
    NET_OK(&n, lam_build_elsewhere(n.b, shard, 4, &n.e));
    net_wrapped(&n, root, "wraps", 101, SH(5), 7, 7);
    net_packed(&n, root, "packed", SH(3));
    net_place(&n, -1, "", root);
    NET_OK(&n, lam_build_lifetime(n.b, &(lam_lifetime){0, -1, -1, LAM_TAKEN_TENSOR, -1}, &n.e));
    lam_model *m = net_done(&n);
    lam_fit *f = fit_of(m);
    assert_int_equal(f->part[LAM_HELD_PARAMETER].n, 24 + 7 + 12);
    assert_int_equal(f->part[LAM_HELD_BUFFER].n, 0);
    assert_null(f->gap);
    lam_fit_free(f);
    lam_model_free(m);
}

static int32_t part(net *n, int32_t module, const char *name, int64_t elements, uint64_t storage,
                    int64_t storage_bytes) {
    const int64_t sizes[] = {elements};
    const lam_tensor_info info = {.dtype = NET_FLOAT32,
                                  .ndim = 1,
                                  .sizes = sizes,
                                  .bytes = -1,
                                  .storage = storage,
                                  .storage_bytes = storage_bytes};
    int32_t t;
    NET_OK(n, lam_build_tensor(n->b, &info, &t, &n->e));
    net_owns(n, module, name, t);
    return t;
}

/* Memory is there once and as a whole, whatever parts of it are parameters. */
static void memory_is_there_as_a_whole(void **state) {
    (void)state;
    net n = net_new();
    int32_t a = net_leaf(&n, "A"), c = net_leaf(&n, "C"), root = net_leaf(&n, "Mine");
    part(&n, a, "rows", 10, 7, 100); /* 60 bytes of it are no parameter's */
    part(&n, a, "tied", 10, 8, 48);  /* two that overlap */
    part(&n, c, "slice", 5, 8, 48);
    part(&n, c, "spread", 10, 9, 4); /* one number, as a row of ten */
    part(&n, c, "unknown", 10, 0, 0);
    int32_t top = net_place(&n, -1, "", root);
    net_place(&n, top, "a", a);
    net_place(&n, top, "c", c);
    NET_OK(&n, lam_build_lifetime(n.b, &(lam_lifetime){0, -1, -1, LAM_TAKEN_TENSOR, -1}, &n.e));
    lam_model *m = net_done(&n);
    lam_fit *f = fit_of(m);
    assert_int_equal(f->part[LAM_HELD_PARAMETER].n, 100 + 48 + 4 + 40);
    assert_int_equal(f->n_rows, 2);
    assert_int_equal(f->rows[0].bytes, 100 + 40);
    assert_int_equal(f->rows[1].bytes, 8 + 4 + 40);
    lam_fit_free(f);
    lam_model_free(m);
}

/* Gradients are there when the optimizer steps, and what it works with meanwhile; what the backward began
 * with is not. With equal bytes the first moment is the peak. */
static void the_optimizers_step_may_be_the_peak(void **state) {
    (void)state;
    for (int64_t meanwhile = 72; meanwhile <= 73; meanwhile++) {
        net n = net_new();
        int32_t root = net_leaf(&n, "Mine");
        net_numbered(&n, root, "weight", 100, true, SH(10));
        net_place(&n, -1, "", root);
        int32_t call = net_call(&n, root, -1, SH(2), 0, SH(2), 0);
        int32_t mine = net_relu(&n, (op_at){call, -1, LAM_BACKWARD, 0}, 2);
        int32_t step = net_relu(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 2);
        const lam_lifetime lives[] = {{40, mine, step, LAM_TAKEN_TENSOR, -1}, /* a gradient that it drops */
                                      {16, -1, -1, LAM_TAKEN_GRADIENT, -1},
                                      {7, mine, mine, LAM_TAKEN_SEED, -1},
                                      {meanwhile, mine, mine, LAM_TAKEN_TENSOR, -1},
                                      {80, step, step, LAM_TAKEN_TENSOR, -1},
                                      {84, -1, -1, LAM_TAKEN_STATE, 0}};
        for (int i = 0; i < 6; i++) NET_OK(&n, lam_build_lifetime(n.b, &lives[i], &n.e));
        NET_OK(&n, lam_build_step(n.b, "adam", step, meanwhile == 72, &n.e));
        lam_model *m = net_done(&n);
        lam_fit *f = fit_of(m);
        bool later = 80 > 7 + meanwhile;
        assert_string_equal(f->at, later ? "the optimizer's step" : "aten::relu");
        assert_int_equal(f->op, later ? -1 : mine);
        assert_int_equal(f->part[LAM_HELD_PARAMETER].n, 40);
        assert_int_equal(f->part[LAM_HELD_GRADIENT].n, 40 + 16);
        assert_int_equal(f->part[LAM_HELD_OPTIMIZER].n, 84);
        assert_int_equal(f->part[LAM_HELD_WORKSPACE].n, later ? 80 : 0);
        assert_int_equal(f->part[LAM_HELD_BACKWARD].n, later ? 0 : 7 + meanwhile);
        if (meanwhile == 72)
            assert_string_equal(f->rough, "values may decide what the step of adam does");
        else
            assert_null(f->rough);
        lam_fit_free(f);
        lam_model_free(m);
    }
}

/* Where a size is not known the peak is a lower bound, and says why. */
static void what_is_not_known_is_a_gap(void **state) {
    (void)state;
    static const char *const gaps[] = {"the size of some parameter or buffer is not known",
                                       "the size of some input is not known",
                                       "what my::kernel takes beside its results is not known"};
    for (int which = 0; which < 3; which++) {
        net n = net_new();
        int32_t root = net_leaf(&n, "Mine"), t;
        net_place(&n, -1, "", root);
        net_buffer(&n, root, "running", SH(5));
        lam_tensor_info unknown = {.dtype = -1, .ndim = -1, .bytes = -1, .requires_grad = true};
        if (which == 0) NET_OK(&n, lam_build_tensor(n.b, &unknown, &t, &n.e));
        if (which == 0) net_owns(&n, root, "lazy", t);
        const lam_arg in[] = {{.dtype = NET_FLOAT32, .ndim = 1, .sizes = (const int64_t[]){3}, .storage = 9},
                              {.dtype = NET_FLOAT32, .ndim = 1, .sizes = (const int64_t[]){3}, .storage = 9},
                              {.dtype = which == 1 ? -1 : NET_FLOAT32,
                               .ndim = 1,
                               .sizes = (const int64_t[]){2}}};
        const lam_call_info call = {.module = root, .parent = -1, .n_in = 3, .in = in};
        int32_t at;
        NET_OK(&n, lam_build_call(n.b, &call, &at, &n.e));
        net_op(&n, which == 2 ? "my::kernel" : "aten::neg", (op_at){at, -1, LAM_FORWARD, 0});
        NET_OK(&n, lam_build_lifetime(n.b, &(lam_lifetime){100, 0, 0, LAM_TAKEN_TENSOR, -1}, &n.e));
        lam_model *m = net_done(&n);
        lam_fit *f = fit_of(m);
        assert_string_equal(f->gap, gaps[which]);
        assert_int_equal(f->peak.state, LAM_AT_LEAST);
        assert_int_equal(f->part[LAM_HELD_BUFFER].n, 20);
        assert_int_equal(f->part[LAM_HELD_INPUT].n,
                         which == 1 ? 12 : 20); /* what is handed in twice is there once */
        lam_fit_free(f);
        lam_model_free(m);
    }
}

/* -- attention --------------------------------------------------------------------------------- */

typedef struct attends {
    int64_t queries, keys;
    int32_t causal; /* -1: not told */
    bool masked, flat, no_value, backward;
} attends;

static const lam_fit *attention(const attends *a, lam_model **m, lam_fit **f) {
    net n = net_new();
    int32_t root = net_leaf(&n, "Attention");
    net_place(&n, -1, "", root);
    int32_t call = net_call(&n, root, -1, SH(1, 8), 0, SH(1, 8), 0);
    const int64_t q[] = {2, 4, a->queries, 8}, k[] = {2, 4, a->keys, 8}, mask[] = {a->queries, a->keys};
    const int32_t ndim = a->flat ? 3 : 4, from = a->flat;
    lam_op_arg in[] = {data_of(0, 10, 10, q + from, ndim),
                       data_of(1, 20, 20, k + from, ndim),
                       data_of(2, 30, 30, k + from, ndim),
                       data_of(3, 40, 40, mask, 2),
                       {.position = 4, .ndim = -1, .value = {.type = LAM_FLOAT}},
                       {.position = 5, .ndim = -1, .value = {.type = LAM_BOOL, .i = a->causal > 0}}};
    if (!a->masked) in[3] = (lam_op_arg){.position = 3, .ndim = -1};
    if (a->no_value) in[2] = (lam_op_arg){.position = 2, .ndim = -1};
    const lam_op_arg out = data_of(0, 50, 50, q + from, ndim);
    const op_at at = {call, -1, a->backward ? LAM_BACKWARD : LAM_FORWARD, 0};
    net_op_args(&n, "aten::scaled_dot_product_attention", at, in, a->causal < 0 ? 5 : 6, &out, 1);
    NET_OK(&n, lam_build_lifetime(n.b, &(lam_lifetime){100, 0, 0, LAM_TAKEN_TENSOR, -1}, &n.e));
    *m = net_done(&n);
    *f = fit_of(*m);
    return *f;
}

/* Two sequences left four tensors: two grow, one is a state, and one is shared. */
static void what_a_forward_kept(void **state) {
    (void)state;
    const lam_kept kept[] = {
        {0, 96, 112, false}, {0, 96, 112, false}, {1, 40, 40, false}, {2, 48, 64, false}, {2, 8, 8, true}};
    for (int known = 0; known < 2; known++) {
        lam_model *m;
        lam_fit *f;
        lam_error e = {.at = -1};
        attention(&(attends){6, 6, 1, false, false, false, false}, &m, &f);
        lam_fit_free(f);
        const char *why = known ? NULL : "a step was refused";
        assert_int_equal(lam_model_keep(m, kept, 5, 2, why, &e), LAM_OK);
        f = fit_of(m);
        assert_int_equal(f->cached_layers, known ? 2 : 0);
        assert_int_equal(f->cache_bytes, known ? (16 + 16 + 16) / 2 : -1);
        assert_int_equal(f->cache_fixed, known ? 40 / 2 + 8 : (96 + 96 + 40 + 48) / 2 + 8);
        assert_int_equal(f->cache_why != NULL, !known);
        lam_fit_free(f);
        lam_model_free(m);
    }
}

static void a_cache_that_can_t_be(void **state) {
    (void)state;
    lam_model *m;
    lam_fit *f;
    lam_error e = {.at = -1};
    attention(&(attends){6, 6, 1, false, false, false, false}, &m, &f);
    lam_fit_free(f);
    assert_int_equal(lam_model_keep(m, NULL, 0, 0, NULL, &e), LAM_RANGE);
    assert_int_equal(lam_model_keep(m, &(lam_kept){0, -1, 8, false}, 1, 1, NULL, &e), LAM_RANGE);
    f = fit_of(m);
    assert_int_equal(f->cache_fixed, -1);
    assert_int_equal(f->cached_layers, 1);
    lam_fit_free(f);
    lam_model_free(m);
}

static void what_a_cache_would_keep(void **state) {
    (void)state;
    const struct {
        attends a;
        int32_t cached, masked;
    } cases[] = {
        {{6, 6, 1, false, false, false, false}, 1, 0},
        {{1, 6, 1, false, false, false, false}, 1, 0},
        {{6, 6, 0, true, false, false, false}, 0, 1},
        {{6, 6, -1, true, false, false, false}, 0, 1},
        {{6, 9, 0, true, false, false, false}, 0, 0}, /* of something else */
        {{6, 6, 0, false, false, false, false}, 0, 0},
        {{6, 6, 1, false, true, false, false}, 0, 0}, /* heads are not told */
        {{6, 6, 1, false, false, true, false}, 0, 0},
        {{6, 6, 1, false, false, false, true}, 0, 0}, /* a backward */
        {{6, 0, 1, false, false, false, false}, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lam_model *m;
        lam_fit *f;
        attention(&cases[i].a, &m, &f);
        if (f->cached_layers != cases[i].cached || f->masked_layers != cases[i].masked)
            fail_msg("case %d: %d cached, %d masked", (int)i, (int)f->cached_layers, (int)f->masked_layers);
        /* a key and a value of 4 heads of 8 numbers, a token of each of two samples */
        assert_int_equal(f->cache_bytes, cases[i].cached * 2 * 4 * 8 * 4);
        assert_int_equal(f->masked_bytes, cases[i].masked * 2 * 4 * 8 * 4);
        lam_fit_free(f);
        lam_model_free(m);
    }
}

/* -- attention that is written out ------------------------------------------------------------- */

typedef struct written {
    bool scaled, masked, softmax, copied; /* what is done between the two products */
    int32_t mask_axes;
    bool cast, between; /* another type; another product between the mask and the softmax */
    bool unseen;        /* nobody knows where the probabilities come from */
    int32_t value_axes;
    int64_t keys;
} written;

static uint64_t next_number;

/* An operator on `x` (and `y`) of the scores' shape, whose result is a new tensor. */
static lam_op_arg then(net *n, op_at at, const char *name, lam_op_arg x, const lam_op_arg *y) {
    lam_op_arg in[] = {x, x}, out = x;
    in[0].position = 0;
    if (y) in[1] = *y;
    in[1].position = 1;
    out.position = 0;
    out.object = out.storage = next_number += 10;
    net_op_args(n, name, at, in, y ? 2 : 1, &out, 1);
    return out;
}

static int32_t masked_layers(const written *w) {
    net n = net_new();
    int32_t root = net_leaf(&n, "Attention");
    net_place(&n, -1, "", root);
    const op_at at = {net_call(&n, root, -1, SH(1, 8), 0, SH(1, 8), 0), -1, LAM_FORWARD, 0};
    const int64_t q[] = {2, 4, 6, 8}, k[] = {2, 4, 8, w->keys}, of[] = {2, 4, 6, w->keys},
                  v[] = {2, 4, w->keys, 8}, mask[] = {6, w->keys};
    next_number = 1000;
    lam_op_arg s = data_of(0, 30, 30, of, 4);
    const lam_op_arg qk[] = {data_of(0, 10, 10, q, 4), data_of(1, 20, 20, k, 4)};
    const lam_op_arg m = data_of(1, 40, 40, mask + 2 - w->mask_axes, w->mask_axes);
    net_op_args(&n, "aten::matmul", at, qk, 2, &s, 1);
    if (w->scaled)
        s = then(&n, at, "aten::div", s, &(lam_op_arg){.ndim = -1, .value = {.type = LAM_FLOAT, .f = 2}});
    if (w->masked) s = then(&n, at, "aten::add", s, &m);
    if (w->between) s = then(&n, at, "aten::matmul", s, &s);
    if (w->softmax) s = then(&n, at, "aten::softmax", s, NULL);
    if (w->copied) s = then(&n, at, "aten::clone", s, NULL);
    if (w->cast) {
        lam_op_arg half = then(&n, at, "aten::neg", s, NULL);
        half.dtype = 5;
        s = then(&n, at, "aten::to", half, NULL);
    }
    if (w->unseen) s.object = s.storage = 777777;
    s.position = 0;
    const lam_op_arg pv[] = {s, data_of(1, 50, 50, v + 4 - w->value_axes, w->value_axes)};
    const lam_op_arg y = data_of(0, 60, 60, q, 4);
    net_op_args(&n, "aten::matmul", at, pv, 2, &y, 1);
    NET_OK(&n, lam_build_lifetime(n.b, &(lam_lifetime){100, 0, 0, LAM_TAKEN_TENSOR, -1}, &n.e));
    lam_model *model = net_done(&n);
    lam_fit *f = fit_of(model);
    int32_t layers = f->masked_layers;
    assert_int_equal(f->cached_layers, 0);
    assert_int_equal(f->masked_bytes, layers * 2 * 4 * 8 * 4);
    lam_fit_free(f);
    lam_model_free(model);
    return layers;
}

static void attention_that_is_written_out(void **state) {
    (void)state;
    const written whole = {true, true, true, true, 2, false, false, false, 4, 6};
    written w = whole;
    assert_int_equal(masked_layers(&w), 1);
    w.scaled = w.copied = false;
    assert_int_equal(masked_layers(&w), 1);
    bool *const needed[] = {&w.masked, &w.softmax};
    for (int i = 0; i < 2; i++) {
        w = whole;
        *needed[i] = false;
        assert_int_equal(masked_layers(&w), 0);
    }
    bool *const wrong[] = {&w.cast, &w.between, &w.unseen};
    for (int i = 0; i < 3; i++) {
        w = whole;
        *wrong[i] = true;
        assert_int_equal(masked_layers(&w), 0);
    }
    w = whole;
    w.mask_axes = 1; /* a bias */
    assert_int_equal(masked_layers(&w), 0);
    w = whole;
    w.value_axes = 3; /* heads are not told */
    assert_int_equal(masked_layers(&w), 0);
    w = whole;
    w.keys = 9; /* of something else */
    assert_int_equal(masked_layers(&w), 0);
}

static void once(void *arg, bool *ok) {
    lam_fit *f = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_fit_new(&f, arg, &e), &e);
    lam_fit_free(f);
}

static void memory_may_run_out(void **state) {
    (void)state;
    made d;
    lam_model *m = made_up(&d);
    oom_sweep(once, m);
    lam_model_free(m);
    net n = net_new();
    net_calls c = net_plain(&n);
    net_op(&n, "MaskBackward0", (op_at){c.mine, -1, LAM_BACKWARD, LAM_OP_NODE | LAM_OP_VALUES});
    NET_OK(&n, lam_build_lifetime(n.b, &(lam_lifetime){100, 0, 0, LAM_TAKEN_TENSOR, -1}, &n.e));
    m = net_done(&n);
    oom_sweep(once, m);
    lam_fit *f = fit_of(m);
    assert_string_equal(f->rough, "values decide what MaskBackward0 runs");
    lam_fit_free(f);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_the_most_at_any_moment),
        cmocka_unit_test(state_is_of_the_layer_that_owns_the_parameter),
        cmocka_unit_test(what_is_here_counts),
        cmocka_unit_test(memory_is_there_as_a_whole),
        cmocka_unit_test(the_optimizers_step_may_be_the_peak),
        cmocka_unit_test(what_is_not_known_is_a_gap),
        cmocka_unit_test(what_a_cache_would_keep),
        cmocka_unit_test(what_a_forward_kept),
        cmocka_unit_test(a_cache_that_can_t_be),
        cmocka_unit_test(attention_that_is_written_out),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
