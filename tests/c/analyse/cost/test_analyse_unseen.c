/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that ran unseen: in compiled code, outside the framework, in another thread. It is told by name and
 * makes a lower bound. */
#include "kit/oom.h"

#include "kit/ops_net.h"

enum { FC = 1, MINE = 3 }; /* calls of net_plain */

/* Code that a compiler made: what is seen inside it counts, and it says by name that there may be more. */
static void compiled_code(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    int32_t region = net_op(&n, "Region: 0/0", (op_at){k.fc, -1, LAM_FORWARD, LAM_OP_NODE | LAM_OP_HIDES});
    net_mm(&n, (op_at){k.fc, region, LAM_FORWARD, 0}, 2, 3, 4);
    int32_t open = net_op(&n, "Region: 1/0", (op_at){k.mine, -1, LAM_FORWARD, LAM_OP_NODE});
    net_mm(&n, (op_at){k.mine, open, LAM_FORWARD, 0}, 2, 4, 5);
    net_op(&n, "NodeBackward", (op_at){-1, -1, LAM_BACKWARD, LAM_OP_NODE | LAM_OP_HIDES});
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_MACS), 24 + 40, LAM_AT_LEAST);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS), 0, LAM_UNKNOWN);
    net_expect(lam_costs_phase_total(c, LAM_RECOMPUTE, LAM_MACS), 0, LAM_EXACT);
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 24, LAM_AT_LEAST);
    net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 40, LAM_EXACT);
    assert_non_null(strstr(net_row_of(c, FC)->reason, "compiled code (Region: 0/0)"));
    assert_non_null(strstr(lam_costs_gap(c, 1), "(NodeBackward)"));
    assert_null(lam_costs_gap(c, 2));
    assert_null(lam_costs_unruled_op(c, 0, NULL)); /* no rule is missing */
    lam_count own[LAM_N_METRICS];
    bool counted = true;
    assert_int_equal(lam_costs_op(c, region, own, &counted, NULL), LAM_OK);
    net_expect(own[LAM_FLOPS], 0, LAM_UNKNOWN);
    assert_false(counted);
    lam_costs_free(c);
    lam_model_free(m);
}

/* An operator of which torch kept no record. */
static void by_redispatch(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    net_op(&n, "aten::mm", (op_at){k.fc, -1, LAM_FORWARD, LAM_OP_NODE | LAM_OP_HIDES});
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_AT_LEAST);
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 24, LAM_AT_LEAST);
    net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 0, LAM_EXACT);
    assert_non_null(strstr(net_row_of(c, FC)->reason, "aten::mm ran by redispatch()"));
    assert_null(lam_costs_unruled_op(c, 0, NULL));
    lam_costs_free(c);
    lam_model_free(m);
}

/* What runs inside an operator beside its work counts by itself, with what is inside it; and it says nothing
 * about the work of a custom operator. */
static void beside(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    int32_t layer = net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    net_mm(&n, (op_at){k.fc, layer, LAM_FORWARD, 0}, 2, 3, 4);
    int32_t hook = net_mm(&n, (op_at){k.fc, layer, LAM_FORWARD, LAM_OP_BESIDE}, 2, 4, 5);
    net_mm(&n, (op_at){k.fc, hook, LAM_FORWARD, 0}, 2, 4, 5);
    const lam_op_arg x = T(0, 2, 4);
    int32_t custom = net_op_args(&n, "my::op", (op_at){k.mine, -1, LAM_FORWARD, 0}, &x, 1, &x, 1);
    net_mm(&n, (op_at){k.mine, custom, LAM_FORWARD, LAM_OP_BESIDE}, 2, 4, 5);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 24 + 40, LAM_EXACT);
    net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 40, LAM_AT_LEAST);
    assert_string_equal(lam_costs_unruled_op(c, 0, NULL), "my::op");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A tangent that was computed inside an operator and not seen. */
