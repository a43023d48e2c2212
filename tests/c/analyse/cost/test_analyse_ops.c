/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs by operators: which of them count, whose they are, the phases apart, what is not known by name, and
 * every allocation failing in turn. */
#include "kit/oom.h"

#include "kit/ops_net.h"

static void same(lam_count a, lam_count b) { net_expect(a, b.n, b.state); }

/* The row of what ran outside every call. */
static const lam_cost_row *outside_row(const lam_costs *c) {
    for (int32_t i = 0; i < lam_costs_n_rows(c); i++)
        if (lam_costs_row(c, i)->event < 0 && lam_costs_row(c, i)->counted) return lam_costs_row(c, i);
    return NULL;
}

static lam_count number_of(const lam_costs *c, int32_t op, lam_metric metric) {
    lam_count n[LAM_N_METRICS];
    assert_int_equal(lam_costs_op(c, op, n, NULL, NULL), LAM_OK);
    return n[metric];
}

/* -- a training step ---------------------------------------------------------------------------- */

enum { ROOT, FC, ACT, MINE };

static void whose_they_are(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    const lam_cost_row *fc = net_row_of(c, FC), *act = net_row_of(c, ACT), *mine = net_row_of(c, MINE),
                       *root = net_row_of(c, ROOT), *out = outside_row(c);
    assert_int_equal(lam_costs_n_rows(c), 6); /* four calls, `inner` that was not called, and outside */
    net_expect(fc->metric[LAM_MACS], 24, LAM_EXACT);
    net_expect(fc->metric[LAM_FLOPS], 48, LAM_EXACT);
    net_expect(fc->phases->backward[LAM_MACS], 48, LAM_EXACT);
    net_expect(fc->phases->recompute[LAM_MACS], 24, LAM_EXACT);
    net_expect(fc->phases->total_backward[LAM_FLOPS], 96, LAM_EXACT);
    assert_null(fc->reason);
    assert_true(fc->counted);
    net_expect(act->metric[LAM_MACS], 0, LAM_EXACT);
    same(act->metric[LAM_FLOPS], number_of(c, 4, LAM_FLOPS));
    assert_true(act->metric[LAM_FLOPS].n > 0);
    net_expect(act->phases->backward[LAM_FLOPS], 0, LAM_EXACT);
    net_expect(mine->metric[LAM_MACS], 40, LAM_AT_LEAST);
    assert_string_equal(mine->reason, "no rule for the operator my::op");
    net_expect(mine->phases->backward[LAM_MACS], 0, LAM_EXACT);
    net_expect(root->metric[LAM_DMAS], 0, LAM_EXACT);
    assert_false(root->counted);
    net_expect(root->below->total[LAM_MACS], 64, LAM_AT_LEAST);
    net_expect(root->phases->total_backward[LAM_MACS], 48, LAM_EXACT);
    net_expect(root->phases->total_recompute[LAM_MACS], 24, LAM_EXACT);
    assert_non_null(out);
    assert_int_equal(out->place, 0);
    assert_false(out->never_called);
    assert_false(out->shared);
    net_expect(out->metric[LAM_MACS], 6, LAM_EXACT);
    net_expect(out->below->total[LAM_MACS], 6, LAM_EXACT);
    net_expect(out->params, 0, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

static void totals(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    int32_t n = 0;
    net_expect(lam_costs_total(c, LAM_MACS), 70, LAM_AT_LEAST);
    net_expect(lam_costs_phase_total(c, LAM_FORWARD, LAM_MACS), 70, LAM_AT_LEAST);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS), 48, LAM_EXACT);
    net_expect(lam_costs_phase_total(c, LAM_RECOMPUTE, LAM_MACS), 24, LAM_EXACT);
    for (int i = 0; i < LAM_N_METRICS; i++) { /* the rows add up to the total */
        lam_count sum = {0, 0, LAM_EXACT};
        for (int32_t r = 0; r < lam_costs_n_rows(c); r++)
            sum = lam_count_add(sum, lam_costs_row(c, r)->metric[i]);
        assert_int_equal(sum.n, lam_costs_total(c, (lam_metric)i).n);
    }
    assert_int_equal(lam_costs_phase_total(c, LAM_N_PHASES, LAM_MACS).state, LAM_UNKNOWN);
    assert_int_equal(lam_costs_phase_total(c, LAM_BACKWARD, LAM_N_METRICS).state, LAM_UNKNOWN);
    assert_string_equal(lam_costs_unruled_op(c, 0, &n), "my::op");
    assert_int_equal(n, 2);
    assert_string_equal(lam_costs_unruled_op(c, 0, NULL), "my::op");
    assert_null(lam_costs_unruled_op(c, 1, &n));
    assert_null(lam_costs_unruled_op(c, -1, &n));
    assert_null(lam_costs_unruled(c, 0, &n)); /* layers need no rule here */
    assert_string_equal(lam_costs_gap(c, 0), "no rule for the operator my::op (2 runs)");
    assert_null(lam_costs_gap(c, 1));
    lam_costs_free(c);
    lam_model_free(m);
}

