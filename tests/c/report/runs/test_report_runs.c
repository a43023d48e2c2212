/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings as a page: its numbers, steps that are thinned, processes side by side, names of strangers. */
#include "kit/oom.h"

#include "kit/recorded.h"

#include "kit/shown.h"

#include "report/picture/text.h"
#include "report/runs/series.h"

#define S LMI_NARROW

static const char *paged(lam_recording *const *all, int32_t n) {
    lam_error e = {0};
    lam_status s = lam_recording_page((const lam_recording *const *)all, n, show_sink(), &e);
    if (s != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return shown;
}

static lam_recording *recorded(const char *name, int32_t rank, int32_t world, int64_t slow, const char *sql) {
    const char *file = step_recording(name, rank, world, slow);
    if (sql) change_recording(file, sql);
    return open_recording(file, 0, 0);
}

/* Steps begin 5 ms apart for each number; forward is 100 + 1000 + 400 ns, of the 3700 ns of all layers
 * `first` has 1000 + 1500, which are 67.6 %. */
static void numbers_of_a_run(void **state) {
    (void)state;
    lam_recording *r = recorded("run.lamina", 0, 1, 1, NULL);
    paged(&r, 1);
    show_has("steps recorded</span><span class=\"v\">6</span>");
    show_has("the newest is step 500");
    show_has("median step</span><span class=\"v\">5.00" S "ms</span><span class=\"w\">±" S "0" S
             "ns, 4 steps");
    show_has("forward</span><span class=\"v\">1.50" S "µs</span>");
    /* Bars of 50: of the model's forward and backward, and the share; the largest share comes first. */
    show_has("<td class=\"n w33\">1.00" S "µs</td><td class=\"n w34\">1.50" S
             "µs</td><td class=\"n hot w34\">68" S "%</td>");
    show_has("<td class=\"n w13\">400" S "ns</td><td class=\"n w16\">700" S
             "ns</td><td class=\"n hot w15\">30" S "%</td>");
    show_has("<td class=\"n w50\">1.50" S "µs</td><td class=\"n w50\">2.20" S
             "µs</td><td class=\"n hot w1\">2.7" S "%</td>");
    const char *first = strstr(shown, "<th scope=\"row\"><code><bdi>first</bdi>"),
               *second = strstr(shown, "<th scope=\"row\"><code><bdi>second</bdi>"),
               *root = strstr(shown, "<th scope=\"row\"><code><bdi>Net</bdi>");
    assert_true(first && first < second && second < root);
    show_has(" role=\"img\" aria-label=\"Time of steps, by phase");
    show_lacks("xmlns");
    show_has("too few steps to compare");
    show_has("python train.py");
    show_has("2023-11-14 22:13:20 UTC");
    show_has("script-src 'none'");
    show_lacks("<script");
    show_lacks(" style=\"");
    show_lacks("id=\"ranks\"");
    show_lacks("Peak of memory");
    show_lacks("NaN");
    lam_recording_free(r);
}

static void memory_and_health(void **state) {
    (void)state;
    lam_recording *r =
        recorded("bad.lamina", 0, 1, 1,
                 "UPDATE steps SET peak_bytes = 5242880, looked = 1;"
                 "UPDATE steps SET first_bad = 1, bad = 'NaN' WHERE number = 200;"
                 "UPDATE runs SET dropped = 2; UPDATE steps SET failed = 1 WHERE number = 400;");
    paged(&r, 1);
    show_has("peak memory</span><span class=\"v\">5.00" S "MiB");
    show_has("<b>NaN or Inf in 1 step</b>, in step 200, made by <code><bdi>first</bdi></code>.");
    show_has(">first NaN or Inf: step 200</text>");
    show_has(
        "<li class=\"warn\"><span class=\"ic\" aria-hidden=\"true\">!</span><span><b>2 steps</b> could not "
        "be written in time.</span></li>");
    show_has("<b>1 step</b> raised an exception.");
    lam_recording_free(r);
    r = recorded("good.lamina", 0, 1, 1, "UPDATE steps SET looked = 1");
    paged(&r, 1);
    show_has("<b>No NaN and no Inf</b>");
    lam_recording_free(r);
}

static void steps_one_by_one(void **state) {
    (void)state;
    lam_recording *r = recorded("steps.lamina", 0, 1, 1, "UPDATE steps SET failed = 1 WHERE number = 300");
    lam_recorded_step s;
    assert_false(lam_recording_step(r, 0, 6, &s));
    assert_false(lam_recording_step(r, 0, -1, &s));
    assert_false(lam_recording_step(r, 9, 0, &s));
    assert_true(lam_recording_step(r, 0, 0, &s));
    assert_int_equal(s.number, 0);
    assert_false(s.counts);
    assert_int_equal(s.step_ns, -1);
    assert_true(lam_recording_step(r, 0, 2, &s)); /* the next one raised: it goes to the one after */
    assert_int_equal(s.number, 200);
    assert_int_equal(s.step_ns, 5000000);
    assert_int_equal(s.forward_ns, 1500);
    assert_true(lam_recording_step(r, 0, 3, &s));
    assert_true(s.failed && !s.counts);
    assert_true(lam_recording_step(r, 0, 5, &s));
    assert_int_equal(s.step_ns, -1);
    lam_recording_free(r);
}

/* From start to start, else the sum of the passes that are known. */
static void time_of_a_step(void **state) {
    (void)state;
    static const int64_t all[][4] = {{7, 1, 2, 7},     {0, 1, 2, 0},           {-1, 1, 2, 3},
                                     {-1, 0, 0, 0},    {-1, 4, -1, 4},         {-1, -1, 2, -1},
                                     {-1, -1, -1, -1}, {-1, INT64_MAX, 1, -1}, {-1, INT64_MAX, 0, INT64_MAX}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const lam_recorded_step s = {.step_ns = all[i][0], .forward_ns = all[i][1], .backward_ns = all[i][2]};
        assert_int_equal(lmi_series_time(&s), all[i][3]);
    }
}

/* 1200 steps, of which the last tenth is half as fast again: 600 pieces of two. */
static void many_steps(void **state) {
    (void)state;
    const char *file = step_file("many.lamina");
    lam_error e = {0};
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < 1201; i++) {
        step_put(w, i, 1, true);
        if (i == 600) wait_for_steps(file, i + 1); /* as many as all of them would not be queued */
    }
    assert_int_equal(lam_recorder_close(w, &e), LAM_OK);
    change_recording(file, "UPDATE steps SET peak_bytes = number; UPDATE steps SET started_ns = started_ns +"
                           " (number - 1080) * 2500000 WHERE number > 1080");
    lam_recording *r = open_recording(file, 0, 0);
    lmi_series *s = calloc(1, sizeof *s);
    assert_int_equal(lmi_series_take(s, r, 0, &e), LAM_OK);
    assert_int_equal(s->all, 1200);
    assert_int_equal(s->n, LMI_RUNS_POINTS);
    for (int32_t k = 0; k < s->n; k++) {
        assert_int_equal(s->at[k].number, k < 599 ? 2 * k + 1 : 1200); /* the last has no next one */
        assert_int_equal(s->at[k].peak_bytes, 2 * k + 2);
    }
    assert_int_equal(s->first, 5000000);
    assert_int_equal(s->last, 7500000);
    change_recording(file, "UPDATE steps SET started_ns = started_ns + 900000000 WHERE number > 600;"
                           "UPDATE steps SET peak_bytes = 900000 WHERE number = 7");
    lam_recording_free(r);
    r = open_recording(file, 0, 0);
    paged(&r, 1);
    show_has("<path class=\"bd\" d=\"M"); /* the step before the pause, and the peak of step 7 */
    show_has("1 point is cut off above, marked at the top, the highest at 879" S "KiB.");
    show_has("1" S "200 steps in 600 pieces");
    show_has("+50.0" S "%");
    show_has("<b>Steps became slower</b>: 5.00" S "ms in the first tenth of the run, 7.50" S
             "ms in the last.");
    free(s);
    lam_recording_free(r);
}

