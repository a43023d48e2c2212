/* SPDX-License-Identifier: Apache-2.0
 *
 * The origin of NaN and Inf. Records are read in the order in which they were made. A value was born in
 * a call that returned a bad value and received none; if inner calls, or their arguments, account for
 * it, it was born there. For the own work of a layer it is known between which inner calls. -Inf alone
 * is mostly a mask: it is held back until it leads to something worse. Gradients are no masks. */
#include "analyse/run/health.h"

#include <stdlib.h>

typedef struct walk {
    lam_health *h;
    const lam_model *m;
    lam_error *e;
    lmi_arena scratch;
    bool *tainted;   /* the call received or made a bad value */
    int32_t *held;   /* per call: the first argument with -Inf alone; -1: none */
    int32_t *masked; /* per call: the result with -Inf alone; -1: none */
    int32_t *by_op;  /* per call: its first bad operator that is in no finding yet; last: outside */
    int32_t n_origins, *by_origin; /* per origin: the operator or node that made it; -1 none */
    bool *found;                   /* per origin: that node is in a finding */
    bool *counted[2];  /* per place: counted among those that pass a value on, forward and backward */
    int32_t leader[2]; /* the finding that counts them; -1 */
    bool out_bad;      /* an outermost call returned a bad value */
    int32_t node;      /* of this backward pass the first node that made a bad value; -1 */
    bool spread;       /* a node of it received a bad value */
    bool weights;      /* of a file, of which no call has values */
    int32_t calls;     /* the calls that had begun at the last node */
} walk;

static const lam_bad *bad_at(const walk *w, int32_t i) { return lam_model_bad(w->m, i); }
static int32_t parent_of(const walk *w, int32_t call) { return w->m->events[call].parent; }
static bool is_mask(const lam_nonfinite *f) { return f->nan == 0 && f->inf > 0 && f->inf == f->negative; }
static bool is_bad(const lam_nonfinite *f) { return f->nan > 0 || f->inf > f->negative; }
static bool is_again(const walk *w, int32_t call) { return w->m->events[call].flags & LAM_CALL_AGAIN; }

static void raise_to(uint8_t *state, int32_t call, lam_health_state to) {
    if (call >= 0 && state[call] < to) state[call] = (uint8_t)to;
}

/* positions between calls */

/* The last call inside `parent` that began before `limit`; -1: none. */
static int32_t child_before(const walk *w, int32_t parent, int32_t limit) {
    for (int32_t i = limit - 1; i > parent; i--)
        if (parent_of(w, i) == parent) return i;
    return -1;
}

/* The first call inside `parent` that began at `from` or later; -1: none. */
static int32_t child_after(const walk *w, int32_t parent, int32_t from) {
    for (int32_t i = from > parent ? from : parent + 1; i < w->m->n_events; i++) {
        if (parent_of(w, i) == parent) return i;
        if (parent_of(w, i) < parent) return -1;
    }
    return -1;
}

/* -- findings ------------------------------------------------------------------------------------------ */

static int32_t place_of(const walk *w, int32_t call) { return call < 0 ? -1 : w->m->events[call].place; }

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool same_finding(const walk *w, const lam_finding *a, const lam_finding *b) {
    return a->place == b->place && a->phase == b->phase && a->own == b->own && a->input == b->input &&
           a->check == b->check && place_of(w, a->before) == place_of(w, b->before) &&
           place_of(w, a->after) == place_of(w, b->after) && same_text(a->owned, b->owned) &&
           same_text(a->op, b->op) &&
           (!a->check || same_text(bad_at(w, a->bad)->text, bad_at(w, b->bad)->text));
}

/* A finding with the same place and kind as an earlier one is not added. */
static lam_status find(walk *w, lam_finding f) {
    lam_finding *all = w->h->findings.data;
    if (!w->weights) f.place = place_of(w, f.call);
    f.times = 1;
    for (size_t i = 0; i < w->h->findings.n; i++) {
        if (!same_finding(w, &all[i], &f)) continue;
        all[i].times++;
        return LAM_OK;
    }
    LAM_TRY(lmi_vec_put(&w->h->findings, &f, w->e));
    int side = f.phase == LAM_BACKWARD;
    if (!f.check && w->leader[side] < 0) w->leader[side] = (int32_t)w->h->findings.n - 1;
    return LAM_OK;
}

