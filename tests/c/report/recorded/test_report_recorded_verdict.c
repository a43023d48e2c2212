/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several processes slows the others: recordings of one run, in which all wait for the last one. */
#include "kit/oom.h"

#include "kit/recorded.h"

#include "kit/page_text.h"

enum { MOST = 8, STEPS = 48, DISTANCE = 100 };

/* A step takes 100 ms: 90 of own work, and 10 for the transfer. */
static const char HEALTHY[] =
    "UPDATE steps SET whole_ns = 100000000, input_ns = 1000000, h2d_ns = 0, own_forward_ns = 28000000,"
    " own_backward_ns = 55000000, optimizer_ns = 4000000, wait_ns = 10000000, other_ns = 2000000;"
    "UPDATE layers SET forward_ns = 28000000, forward_self_ns = 1000000, backward_ns = 0 WHERE place = 0;"
    "UPDATE layers SET forward_ns = 20000000, forward_self_ns = 20000000, backward_ns = 40000000"
    " WHERE place = 1;"
    "UPDATE layers SET forward_ns = 7000000, forward_self_ns = 7000000, backward_ns = 15000000"
    " WHERE place = 2;"
    "UPDATE runs SET seen_unix_ns = started_unix_ns + 60000000000, pid = 77,"
    " ended_unix_ns = started_unix_ns + 60000000000, every = 100;";
/* Of the processes that wait 25 ms for one; and of that one. */
#define WAITS " wait_ns = wait_ns + 25000000, whole_ns = whole_ns + 25000000"
static const char WAITING[] = "UPDATE steps SET" WAITS;
static const char SLOW_FORWARD[] =
    "UPDATE steps SET own_forward_ns = own_forward_ns + 25000000, whole_ns = whole_ns + 25000000";
static const char SLOW_INPUT[] =
    "UPDATE steps SET input_ns = input_ns + 25000000, whole_ns = whole_ns + 25000000";

typedef struct team {
    lam_recording *at[MOST];
    int32_t n;
} team;

/* The recording of a process with steps of the numbers 0, 100, ... */
static const char *written(int32_t steps) {
    static char file[160];
    static int32_t has;
    if (has == steps) return file;
    snprintf(file, sizeof file, "%s", step_file("all.lamina"));
    lam_recorder *r = step_recorder(file, 0, 1);
    for (int32_t i = 0; i < steps; i++) {
        step_put(r, (int64_t)i * DISTANCE, 1, true);
        if (i % 24 == 23) wait_for_steps(file, i + 1);
    }
    assert_int_equal(lam_recorder_close(r, NULL), LAM_OK);
    change_recording(file, HEALTHY);
    has = steps;
    return file;
}

static const char *process(int32_t rank, int32_t world, int32_t steps, const char *sql) {
    char text[256];
    snprintf(text, sizeof text, "run.%d.lamina", (int)rank);
    const char *from = written(steps), *file = step_file(text);
    snprintf(text, sizeof text, "VACUUM INTO '%s'", file);
    change_recording(from, text);
    snprintf(text, sizeof text, "UPDATE runs SET rank = %d, world = %d", (int)rank, (int)world);
    change_recording(file, text);
    if (sql) change_recording(file, sql);
    return file;
}

/* `slow` of its process `which`, `others` of all else; NULL: nothing. */
static team team_of(int32_t n, int32_t steps, int32_t which, const char *slow, const char *others) {
    team t = {.n = n};
    for (int32_t i = 0; i < n; i++)
        t.at[i] = open_recording(process(i, n, steps, i == which ? slow : others), 0, 0);
    return t;
}

static void free_team(team *t) {
    for (int32_t i = 0; i < t->n; i++) lam_recording_free(t->at[i]);
}

static void write_team(const team *t, lam_recording_options o) {
    lam_error e = {0};
    lam_status s = lam_recording_write((const lam_recording *const *)t->at, t->n, &o, show_sink(), &e);
    if (s != LAM_OK) fail_msg("%s: %s", e.where, e.text);
}

static void write_text(const team *t) { write_team(t, (lam_recording_options){.width = 400, .depth = -1}); }
static void write_json(const team *t) {
    write_team(t, (lam_recording_options){.format = "json", .depth = -1});
}

