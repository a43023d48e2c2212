/* SPDX-License-Identifier: Apache-2.0
 * The callbacks that note operators. torch runs them on the thread that runs the operator, with or without
 * the GIL, so they use neither Python nor locks: every thread writes into its own lane, which is linked to
 * its capture with one atomic exchange and read when the capture is closed.
 *
 * A callback learns only which operator runs, so each open capture has a slot with its own functions. */
#include "observe/observe.h"
#include "observe/listeners.h"
#include "observe/running.h"
#include "torch/values.h"

#include <stdlib.h>
#include <time.h>

enum { SLOTS = 8 };
static struct {
    _Atomic(lmx_observer *) observer; /* NULL: the slot's callbacks note nothing */
    atomic_int busy;                  /* callbacks that are running */
    /* Protected by the GIL. Only the thread that added a callback can remove it; one that outlived its
     * capture keeps its slot until that thread opens or closes another. */
    bool taken, stale;
    uint64_t thread, handles[2];
    int n_handles;
} slots[SLOTS];

static _Thread_local struct {
    uint64_t generation;
    lmx_lane *lane;
} mine[SLOTS];

static _Thread_local lmx_quiet quiet;
const lmx_record_api *lmx_api;

/* == lanes ============================================================================================= */

static void find_state(const lmx_observer *o, lmx_lane *lane) {
    static const uint64_t nothing[2];
    lane->state = o->nodes_only ? NULL : lmx_keys_here(lmx_api);
    if (!lane->state) lane->state = nothing;
    lane->hooks = lmx_api->hooks ? lmx_api->hooks() : NULL;
    lane->kept = lmx_api->kept ? lmx_api->kept() : NULL;
}

static lmx_lane *new_lane(lmx_observer *o, int slot) {
    lmx_lane *lane = lmx_lane_new(o, lmx_api->thread());
    if (!lane) return NULL;
    lane->api = lmx_api;
    lane->quiet = &quiet;
    find_state(o, lane);
    mine[slot].generation = o->generation;
    mine[slot].lane = lane;
    return lane;
}

lmx_lane *lmx_lane_of(lmx_observer *o, int slot) {
    return mine[slot].generation == o->generation ? mine[slot].lane : new_lane(o, slot);
}

const lmx_lane *lmx_lane_here(const lmx_capture *c) {
    const lmx_observer *o = c->watched.observer;
    const int slot = o ? o->slot : -1;
    return slot >= 0 && mine[slot].generation == o->generation ? mine[slot].lane : NULL;
}

/* == callbacks ========================================================================================= */

/* True for an operator outside of every node, if only nodes are watched. */
static bool is_nobodys(const lmx_observer *o, const lmx_lane *lane, bool is_node) {
    const lmx_frame *around = lmx_top_of(lane);
    return o->nodes_only && !is_node && (!around || around->node < 0);
}

static void open_record(lmx_observer *o, lmx_lane *lane, const void *record, bool is_node) {
    if (is_nobodys(o, lane, is_node) || lmx_is_of_one_alone(lane)) return;
    const char *name = lmx_api->name(record), *node = is_node ? name : lmx_engine_work(name);
    if (node && (is_node || !o->nodes_only))
        lmx_open_node(o, lane, record, node, is_node);
    else if (o->nodes_only && !node)
        lmx_open_for_listeners(o, lane, record);
    else if (!node)
        lmx_open_operator(o, lane, record, name);
}

/* The lane to write to; NULL if nothing is to be noted, as for what the capture itself runs in torch. */
static lmx_lane *enter(lmx_observer *o, int slot) {
    lmx_lane *lane = o ? lmx_lane_of(o, slot) : NULL;
    if (!lane || lane->inside || lane->lost) return NULL;
    if (lmx_takes_calls(o->capture) && (o->capture->noted.busy || o->capture->watched.paused)) return NULL;
    lane->inside = true;
    return lane;
}

static void *begin(int slot, void **context, const void *record, bool is_node) {
    *context = NULL;
    atomic_fetch_add(&slots[slot].busy, 1);
    lmx_observer *o = atomic_load(&slots[slot].observer);
    lmx_lane *lane = enter(o, slot);
    if (lane) {
        open_record(o, lane, record, is_node);
        lane->inside = false;
    }
    atomic_fetch_sub(&slots[slot].busy, 1);
    return context;
}

