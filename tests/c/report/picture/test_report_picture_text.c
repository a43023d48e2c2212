/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and names as text of a page or a picture. */
#include "kit/oom.h"

#include "report/picture/text.h"

#include <math.h>

#define S LMI_NARROW

static void expect(lmi_buf *b, const char *text) {
    assert_string_equal(lmi_buf_text(b), text);
    lmi_buf_clear(b);
}

#define EXPECT(put, value, text) (put(&b, value), expect(&b, text))

static void test_counts(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    EXPECT(lmi_put_si, 0, "0");
    EXPECT(lmi_put_si, 7, "7");
    EXPECT(lmi_put_si, 2.5, "3"); /* of a rate */
    EXPECT(lmi_put_si, 999, "999");
    EXPECT(lmi_put_si, 1000, "1.00" S "K");
    EXPECT(lmi_put_si, 11689512, "11.7" S "M");
    EXPECT(lmi_put_si, 14512586752., "14.5" S "G");
    EXPECT(lmi_put_si, 999499999, "999" S "M");
    EXPECT(lmi_put_si, 999500000, "1.00" S "G");
    EXPECT(lmi_put_si, 1e24, "1.00" S "Y");
    EXPECT(lmi_put_si, -1, "?");
    EXPECT(lmi_put_si, NAN, "?");
    EXPECT(lmi_put_si, INFINITY, "?");
    lmi_buf_free(&b);
}

static void test_bytes(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    EXPECT(lmi_put_iec, 0, "0" S "B");
    EXPECT(lmi_put_iec, 1023, "1023" S "B");
    EXPECT(lmi_put_iec, 1024, "1.00" S "KiB");
    EXPECT(lmi_put_iec, 592 * 1048576., "592" S "MiB");
    EXPECT(lmi_put_iec, 1023.9 * 1048576, "1.00" S "GiB");
    EXPECT(lmi_put_iec, 9223372036854775807., "8.00" S "EiB");
    EXPECT(lmi_put_iec, -1, "?");
    lmi_buf_free(&b);
}

static void test_times(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    EXPECT(lmi_put_ns, 85, "85" S "ns");
    EXPECT(lmi_put_ns, 999.4, "999" S "ns");
    EXPECT(lmi_put_ns, 999.6, "1.00" S "\u00b5s");
    EXPECT(lmi_put_ns, 410000, "410" S "\u00b5s");
    EXPECT(lmi_put_ns, 12345678, "12.3" S "ms");
    EXPECT(lmi_put_ns, 5e9, "5.00" S "s");
    EXPECT(lmi_put_ns, 7.2e12, "7200" S "s");
    EXPECT(lmi_put_ns, -1, "?");
    lmi_buf_free(&b);
}

static void expect_share(double part, double whole, const char *text) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_share(&b, part, whole);
    expect(&b, text);
    lmi_buf_free(&b);
}

static void test_shares(void **state) {
    (void)state;
    expect_share(1, 4, "25" S "%");
    expect_share(65, 1000, "6.5" S "%");
    expect_share(3, 1000, "0.3" S "%");
    expect_share(9.96, 100, "10" S "%");
    expect_share(1, 1, "100" S "%");
    expect_share(0, 1, "0.0" S "%");
    expect_share(1, 0, "");
    expect_share(-1, 5, "?" S "%");
}

static void test_digits_and_powers(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    EXPECT(lmi_put_full, 0, "0");
    EXPECT(lmi_put_full, 999, "999");
    EXPECT(lmi_put_full, 1000, "1" S "000");
    EXPECT(lmi_put_full, 14512586752, "14" S "512" S "586" S "752");
    EXPECT(lmi_put_full, -123456, "-123" S "456");
    EXPECT(lmi_put_full, INT64_MIN, "-9" S "223" S "372" S "036" S "854" S "775" S "808");
    EXPECT(lmi_put_power, -2, "0.01");
    EXPECT(lmi_put_power, 0, "1");
    EXPECT(lmi_put_power, 2, "100");
    EXPECT(lmi_put_power, 3, "1" S "K");
    EXPECT(lmi_put_power, 8, "100" S "M");
    EXPECT(lmi_put_power, 9, "1" S "G");
    EXPECT(lmi_put_power, 22, "10000" S "E");
    EXPECT(lmi_put_digits, 3.14159, "3.14");
    EXPECT(lmi_put_digits, 99.96, "100");
    lmi_buf_free(&b);
}

