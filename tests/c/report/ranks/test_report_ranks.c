/* SPDX-License-Identifier: Apache-2.0
 *
 * Who slows a run of many ranks, as a screen and as JSON: what each kind of verdict says, on wide and narrow
 * screens. */
#include "kit/ranked.h"

#include "base/base.h"

static lam_status take(void *to, const char *bytes, size_t n) {
    lmi_putn(to, bytes, n);
    return ((lmi_buf *)to)->bad ? LAM_IO : LAM_OK;
}

/* What is written, which the caller frees. */
static lmi_buf written(const ranked *of, const lam_rank_fact *facts, lam_ranks_options o) {
    lmi_buf b;
    lam_error e = {.at = -1};
    lmi_buf_init(&b);
    lam_ranks *r = ranked_judged(of, facts, &e);
    if (!r) fail_msg("%s: %s", e.where, e.text);
    if (lam_ranks_write(r, &o, (lam_sink){take, &b}, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    lam_ranks_free(r);
    return b;
}

static void expect(lmi_buf *b, const char *const *parts) {
    for (; *parts; parts++)
        if (!strstr(lmi_buf_text(b), *parts)) fail_msg("'%s' is not in:\n%s", *parts, lmi_buf_text(b));
    lmi_buf_free(b);
}
#define EXPECT(b, ...) expect(b, (const char *const[]){__VA_ARGS__, NULL})

static void test_a_slow_rank_is_told_in_four_parts(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 11;
    of.more_us = 20000;
    of.from = 36;
    of.layer = "blocks.0.mlp";
    lmi_buf b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "16 of 16 ranks on 2 nodes; 96 recorded steps of ",
           "! Rank 11 slows all: without it a step would take 16 % less (122 ms -> 102 ms). It takes 20.0 ms "
           "longer than the others in forward and backward, most of it in blocks.0.mlp, since step 3,600 "
           "(Dec 1 00:06 UTC).",
           "Next: what this layer gets there", "\na step ", "\nothers ", "\nrank 11 ", ".#", "who is last");
}

static void test_each_phase_has_its_words(void **state) {
    static const char *const words[] = {
        "It waits 20.0 ms longer for input than the others",
        "It takes 20.0 ms longer to copy the input",
        "longer than the others in forward and backward, in no one layer most of it",
        "longer than the others in forward and backward, in no one layer most of it",
        "It takes 20.0 ms longer in the optimizer",
        "longer than the others outside of input, model and"};
    (void)state;
    for (int phase = 0; phase < 6; phase++) {
        ranked of = ranked_run();
        of.slow = 2;
        of.more_us = 20000;
        of.phase = phase;
        lmi_buf b = written(&of, NULL, (lam_ranks_options){.width = 400});
        EXPECT(&b, words[phase], "from the first recorded step on.", "n00");
    }
}

static void test_a_node_and_a_link_are_told(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 32;
    of.slow_node = 2;
    of.more_us = 12000;
    of.phase = 0;
    lmi_buf b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "! Node n02 slows all", "Its ranks wait 12.0 ms longer for input", "num_workers, on n02",
           "\nn02 ");
    of = ranked_run();
    of.ranks = 64;
    of.groups = 4;
    of.slow_group = 2;
    of.more_us = 10000;
    b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "! The links of n04 and n05 slow all: ", "the last to arrive still waits ",
           "Next: the cables");
}

