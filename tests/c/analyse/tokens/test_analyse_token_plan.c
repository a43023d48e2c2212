/* SPDX-License-Identifier: Apache-2.0
 *
 * Which runs of a language model are made, and which sequences it generates in them. */
#include "kit/oom.h"

#include "analyse/tokens/tokens.h"

static const lam_token_plan real = {false, false, false}, timed = {false, true, false},
                            dry = {true, false, false};

static void expect(int32_t made, const lam_tokens *t, const lam_token_plan *plan,
                   const lam_token_run *wanted) {
    lam_token_run r;
    assert_true(lam_tokens_next(&r, made, t, plan));
    assert_int_equal(r.purpose, wanted->purpose);
    assert_string_equal(r.which, wanted->which);
    assert_int_equal(r.dry, wanted->dry);
    assert_int_equal(r.time, wanted->time);
    assert_int_equal(r.follow, wanted->follow);
    assert_int_equal(r.tells, wanted->tells);
}

static const lam_token_step between = {.event = -1};
static const lam_token_run lengths = {LAM_RUN_LENGTHS, "lengths", .dry = true, .tells = true};

static void a_real_run_makes_every_step_and_lengths_are_followed_dry(void **state) {
    (void)state;
    lam_token_run r;
    const lam_tokens straight = {.bent = false};
    expect(0, NULL, &real, &(lam_token_run){LAM_RUN_STEPS, .which = "every"});
    expect(1, NULL, &real, &lengths);
    assert_false(lam_tokens_next(&r, 2, &straight, &real));
    assert_false(lam_tokens_next(&r, 2, NULL, &real));
    expect(0, NULL, &timed, &(lam_token_run){LAM_RUN_STEPS, "every", .time = true});
    expect(1, NULL, &timed, &lengths);
}

static void a_dry_run_makes_a_sample_and_every_step_only_if_that_is_bent(void **state) {
    (void)state;
    lam_token_run r;
    const lam_token_step ran = {.event = 3};
    const lam_tokens straight = {.bent = false}, bent = {.bent = true, .n_steps = 1, .steps = &between};
    const lam_tokens whole = {.bent = true, .n_steps = 1, .steps = &ran};
    expect(0, NULL, &dry, &(lam_token_run){LAM_RUN_STEPS, "sample", .dry = true});
    expect(1, NULL, &dry, &lengths);
    assert_false(lam_tokens_next(&r, 2, &straight, &dry));
    assert_false(lam_tokens_next(&r, 2, &whole, &dry));
    expect(2, &bent, &dry, &(lam_token_run){LAM_RUN_STEPS, "every", .dry = true, .tells = true});
    assert_false(lam_tokens_next(&r, 4, &bent, &dry));
}

static void memory_is_followed_in_a_dry_run_of_the_first_step_before_anything_is_read(void **state) {
    (void)state;
    lam_token_run r;
    const lam_tokens bent = {.bent = true, .n_steps = 1, .steps = &between};
    const lam_token_plan plans[] = {{false, false, true}, {false, true, true}, {true, false, true}};
    for (int i = 0; i < 3; i++) {
        expect(1, NULL, &plans[i], &(lam_token_run){LAM_RUN_MEMORY, "first", .dry = true, .follow = true});
        expect(2, NULL, &plans[i], &lengths);
        assert_false(lam_tokens_next(&r, 3, NULL, &plans[i]));
        assert_true(lam_tokens_next(&r, 3, &bent, &plans[i]));
        assert_int_equal(r.purpose, LAM_RUN_STEPS);
        assert_false(lam_tokens_next(&r, 5, &bent, &plans[i]));
    }
    lam_token_sequence s[LAM_TOKEN_SEQUENCES];
    for (int64_t fresh = 1; fresh < 9; fresh++) {
        assert_int_equal(lam_tokens_sequences(s, "first", 7, fresh, &(lam_token_limits){0}), 1);
        assert_int_equal(s[0].prompt, 7);
        assert_int_equal(s[0].fresh, fresh > 1 ? 2 : 1);
    }
}

