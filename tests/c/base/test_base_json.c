/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of JSON: values, errors and where they are, limits, and texts changed at random. */
#include "kit/draw.h"

#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

static const lmi_json_limits plain = {.depth = 64, .size = 1 << 24};
static const lmi_json_limits infinite = {.depth = 64, .size = 1 << 24, .infinity = true};

/* A text that is read. */
typedef struct given {
    char *text;
    lmi_json j;
    lam_error e;
    lam_status status;
} given;

static given read_n(const char *text, size_t n, const lmi_json_limits *limits) {
    given g = {.text = __real_malloc(n + 1)};
    memcpy(g.text, text, n);
    g.status = lmi_json_read(&g.j, g.text, n, limits, "a text", &g.e);
    assert_int_equal(g.status, g.e.status);
    if (g.status != LAM_OK) assert_null(g.j.v);
    return g;
}

static given read_text(const char *text) { return read_n(text, strlen(text), &plain); }

static void done(given *g) {
    lmi_json_free(&g->j);
    free(g->text);
}

static void values_are_read(void **state) {
    (void)state;
    given g = read_text(
        " {\"a\": [1, -2.5e1, true], \"b\" :{ } ,\"c\":null,\"d\":\"x\",\"a\":false, \"e\": []}\n\t\r ");
    const lmi_json *j = &g.j;
    int64_t whole = 7;
    double real = 0;
    assert_int_equal(g.status, LAM_OK);
    assert_int_equal(lmi_json_is(j, LMI_JSON_ROOT), LMI_JSON_OBJECT);
    assert_int_equal(lmi_json_size(j, LMI_JSON_ROOT), 6);
    uint32_t a = lmi_json_get(j, LMI_JSON_ROOT, "a"), at[3], n = 0;
    assert_int_equal(lmi_json_size(j, a), 3); /* the first of two */
    LMI_JSON_EACH(j, a, i) at[n++] = i;
    assert_int_equal(n, 3);
    assert_true(lmi_json_as_int(j, at[0], &whole) && whole == 1);
    assert_false(lmi_json_as_int(j, at[1], &whole));
    assert_int_equal(whole, 1);
    assert_true(lmi_json_as_real(j, at[1], &real) && real == -25);
    assert_true(lmi_json_as_real(j, at[0], &real) && real == 1);
    assert_int_equal(lmi_json_is(j, at[2]), LMI_JSON_TRUE);
    assert_false(lmi_json_as_int(j, at[2], &whole) || lmi_json_as_real(j, at[2], &real));
    assert_int_equal(lmi_json_is(j, lmi_json_get(j, LMI_JSON_ROOT, "c")), LMI_JSON_NULL);
    uint32_t d = lmi_json_get(j, LMI_JSON_ROOT, "d"), b = lmi_json_get(j, LMI_JSON_ROOT, "b");
    assert_string_equal(lmi_json_as_text(j, d), "x");
    assert_true(lmi_json_equals(j, d, "x"));
    assert_false(lmi_json_equals(j, d, "xy") || lmi_json_equals(j, d, "") || lmi_json_equals(j, a, "x"));
    assert_null(lmi_json_as_text(j, a));
    assert_int_equal(lmi_json_is(j, b), LMI_JSON_OBJECT);
    assert_int_equal(lmi_json_size(j, b) + lmi_json_size(j, lmi_json_get(j, LMI_JSON_ROOT, "e")), 0);
    done(&g);
}

static void what_is_missing_has_nothing(void **state) {
    (void)state;
    given g = read_text("{\"a\":{\"b\":1},\"n\":5}");
    const lmi_json *j = &g.j;
    int64_t whole;
    uint32_t none = lmi_json_get(j, lmi_json_get(j, LMI_JSON_ROOT, "x"), "b");
    assert_int_equal(none, 0);
    assert_int_equal(lmi_json_is(j, none), LMI_JSON_MISSING);
    assert_int_equal(lmi_json_size(j, none), 0);
    assert_int_equal(lmi_json_get(j, lmi_json_get(j, LMI_JSON_ROOT, "n"), "b"), 0);
    assert_false(lmi_json_as_int(j, none, &whole));
    assert_null(lmi_json_as_text(j, none));
    LMI_JSON_EACH(j, LMI_JSON_ROOT, i) fail_msg("an object was walked as a list, at %u", i);
    LMI_JSON_NAMES(j, none, i) fail_msg("nothing was walked, at %u", i);
    LMI_JSON_EACH(j, none, i) fail_msg("nothing was walked, at %u", i);
    done(&g);
}

