/* SPDX-License-Identifier: Apache-2.0
 * When things ran and what memory was in use, in the JSON of a report: one clock, from the first call on. */
#include "kit/net.h"
#include "kit/show.h"

typedef struct run_of {
    net n;
    int32_t root, conv, fc; /* calls */
} run_of;

static int32_t call_at(net *n, int32_t module, int32_t parent, int64_t t0, int64_t t1) {
    int32_t index = -1;
    const lam_call_info c = {.module = module, .parent = parent, .t0_ns = t0, .t1_ns = t1};
    NET_OK(n, lam_build_call(n->b, &c, &index, &n->e));
    return index;
}

/* The first call begins at 10,000 ns. The backward goes through fc, conv and fc again. */
static run_of run_new(void) {
    run_of r = {.n = net_new()};
    const int32_t root = net_module(&r.n, "Net", 0), conv = net_module(&r.n, "ReLU", LAM_MODULE_LEAF),
                  fc = net_module(&r.n, "Tanh", LAM_MODULE_LEAF);
    const int32_t top = net_place(&r.n, -1, "", root);
    net_place(&r.n, top, "conv", conv);
    net_place(&r.n, top, "fc", fc);
    net_place(&r.n, top, "spare", net_module(&r.n, "Tanh", LAM_MODULE_LEAF));
    r.root = call_at(&r.n, root, -1, 10000, 50000);
    r.conv = call_at(&r.n, conv, r.root, 12000, 20000);
    r.fc = call_at(&r.n, fc, r.root, 20000, 48000);
    net_node(&r.n, "TanhBackward0", r.fc, 60000, 65000);
    net_node(&r.n, "AccumulateGrad", -1, 65000, 65500); /* of no call: divides nothing */
    net_node(&r.n, "TanhBackward0", r.fc, 66000, 70000);
    net_node(&r.n, "ReluBackward0", r.conv, 71000, 80999);
    net_node(&r.n, "TanhBackward0", r.fc, 81000, 82000);
    return r;
}

static void push_block(run_of *r, int32_t call, int64_t bytes, int64_t order, int64_t freed, int64_t t0,
                       int64_t t1, int held) {
    const lam_block k = {.bytes = bytes,
                         .order = order,
                         .freed_order = freed,
                         .t0_ns = t0,
                         .t1_ns = t1,
                         .call = call,
                         .freed_call = -1,
                         .tensor = -1,
                         .held = (uint8_t)held};
    NET_OK(&r->n, lam_build_block(r->n.b, &k, &r->n.e));
}

/* 100 bytes are there; 7 come before the first call; conv's 50 stay until the backward. */
static void push_memory(run_of *r) {
    const lam_memory_info info = {"a test", -1, -1, -1, false};
    push_block(r, -1, 100, 0, 0, 0, 0, LAM_HELD_INPUT);
    push_block(r, -1, 7, 1, 0, 8000, 0, LAM_HELD_OTHER);
    push_block(r, r->conv, 50, 2, 3, 13500, 71000, LAM_HELD_OTHER);
    const lam_span returned = {1, 2, r->conv, LAM_FORWARD};
    NET_OK(&r->n, lam_build_span(r->n.b, &returned, &r->n.e));
    NET_OK(&r->n, lam_build_memory(r->n.b, &info, &r->n.e));
}

static const char *json_of(lam_model *m) {
    lam_costs *c = net_costs(m, NULL, false);
    const lam_report_options o = show_options(NULL, "json");
    show(c, &o);
    lam_costs_free(c);
    lam_model_free(m);
    return shown;
}

static void holds(const char *part) {
    if (!strstr(shown, part)) fail_msg("no %s in\n%s", part, shown);
}

