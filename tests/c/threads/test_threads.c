/* SPDX-License-Identifier: Apache-2.0
 * What python/ext does in threads without Python, under ThreadSanitizer: the table of blocks, and the entries
 * that lead to it while they are changed and put back. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/allocator.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void *_ZN3c109alloc_cpuEm(size_t bytes);
void _ZN3c108free_cpuEPv(void *at);
void *allocate_inside(size_t bytes);

enum { THREADS = 4, ROUNDS = 20000, HELD = 64, TOGGLES = 300 };

static int failures;

static void expect(bool ok, const char *what, long long a, long long b) {
    if (ok) return;
    failures++;
    fprintf(stderr, "%s: %lld, %lld\n", what, a, b);
}

static uint64_t draw(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* == the table alone =================================================================================== */

static lmx_blocks *table;

static void *add_and_drop(void *arg) {
    uint64_t me = (uint64_t)(uintptr_t)arg, state = me;
    bool held[HELD] = {false};
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t k = draw(&state) % HELD, address = (me << 20) + 64 * (k + 1);
        if (held[k])
            lmx_blocks_drop(table, address, (lmx_whose){(int32_t)me, 1, false});
        else
            lmx_blocks_add(table, address, (int64_t)(k + 1), (lmx_whose){(int32_t)me, 0, false});
        held[k] = !held[k];
    }
    for (uint64_t k = 0; k < HELD; k++)
        if (held[k]) lmx_blocks_drop(table, (me << 20) + 64 * (k + 1), (lmx_whose){(int32_t)me, 1, false});
    return NULL;
}

static void run(void *(*what)(void *)) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, what, (void *)(uintptr_t)(i + 1));
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void test_table(void) {
    lmx_clock clock;
    lmx_clock_begin(&clock, true);
    table = lmx_blocks_new(&clock);
    run(add_and_drop);
    lmx_clock_end(&clock);
    lmx_reading r;
    expect(lmx_blocks_read(table, &r), "it is read", 0, 0);
    size_t n = r.n;
    const lmx_block *all = r.blocks;
    expect(lmx_blocks_now(table) == 2 * (int64_t)n, "orders", lmx_blocks_now(table), (long long)n);
    for (size_t i = 0; i < n; i++) {
        const lmx_block *b = &all[i];
        expect(b->freed_order > b->order, "a block is taken back after it was handed out", b->order,
               b->freed_order);
        expect(b->by.call == (int32_t)(b->address >> 20), "its owner", b->by.call, (long long)b->address);
        expect(b->freed_by.call == b->by.call, "who took it back", b->freed_by.call, b->by.call);
        expect(b->bytes == (int64_t)(b->address % (1 << 20) / 64), "its size", b->bytes,
               (long long)b->address);
        expect(!i || b->order > all[i - 1].order, "the order", b->order, 0);
        expect(b->t0_ns >= clock.began.ns && b->t1_ns >= b->t0_ns, "when", b->t0_ns, b->t1_ns);
    }
    expect(!lmx_blocks_lost(table) && !lmx_blocks_full(table), "nothing was lost", 0, 0);
    expect(r.orders[2 * n] == 2 * (int64_t)n, "the last order", r.orders[2 * n], (long long)n);
    lmx_reading_free(&r);
    lmx_blocks_free(table);
}

/* Whatever the clock counts, moments are the monotonic one's. */
static void test_moments(void) {
    enum { SLEPT = 20000000, NEAR = 5000000 };
    const struct timespec slept = {0, SLEPT};
    for (int alone = 0; alone < 3; alone++) {
        lmx_clock clock;
        lmx_reading r;
        lmx_clock_begin(&clock, alone != 0);
        lmx_blocks *b = lmx_blocks_new(alone == 2 ? NULL : &clock);
        int64_t before = lmx_now_ns();
        lmx_blocks_add(b, 64, 8, (lmx_whose){1, 0, false});
        nanosleep(&slept, NULL);
        lmx_blocks_drop(b, 64, (lmx_whose){1, 0, false});
        int64_t after = lmx_now_ns();
        lmx_clock_end(&clock);
        expect(lmx_blocks_read(b, &r) && r.n == 1, "a block", (long long)r.n, 1);
        const lmx_block *k = r.blocks;
        expect(k->t0_ns > before - NEAR && k->t1_ns < after + NEAR, "moments", k->t0_ns - before,
               k->t1_ns - after);
        expect(k->t1_ns - k->t0_ns > SLEPT - NEAR, "how long it was there", k->t1_ns - k->t0_ns, SLEPT);
        lmx_reading_free(&r);
        lmx_blocks_free(b);
    }
}

/* == entries =========================================================================================== */

static lmx_whose whose(void *self) {
    (void)self;
    return (lmx_whose){7, 0, false};
}

static void *allocate(void *arg) {
    uint64_t state = (uint64_t)(uintptr_t)arg;
    void *held[HELD] = {NULL};
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t k = draw(&state) % HELD;
        if (held[k]) {
            expect(*(char *)held[k] == (char)k, "what a block holds", (long long)k, 0);
            _ZN3c108free_cpuEPv(held[k]);
            held[k] = NULL;
        } else {
            held[k] = _ZN3c109alloc_cpuEm(k + 1);
            *(char *)held[k] = (char)k;
        }
    }
    for (int k = 0; k < HELD; k++)
        if (held[k]) _ZN3c108free_cpuEPv(held[k]);
    return NULL;
}

