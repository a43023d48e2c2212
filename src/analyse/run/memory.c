/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's use of memory per call and place, and the composition of its peak, all from the order of
 * allocations and frees. */
#include "analyse/run/memory.h"
#include "analyse/tree/tree.h"

#include <stdlib.h>

const char *lam_held_name(lam_held held) {
    static const char *const names[LAM_N_HELD] = {"other",       "parameters", "buffers",
                                                  "gradients",   "optimizer",  "input",
                                                  "activations", "backward",   "workspace"};
    return (unsigned)held < LAM_N_HELD ? names[held] : NULL;
}

/* memory over time */

static const lam_block *blocks_of(const lam_memory *y, int32_t *n) {
    *n = lam_model_n_blocks(y->m);
    return *n ? y->m->memory->blocks.data : NULL;
}

/* Every order is of a block, so there are at most two per block. */
static lam_status count_orders(lam_memory *y, lam_error *e) {
    int32_t n;
    const lam_block *blocks = blocks_of(y, &n);
    for (int32_t i = 0; i < n; i++) {
        if (blocks[i].order > y->n) y->n = blocks[i].order;
        if (blocks[i].freed_order > y->n) y->n = blocks[i].freed_order;
    }
    if (y->n > 2 * (int64_t)n)
        return lmi_fail(e, LAM_RANGE, "memory",
                        "%d blocks can't come and go in %lld steps; the capture is damaged", (int)n,
                        (long long)y->n);
    return LAM_OK;
}

bool lmi_memory_allocate(lam_memory *y) {
    uint64_t orders = (uint64_t)y->n + 1, events = (uint64_t)y->m->n_events,
             places = (uint64_t)y->m->n_places;
    y->n_chunks = (y->n + LMI_MEMORY_CHUNK) / LMI_MEMORY_CHUNK;
    y->live = lmi_alloc(&y->arena, orders, sizeof *y->live);
    y->when = lmi_alloc(&y->arena, orders, sizeof *y->when);
    y->greatest = lmi_alloc(&y->arena, 2 * (uint64_t)y->n_chunks, sizeof *y->greatest);
    y->last = lmi_alloc(&y->arena, events, sizeof *y->last);
    y->calls = lmi_alloc(&y->arena, events, sizeof *y->calls);
    y->places = lmi_alloc(&y->arena, places, sizeof *y->places);
    if (!y->live || !y->when || !y->greatest || !y->last || !y->calls || !y->places) return false;
    if (y->by_device) return true;
    y->held = lmi_alloc(&y->arena, places, sizeof *y->held);
    y->below = lmi_alloc(&y->arena, places, sizeof *y->below);
    return y->held && y->below;
}

/* The change at each order, in `live`, and in `fresh` without memory from before the run. */
static void put_changes(lam_memory *y, int64_t *fresh) {
    int32_t n;
    const lam_block *blocks = blocks_of(y, &n);
    for (int32_t i = 0; i < n; i++) {
        const lam_block *k = &blocks[i];
        y->when[k->order] = k->t0_ns;
        y->when[k->freed_order] = k->t1_ns;
        if (k->flags & LAM_BLOCK_ELSEWHERE) {
            y->total.elsewhere += k->bytes;
            continue;
        }
        y->live[k->order] += k->bytes;
        if (k->freed_order) y->live[k->freed_order] -= k->bytes;
        if (!k->order) {
            y->total.before += k->bytes;
            continue;
        }
        y->total.allocated += k->bytes;
        fresh[k->order] += k->bytes;
        if (!k->freed_order) continue;
        y->total.freed += k->bytes;
        fresh[k->freed_order] -= k->bytes;
    }
    y->when[0] = 0;
}

static void sum_up(lam_memory *y, int64_t *fresh) {
    for (int64_t i = 1; i <= y->n; i++) {
        y->live[i] += y->live[i - 1];
        fresh[i] += fresh[i - 1];
    }
    for (int64_t i = 0; i <= y->n; i++) {
        if (fresh[i] > y->total.peak_allocated) y->total.peak_allocated = fresh[i];
        if (y->live[i] > y->live[y->total.peak_order]) y->total.peak_order = i;
    }
    y->total.peak = y->live[y->total.peak_order];
    y->total.peak_ns = y->when[y->total.peak_order];
}

static lam_status follow(lam_memory *y, lam_error *e) {
    int64_t *fresh = calloc((size_t)y->n + 1, sizeof *fresh);
    if (!fresh) return lmi_nomem(e);
    put_changes(y, fresh);
    sum_up(y, fresh);
    free(fresh);
    return LAM_OK;
}

/* maxima of spans */

static int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t scan(const lam_memory *y, int64_t from, int64_t to) {
    int64_t most = y->live[from];
    for (int64_t i = from + 1; i <= to; i++) most = max_of(most, y->live[i]);
    return most;
}

