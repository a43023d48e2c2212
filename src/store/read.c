/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a recording from a file that is not trusted: every number is checked against its valid range, and
 * memory depends on how many rows there are, not on the numbers in them. */
#include "store/read.h"
#include "base/sqlite.h"
#include "base/system.h"

#include <stdlib.h>

enum { MOST_PROCESSES = 1 << 24 };

/* -- memory ------------------------------------------------------------------------------------ */

/* Texts are copied before lmi_may_take() is called, but none is longer than LONGEST_TEXT. */
enum { TEXTS = 8 << 20 };

/* An ordinary long run takes less memory than its file. Uses the size on disk: a file can look larger. */
static void set_ceiling(lam_recording *r, const char *file) {
    const int64_t size = lmi_disk_size(file);
    r->ceiling = LMI_CEILING + (uint64_t)(size > 0 ? size : 0);
    r->arena.limit = r->ceiling + TEXTS;
}

lam_status lmi_may_take(const lam_recording *r, uint64_t bytes, lam_error *e) {
    if (r->arena.used <= r->ceiling && bytes <= r->ceiling - r->arena.used) return LAM_OK;
    return lmi_fail(e, LAM_LIMIT, r->db.file,
                    "it is too large to be read: that takes more than %llu MB of memory; `lamina live "
                    "--once` reads the newest steps alone",
                    (unsigned long long)(r->ceiling >> 20));
}

lam_status lmi_take_rows(lam_recording *r, sqlite3_stmt *s, lmi_take_row take, void *self, size_t size,
                         lmi_taken *out, lam_error *e) {
    bool more = true;
    lmi_vec rows;
    lmi_vec_init(&rows, size);
    lam_status status = LAM_OK;
    while (status == LAM_OK && (status = lmi_db_next(&r->db, s, &more, e)) == LAM_OK && more) {
        void *to = lmi_vec_push(&rows);
        /* Counts the rows twice, as they are gathered first and then copied. */
        status = to ? lmi_may_take(r, 2 * (uint64_t)rows.n * size, e) : lmi_nomem(e);
        if (status == LAM_OK) status = take(r, s, self, &rows, to, e);
    }
    *out = (lmi_taken){lmi_copy(&r->arena, rows.data, rows.n, size), (int64_t)rows.n};
    if (status == LAM_OK && !out->rows) status = lmi_nomem(e);
    lmi_vec_free(&rows);
    lmi_db_done(s);
    return status;
}

/* -- the run ----------------------------------------------------------------------------------- */

static lam_status read_run_row(lam_recording *r, sqlite3_stmt *s, lam_error *e) {
    lam_recorded_run *to = &r->run;
    int64_t rank, world, every;
    const lmi_db *d = &r->db;
    LAM_TRY(lmi_db_int(d, s, 0, false, LMI_MOST, "the number of a run", &to->run, e));
    LAM_TRY(lmi_db_when(d, s, 1, "when the run began", &to->started_unix_ns, e));
    LAM_TRY(lmi_db_when(d, s, 2, "when the run was seen", &to->seen_unix_ns, e));
    if (sqlite3_column_type(s, 3) != SQLITE_NULL)
        LAM_TRY(lmi_db_when(d, s, 3, "when the run ended", &to->ended_unix_ns, e));
    LAM_TRY(lmi_db_int(d, s, 4, false, MOST_PROCESSES, "the run's rank", &rank, e));
    LAM_TRY(lmi_db_int(d, s, 5, false, MOST_PROCESSES, "the number of ranks", &world, e));
    LAM_TRY(lmi_db_int(d, s, 6, false, INT32_MAX, "each which step was seen", &every, e));
    LAM_TRY(lmi_db_int(d, s, 7, false, LMI_MOST, "the number of dropped steps", &to->dropped, e));
    to->rank = (int32_t)rank;
    to->world = (int32_t)world;
    to->every = (int32_t)every;
    LAM_TRY(lmi_db_text(d, s, 8, &r->arena, &to->command, e));
    LAM_TRY(lmi_db_text(d, s, 9, &r->arena, &to->host, e));
    LAM_TRY(lmi_db_text(d, s, 10, &r->arena, &to->torch, e));
    LAM_TRY(lmi_db_text(d, s, 11, &r->arena, &to->lamina, e));
    LAM_TRY(lmi_db_int(d, s, 12, false, INT32_MAX, "the run's process", &to->pid, e));
    LAM_TRY(lmi_db_text(d, s, 14, &r->arena, &to->job, e));
    LAM_TRY(lmi_db_int(d, s, 15, true, LMI_MOST, "the run's attempt", &to->attempt, e));
    LAM_TRY(lmi_db_text(d, s, 16, &r->arena, &to->ended_by, e));
    LAM_TRY(lmi_db_int(d, s, 17, true, LMI_MOST, "the calls of a run", &to->calls, e));
    to->gone = !to->ended_unix_ns && to->host && to->pid > 0 && lmi_is_gone(to->host, to->pid);
    /* The recorder of a later run has merged the log of this one. */
    to->cut = !to->ended_unix_ns && d->no_log && sqlite3_column_int(s, 13);
    return LAM_OK;
}

