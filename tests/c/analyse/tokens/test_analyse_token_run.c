/* SPDX-License-Identifier: Apache-2.0
 *
 * A small language model in tokens: its calls as prefill and steps, what they multiply and read, what is
 * cached and how that grows, and what fits. A table of 10 rows of 4, a matrix for keys, attention of one head
 * over them, and a head of 10 rows. */
#include "kit/oom.h"

#include "kit/ops_net.h"

enum { TABLE = 1, MIX = 2, HEAD = 3, STACK = 4, ROOM = 5, FIRST = 100, EACH = 20 };
enum { IDS, ROWS, FLAT, MADE, MADE_AGAIN, ALL, KEPT, SCORES, WEIGHTS, SUM, LAST, LOGITS, ENDS, SENT, TURNED };
enum { MIXES = 4 * 4, ENDS_OF = 10 * 4, ONE = 4 * 4, EXPERTS = 3 };

typedef struct talk {
    net n;
    int32_t root;
    int64_t batch, window; /* the cache keeps so many tokens; 0: all of them */
    int64_t kept;          /* tokens of the cache */
    uint64_t cache, next;  /* numbers of tensors */
    bool experts, alone;   /* with a layer of experts; no cache is given to the next call */
    bool fixed;            /* the cache is of one size */
    bool inside;           /* a buffer is the cache, and none is given or returned */
    uint64_t state;        /* of the last call, which the next one reads; 0: there is none */
    bool carries;          /* there is one */
} talk;

static talk begin(int64_t batch) {
    talk t = {.n = net_new(), .batch = batch, .next = FIRST};
    t.root = net_module(&t.n, "Talk", 0);
    const int32_t table = net_leaf(&t.n, "Embedding"), mix = net_leaf(&t.n, "Linear");
    const int32_t head = net_leaf(&t.n, "Linear"), experts = net_module(&t.n, "Experts", 0);
    net_numbered(&t.n, table, "weight", TABLE, true, SH(10, 4));
    net_numbered(&t.n, mix, "weight", MIX, true, SH(4, 4));
    net_numbered(&t.n, head, "weight", HEAD, true, SH(10, 4));
    net_numbered(&t.n, experts, "weight", STACK, true, SH(EXPERTS, 4, 4));
    const lam_tensor_info room = {.dtype = NET_FLOAT32,
                                  .ndim = 3,
                                  .sizes = (const int64_t[]){batch, 20, 4},
                                  .bytes = -1,
                                  .storage = ROOM,
                                  .object = ROOM};
    int32_t buffer = -1;
    NET_OK(&t.n, lam_build_tensor(t.n.b, &room, &buffer, &t.n.e));
    NET_OK(&t.n, lam_build_owns(t.n.b, t.root, "room", buffer, true, &t.n.e));
    const int32_t p = net_place(&t.n, -1, "", t.root);
    net_place(&t.n, p, "table", table);
    net_place(&t.n, p, "mix", mix);
    net_place(&t.n, p, "head", head);
    net_place(&t.n, p, "experts", experts);
    return t;
}

static lam_arg arg(int32_t position, int32_t dtype, uint64_t number, const int64_t *sizes, int32_t ndim) {
    return (lam_arg){NULL, position, dtype, 0, ndim, sizes, number, 0, number};
}

static lam_op_arg whole(lam_op_arg a) {
    a.dtype = NET_INT64;
    return a;
}

static lam_op_arg hides(lam_op_arg a, int64_t open, int64_t rows) {
    a.masks = true;
    a.open = open;
    a.open_rows = rows;
    return a;
}

/* Each token goes to two experts, of which `hit` are used; their ends were read unless that is 0. */
static void experts(talk *t, op_at at, uint64_t at_rows, int64_t tokens, int32_t hit) {
    lam_op_arg ends = whole(D(2, t->next + ENDS, EXPERTS));
    if (hit) ends = hides(ends, 2 * tokens, hit);
    net_op_args(&t->n, "aten::_grouped_mm", at,
                IN(V(0, t->next + SENT, at_rows, 2 * tokens, 4), D(1, STACK, EXPERTS, 4, 4), ends),
                OUT(D(0, t->next + SENT, 2 * tokens, 4)));
}

