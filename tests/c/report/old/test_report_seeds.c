/* SPDX-License-Identifier: Apache-2.0
 *
 * torchscan's and thoplw's printed tables, byte for byte: the transcripts in tests/data/report are the
 * lines recorded in tests/data/torchscan.json and thoplw.json. */
#include "kit/oom.h"

#include "kit/chains.h"
#include "kit/show.h"

typedef struct chain {
    const char *name;
    lam_model *(*build)(void);
} chain;
static const chain nested = {"nested", chain_nested}, encdec = {"encdec", chain_encdec},
                   long_names = {"long_names", chain_long_names}, leaf_root = {"leaf_root", chain_leaf_root};

/* -- torchscan ----------------------------------------------------------------------------------------- */

static void scan(chain ch, const char *layout, const char *suffix, lam_report_options o) {
    char name[128];
    lam_error e = {0};
    lam_model *m = ch.build();
    lam_costs *c = net_costs(m, "torchscan", true);
    if (strcmp(layout, "torchscan-0.1.1") == 0) assert_int_equal(lam_costs_rf_backwards(c, &e), LAM_OK);
    if (o.max_depth >= 0 && lam_costs_aggregate(c, o.max_depth, &e) != LAM_OK) fail_msg("%s", e.text);
    o.layout = layout;
    show(c, &o);
    snprintf(name, sizeof name, "%s-%s%s", layout, ch.name, suffix);
    show_golden(name, false);
    lam_costs_free(c);
    lam_model_free(m);
}

static void scan012(void **state) {
    (void)state;
    static const chain all[] = {{"nested", chain_nested},
                                {"encdec", chain_encdec},
                                {"long_names", chain_long_names},
                                {"leaf_root", chain_leaf_root}};
    for (size_t i = 0; i < 4; i++) scan(all[i], "torchscan-0.1.2", "", show_options(NULL, NULL));
    for (size_t i = 0; i < 3; i++) {
        lam_report_options o = show_options(NULL, NULL);
        o.receptive_field = true;
        scan(all[i], "torchscan-0.1.2", "-rf", o);
        o.effective_rf_stats = true;
        scan(all[i], "torchscan-0.1.2", "-rf-stats", o);
    }
}

static void scan012_depths(void **state) {
    (void)state;
    lam_report_options o = show_options(NULL, NULL);
    for (o.max_depth = 0; o.max_depth < 3; o.max_depth++) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "-depth%d", (int)o.max_depth);
        scan(nested, "torchscan-0.1.2", suffix, o);
        scan(long_names, "torchscan-0.1.2", suffix, o);
        if (o.max_depth < 2) scan(encdec, "torchscan-0.1.2", suffix, o);
    }
    o.max_depth = 1;
    o.receptive_field = o.effective_rf_stats = true;
    scan(nested, "torchscan-0.1.2", "-depth1-rf-stats", o);
    scan(encdec, "torchscan-0.1.2", "-depth1-rf-stats", o);
    scan(long_names, "torchscan-0.1.2", "-depth1-rf-stats", o);
}

static void scan012_wrap(void **state) {
    (void)state;
    lam_report_options o = show_options(NULL, NULL);
    o.wrap = LAM_WRAP_END;
    scan(long_names, "torchscan-0.1.2", "-wrap-end", o);
    o.wrap = LAM_WRAP_NONE;
    scan(long_names, "torchscan-0.1.2", "-wrap-None", o);
}

/* An unknown wrap mode is an error only where some name is too long. */
static void scan012_bad_wrap(void **state) {
    (void)state;
    lam_error e = {0};
    lam_report_options o = show_options("torchscan-0.1.2", NULL);
    o.wrap = (lam_wrap)7;
    lam_model *m = chain_long_names(), *short_names = chain_nested();
    lam_costs *c = net_costs(m, "torchscan", true), *fine = net_costs(short_names, "torchscan", true);
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_USAGE);
    assert_string_equal(e.text, "there is no wrap mode 7; use mid, end or none");
    assert_string_equal(e.where, "wrap");
    show(fine, &o);
    show_golden("torchscan-0.1.2-nested", false);
    lam_costs_free(c);
    lam_costs_free(fine);
    lam_model_free(m);
    lam_model_free(short_names);
}

static void scan011(void **state) {
    (void)state;
    lam_report_options o = show_options(NULL, NULL);
    scan(long_names, "torchscan-0.1.1", "", o);
    scan(leaf_root, "torchscan-0.1.1", "", o);
    scan(encdec, "torchscan-0.1.1", "", o);
    o.receptive_field = true;
    scan(encdec, "torchscan-0.1.1", "-rf", o);
    scan(long_names, "torchscan-0.1.1", "-rf", o);
    o.receptive_field = false;
    o.max_depth = 1;
    scan(long_names, "torchscan-0.1.1", "-depth1", o);
}

/* torchscan 0.1.1 counted no memory access for Flatten, so the last lines of `nested` differ: DMAs are no
 * matter of the layout. */
static void scan011_flatten(void **state) {
    (void)state;
    for (int rf = 0; rf < 2; rf++) {
        char path[512];
        lam_error e = {0};
        lam_model *m = chain_nested();
        lam_costs *c = net_costs(m, "torchscan", true);
        lam_report_options o = show_options("torchscan-0.1.1", NULL);
        o.receptive_field = rf;
        assert_int_equal(lam_costs_rf_backwards(c, &e), LAM_OK);
        show(c, &o);
        snprintf(path, sizeof path, "%s/report/torchscan-0.1.1-nested%s.txt", LAMINA_TEST_DATA,
                 rf ? "-rf" : "");
        char *want = show_read(path), *end = want ? strstr(want, "216.25 kDMAs") : NULL;
        assert_non_null(end);
        memcpy(end, "216.27", 6);
        if (strcmp(shown, want) != 0) show_difference(path, shown, want);
        free(want);
        lam_costs_free(c);
        lam_model_free(m);
    }
}

