/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of made-up networks under several conventions, in every format, against transcripts: what counts
 * where, and how all of it is told. */
#include "kit/oom.h"

#include "kit/made_net.h"
#include "kit/show.h"

enum { NETS = 3, TEXTS = 20 };

static const char *const conventions[] = {"exact", "layers", "fvcore", "torchscan", "thoplw"};

static lam_report_options everything_as(const char *format, const lam_model *m, const char *convention) {
    lam_report_options o = show_options(NULL, format);
    o.width = 300;
    o.receptive_field = o.page = true;
    o.bytes = strcmp(convention, "exact") == 0;
    o.time = lam_model_timed(m);
    o.memory = lam_model_memory_seen(m);
    if (o.bytes) o.peak = (lam_peak){1e12, 1e10};
    return o;
}

static void write_as(const lam_costs *c, const lam_report_options *o) {
    lam_error e = {0};
    const lam_sink to = {show_put, NULL}; /* after what is there */
    if (lam_report_write(c, o, to, &e) != LAM_OK) fail_msg("%s: %s", e.where, e.text);
}

/* The whole data of each, with the graph and the formulas. */
static void as_data(void **state) {
    (void)state;
    seed = 3;
    (void)show_sink();
    for (int i = 0; i < NETS; i++) {
        lam_model *m = made_step();
        lam_costs *c = net_costs(m, conventions[i % 2], false);
        lam_report_options o = everything_as("json", m, conventions[i % 2]);
        write_as(c, &o);
        lam_costs_free(c);
        lam_model_free(m);
    }
    show_golden("made-json", true);
}

static void as_text(void **state) {
    (void)state;
    seed = 3;
    (void)show_sink();
    for (int i = 0; i < TEXTS; i++) {
        lam_model *m = made_step();
        lam_costs *c = net_costs(m, conventions[i % 5], i % 2);
        lam_report_options o = everything_as(i % 3 == 2 ? "md" : "text", m, conventions[i % 5]);
        o.why = i % 4 == 0;
        o.expand = o.exact = i % 2;
        o.max_depth = i % 5 == 4 ? 1 : -1;
        if (i % 6 == 3) o.sort = "params";
        if (i % 6 == 1) o.rows = 5;
        if (i % 7 == 2) o.width = 80;
        write_as(c, &o);
        lam_costs_free(c);
        lam_model_free(m);
    }
    show_golden("made-text", true);
}

/* -- why, and otherwise ------------------------------------------------------------------------ */

static void show_line(const char *text) { (void)show_put(NULL, text, strlen(text)); }

static void tell_whys(const lam_costs *c, int32_t row) {
    lam_why w;
    char value[48], line[2048];
    const char *name;
    int64_t n;
    for (int32_t i = 0; lam_costs_why(c, row, i, &w, NULL) == LAM_OK; i++) {
        lam_text_count(value, sizeof value, w.value, true);
        snprintf(line, sizeof line, "  %d %d of %d (%d equal): %s = %s; %s; %s; %s;", (int)w.metric,
                 (int)w.phase, (int)w.op, (int)w.n_equal, value, w.substituted, w.formula ? w.formula : "-",
                 w.note ? w.note : "-", w.words ? w.words : "-");
        show_line(line);
        for (int32_t k = 0; k < w.n_facts; k++) {
            snprintf(line, sizeof line, " %s %lld", w.facts[k].name, (long long)w.facts[k].value);
            show_line(line);
        }
        show_line("\n");
    }
    for (int32_t i = 0; lam_costs_fact(c, row, i, &name, &n); i++) {
        snprintf(line, sizeof line, "  %s %lld\n", name, (long long)n);
        show_line(line);
    }
}

static void with_formulas(void **state) {
    (void)state;
    seed = 90;
    (void)show_sink();
    for (int i = 0; i < 4; i++) {
        lam_model *m = made_step();
        lam_costs *c = net_costs(m, conventions[i], false);
        for (int32_t r = 0; r < lam_costs_n_rows(c); r++) {
            show_line(lam_model_place(m, lam_costs_row(c, r)->place)->path);
            show_line(":\n");
            tell_whys(c, r);
        }
        lam_costs_free(c);
        lam_model_free(m);
    }
    show_golden("made-whys", true);
}

static void side_by_side(void **state) {
    (void)state;
    static const char *const all[] = {"all"}, *const formats[] = {"text", "json", "md", "csv"};
    seed = 17;
    (void)show_sink();
    for (int i = 0; i < 16; i++) {
        lam_comparison *c = NULL;
        lam_error e = {0};
        lam_model *m = made_step();
        const lam_compare_options o = {.conventions = all,
                                       .n = i % 2,
                                       .metric = i % 4 < 2 ? LAM_MACS : LAM_FLOPS,
                                       .phase = i % 8 < 6 ? LAM_FORWARD : LAM_BACKWARD};
        if (lam_compare_new(&c, m, &o, &e) != LAM_OK) fail_msg("%s", e.text);
        if (lam_compare_write(c, formats[i / 4], 90, i % 3 == 0, (lam_sink){show_put, NULL}, &e) != LAM_OK)
            fail_msg("%s", e.text);
        lam_compare_free(c);
        lam_model_free(m);
    }
    show_golden("made-compared", true);
}

static void otherwise(void **state) {
    (void)state;
    static const char *const formats[] = {"csv", "trace", "speedscope"};
    seed = 29;
    (void)show_sink();
    for (int i = 0; i < 9; i++) {
        lam_model *m = made_step();
        lam_costs *c = net_costs(m, "exact", false);
        lam_report_options o = everything_as(formats[i % 3], m, "exact");
        lam_graph *g = NULL;
        lam_gadgets *t = NULL;
        if (i % 3 == 0 || lam_model_timed(m)) write_as(c, &o);
        assert_int_equal(lam_graph_new(&g, m, NULL), LAM_OK);
        assert_int_equal(lam_graph_dot(g, i % 2, (lam_sink){show_put, NULL}, NULL), LAM_OK);
        assert_int_equal(lam_gadgets_new(&t, m, NULL), LAM_OK);
        if (i < 3) assert_int_equal(lam_gadgets_write(t, NULL, (lam_sink){show_put, NULL}, NULL), LAM_OK);
        lam_gadgets_free(t);
        lam_graph_free(g);
        lam_costs_free(c);
        lam_model_free(m);
    }
    show_golden("made-otherwise", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_data),      cmocka_unit_test(as_text),   cmocka_unit_test(with_formulas),
        cmocka_unit_test(side_by_side), cmocka_unit_test(otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
