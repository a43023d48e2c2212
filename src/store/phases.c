/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of a step, which add up to it: what its thread did at each moment, from its first call of the
 * model to the first call of the next step. Calls, passes and spans lie inside each other, and a moment
 * belongs to the innermost. Collectives run beside the thread: one counts as a wait while the thread does
 * nothing else. */
#include "model/model.h"
#include "store/store.h"

#include <stdlib.h>

typedef struct piece {
    int64_t t0, t1;
    int phase; /* lam_step_phase */
} piece;

typedef struct sweep {
    const piece *waits; /* collectives, in the order of their starts */
    size_t n_waits, next;
    int64_t at; /* up to this moment all is given to phases */
    int64_t *ns;
} sweep;

/* -- what there is ----------------------------------------------------------------------------- */

static bool add(lmi_vec *to, int64_t t0, int64_t t1, int phase) {
    piece *at = t0 > 0 && t1 > t0 ? lmi_vec_push(to) : NULL;
    if (at) *at = (piece){t0, t1, phase};
    return at || t0 <= 0 || t1 <= t0;
}

static bool add_calls(lmi_vec *to, const lam_model *m) {
    bool ok = true;
    for (int32_t i = 0; ok && i < lam_model_n_events(m); i++) {
        const lam_event *e = lam_model_event(m, i);
        if (e->parent < 0 && !(e->flags & LAM_CALL_AGAIN)) ok = add(to, e->t0_ns, e->t1_ns, LAM_STEP_FORWARD);
    }
    return ok;
}

/* A pass lasts from the start of its first node to the end of its last, also if other threads run them. */
static bool add_passes(lmi_vec *to, const lam_model *m) {
    const size_t first = to->n;
    size_t last = to->n; /* of the node before */
    int32_t pass = -1;
    bool ok = true;
    for (int32_t i = 0; ok && i < m->n_ops; i++) {
        const lam_op *o = &m->ops[i];
        if (!(o->flags & LAM_OP_NODE) || o->t0_ns <= 0) continue;
        if (o->pass != pass) {
            for (last = first; last < to->n; last++)
                if (((piece *)lmi_vec_at(to, last))->phase == -1 - (int)o->pass) break;
            pass = o->pass;
        }
        if (last == to->n) ok = add(to, o->t0_ns, o->t0_ns + 1, -1 - (int)o->pass);
        piece *p = ok ? lmi_vec_at(to, last) : NULL;
        if (p && o->t0_ns < p->t0) p->t0 = o->t0_ns;
        if (p && o->t1_ns > p->t1) p->t1 = o->t1_ns;
    }
    for (size_t i = first; i < to->n; i++) ((piece *)lmi_vec_at(to, i))->phase = LAM_STEP_BACKWARD;
    return ok;
}

static bool add_spans(lmi_vec *to, lmi_vec *waits, const lam_step_info *info) {
    static const int phase[] = {[LAM_SPAN_INPUT] = LAM_STEP_INPUT,
                                [LAM_SPAN_OPTIMIZER] = LAM_STEP_OPTIMIZER,
                                [LAM_SPAN_WAIT] = LAM_STEP_COMM,
                                [LAM_SPAN_COLLECTIVE] = LAM_STEP_COMM};
    bool ok = true;
    for (int32_t i = 0; ok && i < info->n_spans; i++) {
        const lam_step_span *s = &info->spans[i];
        ok = add(s->kind == LAM_SPAN_COLLECTIVE ? waits : to, s->t0_ns, s->t1_ns, phase[s->kind]);
    }
    return ok;
}

/* -- whose each moment is ---------------------------------------------------------------------- */

/* Of two that start together the longer one is around the other. */
static int in_order(const void *x, const void *y) {
    const piece *a = x, *b = y;
    if (a->t0 != b->t0) return a->t0 < b->t0 ? -1 : 1;
    return (a->t1 < b->t1) - (a->t1 > b->t1);
}

/* The time until `to`, in which nothing else was done, in which a collective was waited for. */
static int64_t waited(sweep *s, int64_t to) {
    int64_t sum = 0, at = s->at;
    for (; s->next < s->n_waits; s->next++) {
        const piece *w = &s->waits[s->next];
        const int64_t from = w->t0 > at ? w->t0 : at, end = w->t1 < to ? w->t1 : to;
        if (from >= to) break;
        if (end > from) sum += end - from, at = end;
        if (w->t1 > to) break; /* it goes on */
    }
    return sum;
}