/* A call that is given `fresh` tokens and the cache of the call before it. */
static void call_of(talk *t, int64_t fresh, int32_t hit, uint32_t flags) {
    const int64_t b = t->batch, past = t->cache ? t->kept : 0;
    const int64_t all = past + fresh, keys = t->fixed ? 8 : t->window && all > t->window ? t->window : all;
    const uint64_t f = t->next;
    const int64_t ids[] = {b, fresh}, before[] = {b, past, 4}, after[] = {b, keys, 4}, logits[] = {b, 1, 10};
    const lam_arg in[] = {arg(0, NET_INT64, f + IDS, ids, 2), arg(1, NET_FLOAT32, t->cache, before, 3)};
    const lam_arg out[] = {arg(0, NET_FLOAT32, f + LOGITS, logits, 3),
                           arg(1, NET_FLOAT32, f + KEPT, after, 3)};
    lam_call_info c = {.module = t->root, .parent = -1, .flags = flags, .in = in, .out = out};
    c.n_in = t->cache ? 2 : 1;
    c.n_out = flags & LAM_CALL_FAILED ? 0 : t->inside || t->carries ? 1 : 2;
    op_at at = {-1, -1, LAM_FORWARD, 0};
    NET_OK(&t->n, lam_build_call(t->n.b, &c, &at.call, &t->n.e));
    net_op_args(&t->n, "aten::embedding", at, IN(D(0, TABLE, 10, 4), whole(D(1, f + IDS, b, fresh))),
                OUT(D(0, f + ROWS, b, fresh, 4)));
    net_op_args(&t->n, "aten::mm", at, IN(V(0, f + FLAT, f + ROWS, b * fresh, 4), D(1, MIX, 4, 4)),
                OUT(D(0, f + MADE, b * fresh, 4)));
    const lam_op_arg made = V(0, f + MADE_AGAIN, f + MADE, b, fresh, 4), joined = D(0, f + ALL, b, all, 4);
    if (t->cache)
        net_op_args(&t->n, "aten::cat", at, IN(data_of(0, t->cache, t->cache, before, 3), made), OUT(joined));
    else
        net_op_args(&t->n, "aten::clone", at, IN(made), OUT(joined));
    net_op_args(&t->n, "aten::clone", at, IN(joined), OUT(data_of(0, f + KEPT, f + KEPT, after, 3)));
    net_op_args(&t->n, "aten::bmm", at, IN(D(0, f + ROWS, b, fresh, 4), V(1, f + TURNED, f + ALL, b, 4, all)),
                OUT(D(0, f + SCORES, b, fresh, all)));
    const int64_t open = b * (fresh * all - fresh * (fresh - 1) / 2);
    net_op_args(&t->n, "aten::_softmax", at,
                IN(hides(D(0, f + SCORES, b, fresh, all), open, b * fresh), N(1, -1)),
                OUT(D(0, f + WEIGHTS, b, fresh, all)));
    net_op_args(&t->n, "aten::bmm", at, IN(D(0, f + WEIGHTS, b, fresh, all), D(1, f + ALL, b, all, 4)),
                OUT(D(0, f + SUM, b, fresh, 4)));
    if (t->experts) experts(t, at, f + SUM, b * fresh, hit);
    if (t->inside)
        net_op_args(&t->n, "aten::index_copy_", at,
                    IN(D(0, ROOM, b, 20, 4), N(1, 1), whole(D(2, 98, fresh)), made),
                    OUT(D(0, ROOM, b, 20, 4)));
    if (t->state) net_op_args(&t->n, "aten::neg", at, IN(D(0, t->state, b, 4)), OUT(D(0, 97, b, 4)));
    if (t->carries)
        net_op_args(&t->n, "aten::clone", at, IN(V(0, f + LAST, f + SUM, b, 4)), OUT(D(0, f + KEPT, b, 4)));
    t->state = t->carries ? f + KEPT : 0;
    net_op_args(&t->n, "aten::mm", at, IN(V(0, f + LAST, f + SUM, b, 4), V(1, f + TURNED + 1, HEAD, 4, 10)),
                OUT(D(0, f + LOGITS, b, 10)));
    t->cache = t->alone || t->inside || t->carries ? 0 : f + KEPT;
    t->kept = keys;
    t->next += EACH;
}

static void say(talk *t, int64_t fresh) { call_of(t, fresh, 0, 0); }