static void derived(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, LAM_OP_DERIVED}, 2, 3, 4);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_AT_LEAST);
    net_expect(net_row_of(c, FC)->metric[LAM_FLOPS], 48, LAM_AT_LEAST);
    assert_non_null(
        strstr(net_row_of(c, FC)->reason, "aten::mm: forward-mode AD computed a tangent inside it"));
    assert_null(lam_costs_unruled_op(c, 0, NULL));
    lam_costs_free(c);
    lam_model_free(m);
}

/* Where values decide how an operator or a node goes on and there are none, what runs in it is set aside. No
 * way does dense work, and the tables that count nothing else do not care. */
static void values_decide(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    const op_at back = {k.fc, -1, LAM_BACKWARD, 0};
    net_mm(&n, back, 2, 3, 4);
    int32_t node = net_op(&n, "ProdBackward0", (op_at){k.fc, -1, LAM_BACKWARD, LAM_OP_NODE | LAM_OP_VALUES});
    net_mm(&n, (op_at){k.fc, node, LAM_BACKWARD, 0}, 2, 3, 4);
    int32_t plain = net_op(&n, "WhereBackward0", (op_at){k.mine, -1, LAM_BACKWARD, LAM_OP_NODE});
    int32_t sum = net_op(&n, "aten::sum", (op_at){k.mine, plain, LAM_BACKWARD, LAM_OP_VALUES});
    net_op(&n, "aten::flip", (op_at){k.mine, sum, LAM_BACKWARD, LAM_OP_VALUES});
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS), 24, LAM_EXACT);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_EFFECTIVE_MACS), 24, LAM_EXACT);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_FLOPS), 48, LAM_AT_LEAST);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_DMAS), 6 + 12 + 8, LAM_AT_LEAST);
    assert_non_null(strstr(lam_costs_gap(c, 0), "ProdBackward0: a real run goes another way"));
    assert_non_null(strstr(lam_costs_gap(c, 1), "WhereBackward0: a real run"));
    assert_non_null(strstr(lam_costs_gap(c, 1), "(1 run)"));
    assert_null(lam_costs_gap(c, 2));
    assert_null(lam_costs_unruled_op(c, 0, NULL));
    lam_count own[LAM_N_METRICS];
    bool counted = true;
    assert_int_equal(lam_costs_op(c, sum, own, &counted, NULL), LAM_OK);
    net_expect(own[LAM_FLOPS], 0, LAM_UNKNOWN);
    assert_false(counted);
    lam_costs_free(c);
    c = net_costs(m, "torch", false);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_FLOPS), 48, LAM_EXACT);
    lam_costs_free(c);
    lam_model_free(m);
}

/* A quantile sorts; where nothing inside puts values in order, a kernel did that is no operator. One that
 * raised, or of which nothing was seen, is told otherwise. */
static void selected_by_a_kernel(void **state) {
    (void)state;
    static const struct {
        const char *name, *orders;
        int32_t flags;
        bool unseen;
    } all[] = {{"aten::quantile", NULL, 0, true},
               {"aten::nanquantile", NULL, 0, true},
               {"aten::quantile", "aten::sort", 0, false},
               {"aten::quantile", "aten::topk", 0, false},
               {"aten::quantile", NULL, LAM_OP_FAILED, false},
               {"aten::linear", NULL, 0, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        net n = net_new();
        net_calls k = net_plain(&n);
        int32_t op = net_op(&n, all[i].name, (op_at){k.fc, -1, LAM_FORWARD, all[i].flags});
        net_mm(&n, (op_at){k.fc, op, LAM_FORWARD, 0}, 2, 3, 4);
        if (all[i].orders) net_op(&n, all[i].orders, (op_at){k.fc, op, LAM_FORWARD, 0});
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        bool told = lam_costs_gap(c, 0) && strstr(lam_costs_gap(c, 0), "selects the values in a kernel");
        assert_int_equal(told, all[i].unseen);
        if (told) {
            net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_EXACT);
            net_expect(lam_costs_total(c, LAM_FLOPS), 48, LAM_AT_LEAST);
            net_expect(lam_costs_total(c, LAM_DMAS), 6 + 12 + 8, LAM_AT_LEAST);
        }
        lam_costs_free(c);
        lam_model_free(m);
    }
}

