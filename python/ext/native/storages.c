/* SPDX-License-Identifier: Apache-2.0
 * Storages, and the origins of their values. An address that is used again gets the same entry. */
#include "native/storages.h"

typedef struct entry {
    lmx_storage trail;
    uint32_t since;
    bool there;
} entry;

static entry *find(const lmx_storages *t, uint64_t storage) {
    int32_t i = storage ? lmx_map_get(&t->at, (const void *)(uintptr_t)storage) : -1;
    entry *e = i < 0 ? NULL : (entry *)t->all.data + i;
    return e && e->there ? e : NULL;
}

static int32_t *alive_at(lmx_storages *t, int32_t origin) {
    while (origin > 0 && t->alive.n <= (size_t)origin) {
        int32_t *to = lmx_vec_push(&t->alive, sizeof *to, 1);
        if (!to) return NULL;
        *to = 0;
    }
    return origin > 0 ? (int32_t *)t->alive.data + origin : NULL;
}

bool lmx_storage_at(const lmx_storages *t, uint64_t storage, lmx_storage *out) {
    const entry *e = find(t, storage);
    if (e) *out = e->trail;
    return e != NULL;
}

bool lmx_storage_since(const lmx_storages *t, uint64_t storage, uint32_t n) {
    const entry *e = find(t, storage);
    return e && e->since > n;
}

static entry *find_or_add(lmx_storages *t, uint64_t storage) {
    const void *key = (const void *)(uintptr_t)storage;
    int32_t i = lmx_map_get(&t->at, key);
    if (i >= 0) return (entry *)t->all.data + i;
    entry *e = lmx_vec_push(&t->all, sizeof *e, 1);
    if (!e) return NULL;
    *e = (entry){.there = false};
    if (lmx_map_put(&t->at, key, (int32_t)t->all.n - 1)) return e;
    t->all.n--;
    return NULL;
}

void lmx_storage_put(lmx_storages *t, uint64_t storage, lmx_storage trail) {
    if (!storage) return;
    entry *e = find_or_add(t, storage);
    if (!e) return;
    int32_t *alive = alive_at(t, trail.origin);
    if (alive && !(e->there && !e->trail.taken && e->trail.origin == trail.origin)) ++*alive;
    *e = (entry){.trail = trail, .since = atomic_fetch_add(&t->n, 1) + 1, .there = true};
}

void lmx_storage_drop(lmx_storages *t, uint64_t storage) {
    entry *e = find(t, storage);
    if (e) e->there = false;
}

void lmx_storage_taken(lmx_storages *t, uint64_t storage) {
    entry *e = find(t, storage);
    if (!e || e->trail.taken) return;
    e->trail.taken = true;
    int32_t *alive = alive_at(t, e->trail.origin);
    if (alive) --*alive;
}

void lmx_storage_end(lmx_storages *t, int32_t origin) {
    int32_t *alive = alive_at(t, origin);
    if (alive) *alive = 0;
}

bool lmx_storage_gone(const lmx_storages *t, int32_t origin) {
    return origin > 0 && (size_t)origin < t->alive.n && ((const int32_t *)t->alive.data)[origin] <= 0;
}

void lmx_storages_free(lmx_storages *t) {
    lmi_map_free(&t->at);
    lmi_vec_free(&t->all);
    lmi_vec_free(&t->alive);
}
