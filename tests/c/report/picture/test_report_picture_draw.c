/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time, the roofline, the graph and the scatter, of what is written by hand. */
#include "kit/little_outline.h"

#include "report/picture/text.h"

#define BOX "<rect class=\"o thin"

static const lmi_picture_options in_page = {.width = 1008, .by = LMI_FIGURE_MACS},
                                 in_file = {.width = 1008, .by = LMI_FIGURE_MACS, .alone = true};

/* -- memory over time ---------------------------------------------------------------------------------- */

static lam_memory_totals use_of_1000(void) {
    return (lam_memory_totals){.before = 100, .peak = 1000, .peak_phase = LAM_BACKWARD};
}

/* The area is 66 to 998 wide, and 1100 bytes are 204 high: 1000 bytes are at 230 - 204 * 1000 / 1100. */
static void test_the_course_of_memory(void **state) {
    (void)state;
    little *l = little_new();
    lmi_course_point point[] = {{0, 0}, {500, 1000}, {500, 1000}, {1000, 550}};
    lmi_active work[] = {{1, 1, LAM_FORWARD, 0, 400}, {1, 3, LAM_BACKWARD, 600, 400}};
    lam_memory_totals use = use_of_1000();
    little_place(l, -1, "", 0);
    little_place(l, 0, "layer", 1);
    l->o.memory = &use;
    l->o.peak_place = 1;
    l->o.point = point, l->o.n_points = 4;
    l->o.at_work = work, l->o.n_at_work = 2;
    l->o.backward_us = 500;
    const char *svg = drawn(lmi_picture_memory, &l->o, in_file);
    has(svg, "d=\"M66 230 532 44.5 998 128L998 230Z\"");
    has(svg, "<circle class=\"bd\" cx=\"532\" cy=\"44.5\" r=\"4\"/>");
    has(svg, "<path class=\"pk\" d=\"M532 44.5V296\"/>");
    has(svg, ">peak 1000\u202f"
             "B, backward of layer</text>");
    has(svg, ">there before the run 100\u202f"
             "B</text>");
    has(svg, "d=\"M532 20V230\"");
    has(svg, "<title>layer (Block): backward, 400\u202f\u00b5s</title>");
    has(svg, ">1.00\u202fms of the run that was watched</text>");
    assert_int_equal(count_of(svg, BOX), 2);
    svg = drawn(lmi_picture_memory, &l->o, in_page);
    has(svg, "d=\"M66 230 532 45 998 128L998 230Z\"");
    assert_int_equal(count_of(svg, "<g class=\"cl\" data-i=\"1\">" BOX), 2); /* they answer to a selection */
    has(svg, "<rect data-us=\"1000\" x=\"66\" y=\"20\" width=\"932\" height=\"210\" fill=\"none\"/>");
    free(l);
}

/* Twice as long and twice as much before: both stand on one scale, where 2200 bytes are 204 high. */
static void test_the_course_of_memory_before(void **state) {
    (void)state;
    little *l = little_new(), *was = little_new();
    lmi_course_point point[] = {{0, 0}, {500, 1000}, {1000, 550}}, before[] = {{0, 0}, {2000, 2000}};
    lam_memory_totals use = use_of_1000(), use_before = {.peak = 2000};
    little_place(l, -1, "", 0);
    little_place(was, -1, "", 0);
    little_place(was, 0, "old", 0);
    l->o.memory = &use, l->o.point = point, l->o.n_points = 3;
    was->o.memory = &use_before, was->o.point = before, was->o.n_points = 2, was->o.peak_place = 1;
    l->o.was = &was->o;
    const char *svg = drawn(lmi_picture_memory, &l->o, in_page);
    has(svg, "<path class=\"area\" d=\"M66 230 299 137 532 179L532 230Z\"/>"
             "<path class=\"was\" d=\"M66 230 998 45\"/>");
    has(svg, ">dashed: before, peak 1.95\u202fKiB in old</text>");
    has(svg, ">2.00\u202fms</text>");
    has(svg, "data-us=\"2000\"");
    svg = drawn(lmi_picture_memory, &l->o, (lmi_picture_options){.width = 400});
    has(svg, ">dashed: before, peak 1.95\u202fKiB</text>");
    was->o.n_points = 1; /* no course */
    lacks(drawn(lmi_picture_memory, &l->o, in_page), "dashed");
    free(was);
    free(l);
}

