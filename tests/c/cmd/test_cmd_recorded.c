/* SPDX-License-Identifier: Apache-2.0
 *
 * The command on recordings: `show`, `live`, `export` and `run`, and on files that are none. */
#include "kit/oom.h"
#include "kit/step_net.h"

#include "kit/fakehost.h"

#include <sqlite3.h>

static char line[512];

static int on(const char *words, const char *file) {
    snprintf(line, sizeof line, words, file);
    return lamina(line);
}

/* -- show -------------------------------------------------------------------------------------- */

static void a_recording_is_shown(void **state) {
    (void)state;
    const char *file = step_recording("run.lamina", 0, 1, 1);
    assert_int_equal(on("show %s", file), 0);
    OUT_HAS("run 1: python train.py; began 2023-11-14");
    OUT_HAS("Net, steps of kind 1 of 2: 30 params; 5 steps seen up to step 500, the first left out\n");
    OUT_HAS("Net, steps of kind 2 of 2: 30 params; 1 step seen up to step 0\na step in eval mode: forward");
    ERR_IS_EMPTY();
    assert_int_equal(fake_lives, 0);
    assert_int_equal(on("show %s -n 1", file), 0);
    OUT_HAS("and 2 more");
    assert_int_equal(on("show %s --format csv", file), 0);
    OUT_HAS("rank,model,training,gradients,went_back,least_calls,most_calls,path,type");
    assert_int_equal(on("show %s --format json", file), 0);
    OUT_HAS("{\"schema\": \"lamina.recording/2\", \"schema_version\": 2, \"version\": \"");
    assert_int_equal(on("show %s --run 1", file), 0);
    assert_int_equal(on("show %s --run 7", file), 2);
    ERR_HAS("7");
    lam_recorder *again = step_recorder(file, 0, 1);
    step_put(again, 0, 1, true);
    assert_int_equal(lam_recorder_close(again, NULL), LAM_OK);
    assert_int_equal(on("show %s", file), 0);
    OUT_HAS("run 2: python train.py");
    assert_int_equal(on("show %s --run 1", file), 0);
    OUT_HAS("run 1: python train.py");
}

