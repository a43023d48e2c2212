/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings in Prometheus' text format. */
#include "kit/oom.h"

#include "kit/recorded.h"

#include "kit/page_text.h"

static const char PHASES[] =
    "UPDATE steps SET whole_ns = 100000000, input_ns = 1500000, h2d_ns = 0, own_forward_ns = 28000000,"
    " own_backward_ns = 55000000, optimizer_ns = 4000000, wait_ns = NULL, other_ns = 11500000;"
    "UPDATE runs SET seen_unix_ns = 1700000060250000000, calls = 512";

static const char *written(const char *name, int32_t rank, int32_t world, const char *sql) {
    const char *file = step_recording(name, rank, world, 1);
    change_recording(file, PHASES);
    if (sql) change_recording(file, sql);
    return file;
}

static lam_status export(lam_recording *const *all, int32_t n, lam_error *e) {
    return lam_recording_prometheus((const lam_recording *const *)all, n, show_sink(), e);
}

/* 5 recorded steps beside the first, which is left out of means. */
static void each_number_of_a_rank_is_a_series(void **state) {
    (void)state;
    lam_error e = {0};
    lam_recording *all[2];
    all[0] = open_recording(written("run.0.lamina", 0, 2, NULL), 0, 0);
    all[1] =
        open_recording(written("run.1.lamina", 1, 2, "UPDATE steps SET peak_bytes = 4096, looked = 1"), 0, 0);
    assert_int_equal(export(all, 2, &e), LAM_OK);
    show_has(
        "# HELP lamina_step_seconds Mean time of a step by phase; the phases of a rank add up to its step.\n"
        "# TYPE lamina_step_seconds gauge\n"
        "lamina_step_seconds{rank=\"0\",model=\"Net\",phase=\"input\"} 0.0015\n"
        "lamina_step_seconds{rank=\"0\",model=\"Net\",phase=\"h2d\"} 0\n"
        "lamina_step_seconds{rank=\"0\",model=\"Net\",phase=\"forward\"} 0.028\n"
        "lamina_step_seconds{rank=\"0\",model=\"Net\",phase=\"backward\"} 0.055\n"
        "lamina_step_seconds{rank=\"0\",model=\"Net\",phase=\"optimizer\"} 0.004\n"
        "lamina_step_seconds{rank=\"0\",model=\"Net\",phase=\"other\"} 0.0115\n"
        "lamina_step_seconds{rank=\"1\",");
    show_has("# TYPE lamina_calls_total counter\nlamina_calls_total{rank=\"0\",model=\"Net\"} 512\n");
    show_has("lamina_recorded_steps_total{rank=\"1\",model=\"Net\"} 6\n");
    show_has("lamina_failed_steps_total{rank=\"0\",model=\"Net\"} 0\n");
    show_has("lamina_seen_timestamp_seconds{rank=\"1\",model=\"Net\"} 1700000060.250\n");
    /* What is not known has no series. */
    show_lacks("phase=\"comm\"");
    show_has("# TYPE lamina_peak_bytes gauge\nlamina_peak_bytes{rank=\"1\",model=\"Net\"} 4096\n#");
    show_has("# TYPE lamina_nonfinite_total counter\nlamina_nonfinite_total{rank=\"1\",model=\"Net\"} 0\n#");
    for (int i = 0; i < 2; i++) lam_recording_free(all[i]);
}

static void names_are_escaped(void **state) {
    (void)state;
    lam_error e = {0};
    const char *file = written("run.lamina", 0, 1, "UPDATE models SET name = 'a\"b\\c{d}=\xc3\xa9'");
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(export(&r, 1, &e), LAM_OK);
    show_has("lamina_calls_total{rank=\"0\",model=\"a\\\"b\\\\c{d}=\xc3\xa9\"} 512\n");
    lam_recording_free(r);
}

static void without_steps_there_is_when_it_was_seen(void **state) {
    (void)state;
    lam_error e = {0};
    const char *file = step_file("none.lamina");
    lam_recorder *writer = step_recorder(file, 3, 4);
    assert_int_equal(lam_recorder_close(writer, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(export(&r, 1, &e), LAM_OK);
    show_has("lamina_seen_timestamp_seconds{rank=\"3\",model=\"\"} ");
    show_lacks("lamina_calls_total{");
    lam_recording_free(r);
}

static void a_rank_is_written_once(void **state) {
    (void)state;
    lam_error e = {0};
    lam_recording *all[2];
    all[0] = open_recording(written("a.lamina", 1, 2, NULL), 0, 0);
    all[1] = open_recording(written("b.lamina", 1, 2, NULL), 0, 0);
    assert_int_equal(export(all, 2, &e), LAM_USAGE);
    assert_non_null(strstr(e.where, "b.lamina"));
    assert_non_null(strstr(e.text, "it is of rank 1, as is "));
    assert_int_equal(lam_recording_prometheus(NULL, 0, show_sink(), &(lam_error){0}), LAM_USAGE);
    for (int i = 0; i < 2; i++) lam_recording_free(all[i]);
}

static void try_export(void *arg, bool *ok) {
    lam_error e = {0};
    lam_recording *r = arg;
    *ok = oom_check(export(&r, 1, &e), &e);
}

static void without_memory(void **state) {
    (void)state;
    lam_recording *r = open_recording(written("oom.lamina", 0, 1, NULL), 0, 0);
    oom_sweep(try_export, r);
    lam_recording_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_of_a_rank_is_a_series),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(without_steps_there_is_when_it_was_seen),
        cmocka_unit_test(a_rank_is_written_once),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
