/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings from strangers: whatever stands in the file, one sentence, and never a crash. */
#include "kit/oom.h"
#include "kit/recorded.h"

static void refused(const char *file, const char *why) {
    lam_error e = {0};
    lam_recording *r;
    char path[256];
    lam_status s = lam_recording_open(&r, file, 0, 0, &e);
    if (s != LAM_IO) fail_msg("%s: status %s", why, lam_status_name(s));
    assert_null(r);
    if (!*e.text || strchr(e.text, '\n')) fail_msg("%s: no sentence: '%s'", why, e.text);
    assert_string_equal(e.where, file);
    if (strstr(why, "layer") || strstr(why, "view"))
        return; /* the other reader looks at rows as it writes them */
    assert_int_equal(lam_recording_tensorboard(file, 0, step_file("events"), path, sizeof path, NULL),
                     LAM_IO);
}

/* A good recording in which `sql` was run. */
static const char *after(const char *sql) {
    const char *file = step_recording("hostile.lamina", 0, 1, 1);
    change_recording(file, sql);
    return file;
}

static void values_that_cannot_be(void **state) {
    (void)state;
    static const char *const bad[] = {
        "UPDATE layers SET forward_ns = -5",
        "UPDATE layers SET forward_ns = 9223372036854775807 WHERE place = 1",
        "UPDATE layers SET forward_ns = 'soon'",
        "UPDATE layers SET calls = 1e300",
        "UPDATE layers SET backward_ns = zeroblob(100)",
        "UPDATE layers SET place = 4000000000 WHERE place = 2",
        "UPDATE layers SET place = 3 WHERE place = 2", /* one too far */
        "UPDATE steps SET number = -1",
        "UPDATE steps SET number = 1 << 60",
        "UPDATE steps SET training = 7",
        "UPDATE steps SET first_bad = 99",
        "UPDATE steps SET started_ns = 'x'",
        "UPDATE places SET parent = 2 WHERE place = 1",
        "UPDATE places SET parent = NULL WHERE place = 1",
        "UPDATE places SET parent = -7 WHERE place = 1",
        "UPDATE places SET depth = 2147483647 WHERE place = 1",
        "UPDATE places SET place = 2000000000 WHERE place = 2",
        "UPDATE places SET path = x'ff00ff'",
        "DELETE FROM places WHERE place = 1",
        "UPDATE runs SET world = 99999999999",
        "UPDATE runs SET rank = -3",
        "UPDATE runs SET started_unix_ns = -5000000000000000000",
        "UPDATE runs SET id = -4",
        "UPDATE runs SET seen_unix_ns = 'late'",
        "UPDATE runs SET ended_unix_ns = 0.5",
        "UPDATE runs SET every = 1 << 40",
        "UPDATE runs SET dropped = -1",
        "UPDATE runs SET command = zeroblob(5)",
        "UPDATE runs SET host = x'00'",
        "UPDATE runs SET torch = x''",
        "UPDATE runs SET lamina = zeroblob(3)",
        "UPDATE places SET type = x'41'",
        "UPDATE places SET params = -1",
        "UPDATE places SET local_params = 'all'",
        "UPDATE models SET params = -2",
        "UPDATE models SET tree = -1",
        "UPDATE models SET tree = 'oak'",
        "UPDATE steps SET collectives = -1",
        "UPDATE steps SET collectives_hash = x'00'",
        "UPDATE runs SET job = x'00'",
        "UPDATE runs SET attempt = -1",
        "UPDATE runs SET ended_by = x'0f'",
        "UPDATE runs SET calls = 1.5",
        "UPDATE models SET local_params = 1.5",
        "UPDATE models SET param_bytes = x'01'",
        "UPDATE steps SET peak_bytes = 'much'",
        "UPDATE steps SET looked = 2",
        "UPDATE steps SET failed = -1",
        "UPDATE models SET name = zeroblob(10)",
        "DELETE FROM runs",
        "DROP TABLE layers",
        "DROP TABLE runs",
        "DROP VIEW timeline; DROP TABLE layers; CREATE VIEW layers AS WITH RECURSIVE r(x) AS (SELECT 1 UNION "
        "ALL"
        " SELECT x + 1 FROM r) SELECT 1 step, x place, 1 calls, 1 forward_ns, 1 forward_self_ns, 1 "
        "backward_ns,"
        " 1 recompute_ns, 1 allocated_bytes, 1 retained_bytes, 1 peak_bytes, 0 nan, 0 inf FROM r -- a view",
        "PRAGMA user_version = 9",
        "PRAGMA application_id = 5",
        "ALTER TABLE steps RENAME COLUMN number TO mumber",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(after(bad[i]), bad[i]);
}

/* They would be left out in silence. */
static void rows_that_name_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {
        "UPDATE steps SET model = 99",
        "UPDATE steps SET model = 99 WHERE id = 3",
        "UPDATE steps SET model = -1 WHERE id = 3",
        "DELETE FROM models",
        "UPDATE models SET run = 7",
        "INSERT INTO places SELECT 5, place, parent, depth, path, type, params, local_params FROM places",
        "CREATE TABLE others AS SELECT * FROM steps; UPDATE others SET model = NULL WHERE id = 3;"
        " DROP VIEW timeline; DROP TABLE steps; ALTER TABLE others RENAME TO steps",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused(after(bad[i]), bad[i]);
}

static void too_large_to_be_read(void **state) {
    (void)state;
    lam_error e = {0};
    lam_recording *r;
    const char *file =
        after("WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 600000)"
              " INSERT INTO places SELECT 1, i, 0, 1, 'x', 'X', 0, 0 FROM n");
    assert_int_equal(lam_recording_open(&r, file, 0, 0, &e), LAM_LIMIT);
    assert_null(r);
    assert_non_null(strstr(e.text, "too large to be read"));
}

/* Tables of somebody else's may allow what ours do not. */
static void nothing_where_something_must_be(void **state) {
    (void)state;
    static const char *const all[][2] = {
        {"runs", "started_unix_ns"},
        {"runs", "seen_unix_ns"},
        {"runs", "rank"},
        {"runs", "world"},
        {"runs", "every"},
        {"runs", "dropped"},
        {"models", "name"},
        {"places", "depth"},
        {"places", "path"},
        {"places", "type"},
        {"steps", "number"},
        {"steps", "training"},
        {"steps", "started_unix_ns"},
        {"steps", "started_ns"},
        {"steps", "calls"},
        {"steps", "failed"},
        {"steps", "looked"},
        {"layers", "calls"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *file = after("PRAGMA writable_schema = ON;"
                                 "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')");
        char sql[100];
        snprintf(sql, sizeof sql, "UPDATE %s SET %s = NULL", all[i][0], all[i][1]);
        change_recording(file, sql);
        refused(file, strcmp(all[i][0], "layers") == 0 ? "no calls of a layer" : sql);
    }
}

/* When something was is told in 64 bits, of which half are enough for every clock. */
static void the_last_moments(void **state) {
    (void)state;
    static const char *const moments[] = {"4611686018427387903", "-4611686018427387903",
                                          "4611686018427387904", "-4611686018427387904"};
    for (int i = 0; i < 4; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "UPDATE steps SET started_unix_ns = %s", moments[i]);
        const char *file = after(sql);
        lam_recording *r;
        assert_int_equal(lam_recording_open(&r, file, 0, 0, NULL), i < 2 ? LAM_OK : LAM_IO);
        lam_recording_free(r);
    }
}

/* Names are cleaned, so they can't drive a terminal. */
static void names_are_cleaned(void **state) {
    (void)state;
    const char *file = after("UPDATE places SET path = char(27) || '[2Jx' || char(10) WHERE place = 1");
    lam_recording *r = open_recording(file, 0, 0);
    assert_string_equal(lam_recording_place(r, 0, 1)->path, "?[2Jx?");
    lam_recording_free(r);
}

static void no_recordings(void **state) {
    (void)state;
    const char *empty = step_file("empty.lamina"), *junk = step_file("junk.lamina");
    FILE *f = fopen(empty, "w");
    assert_int_equal(fclose(f), 0);
    refused(empty, "an empty file");
    f = fopen(junk, "w");
    for (int i = 0; i < 5000; i++) fputc(i * 7 & 255, f);
    assert_int_equal(fclose(f), 0);
    refused(junk, "junk");
    refused(P_tmpdir, "a folder");
    refused(step_file("absent.lamina"), "no file");
}

/* -- bytes ------------------------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char *at;
    size_t n;
} bytes;

static bytes all_of(const char *file) {
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    bytes b = {malloc((size_t)st.st_size), (size_t)st.st_size};
    FILE *f = fopen(file, "rb");
    assert_int_equal(fread(b.at, 1, b.n, f), b.n);
    fclose(f);
    return b;
}

static void put_bytes(const char *file, const unsigned char *at, size_t n) {
    FILE *f = fopen(file, "wb");
    assert_int_equal(fwrite(at, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* It is read, or refused with a sentence. */
static void survive(const char *file) {
    lam_error e = {0};
    lam_recording *r;
    lam_status s = lam_recording_open(&r, file, 0, 0, &e);
    if (s != LAM_OK && (s != LAM_IO || !*e.text)) fail_msg("%s: %s", lam_status_name(s), e.text);
    lam_recording_free(r);
}

static void damaged_bytes(void **state) {
    (void)state;
    bytes good = all_of(roll_up_recording(step_recording("good.lamina", 0, 1, 1)));
    unsigned char *bad = malloc(good.n);
    const char *file = step_file("damaged.lamina");
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < rounds(3000); i++) {
        memcpy(bad, good.at, good.n);
        for (int k = 0; k < 1 + i % 8; k++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            size_t page =
                i % 3 ? seed % good.n : seed % 200; /* a third of them in the header and the schema */
            bad[page] = (unsigned char)(seed >> 32);
        }
        put_bytes(file, bad, good.n);
        survive(file);
    }
    for (size_t n = 0; n < good.n; n += 97) {
        put_bytes(file, good.at, n);
        survive(file);
    }
    free(bad);
    free(good.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_cannot_be),  cmocka_unit_test(nothing_where_something_must_be),
        cmocka_unit_test(rows_that_name_nothing), cmocka_unit_test(too_large_to_be_read),
        cmocka_unit_test(the_last_moments),       cmocka_unit_test(names_are_cleaned),
        cmocka_unit_test(no_recordings),          cmocka_unit_test(damaged_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
