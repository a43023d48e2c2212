/* SPDX-License-Identifier: Apache-2.0
 *
 * Rollups: medians of many steps without their rows, within one per cent of what the rows say. */
#include "kit/oom.h"
#include "kit/recorded.h"
#include "store/bins.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>

static uint64_t seed = 88172645463325252u;

static uint64_t any(uint64_t below) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed % below;
}

/* -- bins -------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t median(int64_t *of, size_t n) {
    qsort(of, n, sizeof *of, by_size);
    return of[(n - 1) / 2] + (of[n / 2] - of[(n - 1) / 2]) / 2;
}

static void near(int64_t told, int64_t right, int64_t scale, const char *what) {
    const int64_t away = told < right ? right - told : told - right;
    if (away > scale / 100) fail_msg("%s: %lld is told as %lld", what, (long long)right, (long long)told);
}

static void check_bins(const int64_t *values, size_t n, bool exact) {
    int64_t sorted[500];
    lmi_bins b = {0};
    for (size_t i = 0; i < n; i++) assert_true(lmi_bins_add(&b, values[i], 1));
    memcpy(sorted, values, n * sizeof *values);
    const lam_middle m = lmi_bins_middle(&b);
    const int64_t right = median(sorted, n);
    assert_int_equal(m.n, n);
    near(m.median, right, exact ? 0 : right, "median");
    for (size_t i = 0; i < n; i++) sorted[i] = sorted[i] < right ? right - sorted[i] : sorted[i] - right;
    near(m.deviation, median(sorted, n), exact ? 0 : 2 * right, "deviation");
    lmi_bins_free(&b);
}

static void medians_are_near(void **state) {
    (void)state;
    int64_t values[500];
    for (int round = 0; round < rounds(2000); round++) {
        const size_t n = 1 + any(500);
        const bool small = round % 2;
        const double base = pow(2, 8 + (double)any(44)), spread = (double)any(100) / 50;
        for (size_t i = 0; i < n; i++)
            values[i] =
                small ? (int64_t)any(256) : (int64_t)(base * exp(spread * ((double)any(1000) / 1000 - 0.5)));
        check_bins(values, n, small);
    }
}

static void what_is_unknown_is_left_out(void **state) {
    (void)state;
    lmi_bins b = {0};
    assert_true(lmi_bins_add(&b, -1, 1));
    assert_int_equal(lmi_bins_middle(&b).n, 0);
    assert_true(lmi_bins_add(&b, 0, 1) && lmi_bins_add(&b, -1, 1) && lmi_bins_add(&b, LMI_MOST, 1));
    assert_int_equal(lmi_bins_middle(&b).n, 2);
    assert_true(b.all[1].at < LMI_BINS);
    lmi_bins_free(&b);
}

/* A number with a weight counts as often as that. */
static void weights_count_as_repetitions(void **state) {
    (void)state;
    for (int round = 0; round < rounds(500); round++) {
        lmi_bins weighed = {0}, repeated = {0};
        const size_t n = 1 + any(40);
        for (size_t i = 0; i < n; i++) {
            const int64_t value = (int64_t)any(UINT64_C(1) << any(30)), weight = 1 + (int64_t)any(100);
            assert_true(lmi_bins_add(&weighed, value, weight));
            for (int64_t k = 0; k < weight; k++) assert_true(lmi_bins_add(&repeated, value, 1));
        }
        const lam_middle a = lmi_bins_middle(&weighed), b = lmi_bins_middle(&repeated);
        assert_int_equal(a.median, b.median);
        assert_int_equal(a.deviation, b.deviation);
        assert_int_equal(a.n, n);
        lmi_bins_free(&weighed);
        lmi_bins_free(&repeated);
    }
}