static bool found_any(const walk *w) { return w->leader[0] >= 0 || w->leader[1] >= 0; }

/* A layer without children that passes a value on counts once, for the first finding. */
static void pass_on(walk *w, int32_t call, int side) {
    if (call < 0) return;
    raise_to(side ? w->h->backward : w->h->forward, call, LAM_HEALTH_PASSED);
    const lam_event *ev = &w->m->events[call];
    if (ev->n_children_called || w->leader[side] < 0 || w->counted[side][ev->place]) return;
    lam_finding *all = w->h->findings.data;
    if (all[w->leader[side]].place == ev->place) return;
    w->counted[side][ev->place] = true;
    all[w->leader[side]].passed++;
}

/* -- the forward --------------------------------------------------------------------------------------- */

/* The last call inside `parent` that began before `limit` and returned -Inf alone; -1: none. */
static int32_t masked_in(const walk *w, int32_t parent, int32_t limit) {
    for (int32_t i = limit - 1; i > parent; i--)
        if (parent_of(w, i) == parent && w->masked[i] >= 0) return i;
    return -1;
}

/* If the operators of call `c` itself made no bad value: the last inner call, begun before `limit`, with
 * an operator that did and is in no finding, for example since its result is hidden in a generator. */
static int32_t to_blame(const walk *w, int32_t c, int32_t limit) {
    if (w->by_op[c] >= 0) return c;
    for (int32_t i = limit - 1; i > c; i--)
        if (w->by_op[i] >= 0 && parent_of(w, i) == c) return i;
    return c;
}

/* The operator that made a record's value; -1: unknown. */
static int32_t made_by(const walk *w, int32_t i, lam_bad_side side) {
    const int32_t origin = bad_at(w, i)->origin, by = origin < w->n_origins ? w->by_origin[origin] : -1;
    return by >= 0 && bad_at(w, by)->side == side ? by : -1;
}

/* The operator that made a record's value, if it ran inside a call: then its arguments are known; else -1. */
static int32_t op_of(const walk *w, int32_t i) {
    const int32_t by = made_by(w, i, LAM_BAD_OP);
    return by >= 0 && bad_at(w, by)->call >= 0 && !bad_at(w, by)->fed ? by : -1;
}

/* A value was born in the own work of call `c`, before call `limit` began. If an inner result of -Inf
 * alone was held back, the value began there or, if that came from an argument, before it. Inf alone
 * comes from an overflow, not from -Inf. If the operator is known, the value began in it. `in`: the call
 * that it belongs to. */
static lam_status born(walk *w, int32_t c, int32_t bad, int32_t limit, int32_t after, int32_t *in) {
    const lam_nonfinite *f = &bad_at(w, bad)->found;
    int32_t by = op_of(w, bad);
    for (int32_t inner; by < 0 && (f->nan || is_mask(f)) && (inner = masked_in(w, c, limit)) >= 0;) {
        bad = w->masked[inner];
        w->masked[inner] = after = -1;
        if (w->held[inner] >= 0) {
            bad = w->held[inner];
            limit = after = inner;
            continue;
        }
        limit = bad_at(w, bad)->calls;
        c = inner;
    }
    if (by < 0) by = w->by_op[c = to_blame(w, c, limit)];
    const lam_bad *op = by >= 0 ? bad_at(w, by) : NULL;
    if (op) c = op->call;
    bool own = w->m->events[c].n_children_called > 0;
    if (op) {
        bad = by;
        limit = op->calls;
        if (own) after = child_after(w, c, limit);
    }
    w->by_op[c] = -1;
    *in = c;
    raise_to(w->h->forward, c, LAM_HEALTH_BORN);
    return find(w, (lam_finding){.phase = LAM_FORWARD,
                                 .call = c,
                                 .before = own ? child_before(w, c, limit) : -1,
                                 .after = own ? after : -1,
                                 .own = own,
                                 .op = op ? op->name : NULL,
                                 .explained = is_again(w, c) && found_any(w),
                                 .bad = bad});
}

