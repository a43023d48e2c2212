/* SPDX-License-Identifier: Apache-2.0
 * vec: arrays and maps of src/base, as the extension uses them. */
#ifndef LMX_VEC_H
#define LMX_VEC_H

#include "src/base/base.h"

#include <string.h>

/* Marks functions that run at each call of a watched model. They are placed together, since the model's own
 * work evicts them from the processor's caches. */
#if defined(__GNUC__)
#define LMX_OFTEN __attribute__((hot))
#else
#define LMX_OFTEN
#endif

/* The library's growable array; zeros are an empty one, since each push names the size of an element. New
 * elements are not zeroed. NULL if memory ran out, without an exception. */
static inline void *lmx_vec_push(lmi_vec *v, size_t size, size_t more) {
    v->size = size;
    return lmi_vec_add(v, more);
}
/* Adds a copy of an item; sets *lost if memory ran out. */
static inline void lmx_vec_keep(lmi_vec *v, size_t size, const void *item, bool *lost) {
    void *at = lmx_vec_push(v, size, 1);
    if (at)
        memcpy(at, item, size);
    else
        *lost = true;
}
/* Removes the newest item with `key` at byte `at` and copies it to `out`; the order of the others may change.
 * False: there is none. */
static inline bool lmx_vec_take(lmi_vec *v, size_t size, size_t at, const void *key, void *out) {
    for (size_t i = v->n; i-- > 0;) {
        char *item = (char *)v->data + i * size;
        if (*(const void **)(void *)(item + at) != key) continue;
        memcpy(out, item, size);
        memmove(item, (char *)v->data + --v->n * size, size);
        return true;
    }
    return false;
}

/* The library's map, from an object's address to an index. False if memory ran out, without an exception. */
static inline int32_t lmx_map_get(const lmi_map *m, const void *key) { /* -1: absent */
    return (int32_t)lmi_map_get_u64(m, (uintptr_t)key);
}
static inline bool lmx_map_put(lmi_map *m, const void *key, int32_t value) {
    return lmi_map_put_u64(m, (uintptr_t)key, value, NULL) == LAM_OK;
}

#endif