static void bins_come_back_from_bytes(void **state) {
    (void)state;
    lmi_bins b = {0}, back = {0};
    lmi_buf bytes;
    lmi_buf_init(&bytes);
    for (int i = 0; i < 3000; i++) assert_true(lmi_bins_add(&b, (int64_t)any(UINT64_C(1) << any(53)), 1));
    lmi_bins_put(&b, &bytes);
    const unsigned char *all = (const unsigned char *)bytes.s, *at = all, *end = all + bytes.n;
    assert_int_equal(lmi_bins_get(&back, &at, end, 3000, 1, false), LAM_OK);
    assert_ptr_equal(at, end);
    assert_int_equal(back.n, b.n);
    for (uint32_t i = 0; i < b.n; i++)
        assert_true(back.all[i].at == b.all[i].at && back.all[i].n == b.all[i].n);
    at = all;
    assert_int_equal(lmi_bins_get(&back, &at, end, 3000, 1, false), LAM_OK); /* they are added */
    assert_int_equal(lmi_bins_middle(&back).n, 6000);
    lmi_bins_free(&back);
    at = all;
    assert_int_equal(lmi_bins_get(&back, &at, end, 2999, 1, false), LAM_RANGE);
    for (size_t n = 0; n < bytes.n; n++) {
        lmi_bins_free(&back);
        at = all;
        assert_int_equal(lmi_bins_get(&back, &at, all + n, 3000, 1, false), LAM_RANGE);
    }
    lmi_bins_free(&back);
    lmi_bins_free(&b);
    lmi_buf_free(&bytes);
}

static void bytes_that_are_no_bins(void **state) {
    (void)state;
    static const struct {
        unsigned char bytes[8];
        size_t n;
        bool old;
    } bad[] = {
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, 8, true}, /* a number without an end */
        {{0xff, 0x7f}, 2, true},                                  /* more bins than there are */
        {{1, 0x80, 0x30, 1}, 4, true},                            /* one behind the last */
        {{2, 5, 1, 0, 1}, 5, true},                               /* the same again */
        {{1, 5, 0}, 3, true},                                     /* one with nothing in it */
        {{2, 5, 1, 0xff, 0x2f, 1}, 6, true},                      /* beyond the last in two steps */
        {{1, 5, 0xff, 0xff, 0xff, 0xff, 0x7f}, 7, true},          /* too many for 32 bits */
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, 8, false},
        {{0xff, 0xff, 0x7f}, 3, false},
        {{0xfe, 0x7f}, 2, false},
        {{2, 0x80, 0x32}, 3, false},     /* one behind the last */
        {{4, 10, 0}, 3, false},          /* the same again */
        {{2, 11, 0}, 3, false},          /* one with nothing in it */
        {{4, 10, 0xfe, 0x31}, 4, false}, /* beyond the last in two steps */
        {{2, 11, 0xff, 0xff, 0xff, 0xff, 0x7f}, 7, false},
        {{3}, 1, false}, /* those of another number, which is not told here */
        {{4, 10}, 2, false},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lmi_bins b = {0};
        const unsigned char *at = bad[i].bytes;
        if (lmi_bins_get(&b, &at, at + bad[i].n, INT64_MAX, 1, bad[i].old) != LAM_RANGE)
            fail_msg("bytes %d are bins", (int)i);
        lmi_bins_free(&b);
    }
}

/* A bin of before version 7: 128 for each power of two. */
static uint32_t old_bin(int64_t value) {
    uint32_t shift = 0;
    while (value >> shift >= 256) shift++;
    return shift * 128 + (uint32_t)(value >> shift);
}

static void old_bins_are_halves_of_new_ones(void **state) {
    (void)state;
    for (int round = 0; round < rounds(3000); round++) {
        const int64_t value = (int64_t)any(UINT64_C(1) << (1 + any(52)));
        lmi_bins a = {0}, b = {0};
        lmi_buf bytes;
        lmi_buf_init(&bytes);
        lmi_put_varint(&bytes, 1);
        lmi_put_varint(&bytes, old_bin(value));
        lmi_put_varint(&bytes, 3);
        const unsigned char *at = (const unsigned char *)bytes.s;
        assert_int_equal(lmi_bins_get(&a, &at, at + bytes.n, 3, 1, true), LAM_OK);
        for (int i = 0; i < 3; i++) assert_true(lmi_bins_add(&b, value, 1));
        assert_true(a.n == 1 && b.n == 1 && a.all[0].at == b.all[0].at && a.all[0].n == 3);
        lmi_bins_free(&a);
        lmi_bins_free(&b);
        lmi_buf_free(&bytes);
    }
}

/* -- recordings -------------------------------------------------------------------------------- */

