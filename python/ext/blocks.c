/* SPDX-License-Identifier: Apache-2.0
 * The table of blocks, see blocks.h. Addresses are spread over shards, each with a lock that is held for a
 * few instructions, so that threads seldom meet. A shard has an open-addressing table from the addresses that
 * are handed out to its records, which stay when a block is taken back. */
#include "blocks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHARDS = 16, FEW = 128, MOST = 1 << 22 }; /* slots of a new shard; records of all */

typedef struct slot {
    uint64_t address; /* 0: free */
    uint32_t block;
} slot;

typedef struct shard {
    atomic_flag taken;
    bool lost, full;
    slot *slots;
    size_t mask, used;
    lmx_block *blocks;
    size_t n, cap;
    char apart[64]; /* two shards share no cache line */
} shard;

static const lmx_whose nobody = {-1, 0, false};

struct lmx_blocks {
    shard shards[SHARDS];
    atomic_llong order;
    int64_t clock; /* 0: the real one */
};

static uint64_t hash_of(uint64_t address) {
    return (address >> 4) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
}

static shard *shard_of(lmx_blocks *b, uint64_t address) { return &b->shards[hash_of(address) >> 60]; }

static size_t home_of(const shard *s, uint64_t address) { return (size_t)(hash_of(address) >> 20) & s->mask; }

