/* SPDX-License-Identifier: Apache-2.0
 *
 * What every C test includes: cmocka, the allocator that fails on request, and how long loops
 * over made-up inputs are. The tests are linked with --wrap=malloc,calloc,realloc, so each allocation of the
 * library passes through here and can be refused. So are pieces of an arena (--wrap=lmi_alloc), which mostly
 * need no memory of their own. */
#ifndef LAMINA_TEST_OOM_H
#define LAMINA_TEST_OOM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
#include <malloc.h>
#define OOM_KNOWS_USE 1
#endif
#endif

#include <cmocka.h>

#include "lamina.h"

#define OOM_UNUSED __attribute__((unused))

/* `wanted` rounds, or as many as LAMINA_ROUNDS says: checkers make each of them fifty times as long. */
OOM_UNUSED static int rounds(int wanted) {
    static int most = -1;
    const char *told = most < 0 ? getenv("LAMINA_ROUNDS") : NULL;
    if (most < 0) most = told && atoi(told) > 0 ? atoi(told) : INT32_MAX;
    return wanted < most ? wanted : most;
}

struct lmi_arena;
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_lmi_alloc(struct lmi_arena *a, uint64_t n, uint64_t size) __attribute__((weak));
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_lmi_alloc(struct lmi_arena *a, uint64_t n, uint64_t size);

static _Atomic int64_t oom_seen;  /* allocations since oom_arm, of any thread */
static int64_t oom_fail_at = -1;  /* the allocation to refuse, from 0; -1: none */
static bool oom_and_all_after;    /* refuse every later one too */
static _Atomic bool oom_injected; /* one was refused since oom_arm */

static bool oom_refuses(void) {
    int64_t i = oom_seen++;
    bool refuse = oom_fail_at >= 0 && (i == oom_fail_at || (oom_and_all_after && i > oom_fail_at));
    if (refuse) oom_injected = true;
    return refuse;
}

void *__wrap_malloc(size_t size) { return oom_refuses() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return oom_refuses() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *old, size_t size) { return oom_refuses() ? NULL : __real_realloc(old, size); }
void *__wrap_lmi_alloc(struct lmi_arena *a, uint64_t n, uint64_t size) {
    return n && oom_refuses() ? NULL : __real_lmi_alloc(a, n, size); /* nothing fits always */
}

/* From now on allocation `fail_at` is refused; with `all_after`, every later one too. */
OOM_UNUSED static void oom_arm(int64_t fail_at, bool all_after) {
    oom_seen = 0;
    oom_fail_at = fail_at;
    oom_and_all_after = all_after;
    oom_injected = false;
}

OOM_UNUSED static void oom_disarm(void) { oom_fail_at = -1; }

/* Whether the library succeeded. It may fail for want of memory alone, and must say so in a sentence. */
OOM_UNUSED static bool oom_check(lam_status s, const lam_error *e) {
    if (s != LAM_OK && (s != LAM_NOMEM || e->status != s || !*e->text))
        fail_msg("status %d, error %d: '%s'", (int)s, (int)e->status, e->text);
    return s == LAM_OK;
}

/* Bytes that are allocated; 0 where nobody tells, as under a leak checker, which sees to it itself. */
OOM_UNUSED static size_t oom_in_use(void) {
#ifdef OOM_KNOWS_USE
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

/* Runs may fill what the allocator keeps for later ones, up to some size; memory that is left behind grows
 * with every run. */
OOM_UNUSED static void oom_leaves_nothing(void (*run)(void *arg, bool *ok), void *arg) {
    enum { TRIES = 12, RUNS = 8, LEAST = 16 };
    size_t more = 0;
    for (int i = 0; i < TRIES; i++) {
        size_t before = oom_in_use();
        bool ok = false;
        for (int k = 0; k < RUNS; k++) run(arg, &ok);
        size_t after = oom_in_use();
        more = after > before ? (after - before) / RUNS : 0;
        if (more < LEAST) return;
    }
    fail_msg("each run leaves %zu bytes behind", more);
}

/* Runs `run` with allocation 0, 1, 2, ... refused until a run meets no refusal; then once more with every
 * allocation from the n-th on refused. The body sets *ok to whether the library reported success, which
 * oom_check tells, and frees what it got. A refusal must be reported and a run without one must succeed, and
 * leave no memory behind: all are asserted here. */
OOM_UNUSED static void oom_sweep(void (*run)(void *arg, bool *ok), void *arg) {
    for (int all_after = 0; all_after < 2; all_after++) {
        bool injected = true;
        for (int64_t i = 0; injected; i++) {
            bool ok = false;
            oom_arm(i, all_after != 0);
            run(arg, &ok);
            injected = oom_injected;
            oom_disarm();
            if (ok == injected) {
                fail_msg("allocation %lld %s", (long long)i,
                         injected ? "was refused but success was reported"
                                  : "was not refused but the run failed");
            }
        }
    }
    oom_leaves_nothing(run, arg);
}

#endif
