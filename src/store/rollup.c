/* SPDX-License-Identifier: Apache-2.0
 *
 * Rollups: summaries of each layer over many steps of one kind, stored beside the rows, so that a reader of
 * medians need not read all rows. The steps of a model are rolled up when there are LMI_ROLL_UP new ones; the
 * rows of later steps are read as they are, and so are those that represent fewer steps than the rest, the
 * first ones of a run. */
#include "base/sqlite.h"
#include "store/bins.h"

#include <stdlib.h>

#define NUMBER(field, told)                                                                                  \
    { offsetof(lmi_measure, field), offsetof(lam_recorded_place, told) }
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

static lam_status read_layer_sum(const lmi_db *d, sqlite3_stmt *s, int64_t most, int64_t weight,
                                 lmi_layer_sums *to, lam_error *e) {
    int64_t place, steps, looked, nonfinite;
    LAM_TRY(lmi_db_int(d, s, 0, false, (int64_t)to->n - 1, "the place of a rollup", &place, e));
    LAM_TRY(lmi_db_int(d, s, 1, false, most, "the steps of a rollup", &steps, e));
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
    for (int k = 0; k < LMI_N_NUMBERS && (at < end || k < LMI_FIRST_NUMBERS); k++) {
        const lam_status status = lmi_bins_get(&sum->of[k], &at, end, steps, weight);
        if (status != LAM_OK) return status == LAM_NOMEM ? lmi_nomem(e) : damaged(d, e);
    }
    return at == end ? LAM_OK : damaged(d, e);
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
        status = read_layer_sum(d, s, of->steps, weight, to, e);
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
    return LAM_OK;
}

lam_status lmi_read_rollups(lam_recording *r, lmi_root *root, lam_error *e) {
    sqlite3_stmt *s;
    lmi_taken got;
    LAM_TRY(
        lmi_db_prepare(&r->db, &s,
                       r->db.version < 5
                           ? "SELECT id, training, gradients, went_back, calls, steps, last_step, NULL"
                             " FROM rollups WHERE model = ? ORDER BY id"
                           : "SELECT id, training, gradients, went_back, calls, steps, last_step, compiled"
                             " FROM rollups WHERE model = ? ORDER BY id",
                       e));
    sqlite3_bind_int64(s, 1, root->id);
    LAM_TRY(lmi_take_rows(r, s, read_rollup, NULL, sizeof(lmi_rollup), &got, e));
    root->rollups = got.rows;
    root->n_rollups = got.n;
    root->rolled_up = got.n ? root->rollups->last_step : 0; /* all are written at once */
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
    lmi_rollup rollup; /* id 0: new */
    lmi_layer_sums sums;
} growing;

/* The state of one lmi_roll_up(). */
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
    return lmi_sums_new(&(*out)->sums, g->root.told.n_places, e);
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

static lam_status roll_up_step(rolling *g, sqlite3_stmt *step, sqlite3_stmt *layers, int64_t id,
                               lam_error *e) {
    bool more;
    lmi_step s;
    growing *to;
    sqlite3_bind_int64(step, 1, id);
    lam_status status = lmi_db_next(&g->r.db, step, &more, e);
    if (status == LAM_OK && !more) status = damaged(&g->r.db, e);
    if (status == LAM_OK) status = lmi_read_step(&g->r.db, step, &g->root, &s, e);
    sqlite3_reset(step);
    if (status != LAM_OK || !lmi_rolled_up(&g->root, &s)) return status;
    s.weight = 1; /* the reader weighs the whole rollup */
    LAM_TRY(rollup_of(g, &s, &to, e));
    to->rollup.steps++;
    g->rows.n = 0;
    LAM_TRY(lmi_read_step_rows(&g->r.db, layers, &g->root, &s, g->ends, &g->rows, e));
    return lmi_sums_add(&to->sums, g->rows.data, g->rows.n, e);
}