typedef void (*kind_of)(lmi_packet *p, int64_t i);

/* How far apart steps are; and whether nothing is rolled up, to be compared with. */
static int64_t apart_ns;
static bool only_rows;

static void keep_rows(const lmi_rows *w) {
    lmi_model_rows *told = lmi_vec_at(&w->models, 0);
    for (int k = 0; only_rows && k < LMI_MODES; k++) told->of[k].steps.n = 0;
}

/* Steps with times that vary; `kind` makes them unlike. No thread takes part, so none is dropped. */
static void put_steps(lmi_rows *w, int64_t from, int64_t to, kind_of kind) {
    lam_error e = {0};
    const lam_step_info info = {.name = "Net", .training = true, .gradients = true};
    lam_model *m = step_model(1, true);
    lmi_packet *tree = from ? NULL : lmi_packet_tree(m, &info);
    assert_int_equal(lmi_db_run(w->db, "BEGIN", &e), LAM_OK);
    if (tree) assert_int_equal(lmi_rows_put(w, tree, &e), LAM_OK);
    lmi_packet_free(tree);
    for (int64_t i = from; i < to; i++) {
        lmi_packet *p = lmi_packet_step(m, &info);
        p->number = i;
        p->t0_ns = 1 + i * 5000000;
        p->unix_ns = i * apart_ns;
        for (int32_t k = 0; k < p->n_rows; k++) {
            p->rows[k].forward += 1000 + (int64_t)any(100000);
            p->rows[k].self += (int64_t)any(900);
            p->rows[k].backward += (int64_t)any(5000);
            p->rows[k].nan = i % 7 ? 0 : 3;
            p->rows[k].inf = 0;
        }
        if (kind) kind(p, i);
        if (lmi_rows_put(w, p, &e) != LAM_OK) fail_msg("%s", e.text);
        keep_rows(w);
        lmi_packet_free(p);
    }
    assert_int_equal(lmi_db_run(w->db, "COMMIT", &e), LAM_OK);
    lam_model_free(m);
}

static const char *many_steps_by(const char *name, int32_t every, int64_t n, kind_of kind) {
    const char *file = step_file(name);
    const lam_run_info info = {.every = every, .unix_ns = 1};
    lam_error e = {0};
    lmi_db db;
    lmi_rows w;
    assert_int_equal(lmi_db_open(&db, file, &e), LAM_OK);
    assert_int_equal(lmi_rows_open(&w, &db, &info, &e), LAM_OK);
    put_steps(&w, 0, n, kind);
    lmi_rows_close(&w);
    lmi_db_close(&db);
    return file;
}

static const char *many_steps(const char *name, int64_t n, kind_of kind) {
    return many_steps_by(name, 1, n, kind);
}

static void same_middles(const lam_recorded_place *a, const lam_recorded_place *b) {
    assert_int_equal(a->n_steps, b->n_steps);
    assert_int_equal(a->nonfinite, b->nonfinite);
    for (int k = 0; k < LMI_N_NUMBERS; k++) {
        const lam_middle *x = (const lam_middle *)((const char *)a + lmi_numbers[k].place),
                         *y = (const lam_middle *)((const char *)b + lmi_numbers[k].place);
        assert_int_equal(x->n, y->n);
        near(x->median, y->median, y->median, "median");
        near(x->deviation, y->deviation, 2 * y->median, "deviation");
    }
    near(a->own_ns, b->own_ns, b->own_ns, "own time");
}

/* The same steps twice, once without rollups: what is read is the same. Returns the file that has rollups. */
static const char *compare(const char *name, int32_t every, int64_t n, kind_of kind, int32_t kinds) {
    const uint64_t first = seed;
    const char *file = many_steps_by(name, every, n, kind);
    seed = first;
    only_rows = true;
    const char *rows = many_steps_by("rows.lamina", every, n, kind);
    only_rows = false;
    lam_recording *a = open_recording(file, 0, 0), *b = open_recording(rows, 0, 0);
    assert_true(number_in(file, "SELECT count(*) FROM rollups") > 0);
    assert_int_equal(number_in(rows, "SELECT count(*) FROM rollups"), 0);
    assert_int_equal(lam_recording_run(a)->n_models, kinds);
    assert_int_equal(lam_recording_run(b)->n_models, kinds);
    for (int32_t i = 0; i < kinds; i++) {
        assert_int_equal(lam_recording_model(a, i)->n_steps, lam_recording_model(b, i)->n_steps);
        for (int32_t k = 0; k < 3; k++)
            same_middles(lam_recording_place(a, i, k), lam_recording_place(b, i, k));
    }
    lam_recording_free(a);
    lam_recording_free(b);
    return file;
}

