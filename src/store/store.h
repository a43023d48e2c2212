/* SPDX-License-Identifier: Apache-2.0
 * store: recordings of a run's steps, in an SQLite file. schema.c: its tables. db.c: SQLite with lam_error.
 * sample.c, phases.c: a model as the rows of one step. compact_step.c: a step without its tree. ring.c: the
 * queue from the training thread to the writing thread. record.c: the recorder and the writing thread.
 * rollup.c, bins.c: summaries of many steps. read.c, kinds.c, middle.c, used.c, hours.c, recording.c: the
 * reader of untrusted files. events.c: scalars for TensorBoard. A build without SQLite has absent.c in their
 * place. */
#ifndef LMI_STORE_H
#define LMI_STORE_H

#include "base/base.h"

#include <stdatomic.h>

/* -- SQLite (db.c) --------------------------------------------------------------------------------------- */

struct sqlite3;
struct sqlite3_stmt;
typedef struct lmi_db {
    struct sqlite3 *db;
    const char *file; /* borrowed */
    int64_t version;  /* of its tables */
    bool no_log;      /* opened to read, without a log file beside it */
} lmi_db;

enum { LMI_SCHEMA_VERSION = 8, LMI_APPLICATION = 0x4c414d4e /* "LAMN" */ };

/* The statements that upgrade the tables of version i to version i + 1. */
extern const char *const lmi_schemas[LMI_SCHEMA_VERSION];

/* Opens to write; creates or upgrades the tables, and refuses a file that is no recording. Close it also on
 * failure. */
lam_status lmi_db_open(lmi_db *d, const char *file, lam_error *e);
/* Opens to read, with all of SQLite's defences against untrusted files. Close it also on failure. */
lam_status lmi_db_read(lmi_db *d, const char *file, lam_error *e);
void lmi_db_close(lmi_db *d);
/* True if the open file was moved or removed. */
bool lmi_db_moved(const lmi_db *d);
/* Copies committed rows from the log, which was not moved, into the moved file and deletes the log. */
void lmi_db_follow(lmi_db *d);
/* Records SQLite's last error: LAM_IO. */
lam_status lmi_db_run(const lmi_db *d, const char *sql, lam_error *e);
/* `*out` is NULL on failure; finalize it with lmi_db_done. */
lam_status lmi_db_prepare(const lmi_db *d, struct sqlite3_stmt **out, const char *sql, lam_error *e);
void lmi_db_done(struct sqlite3_stmt *s);
/* Binds by the letters of `types`: i int64_t, u int64_t with negative ones as NULL, t text or NULL, b bytes
 * and their number (int64_t); and runs a statement without result rows. */
lam_status lmi_db_put(const lmi_db *d, struct sqlite3_stmt *s, lam_error *e, const char *types, ...);
/* Reads the next row; *more is false if there is none. */
lam_status lmi_db_next(const lmi_db *d, struct sqlite3_stmt *s, bool *more, lam_error *e);
/* Column `i` of the row: an integer from 0 to `most`, or -1 for NULL if `may_be_null`. Any other value is an
 * error that names `what`. */
lam_status lmi_db_int(const lmi_db *d, struct sqlite3_stmt *s, int i, bool may_be_null, int64_t most,
                      const char *what, int64_t *out, lam_error *e);
/* Column `i`: a moment, which may be before 1970. */
lam_status lmi_db_when(const lmi_db *d, struct sqlite3_stmt *s, int i, const char *what, int64_t *out,
                       lam_error *e);
/* Column `i`: a text, cleaned, in the arena; NULL for NULL. */
lam_status lmi_db_text(const lmi_db *d, struct sqlite3_stmt *s, int i, lmi_arena *a, const char **out,
                       lam_error *e);

/* The limit of times, sizes and numbers in a valid file: 2^53, about a hundred days in ns. */
#define LMI_MOST (INT64_C(1) << 53)

