/* SPDX-License-Identifier: Apache-2.0
 *
 * Assigns every moment to a call. On each thread calls and nodes are nested, so one walk over them by
 * their starts gives each its own time: its time without those inside. The gaps between consecutive
 * nodes of a backward pass are the engine's. */
#include "analyse/run/times.h"
#include "analyse/tree/tree.h"

#include <stdlib.h>

static const uint64_t ARENA_LIMIT = UINT64_C(4) << 30;

/* -- runs and slots -------------------------------------------------------------------------------------- */

static bool is_outermost(const lam_event *ev) { return ev->parent < 0 && lmi_call_phase(ev) == LAM_FORWARD; }

/* The next slot of a place in a run; a new one if earlier runs had no such call. */
static int32_t next_slot(lmi_call_slots *s, int32_t place, int32_t last) {
    int32_t i = last < 0 ? s->first[place] : s->next[last];
    if (i >= 0) return i;
    i = s->n++;
    s->place[i] = place;
    s->next[i] = -1;
    s->k[i] = last < 0 ? 0 : s->k[last] + 1;
    *(last < 0 ? &s->first[place] : &s->next[last]) = i;
    return i;
}

static bool slots_alloc(lmi_arena *a, const lam_model *m, lmi_call_slots *s) {
    uint64_t n = (uint64_t)m->n_events;
    s->of_event = lmi_alloc(a, n, sizeof *s->of_event);
    s->run_of = lmi_alloc(a, n, sizeof *s->run_of);
    s->place = lmi_alloc(a, n, sizeof *s->place);
    s->next = lmi_alloc(a, n, sizeof *s->next);
    s->k = lmi_alloc(a, n, sizeof *s->k);
    s->began = lmi_alloc(a, n + 1, sizeof *s->began);
    s->first = lmi_alloc_none(a, m->n_places);
    return s->of_event && s->run_of && s->place && s->next && s->k && s->began && s->first;
}

static lam_status find_call_slots(const lam_model *m, lmi_arena *a, lmi_call_slots *out, lam_error *e) {
    lmi_call_slots s = {0};
    int32_t *last = lmi_alloc(a, (uint64_t)m->n_places, sizeof *last);
    int32_t *run_of_place = lmi_alloc_none(a, m->n_places);
    int32_t root = -1, run = -1;
    if (!last || !run_of_place || !slots_alloc(a, m, &s)) return lmi_nomem(e);
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        if (root < 0) root = ev->place;
        if (run < 0 || (is_outermost(ev) && ev->place == root)) s.began[++run] = ev->t0_ns;
        if (run_of_place[ev->place] != run) last[ev->place] = -1;
        run_of_place[ev->place] = run;
        last[ev->place] = next_slot(&s, ev->place, last[ev->place]);
        s.of_event[i] = last[ev->place];
        s.run_of[i] = run;
    }
    s.n_runs = run + 1;
    *out = s;
    return lmi_group_by(a, s.of_event, m->n_events, s.n, &out->of_slot) ? LAM_OK : lmi_nomem(e);
}

int32_t lmi_call_slot(const lmi_call_slots *s, int32_t place, int32_t k) {
    int32_t i = s->first[place];
    while (i >= 0 && k-- > 0) i = s->next[i];
    return i;
}

/* -- the walk -------------------------------------------------------------------------------------------- */

/* An open span, and the backward pass of the nodes directly inside it. */
typedef struct level {
    lmi_span it;
    int64_t self;
    int32_t pass, pass_run; /* -1: none has begun */
    int64_t pass_t0, pass_t1, covered, pending;
} level;

typedef struct walk {
    lam_times *t;
    lmi_vec spans, levels;
} walk;

/* The operators that have times: nodes, outermost operators of a backward, and repeated ones. */
static bool counts(const lam_model *m, const lam_op *op) {
    if (!m->nodes_seen) return false;
    if (op->phase == LAM_BACKWARD) return op->flags & LAM_OP_NODE;
    return op->phase == LAM_RECOMPUTE && (op->parent < 0 || m->ops[op->parent].phase != LAM_RECOMPUTE);
}

