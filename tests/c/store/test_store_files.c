/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings whose files are linked, moved, removed, copied without their log, or where nothing can be
 * written. */
#include "kit/oom.h"
#include "kit/recorded.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* sqlite.def agrees with sqlite3.h. */
#define FUNCTION(result, name, parameters)                                                                   \
    _Static_assert(_Generic(&sqlite3_##name, result(*) parameters : 1, default : 0), #name);
#define CONSTANT(name, value) _Static_assert(name == (value), #name);
#include "base/sqlite.def"
#undef FUNCTION
#undef CONSTANT

static int64_t steps_in(const char *file) {
    lam_recording *r = open_recording(file, 0, 0);
    const lam_recorded_model *m = lam_recording_model(r, 0);
    int64_t n = m ? m->n_steps : 0;
    lam_recording_free(r);
    return n;
}

static void refused(const char *file, const char *words) {
    lam_error e = {0};
    lam_recording *r;
    assert_int_equal(lam_recording_open(&r, file, 0, 0, &e), LAM_IO);
    assert_null(r);
    if (!strstr(e.text, words)) fail_msg("%s: %s", e.where, e.text);
}

static char *with(const char *file, const char *suffix, char to[200]) {
    snprintf(to, 200, "%s%s", file, suffix);
    return to;
}

static bool is_there(const char *file) {
    struct stat st;
    return stat(file, &st) == 0;
}

/* A run of `n` steps whose process was killed: its log is beside the file. */
static const char *killed(const char *name, int64_t n) {
    const char *file = step_file(name);
    char log[200];
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        lam_recorder *w = step_recorder(file, 0, 1);
        for (int64_t i = 0; i < n; i++) step_put(w, 100 * i, 1, true);
        wait_for_steps(file, n);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(is_there(with(file, "-wal", log)));
    return file;
}

static void a_link_shows_what_the_file_shows(void **state) {
    (void)state;
    const char *file = killed("named.lamina", 4), *link = step_file("link.lamina");
    assert_int_equal(symlink(file, link), 0);
    assert_int_equal(steps_in(link), steps_in(file));
    assert_int_equal(steps_in(link), 3); /* but for the first, which warms up */
}

static void a_copy_without_its_log_says_so(void **state) {
    (void)state;
    char log[200];
    const char *file = killed("copied.lamina", 2);
    assert_int_equal(unlink(with(file, "-wal", log)), 0);
    refused(file, "copied or moved without its -wal file");

    /* what was written back from the log so far is shown, and that there may be more */
    file = killed("written.lamina", 4);
    change_recording(file, "PRAGMA wal_checkpoint(TRUNCATE)");
    lam_recording *r = open_recording(file, 0, 0);
    assert_true(lam_recording_run(r)->cut);
    lam_recording_free(r);

    /* the recorder of a later run has written back all of it */
    assert_int_equal(lam_recorder_close(step_recorder(file, 0, 1), NULL), LAM_OK);
    r = open_recording(file, 1, 0);
    assert_false(lam_recording_run(r)->cut);
    assert_int_equal(lam_recording_run(r)->ended_unix_ns, 0);
    lam_recording_free(r);
    assert_int_equal(lam_recording_open(&r, step_recording("whole.lamina", 0, 1, 1), 0, 0, NULL), LAM_OK);
    assert_false(lam_recording_run(r)->cut);
    lam_recording_free(r);
}

static void a_child_has_not_failed(lam_recorder *w) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(lam_recorder_close(w, NULL) == LAM_OK ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Moved or removed while it is recorded to; `instead`: and another file is there then. */
static void a_recording_ends(const char *to, bool instead) {
    lam_error e = {0};
    char beside[200];
    const char *file = step_file("going.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 4; i++) step_put(w, 100 * i, 1, true);
    wait_for_steps(file, 4);
    assert_int_equal(to ? rename(file, to) : unlink(file), 0);
    if (instead) fclose(fopen(file, "w"));
    const lam_step_info info = {.name = "Net", .number = 500, .unix_ns = 1, .t0_ns = 1};
    lam_status s = LAM_OK;
    for (int ms = 0; s == LAM_OK && ms < LONGEST_MS; ms++) { /* until it is seen that the file is gone */
        s = lam_recorder_step(w, step_model(1, true), &info, &e);
        wait_ms(1);
    }
    assert_int_equal(s, LAM_IO);
    assert_non_null(strstr(e.text, instead ? "another file took its place" : "moved or removed"));
    assert_string_equal(e.where, file);
    a_child_has_not_failed(w);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_IO);
    if (instead) return;
    assert_false(is_there(file));
    assert_false(is_there(with(file, "-wal", beside)));
    assert_false(is_there(with(file, "-shm", beside)));
    if (to) assert_int_equal(steps_in(to), 3);
}

static void a_moved_file_has_what_was_recorded_until_then(void **state) {
    (void)state;
    const char *moved = step_file("moved.lamina");
    a_recording_ends(moved, false);
    a_recording_ends(NULL, false);
    a_recording_ends(NULL, true);
    lam_recording *r;
    assert_int_equal(lam_recording_open(&r, moved, 0, 0, NULL), LAM_OK);
    assert_true(lam_recording_run(r)->ended_unix_ns > 0);
    lam_recording_free(r);
}

/* In a child that is nobody, for the administrator may write anywhere. */
_Noreturn static void read_as_nobody(const char *file) {
    enum { NOBODY = 65534 };
    if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) _exit(77); /* it can't be tried here */
    lam_error e = {0};
    lam_recording *r;
    if (lam_recording_open(&r, file, 0, 0, &e) != LAM_OK) {
        fprintf(stderr, "%s: %s\n", e.where, e.text);
        _exit(1);
    }
    const lam_recorded_model *m = lam_recording_model(r, 0);
    _exit(m && m->n_steps == 3 ? 0 : 2);
}

static void a_log_without_an_index_is_read_where_none_can_be_made(void **state) {
    (void)state;
    char folder[] = P_tmpdir "/lamina_closed_XXXXXX", to[3][200];
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    int status = 0;
    const char *file = killed("closed.lamina", 4);
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        char from[200];
        snprintf(to[i], sizeof to[i], "%s/run.lamina%s", folder, suffixes[i]);
        assert_int_equal(rename(with(file, suffixes[i], from), to[i]), 0);
        assert_int_equal(chmod(to[i], 0444), 0);
    }
    snprintf(to[2], sizeof to[2], "%s/run.lamina%s", folder, suffixes[2]);
    assert_int_equal(chmod(folder, 0555), 0);
    pid_t child = fork();
    if (child == 0) read_as_nobody(to[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(is_there(to[1]));
    assert_false(is_there(to[2]));
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(unlink(to[0]) | unlink(to[1]) | rmdir(folder), 0);
}

static void a_clock_before_1970(void **state) {
    (void)state;
    lam_error e = {0};
    const char *file = step_recording("early.lamina", 0, 1, 1);
    change_recording(file,
                     "UPDATE runs SET started_unix_ns = -7000000000, seen_unix_ns = -1, ended_unix_ns = -1;"
                     " UPDATE steps SET started_unix_ns = -6000000000");
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_run(r)->started_unix_ns, -7000000000);
    assert_int_equal(lam_recording_run(r)->ended_unix_ns, -1);
    lam_recording_free(r);

    const lam_run_info info = {.every = 1, .unix_ns = -5};
    lam_recorder *w;
    assert_int_equal(lam_recorder_new(&w, step_file("before.lamina"), &info, &e), LAM_OK);
    lmi_rows rows;
    lmi_db d;
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    file = step_file("ended.lamina");
    assert_int_equal(lmi_db_open(&d, file, &e), LAM_OK);
    assert_int_equal(lmi_rows_open(&rows, &d, &info, &e), LAM_OK);
    assert_int_equal(lmi_rows_seen(&rows, &(lmi_alive){.unix_ns = -3, .ended = true}, &e), LAM_OK);
    lmi_rows_close(&rows);
    lmi_db_close(&d);
    r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_run(r)->ended_unix_ns, -3);
    lam_recording_free(r);
}

static void a_virtual_table_is_not_read(void **state) {
    (void)state;
    sqlite3 *db;
    const char *file = step_recording("virtual.lamina", 0, 1, 1);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    int made = sqlite3_exec(db,
                            "DROP VIEW timeline; DROP TABLE layers; CREATE VIRTUAL TABLE layers USING fts5("
                            "step, place, calls, forward_ns, forward_self_ns, backward_ns, recompute_ns,"
                            " allocated_bytes, retained_bytes, peak_bytes, nan, inf, device_forward_ns,"
                            " device_self_ns, device_backward_ns, device_recompute_ns,"
                            " device_retained_bytes, device_peak_bytes)",
                            NULL, NULL, NULL);
    sqlite3_close(db);
    if (made != SQLITE_OK) skip(); /* this SQLite has no such tables */
    refused(file, "virtual table");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_shows_what_the_file_shows),
        cmocka_unit_test(a_copy_without_its_log_says_so),
        cmocka_unit_test(a_moved_file_has_what_was_recorded_until_then),
        cmocka_unit_test(a_log_without_an_index_is_read_where_none_can_be_made),
        cmocka_unit_test(a_clock_before_1970),
        cmocka_unit_test(a_virtual_table_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
