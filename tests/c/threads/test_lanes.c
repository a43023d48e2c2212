/* SPDX-License-Identifier: Apache-2.0
 * The observer's callbacks under ThreadSanitizer: threads that run operators while captures are opened and
 * closed. What the callbacks ask of torch and of Python is answered here. */
#include "observe/listeners.h"
#include "observe/observe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 5000, CAPTURES = 200, INSIDE = 3 };

/* As much of torch's record as is read. */
typedef struct record {
    uint64_t sequence;
    const char *name;
    uint64_t inputs[3], outputs[3]; /* no arguments and no results */
    uint64_t forward;               /* the thread that made the node; 0 none */
} record;

static int failures;

static void expect(bool ok, const char *what, long long a, long long b) {
    if (ok) return;
    failures++;
    fprintf(stderr, "%s: %lld, %lld\n", what, a, b);
}

/* == torch's part ====================================================================================== */

static _Atomic(const lmx_callback *) registered; /* what a thread calls */
static _Atomic(const lmx_callback *) for_all;    /* the same of all threads */
static atomic_ullong threads;
static _Thread_local uint64_t number;

static uint64_t thread_number(void) {
    if (!number) number = atomic_fetch_add(&threads, 1) + 1;
    return number;
}
static const char *name_of(const void *r) { return ((const record *)r)->name; }
static uint64_t next_sequence(void) { return 1; }
static bool no_gradients(void) { return false; }
static void unregister(uint64_t handle) { (void)handle; }
static void register_for_all(void) {}

static const lmx_record_api torch = {.loaded = true,
                                     .name = name_of,
                                     .thread = thread_number,
                                     .add_for_all = register_for_all,
                                     .remove = unregister,
                                     .sequence = next_sequence,
                                     .grad_enabled = no_gradients};

const uint64_t *lmx_keys_here(const lmx_record_api *api) {
    static const uint64_t none[2];
    return api ? none : NULL;
}
const lmx_record_api *lmx_record_api_of(lmx_state *st) { return st ? &torch : NULL; }
uint64_t lmx_add_callback(const lmx_record_api *api, const lmx_callback *c) {
    (void)api;
    if (c->all) atomic_store(&for_all, c);
    if (!c->nodes) atomic_store(&registered, c);
    return 1;
}
bool lmx_sparse_of(const lmx_layout *l, const lmx_shim *s, const void *handle, lmx_sparse *out) {
    return l && s && handle && out && false;
}
uint64_t lmx_memory_of(const lmx_layout *l, const lmx_shim *s, const void *handle) {
    return l && s && handle ? 8 : 0;
}

/* == Python's part ===================================================================================== */

PyThreadState *PyEval_SaveThread(void) { return NULL; }
void PyEval_RestoreThread(PyThreadState *state) { (void)state; }
PyObject *PyErr_NoMemory(void) { return NULL; }
PyObject *lmx_fail(lmx_state *st, lam_status status, const char *where, const char *format, ...) {
    expect(false, format, st != NULL, status + (where != NULL));
    return NULL;
}

/* == lamina's part, which has no threads ================================================================ */

/* The word of a name is the number at its end. */
int32_t lam_word_op(const char *name) {
    size_t n = strlen(name);
    while (n && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
    return name[n] ? atoi(name + n) : -1;
}
bool lam_word_op_wraps(int32_t word) { return word % 2 != 0; }
const char *lam_word_op_kind(int32_t word) { return word < 0 ? NULL : "map"; }
/* Of each five words one has ends of groups, the others a mask. */
int32_t lam_word_op_mask(int32_t word) { return word < 0 || word % 5 == 3 ? -1 : word % 5; }
int32_t lam_word_op_ends(int32_t word) { return word < 0 || word % 5 != 3 ? -1 : 3; }
bool lmx_reads_values(lmx_state *st) { return !st; }
/* No capture here guards arguments. */
lmx_op *lmx_guard_open(lmx_capture *c, lmx_lane *lane, const char *name, int32_t op) {
    expect(false, name, c->watched.guard != NULL, op);
    return (lmx_op *)lane->ops.data + op;
}
bool lmx_mask_at(const lmx_layout *l, const lmx_shim *s, const void *handle, lmx_is_fake nowhere,
                 lam_mask *out) {
    return l && s && handle && nowhere && out && false;
}

/* == the rest ========================================================================================== */

static lmx_layout layout = {.sequence = 0,
                            .inputs = offsetof(record, inputs),
                            .outputs = offsetof(record, outputs),
                            .forward_thread = offsetof(record, forward),
                            .callbacks = -1,
                            .python = -1,
                            .asks = -1};

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        const lmx_callback *c = atomic_load(&registered);
        const record outer = {.sequence = (uint64_t)i, .name = "aten::linear"},
                     inner = {.sequence = UINT64_MAX, .name = "aten::addmm"};
        void *context;
        c->start(&context, &outer);
        for (int k = 0; k < INSIDE; k++) {
            c->start(&context, &inner);
            c->end(&inner, NULL);
        }
        c->end(&outer, NULL);
    }
    return NULL;
}

