/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces: torchscan's helpers as its functions of those names behave, Python's centring, ellipses,
 * tables. */
#include "kit/oom.h"

#include "report/old/old.h"
#include "report/table/looked.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static char got[512];

static const char *wrapped(const char *text, int64_t max_len, lam_wrap mode) {
    int n = lam_wrap_string(got, sizeof got, text, max_len, ".", "[...]", mode);
    assert_int_equal(n, strlen(got));
    return got;
}

/* Expected texts are what Python gives for wrap_string with these arguments. */
static void wrap_string(void **state) {
    (void)state;
    const char *dotted = "a.a.a.a.a.a.a.a.a.a";
    assert_string_equal(wrapped(dotted, 10, LAM_WRAP_END), "a.a.a[...]");
    assert_string_equal(wrapped(dotted, 10, LAM_WRAP_MID), "a.a[...].a");
    assert_string_equal(wrapped(dotted, 10, LAM_WRAP_NONE), dotted);
    assert_string_equal(wrapped(dotted, 19, LAM_WRAP_END), dotted);
    assert_string_equal(wrapped(dotted, 2, LAM_WRAP_END), "a.a.a.a.a.a.a.a.[...]"); /* text[:-3] */
    assert_string_equal(wrapped("abcdef", 5, LAM_WRAP_MID), "[...].abcdef");        /* text[:-7] */
    assert_string_equal(wrapped("\u251c\u2500name", 5, LAM_WRAP_END), "[...]");
    assert_string_equal(wrapped("\u251c\u2500names", 6, LAM_WRAP_END), "\u251c[...]");
    assert_int_equal(lam_wrap_string(got, sizeof got, dotted, 10, "", "~", LAM_WRAP_MID),
                     -1); /* ValueError there too */
    assert_int_equal(lam_wrap_string(got, sizeof got, "ab--cd--ef", 9, "--", "~", LAM_WRAP_MID), 9);
    assert_string_equal(got, "ab--c~.ef");
    assert_int_equal(lam_wrap_string(got, sizeof got, dotted, 10, ".", "[...]", (lam_wrap)9), -1);
    assert_string_equal(got, "");
    assert_int_equal(lam_wrap_string(got, sizeof got, dotted, 100, ".", "[...]", (lam_wrap)9), 19);
    assert_int_equal(lam_wrap_string(got, 4, dotted, 100, ".", "[...]", LAM_WRAP_MID), 19);
    assert_string_equal(got, "a.a");
    assert_int_equal(lam_wrap_string(NULL, 0, dotted, 100, ".", "[...]", LAM_WRAP_MID), 19);
}

static void format_name(void **state) {
    (void)state;
    static const char *const want[] = {"name", "name", "\u251c\u2500name", "|    \u2514\u2500name",
                                       "|    |    \u2514\u2500name"};
    for (int depth = -1; depth < 4; depth++) {
        assert_int_equal(lam_format_name(got, sizeof got, "name", depth), strlen(want[depth + 1]));
        assert_string_equal(got, want[depth + 1]);
    }
    assert_int_equal(lam_format_name(NULL, 0, "x", LAM_SCAN_DEEPEST),
                     5 * (LAM_SCAN_DEEPEST - 1) + (int)strlen("\u2514\u2500x"));
    assert_int_equal(lam_format_name(got, sizeof got, "x", LAM_SCAN_DEEPEST + 1), -1);
    assert_int_equal(lam_format_name(got, sizeof got, "x", INT32_MAX), -1);
    assert_string_equal(got, "");
}

static void format_s(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int32_t min, max;
        const char *want;
    } cases[] = {{"abc", -1, -1, "abc"}, {"abc", 5, -1, "abc  "},
                 {"abc", -1, 2, "ab"},   {"abc", 5, 4, "abc "},
                 {"abc", 2, 2, "ab"},    {"abc", 0, 0, ""},
                 {"abc", 5, 0, ""},      {"\u251c\u2500x", 4, 4, "\u251c\u2500x "},
                 {"", 2, 2, "  "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(lam_format_s(got, sizeof got, cases[i].text, cases[i].min, cases[i].max),
                         strlen(cases[i].want));
        assert_string_equal(got, cases[i].want);
    }
}