static lam_status no_run(const lam_recording *r, int64_t run, lam_error *e) {
    sqlite3_stmt *s;
    bool there = false;
    LAM_TRY(lmi_db_prepare(&r->db, &s, "SELECT max(id) FROM runs", e));
    lam_status status = lmi_db_next(&r->db, s, &there, e);
    const int64_t last = there ? sqlite3_column_int64(s, 0) : 0;
    lmi_db_done(s);
    LAM_TRY(status);
    if (last < 1) return lmi_fail(e, LAM_IO, r->db.file, "it holds no run: nothing was recorded");
    return lmi_fail(e, LAM_USAGE, r->db.file, "it has no run %lld; its newest is run %lld", (long long)run,
                    (long long)last);
}

#define OF_RUNS                                                                                              \
    "SELECT id, started_unix_ns, seen_unix_ns, ended_unix_ns, rank, world, every, dropped, command, host,"   \
    " torch, lamina, pid, id = (SELECT max(id) FROM runs), "
#define FROM_RUNS " FROM runs WHERE ?1 = 0 OR id = ?1 ORDER BY id DESC LIMIT 1"

static lam_status read_run(lam_recording *r, int64_t run, lam_error *e) {
    sqlite3_stmt *s;
    bool more = false;
    LAM_TRY(lmi_db_prepare(&r->db, &s,
                           r->db.version < 7 ? OF_RUNS "NULL, NULL, NULL, NULL" FROM_RUNS
                                             : OF_RUNS "job, attempt, ended_by, calls" FROM_RUNS,
                           e));
    sqlite3_bind_int64(s, 1, run);
    lam_status status = lmi_db_next(&r->db, s, &more, e);
    if (status == LAM_OK && !more) status = no_run(r, run, e);
    if (status == LAM_OK) status = read_run_row(r, s, e);
    lmi_db_done(s);
    return status;
}

/* -- places ------------------------------------------------------------------------------------ */

static lam_status read_place(lam_recording *r, sqlite3_stmt *s, void *self, const lmi_vec *rows, void *row,
                             lam_error *e) {
    const lmi_db *d = &r->db;
    const lam_recorded_place *before = rows->data;
    lam_recorded_place *to = row;
    int64_t n = (int64_t)rows->n - 1, place, parent, depth;
    (void)self;
    LAM_TRY(lmi_db_int(d, s, 0, false, INT32_MAX, "the number of a place", &place, e));
    LAM_TRY(lmi_db_int(d, s, 1, true, n > 0 ? n - 1 : 0, "the parent of a place", &parent, e));
    LAM_TRY(lmi_db_int(d, s, 2, false, INT32_MAX, "the depth of a place", &depth, e));
    LAM_TRY(lmi_db_text(d, s, 3, &r->arena, &to->path, e));
    LAM_TRY(lmi_db_text(d, s, 4, &r->arena, &to->type, e));
    LAM_TRY(lmi_db_int(d, s, 5, true, INT64_MAX, "the parameters of a place", &to->params, e));
    LAM_TRY(lmi_db_int(d, s, 6, true, INT64_MAX, "the local parameters of a place", &to->local_params, e));
    int64_t right = parent < 0 ? 0 : (int64_t)before[parent].depth + 1;
    if (place != n || (parent < 0) != (n == 0) || depth != right || !to->path || !to->type)
        return lmi_fail(e, LAM_IO, d->file, "it is damaged: its places are not a tree");
    to->parent = (int32_t)parent;
    to->depth = (int32_t)depth;
    return LAM_OK;
}

