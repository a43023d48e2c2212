/* SPDX-License-Identifier: Apache-2.0
 *
 * The icicle: widths, rows, labels, runs, what is too narrow; and how a file of its own differs. */
#include "kit/little_outline.h"

#define BOX "<rect class=\"o thin"

static const lmi_picture_options in_page = {.width = 1002, .by = LMI_FIGURE_MACS},
                                 in_file = {.width = 1002, .by = LMI_FIGURE_MACS, .alone = true};

/* Net(a 250, b(0 500, 1 250)), drawn 1000 wide. */
static little *net_of_five(void) {
    little *l = little_new();
    little_place(l, -1, "", 0);
    little_place(l, 0, "a", 250);
    little_place(l, 0, "b", 0);
    little_place(l, 2, "0", 500);
    little_place(l, 2, "1", 250);
    return l;
}

static void test_boxes_are_as_wide_as_their_share(void **state) {
    (void)state;
    little *l = net_of_five();
    const char *svg = drawn(lmi_picture_icicle, &l->o, in_page);
    static const double x[] = {0, 0, 250, 250, 750}, w[] = {999, 249, 749, 499, 249},
                        y[] = {0, 28, 28, 56, 56};
    assert_int_equal(count_of(svg, BOX), 5);
    for (int i = 0; i < 5; i++) {
        assert_true(number_after(svg, " x=\"", 2 * i) == x[i]); /* a box and its label */
        assert_true(number_after(svg, " y=\"", 2 * i) == y[i]);
        assert_true(number_after(svg, " width=\"", i) == w[i]);
    }
    has(svg, "viewBox=\"-1 -1 1002 86\"");
    has(svg, "<title>b.0 (Block): 500, 50"
             "\u202f"
             "%</title>");
    has(svg, "<text class=\"m\" x=\"5\" y=\"17\">Net <tspan class=\"d\">1.00\u202fK</tspan></text>");
    lacks(svg, "<style>");
    lacks(svg, "xmlns");
    free(l);
}

static void test_a_file_of_its_own(void **state) {
    (void)state;
    little *l = net_of_five();
    const char *svg = drawn(lmi_picture_icicle, &l->o, in_file);
    has(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"lam\" width=\"1002\" height=\"86\"");
    has(svg, "role=\"img\" aria-label=\"Icicle of MACs: each box is a module, as wide as its share\"");
    has(svg, ".lam .f-conv{fill:var(--convf);stroke:var(--conv)}");
    has(svg, "@media(prefers-color-scheme:dark){.lam{--bg:");
    lacks(svg, ".f-lin");
    lacks(svg, "--linf");
    assert_int_equal(count_of(svg, "<rect class=\"bg\""), 1);
    free(l);
}

/* A name of seven characters needs 7 * 6.9 + 9 units; six and the dots are enough to say something. */
static void test_labels_only_where_they_fit(void **state) {
    (void)state;
    little *l = little_new();
    little_place(l, -1, "", 0);
    little_place(l, 0, "sevenab", 60); /* 60 units: 7 characters */
    little_place(l, 0, "seven_abc", 60);
    little_place(l, 0, "sevenab", 50); /* 5 characters */
    little_place(l, 0, "abc", 30);     /* 3 characters */
    little_place(l, 0, "abcd", 30);
    little_place(l, 0, "rest", 770);
    const char *svg = drawn(lmi_picture_icicle, &l->o, in_page);
    assert_int_equal(count_of(svg, ">sevenab</text>"), 1);
    assert_int_equal(count_of(svg, ">seven\u2026bc</text>") + count_of(svg, ">seve\u2026bc</text>"), 1);
    assert_int_equal(count_of(svg, ">abc</text>"), 1);
    assert_int_equal(count_of(svg, ">abcd</text>"), 0);
    assert_int_equal(count_of(svg, "<text"), 5); /* these three, Net and rest */
    free(l);
}

/* Eighty equal blocks are one box, as wide as all of them, with the inside of the first. */
static void test_a_run_is_one_box(void **state) {
    (void)state;
    static char names[80][4];
    little *l = little_new();
    little_place(l, -1, "", 0);
    for (int i = 0; i < 80; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        int32_t k = little_place(l, 0, names[i], 0);
        l->at[k].run = 1;
        if (i == 0) l->at[k].n_run = 80;
        little_place(l, k, "x", 10);
        little_place(l, k, "y", 30);
    }
    const char *svg = drawn(lmi_picture_icicle, &l->o, in_page);
    assert_int_equal(count_of(svg, BOX), 4);
    has(svg, ">0\u202679 \u00d780 Block <tspan class=\"d\">3.20\u202fK</tspan>");
    has(svg, "80 equal modules together</title>");
    static const double w[] = {999, 999, 249, 749};
    for (int i = 0; i < 4; i++) assert_true(number_after(svg, " width=\"", i) == w[i]);
    has(svg, "<title>0.y (Block): 2.40\u202fK, 75\u202f%, 80 equal modules together</title>");
    free(l);
}

