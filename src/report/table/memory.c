/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the host and of a device in reports: cells, and the lines below lamina's table. */
#include "analyse/run/memory.h"
#include "report/table/report.h"

/* What a device retained is an increase, which may be negative. */
static lam_count exactly(int64_t bytes) { return (lam_count){bytes < 0 ? -bytes : bytes, 0, LAM_EXACT}; }

/* -- lamina's table: a place, or its own work ------------------------------------------------------------ */

static int32_t index_of(const lmi_line *l) { return (int32_t)(l->place - l->job->m->places); }

static void put_sized(const lmi_line *l, int64_t bytes, lmi_buf *out) {
    if (bytes < 0) lmi_putc(out, '-');
    if (l->job->o->exact)
        lmi_put_count(out, exactly(bytes), true);
    else
        lmi_put_bytes(out, exactly(bytes));
}

/* Writes a dash if the line has nothing to show. A peak is not a sum: it is the most above what there was at
 * its beginning. */
void lmi_put_use(const lmi_line *l, const lam_memory *y, lam_phase phase, size_t at, lmi_buf *out) {
    bool none = l->own && at == offsetof(lam_memory_use, peak);
    if (!y || !l->place || l->outside || l->never_called || none) {
        lmi_putc(out, '-');
        return;
    }
    const lam_memory_row *row = lam_memory_place(y, index_of(l));
    const lam_memory_use *use = l->own ? row->own : row->total;
    int64_t bytes = *(const int64_t *)((const char *)&use[phase] + at);
    if (phase == LAM_BACKWARD) bytes += *(const int64_t *)((const char *)&use[LAM_RECOMPUTE] + at);
    put_sized(l, bytes, out);
}

void lmi_cell_at_peak(const lmi_line *l, lmi_buf *out) {
    const lam_memory *y = l->place && !l->outside ? l->job->memory : NULL;
    int64_t sum = 0;
    if (!y) {
        lmi_putc(out, '-');
        return;
    }
    const int64_t *held = l->own ? lam_memory_held(y, index_of(l)) : lam_memory_held_below(y, index_of(l));
    for (int h = 0; h < LAM_N_HELD; h++) sum += held[h];
    put_sized(l, sum, out);
}

static bool has_own(const lam_memory *y, int32_t place) {
    const lam_memory_row *row = y ? lam_memory_place(y, place) : NULL;
    const int64_t *held = y ? lam_memory_held(y, place) : NULL;
    for (int p = 0; row && p < LAM_N_PHASES; p++)
        if (row->own[p].allocated || row->own[p].retained) return true;
    for (int h = 0; held && h < LAM_N_HELD; h++)
        if (held[h]) return true;
    return false;
}

bool lmi_has_own_memory(const lmi_line *l) {
    const lmi_job *j = l->job;
    return j->o->memory && l->place &&
           (has_own(j->memory, index_of(l)) || has_own(j->device_memory, index_of(l)));
}

bool lmi_has_backward_memory(const lam_memory *y) {
    const lam_memory_row *root = y ? lam_memory_place(y, 0) : NULL;
    return root && lmi_memory_tells(y, LAM_BACKWARD) &&
           root->total[LAM_BACKWARD].allocated + root->total[LAM_RECOMPUTE].allocated > 0;
}

/* -- the lines below it ---------------------------------------------------------------------------------- */

static void tell_peak(lmi_items *s, const lam_memory *y, const char *whose, const char *label) {
    const lam_memory_totals *t = lam_memory_total(y);
    const lam_event *ev = lam_model_event(s->j->m, t->peak_call);
    lmi_putf(&s->text, "%speak ", whose);
    lmi_put_bytes(&s->text, exactly(t->peak));
    if (ev) {
        const char *path = lam_model_place(s->j->m, ev->place)->path;
        lmi_put(&s->text, " in ");
        lmi_put_clean(&s->text, *path ? path : "the model itself");
        lmi_putf(&s->text, " (%s)", lam_phase_name((lam_phase)t->peak_phase));
    }
    lmi_items_send(s, LMI_BOLD, label);
}

static void tell_bytes(lmi_items *s, const char *what, int64_t bytes) {
    lmi_putf(&s->text, "%s ", what);
    lmi_put_bytes(&s->text, exactly(bytes));
}

static void tell_host(lmi_items *s, const lam_memory *y) {
    const lam_memory_totals *t = lam_memory_total(y);
    tell_peak(s, y, "", "memory");
    for (int i = 1; i <= LAM_N_HELD; i++) {
        int h = i % LAM_N_HELD; /* the category of unknown contents comes last */
        if (!t->held[h]) continue;
        tell_bytes(s, lam_held_name((lam_held)h), t->held[h]);
        lmi_items_send(s, NULL, NULL);
    }
    tell_bytes(s, "allocated in the run", t->allocated);
    tell_bytes(s, ", at most", t->peak_allocated);
    lmi_put(&s->text, " at a time");
    lmi_items_send(s, LMI_DIM, "");
}

static void tell_device(lmi_items *s, const lam_memory *y, const char *label) {
    tell_peak(s, y, "device memory: ", label);
    tell_bytes(s, "of that before it", lam_memory_total(y)->before);
    lmi_items_send(s, NULL, NULL);
    tell_bytes(s, "allocated in the run", lam_memory_total(y)->allocated);
    lmi_items_send(s, LMI_DIM, NULL);
}

void lmi_tell_memory(lmi_items *s) {
    const lmi_job *j = s->j;
    if (!j->o->memory) return;
    if (j->memory) tell_host(s, j->memory);
    if (j->device_memory) tell_device(s, j->device_memory, j->memory ? "" : "memory");
}
