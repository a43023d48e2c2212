/* SPDX-License-Identifier: Apache-2.0
 *
 * Which calls become rows, and which row shows a parameter. The expected rows of torchscan and thoplw are
 * those of tests/data (shared_two_parents, tied_weight) or follow from what is known of the tools. */
#include "kit/oom.h"

#include "kit/stored_net.h"
#include "kit/text_net.h"

static const char *path(const lam_costs *c, int32_t i) {
    return lam_model_place(lam_costs_model(c), lam_costs_row(c, i)->place)->path;
}

static void expect_paths(const lam_costs *c, const char *const *paths) {
    int32_t n = 0;
    for (; paths[n]; n++) {
        if (n >= lam_costs_n_rows(c)) fail_msg("row %d, '%s', is missing", (int)n, paths[n]);
        assert_string_equal(path(c, n), paths[n]);
    }
    assert_int_equal(lam_costs_n_rows(c), n);
}
#define PATHS(c, ...) expect_paths(c, (const char *const[]){__VA_ARGS__, NULL})

static void expect(lam_count got, int64_t n, lam_state state) {
    assert_int_equal(got.n, n);
    assert_int_equal(got.over, 0);
    assert_int_equal(got.state, state);
}

/* -- a module under two parents ---------------------------------------------------------------- */

