/* SPDX-License-Identifier: Apache-2.0
 *
 * `lamina report` of reports that were saved as JSON. */
#include "kit/oom.h"

#include "kit/fakehost.h"

#include <sys/stat.h>
#include <unistd.h>

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

/* A pipe, a link to nothing, and a folder with two models are no names of live models. */
static void what_is_no_file_is_no_live_model(void **state) {
    (void)state;
    static const char *const names[] = {"cmd_saved.pipe", "cmd_saved.link", "cmd_saved/1.json",
                                        "cmd_saved/2.json", "cmd_saved"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(names[i]);
    assert_int_equal(mkfifo(names[0], 0600), 0);
    assert_int_equal(symlink("cmd_saved/none", names[1]), 0);
    assert_int_equal(mkdir("cmd_saved", 0777), 0);
    for (int i = 2; i < 4; i++) {
        FILE *f = fopen(names[i], "wb");
        assert_non_null(f);
        fputs("{\"weight_map\": {}}", f);
        fclose(f);
    }
    assert_int_equal(lamina("show cmd_saved.pipe"), 3);
    ERR_HAS("cmd_saved.pipe: it is not a file");
    assert_int_equal(lamina("show cmd_saved.link"), 3);
    ERR_HAS("cmd_saved.link: it can't be read: No such file");
    assert_int_equal(lamina("show cmd_saved"), 3);
    ERR_HAS("cmd_saved: the folder has 2 model files, and no index of them; name one, as cmd_saved/1.json");
    static const char *const folders[] = {"cmd_saved", "why cmd_saved x", "diff cmd_saved m:step",
                                          "diff cmd_saved cmd_saved --weights"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        assert_int_equal(lamina(folders[i]), 3);
        ERR_HAS("cmd_saved: the folder has 2 model files, and no index of them");
    }
    assert_int_equal(lamina("scan cmd_saved"), 3);
    ERR_HAS("cmd_saved: it is a folder; give the files in it");
    assert_int_equal(lamina("sql cmd_saved/1.json x"), 3);
    ERR_HAS("cmd_saved/1.json: it is a file, and a run is a folder");
    assert_int_equal(lamina("show cmd_saved/1.json/more"), 3);
    ERR_HAS("cmd_saved/1.json/more: it can't be read: Not a directory");
    assert_int_equal(lamina("compare " LAMINA_TEST_DATA "/files/state.pt"), 2);
    ERR_HAS("it has no operators, and `lamina compare` counts these");
    assert_int_equal(lamina("merge " LAMINA_TEST_DATA "/files/state.pt -o run"), 2);
    ERR_HAS("state.pt: it is no recording, and these are merged");
    assert_int_equal(fake_lives, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(names[i]);
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
    ERR_HAS("run.lamina is a recording, and no page has its difference to a model");
    ERR_HAS("hint: ");
}

static void differences(void **state) {
    (void)state;
    save("m:two", "before.json");
    save("m:step", "after.json");
    assert_int_equal(lamina("diff before.json after.json"), 0);
    ERR_IS_EMPTY();
    assert_int_equal(fake_lives, 0);
    OUT_HAS("before.json -> after.json\n");
    OUT_HAS("added");
    assert_int_equal(lamina("diff before.json after.json --exit-code"), 1);
    assert_int_equal(lamina("diff before.json before.json --exit-code"), 0);
    OUT_HAS("Nothing differs: ");
    assert_int_equal(lamina("diff before.json m:two"), 0);
    assert_int_equal(fake_lives, 1);
    OUT_HAS("Nothing differs: ");
    assert_int_equal(lamina("diff m:two m:step --by time -i 1x2"), 2); /* this host measured none */
    assert_int_equal(fake_lives, 2);
    assert_true(fake_asked.time);
    static const char *const memory[] = {"memory", "retained", "peak"};
    for (int i = 0; i < 3; i++) {
        char line[80];
        snprintf(line, sizeof line, "diff m:two m:step --by %s -i 1x2", memory[i]);
        lamina(line);
        assert_true(fake_asked.memory && !fake_asked.time && !fake_asked.backward);
    }
    assert_int_equal(lamina("diff m:two m:step --by params"), 0); /* what nobody asked for is not measured */
    assert_false(fake_asked.memory || fake_asked.time || fake_asked.backward);
    assert_int_equal(lamina("diff before.json m:partial"), 3);
    OUT_HAS("Only a part of m:partial ran: mat1 and mat2 shapes cannot be multiplied\n");
    ERR_HAS("mat1 and mat2");
    assert_int_equal(lamina("diff before.json m:broken"), 3);
    OUT_IS_EMPTY();
}

static void differences_that_cannot_be(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"--format html", "there is no format 'html' for a difference; there are: text, md, json"},
        {"--by mac", "--by: there is no metric 'mac'\n  hint: did you mean macs?"},
        {"--time", "--time is for a model that is run, and here is none"},
        {"--run 2", "--run is for recordings, and after.json is none"},
        {"--github", "--github: GITHUB_STEP_SUMMARY is not set"},
        {"--by time", "'time' is not known of the modules of both; there are: params"},
        {"more.json", "more.json: one operand too many"},
    };
    unsetenv("GITHUB_STEP_SUMMARY");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[128];
        snprintf(line, sizeof line, "diff before.json after.json %s", wrong[i][0]);
        assert_int_equal(lamina(line), 2);
        ERR_HAS(wrong[i][1]);
        OUT_IS_EMPTY();
    }
    assert_int_equal(lamina("diff before.json no/such.json"), 3);
    ERR_HAS("no/such.json: it can't be read: No such file");
    assert_int_equal(lamina("diff before.json"), 2);
}

