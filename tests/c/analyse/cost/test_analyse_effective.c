/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs by operators: effective counts beside the dense ones, and bytes, as rows and totals have them. */
#include "kit/oom.h"

#include "kit/ops_net.h"

enum { ROOT, FC, ACT, MINE }; /* the calls of net_plain */

/* One head of 3 queries and 4 keys, 2 wide: 48 MACs, of which a causal flag leaves 6 of 12 pairs. */
static int32_t attention(net *n, const char *name, op_at at, bool causal, bool mask) {
    const lam_op_arg in[] = {
        T(0, 1, 1, 3, 2),
        T(1, 1, 1, 4, 2),
        T(2, 1, 1, 4, 2),
        mask ? T(3, 3, 4) : (lam_op_arg){.position = 3, .dtype = -1, .device = -1, .ndim = -1},
        {.position = 5, .value = {.type = LAM_BOOL, .i = causal}, .dtype = -1, .device = -1, .ndim = -1}};
    const lam_op_arg out[] = {T(0, 1, 1, 3, 2)};
    return net_op_args(n, name, at, in, 5, out, 1);
}

/* The same as products of matrices: 24 MACs for the scores and 24 for the values. */
static void by_products(net *n, int32_t call, lam_phase phase, bool causal, bool mask) {
    int32_t outer =
        attention(n, "aten::scaled_dot_product_attention", (op_at){call, -1, phase, 0}, causal, mask);
    int32_t inner = net_op(n, "aten::_scaled_dot_product_attention_math", (op_at){call, outer, phase, 0});
    net_mm(n, (op_at){call, inner, phase, 0}, 3, 2, 4);
    net_mm(n, (op_at){call, inner, phase, 0}, 3, 4, 2);
}

/* The flag of an attention that only calls products tells what they do in vain; elsewhere both counts are
 * one. */
static void effective(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    by_products(&n, k.fc, LAM_FORWARD, true, false);
    by_products(&n, k.act, LAM_FORWARD, false, false);
    by_products(&n, k.mine, LAM_RECOMPUTE, true, false);
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    lam_why w;
    int32_t fc = (int32_t)(net_row_of(c, FC) - lam_costs_row(c, 0));
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 48 + 24, LAM_EXACT);
    net_expect(net_row_of(c, FC)->metric[LAM_EFFECTIVE_MACS], 24 + 24, LAM_EXACT);
    /* of 6 pairs 2 + 2 MACs, and 4 operations less one a row */
    net_expect(net_row_of(c, FC)->metric[LAM_EFFECTIVE_FLOPS], 2 * 24 + 6 * 4 - 3 + 48, LAM_EXACT);
    net_expect(net_row_of(c, ACT)->metric[LAM_EFFECTIVE_MACS], 48, LAM_EXACT);
    net_expect(net_row_of(c, ACT)->metric[LAM_EFFECTIVE_FLOPS], 96, LAM_EXACT);
    net_expect(net_row_of(c, MINE)->phases->recompute[LAM_EFFECTIVE_MACS], 24, LAM_EXACT);
    net_expect(lam_costs_phase_total(c, LAM_RECOMPUTE, LAM_MACS), 48, LAM_EXACT);
    net_expect(lam_costs_total(c, LAM_EFFECTIVE_MACS), 48 + 48, LAM_EXACT);
    net_expect(lam_costs_row(c, 0)->below->total[LAM_EFFECTIVE_MACS], 48 + 48, LAM_EXACT);
    assert_int_equal(lam_costs_why(c, fc, LAM_EFFECTIVE_MACS, &w, NULL), LAM_OK);
    assert_non_null(strstr(w.formula, "less what the causal flag"));
    assert_int_equal(lam_costs_why(c, fc, LAM_MACS, &w, NULL), LAM_OK);
    assert_string_equal(w.formula, "the sum of its operators");
    lam_costs_free(c);
    lam_model_free(m);
}