static void test_verdicts_without_a_name_say_what_is_lost(void **state) {
    (void)state;
    ranked of = ranked_run();
    lmi_buf b = written(&of, NULL, (lam_ranks_options){0});
    EXPECT(&b, "\nNothing stands out: no rank, node or link slows the others.\n", "\nall ");
    of.grow = 1.2;
    b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "! All ranks became slower: a step takes 1", "since step 4,800", "Next: what changed then");
    of = ranked_run();
    of.input_us = 30000;
    b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "! All ranks wait for their input: ", "num_workers");
    of = ranked_run();
    of.transfer_us = 60000;
    b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "! The network takes 4", "Next: nccl-tests");
    of = ranked_run();
    of.slow = 3; /* as one that saves checkpoints */
    of.each = 8;
    of.phase = 5;
    of.more_us = 90000;
    b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "! 9",
           " % of a step goes by until the last rank is there, most of it for rank 3, in 12 of 96 ",
           "recorded steps.", "Next: what rank 3 alone does at times: checkpoints, evaluation, logs");
    of.each = 24; /* too few to say so */
    of.more_us = 270000;
    b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, " of a step goes by until the last rank is there, another one each time.", "gc.disable()");
    of = ranked_run();
    of.steps = 6;
    of.missing = 2;
    b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "14 of 16 ranks", "No rank is named: only 6 recorded steps are in common",
           "record more steps");
}

static void test_a_late_rank_that_costs_little_is_listed(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 5;
    of.more_us = 3600;
    of.transfer_us = 60000;
    lmi_buf b = written(&of, NULL, (lam_ranks_options){.width = 400});
    EXPECT(&b, "  also  late again and again, but little would be gained without: rank 5\n");
}

static void test_who_died_is_told_with_what_ended_it(void **state) {
    (void)state;
    lam_rank_fact facts[16];
    ranked of = ranked_run();
    for (int rank = 0; rank < of.ranks; rank++) {
        facts[rank] = ranked_fact(&of, rank);
        facts[rank].ended_us = LAM_NOT_KNOWN;
        facts[rank].ended_by = rank == 9 ? "ValueError: \033[31mbad" : "DistBackendError";
    }
    lmi_buf b = written(&of, facts, (lam_ranks_options){.width = 400});
    EXPECT(
        &b,
        "! Rank 9 ended first, and the others could not go on without it: by ValueError: ?[31mbad, on n01, ");
}

static void test_a_narrow_screen_holds_every_line(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 11;
    of.more_us = 20000;
    for (int32_t width = 40; width <= 120; width += 20) {
        lmi_buf b = written(&of, NULL, (lam_ranks_options){.width = width, .ascii = true});
        for (const char *line = lmi_buf_text(&b); *line;) {
            const size_t n = strcspn(line, "\n");
            if (lmi_width_of(line, n) > (size_t)width)
                fail_msg("wider than %d: %.*s", (int)width, (int)n, line);
            line += n + (line[n] == '\n');
        }
        lmi_buf_free(&b);
    }
}

static void test_json_has_unknown_as_null(void **state) {
    (void)state;
    ranked of = ranked_run();
    lmi_buf b = written(&of, NULL, (lam_ranks_options){.format = "json"});
    EXPECT(
        &b, "\"schema\": \"lamina.ranks/1\"",
        "\"verdict\": {\"kind\": \"none\", \"ranks\": [], \"nodes\": [], \"phase\": null, \"layer\": null, ",
        "\"since\": null, \"late\": null, ", "\"abstains\": null, \"notes\": [], \"watch\": [], ",
        "\"collectives\": null}");
}

static void test_an_unknown_format_and_no_verdict_are_refused(void **state) {
    (void)state;
    lam_error e = {.at = -1};
    lam_ranks *r;
    const lam_ranks_options o = {.format = "xml"};
    ranked of = ranked_run();
    assert_int_equal(lam_ranks_new(&r, &e), LAM_OK);
    assert_null(lam_ranks_verdict(r));
    assert_int_equal(lam_ranks_write(r, &(lam_ranks_options){0}, (lam_sink){take, NULL}, &e), LAM_USAGE);
    lam_ranks_free(r);
    e = (lam_error){.at = -1};
    r = ranked_judged(&of, NULL, &e);
    assert_non_null(r);
    assert_int_equal(lam_ranks_write(r, &o, (lam_sink){take, NULL}, &e), LAM_USAGE);
    lam_ranks_free(r);
}