enum { STEPS = 2 * LMI_ROLL_UP + LMI_RAW + 44 };

static void rollups_say_what_rows_say(void **state) {
    (void)state;
    const char *file = compare("one.lamina", 1, STEPS, NULL, 1);
    assert_int_equal(number_in(file, "SELECT sum(steps) FROM rollups"),
                     2 * LMI_ROLL_UP - 1); /* not the first */
    assert_int_equal(number_in(file, "SELECT count(DISTINCT step) FROM layers"), STEPS - 2 * LMI_ROLL_UP);
}

/* 120 steps that represent fewer than the others, and are slower. */
static void thinned(lmi_packet *p, int64_t i) {
    p->number = i < 120 ? i : 1700 + 100 * (i - 120);
    for (int32_t k = 0; i < 120 && k < p->n_rows; k++) p->rows[k].forward += 1000000;
}

static void rollups_have_steps_of_one_weight(void **state) {
    (void)state;
    const char *file = compare("thinned.lamina", LAM_THINNING, STEPS, thinned, 1);
    assert_int_equal(number_in(file, "SELECT sum(steps) FROM rollups"), 2 * LMI_ROLL_UP - 120);
    assert_int_equal(number_in(file, "SELECT count(DISTINCT step) FROM layers"),
                     120 + STEPS - 2 * LMI_ROLL_UP);
}

static void words(lmi_packet *p, int64_t i) {
    p->calls = 1 + i % 9;
    p->failed = i % 50 == 0;
    p->gradients = p->training = i % 4 != 0;
}

#define HOUR_NS (INT64_C(3600) * 1000000000)

/* A step each 50 seconds: 72 an hour. Each hour is written once, when it and the newest 256 steps are past.
 */
static void an_hour_is_written_once(void **state) {
    (void)state;
    enum { BY_HOUR = 72, HOURS = 10, N = BY_HOUR * HOURS + LMI_RAW };
    apart_ns = HOUR_NS / BY_HOUR;
    const char *file = compare("hours.lamina", 1, N, NULL, 1);
    apart_ns = 0;
    assert_int_equal(number_in(file, "SELECT count(*) FROM rollups"), HOURS);
    assert_int_equal(number_in(file, "SELECT count(*) FROM rollups WHERE steps = 72"), HOURS - 1);
    assert_int_equal(number_in(file, "SELECT max(id) FROM rollups"), HOURS);
    assert_int_equal(number_in(file, "SELECT count(*) FROM rollups WHERE from_unix_ns % 3600000000000"), 0);
    assert_int_equal(number_in(file, "SELECT count(DISTINCT step) FROM layers"), LMI_RAW);
    assert_int_equal(number_in(file, "SELECT count(*) FROM steps"), N); /* of which all have their times */
}

/* Thousands of steps in an hour: its parts are merged when it has passed. */
static void parts_of_an_hour_become_one(void **state) {
    (void)state;
    enum { BY_HOUR = 2 * LMI_ROLL_UP + 500 };
    apart_ns = HOUR_NS / BY_HOUR + 1;
    const char *file = compare("parts.lamina", 1, 3 * BY_HOUR, NULL, 1);
    apart_ns = 0;
    assert_int_equal(number_in(file, "SELECT count(*) FROM rollups WHERE from_unix_ns = 0"), 1);
    assert_int_equal(number_in(file, "SELECT count(*) FROM rollups WHERE from_unix_ns = 3600000000000"), 1);
    assert_true(number_in(file, "SELECT count(*) FROM rollups WHERE from_unix_ns = 7200000000000") > 1);
    assert_int_equal(number_in(file, "SELECT count(*) FROM rollup_layers WHERE rollup NOT IN"
                                     " (SELECT id FROM rollups)"),
                     0);
}

