/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recording knows of a whole run: which start of which job it is, all its calls, and how it ended. */
#include "kit/recorded.h"

#include <signal.h>
#include <sys/wait.h>

/* A run of `job`, which ends by `how`. */
static void put_run(const char *file, const char *job, int32_t attempt, const char *how, lam_pace *pace) {
    lam_error e = {0};
    lam_recorder *w;
    const lam_run_info info = {
        .world = 1, .every = 1, .unix_ns = 1, .job = job, .attempt = attempt, .pace = pace};
    if (lam_recorder_new(&w, file, &info, &e) != LAM_OK) fail_msg("%s", e.text);
    step_put(w, 0, 1, true);
    if (pace) __atomic_store_n(&pace->slowest_ns, 7000, __ATOMIC_RELAXED);
    if (pace) __atomic_store_n(&pace->calls, 1000, __ATOMIC_RELAXED);
    lam_recorder_ended_by(w, how);
    assert_int_equal(lam_recorder_close(w, &e), LAM_OK);
}

static void starts_of_a_job_are_counted(void **state) {
    (void)state;
    static const struct {
        const char *job;
        int32_t least;
        int64_t attempt;
    } all[] = {{"a", 0, 1},  {"b", 0, 1},   {"a", 0, 2},  {"a", 2, 3}, {"a", 9, 9},
               {"a", 0, 10}, {NULL, 0, -1}, {NULL, 3, 3}, {"", 0, 1},  {"", 0, 2}};
    const char *file = step_file("jobs.lamina");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        put_run(file, all[i].job, all[i].least, NULL, NULL);
        lam_recording *r = open_recording(file, 0, 0);
        const lam_recorded_run *run = lam_recording_run(r);
        assert_int_equal(run->attempt, all[i].attempt);
        assert_true(all[i].job ? strcmp(run->job, all[i].job) == 0 : !run->job);
        assert_true(!run->ended_by && run->calls == -1 && run->ended_unix_ns);
        assert_true(lam_recording_model(r, 0)->tree >= 0);
        lam_recording_free(r);
    }
    assert_int_equal(number_in(file, "SELECT count(DISTINCT tree) FROM models"), 1);
    /* In an older file it is found by the layers. */
    lam_recording *r = open_recording(file, 0, 0);
    const int64_t tree = lam_recording_model(r, 0)->tree;
    lam_recording_free(r);
    change_recording(file, WITHOUT_JOBS "PRAGMA user_version = 6");
    r = open_recording(file, 0, 0);
    assert_true(lam_recording_model(r, 0)->tree == tree && tree > 0);
    lam_recording_free(r);
    change_recording(file, "UPDATE places SET path = 'other' WHERE place = 1");
    r = open_recording(file, 0, 0);
    assert_true(lam_recording_model(r, 0)->tree != tree);
    lam_recording_free(r);
}

/* From the newest one back; those of other jobs between them are left out. */
static void earlier_starts_of_a_job_are_opened(void **state) {
    (void)state;
    static const char *const jobs[] = {"a", "b", "a", "a", "b", NULL, NULL};
    lam_error e = {0};
    const char *file = step_file("earlier.lamina");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) put_run(file, jobs[i], 0, NULL, NULL);
    static const int64_t before[] = {0, 0, 1, 3, 2, 0, 0};
    for (int64_t i = 0; i < 7; i++) {
        lam_recording *r = open_recording(file, i + 1, 0), *earlier;
        assert_int_equal(lam_recording_open_before(&earlier, r, &e), LAM_OK);
        assert_int_equal(earlier ? lam_recording_run(earlier)->run : 0, before[i]);
        if (earlier) assert_string_equal(lam_recording_run(earlier)->job, jobs[i]);
        lam_recording_free(earlier);
        lam_recording_free(r);
    }
    lam_recording *r = open_recording(file, 4, 0), *earlier = r;
    change_recording(file, WITHOUT_JOBS "PRAGMA user_version = 6");
    assert_int_equal(lam_recording_open_before(&earlier, r, &e), LAM_OK);
    assert_null(earlier);
    change_recording(file, "PRAGMA user_version = 99");
    assert_int_equal(lam_recording_open_before(&earlier, r, &e), LAM_IO);
    assert_null(earlier);
    lam_recording_free(r);
}

