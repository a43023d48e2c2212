/* SPDX-License-Identifier: Apache-2.0
 *
 * flex_attention operator by operator: its products have the effective counts of its mask. */
#include "kit/oom.h"

#include "kit/ops_net.h"

enum { BOOL = 11, HEADS = 2, LONG = 6, WIDE = 4, SCORES = HEADS * LONG * LONG };

static net n;

static void op(const char *name, op_at at, lam_op_arg a, lam_op_arg b, lam_op_arg y) {
    const lam_op_arg in[] = {a, b};
    net_op_args(&n, name, at, in, 2, &y, 1);
}

static lam_op_arg mask(int64_t open, bool seen) {
    static const int64_t sizes[] = {1, HEADS, LONG, LONG};
    lam_op_arg a = net_op_tensor(0, sizes, 4);
    a.dtype = BOOL;
    a.masks = seen;
    if (!seen) return a;
    a.open = open;
    a.open_rows = open < HEADS * LONG ? open : HEADS * LONG;
    return a;
}

/* A layer, and an attention in `around`; its mask leaves `open` scores, or was not seen (-1). */
static lam_costs *attend(const char *around, int32_t flags, int64_t open, lam_model **m) {
    n = net_new();
    net_place(&n, -1, "", net_module(&n, "Net", 0));
    const op_at whole = {-1, -1, LAM_FORWARD, 0};
    op("aten::mm", whole, T(0, 3, 5), T(1, 5, 7), T(0, 3, 7));
    op_at top = whole, in = whole;
    top.flags = (uint32_t)flags;
    op(around, top, T(0, 1, HEADS, LONG, WIDE), T(1, 1, HEADS, LONG, WIDE), T(0, 1, HEADS, LONG, WIDE));
    in.parent = 1;
    op("aten::bmm", in, T(0, HEADS, LONG, WIDE), T(1, HEADS, WIDE, LONG), T(0, HEADS, LONG, LONG));
    op("aten::where", in, mask(open < 0 ? 0 : open, open >= 0), T(1, 1, HEADS, LONG, LONG),
       T(0, 1, HEADS, LONG, LONG));
    op("aten::where", in, T(0, 1, HEADS, LONG), T(1, 1, HEADS, LONG), T(0, 1, HEADS, LONG));
    op("aten::bmm", in, T(0, HEADS, LONG, LONG), T(1, HEADS, LONG, WIDE), T(0, HEADS, LONG, WIDE));
    *m = net_done(&n);
    return net_costs(*m, "exact", false);
}

static void effective_is(const char *around, int32_t flags, int64_t open, int64_t macs, lam_state state) {
    lam_model *m;
    lam_costs *c = attend(around, flags, open, &m);
    const lam_count all = lam_costs_total(c, LAM_MACS), effective = lam_costs_total(c, LAM_EFFECTIVE_MACS);
    assert_int_equal(all.n, 3 * 5 * 7 + 2 * SCORES * WIDE);
    assert_int_equal(all.state, LAM_EXACT);
    assert_int_equal(effective.n, macs);
    assert_int_equal(effective.state, state);
    lam_costs_free(c);
    lam_model_free(m);
}

static void masks(void **state) {
    (void)state;
    enum { LAYER = 3 * 5 * 7 };
    static const char *const flex = "FlexAttentionAutogradOp";
    effective_is(flex, LAM_OP_NODE, 10, LAYER + 2 * 10 * WIDE, LAM_EXACT);
    effective_is(flex, LAM_OP_NODE, 0, LAYER, LAM_EXACT);
    effective_is(flex, LAM_OP_NODE, SCORES, LAYER + 2 * SCORES * WIDE, LAM_EXACT);
    effective_is(flex, LAM_OP_NODE, -1, LAYER, LAM_AT_LEAST);
    effective_is("Another", LAM_OP_NODE, 10, LAYER + 2 * SCORES * WIDE, LAM_EXACT);
}

/* One operator tells what the sum tells. */
static void one_by_one(void **state) {
    (void)state;
    lam_model *m;
    lam_costs *c = attend("FlexAttentionAutogradOp", LAM_OP_NODE, 10, &m);
    lam_count of[LAM_N_METRICS];
    assert_int_equal(lam_costs_op(c, 2, of, NULL, NULL), LAM_OK);
    assert_int_equal(of[LAM_MACS].n, SCORES * WIDE);
    assert_int_equal(of[LAM_EFFECTIVE_MACS].n, 10 * WIDE);
    assert_int_equal(lam_costs_op(c, 0, of, NULL, NULL), LAM_OK);
    assert_int_equal(of[LAM_EFFECTIVE_MACS].n, 3 * 5 * 7);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks), cmocka_unit_test(one_by_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