/* Three steps an hour, for twenty days. */
static void days_are_merged_after_two_weeks(void **state) {
    (void)state;
    apart_ns = HOUR_NS / 3;
    const char *file = compare("days.lamina", 1, INT64_C(20) * 72, words, 4);
    apart_ns = 0;
#define BEFORE "from_unix_ns < 86400000000000 * 2"
    assert_true(number_in(file, "SELECT count(*) FROM rollups WHERE " BEFORE) <= 2 * 2 * (5 + 1));
    assert_int_equal(number_in(file, "SELECT count(*) FROM rollups WHERE from_unix_ns % 86400000000000"
                                     " AND " BEFORE),
                     0);
    assert_true(number_in(file, "SELECT count(DISTINCT from_unix_ns) FROM rollups") > 24 * 8);
}

/* A mode that is rare keeps its rows: the newest ones of each mode are read by themselves. */
static void rare(lmi_packet *p, int64_t i) { p->training = i % 500 != 1; }

static void each_mode_has_its_newest_rows(void **state) {
    (void)state;
    const char *file = compare("rare.lamina", 1, 4 * LMI_ROLL_UP, rare, 2);
    assert_int_equal(number_in(file, "SELECT count(*) FROM steps JOIN layers ON step = id"
                                     " WHERE NOT training AND place = 0"),
                     9);
}

static void generator(lmi_packet *p, int64_t i) {
    if (i % 3) return;
    p->backward = -1;
    for (int32_t k = 0; k < p->n_rows; k++) p->rows[k].backward = -1;
}

static void kinds_have_rollups_of_their_own(void **state) {
    (void)state;
    compare("gan.lamina", 1, STEPS, generator, 2);
    const char *file = compare("words.lamina", 1, 3 * LMI_ROLL_UP, words, 4);
    assert_int_equal(number_in(file, "SELECT max(n) FROM (SELECT count(*) AS n FROM rollups WHERE calls > 0"
                                     " GROUP BY training, last_step)"),
                     5);
    assert_true(number_in(file, "SELECT count(*) FROM rollups WHERE calls IS NULL") > 0);
}

static void compiled_later(lmi_packet *p, int64_t i) {
    p->compiled = i >= 700;
    for (int32_t k = 0; k < p->n_rows; k++) p->rows[k].regions = i >= 700 ? k + 1 : 0;
}

/* Compiled code parts steps, and its pieces are counted by layer. */
static void compiled_steps_have_rollups_of_their_own(void **state) {
    (void)state;
    const char *file = compare("compiled.lamina", 1, STEPS, compiled_later, 2);
    assert_int_equal(number_in(file, "SELECT sum(steps) FROM rollups WHERE compiled = 0"), 699);
    lam_recording *r = open_recording(file, 0, 0);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(lam_recording_model(r, i)->compiled, i == 0);
        assert_int_equal(lam_recording_place(r, i, 2)->regions.median, i == 0 ? 3 : 0);
    }
    lam_recording_free(r);
}

/* As it is in a file of an older version. */
static lam_recorded_place without_regions(const lam_recorded_place *p) {
    lam_recorded_place old = *p;
    old.regions = (lam_middle){0};
    return old;
}

/* A rollup as an older version wrote it: of all steps, with other bins, and without the last number. */
static void put_old_rollup(const char *file) {
    char sql[800];
    lmi_buf bins, text;
    lmi_buf_init(&bins);
    lmi_buf_init(&text);
    for (int k = 0; k < LMI_FIRST_NUMBERS; k++) {
        lmi_put_varint(&bins, 1);
        lmi_put_varint(&bins, old_bin(1000 + k * 100000));
        lmi_put_varint(&bins, 99);
    }
    for (size_t i = 0; i < bins.n; i++) lmi_putf(&text, "%02X", (unsigned char)bins.s[i]);
    snprintf(sql, sizeof sql,
             "DELETE FROM steps WHERE id > 100; DELETE FROM layers;"
             "INSERT INTO rollups SELECT 1, 1, 1, 1, 1, 1, 99, 100, NULL, NULL;"
             "INSERT INTO rollup_layers VALUES (1, 1, 99, 99, 0, x'%s')",
             lmi_buf_text(&text));
    change_recording(file, sql);
    lmi_buf_free(&bins);
    lmi_buf_free(&text);
}

