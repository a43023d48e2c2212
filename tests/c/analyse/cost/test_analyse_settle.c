/* SPDX-License-Identifier: Apache-2.0
 *
 * Totals first and rows later: the same numbers as at once, and every allocation failing in turn. */
#include "kit/oom.h"

#include "kit/ops_net.h"

static void same(lam_count a, lam_count b) {
    if (a.n != b.n || a.over != b.over || a.state != b.state)
        fail_msg("%lld %s, expected %lld %s", (long long)a.n, lam_state_name(a.state), (long long)b.n,
                 lam_state_name(b.state));
}

/* What is read of the costs of every convention, made at once and in two steps, is the same. */
static void rows_when_they_are_asked_for(void **state) {
    (void)state;
    lam_model *m = net_step();
    for (int32_t i = 0; i < lam_n_conventions(); i++) {
        const lam_cost_options late = {.convention = lam_convention_name(i), .totals_only = true};
        lam_costs *whole = net_costs(m, lam_convention_name(i), false), *c;
        assert_int_equal(lam_costs_new(&c, m, &late, NULL), LAM_OK);
        assert_int_equal(lam_costs_n_rows(c), 0);
        assert_null(lam_costs_row(c, 0));
        for (int p = 0; p < LAM_N_PHASES; p++)
            for (int k = 0; k < LAM_N_METRICS; k++)
                same(lam_costs_phase_total(c, (lam_phase)p, (lam_metric)k),
                     lam_costs_phase_total(whole, (lam_phase)p, (lam_metric)k));
        assert_int_equal(lam_costs_settle(c, NULL), LAM_OK);
        assert_int_equal(lam_costs_settle(c, NULL), LAM_OK); /* nothing is left to be done */
        assert_int_equal(lam_costs_n_rows(c), lam_costs_n_rows(whole));
        for (int32_t r = 0; r < lam_costs_n_rows(c); r++)
            for (int k = 0; k < LAM_N_METRICS; k++) {
                same(lam_costs_row(c, r)->below->total[k], lam_costs_row(whole, r)->below->total[k]);
                same(lam_costs_row(c, r)->phases->backward[k], lam_costs_row(whole, r)->phases->backward[k]);
            }
        same(lam_costs_params(c).params, lam_costs_params(whole).params);
        lam_costs_free(whole);
        lam_costs_free(c);
    }
    lam_model_free(m);
}

/* What a tool printed is the sum of the rows that it chose, so they are made at once. */
static void released_rows_are_there(void **state) {
    (void)state;
    lam_model *m = net_step();
    const lam_cost_options o = {.convention = "thoplw", .released = true, .totals_only = true};
    lam_costs *c;
    assert_int_equal(lam_costs_new(&c, m, &o, NULL), LAM_OK);
    assert_true(lam_costs_n_rows(c) > 0);
    lam_costs_free(c);
    lam_model_free(m);
}

static void never_settled(void **state) {
    (void)state;
    lam_model *m = net_step();
    const lam_cost_options o = {.convention = "exact", .totals_only = true};
    lam_error e = {.at = -1};
    lam_costs *c;
    assert_int_equal(lam_costs_new(&c, m, &o, NULL), LAM_OK);
    lam_costs_free(c); /* leaves nothing, which the leak checker sees */
    assert_int_equal(lam_costs_settle(NULL, &e), LAM_USAGE);
    lam_model_free(m);
}

/* Rows that could not be made stay away, and whoever asks is told so each time. */
static void settle_it(void *arg, bool *ok) {
    const lam_cost_options o = {.convention = "exact", .totals_only = true};
    lam_error e = {.at = -1};
    lam_costs *c = NULL;
    lam_status s = lam_costs_new(&c, arg, &o, &e);
    if (s == LAM_OK) s = lam_costs_settle(c, &e);
    *ok = s == LAM_OK;
    if (!*ok) {
        assert_int_equal(s, LAM_NOMEM);
        assert_int_equal(e.status, LAM_NOMEM);
        if (c) {
            assert_int_equal(lam_costs_settle(c, NULL), LAM_NOMEM);
            assert_int_equal(lam_costs_n_rows(c), 0);
            assert_null(lam_costs_gap(c, 0));
        }
    }
    lam_costs_free(c);
}

static void settling_without_memory(void **state) {
    (void)state;
    lam_model *m = net_step();
    oom_sweep(settle_it, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_when_they_are_asked_for),
        cmocka_unit_test(released_rows_are_there),
        cmocka_unit_test(never_settled),
        cmocka_unit_test(settling_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
