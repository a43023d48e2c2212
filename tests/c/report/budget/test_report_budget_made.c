/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up networks held against limits and against each other, in every format, against a transcript. */
#include "kit/oom.h"

#include "kit/made_net.h"
#include "kit/show.h"

enum { CHECKS = 40 };

static const char FILE_NAME[] = "test_report_budget_made.json";

static void say(const char *text) { (void)show_put(NULL, text, strlen(text)); }

static lam_model *model_of(uint32_t from, int32_t other) {
    seed = from;
    made_other = other;
    lam_model *m = made_step();
    made_other = -1;
    return m;
}

static void limit(lam_budget *b, lam_status (*add)(lam_budget *b, const char *text, lam_error *e),
                  const char *text) {
    lam_error e = {0};
    if (add(b, text, &e) != LAM_OK) fail_msg("%s: %s", text, e.text);
}

static void hold(const lam_budget *b, const lam_costs *c, const char *format) {
    lam_check *k = NULL;
    lam_error e = {0};
    if (lam_check_new(&k, "net.py:Net", c, b, &e) != LAM_OK)
        assert_int_equal(lam_check_failed(&k, "net.py:Net", &e, NULL), LAM_OK);
    say(lam_verdict_name(lam_check_verdict(k)));
    say("\n");
    const lam_check *all[] = {k};
    if (lam_checks_write(all, 1, format, (lam_sink){show_put, NULL}, &e) != LAM_OK) fail_msg("%s", e.text);
    lam_check_free(k);
}

static void in_every_format(void **state) {
    (void)state;
    static const char *const formats[] = {"text", "json", "md", "junit", "github", "text", "text"},
                             *const most[] = {"macs=20K",        "flops=90K",          "params=100",
                                              "param_bytes=500", "backward_macs=10K",  "bytes=30KiB",
                                              "time=45us",       "backward_flops=20K", "peak=9KiB"},
                             *const within[] = {"5%", "macs=50%", "params=1%", "200%"};
    (void)show_sink();
    for (int i = 0; i < CHECKS; i++) {
        const uint32_t from = 300 + 11 * (uint32_t)i;
        lam_budget *b = NULL;
        lam_model *was = model_of(from, -1), *now = model_of(from + (i % 5 == 0), i % 3 ? 2 : -1);
        lam_costs *a = net_costs(was, i % 8 == 7 ? "layers" : "exact", false);
        lam_costs *c = net_costs(now, i % 16 == 7 ? "layers" : "exact", false);
        assert_int_equal(lam_budget_new(&b, NULL), LAM_OK);
        limit(b, lam_budget_max, most[i % 9]);
        if (i % 2) limit(b, lam_budget_max, most[(i + 2) % 9]);
        if (i % 4 < 3) {
            show_save(a, FILE_NAME);
            limit(b, lam_budget_baseline, FILE_NAME);
            if (i % 3) limit(b, lam_budget_within, within[i % 4]);
        }
        if (i % 6 == 5) lam_budget_allow_incomplete(b);
        hold(b, c, formats[i % 7]);
        lam_budget_free(b);
        lam_costs_free(a);
        lam_costs_free(c);
        lam_model_free(was);
        lam_model_free(now);
    }
    remove(FILE_NAME);
    show_golden("made-checks", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_every_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