static void one_by_one(void **state) {
    (void)state;
    /* linear, t, transpose, mm | relu | mm, my::op, my::op, failed mm | mm | node, mm, mm, mm */
    static const bool want[] = {false, true,  false, true,  true, true, true,
                                true,  false, true,  false, true, true, true};
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    lam_count n[LAM_N_METRICS];
    lam_error e = {0};
    for (int32_t i = 0; i < 14; i++)
        if (net_counted(c, i) != want[i]) fail_msg("operator %d is%s counted", (int)i, want[i] ? " not" : "");
    net_expect(number_of(c, 3, LAM_MACS), 24, LAM_EXACT);
    net_expect(number_of(c, 1, LAM_MACS), 0, LAM_EXACT);
    net_expect(number_of(c, 6, LAM_MACS), 0, LAM_UNKNOWN);
    net_expect(number_of(c, 8, LAM_MACS), 0, LAM_EXACT);  /* it raised */
    net_expect(number_of(c, 10, LAM_MACS), 0, LAM_EXACT); /* a node */
    assert_int_equal(lam_costs_op(c, 14, n, NULL, &e), LAM_RANGE);
    assert_non_null(strstr(e.text, "no operator 14; the model has 14"));
    assert_int_equal(lam_costs_op(c, -1, n, NULL, NULL), LAM_RANGE);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- conventions that count calls --------------------------------------------------------------- */

static void calls_as_before(void **state) {
    (void)state;
    static const char *const names[] = {"layers", "torchscan", "thoplw"};
    net n = net_new();
    net_plain(&n);
    lam_model *with = net_step(), *without = net_done(&n);
    for (int k = 0; k < 6; k++) {
        lam_costs *a = net_costs(with, names[k / 2], k % 2), *b = net_costs(without, names[k / 2], k % 2);
        assert_int_equal(lam_costs_n_rows(a), lam_costs_n_rows(b));
        for (int32_t r = 0; r < lam_costs_n_rows(a); r++) {
            const lam_cost_row *x = lam_costs_row(a, r), *y = lam_costs_row(b, r);
            assert_int_equal(x->event, y->event);
            for (int i = 0; i < LAM_N_METRICS; i++) {
                same(x->metric[i], y->metric[i]);
                same(x->below->total[i], y->below->total[i]);
                net_expect(x->phases->backward[i], 0, LAM_UNKNOWN);
                net_expect(x->phases->recompute[i], 0, LAM_UNKNOWN);
                net_expect(x->phases->total_backward[i], 0, LAM_UNKNOWN);
                net_expect(x->phases->total_recompute[i], 0, LAM_UNKNOWN);
            }
        }
        same(lam_costs_total(a, LAM_FLOPS), lam_costs_total(b, LAM_FLOPS));
        same(lam_costs_phase_total(a, LAM_FORWARD, LAM_FLOPS), lam_costs_total(a, LAM_FLOPS));
        net_expect(lam_costs_phase_total(a, LAM_BACKWARD, LAM_MACS), 0, LAM_UNKNOWN);
        net_expect(lam_costs_phase_total(a, LAM_RECOMPUTE, LAM_DMAS), 0, LAM_UNKNOWN);
        assert_null(lam_costs_unruled_op(a, 0, NULL));
        assert_false(net_counted(a, 3));
        net_expect(number_of(a, 3, LAM_MACS), 0, LAM_UNKNOWN);
        net_expect(number_of(a, 10, LAM_MACS), 0, LAM_UNKNOWN);
        lam_costs_free(a);
        lam_costs_free(b);
    }
    lam_model_free(with);
    lam_model_free(without);
}

static void not_watched(void **state) {
    (void)state;
    net n = net_new();
    net_plain(&n);
    lam_model *m = net_done(&n);
    lam_costs *c = NULL;
    lam_error e = {0};
    const lam_cost_options o = {.convention = "exact"};
    assert_int_equal(lam_costs_new(&c, m, &o, &e), LAM_USAGE);
    assert_null(c);
    assert_string_equal(e.where, "exact");
    assert_string_equal(e.text,
                        "the convention counts operators and none were watched; capture with ops=True");
    lam_model_free(m);
}

static void watched_and_none(void **state) {
    (void)state;
    net n = net_new();
    net_plain(&n);
    NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    for (int p = 0; p < LAM_N_PHASES; p++)
        net_expect(lam_costs_phase_total(c, (lam_phase)p, LAM_FLOPS), 0,
                   p == LAM_FORWARD ? LAM_EXACT : LAM_UNKNOWN);
    assert_null(outside_row(c));
    assert_null(lam_costs_gap(c, 0));
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- what claims what --------------------------------------------------------------------------- */

static const op_at top = {-1, -1, LAM_FORWARD, 0};
static op_at in(int32_t parent) { return (op_at){-1, parent, LAM_FORWARD, 0}; }

static net net_root(void) {
    net n = net_new();
    net_place(&n, -1, "", net_module(&n, "Net", 0));
    return n;
}

static void claims(void **state) {
    (void)state;
    net n = net_root();
    int32_t outer = net_mm(&n, top, 2, 3, 4), inner = net_mm(&n, in(outer), 5, 6, 7);
    net_mm(&n, in(inner), 8, 9, 10);
    int32_t through = net_op(&n, "aten::_no_word_of_ours", top);
    net_mm(&n, in(through), 1, 1, 1);
    int32_t failed = net_op(&n, "aten::linear", (op_at){-1, -1, LAM_FORWARD, LAM_OP_FAILED});
    net_mm(&n, in(failed), 1, 1, 2);
    int32_t node = net_op(&n, "AddBackward0", (op_at){-1, -1, LAM_FORWARD, LAM_OP_NODE});
    int32_t raised = net_mm(&n, (op_at){-1, node, LAM_FORWARD, LAM_OP_FAILED}, 100, 100, 100);
    net_mm(&n, in(raised), 1, 1, 4); /* it ran to its end */
    net_op(&n, "autograd_region", top);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_MACS), 24 + 1 + 2 + 4, LAM_AT_LEAST);
    assert_string_equal(lam_costs_gap(c, 0), "no rule for the operator autograd_region (1 run)");
    assert_null(lam_costs_gap(c, 1));
    net_expect(number_of(c, inner, LAM_MACS), 210,
               LAM_EXACT); /* by itself, although another accounts for it */
    assert_false(net_counted(c, inner));
    assert_false(net_counted(c, through));
    lam_costs_free(c);
    lam_model_free(m);
}