void lmi_memory_index(lam_memory *y) {
    for (int64_t i = 0; i < y->n_chunks; i++) {
        int64_t end = (i + 1) * LMI_MEMORY_CHUNK - 1;
        y->greatest[y->n_chunks + i] = scan(y, i * LMI_MEMORY_CHUNK, end < y->n ? end : y->n);
    }
    for (int64_t i = y->n_chunks - 1; i > 0; i--)
        y->greatest[i] = max_of(y->greatest[2 * i], y->greatest[2 * i + 1]);
}

int64_t lmi_memory_greatest(const lam_memory *y, int64_t from, int64_t to) {
    int64_t a = from / LMI_MEMORY_CHUNK + 1, b = to / LMI_MEMORY_CHUNK;
    if (a > b) return scan(y, from, to);
    int64_t most = max_of(scan(y, from, a * LMI_MEMORY_CHUNK - 1), scan(y, b * LMI_MEMORY_CHUNK, to));
    for (a += y->n_chunks, b += y->n_chunks; a < b; a /= 2, b /= 2) {
        if (a % 2) most = max_of(most, y->greatest[a++]);
        if (b % 2) most = max_of(most, y->greatest[--b]);
    }
    return most;
}

/* -- calls ----------------------------------------------------------------------------------------------- */

static void read_spans(lam_memory *y) {
    const lmi_vec *spans = &y->m->memory->spans;
    for (int32_t i = 0; i < y->m->n_events; i++) y->last[i] = y->n;
    for (size_t i = 0; i < spans->n; i++) {
        const lam_span *s = lmi_vec_at(spans, i);
        int64_t last = s->last < y->n ? s->last : y->n, first = s->first < last ? s->first : last;
        if (s->call < 0) continue;
        lam_memory_use *use = &y->calls[s->call].own[s->phase];
        use->peak = max_of(use->peak, lmi_memory_greatest(y, first, last) - y->live[first]);
        if (s->phase != LAM_BACKWARD) y->last[s->call] = last;
    }
}

static bool outlives(const lam_memory *y, const lam_block *k, int32_t call) {
    return !k->freed_order || k->freed_order > y->last[call];
}

/* A block that is live when a call returns was live when the inner calls did. */
static void use_block(lam_memory *y, const lam_block *k) {
    lam_memory_use *own = &y->calls[k->call].own[k->phase];
    bool back = k->phase == LAM_BACKWARD;
    own->allocated += k->bytes;
    own->freed += k->freed_order ? k->bytes : 0;
    if (back ? !k->freed_order : outlives(y, k, k->call)) own->retained += k->bytes;
    for (int32_t i = k->call; !back && i >= 0 && outlives(y, k, i); i = y->m->events[i].parent)
        y->calls[i].total[k->phase].retained += k->bytes;
}

static void measure_calls(lam_memory *y) {
    int32_t n;
    const lam_block *blocks = blocks_of(y, &n);
    read_spans(y);
    for (int32_t i = 0; i < n; i++)
        if (blocks[i].order && blocks[i].call >= 0 && !(blocks[i].flags & LAM_BLOCK_ELSEWHERE))
            use_block(y, &blocks[i]);
}

static void add_use(lam_memory_use *to, const lam_memory_use *use, bool retained, bool peak) {
    to->allocated += use->allocated;
    to->freed += use->freed;
    if (retained) to->retained += use->retained;
    if (peak) to->peak = max_of(to->peak, use->peak);
}

/* Parents have smaller indices than the calls that they make. The parent's own peak includes that of a call,
 * unless the parent had returned: in a repeated call and in a backward. So does the memory that use_block
 * found to be retained; an allocator's statistics are of the innermost call alone. */
lam_status lmi_memory_sum_up(lam_memory *y, lam_error *e) {
    const int32_t *callers = lmi_callers(&y->arena, y->m);
    if (!callers) return lmi_nomem(e);
    for (int32_t i = y->m->n_events - 1; i >= 0; i--) {
        int32_t parent = callers[i];
        lam_memory_row *row = &y->calls[i];
        for (int p = 0; p < LAM_N_PHASES; p++) {
            bool apart = parent != y->m->events[i].parent || p != (int)lmi_call_phase(&y->m->events[i]);
            add_use(&row->total[p], &row->own[p], y->by_device || p == LAM_BACKWARD, true);
            if (parent >= 0)
                add_use(&y->calls[parent].total[p], &row->total[p], y->by_device || apart, apart);
        }
    }
    return LAM_OK;
}

/* -- places ---------------------------------------------------------------------------------------------- */

void lmi_memory_places(lam_memory *y) {
    y->back = lmi_went_back(y->m);
    for (int32_t i = 0; i < y->m->n_events; i++) {
        for (int p = LAM_BACKWARD; p < LAM_N_PHASES; p++)
            y->back = y->back || y->calls[i].own[p].allocated || y->calls[i].own[p].freed;
        int32_t place = y->m->events[i].place;
        if (place < 0) continue;
        bool inside = lmi_inside_itself(y->m, &y->m->events[i]);
        for (int p = 0; p < LAM_N_PHASES; p++) {
            add_use(&y->places[place].own[p], &y->calls[i].own[p], true, true);
            if (!inside) add_use(&y->places[place].total[p], &y->calls[i].total[p], true, true);
        }
    }
}