static void end(int slot, const void *record) {
    lmx_end_quiet(&quiet, record);
    atomic_fetch_add(&slots[slot].busy, 1);
    lmx_observer *o = atomic_load(&slots[slot].observer);
    lmx_lane *lane = enter(o, slot);
    if (lane) {
        lmx_close_frame(o, lane, record, lmx_clock_stamp(lane->clock, lane->last));
        lane->inside = false;
    }
    atomic_fetch_sub(&slots[slot].busy, 1);
}

void lmx_observe_unseen(const char *name) {
    for (int i = 0; lmx_api && !quiet.record && i < SLOTS; i++) {
        atomic_fetch_add(&slots[i].busy, 1);
        lmx_observer *o = atomic_load(&slots[i].observer);
        lmx_lane *lane = o && o->thread == lmx_api->thread() ? enter(o, i) : NULL;
        if (lane) lmx_note_unseen(o, lane, name);
        if (lane) lane->inside = false;
        atomic_fetch_sub(&slots[i].busy, 1);
    }
}

#define CALLBACKS(i)                                                                                         \
    static void *begin_op_##i(void **context, const void *record) {                                          \
        return begin(i, context, record, false);                                                             \
    }                                                                                                        \
    static void *begin_node_##i(void **context, const void *record) {                                        \
        return begin(i, context, record, true);                                                              \
    }                                                                                                        \
    static void end_##i(const void *record, void *context) {                                                 \
        (void)context;                                                                                       \
        end(i, record);                                                                                      \
    }
/* clang-format off */
CALLBACKS(0) CALLBACKS(1) CALLBACKS(2) CALLBACKS(3) CALLBACKS(4) CALLBACKS(5) CALLBACKS(6) CALLBACKS(7)
    /* clang-format on */

    enum {
        OF_OPS,
        OF_OPS_RESULTS,
        OF_NODES,
        OF_NODES_WITH_VALUES,
        N_CALLBACKS
    };
#define ENTRY(i)                                                                                             \
    {                                                                                                        \
        {.start = begin_op_##i, .end = end_##i, .values = true},                                             \
            {.start = begin_op_##i, .end = end_##i, .results = true},                                        \
            {.start = begin_node_##i, .end = end_##i, .nodes = true}, {                                      \
            .start = begin_node_##i, .end = end_##i, .nodes = true, .values = true                           \
        }                                                                                                    \
    }
static const lmx_callback callbacks[SLOTS][N_CALLBACKS] = {ENTRY(0), ENTRY(1), ENTRY(2), ENTRY(3),
                                                           ENTRY(4), ENTRY(5), ENTRY(6), ENTRY(7)};

/* == other threads ===================================================================================== */

/* Callbacks belong to one thread and to those that torch has work for it. A backward pass that the program
 * runs on any other thread is seen only by this callback, which all captures share. */
static struct {
    uint64_t handle;
    int n; /* open captures; under the GIL */
} everywhere;

static bool is_strange(lmx_observer *o, int slot, const void *record) {
    const lmx_layout *l = o->layout;
    if (mine[slot].generation == o->generation || lmx_api->thread() == o->thread || l->forward_thread < 0)
        return false;
    return lmx_word_at(record, (size_t)l->forward_thread) &&
           lmx_origin_of(o, record, (int64_t)lmx_word_at(record, (size_t)l->sequence)) >= 0;
}

/* Called when a node ends: by then a watched thread has a lane. */
static void end_anywhere(const void *record, void *context) {
    (void)context;
    for (int i = 0; i < SLOTS; i++) {
        if (!atomic_load(&slots[i].observer)) continue;
        atomic_fetch_add(&slots[i].busy, 1);
        lmx_observer *o = atomic_load(&slots[i].observer);
        if (o && is_strange(o, i, record)) atomic_store(&o->strange, true);
        atomic_fetch_sub(&slots[i].busy, 1);
    }
}

static void *begin_anywhere(void **context, const void *record) {
    (void)record;
    *context = NULL;
    return context;
}

static void watch_everywhere(void) {
    static const lmx_callback c = {.start = begin_anywhere, .end = end_anywhere, .nodes = true, .all = true};
    if (everywhere.n++ == 0 && lmx_api->add_for_all) everywhere.handle = lmx_add_callback(lmx_api, &c);
}

static void leave_everywhere(void) {
    if (--everywhere.n == 0 && lmx_api->add_for_all) lmx_api->remove(everywhere.handle);
}

/* == opening and closing =============================================================================== */

static void remove_callbacks(int slot) {
    lmx_end_quiet(&quiet, quiet.record); /* it is this thread's, and torch is about to rebuild its list */
    while (slots[slot].n_handles) lmx_api->remove(slots[slot].handles[--slots[slot].n_handles]);
    slots[slot].taken = slots[slot].stale = false;
}

static void clean_up(uint64_t thread) {
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].stale && slots[i].thread == thread) remove_callbacks(i);
}

