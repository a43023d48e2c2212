/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of the text of a saved report, and the values of their rows. */
#include "base/sqlite.h"
#include "report/saved/saved.h"

lam_status lmi_saved_wrong(const lmi_saved *s, const char *what) {
    return lmi_fail(s->w.e, LAM_FAILED, s->file,
                    "it is no report that lamina saved as JSON: %s; `lamina show TARGET --json -o FILE` "
                    "writes one",
                    what);
}

lam_status lmi_saved_failed(const lmi_saved *s, int code) {
    if (code == SQLITE_NOMEM) return lmi_nomem(s->w.e);
    return lmi_saved_wrong(s, sqlite3_errmsg(s->db));
}

lam_status lmi_saved_ask(const lmi_saved *s, const char *sql, sqlite3_stmt **out) {
    int code = sqlite3_prepare_v2(s->db, sql, -1, out, NULL);
    if (code == SQLITE_OK && sqlite3_bind_parameter_count(*out) > 0)
        code = sqlite3_bind_text64(*out, 1, s->text, (sqlite3_uint64)s->n, SQLITE_STATIC, SQLITE_UTF8);
    if (code == SQLITE_OK) return LAM_OK;
    lam_status status = lmi_saved_failed(s, code);
    sqlite3_finalize(*out);
    *out = NULL;
    return status;
}

lam_status lmi_saved_next(const lmi_saved *s, sqlite3_stmt *q, bool *more) {
    int code = sqlite3_step(q);
    *more = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? LAM_OK : lmi_saved_failed(s, code);
}

lam_status lmi_saved_each(lmi_saved *s, const char *sql, lmi_saved_row row, void *to) {
    sqlite3_stmt *q = NULL;
    bool more = true;
    lam_status status = lmi_saved_ask(s, sql, &q);
    while (status == LAM_OK && more) {
        status = lmi_saved_next(s, q, &more);
        if (status == LAM_OK && more) status = row(s, q, to);
    }
    sqlite3_finalize(q);
    return status;
}

lam_status lmi_saved_list(lmi_saved *s, const char *sql, lmi_saved_row row, size_t size, int32_t *n,
                          void *out) {
    lmi_vec v;
    lmi_vec_init(&v, size);
    lam_status status = lmi_saved_each(s, sql, row, &v);
    const void *kept = status == LAM_OK ? lmi_copy(&s->w.o->arena, v.data, v.n, size) : NULL;
    if (status == LAM_OK && !kept) status = lmi_nomem(s->w.e);
    if (status == LAM_OK) {
        *n = (int32_t)v.n;
        memcpy(out, &kept, sizeof kept);
    }
    lmi_vec_free(&v);
    return status;
}

static lam_status take_truth(lmi_saved *s, sqlite3_stmt *q, void *to) {
    (void)s;
    *(bool *)to = sqlite3_column_int(q, 0) != 0;
    return LAM_OK;
}

lam_status lmi_saved_truth(lmi_saved *s, const char *sql, bool *out) {
    *out = false;
    return lmi_saved_each(s, sql, take_truth, out);
}

lam_status lmi_saved_phase_of(const lmi_saved *s, const char *name, uint8_t *out) {
    for (int p = 0; p < LAM_N_PHASES; p++)
        if (strcmp(name, lam_phase_name((lam_phase)p)) == 0) return *out = (uint8_t)p, LAM_OK;
    return lmi_saved_wrong(s, "it names a phase that is not known");
}

lam_held lmi_saved_held_of(const char *name) {
    int h = LAM_N_HELD - 1;
    while (h > LAM_HELD_OTHER && strcmp(name, lam_held_name((lam_held)h)) != 0) h--;
    return (lam_held)h;
}

static const char not_whole[] = "a number in it is no whole number of at least 0",
                  too_large[] = "a number in it is larger than any that lamina writes";

lam_status lmi_saved_int(const lmi_saved *s, sqlite3_stmt *q, int column, int64_t *out) {
    *out = -1;
    switch (sqlite3_column_type(q, column)) {
    case SQLITE_NULL: return LAM_OK;
    case SQLITE_INTEGER: *out = sqlite3_column_int64(q, column); break;
    case SQLITE_FLOAT: /* SQLite reads integers beyond 64 bits as floats */
        if (sqlite3_column_double(q, column) >= 0x1p63) return lmi_saved_wrong(s, too_large);
    }
    return *out >= 0 ? LAM_OK : lmi_saved_wrong(s, not_whole);
}

lam_status lmi_saved_text(lmi_saved *s, sqlite3_stmt *q, int column, const char **out) {
    const char *text = (const char *)sqlite3_column_text(q, column);
    if (!text && sqlite3_errcode(s->db) == SQLITE_NOMEM) return lmi_nomem(s->w.e);
    *out = lmi_take_text(&s->w, text);
    return *out ? LAM_OK : lmi_nomem(s->w.e);
}

/* The column has `[value,"state"]`, without spaces. */
lam_status lmi_saved_count(const lmi_saved *s, sqlite3_stmt *q, int column, lam_count *out) {
    const lmi_wide most = ((lmi_wide)UINT32_MAX << 63) + INT64_MAX;
    const char *at = (const char *)sqlite3_column_text(q, column);
    lmi_wide n = 0;
    *out = lmi_unknown();
    if (!at && sqlite3_errcode(s->db) == SQLITE_NOMEM) return lmi_nomem(s->w.e);
    if (!at || strncmp(at, "[null,", 6) == 0) return LAM_OK;
    const char *first = ++at;
    for (; *at >= '0' && *at <= '9'; at++) {
        n = 10 * n + (*at - '0');
        if (n > most) return lmi_saved_wrong(s, too_large);
    }
    if (at == first || *at != ',') return lmi_saved_wrong(s, not_whole);
    if (strcmp(++at, "null]") == 0) return LAM_OK;
    for (int i = LAM_EXACT; i <= LAM_UNKNOWN; i++) {
        const char *name = lam_state_name((lam_state)i);
        size_t length = strlen(name);
        if (*at != '"' || strncmp(at + 1, name, length) != 0 || strcmp(at + 1 + length, "\"]") != 0) continue;
        *out = lmi_of_wide(n);
        out->state = (lam_state)i;
        return LAM_OK;
    }
    return lmi_saved_wrong(s, "a number in it has no known state");
}
