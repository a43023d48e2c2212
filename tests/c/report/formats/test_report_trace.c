/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines: what is inside ends before what is around it, threads apart, and names of strangers quoted. */
#include "kit/oom.h"

#include "kit/json_text.h"
#include "kit/ops_net.h"
#include "kit/shown.h"

/* The root around a layer with a quote in its name; a node inside the backward, and one on another thread. */
static lam_model *net_timed(void) {
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0), fc = net_linear(&n, 3, 4), p = net_place(&n, -1, "", root);
    net_place(&n, p, "f\"c", fc);
    lam_call_info c = {.module = root, .parent = -1, .t0_ns = 10000, .t1_ns = 10900};
    int32_t outer, inner;
    NET_OK(&n, lam_build_call(n.b, &c, &outer, &n.e));
    c = (lam_call_info){.module = fc,
                        .parent = outer,
                        .t0_ns = 10100,
                        .t1_ns = 11000}; /* as if it ended late */
    NET_OK(&n, lam_build_call(n.b, &c, &inner, &n.e));
    lam_op_info o = {.name = "AddmmBackward0",
                     .call = inner,
                     .parent = -1,
                     .phase = LAM_BACKWARD,
                     .flags = LAM_OP_NODE,
                     .t0_ns = 12000,
                     .t1_ns = 13001};
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    o.name = "MulBackward0";
    o.thread = 1;
    o.call = -1;
    NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
    return net_done(&n);
}

static lam_status write_to(const lam_model *m, const char *format, lam_sink to, lam_error *e) {
    lam_costs *c = NULL;
    lam_report_options o;
    lam_report_defaults(&o);
    o.format = format;
    lam_status s = lam_costs_new(&c, m, NULL, e);
    if (s == LAM_OK) s = lam_report_write(c, &o, to, e);
    lam_costs_free(c);
    return s;
}

static void trace_events(void **state) {
    (void)state;
    lam_model *m = net_timed();
    assert_int_equal(write_to(m, "trace", show_sink(), NULL), LAM_OK);
    show_has("\"ph\": \"X\", \"pid\": 1, \"tid\": 0, \"ts\": 0.000, \"dur\": 0.900, ");
    show_has("{\"name\": \"f\\\"c\", \"cat\": \"layer,forward\"");
    show_has("\"ts\": 0.100, \"dur\": 0.800, ");
    assert_string_equal(json_value(shown), "\n");
    const char *args = strstr(shown, "\"inputs\": \"");
    assert_non_null(args);
    args = strstr(args, "\", \"outputs\": \"");
    assert_non_null(args);
    args = strchr(args + strlen("\", \"outputs\": \""), '"');
    assert_memory_equal(args, "\"}", 2); /* and nothing after them */
    show_has("\"ts\": 2.000, \"dur\": 1.001, \"args\": {\"layer\": \"f\\\"c\"}}");
    show_has("\"tid\": 1, \"args\": {\"name\": \"thread 1\"}");
    show_has("\n]}\n");
    lam_model_free(m);
}

static void speedscope(void **state) {
    (void)state;
    lam_model *m = net_timed();
    assert_int_equal(write_to(m, "speedscope", show_sink(), NULL), LAM_OK);
    show_has("\"frames\": [\n{\"name\": \"Net\"},\n{\"name\": \"f\\\"c\"},\n{\"name\": "
             "\"AddmmBackward0\"},\n{\"name\": \"MulBackward0\"}]}");
    show_has("\"events\": [\n{\"type\": \"O\", \"frame\": 0, \"at\": 0},\n"
             "{\"type\": \"O\", \"frame\": 1, \"at\": 100},\n{\"type\": \"C\", \"frame\": 1, \"at\": 900},\n"
             "{\"type\": \"C\", \"frame\": 0, \"at\": 900},\n{\"type\": \"O\", \"frame\": 2, \"at\": 2000},\n"
             "{\"type\": \"C\", \"frame\": 2, \"at\": 3001}]}");
    show_has("\"events\": [\n{\"type\": \"O\", \"frame\": 3, \"at\": 2000},\n");
    show_has("\"name\": \"thread 1\", \"unit\": \"nanoseconds\", \"startValue\": 0, \"endValue\": 3001");
    lam_model_free(m);
}