static void give(sweep *s, int phase, int64_t to) {
    if (to <= s->at) return;
    if (phase == LAM_STEP_OTHER) {
        const int64_t wait = waited(s, to);
        s->ns[LAM_STEP_COMM] += wait;
        s->at += wait;
    }
    s->ns[phase] += to - s->at;
    s->at = to;
}

/* Gives all time from `s->at` to `end` to phases. `all` is in order; `around` has room for as many. */
static void give_all(sweep *s, piece *all, size_t n, size_t *around, int64_t end) {
    size_t depth = 0;
    for (size_t i = 0; i <= n; i++) {
        const int64_t next = i < n && all[i].t0 < end ? all[i].t0 : end;
        while (depth && all[around[depth - 1]].t1 <= next) {
            depth--;
            give(s, all[around[depth]].phase, all[around[depth]].t1);
        }
        give(s, depth ? all[around[depth - 1]].phase : LAM_STEP_OTHER, next);
        if (i == n || all[i].t0 >= end) return;
        if (depth && all[i].t1 > all[around[depth - 1]].t1) all[i].t1 = all[around[depth - 1]].t1;
        around[depth++] = i;
    }
}

static bool sweep_all(lmi_vec *all, lmi_vec *waits, const lam_step_info *info,
                      int64_t ns[LAM_N_STEP_PHASES]) {
    sweep s = {.waits = waits->data, .n_waits = waits->n, .at = info->t0_ns, .ns = ns};
    size_t *around = calloc(all->n + 1, sizeof *around);
    if (!around) return false;
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) ns[k] = 0;
    if (all->n) qsort(all->data, all->n, all->size, in_order);
    if (waits->n) qsort(waits->data, waits->n, waits->size, in_order);
    give_all(&s, all->data, all->n, around, info->t1_ns);
    free(around);
    return true;
}

/* -- what is known ----------------------------------------------------------------------------- */

/* What was never seen in this process is unknown: it may be done in a way that torch does not record. */
static void forget_unknown(const lam_model *m, const lam_step_info *info, int64_t ns[LAM_N_STEP_PHASES]) {
    const uint32_t waits = UINT32_C(1) << LAM_SPAN_WAIT | UINT32_C(1) << LAM_SPAN_COLLECTIVE;
    bool unknown[LAM_N_STEP_PHASES] = {
        [LAM_STEP_INPUT] = !(info->spans_seen >> LAM_SPAN_INPUT & 1),
        [LAM_STEP_H2D] = lam_model_device_timed(m),
        [LAM_STEP_BACKWARD] = !lam_model_nodes_seen(m) || info->pass_unseen,
        [LAM_STEP_OPTIMIZER] = !(info->spans_seen >> LAM_SPAN_OPTIMIZER & 1),
        [LAM_STEP_COMM] = !info->alone && !(info->spans_seen & waits),
    };
    for (int k = 0; k < LAM_N_STEP_PHASES; k++)
        if (unknown[k]) {
            ns[LAM_STEP_OTHER] += ns[k];
            ns[k] = -1;
        }
}

lam_status lmi_step_phases(const lam_model *m, const lam_step_info *info, int64_t ns[LAM_N_STEP_PHASES],
                           lam_error *e) {
    for (int k = 0; k < LAM_N_STEP_PHASES; k++) ns[k] = -1;
    if (info->t1_ns <= info->t0_ns || !lam_model_timed(m)) return LAM_OK;
    lmi_vec all, waits;
    lmi_vec_init(&all, sizeof(piece));
    lmi_vec_init(&waits, sizeof(piece));
    const bool ok = add_calls(&all, m) && add_passes(&all, m) && add_spans(&all, &waits, info) &&
                    sweep_all(&all, &waits, info, ns);
    if (ok) forget_unknown(m, info, ns);
    lmi_vec_free(&all);
    lmi_vec_free(&waits);
    return ok ? LAM_OK : lmi_nomem(e);
}
