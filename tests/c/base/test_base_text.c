/* SPDX-License-Identifier: Apache-2.0
 *
 * The string builder, UTF-8, counts, and numbers as text. */
#include "kit/oom.h"

#include "base/base.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

typedef struct taker {
    char got[256];
    size_t n;
    lam_status answer;
} taker;

static lam_status take(void *to, const char *bytes, size_t n) {
    taker *t = to;
    if (t->answer != LAM_OK) return t->answer;
    assert_true(t->n + n < sizeof t->got);
    memcpy(t->got + t->n, bytes, n);
    t->n += n;
    return LAM_OK;
}

static void builder_puts(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    assert_string_equal(lmi_buf_text(&b), "");
    lmi_put(&b, "one");
    lmi_put(&b, NULL);
    lmi_put_clean(&b, NULL);
    lmi_putc(&b, ' ');
    lmi_putn(&b, "twofold", 3);
    lmi_putn(&b, NULL, 0);
    lmi_pad(&b, '.', 3);
    lmi_pad(&b, '.', 0);
    lmi_putf(&b, "%d%s", 42, "!");
    lmi_putf(&b, "%s", ""); /* nothing is no lack of memory */
    assert_false(b.bad);
    lmi_put_clean(&b, "a\x1b]0;x\x07\r\nz");
    assert_string_equal(lmi_buf_text(&b), "one two...42!a?]0;x???z");
    assert_int_equal(b.n, strlen(b.s));
    for (size_t n = b.n; n < 200; n++) lmi_putf(&b, "%c", 'x'); /* whether or not there is room left */
    assert_int_equal(b.n, 200);
    assert_int_equal(strlen(b.s), 200);
    lmi_pad(&b, 'x', 823);
    assert_int_equal(b.n, 1023);
    assert_int_equal(lmi_buf_status(&b, NULL), LAM_OK);
    lmi_buf_free(&b);
    assert_string_equal(lmi_buf_text(&b), "");
}

static void builder_flushes(void **state) {
    (void)state;
    taker t = {{0}, 0, LAM_OK};
    lam_sink to = {take, &t};
    lmi_buf b;
    lmi_buf_init(&b);
    assert_int_equal(lmi_buf_flush(&b, to, NULL), LAM_OK);
    lmi_put(&b, "hello ");
    assert_int_equal(lmi_buf_flush(&b, to, NULL), LAM_OK);
    assert_int_equal(b.n, 0);
    assert_string_equal(lmi_buf_text(&b), "");
    lmi_put(&b, "there");
    assert_int_equal(lmi_buf_flush(&b, to, NULL), LAM_OK);
    assert_string_equal(t.got, "hello there");
    t.answer = LAM_IO;
    lam_error e = {0};
    lmi_put(&b, "lost");
    assert_int_equal(lmi_buf_flush(&b, to, &e), LAM_IO);
    assert_int_equal(e.status, LAM_IO);
    assert_true(e.text[0] != '\0');
    lmi_buf_free(&b);
}

static void builder_remembers_lack_of_memory(void **state) {
    (void)state;
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_put(&b, "kept");
    lmi_pad(&b, 'x', SIZE_MAX - 2);
    assert_true(b.bad);
    lmi_put(&b, "ignored");
    lmi_put_clean(&b, "ignored");
    lmi_pad(&b, 'x', 2);
    lmi_putf(&b, "%d", 1);
    assert_string_equal(lmi_buf_text(&b), "kept");
    lam_error e = {0};
    taker t = {{0}, 0, LAM_OK};
    assert_int_equal(lmi_buf_status(&b, &e), LAM_NOMEM);
    assert_int_equal(lmi_buf_flush(&b, (lam_sink){take, &t}, NULL), LAM_NOMEM);
    assert_int_equal(t.n, 0);
    lmi_buf_free(&b);
    lmi_put(&b, "x");
    lmi_pad(&b, 'x', SIZE_MAX - 1);
    assert_true(b.bad);
    lmi_buf_free(&b);
}

static void builder_sweep(void *arg, bool *ok) {
    (void)arg;
    lmi_buf b;
    lmi_buf_init(&b);
    lam_error e = {0};
    for (int i = 0; i < 20; i++) {
        lmi_put_clean(&b, "some text\n");
        lmi_putf(&b, "%d", i);
        lmi_pad(&b, ' ', 30);
    }
    *ok = oom_check(lmi_buf_status(&b, &e), &e);
    lmi_buf_free(&b);
}

