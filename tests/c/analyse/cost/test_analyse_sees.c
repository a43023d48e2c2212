/* SPDX-License-Identifier: Apache-2.0
 *
 * Which operators a convention sees: those that a dispatch mode is shown; what the tool has no formula for
 * counts 0 and is named. */
#include "kit/oom.h"

#include "kit/ops_net.h"

static void expect(lam_count got, int64_t n) {
    if (got.n != n || got.over || got.state != LAM_EXACT)
        fail_msg("%lld %s, expected %lld", (long long)got.n, lam_state_name(got.state), (long long)n);
}

static const op_at at_root = {0, -1, LAM_FORWARD, 0};
static op_at inside(int32_t parent) { return (op_at){0, parent, LAM_FORWARD, 0}; }

/* Net, called once; operators are pushed by `fill`. */
static lam_model *one_call(void (*fill)(net *n)) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0);
    net_place(&n, -1, "", root);
    net_call(&n, root, -1, SH(2, 3), 0, SH(2, 5), 0);
    fill(&n);
    return net_done(&n);
}

/* -- kernels hide what they call ----------------------------------------------------------------------- */

static void fill_levels(net *n) {
    int32_t linear = net_op(n, "aten::linear", at_root); /* 0: it only calls others */
    int32_t addmm = net_op(n, "aten::addmm", inside(linear));
    net_mm(n, inside(addmm), 9, 9, 9);
    int32_t pinv = net_op(n, "aten::linalg_pinv", at_root); /* 3: one kernel, though it only calls others */
    net_mm(n, inside(pinv), 9, 9, 9);
    int32_t own = net_op(n, "my::kernel", at_root); /* 5 */
    net_mm(n, inside(own), 9, 9, 9);
    int32_t mark = net_op(n, "a mark of the program", at_root); /* 7 */
    net_mm(n, inside(mark), 2, 3, 4);
    int32_t future =
        net_op(n, "aten::not_known_yet", at_root); /* 9: the framework's own, taken to call others */
    net_mm(n, inside(future), 2, 3, 5);
    int32_t dist = net_op(n, "aten::_euclidean_dist", at_root); /* 11 */
    net_mm(n, inside(dist), 9, 9, 9);
    net_relu(n, at_root, 8); /* 13 */
    net_mm(n, (op_at){0, -1, LAM_FORWARD, LAM_OP_FAILED}, 9, 9, 9);
}

static void what_a_dispatch_mode_is_shown(void **state) {
    (void)state;
    static const bool want[] = {false, true,  false, true, false, true, false, false,
                                true,  false, true,  true, false, true, false};
    lam_model *m = one_call(fill_levels);
    lam_costs *c = net_costs(m, "torch", false);
    for (int32_t i = 0; i < (int32_t)(sizeof want / sizeof *want); i++)
        if (net_counted(c, i) != want[i]) fail_msg("operator %d", (int)i);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- what is counted ----------------------------------------------------------------------------------- */

static void attention(net *n, const char *name) {
    const lam_op_arg in[] = {T(0, 2, 4, 5, 8), T(1, 2, 2, 7, 8), T(2, 2, 2, 7, 6)},
                     out[] = {T(0, 2, 4, 5, 6)};
    net_op_args(n, name, at_root, in, 3, out, 1);
}

static void fill_work(net *n) {
    net_mm(n, at_root, 2, 3, 4);                                       /* 24 */
    attention(n, "aten::_scaled_dot_product_flash_attention");         /* 2*4*5*7*(8+6) */
    attention(n, "aten::_scaled_dot_product_flash_attention_for_cpu"); /* 0, twice */
    attention(n, "aten::_scaled_dot_product_flash_attention_for_cpu");
    const lam_op_arg in[] = {T(0, 2, 3), T(1, 3)}, out[] = {T(0, 2)};
    net_op_args(n, "aten::mv", at_root, in, 2, out, 1); /* 0 */
    const lam_op_arg grad[] = {T(0, 1, 6, 5),
                               T(1, 1, 4, 7),
                               T(2, 6, 2, 3),
                               {.position = 7, .value = {.type = LAM_BOOL}},
                               {.position = 10,
                                .value = {.type = LAM_INTS, .n = 3, .ints = (const int64_t[]){0, 1, 1}}}},
                     gave[] = {T(0, 1, 4, 7), T(1, 6, 2, 3), T(2, 6)};
    net_op_args(n, "aten::convolution_backward", (op_at){0, -1, LAM_BACKWARD, 0}, grad, 5, gave, 3);
    net_relu(n, at_root, 8);
}

static void what_it_has_no_formula_for(void **state) {
    (void)state;
    lam_model *m = one_call(fill_work);
    lam_costs *c = net_costs(m, "torch", false);
    int32_t runs = 0;
    expect(lam_costs_total(c, LAM_MACS), 24 + 2 * 4 * 5 * 7 * 14);
    expect(lam_costs_total(c, LAM_FLOPS), 2 * (24 + 2 * 4 * 5 * 7 * 14));
    assert_int_equal(lam_costs_total(c, LAM_DMAS).state, LAM_UNKNOWN);
    /* Of the weight alone, as if each of the two groups saw all four channels. */
    expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS), 30 * 4 * 3);
    assert_string_equal(lam_costs_unruled_op(c, 0, &runs),
                        "aten::_scaled_dot_product_flash_attention_for_cpu");
    assert_int_equal(runs, 2);
    assert_string_equal(lam_costs_unruled_op(c, 1, &runs), "aten::mv");
    assert_null(lam_costs_unruled_op(c, 2, &runs)); /* relu is left out on purpose */
    assert_string_equal(lam_costs_gap(c, 1),
                        "no rule for the operator aten::mv, which the tool takes for 0 (1 run)");
    assert_non_null(lam_costs_row(c, 0)->reason);
    lam_costs_free(c);
    lam_model_free(m);
}

