/* SPDX-License-Identifier: Apache-2.0
 *
 * What is not known, by name; a number with its formula; rows summed up to a depth; the caller's own
 * counts; and every allocation failing in turn. */
#include "kit/oom.h"

#include "kit/text_net.h"

/* Net(fc, swish, swish2, mine: a subclass of ReLU with its own forward, jit: opaque, block: Block(act)). */
static lam_model *odd(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_linear(&n, 2, 2), swish = net_leaf(&n, "Swish");
    int32_t swish2 = net_leaf(&n, "Swish"), block = net_module(&n, "Block", 0), act = net_leaf(&n, "GELU");
    int32_t mine = net_subclass(&n, "MyReLU", "ReLU", LAM_MODULE_LEAF | LAM_MODULE_OWN_FORWARD);
    int32_t jit = net_module(&n, "RecursiveScriptModule", LAM_MODULE_LEAF | LAM_MODULE_OPAQUE);
    int32_t never = net_leaf(&n, "Snake"), seq = net_module(&n, "Sequential", 0);
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    net_place(&n, p, "swish", swish);
    net_place(&n, p, "swish2", swish2);
    net_place(&n, p, "mine", mine);
    net_place(&n, p, "jit", jit);
    int32_t q = net_place(&n, p, "block", block), s = net_place(&n, q, "seq", seq);
    net_place(&n, s, "act", act);
    net_place(&n, p, "never", never);
    int32_t r = net_call(&n, root, -1, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, fc, r, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, swish, r, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, swish2, r, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, mine, r, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, jit, r, SH(1, 2), 0, SH(1, 2), 0);
    int32_t cb = net_call(&n, block, r, SH(1, 2), 0, SH(1, 2), 0);
    int32_t cs = net_call(&n, seq, cb, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, act, cs, SH(1, 2), 0, SH(1, 2), 0);
    return net_done(&n);
}

/* Also the first reason is one for all calls. */
static void two_calls_one_gap(void **state) {
    (void)state;
    lam_model *m = text_model("Sequential(Swish twice)", false, SH(1, 2));
    lam_costs *c = net_costs(m, "layers", false);
    assert_string_equal(lam_costs_gap(c, 0), "no rule for Swish (2 calls); the convention `exact` counts it");
    assert_null(lam_costs_gap(c, 1));
    lam_costs_free(c);
    lam_model_free(m);
}

static void gaps_by_name(void **state) {
    (void)state;
    static const char *const want[] = {
        "Net (1 call): what its own forward computes outside its layers is not seen by calls",
        "no rule for Swish (2 calls); the convention `exact` counts it",
        "MyReLU (1 call): its forward is its own, so the rule of ReLU may miss work",
        "RecursiveScriptModule (1 call): it is scripted, traced or compiled, and its inside is not seen by "
        "calls; the convention `exact` counts it",
        "Block (1 call): what its own forward computes outside its layers is not seen by calls",
    };
    lam_model *m = odd();
    lam_costs *c = net_costs(m, "layers", false);
    for (int32_t i = 0; i < 5; i++) assert_string_equal(lam_costs_gap(c, i), want[i]);
    assert_null(lam_costs_gap(c, 5));
    net_expect(lam_costs_row(c, 2)->metric[LAM_MACS], 0, LAM_UNKNOWN);
    assert_string_equal(lam_costs_row(c, 2)->reason, "no rule for Swish");
    assert_int_equal(lam_costs_row(c, 4)->metric[LAM_FLOPS].state, LAM_AT_LEAST);
    assert_int_equal(lam_costs_row(c, 4)->metric[LAM_FLOPS].n, 2);
    net_expect(lam_costs_row(c, 5)->metric[LAM_FLOPS], 0, LAM_UNKNOWN);
    net_expect(lam_costs_row(c, 6)->metric[LAM_FLOPS], 0, LAM_UNKNOWN); /* Block */
    net_expect(lam_costs_row(c, 7)->metric[LAM_FLOPS], 0, LAM_EXACT);   /* Sequential */
    assert_null(lam_costs_row(c, 7)->reason);
    net_expect(lam_costs_total(c, LAM_MACS), 4, LAM_AT_LEAST); /* something unknown went in: a lower bound */
    net_expect(lam_costs_row(c, 0)->below->total[LAM_MACS], 4, LAM_AT_LEAST);
    lam_costs_free(c);
    lam_model_free(m);
}