static void builder_survives_lack_of_memory(void **state) {
    (void)state;
    oom_sweep(builder_sweep, NULL);
}

static void decodes_utf8(void **state) {
    (void)state;
    static const struct {
        const char *s;
        uint32_t code;
        size_t n;
    } all[] = {
        {"", 0, 0},
        {"A", 'A', 1},
        {"\xc3\xa9", 0xe9, 2},
        {"\xe6\x97\xa5", 0x65e5, 3},
        {"\xf0\x9f\x98\x80", 0x1f600, 4},
        {"\xf4\x8f\xbf\xbf", 0x10ffff, 4},
        {"\x80", LMI_BAD_UTF8, 1},             /* a continuation alone */
        {"\x90\x80", LMI_BAD_UTF8, 1},         /* several, which would be a letter */
        {"\xf9\x80\x80\x80", LMI_BAD_UTF8, 1}, /* too long a spelling, which would be one too */
        {"\xc1\xbf", LMI_BAD_UTF8, 1},         /* overlong */
        {"\xe0\x9f\xbf", LMI_BAD_UTF8, 1},     /* overlong */
        {"\xf0\x8f\xbf\xbf", LMI_BAD_UTF8, 1}, /* overlong */
        {"\xed\xa0\x80", LMI_BAD_UTF8, 1},     /* a surrogate */
        {"\xf4\x90\x80\x80", LMI_BAD_UTF8, 1}, /* beyond Unicode */
        {"\xf5\x80\x80\x80", LMI_BAD_UTF8, 1},
        {"\xe6\x97", LMI_BAD_UTF8, 1}, /* ends inside */
        {"\xe6"
         "A",
         LMI_BAD_UTF8, 1},
        {"\xff", LMI_BAD_UTF8, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint32_t code;
        assert_int_equal(lmi_utf8(all[i].s, &code), all[i].n);
        assert_int_equal(code, all[i].code);
    }
}

/* Both ends of each range, and what stands beside them. */
static void ends_of_what_drives_a_terminal(void **state) {
    (void)state;
    static const struct {
        uint32_t code;
        bool drives;
    } all[] = {{0x01, true},   {0x1f, true},   {0x20, false},  {0x7e, false},   {0x7f, true},
               {0x80, true},   {0x9f, true},   {0xa0, false},  {0x2027, false}, {0x2028, true},
               {0x2029, true}, {0x202a, true}, {0x202e, true}, {0x202f, false}, {0x2065, false},
               {0x2066, true}, {0x2069, true}, {0x206a, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const uint32_t c = all[i].code;
        char text[4] = {(char)c}, kept[4];
        if (c >= 0x800)
            snprintf(text, sizeof text, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 63)),
                     (int)(0x80 | (c & 63)));
        else if (c >= 0x80)
            snprintf(text, sizeof text, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
        memcpy(kept, text, sizeof kept);
        lmi_clean(text);
        if (strcmp(text, all[i].drives ? "?" : kept) != 0) fail_msg("U+%04X gives '%s'", (unsigned)c, text);
    }
}

static void cleans_what_drives_a_terminal(void **state) {
    (void)state;
    char text[] = "a\x7f\xc2\x85\xe2\x80\xae"
                  "b\xe2\x81\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaf\xc2\xa0\xc3";
    size_t n = lmi_clean(text);
    assert_int_equal(n, strlen(text));
    assert_string_equal(text, "a???b???\xe2\x80\xaf\xc2\xa0?");
    char fine[] = "layer1.0 \xe6\x97\xa5";
    lmi_clean(fine);
    assert_string_equal(fine, "layer1.0 \xe6\x97\xa5");
}

static void measures_columns(void **state) {
    (void)state;
    assert_int_equal(lmi_width(""), 0);
    assert_int_equal(lmi_width("conv1"), 5);
    assert_int_equal(lmi_width("\xc3\xa9"), 1);
    assert_int_equal(lmi_width("e\xcc\x81"), 1);                /* combining acute */
    assert_int_equal(lmi_width("\xe6\x97\xa5\xe6\x9c\xac"), 4); /* two ideographs */
    assert_int_equal(lmi_width("\xea\xb0\x80"), 2);             /* a Hangul syllable */
    assert_int_equal(lmi_width("\xef\xbc\xa1"), 2);             /* fullwidth A */
    assert_int_equal(lmi_width("\xef\xbd\xb1"), 1);             /* halfwidth katakana */
    assert_int_equal(lmi_width("\xf0\x9f\x98\x80"), 2);         /* an emoji */
    assert_int_equal(lmi_width("\xf0\xa0\x80\x80"), 2);         /* plane 2 */
    assert_int_equal(lmi_width("\xe2\x80\x8b"), 0);             /* zero width space */
    assert_int_equal(lmi_width("\xe2\x94\x94\xe2\x94\x80"), 2); /* box drawing */
    assert_int_equal(lmi_width("\xff"
                               "a"),
                     2);                                /* a stray byte */
    assert_int_equal(lmi_width("\xf4\x8f\xbf\xbf"), 1); /* past the tables */
}

static void fits_a_prefix(void **state) {
    (void)state;
    const char *s = "a\xe6\x97\xa5"
                    "e\xcc\x81z";
    static const size_t expected[] = {0, 1, 1, 4, 7, 8, 8};
    for (size_t columns = 0; columns < 7; columns++) assert_int_equal(lmi_fit(s, columns), expected[columns]);
    assert_int_equal(lmi_fit("", 5), 0);
}

static void whole_words_are_in_a_list(void **state) {
    (void)state;
    const char *list = "aten::mm aten::bmm aten::mm_out";
    assert_true(lmi_listed(list, "aten::mm"));
    assert_true(lmi_listed(list, "aten::bmm"));
    assert_true(lmi_listed(list, "aten::mm_out"));
    assert_true(lmi_listed("aten::mm_out aten::mm", "aten::mm")); /* after one that begins with it */
    assert_false(lmi_listed(list, "mm"));
    assert_false(lmi_listed(list, "aten"));
    assert_false(lmi_listed(list, ""));
    assert_false(lmi_listed("", "aten::mm"));
}

static lam_count count(uint32_t over, int64_t n, lam_state state) {
    return (lam_count){.n = n, .over = over, .state = state};
}

static void assert_count(lam_count c, uint32_t over, int64_t n, lam_state state) {
    assert_int_equal(c.over, over);
    assert_int_equal(c.n, n);
    assert_int_equal(c.state, state);
}

static void counts_add_up(void **state) {
    (void)state;
    assert_count(lam_count_add(lmi_exact(2), lmi_exact(3)), 0, 5, LAM_EXACT);
    assert_count(lam_count_add(lmi_exact(2), lmi_at_least(3)), 0, 5, LAM_AT_LEAST);
    assert_count(lam_count_add(lmi_unknown(), lmi_at_least(3)), 0, 3, LAM_UNKNOWN);
    assert_count(lam_count_add(lmi_exact(INT64_MAX), lmi_exact(1)), 1, 0, LAM_EXACT);
    assert_count(lam_count_add(count(1, 5, LAM_EXACT), lmi_exact(-6)), 0, INT64_MAX, LAM_EXACT);
    assert_count(lam_count_add(lmi_exact(-2), lmi_exact(-3)), 0, -5, LAM_EXACT);
    assert_count(lam_count_add(count(3, 1, LAM_EXACT), count(4, INT64_MAX, LAM_EXACT)), 8, 0, LAM_EXACT);
}

static void counts_saturate(void **state) {
    (void)state;
    lam_count most = count(UINT32_MAX, INT64_MAX, LAM_EXACT);
    assert_count(lam_count_add(most, lmi_exact(0)), UINT32_MAX, INT64_MAX, LAM_EXACT);
    assert_count(lam_count_add(most, lmi_exact(1)), UINT32_MAX, INT64_MAX, LAM_AT_LEAST);
    assert_count(lam_count_add(most, lmi_unknown()), UINT32_MAX, INT64_MAX, LAM_UNKNOWN);
    assert_count(lam_count_add(most, count(1, 0, LAM_UNKNOWN)), UINT32_MAX, INT64_MAX, LAM_UNKNOWN);
    assert_count(lam_count_add(lmi_exact(INT64_MIN), lmi_exact(-1)), 0, INT64_MIN, LAM_AT_LEAST);
    assert_true(lmi_count_double(count(2, 0, LAM_EXACT)) == 18446744073709551616.0);
}

static void assert_bytes(lam_count read, lam_count written, uint32_t over, int64_t n, lam_state state) {
    lam_count metric[LAM_N_METRICS] = {[LAM_BYTES_READ] = read, [LAM_BYTES_WRITTEN] = written};
    assert_count(lam_metric_bytes(metric), over, n, state);
    metric[LAM_BYTES_READ] = written;
    metric[LAM_BYTES_WRITTEN] = read;
    assert_count(lam_metric_bytes(metric), over, n, state);
}

/* A part that is known is a lower bound, and no part that is known is not 0. */
static void bytes_add_up(void **state) {
    (void)state;
    assert_bytes(lmi_exact(8), lmi_exact(4), 0, 12, LAM_EXACT);
    assert_bytes(lmi_exact(8), lmi_at_least(4), 0, 12, LAM_AT_LEAST);
    assert_bytes(lmi_unknown(), lmi_exact(1), 0, 1, LAM_AT_LEAST);
    assert_bytes(lmi_unknown(), count(1, 0, LAM_EXACT), 1, 0, LAM_AT_LEAST);
    assert_bytes(lmi_unknown(), lmi_exact(0), 0, 0, LAM_UNKNOWN);
    assert_bytes(lmi_unknown(), lmi_unknown(), 0, 0, LAM_UNKNOWN);
}

static double intensity(lam_count flops, lam_count read, lam_count written) {
    const lam_count metric[LAM_N_METRICS] = {
        [LAM_FLOPS] = flops, [LAM_BYTES_READ] = read, [LAM_BYTES_WRITTEN] = written};
    return lam_metric_intensity(metric);
}

static void intensity_is_of_whole_counts(void **state) {
    (void)state;
    assert_true(intensity(lmi_exact(6), lmi_exact(8), lmi_exact(4)) == 0.5);
    assert_true(intensity(lmi_exact(0), lmi_exact(1), lmi_exact(0)) == 0);
    assert_true(intensity(lmi_exact(6), count(1, 0, LAM_EXACT), count(1, 0, LAM_EXACT)) > 0);
    assert_true(intensity(lmi_exact(6), lmi_exact(0), lmi_exact(0)) < 0);
    assert_true(intensity(lmi_at_least(6), lmi_exact(8), lmi_exact(4)) < 0);
    assert_true(intensity(lmi_exact(6), lmi_at_least(8), lmi_exact(4)) < 0);
    assert_true(intensity(lmi_exact(6), lmi_exact(8), lmi_unknown()) < 0);
}

static void sums_and_products_are_checked(void **state) {
    (void)state;
    int64_t out = 0;
    assert_true(lmi_product(NULL, 0, &out));
    assert_int_equal(out, 1);
    assert_true(lmi_product((int64_t[]){2, 3, 4}, 3, &out));
    assert_int_equal(out, 24);
    out = 7;
    assert_false(lmi_product((int64_t[]){2, -1}, 2, &out));
    assert_false(lmi_product((int64_t[]){INT64_MAX, 2}, 2, &out));
    assert_int_equal(out, 7);
    assert_true(lmi_product((int64_t[]){INT64_MAX, 2, 0}, 3, &out));
    assert_int_equal(out, 0);
    assert_false(lmi_product((int64_t[]){0, -1}, 2, &out));
    assert_int_equal(lmi_times(6, 7), 42);
    assert_int_equal(lmi_times(-1, 7), -1);
    assert_int_equal(lmi_times(7, -1), -1);
    assert_int_equal(lmi_times(INT64_MAX, 2), -1);
    assert_int_equal(lmi_times(0, -1), -1);
    assert_int_equal(lmi_plus(6, 7), 13);
    assert_int_equal(lmi_plus(0, -1), -1);
    assert_int_equal(lmi_plus(-1, 1), -1);
    assert_int_equal(lmi_plus(INT64_MAX, 1), -1);
    assert_true(lmi_add_capped(INT64_MAX, 1) == INT64_MAX && lmi_add_capped(INT64_MIN, -1) == INT64_MIN);
    assert_int_equal(lmi_add_capped(6, -7), -1);
}

static void what_divides_is_never_0(void **state) {
    (void)state;
    assert_int_equal(lmi_gcd(12, 18), 6);
    assert_int_equal(lmi_gcd(-12, 18), 6);
    assert_int_equal(lmi_gcd(12, -18), 6);
    assert_int_equal(lmi_gcd(7, 0), 7);
    assert_int_equal(lmi_gcd(0, 7), 7);
    assert_int_equal(lmi_gcd(0, 0), 1);
}

static void states_and_metrics_have_names(void **state) {
    (void)state;
    assert_string_equal(lam_state_name(LAM_EXACT), "exact");
    assert_string_equal(lam_state_name(LAM_AT_LEAST), "at least");
    assert_string_equal(lam_state_name(LAM_UNKNOWN), "unknown");
    assert_string_equal(lam_state_name((lam_state)3), "?");
    assert_string_equal(lam_metric_name(LAM_MACS), "macs");
    assert_string_equal(lam_metric_name(LAM_FLOPS), "flops");
    assert_string_equal(lam_metric_name(LAM_DMAS), "dmas");
    assert_string_equal(lam_metric_name(LAM_N_METRICS), "?");
}

static void assert_text(lam_count c, const char *brief, const char *exact, const char *digits) {
    char text[64];
    assert_int_equal(lam_text_count(text, sizeof text, c, false), strlen(brief));
    assert_string_equal(text, brief);
    assert_int_equal(lam_text_count(text, sizeof text, c, true), strlen(exact));
    assert_string_equal(text, exact);
    assert_int_equal(lam_text_digits(text, sizeof text, c), strlen(digits));
    assert_string_equal(text, digits);
}

static void counts_read_well(void **state) {
    (void)state;
    assert_text(lmi_exact(0), "0", "0", "0");
    assert_text(lmi_exact(512), "512", "512", "512");
    assert_text(lmi_exact(999), "999", "999", "999");
    assert_text(lmi_exact(1000), "1.00 K", "1,000", "1000");
    assert_text(lmi_exact(9994), "9.99 K", "9,994", "9994");
    assert_text(lmi_exact(9995), "10.0 K", "9,995", "9995");
    assert_text(lmi_exact(99949), "99.9 K", "99,949", "99949");
    assert_text(lmi_exact(99950), "100 K", "99,950", "99950");
    assert_text(lmi_exact(999499), "999 K", "999,499", "999499");
    assert_text(lmi_exact(999999), "1.00 M", "999,999", "999999");
    assert_text(lmi_exact(25557032), "25.6 M", "25,557,032", "25557032");
    assert_text(lmi_exact(1814073344), "1.81 G", "1,814,073,344", "1814073344");
    assert_text(lmi_at_least(1814073344), ">= 1.81 G", ">= 1,814,073,344", ">= 1814073344");
    assert_text(lmi_unknown(), "?", "?", "?");
    assert_text(lmi_exact(-1500), "-1.50 K", "-1,500", "-1500");
    assert_text(lmi_exact(INT64_MIN), "-9.22 E", "-9,223,372,036,854,775,808", "-9223372036854775808");
    assert_text(count(1, 0, LAM_EXACT), "9.22 E", "9,223,372,036,854,775,808", "9223372036854775808");
    assert_text(lmi_exact(2000000000000), "2.00 T", "2,000,000,000,000", "2000000000000");
    assert_text(lmi_exact(3000000000000000), "3.00 P", "3,000,000,000,000,000", "3000000000000000");
    assert_text(count(UINT32_MAX, INT64_MAX, LAM_EXACT), "39.6 R", "39,614,081,257,132,168,796,771,975,167",
                "39614081257132168796771975167");
}

static void bytes_read_well(void **state) {
    (void)state;
    static const struct {
        int64_t n;
        const char *text;
    } all[] = {{0, "0 B"},
               {1023, "1023 B"},
               {1024, "1.00 KiB"},
               {10229, "9.99 KiB"},
               {1047552, "1023 KiB"},
               {1048000, "1023 KiB"},
               {1048570, "1.00 MiB"},
               {102400000, "97.7 MiB"},
               {102228128, "97.5 MiB"},
               {INT64_C(1) << 40, "1.00 TiB"},
               {INT64_MAX, "8.00 EiB"}};
    char text[32];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(lam_text_bytes(text, sizeof text, lmi_exact(all[i].n)), strlen(all[i].text));
        assert_string_equal(text, all[i].text);
    }
    lam_text_bytes(text, sizeof text, lmi_at_least(2048));
    assert_string_equal(text, ">= 2.00 KiB");
    lam_text_bytes(text, sizeof text, lmi_unknown());
    assert_string_equal(text, "?");
}

