/* SPDX-License-Identifier: Apache-2.0
 * What a run did with memory, against sums made step by step. */
#include "kit/oom.h"

#include "kit/net.h"

#include <stdlib.h>

/* A root with two layers, "a" with a weight, called in turn inside the root's call. */
typedef struct small {
    net n;
    int32_t root, a, b, weight; /* modules, tensor */
    int32_t call, call_a, call_b;
} small;

static int32_t call_of(net *n, int32_t module, int32_t parent) {
    int32_t index = -1;
    lam_call_info info = {.module = module, .parent = parent};
    NET_OK(n, lam_build_call(n->b, &info, &index, &n->e));
    return index;
}

static small small_net(void) {
    small s = {.n = net_new()};
    s.root = net_module(&s.n, "Net", 0);
    s.a = net_module(&s.n, "Linear", LAM_MODULE_LEAF);
    s.b = net_module(&s.n, "ReLU", LAM_MODULE_LEAF);
    int32_t top = net_place(&s.n, -1, "", s.root);
    net_place(&s.n, top, "a", s.a);
    net_place(&s.n, top, "b", s.b);
    lam_tensor_info t = {.dtype = NET_FLOAT32, .ndim = 1, .sizes = (int64_t[]){10}, .bytes = -1};
    NET_OK(&s.n, lam_build_tensor(s.n.b, &t, &s.weight, &s.n.e));
    NET_OK(&s.n, lam_build_owns(s.n.b, s.a, "weight", s.weight, false, &s.n.e));
    s.call = call_of(&s.n, s.root, -1);
    s.call_a = call_of(&s.n, s.a, s.call);
    s.call_b = call_of(&s.n, s.b, s.call);
    return s;
}

static void block(small *s, int32_t call, int phase, int64_t bytes, int64_t order, int64_t freed, int held,
                  int32_t tensor) {
    lam_block k = {.bytes = bytes,
                   .order = order,
                   .freed_order = freed,
                   .t0_ns = 1000 + order,
                   .t1_ns = freed ? 1000 + freed : 0,
                   .call = call,
                   .freed_call = -1,
                   .tensor = tensor,
                   .phase = (uint8_t)phase,
                   .held = (uint8_t)held};
    NET_OK(&s->n, lam_build_block(s->n.b, &k, &s->n.e));
}

static void span(small *s, int32_t call, int phase, int64_t first, int64_t last) {
    lam_span k = {first, last, call, (uint8_t)phase};
    NET_OK(&s->n, lam_build_span(s->n.b, &k, &s->n.e));
}

/* 40 of weight are there. a: 100 stay, 7 go. b: 50 stay. The root frees 100. Then a's backward makes a
 * gradient of 40 and 30 that it passes on; nobody's 5 stay. */
static void push_story(small *s) {
    block(s, -1, LAM_FORWARD, 40, 0, 0, LAM_HELD_PARAMETER, s->weight);
    block(s, s->call_a, LAM_FORWARD, 100, 1, 5, LAM_HELD_OTHER, -1);
    block(s, s->call_a, LAM_FORWARD, 7, 2, 3, LAM_HELD_OTHER, -1);
    block(s, s->call_b, LAM_FORWARD, 50, 4, 0, LAM_HELD_OTHER, -1);
    block(s, s->call_a, LAM_BACKWARD, 40, 6, 0, LAM_HELD_GRADIENT, s->weight);
    block(s, s->call_a, LAM_BACKWARD, 30, 7, 8, LAM_HELD_OTHER, -1);
    block(s, -1, LAM_FORWARD, 5, 9, 0, LAM_HELD_OTHER, -1);
    lam_block other = {
        .bytes = 9000, .order = 10, .call = -1, .freed_call = -1, .tensor = -1, .flags = LAM_BLOCK_ELSEWHERE};
    NET_OK(&s->n, lam_build_block(s->n.b, &other, &s->n.e));
    span(s, s->call, LAM_FORWARD, 0, 5);
    span(s, s->call_a, LAM_FORWARD, 0, 3);
    span(s, s->call_b, LAM_FORWARD, 3, 4);
    span(s, s->call_a, LAM_BACKWARD, 5, 8);
    lam_memory_info info = {"a test", 1, 3, 2, false};
    NET_OK(&s->n, lam_build_memory(s->n.b, &info, &s->n.e));
}

static void is_use(lam_memory_use u, int64_t allocated, int64_t freed, int64_t retained, int64_t peak) {
    assert_int_equal(u.allocated, allocated);
    assert_int_equal(u.freed, freed);
    assert_int_equal(u.retained, retained);
    assert_int_equal(u.peak, peak);
}