static int by_start(const void *a, const void *b) {
    const lmi_span *x = a, *y = b;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    if (x->t0 != y->t0) return x->t0 < y->t0 ? -1 : 1;
    if (x->t1 != y->t1) return x->t1 > y->t1 ? -1 : 1;
    if (x->is_op != y->is_op) return x->is_op ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

lam_status lmi_spans_find(const lam_model *m, bool (*wanted)(const lam_model *m, const lam_op *op),
                          lmi_vec *out, lam_error *e) {
    for (int32_t i = 0; i < m->n_events; i++) {
        const lam_event *ev = &m->events[i];
        const uint16_t thread = (uint16_t)(ev->thread < UINT16_MAX ? ev->thread : UINT16_MAX);
        if (lmi_has_time(ev->t0_ns, ev->t1_ns))
            LAM_TRY(lmi_vec_put(out, &(lmi_span){ev->t0_ns, ev->t1_ns, i, thread, false}, e));
    }
    for (int32_t i = 0; i < m->n_ops; i++) {
        const lam_op *op = &m->ops[i];
        if (lmi_has_time(op->t0_ns, op->t1_ns) && wanted(m, op))
            LAM_TRY(lmi_vec_put(out, &(lmi_span){op->t0_ns, op->t1_ns, i, op->thread, true}, e));
    }
    if (out->n) qsort(out->data, out->n, sizeof(lmi_span), by_start);
    return LAM_OK;
}

int32_t lmi_run_at(const lmi_call_slots *s, int64_t ns) {
    int32_t from = 0, to = s->n_runs;
    while (from < to) {
        int32_t mid = from + (to - from) / 2;
        if (s->began[mid] <= ns)
            from = mid + 1;
        else
            to = mid;
    }
    return from > 0 ? from - 1 : 0;
}

/* The call or operator of a span. */
typedef struct work {
    int32_t call, pass;
    uint8_t phase;
    int64_t host_ns; /* when it began */
} work;

static work work_of(const lam_times *t, const lmi_span *s) {
    const lam_device_span *d = t->device ? lmi_vec_at(t->device, (size_t)s->index) : NULL;
    if (!s->is_op) {
        int32_t call = d ? d->call : s->index;
        const lam_event *ev = &t->m->events[call];
        return (work){call, -1, lmi_call_phase(ev), ev->t0_ns};
    }
    if (d) return (work){d->call, d->pass, LAM_BACKWARD, d->host_ns};
    const lam_op *op = &t->m->ops[s->index];
    return (work){op->call, op->pass, op->phase, op->t0_ns};
}

static int32_t run_of(const lam_times *t, const work *w) {
    return w->call >= 0 ? t->slots.run_of[w->call] : lmi_run_at(&t->slots, w->host_ns);
}

static void credit(lam_times *t, const lmi_span *s, int64_t self) {
    const work w = work_of(t, s);
    const int32_t call = w.call, run = run_of(t, &w);
    const int phase = w.phase;
    if (self < 0) self = 0;
    if (call < 0)
        t->parts[LAM_TIME_OUTSIDE][run] += self;
    else if (t->of_event[call].self[phase] >= 0)
        t->of_event[call].self[phase] += self;
}

static void end_pass(lam_times *t, level *l) {
    int64_t gaps = l->pass_t1 - l->pass_t0 - l->covered;
    if (l->pass_run >= 0 && gaps > 0) {
        t->parts[LAM_TIME_ENGINE][l->pass_run] += gaps;
        l->self -= gaps;
    }
    l->pass_run = -1;
}

static level *top_of(walk *w) { return (level *)w->levels.data + w->levels.n - 1; }

static void leave(walk *w) {
    level *l = top_of(w);
    end_pass(w->t, l);
    credit(w->t, &l->it, l->self);
    lmi_vec_pop(&w->levels);
}

/* A node begins a pass or continues it. A forward between two nodes ends the pass, unless it is a
 * repetition. */
static void note_inside(walk *w, level *l, const lmi_span *s) {
    int64_t took = s->t1 - s->t0;
    const work of = work_of(w->t, s);
    l->self -= took;
    if (of.phase == LAM_BACKWARD) {
        if (l->pass_run >= 0 && l->pass == of.pass) {
            l->covered += l->pending + took;
        } else {
            end_pass(w->t, l);
            l->pass = of.pass;
            l->pass_run = run_of(w->t, &of);
            l->pass_t0 = s->t0;
            l->covered = took;
        }
        l->pass_t1 = s->t1;
        l->pending = 0;
    } else if (of.phase == LAM_RECOMPUTE) {
        l->pending += took;
    } else {
        end_pass(w->t, l);
    }
}

static lam_status enter(walk *w, lmi_span s, lam_error *e) {
    /* Times of one thread don't cross; if they seem to, the inner span ends with the outer one. */
    if (w->levels.n > 1 && s.t1 > top_of(w)->it.t1) s.t1 = top_of(w)->it.t1;
    note_inside(w, top_of(w), &s);
    return lmi_vec_put(&w->levels, &(level){.it = s, .self = s.t1 - s.t0, .pass_run = -1}, e);
}

static lam_status go(walk *w, lam_error *e) {
    const lmi_span *all = w->spans.data;
    LAM_TRY(lmi_vec_put(&w->levels, &(level){.pass_run = -1}, e)); /* around the spans of a thread */
    for (size_t i = 0; i < w->spans.n; i++) {
        bool other = i > 0 && all[i].thread != all[i - 1].thread;
        while (w->levels.n > 1 && (other || top_of(w)->it.t1 <= all[i].t0)) leave(w);
        if (other) end_pass(w->t, top_of(w));
        LAM_TRY(enter(w, all[i], e));
    }
    while (w->levels.n > 1) leave(w);
    end_pass(w->t, top_of(w));
    return LAM_OK;
}

/* -- sums ------------------------------------------------------------------------------------------------ */

static void start(lam_times *t) {
    for (int32_t i = 0; i < t->m->n_events; i++) {
        const lam_event *ev = &t->m->events[i];
        lam_time *x = &t->of_event[i];
        bool known = t->device ? lmi_device_total(t, i) >= 0 : lmi_has_time(ev->t0_ns, ev->t1_ns);
        if (!t->back) x->self[LAM_BACKWARD] = x->self[LAM_RECOMPUTE] = -1;
        x->self[lmi_call_phase(ev)] = known ? 0 : -1;
    }
}

static int64_t plus(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; }

static lam_status sum_up(lam_times *t, lam_error *e) {
    const lam_model *m = t->m;
    const int32_t *parent = lmi_callers(&t->arena, m);
    if (!parent) return lmi_nomem(e);
    for (int32_t i = m->n_events - 1; i >= 0; i--) {
        lam_time *x = &t->of_event[i];
        for (int p = 0; p < LAM_N_PHASES; p++) {
            x->total[p] = plus(x->total[p], x->self[p]);
            if (t->device && p == (int)lmi_call_phase(&m->events[i])) x->total[p] = lmi_device_total(t, i);
            int64_t *to = parent[i] >= 0 ? &t->of_event[parent[i]].total[p]
                                         : &t->parts[LAM_TIME_FORWARD + p][t->slots.run_of[i]];
            *to = plus(*to, x->total[p]);
        }
    }
    return LAM_OK;
}

/* Without a backward pass, or if its nodes were not seen, there is only the forward. */
static void add_parts(lam_times *t) {
    for (int32_t r = 0; r < t->slots.n_runs; r++) {
        int64_t whole = 0;
        for (int p = 0; p < LAM_TIME_WHOLE; p++) {
            bool shown = p == LAM_TIME_FORWARD || t->back;
            if (!shown) t->parts[p][r] = -1;
            if (shown) whole = plus(whole, t->parts[p][r]);
        }
        t->parts[LAM_TIME_WHOLE][r] = whole;
    }
}

/* A pass that raised never reached some layers: theirs is no time of 0. */
static void forget_unreached(lam_times *t) {
    for (int32_t i = 0; t->m->backward_raised && i < t->m->n_events; i++) {
        lam_time *x = &t->of_event[i];
        if (x->total[LAM_BACKWARD] == 0) x->self[LAM_BACKWARD] = x->total[LAM_BACKWARD] = -1;
    }
}

static lam_status compute(lam_times *t, lam_error *e) {
    LAM_TRY(find_call_slots(t->m, &t->arena, &t->slots, e));
    t->of_event = lmi_alloc(&t->arena, (uint64_t)t->m->n_events, sizeof *t->of_event);
    t->scratch = lmi_alloc(&t->arena, (uint64_t)t->m->n_events + 1, sizeof *t->scratch);
    if (!t->of_event || !t->scratch) return lmi_nomem(e);
    for (int p = 0; p < LAM_N_TIME_PARTS; p++) {
        t->parts[p] = lmi_alloc(&t->arena, (uint64_t)t->slots.n_runs + 1, sizeof *t->parts[p]);
        if (!t->parts[p]) return lmi_nomem(e);
    }
    t->back = t->m->nodes_seen && lmi_went_back(t->m);
    if (t->device) LAM_TRY(lmi_device_begin(t, e));
    start(t);
    walk w = {.t = t};
    lmi_vec_init(&w.spans, sizeof(lmi_span));
    lmi_vec_init(&w.levels, sizeof(level));
    lam_status s = t->device ? lmi_device_spans(t, &w.spans, e) : lmi_spans_find(t->m, counts, &w.spans, e);
    if (s == LAM_OK) s = go(&w, e);
    lmi_vec_free(&w.spans);
    lmi_vec_free(&w.levels);
    if (s == LAM_OK && t->device) lmi_device_unknown(t);
    if (s == LAM_OK) s = sum_up(t, e);
    if (s != LAM_OK) return s;
    forget_unreached(t);
    add_parts(t);
    return lmi_times_stats(t, e);
}

static lam_status make(lam_times **out, const lam_model *m, const lmi_vec *device, lam_error *e) {
    lam_times *t = calloc(1, sizeof *t);
    if (!t) return lmi_nomem(e);
    t->m = m;
    t->device = device;
    lmi_arena_init(&t->arena, ARENA_LIMIT);
    lam_status s = compute(t, e);
    if (s == LAM_OK)
        *out = t;
    else
        lam_times_free(t);
    return s;
}

static const char not_asked[] = "times were not measured; lamina.inspect(model, args, time=True) and "
                                "lamina.capture(model, time=True) measure them";

lam_status lam_times_new(lam_times **out, const lam_model *m, lam_error *e) {
    *out = NULL;
    if (!m) return lmi_fail(e, LAM_USAGE, "lam_times_new", "there is no model to time");
    if (!m->timed) return lmi_fail(e, LAM_USAGE, NULL, "%s", not_asked);
    return make(out, m->timed_by ? m->timed_by : m, NULL, e);
}

lam_status lam_device_times_new(lam_times **out, const lam_model *m, lam_error *e) {
    *out = NULL;
    if (!m) return lmi_fail(e, LAM_USAGE, "lam_device_times_new", "there is no model to time");
    if (!lam_model_device_timed(m))
        return lmi_fail(e, LAM_USAGE, NULL, "no device's clock was read while the model ran");
    const lam_model *timed = m->timed_by ? m->timed_by : m;
    return make(out, timed, &timed->device->spans, e);
}

lam_status lmi_times_of(lam_costs *c, lam_error *e) {
    if (!c->model->timed) return LAM_OK;
    if (c->model->timed_by) {
        c->slots = lmi_alloc(&c->arena, 1, sizeof *c->slots);
        if (!c->slots) return lmi_nomem(e);
        LAM_TRY(find_call_slots(c->model, &c->arena, c->slots, e));
    }
    LAM_TRY(lam_times_new(&c->times, c->model, e));
    return lam_model_device_timed(c->model) ? lam_device_times_new(&c->device_times, c->model, e) : LAM_OK;
}

lam_times *lmi_times_copy(const lam_times *of) {
    lam_times *t = malloc(sizeof *t);
    if (!t) return NULL;
    *t = *of;
    lmi_arena_init(&t->arena, UINT64_MAX);
    return t;
}

void lam_times_free(lam_times *t) {
    if (!t) return;
    lmi_arena_free(&t->arena);
    free(t);
}
