/* SPDX-License-Identifier: Apache-2.0
 *
 * Rollups: summaries of each layer over the steps of one kind in an hour, which replace their rows, so that a
 * file grows by what is new in it and a reader of medians reads little. They are written once; those of a day
 * are merged two weeks later. Medians of any time are those of the sum of its rollups. Steps that represent
 * fewer than the rest, the first ones of a run, stay as they are. */
#include "base/sqlite.h"
#include "store/bins.h"

#include <stdlib.h>

#define NUMBER(field, info)                                                                                  \
    { offsetof(lmi_measure, field), offsetof(lam_recorded_place, info) }
const lmi_number lmi_numbers[LMI_N_NUMBERS] = {
    NUMBER(calls, calls),
    NUMBER(forward, forward_ns),
    NUMBER(self, self_ns),
    NUMBER(backward, backward_ns),
    NUMBER(total_backward, total_backward_ns),
    NUMBER(recompute, recompute_ns),
    NUMBER(allocated, allocated_bytes),
    NUMBER(retained, retained_bytes),
    NUMBER(peak, peak_bytes),
    NUMBER(device_forward, device_forward_ns),
    NUMBER(device_self, device_self_ns),
    NUMBER(device_backward, device_backward_ns),
    NUMBER(device_recompute, device_recompute_ns),
    NUMBER(device_retained, device_retained_bytes),
    NUMBER(device_peak, device_peak_bytes),
    NUMBER(regions, regions),
};

/* == sums in memory ==================================================================================== */

lam_status lmi_sums_new(lmi_layer_sums *s, int32_t n, lam_error *e) {
    *s = (lmi_layer_sums){n, calloc((size_t)n + 1, sizeof(lmi_layer_sum *))};
    return s->all ? LAM_OK : lmi_nomem(e);
}

void lmi_sums_free(lmi_layer_sums *s) {
    for (int32_t i = 0; s->all && i < s->n; i++) {
        for (int k = 0; s->all[i] && k < LMI_N_NUMBERS; k++) lmi_bins_free(&s->all[i]->of[k]);
        free(s->all[i]);
    }
    free((void *)s->all);
    s->all = NULL;
}

static lmi_layer_sum *sum_of(lmi_layer_sums *s, int64_t place) {
    lmi_layer_sum **at = &s->all[place];
    if (!*at) *at = calloc(1, sizeof **at);
    return *at;
}

static bool add_row(lmi_layer_sum *to, const lmi_measure *row) {
    bool ok = true;
    to->steps++;
    if (row->nan >= 0 || row->inf >= 0) to->looked++;
    if (row->nan > 0 || row->inf > 0) to->nonfinite++;
    for (int k = 0; k < LMI_N_NUMBERS; k++)
        ok = lmi_bins_add(&to->of[k], *(const int64_t *)((const char *)row + lmi_numbers[k].measure),
                          row->weight) &&
             ok;
    return ok;
}

lam_status lmi_sums_add(lmi_layer_sums *s, const lmi_measure *rows, size_t n, lam_error *e) {
    for (size_t i = 0; i < n; i++) {
        lmi_layer_sum *to = sum_of(s, rows[i].place);
        if (!to || !add_row(to, &rows[i])) return lmi_nomem(e);
    }
    return LAM_OK;
}

/* == reading =========================================================================================== */

static lam_status damaged(const lmi_db *d, lam_error *e) {
    return lmi_fail(e, LAM_IO, d->file,
                    "it is damaged: its rollups don't fit its steps; after DELETE FROM rollups the steps "
                    "themselves are read");
}

/* Adds the numbers of a layer. */
static lam_status get_numbers(lmi_layer_sum *sum, const unsigned char *at, const unsigned char *end,
                              int64_t steps, int64_t weight, bool old) {
    const unsigned char *from[LMI_N_NUMBERS];
    for (int k = 0; k < LMI_N_NUMBERS && (!old || at < end || k < LMI_FIRST_NUMBERS); k++) {
        from[k] = at;
        const int same = old ? -1 : lmi_bins_same(&at, end);
        if (same >= k) return LAM_RANGE;
        const unsigned char **bins = same < 0 ? &at : &from[same];
        const unsigned char *before = *bins;
        LAM_TRY(lmi_bins_get(&sum->of[k], bins, end, steps, weight, old));
        if (same >= 0) *bins = before;
    }
    return at == end ? LAM_OK : LAM_RANGE;
}