static lam_status came_in(walk *w, int32_t call, int32_t bad) {
    if (is_again(w, call) || w->out_bad) return LAM_OK; /* the model returned it before */
    return find(w, (lam_finding){.phase = LAM_FORWARD,
                                 .call = call,
                                 .before = -1,
                                 .after = -1,
                                 .input = true,
                                 .bad = bad});
}

static void taint(walk *w, int32_t call) {
    w->tainted[call] = true;
    if (parent_of(w, call) >= 0) w->tainted[parent_of(w, call)] = true;
}

/* An argument of call k was already bad. */
static lam_status before_call(walk *w, int32_t k, int32_t bad) {
    int32_t p = parent_of(w, k);
    if (p < 0) return came_in(w, k, bad);
    int32_t in;
    return w->tainted[p] ? LAM_OK : born(w, p, bad, k, k, &in);
}

static bool is_softmax(const walk *w, int32_t call) {
    const char *kind = lam_word_kind(w->m->modules[w->m->events[call].module].word);
    return kind && (strcmp(kind, "softmax") == 0 || strcmp(kind, "log_softmax") == 0);
}

/* -Inf in the arguments of a softmax was a mask. */
static void were_masks(walk *w, int32_t softmax) {
    for (int32_t inner; (inner = masked_in(w, parent_of(w, softmax), softmax)) >= 0;) w->masked[inner] = -1;
}

static lam_status on_input(walk *w, int32_t i, const lam_bad *bad) {
    int32_t k = bad->call;
    const lam_event *ev = &w->m->events[k];
    if (!is_bad(&bad->found)) {
        bool first = bad->index >= 0 && bad->index < ev->n_in && ev->in[bad->index].position == 0;
        if (first && is_mask(&bad->found) && is_softmax(w, k))
            were_masks(w, k);
        else if (first && is_mask(&bad->found))
            w->held[k] = i;
        return LAM_OK;
    }
    if (w->tainted[k]) return LAM_OK; /* another of its inputs */
    LAM_TRY(before_call(w, k, i));
    taint(w, k);
    return LAM_OK;
}

/* The first argument of a call with bad results was -Inf: it was no mask, and the value began at its
 * origin. */
static lam_status was_no_mask(walk *w, int32_t k) {
    while (parent_of(w, k) >= 0 && w->held[parent_of(w, k)] >= 0) k = parent_of(w, k);
    return before_call(w, k, w->held[k]);
}

/* Call k returned a bad value. */
static lam_status gave(walk *w, int32_t i, const lam_bad *bad) {
    int32_t k = bad->call;
    if (w->h->forward[k] >= LAM_HEALTH_PASSED) { /* another of its results, or it was born in the own work */
        taint(w, k);
        return LAM_OK;
    }
    const bool known = op_of(w, i) >= 0;
    bool passes = w->tainted[k] || (!known && w->held[k] >= 0);
    if (!w->tainted[k]) {
        int32_t in = k;
        if (passes)
            LAM_TRY(was_no_mask(w, k));
        else
            LAM_TRY(born(w, k, i, bad->calls, -1, &in));
        passes = passes || (known && in != k);
    }
    if (passes) pass_on(w, k, 0);
    taint(w, k);
    return LAM_OK;
}

static lam_status on_output(walk *w, int32_t i, const lam_bad *bad) {
    int32_t k = bad->call, p = parent_of(w, k);
    if (!is_bad(&bad->found) && (p >= 0 || w->tainted[k])) {
        if (w->masked[k] < 0) w->masked[k] = i;
        return LAM_OK;
    }
    if (p < 0) w->out_bad = true;
    return gave(w, i, bad);
}

/* Every layer around the call may report the same written memory. */
static lam_status on_written(walk *w, int32_t i, const lam_bad *bad) {
    if (!is_bad(&bad->found)) return LAM_OK;
    LAM_TRY(gave(w, i, bad));
    for (int32_t k = bad->call; k >= 0; k = parent_of(w, k)) w->tainted[k] = true;
    return LAM_OK;
}

