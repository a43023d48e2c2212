/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the caller's own: the text that they are read from, and the sentences where it is malformed. */
#include "kit/oom.h"

#include "count/count.h"

#include <stdlib.h>

static lam_rules *read(const char *text) {
    lam_rules *r;
    lam_error e = {0};
    assert_int_equal(lam_rules_new(&r, NULL), LAM_OK);
    if (lam_rules_read(r, text, "my.rules", &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return r;
}

static void a_file(void **state) {
    (void)state;
    lam_rules *r = read("# my kernels\n"
                        "mylib::mm.default  macs = out*x_last   flops = 2*macs  # as torch.mm\n"
                        "\n"
                        "MyLayer\r\n"
                        "    macs = x0 == 1 ? 0 : out\n"
                        "\tflops=macs+max(macs, 3)\n"
                        "    dmas = unknown\n"
                        "my.package.Other flops = 7");
    lam_rule rule;
    assert_true(lam_rules_at(r, 0, &rule));
    assert_string_equal(rule.kind, "mylib::mm");
    assert_string_equal(rule.formula[LAM_MACS], "out*x_last");
    assert_string_equal(rule.formula[LAM_FLOPS], "2*(out*x_last)");
    assert_string_equal(rule.formula[LAM_DMAS], "ins+outs"); /* unless something else is said */
    assert_string_equal(rule.formula[LAM_BYTES_READ], "ins_bytes");
    assert_string_equal(rule.note, "a rule of your own, my.rules:2");
    assert_true(lam_rules_at(r, 1, &rule));
    assert_string_equal(rule.kind, "MyLayer");
    assert_string_equal(rule.formula[LAM_MACS], "x0 == 1 ? 0 : out");
    assert_string_equal(rule.formula[LAM_FLOPS], "(x0 == 1 ? 0 : out)+max((x0 == 1 ? 0 : out), 3)");
    assert_string_equal(rule.formula[LAM_DMAS], "unknown");
    assert_true(lam_rules_at(r, 2, &rule));
    assert_string_equal(rule.kind, "my.package.Other");
    assert_false(lam_rules_at(r, 3, &rule));
    assert_false(lam_rules_at(r, -1, &rule));
    assert_false(lam_rules_at(NULL, 0, &rule));
    lam_rules_free(r);
    lam_rules_free(read(""));
    lam_rules_free(read("   \n#\n\t# only remarks"));
    lam_rules_free(NULL);
}

/* The place and a part of the sentence of each malformed text. */
static void malformed(void **state) {
    (void)state;
    static const struct {
        const char *text, *where, *part;
    } cases[] = {
        {"mylib::mm macs = out*", "my.rules:1:22", "expected a number, a name or '('"},
        {"a::b macs = 1\n\nmylib::mm  macs = nosuch*2", "my.rules:3:19", "a name that is not a fact"},
        {"mylib::mm mac = 1", "my.rules:1:11", "there is no metric 'mac'"},
        {"mylib::mm macs 1", "my.rules:1:11", "expected a metric and a formula"},
        {"mylib::mm macs =", "my.rules:1:17", "no formula"},
        {"mylib::mm macs = 1 macs = 2", "my.rules:1:20", "gives macs twice"},
        {"mylib::mm", "my.rules:1:1", "gives no number"},
        {"mylib::mm\nother::mm macs=1", "my.rules:1:1", "gives no number"},
        {"mylib::mm flops = 2*macs  macs = 1", "my.rules:1:21", "macs is not given before it is used"},
        {"a::b macs=1\na::b flops=1", "my.rules:2:1", "a rule already, on line 1"},
        {"macs = 1", "my.rules:1:1", "a rule begins with"},
        {"  macs = 1", "my.rules:1:3", "there is none yet"},
        {"a:b macs = 1", "my.rules:1:1", "a rule begins with"},
        {"a:bc macs = 1", "my.rules:1:1", "a rule begins with"},
        {"a::b::c macs = 1", "my.rules:1:1", "a rule begins with"},
        {"a:: macs = 1", "my.rules:1:1", "a rule begins with"},
        {"Mine. macs = 1", "my.rules:1:1", "a rule begins with"},
        {".Mine macs = 1", "my.rules:1:1", "a rule begins with"},
        {"a-b macs = 1", "my.rules:1:1", "a rule begins with"},
        {"a::b macs = 1 2", "my.rules:1:15", "expected an operator or the end"},
        {"a::b macs = 99999999999999999999", "my.rules:1:13", "63 bits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lam_rules *r;
        lam_error e = {0};
        assert_int_equal(lam_rules_new(&r, NULL), LAM_OK);
        assert_int_equal(lam_rules_read(r, cases[i].text, "my.rules", &e), LAM_SYNTAX);
        if (strcmp(e.where, cases[i].where) != 0 || !strstr(e.text, cases[i].part))
            fail_msg("'%s' gave '%s' at %s", cases[i].text, e.text, e.where);
        assert_true(e.at >= 0 && (size_t)e.at <= strlen(cases[i].text));
        lam_rules_free(r);
    }
}

static void a_long_path_keeps_its_end(void **state) {
    (void)state;
    char path[400];
    lam_rules *r;
    lam_error e = {0};
    memset(path, 'd', sizeof path);
    memcpy(path + sizeof path - 10, "/my.rules", 10);
    assert_int_equal(lam_rules_new(&r, NULL), LAM_OK);
    assert_int_equal(lam_rules_read(r, "x", path, &e), LAM_SYNTAX);
    assert_non_null(strstr(e.where, "/my.rules:1:1"));
    lam_rules_free(r);
}

static void one_by_one(void **state) {
    (void)state;
    lam_rules *r;
    lam_rule rule;
    lam_error e = {0};
    const char *const first[LAM_N_METRICS] = {"out", "2*macs"}, *const second[LAM_N_METRICS] = {"7"};
    assert_int_equal(lam_rules_new(&r, NULL), LAM_OK);
    assert_int_equal(lam_rules_add(r, "mylib::mm", first, false, NULL), LAM_OK);
    assert_int_equal(lam_rules_add(r, "Layer", NULL, true, NULL), LAM_OK);
    assert_true(lam_rules_at(r, 0, &rule));
    assert_string_equal(rule.formula[LAM_FLOPS], "2*(out)");
    assert_int_equal(lam_rules_add(r, "mylib::mm", second, false, NULL), LAM_OK); /* replaces */
    assert_true(lam_rules_at(r, 0, &rule));
    assert_string_equal(rule.formula[LAM_MACS], "7");
    assert_null(rule.formula[LAM_FLOPS]);
    assert_false(lam_rules_at(r, 2, &rule));
    const char *const bad[LAM_N_METRICS] = {"out*nosuch"};
    assert_int_equal(lam_rules_add(r, "mylib::mm", bad, false, &e), LAM_SYNTAX);
    assert_string_equal(e.where, "mylib::mm");
    assert_int_equal(e.at, 4);
    static const char *const names[] = {NULL, "", "a b", "::", "a::", "-", "a:b", "a::b::c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(lam_rules_add(r, names[i], first, false, NULL), LAM_USAGE);
    assert_int_equal(lam_rules_read(r, NULL, NULL, NULL), LAM_USAGE);
    assert_int_equal(lam_rules_new(NULL, NULL), LAM_USAGE);
    lam_rules_free(r);
}

static void read_and_copy(void *with, bool *ok) {
    (void)with;
    lam_error *e = NULL;
    lam_rules *r = NULL;
    lmi_arena arena;
    lmi_own own = {0};
    lmi_arena_init(&arena, 1 << 20);
    lmi_map_init(&own.by_name);
    const char *const formula[LAM_N_METRICS] = {"out", "2*macs"};
    lam_status s = lam_rules_new(&r, e);
    if (s == LAM_OK) s = lam_rules_read(r, "a::b macs = 1 flops = 2*macs\nLayer flops = in", "x", e);
    if (s == LAM_OK) s = lam_rules_add(r, "c::d", formula, false, e);
    if (s == LAM_OK) s = lmi_own_copy(r, &arena, &own, e);
    lmi_own_free(&own);
    lmi_arena_free(&arena);
    lam_rules_free(r);
    assert_true(s == LAM_OK || s == LAM_NOMEM);
    *ok = s == LAM_OK;
}

static void memory_runs_out(void **state) {
    (void)state;
    oom_sweep(read_and_copy, NULL);
}

/* Whatever the bytes: an answer, and no byte past the end is looked at. */
static void any_text(void **state) {
    (void)state;
    static const char piece[] = "a::b Layer macs flops = == 2*out ( ) ? : # \n \t . min,max";
    uint32_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        char text[64];
        size_t n = 0;
        for (; n < sizeof text - 1 && (seed = seed * 1664525u + 1013904223u) >> 27; n++)
            text[n] = piece[(seed >> 8) % (sizeof piece - 1)];
        text[n] = '\0';
        char *exact = malloc(n + 1);
        lam_rules *r;
        assert_non_null(exact);
        memcpy(exact, text, n + 1);
        assert_int_equal(lam_rules_new(&r, NULL), LAM_OK);
        lam_status s = lam_rules_read(r, exact, "x", NULL);
        assert_true(s == LAM_OK || s == LAM_SYNTAX || s == LAM_LIMIT);
        lam_rules_free(r);
        free(exact);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file),
        cmocka_unit_test(malformed),
        cmocka_unit_test(a_long_path_keeps_its_end),
        cmocka_unit_test(one_by_one),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(any_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
