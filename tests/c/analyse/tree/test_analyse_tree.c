/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of made-up trees of places, their common ancestors, and who called what, against walks. */
#include "kit/net.h"

#include "kit/draw.h"

#include "analyse/tree/tree.h"

enum { PLACES = 40, CALLS = 30 };

/* The root comes first, and each place after its parent. */
typedef struct made {
    int32_t n, parent[PLACES], n_calls, at[CALLS], caller[CALLS];
    bool again[CALLS];
} made;

static lam_model *drawn(made *d) {
    net n = net_new();
    *d = (made){.n = (int32_t)draw(1, PLACES), .n_calls = (int32_t)draw(0, CALLS)};
    for (int32_t i = 0; i < d->n; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", (int)i);
        d->parent[i] = i == 0 ? -1 : (int32_t)draw(draw(0, 1) ? i - 1 : 0, i - 1);
        net_place(&n, d->parent[i], name, net_module(&n, "Mine", 0));
    }
    for (int32_t i = 0; i < d->n_calls; i++) {
        d->at[i] = (int32_t)draw(0, draw(0, 1) ? d->n - 1 : 0); /* the root often */
        d->again[i] = draw(0, 2) == 0;
        d->caller[i] = i == 0 || draw(0, 2) == 0 ? -1 : (int32_t)draw(0, i - 1);
        const lam_call_info call = {.module = d->at[i],
                                    .parent = d->caller[i],
                                    .flags = d->again[i] ? LAM_CALL_AGAIN : 0};
        NET_OK(&n, lam_build_call(n.b, &call, NULL, &n.e));
    }
    return net_done(&n);
}

static bool is_above(const made *d, int32_t above, int32_t place) {
    while (place > above) place = d->parent[place];
    return place == above;
}

/* Places in the order in which a walk into each one's children, the first one first, meets them. */
static int32_t walk(const made *d, int32_t place, int32_t at, int32_t *order) {
    order[at++] = place;
    for (int32_t i = place + 1; i < d->n; i++)
        if (d->parent[i] == place) at = walk(d, i, at, order);
    return at;
}

static void check_tree(const made *d, const lmi_tree *t, const lam_model *m) {
    int32_t order[PLACES];
    assert_int_equal(walk(d, 0, 0, order), d->n);
    assert_memory_equal(t->order, order, sizeof *order * (size_t)d->n);
    for (int32_t i = 0; i < d->n; i++) {
        int32_t below = 0, first = -1, common = -1, with = (int32_t)draw(0, d->n - 1);
        bool live = false;
        assert_int_equal(t->order[t->pre[i]], i);
        for (int32_t k = 0; k < d->n; k++) {
            below += is_above(d, i, k);
            if (is_above(d, k, i) && is_above(d, k, with)) common = k; /* the deepest comes last */
        }
        for (int32_t k = d->n_calls - 1; k >= 0; k--) {
            live = live || is_above(d, i, d->at[k]);
            if (d->at[k] == i) first = k;
        }
        assert_int_equal(t->size[i], below);
        assert_int_equal(t->live[i], live);
        assert_int_equal(t->first_event[i], first);
        assert_int_equal(lmi_tree_common(t, m, i, with), common);
        assert_int_equal(lmi_tree_common(t, m, with, i), common);
    }
}

/* A backward pass's repetition, where nobody called it, has the caller of the last call there before it. */
static void check_callers(const made *d, const int32_t *callers) {
    for (int32_t i = 0; i < d->n_calls; i++) {
        int32_t caller = d->caller[i];
        for (int32_t k = i - 1; k >= 0 && d->again[i] && caller < 0; k--)
            if (d->at[k] == d->at[i] && !d->again[k]) {
                caller = d->caller[k];
                break;
            }
        assert_int_equal(callers[i], caller);
    }
}

static void walks_find_the_same(void **state) {
    (void)state;
    seed = 5;
    for (int round = 0; round < 300; round++) {
        made d;
        lmi_tree t;
        lmi_arena a;
        lam_model *m = drawn(&d);
        lmi_arena_init(&a, UINT64_MAX);
        assert_int_equal(lmi_tree_build(&t, m, &a, NULL), LAM_OK);
        check_tree(&d, &t, m);
        check_callers(&d, lmi_callers(&a, m));
        lmi_arena_free(&a);
        lam_model_free(m);
    }
}

static void build(void *m, bool *ok) {
    lmi_tree t;
    lmi_arena a;
    lam_error e = {0};
    lmi_arena_init(&a, UINT64_MAX);
    *ok = oom_check(lmi_tree_build(&t, m, &a, &e), &e) && lmi_callers(&a, m);
    lmi_arena_free(&a);
}

static void memory_may_run_out(void **state) {
    made d;
    (void)state;
    lam_model *m = drawn(&d);
    oom_sweep(build, m);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_find_the_same),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
