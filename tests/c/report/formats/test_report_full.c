/* SPDX-License-Identifier: Apache-2.0
 *
 * One training step of which everything was seen: operators, times and memory of the host and of a device,
 * values; in every format, against transcripts. And ten runs of which one was late. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/ops_net.h"
#include "kit/page_text.h"
#include "kit/show.h"

static lam_report_options everything_as(const char *format) {
    lam_report_options o = show_options(NULL, format);
    o.width = 400;
    o.memory = o.time = o.bytes = o.receptive_field = true;
    return o;
}

static void in_every_format(void **state) {
    (void)state;
    static const char *const formats[] = {"text", "csv", "md", "json"};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char name[32];
        lam_report_options o = everything_as(formats[i]);
        show(c, &o);
        snprintf(name, sizeof name, "full-%s", formats[i]);
        show_golden(name, true);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

/* A report that a page is made of later has the tree, levels and formulas too. */
static void as_a_page_needs_it(void **state) {
    (void)state;
    static const char *const names[] = {"page-json-full", "page-json-step", "page-json-blocks"};
    lam_model *all[] = {full_step(), net_step(), level_blocks(3)};
    for (int i = 0; i < 3; i++) {
        lam_costs *c = net_costs(all[i], "exact", false);
        lam_report_options o = show_options(NULL, "json");
        o.page = true;
        o.time = o.memory = i == 0;
        show(c, &o);
        page_golden(names[i]);
        lam_costs_free(c);
        lam_model_free(all[i]);
    }
}

/* The same sums to the last digit, in ASCII, with the lines of a device's memory. */
static void to_the_last_digit(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    lam_report_options o = everything_as("text");
    o.exact = o.ascii = o.expand = true;
    o.width = 90; /* columns that don't fit are left out */
    show(c, &o);
    show_golden("full-text-90", true);
    lam_costs_free(c);
    lam_model_free(m);
}

/* What a layer's backward did is unknown where only forwards were told apart. */
static void unknown_is_null(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t c[2];
    c[0] = timed_call(&n, 0, -1, 1000, 0, 0); /* it never ended */
    c[1] = timed_call(&n, 1, c[0], 1010, 1020, 0);
    NET_OK(&n, lam_build_span(n.b, &(lam_span){0, 0, c[0], LAM_FORWARD}, &n.e));
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", -1, -1, -1, true}, &n.e));
    NET_OK(&n, lam_build_checked(n.b, &(lam_checked){.tensors = 1}, &n.e));
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *k = net_costs(m, NULL, false);
    lam_report_options o = everything_as("json");
    o.bytes = false; /* layers count none */
    show(k, &o);
    show_has("\"peak_in\": null, \"peak_phase\": null, \"rss\": {\"open\": null, \"peak\": null, \"close\": "
             "null}");
    show_has("\"backward\": null, \"recompute\": null}");
    show_has("\"forward\": {\"total\": null, \"self\": null}");
    show_has("\"whole\": null, \"outliers\": []");
    show_has("\"health\": null, \"memory\": null, ");
    show_has("\"outputs\": [], ");
    o.format = "text";
    show(k, &o);
    show_has("\nmemory     peak 0 B\n");
    show_lacks("bwd allocated");
    o.format = "csv";
    show(k, &o);
    show_has("memory_allocated");
    lam_costs_free(k);
    lam_model_free(m);
}

/* Ten runs; the seventh is late by 500 in b, and the third by `third`. */
static lam_model *late_runs(int64_t third) {
    net n = timed_layers();
    for (int r = 0; r < 10; r++) {
        int64_t t = 10000 * (r + 1), late = r == 7 ? 500 : r == 3 ? third : r % 3;
        int32_t root = timed_call(&n, 0, -1, t, t + 100 + late, 0);
        timed_call(&n, 1, root, t + 10, t + 40, 0);
        timed_call(&n, 2, root, t + 50, t + 90 + late, 0);
    }
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    return net_done(&n);
}