static void try_before(void *arg, bool *ok) {
    lam_error e = {0};
    lam_recording *earlier;
    *ok = oom_check(lam_recording_open_before(&earlier, arg, &e), &e);
    lam_recording_free(earlier);
}

static void earlier_starts_without_memory(void **state) {
    (void)state;
    const char *file = step_file("earlier.lamina");
    for (int i = 0; i < 2; i++) put_run(file, "a", 0, NULL, NULL);
    lam_recording *r = open_recording(file, 0, 0);
    oom_sweep(try_before, r);
    lam_recording_free(r);
}

/* As much as fits, in whole characters. */
static void how_a_run_ended(void **state) {
    (void)state;
    char longest[2 * LAM_ENDED_BY];
    for (int shift = 0; shift < 3; shift++) {
        memset(longest, 'x', sizeof longest);
        for (size_t i = (size_t)shift; i + 3 < sizeof longest; i += 3) memcpy(longest + i, "\xe2\x82\xac", 3);
        longest[sizeof longest - 1] = '\0';
        const char *file = step_file("how.lamina");
        put_run(file, NULL, 0, longest, NULL);
        lam_recording *r = open_recording(file, 0, 0);
        const size_t n = strlen(lam_recording_run(r)->ended_by);
        assert_true(n < LAM_ENDED_BY && n > LAM_ENDED_BY - 4 && (n - (size_t)shift) % 3 == 0);
        assert_memory_equal(lam_recording_run(r)->ended_by, longest, n);
        lam_recording_free(r);
    }
    const char *file = step_file("well.lamina");
    put_run(file, NULL, 0, "end", NULL);
    assert_int_equal(number_in(file, "SELECT ended_by = 'end' AND ended_unix_ns > 0 FROM runs"), 1);
}

static void all_calls_are_counted(void **state) {
    (void)state;
    lam_pace first = {0}, second = {0};
    const char *file = step_file("pace.lamina");
    put_run(file, NULL, 0, "end", &first);
    put_run(file, NULL, 0, "end", &second);
    assert_int_equal(number_in(file, "SELECT min(calls) = 1000 AND max(calls) = 1000 FROM runs"), 1);
    assert_int_equal(number_in(file, "SELECT sum(calls) FROM pace WHERE run = 1"), 1000);
    assert_int_equal(number_in(file, "SELECT sum(calls) FROM pace WHERE run = 2"), 1000);
    assert_int_equal(number_in(file, "SELECT max(slowest_ns) FROM pace"), 7000);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_run(r)->calls, 1000);
    lam_recording_free(r);
}

static lam_recorder *killed;
static void on_kill(int number) {
    (void)number;
    lam_recorder_signal(killed, "SIGTERM", LONGEST_MS);
    _exit(3);
}

static void a_signal_is_written_by_its_handler(void **state) {
    (void)state;
    int how;
    const char *file = step_file("signal.lamina");
    const pid_t child = fork();
    if (!child) {
        killed = step_recorder(file, 0, 1);
        step_put(killed, 0, 1, true);
        signal(SIGTERM, on_kill);
        raise(SIGTERM);
        _exit(4);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 3);
    assert_int_equal(number_in(file, "SELECT ended_by = 'SIGTERM' AND ended_unix_ns > 0 FROM runs"), 1);
    assert_int_equal(number_in(file, "SELECT count(*) FROM steps"), 1);
}

/* Minutes of a run: 60 calls each, but for the first and last, and one that had a pause. */
static void whole_minutes_are_told(void **state) {
    (void)state;
    const char *file = step_recording("minutes.lamina", 0, 1, 1);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_run(r)->pace.minutes, 0);
    lam_recording_free(r);
    change_recording(file, "INSERT INTO pace VALUES (1, 100, 7, 2000000000), (1, 101, 60, 1100000000),"
                           " (1, 102, 20, 41000000000), (1, 104, 60, 1200000000), (1, 105, 3, 900000000),"
                           " (2, 106, 1, 1)");
    r = open_recording(file, 0, 0);
    const lam_recorded_run *run = lam_recording_run(r);
    assert_true(run->pace.minutes == 4 && run->pace.calls == 140);
    assert_int_equal(run->pace.slowest_ns, INT64_C(41000000000));
    assert_int_equal(run->pace.slowest_unix_ns, INT64_C(102) * 60 * 1000000000);
    assert_int_equal(run->pace.stalls, 1);
    lam_recording_free(r);
    static const char *const bad[] = {"UPDATE pace SET calls = -1", "UPDATE pace SET minute = 'now'",
                                      "UPDATE pace SET minute = 1 << 40", "UPDATE pace SET slowest_ns = 0.5",
                                      "DROP TABLE pace; CREATE VIEW pace AS SELECT 1 run, 1 minute, 1 calls"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lam_error e = {0};
        change_recording(file, "DELETE FROM pace; INSERT INTO pace VALUES (1, 1, 1, 1)");
        change_recording(file, bad[i]);
        if (lam_recording_open(&r, file, 0, 0, &e) != LAM_IO) fail_msg("%s", bad[i]);
    }
}