static void nothing_but_nothing(net *n) { net_relu(n, at_root, 8); }

static void zero_is_known_and_no_opinion_is_not(void **state) {
    (void)state;
    lam_model *m = one_call(nothing_but_nothing);
    lam_costs *c = net_costs(m, "torch", false);
    lam_count n[LAM_N_METRICS];
    expect(lam_costs_total(c, LAM_MACS), 0);
    assert_int_equal(lam_costs_total(c, LAM_DMAS).state, LAM_UNKNOWN);
    assert_null(lam_costs_gap(c, 0));
    assert_int_equal(lam_costs_op(c, 0, n, NULL, NULL), LAM_OK);
    expect(n[LAM_FLOPS], 0);
    assert_int_equal(n[LAM_DMAS].state, LAM_UNKNOWN);
    lam_costs_free(c);
    lam_model_free(m);
}

/* An einsum of two products, of which one lies deeper, beside a product of its own. */
static void contractions(net *n) {
    const int32_t whole = net_op(n, "aten::einsum", at_root);
    net_mm(n, (op_at){0, whole, LAM_FORWARD, 0}, 2, 3, 4);
    const int32_t inner = net_op(n, "aten::tensordot", (op_at){0, whole, LAM_FORWARD, 0});
    net_mm(n, (op_at){0, inner, LAM_FORWARD, 0}, 4, 5, 6);
    net_mm(n, at_root, 7, 1, 1);
}

static void the_products_inside_a_contraction(void **state) {
    (void)state;
    lam_model *m = one_call(contractions);
    lam_costs *c = net_costs(m, "fvcore", false);
    lam_count n[LAM_N_METRICS];
    assert_int_equal(lam_costs_op(c, 0, n, NULL, NULL), LAM_OK);
    expect(n[LAM_MACS], 2 * 3 * 4 + 4 * 5 * 6);
    lam_costs_free(c);
    lam_model_free(m);
}

static void memory_runs_out(void **state) {
    (void)state;
    lam_model *m = one_call(fill_work);
    oom_sweep(net_try_costs, &(net_costing){m, "torch", false});
    oom_sweep(net_try_costs, &(net_costing){m, "fvcore", false});
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_dispatch_mode_is_shown),
        cmocka_unit_test(what_it_has_no_formula_for),
        cmocka_unit_test(zero_is_known_and_no_opinion_is_not),
        cmocka_unit_test(the_products_inside_a_contraction),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