/* -- a model as rows (sample.c) -------------------------------------------------------------------------- */

/* One place in one step; -1: not measured. */
typedef struct lmi_measure {
    int32_t place;
    int64_t total_backward; /* with that of the places below it; set by the reader only */
    int64_t weight;         /* of its step; set by the reader only */
    int64_t calls, forward, self, backward, recompute, allocated, retained, peak, nan, inf;
    int64_t device_forward, device_self, device_backward, device_recompute, device_retained, device_peak;
    int64_t regions;
} lmi_measure;
typedef struct lmi_place_row {
    int32_t parent, depth;
    const char *path, *type;
    int64_t params, local;
} lmi_place_row;

/* The rows of one write to the tables. */
typedef struct lmi_packet {
    lmi_arena arena; /* of all that follows */
    int32_t model;   /* number of the tree among those of this recorder */
    /* a new tree */
    int32_t root, n_places; /* 0: a step, without a tree */
    const char *name;
    const lmi_place_row *places;
    int64_t params, local, param_bytes, local_bytes, logical_bytes;
    int64_t tree; /* as in lam_recorded_model */
    /* a step */
    int64_t number, unix_ns, t0_ns, calls, forward, backward, peak;
    int64_t device_forward, device_backward, device_peak;
    int64_t whole, phases[LAM_N_STEP_PHASES], processor_wait;
    int64_t collectives, collectives_hash; /* -1: unknown */
    int32_t first_bad;
    const char *bad; /* "NaN", "Inf"; NULL: none, or not checked */
    bool training, gradients, failed, looked;
    int32_t compiled; /* as in lam_step_info */
    int32_t n_rows;
    lmi_measure *rows;
    const lam_step_work *work; /* of the lam_step_info that it was made of; NULL: not counted */
} lmi_packet;
/* Returns NULL if memory ran out. */
lmi_packet *lmi_packet_tree(const lam_model *m, const lam_step_info *info);
lmi_packet *lmi_packet_step(const lam_model *m, const lam_step_info *info);
/* The phases of a step (phases.c); -1: unknown. */
lam_status lmi_step_phases(const lam_model *m, const lam_step_info *info, int64_t ns[LAM_N_STEP_PHASES],
                           lam_error *e);
void lmi_packet_free(lmi_packet *p);
/* lam_recorded_model.tree of layers, one after the other; 0 before the first, in the end its upper 53 bits.
 * It has no sizes: under sharding and tensor parallelism processes have other parts of the same layers. */
static inline uint64_t lmi_like_layers(uint64_t hash, const char *path, const char *type) {
    hash = lmi_hash_u64(hash ^ lmi_hash_kept(path));
    return lmi_hash_u64(hash ^ lmi_hash_kept(type));
}
enum { LMI_LIKE_SHIFT = 11 }; /* as whole numbers of doubles are */
/* Equal for equal trees: for the same names, types and numbers of own parameters of all places. */
uint64_t lmi_tree_hash(const lam_model *m);

/* -- the queue between the threads (ring.c) -------------------------------------------------------------- */

/* Calls and nodes of a step, in one piece of memory with their names (compact_step.c). */
typedef struct lmi_again {
    int32_t n_calls, n_nodes; /* -1: none were recorded */
    lam_call_info *calls;
    lam_op_info *nodes;
} lmi_again;
/* The size of a copy; makes the copy in `room`. */
size_t lmi_again_size(int32_t n_calls, const lam_op_info *nodes, int32_t n_nodes);
lmi_again *lmi_again_at(void *room, const lam_call_info *calls, int32_t n_calls, const lam_op_info *nodes,
                        int32_t n_nodes);
/* The model of such a step, with the modules and places of another. */
lam_status lmi_again_model(const lmi_again *a, const lam_model *like, lam_model **out, lam_error *e);

