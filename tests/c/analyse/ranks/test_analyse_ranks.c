/* SPDX-License-Identifier: Apache-2.0
 *
 * Who slows a run of many ranks: of runs that are made up with and without a fault, the verdict; of tables
 * that are damaged, a sentence. */
#include "kit/ranked.h"

static lam_ranks *judged(const ranked *of, const lam_rank_fact *facts) {
    lam_error e = {.at = -1};
    lam_ranks *r = ranked_judged(of, facts, &e);
    if (!r) fail_msg("%s: %s", e.where, e.text);
    return r;
}

static const lam_rank_verdict *verdict_of(lam_ranks *r, const char *kind) {
    const lam_rank_verdict *v = lam_ranks_verdict(r);
    assert_string_equal(lam_rank_kind_name(v->kind), kind);
    return v;
}

static void test_nobody_is_named_in_a_healthy_run(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        ranked of = ranked_run();
        of.seed = seed;
        of.noise = 0.002 * seed;
        lam_ranks *r = judged(&of, NULL);
        const lam_rank_verdict *v = verdict_of(r, "none");
        assert_int_equal(v->n_ranks + v->n_nodes + v->n_watch, 0);
        assert_null(v->abstains);
        lam_ranks_free(r);
    }
}

static void test_the_slow_rank_is_named_with_its_phase(void **state) {
    static const char *const phases[] = {"input", "h2d", "compute", "compute", "optimizer", "other"};
    (void)state;
    for (int phase = 0; phase < 6; phase++) {
        ranked of = ranked_run();
        of.slow = 11;
        of.more_us = 20000;
        of.phase = phase;
        of.from = 36;
        lam_ranks *r = judged(&of, NULL);
        const lam_rank_verdict *v = verdict_of(r, "slow_rank");
        assert_int_equal(v->n_ranks, 1);
        assert_int_equal(v->ranks[0], 11);
        assert_string_equal(v->phase, phases[phase]);
        assert_null(v->layer);
        assert_int_equal(v->since_step, 3600);
        assert_true(v->gain > 0.13 && v->gain < 0.18); /* 20 of some 127 ms, less what the others vary by */
        assert_true(v->late > 0.2 && v->late < 0.24);
        assert_true(fabs(v->excess_us - 20000) < 500);
        assert_true(fabs(v->without_us - v->step_us * (1 - v->gain)) < 1);
        lam_ranks_free(r);
    }
}

static void test_the_slow_layer_is_named(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 3;
    of.more_us = 15000;
    of.layer = "blocks.0.mlp";
    lam_ranks *r = judged(&of, NULL);
    assert_string_equal(verdict_of(r, "slow_rank")->layer, "blocks.0.mlp");
    lam_ranks_free(r);
}

static void test_a_node_is_named_and_not_its_ranks_one_by_one(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 32;
    of.slow_node = 2;
    of.more_us = 12000;
    of.phase = 0;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "slow_node");
    assert_int_equal(v->n_nodes, 1);
    assert_string_equal(v->nodes[0], "n02");
    assert_int_equal(v->n_ranks, 8);
    assert_string_equal(v->phase, "input");
    lam_ranks_free(r);
}

static void test_one_of_two_nodes_is_named(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow_node = 1;
    of.more_us = 15000;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "slow_node");
    assert_string_equal(v->nodes[0], "n01");
    lam_ranks_free(r);
}

static void test_one_of_two_ranks_is_named(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 2;
    of.slow = 1;
    of.more_us = 20000;
    lam_ranks *r = judged(&of, NULL);
    assert_int_equal(verdict_of(r, "slow_rank")->ranks[0], 1);
    lam_ranks_free(r);
}

static void test_two_of_the_ranks_of_one_node_are_named(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 8; /* a node tells its last two ranks, and these are both slow */
    of.slow = 5;
    of.also = 6;
    of.more_us = 20000;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "slow_rank");
    assert_int_equal(v->n_ranks, 2);
    assert_int_equal(v->ranks[0], 5);
    assert_int_equal(v->ranks[1], 6);
    assert_true(v->gain > 0.13 && v->gain < 0.18);
    lam_ranks_free(r);
}

static void test_what_costs_little_is_watched_and_not_blamed(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 5;
    of.more_us = 3600;
    of.transfer_us = 60000;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = lam_ranks_verdict(r);
    assert_int_equal(v->n_ranks, 0);
    assert_int_equal(v->n_watch, 1);
    assert_int_equal(v->watch[0], 5);
    lam_ranks_free(r);
}

