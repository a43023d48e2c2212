/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of recordings as a whole, held against transcripts. */
#include "kit/oom.h"

#include "kit/recorded.h"

#include "kit/page_text.h"

#include "report/picture/text.h"

/* When a run ended is the clock's; in a test it ends a minute after its start. */
static const char ENDED[] = "UPDATE runs SET seen_unix_ns = started_unix_ns + 60000000000,"
                            " ended_unix_ns = started_unix_ns + 60000000000;";

/* What memory and a device would have added. The last steps take longer, one took much longer than all others
 * and one held much more; one has no time of its own. A NaN is first seen in the second half. */
static const char SEEN[] =
    "UPDATE steps SET peak_bytes = 1000000 + 1000 * number, device_peak_bytes = 2097152 + 4096 * number,"
    " looked = 1 WHERE training;"
    "UPDATE steps SET started_ns = started_ns + (number - 36) * 1000000 WHERE number > 36;"
    "UPDATE steps SET started_ns = started_ns + 70000000 WHERE number > 20;"
    "UPDATE steps SET peak_bytes = 9000000 WHERE number = 7;"
    "UPDATE steps SET forward_ns = 1000000 + 20000 * number, backward_ns = 2000000 - 10000 * number;"
    "UPDATE steps SET forward_ns = NULL WHERE number = 11;"
    "UPDATE steps SET first_bad = 1, bad = 'NaN' WHERE number IN (30, 33);"
    "UPDATE steps SET failed = 1 WHERE number = 15;"
    "UPDATE layers SET peak_bytes = 65536 * (1 + place), nan = 0, inf = 0;"
    "UPDATE layers SET nan = 3 WHERE place = 1 AND step IN (SELECT id FROM steps WHERE number = 30);"
    "UPDATE layers SET forward_ns = forward_ns + step, forward_self_ns = forward_self_ns + step;"
    "UPDATE steps SET whole_ns = 4000000 + number, input_ns = 900000 + 10 * number, h2d_ns = 0,"
    " own_forward_ns = 1500, own_backward_ns = 2205, optimizer_ns = 700000 * (number % 4 = 0) WHERE training;"
    "UPDATE steps SET other_ns = whole_ns - input_ns - own_forward_ns - own_backward_ns - optimizer_ns"
    " WHERE training;"
    "UPDATE runs SET dropped = 2, every = 1;";

static lam_recording *changed(const char *file, const char *sql) {
    change_recording(file, ENDED);
    if (sql) change_recording(file, sql);
    return open_recording(file, 0, 0);
}

/* `n` training steps 5 ms apart, and `others` in eval mode. */
static lam_recording *run_of(const char *name, int32_t n, int32_t others, const char *sql) {
    const char *file = step_file(name);
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < n; i++) step_put(w, i, i ? 1 : 10, true);
    for (int64_t i = 0; i < others; i++) step_put(w, i, 2, false);
    assert_int_equal(lam_recorder_close(w, NULL), LAM_OK);
    return changed(file, sql);
}

