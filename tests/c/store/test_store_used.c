/* SPDX-License-Identifier: Apache-2.0
 * What steps compute, and the share of the device's peak that they reach. */
#include "kit/oom.h"
#include "kit/step_net.h"

#include <math.h>

enum { WHOLE_NS = 4000000 };

/* Puts training step `number`, which takes WHOLE_NS to the next one, with what it computes, or NULL. */
static void put(lam_recorder *w, int64_t number, int64_t whole_ns, const lam_step_work *work) {
    const lam_step_info info = {.name = "Net",
                                .number = number,
                                .training = true,
                                .gradients = true,
                                .unix_ns = INT64_C(1700000000000000000) + number * WHOLE_NS,
                                .t0_ns = 1 + number * WHOLE_NS,
                                .t1_ns = whole_ns ? 1 + number * WHOLE_NS + whole_ns : 0,
                                .work = work,
                                .processor_wait_ns = -1};
    assert_int_equal(lam_recorder_step(w, step_model(1, true), &info, NULL), LAM_OK);
}

static lam_recording *recorded(const char *name, const lam_step_work *works, int32_t n, int64_t whole_ns) {
    lam_error e = {0};
    lam_recording *r = NULL;
    const char *file = step_file(name);
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int32_t i = 0; i < 6; i++) put(w, i, whole_ns, i < n ? &works[i] : NULL);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    if (lam_recording_open(&r, file, 0, 0, &e) != LAM_OK) fail_msg("%s", e.text);
    return r;
}

static const lam_step_work exact = {.flops = 8000000,
                                    .hardware_flops = 10000000,
                                    .peak = 1e10,
                                    .device = "a device",
                                    .dtype = "bfloat16",
                                    .peak_of = "given"};

/* 8 MFLOP in 4 ms are 2 GFLOP/s, a fifth of the peak. */
static void a_share_is_of_the_peak_over_the_mean_step(void **state) {
    (void)state;
    lam_recording *r = recorded("used.lamina", &exact, 1, WHOLE_NS);
    const lam_utilization *u = &lam_recording_model(r, 0)->used;
    assert_true(u->mfu == 0.2 && u->hfu == 0.25 && u->flops_per_s == 2e9 && !u->at_least);
    assert_true(u->flops == 8000000 && u->hardware_flops == 10000000 && u->peak == 1e10);
    assert_string_equal(u->device, "a device");
    assert_string_equal(u->dtype, "bfloat16");
    assert_string_equal(u->peak_of, "given");
    assert_null(u->why);
    assert_null(u->why_peak);
    lam_recording_free(r);
}

/* The same number from start to start, of steps whose end is not known. */
static void without_means_the_time_is_from_step_to_step(void **state) {
    (void)state;
    lam_recording *r = recorded("every.lamina", &exact, 1, 0);
    assert_int_equal(lam_recording_model(r, 0)->phases.n, 0);
    assert_true(lam_recording_model(r, 0)->used.mfu == 0.2);
    lam_recording_free(r);
}

static void a_lower_bound_stays_one(void **state) {
    (void)state;
    const lam_step_work work = {.flops = 8000000,
                                .hardware_flops = 8000000,
                                .at_least = true,
                                .peak = 1e10,
                                .why = "some was not seen"};
    lam_recording *r = recorded("least.lamina", &work, 1, WHOLE_NS);
    const lam_utilization *u = &lam_recording_model(r, 0)->used;
    assert_true(u->mfu == 0.2 && u->at_least);
    assert_string_equal(u->why, "some was not seen");
    assert_null(u->device);
    lam_recording_free(r);
}

static void unknown(const char *name, const lam_step_work *works, int32_t n, const char *why) {
    lam_recording *r = recorded(name, works, n, WHOLE_NS);
    const lam_utilization *u = &lam_recording_model(r, 0)->used;
    assert_true(isnan(u->mfu) && isnan(u->hfu));
    assert_string_equal(u->flops < 0 ? u->why : u->why_peak, why);
    lam_recording_free(r);
}

static void what_is_not_known_says_why(void **state) {
    (void)state;
    const lam_step_work none = {.flops = -1, .hardware_flops = -1, .peak = 1e10, .why = "they were not seen"},
                        no_peak = {.flops = 8, .hardware_flops = 8, .why_peak = "no table has it"};
    unknown("none.lamina", &none, 1, "they were not seen");
    unknown("no-peak.lamina", &no_peak, 1, "no table has it");
    unknown("never.lamina", NULL, 0, "no step of this kind was counted");
}

/* Within a hundredth steps are alike; the first says what they compute. */
static void two_steps_that_differ_make_it_unknown(void **state) {
    (void)state;
    lam_step_work works[] = {exact, exact};
    works[1].flops = 8080000;
    lam_recording *r = recorded("alike.lamina", works, 2, WHOLE_NS);
    assert_true(lam_recording_model(r, 0)->used.mfu == 0.2);
    lam_recording_free(r);
    works[1].flops = 8080001;
    unknown("unlike.lamina", works, 2,
            "these steps differ in what they compute, as with batches of unequal sizes");
}

static void try_to_read(void *file, bool *ok) {
    lam_error e = {0};
    lam_recording *r;
    *ok = oom_check(lam_recording_open(&r, file, 0, 0, &e), &e);
    if (*ok) assert_true(lam_recording_model(r, 0)->used.mfu == 0.2);
    lam_recording_free(r);
}

static void memory_that_runs_out_is_an_error(void **state) {
    (void)state;
    char file[512];
    lam_recording *r = recorded("oom.lamina", &exact, 1, WHOLE_NS);
    snprintf(file, sizeof file, "%s", lam_recording_run(r)->file);
    lam_recording_free(r);
    oom_sweep(try_to_read, file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_is_of_the_peak_over_the_mean_step),
        cmocka_unit_test(without_means_the_time_is_from_step_to_step),
        cmocka_unit_test(a_lower_bound_stays_one),
        cmocka_unit_test(what_is_not_known_says_why),
        cmocka_unit_test(two_steps_that_differ_make_it_unknown),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
