/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina check`: what it asks of the host, what it prints and writes, and its exit codes, for one target and
 * for those of a project's file. */
#include "kit/oom.h"

#include "kit/net.h"

#include "kit/fakehost.h"
#include "kit/shown.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char SAVED[] = "test_cmd_check.json", XML[] = "test_cmd_check.xml", MD[] = "test_cmd_check.md";

static void put_file(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void file_has(const char *path, const char *part) {
    char *text = show_read(path);
    assert_non_null(text);
    if (!strstr(text, part)) fail_msg("no '%s' in %s:\n%s", part, path, text);
    free(text);
}

/* -- one target ------------------------------------------------------------------------------------------ */

static void the_exit_code_is_the_verdict(void **state) {
    (void)state;
    assert_int_equal(lamina("check m:two --max params=1M"), 0);
    OUT_HAS("m:two: within budget\n  params  ");
    assert_int_equal(lamina("check m:two --max params=1M --max macs=0"), 1);
    OUT_HAS("m:two: over budget\n  macs    ");
    assert_int_equal(lamina("check m:step --max macs=1G"), 1);
    OUT_HAS("m:step: not complete\n");
    OUT_HAS("my::op");
    assert_int_equal(lamina("check m:step --max macs=1G --allow-incomplete"), 0);
    assert_int_equal(lamina("check m:broken --max macs=1G"), 3);
    OUT_IS_EMPTY();
    ERR_HAS("m:broken: the module m has no name broken\n");
    assert_int_equal(lamina("check m:partial --max macs=1G"), 3);
}

static void what_is_limited_is_asked_for(void **state) {
    (void)state;
    lamina("check m:step --max peak=1GiB");
    assert_true(fake_asked.memory && !fake_asked.time && !fake_asked.backward);
    ERR_HAS("peak: memory was not measured");
    lamina("check m:step --max time=1s");
    assert_true(fake_asked.time && !fake_asked.memory);
    assert_int_equal(lamina("check m:step --max backward_macs=1 -i 1,2 -k a=b"), 1);
    assert_true(fake_asked.backward);
    assert_string_equal(fake_request, "m:step mode=train -i 1,2 ops backward a=b");
}

static void wrong_use_runs_nothing(void **state) {
    (void)state;
    static const char *const of[][2] = {{"check m:step", "there is nothing to hold it against"},
                                        {"check m:step --max mcas=1", "there is no metric 'mcas'"},
                                        {"check m:step --max macs=1 --within 5", "is a share of it"},
                                        {"check m:step --max macs=1 -c nobody", "no such convention"},
                                        {"check m:step --max backward_macs=1 -c layers",
                                         "counts the forward pass alone"},
                                        {"check m:step --max macs=1 --format csv",
                                         "there are: text, json, md"},
                                        {"check m:step --max macs=1 --renew", "--baseline names none"},
                                        {"check m:step --max macs=1 --rules /nowhere", "--rules /nowhere: "},
                                        {"check m:step m:two --max macs=1", "one operand too many"},
                                        {"check --max macs=1", "--max is for one target"},
                                        {"check --save x.json", "--save is for one target"},
                                        {"check -i 1,2", "--input is for one target"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(lamina(of[i][0]), 2);
        ERR_HAS(of[i][1]);
        OUT_IS_EMPTY();
        assert_int_equal(fake_lives, 0);
    }
}

/* -- files ----------------------------------------------------------------------------------------------- */

static void a_baseline_is_saved_over_a_baseline_alone(void **state) {
    (void)state;
    remove(SAVED);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lamina("check m:step --save test_cmd_check.json"), 0);
        assert_string_equal(fake_out.text, "m:step: saved as test_cmd_check.json\n");
        file_has(SAVED, "\"schema\": \"lamina.report/1\"");
    }
    put_file(SAVED, "a diary");
    assert_int_equal(lamina("check m:step --save test_cmd_check.json"), 2);
    ERR_HAS("test_cmd_check.json: it exists and is something else\n  hint: pass -f");
    assert_int_equal(fake_lives, 0);
    file_has(SAVED, "a diary");
    assert_int_equal(lamina("check m:step --save test_cmd_check.json -f"), 0);
    assert_int_equal(lamina("check m:step -f --save nowhere/test_cmd_check.json"), 2);
    ERR_HAS("nowhere/test_cmd_check.json: there is no folder nowhere\n  hint: ");
    assert_int_equal(lamina("check m:step -f --save ."), 2);
    ERR_HAS(".: it is a folder\n  hint: name a file in it\n");
    assert_int_equal(fake_lives, 0);
    assert_int_equal(lamina("check m:broken --save test_cmd_check.json"), 3);
    file_has(SAVED, "lamina.report"); /* as before */
    assert_int_equal(access("test_cmd_check.json.new", F_OK), -1);
    remove(SAVED);
}

static void junit_and_github(void **state) {
    (void)state;
    remove(XML);
    remove(MD);
    setenv("GITHUB_STEP_SUMMARY", MD, 1);
    assert_int_equal(lamina("check m:two --max params=0 --junit test_cmd_check.xml --github"), 1);
    ERR_HAS("::error title=lamina%3A params over budget::m:two: params ");
    file_has(XML, "<testsuite name=\"m:two\" tests=\"1\" failures=\"1\" errors=\"0\">");
    file_has(MD, "| m:two | params | **failed**: ");
    assert_int_equal(lamina("check m:broken --max params=0 --junit test_cmd_check.xml --github"), 3);
    ERR_HAS(
        "::error title=lamina%3A the check failed::m:broken: m:broken: the module m has no name broken\n");
    file_has(XML, "<error message=");
    file_has(MD, "| m:two | "); /* what was there is kept */
    unsetenv("GITHUB_STEP_SUMMARY");
    put_file(XML, "a diary");
    assert_int_equal(lamina("check m:two --max params=0 --junit test_cmd_check.xml"), 2);
    /* with -f too, a pipe stays one and is given the text */
    char text[8] = "";
    struct stat st;
    remove("test_cmd_check.pipe");
    assert_int_equal(mkfifo("test_cmd_check.pipe", 0600), 0);
    int fd = open("test_cmd_check.pipe", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(lamina("check m:two --max params=0 -f --junit test_cmd_check.pipe"), 1);
    assert_true(stat("test_cmd_check.pipe", &st) == 0 && S_ISFIFO(st.st_mode));
    assert_int_equal(read(fd, text, 5), 5);
    assert_string_equal(text, "<?xml");
    close(fd);
    remove("test_cmd_check.pipe");
    remove(XML);
    remove(MD);
}

/* -- a project's file ------------------------------------------------------------------------------------ */

static lam_status checks(void *self, lam_take_check take, void *to, lam_error *e) {
    static const char *const all[][4] = {{"--max=params=1M", "--", "m:two", NULL},
                                         {"--max=params=0", "m:two", NULL},
                                         {"--max=params=1M", "m:broken", NULL},
                                         {"--max=params=1M", "--nope", "m:two", NULL}};
    lam_status s = LAM_OK;
    if (self) return fake_fail(e, "lamina.toml", "it is wrong");
    for (int i = 0; i < 4 && s == LAM_OK; i++) {
        int argc = 0;
        while (all[i][argc]) argc++;
        s = take(to, "lamina.toml", argc, all[i]);
    }
    return s;
}

static int project(void *self, const char *line) {
    lam_host h = fake_host();
    h.self = self;
    h.checks = checks;
    return fake_run(&h, line);
}

static void every_check_of_a_file_runs(void **state) {
    (void)state;
    assert_int_equal(project(NULL, "check"), 3);
    assert_int_equal(strncmp(fake_out.text, "checks of lamina.toml\nm:two: within budget\n", 43), 0);
    OUT_HAS("m:two: over budget\n");
    OUT_HAS("m:broken: failed\n  m:broken: the module m has no name broken\n");
    OUT_HAS("lamina.toml: failed\n  its options are wrong; the error stream says how\n");
    OUT_HAS("1 of 4 targets within budget\n");
    ERR_HAS("--nope: `lamina check` has no such option\n");
    assert_int_equal(project(NULL, "check --format json"), 3);
    assert_int_equal(strncmp(fake_out.text, "{\"schema\": \"lamina.check/1\", ", 29), 0);
    OUT_HAS("\", \"within\": false, ");
    remove(XML);
    assert_int_equal(project(NULL, "check -o test_cmd_check.xml -f"), 3);
    OUT_IS_EMPTY();
    file_has(XML, "1 of 4 targets within budget\n");
    remove(XML);
    assert_int_equal(project(&fake_out, "check"), 3);
    ERR_HAS("lamina.toml: it is wrong\n");
    assert_int_equal(lamina("check"), 3);
    ERR_HAS("there is nothing here that can read lamina.toml");
}

/* -- memory that runs out -------------------------------------------------------------------------------- */

static void whole(void *line, bool *ok) {
    int code = project(NULL, line);
    *ok = !oom_injected; /* what was refused is told, or is no longer than the line that would tell it */
    if (oom_injected && code == 0) fail_msg("exit code 0 of: %s", (const char *)line);
}

static void memory_that_runs_out_is_no_success(void **state) {
    (void)state;
    static char one[] = "check m:two --max params=0 --junit test_cmd_check.xml",
                all[] = "check --format json";
    oom_sweep(whole, one);
    oom_sweep(whole, all);
    remove(XML);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exit_code_is_the_verdict),
        cmocka_unit_test(what_is_limited_is_asked_for),
        cmocka_unit_test(wrong_use_runs_nothing),
        cmocka_unit_test(a_baseline_is_saved_over_a_baseline_alone),
        cmocka_unit_test(junit_and_github),
        cmocka_unit_test(every_check_of_a_file_runs),
        cmocka_unit_test(memory_that_runs_out_is_no_success),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
