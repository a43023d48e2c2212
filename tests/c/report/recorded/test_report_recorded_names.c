/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report of recordings calls things: dates, kinds of steps, files of one name; and the layers that one
 * process waits for. */
#include "kit/oom.h"

#include "kit/step_net.h"

#include "report/recorded/recorded.h"

#include <sqlite3.h>

static lam_recording *opened(const char *file) {
    lam_error e = {0};
    lam_recording *r = NULL;
    if (lam_recording_open(&r, file, 0, 0, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return r;
}

static lam_recording *recorded(const char *name, int32_t rank, int32_t world, const char *sql) {
    const char *file = step_recording(name, rank, world, 1);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql ? sql : "", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    return opened(file);
}

static void dates(void **state) {
    (void)state;
    static const struct {
        int64_t seconds;
        const char *date;
    } all[] = {{0, "1970-01-01 00:00:00 UTC"},           {-1, "1969-12-31 23:59:59 UTC"},
               {59, "1970-01-01 00:00:59 UTC"},          {3599, "1970-01-01 00:59:59 UTC"},
               {86399, "1970-01-01 23:59:59 UTC"},       {86400, "1970-01-02 00:00:00 UTC"},
               {5097599, "1970-02-28 23:59:59 UTC"},     {5097600, "1970-03-01 00:00:00 UTC"},
               {951782400, "2000-02-29 00:00:00 UTC"},   {951868800, "2000-03-01 00:00:00 UTC"},
               {978307199, "2000-12-31 23:59:59 UTC"},   {1709164800, "2024-02-29 00:00:00 UTC"},
               {1735689599, "2024-12-31 23:59:59 UTC"},  {1735689600, "2025-01-01 00:00:00 UTC"},
               {4107542400, "2100-03-01 00:00:00 UTC"},  {4107542399, "2100-02-28 23:59:59 UTC"},
               {-2203891200, "1900-03-01 00:00:00 UTC"}, {-2203891201, "1900-02-28 23:59:59 UTC"}};
    lmi_buf b;
    lmi_buf_init(&b);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int64_t ns = 0; ns < 1000000000; ns += 499999999) {
            lmi_buf_clear(&b);
            lmi_put_when(&b, all[i].seconds * 1000000000 + ns);
            assert_string_equal(lmi_buf_text(&b), all[i].date);
        }
    lmi_buf_free(&b);
}

static void kinds_of_steps(void **state) {
    (void)state;
    const lam_middle some = {5, 0, 1};
    const struct {
        lam_recorded_model m;
        const char *kind;
    } all[] = {{{.training = true, .gradients = 1, .least_calls = 1, .most_calls = 1}, "a training step"},
               {{.training = true, .gradients = -1}, "a training step"},
               {{.training = true, .gradients = 0}, "a training step without gradients"},
               {{.gradients = 0}, "a step in eval mode"},
               {{.gradients = -1}, "a step in eval mode"},
               {{.gradients = 1}, "a step in eval mode with gradients"},
               {{.gradients = 0, .least_calls = 1, .most_calls = 2}, "a step in eval mode of 1 to 2 calls"},
               {{.gradients = 0, .least_calls = 2, .most_calls = 2}, "a step in eval mode of 2 calls"},
               {{.least_calls = 1, .most_calls = 1, .call_ns = some}, "a step in eval mode of 1 call"},
               {{.least_calls = 1, .most_calls = 1, .call_ns = some, .step_ns = some}, "a step in eval mode"},
               {{.training = true, .gradients = 1, .n_kinds = 2}, "a training step without a backward pass"},
               {{.training = true, .gradients = 1, .n_kinds = 1}, "a training step"},
               {{.training = true, .gradients = 1, .n_kinds = 2, .went_back = true}, "a training step"},
               {{.training = true, .gradients = 0, .n_kinds = 2}, "a training step without gradients"},
               {{.gradients = 1, .n_kinds = 2, .least_calls = 3, .most_calls = 3},
                "a step in eval mode with gradients of 3 calls"}};
    lmi_buf b;
    lmi_buf_init(&b);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_buf_clear(&b);
        lmi_put_kind(&b, &all[i].m);
        assert_string_equal(lmi_buf_text(&b), all[i].kind);
    }
    lmi_buf_free(&b);
}

/* Files of one rank go by their names, and by all of their paths where two have one name. */
static void names_of_recordings(void **state) {
    (void)state;
    char folder[200], other[260], first[260];
    snprintf(first, sizeof first, "%s", step_recording("same.lamina", 0, 1, 1));
    snprintf(folder, sizeof folder, "%s", step_file("folder"));
    snprintf(other, sizeof other, "%s/same.lamina", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(rename(step_recording("moved.lamina", 0, 1, 2), other), 0);
    lam_recording *all[] = {opened(first), opened(other), recorded("b.lamina", 0, 1, NULL),
                            recorded("z.lamina", 0, 1, NULL)};
    const char *names[] = {first, other, "b.lamina", "z.lamina"};
    for (int32_t n = 1; n <= 4; n++) {
        lmi_recorded w = {.all = (const lam_recording *const *)all, .n = n};
        lmi_buf b;
        lmi_buf_init(&b);
        assert_int_equal(lmi_recorded_names(&w), LAM_OK);
        assert_int_equal(w.by_rank, n == 1);
        for (int32_t i = 0; i < n; i++) {
            lmi_buf_clear(&b);
            lmi_put_which(&b, &w, i);
            assert_string_equal(lmi_buf_text(&b), n == 1 ? "rank 0" : names[i]);
        }
        lmi_buf_free(&b);
        free(w.names);
    }
    for (int i = 0; i < 4; i++) lam_recording_free(all[i]);
}

/* Of more layers than are told, those with the largest differences, the largest first. */
static void many_stragglers(void **state) {
    (void)state;
    static const char more[] =
        "WITH RECURSIVE k(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM k WHERE i < 30)"
        " INSERT INTO places SELECT 1, i, 0, 1, 'x' || i, 'X', 0, 0 FROM k;"
        "INSERT INTO layers (step, place, calls, forward_ns, forward_self_ns, backward_ns)"
        " SELECT s.id, p.place, 1, 100, 100 + %d * (p.place * 7 %% 31), 0 FROM steps s JOIN places p ON "
        "p.place > 2;";
    char sql[2][600];
    for (int i = 0; i < 2; i++) snprintf(sql[i], sizeof sql[i], more, i);
    lam_recording *all[] = {recorded("s.lamina", 0, 3, sql[0]), recorded("t.lamina", 1, 3, sql[1]),
                            recorded("u.lamina", 2, 3, sql[0])};
    lmi_recorded w = {.all = (const lam_recording *const *)all, .n = 3};
    lmi_straggler found[LMI_STRAGGLERS];
    int32_t n = 0;
    assert_int_equal(lmi_stragglers(&w, found, &n), LAM_OK);
    assert_int_equal(n, LMI_STRAGGLERS);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(found[i].which, 1);
        assert_int_equal(found[i].among, 100);
        assert_int_equal(found[i].slowest, 130 - i);
        assert_string_equal(found[i].model, "Net");
        int32_t place = 0;
        while (place * 7 % 31 != 30 - i) place++;
        char path[16];
        snprintf(path, sizeof path, "x%d", (int)place);
        assert_string_equal(found[i].place->path, path);
    }
    for (int i = 0; i < 3; i++) lam_recording_free(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates),
        cmocka_unit_test(kinds_of_steps),
        cmocka_unit_test(names_of_recordings),
        cmocka_unit_test(many_stragglers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