/* A kernel of somebody's own that makes a tensor: an allocation inside it says nothing of what it did. */
static void kernels_of_others(void **state) {
    (void)state;
    const lam_op_arg out[] = {{.position = 0, .value = {.type = LAM_INT, .i = 1}}, T(1, 4)};
    net n = net_root();
    int32_t kernel = net_op_args(&n, "my::kernel", top, NULL, 0, out, 2);
    net_op(&n, "aten::empty", in(kernel));
    int32_t python = net_op_args(&n, "my::in_python", top, NULL, 0, out, 2);
    int32_t deeper = net_op_args(&n, "my::deeper", in(python), NULL, 0, out, 2);
    net_mm(&n, in(deeper), 1, 2, 3);
    int32_t quiet = net_op_args(&n, "my::quiet", top, NULL, 0, out, 1); /* gives no tensor */
    net_op(&n, "aten::empty", in(quiet));
    int32_t ours = net_op_args(&n, "aten::_of_a_later_version", top, NULL, 0, out, 2);
    net_op(&n, "aten::empty", in(ours));
    int32_t region = net_op_args(&n, "a region", top, NULL, 0, out, 2);
    net_op(&n, "aten::empty", in(region));
    int32_t broke =
        net_op_args(&n, "my::broke", (op_at){-1, -1, LAM_FORWARD, LAM_OP_FAILED}, NULL, 0, out, 2);
    net_op(&n, "aten::empty", in(broke));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    assert_string_equal(lam_costs_unruled_op(c, 0, NULL), "my::kernel");
    assert_null(lam_costs_unruled_op(c, 1, NULL));
    assert_true(net_counted(c, kernel));
    assert_false(net_counted(c, python));
    assert_false(net_counted(c, deeper));
    net_expect(lam_costs_total(c, LAM_MACS), 6, LAM_AT_LEAST);
    lam_costs_free(c);
    lam_model_free(m);
}