static void scan_cells(void **state) {
    (void)state;
    lam_scan_row row = {.name = "features",
                        .type = "Sequential",
                        .output_shape = "(-1, 8)",
                        .depth = 2,
                        .rf = 2.5,
                        .rf_stride = 0.5,
                        .rf_padding = -435,
                        .params = {1234567, 0, LAM_EXACT}};
    static const char *const want[] = {
        "|    \u2514\u2500features", "Sequential", "(-1, 8)", "1,234,567", "2", "0", "-435"};
    for (int32_t i = 0; i < 7; i++) {
        lam_scan_cell(got, sizeof got, &row, i, -1, LAM_WRAP_MID);
        assert_string_equal(got, want[i]);
    }
    lam_scan_cell(got, sizeof got, &row, 1, 12, LAM_WRAP_MID);
    assert_string_equal(got, "Sequential  ");
    lam_scan_cell(got, sizeof got, &row, 3, 4, LAM_WRAP_MID);
    assert_string_equal(got, "1,23");
    assert_int_equal(lam_scan_cell(got, sizeof got, &row, 7, -1, LAM_WRAP_MID), -1);
    assert_int_equal(lam_scan_cell(got, sizeof got, &row, -1, -1, LAM_WRAP_MID), -1);
    row.depth = LAM_SCAN_DEEPEST;
    assert_true(lam_scan_cell(got, sizeof got, &row, 0, 3, LAM_WRAP_MID) > 0);
    row.depth = LAM_SCAN_DEEPEST + 1;
    assert_int_equal(lam_scan_cell(got, sizeof got, &row, 0, 3, LAM_WRAP_MID), -1);
    row.depth = INT32_MAX;
    assert_int_equal(lam_scan_cell(got, sizeof got, &row, 0, -1, LAM_WRAP_MID), -1);
    row.depth = 2;
    row.rf_state = LAM_UNKNOWN;
    lam_scan_cell(got, sizeof got, &row, 4, 3, LAM_WRAP_MID);
    assert_string_equal(got, "?  ");
    oom_arm(0, true);
    assert_int_equal(lam_scan_cell(got, sizeof got, &row, 1, 3, LAM_WRAP_MID), -1);
    assert_int_equal(lam_format_name(got, sizeof got, "x", 1), -1);
    oom_disarm();
}

static const char *text_of(lmi_buf *b) {
    snprintf(got, sizeof got, "%s", lmi_buf_text(b));
    lmi_buf_free(b);
    return got;
}

/* CPython: "ab".center(5) is "  ab ", "abc".center(6) is " abc  ". */
static void aligned(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t width;
        lmi_align align;
        const char *want;
    } cases[] = {{"ab", 5, LMI_CENTER, "  ab "}, {"abc", 6, LMI_CENTER, " abc  "},
                 {"a", 4, LMI_CENTER, " a  "},   {"a", 3, LMI_CENTER, " a "},
                 {"abc", 2, LMI_CENTER, "abc"},  {"a", 3, LMI_LEFT, "a  "},
                 {"a", 3, LMI_RIGHT, "  a"},     {"", 3, LMI_CENTER, "   "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_put_aligned(&b, cases[i].text, strlen(cases[i].text), cases[i].width, cases[i].align);
        assert_string_equal(text_of(&b), cases[i].want);
    }
}

static const char *middle(const char *s, size_t columns, bool ascii) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_middle(&b, s, columns, ascii);
    return text_of(&b);
}

static void middles(void **state) {
    (void)state;
    assert_string_equal(middle("abcdefghij", 10, false), "abcdefghij");
    assert_string_equal(middle("abcdefghij", 9, false), "abcd\u2026ghij");
    assert_string_equal(middle("abcdefghij", 8, false), "abcd\u2026hij");
    assert_string_equal(middle("abcdefghij", 8, true), "abc...ij");
    assert_string_equal(middle("abcdefghij", 3, true), "abc");
    assert_string_equal(middle("abcdefghij", 1, false), "a");
    assert_string_equal(middle("abcdefghij", 0, false), "");
    assert_string_equal(middle("\u5c42\u5c42\u5c42\u5c42", 6, false), "\u5c42\u2026\u5c42");
    for (size_t columns = 0; columns < 12; columns++) {
        assert_true(lmi_width(middle("\u5c42a\u5c42b\u5c42c\u5c42", columns, false)) <= columns);
        assert_true(lmi_width(middle("\u5c42a\u5c42b\u5c42c\u5c42", columns, true)) <= columns);
    }
}

