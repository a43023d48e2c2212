/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is freed as a whole: a list of chunks, the newest first. The limit on allocations guards
 * against inputs that request absurd amounts. */
#include "base/base.h"

#include <stdlib.h>

enum { ALIGN = 16, FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20 };

/* Under AddressSanitizer only allocated pieces may be accessed: the bytes after each are poisoned, and
 * so is the rest of a chunk. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(const volatile void *p, size_t n); /* of the sanitizer's runtime */
void __asan_unpoison_memory_region(const volatile void *p, size_t n);
enum { RED = ALIGN };
static void poison(const char *p, uint64_t n) { __asan_poison_memory_region(p, (size_t)n); }
static void unpoison(const char *p, uint64_t n) { __asan_unpoison_memory_region(p, (size_t)n); }
#else
enum { RED = 0 };
static void poison(const char *p, uint64_t n) { (void)p, (void)n; }
static void unpoison(const char *p, uint64_t n) { (void)p, (void)n; }
#endif

typedef struct lmi_chunk {
    struct lmi_chunk *next;
    uint64_t size, used; /* bytes after the header */
    uint64_t unused_;    /* keeps the header a multiple of 16, so that what follows is aligned */
} chunk;

void lmi_arena_init(lmi_arena *a, uint64_t limit) { *a = (lmi_arena){.limit = limit}; }

void lmi_arena_free(lmi_arena *a) {
    while (a->head) {
        chunk *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    a->used = 0;
}

/* Chunk sizes double up to a megabyte, so small models stay small and large ones take few calls. The
 * rest of the old chunk is abandoned, unless the new chunk is for a single large piece: then the old one
 * stays in front. A large piece is zeroed by the system, which costs nothing for fresh pages; in other
 * chunks only allocated pieces are zeroed, since zeroing the rest would touch unused memory. *zero: the piece
 * has to be zeroed; false then if it is. */
static char *from_new_chunk(lmi_arena *a, uint64_t bytes, bool *zero) {
    uint64_t size = a->head ? a->head->size * 2 : FIRST_CHUNK;
    if (size > LARGEST_CHUNK) size = LARGEST_CHUNK;
    bool large = bytes > size / 2;
    if (large) size = bytes;
    if (size > SIZE_MAX - sizeof(chunk)) return NULL;
    const bool zeroed = large && *zero;
    chunk *c = zeroed ? calloc(1, (size_t)size + sizeof *c) : malloc((size_t)size + sizeof *c);
    if (!c) return NULL;
    *zero = *zero && !zeroed;
    c->size = size;
    c->used = bytes;
    poison((char *)(c + 1) + bytes, size - bytes);
    if (large && a->head) {
        c->next = a->head->next;
        a->head->next = c;
    } else {
        c->next = a->head;
        a->head = c;
    }
    return (char *)(c + 1);
}

/* `n` * `size` bytes, all 0 if `zero`. */
static void *take(lmi_arena *a, uint64_t n, uint64_t size, bool zero) {
    static const _Alignas(ALIGN) char nothing[ALIGN];
    uint64_t bytes, used;
    if (lmi_mul_over(n, size, &bytes) || bytes > UINT64_MAX - ALIGN) return NULL;
    if (bytes == 0)
        return (char *)(uintptr_t)nothing; /* a valid address of 0 bytes; nothing is written there */
    const uint64_t asked = bytes;
    bytes = (bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
    if (lmi_add_over(a->used, bytes, &used) || used > a->limit || bytes > UINT64_MAX - RED) {
        a->full = true;
        return NULL;
    }
    bytes += RED;
    char *p;
    if (a->head && a->head->size - a->head->used >= bytes) {
        p = (char *)(a->head + 1) + a->head->used;
        a->head->used += bytes;
    } else {
        p = from_new_chunk(a, bytes, &zero);
        if (!p) return NULL;
    }
    a->used = used;
    unpoison(p, asked);
    poison(p + asked, bytes - asked);
    if (zero) memset(p, 0, (size_t)asked);
    return p;
}

void *lmi_alloc(lmi_arena *a, uint64_t n, uint64_t size) { return take(a, n, size, true); }
void *lmi_alloc_unset(lmi_arena *a, uint64_t n, uint64_t size) { return take(a, n, size, false); }

int32_t *lmi_alloc_none(lmi_arena *a, int32_t n) {
    int32_t *at = take(a, (uint64_t)n, sizeof *at, false);
    if (at && n > 0) memset(at, 0xff, (size_t)n * sizeof *at);
    return at;
}

bool lmi_group_by(lmi_arena *a, const int32_t *keys, int32_t n, int32_t n_groups, lmi_groups *out) {
    int32_t *start = lmi_alloc(a, (uint64_t)n_groups + 2, sizeof *start);
    int32_t *order = lmi_alloc_unset(a, (uint64_t)n, sizeof *order);
    if (!start || !order) return false;
    /* Counts two entries ahead, since filling the groups below moves each start to its final position. */
    for (int32_t i = 0; i < n; i++) start[keys[i] + 2]++;
    start[1] = 0; /* key -1 counted here */
    for (int32_t g = 2; g < n_groups + 2; g++) start[g] += start[g - 1];
    for (int32_t i = 0; i < n; i++) {
        if (keys[i] >= 0) order[start[keys[i] + 1]++] = i;
    }
    *out = (lmi_groups){start, order};
    return true;
}

void *lmi_copy(lmi_arena *a, const void *from, uint64_t n, uint64_t size) {
    void *p = take(a, n, size, false);
    if (p && n * size > 0) memcpy(p, from, (size_t)(n * size));
    return p;
}

char *lmi_strndup(lmi_arena *a, const char *s, size_t n) {
    if (!s || n == SIZE_MAX) return NULL;
    char *p = take(a, (uint64_t)n + 1, 1, false);
    if (!p) return NULL;
    if (n) memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *lmi_strdup(lmi_arena *a, const char *s) { return s ? lmi_strndup(a, s, strlen(s)) : NULL; }