/* -- the peak -------------------------------------------------------------------------------------------- */

lam_held lmi_memory_held_as(const lam_memory *y, const lam_block *k) {
    if (k->held != LAM_HELD_OTHER) return (lam_held)k->held;
    if (k->phase == LAM_BACKWARD) return LAM_HELD_BACKWARD;
    if (k->call < 0) return LAM_HELD_OTHER;
    return outlives(y, k, k->call) ? LAM_HELD_ACTIVATION : LAM_HELD_WORKSPACE;
}

/* The place of a block; -1: none. */
static int32_t place_of(const lam_model *m, const lam_block *k) {
    int32_t owner = k->tensor >= 0 ? m->tensors[k->tensor].owner : -1;
    if (owner >= 0 && m->modules[owner].n_places) return m->modules[owner].places[0];
    return k->call >= 0 ? m->events[k->call].place : -1;
}

static void take_apart(lam_memory *y) {
    int32_t n;
    const lam_block *blocks = blocks_of(y, &n);
    int64_t at = y->total.peak_order;
    y->total.peak_call = -1;
    for (int32_t i = 0; i < n; i++) {
        const lam_block *k = &blocks[i];
        if (at && k->order == at) {
            y->total.peak_call = k->call;
            y->total.peak_phase = k->phase;
        }
        if (k->order > at || (k->freed_order && k->freed_order <= at)) continue;
        if (k->flags & LAM_BLOCK_ELSEWHERE) continue;
        lam_held held = lmi_memory_held_as(y, k);
        int32_t place = place_of(y->m, k);
        y->total.held[held] += k->bytes;
        if (held == LAM_HELD_GRADIENT && !k->order) y->total.old_gradients += k->bytes;
        if (place >= 0)
            y->held[place][held] += k->bytes;
        else
            y->unplaced[held] += k->bytes;
    }
    for (int32_t i = y->m->n_places - 1; i >= 0; i--) {
        int32_t parent = y->m->places[i].parent;
        for (int h = 0; h < LAM_N_HELD; h++) {
            y->below[i][h] += y->held[i][h];
            if (parent >= 0) y->below[parent][h] += y->below[i][h];
        }
    }
}

/* the public functions */

static lam_status fill(lam_memory *y, lam_error *e) {
    LAM_TRY(count_orders(y, e));
    if (!lmi_memory_allocate(y)) return lmi_nomem(e);
    LAM_TRY(follow(y, e));
    lmi_memory_index(y);
    measure_calls(y);
    LAM_TRY(lmi_memory_sum_up(y, e));
    lmi_memory_places(y);
    take_apart(y);
    return lmi_memory_holds(y, e);
}

lam_status lam_memory_new(lam_memory **out, const lam_model *m, lam_error *e) {
    *out = NULL;
    if (!lam_model_memory_seen(m))
        return lmi_fail(e, LAM_USAGE, "memory",
                        "it was not measured; ask for it when the model runs (memory=True)");
    lam_memory *y = calloc(1, sizeof *y);
    if (!y) return lmi_nomem(e);
    if (m->given) *y = *m->given->memory;
    lmi_arena_init(&y->arena, UINT64_MAX); /* bounded by what the model holds */
    y->m = m;
    y->total.info = m->memory->info;
    lam_status s = m->given ? LAM_OK : fill(y, e);
    if (s == LAM_OK)
        *out = y;
    else
        lam_memory_free(y);
    return s;
}

void lam_memory_free(lam_memory *y) {
    if (!y) return;
    lmi_arena_free(&y->arena);
    free(y);
}

bool lmi_memory_tells(const lam_memory *y, lam_phase phase) {
    return phase == LAM_FORWARD || (y->back && !y->total.info.forward_only);
}

/* Outside every call the peak may have been in a backward, if the memory of that is unknown; a peak at the
 * beginning is in no phase. */
const char *lmi_peak_phase(const lam_memory_totals *x) {
    bool known = x->peak_call >= 0 || (x->peak_order > 0 && !x->info.forward_only);
    return known ? lam_phase_name((lam_phase)x->peak_phase) : NULL;
}

const lam_memory_totals *lam_memory_total(const lam_memory *y) { return &y->total; }

const lam_memory_row *lam_memory_call(const lam_memory *y, int32_t event) {
    return event >= 0 && event < y->m->n_events ? &y->calls[event] : NULL;
}

static bool is_place(const lam_memory *y, int32_t place) { return place >= 0 && place < y->m->n_places; }

const lam_memory_row *lam_memory_place(const lam_memory *y, int32_t place) {
    return is_place(y, place) ? &y->places[place] : NULL;
}

const int64_t *lam_memory_held(const lam_memory *y, int32_t place) {
    return y->held && is_place(y, place) ? y->held[place] : NULL;
}

const int64_t *lam_memory_held_below(const lam_memory *y, int32_t place) {
    return y->below && is_place(y, place) ? y->below[place] : NULL;
}

const int64_t *lam_memory_unplaced(const lam_memory *y) { return y->by_device ? NULL : y->unplaced; }
