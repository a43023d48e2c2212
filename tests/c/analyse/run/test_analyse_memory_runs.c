/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of made-up runs: calls in calls, nodes that do some of them again, blocks that come and go. Each
 * moment, call and place is looked at by itself, block by block, and of what a device's allocator says
 * reading by reading. */
#include "kit/oom.h"

#include "kit/draw.h"
#include "kit/net.h"

enum { CALLS = 24, PLACES = 6, BLOCKS = 160, SPANS = CALLS + 8, MOMENTS = 2 * BLOCKS, TENSORS = 3 };

static const int32_t around[PLACES] = {-1, 0, 0, 2, 2, 0};
static const int32_t owners[TENSORS] = {1, 4, -1};

typedef struct made {
    bool nested; /* a layer may call itself; else a node may do calls again */
    int32_t n_calls, parent[CALLS], module[CALLS], caller[CALLS];
    bool again[CALLS];
    int64_t last[CALLS]; /* the moment at which it returned */
    lam_block block[BLOCKS];
    lam_span span[SPANS];
    int32_t n_blocks, n_spans;
    int64_t n;                          /* moments */
    lam_device_bytes said[MOMENTS + 1]; /* by a device's allocator at each */
    lam_memory_row calls[CALLS], places[PLACES];
    int64_t live[MOMENTS + 1], fresh[MOMENTS + 1], when[MOMENTS + 1];
} made;

/* -- what happens ---------------------------------------------------------------------------------------- */

static void come(made *d, int32_t call, lam_phase phase, int64_t order) {
    if (d->n_blocks == BLOCKS) return;
    lam_block *k = &d->block[d->n_blocks++];
    *k = (lam_block){.bytes = draw(0, 500),
                     .order = order,
                     .t0_ns = order ? 1000 + 3 * order : 0,
                     .call = call,
                     .freed_call = -1,
                     .tensor = (int32_t)draw(-3, TENSORS - 1),
                     .phase = (uint8_t)phase,
                     .held = (uint8_t)(draw(0, 3) ? LAM_HELD_OTHER : draw(LAM_HELD_OTHER, LAM_HELD_INPUT)),
                     .flags = draw(0, 9) ? 0 : LAM_BLOCK_ELSEWHERE};
    if (k->tensor < 0) k->tensor = -1;
}

static void act(made *d, int32_t call, lam_phase phase) {
    if (d->n + 1 > MOMENTS || d->n_blocks == BLOCKS) return;
    int32_t i = (int32_t)draw(0, 2 * d->n_blocks);
    d->n++;
    if (i >= d->n_blocks || d->block[i].freed_order) {
        come(d, call, phase, d->n);
    } else {
        d->block[i].freed_order = d->n;
        d->block[i].t1_ns = 1000 + 3 * d->n;
    }
}

/* Spans are told in the order in which they began; that of one that does not end is not told. */
static int32_t begin(made *d, int32_t call, lam_phase phase) {
    d->span[d->n_spans] = (lam_span){d->n, -1, call, (uint8_t)phase};
    return d->n_spans++;
}

/* One done again was first called by whom the last call of its layer was. */
static int32_t caller_of(const made *d, int32_t me) {
    if (d->parent[me] >= 0 || !d->again[me]) return d->parent[me];
    for (int32_t i = me - 1; i > 0; i--)
        if (d->module[i] == d->module[me] && !d->again[i]) return d->parent[i];
    return -1;
}

static void call(made *d, int32_t parent, int32_t module, bool again) {
    const int32_t me = d->n_calls++;
    const lam_phase phase = again ? LAM_RECOMPUTE : LAM_FORWARD;
    const int32_t span = begin(d, me, phase);
    d->parent[me] = parent;
    d->module[me] = module;
    d->again[me] = again;
    d->caller[me] = caller_of(d, me);
    for (int64_t k = draw(0, 5); k > 0; k--) {
        const int32_t least = d->nested ? 0 : module + 1; /* of those in it */
        if (draw(0, 1) || d->n_calls == CALLS || least == PLACES)
            act(d, me, phase);
        else
            call(d, me, (int32_t)draw(least, PLACES - 1), again);
    }
    const bool ends = parent >= 0 || again || draw(0, 3);
    d->last[me] = ends ? d->n : INT64_MAX;
    if (ends) d->span[span].last = d->n;
}

