/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures as a whole, of models and of what is written by hand, held against transcripts: every kind, by
 * every number, at the widths where a picture changes. */
#include "kit/full_net.h"
#include "kit/little_outline.h"
#include "kit/ops_net.h"
#include "kit/page_text.h"

#include "report/picture/svg.h"

#include <math.h>

static const lam_peak roof = {2e9, 1e8};

static void say(const char *text) { assert_int_equal(show_put(NULL, text, strlen(text)), LAM_OK); }

/* Adds a picture to what is shown; what can't be drawn, why. */
static void add_plot(const lam_costs *c, lam_plot_options o) {
    lam_error e = {0};
    char text[200];
    snprintf(text, sizeof text, "\n== %s by %s%s, %d wide\n", o.kind, o.by ? o.by : "-",
             o.backward ? " with the backward" : "", (int)o.width);
    say(text);
    o.roof = roof;
    if (lam_plot_write(c, &o, (lam_sink){show_put, NULL}, &e) != LAM_OK) say(e.text);
}

static void is_whole(const char *name, bool style) {
    page_as_lines(style);
    show_golden(name, true);
}

static void by_every_number(void **state) {
    (void)state;
    static const char *const all[] = {NULL,    "params", "param_bytes", "macs", "flops",
                                      "bytes", "time",   "memory",      "peak"};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    show_sink();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int back = 0; back < 2; back++) {
            add_plot(c, (lam_plot_options){.kind = "icicle", .by = all[i], .backward = back});
            add_plot(c, (lam_plot_options){.kind = "graph", .by = all[i], .backward = back});
        }
    is_whole("pictures-by", false);
    lam_costs_free(c);
    lam_model_free(m);
}

static void of_every_width(void **state) {
    (void)state;
    static const int32_t widths[] = {0, 1, 349, 350, 351, 599, 600, 4000, 4001};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    show_sink();
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        add_plot(c, (lam_plot_options){.kind = "memory", .width = widths[i]});
        add_plot(c, (lam_plot_options){.kind = "roofline", .width = widths[i]});
    }
    add_plot(c, (lam_plot_options){.kind = "icicle", .width = 350});
    is_whole("pictures-wide", false);
    lam_costs_free(c);
    lam_model_free(m);
}

/* A chain of layers whose names and types have every length. */
static lam_model *of_long_names(void) {
    enum { LAYERS = 26 };
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz";
    net n = net_new();
    int32_t root = level_place(&n, -1, "", "Net");
    for (int32_t i = 0; i < LAYERS; i++) {
        char name[64], type[64];
        snprintf(name, sizeof name, "%.*s", 1 + i, letters);
        snprintf(type, sizeof type, "T%.*s", i * 7 % 23, letters);
        level_place(&n, root, name, type);
    }
    int32_t r = level_call(&n, root, -1, 1, 1 + LAYERS);
    for (int32_t i = 0; i < LAYERS; i++) level_leaf(&n, 1 + i, r, 1 + (uint64_t)i, 2 + (uint64_t)i);
    return net_done(&n);
}

static void of_models(void **state) {
    (void)state;
    enum { MODELS = 4 };
    lam_model *all[MODELS] = {net_residual(), net_step(), level_blocks(3), of_long_names()};
    show_sink();
    for (int i = 0; i < MODELS; i++) {
        lam_costs *c = net_costs(all[i], "exact", false);
        add_plot(c, (lam_plot_options){.kind = "icicle"});
        add_plot(c, (lam_plot_options){.kind = "graph"});
        add_plot(c, (lam_plot_options){.kind = "graph", .by = "macs", .backward = true});
        lam_costs_free(c);
        lam_model_free(all[i]);
    }
    is_whole("pictures-models", true);
}

/* A tenth is the finest; what is too far away is nowhere. */
static void of_coordinates(void **state) {
    (void)state;
    lmi_buf out;
    lmi_svg s;
    lmi_buf_init(&out);
    lmi_svg_start(&s, &out, false, "");
    LMI_DRAW(&s, "~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~ ~!", 0, .04, .05, -.04, -.05, 1.25, -3.06, 12, 99999999, 1e8, -1e9,
             NAN);
    assert_string_equal(lmi_buf_text(&s.body), "0 0 0.1 0 -0.1 1.3 -3.1 12 99999999 0 0 0!");
    lmi_svg_end(&s, (lmi_rect){-1, 2, 3, 4.5}, true);
    assert_string_equal(lmi_buf_text(&out),
                        "<svg width=\"3\" height=\"4.5\" viewBox=\"-1 2 3 4.5\" role=\"img\" "
                        "aria-label=\"\">0 0 0.1 0 -0.1 1.3 -3.1 12 99999999 0 0 0!</svg>");
    lmi_buf_free(&out);
}

