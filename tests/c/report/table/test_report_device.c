/* SPDX-License-Identifier: Apache-2.0
 *
 * Times by a device's clock: one walk a stream, what other streams make unknown, and how reports show it. */
#include "kit/oom.h"

#include "kit/net.h"
#include "kit/show.h"

static void span(net *n, int32_t of, int32_t stream, int64_t t0, int64_t t1) {
    lam_device_span s = {.call = of, .stream = stream, .t0_ns = t0, .t1_ns = t1};
    NET_OK(n, lam_build_device_span(n->b, &s, &n->e));
}

static void node(net *n, int32_t of, int32_t stream, int64_t t0, int64_t t1) {
    lam_device_span s = {
        .call = of, .stream = stream, .t0_ns = t0, .t1_ns = t1, .node = true, .pass = 1, .host_ns = 1500};
    NET_OK(n, lam_build_device_span(n->b, &s, &n->e));
}

static lam_model *done(net *n) {
    NET_OK(n, lam_build_timed(n->b, &n->e));
    NET_OK(n, lam_build_nodes_seen(n->b, &n->e));
    return net_done(n);
}

/* The host took 10 for each layer; the device ran them later, and for longer. */
static void calls_of(net *n, int32_t c[3]) {
    c[0] = timed_call(n, 0, -1, 1000, 1040, 0);
    c[1] = timed_call(n, 1, c[0], 1005, 1015, 0);
    c[2] = timed_call(n, 2, c[0], 1020, 1030, 0);
}

static lam_times *device_times(const lam_model *m) {
    lam_times *t = NULL;
    lam_error e = {0};
    if (lam_device_times_new(&t, m, &e) != LAM_OK) fail_msg("lam_device_times_new: %s", e.text);
    return t;
}

static lam_time of(const lam_times *t, int32_t event) {
    lam_time x;
    assert_true(lam_times_event(t, event, &x));
    return x;
}

static lam_model *one_stream(void) {
    net n = timed_layers();
    int32_t c[3];
    calls_of(&n, c);
    span(&n, c[0], 0, 100, 1100);
    span(&n, c[1], 0, 150, 450);
    span(&n, c[2], 0, 450, 1050);
    net_node(&n, "AddmmBackward0", c[2], 1500, 1510);
    node(&n, -1, 0, 2000, 2005);
    node(&n, c[2], 0, 2010, 2510);
    node(&n, c[1], 0, 2510, 2710);
    return done(&n);
}

static void a_stream_is_walked_as_a_thread_is(void **state) {
    (void)state;
    lam_model *m = one_stream();
    lam_times *t = device_times(m);
    assert_int_equal(of(t, 0).total[LAM_FORWARD], 1000);
    assert_int_equal(of(t, 0).self[LAM_FORWARD], 100);
    assert_int_equal(of(t, 1).self[LAM_FORWARD], 300);
    assert_int_equal(of(t, 2).self[LAM_FORWARD], 600);
    assert_int_equal(of(t, 2).self[LAM_BACKWARD], 500);
    assert_int_equal(of(t, 0).total[LAM_BACKWARD], 700);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_FORWARD), 1000);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_BACKWARD), 700);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_ENGINE), 5);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_OUTSIDE), 5);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_WHOLE), 1710);
    assert_false(lam_times_op(t, 0, &(lam_op_time){0}));
    lam_times_free(t);
    assert_int_equal(lam_times_new(&t, m, NULL), LAM_OK); /* the host's are as they were */
    assert_int_equal(of(t, 0).total[LAM_FORWARD], 40);
    assert_int_equal(of(t, 0).self[LAM_FORWARD], 20);
    lam_times_free(t);
    lam_model_free(m);
}

/* Spans without length lie anywhere among those that begin with them. */
static void nothing_to_do_takes_nothing(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    calls_of(&n, c);
    span(&n, c[0], 0, 100, 200);
    span(&n, c[1], 0, 100, 100);
    span(&n, c[2], 0, 100, 200);
    lam_model *m = done(&n);
    lam_times *t = device_times(m);
    assert_int_equal(of(t, 0).self[LAM_FORWARD], 0);
    assert_int_equal(of(t, 1).self[LAM_FORWARD], 0);
    assert_int_equal(of(t, 2).self[LAM_FORWARD], 100);
    assert_int_equal(of(t, 0).self[LAM_BACKWARD], -1); /* nodes were watched, and none ran */
    lam_times_free(t);
    lam_model_free(m);
}

