/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings that are opened, and files of recordings that are changed in SQL. */
#ifndef LAMINA_TEST_RECORDED_H
#define LAMINA_TEST_RECORDED_H

#include "kit/step_net.h"
#include "store/bins.h"

#include <sqlite3.h>

enum { LONGEST_MS = 600000 }; /* of a wait: what has not come by then never comes, however slow the machine */

/* Run `run`, 0 for the last one, with its last `last` steps, 0 for all. */
OOM_UNUSED static lam_recording *open_recording(const char *file, int64_t run, int32_t last) {
    lam_error e = {0};
    lam_recording *r = NULL;
    if (lam_recording_open(&r, file, run, last, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
    return r;
}

OOM_UNUSED static void change_recording(const char *file, const char *sql) {
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) fail_msg("%s: %s", sql, why);
    sqlite3_close(db);
}

/* Takes away what version 8 of the tables has, and what versions 7 and 8 have. */
#define WITHOUT_WORK                                                                                         \
    "ALTER TABLE steps DROP COLUMN collectives; ALTER TABLE steps DROP COLUMN collectives_hash;"             \
    "DROP TABLE work;"
#define WITHOUT_JOBS                                                                                         \
    "ALTER TABLE runs DROP COLUMN job; ALTER TABLE runs DROP COLUMN attempt;"                                \
    "ALTER TABLE runs DROP COLUMN ended_by; ALTER TABLE runs DROP COLUMN calls;"                             \
    "ALTER TABLE models DROP COLUMN tree; DROP TABLE pace;"                                                  \
    "ALTER TABLE steps DROP COLUMN processor_wait_ns;" WITHOUT_WORK                                          \
    "ALTER TABLE rollups DROP COLUMN from_unix_ns;"

/* The first number that a question in SQL has as its answer. */
OOM_UNUSED static int64_t number_in(const char *file, const char *sql) {
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, LONGEST_MS), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

/* A file that has too few steps to have rollups gets them. */
OOM_UNUSED static const char *roll_up_recording(const char *file) {
    const lmi_raw steps[] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}};
    lmi_db db;
    if (lmi_db_open(&db, file, NULL) != LAM_OK || lmi_roll_up(&db, 1, 1, steps, 5, NULL) != LAM_OK) abort();
    lmi_db_close(&db);
    return file;
}

OOM_UNUSED static void wait_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* Waits until the thread that writes has written so many steps. Ends a forked child, too, if they never come.
 */
OOM_UNUSED static void wait_for_steps(const char *file, int64_t n) {
    for (int ms = 0; number_in(file, "SELECT count(*) FROM steps") < n; ms += 10) {
        if (ms == LONGEST_MS) abort();
        wait_ms(10);
    }
}

#endif