static void without_a_rule(void **state) {
    (void)state;
    int32_t n = -1;
    lam_model *m = odd();
    lam_costs *c = net_costs(m, "torchscan", true);
    assert_string_equal(lam_costs_unruled(c, 0, &n), "Swish");
    assert_int_equal(n, 2);
    assert_string_equal(lam_costs_unruled(c, 1, NULL), "RecursiveScriptModule");
    assert_string_equal(lam_costs_unruled(c, 2, NULL), "GELU");
    assert_string_equal(lam_costs_unruled_path(c, 2), "torch.nn.GELU");
    assert_null(lam_costs_unruled(c, 3, &n));
    assert_null(lam_costs_unruled(c, -1, &n));
    assert_null(lam_costs_unruled_path(c, -1));
    assert_null(lam_costs_unruled_path(c, 3));
    lam_costs_free(c);
    /* thoplw names every class it passes over, containers of the user's own and what is never called
     * included; the root and Sequential not. MyReLU is not ReLU itself. */
    static const char *const want[] = {"Swish", "MyReLU", "RecursiveScriptModule", "Block", "GELU", "Snake"};
    c = net_costs(m, "thoplw", true);
    for (int32_t i = 0; i < 6; i++) assert_string_equal(lam_costs_unruled(c, i, &n), want[i]);
    assert_int_equal(n, 0);
    assert_null(lam_costs_unruled(c, 6, NULL));
    assert_int_equal(lam_costs_n_rows(c), 2); /* what nobody sees into is unknown, and not left out */
    net_expect(lam_costs_row(c, 1)->metric[LAM_MACS], 0, LAM_UNKNOWN);
    assert_non_null(lam_costs_gap(c, 0));
    assert_null(lam_costs_gap(c, 1));
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- calls that raised ------------------------------------------------------------------------- */

static void failed(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), act = net_leaf(&n, "ReLU"), fc = net_linear(&n, 2, 2);
    int32_t after = net_linear(&n, 2, 2), p = net_place(&n, -1, "", root);
    net_bool(&n, act, "inplace", false);
    net_place(&n, p, "0", act);
    net_place(&n, p, "1", fc);
    net_place(&n, p, "2", after);
    int32_t r = net_call_flags(&n, root, -1, LAM_CALL_FAILED, SH(1, 3), 0, SH(1, 3), 0);
    net_call(&n, act, r, SH(1, 3), 0, SH(1, 3), 0);
    net_call_flags(&n, fc, r, LAM_CALL_FAILED, SH(1, 3), 0, SH(1, 3), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "torchscan", false);
    assert_int_equal(lam_costs_n_rows(c), 4);
    net_expect(lam_costs_row(c, 0)->metric[LAM_FLOPS], 0, LAM_UNKNOWN);
    net_expect(lam_costs_row(c, 1)->metric[LAM_FLOPS], 3, LAM_EXACT);
    net_expect(lam_costs_row(c, 2)->metric[LAM_FLOPS], 0, LAM_UNKNOWN);
    assert_true(lam_costs_row(c, 3)->never_called);
    net_expect(lam_costs_total(c, LAM_FLOPS), 3, LAM_AT_LEAST);
    assert_string_equal(lam_costs_gap(c, 0),
                        "Sequential (1 call): it raised, so what it would have computed is not known");
    assert_string_equal(lam_costs_row(c, 2)->reason,
                        "it raised, so what it would have computed is not known");
    lam_costs_free(c);
    lam_model_free(m);
}

static void missing_facts(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), fc = net_linear(&n, 2, 2), conv = net_leaf(&n, "Conv2d");
    int32_t up = net_leaf(&n, "Upsample"), p = net_place(&n, -1, "", root);
    net_place(&n, p, "0", fc);
    net_place(&n, p, "1", conv);
    net_place(&n, p, "2", up);
    net_text(&n, up, "mode", "trilinear");
    int32_t r = net_call(&n, root, -1, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, fc, r, SH((int64_t)1 << 62, 2), 0, SH((int64_t)1 << 62, 2), 0);
    net_call(&n, conv, r, SH(1, 2, 3, 3), 0, SH(1, 2, 3, 3), 0);
    net_call(&n, up, r, SH(1, 2, 3, 3, 3), 0, SH(1, 2, 6, 6, 6), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "thoplw", false);
    net_expect(lam_costs_row(c, 1)->metric[LAM_MACS], 0, LAM_UNKNOWN);
    net_expect(lam_costs_row(c, 2)->metric[LAM_MACS], 0, LAM_UNKNOWN);
    assert_non_null(strstr(lam_costs_row(c, 1)->reason, "the formula of linear"));
    assert_non_null(strstr(lam_costs_row(c, 2)->reason, "the formula of conv needs `"));
    assert_string_equal(lam_costs_row(c, 3)->reason, "the rule of upsample gives no number for this case");
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- the caller's own counts ------------------------------------------------------------------- */

static bool count_swish(void *self, const lam_model *m, int32_t event, lam_count out[LAM_N_METRICS],
                        bool *omit) {
    int *calls = self;
    const lam_module *mod = lam_model_module(m, lam_model_event(m, event)->module);
    (*calls)++;
    if (strcmp(mod->type, "Linear") == 0)
        *omit = true;
    else if (strcmp(mod->type, "Swish") != 0)
        return false;
    out[LAM_MACS] = (lam_count){100, 0, LAM_EXACT};
    return true;
}