static void expect_name(const char *name, int32_t columns, const char *text) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put_name(&b, name, columns);
    expect(&b, text);
    lmi_buf_free(&b);
}

static void test_a_name_is_escaped(void **state) {
    (void)state;
    expect_name("", 9, "");
    expect_name("layer1.0.conv1", 46, "layer1.0.conv1");
    expect_name("</script>", 46, "&lt;/script&gt;");
    expect_name("a\"b'c&d", 46, "a&quot;b&#39;c&amp;d");
    expect_name("x\u202ey", 46, "x\\u202ey");
    expect_name("\x1b[31m\n\x7f", 46, "\\u001b[31m\\u000a\\u007f");
    expect_name("\u200b\ufeff\u2066", 46, "\\u200b\\ufeff\\u2066");
    expect_name("a\xff\xc3", 46, "a\ufffd\ufffd");
    expect_name("\xed\xa0\x80", 46, "\ufffd\ufffd\ufffd"); /* half of a surrogate pair */
    expect_name("\u05d0\u0628", 46, "\u05d0\u0628");
}

/* What XML does not allow is put as what is seen. */
static void test_every_byte_is_allowed_in_xml(void **state) {
    (void)state;
    for (int c = 1; c < 256; c++) {
        char name[2] = {(char)c, 0};
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_put_name(&b, name, 46);
        const char *text = lmi_buf_text(&b);
        for (uint32_t code; *text; text += lmi_utf8(text, &code)) {
            lmi_utf8(text, &code);
            assert_true(code >= 0x20 && code != LMI_BAD_UTF8 && code != '<' && code != '"');
        }
        lmi_buf_free(&b);
    }
    expect_name("\ufffe", 46, "\\ufffe");
}

/* Of ten columns: five, the dots, four. */
static void test_a_name_is_cut_in_its_middle(void **state) {
    (void)state;
    expect_name("abcdefghij", 10, "abcdefghij");
    expect_name("abcdefghijk", 10, "abcde\u2026hijk");
    expect_name("abcdefghijk", 1, "a");
    expect_name("abcdefghijk", 2, "a\u2026");
    expect_name("abcdefghijk", 3, "a\u2026k");
    expect_name("abcdefghijk", 0, "");
    expect_name("abcdefghijk", -4, "");
    expect_name("<<<<<<<<<<<", 3, "&lt;\u2026&lt;");
    /* Wide ones take two columns; one that a cut would go through is left out. */
    expect_name("\u6f22\u6f22\u6f22\u6f22\u6f22", 10, "\u6f22\u6f22\u6f22\u6f22\u6f22");
    expect_name("\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22", 10, "\u6f22\u6f22\u2026\u6f22\u6f22");
    expect_name("\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22", 8, "\u6f22\u6f22\u2026\u6f22");
    /* An accent whose letter was cut off goes too. */
    expect_name("abcde\u0301\u0301f", 3, "a\u2026f");
    expect_name("abcdef\u0301", 3, "a\u2026f\u0301");
}

static void test_the_width_of_a_name(void **state) {
    (void)state;
    assert_int_equal(lmi_name_width(""), 0);
    assert_int_equal(lmi_name_width("conv1"), 5);
    assert_int_equal(lmi_name_width("a<b"), 3);
    assert_int_equal(lmi_name_width("\u6f22a"), 3);
    assert_int_equal(lmi_name_width("\U0001f600"), 2);
    assert_int_equal(lmi_name_width("e\u0301"), 1);
    assert_int_equal(lmi_name_width("x\u202ey"), 8);
    assert_int_equal(lmi_name_width("\xff"), 1);
}

static void test_memory_that_runs_out(void **state) {
    (void)state;
    const char *names[] = {"conv1", "a name that is far too wide"};
    for (int k = 0; k < 2; k++) {
        for (int at = 0;; at++) {
            lmi_buf b;
            lmi_buf_init(&b);
            oom_arm(at, false);
            lmi_put_name(&b, names[k], 10);
            bool refused = oom_injected;
            oom_disarm();
            assert_true(b.bad == refused);
            lmi_buf_free(&b);
            if (!refused) break;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_digits_and_powers),
        cmocka_unit_test(test_a_name_is_escaped),
        cmocka_unit_test(test_every_byte_is_allowed_in_xml),
        cmocka_unit_test(test_a_name_is_cut_in_its_middle),
        cmocka_unit_test(test_the_width_of_a_name),
        cmocka_unit_test(test_memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
