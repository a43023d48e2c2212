/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from text, a number or any key to an index: open addressing, linear probing, at most half full.
 * Nothing is ever removed, so a probe ends at the first empty slot. */
#include "base/base.h"

#include <stdlib.h>

void lmi_map_init(lmi_map *m) { *m = (lmi_map){NULL, NULL, 0, 0}; }

void lmi_map_free(lmi_map *m) {
    free(m->slots);
    free(m->texts);
    lmi_map_init(m);
}

void lmi_map_clear(lmi_map *m) {
    if (m->n) memset(m->slots, 0, m->cap * sizeof *m->slots);
    m->n = 0;
}

/* The finaliser of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
 * 2014): every step can be undone, so different numbers have different hashes. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Both halves of the product. Who does not know `secret` can't choose two numbers that give one. */
static uint64_t fold(uint64_t x, uint64_t secret) {
    const lmi_uint128 product = (lmi_uint128)x * secret;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Where a program lies in memory is another place in each process. */
uint64_t lmi_hash(const void *bytes, size_t n) {
    static const char here;
    const uint64_t secret = lmi_hash_u64((uint64_t)(uintptr_t)&here) | 1;
    const char *s = bytes;
    uint64_t h = n ^ secret >> 1, word;
    for (; n >= sizeof word; n -= sizeof word, s += sizeof word) {
        memcpy(&word, s, sizeof word);
        h = fold(h ^ word, secret);
    }
    word = 0;
    if (n) memcpy(&word, s, n);
    return mix(fold(h ^ word, secret));
}

uint64_t lmi_hash_kept(const char *text) {
    const char *s = text;
    size_t n = strlen(text);
    uint64_t h = n, word;
    for (; n >= sizeof word; n -= sizeof word, s += sizeof word) {
        memcpy(&word, s, sizeof word);
        h = lmi_hash_u64(h ^ word);
    }
    word = 0;
    if (n) memcpy(&word, s, n);
    return mix(h ^ word);
}

/* Fills the first free slot for a hash. The map is never full, so this ends. */
static inline void set(lmi_map *m, lmi_map_slot slot, const char *text) {
    size_t i = (size_t)slot.hash & (m->cap - 1);
    while (m->slots[i].value) i = (i + 1) & (m->cap - 1);
    m->slots[i] = slot;
    if (m->texts) m->texts[i] = text;
    m->n++;
}

/* `cap` is a power of two. */
static lam_status grow(lmi_map *m, size_t cap, bool texts, lam_error *e) {
    lmi_map bigger = {.cap = cap};
    bigger.slots = calloc(cap, sizeof *bigger.slots);
    bigger.texts = texts ? malloc(cap * sizeof *bigger.texts) : NULL;
    if (!bigger.slots || (texts && !bigger.texts)) {
        lmi_map_free(&bigger);
        return lmi_nomem(e);
    }
    size_t free_one = 0; /* from here on, so that values with one hash stay in their order */
    while (m->slots && m->slots[free_one].value) free_one++;
    for (size_t k = 0; m->slots && k < m->cap; k++) {
        const size_t i = (free_one + k) & (m->cap - 1);
        if (m->slots[i].value) set(&bigger, m->slots[i], m->texts ? m->texts[i] : NULL);
    }
    free(m->slots);
    free(m->texts);
    m->slots = bigger.slots;
    m->texts = bigger.texts;
    m->cap = cap;
    return LAM_OK;
}

lam_status lmi_map_reserve(lmi_map *m, size_t n, lam_error *e) {
    size_t cap = 16;
    while (cap / 2 < n) cap *= 2;
    return cap > m->cap ? grow(m, cap, m->texts != NULL, e) : LAM_OK;
}

static lam_status add(lmi_map *m, uint64_t hash, const char *text, int64_t value, lam_error *e) {
    if (m->n >= m->cap / 2) LAM_TRY(grow(m, m->cap ? m->cap * 2 : 16, text != NULL, e));
    set(m, (lmi_map_slot){hash, value + 1}, text);
    return LAM_OK;
}

lam_status lmi_map_add(lmi_map *m, uint64_t hash, int64_t value, lam_error *e) {
    return add(m, hash, NULL, value, e);
}

int64_t lmi_map_find(const lmi_map *m, uint64_t hash, const char *text, const char *const *first,
                     size_t size) {
    int64_t i;
    for (size_t at = (size_t)hash; (i = lmi_map_next(m, hash, &at)) >= 0;)
        if (strcmp(*(const char *const *)(const void *)((const char *)first + (size_t)i * size), text) == 0)
            break;
    return i;
}

/* The slot of a key; NULL: there is none. */
static lmi_map_slot *find(const lmi_map *m, uint64_t hash, const char *text) {
    for (size_t at = (size_t)hash; lmi_map_next(m, hash, &at) >= 0;) {
        size_t i = (at - 1) & (m->cap - 1);
        if (!text || strcmp(m->texts[i], text) == 0) return &m->slots[i];
    }
    return NULL;
}

static lam_status put(lmi_map *m, uint64_t hash, const char *text, int64_t value, lam_error *e) {
    lmi_map_slot *s = find(m, hash, text);
    if (!s) return add(m, hash, text, value, e);
    s->value = value + 1;
    return LAM_OK;
}

int64_t lmi_map_get(const lmi_map *m, const char *key) {
    const lmi_map_slot *s = key ? find(m, lmi_hash_text(key), key) : NULL;
    return s ? s->value - 1 : -1;
}

lam_status lmi_map_put(lmi_map *m, const char *key, int64_t value, lam_error *e) {
    if (!key) return lmi_fail(e, LAM_USAGE, NULL, "a map's key is missing; give a text");
    return put(m, lmi_hash_text(key), key, value, e);
}

lam_status lmi_map_put_u64(lmi_map *m, uint64_t key, int64_t value, lam_error *e) {
    return put(m, lmi_hash_u64(key), NULL, value, e);
}

static void *copy_of(const void *from, size_t bytes) {
    void *to = malloc(bytes);
    if (to) memcpy(to, from, bytes);
    return to;
}

lam_status lmi_map_copy(lmi_map *to, const lmi_map *from, lam_error *e) {
    lmi_map copy = *from;
    if (from->slots) copy.slots = copy_of(from->slots, from->cap * sizeof *copy.slots);
    if (from->texts) copy.texts = copy_of(from->texts, from->cap * sizeof *copy.texts);
    if (!copy.slots != !from->slots || !copy.texts != !from->texts) {
        lmi_map_free(&copy);
        return lmi_nomem(e);
    }
    *to = copy;
    return LAM_OK;
}