/* The record of an owned tensor comes before those of the results of its module's call. */
static lam_status on_owned(walk *w, int32_t i, const lam_bad *bad) {
    int32_t k = bad->call;
    if (w->tainted[k] || w->held[k] >= 0) return LAM_OK;
    raise_to(w->h->forward, k, LAM_HEALTH_BORN);
    taint(w, k);
    return find(w, (lam_finding){.phase = LAM_FORWARD,
                                 .call = k,
                                 .before = -1,
                                 .after = -1,
                                 .owned = bad->name,
                                 .explained = found_any(w),
                                 .bad = i});
}

static void on_op(walk *w, int32_t i, const lam_bad *bad) {
    int32_t *first = &w->by_op[bad->call < 0 ? w->m->n_events : bad->call];
    if (!bad->fed && !bad->gone && *first < 0) *first = i;
}

/* -- backward passes ----------------------------------------------------------------------------------- */

static bool explains(const walk *w, int32_t call) {
    return call < 0 ? w->leader[0] >= 0 : w->h->forward[call] >= LAM_HEALTH_PASSED;
}

/* Adds a finding for an operator outside every layer: no later record shows its effect. */
static lam_status outside(walk *w) {
    int32_t i = w->by_op[w->m->n_events];
    if (i < 0 || w->leader[0] >= 0) return LAM_OK;
    return find(w, (lam_finding){.phase = LAM_FORWARD,
                                 .call = -1,
                                 .before = -1,
                                 .after = -1,
                                 .op = bad_at(w, i)->name,
                                 .bad = i});
}

/* The values that a backward pass begins with, or its loss makes, may come from an operator after the
 * last call. */
static lam_status loss_first(walk *w, int32_t i, int32_t call) {
    int32_t op = w->by_op[w->m->n_events];
    bool since = call < 0 && op >= 0 && bad_at(w, op)->calls == bad_at(w, i)->calls;
    return since ? outside(w) : LAM_OK;
}

static lam_status born_in_node(walk *w, int32_t i) {
    const lam_bad *bad = bad_at(w, i);
    if (w->found[bad->origin]) return LAM_OK;
    w->found[bad->origin] = bad->origin > 0;
    LAM_TRY(loss_first(w, i, bad->call));
    raise_to(w->h->backward, bad->call, LAM_HEALTH_BORN);
    return find(w, (lam_finding){.phase = LAM_BACKWARD,
                                 .call = bad->call,
                                 .before = -1,
                                 .after = -1,
                                 .own = bad->call >= 0 && w->m->events[bad->call].n_children_called > 0,
                                 .op = bad->name,
                                 .explained = explains(w, bad->call),
                                 .bad = i});
}

/* No operator in the node made its value: the previous node did or, if there is none, the pass began with
 * it. */
static lam_status born_before_node(walk *w, int32_t i) {
    const lam_bad *bad = bad_at(w, i);
    bool began = !bad->inside;
    LAM_TRY(loss_first(w, i, began ? -1 : bad->from));
    if (!began) raise_to(w->h->backward, bad->from, LAM_HEALTH_BORN);
    return find(w, (lam_finding){.phase = LAM_BACKWARD,
                                 .call = began ? bad->call : bad->from,
                                 .before = -1,
                                 .after = -1,
                                 .own = !began && bad->from >= 0 &&
                                        w->m->events[bad->from].n_children_called > 0,
                                 .input = began,
                                 .op = bad->inside,
                                 .explained = began ? w->leader[0] >= 0 : explains(w, bad->from),
                                 .bad = i});
}

/* True if forward calls that are no repetitions came in between: this is another pass. */
static bool is_new_pass(const walk *w, int32_t calls) {
    for (int32_t i = w->calls; i < calls; i++)
        if (!is_again(w, i)) return true;
    return false;
}

static lam_status on_node(walk *w, int32_t i, const lam_bad *bad) {
    if (is_new_pass(w, bad->calls)) {
        w->node = -1;
        w->spread = false;
    }
    w->calls = bad->calls;
    if (!bad->fed) {
        if (w->spread && !bad->gone) return born_in_node(w, i);
        if (w->node < 0 || (bad_at(w, w->node)->gone && !bad->gone)) w->node = i;
        return LAM_OK;
    }
    const int32_t by = made_by(w, i, LAM_BAD_NODE);
    if (by >= 0 && !bad_at(w, by)->fed)
        LAM_TRY(born_in_node(w, by));
    else if (!w->spread)
        LAM_TRY(w->node >= 0 ? born_in_node(w, w->node) : born_before_node(w, i));
    w->spread = true;
    pass_on(w, bad->call, 1);
    return LAM_OK;
}