/* What is looked at, as it is written; the caller frees it. */
static lmi_buf looked(ranked *of, lam_ranks_look what, const char *format) {
    lam_error e = {.at = -1};
    lmi_buf b;
    lmi_buf_init(&b);
    lam_ranks *r = ranked_judged(of, NULL, &e);
    const lam_ranks_options o = {.format = format, .width = 120};
    if (!r || lam_ranks_look_at(r, &what, ranked_layers, of, &e) != LAM_OK ||
        lam_ranks_write(r, &o, (lam_sink){take, &b}, &e) != LAM_OK)
        fail_msg("%s: %s", e.where, e.text);
    lam_ranks_free(r);
    return b;
}

static void test_a_rank_and_a_node_are_told_beside_their_peers(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 11;
    of.more_us = 20000;
    of.from = 36;
    of.layer = "blocks.0.mlp";
    lmi_buf b = looked(&of, (lam_ranks_look){.rank = 11}, NULL);
    EXPECT(&b, "Rank 11 on n01, of 16 ranks on 2 nodes; 96 recorded steps\n",
           "! Its own work takes 22 % more than the median of the 15 others with the same layers, since step "
           "3,600 "
           "(Dec",
           "It is the last in 6", "Last alive Dec 1 00:16 UTC; ended in order.", "\npeers ", "\nrank 11 ",
           "\nblocks.0.mlp ", "45.0 ms  25.0 ms  20.0 ms  1.80x");
    b = looked(&of, (lam_ranks_look){LAM_NOT_KNOWN, "n01", false}, NULL);
    EXPECT(&b, "Node n01 with 8 of 16 ranks on 2 nodes", "1 of its 8 ranks is late again and again", "\nn01 ",
           "\nrank 8 ", "\nrank 15 ");
    b = looked(&of, (lam_ranks_look){.rank = 3}, NULL);
    EXPECT(&b, "It is not late again and again: its own work takes ");
    b = looked(&of, (lam_ranks_look){.rank = 3}, "json");
    EXPECT(&b, "\"of\": {\"rank\": 3, \"node\": \"n00\", \"ranks\": 1, \"peers\": 15, \"alike\": true",
           "\"since\": null", "\"layers\": [");
}

static lam_ranks *ready;

static void write_both(void *arg, bool *ok) {
    lam_error e = {.at = -1};
    lmi_buf b;
    lam_ranks_options o = {.format = arg, .width = 90};
    lmi_buf_init(&b);
    lam_status s = lam_ranks_write(ready, &o, (lam_sink){take, &b}, &e);
    if (s == LAM_IO) { /* the sink's own memory */
        s = LAM_NOMEM;
        e = (lam_error){.status = s, .text = "the sink"};
    }
    *ok = oom_check(s, &e);
    lmi_buf_free(&b);
}

static void test_memory_that_runs_out_is_told(void **state) {
    (void)state;
    lam_error e = {.at = -1};
    ranked of = ranked_run();
    of.slow = 11;
    of.more_us = 20000;
    ready = ranked_judged(&of, NULL, &e);
    assert_non_null(ready);
    oom_sweep(write_both, "text");
    oom_sweep(write_both, "json");
    assert_int_equal(lam_ranks_look_at(ready, &(lam_ranks_look){.rank = 11}, ranked_layers, &of, &e), LAM_OK);
    oom_sweep(write_both, "text");
    oom_sweep(write_both, "json");
    lam_ranks_free(ready);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_rank_is_told_in_four_parts),
        cmocka_unit_test(test_each_phase_has_its_words),
        cmocka_unit_test(test_a_node_and_a_link_are_told),
        cmocka_unit_test(test_verdicts_without_a_name_say_what_is_lost),
        cmocka_unit_test(test_a_late_rank_that_costs_little_is_listed),
        cmocka_unit_test(test_who_died_is_told_with_what_ended_it),
        cmocka_unit_test(test_a_narrow_screen_holds_every_line),
        cmocka_unit_test(test_json_has_unknown_as_null),
        cmocka_unit_test(test_an_unknown_format_and_no_verdict_are_refused),
        cmocka_unit_test(test_a_rank_and_a_node_are_told_beside_their_peers),
        cmocka_unit_test(test_memory_that_runs_out_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