static void test_story(void **state) {
    (void)state;
    small s = small_net();
    push_story(&s);
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    const lam_memory_totals *t = lam_memory_total(y);
    assert_string_equal(t->info.source, "a test");
    assert_int_equal(t->info.rss_peak, 2);
    assert_int_equal(t->before, 40);
    assert_int_equal(t->allocated, 100 + 7 + 50 + 40 + 30 + 5);
    assert_int_equal(t->freed, 100 + 7 + 30);
    assert_int_equal(t->peak, 40 + 100 + 50);
    assert_int_equal(t->peak_allocated, 150);
    assert_int_equal(t->peak_order, 4);
    assert_int_equal(t->peak_ns, 1004);
    assert_int_equal(t->peak_call, s.call_b);
    assert_int_equal(t->elsewhere, 9000);
    assert_int_equal(t->held[LAM_HELD_PARAMETER], 40);
    assert_int_equal(t->held[LAM_HELD_ACTIVATION], 150);
    assert_int_equal(t->held[LAM_HELD_WORKSPACE] + t->held[LAM_HELD_OTHER] + t->held[LAM_HELD_BACKWARD], 0);
    const lam_memory_row *a = lam_memory_place(y, 1), *b = lam_memory_place(y, 2),
                         *root = lam_memory_place(y, 0);
    is_use(a->own[LAM_FORWARD], 107, 107, 100, 107);
    is_use(a->own[LAM_BACKWARD], 70, 30, 40, 70);
    is_use(b->own[LAM_FORWARD], 50, 0, 50, 50);
    is_use(root->own[LAM_FORWARD], 0, 0, 0, 150);
    is_use(root->total[LAM_FORWARD], 157, 107, 50, 150); /* a's 100 went before it returned */
    is_use(root->total[LAM_BACKWARD], 70, 30, 40, 70);
    is_use(lam_memory_call(y, s.call_a)->total[LAM_FORWARD], 107, 107, 100, 107);
    assert_int_equal(lam_memory_held(y, 1)[LAM_HELD_PARAMETER], 40);
    assert_int_equal(lam_memory_held(y, 1)[LAM_HELD_ACTIVATION], 100);
    assert_int_equal(lam_memory_held(y, 0)[LAM_HELD_ACTIVATION], 0);
    assert_int_equal(lam_memory_held_below(y, 0)[LAM_HELD_ACTIVATION], 150);
    assert_int_equal(lam_memory_unplaced(y)[LAM_HELD_OTHER], 0);
    assert_null(lam_memory_place(y, 3));
    assert_null(lam_memory_call(y, -1));
    assert_null(lam_memory_held(y, -1));
    lam_memory_free(y);
    lam_model_free(m);
}

/* Of the gradients that are there at the peak those that were there before are told apart. */
/* A packed weight is held from the beginning, by its layer; one of unknown size by nobody, which a note says.
 */
static void test_packed(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        small s = small_net();
        lam_tensor_info t = {.dtype = known ? NET_FLOAT32 : -1,
                             .ndim = 1,
                             .sizes = (int64_t[]){5},
                             .bytes = -1};
        int32_t packed;
        NET_OK(&s.n, lam_build_tensor(s.n.b, &t, &packed, &s.n.e));
        NET_OK(&s.n, lam_build_packed(s.n.b, packed, &s.n.e));
        NET_OK(&s.n, lam_build_owns(s.n.b, s.b, "_packed_params", packed, true, &s.n.e));
        push_story(&s);
        lam_model *m = net_done(&s.n);
        lam_memory *y = NULL;
        assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
        const lam_memory_totals *all = lam_memory_total(y);
        assert_int_equal(all->held[LAM_HELD_PARAMETER], 40 + 20 * known);
        assert_int_equal(all->before, 40 + 20 * known);
        assert_int_equal(lam_memory_held(y, 2)[LAM_HELD_PARAMETER], 20 * known);
        assert_non_null(
            strstr(lam_model_note(m, 0), known ? "in their unpacked size" : "whose size is not known"));
        lam_memory_free(y);
        lam_model_free(m);
    }
}

