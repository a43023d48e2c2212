/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that flow: labels, items, words, and lines that are laid out already, on pages of any width. */
#include "kit/oom.h"

#include "kit/pages.h"

#include <stdio.h>

static char got[1 << 16];

static const char *text_of(lmi_buf *b) {
    assert_false(b->bad);
    snprintf(got, sizeof got, "%s", lmi_buf_text(b));
    lmi_buf_free(b);
    return got;
}

static const char *words(const char *text, size_t width, size_t indent, bool whole) {
    lmi_buf b;
    lmi_flow f;
    lmi_buf_init(&b);
    lmi_flow_start(&f, &b, width, indent);
    f.whole = whole;
    lmi_flow_words(&f, NULL, text);
    lmi_flow_end(&f);
    return text_of(&b);
}

static void words_go_on_in_the_next_line(void **state) {
    (void)state;
    assert_string_equal(words("one two three", 0, 0, false), "one two three\n");
    assert_string_equal(words("one two three", 13, 0, false), "one two three\n");
    assert_string_equal(words("one two three", 12, 0, false), "one two\nthree\n");
    assert_string_equal(words("one two three", 7, 2, false), "one two\n  three\n");
    assert_string_equal(words("  one   two ", 80, 2, false), "one two\n");
    assert_string_equal(words("", 80, 2, false), "");
    assert_string_equal(words("\u5c42\u5c42 \u5c42", 6, 0, false), "\u5c42\u5c42\n\u5c42\n");
    assert_string_equal(words("\u5c42\u5c42 \u5c42", 7, 0, false), "\u5c42\u5c42 \u5c42\n");
}

static void a_long_word_is_cut_or_stays_whole(void **state) {
    (void)state;
    assert_string_equal(words("a torch.nn.Linear b", 8, 0, false), "a\ntorch.nn\n.Linear\nb\n");
    assert_string_equal(words("a torch.nn.Linear b", 8, 0, true), "a\ntorch.nn.Linear\nb\n");
    assert_string_equal(words("\u5c42a", 1, 0, false), "\u5c42\na\n");
    assert_string_equal(words("ab cd", 2, 5, false), "ab\ncd\n"); /* no room for an indent */
}

static const char *labelled(const char *label, size_t gap, const char *text, size_t width) {
    lmi_buf b;
    lmi_flow f;
    lmi_buf_init(&b);
    lmi_flow_start(&f, &b, width, 8);
    lmi_flow_label(&f, "2", label, gap);
    lmi_flow_words(&f, NULL, text);
    lmi_flow_label(&f, NULL, "", 0);
    lmi_flow_words(&f, NULL, "below");
    lmi_flow_end(&f);
    return text_of(&b);
}

static void a_label_is_before_its_text(void **state) {
    (void)state;
    assert_string_equal(labelled("  a", 0, "one two", 80), "  a     one two\n        below\n");
    assert_string_equal(labelled("  a", 4, "one two", 80), "  a    one two\n        below\n");
    assert_string_equal(labelled("longer than that", 0, "one", 80), "longer than that one\n        below\n");
    assert_string_equal(labelled("a", 0, "one two", 14), "a       one\n        two\n        below\n");
    assert_string_equal(labelled("a", 0, "", 80), "a\n        below\n"); /* and no spaces at its end */
}

static const char *items(const char *const *item, const char *between, size_t width, bool color) {
    lmi_buf b;
    lmi_flow f;
    lmi_buf_init(&b);
    lmi_flow_start(&f, &b, width, 2);
    f.color = color;
    for (; *item; item++) lmi_flow_item(&f, "1", *item, between);
    lmi_flow_end(&f);
    return text_of(&b);
}

