/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the caller's own in costs: they win for operators and for layers, by formula or by asking. */
#include "kit/oom.h"

#include "kit/ops_net.h"

static lam_rules *rules(const char *text) {
    lam_rules *r;
    assert_int_equal(lam_rules_new(&r, NULL), LAM_OK);
    assert_int_equal(lam_rules_read(r, text, "my.rules", NULL), LAM_OK);
    return r;
}

static lam_costs *count(const lam_model *m, lam_cost_options o) {
    lam_costs *c;
    lam_error e = {0};
    if (lam_costs_new(&c, m, &o, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return c;
}

enum { ROOT, FC, ACT, MINE };

/* Of net_step: two runs of my::op, which no rule of ours serves. Its operators have no tensors here. */
static void for_operators(void **state) {
    (void)state;
    lam_model *m = net_step();
    const char *text = "my::op macs = 100 flops = 2*macs+1 dmas = 5 bytes_read = 20 bytes_written = 0\n"
                       "aten::linear macs = 7 flops = 8 dmas = 9 bytes_read = 36 bytes_written = 0";
    lam_rules *r = rules(text);
    lam_costs *c = count(m, (lam_cost_options){.convention = "exact", .own = r});
    lam_rules_free(r); /* was copied */
    const lam_cost_row *mine = net_row_of(c, MINE), *fc = net_row_of(c, FC);
    net_expect(mine->metric[LAM_MACS], 40 + 200, LAM_EXACT);
    net_expect(mine->metric[LAM_FLOPS], 80 + 402, LAM_EXACT);
    assert_null(mine->reason);
    assert_null(lam_costs_unruled_op(c, 0, NULL));
    /* A rule of one's own counts everything inside, also of what only calls others. */
    net_expect(fc->metric[LAM_MACS], 7, LAM_EXACT);
    net_expect(fc->phases->backward[LAM_MACS], 48, LAM_EXACT);
    assert_string_equal(lam_convention_name(lam_costs_convention(c)), "exact");
    lam_costs_free(c);
    lam_model_free(m);
}

static lam_model *shaped(void) {
    net n = net_new();
    net_calls calls = net_plain(&n);
    const lam_op_arg in[] = {T(0, 2, 3, 4, 5),
                             T(1, 6, 7),
                             {.position = 2, .value = {.type = LAM_INT, .i = 9}}},
                     out[] = {T(0, 8, 10)};
    net_op_args(&n, "my::op", (op_at){calls.mine, -1, LAM_FORWARD, 0}, in, 3, out, 1);
    return net_done(&n);
}

/* Facts of an operator that has no word: sizes, axes, and whole numbers among its arguments. */
static void facts_of_any_operator(void **state) {
    (void)state;
    static const struct {
        const char *formula;
        int64_t value;
    } cases[] = {{"in", 120},        {"out", 80},    {"ins", 162}, {"outs", 80}, {"x0*1000+x3", 2005},
                 {"x2", 4},          {"x_last", 5},  {"in_z", 42}, {"z0", 6},    {"z_last", 7},
                 {"y0*100+y1", 810}, {"y_last", 10}, {"dims", 4},  {"arg2", 9}};
    lam_model *m = shaped();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lam_rules *r;
        const char *const formula[LAM_N_METRICS] = {cases[i].formula, "0", "0"};
        assert_int_equal(lam_rules_new(&r, NULL), LAM_OK);
        assert_int_equal(lam_rules_add(r, "my::op", formula, false, NULL), LAM_OK);
        lam_costs *c = count(m, (lam_cost_options){.convention = "exact", .own = r});
        net_expect(net_row_of(c, MINE)->metric[LAM_MACS], cases[i].value, LAM_EXACT);
        lam_costs_free(c);
        lam_rules_free(r);
    }
    lam_model_free(m);
}

/* What a rule leaves open or can't tell is unknown, with a sentence. */
static void what_is_missing(void **state) {
    (void)state;
    lam_model *m = shaped();
    lam_rules *r = rules("my::op macs = y3 flops = 7 dmas = 8");
    lam_costs *c = count(m, (lam_cost_options){.convention = "exact", .own = r});
    assert_int_equal(net_row_of(c, MINE)->metric[LAM_MACS].state, LAM_UNKNOWN);
    net_expect(net_row_of(c, MINE)->metric[LAM_FLOPS], 7, LAM_EXACT);
    assert_string_equal(net_row_of(c, MINE)->reason,
                        "the operator my::op: the formula of my::op needs `y3`, which "
                        "its arguments do not tell");
    lam_costs_free(c);
    lam_rules_free(r);
    r = rules("my::op macs = 7 dmas = 8");
    c = count(m, (lam_cost_options){.convention = "exact", .own = r});
    net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 7, LAM_EXACT);
    assert_string_equal(net_row_of(c, MINE)->reason,
                        "the operator my::op: your rule for my::op gives no flops here");
    assert_null(lam_costs_unruled_op(c, 0, NULL)); /* it has a rule */
    lam_costs_free(c);
    lam_rules_free(r);
    lam_model_free(m);
}

