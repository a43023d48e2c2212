/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets beside a baseline: a report that was saved, and a model that has changed since. */
#include "kit/oom.h"

#include "kit/full_net.h"
#include "kit/ops_net.h"
#include "kit/show.h"

static const char FILE_NAME[] = "test_report_budget_saved.json";
static const char *write_as; /* the format of a verdict; NULL: text */
static bool huge;            /* its fc has 2^66 MACs */
static const char *made_of;  /* what the build arguments are said to be, NULL: nothing */
static bool measured;        /* times and memory */

/* Net(fc: Linear, mine: Mine). `more`: Mine multiplies once more, and Net(new: Block(inner: Linear)) is new.
 */
static lam_model *model(bool more, bool unknown) {
    net n = net_new();
    net_calls c = net_plain(&n);
    const int64_t most = 1 << 22;
    net_mm(&n, (op_at){c.fc, -1, LAM_FORWARD, 0}, huge ? most : 2, huge ? most : 3, huge ? most : 4);
    net_mm(&n, (op_at){c.mine, -1, LAM_FORWARD, 0}, 2, 4, 5);
    if (more) {
        net_mm(&n, (op_at){c.mine, -1, LAM_FORWARD, 0}, 2, 4, 1);
        int32_t block = net_module(&n, "Block", 0), inner = net_linear(&n, 3, 4),
                p = net_place(&n, 0, "new", block);
        net_place(&n, p, "inner", inner);
        int32_t b = net_call(&n, block, c.root, SH(2, 3), 0, SH(2, 4), 0);
        int32_t i = net_call(&n, inner, b, SH(2, 3), 0, SH(2, 4), 0);
        net_mm(&n, (op_at){i, -1, LAM_FORWARD, 0}, 2, 3, 4);
    }
    if (unknown) net_op(&n, "my::op", (op_at){c.mine, -1, LAM_FORWARD, 0});
    if (made_of) NET_OK(&n, lam_build_provenance(n.b, "build", made_of, &n.e));
    if (measured) {
        NET_OK(&n, lam_build_timed(n.b, &n.e));
        NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"a test", -1, -1, -1, false}, &n.e));
    }
    return net_done(&n);
}

static void save_model(lam_model *m) {
    lam_costs *c = net_costs(m, NULL, false);
    show_save(c, FILE_NAME);
    lam_costs_free(c);
    lam_model_free(m);
}

static void save(bool unknown) { save_model(model(false, unknown)); }

static lam_budget *beside(const char *within) {
    lam_budget *b = NULL;
    lam_error e = {0};
    assert_int_equal(lam_budget_new(&b, NULL), LAM_OK);
    if (lam_budget_baseline(b, FILE_NAME, &e) != LAM_OK) fail_msg("%s", e.text);
    assert_true(lam_budget_wants(b).any);
    if (within) assert_int_equal(lam_budget_within(b, within, NULL), LAM_OK);
    return b;
}