static lmx_capture *open_one(lmx_state *st) {
    lmx_capture *c = calloc(1, sizeof *c);
    if (!c) abort();
    c->st = st;
    c->watched.ops = true;
    c->watched.most = UINT64_C(1) << 30;
    c->noted.open = -1;
    c->threads.owner = (unsigned long)pthread_self();
    lmx_clock_begin(&c->clock, true);
    expect(lmx_observe(c), "it opens", 0, 0);
    return c;
}

/* Operators of one thread are in the order of their stamps, and lie between beginning and end. */
static void expect_order(const lmx_capture *c) {
    for (const lmx_lane *lane = c->watched.observer->lanes; lane; lane = lane->next) {
        const lmx_op *ops = lane->ops.data;
        for (size_t i = 0; i < lane->ops.n; i++) {
            int64_t began = lmx_clock_ns(&c->clock, ops[i].began),
                    ended = lmx_clock_ns(&c->clock, ops[i].ended);
            if (i)
                expect(ops[i - 1].began < ops[i].began || !c->clock.counts, "an order", (long long)i, began);
            if (ops[i].ended) expect(began <= ended, "an operator's times", began, ended);
        }
    }
}

static size_t close_one(lmx_capture *c) {
    lmx_unobserve(c);
    lmx_clock_end(&c->clock);
    expect_order(c);
    size_t n = lmx_observer_n(c->watched.observer);
    lmx_observer_free(c->watched.observer);
    free(c);
    return n;
}

static void start(pthread_t *all) {
    for (int i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, work, NULL);
}

static void join(const pthread_t *all) {
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
}

/* All that ran in the block is there. */
static void test_one_capture(lmx_state *st) {
    pthread_t all[THREADS];
    lmx_capture *c = open_one(st);
    start(all);
    for (int i = 0; i < ROUNDS; i++) { /* the capture's own thread goes through calls meanwhile */
        __atomic_store_n(&c->noted.open, i % 3 - 1, __ATOMIC_RELAXED);
        c->noted.busy = i % 2;
    }
    c->noted.busy = false;
    join(all);
    size_t n = close_one(c), ran = (size_t)THREADS * ROUNDS * (1 + INSIDE);
    expect(n == ran, "operators that were noted", (long long)n, (long long)ran);
}

/* Callbacks that are running when a capture is closed, or run after that, are somebody else's or nobody's. */
static void test_toggling(lmx_state *st) {
    pthread_t all[THREADS];
    size_t n = close_one(open_one(st));
    start(all);
    for (int i = 0; i < CAPTURES; i++) n += close_one(open_one(st));
    join(all);
    expect(n <= (size_t)THREADS * ROUNDS * (1 + INSIDE), "no operator is noted twice", (long long)n, 0);
}

/* A backward may run on one thread while the thread whose nodes it goes through makes more of them: where
 * checkpoints do their forwards again on several devices, or somebody's own threads share a graph. */
static void *ask_origins(void *lane) {
    for (int i = 0; i < ROUNDS; i++) {
        int32_t call = lmx_lane_origin(lane, i);
        expect(call >= -1 && call <= i / INSIDE, "whose a node is", i, call);
    }
    return NULL;
}

static void test_origins(void) {
    pthread_t all[THREADS];
    lmx_lane *lane = calloc(1, sizeof *lane);
    if (!lane) abort();
    for (int i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, ask_origins, lane);
    for (int i = 0; i < ROUNDS; i++) lmx_lane_note_origin(lane, i, i / INSIDE);
    join(all);
    for (int i = 0; i < ROUNDS; i++)
        expect(lmx_lane_origin(lane, i) == i / INSIDE, "whose a node was", i, lmx_lane_origin(lane, i));
    lmx_lane_note_origin(lane, INSIDE, 7); /* numbers begin anew: what came after that one is gone */
    expect(lmx_lane_origin(lane, ROUNDS) == 7, "whose a later node is", 7, lmx_lane_origin(lane, ROUNDS));
    expect(lmx_lane_origin(lane, INSIDE - 1) == 0, "whose an earlier one", 0, lmx_lane_origin(lane, 0));
    lmx_lane_free(lane);
}

