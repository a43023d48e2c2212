/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics over many runs: medians, deviations, and runs that took much longer with their reasons; the
 * same of operators by name. */
#include "analyse/run/times.h"

#include <stdlib.h>

/* -- medians --------------------------------------------------------------------------------------------- */

/* Overwrites the numbers. */
static lam_spread spread_of(int64_t *v, int32_t n) {
    lam_spread s = {.n = n, .median = lmi_median(v, (size_t)n)};
    s.least = v[0];
    s.most = v[n - 1];
    for (int32_t i = 0; i < n; i++) v[i] = v[i] < s.median ? s.median - v[i] : v[i] - s.median;
    s.deviation = lmi_median(v, (size_t)n);
    return s;
}

static int64_t time_of(const lam_times *t, int32_t event, lam_phase phase, bool total) {
    const lam_time *x = &t->of_event[event];
    return total ? x->total[phase] : x->self[phase];
}

static bool slot_spread(const lam_times *t, int32_t slot, lam_phase phase, bool total, lam_spread *out) {
    const lmi_call_slots *s = &t->slots;
    int32_t n = 0, most = -1;
    for (int32_t i = s->of_slot.start[slot]; i < s->of_slot.start[slot + 1]; i++) {
        int64_t ns = time_of(t, s->of_slot.order[i], phase, total);
        if (ns < 0) continue;
        if (most < 0 || ns > time_of(t, s->of_slot.order[most], phase, total)) most = i;
        t->scratch[n++] = ns;
    }
    if (n == 0) return false;
    *out = spread_of(t->scratch, n);
    out->most_run = s->run_of[s->of_slot.order[most]];
    return true;
}

bool lam_times_place(const lam_times *t, int32_t place, int32_t k, lam_phase phase, bool total,
                     lam_spread *out) {
    if (t->given || place < 0 || place >= t->m->n_places || k < 0 || (unsigned)phase >= LAM_N_PHASES)
        return false;
    int32_t slot = lmi_call_slot(&t->slots, place, k);
    return slot >= 0 && slot_spread(t, slot, phase, total, out);
}

const char *lmi_time_part_name(lam_time_part part) {
    static const char *const names[LAM_N_TIME_PARTS] = {
        [LAM_TIME_FORWARD] = "forward", [LAM_TIME_BACKWARD] = "backward", [LAM_TIME_RECOMPUTE] = "recompute",
        [LAM_TIME_ENGINE] = "engine",   [LAM_TIME_OUTSIDE] = "outside",   [LAM_TIME_WHOLE] = "whole"};
    return names[part];
}

bool lam_times_part(const lam_times *t, lam_time_part part, lam_spread *out) {
    int32_t n = 0, most = -1;
    if ((unsigned)part >= LAM_N_TIME_PARTS) return false;
    if (t->given) {
        *out = t->given[part];
        return out->n > 0;
    }
    const int64_t *of_run = t->parts[part];
    for (int32_t r = 0; r < t->slots.n_runs; r++) {
        if (of_run[r] < 0) continue;
        if (most < 0 || of_run[r] > of_run[most]) most = r;
        t->scratch[n++] = of_run[r];
    }
    if (n == 0) return false;
    *out = spread_of(t->scratch, n);
    out->most_run = most;
    return true;
}

int64_t lam_times_run(const lam_times *t, int32_t run, lam_time_part part) {
    bool there = !t->given && run >= 0 && run < t->slots.n_runs && (unsigned)part < LAM_N_TIME_PARTS;
    return there ? t->parts[part][run] : -1;
}

/* The run that counts is one of the runs: a call of it that no timed run had counts too, and the reverse. */
int32_t lmi_times_varying(const lam_costs *c) {
    const lmi_call_slots *own = c->slots, *s = c->times ? &c->times->slots : NULL;
    int32_t n = 0;
    for (int32_t p = 0; own && s && p < c->model->n_places; p++) {
        int32_t i = own->first[p], k = s->first[p];
        for (; i >= 0 || k >= 0; i = i < 0 ? i : own->next[i], k = k < 0 ? k : s->next[k])
            n += i < 0 || k < 0 || s->of_slot.start[k + 1] - s->of_slot.start[k] < s->n_runs;
    }
    return n;
}

int32_t lam_times_n_runs(const lam_times *t) { return t->slots.n_runs; }

bool lam_times_event(const lam_times *t, int32_t event, lam_time *out) {
    if (event < 0 || event >= t->m->n_events) return false;
    *out = t->of_event[event];
    return true;
}

/* -- runs that took much longer -------------------------------------------------------------------------- */

enum { FEWEST_RUNS = 5 };

static bool is_late(const lam_spread *s, int64_t ns) {
    double over = (double)(ns - s->median);
    /* 1.4826 deviations of this kind are a standard deviation, if times are spread normally. */
    return over > 5 * 1.4826 * (double)s->deviation && over > 0.05 * (double)s->median;
}