static void trip(net *n, int32_t call, const char *const *names, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        int32_t op = net_op(n, names[i], (op_at){call, -1, LAM_FORWARD, 0});
        net_op(n, "aten::alias", (op_at){call, op, LAM_FORWARD, 0});
    }
}

/* Data that leaves for numpy and comes back: what was computed there is not known. What only leaves, only
 * comes, or is made of numbers hides nothing. */
static void through_numpy(void **state) {
    (void)state;
    static const char *const out[] = {"aten::resolve_conj", "aten::resolve_neg"}, *const in[] = {
                                                                                      "aten::lift_fresh"};
    static const char *const made[] = {"aten::empty", "aten::item", "aten::to", "aten::lift_fresh"};
    const lam_op_arg number = net_op_tensor(0, NULL, 0);
    net n = net_new();
    net_calls k = net_plain(&n);
    trip(&n, k.fc, in, 1);
    trip(&n, k.fc, out, 2);
    trip(&n, k.fc, made, 4);
    net_op_args(&n, in[0], (op_at){k.fc, -1, LAM_FORWARD, 0}, NULL, 0, &number, 1); /* x[0] = 1 */
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    trip(&n, k.mine, in, 1);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 24, LAM_EXACT);
    net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 0, LAM_UNKNOWN);
    assert_non_null(strstr(net_row_of(c, MINE)->reason, "numpy"));
    assert_non_null(strstr(lam_costs_gap(c, 0), "numpy"));
    assert_null(lam_costs_gap(c, 1));
    assert_null(lam_costs_unruled_op(c, 0, NULL));
    lam_costs_free(c);
    lam_model_free(m);
}

/* A layer of 24 MACs whose call is marked with `flags`. */
static lam_model *one_linear(uint32_t flags) {
    net n = net_new();
    int32_t fc = net_linear(&n, 3, 4);
    net_place(&n, -1, "", fc);
    int32_t call = net_call_flags(&n, fc, -1, flags, SH(2, 3), 0, SH(2, 4), 0);
    net_mm(&n, (op_at){call, -1, LAM_FORWARD, 0}, 2, 3, 4);
    return net_done(&n);
}

/* Layers that another thread called while this call was open. */
static void in_another_thread(void **state) {
    (void)state;
    static const char *const conventions[] = {"exact", "layers"};
    for (size_t i = 0; i < 2; i++) {
        lam_model *m = one_linear(LAM_CALL_ELSEWHERE);
        lam_costs *c = net_costs(m, conventions[i], false);
        net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_AT_LEAST);
        assert_non_null(strstr(lam_costs_row(c, 0)->reason, "another thread"));
        assert_non_null(strstr(lam_costs_gap(c, 0), "another thread"));
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* What another thread called, and this one did not, is not 0. */
static void by_another_thread_alone(void **state) {
    (void)state;
    for (int called = 0; called < 4; called++) {
        net n = net_new();
        int32_t root = net_module(&n, "Sequential", 0), a = net_linear(&n, 3, 4), b = net_linear(&n, 3, 4);
        int32_t top = net_place(&n, -1, "", root);
        net_place(&n, top, "a", a);
        net_place(&n, top, "b", b);
        int32_t call = called & 1 ? net_call_flags(&n, a, -1, 0, SH(2, 3), 0, SH(2, 4), 0) : -1;
        if (called & 1) net_mm(&n, (op_at){call, -1, LAM_FORWARD, 0}, 2, 3, 4);
        NET_OK(&n, lam_build_called_elsewhere(n.b, called & 2 ? a : b, &n.e));
        assert_int_equal(lam_build_called_elsewhere(n.b, 3, NULL), LAM_RANGE);
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, called == 1 ? "exact" : "layers", false);
        lam_why w;
        if (called == 1) {
            const int32_t last = lam_costs_n_rows(c) - 1;
            net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_AT_LEAST);
            assert_string_equal(
                lam_costs_gap(c, 0),
                "Linear (1 place, `b`) was called by another thread, and what ran there is not seen");
            assert_int_equal(lam_costs_why(c, last, 0, &w, NULL), LAM_OK);
            assert_non_null(strstr(w.note, "another thread"));
        } else if (called == 3) { /* it ran here too */
            net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_EXACT);
        } else {
            net_expect(lam_costs_total(c, LAM_MACS), 0, LAM_UNKNOWN);
            assert_non_null(strstr(lam_costs_gap(c, 0), "another thread"));
        }
        lam_costs_free(c);
        lam_model_free(m);
    }
}

