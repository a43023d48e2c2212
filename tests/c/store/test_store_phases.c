/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of a step: whose each moment is, what is unknown, and means that add up. */
#include "kit/oom.h"
#include "kit/recorded.h"
#include "store/store.h"

enum {
    FORWARD = STEP_ROOT_SELF + STEP_FIRST + STEP_SECOND,
    BACKWARD = STEP_BACK_FIRST + STEP_BACK_SECOND + 5
};
enum { CALL = 1000000, PASS = CALL + 100000, END = CALL + 200000 };
enum { ALL_KINDS = (1 << LAM_N_SPAN_KINDS) - 1 };

static lam_step_info info_of(const lam_step_span *spans, int32_t n) {
    return (lam_step_info){.name = "Net",
                           .training = true,
                           .gradients = true,
                           .t0_ns = CALL - 10,
                           .t1_ns = END,
                           .spans = spans,
                           .n_spans = n,
                           .spans_seen = ALL_KINDS,
                           .alone = true};
}

static void phases_of(const lam_step_info *info, int64_t ns[LAM_N_STEP_PHASES]) {
    lam_error e = {0};
    lam_model *m = step_model(1, true);
    if (lmi_step_phases(m, info, ns, &e) != LAM_OK) fail_msg("%s", e.text);
    lam_model_free(m);
}

/* Input, h2d, forward, backward, optimizer, comm, and the rest. */
static void check(const lam_step_span *spans, int32_t n, const int64_t wanted[LAM_STEP_OTHER]) {
    const lam_step_info info = info_of(spans, n);
    int64_t ns[LAM_N_STEP_PHASES], rest = info.t1_ns - info.t0_ns;
    phases_of(&info, ns);
    for (int k = 0; k < LAM_STEP_OTHER; k++) {
        if (ns[k] != wanted[k])
            fail_msg("%s: %lld, not %lld", lam_step_phase_name((lam_step_phase)k), (long long)ns[k],
                     (long long)wanted[k]);
        rest -= wanted[k];
    }
    assert_int_equal(ns[LAM_STEP_OTHER], rest);
}

#define SPANS(...)                                                                                           \
    (const lam_step_span[]){__VA_ARGS__}, sizeof((lam_step_span[]){__VA_ARGS__}) / sizeof(lam_step_span)
#define WANT(...)                                                                                            \
    (const int64_t[LAM_STEP_OTHER]) { __VA_ARGS__ }

static void a_moment_is_of_the_innermost(void **state) {
    (void)state;
    check(NULL, 0, WANT(0, 0, FORWARD, BACKWARD, 0, 0));
    /* One after the other, and a part of the last one is of the next step. */
    check(SPANS({LAM_SPAN_OPTIMIZER, PASS + 5000, PASS + 6000}, {LAM_SPAN_INPUT, END - 300, END + 100}),
          WANT(300, 0, FORWARD, BACKWARD, 1000, 0));
    /* FSDP waits inside a layer's call and inside a pass, and its records lie inside each other. */
    check(SPANS({LAM_SPAN_WAIT, CALL + 100, CALL + 400}, {LAM_SPAN_WAIT, CALL + 200, CALL + 300},
                {LAM_SPAN_WAIT, PASS + 10, PASS + 60}),
          WANT(0, 0, FORWARD - 300, BACKWARD - 50, 0, 350));
    /* An optimizer that calls the model again and again. */
    check(SPANS({LAM_SPAN_OPTIMIZER, CALL - 10, PASS + 50000}),
          WANT(0, 0, FORWARD, BACKWARD, PASS + 50000 - CALL + 10 - FORWARD - BACKWARD, 0));
    /* An optimizer that steps in the hook of a gradient. */
    check(SPANS({LAM_SPAN_OPTIMIZER, PASS + 100, PASS + 150}), WANT(0, 0, FORWARD, BACKWARD - 50, 50, 0));
}

