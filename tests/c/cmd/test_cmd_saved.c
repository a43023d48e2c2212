/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina report` of reports that were saved as JSON. */
#include "kit/oom.h"

#include "kit/fakehost.h"

/* A report as JSON in a file. */
static void save(const char *target, const char *file) {
    char line[128];
    snprintf(line, sizeof line, "show %s --format json -f -o %s", target, file);
    assert_int_equal(lamina(line), 0);
}

static void saved_reports(void **state) {
    (void)state;
    save("m:two", "before.json");
    save("m:step", "after.json");
    assert_int_equal(lamina("report before.json after.json"), 0);
    ERR_IS_EMPTY();
    assert_int_equal(fake_lives, 0);
    OUT_HAS("<dt>target</dt><dd><bdi>before.json</bdi></dd>");
    assert_int_equal(lamina("report before.json"), 0);
    assert_true(!strstr(fake_out.text, "What it is compared with"));
    assert_int_equal(lamina("report before.json m:step --dry"), 0);
    assert_true(fake_lives == 1 && fake_asked.dry);
    assert_string_equal(fake_asked.target, "m:step");
    assert_int_equal(lamina("report m:step before.json"), 0);
    assert_int_equal(fake_lives, 1);
    assert_int_equal(lamina("report before.json before.json"), 0);
    OUT_HAS("<b>The same modules,</b> with equal shapes and counts.");
    assert_int_equal(lamina("report before.json after.json --time"), 2);
    ERR_HAS("--time is for a model that is run, and here is none\n");
    assert_int_equal(lamina("report before.json -i 1x2"), 2);
    assert_int_equal(lamina("report before.json -c torch"), 2);
    OUT_IS_EMPTY();
}

static void no_saved_report(void **state) {
    (void)state;
    assert_int_equal(lamina("report no/such.json"), 3);
    ERR_HAS("no/such.json: it can't be read: No such file");
    save("m:two", "before.json");
    FILE *f = fopen("bad.json", "wb");
    fputs("{\"schema\": \"other\"}", f);
    fclose(f);
    assert_int_equal(lamina("report before.json bad.json"), 3);
    ERR_HAS("bad.json: it is no report that lamina saved as JSON: its \"schema\" is not \"lamina.report/1\"");
    assert_int_equal(lamina("report bad.json before.json"), 3);
    OUT_IS_EMPTY();
    assert_int_equal(lamina("report m:made.json"), 3); /* a name in a module */
    assert_int_equal(fake_lives, 1);
    assert_int_equal(lamina("report before.json run.lamina"), 2);
    ERR_HAS("run.lamina is a recording, and has no difference to a model");
    ERR_HAS("hint: ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_reports),
        cmocka_unit_test(no_saved_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
