/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder. The training thread pushes models into a ring and goes on; the recorder's thread pops them a
 * few times a second, makes rows of them and commits these together. Committed rows stay, however the process
 * ends. */
#include "base/system.h"
#include "model/model.h"
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>

enum { TICK_MS = 200, ALIVE_MS = 2000, STACK = 512 << 10, NOBODY = -1, NOWHERE = -1 };
/* The number of roots whose steps can be handed over without their tree. It is limited because a program may
 * make thousands of models, one after the other. */
enum { WHOLES = 64 };

typedef struct tree { /* a tree that was written, and its root */
    int32_t root;
    int64_t number; /* lam_step_info.tree of its newest step */
    uint64_t hash;
} tree;

typedef struct whole { /* the last model of a root that was handed over with its tree and was only timed */
    int64_t tree;      /* the index of its tree */
    lam_model *model;
} whole;

struct lam_recorder {
    lmi_ring ring;
    lmi_spares spares;
    lmi_db db;
    lmi_rows rows;
    char *file;
    bool alone;                   /* the run has one process */
    lam_pace *pace;               /* borrowed; NULL: calls are not counted */
    lmi_minute minutes[2];        /* the one before and this one; used by the writer only, as is `counted` */
    int64_t counted;              /* calls that are in a minute */
    char how[LAM_ENDED_BY];       /* how the run ended; "": unknown */
    _Atomic(const char *) signal; /* that ends the process; NULL: none */
    atomic_bool done;             /* the end is written, or can't be */
    pid_t owner;                  /* a forked child has no writer and must leave the file alone */
    lmi_vec trees;                /* tree; used by the writer only, as are `wholes` */
    whole wholes[WHOLES];
    int32_t known[WHOLES]; /* the root whose whole is, or will be, in that slot; NOBODY */
    int32_t oldest;        /* the slot to be reused next */
    atomic_bool stop, failed;
    _Atomic int64_t dropped, steps; /* the numbers of steps lost and of steps kept */
    lam_error why;                  /* written before `failed` is set, read after */
    bool started;                   /* the thread was started */
    pthread_t thread;
    pthread_mutex_t lock; /* for `wake` only, to sleep; not taken when a step is handed over */
    pthread_cond_t wake;
};

/* -- the writing thread ------------------------------------------------------------------------ */

static void give_up(lam_recorder *r, const lam_error *e) {
    if (atomic_load(&r->failed)) return;
    (void)lmi_db_run(&r->db, "ROLLBACK;", NULL); /* fails harmlessly if no transaction is open */
    r->why = *e;
    atomic_store(&r->failed, true);
}

static void free_handed(lam_recorder *r, lmi_handed *h) {
    if (h) lam_model_free(h->model);
    lmi_handed_give_back(&r->spares, h);
}

/* The index of the step's tree, or -1. The parameters of the same modules may have other sizes than before,
 * such as those that are gathered for a layer's call. */
static int64_t known(const lam_recorder *r, const lam_step_info *info, uint64_t hash) {
    for (size_t i = r->trees.n; i-- > 0;) {
        tree *t = lmi_vec_at(&r->trees, i);
        if (t->root != info->root || (t->hash != hash && (!info->tree || t->number != info->tree))) continue;
        t->number = info->tree;
        return (int64_t)i;
    }
    return -1;
}

/* Writes and frees a packet; a NULL packet means that memory ran out. */
static lam_status put(lam_recorder *r, lmi_packet *p, int64_t number, lam_error *e) {
    if (!p) return lmi_nomem(e);
    p->model = (int32_t)number;
    lam_status s = lmi_rows_put(&r->rows, p, e);
    lmi_packet_free(p);
    return s;
}

static lam_status put_step(lam_recorder *r, lmi_handed *h, int64_t number, lam_error *e) {
    lmi_leave_out_passes(h->model);
    h->info.alone = r->alone;
    return put(r, lmi_packet_step(h->model, &h->info), number, e);
}

static bool only_timed(const lam_model *m) {
    return lam_model_timed(m) && !lam_model_memory_seen(m) && !lam_model_checked(m);
}

/* Keeps the model in the step's slot and takes ownership of it. */
static void keep(lam_recorder *r, lmi_handed *h, int64_t number) {
    whole *w = &r->wholes[h->slot];
    lam_model_free(w->model);
    *w = (whole){number, h->model};
    h->model = NULL;
}

