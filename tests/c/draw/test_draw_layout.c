/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawings of graphs: nothing overlaps, lines go down, the main path is straight, and plain graphs have no
 * crossings. */
#include "kit/oom.h"

#include "draw/layout.h"
#include "kit/draw.h"
#include "kit/shown.h"

#include <stdio.h>
#include <string.h>

enum { NODES = 400, LINES = 5000 };

/* The graph that is drawn next. */
static struct graph {
    int32_t n, m;
    lmi_box_size size[NODES];
    lmi_line_ends line[LINES];
} the;
static lmi_arena arena;
static lmi_drawing at;

static void begin(int32_t n) {
    the.n = n;
    the.m = 0;
    for (int32_t i = 0; i < n; i++) the.size[i] = (lmi_box_size){100, 24};
}
static void join(int32_t from, int32_t to) {
    assert_true(the.m < LINES);
    the.line[the.m++] = (lmi_line_ends){from, to};
}
static void chain(int32_t n) {
    begin(n);
    for (int32_t i = 1; i < n; i++) join(i - 1, i);
}

static void draw_it(void) {
    lam_error e = {0};
    lmi_arena_free(&arena);
    lmi_arena_init(&arena, UINT64_MAX);
    if (lmi_draw(&at, &arena, the.n, the.size, the.m, the.line, &e) != LAM_OK)
        fail_msg("lmi_draw: %s", e.text);
}

static int32_t rank_of(int32_t item) { return item < at.n ? at.rank[item] : at.waypoint[item - at.n].rank; }
static int32_t x_of(int32_t item) { return item < at.n ? at.x[item] : at.waypoint[item - at.n].x; }
static int32_t width_of(int32_t item) { return item < at.n ? the.size[item].w : 0; }

/* Is there a way over segments from `from` to `to`, through waypoints alone? */
static bool joined(int32_t from, int32_t to) {
    static bool seen[1 << 16];
    int32_t items = at.n + at.n_waypoints;
    assert_true(items <= (int32_t)sizeof seen);
    memset(seen, 0, (size_t)items);
    seen[from] = true;
    for (bool more = true; more;) {
        more = false;
        for (int32_t i = 0; i < at.n_segments; i++) {
            int32_t a = at.segment[i].from, b = at.segment[i].to;
            if (seen[a] && !seen[b] && (a == from || a >= at.n)) seen[b] = (more = true);
        }
    }
    return seen[to];
}

/* What must hold of every drawing. */
static void holds(void) {
    int32_t items = at.n + at.n_waypoints;
    assert_int_equal(at.n, the.n);
    for (int32_t i = 0; i < the.m; i++) {
        int32_t from = the.line[i].from, to = the.line[i].to;
        assert_true(at.rank[from] < at.rank[to]);
        assert_true(at.y[from] + the.size[from].h < at.y[to]);
        assert_true(joined(from, to));
    }
    for (int32_t i = 0; i < at.n_segments; i++)
        assert_int_equal(rank_of(at.segment[i].from) + 1, rank_of(at.segment[i].to));
    for (int32_t r = 0; r < at.n_ranks; r++) {
        assert_true(at.top[r] <= at.bottom[r] && at.bottom[r] <= at.height);
        if (r > 0) assert_in_range(at.top[r] - at.bottom[r - 1], 22, 48);
    }
    for (int32_t i = 0; i < items; i++) {
        assert_true(2 * x_of(i) - width_of(i) >= 2 * at.left && 2 * x_of(i) + width_of(i) <= 2 * at.right);
        for (int32_t k = 0; k < i; k++) { /* 20 is between nodes, 14 between trunks; rounding takes one */
            int32_t apart = i < at.n ? 19 : 13;
            if (rank_of(i) == rank_of(k) &&
                2 * abs(x_of(i) - x_of(k)) - width_of(i) - width_of(k) < 2 * apart)
                fail_msg("items %d and %d of rank %d overlap: %d and %d", i, k, rank_of(i), x_of(i), x_of(k));
        }
    }
    for (int32_t v = 0; v < at.n; v++) {
        assert_true(at.y[v] >= at.top[at.rank[v]] && at.y[v] + the.size[v].h <= at.bottom[at.rank[v]]);
        if (at.spine[v]) assert_int_equal(at.x[v], 0);
    }
}

