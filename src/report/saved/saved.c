/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the file and takes all parts of it. */
#include "report/saved/saved.h"
#include "base/sqlite.h"
#include "base/system.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 29 }; /* of a file, in bytes: SQLite's own limit is 1e9 */

/* -- the file -------------------------------------------------------------------------------------------- */

static lam_status unreadable(const lmi_saved *s) {
    return lmi_fail(s->w.e, LAM_IO, s->file, "it can't be read: %s%s", strerror(errno),
                    errno == ENOENT ? "; `lamina show TARGET --json -o FILE` writes a report" : "");
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
    struct stat st;
    if (stat(s->file, &st) != 0) return unreadable(s);
    if (!S_ISREG(st.st_mode)) return lmi_fail(s->w.e, LAM_IO, s->file, "it is not a file");
    FILE *f = fopen(s->file, "rb");
    if (!f) return unreadable(s);
    lam_status status = read_all(s, f);
    fclose(f);
    if (status != LAM_OK) return status;
    LAM_TRY(lmi_sqlite(s->w.e));
    int code = sqlite3_open(":memory:", &s->db);
    if (code != SQLITE_OK) return s->db ? lmi_saved_failed(s, code) : lmi_nomem(s->w.e);
    return LAM_OK;
}

/* -- all ------------------------------------------------------------------------------------------------- */

static lam_status check(lmi_saved *s) {
    bool valid, ours, rows;
    LAM_TRY(lmi_saved_truth(s, "SELECT json_valid(?1)", &valid));
    if (!valid) return lmi_saved_wrong(s, "it is no JSON");
    LAM_TRY(lmi_saved_truth(s, "SELECT json_extract(?1, '$.schema') = 'lamina.report/1'", &ours));
    if (!ours) return lmi_saved_wrong(s, "its \"schema\" is not \"lamina.report/1\"");
    LAM_TRY(lmi_saved_truth(s, "SELECT json_type(?1, '$.rows') = 'array'", &rows));
    return rows ? LAM_OK : lmi_saved_wrong(s, "it has no list of \"rows\"");
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
    return lmi_saved_levels(s);
}

lam_status lmi_saved_outline(lmi_outline *o, const char *file, lam_error *e) {
    lmi_saved s = {.w = {.o = o, .e = e}, .file = file};
    *o = (lmi_outline){.peak_place = -1, .backward_us = -1};
    lmi_arena_init(&o->arena, UINT64_MAX);
    lmi_arena_init(&s.w.scratch, UINT64_MAX);
    lmi_map_init(&s.w.texts);
    lmi_buf_init(&s.w.text);
    lmi_vec_init(&s.of_row, sizeof(int32_t));
    lmi_map_init(&s.by_path);
    lam_status status = take(&s);
    if (s.db) sqlite3_close(s.db);
    free(s.text);
    lmi_vec_free(&s.of_row);
    lmi_map_free(&s.by_path);
    lmi_buf_free(&s.w.text);
    lmi_map_free(&s.w.texts);
    lmi_arena_free(&s.w.scratch);
    return status;
}