/* What runs beside the thread is a wait only while the thread does nothing else. */
static void a_collective_is_a_wait_where_nothing_else_is_done(void **state) {
    (void)state;
    const int64_t after = PASS + BACKWARD;
    check(SPANS({LAM_SPAN_COLLECTIVE, PASS + 100, PASS + 200}), WANT(0, 0, FORWARD, BACKWARD, 0, 0));
    check(SPANS({LAM_SPAN_COLLECTIVE, PASS + 100, after + 700}), WANT(0, 0, FORWARD, BACKWARD, 0, 700));
    check(SPANS({LAM_SPAN_COLLECTIVE, PASS + 100, after + 700},
                {LAM_SPAN_COLLECTIVE, PASS + 300, after + 400},
                {LAM_SPAN_COLLECTIVE, after + 600, after + 800},
                {LAM_SPAN_OPTIMIZER, after + 750, after + 900}),
          WANT(0, 0, FORWARD, BACKWARD, 150, 750));
    check(SPANS({LAM_SPAN_COLLECTIVE, CALL - 500, END + 500}),
          WANT(0, 0, FORWARD, BACKWARD, 0, END - CALL + 10 - FORWARD - BACKWARD));
}

static void what_was_never_seen_is_unknown(void **state) {
    (void)state;
    const lam_step_span all[] = {{LAM_SPAN_OPTIMIZER, PASS + 5000, PASS + 6000}};
    int64_t ns[LAM_N_STEP_PHASES];
    lam_step_info info = info_of(all, 1);
    info.spans_seen = 1 << LAM_SPAN_OPTIMIZER;
    phases_of(&info, ns);
    assert_true(ns[LAM_STEP_INPUT] == -1 && ns[LAM_STEP_OPTIMIZER] == 1000 && ns[LAM_STEP_COMM] == 0);
    info.alone = false; /* another process takes part, and nothing was heard of it */
    info.pass_unseen = true;
    phases_of(&info, ns);
    assert_true(ns[LAM_STEP_COMM] == -1 && ns[LAM_STEP_BACKWARD] == -1 && ns[LAM_STEP_FORWARD] == FORWARD);
    assert_int_equal(ns[LAM_STEP_OTHER], END - CALL + 10 - FORWARD - 1000);
    info.t1_ns = 0;
    phases_of(&info, ns);
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) assert_int_equal(ns[k], -1);
}

/* Records that cannot be lie across each other; even then no moment counts twice. */
static void phases_add_up_always(void **state) {
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int round = 0; round < rounds(3000); round++) {
        lam_step_span spans[12];
        int64_t ns[LAM_N_STEP_PHASES], sum = 0;
        for (int i = 0; i < 12; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            const int64_t t0 = CALL - 1000 + (int64_t)(seed % 202000),
                          t1 = t0 + (int64_t)(seed >> 40) % 60000;
            spans[i] = (lam_step_span){(int32_t)(seed >> 20) % LAM_N_SPAN_KINDS, t0, t1};
            if (spans[i].kind < 0) spans[i].kind = 0;
        }
        const lam_step_info info = info_of(spans, 12);
        phases_of(&info, ns);
        for (int k = 0; k < LAM_N_STEP_PHASES; k++) {
            assert_true(ns[k] >= 0);
            sum += ns[k];
        }
        assert_int_equal(sum, info.t1_ns - info.t0_ns);
    }
}

/* -- recordings -------------------------------------------------------------------------------- */

/* Steps of which each fourth has an optimizer, the others none. */
static const char *accumulated(const char *name, int64_t n) {
    const char *file = step_file(name);
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < n; i++) {
        const lam_step_span span = {LAM_SPAN_OPTIMIZER, PASS + 5000, PASS + 9000};
        lam_step_info info = info_of(&span, i % 4 == 3);
        info.spans_seen = i < 3 ? 0 : 1 << LAM_SPAN_OPTIMIZER;
        info.number = i;
        info.unix_ns = 1;
        assert_int_equal(lam_recorder_step(w, step_model(1, true), &info, NULL), LAM_OK);
    }
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    return file;
}

