/* SPDX-License-Identifier: Apache-2.0
 *
 * Times: every moment belongs to one thing, runs and their medians, and what is not known stays so. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/times.h"

#include <stdlib.h>

typedef struct ran {
    int64_t t0, t1;
    int32_t parent, pass, thread;
} ran;

static int32_t node(net *n, int32_t of, ran r) {
    int32_t index = -1;
    lam_op_info o = {.name = "AddmmBackward0",
                     .call = of,
                     .parent = r.parent - 1,
                     .phase = LAM_BACKWARD,
                     .flags = LAM_OP_NODE,
                     .t0_ns = r.t0,
                     .t1_ns = r.t1,
                     .pass = r.pass,
                     .thread = r.thread};
    NET_OK(n, lam_build_op(n->b, &o, &index, &n->e));
    return index;
}

static lam_model *timed(net *n, bool nodes) {
    NET_OK(n, lam_build_timed(n->b, &n->e));
    if (nodes) NET_OK(n, lam_build_nodes_seen(n->b, &n->e));
    return net_done(n);
}

static lam_times *times_of(const lam_model *m) {
    lam_times *t = NULL;
    lam_error e = {0};
    if (lam_times_new(&t, m, &e) != LAM_OK) fail_msg("lam_times_new: %s", e.text);
    return t;
}

static int64_t self_of(const lam_times *t, int32_t event, lam_phase p) {
    lam_time x;
    assert_true(lam_times_event(t, event, &x));
    return x.self[p];
}

static int64_t total_of(const lam_times *t, int32_t event, lam_phase p) {
    lam_time x;
    assert_true(lam_times_event(t, event, &x));
    return x.total[p];
}

/* A step from `at` on: root 100 long, a 30, b 40; back: the loss 5, b 50, a 20 and 10, gaps 2 + 3 + 4. */
static void step(net *n, int64_t at, int64_t late, int32_t calls[3]) {
    calls[0] = timed_call(n, 0, -1, at, at + 100 + late, 0);
    calls[1] = timed_call(n, 1, calls[0], at + 10, at + 40, 0);
    calls[2] = timed_call(n, 2, calls[0], at + 50, at + 90 + late, 0);
}

static void step_back(net *n, int64_t at, int32_t pass, const int32_t calls[3]) {
    node(n, -1, (ran){at + 0, at + 5, 0, pass, 0});
    node(n, calls[2], (ran){at + 7, at + 57, 0, pass, 0});
    node(n, calls[1], (ran){at + 60, at + 80, 0, pass, 0});
    node(n, calls[1], (ran){at + 84, at + 94, 0, pass, 0});
}

static void every_moment_is_somebodys(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    step(&n, 1000, 0, c);
    step_back(&n, 2000, 1, c);
    lam_model *m = timed(&n, true);
    lam_times *t = times_of(m);
    assert_int_equal(lam_times_n_runs(t), 1);
    assert_int_equal(self_of(t, c[0], LAM_FORWARD), 30);
    assert_int_equal(self_of(t, c[1], LAM_FORWARD), 30);
    assert_int_equal(total_of(t, c[0], LAM_FORWARD), 100);
    assert_int_equal(self_of(t, c[2], LAM_BACKWARD), 50);
    assert_int_equal(self_of(t, c[1], LAM_BACKWARD), 30);
    assert_int_equal(total_of(t, c[0], LAM_BACKWARD), 80);
    assert_int_equal(self_of(t, c[0], LAM_RECOMPUTE), 0);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_FORWARD), 100);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_BACKWARD), 80);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_OUTSIDE), 5);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_ENGINE), 9);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_WHOLE), 194);
    assert_int_equal(lam_times_run(t, 1, LAM_TIME_WHOLE), -1);
    lam_times_free(t);
    lam_model_free(m);
}

