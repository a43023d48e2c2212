/* SPDX-License-Identifier: Apache-2.0
 * Which rule serves a module, which of its forms is used, and what its formulas say. */
#include "kit/bare_layer.h"
#include "kit/rule_count.h"

#include "count/ops/facts_op.h"

/* -- released forms ------------------------------------------------------------------------------------ */

static void interpolations(void **state) {
    (void)state;
    static const char *const names[] = {"nearest", "linear",        "bilinear", "trilinear",
                                        "bicubic", "nearest-exact", "area",     "lanczos"};
    for (int64_t i = 0; i < 8; i++) {
        start("Upsample");
        attr_type("mode", LAM_TEXT, 0, names[i]);
        call1(arg(SIZES(1, 2, 4, 4)), arg(SIZES(1, 2, 8, 8)));
        IS(interp, i < 7 ? i : -1);
        lam_count got[LAM_N_METRICS];
        const lmi_convention *c = lmi_convention_named("thoplw", NULL);
        lam_module exact = {.word = lam_word_module("Upsample"), .flags = LAM_MODULE_EXACT};
        got[0] = count_by(lmi_rule_for(c, &exact), LAM_MACS, true, &facts);
        static const int64_t per[] = {0, 4, 6, -1, 20, -1, -1, -1};
        assert_int_equal(got[0].state, per[i] < 0 ? LAM_UNKNOWN : LAM_EXACT);
        if (per[i] >= 0) assert_int_equal(got[0].n, per[i] * 128);
        done(NULL);
    }
    start("Upsample"); /* no name of a mode */
    attr_int("mode", 1);
    call1(arg(SIZES(1, 2, 4, 4)), arg(SIZES(1, 2, 8, 8)));
    UNKNOWN(interp);
    done(NULL);
    start("Upsample"); /* no mode at all */
    call1(arg(SIZES(1, 2, 4, 4)), arg(SIZES(1, 2, 8, 8)));
    UNKNOWN(interp);
}

static void bare_transformer(void **state) {
    (void)state;
    start("Transformer");
    call1(arg(SIZES(6, 2, 16)), arg(SIZES(6, 2, 16)));
    UNKNOWN(enc_layers);
    UNKNOWN(dec_layers);
    UNKNOWN(tgt_len);
    UNKNOWN(ff);
    IS(final_norms, 0);
}

static void child_attr(int32_t module, const char *name, lam_value v) {
    assert_int_equal(lam_build_attr(bare.b, module, name, &v, NULL), LAM_OK);
}

/* nn.Transformer with one encoder layer; what is NULL is left out. */
static void transformer(const char *wide, const char *dropout, lam_value p, const char *activation) {
    start("Transformer");
    int32_t encoder = add_place(0, "encoder", "TransformerEncoder", 0);
    int32_t layer =
        add_place(add_place(encoder, "layers", "ModuleList", 0), "0", "TransformerEncoderLayer", 0);
    if (wide) {
        int32_t linear = add_place(layer, wide, "Linear", 0);
        child_attr(linear, "out_features", (lam_value){.type = LAM_INT, .i = 32});
        own(linear, "weight", SIZES(32, 16));
    }
    if (dropout) child_attr(add_place(layer, dropout, "Dropout", 0), "p", p);
    if (activation) add_place(layer, activation, "ReLU", 0);
    const lam_arg in[] = {arg(SIZES(6, 2, 16)), arg(SIZES(5, 2, 16))};
    lam_arg second = in[1], out = in[1];
    second.position = 1;
    call(2, (const lam_arg[]){in[0], second}, 1, &out);
}

static void transformers(void **state) {
    lam_value half = {.type = LAM_FLOAT, .f = 0.5}, zero = {.type = LAM_FLOAT},
              one = {.type = LAM_INT, .i = 1};
    transformer("linear1", "dropout1", half, NULL);
    IS(enc_layers, 1);
    UNKNOWN(dec_layers);
    IS(tgt_len, 5);
    IS(ff, 32);
    IS(bias, 0);
    IS(drops, 1);
    done(state);
    transformer("linear1", "dropout1", zero, NULL);
    IS(drops, 0);
    done(state);
    transformer("linear1", "dropout1", one, NULL);
    IS(drops, 1);
    done(state);
    transformer("linear1", NULL, one, NULL);
    IS(drops, 0);
    done(state);
    transformer("linear1", "dropout1", half, "activation"); /* counted by its class: not told apart here */
    UNKNOWN(ff);
    done(state);
    transformer(NULL, "dropout1", half, NULL);
    UNKNOWN(ff);
}