static void test_old_gradients(void **state) {
    (void)state;
    small s = small_net();
    block(&s, -1, LAM_FORWARD, 40, 0, 0, LAM_HELD_GRADIENT, s.weight);
    block(&s, -1, LAM_FORWARD, 8, 0, 1, LAM_HELD_GRADIENT, s.weight);
    block(&s, s.call_a, LAM_FORWARD, 100, 2, 0, LAM_HELD_OTHER, -1);
    block(&s, s.call_a, LAM_BACKWARD, 16, 3, 0, LAM_HELD_GRADIENT, s.weight);
    lam_memory_info info = {"a test", 1, 3, 2, false};
    NET_OK(&s.n, lam_build_memory(s.n.b, &info, &s.n.e));
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    assert_int_equal(lam_memory_total(y)->peak, 156);
    assert_int_equal(lam_memory_total(y)->held[LAM_HELD_GRADIENT], 56);
    assert_int_equal(lam_memory_total(y)->old_gradients, 40);
    lam_memory_free(y);
    lam_model_free(m);
}

/* The parts of each moment of the story, by hand: what a call leaves is an activation, what goes before it
 * returns a workspace. */
static void test_parts_of_the_course(void **state) {
    (void)state;
    static const struct {
        int64_t parameters, activations, workspace, gradients, backward, other;
    } parts[] = {
        {40, 0, 0, 0, 0, 0},   {40, 100, 0, 0, 0, 0}, {40, 100, 7, 0, 0, 0}, {40, 100, 0, 0, 0, 0},
        {40, 150, 0, 0, 0, 0}, {40, 50, 0, 0, 0, 0},  {40, 50, 0, 40, 0, 0}, {40, 50, 0, 40, 30, 0},
        {40, 50, 0, 40, 0, 0}, {40, 50, 0, 40, 0, 5}, {40, 50, 0, 40, 0, 5},
    };
    small s = small_net();
    push_story(&s);
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    int64_t held[LAM_N_HELD];
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    for (int32_t i = 0; i <= 10; i++) {
        assert_int_equal(lam_memory_held_at(y, 100, i, held, NULL), LAM_OK);
        assert_int_equal(held[LAM_HELD_PARAMETER], parts[i].parameters);
        assert_int_equal(held[LAM_HELD_ACTIVATION], parts[i].activations);
        assert_int_equal(held[LAM_HELD_WORKSPACE], parts[i].workspace);
        assert_int_equal(held[LAM_HELD_GRADIENT], parts[i].gradients);
        assert_int_equal(held[LAM_HELD_BACKWARD], parts[i].backward);
        assert_int_equal(held[LAM_HELD_OTHER], parts[i].other);
    }
    assert_int_equal(lam_memory_held_at(y, 100, 11, held, NULL), LAM_RANGE);
    assert_int_equal(lam_memory_held_at(y, 2, 0, held, NULL), LAM_OK); /* the peak */
    assert_memory_equal(held, lam_memory_total(y)->held, sizeof held);
    assert_int_equal(lam_memory_held_at(y, 2, 1, held, NULL), LAM_OK);
    assert_int_equal(held[LAM_HELD_BACKWARD], 30);
    lam_memory_free(y);
    lam_model_free(m);
}

static void test_course(void **state) {
    (void)state;
    small s = small_net();
    push_story(&s);
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    lam_memory_point p;
    const int64_t live[] = {40, 140, 147, 140, 190, 90, 130, 160, 130, 135, 135};
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    for (int32_t i = 0; i <= 10; i++) {
        assert_int_equal(lam_memory_at(y, 100, i, &p, NULL), LAM_OK);
        assert_int_equal(p.bytes, live[i]);
        assert_int_equal(p.t_ns, i == 0 || i == 10 ? 0 : 1000 + i);
    }
    assert_int_equal(lam_memory_at(y, 100, 11, &p, NULL), LAM_RANGE);
    assert_int_equal(lam_memory_at(y, 2, 0, &p, NULL), LAM_OK);
    assert_int_equal(p.bytes, 190);
    assert_int_equal(lam_memory_at(y, 2, 1, &p, NULL), LAM_OK);
    assert_int_equal(p.bytes, 160);
    assert_int_equal(lam_memory_at(y, 2, 2, &p, NULL), LAM_RANGE);
    assert_int_equal(lam_memory_at(y, 0, 0, &p, NULL), LAM_RANGE);
    lam_memory_free(y);
    lam_model_free(m);
}

/* -- against steps made one at a time ------------------------------------------------------------------ */

enum { BLOCKS = 300, ORDERS = 2 * BLOCKS + 1 };