static void of_strangers(void **state) {
    (void)state;
    static const char *const conventions[] = {"exact", "layers", "torchscan"};
    for (size_t i = 0; i < 3; i++) {
        lam_model *m = one_linear(LAM_CALL_STRANGERS);
        lam_costs *c = net_costs(m, conventions[i], i == 2);
        lam_count macs = lam_costs_total(c, LAM_MACS);
        assert_int_equal(macs.state, i == 1 ? LAM_AT_LEAST : LAM_EXACT);
        if (i == 1)
            assert_non_null(strstr(lam_costs_gap(c, 0), "it called layers that were not the model's"));
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* A generator: nothing of it ran in the call, and what did afterwards is counted. */
static void later(void **state) {
    (void)state;
    static const char *const conventions[] = {"exact", "layers", "torchscan"};
    for (size_t i = 0; i < 3; i++) {
        lam_model *m = one_linear(LAM_CALL_LATER);
        lam_costs *c = net_costs(m, conventions[i], i == 2);
        lam_count macs = lam_costs_total(c, LAM_MACS);
        assert_int_equal(macs.state, LAM_AT_LEAST);
        assert_non_null(strstr(lam_costs_gap(c, 0), "its forward is a generator or a coroutine"));
        lam_costs_free(c);
        lam_model_free(m);
    }
}

static void out_of_memory(void **state) {
    (void)state;
    static const char *const trips[] = {"aten::resolve_conj", "aten::resolve_neg", "aten::lift_fresh"};
    net n = net_new();
    net_calls k = net_plain(&n);
    net_op(&n, "Region: 0/0", (op_at){k.fc, -1, LAM_FORWARD, LAM_OP_NODE | LAM_OP_HIDES});
    trip(&n, k.mine, trips, 3);
    lam_model *m = net_done(&n);
    oom_sweep(net_try_costs, &(net_costing){m, "exact", false});
    lam_model_free(m);
}

/* It is named by its class, whatever its number is. */
static void the_class_that_another_thread_called(void **state) {
    (void)state;
    net n = net_new();
    int32_t odd = net_leaf(&n, "Odd"), fc = net_linear(&n, 3, 4), root = net_module(&n, "Net", 0);
    int32_t top = net_place(&n, -1, "", root);
    net_place(&n, top, "fc", fc);
    net_place(&n, top, "odd", odd);
    net_call(&n, fc, net_call(&n, root, -1, SH(2, 3), 0, SH(2, 4), 0), SH(2, 3), 0, SH(2, 4), 0);
    NET_OK(&n, lam_build_called_elsewhere(n.b, odd, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    bool named = false;
    for (int32_t i = 0; lam_costs_gap(c, i); i++)
        named = named || strstr(lam_costs_gap(c, i), "Odd (1 place, `odd`) was called by another thread");
    assert_true(named);
    lam_costs_free(c);
    lam_model_free(m);
}

/* Where records could not be kept any more: what had ended is whole, but for a backward pass that may have
 * come. */
static void cut_short(void **state) {
    (void)state;
    for (int calls = 0; calls < 2; calls++) {
        net n = net_new();
        net_calls k = net_plain(&n);
        net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
        NET_OK(&n, lam_build_cut(n.b, "it was full", calls, 500, &n.e));
        NET_OK(&n, lam_build_cut(n.b, "another reason", false, 700, &n.e));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        net_expect(lam_costs_total(c, LAM_MACS), 24, LAM_AT_LEAST);
        net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS), 0, LAM_UNKNOWN);
        net_expect(net_row_of(c, MINE)->metric[LAM_MACS], 0, LAM_UNKNOWN);
        assert_string_equal(net_row_of(c, MINE)->reason, "it was full");
        assert_string_equal(lam_costs_gap(c, 0), "it was full");
        assert_null(lam_costs_gap(c, 1));
        assert_null(lam_costs_unruled_op(c, 0, NULL));
        lam_costs_free(c);
        c = net_costs(m, "layers", false);
        net_expect(net_row_of(c, FC)->metric[LAM_MACS], 24, calls ? LAM_AT_LEAST : LAM_EXACT);
        assert_true(!calls || strcmp(net_row_of(c, FC)->reason, "it was full") == 0);
        lam_costs_free(c);
        lam_model_free(m);
    }
    assert_int_equal(lam_build_cut(NULL, "why", false, 0, NULL), LAM_USAGE);
}

/* Where a backward pass ran that was not seen the forward is known, outside every layer too. */
static void cut_backward(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    net_mm(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 2, 3, 4);
    NET_OK(&n, lam_build_cut(n.b, "on another thread", false, INT64_MAX, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_MACS), 48, LAM_EXACT);
    net_expect(lam_costs_phase_total(c, LAM_BACKWARD, LAM_MACS), 0, LAM_UNKNOWN);
    net_expect(net_row_of(c, FC)->metric[LAM_MACS], 24, LAM_EXACT);
    assert_string_equal(lam_costs_gap(c, 0), "on another thread");
    assert_null(lam_costs_gap(c, 1));
    lam_costs_free(c);
    lam_model_free(m);
}

/* A call that ended before the moment, or at it, is whole. */
static void cut_after_a_call(void **state) {
    (void)state;
    static const int64_t cuts[] = {500, 200};
    for (size_t k = 0; k < 2; k++) {
        net n = net_new();
        int32_t root = net_module(&n, "Net", 0), a = net_leaf(&n, "Linear"), p = net_place(&n, -1, "", root),
                calls[2];
        net_place(&n, p, "a", a);
        for (int i = 0; i < 2; i++) {
            lam_call_info c = {.module = i ? a : root,
                               .parent = i - 1,
                               .t0_ns = 100 + i,
                               .t1_ns = i ? 200 : 900};
            NET_OK(&n, lam_build_call(n.b, &c, &calls[i], &n.e));
        }
        net_mm(&n, (op_at){calls[1], -1, LAM_FORWARD, 0}, 2, 3, 4);
        NET_OK(&n, lam_build_cut(n.b, "it was full", false, cuts[k], &n.e));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, "exact", false);
        net_expect(net_row_of(c, calls[1])->metric[LAM_MACS], 24, LAM_EXACT);
        net_expect(net_row_of(c, calls[0])->metric[LAM_MACS], 0, LAM_UNKNOWN);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

static void cut_without_memory(void **state) {
    (void)state;
    net n = net_new();
    net_calls k = net_plain(&n);
    net_mm(&n, (op_at){k.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    NET_OK(&n, lam_build_cut(n.b, "it was full", true, 500, &n.e));
    lam_model *m = net_done(&n);
    oom_sweep(net_try_costs, &(net_costing){m, "exact", false});
    lam_model_free(m);
}

/* The model of a builder that is full can still be finished. */
static void full_and_finished(void **state) {
    (void)state;
    lam_builder *b;
    lam_model *m = NULL;
    lam_error e = {0};
    lam_status s = LAM_OK;
    int64_t sizes[] = {4};
    assert_int_equal(lam_builder_new(&b, 1 << 20, NULL), LAM_OK);
    int32_t ran = 0;
    while (s == LAM_OK) {
        lam_op_arg x = {
            .is_tensor = true, .dtype = 6, .ndim = 1, .sizes = sizes, .object = 8u * (unsigned)ran + 8};
        lam_op_info o = {
            .name = "aten::relu", .call = -1, .parent = -1, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
        s = lam_build_op(b, &o, NULL, &e);
        ran += s == LAM_OK;
    }
    assert_int_equal(s, LAM_NOMEM);
    assert_true(ran > 100);
    e = (lam_error){0};
    assert_int_equal(lam_build_cut(b, "it was full", false, 0, &e), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, &e), LAM_OK);
    assert_int_equal(lam_model_n_ops(m), ran);
    lam_model_free(m);
}

/* Nothing that ran is no number: neither of the model, nor of a layer, nor of a phase. */
static void nothing_was_called(void **state) {
    (void)state;
    static const char *const conventions[] = {"exact", "layers", "torch", "fvcore", "torchscan"};
    for (size_t i = 0; i < sizeof conventions / sizeof *conventions; i++) {
        net n = net_new();
        int32_t root = net_place(&n, -1, "", net_module(&n, "Net", 0));
        net_place(&n, root, "fc", net_linear(&n, 3, 4));
        NET_OK(&n, lam_build_ops_seen(n.b, &n.e));
        lam_model *m = net_done(&n);
        lam_costs *c = net_costs(m, conventions[i], false);
        for (int p = 0; p < LAM_N_PHASES; p++)
            for (int k = 0; k < LAM_N_METRICS; k++)
                net_expect(lam_costs_phase_total(c, (lam_phase)p, (lam_metric)k), 0, LAM_UNKNOWN);
        net_expect(lam_costs_params(c).params, 16, LAM_EXACT);
        assert_string_equal(lam_costs_gap(c, 0),
                            "no layer of the model was called while the capture was open");
        for (int32_t r = 0; r < lam_costs_n_rows(c); r++) {
            const lam_cost_row *row = lam_costs_row(c, r);
            const lam_count *sums[] = {row->metric,
                                       row->below->total,
                                       row->phases->backward,
                                       row->phases->total_backward,
                                       row->phases->recompute,
                                       row->phases->total_recompute};
            for (size_t s = 0; s < sizeof sums / sizeof *sums; s++)
                for (int k = 0; k < LAM_N_METRICS; k++) net_expect(sums[s][k], 0, LAM_UNKNOWN);
        }
        lam_costs_free(c);
        lam_model_free(m);
    }
}

/* What else ran meanwhile is counted, and says nothing of what it has none of. */
static void something_else_was_called(void **state) {
    (void)state;
    net n = net_new();
    net_place(&n, -1, "", net_linear(&n, 3, 4));
    net_mm(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 1, 2, 3);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    net_expect(lam_costs_total(c, LAM_MACS), 6, LAM_EXACT);
    lam_costs_free(c);
    c = net_costs(m, "layers", false);
    net_expect(lam_costs_total(c, LAM_MACS), 0, LAM_UNKNOWN);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_was_called),
        cmocka_unit_test(something_else_was_called),
        cmocka_unit_test(compiled_code),
        cmocka_unit_test(by_redispatch),
        cmocka_unit_test(beside),
        cmocka_unit_test(derived),
        cmocka_unit_test(values_decide),
        cmocka_unit_test(selected_by_a_kernel),
        cmocka_unit_test(through_numpy),
        cmocka_unit_test(in_another_thread),
        cmocka_unit_test(by_another_thread_alone),
        cmocka_unit_test(of_strangers),
        cmocka_unit_test(later),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(cut_backward),
        cmocka_unit_test(cut_after_a_call),
        cmocka_unit_test(cut_without_memory),
        cmocka_unit_test(full_and_finished),
        cmocka_unit_test(the_class_that_another_thread_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
