/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by place. Memory of a place that is not shown is added to the place above it. */
#include "report/outline/work.h"

static void add_use(lmi_filling *w, int32_t place, int32_t i) {
    const lam_memory *y = w->o->use;
    const lam_memory_row *row = lam_memory_place(y, place);
    const int64_t *held = lam_memory_held(y, place);
    int64_t sum = 0;
    if (row) {
        lmi_add_own(w, LMI_OWN_ALLOCATED, i, lmi_exact(row->own[LAM_FORWARD].allocated));
        lmi_add_own(w, LMI_OWN_RETAINED, i, lmi_exact(row->own[LAM_FORWARD].retained));
        if (w->place[i] == place) lmi_add_own(w, LMI_OWN_PEAK, i, lmi_exact(row->total[LAM_FORWARD].peak));
    }
    for (int h = 0; held && h < LAM_N_HELD; h++) {
        w->held[i][h] = lmi_add_capped(w->held[i][h], held[h]);
        sum = lmi_add_capped(sum, held[h]);
    }
    lmi_add_own(w, LMI_OWN_HELD, i, lmi_exact(sum));
}

lam_status lmi_take_held(lmi_filling *w) {
    w->held = lmi_alloc(&w->scratch, (uint64_t)w->n, sizeof *w->held);
    if (!w->held) return lmi_nomem(w->e);
    w->o->memory = lam_memory_total(w->o->use);
    for (int32_t place = 0; place < w->m->n_places; place++)
        add_use(w, place, lmi_place_for(w->of_place, place));
    return LAM_OK;
}