/* 300 of 1000 bytes are parameters, 700 activations, which stand on them: each area is drawn from 0 on, the
 * upper one first. */
static void test_memory_by_what_holds_it(void **state) {
    (void)state;
    little *l = little_new();
    lmi_course_point point[] = {{0, 300}, {500, 1000}, {1000, 300}};
    int64_t part[3][LAM_N_HELD] = {{0}};
    lam_memory_totals use = use_of_1000();
    for (int i = 0; i < 3; i++) part[i][LAM_HELD_PARAMETER] = 300;
    part[1][LAM_HELD_ACTIVATION] = 700;
    little_place(l, -1, "", 0);
    l->o.memory = &use;
    l->o.point = point, l->o.n_points = 3;
    l->o.part = part;
    const char *svg = drawn(lmi_picture_memory, &l->o, in_file);
    has(svg, "<path class=\"k5\" d=\"M66 230 66 174 532 45 998 174L998 230Z\"/>"
             "<path class=\"k0\" d=\"M66 230 66 174 998 174L998 230Z\"/>");
    lacks(svg, "class=\"area\"");
    assert_int_equal(count_of(svg, "<path class=\"k"), 2);
    has(svg, "<rect class=\"k0\" x=\"66\" y=\"324\" width=\"10\" height=\"10\" rx=\"2\"/><text class=\"s\" "
             "x=\"81\" "
             "y=\"333\">parameters</text>");
    has(svg, ">activations</text>");
    has(svg, "--m0:#0072b2;");
    has(svg, "--m5:#2fbf93;");
    svg = drawn(lmi_picture_memory, &l->o, in_page);
    has(svg, "<path class=\"k0\"");
    free(l);
}

static void test_the_longest_of_many_places_at_work(void **state) {
    (void)state;
    enum { WORK = 900, MOST = 700 };
    little *l = little_new();
    static lmi_course_point point[600];
    static lmi_active work[WORK];
    lam_memory_totals use = use_of_1000();
    little_place(l, -1, "", 0);
    little_place(l, 0, "layer", 1);
    for (int i = 0; i < 600; i++) point[i] = (lmi_course_point){i * 1000, 400 + i % 600};
    for (int i = 0; i < WORK; i++) work[i] = (lmi_active){1, 1 + i % 3, LAM_FORWARD, i * 600, 600 + i};
    l->o.memory = &use;
    l->o.point = point, l->o.n_points = 600;
    l->o.at_work = work, l->o.n_at_work = WORK;
    const char *svg = drawn(lmi_picture_memory, &l->o, in_page);
    assert_int_equal(count_of(svg, BOX), MOST);
    assert_true(strlen(svg) <= 180 * 1024);
    assert_int_equal(count_of(drawn(lmi_picture_memory, &l->o, in_file), BOX), MOST);
    /* Of equally long ones the first. */
    for (int i = 0; i < WORK; i++) work[i] = (lmi_active){1, 1, LAM_FORWARD, i * 600, 700};
    svg = drawn(lmi_picture_memory, &l->o, in_page);
    assert_int_equal(count_of(svg, BOX), MOST);
    static const char box[] = BOX " f-conv\" x=\"";
    double last = 0;
    for (const char *at = svg; (at = strstr(at, box)) != NULL;) {
        double x = strtod(at += sizeof box - 1, NULL);
        assert_true(last ? x > last : x == 66);
        last = x;
    }
    free(l);
}