/* Writes a step, and before it its tree if that is new. */
static lam_status write_whole(lam_recorder *r, lmi_handed *h, lam_error *e) {
    uint64_t hash = lmi_tree_hash(h->model);
    int64_t i = known(r, &h->info, hash);
    if (i < 0) {
        tree *t = lmi_vec_push(&r->trees);
        if (!t) return lmi_nomem(e);
        *t = (tree){h->info.root, h->info.tree, hash};
        i = (int64_t)r->trees.n - 1;
        LAM_TRY(put(r, lmi_packet_tree(h->model, &h->info), i, e));
    }
    LAM_TRY(put_step(r, h, i, e));
    if (h->slot != NOWHERE) keep(r, h, i);
    return LAM_OK;
}

static lam_status write_one(lam_recorder *r, lmi_handed *h, lam_error *e) {
    if (!h->again) return write_whole(r, h, e);
    const whole *w = &r->wholes[h->slot];
    LAM_TRY(lmi_again_model(h->again, w->model, &h->model, e));
    return put_step(r, h, w->tree, e);
}

static int64_t minute_now(void) { return lmi_unix_now() / (INT64_C(60) * 1000000000); }

/* -- from time to time ------------------------------------------------------------------------- */

static lam_status put_alive(lam_recorder *r, bool ended, lam_error *e) {
    const char *signal = atomic_load(&r->signal), *how = ended && *r->how ? r->how : NULL;
    const lmi_alive alive = {.unix_ns = lmi_unix_now(),
                             .dropped = atomic_load(&r->dropped),
                             .calls = r->pace ? r->counted : -1,
                             .ended = ended,
                             .ended_by = signal ? signal : how};
    for (int i = 0; i < 2; i++)
        if (r->minutes[i].calls) LAM_TRY(lmi_rows_pace(&r->rows, &r->minutes[i], e));
    return lmi_rows_seen(&r->rows, &alive, e);
}

/* Adds the calls since the last time to the minute in which they are seen. True if that is a new one: the one
 * before must be written. A clock that is set back does not lead to a minute that is written already. */
static bool count_calls(lam_recorder *r) {
    lmi_minute *now = &r->minutes[1];
    const int64_t minute = minute_now();
    if (!r->pace) return false;
    const int64_t calls = __atomic_load_n(&r->pace->calls, __ATOMIC_RELAXED),
                  slowest = __atomic_exchange_n(&r->pace->slowest_ns, 0, __ATOMIC_RELAXED);
    const bool new = minute > now->minute;
    if (new) {
        r->minutes[0] = *now;
        *now = (lmi_minute){.minute = minute};
    }
    now->calls += calls - r->counted;
    if (slowest > now->slowest_ns) now->slowest_ns = slowest;
    r->counted = calls;
    return new;
}

/* The file was moved: the rows committed so far go with it, as a run that has ended. */
static lam_status end_moved(lam_recorder *r, lam_error *e) {
    struct stat st;
    if (stat(r->file, &st) == 0) /* and may have taken over our log */
        return lmi_fail(e, LAM_IO, r->file, "another file took its place during the run");
    LAM_TRY(put_alive(r, true, e));
    lmi_db_follow(&r->db);
    return lmi_fail(e, LAM_IO, r->file, "it was moved or removed during the run; %s",
                    "where it was moved, it has the steps until then");
}

/* Writes all queued steps in one transaction. Removes them from the queue even if they can't be written. */
static lam_status write_all(lam_recorder *r, bool alive, bool ended, lam_error *e) {
    lmi_handed *h = lmi_ring_pop(&r->ring);
    lam_status s = LAM_OK;
    if (!h && !alive && !ended) return LAM_OK;
    if (atomic_load(&r->failed))
        s = LAM_IO;
    else if (lmi_db_moved(&r->db))
        s = end_moved(r, e);
    else
        s = lmi_db_run(&r->db, "BEGIN IMMEDIATE;", e);
    for (; h; h = lmi_ring_pop(&r->ring)) {
        if (s == LAM_OK) s = write_one(r, h, e);
        free_handed(r, h);
    }
    if (s == LAM_OK) s = put_alive(r, ended, e);
    return s == LAM_OK ? lmi_db_run(&r->db, "COMMIT;", e) : s;
}

static void sleep_a_tick(lam_recorder *r) {
    const struct timespec until = lmi_wake_after(TICK_MS);
    pthread_mutex_lock(&r->lock);
    int woken = 0;
    while (!atomic_load(&r->stop) && woken != ETIMEDOUT) woken = lmi_wake_wait(&r->wake, &r->lock, &until);
    pthread_mutex_unlock(&r->lock);
}