/* What lies between two passes is nobody's: neither the engine's nor a layer's. */
static void passes_end(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    step(&n, 1000, 0, c);
    node(&n, c[2], (ran){2000, 2010, 0, 1, 0});
    node(&n, c[2], (ran){2012, 2020, 0, 1, 0});
    node(&n, c[1], (ran){5000, 5010, 0, 2, 0});
    node(&n, c[1], (ran){5003, 5005, 3, 2, 0}); /* inside the one before */
    node(&n, c[1], (ran){2001, 2005, 0, 2, 3}); /* on another thread */
    lam_model *m = timed(&n, true);
    lam_times *t = times_of(m);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_ENGINE), 2);
    assert_int_equal(self_of(t, c[1], LAM_BACKWARD), 14);
    assert_int_equal(self_of(t, c[2], LAM_BACKWARD), 18);
    lam_times_free(t);
    lam_model_free(m);
}

/* A backward inside a forward takes time from it; a forward that is done again takes time from the node, also
 * on another thread. */
static void passes_and_calls_nest_on(int32_t thread) {
    net n = timed_layers();
    int32_t root = timed_call(&n, 0, -1, 1000, 1100, 0), a = timed_call(&n, 1, root, 1010, 1020, 0), again;
    const lam_call_info repeated = {
        .module = 1, .parent = -1, .flags = LAM_CALL_AGAIN, .t0_ns = 2010, .t1_ns = 2040, .thread = thread};
    NET_OK(&n, lam_build_call(n.b, &repeated, &again, &n.e));
    node(&n, a, (ran){1030, 1040, 0, 1, 0});
    node(&n, a, (ran){1045, 1050, 0, 1, 0});
    node(&n, a, (ran){2000, 2050, 0, 2, thread});
    lam_model *m = timed(&n, true);
    lam_times *t = times_of(m);
    assert_int_equal(self_of(t, root, LAM_FORWARD), 100 - 10 - 20);
    assert_int_equal(total_of(t, root, LAM_FORWARD), 80);
    assert_int_equal(self_of(t, a, LAM_BACKWARD), 15 + 20);
    assert_int_equal(self_of(t, again, LAM_RECOMPUTE), 30);
    assert_int_equal(self_of(t, again, LAM_FORWARD), 0);
    assert_int_equal(total_of(t, root, LAM_RECOMPUTE), 30); /* where it was first done */
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_ENGINE), 5);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_WHOLE), 100 + 50);
    lam_times_free(t);
    lam_model_free(m);
}

static void passes_and_calls_nest(void **state) {
    (void)state;
    passes_and_calls_nest_on(0);
    passes_and_calls_nest_on(2);
}

static void unknown_is_not_zero(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    lam_spread s;
    step(&n, 1000, 0, c);
    int32_t open = timed_call(&n, 1, c[0], 1095, 0, 0); /* it never ended */
    lam_model *m = timed(&n, false);
    lam_times *t = times_of(m);
    assert_int_equal(self_of(t, c[1], LAM_FORWARD), 30);
    assert_int_equal(self_of(t, c[1], LAM_BACKWARD), -1);
    assert_int_equal(self_of(t, open, LAM_FORWARD), -1);
    assert_int_equal(total_of(t, c[0], LAM_FORWARD), -1);
    assert_int_equal(lam_times_run(t, 0, LAM_TIME_ENGINE), -1);
    assert_false(lam_times_part(t, LAM_TIME_WHOLE, &s));
    assert_false(lam_times_place(t, 1, 1, LAM_FORWARD, true, &s));
    assert_false(lam_times_place(t, 9, 0, LAM_FORWARD, true, &s));
    assert_false(lam_times_event(t, 99, &(lam_time){0}));
    lam_times_free(t);
    lam_costs *costs = NULL;
    assert_int_equal(lam_costs_new(&costs, m, NULL, NULL), LAM_OK);
    assert_int_equal(lam_costs_time_part(costs, LAM_TIME_ENGINE), -1);
    assert_int_equal(lam_costs_time_part(costs, LAM_TIME_WHOLE), -1);
    lam_costs_free(costs);
    lam_model_free(m);
    n = timed_layers(); /* nobody measured */
    step(&n, 1000, 0, c);
    m = net_done(&n);
    assert_int_equal(lam_costs_new(&costs, m, NULL, NULL), LAM_OK);
    assert_int_equal(lam_costs_time_part(costs, LAM_TIME_WHOLE), -1);
    lam_costs_free(costs);
    lam_model_free(m);
    lam_error e = {0};
    n = timed_layers();
    m = net_done(&n);
    assert_int_equal(lam_times_new(&t, m, &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "time=True"));
    lam_model_free(m);
    assert_int_equal(lam_times_new(&t, NULL, NULL), LAM_USAGE);
}