/* -- plain graphs ------------------------------------------------------------------------------ */

static void a_chain(void **state) {
    (void)state;
    chain(200);
    draw_it();
    holds();
    assert_int_equal(at.n_ranks, 200);
    assert_int_equal(at.crossings, 0);
    assert_int_equal(at.n_waypoints, 0);
    for (int32_t v = 0; v < 200; v++) {
        assert_true(at.spine[v]);
        assert_int_equal(at.y[v], v * (24 + 22));
    }
    assert_int_equal(at.height, 199 * 46 + 24);
    assert_int_equal(at.left, -50);
    assert_int_equal(at.right, 50);
}

/* Blocks of conv, norm, add, each with a line around it. */
static void residual_blocks(void **state) {
    (void)state;
    chain(1 + 3 * 8);
    for (int32_t k = 0; k < 8; k++) join(3 * k, 3 * k + 3);
    draw_it();
    holds();
    assert_int_equal(at.crossings, 0);
    assert_false(at.shared);
    assert_int_equal(at.n_waypoints, 16);
    for (int32_t v = 0; v < at.n; v++) assert_int_equal(at.x[v], 0);
    for (int32_t i = 0; i < 16; i++) {
        assert_int_equal(at.waypoint[i].source, 3 * (i / 2));
        assert_int_equal(at.waypoint[i].rank, 3 * (i / 2) + 1 + i % 2);
        assert_int_equal(at.waypoint[i].x, 50 + 16); /* beside a node of 100 */
    }
}

/* `blocks` times: an input to `branches` branches of one node, which are put together. */
static void inception(int32_t blocks, int32_t branches) {
    begin(1 + blocks * (branches + 1));
    for (int32_t k = 0, from = 0; k < blocks; k++, from += branches + 1)
        for (int32_t i = 1; i <= branches; i++) {
            join(from, from + i);
            join(from + i, from + branches + 1);
        }
}

/* Branches are on both sides alike, also if their number is even and none is in the middle. */
static void branches_are_symmetric(void **state) {
    (void)state;
    for (int32_t branches = 2; branches <= 7; branches++) {
        inception(5, branches);
        draw_it();
        holds();
        assert_int_equal(at.crossings, 0);
        for (int32_t k = 0, from = 0; k < 5; k++, from += branches + 1) {
            assert_true(at.spine[from]);
            for (int32_t i = 1; i <= branches; i++) {
                assert_int_equal(at.x[from + i], -at.x[from + branches + 1 - i]);
                assert_int_equal(at.spine[from + i], branches % 2 == 1 && i == (branches + 1) / 2);
            }
        }
        assert_int_equal(at.left, -at.right);
    }
}

/* GoogLeNet's block from inside: 1x1; 1x1, 3x3; 1x1, 3x3; pool, 1x1. The third stands in the middle of the
 * longest ones. */
static void inside_of_inception(void **state) {
    (void)state;
    static const int32_t lines[][2] = {{0, 1}, {0, 2}, {2, 3}, {0, 4}, {4, 5}, {0, 6},
                                       {6, 7}, {1, 8}, {3, 8}, {5, 8}, {7, 8}};
    begin(9);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) join(lines[i][0], lines[i][1]);
    draw_it();
    holds();
    assert_int_equal(at.crossings, 0);
    assert_true(at.spine[0] && at.spine[4] && at.spine[5] && at.spine[8]);
    assert_false(at.spine[3] || at.spine[7]);
    assert_int_equal(at.x[3], -at.x[7]);
    assert_int_equal(at.x[3], at.x[2]);
}