static void backward(made *d) {
    const int32_t n = d->n_calls;
    for (int64_t k = draw(0, 6); k > 0; k--) {
        const int32_t of = (int32_t)draw(-1, n - 1);
        const int32_t span = begin(d, of, LAM_BACKWARD);
        for (int64_t i = draw(0, 4); i > 0; i--) act(d, of, LAM_BACKWARD);
        if (of > 0 && !d->nested && d->n_calls < CALLS && draw(0, 1)) call(d, -1, d->module[of], true);
        act(d, of, LAM_BACKWARD);
        d->span[span].last = d->n;
    }
}

static lam_model *build(made *d) {
    net n = net_new();
    for (int32_t i = 0; i < PLACES; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", (int)i);
        net_place(&n, around[i], i ? name : "", net_module(&n, "Layer", 0));
    }
    for (int32_t i = 0; i < TENSORS; i++) {
        int32_t t = net_tensor(&n, true, SH(2));
        if (owners[i] >= 0) net_owns(&n, owners[i], "weight", t);
    }
    for (int32_t i = 0; i < d->n_calls; i++) {
        const lam_call_info c = {.module = d->module[i],
                                 .parent = d->parent[i],
                                 .flags = d->again[i] ? LAM_CALL_AGAIN : 0};
        NET_OK(&n, lam_build_call(n.b, &c, NULL, &n.e));
    }
    NET_OK(&n, lam_build_memory(n.b, &(lam_memory_info){"made up", 3, 5, 7, true}, &n.e));
    for (int32_t i = 0; i < d->n_blocks; i++) NET_OK(&n, lam_build_block(n.b, &d->block[i], &n.e));
    for (int64_t i = 0; i <= d->n; i++) NET_OK(&n, lam_build_device_bytes(n.b, &d->said[i], &n.e));
    for (int32_t i = 0; i < d->n_spans; i++) {
        if (d->span[i].last < 0) continue;
        NET_OK(&n, lam_build_span(n.b, &d->span[i], &n.e));
        NET_OK(&n, lam_build_device_use(n.b, &d->span[i], &n.e));
    }
    return net_done(&n);
}

static void say(lam_device_bytes *is, const lam_device_bytes *was) {
    const int64_t come = draw(0, 300), gone = draw(0, was->now + come);
    is->now = was->now + come - gone;
    is->peak = (is->now > was->now ? is->now : was->now) + draw(0, 50);
    is->allocated = was->allocated + come;
    is->freed = was->freed + gone;
    is->t_ns = was->t_ns + draw(1, 9);
}

static lam_model *made_up(made *d) {
    *d = (made){.nested = draw(0, 2) == 0};
    for (int64_t k = draw(0, 8); k > 0; k--) come(d, -1, LAM_FORWARD, 0);
    for (int64_t k = draw(1, 2); k > 0 && d->n_calls < CALLS; k--) {
        for (int64_t i = draw(0, 3); i > 0; i--) act(d, -1, LAM_FORWARD);
        call(d, -1, 0, false);
    }
    backward(d);
    for (int64_t i = 0; i <= d->n; i++)
        say(&d->said[i], i ? &d->said[i - 1] : &(lam_device_bytes){9, 9, 99, 90, 5});
    return build(d);
}

/* -- what is to be told of it ---------------------------------------------------------------------------- */

static bool elsewhere(const lam_block *k) { return k->flags & LAM_BLOCK_ELSEWHERE; }

static bool there(const lam_block *k, int64_t at) {
    return !elsewhere(k) && k->order <= at && (!k->freed_order || k->freed_order > at);
}

static bool outlives(const made *d, const lam_block *k, int32_t call) {
    return !k->freed_order || (d->last[call] != INT64_MAX && k->freed_order > d->last[call]);
}

static lam_held held_as(const made *d, const lam_block *k) {
    if (k->held != LAM_HELD_OTHER) return (lam_held)k->held;
    if (k->phase == LAM_BACKWARD) return LAM_HELD_BACKWARD;
    if (k->call < 0) return LAM_HELD_OTHER;
    return outlives(d, k, k->call) ? LAM_HELD_ACTIVATION : LAM_HELD_WORKSPACE;
}

static void look_at_moments(made *d) {
    for (int32_t i = 0; i < d->n_blocks; i++) {
        const lam_block *k = &d->block[i];
        if (k->order) d->when[k->order] = k->t0_ns;
        if (k->freed_order) d->when[k->freed_order] = k->t1_ns;
        for (int64_t at = 0; at <= d->n; at++) {
            if (!there(k, at)) continue;
            d->live[at] += k->bytes;
            if (k->order) d->fresh[at] += k->bytes;
        }
    }
}