static void texts_are_decoded(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"\"\"", ""},
        {"\"plain\"", "plain"},
        {"\"longer than eight bytes, \xc3\xa4 and \xf0\x9f\x99\x82\"",
         "longer than eight bytes, \xc3\xa4 and \xf0\x9f\x99\x82"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"a\\u0041b\\u00e4c\\u20AC\\uD83d\\ude42 and more than that\"",
         "aAb\xc3\xa4"
         "c\xe2\x82\xac\xf0\x9f\x99\x82 and more than that"},
        {"\"\\u0000|\\ud800|\\udc00|\\ud800\\u0041\"", "\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd"
                                                       "A"},
        {"\"\x7f\"", "\x7f"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        given g = read_text(cases[i][0]);
        assert_int_equal(g.status, LAM_OK);
        assert_string_equal(lmi_json_as_text(&g.j, LMI_JSON_ROOT), cases[i][1]);
        assert_int_equal(g.j.v[LMI_JSON_ROOT].n, strlen(cases[i][1]));
        done(&g);
    }
}

static void numbers_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double real;
        bool whole, wide;
    } cases[] = {
        {"0", 0, true, true},
        {"-0", 0, true, true},
        {"9223372036854775807", 9223372036854775807.0, true, true},
        {"-9223372036854775808", -9223372036854775808.0, true, true},
        {"9223372036854775808", 9223372036854775808.0, false, true},
        {"39614081257132168796771975167", 39614081257132168796771975167.0, false, true}, /* 2^95 - 1 */
        {"39614081257132168796771975168", 39614081257132168796771975168.0, false, false},
        {"1.0", 1, false, false},
        {"1e3", 1000, false, false},
        {"-1.5E-3", -0.0015, false, false},
        {"0.1e+2", 10, false, false},
        {"1e999", HUGE_VAL, false, false},
        {"4.9406564584124654e-324", 4.9406564584124654e-324, false, false},
    };
    setlocale(LC_ALL, "de_DE.UTF-8"); /* has a decimal comma, where it is installed */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        given g = read_text(cases[i].text);
        int64_t whole;
        lmi_int128 wide;
        double real = -1;
        assert_int_equal(g.status, LAM_OK);
        assert_int_equal(lmi_json_as_int(&g.j, LMI_JSON_ROOT, &whole), cases[i].whole);
        assert_int_equal(lmi_json_as_wide(&g.j, LMI_JSON_ROOT, &wide), cases[i].wide);
        assert_true(lmi_json_as_real(&g.j, LMI_JSON_ROOT, &real) && real == cases[i].real);
        if (cases[i].whole) assert_true(whole == wide && (double)whole == real);
        done(&g);
    }
    setlocale(LC_ALL, "C");
    char digits[300];
    memset(digits, '1', sizeof digits);
    memcpy(digits, "0.", 2);
    given g = read_n(digits, sizeof digits, &plain);
    double real;
    assert_false(lmi_json_as_real(&g.j, LMI_JSON_ROOT, &real));
    done(&g);
}

static void infinity_is_read_where_it_may_stand(void **state) {
    (void)state;
    static const char text[] = "[Infinity,-Infinity,NaN]";
    given g = read_n(text, strlen(text), &infinite);
    double v[3];
    int n = 0;
    int64_t whole;
    assert_int_equal(g.status, LAM_OK);
    LMI_JSON_EACH(&g.j, LMI_JSON_ROOT, i) {
        assert_false(lmi_json_as_int(&g.j, i, &whole));
        assert_true(lmi_json_as_real(&g.j, i, &v[n++]));
    }
    assert_true(n == 3 && v[0] == HUGE_VAL && v[1] == -HUGE_VAL && isnan(v[2]));
    done(&g);
    given refused = read_text(text);
    assert_int_equal(refused.status, LAM_SYNTAX);
    assert_int_equal(refused.e.at, 1);
    done(&refused);
}

