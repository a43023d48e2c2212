/* SPDX-License-Identifier: Apache-2.0
 *
 * --json: one document on the output, or a sentence on why there is none. What each document holds is in
 * tests/py/test_answers.py. */
#include "kit/oom.h"

#include "kit/net.h"

#include "kit/fakehost.h"

#define HEAD(kind)                                                                                           \
    "{\"schema\": \"lamina." kind "/1\", \"schema_version\": 1, \"version\": \"" LAM_VERSION "\""

/* The output begins so, and is one line. */
static void is_document(const char *begin) {
    size_t n = strlen(fake_out.text);
    if (strncmp(fake_out.text, begin, strlen(begin)) != 0) fail_msg("not %s: %.200s", begin, fake_out.text);
    assert_true(n > 2 && strcmp(fake_out.text + n - 2, "}\n") == 0);
}

static void small_answers(void **state) {
    (void)state;
    assert_int_equal(lamina("version --json"), 0);
    assert_string_equal(fake_out.text, HEAD("version") "}\n");
    assert_int_equal(lamina("--version --json"), 0);
    assert_string_equal(fake_out.text, HEAD("version") "}\n");
    assert_int_equal(lamina("conventions --json"), 0);
    is_document(HEAD("conventions") ", \"conventions\": [{\"name\": \"exact\", ");
    assert_int_equal(lamina("rules torchscan --json"), 0);
    is_document(HEAD("rules") ", \"convention\": \"torchscan\", \"source\": \"torchscan ");
    OUT_HAS("\"facts\": {");
    assert_int_equal(lamina("rules nothing --json"), 2);
    OUT_IS_EMPTY();
}

static void json_is_a_format(void **state) {
    (void)state;
    static char first[sizeof fake_out.text];
    static const char *const lines[] = {"show m:two", "compare m:step", "diff m:two m:step",
                                        "check m:two --max params=0"};
    char line[64];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(line, sizeof line, "%s --format json", lines[i]);
        int code = lamina(line);
        memcpy(first, fake_out.text, sizeof first);
        snprintf(line, sizeof line, "%s --json", lines[i]);
        assert_int_equal(lamina(line), code);
        assert_string_equal(fake_out.text, first);
        snprintf(line, sizeof line, "%s --json --format json", lines[i]);
        assert_int_equal(lamina(line), code);
        assert_string_equal(fake_out.text, first);
    }
    assert_int_equal(lamina("show m:two --json --format md"), 2);
    OUT_IS_EMPTY();
    ERR_HAS("--json and --format md are two formats\n  hint: leave one of them out\n");
    assert_int_equal(lamina("version --format json"), 2);
    assert_int_equal(lamina("show m:two --json=yes"), 2);
    ERR_HAS("--json takes no value");
}

static void where_there_is_none(void **state) {
    (void)state;
    static const char *const lines[] = {"plot icicle m:two --json", "report m:two --json",
                                        "run --json train.py", "completion bash --json"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(lamina(lines[i]), 2);
        OUT_IS_EMPTY();
        ERR_HAS("--json: `lamina ");
        ERR_HAS(" has none: ");
        assert_int_equal(fake_lives, 0);
    }
    assert_int_equal(lamina("run train.py --json"), 3); /* an argument of the program's */
    ERR_HAS("this host can't run a Python program");
    assert_int_equal(lamina("help --man --json"), 2);
    ERR_HAS("--man is a page for `man`");
    assert_int_equal(lamina("help plot"), 0);
    assert_null(strstr(fake_out.text, "--json"));
}

static void help(void **state) {
    (void)state;
    assert_int_equal(lamina("help --json"), 0);
    is_document(HEAD("help") ", \"subcommands\": [{\"name\": \"show\", ");
    OUT_HAS("{\"name\": \"output\", \"letter\": \"o\", \"value\": \"FILE\", ");
    OUT_HAS("\"no_json\": \"a picture is SVG; ");
    assert_int_equal(lamina("help version --json"), 0);
    is_document(HEAD("help") ", \"subcommands\": [{\"name\": \"version\", ");
    assert_null(strstr(fake_out.text, "\"show\""));
    assert_int_equal(lamina("version --help --json"), 0);
    is_document(HEAD("help") ", \"subcommands\": [{\"name\": \"version\", ");
    assert_int_equal(lamina("help verson --json"), 2);
    OUT_IS_EMPTY();
}