static void a_slow_forward_is_named(void **state) {
    (void)state;
    team t = team_of(4, STEPS, 2, SLOW_FORWARD, WAITING);
    write_text(&t);
    show_has(
        "4 processes of 4: python train.py; Net\n\n! Rank 2 slows all: without it a step would take 20 % "
        "less (125 ms -> 100 ms). It takes 25.0 ms longer than the others in forward and backward, in no "
        "one layer most of it, from the first recorded step on.\n  Next: ");
    show_has("\nothers  1.00 ms ");
    show_has("\nrank 2  1.00 ms ");
    show_has("\nrank  last step ");
    write_json(&t);
    show_has("\"verdict\": {\"kind\": \"slow_rank\", \"ranks\": [2], \"nodes\": [], \"phase\": \"compute\", "
             "\"layer\": null, \"ended_by\": null, \"ran_last\": null, \"gain\": 0.2");
    write_team(&t, (lam_recording_options){.width = 76, .ascii = true, .depth = -1});
    page_golden("recorded-verdict");
    free_team(&t);
}

/* In its forward or in its backward. */
static void a_slow_layer_is_named(void **state) {
    (void)state;
    static const char slow[] =
        "UPDATE steps SET own_%s_ns = own_%s_ns + 25000000, whole_ns = whole_ns + 25000000;"
        "UPDATE layers SET %s_ns = %s_ns + 25000000 WHERE place = 2;"
        "UPDATE layers SET forward_self_ns = forward_ns WHERE place = 2";
    static const char *const passes[] = {"forward", "backward"};
    for (int k = 0; k < 4; k++) {
        char sql[400];
        const char *pass = passes[k % 2];
        const int32_t n = k < 2 ? 5 : 2;
        snprintf(sql, sizeof sql, slow, pass, pass, pass, pass);
        team t = team_of(n, STEPS, n - 1, sql, WAITING);
        write_text(&t);
        show_has(n == 5 ? "! Rank 4 slows all: " : "! Rank 1 slows all: ");
        show_has("in forward and backward, most of it in second, from the first recorded step on.\n");
        write_json(&t);
        show_has("\"phase\": \"compute\", \"layer\": \"second\", ");
        free_team(&t);
    }
}

static void a_slow_input_is_named_of_two(void **state) {
    (void)state;
    team t = team_of(2, STEPS, 1, SLOW_INPUT, WAITING);
    write_text(&t);
    show_has("! Rank 1 slows all: without it a step would take 20 % less");
    show_has("It waits 25.0 ms longer for input than the others");
    write_json(&t);
    show_has("\"ranks\": [1], \"nodes\": [], \"phase\": \"input\", ");
    free_team(&t);
}

static void it_says_since_when(void **state) {
    (void)state;
    char slow[400], waiting[400];
    static const char since[] = "%s WHERE number >= 2400";
    snprintf(slow, sizeof slow, since, SLOW_FORWARD);
    snprintf(waiting, sizeof waiting, since, WAITING);
    team t = team_of(4, STEPS, 0, slow, waiting);
    write_text(&t);
    show_has("! Rank 0 slows all: ");
    show_has("since step 2,");
    free_team(&t);
}

/* The first half of the steps are late by 10 ms and the others by 40. By the default rule those that come
 * later stand for more steps. */
static void steps_are_weighed_by_those_that_they_represent(void **state) {
    (void)state;
    char slow[500], waiting[500];
    static const char late[] =
        "UPDATE steps SET %s = %s + 10000000 + 30000000 * (number >= 2400),"
        " whole_ns = whole_ns + 10000000 + 30000000 * (number >= 2400); UPDATE runs SET every = %d";
    for (int every = 0; every <= 100; every += 100) {
        snprintf(slow, sizeof slow, late, "own_forward_ns", "own_forward_ns", every);
        snprintf(waiting, sizeof waiting, late, "wait_ns", "wait_ns", every);
        team t = team_of(4, STEPS, 0, slow, waiting);
        write_json(&t);
        show_has(every ? "\"gain\": 0.202" : "\"gain\": 0.228");
        free_team(&t);
    }
}

static void nobody_is_named_in_a_healthy_run(void **state) {
    (void)state;
    for (int32_t n = 2; n <= 6; n += 2) {
        team t = team_of(n, STEPS, -1, NULL, NULL);
        write_text(&t);
        show_has("\nNothing stands out: no rank, node or link slows the others.\n");
        write_json(&t);
        show_has("\"verdict\": {\"kind\": \"none\", \"ranks\": [], ");
        show_has("\"abstains\": null");
        free_team(&t);
    }
}

