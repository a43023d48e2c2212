/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as tables, CSV, JSON and scalars: one run, and several processes side by side. */
#include "kit/oom.h"

#include "kit/json_text.h"
#include "kit/recorded.h"

#include "kit/show.h"

#include <sys/wait.h>
#include <unistd.h>

/* When a run ended is the clock's; in a test it ends a minute after its start. */
static const char ENDED[] = "UPDATE runs SET seen_unix_ns = started_unix_ns + 60000000000,"
                            " ended_unix_ns = started_unix_ns + 60000000000;";
/* What a run with memory and health would have: step 200 has a NaN that the first layer made. */
static const char MEASURED[] =
    "UPDATE layers SET allocated_bytes = 4096, retained_bytes = 1024 * place, peak_bytes = 3000000, nan = 0,"
    " inf = 0; UPDATE steps SET peak_bytes = 5000000, looked = 1;"
    "UPDATE steps SET first_bad = 1, bad = 'NaN' WHERE number = 200;"
    "UPDATE layers SET nan = 7 WHERE place > 0 AND step = (SELECT id FROM steps WHERE number = 200);"
    "UPDATE layers SET recompute_ns = 12345 WHERE place = 1; UPDATE runs SET dropped = 2;"
    "UPDATE steps SET failed = 1 WHERE number = 500;";

static const char ON_A_GPU[] =
    "UPDATE steps SET device_forward_ns = 5000000, device_backward_ns = 9000000, device_peak_bytes = 1048576;"
    "UPDATE layers SET device_forward_ns = 1000000 * place, device_self_ns = 1000000 * place,"
    " device_backward_ns = 3000000 * place, device_recompute_ns = 0, device_retained_bytes = 4096 * place,"
    " device_peak_bytes = 8192 * place;";

static const char *step_path(const char *name) {
    static char path[200];
    char *last;
    snprintf(path, sizeof path, "%s", step_file("x")); /* a name that nothing has */
    last = strrchr(path, '/');
    snprintf(last + 1, sizeof path - (size_t)(last + 1 - path), "%s", name);
    return path;
}

static lam_recording *recorded(const char *name, int32_t rank, int32_t world, int64_t slow, const char *sql) {
    const char *file = step_recording(name, rank, world, slow);
    change_recording(file, ENDED);
    if (sql) change_recording(file, sql);
    return open_recording(file, 0, 0);
}