/* a ran on another stream, beside b: what the root did itself is no difference. */
static void streams_beside_each_other(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    calls_of(&n, c);
    span(&n, c[0], 0, 100, 1100);
    span(&n, c[1], 1, 150, 950);
    span(&n, c[2], 0, 160, 1000);
    lam_model *m = done(&n);
    lam_times *t = device_times(m);
    assert_int_equal(of(t, 0).total[LAM_FORWARD], 1000);
    assert_int_equal(of(t, 0).self[LAM_FORWARD], -1);
    assert_int_equal(of(t, 1).self[LAM_FORWARD], 800);
    assert_int_equal(of(t, 2).self[LAM_FORWARD], 840);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_FORWARD), 1000);
    lam_times_free(t);
    lam_model_free(m);
}

static void unknown_is_not_zero(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    lam_spread s;
    calls_of(&n, c);
    span(&n, c[0], 0, 100, 1100);
    span(&n, c[1], -1, 0, 0); /* it ended on another stream than it began on; c[2] has no span at all */
    node(&n, c[1], -1, 0, 0);
    node(&n, -1, -1, 0, 0);
    lam_model *m = done(&n);
    lam_times *t = device_times(m);
    assert_int_equal(of(t, 0).total[LAM_FORWARD], 1000);
    assert_int_equal(of(t, 0).self[LAM_FORWARD], -1);
    assert_int_equal(of(t, 0).total[LAM_BACKWARD], -1);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(of(t, i).total[LAM_FORWARD], -1);
        assert_int_equal(of(t, i).self[LAM_FORWARD], -1);
        assert_false(lam_times_place(t, i, 0, LAM_FORWARD, true, &s));
    }
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_OUTSIDE), -1);
    assert_false(lam_times_part(t, LAM_TIME_WHOLE, &s));
    lam_times_free(t);
    lam_model_free(m);
    lam_error e = {0};
    n = timed_layers();
    calls_of(&n, c);
    m = done(&n);
    assert_false(lam_model_device_timed(m));
    assert_int_equal(lam_device_times_new(&t, m, &e), LAM_USAGE);
    assert_int_equal(lam_device_times_new(&t, NULL, NULL), LAM_USAGE);
    lam_model_free(m);
}

static void again_in_a_backward(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    calls_of(&n, c);
    int32_t again = timed_call(&n, 1, -1, 1500, 1510, LAM_CALL_AGAIN);
    span(&n, c[0], 0, 100, 1100);
    span(&n, c[1], 0, 150, 450);
    span(&n, c[2], 0, 450, 1050);
    node(&n, c[1], 0, 2000, 3000);
    span(&n, again, 0, 2100, 2400);
    lam_model *m = done(&n);
    lam_times *t = device_times(m);
    assert_int_equal(of(t, again).self[LAM_RECOMPUTE], 300);
    assert_int_equal(of(t, c[1]).self[LAM_BACKWARD], 700);
    assert_int_equal(of(t, 0).total[LAM_RECOMPUTE], 300);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_RECOMPUTE), 300);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_WHOLE), 2000);
    lam_times_free(t);
    lam_model_free(m);
}

