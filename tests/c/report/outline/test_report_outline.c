/* SPDX-License-Identifier: Apache-2.0
 *
 * The outline of small models: places, their sums, how they look, totals. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/outlined.h"

#include "analyse/run/health.h"

/* -- sums ------------------------------------------------------------------------------------------------ */

static void test_numbers_are_sums_over_rows(void **unused) {
    (void)unused;
    outlined x = outline_of(net_step(), NULL);
    const lmi_outline *o = &x.o;
    assert_int_equal(o->n, 5);
    assert_string_equal(o->name, "Net");
    assert_string_equal(o->type_path, "user.Net");
    assert_string_equal(o->mode, "eval");
    outline_own(o, "", LMI_OWN_MACS, 6, LAM_EXACT); /* outside every call */
    outline_own(o, "fc", LMI_OWN_MACS, 24, LAM_EXACT);
    outline_own(o, "act", LMI_OWN_MACS, 0, LAM_EXACT);
    outline_own(o, "mine", LMI_OWN_MACS, 40, LAM_AT_LEAST); /* my::op has no rule */
    outline_own(o, "fc", LMI_OWN_BACK_MACS, 48 + 24, LAM_EXACT);
    outline_own(o, "fc", LMI_OWN_PARAMS, 16, LAM_EXACT);
    outline_own(o, "fc", LMI_OWN_PARAM_BYTES, 64, LAM_EXACT);
    outline_own(o, "fc", LMI_OWN_CALLS, 1, LAM_EXACT);
    outline_own(o, "mine.inner", LMI_OWN_PARAMS, 25, LAM_EXACT);
    /* mm reads both factors and writes their product: 4 * (6 + 12) and 4 * 8 bytes */
    outline_own(o, "fc", LMI_OWN_READ, 72, LAM_EXACT);
    outline_own(o, "fc", LMI_OWN_WRITTEN, 32, LAM_EXACT);
    outline_total(o, "", LMI_OWN_MACS, 70);
    outline_total(o, "", LMI_OWN_PARAMS, 41);
    outline_total(o, "mine", LMI_OWN_PARAMS, 25);
    net_expect(o->macs[LAM_FORWARD], 70, LAM_AT_LEAST);
    net_expect(o->macs[LAM_BACKWARD], 48, LAM_EXACT);
    net_expect(o->macs[LAM_RECOMPUTE], 24, LAM_EXACT);
    net_expect(o->params.params, 41, LAM_EXACT);
    assert_true(o->backward);
    assert_false(o->timed);
    assert_int_equal(o->ops_ran, lam_model_n_ops(x.m));
    assert_null(o->own[LMI_OWN_TIME]);
    assert_null(o->own[LMI_OWN_HELD]);
    assert_null(o->state[LMI_OWN_PARAMS]);
    assert_int_equal(o->n_gaps > 0, 1);
    outline_leave(&x);
}

/* Every number of a place is that of the report's table: the sums below the root are the totals. */
static void test_sums_are_the_totals(void **unused) {
    (void)unused;
    outlined x = outline_of(net_step(), NULL);
    const lmi_outline *o = &x.o;
    assert_int_equal(o->total[LMI_OWN_MACS][0], o->macs[LAM_FORWARD].n);
    assert_int_equal(o->total[LMI_OWN_FLOPS][0], o->flops[LAM_FORWARD].n);
    assert_int_equal(o->total[LMI_OWN_READ][0] + o->total[LMI_OWN_WRITTEN][0], o->bytes[LAM_FORWARD].n);
    assert_int_equal(o->total[LMI_OWN_BACK_MACS][0], o->macs[LAM_BACKWARD].n + o->macs[LAM_RECOMPUTE].n);
    assert_int_equal(o->total[LMI_OWN_BACK_FLOPS][0], o->flops[LAM_BACKWARD].n + o->flops[LAM_RECOMPUTE].n);
    outline_leave(&x);
}

static void test_second_calls_are_added(void **unused) {
    (void)unused;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_linear(&n, 3, 4), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    int32_t r = net_call(&n, root, -1, SH(2, 3), 0, SH(2, 4), 0);
    int32_t one = net_call(&n, fc, r, SH(2, 3), 0, SH(2, 4), 0),
            two = net_call(&n, fc, r, SH(5, 3), 0, SH(5, 4), 0);
    net_mm(&n, (op_at){one, -1, LAM_FORWARD, 0}, 2, 3, 4);
    net_mm(&n, (op_at){two, -1, LAM_FORWARD, 0}, 5, 3, 4);
    outlined x = outline_of(net_done(&n), NULL);
    outline_own(&x.o, "fc", LMI_OWN_MACS, 2 * 3 * 4 + 5 * 3 * 4, LAM_EXACT);
    outline_own(&x.o, "fc", LMI_OWN_CALLS, 2, LAM_EXACT);
    outline_own(&x.o, "fc", LMI_OWN_PARAMS, 16, LAM_EXACT); /* once */
    assert_string_equal(outline_at(&x.o, "fc")->in, "2\u00d73 float32");
    assert_string_equal(outline_at(&x.o, "fc")->out, "2\u00d74 float32");
    assert_int_equal(x.o.calls, 3);
    outline_leave(&x);
}