/* One call that is all there is: the profile ends with it. */
static void a_profile_ends_with_its_last_span(void **state) {
    (void)state;
    net n = net_new();
    const int32_t root = net_module(&n, "Net", LAM_MODULE_LEAF);
    net_place(&n, -1, "", root);
    const lam_call_info c = {.module = root, .parent = -1, .t0_ns = 10000, .t1_ns = 10900};
    NET_OK(&n, lam_build_call(n.b, &c, NULL, &n.e));
    lam_model *m = net_done(&n);
    assert_int_equal(write_to(m, "speedscope", show_sink(), NULL), LAM_OK);
    show_has("\"startValue\": 0, \"endValue\": 900, ");
    lam_model_free(m);
}

static void without_times_there_is_no_timeline(void **state) {
    (void)state;
    lam_error e = {0};
    net n = net_new();
    net_plain(&n);
    lam_model *m = net_done(&n);
    assert_int_equal(write_to(m, "trace", show_sink(), &e), LAM_USAGE);
    assert_int_equal(write_to(m, "speedscope", show_sink(), NULL), LAM_USAGE);
    lam_model_free(m);
}

/* Operators of a dry run may have times where its calls have none; outside of all calls they are all there
 * is. */
static void calls_without_times_have_no_timeline(void **state) {
    (void)state;
    for (int called = 0; called < 2; called++) {
        lam_error e = {0};
        net n = net_new();
        net_place(&n, -1, "", net_module(&n, "Net", 0));
        if (called) net_call(&n, 0, -1, SH(2, 3), 0, SH(2, 3), 0);
        const lam_op_info o = {.name = "aten::neg", .call = -1, .parent = -1, .t0_ns = 12000, .t1_ns = 13000};
        NET_OK(&n, lam_build_op(n.b, &o, NULL, &n.e));
        lam_model *m = net_done(&n);
        assert_int_equal(write_to(m, "trace", show_sink(), &e), called ? LAM_USAGE : LAM_OK);
        if (called) assert_non_null(strstr(e.text, "nothing that ran has a time"));
        lam_model_free(m);
    }
}

static void calls_tell_their_shapes(void **state) {
    (void)state;
    static const int64_t sizes[] = {2, 3, 4};
    const lam_arg args[] = {{.ndim = 2, .sizes = sizes}, {.ndim = 1, .sizes = sizes}, {.ndim = -1}};
    net n = net_new();
    net_place(&n, -1, "", net_module(&n, "Net", 0));
    const lam_call_info c = {
        .parent = -1, .t0_ns = 10000, .t1_ns = 10900, .n_in = 3, .in = args, .n_out = 2, .out = args};
    NET_OK(&n, lam_build_call(n.b, &c, NULL, &n.e));
    lam_model *m = net_done(&n);
    assert_int_equal(write_to(m, "trace", show_sink(), NULL), LAM_OK);
    show_has("\"inputs\": \"2x3; 2; ?\", \"outputs\": \"2x3; 2\"}");
    lam_model_free(m);
}

static void draw(void *arg, bool *ok) {
    lam_error e = {0};
    lam_status s = write_to(arg, "trace", show_sink(), &e);
    if (s == LAM_OK) s = write_to(arg, "speedscope", show_sink(), &e);
    *ok = oom_check(s, &e);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_model *m = net_timed();
    oom_sweep(draw, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_events),
        cmocka_unit_test(speedscope),
        cmocka_unit_test(a_profile_ends_with_its_last_span),
        cmocka_unit_test(without_times_there_is_no_timeline),
        cmocka_unit_test(calls_without_times_have_no_timeline),
        cmocka_unit_test(calls_tell_their_shapes),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
