/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from text or from a number to an index: open addressing, linear probing, at most half full.
 * Nothing is ever removed, so a probe ends at the first empty slot. */
#include "base/base.h"

#include <stdlib.h>

typedef struct lmi_slot_ {
    uint64_t hash;
    const char *text; /* NULL: the key is a number, which `hash`, a bijection, identifies */
    int64_t value;
    bool used;
} slot;

void lmi_map_init(lmi_map *m) { *m = (lmi_map){NULL, 0, 0}; }

void lmi_map_free(lmi_map *m) {
    free(m->slots);
    lmi_map_init(m);
}

/* The finaliser of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
 * 2014): every step can be undone, so different numbers have different hashes. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t lmi_hash(const void *bytes, size_t n) {
    const char *s = bytes;
    uint64_t h = n, word;
    for (; n >= sizeof word; n -= sizeof word, s += sizeof word) {
        memcpy(&word, s, sizeof word);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
        h ^= h >> 32;
    }
    word = 0;
    if (n) memcpy(&word, s, n);
    return mix(h ^ word);
}

static uint64_t hash_text(const char *s) { return lmi_hash(s, strlen(s)); }

/* The slot of the key, or the empty slot for it. The map is never full, so this ends. */
static slot *probe(const lmi_map *m, uint64_t hash, const char *text) {
    size_t i = (size_t)hash & (m->cap - 1);
    for (;; i = (i + 1) & (m->cap - 1)) {
        slot *s = &m->slots[i];
        if (!s->used) return s;
        if (s->hash != hash || !s->text != !text) continue;
        if (!text || strcmp(s->text, text) == 0) return s;
    }
}

/* `cap` is a power of two. */
static lam_status grow(lmi_map *m, size_t cap, lam_error *e) {
    lmi_map bigger = {NULL, m->n, cap};
    bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots) return lmi_nomem(e);
    for (size_t i = 0; i < m->cap; i++) {
        const slot *s = &m->slots[i];
        if (s->used) *probe(&bigger, s->hash, s->text) = *s;
    }
    free(m->slots);
    *m = bigger;
    return LAM_OK;
}

static lam_status put(lmi_map *m, uint64_t hash, const char *text, int64_t value, lam_error *e) {
    if (m->n >= m->cap / 2) LAM_TRY(grow(m, m->cap ? m->cap * 2 : 16, e));
    slot *s = probe(m, hash, text);
    if (!s->used) {
        *s = (slot){hash, text, 0, true};
        m->n++;
    }
    s->value = value;
    return LAM_OK;
}

static int64_t get(const lmi_map *m, uint64_t hash, const char *text) {
    if (m->cap == 0) return -1;
    const slot *s = probe(m, hash, text);
    return s->used ? s->value : -1;
}

int64_t lmi_map_get(const lmi_map *m, const char *key) { return key ? get(m, hash_text(key), key) : -1; }

lam_status lmi_map_put(lmi_map *m, const char *key, int64_t value, lam_error *e) {
    if (!key) return lmi_fail(e, LAM_USAGE, NULL, "a map's key is missing; give a text");
    return put(m, hash_text(key), key, value, e);
}

int64_t lmi_map_get_u64(const lmi_map *m, uint64_t key) { return get(m, mix(key), NULL); }

lam_status lmi_map_put_u64(lmi_map *m, uint64_t key, int64_t value, lam_error *e) {
    return put(m, mix(key), NULL, value, e);
}

lam_status lmi_map_copy(lmi_map *to, const lmi_map *from, lam_error *e) {
    lmi_map copy = *from;
    copy.slots = from->cap ? calloc(from->cap, sizeof *copy.slots) : NULL;
    if (from->cap && !copy.slots) return lmi_nomem(e);
    if (from->cap) memcpy(copy.slots, from->slots, from->cap * sizeof *copy.slots);
    *to = copy;
    return LAM_OK;
}
