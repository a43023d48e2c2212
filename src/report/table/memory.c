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

/* -- JSON --------------------------------------------------------------------------------------------------
 */

QUICK void put_bytes(lmi_buf *b, const char *name, int64_t bytes, const char *end) {
    quick_name(b, name);
    quick_int(b, bytes);
    quick_put(b, end, strlen(end));
}

static void put_use(const lmi_job *j, lmi_buf *b, const lam_memory_use use[LAM_N_PHASES]) {
    for (int p = 0; p < LAM_N_PHASES; p++) {
        if (p) PUT(b, ", ");
        quick_name(b, phases[p]);
        if (!is_known(j, (lam_phase)p)) {
            PUT(b, "null");
            continue;
        }
        PUT(b, "{");
        put_bytes(b, "allocated", use[p].allocated, ", ");
        put_bytes(b, "freed", use[p].freed, ", ");
        put_bytes(b, "retained", use[p].retained, ", ");
        put_bytes(b, "peak", use[p].peak, "}");
    }
}

void lmi_memory_json_row(const lmi_job *j, lmi_buf *b, int32_t event) {
    if (!j->memory) return;
    const lam_memory_row *row = lam_memory_call(j->memory, event);
    if (!row) {
        PUT(b, "\"memory\": null, ");
        return;
    }
    PUT(b, "\"memory\": {\"own\": {");
    put_use(j, b, row->own);
    PUT(b, "}, \"total\": {");
    put_use(j, b, row->total);
    PUT(b, "}}, ");
}

static bool put_held(lmi_buf *b, const int64_t held[LAM_N_HELD]) {
    bool any = false;
    lmi_putc(b, '{');
    for (int h = 0; h < LAM_N_HELD; h++) {
        if (!held[h]) continue;
        if (any) PUT(b, ", ");
        put_bytes(b, lam_held_name((lam_held)h), held[h], "");
        any = true;
    }
    lmi_putc(b, '}');
    return any;
}

static void put_known(lmi_buf *b, const char *name, int64_t bytes) {
    if (bytes < 0)
        lmi_putf(b, "\"%s\": null", name);
    else
        lmi_putf(b, "\"%s\": %lld", name, (long long)bytes);
}

static void put_holders(const lmi_job *j, lmi_buf *b) {
    bool any = false;
    lmi_put(b, "\"places\": [");
    for (int32_t i = 0; i < j->m->n_places; i++) {
        const int64_t *held = lam_memory_held(j->memory, i);
        int64_t sum = 0;
        for (int h = 0; h < LAM_N_HELD; h++) sum += held[h];
        if (!sum) continue;
        lmi_put(b, any ? ", {\"path\": " : "{\"path\": ");
        lmi_put_json(b, lam_model_place(j->m, i)->path);
        lmi_put(b, ", \"held\": ");
        put_held(b, held);
        lmi_putc(b, '}');
        any = true;
    }
    lmi_put(b, "]");
}

void lmi_memory_json(const lmi_job *j, lmi_buf *b) {
    if (!j->memory) return;
    const lam_memory_totals *t = lam_memory_total(j->memory);
    const lam_event *ev = lam_model_event(j->m, t->peak_call);
    lmi_put(b, "\"memory\": {\"source\": ");
    lmi_put_json(b, t->info.source);
    lmi_putf(b, ", \"peak\": %lld, \"peak_allocated\": %lld, \"allocated\": %lld, \"freed\": %lld, ",
             (long long)t->peak, (long long)t->peak_allocated, (long long)t->allocated, (long long)t->freed);
    lmi_putf(b, "\"before\": %lld, \"elsewhere\": %lld, \"peak_in\": ", (long long)t->before,
             (long long)t->elsewhere);
    lmi_put_json(b, ev ? lam_model_place(j->m, ev->place)->path : NULL);
    lmi_put(b, ", \"peak_phase\": ");
    lmi_put_json(b, t->info.forward_only && t->peak_call < 0 ? NULL : phases[t->peak_phase]);
    lmi_put(b, ", \"rss\": {");
    put_known(b, "open", t->info.rss_open);
    lmi_put(b, ", ");
    put_known(b, "peak", t->info.rss_peak);
    lmi_put(b, ", ");
    put_known(b, "close", t->info.rss_close);
    lmi_put(b, "}, \"held\": ");
    put_held(b, t->held);
    lmi_put(b, ", \"unplaced\": ");
    put_held(b, lam_memory_unplaced(j->memory));
    lmi_put(b, ", ");
    put_holders(j, b);
    lmi_put(b, "},\n");
}