/* A forward that is done again, and nothing else, in a node: it is inside because it began later. */
static void what_began_later_is_inside(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    calls_of(&n, c);
    int32_t again = timed_call(&n, 1, -1, 1500, 1510, LAM_CALL_AGAIN);
    span(&n, c[0], 0, 100, 1100);
    span(&n, c[1], 0, 100, 1100);
    span(&n, c[2], 0, 1100, 1100);
    node(&n, c[1], 0, 2000, 2400);
    span(&n, again, 0, 2000, 2400);
    lam_model *m = done(&n);
    lam_times *t = device_times(m);
    assert_int_equal(of(t, again).self[LAM_RECOMPUTE], 400);
    assert_int_equal(of(t, c[1]).self[LAM_BACKWARD], 0);
    assert_int_equal(of(t, c[1]).self[LAM_FORWARD], 1000);
    assert_int_equal(of(t, c[0]).self[LAM_FORWARD], 0);
    lam_times_free(t);
    lam_model_free(m);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const lam_device_span wrong[] = {{.call = 9, .stream = 0, .t0_ns = 1, .t1_ns = 2},
                                            {.call = -1, .stream = 0, .t0_ns = 1, .t1_ns = 2},
                                            {.call = 0, .stream = 0, .t0_ns = 0, .t1_ns = 2},
                                            {.call = 0, .stream = 0, .t0_ns = 3, .t1_ns = 2},
                                            {.call = 0, .stream = -2, .t0_ns = 1, .t1_ns = 2},
                                            {.call = 0, .stream = 1 << 20, .t0_ns = 1, .t1_ns = 2}};
    net n = timed_layers();
    int32_t c[3];
    calls_of(&n, c);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lam_error e = {0};
        assert_int_equal(lam_build_device_span(n.b, &wrong[i], &e), LAM_RANGE);
        assert_true(strlen(e.text) > 0);
    }
    assert_int_equal(lam_build_device_timed(NULL, NULL), LAM_USAGE);
    lam_model_free(done(&n));
}

/* -- reports --------------------------------------------------------------------------------------------- */

static void reports_show_it_apart(void **state) {
    (void)state;
    lam_model *m = one_stream();
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, NULL);
    lam_time x;
    assert_true(lam_costs_device_time(c, 0, &x));
    assert_int_equal(x.total[LAM_FORWARD], 1000);
    assert_false(lam_costs_device_time(c, 99, &x));
    o.time = true;
    o.width = 200;
    show(c, &o);
    show_has("bwd device  device self");
    show_has("\ndevice     1.71 us \u00b7 forward 1.00 us \u00b7 backward 700 ns \u00b7 between nodes 5 ns");
    show_has("\ntime       50 ns \u00b7 forward 40 ns");
    o.format = "csv";
    show(c, &o);
    show_has("device_ns,device_self_ns,backward_device_ns");
    show_has(",1000,100,700,0,0,0\n");
    o.format = "json";
    show(c, &o);
    show_has("\"device\": {\"forward\": {\"total\": 1000, \"self\": 100}, \"backward\": {\"total\": 700");
    show_has("\"device\": {\"forward\": {\"n\": 1, \"median\": 1000");
    lam_costs_free(c);
    lam_model_free(m);
}

static void without_a_device_nothing_changes(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t k[3];
    calls_of(&n, k);
    lam_model *m = done(&n);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, NULL);
    static const char *const formats[] = {"text", "csv", "json"};
    o.time = true;
    o.width = 200;
    assert_null(lam_costs_device_times(c));
    for (size_t i = 0; i < 3; i++) {
        o.format = formats[i];
        show(c, &o);
        show_lacks("device");
    }
    lam_costs_free(c);
    lam_model_free(m);
}

static void take_device_times(void *arg, bool *ok) {
    lam_times *t = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_device_times_new(&t, arg, &e), &e);
    lam_times_free(t);
}

static void build(void *arg, bool *ok) {
    lam_builder *b = NULL;
    lam_error e = {0};
    const lam_device_span s = {.call = -1, .node = true, .stream = 0, .t0_ns = 1, .t1_ns = 2};
    (void)arg;
    *ok = oom_check(lam_builder_new(&b, 0, &e), &e) && oom_check(lam_build_device_span(b, &s, &e), &e);
    lam_builder_free(b);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = one_stream();
    oom_sweep(take_device_times, m);
    oom_sweep(build, NULL);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_walked_as_a_thread_is), cmocka_unit_test(nothing_to_do_takes_nothing),
        cmocka_unit_test(streams_beside_each_other),         cmocka_unit_test(unknown_is_not_zero),
        cmocka_unit_test(what_began_later_is_inside),        cmocka_unit_test(again_in_a_backward),
        cmocka_unit_test(what_cannot_be_is_refused),         cmocka_unit_test(reports_show_it_apart),
        cmocka_unit_test(without_a_device_nothing_changes),  cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