/* 41 steps that begin 5 ms apart, the last ones `late` ns more. */
static lam_recording *lasting(const char *name, int32_t rank, int32_t world, int64_t late) {
    const char *file = step_file(name);
    char sql[128];
    lam_recorder *w = step_recorder(file, rank, world);
    for (int64_t i = 0; i < 41; i++) step_put(w, i, 1, true);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    snprintf(sql, sizeof sql,
             "UPDATE steps SET started_ns = started_ns + (number - 36) * %lld WHERE number > 36",
             (long long)late);
    change_recording(file, sql);
    return open_recording(file, 0, 0);
}

/* Of two or more, the one that became slower is named; one that saw nothing says nothing. */
static void one_of_them_became_slower(void **state) {
    (void)state;
    lam_error e = {0};
    const char *file = step_file("nothing.lamina");
    assert_int_equal(lam_recorder_close(step_recorder(file, 2, 3), &e), LAM_OK);
    lam_recording *all[] = {lasting("l0.lamina", 0, 3, 0), lasting("l1.lamina", 1, 3, 2500000),
                            open_recording(file, 0, 0)};
    for (int32_t n = 2; n <= 3; n++) {
        paged(all, n);
        show_has("<b>Steps became slower</b>, most in <bdi>rank 1</bdi>: 5.00" S
                 "ms in the first tenth of the run, 7.50" S "ms in the last.");
    }
    paged(all, 1);
    show_lacks("became slower");
    for (int i = 0; i < 3; i++) lam_recording_free(all[i]);
}