static void add_mask(net *n, op_at at, const char *add, const char *weigh) {
    const lam_op_arg in[] = {T(0, 1, 3, 4), T(1, 1, 3, 4)}, out[] = {T(0, 1, 3, 4)};
    net_op_args(n, add, at, in, 2, out, 1);
    at.parent = net_op_args(n, weigh, at, in, 1, out, 1);
    if (strcmp(weigh, "aten::_safe_softmax") == 0) net_op_args(n, "aten::_softmax", at, in, 1, out, 1);
}

/* A mask whose values were read tells the same of products that an attention calls; of a mask that lets all
 * scores count they count whole, and of one that was not read what they do in vain is not known. Which
 * products of a backward pass are an attention's is not known where it masks something. */
static void effective_of_masks(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    lam_op_arg in[] = {T(0, 1, 1, 3, 2), T(1, 1, 1, 4, 2), T(2, 1, 1, 4, 2), T(3, 3, 4)};
    const lam_op_arg out[] = {T(0, 1, 1, 3, 2)};
    const int32_t calls[] = {k.fc, k.act, k.mine};
    for (int i = 0; i < 3; i++) {
        in[3].masks = i < 2;
        in[3].open = i ? 12 : 5; /* in two of three rows */
        in[3].open_rows = i ? 3 : 2;
        op_at at = {calls[i], -1, LAM_FORWARD, 0};
        at.parent = net_op_args(&n, "aten::scaled_dot_product_attention", at, in, 4, out, 1);
        net_mm(&n, at, 3, 2, 4);
        add_mask(&n, at, "aten::add_", "aten::_safe_softmax");
        net_mm(&n, at, 3, 4, 2);
        net_mm(&n, (op_at){calls[i], -1, LAM_BACKWARD, 0}, 3, 2, 4);
    }
    lam_why w;
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 48, LAM_EXACT);
    net_expect(net_row_of(c, FC)->metric[LAM_EFFECTIVE_MACS], 5 * 4, LAM_EXACT);
    net_expect(net_row_of(c, FC)->metric[LAM_EFFECTIVE_FLOPS], 2 * 20 + 5 * 5 - 2, LAM_EXACT);
    net_expect(net_row_of(c, FC)->phases->backward[LAM_EFFECTIVE_MACS], 0, LAM_UNKNOWN);
    net_expect(net_row_of(c, FC)->phases->backward[LAM_MACS], 24, LAM_EXACT);
    net_expect(net_row_of(c, ACT)->metric[LAM_EFFECTIVE_MACS], 48, LAM_EXACT);
    net_expect(net_row_of(c, ACT)->phases->backward[LAM_EFFECTIVE_MACS], 24, LAM_EXACT);
    net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 48, LAM_EXACT);
    for (int i = LAM_EFFECTIVE_MACS; i <= LAM_EFFECTIVE_FLOPS; i++) {
        net_expect(net_row_of(c, MINE)->metric[i], 0, LAM_UNKNOWN);
        net_expect(net_row_of(c, MINE)->phases->backward[i], 0, LAM_UNKNOWN);
        net_expect(net_row_of(c, MINE)->phases->recompute[i], 0, LAM_EXACT);
    }
    net_expect(lam_costs_total(c, LAM_EFFECTIVE_MACS), 5 * 4 + 48, LAM_AT_LEAST);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_EFFECTIVE_MACS), 24, LAM_AT_LEAST);
    int32_t mine = (int32_t)(net_row_of(c, MINE) - lam_costs_row(c, 0));
    assert_int_equal(lam_costs_why(c, mine, LAM_EFFECTIVE_MACS, &w, NULL), LAM_OK);
    assert_non_null(strstr(w.formula, "which is not known"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* One kernel that an attention calls has the mask as it is given to it: where that was read it tells, also of
 * its backward, whatever the operator around it knows. */
static void effective_of_kernels(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    lam_op_arg in[] = {T(0, 1, 1, 3, 2), T(1, 1, 1, 4, 2), T(2, 1, 1, 4, 2), T(3, 3, 4)};
    const lam_op_arg out[] = {T(0, 1, 1, 3, 2)};
    op_at at = {k.fc, -1, LAM_FORWARD, 0};
    at.parent = net_op_args(&n, "aten::scaled_dot_product_attention", at, in, 4, out, 1);
    in[3].masks = true;
    in[3].open = 5;
    in[3].open_rows = 2;
    net_op_args(&n, "aten::_scaled_dot_product_efficient_attention", at, in, 4, out, 1);
    net_mm(&n, (op_at){k.fc, -1, LAM_BACKWARD, 0}, 3, 2, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(net_row_of(c, FC)->metric[LAM_EFFECTIVE_MACS], 5 * 4, LAM_EXACT);
    net_expect(net_row_of(c, FC)->phases->backward[LAM_EFFECTIVE_MACS], 24, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

static const lam_op_arg none_added = {
    .position = 3, .value = {.type = LAM_INT, .i = 0}, .dtype = -1, .device = -1, .ndim = -1};

/* Scores and what is added to them in one operator; `more`: how many of the arguments after those. */
static void by_baddbmm(net *n, int32_t call, int32_t more, int64_t beta, const char *weigh) {
    lam_op_arg in[] = {T(0, 1, 3, 4), T(1, 1, 3, 2), T(2, 1, 2, 4), none_added};
    const lam_op_arg out[] = {T(0, 1, 3, 4)};
    in[3].value.i = beta;
    op_at at = {call, -1, LAM_FORWARD, 0};
    net_op_args(n, "aten::baddbmm", at, in, 3 + more, out, 1);
    net_op_args(n, weigh, at, out, 1, out, 1);
}

/* An attention of torch's that no operator stands for is told by what is done to its scores right before they
 * become weights. */
static void effective_without_an_operator(void **state) {
    (void)state;
    static const struct {
        const char *add, *weigh;
        bool known;
    } cases[] = {{"aten::add", "aten::_safe_softmax", false},
                 {"aten::add_", "aten::_safe_softmax", false},
                 {"aten::mul", "aten::_safe_softmax", true},
                 {"aten::add", "aten::_softmax", true},
                 {"aten::add", "aten::softmax", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net n = net_new();
        net_calls k = net_plain(&n);
        net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 3, 2, 4);
        add_mask(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, cases[i].add, cases[i].weigh);
        by_baddbmm(&n, k.act, i == 4, i == 4 ? 2 : 0, i % 2 ? "aten::softmax" : "aten::_softmax");
        by_baddbmm(&n, k.mine, 1, 0, "aten::softmax");
        net_mm(&n, (op_at){k.act, -1, LAM_BACKWARD, 0}, 3, 2, 4);
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        net_expect(net_row_of(c, FC)->metric[LAM_MACS], 24, LAM_EXACT);
        net_expect(net_row_of(c, FC)->metric[LAM_EFFECTIVE_MACS], cases[i].known ? 24 : 0,
                   cases[i].known ? LAM_EXACT : LAM_UNKNOWN);
        net_expect(net_row_of(c, FC)->phases->backward[LAM_EFFECTIVE_MACS], 0, LAM_EXACT);
        net_expect(net_row_of(c, ACT)->metric[LAM_EFFECTIVE_MACS], 0, LAM_UNKNOWN);
        net_expect(net_row_of(c, ACT)->phases->backward[LAM_EFFECTIVE_MACS], 0, LAM_UNKNOWN);
        net_expect(net_row_of(c, MINE)->metric[LAM_EFFECTIVE_MACS], 24, LAM_EXACT);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* A whole multi-head attention, or encoder layer, as one kernel. */
static void effective_of_fast_paths(void **state) {
    (void)state;
    for (int masks = 0; masks < 2; masks++) {
        net n = net_new();
        net_calls k = net_plain(&n);
        lam_op_arg in[] = {T(0, 1, 3, 2), T(1, 1, 3, 2), T(2, 1, 3, 2), T(9, 3, 3)};
        const lam_op_arg out[] = {T(0, 1, 3, 2)};
        net_op_args(&n, "aten::_native_multi_head_attention", (op_at){k.fc, -1, LAM_FORWARD, 0}, in,
                    3 + masks, out, 1);
        lam_op_arg layer[] = {T(0, 1, 3, 2), T(14, 5, 2), T(18, 3, 3)};
        net_op_args(&n, "aten::_transformer_encoder_layer_fwd", (op_at){k.act, -1, LAM_FORWARD, 0}, layer,
                    2 + masks, out, 1);
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        for (int i = FC; i <= ACT; i++) {
            const lam_count *got = net_row_of(c, i)->metric;
            assert_true(got[LAM_MACS].state == LAM_EXACT && got[LAM_MACS].n > 0);
            net_expect(got[LAM_EFFECTIVE_MACS], masks ? 0 : got[LAM_MACS].n, masks ? LAM_UNKNOWN : LAM_EXACT);
        }
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* What a mask of values leaves out is not known unless they were read; the operator is, and so are its dense
 * counts. */
static void effective_unknown(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    attention(&n, "aten::_scaled_dot_product_efficient_attention", (op_at){k.fc, -1, LAM_FORWARD, 0}, false,
              true);
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_MACS), 48 + 24, LAM_EXACT);
    net_expect(lam_costs_total(c, LAM_EFFECTIVE_MACS), 24, LAM_AT_LEAST);
    assert_null(net_row_of(c, FC)->reason);
    assert_null(lam_costs_gap(c, 0));
    lam_costs_free(c);
    c = net_costs(m, "layers", false); /* it has no opinion, and says so where nothing ran as well */
    for (int i = LAM_BYTES_READ; i < LAM_N_METRICS; i++) {
        net_expect(lam_costs_total(c, (lam_metric)i), 0, LAM_UNKNOWN);
        net_expect(net_row_of(c, FC)->metric[i], 0, LAM_UNKNOWN);
        net_expect(lam_costs_row(c, 0)->metric[i], 0, LAM_UNKNOWN);
        net_expect(lam_costs_phase_total(c, LAM_BACKWARD, (lam_metric)i), 0, LAM_UNKNOWN);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

/* Bytes and intensity of rows and totals. */
static void bytes_of_rows(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    const lam_cost_row *fc = net_row_of(c, FC);
    net_expect(fc->metric[LAM_BYTES_READ], 4 * (6 + 12), LAM_EXACT);
    net_expect(fc->metric[LAM_BYTES_WRITTEN], 4 * 8, LAM_EXACT);
    net_expect(lam_metric_bytes(fc->metric), 4 * 26, LAM_EXACT);
    assert_true(lam_metric_intensity(fc->metric) == 48.0 / 104);
    net_expect(fc->phases->backward[LAM_BYTES_READ], 4 * (6 + 8 + 8 + 12), LAM_EXACT);
    net_expect(lam_costs_total(c, LAM_BYTES_READ), 4 * (18 + 8 + 28 + 8), LAM_AT_LEAST);
    assert_true(lam_metric_intensity(net_row_of(c, MINE)->metric) < 0); /* a part is not known */
    assert_true(lam_metric_intensity(lam_costs_row(c, 0)->metric) < 0); /* no byte moves */
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(effective),
        cmocka_unit_test(effective_of_masks),
        cmocka_unit_test(effective_of_kernels),
        cmocka_unit_test(effective_without_an_operator),
        cmocka_unit_test(effective_of_fast_paths),
        cmocka_unit_test(effective_unknown),
        cmocka_unit_test(bytes_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