/* MACs of a call; all scores, or those that a token may see. */
static int64_t macs(int64_t b, int64_t fresh, int64_t keys, bool visible) {
    const int64_t scores = fresh * keys - (visible ? fresh * (fresh - 1) / 2 : 0);
    return b * (fresh * MIXES + ENDS_OF + 2 * 4 * scores);
}

typedef struct held {
    lam_model *m, *longer_m;
    lam_costs *c, *longer;
    lam_tokens *t;
} held;

static held take(talk *t, talk *longer, lam_token_options o) {
    held h = {0};
    lam_error e = {0};
    NET_OK(&t->n, lam_build_ops_seen(t->n.b, &t->n.e));
    h.m = net_done(&t->n);
    h.c = net_costs(h.m, NULL, false);
    if (longer) {
        NET_OK(&longer->n, lam_build_ops_seen(longer->n.b, &longer->n.e));
        h.longer_m = net_done(&longer->n);
        h.longer = net_costs(h.longer_m, NULL, false);
        o.lengths = h.longer;
    }
    if (lam_tokens_new(&h.t, h.c, &o, &e) != LAM_OK) fail_msg("%s", e.text);
    return h;
}

static void drop(held *h) {
    lam_tokens_free(h->t);
    lam_costs_free(h->c);
    lam_costs_free(h->longer);
    lam_model_free(h->m);
    lam_model_free(h->longer_m);
}

static const lam_token_options as_it_ran = {0};

/* Prompts of 2 and of 50 tokens. */
static talk lengths_of(const talk *like) {
    talk t = begin(1);
    t.window = like->window;
    t.fixed = like->fixed;
    say(&t, 2);
    t.cache = 0;
    say(&t, 50);
    return t;
}

static void a_prompt_and_its_steps(void **state) {
    (void)state;
    talk t = begin(2);
    say(&t, 5);
    for (int i = 0; i < 3; i++) say(&t, 1);
    held h = take(&t, NULL, as_it_ran);
    const lam_tokens *x = h.t;
    assert_int_equal(x->prompt, 5);
    assert_int_equal(x->fresh, 4);
    assert_int_equal(x->batch, 2);
    assert_int_equal(x->logits, 1);
    assert_int_equal(x->n_steps, 4);
    net_expect(x->stage[LAM_PREFILL].cost.macs.executed, macs(2, 5, 5, false), LAM_EXACT);
    net_expect(x->stage[LAM_PREFILL].cost.macs.effective, macs(2, 5, 5, true), LAM_EXACT);
    net_expect(x->stage[LAM_PREFILL].cost.macs.model, macs(2, 5, 5, true), LAM_EXACT);
    net_expect(x->stage[LAM_PREFILL].cost.cache_read, 0, LAM_EXACT);
    for (int i = 1; i < 4; i++) {
        const lam_token_step *s = &x->steps[i];
        assert_int_equal(s->stage, LAM_DECODE);
        assert_int_equal(s->step, i);
        assert_int_equal(s->fresh, 1);
        assert_int_equal(s->keys, 5 + i);
        net_expect(s->cost.macs.executed, macs(2, 1, 5 + i, false), LAM_EXACT);
        net_expect(s->cost.weights, 4 * (MIXES + ENDS_OF + 2 * 4), LAM_EXACT); /* 2 rows of the table */
        net_expect(s->cost.cache_read, 2 * 16 * (5 + i), LAM_EXACT);
        net_expect(s->cache, 16 * (5 + i), LAM_EXACT);
    }
    assert_int_equal(x->stage[LAM_DECODE].tokens, 6);
    net_expect(x->params.total, 40 + 16 + 40 + 48, LAM_EXACT);
    net_expect(x->params.active, 40 + 16 + 40, LAM_EXACT); /* the experts are not called */
    net_expect(x->params.active_matrix, 16 + 40, LAM_EXACT);
    assert_int_equal(x->weights, 4 * 144);
    drop(&h);
}

static void a_cache_that_grows_is_known_up_to_the_longest_call(void **state) {
    (void)state;
    talk t = begin(1);
    say(&t, 5);
    say(&t, 1);
    held h = take(&t, NULL, as_it_ran);
    assert_int_equal(h.t->cache.n_pieces, 1);
    assert_string_equal(h.t->cache.gap, "no longer run shows whether it goes on");
    net_expect(lam_tokens_cache_at(h.t, 6, 3), 3 * 16 * 6, LAM_EXACT);
    net_expect(lam_tokens_cache_at(h.t, 7, 1), 0, LAM_UNKNOWN);
    assert_int_equal(lam_tokens_context(h.t, 1 << 20, 1), -1);
    assert_int_equal(lam_tokens_batch(h.t, 4 * 144 + 16 * 6 * 7 + 5, 6), 7);
    drop(&h);
}