static void rollups_of_an_older_version(void **state) {
    (void)state;
    const char *file = many_steps("older.lamina", 300, NULL);
    put_old_rollup(file);
    change_recording(file,
                     "DROP VIEW timeline; ALTER TABLE models DROP COLUMN local_bytes;"
                     "ALTER TABLE models DROP COLUMN logical_bytes;"
                     "ALTER TABLE steps DROP COLUMN compiled;"
                     "ALTER TABLE layers DROP COLUMN regions; ALTER TABLE rollups DROP COLUMN compiled;"
                     "ALTER TABLE steps DROP COLUMN whole_ns; ALTER TABLE steps DROP COLUMN input_ns;"
                     "ALTER TABLE steps DROP COLUMN h2d_ns; ALTER TABLE steps DROP COLUMN own_forward_ns;"
                     "ALTER TABLE steps DROP COLUMN own_backward_ns;"
                     "ALTER TABLE steps DROP COLUMN optimizer_ns; ALTER TABLE steps DROP COLUMN wait_ns;"
                     "ALTER TABLE steps DROP COLUMN other_ns;" WITHOUT_JOBS "PRAGMA user_version = 4");
    for (int upgraded = 0; upgraded < 2; upgraded++) {
        lmi_db db;
        lam_recording *b = open_recording(file, 0, 0);
        const lam_recorded_place *p = lam_recording_place(b, 0, 1);
        assert_int_equal(lam_recording_model(b, 0)->compiled, -1);
        assert_true(p->n_steps == 99 && p->nonfinite == 0 && p->regions.n == 0);
        for (int k = 0; k < LMI_FIRST_NUMBERS; k++) {
            const lam_middle *m = (const lam_middle *)((const char *)p + lmi_numbers[k].place);
            assert_int_equal(m->n, 99);
            near(m->median, 1000 + k * 100000, 1000 + k * 100000, "median");
        }
        lam_recording_free(b);
        assert_int_equal(lmi_db_open(&db, file, NULL), LAM_OK); /* a recorder would */
        assert_int_equal(db.version, LMI_SCHEMA_VERSION);
        lmi_db_close(&db);
    }
}

/* They are read instead of the rows, which are not there any more. */
static void rows_are_not_read_again(void **state) {
    (void)state;
    const char *file = many_steps("light.lamina", STEPS, NULL);
    lam_recording *b = open_recording(file, 0, 0), *newest = open_recording(file, 0, 10);
    assert_int_equal(lam_recording_place(b, 0, 1)->n_steps, STEPS - 1);
    assert_int_equal(lam_recording_place(newest, 0, 1)->n_steps, 10); /* they are of all steps */
    lam_recording_free(b);
    lam_recording_free(newest);
}

/* Old files have none, and many rows. */
static void many_rows_without_a_rollup(void **state) {
    (void)state;
    enum { WIDE = 100000 };
    const char *file = many_steps("old.lamina", 300, NULL);
    lam_recording *a = open_recording(file, 0, 0);
    char sql[400];
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO places"
             " SELECT 1, i, 0, 1, 'x' || i, 'X', 0, 0 FROM n;"
             "DROP TABLE rollups; DROP TABLE rollup_layers; PRAGMA user_version = 3",
             WIDE);
    change_recording(file, sql);
    lam_recording *b = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_model(b, 0)->n_places, WIDE + 1);
    for (int32_t i = 0; i < 3; i++) {
        const lam_recorded_place right = without_regions(lam_recording_place(a, 0, i));
        same_middles(lam_recording_place(b, 0, i), &right);
    }
    lam_recording_free(a);
    lam_recording_free(b);
}

_Noreturn static void record_and_die(const char *file) {
    lam_recorder *w = step_recorder(file, 0, 1);
    for (int64_t i = 0; i < LMI_ROLL_UP + LMI_RAW + 100; i++) {
        step_put(w, i, 1 + i % 3, true);
        if (i % 1000 == 999) wait_for_steps(file, i + 1); /* not all of them are queued */
    }
    wait_for_steps(file, LMI_ROLL_UP + LMI_RAW + 100);
    raise(SIGKILL);
    _exit(1);
}