static const char *written(lam_recording *const *all, int32_t n, const lam_recording_options *o) {
    lam_error e = {0};
    lam_status s = lam_recording_write((const lam_recording *const *)all, n, o, show_sink(), &e);
    if (s != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return shown;
}

/* -- one run ----------------------------------------------------------------------------------- */

static void a_run_as_text(void **state) {
    (void)state;
    lam_recording *r = recorded("text.lamina", 0, 1, 1, NULL);
    written(&r, 1, NULL);
    show_golden("recorded", true);
    lam_recording_free(r);
    r = recorded("measured.lamina", 0, 1, 1, MEASURED);
    written(&r, 1, NULL);
    show_golden("recorded-measured", true);
    lam_recording_free(r);
    r = recorded("device.lamina", 0, 1, 1, ON_A_GPU);
    written(&r, 1, NULL);
    show_golden("recorded-device", true);
    lam_recording_free(r);
}

static void only_some_layers(void **state) {
    (void)state;
    lam_recording *r = recorded("some.lamina", 0, 1, 1, NULL);
    lam_recording_options o = {.rows = 1, .depth = -1};
    written(&r, 1, &o);
    show_has("\nfirst ");
    show_has("and 2 more\n");
    assert_null(strstr(shown, "\nsecond"));
    o = (lam_recording_options){.depth = 0};
    written(&r, 1, &o);
    show_has("(the model)");
    assert_null(strstr(shown, "\nfirst"));
    lam_recording_free(r);
}

/* A column is there where some layer, the first or the last, has the one number or the other for it. */
static void columns_of_what_was_measured(void **state) {
    (void)state;
    static const struct {
        const char *number, *title;
    } all[] = {{"retained_bytes", "  retained"},
               {"peak_bytes", "  retained"},
               {"device_forward_ns", "  device"},
               {"device_backward_ns", "  bwd device"},
               {"device_retained_bytes", "  dev retained"},
               {"device_peak_bytes", "  dev retained"},
               {"backward_ns", "  backward"},
               {"recompute_ns", "  again"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int place = 1; place < 4; place++) {
            char sql[160];
            snprintf(sql, sizeof sql,
                     "UPDATE layers SET backward_ns = NULL; UPDATE layers SET %s = 7 WHERE place = %d",
                     all[i].number, place % 3);
            if (place == 3) snprintf(sql, sizeof sql, "UPDATE layers SET backward_ns = NULL");
            lam_recording *r = recorded("columns.lamina", 0, 1, 1, sql);
            written(&r, 1, NULL);
            *strstr(strstr(shown, "\nlayer") + 1, "\n") = '\0';
            if (place == 3)
                assert_null(strstr(strstr(shown, "\nlayer"), all[i].title));
            else if (!strstr(strstr(shown, "\nlayer"), all[i].title))
                fail_msg("%s of place %d makes no column%s", all[i].number, place % 3, all[i].title);
            lam_recording_free(r);
        }
}

static void narrow_and_plain(void **state) {
    (void)state;
    static const char wide[] =
        "UPDATE places SET path = 'a_block_with_a_long_name.and_another.one' WHERE place = 1";
    lam_recording *r = recorded("narrow.lamina", 0, 1, 1, MEASURED);
    change_recording(step_path("narrow.lamina"), ON_A_GPU);
    lam_recording_free(r);
    change_recording(step_path("narrow.lamina"), wide);
    r = open_recording(step_path("narrow.lamina"), 0, 0);
    lam_recording_options o = {.ascii = true, .depth = -1};
    for (o.width = 53; o.width < 120; o.width += 13) {
        written(&r, 1, &o);
        assert_non_null(strstr(shown, "\nlayer"));
        for (const char *s = shown; *s; s += strcspn(s, "\n") + 1) /* the sentences above the table too */
            if (strcspn(s, "\n") > (size_t)o.width) fail_msg("wider than %d:\n%s", (int)o.width, shown);
        for (const char *s = shown; *s; s++) assert_true((unsigned char)*s < 128);
        show_has("forward");
        show_has("backward");
    }
    o.width = 10; /* nothing fits: names stay names */
    written(&r, 1, &o);
    show_has("a_blo");
    lam_recording_free(r);
}

/* It is known where the run was: a process of that number on another machine says nothing. */
static void process_that_died(int64_t now) {
    char here[256] = "", sql[400], said[200];
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(gethostname(here, sizeof here - 1), 0);
    lam_recording_options o = {.depth = -1, .now_unix_ns = now};
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        snprintf(sql, sizeof sql, "UPDATE runs SET ended_unix_ns = NULL, pid = %d, host = '%s%s'", (int)child,
                 here, elsewhere ? ".other" : "");
        lam_recording *all[] = {recorded("died.lamina", 0, 1, 1, sql),
                                recorded("other.lamina", 0, 1, 1, NULL)};
        written(all, 1, &o);
        assert_int_equal(lam_recording_run(all[0])->gone, !elsewhere);
        assert_int_equal(lam_recording_run(all[0])->pid, child);
        snprintf(said, sizeof said, "the process that wrote it (pid %d) has ended without closing it",
                 (int)child);
        show_has(elsewhere ? "not ended yet" : said);
        written(all, 2, &o);
        snprintf(said, sizeof said, "pid %d died\n", (int)child);
        if (!elsewhere) show_has(said);
        for (int k = 0; k < 2; k++) lam_recording_free(all[k]);
    }
}

/* "not ended yet" while it is written to, and the last moment once it is not. */
static void runs_that_have_no_end(void **state) {
    (void)state;
    lam_recording *r = recorded("open.lamina", 0, 1, 1, "UPDATE runs SET ended_unix_ns = NULL");
    lam_recording_options o = {.depth = -1};
    int64_t seen = lam_recording_run(r)->seen_unix_ns;
    o.now_unix_ns = seen + 3000000000;
    written(&r, 1, &o);
    show_has("not ended yet");
    o.now_unix_ns = seen + 90000000000;
    written(&r, 1, &o);
    show_has("never ended: last written 2023-11-14 22:14:20 UTC");
    assert_false(lam_recording_run(r)->gone); /* this process wrote it, and is there */
    lam_recording_free(r);
    process_that_died(o.now_unix_ns - 89000000000);
    const char *file = step_file("nothing.lamina");
    assert_int_equal(lam_recorder_close(step_recorder(file, 0, 1), NULL), LAM_OK);
    r = open_recording(file, 0, 0);
    written(&r, 1, NULL);
    show_has("no step was recorded yet");
    lam_recording_free(r);
}

/* What only few steps can tell is not made up. */
static void few_steps(void **state) {
    (void)state;
    lam_recording *r = recorded("two.lamina", 0, 1, 1, "DELETE FROM steps WHERE number > 200 AND training");
    written(&r, 1, NULL);
    show_has(": 30 params; 2 steps seen up to step 200, the first left out\n");
    show_has("\na training step every 5.00 ms: forward");
    lam_recording_free(r);
    r = recorded("raised.lamina", 0, 1, 1, "UPDATE steps SET failed = 1; UPDATE runs SET every = 1");
    written(&r, 1, NULL);
    show_has("; every step\n");
    show_has("; no whole step seen up to step 500; 6 raised\n");
    show_has("; no whole step seen up to step 0; 1 raised\n");
    lam_recording_free(r);
    r = recorded("outside.lamina", 0, 1, 1,
                 "UPDATE steps SET looked = 1; UPDATE steps SET bad = 'NaN' WHERE number = 300");
    written(&r, 1, NULL);
    show_has(
        "! NaN or Inf in 1 step, first in step 300, by none of its layers: in an input, or outside of it\n");
    lam_recording_free(r);
}

static void as_data(void **state) {
    (void)state;
    lam_recording *r = recorded("data.lamina", 0, 1, 1, MEASURED);
    lam_recording_options o = {.format = "csv", .depth = -1};
    written(&r, 1, &o);
    show_golden("recorded-csv", true);
    o.format = "json";
    written(&r, 1, &o);
    show_has("\"path\": \"first\", \"type\": \"Linear\"");
    show_has("\"nonfinite_steps\": 1");
    show_has("\"stragglers\": []");
    assert_string_equal(json_value(shown), "\n");
    lam_recording_free(r);
    r = recorded("unknown.lamina", 0, 1, 1, NULL);
    written(&r, 1, &o);
    show_has("\"peak_bytes\": null");
    show_has("\"nonfinite_steps\": null");
    assert_string_equal(json_value(shown), "\n");
    lam_recording_free(r);
}

static void formats_that_there_are_not(void **state) {
    (void)state;
    lam_error e = {0};
    lam_recording *r = recorded("format.lamina", 0, 1, 1, NULL);
    lam_recording_options o = {.format = "xlsx"};
    lam_status s = lam_recording_write((const lam_recording *const *)&r, 1, &o, show_sink(), &e);
    assert_int_equal(s, LAM_USAGE);
    assert_non_null(strstr(e.text, "text, csv, json"));
    assert_int_equal(lam_recording_write(NULL, 0, NULL, show_sink(), NULL), LAM_USAGE);
    lam_recording_free(r);
}

/* -- several processes ------------------------------------------------------------------------- */

enum { RANKS = 3 };

/* Rank 2 takes five times as long for the first layer, and holds half of the parameters. */
static void ranks(lam_recording *all[RANKS], const char *sql) {
    for (int32_t i = 0; i < RANKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "run.%d.lamina", (int)i);
        all[i] = recorded(name, i, RANKS, i == 2 ? 5 : 1, i == 2 ? sql : NULL);
    }
}

