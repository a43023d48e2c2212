/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets: limits as texts, totals against limits, the layers of one that is exceeded, every format, and
 * every allocation failing in turn. */
#include "kit/oom.h"

#include "kit/ops_net.h"
#include "kit/shown.h"
#include "kit/stored_net.h"

#include "lamina_fields.h"
#include "report/budget/budget.h"

#include <stdio.h>

static lam_budget *budget(void) {
    lam_budget *b = NULL;
    assert_int_equal(lam_budget_new(&b, NULL), LAM_OK);
    return b;
}

static lam_check *check(const lam_costs *c, const lam_budget *b) {
    lam_check *k = NULL;
    lam_error e = {0};
    if (lam_check_new(&k, "net.py:Net", c, b, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return k;
}

static void write(const lam_check *k, const char *format) {
    lam_error e = {0};
    const lam_check *all[] = {k};
    if (lam_checks_write(all, 1, format, show_sink(), &e) != LAM_OK) fail_msg("%s", e.text);
}

/* -- limits ---------------------------------------------------------------------------------------------- */

static void limits_are_read_in_the_tables_units(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int metric;
        int64_t most;
    } of[] = {{"macs=2G", LMI_FIGURE_MACS, 2000000000},
              {"macs=1.5k", LMI_FIGURE_MACS, 1500},
              {"macs=1.81 K", LMI_FIGURE_MACS, 1810},
              {"params=7", LMI_FIGURE_PARAMS, 7},
              {"flops= 0.0005T", LMI_FIGURE_FLOPS, 500000000},
              {"peak=200MiB", LMI_FIGURE_PEAK, 200 << 20},
              {"peak=200MB", LMI_FIGURE_PEAK, 200000000},
              {"bytes=10", LMI_FIGURE_MOVED, 10},
              {"param_bytes=1kB", LMI_FIGURE_PARAM_BYTES, 1000},
              {"time=1.5ms", LMI_FIGURE_TIME, 1500000},
              {"backward_macs=999999999999999999", LMI_FIGURE_BACK_MACS, 999999999999999999}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        lam_budget *b = budget();
        lam_error e = {0};
        if (lam_budget_max(b, of[i].text, &e) != LAM_OK) fail_msg("%s: %s", of[i].text, e.text);
        assert_true(b->limits[of[i].metric]);
        assert_int_equal(b->most[of[i].metric], of[i].most);
        lam_budget_free(b);
    }
}

static void wrong_limits_are_told_what_there_is(void **state) {
    (void)state;
    static const char *const of[][2] = {
        {"mac=2G", "there is no metric 'mac'; there are: macs, flops, bytes, params"},
        {"macs", "a limit is a metric and a number"},
        {"=2G", "a limit is a metric and a number"},
        {"macs=", "a limit is a metric and a number"},
        {"macs=-1", "a limit is a metric and a number"},
        {"macs=1e9", "'e9' is no unit of macs; there are: K, M, G, T"},
        {"macs=2GiB", "'GiB' is no unit of macs"},
        {"macs=2m", "'m' is no unit of macs"},
        {"peak=2M", "'M' is no unit of peak; there are: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB"},
        {"time=20", "time needs a unit; there are: ns, us, ms, s"},
        {"macs=1.2.3", "'.3' is no unit of macs"},
        {"macs=1000000000000000000000", "a limit is a metric and a number"},
        {"macs=999999999999999999T", "larger than any number"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        lam_budget *b = budget();
        lam_error e = {0};
        assert_int_equal(lam_budget_max(b, of[i][0], &e), LAM_USAGE);
        if (!strstr(e.text, of[i][1])) fail_msg("%s: %s", of[i][0], e.text);
        assert_false(lam_budget_wants(b).any);
        lam_budget_free(b);
    }
    lam_budget *b = budget();
    lam_error e = {0};
    assert_int_equal(lam_budget_max(b, "macs=2G", &e), LAM_OK);
    assert_int_equal(lam_budget_max(b, "macs=3G", &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "macs has a limit already"));
    lam_budget_free(b);
}

static void growth_is_a_share(void **state) {
    (void)state;
    static const char *const bad[] = {"5", "five%", "%", "macs=5", "5%%", "1/2%", ""};
    lam_budget *b = budget();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lam_error e = {0};
        assert_int_equal(lam_budget_within(b, bad[i], &e), LAM_USAGE);
        assert_non_null(strstr(e.text, "a share of it"));
    }
    lam_error e = {0};
    assert_int_equal(lam_budget_within(b, "speed=5%", &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "there is no metric 'speed'"));
    assert_int_equal(lam_budget_within(b, "5%", NULL), LAM_OK);
    assert_int_equal(lam_budget_within(b, "macs=0.25 %", NULL), LAM_OK);
    assert_true(b->within == 5 && b->within_of[LMI_FIGURE_MACS] == 0.25);
    lam_budget_free(b);
}

static void what_is_limited_is_wanted(void **state) {
    (void)state;
    static const char *const of[] = {"backward_flops=1", "time=1s", "peak=1"};
    for (int i = 0; i < 3; i++) {
        lam_budget *b = budget();
        assert_int_equal(lam_budget_max(b, of[i], NULL), LAM_OK);
        lam_budget_needs needs = lam_budget_wants(b);
        assert_true(needs.any && needs.backward == (i == 0) && needs.time == (i == 1) &&
                    needs.memory == (i == 2));
        lam_budget_free(b);
    }
    lam_budget *b = budget();
    lam_error e = {0};
    assert_int_equal(lam_budget_max(b, "bytes=1", NULL), LAM_OK);
    assert_int_equal(lam_budget_fits(b, NULL, NULL), LAM_OK);
    assert_int_equal(lam_budget_fits(b, "layers", &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "the convention layers does not count it; exact does"));
    assert_int_equal(lam_budget_fits(b, "nobody", NULL), LAM_USAGE);
    lam_budget_free(b);
}

/* -- verdicts -------------------------------------------------------------------------------------------- */

/* fc 24, mine 40, outside every layer 6; with `unknown` an operator without a rule runs in `mine`. */
static lam_model *model(bool unknown) {
    net n = net_new();
    net_calls c = net_plain(&n);
    net_mm(&n, (op_at){c.fc, -1, LAM_FORWARD, 0}, 2, 3, 4);
    net_relu(&n, (op_at){c.act, -1, LAM_FORWARD, 0}, 8);
    net_mm(&n, (op_at){c.mine, -1, LAM_FORWARD, 0}, 2, 4, 5);
    if (unknown) net_op(&n, "my::op", (op_at){c.mine, -1, LAM_FORWARD, 0});
    net_mm(&n, (op_at){-1, -1, LAM_FORWARD, 0}, 1, 2, 3);
    return net_done(&n);
}

/* Packed weights are in the number of parameters and in their bytes, and each of the three sizes has a limit.
 */
static void parameters_are_limited_as_they_are_stored(void **state) {
    (void)state;
    static const char *const of[] = {"params=%d", "param_bytes=%d", "logical_bytes=%d", "local_bytes=%d"};
    static const int is[] = {115, 314, 460, 266};
    lam_model *m = stored_net(false);
    lam_costs *c = net_costs(m, "layers", false);
    for (int i = 0; i < 4; i++)
        for (int over = 0; over < 2; over++) {
            char text[40];
            snprintf(text, sizeof text, of[i], is[i] - over);
            lam_budget *b = budget();
            lam_check *k = NULL;
            assert_int_equal(lam_budget_max(b, text, NULL), LAM_OK);
            assert_int_equal(lam_check_new(&k, "net", c, b, NULL), LAM_OK);
            assert_int_equal(lam_check_verdict(k), over ? LAM_OVER : LAM_WITHIN);
            lam_check_free(k);
            lam_budget_free(b);
        }
    lam_costs_free(c);
    lam_model_free(m);
}

static void a_limit_is_the_last_number_within_it(void **state) {
    (void)state;
    lam_model *m = model(false);
    lam_costs *c = net_costs(m, NULL, false);
    for (int most = 69; most <= 71; most++) {
        char text[16];
        lam_budget *b = budget();
        snprintf(text, sizeof text, "macs=%d", most);
        assert_int_equal(lam_budget_max(b, text, NULL), LAM_OK);
        lam_check *k = check(c, b);
        assert_int_equal(lam_check_verdict(k), most < 70 ? LAM_OVER : LAM_WITHIN);
        lam_check_free(k);
        lam_budget_free(b);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

static void the_largest_layers_are_named(void **state) {
    (void)state;
    lam_model *m = model(false);
    lam_costs *c = net_costs(m, NULL, false);
    lam_budget *b = budget();
    assert_int_equal(lam_budget_max(b, "macs=35", NULL), LAM_OK);
    assert_int_equal(lam_budget_max(b, "params=1M", NULL), LAM_OK);
    lam_check *k = check(c, b);
    lam_costs_free(c); /* what a check says does not need them */
    lam_model_free(m);
    lam_budget_free(b);
    write(k, NULL);
    assert_string_equal(shown, "net.py:Net: over budget\n"
                               "  macs    70, over 35 by 35 (+100 %)\n"
                               "      mine (Mine): 40, 57 %, by its own aten::mm 40\n"
                               "      fc (Linear): 24, 34 %\n"
                               "      the model itself (Net): 6, 8.6 %\n"
                               "  params  41, within 1M\n");
    write(k, "github");
    assert_string_equal(shown,
                        "::error file=net.py,title=lamina%3A macs over budget::net.py:Net: macs 70, over 35 "
                        "by 35 (+100 %25)%0Amine (Mine): 40, 57 %25, by its own aten::mm 40%0Afc (Linear): "
                        "24, 34 %25%0Athe model itself (Net): 6, 8.6 %25\n");
    write(k, "junit");
    show_has("<testsuites name=\"lamina check\" tests=\"2\" failures=\"1\" errors=\"0\">\n");
    show_has("name=\"params at most 1M\"></testcase>");
    show_has(
        "name=\"macs at most 35\"><failure message=\"macs 70, over 35 by 35 (+100 %)\">\nmine (Mine): 40");
    write(k, "json");
    show_has("{\"schema\": \"lamina.check/1\", \"schema_version\": 1, \"version\": \"" LAM_VERSION
             "\", \"within\": false, \"checks\": [{\"target\": \"net.py:Net\", "
             "\"verdict\": \"over\", \"error\": null, \"convention\": \"exact\"");
    show_has(
        "\"layers\": [{\"path\": \"mine\", \"type\": \"Mine\", \"change\": null, \"was\": null, \"now\": 40, "
        "\"operators\": [{\"name\": \"aten::mm\", \"runs\": 1, \"macs\": 40}]}");
    write(k, "md");
    show_has("| net.py:Net | macs | **failed**: 70, over 35 by 35 (+100 %) |\n");
    show_has("\n- macs: mine (Mine): 40, 57 %");
    lam_check_free(k);
}

/* Bytes are those read and those written: 18 + 8 numbers in fc, 8 + 8 in act, 28 + 10 in mine, 8 + 3 outside.
 */
static void bytes_are_read_and_written(void **state) {
    (void)state;
    lam_model *m = model(false);
    lam_costs *c = net_costs(m, NULL, false);
    lam_budget *b = budget();
    assert_int_equal(lam_budget_max(b, "bytes=100", NULL), LAM_OK);
    lam_check *k = check(c, b);
    write(k, "json");
    show_has("\"now\": {\"value\": 364, ");
    show_has("{\"path\": \"mine\", \"type\": \"Mine\", \"change\": null, \"was\": null, \"now\": 152, ");
    show_has("{\"path\": \"fc\", \"type\": \"Linear\", \"change\": null, \"was\": null, \"now\": 104, ");
    lam_check_free(k);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

static void what_is_not_complete_is_not_within(void **state) {
    (void)state;
    lam_model *m = model(true);
    lam_costs *c = net_costs(m, NULL, false);
    for (int allow = 0; allow < 2; allow++) {
        lam_budget *b = budget();
        assert_int_equal(lam_budget_max(b, "macs=1G", NULL), LAM_OK);
        if (allow) lam_budget_allow_incomplete(b);
        lam_check *k = check(c, b);
        assert_int_equal(lam_check_verdict(k), allow ? LAM_WITHIN : LAM_NOT_COMPLETE);
        write(k, NULL);
        show_has(
            allow ? "net.py:Net: within budget\n  macs  >= 70, within 1G, not complete: it is a lower bound\n"
                  : "net.py:Net: not complete\n  macs  >= 70, limit 1G, not complete: it is a lower bound\n");
        show_has("  not complete: ");
        show_has("my::op");
        lam_check_free(k);
        lam_budget_free(b);
    }
    lam_budget *b = budget();
    assert_int_equal(lam_budget_max(b, "macs=69", NULL), LAM_OK);
    lam_check *k = check(c, b);
    assert_int_equal(lam_check_verdict(k), LAM_OVER); /* whatever else there is */
    lam_check_free(k);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

static void what_was_not_measured_is_no_number(void **state) {
    (void)state;
    static const char *const of[][2] = {{"peak=1GiB", "memory was not measured"},
                                        {"time=1s", "no times were measured"},
                                        {"backward_macs=1G", "no backward pass ran"}};
    lam_model *m = model(false);
    lam_costs *c = net_costs(m, NULL, false);
    for (int i = 0; i < 3; i++) {
        lam_budget *b = budget();
        lam_check *k = (lam_check *)of;
        lam_error e = {0};
        assert_int_equal(lam_budget_max(b, of[i][0], NULL), LAM_OK);
        assert_int_equal(lam_check_new(&k, "n", c, b, &e), LAM_USAGE);
        assert_null(k);
        if (!strstr(e.text, of[i][1])) fail_msg("%s", e.text);
        lam_budget_free(b);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

static void a_failed_check_has_its_sentence(void **state) {
    (void)state;
    lam_check *k = NULL;
    const lam_error why = {.where = "a<b>.py", .text = "it,\x1b[1m failed: 5%"};
    assert_int_equal(lam_check_failed(&k, "a<b>.py:Net", &why, NULL), LAM_OK);
    assert_int_equal(lam_check_verdict(k), LAM_CHECK_FAILED);
    write(k, NULL);
    assert_string_equal(shown, "a<b>.py:Net: failed\n  a<b>.py: it,?[1m failed: 5%\n");
    write(k, "junit");
    show_has("tests=\"1\" failures=\"0\" errors=\"1\"");
    show_has("<error message=\"a&lt;b&gt;.py: it,?[1m failed: 5%\"></error>");
    write(k, "github");
    assert_string_equal(shown, "::error file=a<b>.py,title=lamina%3A the check failed::a<b>.py:Net: a<b>.py: "
                               "it,?[1m failed: 5%25\n");
    write(k, "md");
    show_has("| a\\<b\\>.py:Net |  | **failed**: ");
    lam_error e = {0};
    const lam_check *two[] = {k, k};
    assert_int_equal(lam_checks_write(two, 2, NULL, show_sink(), &e), LAM_OK);
    show_has("0 of 2 targets within budget\n");
    assert_int_equal(lam_checks_write(two, 2, "yaml", show_sink(), &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "there are: text, json, md, junit, github"));
    assert_int_equal(lam_checks_write(two, 2, "json", show_refusing(), NULL), LAM_IO);
    lam_check_free(k);
    lam_check_free(NULL);
    assert_string_equal(lam_verdict_name(LAM_NOT_COMPLETE), "not complete");
    assert_string_equal(lam_verdict_name((lam_verdict)(LAM_CHECK_FAILED + 1)), "?");
}

static bool count_field(void *n, const lam_field *f) {
    (void)f;
    ++*(int *)n;
    return true;
}

static void a_receiver_gets_every_field(void **state) {
    (void)state;
    int n = 0;
    lam_model *m = model(true);
    lam_costs *c = net_costs(m, NULL, false);
    lam_budget *b = budget();
    assert_int_equal(lam_budget_max(b, "macs=1", NULL), LAM_OK);
    lam_check *k = check(c, b);
    lam_check_tell(k, (lam_receiver){count_field, &n});
    assert_true(n > 40);
    lam_check_free(k);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

/* -- memory that runs out -------------------------------------------------------------------------------- */

static void whole(void *arg, bool *ok) {
    lam_budget *b = NULL;
    lam_check *k[2] = {NULL, NULL};
    lam_error e = {0};
    const lam_error why = {.text = "it failed"};
    lam_status s = lam_budget_new(&b, &e);
    if (s == LAM_OK) s = lam_budget_max(b, "macs=1", &e);
    if (s == LAM_OK) s = lam_check_new(&k[0], "net.py:Net", arg, b, &e);
    if (s == LAM_OK) s = lam_check_failed(&k[1], "other", &why, &e);
    static const char *const formats[] = {"text", "json", "md", "junit", "github"};
    for (int i = 0; i < 5 && s == LAM_OK; i++)
        s = lam_checks_write((const lam_check *const *)k, 2, formats[i], show_sink(), &e);
    *ok = oom_check(s, &e);
    lam_check_free(k[0]);
    lam_check_free(k[1]);
    lam_budget_free(b);
}

static void wrong_metric(void *arg, bool *ok) {
    lam_error e = {0};
    lam_status s = lam_budget_max(arg, "mac=1", &e);
    *ok = s == LAM_USAGE || oom_check(s, &e);
    if (s == LAM_USAGE) e = (lam_error){0};
    if (s == LAM_USAGE) s = lam_budget_max(arg, "macs=1x", &e);
    *ok = s == LAM_USAGE || oom_check(s, &e);
}

static void every_allocation_fails(void **state) {
    (void)state;
    lam_model *m = model(true);
    lam_costs *c = net_costs(m, NULL, false);
    lam_budget *b = budget();
    oom_sweep(whole, c);
    oom_sweep(wrong_metric, b);
    lam_budget_free(b);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_read_in_the_tables_units),
        cmocka_unit_test(parameters_are_limited_as_they_are_stored),
        cmocka_unit_test(wrong_limits_are_told_what_there_is),
        cmocka_unit_test(growth_is_a_share),
        cmocka_unit_test(what_is_limited_is_wanted),
        cmocka_unit_test(a_limit_is_the_last_number_within_it),
        cmocka_unit_test(the_largest_layers_are_named),
        cmocka_unit_test(bytes_are_read_and_written),
        cmocka_unit_test(what_is_not_complete_is_not_within),
        cmocka_unit_test(what_was_not_measured_is_no_number),
        cmocka_unit_test(a_failed_check_has_its_sentence),
        cmocka_unit_test(a_receiver_gets_every_field),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