static bool open_one(lmx_alloc *a) {
    char why[200] = "";
    a->blocks = lmx_blocks_new(NULL);
    a->whose = whose;
    bool ok = lmx_alloc_open(a, dlsym(RTLD_DEFAULT, "_ZN3c109alloc_cpuEm"),
                             dlsym(RTLD_DEFAULT, "_ZN3c108free_cpuEPv"), why, sizeof why);
    expect(ok, why, 0, 0);
    return ok;
}

static long long alive(const lmx_alloc *a) {
    long long bytes = 0;
    lmx_reading r;
    if (!lmx_blocks_read(a->blocks, &r)) return -1;
    for (size_t i = 0; i < r.n; i++)
        if (!r.blocks[i].freed_order) bytes += r.blocks[i].bytes;
    lmx_reading_free(&r);
    return bytes;
}

/* What is read-only once it was loaded; this program's entries lie there. */
static int sum(struct dl_phdr_info *info, size_t size, void *self) {
    uint64_t *hash = self;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_GNU_RELRO) continue;
        const unsigned char *at = (const unsigned char *)(info->dlpi_addr + p->p_vaddr);
        for (size_t k = 0; k < p->p_memsz; k++) *hash = (*hash ^ at[k]) * UINT64_C(0x100000001b3);
    }
    return 0;
}

static uint64_t entries_hash(void) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    dl_iterate_phdr(sum, &hash);
    return hash;
}

static void test_one(void) {
    lmx_alloc a = {.slot = -1}, b = {.slot = -1};
    uint64_t before = entries_hash();
    if (!open_one(&a)) return;
    expect(entries_hash() != before, "entries were changed", 0, 0);
    void *p = _ZN3c109alloc_cpuEm(100), *q = NULL;
    expect(alive(&a) == 100, "seen by one", alive(&a), 100);
    if (open_one(&b)) {
        void *r = allocate_inside(3);
        expect(alive(&a) == 103 && alive(&b) == 3, "seen from inside", alive(&a), alive(&b));
        q = _ZN3c109alloc_cpuEm(11);
        _ZN3c108free_cpuEPv(p);
        expect(alive(&a) == 14 && alive(&b) == 14, "seen by both", alive(&a), alive(&b));
        lmx_alloc_close(&a);
        _ZN3c108free_cpuEPv(q);
        expect(alive(&a) == 14 && alive(&b) == 3, "seen by the open one", alive(&a), alive(&b));
        free(r); /* nobody is told of this end, */
        void *s = _ZN3c109alloc_cpuEm(3);
        expect(r != s || alive(&b) == 3, "so what comes next at its address ends it", alive(&b), 3);
        _ZN3c108free_cpuEPv(s);
        lmx_alloc_close(&b);
    }
    expect(entries_hash() == before, "entries are as they were", 0, 0);
    expect(lmx_alloc_entries() >= 2, "entries", (long long)lmx_alloc_entries(), 2);
    lmx_blocks_free(a.blocks);
    lmx_blocks_free(b.blocks);
}

static atomic_int running;

static void *toggle(void *arg) {
    (void)arg;
    for (int i = 0; i < TOGGLES || atomic_load(&running); i++) {
        lmx_alloc a = {.slot = -1};
        if (!open_one(&a)) return NULL;
        for (volatile int k = 0; k < 1000; k++) {}
        lmx_alloc_close(&a);
        expect(alive(&a) >= 0, "what is alive", alive(&a), 0);
        lmx_blocks_free(a.blocks);
    }
    return NULL;
}

static void test_toggling(void) {
    pthread_t toggler;
    uint64_t before = entries_hash();
    atomic_store(&running, 1);
    pthread_create(&toggler, NULL, toggle, NULL);
    run(allocate);
    atomic_store(&running, 0);
    pthread_join(toggler, NULL);
    expect(entries_hash() == before, "entries are as they were", 0, 0);
    lmx_alloc a = {.slot = -1};
    if (!open_one(&a)) return;
    run(allocate);
    lmx_alloc_close(&a);
    expect(alive(&a) == 0, "all that four threads took is given back", alive(&a), 0);
    lmx_blocks_free(a.blocks);
}

/* The child neither waits nor looks. */
static void test_fork(void) {
    lmx_alloc a = {.slot = -1};
    if (!open_one(&a)) return;
    void *p = _ZN3c109alloc_cpuEm(5);
    pid_t child = fork();
    if (child == 0) {
        void *q = _ZN3c109alloc_cpuEm(6);
        _ZN3c108free_cpuEPv(p);
        _ZN3c108free_cpuEPv(q);
        bool ok = a.forked && alive(&a) == 5;
        lmx_alloc_close(&a);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    expect(status == 0, "the child", status, 0);
    expect(!a.forked && alive(&a) == 5, "the parent", alive(&a), 5);
    _ZN3c108free_cpuEPv(p);
    expect(alive(&a) == 0, "the parent goes on", alive(&a), 0);
    lmx_alloc_close(&a);
    lmx_blocks_free(a.blocks);
}

int main(void) {
    test_table();
    test_moments();
    test_one();
    test_toggling();
    test_fork();
    if (!failures) printf("threads: fine\n");
    return failures ? 1 : 0;
}