static void test_memory_that_was_not_measured(void **state) {
    (void)state;
    little *l = little_new();
    lam_memory_totals use = {0};
    lmi_course_point point[] = {{0, 0}, {0, 0}};
    little_place(l, -1, "", 1);
    has(drawn(lmi_picture_memory, &l->o, in_file), "Memory was not measured.");
    l->o.memory = &use;
    l->o.point = point, l->o.n_points = 2;
    has(drawn(lmi_picture_memory, &l->o, in_file), "Memory was not measured.");
    use = use_of_1000();
    use.peak = INT64_MAX; /* and no time went by */
    assert_int_equal(count_of(drawn(lmi_picture_memory, &l->o, in_file), "<circle"), 1);
    free(l);
}

/* -- the roofline -------------------------------------------------------------------------------------- */

typedef struct timed {
    little *l;
    int64_t ns[8], flops[8], read[8], written[8];
} timed;

/* A machine of 10^9 FLOP/s and 10^8 bytes/s: its ridge is at 10 FLOP a byte. */
static timed *timed_new(void) {
    timed *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->l = little_new();
    t->l->o.roof = (lam_peak){1e9, 1e8};
    t->l->o.own[LMI_OWN_TIME] = t->ns;
    t->l->o.own[LMI_OWN_FLOPS] = t->flops;
    t->l->o.own[LMI_OWN_READ] = t->read;
    t->l->o.own[LMI_OWN_WRITTEN] = t->written;
    little_place(t->l, -1, "", 0);
    return t;
}

static void timed_place(timed *t, const char *name, int64_t ns, int64_t flops, int64_t read,
                        int64_t written) {
    int32_t i = little_place(t->l, 0, name, 0);
    t->ns[i] = ns, t->flops[i] = flops, t->read[i] = read, t->written[i] = written;
}

static void timed_free(timed *t) {
    free(t->l);
    free(t);
}

static bool speed_of(const timed *t, int32_t place, lam_speed *out) {
    return lmi_place_speed_of(&t->l->o, place, &t->l->o.roof, out);
}

static void test_the_speed_of_a_place(void **state) {
    (void)state;
    timed *t = timed_new();
    lam_speed s;
    timed_place(t, "quick", 1000, 500, 6, 4);  /* 5e8 FLOP/s, 1e7 bytes/s: 0.5 and 0.1 */
    timed_place(t, "mover", 1000, 10, 50, 30); /* 0.01 and 0.8 */
    timed_place(t, "idle", 1000, 10, 1, 1);
    timed_place(t, "unknown", 1000, 0, 1, 1);
    assert_true(speed_of(t, 1, &s));
    assert_true(s.flops == 5e8 && s.intensity == 50 && s.share == .5 && s.bound == LAM_BOUND_COMPUTE);
    assert_true(speed_of(t, 2, &s));
    assert_true(s.share > .799 && s.share < .801 && s.bound == LAM_BOUND_MEMORY && s.ns == 1000);
    assert_true(speed_of(t, 3, &s));
    assert_true(s.bound == LAM_BOUND_NEITHER);
    assert_false(speed_of(t, 4, &s));
    assert_string_equal(lmi_speed_bound(&(lam_speed){.bound = LAM_BOUND_NEITHER}), "overhead");
    assert_string_equal(lmi_speed_bound(&(lam_speed){.bound = LAM_BOUND_MEMORY}), "memory");
    uint8_t least[8] = {0, LAM_AT_LEAST};
    static const lmi_own_number all[] = {LMI_OWN_FLOPS, LMI_OWN_READ, LMI_OWN_WRITTEN, LMI_OWN_TIME};
    for (int i = 0; i < 4; i++) { /* of what is at least a number there is no speed */
        t->l->o.state[all[i]] = least;
        assert_false(speed_of(t, 1, &s));
        assert_true(speed_of(t, 2, &s));
        t->l->o.state[all[i]] = NULL;
    }
    assert_true(speed_of(t, 1, &s));
    timed_free(t);
}

