/* SPDX-License-Identifier: Apache-2.0
 *
 * The difference of two outlines, which are made by hand: "0 a Linear 8" is a place of depth 0. */
#include "kit/oom.h"

#include "report/outline/outline.h"

#include <string.h>

typedef struct spec {
    int32_t depth;
    const char *name, *type;
    int64_t macs;
} spec;

enum { MOST = 16 };

/* An outline of n places with MACs alone, in memory that the caller holds. */
typedef struct made {
    lmi_outline o;
    lmi_outline_place at[MOST];
    int64_t macs[MOST], total[MOST];
} made;

static void make(made *m, int32_t n, const spec *of) {
    memset(m, 0, sizeof *m);
    m->o = (lmi_outline){
        .n = n, .at = m->at, .peak_place = -1, .name = of[0].type, .convention = "exact", .calls = 1};
    m->o.own[LMI_OWN_MACS] = m->macs;
    m->o.total[LMI_OWN_MACS] = m->total;
    for (int32_t i = 0; i < n; i++) {
        int32_t up = i - 1;
        while (up >= 0 && of[up].depth >= of[i].depth) up--;
        m->at[i] = (lmi_outline_place){.parent = up,
                                       .end = i + 1,
                                       .depth = of[i].depth,
                                       .name = of[i].name,
                                       .type = of[i].type,
                                       .in = "",
                                       .out = "",
                                       .run = i,
                                       .n_run = 1,
                                       .level = -1,
                                       .formulas = -1};
        m->macs[i] = m->total[i] = of[i].macs;
        for (; up >= 0; up = m->at[up].parent) {
            m->at[up].end = i + 1;
            m->total[up] += of[i].macs;
        }
        if (i) m->at[m->at[i].parent].n_children++;
    }
}

#define MAKE(m, ...)                                                                                         \
    make(&(m), (int32_t)(sizeof((spec[]){__VA_ARGS__}) / sizeof(spec)), (spec[]){__VA_ARGS__})

/* "path:change:macs ..." of each place; changes are =, +, -, ~ and > (renamed). */
static void show(const lmi_outline *o, char *out, size_t size) {
    lmi_buf b;
    lmi_buf_init(&b);
    for (int32_t i = 0; i < o->n; i++) {
        if (i) lmi_putc(&b, ' ');
        lmi_outline_path(o, i, &b);
        lmi_putf(&b, "%c%lld", "=+-~>"[o->change[i]], (long long)o -> own[LMI_OWN_MACS][i]);
    }
    assert_true(b.n < size);
    memcpy(out, lmi_buf_text(&b), b.n + 1);
    lmi_buf_free(&b);
}

static void expect(const made *a, const made *b, const char *wanted) {
    lmi_outline o;
    char text[512];
    assert_int_equal(lmi_outline_diff(&o, &a->o, &b->o, NULL), LAM_OK);
    show(&o, text, sizeof text);
    assert_string_equal(text, wanted);
    for (int32_t i = 0; i < o.n; i++) { /* a tree in depth-first order */
        if (i) assert_in_range(o.at[i].parent, 0, i - 1);
        assert_in_range(o.at[i].end, i + 1, o.n);
        if (i) assert_true(o.at[i].end <= o.at[o.at[i].parent].end);
        int32_t was = o.was_at[i], now = o.now_at[i];
        assert_true(was >= 0 || now >= 0);
        if (was >= 0) assert_string_equal(a->at[was].type, (now < 0 ? &o.at[i] : &a->at[was])->type);
        if (now >= 0) assert_string_equal(b->at[now].name, o.at[i].name);
    }
    assert_ptr_equal(o.was, &a->o);
    lmi_outline_free(&o);
}

static void test_equal_outlines_have_no_difference(void **state) {
    (void)state;
    made a;
    MAKE(a, {0, "", "Net", 0}, {1, "conv", "Conv2d", 5}, {1, "fc", "Linear", 7});
    expect(&a, &a, "=0 conv=5 fc=7");
}

