/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables and JSON of a run that was looked at. */
#include "kit/oom.h"

#include "kit/shown.h"
#include "report/table/report.h"

static const int64_t sizes[] = {2, 3};

static lam_model *build(bool bad) {
    static const char *const names[] = {"", "a", "b"};
    const lam_checked looked = {.tensors = 4, .bytes = 96};
    const lam_stats s = {.numbers = 6, .mean = 0.5, .least = -1, .greatest = 2, .headroom = 1e308 * 10};
    lam_error e = {0};
    lam_builder *b;
    lam_model *m;
    int32_t i;
    assert_int_equal(lam_builder_new(&b, 0, &e), LAM_OK);
    for (int32_t k = 0; k < 3; k++) {
        const char *type = k ? "ReLU" : "Net";
        const lam_module_info mod = {.type = type, .word = lam_word_module(type)};
        assert_int_equal(lam_build_module(b, &mod, &i, &e), LAM_OK);
        assert_int_equal(lam_build_place(b, k ? 0 : -1, names[k], k, &i, &e), LAM_OK);
    }
    for (int32_t k = 0; k < 3; k++) {
        const lam_arg x = {.position = 0, .dtype = 6, .device = 0, .ndim = 2, .sizes = sizes};
        const lam_call_info call = {
            .module = k, .parent = k ? 0 : -1, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
        assert_int_equal(lam_build_call(b, &call, &i, &e), LAM_OK);
    }
    const lam_bad first = {.side = LAM_BAD_OUTPUT,
                           .call = 1,
                           .calls = 2,
                           .from = -1,
                           .found = {.nan = 1, .first = 4},
                           .dtype = 6,
                           .ndim = 2,
                           .sizes = sizes};
    const lam_bad node = {.side = LAM_BAD_NODE,
                          .phase = LAM_BACKWARD,
                          .call = 2,
                          .calls = 3,
                          .from = -1,
                          .fed = true,
                          .ndim = -1};
    const lam_bad unseen = {.side = LAM_BAD_UNSEEN, .call = 2, .calls = 3, .from = -1, .ndim = -1};
    if (bad) assert_int_equal(lam_build_bad(b, &first, &e), LAM_OK);
    if (bad) assert_int_equal(lam_build_bad(b, &node, &e), LAM_OK);
    if (bad) assert_int_equal(lam_build_bad(b, &unseen, &e), LAM_OK);
    assert_int_equal(lam_build_stats(b, 1, 0, &s, &e), LAM_OK);
    assert_int_equal(lam_build_checked(b, &looked, &e), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, &e), LAM_OK);
    return m;
}

static lam_status write_as(const lam_model *m, const char *format) {
    lam_error e = {0};
    lam_costs *c;
    lam_report_options o;
    lam_report_defaults(&o);
    o.format = format;
    assert_int_equal(lam_costs_new(&c, m, NULL, &e), LAM_OK);
    lam_status s = lam_report_write(c, &o, show_sink(), &e);
    lam_costs_free(c);
    return s;
}

static void table(void **state) {
    (void)state;
    lam_model *m = build(true);
    assert_int_equal(write_as(m, "text"), LAM_OK);
    show_has("Health");
    show_has("born here");
    show_has("?, passed on backward");
    show_has("\nhealth     NaN first in a (ReLU), forward call 1: 1 of 6 elements, first at [1, 1]\n");
    lam_model_free(m);
    m = build(false);
    assert_int_equal(write_as(m, "text"), LAM_OK);
    show_has("\nhealth     no NaN or Inf in 4 tensors; no gradient was checked");
    show_has("ok");
    lam_model_free(m);
}

static void json(void **state) {
    (void)state;
    lam_model *m = build(true);
    assert_int_equal(write_as(m, "json"), LAM_OK);
    show_has("\"health\": {\"sentence\": \"NaN first in a (ReLU)");
    show_has("\"path\": \"a\", \"type\": \"ReLU\", \"call\": 0");
    show_has("\"value\": \"NaN\", \"nan\": 1, \"inf\": 0, \"first\": [1, 1], \"shape\": [2, 3], \"dtype\": "
             "\"float32\"");
    show_has("\"health\": {\"forward\": \"born\", \"backward\": \"unknown\", \"stats\": [{\"numbers\": 6");
    show_has("\"least\": -1, \"greatest\": 2, \"mean\": 0.5, \"headroom\": null}");
    show_has("\"health\": {\"forward\": \"unknown\", \"backward\": \"passed\", \"stats\": [null]}");
    lam_model_free(m);
}

/* `n` layers, each of which made NaN of what was none, and one that nobody called. */
static lam_model *many(int32_t n) {
    lam_builder *b;
    lam_model *m;
    int32_t i;
    const lam_checked looked = {.tensors = 4, .bytes = 96};
    assert_int_equal(lam_builder_new(&b, 0, NULL), LAM_OK);
    for (int32_t k = 0; k < n + 2; k++) {
        static const char *const names[] = {"", "a", "b", "c", "d", "e", "f", "g", "h"};
        const char *type = k ? "ReLU" : "Net";
        const lam_module_info mod = {.type = type, .word = lam_word_module(type)};
        assert_int_equal(lam_build_module(b, &mod, &i, NULL), LAM_OK);
        assert_int_equal(lam_build_place(b, k ? 0 : -1, names[k], k, &i, NULL), LAM_OK);
    }
    for (int32_t k = 0; k < n + 1; k++) {
        const lam_arg x = {.dtype = 6, .ndim = 2, .sizes = sizes};
        const lam_call_info call = {
            .module = k, .parent = k ? 0 : -1, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
        const lam_bad bad = {
            .side = LAM_BAD_OUTPUT, .call = k, .calls = k + 1, .from = -1, .found = {.nan = 1}, .ndim = -1};
        assert_int_equal(lam_build_call(b, &call, &i, NULL), LAM_OK);
        if (k) assert_int_equal(lam_build_bad(b, &bad, NULL), LAM_OK);
    }
    assert_int_equal(lam_build_checked(b, &looked, NULL), LAM_OK);
    assert_int_equal(lam_builder_finish(b, &m, NULL), LAM_OK);
    return m;
}

static void the_first_findings(void **state) {
    (void)state;
    for (int32_t n = 5; n < 8; n++) {
        lam_model *m = many(n);
        assert_int_equal(write_as(m, "text"), LAM_OK);
        if (n == 5) show_lacks(" more finding");
        if (n == 6) show_has("\n           1 more finding\n");
        if (n == 7) show_has("\n           2 more findings\n");
        lam_model_free(m);
    }
}

static void a_layer_that_nobody_called_has_no_health(void **state) {
    (void)state;
    lam_model *m = many(1);
    assert_int_equal(write_as(m, "csv"), LAM_OK);
    const char *row = strstr(shown, "\na,"), *idle = strstr(shown, "\nb,");
    assert_true(row && idle && strstr(row, ",born,"));
    *strchr(idle + 1, '\n') = '\0'; /* the total is below it */
    if (strstr(idle, "unknown")) fail_msg("it has a health:%s", idle);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(table), cmocka_unit_test(json),
                                       cmocka_unit_test(the_first_findings),
                                       cmocka_unit_test(a_layer_that_nobody_called_has_no_health)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