lam_status lmi_read_places(lam_recording *r, lmi_root *root, lam_error *e) {
    sqlite3_stmt *s;
    lmi_taken got;
    LAM_TRY(lmi_db_prepare(&r->db, &s,
                           "SELECT place, parent, depth, path, type, params, local_params FROM places"
                           " WHERE model = ? ORDER BY place",
                           e));
    sqlite3_bind_int64(s, 1, root->id);
    lam_status status = lmi_take_rows(r, s, read_place, root, sizeof(lam_recorded_place), &got, e);
    root->places = got.rows;
    root->info.n_places = (int32_t)got.n;
    if (root->info.tree >= 0) return status;
    uint64_t tree = 0; /* of a file that was written before version 8 */
    for (int32_t i = 0; status == LAM_OK && i < root->info.n_places; i++)
        tree = lmi_like_layers(tree, root->places[i].path, root->places[i].type);
    root->info.tree = (int64_t)(tree >> LMI_LIKE_SHIFT);
    return status;
}

/* -- steps ------------------------------------------------------------------------------------- */

lam_status lmi_read_step(const lmi_db *d, sqlite3_stmt *s, const lmi_root *root, lmi_step *to, lam_error *e) {
    int64_t most_place = root->info.n_places > 0 ? root->info.n_places - 1 : 0;
    struct column {
        int64_t *to;
        bool may_be_null;
        int64_t most;
        const char *what;
    } columns[] = {
        {&to->id, false, INT64_MAX, "the key of a step"},
        {&to->number, false, LMI_MOST, "the number of a step"},
        {&to->training, false, 1, "the mode of a step"},
        {NULL, false, 0, "when a step began"},
        {&to->t0_ns, false, INT64_MAX, "when a step began"},
        {&to->calls, false, LMI_MOST, "the calls of a step"},
        {&to->failed, false, 1, "whether a step failed"},
        {&to->forward, true, LMI_MOST, "a step's forward time"},
        {&to->backward, true, LMI_MOST, "a step's backward time"},
        {&to->peak, true, LMI_MOST, "a step's peak of memory"},
        {&to->looked, false, 1, "whether a step was checked"},
        {&to->first_bad, true, most_place, "a step's first bad layer"},
        {&to->device_forward, true, LMI_MOST, "a step's forward time on a device"},
        {&to->device_backward, true, LMI_MOST, "a step's backward time on a device"},
        {&to->device_peak, true, LMI_MOST, "a step's peak of a device's memory"},
        {&to->gradients, true, 1, "whether a step had gradients"},
        {&to->compiled, true, 1, "whether compiled code ran in a step"},
        {&to->whole, true, LMI_MOST, "how long a step took"},
        {&to->phases[LAM_STEP_INPUT], true, LMI_MOST, "a step's wait for input"},
        {&to->phases[LAM_STEP_H2D], true, LMI_MOST, "a step's copies to a device"},
        {&to->phases[LAM_STEP_FORWARD], true, LMI_MOST, "a step's own forward time"},
        {&to->phases[LAM_STEP_BACKWARD], true, LMI_MOST, "a step's own backward time"},
        {&to->phases[LAM_STEP_OPTIMIZER], true, LMI_MOST, "a step's time in optimizers"},
        {&to->phases[LAM_STEP_COMM], true, LMI_MOST, "a step's wait for other processes"},
        {&to->phases[LAM_STEP_OTHER], true, LMI_MOST, "a step's other time"},
        {&to->processor_wait, true, LMI_MOST, "a step's wait for a processor"},
        {&to->collectives, true, LMI_MOST, "how many collectives began in a step"},
        {&to->collectives_hash, true, LMI_MOST, "the order of the collectives of a step"},
    };
    const int n = (int)(sizeof columns / sizeof *columns);
    for (int i = 0; i < n; i++) {
        const struct column *c = &columns[i];
        LAM_TRY(c->to ? lmi_db_int(d, s, i, c->may_be_null, c->most, c->what, c->to, e)
                      : lmi_db_when(d, s, i, c->what, &to->unix_ns, e));
    }
    int64_t rest = to->whole;
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) rest -= to->phases[k] > 0 ? to->phases[k] : 0;
    if (to->phases[LAM_STEP_OTHER] >= 0 && rest != 0)
        return lmi_fail(e, LAM_IO, d->file, "it is damaged: the phases of a step don't add up to it");
    to->bad = sqlite3_column_type(s, n) != SQLITE_NULL;
    to->weight = lmi_weight(root, to->calls > 1 ? to->number / to->calls : to->number);
    return LAM_OK;
}

#define OF_STEPS                                                                                             \
    "SELECT id, number, training, started_unix_ns, started_ns, calls, failed, forward_ns, backward_ns,"      \
    " peak_bytes, looked, first_bad, "