static lam_status read_layer_sum(const lmi_db *d, sqlite3_stmt *s, const lmi_rollup *of, int64_t weight,
                                 lmi_layer_sums *to, lam_error *e) {
    int64_t place, steps, looked, nonfinite;
    LAM_TRY(lmi_db_int(d, s, 0, false, (int64_t)to->n - 1, "the place of a rollup", &place, e));
    LAM_TRY(lmi_db_int(d, s, 1, false, of->steps, "the steps of a rollup", &steps, e));
    LAM_TRY(lmi_db_int(d, s, 2, false, steps, "the steps of a rollup", &looked, e));
    LAM_TRY(lmi_db_int(d, s, 3, false, looked, "the steps of a rollup", &nonfinite, e));
    lmi_layer_sum *sum = sum_of(to, place);
    if (!sum) return lmi_nomem(e);
    sum->steps += steps;
    sum->looked += looked;
    sum->nonfinite += nonfinite;
    if (sqlite3_column_type(s, 4) != SQLITE_BLOB) return damaged(d, e);
    const unsigned char *at = sqlite3_column_blob(s, 4); /* NULL if the blob is empty */
    if (!at) return damaged(d, e);
    const unsigned char *end = at + sqlite3_column_bytes(s, 4);
    const lam_status status = get_numbers(sum, at, end, steps, weight, of->old);
    if (status == LAM_OK) return LAM_OK;
    return status == LAM_NOMEM ? lmi_nomem(e) : damaged(d, e);
}

lam_status lmi_sums_read(const lmi_db *d, const lmi_rollup *of, int64_t weight, lmi_layer_sums *to,
                         lam_error *e) {
    sqlite3_stmt *s;
    bool more = true;
    LAM_TRY(lmi_db_prepare(d, &s,
                           "SELECT place, steps, looked, nonfinite, bins FROM rollup_layers WHERE rollup = ?",
                           e));
    sqlite3_bind_int64(s, 1, of->id);
    lam_status status = LAM_OK;
    while (status == LAM_OK && (status = lmi_db_next(d, s, &more, e)) == LAM_OK && more)
        status = read_layer_sum(d, s, of, weight, to, e);
    lmi_db_done(s);
    return status;
}

static lam_status read_rollup(lam_recording *r, sqlite3_stmt *s, void *self, const lmi_vec *rows, void *row,
                              lam_error *e) {
    const lmi_db *d = &r->db;
    lmi_rollup *to = row;
    int64_t went_back;
    (void)self, (void)rows;
    *to = (lmi_rollup){.like = {.number = 1}};
    LAM_TRY(lmi_db_int(d, s, 0, false, INT64_MAX, "the key of a rollup", &to->id, e));
    LAM_TRY(lmi_db_int(d, s, 1, false, 1, "the mode of a rollup", &to->like.training, e));
    LAM_TRY(lmi_db_int(d, s, 2, false, 1, "whether a rollup had gradients", &to->like.gradients, e));
    LAM_TRY(lmi_db_int(d, s, 3, false, 1, "whether a rollup had a backward pass", &went_back, e));
    LAM_TRY(lmi_db_int(d, s, 4, true, LMI_MOST, "the calls of a rollup", &to->like.calls, e));
    LAM_TRY(lmi_db_int(d, s, 5, false, INT32_MAX, "the steps of a rollup", &to->steps, e));
    LAM_TRY(lmi_db_int(d, s, 6, false, INT64_MAX, "the last step of a rollup", &to->last_step, e));
    LAM_TRY(lmi_db_int(d, s, 7, true, 1, "whether compiled code ran in a rollup", &to->like.compiled, e));
    to->like.backward = went_back ? 0 : -1;
    to->old = sqlite3_column_type(s, 8) == SQLITE_NULL;
    return to->old ? LAM_OK : lmi_db_when(d, s, 8, "when a rollup begins", &to->from, e);
}

#define OF_ROLLUPS   "SELECT id, training, gradients, went_back, calls, steps, last_step, "
#define FROM_ROLLUPS " FROM rollups WHERE model = ? ORDER BY id"