static void a_killed_run_has_rollups(void **state) {
    (void)state;
    int status = 0;
    const char *file = step_file("killed.lamina");
    const pid_t child = fork();
    if (child == 0) record_and_die(file);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    lam_recording *r = open_recording(file, 0, 0);
    assert_int_equal(lam_recording_place(r, 0, 1)->n_steps, LMI_ROLL_UP + LMI_RAW + 99);
    near(lam_recording_place(r, 0, 1)->forward_ns.median, 2 * STEP_FIRST, 2 * STEP_FIRST, "median");
    lam_recording_free(r);
    assert_int_equal(number_in(file, "SELECT count(*) FROM rollups"), 1);
}

/* -- what cannot be ---------------------------------------------------------------------------- */

static void rollups_that_cannot_be(void **state) {
    (void)state;
    static const char *const bad[] = {
        "UPDATE rollups SET steps = steps + 1",
        "UPDATE rollups SET steps = steps - 1",
        "UPDATE rollups SET steps = 1 << 40",
        "UPDATE rollups SET last_step = last_step + 5",
        "UPDATE rollups SET last_step = -1",
        "UPDATE rollups SET training = 3",
        "UPDATE rollups SET went_back = 'x'",
        "UPDATE rollups SET gradients = 2",
        "UPDATE rollups SET calls = -4",
        "INSERT INTO rollups SELECT 50, model, training, gradients, went_back, calls, steps, last_step,"
        " compiled, from_unix_ns FROM rollups",
        "UPDATE rollups SET from_unix_ns = 'noon'",
        "UPDATE rollup_layers SET bins = CAST(x'01' || substr(bins, 2) AS BLOB)",
        "UPDATE rollups SET compiled = 2",
        "UPDATE rollup_layers SET place = 3 WHERE place = 2",
        "UPDATE rollup_layers SET place = 99 WHERE place = 2",
        "UPDATE rollup_layers SET place = -1 WHERE place = 2",
        "UPDATE rollup_layers SET steps = steps + 1000",
        "UPDATE rollup_layers SET steps = 5",
        "UPDATE rollup_layers SET looked = steps + 1",
        "UPDATE rollup_layers SET nonfinite = looked + 1",
        "UPDATE rollup_layers SET nonfinite = 0.5",
        "UPDATE rollup_layers SET bins = 7 WHERE place = 1",
        "UPDATE rollup_layers SET bins = x'' WHERE place = 1",
        "UPDATE rollup_layers SET bins = 'text' WHERE place = 1",
        "UPDATE rollup_layers SET bins = zeroblob(14) WHERE place = 1",
        "UPDATE rollup_layers SET bins = zeroblob(17) WHERE place = 1",
        "UPDATE rollup_layers SET bins = substr(bins, 1, length(bins) - 1)",
        "UPDATE rollup_layers SET bins = bins || x'00'",
        "DELETE FROM steps WHERE id = 5",
        "DROP TABLE rollups",
        "DROP TABLE rollup_layers; CREATE VIEW rollup_layers AS SELECT 1 rollup, 1 place, 1 steps, 0 looked,"
        " 0 nonfinite, x'' bins",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *file = many_steps("bad.lamina", LMI_ROLL_UP + LMI_RAW, NULL);
        lam_error e = {0};
        lam_recording *r;
        change_recording(file, bad[i]);
        const lam_status s = lam_recording_open(&r, file, 0, 0, &e);
        if (s != LAM_IO || !*e.text) fail_msg("%s: %s %s", bad[i], lam_status_name(s), e.text);
        lam_recording_free(r);
        char path[256]; /* scalars are of the steps themselves; a view is refused whatever it is for */
        if (!strstr(bad[i], "VIEW") &&
            lam_recording_tensorboard(file, 0, step_file("logs"), path, sizeof path, &e) != LAM_OK)
            fail_msg("%s: %s", bad[i], e.text);
    }
}