/* Intensities from 0.1 to 100 are 66 to 992; speeds from 10^7 to 0.55 above the roof are 380 to 22. */
static void test_circles_stand_below_the_roofs(void **state) {
    (void)state;
    timed *t = timed_new();
    timed_place(t, "quick", 3000, 3000, 290,
                10); /* at both roofs, which meet there; three quarters of the time */
    timed_place(t, "mover", 1000, 10, 70, 30);
    const char *svg = drawn(lmi_picture_roofline, &t->l->o, in_file);
    double x = 66 + 926 * 2 / 3., roof = 380 - 358 * 2 / 2.55;
    assert_int_equal(count_of(svg, "<circle"), 2);
    assert_true(number_after(svg, " cx=\"", 0) - x < .06 && x - number_after(svg, " cx=\"", 0) < .06);
    assert_true(number_after(svg, " cy=\"", 0) - roof < .06 && roof - number_after(svg, " cy=\"", 0) < .06);
    assert_true(number_after(svg, " r=\"", 0) == 39.8); /* 46 * sqrt(3/4) */
    assert_true(number_after(svg, " r=\"", 1) == 23);
    has(svg, "<title>quick (Block): 3.00\u202f\u00b5s, 1.00\u202fGFLOP/s, 10.0 FLOP/byte, memory, "
             "100\u202f%</title>");
    has(svg, ">ridge 10.0 FLOP/byte</text>");
    has(svg, ">compute roof 1.00\u202fGFLOP/s</text>");
    /* Each power of ten that the axes have: 0.1 to 100, and 10^7 to 10^9. */
    static const char *const powers[] = {">0.1</text>", ">1</text>", ">10</text>", ">100</text>"};
    for (int i = 0; i < 4; i++) has(svg, powers[i]);
    for (int i = 7; i <= 9; i++) {
        lmi_buf power;
        lmi_buf_init(&power);
        lmi_putc(&power, '>');
        lmi_put_power(&power, i);
        lmi_put(&power, "</text>");
        has(svg, lmi_buf_text(&power));
        lmi_buf_free(&power);
    }
    /* At the corner there is room for no label. */
    assert_int_equal(count_of(svg, "class=\"s m halo"), 1);
    has(svg, ">quick</text>");
    timed_free(t);
}

static void test_a_ridge_at_a_low_intensity_has_room_for_its_labels(void **state) {
    (void)state;
    timed *t = timed_new();
    t->l->o.roof = (lam_peak){1e8, 1e9};
    timed_place(t, "quick", 3000, 200, 190, 10);
    const char *svg = drawn(lmi_picture_roofline, &t->l->o, in_file);
    has(svg, ">0.01</text>");
    has(svg, ">memory roof ");
    assert_true(number_after(svg, "class=\"s b r\" x=\"", 0) == 66 + 926 / 2 - 14);
    timed_free(t);
}

static void test_a_page_has_the_longest_circles(void **state) {
    (void)state;
    little *l = little_new();
    enum { ALL = 500 };
    static int64_t ns[ALL], flops[ALL], read[ALL];
    l->o.roof = (lam_peak){1e9, 1e8};
    l->o.own[LMI_OWN_TIME] = ns;
    l->o.own[LMI_OWN_FLOPS] = flops;
    l->o.own[LMI_OWN_READ] = read;
    for (int i = 0; i < ALL; i++) {
        little_place(l, i ? 0 : -1, "layer", 0);
        ns[i] = 1000 + i, flops[i] = 1 + i * i, read[i] = 1 + i;
    }
    const char *svg = drawn(lmi_picture_roofline, &l->o, in_page);
    assert_int_equal(count_of(svg, "<circle"), 400);
    has(svg, ">the 400 longest of 500</text>");
    assert_true(strlen(svg) <= 100 * 1024);
    assert_in_range(count_of(svg, "s m halo"), 1, 9);
    svg = drawn(lmi_picture_roofline, &l->o, in_file);
    assert_int_equal(count_of(svg, "<circle"), ALL);
    lacks(svg, "longest of");
    free(l);
}

/* Each circle before is joined to the one after, unless there is none, or it did not move; what hardly took
 * time in either is left out. */
