/* SPDX-License-Identifier: Apache-2.0
 * Allocations and frees, see blocks.h. While a model runs, events are only recorded. A position in the
 * record is taken by an atomic increment, so no thread waits for another, and an event touches one cache
 * line where a table of addresses would touch five. Frees are matched with allocations after the run. */
#include "process/blocks.h"
#include "process/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096, CHUNKS = 2048, FEW = 1024 }; /* events in a chunk; chunks; slots of a new table */

enum { ADDED, DROPPED, HELD };

typedef struct event {
    uint64_t address;
    int64_t bytes; /* ADDED, TOLD */
    union {
        int64_t stamp; /* ADDED, DROPPED */
        uint64_t of;
    };
    int32_t call;
    uint8_t kind, phase, held;
    bool elsewhere;
} event;

struct lmx_blocks {
    atomic_llong n; /* may exceed what is kept */
    atomic_bool lost;
    const lmx_clock *clock;
    int64_t moment; /* 0: now */
    _Atomic(event *) chunks[CHUNKS];
};

lmx_blocks *lmx_blocks_new(const lmx_clock *clock) {
    static const lmx_clock kernels;
    lmx_blocks *b = calloc(1, sizeof *b);
    if (b) b->clock = clock ? clock : &kernels;
    return b;
}

void lmx_blocks_free(lmx_blocks *b) {
    for (int i = 0; b && i < CHUNKS; i++) free(atomic_load_explicit(&b->chunks[i], memory_order_relaxed));
    free(b);
}

/* == writing =========================================================================================== */

/* Stamps of several threads have no common order, so no last stamp is kept. */
static int64_t stamp_of(const lmx_blocks *b) {
    int64_t last = 0;
    return b->moment ? b->moment : lmx_clock_stamp(b->clock, &last);
}

/* Makes a chunk, unless another thread was first; NULL if memory ran out. */
static event *make_chunk(lmx_blocks *b, long long i) {
    event *fresh = malloc(CHUNK * sizeof *fresh), *there = NULL;
    if (!fresh) {
        atomic_store_explicit(&b->lost, true, memory_order_relaxed);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&b->chunks[i], &there, fresh)) return fresh;
    free(fresh);
    return there;
}

static void note(lmx_blocks *b, const event *e) {
    long long at = atomic_fetch_add_explicit(&b->n, 1, memory_order_relaxed);
    if (at >= (long long)CHUNK * CHUNKS) return;
    event *chunk = atomic_load_explicit(&b->chunks[at / CHUNK], memory_order_acquire);
    if (!chunk) chunk = make_chunk(b, at / CHUNK);
    if (chunk) chunk[at % CHUNK] = *e;
}

static void note_by(lmx_blocks *b, event e, lmx_whose by) {
    e.stamp = stamp_of(b);
    e.call = by.call;
    e.phase = by.phase;
    e.elsewhere = by.elsewhere;
    note(b, &e);
}

void lmx_blocks_add(lmx_blocks *b, uint64_t address, int64_t bytes, lmx_whose by) {
    note_by(b, (event){.address = address, .bytes = bytes, .kind = ADDED}, by);
}

void lmx_blocks_drop(lmx_blocks *b, uint64_t address, lmx_whose by) {
    note_by(b, (event){.address = address, .kind = DROPPED}, by);
}

void lmx_blocks_tell(lmx_blocks *b, uint64_t address, int64_t bytes, uint8_t held, uint64_t of) {
    note(b, &(event){.address = address, .bytes = bytes, .of = of, .call = -1, .kind = HELD, .held = held});
}

void lmx_blocks_moment(lmx_blocks *b, int64_t ns) { b->moment = ns; }

int64_t lmx_blocks_now(const lmx_blocks *b) { return atomic_load_explicit(&b->n, memory_order_relaxed); }

bool lmx_blocks_lost(const lmx_blocks *b) { return atomic_load(&b->lost); }

bool lmx_blocks_full(const lmx_blocks *b) { return lmx_blocks_now(b) > (int64_t)CHUNK * CHUNKS; }

/* == reading =========================================================================================== */

typedef struct slot {
    uint64_t address; /* 0: free */
    lmx_block *block;
} slot;

/* The live block at each address, at the moment that is read: an open-addressing table. */
typedef struct reader {
    const lmx_clock *clock;
    slot *slots;
    size_t mask, used;
    lmx_block *before, *made; /* the next block from before the capture; of the others */
    int64_t order;
} reader;

static const lmx_whose nobody = {-1, 0, false};

static size_t home_of(const reader *r, uint64_t address) {
    return (size_t)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
           r->mask; /* 2^64 by the golden ratio */
}

/* The slot of an address, or the free one where it would be. */
static slot *find(const reader *r, uint64_t address) {
    size_t i = home_of(r, address);
    while (r->slots[i].address && r->slots[i].address != address) i = (i + 1) & r->mask;
    return &r->slots[i];
}

