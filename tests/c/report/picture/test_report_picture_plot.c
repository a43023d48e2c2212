/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures of a model as files: what each needs, what it says where that is missing, and memory that runs
 * out. */
#include "kit/full_net.h"
#include "kit/little_outline.h"
#include "kit/shown.h"

static const lam_peak roof = {1e12, 1e11};

static lam_plot_options kind_of(const char *kind) { return (lam_plot_options){.kind = kind, .roof = roof}; }

static void expect_error(const lam_costs *c, lam_plot_options o, const char *where, const char *text) {
    lam_error e = {0};
    assert_int_equal(lam_plot_write(c, &o, show_sink(), &e), LAM_USAGE);
    assert_string_equal(e.where, where);
    assert_string_equal(e.text, text);
    assert_int_equal(shown_n, 0);
}

static void test_every_kind(void **state) {
    (void)state;
    static const char *const kinds[] = {"icicle", "memory", "roofline", "graph"};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        lam_error e = {0};
        lam_plot_options o = kind_of(kinds[i]);
        assert_int_equal(lam_plot_write(c, &o, show_sink(), &e), LAM_OK);
        is_well_formed(shown);
        assert_int_equal(count_of(shown, "<svg xmlns="), 1);
        assert_true(shown[shown_n - 1] == '\n');
        assert_int_equal(lam_plot_write(c, &o, show_refusing(), &e), LAM_IO);
    }
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_what_was_not_measured(void **state) {
    (void)state;
    net n = timed_layers();
    int32_t root = timed_call(&n, 0, -1, 1000, 1040, 0);
    timed_call(&n, 1, root, 1005, 1015, 0);
    lam_model *m = net_done(&n);
    lam_costs *c = net_costs(m, "layers", false);
    expect_error(c, kind_of("pie"), "picture",
                 "there is no picture 'pie'; there are: icicle, memory, roofline, graph");
    expect_error(c, kind_of(NULL), "picture",
                 "there is no picture ''; there are: icicle, memory, roofline, graph");
    expect_error(c, kind_of("memory"), "memory",
                 "it was not measured; lamina.inspect(model, args, memory=True) does");
    expect_error(c, kind_of("roofline"), "roofline",
                 "times were not measured; lamina.inspect(model, args, time=True) measures them");
    expect_error(c, kind_of("graph"), "graph",
                 "operators were not watched; count by exact, which watches them");
    lam_plot_options o = kind_of("icicle");
    o.by = "time";
    expect_error(c, o, "icicle",
                 "times were not measured; lamina.inspect(model, args, time=True) measures them");
    o.by = "peak";
    expect_error(c, o, "memory", "it was not measured; lamina.inspect(model, args, memory=True) does");
    o.by = "bytes";
    expect_error(c, o, "by", "the convention layers does not count bytes; ask for exact");
    o.by = "colour";
    expect_error(c, o, "by",
                 "'colour' is not a number to draw by; these are: params, param_bytes, macs, flops, bytes, "
                 "time, memory, peak");
    o = kind_of("icicle");
    o.width = -1;
    expect_error(c, o, "width", "a width of -1 is not possible; give 0 or more");
    o = kind_of("memory");
    o.by = "macs";
    expect_error(c, o, "by", "it is for icicle and graph; leave it out");
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_a_roofline_needs_a_roof_and_counts(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    lam_plot_options o = kind_of("roofline");
    static const lam_peak bad[] = {{0, 0}, {1, 0}, {-1, 1}, {1, 1.0 / 0.0}};
    for (int i = 0; i < 4; i++) {
        o.roof = bad[i];
        expect_error(c, o, "roofline", "what this machine can do was not measured; lamina.roof() does");
    }
    lam_costs_free(c);
    c = net_costs(m, "layers", false);
    expect_error(c, kind_of("roofline"), "roofline",
                 "the convention layers does not count FLOPs and bytes; ask for exact");
    lam_costs_free(c);
    lam_model_free(m);
}

/* A model without MACs is drawn by its parameters. */
static void test_the_number_that_is_drawn(void **state) {
    (void)state;
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    lam_error e = {0};
    lam_plot_options o = kind_of("icicle");
    assert_int_equal(lam_plot_write(c, &o, show_sink(), &e), LAM_OK);
    has(shown, "Icicle of MACs");
    o.by = "params";
    assert_int_equal(lam_plot_write(c, &o, show_sink(), &e), LAM_OK);
    has(shown, "Icicle of params");
    lam_costs_free(c);
    lam_model_free(m);
    net n = timed_layers(); /* nothing was called */
    m = net_done(&n);
    c = net_costs(m, "layers", false);
    o.by = NULL;
    assert_int_equal(lam_plot_write(c, &o, show_sink(), &e), LAM_OK);
    has(shown, "Icicle of params");
    lam_costs_free(c);
    lam_model_free(m);
}

static void test_a_scatter_of_numbers_above_zero(void **state) {
    (void)state;
    lam_scatter_point at[] = {{"a", "a", 10, 20}, {"b", "b", 0, 20}};
    lam_error e = {0};
    assert_int_equal(lam_scatter_write("two", at, 1, show_sink(), &e), LAM_OK);
    is_well_formed(shown);
    assert_int_equal(lam_scatter_write("two", at, 2, show_sink(), &e), LAM_RANGE);
    assert_string_equal(e.where, "b");
    assert_int_equal(lam_scatter_write("two", at, 1, show_refusing(), &e), LAM_IO);
}

typedef struct writing {
    const lam_costs *c;
    lam_plot_options o;
} writing;

static void write_plot(void *arg, bool *ok) {
    writing *w = arg;
    lam_error e = {0};
    *ok = oom_check(lam_plot_write(w->c, &w->o, show_sink(), &e), &e);
}

static void write_scatter(void *arg, bool *ok) {
    lam_error e = {0};
    *ok = oom_check(lam_scatter_write("two", arg, 2, show_sink(), &e), &e);
}

static void test_memory_that_runs_out(void **state) {
    (void)state;
    static const char *const kinds[] = {"icicle", "memory", "roofline", "graph"};
    lam_scatter_point at[] = {{"a", "a", 10, 20}, {"b", "a", 100, 200}};
    lam_model *m = full_step();
    lam_costs *c = net_costs(m, "exact", false);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        writing w = {c, kind_of(kinds[i])};
        oom_sweep(write_plot, &w);
    }
    oom_sweep(write_scatter, at);
    lam_costs_free(c);
    lam_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_what_was_not_measured),
        cmocka_unit_test(test_a_roofline_needs_a_roof_and_counts),
        cmocka_unit_test(test_the_number_that_is_drawn),
        cmocka_unit_test(test_a_scatter_of_numbers_above_zero),
        cmocka_unit_test(test_memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