static void test_added_removed_and_changed_places(void **state) {
    (void)state;
    made a, b;
    MAKE(a, {0, "", "Net", 0}, {1, "conv", "Conv2d", 5}, {1, "pool", "MaxPool2d", 0}, {1, "fc", "Linear", 7});
    MAKE(b, {0, "", "Net", 0}, {1, "conv", "Conv2d", 6}, {1, "fc", "Linear", 7}, {1, "out", "Softmax", 0});
    expect(&a, &b, "~0 conv~6 pool-0 fc=7 out+0");
}

/* A removed place without a sibling before it comes first; one below a removed place stays below it. */
static void test_removed_places_stand_where_they_stood(void **state) {
    (void)state;
    made a, b;
    MAKE(a, {0, "", "Net", 0}, {1, "stem", "Sequential", 0}, {2, "0", "Conv2d", 3}, {2, "1", "ReLU", 0},
         {1, "fc", "Linear", 7}, {1, "tail", "ReLU", 0});
    MAKE(b, {0, "", "Net", 0}, {1, "fc", "Linear", 7});
    expect(&a, &b, "~0 stem-0 stem.0-0 stem.1-0 fc=7 tail-0");
}

static void test_a_subtree_at_another_path_is_renamed(void **state) {
    (void)state;
    made a, b;
    MAKE(a, {0, "", "Net", 0}, {1, "features", "Sequential", 0}, {2, "0", "Conv2d", 3}, {2, "1", "ReLU", 0},
         {1, "fc", "Linear", 7});
    MAKE(b, {0, "", "Net", 0}, {1, "stem", "Sequential", 0}, {2, "0", "Conv2d", 3}, {2, "1", "ReLU", 0},
         {1, "fc", "Linear", 7});
    expect(&a, &b, "~0 stem>0 stem.0=3 stem.1=0 fc=7");
}

/* Its changed layer is found by its path in the container. */
static void test_a_renamed_container_may_hold_changes(void **state) {
    (void)state;
    made a, b;
    MAKE(a, {0, "", "Net", 0}, {1, "features", "Sequential", 0}, {2, "0", "Conv2d", 3}, {2, "1", "Conv2d", 4},
         {2, "2", "ReLU", 0});
    MAKE(b, {0, "", "Net", 0}, {1, "stem", "Sequential", 0}, {2, "0", "Conv2d", 3}, {2, "1", "Conv2d", 5},
         {2, "2", "ReLU", 0});
    expect(&a, &b, "~0 stem~0 stem.0=3 stem.1~5 stem.2=0");
}

/* Of equal places those of equal names are the same, so that what is left is the one that changed. */
static void test_equal_names_come_first(void **state) {
    (void)state;
    made a, b;
    MAKE(a, {0, "", "Net", 0}, {1, "blocks", "Sequential", 0}, {2, "0", "Linear", 4}, {2, "1", "Linear", 4},
         {2, "2", "Linear", 4});
    MAKE(b, {0, "", "Net", 0}, {1, "layers", "Sequential", 0}, {2, "0", "Linear", 4}, {2, "1", "Linear", 9},
         {2, "2", "Linear", 4});
    expect(&a, &b, "~0 layers~0 layers.0=4 layers.1~9 layers.2=4");
}

/* What a recording does not count, and what another convention counted, makes no difference. */
static void test_what_only_one_of_them_knows_makes_no_difference(void **state) {
    (void)state;
    made a, b;
    MAKE(a, {0, "", "Net", 0}, {1, "fc", "Linear", 7});
    MAKE(b, {0, "", "Net", 0}, {1, "fc", "Linear", 9});
    expect(&a, &b, "~0 fc~9");
    a.o.convention = "torch";
    expect(&a, &b, "=0 fc=9");
    a.o.convention = NULL;
    b.at[1].out = "1";
    expect(&a, &b, "=0 fc=9");
}

/* Layers that have no numbers are not told apart, so that a ReLU elsewhere is no renamed one. */
static void test_places_without_numbers_are_not_renamed(void **state) {
    (void)state;
    made a, b;
    MAKE(a, {0, "", "Net", 0}, {1, "act", "ReLU", 0});
    MAKE(b, {0, "", "Net", 0}, {1, "relu", "ReLU", 0});
    expect(&a, &b, "~0 act-0 relu+0");
}