/* A table is as wide as the screen, in a file as wide as it has to be. */
static void a_file_has_every_column(void **state) {
    (void)state;
    char file[200], to[200];
    static char text[1 << 14];
    snprintf(file, sizeof file, "%s", step_recording("wide.lamina", 0, 1, 1));
    snprintf(to, sizeof to, "%s", step_file("wide.txt"));
    lam_host host = fake_host();
    host.width = 40;
    snprintf(line, sizeof line, "show %s", file);
    assert_int_equal(fake_run(&host, line), 0);
    OUT_HAS("forward");
    const char *narrow = strstr(fake_out.text, "\nlayer");
    assert_non_null(narrow);
    size_t columns = strcspn(narrow + 1, "\n");
    assert_true(columns <= 40);
    snprintf(line, sizeof line, "show %s -o %s", file, to);
    assert_int_equal(fake_run(&host, line), 0);
    FILE *f = fopen(to, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    const char *wide = strstr(text, "\nlayer");
    assert_non_null(wide);
    assert_true(strcspn(wide + 1, "\n") > columns);
}

/* In the colours of the table of a model, with a bar behind the share alone. */
static void a_recording_in_colour(void **state) {
    (void)state;
    const char *file = step_recording("colour.lamina", 0, 1, 1);
    assert_int_equal(on("show %s --color always", file), 0);
    OUT_HAS("\x1b[1mlayer\x1b[0m");
    OUT_HAS("\x1b[37;44m");
    assert_int_equal(on("show %s --color always --no-bars", file), 0);
    OUT_HAS("\x1b[1mlayer\x1b[0m");
    assert_null(strstr(fake_out.text, "\x1b[37;44m"));
    assert_int_equal(on("show %s", file), 0);
    assert_null(strchr(fake_out.text, '\x1b'));
}

static void several_are_shown_together(void **state) {
    (void)state;
    char words[512];
    const char *one = step_recording("a.lamina", 0, 2, 1), *two = step_recording("b.lamina", 1, 2, 3);
    snprintf(words, sizeof words, "show %s %s", one, two);
    assert_int_equal(lamina(words), 0);
    OUT_HAS("2 processes of 2");
    OUT_HAS("rank 1");
    snprintf(words, sizeof words, "show %s %s", one, "absent.lamina");
    assert_int_equal(lamina(words), 3);
    OUT_IS_EMPTY();
}

static void as_many_as_the_command_line_has(void **state) {
    (void)state;
    enum { MANY = 300, LONGEST = 160 };
    static char text[MANY][LONGEST];
    const char *argv[MANY + 3] = {"lamina", "show"};
    lam_host host = fake_host();
    const char *file = step_recording("one.lamina", 0, 1, 1);
    for (int i = 0; i < MANY; i++) {
        snprintf(text[i], LONGEST, "%s.%03d", file, i);
        assert_int_equal(symlink(file, text[i]), 0);
        argv[i + 2] = text[i];
    }
    assert_int_equal(lam_command(MANY + 2, argv, &host), 0);
    OUT_HAS("300 recordings");
    OUT_HAS("one.lamina.299 ");
    argv[1] = "live";
    argv[MANY + 2] = "--once";
    host = fake_host();
    assert_int_equal(lam_command(MANY + 3, argv, &host), 0);
    OUT_HAS("300 recordings");
}

/* -- live -------------------------------------------------------------------------------------- */

static lam_recorder *writing; /* while it is followed */
static int waits, most_waits;

static lam_status fake_wait(void *self, int32_t ms) {
    (void)self;
    assert_int_equal(ms, 1000);
    if (++waits >= most_waits) {
        if (writing) assert_int_equal(lam_recorder_close(writing, NULL), LAM_OK);
        if (!writing) return LAM_FAILED; /* an interrupt */
        writing = NULL;
    }
    return LAM_OK;
}

static void options_of_models(void **state) {
    (void)state;
    const char *file = step_recording("options.lamina", 0, 1, 1);
    static const char *const options[] = {"-i 1x3",    "--mode eval", "-k a=1",   "-c exact", "--rules x",
                                          "--strict",  "--time",      "--memory", "--roof",   "--dry",
                                          "--bytes",   "--rf",        "--exact",  "--health", "--expand",
                                          "--by macs", "--sort time", "--why"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        snprintf(line, sizeof line, "show %s %s", file, options[i]);
        assert_int_equal(lamina(line), 2);
        ERR_HAS(" is a recording, and --");
    }
    assert_int_equal(lamina("show m:two --run 1"), 2);
    ERR_HAS("--run is for recordings, and m:two is a model");
}

static lam_host live_host(bool terminal, int most) {
    lam_host h = fake_host();
    h.wait = fake_wait;
    h.out_is_terminal = terminal;
    h.width = 80;
    waits = 0;
    most_waits = most;
    return h;
}

static int times(const char *part) {
    int n = 0;
    for (const char *s = strstr(fake_out.text, part); s; s = strstr(s + 1, part)) n++;
    return n;
}

static void wait_until_written(const char *file) {
    for (int i = 0; i < 60000; i++) {
        lam_recording *r;
        bool there = lam_recording_open(&r, file, 0, 0, NULL) == LAM_OK && lam_recording_model(r, 0);
        lam_recording_free(r);
        if (there) return;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    fail_msg("%s was never written", file);
}

static void a_run_is_followed_to_its_end(void **state) {
    (void)state;
    const char *file = step_file("live.lamina");
    writing = step_recorder(file, 0, 1);
    step_put(writing, 0, 1, true);
    wait_until_written(file);
    lam_host h = live_host(false, 3);
    snprintf(line, sizeof line, "live %s", file);
    assert_int_equal(fake_run(&h, line), 0);
    assert_int_equal(waits, 3);
    assert_null(writing);
    assert_int_equal(times("run 1:"), 2); /* what changes is told: the first step, and the end */
    OUT_HAS("ended after");
    assert_null(strchr(fake_out.text, '\033'));
}

static void a_terminal_is_written_over(void **state) {
    (void)state;
    const char *file = step_file("terminal.lamina");
    writing = step_recorder(file, 0, 1);
    step_put(writing, 0, 1, true);
    wait_until_written(file);
    lam_host h = live_host(true, 3);
    snprintf(line, sizeof line, "live %s", file);
    assert_int_equal(fake_run(&h, line), 0);
    assert_int_equal(times("\033[H"), 4);
}

static void following_ends_at_an_interrupt(void **state) {
    (void)state;
    const char *file = step_file("interrupt.lamina");
    lam_recorder *r = step_recorder(file, 0, 1);
    step_put(r, 0, 1, true);
    wait_until_written(file);
    lam_host h = live_host(true, 2);
    snprintf(line, sizeof line, "live %s", file);
    assert_int_equal(fake_run(&h, line), 0);
    assert_int_equal(waits, 2);
    snprintf(line, sizeof line, "live %s --once", file);
    h = live_host(true, 2);
    assert_int_equal(fake_run(&h, line), 0);
    assert_int_equal(waits, 0);
    assert_null(strchr(fake_out.text, '\033'));
    assert_int_equal(lam_recorder_close(r, NULL), LAM_OK);
}

/* -- export and run ---------------------------------------------------------------------------- */

static void scalars_are_exported(void **state) {
    (void)state;
    char words[512];
    const char *file = step_recording("out.lamina", 0, 1, 1);
    snprintf(words, sizeof words, "export %s --tensorboard %s", file, step_file("logs"));
    assert_int_equal(lamina(words), 0);
    OUT_HAS("events.out.tfevents.1700000000.lamina.0.0\n");
    assert_int_equal(on("export %s", file), 2);
    ERR_HAS("--tensorboard DIR");
    snprintf(words, sizeof words, "export %s --tensorboard %s", file, file);
    assert_int_equal(lamina(words), 3);
    snprintf(words, sizeof words, "export %s %s --tensorboard %s", file, file, step_file("logs"));
    assert_int_equal(lamina(words), 2);
    ERR_HAS("a file for TensorBoard is of one recording");
}

static void newest_numbers_are_exported_to_prometheus(void **state) {
    (void)state;
    char words[700], first[200], second[200], to[200], beside[220];
    static const char head[] = "# HELP lamina_step_seconds ";
    char text[sizeof head] = "";
    snprintf(first, sizeof first, "%s", step_recording("run.0.lamina", 0, 2, 1));
    snprintf(second, sizeof second, "%s", step_recording("run.1.lamina", 1, 2, 1));
    snprintf(to, sizeof to, "%s", step_file("lamina.prom"));
    snprintf(beside, sizeof beside, "%s.new", to);
    for (int i = 0; i < 2; i++) { /* the second time it is replaced */
        snprintf(words, sizeof words, "export %s %s --prometheus %s", first, second, to);
        assert_int_equal(lamina(words), 0);
        OUT_HAS("lamina.prom\n");
        FILE *f = fopen(to, "rb");
        assert_non_null(f);
        assert_int_equal(fread(text, 1, sizeof head - 1, f), sizeof head - 1);
        fclose(f);
        assert_string_equal(text, head);
        assert_int_equal(access(beside, F_OK), -1);
    }
    snprintf(words, sizeof words, "export %s --prometheus %s --json", first, to);
    assert_int_equal(lamina(words), 0);
    OUT_HAS("{\"schema\": \"lamina.export/1\"");
    snprintf(words, sizeof words, "export %s --prometheus %s", first, second);
    assert_int_equal(lamina(words), 2);
    ERR_HAS("run.1.lamina: the name must end in .prom");
    snprintf(words, sizeof words, "export %s %s --prometheus %s", first, first, to);
    assert_int_equal(lamina(words), 2);
    ERR_HAS("name one recording of each rank");
    snprintf(words, sizeof words, "export %s --prometheus %s --tensorboard %s", first, to, step_file("both"));
    assert_int_equal(lamina(words), 2);
    ERR_HAS("give one of --tensorboard DIR and --prometheus FILE.prom");
    snprintf(words, sizeof words, "export %s --prometheus no-folder/x.prom", first);
    assert_int_equal(lamina(words), 2);
}

static lam_script asked;
static char third[32]; /* argument; what `asked` points to is gone when the command has ended */

static lam_status fake_script(void *self, const lam_script *what, lam_error *e) {
    (void)self;
    asked = *what;
    snprintf(third, sizeof third, "%s", what->n_argv > 2 ? what->argv[2] : "");
    if (what->n_argv) return LAM_OK;
    return fake_fail(e, NULL, "there is nothing to run");
}

static void programs_are_run(void **state) {
    (void)state;
    lam_host h = fake_host();
    h.script = fake_script;
    assert_int_equal(fake_run(&h, "run --every 7 --file x.lamina --memory train.py --every 3 -n"), 0);
    assert_int_equal(asked.every, 7);
    assert_string_equal(asked.file, "x.lamina");
    assert_true(asked.memory && !asked.health);
    assert_int_equal(asked.n_argv, 4);
    assert_string_equal(third, "3");
    assert_int_equal(fake_run(&h, "run train.py"), 0);
    assert_int_equal(asked.every, LAM_THINNING);
    assert_string_equal(asked.file, "run.lamina");
    assert_int_equal(fake_run(&h, "run --every 0 train.py"), 2);
    ERR_HAS("from 1");
    assert_true(lamina("run train.py") != 0);
    ERR_HAS("can't run a Python program");
}

/* -- files that are none ----------------------------------------------------------------------- */

static void refused(const char *file) {
    static const char *const verbs[] = {"show %s", "live %s", "export %s --tensorboard logs"};
    for (int i = 0; i < 3; i++) {
        if (on(verbs[i], file) != 3) fail_msg("%s: another exit code", line);
        OUT_IS_EMPTY();
        ERR_HAS("lamina: error: ");
        const char *end = strchr(fake_err.text, '\n');
        if (!end || end[1]) fail_msg("%s: not one sentence: %s", line, fake_err.text);
    }
}

static void other_files_are_refused(void **state) {
    (void)state;
    const char *file = step_file("other.lamina");
    sqlite3 *db;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE runs (id)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refused(file);
    file = step_recording("cut.lamina", 0, 1, 1);
    assert_int_equal(truncate(file, 5000), 0);
    refused(file);
    file = step_recording("newer.lamina", 0, 1, 1);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refused(file);
    refused(step_file("absent.lamina"));
}

/* -- memory ------------------------------------------------------------------------------------ */

static void try_line(void *arg, bool *ok) {
    int code = lamina(arg);
    *ok = code == 0;
    if (code && code != 1 && code != 3 && code != 4) fail_msg("%s: exit code %d", (char *)arg, code);
    if (code) ERR_HAS("memory");
}

static void without_memory(void **state) {
    (void)state;
    static char show[512], live[512];
    const char *one = step_recording("swept.0.lamina", 0, 2, 1),
               *two = step_recording("swept.1.lamina", 1, 2, 3);
    snprintf(show, sizeof show, "show %s %s", one, two);
    snprintf(live, sizeof live, "live %s --once", one);
    oom_sweep(try_line, show);
    oom_sweep(try_line, live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_is_shown),
        cmocka_unit_test(a_file_has_every_column),
        cmocka_unit_test(a_recording_in_colour),
        cmocka_unit_test(several_are_shown_together),
        cmocka_unit_test(as_many_as_the_command_line_has),
        cmocka_unit_test(options_of_models),
        cmocka_unit_test(a_run_is_followed_to_its_end),
        cmocka_unit_test(a_terminal_is_written_over),
        cmocka_unit_test(following_ends_at_an_interrupt),
        cmocka_unit_test(scalars_are_exported),
        cmocka_unit_test(newest_numbers_are_exported_to_prometheus),
        cmocka_unit_test(programs_are_run),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