/* All phases of a call without the calls inside it; 0 if nothing is known. */
static int64_t own_of(const lam_time *x) {
    int64_t ns = 0;
    for (int p = 0; p < LAM_N_PHASES; p++) ns += x->self[p] > 0 ? x->self[p] : 0;
    return ns;
}

static int64_t usual_of_slot(const lam_times *t, int32_t slot) {
    const lmi_call_slots *s = &t->slots;
    int32_t n = 0;
    for (int32_t i = s->of_slot.start[slot]; i < s->of_slot.start[slot + 1]; i++)
        t->scratch[n++] = own_of(&t->of_event[s->of_slot.order[i]]);
    return n ? lmi_median(t->scratch, (size_t)n) : 0;
}

static void blame(lam_outlier *o, int32_t place, int64_t late) {
    if (late <= o->late) return;
    o->late = late;
    o->place = place;
}

static void explain(const lam_times *t, const int64_t *usual, lam_outlier *o) {
    lam_spread s;
    for (int32_t i = 0; i < t->m->n_events; i++)
        if (t->slots.run_of[i] == o->run)
            blame(o, t->m->events[i].place, own_of(&t->of_event[i]) - usual[t->slots.of_event[i]]);
    for (int p = LAM_TIME_ENGINE; p <= LAM_TIME_OUTSIDE; p++)
        if (lam_times_part(t, (lam_time_part)p, &s)) blame(o, -1, t->parts[p][o->run] - s.median);
}

static lam_status find_outliers(lam_times *t, lam_error *e) {
    lam_spread whole;
    const int64_t *of_run = t->parts[LAM_TIME_WHOLE];
    if (!lam_times_part(t, LAM_TIME_WHOLE, &whole) || whole.n < FEWEST_RUNS) return LAM_OK;
    for (int32_t r = 0; r < t->slots.n_runs; r++) t->n_outliers += is_late(&whole, of_run[r]);
    if (t->n_outliers == 0) return LAM_OK;
    t->outliers = lmi_alloc(&t->arena, (uint64_t)t->n_outliers, sizeof *t->outliers);
    int64_t *usual = lmi_alloc(&t->arena, (uint64_t)t->slots.n, sizeof *usual);
    if (!t->outliers || !usual) return lmi_nomem(e);
    for (int32_t i = 0; i < t->slots.n; i++) usual[i] = usual_of_slot(t, i);
    for (int32_t r = 0, n = 0; r < t->slots.n_runs; r++) {
        if (!is_late(&whole, of_run[r])) continue;
        t->outliers[n] = (lam_outlier){.run = r, .whole = of_run[r], .median = whole.median, .place = -1};
        explain(t, usual, &t->outliers[n++]);
    }
    return LAM_OK;
}

bool lam_times_outlier(const lam_times *t, int32_t i, lam_outlier *out) {
    if (i < 0 || i >= t->n_outliers) return false;
    *out = t->outliers[i];
    return true;
}

/* The run whose whole time is the median; for an even number, the shorter of the middle two. */
static int32_t median_run(lam_times *t) {
    int32_t n = 0;
    const int64_t *whole = t->parts[LAM_TIME_WHOLE];
    for (int32_t r = 0; r < t->slots.n_runs; r++)
        if (whole[r] >= 0) t->scratch[n++] = whole[r];
    if (n == 0) return -1;
    qsort(t->scratch, (size_t)n, sizeof *t->scratch, lmi_by_size);
    for (int32_t r = 0; r < t->slots.n_runs; r++)
        if (whole[r] == t->scratch[(n - 1) / 2]) return r;
    return -1;
}

/* -- operators ------------------------------------------------------------------------------------------- */

static int by_self(const void *a, const void *b) {
    const lam_op_time *x = a, *y = b;
    if (x->self != y->self) return x->self > y->self ? -1 : 1;
    int names = strcmp(x->name, y->name);
    return names ? names : (int)x->phase - (int)y->phase;
}

/* The own times of all operators: without the operators inside. */
static int64_t *own_times(lam_times *t) {
    const lam_model *m = t->m;
    int64_t *own = lmi_alloc(&t->arena, (uint64_t)m->n_ops, sizeof *own);
    for (int32_t i = 0; own && i < m->n_ops; i++) {
        const lam_op *op = &m->ops[i];
        if (!lmi_has_time(op->t0_ns, op->t1_ns)) continue;
        own[i] += op->t1_ns - op->t0_ns;
        if (op->parent >= 0) own[op->parent] -= op->t1_ns - op->t0_ns;
    }
    return own;
}

/* True if an operator of the same name and phase is around it, whose time includes this one's. */
static bool is_inside_its_like(const lam_model *m, const lam_op *op) {
    for (int32_t p = op->parent, depth = 0; p >= 0 && depth < 64; p = m->ops[p].parent, depth++)
        if (m->ops[p].sig->name == op->sig->name && m->ops[p].phase == op->phase) return true;
    return false;
}