/* Of three processes with the same layers one begins less in two steps; one with others is not compared. */
static void who_began_other_collectives_is_told(void **state) {
    (void)state;
    static const char same[] = "UPDATE steps SET collectives = 42, collectives_hash = 7",
                      less[] = "UPDATE steps SET collectives = 42 - (number IN (3000, 3100)),"
                               " collectives_hash = 7 + (number IN (3000, 3100))",
                      other[] = "UPDATE steps SET collectives = 2, collectives_hash = 7;"
                                "UPDATE places SET path = 'third' WHERE path = 'second';"
                                "UPDATE models SET tree = 5";
    team t = team_of(4, STEPS, 2, less, same);
    lam_recording_free(t.at[3]);
    t.at[3] = open_recording(process(3, 4, STEPS, other), 0, 0);
    write_text(&t);
    show_has("  also  collectives differ in 2 of 47 recorded steps, first in step 3000: rank 2 began 41, ");
    write_json(&t);
    show_has("{\"steps\": 47, \"unlike\": 2, \"attempt\": 0, \"step\": 3000, \"groups\": [{\"rank\": 2, "
             "\"ranks\": 1, \"collectives\": 41}, {\"rank\": 0, \"ranks\": 2, \"collectives\": 42}]}");
    free_team(&t);
    t = team_of(2, STEPS, 1, NULL, same); /* unknown in one */
    write_json(&t);
    show_has("\"collectives\": null");
    free_team(&t);
}

static void it_abstains_if_there_are_too_few_steps(void **state) {
    (void)state;
    team t = team_of(4, 20, 1, SLOW_FORWARD, WAITING); /* the first one warms up */
    write_text(&t);
    show_has(
        "\nNo rank is named: only 19 recorded steps are in common, and 20 are needed.\n  Next: record more "
        "steps");
    write_json(&t);
    show_has("\"abstains\": \"only 19 recorded steps are in common, and 20 are needed\"");
    free_team(&t);
    t = team_of(4, 21, 1, SLOW_FORWARD, WAITING);
    write_text(&t);
    show_has("! Rank 1 slows all: ");
    free_team(&t);
}

/* Steps that one of two recorded are not in common. */
static void only_common_steps_count(void **state) {
    (void)state;
    team t = {.n = 2};
    t.at[0] = open_recording(process(0, 2, STEPS, NULL), 0, 0);
    t.at[1] = open_recording(process(1, 2, 11, NULL), 0, 0);
    write_text(&t);
    show_has("\nNo rank is named: only 10 recorded steps are in common, and 20 are needed.\n");
    free_team(&t);
}

static const char NO_PHASES[] =
    "UPDATE steps SET whole_ns = NULL, input_ns = NULL, h2d_ns = NULL, own_forward_ns = NULL,"
    " own_backward_ns = NULL, optimizer_ns = NULL, wait_ns = NULL, other_ns = NULL";

static void it_abstains_if_phases_are_unknown(void **state) {
    (void)state;
    team t = team_of(3, STEPS, -1, NULL, NO_PHASES);
    write_text(&t);
    show_has(
        "\nNo rank is named: only 0 recorded steps tell own work from waiting, and 20 are needed.\n  Next: ");
    write_json(&t);
    show_has("\"kind\": \"none\"");
    free_team(&t);
    /* Of one of them: the others are compared. */
    t = team_of(4, STEPS, 1, NO_PHASES, NULL);
    write_text(&t);
    show_has("\nNothing stands out");
    show_has("  also  1 of 4 ranks have no recording that can be compared (1); a cause may be among them\n");
    free_team(&t);
}

/* Without it own work is what can't wait for others, and forward is not compared. */
static void unknown_waiting_is_never_taken_for_work(void **state) {
    (void)state;
    char slow[500], others[500];
    static const char *const late[] = {SLOW_FORWARD, SLOW_INPUT};
    static const char unknown[] = "%s; UPDATE steps SET other_ns = other_ns + wait_ns; UPDATE steps SET "
                                  "wait_ns = NULL";
    for (int k = 0; k < 2; k++) {
        snprintf(slow, sizeof slow, unknown, late[k]);
        snprintf(others, sizeof others, unknown, WAITING);
        team t = team_of(4, STEPS, 3, slow, others);
        write_text(&t);
        show_has("  also  waiting for others is inside forward and backward: ");
        if (k)
            show_has("! Rank 3 slows all: ");
        else
            show_lacks("Rank 3");
        free_team(&t);
    }
    /* In one process alone: none is compared by its whole step. */
    snprintf(slow, sizeof slow, unknown, "SELECT 1");
    team t = team_of(4, STEPS, 3, slow, NULL);
    write_text(&t);
    show_lacks("slows all");
    show_has("waiting for others is inside forward and backward");
    free_team(&t);
}