static void texts_are_cut_like_snprintf(void **state) {
    (void)state;
    char text[4] = "xyz";
    assert_int_equal(lam_text_count(text, sizeof text, lmi_exact(1500), false), 6);
    assert_string_equal(text, "1.5");
    assert_int_equal(lam_text_count(NULL, 0, lmi_exact(1500), false), 6);
    int64_t sizes[] = {10, 200, 3};
    lam_shape s = {3, sizes};
    assert_int_equal(lam_text_shape(NULL, 0, s, ","), 8);
    assert_int_equal(lam_text_shape(text, 1, s, ","), 8);
    assert_string_equal(text, "");
    assert_int_equal(lam_text_shape(text, 4, s, ","), 8);
    assert_string_equal(text, "10,");
    for (size_t size = 1; size <= 10; size++) { /* in a buffer of just that size */
        char *exact = malloc(size), whole[16];
        assert_non_null(exact);
        assert_int_equal(lam_text_shape(exact, size, s, ","), 8);
        snprintf(whole, size, "10,200,3");
        assert_string_equal(exact, whole);
        free(exact);
    }
}

static void shapes_read_well(void **state) {
    (void)state;
    char text[64];
    int64_t sizes[] = {1, 64, 112, -1};
    lam_text_shape(text, sizeof text, (lam_shape){3, sizes}, ",");
    assert_string_equal(text, "1,64,112");
    lam_text_shape(text, sizeof text, (lam_shape){4, sizes}, " x ");
    assert_string_equal(text, "1 x 64 x 112 x ?");
    lam_text_shape(text, sizeof text, (lam_shape){2, sizes}, NULL);
    assert_string_equal(text, "1,64");
    assert_int_equal(lam_text_shape(text, sizeof text, (lam_shape){0, NULL}, ","), 2);
    assert_string_equal(text, "()");
    lam_text_shape(text, sizeof text, (lam_shape){-1, NULL}, ",");
    assert_string_equal(text, "?");
}

