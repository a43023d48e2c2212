/* SPDX-License-Identifier: Apache-2.0
 *
 * A difference of weights as lines by module, text, Markdown and JSON. */
#include "kit/weights.h"

#include "report/weights/weights.h"

#include <math.h>

/* A safetensors file of these tensors with these bytes behind its header. */
static void save(const char *file, const char *list, const void *data, size_t n) {
    lmi_buf b = safetensors_made(list);
    assert_true(b.n >= n);
    memcpy(b.s + b.n - n, data, n);
    save_bytes(file, &b);
    lmi_buf_free(&b);
}

static lam_weights_diff *compared(void) {
    static const float before[] = {3, 4, 0, 12, 1, 1, /* head */ 5, 5, 5, 5, /* old */ 1, 2};
    static const float after[] = {3, 4, 3, NAN, 1, 2, /* head */ 5, 5, 5, 5, /* fresh */ 9, 9, 9, 8};
    lam_weights_diff *d = NULL;
    save("a.st",
         "steps I64 1 8; net.0.up.weight F32 2,2 16; net.0.up.bias F32 2 8; net.1.head.weight F32 4 16; "
         "old.up.weight F32 2 8",
         before, sizeof before);
    save("b.st",
         "steps I64 1 8; net.0.up.weight F32 2,2 16; net.0.up.bias F32 2 8; last.head.weight F32 4 16; "
         "fresh.a.weight F32 2 8; fresh.b.weight F32 2 8",
         after, sizeof after);
    last = (lam_error){.at = -1};
    if (lam_weights_diff_new(&d, "a.st", "b.st", NULL, &last) != LAM_OK) fail_msg("%s", last.text);
    return d;
}

static lmi_weights_lines listed(const lam_weights_diff *d, const char *by, int32_t depth) {
    lmi_weights_lines l;
    assert_int_equal(lmi_weights_list(&l, d, by, depth, &last), LAM_OK);
    return l;
}

static const lmi_weights_line *line_of(const lmi_weights_lines *l, const char *path) {
    for (size_t i = 0; i < l->at.n; i++) {
        const lmi_weights_line *x = lmi_vec_at(&l->at, i);
        if (strcmp(x->path, path) == 0) return x;
    }
    fail_msg("there is no line %s", path);
    return NULL;
}

static void near(double is, double should) {
    if (fabs(is - should) > 1e-12 * fabs(should)) fail_msg("%.17g is not %.17g", is, should);
}

static void sums_are_by_module(void **state) {
    (void)state;
    static const float before[] = {3, 4, 0, 12, /* bias */ 1, 1, /* moved */ 5, 6, /* old */ 1, 2};
    static const float after[] = {3, 4, 3, 8, /* bias */ 1, 2, /* moved */ 5, 6, /* fresh */ 9, 9, 9};
    lam_weights_diff *d = NULL;
    save("a.st",
         "net.0.up.weight F32 2,2 16; net.0.up.bias F32 2 8; net.1.a.weight F32 2 8; old.up.w F32 2 8",
         before, sizeof before);
    save("b.st",
         "net.0.up.weight F32 2,2 16; net.0.up.bias F32 2 8; net.1.b.weight F32 2 8; fresh.a.w F32 1 4; "
         "fresh.b.c.w F32 2 8",
         after, sizeof after);
    assert_int_equal(lam_weights_diff_new(&d, "a.st", "b.st", NULL, &last), LAM_OK);
    lmi_weights_lines l = listed(d, NULL, -1);
    assert_int_equal(l.at.n, 4);
    const lmi_weights_line *x = lmi_vec_at(&l.at, 0);
    assert_string_equal(x->path, "net.0.up");
    assert_int_equal(x->n[LAM_WEIGHTS_CHANGED], 2);
    near(x->sum.squares, 9 + 16 + 1);
    near(x->sum.before, 169 + 2);
    near(x->sum.largest, 4);
    assert_int_equal(x->sum.differ, 3);
    assert_int_equal(x->sum.elements, 6);
    assert_string_equal(x->type[1], "float32");
    assert_int_equal(line_of(&l, "fresh")->n[LAM_WEIGHTS_ADDED], 2); /* all that is in it */
    assert_true(line_of(&l, "fresh")->whole);
    assert_true(line_of(&l, "old")->whole);
    assert_int_equal(line_of(&l, "net.1.b")->n[LAM_WEIGHTS_RENAMED], 1);
    near(l.all.sum.squares, 26);
    lmi_weights_lines_free(&l);
    l = listed(d, "elements", 1);
    assert_int_equal(l.at.n, 3);
    x = lmi_vec_at(&l.at, 0);
    assert_string_equal(x->path, "net");
    assert_int_equal(x->n[LAM_WEIGHTS_CHANGED] + x->n[LAM_WEIGHTS_RENAMED], 3);
    lmi_weights_lines_free(&l);
    l = listed(d, NULL, 0);
    assert_int_equal(l.at.n, 1);
    assert_string_equal(((lmi_weights_line *)lmi_vec_at(&l.at, 0))->path, "");
    lmi_weights_lines_free(&l);
    assert_int_equal(lmi_weights_list(&l, d, "nrom", -1, &last), LAM_USAGE);
    lmi_weights_lines_free(&l);
    lam_weights_diff_free(d);
}

