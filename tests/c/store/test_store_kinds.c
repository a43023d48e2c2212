/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of a model that are unlike are summed up apart. */
#include "kit/oom.h"
#include "kit/recorded.h"
#include "store/store.h"

/* Twenty training steps, of which `sql` makes what it will: the number of a step is a multiple of ten. */
static lam_recording *changed(const char *name, int32_t last, const char *sql) {
    const char *file = step_file(name);
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 20; i++) step_put(w, 10 * i, 1 + i % 2, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    change_recording(file, sql);
    return open_recording(file, 0, last);
}

/* What a generator does: each other step has a backward pass. */
static void backward_passes_part_steps(void **state) {
    (void)state;
    lam_recording *r = changed("g.lamina", 0, "UPDATE steps SET backward_ns = NULL WHERE number % 20 = 0");
    assert_int_equal(lam_recording_run(r)->n_models, 2);
    const lam_recorded_model *back = lam_recording_model(r, 0), *none = lam_recording_model(r, 1);
    assert_true(back->went_back && !none->went_back && back->n_kinds == 2);
    assert_int_equal(back->n_steps, 10);
    assert_int_equal(none->n_steps, 9); /* without the first, which warms up */
    assert_true(!back->warmed_up && none->warmed_up);
    assert_int_equal(none->backward_ns.n, 0);
    assert_int_equal(lam_recording_place(r, 0, 1)->forward_ns.median, 2 * STEP_FIRST);
    assert_int_equal(lam_recording_place(r, 1, 1)->forward_ns.median, STEP_FIRST);
    assert_int_equal(back->step_ns.median, 5000000); /* they have one call each */
    lam_recording_free(r);
}

/* A layer that the loop calls itself is no other call of the model. */
static void calls_of_a_layer_are_none_of_the_model(void **state) {
    (void)state;
    const lam_step_info info = {.name = "Net"};
    net n = net_new();
    const int32_t root = net_module(&n, "Net", 0), layer = net_linear(&n, 4, 4);
    net_place(&n, net_place(&n, -1, "", root), "layer", layer);
    step_call(&n, root, -1, 1000, 3000, 0);
    step_call(&n, layer, -1, 4000, 5000, 0);
    NET_OK(&n, lam_build_timed(n.b, &n.e));
    lam_model *m = net_done(&n);
    lmi_packet *step = lmi_packet_step(m, &info);
    assert_int_equal(step->calls, 1);
    assert_int_equal(step->forward, 3000);
    lmi_packet_free(step);
    lam_model_free(m);
}

/* What a discriminator does: two calls, then one. What lies between steps is not known then. */
static void numbers_of_calls_part_steps(void **state) {
    (void)state;
    lam_recording *r = changed("d.lamina", 0, "UPDATE steps SET calls = 2 WHERE number % 20 = 0");
    assert_int_equal(lam_recording_run(r)->n_models, 2);
    const lam_recorded_model *one = lam_recording_model(r, 0), *two = lam_recording_model(r, 1);
    assert_true(one->most_calls == 1 && two->least_calls == 2 && two->most_calls == 2);
    assert_true(one->kind == 0 && two->kind == 1);
    assert_int_equal(one->step_ns.n, 0);
    assert_int_equal(one->call_ns.median, 5000000);
    lam_recording_free(r);
    r = changed("rnn.lamina", 0, "UPDATE steps SET calls = 3");
    assert_int_equal(lam_recording_run(r)->n_models, 1);
    assert_int_equal(lam_recording_model(r, 0)->step_ns.median, 15000000);
    lam_recording_free(r);
    /* The fewest calls come first, whatever the steps' order. */
    r = changed("order.lamina", 0,
                "UPDATE steps SET calls = CASE number / 10 % 3 WHEN 0 THEN 2 WHEN 1 THEN 3 ELSE 1 END");
    assert_int_equal(lam_recording_run(r)->n_models, 3);
    for (int32_t i = 0; i < 3; i++) {
        const lam_recorded_model *m = lam_recording_model(r, i);
        assert_true(m->least_calls == i + 1 && m->most_calls == i + 1 && m->kind == i);
    }
    lam_recording_free(r);
    /* Of another mode there may be as many as there will. */
    r = changed("eval.lamina", 0, "UPDATE steps SET calls = 2, training = 0 WHERE number % 20 = 0");
    assert_int_equal(lam_recording_run(r)->n_models, 2);
    assert_true(lam_recording_model(r, 0)->training && lam_recording_model(r, 0)->step_ns.n > 0);
    lam_recording_free(r);
    /* The first step is left out anyway: here a call that was made before training is in it. */
    r = changed("first.lamina", 0, "UPDATE steps SET calls = 2, backward_ns = NULL WHERE number = 0");
    assert_int_equal(lam_recording_run(r)->n_models, 1);
    assert_int_equal(lam_recording_model(r, 0)->most_calls, 1);
    assert_true(lam_recording_model(r, 0)->warmed_up && lam_recording_model(r, 0)->n_steps == 19);
    lam_recording_free(r);
}

/* What a decoder of sentences does: as many calls as words. Its steps are together, and say so. */
static void many_numbers_are_one_kind(void **state) {
    (void)state;
    lam_recording *r = changed("words.lamina", 0, "UPDATE steps SET calls = 1 + number / 10 % 7");
    assert_int_equal(lam_recording_run(r)->n_models, 2);
    const lam_recorded_model *one = lam_recording_model(r, 0), *more = lam_recording_model(r, 1);
    assert_true(one->least_calls == 1 && one->most_calls == 1);
    assert_true(more->least_calls == 2 && more->most_calls == 7);
    assert_int_equal(one->n_steps + more->n_steps, 19);
    assert_int_equal(more->step_ns.n, 0);
    lam_recording_free(r);
}