#define OF_DEVICE "device_forward_ns, device_backward_ns, device_peak_bytes"
#define OF_PHASES                                                                                            \
    ", whole_ns, input_ns, h2d_ns, own_forward_ns, own_backward_ns, optimizer_ns, wait_ns, other_ns"
#define OF_WAIT   ", processor_wait_ns"
#define OF_ORDER  ", collectives, collectives_hash"
#define NO_ORDER  ", NULL, NULL"
#define NO_WAIT   ", NULL" NO_ORDER
#define NO_PHASES ", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL" NO_WAIT
#define ALL_STEPS ", bad FROM steps WHERE model = ?1 ORDER BY id DESC"
#define LAST_STEPS(kinds)                                                                                    \
    ", bad FROM (SELECT *, row_number() OVER (PARTITION BY training, " kinds ", calls,"                      \
    " backward_ns IS NULL ORDER BY id DESC) AS nth FROM steps WHERE model = ?1)"                             \
    " WHERE nth <= ?2 ORDER BY id DESC"

/* Selects all steps of a model, or the last ones of each kind. Version 1 of the tables has no columns of
 * devices, version 2 has none of gradients, version 4 none of compiled code, version 5 none of phases,
 * version 6 none of waiting for a processor, and version 7 none of collectives. */
static const char *steps_of(const lmi_db *d, bool all) {
#define BOTH(columns, kinds)                                                                                 \
    { OF_STEPS columns LAST_STEPS(kinds), OF_STEPS columns ALL_STEPS }
    static const char *const of[LMI_SCHEMA_VERSION][2] = {
        BOTH("NULL, NULL, NULL, NULL, NULL" NO_PHASES, "1"),
        BOTH(OF_DEVICE ", NULL, NULL" NO_PHASES, "1"),
        BOTH(OF_DEVICE ", gradients, NULL" NO_PHASES, "gradients"),
        BOTH(OF_DEVICE ", gradients, NULL" NO_PHASES, "gradients"),
        BOTH(OF_DEVICE ", gradients, compiled" NO_PHASES, "gradients, compiled"),
        BOTH(OF_DEVICE ", gradients, compiled" OF_PHASES NO_WAIT, "gradients, compiled"),
        BOTH(OF_DEVICE ", gradients, compiled" OF_PHASES OF_WAIT NO_ORDER, "gradients, compiled"),
        BOTH(OF_DEVICE ", gradients, compiled" OF_PHASES OF_WAIT OF_ORDER, "gradients, compiled"),
    };
#undef BOTH
    return of[d->version - 1][all];
}

const char *lmi_one_step(void) {
    return OF_STEPS OF_DEVICE ", gradients, compiled" OF_PHASES OF_WAIT OF_ORDER
                              ", bad FROM steps WHERE id = ?";
}

static lam_status take_step(lam_recording *r, sqlite3_stmt *s, void *self, const lmi_vec *rows, void *row,
                            lam_error *e) {
    (void)rows;
    return lmi_read_step(&r->db, s, self, row, e);
}

static lam_status read_steps(lam_recording *r, lmi_root *root, int32_t last, lam_error *e) {
    sqlite3_stmt *s;
    lmi_taken got;
    LAM_TRY(lmi_db_prepare(&r->db, &s, steps_of(&r->db, last <= 0), e));
    sqlite3_bind_int64(s, 1, root->id);
    if (last > 0) sqlite3_bind_int64(s, 2, last);
    lam_status status = lmi_take_rows(r, s, take_step, root, sizeof(lmi_step), &got, e);
    root->steps = got.rows;
    root->n_steps = got.n;
    return status;
}

/* A step that raised says nothing about the others, and a model's first step, which warms up, says little. */
bool lmi_speaks(const lmi_step *s) { return !s->failed && s->number > 0; }

bool lmi_rolled_up(const lmi_root *root, const lmi_step *s) {
    return s->id <= root->rolled_up[lmi_mode(s->training == 1, s->gradients == 1)] && lmi_speaks(s) &&
           s->weight == lmi_weight(root, LMI_MOST);
}

#define OF_LAYERS                                                                                            \
    "SELECT place, calls, forward_ns, forward_self_ns, backward_ns, recompute_ns, allocated_bytes,"          \
    " retained_bytes, peak_bytes, nan, inf, "
#define FROM_LAYERS " FROM layers WHERE step = ?"