/* Any byte of the bins may be another: it is read, or refused with a sentence. */
static void damaged_bins(void **state) {
    (void)state;
    const char *file = many_steps("bytes.lamina", LMI_ROLL_UP + LMI_RAW, NULL);
    const int64_t n = number_in(file, "SELECT min(length(bins)) FROM rollup_layers");
    for (int i = 0; i < rounds(300); i++) {
        char sql[300];
        lam_error e = {0};
        lam_recording *r;
        const int at = 1 + (int)any((uint64_t)n - 1);
        snprintf(
            sql, sizeof sql,
            "UPDATE rollup_layers SET bins = CAST(substr(bins, 1, %d) || x'%02X' || substr(bins, %d) AS BLOB)"
            " WHERE place = %d",
            at, (unsigned)any(256), at + 2, (int)any(3));
        change_recording(file, sql);
        const lam_status s = lam_recording_open(&r, file, 0, 0, &e);
        if (s != LAM_OK && (s != LAM_IO || !*e.text)) fail_msg("%s: %s", lam_status_name(s), e.text);
        lam_recording_free(r);
    }
}

/* -- memory ------------------------------------------------------------------------------------ */

static void try_open(void *arg, bool *ok) {
    lam_error e = {0};
    lam_recording *r;
    const lam_status s = lam_recording_open(&r, arg, 0, 0, &e);
    *ok = oom_check(s, &e);
    lam_recording_free(r);
}

/* So few that each allocation can fail in turn. */
enum { FEW = 12 };

static void try_roll_up(void *arg, bool *ok) {
    lam_error e = {0};
    lmi_raw steps[FEW];
    for (int64_t i = 0; i < FEW; i++) steps[i] = (lmi_raw){i + 1, i / (FEW / 2) * HOUR_NS};
    assert_int_equal(lmi_db_run(arg, "BEGIN", NULL), LAM_OK);
    for (int half = 0; half < 2 && e.status == LAM_OK; half++)
        (void)lmi_roll_up(arg, 1, 1, steps + half * FEW / 2, FEW / 2, &e);
    if (e.status == LAM_OK) (void)lmi_merge_rollups(arg, 1, 0, HOUR_NS, &e);
    if (e.status == LAM_OK) (void)lmi_merge_days(arg, 1, 24 * 20 * HOUR_NS, &e);
    *ok = oom_check(e.status, &e);
    assert_int_equal(lmi_db_run(arg, "ROLLBACK", NULL), LAM_OK);
}

static void rolling_up_without_memory(void **state) {
    (void)state;
    lmi_raw steps[FEW];
    lmi_db db;
    const char *file = many_steps("memory.lamina", FEW, words);
    assert_int_equal(lmi_db_open(&db, file, NULL), LAM_OK);
    oom_sweep(try_roll_up, &db);
    for (int64_t i = 0; i < FEW; i++) steps[i] = (lmi_raw){i + 1, 0};
    assert_int_equal(lmi_roll_up(&db, 1, 1, steps, FEW, NULL), LAM_OK);
    lmi_db_close(&db);
    oom_sweep(try_open, (void *)(uintptr_t)file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_are_near),
        cmocka_unit_test(what_is_unknown_is_left_out),
        cmocka_unit_test(weights_count_as_repetitions),
        cmocka_unit_test(bins_come_back_from_bytes),
        cmocka_unit_test(bytes_that_are_no_bins),
        cmocka_unit_test(old_bins_are_halves_of_new_ones),
        cmocka_unit_test(rollups_say_what_rows_say),
        cmocka_unit_test(rollups_have_steps_of_one_weight),
        cmocka_unit_test(an_hour_is_written_once),
        cmocka_unit_test(parts_of_an_hour_become_one),
        cmocka_unit_test(days_are_merged_after_two_weeks),
        cmocka_unit_test(each_mode_has_its_newest_rows),
        cmocka_unit_test(kinds_have_rollups_of_their_own),
        cmocka_unit_test(compiled_steps_have_rollups_of_their_own),
        cmocka_unit_test(rollups_of_an_older_version),
        cmocka_unit_test(rows_are_not_read_again),
        cmocka_unit_test(many_rows_without_a_rollup),
        cmocka_unit_test(a_killed_run_has_rollups),
        cmocka_unit_test(rollups_that_cannot_be),
        cmocka_unit_test(damaged_bins),
        cmocka_unit_test(rolling_up_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
