/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that was built without SQLite: one sentence says what is missing, and nothing is leaked. */
#include "kit/net.h"
#include "kit/oom.h"

static void said(const lam_error *e, lam_status s) {
    assert_int_equal(s, LAM_UNSUPPORTED);
    assert_non_null(strstr(e->text, "SQLite"));
}

static void recordings_are_not_known(void **state) {
    (void)state;
    char path[64];
    lam_error e = {0};
    lam_recorder *w;
    lam_recording *r;
    const lam_run_info run = {.every = 1};
    const lam_step_info step = {.name = "Net"};
    said(&e, lam_recorder_new(&w, "run.lamina", &run, &e));
    assert_null(w);
    e = (lam_error){0};
    said(&e, lam_recorder_step(w, net_two_parents(false), &step, &e));
    assert_int_equal(lam_recorder_dropped(w), 0);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    e = (lam_error){0};
    said(&e, lam_recording_open(&r, "run.lamina", 0, 0, &e));
    assert_null(r);
    lam_recording_free(r);
    e = (lam_error){0};
    said(&e, lam_recording_tensorboard("run.lamina", 0, "logs", path, sizeof path, &e));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recordings_are_not_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