static void own_of(made *d, int32_t call, lam_phase p) {
    lam_memory_use *own = &d->calls[call].own[p];
    for (int32_t i = 0; i < d->n_blocks; i++) {
        const lam_block *k = &d->block[i];
        if (k->call != call || k->phase != p || !k->order || elsewhere(k)) continue;
        own->allocated += k->bytes;
        if (k->freed_order) own->freed += k->bytes;
        if (p == LAM_BACKWARD ? !k->freed_order : outlives(d, k, call)) own->retained += k->bytes;
    }
    for (int32_t i = 0; i < d->n_spans; i++) {
        const lam_span *s = &d->span[i];
        for (int64_t at = s->first; s->call == call && s->phase == p && at <= s->last; at++)
            if (d->live[at] - d->live[s->first] > own->peak) own->peak = d->live[at] - d->live[s->first];
    }
}

/* What a call itself, in its own phase, left behind: the memory of those in it that outlives all of them. */
static int64_t left_by(const made *d, int32_t call, lam_phase p) {
    int64_t left = 0;
    for (int32_t i = 0; i < d->n_blocks; i++) {
        const lam_block *k = &d->block[i];
        if (k->phase != p || !k->order || elsewhere(k)) continue;
        int32_t at = k->call;
        while (at >= 0 && at != call && outlives(d, k, at)) at = d->parent[at];
        if (at == call && outlives(d, k, call)) left += k->bytes;
    }
    return left;
}

static bool is_in(const made *d, int32_t inner, int32_t outer) {
    while (inner >= 0 && inner != outer) inner = d->caller[inner];
    return inner == outer;
}

static void total_of(made *d, int32_t call, lam_phase p, bool by_device) {
    lam_memory_use *total = &d->calls[call].total[p];
    const bool itself = p == (d->again[call] ? LAM_RECOMPUTE : LAM_FORWARD);
    *total = (lam_memory_use){0};
    if (itself) {
        total->retained = by_device ? 0 : left_by(d, call, p);
        total->peak = d->calls[call].own[p].peak;
    }
    for (int32_t i = 0; i < d->n_calls; i++) {
        const lam_memory_use *own = &d->calls[i].own[p];
        if (!is_in(d, i, call)) continue;
        total->allocated += own->allocated;
        total->freed += own->freed;
        if (by_device) total->retained += own->retained;
        if (itself || (p == LAM_RECOMPUTE && d->parent[i] >= 0)) continue;
        if (!by_device) total->retained += p == LAM_RECOMPUTE ? left_by(d, i, p) : own->retained;
        if (own->peak > total->peak) total->peak = own->peak;
    }
}

static void add(lam_memory_use *to, const lam_memory_use *use) {
    to->allocated += use->allocated;
    to->freed += use->freed;
    to->retained += use->retained;
    if (use->peak > to->peak) to->peak = use->peak;
}

/* From what each call took itself. */
static void sum_up(made *d, bool by_device) {
    memset(d->places, 0, sizeof d->places);
    for (int32_t i = 0; i < d->n_calls; i++) {
        lam_memory_row *at = &d->places[d->module[i]];
        bool inside = false;
        for (int32_t k = d->parent[i]; k >= 0; k = d->parent[k])
            inside = inside || d->module[k] == d->module[i];
        for (int p = 0; p < LAM_N_PHASES; p++) {
            total_of(d, i, (lam_phase)p, by_device);
            add(&at->own[p], &d->calls[i].own[p]);
            if (!inside) add(&at->total[p], &d->calls[i].total[p]);
        }
    }
}

static void look(made *d) {
    look_at_moments(d);
    for (int32_t i = 0; i < d->n_calls; i++)
        for (int p = 0; p < LAM_N_PHASES; p++) own_of(d, i, (lam_phase)p);
    sum_up(d, false);
}

/* The span that began last of those that are open from one reading to the next. */
static const lam_span *innermost(const made *d, int64_t at) {
    const lam_span *in = NULL;
    for (int32_t i = 0; i < d->n_spans; i++) {
        const lam_span *s = &d->span[i];
        if (s->first < at && s->last >= at && (!in || s->first >= in->first)) in = s;
    }
    return in;
}