static void free_ranks(lam_recording *all[RANKS]) {
    for (int32_t i = 0; i < RANKS; i++) lam_recording_free(all[i]);
}

static void processes_side_by_side(void **state) {
    (void)state;
    lam_recording *all[RANKS];
    ranks(all, "UPDATE models SET local_params = 15; UPDATE steps SET peak_bytes = 5000000");
    written(all, RANKS, NULL);
    show_golden("recorded-ranks", true);
    lam_recording_options o = {.format = "json", .depth = -1};
    written(all, RANKS, &o);
    show_has(
        "\"peak_bytes\": {\"median\": 5000000, \"deviation\": 0, \"n\": 5}, \"device_forward_ns\": null");
    show_has("\"stragglers\": [\n{\"rank\": 2, \"model\": \"Net\", \"path\": \"first\"");
    show_has("/run.2.lamina\"}");
    assert_string_equal(json_value(shown), "\n");
    o.format = "csv";
    written(all, RANKS, &o);
    show_has("\n2,Net,1,1,1,1,1,first,Linear");
    free_ranks(all);
}

/* On a narrow terminal a column goes once the one before it in this list has gone. */
static void columns_of_processes_go_in_turn(void **state) {
    (void)state;
    static const char *const turn[] = {"params", "local params", "state", "last step", "backward"};
    enum { N = sizeof turn / sizeof *turn };
    lam_recording *all[RANKS];
    int32_t most = 0;
    ranks(all, "UPDATE models SET local_params = 15; UPDATE steps SET peak_bytes = 5000000");
    for (int32_t width = 140; width > 30; width--) {
        lam_recording_options o = {.ascii = true, .depth = -1, .width = width};
        written(all, RANKS, &o);
        const char *head = strstr(shown, "\nrank ");
        assert_non_null(head);
        for (const char *s = shown; s < head; s += strcspn(s, "\n") + 1)
            assert_true(strcspn(s, "\n") <= (size_t)width);
        size_t n = strcspn(head + 1, "\n") + 1;
        int32_t gone = 0;
        for (int32_t k = 0; k < N; k++) {
            char name[32];
            snprintf(name, sizeof name, "  %s", turn[k]);
            const char *found = strstr(head, name);
            if (found && found < head + n) continue;
            if (gone++ != k) fail_msg("%s went too early at %d:\n%s", turn[k], (int)width, shown);
        }
        assert_true(strstr(head, "  step  ") < head + n && strstr(head, "  forward") < head + n);
        if (gone > most) most = gone;
    }
    assert_int_equal(most, N);
    free_ranks(all);
}