static void means_add_up(void **state) {
    (void)state;
    lam_recorded_step step;
    lam_recording *r = open_recording(accumulated("means.lamina", 9), 0, 0);
    const lam_recorded_model *m = lam_recording_model(r, 0);
    assert_int_equal(m->phases.n, 8); /* without the first */
    assert_int_equal(m->phases.whole_ns, END - CALL + 10);
    assert_int_equal(m->phases.ns[LAM_STEP_OPTIMIZER], 1000);
    assert_int_equal(m->phases.steps[LAM_STEP_OPTIMIZER], 2);
    assert_int_equal(m->phases.ns[LAM_STEP_FORWARD], FORWARD);
    assert_int_equal(m->phases.ns[LAM_STEP_INPUT], -1);
    assert_int_equal(m->phases.ns[LAM_STEP_COMM], 0);
    assert_int_equal(m->phases.ns[LAM_STEP_OTHER], END - CALL + 10 - FORWARD - BACKWARD - 1000);
    assert_true(lam_recording_step(r, 0, 3, &step) && step.phase_ns[LAM_STEP_OPTIMIZER] == 4000);
    assert_true(lam_recording_step(r, 0, 1, &step) && step.phase_ns[LAM_STEP_OPTIMIZER] == -1);
    assert_int_equal(step.whole_ns, END - CALL + 10);
    lam_recording_free(r);
}

static void phases_that_do_not_add_up_are_damage(void **state) {
    (void)state;
    lam_error e = {0};
    lam_recording *r;
    const char *file = accumulated("damaged.lamina", 4);
    change_recording(file, "UPDATE steps SET other_ns = other_ns + 1 WHERE number = 2");
    assert_int_equal(lam_recording_open(&r, file, 0, 0, &e), LAM_IO);
    assert_non_null(strstr(e.text, "phases of a step don't add up"));
}

/* A file of an older version has no phases, and gets the columns when it is written again. */
static void files_of_older_versions_have_none(void **state) {
    (void)state;
    const char *file = step_recording("older.lamina", 0, 1, 1);
    for (size_t i = 0; i < 8; i++) {
        static const char *const of[] = {"whole",        "input",     "h2d",  "own_forward",
                                         "own_backward", "optimizer", "wait", "other"};
        char sql[80];
        snprintf(sql, sizeof sql, "ALTER TABLE steps DROP COLUMN %s_ns", of[i]);
        change_recording(file, sql);
    }
    change_recording(file, WITHOUT_JOBS
                     "UPDATE meta SET value = '5' WHERE key = 'schema'; PRAGMA user_version = 5");
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 5);
    assert_int_equal(lam_recording_model(r, 0)->phases.n, 0);
    lam_recording_free(r);
    lam_recorder *w = step_recorder(file, 0, 1);
    step_put(w, 0, 1, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    assert_int_equal(number_in(file, "SELECT count(*) FROM steps WHERE other_ns IS NULL"), 8);
}

/* Waiting for a processor is kept where it is known, and not in files of version 6. */
static void waiting_for_a_processor_is_kept(void **state) {
    (void)state;
    lam_recorded_step step;
    const char *file = step_file("processor.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 3; i++) {
        lam_step_info info = info_of(NULL, 0);
        info.number = i;
        info.unix_ns = 1;
        info.processor_wait_ns = i == 1 ? 700 : -1;
        if (i == 2) info.t1_ns = info.processor_wait_ns = 0; /* how long the step took is unknown */
        assert_int_equal(lam_recorder_step(w, step_model(1, true), &info, NULL), LAM_OK);
    }
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    for (int64_t i = 0; i < 3; i++) {
        assert_true(lam_recording_step(r, 0, i, &step));
        assert_int_equal(step.processor_wait_ns, i == 1 ? 700 : -1);
    }
    lam_recording_free(r);
    change_recording(file, WITHOUT_JOBS "PRAGMA user_version = 6");
    r = open_recording(file, 0, 0);
    assert_true(lam_recording_step(r, 0, 1, &step) && step.processor_wait_ns == -1 && step.whole_ns > 0);
    lam_recording_free(r);
}