static void custom(void **state) {
    (void)state;
    int calls = 0;
    lam_model *m = odd();
    lam_costs *c = NULL;
    lam_cost_options o = {.convention = "thoplw",
                          .released = true,
                          .custom = count_swish,
                          .custom_self = &calls};
    assert_int_equal(lam_costs_new(&c, m, &o, NULL), LAM_OK);
    assert_int_equal(calls, lam_model_n_events(m));
    assert_int_equal(lam_costs_n_rows(c), 3); /* Linear is left out; both Swish and the scripted one are in */
    net_expect(lam_costs_total(c, LAM_MACS), 200, LAM_AT_LEAST);
    net_expect(lam_costs_total(c, LAM_FLOPS), 0, LAM_UNKNOWN);
    assert_string_equal(lam_costs_unruled(c, 0, NULL), "MyReLU");
    lam_why why;
    assert_int_equal(lam_costs_why(c, 0, 0, &why, NULL), LAM_OK);
    assert_null(why.formula);
    assert_string_equal(why.note, "counted by a function of the caller's own");
    lam_costs_free(c);
    o.convention = "torchscan"; /* which has a row for every layer that is not left out */
    assert_int_equal(lam_costs_new(&c, m, &o, NULL), LAM_OK);
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++)
        assert_string_not_equal(lam_model_module(m, lam_costs_row(c, i)->module)->type, "Linear");
    lam_costs_free(c);
    o.convention = "layers";
    o.released = false;
    assert_int_equal(lam_costs_new(&c, m, &o, NULL), LAM_OK);
    assert_int_equal(lam_costs_row(c, 1)->counted, false);
    net_expect(lam_costs_row(c, 1)->metric[LAM_MACS], 0, LAM_EXACT);
    net_expect(lam_costs_row(c, 2)->metric[LAM_MACS], 100, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- a number with its formula ----------------------------------------------------------------- */

static void why(void **state) {
    (void)state;
    lam_model *m = odd();
    lam_costs *c = net_costs(m, "torchscan", false);
    lam_why w;
    assert_int_equal(lam_costs_why(c, 1, LAM_FLOPS, &w, NULL), LAM_OK);
    assert_string_equal(w.formula, "out*(2*red-1+bias)");
    assert_string_equal(w.substituted, "2 \xc3\x97 (2 \xc3\x97 2 - 1 + 1)");
    assert_int_equal(w.metric, LAM_FLOPS);
    assert_string_equal(w.words, "matrix product over the last axis");
    assert_int_equal(w.n_facts, 3); /* out, red and bias */
    for (int32_t i = 0; i < w.n_facts; i++)
        assert_int_equal(w.facts[i].value, strcmp(w.facts[i].name, "bias") == 0 ? 1 : 2);
    net_expect(w.value, 8, LAM_EXACT);
    assert_int_equal(lam_costs_why(c, 2, 0, &w, NULL), LAM_OK);
    assert_null(w.formula);
    assert_string_equal(w.note, "no rule for Swish");
    assert_int_equal(lam_costs_why(c, 0, 0, &w, NULL), LAM_OK);
    assert_string_equal(w.note, "it only calls its layers, and their work is theirs");
    int32_t last = lam_costs_n_rows(c) - 1;
    assert_true(lam_costs_row(c, last)->never_called);
    assert_int_equal(lam_costs_why(c, last, 0, &w, NULL), LAM_OK);
    assert_string_equal(w.note, "it was never called");
    lam_error e = {0};
    assert_int_equal(lam_costs_why(c, 0, LAM_N_METRICS, &w, &e), LAM_RANGE);
    e = (lam_error){0};
    assert_int_equal(lam_costs_why(c, 99, 0, &w, &e), LAM_RANGE);
    assert_non_null(strstr(e.text, "no row 99"));
    const char *name;
    int64_t value;
    bool in = false;
    int32_t i = 0;
    for (; lam_costs_fact(c, 1, i, &name, &value); i++) {
        in = in || (strcmp(name, "in") == 0 && value == 2);
        assert_string_not_equal(name, "plain_params"); /* known, but of no formula of this convention */
    }
    assert_true(in && i > 3);
    assert_false(lam_costs_fact(c, last, 0, &name, &value));
    assert_false(lam_costs_fact(c, 99, 0, &name, &value));
    assert_false(lam_costs_fact(c, 1, -1, &name, &value));
    lam_costs_free(c);
    lam_model_free(m);
}

static void why_released(void **state) {
    (void)state;
    net n = net_new();
    int32_t conv = net_conv(&n, "Conv1d", 1, 2, 2, 3, 1, 1);
    net_place(&n, -1, "", conv);
    net_call(&n, conv, -1, SH(4, 2, 8), 0, SH(4, 2, 8), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "thoplw", true);
    lam_why w;
    assert_int_equal(lam_costs_why(c, 0, 0, &w, NULL), LAM_OK);
    assert_string_equal(w.formula, "batch*weights*osp+biases"); /* the released one fails for one axis */
    net_expect(w.value, 4 * 12 * 8 + 2, LAM_EXACT);
    net_expect(lam_costs_row(c, 0)->metric[LAM_MACS], 4 * 12 * 8 + 2, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- summed up to a depth ---------------------------------------------------------------------- */

static void aggregate(void **state) {
    (void)state;
    lam_model *m = net_two_parents(false);
    lam_costs *c = net_costs(m, "torchscan", true);
    lam_error e = {0};
    assert_int_equal(lam_costs_aggregate(c, 5, &e), LAM_USAGE);
    assert_string_equal(e.text, "max_depth=5 is beyond the tree: the deepest layer has depth 2; pass 0 to 2");
    e = (lam_error){0};
    assert_int_equal(lam_costs_aggregate(c, -1, &e), LAM_USAGE);
    assert_string_equal(e.text, "max_depth=-1 is above the tree: the deepest layer has depth 2; pass 0 to 2");
    assert_int_equal(lam_costs_n_rows(c), 7);
    assert_int_equal(lam_costs_aggregate(c, 2, NULL), LAM_OK);
    assert_int_equal(lam_costs_n_rows(c), 7);
    assert_int_equal(lam_costs_aggregate(c, 1, NULL), LAM_OK);
    assert_int_equal(lam_costs_n_rows(c), 3);
    net_expect(lam_costs_row(c, 0)->metric[LAM_FLOPS], 0, LAM_EXACT);
    net_expect(lam_costs_row(c, 1)->metric[LAM_FLOPS], 36, LAM_EXACT);
    net_expect(lam_costs_row(c, 1)->params, 20, LAM_EXACT);
    net_expect(lam_costs_row(c, 2)->params, 0, LAM_EXACT);
    net_expect(lam_costs_row(c, 2)->metric[LAM_DMAS], 36, LAM_EXACT);
    net_expect(lam_costs_total(c, LAM_FLOPS), 72, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* The released tool fails on a container whose children never ran; it keeps its own numbers. */
static void aggregate_empty(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), box = net_module(&n, "Box", 0), fc = net_linear(&n, 2, 2);
    int32_t p = net_place(&n, -1, "", root), q = net_place(&n, p, "box", box);
    net_place(&n, q, "fc", fc);
    int32_t r = net_call(&n, root, -1, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, box, r, SH(1, 2), 0, SH(1, 2), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "torchscan", true);
    assert_int_equal(lam_costs_aggregate(c, 1, NULL), LAM_OK);
    assert_int_equal(lam_costs_n_rows(c), 2);
    net_expect(lam_costs_row(c, 1)->params, 0, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
    n = net_new();
    net_place(&n, -1, "", net_linear(&n, 1, 1));
    m = net_done(&n);
    c = net_costs(m, "torchscan", true);
    lam_error e = {0};
    assert_int_equal(lam_costs_aggregate(c, 0, &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "no layer was called"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void cost_it(void *arg, bool *ok) {
    const net_costing *j = arg;
    lam_error e = {0};
    lam_costs *c = NULL;
    lam_cost_options o = {.convention = j->convention, .released = j->released};
    lam_status s = lam_costs_new(&c, j->model, &o, &e);
    lam_why w;
    if (s == LAM_OK) s = lam_costs_why(c, 1, 0, &w, &e);
    *ok = oom_check(s, &e);
    lam_costs_free(c);
}

static void out_of_memory(void **state) {
    (void)state;
    static const char *const conventions[] = {"layers", "torchscan", "thoplw"};
    lam_model *models[] = {odd(), net_two_parents(false)};
    for (int i = 0; i < 12; i++) {
        net_costing j = {models[i % 2], conventions[i / 2 % 3], i >= 6};
        if (j.released && i / 2 % 3 == 2 && i % 2 == 0) continue; /* one row only */
        oom_sweep(cost_it, &j);
    }
    lam_model_free(models[0]);
    lam_model_free(models[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_by_name),
        cmocka_unit_test(two_calls_one_gap),
        cmocka_unit_test(without_a_rule),
        cmocka_unit_test(failed),
        cmocka_unit_test(missing_facts),
        cmocka_unit_test(custom),
        cmocka_unit_test(why),
        cmocka_unit_test(why_released),
        cmocka_unit_test(aggregate),
        cmocka_unit_test(aggregate_empty),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