static lam_status roll_up_steps(rolling *g, const int64_t *steps, size_t n, lam_error *e) {
    sqlite3_stmt *step = NULL, *layers = NULL;
    lam_status s = lmi_db_prepare(&g->r.db, &step, lmi_one_step(), e);
    if (s == LAM_OK) s = lmi_db_prepare(&g->r.db, &layers, lmi_layers(&g->r.db), e);
    for (size_t i = 0; s == LAM_OK && i < n; i++) s = roll_up_step(g, step, layers, steps[i], e);
    lmi_db_done(step);
    lmi_db_done(layers);
    return s;
}

static lam_status put_rollup(const lmi_db *d, int64_t model, int64_t last_step, growing *g, lam_error *e) {
    sqlite3_stmt *s;
    const lmi_step *like = &g->rollup.like;
    LAM_TRY(lmi_db_prepare(d, &s, "INSERT OR REPLACE INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", e));
    lam_status status = lmi_db_put(d, s, e, "uiiiiuiiu", g->rollup.id ? g->rollup.id : -1, model,
                                   like->training, like->gradients, (int64_t)(like->backward >= 0),
                                   like->calls, g->rollup.steps, last_step, like->compiled);
    lmi_db_done(s);
    if (!g->rollup.id) g->rollup.id = sqlite3_last_insert_rowid(d->db);
    return status;
}

static lam_status put_layers(const lmi_db *d, const growing *g, lam_error *e) {
    sqlite3_stmt *s;
    lmi_buf bins;
    LAM_TRY(lmi_db_prepare(d, &s, "INSERT OR REPLACE INTO rollup_layers VALUES (?, ?, ?, ?, ?, ?)", e));
    lmi_buf_init(&bins);
    lam_status status = LAM_OK;
    for (int32_t i = 0; status == LAM_OK && i < g->sums.n; i++) {
        const lmi_layer_sum *sum = g->sums.all[i];
        if (!sum) continue;
        bins.n = 0;
        for (int k = 0; k < LMI_N_NUMBERS; k++) lmi_bins_put(&sum->of[k], &bins);
        status = lmi_buf_status(&bins, e);
        if (status == LAM_OK)
            status = lmi_db_put(d, s, e, "iiiiib", g->rollup.id, (int64_t)i, sum->steps, sum->looked,
                                sum->nonfinite, bins.s, (int64_t)bins.n);
    }
    lmi_buf_free(&bins);
    lmi_db_done(s);
    return status;
}

static lam_status load(rolling *g, lam_error *e) {
    LAM_TRY(lmi_read_places(&g->r, &g->root, e));
    LAM_TRY(lmi_read_rollups(&g->r, &g->root, e));
    g->ends = lmi_ends(&g->root);
    if (!g->ends) return lmi_nomem(e);
    for (int64_t i = 0; i < g->root.n_rollups; i++) {
        growing *one;
        const lmi_rollup *of = &g->root.rollups[i];
        LAM_TRY(add_growing(g, of, &one, e));
        LAM_TRY(lmi_sums_read(&g->r.db, of, 1, &one->sums, e));
    }
    return LAM_OK;
}

lam_status lmi_roll_up(const lmi_db *d, int64_t model, int32_t every, const int64_t *steps, size_t n,
                       lam_error *e) {
    if (!n) return LAM_OK;
    rolling g = {.r = {.db = *d, .ceiling = INT64_MAX}, .root = {.id = model, .every = every}};
    lmi_arena_init(&g.r.arena, INT64_MAX);
    lmi_vec_init(&g.all, sizeof(growing));
    lmi_vec_init(&g.rows, sizeof(lmi_measure));
    lam_status s = load(&g, e);
    g.root.rolled_up = steps[n - 1];
    if (s == LAM_OK) s = roll_up_steps(&g, steps, n, e);
    for (size_t i = 0; i < g.all.n; i++) {
        growing *one = lmi_vec_at(&g.all, i);
        if (s == LAM_OK) s = put_rollup(d, model, g.root.rolled_up, one, e);
        if (s == LAM_OK) s = put_layers(d, one, e);
        lmi_sums_free(&one->sums);
    }
    lmi_vec_free(&g.all);
    lmi_vec_free(&g.rows);
    free(g.ends);
    lmi_arena_free(&g.r.arena);
    return s;
}