#define OTHER_MODEL                                                                                          \
    "INSERT INTO models SELECT 11, run, 1, 'Other', 77, 77, 8, 8, 8, 8"                                      \
    " FROM models;"                                                                                          \
    "INSERT INTO places SELECT 11, place, parent, depth, path, type, params, local_params FROM places;"

/* Each model is compared with its like, in whatever order the processes met them. */
static void several_models(void **state) {
    (void)state;
    lam_recording *all[] = {
        recorded("g.0.lamina", 0, 2, 1, OTHER_MODEL),
        recorded("g.1.lamina", 1, 2, 1,
                 OTHER_MODEL "UPDATE models SET name = CASE id WHEN 1 THEN 'Other' ELSE 'Net' END"),
    };
    written(all, 2, NULL);
    show_has("2 processes of 2: python train.py; Net, a training step\n\nNo rank is named: ");
    show_has("\nNet, a step in eval mode\n\nrank  last step ");
    const char *other = strstr(shown, "\nOther\n\nrank  last step ");
    assert_non_null(other);
    assert_true(strstr(shown, "\n0           500 ") < other && strstr(shown, "\n1             ? ") < other);
    assert_true(strstr(other, "\n0             ? ") && strstr(other, "\n1           500 "));
    for (int32_t i = 0; i < 2; i++) lam_recording_free(all[i]);
    /* Two runs of one process each: their ranks are equal, so they go by their files. */
    lam_recording *alone[] = {recorded("one.lamina", 0, 1, 1, NULL), recorded("two.lamina", 0, 1, 5, NULL)};
    written(alone, 2, NULL);
    show_has("2 recordings: python train.py; Net, a training step\n\nfile        last step ");
    show_has("\none.lamina        500 ");
    show_has("x (two.lamina)");
    show_has("layers by the time that the slowest run takes longer");
    assert_null(strstr(shown, "rank"));
    for (int32_t i = 0; i < 2; i++) lam_recording_free(alone[i]);
}