static void two_parents_torchscan(void **state) {
    (void)state;
    lam_model *m = net_two_parents(false);
    lam_costs *c = net_costs(m, "torchscan", true);
    PATHS(c, "", "a", "a.fc", "a.act", "b", "b.fc", "b.act");
    const lam_cost_row *first = lam_costs_row(c, 2), *second = lam_costs_row(c, 5);
    expect(first->params, 20, LAM_EXACT);
    expect(first->metric[LAM_FLOPS], 32, LAM_EXACT);
    expect(first->metric[LAM_MACS], 16, LAM_EXACT);
    expect(first->metric[LAM_DMAS], 28, LAM_EXACT);
    assert_false(first->shared);
    expect(second->params, 0, LAM_EXACT);
    expect(second->metric[LAM_FLOPS], 32, LAM_EXACT);
    assert_true(second->shared);
    assert_false(lam_costs_row(c, 1)->counted);
    assert_int_equal(lam_costs_row(c, 2)->depth, 2);
    expect(lam_costs_row(c, 1)->below->total[LAM_FLOPS], 36, LAM_EXACT);
    expect(lam_costs_row(c, 0)->below->total[LAM_FLOPS], 72, LAM_EXACT);
    expect(lam_costs_total(c, LAM_FLOPS), 72, LAM_EXACT);
    expect(lam_costs_params(c).params, 20, LAM_EXACT);
    expect(lam_costs_params(c).in_rows, 20, LAM_EXACT);
    expect(lam_costs_params(c).param_bytes, 80, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* Of a parameter that is spread over several processes, the part that is here is told beside the whole. */
static void spread_parameters(void **state) {
    (void)state;
    static const int64_t sizes[] = {10, 3};
    lam_error e = {0};
    net n = net_new();
    int32_t fc = net_leaf(&n, "Linear"), part, whole;
    lam_tensor_info info = {.dtype = NET_FLOAT32, .ndim = 2, .sizes = sizes, .bytes = -1};
    assert_int_equal(lam_build_tensor(n.b, &info, &part, NULL), LAM_OK);
    assert_int_equal(lam_build_tensor(n.b, &info, &whole, NULL), LAM_OK);
    assert_int_equal(lam_build_elsewhere(n.b, part, 12, NULL), LAM_OK);
    assert_int_equal(lam_build_elsewhere(n.b, part, -1, NULL), LAM_RANGE);
    assert_int_equal(lam_build_elsewhere(n.b, 2, 0, NULL), LAM_RANGE);
    assert_int_equal(lam_build_elsewhere(n.b, whole, 31, &e), LAM_RANGE);
    assert_non_null(strstr(e.text, "31"));
    assert_int_equal(lam_build_owns(n.b, fc, "weight", part, false, NULL), LAM_OK);
    assert_int_equal(lam_build_owns(n.b, fc, "other", whole, false, NULL), LAM_OK);
    net_place(&n, -1, "", fc);
    net_call(&n, fc, -1, SH(2, 3), 0, SH(2, 10), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    const lam_cost_row *row = lam_costs_row(c, 0);
    expect(row->params, 60, LAM_EXACT);
    expect(row->local_params, 48, LAM_EXACT);
    expect(row->local_bytes, 4 * 48, LAM_EXACT);
    expect(lam_costs_params(c).local_params, 48, LAM_EXACT);
    expect(lam_costs_params(c).local_bytes, 4 * 48, LAM_EXACT);
    expect(lam_costs_params(c).param_bytes, 4 * 60, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* A parameter counts as it is stored, beside what its shape and type give and what is here of it. A packed
 * weight is a parameter, but for tools that do not see it. */
static void stored_parameters(void **state) {
    (void)state;
    lam_model *m = stored_net(false);
    lam_costs *c = net_costs(m, "layers", false), *theirs = net_costs(m, "thoplw", true);
    lam_param_totals p = lam_costs_params(c);
    expect(p.params, 40 + 60 + 15, LAM_EXACT);
    expect(p.in_rows, 115, LAM_EXACT);
    expect(p.nograd_params, 15, LAM_EXACT);
    expect(p.param_bytes, 14 + 240 + 60, LAM_EXACT);
    expect(p.logical_bytes, 4 * 115, LAM_EXACT);
    expect(p.local_params, 40 + 48 + 15, LAM_EXACT);
    expect(p.local_bytes, 14 + 4 * 48 + 60, LAM_EXACT);
    expect(p.packed, 15, LAM_EXACT);
    expect(p.packed_bytes, 60, LAM_EXACT);
    expect(lam_costs_row(c, 0)->below->params, 115, LAM_EXACT);
    expect(lam_costs_row(c, 1)->param_bytes, 14, LAM_EXACT);
    expect(lam_costs_row(c, 1)->logical_bytes, 160, LAM_EXACT);
    expect(lam_costs_row(c, 3)->params, 15, LAM_EXACT);
    p = lam_costs_params(theirs);
    expect(p.params, 100, LAM_EXACT);
    expect(p.param_bytes, 14 + 240, LAM_EXACT);
    expect(p.packed, 15, LAM_EXACT);
    lam_costs_free(theirs);
    lam_costs_free(c);
    lam_model_free(m);
}

/* Bytes that are not known make a sum a lower bound, and a note names the parameter. */
static void parameters_of_unknown_bytes(void **state) {
    (void)state;
    lam_model *m = stored_net(true);
    lam_costs *c = net_costs(m, "layers", false);
    lam_param_totals p = lam_costs_params(c);
    expect(p.params, 122, LAM_EXACT);
    expect(p.param_bytes, 14 + 240 + 60, LAM_AT_LEAST);
    expect(p.local_bytes, 14 + 4 * 48 + 60, LAM_AT_LEAST);
    expect(p.logical_bytes, 4 * 122, LAM_EXACT);
    assert_non_null(strstr(lam_model_note(m, 0), "the bytes of p.lost are not known"));
    assert_null(lam_model_note(m, 1));
    lam_costs_free(c);
    lam_model_free(m);
}

static void two_parents_thoplw(void **state) {
    (void)state;
    lam_model *m = net_two_parents(false);
    lam_costs *c = net_costs(m, "thoplw", true);
    PATHS(c, "a.fc", "a.act", "b.act");
    expect(lam_costs_total(c, LAM_MACS), 20, LAM_EXACT);
    expect(lam_costs_total(c, LAM_FLOPS), 0, LAM_UNKNOWN);
    expect(lam_costs_params(c).in_rows, 20, LAM_EXACT);
    assert_int_equal(lam_costs_row(c, 0)->event, 5); /* the last of its calls */
    lam_costs_free(c);
    lam_model_free(m);
}

static void two_parents_every_call(void **state) {
    (void)state;
    static const char *const conventions[] = {"layers", "torchscan", "thoplw"};
    lam_model *m = net_two_parents(false);
    for (size_t i = 0; i < 3; i++) {
        lam_costs *c = net_costs(m, conventions[i], false);
        PATHS(c, "", "a", "a.fc", "a.act", "b", "b.fc", "b.act");
        expect(lam_costs_row(c, 2)->params, 20, LAM_EXACT);
        expect(lam_costs_row(c, 5)->params, 0, LAM_EXACT);
        assert_true(lam_costs_row(c, 5)->shared);
        expect(lam_costs_row(c, 4)->below->params, 20, LAM_EXACT);
        expect(lam_costs_row(c, 0)->below->params, 20, LAM_EXACT);
        expect(lam_costs_params(c).in_rows, 20, LAM_EXACT);
        assert_null(lam_costs_gap(c, 0));
        lam_costs_free(c);
    }
    lam_model_free(m);
}

/* -- a parameter of two modules ---------------------------------------------------------------- */

static void tied(void **state) {
    (void)state;
    lam_model *m = net_two_parents(true);
    lam_costs *c = net_costs(m, "torchscan", true);
    expect(lam_costs_row(c, 2)->params, 20, LAM_EXACT);
    expect(lam_costs_row(c, 5)->params, 4, LAM_EXACT);
    assert_true(lam_costs_row(c, 5)->shared);
    expect(lam_costs_params(c).params, 24, LAM_EXACT);
    lam_costs_free(c);
    c = net_costs(m, "thoplw", true);
    PATHS(c, "a.fc", "a.act", "b.fc", "b.act");
    expect(lam_costs_row(c, 2)->params, 20, LAM_EXACT);
    expect(lam_costs_params(c).in_rows, 40, LAM_EXACT);
    expect(lam_costs_params(c).params, 24, LAM_EXACT);
    lam_costs_free(c);
    c = net_costs(m, "layers", false);
    expect(lam_costs_row(c, 5)->params, 4, LAM_EXACT);
    expect(lam_costs_row(c, 4)->below->params, 20, LAM_EXACT);
    expect(lam_costs_row(c, 0)->below->params, 24, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- one object twice in one Sequential, and one called again ---------------------------------- */

static lam_model *twice_in_one(void) {
    net n = net_of_text("Sequential(Linear 3 3 idle; =0 idle)", false, SH(1, 3));
    net_call(&n, 1, 0, SH(1, 3), 0, SH(1, 3), 0);
    net_call(&n, 1, 0, SH(2, 3), 0, SH(2, 3), 0);
    return net_done(&n);
}

static void same_object_twice(void **state) {
    (void)state;
    lam_model *m = twice_in_one();
    lam_costs *c = net_costs(m, "torchscan", true);
    PATHS(c, "", "0");
    expect(lam_costs_total(c, LAM_MACS), 9, LAM_EXACT);
    lam_costs_free(c);
    c = net_costs(m, "thoplw", true);
    PATHS(c, "0");
    assert_int_equal(lam_costs_row(c, 0)->event, 2);
    lam_costs_free(c);
    c = net_costs(m, "layers", false);
    assert_int_equal(lam_costs_n_rows(c), 3);
    expect(lam_costs_total(c, LAM_MACS), 27, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

static void called_three_times(void **state) {
    (void)state;
    net n = net_of_text("Loop(fc: Linear 3 3; other: Linear 3 3)", false, SH(1, 3));
    net_call(&n, 1, 0, SH(2, 3), 0, SH(2, 3), 0);
    net_call(&n, 1, 0, SH(3, 3), 0, SH(3, 3), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "torchscan", true);
    PATHS(c, "", "fc", "other");
    expect(lam_costs_total(c, LAM_MACS), 18, LAM_EXACT);
    expect(lam_costs_row(c, 0)->below->total[LAM_MACS], 18, LAM_EXACT);
    lam_costs_free(c);
    c = net_costs(m, "thoplw", true);
    PATHS(c, "fc", "other");
    assert_int_equal(lam_costs_row(c, 0)->event, 4);
    lam_costs_free(c);
    c = net_costs(m, "layers", false);
    PATHS(c, "", "fc", "other", "fc", "fc");
    expect(lam_costs_total(c, LAM_MACS), 9 * 7, LAM_AT_LEAST); /* Loop's own forward may do more */
    assert_non_null(strstr(lam_costs_gap(c, 0), "Loop (1 call): what its own forward"));
    lam_costs_free(c);
    c = net_costs(m, "thoplw", false); /* in the order of the tree, all the same */
    PATHS(c, "", "fc", "fc", "fc", "other");
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- what was never called --------------------------------------------------------------------- */

/* Net(first, aux: Sequential(0: Linear, 1: ReLU), list: ModuleList(0, 1: Identity), params: ParameterList,
 * tail, spare Identity), with a parameter of its own; aux, list.1 and spare are never called. */
static lam_model *with_gaps(void) {
    net n = net_of_text("Net(first: Linear 2 2; aux: Sequential(Linear 5 10; ReLU) idle; "
                        "list: ModuleList(Linear 2 3; Identity idle); params: ParameterList idle; "
                        "tail: Linear 3 1; spare: Identity idle)",
                        false, SH(1, 2));
    net_param(&n, 0, "table", SH(7));
    net_buffer(&n, 0, "index", SH(11));
    net_param(&n, 8, "0", SH(13));
    return net_done(&n);
}

static void never_called(void **state) {
    (void)state;
    lam_model *m = with_gaps();
    lam_costs *c = net_costs(m, "layers", false);
    PATHS(c, "", "first", "aux", "list.0", "params", "tail", "spare");
    const lam_cost_row *root = lam_costs_row(c, 0), *aux = lam_costs_row(c, 2), *params = lam_costs_row(c, 4);
    expect(root->params, 7, LAM_EXACT);
    expect(root->buffers, 11, LAM_EXACT);
    expect(root->below->params, 7 + 6 + 60 + 9 + 13 + 4, LAM_EXACT);
    assert_int_equal(aux->event, -1);
    assert_true(aux->never_called);
    assert_true(aux->rf == 1 && aux->rf_stride == 1 && aux->rf_state == LAM_UNKNOWN);
    expect(aux->params, 60, LAM_EXACT);
    expect(aux->below->params, 60, LAM_EXACT);
    expect(aux->metric[LAM_MACS], 0, LAM_EXACT);
    assert_false(params->never_called);
    expect(params->params, 13, LAM_EXACT);
    assert_true(lam_costs_row(c, 6)->never_called);
    expect(lam_costs_params(c).in_rows, 99, LAM_EXACT);
    expect(lam_costs_params(c).params, 99, LAM_EXACT);
    expect(lam_costs_params(c).buffers, 11, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

static void never_called_is_named(void **state) {
    (void)state;
    lam_model *m = with_gaps();
    lam_costs *c = net_costs(m, "layers", false);
    assert_string_equal(
        lam_costs_gap(c, 0),
        "Net (1 call): what its own forward computes outside its layers is not seen by calls");
    assert_string_equal(lam_costs_gap(c, 1),
                        "parameters `table` of Net (1 call) are used by no layer that was called");
    assert_string_equal(lam_costs_gap(c, 2),
                        "Sequential (1 place, `aux`) was never called: work that uses its 60 "
                        "parameters in another way is not seen");
    assert_null(lam_costs_gap(c, 3));
    assert_null(lam_costs_gap(c, -1));
    lam_costs_free(c);
    c = net_costs(m, "torchscan", false); /* it trusts a forward, so nothing is missing */
    assert_null(lam_costs_gap(c, 0));
    expect(lam_costs_total(c, LAM_MACS), 4 + 6 + 3, LAM_EXACT);
    lam_costs_free(c);
    c = net_costs(m, "torchscan", true);
    PATHS(c, "", "first", "list.0", "tail");
    expect(lam_costs_params(c).in_rows, 6 + 9 + 4, LAM_EXACT);
    expect(lam_costs_row(c, 0)->params, 0, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* Net(a: Box(x, y), b: Box(x, y)): in each Box y is not called, and b itself is followed by nothing. */
static void stands_in_the_tree(void **state) {
    (void)state;
    lam_model *m = text_model("Net(a: Box(early: Linear 1 1 idle; x: Linear 2 2; y: Linear 1 1 idle); "
                              "b: Box(early: Linear 1 1 idle; x: Linear 2 2; y: Linear 1 1 idle); "
                              "z: Linear 1 1 idle)",
                              false, SH(1, 2));
    lam_costs *c = net_costs(m, "layers", false);
    PATHS(c, "", "a", "a.early", "a.x", "a.y", "b", "b.early", "b.x", "b.y", "z");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A container that is not called but holds a tensor, with a part that never ran before its first layer. */
static void uncalled_container(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), keep = net_module(&n, "Keeper", 0), x = net_linear(&n, 2, 2);
    net_param(&n, keep, "scale", SH(5));
    int32_t p = net_place(&n, -1, "", root), q = net_place(&n, p, "keep", keep);
    net_place(&n, q, "dead", net_linear(&n, 1, 1));
    net_place(&n, q, "x", x);
    int32_t r = net_call(&n, root, -1, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, x, r, SH(1, 2), 0, SH(1, 2), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    PATHS(c, "", "keep", "keep.dead", "keep.x");
    assert_int_equal(lam_costs_row(c, 1)->event, -1);
    assert_false(lam_costs_row(c, 1)->never_called);
    expect(lam_costs_row(c, 1)->params, 5, LAM_EXACT);
    expect(lam_costs_row(c, 1)->below->params, 13, LAM_EXACT);
    expect(lam_costs_params(c).in_rows, 13, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* The work of a layer that uses what is in it without calling it is unknown. thoplw's message names it, and a
 * root that owns parameters. */
static void uncalled_inside(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), attn = net_module(&n, "MultiheadAttention", 0), fc;
    net_param(&n, root, "scale", SH(5));
    net_param(&n, attn, "in_proj_weight", SH(6, 2));
    int32_t p = net_place(&n, -1, "", root), q = net_place(&n, p, "attn", attn);
    net_place(&n, q, "out_proj", net_linear(&n, 2, 2));
    net_place(&n, p, "fc", fc = net_linear(&n, 2, 3));
    int32_t r = net_call(&n, root, -1, SH(1, 2), 0, SH(1, 3), 0);
    net_call(&n, attn, r, SH(1, 2), 0, SH(1, 2), 0);
    net_call(&n, fc, r, SH(1, 2), 0, SH(1, 3), 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "torchscan", true);
    PATHS(c, "", "attn", "fc");
    expect(lam_costs_row(c, 1)->metric[LAM_MACS], 0, LAM_UNKNOWN);
    expect(lam_costs_total(c, LAM_MACS), 6, LAM_AT_LEAST);
    assert_string_equal(lam_costs_unruled(c, 0, NULL), "MultiheadAttention");
    lam_costs_free(c);
    c = net_costs(m, "thoplw", true);
    assert_string_equal(lam_costs_unruled(c, 0, NULL), "Net");
    assert_string_equal(lam_costs_unruled(c, 1, NULL), "MultiheadAttention");
    assert_null(lam_costs_unruled(c, 2, NULL));
    lam_costs_free(c);
    lam_model_free(m);
}

static void nothing_called(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), x = net_linear(&n, 2, 2), p = net_place(&n, -1, "", root);
    net_place(&n, p, "x", x);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    PATHS(c, "");
    assert_true(lam_costs_row(c, 0)->never_called);
    expect(lam_costs_row(c, 0)->params, 6, LAM_EXACT);
    lam_costs_free(c);
    c = net_costs(m, "torchscan", true);
    assert_int_equal(lam_costs_n_rows(c), 0);
    assert_null(lam_costs_row(c, 0));
    expect(lam_costs_params(c).params, 6, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* The output projection of an attention layer is never called; the layer's rule counts its work and its
 * row holds its parameters. */
static void covered_by_a_rule(void **state) {
    (void)state;
    net n = net_new();
    int32_t att = net_module(&n, "MultiheadAttention", 0);
    int32_t out = net_leaf(&n, "NonDynamicallyQuantizableLinear");
    net_param(&n, att, "in_proj_weight", SH(12, 4));
    net_param(&n, att, "in_proj_bias", SH(12));
    net_int(&n, att, "embed_dim", 4);
    net_int(&n, att, "num_heads", 2);
    net_param(&n, out, "weight", SH(4, 4));
    net_param(&n, out, "bias", SH(4));
    int32_t p = net_place(&n, -1, "", att);
    net_place(&n, p, "out_proj", out);
    const int64_t x[] = {3, 1, 4};
    lam_arg in[3];
    for (int32_t i = 0; i < 3; i++) in[i] = (lam_arg){NULL, i, NET_FLOAT32, 0, 3, x, 9, 0, 0};
    lam_arg y = {NULL, 0, NET_FLOAT32, 0, 3, x, 8, 0, 0};
    lam_call_info call = {.module = att, .parent = -1, .n_in = 3, .in = in, .n_out = 1, .out = &y};
    NET_OK(&n, lam_build_call(n.b, &call, &(int32_t){0}, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    PATHS(c, "");
    expect(lam_costs_row(c, 0)->params, 48 + 12 + 16 + 4, LAM_EXACT);
    assert_true(lam_costs_row(c, 0)->counted);
    assert_int_not_equal(lam_costs_row(c, 0)->metric[LAM_MACS].state, LAM_UNKNOWN);
    lam_costs_free(c);
    c = net_costs(m, "torchscan", false); /* which has no rule for it, so the projection is shown */
    PATHS(c, "", "out_proj");
    expect(lam_costs_total(c, LAM_MACS), 0, LAM_UNKNOWN);
    assert_string_equal(lam_costs_gap(c, 0),
                        "no rule for MultiheadAttention (1 call); the convention `exact` counts it");
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- a parametrized layer is no leaf and still works ------------------------------------------- */

static void parametrized(void **state) {
    (void)state;
    net n = net_new();
    int32_t fc = net_subclass(&n, "ParametrizedLinear", "Linear", 0), dict = net_module(&n, "ModuleDict", 0);
    int32_t list = net_subclass(&n, "ParametrizationList", "ModuleList", LAM_MODULE_OWN_FORWARD);
    int32_t norm = net_leaf(&n, "_WeightNorm");
    net_int(&n, fc, "in_features", 3);
    net_int(&n, fc, "out_features", 2);
    net_param(&n, fc, "bias", SH(2));
    net_bool(&n, fc, "weight", true);
    net_param(&n, list, "original0", SH(2, 1));
    net_param(&n, list, "original1", SH(2, 3));
    int32_t p = net_place(&n, -1, "", fc), d = net_place(&n, p, "parametrizations", dict);
    int32_t l = net_place(&n, d, "weight", list);
    net_place(&n, l, "0", norm);
    int32_t r = net_call(&n, fc, -1, SH(1, 3), 0, SH(1, 2), 0);
    int32_t cl = net_call(&n, list, r, SH(1), 0, SH(2, 3), 0);
    net_call(&n, norm, cl, SH(2, 1), 0, SH(2, 3), 0);
    lam_model *m = net_done(&n);
    for (int released = 0; released < 2; released++) {
        lam_costs *c = net_costs(m, "torchscan", released);
        assert_true(lam_costs_row(c, 0)->counted);
        assert_int_equal(lam_costs_row(c, 0)->metric[LAM_MACS].n, 6);
        lam_costs_free(c);
    }
    lam_costs *c = net_costs(m, "layers", false);
    PATHS(c, "", "parametrizations.weight", "parametrizations.weight.0");
    expect(lam_costs_params(c).in_rows, 10, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- as deep as it gets ------------------------------------------------------------------------ */

static void deep(void **state) {
    (void)state;
    enum { DEPTH = 10000 };
    net n = net_new();
    int32_t w = net_tensor(&n, true, SH(3)), place = -1, call = -1;
    for (int i = 0; i < DEPTH; i++) {
        int32_t box = net_module(&n, "Box", 0);
        if (i % 2) net_owns(&n, box, "w", w); /* one tensor, owned all the way down */
        place = net_place(&n, place, "b", box);
        call = net_call(&n, box, call, SH(1, 2), 1, SH(1, 2), 2);
    }
    int32_t fc = net_linear(&n, 2, 2);
    net_place(&n, place, "fc", fc);
    net_call(&n, fc, call, SH(1, 2), 1, SH(1, 2), 2);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    assert_int_equal(lam_costs_n_rows(c), DEPTH + 1);
    expect(lam_costs_row(c, 0)->below->total[LAM_MACS], 4, LAM_AT_LEAST);
    expect(lam_costs_row(c, 0)->below->params, 9, LAM_EXACT);
    expect(lam_costs_row(c, DEPTH - 1)->below->params, 9, LAM_EXACT);
    expect(lam_costs_row(c, DEPTH)->below->params, 6, LAM_EXACT);
    expect(lam_costs_params(c).in_rows, 9, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* Distinct parameters under each place of random trees with shared modules, against a search of each
 * subtree. */
static uint32_t next_random(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }

static int64_t search_below(const lam_model *m, int32_t top) {
    bool seen[64] = {false}, below[256] = {false};
    int64_t n = 0;
    for (int32_t i = top; i < lam_model_n_places(m); i++) {
        const lam_place *p = lam_model_place(m, i);
        below[i] = i == top || (p->parent >= 0 && below[p->parent]);
        const lam_module *mod = lam_model_module(m, p->module);
        for (int32_t k = 0; below[i] && k < mod->n_owned; k++) {
            int32_t t = mod->owned[k].tensor;
            if (!seen[t] && !mod->owned[k].is_buffer) n += lam_model_tensor(m, t)->numel;
            seen[t] = true;
        }
    }
    return n;
}

static void random_trees(void **state) {
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 200; round++) {
        net n = net_new();
        int32_t modules[40], tensors[20];
        for (int i = 0; i < 20; i++) tensors[i] = net_tensor(&n, true, SH(1 + (int64_t)(1u << i)));
        for (int i = 0; i < 40; i++) {
            modules[i] = net_module(&n, "Box", 0);
            for (uint32_t k = 0; k < next_random(&seed) >> 29; k++) {
                char name[16];
                snprintf(name, sizeof name, "w%u", (unsigned)k);
                net_owns(&n, modules[i], name, tensors[next_random(&seed) % 20]);
            }
        }
        int32_t places[120], call[120];
        places[0] = net_place(&n, -1, "", modules[0]);
        for (uint32_t i = 1; i < 120; i++) {
            char name[16];
            snprintf(name, sizeof name, "c%u", (unsigned)i);
            places[i] =
                net_place(&n, places[next_random(&seed) % i], name, modules[1 + next_random(&seed) % 39]);
        }
        call[0] = net_call(&n, modules[0], -1, SH(1), 0, SH(1), 0);
        (void)call;
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "layers", false);
        for (int32_t r = 0; r < lam_costs_n_rows(c); r++) {
            const lam_cost_row *row = lam_costs_row(c, r);
            assert_int_equal(row->below->params.n, search_below(m, row->place));
        }
        lam_param_totals all = lam_costs_params(c);
        assert_int_equal(all.in_rows.n, search_below(m, 0));
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* -- errors ------------------------------------------------------------------------------------ */

static void refuses(void **state) {
    (void)state;
    lam_model *m = net_two_parents(false);
    lam_costs *c = (lam_costs *)(uintptr_t)1;
    lam_error e = {0};
    lam_cost_options o = {.convention = "nobody"};
    assert_int_equal(lam_costs_new(&c, m, &o, &e), LAM_USAGE);
    assert_null(c);
    assert_non_null(strstr(e.text, "torchscan"));
    assert_int_equal(lam_costs_new(&c, NULL, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_costs_new(NULL, m, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_costs_new(&c, m, NULL, NULL), LAM_OK);
    assert_string_equal(lam_convention_name(lam_costs_convention(c)), lam_convention_of(m));
    assert_null(lam_costs_row(c, -1));
    assert_null(lam_costs_row(c, 99));
    expect(lam_costs_total(c, (lam_metric)9), 0, LAM_UNKNOWN);
    lam_costs_free(c);
    lam_costs_free(NULL);
    lam_model_free(m);
}

/* A root that is a layer itself is counted by the tools that count layers. */
static void a_root_that_is_a_layer(void **state) {
    (void)state;
    static const char *const conventions[] = {"layers", "ptflops", "torchinfo"};
    net n = net_new();
    int32_t conv = net_conv(&n, "Conv2d", 2, 3, 8, 3, 1, 0);
    net_place(&n, -1, "", conv);
    net_call(&n, conv, -1, SH(1, 3, 32, 32), 1, SH(1, 8, 30, 30), 2);
    NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
    lam_model *m = net_done(&n);
    for (size_t i = 0; i < sizeof conventions / sizeof *conventions; i++) {
        lam_costs *c = net_costs(m, conventions[i], false);
        const int64_t products = 8 * 30 * 30 * 3 * 3 * 3, biases = 8 * 30 * 30;
        const int64_t got = lam_costs_total(c, LAM_MACS).n;
        if (got != products && got != products + biases) fail_msg("%s: %lld", conventions[i], (long long)got);
        lam_costs_free(c);
    }
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_root_that_is_a_layer),
        cmocka_unit_test(two_parents_torchscan),
        cmocka_unit_test(two_parents_thoplw),
        cmocka_unit_test(spread_parameters),
        cmocka_unit_test(stored_parameters),
        cmocka_unit_test(parameters_of_unknown_bytes),
        cmocka_unit_test(two_parents_every_call),
        cmocka_unit_test(tied),
        cmocka_unit_test(same_object_twice),
        cmocka_unit_test(called_three_times),
        cmocka_unit_test(never_called),
        cmocka_unit_test(never_called_is_named),
        cmocka_unit_test(stands_in_the_tree),
        cmocka_unit_test(uncalled_container),
        cmocka_unit_test(nothing_called),
        cmocka_unit_test(covered_by_a_rule),
        cmocka_unit_test(uncalled_inside),
        cmocka_unit_test(parametrized),
        cmocka_unit_test(deep),
        cmocka_unit_test(random_trees),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