static void a_late_run_is_named(void **state) {
    (void)state;
    lam_model *m = late_runs(0);
    lam_costs *c = net_costs(m, NULL, false);
    lam_report_options o = show_options(NULL, "json");
    show(c, &o);
    show_has("\"time\": {\"runs\": 10, \"same_run\": true, \"forward\": {\"n\": 10, \"median\": 101, "
             "\"deviation\": 1, "
             "\"least\": 100, "
             "\"most\": 600, \"most_run\": 7}");
    show_has("\"outliers\": [{\"run\": 7, \"whole\": 600, \"median\": 101, \"late\": 499, \"path\": \"b\"}]");
    o = show_options(NULL, NULL);
    o.time = true;
    o.width = 200;
    show(c, &o);
    show_has("run 7 took 600 ns, 499 ns of the delay in b\n");
    assert_null(strstr(shown, "much longer"));
    lam_costs_free(c);
    lam_model_free(m);
    m = late_runs(300);
    c = net_costs(m, NULL, false);
    show(c, &o);
    show_has("2 runs took much longer; run 7 took 600 ns, 499 ns of the delay in b\n");
    lam_costs_free(c);
    lam_model_free(m);
}

/* 2000 FLOPs and 1400 bytes in 400 ns. */
static void a_row_has_its_speed(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_linear(&n, 10, 20), p = net_place(&n, -1, "", root);
    net_place(&n, p, "fc", fc);
    int32_t r = timed_call(&n, root, -1, 1000, 2000, 0), f = timed_call(&n, fc, r, 1100, 1500, 0);
    net_mm(&n, (op_at){f, -1, LAM_FORWARD, 0}, 5, 10, 20);
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "exact", false);
    lam_report_options o = show_options(NULL, NULL);
    o.time = true;
    o.peak = (lam_peak){1e10, 1e10};
    o.width = 240;
    show(c, &o);
    const char *row = strstr(shown, "fc (Linear)");
    assert_non_null(row);
    const char *flops = strstr(row, " 5.00 G "), *bytes = strstr(row, " 3.50 G ");
    assert_true(flops && bytes && flops < bytes && bytes < strchr(row, '\n'));
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- other reports of the same step ------------------------------------------------------------- */

static void as_torch_inspector_tells_it(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_gadgets *g;
    assert_int_equal(lam_gadgets_new(&g, m, NULL), LAM_OK);
    static const lam_gadget_options some[] = {{-1, true, true},
                                              {0, true, false},
                                              {1, false, true},
                                              {1, false, false}};
    static const char *const names[] = {"full-gadgets", "full-gadgets-0-forward", "full-gadgets-1-backward",
                                        NULL};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(lam_gadgets_write(g, &some[i], show_sink(), NULL), LAM_OK);
        if (names[i]) show_golden(names[i], true);
    }
    assert_int_equal(lam_gadgets_write(g, NULL, show_refusing(), NULL), LAM_IO);
    lam_gadgets_free(g);
    lam_model_free(m);
}

static void as_a_drawing(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_graph *g;
    assert_int_equal(lam_graph_new(&g, m, NULL), LAM_OK);
    assert_int_equal(lam_graph_dot(g, false, show_sink(), NULL), LAM_OK);
    show_golden("full-dot", true);
    assert_int_equal(lam_graph_dot(g, true, show_sink(), NULL), LAM_OK);
    show_golden("full-dot-ops", true);
    assert_int_equal(lam_graph_dot(g, true, show_refusing(), NULL), LAM_IO);
    lam_graph_free(g);
    lam_model_free(m);
}

