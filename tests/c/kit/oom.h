/* SPDX-License-Identifier: Apache-2.0
 *
 * What every C test includes: cmocka, the allocator that fails on request, and how long loops
 * over made-up inputs are. The tests are linked with --wrap=malloc,calloc,realloc, so each allocation of the
 * library passes through here and can be refused. So are pieces of an arena (--wrap=lmi_alloc): they mostly
 * need no memory of their own. What seldom needs any, such as a growing list, is refused by oom_sweep_parts
 * alone, the reading of a file by oom_sweep_reads, and that of each number and text in it by
 * oom_sweep_takes. */
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
#include <errno.h>
#include <sys/types.h>

#include "base/base.h"

#define OOM_UNUSED __attribute__((unused))

/* `wanted` rounds, or as many as LAMINA_ROUNDS says: checkers make each of them fifty times as long. */
OOM_UNUSED static int rounds(int wanted) {
    static int most = -1;
    const char *told = most < 0 ? getenv("LAMINA_ROUNDS") : NULL;
    if (most < 0) most = told && atoi(told) > 0 ? atoi(told) : INT32_MAX;
    return wanted < most ? wanted : most;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_lmi_alloc(lmi_arena *a, uint64_t n, uint64_t size);
void *__wrap_lmi_alloc_unset(lmi_arena *a, uint64_t n, uint64_t size);

/* Not every test is linked with these. */
#define OOM_REAL __attribute__((weak))
lam_status lmi_fail(lam_error *e, lam_status status, const char *where, const char *fmt, ...) OOM_REAL;
void *__real_lmi_alloc(lmi_arena *a, uint64_t n, uint64_t size) OOM_REAL;
void *__real_lmi_alloc_unset(lmi_arena *a, uint64_t n, uint64_t size) OOM_REAL;
void *__real_lmi_copy(lmi_arena *a, const void *from, uint64_t n, uint64_t size) OOM_REAL;
char *__real_lmi_strdup(lmi_arena *a, const char *s) OOM_REAL;
char *__real_lmi_strndup(lmi_arena *a, const char *s, size_t n) OOM_REAL;
int32_t *__real_lmi_alloc_none(lmi_arena *a, int32_t n) OOM_REAL;
bool __real_lmi_group_by(lmi_arena *a, const int32_t *keys, int32_t n, int32_t n_groups,
                         lmi_groups *out) OOM_REAL;
void __real_lmi_vec_clear(lmi_vec *v) OOM_REAL;
void *__real_lmi_vec_grow(lmi_vec *v, size_t more) OOM_REAL;
lam_status __real_lmi_map_put(lmi_map *m, const char *key, int64_t value, lam_error *e) OOM_REAL;
lam_status __real_lmi_map_put_u64(lmi_map *m, uint64_t key, int64_t value, lam_error *e) OOM_REAL;
lam_status __real_lmi_buf_status(const lmi_buf *b, lam_error *e) OOM_REAL;
ssize_t __real_lmi_read_at(int fd, void *to, size_t n, uint64_t at) OOM_REAL;
struct lmi_cursor;
lam_status __real_lmi_cursor_take(struct lmi_cursor *c, size_t n, const unsigned char **out,
                                  lam_error *e) OOM_REAL;
lam_status __real_lmi_cursor_peek(struct lmi_cursor *c, const unsigned char **out, size_t *n,
                                  lam_error *e) OOM_REAL;
void *__wrap_lmi_copy(lmi_arena *a, const void *from, uint64_t n, uint64_t size);
char *__wrap_lmi_strdup(lmi_arena *a, const char *s);
char *__wrap_lmi_strndup(lmi_arena *a, const char *s, size_t n);
int32_t *__wrap_lmi_alloc_none(lmi_arena *a, int32_t n);
bool __wrap_lmi_group_by(lmi_arena *a, const int32_t *keys, int32_t n, int32_t n_groups,
                         lmi_groups *out);
void __wrap_lmi_vec_clear(lmi_vec *v);
void *__wrap_lmi_vec_grow(lmi_vec *v, size_t more);
lam_status __wrap_lmi_map_put(lmi_map *m, const char *key, int64_t value, lam_error *e);
lam_status __wrap_lmi_map_put_u64(lmi_map *m, uint64_t key, int64_t value, lam_error *e);
lam_status __wrap_lmi_buf_status(const lmi_buf *b, lam_error *e);
ssize_t __wrap_lmi_read_at(int fd, void *to, size_t n, uint64_t at);
lam_status __wrap_lmi_cursor_take(struct lmi_cursor *c, size_t n, const unsigned char **out, lam_error *e);
lam_status __wrap_lmi_cursor_peek(struct lmi_cursor *c, const unsigned char **out, size_t *n, lam_error *e);

/* What is refused: allocations and pieces of an arena; parts of what was allocated before; reading; bytes
 * that a cursor takes, any of which may be the first of the next piece to read. */
enum { OOM_PIECES, OOM_PARTS, OOM_READS, OOM_TAKES };
static int oom_kind = OOM_PIECES;
static bool oom_reads_bytes; /* a file is read byte by byte, and each byte at the second try */

static _Atomic int64_t oom_seen;  /* allocations since oom_arm, of any thread */
static int64_t oom_fail_at = -1;  /* the allocation to refuse, from 0; -1: none */
static bool oom_and_all_after;    /* refuse every later one too */
static _Atomic bool oom_injected; /* one was refused since oom_arm */

static bool oom_refuses_of(int kind) {
    if (kind != oom_kind) return false;
    int64_t i = oom_seen++;
    bool refuse = oom_fail_at >= 0 && (i == oom_fail_at || (oom_and_all_after && i > oom_fail_at));
    if (refuse) oom_injected = true;
    return refuse;
}

static bool oom_refuses(void) { return oom_refuses_of(OOM_PIECES); }
static bool oom_refuses_part(void) { return oom_refuses_of(OOM_PARTS); }

void *__wrap_malloc(size_t size) { return oom_refuses() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return oom_refuses() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *old, size_t size) { return oom_refuses() ? NULL : __real_realloc(old, size); }
void *__wrap_lmi_alloc(lmi_arena *a, uint64_t n, uint64_t size) {
    return n && oom_refuses() ? NULL : __real_lmi_alloc(a, n, size); /* nothing fits always */
}
void *__wrap_lmi_alloc_unset(lmi_arena *a, uint64_t n, uint64_t size) {
    return n && oom_refuses() ? NULL : __real_lmi_alloc_unset(a, n, size);
}
void *__wrap_lmi_copy(lmi_arena *a, const void *from, uint64_t n, uint64_t size) {
    return n && oom_refuses_part() ? NULL : __real_lmi_copy(a, from, n, size);
}
char *__wrap_lmi_strdup(lmi_arena *a, const char *s) {
    return oom_refuses_part() ? NULL : __real_lmi_strdup(a, s);
}
char *__wrap_lmi_strndup(lmi_arena *a, const char *s, size_t n) {
    return oom_refuses_part() ? NULL : __real_lmi_strndup(a, s, n);
}
int32_t *__wrap_lmi_alloc_none(lmi_arena *a, int32_t n) {
    return n && oom_refuses_part() ? NULL : __real_lmi_alloc_none(a, n);
}
bool __wrap_lmi_group_by(lmi_arena *a, const int32_t *keys, int32_t n, int32_t n_groups,
                         lmi_groups *out) {
    return !oom_refuses_part() && __real_lmi_group_by(a, keys, n, n_groups, out);
}
lam_status __wrap_lmi_map_put(lmi_map *m, const char *key, int64_t value, lam_error *e) {
    return oom_refuses_part() ? lmi_nomem(e) : __real_lmi_map_put(m, key, value, e);
}
lam_status __wrap_lmi_map_put_u64(lmi_map *m, uint64_t key, int64_t value, lam_error *e) {
    return oom_refuses_part() ? lmi_nomem(e) : __real_lmi_map_put_u64(m, key, value, e);
}
lam_status __wrap_lmi_buf_status(const lmi_buf *b, lam_error *e) {
    return oom_refuses_part() ? lmi_nomem(e) : __real_lmi_buf_status(b, e);
}

/* While parts are refused a list has no room to spare, so that each item that is added to it can be. */
void *__wrap_lmi_vec_grow(lmi_vec *v, size_t more) {
    if (oom_refuses_part()) return NULL;
    void *at = __real_lmi_vec_grow(v, more);
    if (at && oom_kind == OOM_PARTS && oom_fail_at >= 0) v->cap = v->n;
    return at;
}
void __wrap_lmi_vec_clear(lmi_vec *v) {
    __real_lmi_vec_clear(v);
    if (oom_kind == OOM_PARTS && oom_fail_at >= 0) v->cap = 0;
}

ssize_t __wrap_lmi_read_at(int fd, void *to, size_t n, uint64_t at) {
    static bool again;
    if (oom_refuses_of(OOM_READS)) {
        errno = EIO;
        return -1;
    }
    if (oom_reads_bytes && n && (again = !again)) {
        errno = EINTR;
        return -1;
    }
    return __real_lmi_read_at(fd, to, oom_reads_bytes && n ? 1 : n, at);
}

static lam_status oom_unread(lam_error *e) { return lmi_fail(e, LAM_IO, NULL, "it can't be read"); }
lam_status __wrap_lmi_cursor_take(struct lmi_cursor *c, size_t n, const unsigned char **out, lam_error *e) {
    return oom_refuses_of(OOM_TAKES) ? oom_unread(e) : __real_lmi_cursor_take(c, n, out, e);
}
lam_status __wrap_lmi_cursor_peek(struct lmi_cursor *c, const unsigned char **out, size_t *n, lam_error *e) {
    if (!oom_refuses_of(OOM_TAKES)) return __real_lmi_cursor_peek(c, out, n, e);
    *out = NULL;
    *n = 0;
    return oom_unread(e);
}

/* From now on allocation `fail_at` is refused; with `all_after`, every later one too. */
OOM_UNUSED static void oom_arm(int64_t fail_at, bool all_after) {
    oom_seen = 0;
    oom_fail_at = fail_at;
    oom_and_all_after = all_after;
    oom_injected = false;
}

OOM_UNUSED static void oom_disarm(void) { oom_fail_at = -1; }

/* Whether the library succeeded. It may fail for want of what is refused, and must say so in a sentence. */
OOM_UNUSED static bool oom_check(lam_status s, const lam_error *e) {
    const lam_status may = oom_kind >= OOM_READS ? LAM_IO : LAM_NOMEM;
    if (s != LAM_OK && (s != may || e->status != s || !*e->text))
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

/* Runs `run` with allocation, part or reading 0, `step`, 2 * `step`, ... refused until a run meets no
 * refusal. */
OOM_UNUSED static void oom_each_of(void (*run)(void *arg, bool *ok), void *arg, int kind, bool all_after,
                                   int64_t step) {
    static const char *const names[] = {"allocation", "part", "reading", "taking"};
    bool injected = true;
    oom_kind = kind;
    for (int64_t i = 0; injected; i += step) {
        bool ok = false;
        oom_arm(i, all_after);
        run(arg, &ok);
        injected = oom_injected;
        oom_disarm();
        if (ok == injected) {
            fail_msg("%s %lld was %s", names[kind], (long long)i,
                     injected ? "refused, and success was reported" : "not refused, and the run failed");
        }
    }
    oom_kind = OOM_PIECES;
}

OOM_UNUSED static void oom_each(void (*run)(void *arg, bool *ok), void *arg, int kind, bool all_after) {
    oom_each_of(run, arg, kind, all_after, 1);
}

/* Each allocation is refused; then every one from the n-th on. The body sets *ok to whether the library
 * reported success, which oom_check tells, and frees what it got. A refusal must be reported, and a run
 * without one must succeed and leave no memory behind: all are asserted here. */
OOM_UNUSED static void oom_sweep(void (*run)(void *arg, bool *ok), void *arg) {
    oom_each(run, arg, OOM_PIECES, false);
    oom_each(run, arg, OOM_PIECES, true);
    oom_leaves_nothing(run, arg);
}

/* The same of all that may need memory. */
OOM_UNUSED static void oom_sweep_parts(void (*run)(void *arg, bool *ok), void *arg) {
    oom_sweep(run, arg);
    oom_each(run, arg, OOM_PARTS, false);
}

/* Each reading of a file fails; and a file that is read byte by byte is read nevertheless. */
OOM_UNUSED static void oom_sweep_reads(void (*run)(void *arg, bool *ok), void *arg) {
    bool ok = false;
    oom_each(run, arg, OOM_READS, false);
    oom_reads_bytes = true;
    run(arg, &ok);
    oom_reads_bytes = false;
    if (!ok) fail_msg("a file that is read byte by byte is not read");
}

/* Each `step`-th number or text of a file can't be read. */
OOM_UNUSED static void oom_sweep_takes(void (*run)(void *arg, bool *ok), void *arg, int64_t step) {
    oom_each_of(run, arg, OOM_TAKES, false, step);
}

#endif
