/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run did with memory: of the host, and of a device, of which less is known. */
#include "report/tell/tell.h"

#include "analyse/run/memory.h"

static void tell_use(lmi_teller *t, const char *name, const lam_memory_use *use) {
    tell_record(t, name);
    tell_int(t, "allocated", use->allocated);
    tell_int(t, "freed", use->freed);
    tell_int(t, "retained", use->retained);
    tell_int(t, "peak", use->peak);
    tell_end(t);
}

static void tell_uses(lmi_teller *t, const char *name, const lam_memory *y, const lam_memory_use *use) {
    tell_object(t, name);
    for (int p = 0; p < LAM_N_PHASES; p++) {
        if (p == LAM_FORWARD || !y->total.info.forward_only)
            tell_use(t, lam_phase_name((lam_phase)p), &use[p]);
        else
            tell_none(t, lam_phase_name((lam_phase)p));
    }
    tell_end(t);
}

static void tell_row(lmi_teller *t, const lam_memory *y, const lam_memory_row *row) {
    tell_uses(t, "own", y, row->own);
    tell_uses(t, "total", y, row->total);
}

/* What a backward held is among what is not known as anything, where it can't be told. */
static void tell_held(lmi_teller *t, const char *name, const lam_memory *y, const int64_t held[LAM_N_HELD]) {
    tell_object(t, name);
    for (int h = 0; h < LAM_N_HELD; h++) {
        bool told = h != LAM_HELD_BACKWARD || !y->total.info.forward_only;
        if (t->brief ? held[h] != 0 : told) tell_int(t, lam_held_name((lam_held)h), held[h]);
    }
    tell_end(t);
}

static bool holds_any(const int64_t held[LAM_N_HELD]) {
    for (int h = 0; h < LAM_N_HELD; h++)
        if (held[h]) return true;
    return false;
}

static void tell_place(lmi_teller *t, const lam_memory *y, int32_t i) {
    const lam_place *p = &y->m->places[i];
    const int64_t *held = lam_memory_held(y, i);
    if (t->brief && !holds_any(held)) return;
    tell_object(t, NULL);
    tell_text(t, "path", p->path);
    if (!t->brief) {
        tell_text(t, "type", y->m->modules[p->module].type);
        tell_int(t, "calls", p->n_calls);
        tell_row(t, y, lam_memory_place(y, i));
    }
    if (held) tell_held(t, "held", y, held);
    if (held && !t->brief) tell_held(t, "held_below", y, lam_memory_held_below(y, i));
    tell_end(t);
}

/* Of the host alone. */
static void tell_holders(lmi_teller *t, const lam_memory *y) {
    const lam_memory_totals *x = &y->total;
    if (!t->brief) tell_int(t, "old_gradients", x->old_gradients);
    tell_object(t, "rss");
    tell_known(t, "open", x->info.rss_open);
    tell_known(t, "peak", x->info.rss_peak);
    tell_known(t, "close", x->info.rss_close);
    tell_end(t);
    tell_held(t, "held", y, x->held);
    tell_held(t, "unplaced", y, y->unplaced);
}

void lmi_memory_fields(lmi_teller *t, const char *name, const lam_memory *y) {
    const lam_memory_totals *x = &y->total;
    bool host = !y->by_device, guess = x->info.forward_only && x->peak_call < 0;
    tell_object(t, name);
    tell_text(t, "source", x->info.source);
    tell_int(t, "peak", x->peak);
    tell_int(t, "peak_allocated", x->peak_allocated);
    tell_int(t, "allocated", x->allocated);
    tell_int(t, "freed", x->freed);
    tell_int(t, "before", x->before);
    if (host) tell_int(t, "elsewhere", x->elsewhere);
    tell_text(t, "peak_in", lmi_path_of_call(y->m, x->peak_call));
    /* Outside every call it may have been a backward's, where that can't be told. */
    tell_text(t, "peak_phase", guess ? NULL : lam_phase_name((lam_phase)x->peak_phase));
    if (host) tell_holders(t, y);
    if (host || !t->brief) {
        tell_list(t, "places");
        for (int32_t i = 0; i < y->m->n_places; i++) tell_place(t, y, i);
        tell_list_end(t);
    }
    tell_end(t);
}

void lmi_memory_call_fields(lmi_teller *t, const char *name, const lam_memory *y, int32_t call) {
    const lam_memory_row *row = lam_memory_call(y, call);
    if (!row) {
        tell_none(t, name);
        return;
    }
    tell_object(t, name);
    tell_row(t, y, row);
    tell_end(t);
}

void lam_memory_tell(const lam_memory *y, lam_receiver to) {
    lmi_teller t = lmi_tell_to(to);
    lmi_memory_fields(&t, NULL, y);
}