static void test_the_roofline_of_a_difference(void **state) {
    (void)state;
    timed *now = timed_new(), *was = timed_new();
    int32_t was_at[] = {0, 1, 2, 4, 3};
    timed_place(now, "moved", 1000, 100, 20, 10);
    timed_place(now, "same", 1000, 100, 10, 10);
    timed_place(now, "short", 1, 1, 1, 1);
    timed_place(now, "gone", 0, 0, 0, 0);
    timed_place(was, "moved", 8000, 100, 20, 10);
    timed_place(was, "same", 1000, 100, 10, 10);
    timed_place(was, "gone", 1000, 100, 1, 1);
    timed_place(was, "short", 10, 1, 1, 1);
    now->l->o.was = &was->l->o;
    now->l->o.was_at = was_at;
    was->l->o.roof = (lam_peak){0}; /* the machine after is what both are held against */
    const char *svg = drawn(lmi_picture_roofline, &now->l->o, in_page);
    assert_int_equal(count_of(svg, "<circle class=\"o "), 3);
    assert_int_equal(count_of(svg, "<circle class=\"was\""), 2);
    assert_int_equal(count_of(svg, "<path class=\"was\""), 1);
    has(svg, "<g class=\"cl\" data-i=\"1\"><path class=\"was\"");
    has(svg, "<g class=\"cl\" data-i=\"4\"><circle class=\"was\"");
    has(svg,
        "<title>moved (Block): before: 8.00\u202f\u00b5s, 12.5\u202fMFLOP/s, 3.33 FLOP/byte, overhead, ");
    timed_free(was);
    timed_free(now);
}

/* A machine that was said to be slower than what ran on it: the axis reaches beyond its roof. */
static void test_circles_above_the_roof_are_in_the_picture(void **state) {
    (void)state;
    timed *t = timed_new();
    timed_place(t, "quick", 1000, 100000000, 50, 50);
    assert_true(number_after(drawn(lmi_picture_roofline, &t->l->o, in_file), " cy=\"", 0) > 22);
    timed_free(t);
}

static void test_a_roofline_without_times(void **state) {
    (void)state;
    timed *t = timed_new();
    timed_place(t, "layer", 0, 10, 10, 10);
    has(drawn(lmi_picture_roofline, &t->l->o, in_page), "or the limits of the machine are not");
    t->ns[1] = 100;
    t->l->o.roof.bytes = 0;
    has(drawn(lmi_picture_roofline, &t->l->o, in_page), "or the limits of the machine are not");
    timed_free(t);
}

/* -- the graph ----------------------------------------------------------------------------------------- */

typedef struct level_of_four {
    lmi_level level;
    lmi_level_node node[4];
    lmi_box_size size[4];
    int32_t x[4], y[4], rank[4], top[4], bottom[4];
    bool spine[4];
    lmi_waypoint waypoint[1];
    lmi_line_ends segment[4];
} level_of_four;

/* in -> conv -> add -> out, and past conv, by a waypoint at 100, in -> add. */
static void draw_four(level_of_four *f, little *l) {
    static const int32_t h[] = {20, 46, 24, 20}, y[] = {0, 42, 110, 156};
    static const lmi_line_ends segments[] = {{0, 1}, {0, 4}, {1, 2}, {4, 2}};
    *f = (level_of_four){.waypoint = {{100, 1, 0}}};
    f->node[0] = (lmi_level_node){.look = LMI_NODE_END, .label = "in", .note = "", .place = -1};
    f->node[1] = (lmi_level_node){.look = LMI_NODE_MODULE, .label = "conv", .note = "1/2", .place = 1};
    f->node[2] =
        (lmi_level_node){.look = LMI_NODE_OPERATORS, .label = "add", .note = "add, view", .place = -1};
    f->node[3] = (lmi_level_node){.look = LMI_NODE_END, .label = "out", .note = "", .place = -1};
    f->node[2].macs = (lam_count){.n = 7};
    for (int i = 0; i < 4; i++) {
        f->size[i] = (lmi_box_size){i == 1 ? 132 : 60, h[i]};
        f->y[i] = f->top[i] = y[i];
        f->bottom[i] = y[i] + h[i];
        f->rank[i] = i;
        f->segment[i] = segments[i];
    }
    f->level = (lmi_level){.n = 4, .node = f->node, .size = f->size};
    f->level.at = (lmi_drawing){.n = 4,
                                .x = f->x,
                                .y = f->y,
                                .rank = f->rank,
                                .spine = f->spine,
                                .n_ranks = 4,
                                .top = f->top,
                                .bottom = f->bottom,
                                .n_waypoints = 1,
                                .waypoint = f->waypoint,
                                .n_segments = 4,
                                .segment = f->segment,
                                .left = -66,
                                .right = 106,
                                .height = 176};
    l->o.level = &f->level;
    l->o.n_levels = 1;
    l->at[0].level = 0;
}