static void test_a_short_pause_names_nobody(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.slow = 5;
    of.more_us = 40000;
    of.from = 40;
    of.to = 44;
    lam_ranks *r = judged(&of, NULL);
    assert_int_equal(lam_ranks_verdict(r)->n_ranks, 0);
    lam_ranks_free(r);
}

static void test_a_slow_group_is_a_link(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 64;
    of.groups = 4;
    of.slow_group = 2;
    of.more_us = 10000;
    of.from = 24;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "slow_link");
    assert_int_equal(v->n_nodes, 2);
    assert_string_equal(v->nodes[0], "n04");
    assert_string_equal(v->nodes[1], "n05");
    assert_int_equal(v->n_ranks, 0);
    assert_true(v->gain > 0.07 && v->gain < 0.1);
    assert_int_equal(v->since_step, 2400);
    lam_ranks_free(r);
}

static void test_all_that_become_slower_blame_nobody(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.grow = 1.2;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "slower");
    assert_int_equal(v->n_ranks, 0);
    assert_int_equal(v->since_step, 4800);
    assert_true(v->gain > 0.14 && v->gain < 0.2);
    lam_ranks_free(r);
}

static void test_input_and_network_blame_nobody(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.input_us = 30000;
    lam_ranks *r = judged(&of, NULL);
    assert_true(verdict_of(r, "input")->gain > 0.2);
    lam_ranks_free(r);
    of = ranked_run();
    of.transfer_us = 60000;
    r = judged(&of, NULL);
    assert_true(verdict_of(r, "network")->gain > 0.3);
    lam_ranks_free(r);
}

/* Those ranks are slower whose number leaves `first` to `last` when it is divided by 8; `n_slow` of them. */
static void two_kinds(int ranks, int first, int last, const char *kind, int n_slow) {
    ranked of = ranked_run();
    of.ranks = ranks;
    lam_error e = {.at = -1};
    lam_ranks *r;
    assert_int_equal(lam_ranks_new(&r, &e), LAM_OK);
    for (int rank = 0; rank < of.ranks; rank++) {
        const lam_rank_fact f = ranked_fact(&of, rank);
        assert_int_equal(lam_ranks_add_fact(r, &f, &e), LAM_OK);
        for (int w = 0; w < 8; w++) {
            const lam_rank_window slow = {.win = w,
                                          .rank = rank,
                                          .first_step = w * 1200,
                                          .steps = 12,
                                          .own_us = 100000 + rank * 10 +
                                                    (rank % 8 >= first && rank % 8 <= last ? 20000 : 0),
                                          .step_us = 140000};
            assert_int_equal(lam_ranks_add_window(r, &slow, &e), LAM_OK);
        }
    }
    assert_int_equal(ranked_meets(&of, r, &e), LAM_OK);
    assert_int_equal(lam_ranks_judge(r, NULL, NULL, &e), LAM_OK);
    const lam_rank_verdict *v = verdict_of(r, kind);
    assert_int_equal(v->n_ranks, 0);
    assert_int_equal(v->n_watch, n_slow);
    assert_int_equal(v->n_notes, 0); /* the kind says it */
    lam_ranks_free(r);
}

static void test_two_kinds_of_machine_blame_nobody(void **state) {
    (void)state;
    two_kinds(64, 0, 3, "uneven", 32);
    two_kinds(64, 3, 7, "uneven", 40);
    two_kinds(40, 0, 2, "uneven", 15);
    two_kinds(40, 0, 1, "none", 10); /* no more than a quarter */
}

/* -- who died ------------------------------------------------------------------------------------------ */

typedef struct ending {
    const char *first, *others; /* by what the first and the others ended; NULL: without a word */
    bool clean;                 /* the others were closed */
    double before_s;            /* how much earlier the first was last seen */
    bool named;
} ending;