/* all records */

static lam_status on_check(walk *w, int32_t i, const lam_bad *bad) {
    return find(w, (lam_finding){.phase = bad->phase,
                                 .call = bad->call,
                                 .before = -1,
                                 .after = -1,
                                 .check = true,
                                 .bad = i});
}

/* A tensor of a file: no call had it. */
static lam_status on_weight(walk *w, int32_t i, const lam_bad *bad) {
    if (bad->side != LAM_BAD_OWNED) return LAM_OK;
    return find(w, (lam_finding){.phase = LAM_FORWARD,
                                 .call = -1,
                                 .place = bad->place,
                                 .before = -1,
                                 .after = -1,
                                 .owned = bad->name,
                                 .bad = i});
}

static lam_status one(walk *w, int32_t i) {
    const lam_bad *bad = bad_at(w, i);
    if (w->weights) return on_weight(w, i, bad);
    bool of_call = bad->side != LAM_BAD_OP && bad->side != LAM_BAD_NODE;
    if (of_call && bad->call < 0) return LAM_OK;
    switch (bad->side) {
    case LAM_BAD_INPUT: return on_input(w, i, bad);
    case LAM_BAD_OUTPUT: return on_output(w, i, bad);
    case LAM_BAD_WRITTEN: return on_written(w, i, bad);
    case LAM_BAD_OWNED: return on_owned(w, i, bad);
    case LAM_BAD_OP: on_op(w, i, bad); return LAM_OK;
    case LAM_BAD_NODE: return on_node(w, i, bad);
    case LAM_BAD_CHECK: return on_check(w, i, bad);
    case LAM_BAD_GRAD_INPUT:
    case LAM_BAD_GRAD_OUTPUT: raise_to(w->h->backward, bad->call, LAM_HEALTH_PASSED); return LAM_OK;
    case LAM_BAD_UNSEEN:
    case LAM_N_BAD_SIDES: break;
    }
    return LAM_OK;
}

static void first_states(lam_health *h, bool weights) {
    const lam_model *m = h->m;
    for (int32_t i = 0; i < m->n_events; i++) {
        const bool seen = m->events[i].n_out > 0 && !weights;
        h->forward[i] = seen ? LAM_HEALTH_FINE : LAM_HEALTH_UNKNOWN;
        h->backward[i] = h->checked->gradients ? LAM_HEALTH_FINE : LAM_HEALTH_UNKNOWN;
    }
    for (int32_t i = 0; i < lam_model_n_bad(m); i++) {
        const lam_bad *bad = lam_model_bad(m, i);
        if (bad->side == LAM_BAD_UNSEEN && bad->call >= 0) h->forward[bad->call] = LAM_HEALTH_UNKNOWN;
    }
}

/* The record of an origin comes before the records of its effects. */
static void note_origins(walk *w) {
    for (int32_t i = 0; i < lam_model_n_bad(w->m); i++) {
        const lam_bad *bad = bad_at(w, i);
        const bool makes = bad->side == LAM_BAD_OP || bad->side == LAM_BAD_NODE;
        if (makes && bad->origin > 0 && w->by_origin[bad->origin] < 0) w->by_origin[bad->origin] = i;
    }
}