static void is_page(const char *name, lam_recording *const *all, int32_t n) {
    lam_error e = {0};
    lam_status s = lam_recording_page((const lam_recording *const *)all, n, show_sink(), &e);
    if (s != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    page_golden(name);
}

static void of_one_run(void **state) {
    (void)state;
    lam_error e = {0};
    lam_recording *r = run_of("whole.lamina", 45, 4, SEEN);
    is_page("page-run", &r, 1);
    assert_int_equal(lam_recording_part(r, show_sink(), &e), LAM_OK);
    page_golden("page-run-part");
    lam_recording_free(r);
}

/* Nothing but times, and more steps of the kind that came last. */
static void of_few_steps(void **state) {
    (void)state;
    lam_recording *r = run_of("two.lamina", 2, 4, "UPDATE steps SET backward_ns = NULL");
    is_page("page-run-two", &r, 1);
    lam_recording_free(r);
    r = run_of("no-step.lamina", 0, 0, NULL);
    is_page("page-run-none", &r, 1);
    lam_recording_free(r);
}

/* A page has 200 layers, and steps of 17 models: the main one and 16 others. */
static void of_many(void **state) {
    (void)state;
    static const char layers[] =
        "WITH RECURSIVE k(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM k WHERE i < %d)"
        " INSERT INTO places SELECT 1, i, 0, 1, 'x' || i, 'X', 0, 0 FROM k;"
        "INSERT INTO layers (step, place, calls, forward_ns, forward_self_ns, backward_ns) SELECT s.id, "
        "p.place, 1,"
        " p.place, p.place, 0 FROM steps s JOIN places p ON p.place > 2;";
    static const char models[] =
        "WITH RECURSIVE k(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM k WHERE i < 18)"
        " INSERT INTO models SELECT i, 1, i, 'Net' || i, 0, 0, 0, 0, 0, 0 FROM k;"
        "INSERT INTO places SELECT m.id, p.place, p.parent, p.depth, p.path, p.type, 0, 0 FROM places p"
        " JOIN models m ON m.id > 1; UPDATE steps SET model = min(1 + number / 2, %d);"
        "DELETE FROM places WHERE model > %d; DELETE FROM models WHERE id > (SELECT max(model) FROM places);";
    for (int more = 0; more < 2; more++) {
        char sql[600];
        snprintf(sql, sizeof sql, layers, 199 + more);
        lam_recording *r = run_of("layers.lamina", 4, 0, sql);
        assert_int_equal(lam_recording_page((const lam_recording *const *)&r, 1, show_sink(), NULL), LAM_OK);
        show_has("<bdi>x4</bdi>");
        (more ? show_lacks : show_has)("<bdi>x3</bdi>");
        if (more)
            show_has("<p class=\"more\">and 1 layers that take less time</p>");
        else
            show_lacks("layers that take less time");
        lam_recording_free(r);
        snprintf(sql, sizeof sql, models, 17 + more, 17 + more);
        r = run_of("kinds.lamina", 42, 0, sql);
        assert_int_equal(lam_recording_page((const lam_recording *const *)&r, 1, show_sink(), NULL), LAM_OK);
        int n = 0;
        for (const char *at = shown; (at = strstr(at, "id=\"steps")) != NULL; at++) n++;
        assert_int_equal(n, 17);
        if (more)
            show_has("<p class=\"more\">and 1 more kinds of steps: <code>lamina show</code></p>");
        else
            show_lacks("more kinds of steps");
        lam_recording_free(r);
    }
}

/* What the lines of the first picture stand for: "0;1 ns;2 ns;". */
static const char *lines_of(lam_recording *r) {
    static const char line[] = "<text class=\"s d r\" x=\"58\"";
    static char got[200];
    size_t n = 0;
    assert_int_equal(lam_recording_page((const lam_recording *const *)&r, 1, show_sink(), NULL), LAM_OK);
    for (const char *s = shown; (s = strstr(s, line)) != NULL; s++) {
        for (const char *text = strchr(s, '>') + 1; *text != '<'; text++) {
            const bool space = strncmp(text, LMI_NARROW, strlen(LMI_NARROW)) == 0;
            got[n++] = space ? ' ' : *text;
            text += space ? strlen(LMI_NARROW) - 1 : 0;
        }
        got[n++] = ';';
    }
    got[n] = '\0';
    lam_recording_free(r);
    return got;
}

/* Lines stand at 1, 2 or 5 times a power of ten, four at most, above the only step's time. */
static void lines_of_a_picture(void **state) {
    (void)state;
    static const struct {
        int64_t ns;
        const char *lines;
    } all[] = {{0, "0;1 ns;"},
               {1, "0;1 ns;2 ns;"},
               {3, "0;1 ns;2 ns;3 ns;4 ns;"},
               {4, "0;2 ns;4 ns;6 ns;"},
               {7, "0;2 ns;4 ns;6 ns;8 ns;"},
               {8, "0;5 ns;10 ns;"},
               {19, "0;5 ns;10 ns;15 ns;20 ns;"},
               {20, "0;10 ns;20 ns;30 ns;"},
               {38, "0;10 ns;20 ns;30 ns;40 ns;"},
               {39, "0;20 ns;40 ns;60 ns;"},
               {1000000, "0;500 µs;1.00 ms;1.50 ms;"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "UPDATE steps SET forward_ns = %lld", (long long)all[i].ns);
        assert_string_equal(lines_of(run_of("lines.lamina", 0, 1, sql)), all[i].lines);
    }
    /* Of a step that none follows it is the sum of both passes. */
    lam_recording *r = run_of("sum.lamina", 2, 0, "UPDATE steps SET forward_ns = 7, backward_ns = 12");
    assert_string_equal(lines_of(r), "0;5 ns;10 ns;15 ns;20 ns;");
}

/* Of three processes one is slow in its first layer, one saw another model, and died. */
static void of_processes(void **state) {
    (void)state;
    static const char *const sql[] = {
        "UPDATE steps SET looked = 1, peak_bytes = 3145728, first_bad = 0, bad = 'Inf' WHERE number = 100",
        "UPDATE steps SET looked = 1, peak_bytes = 1048576; UPDATE runs SET every = 1",
        "UPDATE models SET name = 'Other'; UPDATE runs SET ended_unix_ns = NULL, host = 'elsewhere', dropped "
        "= 1",
    };
    lam_recording *all[] = {changed(step_recording("p0.lamina", 0, 3, 1), sql[0]),
                            changed(step_recording("p1.lamina", 1, 3, 4), sql[1]),
                            changed(step_recording("p2.lamina", 2, 3, 1), sql[2])};
    is_page("page-runs", all, 3);
    for (int i = 0; i < 3; i++) lam_recording_free(all[i]);
    lam_recording *two[] = {changed(step_recording("q0.lamina", 0, 2, 1),
                                    "UPDATE runs SET world = 1; UPDATE steps SET looked = 1"),
                            changed(step_recording("q1.lamina", 0, 1, 2),
                                    "UPDATE steps SET started_ns = 3 * started_ns")};
    is_page("page-runs-two", two, 2);
    for (int i = 0; i < 2; i++) lam_recording_free(two[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_run),         cmocka_unit_test(of_few_steps), cmocka_unit_test(of_many),
        cmocka_unit_test(lines_of_a_picture), cmocka_unit_test(of_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