static uint32_t draw(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void one_random(uint32_t seed) {
    small s = small_net();
    int64_t live[ORDERS] = {0}, sizes[BLOCKS], from[BLOCKS], to[BLOCKS] = {0}, n = 0, born = 0;
    while (born < BLOCKS) {
        int64_t dying = -1;
        if (draw(&seed, 5) < 2)
            for (int64_t i = draw(&seed, BLOCKS); dying < 0 && i < born; i++)
                if (!to[i]) dying = i;
        n++;
        live[n] = live[n - 1];
        if (dying >= 0) {
            to[dying] = n;
            live[n] -= sizes[dying];
        } else {
            sizes[born] = draw(&seed, 1000);
            from[born] = n;
            live[n] += sizes[born++];
        }
    }
    int64_t first = draw(&seed, (uint32_t)n), last = first + draw(&seed, (uint32_t)(n - first) + 1);
    int64_t allocated = 0, retained = 0, most = 0, peak = 0;
    for (int64_t i = 0; i < BLOCKS; i++) {
        bool in_it = from[i] > first && from[i] <= last;
        block(&s, in_it ? s.call_a : -1, LAM_FORWARD, sizes[i], from[i], to[i], LAM_HELD_OTHER, -1);
        if (in_it) allocated += sizes[i];
        if (in_it && (!to[i] || to[i] > last)) retained += sizes[i];
    }
    for (int64_t i = 0; i <= n; i++) {
        if (live[i] > most) most = live[i];
        if (i >= first && i <= last && live[i] - live[first] > peak) peak = live[i] - live[first];
    }
    span(&s, s.call_a, LAM_FORWARD, first, last);
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    const lam_memory_use *u = &lam_memory_place(y, 1)->own[LAM_FORWARD];
    assert_int_equal(lam_memory_total(y)->peak, most);
    assert_int_equal(u->allocated, allocated);
    assert_int_equal(u->retained, retained);
    assert_int_equal(u->peak, peak);
    for (int64_t i = 0; i <= n; i++) {
        int64_t held[LAM_N_HELD], want[LAM_N_HELD] = {0};
        for (int64_t k = 0; k < BLOCKS; k++) {
            bool in_it = from[k] > first && from[k] <= last, stays = !to[k] || to[k] > last;
            lam_held as = !in_it ? LAM_HELD_OTHER : stays ? LAM_HELD_ACTIVATION : LAM_HELD_WORKSPACE;
            if (from[k] <= i && (!to[k] || to[k] > i)) want[as] += sizes[k];
        }
        assert_int_equal(lam_memory_held_at(y, ORDERS, (int32_t)i, held, NULL), LAM_OK);
        assert_memory_equal(held, want, sizeof held);
    }
    int64_t sum = 0;
    for (int h = 0; h < LAM_N_HELD; h++) sum += lam_memory_total(y)->held[h];
    assert_int_equal(sum, most);
    lam_memory_free(y);
    lam_model_free(m);
}

static void test_random(void **state) {
    (void)state;
    for (uint32_t seed = 1; seed <= 100; seed++) one_random(seed * 2654435761u);
}

/* A layer that calls itself has its memory once. */
static void test_inside_itself(void **state) {
    (void)state;
    net n = net_new();
    int32_t root = net_module(&n, "Net", 0);
    net_place(&n, -1, "", root);
    int32_t outer = call_of(&n, root, -1), inner = call_of(&n, root, outer);
    small s = {.n = n};
    block(&s, inner, LAM_FORWARD, 10, 1, 0, LAM_HELD_OTHER, -1);
    span(&s, outer, LAM_FORWARD, 0, 1);
    span(&s, inner, LAM_FORWARD, 0, 1);
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    is_use(lam_memory_place(y, 0)->own[LAM_FORWARD], 10, 0, 10, 10);
    is_use(lam_memory_place(y, 0)->total[LAM_FORWARD], 10, 0, 10, 10);
    lam_memory_free(y);
    lam_model_free(m);
}

/* -- what can't be --------------------------------------------------------------------------------------- */

/* What a backward does again, in calls that no call is open around, is below whom it was below at first. */
static void test_done_again(void **state) {
    (void)state;
    small s = small_net();
    lam_call_info info = {.module = s.a, .parent = -1, .flags = LAM_CALL_AGAIN};
    int32_t again = -1;
    NET_OK(&s.n, lam_build_call(s.n.b, &info, &again, &s.n.e));
    block(&s, again, LAM_RECOMPUTE, 100, 1, 3, LAM_HELD_OTHER, -1);
    block(&s, again, LAM_BACKWARD, 40, 2, 0, LAM_HELD_GRADIENT, s.weight);
    span(&s, s.call, LAM_FORWARD, 0, 0);
    span(&s, again, LAM_RECOMPUTE, 0, 1);
    span(&s, again, LAM_BACKWARD, 1, 3);
    lam_memory_info memory = {"a test", -1, -1, -1, false};
    NET_OK(&s.n, lam_build_memory(s.n.b, &memory, &s.n.e));
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_OK);
    const lam_memory_row *rows[] = {lam_memory_place(y, 1), lam_memory_place(y, 0)};
    for (int i = 0; i < 2; i++) {
        is_use(rows[i]->total[LAM_RECOMPUTE], 100, 100, 100, 100);
        is_use(rows[i]->total[LAM_BACKWARD], 40, 0, 40, 40);
    }
    is_use(rows[1]->own[LAM_BACKWARD], 0, 0, 0, 0);
    lam_memory_free(y);
    lam_model_free(m);
}