static void test_who_died_first(void **state) {
    static const ending endings[] = {
        {"ValueError: a batch is empty", "DistBackendError", false, 0, true},
        {"OutOfMemoryError", "RuntimeError: Connection closed by peer", false, 0, true},
        {NULL, "DistNetworkError", false, 0, true},
        {NULL, "SIGTERM", false, 2, true},
        {NULL, "SIGTERM", false, -2, false}, /* ended by the launcher before its last beat: not the first */
        {NULL, NULL, true, 0, true},
        {NULL, NULL, false, 30, true},
        {NULL, NULL, false, 1, false},
        {"DistBackendError", "DistBackendError", false, 0, false},
        {"SystemExit: 1", "torch.distributed.DistBackendError: NCCL error", false, 0, true},
        {"ReadTimeout: the server timed out", "ConnectionResetError: reset by peer", false, 0, true},
        {"RuntimeError: DataLoader timed out after 5 seconds", "TimeoutError", false, 0, true},
        {"OSError: Connection timed out", "RuntimeError: [pair.cc:547] Connection closed by peer", false, 0,
         true},
        {NULL, "watchdog: collective timeout", false, 0, true},
        {NULL, "end", true, 0, true},
        {"SystemExit", "end", true, 0, false}, /* that is no failure */
    };
    (void)state;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const ending *x = &endings[i];
        lam_rank_fact facts[16];
        ranked of = ranked_run();
        for (int rank = 0; rank < of.ranks; rank++) {
            facts[rank] = ranked_fact(&of, rank);
            const bool first = rank == 9;
            if (first || !x->clean) facts[rank].ended_us = LAM_NOT_KNOWN;
            facts[rank].ended_by = first ? x->first : x->others;
            facts[rank].ran_last = first ? "call 7 of Net" : NULL;
            if (first) facts[rank].seen_us -= (int64_t)(x->before_s * 1e6);
        }
        lam_ranks *r = judged(&of, facts);
        const lam_rank_verdict *v = lam_ranks_verdict(r);
        if (x->named != (v->kind == LAM_RANKS_DIED))
            fail_msg("ending %zu is %s", i, lam_rank_kind_name(v->kind));
        if (x->named) {
            assert_true(v->n_ranks == 1 && v->ranks[0] == 9);
            assert_string_equal(v->ran_last, "call 7 of Net");
            assert_true(x->first ? strcmp(v->ended_by, x->first) == 0 : !v->ended_by);
        }
        lam_ranks_free(r);
    }
}

static void test_a_clock_that_is_off_does_not_kill(void **state) {
    (void)state;
    lam_rank_fact facts[16];
    ranked of = ranked_run();
    lam_error e = {.at = -1};
    lam_ranks *r;
    assert_int_equal(lam_ranks_new(&r, &e), LAM_OK);
    for (int rank = 0; rank < of.ranks; rank++) {
        facts[rank] = ranked_fact(&of, rank);
        facts[rank].ended_us = LAM_NOT_KNOWN;
        if (rank < 8) facts[rank].seen_us -= 40000000; /* the clock of n00 is 40 s behind */
        assert_int_equal(lam_ranks_add_fact(r, &facts[rank], &e), LAM_OK);
    }
    assert_int_equal(ranked_windows(&of, r, &e), LAM_OK);
    for (int step = 0; step < of.steps; step++)
        for (int node = 0; node < 2; node++) {
            const lam_rank_meet m = {.step = step * 100,
                                     .comm_group = LAM_NOT_KNOWN,
                                     .ranks = 8,
                                     .last_rank = node * 8,
                                     .second_rank = node * 8 + 1,
                                     .started_us = ranked_moment(&of, step) - (node ? 0 : 40000000),
                                     .last_us = 90000,
                                     .second_us = 90000,
                                     .own_us = 8 * 90000,
                                     .transfer_us = 12000,
                                     .group_transfer_us = NAN,
                                     .step_us = 102000,
                                     .node = node ? "n01" : "n00"};
            assert_int_equal(lam_ranks_add_meet(r, &m, &e), LAM_OK);
        }
    assert_int_equal(lam_ranks_judge(r, NULL, NULL, &e), LAM_OK);
    assert_string_equal(lam_rank_kind_name(lam_ranks_verdict(r)->kind), "none");
    lam_ranks_free(r);
}

/* -- what is not enough -------------------------------------------------------------------------------- */

static void test_few_steps_abstain(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.steps = 19;
    of.slow = 2;
    of.more_us = 50000;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "none");
    assert_string_equal(v->abstains, "only 19 recorded steps are in common, and 20 are needed");
    lam_ranks_free(r);
}

static void test_missing_ranks_are_told(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.missing = 3;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "none");
    assert_int_equal(v->n_notes, 1);
    assert_string_equal(
        v->notes[0],
        "3 of 16 ranks have no recording that can be compared (13..15); a cause may be among them");
    lam_ranks_free(r);
}

