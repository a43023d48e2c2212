/* SPDX-License-Identifier: Apache-2.0
 *
 * The file and the questions about it. */
#include "report/saved/saved.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 29 }; /* of a file, in bytes: SQLite's own limit is 1e9 */

/* -- questions ------------------------------------------------------------------------------------------- */

lam_status lmi_saved_wrong(const lmi_saved *s, const char *what) {
    return lmi_fail(
        s->w.e, LAM_FAILED, s->file,
        "it is no report that lamina saved as JSON: %s; `lamina show TARGET --format json -o FILE` "
        "writes one",
        what);
}

static lam_status failed(const lmi_saved *s, int code) {
    if (code == SQLITE_NOMEM) return lmi_nomem(s->w.e);
    return lmi_saved_wrong(s, sqlite3_errmsg(s->db));
}

lam_status lmi_saved_ask(const lmi_saved *s, const char *sql, sqlite3_stmt **out) {
    int code = sqlite3_prepare_v2(s->db, sql, -1, out, NULL);
    if (code == SQLITE_OK && sqlite3_bind_parameter_count(*out) > 0)
        code = sqlite3_bind_text64(*out, 1, s->text, (sqlite3_uint64)s->n, SQLITE_STATIC, SQLITE_UTF8);
    if (code == SQLITE_OK) return LAM_OK;
    lam_status status = failed(s, code);
    sqlite3_finalize(*out);
    *out = NULL;
    return status;
}

lam_status lmi_saved_next(const lmi_saved *s, sqlite3_stmt *q, bool *more) {
    int code = sqlite3_step(q);
    *more = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? LAM_OK : failed(s, code);
}

lam_status lmi_saved_int(const lmi_saved *s, sqlite3_stmt *q, int column, int64_t *out) {
    *out = -1;
    switch (sqlite3_column_type(q, column)) {
    case SQLITE_NULL: return LAM_OK;
    case SQLITE_INTEGER: *out = sqlite3_column_int64(q, column); break;
    case SQLITE_FLOAT: /* SQLite reads whole numbers beyond 64 bits as these */
        if (sqlite3_column_double(q, column) >= 0x1p63) *out = INT64_MAX;
    }
    return *out >= 0 ? LAM_OK : lmi_saved_wrong(s, "a number in it is none of at least 0");
}

lam_status lmi_saved_text(lmi_saved *s, sqlite3_stmt *q, int column, const char **out) {
    const char *text = (const char *)sqlite3_column_text(q, column);
    if (!text && sqlite3_errcode(s->db) == SQLITE_NOMEM) return lmi_nomem(s->w.e);
    *out = lmi_take_text(&s->w, text);
    return *out ? LAM_OK : lmi_nomem(s->w.e);
}

lam_status lmi_saved_count(const lmi_saved *s, sqlite3_stmt *q, int column, lam_count *out) {
    int64_t n;
    *out = lmi_unknown();
    LAM_TRY(lmi_saved_int(s, q, column, &n));
    const char *state = (const char *)sqlite3_column_text(q, column + 1);
    if (n < 0 || !state) return LAM_OK;
    for (int i = LAM_EXACT; i <= LAM_UNKNOWN; i++)
        if (strcmp(state, lam_state_name((lam_state)i)) == 0) {
            *out = (lam_count){n, n == INT64_MAX, (lam_state)i};
            return LAM_OK;
        }
    return lmi_saved_wrong(s, "a number in it has no known state");
}

/* -- the file -------------------------------------------------------------------------------------------- */

static lam_status unreadable(const lmi_saved *s) {
    return lmi_fail(s->w.e, LAM_IO, s->file, "it can't be read: %s", strerror(errno));
}

static lam_status read_all(lmi_saved *s, FILE *f) {
    size_t room = 1 << 16;
    s->text = malloc(room);
    if (!s->text) return lmi_nomem(s->w.e);
    for (;;) {
        size_t n = fread(s->text + s->n, 1, room - (size_t)s->n, f);
        s->n += (int64_t)n;
        if (ferror(f)) return unreadable(s);
        if ((size_t)s->n < room) return LAM_OK;
        if (room >= LARGEST)
            return lmi_fail(s->w.e, LAM_LIMIT, s->file,
                            "it has more than %d MB; no report is as large as that", LARGEST >> 20);
        char *more = realloc(s->text, 2 * room);
        if (!more) return lmi_nomem(s->w.e);
        s->text = more;
        room *= 2;
    }
}

static lam_status open_file(lmi_saved *s) {
    FILE *f = fopen(s->file, "rb");
    if (!f) return unreadable(s);
    lam_status status = read_all(s, f);
    fclose(f);
    if (status != LAM_OK) return status;
    int code = sqlite3_open(":memory:", &s->db);
    if (code != SQLITE_OK) return s->db ? failed(s, code) : lmi_nomem(s->w.e);
    return LAM_OK;
}

/* -- all ------------------------------------------------------------------------------------------------- */

static lam_status check(lmi_saved *s) {
    sqlite3_stmt *q = NULL;
    bool more;
    lam_status status = lmi_saved_ask(s, "SELECT json_valid(?1)", &q);
    if (status == LAM_OK) status = lmi_saved_next(s, q, &more);
    if (status == LAM_OK && !sqlite3_column_int(q, 0)) status = lmi_saved_wrong(s, "it is no JSON");
    sqlite3_finalize(q);
    if (status != LAM_OK) return status;
    status = lmi_saved_ask(s, "SELECT json_extract(?1, '$.schema') = 'lamina.report/1'", &q);
    if (status == LAM_OK) status = lmi_saved_next(s, q, &more);
    if (status == LAM_OK && !sqlite3_column_int(q, 0))
        status = lmi_saved_wrong(s, "its \"schema\" is not \"lamina.report/1\"");
    sqlite3_finalize(q);
    return status;
}

static lam_status take(lmi_saved *s) {
    LAM_TRY(open_file(s));
    LAM_TRY(check(s));
    LAM_TRY(lmi_saved_places(s));
    LAM_TRY(lmi_saved_numbers(s));
    LAM_TRY(lmi_saved_held(s));
    LAM_TRY(lmi_find_runs(&s->w));
    LAM_TRY(lmi_keep_places(&s->w));
    LAM_TRY(lmi_outline_sum(s->w.o, s->w.e));
    LAM_TRY(lmi_saved_whole(s));
    return lmi_leave_out(s->w.o, s->w.e,
                         "It was made from a saved report, which has no formulas and no graph.");
}

lam_status lmi_saved_outline(lmi_outline *o, const char *file, lam_error *e) {
    lmi_saved s = {.w = {.o = o, .e = e}, .file = file};
    *o = (lmi_outline){.peak_place = -1, .backward_us = -1};
    lmi_arena_init(&o->arena, UINT64_MAX);
    lmi_arena_init(&s.w.scratch, UINT64_MAX);
    lmi_map_init(&s.w.texts);
    lmi_buf_init(&s.w.text);
    lmi_vec_init(&s.of_row, sizeof(int32_t));
    lam_status status = take(&s);
    sqlite3_close(s.db);
    free(s.text);
    lmi_vec_free(&s.of_row);
    lmi_buf_free(&s.w.text);
    lmi_map_free(&s.w.texts);
    lmi_arena_free(&s.w.scratch);
    return status;
}
