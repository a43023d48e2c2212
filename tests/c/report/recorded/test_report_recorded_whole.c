/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as data and side by side, whole, held against transcripts. */
#include "kit/oom.h"

#include "kit/recorded.h"

#include "kit/page_text.h"

#include "report/recorded/recorded.h"

/* When a run ended, and which process it was, is not the test's to say. */
static const char ENDED[] = "UPDATE runs SET seen_unix_ns = started_unix_ns + 60000000000, pid = 77,"
                            " ended_unix_ns = started_unix_ns + 60000000000;";
/* Everything is measured, and differs by step and by place. */
static const char MEASURED[] =
    "UPDATE layers SET allocated_bytes = 4096 + step, retained_bytes = 1024 * place + step,"
    " peak_bytes = 3000000 + 7 * step, nan = 0, inf = 0, recompute_ns = 11 * place + step,"
    " device_forward_ns = 1000 * place + step, device_self_ns = 900 * place + step,"
    " device_backward_ns = 3000 * place + step, device_recompute_ns = 5 * step,"
    " device_retained_bytes = 4096 * place + step, device_peak_bytes = 8192 * place + step;"
    "UPDATE layers SET forward_ns = forward_ns + step, forward_self_ns = forward_self_ns + 2 * step,"
    " backward_ns = backward_ns + 3 * step WHERE place = 1;"
    "UPDATE steps SET peak_bytes = 5000000 + number, device_forward_ns = 5000 + number,"
    " device_backward_ns = 9000 + number, device_peak_bytes = 1048576 + number, looked = 1;"
    "UPDATE steps SET first_bad = 1, bad = 'NaN' WHERE number IN (200, 400);"
    "UPDATE layers SET nan = 7 WHERE place > 0 AND step = (SELECT id FROM steps WHERE number = 200);"
    "UPDATE runs SET dropped = 2, job = 'night', attempt = 2, calls = 41000, ended_by = 'ValueError: no';"
    "UPDATE steps SET failed = 1 WHERE number = 300;"
    "UPDATE models SET local_params = 13, param_bytes = 120;"
    "UPDATE places SET local_params = 5 WHERE place = 1;";

/* All calls by the minute. */
static const char PACE[] =
    "INSERT INTO pace VALUES (1, 28333335, 700, 20000000), (1, 28333336, 3000, 30000000),"
    " (1, 28333337, 1204, 41000000000), (1, 28333338, 2900, 21000000), (1, 28333339, 5, 20000000);";

/* Of two steps one has no optimizer; where the batches come from is not known. */
static const char PHASES[] =
    "UPDATE steps SET whole_ns = 5000000 + number, h2d_ns = 0, own_forward_ns = 1500, own_backward_ns = 2205,"
    " optimizer_ns = 700000 * (number % 200 = 0), wait_ns = 12000 WHERE training;"
    "UPDATE steps SET other_ns = whole_ns - own_forward_ns - own_backward_ns - optimizer_ns - wait_ns"
    " WHERE training;";

static lam_recording *recorded(const char *name, int32_t rank, int32_t world, int64_t slow, const char *sql) {
    const char *file = step_recording(name, rank, world, slow);
    change_recording(file, ENDED);
    if (sql) change_recording(file, sql);
    return open_recording(file, 0, 0);
}