static void test_equal_places_are_matched_in_their_order(void **state) {
    (void)state;
    made a, b;
    MAKE(a, {0, "", "Net", 0}, {1, "a", "Linear", 4}, {1, "b", "Linear", 4}, {1, "c", "Linear", 4});
    MAKE(b, {0, "", "Net", 0}, {1, "x", "Linear", 4}, {1, "y", "Linear", 4});
    expect(&a, &b, "~0 x>4 y>4 c-0");
}

static void test_memory_and_spans_keep_their_places(void **state) {
    (void)state;
    made a, b;
    lmi_active work = {.place = 1, .depth = 1, .us = 3, .length = 4};
    int64_t held[2][LAM_N_HELD] = {{0}, {0, 9}}, below[2][LAM_N_HELD] = {{0, 9}, {0, 9}};
    MAKE(a, {0, "", "Net", 0}, {1, "act", "ReLU", 0}, {1, "fc", "Linear", 7});
    MAKE(b, {0, "", "Net", 0}, {1, "fc", "Linear", 7});
    b.o.at_work = &work;
    b.o.n_at_work = 1;
    b.o.held = held;
    b.o.held_total = below;
    b.o.peak_place = 1;
    lmi_outline o;
    assert_int_equal(lmi_outline_diff(&o, &a.o, &b.o, NULL), LAM_OK);
    assert_string_equal(o.at[2].name, "fc");
    assert_int_equal(o.peak_place, 2);
    assert_int_equal(o.at_work[0].place, 2);
    assert_int_equal(work.place, 1);
    assert_int_equal(o.held[2][1], 9);
    assert_int_equal(o.held[1][1], 0);
    lmi_outline_free(&o);
}

/* Places of a run are equal in both: 3 and 4 became so, 5 was another. */
static void test_runs_are_equal_before_and_after(void **state) {
    (void)state;
    static made both[2];
    static const int32_t n_run[] = {1, 2, 1, 2, 1, 1};
    lmi_outline o;
    MAKE(both[0], {0, "", "Net", 0}, {1, "1", "Linear", 5}, {1, "2", "Linear", 5}, {1, "3", "Linear", 5},
         {1, "4", "Linear", 5}, {1, "5", "Linear", 6});
    MAKE(both[1], {0, "", "Net", 0}, {1, "1", "Linear", 5}, {1, "2", "Linear", 5}, {1, "3", "Linear", 7},
         {1, "4", "Linear", 7}, {1, "5", "Linear", 7});
    assert_int_equal(lmi_outline_diff(&o, &both[0].o, &both[1].o, NULL), LAM_OK);
    for (int32_t i = 0; i < o.n; i++) assert_int_equal(o.at[i].n_run, n_run[i]);
    lmi_outline_free(&o);
}

static void diff_once(void *arg, bool *ok) {
    made *both = arg;
    lmi_outline o;
    lam_error e = {0};
    *ok = oom_check(lmi_outline_diff(&o, &both[0].o, &both[1].o, &e), &e);
    lmi_outline_free(&o);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    static made both[2];
    MAKE(both[0], {0, "", "Net", 0}, {1, "features", "Sequential", 0}, {2, "0", "Conv2d", 3},
         {1, "pool", "ReLU", 0});
    MAKE(both[1], {0, "", "Net", 0}, {1, "stem", "Sequential", 0}, {2, "0", "Conv2d", 3},
         {1, "fc", "Linear", 7});
    oom_sweep(diff_once, both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_outlines_have_no_difference),
        cmocka_unit_test(test_added_removed_and_changed_places),
        cmocka_unit_test(test_removed_places_stand_where_they_stood),
        cmocka_unit_test(test_a_subtree_at_another_path_is_renamed),
        cmocka_unit_test(test_a_renamed_container_may_hold_changes),
        cmocka_unit_test(test_equal_names_come_first),
        cmocka_unit_test(test_what_only_one_of_them_knows_makes_no_difference),
        cmocka_unit_test(test_places_without_numbers_are_not_renamed),
        cmocka_unit_test(test_equal_places_are_matched_in_their_order),
        cmocka_unit_test(test_memory_and_spans_keep_their_places),
        cmocka_unit_test(test_runs_are_equal_before_and_after),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