static void items_have_something_between_them(void **state) {
    (void)state;
    static const char *const three[] = {"one two", "three", "four", NULL}, *const one[] = {"one two", NULL};
    assert_string_equal(items(three, " - ", 80, false), "one two - three - four\n");
    assert_string_equal(items(three, ", ", 80, false), "one two, three, four\n");
    assert_string_equal(items(three, " - ", 14, false), "one two\n  three - four\n");
    assert_string_equal(items(three, ", ", 14, false), "one two,\n  three, four\n");
    assert_string_equal(items(three, ", ", 6, false), "one\n  two,\n  thre\n  e,\n  four\n");
    assert_string_equal(items(one, " - ", 5, true), "\x1b[1mone\x1b[0m\n  \x1b[1mtwo\x1b[0m\n");
    assert_string_equal(items(one, " - ", 80, true), "\x1b[1mone\x1b[0m\x1b[1m \x1b[0m\x1b[1mtwo\x1b[0m\n");
}

static const char *line(const char *text, size_t width, size_t further) {
    lmi_buf b;
    lmi_buf_init(&b);
    lmi_flow_line(&b, width, text, further);
    return text_of(&b);
}

static void a_line_goes_on_below_its_last_column(void **state) {
    (void)state;
    const char *text = "  macs      4 times 4 products";
    assert_string_equal(line(text, 0, 2), text);
    assert_string_equal(line(text, 30, 2), text);
    assert_string_equal(line(text, 29, 2), "  macs      4 times 4\n            products");
    assert_string_equal(line(text, 22, 2),
                        "  macs 4 times 4\n    products"); /* its column is too far right */
    assert_string_equal(line("one  two three", 10, 0), "one  two\n     three");
    assert_string_equal(line("one two three", 8, 3), "one two\n   three");
    assert_string_equal(line("\u00e9\u00e9  one two", 10, 0), "\u00e9\u00e9  one\n    two");
}

/* Text without order, the same in each run. */
static void made_text(char *to, size_t room, uint64_t seed) {
    static const char *const pieces[] = {"a", "bc", "\u00e9", "\u5c42", " ", " ", "-", "torch.nn", "  "};
    size_t n = 0;
    for (uint64_t x = seed * 2 + 1; n + 16 < room;) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        n += (size_t)snprintf(to + n, room - n, "%s", pieces[(x >> 33) % (sizeof pieces / sizeof *pieces)]);
    }
}

static void nothing_is_wider_than_the_page_and_no_word_is_lost(void **state) {
    (void)state;
    char text[300], all[320];
    for (uint64_t seed = 0; seed < 40; seed++) {
        const bool whole = seed % 2;
        made_text(text, sizeof text, seed);
        snprintf(all, sizeof all, "%s of them", text);
        for (size_t width = 4; width < 90; width++) {
            const char *narrow = words(text, width, seed % (width / 2 + 1), whole);
            page_same_words(text, narrow, whole);
            page_fits(narrow, width, whole);
            narrow = items((const char *const[]){text, "of", "them", NULL}, " ", width, false);
            page_same_words(all, narrow, false);
            page_fits(narrow, width, false);
            if (lmi_width(text) <= width) continue;
            narrow = line(text, width, seed % 4);
            page_same_words(text, narrow, true);
            page_fits(narrow, width, true);
        }
    }
}

static void flow_all(void *unused, bool *ok) {
    (void)unused;
    lmi_buf b;
    lmi_flow f;
    lmi_buf_init(&b);
    lmi_flow_start(&f, &b, 30, 4);
    lmi_flow_label(&f, NULL, "label", 0);
    lmi_flow_item(&f, NULL, "an item of several words, wider than the page", " - ");
    lmi_flow_item(&f, NULL, "another", " - ");
    lmi_flow_end(&f);
    lmi_flow_line(&b, 20, "a line that is wider than the page, and then some", 2);
    *ok = lmi_buf_status(&b, NULL) == LAM_OK;
    lmi_buf_free(&b);
}

static void memory_runs_out(void **state) {
    (void)state;
    oom_sweep(flow_all, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_go_on_in_the_next_line),
        cmocka_unit_test(a_long_word_is_cut_or_stays_whole),
        cmocka_unit_test(a_label_is_before_its_text),
        cmocka_unit_test(items_have_something_between_them),
        cmocka_unit_test(a_line_goes_on_below_its_last_column),
        cmocka_unit_test(nothing_is_wider_than_the_page_and_no_word_is_lost),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
