/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of a run: memory in use over time, by what it holds, and when the nodes of a backward ran. */
#include "analyse/run/course.h"

#include <stdlib.h>

/* -- memory ---------------------------------------------------------------------------------------------- */

/* Advances `held`, the parts of `live` at order `from`, to order `to`. */
static void advance(const lam_memory *y, int64_t from, int64_t to, int64_t held[LAM_N_HELD]) {
    for (int64_t i = from + 1; i <= to; i++) held[y->holds[i]] += y->live[i] - y->live[i - 1];
}

/* Fills the use of each order's block, and the sums at each chunk's first order. An order belongs to one
 * block: the change of `live` is its bytes, and 0 for a block of an unwatched thread. */
lam_status lmi_memory_holds(lam_memory *y, lam_error *e) {
    y->holds = lmi_alloc(&y->arena, (uint64_t)y->n + 1, sizeof *y->holds);
    y->held_at = lmi_alloc(&y->arena, (uint64_t)y->n_chunks, sizeof *y->held_at);
    if (!y->holds || !y->held_at) return lmi_nomem(e);
    for (int32_t i = 0; i < lam_model_n_blocks(y->m); i++) {
        const lam_block *k = lam_model_block(y->m, i);
        lam_held held = lmi_memory_held_as(y, k);
        y->holds[k->order] = (uint8_t)held;
        if (k->freed_order) y->holds[k->freed_order] = (uint8_t)held;
        if (!k->order && !(k->flags & LAM_BLOCK_ELSEWHERE)) y->held_at[0][held] += k->bytes;
    }
    for (int64_t c = 1; c < y->n_chunks; c++) {
        memcpy(y->held_at[c], y->held_at[c - 1], sizeof y->held_at[c]);
        advance(y, (c - 1) * LMI_MEMORY_CHUNK, c * LMI_MEMORY_CHUNK, y->held_at[c]);
    }
    return LAM_OK;
}

/* The order with the most memory in the i-th of `points` steps. */
static lam_status order_at(const lam_memory *y, int32_t points, int32_t i, int64_t *out, lam_error *e) {
    int64_t moments = y->n + 1, steps = points < moments ? points : moments;
    if (i < 0 || i >= steps)
        return lmi_fail(e, LAM_RANGE, "memory", "there is no step %d among %lld", (int)i, (long long)steps);
    int64_t from = i * moments / steps, to = (i + 1) * moments / steps, best = from;
    for (int64_t k = from + 1; k < to; k++)
        if (y->live[k] > y->live[best]) best = k;
    *out = best;
    return LAM_OK;
}

lam_status lam_memory_at(const lam_memory *y, int32_t points, int32_t i, lam_memory_point *out,
                         lam_error *e) {
    int64_t order = 0;
    LAM_TRY(order_at(y, points, i, &order, e));
    *out = (lam_memory_point){y->when[order], y->live[order]};
    return LAM_OK;
}

lam_status lam_memory_held_at(const lam_memory *y, int32_t points, int32_t i, int64_t held[LAM_N_HELD],
                              lam_error *e) {
    int64_t order = 0;
    if (y->by_device) return lmi_fail(e, LAM_USAGE, "memory", "what a device's memory holds is not known");
    LAM_TRY(order_at(y, points, i, &order, e));
    int64_t chunk = order / LMI_MEMORY_CHUNK;
    memcpy(held, y->held_at[chunk], sizeof y->held_at[chunk]);
    advance(y, chunk * LMI_MEMORY_CHUNK, order, held);
    return LAM_OK;
}

int64_t lmi_run_began(const lam_model *m) { return m->n_events ? m->events[0].t0_ns : 0; }

/* -- the backward ---------------------------------------------------------------------------------------- */

static bool is_node(const lam_model *m, const lam_op *op) {
    (void)m;
    return op->flags & LAM_OP_NODE && op->phase == LAM_BACKWARD && op->call >= 0;
}

static int by_call(const void *a, const void *b) {
    const lmi_work_span *x = a, *y = b;
    if (x->call != y->call) return x->call < y->call ? -1 : 1;
    return (x->t0 > y->t0) - (x->t0 < y->t0);
}

static lam_status join(const lam_model *m, const lmi_vec *nodes, lmi_vec *out, lam_error *e) {
    lmi_work_span *last = NULL;
    uint16_t thread = 0;
    for (size_t i = 0; i < nodes->n; i++) {
        const lmi_span *s = lmi_vec_at(nodes, i);
        if (!s->is_op) continue;
        int32_t call = m->ops[s->index].call;
        if (last && last->call == call && thread == s->thread) {
            if (s->t1 > last->t1) last->t1 = s->t1;
            continue;
        }
        last = lmi_vec_push(out);
        if (!last) return lmi_nomem(e);
        *last = (lmi_work_span){call, s->t0, s->t1};
        thread = s->thread;
    }
    return LAM_OK;
}

lam_status lmi_backward_spans(const lam_model *m, lmi_vec *out, lam_error *e) {
    lmi_vec nodes;
    lmi_vec_init(&nodes, sizeof(lmi_span));
    lmi_vec_init(out, sizeof(lmi_work_span));
    lam_status s = lmi_spans_find(m, is_node, &nodes, e);
    if (s == LAM_OK) s = join(m, &nodes, out, e);
    lmi_vec_free(&nodes);
    if (s == LAM_OK && out->n) qsort(out->data, out->n, sizeof(lmi_work_span), by_call);
    return s;
}

size_t lmi_first_span(const lmi_vec *spans, int32_t call) {
    return lmi_lower_bound(spans->data, spans->n, sizeof(lmi_work_span), call);
}