static void another_run_tells_whether_a_cache_goes_on(void **state) {
    (void)state;
    for (int64_t window = 0; window < 8; window += 7) {
        talk t = begin(2);
        t.window = window;
        say(&t, 5);
        for (int i = 0; i < 4; i++) say(&t, 1);
        talk longer = lengths_of(&t);
        held h = take(&t, &longer, as_it_ran);
        assert_null(h.t->cache.gap);
        assert_int_equal(h.t->cache.n_pieces, 1);
        assert_int_equal(h.t->cache.pieces->bytes, 16);
        assert_int_equal(h.t->cache.pieces->cap, window ? window : -1);
        assert_int_equal(h.t->cache.tried, 50);
        net_expect(lam_tokens_cache_at(h.t, 1000, 1), 16 * (window ? window : 1000), LAM_EXACT);
        const int64_t left = window ? INT64_MAX : 100;
        assert_int_equal(lam_tokens_context(h.t, 4 * 144 + 16 * 200 + 31, 2), left);
        assert_int_equal(lam_tokens_context(h.t, 4 * 144 + 15, 1), 0);
        assert_int_equal(lam_tokens_batch(h.t, 4 * 144 - 1, 1), 0);
        /* A window of w kept tokens attends to one more, its own. */
        net_expect(h.t->steps[4].cost.cache_read, 2 * 16 * (window ? window + 1 : 9), LAM_EXACT);
        drop(&h);
    }
}

static void a_cache_of_one_size_does_not_grow(void **state) {
    (void)state;
    talk t = begin(1);
    t.fixed = true;
    say(&t, 5);
    say(&t, 1);
    talk longer = lengths_of(&t);
    held h = take(&t, &longer, as_it_ran);
    assert_null(h.t->cache.gap);
    assert_int_equal(h.t->cache.fixed, 16 * 8);
    assert_int_equal(h.t->cache.n_pieces, 0);
    assert_int_equal(lam_tokens_context(h.t, 1 << 20, 1), INT64_MAX);
    drop(&h);
}

static void without_a_cache_each_call_is_a_prompt_or_sees_one_token_more(void **state) {
    (void)state;
    talk t = begin(1);
    t.alone = true;
    for (int64_t n = 4; n < 7; n++) say(&t, n);
    held h = take(&t, NULL, (lam_token_options){.prompt = 4, .fresh = 3, .batch = 1, .sampled = true});
    assert_true(h.t->cacheless);
    assert_int_equal(h.t->stage[LAM_DECODE].calls, 2);
    assert_int_equal(h.t->stage[LAM_DECODE].tokens, 2);
    net_expect(h.t->steps[2].cost.macs.executed, macs(1, 6, 6, false), LAM_EXACT);
    net_expect(lam_tokens_cache_at(h.t, 1000, 5), 0, LAM_EXACT);
    drop(&h);
    t = begin(1);
    t.alone = true;
    for (int64_t n = 4; n < 7; n++) say(&t, n);
    h = take(&t, NULL, as_it_ran);
    assert_int_equal(h.t->stage[LAM_PREFILL].calls, 3);
    assert_int_equal(h.t->stage[LAM_DECODE].calls, 0);
    assert_false(h.t->cache.seen);
    net_expect(lam_tokens_cache_at(h.t, 5, 1), 0, LAM_UNKNOWN);
    drop(&h);
}

static void steps_between_those_that_ran_are_on_their_line(void **state) {
    (void)state;
    talk t = begin(1);
    say(&t, 4);
    say(&t, 1);
    say(&t, 1);
    t.cache = 0;
    say(&t, 8); /* makes the cache of step 5 */
    say(&t, 1);
    talk longer = lengths_of(&t);
    held h = take(&t, &longer, (lam_token_options){.prompt = 4, .fresh = 6, .batch = 1, .sampled = true});
    assert_false(h.t->bent);
    assert_int_equal(h.t->n_steps, 6);
    for (int i = 1; i < 6; i++) {
        assert_int_equal(h.t->steps[i].event < 0, i == 3 || i == 4);
        net_expect(h.t->steps[i].cost.macs.executed, macs(1, 1, 4 + i, false), LAM_EXACT);
        net_expect(h.t->steps[i].cache, 16 * (4 + i), LAM_EXACT);
    }
    net_expect(h.t->stage[LAM_PREFILL].cost.macs.executed, macs(1, 4, 4, false), LAM_EXACT);
    drop(&h);
}