const char *lmi_layers(const lmi_db *d) {
#define OF_GPU                                                                                               \
    "device_forward_ns, device_self_ns, device_backward_ns, device_recompute_ns, device_retained_bytes,"     \
    " device_peak_bytes, "
    return d->version < 2   ? OF_LAYERS "NULL, NULL, NULL, NULL, NULL, NULL, NULL" FROM_LAYERS
           : d->version < 5 ? OF_LAYERS OF_GPU "NULL" FROM_LAYERS
                            : OF_LAYERS OF_GPU "regions" FROM_LAYERS;
#undef OF_GPU
}

lam_status lmi_read_layer(const lmi_db *d, sqlite3_stmt *s, const lmi_root *root, bool *more,
                          lmi_measure *out, lam_error *e) {
    LAM_TRY(lmi_db_next(d, s, more, e));
    if (!*more) return LAM_OK;
    int64_t place, most_place = (int64_t)root->info.n_places - 1;
    int64_t *const to[] = {&out->calls,
                           &out->forward,
                           &out->self,
                           &out->backward,
                           &out->recompute,
                           &out->allocated,
                           &out->retained,
                           &out->peak,
                           &out->nan,
                           &out->inf,
                           &out->device_forward,
                           &out->device_self,
                           &out->device_backward,
                           &out->device_recompute,
                           &out->device_retained,
                           &out->device_peak,
                           &out->regions};
    LAM_TRY(lmi_db_int(d, s, 0, false, most_place, "the place of a layer's row", &place, e));
    LAM_TRY(lmi_db_int(d, s, 1, false, LMI_MOST, "a layer's calls", to[0], e));
    for (int i = 1; i < (int)(sizeof to / sizeof *to); i++)
        LAM_TRY(lmi_db_int(d, s, i + 1, true, LMI_MOST, "a layer's time, memory or health", to[i], e));
    out->place = (int32_t)place;
    return LAM_OK;
}

int lmi_by_place(const void *a, const void *b) {
    int32_t x = ((const lmi_measure *)a)->place, y = ((const lmi_measure *)b)->place;
    return (x > y) - (x < y);
}

int32_t *lmi_ends(const lmi_root *root) {
    const int32_t n = root->info.n_places;
    int32_t *end = calloc((size_t)n + 1, sizeof *end);
    for (int32_t i = n - 1; end && i >= 0; i--) {
        const int32_t parent = root->places[i].parent;
        if (end[i] <= i) end[i] = i + 1;
        if (parent >= 0 && end[parent] < end[i]) end[parent] = end[i];
    }
    return end;
}

/* The sums over the rows before a row. They may wrap around: differences of them are still right. */
typedef struct before {
    uint64_t ns;
    size_t known;
} before;

/* Sets total_backward in the rows of one step: the backward time of a place and of those below it. */
static lam_status add_backward(const int32_t *end, lmi_measure *rows, size_t n, lam_error *e) {
    before *sums = calloc(n + 1, sizeof *sums);
    if (!sums) return lmi_nomem(e);
    qsort(rows, n, sizeof *rows, lmi_by_place);
    for (size_t i = 0; i < n; i++) {
        const bool known = rows[i].backward >= 0;
        sums[i + 1] = (before){sums[i].ns + (known ? (uint64_t)rows[i].backward : 0), sums[i].known + known};
    }
    for (size_t i = 0; i < n; i++) {
        /* The first row that is not below it. */
        const size_t after = i + lmi_lower_bound(rows + i, n - i, sizeof *rows, end[rows[i].place]);
        const uint64_t ns = sums[after].ns - sums[i].ns;
        const bool known = sums[after].known > sums[i].known && ns <= LMI_MOST;
        rows[i].total_backward = known ? (int64_t)ns : -1;
    }
    free(sums);
    return LAM_OK;
}

lam_status lmi_read_step_rows(const lmi_db *d, sqlite3_stmt *s, const lmi_root *root, const lmi_step *step,
                              const int32_t *ends, lmi_vec *rows, lam_error *e) {
    const size_t first = rows->n;
    bool more = true;
    lam_status status = LAM_OK;
    sqlite3_bind_int64(s, 1, step->id);
    while (status == LAM_OK && more) {
        lmi_measure *to = lmi_vec_push(rows);
        status = to ? lmi_read_layer(d, s, root, &more, to, e) : lmi_nomem(e);
        if (to) to->weight = step->weight;
    }
    lmi_vec_pop(rows);
    sqlite3_reset(s);
    if (status != LAM_OK) return status;
    return add_backward(ends, (lmi_measure *)rows->data + first, rows->n - first, e);
}

/* -- the roots --------------------------------------------------------------------------------- */