/* What a line of bytes may stand for, the least that is enough. */
static void of_bytes(void **state) {
    (void)state;
    static const int steps[] = {1, 2, 5, 10, 20, 50, 64, 100, 128, 200, 256, 500, 512, 1024};
    double before = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        assert_true(lmi_byte_step(steps[i]) == steps[i]);
        assert_true(lmi_byte_step(before + .001) == steps[i]);
        assert_true(lmi_byte_step(1048576. * steps[i]) == 1048576. * steps[i]);
        before = steps[i];
    }
    assert_true(lmi_byte_step(1024.5) == 2048);
    assert_true(lmi_byte_step(0) == 1);
}

/* -- written by hand ------------------------------------------------------------------------------------- */

static void add_drawn(little_draw draw, const lmi_outline *o, lmi_picture_options p) {
    const char *svg = drawn(draw, o, p);
    say(p.alone ? "\n== alone\n" : "\n== in a page\n");
    say(svg);
}

/* All categories are held at some point, and some over a level stretch, or at one point alone. */
static void of_memory(void **state) {
    (void)state;
    little *l = little_new();
    lmi_course_point point[12];
    int64_t part[12][LAM_N_HELD] = {{0}};
    lam_memory_totals use = {.before = 250, .peak_phase = LAM_RECOMPUTE, .peak_call = -1};
    lmi_active work[8];
    little_place(l, -1, "", 0);
    little_place(l, 0, "a_long_name", 1);
    little_place(l, 1, "b", 1);
    for (int i = 0; i < 12; i++) {
        point[i] = (lmi_course_point){i < 6 ? 10 * i : 20 * i, 0};
        for (int h = 0; h < LAM_N_HELD; h++) {
            part[i][h] = i > h && i < h + 4 ? 100 * (h + 1) : i == h ? 40 : h == 2 ? 60 : 0;
            point[i].bytes += part[i][h];
        }
        if (point[i].bytes > use.peak) use.peak = point[i].bytes;
    }
    for (int i = 0; i < 8; i++)
        work[i] =
            (lmi_active){1 + i % 2, 1 + i % 3, (uint8_t)(i % LAM_N_PHASES), 25 * i, i == 3 ? 0 : 4 + 6 * i};
    l->o.memory = &use;
    l->o.point = point, l->o.n_points = 12;
    l->o.part = part;
    l->o.at_work = work, l->o.n_at_work = 8;
    show_sink();
    for (int32_t place = -1; place < 2; place++) {
        l->o.peak_place = place;
        l->o.backward_us = place < 0 ? -1 : place ? 219 : 220;
        add_drawn(lmi_picture_memory, &l->o, (lmi_picture_options){.width = 700, .alone = place == 0});
    }
    add_drawn(lmi_picture_memory, &l->o, (lmi_picture_options){.width = 350});
    /* What the first moment alone holds, and the last one. */
    int64_t ends[4][LAM_N_HELD] = {{0}};
    for (int i = 0; i < 4; i++) ends[i][LAM_HELD_PARAMETER] = 100;
    ends[0][LAM_HELD_INPUT] = 300;
    ends[3][LAM_HELD_WORKSPACE] = 200;
    lmi_course_point few[] = {{0, 400}, {10, 100}, {20, 100}, {30, 300}};
    l->o.part = ends;
    l->o.point = few, l->o.n_points = 4;
    add_drawn(lmi_picture_memory, &l->o, (lmi_picture_options){.width = 700});
    l->o.point = point, l->o.n_points = 12;
    for (int i = 0; i < 12; i++) point[i].bytes = point[11 - i].bytes; /* the peak comes late */
    l->o.part = NULL;
    use.before = 0;
    add_drawn(lmi_picture_memory, &l->o, (lmi_picture_options){.width = 700});
    is_whole("pictures-memory", true);
    free(l);
}