/* What the causes of a difference come to is the difference. */
static void causes_add_up(const lam_model *m, lam_metric metric, lam_phase phase) {
    static const char *const formats[] = {"text", "md", "json", "csv"};
    const lam_compare_options o = {.metric = metric, .phase = phase};
    lam_comparison *c;
    lam_error e = {0};
    if (lam_compare_new(&c, m, &o, &e) != LAM_OK) fail_msg("%s", e.text);
    const lam_compared *row;
    int32_t n = 0;
    for (; (row = lam_compare_row(c, n)); n++) {
        int64_t sum = 0;
        for (int32_t k = 0; k < row->n_causes; k++) {
            sum += row->causes[k].difference;
            assert_non_null(row->causes[k].text);
        }
        if (row->told) assert_int_equal(sum, n ? row->difference : 0);
    }
    assert_true(n > 1);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        for (int exact = 0; exact < 2; exact++)
            assert_int_equal(lam_compare_write(c, formats[i], exact ? 60 : 0, exact, show_sink(), &e),
                             LAM_OK);
        show_has("exact");
        assert_int_equal(lam_compare_write(c, formats[i], 0, false, show_refusing(), NULL), LAM_IO);
    }
    lam_compare_free(c);
}

static void counters_beside_each_other(void **state) {
    (void)state;
    lam_model *const models[] = {full_step(), net_step(), net_residual()};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        causes_add_up(models[i], LAM_MACS, LAM_FORWARD);
        causes_add_up(models[i], LAM_FLOPS, LAM_FORWARD);
        causes_add_up(models[i], LAM_MACS, LAM_BACKWARD);
        causes_add_up(models[i], LAM_FLOPS, LAM_BACKWARD);
        lam_model_free(models[i]);
    }
}

static void compare_all(void *arg, bool *ok) {
    lam_comparison *c = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_compare_new(&c, arg, NULL, &e), &e) &&
          oom_check(lam_compare_write(c, "text", 80, false, show_sink(), &e), &e);
    lam_compare_free(c);
}

static void inspect_all(void *arg, bool *ok) {
    lam_gadgets *g = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_gadgets_new(&g, arg, &e), &e) &&
          oom_check(lam_gadgets_write(g, NULL, show_sink(), &e), &e);
    lam_gadgets_free(g);
}

static void draw_all(void *arg, bool *ok) {
    lam_graph *g = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_graph_new(&g, arg, &e), &e) && oom_check(lam_graph_dot(g, true, show_sink(), &e), &e);
    lam_graph_free(g);
}

static void write_as(const void *costs, const char *format, bool *ok) {
    lam_error e = {0};
    lam_report_options o = everything_as(format);
    *ok = oom_check(lam_report_write(costs, &o, show_sink(), &e), &e);
}
static void write_text(void *arg, bool *ok) { write_as(arg, "text", ok); }
static void write_json(void *arg, bool *ok) { write_as(arg, "json", ok); }
static void write_csv(void *arg, bool *ok) { write_as(arg, "csv", ok); }

static void write_page_json(void *arg, bool *ok) {
    lam_error e = {0};
    lam_report_options o = everything_as("json");
    o.page = true;
    *ok = oom_check(lam_report_write(arg, &o, show_sink(), &e), &e);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    oom_sweep(write_text, c);
    oom_sweep(write_json, c);
    oom_sweep(write_page_json, c);
    oom_sweep(write_csv, c);
    oom_sweep(compare_all, m);
    oom_sweep(inspect_all, m);
    oom_sweep(draw_all, m);
    lam_costs_free(c);
    lam_model_free(m);
}

static void a_sink_may_refuse(void **state) {
    (void)state;
    static const char *const formats[] = {"text", "csv", "md", "json", "html", "trace", "speedscope"};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        lam_report_options o = everything_as(formats[i]);
        assert_int_equal(lam_report_write(c, &o, show_refusing(), NULL), LAM_IO);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_every_format),
        cmocka_unit_test(as_a_page_needs_it),
        cmocka_unit_test(to_the_last_digit),
        cmocka_unit_test(unknown_is_null),
        cmocka_unit_test(a_late_run_is_named),
        cmocka_unit_test(a_row_has_its_speed),
        cmocka_unit_test(as_torch_inspector_tells_it),
        cmocka_unit_test(as_a_drawing),
        cmocka_unit_test(counters_beside_each_other),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(a_sink_may_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