static void refused(small *s, lam_block k, const char *part) {
    lam_error e = {0};
    assert_int_equal(lam_build_block(s->n.b, &k, &e), LAM_RANGE);
    if (!strstr(e.text, part)) fail_msg("%s", e.text);
}

static void test_refused(void **state) {
    (void)state;
    small s = small_net();
    const lam_block good = {.bytes = 1, .order = 1, .call = -1, .freed_call = -1, .tensor = -1};
    lam_block k = good;
    k.call = 3;
    refused(&s, k, "there is no number 3");
    k = good;
    k.freed_call = -2;
    refused(&s, k, "there is no number -2");
    k = good;
    k.tensor = 1;
    refused(&s, k, "there is no number 1");
    k = good;
    k.phase = LAM_N_PHASES;
    refused(&s, k, "not one of lam_phase");
    k = good;
    k.held = LAM_HELD_ACTIVATION;
    refused(&s, k, "can't tell");
    k = good;
    k.bytes = -1;
    refused(&s, k, "-1 bytes");
    k = good;
    k.freed_order = 1;
    refused(&s, k, "come 1-th and go 1-th");
    lam_span back = {3, 2, -1, 0};
    assert_int_equal(lam_build_span(s.n.b, &back, NULL), LAM_RANGE);
    k = good;
    k.order = 100; /* where nothing else is */
    assert_int_equal(lam_build_block(s.n.b, &k, NULL), LAM_OK);
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    lam_error e = {0};
    assert_int_equal(lam_memory_new(&y, m, &e), LAM_RANGE);
    assert_non_null(strstr(e.text, "damaged"));
    lam_model_free(m);
}

static void test_not_measured(void **state) {
    (void)state;
    small s = small_net();
    lam_model *m = net_done(&s.n);
    lam_memory *y = NULL;
    assert_false(lam_model_memory_seen(m));
    assert_int_equal(lam_model_n_blocks(m), 0);
    assert_null(lam_model_block(m, 0));
    assert_int_equal(lam_memory_new(&y, m, NULL), LAM_USAGE);
    assert_null(y);
    lam_model_free(m);
    assert_string_equal(lam_held_name(LAM_HELD_WORKSPACE), "workspace");
    assert_null(lam_held_name(LAM_N_HELD));
}

static void build_all(void *arg, bool *ok) {
    (void)arg;
    lam_builder *b = NULL;
    lam_model *m = NULL;
    lam_memory *y = NULL;
    lam_error e = {0};
    const lam_module_info info = {.type = "Net", .word = -1};
    const lam_memory_info told = {"a test", -1, -1, -1, false};
    const lam_call_info call = {.parent = -1};
    const lam_block k = {.bytes = 8, .order = 1, .freed_order = 2, .freed_call = -1, .tensor = -1};
    const lam_span sp = {.last = 2};
    *ok = lam_builder_new(&b, 0, &e) == LAM_OK && lam_build_module(b, &info, NULL, &e) == LAM_OK &&
          lam_build_place(b, -1, "", 0, NULL, &e) == LAM_OK && lam_build_call(b, &call, NULL, &e) == LAM_OK &&
          lam_build_memory(b, &told, &e) == LAM_OK && lam_build_block(b, &k, &e) == LAM_OK &&
          lam_build_span(b, &sp, &e) == LAM_OK;
    if (*ok)
        *ok = lam_builder_finish(b, &m, &e) == LAM_OK;
    else
        lam_builder_free(b);
    *ok = *ok && lam_memory_new(&y, m, &e) == LAM_OK;
    if (!*ok) assert_int_equal(e.status, LAM_NOMEM);
    lam_memory_free(y);
    lam_model_free(m);
}

static void test_oom(void **state) {
    (void)state;
    oom_sweep(build_all, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_story),         cmocka_unit_test(test_packed),
        cmocka_unit_test(test_old_gradients), cmocka_unit_test(test_parts_of_the_course),
        cmocka_unit_test(test_course),        cmocka_unit_test(test_random),
        cmocka_unit_test(test_inside_itself), cmocka_unit_test(test_done_again),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_not_measured),
        cmocka_unit_test(test_oom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