static void lock(shard *s) {
    while (atomic_flag_test_and_set_explicit(&s->taken, memory_order_acquire)) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

static void unlock(shard *s) { atomic_flag_clear_explicit(&s->taken, memory_order_release); }

static int64_t clock_ns(const lmx_blocks *b) {
    struct timespec t;
    if (b->clock) return b->clock;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

lmx_blocks *lmx_blocks_new(void) {
    lmx_blocks *b = calloc(1, sizeof *b);
    for (int i = 0; b && i < SHARDS; i++) {
        shard *s = &b->shards[i];
        atomic_flag_clear(&s->taken);
        s->mask = FEW - 1;
        s->slots = calloc(FEW, sizeof *s->slots);
        if (s->slots) continue;
        lmx_blocks_free(b);
        return NULL;
    }
    return b;
}

void lmx_blocks_free(lmx_blocks *b) {
    for (int i = 0; b && i < SHARDS; i++) {
        free(b->shards[i].slots);
        free(b->shards[i].blocks);
    }
    free(b);
}

/* The slot of an address, or the free one where it belongs. */
static slot *find(const shard *s, uint64_t address) {
    size_t i = home_of(s, address);
    while (s->slots[i].address && s->slots[i].address != address) i = (i + 1) & s->mask;
    return &s->slots[i];
}

/* At most half of the slots are used. */
static bool make_room(shard *s) {
    if (2 * (s->used + 1) <= s->mask + 1) return true;
    shard wider = {.mask = 2 * (s->mask + 1) - 1};
    wider.slots = calloc(wider.mask + 1, sizeof *wider.slots);
    if (!wider.slots) return false;
    for (size_t i = 0; i <= s->mask; i++)
        if (s->slots[i].address) *find(&wider, s->slots[i].address) = s->slots[i];
    free(s->slots);
    s->slots = wider.slots;
    s->mask = wider.mask;
    return true;
}

/* Closes the gap that a slot leaves, so that a search need not go on beyond a free one. */
static void empty(shard *s, slot *at) {
    size_t gap = (size_t)(at - s->slots), i = gap;
    for (;;) {
        i = (i + 1) & s->mask;
        if (!s->slots[i].address) break;
        size_t home = home_of(s, s->slots[i].address);
        if (((i - home) & s->mask) < ((i - gap) & s->mask)) continue; /* its home lies behind the gap */
        s->slots[gap] = s->slots[i];
        gap = i;
    }
    s->slots[gap].address = 0;
    s->used--;
}

static lmx_block *new_block(shard *s) {
    if (s->n >= MOST / SHARDS) {
        s->full = true;
        return NULL;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : FEW;
        lmx_block *more = realloc(s->blocks, cap * sizeof *more);
        if (!more) {
            s->lost = true;
            return NULL;
        }
        s->blocks = more;
        s->cap = cap;
    }
    return &s->blocks[s->n++];
}

static int64_t next_order(lmx_blocks *b) {
    return atomic_fetch_add_explicit(&b->order, 1, memory_order_relaxed) + 1;
}

static void take_back(lmx_blocks *b, shard *s, slot *at, lmx_whose by, int64_t now) {
    lmx_block *block = &s->blocks[at->block];
    block->freed_order = next_order(b);
    block->t1_ns = now;
    block->freed_by = by;
    empty(s, at);
}

void lmx_blocks_add(lmx_blocks *b, uint64_t address, int64_t bytes, lmx_whose by) {
    shard *s = shard_of(b, address);
    int64_t now = clock_ns(b);
    lock(s);
    slot *known = find(s, address);
    if (known->address) take_back(b, s, known, by, now);
    lmx_block *block = NULL;
    if (!make_room(s))
        s->lost = true;
    else
        block = new_block(s);
    if (block) {
        *find(s, address) = (slot){address, (uint32_t)(s->n - 1)};
        s->used++;
        *block = (lmx_block){.address = address,
                             .bytes = bytes,
                             .order = next_order(b),
                             .t0_ns = now,
                             .by = by,
                             .freed_by = nobody};
    }
    unlock(s);
}

bool lmx_blocks_before(lmx_blocks *b, uint64_t address, int64_t bytes) {
    shard *s = shard_of(b, address);
    lock(s);
    bool is_new = !find(s, address)->address;
    lmx_block *block = NULL;
    if (is_new && !make_room(s))
        s->lost = true;
    else if (is_new)
        block = new_block(s);
    if (block) {
        *find(s, address) = (slot){address, (uint32_t)(s->n - 1)};
        s->used++;
        *block =
            (lmx_block){.address = address, .bytes = bytes, .by = {-1, 0, false}, .freed_by = {-1, 0, false}};
    }
    unlock(s);
    return is_new;
}

bool lmx_blocks_tell(lmx_blocks *b, uint64_t address, uint8_t held, uint64_t of) {
    shard *s = shard_of(b, address);
    lock(s);
    const slot *at = find(s, address);
    bool known = at->address != 0;
    lmx_block *block = known ? &s->blocks[at->block] : NULL;
    if (block && !block->held) {
        block->held = held;
        block->of = of;
    }
    unlock(s);
    return known;
}

void lmx_blocks_drop(lmx_blocks *b, uint64_t address, lmx_whose by) {
    shard *s = shard_of(b, address);
    int64_t now = clock_ns(b);
    lock(s);
    slot *at = find(s, address);
    if (at->address) take_back(b, s, at, by, now);
    unlock(s);
}

void lmx_blocks_clock(lmx_blocks *b, int64_t ns) { b->clock = ns; }

int64_t lmx_blocks_now(const lmx_blocks *b) { return atomic_load_explicit(&b->order, memory_order_relaxed); }

bool lmx_blocks_lost(const lmx_blocks *b) {
    for (int i = 0; i < SHARDS; i++)
        if (b->shards[i].lost) return true;
    return false;
}

bool lmx_blocks_full(const lmx_blocks *b) {
    for (int i = 0; i < SHARDS; i++)
        if (b->shards[i].full) return true;
    return false;
}

size_t lmx_blocks_n(const lmx_blocks *b) {
    size_t n = 0;
    for (int i = 0; i < SHARDS; i++) n += b->shards[i].n;
    return n;
}

static int by_order(const void *a, const void *b) {
    const lmx_block *x = a, *y = b;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

lmx_block *lmx_blocks_all(const lmx_blocks *b) {
    size_t n = lmx_blocks_n(b), at = 0;
    lmx_block *all = malloc((n + 1) * sizeof *all);
    if (!all) return NULL;
    for (int i = 0; i < SHARDS; i++) {
        const shard *s = &b->shards[i];
        if (s->n) memcpy(all + at, s->blocks, s->n * sizeof *all);
        at += s->n;
    }
    qsort(all, n, sizeof *all, by_order);
    return all;
}
