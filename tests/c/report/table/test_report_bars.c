/* SPDX-License-Identifier: Apache-2.0
 *
 * Bars behind shares. */
#include "kit/oom.h"

#include "report/table/report.h"

#define ON  "\x1b[37;44m"
#define OFF "\x1b[0m"

/* "layer", "MACs" of 4 columns and "%" of 5: with the gap a bar of 11. */
static const struct row {
    const char *cells[3];
    double share;
} rows[] = {
    {{"a", "80", "100.0"}, 1},     {{"b", "64", "80.0"}, 0.8}, {{"c", "4", "5.0"}, 0.05},
    {{"d", "3", "4.0"}, 0.04},     {{"e", "?", "?"}, -1},      {{"f", "0", "0.0"}, 0},
    {{"g", "100", "125.0"}, 1.25},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

typedef struct look {
    size_t width;
    bool color, ascii, bars;
} look;

static lam_status write_rows(const look *how, lmi_buf *out, lam_error *e) {
    lmi_sheet t;
    lmi_sheet_start(&t, out, how->width, how->ascii, e);
    t.color = how->color;
    lmi_sheet_column(&t, &(lmi_head){"layer", LMI_LEFT, 0});
    lmi_sheet_column(&t, &(lmi_head){"MACs", LMI_RIGHT, 1});
    lmi_sheet_column(&t, &(lmi_head){"%", LMI_RIGHT, 0});
    if (how->bars) lmi_sheet_bars(&t, 1, 2);
    for (int i = 0; i < N_ROWS; i++) {
        for (int k = 0; k < 3; k++) lmi_text_cell(&t, rows[i].cells[k]);
        if (how->bars) lmi_sheet_share(&t, rows[i].share);
    }
    lmi_sheet_write(&t, 5, 5);
    return lmi_sheet_free(&t);
}

static void as(const look *how, const char *expected) {
    lmi_buf out;
    lmi_buf_init(&out);
    lam_error e = {0};
    assert_int_equal(write_rows(how, &out, &e), LAM_OK);
    assert_string_equal(lmi_buf_text(&out), expected);
    lmi_buf_free(&out);
}

/* 0.8 of 11 columns are 9, 0.05 are 1, and 0.04 less than half of one. */
static void as_long_as_the_share(void **state) {
    (void)state;
    as(&(look){.color = true, .bars = true}, "\x1b[1mlayer" OFF "  \x1b[1mMACs" OFF "      \x1b[1m%" OFF "\n"
                                             "a      " ON "  80  100.0" OFF "\n"
                                             "b      " ON "  64   80" OFF ".0\n"
                                             "c      " ON " " OFF "  4    5.0\n"
                                             "d         3    4.0\n"
                                             "e         \x1b[33m?" OFF "      \x1b[33m?" OFF "\n"
                                             "f         0    0.0\n"
                                             "g      " ON " 100  125.0" OFF "\n");
}

/* Where the column is left out, the share alone has the bar: 5 columns, of which 0.8 are 4. */
static void on_a_narrow_page(void **state) {
    (void)state;
    as(&(look){.width = 12, .color = true, .bars = true}, "\x1b[1mlayer" OFF "      \x1b[1m%" OFF "\n"
                                                          "a      " ON "100.0" OFF "\n"
                                                          "b      " ON " 80." OFF "0\n"
                                                          "c        5.0\n"
                                                          "d        4.0\n"
                                                          "e          \x1b[33m?" OFF "\n"
                                                          "f        0.0\n"
                                                          "g      " ON "125.0" OFF "\n");
}

static void only_in_colour_and_never_in_ascii(void **state) {
    (void)state;
    static const char plain[] = "layer  MACs      %\n"
                                "a        80  100.0\n"
                                "b        64   80.0\n"
                                "c         4    5.0\n"
                                "d         3    4.0\n"
                                "e         ?      ?\n"
                                "f         0    0.0\n"
                                "g       100  125.0\n";
    as(&(look){.bars = true}, plain);
    lmi_buf out;
    lmi_buf_init(&out);
    assert_int_equal(write_rows(&(look){.color = true, .ascii = true, .bars = true}, &out, NULL), LAM_OK);
    assert_null(strstr(lmi_buf_text(&out), ON));
    lmi_buf_clear(&out);
    assert_int_equal(write_rows(&(look){.color = true}, &out, NULL), LAM_OK);
    assert_null(strstr(lmi_buf_text(&out), ON));
    lmi_buf_free(&out);
}

static void try_rows(void *arg, bool *ok) {
    lam_error e = {0};
    lmi_buf out;
    lmi_buf_init(&out);
    lam_status s = write_rows(arg, &out, &e);
    if (s == LAM_OK) s = lmi_buf_status(&out, &e);
    *ok = oom_check(s, &e);
    lmi_buf_free(&out);
}

static void without_memory(void **state) {
    (void)state;
    oom_sweep(try_rows, &(look){.color = true, .bars = true});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_long_as_the_share),
        cmocka_unit_test(on_a_narrow_page),
        cmocka_unit_test(only_in_colour_and_never_in_ascii),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
