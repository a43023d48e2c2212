/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces: alignment, ellipses, numbers, tables. */
#include "kit/oom.h"

#include "report/table/report.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static char got[512];

static const char *text_of(lmi_buf *b) {
    snprintf(got, sizeof got, "%s", lmi_buf_text(b));
    lmi_buf_free(b);
    return got;
}

static const char *middle(const char *s, size_t columns, bool ascii) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_cut(&b, s, columns, ascii);
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
                 {1.0 / 3, "0.333333"},
                 {6119.9999999, "6120"},
                 {-0.9999999, "-1"},
                 {2.0000001, "2"},
                 {1.5e-8, "1.5e-08"},
                 {-2e-5, "-2e-05"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_put_real(&b, cases[i].v);
        assert_string_equal(text_of(&b), cases[i].want);
    }
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_real(&b, 1e300 * 1e300);
    lmi_put_fixed(&b, 0.0 / (cases[0].v + 0), 2);
    lmi_put_fixed(&b, 2.345678, 2);
    lmi_put_fixed(&b, 1e20, 0);
    assert_string_equal(text_of(&b), "??2.35100000000000000000000");
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
        lmi_put_digits(&b, cases[i].v);
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
    lmi_put_fixed(&b, 1234.5, 2);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text_of(&b), "1234.50");
}

static void sums(void **state) {
    (void)state;
    lam_count c = {.n = 12, .over = 12};
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_plain(&b, c);
    assert_string_equal(text_of(&b), "110680464442257309708");
    assert_int_equal(lmi_sum(lmi_unknown(), lmi_exact(0)).state, LAM_UNKNOWN);
    assert_int_equal(lmi_sum(lmi_unknown(), lmi_exact(5)).state, LAM_AT_LEAST);
    assert_int_equal(lmi_sum(lmi_exact(2), lmi_exact(5)).state, LAM_EXACT);
}

/* Every column is found by its id and says what it means. */
static void tables_are_whole(void **state) {
    (void)state;
    static const char *const ids[] = {
#define OWN(id, title, align, rank, when, cell, doc) #id,
#include "report/table/columns.def"
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const lmi_column *c = lmi_column_find(ids[i]);
        assert_non_null(c);
        assert_string_equal(c->id, ids[i]);
        assert_true(c->doc[0] && c->title[0] && c->when && c->cell);
    }
    assert_null(lmi_column_find("nothing"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(middles),     cmocka_unit_test(reals), cmocka_unit_test(locale),
        cmocka_unit_test(intensities), cmocka_unit_test(sums),  cmocka_unit_test(tables_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
