/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets beside a baseline: a report that was saved, and a model that has changed since. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/shown.h"

static const char FILE_NAME[] = "test_report_budget_saved.json";

/* Net(fc: Linear, mine: Mine). `more`: Mine multiplies once more, and Net(new: Block(inner: Linear)) is new.
 */
static lam_model *model(bool more, bool unknown) {
    net n = net_new();
    net_calls c = net_plain(&n);
    net_mm(&n, (op_at){c.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
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
    return net_done(&n);
}

static lam_costs *costs_of(const lam_model *m, const char *convention) {
    lam_costs *c = NULL;
    lam_error e = {0};
    if (lam_costs_new(&c, m, &(lam_cost_options){.convention = convention}, &e) != LAM_OK)
        fail_msg("%s", e.text);
    return c;
}

static void save(bool unknown) {
    lam_model *m = model(false, unknown);
    lam_costs *c = costs_of(m, NULL);
    lam_report_options o;
    lam_report_defaults(&o);
    o.format = "json";
    assert_int_equal(lam_report_write(c, &o, show_sink(), NULL), LAM_OK);
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(shown, 1, shown_n, f), shown_n);
    fclose(f);
    lam_costs_free(c);
    lam_model_free(m);
}

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
    lam_costs *c = costs_of(m, NULL);
    lam_budget *b = beside(within);
    lam_check *k = NULL;
    lam_error e = {0};
    if (allow) lam_budget_allow_incomplete(b);
    if (lam_check_new(&k, "net:Net", c, b, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    lam_verdict v = lam_check_verdict(k);
    assert_int_equal(lam_checks_write((const lam_check *const[]){k}, 1, NULL, show_sink(), NULL), LAM_OK);
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

static void what_is_new_or_grew_is_named(void **state) {
    (void)state;
    save(false);
    assert_int_equal(verdict(true, false, "5%", false), LAM_OVER);
    show_has("  macs    96, was 64: +32 (+50 %), over the 5 % allowed\n"
             "      new (Block): +24, new\n"
             "      mine (Mine): +8, by its own aten::mm x2 48\n");
    assert_int_equal(verdict(true, false, "49.9%", false), LAM_OVER);
    assert_int_equal(verdict(true, false, "50%", false), LAM_WITHIN);
    show_has("  macs    96, was 64: +32 (+50 %), within 50 %\n");
    assert_int_equal(verdict(true, false, "macs=1000%", false), LAM_OVER); /* by its FLOPs */
    show_has("over the baseline\n");
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
    lam_costs *c = costs_of(m, "layers");
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
    c = costs_of(m, NULL);
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
        cmocka_unit_test(what_is_new_or_grew_is_named),
        cmocka_unit_test(what_is_not_complete_is_not_within),
        cmocka_unit_test(what_can_not_be_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
