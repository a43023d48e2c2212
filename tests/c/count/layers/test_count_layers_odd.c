/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that no layer would make: attributes of the wrong type, sizes that no memory holds, shapes nobody
 * knows. A rule may then say "unknown" or a number, but never a negative one, and never take long. */
#include "kit/oom.h"

#include "kit/layer_build.h"

static int64_t odd_number(void) {
    static const int64_t odd[] = {
        0, -1, -7, 1, 2, 3, INT64_MAX, INT64_MIN, (int64_t)1 << 40, (int64_t)1 << 31, INT32_MAX};
    return coin() ? pick(0, 6) : odd[pick(0, (int64_t)(sizeof odd / sizeof *odd) - 1)];
}

static lam_value odd_value(int64_t *ints) {
    static const char *const texts[] = {"same",    "valid",    "zeros", "circular", "area", "nearest",
                                        "bicubic", "bilinear", "tanh",  "relu",     "GELU", "mean",
                                        "sum",     "max",      "",      "?"};
    static const double floats[] = {0, 0.5, 1, 2, 1.5, -1, 1e-30, 1e300, INFINITY, NAN};
    lam_value v = {.type = (lam_value_type)pick(LAM_NONE, LAM_TEXT)};
    v.i = v.type == LAM_BOOL ? coin() : odd_number();
    v.f = floats[pick(0, 9)];
    v.text = texts[pick(0, 15)];
    v.n = (int32_t)pick(0, 6);
    v.ints = ints;
    for (int32_t i = 0; i < v.n; i++) ints[i] = odd_number();
    return v;
}

static int32_t odd_shape(int64_t *s) {
    int32_t ndim = (int32_t)pick(-1, 5);
    for (int32_t i = 0; i < ndim; i++) {
        int64_t size = pick(0, 9) ? pick(0, 6) : odd_number();
        s[i] = size < 0 ? 0 : size;
    }
    return ndim;
}

static void odd_attributes(layer *l, int32_t module, int32_t word) {
    const char *name;
    for (int32_t i = 0; (name = lam_word_attr(word, i)) != NULL; i++) {
        int64_t ints[8];
        if (pick(0, 3)) put_attr(l, module, name, odd_value(ints));
    }
}

static void odd_tensors(layer *l, int32_t module) {
    static const char *const names[] = {"weight",         "bias",   "running_mean", "running_var",
                                        "in_proj_weight", "bias_k", "weight_ih_l0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t s[LAYER_NDIM];
        int32_t ndim = odd_shape(s);
        if (coin()) put_tensor(l, module, names[i], i == 2 || i == 3, ndim, s);
    }
}

static void odd_children(layer *l) {
    static const char *const names[] = {"self_attn", "linear1", "norm1", "norm2", "activation"};
    static const char *const words[] = {"MultiheadAttention", "Linear", "LayerNorm", "LayerNorm", "ReLU"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (coin()) continue;
        int32_t child = layer_child(l, names[i], words[i]);
        odd_attributes(l, child, lam_word_module(words[i]));
        odd_tensors(l, child);
    }
}

static void odd_call(layer *l) {
    static const char *const names[] = {"key", "value", "attn_mask", "memory", "x2", "per_sample_weights"};
    for (int64_t n = pick(0, 4); n > 0; n--) {
        int64_t s[LAYER_NDIM];
        int32_t ndim = odd_shape(s);
        if (pick(0, 3))
            takes(l, ndim, s);
        else
            takes_named(l, names[pick(0, 5)], ndim, s);
        if (coin() && l->n_in > 1) l->in[l->n_in - 1].storage = l->in[0].storage;
    }
    for (int64_t n = pick(0, 2); n > 0; n--) {
        int64_t s[LAYER_NDIM];
        gives(l, odd_shape(s), s);
    }
}

static void check(layer *l) {
    lam_count got[LAM_N_METRICS];
    layer_counts(l, 0, NULL, got);
    for (int32_t i = 0; i < LAM_N_METRICS; i++)
        if (got[i].state == LAM_EXACT && got[i].n < 0)
            fail_msg("%s of %s%s is %lld", lam_metric_name((lam_metric)i), l->word, l->text,
                     (long long)got[i].n);
}

static void odd_layers(void **state) {
    (void)state;
    for (int i = 0; i < 15000; i++) {
        reseed((uint64_t)i);
        layer l;
        const char *word = lam_word_name(i % 200);
        if (!word) continue;
        layer_new(&l, word);
        odd_attributes(&l, l.module, i % 200);
        odd_tensors(&l, l.module);
        if (!strncmp(word, "Transformer", 11)) odd_children(&l);
        in_training(&l, coin());
        odd_call(&l);
        check(&l);
    }
}

/* Of a call that nothing is known of, nothing may be made up: no number but one that holds for every such
 * layer. */
static void nothing_known(void **state) {
    (void)state;
    const char *word;
    for (int32_t i = 0; (word = lam_word_name(i)) != NULL; i++) {
        layer l;
        lam_count got[LAM_N_METRICS];
        layer_new(&l, word);
        layer_counts(&l, 0, NULL, got);
        for (int k = 0; k < LAM_N_METRICS; k++)
            if (got[k].state == LAM_EXACT && got[k].n != 0)
                fail_msg("%s of %s is made up", lam_metric_name((lam_metric)k), word);
        const char *kind = lam_word_kind(i);
        bool dense = strstr(kind, "conv") || strstr(kind, "linear") || strstr(kind, "attention") ||
                     !strcmp(kind, "lstm");
        if (dense && got[LAM_MACS].state != LAM_UNKNOWN) fail_msg("the MACs of %s are known", word);
    }
}

/* More tensors than any layer takes: nothing quadratic is done with them. */
static void many_inputs(void **state) {
    (void)state;
    layer l;
    layer_new(&l, "LSTM");
    static lam_arg many[4096];
    static const int64_t s[] = {2, 3};
    for (int i = 0; i < 4096; i++) many[i] = (lam_arg){NULL, i, 6, 0, 2, s, 7, 0, 0};
    lam_call_info call = {.module = l.module, .parent = -1, .n_in = 4096, .in = many};
    lam_model *m = NULL;
    int32_t event;
    assert_int_equal(lam_build_call(l.b, &call, &event, NULL), LAM_OK);
    assert_int_equal(lam_builder_finish(l.b, &m, NULL), LAM_OK);
    lmi_facts f;
    lmi_facts_of(m, 0, &f);
    assert_false(f.known[LMI_FACT_in_once]);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(odd_layers), cmocka_unit_test(nothing_known),
                                       cmocka_unit_test(many_inputs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