/* One step in the queue; the writing thread makes rows of it. One piece of memory, except the model. */
typedef struct lmi_handed {
    lam_model *model; /* owned; NULL: the writer makes it from `again` */
    lmi_again *again;
    lam_step_info info;
    uint64_t bytes;
    size_t room;  /* size of this piece */
    int32_t slot; /* where the writer keeps this model, or the model that `again` refers to; -1: nowhere */
    char name[];  /* the root's name, for info; then the data of `again` */
} lmi_handed;

enum { LMI_RING = 1024, LMI_RING_BYTES = 64 << 20 };
/* One thread pushes, one pops, neither waits. */
typedef struct lmi_ring {
    _Atomic uint64_t head, tail, bytes; /* pushed, popped, memory in the queue */
    lmi_handed *at[LMI_RING];
} lmi_ring;
bool lmi_ring_push(lmi_ring *r, lmi_handed *h); /* false: full; the caller still owns it */
lmi_handed *lmi_ring_pop(lmi_ring *r);          /* NULL: empty */

/* -- memory of queued steps (buffer_pool.c)
 * ------------------------------------------------------------------- */

/* Free pieces for reuse by later steps: memory that malloc() returned a hundred steps later would no longer
 * be in a cache. Thread-safe. */
enum { LMI_SPARES = 16, LMI_SPARE_BYTES = 16 << 10 };
typedef struct lmi_spares {
    _Atomic(lmi_handed *) at[LMI_SPARES];
} lmi_spares;
/* A step for the queue, with `bytes` bytes at `*more`; NULL: memory ran out. */
lmi_handed *lmi_handed_new(lmi_spares *s, const lam_step_info *info, size_t bytes, void **more);
void lmi_handed_give_back(lmi_spares *s, lmi_handed *h); /* must have no model; NULL is allowed */
void lmi_spares_free(lmi_spares *s);

/* -- writing (rows.c) ------------------------------------------------------------------------------------ */

/* Layers of the newest steps of a mode have rows; those of older ones are summarised in rollups, an hour at a
 * time, or if there are many, LMI_ROLL_UP steps at a time, which are merged when the hour has passed. */
enum { LMI_RAW = 256, LMI_ROLL_UP = 1024 };
/* Modes: training or not, with gradients or without. */
enum { LMI_MODES = 4 };
static inline int lmi_mode(bool training, bool gradients) { return (training ? 1 : 0) + (gradients ? 2 : 0); }
/* A model that is in the file. */
typedef struct lmi_model_rows {
    int64_t id;
    struct lmi_raws {
        lmi_vec steps; /* lmi_raw: in no rollup yet */
        int64_t hour;  /* the last one that has rollups */
        int32_t parts; /* how often this was written */
    } of[LMI_MODES];
} lmi_model_rows;
/* Statements that write, prepared once. */
typedef struct lmi_rows {
    lmi_db *db;
    struct sqlite3_stmt *model, *place, *step, *layer, *work, *seen, *pace;
    int64_t run;
    int32_t every;  /* as in lam_run_info */
    lmi_vec models; /* lmi_model_rows: by lmi_packet.model */
} lmi_rows;
lam_status lmi_rows_open(lmi_rows *w, lmi_db *db, const lam_run_info *info, lam_error *e);
void lmi_rows_close(lmi_rows *w);
lam_status lmi_rows_put(lmi_rows *w, const lmi_packet *p, lam_error *e);
/* What is known of a run from time to time. */
typedef struct lmi_alive {
    int64_t unix_ns, dropped;
    int64_t calls; /* -1: they are not counted */
    bool ended;
    const char *ended_by; /* NULL: unknown */
} lmi_alive;
lam_status lmi_rows_seen(lmi_rows *w, const lmi_alive *alive, lam_error *e);
/* All calls in a minute of calendar time, and the longest time from one to the next. */
typedef struct lmi_minute {
    int64_t minute, calls, slowest_ns;
} lmi_minute;
lam_status lmi_rows_pace(lmi_rows *w, const lmi_minute *m, lam_error *e);

#endif