static void *writer(void *arg) {
    lam_recorder *r = arg;
    int quiet = 0;
    bool ended = false;
    while (!ended) {
        ended = atomic_load(&r->stop) || atomic_load(&r->signal);
        const bool alive = count_calls(r) || ++quiet * TICK_MS >= ALIVE_MS;
        if (alive) quiet = 0;
        lam_error e = {.at = -1};
        if (write_all(r, alive, ended, &e) != LAM_OK) give_up(r, &e);
        if (!ended) sleep_a_tick(r);
    }
    atomic_store(&r->done, true);
    return NULL;
}

/* The thread receives no signals: those are for the program's threads. */
static bool start_thread(lam_recorder *r) {
    if (pthread_mutex_init(&r->lock, NULL) != 0 || !lmi_wake_init(&r->wake)) return false;
    return r->started = lmi_thread_start(&r->thread, STACK, writer, r);
}

/* -- the training thread ----------------------------------------------------------------------- */

static lam_status open_all(lam_recorder *r, const char *file, const lam_run_info *info, lam_error *e) {
    r->owner = getpid();
    r->alone = info->world <= 1;
    r->pace = info->pace;
    r->minutes[1].minute = minute_now();
    lmi_vec_init(&r->trees, sizeof(tree));
    for (int32_t i = 0; i < WHOLES; i++) r->known[i] = NOBODY;
    size_t n = strlen(file) + 1;
    r->file = malloc(n);
    if (!r->file) return lmi_nomem(e);
    memcpy(r->file, file, n);
    LAM_TRY(lmi_db_open(&r->db, r->file, e));
    LAM_TRY(lmi_rows_open(&r->rows, &r->db, info, e));
    if (start_thread(r)) return LAM_OK;
    return lmi_fail(e, LAM_FAILED, file, "it can't be written: no thread could be started for it");
}

static void free_all(lam_recorder *r) {
    for (lmi_handed *h = lmi_ring_pop(&r->ring); h; h = lmi_ring_pop(&r->ring)) free_handed(r, h);
    lmi_spares_free(&r->spares);
    for (int32_t i = 0; i < WHOLES; i++) lam_model_free(r->wholes[i].model);
    lmi_vec_free(&r->trees);
    if (r->owner == getpid()) {
        lmi_rows_close(&r->rows);
        lmi_db_close(&r->db);
    }
    free(r->file);
    free(r);
}

lam_status lam_recorder_new(lam_recorder **out, const char *file, const lam_run_info *info, lam_error *e) {
    *out = NULL;
    if (!file || !info) return lmi_fail(e, LAM_USAGE, NULL, "a recording needs a file and a run");
    lam_recorder *r = calloc(1, sizeof *r);
    if (!r) return lmi_nomem(e);
    lam_status s = open_all(r, file, info, e);
    if (s == LAM_OK)
        *out = r;
    else
        free_all(r);
    return s;
}

/* The memory that a queued step takes. */
static uint64_t weight(const lam_model *m) {
    return sizeof *m + m->arena.used + (uint64_t)m->n_ops * (sizeof *m->ops + sizeof *m->edges) +
           (uint64_t)m->n_events * sizeof *m->events;
}

static lam_status failed(const lam_recorder *r, lam_error *e) {
    if (!atomic_load(&r->failed)) return LAM_OK;
    return lmi_fail(e, r->why.status, r->why.where, "%s", r->why.text);
}

/* Returns true if the step was pushed; then it belongs to the writer. */
static bool push(lam_recorder *r, lmi_handed *h) {
    bool pushed = lmi_ring_push(&r->ring, h);
    atomic_fetch_add(pushed ? &r->steps : &r->dropped, 1);
    return pushed;
}

static int32_t slot_of(const lam_recorder *r, int32_t root) {
    for (int32_t i = 0; i < WHOLES; i++)
        if (r->known[i] == root) return i;
    return NOWHERE;
}

/* The slot for a root that has none. */
static int32_t new_slot(const lam_recorder *r) {
    const int32_t empty = slot_of(r, NOBODY);
    return empty == NOWHERE ? r->oldest : empty;
}

/* Notes the root of the slot, or forgets the root if its step was dropped: the dropped step may have had
 * another tree than the model that the writer keeps. */
static void know(lam_recorder *r, int32_t root, int32_t slot, bool pushed) {
    const int32_t had = slot_of(r, root);
    if (had != NOWHERE) r->known[had] = NOBODY;
    if (slot == NOWHERE || !pushed) return;
    r->known[slot] = root;
    if (slot == r->oldest) r->oldest = (r->oldest + 1) % WHOLES;
}