/* max_pool1d has a kernel of its own where no gradient is wanted, which only allocates; a composite that is
 * all views (or whose rule knows no number) did nothing, and one that moved elements by another did no more.
 */
static void composites_that_work_themselves(void **state) {
    (void)state;
    const int64_t window[] = {4};
    const lam_op_arg in_[] = {T(0, 1, 2, 12),
                              {.position = 1, .value = {.type = LAM_INTS, .n = 1, .ints = window}}};
    const lam_op_arg out[] = {T(0, 1, 2, 3)};
    net n = net_root();
    int32_t alone = net_op_args(&n, "aten::max_pool1d", top, in_, 2, out, 1);
    net_op(&n, "aten::empty", in(alone));
    const op_at failing = {-1, -1, LAM_FORWARD, LAM_OP_FAILED};
    int32_t broke = net_op_args(&n, "aten::max_pool1d", failing, in_, 2, out, 0);
    net_op(&n, "aten::empty", in(broke));
    int32_t views = net_op_args(&n, "aten::einsum", top, in_, 1, out, 1);
    net_op(&n, "aten::permute", in(views));
    int32_t linear = net_op_args(&n, "aten::linear", top, NULL, 0, out, 1); /* shapes unseen */
    net_op(&n, "aten::t", in(linear));
    int32_t full = net_op_args(&n, "aten::matmul", top, (lam_op_arg[]){T(0, 2, 3), T(1, 3, 4)}, 2,
                               (lam_op_arg[]){T(0, 2, 4)}, 1);
    net_mm(&n, in(full), 2, 3, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_FLOPS), 6 * 3 + 48, LAM_EXACT);
    net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_EXACT);
    assert_true(net_counted(c, alone));
    assert_false(net_counted(c, broke));
    assert_false(net_counted(c, views));
    assert_false(net_counted(c, linear));
    assert_false(net_counted(c, full));
    assert_null(lam_costs_gap(c, 0));
    lam_costs_free(c);
    c = net_costs(m, "torch", false);
    assert_false(net_counted(c, alone));
    lam_costs_free(c);
    lam_model_free(m);
}