static void errors_name_the_byte(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int at;
        const char *says;
    } cases[] = {
        {"", 0, "it ends where a value should be"},
        {"  ", 2, "it ends where a value should be"},
        {"[1,]", 3, "no value"},
        {"[1 2]", 3, "neither a comma nor the end of the list"},
        {"{\"a\":1 2}", 7, "neither a comma nor the end of the object"},
        {"[1", 2, "neither a comma nor the end of the list"},
        {"{\"a\" 1}", 5, "no colon"},
        {"{a:1}", 1, "no name"},
        {"{\"a\":1,}", 7, "no name"},
        {"{\"a\":}", 5, "no value"},
        {"[1]]", 3, "something behind its end"},
        {"1 2", 2, "something behind its end"},
        {"]", 0, "no value"},
        {"[1}", 2, "neither a comma"},
        {"nul", 0, "no value"},
        {"nulls", 4, "something behind its end"},
        {"NaN", 0, "no value"},
        {"01", 0, "no value"},
        {"1.", 0, "no value"},
        {"1e", 0, "no value"},
        {"-", 0, "no value"},
        {"+1", 0, "no value"},
        {".5", 0, "no value"},
        {"\"abc", 0, "no quote ends the text"},
        {"\"a\\", 2, "there is no such escape"},
        {"\"a\\x\"", 2, "there is no such escape"},
        {"\"\\u12g4\"", 1, "there is no such escape"},
        {"\"\\u12", 1, "there is no such escape"},
        {"\"a\nb\"", 2, "a control character in a text"},
        {"\"ab\xff\"", 3, "no UTF-8"},
        {"\"\xc3\"", 1, "no UTF-8"},
        {"\xef\xbb\xbf{}", 0, "a byte order mark"},
        {"[\xef\xbb\xbf]", 1, "no value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        given g = read_text(cases[i].text);
        if (g.status != LAM_SYNTAX || g.e.at != cases[i].at || !strstr(g.e.text, cases[i].says))
            fail_msg("%s: status %d at %d: %s", cases[i].text, (int)g.status, (int)g.e.at, g.e.text);
        assert_string_equal(g.e.where, "a text");
        done(&g);
    }
    given g = read_n("[\"a\0b\"]", 7, &plain);
    assert_int_equal(g.e.at, 3);
    done(&g);
    g = read_n("1\0", 2, &plain);
    assert_int_equal(g.e.at, 1);
    done(&g);
}

static void limits_hold(void **state) {
    (void)state;
    char text[2 * 100000 + 1];
    size_t n = sizeof text - 1;
    memset(text, '[', n / 2);
    memset(text + n / 2, ']', n / 2);
    lmi_json_limits limits = {.depth = 99999, .size = (uint32_t)n};
    given g = read_n(text, n, &limits);
    assert_int_equal(g.status, LAM_LIMIT);
    assert_int_equal(g.e.at, 99999);
    done(&g);
    limits.depth++;
    g = read_n(text, n, &limits);
    assert_int_equal(g.status, LAM_OK);
    done(&g);
    limits.size--;
    g = read_n(text, n, &limits);
    assert_int_equal(g.status, LAM_LIMIT);
    done(&g);
}

/* Values take more memory than the shortest texts of them. */
static void values_have_a_limit(void **state) {
    (void)state;
    enum { MOST = 1 << 20 };
    for (int wide = 0; wide < 2; wide++) { /* "0," and "1000000," */
        lmi_buf b;
        lmi_buf_init(&b);
        lmi_putc(&b, '[');
        for (int i = 0; i < 2 * MOST; i++) lmi_put(&b, wide ? "1000000," : "0,");
        lmi_put(&b, "1]");
        const lmi_json_limits limits = {.depth = 1, .size = UINT32_MAX};
        given g = read_n(lmi_buf_text(&b), b.n, &limits);
        assert_int_equal(g.status, wide ? LAM_OK : LAM_LIMIT);
        if (!wide) assert_non_null(strstr(g.e.text, "more values than a text of its size should, at byte "));
        done(&g);
        lmi_buf_free(&b);
    }
}

static void names_are_indexed(void **state) {
    (void)state;
    given g = read_text("{\"a\":1,\"b\":{\"x\":1,\"y\":2,\"x\":3},\"c\":[]}");
    lmi_map names;
    lam_error e = {0};
    lmi_map_init(&names);
    assert_int_equal(lmi_json_index(&g.j, LMI_JSON_ROOT, &names, "it", &e), LAM_OK);
    assert_int_equal(lmi_map_get(&names, "c"), lmi_json_get(&g.j, LMI_JSON_ROOT, "c"));
    assert_int_equal(lmi_map_get(&names, "x"), -1);
    lmi_map_free(&names);
    assert_int_equal(lmi_json_index(&g.j, lmi_json_get(&g.j, LMI_JSON_ROOT, "b"), &names, "it", &e),
                     LAM_SYNTAX);
    assert_int_equal(e.at, 25);
    assert_non_null(strstr(e.text, "'x' stands twice"));
    lmi_map_free(&names);
    done(&g);
}

/* -- texts made at random -------------------------------------------------------------------------------- */