/* -- what recording costs ---------------------------------------------------------------------- */

/* 40 steps, one in 100, that take `recorded` ns each, +-; those between take `between`. */
static lam_recording *steps_between(int64_t recorded, int64_t apart, int64_t between, const char *more) {
    char sql[700];
    const char *file = step_file("cost.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 41; i++) step_put(w, i * 100, 1, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    snprintf(
        sql, sizeof sql,
        "UPDATE steps SET whole_ns = %lld + (id %% 2) * %lld, started_ns = 1 + id * %lld, own_forward_ns = 0,"
        " own_backward_ns = 0; UPDATE steps SET other_ns = whole_ns; %s",
        (long long)recorded, (long long)apart, (long long)(99 * between + recorded + apart / 2),
        more ? more : "");
    change_recording(file, sql);
    return open_recording(file, 0, 0);
}

static void recorded_steps_are_held_against_those_between(void **state) {
    (void)state;
    lam_recording *r = steps_between(1050000, 2000, 1000000, NULL);
    const lam_recorded_model *m = lam_recording_model(r, 0);
    assert_int_equal(m->cost.n, 39); /* the first warms up, and after the last none is recorded */
    assert_true(m->cost.recorded_ns >= 1050000 && m->cost.recorded_ns <= 1052000);
    assert_true(m->cost.between_ns >= 999900 && m->cost.between_ns <= 1000100);
    assert_true(m->cost.error_ns > 100 && m->cost.error_ns < 200); /* 1000 by the root of 39 */
    lam_recording_free(r);
    /* Steps that differ are compared with caution. */
    r = steps_between(550000, 1000000, 1000000, NULL);
    m = lam_recording_model(r, 0);
    assert_true(m->cost.error_ns > 70000 && m->cost.error_ns < 90000);
    lam_recording_free(r);
    /* A pause is not compared: here after one step a validation of as long as all other steps. */
    r = steps_between(1050000, 2000, 1000000,
                      "UPDATE steps SET started_ns = started_ns + 4000000000 WHERE id > 20");
    m = lam_recording_model(r, 0);
    assert_int_equal(m->cost.n, 38);
    assert_true(m->cost.between_ns >= 999900 && m->cost.between_ns <= 1000100);
    lam_recording_free(r);
    /* Nor are steps of which the next one is near, or whose end is unknown, or that differ in their calls. */
    r = steps_between(1050000, 2000, 1000000, "UPDATE steps SET number = number / 25");
    assert_int_equal(lam_recording_model(r, 0)->cost.n, 0);
    lam_recording_free(r);
    r = steps_between(1050000, 2000, 1000000,
                      "UPDATE steps SET whole_ns = NULL, other_ns = NULL,"
                      " own_forward_ns = NULL, own_backward_ns = NULL");
    assert_int_equal(lam_recording_model(r, 0)->cost.n, 0);
    lam_recording_free(r);
    r = steps_between(1050000, 2000, 1000000, "UPDATE steps SET calls = 2 WHERE id % 2");
    assert_int_equal(lam_recording_model(r, 0)->cost.n, 0);
    lam_recording_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_of_a_job_are_counted),
        cmocka_unit_test(earlier_starts_of_a_job_are_opened),
        cmocka_unit_test(earlier_starts_without_memory),
        cmocka_unit_test(how_a_run_ended),
        cmocka_unit_test(all_calls_are_counted),
        cmocka_unit_test(whole_minutes_are_told),
        cmocka_unit_test(recorded_steps_are_held_against_those_between),
        cmocka_unit_test(a_signal_is_written_by_its_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