/* A process that shares its processor with another program takes longer by its clock, and is not slow. */
static void who_waits_for_a_processor_is_not_slow(void **state) {
    (void)state;
    char shared[400], slow[400];
    snprintf(shared, sizeof shared, "%s, processor_wait_ns = 25000000", SLOW_FORWARD);
    static const char free_one[] = "UPDATE steps SET" WAITS ", processor_wait_ns = 0";
    for (int32_t n = 2; n <= 4; n++) {
        team t = team_of(n, STEPS, 1, shared, free_one);
        write_text(&t);
        show_has("! Ranks wait for a processor, which other threads or programs use: up to 20 % of a step, "
                 "rank 1.\n  Next: ");
        show_lacks("slows all");
        write_json(&t);
        show_has("\"verdict\": {\"kind\": \"processor\", \"ranks\": [], ");
        free_team(&t);
    }
    /* Of two that wait equally long for a processor the one is named that takes longer beside. */
    snprintf(slow, sizeof slow,
             "%s, processor_wait_ns = 20000000; UPDATE steps SET whole_ns = whole_ns + 20000000,"
             " own_backward_ns = own_backward_ns + 20000000",
             SLOW_FORWARD);
    snprintf(shared, sizeof shared,
             "%s; UPDATE steps SET whole_ns = whole_ns + 20000000, own_backward_ns ="
             " own_backward_ns + 20000000, processor_wait_ns = 20000000",
             WAITING);
    team t = team_of(2, STEPS, 1, slow, shared);
    write_text(&t);
    show_has("! Rank 1 slows all: ");
    show_has("25.0 ms longer than the others in forward and backward");
    show_has("  also  ranks wait for a processor, up to 14 % of a step (rank 0)\n");
    /* What is left of a much longer wait is of that wait. */
    static const char longer[] =
        "UPDATE steps SET processor_wait_ns = 110000000, whole_ns = whole_ns + 90000000,"
        " own_backward_ns = own_backward_ns + 90000000";
    for (int32_t i = 0; i < 2; i++) {
        char sql[800];
        snprintf(sql, sizeof sql, "%s; %s", i ? slow : shared, longer);
        lam_recording_free(t.at[i]);
        t.at[i] = open_recording(process(i, 2, STEPS, sql), 0, 0);
    }
    write_text(&t);
    show_has("! Ranks wait for a processor, ");
    show_lacks("slows all");
    free_team(&t);
    /* Where one does not know it, clocks are compared in all. */
    t = team_of(3, STEPS, 1, SLOW_FORWARD, free_one);
    write_text(&t);
    show_has("! Rank 1 slows all: ");
    free_team(&t);
}

/* Runs that are compared with each other have no verdict, nor what only its newest steps were read of. */
static void what_is_not_of_one_run_has_no_verdict(void **state) {
    (void)state;
    team t = {.n = 2};
    for (int32_t i = 0; i < 2; i++) t.at[i] = open_recording(process(i, 2 + i, STEPS, NULL), 0, 0);
    write_text(&t);
    show_lacks("Nothing stands out");
    show_has("not of one run: they differ in how many processes there were");
    write_json(&t);
    show_has("\"verdict\": null");
    lam_recording_free(t.at[1]);
    t.n = 1;
    write_json(&t);
    show_has("\"verdict\": null");
    free_team(&t);
    t = team_of(2, STEPS, -1, NULL, NULL);
    write_team(&t, (lam_recording_options){.depth = -1, .newest = true});
    show_lacks("Nothing stands out");
    free_team(&t);
    t.n = 2;
    for (int32_t i = 0; i < 2; i++)
        t.at[i] = open_recording(process(i, 2, STEPS, "UPDATE runs SET world = 1, rank = 0"), 0, 0);
    write_json(&t);
    show_has("\"verdict\": null");
    free_team(&t);
}