static void add_op(const lam_model *m, const lam_op *op, int64_t own, lam_op_time *to) {
    to->name = op->sig->name;
    to->phase = (lam_phase)op->phase;
    to->node = op->flags & LAM_OP_NODE;
    to->n++;
    to->self += own > 0 ? own : 0;
    if (!is_inside_its_like(m, op)) to->total += op->t1_ns - op->t0_ns;
}

static lam_status sum_ops(lam_times *t, lmi_map *by_name, lam_error *e) {
    const lam_model *m = t->m;
    int64_t *own = own_times(t);
    /* Equal names have one address in a model. */
    t->op_times = lmi_alloc(&t->arena, (uint64_t)m->n_op_sigs * LAM_N_PHASES, sizeof *t->op_times);
    if (!own || !t->op_times) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op *op = &m->ops[i];
        if (!lmi_has_time(op->t0_ns, op->t1_ns)) continue;
        uint64_t key = (uint64_t)(uintptr_t)op->sig->name * LAM_N_PHASES + op->phase + 1;
        int64_t at = lmi_map_get_u64(by_name, key);
        if (at < 0) {
            at = t->n_op_times++;
            LAM_TRY(lmi_map_put_u64(by_name, key, at, e));
        }
        add_op(m, op, own[i], &t->op_times[at]);
    }
    if (t->n_op_times) qsort(t->op_times, (size_t)t->n_op_times, sizeof *t->op_times, by_self);
    return LAM_OK;
}

bool lam_times_op(const lam_times *t, int32_t i, lam_op_time *out) {
    if (i < 0 || i >= t->n_op_times) return false;
    *out = t->op_times[i];
    return true;
}

lam_status lmi_times_stats(lam_times *t, lam_error *e) {
    lmi_map by_name;
    LAM_TRY(find_outliers(t, e));
    t->shown = median_run(t);
    if (t->device) return LAM_OK; /* nodes have no names there */
    lmi_map_init(&by_name);
    lam_status s = sum_ops(t, &by_name, e);
    lmi_map_free(&by_name);
    return s;
}

/* -- rows ------------------------------------------------------------------------------------------------ */

const lam_times *lam_costs_times(const lam_costs *c) { return c->times; }
const lam_times *lam_costs_device_times(const lam_costs *c) { return c->device_times; }

int32_t lmi_shown_run(const lam_costs *c) {
    return c->times && (c->slots || c->times->given) ? c->times->shown : -1;
}

bool lmi_times_are_medians(const lam_costs *c) {
    return c->times && c->times->given && !c->times->given_shown;
}

int64_t lmi_time_part(const lam_costs *c, const lam_times *t, lam_time_part part) {
    int64_t sum = 0;
    if (!t || (unsigned)part >= LAM_N_TIME_PARTS || t->slots.n_runs == 0) return -1;
    if (c->slots) return lam_times_run(t, lmi_shown_run(c), part);
    if (t->given_shown) return t->given_shown[part];
    if (t->given) return t->given[part].n > 0 ? t->given[part].median : -1;
    for (int32_t r = 0; r < t->slots.n_runs; r++) {
        if (t->parts[part][r] < 0) return -1;
        sum += t->parts[part][r];
    }
    return sum;
}

int64_t lam_costs_time_part(const lam_costs *c, lam_time_part part) {
    return lmi_time_part(c, c->times, part);
}

/* The time of the matching call in the shown run, unknown if that had none. All numbers of a report are of
 * one run, so they add up; medians would not. */
static bool time_in_run(const lam_costs *c, const lam_times *t, int32_t event, lam_time *out) {
    const lmi_call_slots *own = c->slots, *s = &t->slots;
    int32_t slot = lmi_call_slot(s, own->place[own->of_event[event]], own->k[own->of_event[event]]);
    for (int p = 0; p < LAM_N_PHASES; p++) out->self[p] = out->total[p] = -1;
    for (int32_t i = slot < 0 ? 0 : s->of_slot.start[slot]; slot >= 0 && i < s->of_slot.start[slot + 1]; i++)
        if (s->run_of[s->of_slot.order[i]] == lmi_shown_run(c)) *out = t->of_event[s->of_slot.order[i]];
    return true;
}

static bool time_of_row(const lam_costs *c, const lam_times *t, int32_t row, lam_time *out) {
    if (!t || row < 0 || row >= c->n_rows || c->rows[row].event < 0) return false;
    if (c->slots) return time_in_run(c, t, c->rows[row].event, out);
    return lam_times_event(t, c->rows[row].event, out);
}

bool lam_costs_time(const lam_costs *c, int32_t row, lam_time *out) {
    return time_of_row(c, c->times, row, out);
}

bool lam_costs_device_time(const lam_costs *c, int32_t row, lam_time *out) {
    return time_of_row(c, c->device_times, row, out);
}