/* Ten runs, of which the seventh has b late by 500. */
static lam_model *ten_runs(void) {
    net n = timed_layers();
    int32_t c[10][3];
    for (int r = 0; r < 10; r++) step(&n, 10000 * (r + 1), r == 7 ? 500 : r % 3, c[r]);
    for (int r = 0; r < 10; r++) step_back(&n, 10000 * (r + 1) + 2000, r + 1, c[r]);
    return timed(&n, true);
}

static void medians_of_runs(void **state) {
    (void)state;
    lam_model *m = ten_runs();
    lam_times *t = times_of(m);
    lam_spread s;
    lam_outlier o;
    assert_int_equal(lam_times_n_runs(t), 10);
    assert_true(lam_times_place(t, 2, 0, LAM_FORWARD, false, &s)); /* 40 + 0 1 2 0 1 2 0 500 2 0 */
    assert_int_equal(s.n, 10);
    assert_int_equal(s.median, 41);
    assert_int_equal(s.deviation, 1);
    assert_int_equal(s.least, 40);
    assert_int_equal(s.most, 540);
    assert_int_equal(s.most_run, 7);
    assert_true(lam_times_place(t, 1, 0, LAM_FORWARD, false, &s)); /* 30 in each: the first of equals */
    assert_int_equal(s.least, s.most);
    assert_int_equal(s.most_run, 0);
    assert_true(lam_times_place(t, 0, 0, LAM_BACKWARD, true, &s));
    assert_int_equal(s.median, 80);
    assert_int_equal(s.deviation, 0);
    assert_true(lam_times_part(t, LAM_TIME_ENGINE, &s));
    assert_int_equal(s.median, 9);
    assert_true(lam_times_outlier(t, 0, &o));
    assert_int_equal(o.run, 7);
    assert_int_equal(o.place, 2);
    assert_int_equal(o.late, 499);
    assert_int_equal(o.whole, 694);
    assert_int_equal(o.median, 195);
    assert_false(lam_times_outlier(t, 1, &o));
    lam_times_free(t);
    lam_model_free(m);
}

/* A model of one run is timed by the ten runs of another. */
static void one_run_is_timed_by_others(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3];
    step(&n, 1000, 7777, c);
    lam_model *m = net_done(&n);
    lam_error e = {0};
    assert_int_equal(lam_model_time_by(m, ten_runs(), &e), LAM_OK);
    lam_costs *costs = NULL;
    assert_int_equal(lam_costs_new(&costs, m, NULL, &e), LAM_OK);
    for (int32_t r = 0; r < lam_costs_n_rows(costs); r++) {
        lam_time x;
        const int64_t self[] = {30, 30, 41}, back[] = {0, 30, 50};
        int32_t place = lam_costs_row(costs, r)->place;
        assert_true(lam_costs_time(costs, r, &x));
        assert_int_equal(x.self[LAM_FORWARD], self[place]);
        assert_int_equal(x.self[LAM_BACKWARD], back[place]);
    }
    assert_int_equal(lam_costs_time_part(costs, LAM_TIME_BACKWARD), 80);
    assert_int_equal(lam_costs_time_part(costs, LAM_N_TIME_PARTS), -1);
    assert_int_equal(lam_costs_time_part(costs, (lam_time_part)-1), -1);
    assert_false(lam_costs_time(costs, 99, &(lam_time){0}));
    lam_costs_free(costs);
    assert_int_equal(lam_model_time_by(m, ten_runs(), NULL), LAM_USAGE);
    lam_model_free(m);
    n = net_new();
    net_place(&n, -1, "", net_module(&n, "Net", 0));
    m = net_done(&n);
    assert_int_equal(lam_model_time_by(m, ten_runs(), NULL), LAM_USAGE);
    assert_int_equal(lam_model_time_by(m, NULL, NULL), LAM_USAGE);
    lam_model_free(m);
}

/* Rows and parts are of one run, so what layers took themselves and what none took add up to the whole, where
 * the median of each would not. */