lam_status lmi_read_rollups(lam_recording *r, lmi_root *root, lam_error *e) {
    sqlite3_stmt *s;
    lmi_taken got;
    LAM_TRY(lmi_db_prepare(&r->db, &s,
                           r->db.version < 5   ? OF_ROLLUPS "NULL, NULL" FROM_ROLLUPS
                           : r->db.version < 7 ? OF_ROLLUPS "compiled, NULL" FROM_ROLLUPS
                                               : OF_ROLLUPS "compiled, from_unix_ns" FROM_ROLLUPS,
                           e));
    sqlite3_bind_int64(s, 1, root->id);
    LAM_TRY(lmi_take_rows(r, s, read_rollup, NULL, sizeof(lmi_rollup), &got, e));
    root->rollups = got.rows;
    root->n_rollups = got.n;
    for (int64_t i = 0; i < got.n; i++) {
        const lmi_rollup *at = &root->rollups[i];
        int64_t *last = &root->rolled_up[lmi_mode(at->like.training == 1, at->like.gradients == 1)];
        if (*last < at->last_step) *last = at->last_step;
    }
    return LAM_OK;
}

lam_status lmi_check_rollups(const lam_recording *r, const lmi_root *root, lam_error *e) {
    int64_t steps = 0, said = 0;
    for (int64_t i = 0; i < root->n_steps; i++) steps += lmi_rolled_up(root, &root->steps[i]);
    for (int64_t i = 0; i < root->n_rollups && said <= steps; i++) said += root->rollups[i].steps;
    return steps == said ? LAM_OK : damaged(&r->db, e);
}

/* == writing =========================================================================================== */

/* This many numbers of calls have a separate rollup, and so has 1; all others share one. Readers separate
 * fewer numbers (kinds.c). */
enum { NUMBERS = 4, SEVERAL = -1 };

typedef struct growing {
    lmi_rollup rollup;
    lmi_layer_sums sums;
} growing;

/* The state of one lmi_roll_up() or lmi_merge_rollups(). */
typedef struct rolling {
    lam_recording r; /* of the database that is written: its places and, one by one, its steps */
    lmi_root root;
    lmi_vec all; /* growing */
    int32_t *ends;
    lmi_vec rows; /* lmi_measure: of one step */
} rolling;

static bool same(const lmi_step *a, const lmi_step *b) {
    return a->training == b->training && a->gradients == b->gradients && a->compiled == b->compiled &&
           (a->backward >= 0) == (b->backward >= 0);
}

static lam_status add_growing(rolling *g, const lmi_rollup *of, growing **out, lam_error *e) {
    *out = lmi_vec_push(&g->all);
    if (!*out) return lmi_nomem(e);
    (*out)->rollup = *of;
    return lmi_sums_new(&(*out)->sums, g->root.info.n_places, e);
}

static lam_status rollup_of(rolling *g, const lmi_step *s, growing **out, lam_error *e) {
    int numbers = 0;
    for (size_t i = 0; i < g->all.n; i++) {
        growing *one = *out = lmi_vec_at(&g->all, i);
        if (!same(&one->rollup.like, s)) continue;
        if (one->rollup.like.calls == s->calls) return LAM_OK;
        numbers += one->rollup.like.calls > 1;
    }
    lmi_rollup new = {.like = *s};
    if (s->calls > 1 && numbers >= NUMBERS) new.like.calls = SEVERAL;
    for (size_t i = 0; i < g->all.n && new.like.calls == SEVERAL; i++) {
        growing *one = *out = lmi_vec_at(&g->all, i);
        if (same(&one->rollup.like, s) && one->rollup.like.calls == SEVERAL) return LAM_OK;
    }
    return add_growing(g, &new, out, e);
}

/* Statements on one step, prepared once. */
typedef struct of_step {
    sqlite3_stmt *step, *layers, *forget;
} of_step;

static lam_status roll_up_step(rolling *g, const of_step *of, int64_t id, lam_error *e) {
    bool more;
    lmi_step s;
    growing *to;
    sqlite3_bind_int64(of->step, 1, id);
    lam_status status = lmi_db_next(&g->r.db, of->step, &more, e);
    if (status == LAM_OK && !more) status = damaged(&g->r.db, e);
    if (status == LAM_OK) status = lmi_read_step(&g->r.db, of->step, &g->root, &s, e);
    sqlite3_reset(of->step);
    if (status != LAM_OK || s.weight != lmi_weight(&g->root, LMI_MOST)) return status;
    if (!lmi_speaks(&s)) return lmi_db_put(&g->r.db, of->forget, e, "i", id);
    s.weight = 1; /* the reader weighs the whole rollup */
    LAM_TRY(rollup_of(g, &s, &to, e));
    to->rollup.steps++;
    g->rows.n = 0;
    LAM_TRY(lmi_read_step_rows(&g->r.db, of->layers, &g->root, &s, g->ends, &g->rows, e));
    LAM_TRY(lmi_sums_add(&to->sums, g->rows.data, g->rows.n, e));
    return lmi_db_put(&g->r.db, of->forget, e, "i", id);
}