static void spans_are_told_of_calls_and_their_nodes(void **state) {
    (void)state;
    run_of r = run_new();
    push_memory(&r);
    json_of(net_done(&r.n));
    holds("\"span\": [0, 40], \"backward_spans\": []");
    holds("\"span\": [2, 10], \"backward_spans\": [[61, 70]]");
    holds("\"span\": [10, 38], \"backward_spans\": [[50, 60], [71, 72]]");
    holds("\"span\": null, \"backward_spans\": []"); /* of what never ran */
}

static void memory_is_told_on_the_same_clock(void **state) {
    (void)state;
    run_of r = run_new();
    push_memory(&r);
    json_of(net_done(&r.n));
    holds("\"course\": [[-2, 100], [-2, 107], [3, 157], [61, 107]]");
    holds("\"course_held\": {\"other\": [0, 7, 7, 7], \"input\": [100, 100, 100, 100], "
          "\"activations\": [0, 0, 50, 0]}}");
}

static void what_goes_at_once_is_in_the_first_point(void **state) {
    (void)state;
    run_of r = run_new();
    const lam_memory_info info = {"a test", -1, -1, -1, false};
    push_block(&r, -1, 20, 0, 1, 0, 13000, LAM_HELD_GRADIENT);
    push_block(&r, r.conv, 50, 2, 0, 13500, 0, LAM_HELD_OTHER);
    NET_OK(&r.n, lam_build_memory(r.n.b, &info, &r.n.e));
    json_of(net_done(&r.n));
    holds("\"course\": [[0, 20], [3, 0], [3, 50]]");
    holds("\"gradients\": [20, 0, 0]");
}

/* Of ten thousand moments the most of each piece is told. */
static void a_long_course_has_600_points(void **state) {
    (void)state;
    enum { MOMENTS = 11999 };
    run_of r = run_new();
    const lam_memory_info info = {"a test", -1, -1, -1, false};
    for (int i = 1; i <= MOMENTS; i++) push_block(&r, -1, 1, i, 0, 10000 + 1000 * i, 0, LAM_HELD_OTHER);
    NET_OK(&r.n, lam_build_memory(r.n.b, &info, &r.n.e));
    const char *at = strstr(json_of(net_done(&r.n)), "\"course\": [");
    int n = 0;
    assert_non_null(at);
    holds("\"course\": [[19, 19], [39, 39], [59, 59], "); /* 20 moments each, from the opening on */
    holds(", [11999, 11999]], \"course_held\": {\"other\": [19, 39, 59, ");
    for (at += strlen("\"course\": ["); *at == '['; n++) {
        at = strchr(at, ']') + 1;
        if (*at == ',') at += 2;
    }
    assert_int_equal(n, 600);
}

static void nothing_measured_has_no_moments(void **state) {
    (void)state;
    run_of r = run_new();
    json_of(net_done(&r.n));
    assert_null(strstr(shown, "\"span\""));
    assert_null(strstr(shown, "\"course\""));
}

/* Times are of the run that was counted, or of runs of their own. */
static void json_says_which_run_was_timed(void **state) {
    (void)state;
    for (int others = 0; others < 2; others++) {
        run_of r = run_new(), timed = run_new();
        NET_OK(&timed.n, lam_build_timed(timed.n.b, &timed.n.e));
        if (!others) NET_OK(&r.n, lam_build_timed(r.n.b, &r.n.e));
        lam_model *m = net_done(&r.n), *t = net_done(&timed.n);
        if (others)
            assert_int_equal(lam_model_time_by(m, t, NULL), LAM_OK);
        else
            lam_model_free(t);
        json_of(m);
        holds(others ? "\"same_run\": false" : "\"same_run\": true");
        holds("\"span\": [2, 10]"); /* of the run that was counted, in both */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_told_of_calls_and_their_nodes),
        cmocka_unit_test(memory_is_told_on_the_same_clock),
        cmocka_unit_test(what_goes_at_once_is_in_the_first_point),
        cmocka_unit_test(a_long_course_has_600_points),
        cmocka_unit_test(nothing_measured_has_no_moments),
        cmocka_unit_test(json_says_which_run_was_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