/* What stands in a layer beside it is no part of it. */
static void a_neighbours_child(void **state) {
    (void)state;
    start("Sequential");
    int32_t layer = add_place(0, "layer", "TransformerEncoderLayer", 0), event;
    int32_t other = add_place(0, "other", "Sequential", 0), linear = add_place(other, "linear1", "Linear", 0);
    child_attr(linear, "out_features", (lam_value){.type = LAM_INT, .i = 32});
    const lam_arg x = arg(SIZES(6, 2, 16));
    const lam_call_info c = {.module = layer, .parent = -1, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
    assert_int_equal(lam_build_call(bare.b, &c, &event, NULL), LAM_OK);
    model = net_done(&bare);
    lmi_facts_of(model, event, &facts);
    UNKNOWN(ff);
}

/* -- operators ------------------------------------------------------------------------------------ */

/* `name` of x and of a list at each of two places, in a call of a layer of `class_name`; its facts. */
static void op_in(const char *class_name, const char *name) {
    static const int64_t shape[] = {2, 3}, wanted[] = {4, 5}, other[] = {7};
    start(class_name);
    const lam_arg x = arg(SIZES(2, 3));
    const lam_call_info c = {.parent = -1, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
    lam_op_arg in[3] = {{.is_tensor = true, .dtype = 6, .ndim = 2, .sizes = shape}};
    for (int i = 1; i < 3; i++)
        in[i] = (lam_op_arg){.position = i,
                             .dtype = -1,
                             .device = -1,
                             .ndim = -1,
                             .value = {.type = LAM_INTS, .n = 3 - i, .ints = i == 1 ? wanted : other}};
    const lam_op_info op = {.name = name, .parent = -1, .n_in = 3, .n_out = 1, .in = in, .out = in};
    int32_t event, index;
    assert_int_equal(lam_build_call(bare.b, &c, &event, NULL), LAM_OK);
    assert_int_equal(lam_build_op(bare.b, &op, &index, NULL), LAM_OK);
    model = net_done(&bare);
    lmi_facts_of_op(model, index, &facts);
}

/* Activations that a layer of a transformer calls by a name of its own, and the sizes that are asked for. */
static void operators_of_layers(void **state) {
    static const struct {
        const char *class_name;
        int64_t want;
    } all[] = {{"TransformerEncoderLayer", 1}, {"TransformerDecoderLayer", 1}, {"Linear", 0}, {"Mine", 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        op_in(all[i].class_name, "aten::relu");
        IS(by_encoder, all[i].want);
        done(state);
    }
    op_in("Mine", "aten::upsample_nearest2d");
    IS(sized, 4 * 5);
}

/* -- rules --------------------------------------------------------------------------------------------- */

static bool serves(const char *only, const char *class_name) {
    lam_module mod = {.word = lam_word_module(class_name)};
    lmi_kind kind = lmi_word_kind(mod.word);
    const lmi_rule rule = {.kind = kind, .only = only};
    uint8_t places[LMI_N_KINDS] = {0};
    places[kind] = 1;
    const lmi_rule_table rules = {.rows = &rule, .places = places, .n = 1};
    lmi_convention c = {.rules = &rules, .match = LMI_SUBCLASS};
    const lmi_rule *found = lmi_rule_for(&c, &mod);
    assert_true(!found || found == &rule);
    places[kind] = 0;
    assert_null(lmi_rule_for(&c, &mod));
    return found != NULL;
}

static void only_some_spellings(void **state) {
    (void)state;
    assert_true(serves(NULL, "Conv2d"));
    assert_true(serves("Conv2d", "Conv2d"));
    assert_true(serves("Conv1d Conv2d", "Conv2d"));
    assert_true(serves("Conv2d Conv1d", "Conv2d"));
    assert_true(serves("LazyConv2d Conv2dX Conv2d", "Conv2d"));
    assert_false(serves("Conv1d", "Conv2d"));
    assert_false(serves("LazyConv2d", "Conv2d"));
    assert_false(serves("Conv2dX", "Conv2d"));
}

/* Rules are listed one table after the other: of layers, then, where a convention hooks both, of operators.
 */
static void listed_rules_say_whose_they_are(void **state) {
    (void)state;
    const lmi_convention *c;
    bool both = false;
    for (int32_t k = 0; (c = lmi_convention_at(k)) != NULL; k++) {
        const int32_t first = c->rules->n;
        int32_t i = 0;
        lam_rule rule;
        for (; lam_convention_rule(k, i, &rule, NULL) == LAM_OK; i++)
            if (rule.of_op != (c->which == LMI_OPS || i >= first))
                fail_msg("%s: rule %d, of %s", c->name, (int)i, rule.kind);
        assert_int_equal(i > first, c->which == LMI_HOOKS);
        both = both || i > first;
    }
    assert_true(both);
}

/* Which tools see the layers that a fused kernel would hide: those with hooks, and those that see what is
 * called. */
static void who_needs_layers_unfused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool unfused;
    } all[] = {{"exact", false},    {"layers", false}, {"torchscan", true}, {"thoplw", true},
               {"torchinfo", true}, {"ptflops", true}, {"deepspeed", true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (lmi_unfused(lmi_convention_named(all[i].name, NULL)) != all[i].unfused)
            fail_msg("%s", all[i].name);
}

/* A parameter of no elements is known, and one whose size nobody knows makes the sum unknown. */
static void parameters_of_no_elements(void **state) {
    for (int known = 0; known < 2; known++) {
        bare = net_new();
        add_place(-1, "", "Linear", LAM_MODULE_LEAF);
        if (known)
            own(0, "weight", SIZES(0, 4));
        else
            own(0, "weight", UNKNOWN_SHAPE);
        own(0, "bias", SIZES(3));
        call1(arg(SIZES(2, 4)), arg(SIZES(2, 0)));
        IS(plain_params, known ? 3 : -1);
        IS(params_bytes, known ? 12 : -1);
        done(state);
    }
}

/* Interpolations are of 3 to 5 axes. */
static void interpolations_of_other_axes(void **state) {
    for (int32_t ndim = 2; ndim <= 6; ndim++) {
        static const int64_t sizes[] = {1, 2, 4, 4, 4, 4};
        start("Upsample");
        attr_type("mode", LAM_TEXT, 0, "nearest");
        attr_int("scale_factor", 1);
        call1(arg(ndim, sizes), arg(ndim, sizes));
        IS(taps, ndim >= 3 && ndim <= 5 ? 1 : -1);
        done(state);
    }
}

/* One tensor given twice comes in once; two shapes of one memory are two tensors. */
static void tensors_of_one_memory(void **state) {
    for (int same = 0; same < 2; same++) {
        start("Bilinear");
        lam_arg in[] = {arg(SIZES(2, 6)), arg(SIZES(2, 3))}, out = arg(SIZES(2, 4));
        if (same) in[1] = in[0];
        in[0].storage = in[1].storage = 9;
        in[1].position = 1;
        call(2, in, 1, &out);
        IS(in_once, same ? 12 : 18);
        done(state);
    }
}

/* A formula that can't be read counts nothing, as one that is missing. */
static void unread_formula(void **state) {
    (void)state;
    lmi_rule r = {.formula = {"7", "(", NULL}};
    memset(&facts, 0, sizeof facts);
    assert_int_equal(lmi_rule_count(&r, LAM_MACS, &facts).n, 7);
    assert_int_equal(lmi_rule_count(&r, LAM_FLOPS, &facts).state, LAM_UNKNOWN);
    assert_int_equal(lmi_rule_count(&r, LAM_DMAS, &facts).state, LAM_UNKNOWN);
}

/* torchscan's released form of an average pool takes every axis after the first two for a spatial one, so
 * without a batch it has one too few. */
static void a_pool_as_it_was_released(void **state) {
    for (int released = 0; released < 2; released++) {
        start("AvgPool2d");
        attr_int("kernel_size", 3);
        attr_int("stride", 1);
        attr_int("padding", 0);
        call1(arg(SIZES(2, 4, 4)), arg(SIZES(2, 2, 2)));
        lam_count got[LAM_N_METRICS];
        count_first("torchscan", model, released, got);
        assert_int_equal(got[LAM_FLOPS].n, 8 * (3 - 1 + (released ? 1 : 2)));
        assert_int_equal(got[LAM_DMAS].n, 8 * (released ? 3 : 9) + 8);
        done(state);
    }
}

/* A count that does not fit is unknown, not wrapped. */
static void overflow(void **state) {
    (void)state;
    start("Linear");
    attr_int("in_features", INT64_C(1) << 62);
    attr_int("out_features", 4);
    call1(arg(SIZES(INT64_C(1) << 40, 1)), arg(SIZES(INT64_C(1) << 40, 4)));
    lam_count got[LAM_N_METRICS];
    count_first("torchscan", model, true, got);
    assert_int_equal(got[LAM_MACS].state, LAM_UNKNOWN);
    assert_int_equal(got[LAM_FLOPS].state, LAM_UNKNOWN);
}

int main(void) {
#define TEST(f) cmocka_unit_test_teardown(f, done)
    const struct CMUnitTest tests[] = {
        TEST(interpolations),
        TEST(bare_transformer),
        TEST(transformers),
        TEST(a_neighbours_child),
        TEST(operators_of_layers),
        TEST(listed_rules_say_whose_they_are),
        TEST(tensors_of_one_memory),
        TEST(only_some_spellings),
        TEST(unread_formula),
        TEST(overflow),
        TEST(who_needs_layers_unfused),
        TEST(parameters_of_no_elements),
        TEST(interpolations_of_other_axes),
        TEST(a_pool_as_it_was_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
