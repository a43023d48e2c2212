/* SPDX-License-Identifier: Apache-2.0
 * The replacements of torch's two functions, see allocator.h. Each open capture has a slot. A thread that is
 * about to write into one announces it, so that closing can wait for it. */
#include "process/allocator.h"
#include "process/blocks.h"
#include "process/import_table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef void *(*alloc_function)(size_t bytes);
typedef void (*free_function)(void *at);

static struct {
    _Atomic(lmx_alloc *) open[LMX_ALLOCS]; /* NULL: free */
    atomic_int n;                          /* the number of open ones; 0 in a child that was forked */
    atomic_int busy;                       /* threads that read them */
    _Atomic(alloc_function) alloc;
    _Atomic(free_function) free;
    lmx_entries entries;
    bool redirected, knows_forks;
} all = {.entries = {.symbols = {"_ZN3c109alloc_cpuEm", "_ZN3c108free_cpuEPv"}}};

static void *our_alloc(size_t bytes) {
    void *at = atomic_load_explicit(&all.alloc, memory_order_relaxed)(bytes);
    if (!at || atomic_load_explicit(&all.n, memory_order_relaxed) == 0) return at;
    atomic_fetch_add(&all.busy, 1);
    for (int i = 0; i < LMX_ALLOCS; i++) {
        lmx_alloc *a = atomic_load(&all.open[i]);
        if (a && !a->forked)
            lmx_blocks_add(a->blocks, (uint64_t)(uintptr_t)at, (int64_t)bytes, a->whose(a->self));
    }
    atomic_fetch_sub(&all.busy, 1);
    return at;
}

/* Notes a block before it is freed: another thread may get the same address right after. */
static void our_free(void *at) {
    if (at && atomic_load_explicit(&all.n, memory_order_relaxed) != 0) {
        atomic_fetch_add(&all.busy, 1);
        for (int i = 0; i < LMX_ALLOCS; i++) {
            lmx_alloc *a = atomic_load(&all.open[i]);
            if (a && !a->forked) lmx_blocks_drop(a->blocks, (uint64_t)(uintptr_t)at, a->whose(a->self));
        }
        atomic_fetch_sub(&all.busy, 1);
    }
    atomic_load_explicit(&all.free, memory_order_relaxed)(at);
}

static void set_replacements(void *out[LMX_SYMBOLS]) {
    const alloc_function alloc = our_alloc;
    const free_function release = our_free;
    memcpy(&out[0], &alloc, sizeof alloc);
    memcpy(&out[1], &release, sizeof release);
}

/* A lock that another thread held at the fork is never released in the child, which does not have that
 * thread. So the child records nothing more, and restores the entries when it closes. */
static void in_child(void) {
    atomic_store(&all.n, 0);
    atomic_store(&all.busy, 0);
    for (int i = 0; i < LMX_ALLOCS; i++) {
        lmx_alloc *a = atomic_load(&all.open[i]);
        if (a) a->forked = true;
    }
}

static int free_slot(void) {
    for (int i = 0; i < LMX_ALLOCS; i++)
        if (!atomic_load(&all.open[i])) return i;
    return -1;
}

static bool redirect(char *why, size_t size) {
    void *replacements[LMX_SYMBOLS];
    if (all.redirected) return true;
    if (!all.knows_forks && pthread_atfork(NULL, NULL, in_child) != 0) {
        snprintf(why, size, "memory ran out");
        return false;
    }
    all.knows_forks = true;
    if (!lmx_entries_find(&all.entries, why, size)) return false;
    set_replacements(replacements);
    if (!lmx_entries_redirect(&all.entries, replacements)) {
        snprintf(why, size, "the entries of torch's libraries can't be written");
        return false;
    }
    all.redirected = true;
    return true;
}

bool lmx_alloc_open(lmx_alloc *a, void *alloc, void *free, char *why, size_t size) {
    a->slot = free_slot();
    if (a->slot < 0) {
        snprintf(why, size, "%d captures of memory are open already; close some first", LMX_ALLOCS);
        return false;
    }
    alloc_function take;
    free_function give;
    memcpy(&take, &alloc, sizeof take); /* ISO C does not convert object pointers to functions */
    memcpy(&give, &free, sizeof give);
    atomic_store(&all.alloc, take);
    atomic_store(&all.free, give);
    if (!redirect(why, size)) {
        a->slot = -1;
        return false;
    }
    atomic_store(&all.open[a->slot], a);
    atomic_fetch_add(&all.n, 1);
    return true;
}

static bool any_open(void) {
    for (int i = 0; i < LMX_ALLOCS; i++)
        if (atomic_load(&all.open[i])) return true;
    return false;
}

void lmx_alloc_close(lmx_alloc *a) {
    if (a->slot < 0) return;
    atomic_store(&all.open[a->slot], NULL);
    a->slot = -1;
    if (!a->forked) atomic_fetch_sub(&all.n, 1);
    if (!any_open()) {
        void *replacements[LMX_SYMBOLS];
        set_replacements(replacements);
        lmx_entries_restore(&all.entries, replacements);
        all.redirected = false;
    }
    const struct timespec moment = {0, 1000};
    while (atomic_load(&all.busy)) nanosleep(&moment, NULL);
}

size_t lmx_alloc_entries(void) { return all.entries.n; }