/* Collectives are kept where torch tells of them, or where none can be; and not in files of version 6. */
static void collectives_are_kept(void **state) {
    (void)state;
    static const int64_t kept[] = {-1, 42, -1, 0};
    lam_recorded_step step;
    for (int32_t world = 1; world <= 2; world++) {
        const char *file = step_file(world == 1 ? "alone.lamina" : "collectives.lamina");
        lam_recorder *w = step_recorder(file, 0, world);
        for (int64_t i = 0; i < 4; i++) {
            lam_step_info info = info_of(NULL, 0);
            info.number = i;
            info.unix_ns = 1;
            info.spans_seen = world == 2 && i > 0 ? 1U << LAM_SPAN_COLLECTIVE : 0;
            info.collectives = i == 1 ? 42 : 0;
            info.collectives_hash = i;
            if (i == 2) info.collectives = -1;
            assert_int_equal(lam_recorder_step(w, step_model(1, true), &info, NULL), LAM_OK);
        }
        assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
        lam_recording *r = open_recording(file, 0, 0);
        for (int64_t i = 0; i < 4; i++) {
            const int64_t n = world == 1 && i == 0 ? 0 : kept[i];
            assert_true(lam_recording_step(r, 0, i, &step));
            assert_int_equal(step.collectives, n);
            assert_int_equal(step.collectives_hash, n < 0 ? -1 : i);
        }
        lam_recording_free(r);
        change_recording(file, WITHOUT_JOBS "PRAGMA user_version = 6");
        r = open_recording(file, 0, 0);
        assert_true(lam_recording_step(r, 0, 1, &step) && step.collectives == -1 &&
                    step.collectives_hash == -1);
        lam_recording_free(r);
    }
}

/* Of a layer's own times waits inside it are no part: those inside other waits are counted once. */
static void waits_are_no_work_of_a_layer(void **state) {
    (void)state;
    const char *file = step_file("waits.lamina");
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 4; i++) {
        const int64_t first = CALL + 50, back = CALL + 100000 + STEP_BACK_SECOND + 5;
        const lam_step_span spans[] = {{LAM_SPAN_WAIT, first + 1, first + 301},
                                       {LAM_SPAN_WAIT, first + 1, first + 101},
                                       {LAM_SPAN_WAIT, back + 1, back + 201},
                                       {LAM_SPAN_OPTIMIZER, back + 202, back + 203}};
        lam_step_info info = info_of(spans, 4);
        info.number = i;
        info.unix_ns = 1;
        if (i == 0) info.n_spans = 0;
        assert_int_equal(lam_recorder_step(w, step_model(1, true), &info, NULL), LAM_OK);
    }
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    const lam_recorded_place *at = lam_recording_place(r, 0, 1);
    assert_int_equal(at->forward_ns.median, STEP_FIRST);
    assert_int_equal(at->self_ns.median, STEP_FIRST - 300);
    assert_int_equal(at->backward_ns.median, STEP_BACK_FIRST - 200);
    assert_int_equal(lam_recording_place(r, 0, 2)->self_ns.median, STEP_SECOND);
    lam_recording_free(r);
}

static void try_phases(void *arg, bool *ok) {
    lam_error e = {0};
    int64_t ns[LAM_N_STEP_PHASES];
    const lam_step_span spans[] = {{LAM_SPAN_WAIT, CALL + 1, CALL + 2},
                                   {LAM_SPAN_COLLECTIVE, PASS, END},
                                   {LAM_SPAN_INPUT, END - 9, END}};
    const lam_step_info info = info_of(spans, 3);
    *ok = oom_check(lmi_step_phases(arg, &info, ns, &e), &e);
}

static void without_memory(void **state) {
    (void)state;
    lam_model *m = step_model(1, true);
    oom_sweep(try_phases, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_moment_is_of_the_innermost),
        cmocka_unit_test(a_collective_is_a_wait_where_nothing_else_is_done),
        cmocka_unit_test(what_was_never_seen_is_unknown),
        cmocka_unit_test(phases_add_up_always),
        cmocka_unit_test(means_add_up),
        cmocka_unit_test(phases_that_do_not_add_up_are_damage),
        cmocka_unit_test(files_of_older_versions_have_none),
        cmocka_unit_test(waiting_for_a_processor_is_kept),
        cmocka_unit_test(collectives_are_kept),
        cmocka_unit_test(waits_are_no_work_of_a_layer),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
