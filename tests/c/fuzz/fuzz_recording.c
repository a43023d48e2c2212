/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings from strangers, under libFuzzer. A good one is made first; the input says what becomes of it:
 * tables, columns, types, indices, triggers and values are changed in SQL, and bytes of the file after that.
 * Whatever comes of that, it is read or refused with a sentence, and recorded to or refused with one. */
#include "kit/oom.h"
#include "kit/recorded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { MOST_CHANGES = 24, ARGS = 4, MOST_BYTES = 1 << 18 };

/* In a change @ stands for a table, $ and & for columns, # for a value. */
static const char *const changes[] = {
    "DROP TABLE @",
    "ALTER TABLE @ RENAME TO other",
    "ALTER TABLE @ RENAME COLUMN $ TO &",
    "ALTER TABLE @ RENAME COLUMN $ TO other",
    "DROP VIEW timeline; ALTER TABLE @ DROP COLUMN $",
    "ALTER TABLE @ ADD COLUMN $ DEFAULT #",
    "UPDATE @ SET $ = #",
    "UPDATE @ SET $ = # WHERE & = (SELECT max(&) FROM @)",
    "UPDATE @ SET $ = &",
    "UPDATE sqlite_master SET sql = replace(sql, '$ INTEGER', '$ TEXT')",
    "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')",
    "UPDATE sqlite_master SET sql = replace(sql, ' WITHOUT ROWID', '')",
    "UPDATE sqlite_master SET sql = replace(sql, '$ ', '& ')",
    "UPDATE sqlite_master SET rootpage = (SELECT max(rootpage) FROM sqlite_master) WHERE name = '@'",
    "UPDATE sqlite_master SET type = 'index' WHERE name = '@'",
    "CREATE INDEX made ON @ ($, &)",
    "CREATE UNIQUE INDEX one ON @ ($)",
    "CREATE TRIGGER made AFTER INSERT ON @ BEGIN UPDATE @ SET $ = #; END",
    "CREATE TRIGGER less BEFORE INSERT ON @ BEGIN SELECT RAISE(IGNORE); END",
    "DROP TABLE @; CREATE VIEW @ AS SELECT # AS $, # AS &",
    "DROP TABLE @; CREATE TABLE @ ($ BLOB, & REAL); INSERT INTO @ VALUES (#, 1)",
    "DELETE FROM @",
    "DELETE FROM @ WHERE $ = (SELECT max($) FROM @)",
    "INSERT INTO @ SELECT * FROM @",
    "DROP INDEX steps_of",
    "PRAGMA user_version = #",
    "PRAGMA application_id = #",
    "PRAGMA page_size = 512; VACUUM",
};
static const char *const tables[] = {"runs",   "models", "places",  "steps",
                                     "layers", "meta",   "rollups", "rollup_layers"};
static const char *const columns[] = {"id",
                                      "run",
                                      "model",
                                      "place",
                                      "parent",
                                      "depth",
                                      "path",
                                      "type",
                                      "params",
                                      "local_params",
                                      "number",
                                      "training",
                                      "started_ns",
                                      "calls",
                                      "failed",
                                      "forward_ns",
                                      "backward_ns",
                                      "peak_bytes",
                                      "looked",
                                      "first_bad",
                                      "bad",
                                      "gradients",
                                      "nan",
                                      "step",
                                      "name",
                                      "rank",
                                      "world",
                                      "every",
                                      "dropped",
                                      "command",
                                      "seen_unix_ns",
                                      "ended_unix_ns",
                                      "started_unix_ns",
                                      "forward_self_ns",
                                      "device_forward_ns",
                                      "value"};
static const char *const values[] = {"NULL",
                                     "-1",
                                     "0",
                                     "1",
                                     "2",
                                     "7",
                                     "9223372036854775807",
                                     "4294967296",
                                     "1e300",
                                     "0.5",
                                     "'12'",
                                     "'x'",
                                     "''",
                                     "x'00ff41'",
                                     "CAST(x'ff00c328' AS TEXT)",
                                     "zeroblob(5000)",
                                     "char(27) || '[2Jx' || char(10)",
                                     "random()"};

static unsigned char good[MOST_BYTES], bad[MOST_BYTES];
static size_t n_good;

static size_t take(const char *file, unsigned char *to) {
    FILE *f = fopen(file, "rb");
    size_t n = f ? fread(to, 1, MOST_BYTES, f) : 0;
    if (f) fclose(f);
    return n;
}

