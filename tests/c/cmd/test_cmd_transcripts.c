/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines with all that they print, held against transcripts: what was asked of the live side, both
 * streams and the exit code. */
#include "kit/oom.h"

#include "kit/step_net.h"

#include "kit/fakehost.h"

#include "kit/page_text.h"

#include <sqlite3.h>

static void say(const char *text) { assert_int_equal(show_put(NULL, text, strlen(text)), LAM_OK); }

static void run_line(void *line, bool *ok) { *ok = lamina(line) == 0; }

/* Runs each line, which leaves no memory behind, and adds what came of it to what is shown. */
static void add(const char *const *lines, int32_t width, bool utf8) {
    for (; *lines; lines++) {
        char code[64];
        lam_host h;
        if (oom_in_use()) oom_leaves_nothing(run_line, (void *)(uintptr_t)*lines);
        h = fake_host();
        h.width = width;
        h.out_is_utf8 = utf8;
        fake_request[0] = '\0';
        int exit = fake_run(&h, *lines);
        say("\n$ lamina ");
        say(*lines);
        say("\n");
        say(fake_out.text);
        if (*fake_err.text) say("-- stderr\n");
        say(fake_err.text);
        snprintf(code, sizeof code, "-- exit %d, %d models", exit, fake_lives);
        say(code);
        if (*fake_request) say(": ");
        say(fake_request);
        say("\n");
    }
}

static void showing(void **state) {
    (void)state;
    static const char *const lines[] = {"m:two",
                                        "show m:two -i 1x4 --mode train --convention layers",
                                        "show m:step -i 2x3 --backward",
                                        "show m:step --why --bytes",
                                        "show m:step --depth 0 --exact",
                                        "show m:step --rf --expand --ascii",
                                        "show m:step --sort params --rows 2",
                                        "show m:step --by flops --no-bars",
                                        "show m:step --format csv",
                                        "show m:step --format md",
                                        "show m:two --convention torchscan --released",
                                        "show m:two --layout thoplw",
                                        "show m:partial",
                                        "show m:broken",
                                        "show m:none",
                                        "show m:two --time --memory --health",
                                        "why m:two a.fc",
                                        "why m:two .",
                                        "why m:step fc --backward --facts",
                                        "why m:step mine",
                                        "why m:two nowhere",
                                        "why m:two a.f",
                                        "why m:two a.fc --convention torchscan --released",
                                        "why m:two a.fc --format json",
                                        "why m:two a.fc --convention thoplw",
                                        "why m:two a.fc --convention torch",
                                        "compare m:step",
                                        "compare m:step --flops --exact",
                                        "compare m:step --format csv",
                                        "graph m:step",
                                        "graph m:step --ops",
                                        "check m:two --max macs=1",
                                        "check m:two --max macs=1M --max params=1k",
                                        "check m:two --max bytes=1 --allow-incomplete",
                                        "diff m:two m:step",
                                        "diff m:two m:two --exit-code",
                                        "diff m:two m:step --exit-code --github",
                                        "conventions",
                                        NULL};
    show_sink();
    add(lines, 0, true);
    add((const char *const[]){"m:step --width 60", "why m:step fc", "m:two", NULL}, 48, false);
    page_golden("cmd-show");
}

/* Where memory runs out, a line fails or prints all the same: what can be done without is asked for again. */
static void no_memory_for_json(void **state) {
    (void)state;
    static const char *const lines[] = {"table thoplw squeezenet1.0 --json", "conventions --json",
                                        "version --json"};
    static char whole[sizeof fake_out.text];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(lamina(lines[i]), 0);
        memcpy(whole, fake_out.text, fake_out.n + 1);
        for (int64_t k = 0, injected = 1; injected && k < 200; k++) {
            oom_arm(k, false);
            int code = lamina(lines[i]);
            injected = oom_injected;
            oom_disarm();
            assert_true(code == 0 || code == 4);
            if (code == 0) assert_string_equal(fake_out.text, whole);
        }
    }
}