static void test_the_graph(void **state) {
    (void)state;
    little *l = little_new();
    level_of_four f;
    little_place(l, -1, "", 0);
    little_place(l, 0, "conv", 300);
    little_place(l, 0, "fc", 100);
    draw_four(&f, l);
    const char *svg = drawn(lmi_picture_graph, &l->o, in_file);
    has(svg, "width=\"204\" height=\"208\" viewBox=\"0 0 204 208\"");
    /* x = 0 is 16 + 66; a straight line, a curve to the waypoint, straight through its rank. */
    has(svg, "M82 36V57M82 36V36C82 47 182 47 182 58M82 104V125M182 58V104C182 115 82 115 82 126V125");
    has(svg, "<path class=\"hd2\" d=\"M78.5 52h7l-3.5 6zM78.5 120h7l-3.5 6zM78.5 120h7l-3.5 6z\"/>");
    has(svg, "<rect class=\"o f-conv\" x=\"16\" y=\"58\" width=\"132\" height=\"46\" rx=\"6\">");
    has(svg, "<tspan class=\"m b\">conv</tspan> <tspan class=\"s d\">Block</tspan>");
    has(svg, ">300 <tspan class=\"d\">75\u202f% \u00b7 call 1/2</tspan>");
    has(svg, "<rect class=\"bar\" x=\"24\" y=\"97\" width=\"87\" height=\"3\" rx=\"1.5\"/>"); /* 116 * 3/4 */
    has(svg, "<title>add, view: 7 MACs</title>");
    f.node[2].macs.state = LAM_AT_LEAST;
    has(drawn(lmi_picture_graph, &l->o, in_file), "<title>add, view: \u2265\u202f7 MACs</title>");
    f.node[2].macs.state = LAM_UNKNOWN;
    has(drawn(lmi_picture_graph, &l->o, in_file), "<title>add, view</title>");
    f.node[2].macs.state = LAM_EXACT;
    f.node[2].flops = f.node[2].macs, f.node[2].flops.n = 14;
    lmi_picture_options by_flops = in_file;
    by_flops.by = LMI_FIGURE_FLOPS;
    has(drawn(lmi_picture_graph, &l->o, by_flops), "<title>add, view: 14 FLOPs</title>");
    svg = drawn(lmi_picture_graph, &l->o, in_file);
    assert_int_equal(count_of(svg, "<rect class=\"f-rest\""), 2);
    assert_int_equal(count_of(svg, "<rect class=\"f-pool thin\""), 1);
    has(svg, "class=\"ed\"");
    f.level.at.n_segments = 0;
    lacks(drawn(lmi_picture_graph, &l->o, in_file), "class=\"ed\"");
    free(l);
}

static void test_a_graph_of_strangers_and_none(void **state) {
    (void)state;
    little *l = little_new();
    level_of_four f;
    little_place(l, -1, "", 0);
    has(drawn(lmi_picture_graph, &l->o, in_page), "There is no graph");
    little_place(l, 0, "x", 0);
    draw_four(&f, l);
    f.node[0].label = "<in>";
    f.node[1].label = "<b>&\"";
    f.node[2].label = f.node[2].note = "</svg><script>";
    l->at[1].out = "8\u00d7<64>";
    l->state[1] = LAM_UNKNOWN;
    const char *svg = drawn(lmi_picture_graph, &l->o, in_page);
    has(svg, "&lt;in&gt;");
    has(svg, ">? <tspan");
    lacks(svg, "class=\"bar\"");
    free(l);
}