/* Net(list: ModuleList(0: Linear, 1: Linear), spare: Linear): the list has no call of its own. */
static void test_a_container_without_calls_has_a_place(void **unused) {
    (void)unused;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), list = net_module(&n, "ModuleList", 0), fc[3];
    for (int i = 0; i < 3; i++) fc[i] = net_linear(&n, 3, 3);
    int32_t p = net_place(&n, -1, "", root), l = net_place(&n, p, "list", list);
    net_place(&n, l, "0", fc[0]);
    net_place(&n, l, "1", fc[1]);
    net_place(&n, p, "spare", fc[2]);
    int32_t r = net_call(&n, root, -1, SH(1, 3), 0, SH(1, 3), 0);
    for (int i = 0; i < 2; i++) net_call(&n, fc[i], r, SH(1, 3), 0, SH(1, 3), 0);
    outlined x = outline_of(net_done(&n), "layers");
    const lmi_outline *o = &x.o;
    assert_int_equal(outline_at(o, "list")->state, LMI_CONTAINER_ALONE);
    assert_int_equal(outline_at(o, "list")->n_children, 2);
    assert_int_equal(outline_at(o, "list")->family, LMI_CONTAINER);
    assert_int_equal(outline_at(o, "list")->end, outline_find(o, "list.1") + 1);
    assert_string_equal(outline_at(o, "list")->out, "");
    assert_int_equal(outline_at(o, "list.1")->state, LMI_CALLED);
    assert_int_equal(outline_at(o, "list.1")->depth, 2);
    assert_int_equal(outline_at(o, "spare")->state, LMI_NEVER_CALLED);
    outline_own(o, "list", LMI_OWN_PARAMS, 0, LAM_EXACT);
    outline_total(o, "list", LMI_OWN_PARAMS, 24);
    outline_total(o, "", LMI_OWN_PARAMS, 36);
    assert_null(o->own[LMI_OWN_BACK_MACS]); /* this convention counts no backward */
    assert_false(o->backward);
    outline_leave(&x);
}

static void test_shared_parameters_are_counted_once(void **unused) {
    (void)unused;
    outlined x = outline_of(net_two_parents(true), "layers");
    outline_own(&x.o, "a.fc", LMI_OWN_PARAMS, 20, LAM_EXACT);
    net_expect(x.o.params.params, 24, LAM_EXACT);
    /* the column's sum is the convention's own */
    assert_int_equal(x.o.total[LMI_OWN_PARAMS][0], x.o.params.in_rows.n);
    outline_leave(&x);
}

/* What is larger than a number can be is told as the largest. */
static void test_great_numbers_are_at_least(void **unused) {
    (void)unused;
    const int64_t side = INT64_C(1) << 21;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_module(&n, "Mine", LAM_MODULE_LEAF);
    net_place(&n, net_place(&n, -1, "", root), "fc", fc);
    int32_t r = net_call(&n, root, -1, SH(1), 0, SH(1), 0), c = net_call(&n, fc, r, SH(1), 0, SH(1), 0);
    for (int i = 0; i < 2; i++) net_mm(&n, (op_at){c, -1, LAM_FORWARD, 0}, side, side, side);
    net_mm(&n, (op_at){r, -1, LAM_FORWARD, 0}, 1, 2, 3);
    outlined x = outline_of(net_done(&n), NULL);
    outline_own(&x.o, "fc", LMI_OWN_MACS, INT64_MAX, LAM_AT_LEAST);
    outline_own(&x.o, "", LMI_OWN_MACS, 6, LAM_EXACT);
    outline_total(&x.o, "", LMI_OWN_MACS, INT64_MAX);
    outline_leave(&x);
}