static void modes_and_gradients_part_steps(void **state) {
    (void)state;
    lam_recording *r = changed("modes.lamina", 0,
                               "UPDATE steps SET gradients = 0, backward_ns = NULL WHERE number % 20 = 0;"
                               "UPDATE steps SET training = 0 WHERE number % 30 = 0");
    assert_int_equal(lam_recording_run(r)->n_models, 4);
    for (int32_t i = 0; i < 4; i++) {
        const lam_recorded_model *m = lam_recording_model(r, i);
        assert_int_equal(m->training, i < 2);
        assert_int_equal(m->gradients, i % 2 == 0);
        assert_true(m->kind == i && m->n_kinds == 4);
    }
    lam_recording_free(r);
}

/* Those in which compiled code ran come first. */
static void compiled_code_parts_steps(void **state) {
    (void)state;
    lam_recording *r = changed("compiled.lamina", 0,
                               "UPDATE steps SET compiled = number >= 100;"
                               "UPDATE steps SET compiled = NULL WHERE number = 150;"
                               "UPDATE layers SET regions = 2 WHERE place = 1");
    static const int32_t right[] = {1, 0, -1};
    assert_int_equal(lam_recording_run(r)->n_models, 3);
    for (int32_t i = 0; i < 3; i++) assert_int_equal(lam_recording_model(r, i)->compiled, right[i]);
    assert_int_equal(lam_recording_model(r, 2)->n_steps, 1);
    assert_int_equal(lam_recording_place(r, 0, 1)->regions.median, 2);
    assert_int_equal(lam_recording_place(r, 0, 0)->regions.median, 0);
    lam_recording_free(r);
}

/* A step that raised has no backward pass for another reason. */
static void steps_that_raised_are_no_kind(void **state) {
    (void)state;
    lam_recording *r =
        changed("some.lamina", 0,
                "UPDATE steps SET failed = 1, calls = 5, backward_ns = NULL WHERE number = 50");
    assert_int_equal(lam_recording_run(r)->n_models, 1);
    assert_true(lam_recording_model(r, 0)->failed == 1 && lam_recording_model(r, 0)->most_calls == 1);
    lam_recording_free(r);
    r = changed("all.lamina", 0, "UPDATE steps SET failed = 1, backward_ns = NULL");
    assert_int_equal(lam_recording_run(r)->n_models, 1);
    assert_true(lam_recording_model(r, 0)->failed == 20 && lam_recording_model(r, 0)->n_steps == 0);
    lam_recording_free(r);
}

/* The newest of each kind, however rare it is. */
static void the_newest_of_each_kind(void **state) {
    (void)state;
    lam_recording *r = changed("rare.lamina", 3, "UPDATE steps SET training = 0 WHERE number = 20");
    assert_int_equal(lam_recording_run(r)->n_models, 2);
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 3);
    assert_int_equal(lam_recording_model(r, 0)->last, 190);
    assert_int_equal(lam_recording_model(r, 1)->n_steps, 1);
    assert_int_equal(lam_recording_model(r, 1)->last, 20);
    lam_recording_free(r);
}

/* A file of an older version does not tell of gradients, and a model that was not seen tells nothing. */
static void what_is_not_told(void **state) {
    (void)state;
    lam_recording *r = changed("old.lamina", 0,
                               "DROP VIEW timeline; ALTER TABLE steps DROP COLUMN gradients;"
                               "PRAGMA user_version = 2");
    assert_int_equal(lam_recording_run(r)->n_models, 1);
    assert_int_equal(lam_recording_model(r, 0)->gradients, -1);
    assert_int_equal(lam_recording_model(r, 0)->n_steps, 19);
    lam_recording_free(r);
    r = changed("older.lamina", 0,
                "ALTER TABLE models DROP COLUMN local_bytes; ALTER TABLE models DROP COLUMN logical_bytes;"
                "PRAGMA user_version = 4");
    assert_true(lam_recording_model(r, 0)->param_bytes > 0);
    assert_int_equal(lam_recording_model(r, 0)->local_bytes, -1);
    assert_int_equal(lam_recording_model(r, 0)->logical_bytes, -1);
    lam_recording_free(r);
    r = changed("none.lamina", 0, "DELETE FROM layers; DELETE FROM steps");
    assert_int_equal(lam_recording_run(r)->n_models, 1);
    const lam_recorded_model *m = lam_recording_model(r, 0);
    assert_true(m->n_steps == 0 && m->last == -1 && m->gradients == -1 && m->n_kinds == 1);
    lam_recording_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backward_passes_part_steps),
        cmocka_unit_test(calls_of_a_layer_are_none_of_the_model),
        cmocka_unit_test(numbers_of_calls_part_steps),
        cmocka_unit_test(many_numbers_are_one_kind),
        cmocka_unit_test(modes_and_gradients_part_steps),
        cmocka_unit_test(compiled_code_parts_steps),
        cmocka_unit_test(steps_that_raised_are_no_kind),
        cmocka_unit_test(the_newest_of_each_kind),
        cmocka_unit_test(what_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