/* Of rank 1 the layer `first` takes 3 times as long: 3000 + 1500 ns against 1000 + 1500. */
static void side_by_side(void **state) {
    (void)state;
    lam_recording *all[] = {recorded("r0.lamina", 0, 3, 1, NULL), recorded("r1.lamina", 1, 3, 3, NULL),
                            recorded("r2.lamina", 2, 3, 1, NULL)};
    paged(all, 3);
    show_has("<h2 id=\"h-ranks\">Side by side</h2>");
    show_has("<bdi>rank 1</bdi></td><td class=\"n\">4.50" S "µs</td><td class=\"n\">2.50" S
             "µs</td><td class=\"n w50\">2.00" S "µs</td>");
    show_has("<h3>Rank 2 of 3</h3>");
    for (int i = 0; i < 3; i++) lam_recording_free(all[i]);
}

/* What the verdict says is of all of them: times of the slowest, counts of each. */
static void verdict_of_all(void **state) {
    (void)state;
    lam_recording *all[] = {
        recorded("v0.lamina", 0, 3, 1, "UPDATE steps SET looked = 1, peak_bytes = 1048576"),
        recorded("v1.lamina", 1, 3, 3,
                 "UPDATE steps SET looked = 1, peak_bytes = 2097152; UPDATE runs SET dropped = 3;"
                 "UPDATE steps SET first_bad = 1, bad = 'NaN' WHERE number >= 300"),
        recorded(
            "v2.lamina", 2, 3, 1,
            "UPDATE steps SET looked = 1; UPDATE steps SET first_bad = 1, bad = 'Inf' WHERE number = 200;"
            "UPDATE runs SET dropped = 1; UPDATE steps SET failed = 1 WHERE number = 400")};
    paged(all, 3);
    show_has("3 recordings: counts are of all, times and memory of the worst");
    show_has("steps recorded</span><span class=\"v\">17</span>");
    show_has("forward</span><span class=\"v\">3.50" S
             "µs</span><span class=\"w\">slowest of 3: <bdi>rank 1</bdi>, ±");
    show_has("peak memory</span><span class=\"v\">2.00" S
             "MiB</span><span class=\"w\">most of 3: <bdi>rank 1</bdi>, ±");
    show_has("first in step 200 of <bdi>rank 2</bdi>, made by <code><bdi>first</bdi></code>.");
    show_has("<b>4 steps</b> could not be written in time.");
    show_has("<b>1 step</b> raised an exception.");
    show_lacks("numbers of the first");
    for (int i = 0; i < 3; i++) lam_recording_free(all[i]);
}