/* One around an operator that a mode answered did not do the work instead, whatever the answer did. */
static void around_an_answer(void **state) {
    (void)state;
    net n = net_root();
    const lam_op_arg pair[] = {T(0, 2, 3), T(1, 3, 4)}, out[] = {T(0, 2, 4)};
    int32_t around = net_op_args(&n, "aten::matmul", top, pair, 2, out, 1);
    net_op_args(&n, "aten::mm", (op_at){-1, around, LAM_FORWARD, LAM_OP_NODE}, pair, 2, out, 1);
    int32_t alone = net_op_args(&n, "aten::matmul", top, pair, 2, out, 1);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    assert_false(net_counted(c, around));
    assert_true(net_counted(c, alone));
    net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

static void as_deep_as_it_gets(void **state) {
    (void)state;
    enum { DEEP = 20000 };
    net n = net_root();
    int32_t last = -1;
    for (int32_t i = 0; i < DEEP; i++) last = net_op(&n, i % 2 ? "aten::linear" : "my::wrapper", in(last));
    net_mm(&n, in(last), 2, 2, 2);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_MACS), 8, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- what is not known -------------------------------------------------------------------------- */

static void a_fact_is_missing(void **state) {
    (void)state;
    const lam_op_arg unseen[] = {T_UNSEEN(0), T_UNSEEN(1)};
    net n = net_new();
    net_calls k = net_plain(&n);
    net_op_args(&n, "aten::mm", (op_at){k.fc, -1, LAM_FORWARD, 0}, unseen, 2, unseen, 1);
    net_op_args(&n, "aten::mm", (op_at){k.fc, -1, LAM_BACKWARD, 0}, unseen, 2, unseen, 1);
    net_op(&n, "my::op", (op_at){k.fc, -1, LAM_FORWARD, 0});
    net_op(&n, "my::op", (op_at){k.root, -1, LAM_BACKWARD, 0});
    net_op(&n, "other::op", (op_at){-1, -1, LAM_BACKWARD, 0});
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    static const char start[] = "the operator aten::mm: the formula of ";
    const char *gap = lam_costs_gap(c, 0);
    if (strncmp(gap, start, sizeof start - 1) != 0 ||
        !strstr(gap, "`, which its arguments do not tell (2 runs)"))
        fail_msg("%s", gap);
    assert_string_equal(lam_costs_gap(c, 1), "no rule for the operator my::op (2 runs)");
    assert_string_equal(lam_costs_gap(c, 2), "no rule for the operator other::op (1 run)");
    assert_null(lam_costs_gap(c, 3));
    assert_string_equal(lam_costs_unruled_op(c, 0, NULL), "my::op"); /* mm has a rule */
    assert_string_equal(lam_costs_unruled_op(c, 1, NULL), "other::op");
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 0, LAM_UNKNOWN);
    net_expect(net_row_of(c, FC)->phases->backward[LAM_MACS], 0, LAM_UNKNOWN);
    assert_true(strncmp(net_row_of(c, FC)->reason, start, sizeof start - 1) == 0);
    net_expect(net_row_of(c, ROOT)->metric[LAM_MACS], 0, LAM_EXACT); /* only its backward is not known */
    net_expect(net_row_of(c, ROOT)->phases->backward[LAM_MACS], 0, LAM_UNKNOWN);
    assert_string_equal(net_row_of(c, ROOT)->reason, "no rule for the operator my::op");
    assert_string_equal(outside_row(c)->reason, "no rule for the operator other::op");
    net_expect(outside_row(c)->metric[LAM_MACS], 0, LAM_EXACT);
    net_expect(outside_row(c)->phases->backward[LAM_MACS], 0, LAM_UNKNOWN);
    lam_costs_free(c);
    lam_model_free(m);
}

/* Names of strangers can't drive a terminal. */
static void hostile_names(void **state) {
    (void)state;
    net n = net_root();
    net_op(&n, "my::\x1b[31mop", top);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    assert_string_equal(lam_costs_gap(c, 0), "no rule for the operator my::?[31mop (1 run)");
    lam_costs_free(c);
    lam_model_free(m);
}

static void a_call_that_raised(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), fc = net_linear(&n, 2, 3),
            p = net_place(&n, -1, "", root);
    net_place(&n, p, "0", fc);
    int32_t r = net_call_flags(&n, root, -1, LAM_CALL_FAILED, SH(1, 2), 0, SH(1, 3), 0);
    int32_t f = net_call_flags(&n, fc, r, LAM_CALL_FAILED, SH(1, 2), 0, SH(1, 3), 0);
    net_mm(&n, (op_at){f, -1, LAM_FORWARD, 0}, 1, 2, 3);
    net_op(&n, "my::op", (op_at){r, -1, LAM_FORWARD, 0});
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(net_row_of(c, f)->metric[LAM_MACS], 6, LAM_AT_LEAST);
    assert_string_equal(net_row_of(c, f)->reason, "it raised, so what it would have computed is not known");
    assert_string_equal(net_row_of(c, r)->reason, "no rule for the operator my::op");
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- odd models --------------------------------------------------------------------------------- */

static void without_places(void **state) {
    (void)state;
    net n = net_new();
    net_mm(&n, top, 2, 3, 4);
    net_mm(&n, (op_at){-1, -1, LAM_BACKWARD, 0}, 2, 3, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    assert_int_equal(lam_costs_n_rows(c), 0);
    net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_EXACT);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS), 24, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* A root that holds a parameter and is never called: its row and that of the work outside are two. */