static void make_value(lmi_buf *b, int depth, uint32_t *n) {
    static const char *const single[] = {"null",        "true",   "false", "0",
                                         "-12",         "3.25e2", "\"\"",  "\"a b\\u00e4\\n\"",
                                         "\"\xc3\xa4\""};
    static const char *const space[] = {"", " ", "\n\t", "\r"};
    int64_t kind = draw(0, depth > 6 ? 8 : 14), size = draw(0, 4);
    ++*n;
    if (kind <= 8) {
        lmi_put(b, single[kind]);
        return;
    }
    bool object = kind > 11;
    lmi_putc(b, object ? '{' : '[');
    for (int64_t i = 0; i < size; i++) {
        if (i) lmi_putc(b, ',');
        lmi_put(b, space[draw(0, 3)]);
        if (object) {
            lmi_putf(b, "\"n%lld\"%s:%s", (long long)i, space[draw(0, 3)], space[draw(0, 3)]);
            ++*n;
        }
        make_value(b, depth + 1, n);
        lmi_put(b, space[draw(0, 3)]);
    }
    lmi_putc(b, object ? '}' : ']');
}

/* Walks all values by what they say of each other, and returns how many there are. */
/* The path of a value leads to it again. */
static void paths_lead_to_values(void **state) {
    (void)state;
    given g = read_text("{\"a\": [1, {\"b.c\": 2, \"d\": {\"e\": [[3]]}}], \"\": 4}");
    const lmi_json *j = &g.j;
    const struct {
        const char *number, *path;
    } all[] = {{"1", "a[0]"}, {"2", "a[1].b.c"}, {"3", "a[1].d.e[0][0]"}, {"4", ""}};
    lmi_buf b;
    lmi_buf_init(&b);
    size_t found = 0;
    for (uint32_t i = LMI_JSON_ROOT; i < j->n; i++) {
        if (lmi_json_is(j, i) != LMI_JSON_NUMBER) continue;
        lmi_buf_clear(&b);
        lmi_json_put_path(j, i, &b);
        assert_memory_equal(j->text + j->v[i].at, all[found].number, 1);
        assert_string_equal(lmi_buf_text(&b), all[found++].path);
    }
    assert_int_equal(found, 4);
    lmi_buf_clear(&b);
    lmi_json_put_path(j, LMI_JSON_ROOT, &b);
    assert_string_equal(lmi_buf_text(&b), "");
    lmi_buf_free(&b);
    uint32_t in = lmi_json_get(j, LMI_JSON_ROOT, "a") + 2; /* the second value of the list */
    assert_int_equal(lmi_json_find(j, in, "d.e"), lmi_json_get(j, lmi_json_get(j, in, "d"), "e"));
    assert_int_equal(lmi_json_find(j, in, "d.x") + lmi_json_find(j, in, "d.e.f"), 0);
    assert_int_equal(lmi_json_find(j, in, "d."), 0);
    assert_int_equal(lmi_json_find(j, 0, "d"), 0);
    done(&g);
}

static uint32_t walk(const lmi_json *j, uint32_t at) {
    uint32_t n = 1, values = 0;
    assert_true(j->v[at].next > at && j->v[at].next <= j->n);
    LMI_JSON_EACH(j, at, i) {
        n += walk(j, i);
        values++;
    }
    LMI_JSON_NAMES(j, at, i) {
        assert_int_equal(lmi_json_is(j, i), LMI_JSON_TEXT);
        assert_int_equal(j->v[i].next, i + 1);
        n += 1 + walk(j, i + 1);
        values++;
    }
    assert_int_equal(values, lmi_json_size(j, at));
    assert_int_equal(n, j->v[at].next - at);
    return n;
}

static void random_texts_are_read_whole(void **state) {
    (void)state;
    seed = 5;
    for (int round = rounds(3000); round > 0; round--) {
        lmi_buf b;
        lmi_buf_init(&b);
        uint32_t n = 0;
        make_value(&b, 0, &n);
        given g = read_n(b.s, b.n, &plain);
        assert_int_equal(g.status, LAM_OK);
        assert_int_equal(walk(&g.j, LMI_JSON_ROOT), n);
        assert_int_equal(g.j.n, n + 1);
        done(&g);
        for (int change = 0; change < 5; change++) { /* read or refused, and nothing else */
            b.s[draw(0, (int64_t)b.n - 1)] = (char)draw(0, 255);
            g = read_n(b.s, (size_t)draw(0, (int64_t)b.n), change % 2 ? &plain : &infinite);
            if (g.status == LAM_OK) walk(&g.j, LMI_JSON_ROOT);
            done(&g);
        }
        lmi_buf_free(&b);
    }
}

