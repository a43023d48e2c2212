/* SPDX-License-Identifier: Apache-2.0
 *
 * Which word was meant, what the command asks a host for, and the rules of each convention. */
#include "kit/oom.h"

#include "kit/fakehost.h"

#include "cmd/cmd.h"

/* Insertions, deletions, changes and exchanges of neighbours, by trying all. */
static int32_t tried(const char *a, const char *b) {
    if (!*a || !*b) return (int32_t)(strlen(a) + strlen(b));
    if (*a == *b) return tried(a + 1, b + 1);
    int32_t best = tried(a + 1, b + 1), in = tried(a, b + 1), out = tried(a + 1, b);
    best = in < best ? in : best;
    best = out < best ? out : best;
    int32_t swapped = a[1] == b[0] && a[0] == b[1] ? tried(a + 2, b + 2) : best;
    return 1 + (swapped < best ? swapped : best);
}

static uint32_t next_letter(uint32_t *s) { return (*s = *s * 1664525u + 1013904223u) >> 24; }

static void words_are_as_far_apart_as_they_look(void **state) {
    (void)state;
    uint32_t s = 9;
    for (int round = 0; round < 3000; round++) {
        char a[8] = "", b[8] = "";
        int n = (int)(next_letter(&s) % 7), m = (int)(next_letter(&s) % 7);
        for (int i = 0; i < n; i++) a[i] = (char)('a' + next_letter(&s) % 3);
        for (int i = 0; i < m; i++) b[i] = (char)('a' + next_letter(&s) % 3);
        lmi_near near = lmi_near_start(a);
        lmi_near_put(&near, b);
        int32_t d = tried(a, b), most = n < 4 ? n / 2 : n < 6 ? 2 : n / 3;
        if (d <= most) {
            assert_ptr_equal(near.best, b);
            assert_int_equal(near.distance, d);
        } else {
            assert_null(near.best);
        }
    }
}

/* Of two as near the first; of longer words than there are none. */
static void the_nearest_word(void **state) {
    (void)state;
    lmi_near near = lmi_near_start("shwo");
    static const char *const words[] = {"show", "shoo", "how", "swho"};
    for (int i = 0; i < 4; i++) lmi_near_put(&near, words[i]);
    assert_string_equal(near.best, "show");
    static const char *const long_one = "abcdefghijklmnopqrstuvwxyzabcdef",
                             *const moved = "bcdefghijklmnopqrstuvwxyzabcdefx",
                             *const longer = "abcdefghijklmnopqrstuvwxyzabcdefg";
    near = lmi_near_start(long_one);
    lmi_near_put(&near, longer);
    assert_null(near.best);
    lmi_near_put(&near, moved);
    assert_ptr_equal(near.best, moved);
    assert_int_equal(near.distance, 2);
    near = lmi_near_start(longer);
    lmi_near_put(&near, longer);
    assert_null(near.best);
}

/* Layers are asked for where operators can't be watched, unless it was operators that were asked for. */
static void operators_or_layers(void **state) {
    (void)state;
    static const struct {
        const char *words;
        bool ops, or_layers;
    } all[] = {{"show m:two -i 1x4", true, true},
               {"show m:two -i 1x4 -c exact", true, false},
               {"show m:two -i 1x4 -c layers", false, false},
               {"show m:two -i 1x4 --backward", true, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fake_lives = 0;
        if (lamina(all[i].words) != 0) ERR_HAS("none were watched"); /* the host has only calls */
        assert_int_equal(fake_lives, 1);
        assert_int_equal(fake_asked.ops, all[i].ops);
        assert_int_equal(fake_asked.or_layers, all[i].or_layers);
    }
}

/* Each rule of a convention, and no other's. */
static void rules_of_every_convention(void **state) {
    (void)state;
    for (int32_t convention = 0; convention < lam_n_conventions(); convention++) {
        char line[64], kind[80];
        lam_rule r;
        int32_t n = 0;
        snprintf(line, sizeof line, "rules %s", lam_convention_name(convention));
        assert_int_equal(lamina(line), 0);
        for (; lam_convention_rule(convention, n, &r, NULL) == LAM_OK; n++) {
            snprintf(kind, sizeof kind, "\n%s", r.kind);
            OUT_HAS(kind);
        }
        assert_true(n > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_as_far_apart_as_they_look),
        cmocka_unit_test(the_nearest_word),
        cmocka_unit_test(operators_or_layers),
        cmocka_unit_test(rules_of_every_convention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