/* Widens the table so that at most half of its slots are used. */
static bool make_room(reader *r) {
    if (2 * (r->used + 1) <= r->mask + 1) return true;
    reader wider = {.mask = 2 * (r->mask + 1) - 1};
    wider.slots = calloc(wider.mask + 1, sizeof *wider.slots);
    if (!wider.slots) return false;
    for (size_t i = 0; i <= r->mask; i++)
        if (r->slots[i].address) *find(&wider, r->slots[i].address) = r->slots[i];
    free(r->slots);
    r->slots = wider.slots;
    r->mask = wider.mask;
    return true;
}

/* Closes the gap that a slot leaves, so that a search can end at a free slot. */
static void empty(reader *r, slot *at) {
    size_t gap = (size_t)(at - r->slots), i = gap;
    for (;;) {
        i = (i + 1) & r->mask;
        if (!r->slots[i].address) break;
        size_t home = home_of(r, r->slots[i].address);
        if (((i - home) & r->mask) < ((i - gap) & r->mask)) continue; /* its home lies behind the gap */
        r->slots[gap] = r->slots[i];
        gap = i;
    }
    r->slots[gap].address = 0;
    r->used--;
}

static void take_back(reader *r, slot *at, const event *e) {
    lmx_block *block = at->block;
    block->freed_order = ++r->order;
    block->t1_ns = lmx_clock_ns(r->clock, e->stamp);
    block->freed_by = (lmx_whose){e->call, e->phase, e->elsewhere};
    empty(r, at);
}

static bool put(reader *r, uint64_t address, lmx_block *block) {
    if (!make_room(r)) return false;
    *find(r, address) = (slot){address, block};
    r->used++;
    return true;
}

static bool read_added(reader *r, const event *e) {
    slot *known = find(r, e->address);
    if (known->address) take_back(r, known, e);
    lmx_block *block = r->made++;
    *block = (lmx_block){.address = e->address,
                         .bytes = e->bytes,
                         .order = ++r->order,
                         .t0_ns = lmx_clock_ns(r->clock, e->stamp),
                         .by = {e->call, e->phase, e->elsewhere},
                         .freed_by = nobody};
    return put(r, e->address, block);
}

static bool read_held(reader *r, const event *e) {
    lmx_block *block = find(r, e->address)->block;
    if (!find(r, e->address)->address) {
        block = r->before++;
        *block = (lmx_block){.address = e->address, .bytes = e->bytes, .by = nobody, .freed_by = nobody};
        if (!put(r, e->address, block)) return false;
    }
    if (block->held) return true;
    block->held = e->held;
    block->of = e->of;
    return true;
}

static bool read_event(reader *r, const event *e) {
    if (e->kind == ADDED) return read_added(r, e);
    if (e->kind == HELD) return read_held(r, e);
    slot *at = find(r, e->address);
    if (at->address) take_back(r, at, e);
    return true;
}

static const event *event_at(const lmx_blocks *b, size_t i) {
    return atomic_load_explicit(&b->chunks[i / CHUNK], memory_order_relaxed) + i % CHUNK;
}

bool lmx_blocks_read(const lmx_blocks *b, lmx_reading *out) {
    size_t n = lmx_blocks_lost(b) || lmx_blocks_full(b) ? 0 : (size_t)lmx_blocks_now(b), n_held = 0,
           added = 0;
    for (size_t i = 0; i < n; i++) {
        n_held += event_at(b, i)->kind == HELD;
        added += event_at(b, i)->kind == ADDED;
    }
    *out = (lmx_reading){.blocks = malloc((n_held + added + 1) * sizeof *out->blocks),
                         .orders = malloc((n + 1) * sizeof *out->orders)};
    reader r = {.clock = b->clock,
                .slots = calloc(FEW, sizeof *r.slots),
                .mask = FEW - 1,
                .before = out->blocks};
    r.made = out->blocks ? out->blocks + n_held : NULL;
    bool ok = r.slots && out->blocks && out->orders;
    for (size_t i = 0; ok && i < n; i++) {
        out->orders[i] = r.order;
        ok = read_event(&r, event_at(b, i));
    }
    free(r.slots);
    if (!ok) {
        lmx_reading_free(out);
        return false;
    }
    out->orders[n] = r.order;
    size_t n_before = (size_t)(r.before - out->blocks), n_made = (size_t)(r.made - out->blocks) - n_held;
    memmove(r.before, out->blocks + n_held, n_made * sizeof *out->blocks);
    out->n = n_before + n_made;
    return true;
}

void lmx_reading_free(lmx_reading *r) {
    free(r->blocks);
    free(r->orders);
    *r = (lmx_reading){0};
}
