/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of memory in which steps are handed over. A thread takes one by exchanging its pointer for NULL and
 * returns it by storing it where NULL is, so each piece belongs to one thread at a time and none waits. */
#include "store/store.h"

#include <stdlib.h>

static lmi_handed *take_spare(lmi_spares *s, size_t room) {
    for (int i = 0; i < LMI_SPARES; i++) {
        if (!atomic_load_explicit(&s->at[i], memory_order_relaxed)) continue;
        lmi_handed *h = atomic_exchange_explicit(&s->at[i], NULL, memory_order_acquire);
        if (h && h->room >= room) return h;
        free(h); /* too small; the piece of this step will replace it */
    }
    return NULL;
}

static size_t aligned(size_t n) {
    const size_t to = _Alignof(max_align_t);
    return (n + to - 1) / to * to;
}

lmi_handed *lmi_handed_new(lmi_spares *s, const lam_step_info *info, size_t bytes, void **more) {
    const char *name = info->name ? info->name : "model";
    const size_t length = strlen(name) + 1, spans = (size_t)info->n_spans * sizeof *info->spans;
    const size_t first = aligned(sizeof(lmi_handed) + length), work = aligned(first + spans),
                 at = work + (info->work ? aligned(sizeof *info->work) : 0), room = at + bytes;
    lmi_handed *h = take_spare(s, room);
    const size_t has = h ? h->room : room;
    if (!h && !(h = malloc(room))) return NULL;
    *h = (lmi_handed){.info = *info, .room = has};
    h->info.name = memcpy(h->name, name, length);
    h->info.spans = spans ? memcpy((char *)h + first, info->spans, spans) : NULL;
    h->info.work = info->work ? memcpy((char *)h + work, info->work, sizeof *info->work) : NULL;
    *more = (char *)h + at;
    return h;
}

void lmi_handed_give_back(lmi_spares *s, lmi_handed *h) {
    for (int i = 0; h && h->room <= LMI_SPARE_BYTES && i < LMI_SPARES; i++) {
        lmi_handed *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&s->at[i], &none, h, memory_order_release,
                                                    memory_order_relaxed))
            return;
    }
    free(h);
}

void lmi_spares_free(lmi_spares *s) {
    for (int i = 0; i < LMI_SPARES; i++) free(atomic_exchange(&s->at[i], NULL));
}