/* The caller frees `*left`. */
static lam_status hand_over(lam_recorder *r, lam_model *m, const lam_step_info *info, lmi_handed **left,
                            lam_error *e) {
    LAM_TRY(failed(r, e));
    const int32_t known = slot_of(r, info->root);
    const int32_t slot = !only_timed(m) ? NOWHERE : known == NOWHERE ? new_slot(r) : known;
    void *nothing;
    *left = lmi_handed_new(&r->spares, info, 0, &nothing);
    if (!*left) return lmi_nomem(e);
    (*left)->model = m;
    (*left)->bytes = weight(m);
    (*left)->slot = slot;
    bool pushed = push(r, *left);
    if (pushed) *left = NULL;
    know(r, info->root, slot, pushed);
    return LAM_OK;
}

lam_status lam_recorder_step(lam_recorder *r, lam_model *m, const lam_step_info *info, lam_error *e) {
    lmi_handed *left = NULL;
    lam_status s = LAM_OK;
    if (!r || !m || !info)
        s = lmi_fail(e, LAM_USAGE, NULL, "a step needs a recorder and a model");
    else if (r->owner == getpid()) {
        s = hand_over(r, m, info, &left, e);
        if (s == LAM_OK && !left) return s;
    }
    if (!left) lam_model_free(m);
    if (left) free_handed(r, left);
    return s;
}

lam_status lam_recorder_again(lam_recorder *r, const lam_step_info *info, const lam_call_info *calls,
                              int32_t n_calls, const lam_op_info *nodes, int32_t n_nodes, bool *known,
                              lam_error *e) {
    void *room;
    const int32_t slot = r && info ? slot_of(r, info->root) : NOWHERE;
    *known = slot != NOWHERE;
    if (!*known || r->owner != getpid()) return LAM_OK;
    LAM_TRY(failed(r, e));
    const size_t bytes = lmi_again_size(n_calls, nodes, n_nodes);
    lmi_handed *h = lmi_handed_new(&r->spares, info, bytes, &room);
    if (!h) return lmi_nomem(e);
    h->again = lmi_again_at(room, calls, n_calls, nodes, n_nodes);
    h->slot = slot;
    h->bytes = bytes + (uint64_t)n_calls * sizeof(lam_event) +
               (uint64_t)(n_nodes > 0 ? n_nodes : 0) * sizeof(lam_op);
    if (!push(r, h)) free_handed(r, h);
    return LAM_OK;
}

int64_t lam_recorder_dropped(const lam_recorder *r) { return atomic_load(&r->dropped); }

int64_t lam_recorder_steps(const lam_recorder *r) { return atomic_load(&r->steps); }

int64_t lam_recorder_run(const lam_recorder *r) { return r->rows.run; }

void lam_recorder_ended_by(lam_recorder *r, const char *how) {
    size_t n = how ? strlen(how) : 0;
    if (n >= sizeof r->how) {
        n = sizeof r->how - 1;
        while (n && ((unsigned char)how[n] & 0xc0) == 0x80) n--; /* not within a character */
    }
    if (n) memcpy(r->how, how, n);
    r->how[n] = '\0';
}

/* Only what a handler may do: an atomic store, and system calls. The writing thread sees the signal at its
 * next tick. The wait has a limit, since the interrupted thread may hold a lock that the writer needs, as
 * malloc's: then the end of the run is not written, and SQLite's write-ahead log keeps the file whole as
 * after a kill. */
void lam_recorder_signal(lam_recorder *r, const char *name, int32_t ms) {
    const struct timespec pause = {.tv_nsec = 5000000};
    const int before = errno;
    if (r->owner != getpid() || !r->started || pthread_equal(pthread_self(), r->thread)) return;
    atomic_store(&r->signal, name);
    for (int32_t left = ms; left > 0 && !atomic_load(&r->done); left -= 5) nanosleep(&pause, NULL);
    errno = before;
}

lam_status lam_recorder_close(lam_recorder *r, lam_error *e) {
    if (!r) return LAM_OK;
    bool mine = r->owner == getpid();
    if (mine && r->started) {
        pthread_mutex_lock(&r->lock);
        atomic_store(&r->stop, true);
        pthread_cond_signal(&r->wake);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->thread, NULL);
        pthread_cond_destroy(&r->wake);
        pthread_mutex_destroy(&r->lock);
    }
    lam_status s = mine ? failed(r, e) : LAM_OK;
    free_all(r);
    return s;
}