static size_t size_of(const char *file) {
    struct stat st;
    return stat(file, &st) == 0 ? (size_t)st.st_size : 0;
}

/* A summary grows step by step, and never beyond what GitHub shows. */
static void job_summaries(void **state) {
    (void)state;
    unlink("summary.md");
    setenv("GITHUB_STEP_SUMMARY", "summary.md", 1);
    assert_int_equal(lamina("diff before.json after.json --github"), 0);
    OUT_HAS("before.json -> after.json\n"); /* the text is there besides */
    size_t one = size_of("summary.md");
    assert_true(one > 100);
    assert_int_equal(lamina("diff before.json after.json --github"), 0);
    assert_int_equal(size_of("summary.md"), 2 * one + 1);
    FILE *f = fopen("summary.md", "ab");
    for (int i = 0; i < (1 << 20) - 4000; i++) fputc('\n', f);
    fclose(f);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lamina("diff before.json after.json --github"), 0);
        assert_true(size_of("summary.md") < 1 << 20);
    }
    /* For every room that is left, whole lines of the summary and a sentence; what was there stays. */
    static const char cut[] = "\n\nThe rest is left out: a job summary has 1 MiB at most.\n";
    static char text[2 << 20], whole[1 << 16];
    enum { MOST = (1 << 20) - 1 };
    unlink("summary.md");
    assert_int_equal(lamina("diff before.json after.json --github"), 0);
    f = fopen("summary.md", "rb");
    whole[fread(whole, 1, sizeof whole - 1, f)] = '\0';
    fclose(f);
    for (size_t room = 0; room < one + 3; room += room < 70 || room > one - 3 ? 1 : 37) {
        f = fopen("summary.md", "wb");
        for (size_t i = 0; i < MOST - room; i++) fputc('x', f);
        fclose(f);
        assert_int_equal(lamina("diff before.json after.json --github"), 0);
        f = fopen("summary.md", "rb");
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        const char *added = text + (MOST - room);
        size_t n = strlen(added), tail = sizeof cut - 1;
        assert_int_equal(strspn(text, "x"), MOST - room);
        assert_true(n <= room);
        if (n == 0) continue;
        assert_int_equal(*added, '\n');
        if (strcmp(added + 1, whole) == 0) continue;
        if (n == 1) continue; /* there was no room for a line */
        assert_true(n > 1 + tail && strcmp(added + n - tail, cut) == 0);
        size_t kept = n - 1 - tail;
        assert_true(strncmp(added + 1, whole, kept) == 0 && whole[kept - 1] == '\n');
        /* Not one line more would have fitted. */
        size_t next = kept + strcspn(whole + kept, "\n") + 1;
        assert_true(next + sizeof cut > room - 1);
    }
    setenv("GITHUB_STEP_SUMMARY", "no/such/folder/summary.md", 1);
    assert_int_equal(lamina("diff before.json after.json --github"), 3);
    ERR_HAS("no/such/folder/summary.md: the job summary can't be written: No such file");
    unsetenv("GITHUB_STEP_SUMMARY");
}