/* -- layers ---------------------------------------------------------------------------------------------- */

static void for_layers(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_rules *r = rules("Mine macs = out*x_last flops = 2*macs dmas = ins+outs\nexact::op macs = 1");
    lam_costs *plain = net_costs(m, "layers", false);
    assert_int_equal(net_row_of(plain, MINE)->metric[LAM_MACS].state, LAM_UNKNOWN);
    lam_costs *c = count(m, (lam_cost_options){.convention = "layers", .own = r});
    const lam_cost_row *mine = net_row_of(c, MINE);
    net_expect(mine->metric[LAM_MACS], 10 * 4, LAM_EXACT);
    net_expect(mine->metric[LAM_DMAS], 8 + 10, LAM_EXACT);
    assert_string_equal(mine->rule_kind, "Mine");
    assert_true(mine->counted);
    lam_why w;
    bool found = false;
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++)
        if (lam_costs_row(c, i) == mine) {
            assert_int_equal(lam_costs_why(c, i, 0, &w, NULL), LAM_OK);
            assert_string_equal(w.formula, "out*x_last");
            assert_string_equal(w.substituted, "10 \xc3\x97 4");
            assert_string_equal(w.note, "a rule of your own, my.rules:1");
            found = true;
        }
    assert_true(found);
    lam_costs_free(c);
    /* What a released tool printed knows no such rules. */
    c = count(m, (lam_cost_options){.convention = "torchscan", .released = true, .own = r});
    lam_costs *old = net_costs(m, "torchscan", true);
    assert_int_equal(lam_costs_total(c, LAM_MACS).n, lam_costs_total(old, LAM_MACS).n);
    lam_costs_free(old);
    lam_costs_free(c);
    c = count(m, (lam_cost_options){.convention = "exact", .own = r});
    /* It stands for the operators that the layer's forward ran. */
    mine = net_row_of(c, MINE);
    net_expect(mine->metric[LAM_MACS], 40, LAM_EXACT);
    net_expect(mine->metric[LAM_FLOPS], 80, LAM_EXACT);
    net_expect(mine->metric[LAM_EFFECTIVE_MACS], 40, LAM_EXACT); /* nothing says that less is enough */
    assert_string_equal(mine->rule_kind, "Mine");
    assert_null(mine->reason);
    lam_costs_free(c);
    lam_costs_free(plain);
    lam_rules_free(r);
    lam_model_free(m);
}

/* The model itself is a layer with a rule, which stands for what its forward ran. */
static void for_the_root(void **state) {
    (void)state;
    net n = net_new();
    const int32_t root = net_leaf(&n, "Mine");
    net_place(&n, -1, "", root);
    const int32_t call = net_call(&n, root, -1, SH(2, 3), 0, SH(2, 4), 0);
    net_mm(&n, (op_at){call, -1, LAM_FORWARD, 0}, 2, 3, 4);
    lam_model *m = net_done(&n);
    lam_rules *r = rules("Mine macs = 7");
    lam_costs *c = count(m, (lam_cost_options){.convention = "exact", .own = r});
    net_expect(lam_costs_total(c, LAM_MACS), 7, LAM_EXACT);
    lam_costs_free(c);
    lam_rules_free(r);
    lam_model_free(m);
}

