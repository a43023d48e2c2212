/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls SQLite and reports its errors as lam_error. A file that is read is not trusted: nothing in it is
 * executed, views are disabled, and every value is checked against its valid range. */
#include "base/sqlite.h"
#include "base/system.h"
#include "store/store.h"

#include <stdlib.h>

enum { WAIT_MS = 2000, LONGEST_TEXT = 1 << 20 };

/* What the reader of a damaged file may do; "": nothing is known. */
static const char *then(int code) {
    switch (code & 0xff) {
    case SQLITE_NOTADB: return "; recordings are what `lamina run` and lamina.watch write";
    case SQLITE_CORRUPT:
        return "; it is damaged or not whole: copy it again, with its -wal file if there is one, or save "
               "what can be "
               "read with `sqlite3 FILE .recover`";
    default: return "";
    }
}

static lam_status db_fail(const lmi_db *d, const char *doing, lam_error *e) {
    int code = d->db ? sqlite3_extended_errcode(d->db) : SQLITE_NOMEM;
    if ((code & 0xff) == SQLITE_NOMEM) return lmi_nomem(e);
    const char *said = d->db ? sqlite3_errmsg(d->db) : sqlite3_errstr(code);
    const int system = d->db ? sqlite3_system_errno(d->db) : 0;
    const bool files = (code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_IOERR;
    return lmi_fail(e, LAM_IO, d->file, "%s: %s%s", doing, files && system ? strerror(system) : said,
                    then(code));
}

lam_status lmi_db_run(const lmi_db *d, const char *sql, lam_error *e) {
    int code = sqlite3_exec(d->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? LAM_OK : db_fail(d, "it can't be written", e);
}

lam_status lmi_db_prepare(const lmi_db *d, sqlite3_stmt **out, const char *sql, lam_error *e) {
    *out = NULL;
    int code = sqlite3_prepare_v2(d->db, sql, -1, out, NULL);
    return code == SQLITE_OK ? LAM_OK : db_fail(d, "it is not a recording that this lamina can read", e);
}

/* Does not call SQLite if there is no statement: the library may not have been found. */
void lmi_db_done(sqlite3_stmt *s) {
    if (s) sqlite3_finalize(s);
}

void lmi_db_close(lmi_db *d) {
    if (d->db) sqlite3_close(d->db);
    d->db = NULL;
}

/* -- writing rows ------------------------------------------------------------------------------ */

lam_status lmi_db_put(const lmi_db *d, sqlite3_stmt *s, lam_error *e, const char *types, ...) {
    va_list args;
    int code = SQLITE_OK;
    va_start(args, types);
    for (int i = 1; types[i - 1] && code == SQLITE_OK; i++) {
        if (types[i - 1] == 't') {
            const char *text = va_arg(args, const char *);
            code = text ? sqlite3_bind_text(s, i, text, -1, SQLITE_STATIC) : sqlite3_bind_null(s, i);
        } else if (types[i - 1] == 'b') {
            const char *bytes = va_arg(args, const char *);
            code = sqlite3_bind_blob64(s, i, bytes, (sqlite3_uint64)va_arg(args, int64_t), SQLITE_STATIC);
        } else {
            int64_t n = va_arg(args, int64_t);
            bool none = types[i - 1] == 'u' && n < 0;
            code = none ? sqlite3_bind_null(s, i) : sqlite3_bind_int64(s, i, n);
        }
    }
    va_end(args);
    if (code == SQLITE_OK) code = sqlite3_step(s) == SQLITE_DONE ? SQLITE_OK : SQLITE_ERROR;
    lam_status status = code == SQLITE_OK ? LAM_OK : db_fail(d, "it can't be written", e);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return status;
}

/* -- reading rows ------------------------------------------------------------------------------ */

lam_status lmi_db_next(const lmi_db *d, sqlite3_stmt *s, bool *more, lam_error *e) {
    int code = sqlite3_step(s);
    *more = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? LAM_OK : db_fail(d, "it can't be read", e);
}

lam_status lmi_db_int(const lmi_db *d, sqlite3_stmt *s, int i, bool may_be_null, int64_t most,
                      const char *what, int64_t *out, lam_error *e) {
    int type = sqlite3_column_type(s, i);
    *out = type == SQLITE_INTEGER ? sqlite3_column_int64(s, i) : -1;
    if (type == SQLITE_NULL && may_be_null) return LAM_OK;
    if (type == SQLITE_INTEGER && *out >= 0 && *out <= most) return LAM_OK;
    return lmi_fail(e, LAM_IO, d->file, "it is damaged: %s holds what can't be", what);
}

lam_status lmi_db_when(const lmi_db *d, sqlite3_stmt *s, int i, const char *what, int64_t *out,
                       lam_error *e) {
    *out = sqlite3_column_int64(s, i);
    bool is_time = sqlite3_column_type(s, i) == SQLITE_INTEGER;
    if (is_time && *out >= -INT64_MAX / 2 && *out <= INT64_MAX / 2)
        return LAM_OK; /* within limits, so that times can be compared */
    return lmi_fail(e, LAM_IO, d->file, "it is damaged: %s holds what can't be", what);
}

lam_status lmi_db_text(const lmi_db *d, sqlite3_stmt *s, int i, lmi_arena *a, const char **out,
                       lam_error *e) {
    *out = NULL;
    if (sqlite3_column_type(s, i) == SQLITE_NULL) return LAM_OK;
    if (sqlite3_column_type(s, i) != SQLITE_TEXT)
        return lmi_fail(e, LAM_IO, d->file, "it is damaged: a name is not text");
    const char *text = (const char *)sqlite3_column_text(s, i);
    char *copy = text ? lmi_strdup(a, text) : NULL;
    if (!copy) return lmi_nomem(e);
    lmi_clean(copy);
    *out = copy;
    return LAM_OK;
}

/* -- opening ----------------------------------------------------------------------------------- */

static lam_status pragma_of(const lmi_db *d, const char *sql, int64_t *out, lam_error *e) {
    sqlite3_stmt *s;
    bool more = false;
    LAM_TRY(lmi_db_prepare(d, &s, sql, e));
    lam_status status = lmi_db_next(d, s, &more, e);
    *out = more ? sqlite3_column_int64(s, 0) : -1;
    lmi_db_done(s);
    return status;
}

/* Checks that the file is a recording of a known version. *fresh: it has no tables yet. */
static lam_status check_owner(lmi_db *d, bool *fresh, lam_error *e) {
    int64_t owner, version, tables;
    LAM_TRY(pragma_of(d, "SELECT count(*) FROM sqlite_master", &tables, e));
    LAM_TRY(pragma_of(d, "PRAGMA application_id", &owner, e));
    LAM_TRY(pragma_of(d, "PRAGMA user_version", &version, e));
    *fresh = tables == 0 && owner == 0;
    d->version = *fresh ? 0 : version;
    if (*fresh) return LAM_OK;
    if (owner != LMI_APPLICATION)
        return lmi_fail(e, LAM_IO, d->file, "it is a database, but not a recording of lamina's");
    if (version < 1 || version > LMI_SCHEMA_VERSION)
        return lmi_fail(
            e, LAM_IO, d->file,
            "its tables have version %lld and this lamina reads up to %d; use the one that made it",
            (long long)version, LMI_SCHEMA_VERSION);
    return LAM_OK;
}

/* In WAL mode readers and the writer do not wait for each other, and committed rows outlive the process. On a
 * file system without WAL the same holds, but for the waiting. */
static lam_status make_ready(lmi_db *d, lam_error *e) {
    bool fresh;
    LAM_TRY(check_owner(d, &fresh, e));
    LAM_TRY(lmi_db_run(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", e));
    LAM_TRY(lmi_db_run(d, "BEGIN IMMEDIATE;", e)); /* also finds out whether the file may be written */
    LAM_TRY(check_owner(d, &fresh, e));            /* another process may have made the tables */
    for (; d->version < LMI_SCHEMA_VERSION; d->version++) LAM_TRY(lmi_db_run(d, lmi_schemas[d->version], e));
    return lmi_db_run(d, "COMMIT;", e);
}

/* If a file can't be opened to write, SQLite tries to open it to read and reports the error of that: for a
 * missing file in a folder without write permission, that it does not exist. So open() is called again for
 * the first error. */
static lam_status not_opened(const lmi_db *d, lam_error *e) {
    static const char doing[] = "it can't be opened to be written";
    const int fd = d->db ? open(d->file, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
    const int why = d->db && fd < 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (!why || why == ENOENT) return db_fail(d, doing, e);
    return lmi_fail(e, LAM_IO, d->file, "%s: %s", doing, strerror(why));
}

/* ":memory:" and names that begin with "file:" are ordinary file names here. */
static bool is_special(const char *file) { return *file == ':' || strncmp(file, "file:", 5) == 0; }

static int open_named(lmi_db *d, int flags, const char *vfs) {
    if (!is_special(d->file)) return sqlite3_open_v2(d->file, &d->db, flags, vfs);
    lmi_buf name;
    lmi_buf_init(&name);
    lmi_put(&name, "./");
    lmi_put(&name, d->file);
    int code = name.bad ? SQLITE_NOMEM : sqlite3_open_v2(lmi_buf_text(&name), &d->db, flags, vfs);
    lmi_buf_free(&name);
    return code;
}

lam_status lmi_db_open(lmi_db *d, const char *file, lam_error *e) {
    *d = (lmi_db){.file = file};
    LAM_TRY(lmi_sqlite(e));
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (open_named(d, flags, NULL) != SQLITE_OK) return not_opened(d, e);
    sqlite3_busy_timeout(d->db, WAIT_MS);
    return make_ready(d, e);
}

/* SQLite puts the log and its index beside the file itself, also if `file` is a link to it. */
static bool has_beside(const char *file, const char *suffix) {
    struct stat st;
    char *real = realpath(file, NULL), *beside = sqlite3_mprintf("%s%s", real ? real : file, suffix);
    bool has = beside && stat(beside, &st) == 0;
    sqlite3_free(beside);
    free(real);
    return has;
}

/* A database in WAL mode without a log beside it has no writer and is complete. It is opened as immutable, so
 * that SQLite does not make a log, which would stay behind or could not be made. */
static int open_closed(lmi_db *d) {
    lmi_buf uri;
    lmi_buf_init(&uri);
    lmi_put(&uri, is_special(d->file) ? "file:./" : "file:");
    for (const char *s = d->file; *s; s++) {
        if (strchr("?#%", *s))
            lmi_putf(&uri, "%%%02X", (unsigned)*s);
        else
            lmi_putc(&uri, *s);
    }
    lmi_put(&uri, "?immutable=1");
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
    int code = uri.bad ? SQLITE_NOMEM : sqlite3_open_v2(lmi_buf_text(&uri), &d->db, flags, NULL);
    lmi_buf_free(&uri);
    return code;
}

static void distrust(sqlite3 *db) {
    sqlite3_busy_timeout(db, WAIT_MS);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, (int *)NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, (int *)NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LONGEST_TEXT);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_exec(db, "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;", NULL, NULL, NULL);
}

/* A virtual table or view under the name of a table of ours would run an extension's code when it is read. */
static lam_status check_tables(const lmi_db *d, lam_error *e) {
    int64_t odd;
    LAM_TRY(pragma_of(
        d,
        "SELECT count(*) FROM sqlite_master WHERE name COLLATE NOCASE IN ('runs', 'models',"
        " 'places', 'steps', 'layers', 'rollups', 'rollup_layers', 'pace', 'work') AND (type <> 'table' OR "
        "ifnull(rootpage, 0) < 1)",
        &odd, e));
    return odd ? lmi_fail(e, LAM_IO, d->file, "it is damaged: one of its tables is a virtual table or a view")
               : LAM_OK;
}

static lam_status check_readable(lmi_db *d, lam_error *e) {
    bool fresh;
    LAM_TRY(check_owner(d, &fresh, e));
    if (!fresh) return check_tables(d, e);
    return lmi_fail(e, LAM_IO, d->file, "it is empty: nothing was recorded%s",
                    d->no_log ? ", or it was copied or moved without its -wal file" : "");
}

/* Reads a log without an index where no index can be made. There is no writer, as a writer has an index. The
 * file is opened for exclusive use: SQLite then keeps the index in memory and changes nothing. */
static lam_status read_alone(lmi_db *d, lam_error *e) {
    lmi_db_close(d);
    int code = open_named(d, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, LMI_SQLITE_LOCKLESS);
    if (code != SQLITE_OK) return db_fail(d, "it can't be read", e);
    sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    LAM_TRY(lmi_db_run(d, "PRAGMA locking_mode = EXCLUSIVE", e));
    distrust(d->db);
    return check_readable(d, e);
}

lam_status lmi_db_read(lmi_db *d, const char *file, lam_error *e) {
    struct stat st;
    *d = (lmi_db){.file = file};
    if (stat(file, &st) != 0) return lmi_fail(e, LAM_IO, file, "there is no such file");
    if (!S_ISREG(st.st_mode)) return lmi_fail(e, LAM_IO, file, "it is not a file");
    LAM_TRY(lmi_sqlite(e));
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    d->no_log = !has_beside(file, "-wal");
    int code = d->no_log ? open_closed(d) : open_named(d, flags, NULL);
    if (code != SQLITE_OK) return db_fail(d, "it can't be read", e);
    distrust(d->db);
    lam_status s = check_readable(d, e);
    int why = sqlite3_errcode(d->db) & 0xff;
    bool no_index = why == SQLITE_CANTOPEN || why == SQLITE_READONLY;
    return s != LAM_OK && no_index && !has_beside(file, "-shm") ? read_alone(d, e) : s;
}

/* -- a moved file ------------------------------------------------------------------------------ */

bool lmi_db_moved(const lmi_db *d) {
    int moved = 0;
    return sqlite3_file_control(d->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

static void remove_beside(const char *file, const char *suffix) {
    char *beside = sqlite3_mprintf("%s%s", file, suffix);
    if (beside) (void)unlink(beside);
    sqlite3_free(beside);
}

void lmi_db_follow(lmi_db *d) {
    (void)sqlite3_wal_checkpoint_v2(d->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    remove_beside(d->file, "-wal");
    remove_beside(d->file, "-shm");
}