static lam_status allocate(walk *w) {
    const lam_model *m = w->m;
    uint64_t n = (uint64_t)m->n_events + 1, places = (uint64_t)m->n_places + 1;
    lam_health *h = w->h;
    h->forward = lmi_alloc(&h->arena, n, 1);
    h->backward = lmi_alloc(&h->arena, n, 1);
    w->tainted = lmi_alloc(&w->scratch, n, sizeof *w->tainted);
    w->held = lmi_alloc_none(&w->scratch, m->n_events + 1);
    w->masked = lmi_alloc_none(&w->scratch, m->n_events + 1);
    w->by_op = lmi_alloc_none(&w->scratch, m->n_events + 1);
    for (int32_t i = 0; i < lam_model_n_bad(m); i++)
        if (bad_at(w, i)->origin >= w->n_origins) w->n_origins = bad_at(w, i)->origin + 1;
    w->by_origin = lmi_alloc_none(&w->scratch, w->n_origins);
    w->found = lmi_alloc(&w->scratch, (uint64_t)w->n_origins + 1, sizeof *w->found);
    for (int i = 0; i < 2; i++) w->counted[i] = lmi_alloc(&w->scratch, places, sizeof *w->counted[i]);
    if (!h->forward || !h->backward || !w->tainted || !w->held || !w->masked || !w->by_op || !w->by_origin ||
        !w->found || !w->counted[0] || !w->counted[1])
        return lmi_nomem(w->e);
    note_origins(w);
    return LAM_OK;
}

/* Places of which nothing is known yet. */
enum { NOTHING = 0xff };

/* From bad to good; unknown is worse than fine. */
static int badness(lam_health_state s) {
    return s == LAM_HEALTH_BORN ? 3 : s == LAM_HEALTH_PASSED ? 2 : s == LAM_HEALTH_UNKNOWN ? 1 : 0;
}

uint8_t lmi_worse_health(uint8_t a, uint8_t b) {
    return badness((lam_health_state)b) > badness((lam_health_state)a) ? b : a;
}

static uint8_t worse_of(uint8_t a, uint8_t b) { return a == NOTHING ? b : lmi_worse_health(a, b); }

/* The worst state of the calls of each place. */
void lmi_health_places(lam_health *h) {
    for (int side = 0; side < 2; side++) {
        const uint8_t *state = side ? h->backward : h->forward;
        uint8_t *to = h->places[side];
        memset(to, NOTHING, (size_t)h->m->n_places);
        for (int32_t i = 0; i < h->m->n_events; i++) {
            uint8_t *at = &to[h->m->events[i].place];
            *at = worse_of(*at, state[i]);
        }
        for (int32_t i = 0; i < h->m->n_places; i++)
            if (to[i] == NOTHING) to[i] = LAM_HEALTH_UNKNOWN;
    }
}

static uint8_t state_of(const lam_bad *bad) {
    return bad->side == LAM_BAD_OWNED ? LAM_HEALTH_BORN : LAM_HEALTH_UNKNOWN;
}

/* The state of each tensor of a file. Findings are in the order of a module's tensors: `next` has, for each
 * module, where the search for its next one begins. */
static void states_of_tensors(const lam_model *m, uint8_t *state, int32_t *next) {
    for (int32_t i = 0; i < lam_model_n_bad(m); i++) {
        const lam_bad *bad = lam_model_bad(m, i);
        const int32_t module = m->places[bad->place].module;
        const lam_module *mod = &m->modules[module];
        for (int32_t k = 0; k < mod->n_owned; k++, next[module]++) {
            const lam_owned *o = &mod->owned[next[module] % mod->n_owned];
            if (!same_text(o->name, bad->name)) continue;
            state[o->tensor] = state_of(bad);
            break;
        }
    }
}

/* The places of a model of a file, by the tensors of their modules; without any its health is unknown. */
static lam_status places_of_weights(walk *w) {
    const lam_model *m = w->m;
    uint8_t *to = w->h->places[0], *state = lmi_alloc(&w->scratch, (uint64_t)m->n_tensors + 1, 1);
    int32_t *next = lmi_alloc(&w->scratch, (uint64_t)m->n_modules + 1, sizeof *next);
    if (!state || !next) return lmi_nomem(w->e);
    memset(state, LAM_HEALTH_FINE, (size_t)m->n_tensors);
    memset(to, NOTHING, (size_t)m->n_places);
    memset(w->h->places[1], LAM_HEALTH_UNKNOWN, (size_t)m->n_places);
    states_of_tensors(m, state, next);
    for (int32_t i = 0; i < m->n_places; i++) {
        const lam_module *mod = &m->modules[m->places[i].module];
        for (int32_t k = 0; k < mod->n_owned; k++) to[i] = worse_of(to[i], state[mod->owned[k].tensor]);
    }
    for (int32_t i = 0; i < lam_model_n_bad(m); i++) { /* also of parts of packed weights */
        const lam_bad *bad = lam_model_bad(m, i);
        to[bad->place] = worse_of(to[bad->place], state_of(bad));
    }
    for (int32_t i = m->n_places; i-- > 1;) { /* a parent comes before its children */
        const uint8_t passed = to[i] == LAM_HEALTH_BORN ? LAM_HEALTH_PASSED : to[i];
        if (passed != NOTHING) to[m->places[i].parent] = worse_of(to[m->places[i].parent], passed);
    }
    for (int32_t i = 0; i < m->n_places; i++)
        if (to[i] == NOTHING) to[i] = LAM_HEALTH_UNKNOWN;
    return LAM_OK;
}