/* One that did not end while others did is dead, unless it wrote a moment ago. */
static void a_process_that_runs_on_is_not_dead(void **state) {
    (void)state;
    static const int64_t began = INT64_C(1700000000000000000);
    team t = team_of(4, STEPS, 2, "UPDATE runs SET ended_unix_ns = NULL, host = 'far'", NULL);
    write_team(&t, (lam_recording_options){.width = 400,
                                           .depth = -1,
                                           .now_unix_ns = began + 90 * INT64_C(1000000000)});
    show_lacks("ended first");
    write_team(&t, (lam_recording_options){.width = 400,
                                           .depth = -1,
                                           .now_unix_ns = began + 900 * INT64_C(1000000000)});
    show_has("! Rank 2 ended first, and the others could not go on without it: without a word, on far");
    free_team(&t);
}

#define BROKE                                                                                                \
    "UPDATE runs SET calls = 4804, ended_by = 'RuntimeError: [pair.cc:547] Connection closed by peer'"

/* Also if too few steps are in common to name one that is slow. */
static void who_died_is_named_with_what_it_ran_last(void **state) {
    (void)state;
    static const struct {
        const char *first, *said;
    } ends[] = {
        {"UPDATE runs SET calls = 4802, ended_by = 'ValueError: a row of shard 7 is cut'",
         "by ValueError: a row of shard 7 is cut, on "},
        {"UPDATE runs SET calls = 4802, ended_unix_ns = NULL, host = 'far'", "without a word, on far, "},
    };
    for (size_t i = 0; i < 4; i++) {
        team t = team_of(4, i < 2 ? STEPS : 12, 2, ends[i % 2].first, BROKE);
        write_text(&t);
        show_has("! Rank 2 ended first, and the others could not go on without it: ");
        show_has(ends[i % 2].said);
        show_has(i % 2 ? " UTC; it ran last call 4802 of Net or a later one.\n"
                       : " UTC; it ran last call 4802 of Net.\n");
        write_json(&t);
        show_has("\"verdict\": {\"kind\": \"died\", \"ranks\": [2], ");
        show_has("\"ran_last\": \"call 4802 of Net");
        free_team(&t);
    }
    /* All ended by themselves. */
    team t = team_of(4, STEPS, 2, "UPDATE runs SET ended_by = 'end'", "UPDATE runs SET ended_by = 'end'");
    write_text(&t);
    show_lacks("ended first");
    free_team(&t);
}

static void look_at_team(const team *t, lam_ranks_look what, const char *format) {
    write_team(t, (lam_recording_options){.width = 120, .depth = -1, .format = format, .look = &what});
}

static void one_process_stands_beside_the_others(void **state) {
    (void)state;
    team t = team_of(4, STEPS, 2, SLOW_FORWARD, WAITING);
    look_at_team(&t, (lam_ranks_look){.rank = 2}, NULL);
    show_has("Rank 2 on ");
    show_has(
        "! Its own work takes 28 % more than the median of the 3 others with the same layers, from the first "
        "recorded step on.");
    show_has("\npeers ");
    show_has("\nfirst ");
    look_at_team(&t, (lam_ranks_look){.rank = 2}, "json");
    show_has("{\"schema\": \"lamina.ranks/1\"");
    show_has("\"of\": {\"rank\": 2, ");
    look_at_team(&t, (lam_ranks_look){LAM_NOT_KNOWN, NULL, true}, "json");
    show_has("\"layers\": [");
    show_has("{\"layer\": \"second\", \"rank\": ");
    lam_error e = {0};
    const lam_ranks_look none = {.rank = 4};
    const lam_recording_options o = {.look = &none};
    assert_int_equal(lam_recording_write((const lam_recording *const *)t.at, 4, &o, show_sink(), &e),
                     LAM_RANGE);
    assert_string_equal(e.text, "there is no rank 4 in this run: its ranks are 0..3");
    e = (lam_error){0};
    assert_int_equal(lam_recording_write((const lam_recording *const *)t.at, 1, &o, show_sink(), &e),
                     LAM_USAGE);
    assert_non_null(strstr(e.text, "there is one recording"));
    free_team(&t);
}

static void a_copy_of_a_recording_is_left_out(void **state) {
    (void)state;
    team t = team_of(4, STEPS, 2, SLOW_FORWARD, WAITING);
    t.at[t.n++] = open_recording(process(2, 4, STEPS, SLOW_FORWARD), 0, 0);
    write_text(&t);
    show_has("\n1 file is a copy of another here, and left out\n");
    show_has("! Rank 2 slows all: ");
    show_lacks("not of one run");
    free_team(&t);
    /* another process of that rank is no copy */
    t = team_of(4, STEPS, -1, NULL, NULL);
    t.at[t.n++] = open_recording(process(2, 4, STEPS, "UPDATE runs SET pid = 78"), 0, 0);
    write_text(&t);
    show_has("not of one run: two are of the same rank");
    free_team(&t);
}