static void what_is_told_is_one_run(void **state) {
    (void)state;
    static const int64_t a[] = {10, 30, 50}, b[] = {50, 20, 40}; /* medians: 30 and 40 */
    net n = timed_layers(), one = timed_layers();
    int32_t c[3];
    for (int r = 0; r < 3; r++) {
        int64_t at = 1000 * (r + 1);
        int32_t root = timed_call(&n, 0, -1, at, at + 5 + a[r] + b[r], 0);
        timed_call(&n, 1, root, at + 1, at + 1 + a[r], 0);
        timed_call(&n, 2, root, at + 2 + a[r], at + 2 + a[r] + b[r], 0);
    }
    step(&one, 1000, 0, c);
    lam_model *m = net_done(&one);
    lam_error e = {0};
    assert_int_equal(lam_model_time_by(m, timed(&n, false), &e), LAM_OK);
    lam_costs *costs = NULL;
    assert_int_equal(lam_costs_new(&costs, m, NULL, &e), LAM_OK);
    int64_t sum = 0;
    for (int32_t r = 0; r < lam_costs_n_rows(costs); r++) {
        const int64_t self[] = {5, 10, 50}; /* of the first run, which took 65 of 65, 55 and 95 */
        lam_time x;
        assert_true(lam_costs_time(costs, r, &x));
        assert_int_equal(x.self[LAM_FORWARD], self[lam_costs_row(costs, r)->place]);
        sum += x.self[LAM_FORWARD];
    }
    assert_int_equal(sum, 65);
    assert_int_equal(lam_costs_time_part(costs, LAM_TIME_WHOLE), 65);
    lam_costs_free(costs);
    lam_model_free(m);
}

static void operators_by_name(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[3], outer;
    step(&n, 1000, 0, c);
    lam_op_info o = {.name = "aten::linear", .call = c[1], .parent = -1, .t0_ns = 1012, .t1_ns = 1032};
    NET_OK(&n, lam_build_op(n.b, &o, &outer, &n.e));
    o = (lam_op_info){.name = "aten::addmm", .call = c[1], .parent = outer, .t0_ns = 1015, .t1_ns = 1030};
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    lam_model *m = timed(&n, true);
    lam_times *t = times_of(m);
    lam_op_time x;
    assert_true(lam_times_op(t, 0, &x));
    assert_string_equal(x.name, "aten::addmm");
    assert_int_equal(x.self, 15);
    assert_true(lam_times_op(t, 1, &x));
    assert_string_equal(x.name, "aten::linear");
    assert_int_equal(x.self, 5);
    assert_int_equal(x.total, 20);
    assert_int_equal(x.n, 1);
    assert_false(x.node);
    assert_false(lam_times_op(t, 2, &x));
    lam_times_free(t);
    lam_model_free(m);
}