static lam_status well(void *self, lam_sink to, lam_error *e) {
    (void)self, (void)e;
    static const char text[] = "torch: 2: here\nof two lines\n";
    return to.put(to.to, text, sizeof text - 1);
}

static lam_status ill(void *self, lam_sink to, lam_error *e) {
    (void)self, (void)to;
    return fake_fail(e, "torch", "it can't be imported");
}

static void doctor(void **state) {
    (void)state;
    lam_host h = fake_host();
    assert_int_equal(fake_run(&h, "doctor --json"), 0);
    is_document(
        HEAD("doctor") ", \"abilities\": [{\"name\": \"models\", \"text\": \"none can be run from here\"}");
    h = fake_host();
    h.doctor = well;
    h.width = 30; /* nothing is wrapped */
    assert_int_equal(fake_run(&h, "doctor --json"), 0);
    is_document(HEAD("doctor") ", \"abilities\": [{\"name\": \"torch\", \"text\": \"2: here\"}, "
                               "{\"name\": null, \"text\": \"of two lines\"}, {\"name\": \"lamina\", ");
    OUT_HAS(", 30 columns\"}]}\n");
    h = fake_host();
    h.doctor = ill;
    assert_int_equal(fake_run(&h, "doctor --json"), 3);
    is_document(HEAD("doctor") ", ");
    ERR_HAS("torch: it can't be imported");
}

static void why(void **state) {
    (void)state;
    assert_int_equal(lamina("why m:two a.fc --json -c layers"), 0);
    is_document(
        HEAD("why") ", \"path\": \"a.fc\", \"convention\": \"layers\", \"released\": false, \"rows\": [{");
    OUT_HAS("\"operator\": null, \"times\": 1, ");
    assert_int_equal(lamina("why m:two a.fd --json"), 2);
    OUT_IS_EMPTY();
}

static void graph(void **state) {
    (void)state;
    assert_int_equal(lamina("graph m:step --json"), 0);
    is_document(HEAD("graph") ", \"data\": {\"nodes\": [{\"id\": 0, ");
    OUT_HAS("\"findings\": {\"unused\": [");
    assert_int_equal(lamina("graph m:step --json --ops"), 2);
    ERR_HAS("JSON has all operators");
    assert_int_equal(lamina("graph m:step --format png"), 2);
    ERR_HAS("there are: dot, svg, html, json");
}

static void table(void **state) {
    (void)state;
    assert_int_equal(lamina("table torchscan mobilenet_v2 --json"), 0);
    is_document(HEAD("table") ", \"table\": \"torchscan\", \"convention\": \"torchscan\", \"source\": \"");
    OUT_HAS("{\"column\": \"DMAs\", \"published\": \"0.32 G\", \"now\": \"0.33 G\", \"same\": false, "
            "\"reason\": \"as if its 35 calls ");
    OUT_HAS("\"as_published\": 0, \"cells_off\": 1, \"unexplained\": 0, \"failed\": 0}\n");
    assert_int_equal(lamina("table torchscan alexnet --json"), 1);
    OUT_HAS("\"same\": false, \"reason\": null}");
    assert_int_equal(lamina("table torchscan alexnet vgg11 --json"), 3);
    OUT_HAS("\"failed\": 1}\n");
    assert_int_equal(lamina("table torchscan vgg11 --json"), 3); /* nothing ran */
    OUT_IS_EMPTY();
    ERR_HAS("torchvision.models:vgg11");
}

static void a_sink_that_refuses(void **state) {
    (void)state;
    static const char *const lines[] = {"version --json", "doctor --json", "help --json",
                                        "graph m:step --json"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        lam_host h = fake_host();
        fake_out.fails_with = ENOSPC;
        assert_int_equal(fake_run(&h, lines[i]), 3);
        ERR_HAS("the standard output: it could not be written");
    }
}

static void memory_runs_out(void **state) {
    (void)state;
    static char *const lines[] = {"version --json", "conventions --json", "doctor --json",
                                  "help version --json", "why m:two a.fc --json -c layers"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) oom_sweep(run_again, lines[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_answers),
        cmocka_unit_test(json_is_a_format),
        cmocka_unit_test(where_there_is_none),
        cmocka_unit_test(help),
        cmocka_unit_test(doctor),
        cmocka_unit_test(why),
        cmocka_unit_test(graph),
        cmocka_unit_test(table),
        cmocka_unit_test(a_sink_that_refuses),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