static void put(const char *file, const unsigned char *from, size_t n) {
    FILE *f = fopen(file, "wb");
    if (!f || fwrite(from, 1, n, f) != n || fclose(f) != 0) abort();
}

static void spell(const char *change, const uint8_t *args, char *to, size_t size) {
    size_t n = 0;
    for (; *change && n + 1 < size; change++) {
        const char *word = *change == '@'   ? tables[args[0] % COUNT(tables)]
                           : *change == '$' ? columns[args[1] % COUNT(columns)]
                           : *change == '&' ? columns[args[2] % COUNT(columns)]
                           : *change == '#' ? values[args[3] % COUNT(values)]
                                            : NULL;
        int wrote = word ? snprintf(to + n, size - n, "%s", word) : snprintf(to + n, size - n, "%c", *change);
        n += (size_t)wrote;
    }
}

/* One statement or change of a byte after the other; `bytes`: the latter. What SQLite refuses is left out. */
static void change(const uint8_t *data, size_t n, sqlite3 *db, unsigned char *bytes, size_t n_bytes) {
    const size_t kinds = COUNT(changes) + 2;
    for (size_t i = 0; i + ARGS < n && i / (ARGS + 1) < MOST_CHANGES; i += ARGS + 1) {
        const size_t kind = data[i] % kinds;
        const uint8_t *args = data + i + 1;
        char sql[400];
        if (db && kind < COUNT(changes)) {
            spell(changes[kind], args, sql, sizeof sql);
            (void)sqlite3_exec(db, "PRAGMA writable_schema = ON", NULL, NULL, NULL);
            (void)sqlite3_exec(db, sql, NULL, NULL, NULL);
        } else if (bytes && n_bytes && kind >= COUNT(changes)) {
            const size_t at = ((size_t)args[0] << 16 | (size_t)args[1] << 8 | args[2]);
            bytes[kind == COUNT(changes) ? at % n_bytes : at % (n_bytes < 100 ? n_bytes : 100)] = args[3];
        }
    }
}

static void make(const char *file, const uint8_t *data, size_t n) {
    sqlite3 *db = NULL;
    char beside[200];
    put(file, good, n_good);
    for (int i = 0; i < 3; i++) {
        snprintf(beside, sizeof beside, "%s%s", file, ((const char *[]){"-wal", "-shm", "-journal"})[i]);
        unlink(beside);
    }
    if (sqlite3_open(file, &db) == SQLITE_OK) {
        (void)sqlite3_exec(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY", NULL, NULL, NULL);
        change(data, n, db, NULL, 0);
    }
    sqlite3_close(db);
    const size_t size = take(file, bad);
    change(data, n, NULL, bad, size);
    put(file, bad, size);
}

static lam_status swallow(void *self, const char *bytes, size_t n) {
    *(size_t *)self += n + (n && bytes[0] == '\n');
    return LAM_OK;
}

static void show(const lam_recording *r) {
    static const char *const formats[] = {"text", "csv", "json"};
    size_t written = 0;
    for (int i = 0; i < 3; i++) {
        lam_recording_options o = {.format = formats[i], .depth = -1};
        lam_error e = {0};
        if (lam_recording_write(&r, 1, &o, (lam_sink){swallow, &written}, &e) != LAM_OK && !e.text[0])
            abort();
    }
}

static void record_to(const char *file) {
    const lam_run_info run = {.command = "x", .every = 1, .unix_ns = 1};
    const lam_step_info info = {.name = "Net", .training = true, .unix_ns = 1, .t0_ns = 1};
    lam_recorder *w = NULL;
    lam_error e = {0};
    lam_status s = lam_recorder_new(&w, file, &run, &e);
    if (s == LAM_OK) s = lam_recorder_step(w, step_model(1, true), &info, &e);
    if (s != LAM_OK && !e.text[0]) abort();
    e = (lam_error){0};
    if (lam_recorder_close(w, &e) != LAM_OK && !e.text[0]) abort();
}

static void read_from(const char *file) {
    lam_recording *r = NULL;
    lam_error e = {0};
    if (lam_recording_open(&r, file, 0, 0, &e) != LAM_OK && !e.text[0]) abort();
    if (r) show(r);
    lam_recording_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *file;
    if (!n_good) n_good = take(roll_up_recording(step_recording("good.lamina", 0, 1, 1)), good);
    if (!n_good) abort();
    if (!file) file = step_file("changed.lamina");
    make(file, data, n);
    read_from(file);
    record_to(file);
    read_from(file);
    return 0;
}