/* Steps are compared with those of their kind alone: of others the row knows nothing. */
static void steps_of_another_kind(void **state) {
    (void)state;
    static const struct {
        const char *both, *second, *title, *row;
    } all[] = {
        {"UPDATE steps SET backward_ns = NULL WHERE number % 200 = 0", NULL,
         "\nNet, a training step without a backward pass\n", "\n1           400 "},
        {"UPDATE steps SET gradients = 0 WHERE number % 200 = 0", NULL,
         "\nNet, a training step without gradients\n", "\n1           400 "},
        {NULL, "UPDATE steps SET calls = 2", "Net, a training step", "\n1             ? "},
        {"UPDATE steps SET calls = 1 + number % 200 / 100", NULL, "\nNet, a training step of 2 calls\n",
         "\n1           500 "},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lam_recording *of[] = {recorded("k.0.lamina", 0, 2, 1, all[i].both),
                               recorded("k.1.lamina", 1, 2, 1, all[i].second ? all[i].second : all[i].both)};
        written(of, 2, NULL);
        const char *of_kind = strstr(shown, all[i].title);
        if (!of_kind || !strstr(of_kind, all[i].row)) fail_msg("'%s' is not in:\n%s", all[i].row, shown);
        for (int32_t k = 0; k < 2; k++) lam_recording_free(of[k]);
    }
}

/* A file that an earlier run left in the folder. */
static void processes_of_two_runs(void **state) {
    (void)state;
    static const char *const sql[] = {"UPDATE runs SET world = 4", "UPDATE runs SET rank = 0, pid = 1"};
    static const char *const why[] = {"they differ in how many processes there were",
                                      "two are of the same rank"};
    for (size_t i = 0; i < 2; i++) {
        lam_recording *all[] = {recorded("s.0.lamina", 0, 2, 1, NULL),
                                recorded("s.1.lamina", 1, 2, 1, sql[i])};
        written(all, 2, NULL);
        show_has("2 recordings: python train.py; Net, a training step\nnot of one run: ");
        show_has(why[i]);
        for (int32_t k = 0; k < 2; k++) lam_recording_free(all[k]);
    }
}

/* A process whose steps took no time has no part in a ratio, which would be infinite. */
static void a_process_that_took_no_time(void **state) {
    (void)state;
    lam_recording *all[RANKS];
    ranks(all, "UPDATE steps SET forward_ns = 0");
    written(all, RANKS, NULL);
    show_has("most to least: step");
    show_lacks("forward inf");
    show_lacks(", forward ");
    free_ranks(all);
}

/* One that died before its first step, one whose tree is another, one that measured nothing, one that has its
 * layers in another order, and one that alone took any time: a row and a straggler of each, NULL none. */