static void test_what_has_no_rule_is_unknown(void **unused) {
    (void)unused;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_module(&n, "Mine", LAM_MODULE_LEAF);
    net_place(&n, net_place(&n, -1, "", root), "mine", fc);
    int32_t r = net_call(&n, root, -1, SH(1), 0, SH(1), 0), c = net_call(&n, fc, r, SH(1), 0, SH(1), 0);
    net_op(&n, "my::op", (op_at){c, -1, LAM_FORWARD, 0});
    outlined x = outline_of(net_done(&n), NULL);
    outline_own(&x.o, "mine", LMI_OWN_MACS, 0, LAM_UNKNOWN);
    outline_own(&x.o, "", LMI_OWN_MACS, 0, LAM_EXACT);
    assert_non_null(x.o.own[LMI_OWN_MACS]); /* unknown is not zero: the column is there */
    assert_int_equal(x.o.macs[LAM_FORWARD].state, LAM_UNKNOWN);
    outline_leave(&x);
}

static void test_an_empty_model_has_a_root(void **unused) {
    (void)unused;
    net n = net_new();
    outlined x = outline_of(net_done(&n), "layers");
    const lmi_outline_place *at = x.o.at;
    assert_int_equal(x.o.n, 1);
    assert_int_equal(at->parent, -1);
    assert_int_equal(at->end, 1);
    assert_int_equal(at->depth + at->n_children + at->n_attrs + at->others + at->run, 0);
    assert_int_equal(at->n_run, 1);
    assert_int_equal(at->level, -1);
    assert_int_equal(at->formulas, -1);
    assert_int_equal(at->state, LMI_CONTAINER_ALONE);
    assert_int_equal(at->family, LMI_CONTAINER);
    assert_string_equal(at->name, "");
    assert_string_equal(at->type, "");
    assert_string_equal(at->in, "");
    assert_string_equal(at->out, "");
    assert_int_equal(x.o.n_shown, 0);
    assert_string_equal(x.o.name, "empty model");
    assert_null(x.o.type_path);
    assert_null(x.o.mode);
    outline_leave(&x);
}

/* -- measured -------------------------------------------------------------------------------------------- */

static void test_times_are_those_of_the_rows(void **unused) {
    (void)unused;
    outlined x = outline_of(full_step(), NULL);
    const lmi_outline *o = &x.o;
    assert_true(o->timed);
    outline_own(o, "", LMI_OWN_TIME, 200, LAM_EXACT); /* 400 less 100 and 100 */
    outline_own(o, "conv", LMI_OWN_TIME, 100, LAM_EXACT);
    outline_own(o, "", LMI_OWN_TOTAL_TIME, 400, LAM_EXACT);
    outline_own(o, "fc", LMI_OWN_BACK_TIME, 100, LAM_EXACT);
    outline_total(o, "", LMI_OWN_TIME, 400);
    outline_total(o, "", LMI_OWN_TOTAL_TIME, 400); /* is no sum */
    outline_total(o, "conv", LMI_OWN_TOTAL_TIME, 100);
    assert_int_equal(o->time[LAM_TIME_FORWARD].median, 400);
    assert_int_equal(o->repeats, 1);
    assert_int_equal(o->outliers, 0);
    outline_leave(&x);
}

static void test_the_first_finding_has_a_place(void **unused) {
    (void)unused;
    outlined x = outline_of(full_step(), NULL);
    const lmi_outline *o = &x.o;
    assert_int_equal(lmi_n_findings(o->health), 2);
    assert_int_equal(o->finding_place, outline_find(o, "conv"));
    assert_int_equal(outline_at(o, "conv")->health[0], LAM_HEALTH_BORN);
    assert_int_equal(o->health->checked->tensors, 4);
    assert_int_equal(o->n_unused, 2);
    assert_string_equal(o->unused[0][0], "idle");
    assert_int_equal(o->n_notes, 3); /* the last one is on the packed weight */
    assert_string_equal(o->note[0], "a \"note\"");
    assert_int_equal(o->n_left, 2); /* the device's memory and times */
    outline_leave(&x);
}

/* A call whose end no clock told. */
static void test_times_may_be_unknown(void **unused) {
    (void)unused;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), a = net_linear(&n, 2, 2), p = net_place(&n, -1, "", root), index;
    net_place(&n, p, "a", a);
    lam_call_info c = {.module = root, .parent = -1, .t0_ns = 1000, .t1_ns = 2000};
    NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    c = (lam_call_info){.module = a, .parent = 0};
    NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    c = (lam_call_info){.module = a, .parent = 0, .t0_ns = 1200, .t1_ns = 1300};
    NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    outlined x = outline_of(net_done(&n), "layers");
    outline_own(&x.o, "a", LMI_OWN_TIME, 100, LAM_AT_LEAST);
    outline_own(&x.o, "a", LMI_OWN_TOTAL_TIME, 100, LAM_AT_LEAST);
    outline_own(&x.o, "", LMI_OWN_TIME, 900, LAM_EXACT);
    outline_leave(&x);
}