static void units_scale(void **state) {
    (void)state;
    const char *unit;
    static const struct {
        double value, scaled;
        const char *prefix;
    } all[] = {{0, 0, ""},    {999, 999, ""}, {1000, 1, "k"},   {2.5e6, 2.5, "M"},
               {1e9, 1, "G"}, {5e12, 5, "T"}, {3e18, 3e6, "T"}, {-5000, -5000, ""}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_true(lmi_unit_scale(all[i].value, &unit) == all[i].scaled);
        assert_string_equal(unit, all[i].prefix);
    }
    assert_true(isnan(lmi_unit_scale(NAN, &unit)));
    assert_string_equal(unit, "");
}

static void the_locale_does_not_show(void **state) {
    (void)state;
    char text[32];
    setlocale(LC_ALL, "de_DE.UTF-8"); /* has a decimal comma, where it is installed */
    lam_text_count(text, sizeof text, lmi_exact(1814073344), false);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "1.81 G");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builder_puts),
        cmocka_unit_test(builder_flushes),
        cmocka_unit_test(builder_remembers_lack_of_memory),
        cmocka_unit_test(builder_survives_lack_of_memory),
        cmocka_unit_test(decodes_utf8),
        cmocka_unit_test(cleans_what_drives_a_terminal),
        cmocka_unit_test(ends_of_what_drives_a_terminal),
        cmocka_unit_test(measures_columns),
        cmocka_unit_test(fits_a_prefix),
        cmocka_unit_test(whole_words_are_in_a_list),
        cmocka_unit_test(counts_add_up),
        cmocka_unit_test(counts_saturate),
        cmocka_unit_test(bytes_add_up),
        cmocka_unit_test(intensity_is_of_whole_counts),
        cmocka_unit_test(sums_and_products_are_checked),
        cmocka_unit_test(what_divides_is_never_0),
        cmocka_unit_test(states_and_metrics_have_names),
        cmocka_unit_test(counts_read_well),
        cmocka_unit_test(bytes_read_well),
        cmocka_unit_test(texts_are_cut_like_snprintf),
        cmocka_unit_test(shapes_read_well),
        cmocka_unit_test(units_scale),
        cmocka_unit_test(the_locale_does_not_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