static void try_verdict(void *arg, bool *ok) {
    const team *t = arg;
    lam_error e = {0};
    const lam_recording_options o = {.depth = -1, .format = "json"}, text = {.depth = -1, .width = 80};
    lam_status s = lam_recording_write((const lam_recording *const *)t->at, t->n, &o, show_sink(), &e);
    if (s == LAM_OK)
        s = lam_recording_write((const lam_recording *const *)t->at, t->n, &text, show_sink(), &e);
    const lam_ranks_look rank = {.rank = 2};
    const lam_recording_options look = {.depth = -1, .look = &rank};
    if (s == LAM_OK)
        s = lam_recording_write((const lam_recording *const *)t->at, t->n, &look, show_sink(), &e);
    *ok = oom_check(s, &e);
}

static void without_memory(void **state) {
    (void)state;
    team t = team_of(4, 24, 2, SLOW_FORWARD, WAITING);
    oom_sweep(try_verdict, &t);
    free_team(&t);
}

/* -- steps of one process ------------------------------------------------------------------------------ */

static lam_recording *alone(const char *sql) { return open_recording(process(0, 1, 96, sql), 0, 0); }

static void write_one(lam_recording *r, const char *format) {
    const team t = {.at = {r}, .n = 1};
    write_team(&t, (lam_recording_options){.width = 400, .format = format, .depth = -1});
}

/* Steps 0, 100, ... 9500 of 100 ms; the first one warms up. */
static void steps_that_became_slower_are_told(void **state) {
    (void)state;
    lam_recording *r =
        alone("UPDATE steps SET whole_ns = whole_ns + 25000000, own_backward_ns = own_backward_ns"
              " + 25000000 WHERE number >= 6400");
    write_one(r, "text");
    show_has("\n! steps became 25.0% slower at step 6,500 (100 ms -> 125 ms), most of it in backward. Look "
             "at what "
             "changed then: ");
    write_one(r, "json");
    show_has("\"stands_out\": \"slower\", \"since_step\": 6500, \"before_ns\": 100000000, \"after_ns\": "
             "125000000, "
             "\"slower_phase\": \"backward\", \"next\": \"Look at what changed then: ");
    lam_recording_free(r);
    /* In two phases alike, and in phases that are unknown. */
    r = alone("UPDATE steps SET whole_ns = whole_ns + 25000000, own_backward_ns = own_backward_ns + 12500000,"
              " own_forward_ns = own_forward_ns + 12500000 WHERE number >= 6400");
    write_one(r, "text");
    show_has("% slower at step 6,500 (100 ms -> 125 ms). Look at");
    lam_recording_free(r);
}

static void what_is_no_lasting_rise_is_not_told(void **state) {
    (void)state;
    static const char *const others[] = {
        NULL,
        /* less than a tenth; faster; a pause; one step in ten; for a while; from the last steps on */
        "UPDATE steps SET whole_ns = whole_ns + 9000000, other_ns = other_ns + 9000000 WHERE number >= 6400",
        "UPDATE steps SET whole_ns = whole_ns + 25000000, other_ns = other_ns + 25000000 WHERE number < 6400",
        "UPDATE steps SET whole_ns = whole_ns * 9, other_ns = other_ns + whole_ns * 8 WHERE number = 6400",
        "UPDATE steps SET whole_ns = whole_ns * 2, other_ns = other_ns + whole_ns WHERE number % 1000 = 0",
        "UPDATE steps SET whole_ns = whole_ns + 25000000, other_ns = other_ns + 25000000"
        " WHERE number BETWEEN 3000 AND 4000",
        "UPDATE steps SET whole_ns = whole_ns + 25000000, other_ns = other_ns + 25000000 WHERE number >= "
        "9000"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        lam_recording *r = alone(others[i]);
        write_one(r, "json");
        show_has("\"stands_out\": \"nothing\", \"since_step\": null");
        lam_recording_free(r);
    }
}