/* -- one at a time --------------------------------------------------------------------------------------- */

typedef struct taken {
    lmi_json j;
    lmi_buf all;
    int left; /* so many more may come */
} taken;

/* Notes a name, the path of the last of what is in its value, and how many values there are. */
static lam_status take_one(void *of, uint32_t name) {
    taken *t = of;
    if (t->left-- == 0) return LAM_IO;
    lmi_putf(&t->all, "%s=", t->j.text + t->j.v[name].at);
    lmi_json_put_path(&t->j, t->j.n - 1, &t->all);
    lmi_putf(&t->all, " %u; ", t->j.n);
    return LAM_OK;
}

static lam_status read_each(taken *t, char *text, int most, lam_error *e) {
    lmi_buf_init(&t->all);
    t->left = most;
    return lmi_json_read_each(&t->j, text, strlen(text), &plain, take_one, t, "it", e);
}

static void values_are_taken_one_at_a_time(void **state) {
    (void)state;
    static const struct {
        const char *text, *all;
        lmi_json_kind kind;
        uint32_t n; /* names or values of the whole */
    } cases[] = {
        {"{\"a\": 1, \"b\": {\"c\": [2, {}]}, \"\": {}, \"d\": {\"e\": {\"f\": \"g\"}}}",
         "a=a 4; b=b.c[1] 8; = 4; d=d.e.f 8; ", LMI_JSON_OBJECT, 4},
        {"{\"a\": [[]]}", "a=a[0] 5; ", LMI_JSON_OBJECT, 1},
        {"{}", "", LMI_JSON_OBJECT, 0},
        {"[{\"a\": 1}, 2]", "", LMI_JSON_LIST, 2},
        {"\"a\"", "", LMI_JSON_TEXT, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        taken t;
        char text[200];
        strcpy(text, cases[i].text);
        assert_int_equal(read_each(&t, text, 9, NULL), LAM_OK);
        assert_string_equal(lmi_buf_text(&t.all), cases[i].all);
        assert_int_equal(lmi_json_is(&t.j, LMI_JSON_ROOT), cases[i].kind);
        assert_int_equal(lmi_json_size(&t.j, LMI_JSON_ROOT), cases[i].n);
        LMI_JSON_NAMES(&t.j, LMI_JSON_ROOT, name) fail(); /* they are forgotten */
        lmi_buf_free(&t.all);
        lmi_json_free(&t.j);
    }
}

static void taking_ends_at_the_first_failure(void **state) {
    (void)state;
    taken t;
    lam_error e = {0};
    char two[] = "{\"a\": 1, \"b\": 2}", damaged[] = "{\"a\": 1, \"b\" 2}";
    assert_int_equal(read_each(&t, two, 1, &e), LAM_IO);
    assert_string_equal(lmi_buf_text(&t.all), "a=a 4; ");
    assert_null(t.j.v);
    lmi_buf_free(&t.all);
    assert_int_equal(read_each(&t, damaged, 9, &e), LAM_SYNTAX);
    assert_string_equal(lmi_buf_text(&t.all), "a=a 4; ");
    assert_int_equal(e.at, 13);
    lmi_buf_free(&t.all);
}

static void read_once(void *arg, bool *ok) {
    (void)arg;
    char text[200] = "[";
    for (int i = 0; i < 60; i++) strcat(text, "1,");
    strcat(text, "{\"a\":\"b\"}]");
    lmi_json j;
    lmi_map names;
    lam_error e = {0};
    lmi_map_init(&names);
    lam_status s = lmi_json_read(&j, text, strlen(text), &plain, "it", &e);
    if (s == LAM_OK) s = lmi_json_index(&j, LMI_JSON_ROOT + 61, &names, "it", &e);
    *ok = oom_check(s, &e);
    lmi_map_free(&names);
    if (s == LAM_OK || j.v) lmi_json_free(&j);
}

static void lack_of_memory_is_told(void **state) {
    (void)state;
    oom_sweep(read_once, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(what_is_missing_has_nothing),
        cmocka_unit_test(texts_are_decoded),
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(infinity_is_read_where_it_may_stand),
        cmocka_unit_test(errors_name_the_byte),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(values_have_a_limit),
        cmocka_unit_test(names_are_indexed),
        cmocka_unit_test(paths_lead_to_values),
        cmocka_unit_test(random_texts_are_read_whole),
        cmocka_unit_test(values_are_taken_one_at_a_time),
        cmocka_unit_test(taking_ends_at_the_first_failure),
        cmocka_unit_test(lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