/* -- by asking ------------------------------------------------------------------------------------------- */

static bool answer(void *self, const lam_model *m, int32_t op, int32_t event, const char *name,
                   lam_count out[LAM_N_METRICS]) {
    int *asked = self;
    (void)m;
    assert_true((op >= 0) != (event >= 0));
    assert_string_equal(name, op >= 0 ? "my::op" : "Mine");
    (*asked)++;
    if (*asked > 1) return false;
    for (int i = 0; i < LAM_N_METRICS; i++) out[i] = (lam_count){1000 + i, 0, LAM_EXACT};
    return true;
}

static void by_asking(void **state) {
    (void)state;
    int asked = 0;
    lam_model *m = net_step();
    lam_rules *r;
    const char *const formula[LAM_N_METRICS] = {NULL, "5", NULL};
    assert_int_equal(lam_rules_new(&r, NULL), LAM_OK);
    assert_int_equal(lam_rules_add(r, "my::op", formula, true, NULL), LAM_OK);
    lam_costs *c =
        count(m, (lam_cost_options){.convention = "exact", .own = r, .ask = answer, .ask_self = &asked});
    assert_int_equal(asked, 2); /* once for each of the two */
    net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 40 + 1000, LAM_AT_LEAST);
    lam_count flops = net_row_of(c, MINE)->metric[LAM_FLOPS];
    net_expect(flops, 80 + 5 + 5, LAM_EXACT); /* what a formula gives is not asked */
    lam_count n[LAM_N_METRICS];
    for (int32_t i = 0, seen = 0; i < lam_model_n_ops(m); i++) {
        assert_int_equal(lam_costs_op(c, i, n, NULL, NULL), LAM_OK);
        if (n[LAM_MACS].n == 1000) seen++;
        if (i == lam_model_n_ops(m) - 1) assert_int_equal(seen, 1);
    }
    assert_int_equal(asked, 2); /* and not again */
    lam_costs_free(c);
    asked = 0;
    assert_int_equal(lam_rules_add(r, "Mine", NULL, true, NULL), LAM_OK);
    c = count(m, (lam_cost_options){.convention = "layers", .own = r, .ask = answer, .ask_self = &asked});
    net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 1000, LAM_EXACT);
    assert_int_equal(asked, 1);
    lam_costs_free(c);
    c = count(m, (lam_cost_options){.convention = "layers", .own = r}); /* nobody to ask */
    assert_int_equal(net_row_of(c, MINE)->metric[LAM_MACS].state, LAM_UNKNOWN);
    lam_costs_free(c);
    lam_rules_free(r);
    lam_model_free(m);
}

/* -- memory ---------------------------------------------------------------------------------------------- */

typedef struct world {
    lam_model *m;
    lam_rules *r;
} world;

static void counting(void *arg, bool *ok) {
    world *with = arg;
    int asked = 0;
    lam_costs *c = NULL;
    lam_cost_options o = {.convention = "exact", .own = with->r, .ask = answer, .ask_self = &asked};
    lam_status s = lam_costs_new(&c, with->m, &o, NULL);
    assert_true(s == LAM_OK || s == LAM_NOMEM);
    lam_costs_free(c);
    *ok = s == LAM_OK;
}

static void memory_runs_out(void **state) {
    (void)state;
    world with = {net_step(), rules("Mine flops = 3")};
    assert_int_equal(lam_rules_add(with.r, "my::op", NULL, true, NULL), LAM_OK);
    oom_sweep(counting, &with);
    lam_rules_free(with.r);
    lam_model_free(with.m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(for_operators),   cmocka_unit_test(facts_of_any_operator),
        cmocka_unit_test(what_is_missing), cmocka_unit_test(for_layers),
        cmocka_unit_test(for_the_root),    cmocka_unit_test(by_asking),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