/* It is known what to do about the input. */
static void input_comes_before_slower_steps(void **state) {
    (void)state;
    lam_recording *r = alone("UPDATE steps SET whole_ns = whole_ns + 50000000, input_ns = input_ns + 50000000"
                             " WHERE number >= 6400");
    write_one(r, "text");
    show_has("\n! input takes 1");
    show_lacks("slower");
    lam_recording_free(r);
    r = alone("UPDATE steps SET whole_ns = whole_ns + 50000000, optimizer_ns = optimizer_ns + 50000000;"
              "UPDATE steps SET whole_ns = whole_ns + 50000000, own_forward_ns = own_forward_ns + 50000000"
              " WHERE number >= 6400");
    write_one(r, "text");
    show_has("\n! steps became 33.3% slower at step 6,500 (150 ms -> 200 ms), most of it in forward. ");
    lam_recording_free(r);
}

/* -- held against limits ------------------------------------------------------------------------------- */

static lam_status held(const team *t, const char *limit, const char *also, lam_verdict *verdict,
                       lam_error *e) {
    lam_budget *b;
    lam_check *k = NULL;
    LAM_TRY(lam_budget_new(&b, e));
    lam_status s = lam_budget_max(b, limit, e);
    if (s == LAM_OK && also) s = lam_budget_max(b, also, e);
    if (s == LAM_OK) s = lam_check_recordings(&k, "run", (const lam_recording *const *)t->at, t->n, 0, b, e);
    if (s == LAM_OK) *verdict = lam_check_verdict(k);
    if (s == LAM_OK) s = lam_checks_write((const lam_check *const *)&k, 1, "json", show_sink(), e);
    lam_check_free(k);
    lam_budget_free(b);
    return s;
}

