/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in reports: cells, the lines under our own table, and JSON. */
#include "report/table/quick.h"
#include "report/table/report.h"

static const char *const phases[LAM_N_PHASES] = {"forward", "backward", "recompute"};

static lam_count exactly(int64_t bytes) { return (lam_count){bytes, 0, LAM_EXACT}; }

/* -- our own table: a place, or what it does itself --------------------------------------------------------
 */

static int32_t index_of(const lmi_line *l) { return (int32_t)(l->place - l->job->m->places); }

static bool has_memory(const lmi_line *l) { return l->job->memory && l->place && !l->outside; }

static void put_sized(const lmi_line *l, int64_t bytes, lmi_buf *out) {
    if (l->job->o->exact)
        lmi_put_count(out, exactly(bytes), true);
    else
        lmi_put_bytes(out, exactly(bytes));
}

static const lam_memory_use *use_of(const lmi_line *l, lam_phase phase) {
    const lam_memory_row *row = lam_memory_place(l->job->memory, index_of(l));
    return l->own ? &row->own[phase] : &row->total[phase];
}

void lmi_cell_allocated(const lmi_line *l, lmi_buf *out) {
    if (!has_memory(l) || l->never_called)
        lmi_putc(out, '-');
    else
        put_sized(l, use_of(l, LAM_FORWARD)->allocated, out);
}

void lmi_cell_retained(const lmi_line *l, lmi_buf *out) {
    if (!has_memory(l) || l->never_called)
        lmi_putc(out, '-');
    else
        put_sized(l, use_of(l, LAM_FORWARD)->retained, out);
}

/* No sum: the most above what there was when it began. */
void lmi_cell_peak(const lmi_line *l, lmi_buf *out) {
    if (!has_memory(l) || l->never_called || l->own)
        lmi_putc(out, '-');
    else
        put_sized(l, use_of(l, LAM_FORWARD)->peak, out);
}

/* Backward passes may have run without being told by layer. */
static bool is_known(const lmi_job *j, lam_phase phase) {
    return phase == LAM_FORWARD || !lam_memory_total(j->memory)->info.forward_only;
}

void lmi_cell_bwd_allocated(const lmi_line *l, lmi_buf *out) {
    if (!has_memory(l) || l->never_called)
        lmi_putc(out, '-');
    else
        put_sized(l, use_of(l, LAM_BACKWARD)->allocated + use_of(l, LAM_RECOMPUTE)->allocated, out);
}

void lmi_cell_at_peak(const lmi_line *l, lmi_buf *out) {
    int64_t sum = 0;
    if (!has_memory(l)) {
        lmi_putc(out, '-');
        return;
    }
    const int64_t *held = l->own ? lam_memory_held(l->job->memory, index_of(l))
                                 : lam_memory_held_below(l->job->memory, index_of(l));
    for (int h = 0; h < LAM_N_HELD; h++) sum += held[h];
    put_sized(l, sum, out);
}

/* Places that did not do the same are not folded. */
void lmi_memory_key(const lmi_job *j, const lmi_line *l, lmi_buf *key) {
    if (!j->memory || !j->o->memory || !l->place) return;
    int32_t place = (int32_t)(l->place - j->m->places);
    const lam_memory_row *row = lam_memory_place(j->memory, place);
    const int64_t *held = lam_memory_held_below(j->memory, place);
    for (int p = 0; p < LAM_N_PHASES; p++) {
        const lam_memory_use *u = &row->total[p];
        lmi_putf(key, "/%lld,%lld,%lld", (long long)u->allocated, (long long)u->retained, (long long)u->peak);
    }
    for (int h = 0; h < LAM_N_HELD; h++) lmi_putf(key, ",%lld", (long long)held[h]);
}

bool lmi_has_backward_memory(const lmi_job *j) {
    const lam_memory_row *root = j->memory ? lam_memory_place(j->memory, 0) : NULL;
    return root && is_known(j, LAM_BACKWARD) &&
           root->total[LAM_BACKWARD].allocated + root->total[LAM_RECOMPUTE].allocated > 0;
}

/* -- the lines under it ------------------------------------------------------------------------------------
 */

void lmi_tell_memory(lmi_speaker *s) {
    const lmi_job *j = s->j;
    lmi_buf *b = &s->text;
    if (!j->memory || !j->o->memory) return;
    const lam_memory_totals *t = lam_memory_total(j->memory);
    const lam_event *ev = lam_model_event(j->m, t->peak_call);
    lmi_put(b, "peak ");
    lmi_put_bytes(b, exactly(t->peak));
    if (ev) {
        const char *path = lam_model_place(j->m, ev->place)->path;
        lmi_put(b, " in ");
        lmi_put_clean(b, *path ? path : "the model itself");
        lmi_putf(b, " (%s)", phases[t->peak_phase]);
    }
    lmi_tell(s, LMI_BOLD, "memory");
    for (int i = 1; i <= LAM_N_HELD; i++) {
        int h = i % LAM_N_HELD; /* what is not known as anything comes last */
        if (!t->held[h]) continue;
        lmi_putf(b, "%s ", lam_held_name((lam_held)h));
        lmi_put_bytes(b, exactly(t->held[h]));
        lmi_tell(s, NULL, NULL);
    }
    lmi_put(b, "allocated in the run ");
    lmi_put_bytes(b, exactly(t->allocated));
    lmi_put(b, ", at most ");
    lmi_put_bytes(b, exactly(t->peak_allocated));
    lmi_put(b, " at a time");
    lmi_tell(s, LMI_DIM, "");
}

/* -- CSV: a call itself ------------------------------------------------------------------------------------
 */

/* NULL: not known, or nothing was called. */
static const lam_memory_use *call_of(const lmi_line *l, lam_phase phase) {
    if (!l->job->memory || !l->event || !is_known(l->job, phase)) return NULL;
    const lam_memory_row *row = lam_memory_call(l->job->memory, (int32_t)(l->event - l->job->m->events));
    return row ? &row->own[phase] : NULL;
}

#define CELLS(prefix, phase)                                                                                 \
    void lmi_cell_##prefix##memory_allocated(const lmi_line *l, lmi_buf *out) {                              \
        const lam_memory_use *u = call_of(l, phase);                                                         \
        if (u) lmi_putf(out, "%lld", (long long)u->allocated);                                               \
    }                                                                                                        \
    void lmi_cell_##prefix##memory_freed(const lmi_line *l, lmi_buf *out) {                                  \
        const lam_memory_use *u = call_of(l, phase);                                                         \
        if (u) lmi_putf(out, "%lld", (long long)u->freed);                                                   \
    }                                                                                                        \
    void lmi_cell_##prefix##memory_retained(const lmi_line *l, lmi_buf *out) {                               \
        const lam_memory_use *u = call_of(l, phase);                                                         \
        if (u) lmi_putf(out, "%lld", (long long)u->retained);                                                \
    }                                                                                                        \
    void lmi_cell_##prefix##memory_peak(const lmi_line *l, lmi_buf *out) {                                   \
        const lam_memory_use *u = call_of(l, phase);                                                         \
        if (u) lmi_putf(out, "%lld", (long long)u->peak);                                                    \
    }
CELLS(, LAM_FORWARD)
CELLS(backward_, LAM_BACKWARD)
CELLS(recompute_, LAM_RECOMPUTE)
#undef CELLS
