/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's memory in reports: cells, the line under our own table, and JSON. */
#include "report/table/report.h"

static const char *const phases[LAM_N_PHASES] = {"forward", "backward", "recompute"};

static lam_count exactly(int64_t bytes) {
    /* What went is taken off, so it may be less than nothing. */
    return (lam_count){bytes < 0 ? -bytes : bytes, 0, LAM_EXACT};
}

static void put_sized(const lmi_line *l, int64_t bytes, lmi_buf *out) {
    if (bytes < 0) lmi_putc(out, '-');
    if (l->job->o->exact)
        lmi_put_count(out, exactly(bytes), true);
    else
        lmi_put_bytes(out, exactly(bytes));
}

/* NULL: there is nothing to tell of the line. */
static const lam_memory_use *use_of(const lmi_line *l, lam_phase phase) {
    if (!l->job->device_memory || !l->place || l->outside || l->never_called) return NULL;
    const lam_memory_row *row =
        lam_memory_place(l->job->device_memory, (int32_t)(l->place - l->job->m->places));
    return l->own ? &row->own[phase] : &row->total[phase];
}

static void put_use(const lmi_line *l, const lam_memory_use *u, int64_t bytes, lmi_buf *out) {
    if (u)
        put_sized(l, bytes, out);
    else
        lmi_putc(out, '-');
}

void lmi_cell_device_allocated(const lmi_line *l, lmi_buf *out) {
    const lam_memory_use *u = use_of(l, LAM_FORWARD);
    put_use(l, u, u ? u->allocated : 0, out);
}

void lmi_cell_device_retained(const lmi_line *l, lmi_buf *out) {
    const lam_memory_use *u = use_of(l, LAM_FORWARD);
    put_use(l, u, u ? u->retained : 0, out);
}

void lmi_cell_device_peak(const lmi_line *l, lmi_buf *out) {
    const lam_memory_use *u = l->own ? NULL : use_of(l, LAM_FORWARD);
    put_use(l, u, u ? u->peak : 0, out);
}

void lmi_cell_device_bwd_allocated(const lmi_line *l, lmi_buf *out) {
    const lam_memory_use *u = use_of(l, LAM_BACKWARD), *again = use_of(l, LAM_RECOMPUTE);
    put_use(l, u, u ? u->allocated + again->allocated : 0, out);
}

bool lmi_has_backward_device_memory(const lmi_job *j) {
    const lam_memory_row *root = j->device_memory ? lam_memory_place(j->device_memory, 0) : NULL;
    return root && root->total[LAM_BACKWARD].allocated + root->total[LAM_RECOMPUTE].allocated > 0;
}

/* Places that did not do the same are not folded. */
void lmi_device_memory_key(const lmi_job *j, const lmi_line *l, lmi_buf *key) {
    if (!j->device_memory || !j->o->memory || !l->place) return;
    const lam_memory_row *row = lam_memory_place(j->device_memory, (int32_t)(l->place - j->m->places));
    for (int p = 0; p < LAM_N_PHASES; p++)
        lmi_putf(key, "/%lld,%lld,%lld", (long long)row->total[p].allocated,
                 (long long)row->total[p].retained, (long long)row->total[p].peak);
}

static const char *path_at_peak(const lmi_job *j, const lam_memory_totals *t) {
    const lam_event *ev = lam_model_event(j->m, t->peak_call);
    return ev ? lam_model_place(j->m, ev->place)->path : NULL;
}

void lmi_tell_device_memory(lmi_speaker *s) {
    const lmi_job *j = s->j;
    lmi_buf *b = &s->text;
    if (!j->device_memory || !j->o->memory) return;
    const lam_memory_totals *t = lam_memory_total(j->device_memory);
    const char *path = path_at_peak(j, t);
    lmi_put(b, "device memory: peak ");
    lmi_put_bytes(b, exactly(t->peak));
    if (path) {
        lmi_put(b, " in ");
        lmi_put_clean(b, *path ? path : "the model itself");
        lmi_putf(b, " (%s)", phases[t->peak_phase]);
    }
    lmi_tell(s, LMI_BOLD, j->memory ? "" : "memory");
    lmi_put(b, "of that before it ");
    lmi_put_bytes(b, exactly(t->before));
    lmi_tell(s, NULL, NULL);
    lmi_put(b, "allocated in the run ");
    lmi_put_bytes(b, exactly(t->allocated));
    lmi_tell(s, LMI_DIM, NULL);
}

/* -- CSV: a call itself ------------------------------------------------------------------------------------
 */

static const lam_memory_use *call_of(const lmi_line *l, lam_phase phase) {
    if (!l->job->device_memory || !l->event) return NULL;
    const lam_memory_row *row =
        lam_memory_call(l->job->device_memory, (int32_t)(l->event - l->job->m->events));
    return row ? &row->own[phase] : NULL;
}

#define CELL(prefix, phase, what)                                                                            \
    void lmi_cell_##prefix##device_memory_##what(const lmi_line *l, lmi_buf *out) {                          \
        const lam_memory_use *u = call_of(l, phase);                                                         \
        if (u) lmi_putf(out, "%lld", (long long)u->what);                                                    \
    }
#define CELLS(prefix, phase)                                                                                 \
    CELL(prefix, phase, allocated)                                                                           \
    CELL(prefix, phase, freed)                                                                               \
    CELL(prefix, phase, retained)                                                                            \
    CELL(prefix, phase, peak)
CELLS(, LAM_FORWARD)
CELLS(backward_, LAM_BACKWARD)
CELLS(recompute_, LAM_RECOMPUTE)
#undef CELLS
#undef CELL