/* An option's value is a word of its own, or is attached to it; letters may stand together. */
static void spellings(void **state) {
    (void)state;
    static const char *const lines[] = {"show m:two -i 1x4",
                                        "show m:two -i1x4",
                                        "show m:two -i=1x4",
                                        "show m:two --input=1x4",
                                        "show m:two --input 1x4 --input=2x3",
                                        "show -- m:two",
                                        "show m:two -i",
                                        "show m:two -i=",
                                        "show m:two --input=",
                                        "m:two -n2",
                                        "m:two -n 1 -cexact",
                                        "m:two -fi 1x4",
                                        "m:two -k a=b -k=c=d",
                                        "help why",
                                        "why --help",
                                        NULL};
    show_sink();
    add(lines, 0, true);
    page_golden("cmd-spellings");
}

/* On a terminal a report ends with what may be typed next, quoted for a shell. */
static void what_may_be_typed_next(void **state) {
    (void)state;
    static const char *const argv[][9] = {{"lamina", "m:two"},
                                          {"lamina", "m:two", "-i", "1x4", "-i", "a b"},
                                          {"lamina", "m:two", "-k", "name=$HOME", "-k", ""},
                                          {"lamina", "m:two", "-k", "name=it's"},
                                          {"lamina", "m:step", "--mode", "train", "-i", "2x3"},
                                          {"lamina", "m:two", "--mode", "eval", "-k", "x=(1)"},
                                          {"lamina", "m:two", "-o", "-"},
                                          {"lamina", "m:two", "--format", "md"}};
    show_sink();
    for (size_t i = 0; i < sizeof argv / sizeof *argv; i++) {
        int argc = 0;
        while (argv[i][argc]) argc++;
        lam_host h = fake_host();
        h.width = 100;
        h.out_is_terminal = true;
        assert_int_equal(lam_command(argc, argv[i], &h), 0);
        say("\n==");
        for (int k = 1; k < argc; k++) say(" "), say(argv[i][k]);
        say("\n");
        say(fake_out.text);
    }
    /* What does not fit in a line of a shell is left out. */
    static char word[5000];
    for (size_t n = 100; n < sizeof word; n += 12 * n / 10) {
        const char *line[] = {"lamina", "m:two", "-k", word, NULL};
        lam_host h = fake_host();
        h.width = 100;
        h.out_is_terminal = true;
        memset(word, 'x', n);
        word[n] = '\0';
        assert_int_equal(lam_command(4, line, &h), 0);
        say(strstr(fake_out.text, "lamina why") ? "\nit fits\n" : "\nit does not fit\n");
    }
    page_golden("cmd-next");
}

static void wrong_lines(void **state) {
    (void)state;
    static const char *const lines[] = {"",
                                        "shwo m:two",
                                        "show",
                                        "show m:two m:step",
                                        "show m:two 1x3x4",
                                        "show m:two --conventin exact",
                                        "show m:two --ops",
                                        "show m:two -z",
                                        "show m:two --width 19",
                                        "show m:two --width 20x",
                                        "show m:two --width -1",
                                        "show m:two --width",
                                        "show m:two --rows 0",
                                        "show m:two --depth=x",
                                        "show m:two --exact=1",
                                        "show m:two --mode sleep",
                                        "show m:two --color sometimes",
                                        "show m:two --format xlsx",
                                        "show m:two --format csv --json",
                                        "show m:two --convention nothing",
                                        "show m:two --layout nothing",
                                        "show m:two --by nothing",
                                        "show m:two --rules /nowhere/at/all",
                                        "why m:two",
                                        "why m:two fc more",
                                        "report --json m:two",
                                        "plot pie m:two",
                                        "plot icicle",
                                        "plot memory m:two",
                                        "plot icicle m:two --by nothing",
                                        "compare m:two --format svg",
                                        "graph m:two",
                                        "graph m:two --format pdf",
                                        "fit m:two --no-step --optimizer sgd",
                                        "fit m:two --batch 0",
                                        "check",
                                        "check m:two",
                                        "check m:two --max nothing=1",
                                        "check m:two --max macs",
                                        "check m:two --within 5",
                                        "check m:two --baseline /nowhere/at/all",
                                        "diff m:two",
                                        "rules nothing",
                                        "table nothing",
                                        "table torchscan nothing",
                                        "completion tcsh",
                                        "completion",
                                        "help nothing",
                                        "help shw",
                                        "live",
                                        "live /nowhere/at/all",
                                        "export /nowhere/at/all",
                                        "export /nowhere/at/all --tensorboard /nowhere/logs",
                                        "run",
                                        "version more",
                                        "conventions --widht 3",
                                        "-x",
                                        "--nothing",
                                        NULL};
    show_sink();
    add(lines, 0, true);
    page_golden("cmd-wrong");
}