static void is_written(const char *golden, lam_recording *const *all, int32_t n, lam_recording_options o) {
    lam_error e = {0};
    lam_status s = lam_recording_write((const lam_recording *const *)all, n, &o, show_sink(), &e);
    if (s != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    page_golden(golden);
}

/* One in 100 steps, which take longer than those between. */
static void what_recording_costs(void **state) {
    (void)state;
    const char *file = step_file("cost.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 31; i++) step_put(w, i * 100, 1, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    change_recording(file, ENDED);
    change_recording(file, PACE);
    change_recording(file, "UPDATE steps SET whole_ns = 1080000, other_ns = 1080000, own_forward_ns = 0,"
                           " own_backward_ns = 0, started_ns = 1 + id * 100080000");
    lam_recording *r = open_recording(file, 0, 0);
    is_written("recorded-cost", &r, 1, (lam_recording_options){.depth = 0});
    is_written("recorded-cost-json", &r, 1, (lam_recording_options){.depth = 0, .format = "json"});
    lam_recording_free(r);
}

static void one_run(void **state) {
    (void)state;
    lam_recording *r = recorded("run.lamina", 0, 1, 1, MEASURED);
    is_written("recorded-one", &r, 1, (lam_recording_options){.depth = -1, .width = 200});
    is_written("recorded-one-narrow", &r, 1,
               (lam_recording_options){.depth = -1, .width = 80, .ascii = true, .bars = true});
    is_written("recorded-one-csv", &r, 1, (lam_recording_options){.depth = -1, .format = "csv"});
    is_written("recorded-one-json", &r, 1, (lam_recording_options){.depth = -1, .format = "json"});
    is_written("recorded-one-first", &r, 1,
               (lam_recording_options){.depth = 1, .rows = 2, .first_kinds = true, .color = true});
    lam_recording_free(r);
    r = recorded("phases.lamina", 0, 1, 1, PHASES);
    is_written("recorded-phases", &r, 1, (lam_recording_options){.depth = -1});
    is_written("recorded-phases-narrow", &r, 1,
               (lam_recording_options){.depth = 0, .width = 60, .ascii = true});
    is_written("recorded-phases-json", &r, 1, (lam_recording_options){.depth = 0, .format = "json"});
    lam_recording_free(r);
    /* What is not known: values, times, who wrote it. */
    r = recorded(
        "bare.lamina", 0, 1, 1,
        "UPDATE layers SET forward_ns = NULL, forward_self_ns = NULL, backward_ns = NULL WHERE place = 2;"
        "UPDATE steps SET forward_ns = NULL WHERE number > 300; UPDATE steps SET calls = 2 WHERE training;"
        "UPDATE runs SET command = NULL, host = NULL, torch = NULL, ended_unix_ns = NULL;"
        "UPDATE models SET params = NULL, local_params = NULL, param_bytes = NULL");
    is_written("recorded-bare", &r, 1, (lam_recording_options){.depth = -1});
    is_written("recorded-bare-json", &r, 1, (lam_recording_options){.depth = -1, .format = "json"});
    is_written("recorded-bare-csv", &r, 1, (lam_recording_options){.depth = -1, .format = "csv"});
    lam_recording_free(r);
}

static void of_processes(void **state) {
    (void)state;
    lam_recording *all[] = {recorded("a.lamina", 0, 3, 1, MEASURED), recorded("b.lamina", 1, 3, 3, NULL),
                            recorded("c.lamina", 2, 3, 1,
                                     "UPDATE runs SET ended_unix_ns = NULL;"
                                     "UPDATE models SET local_params = 29")};
    is_written("recorded-processes", all, 3, (lam_recording_options){.depth = -1, .width = 140});
    is_written("recorded-processes-csv", all, 3, (lam_recording_options){.depth = -1, .format = "csv"});
    is_written("recorded-processes-json", all, 3, (lam_recording_options){.depth = -1, .format = "json"});
    is_written("recorded-processes-two", all + 1, 2, (lam_recording_options){.depth = -1, .ascii = true});
    for (int i = 0; i < 3; i++) lam_recording_free(all[i]);
}

/* Input, optimizer and waiting for a processor, of a step of 1000 ns; -1 unknown. */
static void what_stands_out(void **state) {
    (void)state;
    static const struct {
        int64_t steps, input, optimizer, processor;
        const char *kind;
    } cases[] = {
        {20, 100, 0, 0, "input"},      {20, 99, 0, 0, "nothing"},      {19, 900, 0, 900, NULL},
        {50, 0, 300, 0, "optimizer"},  {50, 0, 299, 0, "nothing"},     {50, 200, 300, 0, "optimizer"},
        {50, 350, 300, 0, "input"},    {50, -1, 10, 0, NULL},          {50, 10, -1, 0, NULL},
        {50, -1, 400, 0, "optimizer"}, {50, 100, -1, 0, "input"},      {0, 900, 0, 0, NULL},
        {20, 0, 0, 100, "processor"},  {20, 0, 0, 99, "nothing"},      {20, 150, 0, 160, "processor"},
        {20, 160, 0, 150, "input"},    {20, 0, 300, 299, "optimizer"}, {20, -1, -1, 500, "processor"},
        {20, 100, 0, -1, "input"},     {20, 0, 0, -1, "nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lam_recorded_model m = {.n_steps = 1};
        m.phases.n = cases[i].steps;
        m.phases.whole_ns = 1000;
        m.phases.ns[LAM_STEP_INPUT] = cases[i].input;
        m.phases.ns[LAM_STEP_OPTIMIZER] = cases[i].optimizer;
        m.phases.processor_ns = cases[i].processor;
        const lmi_standout most = lmi_standout_of(&m);
        if (!cases[i].kind)
            assert_null(most.kind);
        else
            assert_string_equal(most.kind, cases[i].kind);
        assert_int_equal(most.next != NULL, most.percent > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_run),
        cmocka_unit_test(what_recording_costs),
        cmocka_unit_test(of_processes),
        cmocka_unit_test(what_stands_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