/* A thousand boxes of one unit, and one of a thousand units. */
static void test_what_is_too_narrow_is_one_box(void **state) {
    (void)state;
    little *l = little_new();
    little_place(l, -1, "", 0);
    for (int i = 0; i < 1000; i++) little_place(l, 0, "tiny", 1);
    little_place(l, 0, "wide", 1000);
    const char *svg = drawn(lmi_picture_icicle, &l->o, in_page);
    assert_int_equal(count_of(svg, BOX), 2);
    assert_int_equal(count_of(svg, "<rect class=\"f-rest thin\""), 1);
    has(svg, "<title>1000 more, too small to draw</title>");
    free(l);
}

static void test_a_page_has_fewer_boxes_than_a_file(void **state) {
    (void)state;
    little *l = little_new();
    little_place(l, -1, "", 0);
    for (int i = 0; i < 400; i++) little_place(l, 0, "x", 1); /* 2.5 units each */
    assert_int_equal(count_of(drawn(lmi_picture_icicle, &l->o, in_file), BOX), 401);
    assert_int_equal(count_of(drawn(lmi_picture_icicle, &l->o, in_page), BOX), 1);
    free(l);
}

static void test_twelve_rows_at_most(void **state) {
    (void)state;
    little *l = little_new();
    for (int32_t i = -1; i < 30; i++) little_place(l, i, i < 0 ? "" : "in", i == 29 ? 100 : 0);
    const char *svg = drawn(lmi_picture_icicle, &l->o, in_page);
    assert_int_equal(count_of(svg, BOX), 12);
    has(svg, "viewBox=\"-1 -1 1002 338\""); /* 12 * 28 and a margin of 2 */
    free(l);
}

static void test_names_of_strangers(void **state) {
    (void)state;
    little *l = little_new();
    little_place(l, -1, "", 1);
    l->at[0].type = "</title><script>alert(1)</script>\" onload=\"x";
    little_place(l, 0, "\u202e\x1b[31m<img src=x>", 500);
    l->at[1].type = "' class=\"f-lin";
    const char *svg = drawn(lmi_picture_icicle, &l->o, in_file);
    has(svg, "&lt;script&gt;");
    has(svg, "\\u202e\\u001b[31m&lt;img");
    lacks(svg, "onload=\"");
    lacks(svg, ".lam .f-lin"); /* a name is no class that is used */
    free(l);
}

static void test_a_lower_bound_is_marked(void **state) {
    (void)state;
    little *l = net_of_five();
    l->state[3] = LAM_AT_LEAST;
    const char *svg = drawn(lmi_picture_icicle, &l->o, in_page);
    has(svg, ">Net <tspan class=\"d\">\u2265\u202f1.00\u202fK</tspan>");
    has(svg, "<title>b.1 (Block): 250,");
    free(l);
}

static void test_nothing_to_draw(void **state) {
    (void)state;
    little *l = little_new();
    has(drawn(lmi_picture_icicle, &l->o, in_page), "There is nothing to draw");
    little_place(l, -1, "", 0);
    has(drawn(lmi_picture_icicle, &l->o, in_file), "There is nothing to draw");
    lmi_picture_options p = in_page;
    p.by = LMI_FIGURE_CALLS; /* does not add up */
    has(drawn(lmi_picture_icicle, &l->o, p), "There is nothing to draw");
    free(l);
}

/* The forward's bytes are read and written; the backward's come to them where they are wanted. */
static void test_what_is_shown(void **state) {
    (void)state;
    little *l = net_of_five();
    int64_t read[5] = {1000}, written[5] = {200}, back[5] = {INT64_MAX - 1000};
    l->o.total[LMI_OWN_READ] = read;
    l->o.total[LMI_OWN_WRITTEN] = written;
    l->o.total[LMI_OWN_BACK_READ] = back;
    lmi_picture_options p = {.by = LMI_FIGURE_MOVED};
    assert_int_equal(lmi_shown_total(&l->o, &p, 0), 1200);
    p.backward = true;
    assert_true(lmi_shown_total(&l->o, &p, 0) == INT64_MAX); /* more than fits */
    p.by = LMI_FIGURE_MACS;
    l->state[4] = LAM_UNKNOWN;
    l->macs[4] = 0;
    l->all[4] = 0;
    assert_int_equal(lmi_shown_state(&l->o, &p, 4), LAM_UNKNOWN);
    assert_int_equal(lmi_shown_state(&l->o, &p, 2), LAM_AT_LEAST);
    assert_int_equal(lmi_shown_state(&l->o, &p, 3), LAM_EXACT);
    free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes_are_as_wide_as_their_share),
        cmocka_unit_test(test_a_file_of_its_own),
        cmocka_unit_test(test_labels_only_where_they_fit),
        cmocka_unit_test(test_a_run_is_one_box),
        cmocka_unit_test(test_what_is_too_narrow_is_one_box),
        cmocka_unit_test(test_a_page_has_fewer_boxes_than_a_file),
        cmocka_unit_test(test_twelve_rows_at_most),
        cmocka_unit_test(test_names_of_strangers),
        cmocka_unit_test(test_a_lower_bound_is_marked),
        cmocka_unit_test(test_nothing_to_draw),
        cmocka_unit_test(test_what_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