static void look_at_device(made *d, lam_memory_totals *t) {
    const lam_device_bytes *said = d->said, *last = &said[d->n];
    memset(d->calls, 0, sizeof d->calls);
    *t = (lam_memory_totals){.before = said->now, .peak = said->now, .peak_ns = said->t_ns, .peak_call = -1};
    t->allocated = last->allocated - said->allocated;
    t->freed = last->freed - said->freed;
    for (int64_t at = 1; at <= d->n; at++) {
        const lam_span *in = innermost(d, at);
        lam_memory_use *own = in && in->call >= 0 ? &d->calls[in->call].own[in->phase] : NULL;
        if (said[at].peak > t->peak) {
            t->peak = said[at].peak;
            t->peak_order = at;
            t->peak_ns = said[at].t_ns;
            t->peak_call = in ? in->call : -1;
            t->peak_phase = in ? in->phase : LAM_FORWARD;
        }
        if (!own) continue;
        own->allocated += said[at].allocated - said[at - 1].allocated;
        own->freed += said[at].freed - said[at - 1].freed;
        own->retained += said[at].now - said[at - 1].now;
    }
    for (int32_t i = 0; i < d->n_spans; i++) {
        const lam_span *s = &d->span[i];
        for (int64_t at = s->first + 1; s->call >= 0 && at <= s->last; at++) {
            int64_t *peak = &d->calls[s->call].own[s->phase].peak, above = said[at].peak - said[s->first].now;
            if (above > *peak) *peak = above;
        }
    }
    sum_up(d, true);
}

/* -- and is ---------------------------------------------------------------------------------------------- */

static void check_row(const lam_memory_row *got, const lam_memory_row *want) {
    for (int p = 0; p < LAM_N_PHASES; p++)
        for (int k = 0; k < 2; k++) {
            const lam_memory_use *g = k ? &got->total[p] : &got->own[p];
            const lam_memory_use *w = k ? &want->total[p] : &want->own[p];
            assert_int_equal(g->allocated, w->allocated);
            assert_int_equal(g->freed, w->freed);
            assert_int_equal(g->retained, w->retained);
            assert_int_equal(g->peak, w->peak);
        }
}

static void check_totals(const made *d, const lam_memory_totals *t) {
    lam_memory_totals want = {.peak_call = -1};
    for (int32_t i = 0; i < d->n_blocks; i++) {
        const lam_block *k = &d->block[i];
        if (elsewhere(k)) {
            want.elsewhere += k->bytes;
            continue;
        }
        *(k->order ? &want.allocated : &want.before) += k->bytes;
        if (k->order && k->freed_order) want.freed += k->bytes;
    }
    for (int64_t at = 0; at <= d->n; at++) {
        if (d->live[at] > d->live[want.peak_order]) want.peak_order = at;
        if (d->fresh[at] > want.peak_allocated) want.peak_allocated = d->fresh[at];
    }
    for (int32_t i = 0; want.peak_order && i < d->n_blocks; i++) {
        if (d->block[i].order != want.peak_order) continue;
        want.peak_call = d->block[i].call;
        want.peak_phase = d->block[i].phase;
    }
    assert_int_equal(t->before, want.before);
    assert_int_equal(t->allocated, want.allocated);
    assert_int_equal(t->freed, want.freed);
    assert_int_equal(t->elsewhere, want.elsewhere);
    assert_int_equal(t->peak, d->live[want.peak_order]);
    assert_int_equal(t->peak_allocated, want.peak_allocated);
    assert_int_equal(t->peak_order, want.peak_order);
    assert_int_equal(t->peak_ns, d->when[want.peak_order]);
    assert_int_equal(t->peak_call, want.peak_call);
    assert_int_equal(t->peak_phase, want.peak_phase);
    assert_true(t->info.rss_open == 3 && t->info.rss_close == 5 && t->info.rss_peak == 7);
    assert_true(t->info.forward_only);
}

static void check_held(const made *d, const lam_memory *y) {
    int64_t held[PLACES][LAM_N_HELD] = {{0}}, below[PLACES][LAM_N_HELD] = {{0}};
    int64_t none[LAM_N_HELD] = {0}, all[LAM_N_HELD] = {0}, old = 0;
    for (int32_t i = 0; i < d->n_blocks; i++) {
        const lam_block *k = &d->block[i];
        if (!there(k, lam_memory_total(y)->peak_order)) continue;
        const lam_held as = held_as(d, k);
        int32_t place = k->tensor >= 0 && owners[k->tensor] >= 0 ? owners[k->tensor]
                        : k->call >= 0                           ? d->module[k->call]
                                                                 : -1;
        all[as] += k->bytes;
        *(place >= 0 ? &held[place][as] : &none[as]) += k->bytes;
        if (as == LAM_HELD_GRADIENT && !k->order) old += k->bytes;
        for (; place >= 0; place = around[place]) below[place][as] += k->bytes;
    }
    assert_memory_equal(lam_memory_total(y)->held, all, sizeof all);
    assert_memory_equal(lam_memory_unplaced(y), none, sizeof none);
    assert_int_equal(lam_memory_total(y)->old_gradients, old);
    for (int32_t i = 0; i < PLACES; i++) {
        assert_memory_equal(lam_memory_held(y, i), held[i], sizeof held[i]);
        assert_memory_equal(lam_memory_held_below(y, i), below[i], sizeof below[i]);
    }
}