static void test_waiting_inside_a_step_leaves_phases_without_any(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.waits = LAM_WAITS_INSIDE;
    of.slow = 4;
    of.more_us = 20000;
    lam_ranks *r = judged(&of, NULL); /* late in backward, where the others wait */
    const lam_rank_verdict *v = lam_ranks_verdict(r);
    assert_int_equal(v->n_ranks, 0);
    assert_int_equal(v->n_notes, 1);
    lam_ranks_free(r);
    of.phase = 0;
    r = judged(&of, NULL);
    assert_string_equal(verdict_of(r, "slow_rank")->phase, "input");
    lam_ranks_free(r);
}

static void test_ranks_without_peers_are_compared_with_their_beginning(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 6;
    of.trees = 6;
    of.slow = 2;
    of.more_us = 25000;
    of.from = 48;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "slow_rank");
    assert_int_equal(v->ranks[0], 2);
    assert_int_equal(v->n_notes, 1);
    lam_ranks_free(r);
}

static void test_ranks_that_began_other_collectives_are_told(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.odd = 3;
    of.odd_from = 90;
    lam_ranks *r = judged(&of, NULL);
    const lam_rank_verdict *v = verdict_of(r, "none");
    assert_int_equal(v->n_notes, 1);
    assert_string_equal(
        v->notes[0],
        "collectives differ in 6 of 96 recorded steps, first in step 9000: rank 3 began 41, rank "
        "0 and 14 more 42; a rank waits forever for one that the others of its group do not begin");
    lam_ranks_free(r);
    of.odd_order = true;
    of.odd_from = 0;
    of.slow = 3; /* who slows all is named as without */
    of.more_us = 20000;
    r = judged(&of, NULL);
    v = verdict_of(r, "slow_rank");
    assert_string_equal(
        v->notes[0],
        "collectives differ in 96 of 96 recorded steps, first in step 0: rank 3, rank 0 and 14 more "
        "began 42 each, but not the same ones in the same order; a rank waits forever for one "
        "that the others of its group do not begin");
    lam_ranks_free(r);
    of.trees = 16; /* ranks with other layers are not compared */
    of.per_node = 1;
    of.slow = -1;
    r = judged(&of, NULL);
    for (int32_t i = 0; i < lam_ranks_verdict(r)->n_notes; i++)
        assert_null(strstr(lam_ranks_verdict(r)->notes[i], "collectives"));
    lam_ranks_free(r);
}

static void test_the_newest_attempt_tells_of_collectives(void **state) {
    (void)state;
    const ranked of = ranked_run();
    lam_ranks *r;
    lam_error e = {.at = -1};
    assert_int_equal(lam_ranks_new(&r, &e), LAM_OK);
    for (int rank = 0; rank < 2; rank++) {
        const lam_rank_fact fact = ranked_fact(&of, rank);
        assert_int_equal(lam_ranks_add_fact(r, &fact, &e), LAM_OK);
        for (int attempt = 0; attempt < 2; attempt++) {
            const lam_rank_order o = {.attempt = attempt,
                                      .step = 5,
                                      .tree = 7,
                                      .collectives = 4 + rank * (1 - attempt),
                                      .collectives_hash = 1,
                                      .ranks = 1,
                                      .first_rank = rank};
            assert_int_equal(lam_ranks_add_order(r, &o, &e), LAM_OK);
        }
    }
    assert_int_equal(lam_ranks_judge(r, NULL, NULL, &e), LAM_OK);
    for (int32_t i = 0; i < lam_ranks_verdict(r)->n_notes; i++)
        assert_null(strstr(lam_ranks_verdict(r)->notes[i], "collectives"));
    lam_ranks_free(r);
}