static void reals(void **state) {
    (void)state;
    static const struct {
        double v;
        const char *want;
    } cases[] = {{0, "0"},
                 {-435, "-435"},
                 {0.5, "0.5"},
                 {-3.25, "-3.25"},
                 {1e14, "100000000000000"},
                 {1.0 / 3, "0.333333"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_put_real(&b, cases[i].v);
        assert_string_equal(text_of(&b), cases[i].want);
    }
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_real(&b, 1e300 * 1e300);
    lmi_put_fixed(&b, 0.0 / (cases[0].v + 0), 0, 2);
    lmi_put_fixed(&b, 2.345678, 8, 2);
    lmi_put_fixed(&b, 1e20, 0, 0);
    assert_string_equal(text_of(&b), "??    2.35100000000000000000000");
}

/* Three digits, also where the last of them is rounded up. */
static void intensities(void **state) {
    (void)state;
    static const struct {
        double v;
        const char *want;
    } cases[] = {{0, "0.00"},  {9.944, "9.94"}, {9.994, "9.99"}, {9.995, "10.0"}, {9.996, "10.0"},
                 {10, "10.0"}, {99.94, "99.9"}, {99.95, "100"},  {99.96, "100"},  {12345.6, "12346"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_put_intensity(&b, cases[i].v);
        assert_string_equal(text_of(&b), cases[i].want);
    }
}

/* Numbers look the same where the decimal point is a comma, if the machine has such a locale. */
static void locale(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!found) skip();
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_fixed(&b, 1234.5, 0, 2);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text_of(&b), "1234.50");
}

static void multiples(void **state) {
    (void)state;
    lam_count c = lmi_multiple(lmi_exact(INT64_MAX), 12);
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_plain(&b, c);
    assert_string_equal(text_of(&b), "110680464442257309684");
    assert_int_equal(lmi_multiple(lmi_at_least(7), 3).n, 21);
    assert_int_equal(lmi_multiple(lmi_at_least(7), 3).state, LAM_AT_LEAST);
    assert_int_equal(lmi_multiple(lmi_unknown(), 3).state, LAM_UNKNOWN);
    assert_int_equal(lmi_sum(lmi_unknown(), lmi_exact(0)).state, LAM_UNKNOWN);
    assert_int_equal(lmi_sum(lmi_unknown(), lmi_exact(5)).state, LAM_AT_LEAST);
    assert_int_equal(lmi_sum(lmi_exact(2), lmi_exact(5)).state, LAM_EXACT);
}

/* Each id that a layout names is a column, and every column says what it means. */
static void tables_are_whole(void **state) {
    (void)state;
    static const char *const ids[] = {
#define COLUMN(id, title, align, rank, when, cell, doc) #id,
#include "report/table/columns.def"
#undef COLUMN
    };
    static const char *const lists[] = {
#define LAYOUT(name, text_columns, data_columns, op_columns, time_columns, text, csv, md, doc)               \
    text_columns, data_columns, op_columns, time_columns,
#include "report/layouts.def"
#undef LAYOUT
        LMI_MEMORY_COLUMNS,
        LMI_HEALTH_COLUMNS,
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const lmi_column *c = lmi_column_find(ids[i], strlen(ids[i]));
        assert_non_null(c);
        assert_string_equal(c->id, ids[i]);
        assert_true(c->doc[0] && c->title[0] && c->when && c->cell);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        lmi_columns columns;
        int32_t n = 0;
        for (const char *p = lists[i]; *p; p += strspn(p, " ")) {
            p += strcspn(p, " ");
            n++;
        }
        lmi_columns_parse(lists[i], &columns);
        assert_int_equal(columns.n, n);
    }
    assert_null(lmi_column_find("nothing", 7));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrap_string), cmocka_unit_test(format_name),      cmocka_unit_test(format_s),
        cmocka_unit_test(scan_cells),  cmocka_unit_test(aligned),          cmocka_unit_test(middles),
        cmocka_unit_test(reals),       cmocka_unit_test(locale),           cmocka_unit_test(intensities),
        cmocka_unit_test(multiples),   cmocka_unit_test(tables_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