/* Counts of steps, as batch norms have, are whole numbers and would be all of a norm. */
static void whole_numbers_are_in_no_sum(void **state) {
    (void)state;
    const int64_t before[] = {1000, 5}, after[] = {2000, 5};
    lam_weights_diff *d = NULL;
    save("a.st", "bn.weight F32 1 4; bn.n I64 1 8; other.n I64 1 8", before, sizeof before);
    save("b.st", "bn.weight F16 1 2; bn.n I64 1 8; other.n I64 1 8", after, sizeof after);
    assert_int_equal(lam_weights_diff_new(&d, "a.st", "b.st", NULL, &last), LAM_OK);
    lmi_weights_lines l = listed(d, "largest", -1);
    assert_true(line_of(&l, "bn")->sum.largest == 0);
    assert_true(l.all.sum.largest == 0);
    lmi_weights_lines_free(&l);
    lam_weights_diff_free(d);
    save("b.st", "bn.weight F32 1 4; bn.n I64 1 8; other.n I64 1 8", after, sizeof after);
    assert_int_equal(lam_weights_diff_new(&d, "a.st", "b.st", NULL, &last), LAM_OK);
    l = listed(d, NULL, -1); /* they are shown where nothing else differs */
    assert_int_equal(l.at.n, 1);
    assert_true(line_of(&l, "bn")->sum.largest == 1000);
    assert_false(l.all.sum.compared);
    lmi_weights_lines_free(&l);
    lam_weights_diff_free(d);
}

static lmi_buf written(const lam_weights_diff *d, const char *format, int32_t width, int32_t rows,
                       bool exact) {
    lmi_buf b;
    const lam_diff_options o = {.format = format, .width = width, .rows = rows, .depth = -1, .exact = exact};
    lmi_buf_init(&b);
    last = (lam_error){.at = -1};
    if (lam_weights_diff_write(d, &o, lmi_buf_sink(&b), &last) != LAM_OK) fail_msg("%s", last.text);
    lmi_putc(&b, '\0');
    return b;
}

static void has(const lmi_buf *b, const char *part) {
    if (!strstr(b->s, part)) fail_msg("'%s' is not in: %s", part, b->s);
}

static void every_form_tells_the_same(void **state) {
    (void)state;
    lam_weights_diff *d = compared();
    lmi_buf b = written(d, NULL, 100, -1, false);
    has(&b, "a.st -> b.st");
    has(&b, "changed");
    has(&b, "NaN or Inf");
    lmi_buf_free(&b);
    b = written(d, "text", 40, 1, true);
    has(&b, "rows=0 shows all");
    has(&b, "a larger width shows all");
    lmi_buf_free(&b);
    b = written(d, "md", 0, 0, false);
    has(&b, "### a.st -\\> b.st\n\n| module | tensors |");
    lmi_buf_free(&b);
    b = written(d, "json", 0, -1, false);
    has(&b, "\"schema\": \"lamina.weights/1\"");
    has(&b, "\"path\": \"net.0.up\"");
    lmi_buf_free(&b);
    const lam_diff_options wrong = {.format = "csv"};
    assert_int_equal(lam_weights_diff_write(d, &wrong, lmi_buf_sink(&b), &last), LAM_USAGE);
    assert_string_equal(lam_weights_metric(4), "elements");
    assert_null(lam_weights_metric(5));
    assert_null(lam_weights_metric(-1));
    lam_weights_diff_free(d);
}

static void what_is_not_compared_is_listed_up_to_a_length(void **state) {
    (void)state;
    lmi_buf one, other;
    lam_weights_diff *d = NULL;
    lmi_buf_init(&one);
    lmi_buf_init(&other);
    for (int i = 0; i < 14; i++) {
        lmi_putf(&one, "l.%d.w F4 2 1; ", i);
        lmi_putf(&other, "l.%d.w U8 2 2; ", i);
    }
    save("a.st", one.s, "", 0);
    save("b.st", other.s, "", 0);
    lmi_buf_free(&one);
    lmi_buf_free(&other);
    assert_int_equal(lam_weights_diff_new(&d, "a.st", "b.st", NULL, &last), LAM_OK);
    lmi_buf b = written(d, "text", 100, 5, false);
    has(&b, "? l.0");
    has(&b, "9 more modules");
    has(&b, "14 tensors not compared; none is equal.");
    has(&b, "l.9.w: values of F4 are not read");
    has(&b, "4 more tensors");
    assert_null(strstr(b.s, "l.10.w:"));
    lmi_buf_free(&b);
    b = written(d, "text", 100, 0, false);
    has(&b, "l.13.w:");
    lmi_buf_free(&b);
    lam_weights_diff_free(d);
}

static void write_once(void *format, bool *ok) {
    lmi_buf b;
    lam_error e = {.at = -1};
    static lam_weights_diff *d;
    if (!format) {
        lam_weights_diff_free(d);
        d = NULL;
        return;
    }
    if (!d) { /* only the writing is swept */
        const int64_t at = oom_fail_at;
        oom_disarm();
        d = compared();
        oom_arm(at, oom_and_all_after);
    }
    const lam_diff_options o = {.format = format, .width = 60, .rows = 2, .depth = -1};
    lmi_buf_init(&b);
    *ok = oom_check(lam_weights_diff_write(d, &o, lmi_buf_sink(&b), &e), &e);
    lmi_buf_free(&b);
}

static void no_allocation_is_needed(void **state) {
    (void)state;
    static const char *const formats[] = {"text", "md", "json"};
    for (int i = 0; i < 3; i++) oom_sweep(write_once, (void *)formats[i]);
    write_once(NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_by_module),
        cmocka_unit_test(whole_numbers_are_in_no_sum),
        cmocka_unit_test(every_form_tells_the_same),
        cmocka_unit_test(what_is_not_compared_is_listed_up_to_a_length),
        cmocka_unit_test(no_allocation_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