static void a_fan(void **state) {
    (void)state;
    begin(200);
    for (int32_t i = 1; i < 199; i++) {
        join(0, i);
        join(i, 199);
    }
    draw_it();
    holds();
    assert_int_equal(at.n_ranks, 3);
    assert_int_equal(at.crossings, 0);
    for (int32_t i = 1; i < 199; i++) assert_int_equal(at.x[i], (2 * i - 199) * 60); /* 120 apart */
    assert_int_equal(at.top[1] - at.bottom[0], 48);
}

/* Two equal towers that meet: there is no middle one, so the line goes on where they meet. */
static void two_towers(void **state) {
    (void)state;
    begin(8);
    for (int32_t i = 0; i < 4; i += 2) {
        join(i / 2, i + 2);
        join(i + 2, i + 3);
        join(i + 3, 6);
    }
    join(6, 7);
    draw_it();
    holds();
    assert_false(at.spine[0] || at.spine[1] || at.spine[2] || at.spine[3]);
    assert_true(at.spine[6] && at.spine[7]);
    for (int32_t i = 0; i < 2; i++) assert_int_equal(at.x[2 + i], -at.x[4 + i]);
    assert_int_equal(at.x[0], -at.x[1]);
}

/* What a node reads that is not the next one is no branch to it. */
static void branches_with_a_line_past_their_end(void **state) {
    (void)state;
    begin(5);
    join(0, 1), join(0, 2), join(1, 3), join(2, 3), join(3, 4), join(2, 4);
    draw_it();
    holds();
    for (int32_t v = 0; v < 5; v++) assert_int_equal(at.spine[v], v == 0 || v > 2);
    assert_int_equal(at.x[1], -at.x[2]);
}

static void inputs_stand_above_their_readers(void **state) {
    (void)state;
    begin(7);
    for (int32_t i = 1; i < 5; i++) join(i - 1, i);
    join(5, 6); /* a second input, read by 6 alone, which reads 4 too */
    join(4, 6);
    draw_it();
    holds();
    assert_int_equal(at.rank[6], 5);
    assert_int_equal(at.rank[5], 4);
    assert_int_equal(at.n_waypoints, 0);
}

static void nodes_without_lines(void **state) {
    (void)state;
    begin(3);
    draw_it();
    holds();
    assert_int_equal(at.n_ranks, 1);
    assert_int_equal(at.right - at.left, 3 * 100 + 2 * 20);
    begin(0);
    draw_it();
    assert_int_equal(at.n_ranks, 0);
    assert_int_equal(at.height, 0);
}

/* Two branches with a line around both: the branches stay on both sides, the line is beside the right one. */
static void a_line_around_branches(void **state) {
    (void)state;
    begin(4);
    join(0, 1), join(0, 2), join(1, 3), join(2, 3), join(0, 3);
    draw_it();
    holds();
    assert_int_equal(at.x[1], -60);
    assert_int_equal(at.x[2], 60);
    assert_int_equal(at.waypoint[0].x, 60 + 50 + 16);
}

static void nodes_stand_in_the_middle_of_their_rank(void **state) {
    (void)state;
    begin(3);
    join(0, 2), join(1, 2);
    the.size[0].h = 46;
    draw_it();
    holds();
    assert_int_equal(at.bottom[0], 46);
    assert_int_equal(at.y[0], 0);
    assert_int_equal(at.y[1], 11);
}

/* -- long lines -------------------------------------------------------------------------------- */

/* A trunk is straight, beside the widest node that it passes. */
static void a_trunk_is_straight(void **state) {
    (void)state;
    static const int32_t widths[] = {100, 60, 230, 80, 132, 100};
    chain(6);
    join(0, 5);
    for (int32_t v = 0; v < 6; v++) the.size[v].w = widths[v];
    draw_it();
    holds();
    assert_int_equal(at.n_waypoints, 4);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(at.waypoint[i].x, 115 + 16);
}