/* The output up to the line of the header that has the word `saved`, and what follows. */
static void same_but_for_the_header(const char *options) {
    char line[160], *live;
    snprintf(line, sizeof line, "show m:step %s", options);
    assert_int_equal(lamina(line), 0);
    live = strdup(fake_out.text);
    assert_non_null(live);
    snprintf(line, sizeof line, "show after.json %s", options);
    assert_int_equal(lamina(line), 0);
    assert_int_equal(fake_lives, 0);
    const char *was = live, *now = fake_out.text;
    if (!strstr(options, "csv")) {
        OUT_HAS("saved");
        was = strstr(live, "\n\n");
        now = strstr(fake_out.text, "\n\n");
        assert_non_null(was);
    }
    assert_string_equal(now, was);
    free(live);
}

static void the_table_of_a_saved_report(void **state) {
    (void)state;
    save("m:step", "after.json");
    same_but_for_the_header("");
    same_but_for_the_header("--format csv");
    same_but_for_the_header("--format md");
    same_but_for_the_header("--exact --expand --bytes");
    same_but_for_the_header("--sort flops --rows 3");
    same_but_for_the_header("-d 1 --by params");
    same_but_for_the_header("-c exact");
}

static void what_needs_the_run(void **state) {
    (void)state;
    static const char *const options[] = {"--time",      "--memory", "--backward", "--health",    "--roof",
                                          "--repeats 3", "--dry",    "-i 1x2",     "--mode train"};
    save("m:step", "after.json");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char line[96];
        snprintf(line, sizeof line, "show after.json %s", options[i]);
        assert_int_equal(lamina(line), 2);
        ERR_HAS(" is for a model that is run, and after.json is a saved report\n");
        OUT_IS_EMPTY();
    }
    assert_int_equal(lamina("show after.json -c torch"), 2);
    ERR_HAS("after.json: it was counted by exact; to count by torch needs the run");
    assert_int_equal(lamina("show after.json --format trace"), 2);
    ERR_HAS("after.json: a timeline needs the run");
    assert_int_equal(lamina("show after.json --json"), 2);
    ERR_HAS("after.json: it is JSON already; copy the file");
    assert_int_equal(lamina("why after.json fc"), 2);
    ERR_HAS("`lamina why` needs the run");
    assert_int_equal(lamina("compare after.json"), 2);
    assert_int_equal(lamina("plot icicle after.json --backward"), 2);
    assert_int_equal(lamina("plot memory after.json"), 2);
    assert_int_equal(lamina("check after.json --max macs=1 --time"), 2);
    assert_int_equal(fake_lives, 0);
}

static void pictures_and_budgets_of_a_saved_report(void **state) {
    (void)state;
    save("m:step", "after.json");
    static const char *const options[] = {"", "--by params"};
    for (int i = 0; i < 2; i++) {
        char line[96], *live;
        snprintf(line, sizeof line, "plot icicle m:step %s", options[i]);
        assert_int_equal(lamina(line), 0);
        live = strdup(fake_out.text);
        assert_non_null(live);
        snprintf(line, sizeof line, "plot icicle after.json %s", options[i]);
        assert_int_equal(lamina(line), 0);
        assert_string_equal(fake_out.text, live);
        free(live);
    }
    assert_int_equal(lamina("check after.json --max params=1T"), 0);
    assert_int_equal(lamina("check after.json --max params=1"), 1);
    assert_int_equal(lamina("check after.json --baseline after.json --allow-incomplete"), 0);
    assert_int_equal(lamina("check after.json --max peak=1GiB"), 2);
    assert_int_equal(fake_lives, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_reports),
        cmocka_unit_test(what_is_no_file_is_no_live_model),
        cmocka_unit_test(no_saved_report),
        cmocka_unit_test(differences),
        cmocka_unit_test(the_table_of_a_saved_report),
        cmocka_unit_test(what_needs_the_run),
        cmocka_unit_test(pictures_and_budgets_of_a_saved_report),
        cmocka_unit_test(differences_that_cannot_be),
        cmocka_unit_test(job_summaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