static lam_status by_place(walk *w) {
    for (int side = 0; side < 2; side++) {
        w->h->places[side] = lmi_alloc(&w->h->arena, (uint64_t)w->m->n_places + 1, 1);
        if (!w->h->places[side]) return lmi_nomem(w->e);
    }
    if (w->weights) return places_of_weights(w);
    lmi_health_places(w->h);
    return LAM_OK;
}

static lam_status go(walk *w) {
    LAM_TRY(allocate(w));
    first_states(w->h, w->weights);
    for (int32_t i = 0; i < lam_model_n_bad(w->m); i++) LAM_TRY(one(w, i));
    LAM_TRY(outside(w));
    LAM_TRY(by_place(w));
    return lmi_health_tell(w->h, w->e);
}

static lam_status take_given(lam_health **out, lam_health *h, const lmi_vec *findings, lam_error *e) {
    lam_finding *to = findings->n ? lmi_vec_add(&h->findings, findings->n) : NULL;
    if (findings->n && !to) {
        lam_health_free(h);
        return lmi_nomem(e);
    }
    if (to) memcpy(to, findings->data, findings->n * sizeof *to);
    *out = h;
    return LAM_OK;
}

lam_status lam_health_new(lam_health **out, const lam_model *m, lam_error *e) {
    *out = NULL;
    const lam_checked *looked = lam_model_checked(m);
    if (!looked)
        return lmi_fail(e, LAM_USAGE, NULL, "values were not checked; capture the model with health=True");
    lam_health *h = calloc(1, sizeof *h);
    if (!h) return lmi_nomem(e);
    if (m->given) *h = *m->given->health;
    lmi_arena_init(&h->arena, UINT64_MAX);
    lmi_vec_init(&h->findings, sizeof(lam_finding));
    h->m = m;
    h->checked = looked;
    if (m->given) return take_given(out, h, &m->given->health->findings, e);
    walk w = {.h = h, .m = m, .e = e, .leader = {-1, -1}, .node = -1, .weights = lmi_of_weights(m)};
    lmi_arena_init(&w.scratch, UINT64_MAX);
    lam_status s = go(&w);
    lmi_arena_free(&w.scratch);
    if (s == LAM_OK)
        *out = h;
    else
        lam_health_free(h);
    return s;
}

void lam_health_free(lam_health *h) {
    if (!h) return;
    lmi_vec_free(&h->findings);
    lmi_arena_free(&h->arena);
    free(h);
}

const lam_finding *lam_health_finding(const lam_health *h, int32_t i) {
    return i < 0 ? NULL : lmi_vec_at(&h->findings, (size_t)i);
}

lam_health_state lam_health_of(const lam_health *h, int32_t call, lam_phase phase) {
    if (call < 0 || call >= h->m->n_events) return LAM_HEALTH_UNKNOWN;
    return (lam_health_state)(phase == LAM_FORWARD ? h->forward : h->backward)[call];
}

lam_health_state lam_health_at(const lam_health *h, int32_t place, lam_phase phase) {
    if (place < 0 || place >= h->m->n_places) return LAM_HEALTH_UNKNOWN;
    return (lam_health_state)h->places[phase != LAM_FORWARD][place];
}

const char *lam_health_name(lam_health_state s) {
    static const char *const names[] = {"unknown", "fine", "passed", "born"};
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : names[0];
}

const char *lam_health_sentence(const lam_health *h) { return h->sentence; }