/* Backward passes on threads that no capture watches, through what a call made, and through what none did. */
static void *go_back(void *forward) {
    const uint64_t thread = *(const uint64_t *)forward;
    for (int i = 0; i < ROUNDS; i++) {
        const lmx_callback *c = atomic_load(&for_all);
        const record node = {.sequence = 1, .forward = thread}, sum = {.sequence = UINT64_MAX};
        void *context;
        c->start(&context, &node);
        c->start(&context, &sum);
        c->end(&sum, NULL);
        c->end(&node, NULL);
    }
    return NULL;
}

static void test_backward_elsewhere(lmx_state *st) {
    uint64_t mine = thread_number(), nobody = 1000000;
    for (int ours = 0; ours < 2; ours++) {
        pthread_t all[THREADS];
        lmx_capture *c = open_one(st);
        c->noted.open = 0;
        lmx_observe_call(c);
        for (int i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, go_back, ours ? &mine : &nobody);
        for (int i = 0; i < CAPTURES; i++) close_one(open_one(st));
        join(all);
        expect(lmx_observer_strange(c->watched.observer) == ours, "a backward pass elsewhere", ours, 0);
        close_one(c);
    }
}

/* A clock whose counter runs at 3 a nanosecond. */
static void test_clock(void) {
    const lmx_clock k = {.counts = true, .began = {3000, 500}, .rate = 10000.0 / 30000};
    static const int64_t known[][2] = {{0, 0}, {3000, 500}, {3003, 501}, {18000, 5500}, {33000, 10500}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        expect(lmx_clock_ns(&k, known[i][0]) == known[i][1], "nanoseconds of a stamp", known[i][0],
               lmx_clock_ns(&k, known[i][0]));
    for (int64_t stamp = 3000; stamp < 3100; stamp++)
        expect(lmx_clock_ns(&k, stamp) <= lmx_clock_ns(&k, stamp + 1), "a later stamp", stamp, stamp + 1);
    const lmx_clock stood = {.counts = true, .began = {9, 7}}, plain = {.last = 1};
    expect(lmx_clock_ns(&stood, 12) == 7, "a counter that stands still", lmx_clock_ns(&stood, 12), 7);
    expect(lmx_clock_ns(&plain, 12) == 12, "nanoseconds as they are", lmx_clock_ns(&plain, 12), 12);
    lmx_clock real;
    lmx_clock_begin(&real, false);
    expect(!real.counts, "a clock that others' times are compared with", 0, 0);
    lmx_clock_begin(&real, true);
    int64_t last = real.counts ? INT64_MAX / 2 : 0, stamp = lmx_clock_stamp(&real, &last);
    if (real.counts) expect(stamp == INT64_MAX / 2 + 1, "a counter that went back", stamp, last);
    for (volatile int i = 0; i < 1000000; i++) {}
    last = 0;
    stamp = lmx_clock_stamp(&real, &last);
    const int64_t now = lmx_now_ns();
    lmx_clock_end(&real);
    const int64_t ns = lmx_clock_ns(&real, stamp);
    expect(ns > real.began.ns && ns < now + 100000, "a stamp before the end", ns, now);
}

/* What is known of a name stays with it, wherever its text lies. */
static void test_names(void) {
    enum { MANY = 2000 };
    lmx_lane *lane = calloc(1, sizeof *lane);
    if (!lane) abort();
    lane->most = UINT64_C(1) << 30;
    char text[2][64];
    for (int i = 0; i < MANY; i++) {
        snprintf(text[i % 2], sizeof text[0], "aten::%.*s%d", i % 40,
                 "a_name_that_may_be_quite_long_or_not_____", i);
        int32_t name = lmx_lane_name(lane, text[i % 2]);
        const lmx_op *op = lmx_lane_op(lane, text[i % 2], i % 3 == 0);
        expect(name > 0 && op && op->name == name, "a name", i, name);
        expect(strcmp(lmx_op_name(lane, op), text[i % 2]) == 0, "its text", i, name);
        expect(lmx_lane_named(lane, name)->closes == (i % 2 == 0), "what its word says", i, name);
        expect(lmx_lane_named(lane, name)->mask == i % 5, "its mask", i, lmx_lane_named(lane, name)->mask);
    }
    const lmx_op *ops = lane->ops.data;
    for (int i = 0; i < MANY; i++)
        expect(lmx_lane_named(lane, ops[i].name)->mask == i % 5, "what was known of it", i, ops[i].name);
    lmx_lane_free(lane);
}

int main(void) {
    lmx_state *st = calloc(1, sizeof *st);
    if (!st) return 1;
    st->watches_ops = true;
    st->layout = &layout;
    test_one_capture(st);
    test_toggling(st);
    test_origins();
    test_backward_elsewhere(st);
    test_clock();
    test_names();
    free(st);
    return failures != 0;
}