static void processes_that_differ(void **state) {
    (void)state;
    static const struct {
        const char *sql, *row, *straggler;
    } all[] = {
        {"DELETE FROM layers; DELETE FROM steps; DELETE FROM places; DELETE FROM models",
         "\n2             ?        ?        ?         ?       ?             ?     ?  ended", NULL},
        {"UPDATE models SET name = 'Other'",
         "\n2             ?        ?        ?         ?       ?             ?     ?  ended", NULL},
        {"UPDATE places SET path = 'other' WHERE place = 1", "\n2           500  5.00 ms  5.50 us ", NULL},
        {"UPDATE layers SET forward_self_ns = NULL, backward_ns = NULL",
         "\n2           500  5.00 ms  5.50 us ", NULL},
        {"UPDATE places SET path = CASE path WHEN 'first' THEN 'second' ELSE 'first' END WHERE place > 0",
         "\n2           500  5.00 ms  5.50 us ", "\nsecond   rank 2   6.50 us  1.10 us  5.91x\n"},
        {NULL, "\n2           500  5.00 ms  5.50 us ", "\nfirst   rank 2   6.50 us    0 ns      ?\n"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        static const char no_time[] =
            "UPDATE layers SET forward_self_ns = 0, backward_ns = 0 WHERE place = 1";
        lam_recording *of[RANKS];
        ranks(of, all[i].sql);
        for (int32_t k = 0; k < 2 && !all[i].sql; k++) {
            lam_recording_free(of[k]);
            of[k] = recorded(k ? "idle.1.lamina" : "idle.0.lamina", k, RANKS, 1, no_time);
        }
        written(of, RANKS, NULL);
        show_has("3 processes of 3");
        show_has(all[i].row);
        show_has(all[i].straggler ? all[i].straggler : "\nmost to least: ");
        if (!all[i].straggler) show_lacks("layers by the time");
        lam_recording *last = of[2];
        written(&last, 1, NULL);
        lam_recording *swapped[] = {of[2], of[0], of[1]};
        written(swapped, RANKS, NULL);
        free_ranks(of);
    }
}

/* -- scalars ----------------------------------------------------------------------------------- */

static void events_of_every_step(void **state) {
    (void)state;
    lam_error e = {0};
    char path[512], again[512], little[8];
    const char *file = step_recording("events.lamina", 0, 1, 1), *folder = step_file("logs");
    change_recording(file, MEASURED);
    assert_int_equal(lam_recording_tensorboard(file, 0, folder, path, sizeof path, &e), LAM_OK);
    assert_int_equal(lam_recording_tensorboard(file, 0, folder, again, sizeof again, &e), LAM_OK);
    assert_string_not_equal(path, again);
    char *text = show_read(path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    size_t at = 0, records = 0;
    for (; at < (size_t)st.st_size; records++) {
        uint32_t n;
        memcpy(&n, text + at, sizeof n);
        at += 8 + 4 + n + 4;
    }
    assert_int_equal(at, st.st_size);
    /* the version; 7 steps of 3 numbers (2 in eval mode) and 3 layers of 7 (6 in eval mode) */
    assert_int_equal(records, 1 + 6 * (3 + 3 * 7) + 2 + 3 * 6);
    free(text);
    assert_int_equal(lam_recording_tensorboard(file, 0, folder, little, sizeof little, &e), LAM_IO);
    assert_int_equal(lam_recording_tensorboard(file, 0, file, path, sizeof path, &e), LAM_IO);
    assert_int_equal(lam_recording_tensorboard(file, 9, folder, path, sizeof path, &e), LAM_USAGE);
    assert_int_equal(lam_recording_tensorboard(NULL, 0, folder, path, sizeof path, NULL), LAM_USAGE);
    change_recording(file, "DELETE FROM layers; DELETE FROM steps");
    assert_int_equal(lam_recording_tensorboard(file, 0, folder, path, sizeof path, &e), LAM_FAILED);
}

/* -- memory ------------------------------------------------------------------------------------ */

typedef struct sweep {
    lam_recording *all[RANKS];
    const char *format;
    int32_t n;
} sweep;

static void try_write(void *arg, bool *ok) {
    const sweep *w = arg;
    lam_error e = {0};
    lam_recording_options o = {.format = w->format, .depth = -1, .rows = 2};
    lam_status s = lam_recording_write((const lam_recording *const *)w->all, w->n, &o, show_sink(), &e);
    *ok = oom_check(s, &e);
}

static void writing_without_memory(void **state) {
    (void)state;
    static const char *const formats[] = {"text", "csv", "json"};
    sweep w = {.n = RANKS};
    ranks(w.all, MEASURED);
    for (int i = 0; i < 3; i++) {
        w.format = formats[i];
        for (w.n = 1; w.n <= RANKS; w.n += RANKS - 1) oom_sweep(try_write, &w);
    }
    free_ranks(w.all);
}

static void try_events(void *arg, bool *ok) {
    lam_error e = {0};
    char path[512];
    lam_status s = lam_recording_tensorboard(arg, 0, step_file("swept"), path, sizeof path, &e);
    *ok = oom_check(s, &e);
}

static void events_without_memory(void **state) {
    (void)state;
    const char *file = step_recording("swept.lamina", 0, 1, 1);
    char *kept = strdup(file); /* names of files are made in turns */
    change_recording(kept, MEASURED);
    oom_sweep(try_events, kept);
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_as_text),
        cmocka_unit_test(only_some_layers),
        cmocka_unit_test(columns_of_what_was_measured),
        cmocka_unit_test(narrow_and_plain),
        cmocka_unit_test(runs_that_have_no_end),
        cmocka_unit_test(few_steps),
        cmocka_unit_test(as_data),
        cmocka_unit_test(formats_that_there_are_not),
        cmocka_unit_test(processes_side_by_side),
        cmocka_unit_test(columns_of_processes_go_in_turn),
        cmocka_unit_test(steps_of_another_kind),
        cmocka_unit_test(processes_of_two_runs),
        cmocka_unit_test(processes_that_differ),
        cmocka_unit_test(a_process_that_took_no_time),
        cmocka_unit_test(several_models),
        cmocka_unit_test(events_of_every_step),
        cmocka_unit_test(writing_without_memory),
        cmocka_unit_test(events_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
