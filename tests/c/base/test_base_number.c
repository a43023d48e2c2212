/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text, by the table that the page's script is held to as well; reals, per cents, settings. */
#include "kit/oom.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE = 160, LEAST_LINES = 40 };

static const struct {
    const char *kind;
    lmi_number_unit unit;
} kinds[] = {{"count", LMI_COUNTS}, {"bytes", LMI_BYTES}, {"time", LMI_TIMES}};

/* The text as a page has it. */
static const char *typeset(const char *text, char to[LINE]) {
    size_t n = 0;
    for (; *text; text++) {
        if (*text != ' ' && *text != 'u')
            to[n++] = *text;
        else
            n += (size_t)snprintf(to + n, LINE - n, "%s", *text == ' ' ? LMI_NARROW : "\u00b5");
    }
    to[n] = '\0';
    return to;
}

static void expect(lmi_buf *b, const char *text) {
    assert_string_equal(lmi_buf_text(b), text);
    lmi_buf_clear(b);
}

static void holds(const char *kind, const char *number, const char *text) {
    char page[LINE];
    double v = strtod(number, NULL);
    const char *whole = strchr(number, '/');
    lmi_buf b;
    lmi_buf_init(&b);
    typeset(text, page);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kind, kinds[i].kind) != 0) continue;
        lmi_put_quantity(&b, kinds[i].unit, lmi_exact(strtoll(number, NULL, 10)));
        expect(&b, text);
        lmi_put_scaled(&b, kinds[i].unit, v, &lmi_typeset);
        expect(&b, page);
        lmi_buf_free(&b);
        return;
    }
    assert_string_equal(kind, "percent");
    lmi_put_percent(&b, v, strtod(whole + 1, NULL), &lmi_plain);
    expect(&b, text);
    lmi_put_percent(&b, v, strtod(whole + 1, NULL), &lmi_typeset);
    expect(&b, page);
    lmi_buf_free(&b);
}

static void the_table_holds(void **state) {
    (void)state;
    char line[LINE], kind[16], number[40], text[40];
    int n = 0;
    FILE *f = fopen(LAMINA_TEST_DATA "/numbers.tsv", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (*line == '#') continue;
        assert_int_equal(sscanf(line, "%15[^\t]\t%39[^\t]\t%39[^\n]", kind, number, text), 3);
        holds(kind, number, text);
        n++;
    }
    fclose(f);
    assert_true(n >= LEAST_LINES);
}

static void what_is_not_exact_says_so(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_quantity(&b, LMI_BYTES, lmi_at_least(1152));
    expect(&b, ">= 1.13 KiB");
    lmi_put_quantity(&b, LMI_TIMES, lmi_at_least(1005));
    expect(&b, ">= 1.01 us");
    lmi_put_quantity(&b, LMI_TIMES, lmi_unknown());
    expect(&b, "?");
    lmi_buf_free(&b);
}

/* The largest number there is has more than three digits in the last unit. */
static void the_last_unit_has_no_next(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_scaled(&b, LMI_COUNTS, 0x1p94, &lmi_plain);
    expect(&b, "19.8 R");
    lmi_put_scaled(&b, LMI_TIMES, 1e13, &lmi_plain);
    expect(&b, "10000 s");
    lmi_put_scaled(&b, LMI_TIMES, 999.5e9, &lmi_plain);
    expect(&b, "1000 s");
    lmi_put_scaled(&b, LMI_COUNTS, 1e30, &lmi_plain);
    expect(&b, "?");
    lmi_put_scaled(&b, LMI_COUNTS, NAN, &lmi_plain);
    expect(&b, "?");
    lmi_put_scaled(&b, LMI_COUNTS, -1, &lmi_plain);
    expect(&b, "?");
    lmi_buf_free(&b);
}

static void half_of_a_real_is_rounded_up(void **state) {
    (void)state;
    static const struct {
        double v;
        int decimals;
        const char *text;
    } all[] = {
        {1.125, 2, "1.13"},  {1.375, 2, "1.38"}, {-1.125, 2, "-1.13"}, {6.25, 1, "6.3"},
        {0.5, 0, "1"},       {2.5, 0, "3"},      {1.005, 2, "1.00"}, /* a little less than it is written */
        {0.125, 3, "0.125"}, {1e300, 0, NULL}};
    lmi_buf b;
    lmi_buf_init(&b);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lmi_put_fixed(&b, all[i].v, all[i].decimals);
        assert_true(all[i].text || b.n == 301);
        expect(&b, all[i].text ? all[i].text : lmi_buf_text(&b));
    }
    lmi_buf_free(&b);
}

static void whole_numbers_have_all_digits(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_int(&b, 0);
    expect(&b, "0");
    lmi_put_int(&b, INT64_MAX);
    expect(&b, "9223372036854775807");
    lmi_put_int(&b, INT64_MIN);
    expect(&b, "-9223372036854775808");
    lmi_put_real(&b, -0.0);
    expect(&b, "-0");
    lmi_put_real(&b, -41);
    expect(&b, "-41");
    lmi_put_real(&b, 999999999999999.0);
    expect(&b, "999999999999999");
    lmi_buf_free(&b);
}

/* A buffer that is too small gets the length that the full text has. */
static void a_count_in_a_small_buffer_tells_its_length(void **state) {
    (void)state;
    char text[8];
    const lam_count wide = {INT64_MIN, 0, LAM_AT_LEAST};
    char whole[64];
    const int n = lam_text_digits(whole, sizeof whole, wide);
    assert_string_equal(whole, ">= -9223372036854775808");
    assert_int_equal(n, strlen(whole));
    assert_int_equal(lam_text_digits(text, sizeof text, wide), n);
    assert_memory_equal(text, whole, sizeof text - 1);
    assert_int_equal(text[7], 0);
    assert_int_equal(lam_text_digits(NULL, 0, wide), n);
    assert_int_equal(lam_text_digits(text, 1, (lam_count){.state = LAM_UNKNOWN}), 1);
    assert_string_equal(text, "");
}

static void growth_has_a_sign(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_growth(&b, 12.5, &lmi_tight);
    expect(&b, "+13%");
    lmi_put_growth(&b, -6.25, &lmi_plain);
    expect(&b, "-6.3 %");
    lmi_put_growth(&b, -.0625, &lmi_typeset);
    expect(&b, "\u22120.06" LMI_NARROW "%");
    lmi_put_percent(&b, 1, 0, &lmi_plain);
    expect(&b, "");
    lmi_put_percent(&b, -1, 5, &lmi_plain);
    expect(&b, "? %");
    lmi_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_holds),
        cmocka_unit_test(what_is_not_exact_says_so),
        cmocka_unit_test(the_last_unit_has_no_next),
        cmocka_unit_test(half_of_a_real_is_rounded_up),
        cmocka_unit_test(whole_numbers_have_all_digits),
        cmocka_unit_test(a_count_in_a_small_buffer_tells_its_length),
        cmocka_unit_test(growth_has_a_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