static lam_status read_root(lam_recording *r, sqlite3_stmt *s, void *self, const lmi_vec *rows, void *row,
                            lam_error *e) {
    lmi_root *to = row;
    lam_recorded_model *info = &to->info;
    (void)self, (void)rows;
    LAM_TRY(lmi_db_int(&r->db, s, 0, false, INT64_MAX, "the key of a model", &to->id, e));
    LAM_TRY(lmi_db_text(&r->db, s, 1, &r->arena, &info->name, e));
    LAM_TRY(lmi_db_int(&r->db, s, 2, true, INT64_MAX, "a model's parameters", &info->params, e));
    LAM_TRY(lmi_db_int(&r->db, s, 3, true, INT64_MAX, "a model's local parameters", &info->local_params, e));
    LAM_TRY(lmi_db_int(&r->db, s, 4, true, INT64_MAX, "the bytes of parameters", &info->param_bytes, e));
    LAM_TRY(lmi_db_int(&r->db, s, 5, true, INT64_MAX, "a model's local bytes", &info->local_bytes, e));
    LAM_TRY(lmi_db_int(&r->db, s, 6, true, INT64_MAX, "a model's logical bytes", &info->logical_bytes, e));
    LAM_TRY(lmi_db_int(&r->db, s, 7, true, INT64_MAX, "a model's tree", &info->tree, e));
    return info->name ? LAM_OK : lmi_fail(e, LAM_IO, r->db.file, "it is damaged: a model has no name");
}

/* A row that refers to no row, or to one that does not exist, would be left out silently. */
static lam_status check_names(const lmi_db *d, lam_error *e) {
    static const struct {
        const char *sql, *what;
    } of[] = {
        {"SELECT 1 FROM models WHERE run IS NULL OR run NOT IN (SELECT id FROM runs) LIMIT 1",
         "a model names no run that is there"},
        {"SELECT 1 FROM places WHERE model IS NULL OR model NOT IN (SELECT id FROM models) LIMIT 1",
         "a place names no model that is there"},
        {"SELECT 1 FROM steps WHERE model IS NULL OR model NOT IN (SELECT id FROM models) LIMIT 1",
         "a step names no model that is there"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sqlite3_stmt *s;
        bool found = false;
        LAM_TRY(lmi_db_prepare(d, &s, of[i].sql, e));
        lam_status status = lmi_db_next(d, s, &found, e);
        lmi_db_done(s);
        LAM_TRY(status);
        if (found) return lmi_fail(e, LAM_IO, d->file, "it is damaged: %s", of[i].what);
    }
    return LAM_OK;
}

#define OF_MODELS   "SELECT id, name, params, local_params, param_bytes, "
#define FROM_MODELS " FROM models WHERE run = ? ORDER BY id"

static lam_status read_roots(lam_recording *r, int32_t last, lam_error *e) {
    sqlite3_stmt *s;
    lmi_taken got;
    set_ceiling(r, r->db.file);
    LAM_TRY(check_names(&r->db, e));
    LAM_TRY(lmi_db_prepare(&r->db, &s,
                           r->db.version < 5   ? OF_MODELS "NULL, NULL, NULL" FROM_MODELS
                           : r->db.version < 8 ? OF_MODELS "local_bytes, logical_bytes, NULL" FROM_MODELS
                                               : OF_MODELS "local_bytes, logical_bytes, tree" FROM_MODELS,
                           e));
    sqlite3_bind_int64(s, 1, r->run.run);
    lam_status status = lmi_take_rows(r, s, read_root, NULL, sizeof(lmi_root), &got, e);
    r->roots = got.rows;
    r->run.n_models = got.n < INT32_MAX ? (int32_t)got.n : INT32_MAX;
    for (int32_t i = 0; status == LAM_OK && i < r->run.n_models; i++) {
        r->roots[i].every = r->run.every;
        status = lmi_read_places(r, &r->roots[i], e);
        if (status == LAM_OK) status = read_steps(r, &r->roots[i], last, e);
    }
    return status;
}

lam_status lmi_read(lam_recording *r, const char *file, int64_t run, int32_t last, lam_error *e) {
    LAM_TRY(lmi_db_read(&r->db, file, e));
    LAM_TRY(lmi_db_run(&r->db, "BEGIN", e));
    LAM_TRY(read_run(r, run, e));
    LAM_TRY(read_roots(r, last, e));
    LAM_TRY(lmi_read_counted(r, e));
    return lmi_read_pace(r, e);
}