/* b: a Linear of 20 weights; a second is a thousand million nanoseconds. */
static void speeds_beside_a_peak(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_linear(&n, 10, 20), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    int32_t r = timed_call(&n, root, -1, 1000, 2000, 0), f = timed_call(&n, fc, r, 1100, 1500, 0);
    const lam_op_arg in[] = {T(0, 5, 10), T(1, 10, 20)}, out[] = {T(0, 5, 20)};
    lam_op_info o = {
        .name = "aten::mm", .call = f, .parent = -1, .n_in = 2, .n_out = 1, .in = in, .out = out};
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    lam_model *m = timed(&n, true);
    lam_costs *c = NULL;
    lam_cost_options options = {.convention = "exact"};
    assert_int_equal(lam_costs_new(&c, m, &options, NULL), LAM_OK);
    lam_speed s;
    const double flops = 2 * 5 * 10 * 20, bytes = 4 * (50 + 200 + 100);
    const struct {
        lam_peak peak;
        lam_bound bound;
    } cases[] = {{{flops / 400e-9 * 2, bytes / 400e-9 * 4}, LAM_BOUND_COMPUTE},
                 {{flops / 400e-9 * 4, bytes / 400e-9 * 2}, LAM_BOUND_MEMORY},
                 {{flops / 400e-9 * 40, bytes / 400e-9 * 20}, LAM_BOUND_NEITHER},
                 {{flops / 400e-9, 0}, LAM_BOUND_UNKNOWN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(lam_costs_speed(c, 1, LAM_FORWARD, &cases[i].peak, &s));
        assert_int_equal(s.bound, cases[i].bound);
        assert_true(s.ns == 400 && s.flops > 0.999 * flops / 400e-9 && s.flops < 1.001 * flops / 400e-9);
        assert_true(s.bytes > 0.999 * bytes / 400e-9 && s.bytes < 1.001 * bytes / 400e-9);
        if (i < 2) assert_true(s.share > 0.499 && s.share < 0.501);
    }
    /* A peak that a row exceeds was measured too low. */
    lam_peak low = lam_costs_peak(c, (lam_peak){flops / 400e-9 / 2, bytes / 400e-9 * 2});
    assert_true(low.flops > 0.999 * flops / 400e-9 && low.flops < 1.001 * flops / 400e-9);
    assert_true(low.bytes > 1.999 * bytes / 400e-9);
    low = lam_costs_peak(c, (lam_peak){0, bytes / 400e-9 / 2});
    assert_true(low.flops == 0 && low.bytes > 0.999 * bytes / 400e-9 && low.bytes < 1.001 * bytes / 400e-9);
    assert_true(lam_costs_speed(c, 1, LAM_FORWARD, &(lam_peak){1, 1}, &s) && s.share == 1);
    assert_true(lam_costs_speed(c, 1, LAM_FORWARD, NULL, &s));
    assert_int_equal(s.bound, LAM_BOUND_UNKNOWN);
    assert_false(lam_costs_speed(c, 0, LAM_FORWARD, NULL, &s)); /* it does no work of its own */
    assert_false(lam_costs_speed(c, 1, LAM_BACKWARD, NULL, &s));
    assert_false(lam_costs_speed(c, 9, LAM_FORWARD, NULL, &s));
    /* with what it calls: the same work in its 1000 ns */
    assert_true(lam_costs_speed_inside(c, 0, LAM_FORWARD, &cases[0].peak, &s));
    assert_true(s.ns == 1000 && s.flops > 0.999 * flops / 1000e-9 && s.flops < 1.001 * flops / 1000e-9);
    assert_true(s.bound == LAM_BOUND_COMPUTE && s.share > 0.199 && s.share < 0.201);
    assert_true(lam_costs_speed_inside(c, 1, LAM_FORWARD, NULL, &s) && s.ns == 400);
    assert_false(lam_costs_speed_inside(c, 0, LAM_BACKWARD, NULL, &s));
    assert_false(lam_costs_speed_inside(c, 0, (lam_phase)LAM_N_PHASES, NULL, &s));
    assert_false(lam_costs_speed_inside(c, 9, LAM_FORWARD, NULL, &s));
    assert_string_equal(lam_bound_name(LAM_BOUND_MEMORY), "memory");
    assert_string_equal(lam_bound_name(LAM_BOUND_NEITHER), "neither");
    assert_string_equal(lam_bound_name((lam_bound)99), "unknown");
    lam_costs_free(c);
    lam_model_free(m);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = ten_runs();
    oom_sweep(take_times, m);
    lam_model_free(m);
}

static void times_as_text(void **state) {
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {{-1, "?"},
                 {0, "0 ns"},
                 {999, "999 ns"},
                 {1000, "1.00 us"},
                 {12345, "12.3 us"},
                 {999499, "999 us"},
                 {999500, "1.00 ms"},
                 {9999000, "10.0 ms"},
                 {123456789, "123 ms"},
                 {2500000000, "2.50 s"},
                 {7200000000000, "7200 s"}};
    char text[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lam_text_time(text, sizeof text, cases[i].ns);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_moment_is_somebodys),
        cmocka_unit_test(passes_end),
        cmocka_unit_test(passes_and_calls_nest),
        cmocka_unit_test(unknown_is_not_zero),
        cmocka_unit_test(medians_of_runs),
        cmocka_unit_test(one_run_is_timed_by_others),
        cmocka_unit_test(what_is_told_is_one_run),
        cmocka_unit_test(operators_by_name),
        cmocka_unit_test(speeds_beside_a_peak),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(times_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