static void depth_without_aggregate(void **state) {
    (void)state;
    lam_error e = {0};
    lam_model *m = chain_nested();
    lam_costs *c = net_costs(m, "torchscan", true);
    lam_report_options o = show_options("torchscan-0.1.2", NULL);
    o.max_depth = 1;
    assert_int_equal(lam_report_write(c, &o, show_sink(), &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "lam_costs_aggregate"));
    lam_costs_free(c);
    lam_model_free(m);
}

static lam_count count(int64_t n, lam_state state) { return (lam_count){n, 0, state}; }

/* Sums say when they are not whole; the overhead is an option. */
static void unknown_totals(void **state) {
    (void)state;
    lam_scan_row rows[] = {{.name = "net", .type = "Net", .output_shape = "?", .rf_state = LAM_UNKNOWN},
                           {.name = "a", .type = "A", .output_shape = "(-1,)", .depth = 1, .rf = 3}};
    rows[1].params = count(1234, LAM_AT_LEAST);
    rows[0].metric[LAM_MACS] = count(5, LAM_EXACT);
    rows[1].metric[LAM_MACS] = rows[1].metric[LAM_FLOPS] = count(0, LAM_UNKNOWN);
    lam_scan_info info = {2, rows, count(1234, LAM_AT_LEAST), count(0, LAM_EXACT), count(0, LAM_UNKNOWN)};
    lam_report_options o = show_options("torchscan-0.1.2", NULL);
    lam_error e = {0};
    o.receptive_field = true;
    o.overhead_mb = 1.5;
    if (lam_scan_write(&info, &o, show_sink(), &e) != LAM_OK) fail_msg("%s", e.text);
    show_golden("torchscan-0.1.2-unknown", true);
    info.bytes = count(3 << 20, LAM_AT_LEAST);
    assert_int_equal(lam_scan_write(&info, &o, show_sink(), &e), LAM_OK);
    assert_non_null(strstr(shown, "\nTotal RAM usage: >= 4.50 Mb\n"));
    o.layout = "thoplw";
    assert_int_equal(lam_scan_write(&info, &o, show_sink(), &e), LAM_USAGE);
    assert_non_null(strstr(e.text, "torchscan-0.1.1"));
}

/* -- thoplw -------------------------------------------------------------------------------------------- */

/* Rows that a caller holds, in each format; sums say when they are not whole. */
static void thoplw_logs(void **state) {
    (void)state;
    lam_thoplw_row rows[] = {{.path = "a", .in_shapes = "3x5", .out_shape = "7", .description = "Mine"},
                             {.path = "b", .in_shapes = "7", .out_shape = "?", .description = "Other"}};
    rows[0].macs = count(985, LAM_EXACT);
    rows[1].macs = count(0, LAM_UNKNOWN);
    lam_thoplw_info info = {2, rows, "Net"};
    lam_report_options o = show_options("thoplw", "csv");
    lam_error e = {0};
    if (lam_thoplw_write(&info, &o, show_sink(), &e) != LAM_OK) fail_msg("%s", e.text);
    assert_string_equal(shown, "Name,Input shape,Output shape,MACs,Params,Description\n"
                               "a,3x5,7,985,0,Mine\nb,7,?,?,0,Other\nTotal,3x5,?,>= 985,0,Net\n");
    info.n_rows = 0;
    o.format = NULL;
    if (lam_thoplw_write(&info, &o, show_sink(), &e) != LAM_OK) fail_msg("%s", e.text);
    assert_non_null(strstr(shown, "| Total |             |              |    0 |      0 | Net         |\n"));
    o.format = "json";
    assert_int_equal(lam_thoplw_write(&info, &o, show_sink(), &e), LAM_USAGE);
    assert_string_equal(e.text, "thoplw's table has no format 'json'; use text, csv or md");
}

static void thoplw(chain ch, const char *format, const char *kind, lam_number_format f) {
    static const char *const formats[] = {"raw", "clever", "ratio"};
    char name[128];
    lam_report_options o = show_options("thoplw", format);
    lam_model *m = ch.build();
    lam_costs *c = net_costs(m, "thoplw", true);
    o.numbers = f;
    show(c, &o);
    snprintf(name, sizeof name, "thoplw-%s-%s-%s", ch.name, kind, formats[f]);
    show_golden(name, false);
    lam_costs_free(c);
    lam_model_free(m);
}

static void thoplw_nested(void **state) {
    (void)state;
    static const char *const kinds[] = {"text", "csv", "md"};
    for (int k = 0; k < 3; k++)
        for (int f = 0; f < 3; f++) thoplw(nested, kinds[k], kinds[k], (lam_number_format)f);
}

static void thoplw_others(void **state) {
    (void)state;
    const chain others[] = {encdec, long_names, leaf_root};
    for (int i = 0; i < 3; i++) {
        thoplw(others[i], "text", "text", LAM_FMT_RAW);
        thoplw(others[i], "text", "text", LAM_FMT_RATIO);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan012),
        cmocka_unit_test(scan012_depths),
        cmocka_unit_test(scan012_wrap),
        cmocka_unit_test(scan012_bad_wrap),
        cmocka_unit_test(scan011),
        cmocka_unit_test(scan011_flatten),
        cmocka_unit_test(depth_without_aggregate),
        cmocka_unit_test(unknown_totals),
        cmocka_unit_test(thoplw_nested),
        cmocka_unit_test(thoplw_others),
        cmocka_unit_test(thoplw_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