static void test_damaged_rows_are_refused(void **state) {
    (void)state;
    const ranked of = ranked_run();
    const lam_rank_fact good = ranked_fact(&of, 0);
    lam_ranks *r;
    lam_error e = {.at = -1};
    assert_int_equal(lam_ranks_new(&r, &e), LAM_OK);
    assert_int_equal(lam_ranks_judge(r, NULL, NULL, &e), LAM_USAGE);
    lam_rank_fact facts[] = {good, good, good, good};
    facts[0].rank = -1;
    facts[1].world = 0;
    facts[2].node = NULL;
    facts[3].seen_us = INT64_MAX;
    for (size_t i = 0; i < 4; i++) {
        e = (lam_error){.at = -1};
        assert_int_equal(lam_ranks_add_fact(r, &facts[i], &e), LAM_SYNTAX);
        assert_string_equal(e.where, "ranks");
    }
    const lam_rank_window window = {.rank = 0, .steps = 12, .own_us = -1};
    e = (lam_error){.at = -1};
    assert_int_equal(lam_ranks_add_window(r, &window, &e), LAM_SYNTAX);
    assert_string_equal(e.text,
                        "own_us is missing, negative or too large: a file is damaged, or it is not of a run");
    const lam_rank_meet meet = {.step = -5, .node = "n"};
    e = (lam_error){.at = -1};
    assert_int_equal(lam_ranks_add_meet(r, &meet, &e), LAM_SYNTAX);
    const lam_rank_layer layer = {.rank = 0, .layer = NULL};
    e = (lam_error){.at = -1};
    assert_int_equal(lam_ranks_add_layer(r, &layer, &e), LAM_SYNTAX);
    const lam_rank_order order = {.ranks = 1, .collectives = 1};
    lam_rank_order orders[] = {order, order, order, order, order};
    orders[0].step = -1;
    orders[1].ranks = LAM_NOT_KNOWN;
    orders[2].collectives = LAM_NOT_KNOWN;
    orders[3].collectives_hash = INT64_MAX;
    orders[4].first_rank = -1;
    for (size_t i = 0; i < 5; i++) {
        e = (lam_error){.at = -1};
        assert_int_equal(lam_ranks_add_order(r, &orders[i], &e), LAM_SYNTAX);
        assert_string_equal(e.where, "orders");
    }
    lam_ranks_free(r);
}

/* -- memory -------------------------------------------------------------------------------------------- */

static void judge_short(void *arg, bool *ok) {
    lam_error e = {.at = -1};
    lam_ranks *r = ranked_judged(arg, NULL, &e);
    *ok = oom_check(r ? LAM_OK : e.status, &e);
    lam_ranks_free(r);
}

static void test_memory_that_runs_out_is_told(void **state) {
    (void)state;
    ranked of = ranked_run();
    of.ranks = 8;
    of.per_node = 2;
    of.groups = 4;
    of.steps = 24;
    of.odd = 3;
    of.odd_from = 20;
    oom_sweep(judge_short, &of); /* nobody is named */
    of.slow = 3;
    of.more_us = 20000;
    of.layer = "blocks.0.mlp";
    oom_sweep(judge_short, &of);
    of.trees = 2;
    of.slow = -1;
    of.slow_group = 1;
    oom_sweep(judge_short, &of);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_is_named_in_a_healthy_run),
        cmocka_unit_test(test_the_slow_rank_is_named_with_its_phase),
        cmocka_unit_test(test_the_slow_layer_is_named),
        cmocka_unit_test(test_a_node_is_named_and_not_its_ranks_one_by_one),
        cmocka_unit_test(test_one_of_two_nodes_is_named),
        cmocka_unit_test(test_one_of_two_ranks_is_named),
        cmocka_unit_test(test_two_of_the_ranks_of_one_node_are_named),
        cmocka_unit_test(test_what_costs_little_is_watched_and_not_blamed),
        cmocka_unit_test(test_a_short_pause_names_nobody),
        cmocka_unit_test(test_a_slow_group_is_a_link),
        cmocka_unit_test(test_all_that_become_slower_blame_nobody),
        cmocka_unit_test(test_input_and_network_blame_nobody),
        cmocka_unit_test(test_two_kinds_of_machine_blame_nobody),
        cmocka_unit_test(test_who_died_first),
        cmocka_unit_test(test_a_clock_that_is_off_does_not_kill),
        cmocka_unit_test(test_few_steps_abstain),
        cmocka_unit_test(test_missing_ranks_are_told),
        cmocka_unit_test(test_waiting_inside_a_step_leaves_phases_without_any),
        cmocka_unit_test(test_ranks_without_peers_are_compared_with_their_beginning),
        cmocka_unit_test(test_ranks_that_began_other_collectives_are_told),
        cmocka_unit_test(test_the_newest_attempt_tells_of_collectives),
        cmocka_unit_test(test_damaged_rows_are_refused),
        cmocka_unit_test(test_memory_that_runs_out_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