static lam_status roll_up_steps(rolling *g, const lmi_raw *steps, size_t n, lam_error *e) {
    const lmi_db *d = &g->r.db;
    of_step of = {NULL, NULL, NULL};
    g->ends = lmi_ends(&g->root);
    lam_status s = g->ends ? lmi_db_prepare(d, &of.step, lmi_one_step(), e) : lmi_nomem(e);
    if (s == LAM_OK) s = lmi_db_prepare(d, &of.layers, lmi_layers(d), e);
    if (s == LAM_OK) s = lmi_db_prepare(d, &of.forget, "DELETE FROM layers WHERE step = ?", e);
    for (size_t i = 0; s == LAM_OK && i < n; i++) s = roll_up_step(g, &of, steps[i].id, e);
    lmi_db_done(of.step);
    lmi_db_done(of.layers);
    lmi_db_done(of.forget);
    return s;
}

static lam_status put_rollup(const lmi_db *d, int64_t model, growing *g, lam_error *e) {
    sqlite3_stmt *s;
    const lmi_step *like = &g->rollup.like;
    LAM_TRY(lmi_db_prepare(d, &s,
                           "INSERT INTO rollups (model, training, gradients, went_back, calls, steps,"
                           " last_step, compiled, from_unix_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           e));
    lam_status status = lmi_db_put(d, s, e, "iiiiuiiui", model, like->training, like->gradients,
                                   (int64_t)(like->backward >= 0), like->calls, g->rollup.steps,
                                   g->rollup.last_step, like->compiled, g->rollup.from);
    lmi_db_done(s);
    g->rollup.id = sqlite3_last_insert_rowid(d->db);
    return status;
}

/* Numbers are often equal to others: of a layer without layers inside, times with and without them. */
static void put_numbers(const lmi_layer_sum *sum, lmi_buf *to) {
    size_t from[LMI_N_NUMBERS + 1];
    to->n = 0;
    for (int k = 0; k < LMI_N_NUMBERS; k++) {
        from[k] = to->n;
        lmi_bins_put(&sum->of[k], to);
        from[k + 1] = to->n;
        const size_t bytes = to->n - from[k];
        for (int j = 0; bytes > 1 && j < k && !to->bad; j++) {
            if (from[j + 1] - from[j] != bytes || memcmp(to->s + from[j], to->s + from[k], bytes) != 0)
                continue;
            to->n = from[k];
            lmi_bins_put_same(j, to);
            break;
        }
        from[k + 1] = to->n;
    }
}

static lam_status put_layers(const lmi_db *d, const growing *g, lam_error *e) {
    sqlite3_stmt *s;
    lmi_buf bins;
    LAM_TRY(lmi_db_prepare(d, &s, "INSERT INTO rollup_layers VALUES (?, ?, ?, ?, ?, ?)", e));
    lmi_buf_init(&bins);
    lam_status status = LAM_OK;
    for (int32_t i = 0; status == LAM_OK && i < g->sums.n; i++) {
        const lmi_layer_sum *sum = g->sums.all[i];
        if (!sum) continue;
        put_numbers(sum, &bins);
        status = lmi_buf_status(&bins, e);
        if (status == LAM_OK)
            status = lmi_db_put(d, s, e, "iiiiib", g->rollup.id, (int64_t)i, sum->steps, sum->looked,
                                sum->nonfinite, bins.s, (int64_t)bins.n);
    }
    lmi_buf_free(&bins);
    lmi_db_done(s);
    return status;
}

static lam_status put_all(rolling *g, lam_error *e) {
    for (size_t i = 0; i < g->all.n; i++) {
        LAM_TRY(put_rollup(&g->r.db, g->root.id, lmi_vec_at(&g->all, i), e));
        LAM_TRY(put_layers(&g->r.db, lmi_vec_at(&g->all, i), e));
    }
    return LAM_OK;
}

static lam_status begin(rolling *g, const lmi_db *d, int64_t model, int32_t every, lam_error *e) {
    *g = (rolling){.r = {.db = *d, .ceiling = INT64_MAX}, .root = {.id = model, .every = every}};
    lmi_arena_init(&g->r.arena, INT64_MAX);
    lmi_vec_init(&g->all, sizeof(growing));
    lmi_vec_init(&g->rows, sizeof(lmi_measure));
    return lmi_read_places(&g->r, &g->root, e);
}

static void end(rolling *g) {
    for (size_t i = 0; i < g->all.n; i++) lmi_sums_free(&((growing *)lmi_vec_at(&g->all, i))->sums);
    lmi_vec_free(&g->all);
    lmi_vec_free(&g->rows);
    free(g->ends);
    lmi_arena_free(&g->r.arena);
}

lam_status lmi_roll_up(const lmi_db *d, int64_t model, int32_t every, const lmi_raw *steps, size_t n,
                       lam_error *e) {
    rolling g;
    if (!n) return LAM_OK;
    lam_status s = begin(&g, d, model, every, e);
    if (s == LAM_OK) s = roll_up_steps(&g, steps, n, e);
    for (size_t i = 0; i < g.all.n; i++) {
        lmi_rollup *one = &((growing *)lmi_vec_at(&g.all, i))->rollup;
        one->last_step = steps[n - 1].id;
        one->from = lmi_hour_of(steps[0].unix_ns);
    }
    if (s == LAM_OK) s = put_all(&g, e);
    end(&g);
    return s;
}

/* == merging =========================================================================================== */

#define HOUR_NS (INT64_C(3600) * 1000000000)
#define DAY_NS  (24 * HOUR_NS)
enum { DAYS_BY_HOUR = 14 };

static int64_t start_of(int64_t unix_ns, int64_t span) { return unix_ns - ((unix_ns % span) + span) % span; }

int64_t lmi_hour_of(int64_t unix_ns) { return start_of(unix_ns, HOUR_NS); }

static lam_status take_rollup(rolling *g, const lmi_rollup *of, int64_t from, lam_error *e) {
    growing *to;
    LAM_TRY(rollup_of(g, &of->like, &to, e));
    to->rollup.from = from;
    to->rollup.steps += of->steps;
    if (to->rollup.last_step < of->last_step) to->rollup.last_step = of->last_step;
    return lmi_sums_read(&g->r.db, of, 1, &to->sums, e);
}

static lam_status forget(const lmi_db *d, int64_t rollup, lam_error *e) {
    static const char *const all[] = {"DELETE FROM rollup_layers WHERE rollup = ?",
                                      "DELETE FROM rollups WHERE id = ?"};
    lam_status s = LAM_OK;
    for (int i = 0; s == LAM_OK && i < 2; i++) {
        sqlite3_stmt *one;
        LAM_TRY(lmi_db_prepare(d, &one, all[i], e));
        s = lmi_db_put(d, one, e, "i", rollup);
        lmi_db_done(one);
    }
    return s;
}

lam_status lmi_merge_rollups(const lmi_db *d, int64_t model, int64_t from_unix_ns, int64_t to_unix_ns,
                             lam_error *e) {
    rolling g;
    lam_status s = begin(&g, d, model, 1, e);
    if (s == LAM_OK) s = lmi_read_rollups(&g.r, &g.root, e);
    for (int64_t i = 0; s == LAM_OK && i < g.root.n_rollups; i++) {
        const lmi_rollup *one = &g.root.rollups[i];
        if (one->old || one->from < from_unix_ns || one->from >= to_unix_ns) continue;
        s = take_rollup(&g, one, from_unix_ns, e);
        if (s == LAM_OK) s = forget(d, one->id, e);
    }
    if (s == LAM_OK) s = put_all(&g, e);
    end(&g);
    return s;
}

lam_status lmi_merge_days(const lmi_db *d, int64_t model, int64_t unix_ns, lam_error *e) {
    lam_recording r = {.db = *d, .ceiling = INT64_MAX};
    lmi_root root = {.id = model};
    const int64_t before = start_of(unix_ns, DAY_NS) - DAYS_BY_HOUR * DAY_NS;
    lmi_arena_init(&r.arena, INT64_MAX);
    lam_status s = lmi_read_rollups(&r, &root, e);
    for (int64_t i = 0, merged = INT64_MIN; s == LAM_OK && i < root.n_rollups; i++) {
        const lmi_rollup *one = &root.rollups[i];
        const int64_t day = start_of(one->from, DAY_NS);
        if (one->old || one->from >= before || one->from == day || day == merged) continue;
        s = lmi_merge_rollups(d, model, day, day + DAY_NS, e);
        merged = day;
    }
    lmi_arena_free(&r.arena);
    return s;
}