static int free_slot(void) {
    for (int i = 0; i < SLOTS; i++)
        if (!slots[i].taken) return i;
    return -1;
}

static void add_callback(int slot, int which) {
    slots[slot].handles[slots[slot].n_handles++] = lmx_add_callback(lmx_api, &callbacks[slot][which]);
}

lmx_observer *lmx_observer_new(lmx_capture *c) {
    lmx_observer *o = calloc(1, sizeof *o);
    if (!o) {
        PyErr_NoMemory();
        return NULL;
    }
    *o = (lmx_observer){
        .capture = c, .clock = &c->clock, .dry = &c->dry.modes, .nowhere = &c->dry.nowhere, .slot = -1};
    o->reads = &c->st->torch.reads;
    o->most = c->watched.most;
    return o;
}

bool lmx_observe(lmx_capture *c) {
    static uint64_t generation;
    const lmx_record_api *found = lmx_record_api_of(c->st);
    if (!lmx_api) lmx_api = found; /* it is the same each time, and callbacks may be reading it */
    if (!found || !c->st->watches_ops) {
        lmx_fail(c->st, LAM_UNSUPPORTED, NULL,
                 "operators can't be watched: no layout of torch's records is in use");
        return false;
    }
    if (!c->watched.ops && !lmx_api->sequence) {
        lmx_fail(c->st, LAM_UNSUPPORTED, NULL,
                 "this torch does not tell whose the nodes of a backward pass are");
        return false;
    }
    uint64_t thread = lmx_api->thread();
    clean_up(thread);
    int slot = free_slot();
    if (slot < 0) {
        lmx_fail(c->st, LAM_LIMIT, NULL, "%d captures of operators are open already; close some first",
                 SLOTS);
        return false;
    }
    lmx_observer *o = lmx_observer_new(c);
    if (!o) return false;
    o->layout = c->st->layout;
    o->thread = thread;
    o->slot = slot;
    o->nodes_only = !c->watched.ops;
    o->tells_ops = lmx_want_operators(c);
    if (c->watched.ops && !o->tells_ops && lmx_api->kept && o->layout->callbacks >= 0)
        o->own = &callbacks[slot][OF_OPS];
    if (c->watched.ops && !c->dry.modes) lmx_reads_values(c->st);
    o->generation = ++generation;
    c->watched.observer = o;
    slots[slot].taken = true;
    slots[slot].thread = thread;
    atomic_store(&slots[slot].observer, o);
    if (!o->nodes_only) add_callback(slot, OF_OPS);
    if (o->nodes_only && o->tells_ops) add_callback(slot, OF_OPS_RESULTS);
    add_callback(slot, lmx_want_values(c) ? OF_NODES_WITH_VALUES : OF_NODES);
    /* This makes torch rebuild all its lists, twice. A recording reports no time of a pass that it did not
     * see, so it does without. */
    o->everywhere = !c->noted.brief;
    if (o->everywhere) watch_everywhere();
    return true;
}

void lmx_unobserve(lmx_capture *c) {
    lmx_observer *o = c->watched.observer;
    if (!o || o->slot < 0) return;
    int slot = o->slot;
    o->slot = -1;
    uint64_t thread = lmx_api->thread();
    if (slots[slot].thread == thread)
        remove_callbacks(slot);
    else
        slots[slot].stale = true;
    if (o->everywhere) leave_everywhere();
    atomic_store(&slots[slot].observer, NULL);
    if (atomic_load(&slots[slot].busy)) {
        /* A callback may be waiting for the GIL, since the size of a tensor may come from Python. */
        PyThreadState *state = PyEval_SaveThread();
        const struct timespec moment = {0, 10000};
        while (atomic_load(&slots[slot].busy)) nanosleep(&moment, NULL);
        PyEval_RestoreThread(state);
    }
}

size_t lmx_observer_own(const lmx_observer *o) {
    const lmx_lane *own = lmx_observer_lane(o, 0);
    return own ? own->ops.n : 0;
}