static void steps_that_are_not_on_one_line_are_unknown_between(void **state) {
    (void)state;
    talk t = begin(1);
    t.window = 6;
    say(&t, 4);
    say(&t, 1);
    say(&t, 1);
    t.cache = 0;
    say(&t, 8);
    say(&t, 1);
    held h = take(&t, NULL, (lam_token_options){.prompt = 4, .fresh = 6, .batch = 1, .sampled = true});
    assert_true(h.t->bent);
    net_expect(h.t->steps[3].cost.macs.executed, 0, LAM_UNKNOWN);
    assert_int_equal(h.t->stage[LAM_DECODE].cost.macs.executed.state, LAM_AT_LEAST);
    drop(&h);
}

static void a_prompt_in_chunks_is_prefill(void **state) {
    (void)state;
    static const struct {
        int64_t fresh[6];
        int32_t prefill, decode;
    } all[] = {
        {{4, 4, 4, 1, 1}, 3, 2}, /* equal ones */
        {{4, 4, 3, 1, 1}, 3, 2}, /* and what is left */
        {{4, 2, 1, 1}, 2, 2},    /* one and what is left: only single tokens follow */
        {{4, 2}, 1, 1},          /* it may be a step of several tokens */
        {{4, 2, 2, 2, 1}, 1, 4}, /* steps of several tokens */
        {{4, 2, 1}, 1, 2},       /* the last one of such steps may have a single token */
        {{4, 1, 1, 2, 1}, 1, 4}, {{1, 1, 1}, 1, 2},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        talk t = begin(1);
        for (int k = 0; all[i].fresh[k]; k++) say(&t, all[i].fresh[k]);
        held h = take(&t, NULL, as_it_ran);
        if (h.t->stage[LAM_PREFILL].calls != all[i].prefill || h.t->stage[LAM_DECODE].calls != all[i].decode)
            fail_msg("case %d: %d and %d", (int)i, (int)h.t->stage[LAM_PREFILL].calls,
                     (int)h.t->stage[LAM_DECODE].calls);
        drop(&h);
    }
}

static void what_the_user_says_of_calls_holds(void **state) {
    (void)state;
    talk t = begin(1);
    say(&t, 4);
    say(&t, 1);
    say(&t, 2);
    say(&t, 1);
    NET_OK(&t.n, lam_build_provenance(t.n.b, "stages", "0 prefill, 2 decode, 3 -, nonsense", &t.n.e));
    held h = take(&t, NULL, as_it_ran);
    assert_int_equal(h.t->stage[LAM_PREFILL].calls, 2);
    assert_int_equal(h.t->stage[LAM_DECODE].calls, 2);
    assert_int_equal(h.t->prompt, 5);
    drop(&h);
    assert_string_equal(lam_stage_name(LAM_DECODE), "decode");
}

static void experts_are_read_if_they_are_hit(void **state) {
    (void)state;
    const int64_t always = MIXES + ENDS_OF + 2 * 4;
    for (int32_t hit = 2; hit < 4; hit++) {
        talk t = begin(2);
        t.experts = true;
        call_of(&t, 5, EXPERTS, 0);
        call_of(&t, 1, hit, 0);
        held h = take(&t, NULL, as_it_ran);
        const lam_token_step *s = &h.t->steps[1];
        net_expect(s->cost.weights, 4 * (always + hit * ONE), LAM_EXACT);
        net_expect(s->cost.weights_most, 4 * (always + hit * ONE), LAM_EXACT);
        assert_int_equal(s->experts_least, hit);
        assert_int_equal(s->experts_most, hit);
        assert_int_equal(h.t->params.experts, EXPERTS);
        assert_int_equal(h.t->params.routed, 2);
        assert_int_equal(h.t->params.layers, 1);
        net_expect(h.t->params.active, 40 + 16 + 40 + 2 * ONE, LAM_EXACT);
        drop(&h);
    }
}