/* Of each step the moment with the most, the first of several. */
static void check_course(const made *d, const lam_memory *y, int32_t points) {
    const int64_t moments = d->n + 1, steps = points < moments ? points : moments;
    int64_t held[LAM_N_HELD], want[LAM_N_HELD];
    lam_memory_point p;
    for (int32_t i = 0; i < steps; i++) {
        int64_t most = i * moments / steps;
        for (int64_t at = most; at < (i + 1) * moments / steps; at++)
            if (d->live[at] > d->live[most]) most = at;
        assert_int_equal(lam_memory_at(y, points, i, &p, NULL), LAM_OK);
        assert_int_equal(p.bytes, d->live[most]);
        assert_int_equal(p.t_ns, d->when[most]);
        memset(want, 0, sizeof want);
        for (int32_t k = 0; k < d->n_blocks; k++)
            if (there(&d->block[k], most)) want[held_as(d, &d->block[k])] += d->block[k].bytes;
        assert_int_equal(lam_memory_held_at(y, points, i, held, NULL), LAM_OK);
        assert_memory_equal(held, want, sizeof want);
    }
    assert_int_equal(lam_memory_at(y, points, (int32_t)steps, &p, NULL), LAM_RANGE);
    assert_int_equal(lam_memory_held_at(y, points, (int32_t)steps, held, NULL), LAM_RANGE);
    assert_int_equal(lam_memory_at(y, points, -1, &p, NULL), LAM_RANGE);
}

static void blocks_come_and_go(void **state) {
    (void)state;
    seed = 7;
    for (int round = 0; round < rounds(500); round++) {
        static made d;
        lam_memory *y = NULL;
        lam_model *m = made_up(&d);
        assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
        look(&d);
        check_totals(&d, lam_memory_total(y));
        for (int32_t i = 0; i < d.n_calls; i++) check_row(lam_memory_call(y, i), &d.calls[i]);
        for (int32_t i = 0; i < PLACES; i++) check_row(lam_memory_place(y, i), &d.places[i]);
        check_held(&d, y);
        check_course(&d, y, MOMENTS + 1);
        check_course(&d, y, (int32_t)draw(1, 9));
        lam_memory_free(y);
        lam_model_free(m);
    }
}

static void check_device_totals(const lam_memory_totals *t, const lam_memory_totals *want) {
    assert_int_equal(t->before, want->before);
    assert_int_equal(t->allocated, want->allocated);
    assert_int_equal(t->freed, want->freed);
    assert_int_equal(t->peak, want->peak);
    assert_int_equal(t->peak_allocated, want->peak - want->before);
    assert_int_equal(t->peak_order, want->peak_order);
    assert_int_equal(t->peak_ns, want->peak_ns);
    assert_int_equal(t->peak_call, want->peak_call);
    assert_int_equal(t->peak_phase, want->peak_phase);
    assert_string_equal(t->info.source, "the statistics of the device's allocator");
    assert_true(t->info.rss_open == -1 && t->info.rss_close == -1 && t->info.rss_peak == -1);
    assert_false(t->info.forward_only);
}

static void readings_of_a_device(void **state) {
    (void)state;
    seed = 11;
    for (int round = 0; round < rounds(500); round++) {
        static made d;
        lam_memory *y = NULL;
        lam_memory_totals want;
        lam_memory_point p;
        lam_error e = {0};
        int64_t held[LAM_N_HELD];
        lam_model *m = made_up(&d);
        assert_int_equal(lam_device_memory_new(&y, m, NULL), LAM_OK);
        look_at_device(&d, &want);
        check_device_totals(lam_memory_total(y), &want);
        for (int32_t i = 0; i < d.n_calls; i++) check_row(lam_memory_call(y, i), &d.calls[i]);
        for (int32_t i = 0; i < PLACES; i++) check_row(lam_memory_place(y, i), &d.places[i]);
        for (int32_t i = 0; i <= d.n; i++) {
            assert_int_equal(lam_memory_at(y, MOMENTS + 1, i, &p, NULL), LAM_OK);
            assert_int_equal(p.bytes, i ? d.said[i].peak : d.said[i].now);
            assert_int_equal(p.t_ns, d.said[i].t_ns);
        }
        assert_int_equal(lam_memory_held_at(y, 1, 0, held, &e), LAM_USAGE);
        assert_string_equal(e.text, "what a device's memory holds is not known");
        lam_memory_free(y);
        lam_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_and_go),
        cmocka_unit_test(readings_of_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