/* -- the scatter --------------------------------------------------------------------------------------- */

static const char *scattered(const lam_scatter_point *at, int32_t n) {
    static lmi_buf b;
    if (!b.s) lmi_buf_init(&b);
    lmi_buf_clear(&b);
    lmi_picture_scatter(&b, "Some <models>", at, n);
    assert_false(b.bad);
    is_well_formed(b.s);
    return b.s;
}

static void test_the_scatter(void **state) {
    (void)state;
    static const lam_scatter_point at[] = {{"resnet18", "resnet", 11689512, 1814073344},
                                           {"resnet34", "resnet", 21797672, 3663761408},
                                           {"vgg16", "vgg", 138357544, 15470264320},
                                           {"vgg16_bn", "vgg", 138365992, 15470264320},
                                           {"alexnet", "alexnet", 61100840, 714188480}};
    const char *svg = scattered(at, 5);
    assert_int_equal(count_of(svg, "<circle"), 4); /* vgg16 and vgg16_bn are less than 4 units apart */
    has(svg, ">vgg16, _bn</text>");
    has(svg,
        "<title>vgg16: 138\u202f357\u202f544 parameters, 15\u202f470\u202f264\u202f320 MACs\nvgg16_bn: ");
    assert_int_equal(count_of(svg, "class=\"s halo"), 4);
    assert_int_equal(count_of(svg, "<path class=\"l-"), 2);
    assert_int_equal(count_of(svg, "<circle class=\"f-pool\""), 1);
    has(svg, "aria-label=\"Some &lt;models&gt;\"");
    has(svg, ">10\u202fM</text>");
    has(svg, ">1\u202fG</text>");
    assert_int_equal(count_of(scattered(at, 1), "<circle"), 1);
    /* The shortest name stands first, whichever comes first. */
    static const lam_scatter_point twins[] = {{"vgg16_bn", "vgg", 138357544, 15470264321},
                                              {"vgg16", "vgg", 138365992, 15470264320},
                                              {"vgg16_x", "vgg", 138365993, 15470264320}};
    has(scattered(twins, 3), ">vgg16, _bn, _x</text>");
    /* One circle is of models near its first, and not of those near another of them. */
    static const lam_scatter_point chain[] = {{"a", "a", 10000000, 1000000002},
                                              {"a1", "a", 10220000, 1000000001},
                                              {"a2", "a", 10440000, 1000000000},
                                              {"small", "b", 1000000, 100000000},
                                              {"large", "c", 100000000, 100000001}};
    assert_int_equal(count_of(scattered(chain, 5), "<circle"), 4);
    has(scattered(at, 0), "There is no model to show.");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_course_of_memory),
        cmocka_unit_test(test_the_course_of_memory_before),
        cmocka_unit_test(test_memory_by_what_holds_it),
        cmocka_unit_test(test_the_longest_of_many_places_at_work),
        cmocka_unit_test(test_memory_that_was_not_measured),
        cmocka_unit_test(test_the_speed_of_a_place),
        cmocka_unit_test(test_circles_stand_below_the_roofs),
        cmocka_unit_test(test_a_ridge_at_a_low_intensity_has_room_for_its_labels),
        cmocka_unit_test(test_a_page_has_the_longest_circles),
        cmocka_unit_test(test_the_roofline_of_a_difference),
        cmocka_unit_test(test_circles_above_the_roof_are_in_the_picture),
        cmocka_unit_test(test_a_roofline_without_times),
        cmocka_unit_test(test_the_graph),
        cmocka_unit_test(test_a_graph_of_strangers_and_none),
        cmocka_unit_test(test_the_scatter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