/* Places within runs, one that stands for others, one too narrow for a name, and a rest. */
static void of_an_icicle(void **state) {
    (void)state;
    little *l = little_new();
    static char names[20][8];
    little_place(l, -1, "", 3);
    for (int i = 0; i < 5; i++) {
        snprintf(names[i], sizeof names[i], "h%d", i);
        int32_t k = little_place(l, 0, names[i], 5);
        little_place(l, k, "in", 100);
        little_place(l, k, "out_of_it", 20);
        if (i < 3) l->at[k].run = 1;
        l->at[k].family = (uint8_t)(i % LMI_N_FAMILIES);
    }
    l->at[1].n_run = 3;
    int32_t last = little_place(l, 0, "rest", 40);
    for (int i = 0; i < 9; i++) {
        snprintf(names[5 + i], sizeof names[i], "%d", i);
        int32_t k = little_place(l, last, names[5 + i], 1);
        l->at[k].others = i == 3 ? 6 : 0;
    }
    l->state[last] = LAM_AT_LEAST;
    show_sink();
    for (int32_t width = 350; width < 3000; width *= 2)
        add_drawn(lmi_picture_icicle, &l->o,
                  (lmi_picture_options){.width = width, .by = LMI_FIGURE_MACS, .alone = width == 700});
    is_whole("pictures-icicle", true);
    free(l);
}

/* Circles of all bounds, more than a page draws, some without a number. */
static void of_a_roofline(void **state) {
    (void)state;
    enum { MANY = 56 };
    static int64_t ns[MANY], flops[MANY], read[MANY], written[MANY];
    static char names[MANY][16];
    little *l = little_new();
    little_place(l, -1, "", 0);
    for (int i = 1; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "layer%d", i);
        little_place(l, 0, names[i], 1);
        l->at[i].family = (uint8_t)(i % LMI_N_FAMILIES);
        ns[i] = 1000 + 100000 / i;
        flops[i] = i % 11 ? 37 * i * i * i : 0;
        read[i] = 100 + 4000 / i;
        written[i] = i % 5 ? 70 : 0;
    }
    ns[0] = 5000, flops[0] = 4, read[0] = 2;
    l->o.own[LMI_OWN_TIME] = ns;
    l->o.own[LMI_OWN_FLOPS] = flops;
    l->o.own[LMI_OWN_READ] = read;
    l->o.own[LMI_OWN_WRITTEN] = written;
    l->o.roof = roof;
    show_sink();
    add_drawn(lmi_picture_roofline, &l->o, (lmi_picture_options){.width = 1008});
    add_drawn(lmi_picture_roofline, &l->o, (lmi_picture_options){.width = 500, .alone = true});
    is_whole("pictures-roofline", true);
    free(l);
}

/* More families than colours, twins, and names that can't all be told. */
static void of_a_scatter(void **state) {
    (void)state;
    static char names[40][16], families[40][8];
    lam_scatter_point at[40];
    lmi_buf b;
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "%s%d%s", i % 3 ? "net" : "a_model", i / 2, i % 2 ? "_bn" : "");
        snprintf(families[i], sizeof families[i], "f%d", i / 4 == 9 ? i : i / 4);
        at[i] = (lam_scatter_point){names[i], families[i], 1000 + 90000 * (i / 2) * (i / 4 + 1) + i % 2,
                                    70000 + 3000000 * (i / 2) * (i % 7 / 2 + 1)};
    }
    lmi_buf_init(&b);
    show_sink();
    for (int n = 40; n > 0; n -= 13) {
        lmi_buf_clear(&b);
        lmi_picture_scatter(&b, "Some <models>", at, n);
        assert_false(b.bad);
        say("\n== some\n");
        say(b.s);
    }
    lmi_buf_free(&b);
    is_whole("pictures-scatter", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_every_number), cmocka_unit_test(of_every_width), cmocka_unit_test(of_models),
        cmocka_unit_test(of_memory),       cmocka_unit_test(of_an_icicle),   cmocka_unit_test(of_a_roofline),
        cmocka_unit_test(of_a_scatter),    cmocka_unit_test(of_coordinates), cmocka_unit_test(of_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