/* The verdict beside the baseline; what is said is shown. */
static lam_verdict verdict(bool more, bool unknown, const char *within, bool allow) {
    lam_model *m = model(more, unknown);
    lam_costs *c = net_costs(m, NULL, false);
    lam_budget *b = beside(within);
    lam_check *k = NULL;
    lam_error e = {0};
    if (allow) lam_budget_allow_incomplete(b);
    if (lam_check_new(&k, "net:Net", c, b, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    lam_verdict v = lam_check_verdict(k);
    assert_int_equal(lam_checks_write((const lam_check *const[]){k}, 1, write_as, show_sink(), NULL), LAM_OK);
    lam_check_free(k);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
    return v;
}

static void nothing_has_changed(void **state) {
    (void)state;
    save(false);
    assert_int_equal(verdict(false, false, NULL, false), LAM_WITHIN);
    show_has("net:Net: within budget\n  macs    64, was 64\n");
}

/* A layer's number has 64 bits, and none that was cut is told. */
static void numbers_of_more_than_64_bits(void **state) {
    (void)state;
    lam_check *k = NULL;
    lam_budget *b = NULL;
    huge = true;
    save(false);
    assert_int_equal(verdict(false, false, NULL, false), LAM_WITHIN);
    show_has("  macs    73.8 E, was 73.8 E\n");
    lam_model *m = model(false, false);
    lam_costs *c = net_costs(m, NULL, false);
    huge = false;
    assert_int_equal(lam_budget_new(&b, NULL), LAM_OK);
    assert_int_equal(lam_budget_max(b, "macs=1", NULL), LAM_OK);
    assert_int_equal(lam_check_new(&k, "net:Net", c, b, NULL), LAM_OK);
    assert_int_equal(lam_checks_write((const lam_check *const[]){k}, 1, NULL, show_sink(), NULL), LAM_OK);
    show_has("\n      mine (Mine): 40, 0.00 %, by its own aten::mm 40\n      1 more layer\n");
    lam_check_free(k);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

static void other_build_arguments_are_told(void **state) {
    (void)state;
    made_of = "depth=1";
    save(false);
    assert_int_equal(verdict(false, false, NULL, false), LAM_WITHIN);
    assert_null(strstr(shown, "differ"));
    made_of = "depth=2\x1b";
    assert_int_equal(verdict(false, false, NULL, false), LAM_WITHIN);
    show_has("  note: the build arguments differ: before depth=1, now depth=2?\n");
    made_of = NULL; /* of what is not known nothing is said */
    assert_int_equal(verdict(false, false, NULL, false), LAM_WITHIN);
    assert_null(strstr(shown, "differ"));
}

/* Then whole runs are not compared, and a limit on one is refused. */
static void a_backward_in_one_of_the_runs(void **state) {
    (void)state;
    static const char *const whole[] = {"time=5%", "peak=5%"};
    save_model(full_step());
    measured = true;
    verdict(false, false, NULL, true);
    show_has("  note: a backward ran: before yes, now no: peaks of memory can't be compared\n");
    assert_null(strstr(shown, "  peak"));
    lam_model *m = model(false, false);
    lam_costs *c = net_costs(m, NULL, false);
    for (int i = 0; i < 2; i++) {
        lam_budget *b = beside(whole[i]);
        lam_check *k = NULL;
        lam_error e = {0};
        assert_int_equal(lam_check_new(&k, "net:Net", c, b, &e), LAM_USAGE);
        assert_string_equal(e.text, "it can't be compared (a backward ran: before yes, now no); leave its "
                                    "limit out, or measure both alike");
        lam_budget_free(b);
    }
    lam_costs_free(c);
    lam_model_free(m);
    measured = false;
}

static void what_is_new_or_grew_is_named(void **state) {
    (void)state;
    save(false);
    assert_int_equal(verdict(true, false, "5%", false), LAM_OVER);
    show_has("  macs    96, was 64: +32 (+50 %), over the 5 % allowed\n"
             "      new (Block): +24, new\n"
             "      mine (Mine): +8, by its own aten::mm x2 48\n");
    write_as = "json"; /* 64 and a twentieth */
    assert_int_equal(verdict(true, false, "5%", false), LAM_OVER);
    show_has("\"most\": {\"value\": 67, \"state\": \"exact\"}, \"was\": {\"value\": 64, ");
    write_as = NULL;
    assert_int_equal(verdict(true, false, "49.9%", false), LAM_OVER);
    assert_int_equal(verdict(true, false, "50%", false), LAM_WITHIN);
    show_has("  macs    96, was 64: +32 (+50 %), within 50 %\n");
    assert_int_equal(verdict(true, false, "macs=1000%", false), LAM_OVER); /* by its FLOPs */
    show_has("over the baseline\n");
}

/* As many limits as there can be of a step that was not timed: each number has one, and one of growth. */
static void every_number_may_have_both_limits(void **state) {
    (void)state;
    static const char *const of[] = {"macs",        "flops",         "bytes",         "params",
                                     "param_bytes", "backward_macs", "backward_flops"};
    enum { N = sizeof of / sizeof *of };
    save_model(net_step());
    lam_model *m = net_step();
    lam_costs *c = net_costs(m, NULL, false);
    lam_budget *b = beside(NULL);
    lam_check *k = NULL;
    lam_error e = {0};
    int limits = 0;
    lam_budget_allow_incomplete(b);
    for (int i = 0; i < N; i++) {
        char text[40];
        snprintf(text, sizeof text, "%s=1000000", of[i]);
        assert_int_equal(lam_budget_max(b, text, NULL), LAM_OK);
        snprintf(text, sizeof text, "%s=5%%", of[i]);
        assert_int_equal(lam_budget_within(b, text, NULL), LAM_OK);
    }
    if (lam_check_new(&k, "net:Net", c, b, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    assert_int_equal(lam_check_verdict(k), LAM_WITHIN);
    assert_int_equal(lam_checks_write((const lam_check *const[]){k}, 1, "json", show_sink(), NULL), LAM_OK);
    for (const char *s = shown; (s = strstr(s, "{\"metric\": ")) != NULL; s++) limits++;
    assert_int_equal(limits, 2 * N);
    lam_check_free(k);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

static void what_is_not_complete_is_not_within(void **state) {
    (void)state;
    save(false);
    assert_int_equal(verdict(false, true, NULL, false), LAM_NOT_COMPLETE);
    show_has("not complete: it is a lower bound\n");
    save(true);
    assert_int_equal(verdict(false, false, NULL, false), LAM_NOT_COMPLETE);
    show_has("not complete: the baseline's is a lower bound\n");
    assert_int_equal(verdict(false, false, NULL, true), LAM_WITHIN);
}

static void what_can_not_be_compared(void **state) {
    (void)state;
    save(false);
    lam_model *m = model(false, false);
    lam_costs *c = net_costs(m, "layers", false);
    lam_budget *b = beside(NULL);
    lam_check *k = NULL;
    lam_error e = {0};
    assert_int_equal(lam_check_new(&k, "n", c, b, &e), LAM_USAGE);
    assert_string_equal(e.where, FILE_NAME);
    assert_non_null(strstr(e.text, "it was counted by exact and this run by layers"));
    lam_error again = {0};
    assert_int_equal(lam_budget_baseline(b, FILE_NAME, &again), LAM_USAGE);
    lam_budget_free(b);
    b = beside("time=5%");
    lam_costs_free(c);
    c = net_costs(m, NULL, false);
    lam_error untimed = {0};
    assert_int_equal(lam_check_new(&k, "n", c, b, &untimed), LAM_USAGE);
    assert_non_null(strstr(untimed.text, "no times were measured"));
    lam_budget_free(b);
    assert_int_equal(lam_budget_new(&b, NULL), LAM_OK);
    lam_error missing = {0}, other = {0};
    assert_int_equal(lam_budget_baseline(b, "no such file", &missing), LAM_IO);
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    fputs("{}", f);
    fclose(f);
    assert_int_equal(lam_budget_baseline(b, FILE_NAME, &other), LAM_FAILED);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
    remove(FILE_NAME);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_has_changed),
        cmocka_unit_test(numbers_of_more_than_64_bits),
        cmocka_unit_test(other_build_arguments_are_told),
        cmocka_unit_test(a_backward_in_one_of_the_runs),
        cmocka_unit_test(what_is_new_or_grew_is_named),
        cmocka_unit_test(every_number_may_have_both_limits),
        cmocka_unit_test(what_is_not_complete_is_not_within),
        cmocka_unit_test(what_can_not_be_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