/* On the left too: there is no crossing then. */
static void a_trunk_on_the_left_is_straight(void **state) {
    (void)state;
    begin(7);
    join(0, 1), join(1, 6);
    join(0, 2), join(2, 3), join(3, 4), join(4, 5), join(5, 6);
    the.size[3].w = 60;
    the.size[4].w = 230;
    the.size[5].w = 80;
    draw_it();
    holds();
    assert_int_equal(at.crossings, 0);
    assert_int_equal(at.n_waypoints, 3);
    for (int32_t i = 0; i < 3; i++) assert_int_equal(at.waypoint[i].x, -(115 + 16));
}

/* Every node reads all before it: lines of their own would cover the drawing. */
static void dense_graphs_share_a_rail(void **state) {
    (void)state;
    begin(12);
    for (int32_t i = 0; i < 12; i++)
        for (int32_t k = 0; k < i; k++) join(k, i);
    draw_it();
    holds();
    assert_true(at.shared);
    assert_int_equal(at.n_waypoints, 10);
    for (int32_t i = 0; i < 10; i++) {
        assert_int_equal(at.waypoint[i].source, 12);
        assert_int_equal(at.waypoint[i].x, at.waypoint[0].x);
    }
    for (int32_t v = 0; v < 12; v++) assert_int_equal(at.x[v], 0);
}

/* Where a rail has no more to carry it ends; a second part of the graph has its own piece. */
static void a_rail_has_gaps(void **state) {
    (void)state;
    begin(16);
    for (int32_t part = 0; part < 16; part += 8)
        for (int32_t i = 0; i < 8; i++)
            for (int32_t k = 0; k < i; k++) join(part + k, part + i);
    join(7, 8);
    draw_it();
    holds();
    assert_true(at.shared);
    assert_int_equal(at.n_waypoints, 12);
    for (int32_t i = 0; i < at.n_segments; i++)
        assert_false(rank_of(at.segment[i].from) <= 7 && rank_of(at.segment[i].to) >= 8 &&
                     at.segment[i].from >= 16);
    assert_false(joined(0, 15));
}

/* Lines from every node of a chain to its end: a trunk each would be the square of their number. */
static void many_trunks_share_a_rail(void **state) {
    (void)state;
    chain(100);
    for (int32_t i = 0; i < 98; i++) join(i, 99);
    draw_it();
    holds();
    assert_true(at.shared);
    assert_int_equal(at.n_waypoints, 98);
}

/* -- any graph --------------------------------------------------------------------------------- */

static void random_graph(int32_t n, int32_t m) {
    begin(n);
    for (int32_t i = 0; i < n; i++) the.size[i] = (lmi_box_size){(int32_t)draw(0, 230), (int32_t)draw(0, 46)};
    for (int32_t i = 0; i < m && n > 1; i++) {
        int32_t to = (int32_t)draw(1, n - 1);
        join((int32_t)draw(draw(0, 3) && to > 6 ? to - 6 : 0, to - 1), to);
    }
}

static void any_graph(void **state) {
    (void)state;
    seed = 7;
    for (int32_t i = 0; i < rounds(150); i++) {
        int32_t n = (int32_t)draw(1, 40);
        random_graph(n, (int32_t)draw(0, 4 * n));
        draw_it();
        holds();
        assert_true(at.shared || at.crossings <= 40); /* more than those have one rail */
    }
}

/* Crossings are those of the segments, counted one by one. */
static void crossings_are_counted(void **state) {
    (void)state;
    seed = 11;
    for (int32_t round = 0; round < rounds(60); round++) {
        random_graph(30, 70);
        draw_it();
        int64_t crossings = 0;
        for (int32_t i = 0; i < at.n_segments; i++)
            for (int32_t k = 0; k < i; k++) {
                const lmi_line_ends a = at.segment[i], b = at.segment[k];
                int64_t above = x_of(a.from) - x_of(b.from), below = x_of(a.to) - x_of(b.to);
                crossings += rank_of(a.from) == rank_of(b.from) && above * below < 0;
            }
        assert_int_equal(at.crossings, crossings);
    }
}