static void without_another_length_the_models_own_is_tried(void **state) {
    (void)state;
    lam_token_run r;
    const lam_tokens grows = {.cache.gap = lmi_token_no_longer};
    const lam_tokens both = {.cache.gap = lmi_token_no_longer, .bent = true, .n_steps = 1, .steps = &between};
    const lam_token_run own = {LAM_RUN_LENGTHS, "own", .dry = true, .tells = true};
    expect(2, &grows, &real, &own);
    assert_false(lam_tokens_next(&r, 3, &grows, &real));
    expect(2, &both, &dry, &own);
    expect(3, &both, &dry, &(lam_token_run){LAM_RUN_STEPS, "every", .dry = true, .tells = true});
}

static const lam_token_limits plain = {0}, behind = {.encoder = true};

static void check(const lam_token_sequence *s, int64_t prompt, int64_t fresh, int64_t decoder) {
    assert_int_equal(s->prompt, prompt);
    assert_int_equal(s->fresh, fresh);
    assert_int_equal(s->decoder, decoder);
}

static void a_sample_has_the_first_two_steps_the_middle_one_and_the_last(void **state) {
    (void)state;
    lam_token_sequence s[LAM_TOKEN_SEQUENCES];
    for (int64_t fresh = 6; fresh < 200; fresh++) {
        assert_int_equal(lam_tokens_sequences(s, "sample", 1024, fresh, &plain), 3);
        check(&s[0], 1024, 3, 0);
        check(&s[1], 1024 + fresh / 2 - 1, 2, 0); /* a step sees as many tokens after a longer prompt */
        check(&s[2], 1024 + fresh - 2, 2, 0);
        assert_true(fresh / 2 > 2 && fresh - 1 > fresh / 2);
    }
    assert_int_equal(lam_tokens_sequences(s, "sample", 1024, 128, &behind), 3);
    check(&s[1], 1024, 2, 64); /* behind an encoder the decoder's own tokens count the steps */
    check(&s[2], 1024, 2, 127);
}

static void few_steps_and_every_step_are_one_sequence(void **state) {
    (void)state;
    lam_token_sequence s[LAM_TOKEN_SEQUENCES];
    for (int64_t fresh = 1; fresh < 6; fresh++) {
        assert_int_equal(lam_tokens_sequences(s, "sample", 7, fresh, &plain), 1);
        check(&s[0], 7, fresh, 0);
    }
    assert_int_equal(lam_tokens_sequences(s, "every", 7, 1000, &behind), 1);
    check(&s[0], 7, 1000, 0);
}

static void lengths_are_two_tokens_and_as_many_as_there_are_positions(void **state) {
    (void)state;
    lam_token_sequence s[LAM_TOKEN_SEQUENCES];
    assert_int_equal(lam_tokens_sequences(s, "lengths", 9, 5, &(lam_token_limits){.table = 1024}), 2);
    check(&s[0], 2, 1, 0);
    check(&s[1], 1024, 1, 0);
    const int64_t none[] = {0, INT64_C(1) << 40};
    for (int i = 0; i < 2; i++) {
        const lam_token_limits of = {.encoder = true, .table = none[i], .own = 32};
        assert_int_equal(lam_tokens_sequences(s, "lengths", 9, 5, &of), 2);
        check(&s[0], 9, 1, 2);
        check(&s[1], 9, 1, 65536);
    }
}

static void lengths_are_shorter_where_they_are_much_work_or_the_model_takes_no_more(void **state) {
    (void)state;
    lam_token_sequence s[LAM_TOKEN_SEQUENCES];
    const lam_token_limits of = {.own = 128, .longest = 500};
    assert_int_equal(lam_tokens_sequences(s, "lengths", 9, 5, &of), 2);
    check(&s[1], 500, 1, 0);
    assert_int_equal(lam_tokens_sequences(s, "own", 9, 5, &of), 2);
    check(&s[0], 2, 1, 0);
    check(&s[1], 128, 1, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_run_makes_every_step_and_lengths_are_followed_dry),
        cmocka_unit_test(a_dry_run_makes_a_sample_and_every_step_only_if_that_is_bent),
        cmocka_unit_test(memory_is_followed_in_a_dry_run_of_the_first_step_before_anything_is_read),
        cmocka_unit_test(a_sample_has_the_first_two_steps_the_middle_one_and_the_last),
        cmocka_unit_test(few_steps_and_every_step_are_one_sequence),
        cmocka_unit_test(lengths_are_two_tokens_and_as_many_as_there_are_positions),
        cmocka_unit_test(lengths_are_shorter_where_they_are_much_work_or_the_model_takes_no_more),
        cmocka_unit_test(without_another_length_the_models_own_is_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