static lam_verdict hold(const team *t, const char *limit, const char *also) {
    lam_error e = {0};
    lam_verdict v = LAM_CHECK_FAILED;
    const lam_status s = held(t, limit, also, &v, &e);
    if (s != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return v;
}

/* The gain of 20 % is the other side of 25 of 125 ms. */
static void who_slows_the_others_is_held_against_a_limit(void **state) {
    (void)state;
    team t = team_of(4, STEPS, 2, SLOW_FORWARD, WAITING);
    assert_int_equal(hold(&t, "straggler=5%", NULL), LAM_OVER);
    show_has("\"metric\": \"straggler\", \"unit\": \"ppm\", \"verdict\": \"over\", \"now\": {\"value\": 20");
    show_has("\"most\": {\"value\": 50000, \"state\": \"exact\"}");
    show_has("\"said\": \"Rank 2 slows all: without it a step would take 20 % less (125 ms -> 100 ms). ");
    show_has("\"ranks\": [2], \"nodes\": []");
    assert_int_equal(hold(&t, "straggler=25%", NULL), LAM_WITHIN);
    show_has("\"said\": null, \"ranks\": [2]");
    assert_int_equal(hold(&t, "straggler=25%", "input=5%"), LAM_WITHIN);
    show_has("\"metric\": \"input\"");
    free_team(&t);
    t = team_of(4, STEPS, -1, NULL, NULL);
    assert_int_equal(hold(&t, "straggler=0%", NULL), LAM_WITHIN);
    show_has("\"now\": {\"value\": 0, \"state\": \"exact\"}");
    show_has("\"ranks\": [], ");
    free_team(&t);
}

static void a_verdict_that_abstains_is_not_within_a_limit(void **state) {
    (void)state;
    char unknown[400];
    team t = team_of(4, 12, 1, SLOW_FORWARD, WAITING);
    assert_int_equal(hold(&t, "straggler=50%", NULL), LAM_NOT_COMPLETE);
    show_has("\"now\": {\"value\": null, \"state\": \"unknown\"}");
    show_has("\"reason\": \"only 11 recorded steps are in common, and 20 are needed\"");
    free_team(&t);
    snprintf(unknown, sizeof unknown, "UPDATE steps SET other_ns = other_ns + wait_ns, wait_ns = NULL");
    t = team_of(4, STEPS, -1, NULL, unknown);
    assert_int_equal(hold(&t, "straggler=50%", NULL), LAM_NOT_COMPLETE);
    show_has("\"now\": {\"value\": 0, \"state\": \"at least\"}");
    free_team(&t);
}

static void what_the_median_process_waits_for_input_is_held_against_a_limit(void **state) {
    (void)state;
    char unknown[200];
    team t = team_of(5, STEPS, 3, SLOW_INPUT, WAITING); /* 1 of 125 ms; rank 3: 26 of 125 */
    assert_int_equal(hold(&t, "input=1%", NULL), LAM_WITHIN);
    show_has("\"now\": {\"value\": 8000, ");
    assert_int_equal(hold(&t, "input=0.5%", NULL), LAM_OVER);
    show_has("\"said\": \"of the median rank; longest waits rank 3, 21 % of its steps\", \"ranks\": [3]");
    free_team(&t);
    /* Unknown in some: at least what the others tell if these wait for nothing. */
    snprintf(unknown, sizeof unknown, "UPDATE steps SET other_ns = other_ns + input_ns, input_ns = NULL");
    t = team_of(5, STEPS, 0, unknown, NULL);
    assert_int_equal(hold(&t, "input=50%", NULL), LAM_NOT_COMPLETE);
    show_has("\"now\": {\"value\": 10000, \"state\": \"at least\"}");
    assert_int_equal(hold(&t, "input=0.9%", NULL), LAM_OVER);
    free_team(&t);
    t = team_of(3, STEPS, -1, NULL, unknown);
    assert_int_equal(hold(&t, "input=50%", NULL), LAM_NOT_COMPLETE);
    show_has("\"reason\": \"no DataLoader of torch was seen\"");
    free_team(&t);
}

static void one_process_has_an_input_and_no_others(void **state) {
    (void)state;
    lam_error e = {0};
    lam_verdict v;
    team t = team_of(1, STEPS, 0, SLOW_INPUT, NULL);
    assert_int_equal(hold(&t, "input=30%", NULL), LAM_WITHIN);
    assert_int_equal(hold(&t, "input=10%", NULL), LAM_OVER);
    show_has("\"said\": \"Give the DataLoader more num_workers, ");
    assert_int_equal(held(&t, "straggler=5%", NULL, &v, &e), LAM_USAGE);
    assert_string_equal(e.where, "straggler");
    assert_string_equal(e.text,
                        "it compares ranks, and one recording has no others; name those of all ranks");
    free_team(&t);
    t.n = 2;
    for (int32_t i = 0; i < 2; i++) t.at[i] = open_recording(process(i, 2 + i, STEPS, NULL), 0, 0);
    e = (lam_error){0};
    assert_int_equal(held(&t, "straggler=5%", NULL, &v, &e), LAM_USAGE);
    assert_string_equal(e.text, "these recordings are not of the ranks of one run: they differ in how many "
                                "processes there were");
    free_team(&t);
}

static void try_limits(void *arg, bool *ok) {
    lam_error e = {0};
    lam_verdict v;
    *ok = oom_check(held(arg, "straggler=5%", "input=1%", &v, &e), &e);
}

static void limits_without_memory(void **state) {
    (void)state;
    team t = team_of(4, 24, 2, SLOW_FORWARD, WAITING);
    oom_sweep(try_limits, &t);
    free_team(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_became_slower_are_told),
        cmocka_unit_test(what_is_no_lasting_rise_is_not_told),
        cmocka_unit_test(input_comes_before_slower_steps),
        cmocka_unit_test(who_slows_the_others_is_held_against_a_limit),
        cmocka_unit_test(a_verdict_that_abstains_is_not_within_a_limit),
        cmocka_unit_test(what_the_median_process_waits_for_input_is_held_against_a_limit),
        cmocka_unit_test(one_process_has_an_input_and_no_others),
        cmocka_unit_test(limits_without_memory),
        cmocka_unit_test(a_slow_forward_is_named),
        cmocka_unit_test(a_slow_layer_is_named),
        cmocka_unit_test(a_slow_input_is_named_of_two),
        cmocka_unit_test(it_says_since_when),
        cmocka_unit_test(steps_are_weighed_by_those_that_they_represent),
        cmocka_unit_test(nobody_is_named_in_a_healthy_run),
        cmocka_unit_test(who_began_other_collectives_is_told),
        cmocka_unit_test(it_abstains_if_there_are_too_few_steps),
        cmocka_unit_test(only_common_steps_count),
        cmocka_unit_test(it_abstains_if_phases_are_unknown),
        cmocka_unit_test(unknown_waiting_is_never_taken_for_work),
        cmocka_unit_test(who_waits_for_a_processor_is_not_slow),
        cmocka_unit_test(what_is_not_of_one_run_has_no_verdict),
        cmocka_unit_test(a_process_that_runs_on_is_not_dead),
        cmocka_unit_test(who_died_is_named_with_what_it_ran_last),
        cmocka_unit_test(one_process_stands_beside_the_others),
        cmocka_unit_test(a_copy_of_a_recording_is_left_out),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