static void test_provenance_is_passed_on(void **unused) {
    (void)unused;
    net n = net_new();
    net_place(&n, -1, "", net_module(&n, "Net", 0));
    NET_OK(&n, lam_build_provenance(n.b, "torch", "2.13.0", &n.e));
    NET_OK(&n, lam_build_provenance(n.b, "dry", "no", &n.e));
    outlined x = outline_of(net_done(&n), "layers");
    assert_int_equal(x.o.n_provenance, 2);
    assert_string_equal(x.o.provenance[0][0], "torch");
    assert_string_equal(x.o.provenance[0][1], "2.13.0");
    assert_string_equal(x.o.provenance[1][1], "no");
    outline_leave(&x);
}

/* Three tensors of a call are told, and how many more there are. */
static void test_many_tensors_are_counted(void **unused) {
    (void)unused;
    static const int64_t sizes[] = {1, 2, 3, 4, 5};
    lam_arg args[5];
    for (int i = 0; i < 5; i++) args[i] = (lam_arg){.dtype = NET_FLOAT32, .ndim = 1, .sizes = sizes + i};
    for (int32_t k = 3; k <= 5; k++) {
        net n = net_new();
        net_place(&n, -1, "", net_module(&n, "Net", 0));
        const lam_call_info c = {.parent = -1, .n_in = k, .in = args, .n_out = 1, .out = args + 4};
        NET_OK(&n, lam_build_call(n.b, &c, NULL, &n.e));
        outlined x = outline_of(net_done(&n), "layers");
        static const char *const told[] = {"", " +1", " +2"};
        char wanted[80];
        snprintf(wanted, sizeof wanted, "1 float32, 2 float32, 3 float32%s", told[k - 3]);
        assert_string_equal(x.o.at[0].in, wanted);
        assert_string_equal(x.o.at[0].out, "5 float32");
        outline_leave(&x);
    }
}

/* A list that is not called takes as long as what is in it. */
static void test_a_list_has_the_time_of_its_parts(void **unused) {
    (void)unused;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), list = net_module(&n, "ModuleList", 0), a = net_linear(&n, 2, 2),
            b = net_linear(&n, 2, 2);
    int32_t p = net_place(&n, -1, "", root), l = net_place(&n, p, "list", list);
    net_place(&n, l, "0", a);
    net_place(&n, l, "1", b);
    const int64_t spans[][2] = {{1000, 2000}, {1100, 1300}, {1400, 1900}};
    const int32_t modules[] = {root, a, b};
    for (int i = 0; i < 3; i++) {
        int32_t index;
        lam_call_info c = {.module = modules[i],
                           .parent = i ? 0 : -1,
                           .t0_ns = spans[i][0],
                           .t1_ns = spans[i][1]};
        NET_OK(&n, lam_build_call(n.b, &c, &index, &n.e));
    }
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    outlined x = outline_of(net_done(&n), "layers");
    outline_own(&x.o, "list", LMI_OWN_TIME, 0, LAM_EXACT);
    outline_own(&x.o, "list", LMI_OWN_TOTAL_TIME, 700, LAM_EXACT);
    outline_own(&x.o, "", LMI_OWN_TOTAL_TIME, 1000, LAM_EXACT);
    outline_own(&x.o, "", LMI_OWN_TIME, 300, LAM_EXACT);
    assert_null(x.o.own[LMI_OWN_BACK_TIME]);
    outline_leave(&x);
}

/* -- memory that runs out -------------------------------------------------------------------------------- */

static void test_no_memory(void **unused) {
    (void)unused;
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, NULL, false);
    assert_int_equal(lam_model_find_sources(m, NULL), LAM_OK);
    oom_sweep(outline_try, c);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_sums_over_rows),
        cmocka_unit_test(test_sums_are_the_totals),
        cmocka_unit_test(test_second_calls_are_added),
        cmocka_unit_test(test_a_container_without_calls_has_a_place),
        cmocka_unit_test(test_shared_parameters_are_counted_once),
        cmocka_unit_test(test_great_numbers_are_at_least),
        cmocka_unit_test(test_what_has_no_rule_is_unknown),
        cmocka_unit_test(test_an_empty_model_has_a_root),
        cmocka_unit_test(test_times_are_those_of_the_rows),
        cmocka_unit_test(test_the_first_finding_has_a_place),
        cmocka_unit_test(test_times_may_be_unknown),
        cmocka_unit_test(test_provenance_is_passed_on),
        cmocka_unit_test(test_many_tensors_are_counted),
        cmocka_unit_test(test_a_list_has_the_time_of_its_parts),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