static void names_of_strangers(void **state) {
    (void)state;
    lam_recording *r = recorded("evil.lamina", 0, 1, 1,
                                "UPDATE models SET name = '</title><script>alert(1)</script>';"
                                "UPDATE places SET path = '\"><img src=x>', type = '<b onload=x>';"
                                "UPDATE runs SET command = '</style><script>', host = '<i>', torch = '&',"
                                " lamina = '</section>';"
                                "UPDATE steps SET forward_ns = 1125899906842624, number = number * 1000007,"
                                " backward_ns = 1125899906842624, peak_bytes = 1125899906842624");
    paged(&r, 1);
    show_lacks("<script");
    show_lacks("<img");
    show_lacks("<b onload");
    show_lacks("<i></bdi>");
    show_has("&lt;script&gt;alert(1)");
    lam_recording_free(r);
}

/* What a notebook shows: the same numbers, and nothing that may be in a document once only. */
static void a_part(void **state) {
    (void)state;
    lam_error e = {0};
    lam_recording *r = recorded("part.lamina", 0, 1, 1, NULL);
    assert_int_equal(lam_recording_part(r, show_sink(), &e), LAM_OK);
    show_has("<div class=\"lamina\" role=\"group\" aria-label=\"lamina: recording\">");
    show_has("steps recorded</span><span class=\"v\">6</span>");
    show_has("<td class=\"n hot w34\">68" S "%</td>");
    static const char *const never[] = {" id=", "<h1", "<section", "<script", "href=", "role=\"region\""};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) show_lacks(never[i]);
    assert_int_equal(lam_recording_part(NULL, show_sink(), &e), LAM_USAGE);
    lam_recording_free(r);
}

static void nothing_was_seen(void **state) {
    (void)state;
    const char *file = step_file("none.lamina");
    lam_error e = {0};
    assert_int_equal(lam_recorder_close(step_recorder(file, 0, 1), &e), LAM_OK);
    lam_recording *r = open_recording(file, 0, 0);
    paged(&r, 1);
    show_has("Nothing was recorded yet");
    show_has("How it was measured");
    show_lacks("<svg");
    lam_recording_free(r);
    assert_int_equal(lam_recording_page(NULL, 0, show_sink(), &e), LAM_USAGE);
    r = recorded("refused.lamina", 0, 1, 1, NULL);
    assert_int_equal(lam_recording_page((const lam_recording *const *)&r, 1, show_refusing(), &e), LAM_IO);
    lam_recording_free(r);
}

static void try_page(void *arg, bool *ok) {
    lam_error e = {0};
    *ok = oom_check(lam_recording_page((const lam_recording *const *)arg, 2, show_sink(), &e), &e);
}

static void memory_may_run_out(void **state) {
    (void)state;
    lam_recording *all[] = {recorded("s0.lamina", 0, 2, 1, "UPDATE steps SET peak_bytes = 7"),
                            recorded("s1.lamina", 1, 2, 3, NULL)};
    oom_sweep(try_page, all);
    for (int i = 0; i < 2; i++) lam_recording_free(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_a_run), cmocka_unit_test(memory_and_health),
        cmocka_unit_test(steps_one_by_one), cmocka_unit_test(time_of_a_step),
        cmocka_unit_test(many_steps),       cmocka_unit_test(side_by_side),
        cmocka_unit_test(verdict_of_all),   cmocka_unit_test(names_of_strangers),
        cmocka_unit_test(nothing_was_seen), cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(a_part),           cmocka_unit_test(one_of_them_became_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