static void without_calls(void **state) {
    (void)state;
    for (int released = 0; released < 2; released++) {
        net n = net_new();
        int32_t root = net_module(&n, "Net", LAM_MODULE_LEAF);
        net_param(&n, root, "weight", SH(3, 4));
        net_place(&n, -1, "", root);
        net_mm(&n, top, 2, 3, 4);
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", released);
        assert_int_equal(lam_costs_n_rows(c), released ? 1 : 2);
        net_expect(outside_row(c)->params, 0, LAM_EXACT);
        net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_EXACT);
        assert_null(lam_costs_gap(c, 0));
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* What an attention layer that is called alone holds in a child that is not called belongs to its call. */
static void covered_children(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), mha = net_module(&n, "MultiheadAttention", 0);
    int32_t proj = net_module(&n, "NonDynamicallyQuantizableLinear", LAM_MODULE_LEAF);
    net_param(&n, mha, "in_proj_weight", SH(12, 4));
    net_param(&n, proj, "weight", SH(4, 4));
    int32_t p = net_place(&n, -1, "", root), a = net_place(&n, p, "attn", mha);
    net_place(&n, a, "out_proj", proj);
    int32_t r = net_call(&n, root, -1, SH(2, 3, 4), 0, SH(2, 3, 4), 0);
    int32_t call = net_call(&n, mha, r, SH(2, 3, 4), 0, SH(2, 3, 4), 0);
    net_mm(&n, (op_at){call, -1, LAM_FORWARD, 0}, 6, 4, 12);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    assert_int_equal(lam_costs_n_rows(c), 2);
    net_expect(net_row_of(c, call)->params, 48 + 16, LAM_EXACT);
    net_expect(net_row_of(c, call)->metric[LAM_MACS], 288, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* The receptive field does not ask how work is counted; also where a child makes a layer's weight. */
static void the_same_field(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Sequential", 0), a = net_conv(&n, "Conv2d", 2, 3, 4, 3, 1, 1);
    int32_t b = net_subclass(&n, "ParametrizedConv2d", "Conv2d", 0), w = net_leaf(&n, "Identity");
    net_ints(&n, b, "kernel_size", SH(3, 3));
    net_ints(&n, b, "stride", SH(2, 2));
    net_ints(&n, b, "padding", SH(1, 1));
    net_ints(&n, b, "dilation", SH(1, 1));
    int32_t p = net_place(&n, -1, "", root);
    net_place(&n, p, "0", a);
    net_place(&n, net_place(&n, p, "1", b), "weight", w);
    int32_t r = net_call(&n, root, -1, SH(1, 3, 8, 8), 1, SH(1, 4, 4, 4), 3);
    int32_t ca = net_call(&n, a, r, SH(1, 3, 8, 8), 1, SH(1, 4, 8, 8), 2);
    int32_t cb = net_call(&n, b, r, SH(1, 4, 8, 8), 2, SH(1, 4, 4, 4), 3);
    net_call(&n, w, cb, SH(4, 4, 3, 3), 8, SH(4, 4, 3, 3), 8);
    net_relu(&n, (op_at){ca, -1, LAM_FORWARD, 0}, 4);
    net_relu(&n, (op_at){cb, -1, LAM_FORWARD, 0}, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false), *d = net_costs(m, "layers", false);
    for (int32_t i = 0; i < 4; i++) {
        assert_true(net_row_of(c, i)->rf == net_row_of(d, i)->rf);
        assert_int_equal(net_row_of(c, i)->rf_state, net_row_of(d, i)->rf_state);
    }
    assert_true(net_row_of(c, cb)->rf == 5);
    lam_costs_free(c);
    lam_costs_free(d);
    lam_model_free(m);
}

static int32_t index_of(const lam_costs *c, const lam_cost_row *row) {
    return (int32_t)(row - lam_costs_row(c, 0));
}

/* -- the caller's own counts -------------------------------------------------------------------- */

static bool seven(void *self, const lam_model *m, int32_t event, lam_count out[LAM_N_METRICS], bool *omit) {
    (void)m;
    *omit = event == ACT;
    out[LAM_MACS] = (lam_count){7, 0, LAM_EXACT};
    return event == *(const int32_t *)self || event == ACT;
}

static void custom(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_costs *c = NULL;
    lam_why why;
    int32_t which = FC;
    const lam_cost_options o = {.convention = "exact", .custom = seven, .custom_self = &which};
    assert_int_equal(lam_costs_new(&c, m, &o, NULL), LAM_OK);
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 7, LAM_EXACT);
    net_expect(net_row_of(c, FC)->phases->backward[LAM_MACS], 48, LAM_EXACT); /* nothing was said of it */
    net_expect(net_row_of(c, ACT)->metric[LAM_FLOPS], 0, LAM_EXACT);
    net_expect(lam_costs_total(c, LAM_MACS), 7 + 40 + 6, LAM_AT_LEAST);
    net_expect(net_row_of(c, FC)->metric[LAM_EFFECTIVE_MACS], 7, LAM_EXACT);
    assert_int_equal(lam_costs_why(c, 1, 0, &why, NULL), LAM_OK);
    assert_string_equal(why.note, "counted by a function of the caller's own");
    assert_int_equal(lam_costs_why(c, 1, LAM_N_METRICS, &why, NULL), LAM_RANGE);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- why ---------------------------------------------------------------------------------------- */

static void why_by_operators(void **state) {
    (void)state;
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    lam_why w;
    lam_error e = {0};
    int32_t mine = index_of(c, net_row_of(c, MINE)), n = 0;
    assert_int_equal(lam_costs_why(c, mine, LAM_MACS, &w, NULL), LAM_OK);
    assert_string_equal(w.formula, "the sum of its operators");
    assert_string_equal(w.substituted, "aten::mm 40 + my::op x2 ?");
    assert_string_equal(w.note, "no rule for the operator my::op");
    net_expect(w.value, 40, LAM_AT_LEAST);
    while (lam_costs_why(c, mine, n, &w, &e) == LAM_OK) n++;
    assert_int_equal(n, LAM_N_METRICS * (1 + 2)); /* itself, mm, and my::op that ran twice */
    assert_int_equal(e.status, LAM_RANGE);
    assert_int_equal(lam_costs_why(c, mine, LAM_N_METRICS + LAM_MACS, &w, NULL), LAM_OK);
    assert_string_equal(w.note, "aten::mm");
    assert_int_equal(w.metric, LAM_MACS);
    assert_non_null(w.formula);
    assert_non_null(strpbrk(w.substituted, "0123456789"));
    net_expect(w.value, 40, LAM_EXACT);
    assert_int_equal(lam_costs_why(c, mine, 2 * LAM_N_METRICS + LAM_FLOPS, &w, NULL), LAM_OK);
    assert_string_equal(w.note, "my::op");
    assert_int_equal(w.n_equal, 2);
    assert_null(w.formula);
    net_expect(w.value, 0, LAM_UNKNOWN);
    int32_t act = index_of(c, net_row_of(c, ACT));
    assert_int_equal(lam_costs_why(c, act, LAM_MACS, &w, NULL), LAM_OK);
    assert_null(w.formula); /* relu has no part in it */
    assert_null(w.note);
    assert_int_equal(lam_costs_why(c, act, LAM_FLOPS, &w, NULL), LAM_OK);
    assert_non_null(strstr(w.substituted, "aten::relu "));
    assert_int_equal(lam_costs_why(c, index_of(c, net_row_of(c, ROOT)), LAM_MACS, &w, NULL), LAM_OK);
    assert_string_equal(w.note, "it only calls its layers, and their work is theirs");
    assert_int_equal(lam_costs_why(c, index_of(c, outside_row(c)), LAM_MACS, &w, NULL), LAM_OK);
    assert_string_equal(w.substituted, "aten::mm 6");
    assert_int_equal(lam_costs_why(c, mine, -1, &w, NULL), LAM_RANGE);
    lam_costs_free(c);
    lam_model_free(m);
}

/* The backward and the recomputation follow the forward, each with its operators; a phase without work is not
 * told. */
static void why_of_each_phase(void **state) {
    (void)state;
    static const char *const sums[LAM_N_PHASES] = {"aten::mm 24", "aten::mm 24 + aten::mm 24", "aten::mm 24"};
    static const int64_t macs[LAM_N_PHASES] = {24, 48, 24};
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, "exact", false);
    int32_t fc = index_of(c, net_row_of(c, FC)), sums_seen = 0, i = 0;
    lam_why w;
    lam_error e = {0};
    for (; lam_costs_why(c, fc, i, &w, &e) == LAM_OK; i++) {
        assert_int_equal(w.metric, i % LAM_N_METRICS);
        if (w.op < 0 && w.metric == LAM_MACS) {
            assert_int_equal(w.phase, sums_seen);
            assert_string_equal(w.substituted, sums[sums_seen]);
            net_expect(w.value, macs[sums_seen++], LAM_EXACT);
        } else if (w.op >= 0) {
            assert_int_equal(w.phase, lam_model_op(m, w.op)->phase);
            assert_string_equal(w.note, "aten::mm");
        }
    }
    assert_int_equal(sums_seen, LAM_N_PHASES);
    assert_int_equal(i, LAM_N_METRICS * (3 + 4)); /* three sums, and four products of other shapes */
    assert_non_null(strstr(e.text, "there is no explanation"));
    lam_costs_free(c);
    lam_model_free(m);
}

/* A row of a thousand operators is told in bounded space, and one of none says so. */
static void why_is_bounded(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    for (int i = 0; i < 1000; i++) net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 1, 1, 1000000 + i % 99);
    for (int i = 0; i < 40; i++) net_relu(&n, (op_at){k.act, -1, LAM_FORWARD, 0}, 3 + i);
    net_mm(&n, (op_at){k.act, -1, LAM_FORWARD, 0}, 1, 1, 2);
    net_op(&n, "aten::t", (op_at){k.mine, -1, LAM_FORWARD, 0});
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    lam_why w;
    int32_t told = 0, fc = index_of(c, net_row_of(c, FC));
    while (lam_costs_why(c, fc, told, &w, NULL) == LAM_OK) told++;
    assert_int_equal(told, LAM_N_METRICS * 33);
    assert_int_equal(lam_costs_why(c, fc, LAM_MACS, &w, NULL), LAM_OK);
    assert_int_equal(strlen(w.substituted), sizeof w.substituted - 1);
    assert_string_equal(w.substituted + sizeof w.substituted - 4, "...");
    assert_int_equal(lam_costs_why(c, index_of(c, net_row_of(c, ACT)), LAM_MACS, &w, NULL), LAM_OK);
    assert_string_equal(w.substituted, "those of 9 more operators");
    assert_int_equal(lam_costs_why(c, index_of(c, net_row_of(c, MINE)), LAM_DMAS, &w, NULL), LAM_OK);
    assert_string_equal(w.note, "its own forward runs no operator that costs anything");
    assert_null(w.formula);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- memory ------------------------------------------------------------------------------------- */

static void cost_it(void *arg, bool *ok) {
    lam_costs *c = NULL;
    lam_error e = {0};
    lam_why w;
    const lam_cost_options o = {.convention = "exact"};
    lam_status s = lam_costs_new(&c, arg, &o, &e);
    for (int32_t i = 0; s == LAM_OK && i < 6; i++) s = lam_costs_why(c, 3, i, &w, &e);
    *ok = oom_check(s, &e);
    lam_costs_free(c);
}

static void out_of_memory(void **state) {
    (void)state;
    static char names[300][16];
    net n = net_new();
    net_calls k = net_plain(&n);
    for (int i = 0; i < 300; i++) {
        snprintf(names[i], sizeof names[i], "my::op%d", i);
        net_op(&n, names[i], (op_at){k.mine, -1, LAM_FORWARD, 0});
        net_mm(&n, (op_at){k.fc, -1, i % 2 ? LAM_BACKWARD : LAM_FORWARD, 0}, 2, 2, 2);
    }
    net_relu(&n, (op_at){k.act, -1, LAM_FORWARD, 0}, 8);
    net_op(&n, "Region: 0/0", (op_at){k.act, -1, LAM_FORWARD, LAM_OP_NODE | LAM_OP_HIDES});
    lam_model *m = net_done(&n);
    oom_sweep(cost_it, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whose_they_are),
        cmocka_unit_test(totals),
        cmocka_unit_test(one_by_one),
        cmocka_unit_test(calls_as_before),
        cmocka_unit_test(not_watched),
        cmocka_unit_test(watched_and_none),
        cmocka_unit_test(claims),
        cmocka_unit_test(kernels_of_others),
        cmocka_unit_test(composites_that_work_themselves),
        cmocka_unit_test(around_an_answer),
        cmocka_unit_test(as_deep_as_it_gets),
        cmocka_unit_test(a_fact_is_missing),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(a_call_that_raised),
        cmocka_unit_test(without_places),
        cmocka_unit_test(without_calls),
        cmocka_unit_test(covered_children),
        cmocka_unit_test(the_same_field),
        cmocka_unit_test(custom),
        cmocka_unit_test(why_by_operators),
        cmocka_unit_test(why_of_each_phase),
        cmocka_unit_test(why_is_bounded),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