static uint64_t print_of(void) {
    uint64_t h =
        lmi_hash(at.x, (size_t)at.n * sizeof *at.x) * 31 + lmi_hash(at.y, (size_t)at.n * sizeof *at.y);
    h = h * 31 + lmi_hash(at.waypoint, (size_t)at.n_waypoints * sizeof *at.waypoint);
    h = h * 31 + lmi_hash(at.segment, (size_t)at.n_segments * sizeof *at.segment);
    return h * 31 + lmi_hash(at.spine, (size_t)at.n) + (uint64_t)at.crossings;
}

static void order_and_repetition_of_lines_change_nothing(void **state) {
    (void)state;
    seed = 3;
    for (int32_t round = 0; round < rounds(40); round++) {
        random_graph(40, (int32_t)draw(20, 140));
        draw_it();
        uint64_t before = print_of();
        draw_it();
        assert_true(print_of() == before);
        for (int32_t i = the.m - 1; i > 0; i--) {
            int32_t k = (int32_t)draw(0, i);
            lmi_line_ends swapped = the.line[i];
            the.line[i] = the.line[k];
            the.line[k] = swapped;
        }
        for (int32_t i = 0; i < 5; i++) join(the.line[i].from, the.line[i].to);
        draw_it();
        assert_true(print_of() == before);
    }
}

/* -- what is refused --------------------------------------------------------------------------- */

static lam_status refused(const char *why) {
    lam_error e = {0};
    lmi_drawing d;
    lmi_arena_free(&arena);
    lmi_arena_init(&arena, UINT64_MAX);
    lam_status s = lmi_draw(&d, &arena, the.n, the.size, the.m, the.line, &e);
    if (s == LAM_OK || !strstr(e.text, why)) fail_msg("status %d: '%s'", (int)s, e.text);
    assert_int_equal(d.n, 0);
    assert_null(d.x);
    return s;
}