static void with_json(void **state) {
    (void)state;
    static const char *const lines[] = {"why m:two a.fc --json",
                                        "compare m:step --json",
                                        "graph m:step --json",
                                        "check m:two --max macs=1 --json",
                                        "diff m:two m:step --json",
                                        "conventions --json",
                                        "version --json",
                                        "show m:broken --json",
                                        "table torchscan shufflenet_v2_x0_5 --json",
                                        "table thoplw squeezenet1.0 --json",
                                        NULL};
    show_sink();
    add(lines, 80, true);
    page_golden("cmd-json");
}

static void pictures_and_tables(void **state) {
    (void)state;
    static const char *const lines[] = {"plot icicle m:two",
                                        "plot icicle m:step --by params --width 400",
                                        "plot table thoplw squeezenet1.0",
                                        "table torchscan shufflenet_v2_x0_5",
                                        "table torchscan mobilenet_v2",
                                        "table torchscan alexnet mobilenet_v2",
                                        "table thoplw squeezenet1.0 alexnet",
                                        "version",
                                        NULL};
    show_sink();
    add(lines, 0, true);
    page_golden("cmd-tables");
}

/* When a run ended, and which process it was, is not the test's to say. */
static const char ENDED[] = "UPDATE runs SET seen_unix_ns = started_unix_ns + 60000000000, pid = 77,"
                            " ended_unix_ns = started_unix_ns + 60000000000;"
                            "UPDATE steps SET peak_bytes = 5000000, looked = 1 WHERE training";

static void recordings(void **state) {
    (void)state;
    static const char *const lines[] = {"show %s",
                                        "show %s --rows 1 --ascii",
                                        "show %s --depth 0 --width 60",
                                        "show %s --wide --run 1",
                                        "show %s --run 2",
                                        "show %s --format csv",
                                        "show %s --format md",
                                        "show %s --json",
                                        "show %s --time",
                                        "show %s --exact",
                                        "show %s %s",
                                        "live %s --once",
                                        "live %s --once --rows 2 --width 50",
                                        "live %s --json",
                                        "report %s --backward",
                                        "diff %s %s",
                                        "diff %s m:two",
                                        "export %s",
                                        "check %s --max macs=1",
                                        "why %s fc"};
    char file[2][200], line[600];
    for (int i = 0; i < 2; i++) {
        sqlite3 *db;
        snprintf(file[i], sizeof file[i], "%s",
                 step_recording(i ? "slow.lamina" : "run.lamina", 0, 1, 1 + i));
        assert_int_equal(sqlite3_open(file[i], &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, ENDED, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
    }
    show_sink();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(line, sizeof line, lines[i], file[0], file[1]);
        add((const char *const[]){line, NULL}, 90, true);
    }
    page_golden("cmd-recordings");
}

int main(void) {
    unsetenv("GITHUB_STEP_SUMMARY"); /* in a job there is one */
    setenv("PAGER", "", 1);          /* and on a terminal a pager */
    unsetenv("LAMINA_PAGER");
    setenv("NO_COLOR", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(showing),
        cmocka_unit_test(wrong_lines),
        cmocka_unit_test(with_json),
        cmocka_unit_test(pictures_and_tables),
        cmocka_unit_test(recordings),

        cmocka_unit_test(spellings),
        cmocka_unit_test(what_may_be_typed_next),
        cmocka_unit_test(no_memory_for_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
