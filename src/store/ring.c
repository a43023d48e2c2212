/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of steps between two threads. Each thread writes one index and only reads the other's. An index is
 * stored with release and loaded with acquire, so that the entries before it are visible. */
#include "store/store.h"

bool lmi_ring_push(lmi_ring *r, lmi_handed *h) {
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint64_t bytes = atomic_load_explicit(&r->bytes, memory_order_relaxed);
    if (head - tail >= LMI_RING || (head != tail && bytes + h->bytes > LMI_RING_BYTES)) return false;
    atomic_fetch_add_explicit(&r->bytes, h->bytes, memory_order_relaxed);
    r->at[head % LMI_RING] = h;
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return true;
}

lmi_handed *lmi_ring_pop(lmi_ring *r) {
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    if (tail == atomic_load_explicit(&r->head, memory_order_acquire)) return NULL;
    lmi_handed *h = r->at[tail % LMI_RING];
    atomic_fetch_sub_explicit(&r->bytes, h->bytes, memory_order_relaxed);
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return h;
}