static void experts_whose_groups_were_not_read_are_a_range(void **state) {
    (void)state;
    const int64_t always = MIXES + ENDS_OF + 2 * 4;
    talk t = begin(2);
    t.experts = true;
    call_of(&t, 5, EXPERTS, 0);
    call_of(&t, 1, 0, 0);
    held h = take(&t, NULL, as_it_ran);
    const lam_token_step *s = &h.t->steps[1];
    net_expect(s->cost.weights, 4 * (always + ONE), LAM_AT_LEAST);
    net_expect(s->cost.weights_most, 4 * (always + EXPERTS * ONE), LAM_EXACT);
    assert_int_equal(s->experts_least, 1);
    assert_int_equal(s->experts_most, EXPERTS);
    net_expect(h.t->params.active, 0, LAM_UNKNOWN);
    net_expect(h.t->params.active_matrix, 0, LAM_UNKNOWN);
    drop(&h);
}

static void a_buffer_that_calls_write_is_a_cache(void **state) {
    (void)state;
    talk t = begin(2);
    t.inside = true;
    say(&t, 5);
    say(&t, 1);
    say(&t, 1);
    say(&t, 4); /* a prompt of its own, unless the user says otherwise */
    held h = take(&t, NULL, as_it_ran);
    assert_int_equal(h.t->stage[LAM_PREFILL].calls, 2);
    assert_int_equal(h.t->stage[LAM_DECODE].calls, 2);
    assert_int_equal(h.t->steps[3].keys, 7);
    net_expect(h.t->steps[3].cache, 4 * 20 * 4, LAM_EXACT);
    net_expect(h.t->steps[3].cost.cache_read, 2 * 4 * 20 * 4, LAM_EXACT);
    assert_int_equal(h.t->cache.fixed, 4 * 20 * 4);
    assert_int_equal(h.t->cache.n_pieces, 0);
    drop(&h);
    t = begin(2);
    t.inside = true;
    say(&t, 5);
    say(&t, 4);
    say(&t, 1);
    NET_OK(&t.n, lam_build_provenance(t.n.b, "stages", "0 prefill", &t.n.e));
    h = take(&t, NULL, as_it_ran);
    assert_int_equal(h.t->prompt, 10);
    assert_int_equal(h.t->stage[LAM_PREFILL].calls, 3);
    drop(&h);
}

static void what_a_model_carries_over_is_said_to_be_unknown(void **state) {
    (void)state;
    talk t = begin(1);
    t.carries = true;
    say(&t, 5);
    say(&t, 1);
    say(&t, 1);
    held h = take(&t, NULL, as_it_ran);
    assert_int_equal(h.t->stage[LAM_PREFILL].calls, 1);
    assert_int_equal(h.t->steps[2].keys, 7);
    assert_string_equal(h.t->cache.gap,
                        "the model keeps it in tensors that are no buffers, and returns none");
    assert_false(h.t->cache.seen);
    net_expect(h.t->steps[2].cache, 0, LAM_UNKNOWN);
    net_expect(h.t->steps[2].cost.cache_read, 0, LAM_UNKNOWN);
    drop(&h);
}

static void a_call_that_raised_keeps_nothing(void **state) {
    (void)state;
    talk t = begin(1);
    say(&t, 5);
    call_of(&t, 1, 0, LAM_CALL_FAILED);
    held h = take(&t, NULL, as_it_ran);
    assert_int_equal(h.t->n_steps, 2);
    net_expect(h.t->steps[1].cache, 0, LAM_UNKNOWN);
    drop(&h);
}