static void what_is_no_graph_is_refused(void **state) {
    (void)state;
    static const lmi_line_ends bad[] = {{1, 1}, {2, 1}, {-1, 1}, {0, 3}, {3, 4}, {INT32_MIN, INT32_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        chain(3);
        join(bad[i].from, bad[i].to);
        assert_int_equal(refused("it must go down"), LAM_USAGE);
    }
    chain(3);
    the.size[1].w = -1;
    assert_int_equal(refused("node 1 has a negative size"), LAM_USAGE);
    chain(3);
    the.size[2].h = INT32_MAX;
    assert_int_equal(refused("too large"), LAM_LIMIT);
    for (int more = 0; more < 2; more++) { /* the sum of all, to the last unit */
        chain(3);
        the.size[0].w = the.size[2].w = 1 << 27;
        the.size[1].w = more;
        if (more)
            assert_int_equal(refused("too large"), LAM_LIMIT);
        else
            draw_it();
        chain(2);
        the.size[0].h = (1 << 28) - 2 * 48 + more;
        the.size[1].h = 0;
        if (more)
            assert_int_equal(refused("too large"), LAM_LIMIT);
        else
            draw_it();
    }
    chain(3);
    the.n = -1;
    assert_int_equal(refused("can't be drawn"), LAM_USAGE);
    the.n = 3;
    the.m = -1;
    assert_int_equal(refused("can't be drawn"), LAM_USAGE);
}

static void try_to_draw(void *unused, bool *ok) {
    (void)unused;
    lmi_arena own;
    lmi_drawing d;
    lam_error e = {0};
    lmi_arena_init(&own, UINT64_MAX);
    *ok = oom_check(lmi_draw(&d, &own, the.n, the.size, the.m, the.line, &e), &e);
    lmi_arena_free(&own);
}

static void memory_that_runs_out(void **state) {
    (void)state;
    inception(3, 4);
    join(0, 14);
    oom_sweep(try_to_draw, NULL);
    dense_graphs_share_a_rail(NULL);
    oom_sweep(try_to_draw, NULL);
}

/* -- a transcript ------------------------------------------------------------------------------ */

static void tell(const char *format, ...) LAM_PRINTF(1, 2);
static void tell(const char *format, ...) {
    char line[160];
    va_list ap;
    va_start(ap, format);
    (void)show_put(NULL, line, (size_t)vsnprintf(line, sizeof line, format, ap));
    va_end(ap);
}

static void tell_drawing(void) {
    tell("%d ranks, %d to %d by %d, %d crossings%s\n ", at.n_ranks, at.left, at.right, at.height,
         (int)at.crossings, at.shared ? ", one rail" : "");
    for (int32_t v = 0; v < at.n; v++)
        tell(" %d:%d,%d%s", at.rank[v], at.x[v], at.y[v], at.spine[v] ? "|" : "");
    tell("\n ");
    for (int32_t r = 0; r < at.n_ranks; r++) tell(" %d-%d", at.top[r], at.bottom[r]);
    tell("\n ");
    for (int32_t i = 0; i < at.n_waypoints; i++)
        tell(" %d:%d of %d,", at.waypoint[i].rank, at.waypoint[i].x, at.waypoint[i].source);
    tell("\n ");
    for (int32_t i = 0; i < at.n_segments; i++) tell(" %d>%d", at.segment[i].from, at.segment[i].to);
    tell("\n");
}

/* Where everything stands in some graphs, as it stood before. */
static void all_stands_as_before(void **state) {
    (void)state;
    seed = 13;
    (void)show_sink();
    for (int32_t i = 0; i < 40; i++) {
        begin((int32_t)draw(1, 10 + i));
        for (int32_t v = 0; v < the.n; v++) {
            the.size[v].w = (int32_t)draw(0, 230);
            the.size[v].h = (int32_t)draw(0, 46);
        }
        const int64_t many = draw(0, (1 + i % 4) * the.n);
        for (int64_t k = 0; k < many && the.n > 1; k++) {
            const int32_t to = (int32_t)draw(1, the.n - 1), least = i % 3 && to > 6 ? to - 6 : 0;
            join((int32_t)draw(least, to - 1), to);
        }
        draw_it();
        tell_drawing();
    }
    show_golden("drawings", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain),
        cmocka_unit_test(residual_blocks),
        cmocka_unit_test(branches_are_symmetric),
        cmocka_unit_test(inside_of_inception),
        cmocka_unit_test(a_fan),
        cmocka_unit_test(two_towers),
        cmocka_unit_test(branches_with_a_line_past_their_end),
        cmocka_unit_test(inputs_stand_above_their_readers),
        cmocka_unit_test(nodes_without_lines),
        cmocka_unit_test(a_line_around_branches),
        cmocka_unit_test(nodes_stand_in_the_middle_of_their_rank),
        cmocka_unit_test(a_trunk_is_straight),
        cmocka_unit_test(a_trunk_on_the_left_is_straight),
        cmocka_unit_test(dense_graphs_share_a_rail),
        cmocka_unit_test(a_rail_has_gaps),
        cmocka_unit_test(many_trunks_share_a_rail),
        cmocka_unit_test(any_graph),
        cmocka_unit_test(all_stands_as_before),
        cmocka_unit_test(crossings_are_counted),
        cmocka_unit_test(order_and_repetition_of_lines_change_nothing),
        cmocka_unit_test(what_is_no_graph_is_refused),
        cmocka_unit_test(memory_that_runs_out),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lmi_arena_free(&arena);
    return failed;
}
