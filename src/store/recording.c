/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a recording: reads and sums it up as a whole, and returns its contents. */
#include "base/sqlite.h"
#include "base/system.h"
#include "store/bins.h"

#include <stdio.h>
#include <stdlib.h>

int32_t lam_recorded_every(int32_t every, int64_t k) {
    static const int32_t of[] = {1, 2, 5, 10, 20, 50, 100};
    enum { N = sizeof of / sizeof *of, DENSE = 32 };
    if (every != LAM_THINNING) return every;
    int i = 0;
    while (i < N - 1 && k > (int64_t)of[i] * DENSE) i++;
    return of[i];
}

const char *lam_step_phase_name(lam_step_phase phase) {
    static const char *const names[] = {
        [LAM_STEP_INPUT] = "input",         [LAM_STEP_H2D] = "h2d",   [LAM_STEP_FORWARD] = "forward",
        [LAM_STEP_BACKWARD] = "backward",   [LAM_STEP_COMM] = "comm", [LAM_STEP_OTHER] = "other",
        [LAM_STEP_OPTIMIZER] = "optimizer",
    };
    return phase >= 0 && phase < LAM_N_STEP_PHASES ? names[phase] : NULL;
}

const char *lam_recorded_rule(int32_t every, char *to) {
    if (every == LAM_THINNING)
        snprintf(to, LAM_RULE_WORDS, "every step at first, then fewer, one in %d from step 1,600 on",
                 (int)lam_recorded_every(every, INT64_MAX));
    else if (every > 1)
        snprintf(to, LAM_RULE_WORDS, "one in %d steps", (int)every);
    else
        snprintf(to, LAM_RULE_WORDS, "every step");
    return to;
}

static lam_status read_all(lam_recording *r, const char *file, int64_t run, int32_t last, lam_error *e) {
    LAM_TRY(lmi_read(r, file, run, last, e));
    char *name = lmi_strdup(&r->arena, file);
    if (!name) return lmi_nomem(e);
    lmi_clean(name);
    r->run.file = name;
    r->path = lmi_strdup(&r->arena, file);
    if (!r->path) return lmi_nomem(e);
    /* Rollups cover all steps, so they are of use only if all steps are wanted. */
    for (int32_t i = 0; last <= 0 && !r->steps_alone && r->db.version >= 4 && i < r->run.n_models; i++)
        LAM_TRY(lmi_read_rollups(r, &r->roots[i], e));
    LAM_TRY(lmi_split_kinds(r, e));
    return lmi_sum_up(r, e);
}

static lam_status open_it(lam_recording **out, const char *file, int64_t run, int32_t last, bool steps_alone,
                          lam_error *e) {
    *out = NULL;
    if (!file) return lmi_fail(e, LAM_USAGE, NULL, "which file is the recording?");
    lam_recording *r = calloc(1, sizeof *r);
    if (!r) return lmi_nomem(e);
    lmi_arena_init(&r->arena, INT64_MAX);
    r->steps_alone = steps_alone;
    lam_status s = read_all(r, file, run, last, e);
    lmi_db_close(&r->db);
    if (s == LAM_OK)
        *out = r;
    else
        lam_recording_free(r);
    return s;
}

lam_status lam_recording_open(lam_recording **out, const char *file, int64_t run, int32_t last,
                              lam_error *e) {
    return open_it(out, file, run, last, false, e);
}

lam_status lam_recording_open_steps(lam_recording **out, const char *file, int64_t run, lam_error *e) {
    return open_it(out, file, run, 0, true, e);
}

static lam_status find_before(const lam_recording *r, lmi_db *db, int64_t *run, lam_error *e) {
    sqlite3_stmt *s;
    bool there = false;
    LAM_TRY(lmi_db_read(db, r->path, e));
    if (db->version < 7) return LAM_OK;
    LAM_TRY(lmi_db_prepare(db, &s, "SELECT ifnull(max(id), 0) FROM runs WHERE id < ?1 AND job = ?2", e));
    sqlite3_bind_int64(s, 1, r->run.run);
    sqlite3_bind_text(s, 2, r->run.job, -1, SQLITE_STATIC);
    const lam_status status = lmi_db_next(db, s, &there, e);
    if (status == LAM_OK && there) *run = sqlite3_column_int64(s, 0);
    lmi_db_done(s);
    return status;
}

lam_status lam_recording_open_before(lam_recording **out, const lam_recording *r, lam_error *e) {
    lmi_db db = {0};
    int64_t run = 0;
    *out = NULL;
    if (!r->run.job) return LAM_OK;
    const lam_status s = find_before(r, &db, &run, e);
    lmi_db_close(&db);
    return s == LAM_OK && run > 0 ? open_it(out, r->path, run, 0, true, e) : s;
}

void lam_recording_free(lam_recording *r) {
    if (!r) return;
    lmi_arena_free(&r->arena);
    free(r);
}

const lam_recorded_run *lam_recording_run(const lam_recording *r) { return &r->run; }

const lam_recorded_model *lam_recording_model(const lam_recording *r, int32_t i) {
    return i >= 0 && i < r->run.n_models ? &r->roots[i].info : NULL;
}

const lam_recorded_place *lam_recording_place(const lam_recording *r, int32_t model, int32_t place) {
    const lam_recorded_model *m = lam_recording_model(r, model);
    return m && place >= 0 && place < m->n_places ? &r->roots[model].places[place] : NULL;
}

bool lam_recording_is(const char *file) {
    static const char magic[] = "SQLite format 3";
    char start[sizeof magic] = {0};
    size_t n = file ? strlen(file) : 0;
    if (n > 7 && strcmp(file + n - 7, ".lamina") == 0) return true;
    int fd = file ? open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) return false;
    ssize_t got = read(fd, start, sizeof start);
    close(fd);
    return got == (ssize_t)sizeof start && memcmp(start, magic, sizeof magic) == 0;
}
