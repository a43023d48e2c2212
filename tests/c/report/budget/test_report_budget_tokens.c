/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits in tokens: what they are compared with, and which others may stand beside them. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/shown.h"
#include "kit/stored_net.h"

#include "lamina_tokens.h"
#include "report/budget/budget.h"

static lam_budget *limits(const char *const *texts) {
    lam_budget *b = NULL;
    lam_error e = {0};
    assert_int_equal(lam_budget_new(&b, NULL), LAM_OK);
    for (; *texts; texts++)
        if (lam_budget_max(b, *texts, &e) != LAM_OK) fail_msg("%s: %s", *texts, e.text);
    return b;
}

static lam_costs *costs(lam_model **m) {
    *m = net_step();
    return net_costs(*m, "exact", false);
}

static lam_count exactly(int64_t n) { return (lam_count){n, 0, LAM_EXACT}; }

static lam_tokens generated(const lam_token_step *last) {
    lam_tokens t = {.prompt = 1000, .fresh = 4, .batch = 1, .n_steps = 1, .steps = last};
    t.stage[LAM_PREFILL] = (lam_token_stage){.calls = 1, .tokens = 1000};
    t.stage[LAM_PREFILL].cost.macs.executed = exactly(5000);
    t.stage[LAM_DECODE] = (lam_token_stage){.calls = 3, .tokens = 3};
    t.stage[LAM_DECODE].cost.macs.executed = exactly(301);
    return t;
}

static void each_limit_has_its_number(void **state) {
    (void)state;
    static const char *const most[] = {"decode_macs_a_token=100", "prefill_macs_a_token=5", "cache=1KiB",
                                       NULL};
    lam_model *m;
    lam_costs *c = costs(&m);
    lam_budget *b = limits(most);
    const lam_token_step last = {.cache = exactly(1025)};
    lam_tokens t = generated(&last);
    lam_check *k = NULL;
    lam_error e = {0};
    assert_int_equal(lam_budget_fits(b, NULL, &e), LAM_OK);
    assert_true(lam_budget_wants(b).tokens);
    assert_int_equal(lam_check_tokens(&k, "net", &t, c, b, &e), LAM_OK);
    assert_int_equal(k->n, 3);
    assert_int_equal(k->at[0].now.n, 101); /* 301 for 3 tokens: a part of one counts as one */
    assert_int_equal(k->at[0].verdict, LAM_OVER);
    assert_int_equal(k->at[1].now.n, 5);
    assert_int_equal(k->at[1].verdict, LAM_WITHIN);
    assert_int_equal(k->at[2].verdict, LAM_OVER);
    assert_string_equal(k->note[0], "it generated 4 tokens after a prompt of 1,000");
    lam_check_free(k);
    t.stage[LAM_DECODE].cost.macs.executed.state = LAM_AT_LEAST;
    t.stage[LAM_PREFILL].cost.macs.executed.state = LAM_UNKNOWN;
    t.n_steps = 0;
    assert_int_equal(lam_check_tokens(&k, "net", &t, c, b, &e), LAM_OK);
    assert_int_equal(k->at[0].verdict, LAM_OVER); /* what is known of it is more than the limit */
    assert_int_equal(k->at[1].verdict, LAM_NOT_COMPLETE);
    assert_int_equal(k->at[2].verdict, LAM_NOT_COMPLETE);
    lam_check_free(k);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

static void a_number_that_there_is_not_is_refused(void **state) {
    (void)state;
    static const char *const most[] = {"decode_macs_a_token=100", NULL};
    lam_model *m;
    lam_costs *c = costs(&m);
    lam_budget *b = limits(most);
    const lam_token_step last = {.cache = exactly(1)};
    lam_tokens t = generated(&last);
    lam_check *k = NULL;
    lam_error e = {0};
    t.stage[LAM_DECODE].calls = 0;
    assert_int_equal(lam_check_tokens(&k, "net", &t, c, b, &e), LAM_USAGE);
    assert_string_equal(e.text, "no token is decoded after 1 new one; let it generate 2 or more");
    e = (lam_error){0};
    assert_int_equal(lam_check_new(&k, "net", c, b, &e), LAM_USAGE);
    assert_string_equal(e.text, "no language model generated; leave its limit out, or measure it");
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

static void limits_of_one_run_stand_alone(void **state) {
    (void)state;
    static const char *const both[] = {"macs=1G", "cache=1GiB", NULL}, *const alone[] = {"cache=1GiB", NULL};
    static const char *const recorded[] = {"params=1G", "input=0.5%", NULL};
    lam_error e = {0};
    lam_budget *b = limits(both);
    assert_int_equal(lam_budget_fits(b, NULL, &e), LAM_USAGE);
    assert_string_equal(e.text,
                        "it is of a model that generates, and macs of one run; make two checks of them");
    lam_budget_free(b);
    e = (lam_error){0};
    b = limits(recorded);
    assert_int_equal(lam_budget_fits(b, NULL, &e), LAM_USAGE);
    assert_string_equal(e.text, "it is of recordings, and params of one run; make two checks of them");
    assert_true(lam_budget_wants(b).recordings);
    lam_budget_free(b);
    b = limits(alone);
    assert_int_equal(lam_budget_fits(b, NULL, &e), LAM_OK);
    assert_false(lam_budget_wants(b).recordings);
    lam_budget_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_has_its_number),
        cmocka_unit_test(a_number_that_there_is_not_is_refused),
        cmocka_unit_test(limits_of_one_run_stand_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