static void what_is_no_language_model_is_one_sentence(void **state) {
    (void)state;
    lam_tokens *t = NULL;
    lam_error e = {0};
    talk none = begin(1), other = begin(1), reads = begin(1);
    NET_OK(&none.n, lam_build_ops_seen(none.n.b, &none.n.e));
    lam_model *m = net_done(&none.n);
    lam_costs *c = net_costs(m, NULL, false);
    assert_int_equal(lam_tokens_new(&t, c, NULL, &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "the language model was not called"));
    e = (lam_error){0};
    assert_int_equal(lam_tokens_new(&t, c, &(lam_token_options){.path = "lm"}, &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "the model has no layer 'lm'"));
    assert_int_equal(lam_tokens_new(&t, NULL, NULL, &e), LAM_USAGE);
    lam_costs_free(c);
    c = net_costs(m, "layers", false);
    assert_int_equal(lam_tokens_new(&t, c, NULL, &e), LAM_USAGE);
    lam_costs_free(c);
    lam_model_free(m);
    net_call(&other.n, other.root, -1, SH(2, 5), 0, SH(2, 5), 0); /* it is given no whole numbers */
    NET_OK(&other.n, lam_build_ops_seen(other.n.b, &other.n.e));
    m = net_done(&other.n);
    c = net_costs(m, NULL, false);
    e = (lam_error){0};
    assert_int_equal(lam_tokens_new(&t, c, NULL, &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "it is no language model: no call of it was given whole numbers"));
    assert_null(t);
    lam_costs_free(c);
    lam_model_free(m);
    lam_arg ids = arg(0, NET_INT64, IDS, SH(2, 5)), rows = arg(0, NET_FLOAT32, ROWS, SH(2, 5)); /* no table */
    const lam_call_info call = {
        .module = reads.root, .parent = -1, .n_in = 1, .in = &ids, .n_out = 1, .out = &rows};
    int32_t event = -1;
    NET_OK(&reads.n, lam_build_call(reads.n.b, &call, &event, &reads.n.e));
    NET_OK(&reads.n, lam_build_ops_seen(reads.n.b, &reads.n.e));
    m = net_done(&reads.n);
    c = net_costs(m, NULL, false);
    e = (lam_error){0};
    assert_int_equal(lam_tokens_new(&t, c, NULL, &e), LAM_USAGE);
    assert_non_null(
        strstr(e.text, "no call of the model was given whole numbers that a table reads as they are"));
    assert_null(t);
    lam_costs_free(c);
    lam_model_free(m);
    lam_tokens_free(NULL);
}

static void lengths_follow_the_operators_of_a_token(void **state) {
    (void)state;
    talk t = begin(1);
    say(&t, 5);
    say(&t, 1);
    held h = take(&t, NULL, as_it_ran);
    assert_int_equal(lam_tokens_longest(h.c, ""), 0); /* both calls have equally many */
    assert_int_equal(lam_tokens_longest(h.c, "lm"), 0);
    drop(&h);
    for (int64_t each = 1; each <= 1000; each *= 1000) {
        t = begin(1);
        say(&t, 5);
        for (int i = 0; i < 4 * each; i++) net_relu(&t.n, (op_at){0, -1, LAM_FORWARD, 0}, 4);
        say(&t, 1);
        h = take(&t, NULL, as_it_ran);
        /* 2^17 operators, and not fewer tokens than four times those of the run */
        assert_int_equal(lam_tokens_longest(h.c, ""), each == 1 ? 0 : 131);
        drop(&h);
    }
}

static void tokens_of(void *costs, bool *ok) {
    lam_tokens *t = NULL;
    lam_error e = {0};
    *ok = oom_check(lam_tokens_new(&t, costs, NULL, &e), &e);
    lam_tokens_free(t);
}

static void memory_may_run_out(void **state) {
    (void)state;
    talk t = begin(2);
    t.experts = true;
    for (int i = 0; i < 3; i++) call_of(&t, i ? 1 : 4, 2, 0);
    held h = take(&t, NULL, as_it_ran);
    oom_sweep(tokens_of, h.c);
    drop(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_and_its_steps),
        cmocka_unit_test(a_cache_that_grows_is_known_up_to_the_longest_call),
        cmocka_unit_test(another_run_tells_whether_a_cache_goes_on),
        cmocka_unit_test(a_cache_of_one_size_does_not_grow),
        cmocka_unit_test(without_a_cache_each_call_is_a_prompt_or_sees_one_token_more),
        cmocka_unit_test(steps_between_those_that_ran_are_on_their_line),
        cmocka_unit_test(steps_that_are_not_on_one_line_are_unknown_between),
        cmocka_unit_test(a_prompt_in_chunks_is_prefill),
        cmocka_unit_test(what_the_user_says_of_calls_holds),
        cmocka_unit_test(experts_are_read_if_they_are_hit),
        cmocka_unit_test(experts_whose_groups_were_not_read_are_a_range),
        cmocka_unit_test(a_buffer_that_calls_write_is_a_cache),
        cmocka_unit_test(what_a_model_carries_over_is_said_to_be_unknown),
        cmocka_unit_test(a_call_that_raised_keeps_nothing),
        cmocka_unit_test(what_is_no_language_model_is_one_sentence),
        cmocka_unit_test(lengths_follow_the_operators_of_a_token),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
